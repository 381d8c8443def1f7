/* manifest.json of a pack in the making; rdrr_format.h lists the keys and their order. */
#include "loader/convert_plan.h"

#include <string.h>

#include "loader/rdrr_format.h"

/* Spelling of a type in "quantizationInfo". */
static const char *info_token(enum dgl_dtype type)
{
    return type == DGL_Q4_K ? "q4k" : dgl_dtype_get(type)->name;
}

static void put_cstr(struct dgl_json_writer *w, const char *key, const char *text)
{
    dgl_jw_key(w, key);
    dgl_jw_cstr(w, text);
}

static void put_u64(struct dgl_json_writer *w, const char *key, uint64_t value)
{
    dgl_jw_key(w, key);
    dgl_jw_u64(w, value);
}

static const struct convert_item *item_by_role(const struct convert_plan *plan, const char *role)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (strcmp(plan->items[i].from->role, role) == 0)
            return &plan->items[i];
    }
    return NULL;
}

static const char *recipe_suffix(const struct convert_plan *plan)
{
    return plan->recipe->as_stored ? dgl_dtype_get(convert_plan_headline(plan))->name
                                   : plan->recipe->name;
}

/* The source's name without the suffix of an earlier conversion, plus that of this one. */
static void write_model_id(struct dgl_json_writer *w, const struct convert_manifest *in)
{
    static const char *const suffixes[] = {"-f32", "-f16", "-bf16", "-q8_0", "-q4_k_m", "-q4_k"};
    struct dgl_buf id = {0};
    size_t len = strlen(in->model->name);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        size_t n = strlen(suffixes[i]);
        if (len > n && strncmp(in->model->name + len - n, suffixes[i], n) == 0) {
            len -= n;
            break;
        }
    }
    dgl_buf_append(&id, in->model->name, len);
    dgl_buf_printf(&id, "-%s", recipe_suffix(in->plan));
    dgl_jw_key(w, "modelId");
    dgl_jw_cstr(w, id.p);
    if (id.failed)
        w->out->failed = true;
    dgl_buf_finish(&id);
}

static void write_head(struct dgl_json_writer *w, const struct convert_manifest *in)
{
    const struct convert_plan *plan = in->plan;
    enum dgl_dtype headline = convert_plan_headline(plan);
    const struct convert_item *embedding = item_by_role(plan, "embedding");
    const struct convert_item *head = item_by_role(plan, "lm_head");
    put_u64(w, "version", RDRR_VERSION);
    write_model_id(w, in);
    put_cstr(w, "modelType", "transformer");
    put_cstr(w, "quantization", dgl_dtype_get(headline)->rdrr);
    dgl_jw_key(w, "quantizationInfo");
    dgl_jw_object(w);
    put_cstr(w, "weights", info_token(headline));
    if (embedding)
        put_cstr(w, "embeddings", info_token(embedding->type));
    if (head)
        put_cstr(w, "lmHead", info_token(head->type));
    put_cstr(w, "layout", "row");
    dgl_jw_end_object(w);
    put_cstr(w, "hashAlgorithm", dgl_hash_name(in->hash));
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

static enum dgl_status write_config(const struct dgl_log *log, struct dgl_json_writer *w,
                                    const struct dgl_model_file *model)
{
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status =
        dgl_json_parse(log, "config.json", model->config, model->config_len, &doc);
    if (status != DGL_OK)
        return status;
    dgl_jw_key(w, "config");
    dgl_jw_value(w, dgl_json_root(doc));
    dgl_json_destroy(&doc);
    return DGL_OK;
}

/* Hints that leave every choice to the engine: a place for a tuner or an author to write to. */
static void write_hints(struct dgl_json_writer *w)
{
    static const char *const keys[] = {"computePrecision", "q4kMatmul", "f16Matmul",
                                       "attentionPrefill", "attentionDecode"};
    dgl_jw_key(w, "optimizations");
    dgl_jw_object(w);
    dgl_jw_key(w, "kernelHints");
    dgl_jw_object(w);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        put_cstr(w, keys[i], "auto");
    dgl_jw_end_object(w);
    put_cstr(w, "kernelHintsOrigin", RDRR_HINTS_DEFAULT);
    dgl_jw_end_object(w);
}

/* What the source has and the pack has not. */
static void write_skipped(struct dgl_json_writer *w, const struct model_skipped *skipped)
{
    if (skipped->count == 0)
        return;
    dgl_jw_key(w, "skipped");
    dgl_jw_array(w);
    for (size_t i = 0; i < skipped->count; i++)
        dgl_jw_cstr(w, skipped->lines[i]);
    dgl_jw_end_array(w);
}

static void write_origin(struct dgl_json_writer *w, const struct convert_manifest *in)
{
    if (in->model->tokenizer_json) {
        dgl_jw_key(w, "tokenizer");
        dgl_jw_object(w);
        put_cstr(w, "type", "bundled");
        put_cstr(w, "file", "tokenizer.json");
        put_u64(w, "vocabSize", (uint64_t)in->model->desc.vocab);
        dgl_jw_end_object(w);
    }
    dgl_jw_key(w, "files");
    dgl_jw_object(w);
    for (size_t i = 0; i < in->num_copies; i++) {
        dgl_jw_key(w, in->copies[i].name);
        dgl_jw_object(w);
        put_u64(w, "size", in->copies[i].size);
        put_cstr(w, "sha256", in->copies[i].sha256);
        dgl_jw_end_object(w);
    }
    dgl_jw_end_object(w);
    dgl_jw_key(w, "conversion");
    dgl_jw_object(w);
    put_cstr(w, "tool", RDRR_TOOL);
    put_cstr(w, "version", DGL_VERSION);
    put_cstr(w, "source", in->model->name);
    dgl_jw_key(w, "quantization");
    dgl_jw_object(w);
    put_cstr(w, "type", in->plan->recipe->name);
    put_cstr(w, "layout", "row");
    dgl_jw_end_object(w);
    write_skipped(w, &in->model->skipped);
    dgl_jw_end_object(w);
}

static void write_shards(struct dgl_json_writer *w, const struct rdrr_writer *writer)
{
    uint64_t offset = 0;
    dgl_jw_key(w, "shards");
    dgl_jw_array(w);
    for (size_t i = 0; i < rdrr_writer_num_shards(writer); i++) {
        const struct rdrr_written_shard *shard = rdrr_writer_shard(writer, i);
        struct dgl_buf name = {0};
        dgl_buf_printf(&name, RDRR_SHARD_NAME, (unsigned)i);
        dgl_jw_object(w);
        put_u64(w, "index", i);
        put_cstr(w, "filename", name.p);
        put_u64(w, "size", shard->size);
        put_u64(w, "offset", offset);
        put_cstr(w, "hash", shard->hash);
        dgl_jw_end_object(w);
        if (name.failed)
            w->out->failed = true;
        dgl_buf_finish(&name);
        offset += shard->size;
    }
    dgl_jw_end_array(w);
    put_u64(w, "totalSize", offset);
}

static void write_place(struct dgl_json_writer *w, uint64_t offset, uint64_t size,
                        uint64_t shard_bytes)
{
    if (offset % shard_bytes + size <= shard_bytes) {
        put_u64(w, "shard", offset / shard_bytes);
        put_u64(w, "offset", offset % shard_bytes);
        return;
    }
    dgl_jw_key(w, "spans");
    dgl_jw_array(w);
    while (size > 0) {
        uint64_t room = shard_bytes - offset % shard_bytes, part = size < room ? size : room;
        dgl_jw_object(w);
        put_u64(w, "shardIndex", offset / shard_bytes);
        put_u64(w, "offset", offset % shard_bytes);
        put_u64(w, "size", part);
        dgl_jw_end_object(w);
        offset += part;
        size -= part;
    }
    dgl_jw_end_array(w);
}

static void write_tensors(struct dgl_json_writer *w, const struct convert_manifest *in)
{
    put_u64(w, "tensorCount", in->plan->count);
    dgl_jw_key(w, "tensors");
    dgl_jw_object(w);
    for (size_t i = 0; i < in->plan->count; i++) {
        const struct convert_item *item = &in->plan->items[i];
        dgl_jw_key(w, item->from->name);
        dgl_jw_object(w);
        write_place(w, item->offset, item->size, in->shard_bytes);
        put_u64(w, "size", item->size);
        dgl_jw_key(w, "shape");
        dgl_jw_array(w);
        for (uint32_t d = 0; d < item->from->rank; d++)
            dgl_jw_u64(w, item->from->shape[d]);
        dgl_jw_end_array(w);
        put_cstr(w, "dtype", dgl_dtype_get(item->type)->rdrr);
        put_cstr(w, "role", item->from->role);
        if (item->from->rank >= 2)
            put_cstr(w, "layout", "row");
        dgl_jw_end_object(w);
    }
    dgl_jw_end_object(w);
}

enum dgl_status convert_manifest_write(const struct dgl_log *log, const struct convert_manifest *in,
                                       struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 2);
    dgl_jw_object(&w);
    write_head(&w, in);
    rdrr_inference_write(&w, &in->model->desc);
    enum dgl_status status = write_config(log, &w, in->model);
    if (status != DGL_OK)
        return status;
    write_hints(&w);
    write_origin(&w, in);
    write_shards(&w, in->writer);
    write_tensors(&w, in);
    dgl_jw_end_object(&w);
    dgl_buf_putc(out, '\n');
    return out->failed ? dgl_fail_memory(log, RDRR_MANIFEST, out->len) : DGL_OK;
}
