/* The registry: layers of kernel files and of hints, and the faults of both. The built-in kernels
 * are replaced by kernels of this file. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "kernels/kernels.h"
#include "kernels/set/embedded.h"
#include "tests/support/kernel_sets.h"

#define KERNEL(name, op, variant, lines)                                                           \
    "// Summary of " name "\n//! NAME " name "\n//! OP " op "\n//! VARIANT " variant               \
    "\n//! LOCAL 1\n//! GROUPS 1\n" lines "void body(uvec3 group)\n{\n}\n"

static const char mm_base[] =
    KERNEL("mm_base", "matmul", "baseline", "//! CONST N\n//! TUNE ROWS = 2 in 1 2 4\n");
static const char mm_sub[] = KERNEL("mm_sub", "matmul", "gemv_subgroup", "//! PREFER 20\n");
static const char attn[] = KERNEL("attn", "attn_decode", "baseline streaming",
                                  "//! WHEN kv f16 f32\n//! LIB kv_{kv}\n//! LIB exact\n");
static const char lib_f16[] = "float kv() { return 16.0; }\n";
static const char lib_f32[] = "float kv() { return 32.0; }\n";
static const char lib_exact[] = "#if KV_f16\n#endif\n";

/* Takes the place of the library's own table. */
const struct kernel_embedded kernel_embedded[] = {
    {"attn.comp", attn, sizeof(attn) - 1},
    {"lib/kv/exact.glsl", lib_exact, sizeof(lib_exact) - 1},
    {"lib/kv/kv_f16.glsl", lib_f16, sizeof(lib_f16) - 1},
    {"lib/kv/kv_f32.glsl", lib_f32, sizeof(lib_f32) - 1},
    {"mm_base.comp", mm_base, sizeof(mm_base) - 1},
    {"mm_sub.comp", mm_sub, sizeof(mm_sub) - 1},
    {NULL, NULL, 0},
};

static void assert_refused(const struct dgl_kernels_params *params, enum dgl_status wanted,
                           const char *message)
{
    struct kernel_set *set = (struct kernel_set *)1;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(kernel_set_create(&log.log, params, &set), wanted);
    assert_null(set);
    assert_contains(log.text, message);
    assert_int_equal(log.errors, 1);
}

static void assert_hint(const struct kernel_set *set, const char *key, const char *value,
                        const char *origin)
{
    const char *from = NULL, *is = kernel_set_hint(set, key, &from);
    if (!value) {
        assert_null(is);
        return;
    }
    assert_non_null(is);
    assert_string_equal(is, value);
    if (origin)
        assert_contains(from, origin);
}

/* ---- built-in kernels ---- */

static void builtins_are_there(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    assert_int_equal(kernel_set_count(set), 3);
    const struct kernel *k = kernel_set_find(set, "mm_sub");
    assert_non_null(k);
    assert_string_equal(k->origin, "builtin");
    assert_string_equal(k->path, "kernels/mm_sub.comp");
    assert_string_equal(k->summary, "Summary of mm_sub");
    assert_false(k->added);
    assert_string_equal(kernel_set_at(set, 0)->name, "attn");
    assert_null(kernel_set_find(set, "absent"));
    kernel_set_destroy(&set);
    assert_null(set);
}

static void builtins_have_hashes_and_text(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    const struct kernel *k = kernel_set_find(set, "mm_base");
    char wanted[65];
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, mm_base, sizeof(mm_base) - 1, wanted));
    assert_string_equal(k->sha256, wanted);
    assert_int_equal(k->text_len, sizeof(mm_base) - 1);
    assert_string_equal(k->text, mm_base);
    kernel_set_destroy(&set);
}

static void builtin_libs_are_found_by_name(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    assert_string_equal(kernel_set_lib(set, "kv_f16")->body, lib_f16);
    assert_null(kernel_set_lib(set, "kv_f64"));
    kernel_set_destroy(&set);
}

static void references_keep_a_set(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL), *other = kernel_set_ref(set);
    kernel_set_destroy(&set);
    assert_int_equal(kernel_set_count(other), 3);
    kernel_set_destroy(&other);
    kernel_set_destroy(&other);
}

/* ---- user's files ---- */

struct files {
    char *dir;
    char *path; /* of a file in it */
};

static int setup(void **state)
{
    struct files *files = calloc(1, sizeof(*files));
    files->dir = test_tmpdir();
    *state = files;
    return files->dir ? 0 : -1;
}

static int teardown(void **state)
{
    struct files *files = *state;
    test_tmpdir_remove(files->dir);
    free(files->path);
    free(files);
    return 0;
}

static const char *put(struct files *files, const char *name, const char *text)
{
    test_write_file(files->dir, name, text, strlen(text));
    free(files->path);
    files->path = dgl_path_join(files->dir, name);
    return files->path;
}

#define DIR_PARAMS(files)                                                                          \
    dgl_kernels_params(.dirs = (const char *const[]){(files)->dir}, .num_dirs = 1)
#define FILE_PARAMS(files)                                                                         \
    dgl_kernels_params(.files = (const char *const[]){(files)->path}, .num_files = 1)

static void directory_replaces_by_name(void **state)
{
    struct files *files = *state;
    put(files, "any.comp", KERNEL("mm_base", "matmul", "mine", ""));
    struct kernel_set *set = loaded_set(DIR_PARAMS(files));
    const struct kernel *k = kernel_set_find(set, "mm_base");
    assert_int_equal(kernel_set_count(set), 3);
    assert_string_equal(k->variant, "mine");
    assert_string_equal(k->origin, files->path);
    assert_false(k->added);
    kernel_set_destroy(&set);
}

static void directory_adds_other_names(void **state)
{
    struct files *files = *state;
    put(files, "b.comp", KERNEL("mm_b", "matmul", "mine", ""));
    put(files, "a.comp", KERNEL("mm_a", "matmul", "mine", ""));
    put(files, "notes.txt", "not a kernel");
    struct kernel_set *set = loaded_set(DIR_PARAMS(files));
    assert_int_equal(kernel_set_count(set), 5);
    assert_string_equal(kernel_set_at(set, 3)->name, "mm_a");
    assert_true(kernel_set_at(set, 4)->added);
    kernel_set_destroy(&set);
}

static void file_beats_directory(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("mm_base", "matmul", "from_dir", ""));
    put(files, "a.kernel", KERNEL("mm_base", "matmul", "from_file", ""));
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.dirs = (const char *const[]){files->dir}, .num_dirs = 1,
                                      .files = (const char *const[]){files->path}, .num_files = 1));
    assert_string_equal(kernel_set_find(set, "mm_base")->variant, "from_file");
    kernel_set_destroy(&set);
}

static void replaced_added_kernel_stays_added(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("mm_new", "matmul", "from_dir", ""));
    put(files, "a.kernel", KERNEL("mm_new", "matmul", "from_file", ""));
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.dirs = (const char *const[]){files->dir}, .num_dirs = 1,
                                      .files = (const char *const[]){files->path}, .num_files = 1));
    assert_string_equal(kernel_set_find(set, "mm_new")->variant, "from_file");
    assert_true(kernel_set_find(set, "mm_new")->added);
    kernel_set_destroy(&set);
}

static void put_lib(struct files *files, const char *name, const char *text)
{
    char *libs = dgl_path_join(files->dir, "lib");
    if (!dgl_path_is_dir(libs))
        assert_int_equal(dgl_dir_make(NULL, libs), DGL_OK);
    test_write_file(libs, name, text, strlen(text));
    free(libs);
}

static void directory_may_hold_libs(void **state)
{
    struct files *files = *state;
    put_lib(files, "kv_f16.glsl", "int mine;\n");
    struct kernel_set *set = loaded_set(DIR_PARAMS(files));
    assert_string_equal(kernel_set_lib(set, "kv_f16")->body, "int mine;\n");
    assert_string_equal(kernel_set_lib(set, "kv_f32")->body, lib_f32);
    kernel_set_destroy(&set);
}

static void lib_with_a_foreign_symbol_is_refused(void **state)
{
    struct files *files = *state;
    put_lib(files, "exact.glsl", "\n#if WEIGHT_q4_k\n#endif\n");
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "exact.glsl:2:5: kernel attn does not declare the symbol WEIGHT_q4_k");
}

static void lib_with_an_entry_is_refused(void **state)
{
    struct files *files = *state;
    put_lib(files, "x.glsl", "void main() {}\n");
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL, "x.glsl:1:6: main may not appear here");
}

static void two_libs_of_a_kernel_may_not_share_a_name(void **state)
{
    struct files *files = *state;
    put_lib(files, "exact.glsl", "//! LET BINS = 4\n");
    put_lib(files, "kv_f32.glsl", "//! SHARED float BINS\n");
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "exact.glsl: the name BINS is declared by the lib ");
}

static void libs_of_two_words_may_share_a_name(void **state)
{
    struct files *files = *state;
    put_lib(files, "kv_f16.glsl", "//! LET BINS = 4\n");
    put_lib(files, "kv_f32.glsl", "//! LET BINS = 8\n");
    struct kernel_set *set = loaded_set(DIR_PARAMS(files));
    assert_int_equal(kernel_set_lib(set, "kv_f32")->decls.num_lets, 1);
    kernel_set_destroy(&set);
}

static void lib_that_needs_more_of_its_kernel_is_refused(void **state)
{
    struct files *files = *state;
    put_lib(files, "kv_f16.glsl", "// S\n//! SHARED float part[WIDTH]\n");
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "kv_f16.glsl:2: SHARED: kernel attn does not declare the name WIDTH");
}

#define EIGHT_LETS(x)                                                                              \
    "//! LET " x "0 = 1\n//! LET " x "1 = 1\n//! LET " x "2 = 1\n//! LET " x "3 = 1\n"             \
    "//! LET " x "4 = 1\n//! LET " x "5 = 1\n//! LET " x "6 = 1\n//! LET " x "7 = 1\n"

static void kernel_with_too_many_lets_in_its_libs_is_refused(void **state)
{
    struct files *files = *state;
    put_lib(files, "kv_f16.glsl", EIGHT_LETS("A"));
    put_lib(files, "exact.glsl", EIGHT_LETS("B") EIGHT_LETS("C") EIGHT_LETS("D") EIGHT_LETS("E"));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "kernel attn and its libs have more than 32 LETs or 16 SHAREDs");
}

static void broken_file_in_a_directory_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "good.comp", KERNEL("mm_good", "matmul", "mine", ""));
    put(files, "bad.comp", KERNEL("mm_bad", "matmul", "mine", "//! SPEED 9\n"));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL, "bad.comp:7:5: 'SPEED' is not a directive");
}

static void broken_file_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "bad", "void main() {}\n");
    assert_refused(FILE_PARAMS(files), DGL_ERR_KERNEL, "bad:1: the first line must be");
}

static void empty_file_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "bad", "");
    assert_refused(FILE_PARAMS(files), DGL_ERR_KERNEL, "bad:1: ");
}

static void absent_file_is_refused(void **state)
{
    (void)state;
    assert_refused(
        dgl_kernels_params(.files = (const char *const[]){"absent/x.comp"}, .num_files = 1),
        DGL_ERR_IO, "absent/x.comp");
}

static void absent_directory_is_refused(void **state)
{
    (void)state;
    assert_refused(dgl_kernels_params(.dirs = (const char *const[]){"absent"}, .num_dirs = 1),
                   DGL_ERR_IO, "absent");
}

static void directory_without_kernels_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "readme.txt", "nothing");
    assert_refused(DIR_PARAMS(files), DGL_ERR_INVALID_ARG, "holds no *.comp and no *.glsl");
}

static void name_twice_in_a_directory_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("mm_x", "matmul", "mine", ""));
    put(files, "b.comp", KERNEL("mm_x", "matmul", "mine", ""));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL, "b.comp: the NAME mm_x is also that of ");
}

static void name_twice_among_files_is_refused(void **state)
{
    struct files *files = *state;
    char *paths[] = {checked(dgl_path_join(files->dir, "a.comp")),
                     checked(dgl_path_join(files->dir, "b.comp"))};
    put(files, "a.comp", KERNEL("mm_x", "matmul", "mine", ""));
    put(files, "b.comp", KERNEL("mm_x", "matmul", "mine", ""));
    assert_refused(
        dgl_kernels_params(.files = (const char *const[]){paths[0], paths[1]}, .num_files = 2),
        DGL_ERR_KERNEL, "b.comp: the NAME mm_x is also that of ");
    free(paths[0]);
    free(paths[1]);
}

static void unknown_operation_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("mine", "matmull", "mine", ""));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "a.comp:3: OP: no operation is called matmull; there are: attn_decode matmul");
}

/* A constant of any operation is known. A constant with a preset may be unknown. */
static void unknown_constant_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("mine", "attn_decode", "mine", "//! CONST N\n//! CONST OWN = 1\n"));
    put(files, "b.comp", KERNEL("mm_base", "matmul", "mine", "//! CONST N\n//! CONST OWN\n"));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "b.comp:8: CONST: no operation supplies OWN; built-in kernels of matmul use: N");
}

static void replacing_another_operation_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("mm_base", "attn_decode", "mine", ""));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "it would replace the kernel mm_base of OP matmul (kernels/mm_base.comp) by one "
                   "of OP attn_decode");
}

static void kernel_with_an_absent_lib_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("a", "matmul", "mine", "//! LIB nowhere\n"));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL,
                   "a.comp:7: LIB: there is no lib nowhere (kernel a)");
}

static void kernel_with_an_absent_lib_of_a_word_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "a.comp", KERNEL("a", "matmul", "mine", "//! WHEN kv f16 q8\n//! LIB kv_{kv}\n"));
    assert_refused(DIR_PARAMS(files), DGL_ERR_KERNEL, "a.comp:8: LIB: there is no lib kv_q8");
}

static void file_of_two_mebibytes_is_refused(void **state)
{
    struct files *files = *state;
    char *text = malloc(2u << 20);
    memset(text, ' ', 2u << 20);
    test_write_file(files->dir, "big.comp", text, 2u << 20);
    free(text);
    assert_refused(DIR_PARAMS(files), DGL_ERR_FORMAT, "big.comp");
}

/* ---- hints: every pair of neighbouring layers, and the words that are refused ---- */

static void no_hint_without_layers(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    assert_hint(set, "attentionDecode", NULL, NULL);
    kernel_set_destroy(&set);
}

static void manifest_says_default_and_pinned(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL), *with = NULL;
    assert_int_equal(kernel_set_with_manifest(NULL, set,
                                              &(const struct kernel_manifest_hints){
                                                  "pack",
                                                  "{\"attentionDecode\":\"streaming\","
                                                  "\"attentionPrefill\":\"tiled_large\"}",
                                                  "{\"attentionDecode\":\"tiled_small\"}"},
                                              &with),
                     DGL_OK);
    assert_hint(with, "attentionDecode", "tiled_small", "manifest (pinned)");
    assert_hint(with, "attentionPrefill", "tiled_large", "manifest");
    assert_hint(set, "attentionDecode", NULL, NULL);
    kernel_set_destroy(&set);
    assert_int_equal(kernel_set_count(with), 3);
    kernel_set_destroy(&with);
}

#define KNOWN    "\"disableFeatures\":[\"subgroups\"]"
#define FEATURES "\"disableFeatures\":[\"GL_other\",\"subgroups\"]"

/* Unknown hints in a manifest's defaults are skipped. If the defaults are pinned or strict, they
 * are all refused. */
static void unknown_hints_of_a_manifest(void **state)
{
    static const struct {
        const char *hints, *said;
        bool pinned;
        enum dgl_status status;
    } rows[] = {
        {FEATURES, ": disableFeatures has 'GL_other', ", false, DGL_OK},
        {"\"strict\":true," FEATURES, ": disableFeatures has 'GL_other', ", false, DGL_ERR_FORMAT},
        {FEATURES, ": disableFeatures has 'GL_other', ", true, DGL_ERR_FORMAT},
        {"\"nope\":1," KNOWN, ": there is no kernel hint 'nope'; there are ", false, DGL_OK},
        {"\"strict\":true,\"nope\":1", ": there is no kernel hint 'nope'", false, DGL_ERR_FORMAT},
        {"\"nope\":1", ": there is no kernel hint 'nope'", true, DGL_ERR_FORMAT},
        {"\"variants\":{\"matmul\":\"gone\"}," KNOWN, ": variants.matmul is 'gone', wanted ", false,
         DGL_OK},
        {"\"tunes\":{\"norm_rms.WG_SIZE\":99}," KNOWN, ": there is no kernel 'norm_rms'", false,
         DGL_OK},
        {"\"attentionDecode\":[]," KNOWN, ": attentionDecode is an array, wanted a string", false,
         DGL_OK},
        {"\"tunes\":7," KNOWN, ": tunes is a number, wanted an object", false, DGL_OK},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char json[256];
        snprintf(json, sizeof(json), "{%s}", rows[i].hints);
        struct kernel_set *set = loaded_set(NULL), *with = NULL;
        struct test_log log;
        test_log_init(&log, DGL_LOG_NOTICE);
        const struct kernel_manifest_hints hints = {"/a/pack", rows[i].pinned ? NULL : json,
                                                    rows[i].pinned ? json : NULL};
        assert_int_equal(kernel_set_with_manifest(&log.log, set, &hints, &with), rows[i].status);
        assert_contains(log.text, rows[i].said);
        assert_int_equal(log.errors, rows[i].status != DGL_OK);
        if (with)
            assert_hint(with, "disableFeatures", "subgroups", "manifest");
        kernel_set_destroy(&with);
        kernel_set_destroy(&set);
    }
}

static void manifest_texts_may_be_null(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL), *with = NULL;
    assert_int_equal(
        kernel_set_with_manifest(NULL, set, &(const struct kernel_manifest_hints){0}, &with),
        DGL_OK);
    assert_hint(with, "attentionDecode", NULL, NULL);
    kernel_set_destroy(&with);
    kernel_set_destroy(&set);
}

static void manifest_is_below_the_caller(void **state)
{
    (void)state;
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.hints = "{\"attentionDecode\":\"auto\"}"));
    struct kernel_set *with = NULL;
    const char *json = "{\"attentionDecode\":\"streaming\",\"f16Matmul\":\"gemv_subgroup\"}";
    assert_int_equal(
        kernel_set_with_manifest(NULL, set,
                                 &(const struct kernel_manifest_hints){"pack", json, json}, &with),
        DGL_OK);
    assert_hint(with, "attentionDecode", "auto", "--kernel-hints");
    assert_hint(with, "f16Matmul", "gemv_subgroup", "manifest (pinned)");
    kernel_set_destroy(&with);
    kernel_set_destroy(&set);
}

/* Sets a different value in every layer up to `top`, in a scrambled order. The top layer must win.
 */
static void assert_layer_wins(enum kernel_layer top, const char *value)
{
    static const struct {
        enum kernel_layer layer;
        const char *json;
    } layers[] = {
        {KERNEL_LAYER_PINNED, "{\"attentionDecode\":\"tiled_small\"}"},
        {KERNEL_LAYER_FLAG, "{\"attentionDecode\":\"tiled_small\"}"},
        {KERNEL_LAYER_MANIFEST, "{\"attentionDecode\":\"auto\"}"},
        {KERNEL_LAYER_HINTS, "{\"attentionDecode\":\"tiled_large\"}"},
        {KERNEL_LAYER_TUNER, "{\"attentionDecode\":\"streaming\"}"},
        {KERNEL_LAYER_PROFILE, "{\"attentionDecode\":\"streaming\"}"},
        {KERNEL_LAYER_CONFIG, "{\"attentionDecode\":\"tiled_large\"}"},
    };
    struct kernel_set *set = loaded_set(NULL), *next = NULL;
    for (size_t i = 0; i < sizeof(layers) / sizeof(*layers); i++) {
        if (layers[i].layer > top)
            continue;
        assert_int_equal(
            kernel_set_with_hints(NULL, set, layers[i].layer, "a layer", layers[i].json, &next),
            DGL_OK);
        kernel_set_destroy(&set);
        set = next;
    }
    assert_hint(set, "attentionDecode", value, "a layer");
    kernel_set_destroy(&set);
}

static void layers_are_in_order(void **state)
{
    (void)state;
    assert_layer_wins(KERNEL_LAYER_MANIFEST, "auto");
    assert_layer_wins(KERNEL_LAYER_TUNER, "streaming");
    assert_layer_wins(KERNEL_LAYER_PINNED, "tiled_small");
    assert_layer_wins(KERNEL_LAYER_CONFIG, "tiled_large");
    assert_layer_wins(KERNEL_LAYER_PROFILE, "streaming");
    assert_layer_wins(KERNEL_LAYER_HINTS, "tiled_large");
    assert_layer_wins(KERNEL_LAYER_FLAG, "tiled_small");
}

static void profile_beats_config_file(void **state)
{
    struct files *files = *state;
    put(files, "c.json", "{\"attentionPrefill\":\"streaming\",\"tunes\":{\"mm_base.ROWS\":4}}");
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.config_file = files->path, .profile = "fast"));
    assert_hint(set, "attentionPrefill", "tiled_large", "--kernel-profile fast");
    assert_hint(set, "tunes.mm_base.ROWS", "4", files->path);
    kernel_set_destroy(&set);
}

static void hints_beat_profile_and_flags_beat_hints(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(
        dgl_kernels_params(.profile = "fast",
                           .hints = "{\"attentionPrefill\":\"streaming\",\"q4kMatmul\":\"auto\"}",
                           .flags = (const char *const[]){"q4kMatmul=fused_q4k"}, .num_flags = 1));
    assert_hint(set, "attentionPrefill", "streaming", "--kernel-hints");
    assert_hint(set, "q4kMatmul", "fused_q4k", "flag");
    assert_hint(set, "f16Matmul", "gemv_subgroup", "--kernel-profile");
    kernel_set_destroy(&set);
}

static void later_flag_wins(void **state)
{
    (void)state;
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.flags = (const char *const[]){"attentionDecode=streaming",
                                                                     "attentionDecode=auto"},
                                      .num_flags = 2));
    assert_hint(set, "attentionDecode", "auto", NULL);
    kernel_set_destroy(&set);
}

static void null_says_nothing(void **state)
{
    (void)state;
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.profile = "safe",
                                      .hints = "{\"computePrecision\":null,\"variants\":null}"));
    assert_hint(set, "computePrecision", "f32", "--kernel-profile");
    kernel_set_destroy(&set);
}

static void remarks_of_the_tuner_are_accepted(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(
        dgl_kernels_params(.hints = "{\"tunedDevice\":\"x\",\"benchmarkTokPerSec\":12.5}"));
    assert_hint(set, "benchmarkTokPerSec", "12.5", NULL);
    kernel_set_destroy(&set);
}

struct profile_case {
    const char *name, *precision, *q4k, *f16, *prefill, *decode;
};

static const struct profile_case profiles[] = {
    {"fast", "f16", "dequant_f16", "gemv_subgroup", "tiled_large", "auto"},
    {"safe", "f32", "dequant_f32", "auto", "auto", "auto"},
    {"debug", "f32", "dequant_f32", "auto", "auto", "auto"},
    {"fused", "f16", "fused_q4k", "gemv_subgroup", "tiled_large", "auto"},
    {"apple", "f16", "dequant_f16", "gemv_subgroup", "tiled_large", "auto"},
};

static void profile_has_values(void **state)
{
    const struct profile_case *c = *state;
    struct kernel_set *set = loaded_set(dgl_kernels_params(.profile = c->name));
    assert_hint(set, "computePrecision", c->precision, c->name);
    assert_hint(set, "q4kMatmul", c->q4k, c->name);
    assert_hint(set, "f16Matmul", c->f16, c->name);
    assert_hint(set, "attentionPrefill", c->prefill, c->name);
    assert_hint(set, "attentionDecode", c->decode, c->name);
    kernel_set_destroy(&set);
}

struct hint_case {
    const char *name;
    const char *hints, *flag, *profile;
    const char *error; /* NULL: accepted */
    enum dgl_status status;
};

static const struct hint_case hints[] = {
    {"variant by operation", "{\"variants\":{\"matmul\":\"gemv_subgroup\"}}", NULL, NULL, NULL, 0},
    {"variant by operation and word", "{\"variants\":{\"matmul/decode\":\"mm_sub\"}}", NULL, NULL,
     NULL, 0},
    {"variant by alias", NULL, "variants.attn_decode=streaming", NULL, NULL, 0},
    {"variant auto", NULL, "variants.attn_decode=auto", NULL, NULL, 0},
    {"tune by flag", NULL, "tunes.mm_base.ROWS=1", NULL, NULL, 0},
    {"tune as a string", "{\"tunes\":{\"mm_base.ROWS\":\"1\"}}", NULL, NULL, NULL, 0},
    {"empty object", "{}", NULL, NULL, NULL, 0},
    {"unknown hint", "{\"attention\":\"auto\"}", NULL, NULL,
     "--kernel-hints: there is no kernel hint 'attention'; there are computePrecision, q4kMatmul, "
     "f16Matmul, attentionPrefill, attentionDecode",
     DGL_ERR_INVALID_ARG},
    {"unknown value", "{\"attentionDecode\":\"tiled\"}", NULL, NULL,
     "--kernel-hints: attentionDecode is 'tiled', wanted one of: auto tiled_large tiled_small "
     "streaming subgroup",
     DGL_ERR_INVALID_ARG},
    {"two values", "{\"attentionDecode\":\"auto streaming\"}", NULL, NULL,
     "is 'auto streaming', wanted one of", DGL_ERR_INVALID_ARG},
    {"empty value", "{\"attentionDecode\":\"\"}", NULL, NULL,
     "attentionDecode is '', wanted one of", DGL_ERR_INVALID_ARG},
    {"value of another type", "{\"attentionDecode\":true}", NULL, NULL, "attentionDecode is ",
     DGL_ERR_INVALID_ARG},
    {"object of a name that does not exist", "{\"foo\":{}}", NULL, NULL,
     "there is no kernel hint 'foo'", DGL_ERR_INVALID_ARG},
    {"value that is a list", "{\"attentionDecode\":[\"auto\"]}", NULL, NULL, "wanted a string",
     DGL_ERR_INVALID_ARG},
    {"value with a zero byte", "{\"attentionDecode\":\"auto\\u0000\"}", NULL, NULL,
     "wanted a string", DGL_ERR_INVALID_ARG},
    {"hints that are a list", "[]", NULL, NULL, "wanted an object", DGL_ERR_INVALID_ARG},
    {"hints that are not JSON", "{attentionDecode}", NULL, NULL, "--kernel-hints", DGL_ERR_FORMAT},
    {"variants that are a string", "{\"variants\":\"fast\"}", NULL, NULL, "variants is ",
     DGL_ERR_INVALID_ARG},
    {"variants within variants", "{\"variants\":{\"matmul\":{}}}", NULL, NULL,
     "variants.matmul is ", DGL_ERR_INVALID_ARG},
    {"variant of an unknown operation", "{\"variants\":{\"gemm\":\"mm_sub\"}}", NULL, NULL,
     "variants: there is no operation 'gemm'; there are attn_decode matmul", DGL_ERR_INVALID_ARG},
    {"variant that no kernel has", "{\"variants\":{\"matmul\":\"tiled\"}}", NULL, NULL,
     "variants.matmul is 'tiled', wanted auto, a variant, or one of the kernels mm_base mm_sub",
     DGL_ERR_INVALID_ARG},
    {"variant of another operation", "{\"variants\":{\"matmul\":\"attn\"}}", NULL, NULL,
     "variants.matmul is 'attn'", DGL_ERR_INVALID_ARG},
    {"tune of an unknown kernel", "{\"tunes\":{\"mm.ROWS\":1}}", NULL, NULL,
     "tunes.mm.ROWS: there is no kernel 'mm'", DGL_ERR_INVALID_ARG},
    {"tune that the kernel lacks", "{\"tunes\":{\"mm_base.COLS\":1}}", NULL, NULL,
     "kernel mm_base has no tunable 'COLS'", DGL_ERR_INVALID_ARG},
    {"tune without a tunable", "{\"tunes\":{\"mm_base\":1}}", NULL, NULL,
     "kernel mm_base has no tunable ''", DGL_ERR_INVALID_ARG},
    {"tune of a value that is no choice", "{\"tunes\":{\"mm_base.ROWS\":3}}", NULL, NULL,
     "tunes.mm_base.ROWS is '3', wanted one of 1 2 4", DGL_ERR_INVALID_ARG},
    {"tune of a fraction", "{\"tunes\":{\"mm_base.ROWS\":1.5}}", NULL, NULL,
     "tunes.mm_base.ROWS is '1.5', wanted one of 1 2 4", DGL_ERR_INVALID_ARG},
    {"tune for a request", "{\"tunes\":{\"matmul/decode/weight=f16/N=8\":{\"mm_base.ROWS\":1}}}",
     NULL, NULL, NULL, 0},
    {"tune for a request by flag", NULL, "tunes.matmul/N=8.mm_base.ROWS=auto", NULL, NULL, 0},
    {"tune for a request of another operation",
     "{\"tunes\":{\"attn_decode\":{\"mm_base.ROWS\":1}}}", NULL, NULL,
     "tunes.attn_decode.mm_base.ROWS: kernel mm_base is for matmul, not for attn_decode",
     DGL_ERR_INVALID_ARG},
    {"tune for a request of an unknown operation",
     "{\"tunes\":{\"gemm/N=8\":{\"mm_base.ROWS\":1}}}", NULL, NULL,
     "tunes: there is no operation 'gemm'", DGL_ERR_INVALID_ARG},
    {"tune for a request of no number", "{\"tunes\":{\"matmul/N=x\":{\"mm_base.ROWS\":1}}}", NULL,
     NULL, "'N=x' is no word, key=word or CONST=integer", DGL_ERR_INVALID_ARG},
    {"tune for a request with an empty part", "{\"tunes\":{\"matmul//f16\":{\"mm_base.ROWS\":1}}}",
     NULL, NULL, "'' is no word, key=word or CONST=integer", DGL_ERR_INVALID_ARG},
    {"tune for requests within requests", "{\"tunes\":{\"matmul\":{\"matmul\":{}}}}", NULL, NULL,
     "tunes.matmul.matmul is ", DGL_ERR_INVALID_ARG},
    {"tune for a request that is a list", "{\"tunes\":{\"matmul\":[]}}", NULL, NULL,
     "tunes.matmul is ", DGL_ERR_INVALID_ARG},
    {"variant for a request by shape", "{\"variants\":{\"matmul/N=8\":\"mm_base\"}}", NULL, NULL,
     NULL, 0},
    {"variant for a request of no word", "{\"variants\":{\"matmul/f 16\":\"mm_base\"}}", NULL, NULL,
     "variants.matmul/f 16: 'f 16' is no word", DGL_ERR_INVALID_ARG},
    {"name with a zero byte", "{\"attentionDecode\\u0000\":\"auto\"}", NULL, NULL,
     "the name of a hint has a U+0000", DGL_ERR_INVALID_ARG},
    {"work group by flag", NULL, "workgroupOverrides.mm_base=32,1,1", NULL, NULL, 0},
    {"work group of an unknown kernel", "{\"workgroupOverrides\":{\"mm\":[32]}}", NULL, NULL,
     "workgroupOverrides.mm: there is no kernel 'mm'", DGL_ERR_INVALID_ARG},
    {"work group of four sides", "{\"workgroupOverrides\":{\"mm_base\":[1,1,1,1]}}", NULL, NULL,
     "workgroupOverrides.mm_base is '1,1,1,1', wanted auto or one to three sizes from 1 on",
     DGL_ERR_INVALID_ARG},
    {"work group of no side", "{\"workgroupOverrides\":{\"mm_base\":[]}}", NULL, NULL,
     "workgroupOverrides.mm_base is '', wanted", DGL_ERR_INVALID_ARG},
    {"work group of size 0", "{\"workgroupOverrides\":{\"mm_base\":[0]}}", NULL, NULL,
     "workgroupOverrides.mm_base is '0', wanted", DGL_ERR_INVALID_ARG},
    {"work group of lists", "{\"workgroupOverrides\":{\"mm_base\":[[1]]}}", NULL, NULL,
     "workgroupOverrides.mm_base has a member that is no integer, wanted auto or a list",
     DGL_ERR_INVALID_ARG},
    {"work group of texts", "{\"workgroupOverrides\":{\"mm_base\":[\"64\"]}}", NULL, NULL,
     "workgroupOverrides.mm_base has a member that is no integer, wanted auto or a list of one to "
     "three numbers, as [64, 1, 1]",
     DGL_ERR_INVALID_ARG},
    {"work group of a fraction", "{\"workgroupOverrides\":{\"mm_base\":[1.5]}}", NULL, NULL,
     "workgroupOverrides.mm_base has a member that is no integer", DGL_ERR_INVALID_ARG},
    {"work group that is a number", "{\"workgroupOverrides\":{\"mm_base\":64}}", NULL, NULL,
     "workgroupOverrides.mm_base is a number, wanted auto or a list of one to three numbers",
     DGL_ERR_INVALID_ARG},
    {"work group that is a text", "{\"workgroupOverrides\":{\"mm_base\":\"64\"}}", NULL, NULL,
     "workgroupOverrides.mm_base is a string, wanted auto or a list", DGL_ERR_INVALID_ARG},
    {"work group auto", "{\"workgroupOverrides\":{\"mm_base\":\"auto\"}}", NULL, NULL, NULL, 0},
    {"work groups that are a list", "{\"workgroupOverrides\":[1]}", NULL, NULL,
     "workgroupOverrides is an array, wanted an object", DGL_ERR_INVALID_ARG},
    {"columns by flag", NULL, "colsPerWorkgroup=auto", NULL, NULL, 0},
    {"no columns", "{\"colsPerWorkgroup\":0}", NULL, NULL,
     "colsPerWorkgroup is '0', wanted auto or a number from 1 on", DGL_ERR_INVALID_ARG},
    {"columns of a word", "{\"colsPerWorkgroup\":\"many\"}", NULL, NULL,
     "colsPerWorkgroup is 'many', wanted", DGL_ERR_INVALID_ARG},
    {"columns in a list", "{\"colsPerWorkgroup\":[4]}", NULL, NULL,
     "colsPerWorkgroup is an array, wanted a number or auto", DGL_ERR_INVALID_ARG},
    {"features by flag", NULL, "disableFeatures=subgroups GL_NV_gpu_shader5", NULL, NULL, 0},
    {"unknown feature", "{\"disableFeatures\":[\"subgroups\",\"f64\"]}", NULL, NULL,
     "disableFeatures has 'f64', wanted subgroups, shader-f16 or an extension: GL_KHR_shader_",
     DGL_ERR_INVALID_ARG},
    {"extension that no kernel uses", "{\"disableFeatures\":[\"GL_KHR_shader_subgroups\"]}", NULL,
     NULL, "disableFeatures has 'GL_KHR_shader_subgroups', wanted", DGL_ERR_INVALID_ARG},
    {"unknown feature by flag", NULL, "disableFeatures=subgroups GL_x", NULL,
     "disableFeatures has 'GL_x', wanted", DGL_ERR_INVALID_ARG},
    {"features in a text", "{\"disableFeatures\":\"subgroups\"}", NULL, NULL,
     "disableFeatures is a string, wanted a list of names", DGL_ERR_INVALID_ARG},
    {"features as an object", "{\"disableFeatures\":{\"subgroups\":true}}", NULL, NULL,
     "disableFeatures is an object, wanted a list of names", DGL_ERR_INVALID_ARG},
    {"feature that is a number", "{\"disableFeatures\":[16]}", NULL, NULL,
     "disableFeatures has a member that is no name, wanted a list of names", DGL_ERR_INVALID_ARG},
    {"two features in one text", "{\"disableFeatures\":[\"subgroups shader-f16\"]}", NULL, NULL,
     "disableFeatures has a member that is no name, wanted a list of names", DGL_ERR_INVALID_ARG},
    {"feature without a name", "{\"disableFeatures\":[\"\"]}", NULL, NULL,
     "disableFeatures has a member that is no name, wanted a list of names", DGL_ERR_INVALID_ARG},
    {"misspelt hint with a list", "{\"disableFeature\":\"subgroups\"}", NULL, NULL,
     "did you mean disableFeatures?", DGL_ERR_INVALID_ARG},
    {"strict by a word", "{\"strict\":\"yes\"}", NULL, NULL,
     "strict is 'yes', wanted one of: auto true false", DGL_ERR_INVALID_ARG},
    {"flag without =", NULL, "attentionDecode", NULL,
     "'attentionDecode' is not of the form hint=value", DGL_ERR_INVALID_ARG},
    {"flag with an unknown hint", NULL, "decode=auto", NULL,
     "flag: there is no kernel hint 'decode'", DGL_ERR_INVALID_ARG},
    {"flag with an unknown value", NULL, "f16Matmul=fast", NULL,
     "f16Matmul is 'fast', wanted one of: auto gemv_subgroup", DGL_ERR_INVALID_ARG},
    {"unknown profile", NULL, NULL, "quick",
     "there is no kernel profile 'quick'; there are fast safe debug fused apple",
     DGL_ERR_INVALID_ARG},
};

static void hint_is_accepted_or_refused(void **state)
{
    const struct hint_case *c = *state;
    const struct dgl_kernels_params params = {
        .hints = c->hints,
        .profile = c->profile,
        .flags = (const char *const[]){c->flag},
        .num_flags = c->flag ? 1 : 0,
    };
    if (c->error) {
        assert_refused(&params, c->status, c->error);
    } else {
        struct kernel_set *set = loaded_set(&params);
        kernel_set_destroy(&set);
    }
}

static void manifest_faults_are_faults_of_the_file(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL), *with = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(kernel_set_with_manifest(&log.log, set,
                                              &(const struct kernel_manifest_hints){
                                                  "/a/pack", NULL, "{\"attentionDecode\":\"x\"}"},
                                              &with),
                     DGL_ERR_FORMAT);
    assert_null(with);
    assert_contains(log.text, "/a/pack: manifest (pinned): attentionDecode is 'x'");
    kernel_set_destroy(&set);
}

static void broken_config_file_is_refused(void **state)
{
    struct files *files = *state;
    put(files, "c.json", "{\"q4kMatmul\":\"fused\"}");
    assert_refused(dgl_kernels_params(.config_file = files->path), DGL_ERR_INVALID_ARG,
                   "c.json: q4kMatmul is 'fused', wanted one of: auto fused_q4k");
}

static void absent_config_file_is_refused(void **state)
{
    (void)state;
    assert_refused(dgl_kernels_params(.config_file = "absent.json"), DGL_ERR_IO, "absent.json");
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(builtins_are_there),
        cmocka_unit_test(builtins_have_hashes_and_text),
        cmocka_unit_test(builtin_libs_are_found_by_name),
        cmocka_unit_test(references_keep_a_set),
        FILE_TEST(directory_replaces_by_name),
        FILE_TEST(directory_adds_other_names),
        FILE_TEST(file_beats_directory),
        FILE_TEST(replaced_added_kernel_stays_added),
        FILE_TEST(directory_may_hold_libs),
        FILE_TEST(lib_with_a_foreign_symbol_is_refused),
        FILE_TEST(lib_with_an_entry_is_refused),
        FILE_TEST(two_libs_of_a_kernel_may_not_share_a_name),
        FILE_TEST(libs_of_two_words_may_share_a_name),
        FILE_TEST(lib_that_needs_more_of_its_kernel_is_refused),
        FILE_TEST(kernel_with_too_many_lets_in_its_libs_is_refused),
        FILE_TEST(broken_file_in_a_directory_is_refused),
        FILE_TEST(broken_file_is_refused),
        FILE_TEST(empty_file_is_refused),
        cmocka_unit_test(absent_file_is_refused),
        cmocka_unit_test(absent_directory_is_refused),
        FILE_TEST(directory_without_kernels_is_refused),
        FILE_TEST(name_twice_in_a_directory_is_refused),
        FILE_TEST(name_twice_among_files_is_refused),
        FILE_TEST(unknown_operation_is_refused),
        FILE_TEST(unknown_constant_is_refused),
        FILE_TEST(replacing_another_operation_is_refused),
        FILE_TEST(kernel_with_an_absent_lib_is_refused),
        FILE_TEST(kernel_with_an_absent_lib_of_a_word_is_refused),
        FILE_TEST(file_of_two_mebibytes_is_refused),
        cmocka_unit_test(no_hint_without_layers),
        cmocka_unit_test(manifest_says_default_and_pinned),
        cmocka_unit_test(unknown_hints_of_a_manifest),
        cmocka_unit_test(manifest_texts_may_be_null),
        cmocka_unit_test(manifest_is_below_the_caller),
        cmocka_unit_test(layers_are_in_order),
        FILE_TEST(profile_beats_config_file),
        cmocka_unit_test(hints_beat_profile_and_flags_beat_hints),
        cmocka_unit_test(later_flag_wins),
        cmocka_unit_test(null_says_nothing),
        cmocka_unit_test(remarks_of_the_tuner_are_accepted),
        cmocka_unit_test(manifest_faults_are_faults_of_the_file),
        FILE_TEST(broken_config_file_is_refused),
        cmocka_unit_test(absent_config_file_is_refused),
    };
    int failed = cmocka_run_group_tests_name("kernel_set", tests, NULL, NULL);
    failed += test_run_table("kernel_profiles", profile_has_values, profiles);
    return failed + test_run_table("kernel_hints", hint_is_accepted_or_refused, hints);
}
