/* The bundled model on the driver of this process, compared with float64 references that do not
 * depend on a driver. If all drivers agree with the references, they agree with each other.
 * tests/drivers.sh runs it on every driver of the machine. DRIVER_TEST_STEPS shortens it for
 * drivers that interpret shaders. */
#include "tests/support/test.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/base/str.h"
#include "tests/support/reference.h"

#define PACK    "tests/models/story-llama-q4_k_m"
#define SAMPLED "tests/data/vectors/story_llama_sampled.txt"

enum { MAX_CASES = 8, MAX_STEPS = 64, MAX_PROMPT = 32 };

struct sampled_case {
    char name[32];
    struct dgl_sampling sampling;
    size_t count;
    int32_t ids[MAX_STEPS];
    double distance[MAX_STEPS];
};

/* tests/data/vectors/story_llama_sampled.txt */
static struct {
    int32_t prompt[MAX_PROMPT];
    size_t num_prompt, count;
    struct sampled_case items[MAX_CASES];
} sampled;

static struct reference whole, used; /* the reference, and as much of it as this run compares */

/* ---- engines: one is open at a time, and stays open while rows of the table want the same ---- */

struct setup {
    enum dgl_kv_type kv_type;
    const char *limits;       /* NULL = the device's own */
    const char *const *hints; /* NULL selects the heuristics */
    size_t num_hints;
};

/* Does not affect operations or weights that these variants do not serve. */
static const char *const subgroup_hints[] = {"variants.matmul/decode=subgroup",
                                             "variants.attn_token=subgroup"};
static const char *const plain_hints[] = {"variants.matmul/decode=baseline",
                                          "variants.matmul/prefill=baseline",
                                          "variants.attn_decode=baseline"};

static const struct setup f16_cache = {.kv_type = DGL_KV_F16};
static const struct setup f32_cache = {.kv_type = DGL_KV_F32};
static const struct setup minimum = {.kv_type = DGL_KV_F16, .limits = "min"};
static const struct setup subgroups = {
    .kv_type = DGL_KV_F16, .hints = subgroup_hints, .num_hints = 2};
static const struct setup baseline = {.kv_type = DGL_KV_F16, .hints = plain_hints, .num_hints = 3};

static struct test_engine engine;
static struct dgl_kernels *kernels;
static const struct setup *opened;

static void close_engine(void)
{
    opened = NULL;
    test_engine_close(&engine);
    dgl_kernels_destroy(&kernels);
}

static void open_engine(const struct setup *s)
{
    if (opened == s)
        return;
    close_engine();
    assert_int_equal(
        dgl_kernels_create(NULL, dgl_kernels_params(.flags = s->hints, .num_flags = s->num_hints),
                           &kernels),
        DGL_OK);
    test_engine_open(
        &engine, &(struct test_engine_params){
                     .path = PACK, .kv_type = s->kv_type, .limits = s->limits, .kernels = kernels});
    opened = s;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static double clear_margin(void)
{
    return opened->kv_type == DGL_KV_F32 ? 0.001 : 0.02;
}

/* Draws that are closer than this to another outcome may go either way. */
static double clear_draw(void)
{
    return opened->kv_type == DGL_KV_F32 ? 1e-4 : 5e-4;
}

static void check_greedy(void)
{
    reference_check_greedy(&engine, &used, clear_margin());
}

/* For kernels that are slow on software. */
static void check_greedy_once(void)
{
    struct reference first = used;
    first.count = 1;
    reference_check_greedy(&engine, &first, clear_margin());
}

static void check_forced(void)
{
    reference_check_forced(&engine, &used, clear_margin());
}

static void check_logits(void)
{
    assert_at_most(reference_logits_nmse(&engine, &used),
                   opened->kv_type == DGL_KV_F32 ? 1e-9 : 2e-7);
}

static void check_sampled_case(const struct sampled_case *c, size_t steps)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    steps = steps < c->count ? steps : c->count;
    assert_int_equal(
        dgl_generate(engine.session,
                     dgl_generate_params(.ids = sampled.prompt, .num_ids = sampled.num_prompt,
                                         .max_tokens = (int32_t)steps, .sampling = c->sampling,
                                         .ignore_eos = true),
                     &r),
        DGL_OK);
    assert_int_equal(r.num_tokens, steps);
    for (size_t i = 0; i < steps && c->distance[i] >= clear_draw(); i++)
        if (r.tokens[i] != c->ids[i])
            fail_msg("%s, step %zu: token %d, the reference drew %d (clear by %g)", c->name, i,
                     r.tokens[i], c->ids[i], c->distance[i]);
    dgl_generate_result_finish(&r);
}

static void check_sampled(void)
{
    for (size_t i = 0; i < sampled.count; i++)
        check_sampled_case(&sampled.items[i], used.prompt[0].num_greedy);
}

/* Tokens must not depend on how many of them share a readback. */
static void check_readback(void)
{
    const struct reference_prompt *p = &used.prompt[0];
    int32_t first[MAX_STEPS] = {0};
    for (int32_t interval = 1; interval <= 5; interval += 4) {
        struct dgl_generate_result r = {.size = sizeof(r)};
        assert_int_equal(
            dgl_generate(engine.session,
                         dgl_generate_params(.ids = p->ids, .num_ids = p->num_ids,
                                             .max_tokens = (int32_t)p->num_greedy,
                                             .ignore_eos = true, .readback_interval = interval),
                         &r),
            DGL_OK);
        assert_int_equal(r.num_tokens, p->num_greedy);
        if (interval == 1)
            memcpy(first, r.tokens, p->num_greedy * sizeof(*first));
        assert_memory_equal(r.tokens, first, p->num_greedy * sizeof(*first));
        dgl_generate_result_finish(&r);
    }
}

/* Kernels of the plan by variant. */
struct census {
    uint32_t steps, subgroup;
    const char *seen[32];
    size_t num_seen;
};

static bool count_step(void *priv, const struct dgl_plan_step *step)
{
    struct census *c = priv;
    c->steps++;
    c->subgroup += strstr(step->kernel->name, "subgroup") != NULL;
    for (size_t i = 0; i < c->num_seen; i++)
        if (strcmp(c->seen[i], step->kernel->name) == 0)
            return true;
    if (c->num_seen < sizeof(c->seen) / sizeof(c->seen[0])) {
        c->seen[c->num_seen++] = step->kernel->name;
        printf("# plan: %s\n", step->kernel->name);
    }
    return true;
}

static struct census take_census(void)
{
    struct census c = {0};
    printf("# %s, %s\n", dgl_device_get_info(engine.device)->renderer,
           dgl_device_gl_version(engine.device));
    dgl_model_plan_iterate(engine.model, count_step, &c);
    assert_true(c.steps > 0);
    return c;
}

static void check_plan(void)
{
    take_census();
}

static void check_plan_minimum(void)
{
    const struct dgl_limits *l = dgl_device_get_limits(engine.device);
    assert_int_equal(l->max_ssbo_bindings, 4);
    assert_int_equal(l->max_invocations, 128);
    assert_int_equal(l->max_shared_bytes, 16384);
    assert_int_equal(l->subgroup_size, 0);
    assert_int_equal(take_census().subgroup, 0);
}

static void check_plan_subgroups(void)
{
    printf("# subgroups of %u\n", dgl_device_get_limits(engine.device)->subgroup_size);
    assert_true(take_census().subgroup > 0);
}

/* ---- the table ------------------------------------------------------------------------------- */

struct row {
    const char *name;
    const struct setup *setup;
    void (*check)(void);
};

static const struct row rows[] = {
    {"plan", &f16_cache, check_plan},
    {"greedy_f16_cache", &f16_cache, check_greedy},
    {"logits_f16_cache", &f16_cache, check_logits},
    {"readback_interval", &f16_cache, check_readback},
    {"greedy_f32_cache", &f32_cache, check_greedy},
    {"forced_f32_cache", &f32_cache, check_forced},
    {"logits_f32_cache", &f32_cache, check_logits},
    {"sampled_f32_cache", &f32_cache, check_sampled},
    {"plan_limits_min", &minimum, check_plan_minimum},
    {"greedy_limits_min", &minimum, check_greedy},
    {"logits_limits_min", &minimum, check_logits},
    {"sampled_limits_min", &minimum, check_sampled},
    {"greedy_baseline", &baseline, check_greedy_once},
    {"logits_baseline", &baseline, check_logits},
    {"plan_subgroups", &subgroups, check_plan_subgroups},
    {"greedy_subgroups", &subgroups, check_greedy},
    {"forced_subgroups", &subgroups, check_forced},
    {"sampled_subgroups", &subgroups, check_sampled},
};

static void run_row(void **state)
{
    const struct row *row = *state;
    if (row->setup == &subgroups) {
        open_engine(&f32_cache);
        if (dgl_device_get_limits(engine.device)->subgroup_size == 0)
            SKIP("%s has no KHR_shader_subgroup", dgl_device_get_info(engine.device)->renderer);
    }
    open_engine(row->setup);
    row->check();
}

/* ---- comparisons --------------------------------------------------------------------------------
 */

static void read_case(FILE *f)
{
    assert_true(sampled.count < MAX_CASES);
    struct sampled_case *c = &sampled.items[sampled.count++];
    struct dgl_sampling *s = &c->sampling;
    assert_int_equal(fscanf(f, "%31s %f %d %f %f %f %d %" SCNu64 " %zu", c->name, &s->temperature,
                            &s->top_k, &s->top_p, &s->min_p, &s->repeat_penalty, &s->repeat_last_n,
                            &s->seed, &c->count),
                     9);
    assert_true(c->count > 0 && c->count <= MAX_STEPS);
    for (size_t i = 0; i < c->count; i++)
        assert_int_equal(fscanf(f, "%d %lf", &c->ids[i], &c->distance[i]), 2);
}

static void read_sampled(void)
{
    char word[16];
    FILE *f = fopen(SAMPLED, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%15s %zu", word, &sampled.num_prompt), 2);
    assert_true(sampled.num_prompt <= MAX_PROMPT);
    for (size_t i = 0; i < sampled.num_prompt; i++)
        assert_int_equal(fscanf(f, "%d", &sampled.prompt[i]), 1);
    while (fscanf(f, "%15s", word) == 1)
        read_case(f);
    assert_true(sampled.count > 0);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    read_sampled();
    reference_load(PACK ".reference", &whole);
    used = reference_short(&whole);
    if (reference_steps() && sampled.count > 2)
        sampled.count = 2;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_engine();
    reference_finish(&whole);
    return 0;
}

int main(void)
{
    struct CMUnitTest cases[sizeof(rows) / sizeof(rows[0])];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cases[i] = (struct CMUnitTest){.name = rows[i].name,
                                       .test_func = run_row,
                                       .initial_state = (void *)(uintptr_t)&rows[i]};
    return cmocka_run_group_tests(cases, set_up, tear_down);
}
