/* manifest.json except its tensors: version, shards, copied files, hints, and what must be there
 * at all. */
#include "loader/rdrr_manifest.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/file.h"

const char *const rdrr_copied_files[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "special_tokens_map.json",
    NULL,
};

/* Parts of the format that this version does not read. Skipping them would read wrong weights. */
static const char *const refused_keys[] = {"tensorsFile", "weightsRef", "adapterType", "loraConfig",
                                           "moeConfig"};

static enum dgl_status check_version(struct dgl_json_reader r, const struct dgl_json *root)
{
    const struct dgl_json *version;
    enum dgl_status st = dgl_json_need(r, root, "version", DGL_JSON_NUMBER, &version);
    if (st != DGL_OK)
        return st;
    if (dgl_json_f64(version) != RDRR_VERSION)
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: version is %g; supported: %d",
                        dgl_json_name(r.doc), dgl_json_f64(version), RDRR_VERSION);
    for (size_t i = 0; i < sizeof(refused_keys) / sizeof(refused_keys[0]); i++) {
        const struct dgl_json *value = dgl_json_get(root, refused_keys[i]);
        if (value && !dgl_json_is(value, DGL_JSON_NULL))
            return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                            "%s: has %s; supported: packs without it, tensors inline",
                            dgl_json_name(r.doc), refused_keys[i]);
    }
    return DGL_OK;
}

static enum dgl_status need_text(struct dgl_json_reader r, const struct dgl_json *object,
                                 const char *key, struct dgl_arena *arena, const char **out)
{
    const struct dgl_json *value;
    enum dgl_status st = dgl_json_need(r, object, key, DGL_JSON_STRING, &value);
    if (st != DGL_OK)
        return st;
    struct dgl_str text = dgl_json_str(value);
    if (text.len == 0 || memchr(text.p, 0, text.len))
        return dgl_json_fail(r, value, "is empty or holds U+0000");
    *out = dgl_arena_strndup(arena, text.p, text.len);
    return *out ? DGL_OK : dgl_fail_memory(r.log, key, text.len);
}

/* Serialises a value into the arena. */
static enum dgl_status value_text(struct dgl_json_reader r, const struct dgl_json *value,
                                  int indent, struct dgl_arena *arena, const char **out)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, indent);
    dgl_jw_value(&w, value);
    *out = text.failed ? NULL : dgl_arena_strndup(arena, text.p, text.len);
    dgl_buf_finish(&text);
    return *out ? DGL_OK : dgl_fail_memory(r.log, "JSON text", text.len);
}

static enum dgl_status need_hash(struct dgl_json_reader r, const struct dgl_json *object,
                                 const char *key, char out[65])
{
    const struct dgl_json *value;
    enum dgl_status st = dgl_json_need(r, object, key, DGL_JSON_STRING, &value);
    if (st != DGL_OK)
        return st;
    struct dgl_str text = dgl_json_str(value);
    if (!dgl_hash_is_hex(text.p, text.len))
        return dgl_json_fail(r, value, "\"%.*s\" is not 64 lowercase hex digits", (int)text.len,
                             text.p);
    memcpy(out, text.p, 64);
    out[64] = 0;
    return DGL_OK;
}

static enum dgl_status parse_shard(struct dgl_json_reader r, const struct dgl_json *object,
                                   size_t index, struct rdrr_manifest *out)
{
    struct rdrr_shard *shard = &out->shards[index];
    int64_t at = (int64_t)index, size = 0, offset = (int64_t)out->total_size;
    char name[32];
    snprintf(name, sizeof(name), RDRR_SHARD_NAME, (unsigned)index);
    if (!dgl_json_is(object, DGL_JSON_OBJECT))
        return dgl_json_fail(r, object, "wanted an object");
    enum dgl_status st = dgl_json_opt_i64(r, object, "index", 0, INT64_MAX, &at);
    if (st == DGL_OK)
        st = dgl_json_need_i64(r, object, "size", 1, INT64_MAX, &size);
    if (st == DGL_OK)
        st = dgl_json_opt_i64(r, object, "offset", 0, INT64_MAX, &offset);
    if (st == DGL_OK)
        st = need_hash(r, object, "hash", shard->hash);
    if (st == DGL_OK)
        st = need_text(r, object, "filename", &out->arena, &shard->name);
    if (st != DGL_OK)
        return st;
    if (at != (int64_t)index)
        return dgl_json_fail(r, object, "index is %" PRId64 " at position %zu", at, index);
    if (offset != (int64_t)out->total_size)
        return dgl_json_fail(
            r, object, "offset is %" PRId64 ", but the shards before it have %" PRIu64 " bytes",
            offset, out->total_size);
    if (strcmp(shard->name, name) != 0)
        return dgl_json_fail(r, object, "filename is \"%s\", wanted \"%s\"", shard->name, name);
    shard->size = (uint64_t)size;
    if (!dgl_add_u64(out->total_size, shard->size, &out->total_size) || out->total_size > INT64_MAX)
        return dgl_json_fail(r, object, "size %" PRId64 " makes the pack larger than 2^63 bytes",
                             size);
    return DGL_OK;
}

static enum dgl_status parse_shards(struct dgl_json_reader r, const struct dgl_json *root,
                                    struct rdrr_manifest *out)
{
    const struct dgl_json *shards;
    enum dgl_status st = dgl_json_need(r, root, "shards", DGL_JSON_ARRAY, &shards);
    if (st != DGL_OK)
        return st;
    size_t count = dgl_json_count(shards);
    if (count == 0 || count > RDRR_MAX_SHARDS)
        return dgl_json_fail(r, shards, "%zu shards, wanted 1 to %d", count, RDRR_MAX_SHARDS);
    out->shards = dgl_new_array(struct rdrr_shard, count);
    if (!out->shards)
        return dgl_fail_memory(r.log, "shard list", count * sizeof(*out->shards));
    for (const struct dgl_json *s = dgl_json_first(shards); s; s = dgl_json_next(s)) {
        st = parse_shard(r, s, out->num_shards, out);
        if (st != DGL_OK)
            return st;
        out->num_shards++;
    }
    int64_t total = 0;
    st = dgl_json_need_i64(r, root, "totalSize", 0, INT64_MAX, &total);
    if (st == DGL_OK && (uint64_t)total != out->total_size)
        st = dgl_json_fail(r, root,
                           "totalSize is %" PRId64 ", but the shards' sizes sum to %" PRIu64, total,
                           out->total_size);
    return st;
}

static enum dgl_status parse_hash_kind(struct dgl_json_reader r, const struct dgl_json *root,
                                       struct rdrr_manifest *out)
{
    const struct dgl_json *value;
    enum dgl_status st = dgl_json_need(r, root, "hashAlgorithm", DGL_JSON_STRING, &value);
    if (st == DGL_OK && !dgl_hash_parse_name(dgl_json_str(value).p, &out->hash))
        st = dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                      "%s: hashAlgorithm is \"%s\"; supported: sha256, blake3",
                      dgl_json_name(r.doc), dgl_json_str(value).p);
    return st;
}

static enum dgl_status parse_copied(struct dgl_json_reader r, const struct dgl_json *root,
                                    struct rdrr_manifest *out)
{
    const struct dgl_json *files;
    enum dgl_status st = dgl_json_opt(r, root, "files", DGL_JSON_OBJECT, &files);
    if (st != DGL_OK)
        return st;
    if (dgl_json_count(files) > RDRR_MAX_COPIED)
        return dgl_json_fail(r, files, "%zu entries, at most %d are accepted",
                             dgl_json_count(files), RDRR_MAX_COPIED);
    for (const struct dgl_json *f = dgl_json_first(files); f; f = dgl_json_next(f)) {
        struct rdrr_copied *copied = &out->copied[out->num_copied++];
        struct dgl_str name = dgl_json_key(f);
        int64_t size = 0;
        if (!dgl_name_is_safe(name.p, name.len))
            return dgl_json_fail(r, f, "not a plain file name (no '/', no \"..\")");
        if (!dgl_json_is(f, DGL_JSON_OBJECT))
            return dgl_json_fail(r, f, "wanted an object");
        st = dgl_json_need_i64(r, f, "size", 0, RDRR_MAX_COPIED_BYTES, &size);
        if (st == DGL_OK)
            st = need_hash(r, f, "sha256", copied->sha256);
        if (st != DGL_OK)
            return st;
        copied->size = (uint64_t)size;
        copied->name = dgl_arena_strndup(&out->arena, name.p, name.len);
        if (!copied->name)
            return dgl_fail_memory(r.log, "file names", name.len);
    }
    return DGL_OK;
}

static enum dgl_status parse_hints(struct dgl_json_reader r, const struct dgl_json *root,
                                   struct rdrr_manifest *out)
{
    const struct dgl_json *optimizations, *hints, *origin;
    enum dgl_status st = dgl_json_opt(r, root, "optimizations", DGL_JSON_OBJECT, &optimizations);
    if (st != DGL_OK || !optimizations)
        return st;
    st = dgl_json_opt(r, optimizations, "kernelHints", DGL_JSON_OBJECT, &hints);
    if (st == DGL_OK)
        st = dgl_json_opt(r, optimizations, "kernelHintsOrigin", DGL_JSON_STRING, &origin);
    if (st != DGL_OK || !hints)
        return st;
    bool defaults = dgl_str_eq(dgl_json_str(origin), RDRR_HINTS_DEFAULT);
    return value_text(r, hints, 0, &out->arena, defaults ? &out->hint_defaults : &out->hint_pinned);
}

/* Packs of ours are complete: what is missing was taken out. */
static enum dgl_status check_complete(struct dgl_json_reader r, const struct dgl_json *root,
                                      const struct rdrr_manifest *m)
{
    static const char *const needed[] = {"architecture", "inference", "files"};
    const struct dgl_json *value;
    for (size_t i = 0; m->ours && i < sizeof(needed) / sizeof(needed[0]); i++) {
        enum dgl_status st = dgl_json_need(r, root, needed[i], DGL_JSON_OBJECT, &value);
        if (st != DGL_OK)
            return st;
    }
    bool has_file = rdrr_copied_find(m, "tokenizer.json") != NULL;
    enum dgl_status st = dgl_json_opt(r, root, "tokenizer", DGL_JSON_OBJECT, &value);
    if (st == DGL_OK && m->ours && has_file != (value != NULL))
        st =
            dgl_json_fail(r, root, "%s, but %s: convert the model again",
                          has_file ? "files lists tokenizer.json" : "tokenizer is there",
                          has_file ? "tokenizer is missing" : "files does not list tokenizer.json");
    return st;
}

/* Fields that say nothing to the engine still have to be what the format says. */
static enum dgl_status check_types(struct dgl_json_reader r, const struct dgl_json *root)
{
    static const struct {
        const char *object, *key; /* object NULL: the root */
        enum dgl_json_type type;
    } rows[] = {
        {NULL, "modelType", DGL_JSON_STRING},
        {"quantizationInfo", "weights", DGL_JSON_STRING},
        {"quantizationInfo", "embeddings", DGL_JSON_STRING},
        {"quantizationInfo", "layout", DGL_JSON_STRING},
        {"tokenizer", "type", DGL_JSON_STRING},
        {"tokenizer", "file", DGL_JSON_STRING},
        {"conversion", "tool", DGL_JSON_STRING},
        {"conversion", "version", DGL_JSON_STRING},
        {"conversion", "source", DGL_JSON_STRING},
    };
    enum dgl_status st = DGL_OK;
    int64_t vocab = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && st == DGL_OK; i++) {
        const struct dgl_json *object = root, *value;
        if (rows[i].object)
            st = dgl_json_opt(r, root, rows[i].object, DGL_JSON_OBJECT, &object);
        if (st == DGL_OK && object)
            st = dgl_json_opt(r, object, rows[i].key, rows[i].type, &value);
    }
    const struct dgl_json *tokenizer = dgl_json_get(root, "tokenizer");
    if (st == DGL_OK && tokenizer)
        st = dgl_json_opt_i64(r, tokenizer, "vocabSize", 1, 1 << 21, &vocab);
    return st;
}

static enum dgl_status parse_head(struct dgl_json_reader r, const struct dgl_json *root,
                                  struct rdrr_manifest *out)
{
    const struct dgl_json *conversion, *config;
    const char *quantization = NULL;
    enum dgl_status st = check_types(r, root);
    if (st == DGL_OK)
        st = need_text(r, root, "modelId", &out->arena, &out->model_id);
    if (st == DGL_OK)
        st = need_text(r, root, "quantization", &out->arena, &quantization);
    if (st == DGL_OK)
        st = dgl_json_opt(r, root, "conversion", DGL_JSON_OBJECT, &conversion);
    if (st != DGL_OK)
        return st;
    out->ours = dgl_str_eq(dgl_json_str(dgl_json_get(conversion, "tool")), RDRR_TOOL);
    char *lower = dgl_arena_strndup(&out->arena, quantization, strlen(quantization));
    if (!lower)
        return dgl_fail_memory(r.log, "quantization", strlen(quantization));
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    out->quantization = lower;
    st = dgl_json_need(r, root, "config", DGL_JSON_OBJECT, &config);
    return st == DGL_OK ? value_text(r, config, 2, &out->arena, &out->config) : st;
}

enum dgl_status rdrr_manifest_parse(const struct dgl_log *log, const struct dgl_json_doc *doc,
                                    struct rdrr_manifest *out)
{
    struct dgl_json_reader r = {.log = log, .doc = doc};
    const struct dgl_json *root = dgl_json_root(doc);
    *out = (struct rdrr_manifest){0};
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        return dgl_json_fail(r, root, "wanted an object, found %s",
                             dgl_json_type_name(dgl_json_type(root)));
    enum dgl_status st = check_version(r, root);
    if (st == DGL_OK)
        st = parse_head(r, root, out);
    if (st == DGL_OK)
        st = parse_hash_kind(r, root, out);
    if (st == DGL_OK)
        st = parse_copied(r, root, out);
    if (st == DGL_OK)
        st = check_complete(r, root, out);
    if (st == DGL_OK)
        st = parse_hints(r, root, out);
    if (st == DGL_OK)
        st = parse_shards(r, root, out);
    if (st == DGL_OK)
        st = rdrr_tensors_parse(r, root, out);
    if (st != DGL_OK)
        rdrr_manifest_finish(out);
    return st;
}

void rdrr_manifest_finish(struct rdrr_manifest *manifest)
{
    free(manifest->shards);
    free(manifest->tensors);
    free(manifest->spans);
    dgl_arena_finish(&manifest->arena);
    *manifest = (struct rdrr_manifest){0};
}

const struct rdrr_copied *rdrr_copied_find(const struct rdrr_manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->num_copied; i++) {
        if (strcmp(manifest->copied[i].name, name) == 0)
            return &manifest->copied[i];
    }
    return NULL;
}
