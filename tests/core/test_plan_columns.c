/* Bodies by the number of tokens of a pass: the bodies of a plan, the body of each pass, and the
 * split of a prompt into passes. */
#include "tests/support/test.h"

#include "tests/support/kernel_sets.h"
#include "tests/support/planned.h"

#define CONFIG "tests/models/configs/llama-3.2-1b.json"
#define MOE    "tests/models/configs/mixtral-8x7b.json"

/* A kernel for few tokens, to be put beside the built-in ones. */
static const char own_few[] = "// Few tokens.\n//! NAME own_few\n//! OP matmul\n//! VARIANT few\n"
                              "//! WHEN phase prefill\n//! WHEN columns 2 8\n//! LOCAL 32\n"
                              "//! GROUPS 1\nvoid body(uvec3 group)\n{\n}\n";

#define GPU_BODIES                                                                                 \
    (1u << SEG_PREFILL_2 | 1u << SEG_PREFILL_4 | 1u << SEG_PREFILL_8 | 1u << SEG_PREFILL_16 |      \
     1u << SEG_PREFILL_32 | 1u << SEG_PREFILL_64 | 1u << SEG_PREFILL_128 | 1u << SEG_PREFILL)

struct columns_case {
    const char *name;
    const char *config;
    enum made_device device;
    bool own; /* with own_few */
    uint32_t bodies;
    struct {
        int32_t tokens;
        enum segment body;
    } serves[12];
    struct {
        int32_t left, most;
        int32_t passes[6]; /* up to 0 */
    } cuts[12];
};

static const struct columns_case cases[] = {
    {.name = "one body where kernels are the same",
     .config = CONFIG,
     .device = MADE_LLVMPIPE,
     .bodies = 1u << SEG_PREFILL,
     .serves = {{1, SEG_DECODE}, {2, SEG_PREFILL}, {64, SEG_PREFILL}, {500, SEG_PREFILL}},
     .cuts = {{1, 128, {1}}, {130, 128, {128, 2}}, {200, 512, {200}}, {129, 512, {129}}}},
    {.name = "bodies where a kernel says so",
     .config = CONFIG,
     .device = MADE_LLVMPIPE,
     .own = true,
     /* both 4 and 16 lack the kernel, but 8 is between them */
     .bodies = 1u << SEG_PREFILL_2 | 1u << SEG_PREFILL_4 | 1u << SEG_PREFILL_8 | 1u << SEG_PREFILL,
     .serves = {{1, SEG_DECODE},
                {2, SEG_PREFILL_2},
                {3, SEG_PREFILL_4},
                {8, SEG_PREFILL_8},
                {9, SEG_PREFILL}},
     .cuts = {{8, 512, {8}}, {264, 512, {256, 8}}, {150, 512, {150}}}},
    {.name = "few tokens on a GPU",
     .config = CONFIG,
     .device = MADE_GPU,
     .bodies = GPU_BODIES,
     .serves = {{1, SEG_DECODE},
                {2, SEG_PREFILL_2},
                {4, SEG_PREFILL_4},
                {5, SEG_PREFILL_8},
                {16, SEG_PREFILL_16},
                {17, SEG_PREFILL_32},
                {64, SEG_PREFILL_64},
                {65, SEG_PREFILL_128},
                {129, SEG_PREFILL},
                {512, SEG_PREFILL}},
     .cuts = {{1, 512, {1}},
              {24, 512, {24}},
              {33, 512, {32, 1}},
              {100, 512, {100}},
              {129, 512, {128, 1}},
              {250, 512, {250}},
              {300, 512, {256, 44}},
              {480, 512, {480}},
              {1100, 512, {512, 512, 64, 12}},
              {7, 3, {3, 3, 1}}}},
    {.name = "with experts no pass is cut",
     .config = MOE,
     .device = MADE_GPU,
     .bodies = GPU_BODIES,
     .serves = {{2, SEG_PREFILL_2}, {100, SEG_PREFILL_128}},
     .cuts = {{33, 512, {33}}, {129, 512, {129}}, {513, 512, {512, 1}}}},
};

static void check_bodies(void **state)
{
    const struct columns_case *row = *state;
    char *dir = test_tmpdir(), path[256];
    const char *file = path;
    struct planned p;
    uint32_t bodies = 0;
    snprintf(path, sizeof(path), "%s/own.comp", dir);
    test_write_file(dir, "own.comp", own_few, sizeof(own_few) - 1);
    struct kernel_set *set = loaded_set(dgl_kernels_params(.files = &file, .num_files = row->own));
    planned_open(&p, &(struct shape_model_params){.config = row->config, .quantize = "q4_k_m"},
                 row->device, set);
    for (int s = SEG_PREFILL_2; s <= SEG_PREFILL; s++)
        bodies |= p.plan.segment[s].ops.count > 0 ? 1u << s : 0;
    if (bodies != row->bodies)
        fail_msg("bodies %x, wanted %x", bodies, row->bodies);
    for (size_t i = 0; row->serves[i].tokens; i++) {
        enum segment body = plan_body(&p.plan, row->serves[i].tokens);
        if (body != row->serves[i].body)
            fail_msg("%d tokens: body %d, wanted %d", row->serves[i].tokens, body,
                     row->serves[i].body);
    }
    for (size_t i = 0; row->cuts[i].left; i++) {
        int32_t left = row->cuts[i].left;
        for (size_t j = 0; left > 0; j++) {
            int32_t tokens = plan_pass_tokens(&p.plan, left, row->cuts[i].most);
            if (tokens != row->cuts[i].passes[j])
                fail_msg("pass %zu of %d tokens in passes of %d: %d, wanted %d", j,
                         row->cuts[i].left, row->cuts[i].most, tokens, row->cuts[i].passes[j]);
            left -= tokens;
        }
    }
    planned_close(&p);
    kernel_set_destroy(&set);
    test_tmpdir_remove(dir);
}

int main(void)
{
    return test_run_table("plan_body", check_bodies, cases);
}
