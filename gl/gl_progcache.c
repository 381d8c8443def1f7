/*
 * Compiled programs on disk, so that a second start does not compile (40 small programs on
 * llvmpipe, 2 cores, 2026-11-21: 55 ms the first time, 3 ms from here).
 *
 * Place. The directory that was given, else $XDG_CACHE_HOME/dopplergl, else ~/.cache/dopplergl.
 * Only this user may be able to write there (core/base/cache_dir.h): drivers trust what they load.
 * One file per program, named KEY.prog. KEY is the SHA-256, in hex, of
 *     the identity (below), a NUL, and the program's complete GLSL source (defines are part of it).
 * The identity is the SHA-256, in hex, of "dopplergl program cache 2", GL_VENDOR, GL_RENDERER,
 * GL_VERSION and the binary formats of the driver in decimal, each followed by a newline. So
 * another driver, driver version or cache version never finds an entry.
 *
 * File, little-endian:
 *     offset  bytes  field
 *          0      8  magic "DGLPROG\n"
 *          8      4  version of this layout: 2
 *         12      4  binary format, as glProgramBinary() takes it
 *         16      8  length of the binary: 1 to 64 MiB
 *         24     64  KEY: a file under another name is foreign
 *         88     64  SHA-256, in hex, of the bytes before this field and after it
 *        152    256  device and driver for people: GL_RENDERER, GL_VERSION; NUL-padded
 *        408         the binary; the file ends with it
 * An entry that differs from this in any way, or that the driver refuses, counts as absent: the
 * program is compiled from source and the entry is replaced. That is silent: the program is equal.
 *
 * Writers put the entry under a temporary name and rename it, so that readers in any number of
 * processes see a whole file or none; the last writer wins with the same content. After a batch of
 * programs that stored something, the entries are trimmed to 256 MiB, oldest modification first;
 * use refreshes the time. Nothing here can fail: a directory that is absent, read-only, full or not
 * private only costs compiling again; `reason` says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/cache_dir.h"
#include "core/base/cache_kind.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/str.h"
#include "gl/gl_internal.h"

#define CACHE_VERSION DGL_CACHE_VERSION
#define SUFFIX        ".prog"
#define MAX_BINARY    (64u << 20)
#define MAX_BYTES     (256ull << 20)

static const char magic[8] = {'D', 'G', 'L', 'P', 'R', 'O', 'G', '\n'};

enum {
    AT_VERSION = DGL_CACHE_VERSION_AT,
    AT_FORMAT = 12,
    AT_LENGTH = 16,
    AT_KEY = 24,
    AT_CHECKSUM = 88,
    AT_DEVICE = DGL_CACHE_DEVICE_AT,
    AT_BINARY = AT_DEVICE + DGL_CACHE_DEVICE_BYTES,
    HEX = 64,
};

/* ---- set-up ---------------------------------------------------------------------------------- */

static void set_reason(struct gl_progcache *cache, char *reason)
{
    free(cache->reason);
    cache->reason = reason;
}

static void set_write_reason(struct gl_progcache *cache, int error)
{
    struct dgl_buf why = {0};
    char space[DGL_ERRNO_BYTES];
    dgl_buf_printf(&why, "%s: %s", DGL_PRINTABLE(cache->dir), dgl_errno_text(error, space));
    set_reason(cache, dgl_buf_take(&why));
}

/* As dgl_cache_open(); a reason becomes the cache's. */
static int open_dir(struct gl_progcache *cache, bool make)
{
    char *reason = NULL;
    int dir = dgl_cache_open(cache->dir, make, &reason);
    if (reason)
        set_reason(cache, reason);
    return dir;
}

void gl_progcache_init(struct gl_progcache *cache, const struct gl_progcache_params *params)
{
    struct dgl_buf text = {0};

    *cache = (struct gl_progcache){.max_bytes = MAX_BYTES, .programs = params->num_formats > 0};
    if (params->dir && !params->dir[0])
        return;
    dgl_buf_printf(&text, "dopplergl program cache %d\n%s\n%s\n%s\n", CACHE_VERSION, params->vendor,
                   params->renderer, params->version);
    for (int i = 0; i < params->num_formats; i++)
        dgl_buf_printf(&text, "%d\n", (int)params->formats[i]);
    bool identified =
        !text.failed && dgl_hash_bytes(DGL_HASH_SHA256, text.p, text.len, cache->identity);
    dgl_buf_finish(&text);
    if (!identified)
        return;
    snprintf(cache->device, sizeof(cache->device), "%s, %s", params->renderer, params->version);
    cache->dir = dgl_cache_path(params->dir);
    if (!cache->dir) {
        cache->reason = dgl_strdup("neither XDG_CACHE_HOME nor HOME is an absolute path");
        return;
    }
    /* For the reason: a cache that is never used is worth a word. */
    int dir = open_dir(cache, false);
    if (dir >= 0)
        close(dir);
}

void gl_progcache_tell(struct gl_progcache *cache, const struct dgl_log *log)
{
    if (cache->reason && !cache->told)
        dgl_notice(log, "%s are not kept: %s",
                   cache->programs ? "compiled programs" : "known answers of kernels",
                   cache->reason);
    cache->told = cache->reason != NULL;
}

void gl_progcache_finish(struct gl_progcache *cache)
{
    free(cache->dir);
    free(cache->reason);
    *cache = (struct gl_progcache){0};
}

bool gl_progcache_key(const struct gl_progcache *cache, const char *source, size_t len,
                      char key[65])
{
    if (!cache->dir)
        return false;
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!hash)
        return false;
    dgl_hash_update(hash, cache->identity, HEX + 1);
    dgl_hash_update(hash, source, len);
    bool ok = dgl_hash_hex(hash, key);
    dgl_hash_destroy(&hash);
    return ok;
}

static void entry_name(const char *key, char name[HEX + sizeof(SUFFIX)])
{
    snprintf(name, HEX + sizeof(SUFFIX), "%.64s%s", key, SUFFIX);
}

static bool checksum(const unsigned char *header, const void *binary, size_t len, char out[65])
{
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!hash)
        return false;
    dgl_hash_update(hash, header, AT_CHECKSUM);
    dgl_hash_update(hash, header + AT_DEVICE, DGL_CACHE_DEVICE_BYTES);
    dgl_hash_update(hash, binary, len);
    bool ok = dgl_hash_hex(hash, out);
    dgl_hash_destroy(&hash);
    return ok;
}

/* ---- load ------------------------------------------------------------------------------------ */

bool gl_progcache_load(struct gl_progcache *cache, const char *key, uint32_t *format, void **bytes,
                       size_t *len)
{
    char name[HEX + sizeof(SUFFIX)], sum[65], *text = NULL;
    size_t size = 0;
    int dir = open_dir(cache, false);

    if (dir < 0)
        return false;
    entry_name(key, name);
    bool ok = dgl_cache_read(dir, name, AT_BINARY + MAX_BINARY, true, &text, &size);
    close(dir);
    const unsigned char *file = (const unsigned char *)text;
    ok = ok && size > AT_BINARY && memcmp(file, magic, sizeof(magic)) == 0 &&
         dgl_get_le(file + AT_VERSION, 4) == CACHE_VERSION &&
         dgl_get_le(file + AT_LENGTH, 8) == size - AT_BINARY &&
         memcmp(file + AT_KEY, key, HEX) == 0 &&
         checksum(file, file + AT_BINARY, size - AT_BINARY, sum) &&
         memcmp(file + AT_CHECKSUM, sum, HEX) == 0;
    if (ok) {
        *format = (uint32_t)dgl_get_le(file + AT_FORMAT, 4);
        *len = size - AT_BINARY;
        memmove(text, text + AT_BINARY, *len);
        *bytes = text;
    } else {
        free(text);
    }
    return ok;
}

/* ---- store ----------------------------------------------------------------------------------- */

void gl_progcache_store(struct gl_progcache *cache, const char *key, uint32_t format,
                        const void *bytes, size_t len)
{
    unsigned char header[AT_BINARY] = {0};
    char sum[65], name[HEX + sizeof(SUFFIX)];

    if (len == 0 || len > MAX_BINARY)
        return;
    memcpy(header, magic, sizeof(magic));
    dgl_put_le(header + AT_VERSION, CACHE_VERSION, 4);
    dgl_put_le(header + AT_FORMAT, format, 4);
    dgl_put_le(header + AT_LENGTH, len, 8);
    memcpy(header + AT_KEY, key, HEX);
    memcpy(header + AT_DEVICE, cache->device, strlen(cache->device));
    if (!checksum(header, bytes, len, sum))
        return;
    memcpy(header + AT_CHECKSUM, sum, HEX);

    int dir = open_dir(cache, true);
    if (dir < 0)
        return;
    entry_name(key, name);
    const struct dgl_str parts[] = {{(const char *)header, sizeof(header)}, {bytes, len}};
    if (dgl_cache_write(dir, name, parts, 2)) {
        cache->stored = true;
        set_reason(cache, NULL);
    } else {
        set_write_reason(cache, errno);
    }
    close(dir);
}

bool gl_progcache_prepare(struct gl_progcache *cache)
{
    int dir = cache->dir ? open_dir(cache, true) : -1;
    if (dir < 0)
        return false;
    bool writable = faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) == 0;
    if (writable)
        set_reason(cache, NULL);
    else
        set_write_reason(cache, errno);
    close(dir);
    return writable;
}

/* ---- trim ------------------------------------------------------------------------------------ */

struct entry {
    char *name;
    uint64_t size;
    struct timespec modified;
};

static int entry_compare(const void *a, const void *b)
{
    const struct timespec *x = &((const struct entry *)a)->modified;
    const struct timespec *y = &((const struct entry *)b)->modified;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

void gl_progcache_trim(struct gl_progcache *cache)
{
    char **names = NULL;
    size_t count = 0, num = 0;
    uint64_t total = 0;

    int dir = cache->stored ? open_dir(cache, false) : -1;
    if (dir < 0)
        return;
    if (dgl_dir_list(NULL, cache->dir, &names, &count) != DGL_OK)
        count = 0;
    struct entry *entries = dgl_new_array(struct entry, count);
    for (size_t i = 0; entries && i < count; i++) {
        const struct dgl_cache_kind *kind = dgl_cache_kind_of(names[i]);
        struct entry *entry = &entries[num];
        if (kind && kind->trimmed &&
            dgl_cache_stat(dir, names[i], &entry->size, &entry->modified)) {
            entry->name = names[i];
            total += entry->size;
            num++;
        }
    }
    if (total > cache->max_bytes)
        qsort(entries, num, sizeof(entries[0]), entry_compare);
    for (size_t i = 0; i < num && total > cache->max_bytes; i++) {
        if (dgl_cache_remove(dir, entries[i].name))
            total -= entries[i].size;
    }
    free(entries);
    dgl_names_free(names, count);
    close(dir);
    cache->stored = false;
}
