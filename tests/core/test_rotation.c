/* Models that rotate a part of each head, also a part of 2 mod 4 numbers, which no kernel supports
 * directly: logits compared with the oracle, and the smoke test. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/oracle/oracle.h"
#include "core/seq/session.h"
#include "tests/support/reference.h"
#include "tests/support/shape_checkpoint.h"

struct rotation {
    const char *name;
    int32_t head_dim, heads, kv_heads;
    const char *part;    /* partial_rotary_factor */
    const char *scaling; /* rope_scaling */
    int32_t rotated;     /* numbers of a head, as Hugging Face counts them */
    bool limits_min;
};

#define LONGROPE3 "{\"rope_type\":\"longrope\",\"short_factor\":[1,1.5,2],\"long_factor\":[1,4,9]}"

static const struct rotation rotations[] = {
    {"all of 32", 32, 4, 2, "1.0", "null", 32, false},
    {"16 of 32", 32, 4, 2, "0.5", "null", 16, false},
    {"30 of 32", 32, 4, 2, "0.9375", "null", 30, false},
    {"18 of 24", 24, 4, 2, "0.75", "null", 18, false},
    {"10 of 20", 20, 2, 1, "0.5", "null", 10, false},
    {"2 of 4", 4, 2, 2, "0.5", "null", 2, false},
    {"6 of 12, scaled", 12, 6, 2, "0.5", LONGROPE3, 6, false},
    {"18 of 24 on the minimal device", 24, 4, 2, "0.75", "null", 18, true},
};

enum { VOCAB = 96, TOKENS = 40 };

static void rotated_part_matches_the_oracle(void **state)
{
    const struct rotation *row = *state;
    struct dgl_buf config = {0};
    struct test_engine e;
    uint64_t parameters, seed = 5;
    int32_t ids[TOKENS];
    float *logits = NULL;
    size_t rows;
    char *dir = test_tmpdir();
    dgl_buf_printf(&config,
                   "{\"model_type\":\"phi3\",\"hidden_size\":%d,\"num_hidden_layers\":2,"
                   "\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"intermediate_size\":48,"
                   "\"vocab_size\":%d,\"max_position_embeddings\":512,"
                   "\"original_max_position_embeddings\":32,\"rms_norm_eps\":1e-5,"
                   "\"rope_theta\":500,\"partial_rotary_factor\":%s,\"rope_scaling\":%s,"
                   "\"tie_word_embeddings\":false,\"eos_token_id\":1,\"pad_token_id\":0}",
                   row->head_dim * row->heads, row->heads, row->kv_heads, VOCAB, row->part,
                   row->scaling);
    test_write_file(dir, "facts.json", config.p, config.len);
    char *path = dgl_path_join(dir, "facts.json");
    assert_int_equal(shape_checkpoint_write(NULL, path, dir, &parameters), DGL_OK);
    test_engine_open(&e, &(struct test_engine_params){.path = dir,
                                                      .kv_type = DGL_KV_F32,
                                                      .limits = row->limits_min ? "min" : NULL});
    assert_int_equal(e.model->file->desc.rope[ROPE_GLOBAL].dims, row->rotated);
    for (size_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)(test_rand(&seed) % VOCAB);
    assert_int_equal(dgl_logits(e.session,
                                dgl_logits_params(.ids = ids, .num_ids = TOKENS, .all = true),
                                &logits, &rows),
                     DGL_OK);
    double *want = dgl_new_array(double, TOKENS *VOCAB);
    assert_int_equal(oracle_evaluate(NULL,
                                     &(struct oracle_params){.desc = &e.model->file->desc,
                                                             .tensors = e.model->file->tensors,
                                                             .count = TOKENS},
                                     ids, want),
                     DGL_OK);
    double nmse = test_nmse(logits, want, TOKENS * VOCAB);
    printf("# %s: NMSE of the logits %.3g\n", row->name, nmse);
    assert_at_most(nmse, 1e-9);
    struct dgl_smoke_result smoke = {.size = sizeof(smoke)};
    assert_int_equal(dgl_verify_smoke(e.session, NULL, &smoke), DGL_OK);
    if (!smoke.passed)
        fail_msg("%s: %s", row->name, smoke.fault);
    test_engine_close(&e);
    free(want);
    dgl_free(logits);
    free(path);
    dgl_buf_finish(&config);
    test_tmpdir_remove(dir);
}

int main(void)
{
    return test_run_table_sample("rotation", rotated_part_matches_the_oracle, rotations, 2);
}
