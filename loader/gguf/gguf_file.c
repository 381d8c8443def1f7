/* A GGUF header as a whole: preamble, keys, tensor descriptions, and the layout of the data. */
#include "loader/gguf/gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/utf8.h"
#include "loader/gguf/gguf_value.h"

/* ggml's type numbers. Those without `known` are named in messages only. */
struct ggml_type {
    const char *name;
    uint32_t id;
    bool known;
    enum dgl_dtype dtype;
};

static const struct ggml_type ggml_types[] = {
    {"F32", 0, true, DGL_F32},        {"F16", 1, true, DGL_F16},
    {"BF16", 30, true, DGL_BF16},     {"Q4_0", 2, true, DGL_Q4_0},
    {"Q4_1", 3, true, DGL_Q4_1},      {"Q5_0", 6, true, DGL_Q5_0},
    {"Q5_1", 7, true, DGL_Q5_1},      {"Q8_0", 8, true, DGL_Q8_0},
    {"Q2_K", 10, true, DGL_Q2_K},     {"Q3_K", 11, true, DGL_Q3_K},
    {"Q4_K", 12, true, DGL_Q4_K},     {"Q5_K", 13, true, DGL_Q5_K},
    {"Q6_K", 14, true, DGL_Q6_K},     {"MXFP4", 39, true, DGL_MXFP4},
    {"IQ4_NL", 20, true, DGL_IQ4_NL}, {"IQ4_XS", 23, true, DGL_IQ4_XS},
    {"Q8_1", 9, false, DGL_F32},      {"Q8_K", 15, false, DGL_F32},
    {"IQ2_XXS", 16, false, DGL_F32},  {"IQ2_XS", 17, false, DGL_F32},
    {"IQ3_XXS", 18, false, DGL_F32},  {"IQ1_S", 19, false, DGL_F32},
    {"IQ3_S", 21, false, DGL_F32},    {"IQ2_S", 22, false, DGL_F32},
    {"I8", 24, false, DGL_F32},       {"I16", 25, false, DGL_F32},
    {"I32", 26, false, DGL_F32},      {"I64", 27, false, DGL_F32},
    {"F64", 28, false, DGL_F32},      {"IQ1_M", 29, false, DGL_F32},
    {"TQ1_0", 34, false, DGL_F32},    {"TQ2_0", 35, false, DGL_F32},
    {"NVFP4", 40, false, DGL_F32},
};
#define SUPPORTED_TYPES                                                                            \
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, MXFP4, IQ4_NL, "  \
    "IQ4_XS"

/* magic, version, number of tensors, number of keys */
#define PREAMBLE_BYTES 24
/* What a key and a tensor have at least: lengths and types, an empty value. */
#define MIN_KEY_BYTES    (8 + 1 + 4 + 1)
#define MIN_TENSOR_BYTES (8 + 1 + 4 + 8 + 4 + 8)

bool gguf_type_of_dtype(enum dgl_dtype type, uint32_t *out)
{
    for (size_t i = 0; i < sizeof(ggml_types) / sizeof(ggml_types[0]); i++) {
        if (ggml_types[i].known && ggml_types[i].dtype == type) {
            *out = ggml_types[i].id;
            return true;
        }
    }
    return false;
}

static enum dgl_status check_magic(struct gguf_cursor *c)
{
    char magic[4];
    enum dgl_status status = gguf_cursor_bytes(c, "magic", magic, sizeof(magic));
    if (status != DGL_OK || memcmp(magic, GGUF_MAGIC, sizeof(magic)) == 0)
        return status;
    if (memcmp(magic, "vers", sizeof(magic)) == 0)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: a Git LFS pointer, not the weights; run `git lfs pull` in its folder",
                        c->in->name);
    return dgl_fail(c->log, DGL_ERR_FORMAT,
                    "%s: begins with bytes %02x %02x %02x %02x, a GGUF file begins with \"GGUF\"",
                    c->in->name, (uint8_t)magic[0], (uint8_t)magic[1], (uint8_t)magic[2],
                    (uint8_t)magic[3]);
}

static enum dgl_status check_version(struct gguf_cursor *c, struct gguf_file *f)
{
    enum dgl_status status = gguf_cursor_u32(c, "version", &f->version);
    if (status != DGL_OK || f->version == 2 || f->version == GGUF_VERSION)
        return status;
    if (f->version != 0 && (f->version & 0xffffff) == 0)
        return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                        "%s: a big-endian GGUF file; supported: little-endian", c->in->name);
    return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                    "%s: GGUF version %" PRIu32 "; supported: 2 and 3 (convert it again with a "
                    "current llama.cpp)",
                    c->in->name, f->version);
}

static enum dgl_status count_read(struct gguf_cursor *c, const char *what, uint64_t max,
                                  uint64_t min_bytes, size_t *out)
{
    uint64_t count;
    enum dgl_status status;
    TRY(gguf_cursor_u64(c, what, &count));
    if (count > max)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s is %" PRIu64 ", at most %" PRIu64 " are accepted", c->in->name,
                        what, count, max);
    TRY(gguf_cursor_need(c, what, count, min_bytes));
done:
    *out = status == DGL_OK ? (size_t)count : 0;
    return status;
}

static int kv_compare(const void *a, const void *b)
{
    return strcmp(((const struct gguf_kv *)a)->key, ((const struct gguf_kv *)b)->key);
}

static enum dgl_status keys_read(struct gguf_cursor *c, size_t count, struct gguf_file *f)
{
    f->keys = dgl_new_array(struct gguf_kv, count);
    if (!f->keys)
        return dgl_fail_memory(c->log, "GGUF metadata", count * sizeof(*f->keys));
    for (; f->num_keys < count; f->num_keys++) {
        enum dgl_status status = gguf_kv_read(c, &f->keys[f->num_keys]);
        if (status != DGL_OK)
            return status;
    }
    qsort(f->keys, f->num_keys, sizeof(*f->keys), kv_compare);
    for (size_t i = 1; i < f->num_keys; i++) {
        if (strcmp(f->keys[i - 1].key, f->keys[i].key) == 0)
            return dgl_fail(c->log, DGL_ERR_FORMAT, "%s: key %s occurs twice", f->name,
                            DGL_PRINTABLE(f->keys[i].key));
    }
    return DGL_OK;
}

static enum dgl_status alignment_read(const struct dgl_log *log, struct gguf_file *f)
{
    int64_t value = GGUF_ALIGNMENT;
    enum dgl_status status = gguf_opt_i64((struct gguf_reader){log, f}, "general.alignment", 1,
                                          GGUF_MAX_ALIGNMENT, &value);
    if (status == DGL_OK && (value & (value - 1)) != 0)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: general.alignment is %" PRId64 ", wanted a power of two", f->name,
                        value);
    f->alignment = (uint64_t)value;
    return status;
}

static enum dgl_status dims_read(struct gguf_cursor *c, struct tensor_info *info)
{
    enum dgl_status status;
    TRY(gguf_cursor_u32(c, info->name, &info->rank));
    if (info->rank < 1 || info->rank > 4)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: tensor %s has %" PRIu32 " dimensions, wanted 1 to 4", c->in->name,
                        DGL_PRINTABLE(info->name), info->rank);
    for (uint32_t i = 0; i < info->rank; i++) {
        uint64_t *dim = &info->shape[info->rank - 1 - i];
        TRY(gguf_cursor_u64(c, info->name, dim));
        if (*dim < 1 || *dim > INT64_MAX)
            return dgl_fail(c->log, DGL_ERR_FORMAT,
                            "%s: dimension %" PRIu32 " of tensor %s is %" PRIu64
                            ", wanted 1 or more",
                            c->in->name, i, DGL_PRINTABLE(info->name), *dim);
    }
done:
    return status;
}

static enum dgl_status dtype_read(struct gguf_cursor *c, struct tensor_info *info)
{
    uint32_t id;
    enum dgl_status status = gguf_cursor_u32(c, info->name, &id);
    if (status != DGL_OK)
        return status;
    char number[24];
    snprintf(number, sizeof(number), "%" PRIu32, id);
    const char *name = number;
    for (size_t i = 0; i < sizeof(ggml_types) / sizeof(ggml_types[0]); i++) {
        if (ggml_types[i].id != id)
            continue;
        info->dtype = ggml_types[i].dtype;
        if (ggml_types[i].known)
            return DGL_OK;
        name = ggml_types[i].name;
    }
    return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                    "%s: tensor %s has type %s; supported: " SUPPORTED_TYPES, c->in->name,
                    DGL_PRINTABLE(info->name), name);
}

/* Bytes from type and shape. Rows of block formats are whole blocks: GGUF has no padding. */
static enum dgl_status size_compute(struct gguf_cursor *c, struct tensor_info *info)
{
    const struct dgl_dtype_traits *t = dgl_dtype_get(info->dtype);
    uint64_t cols = info->shape[info->rank - 1];
    char shape[TENSOR_SHAPE_TEXT];
    tensor_shape_str(info->rank, info->shape, shape);
    if (cols % t->block != 0)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: tensor %s has shape %s, but rows of %s are multiples of %" PRIu32
                        " values",
                        c->in->name, DGL_PRINTABLE(info->name), shape, t->name, t->block);
    if (!dgl_dtype_tensor_bytes(info->dtype, info->rank, info->shape, &info->bytes))
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: size of tensor %s with shape %s overflows 64 bits", c->in->name,
                        DGL_PRINTABLE(info->name), shape);
    return DGL_OK;
}

static enum dgl_status tensor_read(struct gguf_cursor *c, uint64_t alignment,
                                   struct gguf_tensor *out)
{
    struct dgl_str name;
    enum dgl_status status = gguf_cursor_string(c, "tensor name", GGUF_MAX_NAME_LEN, &name);
    if (status != DGL_OK)
        return status;
    if (name.len == 0 || memchr(name.p, 0, name.len) ||
        dgl_utf8_valid_prefix(name.p, name.len) != name.len)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: the tensor name before byte %" PRIu64 " is empty or not text",
                        c->in->name, c->at);
    out->info.name = name.p;
    out->info.role = tensor_role_from_name(name.p);
    TRY(dims_read(c, &out->info));
    TRY(dtype_read(c, &out->info));
    TRY(size_compute(c, &out->info));
    TRY(gguf_cursor_u64(c, name.p, &out->begin));
    if (out->begin % alignment != 0)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: offset of tensor %s is %" PRIu64
                        ", not a multiple of the alignment %" PRIu64,
                        c->in->name, DGL_PRINTABLE(name.p), out->begin, alignment);
done:
    return status;
}

static enum dgl_status tensors_read(struct gguf_cursor *c, size_t count, struct gguf_file *f)
{
    f->tensors = dgl_new_array(struct gguf_tensor, count);
    if (!f->tensors)
        return dgl_fail_memory(c->log, "tensor list", count * sizeof(*f->tensors));
    for (; f->num_tensors < count; f->num_tensors++) {
        enum dgl_status status = tensor_read(c, f->alignment, &f->tensors[f->num_tensors]);
        if (status != DGL_OK)
            return status;
    }
    return DGL_OK;
}

static int tensor_compare(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return 0;
}

static enum dgl_status layout_fail(const struct dgl_log *log, const struct gguf_file *f,
                                   const struct gguf_tensor *t, uint64_t end)
{
    return dgl_fail(log, DGL_ERR_FORMAT,
                    "%s: tensor %s begins at %" PRIu64
                    " of the data, but the one before it ends at "
                    "%" PRIu64 " (%s)",
                    f->name, DGL_PRINTABLE(t->info.name), t->begin, end,
                    t->begin < end ? "they overlap" : "a hole");
}

/* Tensors one after the other from the start, with padding only; the file ends with the last one
 * or its padding. */
static enum dgl_status check_layout(const struct dgl_log *log, struct gguf_file *f,
                                    uint64_t data_bytes)
{
    qsort(f->tensors, f->num_tensors, sizeof(*f->tensors), tensor_compare);
    uint64_t end = 0, next = 0;
    for (size_t i = 0; i < f->num_tensors; i++) {
        const struct gguf_tensor *t = &f->tensors[i];
        if (t->begin != next)
            return layout_fail(log, f, t, end);
        if (!dgl_add_u64(t->begin, t->info.bytes, &end) || !dgl_align_u64(end, f->alignment, &next))
            return dgl_fail(log, DGL_ERR_FORMAT, "%s: sizes of all tensors overflow 64 bits",
                            f->name);
        if (end > data_bytes)
            return dgl_fail(log, DGL_ERR_FORMAT,
                            "%s: tensor %s ends at %" PRIu64 " of the data, which has %" PRIu64
                            " bytes (truncated; fetch the file again)",
                            f->name, DGL_PRINTABLE(t->info.name), end, data_bytes);
    }
    if (data_bytes > next)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: the tensors need %" PRIu64 " bytes of data, the file holds %" PRIu64
                        " (bytes are left over)",
                        f->name, next, data_bytes);
    return DGL_OK;
}

enum dgl_status gguf_file_parse(const struct dgl_log *log, const struct gguf_input *in,
                                struct gguf_file *out)
{
    size_t num_tensors, num_keys;
    struct gguf_cursor c;
    *out = (struct gguf_file){.name = in->name};
    if (in->size < PREAMBLE_BYTES)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: the file has %" PRIu64 " bytes, a GGUF file has at least %d", in->name,
                        in->size, PREAMBLE_BYTES);
    enum dgl_status status;
    TRY(gguf_cursor_init(log, in, &out->arena, &c));
    TRY(check_magic(&c));
    TRY(check_version(&c, out));
    TRY(count_read(&c, "number of tensors", GGUF_MAX_TENSORS, MIN_TENSOR_BYTES, &num_tensors));
    TRY(count_read(&c, "number of keys", GGUF_MAX_KEYS, MIN_KEY_BYTES, &num_keys));
    TRY(keys_read(&c, num_keys, out));
    TRY(alignment_read(log, out));
    TRY(tensors_read(&c, num_tensors, out));
    if (!dgl_align_u64(c.at, out->alignment, &out->data_start))
        TRY(dgl_fail(log, DGL_ERR_FORMAT, "%s: the header's size overflows 64 bits", in->name));
    /* a file without tensors may end with its header, unpadded */
    TRY(check_layout(log, out, in->size > out->data_start ? in->size - out->data_start : 0));
done:
    gguf_cursor_finish(&c);
    if (status != DGL_OK)
        gguf_file_finish(out);
    return status;
}

void gguf_file_finish(struct gguf_file *file)
{
    free(file->keys);
    free(file->tensors);
    dgl_arena_finish(&file->arena);
    *file = (struct gguf_file){0};
}
