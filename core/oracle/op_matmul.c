/* Problems of matmul: every prologue, epilogue and weight format, in bands. Gaps between rows and
 * result buffers are NaN before the run. */
#include <math.h>
#include <string.h>

#include "core/oracle/op_problem.h"
#include "core/oracle/oracle_ops.h"
#include "core/oracle/ref_ops.h"
#include "core/plan/oplist.h"

#define EPS       1e-5f
#define SOFTCAP   1.5f /* well within the range of the sums */
#define OUT_SCALE 0.22f

#define ARRIVED_WORDS 256

static bool has_norm(const struct kernel_request *q)
{
    return request_is(q, "pre", "norm") || request_is(q, "pre", "join_norm");
}

static bool has_join(const struct kernel_request *q)
{
    return request_is(q, "pre", "join") || request_is(q, "pre", "join_norm");
}

static bool settle(struct kernel_case *c)
{
    struct kernel_request *q = &c->request;
    const bool decode = request_is(q, "phase", "decode"), glu = request_is(q, "post", "glu");
    if (!glu)
        request_set(q, "act", NULL);
    else if (request_is(q, "act", "none"))
        return false;
    if (glu) {
        request_set_const(q, "N", (request_const(q, "N", 2) + 1) / 2 * 2);
        request_set_const(q, "SCALED", 0);
    }
    if (decode) {
        request_set(q, "columns", NULL);
        if (has_join(q))
            request_set_const(q, "X_LAST", 0);
        if (!request_const(q, "X_LAST", 0))
            c->tokens = 1;
        return true;
    }
    request_set_const(q, "X_LAST", 0);
    static const char *const columns[] = {"2", "4", "8", "16", "32", "64", "128", "256"};
    uint32_t i = 0;
    if (request_is(q, "columns", "none"))
        for (; i < 7 && 2u << i < c->tokens; i++)
            ;
    else
        while (i < 7 && !request_is(q, "columns", columns[i]))
            i++;
    request_set(q, "columns", columns[i]);
    request_set_const(q, "COLUMNS", 2 << i);
    if (i < 7 && c->tokens > 2u << i)
        c->tokens = 2u << i;
    /* A plan norms rows in the product for a few tokens, before it for more. */
    return request_is(q, "pre", "none") ||
           (request_is(q, "pre", "norm") && 2u << i <= OPLIST_NORM_COLUMNS);
}

static void narrow(struct kernel_case *c)
{
    const struct kernel_request *q = &c->request;
    const uint32_t n = (uint32_t)request_const(q, "N", 1);
    const uint32_t columns = (uint32_t)request_const(q, "COLUMNS", 0);
    c->rows = n < 70 ? n : 70 - n % 2;
    c->row0 = (n - c->rows) / 2 * 2; /* bands begin at even rows */
    c->rows = n - c->row0;
    c->tokens = columns > 37 ? 37 : columns > 2 ? columns - 1 : columns;
    if (request_const(q, "X_LAST", 0))
        c->tokens = 3;
}

struct matmul {
    struct kernel_request *q;
    uint32_t k, n, tokens, row0, rows, at, cols; /* at, cols: columns of Y */
    size_t bias_at;
    const float *x, *a, *r, *g, *before;
    struct op_weights w;
};

/* x of a token as the product sees it, after the prologue; power[k]: the squares of the terms that
 * x[k] is the sum of. */
static void source(const struct matmul *m, uint32_t token, double *joined, double *x, double *power)
{
    const bool last = request_const(m->q, "X_LAST", 0) != 0;
    const size_t stride = (size_t)request_const(m->q, "X_STRIDE", 0);
    const float *row = m->x + (last ? m->tokens - 1 : token) * stride;
    for (uint32_t k = 0; k < m->k; k++) {
        x[k] = (double)row[k];
        power[k] = x[k] * x[k];
    }
    if (has_join(m->q)) {
        ref_norm_floats(m->r, m->g, m->k, (double)EPS, joined);
        for (uint32_t k = 0; k < m->k; k++) {
            power[k] += joined[k] * joined[k];
            x[k] = joined[k] += x[k];
        }
    }
    if (has_norm(m->q)) {
        double *normed = power + m->k;
        ref_norm(x, m->a, m->k, (double)EPS, normed);
        for (uint32_t k = 0; k < m->k; k++) {
            power[k] *= x[k] != 0 ? normed[k] / x[k] * (normed[k] / x[k]) : 0;
            x[k] = normed[k];
        }
    }
}

/* The squares of its terms are added to *power. */
static double product(const struct matmul *m, uint32_t row, const double *x, const double *x_power,
                      double *power)
{
    const double *w = m->w.values + (size_t)(row - m->row0) * m->k;
    double sum = request_is(m->q, "bias", "row") ? (double)m->a[m->bias_at + row] : 0.0;
    *power += sum * sum;
    for (uint32_t k = 0; k < m->k; k++) {
        sum += w[k] * x[k];
        *power += w[k] * w[k] * x_power[k];
    }
    return sum;
}

static void expect(struct problem *p, const struct matmul *m, struct problem_result *y,
                   double *joined)
{
    const bool glu = request_is(m->q, "post", "glu"), gelu = request_is(m->q, "act", "gelu");
    const double scale = request_const(m->q, "SCALED", 0) ? (double)OUT_SCALE : 1;
    double *x = problem_new(p, double, m->k), *x_power = problem_new(p, double, 2ull * m->k);
    double power = 0, other = 0;
    if (p->failed)
        return;
    for (size_t t = 0; t < y->rows; t++) {
        source(m, (uint32_t)t, joined, x, x_power);
        for (uint32_t i = 0; i < m->cols; i++) {
            const uint32_t row = m->row0 + (glu ? 2 * i : i);
            double value = scale * product(m, row, x, x_power, &power);
            if (glu)
                value = (gelu ? oracle_gelu : oracle_silu)(value)*product(m, row + 1, x, x_power,
                                                                          &other);
            if (request_is(m->q, "post", "softcap"))
                value = oracle_softcap(value, (double)SOFTCAP);
            if (request_is(m->q, "post", "add"))
                value += (double)m->before[y->at + t * y->stride + i];
            y->want[t * m->cols + i] = value;
        }
    }
    if (!glu)
        y->terms_power = power * scale * scale;
}

static void make(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const bool glu = request_is(&q, "post", "glu"), decode = request_is(&q, "phase", "decode");
    struct matmul m = {.q = &q,
                       .k = request_size(&q, "K", 256),
                       .n = request_size(&q, "N", 1),
                       .tokens = c->tokens ? c->tokens : 1,
                       .row0 = c->row0};
    const float scale = glu ? 0.1f : 1.0f; /* silu makes relative errors of absolute ones */
    m.rows = c->rows ? c->rows : m.n;
    m.at = glu ? m.row0 / 2 : m.row0;
    m.cols = glu ? m.rows / 2 : m.rows;
    const size_t x_stride = request_size(&q, "X_STRIDE", m.k), x_words = m.tokens * x_stride;
    const size_t y_stride = request_size(&q, "Y_STRIDE", glu ? m.n / 2 : m.n);
    const size_t y_rows = decode ? 1 : m.tokens;
    m.bias_at = request_size(&q, "BIAS_AT", has_norm(&q) ? (m.k + 3) / 4 * 4 : 0);
    if (!decode)
        request_default(&q, "SUM_ROWS", c->timing ? 16384 : 3 * ((m.n + 127) / 128 * 128));
    const size_t gain = m.bias_at ? m.bias_at : (m.k + 3) / 4 * 4;
    const size_t a_words = request_is(&q, "bias", "row") ? m.bias_at + (m.n + 3) / 4 * 4 : gain;
    if (!op_weights_make(p, &q, m.rows, m.k, c->timing, &m.w))
        return;
    float *x = problem_floats(p, x_words, scale), *before = problem_floats(p, y_rows * y_stride, 1);
    m.a = problem_floats(p, a_words, scale);
    m.r = problem_floats(p, m.k, 1);
    m.g = problem_floats(p, m.k, 1);
    if (p->failed)
        return;
    problem_nan(x, x_words, x_stride, m.k, x_stride);
    if (!request_is(&q, "post", "add"))
        problem_nan(before, y_rows * y_stride, y_stride, m.at, m.at + m.cols);
    m.x = x;
    m.before = before;
    p->step.tokens = m.tokens;
    problem_in(p, "X", x, x_words);
    if (c->timing)
        problem_bits(p, "W", NULL, m.rows * m.w.row_words);
    if (!decode) { /* for kernels that cut a tile's sums into parts */
        const size_t sum_rows = (size_t)request_const(&q, "SUM_ROWS", 0);
        uint32_t *arrived = problem_new(p, uint32_t, ARRIVED_WORDS);
        problem_out(p, "SUMS", NULL, (m.tokens + 255) / 256 * 256 * sum_rows + 4);
        problem_exact(p, "ARRIVED", arrived, arrived, ARRIVED_WORDS);
    }
    problem_in_if(p, !request_is(&q, "pre", "none") || request_is(&q, "bias", "row") || c->timing,
                  "A", m.a, a_words);
    problem_out(p, "Y", before, y_rows * y_stride);
    if (has_join(&q)) {
        problem_in(p, "R", m.r, m.k);
        problem_in(p, "G", m.g, m.k);
        problem_out(p, "STREAM", NULL, m.k);
    }
    const uint32_t bands = c->bands ? c->bands : 1, step = m.rows / bands / 2 * 2;
    for (uint32_t i = 0; i < bands; i++) {
        struct problem_stage *stage =
            op_band(p, &q, &m.w, m.row0, i * step, i + 1 < bands ? step : m.rows - i * step);
        stage_float(stage, "eps", EPS);
        stage_float(stage, "out_scale", OUT_SCALE);
        stage_float(stage, "softcap", SOFTCAP);
    }
    p->bytes = 4ull * (m.rows * m.w.row_words + y_rows * m.k + y_rows * m.cols);
    p->flops = 2ull * m.rows * m.k * y_rows;
    p->terms = m.k;
    if (c->timing)
        return;
    struct problem_result *y = problem_result(p, "Y", m.at, y_rows, m.cols, y_stride);
    double *joined = has_join(&q) ? problem_result(p, "STREAM", 0, 1, m.k, 0)->want : NULL;
    if (!p->failed)
        expect(p, &m, y, joined);
}

/* Odd sizes come first: whole sizes hide errors at tails. */
static const struct op_shape shapes[] = {
    {{{"K", 260}, {"N", 67}, {"X_STRIDE", 264}, {"Y_STRIDE", 71}, {"SCALED", 1}}, 7, 0, 2, 0},
    {{{"K", 1152}, {"N", 130}}, 3, 0, 0, 0},
    {{{"K", 36}, {"N", 3}, {"X_LAST", 1}}, 4, 0, 0, 0},
    {{{"K", 112}, {"N", 33}, {"X_STRIDE", 116}, {"SCALED", 1}}, 9, 0, 0, 0},
    {{{"K", 768}, {"N", 132}, {"X_LAST", 1}}, 16, 0, 3, 0},
    {{{"K", 4352}, {"N", 34}}, 2, 0, 0, 0},
    {{{"K", 4}, {"N", 1}, {"Y_STRIDE", 5}}, 1, 0, 0, 0},
    {{{"K", 256}, {"N", 257}, {"X_STRIDE", 272}}, 33, 0, 2, 0},
    {{{"K", 2048}, {"N", 66}}, 5, 0, 0, 0},
};

/* From 3,072 rows on a thread computes four rows of q4_k, and eight sets of threads share the
 * staged data. */
static const struct op_special specials[] = {
    {{{{"K", 528}, {"N", 3078}}, 11, 0, 0, 0},
     {{"phase", "prefill"}, {"weight", "q4_k"}, {"columns", "16"}, {"pre", NULL}, {"post", "add"}}},
};

const struct op_rule op_rule_matmul = {
    .op = "matmul",
    .attrs = {{"phase", {"decode", "prefill"}},
              OP_WEIGHTS,
              {"pre", {"none", "norm", "join", "join_norm"}},
              {"post", {"store", "add", "glu", "softcap"}},
              {"act", {"silu", "gelu"}},
              {"bias", {"none", "row"}},
              {"columns", {"2", "4", "8", "16", "32", "64", "128", "256"}}},
    OP_SHAPES(shapes),
    .specials = specials,
    .num_specials = sizeof(specials) / sizeof(specials[0]),
    .settle = settle,
    .narrow = narrow,
    .typical = {{{"K", 4096}, {"N", 4096}}, 256, 0, 0, 0},
    .make = make,
    .streamed = "W",
};
