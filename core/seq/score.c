/* Logits of every position, for dgl_logits() and dgl_perplexity(): whole rows are read back, pass
 * by pass. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/seq/session.h"

/* Gives the session a sequence to evaluate from its first token on. */
static enum dgl_status load_ids(struct dgl_session *s, const int32_t *ids, size_t count,
                                const char *name)
{
    enum dgl_status status = session_check_ids(s, name, ids, count);
    if (status != DGL_OK)
        return status;
    session_trim(s, 0);
    memcpy(s->ids, ids, count * sizeof(*ids));
    return session_expect(s, (int32_t)count);
}

/* Makes room for the rows of a pass; *rows is how many one may have. */
static enum dgl_status begin_scoring(struct dgl_session *s, int32_t *rows)
{
    struct workspace *ws = &s->model->workspace;
    enum dgl_status status = workspace_need_scores(ws, s->model->dev, &s->model->engine->plan);
    *rows = ws->score_rows < s->ubatch ? ws->score_rows : s->ubatch;
    return status;
}

/* Evaluates the next `rows` tokens of s->ids and brings their logits, [rows, vocab]. */
static enum dgl_status score_pass(struct dgl_session *s, int32_t rows, float *logits)
{
    struct dgl_device *dev = s->model->dev;
    if (session_is_cancelled(s))
        return dgl_fail(dev->log, DGL_ERR_CANCELLED, "scoring was cancelled");
    enum dgl_status status = session_pass(s, rows, ROW_SCORE);
    if (status == DGL_OK)
        status = gl_buffer_read(dev->gl, s->model->workspace.range[BUF_ALL_LOGITS].buffer, 0,
                                logits, (uint64_t)rows * (uint64_t)s->model->info.vocab * 4);
    return status;
}

/* ---- logits ---------------------------------------------------------------------------------- */

enum dgl_status session_logits(struct dgl_session *s, const struct dgl_logits_params *p,
                               float **logits, size_t *rows)
{
    size_t vocab = (size_t)s->model->info.vocab, count = p->num_ids, want = p->all ? count : 1;
    int32_t most = 0;
    float *out = NULL;
    enum dgl_status status = load_ids(s, p->ids, count, "the prompt");
    if (status == DGL_OK) {
        out = dgl_calloc(want, vocab * sizeof(float));
        status = out ? DGL_OK : dgl_fail_memory(s->model->dev->log, "logits", want);
    }
    if (status == DGL_OK && p->all) {
        status = begin_scoring(s, &most);
        for (size_t done = 0; done < count && status == DGL_OK;) {
            size_t left = count - done;
            int32_t n = left < (size_t)most ? (int32_t)left : most;
            status = score_pass(s, n, out + done * vocab);
            done += (size_t)n;
        }
    } else if (status == DGL_OK) {
        status = session_eval(s, (int32_t)count);
        if (status == DGL_OK)
            status = gl_buffer_read(s->model->dev->gl, s->memory.state[BUF_LOGITS].buffer, 0, out,
                                    vocab * sizeof(float));
    }
    if (status != DGL_OK) {
        free(out);
        return status;
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

/* Adds up what every token but the first costs, given the logits of the one before it. `logits` has
 * room for `most` rows. */
static enum dgl_status score_text(struct dgl_session *s, const char *name, size_t count,
                                  int32_t most, float *logits, double *nll)
{
    int32_t vocab = s->model->info.vocab;
    enum dgl_status status = DGL_OK;
    while ((size_t)s->len < count && status == DGL_OK) {
        int32_t start = s->len, left = (int32_t)count - start, rows = left < most ? left : most;
        status = score_pass(s, rows, logits);
        for (int32_t i = 0; i < rows && status == DGL_OK; i++) {
            int32_t pos = start + i + 1;
            if ((size_t)pos >= count)
                break;
            double cost = row_nll(logits + (size_t)i * (size_t)vocab, vocab, s->ids[pos]);
            if (!isfinite(cost))
                status = dgl_fail(s->model->dev->log, DGL_ERR_GPU,
                                  "%s: token %d at position %d costs %f: the logits before it are "
                                  "not numbers; " ADVICE_NOT_NUMBERS,
                                  name, s->ids[pos], pos, cost);
            *nll += cost;
        }
    }
    return status;
}

enum dgl_status session_perplexity(struct dgl_session *s, const struct dgl_perplexity_params *p,
                                   struct dgl_perplexity_result *out)
{
    const struct encode_flags flags = {.add_special = true,
                                       .no_parse_special = p->no_parse_special};
    const struct dgl_model *m = s->model;
    const struct dgl_log *log = m->dev->log;
    const char *source = p->source ? p->source : "", *colon = p->source ? ": " : "";
    float *logits = NULL;
    int32_t most = 0;
    if (!m->tok)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s has no tokenizer: perplexity needs one",
                        m->info.path);
    enum dgl_status status = begin_scoring(s, &most);
    if (status != DGL_OK)
        return status;
    logits = dgl_calloc((size_t)most, (size_t)m->info.vocab * sizeof(float));
    if (!logits)
        return dgl_fail_memory(log, "logits", (uint64_t)most);
    for (size_t i = 0; i < p->num_texts && status == DGL_OK; i++) {
        struct dgl_str text = {p->texts[i], p->lens ? p->lens[i] : strlen(p->texts[i])};
        struct token_ids ids = {0};
        char name[512];
        snprintf(name, sizeof(name), "%s%stext %zu", source, colon, i);
        struct dgl_named_log named;
        dgl_named_log_init(&named, log, name);
        status = tokenizer_encode(&named.log, m->tok, text, flags, &ids);
        if (status == DGL_OK && ids.count > 0)
            status = load_ids(s, ids.ids, ids.count, name);
        if (status == DGL_OK && ids.count > 1) {
            status = score_text(s, name, ids.count, most, logits, &out->nll);
            out->tokens += ids.count - 1;
        }
        free(ids.ids);
        if (status == DGL_OK && p->progress_cb &&
            !p->progress_cb(p->progress_priv, "texts", i + 1, p->num_texts))
            status = dgl_fail(log, DGL_ERR_CANCELLED, "perplexity was cancelled");
    }
    free(logits);
    if (status == DGL_OK && out->tokens == 0)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "no text has two tokens: there is nothing to predict");
    if (status == DGL_OK)
        out->ppl = exp(out->nll / (double)out->tokens);
    return status;
}
