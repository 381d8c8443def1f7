/* Reads answers of chat models while they are generated. A tool call is reported when it is
 * complete, because text that only begins like a call is content. Apart from calls, only two things
 * are held back: blanks next to a tag, and text that may become a tag. */
#include "loader/chat/reply.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"

/* Longest name (with an id) before arguments, and longest harmony header. Longer text is
 * content. */
#define MAX_NAME 256
#define MAX_HEAD 1024

enum reply_state {
    REPLY_TEXT,
    REPLY_THINKS,
    REPLY_CALLS,
    REPLY_HEAD, /* harmony only, as REPLY_BODY */
    REPLY_BODY,
};

/* Scanner for the end of a JSON value: counts brackets outside of strings. */
struct json_scan {
    size_t pos;
    int depth;
    bool string, escape, ended;
};

struct dgl_reply {
    const struct dgl_log *log;
    const struct reply_format *format; /* NULL: calls are content */
    struct dgl_reply_params p;
    enum dgl_status status; /* status of the first failure */
    enum reply_state state;
    struct dgl_buf text; /* text that is not reported yet */
    bool begins;         /* <think> may follow */
    bool drops_blanks;   /* skip blanks: the last token was a tag */
    bool alone;          /* JSON without a tag would be a call */
    size_t num_calls;
    /* In a call: start of its JSON or name, after the opening tag. In harmony: start of the body,
     * after its header. */
    size_t call;
    struct json_scan scan;
    /* In a harmony body: fields of its header. */
    enum dgl_reply_kind kind;
    char function[MAX_NAME]; /* "" if the body is not a call */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct dgl_reply *r, const struct dgl_reply_part *part)
{
    if (r->status == DGL_OK && !r->p.part_cb(r->p.priv, part))
        r->status = DGL_ERR_CANCELLED;
}

/* Reports the next `len` bytes. The caller then drops them. */
static void tell_text(struct dgl_reply *r, enum dgl_reply_kind kind, size_t len)
{
    if (len > 0)
        tell(r, &(struct dgl_reply_part){.kind = kind, .text = r->text.p, .len = len});
}

static void drop(struct dgl_reply *r, size_t len)
{
    assert(len <= r->text.len);
    memmove(r->text.p, r->text.p + len, r->text.len - len + 1);
    r->text.len -= len;
}

/* ---- looking --------------------------------------------------------------------------------- */

static size_t skip_blanks(const struct dgl_reply *r, size_t from)
{
    while (from < r->text.len && is_blank(r->text.p[from]))
        from++;
    return from;
}

static size_t trim_end(const struct dgl_reply *r, size_t end)
{
    while (end > 0 && is_blank(r->text.p[end - 1]))
        end--;
    return end;
}

enum match { MATCH_NO, MATCH_MAYBE, MATCH_YES };

/* Compares the text at `at` with a tag. Returns MATCH_MAYBE if the text ends inside of the tag and
 * more may come. */
static enum match match_at(const struct dgl_reply *r, size_t at, const char *tag, bool last)
{
    const size_t len = strlen(tag), left = r->text.len - at;
    if (left >= len)
        return memcmp(r->text.p + at, tag, len) == 0 ? MATCH_YES : MATCH_NO;
    return !last && memcmp(r->text.p + at, tag, left) == 0 ? MATCH_MAYBE : MATCH_NO;
}

/* Returns the offset of a tag, or the length of the text if there is none. */
static size_t find(const struct dgl_reply *r, size_t from, const char *tag)
{
    const char *at =
        from < r->text.len ? memmem(r->text.p + from, r->text.len - from, tag, strlen(tag)) : NULL;
    return at ? (size_t)(at - r->text.p) : r->text.len;
}

/* Returns the offset of the longest end of the text that could be the start of a tag. */
static size_t find_partial(const struct dgl_reply *r, const char *tag)
{
    const size_t most = strlen(tag) - 1;
    for (size_t k = most < r->text.len ? most : r->text.len; k > 0; k--)
        if (memcmp(r->text.p + r->text.len - k, tag, k) == 0)
            return r->text.len - k;
    return r->text.len;
}

/* Continues to the end of the value that begins at scan->pos. */
static void scan_on(struct json_scan *s, const struct dgl_buf *text)
{
    while (s->pos < text->len && !s->ended) {
        const char c = text->p[s->pos++];
        if (s->escape)
            s->escape = false;
        else if (s->string && c == '\\')
            s->escape = true;
        else if (c == '"')
            s->string = !s->string;
        else if (!s->string && (c == '{' || c == '['))
            s->depth++;
        else if (!s->string && (c == '}' || c == ']'))
            s->ended = --s->depth == 0;
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool is_known(const struct dgl_reply *r, const char *name)
{
    for (size_t i = 0; i < r->p.num_functions; i++)
        if (strcmp(r->p.functions[i], name) == 0)
            return true;
    return false;
}

/* Writes arguments as the text of a JSON object. Returns false if they are not an object. Models
 * write them as an object, or as a string with the text of an object. */
static bool put_arguments(const struct dgl_json *value, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    const struct dgl_str text = dgl_json_str(value);
    struct dgl_json_doc *doc = NULL;
    bool ok = !value || dgl_json_is(value, DGL_JSON_OBJECT);
    if (dgl_json_is(value, DGL_JSON_STRING)) {
        ok = dgl_json_parse(NULL, "arguments", text.p, text.len, &doc) == DGL_OK &&
             dgl_json_is(dgl_json_root(doc), DGL_JSON_OBJECT);
        value = ok ? dgl_json_root(doc) : NULL;
    }
    if (ok && value)
        dgl_jw_value(&w, value);
    else if (ok)
        dgl_buf_puts(out, "{}");
    dgl_json_destroy(&doc);
    return ok;
}

/* Reports a call, and frees its arguments. `id` may be empty. */
static void tell_call(struct dgl_reply *r, const char *name, struct dgl_str id,
                      struct dgl_buf *arguments)
{
    if (arguments->failed)
        r->status = dgl_fail_memory(r->log, "call", arguments->len);
    else
        tell(r, &(struct dgl_reply_part){.kind = DGL_REPLY_CALL,
                                         .text = arguments->p,
                                         .len = arguments->len,
                                         .name = name,
                                         .id = id.len ? id.p : NULL});
    r->num_calls++;
    dgl_buf_finish(arguments);
}

/* Returns true if `call` is a call, and reports it if `tells`. A call without a tag must have
 * arguments and name a known function. */
static bool take_call(struct dgl_reply *r, const struct dgl_json *call, bool tells)
{
    const struct dgl_json *arguments = dgl_json_get(call, "arguments");
    const struct dgl_str name = dgl_json_str(dgl_json_get(call, "name"));
    struct dgl_buf text = {0};
    if (!arguments)
        arguments = dgl_json_get(call, "parameters");
    bool ok = name.len > 0 && name.len < MAX_NAME && !memchr(name.p, '\0', name.len) &&
              put_arguments(arguments, &text);
    if (ok && r->alone)
        ok = arguments && is_known(r, name.p);
    if (text.failed || (ok && tells))
        tell_call(r, name.p, dgl_json_str(dgl_json_get(call, "id")), &text);
    dgl_buf_finish(&text);
    return ok;
}

/* Reads one call, or a list of calls in some formats. */
static bool take_calls(struct dgl_reply *r, struct dgl_str value)
{
    struct dgl_json_doc *doc = NULL;
    bool ok = dgl_json_parse(NULL, "call", value.p, value.len, &doc) == DGL_OK;
    const struct dgl_json *root = ok ? dgl_json_root(doc) : NULL;
    const bool list = dgl_json_is(root, DGL_JSON_ARRAY);
    ok = ok && (!list || dgl_json_count(root) > 0);
    /* The first round checks all calls, the second reports them, so that no part of a bad list is
     * reported. */
    for (int tells = 0; tells < 2 && ok; tells++)
        for (const struct dgl_json *v = list ? dgl_json_first(root) : root; v && ok;
             v = list ? dgl_json_next(v) : NULL)
            ok = take_call(r, v, tells);
    dgl_json_destroy(&doc);
    return ok;
}

/* Reads a value with the arguments only. Name and id, both NUL-terminated, came before it. */
static bool take_arguments(struct dgl_reply *r, const char *name, const char *id,
                           struct dgl_str value)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf text = {0};
    const bool ok = name[0] && dgl_json_parse(NULL, "call", value.p, value.len, &doc) == DGL_OK &&
                    put_arguments(dgl_json_root(doc), &text);
    if (ok)
        tell_call(r, name, dgl_str_of(id), &text);
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
    return ok;
}

/* Copies text without the blanks around it. Returns false if it is too long. */
static bool copy_word(char out[MAX_NAME], struct dgl_str text)
{
    text = dgl_str_trim(text);
    if (text.len >= MAX_NAME || (text.len > 0 && memchr(text.p, '\0', text.len)))
        return false;
    if (text.len > 0)
        memcpy(out, text.p, text.len);
    out[text.len] = '\0';
    return true;
}

/* The opening tag becomes content, and so does the text up to the next tag. */
static void refuse_call(struct dgl_reply *r)
{
    const size_t len = r->call + r->alone;
    tell_text(r, DGL_REPLY_CONTENT, len);
    drop(r, len);
    r->alone = false;
    r->state = REPLY_TEXT;
}

static void accept_call(struct dgl_reply *r, size_t end)
{
    drop(r, end);
    r->state = REPLY_TEXT;
    r->drops_blanks = true;
    r->alone = r->format->alone;
}

/* Reads the name, and the id if there is one, between the tag and the arguments. Sets *json to the
 * start of the arguments. */
static enum match read_name(const struct dgl_reply *r, size_t from, bool last, char name[MAX_NAME],
                            char id[MAX_NAME], size_t *json)
{
    const struct reply_format *f = r->format;
    const size_t end = find(r, from, f->args);
    if (end == r->text.len)
        return last || end - from > 2 * MAX_NAME ? MATCH_NO : MATCH_MAYBE;
    const size_t sep = find(r, from, f->id), cut = sep < end ? sep : end;
    *json = end + strlen(f->args);
    id[0] = '\0';
    return copy_word(name, (struct dgl_str){r->text.p + from, cut - from}) &&
                   (cut == end || copy_word(id, (struct dgl_str){r->text.p + cut + strlen(f->id),
                                                                 end - cut - strlen(f->id)}))
               ? MATCH_YES
               : MATCH_NO;
}

/* Returns true if the rest of the text can be read now, false if more text must come first. */
static bool read_call(struct dgl_reply *r, bool last)
{
    const struct reply_format *f = r->format;
    char name[MAX_NAME] = "", id[MAX_NAME] = "";
    size_t from = skip_blanks(r, r->call);
    enum match found = from < r->text.len ? MATCH_YES : last ? MATCH_NO : MATCH_MAYBE;
    if (found == MATCH_YES && f->args && r->text.p[from] != '{' && r->text.p[from] != '[') {
        found = read_name(r, from, last, name, id, &from);
        from = found == MATCH_YES ? skip_blanks(r, from) : from;
        if (found == MATCH_YES && from == r->text.len)
            found = last ? MATCH_NO : MATCH_MAYBE;
    }
    if (found == MATCH_YES) {
        const char first = r->text.p[from];
        if (first != '{' && !(f->list && !name[0] && first == '['))
            found = MATCH_NO;
    }
    if (found == MATCH_YES) {
        if (r->scan.pos == 0)
            r->scan.pos = from;
        scan_on(&r->scan, &r->text);
        if (!r->scan.ended)
            found = last ? MATCH_NO : MATCH_MAYBE;
    }
    size_t end = r->scan.pos;
    if (found == MATCH_YES && f->close) {
        const size_t at = skip_blanks(r, end);
        found = match_at(r, at, f->close, last);
        end = found == MATCH_YES ? at + strlen(f->close) : end;
        if (found == MATCH_NO && last && match_at(r, at, f->close, false) == MATCH_MAYBE)
            end = r->text.len; /* the answer ended inside of the tag */
        if (found == MATCH_NO) /* the closing tag is missing */
            found = MATCH_YES;
    }
    if (found == MATCH_MAYBE)
        return false;
    const struct dgl_str value = {r->text.p + from, r->scan.pos > from ? r->scan.pos - from : 0};
    if (found == MATCH_YES && (name[0] ? take_arguments(r, name, id, value) : take_calls(r, value)))
        accept_call(r, end);
    else
        refuse_call(r);
    return true;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void begin_call(struct dgl_reply *r, size_t at, size_t len, bool alone)
{
    r->state = REPLY_CALLS;
    r->call = at + len;
    r->alone = alone;
    r->scan = (struct json_scan){0};
}

/* Reads text that may only begin an answer: <think>, or a call without a tag. */
static bool read_beginning(struct dgl_reply *r, bool last)
{
    const size_t at = skip_blanks(r, 0);
    if (r->begins) {
        const enum match found = match_at(r, at, REPLY_THINK_OPEN, last);
        if (found == MATCH_MAYBE)
            return false;
        r->begins = false;
        if (found == MATCH_YES) {
            drop(r, at + strlen(REPLY_THINK_OPEN));
            r->state = REPLY_THINKS;
            r->drops_blanks = true;
            return true;
        }
    }
    if (!r->alone)
        return true;
    if (at == r->text.len && !last)
        return false;
    if (at < r->text.len && r->text.p[at] == '{') {
        begin_call(r, at, 0, true);
        return true;
    }
    /* Llama 3 writes ";" between calls. */
    if (at < r->text.len && r->text.p[at] == ';' && r->num_calls > 0) {
        drop(r, at + 1);
        r->drops_blanks = true;
        return true;
    }
    r->alone = false;
    return true;
}

static bool read_text(struct dgl_reply *r, bool last)
{
    const bool thinks = r->state == REPLY_THINKS;
    const enum dgl_reply_kind kind = thinks ? DGL_REPLY_REASONING : DGL_REPLY_CONTENT;
    const char *tag = thinks ? REPLY_THINK_CLOSE : r->format ? r->format->open : NULL;
    if (r->drops_blanks) {
        drop(r, skip_blanks(r, 0));
        if (r->text.len == 0)
            return false;
        r->drops_blanks = false;
    }
    if (!thinks && (r->begins || r->alone)) {
        if (!read_beginning(r, last))
            return false;
        if (r->state != REPLY_TEXT || r->drops_blanks || r->alone)
            return true;
    }
    const size_t at = tag ? find(r, 0, tag) : r->text.len;
    if (at < r->text.len) {
        const size_t end = trim_end(r, at);
        tell_text(r, kind, end);
        drop(r, thinks ? at + strlen(tag) : end);
        if (!thinks) {
            begin_call(r, at - end, strlen(tag), false);
            return true;
        }
        r->state = REPLY_TEXT;
        r->drops_blanks = true;
        r->alone = r->format && r->format->alone;
        return true;
    }
    const size_t end = tag && !last ? trim_end(r, find_partial(r, tag)) : r->text.len;
    tell_text(r, kind, end);
    drop(r, end);
    return false;
}

/* ---- harmony --------------------------------------------------------------------------------- */

static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
#define NUM_ENDS      (sizeof(ends) / sizeof(ends[0]))
#define NUM_ENDS_GONE 3 /* the others begin the next header */

/* Returns the word after `tag` in a header, or an empty string. */
static struct dgl_str word_after(struct dgl_str head, const char *tag)
{
    const char *at = memmem(head.p, head.len, tag, strlen(tag));
    if (!at)
        return (struct dgl_str){head.p, 0};
    at += strlen(tag);
    size_t len = 0;
    while (at + len < head.p + head.len && !is_blank(at[len]) && at[len] != '<')
        len++;
    return (struct dgl_str){at, len};
}

static void read_head(struct dgl_reply *r, struct dgl_str head)
{
    static const char functions[] = "functions.";
    const struct dgl_str channel = word_after(head, "<|channel|>");
    struct dgl_str to = word_after(head, " to=");
    r->function[0] = '\0';
    r->kind = dgl_str_eq(channel, "analysis") && !r->p.keep_reasoning ? DGL_REPLY_REASONING
                                                                      : DGL_REPLY_CONTENT;
    if (r->p.calls && dgl_str_starts(to, functions)) {
        to.p += strlen(functions);
        to.len -= strlen(functions);
        if (!copy_word(r->function, to))
            r->function[0] = '\0';
    }
}

/* Reads between two bodies, or before the first one. */
static bool read_channels_head(struct dgl_reply *r, bool last)
{
    static const char message[] = "<|message|>";
    static const char *const begins[] = {"<|channel|>", "<|start|>", "<|constrain|>", "<|message|>",
                                         " to="};
    const size_t at = find(r, 0, message);
    if (r->begins && r->text.len > 0) {
        enum match any = MATCH_NO;
        for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
            const enum match found = match_at(r, 0, begins[i], last);
            any = found > any ? found : any;
        }
        if (any == MATCH_MAYBE)
            return false;
        r->begins = false;
        if (any == MATCH_NO) { /* the model was not trained on channels */
            r->state = REPLY_BODY;
            r->kind = DGL_REPLY_CONTENT;
            r->function[0] = '\0';
            r->call = 0;
            return true;
        }
    }
    if (at < r->text.len) {
        read_head(r, (struct dgl_str){r->text.p, at});
        r->call = at + strlen(message);
        r->state = REPLY_BODY;
        if (!r->function[0]) { /* keep that of a call: it may become content */
            drop(r, r->call);
            r->call = 0;
        }
        return true;
    }
    if (last || r->text.len > MAX_HEAD) /* headers are never shown to the user */
        drop(r, last ? r->text.len : r->text.len - strlen(message));
    return false;
}

static bool read_channels_body(struct dgl_reply *r, bool last)
{
    const bool call = r->function[0] != '\0';
    size_t at = r->text.len, hold = r->text.len, gone = 0;
    for (size_t i = 0; i < NUM_ENDS; i++) {
        const size_t found = find(r, r->call, ends[i]), partial = find_partial(r, ends[i]);
        if (found < at) {
            at = found;
            gone = i < NUM_ENDS_GONE ? strlen(ends[i]) : 0;
        }
        hold = partial < hold ? partial : hold;
    }
    const bool ended = at < r->text.len || last;
    if (ended && call &&
        !take_arguments(r, r->function, "", (struct dgl_str){r->text.p + r->call, at - r->call}))
        tell_text(r, DGL_REPLY_CONTENT, at + gone);
    else if (!call)
        tell_text(r, r->kind, ended ? at : hold);
    if (ended || !call)
        drop(r, ended ? at + gone : hold);
    if (ended)
        r->state = REPLY_HEAD;
    return ended && r->text.len > 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

enum dgl_status reply_create(const struct dgl_log *log, const struct reply_format *format,
                             bool thinks, const struct dgl_reply_params *p, struct dgl_reply **out)
{
    struct dgl_str prompt = dgl_str_trim(dgl_str_of(p->prompt_end));
    struct dgl_reply *r = *out = dgl_new(struct dgl_reply);
    if (!r)
        return dgl_fail_memory(log, "reply", sizeof(*r));
    r->log = log;
    r->p = *p;
    if (format && (p->calls || format->channels))
        r->format = format;
    if (r->format && format->channels) {
        r->state = REPLY_HEAD;
        r->begins = true;
        return DGL_OK;
    }
    r->alone = r->format && format->alone;
    r->begins = thinks && !p->keep_reasoning;
    if (r->begins && dgl_str_ends(prompt, REPLY_THINK_OPEN)) {
        r->begins = false;
        r->drops_blanks = true;
        r->state = REPLY_THINKS;
    }
    return DGL_OK;
}

void reply_destroy(struct dgl_reply **reply)
{
    if (!*reply)
        return;
    dgl_buf_finish(&(*reply)->text);
    free(*reply);
    *reply = NULL;
}

enum dgl_status reply_push(struct dgl_reply *r, struct dgl_str text, bool last)
{
    bool more = true;
    dgl_buf_append(&r->text, text.p, text.len);
    if (r->text.failed && r->status == DGL_OK)
        r->status = dgl_fail_memory(r->log, "reply", r->text.len + text.len);
    while (more && r->status == DGL_OK)
        switch (r->state) {
        case REPLY_TEXT:
        case REPLY_THINKS:
            more = read_text(r, last);
            break;
        case REPLY_CALLS:
            more = read_call(r, last);
            break;
        case REPLY_HEAD:
            more = read_channels_head(r, last);
            break;
        case REPLY_BODY:
            more = read_channels_body(r, last);
            break;
        }
    return r->status;
}
