/*
 * byte_dfa.h: finite automata over bytes and symbols. Symbols are the parts of a rule that are not
 * regular: calls of other rules, and tokens. The functions treat a symbol as one letter more.
 * Private to loader/grammar.
 *
 * Functions that return bool return false if the budget has failed.
 */
#ifndef DGL_LOADER_BYTE_DFA_H
#define DGL_LOADER_BYTE_DFA_H

#include "loader/grammar/grammar.h"

/* Labels of edges: the empty text, a range of bytes, or a symbol. */
#define NFA_EPSILON              UINT32_MAX
#define LABEL_SYMBOL             0x80000000u
#define LABEL_BYTES(first, last) ((uint32_t)(first) << 8 | (uint32_t)(last))
static inline bool label_is_bytes(uint32_t label)
{
    return !(label & LABEL_SYMBOL);
}
static inline uint32_t label_first(uint32_t label)
{
    return label >> 8;
}
static inline uint32_t label_last(uint32_t label)
{
    return label & 0xFF;
}

/* An automaton without empty edges. Every state is reachable and reaches an accepting state, except
 * that the automaton of the empty language has one state. State 0 is the start. */
struct fa_edge {
    uint32_t label, target;
};
struct fa_state {
    uint32_t first; /* the edges of a state are [first, first of the next state) */
    bool accept;
};
struct automaton {
    struct fa_state *states; /* [num_states + 1] */
    struct fa_edge *edges;   /* bytes first, ascending, then symbols, ascending */
    uint32_t num_states, num_edges;
    bool deterministic;
};
void automaton_finish(struct automaton *a);
size_t automaton_bytes(const struct automaton *a);

/* A nondeterministic automaton in the making. `{0}` is empty. */
struct nfa_edge {
    uint32_t label, target, next; /* next: index of the state's next edge, or UINT32_MAX */
};
struct nfa {
    uint32_t *first; /* by state: its last added edge, or UINT32_MAX */
    struct nfa_edge *edges;
    size_t num_states, cap_states, num_edges, cap_edges;
};
/* Returns the new state, or 0 if the budget has failed. */
uint32_t nfa_add_state(struct dgl_budget *budget, struct nfa *nfa);
bool nfa_add_edge(struct dgl_budget *budget, struct nfa *nfa, uint32_t from, uint32_t label,
                  uint32_t to);
/* Adds paths that read one code point of the range. Surrogates are left out. */
bool nfa_add_range(struct dgl_budget *budget, struct nfa *nfa, uint32_t from,
                   struct gr_cp_range range, uint32_t to);
/* Adds a copy of an automaton. */
bool nfa_add_automaton(struct dgl_budget *budget, struct nfa *nfa, uint32_t from,
                       const struct automaton *a, uint32_t to);
void nfa_finish(struct nfa *nfa);

/* Converts the paths from `start` to `accept` to a minimal automaton with at most `max_states`
 * states. Sets *too_large, and leaves *out empty, if it needs more. */
bool nfa_determinize(struct dgl_budget *budget, const struct nfa *nfa, uint32_t start,
                     uint32_t accept, uint32_t max_states, bool *too_large, struct automaton *out);
/* Converts to an automaton by removing the empty edges only. */
bool nfa_remove_epsilon(struct dgl_budget *budget, const struct nfa *nfa, uint32_t start,
                        uint32_t accept, struct automaton *out);

enum fa_operation { FA_AND, FA_OR, FA_MINUS };
/* Combines two deterministic automata to a minimal one. *too_large as above. */
bool automaton_combine(struct dgl_budget *budget, const struct automaton *left,
                       const struct automaton *right, enum fa_operation operation,
                       uint32_t max_states, bool *too_large, struct automaton *out);
/* Compares minimal automata. These are equal exactly if their languages are. */
bool automaton_equal(const struct automaton *left, const struct automaton *right);
/* For a deterministic automaton over bytes. Returns the next state, or UINT32_MAX. */
uint32_t automaton_next(const struct automaton *a, uint32_t state, uint8_t byte);

#endif
