/* Finite automata over bytes: subset construction, minimisation, products. */
#include "loader/grammar/byte_dfa.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

#define NONE UINT32_MAX

void automaton_finish(struct automaton *a)
{
    free(a->states);
    free(a->edges);
    *a = (struct automaton){0};
}

size_t automaton_bytes(const struct automaton *a)
{
    return (a->num_states + 1) * sizeof(*a->states) + a->num_edges * sizeof(*a->edges);
}

/* --- nondeterministic automata --- */

uint32_t nfa_add_state(struct dgl_budget *budget, struct nfa *nfa)
{
    if (nfa->num_states >= GR_MAX_STATES) {
        dgl_budget_fail(budget, DGL_ERR_INVALID_ARG,
                        "a rule has more than %u states after "
                        "expansion; use fewer or smaller bounded repeats",
                        GR_MAX_STATES);
        return 0;
    }
    if (!dgl_budget_steps(budget, 1) ||
        !dgl_budget_grow(budget, (void **)&nfa->first, &nfa->cap_states, nfa->num_states + 1,
                         sizeof(*nfa->first)))
        return 0;
    nfa->first[nfa->num_states] = NONE;
    return (uint32_t)nfa->num_states++;
}

bool nfa_add_edge(struct dgl_budget *budget, struct nfa *nfa, uint32_t from, uint32_t label,
                  uint32_t to)
{
    if (!dgl_budget_steps(budget, 1) ||
        !dgl_budget_grow(budget, (void **)&nfa->edges, &nfa->cap_edges, nfa->num_edges + 1,
                         sizeof(*nfa->edges)))
        return false;
    nfa->edges[nfa->num_edges] = (struct nfa_edge){label, to, nfa->first[from]};
    nfa->first[from] = (uint32_t)nfa->num_edges++;
    return true;
}

/* Adds a path of one edge per byte. */
static bool add_byte_path(struct dgl_budget *budget, struct nfa *nfa, uint32_t from,
                          const uint32_t *labels, size_t count, uint32_t to)
{
    for (size_t i = 0; i + 1 < count; i++) {
        uint32_t next = nfa_add_state(budget, nfa);
        if (budget->status != DGL_OK || !nfa_add_edge(budget, nfa, from, labels[i], next))
            return false;
        from = next;
    }
    return nfa_add_edge(budget, nfa, from, labels[count - 1], to);
}

/* Splits the range until the encodings of each part are a product of byte ranges. */
bool nfa_add_range(struct dgl_budget *budget, struct nfa *nfa, uint32_t from,
                   struct gr_cp_range range, uint32_t to)
{
    static const uint32_t ends[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF, 0x10FFFF};
    static const uint8_t sizes[] = {1, 2, 3, 0, 3, 4};
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    uint32_t first = range.first;
    while (first <= range.last && first <= ends[5]) {
        size_t form = 0;
        while (first > ends[form])
            form++;
        uint32_t last = range.last < ends[form] ? range.last : ends[form];
        size_t size = sizes[form];
        /* Shorten the part until its trailing bytes are free, or its leading ones fixed. */
        for (size_t i = 1; i < size; i++) {
            uint32_t mask = (1u << 6 * i) - 1;
            if ((first & ~mask) == (last & ~mask))
                break;
            if (first & mask) {
                last = first | mask;
                break;
            }
            if ((last & mask) != mask)
                last = (last & ~mask) - 1;
        }
        uint32_t labels[4];
        for (size_t i = 0; i < size; i++) {
            size_t shift = 6 * (size - 1 - i);
            uint32_t mark = i ? 0x80 : leads[size], bits = i ? 0x3F : 0x7F;
            labels[i] = LABEL_BYTES(mark | (first >> shift & bits), mark | (last >> shift & bits));
        }
        if (size && !add_byte_path(budget, nfa, from, labels, size, to))
            return false;
        first = last + 1;
    }
    return true;
}

bool nfa_add_automaton(struct dgl_budget *budget, struct nfa *nfa, uint32_t from,
                       const struct automaton *a, uint32_t to)
{
    /* All states are new, because the start of the copy may have incoming edges. */
    uint32_t base = (uint32_t)nfa->num_states;
    for (uint32_t s = 0; s < a->num_states; s++)
        nfa_add_state(budget, nfa);
    if (budget->status != DGL_OK || !nfa_add_edge(budget, nfa, from, NFA_EPSILON, base))
        return false;
    for (uint32_t s = 0; s < a->num_states; s++) {
        for (uint32_t e = a->states[s].first; e < a->states[s + 1].first; e++)
            if (!nfa_add_edge(budget, nfa, base + s, a->edges[e].label, base + a->edges[e].target))
                return false;
        if (a->states[s].accept && !nfa_add_edge(budget, nfa, base + s, NFA_EPSILON, to))
            return false;
    }
    return true;
}

void nfa_finish(struct nfa *nfa)
{
    free(nfa->first);
    free(nfa->edges);
    *nfa = (struct nfa){0};
}

/* --- an automaton in the making --- */

struct maker {
    struct dgl_budget *budget;
    struct automaton a;
    size_t cap_states, cap_edges;
};

/* Appends a state. Its edges follow by add_edge(). The list of edges exists even if it is empty. */
static bool add_state(struct maker *m, bool accept)
{
    if (!dgl_budget_grow(m->budget, (void **)&m->a.states, &m->cap_states,
                         (size_t)m->a.num_states + 2, sizeof(*m->a.states)) ||
        !dgl_budget_grow(m->budget, (void **)&m->a.edges, &m->cap_edges, 1, sizeof(*m->a.edges)))
        return false;
    m->a.states[m->a.num_states++] = (struct fa_state){m->a.num_edges, accept};
    m->a.states[m->a.num_states] = (struct fa_state){m->a.num_edges, false};
    return true;
}

/* Appends an edge to the last state. Joins neighbouring ranges with one target. */
static bool add_edge(struct maker *m, uint32_t label, uint32_t target)
{
    struct fa_edge *last = m->a.num_edges ? &m->a.edges[m->a.num_edges - 1] : NULL;
    if (last && m->a.num_edges > m->a.states[m->a.num_states - 1].first && label_is_bytes(label) &&
        label_is_bytes(last->label) && last->target == target &&
        label_last(last->label) + 1 == label_first(label)) {
        last->label = LABEL_BYTES(label_first(last->label), label_last(label));
        return true;
    }
    if (!dgl_budget_steps(m->budget, 1) ||
        !dgl_budget_grow(m->budget, (void **)&m->a.edges, &m->cap_edges, (size_t)m->a.num_edges + 1,
                         sizeof(*m->a.edges)))
        return false;
    m->a.edges[m->a.num_edges++] = (struct fa_edge){label, target};
    m->a.states[m->a.num_states].first = m->a.num_edges;
    return true;
}

/* --- minimisation: A. Valmari, Fast brief practical DFA minimization (2012) --- */

/* A partition of 0..n-1 into sets that can only be split. */
struct partition {
    uint32_t *elements; /* grouped by set */
    uint32_t *place;    /* of an element in `elements` */
    uint32_t *set;      /* of an element */
    uint32_t *first, *past, *marked;
    uint32_t *touched; /* sets with marked elements */
    uint32_t num_sets, num_touched;
};

static bool partition_init(struct dgl_budget *budget, struct partition *p, uint32_t n)
{
    uint32_t **fields[] = {&p->elements, &p->place,  &p->set,    &p->first,
                           &p->past,     &p->marked, &p->touched};
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        size_t cap = 0;
        *fields[i] = NULL;
        if (!dgl_budget_grow(budget, (void **)fields[i], &cap, (size_t)n + 1, sizeof(uint32_t)))
            return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        p->elements[i] = p->place[i] = i;
        p->set[i] = 0;
    }
    p->first[0] = p->marked[0] = 0;
    p->past[0] = n;
    p->num_sets = n > 0;
    p->num_touched = 0;
    return true;
}

static void partition_finish(struct partition *p)
{
    free(p->elements);
    free(p->place);
    free(p->set);
    free(p->first);
    free(p->past);
    free(p->marked);
    free(p->touched);
}

/* Moves an element to the marked front of its set. */
static void partition_mark(struct partition *p, uint32_t element)
{
    uint32_t set = p->set[element], from = p->place[element], to = p->first[set] + p->marked[set];
    if (from < to)
        return; /* marked already */
    p->elements[from] = p->elements[to];
    p->place[p->elements[from]] = from;
    p->elements[to] = element;
    p->place[element] = to;
    if (!p->marked[set]++)
        p->touched[p->num_touched++] = set;
}

/* Splits each touched set into its marked and unmarked elements. The smaller part becomes a new
 * set. */
static void partition_split(struct partition *p)
{
    while (p->num_touched) {
        uint32_t set = p->touched[--p->num_touched];
        uint32_t middle = p->first[set] + p->marked[set], made = p->num_sets;
        if (middle == p->past[set]) {
            p->marked[set] = 0;
            continue;
        }
        if (p->marked[set] <= p->past[set] - middle) {
            p->first[made] = p->first[set];
            p->past[made] = p->first[set] = middle;
        } else {
            p->past[made] = p->past[set];
            p->first[made] = p->past[set] = middle;
        }
        for (uint32_t i = p->first[made]; i < p->past[made]; i++)
            p->set[p->elements[i]] = made;
        p->marked[set] = p->marked[made] = 0;
        p->num_sets++;
    }
}

/* An edge of one letter. Byte ranges are cut so that two letters are equal or disjoint. */
struct letter_edge {
    uint32_t letter, tail, head;
};

static int compare_letters(const void *a, const void *b)
{
    const struct letter_edge *left = a, *right = b;
    return left->letter < right->letter ? -1 : left->letter > right->letter;
}

/* Returns the edges with their ranges cut at every place where some range begins or ends. `live`
 * selects the states to keep. */
static struct letter_edge *cut_edges(struct dgl_budget *budget, const struct automaton *a,
                                     const bool *live, size_t *count)
{
    bool cut[257] = {true};
    struct letter_edge *list = NULL;
    size_t cap = 0;
    *count = 0;
    for (uint32_t e = 0; e < a->num_edges; e++)
        if (label_is_bytes(a->edges[e].label)) {
            cut[label_first(a->edges[e].label)] = true;
            cut[label_last(a->edges[e].label) + 1] = true;
        }
    cut[256] = true;
    for (uint32_t s = 0; s < a->num_states; s++)
        for (uint32_t e = a->states[s].first; live[s] && e < a->states[s + 1].first; e++) {
            struct fa_edge edge = a->edges[e];
            if (!live[edge.target])
                continue;
            uint32_t at = label_is_bytes(edge.label) ? label_first(edge.label) : 0;
            uint32_t last = label_is_bytes(edge.label) ? label_last(edge.label) : 0;
            while (at <= last) {
                uint32_t end = at;
                while (!cut[end + 1])
                    end++;
                uint32_t letter = label_is_bytes(edge.label) ? LABEL_BYTES(at, end) : edge.label;
                if (!dgl_budget_steps(budget, 2) ||
                    !dgl_budget_grow(budget, (void **)&list, &cap, *count + 1, sizeof(*list))) {
                    free(list);
                    return NULL;
                }
                list[(*count)++] = (struct letter_edge){letter, s, edge.target};
                at = end + 1;
            }
        }
    if (!list && !dgl_budget_grow(budget, (void **)&list, &cap, 1, sizeof(*list)))
        return NULL;
    qsort(list, *count, sizeof(*list), compare_letters);
    return list;
}

/* Sets live[s] for each state that reaches an accepting state. Works for any automaton. */
static bool find_live(struct dgl_budget *budget, const struct automaton *a, bool *live)
{
    bool ok = false;
    size_t cap_first = 0, cap_from = 0, cap_queue = 0, tail = 0;
    uint32_t *first = NULL, *from = NULL, *queue = NULL;
    if (!dgl_budget_grow(budget, (void **)&first, &cap_first, (size_t)a->num_states + 2, 4) ||
        !dgl_budget_grow(budget, (void **)&from, &cap_from, (size_t)a->num_edges + 1, 4) ||
        !dgl_budget_grow(budget, (void **)&queue, &cap_queue, (size_t)a->num_states + 1, 4) ||
        !dgl_budget_steps(budget, a->num_edges + a->num_states))
        goto done;
    memset(first, 0, ((size_t)a->num_states + 2) * 4);
    for (uint32_t e = 0; e < a->num_edges; e++)
        first[a->edges[e].target + 2]++;
    for (uint32_t s = 0; s < a->num_states; s++)
        first[s + 2] += first[s + 1];
    for (uint32_t s = 0; s < a->num_states; s++) {
        for (uint32_t e = a->states[s].first; e < a->states[s + 1].first; e++)
            from[first[a->edges[e].target + 1]++] = s;
        live[s] = a->states[s].accept;
        if (live[s])
            queue[tail++] = s;
    }
    for (size_t head = 0; head < tail; head++)
        for (uint32_t i = first[queue[head]]; i < first[queue[head] + 1]; i++)
            if (!live[from[i]]) {
                live[from[i]] = true;
                queue[tail++] = from[i];
            }
    ok = true;
done:
    free(first);
    free(from);
    free(queue);
    return ok;
}

/* Splits the states into sets of equal behaviour. `edges` are sorted by letter. */
static bool refine(struct dgl_budget *budget, const struct automaton *a,
                   const struct letter_edge *edges, size_t num_edges, struct partition *blocks)
{
    bool ok = false;
    struct partition cords = {0};
    size_t cap_first = 0, cap_into = 0;
    uint32_t *first = NULL, *into = NULL; /* edges by head */
    uint32_t m = (uint32_t)num_edges;
    if (!partition_init(budget, blocks, a->num_states) || !partition_init(budget, &cords, m) ||
        !dgl_budget_grow(budget, (void **)&first, &cap_first, (size_t)a->num_states + 2, 4) ||
        !dgl_budget_grow(budget, (void **)&into, &cap_into, num_edges + 1, 4))
        goto done;
    for (uint32_t s = 0; s < a->num_states; s++)
        if (a->states[s].accept)
            partition_mark(blocks, s);
    partition_split(blocks);
    /* The first sets of edges: one per letter. */
    cords.num_sets = 0;
    for (uint32_t i = 0; i < m; i++) {
        if (i == 0 || edges[i].letter != edges[i - 1].letter) {
            if (i)
                cords.past[cords.num_sets - 1] = i;
            cords.first[cords.num_sets] = i;
            cords.marked[cords.num_sets++] = 0;
        }
        cords.set[i] = cords.num_sets - 1;
    }
    if (m)
        cords.past[cords.num_sets - 1] = m;
    memset(first, 0, ((size_t)a->num_states + 2) * 4);
    for (uint32_t i = 0; i < m; i++)
        first[edges[i].head + 2]++;
    for (uint32_t s = 0; s < a->num_states; s++)
        first[s + 2] += first[s + 1];
    for (uint32_t i = 0; i < m; i++)
        into[first[edges[i].head + 1]++] = i;
    uint32_t block = 1;
    for (uint32_t cord = 0; cord < cords.num_sets; cord++) {
        if (!dgl_budget_steps(budget, cords.past[cord] - cords.first[cord]))
            goto done;
        for (uint32_t i = cords.first[cord]; i < cords.past[cord]; i++)
            partition_mark(blocks, edges[cords.elements[i]].tail);
        partition_split(blocks);
        for (; block < blocks->num_sets; block++) {
            for (uint32_t i = blocks->first[block]; i < blocks->past[block]; i++) {
                uint32_t state = blocks->elements[i];
                if (!dgl_budget_steps(budget, 1 + first[state + 1] - first[state]))
                    goto done;
                for (uint32_t j = first[state]; j < first[state + 1]; j++)
                    partition_mark(&cords, into[j]);
            }
            partition_split(&cords);
        }
    }
    ok = true;
done:
    partition_finish(&cords);
    free(first);
    free(into);
    return ok;
}

/* Writes the automaton of the sets, numbered in the order of a walk by breadth from the start. So
 * equal languages have equal automata. */
static bool write_quotient(struct maker *out, const struct automaton *a, const bool *live,
                           const struct partition *blocks)
{
    bool ok = false;
    size_t cap_number = 0, cap_order = 0, count = 0;
    uint32_t *number = NULL, *order = NULL; /* by set; states in the new order */
    struct dgl_budget *budget = out->budget;
    if (!dgl_budget_grow(budget, (void **)&number, &cap_number, (size_t)blocks->num_sets + 1, 4) ||
        !dgl_budget_grow(budget, (void **)&order, &cap_order, (size_t)blocks->num_sets + 1, 4))
        goto done;
    memset(number, 0xFF, ((size_t)blocks->num_sets + 1) * 4);
    number[blocks->set[0]] = 0;
    order[count++] = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t s = order[i];
        if (!add_state(out, a->states[s].accept))
            goto done;
        for (uint32_t e = a->states[s].first; e < a->states[s + 1].first; e++) {
            uint32_t target = a->edges[e].target;
            if (!live[target])
                continue;
            uint32_t *to = &number[blocks->set[target]];
            if (*to == NONE) {
                *to = (uint32_t)count;
                order[count++] = target;
            }
            if (!add_edge(out, a->edges[e].label, *to))
                goto done;
        }
    }
    ok = true;
done:
    free(number);
    free(order);
    return ok;
}

/* Replaces a deterministic automaton by the minimal one of its language. */
static bool minimize(struct dgl_budget *budget, struct automaton *a)
{
    bool ok = false;
    struct maker out = {.budget = budget};
    struct partition blocks = {0};
    struct letter_edge *edges = NULL;
    size_t num_edges = 0, cap_live = 0;
    bool *live = NULL;
    if (!dgl_budget_grow(budget, (void **)&live, &cap_live, (size_t)a->num_states + 1, 1) ||
        !find_live(budget, a, live))
        goto done;
    if (!live[0]) {
        ok = add_state(&out, false);
        goto done;
    }
    edges = cut_edges(budget, a, live, &num_edges);
    ok = edges && refine(budget, a, edges, num_edges, &blocks) &&
         write_quotient(&out, a, live, &blocks);
done:
    automaton_finish(a);
    if (ok) {
        *a = out.a;
        a->deterministic = true;
    } else {
        automaton_finish(&out.a);
    }
    partition_finish(&blocks);
    free(edges);
    free(live);
    return ok;
}

/* --- subset construction --- */

/* Sets of states of an NFA, numbered. Each is sorted, and closed under empty edges. Members without
 * other edges are left out, except the accepting state. */
struct subsets {
    struct dgl_budget *budget;
    const struct nfa *nfa;
    uint32_t accept;
    uint32_t *pool; /* members of all sets */
    size_t pool_len, pool_cap;
    size_t *start; /* by set; [count + 1] */
    size_t count, cap_start;
    uint32_t *table; /* open addressing; set number + 1 */
    size_t num_slots;
    uint32_t *stamp; /* by state of the NFA: the last closure that visited it */
    uint32_t now;
    uint32_t *work; /* states to visit */
    size_t cap_work;
};

static int compare_u32(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* Most closures are found in order, or in the opposite order. */
static void sort_members(uint32_t *members, size_t count)
{
    size_t ascending = 1, descending = 1;
    while (ascending < count && members[ascending - 1] < members[ascending])
        ascending++;
    while (descending < count && members[descending - 1] > members[descending])
        descending++;
    if (ascending >= count)
        return;
    if (descending < count) {
        qsort(members, count, sizeof(*members), compare_u32);
        return;
    }
    for (size_t i = 0; i < count / 2; i++) {
        uint32_t swap = members[i];
        members[i] = members[count - 1 - i];
        members[count - 1 - i] = swap;
    }
}

static bool subsets_init(struct subsets *sets, struct dgl_budget *budget, const struct nfa *nfa,
                         uint32_t accept)
{
    size_t cap = 0;
    *sets = (struct subsets){.budget = budget, .nfa = nfa, .accept = accept, .num_slots = 64};
    if (!dgl_budget_grow(budget, (void **)&sets->stamp, &cap, nfa->num_states + 1, 4))
        return false;
    memset(sets->stamp, 0, (nfa->num_states + 1) * 4);
    cap = 0;
    if (!dgl_budget_grow(budget, (void **)&sets->table, &cap, sets->num_slots, 4))
        return false;
    memset(sets->table, 0, sets->num_slots * 4);
    if (!dgl_budget_grow(budget, (void **)&sets->pool, &sets->pool_cap, 1, 4) ||
        !dgl_budget_grow(budget, (void **)&sets->start, &sets->cap_start, 2, sizeof(size_t)))
        return false;
    sets->start[0] = 0;
    return true;
}

static void subsets_finish(struct subsets *sets)
{
    free(sets->pool);
    free(sets->start);
    free(sets->table);
    free(sets->stamp);
    free(sets->work);
}

static uint64_t hash_members(const uint32_t *members, size_t count)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ members[i]) * 0x9E3779B97F4A7C15u + (hash >> 29);
    return hash ^ hash >> 32;
}

static bool subsets_rehash(struct subsets *sets)
{
    size_t cap = 0, slots = sets->num_slots * 2;
    uint32_t *table = NULL;
    if (!dgl_budget_grow(sets->budget, (void **)&table, &cap, slots, 4))
        return false;
    memset(table, 0, slots * 4);
    for (size_t i = 0; i < sets->count; i++) {
        size_t at = hash_members(sets->pool + sets->start[i], sets->start[i + 1] - sets->start[i]);
        while (table[at &= slots - 1])
            at++;
        table[at] = (uint32_t)i + 1;
    }
    free(sets->table);
    sets->table = table;
    sets->num_slots = slots;
    return true;
}

/* Stores the closure of the states and sets *number. */
static bool subsets_find(struct subsets *sets, const uint32_t *states, size_t num_states,
                         uint32_t *number)
{
    const struct nfa *nfa = sets->nfa;
    size_t work = 0, len = sets->pool_len;
    sets->now++;
    for (size_t next = 0; next < num_states || work;) {
        uint32_t state = work ? sets->work[--work] : states[next++];
        if (sets->stamp[state] == sets->now)
            continue;
        sets->stamp[state] = sets->now;
        bool keep = state == sets->accept;
        for (uint32_t e = nfa->first[state]; e != NONE; e = nfa->edges[e].next) {
            if (!dgl_budget_steps(sets->budget, 1))
                return false;
            if (nfa->edges[e].label != NFA_EPSILON) {
                keep = true;
                continue;
            }
            if (!dgl_budget_grow(sets->budget, (void **)&sets->work, &sets->cap_work, work + 1, 4))
                return false;
            sets->work[work++] = nfa->edges[e].target;
        }
        if (!keep)
            continue;
        if (!dgl_budget_grow(sets->budget, (void **)&sets->pool, &sets->pool_cap, len + 1, 4))
            return false;
        sets->pool[len++] = state;
    }
    size_t count = len - sets->pool_len;
    uint32_t *members = sets->pool + sets->pool_len;
    sort_members(members, count);
    size_t at = hash_members(members, count);
    for (; sets->table[at &= sets->num_slots - 1]; at++) {
        uint32_t other = sets->table[at] - 1;
        if (sets->start[other + 1] - sets->start[other] == count &&
            (!count || !memcmp(sets->pool + sets->start[other], members, count * 4))) {
            *number = other;
            return dgl_budget_steps(sets->budget, 1 + count);
        }
    }
    if (!dgl_budget_grow(sets->budget, (void **)&sets->start, &sets->cap_start, sets->count + 2,
                         sizeof(size_t)))
        return false;
    sets->table[at] = (uint32_t)sets->count + 1;
    *number = (uint32_t)sets->count++;
    sets->pool_len = sets->start[sets->count] = len;
    return sets->count * 2 < sets->num_slots || subsets_rehash(sets);
}

/* Edges of all members of a set. */
struct edge_list {
    struct fa_edge *items;
    uint32_t *targets; /* working memory, as long as `items` */
    size_t count, cap, cap_targets;
};

static int compare_edges(const void *a, const void *b)
{
    const struct fa_edge *left = a, *right = b;
    if (left->label != right->label)
        return left->label < right->label ? -1 : 1;
    return left->target < right->target ? -1 : left->target > right->target;
}

static bool gather_edges(struct subsets *sets, uint32_t set, struct edge_list *list)
{
    list->count = 0;
    for (size_t i = sets->start[set]; i < sets->start[set + 1]; i++)
        for (uint32_t e = sets->nfa->first[sets->pool[i]]; e != NONE;
             e = sets->nfa->edges[e].next) {
            struct nfa_edge edge = sets->nfa->edges[e];
            if (edge.label == NFA_EPSILON)
                continue;
            if (!dgl_budget_steps(sets->budget, 1) ||
                !dgl_budget_grow(sets->budget, (void **)&list->items, &list->cap, list->count + 1,
                                 sizeof(*list->items)))
                return false;
            list->items[list->count++] = (struct fa_edge){edge.label, edge.target};
        }
    if (list->count)
        qsort(list->items, list->count, sizeof(*list->items), compare_edges);
    return dgl_budget_grow(sets->budget, (void **)&list->targets, &list->cap_targets,
                           list->count + 1, 4);
}

/* Appends the edges of a set to the last state of `out`: one per letter. */
static bool write_edges(struct subsets *sets, struct edge_list *list, struct maker *out)
{
    size_t num_bytes = 0;
    bool cut[257] = {false};
    uint32_t number;
    for (; num_bytes < list->count && label_is_bytes(list->items[num_bytes].label); num_bytes++) {
        cut[label_first(list->items[num_bytes].label)] = true;
        cut[label_last(list->items[num_bytes].label) + 1] = true;
    }
    for (uint32_t at = 0, end; num_bytes && at < 256; at = end) {
        size_t count = 0;
        end = at + 1;
        while (end < 256 && !cut[end])
            end++;
        for (size_t i = 0; i < num_bytes && label_first(list->items[i].label) <= at; i++)
            if (label_last(list->items[i].label) >= at)
                list->targets[count++] = list->items[i].target;
        if (!dgl_budget_steps(sets->budget, 1 + num_bytes / 4))
            return false;
        if (count && (!subsets_find(sets, list->targets, count, &number) ||
                      !add_edge(out, LABEL_BYTES(at, end - 1), number)))
            return false;
    }
    for (size_t i = num_bytes, end; i < list->count; i = end) {
        for (end = i; end < list->count && list->items[end].label == list->items[i].label; end++)
            list->targets[end - i] = list->items[end].target;
        if (!subsets_find(sets, list->targets, end - i, &number) ||
            !add_edge(out, list->items[i].label, number))
            return false;
    }
    return true;
}

static bool set_accepts(const struct subsets *sets, uint32_t set)
{
    for (size_t i = sets->start[set]; i < sets->start[set + 1]; i++)
        if (sets->pool[i] == sets->accept)
            return true;
    return false;
}

bool nfa_determinize(struct dgl_budget *budget, const struct nfa *nfa, uint32_t start,
                     uint32_t accept, uint32_t max_states, bool *too_large, struct automaton *out)
{
    bool ok = false;
    struct subsets sets;
    struct edge_list list = {0};
    struct maker made = {.budget = budget};
    uint32_t number;
    *out = (struct automaton){0};
    *too_large = false;
    if (!subsets_init(&sets, budget, nfa, accept) || !subsets_find(&sets, &start, 1, &number))
        goto done;
    for (uint32_t set = 0; set < sets.count; set++) {
        *too_large = sets.count > max_states;
        if (*too_large) {
            ok = true;
            goto done;
        }
        if (!add_state(&made, set_accepts(&sets, set)) || !gather_edges(&sets, set, &list) ||
            !write_edges(&sets, &list, &made))
            goto done;
    }
    ok = minimize(budget, &made.a);
    if (ok) {
        *out = made.a;
        made.a = (struct automaton){0};
    }
done:
    automaton_finish(&made.a);
    subsets_finish(&sets);
    free(list.items);
    free(list.targets);
    return ok;
}

/* Each set is the closure of one state, so the automaton has at most as many states as the NFA. */
bool nfa_remove_epsilon(struct dgl_budget *budget, const struct nfa *nfa, uint32_t start,
                        uint32_t accept, struct automaton *out)
{
    bool ok = false;
    struct subsets sets;
    struct edge_list list = {0};
    struct maker made = {.budget = budget}, kept = {.budget = budget};
    size_t cap_live = 0, cap_number = 0;
    bool *live = NULL;
    uint32_t *new_number = NULL, number, count = 0;
    *out = (struct automaton){0};
    if (!subsets_init(&sets, budget, nfa, accept) || !subsets_find(&sets, &start, 1, &number))
        goto done;
    for (uint32_t set = 0; set < sets.count; set++) {
        if (!add_state(&made, set_accepts(&sets, set)) || !gather_edges(&sets, set, &list))
            goto done;
        for (size_t i = 0; i < list.count; i++)
            if (!subsets_find(&sets, &list.items[i].target, 1, &number) ||
                !add_edge(&made, list.items[i].label, number))
                goto done;
    }
    if (!dgl_budget_grow(budget, (void **)&live, &cap_live, (size_t)made.a.num_states + 1, 1) ||
        !dgl_budget_grow(budget, (void **)&new_number, &cap_number, (size_t)made.a.num_states + 1,
                         4) ||
        !find_live(budget, &made.a, live))
        goto done;
    live[0] = true;
    for (uint32_t s = 0; s < made.a.num_states; s++)
        new_number[s] = live[s] ? count++ : NONE;
    for (uint32_t s = 0; s < made.a.num_states; s++) {
        if (!live[s])
            continue;
        if (!add_state(&kept, made.a.states[s].accept))
            goto done;
        for (uint32_t e = made.a.states[s].first; e < made.a.states[s + 1].first; e++)
            if (live[made.a.edges[e].target] &&
                !add_edge(&kept, made.a.edges[e].label, new_number[made.a.edges[e].target]))
                goto done;
    }
    *out = kept.a;
    kept.a = (struct automaton){0};
    ok = true;
done:
    automaton_finish(&made.a);
    automaton_finish(&kept.a);
    subsets_finish(&sets);
    free(list.items);
    free(list.targets);
    free(live);
    free(new_number);
    return ok;
}

/* --- products --- */

/* Pairs of states, numbered. One of a pair may be NONE: that automaton has rejected. */
struct pairs {
    struct dgl_budget *budget;
    uint64_t *items;
    size_t count, cap;
    uint32_t *table;
    size_t num_slots;
};

static size_t pair_slot(const struct pairs *pairs, uint64_t pair)
{
    size_t at = (size_t)(pair * 0x9E3779B97F4A7C15u >> 20);
    while (pairs->table[at &= pairs->num_slots - 1] && pairs->items[pairs->table[at] - 1] != pair)
        at++;
    return at;
}

static bool pairs_find(struct pairs *pairs, uint32_t left, uint32_t right, uint32_t *number)
{
    uint64_t pair = (uint64_t)left << 32 | right;
    if (pairs->count * 2 >= pairs->num_slots) {
        size_t cap = 0, slots = pairs->num_slots ? pairs->num_slots * 2 : 64;
        uint32_t *table = NULL;
        if (!dgl_budget_grow(pairs->budget, (void **)&table, &cap, slots, 4))
            return false;
        memset(table, 0, slots * 4);
        free(pairs->table);
        pairs->table = table;
        pairs->num_slots = slots;
        for (size_t i = 0; i < pairs->count; i++)
            table[pair_slot(pairs, pairs->items[i])] = (uint32_t)i + 1;
    }
    size_t at = pair_slot(pairs, pair);
    if (!pairs->table[at]) {
        if (!dgl_budget_grow(pairs->budget, (void **)&pairs->items, &pairs->cap, pairs->count + 1,
                             sizeof(*pairs->items)))
            return false;
        pairs->items[pairs->count++] = pair;
        pairs->table[at] = (uint32_t)pairs->count;
    }
    *number = pairs->table[at] - 1;
    return dgl_budget_steps(pairs->budget, 2);
}

/* The edges of a state, read from left to right. */
struct edge_cursor {
    const struct fa_edge *at, *end;
};

static struct edge_cursor cursor_of(const struct automaton *a, uint32_t state)
{
    if (state == NONE)
        return (struct edge_cursor){NULL, NULL};
    return (struct edge_cursor){a->edges + a->states[state].first,
                                a->edges + a->states[state + 1].first};
}

/* Returns the target for the letter that begins at `from`, or NONE. Shortens *last to where the
 * edge, or the gap before it, ends. Symbols are letters above all bytes. */
static uint32_t cursor_read(struct edge_cursor *c, uint32_t from, uint32_t *last)
{
    while (c->at < c->end) {
        uint32_t label = c->at->label;
        uint32_t begin = label_is_bytes(label) ? label_first(label) : label;
        uint32_t end = label_is_bytes(label) ? label_last(label) : label;
        if (end < from) {
            c->at++;
            continue;
        }
        if (begin > from) {
            *last = *last < begin - 1 ? *last : begin - 1;
            return NONE;
        }
        *last = *last < end ? *last : end;
        return c->at->target;
    }
    return NONE;
}

static bool is_wanted(enum fa_operation operation, bool left, bool right)
{
    return operation == FA_AND  ? left && right
           : operation == FA_OR ? left || right
                                : left && !right;
}

bool automaton_combine(struct dgl_budget *budget, const struct automaton *left,
                       const struct automaton *right, enum fa_operation operation,
                       uint32_t max_states, bool *too_large, struct automaton *out)
{
    bool ok = false;
    struct maker made = {.budget = budget};
    struct pairs pairs = {.budget = budget};
    uint32_t number;
    *out = (struct automaton){0};
    *too_large = false;
    if (!pairs_find(&pairs, 0, 0, &number))
        goto done;
    for (size_t i = 0; i < pairs.count; i++) {
        uint32_t l = (uint32_t)(pairs.items[i] >> 32), r = (uint32_t)pairs.items[i];
        struct edge_cursor from_left = cursor_of(left, l), from_right = cursor_of(right, r);
        bool accept = is_wanted(operation, l != NONE && left->states[l].accept,
                                r != NONE && right->states[r].accept);
        *too_large = pairs.count > max_states;
        if (*too_large) {
            ok = true;
            goto done;
        }
        if (!add_state(&made, accept))
            goto done;
        for (uint32_t at = 0, last; at != NONE; at = last + 1) {
            last = at < 256 ? 255 : NONE - 1;
            uint32_t to_left = cursor_read(&from_left, at, &last);
            uint32_t to_right = cursor_read(&from_right, at, &last);
            bool alive = operation == FA_OR    ? to_left != NONE || to_right != NONE
                         : operation == FA_AND ? to_left != NONE && to_right != NONE
                                               : to_left != NONE;
            uint32_t label = at < 256 ? LABEL_BYTES(at, last) : at;
            if (alive && (!pairs_find(&pairs, to_left, to_right, &number) ||
                          !add_edge(&made, label, number)))
                goto done;
            if (at >= 256 && from_left.at == from_left.end && from_right.at == from_right.end)
                break;
        }
    }
    ok = minimize(budget, &made.a);
    if (ok) {
        *out = made.a;
        made.a = (struct automaton){0};
    }
done:
    automaton_finish(&made.a);
    free(pairs.items);
    free(pairs.table);
    return ok;
}

bool automaton_equal(const struct automaton *left, const struct automaton *right)
{
    if (left->num_states != right->num_states || left->num_edges != right->num_edges)
        return false;
    for (uint32_t s = 0; s < left->num_states; s++)
        if (left->states[s].accept != right->states[s].accept ||
            left->states[s].first != right->states[s].first)
            return false;
    return !left->num_edges ||
           !memcmp(left->edges, right->edges, left->num_edges * sizeof(*left->edges));
}

uint32_t automaton_next(const struct automaton *a, uint32_t state, uint8_t byte)
{
    for (uint32_t e = a->states[state].first; e < a->states[state + 1].first; e++)
        if (label_is_bytes(a->edges[e].label) && label_first(a->edges[e].label) <= byte &&
            byte <= label_last(a->edges[e].label))
            return a->edges[e].target;
    return NONE;
}
