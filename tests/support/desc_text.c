/* Model descriptions in tests. */
#include "tests/support/desc_text.h"

#include <stddef.h>
#include <string.h>

#include "tests/support/test.h"

enum dgl_status desc_from_config(const struct dgl_log *log, const char *name, const char *config,
                                 const char *generation, struct model_desc *out)
{
    struct dgl_json_doc *doc = NULL, *generation_doc = NULL;
    struct model_skipped skipped;
    assert_int_equal(dgl_json_parse(log, name, config, strlen(config), &doc), DGL_OK);
    if (generation)
        assert_int_equal(dgl_json_parse(log, "generation_config.json", generation,
                                        strlen(generation), &generation_doc),
                         DGL_OK);
    const struct fields fields = {.name = name, .base = dgl_json_root(doc)};
    const struct fields generation_fields = {.name = "generation_config.json",
                                             .base = generation_doc ? dgl_json_root(generation_doc)
                                                                    : NULL};
    struct model_desc_input in = {
        .config = &fields,
        .generation_config = generation_doc ? &generation_fields : NULL,
        .config_only = true,
    };
    enum dgl_status status = model_desc_init(log, &in, out, &skipped);
    dgl_json_destroy(&doc);
    dgl_json_destroy(&generation_doc);
    model_skipped_finish(&skipped);
    return status;
}

static const char *const rope_kinds[] = {"default", "linear", "dynamic",
                                         "yarn",    "llama3", "longrope"};
static const char *const acts[] = {"silu", "gelu", "swiglu"};
static const char *const scorings[] = {"topk-softmax", "softmax-topk", "softmax-topk-norm"};

static void rope_text(const char *label, const struct rope_desc *r, struct dgl_buf *out)
{
    dgl_buf_printf(out, "%s %s theta %g dims %d", label, rope_kinds[r->kind], r->theta,
                   (int)r->dims);
    if (r->scale != 1.0)
        dgl_buf_printf(out, " scale %.6g", r->scale);
    if (r->kind != ROPE_DEFAULT)
        dgl_buf_printf(out, " factor %g", r->factor);
    if (r->kind > ROPE_LINEAR)
        dgl_buf_printf(out, " original %d", (int)r->original_context);
    if (r->kind == ROPE_LLAMA3)
        dgl_buf_printf(out, " low %g high %g", r->low_freq, r->high_freq);
    if (r->kind == ROPE_YARN)
        dgl_buf_printf(out, " beta %g %g truncate %d", r->beta_fast, r->beta_slow, r->truncate);
    if (r->kind == ROPE_LONGROPE)
        dgl_buf_printf(out, " short %g..%g long %g..%g", r->short_factor[0],
                       r->short_factor[r->dims / 2 - 1], r->long_factor[0],
                       r->long_factor[r->dims / 2 - 1]);
    dgl_buf_putc(out, '\n');
}

static void scales_text(const struct model_desc *d, struct dgl_buf *out)
{
    dgl_buf_printf(out, "eps %g attn %.6g act %s", d->norm_eps, d->attn_scale, acts[d->act]);
    if (d->act == MODEL_ACT_SWIGLU_CLAMP)
        dgl_buf_printf(out, " alpha %g limit %g", d->act_alpha, d->act_limit);
    if (d->norm_plus_one)
        dgl_buf_puts(out, " norm+1");
    if (d->attn_softcap != 0 || d->logit_softcap != 0)
        dgl_buf_printf(out, " caps %g %g", d->attn_softcap, d->logit_softcap);
    if (d->embed_scale != 1.0 || d->residual_scale != 1.0 || d->logit_scale != 1.0)
        dgl_buf_printf(out, " embed %.6g residual %g logits %g", d->embed_scale, d->residual_scale,
                       d->logit_scale);
    dgl_buf_puts(out, d->tied_head ? " tied\n" : "\n");
}

struct slot {
    const char *name;
    size_t offset;
};
#define SLOT(field)                                                                                \
    {                                                                                              \
#field, offsetof(struct layer_desc, field)                                                 \
    }
static const struct slot slots[] = {
    SLOT(attn_norm),
    SLOT(q),
    SLOT(k),
    SLOT(v),
    SLOT(qkv),
    SLOT(q_bias),
    SLOT(k_bias),
    SLOT(v_bias),
    SLOT(o_bias),
    SLOT(q_norm),
    SLOT(k_norm),
    SLOT(sinks),
    SLOT(o),
    SLOT(attn_post_norm),
    SLOT(ffn_norm),
    SLOT(gate),
    SLOT(up),
    SLOT(down),
    SLOT(gate_up),
    SLOT(gate_bias),
    SLOT(up_bias),
    SLOT(down_bias),
    SLOT(router),
    SLOT(router_bias),
    SLOT(expert_down),
    SLOT(ffn_post_norm),
    SLOT(expert_gate),
    SLOT(expert_up),
    SLOT(expert_gate_up),
    SLOT(expert_gate_up_bias),
    SLOT(expert_down_bias),
};

static void layer_text(const struct layer_desc *l, struct dgl_buf *out)
{
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        const void *slot = (const char *)l + slots[i].offset;
        bool experts = strncmp(slots[i].name, "expert_", 7) == 0 && !strstr(slots[i].name, "bias");
        if (experts && ((const struct expert_tensors *)slot)->each)
            dgl_buf_printf(out, " %s[]", slots[i].name);
        else if (*(const long *)slot != TENSOR_NONE)
            dgl_buf_printf(out, " %s", slots[i].name);
    }
    dgl_buf_putc(out, '\n');
}

static int32_t layer_window(const struct layer_desc *l)
{
    return l->window;
}

static int32_t layer_rope(const struct layer_desc *l)
{
    return l->rope;
}

/* How soon the layers' values repeat. */
static int32_t period_of(const struct model_desc *d, int32_t (*get)(const struct layer_desc *))
{
    for (int32_t period = 1; period < d->layers; period++) {
        int32_t i = period;
        while (i < d->layers && get(&d->layer[i]) == get(&d->layer[i % period]))
            i++;
        if (i == d->layers)
            return period;
    }
    return d->layers;
}

static void windows_text(const struct model_desc *d, struct dgl_buf *out)
{
    int32_t period = period_of(d, layer_window);
    if (period == 1 && d->layer[0].window == 0)
        return;
    dgl_buf_puts(out, "windows");
    for (int32_t i = 0; i < period; i++)
        dgl_buf_printf(out, " %d", (int)d->layer[i].window);
    dgl_buf_puts(out, period < d->layers ? " ...\n" : "\n");
}

static void ropes_text(const struct model_desc *d, struct dgl_buf *out)
{
    static const char *const names[] = {"none", "global", "local"};
    int32_t period = period_of(d, layer_rope);
    if (period == 1 && d->layer[0].rope == ROPE_GLOBAL)
        return;
    dgl_buf_puts(out, "ropes");
    for (int32_t i = 0; i < period; i++)
        dgl_buf_printf(out, " %s", names[d->layer[i].rope + 1]);
    dgl_buf_puts(out, period < d->layers ? " ...\n" : "\n");
}

static void layers_text(const struct model_desc *d, struct dgl_buf *out)
{
    struct dgl_buf before = {0};
    windows_text(d, out);
    ropes_text(d, out);
    for (int32_t i = 0; d->embed != TENSOR_NONE && i < d->layers; i++) {
        struct dgl_buf line = {0};
        layer_text(&d->layer[i], &line);
        if (!before.p || strcmp(before.p, line.p) != 0)
            dgl_buf_printf(out, "layer %d:%s", (int)i, line.p);
        dgl_buf_finish(&before);
        before = line;
    }
    dgl_buf_finish(&before);
}

void desc_text(const struct model_desc *d, struct dgl_buf *out)
{
    dgl_buf_printf(out, "%s %d layers %d wide %d inner, %d/%d heads of %d, vocab %d, context %d\n",
                   d->family, (int)d->layers, (int)d->hidden, (int)d->intermediate, (int)d->heads,
                   (int)d->kv_heads, (int)d->head_dim, (int)d->vocab, (int)d->context_max);
    scales_text(d, out);
    rope_text("rope", &d->rope[ROPE_GLOBAL], out);
    for (int32_t i = 0; i < d->layers; i++) {
        if (d->layer[i].rope == ROPE_LOCAL) {
            rope_text("local", &d->rope[ROPE_LOCAL], out);
            break;
        }
    }
    if (d->moe.experts > 0) {
        dgl_buf_printf(out, "moe %d of %d, %d inner, %s; dense:", (int)d->moe.top_k,
                       (int)d->moe.experts, (int)d->moe.intermediate, scorings[d->moe.scoring]);
        for (int32_t i = 0; i < d->layers; i++) {
            if (!d->layer[i].sparse)
                dgl_buf_printf(out, " %d", (int)i);
        }
        dgl_buf_putc(out, '\n');
    }
    layers_text(d, out);
}
