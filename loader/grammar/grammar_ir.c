/* Builders: expressions and rules of a grammar before it is compiled. */
#include "loader/grammar/grammar_ir.h"

#include <stdlib.h>
#include <string.h>

/* Ids of the two expressions of every builder. The first is also returned on failure. */
enum { ID_NEVER, ID_EMPTY };

struct dgl_budget grammar_budget(const struct dgl_log *log, const char *name, size_t len)
{
    struct dgl_budget budget = {.log = log,
                                .name = name,
                                .work = "the grammar",
                                .refusal = DGL_ERR_INVALID_ARG,
                                .advice = "; use fewer rules or smaller bounded repeats",
                                .max_steps = dgl_budget_limit(20000000, 200, len),
                                .max_bytes = dgl_budget_limit(192u << 20, 64, len)};
    dgl_budget_start(&budget);
    return budget;
}

static struct gr_expr add_node(struct grammar_builder *b, struct gr_node node)
{
    if (node.size > GR_MAX_STATES)
        dgl_budget_fail(b->budget, DGL_ERR_INVALID_ARG,
                        "an expression has more than %u states after expansion; use smaller "
                        "bounded repeats",
                        GR_MAX_STATES);
    if (node.depth > GR_MAX_NESTING)
        dgl_budget_fail(b->budget, DGL_ERR_INVALID_ARG,
                        "expressions are nested deeper than %u levels; use rules", GR_MAX_NESTING);
    if (!dgl_budget_steps(b->budget, 2) ||
        !dgl_budget_grow(b->budget, (void **)&b->nodes, &b->cap_nodes, b->num_nodes + 1,
                         sizeof(*b->nodes)))
        return (struct gr_expr){ID_NEVER};
    b->nodes[b->num_nodes] = node;
    return (struct gr_expr){(uint32_t)b->num_nodes++};
}

enum dgl_status grammar_builder_create(struct dgl_budget *budget, struct grammar_builder **out)
{
    struct grammar_builder *b = dgl_new(struct grammar_builder);
    *out = b;
    if (!b) {
        dgl_budget_fail_memory(budget, sizeof(*b));
        return budget->status;
    }
    b->budget = budget;
    b->any_text = ITEM_UNKNOWN;
    /* These lists are indexed even if they are empty. */
    dgl_budget_grow(budget, (void **)&b->children, &b->cap_children, 1, sizeof(*b->children));
    dgl_budget_grow(budget, (void **)&b->ranges, &b->cap_ranges, 1, sizeof(*b->ranges));
    add_node(b, (struct gr_node){.kind = GR_NEVER});
    add_node(b, (struct gr_node){.kind = GR_EMPTY});
    if (budget->status != DGL_OK)
        grammar_builder_destroy(out);
    return budget->status;
}

void grammar_builder_destroy(struct grammar_builder **builder)
{
    struct grammar_builder *b = *builder;
    if (!b)
        return;
    for (size_t i = 0; i < b->num_dfas; i++)
        automaton_finish(&b->dfas[i]);
    dgl_arena_finish(&b->arena);
    dgl_buf_finish(&b->bytes);
    free(b->nodes);
    free(b->rules);
    free(b->ranges);
    free(b->tokens);
    free(b->children);
    free(b->dfas);
    free(b->items);
    free(b);
    *builder = NULL;
}

struct dgl_budget *grammar_builder_budget(struct grammar_builder *b)
{
    return b->budget;
}

/* --- terminals --- */

struct gr_expr gr_empty(struct grammar_builder *b)
{
    (void)b;
    return (struct gr_expr){ID_EMPTY};
}

struct gr_expr gr_never(struct grammar_builder *b)
{
    (void)b;
    return (struct gr_expr){ID_NEVER};
}

struct gr_expr gr_literal(struct grammar_builder *b, struct dgl_str bytes)
{
    size_t first = b->bytes.len;
    if (!bytes.len)
        return gr_empty(b);
    if (bytes.len > GR_MAX_STATES) {
        dgl_budget_fail(b->budget, DGL_ERR_INVALID_ARG, "a literal has %zu bytes, at most %u",
                        bytes.len, GR_MAX_STATES);
        return gr_never(b);
    }
    if (!dgl_budget_append(b->budget, &b->bytes, bytes.p, bytes.len))
        return gr_never(b);
    return add_node(b, (struct gr_node){.kind = GR_LITERAL,
                                        .first = (uint32_t)first,
                                        .count = (uint32_t)bytes.len,
                                        .size = (uint32_t)bytes.len});
}

static int compare_ranges(const void *a, const void *b)
{
    const struct gr_cp_range *left = a, *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* Appends a range without surrogates to the builder's list. */
static bool add_range(struct grammar_builder *b, uint32_t first, uint32_t last)
{
    if (first < 0xD800 && last >= 0xD800)
        return add_range(b, first, 0xD7FF) && add_range(b, 0xD800, last);
    if (first >= 0xD800 && first <= 0xDFFF)
        first = 0xE000;
    last = last > 0x10FFFF ? 0x10FFFF : last;
    if (first > last)
        return true;
    if (!dgl_budget_steps(b->budget, 2) ||
        !dgl_budget_grow(b->budget, (void **)&b->ranges, &b->cap_ranges, b->num_ranges + 1,
                         sizeof(*b->ranges)))
        return false;
    b->ranges[b->num_ranges++] = (struct gr_cp_range){first, last};
    return true;
}

struct gr_expr gr_class(struct grammar_builder *b, const struct gr_cp_range *ranges, size_t count,
                        bool negated)
{
    size_t first = b->num_ranges, kept = first;
    for (size_t i = 0; i < count; i++)
        if (ranges[i].first <= ranges[i].last && !add_range(b, ranges[i].first, ranges[i].last))
            return gr_never(b);
    struct gr_cp_range *list = b->ranges + first;
    if (b->num_ranges > first)
        qsort(list, b->num_ranges - first, sizeof(*list), compare_ranges);
    for (size_t i = first; i < b->num_ranges; i++) {
        struct gr_cp_range range = b->ranges[i];
        if (kept > first && range.first <= b->ranges[kept - 1].last + 1) {
            if (range.last > b->ranges[kept - 1].last)
                b->ranges[kept - 1].last = range.last;
        } else {
            b->ranges[kept++] = range;
        }
    }
    b->num_ranges = kept;
    if (negated) {
        /* The gaps between the ranges follow them in the list. */
        uint32_t next = 0;
        for (size_t i = first; i < kept; i++) {
            if (b->ranges[i].first > next && !add_range(b, next, b->ranges[i].first - 1))
                return gr_never(b);
            next = b->ranges[i].last + 1;
        }
        if (next <= 0x10FFFF && !add_range(b, next, 0x10FFFF))
            return gr_never(b);
        first = kept;
    }
    if (b->num_ranges == first)
        return gr_never(b);
    count = b->num_ranges - first;
    return add_node(b, (struct gr_node){.kind = GR_CLASS,
                                        .first = (uint32_t)first,
                                        .count = (uint32_t)count,
                                        .size = count > 1 ? 8 : 1});
}

struct gr_expr gr_range(struct grammar_builder *b, uint32_t first, uint32_t last)
{
    return gr_class(b, &(struct gr_cp_range){first, last}, 1, false);
}

struct gr_expr gr_any(struct grammar_builder *b)
{
    return gr_range(b, 0, 0x10FFFF);
}

struct gr_expr gr_token(struct grammar_builder *b, int32_t id, bool negated)
{
    if (!dgl_budget_grow(b->budget, (void **)&b->tokens, &b->cap_tokens, b->num_tokens + 1,
                         sizeof(*b->tokens)))
        return gr_never(b);
    b->tokens[b->num_tokens++] = (struct gr_token_terminal){id, negated};
    return add_node(b, (struct gr_node){.kind = GR_TOKEN,
                                        .first = (uint32_t)b->num_tokens - 1,
                                        .size = 1,
                                        .has_token = true});
}

/* --- combinations --- */

static struct gr_expr add_list(struct grammar_builder *b, enum gr_kind kind,
                               const struct gr_expr *items, size_t count)
{
    struct gr_node node = {.kind = kind, .first = (uint32_t)b->num_children};
    uint64_t size = 1;
    if (!dgl_budget_steps(b->budget, count) ||
        !dgl_budget_grow(b->budget, (void **)&b->children, &b->cap_children,
                         b->num_children + count, sizeof(*b->children)))
        return gr_never(b);
    for (size_t i = 0; i < count; i++) {
        const struct gr_node *item = &b->nodes[items[i].id];
        b->children[b->num_children++] = items[i].id;
        size += item->size;
        node.depth = item->depth >= node.depth ? item->depth + 1 : node.depth;
        node.has_call |= item->has_call;
        node.has_token |= item->has_token;
    }
    node.count = (uint32_t)count;
    node.size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
    return add_node(b, node);
}

struct gr_expr gr_seq(struct grammar_builder *b, const struct gr_expr *items, size_t count)
{
    if (count == 1)
        return items[0];
    return count ? add_list(b, GR_SEQ, items, count) : gr_empty(b);
}

struct gr_expr gr_alt(struct grammar_builder *b, const struct gr_expr *items, size_t count)
{
    if (count == 1)
        return items[0];
    return count ? add_list(b, GR_ALT, items, count) : gr_never(b);
}

struct gr_expr gr_seq2(struct grammar_builder *b, struct gr_expr first, struct gr_expr second)
{
    return gr_seq(b, (struct gr_expr[]){first, second}, 2);
}

struct gr_expr gr_alt2(struct grammar_builder *b, struct gr_expr first, struct gr_expr second)
{
    return gr_alt(b, (struct gr_expr[]){first, second}, 2);
}

struct gr_expr gr_optional(struct grammar_builder *b, struct gr_expr item)
{
    return gr_alt2(b, item, gr_empty(b));
}

struct gr_expr gr_repeat(struct grammar_builder *b, struct gr_expr item, uint32_t min, uint32_t max)
{
    const struct gr_node *node = &b->nodes[item.id];
    uint32_t bound = max == GR_UNBOUNDED ? min : max;
    if (min > max || bound > GR_MAX_COUNT) {
        dgl_budget_fail(b->budget, DGL_ERR_INVALID_ARG,
                        min > max ? "a repeat has the bounds %u and %u, wanted them ascending"
                                  : "a repeat has the bounds %u and %u, at most 1000000",
                        min, max);
        return gr_never(b);
    }
    if (max == 0 || node->kind == GR_EMPTY)
        return gr_empty(b);
    if (min == 1 && max == 1)
        return item;
    /* The compiler decides between a counter and copies, so the size is that of one copy. */
    return add_node(b, (struct gr_node){.kind = GR_REPEAT,
                                        .first = item.id,
                                        .min = min,
                                        .max = max,
                                        .size = node->size + 1,
                                        .depth = node->depth + 1,
                                        .has_call = node->has_call,
                                        .has_token = node->has_token});
}

/* --- rules --- */

struct gr_rule gr_rule_new(struct grammar_builder *b, struct dgl_str name)
{
    if (!dgl_budget_steps(b->budget, 2) || !dgl_budget_bytes(b->budget, name.len + 1) ||
        !dgl_budget_grow(b->budget, (void **)&b->rules, &b->cap_rules, b->num_rules + 1,
                         sizeof(*b->rules)))
        return (struct gr_rule){0};
    char *copy = dgl_arena_strndup(&b->arena, name.p, name.len);
    if (!copy) {
        dgl_budget_fail_memory(b->budget, name.len + 1);
        return (struct gr_rule){0};
    }
    b->rules[b->num_rules] = (struct gr_body){.name = copy};
    return (struct gr_rule){(uint32_t)b->num_rules++};
}

void gr_rule_set(struct grammar_builder *b, struct gr_rule rule, struct gr_expr body)
{
    if (b->budget->status != DGL_OK)
        return;
    b->rules[rule.id].expr = body.id;
    b->rules[rule.id].is_set = true;
}

bool gr_rule_is_set(const struct grammar_builder *b, struct gr_rule rule)
{
    return rule.id < b->num_rules && b->rules[rule.id].is_set;
}

struct gr_expr gr_call(struct grammar_builder *b, struct gr_rule rule)
{
    return add_node(
        b, (struct gr_node){.kind = GR_CALL, .first = rule.id, .size = 1, .has_call = true});
}

/* --- DFAs --- */

bool gr_dfa_fail_size(struct grammar_builder *b)
{
    return dgl_budget_fail(b->budget, DGL_ERR_INVALID_ARG,
                           "a regular part has more than %u states; use a simpler pattern or "
                           "smaller bounded repeats",
                           GR_MAX_DFA_STATES);
}

struct gr_dfa gr_dfa_add(struct grammar_builder *b, struct automaton *a)
{
    if (!dgl_budget_grow(b->budget, (void **)&b->dfas, &b->cap_dfas, b->num_dfas + 1,
                         sizeof(*b->dfas))) {
        automaton_finish(a);
        return (struct gr_dfa){0};
    }
    b->dfas[b->num_dfas] = *a;
    *a = (struct automaton){0};
    return (struct gr_dfa){(uint32_t)b->num_dfas++};
}

static struct gr_dfa combine(struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right,
                             enum fa_operation operation)
{
    bool too_large;
    struct automaton a;
    if (b->budget->status != DGL_OK ||
        !automaton_combine(b->budget, &b->dfas[left.id], &b->dfas[right.id], operation,
                           GR_MAX_DFA_STATES, &too_large, &a))
        return (struct gr_dfa){0};
    if (too_large) {
        gr_dfa_fail_size(b);
        return (struct gr_dfa){0};
    }
    return gr_dfa_add(b, &a);
}

struct gr_dfa gr_dfa_and(struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right)
{
    return combine(b, left, right, FA_AND);
}

struct gr_dfa gr_dfa_or(struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right)
{
    return combine(b, left, right, FA_OR);
}

struct gr_dfa gr_dfa_minus(struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right)
{
    return combine(b, left, right, FA_MINUS);
}

struct gr_dfa gr_dfa_not(struct grammar_builder *b, struct gr_dfa dfa)
{
    if (b->any_text == ITEM_UNKNOWN)
        b->any_text = gr_dfa_of(b, gr_repeat(b, gr_any(b), 0, GR_UNBOUNDED)).id;
    return gr_dfa_minus(b, (struct gr_dfa){b->any_text}, dfa);
}

static bool has_escape(uint32_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\' || byte == '/';
}

/* Adds the escapes of one byte in a JSON string. `escape`: the state after a backslash; `hex`: the
 * states after \u000 and \u001. */
static bool add_json_escapes(struct dgl_budget *budget, struct nfa *nfa, uint32_t escape,
                             const uint32_t hex[2], uint8_t byte, uint32_t to)
{
    static const char shorts[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; /* letter and byte */
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof(shorts) - 1; i += 2)
        if ((uint8_t)shorts[i + 1] == byte)
            ok = nfa_add_edge(budget, nfa, escape, LABEL_BYTES(shorts[i], shorts[i]), to);
    if (byte >= 0x20 || !ok)
        return ok;
    char low = lower[byte & 15], high = upper[byte & 15];
    return nfa_add_edge(budget, nfa, hex[byte >> 4], LABEL_BYTES(low, low), to) &&
           (low == high || nfa_add_edge(budget, nfa, hex[byte >> 4], LABEL_BYTES(high, high), to));
}

/* Adds the spellings of an edge in a JSON string. */
static bool add_json_edge(struct dgl_budget *budget, struct nfa *nfa, uint32_t from,
                          uint32_t escape, const uint32_t hex[2], struct fa_edge edge)
{
    uint32_t last = label_last(edge.label);
    for (uint32_t byte = label_first(edge.label), end; byte <= last; byte = end) {
        end = byte + 1;
        if (has_escape(byte) &&
            !add_json_escapes(budget, nfa, escape, hex, (uint8_t)byte, edge.target))
            return false;
        while (!has_escape(byte) && end <= last && !has_escape(end))
            end++;
        if ((!has_escape(byte) || byte == '/') &&
            !nfa_add_edge(budget, nfa, from, LABEL_BYTES(byte, end - 1), edge.target))
            return false;
    }
    return true;
}

struct gr_dfa gr_dfa_json_escaped(struct grammar_builder *b, struct gr_dfa dfa)
{
    struct gr_dfa result = {0};
    struct nfa nfa = {0};
    struct automaton a = {0};
    bool too_large;
    if (b->budget->status != DGL_OK)
        return result;
    const struct automaton *from = &b->dfas[dfa.id];
    uint32_t n = from->num_states;
    for (uint32_t s = 0; s <= n; s++) /* state n accepts */
        nfa_add_state(b->budget, &nfa);
    if (b->budget->status != DGL_OK)
        goto done;
    for (uint32_t s = 0; s < n; s++) {
        uint32_t chain[6]; /* the states after \, \u, \u0, \u00, \u000 and \u001 */
        if (from->states[s].accept && !nfa_add_edge(b->budget, &nfa, s, NFA_EPSILON, n))
            goto done;
        for (size_t i = 0; i < 6; i++)
            chain[i] = nfa_add_state(b->budget, &nfa);
        if (b->budget->status != DGL_OK)
            goto done;
        if (!nfa_add_edge(b->budget, &nfa, s, LABEL_BYTES('\\', '\\'), chain[0]) ||
            !nfa_add_edge(b->budget, &nfa, chain[0], LABEL_BYTES('u', 'u'), chain[1]) ||
            !nfa_add_edge(b->budget, &nfa, chain[1], LABEL_BYTES('0', '0'), chain[2]) ||
            !nfa_add_edge(b->budget, &nfa, chain[2], LABEL_BYTES('0', '0'), chain[3]) ||
            !nfa_add_edge(b->budget, &nfa, chain[3], LABEL_BYTES('0', '0'), chain[4]) ||
            !nfa_add_edge(b->budget, &nfa, chain[3], LABEL_BYTES('1', '1'), chain[5]))
            goto done;
        for (uint32_t e = from->states[s].first; e < from->states[s + 1].first; e++)
            if (!add_json_edge(b->budget, &nfa, s, chain[0], chain + 4, from->edges[e]))
                goto done;
    }
    if (!nfa_determinize(b->budget, &nfa, 0, n, GR_MAX_DFA_STATES, &too_large, &a))
        goto done;
    if (too_large)
        gr_dfa_fail_size(b);
    else
        result = gr_dfa_add(b, &a);
done:
    nfa_finish(&nfa);
    return result;
}

bool gr_dfa_is_empty(const struct grammar_builder *b, struct gr_dfa dfa)
{
    if (b->budget->status != DGL_OK)
        return false;
    /* All states of an automaton reach an accepting state, except that of the empty language. */
    return !b->dfas[dfa.id].states[0].accept && !b->dfas[dfa.id].num_edges;
}

bool gr_dfa_accepts(const struct grammar_builder *b, struct gr_dfa dfa, struct dgl_str text)
{
    uint32_t state = 0;
    if (b->budget->status != DGL_OK)
        return false;
    for (size_t i = 0; i < text.len && state != UINT32_MAX; i++)
        state = automaton_next(&b->dfas[dfa.id], state, (uint8_t)text.p[i]);
    return state != UINT32_MAX && b->dfas[dfa.id].states[state].accept;
}

bool gr_dfa_equal(const struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right)
{
    return b->budget->status == DGL_OK && automaton_equal(&b->dfas[left.id], &b->dfas[right.id]);
}

struct gr_expr gr_dfa_expr(struct grammar_builder *b, struct gr_dfa dfa)
{
    if (b->budget->status != DGL_OK || gr_dfa_is_empty(b, dfa))
        return gr_never(b);
    return add_node(
        b, (struct gr_node){.kind = GR_DFA, .first = dfa.id, .size = b->dfas[dfa.id].num_states});
}
