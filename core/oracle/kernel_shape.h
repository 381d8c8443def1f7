/*
 * kernel_shape.h: parses the size of an operation from a text such as "weight=q4_k,K=4096,N=14336".
 * Keys are the attributes and constants of docs/operations.md, and tokens (of the pass), pos
 * (tokens in the cache before), rows (of weights). Omitted keys have typical values of the
 * operation.
 */
#ifndef DGL_CORE_KERNEL_SHAPE_H
#define DGL_CORE_KERNEL_SHAPE_H

#include "core/oracle/kernel_check.h"

enum {
    KERNEL_SHAPE_TEXT = 512,
    KERNEL_SHAPE_MAX = 1 << 20, /* of each number */
};

struct kernel_shape {
    const struct kernel *kernel;
    struct kernel_case c; /* complete; words are in `text` or static */
    struct kernel_choice choice;
    struct kernel_load load;
    char text[KERNEL_SHAPE_TEXT];
};

/* Fits a text to a kernel of the judge's set. If the text is NULL, all values are typical. If
 * `weight` is not NULL, it is the default of that attribute. Clears *fits if the kernel cannot run
 * that here, and `why` names the rule. Returns DGL_ERR_INVALID_ARG and logs the error if the text
 * is wrong. */
enum dgl_status kernel_shape_fit(struct kernel_judge *judge, const struct kernel *kernel,
                                 const char *text, const char *weight, struct kernel_shape *out,
                                 bool *fits, char why[192]);
/* Returns DGL_ERR_INVALID_ARG and logs the error if the text is wrong on every device. */
enum dgl_status kernel_shape_check(const struct dgl_log *log, const struct kernel *kernel,
                                   const char *text);
/* Returns true if the text has that attribute. */
bool kernel_shape_has(const char *text, const char *key);
/* Returns the i-th word of `weight` that the kernel serves, or NULL after the last word. */
const char *kernel_shape_weight(const struct kernel *kernel, size_t i);

#endif
