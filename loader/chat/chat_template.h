/* chat_template.h: struct dgl_template: the templates of a model, parsed, and rendering them with
 * JSON messages. */
#ifndef DGL_LOADER_CHAT_TEMPLATE_H
#define DGL_LOADER_CHAT_TEMPLATE_H

#include "loader/chat/reply_format.h"
#include "loader/jinja/jinja.h"
#include "loader/model/chat_source.h"

/* Immutable after creation. */
struct dgl_template {
    struct jinja_template *plain;       /* NULL: only for conversations with tools */
    struct jinja_template *with_tools;  /* NULL: `plain` does it all */
    const struct reply_format *replies; /* NULL = calls of tools are in no format that is known */
    bool thinks;                        /* a template has <think> */
    struct dgl_json_doc *constants; /* {"tokens": {"bos_token": ...}, "yes": true, "no": false} */
};

/* Templates of `source` by `name` (NULL: see dgl_template_params), or one of the file `file`.
 * `path` is the model's, for messages. */
enum dgl_status chat_template_create(const struct dgl_log *log, const struct chat_source *source,
                                     const struct dgl_template_params *params,
                                     struct dgl_template **out);
void chat_template_destroy(struct dgl_template **tmpl);

/* Appends the text, and its taint (see jinja_render()) when `taint` is not NULL. */
enum dgl_status chat_template_render(const struct dgl_log *log, const struct dgl_template *tmpl,
                                     const struct dgl_render_params *params, struct dgl_buf *text,
                                     struct dgl_buf *taint);

#endif
