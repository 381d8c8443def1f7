/* Number of operations of a decode step on a device with the fused kernels, for every family: each
 * operation is a dispatch. Also the number of programs of passes over several sequences: each must
 * be compiled before the first such pass. */
#include "tests/support/test.h"

#include "tests/support/family.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/planned.h"

struct count_row {
    const char *family;
    uint32_t layer; /* operations of a layer; bands of one weight are one */
    uint32_t outer; /* of a greedy step outside of the layers */
};

static const struct count_row rows[] = {
    {"llama3", 5, 3},    {"llama2-f16", 5, 3},    {"llama-linear-f32", 5, 3},
    {"mistral", 5, 3},   {"qwen2", 5, 3},         {"qwen2-yarn", 5, 3},
    {"qwen3", 5, 3},     {"phi3", 5, 3},          {"phi3-longrope", 5, 3},
    {"smollm3", 5, 3},   {"granite", 5, 3},       {"gemma2", 5, 4},
    {"gemma3", 5, 4},    {"olmo2", 5, 4},         {"mixtral", 6, 3},
    {"qwen3-moe", 6, 3}, {"gpt-oss-mxfp4", 6, 3},
};

static struct kernel_set *builtin;

static uint32_t count_body(const struct plan *plan, struct pass_shape shape, bool layers)
{
    const struct oplist *list = &plan_body(plan, shape)->ops;
    uint32_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct op *op = &list->ops[i];
        bool band = i > 0 && strcmp(op->label, list->ops[i - 1].label) == 0 &&
                    op->layer == list->ops[i - 1].layer;
        count += !band && (op->layer >= 0) == layers;
    }
    return count;
}

/* The last post-norm of a body is not one of the five operations of a layer. */
static void a_step_has_few_operations(void **state)
{
    const struct count_row *row = *state;
    static const struct pass_shape step[] = {PASS_DECODE, PASS_HEAD, PASS_SAMPLE(SAMPLE_GREEDY)};
    char config[256];
    struct planned p;
    snprintf(config, sizeof(config), "%s/config.json", family_dir(row->family));
    planned_open(&p, &(struct shape_model_params){.config = config}, MADE_GPU, builtin);
    uint32_t layers = (uint32_t)p.model.desc.layers, outer = 0;
    uint32_t inner = count_body(&p.plan, PASS_DECODE, true);
    for (size_t i = 0; i < sizeof(step) / sizeof(step[0]); i++)
        outer += count_body(&p.plan, step[i], false);
    outer += inner - layers * row->layer;
    if (inner < layers * row->layer || outer != row->outer)
        fail_msg("%u operations in %u layers and %u outside, expected %u in each layer and %u",
                 inner, layers, outer, row->layer, row->outer);
    planned_close(&p);
}

struct body_row {
    const char *name; /* of the config */
    int32_t least;    /* sequences of the smallest passes */
    size_t programs;  /* of passes over up to 64 */
    size_t ops;       /* of a step by the smallest body, one token drawn: dispatches */
};

static const struct body_row bodies[] = {
    {"llama-3.2-1b", 2, 36, 83},  {"llama-3.2-1b", 17, 13, 116}, {"llama-3.2-1b", 64, 8, 116},
    {"llama-3.1-8b", 2, 36, 163}, {"llama-3.1-8b", 64, 8, 228},
};

static void passes_over_several_are_few_programs(void **state)
{
    const struct body_row *row = *state;
    const struct kernel_use *seen[256];
    char config[256];
    struct planned p;
    size_t count = 0;
    snprintf(config, sizeof(config), "tests/models/configs/%s.json", row->name);
    planned_open(&p, &(struct shape_model_params){.config = config, .quantize = "q4_k"}, MADE_GPU,
                 builtin);
    assert_int_equal(plan_add_batch(&p.plan), DGL_OK);
    const struct pass_shape first = plan_batch_shape(&p.plan, row->least);
    for (size_t b = 0; b < p.plan.num_bodies; b++) {
        const struct body *body = p.plan.bodies[b];
        const bool runs = body->shape.per_sequence && body->shape.rows_log2 >= first.rows_log2;
        for (size_t i = 0; runs && i < body->ops.count; i++) {
            size_t j = 0;
            while (j < count && seen[j] != body->use[i])
                j++;
            assert_true(j < sizeof(seen) / sizeof(seen[0]));
            seen[j] = body->use[i];
            count += j == count;
        }
    }
    const size_t ops = plan_body(&p.plan, first)->ops.count +
                       plan_body(&p.plan, PASS_SAMPLE(SAMPLE_GREEDY))->ops.count;
    if (count > row->programs || ops > row->ops)
        fail_msg("%zu programs, %zu dispatches of a step, expected %zu and %zu at most", count, ops,
                 row->programs, row->ops);
    printf("# %zu programs, %zu dispatches\n", count, ops);
    /* If a sequence may have several rows, each layer stores keys and values before attention: one
     * more operation per layer, and one more kernel. */
    const size_t uses = p.plan.kernels.count;
    struct pass_shape mixed = first;
    mixed.per_sequence = 2;
    assert_int_equal(plan_list(&p.plan, mixed), DGL_OK);
    assert_int_equal(plan_body(&p.plan, mixed)->ops.count,
                     plan_body(&p.plan, first)->ops.count + (size_t)p.model.desc.layers);
    assert_int_equal(plan_body(&p.plan, first)->ops.count +
                         plan_body(&p.plan, PASS_SAMPLE(SAMPLE_GREEDY))->ops.count,
                     ops);
    assert_int_equal(p.plan.kernels.count, uses + 1);
    planned_close(&p);
}

int main(void)
{
    builtin = loaded_set(NULL);
    int failures = test_run_table("counts", a_step_has_few_operations, rows);
    failures += test_run_table("passes", passes_over_several_are_few_programs, bodies);
    kernel_set_destroy(&builtin);
    return failures;
}
