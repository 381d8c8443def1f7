/* Reads logits and hidden states of evaluated tokens back to the host, pass by pass, for
 * dgl_session_eval(), dgl_logits(), dgl_embed() and dgl_perplexity(). */
#include "core/seq/score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"

enum dgl_status session_load_ids(struct dgl_session *s, const int32_t *ids, size_t count,
                                 const char *name)
{
    enum dgl_status status = session_check_ids(s, name, ids, count);
    if (status != DGL_OK)
        return status;
    sequence_trim(&s->seq, 0);
    memcpy(s->seq.ids, ids, count * sizeof(*ids));
    return session_expect(s, (int32_t)count);
}

enum dgl_status session_begin_scoring(struct dgl_session *s, int32_t *rows)
{
    struct workspace *ws = &s->model->shard->workspace;
    enum dgl_status status = workspace_need_scores(ws, session_dev(s), session_plan(s));
    *rows = ws->score_rows < s->state.ubatch ? ws->score_rows : s->state.ubatch;
    return status;
}

enum dgl_status session_eval_range(struct dgl_session *s, int32_t first, int32_t count,
                                   float *logits, float *hidden)
{
    struct gl_device *gl = session_dev(s)->gl;
    const struct gl_range *scratch = s->model->shard->workspace.range;
    const size_t vocab = (size_t)s->model->info.vocab, width = (size_t)s->model->info.hidden;
    const bool score = logits && count - first > 1;
    enum dgl_status status = DGL_OK;
    int32_t most = s->state.ubatch;
    if (score)
        TRY(session_begin_scoring(s, &most));
    struct shape_set shapes = session_body_shapes(s, count - s->seq.len, most);
    if (logits || !hidden)
        shapes = shapes_add(shapes, score ? PASS_SCORE : PASS_HEAD);
    if (hidden || score)
        shapes = shapes_add(shapes, PASS_HIDDEN);
    TRY(pass_state_compile(&s->state, shapes));
    while (s->seq.len < count) {
        int32_t start = s->seq.len, left = count - start;
        int32_t rows = session_pass_tokens(s, left, most, score);
        int32_t skip = first > start ? first - start : 0; /* rows without results */
        const bool wanted = skip < rows;
        uint32_t flags = hidden && wanted ? ROW_HIDDEN : 0;
        if (score && wanted)
            flags |= ROW_SCORE;
        else if (rows == left && (logits || !hidden))
            flags |= ROW_LOGITS;
        TRY(session_is_cancelled(s) ? DGL_ERR_CANCELLED : session_pass(s, rows, flags));
        if (flags == 0 || (flags == ROW_LOGITS && !logits))
            TRY(gl_flush(gl));
        size_t row = (size_t)(start + skip - first), num = (size_t)(rows - skip);
        if (flags & ROW_HIDDEN)
            TRY(gl_buffer_read(gl, scratch[BUF_NORMED].buffer, (size_t)skip * width * 4,
                               hidden + row * width, num * width * 4));
        if (flags & ROW_SCORE)
            TRY(gl_buffer_read(gl, scratch[BUF_ALL_LOGITS].buffer, (size_t)skip * vocab * 4,
                               logits + row * vocab, num * vocab * 4));
        else if (flags & ROW_LOGITS && logits)
            TRY(pass_state_read(&s->state, BUF_LOGITS, 0, 0, logits, vocab * 4));
    }
done:
    return status;
}

/* ---- eval ------------------------------------------------------------------------------------ */

enum dgl_status session_append(struct dgl_session *s, const struct dgl_eval_params *p,
                               float *logits, float *hidden)
{
    const struct dgl_log *log = s->model->log;
    const size_t held = (size_t)s->seq.len, count = held + p->num_ids;
    enum dgl_status status = DGL_OK;
    if (count == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "no ids were given and the session holds none: give at least one token");
    if (p->num_ids == 0 && s->seq.logits_valid && !hidden)
        return logits ? pass_state_read(&s->state, BUF_LOGITS, 0, 0, logits,
                                        (uint64_t)s->model->info.vocab * 4)
                      : DGL_OK;
    if (p->num_ids == 0) {
        sequence_trim(&s->seq, (int32_t)held - 1);
        return session_eval_range(s, (int32_t)held - 1, (int32_t)held, logits, hidden);
    }
    if (p->num_ids > (size_t)s->seq.context - held)
        return dgl_fail(log, DGL_ERR_CONTEXT_FULL,
                        "the session holds %zu tokens of %d, %zu more do not fit: trim it, or "
                        "create it with a larger context",
                        held, s->seq.context, p->num_ids);
    TRY(session_check_ids(s, "the ids", p->ids, p->num_ids));
    memcpy(s->seq.ids + held, p->ids, p->num_ids * sizeof(*p->ids));
    TRY(session_expect(s, (int32_t)count));
    TRY(session_eval_range(s, p->all ? (int32_t)held : (int32_t)count - 1, (int32_t)count, logits,
                           hidden));
done:
    return status;
}

/* ---- logits ---------------------------------------------------------------------------------- */

enum dgl_status session_logits(struct dgl_session *s, const struct dgl_logits_params *p,
                               float **logits, size_t *rows)
{
    size_t vocab = (size_t)s->model->info.vocab, count = p->num_ids, want = p->all ? count : 1;
    enum dgl_status status = session_load_ids(s, p->ids, count, "the prompt");
    if (status != DGL_OK)
        return status;
    float *out = dgl_calloc(want, vocab * sizeof(float));
    if (!out)
        return dgl_fail_memory(s->model->log, "logits", want);
    status = session_eval_range(s, (int32_t)(count - want), (int32_t)count, out, NULL);
    if (status != DGL_OK) {
        free(out);
        return status;
    }
    *logits = out;
    *rows = want;
    return DGL_OK;
}

/* ---- embeddings ------------------------------------------------------------------------------ */

static void normalize_row(float *row, size_t width)
{
    double sum = 0.0;
    for (size_t i = 0; i < width; i++)
        sum += (double)row[i] * row[i];
    double factor = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
    for (size_t i = 0; i < width; i++)
        row[i] = (float)(row[i] * factor);
}

enum dgl_status session_embed(struct dgl_session *s, const struct dgl_embed_params *p,
                              float **embeddings, size_t *rows)
{
    const struct dgl_log *log = s->model->log;
    const size_t width = (size_t)s->model->info.hidden;
    struct token_ids ids = {0};
    float *out = NULL, *part = NULL;
    double *sum = NULL;
    size_t want = 1;
    enum dgl_status status = DGL_ERR_INVALID_ARG;
    if ((unsigned)p->pooling > DGL_POOLING_NONE) {
        dgl_fail(log, status, "pooling is %d: mean, last and none are 0 to %d", (int)p->pooling,
                 DGL_POOLING_NONE);
        goto done;
    }
    status = session_prompt_ids(s, PROMPT_OF(p), &ids);
    if (status == DGL_OK)
        status = session_load_ids(s, ids.ids, ids.count, "the prompt");
    if (status != DGL_OK)
        goto done;
    int32_t count = (int32_t)ids.count;
    want = p->pooling == DGL_POOLING_NONE ? ids.count : 1;
    out = dgl_calloc(want, width * sizeof(*out));
    if (p->pooling == DGL_POOLING_MEAN) {
        part = dgl_calloc((size_t)s->state.ubatch, width * sizeof(*part));
        sum = dgl_calloc(width, sizeof(*sum));
    }
    if (!out || (p->pooling == DGL_POOLING_MEAN && (!part || !sum))) {
        status = dgl_fail_memory(log, "embeddings", want * width * sizeof(*out));
        goto done;
    }
    if (p->pooling != DGL_POOLING_MEAN)
        status = session_eval_range(s, count - (int32_t)want, count, NULL, out);
    while (p->pooling == DGL_POOLING_MEAN && s->seq.len < count && status == DGL_OK) {
        int32_t start = s->seq.len, left = count - start,
                n = left < s->state.ubatch ? left : s->state.ubatch;
        status = session_eval_range(s, start, start + n, NULL, part);
        for (size_t i = 0; status == DGL_OK && i < (size_t)n * width; i++)
            sum[i % width] += part[i];
    }
    for (size_t i = 0; sum && i < width; i++)
        out[i] = (float)(sum[i] / count);
    for (size_t i = 0; p->normalize && i < want; i++)
        normalize_row(out + i * width, width);
done:
    free(ids.ids);
    free(part);
    free(sum);
    if (status != DGL_OK) {
        free(out);
        return status;
    }
    *embeddings = out;
    *rows = want;
    return DGL_OK;
}

/* ---- perplexity ------------------------------------------------------------------------------ */

/* Sums of -ln p over the predicted tokens. */
struct score_sum {
    double nll, squares;
    uint64_t tokens;
};

/* Returns the shapes that score_ids() runs with these arguments. */
static struct shape_set score_shapes(const struct dgl_session *s, int32_t count, int32_t first,
                                     int32_t most)
{
    struct shape_set shapes = session_body_shapes(s, first - 1, s->state.ubatch);
    for (int32_t left = count - first, rows; left > 0; left -= rows) {
        rows = left < most ? left : most;
        shapes = shapes_join(shapes, session_body_shapes(s, rows, most));
        shapes = rows > 1 ? shapes_add(shapes_add(shapes, PASS_SCORE), PASS_HIDDEN)
                          : shapes_add(shapes, PASS_HEAD);
    }
    return shapes;
}

/* Evaluates ids[0 .. count - 1) and sums the cost of the tokens from position `first` on. The
 * cost of a token comes from the logits of the token before it, so first >= 1. `logits` has room
 * for `most` rows. */
static enum dgl_status score_ids(struct dgl_session *s, const char *name, int32_t count,
                                 int32_t first, int32_t most, float *logits, struct score_sum *sum)
{
    int32_t vocab = s->model->info.vocab;
    enum dgl_status status = DGL_OK;
    while (s->seq.len < first - 1) {
        int32_t rows = session_pass_tokens(s, first - 1 - s->seq.len, s->state.ubatch, false);
        TRY(session_is_cancelled(s) ? DGL_ERR_CANCELLED : session_pass(s, rows, 0));
        TRY(gl_flush(session_dev(s)->gl));
    }
    /* The last token is not evaluated: its logits would predict a token that is not given. */
    while (s->seq.len < count - 1) {
        int32_t start = s->seq.len, left = count - 1 - start, rows = left < most ? left : most;
        TRY(session_eval_range(s, start, start + rows, logits, NULL));
        for (int32_t i = 0; i < rows; i++) {
            int32_t pos = start + i + 1, id = s->seq.ids[pos];
            double cost = logits_nll(logits + (size_t)i * (size_t)vocab, vocab, id);
            if (!isfinite(cost))
                return session_fail_not_numbers(
                    s, "%s: token %d at position %d costs %f: the logits before it are", name, id,
                    pos, cost);
            sum->nll += cost;
            sum->squares += cost * cost;
            sum->tokens++;
        }
    }
done:
    return status;
}

/* Returns the shapes for a text of `count` tokens, in windows if it is longer than the
 * context. */
static struct shape_set text_shapes(const struct dgl_session *s,
                                    const struct dgl_perplexity_params *p, size_t count,
                                    size_t stride, int32_t most)
{
    const size_t context = (size_t)s->seq.context;
    struct shape_set shapes = {.count = 0};
    if (count > context && !p->windows)
        return shapes; /* the text will be refused */
    for (size_t begin = 0, counted = 0; counted < count; begin += stride) {
        size_t left = count - begin, len = left > context ? context : left;
        const int32_t first = counted > begin ? (int32_t)(counted - begin) : 1;
        shapes = shapes_join(shapes, score_shapes(s, (int32_t)len, first, most));
        counted = begin + len;
    }
    return shapes;
}

/* Finds the special token that the tokenizer puts before every text, or sets *bos to -1. */
static enum dgl_status find_bos(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                int32_t *bos)
{
    const struct encode_flags flags = {.add_special = true};
    struct token_ids empty = {0}, one = {0};
    *bos = -1;
    enum dgl_status status = tokenizer_encode(log, tok, DGL_STR(""), flags, &empty);
    if (status == DGL_OK)
        status = tokenizer_encode(log, tok, DGL_STR("a"), flags, &one);
    /* An empty text may begin with a token that belongs after a text. So both must agree. */
    if (status == DGL_OK && empty.count && one.count && empty.ids[0] == one.ids[0])
        *bos = empty.ids[0];
    free(empty.ids);
    free(one.ids);
    return status;
}

enum dgl_status session_perplexity(struct dgl_session *s, const struct dgl_perplexity_params *p,
                                   struct dgl_perplexity_result *out)
{
    const struct encode_flags flags = {.add_special = true,
                                       .no_parse_special = p->no_parse_special};
    const struct dgl_model *m = s->model;
    const struct dgl_log *log = m->log;
    const char *source = p->source ? p->source : "", *colon = p->source ? ": " : "";
    struct score_sum sum = {0};
    float *logits = NULL;
    int32_t most = 0, bos = -1;
    size_t context = (size_t)s->seq.context, stride = 0;
    if (!m->tok)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s has no tokenizer: perplexity needs one",
                        m->info.path);
    for (size_t i = 0; i < p->num_texts; i++)
        if (!p->texts || !p->texts[i])
            return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s%stext %zu is missing", source, colon, i);
    if (p->windows && s->seq.context < 2)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "a context of %d token has no windows",
                        s->seq.context);
    if (p->stride < 0 || (p->windows && p->stride >= s->seq.context))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "a stride of %d tokens, wanted 1 to %d (the context less one)", p->stride,
                        s->seq.context - 1);
    if (p->windows)
        stride = p->stride ? (size_t)p->stride : context / 2;
    enum dgl_status status = session_begin_scoring(s, &most);
    if (status == DGL_OK && p->windows)
        status = find_bos(log, m->tok, &bos);
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
        if (status == DGL_OK)
            status = pass_state_compile(&s->state, text_shapes(s, p, ids.count, stride, most));
        /* The tokens before `counted` were scored in earlier windows. */
        for (size_t begin = 0, counted = 0; counted < ids.count && status == DGL_OK;
             begin += stride) {
            size_t left = ids.count - begin;
            size_t len = p->windows && left > context ? context : left;
            size_t first = counted > begin ? counted - begin : 1;
            status = session_load_ids(s, ids.ids + begin, len, name);
            if (status == DGL_OK && begin > 0 && bos >= 0)
                s->seq.ids[0] = bos;
            if (status == DGL_OK && len > 1)
                status = score_ids(s, name, (int32_t)len, (int32_t)first, most, logits, &sum);
            counted = begin + len;
            out->windows += status == DGL_OK && len > 1;
            if (status == DGL_OK && len > (size_t)out->context)
                out->context = (int32_t)len;
            if (status == DGL_OK && p->windows && p->num_texts == 1 && p->progress_cb) {
                size_t all =
                    ids.count <= context ? 1 : 1 + (ids.count - context + stride - 1) / stride;
                if (!p->progress_cb(p->progress_priv, "windows", begin / stride + 1, all))
                    status = DGL_ERR_CANCELLED;
            }
        }
        free(ids.ids);
        if (status == DGL_OK && p->progress_cb && !(p->windows && p->num_texts == 1) &&
            !p->progress_cb(p->progress_priv, "texts", i + 1, p->num_texts))
            status = DGL_ERR_CANCELLED;
    }
    free(logits);
    if (status == DGL_OK && sum.tokens == 0)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s%sno text has two tokens: there is nothing to predict", source, colon);
    if (status != DGL_OK)
        return status;
    double n = (double)sum.tokens, mean = sum.nll / n, variance = sum.squares / n - mean * mean;
    out->nll = sum.nll;
    out->tokens = sum.tokens;
    out->ppl = exp(mean);
    out->ppl_error = sum.tokens > 1 && variance > 0 ? out->ppl * sqrt(variance / (n - 1)) : 0;
    out->stride = (int32_t)stride;
    return DGL_OK;
}
