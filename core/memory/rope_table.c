/* Rotary tables: 256 fine steps and one coarse step per 256 positions, so that the table stays
 * small at any length and the angle is never rounded to f32. */
#include "core/memory/rope_table.h"
#include "core/base/mem.h"
#include "loader/desc/rope_freq.h"

#include <math.h>
#include <stdlib.h>

#define FINE_STEPS 256

static size_t table_rows(int32_t context)
{
    return (size_t)FINE_STEPS + ((size_t)context + FINE_STEPS - 1) / FINE_STEPS;
}

uint64_t rope_table_bytes(const struct rope_desc *rope, int32_t context)
{
    return table_rows(context) * (uint64_t)rope->dims * sizeof(float);
}

static void fill_table(const double *inv_freq, size_t pairs, size_t rows, float *table)
{
    for (size_t row = 0; row < rows; row++) {
        double pos = row < FINE_STEPS ? (double)row : (double)(row - FINE_STEPS) * FINE_STEPS;
        for (size_t i = 0; i < pairs; i++) {
            double angle = pos * inv_freq[i];
            table[(row * pairs + i) * 2] = (float)cos(angle);
            table[(row * pairs + i) * 2 + 1] = (float)sin(angle);
        }
    }
}

enum dgl_status rope_table_write(struct dgl_device *dev, const struct rope_desc *rope,
                                 int32_t context, int32_t tokens, struct gl_range range)
{
    size_t pairs = (size_t)rope->dims / 2, rows = table_rows(context);
    float *table = dgl_new_array(float, rows *pairs * 2);
    double *inv_freq = dgl_new_array(double, pairs);
    enum dgl_status st = DGL_OK;
    if (!table || !inv_freq) {
        st = dgl_fail_memory(dev->log, "rotary table", range.size);
    } else {
        rope_inv_freq(rope, tokens, inv_freq);
        fill_table(inv_freq, pairs, rows, table);
        st = gl_buffer_write(dev->gl, range.buffer, range.offset, table, range.size);
    }
    free(table);
    free(inv_freq);
    return st;
}
