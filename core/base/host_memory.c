/* Reads /proc/meminfo and the limits of memory cgroups. */
#include "core/base/host_memory.h"

#include <stdio.h>
#include <string.h>

#include "core/base/cgroup.h"
#include "core/base/str.h"

/* Parses "KEY NUMBER" or "KEY NUMBER UNIT". Returns false if the line has another key. */
static bool line_number(const char *line, const char *key, uint64_t *out)
{
    struct dgl_str text = dgl_str_of(line), number;
    const size_t len = strlen(key);
    if (!dgl_str_starts(text, key))
        return false;
    text.p += len;
    text.len -= len;
    if (text.len == 0 || (*text.p != ' ' && *text.p != '\t'))
        return false;
    struct dgl_str rest = dgl_str_trim(text);
    return dgl_str_split(&rest, ' ', &number) && dgl_parse_u64(number, UINT64_MAX / 1024, out);
}

static struct dgl_host_memory machine_memory(const char *root)
{
    struct dgl_host_memory memory = {0};
    char path[DGL_KERNEL_PATH], line[256];
    snprintf(path, sizeof(path), "%s/proc/meminfo", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return memory;
    while (fgets(line, sizeof(line), file)) {
        uint64_t kib;
        if (line_number(line, "MemTotal:", &kib))
            memory.total_bytes = kib * 1024;
        else if (line_number(line, "MemAvailable:", &kib))
            memory.available_bytes = kib * 1024;
    }
    fclose(file);
    return memory;
}

/* ---- cgroups --------------------------------------------------------------------------------- */

/* Files of a memory cgroup. The used bytes include cached file pages. The kernel drops these pages
 * before it refuses an allocation, so they count as free. */
struct cgroup_files {
    const char *limits[2], *used;
    const char *cached[2]; /* keys of memory.stat */
};
static const struct cgroup_files version1 = {{"memory.limit_in_bytes", NULL},
                                             "memory.usage_in_bytes",
                                             {"total_inactive_file", "total_active_file"}};
static const struct cgroup_files version2 = {
    {"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}};

bool dgl_kernel_number(const char *folder, const char *name, uint64_t *out)
{
    char path[DGL_KERNEL_PATH], text[64] = "";
    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const size_t len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    return dgl_parse_u64(dgl_str_trim((struct dgl_str){text, len}), UINT64_MAX, out);
}

/* Returns the bytes of cached file pages in the group, or 0 if unknown. */
static uint64_t read_cached(const char *folder, const struct cgroup_files *files)
{
    char path[DGL_KERNEL_PATH], line[256];
    uint64_t sum = 0, bytes;
    if (snprintf(path, sizeof(path), "%s/memory.stat", folder) >= (int)sizeof(path))
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof(line), file))
        for (int i = 0; i < 2; i++)
            if (line_number(line, files->cached[i], &bytes))
                sum += bytes; /* each at most UINT64_MAX / 1024 */
    fclose(file);
    return sum;
}

/* Lowers the memory to the limit of one cgroup. */
static void apply_cgroup(void *ctx, const char *folder, bool unified)
{
    struct dgl_host_memory *memory = ctx;
    const struct cgroup_files *files = unified ? &version2 : &version1;
    uint64_t limit = UINT64_MAX, used = 0, one;
    for (int i = 0; i < 2 && files->limits[i]; i++)
        if (dgl_kernel_number(folder, files->limits[i], &one) && one < limit)
            limit = one;
    if (limit == UINT64_MAX || !dgl_kernel_number(folder, files->used, &used))
        return;
    const uint64_t cached = read_cached(folder, files);
    used = used > cached ? used - cached : 0;
    const uint64_t left = limit > used ? limit - used : 1;
    if (memory->total_bytes == 0 || limit < memory->total_bytes)
        memory->total_bytes = limit;
    if (memory->available_bytes == 0 || left < memory->available_bytes) {
        memory->available_bytes = left;
        memory->limited = true;
    }
}

struct dgl_host_memory dgl_host_memory_under(const char *root)
{
    struct dgl_host_memory memory = machine_memory(root);
    dgl_cgroups_each(root, "memory", apply_cgroup, &memory);
    return memory;
}

struct dgl_host_memory dgl_host_memory(void)
{
    return dgl_host_memory_under("");
}

const char *dgl_host_memory_source(const struct dgl_host_memory *memory)
{
    return memory->available_bytes == 0 ? "unknown"
           : memory->limited            ? "/proc/meminfo, cgroup limit"
                                        : "/proc/meminfo";
}

uint64_t dgl_host_memory_share(uint64_t available_bytes)
{
    return available_bytes - available_bytes / 4;
}

uint64_t dgl_host_memory_budget(const struct dgl_host_memory *memory)
{
    return dgl_host_memory_share(memory->available_bytes);
}
