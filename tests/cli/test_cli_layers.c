/* Layers of hints and kernel files from the outside: requests of a pack's manifest, ignored hints
 * and the reports about them, refusals, and the precedence of the layers. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define PACK "tests/models/story-llama-q4_k_m"

/* The bundled pack with these kernel hints in its manifest. The caller removes it. */
static char *pack_with_hints(const char *hints, bool pinned)
{
    char *dir = tiny_pack_links(PACK), text[512];
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
    const char *second;   /* of another hint, after the first in some step of the JSON result */
};

#define SUBGROUP "\"q4kMatmul\": \"gemv_subgroup\""
#define NO_F16   "\"f16Matmul\": \"gemv_subgroup\""
#define FAST     "\"variants\": {\"matmul/decode\": \"matmul_decode_subgroup\"}, "
#define FAST_OVER                                                                                  \
    "hint variants.matmul/decode=matmul_decode_subgroup (manifest) does not apply here: "
#define OVER "hint q4kMatmul=gemv_subgroup (manifest) does not apply here: "

static const struct manifest_row manifests[] = {
    {"none", "", false, NULL, NULL, NULL, NULL, NULL},
    {"defaults that decide", "\"q4kMatmul\": \"dequant_f32\"", false, NULL, NULL,
     "default hints of its manifest decide over kernels: q4kMatmul=dequant_f32;", NULL, NULL},
    {"defaults that a person has undone", "\"q4kMatmul\": \"dequant_f32\"", false,
     "{\"q4kMatmul\":\"auto\"}", NULL, NULL, NULL, NULL},
    {"defaults that change nothing", "\"q4kMatmul\": \"fused_q4k\"", false, NULL, NULL, NULL, NULL,
     NULL},
    {"variant of the defaults that decides", "\"variants\": {\"matmul/decode\": \"baseline\"}",
     false, NULL, NULL, "decide over kernels: variants.matmul/decode=baseline;", NULL, NULL},
    {"tunable of the defaults", "\"tunes\": {\"norm_rms.WG_SIZE\": 128}", false, NULL, NULL,
     "decide over kernels: tunes.norm_rms.WG_SIZE=128;", NULL, NULL},
    {"work group of the defaults", "\"workgroupOverrides\": {\"norm_rms\": [128]}", false, NULL,
     NULL, "decide over kernels: workgroupOverrides.norm_rms=128;", NULL, NULL},
    {"tunable of the defaults for some requests",
     "\"tunes\": {\"norm/post=store\": {\"norm_rms.WG_SIZE\": 128}}", false, NULL, NULL,
     "decide over kernels: tunes.norm/post=store.norm_rms.WG_SIZE=128;", NULL, NULL},
    {"strict defaults that forbid what nobody knows",
     "\"disableFeatures\": [\"madeup\"], \"strict\": true", false, NULL,
     "disableFeatures has 'madeup', wanted subgroups", NULL, NULL, NULL},
    {"a person is strict with what nobody knows", "\"disableFeatures\": [\"madeup\"]", false,
     "{\"strict\":true}", "disableFeatures has 'madeup', wanted subgroups", NULL, NULL, NULL},
    {"features that a person allows to be unknown",
     "\"disableFeatures\": [\"madeup\"], \"strict\": true", false, "{\"strict\":false}", NULL, NULL,
     NULL, NULL},
    {"features that a manifest forbids", "\"disableFeatures\": [\"subgroups\", \"shader-f16\"]",
     true, NULL, NULL, NULL, NULL, NULL},
    {"pinned columns that no kernel has", "\"colsPerWorkgroup\": 7", true, NULL,
     "the hint colsPerWorkgroup=7 (manifest (pinned)) cannot be met for matmul", NULL, NULL, NULL},
    {"pinned hints are no defaults", "\"q4kMatmul\": \"dequant_f32\"", true, NULL, NULL, NULL, NULL,
     NULL},
    {"defaults that cannot be met", SUBGROUP, false, NULL, NULL, NULL, OVER, NULL},
    {"default whose kernel is another operation's", "\"attentionDecode\": \"subgroup\"", false,
     NULL, NULL, NULL,
     "hint attentionDecode=subgroup (manifest) does not apply here: attn_token_subgroup: EXTENSION "
     "GL_KHR_shader_subgroup_shuffle is absent",
     NULL},
    {"two defaults that cannot be met", FAST SUBGROUP, false, NULL, NULL, NULL, FAST_OVER,
     "; " OVER},
    {"strict defaults that cannot be met", SUBGROUP ", \"strict\": true", false, NULL,
     "the hint q4kMatmul=gemv_subgroup (manifest) cannot be met", NULL, NULL, NULL},
    {"strict defaults that a person relaxes", SUBGROUP ", \"strict\": true", false,
     "{\"strict\":false}", NULL, NULL, OVER, NULL},
    {"a person is strict with defaults", SUBGROUP, false, "{\"strict\":true}",
     "the hint q4kMatmul=gemv_subgroup (manifest) cannot be met", NULL, NULL, NULL},
    {"pinned that cannot be met", SUBGROUP, true, NULL,
     "the hint q4kMatmul=gemv_subgroup (manifest (pinned)) cannot be met", NULL, NULL, NULL},
    {"default for a format that the model lacks", NO_F16, false, NULL, NULL, NULL, NULL, NULL},
    {"pinned for a format that the model lacks", NO_F16, true, NULL, NULL, NULL, NULL, NULL},
    {"strict for a format that the model lacks", NO_F16 ", \"strict\": true", false, NULL,
     "the hint f16Matmul=gemv_subgroup (manifest) is for no operation of the model", NULL, NULL,
     NULL},
    {"strict that is met", "\"q4kMatmul\": \"dequant_f32\", \"strict\": true", true, NULL, NULL,
     NULL, NULL, NULL},
    {"strict that is no word of it", "\"strict\": \"yes\"", false, NULL,
     "kernelHints.strict: is a string, wanted true or false", NULL, NULL, NULL},
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
        size_t told = 0, steps = 0, seconds = 0;
        const struct dgl_json *k = dgl_json_first(dgl_json_get(process_json(&r), "kernels"));
        for (; k; k = dgl_json_next(k), steps++) {
            const struct dgl_json *fallback = dgl_json_get(k, "fallback");
            assert_non_null(fallback);
            if (dgl_json_is(fallback, DGL_JSON_NULL))
                continue;
            assert_contains(text_of(k, "fallback"), row->fallback ? row->fallback : "no fallback");
            told++;
            seconds += row->second && strstr(text_of(k, "fallback"), row->second) != NULL;
        }
        assert_true(steps > 5);
        assert_int_equal(told > 0, row->fallback != NULL);
        assert_int_equal(seconds > 0, row->second != NULL);
        assert_int_equal(count_of(r.err, " does not apply here: "),
                         (row->fallback != NULL) + (row->second != NULL));
        assert_int_equal(count_of(r.err, "decide over kernels"), row->notice ? 1 : 0);
        assert_contains(r.err, row->notice ? row->notice : "");
    }
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* Checks a tunable of a step in `explain --json`. */
static void assert_tunable(struct process_result *r, const char *step, const char *name,
                           int64_t value, const char *origin)
{
    for (const struct dgl_json *k = dgl_json_first(process_json(r)); k; k = dgl_json_next(k)) {
        const struct dgl_json *t = dgl_json_first(dgl_json_get(k, "tunables"));
        if (strcmp(text_of(k, "step"), step) != 0)
            continue;
        for (; t; t = dgl_json_next(t)) {
            int64_t got = 0;
            if (strcmp(text_of(t, "name"), name) != 0)
                continue;
            assert_true(dgl_json_i64(dgl_json_get(t, "value"), &got));
            assert_int_equal(got, value);
            assert_string_equal(text_of(t, "origin"), origin);
            return;
        }
    }
    fail_msg("%s has no tunable %s", step, name);
}

/* ---- every layer at once --------------------------------------------------------------------- */

/* Copies a built-in kernel to a folder, under a NAME and with a remark. */
static void put_kernel(const char *dir, const char *builtin, const char *name)
{
    char file[64], head[64], other[64];
    struct process_result r;
    process_command(&r, "kernels", "show", builtin, NULL);
    assert_code(&r, 0);
    snprintf(file, sizeof(file), "%s.comp", name);
    snprintf(head, sizeof(head), "//! NAME %s", builtin);
    snprintf(other, sizeof(other), "// Of %s\n//! NAME %s", strrchr(dir, '/'), name);
    test_write_file(dir, file, r.out, r.out_len);
    tiny_file_replace(dir, file, head, other);
    process_finish(&r);
}

static char *put_text(const char *dir, const char *name, const char *text)
{
    test_write_file(dir, name, text, strlen(text));
    return dgl_path_join(dir, name);
}

/* A folder in a folder; the path, free(). */
static char *make_dir(const char *parent, const char *name)
{
    char *path = dgl_path_join(parent, name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

/* The first step of `explain` of this name, and its part `key` contains all of `part`. */
static void assert_step(struct process_result *r, const char *step, const char *key,
                        const char *part)
{
    const struct dgl_json *row = dgl_json_first(process_json(r));
    while (row && strcmp(text_of(row, "step"), step) != 0)
        row = dgl_json_next(row);
    assert_non_null(row);
    assert_contains(text_of(row, key), part);
}

struct ladder_row {
    const char *name;
    bool pinned; /* a manifest's hints are defaults or pinned */
    bool pack;   /* --allow-pack-kernels */
};

static const struct ladder_row ladders[] = {
    {"with a manifest's defaults", false, true},
    {"with pinned hints of a manifest", true, true},
    {"without the pack's kernels", false, false},
};

/* Each layer sets a value that no higher layer sets, and that all lower layers set differently. */
static void layers_are_in_order(void **state)
{
    const struct ladder_row *row = *state;
    char *pack = pack_with_hints("\"tunes\": {\"embed_rows.EACH\": 2, \"embed_rows.WG_SIZE\": 32,"
                                 " \"rope_kv.EACH\": 2, \"rope_kv.WG_SIZE\": 32},"
                                 "\"q4kMatmul\": \"dequant_f16\", \"attentionDecode\": \"auto\"",
                                 row->pinned);
    char *top = test_tmpdir(), *config = make_dir(top, "config"), *env = make_dir(top, "env");
    char *own = make_dir(pack, "kernels"), *dir = make_dir(top, "dir"),
         *file = make_dir(top, "file");
    char *user_dir = make_dir(config, "dopplergl"), set_config[4200], set_env[4200], path[4300];
    char *user = put_text(user_dir, "kernels.json",
                          "{\"tunes\": {\"embed_rows.WG_SIZE\": 128, \"rope_kv.EACH\": 4,"
                          " \"rope_kv.WG_SIZE\": 128}, \"q4kMatmul\": \"fused_q4k\"}");
    char *settings = put_text(top, "settings.json",
                              "{\"tunes\": {\"rope_kv.EACH\": 1, \"rope_kv.WG_SIZE\": 32},"
                              " \"variants\": {\"sample_adjust\": \"sample_adjust\"},"
                              " \"q4kMatmul\": \"dequant_f16\"}");
    char *last = dgl_path_join(file, "norm_rms.comp"), *lib = NULL;
    const char *const dirs[] = {own, env, dir, file};
    const char *const replaced[] = {NULL, "sample_max", "sample_pick", "norm_rms"};
    struct process_result r;
    size_t len;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = i > 0 ? i : 1; j < 4; j++)
            put_kernel(dirs[i], replaced[j], replaced[j]);
    put_kernel(dir, "sample_adjust", "adjust_mine");
    lib = tiny_file_read("kernels/lib/math", "half.glsl", &len);
    test_write_file(own, "half.glsl", lib, len);
    snprintf(set_config, sizeof(set_config), "XDG_CONFIG_HOME=%s", config);
    snprintf(set_env, sizeof(set_env), "DOPPLERGL_KERNEL_DIR=%s", env);
    const char *const variables[] = {set_config, set_env, NULL};
    const char *const args[] = {
        "kernels",
        "explain",
        "--json",
        "-m",
        pack,
        "--device",
        "any",
        "--limits",
        "min",
        "--kernel-config",
        settings,
        "--kernel-dir",
        dir,
        "--kernel-file",
        last,
        "--kernel-profile",
        "safe",
        "--kernel-hints",
        "{\"tunes\": {\"rope_kv.WG_SIZE\": 128}, \"attentionDecode\": \"auto\"}",
        "--attention-decode",
        "streaming",
        row->pack ? "--allow-pack-kernels" : NULL,
        NULL};
    process_run(&(const struct process_params){.args = args, .env = variables}, &r);
    assert_code(&r, 0);
    /* Hints. */
    assert_step(&r, "embed", "reason",
                row->pinned ? "EACH=2 (manifest (pinned))" : "EACH=2 (manifest)");
    snprintf(path, sizeof(path), "WG_SIZE=128 (%s)", user);
    assert_step(&r, "embed", "reason", path);
    snprintf(path, sizeof(path), "EACH=1 (%s)", settings);
    assert_step(&r, "rope_kv", "reason", path);
    assert_step(&r, "rope_kv", "reason", "WG_SIZE=128 (--kernel-hints)");
    assert_tunable(&r, "rope_kv", "WG_SIZE", 128, "--kernel-hints");
    assert_tunable(&r, "rope_kv", "EACH", 1, settings);
    assert_tunable(&r, "attn_norm", "WG_SIZE", 64, "default");
    assert_step(&r, "qkv", "shape", " f32"); /* the profile's q4kMatmul */
    assert_step(&r, "attn_decode", "reason", "hint attentionDecode=streaming (--attention-decode)");
    /* Files. */
    snprintf(path, sizeof(path), "%s/half.glsl", own);
    assert_step(&r, "rope_kv", "origin", row->pack ? path : "builtin");
    assert_int_equal(count_of(r.err, "the pack has kernels, which are not used"), !row->pack);
    assert_step(&r, "sample_max", "origin", set_env + strlen("DOPPLERGL_KERNEL_DIR="));
    assert_step(&r, "sample_pick", "origin", dir);
    assert_step(&r, "attn_norm", "origin", last);
    assert_step(&r, "sample_adjust", "reason",
                "adjust_mine.comp"); /* overrides the hints of the config file */
    process_finish(&r);
    char *const paths[] = {config, env, own, dir, file, user_dir, user, settings, last, lib};
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        free(paths[i]);
    test_tmpdir_remove(pack);
    test_tmpdir_remove(top);
}

/* A pack's entry named `kernels`, and the reports about it without and with the option. */
static const struct own_row {
    const char *name;
    enum { OWN_DIR, OWN_LINK, OWN_LOST_LINK, OWN_FILE } kind;
    const char *notice;  /* without the option: part of the report; NULL: no report */
    const char *refusal; /* with: the error; NULL: the kernels are read */
} own_rows[] = {
    {"folder", OWN_DIR,
     "/kernels: the pack has kernels, which are not used; --allow-pack-kernels uses them", NULL},
    {"link", OWN_LINK, "/kernels: is a link: kernels behind it are not used; use --kernel-dir",
     "/kernels: is a link, which is not followed: use --kernel-dir"},
    {"link that leads nowhere", OWN_LOST_LINK,
     "/kernels: is a link: kernels behind it are not used",
     "/kernels: is a link, which is not followed: use --kernel-dir"},
    {"file", OWN_FILE, NULL,
     "/kernels: no folder: the kernels that a pack brings are files in one"},
};

/* A link could lead to programs that are not part of the pack. */
static void own_folder_of_a_pack_is_a_folder(void **state)
{
    const struct own_row *row = *state;
    char *pack = pack_with_hints("", false), *other = test_tmpdir();
    char *own = dgl_path_join(pack, "kernels");
    struct process_result r;
    if (row->kind == OWN_DIR)
        free(make_dir(pack, "kernels"));
    put_kernel(row->kind == OWN_DIR ? own : other, "norm_rms", "norm_rms");
    if (row->kind == OWN_LINK)
        assert_int_equal(symlink(other, own), 0);
    else if (row->kind == OWN_LOST_LINK)
        assert_int_equal(symlink(TEST_MISSING, own), 0);
    else if (row->kind == OWN_FILE)
        test_write_file(pack, "kernels", "x", 1);
    process_command(&r, "generate", "--device", "any", "-m", pack, "-p", "Once", "-n", "1", NULL);
    assert_code(&r, 0);
    if (row->notice)
        assert_contains(r.err, row->notice);
    else
        assert_null(strstr(r.err, "/kernels: "));
    if (row->refusal)
        assert_null(strstr(r.err, "--allow-pack-kernels"));
    process_finish(&r);
    process_command(&r, "kernels", "list", "--allow-pack-kernels", "-m", pack, NULL);
    assert_code(&r, row->refusal ? 1 : 0);
    if (row->refusal)
        assert_one_error(&r, row->refusal);
    else
        assert_contains(r.out, own);
    process_finish(&r);
    free(own);
    test_tmpdir_remove(other);
    test_tmpdir_remove(pack);
}

/* ---- tunables by request --------------------------------------------------------------------- */

/* One kernel, two shapes, two programs; and the answer is the same. */
static void shapes_have_tunables_of_their_own(void **state)
{
    static const char hints[] =
        "{\"variants\": {\"matmul/decode\": \"matmul_decode\"},"
        " \"tunes\": {\"matmul/decode/N=4096\": {\"matmul_decode.WG_SIZE\": 32},"
        " \"matmul/decode\": {\"matmul_decode.WG_SIZE\": 128}}}";
    struct process_result r, plain;
    (void)state;
    process_command(&r, "kernels", "explain", "--json", "--device", "any", "--limits", "min",
                    "--kernel-hints", hints, NULL);
    assert_code(&r, 0);
    for (const struct dgl_json *k = dgl_json_first(process_json(&r)); k; k = dgl_json_next(k))
        if (strcmp(text_of(k, "name"), "matmul_decode") == 0)
            assert_contains(text_of(k, "reason"), strcmp(text_of(k, "step"), "head") == 0
                                                      ? "; WG_SIZE=32 (--kernel-hints)"
                                                      : "; WG_SIZE=128 (--kernel-hints)");
    assert_step(&r, "head", "name", "matmul_decode");
    process_finish(&r);
    process_command(&r, "generate", "--device", "any", "--limits", "min", "-p", "Once upon", "-n",
                    "5", "--temp", "0", "--kernel-hints", hints, NULL);
    assert_code(&r, 0);
    process_command(&plain, "generate", "--device", "any", "--limits", "min", "-p", "Once upon",
                    "-n", "5", "--temp", "0", NULL);
    assert_code(&plain, 0);
    assert_string_equal(r.out, plain.out);
    process_finish(&r);
    process_finish(&plain);
}

/* Reasons and errors name the source of a value: a flag, the settings, a variable. */
static void sources_are_named(void **state)
{
    static const char settings[] = "{\"attention-decode\": \"streaming\", \"q4k-matmul\": "
                                   "\"auto\", \"kernel-profile\": \"safe\", \"kernel-hints\": "
                                   "{\"tunes\": {\"rope_kv.WG_SIZE\": 128}}}";
    char *top = test_tmpdir(), *dir = checked(dgl_path_join(top, "dopplergl")), set[512];
    const char *const args[] = {"kernels", "explain",      "--json",        "--device",
                                "any",     "--f16-matmul", "gemv_subgroup", NULL};
    const char *const missing[] = {"kernels", "explain", NULL};
    const char *const config[] = {set, NULL};
    const char *const variables[] = {"DOPPLERGL_MODEL=" TEST_MISSING, "DOPPLERGL_DEVICE=any",
                                     "DOPPLERGL_KERNEL_DIR=" TEST_MISSING "/kernels", NULL};
    struct process_result r;
    (void)state;
    assert_int_equal(dgl_dir_make(NULL, dir), DGL_OK);
    test_write_file(dir, "config.json", settings, strlen(settings));
    snprintf(set, sizeof(set), "XDG_CONFIG_HOME=%s", top);
    process_run(&(const struct process_params){.args = args, .env = config}, &r);
    assert_code(&r, 0);
    assert_step(&r, "attn_decode", "reason",
                "hint attentionDecode=streaming (config.json: attention-decode)");
    assert_step(&r, "rope_kv", "reason", "WG_SIZE=128 (config.json: kernel-hints)");
    process_finish(&r);
    process_run(&(const struct process_params){.args = missing, .env = variables}, &r);
    assert_code(&r, 1);
    assert_one_error(&r, TEST_MISSING);
    for (size_t i = 0; variables[i]; i++) {
        char part[256];
        const size_t name = strcspn(variables[i], "=");
        snprintf(part, sizeof(part), " by %.*s\n", (int)name, variables[i]);
        /* No device was opened. */
        assert_int_equal(count_of(r.err, part), strstr(part, "DEVICE") ? 0 : 1);
    }
    process_finish(&r);
    free(dir);
    test_tmpdir_remove(top);
}

/* Valid words that no request of the model has: one line for each hint of the user. */
static void requests_that_the_model_lacks_are_told(void **state)
{
    static const char hints[] =
        "{\"variants\": {\"matmul/decode/N=77\": \"matmul_decode\","
        " \"moe_matmul/decode\": \"moe_decode\"},"
        " \"tunes\": {\"matmul/weight=f32\": {\"matmul_decode.WG_SIZE\": 32},"
        " \"norm/store\": {\"norm_rms.WG_SIZE\": 128}}}";
    struct process_result r;
    (void)state;
    process_command(&r, "kernels", "explain", "--device", "any", "--kernel-hints", hints, NULL);
    assert_code(&r, 0);
    assert_int_equal(count_of(r.err, "is for no operation of the model, and changes nothing"), 2);
    assert_contains(r.err,
                    "the hint variants.matmul/decode/N=77=matmul_decode (--kernel-hints) is for");
    assert_contains(r.err,
                    "the hint tunes.matmul/weight=f32.matmul_decode.WG_SIZE=32 (--kernel-hints)");
    process_finish(&r);
}

/* ---- single options -------------------------------------------------------------------------- */

struct option_row {
    const char *name;
    const char *args[6];
    const char *env; /* may be NULL */
    int code;
    const char *error; /* part of the only error line, or of the output if there is no error */
};

static const struct option_row options[] = {
    {"--force-fused-q4k",
     {"kernels", "explain", "--device", "any", "--force-fused-q4k"},
     NULL,
     0,
     "(--force-fused-q4k)"},
    {"--force-fused-q4k against --q4k-matmul",
     {"kernels", "list", "--force-fused-q4k", "--q4k-matmul", "dequant_f16"},
     NULL,
     2,
     "--force-fused-q4k and --q4k-matmul dequant_f16 contradict each other"},
    {"--force-fused-q4k beside the same",
     {"tune", "--device", TEST_MISSING, "--force-fused-q4k", "--q4k-matmul=fused_q4k"},
     NULL,
     1,
     TEST_MISSING},
    {"absent DOPPLERGL_KERNEL_DIR",
     {"kernels", "list"},
     "DOPPLERGL_KERNEL_DIR=" TEST_MISSING,
     1,
     TEST_MISSING},
    {"empty DOPPLERGL_KERNEL_DIR", {"kernels", "list"}, "DOPPLERGL_KERNEL_DIR=", 0, "norm_rms"},
    {"kernels of a pack without any",
     {"kernels", "list", "--allow-pack-kernels"},
     NULL,
     0,
     "norm_rms"},
    {"kernels of no model",
     {"kernels", "list", "--allow-pack-kernels", "-m", TEST_MISSING},
     NULL,
     1,
     TEST_MISSING},
};

static void option_case(void **state)
{
    const struct option_row *row = *state;
    const char *const env[] = {row->env, NULL};
    struct process_result r;
    process_run(&(const struct process_params){.args = row->args, .env = row->env ? env : NULL},
                &r);
    assert_code(&r, row->code);
    if (row->code)
        assert_one_error(&r, row->error);
    else
        assert_contains(r.out, row->error);
    process_finish(&r);
}

/* Every call that chooses kernels reads kernels.json, and errors name the file. Calls that only
 * list texts do not read it. */
static void faults_of_the_users_hints_name_their_file(void **state)
{
    char *top = test_tmpdir(), *dir = make_dir(top, "dopplergl"), set[4200];
    const char *const env[] = {set, NULL};
    static const char *const bench[] = {"kernels", "bench", "norm_rms", NULL};
    static const char *const others[][5] = {{"kernels", "list"},
                                            {"kernels", "show", "norm_rms"},
                                            {"kernels", "diff"},
                                            {"kernels", "new", "mine", "--op", "norm"},
                                            {"version"}};
    static const char *const texts[] = {"{\"q4kMatmul\": \"fused\"}",
                                        "{\"tunes\": {\"my_norm.WG_SIZE\": 16}}"};
    struct process_result r;
    (void)state;
    snprintf(set, sizeof(set), "XDG_CONFIG_HOME=%s", top);
    char *mine = dgl_path_join(top, "mine.comp");
    for (size_t t = 0; t < 2; t++) {
        char *path = put_text(dir, "kernels.json", texts[t]);
        process_run(&(const struct process_params){.args = bench, .env = env}, &r);
        assert_code(&r, 1);
        assert_one_error(&r, path);
        process_finish(&r);
        for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
            const char *args[8] = {NULL};
            memcpy(args, others[i], sizeof(others[i]));
            if (i == 3) {
                args[5] = "-o";
                args[6] = mine;
            }
            process_run(&(const struct process_params){.args = args, .env = env}, &r);
            assert_code(&r, 0);
            process_finish(&r);
        }
        assert_int_equal(remove(mine), 0);
        free(path);
    }
    free(mine);
    free(dir);
    test_tmpdir_remove(top);
}

/* A pipe without a writer. */
static void a_pipe_is_no_file_of_the_users_hints(void **state)
{
    char *top = test_tmpdir(), *dir = make_dir(top, "dopplergl"), set[4200];
    char *path = dgl_path_join(dir, "kernels.json");
    struct process_result r;
    (void)state;
    snprintf(set, sizeof(set), "XDG_CONFIG_HOME=%s", top);
    assert_int_equal(mkfifo(path, 0600), 0);
    process_run(&(const struct process_params){.args = (const char *const[]){"kernels", "bench",
                                                                             "norm_rms", NULL},
                                               .env = (const char *const[]){set, NULL}},
                &r);
    assert_code(&r, 1);
    assert_one_error(&r, path);
    process_finish(&r);
    free(path);
    free(dir);
    test_tmpdir_remove(top);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_have_tunables_of_their_own),
        cmocka_unit_test(sources_are_named),
        cmocka_unit_test(requests_that_the_model_lacks_are_told),
        cmocka_unit_test(faults_of_the_users_hints_name_their_file),
        cmocka_unit_test(a_pipe_is_no_file_of_the_users_hints),
    };
    int failed = test_run_table("cli manifest hints", manifest_case, manifests);
    failed += test_run_table("cli own folders", own_folder_of_a_pack_is_a_folder, own_rows);
    failed += test_run_table("cli layers", layers_are_in_order, ladders);
    failed += test_run_table("cli layer options", option_case, options);
    return failed + cmocka_run_group_tests_name("cli user hints", tests, NULL, NULL);
}
