/* Buffers that host and GPU share: mapped for good where EXT_buffer_storage exists, plain ones
 * elsewhere. The GPU never works on them, it only copies from and to them: NVIDIA moves what is
 * mapped to host memory. */
#include "gl/gl_internal.h"

enum dgl_status gl_hostbuf_init(struct gl_device *dev, struct gl_hostbuf *buf, uint64_t size,
                                enum gl_hostbuf_use use)
{
    *buf = (struct gl_hostbuf){.size = size};
    glGenBuffers(1, &buf->id);
    glBindBuffer(GL_COPY_WRITE_BUFFER, buf->id);
    if (dev->ext.buffer_storage) {
        GLbitfield map = (use == GL_HOSTBUF_UPLOAD ? GL_MAP_WRITE_BIT : GL_MAP_READ_BIT) |
                         GL_MAP_PERSISTENT_BIT_EXT | GL_MAP_COHERENT_BIT_EXT;
        dev->ext.BufferStorage(GL_COPY_WRITE_BUFFER, (GLsizeiptr)size, NULL,
                               map | GL_CLIENT_STORAGE_BIT_EXT);
        buf->ptr = glMapBufferRange(GL_COPY_WRITE_BUFFER, 0, (GLsizeiptr)size, map);
    } else {
        glBufferData(GL_COPY_WRITE_BUFFER, (GLsizeiptr)size, NULL,
                     use == GL_HOSTBUF_UPLOAD ? GL_STREAM_DRAW : GL_STREAM_READ);
    }
    gl_debug_label(dev, GL_BUFFER_KHR, buf->id, "host buffer");
    enum dgl_status status = gl_errors_check(dev, "making a buffer shared with the host");
    if (status == DGL_OK && dev->ext.buffer_storage && !buf->ptr)
        status = dgl_fail(dev->log, DGL_ERR_NO_MEMORY,
                          "mapping %llu bytes for the host: the driver refused",
                          (unsigned long long)size);
    if (status != DGL_OK)
        gl_hostbuf_finish(buf);
    return status;
}

void gl_hostbuf_finish(struct gl_hostbuf *buf)
{
    if (buf->id)
        glDeleteBuffers(1, &buf->id); /* also unmaps */
    *buf = (struct gl_hostbuf){0};
}
