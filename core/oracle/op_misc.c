/* Problems of embed, copy, read and synth. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/oracle/op_problem.h"
#include "core/oracle/ref_ops.h"
#include "kernels/set/kernel_fit.h"

#define SCALE 0.75f

/* ---- embed ----------------------------------------------------------------------------------- */

/* Number of rows of weights. It is large for short rows, so that ids are large. */
enum { LEAST_VOCAB = 67, MOST_VOCAB = 50021, VOCAB_VALUES = 1 << 18 };

static void narrow_embed(struct kernel_case *c)
{
    c->tokens = 9;
    c->bands = 2;
}

static bool member_embed(struct kernel_case *c, uint32_t row)
{
    c->pos = (c->pos + 11 * row) % 29;
    return request_is(&c->request, "phase", "prefill");
}

/* Ids all over the vocabulary, among them the last one and the first of the last band. */
static void make_embed(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const uint32_t h = request_size(&q, "H", 256), tokens = c->tokens ? c->tokens : 1;
    const size_t stride = request_size(&q, "X_STRIDE", h);
    uint32_t vocab = VOCAB_VALUES / h;
    vocab = c->rows               ? c->rows
            : vocab < LEAST_VOCAB ? LEAST_VOCAB
            : vocab > MOST_VOCAB  ? MOST_VOCAB
                                  : vocab;
    const uint32_t bands = c->cuts[0] ? 2 : c->bands ? c->bands : 1;
    const uint32_t step = c->cuts[0] ? c->cuts[0] : vocab / bands;
    struct op_weights w;
    if (!op_weights_make(p, &q, vocab, h, c->timing, &w))
        return;
    problem_begin_row(p, c);
    uint32_t *ids = problem_new(p, uint32_t, c->pos + tokens);
    float *x = problem_floats(p, tokens * stride, 1);
    if (p->failed)
        return;
    problem_nan(x, tokens * stride, stride, 0, h);
    for (uint32_t i = 0; i < c->pos + tokens; i++)
        ids[i] = (uint32_t)(ref_rand(&p->seed) % vocab);
    ids[c->pos] = vocab - 1;
    ids[c->pos + tokens - 1] = step * (bands - 1);
    p->step.pos = c->pos;
    p->step.tokens = tokens;
    problem_in(p, "IDS", ids, c->pos + tokens);
    problem_out(p, "X", x, tokens * stride);
    if (c->timing)
        problem_bits(p, "W", NULL, vocab * w.row_words);
    for (uint32_t i = 0; i < bands; i++) {
        const uint32_t first = step * i, rows = i + 1 < bands ? step : vocab - first;
        stage_float(op_band(p, &q, &w, 0, first, rows), "scale", SCALE);
        if (c->timing)
            break;
    }
    p->bytes = 4ull * tokens * (w.row_words + h);
    p->flops = (uint64_t)tokens * h;
    if (c->timing)
        return;
    struct problem_result *result = problem_result(p, "X", 0, tokens, h, stride);
    for (size_t i = 0; !p->failed && i < (size_t)tokens * h; i++)
        result->want[i] = (double)SCALE * w.values[(size_t)ids[c->pos + i / h] * h + i % h];
}

static const struct op_shape embed_shapes[] = {
    {{{"H", 260}, {"X_STRIDE", 264}}, 7, 3, 2, 0},
    {{{"H", 1152}}, 16, 0, 3, 0},
    {{{"H", 36}}, 3, 5, 0, 0},
    {{{"H", 80}, {"X_STRIDE", 84}}, 131, 1, 2, 0},
    {{{"H", 4}}, 1, 0, 0, 0},
    {{{"H", 2880}}, 2, 0, 2, 0},
};

const struct op_rule op_rule_embed = {
    .op = "embed",
    .attrs = {OP_WEIGHTS, {"phase", {"decode", "prefill"}}},
    OP_SHAPES(embed_shapes),
    .narrow = narrow_embed,
    .member = member_embed,
    .typical = {{{"H", 4096}, {"N", 4096}}, 256, 0, 0, 0},
    .make = make_embed,
};

/* ---- copy ------------------------------------------------------------------------------------ */

/* The stage that copies or reads `units` units of SRC. Words after its end must not be used. */
static uint32_t *add_source(struct problem *p, const struct kernel_case *c, uint32_t units)
{
    const size_t words = 4ull * units, beyond = 64;
    struct problem_stage *stage = problem_stage(p, &c->request);
    stage_uint(stage, "rows", units);
    stage->band = units;
    p->step.tokens = 1;
    if (c->timing) {
        problem_bits(p, "SRC", NULL, words);
        return NULL;
    }
    uint32_t *from = problem_new(p, uint32_t, words + beyond);
    for (size_t i = 0; from && i < words + beyond; i++)
        from[i] = (uint32_t)ref_rand(&p->seed);
    problem_in(p, "SRC", from, words + beyond);
    return from;
}

static void make_copy(struct problem *p, const struct kernel_case *c)
{
    const uint32_t units = c->rows ? c->rows : 513;
    const uint32_t *from = add_source(p, c, units);
    p->bytes = 32ull * units;
    if (c->timing)
        problem_bits(p, "DST", NULL, 4ull * units);
    else
        problem_exact(p, "DST", NULL, from, 4ull * units);
}

static bool settle_copy(struct kernel_case *c)
{
    if (c->rows == 0)
        c->rows = c->variant;
    return true;
}

/* The variant is the number of units. */
static const struct op_shape copy_shapes[] = {
    {{{NULL, 0}}, 1, 0, 0, 513},
    {{{NULL, 0}}, 1, 0, 0, 1},
    {{{NULL, 0}}, 1, 0, 0, 100003},
    {{{NULL, 0}}, 1, 0, 0, 127},
};

const struct op_rule op_rule_copy = {
    .op = "copy",
    OP_SHAPES(copy_shapes),
    .settle = settle_copy,
    .typical = {{{NULL, 0}}, 1, 0, 0, 1 << 22},
    .make = make_copy,
    .streamed = "SRC",
};

/* ---- read ------------------------------------------------------------------------------------ */

/* How many units a group reads is the kernel's business: all groups' sums are the sum of all. */
static bool settle_read(struct problem *p, char why[512])
{
    const struct problem_buffer *src = problem_buffer(p, "SRC"), *dst = problem_buffer(p, "DST");
    const uint32_t units = *(const uint32_t *)p->priv;
    uint32_t want = 0, got = 0;
    for (size_t i = 0; i < 4ull * units; i++)
        want += src->before[i];
    for (size_t i = 0; i < dst->words; i++)
        got += dst->after[i] == PROBLEM_POISON ? 0 : dst->after[i];
    if (got != want)
        snprintf(why, 512, "the sums in DST sum to %08x, wanted %08x", (unsigned)got,
                 (unsigned)want);
    return got == want;
}

static void make_read(struct problem *p, const struct kernel_case *c)
{
    uint32_t *units = problem_new(p, uint32_t, 1);
    if (!units)
        return;
    *units = c->rows ? c->rows : 513;
    (void)add_source(p, c, *units);
    p->bytes = 16ull * *units;
    p->priv = units;
    problem_out(p, "DST", NULL, *units);
    if (!c->timing)
        p->settle = settle_read;
}

const struct op_rule op_rule_read = {
    .op = "read",
    OP_SHAPES(copy_shapes),
    .typical = {{{NULL, 0}}, 1, 0, 0, 1 << 22},
    .settle = settle_copy,
    .make = make_read,
    .streamed = "SRC",
};

/* ---- synth ----------------------------------------------------------------------------------- */

struct synth {
    enum dgl_dtype type;
    uint32_t rows, cols;
    size_t row_words;
};

/* The mean must be 0 and the deviation 0.02, of all columns and of every block of 32 columns. This
 * finds constant and shifted blocks. */
static bool settle_synth(struct problem *p, char why[512])
{
    const struct synth *s = p->priv;
    struct ref_matrix m = {.rows = 0};
    bool ok = ref_matrix_init(&m, s->type, NULL, s->rows, s->cols, 1);
    double sum = 0.0, squares = 0.0, count = (double)s->rows * s->cols;
    if (!ok) {
        snprintf(why, 512, "out of memory");
        goto done;
    }
    memcpy(m.packed, problem_buffer(p, "W")->after, 4 * s->rows * s->row_words);
    ref_matrix_decode_packed(&m);
    for (size_t i = 0; i < (size_t)s->rows * s->cols; i++) {
        sum += m.values[i];
        squares += m.values[i] * m.values[i];
    }
    ok = fabs(sum / count) <= 0.002 && fabs(sqrt(squares / count) - 0.02) <= 0.004;
    if (!ok)
        snprintf(why, 512, "W has mean %.4g and deviation %.4g, wanted 0 and 0.02", sum / count,
                 sqrt(squares / count));
    for (size_t b = 0; b + 32 <= s->cols && ok; b += 32) {
        double block = 0.0;
        for (size_t r = 0; r < s->rows; r++)
            for (size_t i = 0; i < 32; i++)
                block += m.values[r * s->cols + b + i] * m.values[r * s->cols + b + i];
        block = sqrt(block / (32.0 * s->rows));
        ok = fabs(block - 0.02) <= 0.006;
        if (!ok)
            snprintf(why, 512, "columns %zu to %zu of W have deviation %.4g, wanted 0.02", b,
                     b + 31, block);
    }
done:
    ref_matrix_finish(&m);
    return ok;
}

static void make_synth(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const uint32_t cols = request_size(&q, "K", 256);
    const uint32_t rows = c->rows ? c->rows : cols < 300 ? 300 : 64;
    struct synth *s = problem_new(p, struct synth, 1);
    struct op_weights w;
    if (!op_weights_make(p, &q, rows, cols, true, &w) || !s)
        return;
    *s = (struct synth){.rows = rows, .cols = cols, .row_words = w.row_words};
    s->type = op_weight_type(&q);
    struct problem_stage *stage = problem_stage(p, &q);
    stage_uint(stage, "rows", rows);
    stage_uint(stage, "seed", 1);
    stage->band = rows;
    p->step.tokens = 1;
    p->bytes = 4ull * rows * w.row_words;
    p->priv = s;
    if (c->timing)
        problem_bits(p, "W", NULL, rows * w.row_words);
    else
        problem_out(p, "W", NULL, rows * w.row_words);
    /* Rows of a plan may be longer than their layout. The rest of a row may have any contents. */
    p->settle = settle_synth;
}

static void narrow_synth(struct kernel_case *c)
{
    c->rows = request_const(&c->request, "K", 0) < 300 ? 300 : 64;
}

static const struct op_shape synth_shapes[] = {
    {{{"K", 1152}}, 1, 0, 0, 0},
    {{{"K", 80}}, 1, 0, 0, 0},
    {{{"K", 2048}}, 1, 0, 0, 0},
};

const struct op_rule op_rule_synth = {
    .op = "synth",
    .attrs = {OP_WEIGHTS},
    OP_SHAPES(synth_shapes),
    .narrow = narrow_synth,
    .typical = {{{"K", 4096}, {"N", 4096}}, 1, 0, 0, 0},
    .make = make_synth,
};
