/* tok_post.h: the "post_processor" of tokenizer.json: ids around those of the text. */
#ifndef DGL_LOADER_TOK_POST_H
#define DGL_LOADER_TOK_POST_H

#include "core/base/json.h"
#include "loader/tokenizer/tokenizer.h"

/* Nested sequences are flattened to the ids before and after the text. `{0}` adds no ids. */
struct tok_post {
    struct token_ids before; /* in order */
    struct token_ids behind;
};

/* `json` may be NULL or null. Ids above `max_id` are DGL_ERR_FORMAT. */
enum dgl_status tok_post_load(struct dgl_json_reader r, const struct dgl_json *json, int64_t max_id,
                              struct tok_post *out);
void tok_post_finish(struct tok_post *post);

#endif
