/* Problems of norm: rows of large numbers, and of numbers so small that eps matters. */
#include <math.h>

#include "core/oracle/op_problem.h"
#include "core/oracle/ref_ops.h"

#define EPS 1e-5f

static void narrow_norm(struct kernel_case *c)
{
    c->tokens = 5;
}

static void make_norm(struct problem *p, const struct kernel_case *c)
{
    struct kernel_request q = c->request;
    const uint32_t h = request_size(&q, "H", 256), tokens = c->tokens ? c->tokens : 1;
    const size_t xs = request_size(&q, "X_STRIDE", h), ys = request_size(&q, "Y_STRIDE", h);
    const bool add = request_is(&q, "post", "add");
    float *x = problem_floats(p, tokens * xs, 1), *y = problem_floats(p, tokens * ys, 1);
    float *gain = problem_floats(p, h, 1);
    if (p->failed)
        return;
    for (size_t i = 0; i < tokens * xs; i++)
        x[i] = i % xs < h ? x[i] * (i / xs % 3 == 2 ? 1e-3f : 3.0f) : NAN;
    if (!add)
        problem_nan(y, tokens * ys, ys, 0, h);
    p->step.tokens = tokens;
    problem_in(p, "X", x, tokens * xs);
    problem_in(p, "G", gain, h);
    problem_out(p, "Y", y, tokens * ys);
    stage_float(problem_stage(p, &q), "eps", EPS);
    p->bytes = 4ull * tokens * h * (add ? 3 : 2) + 4ull * h;
    p->flops = 4ull * tokens * h;
    if (c->timing)
        return;
    struct problem_result *result = problem_result(p, "Y", 0, tokens, h, ys);
    result->each_row = true;
    for (uint32_t t = 0; t < tokens && !p->failed; t++) {
        double *want = result->want + (size_t)t * h;
        ref_norm_floats(x + t * xs, gain, h, (double)EPS, want);
        for (uint32_t i = 0; i < h && add; i++)
            want[i] += (double)y[t * ys + i];
    }
}

static const struct op_shape norm_shapes[] = {
    {{{"H", 260}, {"X_STRIDE", 272}, {"Y_STRIDE", 264}}, 7, 0, 0, 0},
    {{{"H", 4}}, 1, 0, 0, 0},
    {{{"H", 1152}, {"Y_STRIDE", 1160}}, 33, 0, 0, 0},
    {{{"H", 36}, {"X_STRIDE", 40}}, 2, 0, 0, 0},
    {{{"H", 5120}}, 3, 0, 0, 0},
    {{{"H", 256}}, 259, 0, 0, 0}, /* more than a pass of 256 */
};

const struct op_rule op_rule_norm = {
    .op = "norm",
    .attrs = {{"post", {"store", "add"}}},
    OP_SHAPES(norm_shapes),
    .narrow = narrow_norm,
    .typical = {{{"H", 4096}}, 1, 0, 0, 0},
    .make = make_norm,
};
