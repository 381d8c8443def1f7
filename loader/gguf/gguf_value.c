/* Metadata values: reads them from the header, finds them by key, converts them to the types that
 * callers need. */
#include "loader/gguf/gguf_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"

struct type_traits {
    const char *name;
    size_t size;
};

static const struct type_traits type_traits[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_U64] = {"u64", 8},     [GGUF_I64] = {"i64", 8},   [GGUF_F64] = {"f64", 8},
    [GGUF_ARRAY] = {"array", 0},
};

const char *gguf_type_name(enum gguf_type type)
{
    return (unsigned)type < GGUF_TYPE_COUNT ? type_traits[type].name : "?";
}

size_t gguf_type_size(enum gguf_type type)
{
    return type_traits[type].size;
}

static enum dgl_status type_read(struct gguf_cursor *c, const char *key, enum gguf_type *out)
{
    uint32_t type;
    enum dgl_status status = gguf_cursor_u32(c, key, &type);
    if (status == DGL_OK && type >= GGUF_TYPE_COUNT)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s has value type %" PRIu32 ", the format knows 0 to %d", c->in->name,
                        DGL_PRINTABLE(key), type, GGUF_TYPE_COUNT - 1);
    *out = (enum gguf_type)type;
    return status;
}

enum dgl_status gguf_kv_read(struct gguf_cursor *c, struct gguf_kv *out)
{
    struct dgl_str key;
    *out = (struct gguf_kv){.count = 1};
    enum dgl_status status;
    TRY(gguf_cursor_string(c, "metadata key", GGUF_MAX_KEY_LEN, &key));
    if (key.len == 0 || memchr(key.p, 0, key.len) ||
        dgl_utf8_valid_prefix(key.p, key.len) != key.len)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: the key before byte %" PRIu64 " is empty or not text", c->in->name,
                        c->at);
    out->key = key.p;
    TRY(type_read(c, key.p, &out->type));
    if (out->type == GGUF_ARRAY) {
        out->is_array = true;
        TRY(type_read(c, key.p, &out->type));
        if (out->type == GGUF_ARRAY)
            return dgl_fail(c->log, DGL_ERR_UNSUPPORTED,
                            "%s: %s is an array of arrays; supported: arrays of numbers, bools and "
                            "strings",
                            c->in->name, DGL_PRINTABLE(key.p));
        TRY(gguf_cursor_u64(c, key.p, &out->count));
    }
    /* Each string has at least its length: this bounds the allocation by the file's size. */
    size_t size = out->type == GGUF_STRING ? sizeof(uint64_t) : gguf_type_size(out->type);
    TRY(gguf_cursor_need(c, key.p, out->count, size));
    if (out->type == GGUF_STRING) {
        struct dgl_str *strings =
            dgl_arena_alloc(c->arena, (size_t)out->count * sizeof(*strings)); /* count <= 2^26 */
        if (!strings)
            return dgl_fail_memory(c->log, key.p, out->count * sizeof(*strings));
        out->strings = strings;
        for (uint64_t i = 0; i < out->count; i++)
            TRY(gguf_cursor_string(c, key.p, GGUF_MAX_STRING, &strings[i]));
    } else {
        size_t bytes = (size_t)out->count * size; /* fits: just checked against the file's size */
        uint8_t *values = dgl_arena_alloc(c->arena, bytes ? bytes : 1);
        if (!values)
            return dgl_fail_memory(c->log, key.p, bytes);
        out->bytes = values;
        TRY(gguf_cursor_bytes(c, key.p, values, bytes));
    }
    for (uint64_t i = 0; out->type == GGUF_BOOL && i < out->count; i++) {
        if (out->bytes[i] > 1)
            return dgl_fail(c->log, DGL_ERR_FORMAT, "%s: %s is %u, wanted a bool of 0 or 1",
                            c->in->name, DGL_PRINTABLE(key.p), out->bytes[i]);
    }
done:
    return status;
}

/* ---- look-up ---- */

static int key_compare(const void *key, const void *kv)
{
    return strcmp(key, ((const struct gguf_kv *)kv)->key);
}

const struct gguf_kv *gguf_find(const struct gguf_file *file, const char *key)
{
    if (file->num_keys == 0)
        return NULL;
    return bsearch(key, file->keys, file->num_keys, sizeof(*file->keys), key_compare);
}

static uint64_t bits_at(const struct gguf_kv *kv, uint64_t index)
{
    size_t size = gguf_type_size(kv->type);
    const uint8_t *b = kv->bytes + index * size;
    uint64_t bits = 0;
    for (size_t i = size; i > 0; i--)
        bits = bits << 8 | b[i - 1];
    return bits;
}

bool gguf_int_at(const struct gguf_kv *kv, uint64_t index, int64_t *out)
{
    if (index >= kv->count || !kv->bytes)
        return false;
    uint64_t bits = bits_at(kv, index);
    uint64_t sign = UINT64_C(1) << (8 * gguf_type_size(kv->type) - 1);
    switch (kv->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
    case GGUF_BOOL:
        *out = (int64_t)bits;
        return bits <= INT64_MAX;
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64:
        *out = (int64_t)((bits ^ sign) - sign);
        return true;
    default:
        return false;
    }
}

bool gguf_float_at(const struct gguf_kv *kv, uint64_t index, double *out)
{
    if (index >= kv->count || (kv->type != GGUF_F32 && kv->type != GGUF_F64))
        return false;
    if (kv->type == GGUF_F32) {
        uint32_t bits = (uint32_t)bits_at(kv, index);
        float value;
        memcpy(&value, &bits, sizeof(value));
        *out = (double)value;
    } else {
        uint64_t bits = bits_at(kv, index);
        memcpy(out, &bits, sizeof(*out));
    }
    return true;
}

double gguf_short_f64(float value)
{
    struct dgl_buf text = {0};
    double out = (double)value;
    dgl_buf_f32(&text, value);
    if (!text.failed)
        dgl_parse_f64((struct dgl_str){text.p, text.len}, &out);
    dgl_buf_finish(&text);
    return out;
}

static enum dgl_status type_fail(struct gguf_reader r, const struct gguf_kv *kv, const char *want)
{
    return dgl_fail(r.log, DGL_ERR_FORMAT, "%s: %s is %s%s, wanted %s", r.file->name,
                    DGL_PRINTABLE(kv->key), kv->is_array ? "an array of " : "",
                    gguf_type_name(kv->type), want);
}

/* Checks that a list has the same number for each layer. Other kinds of values are left to the
 * caller. */
static enum dgl_status list_check(struct gguf_reader r, const struct gguf_kv *kv)
{
    size_t size = gguf_type_size(kv->type);
    if (!kv->is_array || !kv->bytes || kv->type == GGUF_BOOL || r.layers == 0)
        return DGL_OK;
    if (kv->count != (uint64_t)r.layers)
        return dgl_fail(r.log, DGL_ERR_FORMAT,
                        "%s: %s has %" PRIu64 " elements, wanted one number or a list of %" PRId32
                        ", one per layer",
                        r.file->name, DGL_PRINTABLE(kv->key), kv->count, r.layers);
    for (uint64_t i = 1; i < kv->count; i++) {
        if (memcmp(kv->bytes, kv->bytes + i * size, size) != 0)
            return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                            "%s: %s differs between layer 0 and layer %" PRIu64
                            "; supported: the same number for all layers",
                            r.file->name, DGL_PRINTABLE(kv->key), i);
    }
    return DGL_OK;
}

/* Returns true for a number, or for a list that list_check() has accepted. */
static bool is_number(struct gguf_reader r, const struct gguf_kv *kv)
{
    return kv->type != GGUF_BOOL && (!kv->is_array || r.layers > 0);
}

enum dgl_status gguf_opt_i64(struct gguf_reader r, const char *key, int64_t min, int64_t max,
                             int64_t *inout)
{
    const struct gguf_kv *kv = gguf_find(r.file, key);
    int64_t value;
    if (!kv)
        return DGL_OK;
    enum dgl_status status = list_check(r, kv);
    if (status != DGL_OK)
        return status;
    if (!is_number(r, kv) || !gguf_int_at(kv, 0, &value))
        return type_fail(r, kv, "an integer");
    if (value < min || value > max)
        return dgl_fail(r.log, DGL_ERR_FORMAT,
                        "%s: %s is %" PRId64 ", wanted an integer from %" PRId64 " to %" PRId64,
                        r.file->name, DGL_PRINTABLE(key), value, min, max);
    *inout = value;
    return DGL_OK;
}

enum dgl_status gguf_need_i64(struct gguf_reader r, const char *key, int64_t min, int64_t max,
                              int64_t *out)
{
    if (!gguf_find(r.file, key))
        return dgl_fail(r.log, DGL_ERR_FORMAT,
                        "%s: %s is missing; if you know it, --override-kv KEY=int:VALUE adds it",
                        r.file->name, DGL_PRINTABLE(key));
    return gguf_opt_i64(r, key, min, max, out);
}

enum dgl_status gguf_opt_f64(struct gguf_reader r, const char *key, double *inout)
{
    const struct gguf_kv *kv = gguf_find(r.file, key);
    double value;
    if (!kv)
        return DGL_OK;
    enum dgl_status status = list_check(r, kv);
    if (status != DGL_OK)
        return status;
    if (!is_number(r, kv) || !gguf_float_at(kv, 0, &value))
        return type_fail(r, kv, "a float");
    if (!isfinite(value))
        return dgl_fail(r.log, DGL_ERR_FORMAT, "%s: %s is %g, wanted a finite number", r.file->name,
                        DGL_PRINTABLE(key), value);
    *inout = kv->type == GGUF_F32 ? gguf_short_f64((float)value) : value;
    return DGL_OK;
}

enum dgl_status gguf_opt_bool(struct gguf_reader r, const char *key, bool *inout)
{
    const struct gguf_kv *kv = gguf_find(r.file, key);
    if (!kv)
        return DGL_OK;
    if (kv->is_array || kv->type != GGUF_BOOL)
        return type_fail(r, kv, "a bool");
    *inout = kv->bytes[0] != 0;
    return DGL_OK;
}

enum dgl_status gguf_opt_str(struct gguf_reader r, const char *key, struct dgl_str *inout)
{
    const struct gguf_kv *kv = gguf_find(r.file, key);
    if (!kv)
        return DGL_OK;
    if (kv->is_array || kv->type != GGUF_STRING)
        return type_fail(r, kv, "a string");
    *inout = kv->strings[0];
    return DGL_OK;
}

enum dgl_status gguf_opt_array(struct gguf_reader r, const char *key, enum gguf_type type,
                               const struct gguf_kv **out)
{
    const struct gguf_kv *kv = gguf_find(r.file, key);
    *out = NULL;
    if (kv && (!kv->is_array || kv->type != type))
        return dgl_fail(r.log, DGL_ERR_FORMAT, "%s: %s is %s%s, wanted an array of %s",
                        r.file->name, DGL_PRINTABLE(key), kv->is_array ? "an array of " : "",
                        gguf_type_name(kv->type), gguf_type_name(type));
    *out = kv;
    return DGL_OK;
}
