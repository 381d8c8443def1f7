/* The device handle: gl/ with its buffer pool and the numbers that plans are made from. */
#ifndef DGL_CORE_DEVICE_H
#define DGL_CORE_DEVICE_H

#include "core/plan/plan_device.h"
#include "gl/gl.h"

struct kernel_records;
struct pool;

/* State of the device at the start of a hidden section. */
struct account {
    struct dgl_counters counters;
    uint64_t compile_ns, start_ns;
};

struct dgl_device {
    const struct dgl_log *log;
    struct gl_device *gl;
    struct pool *pool;
    struct dgl_device_info info; /* strings belong to gl */
    struct plan_device plan;
    uint64_t tokens;     /* tokens evaluated so far */
    uint64_t held_bytes; /* bytes of device memory that models and sessions have allocated */
    /* Pages of the models' KV caches in use, and pages in use by several sequences; and the number
     * of prompt tokens that were found in the prefix cache so far. */
    uint64_t pages_used, pages_shared, prefix_hit_tokens;
    uint64_t compile_ns; /* spent on compiling so far */
    struct kernel_records *records;
    struct dgl_counters hidden; /* work of all hidden sections so far */
    int32_t hiding;             /* hidden sections that are open */
    bool told_tunings;          /* damage to the tuner's file was already reported */
    void (*trace)(void *priv, const struct dgl_event *event); /* dgl_device_set_trace() */
    void *trace_priv;
};

/* Folder of a pack with its own kernels. */
#define PACK_KERNELS "kernels"

struct dgl_kernels {
    struct kernel_set *set;
    bool unchecked; /* see dgl_kernels_params */
    bool pack;      /* a pack's own kernels were allowed */
};

/* Makes the device's context current for a public call, and restores the caller's context after
 * it. */
enum dgl_status device_enter(struct dgl_device *dev, struct gl_saved *saved);
void device_leave(struct dgl_device *dev, const struct gl_saved *saved);
/* Returns the limit of bytes for all models and sessions of the device, existing ones included.
 * Loading, sessions, refusals and reports use this number. Returns 0 if unknown. The caller need
 * not have entered the device. */
uint64_t device_memory_budget(struct dgl_device *dev);
/* Opens a lost device again; see gl_device_reopen(). The caller must not have entered the
 * device. */
enum dgl_status device_reopen(struct dgl_device *dev);

/* Sets the callback for all later events, or removes it if `cb` is NULL. */
void device_set_trace(struct dgl_device *dev, void (*cb)(void *priv, const struct dgl_event *event),
                      void *priv);
/* Sends an event to the trace callback, if there is one. */
void device_tell(const struct dgl_device *dev, const struct dgl_event *event);

/* Work done since the device was opened. */
struct dgl_counters device_counters(const struct dgl_device *dev);
void counters_add(struct dgl_counters *sum, const struct dgl_counters *part);
/* Subtracts `part` from `sum`. */
void counters_take(struct dgl_counters *sum, const struct dgl_counters *part);
/* Begins and ends a hidden section, for example for the known-answer tests of kernels. Work in a
 * hidden section is excluded from all counters, writes no trace events, and its time counts as
 * compile_ns. Sections may be nested. The section owns `account` until account_pop(). */
void account_push(struct dgl_device *dev, struct account *account);
void account_pop(struct dgl_device *dev, const struct account *account);
/* Work done since `before` was read. */
struct dgl_counters counters_since(const struct dgl_device *dev, const struct dgl_counters *before);

#endif
