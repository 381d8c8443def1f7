/* tok_metaspace.h: the fields of Metaspace, which is both a pre-tokenizer and a decoder. */
#ifndef DGL_LOADER_TOK_METASPACE_H
#define DGL_LOADER_TOK_METASPACE_H

#include "core/base/json.h"

/* Pieces to which a mark is prepended if they do not begin with one. */
enum tok_prepend_scheme { TOK_PREPEND_ALWAYS, TOK_PREPEND_FIRST, TOK_PREPEND_NEVER };

struct tok_metaspace {
    enum tok_prepend_scheme scheme;
    char mark[4]; /* the character that replaces a blank */
    size_t mark_len;
    bool split; /* cut before every mark */
};

/* Newer files have prepend_scheme, older ones add_prefix_space. */
enum dgl_status tok_metaspace_load(struct dgl_json_reader r, const struct dgl_json *json,
                                   struct tok_metaspace *out);

#endif
