/* Writes manifest.json of a new pack. rdrr_format.h lists the keys and their order. */
#include <stdio.h>
#include <string.h>

#include "loader/convert/convert_plan.h"
#include "loader/rdrr/rdrr_format.h"
#include "loader/tensor/model_files.h"

/* Spelling of a type in "quantizationInfo". */
static const char *info_token(enum dgl_dtype type)
{
    return type == DGL_Q4_K   ? "q4k"
           : type == DGL_Q5_K ? "q5k"
           : type == DGL_Q6_K ? "q6k"
                              : dgl_dtype_get(type)->name;
}

static const struct convert_item *item_by_role(const struct convert_plan *plan, const char *role)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (strcmp(plan->items[i].from->role, role) == 0)
            return &plan->items[i];
    }
    return NULL;
}

static void write_head(struct dgl_json_writer *w, const struct convert_manifest *in)
{
    static const char *const suffixes[] = {"-f32",  "-f16",    "-bf16", "-q8_0",   "-q6_k",
                                           "-q5_k", "-q5_k_m", "-q4_k", "-q4_k_m", "-mxfp4"};
    const struct convert_plan *plan = in->plan;
    enum dgl_dtype headline = convert_plan_headline(plan);
    const struct convert_item *embedding = item_by_role(plan, "embedding");
    const struct convert_item *head = item_by_role(plan, "lm_head");
    dgl_jw_field_u64(w, "version", RDRR_VERSION);
    /* The id is the name of the source, with the suffix of an earlier conversion replaced by that
     * of this one. */
    struct dgl_str source = dgl_str_of(in->model->name);
    struct dgl_buf id = {0};
    size_t suffix = 0;
    while (suffix < sizeof(suffixes) / sizeof(suffixes[0]) &&
           !(source.len > strlen(suffixes[suffix]) && dgl_str_ends(source, suffixes[suffix])))
        suffix++;
    if (suffix < sizeof(suffixes) / sizeof(suffixes[0]))
        source.len -= strlen(suffixes[suffix]);
    dgl_buf_printf(&id, "%.*s-%s", (int)source.len, source.p,
                   plan->recipe->matrix == CONVERT_KEEP ? dgl_dtype_get(headline)->name
                                                        : plan->recipe->name);
    dgl_jw_field_cstr(w, "modelId", id.p);
    w->out->failed |= id.failed;
    dgl_buf_finish(&id);
    dgl_jw_field_cstr(w, "modelType", "transformer");
    dgl_jw_field_cstr(w, "quantization", dgl_dtype_get(headline)->rdrr);
    dgl_jw_field_object(w, "quantizationInfo");
    dgl_jw_field_cstr(w, "weights", info_token(headline));
    if (embedding)
        dgl_jw_field_cstr(w, "embeddings", info_token(embedding->type));
    if (head)
        dgl_jw_field_cstr(w, "lmHead", info_token(head->type));
    dgl_jw_field_cstr(w, "layout", rdrr_layout_name(plan->block_layout));
    dgl_jw_end_object(w);
    dgl_jw_field_cstr(w, "hashAlgorithm", dgl_hash_name(in->hash));
    const struct model_desc *desc = &in->model->desc;
    dgl_jw_key(w, "eos_token_id");
    if (desc->num_stop_ids == 0) {
        dgl_jw_null(w);
    } else {
        dgl_jw_array(w);
        for (size_t i = 0; i < desc->num_stop_ids; i++)
            dgl_jw_i64(w, desc->stop_ids[i].id);
        dgl_jw_end_array(w);
    }
}

/* Config of the text model inside a larger model: its own values plus the ids of the outer
 * config. */
static void write_text_config(struct dgl_json_writer *w, const struct dgl_json *root,
                              const struct model_desc *desc)
{
    const struct dgl_json *text = dgl_json_get(root, "text_config");
    const struct dgl_json *bos = dgl_json_get(root, "bos_token_id");
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "model_type", desc->family);
    for (const struct dgl_json *v = dgl_json_first(text); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        if (dgl_str_eq(key, "model_type") || dgl_str_eq(key, "eos_token_id") ||
            (bos && dgl_str_eq(key, "bos_token_id")))
            continue;
        dgl_jw_key_str(w, key);
        dgl_jw_value(w, v);
    }
    if (bos) {
        dgl_jw_key(w, "bos_token_id");
        dgl_jw_value(w, bos);
    }
    dgl_jw_field_array(w, "eos_token_id");
    for (size_t i = 0; i < desc->num_stop_ids; i++)
        dgl_jw_i64(w, desc->stop_ids[i].id);
    dgl_jw_end_array(w);
    dgl_jw_end_object(w);
}

static void write_origin(struct dgl_json_writer *w, const struct convert_manifest *in)
{
    const struct model_skipped *skipped = &in->model->skipped; /* left-out tensors */
    bool fused = false;
    if (in->model->tokenizer_json) {
        dgl_jw_field_object(w, "tokenizer");
        dgl_jw_field_cstr(w, "type", "bundled");
        dgl_jw_field_cstr(w, "file", FILE_TOKENIZER);
        dgl_jw_field_u64(w, "vocabSize", (uint64_t)in->model->desc.vocab);
        dgl_jw_end_object(w);
    }
    dgl_jw_field_object(w, "files");
    for (size_t i = 0; i < in->num_copies; i++) {
        dgl_jw_field_object(w, in->copies[i].name);
        dgl_jw_field_u64(w, "size", in->copies[i].size);
        dgl_jw_field_cstr(w, "sha256", in->copies[i].sha256);
        dgl_jw_end_object(w);
    }
    dgl_jw_end_object(w);
    dgl_jw_field_object(w, "conversion");
    dgl_jw_field_cstr(w, "tool", RDRR_TOOL);
    dgl_jw_field_cstr(w, "version", DGL_VERSION);
    dgl_jw_field_cstr(w, "source", in->model->name);
    dgl_jw_field_object(w, "quantization");
    dgl_jw_field_cstr(w, "type", in->plan->recipe->name);
    dgl_jw_field_cstr(w, "layout", rdrr_layout_name(in->plan->block_layout));
    for (size_t i = 0; i < in->plan->count; i++)
        fused |= in->plan->items[i].fused;
    if (fused) /* The key is omitted if no tensors are fused; other readers expect that. */
        dgl_jw_field_bool(w, "fuseGateUp", true);
    dgl_jw_end_object(w);
    if (skipped->count > 0) {
        dgl_jw_field_array(w, "skipped");
        for (size_t i = 0; i < skipped->count; i++)
            dgl_jw_cstr(w, skipped->lines[i]);
        dgl_jw_end_array(w);
    }
    dgl_jw_end_object(w);
}

static void write_shards(struct dgl_json_writer *w, const struct rdrr_writer *writer)
{
    uint64_t offset = 0;
    dgl_jw_field_array(w, "shards");
    for (size_t i = 0; i < rdrr_writer_num_shards(writer); i++) {
        const struct rdrr_written_shard *shard = rdrr_writer_shard(writer, i);
        char name[32];
        snprintf(name, sizeof(name), RDRR_SHARD_NAME, (unsigned)i);
        dgl_jw_object(w);
        dgl_jw_field_u64(w, "index", i);
        dgl_jw_field_cstr(w, "filename", name);
        dgl_jw_field_u64(w, "size", shard->size);
        dgl_jw_field_u64(w, "offset", offset);
        dgl_jw_field_cstr(w, "hash", shard->hash);
        dgl_jw_end_object(w);
        offset += shard->size;
    }
    dgl_jw_end_array(w);
    dgl_jw_field_u64(w, "totalSize", offset);
}

static void put_dims(struct dgl_json_writer *w, const char *key, const uint64_t *dims,
                     uint32_t rank)
{
    dgl_jw_field_array(w, key);
    for (uint32_t d = 0; d < rank; d++)
        dgl_jw_u64(w, dims[d]);
    dgl_jw_end_array(w);
}

static void write_tensors(struct dgl_json_writer *w, const struct convert_manifest *in)
{
    dgl_jw_field_u64(w, "tensorCount", in->plan->count);
    dgl_jw_field_object(w, "tensors");
    for (size_t i = 0; i < in->plan->count; i++) {
        const struct convert_item *item = &in->plan->items[i];
        uint64_t offset = item->offset % in->shard_bytes, shard = item->offset / in->shard_bytes;
        dgl_jw_field_object(w, convert_item_name(item));
        if (offset + item->size <= in->shard_bytes) {
            dgl_jw_field_u64(w, "shard", shard);
            dgl_jw_field_u64(w, "offset", offset);
        } else {
            dgl_jw_field_array(w, "spans");
            for (uint64_t left = item->size, part; left > 0; left -= part, shard++, offset = 0) {
                uint64_t room = in->shard_bytes - offset;
                part = left < room ? left : room;
                dgl_jw_object(w);
                dgl_jw_field_u64(w, "shardIndex", shard);
                dgl_jw_field_u64(w, "offset", offset);
                dgl_jw_field_u64(w, "size", part);
                dgl_jw_end_object(w);
            }
            dgl_jw_end_array(w);
        }
        dgl_jw_field_u64(w, "size", item->size);
        /* "shape" of floats in columns is the stored shape; "originalShape" is the logical one. */
        const uint64_t matrix[] = {item->rows, item->cols}, stored[] = {item->cols, item->rows};
        bool transposed = item->from->rank == 2 && item->layout == RDRR_COLUMN &&
                          dgl_dtype_get(item->type)->block == 1;
        put_dims(w, "shape",
                 transposed              ? stored
                 : item->from->rank == 2 ? matrix
                                         : item->from->shape,
                 item->from->rank);
        if (transposed)
            put_dims(w, "originalShape", matrix, 2);
        dgl_jw_field_cstr(w, "dtype", dgl_dtype_get(item->type)->rdrr);
        dgl_jw_field_cstr(w, "role", item->from->role);
        if (item->from->rank >= 2)
            dgl_jw_field_cstr(w, "layout", rdrr_layout_name(item->layout));
        dgl_jw_end_object(w);
    }
    dgl_jw_end_object(w);
}

enum dgl_status convert_manifest_write(const struct dgl_log *log, const struct convert_manifest *in,
                                       struct dgl_buf *out)
{
    static const char *const hints[] = {"computePrecision", "q4kMatmul", "f16Matmul",
                                        "attentionPrefill", "attentionDecode"};
    struct dgl_json_writer w = dgl_json_writer(out, 2);
    dgl_jw_object(&w);
    write_head(&w, in);
    rdrr_inference_write(&w, &in->model->desc);
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status =
        dgl_json_parse(log, FILE_CONFIG, in->model->config, in->model->config_len, &doc);
    if (status != DGL_OK)
        return status;
    dgl_jw_key(&w, "config");
    if (in->plan->text_only)
        write_text_config(&w, dgl_json_root(doc), &in->model->desc);
    else
        dgl_jw_value(&w, dgl_json_root(doc));
    dgl_json_destroy(&doc);
    /* Neutral hints: a place where a tuner or the author of a pack can write values. */
    dgl_jw_field_object(&w, "optimizations");
    dgl_jw_field_object(&w, "kernelHints");
    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        dgl_jw_field_cstr(&w, hints[i], "auto");
    dgl_jw_end_object(&w);
    dgl_jw_field_cstr(&w, "kernelHintsOrigin", RDRR_HINTS_DEFAULT);
    dgl_jw_end_object(&w);
    write_origin(&w, in);
    write_shards(&w, in->writer);
    write_tensors(&w, in);
    dgl_jw_end_object(&w);
    dgl_buf_putc(out, '\n');
    if (out->failed)
        return dgl_fail_memory(log, RDRR_MANIFEST, out->len);
    /* The config is one level deeper than in its file, which may be too deep. */
    status = dgl_json_parse(log, RDRR_MANIFEST, out->p, out->len, &doc);
    dgl_json_destroy(&doc);
    return status;
}
