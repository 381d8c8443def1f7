/* Remembered hashes in a file of lines. */
#include "loader/model/hash_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cache_dir.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define FILE_NAME  "hashes"
#define FIRST_LINE "dopplergl hashes 1\n"

/* A line has at most 7 numbers of 20 digits, and a hash of 64. */
enum { MAX_LINES = 4096, MAX_BYTES = MAX_LINES * 256, SETTLED_SECONDS = 2 };

struct hash_cache {
    const struct dgl_log *log;
    char *path;
    char *text; /* of the file, lines without the first one; NULL = none */
    struct dgl_buf added;
    int64_t now_ns;
};

/* The line of a file with its newline: equal lines are equal knowledge. */
static void append_line(struct dgl_buf *out, const struct dgl_file_stamp *s,
                        enum dgl_hash_kind kind, const char *hash)
{
    dgl_buf_printf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %s %.64s\n",
                   s->device, s->inode, s->size, s->modified_ns, s->changed_ns, dgl_hash_name(kind),
                   hash);
}

struct hash_cache *hash_cache_open(const struct dgl_log *log, const char *path)
{
    struct hash_cache *cache = path ? dgl_new(struct hash_cache) : NULL;
    struct timespec now;
    char *reason = NULL;
    size_t len;
    if (!cache)
        return NULL;
    cache->log = log;
    cache->path = strdup(path);
    if (!cache->path) {
        free(cache);
        return NULL;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    cache->now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    int dir = dgl_cache_open(path, false, &reason);
    if (dir >= 0) {
        bool read = dgl_cache_read(dir, FILE_NAME, MAX_BYTES, false, &cache->text, &len);
        if (read && (strlen(cache->text) != len ||
                     strncmp(cache->text, FIRST_LINE, strlen(FIRST_LINE)) != 0)) {
            free(cache->text);
            cache->text = NULL;
        } else if (read) {
            memmove(cache->text, cache->text + strlen(FIRST_LINE), len - strlen(FIRST_LINE) + 1);
        }
        close(dir);
    }
    free(reason);
    return cache;
}

bool hash_cache_knows(const struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                      enum dgl_hash_kind kind, const char *hash)
{
    struct dgl_buf line = {0};
    bool known = false;
    if (!cache || !cache->text)
        return false;
    append_line(&line, stamp, kind, hash);
    for (const char *at = cache->text; !line.failed && !known && (at = strstr(at, line.p)); at++)
        known = at == cache->text || at[-1] == '\n';
    dgl_buf_finish(&line);
    return known;
}

void hash_cache_add(struct hash_cache *cache, const struct dgl_file_stamp *stamp,
                    enum dgl_hash_kind kind, const char *hash)
{
    int64_t last = stamp->modified_ns > stamp->changed_ns ? stamp->modified_ns : stamp->changed_ns;
    if (!cache || cache->now_ns - last < (int64_t)SETTLED_SECONDS * 1000000000 ||
        hash_cache_knows(cache, stamp, kind, hash))
        return;
    append_line(&cache->added, stamp, kind, hash);
}

/* The end of a text with at most `lines` lines. */
static const char *last_lines(const char *text, size_t lines)
{
    const char *at = text + strlen(text);
    while (at > text) {
        if (at[-1] == '\n' && lines-- == 0)
            break;
        at--;
    }
    return at;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

void hash_cache_close(struct hash_cache **pcache)
{
    struct hash_cache *cache = *pcache;
    char *reason = NULL;
    *pcache = NULL;
    if (!cache)
        return;
    if (cache->added.len && !cache->added.failed) {
        const char *added = last_lines(cache->added.p, MAX_LINES);
        const char *old =
            last_lines(cache->text ? cache->text : "", MAX_LINES - count_lines(added));
        const struct dgl_str parts[] = {DGL_STR(FIRST_LINE), dgl_str_of(old), dgl_str_of(added)};
        int dir = dgl_cache_open(cache->path, true, &reason);
        if (dir < 0 || !dgl_cache_write(dir, FILE_NAME, parts, 3))
            dgl_debug(cache->log, "hashes are not remembered: %s",
                      reason ? reason : "the cache folder cannot be written");
        if (dir >= 0)
            close(dir);
    }
    free(reason);
    dgl_buf_finish(&cache->added);
    free(cache->text);
    free(cache->path);
    free(cache);
}
