/* Memory of the host. Software renderers and integrated GPUs use it too. */
#ifndef DGL_BASE_HOST_MEMORY_H
#define DGL_BASE_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Memory that this process can still allocate without swapping: the minimum of /proc/meminfo and
 * the limits of its memory cgroup (version 1 or 2) and of all parent cgroups. */
struct dgl_host_memory {
    uint64_t total_bytes;     /* memory of the machine, or the lowest cgroup limit; 0 if unknown */
    uint64_t available_bytes; /* 0 if unknown; 1 if a cgroup is full */
    bool limited;             /* a cgroup limit is lower than the machine's available memory */
};
/* Reads some small files. Takes some tenths of a millisecond. */
struct dgl_host_memory dgl_host_memory(void);
/* Reads the files below `root`: "", or the path of a folder with proc/ and sys/. For tests. */
struct dgl_host_memory dgl_host_memory_under(const char *root);
/* Returns a short static text that names the source of the numbers. */
const char *dgl_host_memory_source(const struct dgl_host_memory *memory);

/* Returns the part of available memory that models may use: 75%. The rest is left to the system and
 * to the driver's own allocations, such as those of its compiler. */
uint64_t dgl_host_memory_share(uint64_t available_bytes);
/* Returns dgl_host_memory_share() of the available memory: the budget of models on a device without
 * its own memory, before any model is loaded. 0 if unknown. */
uint64_t dgl_host_memory_budget(const struct dgl_host_memory *memory);

/* Reads a file of /proc, /sys or a cgroup that contains one number. Returns false if the file is
 * absent or contains other text, such as "max". */
bool dgl_kernel_number(const char *folder, const char *name, uint64_t *out);

#endif
