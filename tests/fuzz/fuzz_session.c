/* Loads a session file: head, checksums, contents. Input: the file, for a model of two small
 * layers. The file is loaded as it is, and with its size and its hash corrected, so that the code
 * behind the hash is reached, too. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/hash.h"
#include "core/seq/session_file.h"

#define CONTEXT      8
#define AT_SIZE      16
#define DIGEST_BYTES 64

static void read_all(struct fuzz_log *log, struct session_file *f, size_t size, bool hashed)
{
    const struct session_head *h = &f->head;
    const uint64_t ids = h->tokens * 4ull, logits = h->has_logits ? h->vocab * 4ull : 0;
    const uint64_t rows = h->tokens * h->kv_token_bytes;
    const uint64_t parts[] = {ids, logits, h->data_bytes, rows};
    uint64_t sum = 0;
    enum dgl_status status = DGL_OK;
    FUZZ_CHECK(h->tokens <= CONTEXT && f->size == size);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == DGL_OK; i++) {
        FUZZ_CHECK(parts[i] <= size);
        char *bytes = malloc(parts[i] + 1);
        FUZZ_CHECK(bytes);
        status = session_file_move(f, bytes, parts[i]);
        free(bytes);
        sum += parts[i];
    }
    FUZZ_CHECK(status == DGL_OK && sum < size);
    status = session_file_end(f);
    FUZZ_CHECK(status == DGL_OK || (status == DGL_ERR_INTEGRITY && !hashed));
    fuzz_check_status(log, status);
}

static void load(struct dgl_str input, bool hashed)
{
    struct session_head head = {.precision = "arithmetic in f32",
                                .name = "tiny",
                                .layers = 2,
                                .kv_heads = 2,
                                .head_dim = 4,
                                .vocab = 8,
                                .tokens = CONTEXT,
                                .rope_tokens = 2 * CONTEXT};
    struct session_file file;
    struct fuzz_log log;
    char path[64];
    memset(head.model, 'a', 64);
    memset(head.tokenizer, 'b', 64);
    const int fd = memfd_create("session", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, input.p, input.len) == (ssize_t)input.len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fuzz_log_init(&log);
    for (int type = DGL_KV_F16; type <= DGL_KV_F32; type++) {
        head.kv = (uint32_t)type;
        head.kv_token_bytes =
            2ull * head.layers * head.kv_heads * head.head_dim * (type == DGL_KV_F32 ? 4 : 2);
        enum dgl_status status = session_file_open(&file, &log.log, path, &head);
        fuzz_check_status(&log, status);
        if (status == DGL_OK)
            read_all(&log, &file, input.len, hashed);
        session_file_close(&file);
    }
    close(fd);
}

void fuzz_one(struct dgl_str input)
{
    char digest[DIGEST_BYTES + 1];
    load(input, false);
    if (input.len < AT_SIZE + 8 + DIGEST_BYTES)
        return;
    char *bytes = malloc(input.len);
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    FUZZ_CHECK(bytes && hash);
    memcpy(bytes, input.p, input.len);
    dgl_put_le((unsigned char *)bytes + AT_SIZE, input.len, 8);
    dgl_hash_update(hash, bytes, input.len - DIGEST_BYTES);
    FUZZ_CHECK(dgl_hash_hex(hash, digest));
    memcpy(bytes + input.len - DIGEST_BYTES, digest, DIGEST_BYTES);
    load((struct dgl_str){bytes, input.len}, true);
    dgl_hash_destroy(&hash);
    free(bytes);
}
