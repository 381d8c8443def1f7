/* Hints of all layers, as one sorted list of rules. */
#ifndef DGL_KERNEL_HINTS_H
#define DGL_KERNEL_HINTS_H

#include "core/base/mem.h"
#include "kernels/kernels.h"

struct kernel_hints {
    struct kernel_rule *items; /* sorted as described in kernels.h */
    size_t count, cap;
    bool strict; /* the hint of that name is in force */
};
/* The place that hints are read from, and the list that they are added to. */
struct kernel_hint_source {
    const struct dgl_log *log;
    struct dgl_arena *arena;
    const struct kernel_set *set; /* names in hints must be among its kernels; NULL: no check */
    struct kernel_hints *hints;
    enum kernel_layer layer;
    const char *origin; /* kept with each rule, for messages */
    const char *where;  /* begins error lines: `origin`, after its file if there is one */
};
enum dgl_status kernel_hints_add_json(const struct kernel_hint_source *source, const char *json,
                                      size_t len);
enum dgl_status kernel_hints_add_profile(const struct kernel_hint_source *source,
                                         const char *profile);
/* "key=value" with a flat key. */
enum dgl_status kernel_hints_add_flag(const struct kernel_hint_source *source, const char *flag);

/* Returns the rule of that key, or NULL. */
const struct kernel_rule *kernel_hints_find(const struct kernel_hints *hints, const char *key);
/* Returns true if the rule is for such requests. */
bool kernel_rule_matches(const struct kernel_set *set, const struct kernel_rule *rule,
                         const struct kernel_request *request);
/* Returns true if `word` is the kernel's NAME, VARIANT or alias. */
bool kernel_answers_to(const struct kernel *kernel, const char *word);

/* kernel_set.c */
const struct kernel_hints *kernel_set_hints(const struct kernel_set *set);
/* Returns true if hints allow kernels of PRECISION f16. */
bool kernel_set_allows_f16(const struct kernel_set *set);

#endif
