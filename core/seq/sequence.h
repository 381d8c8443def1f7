/* One sequence of tokens, as the host knows it. Only sequence_reserve() uses the device. */
#ifndef DGL_CORE_SEQUENCE_H
#define DGL_CORE_SEQUENCE_H

#include "core/memory/kv_cache.h"
#include "core/seq/adjust.h"

struct sequence {
    int32_t *ids;          /* [context + 1] */
    int32_t len;           /* the KV cache is valid for ids[0 .. len) */
    int32_t context;       /* maximum tokens */
    bool logits_valid;     /* LOGITS is that of token len - 1 */
    bool share_prefix;     /* reuses KV pages of other sequences with the same prefix */
    bool pooled;           /* its KV pages come from a pool, see kv_cache.h */
    struct kv_cache *kv;   /* the model's */
    uint64_t scope;        /* shares prefixes only with sequences of this scope */
    struct kv_pages pages; /* pages in `kv` */
    struct adjust adjust;
};

/* Returns the number of KV pages for `tokens` positions, or for the context if that is less. */
uint32_t sequence_pages(const struct sequence *seq, int32_t tokens);
/* Returns true if reserving `tokens` positions moves the KV cache. */
bool sequence_moves(const struct sequence *seq, int32_t tokens);
/* Returns false if a pooled sequence would have to wait for these pages. */
bool sequence_may_reserve(const struct sequence *seq, int32_t tokens);
/* Takes KV pages for `tokens` positions, or for the context if that is less, and a copy of its own
 * of the page of position `len`. May move the KV cache. */
enum dgl_status sequence_reserve(struct sequence *seq, int32_t tokens);
/* Removes the tokens from `len` on and their pages, and invalidates the logits. Has no effect if
 * the sequence has at most `len` tokens. */
void sequence_trim(struct sequence *seq, int32_t len);
/* Returns the KV pages beyond `len` tokens to the cache. */
void sequence_trim_pages(struct sequence *seq);

#endif
