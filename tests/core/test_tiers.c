/* Tiers of attention by name: the kernel of a hint for each phase, head size and cache, on
 * simulated devices and on this device, where the profile of an answer contains the kernels that
 * ran. The answer is the same. */
#include "tests/support/kernel_sets.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/seq/session.h"
#include "tests/support/oplist_look.h"
#include "tests/support/planned.h"
#include "tests/support/tiny_engine.h"

enum tier { LARGE, SMALL, STREAMING, SUBGROUP, TIERS };
static const char *const tier_names[TIERS] = {"tiled_large", "tiled_small", "streaming",
                                              "subgroup"};
static const int32_t dims[] = {64, 80, 96, 128, 256};
enum { DIMS = sizeof(dims) / sizeof(dims[0]), HEADS = 4, KV_HEADS = 2 };

/* Kernels of prefill and decode, or a part of the reason for refusing the tier. */
struct want {
    const char *kernel, *refused;
};

/* The expected result of a tier on a device with these numbers. */
static struct want want_of(const struct plan_device *device, enum dgl_phase phase, enum tier tier,
                           int32_t dim)
{
    const bool prefill = phase == DGL_PHASE_PREFILL, registers = dim <= 128 || !device->software;
    switch (tier) {
    case LARGE:
        /* 16 queries and 8 keys of 256 numbers are more than 16 KiB. */
        if (prefill && dim == 256 && device->limits.max_shared_bytes < 25000)
            return (struct want){.refused = "attn_prefill_tiled: SHARED is"};
        return (struct want){.kernel = prefill ? "attn_prefill_tiled" : "attn_decode_tiled"};
    case SMALL:
        return (struct want){.kernel = prefill ? "attn_prefill" : "attn_decode"};
    case STREAMING:
        if (prefill)
            return (struct want){.kernel = registers ? "attn_prefill_llvmpipe"
                                                     : "attn_prefill_streaming"};
        return (struct want){.kernel = device->software && registers ? "attn_decode_llvmpipe"
                                                                     : "attn_decode_streaming"};
    case SUBGROUP:
        if (device->limits.subgroup_size < 8 || (!prefill && device->limits.max_ssbo_bindings < 8))
            return (struct want){.refused =
                                     prefill ? "attn_prefill_subgroup: " : "attn_token_subgroup: "};
        return (struct want){.kernel = prefill ? "attn_prefill_subgroup" : "attn_token_subgroup"};
    case TIERS:
        break;
    }
    fail();
    return (struct want){0};
}

static const char *hint_of(enum dgl_phase phase, enum tier tier)
{
    static char hint[64];
    snprintf(hint, sizeof(hint), "attention%s=%s",
             phase == DGL_PHASE_PREFILL ? "Prefill" : "Decode", tier_names[tier]);
    return hint;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 512, "
    "\"intermediate_size\": 512, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": %d, \"vocab_size\": 512, \"rms_norm_eps\": 1e-5, "
    "\"max_position_embeddings\": 512, \"rope_theta\": 10000.0, \"tie_word_embeddings\": true, "
    "\"hidden_act\": \"silu\"}";

struct row {
    const char *name;
    enum made_device device;
    int32_t dim;
    enum dgl_kv_type kv_type;
};
static struct row rows[MADE_DEVICES * DIMS * 2];
static char row_names[MADE_DEVICES * DIMS * 2][64];

/* Every operation of the phase's attention has this kernel, which belongs to the tier and has work
 * for more than half of its invocations. */
static void check_kernels(const struct plan *plan, enum dgl_phase phase, enum tier tier,
                          const char *kernel)
{
    const char *const word = plan->kv_type == DGL_KV_F32 ? "f32" : "f16";
    size_t seen = 0;
    for (size_t b = 0; b < plan->num_bodies; b++) {
        const struct body *body = plan->bodies[b];
        for (size_t i = 0; i < body->ops.count; i++) {
            const struct kernel_use *use = body->use[i];
            const struct kernel *k = use->choice.kernel;
            bool prefill = strcmp(use->request.op, "attn_prefill") == 0;
            bool decode = strcmp(use->request.op, "attn_decode") == 0 ||
                          strcmp(use->request.op, "attn_token") == 0;
            if (phase == DGL_PHASE_PREFILL ? !prefill : !decode)
                continue;
            seen++;
            if (strcmp(k->name, kernel) != 0)
                fail_msg("%s is served by %s, wanted %s", hint_of(phase, tier), k->name, kernel);
            if (strcmp(k->variant, tier_names[tier]) != 0 && !strstr(k->aliases, tier_names[tier]))
                fail_msg("%s: neither %s nor one of '%s'", tier_names[tier], k->variant,
                         k->aliases);
            assert_string_equal(look_attr(&body->ops.ops[i], "kv_k"), word);
            assert_contains(use->choice.reason, hint_of(phase, tier));
            uint64_t launched, active;
            assert_true(kernel_invocations(&use->choice, phase == DGL_PHASE_PREFILL ? 128 : 1, 0,
                                           65535, &launched, &active));
            if (active > launched || 2 * active <= launched)
                fail_msg("%s: %llu of %llu invocations are active", k->name,
                         (unsigned long long)active, (unsigned long long)launched);
        }
    }
    assert_true(seen >= 2); /* in each layer */
}

static void plan_row(void **state)
{
    const struct row *row = *state;
    struct planned p;
    char *dir = test_tmpdir(), path[512], text[768];
    snprintf(text, sizeof(text), config, row->dim);
    test_write_file(dir, "config.json", text, strlen(text));
    snprintf(path, sizeof(path), "%s/config.json", dir);
    struct kernel_set *builtin = loaded_set(NULL);
    planned_open(&p, &(struct shape_model_params){.config = path}, row->device, builtin);
    for (int n = 0; n < 2 * TIERS; n++) {
        const enum dgl_phase phase = n / TIERS == 0 ? DGL_PHASE_PREFILL : DGL_PHASE_DECODE;
        const enum tier tier = (enum tier)(n % TIERS);
        const char *hint = hint_of(phase, tier);
        const struct want want = want_of(&p.device, phase, tier, row->dim);
        struct kernel_set *set = loaded_set(dgl_kernels_params(.flags = &hint, .num_flags = 1));
        struct plan plan = {0};
        test_log_clear(&p.log);
        enum dgl_status status = plan_init(
            &plan,
            &(struct plan_params){
                .device = &p.device, .set = set, .desc = &p.model.desc, .kv_type = row->kv_type},
            &p.weights);
        if (want.kernel) {
            if (status != DGL_OK)
                fail_msg("%s: %s", hint, p.log.text);
            check_kernels(&plan, phase, tier, want.kernel);
        } else {
            const char *const parts[] = {hint, want.refused};
            assert_refusal(&p.log, status, DGL_ERR_UNSUPPORTED, parts);
        }
        plan_finish(&plan);
        kernel_set_destroy(&set);
    }
    kernel_set_destroy(&builtin);
    planned_close(&p);
    test_tmpdir_remove(dir);
}

static void name_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct row *r = &rows[i];
        r->device = (enum made_device)(i / (2 * DIMS));
        r->dim = dims[i / 2 % DIMS];
        r->kv_type = i % 2 ? DGL_KV_F32 : DGL_KV_F16;
        r->name = row_names[i];
        snprintf(row_names[i], sizeof(row_names[i]), "%s, %d numbers, %s",
                 made_device_names[r->device], r->dim, i % 2 ? "f32" : "f16");
    }
}

/* ---- kernels that run ---------------------------------------------------------------------------
 */

enum { PROMPT = 20, ANSWER = 3, VOCAB = 320 };

struct run {
    const char *name;
    int32_t dim;
    enum dgl_kv_type kv_type;
};
static struct run runs[DIMS * 2];
static char run_names[DIMS * 2][64];

/* The kernel of an operation of attention that the answer's profile has. */
static const char *kernel_that_ran(const struct dgl_profile *profile, enum dgl_phase phase)
{
    const char *found = NULL;
    for (size_t i = 0; i < profile->num_entries; i++) {
        const struct dgl_profile_entry *e = &profile->entries[i];
        bool attends = strcmp(e->op, "attn_prefill") == 0 || strcmp(e->op, "attn_decode") == 0 ||
                       strcmp(e->op, "attn_token") == 0;
        if (!attends || e->phase != phase)
            continue;
        assert_true(e->calls > 0);
        if (found && strcmp(found, e->kernel) != 0)
            fail_msg("both %s and %s ran", found, e->kernel);
        found = e->kernel;
    }
    return found;
}

/* A model of one layer with these hints (may be NULL), which only change its attention. Returns the
 * logits after its answer. */
static float *run_with(const struct run *row, const char *const *hints, const struct want want[2],
                       int32_t answer[ANSWER])
{
    struct tiny_llama sizes = tiny_llama_default();
    struct tiny_engine e;
    struct dgl_kernels *kernels = NULL;
    struct dgl_generate_result r = {.size = sizeof(r)};
    int32_t ids[PROMPT];
    sizes.layers = 1;
    sizes.heads = HEADS;
    sizes.kv_heads = KV_HEADS;
    sizes.head_dim = row->dim;
    tiny_ids(ids, PROMPT, VOCAB, 11);
    assert_int_equal(
        dgl_kernels_create(NULL, dgl_kernels_params(.flags = hints, .num_flags = hints ? 2 : 0),
                           &kernels),
        DGL_OK);
    tiny_engine_open(
        &e, &(struct tiny_engine_params){
                .sizes = &sizes, .kv_type = row->kv_type, .context = 64, .kernels = kernels});
    dgl_kernels_destroy(&kernels);
    r = tiny_generate(e.session,
                      dgl_generate_params(.ids = ids, .num_ids = PROMPT, .max_tokens = ANSWER,
                                          .ignore_eos = true, .profile = true));
    assert_int_equal(r.num_tokens, ANSWER);
    for (int i = 0; hints && i < 2; i++)
        assert_string_equal(
            kernel_that_ran(&r.profile, i == 0 ? DGL_PHASE_PREFILL : DGL_PHASE_DECODE),
            want[i].kernel);
    memcpy(answer, r.tokens, sizeof(int32_t) * ANSWER);
    dgl_generate_result_finish(&r);
    float *logits = tiny_logits(e.session);
    tiny_engine_close(&e);
    return logits;
}

static void run_row(void **state)
{
    const struct run *row = *state;
    struct tiny_engine e;
    tiny_engine_open(&e, &(struct tiny_engine_params){0});
    const struct plan_device device = e.device->plan;
    tiny_engine_close(&e);
    int32_t answer[ANSWER], same[ANSWER];
    float *plain = run_with(row, NULL, NULL, answer);
    for (int tier = 0; tier < TIERS; tier++) {
        const struct want want[2] = {want_of(&device, DGL_PHASE_PREFILL, (enum tier)tier, row->dim),
                                     want_of(&device, DGL_PHASE_DECODE, (enum tier)tier, row->dim)};
        char first[64], second[64];
        const char *const hints[2] = {first, second};
        snprintf(first, sizeof(first), "%s", hint_of(DGL_PHASE_PREFILL, (enum tier)tier));
        snprintf(second, sizeof(second), "%s", hint_of(DGL_PHASE_DECODE, (enum tier)tier));
        if (!want[0].kernel || !want[1].kernel)
            continue; /* a refusal: plan_row() */
        float *logits = run_with(row, hints, want, same);
        assert_memory_equal(same, answer, sizeof(same));
        assert_at_most(tiny_nmse(logits, plain, VOCAB), 1e-9);
        free(logits);
    }
    free(plain);
}

int main(void)
{
    name_rows();
    for (size_t i = 0; i < 2 * DIMS; i++) {
        runs[i].dim = dims[i / 2];
        runs[i].kv_type = i % 2 ? DGL_KV_F32 : DGL_KV_F16;
        runs[i].name = run_names[i];
        snprintf(run_names[i], sizeof(run_names[i]), "%d numbers, %s", runs[i].dim,
                 i % 2 ? "f32" : "f16");
    }
    int failures = test_run_table("plans", plan_row, rows);
    return failures + test_run_table_sample("runs", run_row, runs, 5);
}
