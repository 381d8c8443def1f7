/* tok_model.h: what turns pieces of text into ids: the vocabulary with BPE merges or Unigram
 * scores. */
#ifndef DGL_LOADER_TOK_MODEL_H
#define DGL_LOADER_TOK_MODEL_H

#include "core/base/budget.h"
#include "core/base/json.h"
#include "loader/tokenizer/tok_cache.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/tokenizer.h"

struct tok_bpe;
struct tok_unigram;

/* Immutable after loading. */
struct tok_model {
    struct tok_vocab vocab;
    struct tok_bpe *bpe; /* one of the two */
    struct tok_unigram *unigram;
    char *unk_token; /* what stands for a character without a token; NULL: it is dropped */
    int32_t unk_id;  /* -1: no such token */
    bool fuse_unk;   /* neighbouring unknown characters become one token */
    bool byte_fallback;
    int32_t byte_ids[256]; /* of "<0x00>" to "<0xFF>"; -1 = missing */
};

/* Working memory of one call, for any model. `{0}` is valid. */
struct tok_model_scratch {
    int32_t *symbols;
    size_t cap_symbols;
    void *nodes, *heap, *path; /* of the models' own types */
    size_t cap_nodes, cap_heap, cap_path;
    struct tok_cache cache; /* of BPE */
};
void tok_model_scratch_finish(struct tok_model_scratch *scratch);

/* `json` is the value of "model". With `lists` (NULL = none; BPE only), vocabulary and merges are
 * these. */
struct vocab_lists;
enum dgl_status tok_model_load(struct dgl_json_reader r, const struct dgl_json *json,
                               const struct vocab_lists *lists, struct tok_model *out);
void tok_model_finish(struct tok_model *model);
/* Appends the ids of one piece (valid UTF-8). */
enum dgl_status tok_model_encode(struct dgl_budget *budget, const struct tok_model *model,
                                 struct tok_model_scratch *scratch, struct dgl_str piece,
                                 struct token_ids *out);

/* Appends one id. */
enum dgl_status token_ids_add(const struct dgl_log *log, struct token_ids *ids, int32_t id);
enum dgl_status token_ids_append(const struct dgl_log *log, struct token_ids *ids,
                                 const int32_t *more, size_t count);
/* Looks up "<0x00>" to "<0xFF>" once the vocabulary is loaded. */
void tok_model_find_bytes(struct tok_model *model);
/* A character has no token, and nothing can stand for it. */
enum dgl_status tok_model_fail_unknown(const struct dgl_log *log, const struct tok_model *model);

#endif
