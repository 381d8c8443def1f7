/* Checks the libs of all kernels: each lib must exist and must not conflict with its kernel or with
 * other libs. */
#include "kernels/set/kernel_set_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "kernels/format/kernel_format.h"

/* A lib that a kernel may splice in. A program contains only one lib per `ref`. */
struct used_lib {
    const struct kernel_lib *lib;
    uint32_t ref;
};

/* Libs of different LIB lines may be in one program, so their names must differ. */
static enum dgl_status check_lib_pair(const struct dgl_log *log, const struct kernel *kernel,
                                      const struct kernel_lib *a, const struct kernel_lib *b)
{
    for (uint32_t i = 0; i < b->decls.num_lets + b->decls.num_shared; i++) {
        const char *name = i < b->decls.num_lets ? b->decls.lets[i].name
                                                 : b->decls.shared[i - b->decls.num_lets].name;
        if (kernel_decls_have(&a->decls, name))
            return dgl_fail(log, DGL_ERR_KERNEL,
                            "%s: the name %s is declared by the lib %s too (kernel %s)", b->path,
                            name, a->path, kernel->name);
    }
    return DGL_OK;
}

/* On failure *at is the conflicting lib, preferably one that is not built in. It is NULL if a lib
 * is missing. Texts that are all built in are compared only with `builtin`. */
static enum dgl_status check_kernel_libs(const struct dgl_log *log, const struct kernel_set *set,
                                         const struct kernel *kernel, bool builtin,
                                         const struct kernel_lib **at)
{
    struct used_lib *used = NULL;
    size_t num_used = 0, cap = 0;
    uint32_t num_lets = kernel->decls.num_lets, num_shared = kernel->decls.num_shared;
    enum dgl_status status = DGL_OK;
    for (uint32_t r = 0; r < kernel->num_libs; r++) {
        const struct kernel_lib_ref *ref = &kernel->libs[r];
        struct dgl_str key = kernel_lib_key(ref->name), words = DGL_STR("none"), word;
        uint32_t most_lets = 0, most_shared = 0;
        for (uint32_t i = 0; i < kernel->num_when; i++)
            if (dgl_str_eq(key, kernel->when[i].key))
                words = dgl_str_of(kernel->when[i].words);
        while (kernel_word_next(&words, &word)) {
            char name[96];
            const struct kernel_lib *lib = kernel_set_lib_of(set, ref, word, name);
            *at = NULL;
            if (!lib)
                TRY(dgl_fail(log, DGL_ERR_KERNEL,
                             "%s:%u: LIB: there is no lib %s (kernel %s); it would be the file "
                             "%s.glsl",
                             kernel->path, ref->line, name, kernel->name, name));
            *at = lib;
            const bool own = builtin || kernel->source != 0 || lib->source != 0;
            if (own)
                TRY(kernel_lib_check(log, kernel, lib));
            for (size_t i = 0; i < num_used; i++) {
                *at = lib->source != 0 ? lib : used[i].lib;
                if ((own || used[i].lib->source != 0) && used[i].ref != r && used[i].lib != lib)
                    TRY(check_lib_pair(log, kernel, used[i].lib, lib));
            }
            if (!dgl_grow((void **)&used, &cap, num_used + 1, sizeof(*used)))
                TRY(dgl_fail_memory(log, "the libs of a kernel", num_used));
            used[num_used++] = (struct used_lib){lib, r};
            if (lib->decls.num_lets > most_lets)
                most_lets = lib->decls.num_lets;
            if (lib->decls.num_shared > most_shared)
                most_shared = lib->decls.num_shared;
        }
        num_lets += most_lets;
        num_shared += most_shared;
    }
    for (size_t i = 0; i < num_used; i++)
        *at = used[i].lib->source != 0 ? used[i].lib : *at;
    if (num_lets > KERNEL_MAX_LETS || num_shared > KERNEL_MAX_SHARED)
        status = dgl_fail(log, DGL_ERR_KERNEL,
                          "%s: kernel %s and its libs have more than %d LETs or %d SHAREDs",
                          kernel->path, kernel->name, KERNEL_MAX_LETS, KERNEL_MAX_SHARED);
done:
    free(used);
    return status;
}

/* Drops a text. The built-in text of that name, if any, replaces it. */
static void drop_kernel(struct kernel_set *set, size_t index)
{
    const struct kernel *kernel = set->kernels[index];
    assert(kernel->source != 0); /* tests check built-in texts */
    set->kernels[index] = kernel->builtin;
    if (!kernel->builtin)
        memmove(&set->kernels[index], &set->kernels[index + 1],
                (--set->count - index) * sizeof(set->kernels[0]));
}

static void drop_lib(struct kernel_set *set, const struct kernel_lib *lib)
{
    size_t index = 0;
    while (set->libs[index] != lib)
        index++;
    assert(lib->source != 0);
    set->libs[index] = lib->builtin;
    if (!lib->builtin)
        memmove(&set->libs[index], &set->libs[index + 1],
                (--set->num_libs - index) * sizeof(set->libs[0]));
}

enum dgl_status kernel_set_check_libs(const struct dgl_log *log, struct kernel_set *set,
                                      bool builtin)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < set->count && status == DGL_OK;) {
        const struct kernel *kernel = set->kernels[i];
        const struct kernel_lib *lib = NULL;
        struct fault_log own;
        kernel_set_begin_file(&own, log, set);
        status = check_kernel_libs(&own.log, set, kernel, builtin, &lib);
        const bool wrong = status != DGL_OK, of_lib = kernel->source == 0 && lib;
        status = fault_log_end(&own, of_lib ? lib->path : kernel->path, status);
        if (!wrong) {
            i++;
        } else if (status == DGL_OK) { /* drop that file and start again */
            if (of_lib)
                drop_lib(set, lib);
            else
                drop_kernel(set, i);
            i = 0;
        }
    }
    return status;
}
