/* The judge of kernels accepts the built-in kernels and detects wrong kernels of each operation (a
 * missing row, an error at the tail, a wrong scale). It reports why other kernels cannot run, and
 * can be stopped. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/oracle/crowd.h"
#include "core/oracle/kernel_check.h"
#include "core/oracle/problem.h"

static struct dgl_device *dev;
static struct test_log device_log;

/* A set of the built-in kernels and, with `text`, one file of that text. */
static struct kernel_set *make_set(const char *text)
{
    struct kernel_set *set = NULL;
    struct dgl_kernels_params params = {0};
    char *dir = NULL, *path = NULL;
    if (text) {
        dir = test_tmpdir();
        test_write_file(dir, "changed.comp", text, strlen(text));
        path = checked(dgl_path_join(dir, "changed.comp"));
        params.files = (const char *const *)&path;
        params.num_files = 1;
    }
    test_log_clear(&device_log);
    if (kernel_set_create(&device_log.log, &params, &set) != DGL_OK)
        fail_msg("%s", device_log.text);
    if (dir)
        test_tmpdir_remove(dir);
    free(path);
    return set;
}

static struct kernel_judge *make_judge(struct kernel_set *set, enum kernel_judge_mode mode)
{
    struct kernel_judge *judge = NULL;
    const struct kernel_judge_params params = {.dev = dev, .set = set, .mode = mode};
    assert_int_equal(kernel_judge_create(&params, &judge), DGL_OK);
    return judge;
}

/* Wraps the text of a built-in kernel: its work runs where `body` calls right(group). `body` may
 * write to the buffer `written` (if not NULL), which the kernel has as "BIND read TYPE NAME". */
static char *wrapped_text(const char *name, const char *body, const char *written)
{
    static const char head[] = "void body(uvec3 group)", read[] = "//! BIND read ";
    struct kernel_set *set = make_set(NULL);
    const struct kernel *kernel = checked((void *)(uintptr_t)kernel_set_find(set, name));
    const char *at = checked(strstr(kernel->text, head));
    const char *from = kernel->text;
    struct dgl_buf out = {0};
    if (written) {
        char line[64];
        snprintf(line, sizeof(line), "%s%s\n", read, written);
        const char *bind = checked(strstr(from, line));
        dgl_buf_append(&out, from, (size_t)(bind - from));
        dgl_buf_puts(&out, "//! BIND readwrite ");
        from = bind + strlen(read);
    }
    dgl_buf_append(&out, from, (size_t)(at - from));
    dgl_buf_puts(&out, "void right(uvec3 group)");
    dgl_buf_puts(&out, at + strlen(head));
    dgl_buf_printf(&out, "\nvoid body(uvec3 group)\n{\n%s\n}\n", body);
    kernel_set_destroy(&set);
    return checked(dgl_buf_take(&out));
}

/* The text of a built-in kernel with other words in all places of `find`. */
static char *replaced_text(const char *name, const char *find, const char *put)
{
    struct dgl_buf text = {0};
    struct kernel_set *set = make_set(NULL);
    const struct kernel *kernel = checked((void *)(uintptr_t)kernel_set_find(set, name));
    const char *from = kernel->text, *at = strstr(from, find);
    assert_non_null(at);
    for (; at; at = strstr(from, find)) {
        dgl_buf_append(&text, from, (size_t)(at - from));
        dgl_buf_puts(&text, put);
        from = at + strlen(find);
    }
    dgl_buf_puts(&text, from);
    kernel_set_destroy(&set);
    return checked(dgl_buf_take(&text));
}

static void judge_named(struct kernel_set *set, const char *name, enum kernel_judge_mode mode,
                        struct kernel_verdict *out)
{
    struct gl_saved saved;
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    struct kernel_judge *judge = make_judge(set, mode);
    test_log_clear(&device_log);
    enum dgl_status status = kernel_judge_kernel(judge, name, out);
    if (status != DGL_OK)
        fail_msg("%s: %s: %s", name, dgl_status_str(status), device_log.text);
    kernel_judge_destroy(&judge);
    device_leave(dev, &saved);
}

/* If `says` is NULL, the kernel must have passed. Otherwise `says` is a part of the reason. */
static void assert_verdict(const struct kernel_verdict *verdict, const char *says)
{
    if (verdict->kind != (says ? KERNEL_WRONG : KERNEL_PASSED))
        fail_msg("verdict %d after %u cases, worst %.3g: %s", (int)verdict->kind, verdict->cases,
                 verdict->worst, verdict->text);
    if (says)
        assert_contains(verdict->text, says);
}

static void built_in_kernels_pass(void **state)
{
    struct kernel_set *set = make_set(NULL);
    struct kernel_verdict verdict;
    (void)state;
    if (!dev)
        SKIP("no GLES device");
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        if (!kernel_judge_knows(kernel->op))
            continue;
        judge_named(set, kernel->name, KERNEL_JUDGE_QUICK, &verdict);
        printf("# %s: %u cases, worst %.3g %s\n", kernel->name, verdict.cases, verdict.worst,
               verdict.text);
        if (verdict.kind == KERNEL_WRONG)
            fail_msg("%s", verdict.text);
    }
    kernel_set_destroy(&set);
}

/* Groups wait for their own writes. */
#define THEN "right(group); memoryBarrierBuffer(); barrier();\n"
#define ONCE "if (gl_LocalInvocationIndex == 0u && group.x == 0u) "

struct wrong_row {
    const char *name, *kernel, *body;
    const char *says; /* a part of the verdict; NULL: the kernel is right */
};

static const struct wrong_row wrong_rows[] = {
    {"norm_right", "norm_rms", "right(group);", NULL},
    {"norm_group_short", "norm_rms", "if (group.x > 0u) right(group);", "norm_rms: norm "},
    {"norm_tail", "norm_rms", THEN ONCE "Y[H / 4 - 1].w *= 1.001;", "Y[0]["},
    {"norm_scale", "norm_rms", THEN ONCE "Y[0] *= 1.001;", "Y[0]["},
    {"norm_beyond", "norm_rms", THEN ONCE "Y[int(pass_rows) * Y_STRIDE / 4] = vec4(1);",
     "guard word"},
    {"norm_gap", "norm_rms", THEN "if (Y_STRIDE > H) Y[H / 4] = vec4(1);", "which is no result"},
    {"matmul_right", "matmul_decode", "right(group);", NULL},
    {"matmul_group_short", "matmul_decode", "if (group.x > 0u) right(group);",
     "matmul_decode: matmul "},
    {"matmul_scale", "matmul_decode", THEN ONCE "Y[row0] *= 1.001;", "wanted"},
    {"matmul_gains", "matmul_prefill", THEN ONCE "Y[row0] += 0.01 * X[0].x;", "wanted"},
    {"join_stream", "matmul_join", THEN ONCE "STREAM[0].x = 9.0;", "wanted"},
    {"rope", "rope_kv", THEN ONCE "QKV[0].x *= 1.001;", "of QKV is"},
    {"qk_norm", "qk_norm", THEN ONCE "QKV[0].x *= 1.001;", "wanted"},
    {"prefill", "attn_prefill", THEN ONCE "O[0].x = 9.0;", "O[0]["},
    {"decode", "attn_decode", THEN ONCE "P[0] = 9.0;", "wanted"},
    {"decode_group_short", "attn_decode", "if (group.x > 0u) right(group);", "attn_decode: "},
    {"merge", "attn_merge", THEN ONCE "O[0].x = 9.0;", "O[0]["},
    {"embed", "embed_rows", THEN ONCE "X[0].x = 9.0;", "X[0]["},
    {"copy", "copy_words", THEN ONCE "DST[0].x = 1u;", "of DST is"},
    {"read", "read_words", THEN ONCE "DST[0] = 1u;", "the sums in DST"},
    {"synth", "synth_rows", "if (group.x > 0u) right(group);", "synth_rows: "},
    {"experts_decode", "moe_decode", THEN ONCE "Y[0] += 0.1;", "wanted"},
    {"experts_prefill", "moe_prefill", THEN ONCE "Y[0] = 9.0;", "wanted"},
    {"route", "moe_route", THEN ONCE "ROUTE[0].x = 600u;", "choice 0 of token 0"},
    {"router", "moe_router", THEN ONCE "LOGITS[0] += 0.01;", "moe_router: "},
    {"group", "moe_group", THEN ONCE "LIST[0] = 7u;", "of LIST is"},
    {"combine", "moe_combine", THEN ONCE "X[0].x += 0.01;", "X[0]["},
    {"adjust", "sample_adjust", THEN ONCE "LOGITS[0] ^= 1u;", "of LOGITS is"},
    {"max", "sample_max", "if (group.x > 0u) right(group);", "sample_max: "},
    {"topk", "sample_topk", "if (group.x > 0u) right(group);", "sample_topk: "},
    {"hist", "sample_hist", "if (group.x > 0u) right(group);", "of ARRIVED is"},
    {"mass", "sample_mass", "if (group.x > 0u) right(group);", "sample_mass: "},
    {"find", "sample_find", "if (group.x > 0u) right(group);", "sample_find: "},
    {"pick", "sample_pick", THEN ONCE "IDS[step_pos + step_tokens] = 7u;", "of IDS is"},
    {"next", "sample_next", "if (group.x > 0u) right(group);", "sample_next: "},
    {"args", "sample_args", THEN ONCE "ARGS[0] = 7u;", "of ARGS is"},
};

static void wrong_kernels_are_caught(void **state)
{
    const struct wrong_row *row = *state;
    struct kernel_verdict verdict;
    if (!dev)
        SKIP("%s: no GLES device", row->name);
    char *text = wrapped_text(row->kernel, row->body, NULL);
    struct kernel_set *set = make_set(text);
    judge_named(set, row->kernel, KERNEL_JUDGE_FULL, &verdict);
    assert_verdict(&verdict, row->says);
    kernel_set_destroy(&set);
    free(text);
}

/* Kernels whose results are right, and that write to a buffer which their operation only reads. */
struct input_row {
    const char *name, *kernel, *body, *written;
    const char *says; /* a part of the verdict; NULL: the kernel is right */
};

static const struct input_row input_rows[] = {
    {"the same again", "norm_rms", THEN ONCE "X[1] = X[1];", "vec4 X", NULL},
    {"norm's rows", "norm_rms", THEN ONCE "X[1] = vec4(7.0);", "vec4 X",
     "of X, which is only read, is "},
    {"norm's gains", "norm_rms", THEN ONCE "G[H / 4 - 1] = vec4(7.0);", "vec4 G",
     "of G, which is only read, is "},
    {"a product's weights", "matmul_decode", THEN ONCE "W[0] ^= 1u;", "uint W",
     "of W, which is only read, is "},
    {"choices of experts", "moe_combine", THEN ONCE "ROUTE[0].x ^= 1u;", "uvec2 ROUTE",
     "of ROUTE, which is only read, is "},
};

static void inputs_must_stay(void **state)
{
    const struct input_row *row = *state;
    struct kernel_verdict verdict;
    if (!dev)
        SKIP("%s: no GLES device", row->name);
    char *text = wrapped_text(row->kernel, row->body, row->written);
    struct kernel_set *set = make_set(text);
    judge_named(set, row->kernel, KERNEL_JUDGE_QUICK, &verdict);
    assert_verdict(&verdict, row->says);
    kernel_set_destroy(&set);
    free(text);
}

/* Texts that are correct for rows of one sequence, but use data of another sequence if each row has
 * its own. */
struct careless_row {
    const char *name, *kernel, *find, *put; /* all places of a text */
};

static const struct careless_row careless_rows[] = {
    {"ids of the first", "embed_rows", "row_ids(t) + row_pos(t)", "row_ids(0u) + row_pos(t)"},
    {"positions one after the other", "embed_rows", "row_pos(t)", "row_pos(0u) + t"},
    {"keys of the first", "attn_decode", "kv_keys(share.seq", "kv_keys(row_seq(0u)"},
    {"values of the first", "attn_decode", "kv_values(share.seq", "kv_values(row_seq(0u)"},
    {"keys of the first, streaming", "attn_decode_streaming", "share.seq", "row_seq(0u)"},
    {"keys of the first, tiled", "attn_decode_tiled", "share.seq", "row_seq(0u)"},
    {"keys of the first, llvmpipe", "attn_decode_llvmpipe", "share.seq", "row_seq(0u)"},
    {"logits of the first", "sample_max", "logit_at(", "("},
    {"logits of the first, by rank", "sample_topk", "logit_at(", "("},
    {"biases of the first", "sample_adjust", "adjust_word(ADJUST_BIASES + 2u * i)",
     "ADJUST[ADJUST_BIASES + 2u * i]"},
    {"the state of the first", "sample_pick", "step_row = group.y", "step_row = 0u * group.y"},
    {"ids of the first in a report", "batch_report", "row_ids(row)", "row_ids(0u)"},
    {"positions of the first in a report", "batch_report", "row_pos(row)", "(row_pos(0u) + row)"},
};

static void careless_kernels_are_caught(void **state)
{
    const struct careless_row *row = *state;
    struct kernel_verdict verdict;
    char rows[32];
    if (!dev)
        SKIP("%s: no GLES device", row->name);
    char *text = replaced_text(row->kernel, row->find, row->put);
    struct kernel_set *set = make_set(text);
    judge_named(set, row->kernel, KERNEL_JUDGE_QUICK, &verdict);
    if (verdict.kind != KERNEL_WRONG)
        fail_msg("verdict %d after %u cases, worst %.3g: %s", (int)verdict.kind, verdict.cases,
                 verdict.worst, verdict.text);
    snprintf(rows, sizeof(rows), ", %d tokens", CROWD_ROWS);
    assert_contains(verdict.text, rows);
    assert_contains(verdict.text, ": row ");
    kernel_set_destroy(&set);
    free(text);
}

/* Texts with a BIND, PARAM, WHEN or LAYOUT that their operation does not have. */
struct supply_row {
    const char *name, *kernel, *find, *put;
    const char *says; /* a part of the verdict; NULL: the kernel is right */
    const char *at;   /* if not NULL, the directive at whose line the verdict says it */
};

static const struct supply_row supply_rows[] = {
    {"as it is", "norm_rms", "PARAM float eps", "PARAM float eps", NULL, NULL},
    {"a buffer more", "norm_rms", "//! PARAM float eps",
     "//! BIND read float Q\n//! PARAM float eps", "BIND Q: operation norm has no such buffer",
     "//! BIND read float Q\n"},
    {"another name", "moe_combine", "ROUTE", "WAYS",
     "BIND WAYS: operation moe_combine has no such buffer", "//! BIND read uvec2 WAYS"},
    {"another case's", "matmul_decode", "//! BIND read vec4 A",
     "//! BIND read vec4 A\n//! BIND read vec4 R", ": BIND R: operation matmul has no such buffer",
     NULL},
    {"a parameter more", "norm_rms", "PARAM float eps", "PARAM float eps\n//! PARAM uint rows",
     "PARAM rows: operation norm has no such parameter", "//! PARAM uint rows"},
    {"another type", "matmul_prefill", "//! PARAM float softcap",
     "//! PARAM float softcap\n//! PARAM uint eps",
     ": PARAM eps is uint, operation matmul gives a float", NULL},
    {"an attribute", "norm_rms", "WHEN post store add", "WHEN post store add\n//! WHEN posst store",
     "WHEN posst: operation norm has no such attribute", "//! WHEN posst"},
    {"a word", "norm_rms", "WHEN post store add", "WHEN post store add none addd",
     "WHEN post: post of operation norm is never 'addd'", "//! WHEN post store add none addd"},
    {"a layout", "norm_rms", "//! PARAM float eps", "//! PARAM float eps\n//! LAYOUT foo",
     "LAYOUT foo: no weights are packed so", "//! LAYOUT foo"},
    {"a layout that there is", "norm_rms", "//! PARAM float eps",
     "//! PARAM float eps\n//! LAYOUT split", NULL, NULL},
};

static void only_what_is_supplied_is_taken(void **state)
{
    const struct supply_row *row = *state;
    struct kernel_verdict verdict;
    if (!dev)
        SKIP("%s: no GLES device", row->name);
    char *text = replaced_text(row->kernel, row->find, row->put);
    char says[160];
    if (row->at) {
        int line = 1;
        for (const char *c = text, *at = checked(strstr(text, row->at)); c < at; c++)
            line += *c == '\n';
        snprintf(says, sizeof(says), "changed.comp:%d: %s", line, row->says);
    } else if (row->says) {
        snprintf(says, sizeof(says), "%s", row->says);
    }
    struct kernel_set *set = make_set(text);
    judge_named(set, row->kernel, KERNEL_JUDGE_QUICK, &verdict);
    assert_verdict(&verdict, row->says ? says : NULL);
    kernel_set_destroy(&set);
    free(text);
}

static bool refuse_third(void *priv)
{
    uint32_t *asked = priv;
    return ++*asked < 3;
}

static void judging_can_be_stopped(void **state)
{
    struct kernel_set *set = make_set(NULL);
    struct kernel_judge *judge = NULL;
    struct kernel_verdict verdict;
    struct gl_saved saved;
    uint32_t asked = 0;
    (void)state;
    if (!dev)
        SKIP("no GLES device");
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    assert_int_equal(kernel_judge_create(&(struct kernel_judge_params){.dev = dev,
                                                                       .set = set,
                                                                       .mode = KERNEL_JUDGE_FULL,
                                                                       .go_on = refuse_third,
                                                                       .priv = &asked},
                                         &judge),
                     DGL_OK);
    assert_int_equal(kernel_judge_kernel(judge, "norm_rms", &verdict), DGL_ERR_CANCELLED);
    assert_int_equal(asked, 3);
    kernel_judge_destroy(&judge);
    device_leave(dev, &saved);
    kernel_set_destroy(&set);
}

/* Most software renderers have no subgroups, so the libs for them are tested by a kernel that
 * computes the lanes one after the other. */
static void lanes_of_every_format_agree_with_doubles(void **state)
{
    char *text = NULL;
    size_t len;
    struct kernel_verdict verdict;
    (void)state;
    if (!dev)
        SKIP("no GLES device");
    assert_int_equal(
        dgl_file_slurp(NULL, "tests/data/kernels/lane_by_lane.comp", 1 << 16, &text, &len), DGL_OK);
    struct kernel_set *set = make_set(text);
    judge_named(set, "lane_by_lane", KERNEL_JUDGE_FULL, &verdict);
    assert_verdict(&verdict, NULL);
    kernel_set_destroy(&set);
    free(text);
}

/* A use of a plan with the sizes of a large model: few of its rows are computed, the last ones. */
static void large_uses_are_judged_by_few_rows(void **state)
{
    struct kernel_set *set = make_set(NULL);
    struct kernel_request request = {.op = "matmul"};
    struct kernel_verdict verdict;
    struct gl_saved saved;
    (void)state;
    if (!dev)
        SKIP("no GLES device");
    request_set(&request, "weight", "q8_0");
    request_set(&request, "layout", "split");
    request_set(&request, "phase", "decode");
    request_set(&request, "pre", "none");
    request_set(&request, "post", "store");
    request_set(&request, "bias", "none");
    request_set_const(&request, "K", 1024);
    request_set_const(&request, "N", 200000);
    request_set_const(&request, "W_STRIDE", 272);
    request_set_const(&request, "X_STRIDE", 1024);
    request_set_const(&request, "Y_STRIDE", 200000);
    request_set_const(&request, "BIAS_AT", 0);
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    struct kernel_judge *judge = make_judge(set, KERNEL_JUDGE_QUICK);
    const struct kernel_subject subject = {.request = &request};
    assert_int_equal(kernel_judge_use(judge, &subject, &verdict), DGL_OK);
    if (verdict.kind != KERNEL_PASSED)
        fail_msg("%s", verdict.text);
    assert_int_equal(verdict.cases, 1);
    kernel_judge_destroy(&judge);
    device_leave(dev, &saved);
    kernel_set_destroy(&set);
}

/* Also in quick mode, in which few cases have each type of weights. */
static void every_lib_that_is_given_is_tried(void **state)
{
    static const char *const types[] = {"f32", "q8_0", "q6_k", "mxfp4", "q5_0"};
    static const char *const dirs[] = {"mine"};
    (void)state;
    if (!dev)
        SKIP("no GLES device");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        char name[64], path[80];
        struct kernel_set *builtin = make_set(NULL), *set = NULL;
        struct kernel_verdict verdict;
        snprintf(name, sizeof(name), "weight_%s", types[i]);
        snprintf(path, sizeof(path), "mine/%s.glsl", name);
        const struct kernel_lib *lib = kernel_set_lib(builtin, name);
        char *text = checked(strdup(lib->text));
        char *at = checked(strstr(text, "weight_at"));
        at[0] = 'W'; /* a function that the kernel lacks now */
        const struct dgl_kernel_text given = {path, text, strlen(text)};
        assert_int_equal(kernel_set_create(&device_log.log,
                                           dgl_kernels_params(.dirs = dirs, .num_dirs = 1,
                                                              .texts = &given, .num_texts = 1),
                                           &set),
                         DGL_OK);
        judge_named(set, "embed_rows", KERNEL_JUDGE_QUICK, &verdict);
        if (verdict.kind != KERNEL_WRONG || !strstr(verdict.text, path))
            fail_msg("%s: %d, %u cases: %s", name, (int)verdict.kind, (unsigned)verdict.cases,
                     verdict.text);
        kernel_set_destroy(&set);
        kernel_set_destroy(&builtin);
        free(text);
    }
}

/* If terms cancel, the error of the sum is compared with the terms. */
static void errors_count_against_the_terms(void **state)
{
    const float got[] = {0.0400938317f};
    const double wanted[] = {0.040093925};
    (void)state;
    assert_at_most(problem_nmse(got, wanted, 1, 0.5), 1e-12);
    assert_at_most(1e-12, problem_nmse(got, wanted, 1, 0));
    assert_at_most(1e-12, problem_nmse(got, wanted, 1, 1e-3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(built_in_kernels_pass),
                                       cmocka_unit_test(judging_can_be_stopped),
                                       cmocka_unit_test(every_lib_that_is_given_is_tried),
                                       cmocka_unit_test(errors_count_against_the_terms),
                                       cmocka_unit_test(lanes_of_every_format_agree_with_doubles),
                                       cmocka_unit_test(large_uses_are_judged_by_few_rows)};
    test_log_init(&device_log, DGL_LOG_INFO);
    if (dgl_device_create(&device_log.log,
                          &(struct dgl_device_params){.select = "any", .cache_dir = ""},
                          &dev) != DGL_OK)
        dev = NULL;
    int failures = cmocka_run_group_tests_name("judge", tests, NULL, NULL);
    failures += test_run_table("wrong", wrong_kernels_are_caught, wrong_rows);
    failures += test_run_table("input", inputs_must_stay, input_rows);
    failures += test_run_table("supply", only_what_is_supplied_is_taken, supply_rows);
    failures += test_run_table("careless", careless_kernels_are_caught, careless_rows);
    dgl_device_destroy(&dev);
    return failures;
}
