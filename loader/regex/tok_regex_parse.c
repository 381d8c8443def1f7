/* Groups, alternatives, quantifiers and assertions of Oniguruma patterns, rewritten for PCRE2. */
#include "loader/regex/tok_regex_parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"

#define MAX_GROUP_DEPTH 100
#define MAX_REPEAT      65535 /* PCRE2's limit */

struct flags {
    bool icase, dotall, extended;
};

static enum dgl_status parse_alternatives(struct tok_regex_parser *p, struct flags flags);

void tok_regex_program_finish(struct tok_regex_program *program)
{
    for (size_t i = 0; i < program->num_sets; i++)
        tok_charset_finish(&program->sets[i]);
    free(program->sets);
    free(program->items);
    *program = (struct tok_regex_program){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

enum dgl_status tok_regex_fail(const struct tok_regex_parser *p, const char *what)
{
    return dgl_fail(p->log, DGL_ERR_UNSUPPORTED,
                    "%s: pattern \"%.*s\": %s (byte %zu) is not implemented", p->where,
                    p->pattern.len > 400 ? 400 : (int)p->pattern.len, p->pattern.p, what, p->pos);
}

bool tok_regex_at_end(const struct tok_regex_parser *p)
{
    return p->pos >= p->pattern.len;
}

char tok_regex_peek(const struct tok_regex_parser *p, size_t ahead)
{
    return p->pattern.len - p->pos > ahead ? p->pattern.p[p->pos + ahead] : '\0';
}

bool tok_regex_accept(struct tok_regex_parser *p, const char *text)
{
    size_t len = strlen(text);
    if (p->pattern.len - p->pos < len || memcmp(p->pattern.p + p->pos, text, len) != 0)
        return false;
    p->pos += len;
    return true;
}

uint32_t tok_regex_take(struct tok_regex_parser *p)
{
    uint32_t cp;
    p->pos += dgl_utf8_decode(p->pattern.p + p->pos, p->pattern.len - p->pos, &cp);
    return cp;
}

/* ---- writing --------------------------------------------------------------------------------- */

static enum dgl_status insert_item(struct tok_regex_parser *p, size_t at,
                                   struct tok_regex_item item)
{
    struct tok_regex_program *out = p->out;
    if (!dgl_grow((void **)&out->items, &out->cap_items, out->num_items + 1, sizeof(item)))
        return dgl_fail_memory(p->log, "pattern", (out->num_items + 1) * sizeof(item));
    memmove(&out->items[at + 1], &out->items[at], (out->num_items - at) * sizeof(item));
    out->items[at] = item;
    out->num_items++;
    return DGL_OK;
}

static enum dgl_status emit(struct tok_regex_parser *p, const char *text)
{
    struct tok_regex_item item = {.set = -1};
    snprintf(item.text, sizeof(item.text), "%s", text);
    p->last_folded = 0;
    return insert_item(p, p->out->num_items, item);
}

static bool equal_sets(const struct tok_charset *a, const struct tok_charset *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->ranges, b->ranges, a->count * sizeof(*a->ranges)) == 0);
}

/* Index of a set, added when it is new; -1: out of memory. Takes `set` and leaves it empty. */
static int32_t keep_set(struct tok_regex_program *out, struct tok_charset *set)
{
    size_t i = 0;
    while (i < out->num_sets && !equal_sets(&out->sets[i], set))
        i++;
    bool ok = !set->failed && (i < out->num_sets || dgl_grow((void **)&out->sets, &out->cap_sets,
                                                             i + 1, sizeof(*out->sets)));
    if (ok && i == out->num_sets)
        out->sets[out->num_sets++] = *set;
    else
        tok_charset_finish(set);
    *set = (struct tok_charset){0};
    return ok ? (int32_t)i : -1;
}

static enum dgl_status emit_set(struct tok_regex_parser *p, struct tok_charset *set)
{
    p->last_folded = 0;
    tok_charset_settle(set);
    int32_t index = keep_set(p->out, set);
    if (index < 0)
        return dgl_fail_memory(p->log, "pattern", p->out->num_sets * sizeof(*p->out->sets));
    return insert_item(p, p->out->num_items, (struct tok_regex_item){.set = index});
}

static enum dgl_status emit_property(struct tok_regex_parser *p, const char *name)
{
    struct tok_charset set = {0};
    tok_charset_add_property(&set, dgl_str_of(name));
    return emit_set(p, &set);
}

static enum dgl_status emit_range(struct tok_regex_parser *p, uint32_t first, uint32_t last)
{
    struct tok_charset set = {0};
    tok_charset_add(&set, first, last);
    return emit_set(p, &set);
}

/* A sequence of items in one string: ' ' separates syntax, 'W' is the word class, 'N' the
 * newline. */
static enum dgl_status emit_recipe(struct tok_regex_parser *p, const char *recipe)
{
    enum dgl_status status = DGL_OK;
    struct dgl_str rest = dgl_str_of(recipe), part;
    while (status == DGL_OK && dgl_str_split(&rest, ' ', &part)) {
        char text[16];
        snprintf(text, sizeof(text), "%.*s", (int)part.len, part.p);
        if (strcmp(text, "W") == 0)
            status = emit_property(p, TOK_WORD_MATCH);
        else if (strcmp(text, "N") == 0)
            status = emit_range(p, '\n', '\n');
        else
            status = emit(p, text);
    }
    return status;
}

/* ---- atoms ----------------------------------------------------------------------------------- */

/* Without regard to case, Oniguruma also lets two letters match one (ss and U+00DF, ligatures). */
static bool is_folding_pair(char first, char second)
{
    static const char pairs[][3] = {"ss", "ff", "fi", "fl", "st"};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (first == pairs[i][0] && second == pairs[i][1])
            return true;
    return false;
}

static enum dgl_status emit_literal(struct tok_regex_parser *p, uint32_t cp, bool icase)
{
    struct tok_charset set = {0};
    tok_charset_add(&set, cp, cp);
    if (!icase)
        return emit_set(p, &set);
    char folded = 0;
    if ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z' && cp < 0x80)
        folded = (char)(cp | 0x20);
    if (is_folding_pair(p->last_folded, folded) || !tok_charset_fold_case(&set)) {
        tok_charset_finish(&set);
        return tok_regex_fail(p, "this letter without regard to case");
    }
    enum dgl_status status = emit_set(p, &set);
    p->last_folded = folded;
    return status;
}

/* After a backslash. *atom is false for assertions, which cannot be repeated. */
static enum dgl_status parse_escape(struct tok_regex_parser *p, struct flags flags, bool *atom)
{
    static const struct {
        char letter;
        const char *recipe;
    } assertions[] = {
        {'A', "\\A"},
        {'z', "\\z"},
        {'Z', "(?= N ? \\z )"},
        {'b', "(?: (?<= W ) (?! W ) | (?<! W ) (?= W ) )"},
        {'B', "(?: (?<= W ) (?= W ) | (?<! W ) (?! W ) )"},
    };
    for (size_t i = 0; i < sizeof(assertions) / sizeof(assertions[0]); i++) {
        if (tok_regex_peek(p, 0) != assertions[i].letter)
            continue;
        p->pos++;
        *atom = false;
        return emit_recipe(p, assertions[i].recipe);
    }
    bool is_set;
    uint32_t cp;
    struct tok_charset set = {0};
    enum dgl_status status = tok_regex_escape(p, false, &is_set, &cp, &set);
    if (status == DGL_OK && !is_set)
        return emit_literal(p, cp, flags.icase);
    if (status == DGL_OK && flags.icase && !tok_charset_fold_case(&set))
        status = tok_regex_fail(p, "this property without regard to case");
    if (status == DGL_OK)
        status = emit_set(p, &set);
    tok_charset_finish(&set);
    return status;
}

/* "imx-imx" after "(?"; stops at ')' or ':'. */
static enum dgl_status parse_flags(struct tok_regex_parser *p, struct flags *flags)
{
    bool on = true;
    for (;; p->pos++) {
        switch (tok_regex_peek(p, 0)) {
        case 'i':
            flags->icase = on;
            break;
        case 'm':
            flags->dotall = on;
            break;
        case 'x':
            flags->extended = on;
            break;
        case '-':
            on = false;
            break;
        case ')':
        case ':':
            return DGL_OK;
        default:
            return tok_regex_fail(p, "this kind of group");
        }
    }
}

/* The opening of a group after '('. Emits it, or sets *inline_flags when "(?i)" changes the
 * rest of the group around. */
static enum dgl_status open_group(struct tok_regex_parser *p, struct flags *flags, bool *atom,
                                  bool *inline_flags)
{
    static const struct {
        const char *text;
        bool atom;
    } kinds[] = {{"?:", true},  {"?>", true},   {"?=", false},
                 {"?!", false}, {"?<=", false}, {"?<!", false}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!tok_regex_accept(p, kinds[i].text))
            continue;
        char text[8];
        snprintf(text, sizeof(text), "(%s", kinds[i].text);
        *atom = kinds[i].atom;
        return emit(p, text);
    }
    if (tok_regex_accept(p, "?<")) {
        while (!tok_regex_at_end(p) && tok_regex_peek(p, 0) != '>')
            p->pos++;
        if (!tok_regex_accept(p, ">"))
            return tok_regex_fail(p, "a group name without end");
    } else if (tok_regex_accept(p, "?")) {
        enum dgl_status status = parse_flags(p, flags);
        if (status != DGL_OK)
            return status;
        *inline_flags = p->pattern.p[p->pos++] == ')';
        if (*inline_flags)
            return DGL_OK;
    }
    return emit(p, "(?:");
}

/* After '('. `flags` are those of the group around: "(?i)" changes them. */
static enum dgl_status parse_group(struct tok_regex_parser *p, struct flags *flags, bool at_start,
                                   bool *atom)
{
    if (tok_regex_accept(p, "?#")) {
        while (!tok_regex_at_end(p) && tok_regex_peek(p, 0) != ')')
            p->pos++;
        *atom = false;
        return tok_regex_accept(p, ")") ? DGL_OK : tok_regex_fail(p, "a comment without end");
    }
    struct flags inner = *flags;
    bool inline_flags = false;
    enum dgl_status status = open_group(p, &inner, atom, &inline_flags);
    if (status != DGL_OK)
        return status;
    if (inline_flags) {
        if (!at_start)
            return tok_regex_fail(p, "flags in the middle of a group");
        *flags = inner;
        *atom = false;
        return DGL_OK;
    }
    if (++p->depth > MAX_GROUP_DEPTH)
        return tok_regex_fail(p, "nesting this deep");
    status = parse_alternatives(p, inner);
    if (status != DGL_OK)
        return status;
    p->depth--;
    if (!tok_regex_accept(p, ")"))
        return tok_regex_fail(p, "a group without its closing parenthesis");
    return emit(p, ")");
}

static enum dgl_status parse_class_atom(struct tok_regex_parser *p, bool icase)
{
    struct tok_charset set = {0};
    enum dgl_status status = tok_regex_class(p, icase, &set);
    if (status == DGL_OK)
        status = emit_set(p, &set);
    tok_charset_finish(&set);
    return status;
}

static enum dgl_status parse_dot(struct tok_regex_parser *p, struct flags flags)
{
    struct tok_charset set = {0};
    if (!flags.dotall)
        tok_charset_add(&set, '\n', '\n');
    tok_charset_negate(&set);
    return emit_set(p, &set);
}

/* ---- quantifiers ----------------------------------------------------------------------------- */

static bool take_number(struct tok_regex_parser *p, uint32_t *value)
{
    size_t start = p->pos;
    *value = 0;
    while (tok_regex_peek(p, 0) >= '0' && tok_regex_peek(p, 0) <= '9' && *value <= MAX_REPEAT)
        *value = *value * 10 + (uint32_t)(p->pattern.p[p->pos++] - '0');
    return p->pos > start;
}

/* "{n}", "{n,}", "{,m}", "{n,m}" into PCRE2's spelling. False leaves the position: the brace is
 * a literal. */
static bool take_interval(struct tok_regex_parser *p, char text[16], bool *fixed)
{
    size_t start = p->pos++;
    uint32_t low = 0, high = 0;
    bool have_low = take_number(p, &low);
    bool comma = tok_regex_accept(p, ",");
    bool have_high = comma && take_number(p, &high);
    if (!(have_low || have_high) || !tok_regex_accept(p, "}")) {
        p->pos = start;
        return false;
    }
    *fixed = !comma;
    if (!comma)
        snprintf(text, 16, "{%" PRIu32 "}", low);
    else if (!have_high)
        snprintf(text, 16, "{%" PRIu32 ",}", low);
    else
        snprintf(text, 16, "{%" PRIu32 ",%" PRIu32 "}", low, high);
    return true;
}

/* One quantifier with its suffix, if one follows. An interval has no possessive form in Ruby's
 * syntax, and "{n}?" is an optional repetition: what follows then counts as a quantifier of its
 * own. */
static bool take_quantifier(struct tok_regex_parser *p, char text[16])
{
    bool fixed = false, interval = tok_regex_peek(p, 0) == '{';
    if (interval) {
        if (!take_interval(p, text, &fixed))
            return false;
    } else {
        char c = tok_regex_peek(p, 0);
        if (c != '*' && c != '+' && c != '?')
            return false;
        p->pos++;
        snprintf(text, 16, "%c", c);
    }
    size_t len = strlen(text);
    char suffix = tok_regex_peek(p, 0);
    if ((suffix == '?' && !fixed) || (suffix == '+' && !interval)) {
        text[len] = suffix;
        text[len + 1] = '\0';
        p->pos++;
    }
    return true;
}

/* Quantifiers after the atom whose items begin at `start`; a second one applies to the atom
 * with the first. */
static enum dgl_status parse_quantifiers(struct tok_regex_parser *p, size_t start, bool atom)
{
    char text[16];
    enum dgl_status status = DGL_OK;
    for (int i = 0; status == DGL_OK && take_quantifier(p, text); i++) {
        if (!atom || start == p->out->num_items)
            return tok_regex_fail(p, "repeating what is not a character or a group");
        if (i > 0) {
            status = insert_item(p, start, (struct tok_regex_item){.set = -1, .text = "(?:"});
            if (status == DGL_OK)
                status = emit(p, ")");
        }
        if (status == DGL_OK)
            status = emit(p, text);
    }
    return status;
}

/* ---- the grammar ----------------------------------------------------------------------------- */

static void skip_blanks_and_comments(struct tok_regex_parser *p)
{
    while (!tok_regex_at_end(p)) {
        char c = tok_regex_peek(p, 0);
        if (c == '#') {
            while (!tok_regex_at_end(p) && tok_regex_peek(p, 0) != '\n')
                p->pos++;
        } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
            p->pos++;
        } else {
            break;
        }
    }
}

static enum dgl_status parse_atom(struct tok_regex_parser *p, struct flags *flags, bool at_start,
                                  bool *atom)
{
    *atom = true;
    if (tok_regex_accept(p, "("))
        return parse_group(p, flags, at_start, atom);
    if (tok_regex_accept(p, "["))
        return parse_class_atom(p, flags->icase);
    if (tok_regex_accept(p, "\\"))
        return parse_escape(p, *flags, atom);
    if (tok_regex_accept(p, "."))
        return parse_dot(p, *flags);
    if (tok_regex_accept(p, "^")) {
        *atom = false;
        return emit_recipe(p, "(?: (?<= N ) (?! \\z ) | \\A )");
    }
    if (tok_regex_accept(p, "$")) {
        *atom = false;
        return emit_recipe(p, "(?: (?= N ) | \\z )");
    }
    return emit_literal(p, tok_regex_take(p), flags->icase);
}

/* Up to the end or the ')' of the group around, which is left to the caller. */
static enum dgl_status parse_alternatives(struct tok_regex_parser *p, struct flags flags)
{
    enum dgl_status status = DGL_OK;
    size_t first = p->out->num_items;
    while (status == DGL_OK) {
        if (flags.extended)
            skip_blanks_and_comments(p);
        if (tok_regex_at_end(p) || tok_regex_peek(p, 0) == ')')
            break;
        if (tok_regex_accept(p, "|")) {
            status = emit(p, "|");
            continue;
        }
        char next = tok_regex_peek(p, 0);
        if (next == '*' || next == '+' || next == '?')
            return tok_regex_fail(p, "a quantifier with nothing to repeat");
        size_t start = p->out->num_items;
        bool atom;
        status = parse_atom(p, &flags, start == first, &atom);
        if (flags.extended)
            skip_blanks_and_comments(p);
        if (status == DGL_OK)
            status = parse_quantifiers(p, start, atom);
    }
    return status;
}

enum dgl_status tok_regex_parse(const struct dgl_log *log, const char *where,
                                struct dgl_str pattern, struct tok_regex_program *out)
{
    struct tok_regex_parser p = {.log = log, .where = where, .pattern = pattern, .out = out};
    enum dgl_status status = parse_alternatives(&p, (struct flags){0});
    if (status == DGL_OK && !tok_regex_at_end(&p))
        status = tok_regex_fail(&p, "a closing parenthesis without a group");
    return status;
}
