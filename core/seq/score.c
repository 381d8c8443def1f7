/* Reads logits and hidden states of evaluated tokens back to the host, pass by pass, for
 * dgl_session_eval(), dgl_logits(), dgl_embed() and dgl_perplexity(). */
#include "core/seq/score.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/pooling.h"

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

/* Returns the shapes of the passes over tokens [held, count) with results from position `first` on.
 * `most` is the maximum rows of a pass with results. */
static struct shape_set result_shapes(const struct dgl_session *s, int32_t held, int32_t first,
                                      int32_t count, const struct row_results *out, int32_t most)
{
    const bool score = out->logits && count - first > 1;
    const int32_t plain = score && first > held ? first - held : 0;
    struct shape_set shapes = shapes_join(session_body_shapes(s, plain, s->state.ubatch),
                                          session_body_shapes(s, count - held - plain, most));
    if (out->logits || !out->hidden)
        shapes = shapes_add(shapes, score ? PASS_SCORE : PASS_HEAD);
    return out->hidden || score ? shapes_add(shapes, PASS_HIDDEN) : shapes;
}

enum dgl_status session_eval_results(struct dgl_session *s, int32_t first, int32_t count,
                                     const struct row_results *out)
{
    struct gl_device *gl = session_dev(s)->gl;
    const struct gl_range *scratch = s->model->shard->workspace.range;
    const size_t vocab = (size_t)s->model->info.vocab, width = (size_t)s->model->info.hidden;
    const bool score = out->logits && count - first > 1;
    enum dgl_status status = DGL_OK;
    int32_t most = out->most ? out->most : s->state.ubatch;
    if (score)
        TRY(session_begin_scoring(s, &most));
    TRY(pass_state_compile(&s->state, result_shapes(s, s->seq.len, first, count, out, most)));
    /* Rows without results have passes of their own if a pass computes the logits of all rows. */
    while (s->seq.len < count) {
        const int32_t start = s->seq.len, skip = first > start ? first - start : 0;
        const bool is_plain = score && skip > 0;
        const int32_t rows =
            session_pass_tokens(s, is_plain ? skip : count - start,
                                is_plain ? s->state.ubatch : most, score && !is_plain);
        const bool wanted = skip < rows;
        uint32_t flags = out->hidden && wanted ? ROW_HIDDEN : 0;
        if (score && wanted)
            flags |= ROW_SCORE;
        else if (start + rows == count && (out->logits || !out->hidden))
            flags |= ROW_LOGITS;
        TRY(session_is_cancelled(s) ? DGL_ERR_CANCELLED : session_pass(s, rows, flags));
        if (flags == 0 && most > 1)
            TRY(gl_flush(gl));
        const size_t row = out->use ? 0 : (size_t)(start + skip - first);
        const size_t num = (size_t)(rows - skip);
        if (flags & ROW_HIDDEN)
            TRY(gl_buffer_read(gl, scratch[BUF_NORMED].buffer, (size_t)skip * width * 4,
                               out->hidden + row * width, num * width * 4));
        if (flags & ROW_SCORE)
            TRY(gl_buffer_read(gl, scratch[BUF_ALL_LOGITS].buffer, (size_t)skip * vocab * 4,
                               out->logits + row * vocab, num * vocab * 4));
        else if (flags & ROW_LOGITS && out->logits)
            TRY(pass_state_read(&s->state, BUF_LOGITS, 0, 0, out->logits, vocab * 4));
        if (out->use && wanted)
            TRY(out->use(out->priv, start + skip, rows - skip));
    }
done:
    return status;
}

enum dgl_status session_eval(struct dgl_session *s, int32_t count)
{
    enum dgl_status status;
    assert(s->seq.len < count);
    TRY(session_expect(s, count));
    const int32_t most = session_eval_rows(s, count - s->seq.len);
    TRY(session_eval_results(s, count - 1, count, &(struct row_results){.most = most}));
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
    if (p->num_ids > (size_t)s->seq.context - held)
        return dgl_fail(log, DGL_ERR_CONTEXT_FULL,
                        "the session holds %zu tokens of %d, %zu more do not fit: trim it, or "
                        "create it with a larger context",
                        held, s->seq.context, p->num_ids);
    if (p->num_ids == 0) {
        sequence_trim(&s->seq, (int32_t)held - 1);
    } else {
        TRY(session_check_ids(s, "the ids", p->ids, p->num_ids));
        memcpy(s->seq.ids + held, p->ids, p->num_ids * sizeof(*p->ids));
        TRY(session_expect(s, (int32_t)count));
    }
    TRY(session_eval_results(s, (int32_t)(p->all && p->num_ids > 0 ? held : count - 1),
                             (int32_t)count,
                             &(struct row_results){.logits = logits, .hidden = hidden}));
    if (!logits && !hidden)
        TRY(gl_flush(session_dev(s)->gl));
done:
    return status;
}

/* ---- logits ---------------------------------------------------------------------------------- */

enum dgl_status session_logits(struct dgl_session *s, const struct dgl_logits_params *p,
                               float **logits, size_t *rows)
{
    size_t vocab = (size_t)s->model->info.vocab, count = p->num_ids, want = p->all ? count : 1;
    float *out = NULL;
    enum dgl_status status;
    TRY(session_load_ids(s, p->ids, count, "the prompt"));
    out = dgl_calloc(want, vocab * sizeof(float));
    if (!out)
        TRY(dgl_fail_memory(s->model->log, "logits", want));
    TRY(session_eval_results(s, (int32_t)(count - want), (int32_t)count,
                             &(struct row_results){.logits = out}));
    *logits = out;
    *rows = want;
    return DGL_OK;
done:
    free(out);
    return status;
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* Pools the rows of each pass. */
struct row_pool {
    struct dgl_pool pool;
    float *rows;
};

static enum dgl_status pool_rows(void *priv, int32_t pos, int32_t rows)
{
    struct row_pool *to = priv;
    (void)pos;
    dgl_pool_add(&to->pool, to->rows, (size_t)rows);
    return DGL_OK;
}

static enum dgl_status check_embed_params(const struct dgl_session *s,
                                          const struct dgl_embed_params *p)
{
    const struct dgl_log *log = s->model->log;
    const struct dgl_model_info *info = &s->model->info;
    if ((unsigned)p->pooling > DGL_POOLING_WEIGHTED_MEAN)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "pooling is %d, wanted 0 to %d", (int)p->pooling,
                        DGL_POOLING_WEIGHTED_MEAN);
    if (p->pooling == DGL_POOLING_MODEL && info->pooling_fault)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: %s; name a pooling to do without",
                        info->path, info->pooling_fault);
    if (p->dimensions < 0 || p->dimensions > info->hidden)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "dimensions is %d, the embeddings of this model have %d values",
                        p->dimensions, info->hidden);
    return DGL_OK;
}

enum dgl_status session_embed(struct dgl_session *s, const struct dgl_embed_params *p,
                              float **embeddings, size_t *rows)
{
    const struct dgl_log *log = s->model->log;
    const struct dgl_model_info *info = &s->model->info;
    const size_t width = (size_t)info->hidden;
    const size_t kept = p->dimensions ? (size_t)p->dimensions : width;
    const bool model = p->pooling == DGL_POOLING_MODEL;
    const enum dgl_pooling pooling = model ? info->pooling : p->pooling;
    const bool each = pooling == DGL_POOLING_NONE;
    struct row_pool to = {.rows = NULL};
    struct token_ids ids = {0};
    float *out = NULL;
    enum dgl_status status;
    TRY(check_embed_params(s, p));
    TRY(session_prompt_ids(s, PROMPT_OF(p), &ids));
    TRY(session_load_ids(s, ids.ids, ids.count, "the prompt"));
    const size_t want = each ? ids.count : 1;
    out = dgl_calloc(want, width * sizeof(*out));
    to.rows = dgl_calloc(each ? 0 : (size_t)s->state.ubatch, width * sizeof(*to.rows));
    if (!dgl_pool_init(&to.pool, pooling, width) || !out || !to.rows)
        TRY(dgl_fail_memory(log, "embeddings", want * width * sizeof(*out)));
    TRY(session_eval_results(
        s, dgl_pool_needs_last(&to.pool) ? (int32_t)ids.count - 1 : 0, (int32_t)ids.count,
        &(struct row_results){
            .hidden = each ? out : to.rows, .use = each ? NULL : pool_rows, .priv = &to}));
    if (!each)
        dgl_pool_take(&to.pool, out, kept);
    for (size_t i = 0; i < want; i++) {
        memmove(out + i * kept, out + i * width, kept * sizeof(*out));
        if (p->normalize || (model && info->normalize))
            dgl_normalize(out + i * kept, kept, DGL_NORMALIZE_EUCLIDEAN);
    }
    *embeddings = out;
    *rows = want;
    out = NULL;
done:
    free(ids.ids);
    free(to.rows);
    dgl_pool_finish(&to.pool);
    free(out);
    return status;
}

/* ---- perplexity ------------------------------------------------------------------------------ */

/* Sums of the costs, -ln p, of the predicted tokens. */
struct costs {
    struct dgl_session *s;
    const char *name; /* of the text */
    float *logits;
    double nll, squares;
    uint64_t tokens;
};

/* Adds the costs of `rows` tokens. The logits at a position determine the cost of the next
 * token. */
static enum dgl_status add_costs(void *priv, int32_t pos, int32_t rows)
{
    struct costs *to = priv;
    const int32_t vocab = to->s->model->info.vocab;
    for (int32_t i = 0; i < rows; i++) {
        const int32_t id = to->s->seq.ids[pos + i + 1];
        const double cost = logits_nll(to->logits + (size_t)i * (size_t)vocab, vocab, id);
        if (!isfinite(cost))
            return session_fail_not_numbers(
                to->s, "%s: token %d at position %d costs %f: the logits before it are", to->name,
                id, pos + i + 1, cost);
        to->nll += cost;
        to->squares += cost * cost;
        to->tokens++;
    }
    return DGL_OK;
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

/* Returns the shapes for a text of `count` tokens, in windows if it is longer than the context. */
static struct shape_set text_shapes(const struct dgl_session *s,
                                    const struct dgl_perplexity_params *p, size_t count,
                                    size_t stride, int32_t most)
{
    const size_t context = (size_t)s->seq.context;
    float logits;
    struct shape_set shapes = {.count = 0};
    if (count > context && !p->windows)
        return shapes; /* the text will be refused */
    for (size_t begin = 0, counted = 0; counted < count; begin += stride) {
        const size_t left = count - begin, len = left > context ? context : left;
        const size_t first = counted > begin ? counted - begin : 1;
        if (len > 1)
            shapes =
                shapes_join(shapes, result_shapes(s, 0, (int32_t)first - 1, (int32_t)len - 1,
                                                  &(struct row_results){.logits = &logits}, most));
        counted = begin + len;
    }
    return shapes;
}

enum dgl_status session_perplexity(struct dgl_session *s, const struct dgl_perplexity_params *p,
                                   struct dgl_perplexity_result *out)
{
    const struct encode_flags flags = {.add_special = true,
                                       .no_parse_special = p->no_parse_special};
    const struct dgl_model *m = s->model;
    const struct dgl_log *log = m->log;
    const char *source = p->source ? p->source : "", *colon = p->source ? ": " : "";
    const bool by_window = p->windows && p->num_texts == 1;
    struct costs costs = {.s = s};
    struct token_ids ids = {0};
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
    enum dgl_status status;
    TRY(session_begin_scoring(s, &most));
    if (p->windows)
        TRY(find_bos(log, m->tok, &bos));
    costs.logits = dgl_calloc((size_t)most, (size_t)m->info.vocab * sizeof(float));
    if (!costs.logits)
        TRY(dgl_fail_memory(log, "logits", (uint64_t)most));
    for (size_t i = 0; i < p->num_texts; i++) {
        struct dgl_str text = {p->texts[i], p->lens ? p->lens[i] : strlen(p->texts[i])};
        char name[512];
        snprintf(name, sizeof(name), "%s%stext %zu", source, colon, i);
        struct dgl_named_log named;
        dgl_named_log_init(&named, log, name);
        costs.name = name;
        TRY(tokenizer_encode(&named.log, m->tok, text, flags, &ids));
        /* No window waits for the compiler. */
        TRY(pass_state_compile(&s->state, text_shapes(s, p, ids.count, stride, most)));
        /* The tokens before `counted` were scored in earlier windows. */
        for (size_t begin = 0, counted = 0; counted < ids.count; begin += stride) {
            size_t left = ids.count - begin;
            size_t len = p->windows && left > context ? context : left;
            size_t first = counted > begin ? counted - begin : 1;
            TRY(session_load_ids(s, ids.ids + begin, len, name));
            if (begin > 0 && bos >= 0)
                s->seq.ids[0] = bos;
            /* The last token is not evaluated: its logits would predict a token that is not
             * given. */
            if (len > 1)
                TRY(session_eval_results(s, (int32_t)first - 1, (int32_t)len - 1,
                                         &(struct row_results){.logits = costs.logits,
                                                               .use = add_costs,
                                                               .priv = &costs}));
            counted = begin + len;
            out->windows += len > 1;
            if (len > (size_t)out->context)
                out->context = (int32_t)len;
            if (by_window && p->progress_cb) {
                size_t all =
                    ids.count <= context ? 1 : 1 + (ids.count - context + stride - 1) / stride;
                if (!p->progress_cb(p->progress_priv, "windows", begin / stride + 1, all))
                    TRY(DGL_ERR_CANCELLED);
            }
        }
        free(ids.ids);
        ids = (struct token_ids){0};
        if (!by_window && p->progress_cb &&
            !p->progress_cb(p->progress_priv, "texts", i + 1, p->num_texts))
            TRY(DGL_ERR_CANCELLED);
    }
    if (costs.tokens == 0)
        TRY(dgl_fail(log, DGL_ERR_INVALID_ARG,
                     "%s%sno text has two tokens: there is nothing to predict", source, colon));
    double n = (double)costs.tokens, mean = costs.nll / n,
           variance = costs.squares / n - mean * mean;
    out->nll = costs.nll;
    out->tokens = costs.tokens;
    out->ppl = exp(mean);
    out->ppl_error = costs.tokens > 1 && variance > 0 ? out->ppl * sqrt(variance / (n - 1)) : 0;
    out->stride = (int32_t)stride;
done:
    free(ids.ids);
    free(costs.logits);
    return status;
}
