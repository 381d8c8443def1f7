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

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_local_size_is_a_tunable_or_a_let),
        cmocka_unit_test(every_kernel_is_named_like_its_file),
    };
    return cmocka_run_group_tests_name("kernel_builtin", tests, NULL, NULL);
}
