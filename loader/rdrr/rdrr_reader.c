/* Opens a pack and reads tensors from its shards. */
#include "loader/rdrr/rdrr_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/rdrr/chat_files.h"

/* Opens a file of the pack and compares its size with the manifest. */
static enum dgl_status member_open(const struct dgl_log *log, const struct rdrr_pack *pack,
                                   const char *name, uint64_t size, const char *hash,
                                   struct blob *out)
{
    enum dgl_entry entry;
    enum dgl_status status = DGL_OK;
    char *path = dgl_path_join(pack->dir, name);
    *out = (struct blob){0};
    if (!path)
        return dgl_fail_memory(log, "path", strlen(name));
    TRY(blob_find(log, pack->source, path, &entry));
    if (entry == DGL_ENTRY_NONE)
        status =
            dgl_fail(log, DGL_ERR_IO,
                     "%s: missing, but %s lists it with %" PRIu64 " bytes; fetch the pack again",
                     path, pack->manifest_path, size);
    else
        status = blob_open(log, pack->source, path, hash, out);
    if (status == DGL_OK && out->size != size) {
        status =
            dgl_fail(log, DGL_ERR_FORMAT,
                     "%s: has %" PRIu64 " bytes, but %s says %" PRIu64 "; fetch the file again",
                     path, out->size, pack->manifest_path, size);
        blob_close(out);
    }
done:
    free(path);
    return status;
}

static enum dgl_status shard_open(const struct dgl_log *log, const struct rdrr_pack *pack,
                                  const struct rdrr_shard *shard, struct blob *out)
{
    /* Some writers of the first generation stored a BLAKE3 hash as sha256. */
    const struct rdrr_manifest *m = &pack->manifest;
    bool known = m->hash == DGL_HASH_SHA256 && !m->first_generation;
    return member_open(log, pack, shard->name, shard->size, known ? shard->hash : NULL, out);
}

/* A pack of this converter lists every text file. An unlisted file would not be verified or
 * read. */
struct listed {
    const struct dgl_log *log;
    const struct rdrr_pack *pack;
};

static enum dgl_status listed_check(void *priv, const char *file, struct dgl_str name)
{
    const struct listed *l = priv;
    const struct rdrr_pack *pack = l->pack;
    bool found;
    (void)name;
    if (rdrr_copied_find(&pack->manifest, file))
        return DGL_OK;
    enum dgl_status status = blob_find_in(l->log, pack->source, pack->dir, file, &found);
    if (status == DGL_OK && found)
        status =
            dgl_fail(l->log, DGL_ERR_FORMAT,
                     "%s/%s: is there, but %s does not list it in files: convert the model again",
                     pack->dir, file, pack->manifest_path);
    return status;
}

static enum dgl_status members_check(const struct dgl_log *log, const struct rdrr_pack *pack)
{
    const struct rdrr_manifest *m = &pack->manifest;
    struct listed l = {log, pack};
    struct blob blob;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < m->num_shards; i++) {
        TRY(shard_open(log, pack, &m->shards[i], &blob));
        blob_close(&blob);
    }
    for (size_t i = 0; i < m->num_copied; i++) {
        const struct rdrr_copied *copied = &m->copied[i];
        TRY(member_open(log, pack, copied->name, copied->size, copied->sha256, &blob));
        blob_close(&blob);
    }
    if (!m->ours)
        return DGL_OK;
    for (size_t i = 0; rdrr_copied_files[i]; i++)
        TRY(listed_check(&l, rdrr_copied_files[i], (struct dgl_str){0}));
    TRY(chat_files_each(log, pack->source, pack->dir, true, listed_check, &l));
done:
    return status;
}

static enum dgl_status manifest_load(const struct dgl_log *log, struct rdrr_pack *pack)
{
    struct dgl_json_doc *doc = NULL;
    char *text = NULL, *path = NULL;
    size_t len = 0;
    enum dgl_status status;
    TRY(blob_load(log, pack->source, pack->manifest_path, RDRR_MAX_MANIFEST, &text, &len));
    if (!dgl_hash_bytes(DGL_HASH_SHA256, text, len, pack->manifest_sha256))
        TRY(dgl_fail_memory(log, "SHA-256", 0));
    TRY(dgl_json_parse(log, pack->manifest_path, text, len, &pack->doc));
    TRY(rdrr_manifest_parse(log, pack->doc, &pack->manifest));
    if (!pack->manifest.tensors_file)
        goto done;
    free(text);
    text = NULL;
    path = dgl_path_join(pack->dir, pack->manifest.tensors_file);
    if (!path)
        TRY(dgl_fail_memory(log, "path", strlen(pack->dir)));
    TRY(blob_load(log, pack->source, path, RDRR_MAX_MANIFEST, &text, &len));
    TRY(dgl_json_parse(log, path, text, len, &doc));
    TRY(rdrr_tensors_parse((struct dgl_json_reader){.log = log, .doc = doc}, dgl_json_root(doc),
                           &pack->manifest));
done:
    dgl_json_destroy(&doc);
    free(path);
    free(text);
    return status;
}

enum dgl_status rdrr_pack_open(const struct dgl_log *log, const struct dgl_source *source,
                               const char *dir, struct rdrr_pack **out)
{
    *out = NULL;
    struct rdrr_pack *pack = dgl_new(struct rdrr_pack);
    if (!pack)
        return dgl_fail_memory(log, "pack", sizeof(*pack));
    pack->source = source;
    pack->dir = dgl_strdup(dir);
    pack->manifest_path = dgl_path_join(dir, RDRR_MANIFEST);
    enum dgl_status status = pack->dir && pack->manifest_path
                                 ? manifest_load(log, pack)
                                 : dgl_fail_memory(log, "path", strlen(dir));
    if (status == DGL_OK)
        status = members_check(log, pack);
    if (status != DGL_OK)
        rdrr_pack_close(&pack);
    *out = pack;
    return status;
}

void rdrr_pack_close(struct rdrr_pack **pack)
{
    struct rdrr_pack *p = *pack;
    if (!p)
        return;
    rdrr_manifest_finish(&p->manifest);
    dgl_json_destroy(&p->doc);
    free(p->dir);
    free(p->manifest_path);
    free(p);
    *pack = NULL;
}

/* Shards are opened for each read: large packs have more shards than a process may have open files.
 * Reads are large, so the cost is small. */
static enum dgl_status pack_read(void *impl, const struct dgl_log *log, size_t index,
                                 uint64_t offset, void *dst, size_t size)
{
    const struct rdrr_pack *pack = impl;
    const struct rdrr_tensor *t = &pack->manifest.tensors[index];
    unsigned char *to = dst;
    for (size_t i = 0; i < t->num_spans && size > 0; i++) {
        const struct rdrr_span *span = &pack->manifest.spans[t->first_span + i];
        if (offset >= span->size) {
            offset -= span->size;
            continue;
        }
        size_t part = span->size - offset < size ? (size_t)(span->size - offset) : size;
        struct blob blob;
        enum dgl_status status = shard_open(log, pack, &pack->manifest.shards[span->shard], &blob);
        if (status == DGL_OK)
            status = blob_read(log, &blob, span->offset + offset, to, part);
        blob_close(&blob);
        if (status != DGL_OK)
            return status;
        offset = 0;
        to += part;
        size -= part;
    }
    return DGL_OK;
}

static void pack_destroy(void *impl)
{
    struct rdrr_pack *pack = impl;
    rdrr_pack_close(&pack);
}

enum dgl_status rdrr_tensors_open(const struct dgl_log *log, struct rdrr_pack *pack,
                                  struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {.read = pack_read, .destroy = pack_destroy};
    const struct rdrr_manifest *m = &pack->manifest;
    *out = NULL;
    struct tensor_info *tensors = dgl_new_array(struct tensor_info, m->num_tensors);
    enum rdrr_layout *layouts = dgl_new_array(enum rdrr_layout, m->num_tensors);
    if (!tensors || !layouts) {
        free(tensors);
        free(layouts);
        rdrr_pack_close(&pack);
        return dgl_fail_memory(log, "tensor list", sizeof(*tensors));
    }
    for (size_t i = 0; i < m->num_tensors; i++) {
        tensors[i] = m->tensors[i].info;
        layouts[i] = m->tensors[i].layout;
    }
    enum dgl_status status =
        tensor_source_create(log, pack->manifest_path, &ops, pack, tensors, m->num_tensors, out);
    if (status == DGL_OK)
        status = rdrr_layout_wrap(log, layouts, out);
    if (status != DGL_OK)
        tensor_source_destroy(out);
    free(tensors);
    free(layouts);
    return status;
}

enum dgl_status rdrr_copied_load(const struct dgl_log *log, const struct rdrr_pack *pack,
                                 const char *name, char **text, size_t *len)
{
    *text = NULL;
    *len = 0;
    const struct rdrr_copied *copied = rdrr_copied_find(&pack->manifest, name);
    if (!copied)
        return DGL_OK;
    char *path = dgl_path_join(pack->dir, name);
    if (!path)
        return dgl_fail_memory(log, "path", strlen(name));
    char hash[65] = "";
    enum dgl_status status;
    TRY(blob_load(log, pack->source, path, RDRR_MAX_COPIED_BYTES, text, len));
    if (!dgl_hash_bytes(DGL_HASH_SHA256, *text, *len, hash))
        TRY(dgl_fail_memory(log, "SHA-256", 0));
    if (strcmp(hash, copied->sha256) != 0)
        TRY(dgl_fail(log, DGL_ERR_INTEGRITY,
                     "%s: sha256 is %s, but %s says %s (files.%s); fetch the file again", path,
                     hash, pack->manifest_path, copied->sha256, name));
done:
    if (status != DGL_OK) {
        free(*text);
        *text = NULL;
        *len = 0;
    }
    free(path);
    return status;
}
