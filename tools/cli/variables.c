/* Variables of the chat template from the command line. */
#include "tools/cli/variables.h"

#include <string.h>

#include "core/base/log.h"
#include "tools/cli/console.h"

#define NAME "--chat-template-kwargs"

bool variables_parse(const struct options *opt, const char *command, struct dgl_json_doc **doc)
{
    /* The last two are members of saved conversations. */
    static const char *const own[] = {
        "messages", "tools", "add_generation_prompt", "continue_final_message",
        "answers",  "hidden"};
    const bool served = strcmp(command, "serve") == 0;
    const size_t count = strcmp(command, "chat") == 0 ? 6 : 4;
    struct dgl_error why = {""};
    *doc = NULL;
    if (!opt->template_kwargs)
        return true;
    if (dgl_json_parse(&(const struct dgl_log){.error = &why}, NAME, opt->template_kwargs,
                       strlen(opt->template_kwargs), doc) != DGL_OK)
        return console_refuse("%s", why.text);
    const struct dgl_json *root = dgl_json_root(*doc);
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        return console_refuse(NAME ": %s, wanted an object such as {\"enable_thinking\": false}",
                              dgl_json_type_name(dgl_json_type(root)));
    for (size_t i = 0; i < count; i++)
        if (dgl_json_get(root, own[i]))
            return console_refuse(NAME ": %s comes with %s", own[i],
                                  served ? "each request" : "the messages");
    return true;
}

bool variables_check(const struct options *opt, const char *command)
{
    struct dgl_json_doc *doc;
    bool ok = variables_parse(opt, command, &doc);
    dgl_json_destroy(&doc);
    return ok;
}

static void write_members(struct dgl_json_writer *w, const struct dgl_json *object,
                          const struct dgl_json *except)
{
    for (const struct dgl_json *v = dgl_json_first(object); v; v = dgl_json_next(v)) {
        if (dgl_json_get(except, dgl_json_key(v).p))
            continue;
        dgl_jw_key_str(w, dgl_json_key(v));
        dgl_jw_value(w, v);
    }
}

enum dgl_status variables_add(const struct dgl_log *log, const struct options *opt,
                              struct dgl_str messages, struct dgl_buf *out)
{
    struct dgl_json_doc *more = NULL, *doc = NULL;
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    struct dgl_error error;
    const struct dgl_log with_error = dgl_log_with_error(log, &error);
    const size_t before = out->len;
    enum dgl_status status = variables_parse(opt, "", &more) ? DGL_OK : DGL_ERR_INVALID_ARG;
    if (status == DGL_OK && more)
        status = dgl_json_parse(&with_error, "messages", messages.p, messages.len, &doc);
    if (status == DGL_ERR_NO_MEMORY)
        dgl_fail(log, status, "%s", error.text);
    if (status != DGL_OK && status != DGL_ERR_FORMAT) {
        dgl_json_destroy(&more);
        return status;
    }
    const struct dgl_json *root = doc ? dgl_json_root(doc) : NULL;
    const bool list = dgl_json_is(root, DGL_JSON_ARRAY);
    if (list || dgl_json_is(root, DGL_JSON_OBJECT)) {
        dgl_jw_object(&w);
        if (list) {
            dgl_jw_key(&w, "messages");
            dgl_jw_value(&w, root);
        } else {
            write_members(&w, root, dgl_json_root(more));
        }
        write_members(&w, dgl_json_root(more), NULL);
        dgl_jw_end_object(&w);
    } else {
        dgl_buf_append(out, messages.p, messages.len);
        dgl_buf_puts(out, "");
    }
    dgl_json_destroy(&doc);
    dgl_json_destroy(&more);
    return out->failed ? dgl_fail_memory(log, "messages", out->len - before) : DGL_OK;
}
