/* Models that exist only as a shape: weights made on the device, good for measuring, and refused
 * with the list when the name is wrong. */
#include "tests/support/tiny_engine.h"

#include <math.h>
#include <stdlib.h>

struct format {
    const char *name;  /* also the path */
    uint64_t per_1000; /* weight bytes per 1000 parameters, about */
};

static const struct format formats[] = {
    {"synthetic:story-llama", 620},        {"synthetic:story-llama:q4_k", 563},
    {"synthetic:story-llama:q4_k_m", 620}, {"synthetic:story-llama:q8_0", 1063},
    {"synthetic:story-llama:f16", 2000},   {"synthetic:story-llama:bf16", 2000},
    {"synthetic:story-llama:f32", 4000},
};

/* Some that between them fill the packed layouts, with experts and without. */
static const struct format filled[] = {
    {"synthetic:story-llama:q4_k_m", 0},
    {"synthetic:story-llama:bf16", 0},
    {"synthetic:story-moe:q8_0", 0},
    {"synthetic:tiny-gpt-oss:mxfp4", 0},
};

static void open_format(struct tiny_engine *e, const char *path)
{
    tiny_engine_open(e, &(struct tiny_engine_params){.path = path, .context = 128});
}

static void test_shape(void **state)
{
    const struct format *row = *state;
    struct tiny_engine e;
    open_format(&e, row->name);
    const struct dgl_model_info *info = dgl_model_get_info(e.model);
    assert_int_equal(info->layers, 8);
    assert_int_equal(info->hidden, 256);
    assert_int_equal(info->vocab, 4096);
    assert_int_equal(info->heads, 4);
    assert_int_equal(info->kv_heads, 2);
    assert_false(info->has_tokenizer);
    assert_near((double)info->parameters, 7.3e6, 0.1e6);
    assert_near((double)info->weight_bytes, (double)info->parameters * (double)row->per_1000 / 1000,
                (double)info->weight_bytes * 0.05);
    tiny_engine_close(&e);
}

static void test_logits_are_numbers(void **state)
{
    const struct format *row = *state;
    struct tiny_engine e;
    int32_t ids[9];
    double power = 0;
    open_format(&e, row->name);
    int32_t vocab = dgl_model_get_info(e.model)->vocab;
    tiny_ids(ids, 9, vocab, 3);
    tiny_sync(e.session, ids, 9);
    float *logits = tiny_logits(e.session);
    for (int i = 0; i < vocab; i++) {
        assert_true(isfinite(logits[i]));
        power += (double)logits[i] * logits[i];
    }
    assert_true(power > 1e-6);
    free(logits);
    tiny_engine_close(&e);
}

static void test_generates(void **state)
{
    const struct format *row = *state;
    struct tiny_engine e;
    int32_t ids[4] = {5, 6, 7, 8}, first[8], second[8];
    open_format(&e, row->name);
    tiny_greedy(e.session, ids, 4, first, 8);
    tiny_engine_close(&e);
    open_format(&e, row->name); /* the same weights every time */
    tiny_greedy(e.session, ids, 4, second, 8);
    tiny_engine_close(&e);
    assert_memory_equal(first, second, sizeof(first));
}

static void test_bench(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_bench_result r;
    open_format(&e, "synthetic:story-llama:q4_k_m");
    assert_int_equal(dgl_bench(e.session,
                               dgl_bench_params(.prompt_tokens = 64, .decode_tokens = 8,
                                                .repetitions = 2, .profile = true),
                               &r),
                     DGL_OK);
    assert_true(r.decode_tps_median > 0);
    assert_true(r.prefill_tps_median > 0);
    assert_true(r.num_profile > 10);
    dgl_bench_result_finish(&r);
    tiny_engine_close(&e);
}

struct refusal {
    const char *name, *path;
};

static const struct refusal refusals[] = {
    {"an unknown shape", "synthetic:gpt-9"},
    {"an unknown format", "synthetic:story-llama:q3_k"},
    {"no shape", "synthetic:"},
    {"a format alone", "synthetic::q4_k"},
    {"one part too many", "synthetic:story-llama:q4_k:x"},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct test_log log;
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(dgl_device_create(&log.log, dgl_device_params(.select = "any"), &dev), DGL_OK);
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = row->path), &model),
                     DGL_ERR_INVALID_ARG);
    assert_null(model);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, "story-llama");
    assert_contains(log.text, "q4_k_m");
    dgl_device_destroy(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bench)};
    int failures = test_run_table("shape", test_shape, formats);
    failures += test_run_table("logits", test_logits_are_numbers, filled);
    failures += test_run_table("generate", test_generates, filled);
    failures += test_run_table("refusal", test_refusal, refusals);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
