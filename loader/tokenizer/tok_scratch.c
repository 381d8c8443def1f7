/* Working memory: growing arrays, and their release. */
#include "loader/tokenizer/tok_scratch.h"

#include <stdlib.h>

#include "core/base/mem.h"

void tok_scratch_finish(struct tok_scratch *scratch)
{
    tok_regex_scratch_destroy(&scratch->regex);
    free(scratch->spans.items);
    free(scratch->raw_cuts.items);
    free(scratch->cuts.items);
    dgl_buf_finish(&scratch->normalized);
    dgl_buf_finish(&scratch->rewrite);
    dgl_buf_finish(&scratch->normalized_taint);
    dgl_buf_finish(&scratch->rewrite_taint);
    free(scratch->cps);
    dgl_buf_finish(&scratch->text.bytes);
    free(scratch->text.pieces);
    dgl_buf_finish(&scratch->next.bytes);
    free(scratch->next.pieces);
    tok_model_scratch_finish(&scratch->model);
    *scratch = (struct tok_scratch){0};
}

enum dgl_status tok_text_add(struct dgl_budget *budget, struct tok_text *text,
                             struct tok_piece piece)
{
    if (text->count == text->cap && !dgl_budget_grow(budget, (void **)&text->pieces, &text->cap,
                                                     text->count + 1, sizeof(piece)))
        return budget->status;
    text->pieces[text->count++] = piece;
    return DGL_OK;
}

enum dgl_status tok_cuts_add(struct dgl_budget *budget, struct tok_cuts *cuts, struct tok_cut cut)
{
    if (cuts->count == cuts->cap &&
        !dgl_budget_grow(budget, (void **)&cuts->items, &cuts->cap, cuts->count + 1, sizeof(cut)))
        return budget->status;
    cuts->items[cuts->count++] = cut;
    return DGL_OK;
}

size_t tok_origin_of(size_t origin, size_t start, size_t end)
{
    if (origin <= start)
        return 0;
    return (origin < end ? origin : end) - start;
}

void tok_swap(struct dgl_buf *a, struct dgl_buf *b)
{
    struct dgl_buf c = *a;
    *a = *b;
    *b = c;
}
