/* The table of kinds. gl/gl_progcache.c defines the format of programs. All other kinds are record
 * files, whose fields are in core/exec/exec_record.c, core/exec/tune_store.c,
 * core/memory/kernel_records.c and loader/model/hash_cache.c. */
#include "core/base/cache_kind.h"

#include <string.h>

#include "core/base/hash.h"

#define HEX 64

const struct dgl_cache_kind dgl_cache_kinds[] = {
    {"programs", ".prog", NULL, "compiled kernels", false, true},
    {"executors", ".exec", NULL, "how tokens are decoded faster, and whether groups may wait", true,
     true},
    {"tunings", ".tune", NULL, "winners of `dopplergl tune`", true, false},
    {"answers", ".judged", NULL, "kernels that gave known answers on a device", true, false},
    {"hashes", NULL, "hashes", "files of models that were found whole", true, false},
};
const size_t dgl_cache_num_kinds = sizeof(dgl_cache_kinds) / sizeof(dgl_cache_kinds[0]);

/* Returns true if `rest`, the part after a cache file's name, is empty or the suffix of a
 * temporary. */
static bool is_end(const char *rest)
{
    return rest[0] == '\0' || strncmp(rest, ".tmp-", 5) == 0;
}

const struct dgl_cache_kind *dgl_cache_kind_of(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < dgl_cache_num_kinds; i++) {
        const struct dgl_cache_kind *kind = &dgl_cache_kinds[i];
        const char *word = kind->suffix ? kind->suffix : kind->file;
        const size_t at = kind->suffix ? HEX : 0, size = strlen(word);
        if (len >= at + size && (at == 0 || dgl_hash_is_hex(name, HEX)) &&
            memcmp(name + at, word, size) == 0 && is_end(name + at + size))
            return kind;
    }
    return NULL;
}
