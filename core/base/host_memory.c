/* Reading /proc/meminfo. */
#include "core/base/host_memory.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

static uint64_t line_bytes(const char *line, const char *key)
{
    uint64_t kib = 0;
    struct dgl_str text = dgl_str_of(line);
    if (!dgl_str_starts(text, key))
        return 0;
    text.p += strlen(key);
    text.len -= strlen(key);
    struct dgl_str rest = dgl_str_trim(text), number;
    if (!dgl_str_split(&rest, ' ', &number) || !dgl_parse_u64(number, UINT64_MAX / 1024, &kib))
        return 0;
    return kib * 1024;
}

struct dgl_host_memory dgl_host_memory(void)
{
    struct dgl_host_memory memory = {0};
    char line[256];
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file)
        return memory;
    while (fgets(line, sizeof(line), file)) {
        uint64_t total = line_bytes(line, "MemTotal:");
        uint64_t available = line_bytes(line, "MemAvailable:");
        if (total)
            memory.total_bytes = total;
        if (available)
            memory.available_bytes = available;
    }
    fclose(file);
    return memory;
}
