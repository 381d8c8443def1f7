/* Limits the tokens of a pass by measured times. If t <= r, a pass of r tokens takes at most r / t
 * times as long as one of t tokens. So the time of a first pass with one token limits the passes
 * after it. Each pass that is shorter than wanted is timed, and gives a better limit. */
#include "core/exec/pace.h"

#include <assert.h>

/* Largest pass before any pass was timed: bytes of a layer's weights times tokens. Block formats
 * have about two weights per byte, so this is 2 * 10^9 operations, or 100 ms at 20 GFLOP/s. Every
 * GPU that is known to run this library is faster. */
#define UNTIMED (512ull << 20)

static uint64_t layers_of(const struct plan *plan)
{
    return plan->desc->layers > 0 ? (uint64_t)plan->desc->layers : 1;
}

static uint64_t budget_of(const struct pace *p)
{
    return PACE_BUDGET_NS >> (p->losses < 8 ? p->losses : 8);
}

/* Returns the bytes of weights that all operations of a body read. *largest is the maximum of one
 * operation. */
static uint64_t shape_bytes(const struct plan *plan, struct pass_shape shape, uint64_t *largest)
{
    const struct oplist *ops = &plan_body(plan, shape)->ops;
    uint64_t sum = 0;
    *largest = 0;
    for (size_t i = 0; i < ops->count; i++) {
        sum += ops->ops[i].bytes;
        *largest = ops->ops[i].bytes > *largest ? ops->ops[i].bytes : *largest;
    }
    return sum;
}

/* Returns the nanoseconds per byte of weights for one token, or 0 if unknown. */
static double byte_ns(const struct pace *p, const struct plan *plan)
{
    uint64_t largest;
    const uint64_t body = shape_bytes(plan, PASS_DECODE, &largest);
    if (p->layer.tokens == 1 && body > 0)
        return (double)p->layer.ns * (double)layers_of(plan) / (double)body;
    const uint64_t assumed = plan->device->dispatch_bytes;
    return assumed > 0 ? (double)PACE_BUDGET_NS / (double)assumed : 0;
}

int32_t pace_fit(const struct pace_estimate *e, double limit_ns, int32_t least, int32_t most)
{
    const double fit = limit_ns * e->tokens / ((double)e->ns + 1);
    int32_t tokens = least;
    if (fit >= most)
        return most;
    while (tokens * 2 <= fit)
        tokens *= 2;
    return tokens < most ? tokens : most;
}

bool pace_estimate_note(struct pace_estimate *e, int32_t tokens, uint64_t ns, uint64_t limit_ns,
                        bool exact)
{
    const bool better = (double)ns * e->tokens < (double)e->ns * tokens;
    const bool counts =
        e->tokens == 0 || better || (exact && (tokens >= e->tokens || ns > limit_ns));
    if (counts)
        *e = (struct pace_estimate){tokens, ns};
    return counts;
}

int32_t pace_steps(uint64_t step_ns, uint64_t limit_ns, int32_t most)
{
    if (step_ns == 0 || limit_ns / step_ns >= (uint64_t)most)
        return most;
    return step_ns < limit_ns ? (int32_t)(limit_ns / step_ns) : 1;
}

uint64_t pace_token_ns(const struct pace *p, const struct plan *plan)
{
    uint64_t largest;
    const uint64_t bytes =
        shape_bytes(plan, PASS_DECODE, &largest) + shape_bytes(plan, PASS_HEAD, &largest);
    return (uint64_t)((double)bytes * byte_ns(p, plan));
}

int32_t pace_sequences(const struct pace *p, const struct plan *plan, int32_t most, int32_t held)
{
    return plan->device->dispatch_bytes > 0 ? pace_tokens(p, plan, most, held, false) : most;
}

int32_t pace_tokens(const struct pace *p, const struct plan *plan, int32_t most, int32_t held,
                    bool scores)
{
    uint64_t largest, head;
    assert(most > 0);
    if (plan->device->on_host)
        return most;
    /* `weight` is the work of the largest dispatch, relative to a layer. With scores, the head is
     * one dispatch for all tokens and may be larger than a layer. */
    uint64_t layer = shape_bytes(plan, PASS_DECODE, &largest) / layers_of(plan);
    shape_bytes(plan, PASS_HEAD, &head);
    double weight = scores && layer > 0 && head > layer ? (double)head / (double)layer : 1;
    if (p->layer.tokens == 0) {
        double work = weight * (double)layer * most;
        const uint64_t slow = plan->device->dispatch_bytes;
        const uint64_t safe = slow > 0 && slow < UNTIMED ? slow : UNTIMED;
        return p->losses == 0 && work <= (double)safe ? most : 1;
    }
    if (held > p->held) /* attention is proportional to the tokens held, and no operation grows
                         * faster */
        weight *= (double)held / p->held;
    return pace_fit(&p->layer, (double)budget_of(p) / weight, 1, most);
}

void pace_note(struct pace *p, const struct plan *plan, int32_t tokens, int32_t held, uint64_t ns)
{
    uint64_t largest;
    if (held > 2 * p->held) /* the sequence has more than doubled: earlier times do not count */
        p->layer.tokens = 0;
    if (pace_estimate_note(&p->layer, tokens, ns / layers_of(plan), budget_of(p), true))
        p->held = held > PACE_HELD ? held : PACE_HELD;
    if (tokens > 1)
        return;
    /* One token reads each weight of body and head once. The head has one dispatch per band. */
    uint64_t body = shape_bytes(plan, PASS_DECODE, &largest);
    shape_bytes(plan, PASS_HEAD, &largest);
    p->head_ns = body > 0 ? (uint64_t)((double)ns * (double)largest / (double)body) : 0;
}
