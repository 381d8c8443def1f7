/* Session files: head, checks, hash. */
#include "core/seq/session_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/printable.h"

#define VERSION    1u
#define ORDER_MARK 0x01020304u

/* Offsets in the head; docs/formats.md has the table. Texts are padded with NULs. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_BYTE_ORDER = 12, /* in the machine's byte order, like the ids, logits and rows */
    AT_SIZE = 16,
    AT_TOKENS = 24,
    AT_ROPE_TOKENS = 28,
    AT_LAYERS = 32,
    AT_KV_HEADS = 36,
    AT_HEAD_DIM = 40,
    AT_KV = 44,
    AT_VOCAB = 48,
    AT_LOGITS = 52,
    AT_DATA = 56,
    AT_MODEL = 64,
    AT_TOKENIZER = 128,
    AT_PRECISION = 192,
    AT_NAME = 256,
    HEAD_BYTES = 352,
    DIGEST_BYTES = 64 /* hexadecimal digits */
};
static const char magic[8] = "DGLSESS";

/* Computes the size of the whole file. Returns false if it exceeds 64 bits. */
static bool size_of(const struct session_head *h, uint64_t *size)
{
    return dgl_mul_u64(h->kv_token_bytes, h->tokens, size) &&
           dgl_add_u64(*size, HEAD_BYTES + DIGEST_BYTES + (uint64_t)h->tokens * 4, size) &&
           dgl_add_u64(*size, h->has_logits ? (uint64_t)h->vocab * 4 : 0, size) &&
           dgl_add_u64(*size, h->data_bytes, size);
}

/* ---- writing --------------------------------------------------------------------------------- */

struct session_writer {
    const struct dgl_log *log;
    struct dgl_atomic_file *file;
    struct dgl_hash *hash;
    uint64_t size, left; /* of the whole file; still to be added */
};

void session_writer_abort(struct session_writer **writer)
{
    struct session_writer *w = *writer;
    *writer = NULL;
    if (!w)
        return;
    dgl_atomic_abort(&w->file);
    dgl_hash_destroy(&w->hash);
    free(w);
}

static enum dgl_status put(struct session_writer *w, const void *bytes, size_t size)
{
    dgl_hash_update(w->hash, bytes, size);
    return dgl_atomic_write(w->file, bytes, size);
}

enum dgl_status session_writer_create(const struct dgl_log *log, const char *path,
                                      const struct session_head *h, struct session_writer **out)
{
    unsigned char head[HEAD_BYTES] = {0};
    const uint32_t order = ORDER_MARK;
    *out = NULL;
    struct session_writer *w = dgl_new(struct session_writer);
    if (w)
        w->hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!w || !w->hash || !size_of(h, &w->size)) {
        session_writer_abort(&w);
        return dgl_fail_memory(log, path, sizeof(*w));
    }
    w->log = log;
    w->left = w->size - HEAD_BYTES - DIGEST_BYTES;
    memcpy(head + AT_MAGIC, magic, sizeof(magic));
    dgl_put_le(head + AT_VERSION, VERSION, 4);
    memcpy(head + AT_BYTE_ORDER, &order, 4);
    dgl_put_le(head + AT_SIZE, w->size, 8);
    dgl_put_le(head + AT_TOKENS, h->tokens, 4);
    dgl_put_le(head + AT_ROPE_TOKENS, h->rope_tokens, 4);
    dgl_put_le(head + AT_LAYERS, h->layers, 4);
    dgl_put_le(head + AT_KV_HEADS, h->kv_heads, 4);
    dgl_put_le(head + AT_HEAD_DIM, h->head_dim, 4);
    dgl_put_le(head + AT_KV, h->kv, 4);
    dgl_put_le(head + AT_VOCAB, h->vocab, 4);
    dgl_put_le(head + AT_LOGITS, h->has_logits, 4);
    dgl_put_le(head + AT_DATA, h->data_bytes, 8);
    memcpy(head + AT_MODEL, h->model, 64);
    memcpy(head + AT_TOKENIZER, h->tokenizer, 64);
    memcpy(head + AT_PRECISION, h->precision, strlen(h->precision));
    memcpy(head + AT_NAME, h->name, strlen(h->name));
    /* A rename would replace a device by a file. */
    struct stat now;
    enum dgl_status status =
        stat(path, &now) == 0 && !S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode)
            ? dgl_fail(log, DGL_ERR_IO, "%s is no regular file: give another name", path)
            : dgl_atomic_create_private(log, path, &w->file);
    if (status == DGL_OK)
        status = put(w, head, sizeof(head));
    if (status != DGL_OK)
        session_writer_abort(&w);
    *out = w;
    return status;
}

enum dgl_status session_writer_add(struct session_writer *w, const void *bytes, uint64_t size)
{
    assert(size <= w->left);
    w->left -= size;
    return put(w, bytes, (size_t)size);
}

uint64_t session_writer_size(const struct session_writer *w)
{
    return w->size;
}

enum dgl_status session_writer_commit(struct session_writer **writer)
{
    struct session_writer *w = *writer;
    char digest[65];
    assert(w->left == 0);
    enum dgl_status status = dgl_hash_hex(w->hash, digest)
                                 ? dgl_atomic_write(w->file, digest, DIGEST_BYTES)
                                 : dgl_fail_memory(w->log, "hash", sizeof(digest));
    if (status == DGL_OK)
        status = dgl_atomic_commit(&w->file);
    session_writer_abort(writer);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct session_reader {
    const struct dgl_log *log;
    struct dgl_file *file;
    struct dgl_hash *hash;
    struct session_head head;
    uint64_t at, end; /* read position; position of the digest */
};

void session_reader_close(struct session_reader **reader)
{
    struct session_reader *r = *reader;
    *reader = NULL;
    if (!r)
        return;
    dgl_file_close(&r->file);
    dgl_hash_destroy(&r->hash);
    free(r);
}

/* Copies a text field of `size` bytes, NUL-padded, to `out`, which must be larger by a NUL. */
static void take_text(const unsigned char *from, size_t size, char *out)
{
    const size_t len = strnlen((const char *)from, size);
    memcpy(out, from, len);
    out[len] = '\0';
}

static uint32_t u32_at(const unsigned char *head, size_t at)
{
    return (uint32_t)dgl_get_le(head + at, 4);
}

/* Reads the head. Checks the magic, the version, the byte order and the file size. */
static enum dgl_status read_head(struct session_reader *r, const char *path)
{
    unsigned char head[HEAD_BYTES] = {0};
    const struct dgl_log *log = r->log;
    const uint64_t size = dgl_file_size(r->file);
    struct session_head *h = &r->head;
    uint32_t order;
    uint64_t wanted = 0;
    if (size < sizeof(magic))
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s is no session file: it has %" PRIu64 " bytes; remove it, or give "
                        "another name",
                        path, size);
    const size_t len = size < sizeof(head) ? (size_t)size : sizeof(head);
    enum dgl_status status = dgl_file_read(log, r->file, 0, head, len);
    if (status != DGL_OK)
        return status;
    if (memcmp(head, magic, sizeof(magic)) != 0)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s is no session file: it begins otherwise; give another name", path);
    if (len >= AT_SIZE && u32_at(head, AT_VERSION) != VERSION)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s is a session file of version %u, this program reads version %u: use "
                        "the program that wrote it, or remove it to begin anew",
                        path, u32_at(head, AT_VERSION), VERSION);
    memcpy(&order, head + AT_BYTE_ORDER, 4);
    if (len >= AT_SIZE && order != ORDER_MARK)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s was written by a machine with another order of bytes (%08x, here %08x):"
                        " remove it to begin anew",
                        path, order, ORDER_MARK);
    if (len >= AT_SIZE + 8)
        wanted = dgl_get_le(head + AT_SIZE, 8);
    if (wanted != size)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s has %" PRIu64 " bytes, as a session file it would have %s%" PRIu64
                        ": it was cut off or changed; remove it to begin anew",
                        path, size, wanted ? "" : "more than ",
                        wanted ? wanted : (uint64_t)HEAD_BYTES + DIGEST_BYTES);
    take_text(head + AT_MODEL, 64, h->model);
    take_text(head + AT_TOKENIZER, 64, h->tokenizer);
    take_text(head + AT_PRECISION, sizeof(h->precision) - 1, h->precision);
    take_text(head + AT_NAME, sizeof(h->name) - 1, h->name);
    h->tokens = u32_at(head, AT_TOKENS);
    h->rope_tokens = u32_at(head, AT_ROPE_TOKENS);
    h->layers = u32_at(head, AT_LAYERS);
    h->kv_heads = u32_at(head, AT_KV_HEADS);
    h->head_dim = u32_at(head, AT_HEAD_DIM);
    h->vocab = u32_at(head, AT_VOCAB);
    h->data_bytes = dgl_get_le(head + AT_DATA, 8);
    h->kv = u32_at(head, AT_KV);
    const uint32_t kv_type = h->kv & 0xff, logits = u32_at(head, AT_LOGITS);
    if (kv_type > DGL_KV_F32 || logits > 1)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: its type of keys and values is %u and its mark for logits %u: they "
                        "are 0 or 1; remove it to begin anew",
                        path, kv_type, logits);
    h->has_logits = logits == 1;
    dgl_hash_update(r->hash, head, sizeof(head));
    return DGL_OK;
}

/* Checks that the file belongs to the model and session that load it. */
static enum dgl_status check_head(struct session_reader *r, const char *path,
                                  const struct session_wanted *wanted)
{
    static const char *const kv_name[] = {"f16", "f32"};
    const struct dgl_log *log = r->log;
    const struct session_head *w = wanted->head;
    struct session_head *h = &r->head;
    uint64_t size = 0;
    if (strcmp(h->model, w->model) != 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s is of the model %s (%.12s), this is %s (%.12s): give the model that it "
                        "is of, or another name",
                        path, DGL_PRINTABLE(h->name), DGL_PRINTABLE(h->model),
                        DGL_PRINTABLE(w->name), w->model);
    if (strcmp(h->tokenizer, w->tokenizer) != 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s was written with another tokenizer of %s (%.12s, now %.12s): its ids "
                        "stand for other texts; remove it to begin anew",
                        path, DGL_PRINTABLE(w->name), DGL_PRINTABLE(h->tokenizer), w->tokenizer);
    if ((h->kv & 0xff) != (w->kv & 0xff))
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s has keys and values in %s, the session in %s: give --kv-type %s", path,
                        kv_name[h->kv & 0xff], kv_name[w->kv & 0xff], kv_name[h->kv & 0xff]);
    if (h->kv != w->kv)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s has keys and values in other groups of layers than the session (%08x, "
                        "here %08x): remove it to begin anew",
                        path, h->kv, w->kv);
    if (strcmp(h->precision, w->precision) != 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "%s was computed with %s, these kernels are %s: give the --kernel options "
                        "of before, or remove it to begin anew",
                        path, DGL_PRINTABLE(h->precision), w->precision);
    if (h->layers != w->layers || h->kv_heads != w->kv_heads || h->head_dim != w->head_dim ||
        h->vocab != w->vocab || h->rope_tokens > (uint32_t)wanted->context_max)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: its head has %u layers of %u heads of %u, %u ids and rotations for %u "
                        "tokens, the model %u, %u, %u, %u and at most %d; remove it to begin anew",
                        path, h->layers, h->kv_heads, h->head_dim, h->vocab, h->rope_tokens,
                        w->layers, w->kv_heads, w->head_dim, w->vocab, wanted->context_max);
    h->kv_token_bytes = w->kv_token_bytes; /* it follows from the values compared above */
    if (!size_of(h, &size) || size != dgl_file_size(r->file) || (h->has_logits && !h->tokens))
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s has %" PRIu64 " bytes; what its head lists (%u tokens, %" PRIu64
                        " bytes of the program's%s) takes %" PRIu64 "; remove it to begin anew",
                        path, dgl_file_size(r->file), h->tokens, h->data_bytes,
                        h->has_logits ? ", logits" : "", size);
    if (h->data_bytes > DGL_SESSION_DATA_MAX)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s has %" PRIu64 " bytes of the program's, at most %u are read", path,
                        h->data_bytes, DGL_SESSION_DATA_MAX);
    if (h->tokens > (uint32_t)wanted->context)
        return dgl_fail(log, DGL_ERR_CONTEXT_FULL,
                        "%s holds %u tokens, the context %d: raise -c (the model's limit is %d)",
                        path, h->tokens, wanted->context, wanted->context_max);
    return DGL_OK;
}

enum dgl_status session_reader_open(const struct dgl_log *log, const char *path,
                                    const struct session_wanted *wanted,
                                    struct session_reader **out)
{
    *out = NULL;
    struct session_reader *r = dgl_new(struct session_reader);
    if (r)
        r->hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!r || !r->hash) {
        session_reader_close(&r);
        return dgl_fail_memory(log, path, sizeof(*r));
    }
    r->log = log;
    enum dgl_status status = dgl_file_open(log, path, &r->file);
    if (status == DGL_OK)
        status = read_head(r, path);
    if (status == DGL_OK)
        status = check_head(r, path, wanted);
    if (status == DGL_OK) {
        r->at = HEAD_BYTES;
        r->end = dgl_file_size(r->file) - DIGEST_BYTES;
        *out = r;
    } else {
        session_reader_close(&r);
    }
    return status;
}

const struct session_head *session_reader_head(const struct session_reader *r)
{
    return &r->head;
}

uint64_t session_reader_size(const struct session_reader *r)
{
    return dgl_file_size(r->file);
}

enum dgl_status session_reader_take(struct session_reader *r, void *bytes, uint64_t size)
{
    assert(size <= r->end - r->at);
    enum dgl_status status = dgl_file_read(r->log, r->file, r->at, bytes, (size_t)size);
    if (status == DGL_OK)
        dgl_hash_update(r->hash, bytes, (size_t)size);
    r->at += size;
    return status;
}

enum dgl_status session_reader_check(struct session_reader *r)
{
    char wanted[65] = "", got[65];
    assert(r->at == r->end);
    enum dgl_status status = dgl_file_read(r->log, r->file, r->end, wanted, DIGEST_BYTES);
    if (status == DGL_OK && !dgl_hash_hex(r->hash, got))
        status = dgl_fail_memory(r->log, "hash", sizeof(got));
    if (status == DGL_OK && strcmp(got, wanted) != 0)
        status = dgl_fail(r->log, DGL_ERR_INTEGRITY,
                          "%s has the SHA-256 %.12s, when it was written it had %.12s: it was "
                          "changed or is damaged; remove it to begin anew",
                          dgl_file_path(r->file), got, DGL_PRINTABLE(wanted));
    return status;
}
