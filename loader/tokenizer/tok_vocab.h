/* tok_vocab.h: tokens by id and ids by token. */
#ifndef DGL_LOADER_TOK_VOCAB_H
#define DGL_LOADER_TOK_VOCAB_H

#include "core/base/status.h"
#include "core/base/str.h"

/* Ids are below this: it bounds the table by id, whatever a file says. The largest published
 * vocabulary has 262,208. */
#define TOK_MAX_ID (1 << 24)

struct tok_vocab_entry {
    size_t offset; /* into `text` */
    uint32_t len;
    bool present; /* ids may have holes */
};

/* `{0}` is empty. Thread-safe once filled. */
struct tok_vocab {
    struct dgl_buf text;
    struct tok_vocab_entry *entries; /* by id */
    size_t num_entries, cap_entries; /* largest id + 1 */
    size_t count;                    /* tokens */
    uint64_t *slots;                 /* open addressing: upper half of the hash, id + 1; 0 = free */
    size_t num_slots;                /* a power of two */
    uint64_t seed;                   /* of the hash */
};

/* Room for `count` tokens without growing; false: out of memory. */
bool tok_vocab_reserve(struct tok_vocab *vocab, size_t count);
/* `id` is from 0 to TOK_MAX_ID - 1 and unused. Of equal tokens the later one is found. False:
 * out of memory. */
bool tok_vocab_add(struct tok_vocab *vocab, struct dgl_str token, int32_t id);
/* The id of a token, -1 when there is none. */
int32_t tok_vocab_find(const struct tok_vocab *vocab, const char *token, size_t len);
/* False when nothing has this id. Borrowed. */
bool tok_vocab_token(const struct tok_vocab *vocab, int32_t id, struct dgl_str *out);
void tok_vocab_finish(struct tok_vocab *vocab);

#endif
