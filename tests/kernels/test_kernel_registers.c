/* On every family of GPUs, a plan uses a kernel that would spill only if no kernel without spills
 * serves the request. If the registers suffice, they do not change the choice. */
#include "tests/support/test.h"

#include "kernels/set/kernel_fit.h"
#include "tests/support/planned.h"

#define MIB (1ull << 20)
#define LIMITS(bindings, shared, invocations, subgroup)                                            \
    {                                                                                              \
        .max_ssbo_bytes = 128 * MIB, .max_buffer_bytes = 1024 * MIB,                               \
        .max_ssbo_bindings = (bindings), .ssbo_align = 64, .ubo_align = 64,                        \
        .max_ubo_bytes = 65536, .max_shared_bytes = (shared), .max_invocations = (invocations),    \
        .max_local_size = {(invocations), (invocations), 64}, .max_groups = {65535, 65535, 65535}, \
        .subgroup_size = (subgroup)                                                                \
    }

/* Limits, registers and units as the driver reports them or gl_registers_guess() has them. */
struct family {
    const char *name;
    struct dgl_limits limits;
    uint32_t registers, units;
    bool software;
    const char *never; /* a kernel that spilled on this driver before it had REGISTERS, or NULL */
};

static const struct family families[] = {
    {"Arc (dg2)", LIMITS(16, 65536, 1024, 0), 96, 32, false, "matmul_outer"},
    {"Skylake", LIMITS(16, 65536, 1024, 0), 96, 3, false, "matmul_outer"},
    {"Polaris, ACO", LIMITS(16, 65536, 1024, 64), 200, 36, false, NULL},
    {"Navi 21, LLVM", LIMITS(16, 65536, 1024, 64), 93, 80, false, "matmul_outer"},
    {"Navi 31, LLVM", LIMITS(16, 65536, 1024, 64), 68, 96, false, "matmul_columns_subgroup"},
    {"V3D", LIMITS(16, 32768, 256, 0), 52, 2, false, "moe_router"},
    {"Mali G52", LIMITS(8, 32768, 256, 0), 64, 2, false, "attn_prefill_tiled"},
    {"Mali G610", LIMITS(8, 32768, 256, 0), 64, 4, false, "attn_prefill_tiled"},
    {"Mali T860", LIMITS(8, 32768, 128, 0), 32, 4, false, "attn_decode_llvmpipe"},
    {"Adreno 630", LIMITS(16, 32768, 1024, 0), 96, 2, false, "matmul_outer"},
    {"NVIDIA", LIMITS(16, 49152, 1024, 32), 255, 132, false, NULL},
    {"llvmpipe", LIMITS(32, 32768, 1024, 0), 0, 4, true, NULL},
};
static const char *const configs[] = {"llama-3.2-1b", "gemma-2-2b", "gpt-oss-20b", "qwen3-30b-a3b"};
#define NUM_CONFIGS (sizeof(configs) / sizeof(configs[0]))

static void open_plan(struct planned *p, const struct family *f, uint32_t registers,
                      const char *config, struct kernel_set *set)
{
    char path[128];
    snprintf(path, sizeof(path), "tests/models/configs/%s.json", config);
    planned_open_on(p, &(struct shape_model_params){.config = path},
                    &(struct plan_device_params){.name = f->name,
                                                 .limits = &f->limits,
                                                 .software = f->software,
                                                 .llvmpipe = f->software,
                                                 .on_host = f->software,
                                                 .compute_units = f->units,
                                                 .registers = registers,
                                                 .subgroup_arithmetic = f->limits.subgroup_size > 0,
                                                 .subgroup_shuffle = f->limits.subgroup_size > 0,
                                                 .ext_gpu_shader5 = true},
                    set);
}

/* Fails if some kernel serves the request of a use that spills, and fits the registers. */
static void assert_none_fits(const struct kernel_set *set, const struct planned *p,
                             const struct kernel_use *use, const char *where)
{
    const struct kernel_fit fit = {.set = set,
                                   .request = &use->request,
                                   .device = p->device.properties,
                                   .num_device = p->device.num_properties};
    for (size_t i = 0; i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        struct kernel_choice choice;
        int64_t rank;
        char why[192];
        if (kernel->f16 || strcmp(kernel->op, use->request.op) != 0 ||
            !kernel_fit_hinted(&fit, kernel, &choice, &rank, why))
            continue;
        if (choice.spills == 0)
            fail_msg("%s: %s was chosen and needs %lld registers too many; %s fits: %s", where,
                     use->choice.kernel->name, (long long)use->choice.spills, kernel->name,
                     use->choice.reason);
    }
}

static void chosen_kernels_fit(void **state)
{
    const struct family *f = *state;
    struct kernel_set *set = NULL;
    assert_int_equal(kernel_set_create(NULL, dgl_kernels_params(.pack = NULL), &set), DGL_OK);
    for (size_t c = 0; c < NUM_CONFIGS; c++) {
        struct planned p;
        char where[128];
        snprintf(where, sizeof(where), "%s on %s", configs[c], f->name);
        open_plan(&p, f, f->registers, configs[c], set);
        assert_true(p.plan.kernels.count > 0);
        for (size_t i = 0; i < p.plan.kernels.count; i++) {
            const struct kernel_use *use = p.plan.kernels.uses[i];
            if (f->never && strcmp(use->choice.kernel->name, f->never) == 0)
                fail_msg("%s: %s is chosen: %s", where, f->never, use->choice.reason);
            if (use->choice.spills > 0)
                assert_none_fits(set, &p, use, where);
        }
        planned_close(&p);
    }
    kernel_set_destroy(&set);
}

static void enough_registers_change_nothing(void **state)
{
    const struct family *f = *state;
    struct kernel_set *set = NULL;
    assert_int_equal(kernel_set_create(NULL, dgl_kernels_params(.pack = NULL), &set), DGL_OK);
    for (size_t c = 0; c < NUM_CONFIGS; c++) {
        struct planned p, free;
        open_plan(&p, f, f->registers, configs[c], set);
        open_plan(&free, f, 0, configs[c], set);
        assert_int_equal(p.plan.kernels.count, free.plan.kernels.count);
        for (size_t i = 0; i < p.plan.kernels.count; i++) {
            const struct kernel_choice *a = &p.plan.kernels.uses[i]->choice;
            const struct kernel_choice *b = &free.plan.kernels.uses[i]->choice;
            if (a->kernel != b->kernel)
                fail_msg("%s on %s: %s, and %s with registers without end", configs[c], f->name,
                         a->kernel->name, b->kernel->name);
            for (uint32_t t = 0; t < a->num_tunes; t++)
                if (a->vars[a->num_consts + t].value != b->vars[b->num_consts + t].value)
                    fail_msg("%s on %s: %s: %s is %lld, and %lld with registers without end",
                             configs[c], f->name, a->kernel->name, a->kernel->tunes[t].name,
                             (long long)a->vars[a->num_consts + t].value,
                             (long long)b->vars[b->num_consts + t].value);
        }
        planned_close(&p);
        planned_close(&free);
    }
    kernel_set_destroy(&set);
}

static const struct family nvidia[] = {
    {"NVIDIA", LIMITS(16, 49152, 1024, 32), 255, 132, false, NULL},
    {"a small NVIDIA", LIMITS(16, 49152, 1024, 32), 255, 10, false, NULL},
};

int main(void)
{
    int failed = test_run_table("families", chosen_kernels_fit, families);
    return failed + test_run_table("NVIDIA", enough_registers_change_nothing, nvidia);
}
