/* Escapes and bracket classes of Oniguruma patterns, as sets of code points. */
#include "loader/regex/tok_regex_parse.h"

#include <string.h>

#include "core/base/str.h"

#define MAX_CLASS_DEPTH 20

/* Up to `max` hex digits; returns how many. */
static size_t take_hex(struct tok_regex_parser *p, size_t max, uint32_t *value)
{
    size_t digits = 0;
    *value = 0;
    while (digits < max && dgl_hex_value(tok_regex_peek(p, 0)) >= 0) {
        *value = *value << 4 | (uint32_t)dgl_hex_value(tok_regex_peek(p, 0));
        p->pos++;
        digits++;
    }
    return digits;
}

static enum dgl_status take_hex_escape(struct tok_regex_parser *p, char kind, uint32_t *cp)
{
    bool ok;
    if (kind == 'u')
        ok = take_hex(p, 4, cp) == 4;
    else if (tok_regex_accept(p, "{"))
        ok = take_hex(p, 6, cp) > 0 && tok_regex_accept(p, "}");
    else
        ok = take_hex(p, 2, cp) > 0 && *cp < 0x80; /* above, Oniguruma means a raw byte */
    bool surrogate = *cp >= 0xD800 && *cp <= 0xDFFF;
    return ok && *cp <= TOK_MAX_CP && !surrogate ? DGL_OK
                                                 : tok_regex_fail(p, "this character number");
}

/* Octal digits after "\0". */
static void take_octal(struct tok_regex_parser *p, uint32_t *cp)
{
    *cp = 0;
    for (int i = 0; i < 2 && tok_regex_peek(p, 0) >= '0' && tok_regex_peek(p, 0) <= '7'; i++)
        *cp = *cp * 8 + (uint32_t)(p->pattern.p[p->pos++] - '0');
}

static enum dgl_status take_property(struct tok_regex_parser *p, bool negate,
                                     struct tok_charset *set)
{
    if (!tok_regex_accept(p, "{"))
        return tok_regex_fail(p, "a property without braces");
    if (tok_regex_accept(p, "^"))
        negate = !negate;
    size_t start = p->pos;
    while (!tok_regex_at_end(p) && tok_regex_peek(p, 0) != '}')
        p->pos++;
    struct dgl_str name = {p->pattern.p + start, p->pos - start};
    if (!tok_regex_accept(p, "}") || !tok_charset_add_property(set, name)) {
        p->pos = start;
        return tok_regex_fail(p, "this character property");
    }
    if (negate)
        tok_charset_negate(set);
    return DGL_OK;
}

/* \d \w \s \h and their complements in upper case; false: another letter. */
static bool take_shorthand(char letter, bool in_class, struct tok_charset *set)
{
    const struct {
        char letter;
        const char *property;
    } known[] = {
        {'d', "digit"}, {'w', in_class ? "word" : TOK_WORD_MATCH}, {'s', "space"}, {'h', "xdigit"}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if ((letter | 0x20) != known[i].letter)
            continue;
        tok_charset_add_property(set, dgl_str_of(known[i].property));
        if (letter != known[i].letter)
            tok_charset_negate(set);
        return true;
    }
    return false;
}

static bool is_ascii_alnum(uint32_t cp)
{
    return (cp >= '0' && cp <= '9') || ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z' && cp < 0x80);
}

enum dgl_status tok_regex_escape(struct tok_regex_parser *p, bool in_class, bool *is_set,
                                 uint32_t *cp, struct tok_charset *set)
{
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1B";
    *is_set = false;
    if (tok_regex_at_end(p))
        return tok_regex_fail(p, "a backslash at the end");
    *cp = tok_regex_take(p);
    if (!is_ascii_alnum(*cp))
        return DGL_OK;
    char c = (char)*cp;
    const char *known = strchr(letters, c);
    if (known) {
        *cp = (uint32_t)codes[known - letters];
        return DGL_OK;
    }
    if (c == 'x' || c == 'u')
        return take_hex_escape(p, c, cp);
    if (c == '0') {
        take_octal(p, cp);
        return DGL_OK;
    }
    if (c == 'b' && in_class) {
        *cp = '\b';
        return DGL_OK;
    }
    *is_set = true;
    if (c == 'p' || c == 'P')
        return take_property(p, c == 'P', set);
    if (take_shorthand(c, in_class, set))
        return DGL_OK;
    p->pos--;
    return tok_regex_fail(p, c >= '1' && c <= '9' ? "a back reference" : "this escape");
}

/* "alpha:]" after "[:"; false leaves the position alone: a plain class that starts with a colon. */
static bool take_posix(struct tok_regex_parser *p, struct tok_charset *set)
{
    size_t start = p->pos;
    bool negate = tok_regex_accept(p, "^");
    size_t first = p->pos;
    while (tok_regex_peek(p, 0) >= 'a' && tok_regex_peek(p, 0) <= 'z')
        p->pos++;
    struct dgl_str name = {p->pattern.p + first, p->pos - first};
    struct tok_charset named = {0};
    bool ok = tok_regex_accept(p, ":]") && tok_charset_add_property(&named, name);
    if (ok && negate)
        tok_charset_negate(&named);
    if (ok)
        tok_charset_add_set(set, &named);
    else
        p->pos = start;
    tok_charset_finish(&named);
    return ok;
}

/* One character or escape of a class; a set goes to `set` at once. */
static enum dgl_status take_member(struct tok_regex_parser *p, bool *is_set, uint32_t *cp,
                                   struct tok_charset *set)
{
    *is_set = false;
    *cp = tok_regex_take(p);
    if (*cp != '\\')
        return DGL_OK;
    struct tok_charset escaped = {0};
    enum dgl_status status = tok_regex_escape(p, true, is_set, cp, &escaped);
    if (status == DGL_OK && *is_set)
        tok_charset_add_set(set, &escaped);
    tok_charset_finish(&escaped);
    return status;
}

/* A member, or a range when a '-' that is not the last character follows. */
static enum dgl_status take_range(struct tok_regex_parser *p, struct tok_charset *set)
{
    bool is_set;
    uint32_t first, last;
    enum dgl_status status = take_member(p, &is_set, &first, set);
    if (status != DGL_OK)
        return status;
    last = first;
    bool dash = tok_regex_peek(p, 0) == '-' && tok_regex_peek(p, 1) != ']';
    if (dash && is_set)
        return tok_regex_fail(p, "a range that starts with a class");
    if (dash) {
        p->pos++;
        if (tok_regex_at_end(p) || tok_regex_peek(p, 0) == '[')
            return tok_regex_fail(p, "a range without an end");
        status = take_member(p, &is_set, &last, set);
        if (status != DGL_OK)
            return status;
        if (is_set || last < first)
            return tok_regex_fail(p, "this range");
    }
    if (!is_set)
        tok_charset_add(set, first, last);
    return DGL_OK;
}

/* Members up to the closing bracket; "&&" intersects what stands left and right of it. */
static enum dgl_status take_members(struct tok_regex_parser *p, bool icase, struct tok_charset *set,
                                    struct tok_charset *left)
{
    bool have_left = false;
    enum dgl_status status = DGL_OK;
    for (bool first = true; status == DGL_OK; first = false) {
        if (tok_regex_at_end(p))
            return tok_regex_fail(p, "a class without its closing bracket");
        if (!first && tok_regex_accept(p, "]"))
            break;
        if (tok_regex_accept(p, "&&")) {
            tok_charset_settle(set);
            if (have_left)
                tok_charset_intersect(set, left);
            tok_charset_finish(left);
            *left = *set;
            *set = (struct tok_charset){0};
            have_left = true;
        } else if (tok_regex_accept(p, "[:") && take_posix(p, set)) {
            continue;
        } else if (tok_regex_accept(p, "[")) {
            struct tok_charset inner = {0};
            status = tok_regex_class(p, icase, &inner);
            tok_charset_add_set(set, &inner);
            tok_charset_finish(&inner);
        } else {
            status = take_range(p, set);
        }
    }
    tok_charset_settle(set);
    if (have_left)
        tok_charset_intersect(set, left);
    return status;
}

enum dgl_status tok_regex_class(struct tok_regex_parser *p, bool icase, struct tok_charset *set)
{
    if (++p->depth > MAX_CLASS_DEPTH)
        return tok_regex_fail(p, "nesting this deep");
    bool negate = tok_regex_accept(p, "^");
    struct tok_charset left = {0};
    enum dgl_status status = take_members(p, icase, set, &left);
    tok_charset_finish(&left);
    if (status == DGL_OK && icase && !tok_charset_fold_case(set))
        status = tok_regex_fail(p, "a class of other than ASCII letters without regard to case");
    if (negate)
        tok_charset_negate(set);
    p->depth--;
    return status;
}
