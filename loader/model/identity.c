/* Identities of models and tokenizers: hashes of their content, independent of paths. */
#include "loader/model/identity.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/hash.h"
#include "loader/tokenizer/tokenizer.h"

/* Exact, in any locale. */
static void put_f64(struct dgl_buf *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    dgl_buf_printf(out, " %016" PRIx64, bits);
}

static void put_rope(struct dgl_buf *out, const struct rope_desc *r)
{
    dgl_buf_printf(out, "\nrope %d %d %d %d", (int)r->kind, r->dims, r->original_context,
                   r->truncate);
    const double values[] = {r->theta,     r->scale,     r->factor,   r->low_freq,
                             r->high_freq, r->beta_fast, r->beta_slow};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        put_f64(out, values[i]);
    for (int32_t i = 0; i < r->dims / 2 && r->kind == ROPE_LONGROPE; i++) {
        put_f64(out, r->short_factor[i]);
        put_f64(out, r->long_factor[i]);
    }
}

static void put_desc(struct dgl_buf *out, const struct model_desc *d)
{
    dgl_buf_printf(out, "model %s %u %d %d %d %d %d %d %d %d %d %d %d", d->family, d->parts,
                   d->layers, d->hidden, d->intermediate, d->vocab, d->heads, d->kv_heads,
                   d->head_dim, d->context_max, d->norm_plus_one, (int)d->act, d->tied_head);
    const double values[] = {d->norm_eps,    d->attn_scale,     d->attn_softcap,
                             d->logit_scale, d->residual_scale, d->logit_softcap,
                             d->embed_scale, d->act_alpha,      d->act_limit};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        put_f64(out, values[i]);
    dgl_buf_printf(out, "\nexperts %d %d %d %d", d->moe.experts, d->moe.top_k, d->moe.intermediate,
                   (int)d->moe.scoring);
    for (int set = 0; set < ROPE_SETS; set++)
        put_rope(out, &d->rope[set]);
    for (int32_t i = 0; i < d->layers; i++)
        dgl_buf_printf(out, "\nlayer %d %d %d", d->layer[i].sparse, d->layer[i].window,
                       d->layer[i].rope);
}

enum dgl_status model_identity(const struct dgl_log *log, const struct dgl_model_file *file,
                               char out[65])
{
    const struct tensor_source *tensors = file->tensors;
    const size_t count = tensor_source_count(tensors);
    struct dgl_buf text = {0};
    unsigned char sample[MODEL_SAMPLE_BYTES];
    enum dgl_status status = DGL_OK;
    put_desc(&text, &file->desc);
    dgl_buf_printf(&text, "\nmanifest %s", file->manifest_sha256);
    for (size_t i = 0; i < count; i++) {
        const struct tensor_info *t = tensor_source_at(tensors, i);
        const size_t size = t->bytes < sizeof(sample) ? (size_t)t->bytes : sizeof(sample);
        dgl_buf_printf(&text, "\ntensor %s %s", t->name, dgl_dtype_get(t->dtype)->name);
        for (uint32_t k = 0; k < t->rank; k++)
            dgl_buf_printf(&text, " %" PRIu64, t->shape[k]);
        if (file->format == MODEL_SYNTHETIC)
            continue;
        TRY(tensor_source_read(log, tensors, i, (t->bytes - size) / 2, sample, size));
        dgl_buf_putc(&text, '\n');
        dgl_buf_append(&text, sample, size);
    }
    if (text.failed || !dgl_hash_bytes(DGL_HASH_SHA256, text.p, text.len, out))
        status = dgl_fail_memory(log, "the model's identity", text.len);
done:
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status tokenizer_identity(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                   char out[65])
{
    const int32_t last = tok ? tokenizer_max_id(tok) : -1;
    struct dgl_buf text = {0};
    dgl_buf_printf(&text, "%d", last);
    for (int32_t id = 0; id <= last; id++) {
        struct dgl_str spelling = {"", 0};
        tokenizer_spelling(tok, id, &spelling);
        dgl_buf_printf(&text, "\n%d %zu ", id, spelling.len);
        dgl_buf_append(&text, spelling.p, spelling.len);
    }
    const bool ok = !text.failed && dgl_hash_bytes(DGL_HASH_SHA256, text.p, text.len, out);
    const size_t len = text.len;
    dgl_buf_finish(&text);
    return ok ? DGL_OK : dgl_fail_memory(log, "the tokenizer's identity", len);
}
