/* The library's own kernels as texts: what every one of them keeps to, so that it can be a phase of
 * a longer program. */
#include "tests/support/test.h"

#include <stdio.h>

#include "kernels/format/kernel_format.h"
#include "tests/support/kernel_sets.h"

/* The value of the first directive `name`; empty when there is none. */
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

/* The kernel's file name is its NAME: an override folder made of copies has the same names. */
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

/* What an editor of another system makes of a copy is the same kernel. */
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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_local_size_is_a_tunable_or_a_let),
        cmocka_unit_test(every_kernel_is_named_like_its_file),
        cmocka_unit_test(every_kernel_may_have_crlf),
    };
    return cmocka_run_group_tests_name("kernel_builtin", tests, NULL, NULL);
}
