/*
 * grammar_ir.h: the source form of a grammar: the expressions and rules of a builder. Private to
 * loader/grammar and its tests.
 */
#ifndef DGL_LOADER_GRAMMAR_IR_H
#define DGL_LOADER_GRAMMAR_IR_H

#include "core/base/mem.h"
#include "loader/grammar/byte_dfa.h"

#define ITEM_UNKNOWN   UINT32_MAX
#define ITEM_TOO_LARGE (UINT32_MAX - 1)

enum gr_kind {
    GR_NEVER,
    GR_EMPTY,
    GR_LITERAL, /* first: offset in bytes, count: length */
    GR_CLASS,   /* first: index in ranges, count: their number */
    GR_TOKEN,   /* first: index in tokens */
    GR_SEQ,     /* first: index in children, count: their number */
    GR_ALT,     /* the same */
    GR_REPEAT,  /* first: id of the item; min, max */
    GR_CALL,    /* first: id of the rule */
    GR_DFA      /* first: id of the DFA */
};
struct gr_node {
    enum gr_kind kind;
    uint32_t first, count;
    uint32_t min, max;
    uint32_t size;  /* states after expansion, without the bodies of called rules */
    uint32_t depth; /* of nested nodes */
    bool has_call, has_token;
};
struct gr_token_terminal {
    int32_t id;
    bool negated;
};
struct gr_body {
    char *name;
    uint32_t expr; /* id of the body */
    bool is_set;
    bool open; /* its body is being expanded */
};

struct grammar_builder {
    struct dgl_budget *budget;
    struct dgl_arena arena; /* names of rules */
    struct gr_node *nodes;
    struct gr_body *rules;
    struct gr_cp_range *ranges; /* of classes: sorted, disjoint, not adjacent */
    struct gr_token_terminal *tokens;
    uint32_t *children;
    struct automaton *dfas;
    struct dgl_buf bytes; /* of literals */
    /* By node: the DFA of a class or of a counted item, ITEM_UNKNOWN, or ITEM_TOO_LARGE. Only the
     * first num_items nodes have an entry yet. */
    uint32_t *items;
    size_t num_items, cap_items;
    uint32_t any_text; /* DFA of all texts, or ITEM_UNKNOWN */
    size_t num_nodes, cap_nodes, num_rules, cap_rules, num_ranges, cap_ranges;
    size_t num_tokens, cap_tokens, num_children, cap_children, num_dfas, cap_dfas;
};

/* Appends an automaton, which the builder then owns, also on failure. */
struct gr_dfa gr_dfa_add(struct grammar_builder *b, struct automaton *a);
/* Fails because a regular part has too many states. */
bool gr_dfa_fail_size(struct grammar_builder *b);

#endif
