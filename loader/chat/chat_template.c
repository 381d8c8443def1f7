/* Chooses one of a model's templates and lists the variables of a render. */
#include "loader/chat/chat_template.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/jinja/jinja_text.h"

enum { max_template_bytes = 1 << 20 };

/* ---- creating -------------------------------------------------------------------------------- */

static bool has(struct dgl_str text, const char *part)
{
    return text.len > 0 && memmem(text.p, text.len, part, strlen(part)) != NULL;
}

/* Keeps the text of a template, and looks there for the format of tool calls, for <think> and for
 * the role developer. Call it for the template for tools last: the last format found is used. */
static enum dgl_status look_for_replies(const struct dgl_log *log, struct dgl_template *tmpl,
                                        struct dgl_str text)
{
    const struct reply_format *found = reply_format_find(text);
    tmpl->replies = found ? found : tmpl->replies;
    tmpl->thinks |= reply_format_thinks(text);
    tmpl->knows_developer |= has(text, "'developer'") || has(text, "\"developer\"");
    dgl_buf_append(&tmpl->source, text.p, text.len);
    dgl_buf_putc(&tmpl->source, '\n');
    return tmpl->source.failed ? dgl_fail_memory(log, "chat template", text.len) : DGL_OK;
}

/* Adds the tags of answers to the markup: a template need not contain all of them. */
static enum dgl_status add_reply_tags(const struct dgl_log *log, struct dgl_template *tmpl)
{
    for (size_t i = 0; tmpl->replies && i < REPLY_FORMAT_TOKENS && tmpl->replies->tokens[i]; i++)
        dgl_buf_printf(&tmpl->source, "%s\n", tmpl->replies->tokens[i]);
    if (tmpl->thinks)
        dgl_buf_puts(&tmpl->source, REPLY_THINK_OPEN "\n" REPLY_THINK_CLOSE "\n");
    return tmpl->source.failed ? dgl_fail_memory(log, "chat template", tmpl->source.len) : DGL_OK;
}

struct dgl_str chat_template_markup(const struct dgl_template *tmpl)
{
    return (struct dgl_str){tmpl->source.p, tmpl->source.len};
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
    if (status == DGL_OK)
        status = look_for_replies(log, out, (struct dgl_str){plain->text.p, plain->text.len});
    if (status == DGL_OK && tools &&
        ((tools->file && plain->file) || strcmp(tools->origin.p, plain->origin.p) == 0)) {
        status = parse_source(log, params->path, tools, &out->with_tools);
        if (status == DGL_OK)
            status = look_for_replies(log, out, (struct dgl_str){tools->text.p, tools->text.len});
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
        TRY(look_for_replies(log, tmpl, (struct dgl_str){text, len}));
    } else {
        TRY(choose(log, source, params, tmpl));
    }
    TRY(add_reply_tags(log, tmpl));
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
    dgl_buf_finish(&(*tmpl)->source);
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

/* Named parameters of apply_chat_template() that an object with messages may have. */
struct apply {
    const struct dgl_json *messages;
    bool generation_prompt;
    struct dgl_str field; /* member of the last message that the model continues, or empty */
    struct dgl_str text;  /* its text */
};

static enum dgl_status check_messages(struct dgl_json_reader r, const struct dgl_json *messages,
                                      const struct dgl_render_params *params)
{
    size_t count = dgl_json_count(messages);
    if (count == 0)
        return dgl_json_fail(r, messages, "an empty list, wanted at least one message");
    for (const struct dgl_json *m = dgl_json_first(messages); m; m = dgl_json_next(m))
        if (!dgl_json_is(m, DGL_JSON_OBJECT))
            return dgl_json_fail(r, m, "%s, wanted a message: an object with role and content",
                                 dgl_json_type_name(dgl_json_type(m)));
    for (size_t i = 0; i < params->num_answers; i++) {
        size_t index = params->answers[i].message;
        if (index >= count || (i > 0 && index <= params->answers[i - 1].message))
            return dgl_fail(r.log, DGL_ERR_INVALID_ARG,
                            "answers[%zu] is for message %zu, wanted ascending indices below %zu",
                            i, index, count);
    }
    return DGL_OK;
}

/* ---- continuing a message -------------------------------------------------------------------- */

static const char *const reasoning_names[] = {"reasoning_content", "thinking", "reasoning"};
enum { NUM_REASONING = sizeof(reasoning_names) / sizeof(reasoning_names[0]) };

static const struct dgl_json *not_null(const struct dgl_json *object, const char *key)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    return dgl_json_is(value, DGL_JSON_NULL) ? NULL : value;
}

/* Finds the text of the field apply->field of a message, as transformers does: reasoning has three
 * names, and of a list of parts the last one with a text counts. Fails if the template does not
 * contain the name of the field. */
static enum dgl_status find_continued(struct dgl_json_reader r, const struct dgl_template *tmpl,
                                      const struct dgl_json *message, struct apply *apply)
{
    const struct dgl_str source = {tmpl->source.p, tmpl->source.len};
    const char *name = apply->field.p;
    const struct dgl_json *value = not_null(message, name), *text = value;
    bool reasoning = false, known = has(source, name);
    for (size_t i = 0; i < NUM_REASONING; i++)
        reasoning = reasoning || strcmp(name, reasoning_names[i]) == 0;
    for (size_t i = 0; reasoning && i < NUM_REASONING; i++) {
        known = known || has(source, reasoning_names[i]);
        if (!value && strcmp(name, "reasoning") != 0)
            text = value = not_null(message, reasoning_names[i]);
    }
    if (!value)
        return dgl_json_fail(r, message,
                             "continue_final_message is set but the final message has no "
                             "\"%s\" to continue",
                             name);
    if (!known)
        return dgl_json_fail(r, message,
                             "continue_final_message is set to \"%s\" but this is not an "
                             "accepted field in the chat template",
                             name);
    if (dgl_json_is(value, DGL_JSON_ARRAY)) {
        text = NULL;
        for (const struct dgl_json *v = dgl_json_first(value); v; v = dgl_json_next(v))
            text = dgl_json_get(v, "text") ? dgl_json_get(v, "text") : text;
    }
    if (!dgl_json_is(text, DGL_JSON_STRING))
        return dgl_json_fail(r, value,
                             "continue_final_message is set but the final message has no text");
    apply->text = dgl_json_str(text);
    return DGL_OK;
}

/* Reads the parameters of apply_chat_template() from the root and *params. */
static enum dgl_status read_apply(struct dgl_json_reader r, const struct dgl_template *tmpl,
                                  const struct dgl_json *root,
                                  const struct dgl_render_params *params, struct apply *out)
{
    const struct dgl_json *go_on = not_null(root, "continue_final_message"), *last = NULL;
    *out = (struct apply){.messages = root};
    enum dgl_status status = DGL_OK;
    if (dgl_json_is(root, DGL_JSON_OBJECT))
        TRY(dgl_json_need(r, root, "messages", DGL_JSON_ARRAY, &out->messages));
    else if (!dgl_json_is(root, DGL_JSON_ARRAY))
        TRY(dgl_json_fail(r, root, "%s, wanted an array of messages, or an object with messages",
                          dgl_json_type_name(dgl_json_type(root))));
    TRY(check_messages(r, out->messages, params));
    out->generation_prompt =
        params->add_generation_prompt || dgl_json_bool(dgl_json_get(root, "add_generation_prompt"));
    if (go_on && !dgl_json_is(go_on, DGL_JSON_BOOL) && !dgl_json_is(go_on, DGL_JSON_STRING))
        TRY(dgl_json_fail(r, go_on, "%s, wanted true, false or the name of a member",
                          dgl_json_type_name(dgl_json_type(go_on))));
    if (dgl_json_is(go_on, DGL_JSON_STRING))
        out->field = dgl_json_str(go_on);
    else if (params->continue_final_message || dgl_json_bool(go_on))
        out->field = DGL_STR("content");
    if (out->field.len == 0)
        return DGL_OK;
    if (out->generation_prompt)
        TRY(dgl_fail(r.log, DGL_ERR_INVALID_ARG,
                     "continue_final_message and add_generation_prompt are not compatible: the "
                     "first continues the final message, the second begins a new one"));
    for (const struct dgl_json *m = dgl_json_first(out->messages); m; m = dgl_json_next(m))
        last = m;
    status = find_continued(r, tmpl, last, out);
done:
    return status;
}

/* Returns the last place of the tag that jinja_prepare_messages() appended. The same text in a
 * message does not count. SIZE_MAX: the template did not write it. */
static size_t find_tag(struct dgl_str text, const uint8_t *taint, size_t tag_len)
{
    for (size_t at = text.len < tag_len ? 0 : text.len - tag_len + 1; at-- > 0;)
        if (taint[at] == JINJA_TAINT_TEMPLATE &&
            memcmp(text.p + at, JINJA_CONTINUE_TAG, tag_len) == 0)
            return at;
    return SIZE_MAX;
}

/* Cuts the text from the tag on. If the template removed the blank at the end of the tag, blanks
 * before it are removed, too. */
static enum dgl_status cut_at_tag(const struct dgl_log *log, const char *name, struct dgl_str said,
                                  size_t from, struct dgl_buf *text, struct dgl_buf *taint,
                                  size_t taint_from)
{
    const size_t full = strlen(JINJA_CONTINUE_TAG);
    const struct dgl_str whole = {text->p + from, text->len - from};
    const size_t at = find_tag(whole, (const uint8_t *)taint->p + taint_from, full - 1);
    said = jinja_strip(said, JINJA_STRIP_BOTH);
    if (at == SIZE_MAX || (said.len > 0 && !memmem(whole.p, whole.len, said.p, said.len)))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s: continue_final_message is set but the final message does not appear "
                        "in the chat after applying the chat template: the template removes or "
                        "changes parts of it",
                        name);
    struct dgl_str kept = {whole.p, at};
    if (whole.len - at < full || whole.p[at + full - 1] != ' ')
        kept = jinja_strip(kept, JINJA_STRIP_RIGHT);
    text->len = from + kept.len;
    text->p[text->len] = '\0';
    taint->len = taint_from + kept.len;
    return DGL_OK;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* Lists the variables that transformers passes to a template. `tools` and `documents` are always
 * defined. */
static bool list_variables(const struct dgl_template *tmpl, const struct dgl_json *root,
                           const struct apply *apply, struct variables *out)
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
    for (const struct dgl_json *m = object ? dgl_json_first(root) : NULL; m; m = dgl_json_next(m))
        if (!dgl_str_eq(dgl_json_key(m), "continue_final_message"))
            add(out, dgl_json_key(m), m, false);
    add(out, DGL_STR("messages"), apply->messages, false);
    if (apply->generation_prompt)
        add(out, DGL_STR("add_generation_prompt"), dgl_json_get(constants, "yes"), true);
    return true;
}

enum dgl_status chat_template_render(const struct dgl_log *log, const struct dgl_template *tmpl,
                                     const struct dgl_render_params *params, struct dgl_buf *text,
                                     struct dgl_buf *taint)
{
    struct dgl_json_doc *doc = NULL;
    struct variables variables = {0};
    struct dgl_buf own_taint = {0};
    struct apply apply;
    size_t *answers = NULL;
    enum dgl_status status;
    if (!params || !params->messages)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "no messages were given");
    const char *name = params->messages_name ? params->messages_name : "messages";
    size_t len = params->messages_len ? params->messages_len : strlen(params->messages);
    TRY(dgl_json_parse(log, name, params->messages, len, &doc));
    const struct dgl_json *root = dgl_json_root(doc);
    TRY(read_apply((struct dgl_json_reader){log, doc}, tmpl, root, params, &apply));

    /* The template sees the local time, as in transformers. */
    struct tm now;
    time_t clock = time(NULL);
    localtime_r(&clock, &now);
    if (params->now)
        now = *params->now;
    answers = dgl_new_array(size_t, params->num_answers);
    if (!answers || !list_variables(tmpl, root, &apply, &variables))
        TRY(dgl_fail_memory(log, "variables of a template", sizeof(*variables.items)));
    for (size_t i = 0; i < params->num_answers; i++)
        answers[i] = params->answers[i].message;
    const struct jinja_params render = {.variables = variables.items,
                                        .num_variables = variables.count,
                                        .now = &now,
                                        .answers = answers,
                                        .num_answers = params->num_answers,
                                        .continue_field = apply.field,
                                        .developer_is_system =
                                            params->map_developer && !tmpl->knows_developer};
    bool tools = dgl_json_type(dgl_json_get(root, "tools")) != DGL_JSON_NULL;
    const size_t text_from = text->len;
    taint = taint ? taint : &own_taint;
    const size_t taint_from = taint->len;
    TRY(jinja_render(log, tools && tmpl->with_tools ? tmpl->with_tools : tmpl->plain, &render, text,
                     taint));
    if (apply.field.len > 0)
        TRY(cut_at_tag(log, name, apply.text, text_from, text, taint, taint_from));
done:
    free(variables.items);
    free(answers);
    dgl_buf_finish(&own_taint);
    dgl_json_destroy(&doc);
    return status;
}

bool chat_template_reads(const struct dgl_template *tmpl, struct dgl_str variable)
{
    return (tmpl->plain && jinja_reads(tmpl->plain, variable)) ||
           (tmpl->with_tools && jinja_reads(tmpl->with_tools, variable));
}
