/* The first use of kernels. A driver that computes wrong results (simulated at link time) is
 * detected, other kernels replace the wrong one, and later devices use the stored result. Records
 * on disk are used only if they are complete and from this driver. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/memory/kernel_records.h"
#include "core/oracle/kernel_check.h"
#include "core/seq/session.h"
#include "gl/gl_internal.h"
#include "tests/support/record_edit.h"

#define MODEL "tests/models/story-llama-q4_k_m"
#define STEPS 6

/* ---- a driver that uses half of K --------------------------------------------------------------
 */

static struct {
    const char *kernel;  /* NULL: a right driver; "": every kernel */
    const char *define;  /* constant that it halves; NULL: K */
    bool bare;           /* it does not support program binaries, like softpipe */
    bool slow;           /* it does not compute wrongly, but its compiler exceeds the limit */
    const char *slow_at; /* only for programs with this line; NULL: all */
} liar;

void __real_gl_progcache_init(struct gl_progcache *cache, const struct gl_progcache_params *params);
void __wrap_gl_progcache_init(struct gl_progcache *cache, const struct gl_progcache_params *params);
void __wrap_gl_progcache_init(struct gl_progcache *cache, const struct gl_progcache_params *params)
{
    struct gl_progcache_params used = *params;
    if (liar.bare)
        used.num_formats = 0;
    __real_gl_progcache_init(cache, &used);
}

static bool is_lied_about(const char *label)
{
    return liar.kernel && (!liar.kernel[0] || strcmp(label, liar.kernel) == 0);
}

enum dgl_status __real_gl_programs_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          const struct gl_compile *how, struct gl_program **out);
enum dgl_status __wrap_gl_programs_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          const struct gl_compile *how, struct gl_program **out);
enum dgl_status __wrap_gl_programs_create(struct gl_device *dev,
                                          const struct gl_program_params *params, size_t count,
                                          const struct gl_compile *how, struct gl_program **out)
{
    const char *define = liar.define ? liar.define : "#define K ";
    for (size_t i = 0; i < count && liar.slow; i++) {
        if (!is_lied_about(params[i].label) || !params[i].end ||
            (liar.slow_at && !strstr(params[i].source, liar.slow_at)))
            continue;
        *params[i].end = GL_COMPILE_TIME;
        return params[i].refused(params[i].refused_priv, false, "the compiler exceeds 60 s");
    }
    struct gl_program_params *lies = checked(dgl_new_array(struct gl_program_params, count));
    char **texts = checked(dgl_new_array(char *, count));
    memcpy(lies, params, count * sizeof(*lies));
    for (size_t i = 0; i < count; i++) {
        const char *at = strstr(params[i].source, define);
        if (!at || liar.slow || !is_lied_about(params[i].label))
            continue;
        char *end;
        long k = strtol(at + strlen(define), &end, 10);
        texts[i] = checked(malloc(params[i].len + 32));
        lies[i].len = (size_t)sprintf(texts[i], "%.*s%s%ld%s", (int)(at - params[i].source),
                                      params[i].source, define, k / 2, end);
        lies[i].source = texts[i];
    }
    enum dgl_status status = __real_gl_programs_create(dev, lies, count, how, out);
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
    free(lies);
    return status;
}

/* ---- a process ------------------------------------------------------------------------------- */

static char *folder; /* the cache */

/* The result of a process with that cache: its answer, or the status of the failed call. */
struct outcome {
    enum dgl_status status;
    int32_t tokens[STEPS];
    uint64_t judged;  /* dispatches of known-answer tests */
    char kernel[64];  /* of the head, at the end */
    char reason[512]; /* why */
    struct test_log log;
};

static bool take_head(void *priv, const struct dgl_plan_step *step)
{
    struct outcome *o = priv;
    if (step->phase == DGL_PHASE_DECODE && strcmp(step->op, "head") == 0) {
        snprintf(o->kernel, sizeof(o->kernel), "%s", step->kernel->name);
        snprintf(o->reason, sizeof(o->reason), "%s", step->reason);
    }
    return true;
}

static void run(struct outcome *o, const char *cache, const char *hint)
{
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    struct dgl_kernels *kernels = NULL;
    struct dgl_generate_result r = {0};
    *o = (struct outcome){0};
    test_log_init(&o->log, DGL_LOG_NOTICE);
    assert_int_equal(
        dgl_kernels_create(NULL, dgl_kernels_params(.flags = &hint, .num_flags = hint != NULL),
                           &kernels),
        DGL_OK);
    assert_int_equal(dgl_device_create(
                         &o->log.log, dgl_device_params(.select = "any", .cache_dir = cache), &dev),
                     DGL_OK);
    o->status = dgl_model_load(dev, dgl_model_params(.path = MODEL, .kernels = kernels), &model);
    if (o->status == DGL_OK)
        o->status = dgl_session_create(model, dgl_session_params(.context = 64), &session);
    if (o->status == DGL_OK)
        o->status = dgl_generate(
            session,
            dgl_generate_params(.prompt = "The big dog", .max_tokens = STEPS, .ignore_eos = true),
            &r);
    if (o->status == DGL_OK)
        memcpy(o->tokens, r.tokens, sizeof(o->tokens));
    if (model)
        dgl_model_plan_iterate(model, take_head, o);
    o->judged = dev->account.hidden.dispatches;
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
    dgl_kernels_destroy(&kernels);
}

static struct outcome right; /* of a right driver, its cache empty */

static void set_up(void)
{
    folder = test_tmpdir();
    run(&right, folder, NULL);
    assert_int_equal(right.status, DGL_OK);
    assert_string_equal(right.log.text, "");
}

static size_t count_files(const char *dir_path, const char *suffix)
{
    size_t count = 0;
    DIR *dir = opendir(dir_path);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        count += strstr(e->d_name, suffix) != NULL;
    closedir(dir);
    return count;
}

/* Returns the only file of records. Fails if there is no such file. Transferred. */
static char *records_path(void)
{
    char *found = NULL;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!strstr(e->d_name, ".judged"))
            continue;
        assert_null(found);
        found = checked(dgl_path_join(folder, e->d_name));
    }
    closedir(dir);
    return checked(found);
}

static void check_same_answer(const struct outcome *o)
{
    assert_int_equal(o->status, DGL_OK);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(o->tokens[i], right.tokens[i]);
}

/* ---- a compiler that exceeds its limit ------------------------------------------------------- */

/* Another kernel replaces the head's, after one line of warning. Only the verdict on its text is
 * stored, in the program cache. */
static void test_slow_compiler(void **state)
{
    (void)state;
    struct outcome slow, later;
    char *other = test_tmpdir(), line[160];
    liar.kernel = right.kernel;
    liar.slow = true;
    run(&slow, other, NULL);
    check_same_answer(&slow);
    assert_string_not_equal(slow.kernel, right.kernel);
    snprintf(line, sizeof(line), "kernel %s (builtin) is not used here: the compiler exceeds 60 s",
             right.kernel);
    assert_int_equal(test_occurrences(slow.log.text, line), 1);
    assert_int_equal(test_occurrences(slow.log.text, "\n"), 1);
    liar.slow = false;
    liar.kernel = NULL;
    run(&later, other, NULL);
    check_same_answer(&later);
    assert_string_equal(later.kernel, right.kernel);
    test_tmpdir_remove(other);
}

/* An operation has no kernel left: the error names the operation and a remedy. */
static void test_slow_compiler_for_all(void **state)
{
    (void)state;
    struct outcome slow;
    char *other = test_tmpdir();
    liar.kernel = "";
    liar.slow = true;
    run(&slow, other, NULL);
    liar.slow = false;
    liar.kernel = NULL;
    assert_int_equal(slow.status, DGL_ERR_UNSUPPORTED);
    assert_contains(slow.log.text, " can run ");
    assert_contains(slow.log.text, "update the device's driver");
    test_tmpdir_remove(other);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void test_judged_once(void **state)
{
    (void)state;
    struct outcome again;
    assert_true(right.judged > 0);
    run(&again, folder, NULL);
    check_same_answer(&again);
    assert_int_equal(again.judged, 0);
    assert_string_equal(again.log.text, "");
    /* Without a cache no kernel is tested. */
    run(&again, "", NULL);
    check_same_answer(&again);
    assert_int_equal(again.judged, 0);
}

/* The head's own kernel computes wrongly from now on: a first use finds it, and another serves. */
static void run_with_wrong(struct outcome *o, const char *cache)
{
    liar.kernel = right.kernel;
    run(o, cache, NULL);
    check_same_answer(o);
    assert_string_not_equal(o->kernel, right.kernel);
    assert_contains(o->log.text, "a built-in kernel computes wrongly here and is not used: ");
    assert_contains(o->log.text, right.kernel);
}

static void test_another_kernel_serves(void **state)
{
    (void)state;
    struct outcome wrong, later;
    char *other = test_tmpdir();
    run_with_wrong(&wrong, other);
    assert_contains(wrong.reason, "it computes wrongly on this device (self test)");
    assert_contains(wrong.reason, right.kernel);
    /* The result stays stored, although the driver is correct now. */
    liar.kernel = NULL;
    run(&later, other, NULL);
    check_same_answer(&later);
    assert_string_equal(later.kernel, wrong.kernel);
    assert_int_equal(later.judged, 0);
    assert_contains(later.log.text, "computed wrongly here and is not used");
    /* A kernel that the user requested is refused, not replaced. */
    char hint[128];
    snprintf(hint, sizeof(hint), "variants.matmul/decode=%s", right.kernel);
    run(&later, other, hint);
    assert_int_equal(later.status, DGL_ERR_UNSUPPORTED);
    assert_int_equal(later.log.errors, 1);
    assert_contains(later.log.text, hint);
    assert_contains(later.log.text, "it computes wrongly on this device (self test)");
    /* Another driver has another cache. */
    run(&later, folder, NULL);
    assert_string_equal(later.kernel, right.kernel);
    test_tmpdir_remove(other);
}

struct told {
    char name[64], reason[512];
    bool wrong;
    int count;
    struct test_log log;
};

static bool take_verdict(void *priv, const struct dgl_kernel_verdict *v, bool wrong)
{
    struct told *t = priv;
    snprintf(t->name, sizeof(t->name), "%s", v->kernel->name);
    snprintf(t->reason, sizeof(t->reason), "%s", v->reason);
    t->wrong = wrong;
    t->count++;
    return true;
}

static enum dgl_status selftest(const char *cache, const char *name, struct told *told)
{
    struct dgl_device *dev = NULL;
    *told = (struct told){.count = 0};
    test_log_init(&told->log, DGL_LOG_NOTICE);
    assert_int_equal(dgl_device_create(&told->log.log,
                                       dgl_device_params(.select = "any", .cache_dir = cache),
                                       &dev),
                     DGL_OK);
    enum dgl_status status = dgl_selftest(
        dev, dgl_selftest_params(.name = name, .quick = true, .cb = take_verdict, .priv = told));
    dgl_device_destroy(&dev);
    return status;
}

/* The self test finds a wrong kernel before a model uses it, and removes outdated records. */
static void test_self_test(void **state)
{
    (void)state;
    struct outcome o;
    struct told told;
    liar.kernel = right.kernel;
    assert_int_equal(selftest(folder, right.kernel, &told), DGL_OK);
    liar.kernel = NULL;
    assert_int_equal(told.count, 1);
    assert_string_equal(told.name, right.kernel);
    assert_true(told.wrong);
    assert_contains(told.reason, right.kernel);
    assert_contains(told.log.text, "wrong kernels are not used here from now on");
    run(&o, folder, NULL);
    check_same_answer(&o);
    assert_string_not_equal(o.kernel, right.kernel);
    assert_int_equal(selftest(folder, right.kernel, &told), DGL_OK);
    assert_int_equal(told.count, 1);
    assert_false(told.wrong);
    run(&o, folder, NULL);
    check_same_answer(&o);
    assert_string_equal(o.kernel, right.kernel);
    assert_string_equal(o.log.text, "");
    /* Without a cache it reports the wrong kernel, and that the result cannot be stored. */
    liar.kernel = right.kernel;
    assert_int_equal(selftest("", right.kernel, &told), DGL_OK);
    liar.kernel = NULL;
    assert_true(told.wrong);
    assert_contains(told.log.text, "later processes use wrong kernels: no folder keeps what was");
    assert_int_equal(selftest(folder, "nix", &told), DGL_ERR_INVALID_ARG);
    assert_int_equal(told.count, 0);
}

static void test_no_kernel_is_left(void **state)
{
    (void)state;
    struct outcome wrong;
    char *other = test_tmpdir();
    liar.kernel = "";
    run(&wrong, other, NULL);
    assert_int_equal(wrong.status, DGL_ERR_UNSUPPORTED);
    assert_int_equal(wrong.log.errors, 1);
    assert_contains(wrong.log.text, "no kernel can run embed");
    assert_contains(wrong.log.text, right.kernel);
    assert_contains(wrong.log.text, "update the device's driver, or take another device");
    liar.kernel = NULL;
    test_tmpdir_remove(other);
}

/* Kernels tested together with a wrong one are judged by their own results. */
static void test_stage_that_is_wrong(void **state)
{
    (void)state;
    struct told told;
    char *other = test_tmpdir();
    liar.kernel = "sample_hist";
    liar.define = "#define LEVEL ";
    assert_int_equal(selftest(other, "sample_mass", &told), DGL_OK);
    assert_true(told.wrong);
    assert_contains(told.reason, "sample_mass: ");
    assert_contains(told.reason, "; computed together with sample_max, sample_hist, ");
    assert_contains(told.reason, ", all of them built in");
    assert_int_equal(selftest(other, "sample_hist", &told), DGL_OK);
    liar.kernel = liar.define = NULL;
    assert_int_equal(told.count, 1);
    assert_true(told.wrong);
    assert_int_equal(selftest(other, "sample_max", &told), DGL_OK);
    assert_int_equal(told.count, 1);
    assert_string_equal(told.name, "sample_max");
    assert_false(told.wrong);
    assert_int_equal(told.log.errors, 0);
    test_tmpdir_remove(other);
}

/* Results are stored also if programs cannot be: such a driver compiles in each process, but tests
 * only once. */
static void test_driver_without_binaries(void **state)
{
    (void)state;
    struct outcome first, again, wrong, later;
    struct told told;
    char *bare = test_tmpdir(), *other = test_tmpdir();
    liar.bare = true;
    run(&first, bare, NULL);
    check_same_answer(&first);
    assert_true(first.judged > 0);
    run(&again, bare, NULL);
    check_same_answer(&again);
    assert_int_equal(again.judged, 0);
    assert_int_equal(count_files(bare, ".prog"), 0);
    assert_int_equal(count_files(bare, ".judged"), 1);
    /* The first use detects a wrong kernel; so does the self test, for later runs. */
    run_with_wrong(&wrong, other);
    assert_int_equal(selftest(bare, right.kernel, &told), DGL_OK);
    assert_true(told.wrong);
    liar.kernel = NULL;
    run(&later, bare, NULL);
    check_same_answer(&later);
    assert_string_equal(later.kernel, wrong.kernel);
    assert_contains(later.log.text, right.kernel);
    assert_contains(later.log.text, "computed wrongly here and is not used");
    liar.bare = false;
    test_tmpdir_remove(bare);
    test_tmpdir_remove(other);
}

/* Changes to the records of a correct driver before they are read again. */
struct damage {
    const char *name;
    const char *find, *replace; /* test_record_edit() */
    bool flip, cut, rename;     /* a bit of it; its last byte; another driver's name */
    bool believed;              /* no kernel is tested again */
};

static const struct damage damages[] = {
    {.name = "as they were", .believed = true},
    {.name = "a bit", .flip = true},
    {.name = "the end", .cut = true},
    {.name = "another format", .find = "answers-2", .replace = "answers-9"},
    {.name = "another driver's", .rename = true},
    {.name = "a wrong kernel of another version of the library",
     .find = "\n",
     .replace = "\nembed wrong=1 texts=00000000000000000000000000000000000000000000000000000000000"
                "00000\n",
     .believed = true},
    {.name = "a record of the future",
     .find = "\n",
     .replace = "\nembed wrong=2 texts=x\n",
     .believed = true},
};

static void records_are_believed(void **state)
{
    const struct damage *row = *state;
    struct outcome o;
    struct dgl_buf text = {0};
    char *bytes = NULL;
    size_t len = 0;
    char *path = records_path();
    if (row->find)
        test_record_edit(folder, strrchr(path, '/') + 1, row->find, row->replace);
    assert_int_equal(dgl_file_slurp(NULL, path, 1 << 20, &bytes, &len), DGL_OK);
    dgl_buf_append(&text, bytes, len - row->cut);
    if (row->flip)
        text.p[40] ^= 1;
    test_write_file(folder, strrchr(path, '/') + 1, text.p, text.len);
    if (row->rename) {
        char *other = checked(strdup(path));
        char *name = strrchr(other, '/') + 1;
        name[0] = name[0] == '0' ? '1' : '0';
        assert_int_equal(rename(path, other), 0);
        run(&o, folder, NULL);
        assert_int_equal(unlink(other), 0);
        free(other);
    } else {
        run(&o, folder, NULL);
    }
    check_same_answer(&o);
    assert_string_equal(o.kernel, right.kernel);
    if (row->believed)
        assert_int_equal(o.judged, 0);
    else
        assert_true(o.judged > 0);
    /* Whole again. */
    run(&o, folder, NULL);
    assert_int_equal(o.judged, 0);
    dgl_buf_finish(&text);
    free(bytes);
    free(path);
}

static void end_request(void *priv, const struct dgl_request_result *result)
{
    assert_int_equal(result->status, DGL_OK);
    assert_memory_equal(result->tokens, right.tokens, sizeof(right.tokens));
    (*(int *)priv)++;
}

/* The compiler exceeds its limit at the logits of a pass over two sequences. The model gets another
 * plan, and every kernel that then runs has passed its test. */
static void test_batch_of_another_plan(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_device *dev = NULL;
    struct dgl_model *model = NULL;
    struct dgl_batch *b = NULL;
    char line[32], key[65];
    char *cache = test_tmpdir();
    int ended = 0;
    size_t left = 1, known = 0;
    test_log_init(&log, DGL_LOG_WARN);
    assert_int_equal(
        dgl_device_create(&log.log, dgl_device_params(.select = "any", .cache_dir = cache), &dev),
        DGL_OK);
    assert_int_equal(dgl_model_load(dev, dgl_model_params(.path = MODEL, .context = 64), &model),
                     DGL_OK);
    assert_int_equal(dgl_batch_create(model, dgl_batch_params(.sequences = 2), &b), DGL_OK);
    struct plan *plan = &model->shard->engine->plan;
    const struct body *body = plan_body(plan, plan_batch_shape(plan, 2));
    snprintf(line, sizeof(line), "#define N %d\n", (int)dgl_model_get_info(model)->vocab);
    liar.kernel = body->use[body->ops.count - 1]->choice.kernel->name;
    liar.slow_at = line;
    liar.slow = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            dgl_batch_submit(b,
                             dgl_request_params(.prompt = "The big dog", .max_tokens = STEPS,
                                                .ignore_eos = true, .finish_cb = end_request,
                                                .priv = &ended),
                             NULL),
            DGL_OK);
    while (left > 0)
        if (dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("%s", log.text);
    assert_int_equal(ended, 2);
    assert_contains(log.text, liar.kernel);
    plan = &model->shard->engine->plan;
    for (size_t n = 0; n < plan->num_bodies; n++)
        for (size_t i = 0; i < plan->bodies[n]->ops.count; i++) {
            const struct kernel_use *use = plan->bodies[n]->use[i];
            if (!programs_has(&model->shard->engine->programs, use) ||
                !kernel_judge_knows(use->request.op) || !kernel_records_key(dev, &use->choice, key))
                continue;
            known++;
            if (!kernel_records_is_right(dev, key))
                fail_msg("%s, for %s, runs without a test", use->choice.kernel->name,
                         plan->bodies[n]->ops.ops[i].label);
        }
    assert_true(known > 10);
    dgl_batch_destroy(&b);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
    memset(&liar, 0, sizeof(liar));
    test_tmpdir_remove(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_compiler),
        cmocka_unit_test(test_slow_compiler_for_all),
        cmocka_unit_test(test_judged_once),
        cmocka_unit_test(test_another_kernel_serves),
        cmocka_unit_test(test_self_test),
        cmocka_unit_test(test_no_kernel_is_left),
        cmocka_unit_test(test_stage_that_is_wrong),
        cmocka_unit_test(test_driver_without_binaries),
        cmocka_unit_test(test_batch_of_another_plan),
    };
    set_up();
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("records", records_are_believed, damages);
    test_tmpdir_remove(folder);
    return failures;
}
