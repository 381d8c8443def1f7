/* Changes of scores by attention kernels: windows, soft caps, sinks, layers with unrotated keys.
 * Every kernel is compared with doubles. */
#include "tests/support/test.h"

#include "tests/support/attn_case.h"

/* tokens = 0: decode. */
static const struct attn_shape shapes[] = {
    {4, 2, 64, 64, .pos = 200, .splits = 1, .window = 24},
    {5, 5, 16, 16, .pos = 23, .splits = 1, .window = 24},
    {6, 2, 32, 32, .pos = 24, .splits = 4, .window = 24},
    {2, 1, 256, 256, .pos = 300, .splits = 2, .window = 20},
    {4, 2, 64, 64, .pos = 700, .splits = 16, .window = 512},
    {4, 2, 32, 32, .pos = 70, .splits = 3, .window = 1},
    {4, 2, 32, 32, .pos = 90, .splits = 2, .loud = 30, .softcap = 5},
    {3, 1, 96, 96, .pos = 70, .splits = 1, .loud = 100, .softcap = 30, .window = 33},
    {4, 2, 256, 256, .pos = 20, .splits = 1, .loud = 30, .softcap = 50},
    {4, 2, 64, 0, .pos = 65, .splits = 2},
    {5, 5, 80, 0, .pos = 9, .splits = 1},
    {8, 2, 64, 64, .pos = 300, .splits = 4, .norm = ATTN_NORM_HEAD},
    {6, 2, 40, 32, .pos = 9, .splits = 1, .norm = ATTN_NORM_HEAD, .window = 6},
    {4, 4, 32, 32, .pos = 400, .splits = 3, .norm = ATTN_NORM_ALL},
    {6, 2, 128, 128, .pos = 400, .splits = 4, .norm = ATTN_NORM_ALL},
    {4, 1, 256, 256, .pos = 900, .splits = 8, .norm = ATTN_NORM_HEAD, .window = 512},
    {16, 2, 64, 64, .pos = 300, .splits = 8, .sinks = true, .window = 128},
    {8, 1, 32, 32, .pos = 400, .splits = 8, .sinks = true},
    {6, 2, 32, 32, .tokens = 70, .pos = 0, .window = 24},
    {5, 5, 16, 16, .tokens = 33, .pos = 100, .window = 20, .pad = 4},
    {4, 2, 64, 64, .tokens = 40, .pos = 7, .window = 1},
    {2, 1, 256, 256, .tokens = 33, .pos = 30, .window = 24},
    {4, 2, 32, 32, .tokens = 40, .pos = 10, .loud = 30, .softcap = 5},
    {3, 1, 96, 96, .tokens = 20, .pos = 30, .loud = 100, .softcap = 30, .window = 33},
    {4, 2, 16, 16, .tokens = 33, .pos = 9, .sinks = true},
    {8, 1, 64, 64, .tokens = 70, .pos = 3, .sinks = true, .window = 24},
    {4, 2, 64, 0, .tokens = 9, .pos = 20},
};
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static struct kernel_walk prefill = {.op = "attn_prefill"}, decode = {.op = "attn_decode"},
                          token = {.op = "attn_token"};
static struct kernel_bench *bench;
static struct attn_row rows[NUM_SHAPES];
static char names[NUM_SHAPES][96];

static void scores_agree_with_doubles(void **state)
{
    const struct attn_row *row = *state;
    const struct kernel_case whole = attn_case(row, "attn_token");
    bool apart = !row->shape.sinks && !row->shape.norm; /* else they are other operations */
    if (row->shape.tokens)
        attn_judge(row, bench, &prefill);
    else if (apart)
        attn_judge(row, bench, &decode);
    if (!bench ||
        (!row->shape.tokens && kernel_walk_judge_some(&token, bench, &whole) == 0 && !apart))
        SKIP("%s: no kernel here that does all of it", row->name);
}

int main(void)
{
    static const char *const norm[] = {"", "_norm_head", "_norm_all"};
    for (size_t i = 0; i < NUM_SHAPES; i++) {
        const struct attn_shape *s = &shapes[i];
        snprintf(names[i], sizeof(names[i]), "%s_h%u_%u_d%u_r%u_t%u_pos%u_s%u_w%u%s%s%s",
                 s->tokens ? "prefill" : "decode", s->heads, s->kv_heads, s->head_dim, s->rope_dims,
                 s->tokens ? s->tokens : 1, s->pos, s->splits, s->window,
                 s->softcap != 0 ? "_cap" : "", s->sinks ? "_sinks" : "", norm[s->norm]);
        rows[i] = (struct attn_row){names[i], *s, i % 2 == 0, false};
    }
    bench = kernel_bench_create(false);
    int failures = test_run_table_sample("scores", scores_agree_with_doubles, rows, 3);
    kernel_bench_destroy(&bench);
    return failures;
}
