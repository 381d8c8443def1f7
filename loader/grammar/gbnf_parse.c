/* Parses GBNF as llama.cpp writes it. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "loader/grammar/grammar.h"

enum { MAX_GROUPS = 200 };

/* A rule that the text has named. */
struct named_rule {
    struct dgl_str name;
    struct gr_rule rule;
    size_t first_use; /* offset */
};
struct parser {
    struct grammar_builder *b;
    struct dgl_budget *budget;
    struct dgl_str text;
    size_t pos;
    const struct gr_vocabulary *vocabulary;
    struct named_rule *rules;
    size_t num_rules, cap_rules;
    uint32_t *table; /* open addressing by name; index + 1 */
    size_t num_slots;
    struct gr_expr *items; /* of sequences and alternatives in the making */
    size_t num_items, cap_items;
    uint32_t groups; /* open parentheses */
};

/* --- text --- */

/* Fails at an offset, with its line and column (in characters, from 1). */
static bool fail_at(struct parser *p, size_t at, const char *what)
{
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < p->text.len; i++) {
        if (p->text.p[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)p->text.p[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    struct dgl_str rest = {p->text.p + at, p->text.len - at};
    const char *end = rest.len ? memchr(rest.p, '\n', rest.len) : NULL;
    rest.len = end ? (size_t)(end - rest.p) : rest.len;
    rest.len = rest.len > 30 ? 30 : rest.len;
    rest.len = dgl_utf8_valid_prefix(rest.p, rest.len);
    if (!rest.len)
        return dgl_budget_fail(p->budget, DGL_ERR_INVALID_ARG, "line %u, column %u: %s, found %s",
                               line, column, what,
                               at < p->text.len ? "the end of the line" : "the end of the text");
    return dgl_budget_fail(p->budget, DGL_ERR_INVALID_ARG, "line %u, column %u: %s, found \"%s\"",
                           line, column, what, DGL_PRINTABLE_STR(rest));
}

static bool fail(struct parser *p, const char *what)
{
    return fail_at(p, p->pos, what);
}

static char peek(const struct parser *p)
{
    return p->pos < p->text.len ? p->text.p[p->pos] : '\0';
}

static bool accept(struct parser *p, char c)
{
    if (p->pos >= p->text.len || p->text.p[p->pos] != c)
        return false;
    p->pos++;
    return true;
}

/* Skips blanks and comments, and line ends if `lines`. */
static void skip_space(struct parser *p, bool lines)
{
    while (p->pos < p->text.len) {
        char c = peek(p);
        if (c == '#')
            while (p->pos < p->text.len && peek(p) != '\n' && peek(p) != '\r')
                p->pos++;
        else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
            p->pos++;
        else
            break;
    }
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static struct dgl_str read_name(struct parser *p)
{
    size_t start = p->pos;
    while (p->pos < p->text.len && is_name_char(peek(p)))
        p->pos++;
    return (struct dgl_str){p->text.p + start, p->pos - start};
}

/* --- rules --- */

static size_t name_slot(const struct parser *p, struct dgl_str name)
{
    size_t at = 5381;
    for (size_t i = 0; i < name.len; i++)
        at = at * 33 + (unsigned char)name.p[i];
    while (p->table[at &= p->num_slots - 1] &&
           !dgl_str_equal(p->rules[p->table[at] - 1].name, name))
        at++;
    return at;
}

/* Finds a rule by name, or makes it. Returns NULL on failure. */
static struct named_rule *find_rule(struct parser *p, struct dgl_str name, size_t use)
{
    if (p->num_rules * 2 >= p->num_slots) {
        size_t cap = 0, slots = p->num_slots ? p->num_slots * 2 : 64;
        uint32_t *table = NULL;
        if (!dgl_budget_grow(p->budget, (void **)&table, &cap, slots, sizeof(*table)))
            return NULL;
        memset(table, 0, slots * sizeof(*table));
        free(p->table);
        p->table = table;
        p->num_slots = slots;
        for (size_t i = 0; i < p->num_rules; i++)
            table[name_slot(p, p->rules[i].name)] = (uint32_t)i + 1;
    }
    size_t at = name_slot(p, name);
    if (!p->table[at]) {
        if (!dgl_budget_grow(p->budget, (void **)&p->rules, &p->cap_rules, p->num_rules + 1,
                             sizeof(*p->rules)))
            return NULL;
        p->rules[p->num_rules] = (struct named_rule){name, gr_rule_new(p->b, name), use};
        p->table[at] = (uint32_t)++p->num_rules;
    }
    return p->budget->status == DGL_OK ? &p->rules[p->table[at] - 1] : NULL;
}

/* --- terminals --- */

static bool read_hex(struct parser *p, size_t digits, uint32_t *cp)
{
    *cp = 0;
    for (size_t i = 0; i < digits; i++) {
        int value = dgl_hex_value(peek(p));
        if (value < 0)
            return fail(p, digits == 2   ? "wanted 2 hex digits after \\x"
                           : digits == 4 ? "wanted 4 hex digits after \\u"
                                         : "wanted 8 hex digits after \\U");
        *cp = *cp << 4 | (uint32_t)value;
        p->pos++;
    }
    if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp <= 0xDFFF)) {
        p->pos -= digits;
        return fail(p, "wanted a code point that is not a surrogate and at most 10FFFF");
    }
    return true;
}

/* Reads one character of a literal or of a class. The text is valid UTF-8. */
static bool read_char(struct parser *p, uint32_t *cp)
{
    static const char letters[] = "t\tr\rn\n\\\\\"\"[[]]";
    if (p->pos >= p->text.len)
        return fail(p, "wanted a character");
    if (!accept(p, '\\')) {
        p->pos += dgl_utf8_decode(p->text.p + p->pos, p->text.len - p->pos, cp);
        return true;
    }
    char c = peek(p);
    p->pos++;
    if (c == 'x' || c == 'u' || c == 'U')
        return read_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, cp);
    for (size_t i = 0; i < sizeof(letters) - 1; i += 2)
        if (letters[i] == c) {
            *cp = (unsigned char)letters[i + 1];
            return true;
        }
    p->pos -= 2;
    return fail(p, "unknown escape; wanted \\t, \\r, \\n, \\\\, \\\", \\[, \\], \\x, \\u or \\U");
}

/* Reads a literal after its opening quote. */
static bool read_literal(struct parser *p, struct gr_expr *out)
{
    struct dgl_buf bytes = {0};
    size_t start = p->pos - 1;
    bool ok = false;
    while (!accept(p, '"')) {
        char utf8[4];
        uint32_t cp;
        if (p->pos >= p->text.len) {
            fail_at(p, start, "wanted a closing quote");
            goto done;
        }
        if (!read_char(p, &cp) ||
            !dgl_budget_append(p->budget, &bytes, utf8, dgl_utf8_encode(cp, utf8)))
            goto done;
    }
    *out = gr_literal(p->b, (struct dgl_str){bytes.p, bytes.len});
    ok = true;
done:
    dgl_buf_finish(&bytes);
    return ok;
}

/* Reads a class after its opening bracket. */
static bool read_class(struct parser *p, struct gr_expr *out)
{
    struct gr_cp_range *ranges = NULL;
    size_t count = 0, cap = 0, start = p->pos - 1;
    bool negated = accept(p, '^'), ok = false;
    while (!accept(p, ']')) {
        struct gr_cp_range range;
        size_t at = p->pos;
        if (p->pos >= p->text.len) {
            fail_at(p, start, "wanted a closing bracket");
            goto done;
        }
        if (!read_char(p, &range.first))
            goto done;
        range.last = range.first;
        if (peek(p) == '-' && p->pos + 1 < p->text.len && p->text.p[p->pos + 1] != ']') {
            p->pos++;
            if (!read_char(p, &range.last))
                goto done;
        }
        if (range.first > range.last) {
            fail_at(p, at, "wanted a range that ascends");
            goto done;
        }
        if (!dgl_budget_grow(p->budget, (void **)&ranges, &cap, count + 1, sizeof(*ranges)))
            goto done;
        ranges[count++] = range;
    }
    *out = gr_class(p->b, ranges, count, negated);
    ok = true;
done:
    free(ranges);
    return ok;
}

/* Reads a token: `<[id]>` or `<text>`. */
static bool read_token(struct parser *p, bool negated, struct gr_expr *out)
{
    size_t start = p->pos;
    uint64_t id;
    if (!accept(p, '<'))
        return fail(p, "wanted '<' of a token");
    while (p->pos < p->text.len && peek(p) != '>' && peek(p) != '\n')
        p->pos++;
    if (!accept(p, '>'))
        return fail_at(p, start, "wanted '>' at the end of the token on the same line");
    struct dgl_str text = {p->text.p + start, p->pos - start};
    if (text.len > 4 && text.p[1] == '[' && text.p[text.len - 2] == ']') {
        if (!dgl_parse_u64((struct dgl_str){text.p + 2, text.len - 4}, INT32_MAX, &id))
            return fail_at(p, start, "wanted the number of a token in <[...]>");
        *out = gr_token(p->b, (int32_t)id, negated);
        return true;
    }
    if (!p->vocabulary)
        return fail_at(p, start, "a token by its text needs a vocabulary; write <[id]>");
    int32_t found = p->vocabulary->find(p->vocabulary->priv, text);
    if (found < 0)
        return fail_at(p, start, "the text is not one token of this model");
    *out = gr_token(p->b, found, negated);
    return true;
}

/* --- expressions --- */

static bool push_item(struct parser *p, struct gr_expr item)
{
    if (!dgl_budget_grow(p->budget, (void **)&p->items, &p->cap_items, p->num_items + 1,
                         sizeof(*p->items)))
        return false;
    p->items[p->num_items++] = item;
    return true;
}

static bool read_number(struct parser *p, uint32_t *out)
{
    size_t start = p->pos;
    uint64_t value;
    while (peek(p) >= '0' && peek(p) <= '9')
        p->pos++;
    struct dgl_str digits = {p->text.p + start, p->pos - start};
    if (!dgl_parse_u64(digits, GR_MAX_COUNT, &value)) {
        p->pos = start;
        return fail(p, "wanted a number from 0 to 1000000");
    }
    *out = (uint32_t)value;
    return true;
}

/* Reads the bounds of `{m}`, `{m,}` or `{m,n}` after the brace. */
static bool read_bounds(struct parser *p, bool nested, uint32_t *min, uint32_t *max)
{
    size_t start = p->pos;
    skip_space(p, nested);
    if (!read_number(p, min))
        return false;
    *max = *min;
    skip_space(p, nested);
    if (accept(p, ',')) {
        *max = GR_UNBOUNDED;
        skip_space(p, nested);
        if (peek(p) != '}' && !read_number(p, max))
            return false;
        skip_space(p, nested);
    }
    if (!accept(p, '}'))
        return fail(p, "wanted '}' after the bounds of a repeat");
    return *min <= *max || fail_at(p, start, "wanted bounds that ascend");
}

static bool read_alternatives(struct parser *p, bool nested, struct gr_expr *out);

/* Reads one item without its repeats. Sets *found to false if none begins here. */
static bool read_item(struct parser *p, bool *found, struct gr_expr *out)
{
    size_t start = p->pos;
    *found = true;
    if (accept(p, '"'))
        return read_literal(p, out);
    if (accept(p, '['))
        return read_class(p, out);
    if (accept(p, '.')) {
        *out = gr_any(p->b);
        return true;
    }
    if (peek(p) == '<' || peek(p) == '!')
        return read_token(p, accept(p, '!'), out);
    if (accept(p, '(')) {
        if (++p->groups > MAX_GROUPS)
            return fail_at(p, start, "parentheses are nested deeper than 200");
        skip_space(p, true);
        if (!read_alternatives(p, true, out))
            return false;
        p->groups--;
        return accept(p, ')') || fail(p, "wanted ')'");
    }
    if (p->pos < p->text.len && is_name_char(peek(p))) {
        const struct named_rule *rule = find_rule(p, read_name(p), start);
        if (!rule)
            return false;
        *out = gr_call(p->b, rule->rule);
        return true;
    }
    *found = false;
    return true;
}

/* Applies the repeats that follow an item. */
static bool read_repeats(struct parser *p, bool nested, struct gr_expr *item)
{
    for (;;) {
        uint32_t min = 0, max = GR_UNBOUNDED;
        skip_space(p, nested);
        if (accept(p, '+'))
            min = 1;
        else if (accept(p, '?'))
            max = 1;
        else if (accept(p, '{')) {
            if (!read_bounds(p, nested, &min, &max))
                return false;
        } else if (!accept(p, '*'))
            return p->budget->status == DGL_OK;
        *item = gr_repeat(p->b, *item, min, max);
    }
}

static bool read_sequence(struct parser *p, bool nested, struct gr_expr *out)
{
    size_t base = p->num_items;
    for (;;) {
        struct gr_expr item;
        bool found;
        skip_space(p, nested);
        if (!dgl_budget_steps(p->budget, 4) || !read_item(p, &found, &item))
            return false;
        if (!found)
            break;
        if (!read_repeats(p, nested, &item) || !push_item(p, item))
            return false;
    }
    if (peek(p) && strchr("*+?{", peek(p)))
        return fail(p, "wanted an item before the repeat");
    *out = gr_seq(p->b, p->items + base, p->num_items - base);
    p->num_items = base;
    return p->budget->status == DGL_OK;
}

static bool read_alternatives(struct parser *p, bool nested, struct gr_expr *out)
{
    size_t base = p->num_items;
    do {
        struct gr_expr item;
        skip_space(p, nested || p->num_items > base);
        if (!read_sequence(p, nested, &item) || !push_item(p, item))
            return false;
    } while (accept(p, '|'));
    *out = gr_alt(p->b, p->items + base, p->num_items - base);
    p->num_items = base;
    return p->budget->status == DGL_OK;
}

static bool read_rule(struct parser *p)
{
    size_t start = p->pos;
    struct dgl_str name = read_name(p);
    struct gr_expr body;
    if (!name.len)
        return fail(p, "wanted the name of a rule (letters, digits, '-' and '_')");
    skip_space(p, false);
    if (!accept(p, ':') || !accept(p, ':') || !accept(p, '='))
        return fail(p, "wanted ::= after the name of a rule");
    skip_space(p, true);
    struct named_rule *rule = find_rule(p, name, start);
    if (!rule)
        return false;
    if (gr_rule_is_set(p->b, rule->rule))
        return fail_at(p, start, "the rule has a body already");
    struct gr_rule handle = rule->rule;
    if (!read_alternatives(p, false, &body))
        return false;
    gr_rule_set(p->b, handle, body);
    if (p->pos < p->text.len && peek(p) != '\n' && peek(p) != '\r')
        return fail(p, "wanted an item, '|' or the end of the line");
    skip_space(p, true);
    return p->budget->status == DGL_OK;
}

enum dgl_status gbnf_parse(struct grammar_builder *b, struct dgl_str text, const char *root_name,
                           const struct gr_vocabulary *vocabulary, struct gr_rule *root)
{
    struct dgl_budget *budget = grammar_builder_budget(b);
    struct parser p = {.b = b, .budget = budget, .text = text, .vocabulary = vocabulary};
    size_t valid = text.len ? dgl_utf8_valid_prefix(text.p, text.len) : 0;
    *root = (struct gr_rule){0};
    p.text.p = text.len ? text.p : "";
    if (text.len > GR_MAX_TEXT) {
        dgl_budget_fail(budget, DGL_ERR_INVALID_ARG, "the grammar has %zu bytes, at most %u",
                        text.len, GR_MAX_TEXT);
        goto done;
    }
    if (valid < text.len) {
        fail_at(&p, valid, "the text is not valid UTF-8");
        goto done;
    }
    if (!dgl_budget_grow(budget, (void **)&p.items, &p.cap_items, 1, sizeof(*p.items)))
        goto done;
    skip_space(&p, true);
    while (p.pos < text.len)
        if (!read_rule(&p))
            goto done;
    for (size_t i = 0; i < p.num_rules; i++)
        if (!gr_rule_is_set(b, p.rules[i].rule)) {
            fail_at(&p, p.rules[i].first_use, "the rule has no body");
            goto done;
        }
    const struct named_rule *found = find_rule(&p, dgl_str_of(root_name), 0);
    if (found && !gr_rule_is_set(b, found->rule))
        dgl_budget_fail(budget, DGL_ERR_INVALID_ARG, "the grammar has no rule \"%s\"",
                        DGL_PRINTABLE(root_name));
    if (found)
        *root = found->rule;
done:
    free(p.rules);
    free(p.table);
    free(p.items);
    return budget->status;
}
