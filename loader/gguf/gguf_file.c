/* Parses a GGUF header: preamble, keys, tensor descriptions, and the layout of the data. */
#include "loader/gguf/gguf_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/utf8.h"
#include "loader/gguf/gguf_value.h"

/* Type numbers of ggml. Types without `known` are only named in messages. */
struct ggml_type {
    const char *name;
    uint32_t id;
    bool known;
    enum dgl_dtype dtype;
};

static const struct ggml_type ggml_types[] = {
    {"F32", 0, true, DGL_F32},          {"F16", 1, true, DGL_F16},
    {"BF16", 30, true, DGL_BF16},       {"Q4_0", 2, true, DGL_Q4_0},
    {"Q4_1", 3, true, DGL_Q4_1},        {"Q5_0", 6, true, DGL_Q5_0},
    {"Q5_1", 7, true, DGL_Q5_1},        {"Q8_0", 8, true, DGL_Q8_0},
    {"Q2_K", 10, true, DGL_Q2_K},       {"Q3_K", 11, true, DGL_Q3_K},
    {"Q4_K", 12, true, DGL_Q4_K},       {"Q5_K", 13, true, DGL_Q5_K},
    {"Q6_K", 14, true, DGL_Q6_K},       {"MXFP4", 39, true, DGL_MXFP4},
    {"IQ4_NL", 20, true, DGL_IQ4_NL},   {"IQ4_XS", 23, true, DGL_IQ4_XS},
    {"Q8_1", 9, false, DGL_F32},        {"Q8_K", 15, false, DGL_F32},
    {"IQ2_XXS", 16, true, DGL_IQ2_XXS}, {"IQ2_XS", 17, true, DGL_IQ2_XS},
    {"IQ3_XXS", 18, true, DGL_IQ3_XXS}, {"IQ1_S", 19, true, DGL_IQ1_S},
    {"IQ3_S", 21, true, DGL_IQ3_S},     {"IQ2_S", 22, true, DGL_IQ2_S},
    {"I8", 24, false, DGL_F32},         {"I16", 25, false, DGL_F32},
    {"I32", 26, false, DGL_F32},        {"I64", 27, false, DGL_F32},
    {"F64", 28, false, DGL_F32},        {"IQ1_M", 29, true, DGL_IQ1_M},
    {"TQ1_0", 34, true, DGL_TQ1_0},     {"TQ2_0", 35, true, DGL_TQ2_0},
    {"Q1_0", 41, true, DGL_Q1_0},       {"Q2_0", 42, true, DGL_Q2_0},
    {"NVFP4", 40, false, DGL_F32},
};
#define SUPPORTED_TYPES                                                                            \
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, MXFP4, IQ4_NL, "  \
    "IQ4_XS, IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, IQ1_S, IQ1_M, TQ1_0, TQ2_0, Q1_0, Q2_0"

/* magic, version, number of tensors, number of keys */
#define PREAMBLE_BYTES 24
/* Smallest sizes of a key and of a tensor description: lengths, types and an empty value. */
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

static enum dgl_status tensor_read(struct gguf_cursor *c, uint64_t alignment,
                                   struct gguf_tensor *out)
{
    struct tensor_info *info = &out->info;
    struct dgl_str name;
    uint32_t id;
    char number[24], shape[TENSOR_SHAPE_TEXT];
    bool known = false;
    enum dgl_status status;
    TRY(gguf_cursor_string(c, "tensor name", GGUF_MAX_NAME_LEN, &name));
    if (name.len == 0 || memchr(name.p, 0, name.len) ||
        dgl_utf8_valid_prefix(name.p, name.len) != name.len)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: the tensor name before byte %" PRIu64 " is empty or not text",
                        c->in->name, c->at);
    info->name = name.p;
    info->role = tensor_role_from_name(name.p);
    TRY(gguf_cursor_u32(c, name.p, &info->rank));
    if (info->rank < 1 || info->rank > 4)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: tensor %s has %" PRIu32 " dimensions, wanted 1 to 4", c->in->name,
                        DGL_PRINTABLE(name.p), info->rank);
    /* GGUF lists the dimensions from the innermost to the outermost. */
    for (uint32_t i = 0; i < info->rank; i++) {
        uint64_t *dim = &info->shape[info->rank - 1 - i];
        TRY(gguf_cursor_u64(c, name.p, dim));
        if (*dim < 1 || *dim > INT64_MAX)
            return dgl_fail(c->log, DGL_ERR_FORMAT,
                            "%s: dimension %" PRIu32 " of tensor %s is %" PRIu64
                            ", wanted 1 or more",
                            c->in->name, i, DGL_PRINTABLE(name.p), *dim);
    }
    TRY(gguf_cursor_u32(c, name.p, &id));
    snprintf(number, sizeof(number), "%" PRIu32, id);
    const char *type = number;
    for (size_t i = 0; i < sizeof(ggml_types) / sizeof(ggml_types[0]) && !known; i++) {
        if (ggml_types[i].id != id)
            continue;
        info->dtype = ggml_types[i].dtype;
        known = ggml_types[i].known;
        type = ggml_types[i].name;
    }
    if (!known)
        return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                        "%s: tensor %s has type %s; supported: " SUPPORTED_TYPES, c->in->name,
                        DGL_PRINTABLE(name.p), type);
    /* Rows of block formats are whole blocks: GGUF has no padding. */
    const struct dgl_dtype_traits *t = dgl_dtype_get(info->dtype);
    tensor_shape_str(info->rank, info->shape, shape);
    if (info->shape[info->rank - 1] % t->block != 0)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: tensor %s has shape %s, but rows of %s are multiples of %" PRIu32
                        " values",
                        c->in->name, DGL_PRINTABLE(name.p), shape, t->name, t->block);
    if (!dgl_dtype_tensor_bytes(info->dtype, info->rank, info->shape, &info->bytes))
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: size of tensor %s with shape %s overflows 64 bits", c->in->name,
                        DGL_PRINTABLE(name.p), shape);
    TRY(gguf_cursor_u64(c, name.p, &out->begin));
    if (out->begin % alignment != 0)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: offset of tensor %s is %" PRIu64
                        ", not a multiple of the alignment %" PRIu64,
                        c->in->name, DGL_PRINTABLE(name.p), out->begin, alignment);
done:
    return status;
}

static int tensor_compare(const void *a, const void *b)
{
    const struct gguf_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return 0;
}

/* Checks that tensors follow each other from the start with padding only, and that the file ends
 * with the last tensor or its padding. */
static enum dgl_status check_layout(const struct dgl_log *log, struct gguf_file *f,
                                    uint64_t data_bytes)
{
    qsort(f->tensors, f->num_tensors, sizeof(*f->tensors), tensor_compare);
    uint64_t end = 0, next = 0;
    for (size_t i = 0; i < f->num_tensors; i++) {
        const struct gguf_tensor *t = &f->tensors[i];
        if (t->begin != next)
            return dgl_fail(log, DGL_ERR_FORMAT,
                            "%s: tensor %s begins at %" PRIu64
                            " of the data, but the one before it ends at "
                            "%" PRIu64 " (%s)",
                            f->name, DGL_PRINTABLE(t->info.name), t->begin, end,
                            t->begin < end ? "they overlap" : "a hole");
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
    int64_t alignment = GGUF_ALIGNMENT;
    uint8_t magic[4];
    struct gguf_cursor c;
    *out = (struct gguf_file){.name = in->name};
    if (in->size < PREAMBLE_BYTES)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: the file has %" PRIu64 " bytes, a GGUF file has at least %d", in->name,
                        in->size, PREAMBLE_BYTES);
    enum dgl_status status;
    TRY(gguf_cursor_init(log, in, &out->arena, &c));
    TRY(gguf_cursor_bytes(&c, "magic", magic, sizeof(magic)));
    if (memcmp(magic, "vers", sizeof(magic)) == 0)
        TRY(dgl_fail(log, DGL_ERR_FORMAT,
                     "%s: a Git LFS pointer, not the weights; run `git lfs pull` in its folder",
                     in->name));
    if (memcmp(magic, GGUF_MAGIC, sizeof(magic)) != 0)
        TRY(dgl_fail(log, DGL_ERR_FORMAT,
                     "%s: begins with bytes %02x %02x %02x %02x, a GGUF file begins with \"GGUF\"",
                     in->name, magic[0], magic[1], magic[2], magic[3]));
    TRY(gguf_cursor_u32(&c, "version", &out->version));
    if (out->version != 0 && (out->version & 0xffffff) == 0)
        TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED,
                     "%s: a big-endian GGUF file; supported: little-endian", in->name));
    if (out->version != 2 && out->version != GGUF_VERSION)
        TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED,
                     "%s: GGUF version %" PRIu32 "; supported: 2 and 3 (convert it again with a "
                     "current llama.cpp)",
                     in->name, out->version));
    TRY(count_read(&c, "number of tensors", GGUF_MAX_TENSORS, MIN_TENSOR_BYTES, &num_tensors));
    TRY(count_read(&c, "number of keys", GGUF_MAX_KEYS, MIN_KEY_BYTES, &num_keys));
    out->keys = dgl_new_array(struct gguf_kv, num_keys);
    if (!out->keys)
        TRY(dgl_fail_memory(log, "GGUF metadata", num_keys * sizeof(*out->keys)));
    for (; out->num_keys < num_keys; out->num_keys++)
        TRY(gguf_kv_read(&c, &out->keys[out->num_keys]));
    qsort(out->keys, out->num_keys, sizeof(*out->keys), kv_compare);
    for (size_t i = 1; i < out->num_keys; i++) {
        if (strcmp(out->keys[i - 1].key, out->keys[i].key) == 0)
            TRY(dgl_fail(log, DGL_ERR_FORMAT, "%s: key %s occurs twice", out->name,
                         DGL_PRINTABLE(out->keys[i].key)));
    }
    TRY(gguf_opt_i64((struct gguf_reader){.log = log, .file = out}, "general.alignment", 1,
                     GGUF_MAX_ALIGNMENT, &alignment));
    if ((alignment & (alignment - 1)) != 0)
        TRY(dgl_fail(log, DGL_ERR_FORMAT,
                     "%s: general.alignment is %" PRId64 ", wanted a power of two", out->name,
                     alignment));
    out->alignment = (uint64_t)alignment;
    out->tensors = dgl_new_array(struct gguf_tensor, num_tensors);
    if (!out->tensors)
        TRY(dgl_fail_memory(log, "tensor list", num_tensors * sizeof(*out->tensors)));
    for (; out->num_tensors < num_tensors; out->num_tensors++)
        TRY(tensor_read(&c, out->alignment, &out->tensors[out->num_tensors]));
    if (!dgl_align_u64(c.at, out->alignment, &out->data_start))
        TRY(dgl_fail(log, DGL_ERR_FORMAT, "%s: the header's size overflows 64 bits", in->name));
    /* A file without tensors may end with its header, without padding. */
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
