/* Session files: head, checks, hash. */
#include "core/seq/session_file.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/bytes.h"
#include "core/base/checked.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/printable.h"

#define VERSION    1u
#define ORDER_MARK 0x01020304u

/* Places in the head; docs/formats.md has the table. */
enum {
    AT_VERSION = 8,
    AT_BYTE_ORDER = 12, /* in the machine's byte order, like the ids, logits and rows */
    AT_SIZE = 16,
    AT_DATA = 56,
    HEAD_BYTES = 352,
    DIGEST_BYTES = 64 /* hexadecimal digits */
};
static const char magic[8] = "DGLSESS";

/* The other fields of the head: numbers of 32 bits, and texts, which are padded with NULs. */
#define NUMBER(place, name) .at = place, .member = offsetof(struct session_head, name)
#define TEXT(place, name)                                                                          \
    NUMBER(place, name), .length = sizeof(((struct session_head *)NULL)->name) - 1
static const struct field {
    size_t at, member;
    size_t length; /* maximum bytes of a text; 0 for a number */
} fields[] = {
    {NUMBER(24, tokens)},   {NUMBER(28, rope_tokens)}, {NUMBER(32, layers)},
    {NUMBER(36, kv_heads)}, {NUMBER(40, head_dim)},    {NUMBER(44, kv)},
    {NUMBER(48, vocab)},    {NUMBER(52, has_logits)},  {TEXT(64, model)},
    {TEXT(128, tokenizer)}, {TEXT(192, precision)},    {TEXT(256, name)},
};

/* Encodes the fields of the head, or decodes them into a zeroed head. */
static void convert_head(struct session_head *h, unsigned char bytes[HEAD_BYTES], bool encode)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        unsigned char *at = bytes + fields[i].at;
        void *member = (char *)h + fields[i].member;
        if (fields[i].length > 0)
            memcpy(encode ? (void *)at : member, encode ? member : at,
                   strnlen(encode ? member : (char *)at, fields[i].length));
        else if (encode)
            dgl_put_le(at, *(uint32_t *)member, 4);
        else
            *(uint32_t *)member = (uint32_t)dgl_get_le(at, 4);
    }
}

/* Computes the size of the whole file. Returns false if it exceeds 64 bits. */
static bool size_of(const struct session_head *h, uint64_t *size)
{
    return dgl_mul_u64(h->kv_token_bytes, h->tokens, size) &&
           dgl_add_u64(*size, HEAD_BYTES + DIGEST_BYTES + (uint64_t)h->tokens * 4, size) &&
           dgl_add_u64(*size, h->has_logits ? (uint64_t)h->vocab * 4 : 0, size) &&
           dgl_add_u64(*size, h->data_bytes, size);
}

void session_file_close(struct session_file *f)
{
    dgl_atomic_abort(&f->out);
    dgl_file_close(&f->in);
    dgl_hash_destroy(&f->hash);
}

enum dgl_status session_file_create(struct session_file *f, const struct dgl_log *log,
                                    const char *path, const struct session_head *head)
{
    unsigned char bytes[HEAD_BYTES] = {0};
    const uint32_t order = ORDER_MARK;
    struct stat now;
    enum dgl_status status;
    *f = (struct session_file){.log = log, .head = *head, .hash = dgl_hash_create(DGL_HASH_SHA256)};
    if (!f->hash || !size_of(head, &f->size))
        return dgl_fail_memory(log, path, sizeof(*f));
    memcpy(bytes, magic, sizeof(magic));
    dgl_put_le(bytes + AT_VERSION, VERSION, 4);
    memcpy(bytes + AT_BYTE_ORDER, &order, 4);
    dgl_put_le(bytes + AT_SIZE, f->size, 8);
    dgl_put_le(bytes + AT_DATA, head->data_bytes, 8);
    convert_head(&f->head, bytes, true);
    /* A rename would replace a device by a file. */
    if (stat(path, &now) == 0 && !S_ISREG(now.st_mode) && !S_ISDIR(now.st_mode))
        return dgl_fail(log, DGL_ERR_IO, "%s is no regular file: give another name", path);
    dgl_atomic_sweep(log, path);
    TRY(dgl_atomic_create_private(log, path, &f->out));
    status = session_file_move(f, bytes, sizeof(bytes));
done:
    return status;
}

/* Checks that the file belongs to the model and session that load it. */
static enum dgl_status check_head(struct session_file *f, const char *path,
                                  const struct session_head *w)
{
    static const char *const kv_name[] = {"f16", "f32"};
    const struct dgl_log *log = f->log;
    struct session_head *h = &f->head;
    uint64_t size = 0;
    if ((h->kv & 0xff) > DGL_KV_F32 || h->has_logits > 1)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: its type of keys and values is %u and its mark for logits %u: they "
                        "are 0 or 1; remove it to begin anew",
                        path, h->kv & 0xff, h->has_logits);
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
        h->vocab != w->vocab || h->rope_tokens > w->rope_tokens)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: its head has %u layers of %u heads of %u, %u ids and rotations for %u "
                        "tokens, the model %u, %u, %u, %u and at most %u; remove it to begin anew",
                        path, h->layers, h->kv_heads, h->head_dim, h->vocab, h->rope_tokens,
                        w->layers, w->kv_heads, w->head_dim, w->vocab, w->rope_tokens);
    h->kv_token_bytes = w->kv_token_bytes; /* it follows from the values compared above */
    if (!size_of(h, &size) || size != f->size || (h->has_logits && !h->tokens))
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s has %" PRIu64 " bytes; what its head lists (%u tokens, %" PRIu64
                        " bytes of the program's%s) takes %" PRIu64 "; remove it to begin anew",
                        path, f->size, h->tokens, h->data_bytes, h->has_logits ? ", logits" : "",
                        size);
    if (h->data_bytes > DGL_SESSION_DATA_MAX)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s has %" PRIu64 " bytes of the program's, at most %u are read", path,
                        h->data_bytes, DGL_SESSION_DATA_MAX);
    if (h->tokens > w->tokens)
        return dgl_fail(log, DGL_ERR_CONTEXT_FULL,
                        "%s holds %u tokens, the context %u: raise -c (the model's limit is %u)",
                        path, h->tokens, w->tokens, w->rope_tokens);
    return DGL_OK;
}

enum dgl_status session_file_open(struct session_file *f, const struct dgl_log *log,
                                  const char *path, const struct session_head *wanted)
{
    unsigned char head[HEAD_BYTES] = {0};
    uint32_t order;
    enum dgl_status status;
    *f = (struct session_file){.log = log, .hash = dgl_hash_create(DGL_HASH_SHA256)};
    if (!f->hash)
        return dgl_fail_memory(log, path, sizeof(*f));
    TRY(dgl_file_open(log, path, &f->in));
    const uint64_t size = f->size = dgl_file_size(f->in);
    if (size < sizeof(magic))
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s is no session file: it has %" PRIu64 " bytes; remove it, or give "
                        "another name",
                        path, size);
    const size_t len = size < sizeof(head) ? (size_t)size : sizeof(head);
    TRY(session_file_move(f, head, len));
    if (memcmp(head, magic, sizeof(magic)) != 0)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s is no session file: it begins otherwise; give another name", path);
    const uint32_t version = (uint32_t)dgl_get_le(head + AT_VERSION, 4);
    if (len >= AT_SIZE && version != VERSION)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s is a session file of version %u, this program reads version %u: use "
                        "the program that wrote it, or remove it to begin anew",
                        path, version, VERSION);
    memcpy(&order, head + AT_BYTE_ORDER, 4);
    if (len >= AT_SIZE && order != ORDER_MARK)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "%s was written by a machine with another order of bytes (%08x, here %08x):"
                        " remove it to begin anew",
                        path, order, ORDER_MARK);
    const uint64_t stored = len >= AT_SIZE + 8 ? dgl_get_le(head + AT_SIZE, 8) : 0;
    if (stored != size)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s has %" PRIu64 " bytes, as a session file it would have %s%" PRIu64
                        ": it was cut off or changed; remove it to begin anew",
                        path, size, stored ? "" : "more than ",
                        stored ? stored : (uint64_t)HEAD_BYTES + DIGEST_BYTES);
    convert_head(&f->head, head, false);
    f->head.data_bytes = dgl_get_le(head + AT_DATA, 8);
    status = check_head(f, path, wanted);
done:
    return status;
}
enum dgl_status session_file_move(struct session_file *f, void *bytes, uint64_t size)
{
    assert(size <= f->size - f->at);
    enum dgl_status status = f->out ? dgl_atomic_write(f->out, bytes, (size_t)size)
                                    : dgl_file_read(f->log, f->in, f->at, bytes, (size_t)size);
    if (status == DGL_OK)
        dgl_hash_update(f->hash, bytes, (size_t)size);
    f->at += size;
    return status;
}

enum dgl_status session_file_end(struct session_file *f)
{
    char digest[65], stored[65] = "";
    enum dgl_status status = DGL_OK;
    assert(f->at == f->size - DIGEST_BYTES);
    if (!dgl_hash_hex(f->hash, digest))
        return dgl_fail_memory(f->log, "hash", sizeof(digest));
    if (f->out) {
        TRY(dgl_atomic_write(f->out, digest, DIGEST_BYTES));
        return dgl_atomic_commit(&f->out);
    }
    TRY(dgl_file_read(f->log, f->in, f->at, stored, DIGEST_BYTES));
    if (strcmp(digest, stored) != 0)
        status = dgl_fail(f->log, DGL_ERR_INTEGRITY,
                          "%s has the SHA-256 %.12s, when it was written it had %.12s: it was "
                          "changed or is damaged; remove it to begin anew",
                          dgl_file_path(f->in), digest, DGL_PRINTABLE(stored));
done:
    return status;
}
