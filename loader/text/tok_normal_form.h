/* tok_normal_form.h: Unicode normal forms with the data of Unicode 9.0, as in the reference. */
#ifndef DGL_LOADER_TOK_NORMAL_FORM_H
#define DGL_LOADER_TOK_NORMAL_FORM_H

#include <stdint.h>

#include "loader/text/taint.h"

enum tok_normal_form { TOK_NFC, TOK_NFD, TOK_NFKC, TOK_NFKD };

/* Appends `text` (valid UTF-8) in the form, and its taint, if any, to `taint`. *cps is working
 * memory (free with free()). Returns false if memory is exhausted. */
bool tok_normal_form(enum tok_normal_form form, struct tainted_text text, uint32_t **cps,
                     size_t *cap, struct dgl_buf *out, struct dgl_buf *taint);

#endif
