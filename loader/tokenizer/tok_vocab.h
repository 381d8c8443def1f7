/* tok_vocab.h: tokens by id and ids by token. */
#ifndef DGL_LOADER_TOK_VOCAB_H
#define DGL_LOADER_TOK_VOCAB_H

#include "core/base/status.h"
#include "core/base/str.h"

/* Upper limit of ids. It limits the table by id for any file. The largest published vocabulary has
 * 262,208 tokens. */
#define TOK_MAX_ID (1 << 24)

struct tok_vocab_entry {
    size_t offset; /* in `text` */
    uint32_t len;
    bool present; /* ids may have gaps */
};

/* `{0}` is empty. Thread-safe after it is filled. */
struct tok_vocab {
    struct dgl_buf text;
    struct tok_vocab_entry *entries; /* by id */
    size_t num_entries, cap_entries; /* largest id + 1 */
    size_t count;                    /* number of tokens */
    uint64_t *slots;  /* open addressing table: upper half of the hash, id + 1; 0 = free */
    size_t num_slots; /* a power of two */
    uint64_t seed;    /* seed of the hash */
};

/* Reserves space for `count` tokens. Returns false if memory is exhausted. */
bool tok_vocab_reserve(struct tok_vocab *vocab, size_t count);
/* `id` must be from 0 to TOK_MAX_ID - 1 and unused. If a token repeats, tok_vocab_find() finds the
 * later one. Returns false if memory is exhausted. */
bool tok_vocab_add(struct tok_vocab *vocab, struct dgl_str token, int32_t id);
/* Returns the id of a token, or -1. */
int32_t tok_vocab_find(const struct tok_vocab *vocab, const char *token, size_t len);
/* Returns false if no token has this id. *out is borrowed. */
bool tok_vocab_token(const struct tok_vocab *vocab, int32_t id, struct dgl_str *out);
void tok_vocab_finish(struct tok_vocab *vocab);

#endif
