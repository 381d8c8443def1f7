/* Row layouts: `native` keeps the bytes of the file, `split` takes q8_0's scales out of its blocks.
 */
#include "core/repack.h"
#include "core/base/checked.h"

#include <string.h>

enum { Q8_0_VALUES = 32, Q8_0_BYTES = 34, SPLIT_COLS = 64 };

enum layout { LAYOUT_NONE, LAYOUT_NATIVE, LAYOUT_SPLIT };

static enum layout layout_of(enum dgl_dtype type, const char *name)
{
    bool native = type == DGL_F32 || type == DGL_F16 || type == DGL_BF16 || type == DGL_Q4_K;
    if (native && strcmp(name, "native") == 0)
        return LAYOUT_NATIVE;
    return type == DGL_Q8_0 && strcmp(name, "split") == 0 ? LAYOUT_SPLIT : LAYOUT_NONE;
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
        if (!dgl_align_u64(cols, SPLIT_COLS, &bytes))
            return false;
        *words = bytes / 4 + bytes / SPLIT_COLS;
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

static void pack_split(const uint8_t *src, uint64_t cols, uint32_t *dst)
{
    uint64_t padded = (cols + SPLIT_COLS - 1) / SPLIT_COLS * SPLIT_COLS;
    uint8_t *codes = (uint8_t *)dst, *scales = codes + padded;
    memset(dst, 0, (size_t)(padded + padded / Q8_0_VALUES * 2));
    for (uint64_t block = 0; block * Q8_0_VALUES < cols; block++, src += Q8_0_BYTES) {
        uint64_t left = cols - block * Q8_0_VALUES;
        memcpy(scales + 2 * block, src, 2);
        memcpy(codes + block * Q8_0_VALUES, src + 2,
               (size_t)(left < Q8_0_VALUES ? left : Q8_0_VALUES));
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
        pack_split(src, cols, dst);
        return true;
    case LAYOUT_NONE:
        break;
    }
    return false;
}
