/* Extension names are matched whole, and an extension counts only with all of its functions. */
#include "tests/support/test.h"

#include "gl/gl_internal.h"

struct word_case {
    const char *name;
    const char *list, *word;
    bool found;
};

static const struct word_case words[] = {
    {"the only word", "GL_EXT_a", "GL_EXT_a", true},
    {"the first word", "GL_EXT_a GL_EXT_b", "GL_EXT_a", true},
    {"the last word", "GL_EXT_b GL_EXT_a", "GL_EXT_a", true},
    {"a word in the middle", "x GL_EXT_a y", "GL_EXT_a", true},
    {"trailing and double blanks", "x  GL_EXT_a  ", "GL_EXT_a", true},
    {"a prefix of another word", "GL_EXT_buffer_storage2", "GL_EXT_buffer_storage", false},
    {"a suffix of another word", "xGL_EXT_buffer_storage", "GL_EXT_buffer_storage", false},
    {"a trap before the real word", "GL_EXT_ab GL_EXT_a", "GL_EXT_a", true},
    {"no list", NULL, "GL_EXT_a", false},
    {"an empty list", "", "GL_EXT_a", false},
    {"an empty word", "GL_EXT_a", "", false},
};

static void test_word(void **state)
{
    const struct word_case *row = *state;
    assert_int_equal(gl_ext_has(row->list, row->word), row->found);
}

static const char *missing; /* function that the driver does not return */

static void some_function(void) {}

static gl_proc get_proc(const char *name)
{
    return missing && strcmp(name, missing) == 0 ? NULL : some_function;
}

static void test_all_functions(void **state)
{
    (void)state;
    struct gl_ext ext;

    missing = NULL;
    gl_ext_load(&ext, "GL_KHR_debug GL_EXT_disjoint_timer_query", get_proc);
    assert_true(ext.debug);
    assert_true(ext.timer_query);
    assert_true(ext.QueryCounter == (PFNGLQUERYCOUNTEREXTPROC)some_function);
    assert_false(ext.buffer_storage);
    assert_true(ext.BufferStorage == NULL);
}

struct missing_case {
    const char *name;
    const char *list, *function;
    size_t flag;
};

#define FLAG(name) offsetof(struct gl_ext, name)

static const struct missing_case missing_cases[] = {
    {"buffer storage without its function", "GL_EXT_buffer_storage", "glBufferStorageEXT",
     FLAG(buffer_storage)},
    {"timers without glQueryCounterEXT", "GL_EXT_disjoint_timer_query", "glQueryCounterEXT",
     FLAG(timer_query)},
    {"timers without 64-bit results", "GL_EXT_disjoint_timer_query", "glGetQueryObjectui64vEXT",
     FLAG(timer_query)},
    {"debug without groups", "GL_KHR_debug", "glPopDebugGroupKHR", FLAG(debug)},
    {"robustness without its function", "GL_KHR_robustness", "glGetGraphicsResetStatusKHR",
     FLAG(robustness)},
};

static void test_missing_function(void **state)
{
    const struct missing_case *row = *state;
    static const struct gl_ext none;
    struct gl_ext ext;

    missing = row->function;
    gl_ext_load(&ext, row->list, get_proc);
    assert_false(*(const bool *)((const char *)&ext + row->flag));
    assert_memory_equal(&ext, &none, sizeof(ext)); /* its other functions are not set either */
    missing = NULL;
    gl_ext_load(&ext, row->list, get_proc);
    assert_true(*(const bool *)((const char *)&ext + row->flag));
}

static void test_either_robustness(void **state)
{
    (void)state;
    struct gl_ext ext;

    missing = "glGetGraphicsResetStatusKHR";
    gl_ext_load(&ext, "GL_KHR_robustness GL_EXT_robustness", get_proc);
    assert_true(ext.robustness);
    assert_true(ext.GetGraphicsResetStatus != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_functions),
        cmocka_unit_test(test_either_robustness),
    };
    int failures = test_run_table("words", test_word, words);
    failures += test_run_table("missing functions", test_missing_function, missing_cases);
    return failures + cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
