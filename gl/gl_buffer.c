/* Buffers in device memory: immutable and never mapped, since NVIDIA moves mapped buffers to the
 * host. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/mem.h"
#include "gl/gl_internal.h"

/* One call moves at most this much: some drivers stage a whole call in memory of their own. */
#define MAX_WRITE_BYTES (64ull << 20)

enum dgl_status gl_buffer_range_check(const struct gl_device *dev, const struct gl_buffer *buffer,
                                      uint64_t offset, uint64_t size, const char *what)
{
    if (dev->lost)
        return gl_lost_check(dev);
    if (offset % 4 != 0 || size % 4 != 0)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "%s of buffer %s: offset %llu and size %llu must be multiples of 4", what,
                        buffer->label, (unsigned long long)offset, (unsigned long long)size);
    if (!dgl_range_fits(offset, size, buffer->size))
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "%s of buffer %s: %llu bytes at %llu, but it has %llu", what, buffer->label,
                        (unsigned long long)size, (unsigned long long)offset,
                        (unsigned long long)buffer->size);
    return DGL_OK;
}

void gl_copy(GLuint src, uint64_t src_offset, GLuint dst, uint64_t dst_offset, uint64_t size)
{
    glBindBuffer(GL_COPY_READ_BUFFER, src);
    glBindBuffer(GL_COPY_WRITE_BUFFER, dst);
    glCopyBufferSubData(GL_COPY_READ_BUFFER, GL_COPY_WRITE_BUFFER, (GLintptr)src_offset,
                        (GLintptr)dst_offset, (GLsizeiptr)size);
}

bool gl_buffer_writes_directly(const struct gl_device *dev)
{
    return dev->caps.software || !dev->ext.buffer_storage;
}

static void allocate(const struct gl_device *dev, uint64_t size, const void *bytes)
{
    GLbitfield flags = gl_buffer_writes_directly(dev) ? GL_DYNAMIC_STORAGE_BIT_EXT : 0;

    if (dev->ext.buffer_storage)
        dev->ext.BufferStorage(GL_COPY_WRITE_BUFFER, (GLsizeiptr)size, bytes, flags);
    else
        glBufferData(GL_COPY_WRITE_BUFFER, (GLsizeiptr)size, bytes, GL_DYNAMIC_COPY);
}

enum dgl_status gl_buffer_create(struct gl_device *dev, const struct gl_buffer_params *params,
                                 struct gl_buffer **out)
{
    uint64_t max = dev->caps.limits.max_buffer_bytes;
    char what[160];

    *out = NULL;
    enum dgl_status status = gl_lost_check(dev);
    if (status != DGL_OK)
        return status;
    if (params->size == 0 || params->size > max)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "buffer %s of %llu bytes: 1 to %llu are possible",
                        params->label ? params->label : "", (unsigned long long)params->size,
                        (unsigned long long)max);
    struct gl_buffer *buffer = dgl_new(struct gl_buffer);
    if (buffer)
        buffer->label = dgl_strdup(params->label ? params->label : "unnamed");
    if (!buffer || !buffer->label) {
        free(buffer);
        return dgl_fail_memory(dev->log, "a buffer's record", sizeof(*buffer));
    }
    buffer->size = (params->size + 3) & ~3ull;
    buffer->context = dev->context;
    bool attached = false;
    if (params->vulkan)
        attached =
            gl_vulkan_memory_attach(params->vulkan, buffer->size, &buffer->id, &buffer->memory);
    if (!attached) {
        glGenBuffers(1, &buffer->id);
        glBindBuffer(GL_COPY_WRITE_BUFFER, buffer->id);
        allocate(dev, buffer->size, NULL);
    }
    gl_debug_label(dev, GL_BUFFER_KHR, buffer->id, buffer->label);
    snprintf(what, sizeof(what), "making buffer %s of %llu bytes", buffer->label,
             (unsigned long long)buffer->size);
    status = gl_errors_check(dev, what);
    if (status == DGL_OK && params->zero)
        status = gl_buffer_zero(dev, buffer, 0, buffer->size);
    dev->counters.buffers_created++;
    dev->memory.bytes += buffer->size;
    if (dev->memory.bytes > dev->memory.peak_bytes)
        dev->memory.peak_bytes = dev->memory.bytes;
    if (status != DGL_OK)
        gl_buffer_destroy(dev, &buffer);
    *out = buffer;
    return status;
}

void gl_buffer_destroy(struct gl_device *dev, struct gl_buffer **pbuffer)
{
    struct gl_buffer *buffer = *pbuffer;
    struct gl_bound *bound = &dev->bound;

    if (!buffer)
        return;
    if (gl_owns_names(dev, buffer->context)) { /* otherwise it is another context's, or free */
        glDeleteBuffers(1, &buffer->id);
        if (buffer->memory)
            dev->ext.DeleteMemoryObjects(1, &buffer->memory);
    }
    /* GL unbinds a deleted buffer everywhere and may give its name to the next one. */
    for (int i = 0; i < GL_MAX_STORAGE; i++)
        if (bound->storage[i].id == buffer->id)
            bound->storage[i] = (struct gl_binding){0};
    for (int i = 0; i < GL_MAX_UNIFORM; i++)
        if (bound->uniform[i].id == buffer->id)
            bound->uniform[i] = (struct gl_binding){0};
    if (bound->indirect == buffer->id)
        bound->indirect = 0;
    dev->memory.bytes -= buffer->size;
    free(buffer->label);
    free(buffer);
    *pbuffer = NULL;
}

bool gl_buffer_is_stale(const struct gl_device *dev, const struct gl_buffer *buffer)
{
    return buffer->context != dev->context;
}

struct gl_memory gl_device_memory(const struct gl_device *dev)
{
    return dev->memory;
}

void gl_device_memory_forget(struct gl_device *dev, struct gl_memory before)
{
    const uint64_t now = dev->memory.bytes;
    dev->memory.peak_bytes = before.peak_bytes > now ? before.peak_bytes : now;
}

uint64_t gl_buffer_size(const struct gl_buffer *buffer)
{
    return buffer->size;
}

enum dgl_status gl_buffer_write(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                                const void *bytes, uint64_t size)
{
    enum dgl_status status = gl_buffer_range_check(dev, buffer, offset, size, "writing");
    if (status != DGL_OK)
        return status;
    gl_barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    if (!gl_buffer_writes_directly(dev))
        status = gl_upload_write(dev, buffer->id, offset, bytes, size);
    else
        glBindBuffer(GL_COPY_WRITE_BUFFER, buffer->id);
    for (uint64_t done = 0; gl_buffer_writes_directly(dev) && done < size;) {
        uint64_t part = size - done < MAX_WRITE_BYTES ? size - done : MAX_WRITE_BYTES;
        glBufferSubData(GL_COPY_WRITE_BUFFER, (GLintptr)(offset + done), (GLsizeiptr)part,
                        (const char *)bytes + done);
        done += part;
    }
    dev->counters.upload_bytes += size;
    return status == DGL_OK ? gl_errors_check_debug(dev, "writing a buffer") : status;
}

enum dgl_status gl_zeros_init(struct gl_device *dev)
{
    if (dev->zeros)
        return DGL_OK;
    void *bytes = dgl_calloc(1, GL_ZEROS_BYTES);
    if (!bytes)
        return dgl_fail_memory(dev->log, "a block of zeros", GL_ZEROS_BYTES);
    glGenBuffers(1, &dev->zeros);
    glBindBuffer(GL_COPY_WRITE_BUFFER, dev->zeros);
    allocate(dev, GL_ZEROS_BYTES, bytes);
    free(bytes);
    return gl_errors_check(dev, "making a block of zeros");
}

/* ES has no glClearBufferData: copies from a block of zeros stay on the device. */
enum dgl_status gl_buffer_zero(struct gl_device *dev, struct gl_buffer *buffer, uint64_t offset,
                               uint64_t size)
{
    enum dgl_status status = gl_buffer_range_check(dev, buffer, offset, size, "zeroing");
    if (status == DGL_OK)
        status = gl_zeros_init(dev);
    if (status != DGL_OK)
        return status;
    gl_barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    for (uint64_t done = 0; done < size; done += GL_ZEROS_BYTES)
        gl_copy(dev->zeros, 0, buffer->id, offset + done,
                size - done < GL_ZEROS_BYTES ? size - done : GL_ZEROS_BYTES);
    return gl_errors_check_debug(dev, "zeroing a buffer");
}

enum dgl_status gl_buffer_copy(struct gl_device *dev, struct gl_buffer *src, uint64_t src_offset,
                               struct gl_buffer *dst, uint64_t dst_offset, uint64_t size)
{
    enum dgl_status status = gl_buffer_range_check(dev, src, src_offset, size, "copying out");
    if (status == DGL_OK)
        status = gl_buffer_range_check(dev, dst, dst_offset, size, "copying in");
    if (status != DGL_OK)
        return status;
    if (src == dst && src_offset < dst_offset + size && dst_offset < src_offset + size && size > 0)
        return dgl_fail(dev->log, DGL_ERR_INVALID_ARG,
                        "copying %llu bytes of buffer %s from %llu to %llu: the ranges overlap",
                        (unsigned long long)size, src->label, (unsigned long long)src_offset,
                        (unsigned long long)dst_offset);
    gl_barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    gl_copy(src->id, src_offset, dst->id, dst_offset, size);
    return gl_errors_check_debug(dev, "copying between buffers");
}
