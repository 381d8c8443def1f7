/* A vocabulary as the tokenizer.ggml.* keys of a GGUF file list it, checked. DOPPLER's own form of
 * tokenizer.json (doppler_tokenizer.h) has the same lists. */
#ifndef DGL_LOADER_GGUF_VOCAB_H
#define DGL_LOADER_GGUF_VOCAB_H

#include "loader/gguf/gguf_file.h"
#include "loader/tokenizer/gguf_pre.h"

#define GGUF_SPACE_MARK "\xe2\x96\x81" /* U+2581, which stands for a blank in SentencePiece */

/* tokenizer.ggml.token_type */
enum gguf_token_type {
    GGUF_TOKEN_NORMAL = 1,
    GGUF_TOKEN_UNKNOWN,
    GGUF_TOKEN_CONTROL,
    GGUF_TOKEN_USER_DEFINED,
    GGUF_TOKEN_UNUSED,
    GGUF_TOKEN_BYTE
};

enum gguf_vocab_kind {
    GGUF_VOCAB_NONE,   /* the file has no tokenizer */
    GGUF_VOCAB_BPE,    /* "gpt2": byte-level BPE with merges */
    GGUF_VOCAB_SPM,    /* "llama", "gemma": SentencePiece BPE with scores */
    GGUF_VOCAB_UNIGRAM /* SentencePiece Unigram with scores; DOPPLER's form only */
};

struct gguf_vocab {
    enum gguf_vocab_kind kind;
    const char *name;             /* of the file, for messages */
    const struct gguf_file *file; /* NULL = it is none of a GGUF file */
    const struct dgl_str *tokens; /* [count]; p is NULL where no token has the id */
    uint64_t count, num_merges;
    const uint8_t *types;            /* [count], enum gguf_token_type; NULL = all normal */
    const double *scores;            /* [count]; SPM, UNIGRAM */
    const struct dgl_str *merges;    /* [num_merges], "left right"; BPE */
    const struct gguf_pre *pre;      /* BPE */
    int64_t bos, eos, eot, eom, unk; /* -1 = none */
    bool add_bos, add_eos, add_prefix;
    struct dgl_arena arena;   /* of lists that are not as in the file */
    bool strip_after_special; /* blanks after a control token go (Phi-3) */
};
/* Unknown kinds and pre-tokenizers are DGL_ERR_UNSUPPORTED; ids beyond the list, lists of different
 * lengths and tokens that are not text are DGL_ERR_FORMAT. */
enum dgl_status gguf_vocab_read(const struct dgl_log *log, const struct gguf_file *file,
                                struct gguf_vocab *out);
void gguf_vocab_finish(struct gguf_vocab *v);
/* Runs of blanks, which llama.cpp's converter lists as user-defined tokens, are normal pieces of
 * marks (U+2581) in `tokens`: that is what they are in the tokenizers they come from (Gemma). This
 * turns them into marks, in a copy of the list; gguf_vocab_read() has done so. */
enum dgl_status gguf_vocab_mark_runs(const struct dgl_log *log, struct gguf_vocab *v);
bool gguf_vocab_is_run(const struct gguf_vocab *v, uint64_t id);
enum gguf_token_type gguf_vocab_type(const struct gguf_vocab *v, uint64_t id);

/* The ids that end an answer, ascending, each with the key or kind of token that says so. */
enum dgl_status gguf_vocab_stops(const struct dgl_log *log, const struct gguf_vocab *v,
                                 struct dgl_stop_id *out, size_t max, size_t *count);

/* Merges of a SentencePiece vocabulary: two pieces that are a third together, runs of blanks first,
 * then by falling score.
 * *out is for free(). */
struct gguf_merge {
    int32_t left, right, whole;
};
enum dgl_status gguf_merges_derive(const struct dgl_log *log, const struct gguf_vocab *v,
                                   struct gguf_merge **out, size_t *count);

#endif
