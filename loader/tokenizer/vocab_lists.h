/* A vocabulary as lists by id: tokenizer.ggml.* of a GGUF file (gguf_vocab.h), and DOPPLER's own
 * form of tokenizer.json (doppler_tokenizer.h). */
#ifndef DGL_LOADER_VOCAB_H
#define DGL_LOADER_VOCAB_H

#include "core/base/mem.h"
#include "loader/tokenizer/gguf_pre.h"

#define VOCAB_SPACE_MARK "\xe2\x96\x81" /* U+2581, SentencePiece's mark for a blank */

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
    VOCAB_UNIGRAM /* SentencePiece Unigram with scores; only in DOPPLER's form */
};

struct vocab_lists {
    enum vocab_kind kind;
    const char *name;             /* name of the file, for messages */
    const struct dgl_str *tokens; /* [count]; p is NULL if no token has the id */
    uint64_t count, num_merges;
    const uint8_t *types;            /* [count], enum token_type; NULL = all normal */
    const double *scores;            /* [count]; SPM and UNIGRAM only */
    const struct dgl_str *merges;    /* [num_merges], "left right"; BPE only */
    const struct gguf_pre *pre;      /* BPE only */
    int64_t bos, eos, eot, eom, unk; /* -1 if missing */
    bool add_bos, add_eos, add_prefix;
    struct dgl_arena arena;   /* memory of lists that differ from the file */
    bool strip_after_special; /* blanks after a control token are removed (Phi-3) */
};
void vocab_lists_finish(struct vocab_lists *v);
/* Replaces runs of blanks by marks (U+2581), in a copy of the list. llama.cpp's converter lists
 * such runs as user-defined tokens; in their original tokenizers (Gemma) they are normal pieces of
 * marks. Readers of SentencePiece vocabularies call this. */
enum dgl_status vocab_mark_runs(const struct dgl_log *log, struct vocab_lists *v);
bool vocab_is_run(const struct vocab_lists *v, uint64_t id);
enum token_type vocab_token_type(const struct vocab_lists *v, uint64_t id);

/* Properties of a token that is cut out of a text before the model sees it. */
struct vocab_added {
    bool special, rstrip;
};
/* Returns false if the token is not cut out. */
bool vocab_added_get(const struct vocab_lists *v, uint64_t id, struct vocab_added *out);

/* Derives the merges of a SentencePiece vocabulary: all pairs of pieces that form a third piece,
 * runs of blanks first, then by descending score. The caller frees *out with free(). */
struct vocab_merge {
    int32_t left, right, whole;
};
enum dgl_status vocab_merges_derive(const struct dgl_log *log, const struct vocab_lists *v,
                                    struct vocab_merge **out, size_t *count);

#endif
