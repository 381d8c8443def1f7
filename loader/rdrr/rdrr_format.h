/*
 * rdrr_format.h: what a pack of ours looks like, for rdrr_writer.c and convert_manifest.c, which
 * make it, and rdrr_manifest.c, which reads it. docs/formats.md says the same for people.
 *
 * A pack is a folder: manifest.json, shard_00000.bin, shard_00001.bin, ... and verbatim copies of
 * the source's text files. manifest.json, keys in this order (readers do not care about order):
 *
 *   "version": 1,
 *   "modelId": "story-llama-q4_k_m",   not empty; becomes the model's name
 *   "modelType": "transformer",
 *   "quantization": "Q4_K_M",          headline: F32 F16 BF16 Q8_0 Q4_K_M (most of the matrices)
 *   "quantizationInfo": {"weights": "q4k", "embeddings": "f16", "lmHead": "f16", "layout": "row"},
 *                                      tokens f32 f16 bf16 q8_0 q4k; lmHead left out when tied;
 *                                      informational
 *   "hashAlgorithm": "sha256",         or "blake3"; for shards only
 *   "eos_token_id": [0, 1],            desc.stop_ids, ascending; null when there are none
 *   "architecture": {}, "inference": {},
 *                                      rdrr_inference_write() writes, _check() compares
 *   "config": {},                      config.json value by value (dgl_jw_value): the authority
 *   "optimizations": {"kernelHints": {}, "kernelHintsOrigin": "default"},
 *                                      origin "default": weaker than what a user or tuner says; any
 *                                      other origin or, in packs of ours, none: pinned by the
 *                                      pack's author
 *   "tokenizer": {"type": "bundled", "file": "tokenizer.json", "vocabSize": 4096},
 *                                      only with a tokenizer.json; vocabSize = config's vocab_size
 *   "files": {"tokenizer.json": {"size": 262796, "sha256": "<64 hex>"}},
 *                                      every copied file, always sha256; {} when none
 *   "conversion": {"tool": "dopplergl", "version": "0.1.0", "source": "story-llama",
 *                  "quantization": {"type": "q4_k_m", "layout": "row"},
 *                  "skipped": ["vision_tower.*: not part of the text model (tensors: 437)"]},
 *                                      source is a name, never a path; no dates: the same input
 *                                      gives the same bytes; skipped: what of the source is not
 *                                      in the pack, left out when nothing is
 *   "shards": [{"index": 0, "filename": "shard_00000.bin", "size": 67108864, "offset": 0,
 *               "hash": "<64 hex>"}],  offset = sum of the sizes before; hash of the file's bytes
 *   "totalSize": 71303168,             sum of the shards' sizes
 *   "tensorCount": 74,
 *   "tensors": {NAME: ENTRY}
 *
 * ENTRY inside one shard: {"shard": 0, "offset": 4096, "size": 512, "shape": [256], "dtype": "F32",
 * "role": "norm"}. Cut by a shard's end: "spans": [{"shardIndex": 0, "offset": 67104768, "size":
 * 4096}, {"shardIndex": 1, "offset": 0, "size": 8192}] instead of shard and offset; the spans'
 * sizes sum to "size"; a cut inside a quantised block is fine. Matrices also have "layout": "row",
 * or as options of the converter say "column" or "flat" (rdrr_layout.h); floats in columns have the
 * shape of what is stored, and the model's as "originalShape". dtype is dgl_dtype_traits.rdrr. role
 * is tensor_role_from_name(): "embedding", "lm_head", "norm", "matmul", "router", "expert",
 * "other".
 *
 * Bytes: the tensors form one stream. Each starts at a multiple of RDRR_ALIGN (zeros between), and
 * the stream is cut every shard_bytes (a multiple of RDRR_ALIGN); the last shard ends with the last
 * tensor. Rows of block formats are padded with zeros to whole blocks (1152 values of Q4_K: 5
 * blocks); "shape" stays the logical one.
 */
#ifndef DGL_LOADER_RDRR_FORMAT_H
#define DGL_LOADER_RDRR_FORMAT_H

#include "core/base/json.h"

struct model_desc;

#define RDRR_VERSION          1
#define RDRR_TOOL             "dopplergl"
#define RDRR_MODEL_TYPE       "transformer" /* every family that is read */
#define RDRR_MANIFEST         "manifest.json"
#define RDRR_SHARD_NAME       "shard_%05u.bin" /* printf, unsigned */
#define RDRR_SHARD_BYTES      (UINT64_C(64) << 20)
#define RDRR_ALIGN            UINT64_C(4096)
#define RDRR_HINTS_DEFAULT    "default" /* optimizations.kernelHintsOrigin */
#define RDRR_MAX_MANIFEST     (UINT64_C(100) << 20)
#define RDRR_MAX_SHARDS       65536
#define RDRR_MAX_TENSORS      100000
#define RDRR_MAX_COPIED       16
#define RDRR_MAX_COPIED_BYTES (UINT64_C(64) << 20)

/* Text files that are copied from a source if they exist. The list ends with NULL. */
extern const char *const rdrr_copied_files[];

/* Writes the keys "architecture" and "inference" into the object that is open in `w`. */
void rdrr_inference_write(struct dgl_json_writer *w, const struct model_desc *desc);
/* Compares "architecture" and "inference" of a manifest with the description of its config. A
 * difference is DGL_ERR_FORMAT; the message has both values. `complete`: keys that
 * rdrr_inference_write() writes must not be missing. */
enum dgl_status rdrr_inference_check(struct dgl_json_reader r, const struct dgl_json *manifest,
                                     const struct model_desc *desc, bool complete);

#endif
