/* Requests of OpenAI's interface. A known field with a wrong type or a value out of range is
 * refused by its name. An unsupported field is refused if it would change the answer. Other fields
 * are ignored, as OpenAI does. */
#include "tools/serve/serve_request.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pooling.h"

/* Limit of nesting in values for a template. */
#define MAX_DEPTH     40
#define MAX_STOP_LEN  1024
#define MAX_PROMPT_ID 2147483647

#define TOKENS_OMITTED -3 /* below every value that a request may have */

/* ---- errors ---------------------------------------------------------------------------------- */

bool serve_refuse(struct serve_error *error, int status, const char *param, const char *fmt, ...)
{
    va_list args;
    *error = (struct serve_error){.status = status,
                                  .type = status >= 500 ? "server_error" : "invalid_request_error"};
    snprintf(error->param, sizeof(error->param), "%s", param ? param : "");
    va_start(args, fmt);
    vsnprintf(error->message, sizeof(error->message), fmt, args);
    va_end(args);
    return false;
}

void serve_error_write(const struct serve_error *error, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    dgl_jw_object(&w);
    dgl_jw_field_object(&w, "error");
    dgl_jw_field_cstr(&w, "message", error->message);
    dgl_jw_field_cstr(&w, "type", error->type);
    dgl_jw_field_cstr(&w, "param", error->param[0] ? error->param : NULL);
    dgl_jw_field_cstr(&w, "code", error->code);
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
}

struct reader {
    struct serve_request *r;
    struct serve_error *error;
    const struct dgl_json *root;
};

/* Refuses the value of a field. Its value is false. */
#define refuse(rd, param, ...) serve_refuse((rd)->error, 400, (param), __VA_ARGS__)

/* Refuses a value of a wrong type. `fmt` formats its place in the body. */
DGL_PRINTF(4, 5)
static bool refuse_type(const struct reader *rd, const struct dgl_json *value, const char *wanted,
                        const char *fmt, ...)
{
    char param[sizeof(rd->error->param)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(param, sizeof(param), fmt, args);
    va_end(args);
    return refuse(rd, param, "'%s' is %s, wanted %s", param,
                  !value ? "missing" : dgl_json_type_name(dgl_json_type(value)), wanted);
}

static bool fail_memory(const struct reader *rd)
{
    return serve_refuse(rd->error, 500, NULL, "out of memory for the request");
}

/* Returns a field, or NULL if it is missing or null. */
static const struct dgl_json *field(const struct reader *rd, const char *key)
{
    const struct dgl_json *value = dgl_json_get(rd->root, key);
    return dgl_json_is(value, DGL_JSON_NULL) ? NULL : value;
}

/* ---- plain fields ---------------------------------------------------------------------------- */

enum field_type {
    FIELD_BOOL,
    FIELD_FALSE, /* refused if it is true */
    FIELD_INT,
    FIELD_LONG,
    FIELD_REAL,
    FIELD_TEXT,
    FIELD_LIST,   /* the type is checked, the value is not stored */
    FIELD_OBJECT, /* likewise */
    FIELD_REFUSED
};

/* Bits of the kinds of requests that have a field. */
#define OF(kind)  (1u << (kind))
#define OF_ANSWER (OF(SERVE_CHAT) | OF(SERVE_COMPLETION))
#define OF_ALL    UINT_MAX

#define AT(member) offsetof(struct serve_request, member)

/* Fields that are stored in struct serve_request, and fields that are refused because they would
 * change the answer. */
static const struct {
    const char *name;
    unsigned kinds;
    enum field_type type;
    size_t offset;
    double min, max;
} fields[] = {
    {"model", OF_ALL, FIELD_TEXT, AT(model), 0, 0},
    {"stream", OF_ANSWER, FIELD_BOOL, AT(stream), 0, 0},
    {"ignore_eos", OF_ANSWER, FIELD_BOOL, AT(ignore_eos), 0, 0},
    {"n", OF_ANSWER, FIELD_INT, AT(n), 1, SERVE_MAX_CHOICES},
    {"best_of", OF_ANSWER, FIELD_INT, AT(best_of), 1, SERVE_MAX_CHOICES},
    {"max_tokens", OF_ANSWER, FIELD_INT, AT(max_tokens), -1, INT32_MAX},
    {"max_completion_tokens", OF_ANSWER, FIELD_INT, AT(max_tokens), -1, INT32_MAX},
    {"temperature", OF_ANSWER, FIELD_REAL, AT(sampling.temperature), 0, 1000},
    {"top_p", OF_ANSWER, FIELD_REAL, AT(sampling.top_p), 0, 1},
    {"min_p", OF_ANSWER, FIELD_REAL, AT(sampling.min_p), 0, 1},
    {"presence_penalty", OF_ANSWER, FIELD_REAL, AT(sampling.presence_penalty), -100, 100},
    {"frequency_penalty", OF_ANSWER, FIELD_REAL, AT(sampling.frequency_penalty), -100, 100},
    {"repeat_penalty", OF_ANSWER, FIELD_REAL, AT(sampling.repeat_penalty), 0.01, 100},
    {"repetition_penalty", OF_ANSWER, FIELD_REAL, AT(sampling.repeat_penalty), 0.01, 100},
    {"top_k", OF_ANSWER, FIELD_INT, AT(sampling.top_k), -1, 128},
    {"repeat_last_n", OF_ANSWER, FIELD_INT, AT(sampling.repeat_last_n), -1, INT32_MAX},
    {"seed", OF_ANSWER, FIELD_LONG, AT(seed), 0, 0},
    {"modalities", OF_ANSWER, FIELD_LIST, 0, 0, 0},
    {"response_format", OF_ANSWER, FIELD_OBJECT, 0, 0, 0},
    {"stream_options", OF_ANSWER, FIELD_OBJECT, 0, 0, 0},
    {"chat_template_kwargs", OF(SERVE_CHAT), FIELD_OBJECT, 0, 0, 0},
    {"parallel_tool_calls", OF(SERVE_CHAT), FIELD_BOOL, AT(parallel_calls), 0, 0},
    {"logprobs", OF(SERVE_CHAT), FIELD_BOOL, AT(logprobs), 0, 0},
    {"top_logprobs", OF(SERVE_CHAT), FIELD_INT, AT(top_logprobs), 0, DGL_TOP_LOGPROBS_MAX},
    {"logprobs", OF(SERVE_COMPLETION), FIELD_INT, AT(top_logprobs), 0, DGL_TOP_LOGPROBS_MAX},
    {"add_special", OF(SERVE_TOKENIZE), FIELD_BOOL, AT(add_special), 0, 0},
    {"parse_special", OF(SERVE_TOKENIZE), FIELD_BOOL, AT(parse_special), 0, 0},
    {"functions", OF_ANSWER, FIELD_REFUSED, 0, 0, 0},
    {"function_call", OF_ANSWER, FIELD_REFUSED, 0, 0, 0},
    {"suffix", OF_ANSWER, FIELD_REFUSED, 0, 0, 0},
    {"audio", OF_ANSWER, FIELD_REFUSED, 0, 0, 0},
    {"grammar", OF_ANSWER, FIELD_REFUSED, 0, 0, 0},
    {"json_schema", OF_ANSWER, FIELD_REFUSED, 0, 0, 0},
    {"prediction", OF_ANSWER, FIELD_REFUSED, 0, 0, 0},
    {"echo", OF_ANSWER, FIELD_FALSE, 0, 0, 0},
    {"dimensions", OF(SERVE_EMBEDDING), FIELD_INT, AT(dimensions), 1, INT32_MAX},
    {"embd_normalize", OF(SERVE_EMBEDDING), FIELD_INT, AT(embd_normalize), DGL_NORMALIZE_NONE,
     DGL_NORMALIZE_MAX},
};

static bool read_fields(const struct reader *rd)
{
    static const struct {
        enum dgl_json_type type;
        const char *wanted;
    } types[] = {[FIELD_BOOL] = {DGL_JSON_BOOL, "true or false"},
                 [FIELD_FALSE] = {DGL_JSON_BOOL, "true or false"},
                 [FIELD_INT] = {DGL_JSON_NUMBER, "a whole number"},
                 [FIELD_LONG] = {DGL_JSON_NUMBER, "a whole number of 64 bits"},
                 [FIELD_REAL] = {DGL_JSON_NUMBER, "a number"},
                 [FIELD_TEXT] = {DGL_JSON_STRING, "a string"},
                 [FIELD_LIST] = {DGL_JSON_ARRAY, "a list"},
                 [FIELD_OBJECT] = {DGL_JSON_OBJECT, "an object"}};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const char *name = fields[i].name;
        const enum field_type type = fields[i].type;
        const double min = fields[i].min, max = fields[i].max;
        const struct dgl_json *value = fields[i].kinds & OF(rd->r->kind) ? field(rd, name) : NULL;
        const double number = dgl_json_f64(value);
        void *out = (char *)rd->r + fields[i].offset;
        int64_t whole = 0;
        if (!value)
            continue;
        if (type != FIELD_REFUSED && !dgl_json_is(value, types[type].type))
            return refuse_type(rd, value, types[type].wanted, "%s", name);
        if (type == FIELD_REFUSED || (type == FIELD_FALSE && dgl_json_bool(value)))
            return refuse(rd, name, "'%s' is not supported", name);
        const bool in_range = number >= min && number <= max;
        if (type == FIELD_INT && (!dgl_json_i64(value, &whole) || !in_range))
            return refuse(rd, name, "'%s' is %.15g, wanted a whole number from %.0f to %.0f", name,
                          number, min, max);
        if (type == FIELD_LONG && !dgl_json_i64(value, out))
            return refuse(rd, name, "'%s' is %.15g, wanted %s", name, number, types[type].wanted);
        if (type == FIELD_REAL && !in_range)
            return refuse(rd, name, "'%s' is %.15g, wanted a number from %g to %g", name, number,
                          min, max);
        if (type == FIELD_BOOL)
            *(bool *)out = dgl_json_bool(value);
        else if (type == FIELD_INT)
            *(int32_t *)out = (int32_t)whole;
        else if (type == FIELD_REAL)
            *(float *)out = (float)number;
        else if (type == FIELD_TEXT)
            *(struct dgl_str *)out = dgl_json_str(value);
    }
    return true;
}

/* {"15": -100, ...} */
static bool read_logit_bias(const struct reader *rd)
{
    const struct dgl_json *object = field(rd, "logit_bias");
    struct dgl_sampling *s = &rd->r->sampling;
    size_t count = dgl_json_count(object);
    if (!object)
        return true;
    if (!dgl_json_is(object, DGL_JSON_OBJECT))
        return refuse_type(rd, object, "an object of numbers by token id", "logit_bias");
    if (count > DGL_LOGIT_BIAS_MAX)
        return refuse(rd, "logit_bias", "'logit_bias' has %zu entries, at most %d", count,
                      DGL_LOGIT_BIAS_MAX);
    struct dgl_logit_bias *bias = dgl_arena_alloc(&rd->r->arena, (count + 1) * sizeof(*bias));
    if (!bias)
        return fail_memory(rd);
    s->logit_bias = bias;
    s->num_logit_bias = 0;
    for (const struct dgl_json *v = dgl_json_first(object); v; v = dgl_json_next(v)) {
        const double number = dgl_json_f64(v);
        int64_t id;
        if (!dgl_parse_i64(dgl_json_key(v), 0, MAX_PROMPT_ID, &id))
            return refuse(rd, "logit_bias", "a key of 'logit_bias' is no token id");
        if (!dgl_json_is(v, DGL_JSON_NUMBER) || !(number >= -100 && number <= 100))
            return refuse(rd, "logit_bias",
                          "'logit_bias' of token %lld is no number from -100 to 100",
                          (long long)id);
        bias[s->num_logit_bias++] = (struct dgl_logit_bias){(int32_t)id, (float)number};
    }
    return true;
}

static bool read_stop(const struct reader *rd)
{
    const struct dgl_json *value = field(rd, "stop");
    const bool list = dgl_json_is(value, DGL_JSON_ARRAY);
    const size_t count = list ? dgl_json_count(value) : 1;
    if (!value)
        return true;
    if (count > SERVE_MAX_STOPS)
        return refuse(rd, "stop", "'stop' has %zu strings, at most %d", count, SERVE_MAX_STOPS);
    rd->r->stop = dgl_arena_alloc(&rd->r->arena, (count + 1) * sizeof(*rd->r->stop));
    if (!rd->r->stop)
        return fail_memory(rd);
    for (const struct dgl_json *v = list ? dgl_json_first(value) : value; v;
         v = list ? dgl_json_next(v) : NULL) {
        const struct dgl_str text = dgl_json_str(v);
        if (!dgl_json_is(v, DGL_JSON_STRING))
            return refuse_type(rd, v, "a string or a list of strings", "stop");
        if (text.len == 0 || text.len > MAX_STOP_LEN || memchr(text.p, '\0', text.len))
            return refuse(rd, "stop",
                          "a string of 'stop' has %zu bytes, wanted 1 to %d and no U+0000",
                          text.len, MAX_STOP_LEN);
        rd->r->stop[rd->r->num_stop++] = text.p;
    }
    return true;
}

/* Fields of chats and completions that the table cannot check. */
static bool read_common(const struct reader *rd)
{
    struct serve_request *r = rd->r;
    const struct dgl_json *format = field(rd, "response_format"),
                          *type = dgl_json_get(format, "type"), *choice = field(rd, "tool_choice"),
                          *options = field(rd, "stream_options"),
                          *usage = dgl_json_get(options, "include_usage");
    r->seeded = r->seed != -1; /* as in llama-server */
    r->sampling.seed = (uint64_t)r->seed;
    if (!read_logit_bias(rd) || !read_stop(rd))
        return false;
    for (const struct dgl_json *v = dgl_json_first(field(rd, "modalities")); v;
         v = dgl_json_next(v))
        if (!dgl_str_eq(dgl_json_str(v), "text"))
            return refuse(rd, "modalities", "'modalities' is not supported, but for text");
    if (format && !dgl_str_eq(dgl_json_str(type), "text"))
        return refuse(rd, "response_format",
                      "'response_format' is not supported, but for the type text");
    if (choice && !dgl_str_eq(dgl_json_str(choice), "auto") &&
        !dgl_str_eq(dgl_json_str(choice), "none"))
        return refuse(rd, "tool_choice",
                      "'tool_choice' is supported as \"auto\" and \"none\" only: nothing "
                      "makes a model call a tool");
    if (r->best_of && r->best_of != r->n)
        return refuse(rd, "best_of",
                      "'best_of' is %d, other values than that of 'n' are not supported",
                      r->best_of);
    if (options && !r->stream)
        return refuse(rd, "stream_options", "'stream_options' is for requests with 'stream'");
    if (usage && !dgl_json_is(usage, DGL_JSON_NULL) && !dgl_json_is(usage, DGL_JSON_BOOL))
        return refuse_type(rd, usage, "true or false", "stream_options.include_usage");
    r->include_usage = dgl_json_bool(usage);
    if (r->max_tokens == TOKENS_OMITTED) /* OpenAI's default of completions is 16 */
        r->max_tokens = r->kind == SERVE_COMPLETION ? 16 : -1;
    else if (r->max_tokens == 0)
        r->max_tokens = DGL_TOKENS_NONE;
    if (r->kind == SERVE_CHAT) {
        static const char *const formats[] = {"auto", "none", "deepseek"}; /* llama-server's */
        const struct dgl_json *reasoning = field(rd, "reasoning_format");
        size_t known = 0;
        while (reasoning && known < 3 && !dgl_str_eq(dgl_json_str(reasoning), formats[known]))
            known++;
        if (known == 3)
            return refuse(rd, "reasoning_format",
                          "'reasoning_format' is none of \"auto\", \"none\", \"deepseek\"");
        r->keep_reasoning = known == 1;
        if (r->top_logprobs > 0 && !r->logprobs)
            return refuse(rd, "top_logprobs", "'top_logprobs' wants 'logprobs' to be true");
        return true;
    }
    r->logprobs = field(rd, "logprobs") != NULL;
    return true;
}

/* ---- prompts --------------------------------------------------------------------------------- */

static bool read_ids(const struct reader *rd, const char *key, const struct dgl_json *list,
                     struct serve_prompt *out)
{
    const size_t count = dgl_json_count(list);
    int32_t *ids = dgl_arena_alloc(&rd->r->arena, (count + 1) * sizeof(*ids));
    if (!ids)
        return fail_memory(rd);
    out->ids = ids;
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        int64_t id;
        if (!dgl_json_is(v, DGL_JSON_NUMBER) || !dgl_json_i64(v, &id) || id < 0 ||
            id > MAX_PROMPT_ID)
            return refuse(rd, key, "element %zu of '%s' is no token id", out->num_ids, key);
        ids[out->num_ids++] = (int32_t)id;
    }
    return true;
}

/* Reads a text, a list of texts, a list of ids, or a list of lists of ids. */
static bool read_prompts(const struct reader *rd, const char *key)
{
    const struct dgl_json *value = field(rd, key), *first = dgl_json_first(value);
    const bool list = dgl_json_is(value, DGL_JSON_ARRAY) && !dgl_json_is(first, DGL_JSON_NUMBER);
    const size_t count = list ? dgl_json_count(value) : 1;
    if (!value)
        return refuse(rd, key, "'%s' is missing", key);
    if (count == 0)
        return refuse(rd, key, "'%s' is an empty list", key);
    if (count > SERVE_MAX_CHOICES && rd->r->kind != SERVE_EMBEDDING)
        return refuse(rd, key, "'%s' has %zu elements, at most %d", key, count, SERVE_MAX_CHOICES);
    struct serve_prompt *p = dgl_arena_alloc(&rd->r->arena, count * sizeof(*p));
    if (!p)
        return fail_memory(rd);
    rd->r->prompts = p;
    for (const struct dgl_json *v = list ? first : value; v;
         v = list ? dgl_json_next(v) : NULL, p++) {
        rd->r->num_prompts++;
        if (dgl_json_is(v, DGL_JSON_STRING))
            p->text = dgl_json_str(v);
        else if (!dgl_json_is(v, DGL_JSON_ARRAY))
            return refuse_type(rd, v, "a string, a list of strings or a list of token ids", "%s",
                               key);
        else if (!read_ids(rd, key, v, p))
            return false;
        if (p->text.len == 0 && p->num_ids == 0)
            return refuse(rd, key, "'%s' is empty", key);
    }
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int depth_of(const struct dgl_json *value, int most)
{
    int depth = 0;
    for (const struct dgl_json *v = most > 0 ? dgl_json_first(value) : NULL; v;
         v = dgl_json_next(v)) {
        const int below = depth_of(v, most - 1);
        depth = below > depth ? below : depth;
    }
    return depth + 1;
}

/* Writes the texts of the parts, joined to one text. */
static bool write_parts(const struct reader *rd, struct dgl_json_writer *w, size_t message,
                        const struct dgl_json *parts)
{
    struct dgl_buf text = {0};
    bool ok = true;
    size_t index = 0;
    for (const struct dgl_json *v = dgl_json_first(parts); v && ok; v = dgl_json_next(v), index++) {
        const struct dgl_json *type = dgl_json_get(v, "type"), *said = dgl_json_get(v, "text");
        char param[96];
        snprintf(param, sizeof(param), "messages[%zu].content[%zu]", message, index);
        if (!dgl_str_eq(dgl_json_str(type), "text"))
            ok = refuse(rd, param,
                        "'%s' is no part of the type text: others are "
                        "not supported",
                        param);
        else if (!dgl_json_is(said, DGL_JSON_STRING))
            ok = refuse_type(rd, said, "a part with a string as its text", "%s", param);
        else
            dgl_buf_append(&text, dgl_json_str(said).p, dgl_json_str(said).len);
    }
    if (ok)
        dgl_jw_str(w, (struct dgl_str){text.p ? text.p : "", text.len});
    if (ok && text.failed)
        ok = fail_memory(rd);
    dgl_buf_finish(&text);
    return ok;
}

/* Checks and writes the calls of an earlier answer: each is an object whose function has a name and
 * arguments. Templates want arguments as an object, OpenAI has their text. */
static bool write_calls(const struct reader *rd, struct dgl_json_writer *w, size_t message,
                        const struct dgl_json *calls)
{
    size_t index = 0;
    if (!dgl_json_is(calls, DGL_JSON_ARRAY))
        return refuse_type(rd, calls, "a list of calls", "messages[%zu].tool_calls", message);
    dgl_jw_field_array(w, "tool_calls");
    for (const struct dgl_json *call = dgl_json_first(calls); call;
         call = dgl_json_next(call), index++) {
        const struct dgl_json *function = dgl_json_get(call, "function"),
                              *name = dgl_json_get(function, "name"),
                              *arguments = dgl_json_get(function, "arguments");
        if (!dgl_json_is(call, DGL_JSON_OBJECT))
            return refuse_type(rd, call, "calls that are objects", "messages[%zu].tool_calls",
                               message);
        if (function && !dgl_json_is(function, DGL_JSON_OBJECT))
            return refuse_type(rd, function, "an object", "messages[%zu].tool_calls[%zu].function",
                               message, index);
        if (function && !dgl_json_is(name, DGL_JSON_STRING))
            return refuse_type(rd, name, "a string", "messages[%zu].tool_calls[%zu].function.name",
                               message, index);
        if (arguments && !dgl_json_is(arguments, DGL_JSON_NULL) &&
            !dgl_json_is(arguments, DGL_JSON_STRING) && !dgl_json_is(arguments, DGL_JSON_OBJECT))
            return refuse_type(rd, arguments, "a string or an object",
                               "messages[%zu].tool_calls[%zu].function.arguments", message, index);
        dgl_jw_object(w);
        for (const struct dgl_json *v = dgl_json_first(call); v; v = dgl_json_next(v)) {
            dgl_jw_key_str(w, dgl_json_key(v));
            if (v != function) {
                dgl_jw_value(w, v);
                continue;
            }
            dgl_jw_object(w);
            for (const struct dgl_json *f = dgl_json_first(v); f; f = dgl_json_next(f)) {
                const struct dgl_str text = f == arguments ? dgl_json_str(f) : DGL_STR("");
                struct dgl_json_doc *doc = NULL;
                const bool parsed =
                    text.len &&
                    dgl_json_parse(NULL, "arguments", text.p, text.len, &doc) == DGL_OK &&
                    depth_of(dgl_json_root(doc), MAX_DEPTH) < MAX_DEPTH;
                dgl_jw_key_str(w, dgl_json_key(f));
                dgl_jw_value(w, parsed ? dgl_json_root(doc) : f);
                dgl_json_destroy(&doc);
            }
            dgl_jw_end_object(w);
        }
        dgl_jw_end_object(w);
    }
    dgl_jw_end_array(w);
    return true;
}

static bool write_message(const struct reader *rd, struct dgl_json_writer *w, size_t index,
                          const struct dgl_json *message)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    const struct dgl_str role = dgl_json_str(dgl_json_get(message, "role"));
    const struct dgl_json *content = dgl_json_get(message, "content"),
                          *calls = dgl_json_get(message, "tool_calls");
    char param[96];
    size_t known = 0;
    if (!dgl_json_is(message, DGL_JSON_OBJECT))
        return refuse_type(rd, message, "an object", "messages[%zu]", index);
    while (known < 5 && !dgl_str_eq(role, roles[known]))
        known++;
    snprintf(param, sizeof(param), "messages[%zu].role", index);
    if (known == 5)
        return refuse(rd, param, "'%s' is none of system, developer, user, assistant, tool", param);
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "role", roles[known == 1 ? 0 : known]); /* no template has developer */
    dgl_jw_key(w, "content");
    if (dgl_json_is(content, DGL_JSON_ARRAY)) {
        if (!write_parts(rd, w, index, content))
            return false;
    } else if (dgl_json_is(content, DGL_JSON_STRING)) {
        dgl_jw_value(w, content);
    } else if (dgl_json_type(content) == DGL_JSON_NULL && known == 3 && calls) {
        dgl_jw_cstr(w, "");
    } else {
        return refuse_type(rd, content, "a string or a list of parts", "messages[%zu].content",
                           index);
    }
    static const char *const texts[] = {"name", "tool_call_id", "reasoning_content", "thinking"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const struct dgl_json *v = dgl_json_get(message, texts[i]);
        if (v && !dgl_json_is(v, DGL_JSON_NULL) && !dgl_json_is(v, DGL_JSON_STRING))
            return refuse_type(rd, v, "a string", "messages[%zu].%s", index, texts[i]);
    }
    for (const struct dgl_json *v = dgl_json_first(message); v; v = dgl_json_next(v)) {
        const struct dgl_str key = dgl_json_key(v);
        if (dgl_str_eq(key, "role") || dgl_str_eq(key, "content"))
            continue;
        if (dgl_str_eq(key, "tool_calls") && dgl_json_type(v) != DGL_JSON_NULL) {
            if (!write_calls(rd, w, index, v))
                return false;
        } else if (dgl_json_type(v) != DGL_JSON_NULL) {
            dgl_jw_key_str(w, key);
            dgl_jw_value(w, v);
            if (dgl_str_eq(key, "reasoning_content") && !dgl_json_get(message, "thinking")) {
                dgl_jw_key(w, "thinking"); /* GPT-OSS calls it so */
                dgl_jw_value(w, v);
            }
        }
    }
    dgl_jw_end_object(w);
    return true;
}

static bool read_tools(const struct reader *rd, struct dgl_json_writer *w)
{
    const struct dgl_json *tools = field(rd, "tools");
    if (!tools || dgl_str_eq(dgl_json_str(field(rd, "tool_choice")), "none"))
        return true;
    if (!dgl_json_is(tools, DGL_JSON_ARRAY))
        return refuse_type(rd, tools, "a list of tools", "tools");
    if (depth_of(tools, MAX_DEPTH) >= MAX_DEPTH)
        return refuse(rd, "tools", "'tools' is nested more than %d deep", MAX_DEPTH);
    rd->r->functions =
        dgl_arena_alloc(&rd->r->arena, (dgl_json_count(tools) + 1) * sizeof(*rd->r->functions));
    if (!rd->r->functions)
        return fail_memory(rd);
    for (const struct dgl_json *v = dgl_json_first(tools); v; v = dgl_json_next(v)) {
        const struct dgl_str name = dgl_json_str(dgl_json_get(dgl_json_get(v, "function"), "name"));
        if (!dgl_str_eq(dgl_json_str(dgl_json_get(v, "type")), "function") || name.len == 0 ||
            memchr(name.p, '\0', name.len))
            return refuse(rd, "tools", "an element of 'tools' is no function with a name");
        const struct dgl_json *parameters = dgl_json_get(dgl_json_get(v, "function"), "parameters");
        if (parameters && !dgl_json_is(parameters, DGL_JSON_NULL) &&
            !dgl_json_is(parameters, DGL_JSON_OBJECT))
            return refuse_type(rd, parameters, "an object", "tools[%zu].function.parameters",
                               rd->r->num_functions);
        rd->r->functions[rd->r->num_functions++] = name.p;
    }
    if (dgl_json_count(tools) == 0)
        return true;
    dgl_jw_key(w, "tools");
    dgl_jw_value(w, tools);
    return true;
}

static bool read_messages(const struct reader *rd)
{
    const struct dgl_json *messages = field(rd, "messages");
    const struct dgl_json *more = field(rd, "chat_template_kwargs");
    struct dgl_json_writer w = dgl_json_writer(&rd->r->messages, 0);
    size_t index = 0;
    if (!messages)
        return refuse(rd, "messages", "'messages' is missing");
    if (!dgl_json_is(messages, DGL_JSON_ARRAY))
        return refuse_type(rd, messages, "a list of messages", "messages");
    if (dgl_json_count(messages) == 0)
        return refuse(rd, "messages", "'messages' is an empty list");
    if (depth_of(messages, MAX_DEPTH) >= MAX_DEPTH || depth_of(more, MAX_DEPTH) >= MAX_DEPTH)
        return refuse(rd, "messages", "'messages' is nested more than %d deep", MAX_DEPTH);
    dgl_jw_object(&w);
    dgl_jw_field_array(&w, "messages");
    for (const struct dgl_json *v = dgl_json_first(messages); v; v = dgl_json_next(v))
        if (!write_message(rd, &w, index++, v))
            return false;
    dgl_jw_end_array(&w);
    for (const struct dgl_json *v = dgl_json_first(more); v; v = dgl_json_next(v)) {
        const struct dgl_str key = dgl_json_key(v);
        if (dgl_str_eq(key, "messages") || dgl_str_eq(key, "tools"))
            return refuse(rd, "chat_template_kwargs",
                          "'chat_template_kwargs' may not set messages or tools");
        dgl_jw_key_str(&w, key);
        dgl_jw_value(&w, v);
    }
    if (!read_tools(rd, &w))
        return false;
    dgl_jw_end_object(&w);
    return !rd->r->messages.failed || fail_memory(rd);
}

/* ---- the request ----------------------------------------------------------------------------- */

static bool read_kind(const struct reader *rd)
{
    struct serve_request *r = rd->r;
    const struct dgl_json *format = field(rd, "encoding_format"), *content = field(rd, "content"),
                          *tokens = field(rd, "tokens");
    switch (r->kind) {
    case SERVE_CHAT:
        return read_common(rd) && read_messages(rd);
    case SERVE_COMPLETION:
        if (!read_common(rd) || !read_prompts(rd, "prompt"))
            return false;
        if (r->num_prompts * (size_t)r->n > SERVE_MAX_CHOICES)
            return refuse(rd, "n", "%zu prompts times 'n' are more than %d", r->num_prompts,
                          SERVE_MAX_CHOICES);
        return true;
    case SERVE_EMBEDDING:
        r->base64 = dgl_str_eq(dgl_json_str(format), "base64");
        if (format && !r->base64 && !dgl_str_eq(dgl_json_str(format), "float"))
            return refuse(rd, "encoding_format",
                          "'encoding_format' is neither \"float\" nor \"base64\"");
        return read_prompts(rd, "input");
    case SERVE_TOKENIZE:
    case SERVE_DETOKENIZE:
        r->prompts = dgl_arena_alloc(&r->arena, sizeof(*r->prompts));
        if (!r->prompts)
            return fail_memory(rd);
        r->num_prompts = 1;
        if (r->kind == SERVE_DETOKENIZE && !dgl_json_is(tokens, DGL_JSON_ARRAY))
            return refuse_type(rd, tokens, "a list of token ids", "tokens");
        if (r->kind == SERVE_DETOKENIZE)
            return read_ids(rd, "tokens", tokens, r->prompts);
        r->prompts->text = dgl_json_str(content);
        return dgl_json_is(content, DGL_JSON_STRING) ||
               refuse_type(rd, content, "a string", "content");
    }
    return false;
}

bool serve_request_read(enum serve_kind kind, const struct dgl_sampling *sampling, const char *body,
                        size_t len, struct serve_request *out, struct serve_error *error)
{
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    *out = (struct serve_request){.kind = kind,
                                  .sampling = *sampling,
                                  .max_tokens = TOKENS_OMITTED,
                                  .embd_normalize = DGL_NORMALIZE_EUCLIDEAN,
                                  .n = 1,
                                  .seed = -1,
                                  .parallel_calls = true,
                                  .parse_special = true};
    if (dgl_json_parse(&log, "the body", body, len, &out->doc) != DGL_OK)
        return serve_refuse(error, 400, NULL, "%s", why.text);
    const struct reader rd = {out, error, dgl_json_root(out->doc)};
    if (!dgl_json_is(rd.root, DGL_JSON_OBJECT))
        return serve_refuse(error, 400, NULL, "the body is %s, wanted an object",
                            dgl_json_type_name(dgl_json_type(rd.root)));
    return read_fields(&rd) && read_kind(&rd);
}

void serve_request_finish(struct serve_request *r)
{
    dgl_json_destroy(&r->doc);
    dgl_arena_finish(&r->arena);
    dgl_buf_finish(&r->messages);
}
