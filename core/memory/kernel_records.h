/* Stored results of the known-answer tests of kernels, per device and driver, for later processes.
 * They are kept in the folder of the compiled programs. They list the programs that compute
 * correctly, and the built-in kernels that do not and are excluded from every choice
 * (KERNEL_WRONG_PROPERTY in kernels.h). */
#ifndef DGL_CORE_KERNEL_RECORDS_H
#define DGL_CORE_KERNEL_RECORDS_H

#include <stdbool.h>

#include "core/base/status.h"

struct dgl_device;
struct kernel_choice;
struct kernel_records; /* of a device */

/* Reads the device's records and adds the wrong kernels to dev->plan. Records that cannot be read
 * count as absent. */
enum dgl_status kernel_records_open(struct dgl_device *dev);
void kernel_records_close(struct dgl_device *dev);

/* Returns true if there is a cache folder, so that the records are stored for later processes. */
bool kernel_records_last(const struct dgl_device *dev);
/* Computes the record key of a choice on this device from its texts, words and numbers. Returns
 * false if memory runs out or there is no cache. */
bool kernel_records_key(const struct dgl_device *dev, const struct kernel_choice *choice,
                        char key[65]);
/* Returns true if the program is recorded as correct. */
bool kernel_records_is_right(const struct dgl_device *dev, const char *key);
enum dgl_status kernel_records_add_right(struct dgl_device *dev, const char *key);
/* Returns true if choices exclude the built-in kernel: it is recorded as wrong, or
 * kernel_records_add_unfit() was called for it. */
bool kernel_records_is_wrong(const struct dgl_device *dev, const char *kernel);
/* Records that a built-in kernel computes wrongly. Later choices exclude it. */
enum dgl_status kernel_records_add_wrong(struct dgl_device *dev, const char *kernel);
/* Excludes a built-in kernel from all later choices of this process, because the driver's compiler
 * exceeded a limit on it. It is not stored here: the program cache stores the verdict on its
 * source. */
enum dgl_status kernel_records_add_unfit(struct dgl_device *dev, const char *kernel);
/* Forgets that the kernel (or any kernel, if NULL) is wrong, so that a self test can test it again.
 * Choices that were made keep the names of their properties until kernel_records_close(). */
void kernel_records_forget_wrong(struct dgl_device *dev, const char *kernel);
/* Removes all wrong and excluded kernels from dev->plan, of which the caller keeps a copy. The
 * records stay. */
void kernel_records_hide_wrong(struct dgl_device *dev);
/* Stores the records, merged with those of other processes. If the folder cannot be written, later
 * processes test again. */
void kernel_records_store(struct dgl_device *dev);

#endif
