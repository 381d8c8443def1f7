/* Embedding models: pooling and normalisation as the files of folders, packs and GGUF files say. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "loader/model/model_file.h"
#include "tests/support/tiny_model.h"

#define ST "sentence_transformers.models."
#define BOTH                                                                                       \
    "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"" ST "Transformer\"},"                    \
    "{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"" ST "Pooling\"}"
#define NORMALIZE                                                                                  \
    ",{\"idx\":2,\"name\":\"2\",\"path\":\"2_Normalize\",\"type\":\"" ST "Normalize\"}"
#define ORIGIN "1_Pooling/config.json"
#define PATHS(model, pooling)                                                                      \
    "[{\"idx\":0,\"path\":\"" model "\",\"type\":\"" ST                                            \
    "Transformer\"},{\"idx\":1,\"path\":\"" pooling "\",\"type\":\"" ST "Pooling\"}]"

struct pooled {
    const char *name;
    const char *modules, *config; /* NULL: there is no such file */
    const char *pooling;          /* what is expected from here on */
    bool normalize;
    const char *origin, *fault; /* NULL: none */
    bool in_gguf;
};

static const struct pooled pooled[] = {
    {"no file", NULL, NULL, "mean", false, NULL, NULL, true},
    {"last", BOTH "]", "{\"pooling_mode_lasttoken\":true,\"pooling_mode_mean_tokens\":false}",
     "lasttoken", false, ORIGIN, NULL, true},
    {"last, normalised", BOTH NORMALIZE "]", "{\"pooling_mode_lasttoken\":true}", "lasttoken", true,
     ORIGIN, NULL, true},
    {"first", BOTH "]", "{\"pooling_mode_cls_token\":true}", "cls", false, ORIGIN, NULL, true},
    {"mean", BOTH NORMALIZE "]", "{\"pooling_mode_mean_tokens\":true}", "mean", true, ORIGIN, NULL,
     true},
    {"no mode is the mean", BOTH "]", "{\"word_embedding_dimension\":64}", "mean", false, ORIGIN,
     NULL, true},
    {"maximum", BOTH "]", "{\"pooling_mode_max_tokens\":true}", "max", false, ORIGIN, NULL, false},
    {"by the square root", BOTH "]", "{\"pooling_mode_mean_sqrt_len_tokens\":true}",
     "mean_sqrt_len_tokens", false, ORIGIN, NULL, false},
    {"weighted", BOTH "]", "{\"pooling_mode_weightedmean_tokens\":true}", "weightedmean", false,
     ORIGIN, NULL, false},
    {"newer files name the mode",
     "[{\"path\":\"\",\"type\":\"sentence_transformers.base.modules.transformer.Transformer\"},"
     "{\"path\":\"1_Pooling\","
     "\"type\":\"sentence_transformers.sentence_transformer.modules.pooling.Pooling\"}]",
     "{\"embedding_dimension\":64,\"pooling_mode\":\"lasttoken\"}", "lasttoken", false, ORIGIN,
     NULL, true},
    {"a list of one mode", BOTH "]", "{\"pooling_mode\":[\"cls\"]}", "cls", false, ORIGIN, NULL,
     true},
    {"a folder with a slash at its end", PATHS("./", "./1_Pooling/"),
     "{\"pooling_mode_lasttoken\":true}", "lasttoken", false, ORIGIN, NULL, true},
    {"a folder in a folder", PATHS("", "1_Pooling/inner"), "{\"pooling_mode_lasttoken\":true}",
     "lasttoken", false, "1_Pooling/inner/config.json", NULL, true},
    {"the folder alone", NULL, "{\"pooling_mode_lasttoken\":true}", "lasttoken", false, ORIGIN,
     NULL, true},
    {"two modes", BOTH "]", "{\"pooling_mode_lasttoken\":true,\"pooling_mode_mean_tokens\":true}",
     "lasttoken", false, ORIGIN, "joins the vectors of 2 poolings", true},
    {"an unknown mode", BOTH "]", "{\"pooling_mode\":\"median\"}", "mean", false, ORIGIN,
     "pooling_mode is median, wanted one of mean|cls", true},
    {"a dense module", BOTH ",{\"path\":\"2_Dense\",\"type\":\"" ST "Dense\"}" NORMALIZE "]",
     "{\"pooling_mode_mean_tokens\":true}", "mean", true, ORIGIN, "has the module Dense", true},
    {"a module without a type", "[{\"path\":\"\"},null]", NULL, "mean", false, NULL,
     "modules.json has a module without a type", true},
    {"a pooling without a folder", "[{\"type\":\"" ST "Pooling\"}]", NULL, "mean", false,
     "config.json", "config.json, which modules.json names, is missing", true},
    {"a folder that is missing", BOTH "]", NULL, "mean", false, ORIGIN, "is missing", true},
};

static void write_files(const char *dir, const struct pooled *row)
{
    struct tiny_llama m = tiny_llama_default();
    tiny_llama_write(dir, &m);
    if (row->modules)
        test_write_file(dir, "modules.json", row->modules, strlen(row->modules));
    if (row->config) {
        const bool inner = row->origin && strstr(row->origin, "inner");
        char *sub = dgl_path_join(dir, inner ? "1_Pooling/inner" : "1_Pooling");
        assert_int_equal(dgl_dir_make(NULL, sub), DGL_OK);
        test_write_file(sub, "config.json", row->config, strlen(row->config));
        free(sub);
    }
}

static void check(const char *path, const struct pooled *row, const char *origin, bool normalize,
                  const char *fault)
{
    struct dgl_model_file *file = NULL;
    assert_int_equal(dgl_inspect(NULL, dgl_inspect_params(.path = path), &file), DGL_OK);
    const struct dgl_model_info *info = dgl_model_file_info(file);
    assert_string_equal(dgl_pooling_name(info->pooling), row->pooling);
    assert_int_equal(info->normalize, normalize);
    assert_string_equal(info->pooling_origin ? info->pooling_origin : "none",
                        origin ? origin : "none");
    if (fault)
        assert_contains(info->pooling_fault ? info->pooling_fault : "none", fault);
    else
        assert_string_equal(info->pooling_fault ? info->pooling_fault : "none", "none");
    dgl_model_file_destroy(&file);
}

static enum dgl_status convert(const struct dgl_log *log, const char *in, const char *out)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    return dgl_convert(log, dgl_convert_params(.in = in, .out = out, .threads = 1), &result);
}

static void pooling_is_that_of_the_files(void **state)
{
    const struct pooled *row = *state;
    char *dir = test_tmpdir(), *out = test_tmpdir(), *again = test_tmpdir();
    char *pack = dgl_path_join(out, "pack"), *gguf = dgl_path_join(out, "m.gguf"),
         *back = dgl_path_join(again, "pack");
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    write_files(dir, row);
    check(dir, row, row->origin, row->normalize, row->fault);
    assert_int_equal(convert(&log.log, dir, pack), DGL_OK);
    check(pack, row, row->origin, row->normalize, row->fault);
    const enum dgl_status status = convert(&log.log, pack, gguf);
    assert_int_equal(status, row->in_gguf ? DGL_OK : DGL_ERR_UNSUPPORTED);
    if (row->in_gguf) { /* GGUF has no other modules; llama.cpp normalises what is pooled */
        const char *key = row->origin ? "llama.pooling_type" : NULL;
        check(gguf, row, key, key != NULL, NULL);
        assert_int_equal(convert(&log.log, gguf, back), DGL_OK);
        check(back, row, key, key != NULL, NULL);
    } else {
        assert_contains(log.text, row->pooling);
        assert_contains(log.text, "would be read as mean");
    }
    free(pack);
    free(gguf);
    free(back);
    test_tmpdir_remove(dir);
    test_tmpdir_remove(out);
    test_tmpdir_remove(again);
}

struct bad_modules {
    const char *name, *modules, *config, *part;
};

static const struct bad_modules bad_modules[] = {
    {"not JSON", "[", NULL, "modules.json"},
    {"not a list", "{}", NULL, "wanted a list of modules"},
    {"a folder elsewhere", "[{\"path\":\"../x\",\"type\":\"Pooling\"}]", NULL,
     "\"../x\" is not a path inside of the folder"},
    {"a folder that leads out", "[{\"path\":\"a/../../x\",\"type\":\"Pooling\"}]", NULL,
     "\"a/../../x\" is not a path inside"},
    {"an absolute folder", "[{\"path\":\"/tmp\",\"type\":\"Pooling\"}]", NULL,
     "\"/tmp\" is not a path inside"},
    {"a path that is a number", "[{\"path\":1,\"type\":\"Pooling\"}]", NULL, "path"},
    {"a config that is not JSON", BOTH "]", "{", "config.json"},
};

static void malformed_files_are_refused(void **state)
{
    const struct bad_modules *row = *state;
    char *dir = test_tmpdir();
    struct dgl_model_file *file = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    write_files(dir, &(struct pooled){.modules = row->modules, .config = row->config});
    assert_int_equal(dgl_inspect(&log.log, dgl_inspect_params(.path = dir), &file), DGL_ERR_FORMAT);
    assert_contains(log.text, row->part);
    test_tmpdir_remove(dir);
}

int main(void)
{
    int failures = test_run_table("pooling", pooling_is_that_of_the_files, pooled);
    failures += test_run_table("malformed", malformed_files_are_refused, bad_modules);
    return failures;
}
