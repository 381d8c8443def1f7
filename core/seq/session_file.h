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
    uint64_t kv_token_bytes;       /* of one position in all layers; not stored */
    uint32_t layers, kv_heads, head_dim, vocab;
    uint32_t tokens;
    uint32_t rope_tokens; /* session.rope_tokens */
    bool has_logits;      /* of the last token, f32 [vocab] */
    uint64_t data_bytes;  /* size of the caller's bytes */
};

/* Writes the parts announced by the head, in the order above. If a call fails, call
 * session_writer_abort(). */
struct session_writer;
enum dgl_status session_writer_create(const struct dgl_log *log, const char *path,
                                      const struct session_head *head, struct session_writer **out);
enum dgl_status session_writer_add(struct session_writer *w, const void *bytes, uint64_t size);
uint64_t session_writer_size(const struct session_writer *w); /* whole file */
/* Consumes *w, also on failure. */
enum dgl_status session_writer_commit(struct session_writer **w);
void session_writer_abort(struct session_writer **w); /* accepts NULL in *w */

/* Requirements for a file that is to be loaded. */
struct session_wanted {
    const struct session_head *head; /* `tokens` and the fields after it are ignored */
    int32_t context;                 /* maximum tokens of the session */
    int32_t context_max;             /* maximum tokens of the model */
};
struct session_reader;
/* Opens a file and checks its head: every number must be within the limits of the model and of the
 * file's size. The other errors are those of dgl_session_load(). */
enum dgl_status session_reader_open(const struct dgl_log *log, const char *path,
                                    const struct session_wanted *wanted,
                                    struct session_reader **out);
const struct session_head *session_reader_head(const struct session_reader *r);
uint64_t session_reader_size(const struct session_reader *r); /* whole file */
/* Reads the next `size` bytes, in the order above. The caller must not read more than the head
 * announces. */
enum dgl_status session_reader_take(struct session_reader *r, void *bytes, uint64_t size);
/* Call it after reading everything. Returns DGL_ERR_INTEGRITY if the hash does not match. */
enum dgl_status session_reader_check(struct session_reader *r);
void session_reader_close(struct session_reader **r); /* accepts NULL in *r */

#endif
