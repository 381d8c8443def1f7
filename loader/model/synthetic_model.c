/* Published shapes as models without weights. */
#include "loader/model/synthetic_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/desc/bind_rules.h"
#include "loader/desc/model_bind.h"

#define PREFIX "synthetic:"

/* From the published config.json files; rotary scaling does not change the amount of work and is
 * left out. */
struct shape {
    const char *name;
    const char *config; /* fields of config.json, without braces */
};

/* Fields that all families have. */
#define SIZES(layers, hidden, intermediate, heads, kv_heads, head_dim, vocab, context)             \
    "\"num_hidden_layers\":" #layers ",\"hidden_size\":" #hidden                                   \
    ",\"intermediate_size\":" #intermediate ",\"num_attention_heads\":" #heads                     \
    ",\"num_key_value_heads\":" #kv_heads ",\"head_dim\":" #head_dim ",\"vocab_size\":" #vocab     \
    ",\"max_position_embeddings\":" #context
#define FAMILY(type) ",\"model_type\":\"" type "\""
#define SILU         ",\"hidden_act\":\"silu\""
#define LLAMA        FAMILY("llama") SILU ",\"rms_norm_eps\":1e-5,\"rope_theta\":5e5"
#define GEMMA        ",\"hidden_activation\":\"gelu_pytorch_tanh\",\"query_pre_attn_scalar\":256"
#define TIED         ",\"tie_word_embeddings\":true"
#define UNTIED       ",\"tie_word_embeddings\":false"

static const struct shape shapes[] = {
    {"llama-3.2-1b", SIZES(16, 2048, 8192, 32, 8, 64, 128256, 131072) LLAMA TIED},
    {"llama-3.2-3b", SIZES(28, 3072, 8192, 24, 8, 128, 128256, 131072) LLAMA TIED},
    {"llama-3.1-8b", SIZES(32, 4096, 14336, 32, 8, 128, 128256, 131072) LLAMA UNTIED},
    {"mistral-7b", SIZES(32, 4096, 14336, 32, 8, 128, 32768, 32768) LLAMA UNTIED},
    {"qwen2.5-1.5b", SIZES(28, 1536, 8960, 12, 2, 128, 151936, 131072) FAMILY("qwen2") TIED SILU
     ",\"rms_norm_eps\":1e-6,\"rope_theta\":1e6"},
    {"qwen3-0.6b", SIZES(28, 1024, 3072, 16, 8, 128, 151936, 40960) FAMILY("qwen3") TIED SILU
     ",\"rms_norm_eps\":1e-6,\"rope_theta\":1e6"},
    {"gemma-2-9b", SIZES(42, 3584, 14336, 16, 8, 256, 256000, 8192) FAMILY("gemma2") GEMMA
     ",\"sliding_window\":4096,\"attn_logit_softcapping\":50.0,"
     "\"final_logit_softcapping\":30.0"},
    {"gemma-3-1b", SIZES(26, 1152, 6912, 4, 1, 256, 262144, 32768) FAMILY("gemma3_text") GEMMA
     ",\"sliding_window\":512,\"sliding_window_pattern\":6"},
    {"phi-3.5-mini", SIZES(32, 3072, 8192, 32, 32, 96, 32064, 131072) FAMILY("phi3") UNTIED SILU
     ",\"sliding_window\":262144"},
    {"mixtral-8x7b", SIZES(32, 4096, 14336, 32, 8, 128, 32000, 32768) FAMILY("mixtral") UNTIED
     ",\"num_local_experts\":8,\"num_experts_per_tok\":2"},
    {"qwen3-30b-a3b", SIZES(48, 2048, 6144, 32, 4, 128, 151936, 40960) FAMILY("qwen3_moe") UNTIED
     ",\"num_experts\":128,\"num_experts_per_tok\":8,\"moe_intermediate_size\":768,"
     "\"norm_topk_prob\":true,\"rope_theta\":1e6"},
    {"gpt-oss-20b", SIZES(24, 2880, 2880, 64, 8, 64, 201088, 131072) FAMILY("gpt_oss") UNTIED
     ",\"num_local_experts\":32,\"num_experts_per_tok\":4,\"sliding_window\":128"},
    {"story-llama", SIZES(8, 256, 768, 4, 2, 64, 4096, 8192) LLAMA TIED},
    {"story-moe", SIZES(4, 256, 256, 4, 2, 64, 4096, 8192) FAMILY("mixtral") TIED
     ",\"num_local_experts\":8,\"num_experts_per_tok\":2"},
    {"tiny-gpt-oss", SIZES(3, 96, 64, 4, 2, 16, 320, 8192) FAMILY("gpt_oss") UNTIED
     ",\"num_local_experts\":8,\"num_experts_per_tok\":4,\"sliding_window\":128"},
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
#define MAX_CONFIG   (16u << 20)

bool synthetic_is_path(const char *path)
{
    return strncmp(path, PREFIX, sizeof(PREFIX) - 1) == 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Ends a list of names with those of all types, after `before` each. */
static void add_quants(struct dgl_buf *list, const char *before)
{
    for (size_t i = 0; i < COUNT(quants); i++)
        dgl_buf_printf(list, "%s%s%s", i ? ", " : "", before, quants[i].name);
}

static enum dgl_status unknown_shape(const struct dgl_log *log, const char *value)
{
    struct dgl_buf list = {0};
    for (size_t i = 0; i < COUNT(shapes); i++)
        dgl_buf_printf(&list, "%s%s", i ? ", " : "", shapes[i].name);
    dgl_buf_puts(&list, ", and any config.json (a path with / or .json), with ");
    add_quants(&list, ":");
    enum dgl_status status = dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: no such shape; there are %s",
                                      DGL_PRINTABLE(value), list.p ? list.p : "none");
    dgl_buf_finish(&list);
    return status;
}

static enum dgl_status unknown_quant(const struct dgl_log *log, const char *value,
                                     struct dgl_str word)
{
    struct dgl_buf list = {0};
    add_quants(&list, "");
    enum dgl_status status =
        dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: '%s' is no type of weights; there are %s",
                 DGL_PRINTABLE(value), DGL_PRINTABLE_STR(word), list.p ? list.p : "none");
    dgl_buf_finish(&list);
    return status;
}

static bool is_file(struct dgl_str name)
{
    return (name.len && memchr(name.p, '/', name.len)) || dgl_str_ends(name, ".json");
}

/* SHAPE[:quant] or FILE[:quant]; without quant q4_k_m. *shape is NULL for a file. */
static enum dgl_status parse(const struct dgl_log *log, const struct dgl_source *source,
                             const char *path, struct dgl_str *name, const struct shape **shape,
                             const struct quant **quant)
{
    const char *value = path + sizeof(PREFIX) - 1;
    struct dgl_str word = DGL_STR("q4_k_m");
    *name = dgl_str_of(value);
    *shape = NULL;
    *quant = NULL;
    const char *colon = strrchr(name->p, ':');
    enum dgl_entry entry = DGL_ENTRY_NONE;
    if (is_file(*name))
        blob_find(NULL, source, name->p, &entry);
    if (colon && entry == DGL_ENTRY_NONE &&
        !is_file(dgl_str_of(colon + 1))) { /* else it is the file's own */
        word = dgl_str_of(colon + 1);
        name->len = (size_t)(colon - name->p);
    }
    for (size_t i = 0; i < COUNT(shapes); i++)
        if (dgl_str_eq(*name, shapes[i].name))
            *shape = &shapes[i];
    for (size_t i = 0; i < COUNT(quants); i++)
        if (dgl_str_eq(word, quants[i].name))
            *quant = &quants[i];
    if (!*shape && !is_file(*name))
        return unknown_shape(log, value);
    return *quant ? DGL_OK : unknown_quant(log, value, word);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Tensor list; it becomes the state of the tensor source. */
struct tensors {
    struct dgl_arena names;
    struct tensor_info *info;
    size_t count;
    bool norm_plus_one; /* norm weights are stored minus 1 */
};

/* Routers are published in bf16; vectors and biases are f32 here. llama.cpp's fallback for rows
 * that are no whole number of blocks is a type of smaller blocks as well. */
static enum dgl_dtype choose_dtype(const struct bind_rule *rule, bool of_layer,
                                   const struct quant *q, uint64_t cols)
{
    enum dgl_dtype dtype = q->mlp;
    if (bind_rule_rank(rule) == 1 || dgl_str_ends(dgl_str_of(rule->name), "bias"))
        return DGL_F32;
    if (!of_layer)
        dtype = q->embed;
    else if (rule->slot == offsetof(struct layer_desc, router))
        dtype = DGL_BF16;
    else if (dgl_str_starts(dgl_str_of(rule->name), "self_attn."))
        dtype = q->attention;
    if (cols % dgl_dtype_get(dtype)->block == 0)
        return dtype;
    return cols % dgl_dtype_get(DGL_Q8_0)->block == 0 ? DGL_Q8_0 : DGL_F16;
}

/* Adds the tensor of a rule; layer is -1 outside of layers. */
static enum dgl_status add_tensor(const struct dgl_log *log, struct tensors *t,
                                  const struct model_desc *desc, const struct quant *q,
                                  int32_t layer, const struct bind_rule *rule)
{
    uint64_t dims[DIM_COUNT];
    char shape[TENSOR_SHAPE_TEXT];
    struct tensor_info *info = &t->info[t->count++];
    bind_dims_fill(desc, dims);
    *info = (struct tensor_info){.rank = bind_rule_rank(rule)};
    for (uint32_t i = 0; i < info->rank; i++)
        info->shape[i] = dims[rule->dims[i]];
    info->dtype = choose_dtype(rule, layer >= 0, q, info->shape[info->rank - 1]);
    info->name =
        layer < 0 ? dgl_arena_printf(&t->names, "%s", rule->name)
                  : dgl_arena_printf(&t->names, "model.layers.%" PRId32 ".%s", layer, rule->name);
    if (!info->name)
        return dgl_fail_memory(log, "tensor names", 64);
    info->role = tensor_role_from_name(info->name);
    if (!dgl_dtype_tensor_bytes(info->dtype, info->rank, info->shape, &info->bytes))
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "tensor %s of shape %s is too large", info->name,
                        tensor_shape_str(info->rank, info->shape, shape));
    return DGL_OK;
}

/* Values that give greedy answers with many different ids, so that a wrong id is noticed. Attention
 * adds little to the residual stream, which therefore follows the last token and not the mean of
 * all tokens. Norm weights before the head alternate in sign, so a tied head does not return the
 * same token again. Matrices are never read. */
static enum dgl_status read_vector(void *impl, const struct dgl_log *log, size_t index,
                                   uint64_t offset, void *dst, size_t size)
{
    const struct tensors *t = impl;
    const struct tensor_info *info = &t->info[index];
    const bool is_bias = dgl_str_ends(dgl_str_of(info->name), "bias");
    const bool of_head = strcmp(info->name, "model.norm.weight") == 0;
    const bool of_attention = dgl_str_ends(dgl_str_of(info->name), "input_layernorm.weight");
    const float magnitude = is_bias ? 0.001f : of_attention ? 0.125f : 1.0f;
    if (info->dtype != DGL_F32)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: a synthetic matrix exists only on a device",
                        DGL_PRINTABLE(info->name));
    for (size_t i = 0; i + sizeof(float) <= size; i += sizeof(float)) {
        const uint32_t hash = (uint32_t)((offset + i) / sizeof(float)) * 0x9E3779B1u;
        float value = (of_head || is_bias) && hash >> 31 ? -magnitude : magnitude;
        if (!is_bias && t->norm_plus_one)
            value -= 1.0f;
        memcpy((char *)dst + i, &value, sizeof(value));
    }
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
                                    const struct model_desc *desc, const struct quant *q,
                                    struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {.read = read_vector, .destroy = destroy_tensors};
    size_t most = bind_num_model_rules + (size_t)desc->layers * bind_num_layer_rules;
    struct tensors *t = dgl_new(struct tensors);
    if (!t)
        return dgl_fail_memory(log, "tensor table", sizeof(*t));
    t->norm_plus_one = desc->norm_plus_one;
    t->info = dgl_new_array(struct tensor_info, most);
    enum dgl_status status = DGL_OK;
    if (!t->info)
        TRY(dgl_fail_memory(log, "tensor table", most * sizeof(*t->info)));
    /* Adds all required tensors, experts stacked. Of alternatives, the first of the table is
     * added. */
    for (size_t i = 0; i < bind_num_model_rules; i++) {
        const struct bind_rule *rule = &bind_model_rules[i];
        if (rule->slot != offsetof(struct model_desc, head) || !desc->tied_head)
            TRY(add_tensor(log, t, desc, q, -1, rule));
    }
    for (int32_t layer = 0; layer < desc->layers; layer++) {
        bool filled[sizeof(struct layer_desc)] = {false}; /* by slot */
        for (size_t i = 0; i < bind_num_layer_rules; i++) {
            const struct bind_rule *rule = &bind_layer_rules[i];
            if (rule->optional || rule->kind == EACH || !bind_rule_holds(rule, desc, layer) ||
                filled[rule->slot] || (rule->instead && filled[rule->instead]))
                continue;
            filled[rule->slot] = true;
            TRY(add_tensor(log, t, desc, q, layer, rule));
        }
    }
    return tensor_source_create(log, path, &ops, t, t->info, t->count, out);
done:
    destroy_tensors(t);
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Short name: NAME of models/NAME/config.json, or the file name without ".json". */
static char *file_name(struct dgl_str path)
{
    struct dgl_str part, before = {0}, last = {0};
    while (dgl_str_split(&path, '/', &part)) {
        before = last;
        last = part;
    }
    if (dgl_str_eq(last, "config.json") && before.len && !dgl_str_eq(before, "."))
        last = before;
    else if (dgl_str_ends(last, ".json"))
        last.len -= strlen(".json");
    return dgl_strndup(last.p, last.len);
}

enum dgl_status synthetic_model_init(const struct dgl_log *log, const char *path,
                                     struct dgl_model_file *f)
{
    struct dgl_str name;
    const struct shape *shape;
    const struct quant *quant;
    struct dgl_json_doc *doc = NULL;
    char *file = NULL;
    enum dgl_status status = parse(log, f->source, path, &name, &shape, &quant);
    if (status != DGL_OK)
        return status;
    f->format = MODEL_SYNTHETIC;
    f->path = dgl_strdup(path);
    f->name = shape ? dgl_strdup(shape->name) : file_name(name);
    file = dgl_strndup(name.p, name.len);
    snprintf(f->quantization, sizeof(f->quantization), "%s", quant->name);
    if (!f->path || !f->name || !file)
        TRY(dgl_fail_memory(log, "model description", 1024));
    if (shape) {
        struct dgl_buf text = {0};
        dgl_buf_printf(&text, "{%s}", shape->config);
        f->config_len = text.len;
        f->config = dgl_buf_take(&text);
        if (!f->config)
            TRY(dgl_fail_memory(log, "model description", 1024));
    } else {
        TRY(blob_load(log, f->source, file, MAX_CONFIG, &f->config, &f->config_len));
    }
    TRY(dgl_json_parse(log, file, f->config, f->config_len, &doc));
    const struct fields fields = {.name = file, .base = dgl_json_root(doc)};
    struct model_desc_input in = {.config = &fields, .config_only = true};
    TRY(model_desc_init(log, &in, &f->desc, &f->skipped));
    TRY(make_tensors(log, path, &f->desc, quant, &f->tensors));
    TRY(model_bind(log, f->tensors, file, &f->desc, &f->skipped));
done:
    dgl_json_destroy(&doc);
    free(file);
    return status;
}
