/* tok_bpe.h: byte pair encoding: merges characters by rank. */
#ifndef DGL_LOADER_TOK_BPE_H
#define DGL_LOADER_TOK_BPE_H

#include "loader/tokenizer/tok_model.h"

/* Fills model->vocab and the other fields of *model from the JSON of a BPE model. With `lists`,
 * vocabulary and merges come from the lists. */
enum dgl_status tok_bpe_load(struct dgl_json_reader r, const struct dgl_json *json,
                             const struct vocab_lists *lists, struct tok_model *model);
void tok_bpe_destroy(struct tok_bpe **bpe);
enum dgl_status tok_bpe_encode(struct dgl_budget *budget, const struct tok_model *model,
                               struct tok_model_scratch *scratch, struct dgl_str piece,
                               struct token_ids *out);

/* The rest is shared by tok_bpe.c and tok_bpe_merge.c. A merge of two tokens: */
struct tok_merge {
    int32_t left, right; /* left is -1 in a free slot */
    uint32_t rank;       /* lower ranks are merged first */
    int32_t id;          /* the merged token */
};
/* Merges by pair, in an open addressing table. */
struct tok_merges {
    struct tok_merge *slots;
    size_t num_slots; /* a power of two */
    uint64_t seed;    /* seed of the hash */
};
/* Pairs of first symbols that some merge joins. A piece can be cut between two other symbols before
 * merging. */
struct tok_bridges {
    uint64_t *slots; /* left symbol + 1, right symbol; 0 = free */
    size_t num_slots, count;
    uint64_t seed; /* seed of the hash */
};
/* Return the slot of a pair, or the free slot where it belongs. A table has at least one free
 * slot. */
size_t tok_merges_slot(const struct tok_merges *merges, int32_t left, int32_t right);
size_t tok_bridges_slot(const struct tok_bridges *bridges, uint64_t key);
static inline uint64_t tok_bridge_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)(left + 1) << 32 | (uint32_t)right;
}

/* Merges the first symbols of a piece and appends the resulting ids. */
enum dgl_status tok_bpe_merge(struct dgl_budget *budget, const struct tok_merges *merges,
                              const struct tok_bridges *bridges, struct tok_model_scratch *scratch,
                              int32_t *symbols, size_t count, struct token_ids *out);

#endif
