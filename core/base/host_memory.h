/* Memory of the host, which software renderers and integrated GPUs use too. */
#ifndef DGL_BASE_HOST_MEMORY_H
#define DGL_BASE_HOST_MEMORY_H

#include <stdint.h>

/* /proc/meminfo: all of it, and what programs could still get without swapping; 0 = unknown. */
struct dgl_host_memory {
    uint64_t total_bytes, available_bytes;
};
struct dgl_host_memory dgl_host_memory(void);

#endif
