/* One kernel tried for one request on one device. */
#ifndef DGL_KERNEL_FIT_H
#define DGL_KERNEL_FIT_H

#include "kernels/set/kernel_hints.h"
#include "kernels/set/kernel_request.h"

/* The kernel is for such requests, on whatever device. */
bool kernel_serves(const struct kernel *kernel, const struct kernel_request *request);

/* NULL: none has the name. */
const struct kernel_var *kernel_find_var(const struct kernel_var *vars, size_t num_vars,
                                         const char *name);
/* " with K=64, T=3" in `text`: the values of the names of an expression, each once. */
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
    enum kernel_apply apply; /* rules for tunables that apply */
    /* Tunables with these values, whatever hints and presets say. */
    struct kernel_var forced[KERNEL_MAX_TUNES];
    uint32_t num_forced;
};
/* Fills `out` but for its reason, and *rank (PREFER). False when the kernel cannot run: *why then
 * says which rule, and out->fault whether, and where, its text is at fault. */
bool kernel_fit_try(const struct kernel_fit *fit, const struct kernel *kernel,
                    struct kernel_choice *out, int64_t *rank, char why[192]);

/* Writes how many registers a choice that spills lacks. */
void kernel_spill_text(const struct kernel_choice *choice, char why[192]);

/* Whether the device has what the kernel wants of it for any request: extensions and storage
 * bindings, and that it computes rightly. Else *why says which. */
bool kernel_fit_device(const struct kernel_fit *fit, const struct kernel *kernel,
                       struct kernel_choice *scratch, char why[192]);
/* False: the kernel is for the request, but the preset of a tunable is none of its choices for such
 * sizes, on whatever device; *why and scratch->fault then say which. */
bool kernel_fit_presets(const struct kernel_fit *fit, const struct kernel *kernel,
                        struct kernel_choice *scratch, char why[192]);

/* kernel_groups.c */

/* kernel_fit_try() with what the hints workgroupOverrides and colsPerWorkgroup want, for which at
 * most two tunables take other values than without them. */
bool kernel_fit_hinted(const struct kernel_fit *fit, const struct kernel *kernel,
                       struct kernel_choice *out, int64_t *rank, char why[192]);
/* Finds the rules that apply to a kernel: out[i] decides tunable i, out[num_tunes] the local size
 * of work groups, and the next one their columns. NULL if there is none. Returns their number. */
uint32_t kernel_fit_rules(const struct kernel_fit *fit, const struct kernel *kernel,
                          const struct kernel_rule *out[KERNEL_MAX_TUNES + 2]);

#endif
