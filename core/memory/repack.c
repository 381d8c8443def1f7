/* Packing: a row as in the file, or its codes first and then its scales. */
#include "core/memory/repack.h"

#include <assert.h>
#include <string.h>

void repack_row(const struct weight_layout *layout, const void *src, uint64_t cols, uint32_t *dst)
{
    uint64_t words = 0, bytes = 0;
    bool fits = weight_layout_stride(layout, cols, &words);
    assert(fits);
    (void)fits;
    if (layout->values == 0) {
        /* The device reads words little-endian, as files are; so do the hosts that this library
         * builds for. */
        dgl_dtype_row_bytes(layout->dtype, cols, &bytes);
        if (bytes % 4 != 0)
            dst[bytes / 4] = 0;
        memcpy(dst, src, (size_t)bytes);
        return;
    }
    uint64_t padded = (cols + WEIGHT_SPLIT_COLS - 1) / WEIGHT_SPLIT_COLS * WEIGHT_SPLIT_COLS;
    const uint8_t *block = src;
    uint8_t *codes = (uint8_t *)dst;
    uint8_t *scales = codes + padded / layout->values * layout->code_bytes;
    memset(dst, 0, (size_t)words * 4);
    for (uint64_t first = 0; first < cols; first += layout->values, block += layout->bytes) {
        uint64_t left = cols - first, size = layout->code_bytes;
        /* Codes of a byte each end with the row, whatever pads its last block in the file. */
        if (size == layout->values && left < size)
            size = left;
        memcpy(codes, block + layout->codes_at, (size_t)size);
        memcpy(scales, block + layout->scale_at, layout->scale_bytes);
        codes += layout->code_bytes;
        scales += layout->scale_bytes;
    }
}
