/* Evaluates known ids of a session in passes over up to `ubatch` tokens. */
#include "core/seq/prefill.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

/* On software renderers, short prompts use the decode programs while the prefill programs are not
 * compiled. The answer needs the decode programs anyway, and compiling the others takes a second or
 * two. Both limits apply: the tokens, and the bytes of weights that they read one by one. If the
 * user has chosen a prefill kernel, that kernel is used. */
#define SHORT_PROMPT       16
#define SHORT_PROMPT_BYTES (512ull << 20)

/* ---- passes ---------------------------------------------------------------------------------- */

/* Runs the next pass block by block, and reads the stream after each block. */
static enum dgl_status trace_body(struct dgl_session *s, int32_t tokens)
{
    const struct plan *plan = session_plan(s);
    const struct body *body = plan_body(plan, plan_pass_shape(plan, tokens));
    size_t count = body->ops.count, row = (size_t)plan->desc->hidden, point = 0;
    struct stream_trace *trace = s->trace;
    struct exec_run *run = NULL;
    enum dgl_status status = DGL_OK;
    if (s->seq.len == 0)
        trace->first = body->shape;
    for (size_t first = 0, end; first < count; first = end, point++) {
        struct recipe recipe = recipe_of(body->shape);
        enum plan_buffer stream;
        end = plan_block_end(body, first, &stream);
        recipe.first = first;
        recipe.count = end - first;
        assert(point < session_trace_points(s));
        TRY(exec_run_create(s->model->shard->engine->exec, recipe, &s->state.memory, &run));
        TRY(exec_run_set_tokens(run, tokens));
        TRY(exec_run_submit(run, 1, NULL));
        TRY(gl_buffer_read(session_dev(s)->gl, s->model->shard->workspace.range[stream].buffer,
                           s->model->shard->workspace.range[stream].offset,
                           trace->values + (point * trace->rows + (size_t)s->seq.len) * row,
                           (size_t)tokens * row * sizeof(float)));
        exec_run_destroy(&run);
    }
    assert(point == session_trace_points(s));
done:
    exec_run_destroy(&run);
    return status;
}

enum dgl_status session_pass(struct dgl_session *s, int32_t tokens, uint32_t flags)
{
    const struct plan *plan = session_plan(s);
    const struct sequence *seq = &s->seq;
    const struct dgl_step step = {
        .pos = (uint32_t)seq->len, .tokens = (uint32_t)tokens, .context = (uint32_t)seq->context};
    struct dgl_model *m = s->model;
    struct pace *pace = &m->shard->pace;
    const int32_t ubatch = s->state.ubatch, held = seq->len + tokens;
    const int32_t before = pace_tokens(pace, plan, ubatch, seq->len, false);
    const bool timed = s->auto_ubatch && !s->state.runner.profile && !s->trace && before < ubatch;
    struct exec_run *body = NULL;
    enum dgl_status status;
    TRY(session_reserve(s, held));
    TRY(pass_state_write(&s->state, BUF_IDS, 0, (uint64_t)seq->len * 4, seq->ids + seq->len,
                         (uint64_t)tokens * 4));
    TRY(pass_state_write_step(&s->state, &step, flags));
    TRY(s->trace ? trace_body(s, tokens) : pass_state_body(&s->state, &body));
    if (timed)
        TRY(gl_finish(session_dev(s)->gl));
    const uint64_t start_ns = timed ? dgl_now_ns() : 0;
    if (!s->trace)
        TRY(runner_submit(&s->state.runner, body, DGL_PHASE_PREFILL, held));
    if (timed) {
        const bool head_was_known = pace->head_ns > 0;
        TRY(gl_finish(session_dev(s)->gl));
        pace_note(pace, plan, tokens, held, dgl_now_ns() - start_ns);
        const int32_t after = pace_tokens(pace, plan, ubatch, held, false);
        if (after != before || tokens == 1)
            dgl_info(m->log,
                     "a layer took %.1f ms for %d token%s: passes of up to %d tokens of %d, so "
                     "that no dispatch takes much longer than %d ms",
                     (double)pace->layer.ns * 1e-6, tokens, tokens == 1 ? "" : "s", after, ubatch,
                     (int)(PACE_BUDGET_NS / 1000000));
        if (!head_was_known && pace->head_ns > PACE_BUDGET_NS)
            dgl_warn(m->log,
                     "the head is one dispatch of about %.0f ms for each token here: a watchdog "
                     "may reset the device; a smaller type for it (convert --head) takes less",
                     (double)pace->head_ns * 1e-6);
    }
    session_advance(s, tokens);
    TRY(pass_state_queue_results(&s->state, seq->len));
    s->seq.logits_valid = flags & ROW_LOGITS;
done:
    return status;
}

size_t session_trace_points(const struct dgl_session *s)
{
    return 1 + 2 * (size_t)session_plan(s)->desc->layers;
}

int32_t session_pass_tokens(const struct dgl_session *s, int32_t left, int32_t rows, bool scores)
{
    const struct plan *plan = session_plan(s);
    rows = left < rows ? left : rows;
    if (s->auto_ubatch)
        rows = pace_tokens(&s->model->shard->pace, plan, rows, s->seq.len, scores);
    return plan_pass_tokens(plan, left, rows);
}

struct shape_set session_body_shapes(const struct dgl_session *s, int32_t count, int32_t rows)
{
    const struct plan *plan = session_plan(s);
    struct shape_set shapes = {.count = 0};
    int32_t left = count;
    if (s->auto_ubatch && s->model->shard->pace.layer.tokens > 0)
        rows = pace_tokens(&s->model->shard->pace, plan, rows, s->seq.len, false);
    else if (left > 0 && session_pass_tokens(s, left, rows, false) == 1) {
        shapes = shapes_of(PASS_DECODE); /* a timed pass; then most likely full ones */
        left--;
    }
    for (int32_t tokens; left > 0; left -= tokens) {
        tokens = plan_pass_tokens(plan, left, rows);
        shapes = shapes_add(shapes, plan_pass_shape(plan, tokens));
    }
    return shapes;
}

int32_t session_eval_rows(const struct dgl_session *s, int32_t count)
{
    const struct engine *engine = s->model->shard->engine;
    const struct shape_set shapes = session_body_shapes(s, count, s->state.ubatch);
    const uint64_t tokens = (uint64_t)count;
    if (session_dev(s)->info.software && tokens <= SHORT_PROMPT &&
        tokens * engine->plan.weights->bytes <= SHORT_PROMPT_BYTES &&
        !plan_is_asked(&engine->plan, shapes) &&
        !exec_is_compiled(&engine->programs, &engine->plan, shapes))
        return 1;
    return s->state.ubatch;
}

/* ---- ids ------------------------------------------------------------------------------------- */

enum dgl_status session_check_ids(const struct dgl_session *s, const char *name, const int32_t *ids,
                                  size_t count)
{
    const struct dgl_log *log = s->model->log;
    if (count == 0 || !ids)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s is empty: give at least one token", name);
    if (count > (size_t)s->seq.context)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s has %zu tokens, the context holds %d: shorten it or raise -c", name,
                        count, s->seq.context);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= s->model->info.vocab)
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "token %zu of %s is %d, the vocabulary has ids 0 to %d", i, name,
                            ids[i], s->model->info.vocab - 1);
    return DGL_OK;
}

enum dgl_status session_prompt_ids(const struct dgl_session *s, const struct prompt *prompt,
                                   struct token_ids *ids)
{
    const struct dgl_model *m = s->model;
    const struct dgl_log *log = m->log;
    if (!prompt->text == !prompt->ids)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "give a prompt either as text or as ids");
    if (prompt->text && !m->tok)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "%s has no tokenizer: give the prompt as ids",
                        m->info.path);
    if (prompt->text) {
        struct dgl_str text = {prompt->text,
                               prompt->text_len ? prompt->text_len : strlen(prompt->text)};
        struct encode_flags flags = {.add_special = true,
                                     .no_parse_special = prompt->no_parse_special};
        enum dgl_status status = tokenizer_encode(log, m->tok, text, flags, ids);
        if (status == DGL_OK && ids->count == 0 && m->info.bos_id >= 0) {
            if (!dgl_grow((void **)&ids->ids, &ids->cap, 1, sizeof(*ids->ids)))
                return dgl_fail_memory(log, "prompt", sizeof(*ids->ids));
            ids->ids[ids->count++] = m->info.bos_id;
        }
        return status;
    }
    ids->ids = dgl_new_array(int32_t, prompt->num_ids);
    if (!ids->ids)
        return dgl_fail_memory(log, "prompt", prompt->num_ids * sizeof(int32_t));
    memcpy(ids->ids, prompt->ids, prompt->num_ids * sizeof(int32_t));
    ids->count = prompt->num_ids;
    return DGL_OK;
}

enum dgl_status session_take_ids(struct dgl_session *s, const int32_t *ids, size_t count,
                                 bool adopts, size_t *reused)
{
    enum dgl_status status = session_check_ids(s, "the prompt", ids, count);
    if (status == DGL_OK)
        status = session_expect(s, (int32_t)count);
    if (status != DGL_OK)
        return status;
    size_t keep = 0;
    while (keep < count && keep < (size_t)s->seq.len && s->seq.ids[keep] == ids[keep])
        keep++;
    /* The caller needs the last token's logits. Evaluate it again if LOGITS is not valid. */
    if (keep == count && !(s->seq.logits_valid && s->seq.len == (int32_t)count))
        keep--;
    sequence_trim(&s->seq, (int32_t)keep);
    if (ids != s->seq.ids)
        memcpy(s->seq.ids + keep, ids + keep, (count - keep) * sizeof(*ids));
    if (keep < count && adopts)
        status = session_adopt(s, (int32_t)count, NULL);
    if (reused)
        *reused = (size_t)s->seq.len;
    return status;
}

enum dgl_status session_fail_not_numbers(const struct dgl_session *s, const char *fmt, ...)
{
    struct dgl_buf texts = {0};
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    plan_name_users_texts(session_plan(s), &texts);
    const bool users = texts.len > 0 && !texts.failed;
    enum dgl_status status = dgl_fail(
        s->model->log, DGL_ERR_GPU,
        "%s not numbers; %s%s%sthe model's weights may hold NaN or infinity (try the file that "
        "they were made from); if not, try --limits min, and report it with the output of "
        "`dopplergl devices`",
        what, users ? "kernels that are not built in are in use, try without them: " : "",
        users ? texts.p : "", users ? "; " : "");
    dgl_buf_finish(&texts);
    return status;
}
