/* The device handle: gl/ with its buffer pool and the numbers that plans are made from. */
#ifndef DGL_CORE_DEVICE_H
#define DGL_CORE_DEVICE_H

#include <pthread.h>

#include "core/plan/plan_device.h"
#include "gl/gl.h"

struct kernel_records;
struct pool;

/* Sections of a call that are not part of its results, so their time is reported apart. */
enum account_kind {
    ACCOUNT_COMPILE, /* only the time is excluded */
    ACCOUNT_TRIAL,   /* counters are excluded, too */
    ACCOUNT_HIDDEN,  /* no trace events are written either */
};

struct dgl_device {
    /* Stores the last error line and passes each line on to the caller's log. */
    const struct dgl_log *log; /* &own_log */
    struct dgl_log own_log;
    const struct dgl_log *caller_log; /* may be NULL */
    pthread_mutex_t error_lock;
    struct dgl_error last_error;
    struct gl_device *gl;
    struct pool *pool;
    struct dgl_device_info info; /* strings belong to gl */
    struct plan_device plan;
    uint64_t tokens;     /* tokens evaluated so far */
    uint64_t held_bytes; /* bytes of device memory that models and sessions have allocated */
    /* Pages of the models' KV caches that are in use, and those that several sequences use. Number
     * of prompt tokens that were found in the prefix cache so far. */
    uint64_t pages_used, pages_shared, prefix_hit_tokens;
    struct kernel_records *records;
    struct {
        uint64_t ns;                /* time of all sections that were closed */
        struct dgl_counters hidden; /* their work, except in ACCOUNT_COMPILE */
        int32_t depth;              /* sections that are open; the outermost one: */
        enum account_kind kind;
        uint64_t start_ns;
        struct dgl_counters before;
    } account;
    bool told_tunings; /* damage to the tuner's file was already reported */
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

/* Sets `log` of a new device. `caller` may be NULL. */
void device_log_init(struct dgl_device *dev, const struct dgl_log *caller);
/* Copies the last error line to *out. May be called from any thread. */
void device_last_error(struct dgl_device *dev, struct dgl_error *out);

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

/* Begins and ends a section. Sections may be nested. The outermost section decides what is
 * excluded, so inner ones may not exclude more. */
void account_push(struct dgl_device *dev, enum account_kind kind);
void account_pop(struct dgl_device *dev);
/* Returns the time of all sections that were closed so far. */
uint64_t account_ns(const struct dgl_device *dev);
/* Returns the time of a clock that stops during sections. */
uint64_t device_work_ns(const struct dgl_device *dev);
/* Returns the work since the device was opened, without excluded sections. */
struct dgl_counters device_counters(const struct dgl_device *dev);
/* Returns the work since `before` was read, without excluded sections. */
struct dgl_counters counters_since(const struct dgl_device *dev, const struct dgl_counters *before);

#endif
