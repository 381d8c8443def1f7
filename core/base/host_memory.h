/* Memory of the host, which software renderers and integrated GPUs use too. */
#ifndef DGL_BASE_HOST_MEMORY_H
#define DGL_BASE_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* What this process can still get without swapping: by /proc/meminfo, and by the limits of its
 * memory cgroup (version 1 or 2) and of all cgroups around that one. */
struct dgl_host_memory {
    uint64_t total_bytes;     /* of the machine, or the lowest limit of a cgroup; 0 = unknown */
    uint64_t available_bytes; /* 0 = unknown; where a cgroup is full it is 1 */
    bool limited;             /* a cgroup's limit leaves less than the machine has */
};
/* Reads some small files each time: some tenths of a millisecond. */
struct dgl_host_memory dgl_host_memory(void);
/* The same below another root folder: "" or the path of a folder with proc/ and sys/. */
struct dgl_host_memory dgl_host_memory_under(const char *root);
/* The files that the numbers are from, as a short text. */
const char *dgl_host_memory_source(const struct dgl_host_memory *memory);

/* The part of available memory that models may take: 75%. The rest is for the system and for what
 * the driver needs besides buffers, such as its compiler. */
uint64_t dgl_host_memory_share(uint64_t available_bytes);
/* dgl_host_memory_share() of what is available: the budget of models on a device that uses the
 * host's memory, before there is any; 0 = unknown. */
uint64_t dgl_host_memory_budget(const struct dgl_host_memory *memory);

#endif
