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

uint64_t rope_table_bytes(const struct rope_desc *rope, int32_t context)
{
    return table_rows(context) * (uint64_t)rope->dims * sizeof(float);
}

bool rope_table_fill(const struct rope_desc *rope, int32_t context, int32_t tokens, float *table)
{
    size_t pairs = (size_t)rope->dims / 2, rows = table_rows(context);
    double *inv_freq = dgl_new_array(double, pairs);
    if (!inv_freq)
        return false;
    rope_inv_freq(rope, tokens, inv_freq);
    for (size_t row = 0; row < rows; row++) {
        double pos = row < FINE_STEPS ? (double)row : (double)(row - FINE_STEPS) * FINE_STEPS;
        for (size_t i = 0; i < pairs; i++) {
            double angle = pos * inv_freq[i];
            table[(row * pairs + i) * 2] = (float)cos(angle);
            table[(row * pairs + i) * 2 + 1] = (float)sin(angle);
        }
    }
    free(inv_freq);
    return true;
}
