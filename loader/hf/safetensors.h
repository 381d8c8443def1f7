/*
 * safetensors.h: reads one .safetensors file: 8 bytes of header length, a JSON header, and tensor
 * bytes without holes. The rules of the format are enforced as in its reference implementation.
 * Every value of a file is checked.
 */
#ifndef DGL_LOADER_SAFETENSORS_H
#define DGL_LOADER_SAFETENSORS_H

#include "core/base/mem.h"
#include "loader/source/blob_source.h"
#include "loader/tensor/tensor_source.h"

#define SAFETENSORS_MAX_HEADER  (100u << 20)
#define SAFETENSORS_MAX_TENSORS 100000

struct safetensors_entry {
    struct tensor_info info; /* name is in the arena of the header, role is static */
    uint64_t begin;          /* offset inside the data section */
};
struct safetensors_header {
    struct safetensors_entry *entries; /* ascending by offset */
    size_t count;
    uint64_t data_start; /* offset of the data section in the file */
    struct dgl_arena names;
};

/* Parses the JSON header of a file whose data section has `data_bytes` bytes, without reading any
 * file. Messages use `name` for the file. data_start stays 0. */
enum dgl_status safetensors_parse(const struct dgl_log *log, const char *name, const char *text,
                                  size_t len, uint64_t data_bytes, struct safetensors_header *out);
/* Reads and parses the header of an open file. */
enum dgl_status safetensors_read(const struct dgl_log *log, const struct blob *blob,
                                 struct safetensors_header *out);
void safetensors_header_finish(struct safetensors_header *header);

#endif
