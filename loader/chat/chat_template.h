/* chat_template.h: the parsed templates of a model. Renders JSON messages with them. */
#ifndef DGL_LOADER_CHAT_TEMPLATE_H
#define DGL_LOADER_CHAT_TEMPLATE_H

#include "loader/chat/reply_format.h"
#include "loader/jinja/jinja.h"
#include "loader/model/chat_source.h"

/* Immutable after creation. */
struct dgl_template {
    struct jinja_template *plain;       /* NULL: the model only has a template for tools */
    struct jinja_template *with_tools;  /* NULL: `plain` is used with tools too */
    const struct reply_format *replies; /* NULL: the format of tool calls is unknown */
    bool thinks;                        /* a template contains <think> */
    bool knows_developer;               /* a template names the role developer */
    struct dgl_buf source;              /* text of both templates, then the tags of answers */
    struct dgl_json_doc *constants; /* {"tokens": {"bos_token": ...}, "yes": true, "no": false} */
};

/* Chooses a template of `source` by params->name (NULL: see dgl_template_params), or parses the
 * file params->file. params->path is the path of the model, for messages. */
enum dgl_status chat_template_create(const struct dgl_log *log, const struct chat_source *source,
                                     const struct dgl_template_params *params,
                                     struct dgl_template **out);
void chat_template_destroy(struct dgl_template **tmpl);

/* Returns text that contains all tokens which the templates and answers use as markup. */
struct dgl_str chat_template_markup(const struct dgl_template *tmpl);
/* Returns true if a template uses this variable. */
bool chat_template_reads(const struct dgl_template *tmpl, struct dgl_str variable);

/* Appends the text to `text`, and its taint (see jinja_render()) to `taint` unless `taint` is
 * NULL. */
enum dgl_status chat_template_render(const struct dgl_log *log, const struct dgl_template *tmpl,
                                     const struct dgl_render_params *params, struct dgl_buf *text,
                                     struct dgl_buf *taint);

#endif
