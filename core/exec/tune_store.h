/* Winners of the tuner on disk: for each request the kernel and the tunables that were the fastest
 * on a device, and how they become the tuner's layer of hints. One file per device, driver and
 * limits. */
#ifndef DGL_CORE_TUNE_STORE_H
#define DGL_CORE_TUNE_STORE_H

#include "core/memory/device.h"

/* What was found out about one request. Where the default was not beaten, `kernel` is the default
 * one and `tunes` is empty. */
struct tune_entry {
    char *key;            /* kernel_request_key() */
    char *op;             /* the plan's word for it: "qkv" */
    enum dgl_phase phase; /* and in what kind of pass of how many tokens it was measured */
    int32_t tokens;
    char texts[65];  /* tune_texts() of its kernels, in the precision of `kernel` */
    char kernel[64]; /* NAME */
    char default_kernel[64];
    char *tunes; /* "WG_SIZE=128 EACH=2", blank-separated; "" = presets */
    double default_us, tuned_us;
    double spread; /* of the ratio of the two in paired rounds, largest less smallest */
    int64_t time;  /* seconds since 1970 */
};
struct tune_store {
    struct tune_entry *items;
    size_t count, cap;
};

/* What is known of the device; empty where there is no file that this user wrote whole. */
void tune_store_load(struct tune_store *store, struct dgl_device *dev);
/* False: not kept. */
bool tune_store_save(const struct tune_store *store, struct dgl_device *dev);
/* Removes the device's file. False: there is one, and it cannot be removed. */
bool tune_store_reset(struct dgl_device *dev);
void tune_store_finish(struct tune_store *store);
/* Adds a copy, in place of one with the same key and texts. False: out of memory. */
bool tune_store_put(struct tune_store *store, const struct tune_entry *entry);
/* NULL: nothing is known. */
const struct tune_entry *tune_store_find(const struct tune_store *store, const char *key,
                                         const char *texts);

/* The default was beaten. */
bool tune_entry_says_more(const struct tune_entry *entry);

/* SHA-256, in hex, over the texts of all kernels of the set that serve an operation, and of their
 * libs: another kernel, or another text of one, is another measurement, and so is one of kernels of
 * PRECISION f16, which are compared with each other alone. False: out of memory. */
bool tune_texts(const struct kernel_set *set, const char *op, bool f16, char out[65]);
/* What the entries ask for, as a JSON object of hints for KERNEL_LAYER_TUNER; `take` says which of
 * them count, NULL = all. */
void tune_hints_put(const struct tune_entry *entries, size_t count, const bool *take,
                    struct dgl_buf *json);
/* The entries whose texts are those of the set, as such hints; *count is how many say more than the
 * defaults. Of kernels of PRECISION f16 where computePrecision is f16, and then instead of what was
 * measured of others for the same request. */
void tune_store_hints(const struct tune_store *store, const struct kernel_set *set,
                      struct dgl_buf *json, size_t *count);

#endif
