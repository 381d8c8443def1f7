/* Fused or separate operations, depending on kernels, devices, hints and files. The built-in
 * kernels are replaced by kernels of this file. */
#include "tests/support/test.h"

#include "core/plan/fusion.h"
#include "kernels/kernels.h"
#include "kernels/set/embedded.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/made_device.h"
#include "tests/support/oplist_look.h"

#define KERNEL(name, op, variant, lines)                                                           \
    "// Summary\n//! NAME " name "\n//! OP " op "\n//! VARIANT " variant "\n//! LOCAL 32\n"        \
    "//! GROUPS 1\n" lines "void body(uvec3 group)\n{\n}\n"
#define BUILTIN(name, op, variant, lines)                                                          \
    {                                                                                              \
        name ".comp", KERNEL(name, op, variant, lines),                                            \
            sizeof(KERNEL(name, op, variant, lines)) - 1                                           \
    }

/* Takes the place of the library's own table. */
const struct kernel_embedded kernel_embedded[] = {
    BUILTIN("first", "first", "baseline", ""),
    BUILTIN("second", "second", "fast", "//! WHEN after none\n//! PREFER 10\n"),
    BUILTIN("second_slow", "second", "slow", "//! WHEN after none\n"),
    BUILTIN("both", "both", "baseline",
            "//! WHEN size small\n//! REQUIRE SUBGROUP_SIZE >= 8\n//! PREFER SOFTWARE ? -1 : 5\n"),
    BUILTIN("both_big", "both", "big", "//! WHEN size big\n//! PREFER -10\n"),
    BUILTIN("second_ready", "second", "fast",
            "//! WHEN after first third\n//! PREFER AFTER_first ? 10 : 7\n"),
    BUILTIN("token", "attn_token", "subgroup streaming", ""),
    BUILTIN("parts", "attn_decode", "baseline streaming", ""),
    BUILTIN("parts_tiled", "attn_decode", "tiled_large", ""),
    {NULL, NULL, 0},
};

static const char own_first[] = KERNEL("first", "first", "baseline", "");
static const char own_both[] = KERNEL("both", "both", "mine", "//! WHEN size small\n");

enum fused { BOTH_SMALL, BOTH_BIG, SECOND_AFTER_FIRST, SECOND_AFTER_THIRD, ATTENTION };

struct fusion_case {
    const char *name;
    enum made_device device;
    enum fused fused;
    const char *hint, *file; /* may be NULL */
    bool keeps;
    const char *why; /* part of the reason of the first separate operation */
    bool decided;    /* the user's request changed the result */
};

static const struct fusion_case cases[] = {
    {"runs", MADE_GPU, BOTH_SMALL, NULL, NULL, true, NULL, false},
    {"cannot run", MADE_MINIMUM, BOTH_SMALL, NULL, NULL, false, "SUBGROUP_SIZE >= 8", false},
    {"not preferred", MADE_GPU, BOTH_BIG, NULL, NULL, false, "both_big is preferred by -10", false},
    {"asked for", MADE_GPU, BOTH_BIG, "variants.both=both_big", NULL, true, NULL, true},
    {"asked for in vain", MADE_MINIMUM, BOTH_SMALL, "variants.both=both", NULL, true, NULL, true},
    {"another kernel asked for", MADE_GPU, BOTH_SMALL, "variants.second=slow", NULL, false,
     "second_slow is asked for", true},
    {"a kernel of each asked for", MADE_GPU, SECOND_AFTER_FIRST, "variants.second=fast", NULL, true,
     NULL, false},
    {"as good as the separate one", MADE_GPU, SECOND_AFTER_FIRST, NULL, NULL, true, NULL, false},
    {"worse than the separate one", MADE_GPU, SECOND_AFTER_THIRD, NULL, NULL, false,
     "second (10) is preferred to second_ready (7)", false},
    {"worse, but asked for", MADE_GPU, SECOND_AFTER_THIRD, "variants.second/third=second_ready",
     NULL, true, NULL, true},
    {"worse, and a hint that both meet", MADE_GPU, SECOND_AFTER_THIRD, "variants.second=fast", NULL,
     false, "second (10) is preferred to second_ready (7)", false},
    {"a hint that both meet", MADE_GPU, ATTENTION, "attentionDecode=streaming", NULL, true, NULL,
     false},
    {"a hint that the parts meet", MADE_GPU, ATTENTION, "attentionDecode=tiled_large", NULL, false,
     "parts_tiled is asked for", true},
    {"a file for a part", MADE_GPU, BOTH_SMALL, NULL, own_first, false, "first is asked for", true},
    {"a file for the whole", MADE_MINIMUM, BOTH_SMALL, NULL, own_both, true, NULL, false},
};

static void list_both(struct oplist *list, enum fused fused)
{
    static const char *const ops[] = {"both", "both", "second", "second", "attn_token"};
    struct op *op = oplist_append(list, DGL_PHASE_DECODE, 0, "fused", ops[fused]);
    if (fused == BOTH_SMALL || fused == BOTH_BIG)
        op_attr(op, "size", fused == BOTH_BIG ? "big" : "small");
    else
        op_attr(op, "after", fused == SECOND_AFTER_FIRST ? "first" : "third");
    oplist_append(list, DGL_PHASE_DECODE, 0, "apart1",
                  fused == ATTENTION ? "attn_decode" : "first");
    oplist_append(list, DGL_PHASE_DECODE, 0, "apart2", "second");
}

static void keeps_one(void **state)
{
    const struct fusion_case *row = *state;
    struct plan_device device;
    struct fusion fusion;
    struct oplist list = {0};
    char *dir = test_tmpdir(), path[256];
    const char *file = path;
    snprintf(path, sizeof(path), "%s/mine.comp", dir);
    if (row->file)
        test_write_file(dir, "mine.comp", row->file, strlen(row->file));
    struct kernel_set *set =
        loaded_set(dgl_kernels_params(.files = &file, .num_files = row->file != NULL,
                                      .flags = &row->hint, .num_flags = row->hint != NULL));
    made_device_init(&device, row->device, NULL);
    fusion_init(&fusion, &device, set);
    oplist_append(&list, DGL_PHASE_DECODE, 0, "before", "first");
    for (int layer = 0; layer < 2; layer++) {
        size_t fused = list.count;
        list_both(&list, row->fused);
        assert_int_equal(fusion_keep(&fusion, &list, fused, fused + 1), row->keeps);
    }
    look_at_labels(&list, row->keeps ? "before fused fused" : "before apart1 apart2 apart1 apart2");
    for (size_t i = 0; i < list.count; i++) {
        bool told = row->why && strcmp(list.ops[i].label, "apart1") == 0;
        if (told != (list.ops[i].unfused != NULL))
            fail_msg("%s is told %s", list.ops[i].label, list.ops[i].unfused);
        if (told)
            assert_contains(list.ops[i].unfused, row->why);
    }
    bool decided = false;
    for (size_t i = 0; i < list.count; i++)
        decided = decided || fusion_was_decided(&fusion, &list.ops[i].request);
    assert_int_equal(decided, row->decided);
    fusion_finish(&fusion);
    oplist_finish(&list);
    kernel_set_destroy(&set);
    test_tmpdir_remove(dir);
}

static void test_nothing_is_fused_without_a_decider(void **state)
{
    (void)state;
    struct oplist list = {0};
    list_both(&list, BOTH_SMALL);
    assert_false(fusion_keep(NULL, &list, 0, 1));
    look_at_labels(&list, "apart1 apart2");
    assert_null(list.ops[0].unfused);
    oplist_finish(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_fused_without_a_decider),
    };
    int failed = test_run_table("fusion_keep", keeps_one, cases);
    return failed + cmocka_run_group_tests_name("fusion", tests, NULL, NULL);
}
