/* Requests and the kernels that serve them: one entry per distinct request, shared by all
 * operations with that request. Choosing takes microseconds and needs no device. */
#ifndef DGL_CORE_KERNEL_TABLE_H
#define DGL_CORE_KERNEL_TABLE_H

#include "core/plan/plan_device.h"

/* A kernel with its constants and tunables: becomes one program. */
struct kernel_use {
    uint32_t id; /* index in the table */
    struct kernel_request request;
    struct kernel_choice choice;
};

struct kernel_table {
    const struct plan_device *device; /* borrowed */
    struct kernel_set *set;           /* own reference */
    struct kernel_use **uses;
    size_t count, cap;
};

/* Returns true if both are one kernel with the same constants, tunables and words. */
bool kernel_use_equal(const struct kernel_use *a, const struct kernel_use *b);

bool kernel_request_equal(const struct kernel_request *a, const struct kernel_request *b);

void kernel_table_init(struct kernel_table *table, const struct plan_device *device,
                       struct kernel_set *set);
/* Accepts a table that is all zero. */
void kernel_table_finish(struct kernel_table *table);
/* Finds the entry of a request. If the request is new, chooses a kernel. *out is borrowed and
 * stable until kernel_table_finish(). */
enum dgl_status kernel_table_find(struct kernel_table *table, const struct kernel_request *request,
                                  struct kernel_use **out);

/* Adds an entry with a choice of the caller, such as a tuner's. kernel_table_find() still finds the
 * first entry of a request. On failure *out is NULL. */
enum dgl_status kernel_table_add(struct kernel_table *table, const struct kernel_request *request,
                                 const struct kernel_choice *choice, struct kernel_use **out);

/* Removes all entries after the first `count`. They must no longer be in use. */
void kernel_table_cut(struct kernel_table *table, size_t count);

/* Computes the group counts of a dispatch over `tokens` tokens and `rows` rows of weights (0 if it
 * has no weights). Returns DGL_ERR_KERNEL if the kernel's GROUPS yields no counts that the device
 * supports. */
enum dgl_status kernel_use_groups(const struct plan_device *device, const struct kernel_use *use,
                                  int32_t tokens, uint32_t rows, uint32_t groups[3]);

/* Returns true if the program of a choice has only built-in texts. */
bool kernel_choice_is_builtin(const struct kernel_choice *choice);

#endif
