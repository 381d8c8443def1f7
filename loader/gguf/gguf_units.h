/* gguf_units.h: a tensor source whose tensors are those of another one, rearranged: runs of units
 * (rows, or single values of vectors) in another order. Bytes are moved, never changed. */
#ifndef DGL_LOADER_GGUF_UNITS_H
#define DGL_LOADER_GGUF_UNITS_H

#include "core/base/mem.h"
#include "loader/gguf/gguf_arch.h"
#include "loader/tensor/tensor_source.h"

enum gguf_order {
    GGUF_ORDER_SAME,      /* bytes from `begin` of source[0] */
    GGUF_ORDER_PERMUTE,   /* units of source[0]: ggml's order within heads becomes Hugging Face's */
    GGUF_ORDER_UNPERMUTE, /* inverse of GGUF_ORDER_PERMUTE */
    GGUF_ORDER_ALTERNATE, /* units of source[0] and source[1] in turn */
    GGUF_ORDER_SECOND,    /* every second unit of source[0], beginning with number `begin` */
    GGUF_ORDER_STACK,     /* num_sources tensors of source_bytes each, one after the other */
    GGUF_ORDER_VALUES     /* `values` */
};

struct gguf_unit_tensor {
    enum gguf_order order;
    size_t source[2];
    size_t *sources; /* GGUF_ORDER_STACK; owned */
    size_t num_sources;
    uint64_t begin, source_bytes;
    uint64_t unit; /* bytes */
    uint64_t head; /* units of one head, for the permutations */
    float *values; /* owned */
};

struct gguf_units {
    const struct dgl_log *log;
    struct tensor_source *raw;
    bool owns_raw;                /* destroyed with the result */
    const struct gguf_arch *arch; /* of GGUF names in the file; NULL: names of the list */
    struct gguf_unit_tensor *tensors;
    struct tensor_info *infos; /* arrays of the same length */
    size_t count, cap_tensors, cap_infos;
    struct dgl_arena names;
};

/* Consumes `values` and `sources` of *t, also on failure. `name` NULL: out of memory. */
enum dgl_status gguf_units_add(struct gguf_units *u, const struct tensor_info *info,
                               const char *name, const struct gguf_unit_tensor *t);
/* Adds a vector of plain numbers as f32, with `delta` added to each. `info` is that of source
 * tensor `index`; its role may be another one. */
enum dgl_status gguf_units_add_shifted(struct gguf_units *u, size_t index,
                                       const struct tensor_info *info, const char *name,
                                       float delta);
/* Bytes of a row, or of a value of a vector. */
uint64_t gguf_unit_bytes(const struct tensor_info *info);
/* Makes the source; `u` is empty afterwards. */
enum dgl_status gguf_units_source(struct gguf_units *u, struct tensor_source **out);
void gguf_units_finish(struct gguf_units *u);

#endif
