/* A vocabulary as lists by id: tokenizer.ggml.* of a GGUF file (gguf_vocab.h), and DOPPLER's own
 * form of tokenizer.json (doppler_tokenizer.h). */
#ifndef DGL_LOADER_VOCAB_H
#define DGL_LOADER_VOCAB_H

#include "core/base/mem.h"
#include "loader/tokenizer/gguf_pre.h"

#define VOCAB_SPACE_MARK "\xe2\x96\x81" /* U+2581, which stands for a blank in SentencePiece */

/* tokenizer.ggml.token_type */
enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER_DEFINED,
    TOKEN_UNUSED,
    TOKEN_BYTE
};

enum vocab_kind {
    VOCAB_NONE,   /* the file has no tokenizer */
    VOCAB_BPE,    /* "gpt2": byte-level BPE with merges */
    VOCAB_SPM,    /* "llama", "gemma": SentencePiece BPE with scores */
    VOCAB_UNIGRAM /* SentencePiece Unigram with scores; DOPPLER's form only */
};

struct vocab_lists {
    enum vocab_kind kind;
    const char *name;             /* of the file, for messages */
    const struct dgl_str *tokens; /* [count]; p is NULL where no token has the id */
    uint64_t count, num_merges;
    const uint8_t *types;            /* [count], enum token_type; NULL = all normal */
    const double *scores;            /* [count]; SPM, UNIGRAM */
    const struct dgl_str *merges;    /* [num_merges], "left right"; BPE */
    const struct gguf_pre *pre;      /* BPE */
    int64_t bos, eos, eot, eom, unk; /* -1 = none */
    bool add_bos, add_eos, add_prefix;
    struct dgl_arena arena;   /* of lists that are not as in the file */
    bool strip_after_special; /* blanks after a control token go (Phi-3) */
};
void vocab_lists_finish(struct vocab_lists *v);
/* Runs of blanks, which llama.cpp's converter lists as user-defined tokens, are normal pieces of
 * marks (U+2581) in `tokens`: that is what they are in the tokenizers they come from (Gemma). This
 * turns them into marks, in a copy of the list; readers of SentencePiece vocabularies call it. */
enum dgl_status vocab_mark_runs(const struct dgl_log *log, struct vocab_lists *v);
bool vocab_is_run(const struct vocab_lists *v, uint64_t id);
enum token_type vocab_token_type(const struct vocab_lists *v, uint64_t id);

/* How tokens are cut out of a text before the model sees it. */
struct vocab_added {
    bool special, rstrip;
};
/* False: the token is none that is cut out. */
bool vocab_added_get(const struct vocab_lists *v, uint64_t id, struct vocab_added *out);

/* Merges of a SentencePiece vocabulary: two pieces that are a third together, runs of blanks first,
 * then by falling score.
 * *out is for free(). */
struct vocab_merge {
    int32_t left, right, whole;
};
enum dgl_status vocab_merges_derive(const struct dgl_log *log, const struct vocab_lists *v,
                                    struct vocab_merge **out, size_t *count);

#endif
