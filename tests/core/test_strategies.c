/* Strategies for q4_k weights on a live model: tokens, logits, bytes, and a conversation that
 * continues while weights are packed again. If a strategy does not fit or fails, the model is
 * unchanged. */
#include "tests/support/gl_fail.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

enum { PROMPT = 12, ANSWER = 5, VOCAB = 4096 };

enum strategy { FUSED, F16, F32, STRATEGIES };
static const char *const hints[STRATEGIES] = {"q4kMatmul=fused_q4k", "q4kMatmul=dequant_f16",
                                              "q4kMatmul=dequant_f32"};
/* docs/kernels.md: of the logits, between the strategies of one sequence of tokens. */
static const double tolerance = 1e-8;

static enum dgl_status set_strategy(struct tiny_engine *e, enum strategy strategy)
{
    struct dgl_kernels *kernels = NULL;
    enum dgl_status status = dgl_kernels_create(
        &e->log.log, dgl_kernels_params(.flags = &hints[strategy], .num_flags = 1), &kernels);
    if (status == DGL_OK)
        status = dgl_model_set_kernels(e->model, kernels);
    dgl_kernels_destroy(&kernels);
    return status;
}

static void open_with(struct tiny_engine *e, const char *path, enum strategy strategy)
{
    struct dgl_kernels *kernels = NULL;
    assert_int_equal(
        dgl_kernels_create(NULL, dgl_kernels_params(.flags = &hints[strategy], .num_flags = 1),
                           &kernels),
        DGL_OK);
    tiny_engine_open(e,
                     &(struct tiny_engine_params){.path = path, .context = 64, .kernels = kernels});
    dgl_kernels_destroy(&kernels);
}

static uint64_t weight_bytes(const struct tiny_engine *e)
{
    return dgl_model_get_info(e->model)->weight_bytes;
}

/* ---- between two tokens ---------------------------------------------------------------------- */

static struct tiny_engine live, began[STRATEGIES]; /* `began` with a strategy and keeps it */

struct change {
    const char *name;
    enum strategy from, to;
};

static const struct change changes[] = {
    {"packed to f16", FUSED, F16},      {"f16 to f32", F16, F32}, {"f32 to packed", F32, FUSED},
    {"packed to f32", FUSED, F32},      {"f32 to f16", F32, F16}, {"f16 to packed", F16, FUSED},
    {"packed as before", FUSED, FUSED},
};

/* Ten tokens. Another strategy computes the last five from the state that the first one evaluated.
 */
static void test_change(void **state)
{
    const struct change *row = *state;
    struct tiny_engine *other = &began[row->to];
    int32_t ids[PROMPT + 2 * ANSWER], want[ANSWER];
    tiny_ids(ids, PROMPT, VOCAB, 3);
    assert_int_equal(set_strategy(&live, row->from), DGL_OK);
    dgl_session_trim(live.session, 0);
    tiny_greedy(live.session, ids, PROMPT, ids + PROMPT, ANSWER);
    size_t len = dgl_session_len(live.session);
    int64_t others = gl_fail.live_bytes - (int64_t)weight_bytes(&live);
    uint64_t most = weight_bytes(&live);
    gl_fail.peak_bytes = 0;
    assert_int_equal(set_strategy(&live, row->to), DGL_OK);
    if (gl_fail.peak_bytes) { /* a buffer was made */
        most = weight_bytes(&live) > most ? weight_bytes(&live) : most;
        assert_at_most((double)(gl_fail.peak_bytes - others), (double)most);
    }
    assert_int_equal(gl_fail.live_bytes - others, weight_bytes(&live));
    assert_int_equal(weight_bytes(&live), weight_bytes(other));
    assert_int_equal(dgl_session_len(live.session), len);
    tiny_greedy(live.session, ids, PROMPT + ANSWER, ids + PROMPT + ANSWER, ANSWER);
    tiny_greedy(other->session, ids, PROMPT + ANSWER, want, ANSWER);
    for (int i = 0; i < ANSWER; i++)
        if (ids[PROMPT + ANSWER + i] != want[i])
            fail_msg("token %d is %d, by %s from the beginning %d", i, ids[PROMPT + ANSWER + i],
                     hints[row->to], want[i]);
    /* Only the tokens that the last token needs are evaluated again. */
    assert_true(tiny_sync(live.session, ids, PROMPT + 2 * ANSWER) >= PROMPT + 2 * ANSWER - 1);
    tiny_sync(other->session, ids, PROMPT + 2 * ANSWER);
    float *a = tiny_logits(live.session), *b = tiny_logits(other->session);
    printf("# %s: NMSE of the logits %.2g\n", row->name, tiny_nmse(a, b, VOCAB));
    assert_at_most(tiny_nmse(a, b, VOCAB), tolerance);
    free(a);
    free(b);
    dgl_session_trim(other->session, 0);
}

/* Weights of other types stay in place; only q4_k weights are written. */
static void test_only_what_changes_is_packed(void **state)
{
    (void)state;
    struct dgl_counters before, after;
    assert_int_equal(set_strategy(&live, FUSED), DGL_OK);
    dgl_device_get_counters(live.device, &before);
    assert_int_equal(set_strategy(&live, F16), DGL_OK);
    dgl_device_get_counters(live.device, &after);
    const struct model_weights *w = &live.model->shard->engine->weights;
    assert_int_equal(w->num_buffers, 2);
    assert_at_most((double)(after.upload_bytes - before.upload_bytes), (double)w->buffer_bytes[1]);
    assert_int_equal(set_strategy(&live, FUSED), DGL_OK);
}

/* A plan of more operations than the session's first one. */
static void test_more_operations(void **state)
{
    (void)state;
    const struct plan *plan = &live.model->shard->engine->plan;
    struct plan longer = *plan;
    struct body decode = *plan_body(plan, PASS_DECODE), *bodies[] = {&decode};
    uint64_t bytes[BUF_COUNT];
    decode.ops.count += 1000;
    longer.bodies = bodies;
    longer.num_bodies = 1;
    plan_sequence_bytes(&longer, 1, bytes);
    const struct gl_range first = live.session->state.memory.state[BUF_ARGS];
    assert_int_equal(memory_fit_plan(&live.session->state.memory, live.device, plan), DGL_OK);
    assert_ptr_equal(live.session->state.memory.state[BUF_ARGS].buffer, first.buffer);
    struct gl_saved saved = {0};
    assert_int_equal(device_enter(live.device, &saved), DGL_OK);
    assert_int_equal(memory_fit_plan(&live.session->state.memory, live.device, &longer), DGL_OK);
    device_leave(live.device, &saved);
    assert_int_equal(live.session->state.memory.state[BUF_ARGS].size, bytes[BUF_ARGS]);
    assert_true(bytes[BUF_ARGS] > first.size);
    assert_int_equal(set_strategy(&live, FUSED), DGL_OK); /* the session binds again */
    int32_t ids[PROMPT], out[ANSWER];
    tiny_ids(ids, PROMPT, VOCAB, 3);
    dgl_session_trim(live.session, 0);
    tiny_greedy(live.session, ids, PROMPT, out, ANSWER);
}

/* ---- refused changes ----------------------------------------------------------------------------
 */

static char *small; /* a pack of random weights in q4_k */

/* The answer and the strategy are unchanged. */
static void check_unchanged(struct tiny_engine *e, const float *want, uint64_t bytes)
{
    int32_t ids[PROMPT];
    tiny_ids(ids, PROMPT, 320, 4);
    dgl_session_trim(e->session, 0);
    tiny_sync(e->session, ids, PROMPT);
    float *got = tiny_logits(e->session);
    assert_memory_equal(got, want, 320 * sizeof(*got));
    assert_int_equal(weight_bytes(e), bytes);
    free(got);
}

static float *answer_of(struct tiny_engine *e)
{
    int32_t ids[PROMPT];
    tiny_ids(ids, PROMPT, 320, 4);
    tiny_sync(e->session, ids, PROMPT);
    return tiny_logits(e->session);
}

static void test_too_large_is_refused(void **state)
{
    (void)state;
    static const char *const parts[] = {"does not fit", "weights ", "available ",
                                        "keeps its kernels"};
    struct tiny_engine e;
    open_with(&e, small, FUSED);
    assert_int_equal(set_strategy(&e, FUSED), DGL_OK); /* kernels of prefill are compiled then */
    float *want = answer_of(&e);
    uint64_t bytes = weight_bytes(&e);
    uint32_t serial = e.model->shard->engine_serial;
    gl_fail.memory_free_bytes = e.device->held_bytes + bytes;
    test_log_clear(&e.log);
    assert_refusal(&e.log, set_strategy(&e, F32), DGL_ERR_NO_MEMORY, parts);
    assert_int_equal(e.model->shard->engine_serial, serial);
    check_unchanged(&e, want, bytes);
    gl_fail.memory_free_bytes = e.device->held_bytes + 8 * bytes;
    assert_int_equal(set_strategy(&e, F32), DGL_OK);
    gl_fail_reset();
    free(want);
    tiny_engine_close(&e);
}

struct fault {
    const char *name;
    long *counter;
    long step;
    enum dgl_status status;
};

static const struct fault faults[] = {
    {"allocations", &gl_fail.allocations, 97, DGL_ERR_NO_MEMORY},
    {"buffers", &gl_fail.buffers, 1, DGL_ERR_NO_MEMORY},
    {"programs", &gl_fail.programs, 1, DGL_ERR_KERNEL},
};

/* Calls number 0, step, 2 * step ... of one kind fail. */
static void test_fault(void **state)
{
    const struct fault *row = *state;
    struct tiny_engine e;
    long failed = 0;
    open_with(&e, small, FUSED);
    assert_int_equal(set_strategy(&e, F16), DGL_OK); /* the cache is warm then */
    assert_int_equal(set_strategy(&e, FUSED), DGL_OK);
    float *want = answer_of(&e);
    uint64_t bytes = weight_bytes(&e);
    int64_t buffers = gl_fail.live_buffers;
    for (long n = 0;; n += row->step) {
        test_log_clear(&e.log);
        *row->counter = n;
        enum dgl_status status = set_strategy(&e, F16);
        bool tripped = gl_fail.tripped;
        gl_fail_reset();
        if (!tripped) {
            assert_int_equal(status, DGL_OK);
            break;
        }
        if (status == DGL_OK) { /* it was only nice to have */
            assert_int_equal(set_strategy(&e, FUSED), DGL_OK);
            continue;
        }
        if (status != row->status || e.log.errors != 1)
            fail_msg("call %ld: %s, %d lines: %s", n, dgl_status_str(status), e.log.errors,
                     e.log.text);
        check_unchanged(&e, want, bytes);
        failed++;
    }
    printf("# %s: %ld faults\n", row->name, failed);
    assert_true(failed > 0);
    assert_int_equal(set_strategy(&e, FUSED), DGL_OK);
    check_unchanged(&e, want, bytes);
    assert_int_equal(gl_fail.live_buffers, buffers);
    free(want);
    tiny_engine_close(&e);
}

/* The model's file ends in the middle: the new weights cannot be read, and the old ones neither. */
static void test_lost_weights(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_session *another = NULL;
    int32_t ids[PROMPT];
    tiny_ids(ids, PROMPT, 320, 4);
    open_with(&e, small, FUSED);
    assert_int_equal(set_strategy(&e, FUSED), DGL_OK); /* kernels of prefill are compiled then */
    float *want = answer_of(&e);
    const uint64_t bytes = weight_bytes(&e);
    size_t len = 0;
    char *shard = tiny_file_read(small, "shard_00000.bin", &len), path[512];
    snprintf(path, sizeof(path), "%s/shard_00000.bin", small);
    assert_int_equal(truncate(path, (off_t)len / 2), 0);
    enum dgl_status lost = set_strategy(&e, F16);
    test_write_file(small, "shard_00000.bin", shard, len);
    free(shard);
    assert_int_not_equal(lost, DGL_OK);
    test_log_clear(&e.log);
    assert_int_equal(dgl_session_sync(e.session, ids, PROMPT, NULL), lost);
    assert_contains(e.log.text, "were lost when its kernels were changed: dgl_model_rebuild()");
    assert_int_equal(dgl_session_create(e.model, NULL, &another), lost);
    assert_int_equal(set_strategy(&e, FUSED), lost);
    assert_int_equal(e.log.errors, 3);
    assert_int_equal(dgl_model_rebuild(e.model, NULL), DGL_OK);
    check_unchanged(&e, want, bytes);
    free(want);
    tiny_engine_close(&e);
    assert_int_equal(gl_fail.live_buffers, 0);
}

static void make_small(const char *dir)
{
    struct tiny_llama sizes = tiny_llama_default();
    char in[512];
    sizes.hidden = sizes.intermediate = 256;
    snprintf(in, sizeof(in), "%s/in", dir);
    snprintf(small, 512, "%s/small", dir);
    assert_int_equal(mkdir(in, 0700), 0);
    tiny_llama_write(in, &sizes);
    struct dgl_convert_result r = {.size = sizeof(r)};
    assert_int_equal(
        dgl_convert(NULL,
                    dgl_convert_params(.in = in, .out = small, .quantize = "q4_k_m", .threads = 1),
                    &r),
        DGL_OK);
}

int main(void)
{
    const struct CMUnitTest last[] = {
        cmocka_unit_test(test_only_what_changes_is_packed),
        cmocka_unit_test(test_more_operations),
    };
    const struct CMUnitTest refused[] = {
        cmocka_unit_test(test_too_large_is_refused),
        cmocka_unit_test(test_lost_weights),
    };
    char *dir = test_tmpdir(), path[512];
    small = path;
    make_small(dir);
    open_with(&live, BUNDLED_MODEL, FUSED);
    for (int i = 0; i < STRATEGIES; i++)
        open_with(&began[i], BUNDLED_MODEL, (enum strategy)i);
    int failures = test_run_table("changes", test_change, changes);
    failures += cmocka_run_group_tests_name("buffers", last, NULL, NULL);
    tiny_engine_close(&live);
    for (int i = 0; i < STRATEGIES; i++)
        tiny_engine_close(&began[i]);
    failures += test_run_table("faults", test_fault, faults);
    failures += cmocka_run_group_tests_name("refused", refused, NULL, NULL);
    test_tmpdir_remove(dir);
    return failures;
}
