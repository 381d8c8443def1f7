/* Parses a safetensors header. Input: three bytes for the size of the data section, then the
 * header's JSON. */
#include "tests/fuzz/fuzz.h"

#include "core/base/checked.h"
#include "loader/hf/safetensors.h"

static void check_entries(const struct safetensors_header *header, uint64_t data_bytes)
{
    uint64_t end = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct safetensors_entry *e = &header->entries[i];
        FUZZ_CHECK(e->info.name && e->info.role && e->info.rank <= 4);
        FUZZ_CHECK(e->begin == end && dgl_range_fits(e->begin, e->info.bytes, data_bytes));
        end += e->info.bytes;
    }
    FUZZ_CHECK(end == data_bytes);
}

void fuzz_one(struct dgl_str input)
{
    struct safetensors_header header;
    struct fuzz_log log;
    uint64_t data_bytes = fuzz_byte(&input);
    data_bytes |= (uint64_t)fuzz_byte(&input) << 8;
    data_bytes |= (uint64_t)fuzz_byte(&input) << 16;
    fuzz_log_init(&log);
    enum dgl_status status =
        safetensors_parse(&log.log, "S", input.p, input.len, data_bytes, &header);
    fuzz_check_status(&log, status);
    if (status != DGL_OK)
        return;
    check_entries(&header, data_bytes);
    safetensors_header_finish(&header);
}
