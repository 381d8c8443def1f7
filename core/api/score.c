/* Logits of every position: dgl_logits() and dgl_perplexity(). Both read whole rows of logits back,
 * chunk by chunk. */
#include "core/base/mem.h"
#include "core/memory/pool.h"
#include "core/seq/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Device memory for logits of one chunk; the rows per pass follow from it. */
#define ALL_LOGITS_BYTES (64ull << 20)

/* Makes the buffer and the run on the first use. */
static enum dgl_status prepare(struct dgl_session *s)
{
    struct dgl_device *dev = s->model->dev;
    if (!s->all_logits) {
        const struct dgl_limits *lim = dgl_device_get_limits(dev);
        uint64_t most =
            ALL_LOGITS_BYTES < lim->max_ssbo_bytes ? ALL_LOGITS_BYTES : lim->max_ssbo_bytes;
        uint64_t row = (uint64_t)s->model->info.vocab * 4, rows = most / row;
        rows = rows < 1 ? 1 : rows;
        rows = rows < (uint64_t)s->chunk ? rows : (uint64_t)s->chunk;
        enum dgl_status st = pool_acquire(
            dev->pool, &(struct gl_buffer_params){.size = row * rows, .label = "all logits"},
            &s->all_logits);
        if (st != DGL_OK)
            return st;
        s->score_rows = (int32_t)rows;
        s->slots.slot[SLOT_ALL_LOGITS] = (struct gl_range){s->all_logits, 0, row * rows};
    }
    return session_bind(s, &s->score, SEG_SCORE);
}

/* Evaluates the next `rows` tokens of s->ids and brings their logits, [rows, vocab]. */
static enum dgl_status score_chunk(struct dgl_session *s, int32_t rows, float *logits)
{
    struct dgl_device *dev = s->model->dev;
    if (atomic_load_explicit(&s->cancel, memory_order_relaxed))
        return dgl_fail(dev->log, DGL_ERR_CANCELLED, "scoring was cancelled");
    enum dgl_status st = session_pass(s, rows);
    if (st == DGL_OK)
        st = run_set_tokens(dev, &s->score, rows);
    if (st == DGL_OK)
        st = gl_submit(dev->gl, s->score.list, s->score.count, NULL);
    if (st == DGL_OK)
        st = gl_buffer_read(dev->gl, s->all_logits, 0, logits,
                            (uint64_t)rows * (uint64_t)s->model->info.vocab * 4);
    return st;
}

static enum dgl_status load_ids(struct dgl_session *s, const int32_t *ids, size_t count,
                                const char *what)
{
    enum dgl_status st = session_check_ids(s, what, ids, count);
    if (st != DGL_OK)
        return st;
    dgl_session_trim(s, 0);
    memcpy(s->ids, ids, count * sizeof(*ids));
    return session_expect(s, (int32_t)count);
}

/* ---- logits ---------------------------------------------------------------------------------- */

static enum dgl_status all_logits(struct dgl_session *s, size_t count, float *logits)
{
    enum dgl_status st = prepare(s);
    for (size_t done = 0; done < count && st == DGL_OK;) {
        int32_t rows = s->score_rows;
        rows = (size_t)rows < count - done ? rows : (int32_t)(count - done);
        st = score_chunk(s, rows, logits + done * (size_t)s->model->info.vocab);
        done += (size_t)rows;
    }
    return st;
}

static enum dgl_status last_logits(struct dgl_session *s, size_t count, float *logits)
{
    enum dgl_status st = session_eval(s, (int32_t)count);
    if (st == DGL_OK)
        st = gl_buffer_read(s->model->dev->gl, s->slots.slot[SLOT_LOGITS].buffer, 0, logits,
                            (uint64_t)s->model->info.vocab * 4);
    return st;
}

enum dgl_status dgl_logits(struct dgl_session *session, const struct dgl_logits_params *params,
                           float **logits, size_t *rows)
{
    static const struct dgl_logits_params defaults;
    struct dgl_device *dev = session->model->dev;
    struct gl_saved saved = {0};
    *logits = NULL;
    *rows = 0;
    params = params ? params : &defaults;
    enum dgl_status st = session_enter(session, &saved);
    if (st != DGL_OK)
        return st;
    size_t want = params->all ? params->num_ids : 1;
    float *out = NULL;
    st = load_ids(session, params->ids, params->num_ids, "the prompt");
    if (st == DGL_OK) {
        out = dgl_calloc(want, (size_t)session->model->info.vocab * sizeof(float));
        st = out ? DGL_OK : dgl_fail_memory(dev->log, "logits", want);
    }
    if (st == DGL_OK)
        st = params->all ? all_logits(session, params->num_ids, out)
                         : last_logits(session, params->num_ids, out);
    device_leave(dev, &saved);
    if (st != DGL_OK) {
        free(out);
        return st;
    }
    *logits = out;
    *rows = want;
    return DGL_OK;
}

/* ---- perplexity ------------------------------------------------------------------------------ */

/* -ln softmax(row)[id], in double. */
static double row_nll(const float *row, int32_t vocab, int32_t id)
{
    double max = row[0], sum = 0.0;
    for (int32_t i = 1; i < vocab; i++)
        max = row[i] > max ? row[i] : max;
    for (int32_t i = 0; i < vocab; i++)
        sum += exp(row[i] - max);
    return max + log(sum) - row[id];
}

/* Adds what token `pos` costs, given the logits of the token before it. */
static enum dgl_status add_nll(const struct dgl_session *s, const char *what, int32_t pos,
                               const float *row, double *nll)
{
    double cost = row_nll(row, s->model->info.vocab, s->ids[pos]);
    if (!isfinite(cost))
        return dgl_fail(s->model->dev->log, DGL_ERR_GPU,
                        "%s: token %d at position %d costs %f: the logits before it are not "
                        "numbers; " ADVICE_NOT_NUMBERS,
                        what, s->ids[pos], pos, cost);
    *nll += cost;
    return DGL_OK;
}

static enum dgl_status text_nll(struct dgl_session *s, const char *what, size_t count,
                                float *logits, double *nll)
{
    int32_t vocab = s->model->info.vocab;
    enum dgl_status st = DGL_OK;
    while ((size_t)s->len < count && st == DGL_OK) {
        int32_t start = s->len, rows = s->score_rows;
        rows = (size_t)rows < count - (size_t)start ? rows : (int32_t)count - start;
        st = score_chunk(s, rows, logits);
        for (int32_t i = 0; i < rows && st == DGL_OK; i++)
            if ((size_t)(start + i + 1) < count)
                st = add_nll(s, what, start + i + 1, logits + (size_t)i * (size_t)vocab, nll);
    }
    return st;
}

static enum dgl_status one_text(struct dgl_session *s, const struct dgl_perplexity_params *p,
                                size_t index, float *logits, struct dgl_perplexity_result *out)
{
    const struct encode_flags flags = {.add_special = true,
                                       .no_parse_special = p->no_parse_special};
    struct dgl_str text = {p->texts[index], p->lens ? p->lens[index] : strlen(p->texts[index])};
    const struct dgl_model *m = s->model;
    struct token_ids ids = {0};
    char what[512];
    snprintf(what, sizeof(what), "%s%stext %zu", p->source ? p->source : "", p->source ? ": " : "",
             index);
    enum dgl_status st = tokenizer_encode(m->dev->log, m->tok, text, flags, &ids);
    if (st == DGL_OK && ids.count > 0)
        st = load_ids(s, ids.ids, ids.count, what);
    if (st == DGL_OK && ids.count > 1) {
        st = text_nll(s, what, ids.count, logits, &out->nll);
        out->tokens += ids.count - 1;
    }
    free(ids.ids);
    return st;
}

static enum dgl_status perplexity_entered(struct dgl_session *s,
                                          const struct dgl_perplexity_params *p,
                                          struct dgl_perplexity_result *out)
{
    const struct dgl_model *m = s->model;
    if (!m->tok)
        return dgl_fail(m->dev->log, DGL_ERR_INVALID_ARG,
                        "%s has no tokenizer: perplexity needs one", m->info.path);
    enum dgl_status st = prepare(s);
    if (st != DGL_OK)
        return st;
    float *logits = dgl_calloc((size_t)s->score_rows, (size_t)m->info.vocab * sizeof(float));
    if (!logits)
        return dgl_fail_memory(m->dev->log, "logits", (uint64_t)s->score_rows);
    for (size_t i = 0; i < p->num_texts && st == DGL_OK; i++) {
        st = one_text(s, p, i, logits, out);
        if (st == DGL_OK && p->progress_cb &&
            !p->progress_cb(p->progress_priv, "texts", i + 1, p->num_texts))
            st = dgl_fail(m->dev->log, DGL_ERR_CANCELLED, "perplexity was cancelled");
    }
    free(logits);
    if (st == DGL_OK && out->tokens == 0)
        st = dgl_fail(m->dev->log, DGL_ERR_INVALID_ARG,
                      "no text has two tokens: there is nothing to predict");
    if (st == DGL_OK)
        out->ppl = exp(out->nll / (double)out->tokens);
    return st;
}

enum dgl_status dgl_perplexity(struct dgl_session *session,
                               const struct dgl_perplexity_params *params,
                               struct dgl_perplexity_result *out)
{
    static const struct dgl_perplexity_params defaults;
    struct gl_saved saved = {0};
    *out = (struct dgl_perplexity_result){0};
    enum dgl_status st = session_enter(session, &saved);
    if (st != DGL_OK)
        return st;
    st = perplexity_entered(session, params ? params : &defaults, out);
    device_leave(session->model->dev, &saved);
    return st;
}
