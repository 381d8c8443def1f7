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
#include "loader/rdrr/rdrr_format.h"
#include "loader/rdrr/rdrr_layout.h"
#include "loader/tensor/tensor_source.h"

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
    struct tensor_info info; /* logical shape and stored bytes */
    enum rdrr_layout layout;
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
    bool ours;                /* conversion.tool is RDRR_TOOL: all keys are required */
    bool first_generation;    /* version "1.0": some of its writers hashed with blake3 and said
                                 sha256 */
    enum dgl_hash_kind hash;
    /* Layouts of entries without one: linear layers in floats, and block formats. */
    enum rdrr_layout float_layout, block_layout;
    bool says_block_layout;
    const char *tensors_file; /* file with "tensors"; NULL = in the manifest */
    uint64_t tensor_count;    /* as in the manifest, if says_count */
    bool says_count;
    struct rdrr_shard *shards;
    size_t num_shards;
    uint64_t total_size;
    struct rdrr_tensor *tensors;
    size_t num_tensors;
    struct rdrr_span *spans;
    size_t num_spans, cap_spans;
    struct rdrr_copied copied[RDRR_MAX_COPIED];
    size_t num_copied;
    const char **skipped; /* [num_skipped] source tensors that are not in the pack; ours only */
    size_t num_skipped;
    const char *hint_defaults; /* JSON text; NULL = none */
    const char *hint_pinned;
};

/* A manifest with tensors_file has no tensors yet: rdrr_tensors_parse() with that file's root. */
enum dgl_status rdrr_manifest_parse(const struct dgl_log *log, const struct dgl_json_doc *doc,
                                    struct rdrr_manifest *out);
void rdrr_manifest_finish(struct rdrr_manifest *manifest);
/* Returns NULL if the pack has no such copy. */
const struct rdrr_copied *rdrr_copied_find(const struct rdrr_manifest *manifest, const char *name);

/* ---- parts, each in the file of its name ---- */

/* rdrr_shards.c: hash algorithm, "shards" and "totalSize". */
enum dgl_status rdrr_shards_parse(struct dgl_json_reader r, const struct dgl_json *root,
                                  struct rdrr_manifest *out);
/* rdrr_tensors.c: parses `map`, an object of entries by name. Shards must be parsed before. */
enum dgl_status rdrr_tensors_parse(struct dgl_json_reader r, const struct dgl_json *map,
                                   struct rdrr_manifest *out);
/* rdrr_shape.c: parses shape, size and layout of an entry. Type and role must be set before. */
enum dgl_status rdrr_shape_parse(struct dgl_json_reader r, const struct dgl_json *object,
                                 const struct rdrr_manifest *m, struct rdrr_tensor *t);
/* Helpers that they share: a text that is not empty; 64 lowercase hex digits; a value as text. */
enum dgl_status rdrr_need_text(struct dgl_json_reader r, const struct dgl_json *object,
                               const char *key, struct dgl_arena *arena, const char **out);
enum dgl_status rdrr_need_hash(struct dgl_json_reader r, const struct dgl_json *object,
                               const char *key, char out[65]);
enum dgl_status rdrr_value_text(struct dgl_json_reader r, const struct dgl_json *value, int indent,
                                struct dgl_arena *arena, const char **out);

#endif
