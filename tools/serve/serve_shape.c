/* Reads the required form of an answer: OpenAI's response_format and tool_choice, the fields of
 * llama-server and of vLLM. A request has at most one form, and its tools. */
#include "tools/serve/serve_shape.h"

#include <stdio.h>
#include <string.h>

#include "core/base/printable.h"

static bool fail_memory(struct serve_error *error)
{
    return serve_refuse(error, 500, NULL, "out of memory for the request");
}

/* Copies text that is used until the ids of the prompt are made. */
static bool keep(struct serve_request *r, struct dgl_buf *text, struct dgl_str *out,
                 struct serve_error *error)
{
    const char *copy =
        text->failed ? NULL : dgl_arena_strndup(&r->input, text->p ? text->p : "", text->len);
    *out = (struct dgl_str){copy, copy ? text->len : 0};
    dgl_buf_finish(text);
    return copy || fail_memory(error);
}

static bool set_shape(struct serve_request *r, const char *param, enum dgl_constraint_kind kind,
                      struct dgl_buf *text, struct serve_error *error)
{
    if (r->shape.param) {
        dgl_buf_finish(text);
        return serve_refuse(error, 400, param, "'%s' and '%s' both require a form of the answer",
                            r->shape.param, param);
    }
    r->shape.param = param;
    r->shape.kind = kind;
    return keep(r, text, &r->shape.text, error);
}

/* A schema as an object, as true, or as the text of either. */
static bool set_schema(struct serve_request *r, const char *param, const struct dgl_json *schema,
                       struct serve_error *error)
{
    struct dgl_buf text = {0};
    if (dgl_json_is(schema, DGL_JSON_STRING)) {
        dgl_buf_append(&text, dgl_json_str(schema).p, dgl_json_str(schema).len);
    } else if (dgl_json_is(schema, DGL_JSON_OBJECT) || dgl_json_is(schema, DGL_JSON_BOOL)) {
        struct dgl_json_writer w = dgl_json_writer(&text, 0);
        dgl_jw_value(&w, schema);
    } else {
        return serve_refuse(error, 400, param, "'%s' has no schema: wanted an object", param);
    }
    return set_shape(r, param, DGL_CONSTRAINT_JSON_SCHEMA, &text, error);
}

static bool set_text(struct serve_request *r, const char *param, enum dgl_constraint_kind kind,
                     const struct dgl_json *value, struct serve_error *error)
{
    struct dgl_buf text = {0};
    if (!dgl_json_is(value, DGL_JSON_STRING))
        return serve_refuse(error, 400, param, "'%s' is %s, wanted a string", param,
                            dgl_json_type_name(dgl_json_type(value)));
    dgl_buf_append(&text, dgl_json_str(value).p, dgl_json_str(value).len);
    return set_shape(r, param, kind, &text, error);
}

/* One of several texts, as a grammar. */
static bool set_choice(struct serve_request *r, const char *param, const struct dgl_json *list,
                       struct serve_error *error)
{
    struct dgl_buf text = {0};
    bool ok = dgl_json_is(list, DGL_JSON_ARRAY) && dgl_json_count(list) > 0;
    dgl_buf_puts(&text, "root ::=");
    for (const struct dgl_json *v = dgl_json_first(list); v && ok; v = dgl_json_next(v)) {
        const struct dgl_str choice = dgl_json_str(v);
        ok = dgl_json_is(v, DGL_JSON_STRING);
        dgl_buf_puts(&text, v == dgl_json_first(list) ? " \"" : " | \"");
        for (size_t i = 0; i < choice.len; i++) {
            const unsigned char c = (unsigned char)choice.p[i];
            if (c < ' ' || c == '"' || c == '\\')
                dgl_buf_printf(&text, "\\x%02X", c);
            else
                dgl_buf_putc(&text, (char)c);
        }
        dgl_buf_puts(&text, "\"");
    }
    if (!ok) {
        dgl_buf_finish(&text);
        return serve_refuse(error, 400, param, "'%s' is no list of strings", param);
    }
    return set_shape(r, param, DGL_CONSTRAINT_GRAMMAR, &text, error);
}

static bool any_object(struct serve_request *r, const char *param, struct serve_error *error)
{
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, "{\"type\":\"object\"}");
    return set_shape(r, param, DGL_CONSTRAINT_JSON_SCHEMA, &text, error);
}

/* {"type": "text"}, {"type": "json_object"}, perhaps with llama-server's "schema", or
 * {"type": "json_schema", "json_schema": {"name": ..., "schema": {...}, "strict": true}}. */
static bool read_format(struct serve_request *r, const struct dgl_json *format,
                        struct serve_error *error)
{
    static const char param[] = "response_format";
    const struct dgl_str type = dgl_json_str(dgl_json_get(format, "type"));
    const struct dgl_json *wrapped = dgl_json_get(format, "json_schema"),
                          *schema = dgl_json_get(wrapped, "schema"),
                          *plain = dgl_json_get(format, "schema"),
                          *strict = dgl_json_get(wrapped, "strict");
    if (!format || dgl_str_eq(type, "text"))
        return true;
    if (dgl_str_eq(type, "json_object"))
        return plain ? set_schema(r, param, plain, error) : any_object(r, param, error);
    if (!dgl_str_eq(type, "json_schema"))
        return serve_refuse(error, 400, param,
                            "the type of 'response_format' is none of text, json_object, "
                            "json_schema");
    if (strict && !dgl_json_is(strict, DGL_JSON_NULL) && !dgl_json_is(strict, DGL_JSON_BOOL))
        return serve_refuse(error, 400, "response_format.json_schema.strict",
                            "'response_format.json_schema.strict' is not true or false");
    r->shape.strict = dgl_json_bool(strict);
    return set_schema(r, param, schema ? schema : plain, error);
}

/* vLLM's {"json": ..., "regex": ..., "choice": [...], "grammar": ..., "json_object": true}. */
static bool read_outputs(struct serve_request *r, const struct dgl_json *outputs,
                         struct serve_error *error)
{
    static const char param[] = "structured_outputs";
    for (const struct dgl_json *v = dgl_json_first(outputs); v; v = dgl_json_next(v)) {
        const struct dgl_str key = dgl_json_key(v);
        bool ok = true;
        if (dgl_json_is(v, DGL_JSON_NULL))
            continue;
        if (dgl_str_eq(key, "json"))
            ok = set_schema(r, param, v, error);
        else if (dgl_str_eq(key, "regex"))
            ok = set_text(r, param, DGL_CONSTRAINT_REGEX, v, error);
        else if (dgl_str_eq(key, "choice"))
            ok = set_choice(r, param, v, error);
        else if (dgl_str_eq(key, "grammar"))
            ok = set_text(r, param, DGL_CONSTRAINT_GRAMMAR, v, error);
        else if (dgl_str_eq(key, "json_object"))
            ok = !dgl_json_bool(v) || any_object(r, param, error);
        else
            ok = serve_refuse(error, 400, param, "'structured_outputs.%s' is not supported",
                              DGL_PRINTABLE_STR(key));
        if (!ok)
            return false;
    }
    return true;
}

/* "auto", "none", "required", {"type": "function", "function": {"name": ...}}. */
static bool read_choice(struct serve_request *r, const struct dgl_json *choice,
                        const struct dgl_json *tools, struct serve_error *error)
{
    static const char param[] = "tool_choice";
    const struct dgl_str word = dgl_json_str(choice),
                         name =
                             dgl_json_str(dgl_json_get(dgl_json_get(choice, "function"), "name"));
    struct dgl_buf text = {0};
    const bool named = dgl_json_is(choice, DGL_JSON_OBJECT) &&
                       dgl_str_eq(dgl_json_str(dgl_json_get(choice, "type")), "function") &&
                       name.len > 0;
    const bool forced = named || dgl_str_eq(word, "required");
    if (choice && !forced && !dgl_str_eq(word, "auto") && !dgl_str_eq(word, "none"))
        return serve_refuse(error, 400, param,
                            "'tool_choice' is none of \"auto\", \"none\", \"required\" and "
                            "{\"type\": \"function\", \"function\": {\"name\": ...}}");
    if (!dgl_json_count(tools) || dgl_str_eq(word, "none"))
        return !forced || serve_refuse(error, 400, param,
                                       "'tool_choice' requires a call, but the "
                                       "request has no 'tools'");
    bool known = !named;
    for (const struct dgl_json *v = dgl_json_first(tools); v; v = dgl_json_next(v))
        known |=
            dgl_str_equal(dgl_json_str(dgl_json_get(dgl_json_get(v, "function"), "name")), name);
    if (!known)
        return serve_refuse(error, 400, param, "'tool_choice' names '%s', which is none of 'tools'",
                            DGL_PRINTABLE_STR(name));
    if (!forced && !r->shape.param)
        return true;
    if (forced && r->shape.param)
        return serve_refuse(error, 400, param,
                            "'tool_choice' requires a call, and '%s' another form of the answer",
                            r->shape.param);
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_value(&w, tools);
    if (!forced) /* a call, or the form of the answer */
        return keep(r, &text, &r->shape.tools, error);
    r->shape.function = named ? dgl_arena_strndup(&r->input, name.p, name.len) : NULL;
    if (named && !r->shape.function) {
        dgl_buf_finish(&text);
        return fail_memory(error);
    }
    return set_shape(r, param, DGL_CONSTRAINT_CALLS, &text, error);
}

bool serve_shape_read(struct serve_request *r, const struct dgl_json *root,
                      struct serve_error *error)
{
    static const struct {
        const char *name;
        enum dgl_constraint_kind kind;
    } texts[] = {{"grammar", DGL_CONSTRAINT_GRAMMAR},
                 {"guided_grammar", DGL_CONSTRAINT_GRAMMAR},
                 {"guided_regex", DGL_CONSTRAINT_REGEX}};
    static const char *const schemas[] = {"json_schema", "guided_json"};
#define VALUE_OF(name) serve_request_field(root, (name))
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const struct dgl_json *v = VALUE_OF(texts[i].name);
        /* llama-server's clients send an empty grammar for none */
        if (v && (!dgl_json_is(v, DGL_JSON_STRING) || dgl_json_str(v).len > 0) &&
            !set_text(r, texts[i].name, texts[i].kind, v, error))
            return false;
    }
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++)
        if (VALUE_OF(schemas[i]) && !set_schema(r, schemas[i], VALUE_OF(schemas[i]), error))
            return false;
    return (!VALUE_OF("guided_choice") ||
            set_choice(r, "guided_choice", VALUE_OF("guided_choice"), error)) &&
           read_outputs(r, VALUE_OF("structured_outputs"), error) &&
           read_format(r, VALUE_OF("response_format"), error) &&
           read_choice(r, VALUE_OF("tool_choice"), r->kind == SERVE_CHAT ? VALUE_OF("tools") : NULL,
                       error);
#undef VALUE_OF
}
