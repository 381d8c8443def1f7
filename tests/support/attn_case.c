/* Shapes of attention as test cases of the oracle. */
#include "tests/support/attn_case.h"

struct kernel_case attn_case(const struct attn_row *row, const char *op)
{
    static const char *const norm[] = {"none", "head", "all"};
    const struct attn_shape *s = &row->shape;
    struct kernel_case c = {.request.op = op,
                            .tokens = s->tokens,
                            .pos = s->pos,
                            .variant = s->loud | (uint32_t)s->louder << 8 | s->softcap << 16,
                            .seed = 7919u * s->head_dim + s->pos};
    request_set(&c.request, "kv_k", row->kv_f16 ? "f16" : "f32");
    request_set(&c.request, "kv_v", row->kv_f16 ? "f16" : "f32");
    request_set(&c.request, "sinks", s->sinks ? "head" : "none");
    request_set(&c.request, "norm", norm[s->norm]);
    request_set_const(&c.request, "HEADS", s->heads);
    request_set_const(&c.request, "KV_HEADS", s->kv_heads);
    request_set_const(&c.request, "HEAD_DIM", s->head_dim);
    request_set_const(&c.request, "ROPE_DIMS", s->rope_dims);
    request_set_const(&c.request, "QKV_STRIDE",
                      (s->heads + 2 * s->kv_heads) * s->head_dim + s->pad);
    request_set_const(&c.request, "O_STRIDE", s->heads * s->head_dim + s->pad);
    request_set_const(&c.request, "SPLITS", s->splits ? s->splits : 1);
    request_set_const(&c.request, "WINDOW", s->window);
    request_set_const(&c.request, "SOFTCAP", s->softcap != 0);
    return c;
}

void attn_judge(const struct attn_row *row, struct kernel_bench *bench, struct kernel_walk *walk)
{
    const struct kernel_case c = attn_case(row, walk->op);
    kernel_walk_judge(walk, bench, row->name, &c);
}
