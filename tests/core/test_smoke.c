/* The smoke test finds kernels that are wrong in one step, and weights that are wrong in the files.
 * Here it passes for a correct random model; family_check() runs it for every family. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/rdrr/rdrr_reader.h"
#include "tests/support/tiny_engine.h"

static struct tiny_engine engine;

static void fails_with(struct dgl_session *session, const char *name, const char *words)
{
    struct dgl_smoke_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_verify_smoke(session, NULL, &r), DGL_OK);
    if (r.passed)
        fail_msg("%s: passed with an error of %.3g and %.6f nats per token", name, r.error, r.nll);
    if (!strstr(r.fault, words))
        fail_msg("%s: \"%s\", wanted \"%s\"", name, r.fault, words);
}

static void passes(struct dgl_session *session, const char *name)
{
    struct dgl_smoke_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_verify_smoke(session, NULL, &r), DGL_OK);
    if (!r.passed)
        fail_msg("%s: %s", name, r.fault);
    assert_at_most(r.error, 1e-5);
    assert_true(r.nll > 0.0);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* A change to every kernel whose name begins with `kernel` and whose text has `find`. */
struct wrong_kernel {
    const char *name;
    const char *kernel, *find, *replace;
    const char *fault; /* in the fault's line */
};

static const struct wrong_kernel wrong_kernels[] = {
    {"norm without its root", "norm_rms", "inversesqrt(", "1.0 / (",
     "attention of layer 0 in prefill"},
    {"twice the norm in products", "matmul_decode", "source(i, ", "2.0 * source(i, ",
     "attention of layer 0 in decode"},
    {"no rotation in prefill", "rope_kv", "rope_angles(", "rope_angles(0u * ",
     "attention of layer 0 in prefill"},
    {"no rotation in decode", "attn_decode", "rope_angles(", "rope_angles(0u * ",
     "attention of layer 0 in decode"},
    {"heads of keys swapped", "attn_prefill", "uint kv_head = ", "uint kv_head = 1u - ",
     "attention of layer 0 in prefill"},
    {"embeddings of half the size", "embed_rows", "scale *", "0.5 * scale *", "the embedding"},
    {"another token than the best", "sample_", "step_end(id)", "step_end(id ^ 1u)",
     "of the greedy answer is"},
};

static size_t count_of(const char *text, const char *find)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, find)); at++)
        count++;
    return count;
}

/* Writes the changed kernels as files; returns how many. */
static size_t write_wrong(const struct wrong_kernel *row, const char *dir)
{
    struct dgl_kernels *builtin = NULL;
    size_t written = 0;
    static const char *const names[] = {"norm_rms",
                                        "matmul_decode",
                                        "matmul_decode_subgroup",
                                        "rope_kv",
                                        "matmul_decode_llvmpipe",
                                        "attn_decode",
                                        "attn_decode_subgroup",
                                        "attn_decode_llvmpipe",
                                        "attn_prefill",
                                        "attn_prefill_tiled",
                                        "attn_prefill_subgroup",
                                        "attn_prefill_llvmpipe",
                                        "embed_rows",
                                        "sample_pick",
                                        "sample_next"};
    assert_int_equal(dgl_kernels_create(NULL, NULL, &builtin), DGL_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = dgl_kernels_source(builtin, names[i], NULL);
        if (strncmp(names[i], row->kernel, strlen(row->kernel)) != 0 || !text ||
            count_of(text, row->find) == 0)
            continue;
        struct dgl_buf out = {0};
        char file[80];
        for (const char *at; (at = strstr(text, row->find)); text = at + strlen(row->find)) {
            dgl_buf_append(&out, text, (size_t)(at - text));
            dgl_buf_puts(&out, row->replace);
        }
        dgl_buf_puts(&out, text);
        snprintf(file, sizeof(file), "%s.comp", names[i]);
        test_write_file(dir, file, out.p, out.len);
        dgl_buf_finish(&out);
        written++;
    }
    dgl_kernels_destroy(&builtin);
    return written;
}

static void wrong_kernels_fail(void **state)
{
    const struct wrong_kernel *row = *state;
    struct dgl_kernels *kernels = NULL;
    char *dir = test_tmpdir();
    const char *dirs[] = {dir};
    assert_true(write_wrong(row, dir) > 0);
    test_log_clear(&engine.log);
    if (dgl_kernels_create(&engine.log.log,
                           dgl_kernels_params(.dirs = dirs, .num_dirs = 1, .unchecked = true),
                           &kernels) != DGL_OK ||
        dgl_model_set_kernels(engine.model, kernels) != DGL_OK)
        fail_msg("%s: %s", row->name, engine.log.text);
    dgl_kernels_destroy(&kernels);
    fails_with(engine.session, row->name, row->fault);
    assert_int_equal(dgl_model_set_kernels(engine.model, NULL), DGL_OK);
    test_tmpdir_remove(dir);
}

/* ---- weights --------------------------------------------------------------------------------- */

enum damage { NO_DAMAGE, ZERO, SWAP_HEADS };

/* A change to matrices of the bundled model whose names begin with `prefix` and end with
 * `suffix`. */
struct wrong_weights {
    const char *name;
    enum damage damage;
    const char *prefix, *suffix;
    bool unknown;      /* without the expectation that is stored with the model */
    const char *fault; /* NULL = passes */
};

static const struct wrong_weights wrong_weights[] = {
    {"as it is", NO_DAMAGE, "", "", false, NULL},
    {"as it is, expectation unknown", NO_DAMAGE, "", "", true, NULL},
    {"heads of layer 0", SWAP_HEADS, "model.layers.0.", "q_proj.weight", false, "smoke.json says"},
    {"heads of layer 3", SWAP_HEADS, "model.layers.3.", "q_proj.weight", false, "smoke.json says"},
    {"heads of values", SWAP_HEADS, "model.layers.", "v_proj.weight", true, "nats per token"},
    {"one layer zero", ZERO, "model.layers.5.", "proj.weight", true,
     "model.layers.5.self_attn.q_proj.weight: every value is zero"},
    {"one norm zero", ZERO, "model.layers.3.", "input_layernorm.weight", true,
     "model.layers.3.input_layernorm.weight: every value is zero"},
    {"one matrix zero", ZERO, "model.layers.7.", "down_proj.weight", true,
     "model.layers.7.mlp.down_proj.weight: every value is zero"},
};

static bool is_meant(const struct wrong_weights *row, const char *name)
{
    size_t len = strlen(name), suffix = strlen(row->suffix);
    return row->damage != NO_DAMAGE && strncmp(name, row->prefix, strlen(row->prefix)) == 0 &&
           len >= suffix && strcmp(name + len - suffix, row->suffix) == 0;
}

/* Damages the one shard of a pack; returns how many matrices. */
static size_t damage(const struct wrong_weights *row, const char *dir)
{
    struct rdrr_pack *pack = NULL;
    size_t len, count = 0;
    char *bytes = tiny_file_read(dir, "shard_00000.bin", &len);
    assert_int_equal(rdrr_pack_open(NULL, &blob_files, dir, &pack), DGL_OK);
    assert_int_equal(pack->manifest.num_shards, 1);
    for (size_t i = 0; i < pack->manifest.num_tensors; i++) {
        const struct rdrr_tensor *t = &pack->manifest.tensors[i];
        const struct rdrr_span *span = &pack->manifest.spans[t->first_span];
        if (!is_meant(row, t->info.name))
            continue;
        assert_int_equal(t->num_spans, 1);
        char *at = bytes + span->offset;
        size_t head = (size_t)(span->size / t->info.shape[0]) * 64;
        for (size_t b = 0; row->damage == SWAP_HEADS && b < head; b++) {
            char byte = at[b];
            at[b] = at[head + b];
            at[head + b] = byte;
        }
        if (row->damage == ZERO)
            memset(at, 0, (size_t)span->size);
        count++;
    }
    rdrr_pack_close(&pack);
    test_write_file(dir, "shard_00000.bin", bytes, len);
    free(bytes);
    return count;
}

static void wrong_weights_fail(void **state)
{
    static const char *const files[] = {"manifest.json",          "shard_00000.bin",
                                        "tokenizer.json",         "tokenizer_config.json",
                                        "generation_config.json", "smoke.json"};
    const struct wrong_weights *row = *state;
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    char *dir = test_tmpdir();
    for (size_t i = 0; i < 6 - (size_t)row->unknown; i++) {
        size_t len;
        char *bytes = tiny_file_read(BUNDLED_MODEL, files[i], &len);
        test_write_file(dir, files[i], bytes, len);
        free(bytes);
    }
    if (row->damage != NO_DAMAGE)
        assert_true(damage(row, dir) > 0);
    assert_int_equal(dgl_model_load(engine.device,
                                    dgl_model_params(.path = dir, .context = 256,
                                                     .hash_weights = DGL_HASH_NEVER),
                                    &model),
                     DGL_OK);
    assert_int_equal(dgl_session_create(model, NULL, &session), DGL_OK);
    if (row->fault)
        fails_with(session, row->name, row->fault);
    else
        passes(session, row->name);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
    test_tmpdir_remove(dir);
}

/* ---- others ---------------------------------------------------------------------------------- */

static void a_random_model_passes(void **state)
{
    (void)state;
    passes(engine.session, "at once");
    struct dgl_session *s = tiny_session(&engine, 3);
    passes(s, "chunks of 3");
    dgl_session_destroy(&s);
    s = tiny_session(&engine, 1);
    passes(s, "token by token");
    dgl_session_destroy(&s);
}

static void a_stored_expectation_is_read(void **state)
{
    static const struct {
        const char *text;
        enum dgl_status status;
        const char *words;
    } rows[] = {
        {"{\"nll\": 1, \"tokens\": []}", DGL_OK, "smoke.json says 1"},
        {"{\"nll\": 1, \"tokens\": [-1]}", DGL_ERR_FORMAT, "wanted at most 16 ids from 0 to 319"},
        {"{\"nll\": \"1\", \"tokens\": []}", DGL_ERR_FORMAT, "nll is "},
        {"{\"nll\": 1}", DGL_ERR_FORMAT, "tokens is missing"},
        {"", DGL_ERR_FORMAT, "smoke.json"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dgl_smoke_result r = {.size = sizeof(r)};
        test_write_file(engine.path, "smoke.json", rows[i].text, strlen(rows[i].text));
        test_log_clear(&engine.log);
        assert_int_equal(dgl_verify_smoke(engine.session, NULL, &r), rows[i].status);
        assert_contains(rows[i].status == DGL_OK ? r.fault : engine.log.text, rows[i].words);
        assert_false(r.passed);
    }
    char *path = dgl_path_join(engine.path, "smoke.json");
    remove(path);
    free(path);
}

static bool stop_at_once(void *priv, const char *what, uint64_t done, uint64_t total)
{
    assert_string_equal(what, "layers");
    assert_true(done <= total);
    ++*(int *)priv;
    return false;
}

static void progress_cancels(void **state)
{
    int calls = 0;
    struct dgl_smoke_result r = {.size = sizeof(r)};
    (void)state;
    assert_int_equal(
        dgl_verify_smoke(engine.session,
                         dgl_smoke_params(.progress_cb = stop_at_once, .progress_priv = &calls),
                         &r),
        DGL_ERR_CANCELLED);
    assert_int_equal(calls, 1);
    assert_false(r.passed);
    passes(engine.session, "after a cancellation");
}

static void what_cannot_be_judged_is_refused(void **state)
{
    struct dgl_smoke_result r = {.size = sizeof(r)};
    struct dgl_session *s = NULL;
    struct dgl_model *model = NULL;
    (void)state;
    assert_int_equal(dgl_session_create(engine.model, dgl_session_params(.context = 7), &s),
                     DGL_OK);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_verify_smoke(s, NULL, &r), DGL_ERR_UNSUPPORTED);
    assert_contains(engine.log.text, "needs a context of 8 tokens, the session has 7");
    dgl_session_destroy(&s);
    assert_int_equal(
        dgl_model_load(engine.device,
                       dgl_model_params(.path = "synthetic:story-llama", .context = 64), &model),
        DGL_OK);
    assert_int_equal(dgl_session_create(model, NULL, &s), DGL_OK);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_verify_smoke(s, NULL, &r), DGL_ERR_UNSUPPORTED);
    assert_contains(engine.log.text, "has no files to compare with");
    dgl_session_destroy(&s);
    dgl_model_destroy(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_random_model_passes),
        cmocka_unit_test(a_stored_expectation_is_read),
        cmocka_unit_test(progress_cancels),
        cmocka_unit_test(what_cannot_be_judged_is_refused),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    int failures = test_run_table("kernels", wrong_kernels_fail, wrong_kernels);
    failures += test_run_table("weights", wrong_weights_fail, wrong_weights);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
