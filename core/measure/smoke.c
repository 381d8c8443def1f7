/*
 * The smoke test: does this model, with these kernels, on this device, compute the result of its
 * files? Wrong weights in the files themselves are detected in only three ways: tensors full of
 * zeros, a fixed text that is no likelier than noise, and an expectation that is stored with the
 * model.
 */
#include "core/measure/measure.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/oracle/oracle.h"
#include "core/seq/generate.h"
#include "core/seq/score.h"

/* The beginning of a story, which small story models and large general models both predict well. */
static const char smoke_text[] =
    "Once upon a time, there was a kind boy named Barney. Barney lived "
    "near the old barn with his family.";
static const char smoke_prompt[] = "The color of the sky is";

enum {
    MIN_TOKENS = 8,
    MAX_TOKENS = 32, /* longest sequence that is compared */
    DECODED = 2,     /* its last tokens, which are evaluated one by one */
    PROMPT_IDS = 5,  /* prompt length of a model without a tokenizer */
};

/* Largest NMSE of a block compared with doubles. With an f16 cache and f32 sums it stays below 1e-6
 * for every family. Every known wrong kernel reaches at least 1e-2. */
#define MAX_NMSE 1e-4
/* Additions round to the precision of the stream. So differences below this share of the stream's
 * power do not count. */
#define STREAM_FLOOR 1e-9
/* A prefill pass over the answer recomputes its logits. This is the largest distance of a sampled
 * token's logit from the best logit, in root mean squares of the logits. The distance may be above
 * 0, because decode rounds differently. */
#define MAX_LAG 0.02
/* Largest nats per token of the fixed text, as a fraction of a uniform guess. Noise and collapsed
 * models are above 0.9. Models of another language or of code are below 0.7. */
#define MAX_UNIFORM 0.5
/* Largest relative difference to a stored nll, which depends only on the files, not on the
 * device. */
#define MAX_NLL_DIFF 1e-6

#define ADVICE_COMPUTE                                                                             \
    "if `--device software` passes, it is this device or its driver (try --limits min); kernels "  \
    "of your own: look there first"
#define ADVICE_WEIGHTS                                                                             \
    "the files are damaged or a conversion was wrong: fetch or convert them again"

struct smoke {
    struct dgl_session *s;
    const struct dgl_smoke_params *p;
    struct dgl_smoke_result *out;
    const struct model_desc *desc;
    struct oracle *oracle; /* continues from the device's stream, block by block */
    struct oracle *exact;  /* never sees the device */
    int32_t *ids;          /* [count] */
    size_t count, prefill;
    struct stream_trace stream;
    float *logits;     /* [count, vocab], the device's */
    double *want;      /* [count, vocab], an oracle's */
    double *before;    /* [count, hidden] */
    char *stored_path; /* file of the expectation that is stored with the model */
    bool is_stored;
    struct dgl_smoke_result stored; /* its tokens and nll */
};

/* Keeps the first fault. */
static void fault(struct smoke *t, const char *fmt, ...) DGL_PRINTF(2, 3);
static void fault(struct smoke *t, const char *fmt, ...)
{
    va_list args;
    if (t->out->fault[0])
        return;
    va_start(args, fmt);
    vsnprintf(t->out->fault, sizeof(t->out->fault), fmt, args);
    va_end(args);
}

/* ---- input and evaluation -------------------------------------------------------------------- */

/* Chooses the fixed text, or ids spread over the vocabulary. */
static enum dgl_status choose_ids(struct smoke *t)
{
    const struct dgl_model *m = t->s->model;
    const struct dgl_log *log = m->log;
    const struct encode_flags flags = {.add_special = true};
    const size_t most = t->s->seq.context < MAX_TOKENS ? (size_t)t->s->seq.context : MAX_TOKENS;
    struct token_ids ids = {0};
    enum dgl_status status = DGL_OK;
    if (most < MIN_TOKENS)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s: the smoke test needs a context of %d tokens, the session has %d",
                        m->info.path, MIN_TOKENS, t->s->seq.context);
    if (m->tok)
        status = tokenizer_encode(log, m->tok, dgl_str_of(smoke_text), flags, &ids);
    else
        ids = (struct token_ids){.ids = dgl_new_array(int32_t, most), .count = most};
    t->ids = ids.ids;
    t->count = ids.count < most ? ids.count : most;
    if (!m->tok && !ids.ids)
        return dgl_fail_memory(log, "ids", most * sizeof(*ids.ids));
    for (size_t i = 0; !m->tok && i < most; i++)
        ids.ids[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)m->info.vocab);
    if (status == DGL_OK && t->count < MIN_TOKENS)
        status = dgl_fail(log, DGL_ERR_FORMAT, "%s: its tokenizer makes %zu tokens of \"%s\"",
                          m->info.path, t->count, smoke_text);
    t->prefill = t->count - DECODED;
    return status;
}

/* ---- comparison with the oracle -------------------------------------------------------------- */

/* Power of the difference and of the result, over rows [from, to) of the sequence. */
struct deviation {
    double error, power, stream;
};

/* Judges one block in one phase. NaN fails. A fault names each kernel of the block once. */
static void judge(struct smoke *t, const struct deviation *d, const char *where,
                  struct pass_shape shape, size_t point)
{
    const struct body *body = plan_body(session_plan(t->s), shape);
    size_t first = 0, end = body->ops.count, len = 0;
    enum plan_buffer stream;
    char kernels[256] = "";
    const double scale = d->power + STREAM_FLOOR * d->stream;
    const double nmse = d->error == 0.0 ? 0.0 : scale > 0.0 ? d->error / scale : INFINITY;
    t->out->error = nmse > t->out->error || isnan(nmse) ? nmse : t->out->error;
    if (nmse <= MAX_NMSE)
        return;
    for (size_t i = 0; shape.part == PART_LAYERS && i <= point; i++) {
        first = i > 0 ? end : 0;
        end = plan_block_end(body, first, &stream);
    }
    for (size_t i = first; i < end && len < sizeof(kernels); i++) {
        const struct kernel *kernel = body->use[i]->choice.kernel;
        bool told = false;
        for (size_t j = first; j < i && !told; j++)
            told = body->use[j]->choice.kernel == kernel;
        if (!told)
            len += (size_t)snprintf(kernels + len, sizeof(kernels) - len, "%s%s", len ? ", " : "",
                                    kernel->name);
    }
    fault(t, "%s in %s: NMSE %.3g against the host's doubles, at most %g (%s); " ADVICE_COMPUTE,
          where,
          pass_shape_is_prefill(shape) || shape.outputs == OUTPUT_EACH ? "prefill" : "decode", nmse,
          MAX_NMSE, kernels);
}

/* Compares each block and the head with t->oracle. The oracle gets the device's stream as the input
 * of every block, so only the addition of a block is judged, not the stream before it. Also runs
 * t->exact, and leaves its logits in t->want. */
static enum dgl_status check_blocks(struct smoke *t)
{
    const size_t vocab = (size_t)t->desc->vocab, hidden = (size_t)t->desc->hidden;
    const size_t layers = (size_t)t->desc->layers, num_values = t->count * hidden;
    enum dgl_status status;
    for (size_t point = 0; point <= 2 * layers + 1; point++) {
        const bool head = point == 2 * layers + 1, block = point > 0 && !head;
        const enum oracle_block kind = point % 2 ? ORACLE_ATTENTION : ORACLE_FFN;
        const size_t layer = block ? (point - 1) / 2 : 0, width = head ? vocab : hidden;
        const float *got = head ? t->logits : t->stream.values + point * num_values;
        double *stream = oracle_stream(t->oracle);
        struct deviation phase[2] = {0};
        char where[64];
        for (size_t i = 0; point > 0 && i < num_values; i++)
            stream[i] = t->before[i] = t->stream.values[(point - 1) * num_values + i];
        if (head) {
            TRY(oracle_head(t->oracle, t->want));
            snprintf(where, sizeof(where), "the head");
        } else if (block) {
            TRY(oracle_add(t->oracle, (int32_t)layer, kind));
            TRY(oracle_add(t->exact, (int32_t)layer, kind));
            snprintf(where, sizeof(where), "%s of layer %zu",
                     kind == ORACLE_ATTENTION ? "attention" : "the feed-forward part", layer);
        } else {
            TRY(oracle_embed(t->oracle, t->ids));
            TRY(oracle_embed(t->exact, t->ids));
            snprintf(where, sizeof(where), "the embedding");
        }
        const double *want = head ? t->want : oracle_stream(t->oracle);
        for (size_t r = 0; r < t->count; r++) {
            struct deviation *d = &phase[r >= t->prefill];
            if (block && kind == ORACLE_FFN && oracle_is_tie(t->oracle, r))
                continue;
            for (size_t i = r * width; i < (r + 1) * width; i++) {
                const double before = head ? 0 : t->before[i], added = want[i] - before;
                d->error += (got[i] - want[i]) * (got[i] - want[i]);
                d->power += added * added;
                d->stream += before * before;
            }
        }
        judge(t, &phase[0], where, head ? PASS_SCORE : t->stream.first, point);
        judge(t, &phase[1], where, head ? PASS_HEAD : PASS_DECODE, point);
        const bool told = block && kind == ORACLE_FFN && t->p->progress_cb;
        if (session_is_cancelled(t->s) ||
            (told && !t->p->progress_cb(t->p->progress_priv, "layers", layer + 1, layers)))
            TRY(DGL_ERR_CANCELLED);
    }
    status = oracle_head(t->exact, t->want);
done:
    return status;
}

/* ---- stored expectation ---------------------------------------------------------------------- */

/* Reads smoke.json in the model's folder, or FILE.smoke.json next to the model file: `tokens` and
 * `nll` as `verify --smoke --json` prints them. */
static enum dgl_status read_stored(struct smoke *t)
{
    const struct dgl_model *m = t->s->model;
    const struct dgl_log *log = m->log;
    struct dgl_smoke_result *stored = &t->stored;
    struct dgl_json_doc *doc = NULL;
    const struct dgl_json *nll = NULL, *tokens = NULL;
    struct dgl_buf beside = {0};
    enum dgl_status status;
    if (dgl_path_is_dir(m->info.path)) {
        t->stored_path = dgl_path_join(m->info.path, "smoke.json");
    } else {
        dgl_buf_printf(&beside, "%s.smoke.json", m->info.path);
        t->stored_path = dgl_buf_take(&beside);
    }
    if (!t->stored_path)
        return dgl_fail_memory(log, "path", strlen(m->info.path));
    if (!dgl_path_exists(t->stored_path))
        return DGL_OK;
    TRY(dgl_json_load(log, t->stored_path, 1 << 20, &doc));
    struct dgl_json_reader r = {log, doc};
    const struct dgl_json *root = dgl_json_root(doc);
    TRY(dgl_json_need(r, root, "nll", DGL_JSON_NUMBER, &nll));
    TRY(dgl_json_need(r, root, "tokens", DGL_JSON_ARRAY, &tokens));
    for (size_t i = 0; i < dgl_json_count(tokens); i++) {
        int64_t id = -1;
        if (i >= DGL_SMOKE_TOKENS || !dgl_json_i64(dgl_json_at(tokens, i), &id) || id < 0 ||
            id >= t->desc->vocab)
            TRY(dgl_json_fail(r, tokens, "wanted at most %d ids from 0 to %d", DGL_SMOKE_TOKENS,
                              t->desc->vocab - 1));
        stored->tokens[stored->num_tokens++] = (int32_t)id;
    }
    stored->nll = dgl_json_f64(nll);
    t->is_stored = true;
done:
    dgl_json_destroy(&doc);
    return status;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Likelihood of the ids, which depends on the files alone. */
static void check_likelihood(struct smoke *t)
{
    size_t vocab = (size_t)t->desc->vocab;
    double uniform = log((double)vocab), sum = 0.0;
    for (size_t r = 0; r + 1 < t->count; r++) {
        float *row = t->logits + r * vocab; /* judged; its room serves again */
        for (size_t i = 0; i < vocab; i++)
            row[i] = (float)t->want[r * vocab + i];
        sum += logits_nll(row, t->desc->vocab, t->ids[r + 1]);
    }
    t->out->nll = sum / (double)(t->count - 1);
    if (t->s->model->tok && !(t->out->nll <= MAX_UNIFORM * uniform))
        fault(t,
              "\"%s\" costs %.2f nats per token, at most %.2f (%g of a uniform guess) are expected "
              "of a model that knows English; " ADVICE_WEIGHTS,
              smoke_text, t->out->nll, MAX_UNIFORM * uniform, MAX_UNIFORM);
    if (t->is_stored && !(fabs(t->out->nll - t->stored.nll) <= MAX_NLL_DIFF * t->stored.nll))
        fault(t, "the fixed text costs %.8g nats per token, %s says %.8g; " ADVICE_WEIGHTS,
              t->out->nll, t->stored_path, t->stored.nll);
}

/* Distance of a token from the best one, in root mean squares of the logits. */
static double lag_of(const float *row, size_t vocab, int32_t token)
{
    double power = 0.0;
    float best = row[0];
    for (size_t i = 0; i < vocab; i++) {
        best = row[i] > best ? row[i] : best;
        power += (double)row[i] * row[i];
    }
    return best == row[token] ? 0.0 : (double)(best - row[token]) / sqrt(power / (double)vocab);
}

/* Checks a greedy answer. Its tokens must have the best score in a prefill pass over them, and must
 * equal the stored tokens up to the first close choice. */
static enum dgl_status check_answer(struct smoke *t)
{
    struct dgl_session *s = t->s;
    const struct dgl_model *m = s->model;
    size_t vocab = (size_t)t->desc->vocab, rows = 0;
    struct dgl_generate_result r = {0};
    float *logits = NULL;
    int32_t *ids = NULL;
    bool agrees = t->is_stored;
    enum dgl_status status;
    TRY(session_generate(
        s,
        m->tok ? dgl_generate_params(.prompt = smoke_prompt, .max_tokens = DGL_SMOKE_TOKENS)
               : dgl_generate_params(.ids = t->ids, .num_ids = PROMPT_IDS,
                                     .max_tokens = DGL_SMOKE_TOKENS),
        &r));
    if (r.finish == DGL_FINISH_CANCELLED)
        TRY(DGL_ERR_CANCELLED);
    memcpy(t->out->tokens, r.tokens, r.num_tokens * sizeof(*r.tokens));
    t->out->num_tokens = r.num_tokens;
    t->out->prompt = m->tok ? smoke_prompt : "";
    snprintf(t->out->text, sizeof(t->out->text), "%s", r.text ? r.text : "");
    size_t count = r.num_prompt_ids + r.num_tokens;
    if (r.num_tokens == 0)
        goto done; /* the prompt fills the context */
    ids = dgl_new_array(int32_t, count);
    if (!ids)
        TRY(dgl_fail_memory(m->log, "ids", count * sizeof(*ids)));
    memcpy(ids, r.prompt_ids, r.num_prompt_ids * sizeof(*ids));
    memcpy(ids + r.num_prompt_ids, r.tokens, r.num_tokens * sizeof(*ids));
    TRY(session_logits(s, dgl_logits_params(.ids = ids, .num_ids = count - 1, .all = true), &logits,
                       &rows));
    for (size_t i = 0; i < r.num_tokens; i++) {
        const float *row = logits + (r.num_prompt_ids + i - 1) * vocab;
        double lag = lag_of(row, vocab, r.tokens[i]);
        if (!(lag <= MAX_LAG))
            fault(
                t,
                "token %zu of the greedy answer is %d, %.3g root mean squares of the logits below "
                "the best of a prefill pass over the answer, at most %g; " ADVICE_COMPUTE,
                i, r.tokens[i], lag, MAX_LAG);
        if (!agrees)
            continue;
        int32_t want = i < t->stored.num_tokens ? t->stored.tokens[i] : -1;
        agrees = want == r.tokens[i];
        if (want < 0 || !(lag_of(row, vocab, want) <= MAX_LAG))
            fault(t, "token %zu of the greedy answer is %d, %s says %d; " ADVICE_WEIGHTS, i,
                  r.tokens[i], t->stored_path, want);
    }
done:
    free(logits);
    free(ids);
    generate_result_finish(&r);
    return status;
}

enum dgl_status session_smoke(struct dgl_session *s, const struct dgl_smoke_params *params,
                              struct dgl_smoke_result *out)
{
    const struct dgl_model *m = s->model;
    const struct dgl_log *log = m->log;
    struct smoke t = {.s = s, .p = params, .out = out, .desc = &m->file->desc};
    size_t vocab = (size_t)t.desc->vocab, hidden = (size_t)t.desc->hidden;
    if (m->file->format == MODEL_SYNTHETIC)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s has no files to compare with: the smoke test takes models on disk",
                        m->info.path);
    enum dgl_status status;
    TRY(choose_ids(&t));
    TRY(read_stored(&t));
    t.stream.rows = t.count;
    t.stream.values = dgl_calloc(session_trace_points(s) * t.count, hidden * sizeof(float));
    t.logits = dgl_calloc(t.count, vocab * sizeof(float));
    t.want = dgl_calloc(t.count, vocab * sizeof(double));
    t.before = dgl_calloc(t.count, hidden * sizeof(double));
    if (!t.stream.values || !t.logits || !t.want || !t.before)
        TRY(dgl_fail_memory(log, "smoke test", t.count * vocab * sizeof(double)));
    const struct oracle_params host = {
        .desc = t.desc, .tensors = m->file->tensors, .count = t.count};
    TRY(oracle_create(log, &host, &t.oracle));
    TRY(oracle_create(log, &host, &t.exact));
    /* Most of the ids are evaluated in prefill passes, the last ones in decode steps. */
    TRY(session_load_ids(s, t.ids, t.count, "the fixed text"));
    s->trace = &t.stream;
    TRY(session_eval_results(s, 0, (int32_t)t.prefill, &(struct row_results){.logits = t.logits}));
    for (int32_t pos = s->seq.len; (size_t)pos < t.count; pos++)
        TRY(session_eval_results(s, pos, pos + 1,
                                 &(struct row_results){.logits = t.logits + (size_t)pos * vocab}));
    s->trace = NULL;
    TRY(check_blocks(&t));
    if (oracle_zero_weight(t.oracle))
        fault(&t, "%s: every value is zero; " ADVICE_WEIGHTS, oracle_zero_weight(t.oracle));
    if (!m->info.no_head) { /* else the logits are those of the embedding table */
        check_likelihood(&t);
        TRY(check_answer(&t));
    }
    out->passed = status == DGL_OK && !out->fault[0];
done:
    s->trace = NULL;
    oracle_destroy(&t.oracle);
    oracle_destroy(&t.exact);
    free(t.ids);
    free(t.stream.values);
    free(t.logits);
    free(t.want);
    free(t.before);
    free(t.stored_path);
    return status;
}
