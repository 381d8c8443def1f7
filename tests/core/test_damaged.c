/* Damaged models, and models that another process damages while they load, on a device. Loading,
 * logits, answers, perplexity and the smoke test work or log one line with the fault. The device
 * stays usable. */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/tiny_engine.h"

/* The three forms of one model, made once: folders in `top`. */
static char *top;
static struct tiny_engine engine;

struct form {
    const char *name;
    const char *model;    /* path to open in the form's folder; "" = the folder */
    const char *weights;  /* the file with the weights */
    const char *files[4]; /* that are damaged */
};

static const struct form forms[] = {
    {"Hugging Face folder",
     "",
     "model.safetensors",
     {"model.safetensors", "config.json", "tokenizer.json", "generation_config.json"}},
    {"pack", "", "shard_00000.bin", {"shard_00000.bin", "manifest.json", "tokenizer.json"}},
    {"GGUF file", "m.gguf", "m.gguf", {"m.gguf"}},
};

static char *in_form(const struct form *form, const char *name)
{
    char *folder = checked(dgl_path_join(top, form->name));
    char *path = name[0] ? checked(dgl_path_join(folder, name)) : strdup(folder);
    free(folder);
    return checked(path);
}

static void make_forms(void)
{
    struct tiny_llama sizes = tiny_llama_default();
    char *paths[3];
    top = test_tmpdir();
    for (int i = 0; i < 3; i++) {
        char *folder = in_form(&forms[i], "");
        if (i != 1) /* the converter creates the folder of a pack */
            assert_int_equal(dgl_dir_make(NULL, folder), DGL_OK);
        paths[i] = in_form(&forms[i], forms[i].model);
        free(folder);
    }
    tiny_llama_write(paths[0], &sizes);
    for (int i = 2; i > 0; i--) { /* GGUF cannot store the tokenizer, and is written without it */
        struct dgl_convert_result result = {.size = sizeof(result)};
        struct test_log t;
        test_log_init(&t, DGL_LOG_ERROR);
        if (dgl_convert(
                &t.log,
                dgl_convert_params(.in = paths[0], .out = paths[i], .to = i == 1 ? "rdrr" : "gguf"),
                &result) != DGL_OK)
            fail_msg("%s: %s", forms[i].name, t.text);
        if (i == 2)
            tiny_tokenizer_write(paths[0]);
    }
    for (int i = 0; i < 3; i++)
        free(paths[i]);
}

/* ---- files that shrink ----------------------------------------------------------------------- */

struct shrinker {
    const char *path;
    int64_t at; /* call of the progress callback before which the file is cut; counted down */
    int calls;
};

static bool shrink(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct shrinker *s = priv;
    (void)what;
    (void)done;
    (void)total;
    s->calls++;
    if (s->at-- == 0)
        assert_int_equal(truncate(s->path, 1000), 0);
    return true;
}

static void test_weights_shrink_while_loading(void **state)
{
    const struct form *form = *state;
    char *model = in_form(form, form->model), *weights = in_form(form, form->weights), *bytes;
    size_t len;
    int failed = 0;
    assert_int_equal(dgl_file_slurp(NULL, weights, 1 << 24, &bytes, &len), DGL_OK);
    for (int64_t at = 0; at < 12; at++) {
        struct shrinker s = {.path = weights, .at = at};
        struct dgl_model *m = NULL;
        test_log_clear(&engine.log);
        enum dgl_status status = dgl_model_load(
            engine.device,
            dgl_model_params(.path = model, .progress_cb = shrink, .progress_priv = &s), &m);
        assert_int_equal(m != NULL, status == DGL_OK);
        dgl_model_destroy(&m);
        assert_int_equal(engine.log.errors, status != DGL_OK);
        if (status != DGL_OK) {
            failed++;
            /* Reading finds the end of the file; the hashes of a pack find its size before. */
            if (status != DGL_ERR_IO && status != DGL_ERR_FORMAT && status != DGL_ERR_INTEGRITY)
                fail_msg("cut before call %d: %s", (int)at, engine.log.text);
            assert_contains(engine.log.text, form->weights);
            assert_contains(engine.log.text, "1000");
        }
        char *folder = in_form(form, "");
        test_write_file(folder, form->weights, bytes, len);
        free(folder);
        if (s.calls <= at)
            break; /* loaded without reaching that call */
    }
    assert_true(failed > 0);
    free(bytes);
    free(weights);
    free(model);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Returns true if a failed call logged exactly one line, and a successful call no line. */
static bool one_line(const char *name, enum dgl_status status)
{
    if (engine.log.errors != (status != DGL_OK))
        fail_msg("%s: %s, %d lines: %s", name, dgl_status_str(status), engine.log.errors,
                 engine.log.text);
    test_log_clear(&engine.log);
    return status == DGL_OK;
}

/* The calls of the commands that use a model. */
static void use_model(const char *path, bool smoke)
{
    static const char *const texts[] = {"the cat"};
    const int32_t ids[] = {1, 2, 3, 4};
    struct dgl_model *m = NULL;
    struct dgl_session *s = NULL;
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct dgl_perplexity_result ppl = {.size = sizeof(ppl)};
    struct dgl_smoke_result result = {.size = sizeof(result)};
    float *logits = NULL;
    size_t rows;
    bool loaded = one_line(
        "load",
        dgl_model_load(
            engine.device,
            dgl_model_params(.path = path, .hash_weights = DGL_HASH_NEVER, .context = 48), &m));
    if (loaded && one_line("session", dgl_session_create(m, NULL, &s))) {
        one_line("logits", dgl_logits(s, dgl_logits_params(.ids = ids, .num_ids = 4, .all = true),
                                      &logits, &rows));
        one_line("generate",
                 dgl_generate(s, dgl_generate_params(.prompt = "the", .max_tokens = 3), &r));
        dgl_generate_result_finish(&r);
        one_line("perplexity",
                 dgl_perplexity(s, dgl_perplexity_params(.texts = texts, .num_texts = 1), &ppl));
        if (smoke)
            one_line("smoke", dgl_verify_smoke(s, NULL, &result));
        dgl_free(logits);
    }
    dgl_session_destroy(&s);
    dgl_model_destroy(&m);
}

enum { DAMAGES = 40 };

static void test_damaged(void **state)
{
    const struct form *form = *state;
    char *folder = in_form(form, ""), *model = in_form(form, form->model);
    uint64_t seed = 7;
    test_log_clear(&engine.log);
    for (int round = 0; round < DAMAGES; round++) {
        int num_files = 0;
        while (num_files < 4 && form->files[num_files])
            num_files++;
        const char *name = form->files[test_rand(&seed) % (uint64_t)num_files];
        char *path = in_form(form, name), *bytes, *damaged;
        size_t len, cut;
        assert_int_equal(dgl_file_slurp(NULL, path, 1 << 24, &bytes, &len), DGL_OK);
        damaged = checked(malloc(len + 1));
        memcpy(damaged, bytes, len);
        cut = len;
        for (uint64_t n = test_rand(&seed) % 3 + 1; n; n--) {
            /* Half of the changes are at the start, where weight files have their headers. */
            size_t reach = test_rand(&seed) & 1 && len > 1000 ? 1000 : len;
            damaged[test_rand(&seed) % reach] ^= (char)(1 << test_rand(&seed) % 8);
        }
        if (test_rand(&seed) % 8 == 0)
            cut = test_rand(&seed) % len;
        test_write_file(folder, name, damaged, cut);
        use_model(model, round % 10 == 0);
        test_write_file(folder, name, bytes, len);
        free(damaged);
        free(bytes);
        free(path);
    }
    use_model(model, false);
    free(folder);
    free(model);
}

int main(void)
{
    make_forms();
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    int failures =
        test_run_table("weights shrink while loading", test_weights_shrink_while_loading, forms);
    failures += test_run_table("damaged", test_damaged, forms);
    int32_t ids[4] = {1, 2, 3, 4}, out[2];
    tiny_greedy(engine.session, ids, 4, out, 2); /* the device still computes */
    tiny_engine_close(&engine);
    test_tmpdir_remove(top);
    return failures;
}
