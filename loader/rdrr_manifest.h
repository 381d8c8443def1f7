/*
 * rdrr_manifest.h: manifest.json of a pack as a checked structure. Pure: a parsed document in, a
 * description out. After a successful parse every number is inside its file, no two tensors share a
 * byte, and sizes follow from shapes. The layout is described in rdrr_format.h and docs/formats.md.
 */
#ifndef DGL_LOADER_RDRR_MANIFEST_H
#define DGL_LOADER_RDRR_MANIFEST_H

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "loader/rdrr_format.h"
#include "loader/tensor_source.h"

struct rdrr_shard {
    const char *name;
    uint64_t size;
    char hash[65];
};

/* A run of bytes in one shard. */
struct rdrr_span {
    uint32_t shard;
    uint64_t offset, size;
};

struct rdrr_tensor {
    struct tensor_info info;
    size_t first_span, num_spans; /* in rdrr_manifest.spans; their sizes sum to info.bytes */
};

/* A text file of the source, copied into the pack. */
struct rdrr_copied {
    const char *name;
    uint64_t size;
    char sha256[65];
};

struct rdrr_manifest {
    struct dgl_arena arena; /* owns every string */
    const char *model_id;
    const char *quantization; /* lower case */
    bool ours;                /* conversion.tool is RDRR_TOOL: nothing may be missing */
    enum dgl_hash_kind hash;
    struct rdrr_shard *shards;
    size_t num_shards;
    uint64_t total_size;
    struct rdrr_tensor *tensors;
    size_t num_tensors;
    struct rdrr_span *spans;
    size_t num_spans, cap_spans;
    struct rdrr_copied copied[RDRR_MAX_COPIED];
    size_t num_copied;
    const char *config;        /* JSON text */
    const char *hint_defaults; /* JSON text; NULL = none */
    const char *hint_pinned;
};

enum dgl_status rdrr_manifest_parse(const struct dgl_log *log, const struct dgl_json_doc *doc,
                                    struct rdrr_manifest *out);
void rdrr_manifest_finish(struct rdrr_manifest *manifest);
/* NULL when the pack has no such copy. */
const struct rdrr_copied *rdrr_copied_find(const struct rdrr_manifest *manifest, const char *name);

/* The part that parses "tensors" (rdrr_tensors.c); shards must be there already. */
enum dgl_status rdrr_tensors_parse(struct dgl_json_reader r, const struct dgl_json *root,
                                   struct rdrr_manifest *out);

#endif
