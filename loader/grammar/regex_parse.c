/* Parses the subset of ECMA-262's regular expressions that JSON Schema's `pattern` uses. */
#include <stdlib.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "loader/grammar/grammar.h"
#include "loader/text/tok_unicode.h"

enum { MAX_GROUPS = 100, MAX_CLASS = 100000 };

/*
 * A part of a pattern as up to four expressions. The part matches a text if one of them does, where
 * by[ANCHOR_START] matches only at the start of the text, by[ANCHOR_END] only at its end, and
 * by[ANCHOR_START | ANCHOR_END] only the whole text. So anchors may stand anywhere in a pattern.
 */
enum { ANCHOR_START = 1, ANCHOR_END = 2, ANCHORS = 4 };
struct part {
    struct gr_expr by[ANCHORS];
    bool has[ANCHORS];
    bool nullable[ANCHORS]; /* by[i] matches the empty text */
};

struct parser {
    struct grammar_builder *b;
    struct dgl_budget *budget;
    struct dgl_str text;
    size_t pos;
    uint32_t groups;
    struct gr_cp_range *ranges; /* of the class in the making */
    size_t num_ranges, cap_ranges;
};

/* --- text --- */

static bool fail_at(struct parser *p, size_t at, enum dgl_status status, const char *what)
{
    uint32_t column = 1;
    for (size_t i = 0; i < at && i < p->text.len; i++)
        column += ((unsigned char)p->text.p[i] & 0xC0) != 0x80;
    return dgl_budget_fail(p->budget, status, "pattern \"%s\", column %u: %s",
                           DGL_PRINTABLE_STR(p->text), column, what);
}

static bool fail(struct parser *p, const char *what)
{
    return fail_at(p, p->pos, DGL_ERR_INVALID_ARG, what);
}

static bool fail_unsupported(struct parser *p, size_t at, const char *what)
{
    return fail_at(p, at, DGL_ERR_UNSUPPORTED, what);
}

static bool at_end(const struct parser *p)
{
    return p->pos >= p->text.len;
}

static char peek(const struct parser *p, size_t ahead)
{
    return p->text.len - p->pos > ahead ? p->text.p[p->pos + ahead] : '\0';
}

static bool accept(struct parser *p, const char *word)
{
    if (!dgl_str_starts((struct dgl_str){p->text.p + p->pos, p->text.len - p->pos}, word))
        return false;
    p->pos += strlen(word);
    return true;
}

/* --- classes --- */

static bool add_range(struct parser *p, uint32_t first, uint32_t last)
{
    if (p->num_ranges >= MAX_CLASS)
        return fail(p, "the class has too many ranges");
    if (!dgl_budget_steps(p->budget, 1) ||
        !dgl_budget_grow(p->budget, (void **)&p->ranges, &p->cap_ranges, p->num_ranges + 1,
                         sizeof(*p->ranges)))
        return false;
    p->ranges[p->num_ranges++] = (struct gr_cp_range){first, last};
    return true;
}

/* Replaces the ranges from `from` on by those of all other code points. */
static bool negate_ranges(struct parser *p, size_t from)
{
    /* Sorting is by insertion: the lists of properties are sorted, and others are short. */
    for (size_t i = from + 1; i < p->num_ranges; i++)
        for (size_t k = i; k > from && p->ranges[k].first < p->ranges[k - 1].first; k--) {
            struct gr_cp_range swap = p->ranges[k];
            p->ranges[k] = p->ranges[k - 1];
            p->ranges[k - 1] = swap;
            if (!dgl_budget_steps(p->budget, 1))
                return false;
        }
    size_t end = p->num_ranges;
    uint32_t next = 0;
    for (size_t i = from; i < end; i++) {
        struct gr_cp_range range = p->ranges[i];
        if (range.first > next && !add_range(p, next, range.first - 1))
            return false;
        next = range.last + 1 > next ? range.last + 1 : next;
    }
    if (next <= TOK_MAX_CP && !add_range(p, next, TOK_MAX_CP))
        return false;
    memmove(p->ranges + from, p->ranges + end, (p->num_ranges - end) * sizeof(*p->ranges));
    p->num_ranges -= end - from;
    return true;
}

/* General categories: short and long names, and the bits of enum tok_category. */
static const struct category {
    const char *name, *long_name;
    uint32_t bits;
} categories[] = {
    {"L", "Letter", 1u << TOK_LU | 1u << TOK_LL | 1u << TOK_LT | 1u << TOK_LM | 1u << TOK_LO},
    {"LC", "Cased_Letter", 1u << TOK_LU | 1u << TOK_LL | 1u << TOK_LT},
    {"Lu", "Uppercase_Letter", 1u << TOK_LU},
    {"Ll", "Lowercase_Letter", 1u << TOK_LL},
    {"Lt", "Titlecase_Letter", 1u << TOK_LT},
    {"Lm", "Modifier_Letter", 1u << TOK_LM},
    {"Lo", "Other_Letter", 1u << TOK_LO},
    {"M", "Mark", 1u << TOK_MN | 1u << TOK_MC | 1u << TOK_ME},
    {"Mn", "Nonspacing_Mark", 1u << TOK_MN},
    {"Mc", "Spacing_Mark", 1u << TOK_MC},
    {"Me", "Enclosing_Mark", 1u << TOK_ME},
    {"N", "Number", 1u << TOK_ND | 1u << TOK_NL | 1u << TOK_NO},
    {"Nd", "Decimal_Number", 1u << TOK_ND},
    {"Nl", "Letter_Number", 1u << TOK_NL},
    {"No", "Other_Number", 1u << TOK_NO},
    {"P", "Punctuation",
     1u << TOK_PC | 1u << TOK_PD | 1u << TOK_PS | 1u << TOK_PE | 1u << TOK_PI | 1u << TOK_PF |
         1u << TOK_PO},
    {"Pc", "Connector_Punctuation", 1u << TOK_PC},
    {"Pd", "Dash_Punctuation", 1u << TOK_PD},
    {"Ps", "Open_Punctuation", 1u << TOK_PS},
    {"Pe", "Close_Punctuation", 1u << TOK_PE},
    {"Pi", "Initial_Punctuation", 1u << TOK_PI},
    {"Pf", "Final_Punctuation", 1u << TOK_PF},
    {"Po", "Other_Punctuation", 1u << TOK_PO},
    {"S", "Symbol", 1u << TOK_SM | 1u << TOK_SC | 1u << TOK_SK | 1u << TOK_SO},
    {"Sm", "Math_Symbol", 1u << TOK_SM},
    {"Sc", "Currency_Symbol", 1u << TOK_SC},
    {"Sk", "Modifier_Symbol", 1u << TOK_SK},
    {"So", "Other_Symbol", 1u << TOK_SO},
    {"Z", "Separator", 1u << TOK_ZS | 1u << TOK_ZL | 1u << TOK_ZP},
    {"Zs", "Space_Separator", 1u << TOK_ZS},
    {"Zl", "Line_Separator", 1u << TOK_ZL},
    {"Zp", "Paragraph_Separator", 1u << TOK_ZP},
    {"C", "Other", 1u << TOK_CC | 1u << TOK_CF | 1u << TOK_CS | 1u << TOK_CO | 1u << TOK_CN},
    {"Cc", "Control", 1u << TOK_CC},
    {"Cf", "Format", 1u << TOK_CF},
    {"Cs", "Surrogate", 1u << TOK_CS},
    {"Co", "Private_Use", 1u << TOK_CO},
    {"Cn", "Unassigned", 1u << TOK_CN},
};

static bool add_categories(struct parser *p, uint32_t bits)
{
    struct tok_range range;
    enum tok_category category;
    for (size_t i = 0; tok_category_run(i, &range, &category); i++)
        if (bits >> category & 1 && !add_range(p, range.first, range.last))
            return false;
    return true;
}

/* Reads \p{NAME} or \P{NAME} after its letter. */
static bool read_property(struct parser *p, bool negated)
{
    size_t start = p->pos - 2, from = p->num_ranges;
    struct dgl_str name;
    if (!accept(p, "{"))
        return fail(p, "wanted '{' and the name of a property after \\p");
    const char *end = memchr(p->text.p + p->pos, '}', p->text.len - p->pos);
    if (!end)
        return fail(p, "wanted '}' after the name of a property");
    name = (struct dgl_str){p->text.p + p->pos, (size_t)(end - p->text.p) - p->pos};
    p->pos = (size_t)(end - p->text.p) + 1;
    bool script = dgl_str_starts(name, "Script=") || dgl_str_starts(name, "sc=") ||
                  dgl_str_starts(name, "Script_Extensions=") || dgl_str_starts(name, "scx=");
    bool category = dgl_str_starts(name, "General_Category=") || dgl_str_starts(name, "gc=");
    if (script || category) {
        const char *equal = memchr(name.p, '=', name.len);
        name.len -= (size_t)(equal + 1 - name.p);
        name.p = equal + 1;
    }
    for (size_t i = 0; !script && i < sizeof(categories) / sizeof(*categories); i++)
        if (dgl_str_eq(name, categories[i].name) || dgl_str_eq(name, categories[i].long_name))
            return add_categories(p, categories[i].bits) && (!negated || negate_ranges(p, from));
    if (!category && !script && dgl_str_eq(name, "Any"))
        return add_range(p, 0, TOK_MAX_CP) && (!negated || negate_ranges(p, from));
    if (!category && !script && dgl_str_eq(name, "ASCII"))
        return add_range(p, 0, 0x7F) && (!negated || negate_ranges(p, from));
    const struct tok_range *ranges;
    size_t count;
    const char *known;
    for (size_t i = 0; script && (known = tok_script(i, &ranges, &count)); i++) {
        if (!dgl_str_eq(name, known))
            continue;
        for (size_t k = 0; k < count; k++)
            if (!add_range(p, ranges[k].first, ranges[k].last))
                return false;
        return !negated || negate_ranges(p, from);
    }
    return fail_unsupported(p, start,
                            "this property is not supported; use a general category such as "
                            "\\p{L}, or Script= and the name of a common script");
}

/* Adds \d, \w, \s or a complement. Returns false if the letter is another one. */
static bool add_shorthand(struct parser *p, char letter, bool *ok)
{
    static const struct gr_cp_range digits[] = {{'0', '9'}};
    static const struct gr_cp_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const struct gr_cp_range spaces[] = {
        {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    size_t from = p->num_ranges, count;
    const struct gr_cp_range *list;
    switch (letter | 0x20) {
    case 'd':
        list = digits;
        count = sizeof(digits) / sizeof(*digits);
        break;
    case 'w':
        list = words;
        count = sizeof(words) / sizeof(*words);
        break;
    case 's':
        list = spaces;
        count = sizeof(spaces) / sizeof(*spaces);
        break;
    default:
        return false;
    }
    *ok = true;
    for (size_t i = 0; i < count && *ok; i++)
        *ok = add_range(p, list[i].first, list[i].last);
    if (*ok && !(letter & 0x20))
        *ok = negate_ranges(p, from);
    return true;
}

static bool read_hex(struct parser *p, size_t digits, uint32_t *cp)
{
    *cp = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = dgl_hex_value(peek(p, 0));
        if (value < 0)
            return fail(p, digits == 2 ? "wanted 2 hex digits after \\x"
                                       : "wanted 4 hex digits after \\u, or braces");
        *cp = *cp << 4 | (uint32_t)value;
        p->pos++;
    }
    return true;
}

/* Reads \uXXXX, a surrogate pair of two, or \u{X...} after its letter. */
static bool read_unicode(struct parser *p, uint32_t *cp)
{
    size_t start = p->pos - 2;
    uint32_t low;
    if (accept(p, "{")) {
        size_t digits = 0;
        *cp = 0;
        for (int value; (value = dgl_hex_value(peek(p, 0))) >= 0; digits++) {
            *cp = *cp << 4 | (uint32_t)value;
            p->pos++;
            if (*cp > TOK_MAX_CP)
                return fail(p, "wanted a code point of at most 10FFFF");
        }
        if (!digits || !accept(p, "}"))
            return fail(p, "wanted hex digits and '}' after \\u{");
    } else {
        if (!read_hex(p, 4, cp))
            return false;
        if (*cp >= 0xD800 && *cp <= 0xDBFF && peek(p, 0) == '\\' && peek(p, 1) == 'u') {
            p->pos += 2;
            if (!read_hex(p, 4, &low))
                return false;
            if (low < 0xDC00 || low > 0xDFFF)
                return fail_at(p, start, DGL_ERR_INVALID_ARG, "a surrogate is not half of a pair");
            *cp = 0x10000 + ((*cp - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    if (*cp >= 0xD800 && *cp <= 0xDFFF)
        return fail_at(p, start, DGL_ERR_INVALID_ARG, "a surrogate is not half of a pair");
    return true;
}

/* Reads an escape after its backslash. Sets *is_class if it has added ranges, else *cp. */
static bool read_escape(struct parser *p, bool in_class, bool *is_class, uint32_t *cp)
{
    static const char controls[] = "t\tn\nv\vf\fr\r";
    size_t start = p->pos - 1;
    char c = peek(p, 0);
    bool ok;
    *is_class = false;
    if (at_end(p))
        return fail(p, "wanted a character after '\\'");
    if ((unsigned char)c >= 0x80) {
        p->pos += dgl_utf8_decode(p->text.p + p->pos, p->text.len - p->pos, cp);
        return true;
    }
    p->pos++;
    if (add_shorthand(p, c, &ok)) {
        *is_class = true;
        return ok;
    }
    *cp = (unsigned char)c;
    for (size_t i = 0; i < sizeof(controls) - 1; i += 2)
        if (controls[i] == c) {
            *cp = (unsigned char)controls[i + 1];
            return true;
        }
    if (c == 'p' || c == 'P') {
        *is_class = true;
        return read_property(p, c == 'P');
    }
    if (c == 'x')
        return read_hex(p, 2, cp);
    if (c == 'u')
        return read_unicode(p, cp);
    if (c == 'c') {
        char letter = peek(p, 0);
        if ((letter | 0x20) < 'a' || (letter | 0x20) > 'z')
            return fail(p, "wanted a letter after \\c");
        p->pos++;
        *cp = (unsigned char)letter & 31;
        return true;
    }
    if (c == 'b' && in_class) {
        *cp = '\b';
        return true;
    }
    if (c == 'b' || c == 'B')
        return fail_unsupported(p, start, "word boundaries (\\b, \\B) are not supported");
    if (c == 'k')
        return fail_unsupported(p, start, "references to groups (\\k) are not supported");
    if (c == '0' && !(peek(p, 0) >= '0' && peek(p, 0) <= '9')) {
        *cp = 0;
        return true;
    }
    if (c >= '0' && c <= '9')
        return fail_unsupported(p, start, "references to groups (\\1) are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return fail_at(p, start, DGL_ERR_INVALID_ARG, "unknown escape");
    return true;
}

/* Reads one member of a class. */
static bool read_member(struct parser *p, bool *is_class, uint32_t *cp)
{
    *is_class = false;
    if (accept(p, "\\"))
        return read_escape(p, true, is_class, cp);
    p->pos += dgl_utf8_decode(p->text.p + p->pos, p->text.len - p->pos, cp);
    return true;
}

/* Reads a class after its opening bracket. */
static bool read_class(struct parser *p, struct gr_expr *out)
{
    size_t start = p->pos - 1;
    bool negated = accept(p, "^");
    p->num_ranges = 0;
    while (!accept(p, "]")) {
        size_t at = p->pos;
        bool is_class, last_is_class = false;
        uint32_t first, last;
        if (at_end(p))
            return fail_at(p, start, DGL_ERR_INVALID_ARG, "wanted ']' at the end of the class");
        if (!read_member(p, &is_class, &first))
            return false;
        if (is_class)
            continue;
        last = first;
        if (peek(p, 0) == '-' && peek(p, 1) != ']' && peek(p, 1)) {
            p->pos++;
            if (!read_member(p, &last_is_class, &last))
                return false;
        }
        if (last_is_class) { /* as in [a-\d]: the '-' is a member */
            if (!add_range(p, first, first) || !add_range(p, '-', '-'))
                return false;
            continue;
        }
        if (first > last)
            return fail_at(p, at, DGL_ERR_INVALID_ARG, "the range does not ascend");
        if (!add_range(p, first, last))
            return false;
    }
    *out = gr_class(p->b, p->ranges, p->num_ranges, negated);
    return p->budget->status == DGL_OK;
}

/* --- parts --- */

static struct part part_of(struct gr_expr expr, bool nullable)
{
    return (struct part){.by = {expr}, .has = {true}, .nullable = {nullable}};
}

static void add_to_part(struct parser *p, struct part *part, int anchors, struct gr_expr expr,
                        bool nullable)
{
    part->by[anchors] = part->has[anchors] ? gr_alt2(p->b, part->by[anchors], expr) : expr;
    part->has[anchors] = true;
    part->nullable[anchors] |= nullable;
}

/* Returns one part after the other. Before a start anchor and after an end anchor only the empty
 * text is possible. */
static struct part join(struct parser *p, const struct part *left, const struct part *right)
{
    struct part whole = {0};
    for (int l = 0; l < ANCHORS; l++)
        for (int r = 0; r < ANCHORS; r++) {
            bool left_empty = r & ANCHOR_START, right_empty = l & ANCHOR_END;
            if (!left->has[l] || !right->has[r] || (left_empty && !left->nullable[l]) ||
                (right_empty && !right->nullable[r]))
                continue;
            struct gr_expr expr = left_empty && right_empty ? gr_empty(p->b)
                                  : left_empty              ? right->by[r]
                                  : right_empty             ? left->by[l]
                                                : gr_seq2(p->b, left->by[l], right->by[r]);
            bool nullable = left->nullable[l] && right->nullable[r];
            add_to_part(p, &whole, l | r, expr, nullable);
        }
    return whole;
}

static bool read_alternatives(struct parser *p, struct part *out);

/* Reads a group after its opening parenthesis. */
static bool read_group(struct parser *p, struct part *out)
{
    size_t start = p->pos - 1;
    if (++p->groups > MAX_GROUPS)
        return fail_at(p, start, DGL_ERR_INVALID_ARG, "groups are nested deeper than 100");
    if (accept(p, "?")) {
        if (peek(p, 0) == '=' || peek(p, 0) == '!' ||
            (peek(p, 0) == '<' && (peek(p, 1) == '=' || peek(p, 1) == '!')))
            return fail_unsupported(p, start, "look-around is not supported");
        if (accept(p, "<")) { /* a named group, of which only the name is special */
            const char *end = memchr(p->text.p + p->pos, '>', p->text.len - p->pos);
            if (!end)
                return fail(p, "wanted '>' after the name of a group");
            p->pos = (size_t)(end - p->text.p) + 1;
        } else if (!accept(p, ":")) {
            return fail_unsupported(p, start, "this kind of group is not supported");
        }
    }
    if (!read_alternatives(p, out))
        return false;
    p->groups--;
    return accept(p, ")") ||
           fail_at(p, start, DGL_ERR_INVALID_ARG, "wanted ')' at the end of the group");
}

/* Reads a number of a quantifier. A number that is too large is refused by gr_repeat(). */
static bool read_number(struct parser *p, uint32_t *out)
{
    size_t start = p->pos;
    uint64_t value = 0;
    for (; peek(p, 0) >= '0' && peek(p, 0) <= '9'; p->pos++)
        value = value > GR_MAX_COUNT ? value : value * 10 + (uint64_t)(peek(p, 0) - '0');
    *out = (uint32_t)value;
    return p->pos > start;
}

/* Reads a quantifier, if there is one. Lazy ones accept the same texts. '{' that begins no
 * quantifier is a character. */
static bool read_quantifier(struct parser *p, bool *found, uint32_t *min, uint32_t *max)
{
    size_t start = p->pos;
    *found = true;
    *min = 0;
    *max = GR_UNBOUNDED;
    if (accept(p, "+")) {
        *min = 1;
    } else if (accept(p, "?")) {
        *max = 1;
    } else if (accept(p, "{")) {
        bool ok = read_number(p, min);
        *max = *min;
        if (ok && accept(p, ",")) {
            *max = GR_UNBOUNDED;
            if (peek(p, 0) != '}')
                ok = read_number(p, max);
        }
        if (!ok || !accept(p, "}")) {
            p->pos = start;
            *found = false;
            return true;
        }
        if (*min > *max)
            return fail_at(p, start, DGL_ERR_INVALID_ARG, "the bounds of a repeat do not ascend");
        if (*min > GR_MAX_COUNT || (*max != GR_UNBOUNDED && *max > GR_MAX_COUNT))
            return fail_at(p, start, DGL_ERR_INVALID_ARG,
                           "the bounds of a repeat are larger than 1000000");
    } else if (!accept(p, "*")) {
        *found = false;
    }
    if (*found)
        accept(p, "?");
    return true;
}

/* Reads one term and its quantifier. */
static bool read_term(struct parser *p, struct part *out)
{
    size_t start = p->pos;
    uint32_t cp, min, max;
    bool is_class, found;
    if (accept(p, "^") || accept(p, "$")) {
        *out = (struct part){0};
        add_to_part(p, out, p->text.p[start] == '^' ? ANCHOR_START : ANCHOR_END, gr_empty(p->b),
                    true);
        if (peek(p, 0) && strchr("*+?", peek(p, 0)))
            return fail(p, "an anchor cannot be repeated");
        return true;
    }
    if (accept(p, "(")) {
        if (!read_group(p, out))
            return false;
    } else if (accept(p, "[")) {
        struct gr_expr expr;
        if (!read_class(p, &expr))
            return false;
        *out = part_of(expr, false);
    } else if (accept(p, ".")) {
        static const struct gr_cp_range ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
        *out = part_of(gr_class(p->b, ends, 3, true), false);
    } else if (accept(p, "\\")) {
        p->num_ranges = 0;
        if (!read_escape(p, false, &is_class, &cp))
            return false;
        *out = part_of(is_class ? gr_class(p->b, p->ranges, p->num_ranges, false)
                                : gr_range(p->b, cp, cp),
                       false);
    } else if (peek(p, 0) && strchr("*+?", peek(p, 0))) {
        return fail(p, "wanted an item before the quantifier");
    } else {
        p->pos += dgl_utf8_decode(p->text.p + p->pos, p->text.len - p->pos, &cp);
        *out = part_of(gr_range(p->b, cp, cp), false);
    }
    size_t at = p->pos;
    if (!read_quantifier(p, &found, &min, &max))
        return false;
    if (!found)
        return p->budget->status == DGL_OK;
    bool anchored = out->has[1] || out->has[2] || out->has[3];
    if (anchored && (min > 1 || max != 1))
        return fail_unsupported(p, at, "a group with anchors cannot be repeated");
    if (out->has[0]) {
        out->by[0] = gr_repeat(p->b, out->by[0], min, max);
        out->nullable[0] |= min == 0;
    } else if (min == 0) {
        add_to_part(p, out, 0, gr_empty(p->b), true);
    }
    return p->budget->status == DGL_OK;
}

static bool read_sequence(struct parser *p, struct part *out)
{
    /* Plain terms are collected in a list, so that long patterns do not nest deep. */
    struct gr_expr *items = NULL;
    size_t count = 0, cap = 0;
    bool nullable = true, ok = false;
    *out = part_of(gr_empty(p->b), true);
    for (;;) {
        struct part term = {0};
        bool end = at_end(p) || peek(p, 0) == '|' || peek(p, 0) == ')';
        if (!dgl_budget_steps(p->budget, 4) || (!end && !read_term(p, &term)))
            goto done;
        bool plain = !end && !term.has[1] && !term.has[2] && !term.has[3];
        if (plain) {
            if (!dgl_budget_grow(p->budget, (void **)&items, &cap, count + 1, sizeof(*items)))
                goto done;
            items[count++] = term.by[0];
            nullable &= term.nullable[0];
            continue;
        }
        if (count) {
            struct part run = part_of(gr_seq(p->b, items, count), nullable);
            *out = join(p, out, &run);
        }
        count = 0;
        nullable = true;
        if (end)
            break;
        *out = join(p, out, &term);
    }
    ok = p->budget->status == DGL_OK;
done:
    free(items);
    return ok;
}

static bool read_alternatives(struct parser *p, struct part *out)
{
    struct gr_expr *items[ANCHORS] = {0};
    size_t count[ANCHORS] = {0}, cap[ANCHORS] = {0};
    bool ok = false;
    *out = (struct part){0};
    do {
        struct part one;
        if (!read_sequence(p, &one))
            goto done;
        for (int i = 0; i < ANCHORS; i++) {
            if (!one.has[i])
                continue;
            if (!dgl_budget_grow(p->budget, (void **)&items[i], &cap[i], count[i] + 1,
                                 sizeof(*items[i])))
                goto done;
            items[i][count[i]++] = one.by[i];
            out->nullable[i] |= one.nullable[i];
        }
    } while (accept(p, "|"));
    for (int i = 0; i < ANCHORS; i++)
        if (count[i]) {
            out->has[i] = true;
            out->by[i] = gr_alt(p->b, items[i], count[i]);
        }
    ok = p->budget->status == DGL_OK;
done:
    for (int i = 0; i < ANCHORS; i++)
        free(items[i]);
    return ok;
}

enum dgl_status regex_parse(struct grammar_builder *b, struct dgl_str pattern, bool search,
                            struct gr_expr *out)
{
    struct dgl_budget *budget = grammar_builder_budget(b);
    struct parser p = {.b = b, .budget = budget, .text = pattern};
    struct part whole;
    size_t valid = pattern.len ? dgl_utf8_valid_prefix(pattern.p, pattern.len) : 0;
    *out = gr_never(b);
    p.text.p = pattern.len ? pattern.p : "";
    if (pattern.len > GR_MAX_TEXT) {
        dgl_budget_fail(budget, DGL_ERR_INVALID_ARG, "a pattern has %zu bytes, at most %u",
                        pattern.len, GR_MAX_TEXT);
        goto done;
    }
    if (valid < pattern.len) {
        fail_at(&p, valid, DGL_ERR_INVALID_ARG, "the pattern is not valid UTF-8");
        goto done;
    }
    if (!read_alternatives(&p, &whole))
        goto done;
    if (!at_end(&p)) {
        fail(&p, "')' has no '('");
        goto done;
    }
    struct gr_expr any = gr_repeat(b, gr_any(b), 0, GR_UNBOUNDED), ways[ANCHORS];
    size_t count = 0;
    for (int i = 0; i < ANCHORS; i++) {
        bool before = search && !(i & ANCHOR_START), after = search && !(i & ANCHOR_END);
        if (!whole.has[i])
            continue;
        struct gr_expr parts[] = {before ? any : gr_empty(b), whole.by[i],
                                  after ? any : gr_empty(b)};
        ways[count++] = gr_seq(b, parts, 3);
    }
    *out = gr_alt(b, ways, count);
done:
    free(p.ranges);
    return budget->status;
}
