/* A trace of the device's work in a file of Chrome's trace event format, which chrome://tracing and
 * Perfetto open. */
#ifndef DGL_TOOLS_TRACE_H
#define DGL_TOOLS_TRACE_H

#include "core/base/json.h"

struct dgl_atomic_file;

struct trace {
    struct dgl_atomic_file *file; /* NULL if there is no trace */
    struct dgl_device *device;    /* watched device, or NULL */
    struct dgl_buf text;
    struct dgl_json_writer json;
    uint64_t origin_ns; /* of its time stamps */
};

/* Fails if the file cannot be created. It appears at `path` at trace_commit(). */
enum dgl_status trace_create(struct trace *t, const struct dgl_log *log, const char *path);
/* Traces the device from now on. The trace must end before the device is closed. */
void trace_watch(struct trace *t, struct dgl_device *device);
/* Adds a span of host time without device work. */
void trace_add(struct trace *t, const char *name, uint64_t start_ns, uint64_t end_ns);
/* Both consume the trace, and accept a struct that is all zero. trace_commit() writes the file. */
enum dgl_status trace_commit(struct trace *t);
void trace_abort(struct trace *t);

#endif
