/* Rules for the text of every built-in kernel, so that it can be a phase of a longer program. */
#include "tests/support/test.h"

#include <stdio.h>

#include "kernels/format/kernel_format.h"
#include "kernels/phases.h"
#include "kernels/set/kernel_set_internal.h"
#include "tests/support/kernel_sets.h"

/* Returns the value of the first directive `name`, or an empty string. */
static struct dgl_str directive(const struct kernel *kernel, const char *name)
{
    struct dgl_str rest = {kernel->text, kernel->text_len}, line, word;
    while (dgl_str_split(&rest, '\n', &line)) {
        if (!dgl_str_starts(line, "//! "))
            continue;
        line = (struct dgl_str){line.p + 4, line.len - 4};
        if (kernel_word_next(&line, &word) && dgl_str_eq(word, name))
            return line;
    }
    return DGL_STR("");
}

static bool has_tune(const struct kernel *kernel, struct dgl_str name)
{
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        if (dgl_str_eq(name, kernel->tunes[i].name))
            return true;
    return false;
}

static bool has_let(const struct kernel *kernel, struct dgl_str name)
{
    for (uint32_t i = 0; i < kernel->decls.num_lets; i++)
        if (dgl_str_eq(name, kernel->decls.lets[i].name))
            return true;
    return false;
}

static void every_local_size_is_a_tunable_or_a_let(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    assert_true(kernel_set_count(set) > 30);
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        struct dgl_str value = directive(kernel, "LOCAL"), word;
        while (kernel_word_next(&value, &word) && !dgl_str_starts(word, "//"))
            if (!has_tune(kernel, word) && !has_let(kernel, word))
                fail_msg("%s: LOCAL %.*s", kernel->path, (int)word.len, word.p);
    }
    kernel_set_destroy(&set);
}

/* `kernels list` prints the first line of a file alone. */
static void every_summary_is_whole(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    for (size_t i = 0; i < kernel_set_count(set); i++)
        if (!dgl_str_ends(dgl_str_of(kernel_set_at(set, i)->summary), "."))
            fail_msg("%s: %s", kernel_set_at(set, i)->path, kernel_set_at(set, i)->summary);
    kernel_set_destroy(&set);
}

/* The kernel's file name is its NAME, so an override folder of copies has the same names. */
static void every_kernel_is_named_like_its_file(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        char wanted[96];
        snprintf(wanted, sizeof(wanted), "/%s.comp", kernel->name);
        if (!dgl_str_ends(dgl_str_of(kernel->path), wanted))
            fail_msg("%s has the NAME %s", kernel->path, kernel->name);
    }
    kernel_set_destroy(&set);
}

/* A program of phases initialises variables outside of functions before each phase. Variables whose
 * type is a macro or a struct would instead need registers during all phases. */
static void check_variables(const char *path, struct dgl_str body)
{
    static const char *const types[] = {"float", "vec2",  "vec3",  "vec4", "uint",
                                        "uvec2", "uvec3", "uvec4", "int",  "ivec2",
                                        "ivec3", "ivec4", "bool"};
    struct phase_names names = {0};
    phase_names_scan(&names, body);
    assert_false(names.failed);
    for (size_t i = 0; i < names.count; i++) {
        const struct dgl_str type = names.names[i].type;
        bool known = type.len == 0;
        for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
            known |= dgl_str_eq(type, types[t]);
        if (!known)
            fail_msg("%s: variable %.*s of type %.*s", path, (int)names.names[i].name.len,
                     names.names[i].name.p, (int)type.len, type.p);
    }
    phase_names_finish(&names);
}

static void every_variable_has_a_number_type(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    assert_true(kernel_set_num_libs(set) > 50);
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        check_variables(kernel->path, dgl_str_of(kernel->body));
    }
    for (size_t i = 0; i < kernel_set_num_libs(set); i++) {
        const struct kernel_lib *lib = kernel_set_lib_at(set, i);
        check_variables(lib->path, (struct dgl_str){lib->body, lib->body_len});
    }
    kernel_set_destroy(&set);
}

/* Programs do not compare built-in kernels with built-in libs when they start. */
static void every_lib_fits_its_kernels(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    struct test_log log;
    test_log_init(&log, DGL_LOG_ERROR);
    if (kernel_set_check_libs(&log.log, set, true) != DGL_OK)
        fail_msg("%s", log.text);
    kernel_set_destroy(&set);
}

/* A copy with the line ends of another system is the same kernel. */
static void every_kernel_may_have_crlf(void **state)
{
    (void)state;
    struct kernel_set *set = loaded_set(NULL);
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        struct dgl_buf text = {0};
        struct dgl_arena arena = {0};
        struct kernel *copy = NULL;
        struct test_log log;
        test_log_init(&log, DGL_LOG_ERROR);
        for (size_t c = 0; c < kernel->text_len; c++) {
            if (kernel->text[c] == '\n')
                dgl_buf_putc(&text, '\r');
            dgl_buf_putc(&text, kernel->text[c]);
        }
        if (kernel_parse(&log.log, &arena, kernel->path, text.p, text.len, &copy) != DGL_OK)
            fail_msg("%s", log.text);
        assert_string_equal(copy->sha256, kernel->sha256);
        assert_string_equal(copy->name, kernel->name);
        assert_string_equal(copy->summary, kernel->summary);
        assert_int_equal(copy->num_tunes, kernel->num_tunes);
        assert_int_equal(copy->num_libs, kernel->num_libs);
        assert_int_equal(copy->body_line, kernel->body_line);
        dgl_buf_finish(&text);
        dgl_arena_finish(&arena);
    }
    kernel_set_destroy(&set);
}

/* A large tile, whose parts store half of their results in shared memory for the sum. A thread
 * computes 16 rows by 8 tokens. */
struct tile {
    const char *name, *kernel;
    int rows, tokens, step, parts;
    bool refused; /* the tokens, or rows, of a thread would lie in different orders */
};
static const struct tile tiles[] = {
    {"wide_1", "matmul_prefill_wide", 128, 256, 16, 1, false},
    {"wide_2", "matmul_prefill_wide", 128, 256, 16, 2, false},
    {"wide_4", "matmul_prefill_wide", 128, 256, 16, 4, false},
    {"wide_short", "matmul_prefill_wide", 128, 128, 16, 2, false},
    {"wide_least", "matmul_prefill_wide", 64, 64, 32, 8, false},
    {"wide_few_tokens", "matmul_prefill_wide", 64, 32, 32, 8, true},
    {"wide_few_rows", "matmul_prefill_wide", 32, 64, 32, 8, true},
    {"experts_1", "moe_prefill_wide", 256, 128, 16, 1, false},
    {"experts_2", "moe_prefill_wide", 256, 128, 16, 2, false},
    {"experts_4", "moe_prefill_wide", 256, 128, 16, 4, false},
    {"experts_few_tokens", "moe_prefill_wide", 64, 32, 32, 8, true},
    {"experts_few_rows", "moe_prefill_wide", 32, 64, 32, 8, true},
};

static void parts_of_a_tile_have_room(void **state)
{
    static const struct kernel_var device[] = {
        {"SHARED_BYTES", 99 * 1024}, {"MAX_INVOCATIONS", 1024},
        {"MAX_LOCAL_X", 1024},       {"MAX_SSBO", 16},
        {"COMPUTE_UNITS", 132},
    };
    const struct tile *t = *state;
    const struct kernel_request request = {
        .op = strncmp(t->kernel, "moe", 3) == 0 ? "moe_matmul" : "matmul",
        .attrs = {{"phase", "prefill"}, {"weight", "q4_k"}, {"post", "store"}},
        .num_attrs = 3,
        .consts = {{"K", 4096},
                   {"N", 4096},
                   {"EXPERT_ROWS", 4096},
                   {"COLUMNS", 256},
                   {"E", 8},
                   {"TOP_K", 2},
                   {"W_STRIDE", 576},
                   {"X_STRIDE", 4096},
                   {"Y_STRIDE", 4096}},
        .num_consts = 9,
    };
    const struct {
        const char *name;
        int value;
    } tunes[] = {{"ROWS", t->rows},   {"TOKENS", t->tokens}, {"STEP", t->step},
                 {"PARTS", t->parts}, {"THREAD_ROWS", 16},   {"THREAD_TOKENS", 8}};
    const int64_t results = t->parts > 1 ? t->rows * t->tokens / 2 : 0;
    struct kernel_set *set = loaded_set(NULL), *hinted = NULL;
    struct kernel_choice choice;
    struct dgl_buf hints = {0};
    dgl_buf_printf(&hints, "{\"variants\": {\"%s\": \"%s\"}, \"tunes\": {", request.op, t->kernel);
    for (size_t i = 0; i < sizeof(tunes) / sizeof(tunes[0]); i++)
        dgl_buf_printf(&hints, "%s\"%s.%s\": %d", i ? ", " : "", t->kernel, tunes[i].name,
                       tunes[i].value);
    dgl_buf_puts(&hints, "}}");
    assert_int_equal(kernel_set_with_hints(NULL, set, KERNEL_LAYER_HINTS, "test", hints.p, &hinted),
                     DGL_OK);
    const enum dgl_status status =
        kernel_choose(NULL, hinted, &request, device, sizeof(device) / sizeof(device[0]), &choice);
    assert_int_equal(status, t->refused ? DGL_ERR_UNSUPPORTED : DGL_OK);
    if (!t->refused)
        assert_string_equal(choice.kernel->name, t->kernel);
    if (!t->refused && choice.shared_bytes < 4 * results)
        fail_msg("%s: %lld bytes of shared memory, %lld results", t->name,
                 (long long)choice.shared_bytes, (long long)results);
    kernel_set_destroy(&hinted);
    kernel_set_destroy(&set);
    dgl_buf_finish(&hints);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_local_size_is_a_tunable_or_a_let),
        cmocka_unit_test(every_summary_is_whole),
        cmocka_unit_test(every_kernel_is_named_like_its_file),
        cmocka_unit_test(every_variable_has_a_number_type),
        cmocka_unit_test(every_lib_fits_its_kernels),
        cmocka_unit_test(every_kernel_may_have_crlf),
    };
    return cmocka_run_group_tests_name("kernel_builtin", tests, NULL, NULL) +
           test_run_table("tile", parts_of_a_tile_have_room, tiles);
}
