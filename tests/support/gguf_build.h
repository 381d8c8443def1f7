/* GGUF files built key by key in memory, right or wrong. */
#ifndef DGL_TESTS_GGUF_BUILD_H
#define DGL_TESTS_GGUF_BUILD_H

#include "core/base/str.h"
#include "loader/gguf/gguf_file.h"

/* ggml's numbers of types. */
enum { GB_F32 = 0, GB_F16 = 1, GB_Q4_0 = 2, GB_Q8_0 = 8, GB_BF16 = 30, GB_MXFP4 = 39 };

struct gguf_build {
    struct dgl_buf keys, tensors, data;
    uint64_t num_keys, num_tensors;
    uint64_t alignment; /* 0 = 32 */
    uint32_t version;   /* 0 = 3 */
};

void gb_raw_u32(struct dgl_buf *out, uint32_t value);
void gb_raw_u64(struct dgl_buf *out, uint64_t value);
void gb_raw_str(struct dgl_buf *out, const char *text);

/* Keys. */
void gb_u32(struct gguf_build *b, const char *key, uint32_t value);
void gb_u64(struct gguf_build *b, const char *key, uint64_t value);
void gb_f32(struct gguf_build *b, const char *key, float value);
void gb_bool(struct gguf_build *b, const char *key, bool value);
void gb_str(struct gguf_build *b, const char *key, const char *text);
void gb_strs(struct gguf_build *b, const char *key, const char *const *texts, size_t count);
void gb_i32s(struct gguf_build *b, const char *key, const int32_t *values, size_t count);
void gb_f32s(struct gguf_build *b, const char *key, const float *values, size_t count);
void gb_bools(struct gguf_build *b, const char *key, const bool *values, size_t count);

/* A tensor of `bytes` at the next place; `dims` innermost first, as in the file. */
void gb_tensor(struct gguf_build *b, const char *name, uint32_t type, uint32_t rank,
               const uint64_t *dims, const void *bytes, size_t len);
/* Row-major [rows, cols] (rows 0: a vector), as f32; values[i] = i * step + first. */
void gb_matrix(struct gguf_build *b, const char *name, uint64_t rows, uint64_t cols, float first,
               float step);
/* The description alone, with any offset and any numbers. */
void gb_tensor_info(struct gguf_build *b, const char *name, uint32_t type, uint32_t rank,
                    const uint64_t *dims, uint64_t offset);

/* The file; the builder is empty afterwards. */
void gb_finish(struct gguf_build *b, struct dgl_buf *out);

#endif
