/* Writes into buffers that the host cannot touch: through mapped staging memory in segments, so
 * that the host fills one while the GPU copies from the others. Needs EXT_buffer_storage. */
#include <string.h>

#include "gl/gl_internal.h"

enum dgl_status gl_upload_write(struct gl_device *dev, GLuint dst, uint64_t offset,
                                const void *bytes, uint64_t size)
{
    struct gl_upload *up = &dev->upload;
    enum dgl_status status = DGL_OK;

    if (!up->buf.id)
        status =
            gl_hostbuf_init(dev, &up->buf, (uint64_t)GL_UPLOAD_SEGMENTS * GL_UPLOAD_SEGMENT_BYTES,
                            GL_HOSTBUF_UPLOAD);
    for (uint64_t done = 0; status == DGL_OK && done < size;) {
        if (up->used == GL_UPLOAD_SEGMENT_BYTES) {
            status = gl_fence_create(dev, &up->busy[up->segment]);
            if (status != DGL_OK)
                break;
            gl_start(dev); /* the copies run while the next segment is filled */
            up->segment = (up->segment + 1) % GL_UPLOAD_SEGMENTS;
            up->used = 0;
            if (up->busy[up->segment])
                status = gl_fence_wait(dev, &up->busy[up->segment]);
            continue;
        }
        uint64_t part = size - done;
        if (part > GL_UPLOAD_SEGMENT_BYTES - up->used)
            part = GL_UPLOAD_SEGMENT_BYTES - up->used;
        uint64_t at = (uint64_t)up->segment * GL_UPLOAD_SEGMENT_BYTES + up->used;
        memcpy((char *)up->buf.ptr + at, (const char *)bytes + done, part);
        gl_copy(up->buf.id, at, dst, offset + done, part);
        up->used += (uint32_t)part; /* sizes are multiples of 4, so is `used` */
        done += part;
    }
    return status;
}

void gl_upload_finish(struct gl_device *dev)
{
    for (int i = 0; i < GL_UPLOAD_SEGMENTS; i++)
        glDeleteSync(dev->upload.busy[i]);
    gl_hostbuf_finish(&dev->upload.buf);
    dev->upload = (struct gl_upload){0};
}
