/* Requests of OpenAI's interface. A known field with a wrong type or a value out of range is
 * refused by its name. An unsupported field is refused if it would change the answer
 * (serve_fields.c). Fields in no list are ignored, and their names are noted. */
#include "tools/serve/serve_request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/pooling.h"
#include "core/base/printable.h"
#include "tools/cli/turn.h"
#include "tools/serve/serve_fields.h"
#include "tools/serve/serve_shape.h"

/* Limit of nesting in values for a template. */
#define MAX_DEPTH       40
#define MAX_STOP_LEN    1024
#define MAX_BREAKER_LEN 40 /* as in dgl_sampling.dry_breakers */
#define MAX_PROMPT_ID   2147483647

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
    if (error->request_id)
        dgl_jw_field_cstr(&w, "request_id", error->request_id);
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
}

struct reader {
    const struct serve_defaults *defaults;
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

const struct dgl_json *serve_request_field(const struct dgl_json *root, const char *key)
{
    const struct dgl_json *value = dgl_json_get(root, key);
    return dgl_json_is(value, DGL_JSON_NULL) ? NULL : value;
}

static const struct dgl_json *field(const struct reader *rd, const char *key)
{
    return serve_request_field(rd->root, key);
}

/* Copies a text that is used after the tree of the body is released. */
static bool keep_text(const struct reader *rd, struct dgl_str text, struct dgl_str *out)
{
    const char *copy = dgl_arena_strndup(&rd->r->arena, text.p, text.len);
    *out = (struct dgl_str){copy, copy ? text.len : 0};
    return copy || fail_memory(rd);
}

/* ---- plain fields ---------------------------------------------------------------------------- */

/* Returns true if the value of a FIELD_NEUTRAL field has no effect. */
static bool is_neutral(const struct serve_field *f, const struct dgl_json *value)
{
    switch (dgl_json_type(value)) {
    case DGL_JSON_BOOL:
        return (double)dgl_json_bool(value) == f->min;
    case DGL_JSON_NUMBER:
        return dgl_json_f64(value) == f->min;
    case DGL_JSON_STRING:
        return dgl_json_str(value).len == 0;
    default:
        return dgl_json_count(value) == 0;
    }
}

/* Lists the fields of the body that the table does not have. */
static void note_unknown(const struct reader *rd)
{
    struct serve_request *r = rd->r;
    size_t len = 0;
    for (const struct dgl_json *v = dgl_json_first(rd->root); v; v = dgl_json_next(v)) {
        const struct dgl_str key = dgl_json_key(v);
        size_t i = 0;
        while (i < serve_num_fields &&
               !(serve_fields[i].kinds & 1u << r->kind && dgl_str_eq(key, serve_fields[i].name)))
            i++;
        if (i == serve_num_fields && len < sizeof(r->unknown))
            len += (size_t)snprintf(r->unknown + len, sizeof(r->unknown) - len, "%s%s",
                                    len ? ", " : "", DGL_PRINTABLE_STR(key));
    }
}

static bool read_fields(const struct reader *rd)
{
    static const struct {
        enum dgl_json_type type;
        const char *wanted;
    } types[] = {[FIELD_BOOL] = {DGL_JSON_BOOL, "true or false"},
                 [FIELD_INT] = {DGL_JSON_NUMBER, "a whole number"},
                 [FIELD_LONG] = {DGL_JSON_NUMBER, "a whole number of 64 bits"},
                 [FIELD_REAL] = {DGL_JSON_NUMBER, "a number"},
                 [FIELD_TEXT] = {DGL_JSON_STRING, "a string"},
                 [FIELD_LIST] = {DGL_JSON_ARRAY, "a list"},
                 [FIELD_OBJECT] = {DGL_JSON_OBJECT, "an object"}};
    for (size_t i = 0; i < serve_num_fields; i++) {
        const struct serve_field *f = &serve_fields[i];
        const char *name = f->name;
        const enum field_type type = f->type;
        const double min = f->min, max = f->max;
        const struct dgl_json *value = f->kinds & 1u << rd->r->kind ? field(rd, name) : NULL;
        const double number = dgl_json_f64(value);
        void *out = (char *)rd->r + f->offset;
        int64_t whole = 0;
        if (!value)
            continue;
        if (type == FIELD_REFUSED || (type == FIELD_NEUTRAL && !is_neutral(f, value)))
            return refuse(rd, name, "'%s' is not supported%s%s", name, f->why ? ": " : "",
                          f->why ? f->why : "");
        if (type == FIELD_READ || type == FIELD_IGNORED || type == FIELD_NEUTRAL)
            continue;
        if (!dgl_json_is(value, types[type].type))
            return refuse_type(rd, value, types[type].wanted, "%s", name);
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
        else if (type == FIELD_TEXT && !keep_text(rd, dgl_json_str(value), out))
            return false;
    }
    note_unknown(rd);
    return true;
}

/* Reads a bias of the token `id`, or of the tokens of `text` if `id` is negative. false removes
 * them. */
static bool read_bias(const struct reader *rd, int64_t id, struct dgl_str text,
                      const struct dgl_json *value, struct dgl_logit_bias *biases)
{
    struct serve_request *r = rd->r;
    const bool removed = dgl_json_is(value, DGL_JSON_BOOL) && !dgl_json_bool(value);
    const double number = removed ? -INFINITY : dgl_json_f64(value);
    char name[32];
    snprintf(name, sizeof(name), "token %lld", (long long)id);
    if (!removed && !(dgl_json_is(value, DGL_JSON_NUMBER) && number >= -100 && number <= 100))
        return refuse(rd, "logit_bias",
                      "'logit_bias' of %s is neither a number from -100 to 100 nor false",
                      id >= 0 ? name : DGL_PRINTABLE_STR(text));
    if (id >= 0) {
        biases[r->sampling.num_logit_bias++] = (struct dgl_logit_bias){(int32_t)id, (float)number};
        return true;
    }
    if (text.len == 0)
        return refuse(rd, "logit_bias", "a text of 'logit_bias' is empty");
    struct serve_bias *named = &r->bias_texts[r->num_bias_texts++];
    named->bias = (float)number;
    return keep_text(rd, text, &named->text);
}

/* {"15": -100, "text": false, ...} or [[15, -100], ["text", false], ...], as in llama-server. */
static bool read_logit_bias(const struct reader *rd)
{
    const struct dgl_json *biases = field(rd, "logit_bias");
    struct serve_request *r = rd->r;
    const bool list = dgl_json_is(biases, DGL_JSON_ARRAY);
    const size_t count = dgl_json_count(biases);
    size_t index = 0;
    if (!biases)
        return true;
    if (!list && !dgl_json_is(biases, DGL_JSON_OBJECT))
        return refuse_type(rd, biases, "an object of numbers by token id, or a list of pairs",
                           "logit_bias");
    if (count > DGL_LOGIT_BIAS_MAX)
        return refuse(rd, "logit_bias", "'logit_bias' has %zu entries, at most %d", count,
                      DGL_LOGIT_BIAS_MAX);
    struct dgl_logit_bias *ids = dgl_arena_alloc(&r->arena, (count + 1) * sizeof(*ids));
    r->bias_texts = dgl_arena_alloc(&r->arena, (count + 1) * sizeof(*r->bias_texts));
    if (!ids || !r->bias_texts)
        return fail_memory(rd);
    r->sampling.logit_bias = ids;
    r->sampling.num_logit_bias = 0;
    for (const struct dgl_json *v = dgl_json_first(biases); v; v = dgl_json_next(v)) {
        const struct dgl_json *first = list ? dgl_json_first(v) : NULL,
                              *value = list && first ? dgl_json_next(first) : v;
        const struct dgl_str text = list ? dgl_json_str(first) : dgl_json_key(v);
        int64_t id = -1;
        if (list && (!dgl_json_is(v, DGL_JSON_ARRAY) || dgl_json_count(v) != 2))
            return refuse(rd, "logit_bias",
                          "an element of 'logit_bias' is no pair of a token id "
                          "or text and its bias");
        if (list && !dgl_json_is(first, DGL_JSON_NUMBER) && !dgl_json_is(first, DGL_JSON_STRING))
            return refuse_type(rd, first, "a token id or a text", "logit_bias");
        /* Keys that are no numbers are texts. */
        const bool number = list ? dgl_json_is(first, DGL_JSON_NUMBER)
                                 : dgl_parse_i64(text, INT64_MIN, INT64_MAX, &id);
        if (number && list && !dgl_json_i64(first, &id))
            id = -1;
        if (number && (id < 0 || id > MAX_PROMPT_ID))
            return refuse(rd, "logit_bias", "entry %zu of 'logit_bias' is no token id", index);
        if (!read_bias(rd, id, text, value, ids))
            return false;
        index++;
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
        struct dgl_str copy;
        if (!keep_text(rd, text, &copy))
            return false;
        rd->r->stop[rd->r->num_stop++] = copy.p;
    }
    return true;
}

/* Reads a list of ids into the arena. */
static bool read_ids(const struct reader *rd, struct dgl_arena *arena, const char *key,
                     const struct dgl_json *list, struct serve_prompt *out)
{
    const size_t count = dgl_json_count(list);
    int32_t *ids = dgl_arena_alloc(arena, (count + 1) * sizeof(*ids));
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

/* [1, 2] */
static bool read_stop_ids(const struct reader *rd)
{
    const struct dgl_json *list = field(rd, "stop_token_ids");
    struct serve_prompt ids = {0};
    if (!list)
        return true;
    if (dgl_json_count(list) > SERVE_MAX_STOPS)
        return refuse(rd, "stop_token_ids", "'stop_token_ids' has %zu ids, at most %d",
                      dgl_json_count(list), SERVE_MAX_STOPS);
    if (!read_ids(rd, &rd->r->arena, "stop_token_ids", list, &ids))
        return false;
    rd->r->stop_ids = ids.ids;
    rd->r->num_stop_ids = ids.num_ids;
    return true;
}

/* An empty list means that no text ends a repetition. */
static bool read_breakers(const struct reader *rd)
{
    const struct dgl_json *list = field(rd, "dry_sequence_breakers");
    struct dgl_sampling *s = &rd->r->sampling;
    if (!list)
        return true;
    if (dgl_json_count(list) > DGL_DRY_BREAKERS_MAX)
        return refuse(rd, "dry_sequence_breakers",
                      "'dry_sequence_breakers' has %zu strings, at most %d", dgl_json_count(list),
                      DGL_DRY_BREAKERS_MAX);
    const char **texts =
        dgl_arena_alloc(&rd->r->arena, (dgl_json_count(list) + 1) * sizeof(*texts));
    if (!texts)
        return fail_memory(rd);
    s->dry_breakers = texts;
    s->num_dry_breakers = 0;
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        struct dgl_str text = dgl_json_str(v);
        if (!dgl_json_is(v, DGL_JSON_STRING))
            return refuse_type(rd, v, "a list of strings", "dry_sequence_breakers");
        if (text.len == 0 || text.len > MAX_BREAKER_LEN || memchr(text.p, '\0', text.len))
            return refuse(rd, "dry_sequence_breakers",
                          "a string of 'dry_sequence_breakers' has %zu bytes, wanted 1 to %d and "
                          "no U+0000",
                          text.len, MAX_BREAKER_LEN);
        if (!keep_text(rd, text, &text))
            return false;
        texts[s->num_dry_breakers++] = text.p;
    }
    return true;
}

/* Fields of chats and completions that the table cannot check. */
static bool read_common(const struct reader *rd)
{
    struct serve_request *r = rd->r;
    const struct dgl_json *options = field(rd, "stream_options"),
                          *usage = dgl_json_get(options, "include_usage");
    r->seeded = r->seed != -1; /* as in llama-server */
    r->sampling.seed = (uint64_t)r->seed;
    float *probabilities[] = {&r->sampling.top_p, &r->sampling.typical_p,
                              &r->sampling.xtc_threshold};
    static const char *const names[] = {"top_p", "typical_p", "xtc_threshold"};
    for (int i = 0; i < 3; i++)
        if (*probabilities[i] == 0 && field(rd, names[i]))
            *probabilities[i] = DGL_PROBABILITY_ZERO;
    if (!read_logit_bias(rd) || !read_stop(rd) || !read_stop_ids(rd) || !read_breakers(rd))
        return false;
    for (const struct dgl_json *v = dgl_json_first(field(rd, "modalities")); v;
         v = dgl_json_next(v))
        if (!dgl_str_eq(dgl_json_str(v), "text"))
            return refuse(rd, "modalities", "'modalities' is not supported, but for text");
    if (!serve_shape_read(r, rd->root, rd->error))
        return false;
    if (r->shape.param && r->ignore_eos)
        return refuse(rd, "ignore_eos", "'ignore_eos' contradicts '%s', which ends the answer",
                      r->shape.param);
    if (r->best_of && r->best_of != r->n)
        return refuse(rd, "best_of",
                      "'best_of' is %d, other values than that of 'n' are not supported",
                      r->best_of);
    if (options && !r->stream)
        return refuse(rd, "stream_options", "'stream_options' is for requests with 'stream'");
    if (usage && !dgl_json_is(usage, DGL_JSON_NULL) && !dgl_json_is(usage, DGL_JSON_BOOL))
        return refuse_type(rd, usage, "true or false", "stream_options.include_usage");
    r->include_usage = dgl_json_bool(usage);
    if (r->max_tokens == TOKENS_OMITTED && rd->defaults->limits_tokens)
        r->max_tokens = rd->defaults->max_tokens;
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
        r->keep_reasoning = reasoning ? known == 1 : rd->defaults->keep_reasoning;
        if (r->top_logprobs > 0 && !r->logprobs)
            return refuse(rd, "top_logprobs", "'top_logprobs' wants 'logprobs' to be true");
        return true;
    }
    r->logprobs = field(rd, "logprobs") != NULL;
    return true;
}

/* ---- prompts --------------------------------------------------------------------------------- */

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
    struct serve_prompt *p = dgl_arena_alloc(&rd->r->input, count * sizeof(*p));
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
        else if (!read_ids(rd, &rd->r->input, key, v, p))
            return false;
        /* An empty text of a completion begins at the model's first token. */
        if (p->num_ids == 0 && (p->ids || (p->text.len == 0 && rd->r->kind == SERVE_EMBEDDING)))
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

/* Returns an upper limit of the values of JSON in a text, which may itself be a string of JSON. */
static size_t values_of(const char *text, size_t len)
{
    size_t values = 1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == ',' || text[i] == '[' || text[i] == '{')
            values++;
        else if (text[i] == '\\' && len - i >= 6 &&
                 (strncasecmp(text + i, "\\u002c", 6) == 0 ||
                  strncasecmp(text + i, "\\u005b", 6) == 0 ||
                  strncasecmp(text + i, "\\u007b", 6) == 0))
            values++;
    }
    return values;
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
                rd->r->argument_values += text.len ? values_of(text.p, text.len) : 0;
                if (rd->r->argument_values > SERVE_MAX_VALUES)
                    return refuse(rd, "messages",
                                  "the arguments of the calls in 'messages' have more than %d "
                                  "values",
                                  SERVE_MAX_VALUES);
                const enum dgl_status status =
                    text.len ? dgl_json_parse(NULL, "arguments", text.p, text.len, &doc)
                             : DGL_ERR_FORMAT;
                if (status == DGL_ERR_NO_MEMORY)
                    return fail_memory(rd);
                const bool parsed =
                    status == DGL_OK && depth_of(dgl_json_root(doc), MAX_DEPTH) < MAX_DEPTH;
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
    dgl_jw_field_cstr(w, "role", roles[known]);
    if (dgl_json_is(content, DGL_JSON_ARRAY)) {
        dgl_jw_key(w, "content");
        if (!write_parts(rd, w, index, content))
            return false;
    } else if (dgl_json_is(content, DGL_JSON_STRING)) {
        dgl_jw_key(w, "content");
        dgl_jw_value(w, content);
    } else if (dgl_json_type(content) != DGL_JSON_NULL || known != 3 || !calls) {
        return refuse_type(rd, content, "a string or a list of parts", "messages[%zu].content",
                           index);
    }
    static const char *const texts[] = {"name", "tool_call_id", "reasoning_content", "thinking",
                                        "reasoning"};
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
        struct dgl_str copy;
        if (!keep_text(rd, name, &copy))
            return false;
        rd->r->functions[rd->r->num_functions++] = copy.p;
    }
    if (dgl_json_count(tools) == 0)
        return true;
    dgl_jw_key(w, "tools");
    dgl_jw_value(w, tools);
    return true;
}

/* Copies the text of a content, a string or a list of parts that write_parts() accepted. */
static bool copy_content(const struct reader *rd, const struct dgl_json *content, const char **out)
{
    struct dgl_buf text = {0};
    const bool parts = dgl_json_is(content, DGL_JSON_ARRAY);
    for (const struct dgl_json *v = parts ? dgl_json_first(content) : content; v;
         v = parts ? dgl_json_next(v) : NULL) {
        const struct dgl_str part = dgl_json_str(parts ? dgl_json_get(v, "text") : v);
        dgl_buf_append(&text, part.p, part.len);
    }
    *out = text.failed ? NULL : dgl_arena_strndup(&rd->r->arena, text.p ? text.p : "", text.len);
    dgl_buf_finish(&text);
    return *out || fail_memory(rd);
}

/* Decides if the answer continues the last message. */
static bool read_turn(const struct reader *rd, const struct dgl_json *messages)
{
    static const char *const names[] = {"continue_final_message", "add_generation_prompt"};
    const struct dgl_json *last = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (field(rd, names[i]) && !dgl_json_is(field(rd, names[i]), DGL_JSON_BOOL))
            return refuse_type(rd, field(rd, names[i]), "true or false", "%s", names[i]);
    for (const struct dgl_json *v = dgl_json_first(messages); v; v = dgl_json_next(v))
        last = v;
    const struct dgl_json *content = dgl_json_get(last, "content");
    const struct turn turn = turn_read(rd->root);
    if (turn.continues && turn.new_answer)
        return refuse(rd, names[0],
                      "'%s' continues the last message, '%s' begins a new one: give "
                      "one of them",
                      names[0], names[1]);
    if (turn.continues && dgl_json_type(content) == DGL_JSON_NULL)
        return refuse(rd, names[0], "'%s' is set, but the last message has no content", names[0]);
    if (turn.continues && rd->r->shape.param)
        return refuse(rd, rd->r->shape.param,
                      "'%s' requires the form of a whole answer, but the answer continues the last "
                      "message",
                      rd->r->shape.param);
    rd->r->add_generation_prompt = turn.new_answer;
    rd->r->continue_implied = turn.implied;
    return !turn.continues || copy_content(rd, content, &rd->r->continues);
}

/* Writes reasoning_effort as variables of the template. "none" also sets the variable that most
 * templates have for it. */
static bool read_effort(const struct reader *rd, const struct dgl_json *more,
                        struct dgl_json_writer *w)
{
    const struct dgl_json *effort = field(rd, "reasoning_effort");
    if (!effort)
        return true;
    if (!dgl_json_is(effort, DGL_JSON_STRING))
        return refuse_type(rd, effort, "a string", "reasoning_effort");
    rd->r->effort =
        dgl_arena_strndup(&rd->r->arena, dgl_json_str(effort).p, dgl_json_str(effort).len);
    if (!rd->r->effort)
        return fail_memory(rd);
    if (!dgl_json_get(more, "reasoning_effort")) {
        dgl_jw_key(w, "reasoning_effort");
        dgl_jw_value(w, effort);
    }
    if (strcmp(rd->r->effort, "none") == 0 && !dgl_json_get(more, "enable_thinking"))
        dgl_jw_field_bool(w, "enable_thinking", false);
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
        static const char *const own[] = {"messages", "tools", "add_generation_prompt",
                                          "continue_final_message"};
        const struct dgl_str key = dgl_json_key(v);
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
            if (dgl_str_eq(key, own[i]))
                return refuse(rd, "chat_template_kwargs",
                              "'chat_template_kwargs' may not set %s: it is a field of the request",
                              own[i]);
        dgl_jw_key_str(&w, key);
        dgl_jw_value(&w, v);
    }
    const struct dgl_json *effort = field(rd, "reasoning_effort");
    if (effort && !dgl_json_is(effort, DGL_JSON_STRING))
        return refuse_type(rd, effort, "a string", "reasoning_effort");
    for (const struct dgl_json *v = dgl_json_first(rd->defaults->variables); v;
         v = dgl_json_next(v)) {
        const struct dgl_str key = dgl_json_key(v);
        /* reasoning_effort also sets enable_thinking if it is "none" */
        const bool given =
            dgl_json_get(more, key.p) ||
            (effort &&
             (dgl_str_eq(key, "reasoning_effort") ||
              (dgl_str_eq(dgl_json_str(effort), "none") && dgl_str_eq(key, "enable_thinking"))));
        if (given)
            continue;
        dgl_jw_key_str(&w, key);
        dgl_jw_value(&w, v);
    }
    if (!read_effort(rd, more, &w) || !read_turn(rd, messages) || !read_tools(rd, &w))
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
        r->prompts = dgl_arena_alloc(&r->input, sizeof(*r->prompts));
        if (!r->prompts)
            return fail_memory(rd);
        r->num_prompts = 1;
        if (r->kind == SERVE_DETOKENIZE && !dgl_json_is(tokens, DGL_JSON_ARRAY))
            return refuse_type(rd, tokens, "a list of token ids", "tokens");
        if (r->kind == SERVE_DETOKENIZE)
            return read_ids(rd, &r->input, "tokens", tokens, r->prompts);
        r->prompts->text = dgl_json_str(content);
        return dgl_json_is(content, DGL_JSON_STRING) ||
               refuse_type(rd, content, "a string", "content");
    }
    return false;
}

bool serve_request_read(enum serve_kind kind, const struct serve_defaults *defaults,
                        const char *body, size_t len, struct serve_request *out,
                        struct serve_error *error)
{
    struct dgl_error why = {""};
    const struct dgl_log log = {.error = &why};
    *out = (struct serve_request){.kind = kind,
                                  .sampling = defaults->sampling,
                                  .max_tokens = TOKENS_OMITTED,
                                  .embd_normalize = DGL_NORMALIZE_EUCLIDEAN,
                                  .n = 1,
                                  .seed = defaults->seed,
                                  .parallel_calls = true,
                                  .cache_prompt = true,
                                  .parse_special = true};
    const enum dgl_status status =
        dgl_json_parse_most(&log, "the body", body, len, SERVE_MAX_VALUES, &out->doc);
    if (status != DGL_OK)
        return serve_refuse(error, status == DGL_ERR_NO_MEMORY ? 500 : 400, NULL, "%s", why.text);
    const struct reader rd = {defaults, out, error, dgl_json_root(out->doc)};
    if (!dgl_json_is(rd.root, DGL_JSON_OBJECT))
        return serve_refuse(error, 400, NULL, "the body is %s, wanted an object",
                            dgl_json_type_name(dgl_json_type(rd.root)));
    return read_fields(&rd) && read_kind(&rd);
}

void serve_request_release(struct serve_request *r)
{
    dgl_json_destroy(&r->doc);
    dgl_arena_finish(&r->input);
    dgl_buf_finish(&r->messages);
    r->prompts = NULL;
}

void serve_request_finish(struct serve_request *r)
{
    serve_request_release(r);
    dgl_arena_finish(&r->arena);
}

uint64_t serve_request_cost(const char *body, size_t len)
{
    /* A node: in the tree of the body, in the variables of the template, and in their tree. A byte
     * of a text: in these, in the rendered prompt, and in the tokenizer, which takes most. */
    enum { VALUE_BYTES = 300, TEXT_BYTES = 80 };
    /* The arguments of calls are texts of JSON, with a limit of their own. */
    const uint64_t most = 2 * SERVE_MAX_VALUES, values = values_of(body, len);
    return (values < most ? values : most) * VALUE_BYTES + (uint64_t)len * TEXT_BYTES;
}
