/* Reads and writes little-endian integers in file data. */
#ifndef DGL_BASE_BYTES_H
#define DGL_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

/* Bits of a float. */
static inline uint32_t dgl_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline void dgl_put_le(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static inline uint64_t dgl_get_le(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

#endif
