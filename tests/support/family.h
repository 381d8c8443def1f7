/* Small random checkpoints of model families compared with their float64 references: logits, and
 * greedy tokens if the choice is clear. Odd sizes, and prompts longer than the windows. */
#ifndef DGL_TESTS_FAMILY_H
#define DGL_TESTS_FAMILY_H

#include "tests/support/reference.h"

/* Returns the folder of a family's unpacked checkpoint. Skips the running case if the test data is
 * missing. Static buffer. */
const char *family_dir(const char *family);

struct family_case {
    const char *name; /* of the case */
    const char *family;
    enum dgl_kv_type kv_type;
    const char *limits; /* NULL = the device's own */
    int32_t chunk;      /* 0 = the default */
};
/* One family's checkpoint through the engine. */
void family_check(const struct family_case *c);
/* Tests only its first prompt, with a few tokens: for drivers that interpret shaders. */
void family_check_first(const struct family_case *c);
/* The same with hints for kernels, as JSON; may be NULL. */
void family_check_hinted(const struct family_case *c, const char *hints);
/* The same as a test function over a table of family_case. */
void family_matches_its_reference(void **state);

#endif
