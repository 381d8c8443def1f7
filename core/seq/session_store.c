/*
 * Saves and loads a session. Copies the device's state to and from a session file (session_file.h)
 * with buffers of one page.
 *
 * Rows are stored by layer, keys before values, in the order of positions. They depend neither on
 * the page table nor on the device. A layer with a window is stored whole, as in the cache: if a
 * later prompt differs from the held tokens early, it needs the keys before the difference.
 */
#include "core/seq/prefill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/memory/kv_rows.h"
#include "core/seq/session_file.h"
#include "loader/model/identity.h"

/* A copy in progress, either to a file or from a file. */
struct transfer {
    struct dgl_session *s;
    struct session_file file;
    const char *path; /* of the file */
    int32_t *ids;
    char *data; /* the caller's bytes */
    dgl_progress_cb progress_cb;
    void *progress_priv;
    uint64_t done; /* in bytes */
};

/* Fills the head of a file for the session's current state. The precision describes the properties
 * of the kernels that change the cached numbers by more than rounding: arithmetic in f16, and q4_k
 * weights that were unpacked to another type. */
static enum dgl_status describe(const struct dgl_session *s, const char *path,
                                struct session_head *out)
{
    const struct dgl_model *m = s->model;
    const struct plan *plan = session_plan(s);
    const struct model_desc *desc = plan->desc;
    const struct kv_layout *kv = &plan->kv;
    bool f16 = false;
    if (!path || !path[0])
        return dgl_fail(m->log, DGL_ERR_INVALID_ARG, "no path was given for the session");
    *out = (struct session_head){.kv = kv_layout_identity(kv),
                                 .kv_token_bytes = kv_layout_page_bytes(kv) / DGL_KV_PAGE,
                                 .layers = (uint32_t)desc->layers,
                                 .kv_heads = (uint32_t)desc->kv_heads,
                                 .head_dim = (uint32_t)desc->head_dim,
                                 .vocab = (uint32_t)desc->vocab,
                                 .tokens = (uint32_t)s->seq.len,
                                 .rope_tokens = (uint32_t)s->state.rope_tokens,
                                 .has_logits = s->seq.logits_valid && s->seq.len > 0};
    snprintf(out->name, sizeof(out->name), "%s", m->info.name);
    for (size_t i = 0; i < plan->kernels.count; i++)
        f16 = f16 || plan->kernels.uses[i]->choice.kernel->f16;
    const bool unpacked = m->shard->engine->weights.expands_q4_k;
    snprintf(out->precision, sizeof(out->precision), "arithmetic in %s%s%s", f16 ? "f16" : "f32",
             unpacked ? ", q4_k as " : "",
             unpacked ? dgl_dtype_get(weights_q4_k_dtype(shard_kernels(m->shard)))->name : "");
    enum dgl_status status = model_identity(m->log, m->file, out->model);
    return status == DGL_OK ? tokenizer_identity(m->log, m->tok, out->tokenizer) : status;
}

static enum dgl_status advance(struct transfer *t, uint64_t bytes)
{
    t->done += bytes;
    const bool go_on =
        !t->progress_cb || t->progress_cb(t->progress_priv, "bytes", t->done, t->file.size);
    return go_on && !session_is_cancelled(t->s) ? DGL_OK : DGL_ERR_CANCELLED;
}

/* Returns true if no number is infinite or NaN. `size` is the size of a number: 2 bytes for f16, 4
 * for f32. Other sizes are not checked. */
static bool are_finite(const void *numbers, uint64_t bytes, uint32_t size)
{
    const uint16_t *half = numbers;
    const uint32_t *word = numbers;
    bool finite = true;
    for (uint64_t i = 0; size == sizeof(*half) && i < bytes / size; i++)
        finite &= (half[i] & 0x7c00u) != 0x7c00u;
    for (uint64_t i = 0; size == sizeof(*word) && i < bytes / size; i++)
        finite &= (word[i] & 0x7f800000u) != 0x7f800000u;
    return finite;
}

/* A file with such numbers would replace a good one and could never be continued. */
static enum dgl_status fail_finite(const struct transfer *t, const char *part, uint32_t layer)
{
    return dgl_fail(t->s->model->log, DGL_ERR_GPU,
                    "%s is not saved: the %s of layer %u have an infinity or NaN, so a kernel or "
                    "the driver computed wrong; the file stays as it was",
                    t->path, part, layer);
}

/* Moves all parts between the session and the file, ends the file, and reports that all bytes are
 * moved. Data that is read ends with an added NUL. An id of a file that is not in the vocabulary is
 * a fault of the file: DGL_ERR_FORMAT. */
static enum dgl_status move_all(struct transfer *t)
{
    struct dgl_session *s = t->s;
    struct dgl_model *m = s->model;
    const struct session_head *head = &t->file.head;
    const struct plan *plan = session_plan(s);
    const bool in = t->file.in != NULL;
    const uint64_t page_bytes = kv_layout_widest_bytes(&plan->kv);
    const uint64_t logit_bytes = head->has_logits ? head->vocab * 4ull : 0;
    struct kv_rows rows = {.heads = head->kv_heads};
    void *page = dgl_malloc(page_bytes), *buffer = dgl_malloc(page_bytes);
    float *logits = dgl_calloc(1, logit_bytes);
    enum dgl_status status = DGL_OK;
    if (in) {
        t->ids = dgl_new_array(int32_t, head->tokens);
        t->data = dgl_calloc(head->data_bytes + 1, 1);
    }
    if (!t->ids || !logits || (in && !t->data) || !page || !buffer)
        TRY(dgl_fail_memory(m->log, "session file",
                            head->tokens * 4ull + logit_bytes + head->data_bytes + 1 +
                                2 * page_bytes));
    if (!in && logit_bytes > 0)
        TRY(pass_state_read(&s->state, BUF_LOGITS, 0, 0, logits, logit_bytes));
    if (!in && !are_finite(logits, logit_bytes, 4))
        TRY(fail_finite(t, "logits after the last", head->layers));
    TRY(session_file_move(&t->file, t->ids, head->tokens * 4ull));
    TRY(session_file_move(&t->file, logits, logit_bytes));
    TRY(session_file_move(&t->file, t->data, head->data_bytes));
    if (in) {
        if (head->tokens)
            status = session_check_ids(s, "the session file", t->ids, head->tokens);
        TRY(status == DGL_ERR_INVALID_ARG ? DGL_ERR_FORMAT : status);
        sequence_trim(&s->seq, 0); /* pages shared with other sessions are not overwritten */
        s->seq.logits_valid = false;
        TRY(session_reserve(s, (int32_t)head->tokens));
        TRY(pass_state_write_rope(&s->state, (int32_t)head->rope_tokens));
        if (head->tokens)
            TRY(pass_state_write(&s->state, BUF_IDS, 0, 0, t->ids, head->tokens * 4ull));
        if (head->has_logits)
            TRY(pass_state_write(&s->state, BUF_LOGITS, 0, 0, logits, logit_bytes));
    }
    TRY(advance(t, 0));
    for (uint32_t layer = 0; layer < head->layers; layer++) {
        const struct kv_place place = kv_layout_find(&plan->kv, plan->desc, (int32_t)layer);
        rows.group = place.group;
        rows.layer = place.layer;
        for (rows.part = KV_KEYS; rows.part < KV_PARTS; rows.part++) {
            const uint64_t row_bytes =
                plan->kv.group[place.group].part_bytes[rows.part] / DGL_KV_PAGE;
            const uint32_t number_bytes =
                (uint32_t)(row_bytes / ((uint64_t)head->kv_heads * head->head_dim));
            rows.head_bytes = (uint32_t)(row_bytes / head->kv_heads);
            for (uint32_t pos = 0; pos < head->tokens; pos += rows.count) {
                const uint32_t left = head->tokens - pos;
                rows.page = pos / DGL_KV_PAGE;
                rows.count = left < DGL_KV_PAGE ? left : DGL_KV_PAGE;
                if (!in)
                    TRY(kv_rows_read(&m->shard->kv, m->shard->dev, &s->seq.pages, &rows, page,
                                     buffer));
                if (!in && !are_finite(buffer, rows.count * row_bytes, number_bytes))
                    TRY(fail_finite(t, rows.part == KV_KEYS ? "keys" : "values", layer));
                TRY(session_file_move(&t->file, buffer, rows.count * row_bytes));
                if (in)
                    TRY(kv_rows_write(&m->shard->kv, m->shard->dev, &s->seq.pages, &rows, page,
                                      buffer));
                TRY(advance(t, rows.count * row_bytes));
            }
        }
    }
    TRY(session_file_end(&t->file));
    if (in) {
        TRY(gl_finish(session_dev(s)->gl));
        memcpy(s->seq.ids, t->ids, (size_t)head->tokens * 4);
        s->seq.len = (int32_t)head->tokens;
        s->seq.logits_valid = head->has_logits;
    }
    if (t->progress_cb)
        t->progress_cb(t->progress_priv, "bytes", t->file.size, t->file.size);
done:
    free(logits);
    free(page);
    free(buffer);
    return status;
}

enum dgl_status session_save(struct dgl_session *s, const struct dgl_session_save_params *p)
{
    struct transfer t = {.s = s,
                         .path = p->path,
                         .ids = s->seq.ids,
                         .data = (char *)p->data,
                         .progress_cb = p->progress_cb,
                         .progress_priv = p->progress_priv};
    struct session_head head;
    enum dgl_status status;
    TRY(describe(s, p->path, &head));
    if (p->data_len > DGL_SESSION_DATA_MAX || (p->data_len && !p->data))
        return dgl_fail(s->model->log, DGL_ERR_INVALID_ARG,
                        "%zu bytes were given to be kept with the session: at most %u are, and "
                        "they must be there",
                        p->data_len, DGL_SESSION_DATA_MAX);
    head.data_bytes = p->data_len;
    TRY(session_file_create(&t.file, s->model->log, p->path, &head));
    TRY(move_all(&t));
done:
    session_file_close(&t.file);
    return status;
}

enum dgl_status session_load(struct dgl_session *s, const struct dgl_session_load_params *p,
                             char **data, size_t *data_len)
{
    struct transfer t = {.s = s, .progress_cb = p->progress_cb, .progress_priv = p->progress_priv};
    struct session_head mine;
    enum dgl_status status;
    TRY(describe(s, p->path, &mine));
    mine.tokens = (uint32_t)s->seq.context;
    mine.rope_tokens = (uint32_t)s->model->info.context_max;
    TRY(session_file_open(&t.file, s->model->log, p->path, &mine));
    TRY(move_all(&t));
    if (data_len)
        *data_len = t.file.head.data_bytes;
    if (data) {
        *data = t.data;
        t.data = NULL;
    }
done:
    if (status != DGL_OK)
        sequence_trim_pages(&s->seq);
    session_file_close(&t.file);
    free(t.ids);
    free(t.data);
    return status;
}
