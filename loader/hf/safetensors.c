/* Strict parser of the safetensors header. */
#include "loader/hf/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/base/json.h"

struct parser {
    struct dgl_json_reader r;
    const char *name; /* of the file */
    struct safetensors_header *out;
};

static enum dgl_status parse_tensor(struct parser *p, const struct dgl_json *object,
                                    struct safetensors_entry *entry)
{
    struct tensor_info *info = &entry->info;
    struct dgl_str key = dgl_json_key(object);
    const struct dgl_json *dtype, *shape, *pair;
    int64_t begin, end;
    bool known = false;
    char text[TENSOR_SHAPE_TEXT];
    enum dgl_status status;
    if (!dgl_json_is(object, DGL_JSON_OBJECT))
        return dgl_json_fail(p->r, object, "wanted an object, found %s",
                             dgl_json_type_name(dgl_json_type(object)));
    if (key.len == 0 || memchr(key.p, 0, key.len))
        return dgl_fail(p->r.log, DGL_ERR_FORMAT, "%s: a tensor's name is empty or holds U+0000",
                        p->name);
    info->name = dgl_arena_strndup(&p->out->names, key.p, key.len);
    if (!info->name)
        return dgl_fail_memory(p->r.log, "tensor names", key.len);
    info->role = tensor_role_from_name(info->name);
    TRY(dgl_json_need(p->r, object, "dtype", DGL_JSON_STRING, &dtype));
    for (int i = 0; i < DGL_DTYPE_COUNT && !known; i++) {
        const char *spelling = dgl_dtype_get((enum dgl_dtype)i)->safetensors;
        known = spelling && dgl_str_eq(dgl_json_str(dtype), spelling);
        info->dtype = (enum dgl_dtype)i;
    }
    if (!known)
        return dgl_fail(p->r.log, DGL_ERR_UNSUPPORTED,
                        "%s: %s.dtype is \"%s\"; supported: F32, F16, BF16, U8, I64", p->name,
                        DGL_PRINTABLE(info->name), DGL_PRINTABLE_STR(dgl_json_str(dtype)));
    TRY(dgl_json_need(p->r, object, "shape", DGL_JSON_ARRAY, &shape));
    if (dgl_json_count(shape) > 4)
        return dgl_json_fail(p->r, shape, "%zu dimensions, at most 4 are supported",
                             dgl_json_count(shape));
    for (const struct dgl_json *d = dgl_json_first(shape); d; d = dgl_json_next(d)) {
        int64_t dim;
        if (!dgl_json_i64(d, &dim) || dim < 1)
            return dgl_json_fail_wanted(p->r, d, "an integer from 1");
        info->shape[info->rank++] = (uint64_t)dim;
    }
    if (!dgl_dtype_tensor_bytes(info->dtype, info->rank, info->shape, &info->bytes))
        return dgl_json_fail(p->r, shape, "size of %s overflows 64 bits",
                             DGL_PRINTABLE(info->name));
    TRY(dgl_json_need(p->r, object, "data_offsets", DGL_JSON_ARRAY, &pair));
    if (dgl_json_count(pair) != 2 || !dgl_json_i64(dgl_json_at(pair, 0), &begin) ||
        !dgl_json_i64(dgl_json_at(pair, 1), &end) || begin < 0 || end < begin) {
        struct dgl_buf found = {0};
        struct dgl_json_writer w = dgl_json_writer(&found, 0);
        dgl_jw_value(&w, pair);
        status = dgl_json_fail(
            p->r, pair, "is %s, wanted two integers 0 <= begin <= end",
            found.failed ? "?" : DGL_PRINTABLE_STR(((struct dgl_str){found.p, found.len})));
        dgl_buf_finish(&found);
        return status;
    }
    uint64_t size = (uint64_t)end - (uint64_t)begin;
    if (size != info->bytes)
        return dgl_json_fail(p->r, pair,
                             "spans %" PRIu64 " bytes, but shape %s of %s needs %" PRIu64, size,
                             tensor_shape_str(info->rank, info->shape, text),
                             dgl_dtype_get(info->dtype)->safetensors, info->bytes);
    entry->begin = (uint64_t)begin;
done:
    return status;
}

static int entry_compare(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return 0;
}

/* Checks that every byte of the data section belongs to exactly one tensor, so that no other file
 * can be hidden there. */
static enum dgl_status check_layout(struct parser *p, uint64_t data_bytes)
{
    struct safetensors_header *h = p->out;
    qsort(h->entries, h->count, sizeof(*h->entries), entry_compare);
    uint64_t end = 0;
    for (size_t i = 0; i < h->count; i++) {
        const struct safetensors_entry *e = &h->entries[i];
        if (e->begin != end)
            return dgl_fail(p->r.log, DGL_ERR_FORMAT,
                            "%s: %s.data_offsets begins at %" PRIu64
                            ", but the tensor before it ends at %" PRIu64 " (%s)",
                            p->name, DGL_PRINTABLE(e->info.name), e->begin, end,
                            e->begin < end ? "they overlap" : "a hole");
        if (!dgl_add_u64(end, e->info.bytes, &end))
            return dgl_fail(p->r.log, DGL_ERR_FORMAT, "%s: sizes of all tensors overflow 64 bits",
                            p->name);
    }
    if (end != data_bytes)
        return dgl_fail(p->r.log, DGL_ERR_FORMAT,
                        "%s: the header describes %" PRIu64
                        " bytes of tensors, the file holds %" PRIu64 " (%s; fetch the file again)",
                        p->name, end, data_bytes,
                        data_bytes < end ? "it is truncated" : "bytes are left over");
    return DGL_OK;
}

enum dgl_status safetensors_parse(const struct dgl_log *log, const char *name, const char *text,
                                  size_t len, uint64_t data_bytes, struct safetensors_header *out)
{
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status;
    *out = (struct safetensors_header){0};
    if (len == 0 || text[0] != '{')
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: the header does not begin with '{'", name);
    TRY(dgl_json_parse(log, name, text, len, &doc));
    struct parser p = {.r = {.log = log, .doc = doc}, .name = name, .out = out};
    const struct dgl_json *root = dgl_json_root(doc);
    size_t count = dgl_json_count(root);
    if (count > SAFETENSORS_MAX_TENSORS + 1)
        TRY(dgl_fail(log, DGL_ERR_FORMAT, "%s: %zu tensors, at most %d are supported", name, count,
                     SAFETENSORS_MAX_TENSORS));
    out->entries = dgl_new_array(struct safetensors_entry, count);
    if (!out->entries)
        TRY(dgl_fail_memory(log, "tensor list", count * sizeof(*out->entries)));
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        if (!dgl_str_eq(dgl_json_key(v), "__metadata__")) {
            TRY(parse_tensor(&p, v, &out->entries[out->count++]));
            continue;
        }
        if (!dgl_json_is(v, DGL_JSON_OBJECT))
            TRY(dgl_json_fail(p.r, v, "wanted an object of strings"));
        for (const struct dgl_json *m = dgl_json_first(v); m; m = dgl_json_next(m)) {
            if (!dgl_json_is(m, DGL_JSON_STRING))
                TRY(dgl_json_fail(p.r, m, "wanted a string, found %s",
                                  dgl_json_type_name(dgl_json_type(m))));
        }
    }
    TRY(check_layout(&p, data_bytes));
done:
    dgl_json_destroy(&doc);
    if (status != DGL_OK)
        safetensors_header_finish(out);
    return status;
}

enum dgl_status safetensors_read(const struct dgl_log *log, const struct blob *blob,
                                 struct safetensors_header *out)
{
    unsigned char first[8];
    char *text = NULL;
    *out = (struct safetensors_header){0};
    if (blob->size < sizeof(first))
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: the file has %" PRIu64
                        " bytes, a safetensors file has at least 10 (truncated; fetch it again)",
                        blob->name, blob->size);
    enum dgl_status status = blob_read(log, blob, 0, first, sizeof(first));
    if (status != DGL_OK)
        return status;
    uint64_t len = dgl_get_le(first, 8);
    if (memcmp(first, "version ", 8) == 0)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: a Git LFS pointer, not the weights; run `git lfs pull` in its folder",
                        blob->name);
    if (len > SAFETENSORS_MAX_HEADER)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: header length is %" PRIu64
                        ", at most %u is accepted; is this a safetensors file?",
                        blob->name, len, SAFETENSORS_MAX_HEADER);
    if (!dgl_range_fits(8, len, blob->size))
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: header length is %" PRIu64 ", but the file has %" PRIu64
                        " bytes (truncated; fetch it again)",
                        blob->name, len, blob->size);
    text = dgl_calloc(1, (size_t)len + 1);
    if (!text)
        return dgl_fail_memory(log, "safetensors header", len);
    TRY(blob_read(log, blob, 8, text, (size_t)len));
    TRY(safetensors_parse(log, blob->name, text, (size_t)len, blob->size - 8 - len, out));
    out->data_start = 8 + len;
done:
    free(text);
    return status;
}

void safetensors_header_finish(struct safetensors_header *header)
{
    free(header->entries);
    dgl_arena_finish(&header->names);
    *header = (struct safetensors_header){0};
}
