/* Builds problems, and compares the buffers of a kernel with the expected ones. */
#include "core/oracle/problem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/oracle/ref_ops.h"

void problem_finish(struct problem *p)
{
    dgl_arena_finish(&p->arena);
    *p = (struct problem){0};
}

void problem_refuse(struct problem *p, const char *why)
{
    p->failed = true;
    p->unfit = why;
}

void *problem_alloc(struct problem *p, size_t count, size_t size)
{
    size_t bytes;
    void *memory =
        __builtin_mul_overflow(count, size, &bytes) ? NULL : dgl_arena_alloc(&p->arena, bytes);
    p->failed |= memory == NULL;
    return memory;
}

float *problem_floats(struct problem *p, size_t count, float scale)
{
    float *values = problem_new(p, float, count);
    for (size_t i = 0; values && i < count; i++)
        values[i] = scale * ref_rand_float(&p->seed);
    return values;
}

void problem_nan(float *x, size_t count, size_t stride, size_t from, size_t to)
{
    for (size_t i = 0; i < count; i++)
        if (i % stride >= from && i % stride < to)
            x[i] = NAN;
}

/* ---- buffers, results, stages ---------------------------------------------------------------- */

static struct problem_buffer *add_buffer(struct problem *p, const char *name, const void *before,
                                         size_t count)
{
    assert(p->num_buffers < PROBLEM_MAX_BUFFERS);
    struct problem_buffer *buffer = &p->buffers[p->num_buffers++];
    *buffer = (struct problem_buffer){.name = name, .words = count, .before = before};
    return buffer;
}

struct problem_buffer *problem_in(struct problem *p, const char *name, const void *words,
                                  size_t count)
{
    p->failed |= words == NULL;
    return add_buffer(p, name, words, count);
}

struct problem_buffer *problem_out(struct problem *p, const char *name, const void *before,
                                   size_t count)
{
    struct problem_buffer *buffer = add_buffer(p, name, before, count);
    buffer->after = problem_new(p, uint32_t, count);
    return buffer;
}

struct problem_buffer *problem_exact(struct problem *p, const char *name, const void *before,
                                     const void *want, size_t count)
{
    struct problem_buffer *buffer = problem_out(p, name, before, count);
    p->failed |= want == NULL;
    buffer->want_words = want;
    return buffer;
}

struct problem_buffer *problem_bits(struct problem *p, const char *name, const void *words,
                                    size_t count)
{
    struct problem_buffer *buffer = add_buffer(p, name, words, count);
    buffer->bits = words == NULL;
    return buffer;
}

void problem_in_if(struct problem *p, bool used, const char *name, const void *words, size_t count)
{
    assert(p->num_idle < PROBLEM_MAX_IDLE);
    if (used)
        problem_in(p, name, words, count);
    else
        p->idle[p->num_idle++] = name;
}

struct problem_buffer *problem_buffer(struct problem *p, const char *name)
{
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (strcmp(p->buffers[i].name, name) == 0)
            return &p->buffers[i];
    return NULL;
}

struct problem_result *problem_result(struct problem *p, const char *buffer, size_t at, size_t rows,
                                      size_t cols, size_t stride)
{
    assert(p->num_results < PROBLEM_MAX_RESULTS);
    struct problem_result *result = &p->results[p->num_results++];
    *result = (struct problem_result){
        .buffer = buffer, .at = at, .rows = rows, .cols = cols, .stride = stride ? stride : cols};
    size_t count;
    result->want =
        __builtin_mul_overflow(rows, cols, &count) ? NULL : problem_new(p, double, count);
    p->failed |= result->want == NULL;
    return result;
}

struct problem_stage *problem_stage(struct problem *p, const struct kernel_request *request)
{
    assert(p->num_stages < PROBLEM_MAX_STAGES);
    struct problem_stage *stage = &p->stages[p->num_stages++];
    *stage = (struct problem_stage){.request = *request, .is_subject = true};
    return stage;
}

static struct problem_param *add_param(struct problem_stage *stage, const char *name)
{
    assert(stage->num_params < PROBLEM_MAX_PARAMS);
    stage->params[stage->num_params].name = name;
    return &stage->params[stage->num_params++];
}

void stage_uint(struct problem_stage *stage, const char *name, uint32_t value)
{
    add_param(stage, name)->u = value;
}

void stage_float(struct problem_stage *stage, const char *name, float value)
{
    struct problem_param *param = add_param(stage, name);
    param->is_float = true;
    param->f = value;
}

void problem_begin_row(struct problem *p, const struct kernel_case *c)
{
    p->seed += c->row * 0x9E3779B97F4A7C15ull;
}

void problem_steps(const struct dgl_step *step, struct dgl_step_table *out)
{
    memset(out, 0xEE, sizeof(*out)); /* other sequences and rows are not used */
    out->rows = step->tokens;
    out->seqs = PROBLEM_SEQ + 1;
    out->ids_stride = out->adjust_stride = 0;
    out->seq[PROBLEM_SEQ] = *step;
    for (uint32_t i = 0; i < step->tokens || i == 0; i++)
        out->row[i] = DGL_STEP_ROW(PROBLEM_SEQ, i);
}

void problem_pages(const struct problem *p, struct dgl_kv_table *out)
{
    memset(out, 0, sizeof(*out)); /* page 0 is never the sequence's */
    if (p->pages)
        memcpy(out->page + p->entry + p->step.kv_first, p->pages, p->num_pages * sizeof(*p->pages));
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct kernel_var *find_const(const struct kernel_request *request, const char *name)
{
    for (uint32_t i = 0; i < request->num_consts; i++)
        if (strcmp(request->consts[i].name, name) == 0)
            return (struct kernel_var *)(uintptr_t)&request->consts[i];
    return NULL;
}

int64_t request_const(const struct kernel_request *request, const char *name, int64_t value)
{
    const struct kernel_var *var = find_const(request, name);
    return var ? var->value : value;
}

void request_set_const(struct kernel_request *request, const char *name, int64_t value)
{
    struct kernel_var *var = find_const(request, name);
    if (!var) {
        assert(request->num_consts < KERNEL_MAX_CONSTS);
        var = &request->consts[request->num_consts++];
        var->name = name;
    }
    var->value = value;
}

void request_default(struct kernel_request *request, const char *name, int64_t value)
{
    if (!find_const(request, name))
        request_set_const(request, name, value);
}

uint32_t request_size(struct kernel_request *request, const char *name, int64_t value)
{
    request_default(request, name, value);
    return (uint32_t)request_const(request, name, 0);
}

bool request_is(const struct kernel_request *request, const char *key, const char *word)
{
    for (uint32_t i = 0; i < request->num_attrs; i++)
        if (strcmp(request->attrs[i].key, key) == 0)
            return strcmp(request->attrs[i].word, word) == 0;
    return strcmp(word, "none") == 0;
}

void request_set(struct kernel_request *request, const char *key, const char *word)
{
    uint32_t i = 0;
    while (i < request->num_attrs && strcmp(request->attrs[i].key, key) != 0)
        i++;
    if (!word) {
        if (i < request->num_attrs)
            request->attrs[i] = request->attrs[--request->num_attrs];
        return;
    }
    assert(i < KERNEL_MAX_ATTRS);
    request->attrs[i] = (struct kernel_attr){key, word};
    request->num_attrs += i == request->num_attrs;
}

/* ---- comparing ------------------------------------------------------------------------------- */

double problem_nmse(const float *a, const double *b, size_t count, double least)
{
    double error = 0, power = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - b[i];
        error += d * d;
        power += b[i] * b[i];
    }
    if (!isfinite(error) || !isfinite(power))
        return INFINITY;
    power = power > least ? power : least;
    if (power == 0)
        return error == 0 ? 0 : INFINITY;
    return error / power;
}

/* Returns true if a word belongs to a result of its buffer. */
static bool is_result(const struct problem *p, const char *buffer, size_t word)
{
    for (uint32_t i = 0; i < p->num_results; i++) {
        const struct problem_result *r = &p->results[i];
        if (strcmp(r->buffer, buffer) == 0 && word >= r->at &&
            (word - r->at) / r->stride < r->rows && (word - r->at) % r->stride < r->cols)
            return true;
    }
    return false;
}

static bool check_words(const struct problem *p, const struct problem_buffer *b, char why[512])
{
    bool has_results = false;
    for (uint32_t i = 0; i < p->num_results; i++)
        has_results |= strcmp(p->results[i].buffer, b->name) == 0;
    for (size_t i = 0; b->want_words && i < b->words; i++)
        if (b->after[i] != b->want_words[i]) {
            snprintf(why, 512, "word %zu of %zu of %s is %08x, wanted %08x", i, b->words, b->name,
                     (unsigned)b->after[i], (unsigned)b->want_words[i]);
            return false;
        }
    for (size_t i = 0; has_results && !b->free && i < b->words; i++) {
        uint32_t before = b->before ? b->before[i] : PROBLEM_POISON;
        if (b->after[i] != before && !is_result(p, b->name, i)) {
            snprintf(why, 512, "word %zu of %s, which is no result, is %08x and was %08x", i,
                     b->name, (unsigned)b->after[i], (unsigned)before);
            return false;
        }
    }
    return true;
}

/* `rows` rows of a result from `first` on. */
static bool check_values(const struct problem_result *r, size_t first, size_t rows,
                         const float *got, double tolerance, double *worst, char why[512])
{
    const double *want = r->want + first * r->cols;
    double nmse = problem_nmse(got, want, rows * r->cols, r->each_row ? 0 : r->terms_power);
    double largest = -1;
    double part = tolerance > 0 ? nmse / tolerance : nmse > 0 ? INFINITY : 0;
    size_t at = 0;
    if (part > *worst)
        *worst = part;
    if (nmse <= tolerance)
        return true;
    for (size_t i = 0; i < rows * r->cols; i++) {
        double d = fabs((double)got[i] - want[i]);
        if (isnan(d))
            d = INFINITY;
        if (d > largest) {
            largest = d;
            at = i;
        }
    }
    snprintf(why, 512, "%s[%zu][%zu] is %.9g, wanted %.9g (NMSE %.3g, at most %.3g allowed)",
             r->buffer, first + at / r->cols, at % r->cols, (double)got[at], want[at], nmse,
             tolerance);
    return false;
}

bool problem_check(struct problem *p, double tolerance, double *worst, char why[512])
{
    if (p->settle && !p->settle(p, why))
        return false;
    if (p->terms > 1024)
        tolerance *= (double)p->terms / 1024;
    for (uint32_t i = 0; i < p->num_results; i++) {
        const struct problem_result *r = &p->results[i];
        const struct problem_buffer *b = problem_buffer(p, r->buffer);
        const size_t step = r->each_row ? 1 : r->rows;
        float *got = problem_new(p, float, r->rows * r->cols);
        if (!got) {
            snprintf(why, 512, "out of memory");
            return false;
        }
        for (size_t row = 0; row < r->rows; row++)
            memcpy(got + row * r->cols, b->after + r->at + row * r->stride, 4 * r->cols);
        for (size_t row = 0; row < r->rows; row += step)
            if (!check_values(r, row, step, got + row * r->cols, tolerance, worst, why))
                return false;
    }
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (p->buffers[i].after && !check_words(p, &p->buffers[i], why))
            return false;
    return true;
}
