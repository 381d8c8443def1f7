/* Requests as text, and the patterns by which hints match requests. */
#ifndef DGL_KERNEL_REQUEST_H
#define DGL_KERNEL_REQUEST_H

#include "kernels/kernels.h"

/* Returns the word of the request's attribute `key`, or "none" if it has no such attribute. */
const char *kernel_request_word(const struct kernel_request *request, const char *key);
/* Appends the request as it appears in messages: "matmul weight=q4_k phase=decode". */
void kernel_request_describe(const struct kernel_request *request, struct dgl_buf *out);

/* Returns true if the request has every part of a pattern. A pattern is OP and parts after slashes:
 * `word` (some attribute has it), `key=word` (that attribute has it), `CONST=integer`. */
bool kernel_request_matches(const struct kernel_request *request, struct dgl_str pattern);
/* Splits a part `key=word`. Returns false if it is a word alone, in *word. */
bool kernel_part_split(struct dgl_str part, struct dgl_str *key, struct dgl_str *word);
/* Returns true if the part is a word, `key=word` or `CONST=integer`. */
bool kernel_part_is_valid(struct dgl_str part);
/* Returns true if some kernel has a WHEN line with the key and word of the part, or a CONST line
 * with its constant. For `key=none` and `columns=NUMBER`, a WHEN line with the key is enough. Also
 * true for `layout=WORD`, and for every part if no kernel of the operation has a WHEN line. */
bool kernel_part_is_known(const struct kernel_set *set, struct dgl_str op, struct dgl_str part);
/* Appends the attributes of an operation with their words, as its kernels have them: "phase decode
 * prefill; weight f32 f16". If `consts` is true, appends
 * their constants instead: "H X_STRIDE". */
void kernel_op_words(const struct kernel_set *set, struct dgl_str op, bool consts,
                     struct dgl_buf *out);

#endif
