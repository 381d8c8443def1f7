/* oplist_look.h: finds operations and buffers in a list of operations. If one is missing, the test
 * fails. */
#ifndef DGL_TESTS_OPLIST_LOOK_H
#define DGL_TESTS_OPLIST_LOOK_H

#include "core/plan/oplist.h"

/* The n-th operation with that label in that layer. */
const struct op *look_op(const struct oplist *list, const char *label, int32_t layer, int n);
/* Returns "(none)" if the operation has no request with that key. */
const char *look_attr(const struct op *op, const char *key);
/* -1 where it has no such constant. */
int64_t look_const(const struct op *op, const char *name);
struct ref look_ref(const struct op *op, const char *name);
/* The operation binds that buffer. */
void look_at_buffer(const struct op *op, const char *name, enum plan_buffer want);
/* The list is whole, and its labels in order, separated by blanks, are these. */
void look_at_labels(const struct oplist *list, const char *want);

#endif
