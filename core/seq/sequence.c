/* One sequence of tokens: its ids, and its pages of the KV cache. */
#include "core/seq/sequence.h"

#include "core/plan/plan.h"

uint32_t sequence_pages(const struct sequence *seq, int32_t tokens)
{
    return plan_kv_pages(tokens < seq->context ? tokens : seq->context);
}

bool sequence_moves(const struct sequence *seq, int32_t tokens)
{
    return kv_cache_moves(seq->kv, &seq->pages, sequence_pages(seq, tokens));
}

bool sequence_may_reserve(const struct sequence *seq, int32_t tokens)
{
    return !seq->pooled || kv_cache_lacks(seq->kv, &seq->pages, sequence_pages(seq, tokens)) == 0;
}

enum dgl_status sequence_reserve(struct sequence *seq, int32_t tokens)
{
    enum dgl_status status = kv_cache_take(seq->kv, &seq->pages, sequence_pages(seq, tokens));
    if (status == DGL_OK && seq->len % DGL_KV_PAGE)
        status = kv_cache_own(seq->kv, &seq->pages, (uint32_t)(seq->len / DGL_KV_PAGE));
    return status;
}

void sequence_trim(struct sequence *seq, int32_t len)
{
    if (len < seq->len) {
        seq->len = len < 0 ? 0 : len;
        seq->logits_valid = false;
        sequence_trim_pages(seq);
    }
}

void sequence_trim_pages(struct sequence *seq)
{
    kv_cache_give(seq->kv, &seq->pages, plan_kv_pages(seq->len));
}
