/* Stored results of the tuner: the fastest kernel and tunables of each request on a device, and
 * their conversion to the hints of the tuner's layer. One file per device, driver and limits. */
#ifndef DGL_CORE_TUNE_STORE_H
#define DGL_CORE_TUNE_STORE_H

#include "core/memory/device.h"

/* Results by request and texts. `request` is kernel_request_key(), `texts` is tune_texts() of its
 * kernels, in the precision of `kernel`. If the default was not beaten, `kernel` is the default
 * kernel and `tunes` is "". */
struct tune_store {
    struct dgl_tuned *items; /* own their texts */
    size_t count, cap;
};

/* Loads the results of the device. The store is empty if there is no complete file of this user. */
void tune_store_load(struct tune_store *store, struct dgl_device *dev);
/* Reads the file KEY.tune of a cache folder. Returns false if it is absent or damaged; the store
 * then has the entries that are whole. `key`: 64 hex digits. For tests. */
bool tune_store_read(struct tune_store *store, const char *dir, const char *key);
/* Returns false if the results could not be stored. */
bool tune_store_save(const struct tune_store *store, struct dgl_device *dev);
/* Removes the file of the device. Returns false if there is a file that cannot be removed. */
bool tune_store_reset(struct dgl_device *dev);
void tune_store_finish(struct tune_store *store);
/* Adds a copy of the entry, and replaces an entry with the same key and texts. Returns false if
 * memory runs out. */
bool tune_store_put(struct tune_store *store, const struct dgl_tuned *entry);
/* Returns NULL if there is no such entry. */
const struct dgl_tuned *tune_store_find(const struct tune_store *store, const char *request,
                                        const char *texts);

/* Returns true if the entry is not the default. */
bool tune_entry_says_more(const struct dgl_tuned *entry);

/* SHA-256, in hex, over the texts of all kernels of the set that serve an operation, and of their
 * libs. Results are only valid for equal texts. Kernels of PRECISION f16 are only compared with
 * each other, so `f16` is part of the digest. Returns false if memory runs out. */
bool tune_texts(const struct kernel_set *set, const char *op, bool f16, char out[65]);
/* Writes the entries as a JSON object of hints for KERNEL_LAYER_TUNER. */
void tune_hints_put(const struct dgl_tuned *entries, size_t count, struct dgl_buf *json);
/* Writes the entries whose texts equal those of the set, like tune_hints_put(). *count is the
 * number of entries that differ from the defaults. If computePrecision is f16, entries of kernels
 * of PRECISION f16 are also written, instead of other entries for the same request. */
void tune_store_hints(const struct tune_store *store, const struct kernel_set *set,
                      struct dgl_buf *json, size_t *count);

#endif
