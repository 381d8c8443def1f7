/* Decoding as one program of phases. Published shapes are planned for a simulated GPU: they have
 * such a program, a validator accepts it, and rows wait wherever they must. Small checkpoints run
 * on a device: tokens and logits equal those of single dispatches, if a dispatch runs one row or
 * all rows of several tokens. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/exec/phases.h"
#include "core/seq/session.h"
#include "gl/gl_internal.h"
#include "tests/support/family.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/planned.h"
#include "tests/support/repeated_if.h"
#include "tests/support/tiny_engine.h"

static struct kernel_set *builtin;

/* ---- shapes ---------------------------------------------------------------------------------- */

#define CONTEXT 4096

/* Simulated memory: buffers that differ only by their addresses. */
struct fixture {
    struct planned p;
    struct dgl_device dev;
    struct memory memory;
    struct weight_buffers weights;
    struct workspace workspace;
    struct kv_cache kv;
    struct exec *exec;
    struct gl_buffer **buffers;
    char cookies[64];
};

struct fixture_params {
    const char *name; /* of the config */
    enum made_device device;
    const char *quantize;           /* NULL: the types of a Q4_K_M file */
    const struct shape_type *types; /* not NULL: these types */
    int32_t sequences;              /* 0: one */
    int32_t tokens;                 /* room of the KV cache; 0: CONTEXT */
    uint32_t bindings;              /* of the device; 0: as it has */
};

static void fixture_open(struct fixture *f, const struct fixture_params *params)
{
    const int32_t tokens = params->tokens ? params->tokens : CONTEXT;
    const bool q4_k = params->quantize && strcmp(params->quantize, "q4_k") == 0;
    uint64_t sizes[BUF_COUNT];
    struct arena_cursor cursor = {0}, kv = {0};
    char config[128];
    *f = (struct fixture){0};
    snprintf(config, sizeof(config), "tests/models/configs/%s.json", params->name);
    planned_open(&f->p,
                 &(struct shape_model_params){.config = config,
                                              .types = params->types,
                                              .q4_k_m = !params->quantize && !params->types,
                                              .quantize = params->quantize,
                                              .embed = q4_k ? "q4_k" : NULL},
                 params->device, builtin);
    if (params->bindings)
        f->p.device.limits.max_ssbo_bindings = params->bindings;
    assert_true(f->p.weights.num_buffers < 30);
    f->buffers = dgl_new_array(struct gl_buffer *, sizeof(f->cookies));
    for (size_t i = 0; i < sizeof(f->cookies); i++)
        f->buffers[i] = (struct gl_buffer *)&f->cookies[i];
    f->weights = (struct weight_buffers){.weights = &f->p.weights, .buffers = f->buffers};
    if (params->sequences)
        plan_batch_own_bytes(&f->p.plan, CONTEXT, params->sequences, sizes);
    else
        plan_sequence_bytes(&f->p.plan, CONTEXT, sizes);
    f->workspace.range[BUF_SUMS] = (struct gl_range){f->buffers[30], 0, 1 << 20};
    for (int i = 0; i < BUF_COUNT; i++)
        if (sizes[i]) {
            struct gl_range *range =
                i < BUF_STATE_COUNT ? &f->memory.state[i] : &f->memory.step_scratch[i];
            range->offset = arena_cursor_next(&cursor, &f->p.device, sizes[i]);
            range->size = sizes[i];
            range->buffer = f->buffers[31 + cursor.buffers];
        }
    struct kv_store *store = &f->kv.store[0];
    f->kv.num_groups = 1;
    store->group = f->p.plan.kv.group[0];
    store->layer = dgl_new_array(struct gl_range, store->group.layers);
    for (uint32_t i = 0; i < store->group.layers; i++) {
        uint64_t bytes = plan_kv_layer_bytes(&f->p.plan, tokens);
        uint64_t offset = arena_cursor_next(&kv, &f->p.device, bytes);
        store->layer[i] = (struct gl_range){f->buffers[47 + kv.buffers], offset, bytes};
    }
    f->memory.weights = &f->weights;
    f->memory.workspace = &f->workspace;
    f->memory.kv = &f->kv;
    f->dev.log = &f->p.log.log;
    assert_int_equal(
        exec_phases_create(&f->dev, &f->p.plan, &(struct exec_phases_params){0}, &f->exec), DGL_OK);
}

static void fixture_close(struct fixture *f)
{
    exec_unref(&f->exec);
    free(f->kv.store[0].layer);
    free(f->buffers);
    planned_close(&f->p);
}

struct shape_case {
    const char *name; /* of the config */
    enum made_device device;
    const char *parts[2]; /* of the reason; {NULL}: it has a program */
    int dispatches;       /* of a token */
    /* passes in which its longest rows stage x, with greedy sampling: the shared memory of all
     * kernels together fits into that of one work group */
    int passes;
};

static const struct shape_case shapes[] = {
    {"llama-3.2-1b", MADE_GPU, {NULL}, 1, 1},
    {"llama-3.1-8b", MADE_GPU, {NULL}, 1, 1},
    {"gemma-3-1b", MADE_GPU, {NULL}, 1, 1},
    {"qwen3-0.6b", MADE_GPU, {NULL}, 1, 1},
    {"gpt-oss-20b", MADE_GPU, {NULL}, 1, 1},
    {"mixtral-8x7b", MADE_GPU, {NULL}, 2, 2},
    {"qwen3-30b-a3b", MADE_GPU, {NULL}, 1, 1},
    {"llama-3.2-1b", MADE_MINIMUM, {"it needs 6 storage bindings or more, the device has 4"}, 0, 0},
};

/* DOPPLERGL_TEST_PHASES=DIR: the texts are left there, for compilers that need no device. */
static void keep_text(const char *name, const struct dgl_buf *text)
{
    const char *dir = getenv("DOPPLERGL_TEST_PHASES");
    char file[128];
    snprintf(file, sizeof(file), "%s.comp", name);
    if (dir)
        test_write_file(dir, file, text->p, text->len);
}

/* Fails if the source has a repeated condition (docs/kernels.md). A sample examines one source in
 * 15, because each source needs seconds. */
static void check_conditions(const struct dgl_buf *text)
{
    static uint64_t sources;
    struct repeated_if first;
    char why[REPEATED_IF_WHY];
    uint64_t seed = 0;
    if (!repeated_if_can_look() || (test_is_sample(&seed) && sources++ % 15 != seed % 15))
        return;
    const int found = repeated_if_look(text->p, &first, why);
    if (found < 0)
        fail_msg("cannot be read: %s", why);
    if (found > 0)
        fail_msg("line %u, `%s`, has the condition of line %u, `%s`, and alone uses a value of it",
                 first.second_line, first.second_source, first.line, first.source);
}

/* glslangValidator accepts the text. */
static void validate(const struct dgl_buf *text)
{
    if (system("command -v glslangValidator > /dev/null 2>&1") != 0)
        SKIP("glslangValidator is not installed");
    char *dir = test_tmpdir(), command[512], said[2048];
    test_write_file(dir, "x.comp", text->p, text->len);
    snprintf(command, sizeof(command), "glslangValidator -S comp %s/x.comp", dir);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(said, 1, sizeof(said) - 1, pipe);
    said[len] = '\0';
    int code = pclose(pipe);
    test_tmpdir_remove(dir);
    if (code != 0)
        fail_msg("glslangValidator: %s", said);
    check_conditions(text);
}

/* The largest PASSES of the text's matrix products. */
static int most_passes(const char *text)
{
    static const char name[] = "_PASSES (";
    int most = 0;
    for (const char *at = text; (at = strstr(at, name)); at++) {
        int passes = atoi(at + strlen(name));
        most = passes > most ? passes : most;
    }
    return most;
}

/* Variables of separate types, and arrays that are not shared. A compiler keeps them in registers
 * between rounds of the loop over rows, in addition to those of all other kernels. (Measured for
 * first keys: Llama 3.2 1B needs 518 us a token instead of 487. For arrays with the first weights:
 * Q3_K_M of it needs 1,567 us instead of 626.) */
static void check_variables(const char *text)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        char type[64], name[64], after;
        line += *line == '\n';
        if (sscanf(line, "P%*d_%63[a-z0-9_] P%63[A-Za-z0-9_]%c", type, name, &after) == 3 &&
            strchr(";,[=", after))
            fail_msg("P%s is a %s", name, type);
        if (sscanf(line, "%63[a-z0-9] P%63[A-Za-z0-9_]%c", type, name, &after) == 3 && after == '[')
            fail_msg("P%s, an array of %s, is not shared", name, type);
    }
}

static void test_shape(void **state)
{
    const struct shape_case *c = *state;
    struct fixture f;
    struct dgl_buf text = {0};
    char reason[256];
    fixture_open(&f, &(struct fixture_params){c->name, c->device, .quantize = "q4_k_m"});
    for (int kind = SAMPLE_GREEDY; kind < SAMPLE_KINDS; kind++) {
        enum dgl_status status = exec_phases_check(
            f.exec, recipe_decode((enum sample_kind)kind, 0, true), &f.memory, reason, &text);
        if (c->parts[0]) {
            assert_int_equal(status, DGL_ERR_UNSUPPORTED);
            assert_contains(reason, c->parts[0]);
            if (c->parts[1])
                assert_contains(reason, c->parts[1]);
            printf("# %s: %s\n", c->name, reason);
        } else {
            if (status != DGL_OK)
                fail_msg("no program: %s%s", reason, f.p.log.text);
            assert_false(text.failed);
            check_variables(text.p);
            const char *told = strstr(reason, "a token takes ");
            const int dispatches = told ? atoi(told + strlen("a token takes ")) : 1;
            if (kind == SAMPLE_GREEDY && dispatches != c->dispatches)
                fail_msg("%d dispatches, not %d: %s", dispatches, c->dispatches, reason);
            const char *local = strstr(text.p, "local_size_x = ");
            printf("# %s: %zu bytes, groups of %d\n", c->name, text.len, atoi(local + 15));
            if (atoi(local + 15) < 256) /* too few to keep a multiprocessor's memory busy */
                fail_msg("groups of %d invocations, not 256", atoi(local + 15));
            if (kind == SAMPLE_GREEDY) {
                keep_text(c->name, &text);
                if (atoi(local + 15) != 512)
                    fail_msg("groups of %d invocations, not 512", atoi(local + 15));
                if (strstr(text.p, "for (int "))
                    fail_msg("a loop is left: %.60s", strstr(text.p, "for (int "));
                int passes = most_passes(text.p);
                if (passes != c->passes)
                    fail_msg("x is staged in %d passes, not %d", passes, c->passes);
                validate(&text);
            }
        }
        dgl_buf_finish(&text);
    }
    assert_string_equal(f.p.log.text, ""); /* the caller reports reasons */
    fixture_close(&f);
}

struct mix_case {
    const char *name; /* of the config */
    int32_t tokens;   /* room of the KV cache */
    uint32_t bindings;
    uint32_t dispatches, wanted; /* of a token; storage bindings of one dispatch */
};

static const struct mix_case mixes[] = {
    {"llama-3.2-1b", 131072, 16, 1, 0},  {"llama-3.2-3b", 4096, 16, 1, 0},
    {"llama-3.2-3b", 65536, 16, 1, 0},   {"llama-3.2-3b", 131072, 16, 2, 17},
    {"llama-3.1-8b", 4096, 16, 1, 0},    {"llama-3.1-8b", 65536, 16, 1, 0},
    {"llama-3.1-8b", 131072, 16, 2, 19}, {"qwen3-30b-a3b", 4096, 16, 1, 0},
    {"qwen3-30b-a3b", 40960, 16, 2, 17}, {"mixtral-8x7b", 4096, 16, 2, 21},
    {"llama-3.2-1b", 4096, 8, 1, 0},     {"llama-3.2-3b", 4096, 8, 1, 0},
    {"llama-3.1-8b", 4096, 8, 64, 9},    {"qwen3-30b-a3b", 4096, 8, 85, 16},
    {"mixtral-8x7b", 4096, 8, 65, 21},
};

/* A token of a Q4_K_M file is one persistent dispatch, or the reason for several is reported. */
static void test_mix(void **state)
{
    const struct mix_case *c = *state;
    struct fixture f;
    struct dgl_buf text = {0};
    char reason[256], want[256] = "";
    fixture_open(&f, &(struct fixture_params){c->name, MADE_GPU, .tokens = c->tokens,
                                              .bindings = c->bindings});
    if (c->dispatches > 1)
        snprintf(want, sizeof(want),
                 "a token takes %u persistent dispatches, since one for all of it needs %u storage "
                 "bindings and %u can be had",
                 c->dispatches, c->wanted, c->bindings);
    if (exec_phases_check(f.exec, recipe_decode(SAMPLE_GREEDY, 0, true), &f.memory, reason,
                          &text) != DGL_OK)
        fail_msg("no program: %s%s", reason, f.p.log.text);
    printf("# %s: %zu bytes, %zu buffers of weights\n", c->name, text.len, f.p.weights.num_buffers);
    if (strcmp(reason, want) != 0)
        fail_msg("%s, not %s", reason, want);
    dgl_buf_finish(&text);
    fixture_close(&f);
}

struct type_case {
    const char *name;
    enum dgl_dtype dtype;
};

static const struct type_case types[] = {
    {"f16", DGL_F16},         {"bf16", DGL_BF16},     {"q4_0", DGL_Q4_0},
    {"q4_1", DGL_Q4_1},       {"q5_0", DGL_Q5_0},     {"q5_1", DGL_Q5_1},
    {"q8_0", DGL_Q8_0},       {"q2_k", DGL_Q2_K},     {"q3_k", DGL_Q3_K},
    {"q4_k", DGL_Q4_K},       {"q5_k", DGL_Q5_K},     {"q6_k", DGL_Q6_K},
    {"iq4_nl", DGL_IQ4_NL},   {"iq4_xs", DGL_IQ4_XS}, {"iq3_s", DGL_IQ3_S},
    {"iq3_xxs", DGL_IQ3_XXS}, {"iq2_s", DGL_IQ2_S},   {"iq2_xs", DGL_IQ2_XS},
    {"iq2_xxs", DGL_IQ2_XXS}, {"iq1_s", DGL_IQ1_S},   {"iq1_m", DGL_IQ1_M},
    {"tq1_0", DGL_TQ1_0},     {"tq2_0", DGL_TQ2_0},   {"q1_0", DGL_Q1_0},
    {"q2_0", DGL_Q2_0},
};

/* Each type of weights, in a mix with two others, has a program. */
static void test_type(void **state)
{
    const struct type_case *c = *state;
    const struct shape_type list[] = {{"norm.weight", DGL_F32},
                                      {"embed_tokens.weight", DGL_Q6_K},
                                      {"down_proj.weight", DGL_Q4_K},
                                      {"_proj.weight", c->dtype},
                                      {NULL, DGL_F32}};
    struct fixture f;
    struct dgl_buf text = {0};
    char reason[256];
    fixture_open(&f, &(struct fixture_params){"llama-3.2-1b", MADE_GPU, .types = list});
    if (exec_phases_check(f.exec, recipe_decode(SAMPLE_GREEDY, 0, true), &f.memory, reason,
                          &text) != DGL_OK)
        fail_msg("no program: %s%s", reason, f.p.log.text);
    check_variables(text.p);
    validate(&text);
    dgl_buf_finish(&text);
    fixture_close(&f);
}

struct pass_case {
    const char *name, *quantize; /* of the config */
    int32_t rows;
    const char *reason; /* NULL: it has a program */
    int local;          /* of its groups */
};

static const struct pass_case passes[] = {
    {"llama-3.2-1b", "q4_k", 2, NULL, 512},
    {"llama-3.2-1b", "q4_k", 3, NULL, 512},
    {"llama-3.2-1b", "q4_k", 8, NULL, 256},
    {"llama-3.1-8b", "q4_k", 8, "bytes of shared memory, the device has", 0},
    {"llama-3.1-8b", "q4_k", 4, NULL, 512},
    {"llama-3.1-8b", "q8_0", 8, NULL, 256},
    {"llama-3.2-1b", "q8_0", 8, NULL, 256},
    {"qwen3-0.6b", "q4_k_m", 4, NULL, 512},
    {"gemma-3-1b", "q4_k_m", 4, NULL, 512},
    {"llama-3.2-1b", "q4_k_m", 8, NULL, 256},
    {"gpt-oss-20b", "q4_k_m", 8, "moe_group cannot have 256 invocations", 0},
    {"llama-3.2-1b", "q4_k", 16, NULL, 256}, /* not used: more than PLAN_PHASE_ROWS */
};

/* Rows that may belong to the same sequence. */
static const struct pass_case mixed_passes[] = {
    {"llama-3.2-1b", "q4_k", 8, NULL, 256},
    {"qwen3-0.6b", "q4_k_m", 4, NULL, 512},
};

/* Passes over up to PLAN_PHASE_ROWS rows have programs too. */
static void check_pass(const struct pass_case *c, bool mixed)
{
    struct fixture f;
    struct dgl_buf text = {0};
    char reason[256];
    fixture_open(&f, &(struct fixture_params){c->name, MADE_GPU, c->quantize, .sequences = 8});
    assert_int_equal(plan_add_batch(&f.p.plan), DGL_OK);
    assert_int_equal(plan_list(&f.p.plan, PASS_MIXED(1)), DGL_OK);
    struct recipe recipe = recipe_sampling(SAMPLE_GREEDY, 0);
    recipe.shapes = shapes_add(recipe.shapes, plan_batch_shape(&f.p.plan, c->rows));
    recipe.repeats = true;
    if (mixed)
        recipe = recipe_of(plan_body(&f.p.plan, PASS_MIXED(c->rows > 4 ? 3 : 2))->shape);
    enum dgl_status status = exec_phases_check(f.exec, recipe, &f.memory, reason, &text);
    if (c->reason) {
        assert_int_equal(status, DGL_ERR_UNSUPPORTED);
        assert_contains(reason, c->reason);
    } else {
        if (status != DGL_OK)
            fail_msg("no program: %s%s", reason, f.p.log.text);
        char name[64];
        snprintf(name, sizeof(name), "%s-%s-%d%s", c->name, c->quantize, c->rows,
                 mixed ? "-mixed" : "");
        printf("# %s: %zu bytes %s\n", name, text.len, reason);
        keep_text(name, &text);
        const char *local = strstr(text.p, "local_size_x = ");
        assert_int_equal(atoi(local + 15), c->local);
        if (strstr(text.p, "for (int "))
            fail_msg("a loop is left: %.60s", strstr(text.p, "for (int "));
        validate(&text);
    }
    assert_string_equal(f.p.log.text, "");
    dgl_buf_finish(&text);
    fixture_close(&f);
}

static void test_pass_shape(void **state)
{
    check_pass(*state, false);
}

static void test_mixed_shape(void **state)
{
    check_pass(*state, true);
}

/* Constants that determine how the invocations of a group share the work: no sum depends on them.
 */
static const char *const shares[] = {
    "WG_SIZE", "ROW_SETS", "ROW_LANES", "PASSES",      "FITS", "WHOLE", "X_ROUNDS",  "X_SLICES",
    "STAGED",  "FULL",     "TAILS",     "SUBGROUPS_N", "TURN", "CHUNK", "SUBGROUPS", "AT_A_TIME"};

static bool is_share(const char *name)
{
    bool found = false;
    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++)
        found |= strcmp(shares[i], name) == 0;
    return found;
}

/* A kernel with this number of invocations and this much less shared memory. All other properties
 * are those of single dispatches. */
static void check_resized(const struct planned *p, const struct kernel_use *use, uint32_t local,
                          int64_t spare)
{
    struct kernel_var properties[KERNEL_MAX_PROPERTIES];
    const struct kernel_choice *plain = &use->choice;
    struct kernel_choice sized;
    for (size_t i = 0; i < p->device.num_properties; i++) {
        properties[i] = p->device.properties[i];
        if (strcmp(properties[i].name, "SHARED_BYTES") == 0)
            properties[i].value -= spare;
    }
    if (!kernel_choice_resize(p->plan.kernels.set, &use->request, properties,
                              p->device.num_properties, plain, local, &sized))
        return;
    for (uint32_t i = 0; i < plain->num_consts + plain->num_tunes + plain->num_lets; i++)
        if (plain->vars[i].value != sized.vars[i].value && !is_share(plain->vars[i].name))
            fail_msg("%s of %s is %lld with %u invocations and %lld bytes less, %lld without",
                     plain->vars[i].name, plain->kernel->name, (long long)sized.vars[i].value,
                     local, (long long)spare, (long long)plain->vars[i].value);
}

/* Both executors use the same order of sums for every number of groups: equal tokens. */
static void test_order(void **state)
{
    const struct shape_case *c = *state;
    static const struct pass_shape steps[] = {PASS_DECODE,
                                              PASS_HEAD,
                                              PASS_ADJUST,
                                              PASS_SAMPLE(SAMPLE_GREEDY),
                                              PASS_SAMPLE(SAMPLE_TOPK),
                                              PASS_SAMPLE(SAMPLE_FULL)};
    struct planned p;
    char config[128];
    snprintf(config, sizeof(config), "tests/models/configs/%s.json", c->name);
    if (c->parts[0])
        SKIP("it has no program");
    for (int type = 0; type < 2; type++) {
        planned_open(
            &p,
            &(struct shape_model_params){.config = config, .quantize = type ? "q8_0" : "q4_k_m"},
            c->device, builtin);
        for (size_t s = 0; s < sizeof(steps) / sizeof(*steps); s++)
            for (size_t i = 0; i < plan_body(&p.plan, steps[s])->ops.count; i++)
                for (uint32_t local = 512; local >= 64; local /= 2)
                    for (int64_t spare = 0; spare <= 6 * 6144; spare += 6144)
                        check_resized(&p, plan_body(&p.plan, steps[s])->use[i], local, spare);
        planned_close(&p);
    }
}

/* A run that is not a decode step is refused, with the reason. */
static void test_other_recipes(void **state)
{
    (void)state;
    struct fixture f;
    char reason[256];
    fixture_open(&f, &(struct fixture_params){"llama-3.2-1b", MADE_GPU, .quantize = "q4_k_m"});
    assert_int_equal(exec_phases_check(f.exec, recipe_of(PASS_HEAD), &f.memory, reason, NULL),
                     DGL_ERR_UNSUPPORTED);
    assert_contains(reason, "no decode step");
    fixture_close(&f);
}

/* ---- the schedule ---------------------------------------------------------------------------- */

/* The operations of a plan, with each buffer at a separate place. */
static size_t place_ops(const struct plan *plan, struct phase_op *ops, size_t most)
{
    static const struct pass_shape order[] = {PASS_DECODE, PASS_HEAD, PASS_SAMPLE(SAMPLE_GREEDY)};
    size_t count = 0;
    for (size_t s = 0; s < sizeof(order) / sizeof(*order); s++)
        for (size_t i = 0; i < plan_body(plan, order[s])->ops.count; i++) {
            const struct kernel_choice *choice = &plan_body(plan, order[s])->use[i]->choice;
            struct phase_op *op = &ops[count++];
            assert_true(count <= most);
            *op = (struct phase_op){.op = &plan_body(plan, order[s])->ops.ops[i],
                                    .choice = choice,
                                    .groups = {7, 2, 3}};
            for (uint32_t j = 0; j < choice->kernel->num_binds; j++) {
                struct ref ref = op_find_bind(op->op, choice->kernel->binds[j].name)->ref;
                bool own = ref.kind == REF_STATE || ref.kind == REF_ACT;
                op->place[j].buffer = own ? 0 : ref.kind == REF_KV ? 1 : 2;
                op->place[j].offset = (ref.id * 8 + ref.part) * 4096ull;
            }
        }
    return count;
}

static bool writes(const struct phase_op *op, const struct op_bind *bind)
{
    const struct kernel *k = op->choice->kernel;
    for (uint32_t i = 0; i < k->num_binds; i++)
        if (strcmp(k->binds[i].name, bind->name) == 0)
            return (k->binds[i].access & KERNEL_WRITE) != 0;
    return false;
}

static bool uses(const struct phase_op *op, const struct op_bind *bind)
{
    for (uint32_t i = 0; i < op->choice->kernel->num_binds; i++)
        if (strcmp(op->choice->kernel->binds[i].name, bind->name) == 0)
            return true;
    return false;
}

/* If a row writes data that another row uses, groups wait somewhere between the two. Each wait has
 * a reason. */
static void check_waits(const struct phase_op *ops, size_t count, const struct phase_schedule *s)
{
    const struct phase_program *p = &s->program;
    const uint32_t *rows = s->table + p->shared_words;
    for (size_t i = 0; i < count; i++) {
        bool waited = false, needed = false;
        for (size_t j = i; j-- > 0;) {
            waited |= rows[j * p->row_words + 3] != 0;
            for (uint32_t a = 0; a < ops[i].op->num_binds; a++)
                for (uint32_t b = 0; b < ops[j].op->num_binds; b++) {
                    const struct op_bind *x = &ops[i].op->binds[a], *y = &ops[j].op->binds[b];
                    if (memcmp(&x->ref, &y->ref, sizeof(x->ref)) != 0 || !uses(&ops[i], x) ||
                        !uses(&ops[j], y) || (!writes(&ops[i], x) && !writes(&ops[j], y)))
                        continue;
                    needed = true;
                    if (!waited)
                        fail_msg("row %zu (%s) does not wait for row %zu (%s)", i, ops[i].op->label,
                                 j, ops[j].op->label);
                }
        }
        if (i > 0 && rows[(i - 1) * p->row_words + 3] && !needed)
            fail_msg("row %zu (%s) waits for nothing", i, ops[i].op->label);
    }
}

static void check_value(const uint32_t *row, const struct phase_schedule *s,
                        struct phase_value value, uint32_t want, const char *what)
{
    uint32_t got = value.source == PHASE_LITERAL  ? value.word
                   : value.source == PHASE_SHARED ? s->table[value.word]
                                                  : row[PHASE_ROW_WORDS + value.word];
    if (got != want)
        fail_msg("%s is %u, not %u", what, got, want);
}

#define MOST_OPS 512

/* A plan with places; all kernels get the same number of invocations. */
struct placed {
    struct planned p;
    struct phase_op ops[MOST_OPS];
    struct kernel_choice *choices;
    struct phase_schedule_params params;
};

static void placed_open(struct placed *d)
{
    planned_open(&d->p,
                 &(struct shape_model_params){.config = "tests/models/configs/gemma-3-1b.json",
                                              .quantize = "q4_k_m"},
                 MADE_GPU, builtin);
    d->params = (struct phase_schedule_params){.log = &d->p.log.log,
                                               .ops = d->ops,
                                               .local = 256,
                                               .max_views = 16,
                                               .max_table_bytes = 65536,
                                               .max_shared_bytes = 1 << 20};
    d->params.count = place_ops(&d->p.plan, d->ops, MOST_OPS);
    d->params.barrier = kernel_set_lib(builtin, "device_barrier");
    d->choices = dgl_new_array(struct kernel_choice, d->p.plan.kernels.count);
    for (size_t i = 0; i < d->p.plan.kernels.count; i++) {
        const struct kernel_choice *from = &d->p.plan.kernels.uses[i]->choice;
        d->choices[i] = *from;
        d->choices[i].local[0] = 256;
        for (size_t j = 0; j < d->params.count; j++)
            d->ops[j].choice = d->ops[j].choice == from ? &d->choices[i] : d->ops[j].choice;
    }
}

static void placed_close(struct placed *d)
{
    free(d->choices);
    planned_close(&d->p);
}

/* Every row of the table has the fields that its operation needs. */
static void test_schedule(void **state)
{
    (void)state;
    static struct placed d;
    placed_open(&d);
    struct phase_schedule_params params = d.params;
    const struct phase_op *ops = d.ops;
    struct phase_schedule s;
    char reason[256];
    if (phase_schedule_init(&s, &params, reason) != DGL_OK)
        fail_msg("%s", reason);
    const struct phase_program *program = &s.program;
    assert_int_equal(program->num_rows, params.count);
    assert_true(program->num_views <= 16);
    for (size_t i = 0; i < params.count; i++) {
        const uint32_t *row = s.table + program->shared_words + i * program->row_words;
        const struct phase_use *use = &program->uses[row[0]];
        const struct kernel *kernel = ops[i].choice->kernel;
        assert_ptr_equal(use->choice, ops[i].choice);
        assert_int_equal(row[1], 7 * 3);
        assert_int_equal(row[2], 7 * 3 * 2);
        for (uint32_t j = 0; j < kernel->num_binds; j++) {
            const struct phase_view *view = &program->views[use->view[j]];
            assert_int_equal(s.parts[0].buffer[use->view[j]], ops[i].place[j].buffer);
            if (kernel->binds[j].access & KERNEL_WRITE)
                assert_string_equal(view->type, kernel->binds[j].type);
            assert_int_equal(view->written, ops[i].place[j].buffer != 2);
            check_value(
                row, &s, use->base[j],
                (uint32_t)(ops[i].place[j].offset / phase_type_bytes(kernel->binds[j].type)),
                kernel->binds[j].name);
        }
        for (uint32_t j = 0; j < kernel->num_params; j++) {
            const struct op_param *param = op_find_param(ops[i].op, kernel->params[j].name);
            uint32_t want = param->u;
            if (param->is_float)
                memcpy(&want, &param->f, sizeof(want));
            check_value(row, &s, use->param[j], want, param->name);
        }
    }
    check_waits(ops, params.count, &s);
    phase_schedule_finish(&s);
    params.max_table_bytes = 1024;
    assert_int_equal(phase_schedule_init(&s, &params, reason), DGL_ERR_UNSUPPORTED);
    assert_contains(reason, "a uniform block at most 1024");
    params.max_table_bytes = 65536;
    params.max_shared_bytes = 4096;
    assert_int_equal(phase_schedule_init(&s, &params, reason), DGL_ERR_UNSUPPORTED);
    assert_contains(reason, "bytes of shared memory, the device has 4096");
    params.max_shared_bytes = 1 << 20;
    struct kernel early = *ops[0].choice->kernel;
    early.begins = early.uses_step = true;
    struct kernel_choice *first = &d.choices[ops[0].choice - d.choices];
    const struct kernel *kernel = first->kernel;
    first->kernel = &early;
    assert_int_equal(phase_schedule_init(&s, &params, reason), DGL_ERR_UNSUPPORTED);
    assert_contains(reason, "begins the step and has both begin() and STEP");
    first->kernel = kernel;
    params.local = 128;
    assert_int_equal(phase_schedule_init(&s, &params, reason), DGL_ERR_UNSUPPORTED);
    assert_contains(reason, "256 invocations, not 128");
    placed_close(&d);
}

/* Weights in more buffers than can be bound: consecutive parts. In each part the buffers of every
 * row are bound to the views that its kernel's text names. */
static void test_parts(void **state)
{
    (void)state;
    static struct placed d;
    placed_open(&d);
    struct phase_schedule_params params = d.params;
    struct phase_schedule s;
    char reason[256];
    for (size_t i = 0; i < params.count; i++)
        for (uint32_t j = 0; j < d.ops[i].choice->kernel->num_binds; j++)
            if (d.ops[i].place[j].buffer == 2)
                d.ops[i].place[j].buffer += (uint32_t)(i / 9);
    uint32_t before = 0;
    for (params.max_views = 16; params.max_views >= 9; params.max_views--) {
        if (phase_schedule_init(&s, &params, reason) != DGL_OK)
            fail_msg("%u bindings: %s", params.max_views, reason);
        printf("# %u bindings: %u parts, %u uses\n", params.max_views, s.num_parts,
               s.program.num_uses);
        assert_true(s.wanted_views > params.max_views);
        assert_true(s.num_parts > 1 && s.num_parts >= before);
        assert_int_equal(s.program.parts, s.num_parts);
        assert_true(s.program.num_views <= params.max_views);
        before = s.num_parts;
        /* data that a later part reads first forces a wait in the step before it */
        bool early = false;
        for (uint32_t p = 0; p < s.num_parts; p++) {
            const struct phase_part *part = &s.parts[p];
            assert_int_equal(part->first, p ? part[-1].last : 0);
            assert_true(part->last > part->first);
            const struct kernel *first = d.ops[part->first].choice->kernel;
            early |= p > 0 && first->begins && (first->uses_step || first->writes_step);
            for (uint32_t v = 0; v + 1 < s.program.num_views; v++)
                assert_true(part->buffer[v] <= 2 + params.count / 9);
            for (uint32_t r = part->first; r < part->last; r++) {
                const uint32_t *row = s.table + s.program.shared_words + r * s.program.row_words;
                const struct phase_use *use = &s.program.uses[row[0]];
                assert_ptr_equal(use->choice, d.ops[r].choice);
                for (uint32_t j = 0; j < use->choice->kernel->num_binds; j++)
                    if (part->buffer[use->view[j]] != d.ops[r].place[j].buffer)
                        fail_msg("row %u of part %u sees buffer %u as %s, not %u", r, p,
                                 part->buffer[use->view[j]], use->choice->kernel->binds[j].name,
                                 d.ops[r].place[j].buffer);
            }
        }
        assert_int_equal(s.parts[s.num_parts - 1].last, params.count);
        assert_int_equal(s.program.one_row, early);
        check_waits(d.ops, params.count, &s);
        phase_schedule_finish(&s);
    }
    params.max_views = 6;
    assert_int_equal(phase_schedule_init(&s, &params, reason), DGL_ERR_UNSUPPORTED);
    assert_contains(reason, "more than the 6 storage bindings");
    placed_close(&d);
}

/* ---- on a device ----------------------------------------------------------------------------- */

#define TOKENS 9

/* Kernels that are quick to compile, many of them in one program. */
#define SMALL                                                                                      \
    "{\"variants\":{\"matmul/decode\":\"matmul_decode\",\"attn_decode\":\"attn_decode\","          \
    "\"moe_matmul/decode\":\"moe_decode\"},"                                                       \
    "\"tunes\":{\"matmul_decode.THREAD_ROWS\":1,\"moe_decode.THREAD_ROWS\":1,"                     \
    "\"attn_decode.HEADS_BLOCK\":1}}"

/* Kernels with subgroups, which load weights before groups wait, and with attention split over
 * keys. */
#define SUBGROUP(attention)                                                                        \
    "{\"variants\":{\"matmul/decode\":\"matmul_decode_subgroup\"," attention                       \
    ",\"moe_matmul/decode\":\"moe_decode_subgroup\"},"                                             \
    "\"tunes\":{\"attn_token_subgroup.AHEAD\":2}}"
#define BASELINE_ATTENTION "\"attn_decode\":\"attn_decode\""
#define TOKEN_ATTENTION    "\"attn_token\":\"attn_token_subgroup\""

struct run_case {
    const char *name; /* of the family */
    bool one_row;
    uint32_t bindings; /* of the device; 0 = as many as it has */
    /* maximum size of one buffer: determines the number of a model's buffers */
    uint64_t binding_bytes;
};

/* Together, these families have every kernel of a decode step, and programs by rows and whole:
 * plain, norms of q and k, post-norms, windows, biases, packed projections, experts, sinks. They
 * are few because LLVM needs seconds for each program. */
static const struct run_case runs[] = {
    {.name = "llama3", .one_row = true},
    {.name = "llama3"},
    {.name = "gemma3", .one_row = true},
    {.name = "gpt-oss-mxfp4"},
    {.name = "qwen2-yarn"},
    {.name = "phi3-longrope", .one_row = true},
    {.name = "qwen3", .one_row = true},
    {.name = "olmo2"},
};

/* Layouts of weights that depend on the device, if it has subgroups. The first case also has them
 * in attention, which compiles slowly. */
static const struct run_case subgroup_runs[] = {
    {.name = "synthetic:story-llama:q4_k", .one_row = true},
    {.name = "synthetic:story-llama:q4_k"},
    {.name = "synthetic:story-llama:q8_0"},
    {.name = "synthetic:story-moe:q4_k"},
};

/* Models in more buffers than a dispatch can bind: a token in parts. */
static const struct run_case part_runs[] = {
    {"qwen3-moe", false, 8, 1 << 18},
    {"mixtral", true, 10, 1 << 18},
    {"gpt-oss-mxfp4", false, 16, 1 << 18},
};

struct phase_prompt {
    const int32_t *ids;
    size_t num_ids;
};

/* A greedy answer of TOKENS, by the executor or (NULL) as the engine does it; and the last logits.
 */
static void answer(struct dgl_session *s, const struct phase_prompt *prompt, struct exec *exec,
                   const char *log, int32_t ids[TOKENS], float **logits)
{
    struct gl_saved saved;
    struct exec_run *sample, *decode = NULL;
    struct dgl_step step = {.pos = (uint32_t)prompt->num_ids - 1,
                            .tokens = 1,
                            .context = (uint32_t)s->seq.context,
                            .flags = DGL_STEP_IGNORE_EOS};
    const struct recipe recipe = recipe_decode(SAMPLE_GREEDY, 0, false);
    dgl_session_trim(s, 0);
    tiny_sync(s, prompt->ids, prompt->num_ids);
    assert_int_equal(session_enter(s, &saved), DGL_OK);
    assert_int_equal(session_reserve(s, (int32_t)prompt->num_ids + TOKENS), DGL_OK);
    assert_int_equal(runner_run(&s->state.runner, recipe_sampling(SAMPLE_GREEDY, 0), &sample),
                     DGL_OK);
    if (exec && exec_run_create(exec, recipe, &s->state.memory, &decode) != DGL_OK)
        fail_msg("no run: %s", log);
    else if (!exec)
        assert_int_equal(runner_run(&s->state.runner, recipe, &decode), DGL_OK);
    assert_int_equal(pass_state_write_step(&s->state, &step, 0), DGL_OK);
    memset(ids, 0xff, TOKENS * sizeof(*ids));
    const struct gl_range at = s->state.memory.state[BUF_IDS];
    assert_int_equal(gl_buffer_write(s->model->shard->dev->gl, at.buffer,
                                     at.offset + prompt->num_ids * sizeof(*ids), ids,
                                     TOKENS * sizeof(*ids)),
                     DGL_OK);
    assert_int_equal(exec_run_submit(sample, 1, NULL), DGL_OK);
    /* llvmpipe ends the loops of a dispatch after 65,535 rounds in all. */
    for (int i = 1; i < TOKENS; i += 2)
        assert_int_equal(exec_run_submit(decode, 2, NULL), DGL_OK);
    assert_int_equal(session_read_ids(s, (int32_t)prompt->num_ids, TOKENS, ids), DGL_OK);
    if (exec) {
        printf("# %u dispatches per token\n", exec_phases_parts(decode));
        exec_run_destroy(&decode);
    }
    assert_int_equal(session_leave(s, &saved, NULL, DGL_OK), DGL_OK);
    *logits = tiny_logits(s);
}

/* The same tokens and logits by an executor of phases as by single dispatches. */
static void compare(const struct run_case *c, const char *path, const struct phase_prompt *prompt,
                    const char *hints, double most)
{
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    struct exec *exec = NULL;
    int32_t wanted[TOKENS], got[TOKENS];
    float *by_dispatch, *by_phases;
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = hints), &kernels),
                     DGL_OK);
    tiny_engine_open(&e, &(struct tiny_engine_params){.path = path,
                                                      .context = 128,
                                                      .kv_type = DGL_KV_F32,
                                                      .kernels = kernels,
                                                      .bindings = c->bindings,
                                                      .binding_bytes = c->binding_bytes});
    /* A single group waits for no other group: every device runs all rows of all tokens in one
     * dispatch. */
    assert_int_equal(
        exec_phases_create(
            e.device, &e.model->shard->engine->plan,
            &(struct exec_phases_params){.one_row = c->one_row, .groups = 1, .max_spins = 1000000},
            &exec),
        DGL_OK);
    answer(e.session, prompt, NULL, e.log.text, wanted, &by_dispatch);
    answer(e.session, prompt, exec, e.log.text, got, &by_phases);
    size_t vocab = (size_t)e.model->info.vocab;
    for (int i = 0; i < TOKENS; i++)
        if (got[i] != wanted[i])
            fail_msg("token %d is %d, by dispatches %d", i, got[i], wanted[i]);
    double nmse = tiny_nmse(by_phases, by_dispatch, vocab);
    printf("# %s: NMSE of the last logits %.3g\n", c->name, nmse);
    assert_at_most(nmse, most);
    exec_unref(&exec);
    free(by_dispatch);
    free(by_phases);
    tiny_engine_close(&e);
    dgl_kernels_destroy(&kernels);
}

/* Runs of several sequences share one program, as long as one of the runs exists. */
static void test_shared_program(void **state)
{
    (void)state;
    const struct recipe recipe = recipe_decode(SAMPLE_GREEDY, 0, false);
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    struct dgl_session *other = NULL;
    struct exec *exec = NULL;
    struct gl_saved saved;
    static const struct {
        int made, dropped; /* of the two runs; -1 = no run */
        uint64_t links;    /* programs */
    } steps[] = {{0, -1, 1}, {1, -1, 0}, {-1, 0, 0}, {0, -1, 0},
                 {-1, 1, 0}, {-1, 0, 0}, {1, -1, 1}};
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = SMALL), &kernels),
                     DGL_OK);
    tiny_engine_open(
        &e, &(struct tiny_engine_params){.context = 64, .kv_type = DGL_KV_F32, .kernels = kernels});
    assert_int_equal(dgl_session_create(e.model, dgl_session_params(.context = 64), &other),
                     DGL_OK);
    struct exec_run *run[2] = {NULL, NULL};
    const struct memory *memory[2] = {&e.session->state.memory, &other->state.memory};
    assert_int_equal(exec_phases_create(e.device, &e.model->shard->engine->plan,
                                        &(struct exec_phases_params){.groups = 1}, &exec),
                     DGL_OK);
    assert_int_equal(session_enter(e.session, &saved), DGL_OK);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const uint64_t linked = gl_device_counters(e.device->gl).programs_linked;
        const int made = steps[i].made, dropped = steps[i].dropped;
        if (made >= 0)
            assert_int_equal(exec_run_create(exec, recipe, memory[made], &run[made]), DGL_OK);
        if (dropped >= 0)
            exec_run_destroy(&run[dropped]);
        const uint64_t links = gl_device_counters(e.device->gl).programs_linked - linked;
        if (links != steps[i].links)
            fail_msg("step %zu linked %llu programs, expected %llu", i, (unsigned long long)links,
                     (unsigned long long)steps[i].links);
        assert_true(!run[0] || !run[1] ||
                    exec_phases_record(run[0])->program == exec_phases_record(run[1])->program);
    }
    for (int i = 0; i < 2; i++)
        exec_run_destroy(&run[i]);
    exec_unref(&exec);
    assert_int_equal(session_leave(e.session, &saved, NULL, DGL_OK), DGL_OK);
    dgl_session_destroy(&other);
    assert_int_equal(e.log.errors, 0);
    tiny_engine_close(&e);
    dgl_kernels_destroy(&kernels);
}

static void test_run(void **state)
{
    const struct run_case *c = *state;
    const char *dir = family_dir(c->name);
    struct reference ref;
    reference_load(dir, &ref);
    compare(c, dir, &(struct phase_prompt){ref.prompt[0].ids, ref.prompt[0].num_ids}, SMALL, 1e-12);
    reference_finish(&ref);
}

static void test_subgroup_run(void **state)
{
    const struct run_case *c = *state;
    const int32_t ids[] = {5, 6, 7, 8};
    struct dgl_device *dev = NULL;
    assert_int_equal(dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev), DGL_OK);
    const uint32_t size = dgl_device_get_limits(dev)->subgroup_size;
    dgl_device_destroy(&dev);
    if (size < 8)
        SKIP("the device has no subgroups of 8 or more");
    compare(c, c->name, &(struct phase_prompt){ids, 4},
            c == subgroup_runs ? SUBGROUP(TOKEN_ATTENTION) : SUBGROUP(BASELINE_ATTENTION), 1e-10);
}

/* The device is lost while the program is compiled: the unfinished program ends with its context,
 * and the next context does not use it. */
static void test_lost(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    struct exec *exec = NULL;
    struct gl_saved saved;
    assert_int_equal(dgl_kernels_create(NULL, dgl_kernels_params(.hints = SMALL), &kernels),
                     DGL_OK);
    tiny_engine_open(
        &e, &(struct tiny_engine_params){.context = 64, .kv_type = DGL_KV_F32, .kernels = kernels});
    assert_int_equal(exec_phases_create(e.device, &e.model->shard->engine->plan,
                                        &(struct exec_phases_params){.groups = 1, .finishes = true},
                                        &exec),
                     DGL_OK);
    assert_int_equal(session_enter(e.session, &saved), DGL_OK);
    assert_int_equal(
        exec_phases_begin(exec, recipe_decode(SAMPLE_GREEDY, 0, false), &e.session->state.memory),
        DGL_OK);
    assert_int_equal(session_leave(e.session, &saved, NULL, DGL_OK), DGL_OK);
    assert_int_equal(device_reopen(e.device), DGL_OK);
    assert_int_equal(device_enter(e.device, &saved), DGL_OK);
    assert_true(exec_phases_is_ready(exec, recipe_decode(SAMPLE_GREEDY, 0, false)));
    exec_unref(&exec);
    assert_int_equal(gl_errors_check(e.device->gl, "a program that was lost"), DGL_OK);
    device_leave(e.device, &saved);
    assert_int_equal(e.log.errors, 0);
    tiny_engine_close(&e);
    dgl_kernels_destroy(&kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_recipes), cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_lost),          cmocka_unit_test(test_shared_program),
        cmocka_unit_test(test_parts),
    };
    builtin = loaded_set(NULL);
    int failed = test_run_table("mixes", test_mix, mixes);
    failed += test_run_table("types", test_type, types);
    failed += test_run_table("shapes", test_shape, shapes);
    failed += test_run_table("passes", test_pass_shape, passes);
    failed += test_run_table("mixed passes", test_mixed_shape, mixed_passes);
    failed += test_run_table("order", test_order, shapes);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    failed += test_run_table_sample("runs", test_run, runs, 5);
    failed += test_run_table_sample("parts", test_run, part_runs, 9);
    failed += test_run_table("subgroups", test_subgroup_run, subgroup_runs);
    kernel_set_destroy(&builtin);
    return failed;
}
