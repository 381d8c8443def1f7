/* Overflow-checked arithmetic for numbers from files. Use it for every product and sum of such
 * numbers. On overflow the functions return false and do not change *out. */
#ifndef DGL_BASE_CHECKED_H
#define DGL_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool dgl_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool dgl_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Returns true if [offset, offset + size) is within [0, total). */
static inline bool dgl_range_fits(uint64_t offset, uint64_t size, uint64_t total)
{
    return offset <= total && size <= total - offset;
}

/* Rounds up to a multiple of `align`, which must be a power of two. */
static inline bool dgl_align_u64(uint64_t value, uint64_t align, uint64_t *out)
{
    uint64_t sum;
    if (!dgl_add_u64(value, align - 1, &sum))
        return false;
    *out = sum & ~(align - 1);
    return true;
}

static inline uint64_t dgl_div_up_u64(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

#endif
