/* One interface for the digests used in packs. */
#include "core/base/hash.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/blake3.h"
#include "core/base/mem.h"

struct dgl_hash {
    enum dgl_hash_kind kind;
    EVP_MD_CTX *sha256;
    struct blake3 blake3;
    bool failed;
};

struct dgl_hash *dgl_hash_create(enum dgl_hash_kind kind)
{
    struct dgl_hash *hash = dgl_new(struct dgl_hash);
    if (!hash)
        return NULL;
    hash->kind = kind;
    if (kind == DGL_HASH_BLAKE3) {
        blake3_init(&hash->blake3);
        return hash;
    }
    hash->sha256 = EVP_MD_CTX_new();
    if (!hash->sha256 || EVP_DigestInit_ex(hash->sha256, EVP_sha256(), NULL) != 1)
        dgl_hash_destroy(&hash);
    return hash;
}

void dgl_hash_update(struct dgl_hash *hash, const void *bytes, size_t len)
{
    if (hash->kind == DGL_HASH_BLAKE3)
        blake3_update(&hash->blake3, bytes, len);
    else if (EVP_DigestUpdate(hash->sha256, bytes, len) != 1)
        hash->failed = true;
}

bool dgl_hash_hex(struct dgl_hash *hash, char out[65])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[32];
    if (hash->kind == DGL_HASH_BLAKE3)
        blake3_final(&hash->blake3, digest);
    else if (hash->failed || EVP_DigestFinal_ex(hash->sha256, digest, NULL) != 1)
        return false;
    for (int i = 0; i < 32; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[64] = '\0';
    return true;
}

void dgl_hash_destroy(struct dgl_hash **hash)
{
    if (!*hash)
        return;
    EVP_MD_CTX_free((*hash)->sha256);
    free(*hash);
    *hash = NULL;
}

bool dgl_hash_bytes(enum dgl_hash_kind kind, const void *bytes, size_t len, char out[65])
{
    struct dgl_hash *hash = dgl_hash_create(kind);
    if (!hash)
        return false;
    dgl_hash_update(hash, bytes, len);
    bool ok = dgl_hash_hex(hash, out);
    dgl_hash_destroy(&hash);
    return ok;
}

const char *dgl_hash_name(enum dgl_hash_kind kind)
{
    return kind == DGL_HASH_BLAKE3 ? "blake3" : "sha256";
}

bool dgl_hash_parse_name(const char *name, enum dgl_hash_kind *out)
{
    for (int kind = DGL_HASH_SHA256; kind <= DGL_HASH_BLAKE3; kind++) {
        if (strcmp(name, dgl_hash_name((enum dgl_hash_kind)kind)) == 0) {
            *out = (enum dgl_hash_kind)kind;
            return true;
        }
    }
    return false;
}

bool dgl_hash_is_hex(const char *text, size_t len)
{
    if (len != 64)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (!digit && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    }
    return true;
}
