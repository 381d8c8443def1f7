/* Row layouts: `native` keeps the bytes of the file, `split` takes the scales out of blocks whose
 * size is not whole words. */
#include "core/memory/repack.h"
#include "core/base/checked.h"

#include <string.h>

/* Rows of a split layout are whole blocks of 256 columns and whole groups of 16 bytes, so that
 * kernels read four words at a time. */
enum { SPLIT_COLS = 256, SPLIT_BYTES = 16 };

/* Where a block has its codes and its scale. */
struct split {
    uint32_t values, bytes, codes_at, code_bytes, scale_at, scale_bytes;
};

static const struct split *split_of(enum dgl_dtype type)
{
    static const struct split splits[DGL_DTYPE_COUNT] = {
        [DGL_Q8_0] = {32, 34, 2, 32, 0, 2},
        [DGL_Q4_0] = {32, 18, 2, 16, 0, 2},
        [DGL_MXFP4] = {32, 17, 1, 16, 0, 1},
        [DGL_Q6_K] = {256, 210, 0, 208, 208, 2},
    };
    return splits[type].values ? &splits[type] : NULL;
}

enum layout { LAYOUT_NONE, LAYOUT_NATIVE, LAYOUT_SPLIT };

static enum layout layout_of(enum dgl_dtype type, const char *name)
{
    bool native = type == DGL_F32 || type == DGL_F16 || type == DGL_BF16 || type == DGL_Q4_K ||
                  type == DGL_Q5_K || type == DGL_AFFINE;
    if (native && strcmp(name, "native") == 0)
        return LAYOUT_NATIVE;
    return split_of(type) && strcmp(name, "split") == 0 ? LAYOUT_SPLIT : LAYOUT_NONE;
}

/* Bytes of a split row of `cols` values. */
static bool split_bytes(const struct split *split, uint64_t cols, uint64_t *bytes)
{
    uint64_t padded;
    return dgl_align_u64(cols, SPLIT_COLS, &padded) &&
           dgl_mul_u64(padded / split->values, split->bytes, bytes) &&
           dgl_align_u64(*bytes, SPLIT_BYTES, bytes);
}

bool repack_stride(enum dgl_dtype type, const char *layout, uint64_t cols, uint64_t *words)
{
    uint64_t bytes = 0;
    switch (layout_of(type, layout)) {
    case LAYOUT_NATIVE:
        if (!dgl_dtype_row_bytes(type, cols, &bytes))
            return false;
        *words = dgl_div_up_u64(bytes, 4);
        return true;
    case LAYOUT_SPLIT:
        if (!split_bytes(split_of(type), cols, &bytes))
            return false;
        *words = bytes / 4;
        return true;
    case LAYOUT_NONE:
        break;
    }
    return false;
}

/* The device reads words little-endian, as the files are; so are the hosts this library builds for.
 */
static void pack_native(const void *src, uint64_t bytes, uint32_t *dst)
{
    if (bytes % 4 != 0)
        dst[bytes / 4] = 0;
    memcpy(dst, src, (size_t)bytes);
}

/* All codes, then all scales. Codes of a byte each end with the row, whatever pads its last block
 * in the file. */
static void pack_split(const struct split *split, const uint8_t *src, uint64_t cols, uint64_t bytes,
                       uint32_t *dst)
{
    uint64_t blocks = (cols + SPLIT_COLS - 1) / SPLIT_COLS * (SPLIT_COLS / split->values);
    uint8_t *codes = (uint8_t *)dst, *scales = codes + blocks * split->code_bytes;
    memset(dst, 0, (size_t)bytes);
    for (uint64_t first = 0; first < cols; first += split->values, src += split->bytes) {
        uint64_t left = cols - first, size = split->code_bytes;
        if (size == split->values && left < size)
            size = left;
        memcpy(codes, src + split->codes_at, (size_t)size);
        memcpy(scales, src + split->scale_at, split->scale_bytes);
        codes += split->code_bytes;
        scales += split->scale_bytes;
    }
}

bool repack_row(enum dgl_dtype type, const char *layout, const void *src, uint64_t cols,
                uint32_t *dst)
{
    uint64_t bytes = 0;
    switch (layout_of(type, layout)) {
    case LAYOUT_NATIVE:
        if (!dgl_dtype_row_bytes(type, cols, &bytes))
            return false;
        pack_native(src, bytes, dst);
        return true;
    case LAYOUT_SPLIT:
        if (!split_bytes(split_of(type), cols, &bytes))
            return false;
        pack_split(split_of(type), src, cols, bytes, dst);
        return true;
    case LAYOUT_NONE:
        break;
    }
    return false;
}
