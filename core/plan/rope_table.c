/* Rotary tables: 256 fine steps and one coarse step per 256 positions, so that the table stays
 * small at any length and the angle is never rounded to f32. */
#include "core/plan/rope_table.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/desc/rope_freq.h"

#define FINE_STEPS 256

static size_t table_rows(int32_t context)
{
    return (size_t)FINE_STEPS + ((size_t)context + FINE_STEPS - 1) / FINE_STEPS;
}

int32_t rope_table_dims(const struct rope_desc *rope)
{
    return (rope->dims + 3) / 4 * 4;
}

uint64_t rope_table_bytes(const struct rope_desc *rope, int32_t context)
{
    return table_rows(context) * (uint64_t)rope_table_dims(rope) * sizeof(float);
}

bool rope_table_fill(const struct rope_desc *rope, int32_t context, int32_t tokens, float *table)
{
    size_t pairs = (size_t)rope->dims / 2, stride = (size_t)rope_table_dims(rope);
    size_t rows = table_rows(context);
    double *inv_freq = dgl_new_array(double, pairs);
    if (!inv_freq)
        return false;
    rope_inv_freq(rope, tokens, inv_freq);
    for (size_t row = 0; row < rows; row++, table += stride) {
        bool fine = row < FINE_STEPS;
        double pos = fine ? (double)row : (double)(row - FINE_STEPS) * FINE_STEPS;
        for (size_t i = 0; i < pairs; i++) {
            double angle = pos * inv_freq[i];
            table[2 * i] = (float)cos(angle);
            table[2 * i + 1] = (float)sin(angle);
        }
        if (pairs * 2 < stride) {
            table[2 * pairs] = fine ? (float)(1.0 / rope->scale) : 1.0f;
            table[2 * pairs + 1] = 0.0f;
        }
    }
    free(inv_freq);
    return true;
}
