/* Small random checkpoints of model families against their float64 references: logits, and greedy
 * tokens wherever the choice was clear. Odd sizes throughout, prompts longer than the windows. */
#ifndef DGL_TESTS_FAMILY_H
#define DGL_TESTS_FAMILY_H

#include "tests/support/reference.h"

struct family_case {
    const char *name; /* of the case */
    const char *family;
    enum dgl_kv_type kv_type;
    bool limits_min;
};
/* Test function over a table of family_case; skips when the test data are absent. */
void family_matches_its_reference(void **state);

#endif
