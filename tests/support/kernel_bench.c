/* The bench: one device, the built-in kernels, programs kept by source, buffers between guard
 * words. */
#include "tests/support/kernel_bench.h"

#include <limits.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/memory/device.h"
#include "kernels/set/kernel_fit.h"
#include "tests/support/test.h"

#define GUARD_WORDS 64 /* 256 bytes: the largest alignment that a binding may need */
#define GUARD       0xFFC0FEEDu
#define POISON      0x7FC0BAD0u

struct kept_program {
    char *source;
    struct gl_program *program;
};

struct kernel_bench {
    struct test_log log;
    struct dgl_device *dev;
    struct kernel_set *set;
    char *folder; /* for glslangValidator; NULL: not installed */
    struct kept_program *programs;
    size_t num_programs, cap_programs;
    struct gl_buffer *stream; /* kernel_bench_stream() */
};

/* ---- the bench ------------------------------------------------------------------------------- */

static struct kernel_bench *create(bool limits_min, const char *kernel_dir, const char *cache_dir)
{
    struct kernel_bench *b = dgl_new(struct kernel_bench);
    if (!b)
        return NULL;
    test_log_init(&b->log, DGL_LOG_INFO);
    const struct dgl_device_params device = {
        .select = "any", .limits_min = limits_min, .cache_dir = cache_dir};
    const struct dgl_kernels_params kernels = {.dirs = &kernel_dir, .num_dirs = kernel_dir != NULL};
    if (dgl_device_create(&b->log.log, &device, &b->dev) != DGL_OK) {
        printf("# no bench: %s\n", b->log.text);
        kernel_bench_destroy(&b);
        return NULL;
    }
    /* A device whose kernels cannot be read is a failure, not a machine without a device. */
    if (kernel_set_create(&b->log.log, &kernels, &b->set) != DGL_OK) {
        fprintf(stderr, "no bench: %s\n", b->log.text);
        exit(EXIT_FAILURE);
    }
    if (system("glslangValidator --version > /dev/null 2>&1") == 0)
        b->folder = test_tmpdir();
    else
        printf("# skip: sources are not validated: no glslangValidator\n");
    return b;
}

struct kernel_bench *kernel_bench_create(bool limits_min)
{
    return create(limits_min, NULL, "");
}

struct kernel_bench *kernel_bench_create_measuring(const char *kernel_dir, const char *cache_dir)
{
    return create(false, kernel_dir, cache_dir);
}

void kernel_bench_destroy(struct kernel_bench **bench)
{
    struct kernel_bench *b = *bench;
    struct gl_saved saved;
    *bench = NULL;
    if (!b)
        return;
    bool entered = b->dev && device_enter(b->dev, &saved) == DGL_OK;
    for (size_t i = 0; i < b->num_programs; i++) {
        gl_program_destroy(b->dev->gl, &b->programs[i].program);
        free(b->programs[i].source);
    }
    free(b->programs);
    if (b->dev)
        gl_buffer_destroy(b->dev->gl, &b->stream);
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

bool kernel_bench_hint(struct kernel_bench *bench, const char *json)
{
    struct kernel_set *set = NULL;
    test_log_clear(&bench->log);
    if (kernel_set_with_hints(&bench->log.log, bench->set, KERNEL_LAYER_FLAG, "bench", json,
                              &set) != DGL_OK) {
        printf("# hints: %s\n", bench->log.text);
        return false;
    }
    kernel_set_destroy(&bench->set);
    bench->set = set;
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
    kernel_set_destroy(&bench->set);
    bench->set = set;
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
    c->params[c->num_params++] = (struct bench_param){.name = name, .u = value};
}

void bench_float(struct bench_case *c, const char *name, float value)
{
    assert_true(c->num_params < BENCH_MAX_PARAMS);
    c->params[c->num_params++] = (struct bench_param){.name = name, .is_float = true, .f = value};
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

/* ---- programs -------------------------------------------------------------------------------- */

static bool fit(struct kernel_bench *b, const char *name, const struct kernel_request *request,
                struct kernel_choice *choice, char why[BENCH_WHY])
{
    const struct kernel *kernel = kernel_set_find(b->set, name);
    const struct kernel_fit try = {.set = b->set,
                                   .request = request,
                                   .device = b->dev->plan.properties,
                                   .num_device = b->dev->plan.num_properties};
    int64_t rank;
    char reason[192] = "";
    if (kernel && kernel_fit_try(&try, kernel, choice, &rank, reason))
        return true;
    snprintf(why, BENCH_WHY, "%s: %s", name, kernel ? reason : "no such kernel");
    return false;
}

static char *generate(struct kernel_bench *b, const struct kernel_choice *choice,
                      char why[BENCH_WHY])
{
    struct dgl_buf text = {0};
    if (kernel_generate(&b->log.log, choice, &text) == DGL_OK && !text.failed)
        return dgl_buf_take(&text);
    dgl_buf_finish(&text);
    snprintf(why, BENCH_WHY, "%s: %.400s", choice->kernel->name, b->log.text);
    return NULL;
}

char *kernel_bench_source(struct kernel_bench *bench, const char *kernel,
                          const struct kernel_request *request, char why[BENCH_WHY])
{
    struct kernel_choice choice;
    test_log_clear(&bench->log);
    return fit(bench, kernel, request, &choice, why) ? generate(bench, &choice, why) : NULL;
}

/* Drivers accept more than the language allows: the reference front end does not. */
static bool validate(const struct kernel_bench *b, const char *label, const char *source,
                     char why[BENCH_WHY])
{
    char command[2 * PATH_MAX];
    bool ok = true;
    if (!b->folder || strstr(source, "GL_NV_gpu_shader5"))
        return true;
    test_write_file(b->folder, "kernel.comp", source, strlen(source));
    snprintf(command, sizeof(command), "cd '%s' && glslangValidator kernel.comp > messages 2>&1",
             b->folder);
    if (system(command) != 0) {
        char *messages = NULL, *path = dgl_path_join(b->folder, "messages");
        size_t len = 0;
        if (path)
            (void)dgl_file_slurp(NULL, path, 1 << 20, &messages, &len);
        snprintf(why, BENCH_WHY, "%s: glslangValidator: %.400s", label, messages ? messages : "");
        free(messages);
        free(path);
        ok = false;
    }
    return ok;
}

/* Takes `source`. Compiled programs are kept: cases often differ in their numbers only. */
static struct gl_program *build(struct kernel_bench *b, const char *label, char *source,
                                char why[BENCH_WHY])
{
    for (size_t i = 0; i < b->num_programs; i++) {
        if (strcmp(b->programs[i].source, source) == 0) {
            free(source);
            return b->programs[i].program;
        }
    }
    struct gl_program *program = NULL;
    const struct gl_program_params params = {
        .source = source, .len = strlen(source), .label = label, .origin = "builtin"};
    if (!validate(b, label, source, why)) {
        free(source);
        return NULL;
    }
    if (!dgl_grow((void **)&b->programs, &b->cap_programs, b->num_programs + 1,
                  sizeof(*b->programs)) ||
        gl_programs_create(b->dev->gl, &params, 1, NULL, &program) != DGL_OK) {
        snprintf(why, BENCH_WHY, "%s: %.400s", label, b->log.text);
        free(source);
        return NULL;
    }
    b->programs[b->num_programs++] = (struct kept_program){source, program};
    return program;
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* One bind on the device: GUARD_WORDS, the words, GUARD_WORDS. */
static bool upload(struct kernel_bench *b, const struct bench_bind *bind, struct gl_buffer **out)
{
    size_t total = bind->words + 2 * GUARD_WORDS;
    uint32_t *words = dgl_new_array(uint32_t, total);
    bool ok = words &&
              gl_buffer_create(
                  b->dev->gl, &(struct gl_buffer_params){.size = 4ull * total, .label = bind->name},
                  out) == DGL_OK;
    if (ok) {
        for (size_t i = 0; i < total; i++)
            words[i] = GUARD;
        for (size_t i = 0; i < bind->words; i++)
            words[GUARD_WORDS + i] = POISON;
        if (bind->in)
            memcpy(words + GUARD_WORDS, bind->in, 4 * bind->words);
        ok = gl_buffer_write(b->dev->gl, *out, 0, words, 4ull * total) == DGL_OK;
    }
    free(words);
    return ok;
}

static bool download(struct kernel_bench *b, const struct bench_bind *bind, struct gl_buffer *from,
                     char why[BENCH_WHY])
{
    size_t total = bind->words + 2 * GUARD_WORDS, bad = 0;
    uint32_t *words = dgl_new_array(uint32_t, total);
    bool ok = words && gl_buffer_read(b->dev->gl, from, 0, words, 4ull * total) == DGL_OK;
    if (!ok)
        snprintf(why, BENCH_WHY, "%s: %.400s", bind->name, b->log.text);
    while (ok && bad < GUARD_WORDS && words[bad] == GUARD &&
           words[GUARD_WORDS + bind->words + bad] == GUARD)
        bad++;
    if (ok && bad < GUARD_WORDS) {
        snprintf(why, BENCH_WHY, "%s: guard word %zu %s was overwritten: %08x, %08x", bind->name,
                 bad, words[bad] == GUARD ? "behind" : "before", words[bad],
                 words[GUARD_WORDS + bind->words + bad]);
        ok = false;
    }
    if (ok && bind->out)
        memcpy(bind->out, words + GUARD_WORDS, 4 * bind->words);
    free(words);
    return ok;
}

static bool uniform(struct kernel_bench *b, const void *bytes, size_t size, struct gl_range *out)
{
    bool ok =
        gl_buffer_create(b->dev->gl, &(struct gl_buffer_params){.size = size, .label = "uniforms"},
                         &out->buffer) == DGL_OK &&
        gl_buffer_write(b->dev->gl, out->buffer, 0, bytes, size) == DGL_OK;
    out->size = size;
    return ok;
}

/* ---- running --------------------------------------------------------------------------------- */

/* A case on its way through the device. */
struct run {
    struct kernel_bench *b;
    struct bench_case *c;
    struct kernel_choice choice;
    struct gl_dispatch dispatch;
    struct dgl_step_table steps;
    const struct bench_bind
        *bound[KERNEL_MAX_BINDS]; /* by SSBO binding; NULL = the case has none */
    char *why;
};

static const struct bench_bind *find_bind(const struct bench_case *c, const char *name)
{
    for (uint32_t i = 0; i < c->num_binds; i++)
        if (strcmp(c->binds[i].name, name) == 0)
            return &c->binds[i];
    return NULL;
}

static bool bind_storage(struct run *r)
{
    const struct kernel *kernel = r->choice.kernel;
    r->dispatch.num_storage = (uint8_t)kernel->num_binds;
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        struct gl_range *range = &r->dispatch.storage[i];
        r->bound[i] = find_bind(r->c, kernel->binds[i].name);
        if (!r->bound[i])
            continue;
        if (!upload(r->b, r->bound[i], &range->buffer)) {
            snprintf(r->why, BENCH_WHY, "%s: %.400s", r->bound[i]->name, r->b->log.text);
            return false;
        }
        range->offset = 4ull * GUARD_WORDS;
        range->size = 4ull * (r->bound[i]->words + GUARD_WORDS);
        if (kernel->binds[i].access & KERNEL_READ)
            r->dispatch.reads |= (uint8_t)(1u << i);
        if (kernel->binds[i].access & KERNEL_WRITE)
            r->dispatch.writes |= (uint8_t)(1u << i);
    }
    return true;
}

void bench_steps(const struct dgl_step *step, struct dgl_step_table *out)
{
    memset(out, 0xEE, sizeof(*out)); /* other sequences and rows mean nothing */
    out->rows = step->tokens;
    out->seqs = BENCH_SEQ + 1;
    out->seq[BENCH_SEQ] = *step;
    for (uint32_t i = 0; i < step->tokens || i == 0; i++)
        out->row[i] = DGL_STEP_ROW(BENCH_SEQ, i);
}

static bool bind_uniforms(struct run *r)
{
    const struct kernel *kernel = r->choice.kernel;
    bench_steps(&r->c->step, &r->steps);
    uint32_t words[(KERNEL_MAX_PARAMS + 3) / 4 * 4] = {0};
    for (uint32_t i = 0; i < kernel->num_params; i++) {
        const struct bench_param *given = NULL;
        for (uint32_t j = 0; j < r->c->num_params && !given; j++)
            if (strcmp(r->c->params[j].name, kernel->params[i].name) == 0)
                given = &r->c->params[j];
        if (!given) {
            snprintf(r->why, BENCH_WHY, "the case gives no PARAM %s", kernel->params[i].name);
            return false;
        }
        memcpy(&words[i], given->is_float ? (const void *)&given->f : &given->u, 4);
    }
    r->dispatch.num_uniform = GL_MAX_UNIFORM;
    return uniform(r->b, words, sizeof(words), &r->dispatch.uniform[0]) &&
           uniform(r->b, &r->steps, sizeof(r->steps), &r->dispatch.uniform[1]);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool submit_timed(struct run *r)
{
    struct bench_case *c = r->c;
    struct gl_device *gl = r->b->dev->gl;
    double *us = dgl_new_array(double, c->repeats);
    bool ok = us != NULL;
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t i = 0; ok && i < c->repeats; i++) {
        uint64_t start = dgl_now_ns();
        ok = gl_submit(gl, &r->dispatch, 1, NULL) == DGL_OK && gl_finish(gl) == DGL_OK;
        us[i] = (double)(dgl_now_ns() - start) * 1e-3;
    }
    for (uint32_t i = 0; ok && i < c->repeats && i < 10; i++) {
        uint64_t ns = UINT64_MAX;
        ok = gl_submit(gl, &r->dispatch, 1, &ns) == DGL_OK;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    if (ok) {
        qsort(us, c->repeats, sizeof(*us), by_value);
        c->median_us = us[c->repeats / 2];
        c->best_us = us[0];
        c->gpu_us = best_ns == UINT64_MAX ? 0.0 : (double)best_ns * 1e-3;
    }
    free(us);
    return ok;
}

#define MAX_COPIES 16

/* Copies of the bind that is streamed, about 512 MB together; one on software devices. */
static bool copy_input(struct run *r, uint32_t *bind, struct gl_buffer *copies[MAX_COPIES],
                       uint32_t *count)
{
    struct gl_device *gl = r->b->dev->gl;
    uint64_t size = 0, wanted;
    for (uint32_t i = 0; i < r->dispatch.num_storage; i++) {
        bool wanted_bind =
            r->bound[i] && (r->c->streamed ? strcmp(r->c->streamed, r->bound[i]->name) == 0
                                           : !(r->dispatch.writes >> i & 1));
        if (wanted_bind && gl_buffer_size(r->dispatch.storage[i].buffer) > size) {
            *bind = i;
            size = gl_buffer_size(r->dispatch.storage[i].buffer);
        }
    }
    wanted = size == 0 || gl_device_caps(gl)->software ? 0 : (512ull << 20) / size;
    for (*count = 0; *count < MAX_COPIES && *count < wanted; (*count)++) {
        const struct gl_buffer_params params = {.size = size, .label = "copy"};
        if (gl_buffer_create(gl, &params, &copies[*count]) != DGL_OK ||
            gl_buffer_copy(gl, r->dispatch.storage[*bind].buffer, 0, copies[*count], 0, size) !=
                DGL_OK)
            return false;
    }
    return true;
}

static bool submit_stream(struct run *r)
{
    struct gl_device *gl = r->b->dev->gl;
    struct gl_buffer *copies[MAX_COPIES] = {NULL};
    uint32_t bind = 0, num_copies = 0, count = r->c->repeats;
    struct gl_dispatch *list = dgl_new_array(struct gl_dispatch, count);
    bool ok = list && copy_input(r, &bind, copies, &num_copies);
    for (uint32_t i = 0; ok && i < count; i++) {
        list[i] = r->dispatch;
        if (num_copies > 0)
            list[i].storage[bind].buffer = copies[i % num_copies];
    }
    if (ok)
        gl_hazards_derive(list, count, true);
    for (int i = 0; ok && i < 4; i++) {
        uint64_t start = dgl_now_ns();
        ok = gl_submit(gl, list, count, NULL) == DGL_OK && gl_finish(gl) == DGL_OK;
        double us = (double)(dgl_now_ns() - start) * 1e-3 / count;
        if (i == 0 || us < r->c->stream_us)
            r->c->stream_us = us;
    }
    for (uint32_t i = 0; i < MAX_COPIES; i++)
        gl_buffer_destroy(gl, &copies[i]);
    free(list);
    return ok;
}

static bool submit(struct run *r)
{
    struct gl_device *gl = r->b->dev->gl;
    bool ok = gl_submit(gl, &r->dispatch, 1, NULL) == DGL_OK && gl_finish(gl) == DGL_OK;
    if (ok && r->c->repeats > 0)
        ok = submit_timed(r) && submit_stream(r);
    if (!ok)
        snprintf(r->why, BENCH_WHY, "%.400s", r->b->log.text);
    return ok;
}

static bool read_back(struct run *r)
{
    for (uint32_t i = 0; i < r->dispatch.num_storage; i++)
        if (r->bound[i] && !download(r->b, r->bound[i], r->dispatch.storage[i].buffer, r->why))
            return false;
    return true;
}

static bool prepare(struct run *r)
{
    char *source = generate(r->b, &r->choice, r->why);
    if (!source)
        return false;
    r->dispatch.program = build(r->b, r->choice.kernel->name, source, r->why);
    if (!r->dispatch.program)
        return false;
    if (!kernel_groups_band(&r->choice, r->c->step.tokens, r->c->band,
                            gl_device_caps(r->b->dev->gl)->limits.max_groups[0],
                            r->dispatch.groups)) {
        snprintf(r->why, BENCH_WHY, "GROUPS cannot be evaluated");
        return false;
    }
    return bind_storage(r) && bind_uniforms(r);
}

enum bench_result kernel_bench_run(struct kernel_bench *bench, const char *kernel,
                                   struct bench_case *c, char why[BENCH_WHY])
{
    struct run r = {.b = bench, .c = c, .why = why};
    struct gl_saved saved;
    test_log_clear(&bench->log);
    why[0] = '\0';
    if (!fit(bench, kernel, &c->request, &r.choice, why))
        return BENCH_CANNOT;
    if (device_enter(bench->dev, &saved) != DGL_OK) { /* other benches may have been current */
        snprintf(why, BENCH_WHY, "%.400s", bench->log.text);
        return BENCH_FAILED;
    }
    bool ok = prepare(&r);
    if (ok) {
        gl_hazards_derive(&r.dispatch, 1, true);
        ok = submit(&r) && read_back(&r);
    }
    for (uint32_t i = 0; i < GL_MAX_STORAGE; i++)
        gl_buffer_destroy(bench->dev->gl, &r.dispatch.storage[i].buffer);
    for (uint32_t i = 0; i < GL_MAX_UNIFORM; i++)
        gl_buffer_destroy(bench->dev->gl, &r.dispatch.uniform[i].buffer);
    device_leave(bench->dev, &saved);
    return ok ? BENCH_RAN : BENCH_FAILED;
}

/* ---- streams of dispatches ------------------------------------------------------------------- */

bool kernel_bench_compile(struct kernel_bench *b, char *const *sources, size_t count)
{
    struct gl_program_params *params = dgl_new_array(struct gl_program_params, count);
    struct gl_program **programs = dgl_new_array(struct gl_program *, count);
    struct gl_saved saved;
    test_log_clear(&b->log);
    bool entered = params && programs && device_enter(b->dev, &saved) == DGL_OK, ok = entered;
    for (size_t i = 0; ok && i < count; i++)
        params[i] = (struct gl_program_params){.source = sources[i],
                                               .len = strlen(sources[i]),
                                               .label = "measured",
                                               .origin = "builtin"};
    ok = ok &&
         dgl_grow((void **)&b->programs, &b->cap_programs, b->num_programs + count,
                  sizeof(*b->programs)) &&
         gl_programs_create(b->dev->gl, params, count, NULL, programs) == DGL_OK;
    for (size_t i = 0; ok && i < count; i++)
        b->programs[b->num_programs++] =
            (struct kept_program){checked(strdup(sources[i])), programs[i]};
    if (!ok)
        printf("# not compiled: %s\n", b->log.text);
    if (entered)
        device_leave(b->dev, &saved);
    free(params);
    free(programs);
    return ok;
}

#define STREAM_BYTES (384ull << 20)

static bool fill_stream(struct kernel_bench *b, const struct bench_stream *stream)
{
    struct gl_device *gl = b->dev->gl;
    const struct gl_buffer_params params = {.size = STREAM_BYTES, .label = "stream"};
    uint64_t done = 4ull * stream->num_words;
    if (b->stream)
        return true;
    bool ok = gl_buffer_create(gl, &params, &b->stream) == DGL_OK &&
              gl_buffer_write(gl, b->stream, 0, stream->words, done) == DGL_OK;
    while (ok && done < STREAM_BYTES) {
        uint64_t more = done < STREAM_BYTES - done ? done : STREAM_BYTES - done;
        ok = gl_buffer_copy(gl, b->stream, 0, b->stream, done, more) == DGL_OK;
        done += more;
    }
    return ok;
}

double kernel_bench_stream(struct kernel_bench *bench, const char *kernel, struct bench_case *c,
                           const struct bench_stream *stream, char why[BENCH_WHY])
{
    struct run r = {.b = bench, .c = c, .why = why};
    struct gl_saved saved;
    struct gl_dispatch *list = dgl_new_array(struct gl_dispatch, c->repeats);
    struct bench_bind *weights = NULL;
    uint32_t at = 0;
    double best = -1;
    test_log_clear(&bench->log);
    if (!fit(bench, kernel, &c->request, &r.choice, why)) {
        free(list);
        return -1;
    }
    for (uint32_t i = 0; i < r.choice.kernel->num_binds; i++)
        if (strcmp(r.choice.kernel->binds[i].name, stream->name) == 0)
            at = i;
    for (uint32_t i = 0; i < c->num_binds; i++)
        if (strcmp(c->binds[i].name, stream->name) == 0)
            weights = &c->binds[i];
    assert_non_null(weights);
    const uint64_t size = 4ull * weights->words, step = (size + 255) / 256 * 256;
    if (size > STREAM_BYTES) {
        snprintf(why, BENCH_WHY, "%s: more than %llu bytes", stream->name, STREAM_BYTES);
        free(list);
        return -1;
    }
    weights->words = stream->num_words < 4 ? stream->num_words : 4; /* a stand-in */
    bool entered = list && device_enter(bench->dev, &saved) == DGL_OK;
    bool ok = entered && fill_stream(bench, stream) && prepare(&r);
    for (uint32_t i = 0; ok && i < c->repeats; i++) {
        list[i] = r.dispatch;
        list[i].storage[at] = (struct gl_range){
            .buffer = bench->stream,
            .offset = stream->hot ? 0 : i % (STREAM_BYTES / step) * step,
            .size = size,
        };
    }
    if (ok)
        gl_hazards_derive(list, c->repeats, true);
    for (int i = 0; ok && i < 6; i++) {
        uint64_t start = dgl_now_ns();
        ok = gl_submit(bench->dev->gl, list, c->repeats, NULL) == DGL_OK &&
             gl_finish(bench->dev->gl) == DGL_OK;
        double us = (double)(dgl_now_ns() - start) * 1e-3 / c->repeats;
        best = best < 0 || us < best ? us : best;
    }
    if (!ok && bench->log.text[0])
        snprintf(why, BENCH_WHY, "%.400s", bench->log.text);
    for (uint32_t i = 0; i < GL_MAX_STORAGE; i++)
        gl_buffer_destroy(bench->dev->gl, &r.dispatch.storage[i].buffer);
    for (uint32_t i = 0; i < GL_MAX_UNIFORM; i++)
        gl_buffer_destroy(bench->dev->gl, &r.dispatch.uniform[i].buffer);
    if (entered)
        device_leave(bench->dev, &saved);
    free(list);
    return ok ? best : -1;
}
