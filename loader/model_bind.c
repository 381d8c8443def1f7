/* The binding table and the walk over a source's tensors. */
#include "loader/model_bind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/quant.h"

enum dim { DIM_NONE, DIM_HIDDEN, DIM_INTERMEDIATE, DIM_VOCAB, DIM_Q, DIM_KV, DIM_COUNT };

enum need { ALWAYS, UNLESS_TIED };

struct bind_rule {
    const char *name; /* whole, or after "model.layers.N." */
    size_t slot;      /* of a long in struct model_desc or struct layer_desc */
    enum dim rows, cols;
    enum need need;
};

#define MODEL(field) offsetof(struct model_desc, field)
#define LAYER(field) offsetof(struct layer_desc, field)
#define LAYER_PREFIX "model.layers."

static const struct bind_rule model_rules[] = {
    {"model.embed_tokens.weight", MODEL(embed), DIM_VOCAB, DIM_HIDDEN, ALWAYS},
    {"model.norm.weight", MODEL(final_norm), DIM_HIDDEN, DIM_NONE, ALWAYS},
    {"lm_head.weight", MODEL(head), DIM_VOCAB, DIM_HIDDEN, UNLESS_TIED},
};

static const struct bind_rule layer_rules[] = {
    {"input_layernorm.weight", LAYER(attn_norm), DIM_HIDDEN, DIM_NONE, ALWAYS},
    {"self_attn.q_proj.weight", LAYER(q), DIM_Q, DIM_HIDDEN, ALWAYS},
    {"self_attn.k_proj.weight", LAYER(k), DIM_KV, DIM_HIDDEN, ALWAYS},
    {"self_attn.v_proj.weight", LAYER(v), DIM_KV, DIM_HIDDEN, ALWAYS},
    {"self_attn.o_proj.weight", LAYER(o), DIM_HIDDEN, DIM_Q, ALWAYS},
    {"post_attention_layernorm.weight", LAYER(ffn_norm), DIM_HIDDEN, DIM_NONE, ALWAYS},
    {"mlp.gate_proj.weight", LAYER(gate), DIM_INTERMEDIATE, DIM_HIDDEN, ALWAYS},
    {"mlp.up_proj.weight", LAYER(up), DIM_INTERMEDIATE, DIM_HIDDEN, ALWAYS},
    {"mlp.down_proj.weight", LAYER(down), DIM_HIDDEN, DIM_INTERMEDIATE, ALWAYS},
};

/* Buffers that a checkpoint stores although they follow from the config. */
static const char *const derived_buffers[] = {".rotary_emb.inv_freq", ".masked_bias"};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct binder {
    const struct dgl_log *log;
    const struct tensor_source *src;
    const char *config_name;
    struct model_desc *desc;
    struct model_skipped *skipped;
    uint64_t dims[DIM_COUNT];
};

static long *slot_at(void *base, const struct bind_rule *rule)
{
    return (long *)(void *)((char *)base + rule->slot);
}

static const struct bind_rule *rule_find(const struct bind_rule *rules, size_t count,
                                         const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rules[i].name, name) == 0)
            return &rules[i];
    }
    return NULL;
}

/* Splits "model.layers.12.rest"; false unless the number is one that the model has, without
 * leading zeros. */
static bool layer_parse(const char *name, int32_t layers, int32_t *layer, const char **rest)
{
    size_t skip = strlen(LAYER_PREFIX);
    if (strncmp(name, LAYER_PREFIX, skip) != 0)
        return false;
    const char *digits = name + skip;
    const char *dot = strchr(digits, '.');
    int64_t n;
    if (!dot || (digits[0] == '0' && dot != digits + 1) ||
        !dgl_parse_i64((struct dgl_str){digits, (size_t)(dot - digits)}, 0, layers - 1, &n))
        return false;
    *layer = (int32_t)n;
    *rest = dot + 1;
    return true;
}

static bool is_derived(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < COUNT(derived_buffers); i++) {
        size_t n = strlen(derived_buffers[i]);
        if (len >= n && strcmp(name + len - n, derived_buffers[i]) == 0)
            return true;
    }
    return false;
}

static enum dgl_status skip_add(struct binder *b, const char *name, const char *why)
{
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "%s: %s", name, why);
    char *text = dgl_buf_take(&line);
    char **lines = realloc(b->skipped->lines, (b->skipped->count + 1) * sizeof(*lines));
    if (lines)
        b->skipped->lines = lines;
    if (!text || !lines) {
        free(text);
        return dgl_fail_memory(b->log, "list of skipped tensors", strlen(name));
    }
    lines[b->skipped->count++] = text;
    return DGL_OK;
}

static enum dgl_status check_dtype(struct binder *b, const struct tensor_info *t, bool matrix)
{
    if (dgl_row_decodable(t->dtype) && (matrix || dgl_dtype_get(t->dtype)->block == 1))
        return DGL_OK;
    return dgl_fail(b->log, DGL_ERR_UNSUPPORTED, "%s: tensor %s is %s; supported: %s",
                    tensor_source_label(b->src), t->name, dgl_dtype_get(t->dtype)->name,
                    matrix ? "f32, f16, bf16 and block formats" : "f32, f16, bf16");
}

static enum dgl_status check_shape(struct binder *b, const struct tensor_info *t,
                                   const struct bind_rule *rule)
{
    uint32_t rank = rule->cols == DIM_NONE ? 1 : 2;
    uint64_t want[2] = {b->dims[rule->rows], b->dims[rule->cols]};
    if (t->rank == rank && t->shape[0] == want[0] && (rank == 1 || t->shape[1] == want[1]))
        return DGL_OK;
    char found_text[TENSOR_SHAPE_TEXT], want_text[TENSOR_SHAPE_TEXT];
    return dgl_fail(b->log, DGL_ERR_FORMAT, "%s: tensor %s has shape %s, but %s makes it %s",
                    tensor_source_label(b->src), t->name,
                    tensor_shape_str(t->rank, t->shape, found_text), b->config_name,
                    tensor_shape_str(rank, want, want_text));
}

static enum dgl_status bind_tensor(struct binder *b, size_t index, const struct bind_rule *rule,
                                   void *base)
{
    const struct tensor_info *t = tensor_source_at(b->src, index);
    enum dgl_status st = check_dtype(b, t, rule->cols != DIM_NONE);
    if (st == DGL_OK)
        st = check_shape(b, t, rule);
    if (st != DGL_OK)
        return st;
    *slot_at(base, rule) = (long)index;
    /* Both factors are bounded by the config's ranges, and so is the number of tensors. */
    b->desc->parameters += t->shape[0] * (t->rank > 1 ? t->shape[1] : 1);
    b->desc->weight_bytes += t->bytes;
    return DGL_OK;
}

/* Compares two tensors' bytes, a piece at a time. */
static enum dgl_status bytes_equal(struct binder *b, size_t x, size_t y, bool *equal)
{
    enum { PIECE = 1 << 20 };
    const struct tensor_info *tx = tensor_source_at(b->src, x);
    const struct tensor_info *ty = tensor_source_at(b->src, y);
    *equal = tx->dtype == ty->dtype && tx->bytes == ty->bytes;
    unsigned char *piece = dgl_calloc(2, PIECE);
    if (!piece)
        return dgl_fail_memory(b->log, "comparison of tensors", 2 * PIECE);
    enum dgl_status st = DGL_OK;
    for (uint64_t at = 0; *equal && st == DGL_OK && at < tx->bytes; at += PIECE) {
        size_t n = tx->bytes - at < PIECE ? (size_t)(tx->bytes - at) : PIECE;
        st = tensor_source_read(b->log, b->src, x, at, piece, n);
        if (st == DGL_OK)
            st = tensor_source_read(b->log, b->src, y, at, piece + PIECE, n);
        if (st == DGL_OK)
            *equal = memcmp(piece, piece + PIECE, n) == 0;
    }
    free(piece);
    return st;
}

/* Some checkpoints store the head although it is the embedding table: harmless as long as that
 * is true. */
static enum dgl_status skip_tied_head(struct binder *b, size_t index)
{
    const char *name = tensor_source_at(b->src, index)->name;
    long embed = tensor_source_find(b->src, "model.embed_tokens.weight");
    bool equal = false;
    enum dgl_status st = embed < 0 ? DGL_OK : bytes_equal(b, index, (size_t)embed, &equal);
    if (st != DGL_OK)
        return st;
    if (!equal)
        return dgl_fail(b->log, DGL_ERR_FORMAT,
                        "%s: tensor %s differs from model.embed_tokens.weight, but %s has "
                        "tie_word_embeddings true; set it to false if the head is its own",
                        tensor_source_label(b->src), name, b->config_name);
    return skip_add(b, name, "equal to the tied embeddings");
}

static enum dgl_status place_tensor(struct binder *b, size_t index)
{
    const struct tensor_info *t = tensor_source_at(b->src, index);
    int32_t layer;
    const char *rest;
    const struct bind_rule *rule = rule_find(model_rules, COUNT(model_rules), t->name);
    if (rule && rule->need == UNLESS_TIED && b->desc->tied_head)
        return skip_tied_head(b, index);
    if (rule)
        return bind_tensor(b, index, rule, b->desc);
    if (layer_parse(t->name, b->desc->layers, &layer, &rest)) {
        rule = rule_find(layer_rules, COUNT(layer_rules), rest);
        if (rule)
            return bind_tensor(b, index, rule, &b->desc->layer[layer]);
    }
    if (is_derived(t->name))
        return skip_add(b, t->name, "derived buffer");
    return dgl_fail(b->log, DGL_ERR_UNSUPPORTED,
                    "%s: tensor %s is not part of a %s model with %" PRId32
                    " layers (%s); refusing to leave it out",
                    tensor_source_label(b->src), t->name, b->desc->family, b->desc->layers,
                    b->config_name);
}

static enum dgl_status missing(const struct binder *b, int32_t layer, const char *name)
{
    struct dgl_buf full = {0};
    if (layer >= 0)
        dgl_buf_printf(&full, LAYER_PREFIX "%" PRId32 ".", layer);
    dgl_buf_puts(&full, name);
    enum dgl_status st = dgl_fail(
        b->log, DGL_ERR_FORMAT, "%s: tensor %s is missing, but %s describes a model that has it",
        tensor_source_label(b->src), full.p ? full.p : name, b->config_name);
    dgl_buf_finish(&full);
    return st;
}

static enum dgl_status check_complete(struct binder *b)
{
    for (size_t i = 0; i < COUNT(model_rules); i++) {
        const struct bind_rule *rule = &model_rules[i];
        bool optional = rule->need == UNLESS_TIED && b->desc->tied_head;
        if (!optional && *slot_at(b->desc, rule) == TENSOR_NONE)
            return missing(b, -1, rule->name);
    }
    for (int32_t layer = 0; layer < b->desc->layers; layer++) {
        for (size_t i = 0; i < COUNT(layer_rules); i++) {
            if (*slot_at(&b->desc->layer[layer], &layer_rules[i]) == TENSOR_NONE)
                return missing(b, layer, layer_rules[i].name);
        }
    }
    return DGL_OK;
}

enum dgl_status model_bind(const struct dgl_log *log, const struct tensor_source *src,
                           const char *config_name, struct model_desc *out,
                           struct model_skipped *skipped)
{
    struct binder b = {
        .log = log,
        .src = src,
        .config_name = config_name,
        .desc = out,
        .skipped = skipped,
        .dims = {[DIM_HIDDEN] = (uint64_t)out->hidden,
                 [DIM_INTERMEDIATE] = (uint64_t)out->intermediate,
                 [DIM_VOCAB] = (uint64_t)out->vocab,
                 [DIM_Q] = (uint64_t)out->heads * (uint64_t)out->head_dim,
                 [DIM_KV] = (uint64_t)out->kv_heads * (uint64_t)out->head_dim},
    };
    enum dgl_status st = DGL_OK;
    for (size_t i = 0; i < tensor_source_count(src) && st == DGL_OK; i++)
        st = place_tensor(&b, i);
    if (st == DGL_OK)
        st = check_complete(&b);
    if (st == DGL_OK && out->tied_head)
        out->head = out->embed;
    if (st == DGL_OK && skipped->count > 0)
        dgl_info(log, "%s: %zu tensors are not needed and were left out: %s%s",
                 tensor_source_label(src), skipped->count, skipped->lines[0],
                 skipped->count > 1 ? ", ..." : "");
    return st;
}
