/*
 * grammar_form.h: the compiled form of a grammar. Private to loader/grammar.
 *
 * A grammar is a set of automata, one for each rule. Besides bytes an automaton reads calls of
 * other automata and tokens. A rule that ends pops the state to return to from a stack; a call at
 * the end of a rule pushes no state.
 */
#ifndef DGL_LOADER_GRAMMAR_FORM_H
#define DGL_LOADER_GRAMMAR_FORM_H

#include <stdatomic.h>

#include "loader/grammar/grammar.h"

#define GR_TAIL      UINT32_MAX /* as a return state: the caller ends with the call */
#define GR_COST_MOST (1u << 29) /* costs saturate here */

struct gr_byte_edge {
    uint8_t first, last;
    bool counts; /* completes an item of a counted repeat */
    uint32_t target;
};
struct gr_call_edge {
    uint32_t entry; /* first state of the called rule */
    uint32_t ret;   /* state after the call, or GR_TAIL */
};
struct gr_token_edge {
    int32_t id;
    bool negated; /* all tokens but `id` */
    uint32_t target;
};
/* The edges of a state are those from its index to that of the next state. */
struct gr_state {
    uint32_t first_byte, first_call, first_token;
    uint32_t counter; /* index, or 0 if the state is in no counted repeat */
    uint32_t cost;    /* least number of bytes to the end of the rule; in a counted repeat, to the
                         end of the item */
    bool accept;      /* the rule may end; in a counted repeat, if the count allows */
};
/* A counted repeat is an automaton. Its first state is between two items. */
struct gr_counter {
    uint32_t min, max; /* max may be GR_UNBOUNDED; the count then stops at min */
    uint32_t item_cost;
};

struct grammar {
    atomic_uint refs;
    struct gr_state *states; /* [num_states + 1] */
    struct gr_byte_edge *bytes;
    struct gr_call_edge *calls;
    struct gr_token_edge *tokens;
    struct gr_counter *counters;
    uint32_t num_states, num_bytes, num_calls, num_tokens, num_counters;
    uint32_t root; /* first state of the root rule */
};

/* Returns the cost of a call: the least number of bytes that the called rule reads. */
static inline uint32_t grammar_entry_cost(const struct grammar *g, uint32_t entry)
{
    const struct gr_state *state = &g->states[entry];
    uint64_t cost = state->cost;
    if (state->counter)
        cost = (uint64_t)g->counters[state->counter].min * g->counters[state->counter].item_cost;
    return cost < GR_COST_MOST ? (uint32_t)cost : GR_COST_MOST;
}

#endif
