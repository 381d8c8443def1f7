/* What an operation asks for, in words: its attributes, its name, and patterns that hints are keyed
 * by. */
#ifndef DGL_KERNEL_REQUEST_H
#define DGL_KERNEL_REQUEST_H

#include "kernels/kernels.h"

/* The word of the request's attribute `key`; "none" when it has no such attribute. */
const char *kernel_request_word(const struct kernel_request *request, const char *key);
/* "matmul weight=q4_k phase=decode": what messages call a request. */
void kernel_request_describe(const struct kernel_request *request, struct dgl_buf *out);

/* A pattern is OP and parts after slashes, all of which must hold: `word` (some attribute has it),
 * `key=word` (that attribute has it), `CONST=integer`. Returns the number of its parts, OP counted,
 * 0 when it does not match. */
int kernel_request_match(const struct kernel_request *request, const char *pattern);
/* Splits a part `key=word`; false: it is a word alone. */
bool kernel_part_split(struct dgl_str part, struct dgl_str *key, struct dgl_str *word);
/* A pattern in which every part is `word`, `key=word` or `CONST=integer`; its OP is not looked up.
 * Else *bad is the part that is not. */
bool kernel_pattern_check(const char *pattern, struct dgl_str *bad);
/* Whether WHEN and CONST lines of some kernel have the words, keys and constants of such a pattern.
 * Else *bad is the part that none has. */
bool kernel_pattern_known(const struct kernel_set *set, const char *pattern, struct dgl_str *bad);
/* Appends the attributes of an operation with their words, as its kernels have them:
 * "phase decode prefill; weight f32 f16". */
void kernel_op_words(const struct kernel_set *set, struct dgl_str op, struct dgl_buf *out);
/* Appends the constants of the operation, as its kernels ask for them: "H X_STRIDE". */
void kernel_op_consts(const struct kernel_set *set, struct dgl_str op, struct dgl_buf *out);

#endif
