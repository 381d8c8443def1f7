/* Chooses one of a model's templates and lists the variables of a render. */
#include "loader/chat/chat_template.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/file.h"
#include "core/base/mem.h"

enum { max_template_bytes = 1 << 20 };

/* ---- creating -------------------------------------------------------------------------------- */

/* Looks for the format of tool calls and for <think> in the text of a template. Call it for the
 * template for tools last: the last format found is used. */
static void look_for_replies(struct dgl_template *tmpl, struct dgl_str text)
{
    const struct reply_format *found = reply_format_find(text);
    tmpl->replies = found ? found : tmpl->replies;
    tmpl->thinks |= reply_format_thinks(text);
}

/* Parses one template of a model. Its name in messages is "PATH/chat_template.jinja", followed by
 * the name of the template if the file has several. */
static enum dgl_status parse_source(const struct dgl_log *log, const char *path,
                                    const struct chat_source_template *from,
                                    struct jinja_template **out)
{
    struct dgl_buf name = {0};
    bool plain = from->file || strcmp(from->name.p, CHAT_DEFAULT) == 0;
    dgl_buf_printf(&name, "%s/%s%s%s", path, from->origin.p, plain ? "" : " ",
                   plain ? "" : from->name.p);
    enum dgl_status status = name.failed
                                 ? dgl_fail_memory(log, path, strlen(path))
                                 : jinja_parse(log, name.p, from->text.p, from->text.len, out);
    dgl_buf_finish(&name);
    return status;
}

static enum dgl_status fail_missing(const struct dgl_log *log, const struct chat_source *source,
                                    const char *path, const char *name)
{
    if (source->count == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s: the model has no chat template; give one with --template FILE", path);
    struct dgl_buf names = {0};
    for (size_t i = 0; i < source->count; i++)
        dgl_buf_printf(&names, "%s%s", i ? ", " : "", source->templates[i].name.p);
    enum dgl_status status = dgl_fail(
        log, DGL_ERR_INVALID_ARG, "%s: the model has no chat template \"%s\"; it has %s", path,
        name ? name : CHAT_DEFAULT, DGL_PRINTABLE(names.failed ? "others" : names.p));
    dgl_buf_finish(&names);
    return status;
}

/* As in transformers, the template for tools replaces the plain one if tools are given and both
 * come from the same place. All files with one template each are one place. */
static enum dgl_status choose(const struct dgl_log *log, const struct chat_source *source,
                              const struct dgl_template_params *params, struct dgl_template *out)
{
    const struct chat_source_template *plain =
        chat_source_find(source, params->name ? params->name : CHAT_DEFAULT);
    const struct chat_source_template *tools =
        params->name ? NULL : chat_source_find(source, CHAT_TOOL_USE);
    if (!plain)
        return fail_missing(log, source, params->path, params->name);
    enum dgl_status status = parse_source(log, params->path, plain, &out->plain);
    look_for_replies(out, (struct dgl_str){plain->text.p, plain->text.len});
    if (status == DGL_OK && tools &&
        ((tools->file && plain->file) || strcmp(tools->origin.p, plain->origin.p) == 0)) {
        status = parse_source(log, params->path, tools, &out->with_tools);
        look_for_replies(out, (struct dgl_str){tools->text.p, tools->text.len});
    }
    return status;
}

static enum dgl_status write_constants(const struct dgl_log *log, const struct chat_source *source,
                                       struct dgl_template *out)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_object(&w);
    dgl_jw_field_bool(&w, "yes", true);
    dgl_jw_field_bool(&w, "no", false);
    dgl_jw_field_object(&w, "tokens");
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++) {
        const struct chat_source_token *token = &source->tokens[i];
        if (!token->found)
            continue;
        dgl_jw_field_str(&w, token->name, (struct dgl_str){token->text.p, token->text.len});
    }
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
    enum dgl_status status =
        text.failed ? dgl_fail_memory(log, "special tokens", text.len)
                    : dgl_json_parse(log, "special tokens", text.p, text.len, &out->constants);
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status chat_template_create(const struct dgl_log *log, const struct chat_source *source,
                                     const struct dgl_template_params *params,
                                     struct dgl_template **out)
{
    struct dgl_template *tmpl = dgl_new(struct dgl_template);
    enum dgl_status status;
    char *text = NULL;
    size_t len = 0;
    *out = NULL;
    if (!tmpl)
        return dgl_fail_memory(log, "chat template", sizeof(*tmpl));
    TRY(write_constants(log, source, tmpl));
    if (params->file) {
        TRY(dgl_stream_slurp(log, params->file, max_template_bytes, &text, &len));
        TRY(jinja_parse(log, params->file, text, len, &tmpl->plain));
        look_for_replies(tmpl, (struct dgl_str){text, len});
    } else {
        TRY(choose(log, source, params, tmpl));
    }
    *out = tmpl;
done:
    free(text);
    if (status != DGL_OK)
        chat_template_destroy(&tmpl);
    return status;
}

void chat_template_destroy(struct dgl_template **tmpl)
{
    if (!*tmpl)
        return;
    jinja_destroy(&(*tmpl)->plain);
    jinja_destroy(&(*tmpl)->with_tools);
    dgl_json_destroy(&(*tmpl)->constants);
    free(*tmpl);
    *tmpl = NULL;
}

/* ---- rendering ------------------------------------------------------------------------------- */

/* Variables of one render. If a name repeats, the last variable is used. */
struct variables {
    struct jinja_variable *items;
    size_t count;
};

static void add(struct variables *v, struct dgl_str name, const struct dgl_json *value,
                bool trusted)
{
    v->items[v->count++] = (struct jinja_variable){name, value, trusted};
}

static void add_members(struct variables *v, const struct dgl_json *object, bool trusted)
{
    for (const struct dgl_json *m = dgl_json_first(object); m; m = dgl_json_next(m))
        add(v, dgl_json_key(m), m, trusted);
}

static enum dgl_status check_messages(struct dgl_json_reader r, const struct dgl_json *messages,
                                      const struct dgl_render_params *params)
{
    for (const struct dgl_json *m = dgl_json_first(messages); m; m = dgl_json_next(m))
        if (!dgl_json_is(m, DGL_JSON_OBJECT))
            return dgl_json_fail(r, m, "%s, wanted a message: an object with role and content",
                                 dgl_json_type_name(dgl_json_type(m)));
    size_t count = dgl_json_count(messages);
    for (size_t i = 0; i < params->num_answers; i++) {
        size_t index = params->answers[i].message;
        if (index >= count || (i > 0 && index <= params->answers[i - 1].message))
            return dgl_fail(r.log, DGL_ERR_INVALID_ARG,
                            "answers[%zu] is for message %zu, wanted ascending indices below %zu",
                            i, index, count);
    }
    return DGL_OK;
}

/* Lists the variables that transformers passes to a template. `tools` and `documents` are always
 * defined. */
static bool list_variables(const struct dgl_template *tmpl, const struct dgl_json *root,
                           const struct dgl_json *messages, bool generation_prompt,
                           struct variables *out)
{
    enum { fixed = 5 };
    bool object = dgl_json_is(root, DGL_JSON_OBJECT);
    const struct dgl_json *constants = dgl_json_root(tmpl->constants);
    const struct dgl_json *tokens = dgl_json_get(constants, "tokens");
    size_t most = fixed + dgl_json_count(tokens) + (object ? dgl_json_count(root) : 0);
    *out = (struct variables){.items = dgl_new_array(struct jinja_variable, most)};
    if (!out->items)
        return false;
    add_members(out, tokens, true);
    add(out, DGL_STR("tools"), NULL, false);
    add(out, DGL_STR("documents"), NULL, false);
    add(out, DGL_STR("add_generation_prompt"), dgl_json_get(constants, "no"), true);
    if (object)
        add_members(out, root, false);
    add(out, DGL_STR("messages"), messages, false);
    if (generation_prompt)
        add(out, DGL_STR("add_generation_prompt"), dgl_json_get(constants, "yes"), true);
    return true;
}

enum dgl_status chat_template_render(const struct dgl_log *log, const struct dgl_template *tmpl,
                                     const struct dgl_render_params *params, struct dgl_buf *text,
                                     struct dgl_buf *taint)
{
    struct dgl_json_doc *doc = NULL;
    struct variables variables = {0};
    size_t *answers = NULL;
    enum dgl_status status;
    if (!params || !params->messages)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "no messages were given");
    const char *name = params->messages_name ? params->messages_name : "messages";
    size_t len = params->messages_len ? params->messages_len : strlen(params->messages);
    TRY(dgl_json_parse(log, name, params->messages, len, &doc));

    /* The root is an array of messages, or an object with one. */
    const struct dgl_json *root = dgl_json_root(doc), *messages = root;
    struct dgl_json_reader reader = {log, doc};
    if (dgl_json_is(root, DGL_JSON_OBJECT))
        TRY(dgl_json_need(reader, root, "messages", DGL_JSON_ARRAY, &messages));
    else if (!dgl_json_is(root, DGL_JSON_ARRAY))
        TRY(dgl_json_fail(reader, root,
                          "%s, wanted an array of messages, or an object with messages",
                          dgl_json_type_name(dgl_json_type(root))));
    TRY(check_messages(reader, messages, params));

    /* The template sees the local time, as in transformers. */
    struct tm now;
    time_t clock = time(NULL);
    localtime_r(&clock, &now);
    if (params->now)
        now = *params->now;
    answers = dgl_new_array(size_t, params->num_answers);
    if (!answers ||
        !list_variables(tmpl, root, messages, params->add_generation_prompt, &variables))
        TRY(dgl_fail_memory(log, "variables of a template", sizeof(*variables.items)));
    for (size_t i = 0; i < params->num_answers; i++)
        answers[i] = params->answers[i].message;
    const struct jinja_params render = {.variables = variables.items,
                                        .num_variables = variables.count,
                                        .now = &now,
                                        .answers = answers,
                                        .num_answers = params->num_answers};
    bool tools = dgl_json_type(dgl_json_get(root, "tools")) != DGL_JSON_NULL;
    status = jinja_render(log, tools && tmpl->with_tools ? tmpl->with_tools : tmpl->plain, &render,
                          text, taint);
done:
    free(variables.items);
    free(answers);
    dgl_json_destroy(&doc);
    return status;
}
