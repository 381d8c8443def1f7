/* Models that exist only as a shape: their weights are made on the device and are suitable for
 * measuring. A wrong name is refused with the list of shapes. */
#include "tests/support/tiny_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    {"synthetic:story-llama:q4_k_m", 0}, {"synthetic:story-llama:q4_k", 0},
    {"synthetic:story-llama:bf16", 0},   {"synthetic:story-moe:q8_0", 0},
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

#define ANSWER 24

/* The weights are reproducible, and the answer has many different ids. An answer that repeats one
 * id would hide a wrong cache or a wrong position. */
static void test_generates(void **state)
{
    const struct format *row = *state;
    struct tiny_engine e;
    int32_t ids[4] = {5, 6, 7, 8}, first[ANSWER], second[ANSWER], different = 0;
    open_format(&e, row->name);
    tiny_greedy(e.session, ids, 4, first, ANSWER);
    tiny_engine_close(&e);
    open_format(&e, row->name);
    tiny_greedy(e.session, ids, 4, second, ANSWER);
    tiny_engine_close(&e);
    assert_memory_equal(first, second, sizeof(first));
    for (int i = 0; i < ANSWER; i++) {
        bool found = false;
        for (int j = 0; j < i; j++)
            found |= first[j] == first[i];
        different += !found;
    }
    if (different < ANSWER / 2)
        fail_msg("%d different ids of %d, not %d", different, ANSWER, ANSWER / 2);
}

static void test_bench(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_bench_result r = {.size = sizeof(r)};
    open_format(&e, "synthetic:story-llama:q4_k_m");
    assert_int_equal(dgl_bench(e.session,
                               dgl_bench_params(.prompt_tokens = 64, .decode_tokens = 8,
                                                .repetitions = 2, .profile = true),
                               &r),
                     DGL_OK);
    assert_true(r.decode_tps_median > 0);
    assert_true(r.prefill_tps_median > 0);
    assert_true(r.profile.num_entries > 10);
    dgl_bench_result_finish(&r);
    tiny_engine_close(&e);
}

struct published {
    const char *name; /* also the path */
    uint64_t parameters, heads_of, context;
};

/* As the published checkpoints have them. */
static const struct published published[] = {
    {"synthetic:llama-3.2-1b", 1235814400, 64, 131072},
    {"synthetic:llama-3.2-3b:q8_0", 3212749824, 128, 131072},
    {"synthetic:llama-3.1-8b:q4_k", 8030261248, 128, 131072},
    {"synthetic:mistral-7b", 7248023552, 128, 32768},
    {"synthetic:qwen2.5-1.5b:q4_k", 1543714304, 128, 131072},
    {"synthetic:qwen3-0.6b:f16", 596049920, 128, 40960},
    {"synthetic:gemma-2-9b:q4_k", 9241705984, 256, 8192},
    {"synthetic:gemma-3-1b:q4_k", 999885952, 256, 32768},
    {"synthetic:phi-3.5-mini:q4_k", 3821079552, 96, 131072},
    {"synthetic:mixtral-8x7b:q4_k", 46702792704, 128, 32768},
    {"synthetic:qwen3-30b-a3b:q4_k", 30532122624, 128, 40960},
    {"synthetic:gpt-oss-20b:mxfp4", 20914757184, 64, 131072},
};

static void test_published(void **state)
{
    const struct published *row = *state;
    struct dgl_model_file *file = NULL;
    assert_int_equal(dgl_inspect(NULL, dgl_inspect_params(.path = row->name), &file), DGL_OK);
    const struct dgl_model_info *info = dgl_model_file_info(file);
    assert_int_equal(info->parameters, row->parameters);
    assert_int_equal(info->head_dim, row->heads_of);
    assert_int_equal(info->context_max, row->context);
    dgl_model_file_destroy(&file);
}

/* ---- config.json files ----------------------------------------------------------------------- */

/* Rows of 96 are not multiples of 256, so those matrices are q8_0. */
#define GEMMA                                                                                      \
    "{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":2,\"hidden_size\":96,"                  \
    "\"intermediate_size\":256,\"num_attention_heads\":4,\"num_key_value_heads\":1,"               \
    "\"head_dim\":64,\"vocab_size\":320,\"max_position_embeddings\":256,\"sliding_window\":64}"

struct config_row {
    const char *name;
    const char *file, *text; /* text NULL: the file is not there */
    const char *end;         /* of the path, after the file */
    enum dgl_status status;
    const char *says; /* the error, or the name and type that the model gets */
};

static const struct config_row configs[] = {
    {"a file with a type", "config.json", GEMMA, ":q8_0", DGL_OK, "q8_0"},
    {"a file without one", "config.json", GEMMA, "", DGL_OK, "q4_k_m"},
    {"a colon in a file's name", "a:b.json", GEMMA, ":f16", DGL_OK, "f16"},
    {"a file of another name", "tiny.json", GEMMA, ":q4_k", DGL_OK, "q4_k"},
    {"a type that is none", "config.json", GEMMA, ":zz", DGL_ERR_INVALID_ARG,
     "'zz' is no type of weights; there are q4_k, q4_k_m, "},
    {"a file that is not there", "config.json", NULL, ":q4_k", DGL_ERR_IO, "config.json"},
    {"a file that is no JSON", "config.json", "{", "", DGL_ERR_FORMAT, "config.json"},
    {"a family that nobody knows", "config.json", "{\"model_type\":\"abacus\"}", "",
     DGL_ERR_UNSUPPORTED, "abacus"},
};

static void test_config(void **state)
{
    const struct config_row *row = *state;
    struct test_log log;
    struct dgl_model_file *file = NULL;
    char full[4096];
    char *dir = test_tmpdir();
    test_log_init(&log, DGL_LOG_ERROR);
    if (row->text)
        test_write_file(dir, row->file, row->text, strlen(row->text));
    snprintf(full, sizeof(full), "synthetic:%s/%s%s", dir, row->file, row->end);
    assert_int_equal(dgl_inspect(&log.log, dgl_inspect_params(.path = full), &file), row->status);
    if (file) {
        assert_string_equal(dgl_model_file_info(file)->quantization, row->says);
        assert_int_equal(dgl_model_file_info(file)->kv_heads, 1);
    } else {
        assert_contains(log.text, row->says);
    }
    dgl_model_file_destroy(&file);
    test_tmpdir_remove(dir);
}

static void test_config_runs(void **state)
{
    (void)state;
    struct tiny_engine e;
    char full[4096];
    int32_t ids[9];
    char *dir = test_tmpdir();
    test_write_file(dir, "config.json", GEMMA, strlen(GEMMA));
    snprintf(full, sizeof(full), "synthetic:%s/config.json:q4_k", dir);
    open_format(&e, full);
    tiny_ids(ids, 9, 320, 3);
    tiny_sync(e.session, ids, 9);
    float *logits = tiny_logits(e.session);
    for (int i = 0; i < 320; i++)
        assert_true(isfinite(logits[i]));
    free(logits);
    tiny_engine_close(&e);
    test_tmpdir_remove(dir);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bench),
                                       cmocka_unit_test(test_config_runs)};
    int failures = test_run_table("shape", test_shape, formats);
    failures += test_run_table("published", test_published, published);
    failures += test_run_table("config", test_config, configs);
    failures += test_run_table("logits", test_logits_are_numbers, filled);
    failures += test_run_table("generate", test_generates, filled);
    failures += test_run_table("refusal", test_refusal, refusals);
    return failures + cmocka_run_group_tests(tests, NULL, NULL);
}
