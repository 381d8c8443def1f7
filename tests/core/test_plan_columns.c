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

/* Bit i: passes over up to 1 << i tokens have a body of their own. */
#define GPU_BODIES 0x1fe

struct columns_case {
    const char *name;
    const char *config;
    enum made_device device;
    bool own; /* with own_few */
    uint32_t bodies;
    struct {
        int32_t tokens;
        int rows_log2; /* of the body */
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
     .bodies = 0x100,
     .serves = {{1, 0}, {2, 8}, {64, 8}, {500, 8}},
     .cuts = {{1, 128, {1}}, {130, 128, {128, 2}}, {200, 512, {200}}, {129, 512, {129}}}},
    {.name = "bodies where a kernel says so",
     .config = CONFIG,
     .device = MADE_LLVMPIPE,
     .own = true,
     /* both 4 and 16 lack the kernel, but 8 is between them */
     .bodies = 0x10e,
     .serves = {{1, 0}, {2, 1}, {3, 2}, {8, 3}, {9, 8}},
     .cuts = {{8, 512, {8}}, {264, 512, {256, 8}}, {150, 512, {150}}}},
    {.name = "few tokens on a GPU",
     .config = CONFIG,
     .device = MADE_GPU,
     .bodies = GPU_BODIES,
     .serves =
         {{1, 0}, {2, 1}, {4, 2}, {5, 3}, {16, 4}, {17, 5}, {64, 6}, {65, 7}, {129, 8}, {512, 8}},
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
     .serves = {{2, 1}, {100, 7}},
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
    for (int i = 1; i <= PASS_ANY_ROWS; i++)
        bodies |= plan_body(&p.plan, PASS_ROWS(i))->shape.rows_log2 == i ? 1u << i : 0;
    if (bodies != row->bodies)
        fail_msg("bodies %x, wanted %x", bodies, row->bodies);
    for (size_t i = 0; row->serves[i].tokens; i++) {
        const int rows_log2 = plan_pass_shape(&p.plan, row->serves[i].tokens).rows_log2;
        if (rows_log2 != row->serves[i].rows_log2)
            fail_msg("%d tokens: body %d, wanted %d", row->serves[i].tokens, rows_log2,
                     row->serves[i].rows_log2);
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
