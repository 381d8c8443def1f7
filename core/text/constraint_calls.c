/* Grammars of reasoning and of calls of tools, by the format of the template's family. */
#include "core/text/constraint_calls.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "loader/grammar/json_schema.h"

/* ---- parts ----------------------------------------------------------------------------------- */

/* A text of markup: the special token of that name if there is one, else its bytes. */
static struct gr_expr markup(struct grammar_builder *b, const struct answer_form *form,
                             const char *text)
{
    const int32_t id = tokenizer_find_special(form->tok, dgl_str_of(text));
    return id >= 0 ? gr_token(b, id, false) : gr_literal(b, dgl_str_of(text));
}

static struct gr_expr literal(struct grammar_builder *b, const char *text)
{
    return gr_literal(b, dgl_str_of(text));
}

/* Any text up to the markup `end`, and `end`. */
static struct gr_expr text_until(struct grammar_builder *b, const struct answer_form *form,
                                 const char *end)
{
    struct gr_expr any = gr_repeat(b, gr_any(b), 0, GR_UNBOUNDED);
    if (tokenizer_find_special(form->tok, dgl_str_of(end)) < 0) {
        const struct gr_expr around[] = {any, literal(b, end), any};
        any = gr_dfa_expr(b, gr_dfa_not(b, gr_dfa_of(b, gr_seq(b, around, 3))));
    }
    return gr_seq2(b, any, markup(b, form, end));
}

static struct gr_expr blank(struct grammar_builder *b)
{
    static const struct gr_cp_range ranges[] = {{' ', ' '}, {'\n', '\n'}};
    return gr_repeat(b, gr_class(b, ranges, 2, false), 0, 4);
}

/* A message of harmony up to its body: "<|channel|>", the words, "<|message|>". */
static struct gr_expr channel(struct grammar_builder *b, const struct answer_form *form,
                              const char *words)
{
    const struct gr_expr head[] = {markup(b, form, "<|channel|>"), literal(b, words),
                                   markup(b, form, "<|message|>")};
    return gr_seq(b, head, 3);
}

struct gr_expr answer_form_message(struct grammar_builder *b, const struct answer_form *form,
                                   struct gr_expr body)
{
    const struct reply_format *format = form->tmpl->replies;
    return format && format->channels ? gr_seq2(b, channel(b, form, "final"), body) : body;
}

bool answer_form_is_open(const struct answer_form *form)
{
    return form->tmpl->thinks &&
           dgl_str_ends(dgl_str_trim(dgl_str_of(form->prompt_end)), REPLY_THINK_OPEN);
}

struct gr_expr answer_form_lead(struct grammar_builder *b, const struct answer_form *form,
                                struct gr_expr body)
{
    const struct reply_format *format = form->tmpl->replies;
    if (format && format->channels) {
        /* The template ends with "<|start|>assistant". */
        const struct gr_expr reasoning[] = {channel(b, form, "analysis"),
                                            text_until(b, form, "<|end|>"),
                                            markup(b, form, "<|start|>"), literal(b, "assistant")};
        return gr_seq2(b, gr_optional(b, gr_seq(b, reasoning, 4)), body);
    }
    if (!form->tmpl->thinks)
        return body;
    struct gr_expr lead = gr_seq2(b, text_until(b, form, REPLY_THINK_CLOSE), blank(b));
    if (!answer_form_is_open(form)) {
        const struct gr_expr open[] = {blank(b), markup(b, form, REPLY_THINK_OPEN), lead};
        lead = gr_optional(b, gr_seq(b, open, 3));
    }
    return gr_seq2(b, lead, body);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Writes a name as a JSON string with its quotation marks. */
static struct gr_expr quoted(struct grammar_builder *b, struct dgl_str name)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_str(&w, name);
    struct gr_expr out = gr_literal(b, (struct dgl_str){text.p ? text.p : "", text.len});
    dgl_buf_finish(&text);
    return out;
}

/* Sets *out to the arguments of a tool: a document of its parameters, or any object. */
static enum dgl_status arguments(struct grammar_builder *b, const struct dgl_json *parameters,
                                 struct gr_expr *out)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    struct gr_rule root;
    enum dgl_status status;
    if (dgl_json_is(parameters, DGL_JSON_OBJECT) && dgl_json_count(parameters) > 0) {
        dgl_jw_value(&w, parameters);
        status = text.failed ? DGL_ERR_NO_MEMORY
                             : json_schema_parse(b, (struct dgl_str){text.p, text.len},
                                                 &(struct json_schema_options){0}, &root);
    } else {
        status = json_value_grammar(b, true, false, &root);
    }
    if (status == DGL_OK)
        *out = gr_call(b, root);
    dgl_buf_finish(&text);
    return status;
}

/* One call as the format writes it, without the text around calls. */
static struct gr_expr call_of(struct grammar_builder *b, const struct answer_form *form,
                              struct dgl_str name, struct gr_expr args)
{
    const struct reply_format *format = form->tmpl->replies;
    if (format->channels) {
        const struct gr_expr parts[] = {markup(b, form, "<|channel|>"),
                                        literal(b, "commentary to=functions."),
                                        gr_literal(b, name),
                                        literal(b, " "),
                                        markup(b, form, "<|constrain|>"),
                                        literal(b, "json"),
                                        markup(b, form, "<|message|>"),
                                        args};
        return gr_seq(b, parts, 8);
    }
    const struct gr_expr parts[] = {
        literal(b, "{\"name\": "), quoted(b, name),
        literal(b, format->alone ? ", \"parameters\": " : ", \"arguments\": "), args,
        literal(b, "}")};
    return gr_seq(b, parts, 5);
}

enum dgl_status answer_form_calls(struct grammar_builder *b, const struct dgl_log *log,
                                  const struct answer_form *form, struct dgl_str tools,
                                  const char *function, bool several, struct gr_expr *out)
{
    const struct reply_format *format = form->tmpl->replies;
    struct dgl_json_doc *doc = NULL;
    struct gr_expr call = gr_never(b);
    size_t found = 0;
    enum dgl_status status;
    if (!format)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "the model's chat template has no known format of calls");
    status = dgl_json_parse(log, "tools", tools.p, tools.len, &doc);
    TRY(status == DGL_ERR_FORMAT ? DGL_ERR_INVALID_ARG : status);
    for (const struct dgl_json *v = dgl_json_first(dgl_json_root(doc)); v; v = dgl_json_next(v)) {
        const struct dgl_json *f = dgl_json_get(v, "function");
        const struct dgl_str name = dgl_json_str(dgl_json_get(f, "name"));
        struct gr_expr args;
        if (function && !dgl_str_eq(name, function))
            continue;
        TRY(arguments(b, dgl_json_get(f, "parameters"), &args));
        call = gr_alt2(b, call, call_of(b, form, name, args));
        found++;
    }
    if (found == 0)
        TRY(dgl_fail(log, DGL_ERR_INVALID_ARG, "no tool%s%s can be called", function ? " " : "",
                     function ? function : ""));
    const uint32_t more = several ? GR_UNBOUNDED : 0;
    if (format->channels) { /* a call ends the answer */
        *out = call;
    } else if (format->close) {
        const struct gr_expr one[] = {markup(b, form, format->open), literal(b, "\n"), call,
                                      literal(b, "\n"), markup(b, form, format->close)};
        call = gr_seq(b, one, 5);
        *out = gr_seq2(b, call, gr_repeat(b, gr_seq2(b, literal(b, "\n"), call), 0, more));
    } else if (format->alone) { /* nothing separates calls */
        *out = call;
    } else {
        const struct gr_expr list[] = {markup(b, form, format->open), literal(b, "["), call,
                                       gr_repeat(b, gr_seq2(b, literal(b, ", "), call), 0, more),
                                       literal(b, "]")};
        *out = gr_seq(b, list, 5);
    }
done:
    dgl_json_destroy(&doc);
    return status;
}
