/* Writes GGUF: bytes of keys and descriptions, then a stream of data. */
#include "loader/gguf/gguf_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/file.h"

static void raw_u32(struct dgl_buf *out, uint32_t value)
{
    char b[4] = {(char)value, (char)(value >> 8), (char)(value >> 16), (char)(value >> 24)};
    dgl_buf_append(out, b, sizeof(b));
}

static void raw_u64(struct dgl_buf *out, uint64_t value)
{
    raw_u32(out, (uint32_t)value);
    raw_u32(out, (uint32_t)(value >> 32));
}

static void raw_f32(struct dgl_buf *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    raw_u32(out, bits);
}

static void raw_str(struct dgl_buf *out, struct dgl_str text)
{
    raw_u64(out, text.len);
    dgl_buf_append(out, text.p, text.len);
}

static struct dgl_buf *key_begin(struct gguf_writer *w, const char *key, enum gguf_type type)
{
    w->num_keys++;
    raw_str(&w->keys, dgl_str_of(key));
    raw_u32(&w->keys, (uint32_t)type);
    return &w->keys;
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    raw_u32(key_begin(w, key, GGUF_U32), value);
}

void gguf_put_i32(struct gguf_writer *w, const char *key, int32_t value)
{
    raw_u32(key_begin(w, key, GGUF_I32), (uint32_t)value);
}

void gguf_put_f32(struct gguf_writer *w, const char *key, double value)
{
    raw_f32(key_begin(w, key, GGUF_F32), (float)value);
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool value)
{
    dgl_buf_putc(key_begin(w, key, GGUF_BOOL), value);
}

void gguf_put_str(struct gguf_writer *w, const char *key, struct dgl_str value)
{
    raw_str(key_begin(w, key, GGUF_STRING), value);
}

void gguf_put_array(struct gguf_writer *w, const char *key, enum gguf_type type, uint64_t count)
{
    struct dgl_buf *out = key_begin(w, key, GGUF_ARRAY);
    raw_u32(out, (uint32_t)type);
    raw_u64(out, count);
}

void gguf_add_str(struct gguf_writer *w, struct dgl_str value)
{
    raw_str(&w->keys, value);
}

void gguf_add_i32(struct gguf_writer *w, int32_t value)
{
    raw_u32(&w->keys, (uint32_t)value);
}

void gguf_add_f32(struct gguf_writer *w, float value)
{
    raw_f32(&w->keys, value);
}

void gguf_add_bool(struct gguf_writer *w, bool value)
{
    dgl_buf_putc(&w->keys, value);
}

enum dgl_status gguf_put_tensor(const struct dgl_log *log, struct gguf_writer *w,
                                const struct tensor_info *info)
{
    const struct dgl_dtype_traits *t = dgl_dtype_get(info->dtype);
    uint64_t end;
    uint32_t type;
    if (!gguf_type_of_dtype(info->dtype, &type) || info->rank < 1 ||
        info->shape[info->rank - 1] % t->block != 0)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "tensor %s: GGUF cannot hold rows of %" PRIu64 " values of %s",
                        DGL_PRINTABLE(info->name), info->rank ? info->shape[info->rank - 1] : 1,
                        t->name);
    if (strlen(info->name) >= GGUF_MAX_NAME_LEN || w->num_tensors == GGUF_MAX_TENSORS)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "tensor %s: GGUF holds at most %d tensors with names shorter than %d bytes",
                        DGL_PRINTABLE(info->name), GGUF_MAX_TENSORS, GGUF_MAX_NAME_LEN);
    raw_str(&w->tensors, dgl_str_of(info->name));
    raw_u32(&w->tensors, info->rank);
    for (uint32_t i = info->rank; i > 0; i--)
        raw_u64(&w->tensors, info->shape[i - 1]);
    raw_u32(&w->tensors, type);
    raw_u64(&w->tensors, w->data_bytes);
    w->num_tensors++;
    if (!dgl_add_u64(w->data_bytes, info->bytes, &end) ||
        !dgl_align_u64(end, GGUF_ALIGNMENT, &w->data_bytes))
        return dgl_fail(log, DGL_ERR_FORMAT, "tensor %s: the file's size overflows 64 bits",
                        DGL_PRINTABLE(info->name));
    return DGL_OK;
}

static const char zeros[GGUF_ALIGNMENT];

static enum dgl_status zeros_write(struct gguf_writer *w, uint64_t at)
{
    uint64_t over = at % GGUF_ALIGNMENT;
    return over ? dgl_atomic_write(w->file, zeros, (size_t)(GGUF_ALIGNMENT - over)) : DGL_OK;
}

enum dgl_status gguf_writer_header(const struct dgl_log *log, const struct gguf_writer *w,
                                   const char *name, struct dgl_buf *out)
{
    dgl_buf_puts(out, GGUF_MAGIC);
    raw_u32(out, GGUF_VERSION);
    raw_u64(out, w->num_tensors);
    raw_u64(out, w->num_keys);
    dgl_buf_append(out, w->keys.p, w->keys.len);
    dgl_buf_append(out, w->tensors.p, w->tensors.len);
    size_t over = out->len % GGUF_ALIGNMENT;
    dgl_buf_append(out, zeros, over ? GGUF_ALIGNMENT - over : 0);
    if (!out->failed && !w->keys.failed && !w->tensors.failed)
        return DGL_OK;
    return dgl_fail_memory(log, name, w->keys.len + w->tensors.len);
}

enum dgl_status gguf_writer_begin(const struct dgl_log *log, struct gguf_writer *w,
                                  const char *path)
{
    struct dgl_buf head = {0};
    enum dgl_status status = gguf_writer_header(log, w, path, &head);
    dgl_atomic_sweep(log, path);
    if (status == DGL_OK)
        status = dgl_atomic_create(log, path, &w->file);
    if (status == DGL_OK)
        status = dgl_atomic_write(w->file, head.p, head.len);
    dgl_buf_finish(&head);
    return status;
}

enum dgl_status gguf_writer_data(struct gguf_writer *w, const void *bytes, size_t len)
{
    w->written += len;
    return dgl_atomic_write(w->file, bytes, len);
}

enum dgl_status gguf_writer_align(struct gguf_writer *w)
{
    enum dgl_status status = zeros_write(w, w->written);
    w->written = dgl_div_up_u64(w->written, GGUF_ALIGNMENT) * GGUF_ALIGNMENT;
    return status;
}

enum dgl_status gguf_writer_commit(struct gguf_writer *w)
{
    assert(w->written == w->data_bytes); /* exactly the described data */
    return dgl_atomic_commit(&w->file);
}

void gguf_writer_finish(struct gguf_writer *w)
{
    dgl_atomic_abort(&w->file);
    dgl_buf_finish(&w->keys);
    dgl_buf_finish(&w->tensors);
    *w = (struct gguf_writer){0};
}
