/* Published shapes as model files without weights. */
#include "loader/synthetic_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "loader/model_bind.h"

#define PREFIX "synthetic:"

/* From the published config.json files; rotary scaling does not change the amount of work and is
 * left out. */
struct shape {
    const char *name;
    int layers, hidden, intermediate, heads, kv_heads, head_dim, vocab;
    bool tied;
};

static const struct shape shapes[] = {
    {"llama-3.2-1b", 16, 2048, 8192, 32, 8, 64, 128256, true},
    {"llama-3.2-3b", 28, 3072, 8192, 24, 8, 128, 128256, true},
    {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, false},
    {"mistral-7b", 32, 4096, 14336, 32, 8, 128, 32768, false},
    {"story-llama", 8, 256, 768, 4, 2, 64, 4096, true},
};

struct quant {
    const char *name;
    enum dgl_dtype matrix, embed;
};

static const struct quant quants[] = {
    {"q4_k", DGL_Q4_K, DGL_Q4_K}, {"q4_k_m", DGL_Q4_K, DGL_Q8_0}, {"q8_0", DGL_Q8_0, DGL_Q8_0},
    {"f16", DGL_F16, DGL_F16},    {"bf16", DGL_BF16, DGL_BF16},   {"f32", DGL_F32, DGL_F32},
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
    enum dgl_status st = dgl_fail(log, DGL_ERR_INVALID_ARG, "%s: no such shape; there are %s",
                                  path + sizeof(PREFIX) - 1, list.p ? list.p : "none");
    dgl_buf_finish(&list);
    return st;
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

static char *config_text(const struct shape *s)
{
    struct dgl_buf text = {0};
    dgl_buf_printf(&text,
                   "{\"model_type\":\"llama\",\"hidden_act\":\"silu\",\"num_hidden_layers\":%d,"
                   "\"hidden_size\":%d,\"intermediate_size\":%d,\"num_attention_heads\":%d,"
                   "\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":%d,"
                   "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,"
                   "\"tie_word_embeddings\":%s}",
                   s->layers, s->hidden, s->intermediate, s->heads, s->kv_heads, s->head_dim,
                   s->vocab, s->tied ? "true" : "false");
    return dgl_buf_take(&text);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The list under construction, and afterwards what reads refer to. */
struct tensors {
    struct dgl_arena names;
    struct tensor_info *info;
    size_t count;
};

static void add_tensor(struct tensors *t, char *name, enum dgl_dtype dtype, int rows, int cols)
{
    struct tensor_info *info = &t->info[t->count++];
    *info = (struct tensor_info){.name = name, .dtype = dtype, .rank = cols ? 2 : 1};
    info->shape[0] = (uint64_t)rows;
    info->shape[1] = (uint64_t)cols;
    info->role = name ? tensor_role_from_name(name) : "other";
    if (!dgl_dtype_tensor_bytes(dtype, info->rank, info->shape, &info->bytes))
        info->bytes = 0; /* cannot happen with the shapes of the table */
}

static void add_layer(struct tensors *t, const struct shape *s, enum dgl_dtype dtype, int layer)
{
    const struct {
        const char *name;
        int rows, cols;
    } rows[] = {
        {"self_attn.q_proj", s->heads * s->head_dim, s->hidden},
        {"self_attn.k_proj", s->kv_heads * s->head_dim, s->hidden},
        {"self_attn.v_proj", s->kv_heads * s->head_dim, s->hidden},
        {"self_attn.o_proj", s->hidden, s->heads * s->head_dim},
        {"mlp.gate_proj", s->intermediate, s->hidden},
        {"mlp.up_proj", s->intermediate, s->hidden},
        {"mlp.down_proj", s->hidden, s->intermediate},
        {"input_layernorm", s->hidden, 0},
        {"post_attention_layernorm", s->hidden, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        add_tensor(t, dgl_arena_printf(&t->names, "model.layers.%d.%s.weight", layer, rows[i].name),
                   rows[i].cols ? dtype : DGL_F32, rows[i].rows, rows[i].cols);
}

/* Norm gains are ones; nobody reads matrices. */
static enum dgl_status read_ones(void *impl, const struct dgl_log *log, size_t index,
                                 uint64_t offset, void *dst, size_t size)
{
    const struct tensors *t = impl;
    const float one = 1.0f;
    (void)offset;
    if (t->info[index].rank != 1)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: a synthetic matrix exists only on a device",
                        t->info[index].name);
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
    static const struct tensor_source_ops ops = {read_ones, destroy_tensors};
    struct tensors *t = dgl_new(struct tensors);
    if (!t)
        return dgl_fail_memory(log, "tensor table", sizeof(*t));
    t->info = dgl_new_array(struct tensor_info, (size_t)s->layers * 9 + 3);
    if (!t->info) {
        destroy_tensors(t);
        return dgl_fail_memory(log, "tensor table", (uint64_t)s->layers * sizeof(*t->info));
    }
    add_tensor(t, dgl_arena_printf(&t->names, "model.embed_tokens.weight"), q->embed, s->vocab,
               s->hidden);
    for (int layer = 0; layer < s->layers; layer++)
        add_layer(t, s, q->matrix, layer);
    add_tensor(t, dgl_arena_printf(&t->names, "model.norm.weight"), DGL_F32, s->hidden, 0);
    if (!s->tied)
        add_tensor(t, dgl_arena_printf(&t->names, "lm_head.weight"), q->embed, s->vocab, s->hidden);
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
    enum dgl_status st = dgl_json_parse(log, path, f->config, f->config_len, &doc);
    if (st == DGL_OK) {
        struct model_desc_input in = {.config = {.log = log, .doc = doc},
                                      .config_root = dgl_json_root(doc),
                                      .config_only = true};
        st = model_desc_init(log, &in, &f->desc, &f->skipped);
    }
    if (st == DGL_OK)
        st = model_bind(log, f->tensors, path, &f->desc, &f->skipped);
    dgl_json_destroy(&doc);
    return st;
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
    enum dgl_status st = make_tensors(log, path, shape, quant, &f->tensors);
    return st == DGL_OK ? read_desc(log, path, f) : st;
}
