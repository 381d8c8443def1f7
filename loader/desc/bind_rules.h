/* Which tensors a text model may have, by name: the table behind model_bind(). */
#ifndef DGL_LOADER_BIND_RULES_H
#define DGL_LOADER_BIND_RULES_H

#include "loader/desc/model_desc.h"

enum dim {
    DIM_NONE,
    DIM_HIDDEN,
    DIM_INTERMEDIATE,
    DIM_TWO_INTERMEDIATE,
    DIM_VOCAB,
    DIM_Q,
    DIM_KV,
    DIM_QKV,
    DIM_HEADS,
    DIM_HEAD,
    DIM_EXPERTS,
    DIM_EXPERT,
    DIM_TWO_EXPERT,
    DIM_COUNT
};
enum { BIND_MAX_RANK = 3 };

/* In which layers a rule holds. */
enum where { ANYWHERE, DENSE, SPARSE };

enum rule_kind {
    TENSOR,  /* `slot` is a long */
    STACKED, /* `slot` is a struct expert_tensors: all experts in one */
    EACH     /* the same, one tensor per expert; its number is the '*' of the name */
};

struct bind_rule {
    const char *name; /* whole, or after "model.layers.N." */
    size_t slot;      /* in struct model_desc or struct layer_desc */
    enum dim dims[BIND_MAX_RANK];
    uint32_t with, without; /* enum model_part: holds when all of these and none of those are */
    enum where where;
    enum rule_kind kind;
    bool optional;
    size_t instead; /* slot of a tensor that makes this one superfluous; 0 = none */
};

extern const struct bind_rule bind_model_rules[];
extern const struct bind_rule bind_layer_rules[];
extern const size_t bind_num_model_rules, bind_num_layer_rules;

/* Whether the description wants the rule's tensor in `layer`. */
bool bind_rule_holds(const struct bind_rule *rule, const struct model_desc *desc, int32_t layer);
/* Dimensions of its tensor. */
uint32_t bind_rule_rank(const struct bind_rule *rule);
void bind_dims_fill(const struct model_desc *desc, uint64_t dims[DIM_COUNT]);

struct bind_match {
    const struct bind_rule *rule;
    void *base;     /* what rule->slot is an offset in: the description or one of its layers */
    int32_t number; /* of the expert */
};
/* The rule that holds for a name; false = none. */
bool bind_match_find(struct model_desc *desc, const char *name, struct bind_match *out);

/* A buffer that a checkpoint stores although it follows from the config. */
bool bind_is_derived(const char *name);

/* In a checkpoint that also sees: what the text model's names begin with there, in the order of
 * publication, and whose tensors are left out. */
struct bind_prefix {
    const char *prefix, *replacement; /* replacement NULL: left out */
};
enum { BIND_NUM_PREFIXES = 7 };
extern const struct bind_prefix bind_prefixes[BIND_NUM_PREFIXES];
/* The first that the name begins with; NULL = none. */
const struct bind_prefix *bind_prefix_find(const char *name);

#endif
