/* The generation loop: the prompt, then decode steps until the answer ends. Each step on the GPU
 * takes its token from the step before. The host only reads the ids back. */
#include "core/seq/generate.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/sized.h"

static uint64_t work_ns(const struct generation *g)
{
    return device_work_ns(session_dev(g->s));
}

/* ---- accepting a token ----------------------------------------------------------------------- */

void generation_end(struct generation *g, enum dgl_finish why)
{
    if (!g->done)
        g->r->finish = why;
    g->done = true;
}

static void emit_text(struct generation *g)
{
    struct dgl_str ready = text_stream_ready(&g->stream);
    if (ready.len && g->p->text_cb && !g->p->text_cb(g->p->priv, ready.p, ready.len))
        generation_end(g, DGL_FINISH_CANCELLED);
}

/* Accepts one sampled id as position s->seq.len of the sequence. It is not evaluated yet. An id is
 * checked before it is used as an index. This catches a device that returns garbage. */
static enum dgl_status take_token(struct generation *g, int32_t id)
{
    struct dgl_generate_result *r = g->r;
    const struct dgl_model_info *info = &g->s->model->info;
    const struct dgl_log *log = g->s->model->log;
    enum dgl_status status = DGL_OK;
    bool stops = false, complete = false;
    if (id < 0 || id >= info->vocab)
        return session_fail_not_numbers(g->s,
                                        "%s sampled token %d of a vocabulary of %d: the logits are",
                                        session_dev(g->s)->info.renderer, id, info->vocab);
    if (!dgl_grow((void **)&r->tokens, &g->cap_tokens, r->num_tokens + 1, sizeof(*r->tokens)))
        return dgl_fail_memory(log, "tokens", (r->num_tokens + 1) * sizeof(*r->tokens));
    for (size_t i = 0; i < info->num_stop_ids && !g->p->ignore_eos; i++)
        stops = stops || info->stop_ids[i].id == id;
    TRY(constraint_accept(&g->constraint, log, g->stream.tok, id, stops, &complete));
    if (r->num_tokens == 0)
        r->first_token_ns = work_ns(g) - g->start_ns;
    r->tokens[r->num_tokens++] = id;
    g->s->seq.ids[g->s->seq.len] = id;
    if (g->p->token_cb && !g->p->token_cb(g->p->priv, id))
        generation_end(g, DGL_FINISH_CANCELLED);
    if (stops) {
        generation_end(g, DGL_FINISH_EOS);
    } else {
        text_stream_push(&g->stream, id);
        if (g->stream.status != DGL_OK)
            return g->stream.status;
        if (g->stream.stopped)
            generation_end(g, DGL_FINISH_STOP);
        if (complete)
            generation_end(g, DGL_FINISH_EOS);
    }
    if (r->num_tokens >= (size_t)g->max_tokens)
        generation_end(g, DGL_FINISH_LENGTH);
    else if (g->s->seq.len >= g->s->seq.context && !g->p->context_shift)
        generation_end(g, DGL_FINISH_CONTEXT);
    if (session_is_cancelled(g->s))
        generation_end(g, DGL_FINISH_CANCELLED);
    emit_text(g);
done:
    return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

unsigned generation_changes(const struct generation *g)
{
    return sampling_changes(&g->p->sampling) | (g->p->constraint ? SAMPLE_MASKS : 0u);
}

struct recipe generation_draw(const struct generation *g)
{
    return recipe_sampling(sampling_kind(&g->p->sampling), generation_changes(g));
}

struct recipe generation_recipe(const struct generation *g)
{
    return recipe_decode(sampling_kind(&g->p->sampling), generation_changes(g), g->interval > 1);
}

enum dgl_status generation_write_mask(struct generation *g, struct pass_state *state, int32_t slot)
{
    const uint32_t vocab = (uint32_t)g->s->model->info.vocab;
    constraint_mask(&g->constraint);
    return pass_state_write(state, BUF_ADJUST, slot, (uint64_t)oplist_mask_at(vocab) * 4,
                            g->constraint.mask, (uint64_t)oplist_mask_words(vocab) * 4);
}

/* Writes the changes of the logits. Stop ids are banned up to a length of the sequence, which
 * dropped tokens make shorter. */
static enum dgl_status write_adjust(const struct generation *g)
{
    const int64_t until =
        (int64_t)g->r->num_prompt_ids + g->p->sampling.min_tokens - (int64_t)g->r->num_shifted;
    const struct session_bans bans = {.ids = g->stream.stop_ids,
                                      .count = g->stream.num_stop_ids,
                                      .ignore_eos = g->p->ignore_eos,
                                      .until = until > UINT32_MAX ? UINT32_MAX
                                               : until > 0        ? (uint32_t)until
                                                                  : 0};
    return session_write_adjust(g->s, &g->p->sampling, generation_changes(g), &bans);
}

struct dgl_step generation_step(const struct generation *g, int32_t pos)
{
    struct dgl_step step = {.pos = (uint32_t)pos,
                            .tokens = 1,
                            .draws = g->p->sampling.draws + (uint32_t)g->r->num_tokens,
                            .context = (uint32_t)g->s->seq.context,
                            .flags = g->p->ignore_eos ? DGL_STEP_IGNORE_EOS : 0};
    sampling_to_step(&g->p->sampling, &step);
    return step;
}

/* Changes to other kernels, which a callback has loaded. Drops the steps that were queued with the
 * old kernels; the new ones sample the next token. */
static enum dgl_status follow_kernels(struct generation *g)
{
    struct dgl_session *s = g->s;
    enum dgl_status status;
    decoder_drop(&g->s->own);
    TRY(gl_finish(session_dev(s)->gl));
    TRY(pass_state_follow(&s->state));
    TRY(pass_state_compile(
        &s->state, shapes_add(shapes_join(generation_draw(g).shapes, generation_recipe(g).shapes),
                              PASS_HEAD)));
    TRY(decoder_join(&s->own, g));
    TRY(decoder_choose(&g->s->own));
done:
    return status;
}

enum dgl_status generation_accept(const struct decoder_news *news)
{
    struct generation *g = news->g;
    enum dgl_status status = DGL_OK;
    for (int32_t i = 0; i < news->count && !g->done; i++) {
        g->s->seq.len++;
        session_dev(g->s)->tokens++;
        TRY(take_token(g, news->ids[i]));
    }
done:
    return status;
}

/* Samples a token from LOGITS. Copies the logits to g->logits first, because the sampler may change
 * them. */
static enum dgl_status sample_one(struct generation *g)
{
    struct dgl_session *s = g->s;
    const struct dgl_step step = generation_step(g, s->seq.len - 1);
    struct exec_run *sample, *decode;
    enum dgl_status status;
    int32_t id = 0;
    s->seq.logits_valid = false; /* sampling may change them */
    if (g->logits)
        TRY(pass_state_read(&s->state, BUF_LOGITS, 0, 0, g->logits,
                            (uint64_t)s->model->info.vocab * 4));
    TRY(runner_run(&s->state.runner, generation_draw(g), &sample));
    if (g->max_tokens != 1 && !g->logits)
        TRY(runner_run(&s->state.runner, generation_recipe(g), &decode));
    TRY(pass_state_write_step(&s->state, &step, 0));
    if (g->p->constraint)
        TRY(generation_write_mask(g, &s->state, 0));
    TRY(runner_submit(&s->state.runner, sample, DGL_PHASE_PREFILL, s->seq.len));
    TRY(session_read_ids(s, s->seq.len, 1, &id));
    TRY(take_token(g, id));
done:
    return status;
}

enum dgl_status generation_sample_first(struct generation *g)
{
    enum dgl_status status;
    TRY(g->drawn ? take_token(g, g->first) : sample_one(g));
    if (!g->done && !g->logits && !g->s->seq.pooled)
        TRY(pass_state_is_current(&g->s->state) ? decoder_choose(&g->s->own) : follow_kernels(g));
done:
    return status;
}

enum dgl_status generation_advance(struct generation *g)
{
    struct sequence *seq = &g->s->seq;
    struct pass_state *st = &g->s->state;
    struct decoder *own = &g->s->own;
    const bool current = pass_state_is_current(st);
    int32_t tokens = 0; /* to evaluate by passes */
    enum dgl_status status = DGL_OK;
    if (g->logits) { /* a pass for each token */
        tokens = seq->len + 1;
        if (!current) {
            TRY(pass_state_follow(st));
            TRY(pass_state_compile(st, generation_draw(g).shapes));
        }
    } else if (!current) {
        TRY(follow_kernels(g));
    } else if (decoder_can_push(own)) {
        const uint64_t start = work_ns(g);
        status = decoder_push(own);
        g->r->record_ns += work_ns(g) - start;
    } else if (own->count > 0) {
        struct decoder_news news;
        int32_t count;
        TRY(decoder_take(own, &news, &count));
        if (count)
            TRY(generation_accept(&news));
    } else {
        /* No step can follow. Either the context is full, or the pending token reaches a length at
         * which the rotary frequencies change. */
        tokens = seq->len + 1;
        if (seq->len >= seq->context) {
            /* Drop half of the tokens between the first `keep` and the pending one. */
            const int32_t keep = g->p->keep, dropped = (tokens - keep) / 2;
            tokens -= dropped;
            memmove(seq->ids + keep, seq->ids + keep + dropped,
                    (size_t)(tokens - keep) * sizeof(*seq->ids));
            sequence_trim(seq, keep);
            g->r->num_shifted += (size_t)dropped;
            if (g->p->sampling.min_tokens > 0)
                TRY(write_adjust(g));
        }
    }
    if (tokens > 0) {
        TRY(session_eval(g->s, tokens));
        TRY(sample_one(g));
        /* A step that fills the context sets `stopped`, which zeroes the group counts in ARGS. The
         * runs may have changed, too. ARGS must be written again. */
        own->run = NULL;
    }
done:
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

enum dgl_status generation_check_params(const struct dgl_log *log,
                                        const struct dgl_generate_params *p, int32_t context)
{
    if (p->max_tokens < DGL_TOKENS_NONE)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "max_tokens is %d: 0 or -1 means no limit, %d no token at all",
                        p->max_tokens, DGL_TOKENS_NONE);
    if (p->readback_interval < 0 || p->readback_interval > DGL_READBACK_INTERVAL_MAX)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "readback interval %d is not within 0 and %d",
                        p->readback_interval, DGL_READBACK_INTERVAL_MAX);
    if (p->context_shift && (p->keep < 0 || p->keep > context / 2))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "a context shift is to keep %d tokens, at most half of the context of %d: "
                        "keep fewer or raise -c",
                        p->keep, context);
    if (p->context_shift && context < 4)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "a context of %d tokens cannot be shifted: raise -c", context);
    for (size_t i = 0; i < p->num_stop; i++)
        if (!p->stop || !p->stop[i])
            return dgl_fail(log, DGL_ERR_INVALID_ARG, "stop[%zu] is missing", i);
    if (p->num_stop_ids > 0 && !p->stop_ids)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "stop_ids[%zu] is missing", p->num_stop_ids - 1);
    if (p->num_shown > 0 && !p->shown)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "shown[%zu] is missing", p->num_shown - 1);
    if (p->constraint && (p->ignore_eos || p->context_shift))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "an answer with a constraint ends when its text is complete: give no %s",
                        p->ignore_eos ? "ignore_eos" : "context_shift");
    return sampling_check(log, &p->sampling);
}

/* ---- reading the prompt ---------------------------------------------------------------------- */

/* Pages are reserved for this many tokens of an answer, or for max_tokens if that is less, so that
 * the KV cache does not move during the answer. If there is no limit, fewer are reserved. */
#define ANSWER_TOKENS 2048
/* Initial room for text, in bytes per token. In most languages a token has two to five bytes. */
#define TOKEN_BYTES 8

enum dgl_status generation_init(struct generation *g, const struct dgl_model *m, int32_t most)
{
    const struct dgl_log *log = m->log;
    const int32_t asked = g->p->max_tokens;
    enum dgl_status status;
    g->max_tokens = asked == DGL_TOKENS_NONE ? 0 : asked > 0 ? asked : INT32_MAX;
    const size_t tokens = (size_t)(most < g->max_tokens ? most : g->max_tokens);
    const size_t bytes = m->tok ? tokens * TOKEN_BYTES : 0;
    TRY(text_stream_init(&g->stream, log, m->tok, g->p));
    TRY(constraint_begin(&g->constraint, log, m->constraints, g->p->constraint));
    if (!dgl_grow((void **)&g->r->tokens, &g->cap_tokens, tokens, sizeof(*g->r->tokens)))
        return dgl_fail_memory(log, "tokens", tokens * sizeof(*g->r->tokens));
    if (!dgl_buf_reserve(&g->stream.text, bytes))
        return dgl_fail_memory(log, "text", bytes);
done:
    return status;
}

enum dgl_status generation_begin(struct generation *g)
{
    struct dgl_session *s = g->s;
    struct dgl_generate_result *r = g->r;
    const int32_t count = (int32_t)(r->num_prompt_ids + r->num_tokens), context = s->seq.context;
    const int32_t *ids = r->prompt_ids;
    struct shape_set shapes;
    const bool again = g->start_ns > 0;
    enum dgl_status status = write_adjust(g);
    g->drawn = false;
    if (!again) {
        g->start = device_counters(session_dev(s));
        g->start_ns = work_ns(g);
    }
    TRY(status);
    if (r->num_tokens > 0) {
        memcpy(s->seq.ids, ids, r->num_prompt_ids * sizeof(*ids));
        memcpy(s->seq.ids + r->num_prompt_ids, r->tokens, r->num_tokens * sizeof(*ids));
        ids = s->seq.ids;
    }
    if (g->no_reuse && !again)
        sequence_trim(&s->seq, 0);
    TRY(session_take_ids(s, ids, (size_t)count, !g->no_reuse, again ? NULL : &r->num_reused));
    if (!g->s->seq.pooled) {
        const int32_t most = g->max_tokens == INT32_MAX ? DGL_READBACK_INTERVAL_MAX : g->max_tokens;
        TRY(session_reserve(s, count + (most < ANSWER_TOKENS ? most : ANSWER_TOKENS)));
    }
    g->rows = g->s->seq.pooled ? s->state.ubatch : session_eval_rows(s, count - s->seq.len);
    /* All shapes that the answer may run are compiled first, so that no token waits for the
     * compiler. */
    const int32_t last = g->max_tokens < context - count ? count + g->max_tokens : context;
    shapes = session_body_shapes(s, count - s->seq.len, g->rows);
    if (s->seq.len < count)
        shapes = shapes_add(shapes, PASS_HEAD);
    if (g->max_tokens > 0)
        shapes = shapes_join(shapes, generation_draw(g).shapes);
    if (g->max_tokens > 1) {
        /* generation_advance() evaluates any number of tokens after a change of rotary frequencies,
         * and a known number after a shift. */
        if (!pass_state_rope_holds(&s->state, last))
            for (int rows_log2 = 1; rows_log2 <= PASS_ANY_ROWS; rows_log2++)
                shapes = shapes_add(shapes, PASS_ROWS(rows_log2));
        const int32_t full = context + 1 - g->p->keep, kept = full - full / 2;
        if (last == context && g->p->context_shift)
            shapes = shapes_join(shapes, session_body_shapes(s, kept, session_eval_rows(s, kept)));
        shapes =
            shapes_join(shapes, g->logits ? shapes_of(PASS_DECODE) : generation_recipe(g).shapes);
    }
    TRY(pass_state_compile(&s->state, shapes));
    if (g->max_tokens > 1 && !g->logits)
        TRY(executor_prepare(&s->state.runner, generation_recipe(g)));
done:
    return status;
}

static int32_t prompt_left(const struct generation *g)
{
    return (int32_t)(g->r->num_prompt_ids + g->r->num_tokens) - g->s->seq.len;
}

enum dgl_status generation_pass(struct generation *g, int32_t most)
{
    struct dgl_session *s = g->s;
    struct runner *r = &s->state.runner;
    struct exec_run *run = NULL;
    const int32_t left = prompt_left(g);
    enum dgl_status status;
    g->drawn = false;
    if (g->may_step && !g->logits && !g->p->constraint && g->max_tokens > 0 &&
        left <= PLAN_PHASE_ROWS) {
        TRY(session_reserve(s, s->seq.len + left)); /* this may drop runs */
        run = executor_reader(r, generation_recipe(g), left);
    }
    if (run) {
        /* Each step samples an id, which the next token of the prompt overwrites. The id of the
         * last step is the first token of the answer. */
        s->seq.logits_valid = false;
        for (int32_t pos = s->seq.len; pos < s->seq.len + left; pos++) {
            const struct dgl_step step = generation_step(g, pos);
            TRY(pass_state_write(&s->state, BUF_IDS, 0, (uint64_t)pos * 4, s->seq.ids + pos, 4));
            TRY(pass_state_write_step(&s->state, &step, 0));
            TRY(runner_queue(r, run, 1, DGL_PHASE_PREFILL));
        }
        TRY(session_read_ids(s, s->seq.len + left, 1, &g->first));
        if (!executor_is_aborted(&g->first, 1)) {
            session_advance(s, left);
            g->drawn = true;
            goto done;
        }
        TRY(decoder_recover(&s->own, generation_recipe(g), true));
    }
    const int32_t tokens = session_pass_tokens(s, left, most < g->rows ? most : g->rows, false);
    TRY(session_pass(s, tokens, tokens == left ? ROW_LOGITS : 0));
done:
    return status;
}

enum dgl_status generation_finish(struct generation *g, enum dgl_status status)
{
    struct text_stream *t = &g->stream;
    struct dgl_generate_result *r = g->r;
    /* A cancelled detokenizer has already failed and reported the error. */
    if (status == DGL_ERR_CANCELLED && t->status == DGL_OK) {
        generation_end(g, DGL_FINISH_CANCELLED);
        status = DGL_OK;
    }
    if (status == DGL_OK || (status == DGL_ERR_DEVICE_LOST && t->status == DGL_OK)) {
        text_stream_end(t);
        if (t->status == DGL_OK) {
            if (r->finish != DGL_FINISH_CANCELLED)
                emit_text(g);
            dgl_buf_append(&t->text, "", 0);
            r->text_len = t->text.len;
            r->text = dgl_buf_take(&t->text);
        }
        if (status == DGL_OK && !r->text)
            status = t->status != DGL_OK ? t->status
                                         : dgl_fail_memory(g->s->model->log, "text", r->text_len);
    }
    text_stream_finish(t);
    constraint_finish(&g->constraint);
    return status;
}

static enum dgl_status run_prompt(struct generation *g)
{
    struct gl_device *gl = session_dev(g->s)->gl;
    enum dgl_status status;
    TRY(generation_begin(g));
    while (prompt_left(g) > 0) {
        TRY(session_is_cancelled(g->s) ? DGL_ERR_CANCELLED : generation_pass(g, INT32_MAX));
        if (prompt_left(g) > 0 && g->rows > 1)
            TRY(gl_flush(gl));
    }
    if (!g->drawn)
        TRY(gl_finish(gl));
done:
    g->r->prefill_ns = work_ns(g) - g->start_ns;
    g->r->prefill = counters_since(session_dev(g->s), &g->start);
    return status;
}

enum dgl_status session_generate(struct dgl_session *s, const struct dgl_generate_params *params,
                                 struct dgl_generate_result *out)
{
    struct generation g = {
        .p = params, .r = out, .interval = params->readback_interval, .may_step = true};
    struct dgl_device *dev = session_dev(s);
    const uint64_t compiled_ns = account_ns(dev);
    struct profile profile = {0}; /* used if this call asks for a profile */
    struct token_ids ids = {0};
    enum dgl_status status;
    decoder_own(s, &g);
    if (g.interval == 0)
        g.interval = session_readback_interval(s);
    if (params->profile) {
        double copy_gbps = 0;
        TRY(profile_copy(dev, shard_kernels(s->model->shard), &copy_gbps));
        TRY(profile_init(&profile, dev, shard_kernels(s->model->shard)));
        profile.sums.copy_gbps = copy_gbps;
        s->state.runner.profile = &profile;
    }
    if (s->state.runner.profile || params->constraint)
        g.interval = 1;
    TRY(generation_check_params(s->model->log, params, s->seq.context));
    TRY(session_prompt_ids(s, PROMPT_OF(params), &ids));
    out->prompt_ids = ids.ids;
    out->num_prompt_ids = ids.count;
    ids.ids = NULL;
    TRY(generation_init(&g, s->model, 0));
    TRY(run_prompt(&g));
    if (g.max_tokens == 0) {
        generation_end(&g, DGL_FINISH_LENGTH);
        goto done;
    }
    status = generation_sample_first(&g);
    /* The time of the first token belongs to the prompt. */
    out->prefill = counters_since(dev, &g.start);
    const struct dgl_counters before = device_counters(dev);
    if (s->state.runner.profile)
        s->state.runner.profile->step_end_ns = dgl_now_ns();
    const uint64_t start = work_ns(&g);
    while (status == DGL_OK && !g.done)
        status = generation_advance(&g);
    decoder_drop(&s->own);
    out->decode_ns = work_ns(&g) - start;
    out->decode = counters_since(dev, &before);
done:
    status = generation_finish(&g, status);
    free(ids.ids);
    if (params->profile)
        s->state.runner.profile = NULL;
    sequence_trim_pages(&s->seq);
    out->profile = profile.sums;
    out->compile_ns = account_ns(dev) - compiled_ns;
    return status;
}

void generate_result_finish(struct dgl_generate_result *result)
{
    free(result->prompt_ids);
    free(result->tokens);
    free(result->text);
    profile_sums_finish(&result->profile);
    dgl_sized_clear(result, sizeof(*result));
}
