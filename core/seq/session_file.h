/*
 * session_file.h: the form of session files, without a device: docs/formats.md, "Session files".
 * A head of fixed size, then ids, logits, the caller's bytes, the rows of the KV cache layer by
 * layer, and a SHA-256 of all before it. Written as a whole or not at all; read as a stranger's.
 */
#ifndef DGL_CORE_SESSION_FILE_H
#define DGL_CORE_SESSION_FILE_H

#include "core/base/status.h"

/* What rows are of, and how many there are. */
struct session_head {
    char model[65], tokenizer[65]; /* loader/model/identity.h */
    char precision[64];            /* of what computed the rows */
    char name[96];                 /* of the model, for messages; may be cut */
    enum dgl_kv_type kv_type;
    uint32_t layers, kv_heads, head_dim, vocab;
    uint32_t tokens;
    uint32_t rope_tokens; /* session.rope_tokens */
    bool has_logits;      /* of the last token, f32 [vocab] */
    uint64_t data_bytes;  /* the caller's */
};
/* Bytes of the rows of one layer's keys at one position. */
uint64_t session_head_row_bytes(const struct session_head *head);

/* Appends what the head promises, in the order above. A failed one is to be aborted. */
struct session_writer;
enum dgl_status session_writer_create(const struct dgl_log *log, const char *path,
                                      const struct session_head *head, struct session_writer **out);
enum dgl_status session_writer_add(struct session_writer *w, const void *bytes, uint64_t size);
uint64_t session_writer_size(const struct session_writer *w); /* of the whole file */
/* Consumes *w, also on failure. */
enum dgl_status session_writer_commit(struct session_writer **w);
void session_writer_abort(struct session_writer **w); /* accepts NULL in *w */

/* What a file has to be of, and what takes it. */
struct session_wanted {
    const struct session_head *head; /* tokens and what follows are not looked at */
    int32_t context;                 /* tokens that there is room for */
    int32_t context_max;             /* of the model */
};
struct session_reader;
/* Opens a file and judges its head: every number is within what the model and the file's size
 * allow. Other errors as dgl_session_load() says. */
enum dgl_status session_reader_open(const struct dgl_log *log, const char *path,
                                    const struct session_wanted *wanted,
                                    struct session_reader **out);
const struct session_head *session_reader_head(const struct session_reader *r);
uint64_t session_reader_size(const struct session_reader *r); /* of the file */
/* The next bytes, in the order above, never beyond what the head promises. */
enum dgl_status session_reader_take(struct session_reader *r, void *bytes, uint64_t size);
/* After all of them: DGL_ERR_INTEGRITY unless they are those that were written. */
enum dgl_status session_reader_check(struct session_reader *r);
void session_reader_close(struct session_reader **r); /* accepts NULL in *r */

#endif
