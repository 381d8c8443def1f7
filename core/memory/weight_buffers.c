/* Device buffers for weights. */
#include "core/memory/weight_buffers.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"

/* Weights of up to this many bytes in total are read equally fast from GL and from Vulkan memory on
 * NVIDIA. */
#define VULKAN_LEAST_BYTES (1ull << 30)

/* Allocates the missing buffers. Their contents are undefined. */
static enum dgl_status make_buffers(struct weight_buffers *wb, struct dgl_device *dev)
{
    struct gl_vulkan_memory *vulkan = NULL;
    char reason[GL_VULKAN_REASON_BYTES];
    enum dgl_status status = DGL_OK;
    if (strstr(gl_device_caps(dev->gl)->vendor, "NVIDIA") &&
        wb->weights->bytes > VULKAN_LEAST_BYTES) {
        status = gl_vulkan_memory_create(dev->gl, &vulkan, reason);
        if (status == DGL_OK && vulkan)
            dgl_debug(dev->log, "weights: storage by Vulkan, whose pages are large");
        else if (status == DGL_OK)
            dgl_notice(dev->log,
                       "weights of %llu MiB lie in small pages, which are read more slowly (large "
                       "ones come from the Vulkan driver): %s",
                       (unsigned long long)(wb->weights->bytes >> 20), reason);
    }
    for (size_t i = 0; i < wb->weights->num_buffers && status == DGL_OK; i++)
        if (!wb->buffers[i])
            status = gl_buffer_create(
                dev->gl,
                &(struct gl_buffer_params){
                    .size = wb->weights->buffer_bytes[i], .label = "weights", .vulkan = vulkan},
                &wb->buffers[i]);
    gl_vulkan_memory_destroy(&vulkan);
    return status;
}

enum dgl_status weight_buffers_init(struct weight_buffers *out, struct dgl_device *dev,
                                    const struct model_weights *weights)
{
    *out = (struct weight_buffers){.weights = weights};
    out->buffers = dgl_new_array(struct gl_buffer *, weights->num_buffers);
    if (!out->buffers)
        return dgl_fail_memory(dev->log, "weight buffers", weights->num_buffers);
    dev->held_bytes += weights->bytes;
    enum dgl_status status = make_buffers(out, dev);
    if (status != DGL_OK)
        weight_buffers_finish(out, dev);
    return status;
}

enum dgl_status weight_buffers_init_empty(struct weight_buffers *out, struct dgl_device *dev,
                                          const struct model_weights *weights)
{
    enum dgl_status status = DGL_OK;
    *out = (struct weight_buffers){.weights = weights};
    out->buffers = dgl_new_array(struct gl_buffer *, weights->num_buffers);
    if (!out->buffers)
        return dgl_fail_memory(dev->log, "weight buffers", weights->num_buffers);
    out->empty = true;
    for (size_t i = 0; i < weights->num_buffers && status == DGL_OK; i++)
        status =
            gl_buffer_create(dev->gl, &(struct gl_buffer_params){.size = 4, .label = "no weights"},
                             &out->buffers[i]);
    if (status != DGL_OK)
        weight_buffers_finish(out, dev);
    return status;
}

void weight_buffers_finish(struct weight_buffers *wb, struct dgl_device *dev)
{
    if (!wb->buffers)
        return;
    for (size_t i = 0; i < wb->weights->num_buffers; i++)
        gl_buffer_destroy(dev->gl, &wb->buffers[i]);
    if (!wb->empty)
        dev->held_bytes -= wb->weights->bytes;
    free(wb->buffers);
    *wb = (struct weight_buffers){0};
}

/* Moves the shared buffers from `from` to `to`, frees the rest of `from`, then allocates and fills
 * the missing buffers of `to`. `only` is scratch, [to->weights->num_buffers]. */
static enum dgl_status move_buffers(struct weight_buffers *from, struct weight_buffers *to,
                                    struct dgl_device *dev,
                                    const struct weight_upload_params *params, bool *only)
{
    for (size_t i = 0; i < to->weights->num_buffers; i++) {
        size_t same = weights_same_buffer(from->weights, to->weights, i);
        only[i] = same == SIZE_MAX || !from->buffers[same];
        to->buffers[i] = only[i] ? NULL : from->buffers[same];
        if (!only[i])
            from->buffers[same] = NULL;
    }
    for (size_t i = 0; i < from->weights->num_buffers; i++)
        gl_buffer_destroy(dev->gl, &from->buffers[i]);
    struct weight_upload_params these = *params;
    these.only = only;
    /* the driver may keep freed memory until the device is idle */
    enum dgl_status status = gl_finish(dev->gl);
    if (status == DGL_OK)
        status = make_buffers(to, dev);
    return status == DGL_OK ? weight_buffers_upload(to, dev, &these) : status;
}

enum dgl_status weight_buffers_replace(struct weight_buffers *wb, struct dgl_device *dev,
                                       const struct model_weights *weights,
                                       const struct weight_upload_params *params)
{
    const struct model_weights *old = wb->weights;
    size_t most = weights->num_buffers > old->num_buffers ? weights->num_buffers : old->num_buffers;
    struct weight_buffers to = {.weights = weights};
    to.buffers = dgl_new_array(struct gl_buffer *, weights->num_buffers);
    bool *only = dgl_new_array(bool, most);
    if (!to.buffers || !only) {
        free(to.buffers);
        free(only);
        return dgl_fail_memory(dev->log, "weight buffers", most * sizeof(*to.buffers));
    }
    enum dgl_status status = move_buffers(wb, &to, dev, params, only);
    if (status == DGL_OK) {
        dev->held_bytes += weights->bytes - old->bytes;
        free(wb->buffers);
        *wb = to;
    } else {
        enum dgl_status back = move_buffers(&to, wb, dev, params, only);
        free(to.buffers);
        if (back != DGL_OK)
            weight_buffers_finish(wb, dev);
    }
    free(only);
    return status;
}

struct gl_range weight_buffers_band(const struct weight_buffers *wb, uint32_t matrix, uint32_t band)
{
    const struct weight_place *place = &wb->weights->matrices[matrix]->bands[band].place;
    return (struct gl_range){wb->buffers[place->buffer], place->offset, place->size};
}

struct gl_range weight_buffers_vector(const struct weight_buffers *wb, uint32_t vector)
{
    const struct weight_place *place = &wb->weights->vectors[vector].place;
    return (struct gl_range){wb->buffers[place->buffer], place->offset, place->size};
}
