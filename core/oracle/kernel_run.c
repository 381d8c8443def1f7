/* Programs kept by their text, buffers between guard words, and dispatches of single kernels. */
#include "core/oracle/kernel_run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/stats.h"

#define GUARD_WORDS 64 /* 256 bytes: the largest alignment that a binding may need */
#define GUARD       0xFFC0FEEDu

struct kept_program {
    char *source;
    struct gl_program *program;
};

void kernel_runner_forget(struct kernel_runner *r)
{
    for (size_t i = 0; i < r->num_programs; i++) {
        gl_program_destroy(r->dev->gl, &r->programs[i].program);
        free(r->programs[i].source);
    }
    r->num_programs = 0;
}

void kernel_runner_finish(struct kernel_runner *r)
{
    kernel_runner_forget(r);
    free(r->programs);
    *r = (struct kernel_runner){0};
}

/* ---- programs -------------------------------------------------------------------------------- */

/* A source during compilation. */
struct compiling {
    const struct dgl_log *log;
    const struct kernel_choice *choice;
    struct dgl_str text;
};

static enum dgl_status refused(void *priv, bool linking, const char *words)
{
    const struct compiling *c = priv;
    return kernel_fail_program(c->log, c->choice, c->text, linking, words);
}

static bool tell_compiling(void *priv, const char *phase, uint64_t done, uint64_t total)
{
    const struct kernel_runner *r = priv;
    (void)phase;
    (void)done;
    (void)total;
    return !r->go_on || r->go_on(r->go_on_priv);
}

enum dgl_status kernel_runner_program(struct kernel_runner *r, const struct kernel_choice *choice,
                                      struct gl_program **out, char why[KERNEL_RUN_WHY])
{
    struct dgl_buf text = {0};
    const struct kernel *kernel = choice->kernel;
    struct dgl_error error;
    const struct dgl_log log = dgl_log_with_error(r->dev->log, &error);
    struct compiling compiling = {&log, choice, {0}};
    enum dgl_status status;
    TRY(kernel_generate(&log, choice, &text));
    if (text.failed)
        TRY(dgl_fail_memory(r->dev->log, kernel->name, kernel->text_len));
    for (size_t i = 0; i < r->num_programs; i++)
        if (strcmp(r->programs[i].source, text.p) == 0) {
            *out = r->programs[i].program;
            goto done;
        }
    if (r->inspect && !r->inspect(r->inspect_priv, kernel->name, text.p, why))
        TRY(DGL_ERR_KERNEL);
    compiling.text = (struct dgl_str){text.p, text.len};
    const struct gl_program_params params = {.source = text.p,
                                             .len = text.len,
                                             .label = kernel->name,
                                             .origin = kernel->origin,
                                             .refused = refused,
                                             .refused_priv = &compiling};
    const struct gl_compile how = {.progress_cb = tell_compiling, .progress_priv = r};
    account_push(r->dev, ACCOUNT_COMPILE);
    status = gl_programs_create(r->dev->gl, &params, 1, &how, out);
    account_pop(r->dev);
    TRY(status);
    if (!dgl_grow((void **)&r->programs, &r->cap_programs, r->num_programs + 1,
                  sizeof(*r->programs))) {
        gl_program_destroy(r->dev->gl, out);
        TRY(dgl_fail_memory(r->dev->log, kernel->name, text.len));
    }
    r->programs[r->num_programs++] = (struct kept_program){text.p, *out};
    text = (struct dgl_buf){0};
done:
    if (error.text[0])
        snprintf(why, KERNEL_RUN_WHY, "%.*s", KERNEL_RUN_WHY - 1, error.text);
    dgl_buf_finish(&text);
    return status;
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* A buffer that a stage binds under one name: `words` between guard words. */
struct held {
    const struct problem_buffer *problem;
    struct gl_buffer *buffer;
};

/* One problem on its way through the device. */
struct run {
    struct kernel_runner *r;
    struct problem *p;
    const struct kernel_stage *stages;
    struct held held[PROBLEM_MAX_BUFFERS];
    struct held own[PROBLEM_MAX_STAGES];
    struct problem_buffer own_problem[PROBLEM_MAX_STAGES];
    struct gl_buffer *params[PROBLEM_MAX_STAGES], *steps, *pages;
    struct gl_dispatch dispatch[PROBLEM_MAX_STAGES];
    char *why;
};

enum { PATTERN_WORDS = 1 << 18 };

/* Random words, finite and not subnormal in every format of weights: 1 MiB of them, repeated. */
static enum dgl_status fill_bits(struct gl_device *gl, struct gl_buffer *buffer, size_t words,
                                 uint64_t seed)
{
    const uint64_t size = 4ull * words, start = 4ull * GUARD_WORDS;
    uint64_t set = size < 4ull * PATTERN_WORDS ? size : 4ull * PATTERN_WORDS;
    uint32_t *pattern = dgl_new_array(uint32_t, PATTERN_WORDS);
    enum dgl_status status;
    TRY(pattern ? DGL_OK : DGL_ERR_NO_MEMORY);
    for (size_t i = 0; i < PATTERN_WORDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        pattern[i] = (uint32_t)(seed >> 32) & 0x2BFF2BFFu;
    }
    TRY(gl_buffer_write(gl, buffer, start, pattern, set));
    for (uint64_t more; set < size; set += more) {
        more = set < size - set ? set : size - set;
        TRY(gl_buffer_copy(gl, buffer, start, buffer, start + set, more));
    }
done:
    free(pattern);
    return status;
}

/* Buffers are written and read in parts, so that a case needs no copy of its largest buffers. */
#define PART_WORDS ((size_t)1 << 18)

/* Words [at, at + count) of a buffer, guards included. Those in [lo, hi) are the problem's. */
struct part {
    size_t at, count, lo, hi;
};

/* Moves on to the next part; false at the end of the buffer. */
static bool next_part(const struct problem_buffer *b, struct part *part)
{
    const size_t total = b->words + 2 * GUARD_WORDS, end = GUARD_WORDS + b->words;
    part->at += part->count;
    part->count = total - part->at < PART_WORDS ? total - part->at : PART_WORDS;
    const size_t next = part->at + part->count;
    part->lo = part->at < GUARD_WORDS ? GUARD_WORDS : part->at;
    part->hi = next < end ? next : end;
    if (part->lo > part->hi)
        part->lo = part->hi = part->at;
    return part->count > 0;
}

static size_t part_words(const struct problem_buffer *b)
{
    const size_t total = b->words + 2 * GUARD_WORDS;
    return total < PART_WORDS ? total : PART_WORDS;
}

static enum dgl_status upload(struct run *run, struct held *h)
{
    struct gl_device *gl = run->r->dev->gl;
    const struct problem_buffer *b = h->problem;
    const uint64_t size = 4ull * (b->words + 2 * GUARD_WORDS);
    const struct gl_buffer_params params = {.size = size, .label = b->name};
    uint32_t *words = dgl_new_array(uint32_t, part_words(b));
    struct part part = {0};
    enum dgl_status status;
    TRY(words ? gl_buffer_create(gl, &params, &h->buffer)
              : dgl_fail_memory(run->r->dev->log, b->name, size));
    if (b->bits)
        TRY(fill_bits(gl, h->buffer, b->words, run->p->seed));
    while (!b->bits && next_part(b, &part)) {
        for (size_t i = 0; i < part.count; i++)
            words[i] = part.at + i < part.lo || part.at + i >= part.hi ? GUARD : PROBLEM_POISON;
        if (b->before && part.hi > part.lo)
            memcpy(words + (part.lo - part.at), b->before + (part.lo - GUARD_WORDS),
                   4 * (part.hi - part.lo));
        TRY(gl_buffer_write(gl, h->buffer, 4ull * part.at, words, 4ull * part.count));
    }
done:
    free(words);
    return status;
}

/* Copies a part of the buffer after a run. Returns false and sets run->why if a guard word, or a
 * word of a read-only buffer, has changed. */
static bool take_part(struct run *run, const struct problem_buffer *b, const struct part *part,
                      const uint32_t *words)
{
    size_t bad = part->at;
    while (bad < part->at + part->count &&
           ((bad >= part->lo && bad < part->hi) || words[bad - part->at] == GUARD))
        bad = bad == part->lo && part->lo < part->hi ? part->hi : bad + 1;
    if (bad < part->at + part->count) {
        const bool behind = bad >= GUARD_WORDS + b->words;
        snprintf(run->why, KERNEL_RUN_WHY, "%s: guard word %zu %s was overwritten: %08x", b->name,
                 behind ? bad - GUARD_WORDS - b->words : bad, behind ? "behind" : "before",
                 (unsigned)words[bad - part->at]);
        return false;
    }
    const size_t first = part->lo - GUARD_WORDS, count = part->hi - part->lo; /* the problem's */
    const uint32_t *now = words + (part->lo - part->at);
    if (count == 0)
        return true;
    if (b->after)
        memcpy(b->after + first, now, 4 * count);
    if (b->after || (b->before && memcmp(now, b->before + first, 4 * count) == 0))
        return true;
    for (size_t i = 0; i < count; i++) {
        const uint32_t before = b->before ? b->before[first + i] : PROBLEM_POISON;
        if (now[i] == before)
            continue;
        snprintf(run->why, KERNEL_RUN_WHY,
                 "word %zu of %zu of %s, which is only read, is %08x and was %08x", first + i,
                 b->words, b->name, (unsigned)now[i], (unsigned)before);
        return false;
    }
    return true;
}

static enum dgl_status download(struct run *run, const struct held *h)
{
    const struct problem_buffer *b = h->problem;
    struct part part = {0};
    if (!h->buffer || b->bits)
        return DGL_OK;
    uint32_t *words = dgl_new_array(uint32_t, part_words(b));
    enum dgl_status status;
    TRY(words ? DGL_OK : dgl_fail_memory(run->r->dev->log, b->name, 4ull * part_words(b)));
    while (next_part(b, &part)) {
        TRY(gl_buffer_read(run->r->dev->gl, h->buffer, 4ull * part.at, words, 4ull * part.count));
        if (!take_part(run, b, &part, words))
            TRY(DGL_ERR_KERNEL);
    }
done:
    free(words);
    return status;
}

static void release(struct run *run)
{
    struct gl_device *gl = run->r->dev->gl;
    for (uint32_t i = 0; i < PROBLEM_MAX_BUFFERS; i++)
        gl_buffer_destroy(gl, &run->held[i].buffer);
    for (uint32_t i = 0; i < PROBLEM_MAX_STAGES; i++) {
        gl_buffer_destroy(gl, &run->own[i].buffer);
        gl_buffer_destroy(gl, &run->params[i]);
    }
    gl_buffer_destroy(gl, &run->steps);
    gl_buffer_destroy(gl, &run->pages);
}

/* ---- dispatches ------------------------------------------------------------------------------ */

static struct held *find_held(struct run *run, uint32_t stage, const char *name)
{
    const struct problem_stage *s = &run->p->stages[stage];
    if (s->own_name && strcmp(s->own_name, name) == 0) {
        run->own_problem[stage] =
            (struct problem_buffer){.name = name, .words = s->own_words, .before = s->own};
        run->own[stage].problem = &run->own_problem[stage];
        return &run->own[stage];
    }
    for (uint32_t i = 0; i < run->p->num_buffers; i++)
        if (strcmp(run->p->buffers[i].name, name) == 0) {
            run->held[i].problem = &run->p->buffers[i];
            return &run->held[i];
        }
    return NULL;
}

struct supplied {
    const struct problem *p;
    const struct problem_stage *stage;
};

static bool has_buffer(const void *priv, const char *name)
{
    const struct supplied *s = priv;
    bool has = s->stage->own_name && strcmp(s->stage->own_name, name) == 0;
    for (uint32_t i = 0; i < s->p->num_buffers; i++)
        has |= strcmp(s->p->buffers[i].name, name) == 0;
    for (uint32_t i = 0; i < s->p->num_idle; i++)
        has |= strcmp(s->p->idle[i], name) == 0;
    return has;
}

static const struct problem_param *find_param(const struct problem_stage *stage, const char *name)
{
    for (uint32_t i = 0; i < stage->num_params; i++)
        if (strcmp(stage->params[i].name, name) == 0)
            return &stage->params[i];
    return NULL;
}

static bool has_param(const void *priv, const char *name, bool *is_float)
{
    const struct supplied *s = priv;
    const struct problem_param *param = find_param(s->stage, name);
    *is_float = param && param->is_float;
    return param != NULL;
}

static enum dgl_status bind_storage(struct run *run, uint32_t stage)
{
    const struct kernel *kernel = run->stages[stage].choice->kernel;
    struct gl_dispatch *d = &run->dispatch[stage];
    enum dgl_status status = DGL_OK;
    d->num_storage = (uint8_t)kernel->num_binds;
    for (uint32_t i = 0; i < kernel->num_binds; i++) {
        struct held *h = find_held(run, stage, kernel->binds[i].name);
        if (!h) /* the buffer is not used in this case */
            continue;
        if (!h->buffer)
            TRY(upload(run, h));
        d->storage[i] = (struct gl_range){.buffer = h->buffer,
                                          .offset = 4ull * GUARD_WORDS,
                                          .size = 4ull * (h->problem->words + GUARD_WORDS)};
        if (kernel->binds[i].access & KERNEL_READ)
            d->reads |= (uint16_t)(1u << i);
        if (kernel->binds[i].access & KERNEL_WRITE)
            d->writes |= (uint16_t)(1u << i);
    }
done:
    return status;
}

static enum dgl_status uniform(struct run *run, const void *bytes, size_t size,
                               struct gl_buffer **out)
{
    struct gl_device *gl = run->r->dev->gl;
    const struct gl_buffer_params params = {.size = size, .label = "uniforms"};
    enum dgl_status status = gl_buffer_create(gl, &params, out);
    return status == DGL_OK ? gl_buffer_write(gl, *out, 0, bytes, size) : status;
}

static enum dgl_status bind_uniforms(struct run *run, uint32_t stage)
{
    const struct problem_stage *s = &run->p->stages[stage];
    const struct kernel *kernel = run->stages[stage].choice->kernel;
    struct gl_dispatch *d = &run->dispatch[stage];
    uint32_t words[(KERNEL_MAX_PARAMS + 3) / 4 * 4] = {0};
    for (uint32_t i = 0; i < kernel->num_params; i++) {
        const struct problem_param *given = find_param(s, kernel->params[i].name);
        assert(given);
        memcpy(&words[i], given->is_float ? (const void *)&given->f : &given->u, 4);
    }
    enum dgl_status status = uniform(run, words, sizeof(words), &run->params[stage]);
    if (status == DGL_OK && !run->steps) {
        struct dgl_step_table *steps = dgl_new(struct dgl_step_table);
        if (!steps)
            return dgl_fail_memory(run->r->dev->log, "step table", sizeof(*steps));
        if (run->p->steps)
            *steps = *run->p->steps;
        else
            problem_steps(&run->p->step, steps);
        status = uniform(run, steps, sizeof(*steps), &run->steps);
        free(steps);
    }
    if (status == DGL_OK && kernel->uses_pages && !run->pages) {
        struct dgl_kv_table *pages = dgl_new(struct dgl_kv_table);
        if (!pages)
            return dgl_fail_memory(run->r->dev->log, "page table", sizeof(*pages));
        if (run->p->table)
            *pages = *run->p->table;
        else
            problem_pages(run->p, pages);
        status = uniform(run, pages, sizeof(*pages), &run->pages);
        free(pages);
    }
    d->num_uniform = kernel->uses_pages ? 3 : 2;
    d->uniform[0] = (struct gl_range){.buffer = run->params[stage], .size = sizeof(words)};
    d->uniform[1] = (struct gl_range){.buffer = run->steps, .size = sizeof(struct dgl_step_table)};
    d->uniform[2] = (struct gl_range){.buffer = run->pages, .size = sizeof(struct dgl_kv_table)};
    return status;
}

static enum dgl_status prepare(struct run *run, uint32_t count)
{
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < count; i++) {
        const struct kernel_stage *s = &run->stages[i];
        const struct supplied supplied = {run->p, &run->p->stages[i]};
        const struct kernel_supply supply = {supplied.stage->request.op, has_buffer, has_param,
                                             &supplied};
        if (!kernel_is_supplied(s->choice->kernel, &supply, run->why))
            return DGL_ERR_KERNEL;
        run->dispatch[i].program = s->program;
        const int64_t tokens = run->p->step.tokens, band = run->p->stages[i].band;
        const uint32_t max_x = gl_device_caps(run->r->dev->gl)->limits.max_groups[0];
        const struct kernel *kernel = s->choice->kernel;
        uint32_t line = 0;
        char why[192];
        if (!kernel_groups_band(s->choice, tokens, band, max_x, run->dispatch[i].groups)) {
            kernel_groups_refusal(s->choice, tokens, band, max_x, why);
            line = kernel->groups_line;
        } else if (kernel_active_refusal(s->choice, tokens, band, why)) {
            line = kernel->active_line;
        }
        if (line) {
            snprintf(run->why, KERNEL_RUN_WHY, "%.300s:%u: %s", kernel->path, (unsigned)line, why);
            return DGL_ERR_KERNEL;
        }
        TRY(bind_storage(run, i));
        TRY(bind_uniforms(run, i));
    }
    gl_hazards_derive(run->dispatch, count, true);
done:
    return status;
}

enum dgl_status kernel_runner_solve(struct kernel_runner *r, struct problem *p,
                                    const struct kernel_stage *stages, char why[KERNEL_RUN_WHY])
{
    struct run *run = dgl_new(struct run);
    struct gl_device *gl = r->dev->gl;
    why[0] = '\0';
    if (!run || p->failed) {
        free(run);
        return dgl_fail_memory(r->dev->log, "buffers of a kernel's test", sizeof(*run));
    }
    *run = (struct run){.r = r, .p = p, .stages = stages, .why = why};
    /* buffers that no stage binds keep their contents */
    for (uint32_t i = 0; i < p->num_buffers; i++) {
        const struct problem_buffer *b = &p->buffers[i];
        for (size_t w = 0; b->after && w < b->words; w++)
            b->after[w] = b->before ? b->before[w] : PROBLEM_POISON;
    }
    enum dgl_status status;
    TRY(prepare(run, p->num_stages));
    for (uint32_t i = 0; i <= p->repeats; i++)
        TRY(gl_submit(gl, run->dispatch, p->num_stages, NULL));
    TRY(gl_finish(gl));
    for (uint32_t i = 0; i < PROBLEM_MAX_BUFFERS; i++)
        TRY(download(run, &run->held[i]));
    for (uint32_t i = 0; i < PROBLEM_MAX_STAGES; i++)
        TRY(download(run, &run->own[i]));
done:
    release(run);
    free(run);
    return status;
}

/* ---- time ------------------------------------------------------------------------------------ */

enum { MAX_COPIES = 16 };

static enum dgl_status time_alone(struct run *run, uint32_t count, double *us,
                                  struct kernel_run_times *out)
{
    struct gl_device *gl = run->r->dev->gl;
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t start = dgl_now_ns();
        TRY(gl_submit(gl, run->dispatch, 1, NULL));
        TRY(gl_finish(gl));
        us[i] = (double)(dgl_now_ns() - start) * 1e-3;
    }
    dgl_sort_f64(us, count);
    out->alone_us = us[count / 2];
    out->alone_best_us = us[0];
done:
    return status;
}

/* Makes copies of the streamed buffer, about 512 MiB together. Software devices get no copies. */
static enum dgl_status copy_streamed(struct run *run, const char *streamed, uint32_t *bind,
                                     struct gl_buffer *copies[MAX_COPIES], uint32_t *count)
{
    struct gl_device *gl = run->r->dev->gl;
    const struct gl_dispatch *d = run->dispatch;
    const struct kernel *kernel = run->stages[0].choice->kernel;
    uint64_t size = 0;
    enum dgl_status status = DGL_OK;
    for (uint32_t i = 0; i < d->num_storage; i++) {
        bool wanted = d->storage[i].buffer &&
                      (streamed ? !strcmp(streamed, kernel->binds[i].name) : !(d->writes >> i & 1));
        if (wanted && gl_buffer_size(d->storage[i].buffer) > size) {
            *bind = i;
            size = gl_buffer_size(d->storage[i].buffer);
        }
    }
    uint64_t wanted = size == 0 || gl_device_caps(gl)->software ? 0 : (512ull << 20) / size;
    for (*count = 0; *count < MAX_COPIES && *count < wanted; (*count)++) {
        const struct gl_buffer_params params = {.size = size, .label = "copy"};
        TRY(gl_buffer_create(gl, &params, &copies[*count]));
        TRY(gl_buffer_copy(gl, d->storage[*bind].buffer, 0, copies[*count], 0, size));
    }
done:
    return status;
}

static enum dgl_status time_stream(struct run *run, const char *streamed, uint32_t count,
                                   double *us, struct kernel_run_times *out)
{
    struct gl_device *gl = run->r->dev->gl;
    struct gl_buffer *copies[MAX_COPIES] = {NULL};
    struct gl_dispatch *list = dgl_new_array(struct gl_dispatch, count);
    uint64_t *ns = dgl_new_array(uint64_t, count);
    uint32_t bind = 0, num_copies = 0;
    size_t timed = 0;
    enum dgl_status status;
    TRY(list && ns ? copy_streamed(run, streamed, &bind, copies, &num_copies)
                   : dgl_fail_memory(run->r->dev->log, "dispatches", count * sizeof(*ns)));
    for (uint32_t i = 0; i < count; i++) {
        list[i] = run->dispatch[0];
        if (num_copies > 0)
            list[i].storage[bind].buffer = copies[i % num_copies];
    }
    gl_hazards_derive(list, count, true);
    for (int i = 0; i < 4; i++) {
        uint64_t start = dgl_now_ns();
        TRY(gl_submit(gl, list, count, NULL));
        TRY(gl_finish(gl));
        double each = (double)(dgl_now_ns() - start) * 1e-3 / count;
        if (i == 0 || each < out->stream_us)
            out->stream_us = each;
    }
    TRY(gl_submit(gl, list, count, ns));
    for (uint32_t i = 0; i < count; i++)
        if (ns[i] != UINT64_MAX)
            us[timed++] = (double)ns[i] * 1e-3;
done:
    if (timed > 0) {
        dgl_sort_f64(us, timed);
        out->gpu_us = us[timed / 2];
        out->gpu_best_us = us[0];
    }
    for (uint32_t i = 0; i < MAX_COPIES; i++)
        gl_buffer_destroy(gl, &copies[i]);
    free(list);
    free(ns);
    return status;
}

enum dgl_status kernel_runner_time(struct kernel_runner *r, struct problem *p,
                                   const struct kernel_stage *stage, const char *streamed,
                                   uint32_t dispatches, struct kernel_run_times *out,
                                   char why[KERNEL_RUN_WHY])
{
    struct run *run = dgl_new(struct run);
    double *us = dgl_new_array(double, dispatches);
    enum dgl_status status = DGL_OK;
    assert(dispatches > 0);
    why[0] = '\0';
    *out = (struct kernel_run_times){.dispatches = dispatches};
    if (!run || !us || p->failed)
        TRY(dgl_fail_memory(r->dev->log, "buffers of a kernel's timing", sizeof(*run)));
    *run = (struct run){.r = r, .p = p, .stages = stage, .why = why};
    TRY(prepare(run, 1));
    /* machine code is made at the first dispatch, on some drivers */
    TRY(gl_submit(r->dev->gl, run->dispatch, 1, NULL));
    TRY(gl_finish(r->dev->gl));
    TRY(time_alone(run, dispatches, us, out));
    TRY(time_stream(run, streamed, dispatches, us, out));
done:
    if (run && run->r)
        release(run);
    free(run);
    free(us);
    return status;
}
