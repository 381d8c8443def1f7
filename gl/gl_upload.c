/* Writes into buffers that the host cannot touch: through mapped staging memory in slots, so that
 * the host fills one while the GPU copies from the others. Software renderers, and drivers without
 * EXT_buffer_storage, copy from plain memory of the host instead. */
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/mem.h"
#include "gl/gl_internal.h"

struct gl_staging {
    struct gl_hostbuf buf;
    void *plain; /* memory of the slots if the GPU cannot copy from mapped memory, else NULL */
    uint64_t slot_bytes;
    uint32_t slots;
    GLsync busy[]; /* [slots], signalled when the GPU has read the slot */
};

enum dgl_status gl_staging_create(struct gl_device *dev, uint32_t slots, uint64_t slot_bytes,
                                  struct gl_staging **out)
{
    uint64_t bytes = 0;
    struct gl_staging *s = dgl_calloc(1, sizeof(*s) + slots * sizeof(s->busy[0]));
    enum dgl_status status = DGL_OK;
    *out = NULL;
    if (!s || !dgl_mul_u64(slots, slot_bytes, &bytes) || bytes > SIZE_MAX)
        TRY(dgl_fail_memory(dev->log, "staging memory", slot_bytes));
    s->slots = slots;
    s->slot_bytes = slot_bytes;
    if (!gl_buffer_writes_directly(dev))
        TRY(gl_hostbuf_init(dev, &s->buf, bytes, GL_HOSTBUF_UPLOAD));
    else if (!(s->plain = dgl_calloc(1, (size_t)bytes)))
        status = dgl_fail_memory(dev->log, "staging memory", bytes);
done:
    if (status != DGL_OK)
        gl_staging_destroy(&s);
    *out = s;
    return status;
}

void gl_staging_destroy(struct gl_staging **staging)
{
    struct gl_staging *s = *staging;
    if (!s)
        return;
    for (uint32_t i = 0; i < s->slots; i++)
        glDeleteSync(s->busy[i]);
    gl_hostbuf_finish(&s->buf);
    free(s->plain);
    free(s);
    *staging = NULL;
}

void *gl_staging_slot(const struct gl_staging *s, uint32_t slot)
{
    return (char *)(s->plain ? s->plain : s->buf.ptr) + slot * s->slot_bytes;
}

/* Notes that the copies from a slot are queued. They run while the host fills the next slots. */
static enum dgl_status end_slot(struct gl_device *dev, struct gl_staging *s, uint32_t slot)
{
    enum dgl_status status = gl_fence_create(dev, &s->busy[slot]);
    if (status == DGL_OK)
        gl_start(dev);
    return status;
}

enum dgl_status gl_staging_send(struct gl_device *dev, struct gl_staging *s, uint32_t slot,
                                const struct gl_range *to)
{
    if (s->plain)
        return gl_buffer_write(dev, to->buffer, to->offset, gl_staging_slot(s, slot), to->size);
    enum dgl_status status =
        gl_buffer_range_check(dev, to->buffer, to->offset, to->size, "writing");
    if (status != DGL_OK)
        return status;
    gl_barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    gl_copy(s->buf.id, slot * s->slot_bytes, to->buffer->id, to->offset, to->size);
    dev->counters.upload_bytes += to->size;
    return end_slot(dev, s, slot);
}

enum dgl_status gl_staging_wait(struct gl_device *dev, struct gl_staging *s, uint32_t slot)
{
    return s->busy[slot] ? gl_fence_wait(dev, &s->busy[slot]) : DGL_OK;
}

enum dgl_status gl_upload_write(struct gl_device *dev, GLuint dst, uint64_t offset,
                                const void *bytes, uint64_t size)
{
    struct gl_upload *up = &dev->upload;
    enum dgl_status status = DGL_OK;

    if (!up->staging)
        TRY(gl_staging_create(dev, GL_UPLOAD_SEGMENTS, GL_UPLOAD_SEGMENT_BYTES, &up->staging));
    for (uint64_t done = 0; done < size;) {
        if (up->used == GL_UPLOAD_SEGMENT_BYTES) {
            TRY(end_slot(dev, up->staging, up->segment));
            up->segment = (up->segment + 1) % GL_UPLOAD_SEGMENTS;
            up->used = 0;
            TRY(gl_staging_wait(dev, up->staging, up->segment));
            continue;
        }
        uint64_t part = size - done;
        if (part > GL_UPLOAD_SEGMENT_BYTES - up->used)
            part = GL_UPLOAD_SEGMENT_BYTES - up->used;
        memcpy((char *)gl_staging_slot(up->staging, up->segment) + up->used,
               (const char *)bytes + done, part);
        gl_copy(up->staging->buf.id, up->segment * up->staging->slot_bytes + up->used, dst,
                offset + done, part);
        up->used += (uint32_t)part; /* sizes are multiples of 4, so is `used` */
        done += part;
    }
done:
    return status;
}

void gl_upload_finish(struct gl_device *dev)
{
    gl_staging_destroy(&dev->upload.staging);
    dev->upload = (struct gl_upload){0};
}
