/* Constraints of answers: a compiled grammar, prepared for the vocabulary of a model, and the state
 * of one answer. The engine of grammars is loader/grammar. */
#ifndef DGL_CORE_CONSTRAINT_H
#define DGL_CORE_CONSTRAINT_H

#include <pthread.h>

#include "core/dopplergl.h"
#include "loader/grammar/token_mask.h"
#include "loader/tokenizer/tokenizer.h"

/* Constraints that a model keeps for later calls with the same text. */
#define CONSTRAINTS_KEPT 32

/* The constraints of a model. All functions that use one may be called on any thread. */
struct constraint_set {
    pthread_mutex_t lock;
    struct token_trie *trie;  /* of the vocabulary, made for the first constraint */
    struct token_masks *json; /* of any JSON value: its strings always have slices */
    struct dgl_constraint *kept[CONSTRAINTS_KEPT]; /* the last one used is first */
};
struct constraint_set *constraint_set_create(void); /* returns NULL if memory is exhausted */
/* Accepts NULL in *set. No other reference to a constraint of the set may be left. */
void constraint_set_destroy(struct constraint_set **set);

/* Vocabulary of a model. */
struct constraint_vocabulary {
    const struct dgl_tokenizer *tok;
    int32_t vocab;          /* ids of logits */
    const int32_t *end_ids; /* [num_end_ids] */
    size_t num_end_ids;
};
/* Compiles the constraint, or finds it in the set. *out is a reference. */
enum dgl_status constraint_create(struct constraint_set *set, const struct dgl_log *log,
                                  const struct constraint_vocabulary *vocabulary,
                                  const struct dgl_constraint_params *params,
                                  struct dgl_constraint **out);
struct dgl_constraint *constraint_ref(const struct dgl_constraint *constraint);
/* Accepts NULL in *constraint. */
void constraint_unref(struct dgl_constraint **constraint);

/* State of one answer with a constraint. `{0}` is the state without one. */
struct constraint_state {
    struct dgl_constraint *constraint; /* a reference, or NULL */
    struct matcher *matcher;
    struct dgl_buf bytes;   /* of a token */
    uint32_t *mask;         /* [oplist_mask_words()] */
    enum dgl_status status; /* of the last mask */
};
/* Begins an answer of a model with the set. If `constraint` is NULL, there is none. Returns
 * DGL_ERR_INVALID_ARG if it is a constraint of another model. Borrows `log`. */
enum dgl_status constraint_begin(struct constraint_state *state, const struct dgl_log *log,
                                 const struct constraint_set *set,
                                 const struct dgl_constraint *constraint);
void constraint_finish(struct constraint_state *state);
/* Reads a token of the answer, or, if `stops`, a stop id. *ends is set if no text may follow. */
enum dgl_status constraint_accept(struct constraint_state *state, const struct dgl_log *log,
                                  const struct dgl_tokenizer *tok, int32_t id, bool stops,
                                  bool *ends);
/* Computes state->mask for the next token. If that fails, all tokens are allowed, and
 * constraint_accept() returns the reason. */
void constraint_mask(struct constraint_state *state);

#endif
