/* tok_model.h: converts pieces of text to ids, by a vocabulary with BPE merges or Unigram
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
    struct tok_bpe *bpe; /* exactly one of the two is set */
    struct tok_unigram *unigram;
    char *unk_token; /* token of unknown characters; NULL: they are dropped */
    int32_t unk_id;  /* -1 = not in the vocabulary */
    bool fuse_unk;   /* adjacent unknown characters become one token */
    bool byte_fallback;
    int32_t byte_ids[256]; /* ids of "<0x00>" to "<0xFF>"; -1 = missing */
};

/* Working memory of one call, for any model. `{0}` is valid. */
struct tok_model_scratch {
    int32_t *symbols;
    size_t cap_symbols;
    void *nodes, *heap, *path; /* types of the models */
    size_t cap_nodes, cap_heap, cap_path;
    struct tok_cache cache; /* used by BPE */
};
void tok_model_scratch_finish(struct tok_model_scratch *scratch);

/* `json` is the value of "model". If `lists` is not NULL (BPE only), it provides vocabulary and
 * merges. */
struct vocab_lists;
enum dgl_status tok_model_load(struct dgl_json_reader r, const struct dgl_json *json,
                               const struct vocab_lists *lists, struct tok_model *out);
void tok_model_finish(struct tok_model *model);
/* Appends the ids of one piece (valid UTF-8). */
enum dgl_status tok_model_encode(struct dgl_budget *budget, const struct tok_model *model,
                                 struct tok_model_scratch *scratch, struct dgl_str piece,
                                 struct token_ids *out);

/* Append one id, or several. */
enum dgl_status token_ids_add(const struct dgl_log *log, struct token_ids *ids, int32_t id);
enum dgl_status token_ids_append(const struct dgl_log *log, struct token_ids *ids,
                                 const int32_t *more, size_t count);
/* Looks up "<0x00>" to "<0xFF>" after the vocabulary is loaded. */
void tok_model_find_bytes(struct tok_model *model);
/* Reports a character that has no token and no replacement. */
enum dgl_status tok_model_fail_unknown(const struct dgl_log *log, const struct tok_model *model);

#endif
