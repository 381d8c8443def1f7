/* Kernels of the user on a live model: accepted ones take effect, refused ones leave the model
 * unchanged, and the plan explains both. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/seq/session.h"

#define PROMPT 12
#define ANSWER 6

/* One engine and a folder for kernel files, for all cases of the group. */
static struct tiny_engine engine;
static char *dir;
static int32_t prompt[PROMPT];
static int32_t greedy[ANSWER];

static void check_answer(void)
{
    int32_t out[ANSWER];
    dgl_session_trim(engine.session, 0);
    tiny_greedy(engine.session, prompt, PROMPT, out, ANSWER);
    assert_memory_equal(out, greedy, sizeof(greedy));
}

/* The text of a built-in kernel with the first `find` replaced; free(). */
static char *edited(const char *kernel, const char *find, const char *replace)
{
    struct dgl_kernels *builtin = NULL;
    struct dgl_buf out = {0};
    size_t len = 0;
    assert_int_equal(dgl_kernels_create(NULL, NULL, &builtin), DGL_OK);
    const char *text = dgl_kernels_source(builtin, kernel, &len);
    assert_non_null(text);
    const char *at = strstr(text, find);
    if (!at)
        fail_msg("%s has no \"%s\"", kernel, find);
    dgl_buf_append(&out, text, (size_t)(at - text));
    dgl_buf_puts(&out, replace);
    dgl_buf_puts(&out, at + strlen(find));
    dgl_kernels_destroy(&builtin);
    return dgl_buf_take(&out);
}

/* Writes an edited kernel into the folder; the path of the file, free(). */
static char *write_edited(const char *kernel, const char *find, const char *replace)
{
    char *text = edited(kernel, find, replace);
    test_write_file(dir, "mine.comp", text, strlen(text));
    free(text);
    return dgl_path_join(dir, "mine.comp");
}

/* Puts one override file on the model. */
static enum dgl_status swap_as(const char *path, bool unchecked)
{
    struct dgl_kernels *kernels = NULL;
    test_log_clear(&engine.log);
    enum dgl_status status = dgl_kernels_create(
        &engine.log.log, dgl_kernels_params(.files = &path, .num_files = 1, .unchecked = unchecked),
        &kernels);
    if (status == DGL_OK)
        status = dgl_model_set_kernels(engine.model, kernels);
    dgl_kernels_destroy(&kernels);
    return status;
}

static enum dgl_status swap(const char *path)
{
    return swap_as(path, false);
}

static void swap_back(void)
{
    assert_int_equal(dgl_model_set_kernels(engine.model, NULL), DGL_OK);
}

/* ---- reports of the plan -------------------------------------------------------------------- */

struct seen {
    size_t steps, phases[3], overridden;
    const char *op; /* the step that is looked for */
    struct dgl_kernel_info kernel;
    char reason[256], shape[160], origin[512];
};

static bool look(void *priv, const struct dgl_plan_step *step)
{
    struct seen *s = priv;
    s->steps++;
    s->phases[step->phase]++;
    assert_non_null(step->kernel);
    assert_int_equal(strlen(step->kernel->sha256), 64);
    assert_true(step->reason[0] != '\0');
    s->overridden += strcmp(step->kernel->origin, "builtin") != 0;
    if (s->op && strcmp(step->op, s->op) == 0) {
        s->kernel = *step->kernel;
        snprintf(s->reason, sizeof(s->reason), "%s", step->reason);
        snprintf(s->shape, sizeof(s->shape), "%s", step->shape);
        snprintf(s->origin, sizeof(s->origin), "%s", step->kernel->origin);
        s->op = NULL;
    }
    return true;
}

static struct seen plan_of(const char *op)
{
    struct seen s = {.op = op};
    dgl_model_plan_iterate(engine.model, look, &s);
    assert_null(s.op);
    return s;
}

static void test_plan_of_built_in_kernels(void **state)
{
    (void)state;
    struct seen s = plan_of("qkv");
    assert_int_equal(s.overridden, 0);
    assert_true(s.phases[DGL_PHASE_PREFILL] == 1 + 2 * 8 + 2);
    assert_true(s.phases[DGL_PHASE_DECODE] >= 1 + 2 * 5 + 1);
    assert_int_equal(s.phases[DGL_PHASE_SAMPLE], 1 + 2 + 2 + 7 + 1);
}

static bool stop_at_three(void *priv, const struct dgl_plan_step *step)
{
    (void)step;
    return ++*(int *)priv < 3;
}

static void test_plan_iteration_ends_when_told(void **state)
{
    (void)state;
    int calls = 0;
    dgl_model_plan_iterate(engine.model, stop_at_three, &calls);
    assert_int_equal(calls, 3);
}

/* ---- overrides that work --------------------------------------------------------------------- */

static void test_remark_changes_nothing_but_the_origin(void **state)
{
    (void)state;
    char want[65], *path = write_edited("norm_rms", "// RMS norm", "// My RMS norm");
    size_t len = 0;
    char *text = tiny_file_read(dir, "mine.comp", &len);
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, text, len, want));
    free(text);
    struct seen before = plan_of("attn_norm");
    assert_int_equal(swap(path), DGL_OK);
    struct seen after = plan_of("attn_norm");
    assert_string_equal(before.origin, "builtin");
    assert_string_equal(after.origin, path);
    assert_string_equal(after.kernel.sha256, want);
    assert_string_not_equal(after.kernel.sha256, before.kernel.sha256);
    assert_int_equal(after.overridden, 2 * 2 + 1); /* two norms per layer and the last */
    check_answer();
    swap_back();
    assert_string_equal(plan_of("attn_norm").origin, "builtin");
    check_answer();
    free(path);
}

static void test_override_takes_effect_on_a_live_session(void **state)
{
    (void)state;
    int32_t ids[PROMPT + 1];
    float *before, *after;
    memcpy(ids, prompt, sizeof(prompt));
    ids[PROMPT] = 9;
    dgl_session_trim(engine.session, 0);
    tiny_sync(engine.session, prompt, PROMPT);
    before = tiny_logits(engine.session);
    char *path = write_edited("norm_rms", "* r * G[i]", "* r * G[i] * 0.5");
    assert_int_equal(swap_as(path, true), DGL_OK);
    /* The session keeps its tokens; the next pass runs the new kernel. */
    assert_int_equal(tiny_sync(engine.session, ids, PROMPT + 1), PROMPT);
    dgl_session_trim(engine.session, 0);
    tiny_sync(engine.session, prompt, PROMPT);
    after = tiny_logits(engine.session);
    assert_true(tiny_nmse(after, before, 320) > 1e-6);
    swap_back();
    free(before);
    free(after);
    check_answer();
    free(path);
}

static void test_swap_between_two_tokens(void **state)
{
    (void)state;
    int32_t ids[PROMPT + ANSWER], next;
    memcpy(ids, prompt, sizeof(prompt));
    memcpy(ids + PROMPT, greedy, sizeof(greedy));
    char *path = write_edited("sample_pick", "// The chosen", "// My choice");
    dgl_session_trim(engine.session, 0);
    for (size_t i = 0; i < ANSWER; i++) {
        if (i % 2)
            swap_back();
        else
            assert_int_equal(swap(path), DGL_OK);
        tiny_greedy(engine.session, ids, PROMPT + i, &next, 1);
        assert_int_equal(next, greedy[i]);
    }
    swap_back();
    free(path);
}

/* ---- known answers --------------------------------------------------------------------------- */

/* Valid, but wrong: refused with the failed test case; the model is unchanged. */
static void test_wrong_kernel_is_refused(void **state)
{
    (void)state;
    char *path = write_edited("norm_rms", "* r * G[i]", "* r * G[i] * 1.001");
    const uint32_t serial = engine.model->shard->engine_serial;
    assert_int_equal(swap(path), DGL_ERR_KERNEL);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, path);
    assert_contains(engine.log.text, "fails its known-answer test: norm_rms: norm post=store");
    assert_contains(engine.log.text, "wanted");
    assert_int_equal(engine.model->shard->engine_serial, serial);
    check_answer();
    free(path);
}

/* An edited lib is named, not the built-in kernel that splices it. */
static void test_wrong_lib_is_refused_by_its_file(void **state)
{
    (void)state;
    static const char right[] = "vec4(-b.x, b.y,";
    size_t len;
    char *text = tiny_file_read("kernels/lib/math", "rope.glsl", &len), *at = strstr(text, right);
    char *libs = test_tmpdir(), *path = dgl_path_join(libs, "rope.glsl"), want[512];
    const char *folder = libs;
    struct dgl_kernels *kernels = NULL;
    assert_non_null(at);
    memcpy(at, "vec4(b.x, b.y, ", sizeof(right) - 1);
    test_write_file(libs, "rope.glsl", text, len);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_kernels_create(&engine.log.log,
                                        dgl_kernels_params(.dirs = &folder, .num_dirs = 1),
                                        &kernels),
                     DGL_OK);
    assert_int_equal(dgl_model_set_kernels(engine.model, kernels), DGL_ERR_KERNEL);
    assert_int_equal(engine.log.errors, 1);
    snprintf(want, sizeof(want), "%s: it fails its known-answer test: ", path);
    assert_contains(engine.log.text, want);
    check_answer();
    dgl_kernels_destroy(&kernels);
    test_tmpdir_remove(libs);
    free(text);
    free(path);
}

/* Constants that no operation supplies: the message names the line that requests the constant. */
static const struct misfit_row {
    const char *name, *find, *replace, *error;
} misfits[] = {
    {"BIND that the operation lacks", "//! CONST H", "//! BIND read float Q\n//! CONST H",
     ": BIND Q: operation norm has no such buffer"},
    {"PARAM that the operation lacks", "//! CONST H", "//! PARAM float foo\n//! CONST H",
     ": PARAM foo: operation norm has no such parameter"},
    {"PARAM of another type", "//! PARAM float eps", "//! PARAM uint eps",
     ": PARAM eps is uint, operation norm gives a float"},
};

static void misfit_case(void **state)
{
    const struct misfit_row *row = *state;
    char *path = write_edited("norm_rms", row->find, row->replace), want[512];
    size_t len;
    char *text = tiny_file_read(dir, "mine.comp", &len);
    const char *at = strstr(text, row->replace);
    uint32_t line = 1;
    for (const char *p = text; p < at; p++)
        line += *p == '\n';
    snprintf(want, sizeof(want), "%s:%u%s\n", path, line, row->error);
    assert_int_equal(swap(path), DGL_ERR_KERNEL);
    assert_contains(engine.log.text, want);
    free(text);
    free(path);
}

/* Only programs with the edited text are linked. A known-answer test would link more programs. */
static void test_swap_links_no_more_than_it_must(void **state)
{
    (void)state;
    struct dgl_counters before, after;
    char *path = write_edited("sample_pick", "// The chosen", "// My choice");
    check_answer();
    dgl_device_get_counters(engine.device, &before);
    assert_int_equal(swap_as(path, true), DGL_OK);
    dgl_device_get_counters(engine.device, &after);
    assert_in_range(after.programs_linked - before.programs_linked, 1, 6);
    check_answer();
    dgl_device_get_counters(engine.device, &before);
    swap_back();
    dgl_device_get_counters(engine.device, &after);
    assert_in_range(after.programs_linked - before.programs_linked, 1, 6);
    free(path);
}

/* ---- from a callback of a call that generates ------------------------------------------------ */

#define LONG_ANSWER 24

struct swap_in_call {
    const char *name;
    int32_t interval;
    size_t at; /* the token whose callback swaps */
    bool wrong;
};

static const struct swap_in_call in_call[] = {
    {"at the first token", 1, 0, false},
    {"at a later one", 1, 5, false},
    {"at the last one", 1, LONG_ANSWER - 1, false},
    {"with batches queued", 4, 6, false},
    {"to a wrong one that is not checked", 1, 5, true},
    {"to a wrong one with batches queued", 4, 6, true},
};

struct swapping {
    const char *path;
    size_t seen, at;
    enum dgl_status status;
};

static bool swap_at_token(void *priv, int32_t id)
{
    struct swapping *s = priv;
    (void)id;
    if (s->seen++ == s->at)
        s->status = swap_as(s->path, true);
    return true;
}

/* An equal kernel changes no token, random ones included. A wrong kernel changes no token before it
 * was set. */
static void test_swap_during_a_call(void **state)
{
    const struct swap_in_call *row = *state;
    char *path = write_edited("sample_pick", "return best.y;",
                              row->wrong ? "return best.y ^ 1u;" : "return best.y + 0u;");
    struct swapping swapping = {.path = path, .at = row->at};
    struct dgl_generate_params params = {
        .ids = prompt,
        .num_ids = PROMPT,
        .max_tokens = LONG_ANSWER,
        .ignore_eos = true,
        .readback_interval = row->interval,
        .sampling = {.temperature = row->wrong ? 0 : 1, .seed = 5}};
    dgl_session_trim(engine.session, 0);
    struct dgl_generate_result plain = tiny_generate(engine.session, &params), swapped;
    params.token_cb = swap_at_token;
    params.priv = &swapping;
    dgl_session_trim(engine.session, 0);
    swapped = tiny_generate(engine.session, &params);
    assert_int_equal(swapping.status, DGL_OK);
    assert_int_equal(swapped.num_tokens, LONG_ANSWER);
    const size_t same = row->wrong ? row->at + 1 : LONG_ANSWER;
    for (size_t i = 0; i < same; i++)
        assert_int_equal(swapped.tokens[i], plain.tokens[i]);
    if (row->wrong)
        assert_memory_not_equal(swapped.tokens, plain.tokens, LONG_ANSWER * sizeof(int32_t));
    dgl_generate_result_finish(&plain);
    dgl_generate_result_finish(&swapped);
    swap_back();
    check_answer();
    free(path);
}

/* The profile's entries refer to names of the kernels. */
static void test_no_swap_in_a_call_that_profiles(void **state)
{
    (void)state;
    char *path = write_edited("norm_rms", "// RMS norm", "// My RMS norm");
    struct swapping swapping = {.path = path, .at = 1};
    dgl_session_trim(engine.session, 0);
    struct dgl_generate_result r = tiny_generate(
        engine.session,
        dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = 4, .ignore_eos = true,
                            .profile = true, .token_cb = swap_at_token, .priv = &swapping));
    assert_int_equal(swapping.status, DGL_ERR_INVALID_ARG);
    assert_contains(engine.log.text, "in a call that profiles");
    dgl_generate_result_finish(&r);
    free(path);
}

static void test_override_at_load(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    int32_t out[ANSWER];
    char *path = write_edited("norm_rms", "// RMS norm", "// My RMS norm");
    assert_int_equal(
        dgl_kernels_create(NULL,
                           dgl_kernels_params(.files = (const char *const *)&path, .num_files = 1),
                           &kernels),
        DGL_OK);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = engine.path, .kernels = kernels});
    dgl_kernels_destroy(&kernels); /* the model keeps the kernels that it needs */
    struct seen s = {.op = "attn_norm"};
    dgl_model_plan_iterate(e.model, look, &s);
    assert_string_equal(s.origin, path);
    tiny_greedy(e.session, prompt, PROMPT, out, ANSWER);
    assert_memory_equal(out, greedy, sizeof(greedy));
    tiny_engine_close(&e);
    free(path);
}

static void test_hint_is_named_as_the_reason(void **state)
{
    (void)state;
    struct dgl_kernels *kernels = NULL;
    const char *const hints = "{\"variants\": {\"attn_decode\": \"baseline\"}}";
    test_log_clear(&engine.log);
    assert_int_equal(
        dgl_kernels_create(&engine.log.log, dgl_kernels_params(.hints = hints), &kernels), DGL_OK);
    assert_int_equal(dgl_model_set_kernels(engine.model, kernels), DGL_OK);
    dgl_kernels_destroy(&kernels);
    struct seen s = plan_of("attn_decode");
    assert_string_equal(s.kernel.name, "attn_decode");
    assert_contains(s.reason, "variants.attn_decode");
    check_answer();
    swap_back();
}

/* Results that are no numbers: who may be to blame. */
static void test_kernels_are_named_when_logits_are_not_numbers(void **state)
{
    (void)state;
    struct dgl_generate_result r = {.size = sizeof(r)};
    char *path = write_edited("norm_rms", "inversesqrt(", "inversesqrt(-"), wanted[4300];
    assert_int_equal(swap_as(path, true), DGL_OK);
    snprintf(wanted, sizeof(wanted), "try without them: norm_rms (%s); the model's", path);
    test_log_clear(&engine.log);
    dgl_session_trim(engine.session, 0);
    assert_int_equal(
        dgl_generate(engine.session,
                     dgl_generate_params(.ids = prompt, .num_ids = PROMPT, .max_tokens = 2), &r),
        DGL_ERR_GPU);
    assert_contains(engine.log.text, "the logits are not numbers");
    assert_contains(engine.log.text, wanted);
    assert_int_equal(engine.log.errors, 1);
    dgl_generate_result_finish(&r);
    swap_back();
    check_answer();
    free(path);
}

/* ---- overrides that do not ------------------------------------------------------------------- */

struct broken {
    const char *name, *kernel, *find, *replace;
    const char *word; /* of the message */
};

static const struct broken brokens[] = {
    {"GLSL that does not compile", "norm_rms", "squares[p] = sum;", "squares[p] = nonsense;",
     "nonsense"},
    {"a missing semicolon", "norm_rms", "barrier();", "barrier()", "mine.comp"},
    {"a brace too many", "norm_rms", "squares[p] = sum;", "squares[p] = sum; }", "mine.comp"},
    {"a brace too few", "norm_rms", "squares[p] = sum;", "{ squares[p] = sum;", "mine.comp"},
    {"a macro that never ends", "norm_rms", "float sum = 0.0;",
     "\n#define ENDLESS(x) ENDLESS(x) + (x\nfloat sum = ENDLESS(0.0);", "mine.comp"},
    {"a function that is not there", "sample_pick", "uint id = choose(tid);",
     "uint id = pick(tid);", "mine.comp"},
    {"an unknown directive", "norm_rms", "//! GROUPS T", "//! GROUPS T\n//! GROPUS T", "GROPUS"},
    {"a buffer that the operation does not have", "norm_rms", "//! BIND read vec4 G",
     "//! BIND read vec4 G\n//! BIND read vec4 EXTRA", "EXTRA"},
    {"a parameter that the operation does not have", "norm_rms", "//! PARAM float eps",
     "//! PARAM float eps\n//! PARAM uint extra", "extra"},
    {"a parameter of another type", "norm_rms", "//! PARAM float eps", "//! PARAM uint eps", "eps"},
    {"a constant that the operation does not have", "norm_rms", "//! CONST H X_STRIDE",
     "//! CONST H BOGUS X_STRIDE", "BOGUS"},
    {"more shared memory than any device has", "norm_rms", "squares[64]", "squares[99999999]",
     "SHARED is 399999996"},
    {"a local size beyond the device", "norm_rms", "//! LOCAL WG_SIZE", "//! LOCAL 65536", "65536"},
    {"no groups at all", "norm_rms", "//! GROUPS T", "//! GROUPS 0", "GROUPS"},
    {"a layout that the weights cannot have", "matmul_decode", "//! PREFER 10",
     "//! PREFER 99\n//! LAYOUT split", "LAYOUT split: bf16 weights cannot be packed so"},
};

static void test_broken(void **state)
{
    const struct broken *row = *state;
    char *path = write_edited(row->kernel, row->find, row->replace);
    check_answer();
    uint32_t serial = engine.model->shard->engine_serial;
    enum dgl_status status = swap(path);
    if (status == DGL_OK)
        fail_msg("taken: %s", path);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, row->word);
    assert_int_equal(engine.model->shard->engine_serial, serial);
    assert_int_equal(plan_of("attn_norm").overridden, 0);
    /* The session's programs were kept too. */
    struct dgl_counters before, after;
    dgl_device_get_counters(engine.device, &before);
    check_answer();
    dgl_device_get_counters(engine.device, &after);
    assert_int_equal(after.programs_linked - before.programs_linked, 0);
    free(path);
}

static void test_missing_file(void **state)
{
    (void)state;
    char *path = dgl_path_join(dir, "nowhere.comp");
    assert_int_equal(swap(path), DGL_ERR_IO);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, "nowhere.comp");
    check_answer();
    free(path);
}

static void test_broken_override_at_load(void **state)
{
    (void)state;
    struct dgl_model *model = NULL;
    struct dgl_kernels *kernels = NULL;
    char *path = write_edited("norm_rms", "//! BIND read vec4 G",
                              "//! BIND read vec4 G\n//! BIND read vec4 EXTRA");
    assert_int_equal(
        dgl_kernels_create(NULL,
                           dgl_kernels_params(.files = (const char *const *)&path, .num_files = 1),
                           &kernels),
        DGL_OK);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_model_load(engine.device,
                                    dgl_model_params(.path = engine.path, .kernels = kernels),
                                    &model),
                     DGL_ERR_KERNEL);
    assert_null(model);
    assert_int_equal(engine.log.errors, 1);
    dgl_kernels_destroy(&kernels);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_of_built_in_kernels),
        cmocka_unit_test(test_plan_iteration_ends_when_told),
        cmocka_unit_test(test_remark_changes_nothing_but_the_origin),
        cmocka_unit_test(test_override_takes_effect_on_a_live_session),
        cmocka_unit_test(test_swap_between_two_tokens),
        cmocka_unit_test(test_wrong_kernel_is_refused),
        cmocka_unit_test(test_wrong_lib_is_refused_by_its_file),
        cmocka_unit_test(test_swap_links_no_more_than_it_must),
        cmocka_unit_test(test_no_swap_in_a_call_that_profiles),
        cmocka_unit_test(test_override_at_load),
        cmocka_unit_test(test_hint_is_named_as_the_reason),
        cmocka_unit_test(test_kernels_are_named_when_logits_are_not_numbers),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_broken_override_at_load),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    dir = test_tmpdir();
    tiny_ids(prompt, PROMPT, 320, 21);
    tiny_greedy(engine.session, prompt, PROMPT, greedy, ANSWER);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("broken", test_broken, brokens);
    failures += test_run_table("misfits", misfit_case, misfits);
    failures += test_run_table("swap during a call", test_swap_during_a_call, in_call);
    test_tmpdir_remove(dir);
    tiny_engine_close(&engine);
    return failures;
}
