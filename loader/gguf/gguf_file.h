/*
 * gguf_file.h: the container of GGUF versions 2 and 3, as ggml writes it: metadata by key, then
 * tensor descriptions, then aligned tensor data (docs/formats.md). Strict: every count is bounded
 * by the bytes that are left before anything is allocated, sizes are computed from types and
 * shapes, and every byte of the data belongs to one tensor or is padding.
 */
#ifndef DGL_LOADER_GGUF_FILE_H
#define DGL_LOADER_GGUF_FILE_H

#include "core/base/mem.h"
#include "loader/source/blob_source.h"
#include "loader/tensor/tensor_source.h"

#define GGUF_MAX_TENSORS   100000
#define GGUF_MAX_KEYS      100000
#define GGUF_MAX_KEY_LEN   65535
#define GGUF_MAX_NAME_LEN  64
#define GGUF_MAX_STRING    (UINT64_C(64) << 20)
#define GGUF_MAX_HEADER    (UINT64_C(512) << 20)
#define GGUF_MAX_FILES     1000
#define GGUF_ALIGNMENT     32 /* default of general.alignment */
#define GGUF_MAX_ALIGNMENT 65536
#define GGUF_MAGIC         "GGUF"
#define GGUF_VERSION       3

/* As numbered in the file. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};
/* "u32", "string", ...; "?" beyond the table. */
const char *gguf_type_name(enum gguf_type type);

/* One metadata value. Scalars are arrays of one; NUL follows every string. */
struct gguf_kv {
    const char *key;
    enum gguf_type type; /* of the elements */
    bool is_array;
    uint64_t count;
    const struct dgl_str *strings; /* [count] when GGUF_STRING */
    const uint8_t *bytes;          /* otherwise: [count * size of type], little-endian */
};

struct gguf_tensor {
    struct tensor_info info; /* shape reversed: ggml lists the innermost dimension first */
    uint64_t begin;          /* from gguf_file.data_start */
};

/* One parsed file. */
struct gguf_file {
    const char *name; /* for messages; borrowed from the input */
    uint32_t version;
    uint64_t alignment, data_start;
    struct gguf_kv *keys; /* ascending by key */
    size_t num_keys;
    struct gguf_tensor *tensors; /* ascending by begin */
    size_t num_tensors;
    struct dgl_arena arena;
};

/* Input of the parser: an open file or memory. */
struct gguf_input {
    const char *name;
    const struct blob *blob; /* NULL = `bytes` */
    const uint8_t *bytes;
    uint64_t size;
    uint64_t stored; /* size of `bytes`, which contains at least the header; 0 = `size` */
};
enum dgl_status gguf_file_parse(const struct dgl_log *log, const struct gguf_input *in,
                                struct gguf_file *out);
void gguf_file_finish(struct gguf_file *file);

/* Sets *out to the type number of ggml. Returns false if the type has no number. */
bool gguf_type_of_dtype(enum dgl_dtype type, uint32_t *out);

/* ---- metadata by key ---- */

/* Typed values with messages that name file, key and both types or ranges. */
struct gguf_reader {
    const struct dgl_log *log;
    const struct gguf_file *file;
    int32_t layers; /* a list of so many equal numbers counts as that number; 0 = no list does */
};
const struct gguf_kv *gguf_find(const struct gguf_file *file, const char *key); /* NULL = absent */
/* `opt` keeps *inout if the key is absent. Integers of any width are accepted. An array is an
 * error, except for numbers with `layers`. */
enum dgl_status gguf_opt_i64(struct gguf_reader r, const char *key, int64_t min, int64_t max,
                             int64_t *inout);
enum dgl_status gguf_need_i64(struct gguf_reader r, const char *key, int64_t min, int64_t max,
                              int64_t *out);
/* Finite; f32 through gguf_short_f64(). */
enum dgl_status gguf_opt_f64(struct gguf_reader r, const char *key, double *inout);
enum dgl_status gguf_opt_bool(struct gguf_reader r, const char *key, bool *inout);
enum dgl_status gguf_opt_str(struct gguf_reader r, const char *key, struct dgl_str *inout);
/* Reads an array of elements of `type`. *out is NULL if it is absent. */
enum dgl_status gguf_opt_array(struct gguf_reader r, const char *key, enum gguf_type type,
                               const struct gguf_kv **out);
/* Reads element `index` of an array or scalar of integers or booleans. Returns false for other
 * types. */
bool gguf_int_at(const struct gguf_kv *kv, uint64_t index, int64_t *out);
/* As gguf_int_at(), for f32 and f64. */
bool gguf_float_at(const struct gguf_kv *kv, uint64_t index, double *out);
/* The double whose shortest text is that of `value`: 1e-5f gives 1e-5, as it was written before
 * somebody stored it as f32. */
double gguf_short_f64(float value);

#endif
