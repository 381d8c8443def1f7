/* Small random models that tests write, so that they need no test data: a Hugging Face folder, or
 * the same weights as an RDRR pack, written independently of the converter. */
#ifndef DGL_TESTS_TINY_MODEL_H
#define DGL_TESTS_TINY_MODEL_H

#include "core/base/hash.h"
#include "core/base/str.h"
#include "loader/quant/dtype.h"

struct tiny_llama {
    int32_t layers, hidden, intermediate, vocab, heads, kv_heads, head_dim, context;
    enum dgl_dtype dtype; /* DGL_F32, DGL_F16 or DGL_BF16 */
    bool tied;            /* else lm_head.weight is there */
    int files;            /* safetensors files; above 1 with an index */
    uint64_t seed;        /* same seed, same weights, however they are stored (up to rounding) */
};

/* 2 layers of 64, vocabulary 320, 4 heads over 2 of 16, bf16, tied, one file. */
struct tiny_llama tiny_llama_default(void);

/* A Llama checkpoint with random weights: config.json, generation_config.json and safetensors. */
void tiny_llama_write(const char *dir, const struct tiny_llama *m);
/* The same of an even number of layers: the first, third ... have a sliding window. */
void tiny_windows_write(const char *dir, const struct tiny_llama *m, int window);
/* tiny_llama_write() with the default sizes changed to these; the short form for tests of the
 * engine. */
void make_tiny_llama(const char *dir, uint64_t seed, const struct tiny_llama *sizes);

/* Adds a tokenizer.json whose tokens are <unk>, <s>, the letters and the blank, and two merges. */
void tiny_tokenizer_write(const char *dir);

/* A tensor of a tiny model, for tests that build files piece by piece. */
struct tiny_tensor {
    char name[96];
    uint32_t rank;
    uint64_t shape[2];
    uint64_t count; /* values */
    bool norm;      /* values around 1 */
};
enum { TINY_MAX_TENSORS = 256 };
/* Fills `out` in file order; returns how many. */
size_t tiny_llama_tensors(const struct tiny_llama *m, struct tiny_tensor out[TINY_MAX_TENSORS]);
/* The values of tensor `index`, before rounding to the model's dtype; free(). */
float *tiny_llama_values(const struct tiny_llama *m, size_t index);
/* The stored bytes of tensor `index`; free(). */
unsigned char *tiny_llama_bytes(const struct tiny_llama *m, size_t index, size_t *len);

/* config.json's text: two dialects ("rope_theta" at the top, or "rope_parameters"). Free with
 * free(). */
char *tiny_llama_config(const struct tiny_llama *m, bool new_dialect);

/* The model as a pack: manifest.json, shards of `shard_bytes` (a multiple of 4096),
 * generation_config.json. */
struct tiny_pack {
    struct tiny_llama model;
    enum dgl_hash_kind hash;
    uint64_t shard_bytes;
};
struct tiny_pack tiny_pack_default(void); /* the default model, sha256, shards of 16 KiB */
void tiny_pack_write(const char *dir, const struct tiny_pack *pack);

/* Writes one safetensors file from a header's text and a data section of `data_len` bytes (zeros if
 * data is NULL). */
void tiny_safetensors_write(const char *dir, const char *name, const char *header, const void *data,
                            size_t data_len);

/* Creates a folder with links to the files of a pack and a separate manifest. The caller removes
 * it. */
char *tiny_pack_links(const char *pack);
/* Replaces the first occurrence of `find` in a text file. The test fails if there is no occurrence.
 */
void tiny_file_replace(const char *dir, const char *name, const char *find, const char *replace);
/* Reads a file as text; free(). */
char *tiny_file_read(const char *dir, const char *name, size_t *len);

#endif
