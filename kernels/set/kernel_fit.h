/* Fits one kernel to one request on one device. */
#ifndef DGL_KERNEL_FIT_H
#define DGL_KERNEL_FIT_H

#include "kernels/set/kernel_hints.h"
#include "kernels/set/kernel_request.h"

/* Returns true if the kernel serves the request on some device: operation, attributes and constants
 * match. */
bool kernel_serves(const struct kernel *kernel, const struct kernel_request *request);

/* Returns NULL if no variable has that name. */
const struct kernel_var *kernel_find_var(const struct kernel_var *vars, size_t num_vars,
                                         const char *name);
/* Values of the names in an expression, each once, as text: " with K=64, T=3". */
struct kernel_values {
    const struct kernel_var *vars;
    size_t num_vars;
    const char *told[16];
    size_t num_told, len;
    char text[120];
};
struct kernel_values kernel_values_of(const struct kernel_expr *expr, const struct kernel_var *vars,
                                      size_t num_vars);

struct kernel_fit {
    const struct kernel_set *set;
    const struct kernel_request *request;
    const struct kernel_var *device;
    size_t num_device;
    enum kernel_apply apply; /* the rules that apply to tunables */
    /* Values of tunables that override rules and presets. */
    struct kernel_var forced[KERNEL_MAX_TUNES];
    uint32_t num_forced;
};
/* Sets `out`, except its reason, and *rank (PREFER). If the kernel cannot run, returns false and
 * sets `why` to the reason, and out->fault if its text has an error. */
bool kernel_fit_try(const struct kernel_fit *fit, const struct kernel *kernel,
                    struct kernel_choice *out, int64_t *rank, char why[192]);

/* Writes the numbers of registers of a choice that spills. */
void kernel_spill_text(const struct kernel_choice *choice, char why[192]);

/* Returns true if the device has the extensions and storage bindings of the kernel and passed its
 * self test. Otherwise sets `why`. */
bool kernel_fit_device(const struct kernel_fit *fit, const struct kernel *kernel,
                       struct kernel_choice *scratch, char why[192]);
/* Returns false if the kernel serves the request but the preset of a tunable is not one of its
 * choices for these sizes, on any device. Sets `why` and scratch->fault then. */
bool kernel_fit_presets(const struct kernel_fit *fit, const struct kernel *kernel,
                        struct kernel_choice *scratch, char why[192]);

/* kernel_groups.c */

/* Like kernel_fit_try(), but also follows the hints workgroupOverrides and colsPerWorkgroup.
 * Changes at most two tunables for them. */
bool kernel_fit_hinted(const struct kernel_fit *fit, const struct kernel *kernel,
                       struct kernel_choice *out, int64_t *rank, char why[192]);
/* Finds the rules that apply to a kernel: out[i] decides tunable i, out[num_tunes] the local size
 * of work groups, and out[num_tunes + 1] their columns. An entry is NULL if there is no such rule.
 * Returns the number of rules. */
uint32_t kernel_fit_rules(const struct kernel_fit *fit, const struct kernel *kernel,
                          const struct kernel_rule *out[KERNEL_MAX_TUNES + 2]);

#endif
