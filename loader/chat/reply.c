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
#define FENCE    "```"
/* Most blanks that are skipped before a tag or a value, so that a run of blanks is not read again
 * with each piece of the answer. More are content. */
#define MAX_BLANKS 256

enum reply_state {
    REPLY_TEXT,
    REPLY_THINKS,
    REPLY_CALLS,
    REPLY_HEAD, /* harmony only, as REPLY_BODY */
    REPLY_BODY,
};

/* Bound of the work on an answer: bytes that are searched per byte of the answer. Text that is held
 * back is searched again with each piece: MAX_BLANKS and a tag. Each other byte is searched a few
 * times. So no answer should reach the bound; one that does has no more calls. */
#define STEPS_PER_BYTE (2 * MAX_BLANKS)
#define STEPS_FREE     65536

/* Scanner for the end of a JSON list or object. It stops at the first byte that is not JSON, so
 * that text with many opening tags is not scanned once per tag. Words and numbers are not checked.
 * {0} expects a value. */
enum { MAX_NESTING = 256 };
struct json_scan {
    size_t pos; /* 0: not begun */
    size_t depth;
    enum { SCAN_VALUE, SCAN_FIRST, SCAN_KEY, SCAN_COLON, SCAN_MORE, SCAN_WORD } expects;
    bool string, escape, key, ended, bad;
    bool objects[MAX_NESTING]; /* by depth: an object, not a list */
};

struct dgl_reply {
    const struct dgl_log *log;
    const struct reply_format *format; /* NULL: calls are content */
    struct dgl_reply_params p;
    enum dgl_status status; /* status of the first failure */
    enum reply_state state;
    struct dgl_buf store;
    struct dgl_str text; /* the end of `store` that is not reported yet */
    size_t given;        /* bytes at the start of `text` that the answer continues: not reported */
    bool muted;          /* reads text that the answer continues */
    uint64_t steps, bytes;
    bool begins;       /* <think> may follow */
    bool drops_blanks; /* skip blanks: the last token was a tag */
    bool alone;        /* JSON without a tag would be a call */
    size_t num_calls;
    /* In a call: length of the text that opened it, such as a tag. In harmony: start of the body,
     * after its header. */
    size_t call;
    bool fenced; /* in a code fence, which opened the call if `strict` */
    bool strict; /* no tag opened the call: it must name a known function */
    bool again;  /* a call of this tag was read, more may follow */
    size_t value;
    struct json_scan scan;
    /* Bytes that do not contain the start of the tag which ends a name, a header or a body. */
    size_t searched;
    /* In a harmony body: kind and function of its header. In a call: name and id before the
     * arguments. */
    enum dgl_reply_kind kind;
    bool cut_head;           /* the beginning of a long header is gone */
    char function[MAX_NAME]; /* "" if there is none */
    char id[MAX_NAME];
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- telling --------------------------------------------------------------------------------- */

static void tell(struct dgl_reply *r, const struct dgl_reply_part *part)
{
    if (r->status == DGL_OK && !r->muted && !r->p.part_cb(r->p.priv, part))
        r->status = DGL_ERR_CANCELLED;
}

/* Reports the next `len` bytes. The caller then drops them. */
static void tell_text(struct dgl_reply *r, enum dgl_reply_kind kind, size_t len)
{
    if (len > r->given)
        tell(r, &(struct dgl_reply_part){
                    .kind = kind, .text = r->text.p + r->given, .len = len - r->given});
}

static void drop(struct dgl_reply *r, size_t len)
{
    assert(len <= r->text.len);
    r->text.p += len;
    r->text.len -= len;
    r->given -= len < r->given ? len : r->given;
    r->searched -= len < r->searched ? len : r->searched;
}

/* ---- looking --------------------------------------------------------------------------------- */

static size_t skip_blanks(const struct dgl_reply *r, size_t from)
{
    const size_t most = from + MAX_BLANKS;
    while (from < r->text.len && from < most && is_blank(r->text.p[from]))
        from++;
    return from;
}

static size_t trim_end(const struct dgl_reply *r, size_t end)
{
    const size_t least = end > MAX_BLANKS ? end - MAX_BLANKS : 0;
    while (end > least && is_blank(r->text.p[end - 1]))
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

/* Returns the offset of a tag in [from, end), or `end` if there is none. */
static size_t find(struct dgl_reply *r, size_t from, size_t end, const char *tag)
{
    const char *at = from < end ? memmem(r->text.p + from, end - from, tag, strlen(tag)) : NULL;
    const size_t found = at ? (size_t)(at - r->text.p) : end;
    r->steps += found > from ? found - from : 0;
    return found;
}

/* Returns the offset of the first of several tags, or the length of the text. A NULL tag is never
 * found. */
static size_t find_first(struct dgl_reply *r, size_t from, const char *const *tags, size_t count,
                         size_t *which)
{
    size_t at = from;
    *which = count;
    for (; at < r->text.len; at++)
        for (size_t i = 0; i < count; i++)
            if (tags[i] && r->text.p[at] == tags[i][0] &&
                match_at(r, at, tags[i], true) == MATCH_YES) {
                r->steps += at - from;
                *which = i;
                return at;
            }
    r->steps += at > from ? at - from : 0;
    return r->text.len;
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

static void scan_open(struct json_scan *s, bool object)
{
    if (s->depth == MAX_NESTING) {
        s->bad = true;
        return;
    }
    s->objects[s->depth++] = object;
    s->expects = SCAN_FIRST;
}

static void scan_close(struct json_scan *s, bool object)
{
    s->bad = s->depth == 0 || s->objects[s->depth - 1] != object;
    s->depth -= !s->bad;
    s->ended = !s->bad && s->depth == 0;
    s->expects = SCAN_MORE;
}

/* A byte between values. */
static void scan_mark(struct json_scan *s, char c)
{
    const bool object = s->depth > 0 && s->objects[s->depth - 1], word = s->expects == SCAN_WORD;
    const bool first = s->expects == SCAN_FIRST, more = s->expects == SCAN_MORE || word;
    const bool key = s->expects == SCAN_KEY || (first && object),
               value = s->expects == SCAN_VALUE || (first && !object);
    if (is_blank(c))
        s->expects = word ? SCAN_MORE : s->expects;
    else if (c == '"' && (key || (value && s->depth > 0)))
        s->string = true, s->key = key;
    else if ((c == '{' || c == '[') && value)
        scan_open(s, c == '{');
    else if ((c == '}' || c == ']') && (first || more))
        scan_close(s, c == '}');
    else if (c == ',' && more)
        s->expects = object ? SCAN_KEY : SCAN_VALUE;
    else if (c == ':' && s->expects == SCAN_COLON)
        s->expects = SCAN_VALUE;
    else if (((value && s->depth > 0) || word) &&
             ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '+' ||
              c == '.' || c == 'E'))
        s->expects = SCAN_WORD;
    else
        s->bad = true;
}

/* Continues to the end of the value that begins at scan->pos. */
static void scan_on(struct dgl_reply *r)
{
    struct json_scan *s = &r->scan;
    const size_t from = s->pos;
    while (s->pos < r->text.len && !s->ended && !s->bad) {
        const char c = r->text.p[s->pos++];
        if (s->escape) {
            s->escape = false;
        } else if (s->string && c == '\\') {
            s->escape = true;
        } else if (s->string && c == '"') {
            s->string = false;
            s->expects = s->key ? SCAN_COLON : SCAN_MORE;
        } else if (!s->string) {
            scan_mark(s, c);
        }
    }
    r->steps += s->pos - from;
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
 * write them as an object, or as a string with the text of an object. null, an empty string and a
 * missing value are an empty object. */
static bool put_arguments(const struct dgl_json *value, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    const struct dgl_str text = dgl_json_str(value);
    struct dgl_json_doc *doc = NULL;
    const bool none = dgl_json_type(value) == DGL_JSON_NULL ||
                      (dgl_json_is(value, DGL_JSON_STRING) && text.len == 0);
    bool ok = none || dgl_json_is(value, DGL_JSON_OBJECT);
    if (!none && dgl_json_is(value, DGL_JSON_STRING)) {
        ok = dgl_json_parse(NULL, "arguments", text.p, text.len, &doc) == DGL_OK &&
             dgl_json_is(dgl_json_root(doc), DGL_JSON_OBJECT);
        value = ok ? dgl_json_root(doc) : NULL;
    }
    if (ok && !none)
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
    if (ok && r->strict)
        ok = arguments && is_known(r, name.p);
    if (text.failed || (ok && tells))
        tell_call(r, name.p, dgl_json_str(dgl_json_get(call, "id")), &text);
    dgl_buf_finish(&text);
    return ok;
}

/* Reads one call, or a list of calls. */
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

/* The text that opened the call becomes content, and so does the text up to the next tag. */
static void refuse_call(struct dgl_reply *r)
{
    const size_t len = r->again ? r->value + 1 : r->call;
    tell_text(r, DGL_REPLY_CONTENT, len);
    drop(r, len);
    r->alone = false;
    r->state = REPLY_TEXT;
}

static void end_calls(struct dgl_reply *r, size_t end)
{
    drop(r, end);
    r->state = REPLY_TEXT;
    r->drops_blanks = true;
    r->alone = r->format->alone;
}

/* Reads the name, and the id if there is one, between the tag and the arguments. Sets *json to the
 * start of the arguments. */
static enum match read_name(struct dgl_reply *r, size_t from, bool last, size_t *json)
{
    const struct reply_format *f = r->format;
    const size_t most = from + 2 * MAX_NAME + strlen(f->id) + strlen(f->args),
                 limit = most < r->text.len ? most : r->text.len;
    const size_t end = find(r, r->searched > from ? r->searched : from, limit, f->args);
    if (end == limit) {
        r->searched = find_partial(r, f->args);
        return last || limit == most ? MATCH_NO : MATCH_MAYBE;
    }
    const size_t sep = find(r, from, end, f->id);
    *json = end + strlen(f->args);
    r->id[0] = '\0';
    return copy_word(r->function, (struct dgl_str){r->text.p + from, sep - from}) &&
                   (sep == end || copy_word(r->id, (struct dgl_str){r->text.p + sep + strlen(f->id),
                                                                    end - sep - strlen(f->id)}))
               ? MATCH_YES
               : MATCH_NO;
}

/* Skips the line that begins a code fence: "```", a word and a line end. */
static enum match skip_fence(const struct dgl_reply *r, size_t *at, bool last)
{
    static const char *const words[] = {"json", "tool_call", ""};
    enum match any = MATCH_NO;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const enum match found = match_at(r, *at, words[i], last);
        if (found == MATCH_MAYBE)
            any = MATCH_MAYBE;
        if (found != MATCH_YES)
            continue;
        const size_t end = skip_blanks(r, *at + strlen(words[i]));
        if (end == r->text.len)
            return last ? MATCH_NO : MATCH_MAYBE;
        if (r->text.p[end] == '{' || r->text.p[end] == '[') {
            *at = end;
            return MATCH_YES;
        }
    }
    return any;
}

/* Finds the first value of a call: after the tag, a fence, or a name. */
static enum match find_value(struct dgl_reply *r, bool last, size_t *out)
{
    enum match found = MATCH_YES;
    size_t at = r->fenced ? r->call : skip_blanks(r, r->call);
    r->function[0] = '\0';
    if (at == r->text.len)
        return last ? MATCH_NO : MATCH_MAYBE;
    if (!r->fenced && !r->strict) {
        found = match_at(r, at, FENCE, last);
        r->fenced = found == MATCH_YES;
        at += r->fenced ? strlen(FENCE) : 0;
        if (found == MATCH_MAYBE)
            return found;
        found = MATCH_YES;
    }
    if (r->fenced) {
        found = skip_fence(r, &at, last);
        r->fenced = r->strict || found == MATCH_YES;
    } else if (r->format->args && r->text.p[at] != '{' && r->text.p[at] != '[') {
        found = read_name(r, at, last, &at);
        at = found == MATCH_YES ? skip_blanks(r, at) : at;
        if (found == MATCH_YES && at == r->text.len)
            found = last ? MATCH_NO : MATCH_MAYBE;
    }
    if (found == MATCH_YES && r->text.p[at] != '{' && (r->function[0] || r->text.p[at] != '['))
        found = MATCH_NO;
    *out = at;
    return found;
}

/* Finds the next value of a tag, after a call. MATCH_NO: the tag ends, and *out is its end. */
static enum match find_next(struct dgl_reply *r, bool last, size_t *out)
{
    const char *close = r->strict ? NULL : r->format->close;
    size_t at = skip_blanks(r, 0);
    *out = 0;
    if (r->fenced) {
        const enum match found = match_at(r, at, FENCE, last);
        if (found == MATCH_MAYBE)
            return found;
        if (found == MATCH_YES) {
            drop(r, at + strlen(FENCE));
            r->fenced = false;
            at = skip_blanks(r, 0);
        }
    }
    if (close) {
        const enum match found = match_at(r, at, close, last);
        if (found == MATCH_YES)
            *out = at + strlen(close);
        else if (last && match_at(r, at, close, false) == MATCH_MAYBE)
            *out = r->text.len; /* the answer ended inside of the tag */
        if (found != MATCH_NO || *out > 0)
            return found == MATCH_MAYBE ? MATCH_MAYBE : MATCH_NO;
    }
    if (!close && !r->fenced)
        return MATCH_NO;
    if (at < r->text.len && (r->text.p[at] == ',' || r->text.p[at] == ';'))
        at = skip_blanks(r, at + 1);
    if (at == r->text.len)
        return last ? MATCH_NO : MATCH_MAYBE;
    if (r->text.p[at] != '{' && r->text.p[at] != '[')
        return MATCH_NO; /* the closing tag is missing */
    *out = at;
    return MATCH_YES;
}

/* Returns true if the rest of the text can be read now, false if more text must come first. */
static bool read_call(struct dgl_reply *r, bool last)
{
    if (r->scan.pos == 0) {
        size_t at = 0;
        const enum match found = r->again ? find_next(r, last, &at) : find_value(r, last, &at);
        if (found == MATCH_MAYBE)
            return false;
        if (found == MATCH_NO && r->again)
            end_calls(r, at);
        else if (found == MATCH_NO)
            refuse_call(r);
        if (found == MATCH_NO)
            return true;
        r->value = at;
        r->scan.pos = at;
    }
    scan_on(r);
    if (!r->scan.ended && !r->scan.bad && !last)
        return false;
    const struct dgl_str value = {r->text.p + r->value, r->scan.pos - r->value};
    const bool named = r->function[0] != '\0';
    if (r->scan.ended &&
        (named ? take_arguments(r, r->function, r->id, value) : take_calls(r, value))) {
        drop(r, r->scan.pos);
        r->again = true;
        r->function[0] = '\0';
        r->scan = (struct json_scan){0};
    } else {
        refuse_call(r);
    }
    return true;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A call begins. The text before it, of `len` bytes, belongs to it. */
static void begin_call(struct dgl_reply *r, size_t len, bool strict, bool fenced)
{
    r->state = REPLY_CALLS;
    r->call = len;
    r->strict = strict;
    r->fenced = fenced;
    r->again = false;
    r->searched = 0;
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
        r->scan = (struct json_scan){0};
        begin_call(r, at, true, false);
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
        for (size_t blanks = skip_blanks(r, 0); blanks > 0; blanks = skip_blanks(r, 0))
            drop(r, blanks);
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
    const char *const tags[] = {tag, !thinks && r->p.num_functions > 0 && r->format ? FENCE : NULL};
    size_t which;
    const size_t at = find_first(r, 0, tags, 2, &which);
    if (which < 2) {
        const size_t end = trim_end(r, at), len = strlen(tags[which]);
        /* Blanks before a fence that is not a call are content. */
        tell_text(r, kind, end);
        drop(r, thinks ? at + len : end);
        if (!thinks) {
            begin_call(r, at - end + len, which == 1, which == 1);
            return true;
        }
        r->state = REPLY_TEXT;
        r->drops_blanks = true;
        r->alone = r->format && r->format->alone;
        return true;
    }
    size_t end = r->text.len;
    for (size_t i = 0; i < 2 && !last; i++)
        if (tags[i] && find_partial(r, tags[i]) < end)
            end = find_partial(r, tags[i]);
    if (tag && !last)
        end = trim_end(r, end);
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
    const size_t at = find(r, r->searched, r->text.len, message);
    r->searched = at < r->text.len ? 0 : find_partial(r, message);
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
            r->call = r->searched = 0;
            return true;
        }
    }
    if (at < r->text.len) {
        const bool cut = r->cut_head || at > MAX_HEAD; /* then it says nothing */
        read_head(r, (struct dgl_str){r->text.p, cut ? 0 : at});
        r->cut_head = false;
        r->call = at + strlen(message);
        r->state = REPLY_BODY;
        if (!r->function[0]) { /* keep that of a call: it may become content */
            drop(r, r->call);
            r->call = 0;
        }
        return true;
    }
    if (last || r->text.len >= MAX_HEAD + sizeof(message)) { /* headers are never shown */
        drop(r, last ? r->text.len : r->searched);
        r->cut_head = true;
    }
    return false;
}

static bool read_channels_body(struct dgl_reply *r, bool last)
{
    const bool call = r->function[0] != '\0';
    size_t hold = r->text.len, which;
    const size_t from = r->searched > r->call ? r->searched : r->call,
                 at = find_first(r, from, ends, NUM_ENDS, &which),
                 gone = which < NUM_ENDS_GONE ? strlen(ends[which]) : 0;
    for (size_t i = 0; i < NUM_ENDS; i++)
        hold = find_partial(r, ends[i]) < hold ? find_partial(r, ends[i]) : hold;
    const bool ended = at < r->text.len || last;
    if (ended && call &&
        !take_arguments(r, r->function, "", (struct dgl_str){r->text.p + r->call, at - r->call}))
        tell_text(r, DGL_REPLY_CONTENT, at + gone);
    else if (!call)
        tell_text(r, r->kind, ended ? at : hold);
    r->searched = call && !ended ? hold : 0;
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
    const bool channels = r->format && format->channels;
    r->state = channels ? REPLY_HEAD : REPLY_TEXT;
    r->alone = !channels && r->format && format->alone;
    r->begins = channels || (thinks && !p->keep_reasoning);
    if (p->continues) {
        r->muted = true;
        enum dgl_status status = reply_push(r, dgl_str_of(p->continues), false);
        r->muted = false;
        r->given = r->text.len;
        return status;
    }
    if (!channels && r->begins && dgl_str_ends(prompt, REPLY_THINK_OPEN)) {
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
    dgl_buf_finish(&(*reply)->store);
    free(*reply);
    *reply = NULL;
}

/* Appends text to the part that is not reported yet, and frees the reported part. */
static void append(struct dgl_reply *r, struct dgl_str text)
{
    const size_t done = r->store.len - r->text.len;
    if (done >= r->text.len && r->text.len > 0) /* so each byte is moved at most once */
        memmove(r->store.p, r->text.p, r->text.len);
    if (done >= r->text.len)
        r->store.len = r->text.len;
    const size_t from = r->store.len - r->text.len;
    dgl_buf_append(&r->store, text.p, text.len);
    r->text = (struct dgl_str){r->store.p ? r->store.p + from : "", r->store.len - from};
    r->bytes += text.len;
    if (r->store.failed && r->status == DGL_OK)
        r->status = dgl_fail_memory(r->log, "reply", r->store.len + text.len);
}

/* Reads no more calls once the bound of steps is reached. */
static void check_steps(struct dgl_reply *r)
{
    if (!r->format || r->steps <= r->bytes * STEPS_PER_BYTE + STEPS_FREE)
        return;
    if (r->state == REPLY_CALLS || r->state == REPLY_HEAD || r->state == REPLY_BODY)
        r->state = REPLY_TEXT;
    r->format = NULL;
    r->alone = false;
}

enum dgl_status reply_push(struct dgl_reply *r, struct dgl_str text, bool last)
{
    bool more = true;
    append(r, text);
    while (more && r->status == DGL_OK) {
        check_steps(r);
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
    }
    return r->status;
}
