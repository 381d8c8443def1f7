/* The hints in force, of all layers. */
#ifndef DGL_KERNEL_HINTS_H
#define DGL_KERNEL_HINTS_H

#include "core/base/mem.h"
#include "kernels/kernels.h"

/* `key` is flat: "attentionDecode", "variants.matmul/decode", "tunes.NAME.TUNABLE",
 * "tunes.matmul/N=2048.NAME.TUNABLE". */
struct kernel_hint {
    const char *key, *value;
    enum kernel_layer layer;
    const char *origin; /* "--kernel-hints", "config file PATH" ... */
    /* of tunes: */
    const char *kernel, *tune; /* NULL: it is none */
    const char *pattern;       /* of the requests that it is for; "" = all */
    bool automatic;            /* its preset, whatever lower layers say */
    int64_t number;            /* of colsPerWorkgroup too */
    int64_t local[3];          /* of workgroupOverrides */
};
struct kernel_hints {
    struct kernel_hint *items;
    size_t count, cap;
    bool strict; /* the hint of that name is in force */
};
/* Where hints are being read from, and where they go. */
struct kernel_hint_source {
    const struct dgl_log *log;
    struct dgl_arena *arena;
    const struct kernel_set *set; /* names in `variants` and `tunes` are checked against its
                                     kernels; NULL: they stay unchecked */
    struct kernel_hints *hints;
    enum kernel_layer layer;
    const char *origin; /* kept with each hint, for the reasons of a choice */
    const char *where;  /* begins error lines: `origin`, with its file where there is one */
};
enum dgl_status kernel_hints_add_json(const struct kernel_hint_source *source, const char *json,
                                      size_t len);
enum dgl_status kernel_hints_add_profile(const struct kernel_hint_source *source,
                                         const char *profile);
/* "key=value" with a flat key. */
enum dgl_status kernel_hints_add_flag(const struct kernel_hint_source *source, const char *flag);
const struct kernel_hint *kernel_hints_find(const struct kernel_hints *hints, const char *key);
/* As kernel_hints_find(), but NULL for `auto` and for layers that are not heard. */
const struct kernel_hint *kernel_hints_find_heard(const struct kernel_hints *hints, const char *key,
                                                  enum kernel_hints_heard heard);
/* The hint in force for a tunable of a kernel that serves the request: of the highest layer the one
 * whose pattern has most parts; NULL: its preset. */
const struct kernel_hint *kernel_hints_find_tune(const struct kernel_hints *hints,
                                                 const struct kernel_request *request,
                                                 const char *kernel, const char *tune,
                                                 enum kernel_hints_heard heard);
/* Whether the hint picks kernels, tunables or weights of some requests: no remark, no rule for all
 * others. */
bool kernel_hint_chooses(const struct kernel_hint *hint);
/* What the layer says is passed over where it cannot be met. A tuner's always is, other layers'
 * not where hints are strict. */
bool kernel_layer_yields(const struct kernel_hints *hints, enum kernel_layer layer);

/* kernel_set.c */
const struct kernel_hints *kernel_set_hints(const struct kernel_set *set);

#endif
