/* The random checkpoints of `make check-shapes`, at small sizes: complete, reproducible, and with
 * plausible results. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/oracle/oracle.h"
#include "loader/model/model_file.h"
#include "tests/support/shape_checkpoint.h"
#include "tests/support/tiny_model.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":3,\"vocab_size\":320,"      \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":64,"          \
    "\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,"

/* Per layer: attention 64 * (64 + 32 + 32 + 64) values with heads of 16, MLP 3 * 64 * 96. */
#define LAYER    (64 * 192 + 3 * 64 * 96)
#define TABLE    (320 * 64)
#define NORMS(n) ((n)*64)

struct shape_case {
    const char *name, *config;
    uint64_t parameters;
};

static const struct shape_case cases[] = {
    {"llama with a head of its own",
     "{\"model_type\":\"llama\"," SIZES "\"tie_word_embeddings\":false}",
     2 * TABLE + 3 * (LAYER + NORMS(2)) + NORMS(1)},
    {"qwen2, biases", "{\"model_type\":\"qwen2\"," SIZES "\"tie_word_embeddings\":true}",
     TABLE + 3 * (LAYER + NORMS(2) + 128) + NORMS(1)},
    {"gemma3, norms 1 + w, windows",
     "{\"model_type\":\"gemma3_text\"," SIZES "\"head_dim\":16,\"query_pre_attn_scalar\":16,"
     "\"sliding_window\":3,\"sliding_window_pattern\":2,\"rope_local_base_freq\":10000,"
     "\"hidden_activation\":\"gelu_pytorch_tanh\"}",
     TABLE + 3 * (LAYER + NORMS(4) + 32) + NORMS(1)},
};

/* A random model has no knowledge: its logits are neither zero nor far apart. */
static void check_logits(const struct dgl_model_file *file)
{
    static const int32_t ids[] = {5, 300, 17, 17, 42, 8};
    enum { COUNT = sizeof(ids) / sizeof(ids[0]), VOCAB = 320 };
    double *logits = dgl_new_array(double, COUNT *VOCAB), power = 0.0;
    assert_int_equal(
        oracle_evaluate(
            NULL,
            &(struct oracle_params){.desc = &file->desc, .tensors = file->tensors, .count = COUNT},
            ids, logits),
        DGL_OK);
    for (size_t i = 0; i < COUNT * VOCAB; i++)
        power += logits[i] * logits[i];
    assert_near(sqrt(power / (COUNT * VOCAB)), 0.16, 0.08); /* 0.02 * sqrt(64) */
    free(logits);
}

static void checkpoint_is_complete(void **state)
{
    const struct shape_case *row = *state;
    struct dgl_model_file *file = NULL;
    struct test_log log;
    uint64_t parameters, again;
    size_t len, len_again;
    char *dir = test_tmpdir();
    test_log_init(&log, DGL_LOG_WARN);
    test_write_file(dir, "facts.json", row->config, strlen(row->config));
    char *config = dgl_path_join(dir, "facts.json");
    assert_int_equal(shape_checkpoint_write(&log.log, config, dir, &parameters), DGL_OK);
    char *bytes = tiny_file_read(dir, "model.safetensors", &len);
    assert_int_equal(shape_checkpoint_write(&log.log, config, dir, &again), DGL_OK);
    char *bytes_again = tiny_file_read(dir, "model.safetensors", &len_again);
    assert_int_equal(len, len_again);
    assert_memory_equal(bytes, bytes_again, len);
    assert_int_equal(model_file_open(&log.log, &(struct model_open_params){.path = dir}, &file),
                     DGL_OK);
    assert_string_equal(log.text, "");
    assert_int_equal(parameters, row->parameters);
    assert_int_equal(again, row->parameters);
    assert_int_equal(file->desc.parameters, row->parameters);
    check_logits(file);
    model_file_close(&file);
    free(bytes);
    free(bytes_again);
    free(config);
    test_tmpdir_remove(dir);
}

static void experts_are_refused(void **state)
{
    (void)state;
    struct test_log log;
    uint64_t parameters;
    char *dir = test_tmpdir();
    test_log_init(&log, DGL_LOG_WARN);
    assert_int_equal(shape_checkpoint_write(&log.log, "tests/models/configs/mixtral-8x7b.json", dir,
                                            &parameters),
                     DGL_ERR_UNSUPPORTED);
    assert_contains(log.text, "mixtral model has experts");
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest refusals[] = {cmocka_unit_test(experts_are_refused)};
    return cmocka_run_group_tests(refusals, NULL, NULL) +
           test_run_table("shape_checkpoint", checkpoint_is_complete, cases);
}
