/* Building GGUF files for tests, byte by byte and independently of the product's writer. */
#include "tests/support/gguf_build.h"

#include "tests/support/test.h"

void gb_raw_u32(struct dgl_buf *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        dgl_buf_putc(out, (char)(value >> 8 * i));
}

void gb_raw_u64(struct dgl_buf *out, uint64_t value)
{
    gb_raw_u32(out, (uint32_t)value);
    gb_raw_u32(out, (uint32_t)(value >> 32));
}

static void raw_f32(struct dgl_buf *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    gb_raw_u32(out, bits);
}

void gb_raw_str(struct dgl_buf *out, const char *text)
{
    gb_raw_u64(out, strlen(text));
    dgl_buf_puts(out, text);
}

static struct dgl_buf *key_begin(struct gguf_build *b, const char *key, enum gguf_type type)
{
    b->num_keys++;
    gb_raw_str(&b->keys, key);
    gb_raw_u32(&b->keys, (uint32_t)type);
    return &b->keys;
}

static struct dgl_buf *array_begin(struct gguf_build *b, const char *key, enum gguf_type type,
                                   size_t count)
{
    struct dgl_buf *out = key_begin(b, key, GGUF_ARRAY);
    gb_raw_u32(out, (uint32_t)type);
    gb_raw_u64(out, count);
    return out;
}

void gb_u32(struct gguf_build *b, const char *key, uint32_t value)
{
    gb_raw_u32(key_begin(b, key, GGUF_U32), value);
}

void gb_u64(struct gguf_build *b, const char *key, uint64_t value)
{
    gb_raw_u64(key_begin(b, key, GGUF_U64), value);
}

void gb_f32(struct gguf_build *b, const char *key, float value)
{
    raw_f32(key_begin(b, key, GGUF_F32), value);
}

void gb_bool(struct gguf_build *b, const char *key, bool value)
{
    dgl_buf_putc(key_begin(b, key, GGUF_BOOL), value);
}

void gb_str(struct gguf_build *b, const char *key, const char *text)
{
    gb_raw_str(key_begin(b, key, GGUF_STRING), text);
}

void gb_strs(struct gguf_build *b, const char *key, const char *const *texts, size_t count)
{
    struct dgl_buf *out = array_begin(b, key, GGUF_STRING, count);
    for (size_t i = 0; i < count; i++)
        gb_raw_str(out, texts[i]);
}

void gb_i32s(struct gguf_build *b, const char *key, const int32_t *values, size_t count)
{
    struct dgl_buf *out = array_begin(b, key, GGUF_I32, count);
    for (size_t i = 0; i < count; i++)
        gb_raw_u32(out, (uint32_t)values[i]);
}

void gb_f32s(struct gguf_build *b, const char *key, const float *values, size_t count)
{
    struct dgl_buf *out = array_begin(b, key, GGUF_F32, count);
    for (size_t i = 0; i < count; i++)
        raw_f32(out, values[i]);
}

void gb_bools(struct gguf_build *b, const char *key, const bool *values, size_t count)
{
    struct dgl_buf *out = array_begin(b, key, GGUF_BOOL, count);
    for (size_t i = 0; i < count; i++)
        dgl_buf_putc(out, values[i]);
}

static void pad(struct dgl_buf *out, uint64_t alignment)
{
    while (out->len % alignment)
        dgl_buf_putc(out, 0);
}

void gb_tensor_info(struct gguf_build *b, const char *name, uint32_t type, uint32_t rank,
                    const uint64_t *dims, uint64_t offset)
{
    b->num_tensors++;
    gb_raw_str(&b->tensors, name);
    gb_raw_u32(&b->tensors, rank);
    for (uint32_t i = 0; i < rank; i++)
        gb_raw_u64(&b->tensors, dims[i]);
    gb_raw_u32(&b->tensors, type);
    gb_raw_u64(&b->tensors, offset);
}

void gb_tensor(struct gguf_build *b, const char *name, uint32_t type, uint32_t rank,
               const uint64_t *dims, const void *bytes, size_t len)
{
    pad(&b->data, b->alignment ? b->alignment : GGUF_ALIGNMENT);
    gb_tensor_info(b, name, type, rank, dims, b->data.len);
    dgl_buf_append(&b->data, bytes, len);
}

void gb_matrix(struct gguf_build *b, const char *name, uint64_t rows, uint64_t cols, float first,
               float step)
{
    uint64_t dims[2] = {cols, rows}, count = rows ? rows * cols : cols;
    struct dgl_buf values = {0};
    for (uint64_t i = 0; i < count; i++)
        raw_f32(&values, first + step * (float)i);
    gb_tensor(b, name, GB_F32, rows ? 2 : 1, dims, values.p, values.len);
    dgl_buf_finish(&values);
}

void gb_finish(struct gguf_build *b, struct dgl_buf *out)
{
    uint64_t alignment = b->alignment ? b->alignment : GGUF_ALIGNMENT;
    *out = (struct dgl_buf){0};
    dgl_buf_puts(out, GGUF_MAGIC);
    gb_raw_u32(out, b->version ? b->version : GGUF_VERSION);
    gb_raw_u64(out, b->num_tensors);
    gb_raw_u64(out, b->num_keys);
    dgl_buf_append(out, b->keys.p, b->keys.len);
    dgl_buf_append(out, b->tensors.p, b->tensors.len);
    pad(out, alignment);
    dgl_buf_append(out, b->data.p, b->data.len);
    pad(out, alignment);
    assert_false(out->failed);
    dgl_buf_finish(&b->keys);
    dgl_buf_finish(&b->tensors);
    dgl_buf_finish(&b->data);
    *b = (struct gguf_build){0};
}
