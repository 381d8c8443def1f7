/* Results to the host: copied into memory that the host may read, never mapped where the GPU
 * works. Small ones go through a ring of slots, each with a fence; large ones through a buffer
 * in parts. */
#include <string.h>

#include "core/base/checked.h"
#include "gl/gl_internal.h"

#define BULK_BYTES (4u << 20)

/* Waits for the fence of a copy into a host buffer and takes the bytes. */
static enum dgl_status fetch(struct gl_device *dev, GLsync *done, const struct gl_hostbuf *buf,
                             uint64_t at, void *bytes, uint64_t size)
{
    enum dgl_status status = gl_fence_wait_or_stop(dev, done);
    if (status == DGL_OK)
        status = gl_reset_check(dev);
    if (status != DGL_OK)
        return status;
    if (buf->ptr) {
        memcpy(bytes, (const char *)buf->ptr + at, size);
        return DGL_OK;
    }
    const void *ptr = gl_result_map(dev, buf->id, at, size);
    if (ptr)
        memcpy(bytes, ptr, size);
    bool intact = glUnmapBuffer(GL_COPY_READ_BUFFER);
    if (ptr && intact)
        return DGL_OK;
    status = gl_errors_check(dev, "mapping a result");
    return status != DGL_OK
               ? status
               : dgl_fail(dev->log, DGL_ERR_GPU, "mapping a result: the driver lost the contents");
}

static enum dgl_status finish_readback(struct gl_device *dev, uint64_t start_ns, uint64_t size)
{
    enum dgl_status status = gl_errors_check(dev, "reading a result back");
    if (status == DGL_OK) {
        dev->counters.readbacks++;
        dev->counters.readback_bytes += size;
        gl_event_end(dev, GL_EVENT_READBACK, start_ns, "", size);
    }
    return status;
}

enum dgl_status gl_buffer_read(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                               void *bytes, uint64_t size)
{
    struct gl_hostbuf *bulk = &dev->readback.bulk;
    uint64_t start_ns = gl_event_start(dev);

    enum dgl_status status;
    TRY(gl_buffer_range_check(dev, buffer, offset, size, "reading"));
    if (!bulk->id)
        TRY(gl_hostbuf_init(dev, bulk, BULK_BYTES, GL_HOSTBUF_READBACK));
    gl_barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    for (uint64_t at = 0; at < size; at += BULK_BYTES) {
        uint64_t part = size - at < BULK_BYTES ? size - at : BULK_BYTES;
        GLsync fence = NULL;
        gl_copy(buffer->id, offset + at, bulk->id, 0, part);
        TRY(gl_fence_create(dev, &fence));
        TRY(fetch(dev, &fence, bulk, 0, (char *)bytes + at, part));
    }
    status = finish_readback(dev, start_ns, size);
done:
    return status;
}

enum dgl_status gl_readback_begin(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                                  uint32_t size, struct gl_ticket *ticket)
{
    struct gl_readback *rb = &dev->readback;
    struct gl_readback_slot *slot = &rb->slots[rb->next];

    *ticket = (struct gl_ticket){0};
    enum dgl_status status;
    TRY(gl_buffer_range_check(dev, buffer, offset, size, "readback"));
    if (size == 0 || size > GL_READBACK_SLOT_BYTES)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG, "readback of %u bytes: 1 to %d fit", size,
                        GL_READBACK_SLOT_BYTES);
    if (slot->done)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "readback: %d are in flight already, redeem one first", GL_READBACK_SLOTS);
    if (!rb->ring.id)
        TRY(gl_hostbuf_init(dev, &rb->ring, GL_READBACK_SLOTS * GL_READBACK_SLOT_BYTES,
                            GL_HOSTBUF_READBACK));
    gl_barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    gl_copy(buffer->id, offset, rb->ring.id, rb->next * (uint64_t)GL_READBACK_SLOT_BYTES, size);
    TRY(gl_fence_create(dev, &slot->done));
    slot->size = size;
    slot->serial = ++rb->serial;
    *ticket = (struct gl_ticket){.slot = rb->next, .serial = slot->serial};
    rb->next = (rb->next + 1) % GL_READBACK_SLOTS;
    gl_start(dev);
done:
    return status;
}

enum dgl_status gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes)
{
    struct gl_readback *rb = &dev->readback;
    uint64_t start_ns = gl_event_start(dev);

    enum dgl_status status = gl_lost_check(dev);
    if (status != DGL_OK)
        return status;
    if (ticket.slot >= GL_READBACK_SLOTS || !rb->slots[ticket.slot].done ||
        rb->slots[ticket.slot].serial != ticket.serial)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "readback ticket %u of slot %u was redeemed before or never issued",
                        ticket.serial, ticket.slot);
    struct gl_readback_slot *slot = &rb->slots[ticket.slot];
    status = fetch(dev, &slot->done, &rb->ring, ticket.slot * (uint64_t)GL_READBACK_SLOT_BYTES,
                   bytes, slot->size);
    return status == DGL_OK ? finish_readback(dev, start_ns, slot->size) : status;
}

bool gl_readback_is_done(struct gl_device *dev, struct gl_ticket ticket)
{
    const struct gl_readback_slot *slot = &dev->readback.slots[ticket.slot % GL_READBACK_SLOTS];

    return !slot->done || slot->serial != ticket.serial || gl_fence_is_reached(slot->done);
}

void gl_readback_drop(struct gl_device *dev, struct gl_ticket ticket)
{
    struct gl_readback_slot *slot = &dev->readback.slots[ticket.slot % GL_READBACK_SLOTS];

    /* A copy into the slot that is still queued runs before the next one. */
    if (!slot->done || slot->serial != ticket.serial)
        return;
    glDeleteSync(slot->done);
    slot->done = NULL;
}

void gl_readback_finish(struct gl_device *dev)
{
    for (int i = 0; i < GL_READBACK_SLOTS; i++)
        glDeleteSync(dev->readback.slots[i].done);
    gl_hostbuf_finish(&dev->readback.ring);
    gl_hostbuf_finish(&dev->readback.bulk);
    dev->readback = (struct gl_readback){0};
}
