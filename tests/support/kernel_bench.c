/* A device, a set of kernels, and the oracle that runs and checks them. */
#include "tests/support/kernel_bench.h"

#include <limits.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/memory/device.h"
#include "core/oracle/kernel_run.h"
#include "kernels/set/kernel_fit.h"
#include "tests/support/test.h"

struct kernel_bench {
    struct test_log log;
    struct dgl_device *dev;
    struct kernel_set *set;
    struct kernel_judge *judge;
    struct kernel_runner runner;
    char *folder; /* for glslangValidator; NULL: not installed */
};

/* ---- the bench ------------------------------------------------------------------------------- */

/* Drivers accept more than the language allows: the reference front end does not. */
static bool validate(void *priv, const char *kernel, const char *source, char why[KERNEL_RUN_WHY])
{
    const struct kernel_bench *b = priv;
    char command[2 * PATH_MAX];
    if (!b->folder || strstr(source, "GL_NV_gpu_shader5"))
        return true;
    test_write_file(b->folder, "kernel.comp", source, strlen(source));
    snprintf(command, sizeof(command), "cd '%s' && glslangValidator kernel.comp > messages 2>&1",
             b->folder);
    if (system(command) == 0)
        return true;
    char *messages = NULL, *path = dgl_path_join(b->folder, "messages");
    size_t len = 0;
    if (path)
        (void)dgl_file_slurp(NULL, path, 1 << 20, &messages, &len);
    snprintf(why, KERNEL_RUN_WHY, "%s: glslangValidator: %.400s", kernel, messages ? messages : "");
    free(messages);
    free(path);
    return false;
}

struct kernel_bench *kernel_bench_create(bool limits_min)
{
    struct kernel_bench *b = dgl_new(struct kernel_bench);
    if (!b)
        return NULL;
    test_log_init(&b->log, DGL_LOG_INFO);
    const struct dgl_device_params device = {
        .select = "any", .limits = limits_min ? "min" : NULL, .cache_dir = ""};
    if (dgl_device_create(&b->log.log, &device, &b->dev) != DGL_OK) {
        printf("# no bench: %s\n", b->log.text);
        kernel_bench_destroy(&b);
        return NULL;
    }
    /* A device whose kernels cannot be read is a failure, not a machine without a device. */
    if (kernel_set_create(&b->log.log, NULL, &b->set) == DGL_OK) {
        const struct kernel_judge_params judge = {
            .dev = b->dev, .set = b->set, .inspect = validate, .priv = b};
        if (kernel_judge_create(&judge, &b->judge) != DGL_OK)
            b->judge = NULL;
    }
    if (!b->judge) {
        fprintf(stderr, "no bench: %s\n", b->log.text);
        exit(EXIT_FAILURE);
    }
    b->runner = (struct kernel_runner){.dev = b->dev, .inspect = validate, .inspect_priv = b};
    if (system("glslangValidator --version > /dev/null 2>&1") == 0)
        b->folder = test_tmpdir();
    else
        printf("# skip: sources are not validated: no glslangValidator\n");
    return b;
}

void kernel_bench_destroy(struct kernel_bench **bench)
{
    struct kernel_bench *b = *bench;
    struct gl_saved saved;
    *bench = NULL;
    if (!b)
        return;
    bool entered = b->dev && device_enter(b->dev, &saved) == DGL_OK;
    if (b->judge)
        kernel_runner_finish(&b->runner);
    kernel_judge_destroy(&b->judge);
    if (b->folder)
        test_tmpdir_remove(b->folder);
    kernel_set_destroy(&b->set);
    if (entered)
        device_leave(b->dev, &saved);
    dgl_device_destroy(&b->dev);
    free(b);
}

const struct kernel_set *kernel_bench_set(const struct kernel_bench *bench)
{
    return bench->set;
}

const struct gl_caps *kernel_bench_caps(const struct kernel_bench *bench)
{
    return gl_device_caps(bench->dev->gl);
}

/* Consumes `set`. */
static void replace_set(struct kernel_bench *b, struct kernel_set *set)
{
    kernel_set_destroy(&b->set);
    b->set = set;
    kernel_judge_set(b->judge, set);
}

bool kernel_bench_hint(struct kernel_bench *bench, const char *json)
{
    struct kernel_set *set = NULL;
    test_log_clear(&bench->log);
    if (kernel_set_with_hints(&bench->log.log, bench->set, KERNEL_LAYER_FLAG, "bench", json,
                              &set) != DGL_OK) {
        printf("# hints: %s\n", bench->log.text);
        return false;
    }
    replace_set(bench, set);
    return true;
}

bool kernel_bench_file(struct kernel_bench *bench, const char *path)
{
    const struct dgl_kernels_params kernels = {.files = &path, .num_files = 1};
    struct kernel_set *set = NULL;
    test_log_clear(&bench->log);
    if (kernel_set_create(&bench->log.log, &kernels, &set) != DGL_OK) {
        printf("# kernel file: %s\n", bench->log.text);
        return false;
    }
    replace_set(bench, set);
    return true;
}

const char *kernel_bench_name(const struct kernel_bench *bench, const char *op, size_t i)
{
    for (size_t k = 0; k < kernel_set_count(bench->set); k++) {
        const struct kernel *kernel = kernel_set_at(bench->set, k);
        if (strcmp(kernel->op, op) == 0 && i-- == 0)
            return kernel->name;
    }
    return NULL;
}

const char *kernel_bench_preferred(struct kernel_bench *bench, const struct kernel_request *request)
{
    struct kernel_choice choice;
    test_log_clear(&bench->log);
    if (kernel_choose(&bench->log.log, bench->set, request, bench->dev->plan.properties,
                      bench->dev->plan.num_properties, &choice) != DGL_OK)
        return NULL;
    return choice.kernel->name;
}

/* ---- cases ----------------------------------------------------------------------------------- */

void bench_attr(struct bench_case *c, const char *key, const char *word)
{
    assert_true(c->request.num_attrs < KERNEL_MAX_ATTRS);
    c->request.attrs[c->request.num_attrs++] = (struct kernel_attr){key, word};
}

void bench_const(struct bench_case *c, const char *name, int64_t value)
{
    assert_true(c->request.num_consts < KERNEL_MAX_CONSTS);
    c->request.consts[c->request.num_consts++] = (struct kernel_var){name, value};
}

void bench_uint(struct bench_case *c, const char *name, uint32_t value)
{
    assert_true(c->num_params < BENCH_MAX_PARAMS);
    c->params[c->num_params++] = (struct problem_param){.name = name, .u = value};
}

void bench_float(struct bench_case *c, const char *name, float value)
{
    assert_true(c->num_params < BENCH_MAX_PARAMS);
    c->params[c->num_params++] = (struct problem_param){.name = name, .is_float = true, .f = value};
}

void bench_in(struct bench_case *c, const char *name, const void *in, size_t words)
{
    bench_inout(c, name, in, NULL, words);
}

void bench_out(struct bench_case *c, const char *name, void *out, size_t words)
{
    bench_inout(c, name, NULL, out, words);
}

void bench_inout(struct bench_case *c, const char *name, const void *in, void *out, size_t words)
{
    assert_true(c->num_binds < BENCH_MAX_BINDS);
    c->binds[c->num_binds++] =
        (struct bench_bind){.name = name, .words = words, .in = in, .out = out};
}

/* ---- running --------------------------------------------------------------------------------- */

/* False: `why` has the log's words. */
static bool enter(struct kernel_bench *b, struct gl_saved *saved, char why[BENCH_WHY])
{
    test_log_clear(&b->log);
    why[0] = '\0';
    if (device_enter(b->dev, saved) == DGL_OK) /* other benches may have been current */
        return true;
    snprintf(why, BENCH_WHY, "%.900s", b->log.text);
    return false;
}

enum bench_result kernel_bench_case(struct kernel_bench *bench, const char *kernel,
                                    const struct kernel_case *c, char why[BENCH_WHY])
{
    static const enum bench_result results[] = {[KERNEL_PASSED] = BENCH_RAN,
                                                [KERNEL_WRONG] = BENCH_FAILED,
                                                [KERNEL_SKIPPED] = BENCH_CANNOT};
    struct kernel_verdict verdict;
    struct gl_saved saved;
    if (!enter(bench, &saved, why))
        return BENCH_FAILED;
    enum dgl_status status = kernel_judge_case(bench->judge, kernel, c, &verdict);
    device_leave(bench->dev, &saved);
    snprintf(why, BENCH_WHY, "%.1000s", status == DGL_OK ? verdict.text : bench->log.text);
    return status == DGL_OK ? results[verdict.kind] : BENCH_FAILED;
}

enum bench_result kernel_bench_solve(struct kernel_bench *bench, const char *name,
                                     struct problem *p, char why[BENCH_WHY])
{
    const struct kernel *kernel = kernel_set_find(bench->set, name);
    const struct kernel_fit try = {.set = bench->set,
                                   .request = &p->stages[0].request,
                                   .device = bench->dev->plan.properties,
                                   .num_device = bench->dev->plan.num_properties};
    struct kernel_choice choice;
    struct kernel_stage stages[PROBLEM_MAX_STAGES] = {{NULL, NULL}};
    struct gl_program *program = NULL;
    struct gl_saved saved;
    int64_t rank;
    char reason[192] = "", error[KERNEL_RUN_WHY] = "";
    assert_true(p->num_stages > 0);
    if (!kernel || !kernel_fit_try(&try, kernel, &choice, &rank, reason)) {
        snprintf(why, BENCH_WHY, "%s: %s", name, kernel ? reason : "no such kernel");
        return BENCH_CANNOT;
    }
    if (!enter(bench, &saved, why))
        return BENCH_FAILED;
    enum dgl_status status = kernel_runner_program(&bench->runner, &choice, &program, error);
    for (uint32_t i = 0; i < p->num_stages; i++)
        stages[i] = (struct kernel_stage){&choice, program};
    if (status == DGL_OK)
        status = kernel_runner_solve(&bench->runner, p, stages, error);
    if (status != DGL_OK)
        snprintf(why, BENCH_WHY, "%s: %.900s", name, error[0] ? error : bench->log.text);
    device_leave(bench->dev, &saved);
    return status == DGL_OK ? BENCH_RAN : BENCH_FAILED;
}

enum bench_result kernel_bench_run(struct kernel_bench *bench, const char *kernel,
                                   struct bench_case *c, char why[BENCH_WHY])
{
    struct problem p = {.step = c->step, .repeats = c->repeats};
    struct problem_stage *stage = problem_stage(&p, &c->request);
    memcpy(stage->params, c->params, sizeof(c->params));
    stage->num_params = c->num_params;
    stage->band = c->band;
    for (uint32_t i = 0; i < c->num_binds; i++)
        p.buffers[i] = (struct problem_buffer){.name = c->binds[i].name,
                                               .words = c->binds[i].words,
                                               .before = c->binds[i].in,
                                               .after = c->binds[i].out};
    p.num_buffers = c->num_binds;
    enum bench_result result = kernel_bench_solve(bench, kernel, &p, why);
    problem_finish(&p);
    return result;
}
