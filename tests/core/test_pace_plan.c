/* Dispatch times of a 1B model on a simulated Raspberry Pi: by the estimator no dispatch needs more
 * than 100 ms, before and after passes were timed. The plan of fast devices does not change.
 * Splitting weights into bands changes no token. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/planned.h"
#include "tests/support/tiny_engine.h"

#define MS 1000000ull
#define GB 1000000000ull

static struct kernel_set *builtin;

static void open_shape(struct planned *p, const char *name, enum made_device device)
{
    char config[128];
    snprintf(config, sizeof(config), "tests/models/configs/%s.json", name);
    planned_open(p, &(struct shape_model_params){.config = config, .quantize = "q4_k_m"}, device,
                 builtin);
}

static uint64_t shape_bytes(const struct plan *plan, struct pass_shape shape, uint64_t *largest)
{
    const struct oplist *ops = &plan_body(plan, shape)->ops;
    uint64_t sum = 0;
    *largest = 0;
    for (size_t i = 0; i < ops->count; i++) {
        sum += ops->ops[i].bytes;
        *largest = ops->ops[i].bytes > *largest ? ops->ops[i].bytes : *largest;
    }
    return sum;
}

static const char *const shapes[] = {"llama-3.2-1b", "qwen3-0.6b", "gemma-3-1b", "llama-3.2-3b"};

/* Before a pass was timed, the assumed rate is used. */
static void test_untimed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        static const struct pass_shape each[] = {PASS_DECODE, PASS_HEAD};
        struct planned p;
        const struct pace pace = {0};
        uint64_t largest;
        open_shape(&p, shapes[i], MADE_PI);
        assert_int_equal(p.device.dispatch_bytes, 48ull << 20);
        const double byte_ns = (double)pace_token_ns(&pace, &p.plan) /
                               (double)(shape_bytes(&p.plan, PASS_DECODE, &largest) +
                                        shape_bytes(&p.plan, PASS_HEAD, &largest));
        for (size_t s = 0; s < 2; s++) {
            shape_bytes(&p.plan, each[s], &largest);
            const uint64_t ns = (uint64_t)((double)largest * byte_ns);
            printf("# %s: %s at most %.1f ms\n", shapes[i], s ? "head" : "decode",
                   (double)ns * 1e-6);
            assert_in_range(ns, 1, PACE_BUDGET_NS);
        }
        /* A matmul for r tokens needs at most r times the time of a matmul for one token. */
        shape_bytes(&p.plan, PASS_DECODE, &largest);
        const int32_t tokens = pace_tokens(&pace, &p.plan, 512, 0, false);
        assert_true(tokens == 1 || largest * (uint64_t)tokens <= p.device.dispatch_bytes);
        const int32_t rows = pace_sequences(&pace, &p.plan, 8, 0);
        assert_true(rows == 1 || largest * (uint64_t)rows <= p.device.dispatch_bytes);
        /* A persistent dispatch computes a whole token. */
        assert_true(pace_token_ns(&pace, &p.plan) > PACE_BUDGET_NS);
        planned_close(&p);
    }
}

/* Rates of the device that timing finds, in bytes of weights per second. */
static const struct rate {
    const char *name;
    uint64_t bytes;
} rates[] = {
    {"as fast as is assumed", (48ull << 20) * 10},
    {"twice as fast", GB},
    {"eight times as fast", 4 * GB},
};

static void test_timed(void **state)
{
    const struct rate *rate = *state;
    struct planned p;
    struct pace pace = {0};
    uint64_t largest, head;
    open_shape(&p, "llama-3.2-1b", MADE_PI);
    const uint64_t body = shape_bytes(&p.plan, PASS_DECODE, &largest);
    shape_bytes(&p.plan, PASS_HEAD, &head);
    const double byte_ns = 1e9 / (double)rate->bytes;
    pace_note(&pace, &p.plan, 1, 1, (uint64_t)((double)body * byte_ns));
    for (int i = 0; i < 12; i++) {
        const int32_t tokens = pace_tokens(&pace, &p.plan, 512, 1, false);
        const int32_t rows = pace_sequences(&pace, &p.plan, 64, 1);
        /* The worst case: a matmul for r tokens needs r times the time of a matmul for one token.
         */
        const double pass_ns = (double)largest * byte_ns * tokens;
        const double batch_ns = (double)largest * byte_ns * rows;
        if (pass_ns > PACE_BUDGET_NS || batch_ns > PACE_BUDGET_NS)
            fail_msg("%s: a dispatch of a pass of %d tokens takes %.0f ms, of %d sequences %.0f ms",
                     rate->name, tokens, pass_ns * 1e-6, rows, batch_ns * 1e-6);
        pace_note(&pace, &p.plan, tokens, 1, (uint64_t)((double)body * byte_ns * tokens));
    }
    assert_in_range((uint64_t)((double)head * byte_ns), 1, PACE_BUDGET_NS);
    printf("# %s: passes of %d tokens, %d sequences, the head's largest dispatch %.0f ms\n",
           rate->name, pace_tokens(&pace, &p.plan, 512, 1, false),
           pace_sequences(&pace, &p.plan, 64, 1), (double)head * byte_ns * 1e-6);
    planned_close(&p);
}

/* Only slow devices have a limit before they are timed. */
static void test_fast_devices(void **state)
{
    static const enum made_device fast[] = {MADE_GPU, MADE_LLVMPIPE};
    const struct pace pace = {0};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct planned p;
        open_shape(&p, "llama-3.2-1b", fast[i]);
        assert_int_equal(p.device.dispatch_bytes, 0);
        assert_int_equal(pace_sequences(&pace, &p.plan, 64, 0), 64);
        assert_int_equal(pace_token_ns(&pace, &p.plan), 0);
        planned_close(&p);
    }
}

/* Compares the head of a small model in one band with the head in the bands of a very slow device.
 */
static void test_cut_keeps_the_tokens(void **state)
{
    enum { PROMPT = 20, ANSWER = 8 };
    int32_t prompt[PROMPT], got[2][ANSWER];
    size_t bands[2];
    (void)state;
    char *dir = test_tmpdir();
    make_tiny_llama(dir, 11, NULL);
    tiny_ids(prompt, PROMPT, 320, 5);
    for (int i = 0; i < 2; i++) {
        struct tiny_engine e;
        tiny_engine_open(&e,
                         &(struct tiny_engine_params){.path = dir, .dispatch_bytes = i ? 4096 : 0});
        bands[i] = plan_body(&e.model->shard->engine->plan, PASS_HEAD)->ops.count;
        tiny_greedy(e.session, prompt, PROMPT, got[i], ANSWER);
        tiny_engine_close(&e);
    }
    printf("# operations of the head: %zu, %zu\n", bands[0], bands[1]);
    assert_true(bands[1] > bands[0]);
    assert_memory_equal(got[0], got[1], sizeof(got[0]));
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_untimed),
        cmocka_unit_test(test_fast_devices),
        cmocka_unit_test(test_cut_keeps_the_tokens),
    };
    builtin = loaded_set(NULL);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("rates", test_timed, rates);
    kernel_set_destroy(&builtin);
    return failures != 0;
}
