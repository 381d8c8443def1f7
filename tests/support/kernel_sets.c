/* Loading sets of kernels. */
#include "tests/support/kernel_sets.h"

#include "tests/support/test.h"

struct kernel_set *loaded_set(const struct dgl_kernels_params *params)
{
    struct kernel_set *set = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    if (kernel_set_create(&log.log, params, &set) != DGL_OK)
        fail_msg("%s", log.text);
    return set;
}
