/* Rotary tables: 256 fine steps and one coarse step per 256 positions, so that the table stays
 * small at any length and the angle is never rounded to f32. */
#include "core/rope_table.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>

#define FINE_STEPS 256

static double inv_freq(const struct rope_desc *rope, int32_t pair)
{
    return pow(rope->theta, -2.0 * pair / rope->dims);
}

enum dgl_status rope_table_create(struct dgl_device *dev, const struct rope_desc *rope,
                                  int32_t context, struct gl_buffer **out)
{
    int32_t pairs = rope->dims / 2, coarse = (context + FINE_STEPS - 1) / FINE_STEPS;
    size_t rows = (size_t)FINE_STEPS + (size_t)coarse;
    uint64_t bytes = rows * (uint64_t)pairs * 2 * sizeof(float);
    float *table = dgl_new_array(float, rows *(size_t)pairs * 2);
    *out = NULL;
    if (!table)
        return dgl_fail_memory(dev->log, "rotary table", bytes);
    for (size_t row = 0; row < rows; row++) {
        double pos = row < FINE_STEPS ? (double)row : (double)(row - FINE_STEPS) * FINE_STEPS;
        for (int32_t i = 0; i < pairs; i++) {
            double angle = pos * inv_freq(rope, i);
            float *entry = &table[(row * (size_t)pairs + (size_t)i) * 2];
            entry[0] = (float)cos(angle);
            entry[1] = (float)sin(angle);
        }
    }
    enum dgl_status st =
        gl_buffer_create(dev->gl, &(struct gl_buffer_params){.size = bytes, .label = "rope"}, out);
    if (st == DGL_OK)
        st = gl_buffer_write(dev->gl, *out, 0, table, bytes);
    if (st != DGL_OK)
        gl_buffer_destroy(dev->gl, out);
    free(table);
    return st;
}
