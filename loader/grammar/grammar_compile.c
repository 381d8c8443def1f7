/* Compiles the rules of a builder to a grammar. */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/printable.h"
#include "loader/grammar/grammar_form.h"
#include "loader/grammar/grammar_ir.h"

#define NONE UINT32_MAX

enum {
    INLINE_STATES = 16, /* regular rules of at most so many states are not called but copied */
    ITEM_STATES = 300,  /* largest item that a counter may repeat */
    MAX_EXPANSION = 20, /* nesting of copied rules in a rule */
    DFA_CALLS = 200,    /* nesting of calls in gr_dfa_of() */
    WIDE_CLASS = 24,    /* an item with so many ASCII characters is always counted */
    COPIES_AT_MOST = 16 /* other items are copied up to so many times, even if a counter could */
};
#define TOKEN_SYMBOL 0x40000000u /* marks symbols that are tokens, not calls */
#define TOO_LARGE    (1u << 24)  /* size of a rule that is not regular */
#define TOKEN_COST   1000u       /* a token costs more than bytes in a shortest completion */

/* A part that is compiled to one automaton, and called by its number: a rule, a repeated group or
 * a counted repeat. */
struct unit {
    enum { UNIT_RULE, UNIT_GROUP, UNIT_COUNTED } kind;
    uint32_t id; /* of the rule, of the group's expression, of the repeat's expression */
    struct automaton a;
    uint32_t base;  /* first state in the grammar */
    uint32_t alias; /* the unit that it calls and does nothing else, or itself */
};

/* Facts about rules. They are computed by repeated evaluation until none changes. */
struct rule_facts {
    bool reachable, nullable, productive;
    uint32_t size, depth; /* states and nesting if the rule is expanded; TOO_LARGE: not regular */
    uint32_t unit;        /* or NONE */
};

struct compiler {
    struct grammar_builder *b;
    struct dgl_budget *budget;
    struct rule_facts *rules;
    uint8_t *facts;    /* by node: bits of the current evaluation */
    uint32_t *groups;  /* by node: the unit of a repeated group, or NONE */
    uint32_t *counted; /* by node: the unit of a counted repeat, or NONE */
    struct unit *units;
    size_t num_units, cap_units;
    uint32_t *queue; /* working memory: rules or nodes */
    size_t cap_queue;
    uint32_t calls;         /* nesting of expanded calls */
    uint32_t inline_states; /* calls of regular rules up to this size are expanded */
    bool regular;           /* expand everything, as for gr_dfa_of() */
};

static bool compiler_init(struct compiler *c, struct grammar_builder *b)
{
    size_t cap_rules = 0, cap_facts = 0, cap_groups = 0, cap_counted = 0;
    *c = (struct compiler){.b = b, .budget = b->budget, .inline_states = INLINE_STATES};
    if (!dgl_budget_grow(c->budget, (void **)&c->rules, &cap_rules, b->num_rules + 1,
                         sizeof(*c->rules)) ||
        !dgl_budget_grow(c->budget, (void **)&c->facts, &cap_facts, b->num_nodes, 1) ||
        !dgl_budget_grow(c->budget, (void **)&c->groups, &cap_groups, b->num_nodes, 4) ||
        !dgl_budget_grow(c->budget, (void **)&c->counted, &cap_counted, b->num_nodes, 4))
        return false;
    memset(c->rules, 0, (b->num_rules + 1) * sizeof(*c->rules));
    for (size_t r = 0; r < b->num_rules; r++) {
        c->rules[r].unit = NONE;
        c->rules[r].size = TOO_LARGE;
    }
    memset(c->facts, 0, b->num_nodes);
    memset(c->groups, 0xFF, b->num_nodes * 4);
    memset(c->counted, 0xFF, b->num_nodes * 4);
    return true;
}

static void compiler_finish(struct compiler *c)
{
    for (size_t i = 0; i < c->num_units; i++)
        automaton_finish(&c->units[i].a);
    free(c->rules);
    free(c->facts);
    free(c->groups);
    free(c->counted);
    free(c->units);
    free(c->queue);
}

static bool fail_rule(struct compiler *c, uint32_t rule, const char *what)
{
    return dgl_budget_fail(c->budget, DGL_ERR_INVALID_ARG, "rule \"%s\" %s",
                           DGL_PRINTABLE(c->b->rules[rule].name), what);
}

/* --- facts about rules --- */

/* Marks the rules that `rule` calls, directly or not. */
static bool find_reachable(struct compiler *c, uint32_t root)
{
    const struct grammar_builder *b = c->b;
    size_t count = 0;
    if (!dgl_budget_grow(c->budget, (void **)&c->queue, &c->cap_queue, b->num_nodes + 1, 4))
        return false;
    c->rules[root].reachable = true;
    /* The queue has nodes. Each is queued once, when its mark is set. */
    for (uint32_t rule = root; rule != NONE;) {
        if (!b->rules[rule].is_set)
            return fail_rule(c, rule, "is used but has no body");
        if (!c->facts[b->rules[rule].expr]) {
            c->facts[b->rules[rule].expr] = 1;
            c->queue[count++] = b->rules[rule].expr;
        }
        rule = NONE;
        while (count && rule == NONE) {
            const struct gr_node *node = &b->nodes[c->queue[--count]];
            const uint32_t *children = b->children + node->first;
            uint32_t num_children = 0;
            if (!dgl_budget_steps(c->budget, 1 + node->count))
                return false;
            if (node->kind == GR_SEQ || node->kind == GR_ALT)
                num_children = node->count;
            if (node->kind == GR_REPEAT) {
                children = &node->first;
                num_children = 1;
            }
            for (uint32_t i = 0; i < num_children; i++)
                if (!c->facts[children[i]]) {
                    c->facts[children[i]] = 1;
                    c->queue[count++] = children[i];
                }
            if (node->kind == GR_CALL && !c->rules[node->first].reachable) {
                c->rules[node->first].reachable = true;
                rule = node->first;
            }
        }
    }
    return true;
}

/* Bits of c->facts. FACT_KNOWN: the node was evaluated in this round. */
enum { FACT_KNOWN = 1, FACT_NULLABLE = 2, FACT_PRODUCTIVE = 4 };

/* Returns true if the expression matches the empty text (FACT_NULLABLE), or any text
 * (FACT_PRODUCTIVE). */
static bool evaluate(struct compiler *c, uint32_t id, int fact)
{
    const struct gr_node *node = &c->b->nodes[id];
    const uint32_t *children = c->b->children + node->first;
    bool productive = fact == FACT_PRODUCTIVE, value = false;
    if (c->facts[id] & FACT_KNOWN || !dgl_budget_steps(c->budget, 1 + node->count / 4))
        return c->facts[id] & fact;
    switch (node->kind) {
    case GR_NEVER:
        break;
    case GR_EMPTY:
        value = true;
        break;
    case GR_LITERAL:
    case GR_CLASS:
    case GR_TOKEN:
        value = productive;
        break;
    case GR_DFA:
        value = productive || c->b->dfas[node->first].states[0].accept;
        break;
    case GR_SEQ:
        value = true;
        for (uint32_t i = 0; i < node->count; i++)
            value &= evaluate(c, children[i], fact);
        break;
    case GR_ALT:
        for (uint32_t i = 0; i < node->count; i++)
            value |= evaluate(c, children[i], fact);
        break;
    case GR_REPEAT:
        value = evaluate(c, node->first, fact) || node->min == 0;
        break;
    case GR_CALL:
        value = productive ? c->rules[node->first].productive : c->rules[node->first].nullable;
        break;
    }
    c->facts[id] |= (uint8_t)(FACT_KNOWN | (value ? fact : 0));
    return value;
}

/* Evaluates all rules until none changes. Alternates the direction, so that chains of rules in
 * either order need few rounds. The bits of the nodes are then those of the last round. */
static bool find_fact(struct compiler *c, int fact)
{
    size_t n = c->b->num_rules;
    bool changed = true;
    for (size_t round = 0; changed; round++) {
        changed = false;
        if (!dgl_budget_steps(c->budget, dgl_budget_steps_of(c->b->num_nodes)))
            return false;
        for (size_t i = 0; i < c->b->num_nodes; i++)
            c->facts[i] &= (uint8_t) ~(FACT_KNOWN | fact);
        for (size_t i = 0; i < n; i++) {
            struct rule_facts *rule = &c->rules[round % 2 ? i : n - 1 - i];
            bool *known = fact == FACT_PRODUCTIVE ? &rule->productive : &rule->nullable;
            if (!rule->reachable)
                continue;
            bool value = evaluate(c, c->b->rules[rule - c->rules].expr, fact);
            changed |= value && !*known;
            *known = value;
        }
    }
    return c->budget->status == DGL_OK;
}

/* The states and the nesting of an expression if all calls and repeats in it are expanded. */
struct expansion {
    uint32_t size, depth;
};

static struct expansion expansion_of(const struct compiler *c, uint32_t id)
{
    const struct gr_node *node = &c->b->nodes[id];
    struct expansion whole = {node->size, 0};
    if (!dgl_budget_steps(c->budget, 1) || node->has_token || node->size >= ITEM_STATES)
        return (struct expansion){TOO_LARGE, 0};
    if (node->kind == GR_CALL)
        return (struct expansion){c->rules[node->first].size, c->rules[node->first].depth + 1};
    if (node->kind == GR_REPEAT) {
        uint64_t copies = node->max == GR_UNBOUNDED ? (uint64_t)node->min + 1 : node->max;
        struct expansion item = expansion_of(c, node->first);
        uint64_t size = copies * (item.size + 1);
        return (struct expansion){size < TOO_LARGE ? (uint32_t)size : TOO_LARGE, item.depth};
    }
    if (node->kind != GR_SEQ && node->kind != GR_ALT)
        return whole;
    uint64_t size = 0;
    for (uint32_t i = 0; i < node->count && size < TOO_LARGE; i++) {
        struct expansion item = expansion_of(c, c->b->children[node->first + i]);
        size += item.size + 1;
        whole.depth = item.depth > whole.depth ? item.depth : whole.depth;
    }
    whole.size = size < TOO_LARGE ? (uint32_t)size : TOO_LARGE;
    return whole;
}

/* Finds the rules that are regular and small. All others keep the size TOO_LARGE. */
static bool find_sizes(struct compiler *c)
{
    size_t n = c->b->num_rules;
    bool changed = true;
    for (size_t round = 0; changed; round++) {
        changed = false;
        for (size_t i = 0; i < n; i++) {
            struct rule_facts *rule = &c->rules[round % 2 ? i : n - 1 - i];
            if (!rule->reachable || rule->size != TOO_LARGE)
                continue;
            struct expansion whole = expansion_of(c, c->b->rules[rule - c->rules].expr);
            if (c->budget->status != DGL_OK)
                return false;
            if (whole.size <= ITEM_STATES && whole.depth <= MAX_EXPANSION) {
                rule->size = whole.size;
                rule->depth = whole.depth;
                changed = true;
            }
        }
    }
    return true;
}

/* --- expressions to automata --- */

static bool add_expr(struct compiler *c, struct nfa *nfa, uint32_t id, uint32_t from, uint32_t to);

/* Returns a new state, or 0 on failure. */
static uint32_t new_state(struct compiler *c, struct nfa *nfa)
{
    return nfa_add_state(c->budget, nfa);
}

/* Makes the DFA of a class or of another regular expression, and stores its number. */
static bool make_item_dfa(struct compiler *c, uint32_t id, uint32_t *item)
{
    const struct gr_node *node = &c->b->nodes[id];
    struct nfa nfa = {0};
    struct automaton a = {0};
    bool ok = false, too_large, regular = c->regular;
    uint32_t from = new_state(c, &nfa), to = new_state(c, &nfa);
    uint32_t most = node->kind == GR_CLASS ? GR_MAX_DFA_STATES : ITEM_STATES;
    if (c->budget->status != DGL_OK)
        goto done;
    if (node->kind == GR_CLASS) {
        for (uint32_t i = 0; i < node->count; i++)
            if (!nfa_add_range(c->budget, &nfa, from, c->b->ranges[node->first + i], to))
                goto done;
    } else {
        c->regular = true;
        bool added = add_expr(c, &nfa, id, from, to);
        c->regular = regular;
        if (!added)
            goto done;
    }
    if (!nfa_determinize(c->budget, &nfa, from, to, most, &too_large, &a))
        goto done;
    *item = too_large ? ITEM_TOO_LARGE : gr_dfa_add(c->b, &a).id;
    ok = c->budget->status == DGL_OK;
done:
    nfa_finish(&nfa);
    return ok;
}

/* Sets *a to the DFA of a class or of another regular expression. Sets it to NULL if the DFA has
 * more than ITEM_STATES states. The builder keeps these DFAs. */
static bool find_item_dfa(struct compiler *c, uint32_t id, const struct automaton **a)
{
    struct grammar_builder *b = c->b;
    *a = NULL;
    if (!dgl_budget_grow(c->budget, (void **)&b->items, &b->cap_items, b->num_nodes,
                         sizeof(*b->items)))
        return false;
    while (b->num_items < b->num_nodes)
        b->items[b->num_items++] = ITEM_UNKNOWN;
    uint32_t item = b->items[id];
    if (item == ITEM_UNKNOWN && !make_item_dfa(c, id, &item))
        return false;
    b->items[id] = item;
    if (item != ITEM_TOO_LARGE)
        *a = &b->dfas[item];
    return true;
}

/* Returns the state that ends an item, if a counter can repeat the item: its matches are not empty,
 * none is the start of another one, and no way returns to the first state, which will be the place
 * between two items. Returns NONE otherwise. */
static uint32_t find_item_end(const struct automaton *a)
{
    uint32_t end = NONE;
    for (uint32_t s = 0; s < a->num_states; s++)
        if (a->states[s].accept) {
            if (s == 0 || end != NONE || a->states[s].first != a->states[s + 1].first)
                return NONE;
            end = s;
        }
    for (uint32_t e = 0; e < a->num_edges; e++)
        if (a->edges[e].target == 0)
            return NONE;
    return end;
}

/* Decides between a counter and copies. */
static bool is_counted(struct compiler *c, const struct gr_node *node, bool *counted)
{
    const struct automaton *a;
    uint32_t bound = node->max == GR_UNBOUNDED ? node->min : node->max, ascii = 0;
    bool simple = node->max == GR_UNBOUNDED ? node->min == 0 : node->max == 1; /* `*` and `?` */
    *counted = false;
    if (c->regular || simple || expansion_of(c, node->first).size > ITEM_STATES)
        return c->budget->status == DGL_OK;
    if (!find_item_dfa(c, node->first, &a))
        return false;
    if (!a || find_item_end(a) == NONE)
        return true;
    for (uint32_t e = 0; e < a->states[1].first; e++) {
        uint32_t first = label_first(a->edges[e].label), last = label_last(a->edges[e].label);
        if (first < 128)
            ascii += (last < 128 ? last : 127) - first + 1;
    }
    *counted = ascii >= WIDE_CLASS || bound > COPIES_AT_MOST;
    return true;
}

/* Adds a call of the unit of a node, which is made on its first call. */
static bool add_unit_call(struct compiler *c, struct nfa *nfa, int kind, uint32_t id, uint32_t from,
                          uint32_t to)
{
    uint32_t *unit = kind == UNIT_RULE    ? &c->rules[id].unit
                     : kind == UNIT_GROUP ? &c->groups[id]
                                          : &c->counted[id];
    if (*unit == NONE) {
        if (!dgl_budget_grow(c->budget, (void **)&c->units, &c->cap_units, c->num_units + 1,
                             sizeof(*c->units)))
            return false;
        c->units[c->num_units] = (struct unit){.kind = kind, .id = id};
        *unit = (uint32_t)c->num_units++;
    }
    return !nfa || nfa_add_edge(c->budget, nfa, from, LABEL_SYMBOL | *unit, to);
}

/* Adds one copy of a repeated item. A large item is called, not copied. */
static bool add_item(struct compiler *c, struct nfa *nfa, uint32_t id, bool as_group, uint32_t from,
                     uint32_t to)
{
    if (!as_group)
        return add_expr(c, nfa, id, from, to);
    if (!(c->facts[id] & FACT_PRODUCTIVE))
        return true;
    return (!(c->facts[id] & FACT_NULLABLE) ||
            nfa_add_edge(c->budget, nfa, from, NFA_EPSILON, to)) &&
           add_unit_call(c, nfa, UNIT_GROUP, id, from, to);
}

static bool add_repeat(struct compiler *c, struct nfa *nfa, uint32_t id, uint32_t from, uint32_t to)
{
    const struct gr_node *node = &c->b->nodes[id];
    uint32_t size = c->b->nodes[node->first].size;
    uint32_t copies = node->max == GR_UNBOUNDED ? node->min : node->max;
    uint32_t most = c->regular ? GR_MAX_DFA_STATES : GR_MAX_COPIES;
    bool counted;
    if (!is_counted(c, node, &counted))
        return false;
    if (counted)
        return (node->min || nfa_add_edge(c->budget, nfa, from, NFA_EPSILON, to)) &&
               add_unit_call(c, nfa, UNIT_COUNTED, id, from, to);
    if (copies > most)
        return dgl_budget_fail(c->budget, DGL_ERR_INVALID_ARG,
                               "a bounded repeat needs %u copies of a group, at most %u", copies,
                               most);
    bool as_group = !c->regular && copies > 1 && size > 4 && (uint64_t)copies * size > 64;
    /* `from` may have other edges, so the copies begin at a state of their own. */
    uint32_t state = new_state(c, nfa);
    if (c->budget->status != DGL_OK || !nfa_add_edge(c->budget, nfa, from, NFA_EPSILON, state))
        return false;
    for (uint32_t i = 0; i < copies; i++) {
        uint32_t next = new_state(c, nfa);
        if (c->budget->status != DGL_OK ||
            (i >= node->min && !nfa_add_edge(c->budget, nfa, state, NFA_EPSILON, to)) ||
            !add_item(c, nfa, node->first, as_group, state, next))
            return false;
        state = next;
    }
    if (node->max == GR_UNBOUNDED) {
        /* A loop over characters has no calls, so that masks can use a slice for it. */
        uint32_t loop = new_state(c, nfa), before = c->inline_states;
        c->inline_states = ITEM_STATES;
        bool ok = c->budget->status == DGL_OK &&
                  nfa_add_edge(c->budget, nfa, state, NFA_EPSILON, loop) &&
                  add_item(c, nfa, node->first, as_group, loop, loop);
        c->inline_states = before;
        if (!ok)
            return false;
        state = loop;
    }
    return nfa_add_edge(c->budget, nfa, state, NFA_EPSILON, to);
}

static bool add_call(struct compiler *c, struct nfa *nfa, uint32_t rule, uint32_t from, uint32_t to)
{
    struct gr_body *body = &c->b->rules[rule];
    if (!c->regular && c->rules[rule].size > c->inline_states) {
        const struct rule_facts *facts = &c->rules[rule];
        if (!facts->productive)
            return true;
        return (!facts->nullable || nfa_add_edge(c->budget, nfa, from, NFA_EPSILON, to)) &&
               add_unit_call(c, nfa, UNIT_RULE, rule, from, to);
    }
    if (!body->is_set)
        return fail_rule(c, rule, "is used but has no body");
    if (body->open)
        return fail_rule(c, rule, "is recursive, so it cannot be part of a regular expression");
    if (c->calls >= DFA_CALLS)
        return fail_rule(c, rule, "is nested too deep in other rules for a regular expression");
    body->open = true;
    c->calls++;
    bool ok = add_expr(c, nfa, body->expr, from, to);
    c->calls--;
    body->open = false;
    return ok;
}

/* Adds the paths of an expression between two states. */
static bool add_expr(struct compiler *c, struct nfa *nfa, uint32_t id, uint32_t from, uint32_t to)
{
    const struct gr_node *node = &c->b->nodes[id];
    const uint32_t *children = c->b->children + node->first;
    const struct automaton *a;
    switch (node->kind) {
    case GR_NEVER:
        return true;
    case GR_EMPTY:
        return nfa_add_edge(c->budget, nfa, from, NFA_EPSILON, to);
    case GR_LITERAL:
        for (uint32_t i = 0; i < node->count; i++) {
            uint8_t byte = (uint8_t)c->b->bytes.p[node->first + i];
            uint32_t next = i + 1 < node->count ? new_state(c, nfa) : to;
            if (c->budget->status != DGL_OK ||
                !nfa_add_edge(c->budget, nfa, from, LABEL_BYTES(byte, byte), next))
                return false;
            from = next;
        }
        return true;
    case GR_CLASS:
        if (node->count == 1)
            return nfa_add_range(c->budget, nfa, from, c->b->ranges[node->first], to);
        return find_item_dfa(c, id, &a) && nfa_add_automaton(c->budget, nfa, from, a, to);
    case GR_TOKEN:
        if (c->regular)
            return dgl_budget_fail(c->budget, DGL_ERR_INVALID_ARG,
                                   "a regular expression cannot contain a token");
        return nfa_add_edge(c->budget, nfa, from, LABEL_SYMBOL | TOKEN_SYMBOL | node->first, to);
    case GR_SEQ:
        for (uint32_t i = 0; i < node->count; i++) {
            uint32_t next = i + 1 < node->count ? new_state(c, nfa) : to;
            if (c->budget->status != DGL_OK || !add_expr(c, nfa, children[i], from, next))
                return false;
            from = next;
        }
        return true;
    case GR_ALT:
        for (uint32_t i = 0; i < node->count; i++)
            if (!add_expr(c, nfa, children[i], from, to))
                return false;
        return true;
    case GR_REPEAT:
        return add_repeat(c, nfa, id, from, to);
    case GR_CALL:
        return add_call(c, nfa, node->first, from, to);
    case GR_DFA:
        return nfa_add_automaton(c->budget, nfa, from, &c->b->dfas[node->first], to);
    }
    return true;
}

struct gr_dfa gr_dfa_of(struct grammar_builder *b, struct gr_expr expr)
{
    struct gr_dfa result = {0};
    /* Expanding needs no facts about rules. */
    struct compiler c = {.b = b, .budget = b->budget, .regular = true};
    struct nfa nfa = {0};
    struct automaton a = {0};
    bool too_large;
    if (b->budget->status != DGL_OK)
        return result;
    uint32_t from = new_state(&c, &nfa), to = new_state(&c, &nfa);
    if (b->budget->status != DGL_OK || !add_expr(&c, &nfa, expr.id, from, to) ||
        !nfa_determinize(b->budget, &nfa, from, to, GR_MAX_DFA_STATES, &too_large, &a))
        goto done;
    if (too_large)
        gr_dfa_fail_size(b);
    else
        result = gr_dfa_add(b, &a);
done:
    nfa_finish(&nfa);
    return result;
}

/* --- units --- */

/* Compiles a unit. Compiling may append others to the list. */
static bool compile_unit(struct compiler *c, uint32_t index)
{
    bool ok = false, too_large = false;
    struct unit unit = c->units[index];
    struct nfa nfa = {0};
    const struct automaton *item;
    if (unit.kind == UNIT_COUNTED) {
        if (!find_item_dfa(c, c->b->nodes[unit.id].first, &item))
            return false;
        uint32_t from = new_state(c, &nfa), to = new_state(c, &nfa);
        ok = c->budget->status == DGL_OK && nfa_add_automaton(c->budget, &nfa, from, item, to) &&
             nfa_determinize(c->budget, &nfa, from, to, GR_MAX_DFA_STATES, &too_large, &unit.a);
    } else {
        uint32_t from = new_state(c, &nfa), to = new_state(c, &nfa);
        uint32_t body = unit.kind == UNIT_RULE ? c->b->rules[unit.id].expr : unit.id;
        if (c->budget->status != DGL_OK || !add_expr(c, &nfa, body, from, to))
            goto done;
        /* An automaton that grows beyond several times the rule is better left as it is. */
        ok = nfa_determinize(c->budget, &nfa, from, to, 1000 + 4 * (uint32_t)nfa.num_states,
                             &too_large, &unit.a);
        if (ok && too_large)
            ok = nfa_remove_epsilon(c->budget, &nfa, from, to, &unit.a);
    }
    c->units[index].a = unit.a;
done:
    nfa_finish(&nfa);
    return ok;
}

static bool compile_units(struct compiler *c, uint32_t root)
{
    uint64_t total = 0;
    if (!add_unit_call(c, NULL, UNIT_RULE, root, 0, 0))
        return false;
    for (uint32_t i = 0; i < c->num_units; i++) {
        if (!compile_unit(c, i))
            return false;
        c->units[i].base = (uint32_t)total;
        total += c->units[i].a.num_states;
        if (total > GR_MAX_STATES)
            return dgl_budget_fail(c->budget, DGL_ERR_INVALID_ARG,
                                   "the grammar has more than %u states; use fewer rules or "
                                   "smaller bounded repeats",
                                   GR_MAX_STATES);
    }
    return true;
}

static bool is_call(uint32_t label)
{
    return !label_is_bytes(label) && !(label & TOKEN_SYMBOL);
}

static uint32_t called_unit(uint32_t label)
{
    return label & ~LABEL_SYMBOL;
}

/* Refuses rules that may call themselves before they read a byte. Walks the graph of first calls
 * by depth. */
static bool check_left_recursion(struct compiler *c)
{
    enum { NEW, OPEN, CLOSED };
    bool ok = false;
    size_t cap_color = 0, cap_path = 0, cap_edge = 0, depth;
    uint8_t *color = NULL;
    uint32_t *path = NULL, *edge = NULL; /* open units, and the next edge of each */
    if (!dgl_budget_grow(c->budget, (void **)&color, &cap_color, c->num_units, 1) ||
        !dgl_budget_grow(c->budget, (void **)&path, &cap_path, c->num_units, 4) ||
        !dgl_budget_grow(c->budget, (void **)&edge, &cap_edge, c->num_units, 4))
        goto done;
    memset(color, NEW, c->num_units);
    for (uint32_t start = 0; start < c->num_units; start++) {
        if (color[start] != NEW)
            continue;
        depth = 1;
        path[0] = start;
        edge[0] = 0;
        color[start] = OPEN;
        while (depth) {
            const struct automaton *a = &c->units[path[depth - 1]].a;
            uint32_t e = edge[depth - 1]++;
            if (e >= a->states[1].first) {
                color[path[--depth]] = CLOSED;
                continue;
            }
            if (!dgl_budget_steps(c->budget, 1))
                goto done;
            if (!is_call(a->edges[e].label))
                continue;
            uint32_t callee = called_unit(a->edges[e].label);
            if (color[callee] == OPEN) {
                /* The cycle is the end of the path. It has a rule, as groups are inside rules. */
                size_t at = depth - 1;
                while (c->units[path[at]].kind != UNIT_RULE)
                    at--;
                fail_rule(c, c->units[path[at]].id,
                          "is left-recursive: it may call itself before it reads a character");
                goto done;
            }
            if (color[callee] == NEW) {
                color[callee] = OPEN;
                path[depth] = callee;
                edge[depth++] = 0;
            }
        }
    }
    ok = true;
done:
    free(color);
    free(path);
    free(edge);
    return ok;
}

/* Returns true if a unit reads one call and nothing else. */
static bool is_unit_rule(const struct unit *unit)
{
    const struct automaton *a = &unit->a;
    return unit->kind != UNIT_COUNTED && a->num_states == 2 && a->num_edges == 1 &&
           !a->states[0].accept && is_call(a->edges[0].label);
}

/* Follows unit rules to the rules that they call. Such chains end: no rule is left-recursive. */
static void find_aliases(struct compiler *c)
{
    for (size_t i = 0; i < c->num_units; i++)
        c->units[i].alias = NONE;
    for (size_t i = 0; i < c->num_units; i++) {
        uint32_t end = (uint32_t)i, next;
        while (c->units[end].alias == NONE && is_unit_rule(&c->units[end]))
            end = called_unit(c->units[end].a.edges[0].label);
        if (c->units[end].alias != NONE)
            end = c->units[end].alias;
        for (uint32_t at = (uint32_t)i; c->units[at].alias == NONE; at = next) {
            next = at == end ? end : called_unit(c->units[at].a.edges[0].label);
            c->units[at].alias = end;
        }
    }
}

/* --- the compiled form --- */

/* Counts what the grammar will have, and allocates it. */
static bool allocate(struct compiler *c, struct grammar *g)
{
    g->num_counters = 1;
    for (size_t i = 0; i < c->num_units; i++) {
        const struct unit *unit = &c->units[i];
        g->num_states += unit->a.num_states;
        g->num_counters += unit->kind == UNIT_COUNTED;
        for (uint32_t e = 0; e < unit->a.num_edges; e++) {
            uint32_t label = unit->a.edges[e].label;
            g->num_bytes += label_is_bytes(label);
            g->num_calls += is_call(label);
        }
        g->num_tokens += unit->a.num_edges;
    }
    g->num_tokens -= g->num_bytes + g->num_calls;
    g->states = dgl_new_array(struct gr_state, (size_t)g->num_states + 1);
    g->bytes = dgl_new_array(struct gr_byte_edge, g->num_bytes);
    g->calls = dgl_new_array(struct gr_call_edge, g->num_calls);
    g->tokens = dgl_new_array(struct gr_token_edge, g->num_tokens);
    g->counters = dgl_new_array(struct gr_counter, g->num_counters);
    if (!g->states || !g->bytes || !g->calls || !g->tokens || !g->counters)
        return dgl_budget_fail_memory(c->budget, grammar_bytes(g));
    return dgl_budget_steps(c->budget, g->num_states) &&
           dgl_budget_bytes(c->budget, grammar_bytes(g));
}

/* Copies the automata. Edges that complete an item of a counted repeat return to its first state.
 */
static void write_states(const struct compiler *c, struct grammar *g)
{
    uint32_t state = 0, byte = 0, call = 0, token = 0, counter = 0;
    for (size_t i = 0; i < c->num_units; i++) {
        const struct unit *unit = &c->units[i];
        const struct automaton *a = &unit->a;
        uint32_t end = NONE;
        if (unit->kind == UNIT_COUNTED) {
            const struct gr_node *node = &c->b->nodes[unit->id];
            end = find_item_end(a);
            g->counters[++counter] = (struct gr_counter){.min = node->min, .max = node->max};
        }
        for (uint32_t s = 0; s < a->num_states; s++) {
            g->states[state++] = (struct gr_state){
                .first_byte = byte,
                .first_call = call,
                .first_token = token,
                .counter = end == NONE ? 0 : counter,
                .accept = end == NONE ? a->states[s].accept : s == 0,
            };
            for (uint32_t e = a->states[s].first; e < a->states[s + 1].first; e++) {
                uint32_t label = a->edges[e].label, to = a->edges[e].target;
                bool counts = to == end,
                     ends = a->states[to].accept && a->states[to].first == a->states[to + 1].first;
                uint32_t target = unit->base + (counts ? 0 : to);
                if (label_is_bytes(label)) {
                    g->bytes[byte++] = (struct gr_byte_edge){
                        (uint8_t)label_first(label), (uint8_t)label_last(label), counts, target};
                } else if (is_call(label)) {
                    const struct unit *callee = &c->units[c->units[called_unit(label)].alias];
                    g->calls[call++] = (struct gr_call_edge){callee->base, ends ? GR_TAIL : target};
                } else {
                    struct gr_token_terminal terminal =
                        c->b->tokens[label & ~(LABEL_SYMBOL | TOKEN_SYMBOL)];
                    g->tokens[token++] =
                        (struct gr_token_edge){terminal.id, terminal.negated, target};
                }
            }
        }
    }
    g->states[state] =
        (struct gr_state){.first_byte = byte, .first_call = call, .first_token = token};
}

/* Finds the least cost from each state to the end of its rule, by relaxing until none changes.
 * States are in the order of a walk from the start of a rule, so most costs are found from the last
 * state to the first. */
static bool find_costs(struct dgl_budget *budget, struct grammar *g)
{
    bool changed = true;
    for (uint32_t s = 0; s < g->num_states; s++)
        g->states[s].cost = g->states[s].accept ? 0 : GR_COST_MOST;
    for (uint32_t i = 0; i < g->num_counters; i++)
        g->counters[i].item_cost = GR_COST_MOST;
    while (changed) {
        changed = false;
        if (!dgl_budget_steps(budget, g->num_states + g->num_bytes / 4 + g->num_calls))
            return false;
        for (uint32_t s = g->num_states; s-- > 0;) {
            struct gr_state *state = &g->states[s];
            uint32_t least = GR_COST_MOST;
            for (uint32_t e = state->first_byte; e < state[1].first_byte; e++) {
                uint32_t cost = g->bytes[e].counts ? 1 : 1 + g->states[g->bytes[e].target].cost;
                least = cost < least ? cost : least;
            }
            for (uint32_t e = state->first_call; e < state[1].first_call; e++) {
                uint32_t cost = grammar_entry_cost(g, g->calls[e].entry);
                if (g->calls[e].ret != GR_TAIL)
                    cost += g->states[g->calls[e].ret].cost;
                least = cost < least ? cost : least;
            }
            for (uint32_t e = state->first_token; e < state[1].first_token; e++) {
                uint32_t cost = TOKEN_COST + g->states[g->tokens[e].target].cost;
                least = cost < least ? cost : least;
            }
            uint32_t *cost = state->counter && state->accept
                                 ? &g->counters[state->counter].item_cost
                                 : &state->cost;
            if (least < *cost) {
                *cost = least;
                changed = true;
            }
        }
    }
    return true;
}

enum dgl_status grammar_compile(struct grammar_builder *b, struct gr_rule root,
                                struct grammar **out)
{
    struct compiler c = {0};
    struct grammar *g = NULL;
    *out = NULL;
    if (b->budget->status != DGL_OK || !compiler_init(&c, b) || !find_reachable(&c, root.id) ||
        !find_fact(&c, FACT_PRODUCTIVE))
        goto done;
    if (!c.rules[root.id].productive) {
        fail_rule(&c, root.id, "matches no text: no way through it ends");
        goto done;
    }
    if (!find_fact(&c, FACT_NULLABLE) || !find_sizes(&c) || !compile_units(&c, root.id) ||
        !check_left_recursion(&c))
        goto done;
    find_aliases(&c);
    g = dgl_new(struct grammar);
    if (!g) {
        dgl_budget_fail_memory(b->budget, sizeof(*g));
        goto done;
    }
    atomic_init(&g->refs, 1);
    if (!allocate(&c, g))
        goto done;
    write_states(&c, g);
    g->root = c.units[c.units[0].alias].base;
    find_costs(b->budget, g);
done:
    compiler_finish(&c);
    if (b->budget->status != DGL_OK)
        grammar_unref(&g);
    *out = g;
    return b->budget->status;
}

struct grammar *grammar_ref(struct grammar *grammar)
{
    atomic_fetch_add(&grammar->refs, 1);
    return grammar;
}

void grammar_unref(struct grammar **grammar)
{
    struct grammar *g = *grammar;
    *grammar = NULL;
    if (!g || atomic_fetch_sub(&g->refs, 1) != 1)
        return;
    free(g->states);
    free(g->bytes);
    free(g->calls);
    free(g->tokens);
    free(g->counters);
    free(g);
}

size_t grammar_bytes(const struct grammar *g)
{
    return sizeof(*g) + ((size_t)g->num_states + 1) * sizeof(*g->states) +
           g->num_bytes * sizeof(*g->bytes) + g->num_calls * sizeof(*g->calls) +
           g->num_tokens * sizeof(*g->tokens) + g->num_counters * sizeof(*g->counters);
}
