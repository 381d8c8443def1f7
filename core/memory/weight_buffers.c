/* Device buffers for weights. */
#include "core/memory/weight_buffers.h"

#include <stdlib.h>

#include "core/base/mem.h"

enum dgl_status weight_buffers_init(struct weight_buffers *out, struct dgl_device *dev,
                                    const struct model_weights *weights)
{
    enum dgl_status status = DGL_OK;
    *out = (struct weight_buffers){.weights = weights};
    out->buffers = dgl_new_array(struct gl_buffer *, weights->num_buffers);
    if (!out->buffers)
        return dgl_fail_memory(dev->log, "weight buffers", weights->num_buffers);
    dev->held_bytes += weights->bytes;
    for (size_t i = 0; i < weights->num_buffers && status == DGL_OK; i++)
        status = gl_buffer_create(
            dev->gl,
            &(struct gl_buffer_params){.size = weights->buffer_bytes[i], .label = "weights"},
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
    dev->held_bytes -= wb->weights->bytes;
    free(wb->buffers);
    *wb = (struct weight_buffers){0};
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
