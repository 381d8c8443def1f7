/* The checkpoint of a base model that is published for embeddings: no "model." in names, no head,
 * and a pooling of its own. Embeddings are those of the whole model; answers are refused. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "tests/support/process.h"

enum { HIDDEN = 64, IDS = 9 };

static const int32_t ids[IDS] = {5, 9, 70, 33, 12, 100, 7, 300, 41};

static struct {
    struct tiny_engine whole, base;
    char *dir;
} both;

/* Removes "model." from the names of tensors. The header keeps its length: it ends with blanks. */
static void strip_names(const char *dir)
{
    static const char prefix[] = "\"model.";
    size_t len, out = 8;
    char *bytes = tiny_file_read(dir, "model.safetensors", &len);
    uint64_t header = 0;
    memcpy(&header, bytes, sizeof(header));
    for (size_t at = 8; at < 8 + header; at++) {
        bytes[out++] = bytes[at];
        if (memcmp(bytes + at, prefix, sizeof(prefix) - 1) == 0)
            at += sizeof(prefix) - 2;
    }
    memset(bytes + out, ' ', 8 + (size_t)header - out);
    test_write_file(dir, "model.safetensors", bytes, len);
    free(bytes);
}

static int open_both(void **state)
{
    static const char modules[] =
        "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
        "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"},"
        "{\"path\":\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]";
    static const char pooling[] = "{\"pooling_mode_lasttoken\":true}";
    struct tiny_llama m = tiny_llama_default();
    (void)state;
    both.dir = test_tmpdir();
    char *sub = dgl_path_join(both.dir, "1_Pooling");
    tiny_llama_write(both.dir, &m);
    tiny_engine_open(&both.whole, &(struct tiny_engine_params){.path = both.dir});
    strip_names(both.dir);
    tiny_file_replace(both.dir, "config.json", "\"tie_word_embeddings\": true",
                      "\"tie_word_embeddings\": false");
    test_write_file(both.dir, "modules.json", modules, strlen(modules));
    assert_int_equal(mkdir(sub, 0700), 0);
    test_write_file(sub, "config.json", pooling, strlen(pooling));
    free(sub);
    tiny_engine_open(&both.base, &(struct tiny_engine_params){.path = both.dir});
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    tiny_engine_close(&both.base);
    tiny_engine_close(&both.whole);
    test_tmpdir_remove(both.dir);
    return 0;
}

static float *embed(struct tiny_engine *e, const struct dgl_embed_params *p)
{
    float *row = NULL;
    size_t rows = 0;
    assert_int_equal(dgl_embed(e->session, p, &row, &rows), DGL_OK);
    assert_int_equal(rows, 1);
    return row;
}

static void embeddings_are_those_of_the_files(void **state)
{
    (void)state;
    const struct dgl_model_info *info = dgl_model_get_info(both.base.model);
    assert_true(info->no_head);
    assert_string_equal(dgl_pooling_name(info->pooling), "lasttoken");
    float *got = embed(&both.base, dgl_embed_params(.ids = ids, .num_ids = IDS));
    float *want = embed(&both.whole, dgl_embed_params(.ids = ids, .num_ids = IDS, .normalize = true,
                                                      .pooling = DGL_POOLING_LAST));
    assert_at_most(tiny_nmse(got, want, HIDDEN), 1e-9);
    dgl_free(got);
    dgl_free(want);
}

/* A pooling of the caller replaces that of the files, with their normalisation. */
static void a_named_pooling_replaces_that_of_the_files(void **state)
{
    (void)state;
    const struct dgl_embed_params *mean =
        dgl_embed_params(.ids = ids, .num_ids = IDS, .pooling = DGL_POOLING_MEAN);
    float *got = embed(&both.base, mean), *want = embed(&both.whole, mean);
    assert_at_most(tiny_nmse(got, want, HIDDEN), 1e-9);
    dgl_free(got);
    dgl_free(want);
}

static void what_needs_a_head_is_refused(void **state)
{
    struct dgl_session *s = both.base.session;
    struct dgl_generate_result result = {.size = sizeof(result)};
    struct dgl_batch *batch = NULL;
    float row[320] = {0}, hidden[HIDDEN], *logits = NULL;
    size_t rows = 0;
    uint64_t id = 0;
    (void)state;
    assert_int_equal(dgl_session_eval(s, dgl_eval_params(.ids = ids, .num_ids = 2), NULL, hidden),
                     DGL_OK);
    assert_int_equal(dgl_batch_create(both.base.model, NULL, &batch), DGL_OK);
    const enum dgl_status refused[] = {
        dgl_generate(s, dgl_generate_params(.ids = ids, .num_ids = IDS, .max_tokens = 1), &result),
        dgl_logits(s, dgl_logits_params(.ids = ids, .num_ids = IDS), &logits, &rows),
        dgl_session_eval(s, dgl_eval_params(.ids = ids, .num_ids = 2), row, NULL),
        dgl_batch_submit(batch, dgl_request_params(.ids = ids, .num_ids = IDS), &id),
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (refused[i] != DGL_ERR_UNSUPPORTED)
            fail_msg("call %zu: %s, wanted %s", i, dgl_status_str(refused[i]),
                     dgl_status_str(DGL_ERR_UNSUPPORTED));
    assert_int_equal(both.base.log.errors, 4);
    assert_contains(both.base.log.text, "the checkpoint has no lm_head.weight");
    dgl_batch_destroy(&batch);
}

/* The smoke test judges the layers, not the logits: those would be of the embedding table. */
static void smoke_test_needs_no_head(void **state)
{
    struct dgl_smoke_result r = {.size = sizeof(r)};
    (void)state;
    assert_int_equal(dgl_verify_smoke(both.base.session, NULL, &r), DGL_OK);
    if (!r.passed)
        fail_msg("%s", r.fault);
    assert_at_most(r.error, 1e-5);
    assert_int_equal(r.num_tokens, 0);
}

/* The command prints neither an answer nor the likelihood of a text. */
static void verify_prints_what_was_tested(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "verify", both.dir, "--smoke", "--device", "any", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "smoke: pass\nknown answers: largest error ");
    assert_null(strstr(r.out, "fixed text"));
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(embeddings_are_those_of_the_files),
        cmocka_unit_test(a_named_pooling_replaces_that_of_the_files),
        cmocka_unit_test(what_needs_a_head_is_refused),
        cmocka_unit_test(smoke_test_needs_no_head),
        cmocka_unit_test(verify_prints_what_was_tested),
    };
    return cmocka_run_group_tests_name("base models", cases, open_both, close_both);
}
