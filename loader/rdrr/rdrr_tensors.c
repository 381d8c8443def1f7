/* "tensors" of a manifest: entries, spans, and the check that no two tensors share a byte. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/checked.h"
#include "loader/rdrr/rdrr_manifest.h"

static const char *const known_roles[] = {"embedding", "lm_head", "norm",     "matmul",
                                          "conv",      "expert",  "router",   "other",
                                          "vision",    "audio",   "projector"};

/* Packs of this converter have the role that follows from the name. Other writers have other roles
 * for some names. */
static enum dgl_status parse_role(struct dgl_json_reader r, const struct dgl_json *object,
                                  bool ours, struct tensor_info *info)
{
    const struct dgl_json *role;
    const char *named = tensor_role_from_name(info->name);
    enum dgl_status status = dgl_json_opt(r, object, "role", DGL_JSON_STRING, &role);
    info->role = named;
    if (status != DGL_OK || !role)
        return status;
    info->role = NULL;
    for (size_t i = 0; i < sizeof(known_roles) / sizeof(known_roles[0]); i++) {
        if (dgl_str_eq(dgl_json_str(role), known_roles[i]))
            info->role = known_roles[i];
    }
    if (!info->role)
        return dgl_json_fail(r, role, "\"%s\" is not a role of the format",
                             DGL_PRINTABLE(dgl_json_str(role).p));
    /* Norms are vectors and other roles are matrices, so "norm" and another role contradict each
     * other. */
    bool other = strcmp(info->role, "other") == 0 || strcmp(named, "other") == 0;
    bool contradicts = !other && (strcmp(info->role, "norm") == 0) != (strcmp(named, "norm") == 0);
    if (ours ? strcmp(info->role, named) != 0 : contradicts)
        return dgl_json_fail(r, role,
                             "\"%s\", but the name makes it \"%s\"; the manifest is damaged",
                             info->role, named);
    return DGL_OK;
}

static enum dgl_status refuse_part(struct dgl_json_reader r, const char *name, const char *part,
                                   const char *value, const char *supported)
{
    return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: tensors.%s.%s is %s; supported: %s",
                    dgl_json_name(r.doc), DGL_PRINTABLE(name), part, value, supported);
}

/* "storage" and "sourceTransform" may change how bytes are read. Those that do not are accepted. */
static enum dgl_status check_storage(struct dgl_json_reader r, const struct dgl_json *object,
                                     const struct tensor_info *info)
{
    const struct dgl_json *storage, *packing, *companions;
    const struct dgl_dtype_traits *type = dgl_dtype_get(info->dtype);
    int64_t block_bytes = type->block_bytes;
    const struct dgl_json *transform = dgl_json_get(object, "sourceTransform");
    if (transform && !dgl_json_is(transform, DGL_JSON_NULL))
        return refuse_part(r, info->name, "sourceTransform", "given", "entries without it");
    enum dgl_status status;
    TRY(dgl_json_opt(r, object, "storage", DGL_JSON_OBJECT, &storage));
    if (!storage)
        return DGL_OK;
    TRY(dgl_json_opt(r, storage, "packing", DGL_JSON_STRING, &packing));
    TRY(dgl_json_opt(r, storage, "companions", DGL_JSON_ARRAY, &companions));
    TRY(dgl_json_opt_i64(r, storage, "blockBytes", 1, INT32_MAX, &block_bytes));
    struct dgl_str text = dgl_json_str(packing);
    bool known = !packing || (type->block == 1 && dgl_str_eq(text, "dense")) ||
                 (info->dtype == DGL_Q4_K && dgl_str_eq(text, "q4k")) ||
                 (info->dtype == DGL_Q4_0 && dgl_str_eq(text, "q4_0")) ||
                 (type->block > 1 && dgl_str_eq(text, "gguf-block-v2"));
    if (!known)
        return refuse_part(r, info->name, "storage.packing", text.p,
                           "dense, q4k, q4_0, gguf-block-v2, as dtype says");
    if (dgl_json_count(companions) > 0)
        return refuse_part(r, info->name, "storage.companions", "not empty", "none");
    if (block_bytes != type->block_bytes)
        return dgl_json_fail(r, storage, "blockBytes is %" PRId64 ", but %s has blocks of %u",
                             block_bytes, type->rdrr, type->block_bytes);
done:
    return status;
}

/* Reads {shard or shardIndex, offset, size} and adds it to the list of spans. `size` is given
 * for entries whose own "size" is the whole tensor's. */
static enum dgl_status parse_span(struct dgl_json_reader r, const struct dgl_json *object,
                                  const uint64_t *whole, struct rdrr_manifest *m)
{
    int64_t shard = 0, offset = 0, size = 0;
    const char *key = dgl_json_get(object, "shardIndex") ? "shardIndex" : "shard";
    if (!dgl_json_is(object, DGL_JSON_OBJECT))
        return dgl_json_fail(r, object, "wanted an object");
    enum dgl_status status;
    TRY(dgl_json_need_i64(r, object, key, 0, (int64_t)m->num_shards - 1, &shard));
    TRY(dgl_json_need_i64(r, object, "offset", 0, INT64_MAX, &offset));
    if (!whole)
        TRY(dgl_json_need_i64(r, object, "size", 1, INT64_MAX, &size));
    struct rdrr_span span = {(uint32_t)shard, (uint64_t)offset, whole ? *whole : (uint64_t)size};
    uint64_t shard_size = m->shards[shard].size;
    if (!dgl_range_fits(span.offset, span.size, shard_size))
        return dgl_json_fail(r, object,
                             "%" PRIu64 " bytes at offset %" PRIu64 " do not fit in %s of %" PRIu64
                             " bytes",
                             span.size, span.offset, m->shards[shard].name, shard_size);
    if (!dgl_grow((void **)&m->spans, &m->cap_spans, m->num_spans + 1, sizeof(*m->spans)))
        return dgl_fail_memory(r.log, "span list", m->num_spans * sizeof(*m->spans));
    m->spans[m->num_spans++] = span;
done:
    return status;
}

static enum dgl_status parse_tensor(struct dgl_json_reader r, const struct dgl_json *object,
                                    struct rdrr_tensor *t, struct rdrr_manifest *m)
{
    struct tensor_info *info = &t->info;
    struct dgl_str key = dgl_json_key(object);
    const struct dgl_json *dtype, *spans;
    enum dgl_status status;
    if (!dgl_json_is(object, DGL_JSON_OBJECT))
        return dgl_json_fail(r, object, "wanted an object");
    if (key.len == 0 || memchr(key.p, 0, key.len))
        return dgl_fail(r.log, DGL_ERR_FORMAT, "%s: a tensor's name is empty or holds U+0000",
                        dgl_json_name(r.doc));
    info->name = dgl_arena_strndup(&m->arena, key.p, key.len);
    if (!info->name)
        return dgl_fail_memory(r.log, "tensor names", key.len);
    /* GGUF names: the rows of q and k may be permuted, and packs have no field for that. */
    if (strncmp(info->name, "blk.", 4) == 0)
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: tensors.%s has a name of GGUF; supported: names of Hugging Face. Use "
                        "the GGUF file that the pack was made of",
                        dgl_json_name(r.doc), DGL_PRINTABLE(info->name));
    TRY(dgl_json_need(r, object, "dtype", DGL_JSON_STRING, &dtype));
    struct dgl_str text = dgl_json_str(dtype);
    if (!dgl_dtype_parse(text.p, text.len, &info->dtype))
        return dgl_fail(
            r.log, DGL_ERR_UNSUPPORTED,
            "%s: tensors.%s.dtype is \"%s\"; supported: F32, F16, BF16, U8, I64, Q4_0, "
            "Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K_M, Q5_K, Q6_K, MXFP4, IQ4_NL, IQ4_XS, "
            "IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, IQ1_S, IQ1_M, TQ1_0, TQ2_0, Q1_0, Q2_0",
            dgl_json_name(r.doc), DGL_PRINTABLE(info->name), DGL_PRINTABLE(text.p));
    TRY(parse_role(r, object, m->ours, info));
    TRY(check_storage(r, object, info));
    TRY(rdrr_shape_parse(r, object, m, t));
    info->role = tensor_role_from_name(info->name); /* the stated role chose the layout only */
    t->first_span = m->num_spans;
    TRY(dgl_json_opt(r, object, "spans", DGL_JSON_ARRAY, &spans));
    if (!spans)
        TRY(parse_span(r, object, &info->bytes, m));
    uint64_t sum = spans ? 0 : info->bytes;
    for (const struct dgl_json *s = dgl_json_first(spans); s; s = dgl_json_next(s)) {
        TRY(parse_span(r, s, NULL, m));
        if (!dgl_add_u64(sum, m->spans[m->num_spans - 1].size, &sum))
            return dgl_json_fail(r, s, "sizes overflow 64 bits");
    }
    t->num_spans = m->num_spans - t->first_span;
    if (sum != info->bytes)
        return dgl_json_fail(r, spans,
                             "sizes sum to %" PRIu64 ", but the tensor's size is %" PRIu64, sum,
                             info->bytes);
done:
    return status;
}

/* A span and its tensor, for sorting. */
struct owned_span {
    struct rdrr_span span;
    const char *tensor;
};

static int span_compare(const void *a, const void *b)
{
    const struct rdrr_span *x = &((const struct owned_span *)a)->span;
    const struct rdrr_span *y = &((const struct owned_span *)b)->span;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return 0;
}

/* Checks that spans do not overlap and that only alignment is between them, so that no other data
 * can be hidden there. */
static enum dgl_status check_layout(struct dgl_json_reader r, const struct rdrr_manifest *m)
{
    const char *file = dgl_json_name(r.doc);
    uint64_t end = 0;
    enum dgl_status status = DGL_OK;
    struct owned_span *sorted = dgl_new_array(struct owned_span, m->num_spans);
    if (!sorted)
        return dgl_fail_memory(r.log, "span list", m->num_spans * sizeof(*sorted));
    for (size_t t = 0; t < m->num_tensors; t++) {
        for (size_t i = 0; i < m->tensors[t].num_spans; i++) {
            size_t at = m->tensors[t].first_span + i;
            sorted[at] = (struct owned_span){m->spans[at], m->tensors[t].info.name};
        }
    }
    qsort(sorted, m->num_spans, sizeof(*sorted), span_compare);
    for (size_t i = 0; i < m->num_spans; i++) {
        const struct owned_span *s = &sorted[i];
        if (i == 0 || sorted[i - 1].span.shard != s->span.shard)
            end = 0;
        if (s->span.offset < end)
            TRY(dgl_fail(r.log, DGL_ERR_FORMAT,
                         "%s: tensors %s and %s overlap: offset %" PRIu64
                         " of %s is before %" PRIu64 ", where the other ends",
                         file, DGL_PRINTABLE(sorted[i - 1].tensor), DGL_PRINTABLE(s->tensor),
                         s->span.offset, m->shards[s->span.shard].name, end));
        if (s->span.offset - end >= RDRR_ALIGN)
            TRY(dgl_fail(r.log, DGL_ERR_FORMAT,
                         "%s: %s has %" PRIu64 " unused bytes before tensor %s; alignment needs "
                         "less than %" PRIu64,
                         file, m->shards[s->span.shard].name, s->span.offset - end,
                         DGL_PRINTABLE(s->tensor), RDRR_ALIGN));
        end = s->span.offset + s->span.size; /* inside the shard: parse_span() */
    }
done:
    free(sorted);
    return status;
}

enum dgl_status rdrr_tensors_parse(struct dgl_json_reader r, const struct dgl_json *map,
                                   struct rdrr_manifest *out)
{
    size_t count = dgl_json_count(map);
    enum dgl_status status = DGL_OK;
    if (!dgl_json_is(map, DGL_JSON_OBJECT))
        return dgl_json_fail(r, map, "wanted an object, found %s",
                             dgl_json_type_name(dgl_json_type(map)));
    if (count == 0 || count > RDRR_MAX_TENSORS)
        return dgl_json_fail(r, map, "%zu tensors, wanted 1 to %d", count, RDRR_MAX_TENSORS);
    if (out->says_count && out->tensor_count != count)
        return dgl_fail(r.log, DGL_ERR_FORMAT,
                        "%s: tensorCount is %" PRIu64 ", but there are %zu entries",
                        dgl_json_name(r.doc), out->tensor_count, count);
    out->tensors = dgl_new_array(struct rdrr_tensor, count);
    if (!out->tensors)
        return dgl_fail_memory(r.log, "tensor list", count * sizeof(*out->tensors));
    for (const struct dgl_json *t = dgl_json_first(map); t; t = dgl_json_next(t)) {
        TRY(parse_tensor(r, t, &out->tensors[out->num_tensors], out));
        out->num_tensors++;
    }
    TRY(check_layout(r, out));
    if (!out->ours)
        return DGL_OK;
    /* Packs of this converter state the type that most weights have (dtype_tally_headline()). */
    struct dtype_tally tally = {0};
    for (size_t i = 0; i < out->num_tensors; i++) {
        const struct tensor_info *t = &out->tensors[i].info;
        double values = 1;
        for (uint32_t d = 0; d < t->rank; d++)
            values *= (double)t->shape[d];
        dtype_tally_add(&tally, t->role, t->dtype, values);
    }
    const char *found = dgl_dtype_get(dtype_tally_headline(&tally))->rdrr;
    if (strcasecmp(out->quantization, found) != 0)
        return dgl_fail(r.log, DGL_ERR_FORMAT,
                        "%s: quantization is \"%s\", but most weights are %s; the manifest is "
                        "damaged",
                        dgl_json_name(r.doc), DGL_PRINTABLE(out->quantization), found);
done:
    return status;
}
