/* The table of model_bind(): the tensors that a text model may have, by name. */
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

/* Layers to which a rule applies. */
enum where { ANYWHERE, DENSE, SPARSE };

enum rule_kind {
    TENSOR,  /* `slot` is a long */
    STACKED, /* `slot` is a struct expert_tensors: all experts in one tensor */
    EACH     /* the same, one tensor per expert; the '*' of the name is its number */
};

struct bind_rule {
    const char *name; /* the whole name, or the part after "model.layers.N." */
    size_t slot;      /* offset in struct model_desc or struct layer_desc */
    enum dim dims[BIND_MAX_RANK];
    uint32_t with, without; /* enum model_part: requires all of `with`, and no part of `without` */
    enum where where;
    enum rule_kind kind;
    bool optional;
    size_t instead; /* slot of a tensor that replaces this one; 0 if there is no such tensor */
};

extern const struct bind_rule bind_model_rules[];
extern const struct bind_rule bind_layer_rules[];
extern const size_t bind_num_model_rules, bind_num_layer_rules;

/* Returns true if the description requires the rule's tensor in `layer`. */
bool bind_rule_holds(const struct bind_rule *rule, const struct model_desc *desc, int32_t layer);
/* Number of dimensions of the rule's tensor. */
uint32_t bind_rule_rank(const struct bind_rule *rule);
void bind_dims_fill(const struct model_desc *desc, uint64_t dims[DIM_COUNT]);

struct bind_match {
    const struct bind_rule *rule;
    void *base;     /* base of rule->slot: the description or one of its layers */
    int32_t number; /* number of the expert */
};
/* Finds the rule for a name. Returns false if the table has no rule for it. */
bool bind_match_find(struct model_desc *desc, const char *name, struct bind_match *out);

/* Returns true for a buffer that some checkpoints store although it follows from the config. */
bool bind_is_derived(const char *name);

/* Prefixes of names in checkpoints of multimodal models, which contain the text model, and of base
 * models, which are the text model without its head. */
struct bind_prefix {
    const char *prefix, *replacement; /* NULL: not a tensor of the text model */
    uint32_t with;                    /* enum model_part: requires all of `with` */
    bool base;                        /* of a base model, which may lack the head */
};
enum { BIND_NUM_PREFIXES = 11 };
extern const struct bind_prefix bind_prefixes[BIND_NUM_PREFIXES];
/* Returns the first prefix of the name that a model with these parts has, or NULL. */
const struct bind_prefix *bind_prefix_find(uint32_t parts, const char *name);

#endif
