/* Published shapes as model files without weights. */
#include "loader/model/synthetic_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/desc/model_bind.h"

#define PREFIX "synthetic:"

/* From the published config.json files; rotary scaling does not change the amount of work and is
 * left out. */
enum family { LLAMA = 1, MIXTRAL = 2, QWEN3_MOE = 4, GPT_OSS = 8 };

struct shape {
    const char *name;
    enum family family;
    int layers, hidden, intermediate, heads, kv_heads, head_dim, vocab;
    bool tied;
    int experts, top_k; /* 0 = a dense model; `intermediate` is one expert's */
};

static const struct shape shapes[] = {
    {"llama-3.2-1b", LLAMA, 16, 2048, 8192, 32, 8, 64, 128256, true, 0, 0},
    {"llama-3.2-3b", LLAMA, 28, 3072, 8192, 24, 8, 128, 128256, true, 0, 0},
    {"llama-3.1-8b", LLAMA, 32, 4096, 14336, 32, 8, 128, 128256, false, 0, 0},
    {"mistral-7b", LLAMA, 32, 4096, 14336, 32, 8, 128, 32768, false, 0, 0},
    {"mixtral-8x7b", MIXTRAL, 32, 4096, 14336, 32, 8, 128, 32000, false, 8, 2},
    {"qwen3-30b-a3b", QWEN3_MOE, 48, 2048, 768, 32, 4, 128, 151936, false, 128, 8},
    {"gpt-oss-20b", GPT_OSS, 24, 2880, 2880, 64, 8, 64, 201088, false, 32, 4},
    {"story-llama", LLAMA, 8, 256, 768, 4, 2, 64, 4096, true, 0, 0},
    {"story-moe", MIXTRAL, 4, 256, 256, 4, 2, 64, 4096, true, 8, 2},
    {"tiny-gpt-oss", GPT_OSS, 3, 96, 64, 4, 2, 16, 320, false, 8, 4},
};

struct quant {
    const char *name;
    enum dgl_dtype mlp, attention, embed;
};

static const struct quant quants[] = {
    {"q4_k", DGL_Q4_K, DGL_Q4_K, DGL_Q4_K}, {"q4_k_m", DGL_Q4_K, DGL_Q4_K, DGL_Q8_0},
    {"q8_0", DGL_Q8_0, DGL_Q8_0, DGL_Q8_0}, {"q6_k", DGL_Q6_K, DGL_Q6_K, DGL_Q6_K},
    {"q5_k", DGL_Q5_K, DGL_Q5_K, DGL_Q6_K}, {"q4_0", DGL_Q4_0, DGL_Q4_0, DGL_Q8_0},
    {"f16", DGL_F16, DGL_F16, DGL_F16},     {"bf16", DGL_BF16, DGL_BF16, DGL_BF16},
    {"f32", DGL_F32, DGL_F32, DGL_F32},     {"mxfp4", DGL_MXFP4, DGL_BF16, DGL_BF16},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

bool synthetic_is_path(const char *path)
{
    return strncmp(path, PREFIX, sizeof(PREFIX) - 1) == 0;
}

static enum dgl_status unknown(const struct dgl_log *log, const char *path)
{
    struct dgl_buf list = {0};
    for (size_t i = 0; i < COUNT(shapes); i++)
        dgl_buf_printf(&list, "%s%s", i ? ", " : "", shapes[i].name);
    dgl_buf_puts(&list, " with :");
    for (size_t i = 0; i < COUNT(quants); i++)
        dgl_buf_printf(&list, "%s%s", i ? ", :" : "", quants[i].name);
    enum dgl_status status = dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: no such shape; there are %s",
                                      path + sizeof(PREFIX) - 1, list.p ? list.p : "none");
    dgl_buf_finish(&list);
    return status;
}

/* SHAPE[:quant]; without quant q4_k_m. */
static bool parse(const char *path, const struct shape **shape, const struct quant **quant)
{
    struct dgl_str rest = dgl_str_of(path + sizeof(PREFIX) - 1), name, word = DGL_STR("q4_k_m");
    *shape = NULL;
    *quant = NULL;
    if (!dgl_str_split(&rest, ':', &name))
        return false;
    if (rest.len)
        word = rest;
    for (size_t i = 0; i < COUNT(shapes); i++)
        if (dgl_str_eq(name, shapes[i].name))
            *shape = &shapes[i];
    for (size_t i = 0; i < COUNT(quants); i++)
        if (dgl_str_eq(word, quants[i].name))
            *quant = &quants[i];
    return *shape && *quant;
}

static const char *model_type(enum family family)
{
    switch (family) {
    case MIXTRAL:
        return "mixtral";
    case QWEN3_MOE:
        return "qwen3_moe";
    case GPT_OSS:
        return "gpt_oss";
    case LLAMA:
        break;
    }
    return "llama";
}

static char *config_text(const struct shape *s)
{
    struct dgl_buf text = {0};
    dgl_buf_printf(&text,
                   "{\"model_type\":\"%s\",\"hidden_act\":\"silu\",\"num_hidden_layers\":%d,"
                   "\"hidden_size\":%d,\"intermediate_size\":%d,\"num_attention_heads\":%d,"
                   "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,"
                   "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,"
                   "\"tie_word_embeddings\":%s",
                   model_type(s->family), s->layers, s->hidden, s->intermediate, s->heads,
                   s->kv_heads, s->head_dim, s->vocab, s->tied ? "true" : "false");
    if (s->experts)
        dgl_buf_printf(&text, ",\"num_experts\":%d,\"num_experts_per_tok\":%d", s->experts,
                       s->top_k);
    if (s->family == QWEN3_MOE)
        dgl_buf_printf(&text, ",\"moe_intermediate_size\":%d,\"norm_topk_prob\":true",
                       s->intermediate);
    dgl_buf_putc(&text, '}');
    return dgl_buf_take(&text);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The list under construction, and afterwards what reads refer to. */
struct tensors {
    struct dgl_arena names;
    struct tensor_info *info;
    size_t count;
};

/* Dimensions that are 0 are not there. */
struct dims {
    int depth, rows, cols;
};

static void add_tensor(struct tensors *t, char *name, enum dgl_dtype dtype, struct dims dims)
{
    const int all[] = {dims.depth, dims.rows, dims.cols};
    struct tensor_info *info = &t->info[t->count++];
    *info = (struct tensor_info){.name = name, .dtype = dtype};
    for (size_t i = 0; i < COUNT(all); i++)
        if (all[i] > 0)
            info->shape[info->rank++] = (uint64_t)all[i];
    info->role = name ? tensor_role_from_name(name) : "other";
    if (!dgl_dtype_tensor_bytes(dtype, info->rank, info->shape, &info->bytes))
        info->bytes = 0; /* cannot happen with the shapes of the table */
}

/* One tensor of a layer, and which families have it. */
struct layer_tensor {
    const char *name;
    unsigned families;
    enum dgl_dtype dtype;
    struct dims dims;
};
enum { ALL = LLAMA | MIXTRAL | QWEN3_MOE | GPT_OSS, LAYER_TENSORS = 24 };

static void add_layer(struct tensors *t, const struct shape *s, const struct quant *q, int layer)
{
    const int q_rows = s->heads * s->head_dim, kv_rows = s->kv_heads * s->head_dim;
    const int e = s->experts, h = s->hidden, n = s->intermediate;
    const struct layer_tensor rows[LAYER_TENSORS] = {
        {"self_attn.q_proj.weight", ALL, q->attention, {0, q_rows, h}},
        {"self_attn.k_proj.weight", ALL, q->attention, {0, kv_rows, h}},
        {"self_attn.v_proj.weight", ALL, q->attention, {0, kv_rows, h}},
        {"self_attn.o_proj.weight", ALL, q->attention, {0, h, q_rows}},
        {"self_attn.q_proj.bias", GPT_OSS, DGL_F32, {0, q_rows, 0}},
        {"self_attn.k_proj.bias", GPT_OSS, DGL_F32, {0, kv_rows, 0}},
        {"self_attn.v_proj.bias", GPT_OSS, DGL_F32, {0, kv_rows, 0}},
        {"self_attn.o_proj.bias", GPT_OSS, DGL_F32, {0, h, 0}},
        {"self_attn.sinks", GPT_OSS, DGL_F32, {0, s->heads, 0}},
        {"self_attn.q_norm.weight", QWEN3_MOE, DGL_F32, {0, s->head_dim, 0}},
        {"self_attn.k_norm.weight", QWEN3_MOE, DGL_F32, {0, s->head_dim, 0}},
        {"mlp.gate_proj.weight", LLAMA, q->mlp, {0, n, h}},
        {"mlp.up_proj.weight", LLAMA, q->mlp, {0, n, h}},
        {"mlp.down_proj.weight", LLAMA, q->mlp, {0, h, n}},
        {"block_sparse_moe.gate.weight", MIXTRAL, DGL_BF16, {0, e, h}},
        {"mlp.gate.weight", QWEN3_MOE, DGL_BF16, {0, e, h}},
        {"mlp.router.weight", GPT_OSS, DGL_BF16, {0, e, h}},
        {"mlp.router.bias", GPT_OSS, DGL_F32, {0, e, 0}},
        {"mlp.experts.gate_proj.weight", MIXTRAL | QWEN3_MOE, q->mlp, {e, n, h}},
        {"mlp.experts.up_proj.weight", MIXTRAL | QWEN3_MOE, q->mlp, {e, n, h}},
        {"mlp.experts.gate_up_proj.weight", GPT_OSS, q->mlp, {e, 2 * n, h}},
        {"mlp.experts.gate_up_proj_bias", GPT_OSS, DGL_F32, {0, e, 2 * n}},
        {"mlp.experts.down_proj.weight", ALL & ~LLAMA, q->mlp, {e, h, n}},
        {"mlp.experts.down_proj_bias", GPT_OSS, DGL_F32, {0, e, h}},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        if (rows[i].families & (unsigned)s->family)
            add_tensor(t, dgl_arena_printf(&t->names, "model.layers.%d.%s", layer, rows[i].name),
                       rows[i].dtype, rows[i].dims);
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm"};
    for (size_t i = 0; i < COUNT(norms); i++)
        add_tensor(t, dgl_arena_printf(&t->names, "model.layers.%d.%s.weight", layer, norms[i]),
                   DGL_F32, (struct dims){.rows = h});
}

/* Norm gains and biases are ones; nobody reads matrices. */
static enum dgl_status read_ones(void *impl, const struct dgl_log *log, size_t index,
                                 uint64_t offset, void *dst, size_t size)
{
    const struct tensors *t = impl;
    const float one = 1.0f;
    (void)offset;
    if (t->info[index].dtype != DGL_F32)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: a synthetic matrix exists only on a device",
                        DGL_PRINTABLE(t->info[index].name));
    for (size_t i = 0; i + sizeof(one) <= size; i += sizeof(one))
        memcpy((char *)dst + i, &one, sizeof(one));
    return DGL_OK;
}

static void destroy_tensors(void *impl)
{
    struct tensors *t = impl;
    dgl_arena_finish(&t->names);
    free(t->info);
    free(t);
}

static enum dgl_status make_tensors(const struct dgl_log *log, const char *path,
                                    const struct shape *s, const struct quant *q,
                                    struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {.read = read_ones, .destroy = destroy_tensors};
    struct tensors *t = dgl_new(struct tensors);
    if (!t)
        return dgl_fail_memory(log, "tensor table", sizeof(*t));
    t->info = dgl_new_array(struct tensor_info, (size_t)s->layers * (LAYER_TENSORS + 2) + 3);
    if (!t->info) {
        destroy_tensors(t);
        return dgl_fail_memory(log, "tensor table", (uint64_t)s->layers * sizeof(*t->info));
    }
    const struct dims table = {.rows = s->vocab, .cols = s->hidden};
    add_tensor(t, dgl_arena_printf(&t->names, "model.embed_tokens.weight"), q->embed, table);
    for (int layer = 0; layer < s->layers; layer++)
        add_layer(t, s, q, layer);
    add_tensor(t, dgl_arena_printf(&t->names, "model.norm.weight"), DGL_F32,
               (struct dims){.rows = s->hidden});
    if (!s->tied)
        add_tensor(t, dgl_arena_printf(&t->names, "lm_head.weight"), q->embed, table);
    for (size_t i = 0; i < t->count; i++) {
        if (!t->info[i].name) {
            destroy_tensors(t);
            return dgl_fail_memory(log, "tensor names", 64);
        }
    }
    return tensor_source_create(log, path, &ops, t, t->info, t->count, out);
}

/* ---- the file -------------------------------------------------------------------------------- */

static enum dgl_status read_desc(const struct dgl_log *log, const char *path,
                                 struct dgl_model_file *f)
{
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status = dgl_json_parse(log, path, f->config, f->config_len, &doc);
    if (status == DGL_OK) {
        const struct fields fields = {.name = path, .base = dgl_json_root(doc)};
        struct model_desc_input in = {.config = &fields, .config_only = true};
        status = model_desc_init(log, &in, &f->desc, &f->skipped);
    }
    if (status == DGL_OK)
        status = model_bind(log, f->tensors, path, &f->desc, &f->skipped);
    dgl_json_destroy(&doc);
    return status;
}

enum dgl_status synthetic_model_init(const struct dgl_log *log, const char *path,
                                     struct dgl_model_file *f)
{
    const struct shape *shape;
    const struct quant *quant;
    if (!parse(path, &shape, &quant))
        return unknown(log, path);
    f->format = MODEL_SYNTHETIC;
    f->path = strdup(path);
    f->name = strdup(shape->name);
    f->config = config_text(shape);
    if (!f->path || !f->name || !f->config)
        return dgl_fail_memory(log, "model description", 1024);
    f->config_len = strlen(f->config);
    snprintf(f->quantization, sizeof(f->quantization), "%s", quant->name);
    enum dgl_status status = make_tensors(log, path, shape, quant, &f->tensors);
    return status == DGL_OK ? read_desc(log, path, f) : status;
}
