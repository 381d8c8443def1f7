/* Shards of a manifest: names, sizes and hashes, in the spellings of every generation. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/checked.h"
#include "loader/rdrr/rdrr_manifest.h"

/* The first generation spells the key "fileName". */
static const char *name_key(const struct dgl_json *shard)
{
    bool old = !dgl_json_get(shard, "filename") && dgl_json_get(shard, "fileName");
    return old ? "fileName" : "filename";
}

static enum dgl_status parse_shard(struct dgl_json_reader r, const struct dgl_json *object,
                                   size_t index, struct rdrr_manifest *out)
{
    struct rdrr_shard *shard = &out->shards[index];
    int64_t at = (int64_t)index, size = 0, offset = (int64_t)out->total_size;
    char name[32];
    snprintf(name, sizeof(name), RDRR_SHARD_NAME, (unsigned)index);
    /* Newer packs repeat the hash under "blake3", whatever the algorithm is. Older packs have only
     * that key if the algorithm is BLAKE3. */
    bool both = dgl_json_get(object, "hash") && dgl_json_get(object, "blake3");
    bool blake3 = both ? out->hash == DGL_HASH_BLAKE3 : dgl_json_get(object, "blake3") != NULL;
    if (!dgl_json_is(object, DGL_JSON_OBJECT))
        return dgl_json_fail(r, object, "wanted an object");
    enum dgl_status status;
    TRY(dgl_json_opt_i64(r, object, "index", 0, INT64_MAX, &at));
    TRY(dgl_json_need_i64(r, object, "size", 1, INT64_MAX, &size));
    TRY(dgl_json_opt_i64(r, object, "offset", 0, INT64_MAX, &offset));
    TRY(rdrr_need_hash(r, object, blake3 ? "blake3" : "hash", shard->hash));
    TRY(rdrr_need_text(r, object, name_key(object), &out->arena, &shard->name));
    if (at != (int64_t)index)
        return dgl_json_fail(r, object, "index is %" PRId64 " at position %zu", at, index);
    if (offset != (int64_t)out->total_size)
        return dgl_json_fail(
            r, object, "offset is %" PRId64 ", but the shards before it have %" PRIu64 " bytes",
            offset, out->total_size);
    if (strcmp(shard->name, name) != 0)
        return dgl_json_fail(r, object, "%s is \"%s\", wanted \"%s\"", name_key(object),
                             DGL_PRINTABLE(shard->name), name);
    shard->size = (uint64_t)size;
    if (!dgl_add_u64(out->total_size, shard->size, &out->total_size) || out->total_size > INT64_MAX)
        return dgl_json_fail(r, object, "size %" PRId64 " makes the pack larger than 2^63 bytes",
                             size);
done:
    return status;
}

enum dgl_status rdrr_shards_parse(struct dgl_json_reader r, const struct dgl_json *root,
                                  struct rdrr_manifest *out)
{
    const struct dgl_json *shards, *first = NULL, *value = NULL;
    int64_t total = 0;
    enum dgl_status status;
    TRY(dgl_json_need(r, root, "shards", DGL_JSON_ARRAY, &shards));
    /* The hash algorithm is that of the pack, or of the first shard that has one. Other writers may
     * omit both; the default of every writer is sha256. */
    TRY((out->ours ? dgl_json_need : dgl_json_opt)(r, root, "hashAlgorithm", DGL_JSON_STRING,
                                                   &value));
    for (const struct dgl_json *s = dgl_json_first(shards); s && !first; s = dgl_json_next(s)) {
        if (dgl_json_is(s, DGL_JSON_OBJECT))
            TRY(dgl_json_opt(r, s, "hashAlgorithm", DGL_JSON_STRING, &first));
    }
    if (value && first && !dgl_str_eq(dgl_json_str(value), dgl_json_str(first).p))
        return dgl_json_fail(r, first, "\"%s\", but hashAlgorithm of the pack is \"%s\"",
                             DGL_PRINTABLE(dgl_json_str(first).p),
                             DGL_PRINTABLE(dgl_json_str(value).p));
    value = value ? value : first;
    out->hash = DGL_HASH_SHA256;
    if (value && !dgl_hash_parse_name(dgl_json_str(value).p, &out->hash))
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: hashAlgorithm is \"%s\"; supported: sha256, blake3",
                        dgl_json_name(r.doc), DGL_PRINTABLE(dgl_json_str(value).p));
    size_t count = dgl_json_count(shards);
    if (count == 0 || count > RDRR_MAX_SHARDS)
        return dgl_json_fail(r, shards, "%zu shards, wanted 1 to %d", count, RDRR_MAX_SHARDS);
    out->shards = dgl_new_array(struct rdrr_shard, count);
    if (!out->shards)
        return dgl_fail_memory(r.log, "shard list", count * sizeof(*out->shards));
    for (const struct dgl_json *s = dgl_json_first(shards); s; s = dgl_json_next(s)) {
        TRY(parse_shard(r, s, out->num_shards, out));
        out->num_shards++;
    }
    TRY(dgl_json_need_i64(r, root, "totalSize", 0, INT64_MAX, &total));
    if ((uint64_t)total != out->total_size)
        return dgl_json_fail(r, root,
                             "totalSize is %" PRId64 ", but the shards' sizes sum to %" PRIu64,
                             total, out->total_size);
done:
    return status;
}
