/* SHA-256 (from OpenSSL, which uses the processor's SHA instructions) and BLAKE3 (our own). */
#ifndef DGL_BASE_HASH_H
#define DGL_BASE_HASH_H

#include "core/base/status.h"

enum dgl_hash_kind { DGL_HASH_SHA256, DGL_HASH_BLAKE3 };

struct dgl_hash;                                           /* state of one running digest */
struct dgl_hash *dgl_hash_create(enum dgl_hash_kind kind); /* returns NULL if memory is exhausted */
void dgl_hash_update(struct dgl_hash *hash, const void *bytes, size_t len);
/* Writes 64 lowercase hex digits and a NUL. Call it once, at the end. Returns false if OpenSSL
 * failed. */
bool dgl_hash_hex(struct dgl_hash *hash, char out[65]);
void dgl_hash_destroy(struct dgl_hash **hash);

bool dgl_hash_bytes(enum dgl_hash_kind kind, const void *bytes, size_t len, char out[65]);
const char *dgl_hash_name(enum dgl_hash_kind kind); /* "sha256", "blake3" */
bool dgl_hash_parse_name(const char *name, enum dgl_hash_kind *out);
/* Returns true for exactly 64 lowercase hex digits. Check a hash from a file before comparing it or
 * using it in a path. */
bool dgl_hash_is_hex(const char *text, size_t len);

#endif
