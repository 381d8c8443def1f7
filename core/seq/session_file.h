/*
 * session_file.h: reads and writes session files. Does not use the device.
 *
 * docs/formats.md describes the format under "Session files": a head of fixed size, then ids,
 * logits, the caller's bytes, the rows of the KV cache layer by layer, and a SHA-256 of everything
 * before it. A file is written as a whole or not at all. A file that is read is not trusted.
 */
#ifndef DGL_CORE_SESSION_FILE_H
#define DGL_CORE_SESSION_FILE_H

#include "core/base/status.h"

/* Head of a session file: the source of its rows, and their number. */
struct session_head {
    char model[65], tokenizer[65]; /* see loader/model/identity.h */
    char precision[64];            /* arithmetic of the kernels that computed the rows */
    char name[96];                 /* model name for messages; may be truncated */
    uint32_t kv;                   /* kv_layout_identity(): groups of layers and types */
    uint32_t layers, kv_heads, head_dim, vocab;
    uint32_t tokens;
    uint32_t rope_tokens;    /* session.rope_tokens */
    uint32_t has_logits;     /* 1 if the file has the logits of the last token, f32 [vocab] */
    uint64_t data_bytes;     /* size of the caller's bytes */
    uint64_t kv_token_bytes; /* of one position in all layers; not stored */
};

/* A session file that is written or read. If a call fails, only session_file_close() may follow. */
struct session_file {
    const struct dgl_log *log;
    struct session_head head;
    uint64_t size;               /* of the whole file */
    uint64_t at;                 /* bytes that were written or read */
    struct dgl_atomic_file *out; /* NULL if the file is read */
    struct dgl_file *in;
    struct dgl_hash *hash;
};
/* Begins a file with this head. The parts that it announces must follow. */
enum dgl_status session_file_create(struct session_file *f, const struct dgl_log *log,
                                    const char *path, const struct session_head *head);
/* Opens a file and checks its head: every number must be within the limits of the model and of the
 * file's size. `wanted` is the head of the session that loads it, with the maximum tokens of the
 * session in `tokens` and of the model in `rope_tokens`; the fields after these are ignored. The
 * other errors are those of dgl_session_load(). */
enum dgl_status session_file_open(struct session_file *f, const struct dgl_log *log,
                                  const char *path, const struct session_head *wanted);
/* Writes or reads the next `size` bytes of the parts that the head announces, in the order above.
 * The caller must not write or read more than these. */
enum dgl_status session_file_move(struct session_file *f, void *bytes, uint64_t size);
/* Call it after all parts. Completes a file that is written. Returns DGL_ERR_INTEGRITY if the hash
 * of a file that was read does not match. */
enum dgl_status session_file_end(struct session_file *f);
void session_file_close(struct session_file *f); /* accepts a zeroed file */

#endif
