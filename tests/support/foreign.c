/* Another user of EGL. */
#include "tests/support/foreign.h"

#include "tests/support/test.h"

struct gl_egl foreign_open(void)
{
    struct gl_node nodes[GL_MAX_NODES];
    char reason[GL_REASON_BYTES];
    struct gl_egl egl;
    int count = 0;
    assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
    for (int i = 0; i < count; i++)
        if (nodes[i].usable && gl_egl_open(&egl, &nodes[i], false, reason))
            return egl;
    fail_msg("no foreign context");
    return egl;
}
