/* Reads /proc/meminfo and the limits of memory cgroups. */
#include "core/base/host_memory.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

enum { PATH_BYTES = 4608 }; /* PATH_MAX plus a file name */

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
    char path[PATH_BYTES], line[256];
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
    char path[PATH_BYTES], text[64] = "";
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
    char path[PATH_BYTES], line[256];
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

/* Lowers `memory` to the limit of one cgroup. */
static void apply_cgroup(struct dgl_host_memory *memory, const char *folder,
                         const struct cgroup_files *files)
{
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

/* Applies the limits of this process's cgroup and of its parents, up to the root of the mount. In a
 * container the path may be one of the host that does not exist here. The root of the mount is then
 * the container's own cgroup. */
static void apply_cgroups(struct dgl_host_memory *memory, const char *mount, struct dgl_str path,
                          const struct cgroup_files *files)
{
    char folder[PATH_BYTES];
    if (memmem(path.p, path.len, "/..", 3)) /* the path is outside of the cgroup namespace: use the
                                             * root of the mount */
        path.len = 0;
    while (true) {
        while (path.len > 0 && path.p[path.len - 1] == '/')
            path.len--;
        if (snprintf(folder, sizeof(folder), "%s%.*s", mount, (int)path.len, path.p) <
            (int)sizeof(folder))
            apply_cgroup(memory, folder, files);
        if (path.len == 0)
            break;
        while (path.len > 0 && path.p[path.len - 1] != '/')
            path.len--;
    }
}

struct dgl_host_memory dgl_host_memory_under(const char *root)
{
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    struct dgl_host_memory memory = machine_memory(root);
    char path[PATH_BYTES], line[4200];
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) { /* version 1: "4:memory:/a/b", version 2:
                                                       * "0::/a/b" */
        struct dgl_str rest = dgl_str_trim(dgl_str_of(line)), number, controllers, one;
        if (!dgl_str_split(&rest, ':', &number) || !dgl_str_split(&rest, ':', &controllers))
            continue;
        const bool unified = controllers.len == 0;
        while (dgl_str_split(&controllers, ',', &one))
            if (dgl_str_eq(one, "memory")) {
                snprintf(path, sizeof(path), "%s/sys/fs/cgroup/memory", root);
                apply_cgroups(&memory, path, rest, &version1);
            }
        for (size_t i = 0; i < 2 && unified; i++) {
            snprintf(path, sizeof(path), "%s%s", root, mounts[i]);
            apply_cgroups(&memory, path, rest, &version2);
        }
    }
    if (file)
        fclose(file);
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
