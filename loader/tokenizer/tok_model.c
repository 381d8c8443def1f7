/* Selects the kind of model, and shared functions of both kinds. */
#include "loader/tokenizer/tok_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/tokenizer/tok_bpe.h"
#include "loader/tokenizer/tok_unigram.h"

void tok_model_find_bytes(struct tok_model *model)
{
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        int len = snprintf(name, sizeof(name), "<0x%02X>", i);
        model->byte_ids[i] = tok_vocab_find(&model->vocab, name, (size_t)len);
    }
}

enum dgl_status tok_model_fail_unknown(const struct dgl_log *log, const struct tok_model *model)
{
    return dgl_fail(log, DGL_ERR_INVALID_ARG,
                    "the text has a character without a token, and the tokenizer's unknown token "
                    "\"%s\" is not in its vocabulary",
                    DGL_PRINTABLE(model->unk_token));
}

enum dgl_status token_ids_append(const struct dgl_log *log, struct token_ids *ids,
                                 const int32_t *more, size_t count)
{
    if (count > ids->cap - ids->count &&
        !dgl_grow((void **)&ids->ids, &ids->cap, ids->count + count, sizeof(*ids->ids)))
        return dgl_fail_memory(log, "token ids", (ids->count + count) * sizeof(*ids->ids));
    if (count > 0)
        memcpy(ids->ids + ids->count, more, count * sizeof(*more));
    ids->count += count;
    return DGL_OK;
}

enum dgl_status token_ids_add(const struct dgl_log *log, struct token_ids *ids, int32_t id)
{
    return token_ids_append(log, ids, &id, 1);
}

enum dgl_status tok_model_load(struct dgl_json_reader r, const struct dgl_json *json,
                               const struct vocab_lists *lists, struct tok_model *out)
{
    *out = (struct tok_model){.unk_id = -1};
    const struct dgl_json *type;
    enum dgl_status status = dgl_json_opt(r, json, "type", DGL_JSON_STRING, &type);
    if (status != DGL_OK)
        return status;
    /* Old files have no type: merges mean BPE, a list as vocabulary means Unigram. */
    struct dgl_str name = dgl_json_str(type);
    bool bpe =
        type ? dgl_str_eq(name, "BPE") : dgl_json_is(dgl_json_get(json, "merges"), DGL_JSON_ARRAY);
    bool unigram = type ? dgl_str_eq(name, "Unigram")
                        : dgl_json_is(dgl_json_get(json, "vocab"), DGL_JSON_ARRAY);
    if (bpe)
        return tok_bpe_load(r, json, lists, out);
    if (unigram)
        return tok_unigram_load(r, json, out);
    return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                    "%s: model type \"%s\" is not implemented, only BPE and Unigram are",
                    dgl_json_name(r.doc), DGL_PRINTABLE_STR(name));
}

void tok_model_finish(struct tok_model *model)
{
    tok_bpe_destroy(&model->bpe);
    tok_unigram_destroy(&model->unigram);
    tok_vocab_finish(&model->vocab);
    free(model->unk_token);
    *model = (struct tok_model){0};
}

void tok_model_scratch_finish(struct tok_model_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->nodes);
    free(scratch->heap);
    free(scratch->path);
    tok_cache_finish(&scratch->cache);
    *scratch = (struct tok_model_scratch){0};
}

enum dgl_status tok_model_encode(struct dgl_budget *budget, const struct tok_model *model,
                                 struct tok_model_scratch *scratch, struct dgl_str piece,
                                 struct token_ids *out)
{
    if (piece.len == 0)
        return DGL_OK;
    return model->bpe ? tok_bpe_encode(budget, model, scratch, piece, out)
                      : tok_unigram_encode(budget, model, scratch, piece, out);
}
