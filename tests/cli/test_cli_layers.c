/* Layers of hints and kernel files as a user meets them: what a pack's manifest asks for, what is
 * passed over and said, what is refused, and which layer wins. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define PACK "tests/models/story-llama-q4_k_m"

/* The bundled pack in a folder of its own: links to its files, and a manifest with these kernel
 * hints. The caller removes it. */
static char *pack_with_hints(const char *hints, bool pinned)
{
    char *dir = test_tmpdir(), cwd[4096], **names = NULL, text[512];
    size_t num_names = 0;
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(dgl_dir_list(NULL, PACK, &names, &num_names), DGL_OK);
    for (size_t i = 0; i < num_names; i++) {
        char *path = dgl_path_join(PACK, names[i]), *full = dgl_path_join(cwd, path);
        char *link = dgl_path_join(dir, names[i]);
        size_t len;
        if (strcmp(names[i], "manifest.json") == 0) {
            char *manifest = tiny_file_read(PACK, names[i], &len);
            test_write_file(dir, names[i], manifest, len);
            free(manifest);
        } else {
            assert_int_equal(symlink(full, link), 0);
        }
        free(path);
        free(full);
        free(link);
    }
    dgl_names_free(names, num_names);
    snprintf(text, sizeof(text), "\"kernelHints\": {%s}, \"was\": {", hints);
    tiny_file_replace(dir, "manifest.json", "\"kernelHints\": {", text);
    if (pinned)
        tiny_file_replace(dir, "manifest.json", "\"kernelHintsOrigin\": \"default\"",
                          "\"kernelHintsOrigin\": \"author\"");
    return dir;
}

static const char *text_of(const struct dgl_json *object, const char *key)
{
    return dgl_json_str(dgl_json_get(object, key)).p;
}

/* Of `part` in `text`. */
static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

/* ---- hints of a manifest --------------------------------------------------------------------- */

struct manifest_row {
    const char *name;
    const char *hints;
    bool pinned;
    const char *arg;      /* --kernel-hints; NULL: none */
    const char *error;    /* part of the one error; NULL: it runs */
    const char *notice;   /* part of the notice on defaults that decide; NULL: none */
    const char *fallback; /* part of a line and of the JSON result; NULL: none */
};

#define SUBGROUP "\"q4kMatmul\": \"gemv_subgroup\""
#define NO_F16   "\"f16Matmul\": \"gemv_subgroup\""
#define OVER     "hint q4kMatmul=gemv_subgroup (manifest) does not apply here: "

static const struct manifest_row manifests[] = {
    {"none", "", false, NULL, NULL, NULL, NULL},
    {"defaults that decide", "\"q4kMatmul\": \"dequant_f32\"", false, NULL, NULL,
     "default hints of its manifest decide over kernels: q4kMatmul=dequant_f32;", NULL},
    {"defaults that a person has undone", "\"q4kMatmul\": \"dequant_f32\"", false,
     "{\"q4kMatmul\":\"auto\"}", NULL, NULL, NULL},
    {"defaults that change nothing", "\"q4kMatmul\": \"fused_q4k\"", false, NULL, NULL, NULL, NULL},
    {"variant of the defaults that decides", "\"variants\": {\"matmul/decode\": \"baseline\"}",
     false, NULL, NULL, "decide over kernels: variants.matmul/decode=baseline;", NULL},
    {"tunable of the defaults", "\"tunes\": {\"norm_rms.WG_SIZE\": 128}", false, NULL, NULL,
     "decide over kernels: tunes.norm_rms.WG_SIZE=128;", NULL},
    {"work group of the defaults", "\"workgroupOverrides\": {\"norm_rms\": [128]}", false, NULL,
     NULL, "decide over kernels: tunes.norm_rms.WG_SIZE=128;", NULL},
    {"features that a manifest forbids", "\"disableFeatures\": [\"subgroups\", \"shader-f16\"]",
     true, NULL, NULL, NULL, NULL},
    {"pinned columns that no kernel has", "\"colsPerWorkgroup\": 7", true, NULL,
     "the hint colsPerWorkgroup=7 (manifest (pinned)) cannot be met for matmul", NULL, NULL},
    {"pinned hints are no defaults", "\"q4kMatmul\": \"dequant_f32\"", true, NULL, NULL, NULL,
     NULL},
    {"defaults that cannot be met", SUBGROUP, false, NULL, NULL, NULL, OVER},
    {"strict defaults that cannot be met", SUBGROUP ", \"strict\": true", false, NULL,
     "the hint q4kMatmul=gemv_subgroup (manifest) cannot be met", NULL, NULL},
    {"strict defaults that a person relaxes", SUBGROUP ", \"strict\": true", false,
     "{\"strict\":false}", NULL, NULL, OVER},
    {"a person is strict with defaults", SUBGROUP, false, "{\"strict\":true}",
     "the hint q4kMatmul=gemv_subgroup (manifest) cannot be met", NULL, NULL},
    {"pinned that cannot be met", SUBGROUP, true, NULL,
     "the hint q4kMatmul=gemv_subgroup (manifest (pinned)) cannot be met", NULL, NULL},
    {"default for a format that the model lacks", NO_F16, false, NULL, NULL, NULL, NULL},
    {"pinned for a format that the model lacks", NO_F16, true, NULL, NULL, NULL, NULL},
    {"strict for a format that the model lacks", NO_F16 ", \"strict\": true", false, NULL,
     "the hint f16Matmul=gemv_subgroup (manifest) is for no operation of the model", NULL, NULL},
    {"strict that is met", "\"q4kMatmul\": \"dequant_f32\", \"strict\": true", true, NULL, NULL,
     NULL, NULL},
    {"strict that is no word of it", "\"strict\": \"yes\"", false, NULL,
     "kernelHints.strict: is a string, wanted true or false", NULL, NULL},
};

static void manifest_case(void **state)
{
    const struct manifest_row *row = *state;
    char *dir = pack_with_hints(row->hints, row->pinned);
    struct process_result r;
    process_command(&r, "generate", "-m", dir, "--device", "any", "--limits", "min", "-p", "Once",
                    "-n", "1", "--json", "--kernel-hints", row->arg ? row->arg : "{}", NULL);
    if (row->error) {
        assert_code(&r, 1);
        assert_one_error(&r, row->error);
    } else {
        assert_code(&r, 0);
        size_t told = 0, steps = 0;
        const struct dgl_json *k = dgl_json_first(dgl_json_get(process_json(&r), "kernels"));
        for (; k; k = dgl_json_next(k), steps++) {
            const struct dgl_json *fallback = dgl_json_get(k, "fallback");
            assert_non_null(fallback);
            if (dgl_json_is(fallback, DGL_JSON_NULL))
                continue;
            assert_contains(text_of(k, "fallback"), row->fallback ? row->fallback : "no fallback");
            told++;
        }
        assert_true(steps > 5);
        assert_int_equal(told > 0, row->fallback != NULL);
        assert_int_equal(count_of(r.err, " does not apply here: "), row->fallback ? 1 : 0);
        assert_int_equal(count_of(r.err, "decide over kernels"), row->notice ? 1 : 0);
        assert_contains(r.err, row->notice ? row->notice : "");
    }
    process_finish(&r);
    test_tmpdir_remove(dir);
}

int main(void)
{
    return test_run_table("cli manifest hints", manifest_case, manifests);
}
