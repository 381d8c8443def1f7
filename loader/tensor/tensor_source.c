/* List of tensors with a hash index over their names; the implementation reads the bytes. */
#include "loader/tensor/tensor_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/mem.h"

struct tensor_source {
    struct tensor_source_ops ops;
    void *impl;
    char *label;
    struct tensor_info *tensors;
    size_t count;
    uint32_t *slots; /* index + 1 of a tensor; 0 = free */
    size_t mask;     /* slots - 1, a power of two minus one */
    struct dgl_arena names;
};

/* The slot that holds `name`, or the free slot where it belongs. The hash is FNV-1a. */
static size_t slot_find(const struct tensor_source *src, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    size_t slot = (size_t)hash & src->mask;
    while (src->slots[slot] && strcmp(src->tensors[src->slots[slot] - 1].name, name) != 0)
        slot = (slot + 1) & src->mask;
    return slot;
}

enum dgl_status tensor_source_create(const struct dgl_log *log, const char *label,
                                     const struct tensor_source_ops *ops, void *impl,
                                     const struct tensor_info *tensors, size_t count,
                                     struct tensor_source **out)
{
    *out = NULL;
    struct tensor_source *src = dgl_new(struct tensor_source);
    if (!src) {
        ops->destroy(impl);
        return dgl_fail_memory(log, "tensor list", sizeof(*src));
    }
    src->ops = *ops;
    src->impl = impl;
    enum dgl_status status = DGL_OK;
    size_t slots = 16;
    while (slots < count * 2) /* count is at most 1e5: every reader bounds it */
        slots *= 2;
    src->mask = slots - 1;
    src->label = dgl_strdup(label);
    src->tensors = dgl_new_array(struct tensor_info, count);
    src->slots = dgl_new_array(uint32_t, slots);
    if (!src->label || !src->tensors || !src->slots)
        TRY(dgl_fail_memory(log, "tensor list", count * sizeof(*tensors)));
    for (; src->count < count; src->count++) {
        struct tensor_info *t = &src->tensors[src->count];
        *t = tensors[src->count];
        t->name = dgl_arena_strndup(&src->names, t->name, strlen(t->name));
        t->role = dgl_arena_strndup(&src->names, t->role, strlen(t->role));
        if (!t->name || !t->role)
            TRY(dgl_fail_memory(log, "tensor names", strlen(tensors[src->count].name)));
        size_t slot = slot_find(src, t->name);
        if (src->slots[slot])
            TRY(dgl_fail(log, DGL_ERR_FORMAT, "%s: tensor %s occurs twice", src->label,
                         DGL_PRINTABLE(t->name)));
        src->slots[slot] = (uint32_t)src->count + 1;
    }
done:
    if (status != DGL_OK)
        tensor_source_destroy(&src);
    *out = src;
    return status;
}

void tensor_source_destroy(struct tensor_source **src)
{
    struct tensor_source *s = *src;
    if (!s)
        return;
    s->ops.destroy(s->impl);
    dgl_arena_finish(&s->names);
    free(s->label);
    free(s->tensors);
    free(s->slots);
    free(s);
    *src = NULL;
}

const char *tensor_source_label(const struct tensor_source *src)
{
    return src->label;
}

bool tensor_source_file_name(const struct tensor_source *src, const char *name, struct dgl_buf *out)
{
    return src->ops.file_name && src->ops.file_name(src->impl, name, out);
}

struct dgl_printable tensor_source_printable(const struct tensor_source *src, const char *name)
{
    struct dgl_buf text = {0};
    bool other = tensor_source_file_name(src, name, &text) && !text.failed && text.len > 0;
    struct dgl_printable shown = dgl_printable(dgl_str_of(other ? text.p : name));
    dgl_buf_finish(&text);
    return shown;
}

size_t tensor_source_count(const struct tensor_source *src)
{
    return src->count;
}

const struct tensor_info *tensor_source_at(const struct tensor_source *src, size_t index)
{
    return &src->tensors[index];
}

long tensor_source_find(const struct tensor_source *src, const char *name)
{
    return (long)src->slots[slot_find(src, name)] - 1;
}

enum dgl_status tensor_source_read(const struct dgl_log *log, const struct tensor_source *src,
                                   size_t index, uint64_t offset, void *dst, size_t size)
{
    const struct tensor_info *t = &src->tensors[index];
    if (!dgl_range_fits(offset, size, t->bytes))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s: tensor %s has %" PRIu64 " bytes, %zu at %" PRIu64 " were asked for",
                        src->label, tensor_source_printable(src, t->name).text, t->bytes, size,
                        offset);
    return src->ops.read(src->impl, log, index, offset, dst, size);
}

const char *tensor_shape_str(uint32_t rank, const uint64_t *shape, char text[TENSOR_SHAPE_TEXT])
{
    size_t len = (size_t)snprintf(text, TENSOR_SHAPE_TEXT, "[");
    for (uint32_t i = 0; i < rank && len < TENSOR_SHAPE_TEXT; i++)
        len += (size_t)snprintf(text + len, TENSOR_SHAPE_TEXT - len, "%s%" PRIu64, i ? ", " : "",
                                shape[i]);
    if (len < TENSOR_SHAPE_TEXT)
        snprintf(text + len, TENSOR_SHAPE_TEXT - len, "]");
    return text;
}
