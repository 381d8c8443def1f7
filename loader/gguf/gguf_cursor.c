/* Buffered reading of a GGUF header: bounds are checked before bytes are read. */
#include "loader/gguf/gguf_cursor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"

#define WINDOW_BYTES ((size_t)1 << 18)

enum dgl_status gguf_cursor_init(const struct dgl_log *log, const struct gguf_input *in,
                                 struct dgl_arena *arena, struct gguf_cursor *out)
{
    *out = (struct gguf_cursor){.log = log, .in = in, .arena = arena};
    out->window = dgl_calloc(1, WINDOW_BYTES);
    return out->window ? DGL_OK : dgl_fail_memory(log, "GGUF header", WINDOW_BYTES);
}

void gguf_cursor_finish(struct gguf_cursor *c)
{
    free(c->window);
    c->window = NULL;
}

enum dgl_status gguf_cursor_need(struct gguf_cursor *c, const char *what, uint64_t count,
                                 uint64_t size)
{
    uint64_t bytes;
    if (!dgl_mul_u64(count, size, &bytes) || !dgl_range_fits(c->at, bytes, c->in->size))
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s at byte %" PRIu64 " is %" PRIu64 " x %" PRIu64
                        " bytes, but the file has %" PRIu64 " (damaged or truncated; fetch it "
                        "again)",
                        c->in->name, DGL_PRINTABLE(what), c->at, count, size, c->in->size);
    if (!dgl_range_fits(c->at, bytes, GGUF_MAX_HEADER))
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s at byte %" PRIu64 " reaches beyond %" PRIu64
                        " bytes, the most that a header may have",
                        c->in->name, DGL_PRINTABLE(what), c->at, GGUF_MAX_HEADER);
    return DGL_OK;
}

static enum dgl_status window_fill(struct gguf_cursor *c)
{
    uint64_t end = !c->in->blob && c->in->stored ? c->in->stored : c->in->size;
    if (c->at >= end)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: the header goes on at byte %" PRIu64 ", where it has ended",
                        c->in->name, c->at);
    uint64_t left = end - c->at;
    c->window_at = c->at;
    c->window_len = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
    if (!c->in->blob) {
        memcpy(c->window, c->in->bytes + c->at, c->window_len);
        return DGL_OK;
    }
    return blob_read(c->log, c->in->blob, c->at, c->window, c->window_len);
}

enum dgl_status gguf_cursor_bytes(struct gguf_cursor *c, const char *what, void *dst, size_t size)
{
    enum dgl_status status;
    uint8_t *to = dst;
    TRY(gguf_cursor_need(c, what, size, 1));
    while (size > 0) {
        size_t skip = (size_t)(c->at - c->window_at);
        if (skip >= c->window_len) {
            TRY(window_fill(c));
            continue;
        }
        size_t n = c->window_len - skip < size ? c->window_len - skip : size;
        memcpy(to, c->window + skip, n);
        to += n;
        size -= n;
        c->at += n;
    }
done:
    return status;
}

enum dgl_status gguf_cursor_u32(struct gguf_cursor *c, const char *what, uint32_t *out)
{
    uint8_t b[4] = {0};
    enum dgl_status status = gguf_cursor_bytes(c, what, b, sizeof(b));
    *out = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return status;
}

enum dgl_status gguf_cursor_u64(struct gguf_cursor *c, const char *what, uint64_t *out)
{
    uint8_t b[8] = {0};
    enum dgl_status status = gguf_cursor_bytes(c, what, b, sizeof(b));
    *out = 0;
    for (int i = 7; i >= 0; i--)
        *out = *out << 8 | b[i];
    return status;
}

enum dgl_status gguf_cursor_string(struct gguf_cursor *c, const char *what, uint64_t max,
                                   struct dgl_str *out)
{
    uint64_t len, start = c->at;
    *out = (struct dgl_str){0};
    enum dgl_status status;
    TRY(gguf_cursor_u64(c, what, &len));
    if (len > max)
        return dgl_fail(c->log, DGL_ERR_FORMAT,
                        "%s: %s at byte %" PRIu64 " has %" PRIu64 " bytes, at most %" PRIu64
                        " are accepted",
                        c->in->name, DGL_PRINTABLE(what), start, len, max);
    TRY(gguf_cursor_need(c, what, len, 1));
    char *text = dgl_arena_alloc(c->arena, (size_t)len + 1);
    if (!text)
        return dgl_fail_memory(c->log, what, len);
    *out = (struct dgl_str){text, (size_t)len};
    status = gguf_cursor_bytes(c, what, text, (size_t)len);
done:
    return status;
}
