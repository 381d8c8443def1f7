/*
 * Groups, quantifiers and assertions of Oniguruma's patterns, in PCRE2's syntax. Differences:
 *
 *   (?m) lets '.' match a newline             (?s); ^ and $ always match at lines (PCRE2_MULTILINE)
 *   a{,3} a** a{2}+                           a{0,3} (?:a*)* (?:a{2})+
 *   \h \uHHHH \07 \v (?<name>                 a hex digit, characters by number; names are dropped
 *   \b \w by another notion of words          classes and look-around
 *   (?x)                                      blanks and comments are dropped here
 *
 * The result has callouts, "(?C)", at every place where matching can try another way or continue
 * for long: after every quantifier, at the end of every alternative of a group, and before
 * alternatives with a quantifier. The work between two callouts is at most one run of repetitions
 * and one sequence of the pattern, so tok_regex.c can count it.
 */
#include "loader/regex/tok_translate.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/utf8.h"

#define MAX_GROUP_DEPTH 100
#define MAX_REPEAT      65535 /* PCRE2's limit */

/* The item before a quantifier. */
enum last { NOTHING, ASSERTION, ATOM, REPEATED };

struct flags {
    bool icase, extended;
};

/* An open group. The whole pattern is the outermost one. */
struct group {
    size_t start, body, alternative; /* in t->out; `alternative` is the last one */
    struct flags flags;
    bool atom;            /* not a look-around */
    bool repeats;         /* an item of the last alternative has a quantifier */
    bool earlier_repeats; /* an item of an earlier alternative has one */
};

struct grammar {
    struct tok_translator *t;
    struct group groups[MAX_GROUP_DEPTH + 1];
    size_t depth;
    enum last last;
    size_t last_start; /* in t->out */
    char last_folded;  /* ASCII letter just before if case is ignored; 0 = none */
};

/* ---- reading --------------------------------------------------------------------------------- */

enum dgl_status tok_translate_fail(const struct tok_translator *t, const char *what)
{
    return dgl_fail(t->log, DGL_ERR_UNSUPPORTED,
                    "%s: pattern \"%s\": %s (byte %zu) is not implemented", t->where,
                    DGL_PRINTABLE_STR(t->pattern), what, t->pos);
}

bool tok_translate_at_end(const struct tok_translator *t)
{
    return t->pos >= t->pattern.len;
}

char tok_translate_peek(const struct tok_translator *t, size_t ahead)
{
    return t->pattern.len - t->pos > ahead ? t->pattern.p[t->pos + ahead] : '\0';
}

bool tok_translate_accept(struct tok_translator *t, const char *text)
{
    size_t len = strlen(text);
    if (t->pattern.len - t->pos < len || memcmp(t->pattern.p + t->pos, text, len) != 0)
        return false;
    t->pos += len;
    return true;
}

uint32_t tok_translate_take(struct tok_translator *t)
{
    uint32_t cp;
    t->pos += dgl_utf8_decode(t->pattern.p + t->pos, t->pattern.len - t->pos, &cp);
    return cp;
}

/* Moves past `end`. Returns false, at the end of the pattern, if there is no `end`. */
static bool skip_past(struct tok_translator *t, char end)
{
    while (!tok_translate_at_end(t))
        if (t->pattern.p[t->pos++] == end)
            return true;
    return false;
}

/* ---- atoms ----------------------------------------------------------------------------------- */

/* If case is ignored, Oniguruma also lets two letters match one (ss and U+00DF, ligatures). */
static enum dgl_status put_literal(struct grammar *g, uint32_t cp, bool icase)
{
    static const char pairs[][3] = {"ss", "ff", "fi", "fl", "st"};
    bool ascii_letter = cp < 0x80 && (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
    char folded = icase && ascii_letter ? (char)(cp | 0x20) : 0;
    struct tok_cased cased = {0};
    tok_cased_add_range(&cased, (struct tok_range){cp, cp});
    bool pair = false;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        pair |= g->last_folded == pairs[i][0] && folded == pairs[i][1];
    if (icase && (pair || !tok_cased_is_closed(cased)))
        return tok_translate_fail(g->t, "this letter without regard to case");
    tok_property_write_cp(cp, &g->t->out);
    g->last_folded = folded;
    return DGL_OK;
}

/* Writes \b or \B, with \w on both sides. */
static void put_word_boundary(struct tok_translator *t, bool negated)
{
    struct dgl_buf word = {0};
    struct tok_property property;
    tok_property_shorthand('w', false, &property);
    tok_translate_property(t, &property, false, &word);
    const char *w = word.p ? word.p : "";
    dgl_buf_printf(&t->out, "(?:(?<=%s)(?%c%s)|(?<!%s)(?%c%s))", w, negated ? '=' : '!', w, w,
                   negated ? '!' : '=', w);
    t->out.failed |= word.failed;
    dgl_buf_finish(&word);
}

/* Translates an escape, after its backslash. */
static enum dgl_status put_escape(struct grammar *g, bool icase)
{
    struct tok_translator *t = g->t;
    char c = tok_translate_peek(t, 0);
    if (c == 'A' || c == 'z' || c == 'Z' || c == 'b' || c == 'B') {
        t->pos++;
        g->last_folded = 0;
        g->last = ASSERTION;
        if (c == 'b' || c == 'B')
            put_word_boundary(t, c == 'B');
        else
            dgl_buf_printf(&t->out, "\\%c", c);
        return DGL_OK;
    }
    struct tok_escape escape;
    enum dgl_status status = tok_translate_escape(t, false, &escape);
    if (status != DGL_OK || !escape.is_property)
        return status == DGL_OK ? put_literal(g, escape.cp, icase) : status;
    g->last_folded = 0;
    struct tok_cased cased = {0};
    tok_cased_add(&cased, &escape.property, escape.negated);
    if (icase && !tok_cased_is_closed(cased))
        return tok_translate_fail(t, "this property without regard to case");
    tok_translate_property(t, &escape.property, escape.negated, &t->out);
    return DGL_OK;
}

/* ---- alternatives ---------------------------------------------------------------------------- */

static void put_callout(struct grammar *g)
{
    dgl_buf_puts(&g->t->out, "(?C)");
}

/* Ends an alternative of the innermost group. The first alternative of the whole pattern begins at
 * the start of the search. */
static void end_alternative(struct grammar *g)
{
    struct dgl_buf *out = &g->t->out;
    struct group *group = &g->groups[g->depth];
    if (g->depth > 0)
        put_callout(g);
    if (group->repeats && group->alternative > group->body) {
        dgl_buf_puts(out, "(?C)"); /* makes room */
        char *start = out->failed ? NULL : out->p + group->alternative;
        if (start) {
            memmove(start + 4, start, out->len - 4 - group->alternative);
            memcpy(start, "(?C)", 4);
        }
    }
    group->earlier_repeats |= group->repeats;
    group->repeats = false;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Reads "imx-imx" after "(?" up to ')' or ':', which stays. Writes PCRE2's letters. */
static enum dgl_status take_flags(struct tok_translator *t, struct flags *flags)
{
    bool on = true;
    dgl_buf_puts(&t->out, "(?");
    for (;; t->pos++) {
        switch (tok_translate_peek(t, 0)) {
        case 'i':
            flags->icase = on;
            dgl_buf_putc(&t->out, 'i');
            break;
        case 'm':
            dgl_buf_putc(&t->out, 's');
            break;
        case 'x':
            flags->extended = on;
            break;
        case '-':
            if (on)
                dgl_buf_putc(&t->out, '-');
            on = false;
            break;
        case ')':
        case ':':
            return DGL_OK;
        default:
            return tok_translate_fail(t, "this kind of group");
        }
    }
}

/* Reads a group after its '('. */
static enum dgl_status open_group(struct grammar *g)
{
    static const struct {
        const char *text;
        bool atom;
    } kinds[] = {{"?:", true},  {"?>", true},   {"?=", false},
                 {"?!", false}, {"?<=", false}, {"?<!", false}};
    struct tok_translator *t = g->t;
    struct group *outer = &g->groups[g->depth];
    struct group inner = {.start = t->out.len, .flags = outer->flags, .atom = true};
    if (tok_translate_accept(t, "?#"))
        return skip_past(t, ')') ? DGL_OK : tok_translate_fail(t, "a comment without end");
    bool known = false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && !known; i++) {
        known = tok_translate_accept(t, kinds[i].text);
        if (known) {
            inner.atom = kinds[i].atom;
            dgl_buf_printf(&t->out, "(%s", kinds[i].text);
        }
    }
    if (!known && tok_translate_accept(t, "?<")) {
        if (!skip_past(t, '>'))
            return tok_translate_fail(t, "a group name without end");
        dgl_buf_puts(&t->out, "(?:");
    } else if (!known && tok_translate_accept(t, "?")) {
        enum dgl_status status = take_flags(t, &inner.flags);
        if (status != DGL_OK)
            return status;
        char end = t->pattern.p[t->pos++];
        dgl_buf_putc(&t->out, end);
        if (end == ')') { /* for the rest of the group around */
            if (outer->body != inner.start)
                return tok_translate_fail(t, "flags in the middle of a group");
            outer->flags = inner.flags;
            outer->body = outer->alternative = t->out.len;
            g->last = ASSERTION;
            return DGL_OK;
        }
    } else if (!known) {
        dgl_buf_puts(&t->out, "(?:");
    }
    if (g->depth == MAX_GROUP_DEPTH)
        return tok_translate_fail(t, "nesting this deep");
    inner.body = inner.alternative = t->out.len;
    g->groups[++g->depth] = inner;
    g->last = NOTHING;
    return DGL_OK;
}

static enum dgl_status close_group(struct grammar *g)
{
    if (g->depth == 0)
        return tok_translate_fail(g->t, "a closing parenthesis without a group");
    end_alternative(g);
    struct group *closed = &g->groups[g->depth--];
    g->groups[g->depth].repeats |= closed->earlier_repeats;
    dgl_buf_putc(&g->t->out, ')');
    g->last = closed->atom ? ATOM : ASSERTION;
    g->last_start = closed->start;
    return DGL_OK;
}

/* ---- quantifiers ----------------------------------------------------------------------------- */

static bool take_number(struct tok_translator *t, uint32_t *value)
{
    size_t start = t->pos;
    *value = 0;
    while (tok_translate_peek(t, 0) >= '0' && tok_translate_peek(t, 0) <= '9' &&
           *value <= MAX_REPEAT)
        *value = *value * 10 + (uint32_t)(t->pattern.p[t->pos++] - '0');
    return t->pos > start;
}

/* Reads "{n}", "{n,}", "{,m}" or "{n,m}". Returns false, without moving, if the brace is a
 * literal. */
static bool take_interval(struct tok_translator *t, struct dgl_buf *out, bool *fixed)
{
    size_t start = t->pos++;
    uint32_t low, high = 0;
    bool have_low = take_number(t, &low);
    bool comma = tok_translate_accept(t, ",");
    bool have_high = comma && take_number(t, &high);
    if (!(have_low || have_high) || !tok_translate_accept(t, "}")) {
        t->pos = start;
        return false;
    }
    *fixed = !comma;
    dgl_buf_printf(out, "{%" PRIu32 "%s", low, comma ? "," : "");
    if (have_high)
        dgl_buf_printf(out, "%" PRIu32, high);
    dgl_buf_putc(out, '}');
    return true;
}

/*
 * Reads one quantifier and its suffix, if any, and sets *taken. In Ruby's syntax an interval has no
 * possessive form, and "{n}?" is an optional repetition. A character after it is another
 * quantifier, which applies to the atom with the first one.
 */
static enum dgl_status take_quantifier(struct grammar *g, bool *taken)
{
    struct tok_translator *t = g->t;
    char c = tok_translate_peek(t, 0);
    struct dgl_buf text = {0};
    bool interval = c == '{', fixed = false;
    enum dgl_status status = DGL_OK;
    *taken = interval ? g->last != NOTHING && take_interval(t, &text, &fixed)
                      : c == '*' || c == '+' || c == '?';
    if (!*taken)
        goto done;
    if (g->last == NOTHING)
        TRY(tok_translate_fail(t, "a quantifier with nothing to repeat"));
    if (g->last == ASSERTION)
        TRY(tok_translate_fail(t, "repeating what is not a character or a group"));
    if (!interval) {
        t->pos++;
        dgl_buf_putc(&text, c);
    }
    char suffix = tok_translate_peek(t, 0);
    if ((suffix == '?' && !fixed) || (suffix == '+' && !interval)) {
        t->pos++;
        dgl_buf_putc(&text, suffix);
    }
    if (g->last == REPEATED) {
        dgl_buf_puts(&t->out, "(?:)"); /* makes room */
        if (!t->out.failed) {
            char *start = t->out.p + g->last_start;
            memmove(start + 3, start, t->out.len - 4 - g->last_start);
            memcpy(start, "(?:", 3);
        }
    }
    dgl_buf_append(&t->out, text.p, text.len);
    t->out.failed |= text.failed;
    put_callout(g);
    g->groups[g->depth].repeats = true;
    g->last = REPEATED;
done:
    dgl_buf_finish(&text);
    return status;
}

/* ---- the grammar ----------------------------------------------------------------------------- */

/* Reads an item that is not a quantifier. */
static enum dgl_status take_item(struct grammar *g)
{
    struct tok_translator *t = g->t;
    bool icase = g->groups[g->depth].flags.icase;
    char before = g->last_folded;
    g->last_folded = 0;
    if (tok_translate_accept(t, "("))
        return open_group(g);
    if (tok_translate_accept(t, ")"))
        return close_group(g);
    if (tok_translate_accept(t, "|")) {
        end_alternative(g);
        dgl_buf_putc(&t->out, '|');
        g->groups[g->depth].alternative = t->out.len;
        g->last = NOTHING;
        return DGL_OK;
    }
    g->last = ATOM;
    g->last_start = t->out.len;
    if (tok_translate_accept(t, "["))
        return tok_translate_class(t, icase, &t->out);
    if (tok_translate_peek(t, 0) == '^' || tok_translate_peek(t, 0) == '$')
        g->last = ASSERTION;
    if (g->last == ASSERTION || tok_translate_peek(t, 0) == '.') {
        dgl_buf_putc(&t->out, t->pattern.p[t->pos++]);
        return DGL_OK;
    }
    g->last_folded = before; /* the letter just before */
    if (tok_translate_accept(t, "\\"))
        return put_escape(g, icase);
    return put_literal(g, tok_translate_take(t), icase);
}

enum dgl_status tok_translate(struct tok_translator *t)
{
    struct grammar g = {.t = t};
    enum dgl_status status = DGL_OK;
    while (!tok_translate_at_end(t)) {
        bool quantifier, extended = g.groups[g.depth].flags.extended;
        char c = tok_translate_peek(t, 0);
        if (extended && c == '#') {
            skip_past(t, '\n');
            continue;
        }
        if (extended && (c == ' ' || (c >= '\t' && c <= '\r'))) {
            t->pos++;
            continue;
        }
        TRY(take_quantifier(&g, &quantifier));
        if (quantifier)
            g.last_folded = 0;
        else
            TRY(take_item(&g));
        if (t->out.len > TOK_TRANSLATE_MAX)
            return tok_translate_fail(t, "a pattern this long");
    }
    if (g.depth > 0)
        return tok_translate_fail(t, "a group without its closing parenthesis");
    end_alternative(&g);
    if (t->out.failed)
        status = dgl_fail_memory(t->log, "pattern", t->out.len);
done:
    return status;
}
