/*
 * kernel_shape.h: a size of an operation from a text such as "weight=q4_k,K=4096,N=14336":
 * attributes and constants of docs/operations.md, and tokens (of the pass), pos (tokens in the
 * cache before), rows (of weights). What is left out is typical of the operation.
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

/* Fits a text (NULL: all typical) to a kernel of the judge's set. `weight` not NULL: the word of
 * that attribute where the text has none. False in *fits: the kernel cannot run that here, `why`
 * says by which rule. DGL_ERR_INVALID_ARG names what the text has wrong. */
enum dgl_status kernel_shape_fit(struct kernel_judge *judge, const struct kernel *kernel,
                                 const char *text, const char *weight, struct kernel_shape *out,
                                 bool *fits, char why[192]);
/* DGL_ERR_INVALID_ARG names what the text has wrong, whatever the device. */
enum dgl_status kernel_shape_check(const struct dgl_log *log, const struct kernel *kernel,
                                   const char *text);
/* Whether the text has that attribute. */
bool kernel_shape_has(const char *text, const char *key);
/* The i-th word of `weight` that the kernel serves; NULL beyond the last, and where it has none. */
const char *kernel_shape_weight(const struct kernel *kernel, size_t i);

#endif
