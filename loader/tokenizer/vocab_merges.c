/* SentencePiece joins the two adjacent pieces whose union has the best score. BPE joins the pair
 * whose merge comes first. If all possible unions are listed by descending score, both give the
 * same result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/budget.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/vocab_lists.h"

struct deriver {
    struct dgl_budget budget;
    const struct vocab_lists *v;
    struct tok_vocab pieces; /* normal tokens only */
    struct vocab_merge *merges;
    size_t count, cap;
};

struct ranked {
    struct vocab_merge merge;
    double score;       /* infinite for runs of blanks */
    size_t left, right; /* lengths in bytes, for runs of blanks */
};

static bool is_piece(const struct vocab_lists *v, uint64_t id)
{
    enum token_type type = vocab_token_type(v, id);
    return type == TOKEN_NORMAL || type == TOKEN_UNKNOWN;
}

/* Adds all ways to cut piece `id` into two pieces. */
static bool piece_cut(struct deriver *d, uint64_t id)
{
    struct dgl_str piece = d->v->tokens[id];
    uint32_t cp;
    for (size_t at = 0; at < piece.len;) {
        at += dgl_utf8_decode(piece.p + at, piece.len - at, &cp);
        if (at >= piece.len)
            break;
        /* Each cut hashes the left part, usually without a hit. */
        if (!dgl_budget_steps(&d->budget, dgl_budget_steps_of(at)))
            return false;
        int32_t left = tok_vocab_find(&d->pieces, piece.p, at);
        int32_t right = left < 0 ? -1 : tok_vocab_find(&d->pieces, piece.p + at, piece.len - at);
        if (right < 0)
            continue;
        if (!dgl_budget_steps(&d->budget, dgl_budget_steps_of(piece.len)) ||
            !dgl_budget_grow(&d->budget, (void **)&d->merges, &d->cap, d->count + 1,
                             sizeof(*d->merges)))
            return false;
        d->merges[d->count++] = (struct vocab_merge){left, right, (int32_t)id};
    }
    return true;
}

static int ranked_compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score > y->score || x->score < y->score)
        return x->score > y->score ? -1 : 1;
    if (isinf(x->score) && x->left != y->left)
        return x->left > y->left ? -1 : 1;
    if (isinf(x->score) && x->right != y->right)
        return x->right > y->right ? -1 : 1;
    if (x->merge.whole != y->merge.whole)
        return x->merge.whole < y->merge.whole ? -1 : 1;
    if (x->merge.left != y->merge.left)
        return x->merge.left < y->merge.left ? -1 : 1;
    return (x->merge.right > y->merge.right) - (x->merge.right < y->merge.right);
}

static enum dgl_status merges_sort(const struct dgl_log *log, struct deriver *d)
{
    struct ranked *ranked = dgl_new_array(struct ranked, d->count);
    if (!ranked)
        return dgl_fail_memory(log, "merges", d->count * sizeof(*ranked));
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < d->count; i++) {
        const struct vocab_merge *m = &d->merges[i];
        double score = d->v->scores[m->whole];
        if (!isfinite(score) && status == DGL_OK)
            status = dgl_fail(log, DGL_ERR_FORMAT, "%s: tokenizer.ggml.scores[%d] is not a number",
                              d->v->name, m->whole);
        if (!isfinite(score))
            score = 0;
        else if (vocab_is_run(d->v, (uint64_t)m->whole))
            score = INFINITY;
        ranked[i] =
            (struct ranked){*m, score, d->v->tokens[m->left].len, d->v->tokens[m->right].len};
    }
    qsort(ranked, d->count, sizeof(*ranked), ranked_compare);
    for (size_t i = 0; i < d->count; i++)
        d->merges[i] = ranked[i].merge;
    free(ranked);
    return status;
}

enum dgl_status vocab_merges_derive(const struct dgl_log *log, const struct vocab_lists *v,
                                    struct vocab_merge **out, size_t *count)
{
    struct deriver d = {.v = v};
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < v->count; i++)
        bytes += v->tokens[i].len;
    d.budget = (struct dgl_budget){.log = log,
                                   .name = v->name,
                                   .work = "finding the merges of the vocabulary",
                                   .advice = "; its tokens are too long",
                                   .refusal = DGL_ERR_UNSUPPORTED,
                                   .max_steps = dgl_budget_limit(100000000, 256, bytes),
                                   .max_bytes = dgl_budget_limit(100000000, 64, bytes)};
    dgl_budget_start(&d.budget);
    bool ok = tok_vocab_reserve(&d.pieces, (size_t)v->count);
    for (uint64_t i = 0; i < v->count && ok; i++)
        ok = !is_piece(v, i) || tok_vocab_add(&d.pieces, v->tokens[i], (int32_t)i);
    ok = ok || dgl_budget_fail_memory(&d.budget, bytes);
    for (uint64_t i = 0; i < v->count && ok; i++)
        ok = !is_piece(v, i) || piece_cut(&d, i);
    enum dgl_status status = ok ? merges_sort(log, &d) : d.budget.status;
    tok_vocab_finish(&d.pieces);
    if (status != DGL_OK) {
        free(d.merges);
        d.merges = NULL;
        d.count = 0;
    }
    *out = d.merges;
    *count = d.count;
    return status;
}
