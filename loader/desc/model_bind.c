/* Binds the tensors of a source, one after the other. */
#include "loader/desc/model_bind.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/desc/bind_rules.h"
#include "loader/quant/quant.h"

struct binder {
    const struct dgl_log *log;
    const struct tensor_source *src;
    const char *config_name;
    struct model_desc *desc;
    struct model_skipped *skipped;
    uint64_t dims[DIM_COUNT];
    long spare_head; /* head tensor of a model with tied embeddings, or TENSOR_NONE */
    bool base;       /* a name is that of a base model */
    size_t left_out[BIND_NUM_PREFIXES];
};

static void *slot_at(void *base, size_t slot)
{
    return (char *)base + slot;
}

/* Returns the name of a tensor for messages. */
static struct dgl_printable shown_at(const struct binder *b, size_t index)
{
    return tensor_source_printable(b->src, tensor_source_at(b->src, index)->name);
}

static enum dgl_status skip_tensor(struct binder *b, size_t index, const char *why)
{
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "%s: %s", shown_at(b, index).text, why);
    b->skipped->of_tensor[index] = true;
    return model_skipped_add(b->log, b->skipped, &line);
}

/* Sets `want` to the shape of the rule's tensor in this model and returns its rank. */
static uint32_t wanted_shape(const struct binder *b, const struct bind_rule *rule,
                             uint64_t want[BIND_MAX_RANK])
{
    uint32_t rank = bind_rule_rank(rule);
    for (uint32_t i = 0; i < rank; i++)
        want[i] = b->dims[rule->dims[i]];
    return rank;
}

static const char *wanted_text(const struct binder *b, const struct bind_rule *rule,
                               char text[TENSOR_SHAPE_TEXT])
{
    uint64_t want[BIND_MAX_RANK];
    uint32_t rank = wanted_shape(b, rule, want);
    return tensor_shape_str(rank, want, text);
}

static enum dgl_status fail_twice(struct binder *b, long first, const char *second)
{
    return dgl_fail(b->log, DGL_ERR_FORMAT,
                    "%s: tensors %s and %s are the same part of the model; remove one of them",
                    tensor_source_label(b->src), shown_at(b, (size_t)first).text,
                    tensor_source_printable(b->src, second).text);
}

static enum dgl_status bind_tensor(struct binder *b, size_t index, const struct bind_match *m)
{
    const struct tensor_info *t = tensor_source_at(b->src, index);
    bool matrix = bind_rule_rank(m->rule) > 1 && !dgl_str_ends(dgl_str_of(m->rule->name), "bias");
    if (!dgl_row_decodable(t->dtype) || (!matrix && dgl_dtype_get(t->dtype)->block != 1))
        return dgl_fail(b->log, DGL_ERR_UNSUPPORTED, "%s: tensor %s is %s; supported: %s",
                        tensor_source_label(b->src), tensor_source_printable(b->src, t->name).text,
                        dgl_dtype_get(t->dtype)->name,
                        matrix ? "f32, f16, bf16 and block formats" : "f32, f16, bf16");
    uint64_t want[BIND_MAX_RANK];
    uint32_t rank = wanted_shape(b, m->rule, want);
    if (t->rank != rank || memcmp(t->shape, want, rank * sizeof(*want)) != 0) {
        char found_text[TENSOR_SHAPE_TEXT], want_text[TENSOR_SHAPE_TEXT];
        return dgl_fail(b->log, DGL_ERR_FORMAT, "%s: tensor %s has shape %s, but %s makes it %s",
                        tensor_source_label(b->src), tensor_source_printable(b->src, t->name).text,
                        tensor_shape_str(t->rank, t->shape, found_text), b->config_name,
                        wanted_text(b, m->rule, want_text));
    }

    /* The index that the rule sets: for one tensor per expert, in a list that is created here. */
    void *slot = slot_at(m->base, m->rule->slot);
    struct expert_tensors *experts = slot;
    long *place = m->rule->kind == TENSOR ? slot : &experts->stacked;
    if (m->rule->kind == EACH) {
        size_t count = (size_t)b->desc->moe.experts;
        bool fresh = !experts->each;
        if (fresh && !(experts->each = dgl_new_array(long, count)))
            return dgl_fail_memory(b->log, "list of experts", count * sizeof(long));
        for (size_t i = 0; fresh && i < count; i++)
            experts->each[i] = TENSOR_NONE;
        place = &experts->each[m->number];
    }
    if (*place != TENSOR_NONE)
        return fail_twice(b, *place, t->name);
    *place = (long)index;

    /* No overflow: the config limits every dimension and the number of tensors. */
    uint64_t values = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        values *= t->shape[i];
    b->desc->parameters += values;
    b->desc->weight_bytes += t->bytes;
    return DGL_OK;
}

/* Some checkpoints store the head although it equals the embedding table. Compares the bytes of
 * both, a piece at a time, and skips the head if they are equal. */
static enum dgl_status skip_spare_head(struct binder *b)
{
    enum { PIECE = 1 << 20 };
    if (b->spare_head == TENSOR_NONE)
        return DGL_OK;
    const size_t x = (size_t)b->spare_head, y = (size_t)b->desc->embed;
    const struct tensor_info *tx = tensor_source_at(b->src, x);
    const struct tensor_info *ty = tensor_source_at(b->src, y);
    bool equal = tx->dtype == ty->dtype && tx->bytes == ty->bytes;
    enum dgl_status status = DGL_OK;
    unsigned char *piece = dgl_calloc(2, PIECE);
    if (!piece)
        return dgl_fail_memory(b->log, "comparison of tensors", 2 * PIECE);
    for (uint64_t at = 0; equal && at < tx->bytes; at += PIECE) {
        size_t n = tx->bytes - at < PIECE ? (size_t)(tx->bytes - at) : PIECE;
        TRY(tensor_source_read(b->log, b->src, x, at, piece, n));
        TRY(tensor_source_read(b->log, b->src, y, at, piece + PIECE, n));
        equal = memcmp(piece, piece + PIECE, n) == 0;
    }
    status = equal ? skip_tensor(b, x, "equal to the tied embeddings")
                   : dgl_fail(b->log, DGL_ERR_FORMAT,
                              "%s: tensor %s differs from %s, but %s has tie_word_embeddings true; "
                              "set it to false if the head is its own",
                              tensor_source_label(b->src), shown_at(b, x).text, shown_at(b, y).text,
                              b->config_name);
done:
    free(piece);
    return status;
}

static enum dgl_status place_tensor(struct binder *b, size_t index)
{
    const char *stored = tensor_source_at(b->src, index)->name;
    const struct bind_prefix *p = bind_prefix_find(b->desc->parts, stored);
    if (p && !p->replacement) { /* belongs to another part of the model */
        b->left_out[p - bind_prefixes]++;
        b->skipped->of_tensor[index] = true;
        return DGL_OK;
    }
    b->base = b->base || (p && p->base);
    struct dgl_buf name = {0}; /* the name that the text model alone would have */
    struct bind_match m = {0};
    enum dgl_status status = DGL_OK;
    dgl_buf_printf(&name, "%s%s", p ? p->replacement : "", stored + (p ? strlen(p->prefix) : 0));
    if (name.failed)
        status = dgl_fail_memory(b->log, stored, strlen(stored));
    else if (bind_match_find(b->desc, name.p, &m)) {
        if (m.base == b->desc && m.rule->slot == offsetof(struct model_desc, head) &&
            b->desc->tied_head)
            b->spare_head = (long)index;
        else
            status = bind_tensor(b, index, &m);
    } else if (bind_is_derived(name.p))
        status = skip_tensor(b, index, "derived buffer");
    else
        status = dgl_fail(b->log, DGL_ERR_UNSUPPORTED,
                          "%s: tensor %s is not part of a %s model with %" PRId32
                          " layers (%s); refusing to leave it out",
                          tensor_source_label(b->src), shown_at(b, index).text, b->desc->family,
                          b->desc->layers, b->config_name);
    dgl_buf_finish(&name);
    return status;
}

/* Returns the name that the tensor of a rule would have in the file. `layer` is -1 if it is in no
 * layer. Sets *never if files of this kind do not have the tensor. */
static struct dgl_printable rule_shown(const struct binder *b, int32_t layer,
                                       const struct bind_rule *rule, int32_t number, bool *never)
{
    struct dgl_buf name = {0}, stored = {0};
    const char *star = strchr(rule->name, '*');
    if (layer >= 0)
        dgl_buf_printf(&name, "model.layers.%" PRId32 ".", layer);
    if (star)
        dgl_buf_printf(&name, "%.*s%" PRId32 "%s", (int)(star - rule->name), rule->name, number,
                       star + 1);
    else
        dgl_buf_puts(&name, rule->name);
    const char *text = name.failed ? rule->name : name.p;
    struct dgl_printable shown = tensor_source_printable(b->src, text);
    *never = tensor_source_file_name(b->src, text, &stored) && stored.len == 0;
    dgl_buf_finish(&name);
    dgl_buf_finish(&stored);
    return shown;
}

static enum dgl_status missing(const struct binder *b, int32_t layer, const struct bind_rule *rule,
                               int32_t number)
{
    const struct bind_rule *other = NULL; /* a rule whose tensor replaces this one */
    for (size_t i = 0; rule->instead != 0 && !other && i < bind_num_layer_rules; i++) {
        const struct bind_rule *r = &bind_layer_rules[i];
        if (r->slot == rule->instead && r->kind == rule->kind && bind_rule_holds(r, b->desc, layer))
            other = r;
    }
    char shape[TENSOR_SHAPE_TEXT];
    struct dgl_buf instead = {0};
    bool never, other_never = true;
    struct dgl_printable name = rule_shown(b, layer, rule, number, &never), other_name = {{0}};
    if (other)
        other_name = rule_shown(b, layer, other, number, &other_never);
    if (never && !other_never) { /* only the other tensor can exist */
        rule = other;
        name = other_name;
    } else if (!other_never) {
        dgl_buf_printf(&instead, " (or %s with shape %s)", other_name.text,
                       wanted_text(b, other, shape));
    }
    enum dgl_status status =
        dgl_fail(b->log, DGL_ERR_FORMAT,
                 "%s: tensor %s is missing, but %s describes a model that has it with shape %s%s",
                 tensor_source_label(b->src), name.text, b->config_name,
                 wanted_text(b, rule, shape), instead.p ? instead.p : "");
    dgl_buf_finish(&instead);
    return status;
}

/* Returns a tensor in the slot, or TENSOR_NONE and the first expert without one in *number. */
static long slot_tensor(const struct binder *b, void *base, size_t slot, enum rule_kind kind,
                        int32_t *number)
{
    const struct expert_tensors *experts = slot_at(base, slot);
    *number = 0;
    if (kind == TENSOR)
        return *(const long *)slot_at(base, slot);
    if (experts->stacked != TENSOR_NONE || !experts->each)
        return experts->stacked;
    for (int32_t i = 0; i < b->desc->moe.experts; i++) {
        if (experts->each[i] == TENSOR_NONE) {
            *number = i;
            return TENSOR_NONE;
        }
    }
    return experts->each[0];
}

static enum dgl_status check_complete(struct binder *b)
{
    for (size_t i = 0; i < bind_num_model_rules; i++) {
        const struct bind_rule *rule = &bind_model_rules[i];
        bool head = rule->slot == offsetof(struct model_desc, head);
        if (*(const long *)slot_at(b->desc, rule->slot) != TENSOR_NONE ||
            (head && b->desc->tied_head))
            continue;
        if (!head || !b->base)
            return missing(b, -1, rule, 0);
        b->desc->no_head = true;
    }
    for (size_t i = 0; i < (size_t)b->desc->layers * bind_num_layer_rules; i++) {
        int32_t layer = (int32_t)(i / bind_num_layer_rules), number, other_number;
        const struct bind_rule *rule = &bind_layer_rules[i % bind_num_layer_rules];
        void *base = &b->desc->layer[layer];
        if (!bind_rule_holds(rule, b->desc, layer))
            continue;
        long have = slot_tensor(b, base, rule->slot, rule->kind, &number), other = TENSOR_NONE;
        if (rule->instead != 0)
            other = slot_tensor(b, base, rule->instead, rule->kind, &other_number);
        if (have != TENSOR_NONE && other != TENSOR_NONE)
            return fail_twice(b, other, tensor_source_at(b->src, (size_t)have)->name);
        if (have == TENSOR_NONE && other == TENSOR_NONE && !rule->optional)
            return missing(b, layer, rule, number);
    }
    return DGL_OK;
}

enum dgl_status model_bind(const struct dgl_log *log, const struct tensor_source *src,
                           const char *config_name, struct model_desc *out,
                           struct model_skipped *skipped)
{
    size_t count = tensor_source_count(src);
    struct binder b = {.log = log,
                       .src = src,
                       .config_name = config_name,
                       .desc = out,
                       .skipped = skipped,
                       .spare_head = TENSOR_NONE};
    bind_dims_fill(out, b.dims);
    enum dgl_status status = DGL_OK;
    skipped->of_tensor = dgl_new_array(bool, count);
    if (!skipped->of_tensor)
        return dgl_fail_memory(log, "list of skipped tensors", count);
    for (size_t i = 0; i < count; i++)
        TRY(place_tensor(&b, i));
    TRY(check_complete(&b));
    TRY(skip_spare_head(&b));
    for (size_t i = 0; i < BIND_NUM_PREFIXES; i++) {
        struct dgl_buf line = {0};
        if (b.left_out[i] == 0)
            continue;
        dgl_buf_printf(&line, "%s*: not part of the text model (tensors: %zu)",
                       bind_prefixes[i].prefix, b.left_out[i]);
        TRY(model_skipped_add(log, skipped, &line));
    }
    if (out->tied_head || out->no_head)
        out->head = out->embed;
done:
    return status;
}
