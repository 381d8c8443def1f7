/* The registry: kernels and chunks of the library, of directories and of single files, and the
 * hints in force. */
#include "kernels/kernel_private.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "kernels/set/embedded.h"

#define FILE_MAX (1u << 20) /* bytes of a kernel file */

struct kernel_chunk {
    const char *name, *path, *text;
    size_t len;
};

struct kernel_set {
    atomic_uint refs;
    struct kernel_set *parent; /* owns the kernels and chunks; NULL: this set does */
    struct dgl_arena arena;
    struct kernel **kernels;
    size_t count, cap;
    struct kernel_chunk *chunks;
    size_t num_chunks, cap_chunks;
    struct kernel_hints hints;
};

/* ---- look-up --------------------------------------------------------------------------------- */

size_t kernel_set_count(const struct kernel_set *set)
{
    return set->count;
}

const struct kernel *kernel_set_at(const struct kernel_set *set, size_t index)
{
    return set->kernels[index];
}

static size_t find_index(const struct kernel_set *set, const char *name)
{
    size_t i = 0;
    while (i < set->count && strcmp(set->kernels[i]->name, name) != 0)
        i++;
    return i;
}

const struct kernel *kernel_set_find(const struct kernel_set *set, const char *name)
{
    size_t i = find_index(set, name);
    return i < set->count ? set->kernels[i] : NULL;
}

static struct kernel_chunk *find_chunk(const struct kernel_set *set, struct dgl_str name)
{
    for (size_t i = 0; i < set->num_chunks; i++)
        if (dgl_str_eq(name, set->chunks[i].name))
            return &set->chunks[i];
    return NULL;
}

const char *kernel_set_chunk(const struct kernel_set *set, const char *name)
{
    const struct kernel_chunk *chunk = find_chunk(set, dgl_str_of(name));
    return chunk ? chunk->text : NULL;
}

const struct kernel_hints *kernel_set_hints(const struct kernel_set *set)
{
    return &set->hints;
}

const char *kernel_set_hint(const struct kernel_set *set, const char *key, const char **origin)
{
    const struct kernel_hint *hint = kernel_hints_find(&set->hints, key);
    if (origin)
        *origin = hint ? hint->origin : NULL;
    return hint ? hint->value : NULL;
}

/* ---- filling --------------------------------------------------------------------------------- */

/* One text that is being added. `path` is what messages say, `source` numbers its layer of files: 0
 * = built in. */
struct addition {
    const struct dgl_log *log;
    struct kernel_set *set;
    const char *path, *origin;
    const char *text; /* owned by the set, or static */
    size_t len;
    uint32_t source;
};

static enum dgl_status replace_kernel(const struct addition *a, size_t index, struct kernel *kernel)
{
    const struct kernel *old = a->set->kernels[index];
    if (old->source == a->source)
        return dgl_fail(a->log, DGL_ERR_KERNEL, "%s: the NAME %s is also that of %s", a->path,
                        kernel->name, old->path);
    if (strcmp(old->op, kernel->op) != 0)
        return dgl_fail(a->log, DGL_ERR_KERNEL,
                        "%s: it would replace the kernel %s of OP %s (%s) by one of OP %s: choose "
                        "another NAME",
                        a->path, kernel->name, old->op, old->path, kernel->op);
    kernel->added = old->added;
    a->set->kernels[index] = kernel;
    return DGL_OK;
}

static enum dgl_status add_kernel(const struct addition *a)
{
    struct kernel_set *set = a->set;
    struct kernel *kernel = NULL;
    enum dgl_status status = kernel_parse(a->log, &set->arena, a->path, a->text, a->len, &kernel);
    if (status != DGL_OK)
        return status;
    kernel->origin = a->origin;
    kernel->source = a->source;
    size_t index = find_index(set, kernel->name);
    if (index < set->count)
        return replace_kernel(a, index, kernel);
    if (!dgl_grow((void **)&set->kernels, &set->cap, set->count + 1, sizeof(*set->kernels)))
        return dgl_fail_memory(a->log, "the list of kernels", set->count);
    kernel->added = a->source != 0;
    set->kernels[set->count++] = kernel;
    return DGL_OK;
}

static enum dgl_status add_chunk(const struct addition *a, const char *file)
{
    struct kernel_set *set = a->set;
    struct dgl_str name = {file, strlen(file) - strlen(".glsl")};
    const struct dgl_str text = {a->text, a->len};
    enum dgl_status status = kernel_body_check(a->log, a->path, text, 1, NULL);
    if (status != DGL_OK)
        return status;
    struct kernel_chunk *chunk = find_chunk(set, name);
    if (!chunk) {
        if (!dgl_grow((void **)&set->chunks, &set->cap_chunks, set->num_chunks + 1,
                      sizeof(*set->chunks)))
            return dgl_fail_memory(a->log, "the list of chunks", set->num_chunks);
        chunk = &set->chunks[set->num_chunks++];
    }
    *chunk = (struct kernel_chunk){
        .name = dgl_arena_strndup(&set->arena, name.p, name.len),
        .path = a->path,
        .text = a->text,
        .len = a->len,
    };
    return chunk->name ? DGL_OK : dgl_fail_memory(a->log, "a chunk's name", name.len);
}

static bool ends_with(const char *name, const char *end)
{
    size_t a = strlen(name), b = strlen(end);
    return a > b && strcmp(name + a - b, end) == 0;
}

static enum dgl_status add_builtins(const struct dgl_log *log, struct kernel_set *set)
{
    enum dgl_status status = DGL_OK;
    for (const struct kernel_embedded *e = kernel_embedded; e->path && status == DGL_OK; e++) {
        struct addition a = {.log = log, .set = set, .text = e->text, .len = e->len};
        a.origin = "builtin";
        a.path = dgl_arena_printf(&set->arena, "kernels/%s", e->path);
        if (!a.path)
            status = dgl_fail_memory(log, "the list of kernels", set->count);
        else if (ends_with(e->path, ".glsl"))
            status = add_chunk(&a, strrchr(a.path, '/') + 1);
        else
            status = add_kernel(&a);
    }
    return status;
}

/* Reads a file into the set's memory and adds it as a kernel, or as a chunk when `chunk` is its
 * file name. */
static enum dgl_status add_file(const struct dgl_log *log, struct kernel_set *set, const char *path,
                                const char *chunk, uint32_t source)
{
    char *text = NULL;
    size_t len = 0;
    enum dgl_status status = dgl_file_slurp(log, path, FILE_MAX, &text, &len);
    if (status != DGL_OK)
        return status;
    struct addition a = {.log = log, .set = set, .len = len, .source = source};
    a.text = dgl_arena_strndup(&set->arena, text, len);
    a.path = a.origin = dgl_arena_strndup(&set->arena, path, strlen(path));
    free(text);
    if (!a.text || !a.path)
        return dgl_fail_memory(log, "a kernel file", len);
    return chunk ? add_chunk(&a, chunk) : add_kernel(&a);
}

/* Files of one directory with the given ending, in the order of their names; *count is raised by
 * each. */
static enum dgl_status add_files(const struct dgl_log *log, struct kernel_set *set, const char *dir,
                                 const char *ending, uint32_t source, size_t *count)
{
    bool chunks = strcmp(ending, ".glsl") == 0;
    char **names = NULL;
    size_t num_names = 0;
    enum dgl_status status = dgl_dir_list(log, dir, &names, &num_names);
    for (size_t i = 0; i < num_names && status == DGL_OK; i++) {
        if (!ends_with(names[i], ending))
            continue;
        char *path = dgl_path_join(dir, names[i]);
        status = path ? add_file(log, set, path, chunks ? names[i] : NULL, source)
                      : dgl_fail_memory(log, "a path", strlen(dir));
        free(path);
        *count += 1;
    }
    dgl_names_free(names, num_names);
    return status;
}

static enum dgl_status add_dir(const struct dgl_log *log, struct kernel_set *set, const char *dir,
                               uint32_t source)
{
    size_t count = 0;
    char *chunks = dgl_path_join(dir, "chunk");
    if (!chunks)
        return dgl_fail_memory(log, "a path", strlen(dir));
    enum dgl_status status = add_files(log, set, dir, ".comp", source, &count);
    if (status == DGL_OK && dgl_path_is_dir(chunks))
        status = add_files(log, set, chunks, ".glsl", source, &count);
    free(chunks);
    if (status == DGL_OK && count == 0)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s: the kernel directory holds no *.comp and no chunk/*.glsl", dir);
    return status;
}

static enum dgl_status add_user_files(const struct dgl_log *log, struct kernel_set *set,
                                      const struct dgl_kernels_params *params)
{
    uint32_t source = 1;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < params->num_dirs && status == DGL_OK; i++)
        status = add_dir(log, set, params->dirs[i], source++);
    for (size_t i = 0; i < params->num_files && status == DGL_OK; i++)
        status = add_file(log, set, params->files[i], NULL, source++);
    return status;
}

/* ---- chunks that kernels name: each must exist and use only what the kernel declares --------- */

static enum dgl_status check_chunk(const struct dgl_log *log, const struct kernel_set *set,
                                   const struct kernel *kernel, uint32_t line, struct dgl_str name)
{
    const struct kernel_chunk *chunk = find_chunk(set, name);
    if (!chunk)
        return dgl_fail(log, DGL_ERR_KERNEL,
                        "%s:%u: CHUNK: there is no chunk %.*s (kernel %s); it would be the file "
                        "chunk/%.*s.glsl",
                        kernel->path, line, (int)name.len, name.p, kernel->name, (int)name.len,
                        name.p);
    return kernel_body_check(log, chunk->path, (struct dgl_str){chunk->text, chunk->len}, 1,
                             kernel);
}

static enum dgl_status check_kernel_chunk(const struct dgl_log *log, const struct kernel_set *set,
                                          const struct kernel *kernel,
                                          const struct kernel_chunk_ref *ref)
{
    const char *open = strchr(ref->name, '{'), *close = strchr(ref->name, '}');
    if (!open || !close)
        return check_chunk(log, set, kernel, ref->line, dgl_str_of(ref->name));
    struct dgl_str key = {open + 1, (size_t)(close - open - 1)}, words = {"", 0}, word;
    for (uint32_t i = 0; i < kernel->num_when; i++)
        if (dgl_str_eq(key, kernel->when[i].key))
            words = dgl_str_of(kernel->when[i].words);
    enum dgl_status status = DGL_OK;
    struct dgl_buf name = {0};
    while (status == DGL_OK && kernel_word_next(&words, &word)) {
        name.len = 0;
        dgl_buf_printf(&name, "%.*s%.*s%s", (int)(open - ref->name), ref->name, (int)word.len,
                       word.p, close + 1);
        status = name.failed
                     ? dgl_fail_memory(log, "a chunk's name", word.len)
                     : check_chunk(log, set, kernel, ref->line, (struct dgl_str){name.p, name.len});
    }
    dgl_buf_finish(&name);
    return status;
}

static enum dgl_status check_chunks(const struct dgl_log *log, const struct kernel_set *set)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < set->count; i++)
        for (uint32_t c = 0; c < set->kernels[i]->num_chunks && status == DGL_OK; c++)
            status = check_kernel_chunk(log, set, set->kernels[i], &set->kernels[i]->chunks[c]);
    return status;
}

/* ---- hints ----------------------------------------------------------------------------------- */

static struct kernel_hint_source hint_source(const struct dgl_log *log, struct kernel_set *set,
                                             enum kernel_layer layer, const char *origin)
{
    return (struct kernel_hint_source){.log = log,
                                       .arena = &set->arena,
                                       .set = set,
                                       .hints = &set->hints,
                                       .layer = layer,
                                       .origin = origin};
}

static enum dgl_status add_config(const struct dgl_log *log, struct kernel_set *set,
                                  const char *path)
{
    const struct kernel_hint_source source = hint_source(log, set, KERNEL_LAYER_CONFIG, path);
    char *text = NULL;
    size_t len = 0;
    enum dgl_status status = dgl_stream_slurp(log, path, FILE_MAX, &text, &len);
    if (status == DGL_OK)
        status = kernel_hints_add_json(&source, text, len);
    free(text);
    return status;
}

static enum dgl_status add_profile(const struct dgl_log *log, struct kernel_set *set,
                                   const char *profile)
{
    const char *origin = dgl_arena_printf(&set->arena, "--kernel-profile %s", profile);
    const struct kernel_hint_source source = hint_source(log, set, KERNEL_LAYER_PROFILE, origin);
    return origin ? kernel_hints_add_profile(&source, profile)
                  : dgl_fail_memory(log, "a kernel profile", strlen(profile));
}

static enum dgl_status add_hints(const struct dgl_log *log, struct kernel_set *set,
                                 const struct dgl_kernels_params *params)
{
    enum dgl_status status = DGL_OK;
    struct kernel_hint_source source;
    if (params->config_file)
        status = add_config(log, set, params->config_file);
    if (status == DGL_OK && params->profile)
        status = add_profile(log, set, params->profile);
    source = hint_source(log, set, KERNEL_LAYER_HINTS, KERNEL_HINTS_ORIGIN);
    if (status == DGL_OK && params->hints)
        status = kernel_hints_add_json(&source, params->hints, strlen(params->hints));
    source = hint_source(log, set, KERNEL_LAYER_FLAG, "flag");
    for (size_t i = 0; i < params->num_flags && status == DGL_OK; i++)
        status = kernel_hints_add_flag(&source, params->flags[i]);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct kernel_set *new_set(void)
{
    struct kernel_set *set = dgl_new(struct kernel_set);
    if (set)
        atomic_init(&set->refs, 1);
    return set;
}

enum dgl_status kernel_set_create(const struct dgl_log *log,
                                  const struct dgl_kernels_params *params, struct kernel_set **out)
{
    static const struct dgl_kernels_params none = {0};
    *out = NULL;
    params = params ? params : &none;
    struct kernel_set *set = new_set();
    if (!set)
        return dgl_fail_memory(log, "a set of kernels", sizeof(*set));
    enum dgl_status status = add_builtins(log, set);
    if (status == DGL_OK)
        status = add_user_files(log, set, params);
    if (status == DGL_OK)
        status = check_chunks(log, set);
    if (status == DGL_OK)
        status = add_hints(log, set, params);
    if (status == DGL_OK)
        *out = set;
    else
        kernel_set_destroy(&set);
    return status;
}

struct kernel_set *kernel_set_ref(struct kernel_set *set)
{
    atomic_fetch_add(&set->refs, 1);
    return set;
}

void kernel_set_destroy(struct kernel_set **set)
{
    struct kernel_set *old = *set;
    *set = NULL;
    if (!old || atomic_fetch_sub(&old->refs, 1) != 1)
        return;
    if (old->parent) {
        kernel_set_destroy(&old->parent);
    } else {
        free(old->kernels);
        free(old->chunks);
    }
    free(old->hints.items);
    dgl_arena_finish(&old->arena);
    free(old);
}

/* A set that shares the kernels and starts with the same hints. */
static struct kernel_set *derive(struct kernel_set *set)
{
    struct kernel_set *child = new_set();
    if (!child)
        return NULL;
    child->parent = kernel_set_ref(set);
    child->kernels = set->kernels;
    child->count = set->count;
    child->chunks = set->chunks;
    child->num_chunks = set->num_chunks;
    if (!dgl_grow((void **)&child->hints.items, &child->hints.cap, set->hints.count + 1,
                  sizeof(*set->hints.items))) {
        kernel_set_destroy(&child);
        return NULL;
    }
    if (set->hints.count)
        memcpy(child->hints.items, set->hints.items, set->hints.count * sizeof(*set->hints.items));
    child->hints.count = set->hints.count;
    return child;
}

enum dgl_status kernel_set_with_hints(const struct dgl_log *log, struct kernel_set *set,
                                      enum kernel_layer layer, const char *origin, const char *json,
                                      struct kernel_set **out)
{
    *out = NULL;
    struct kernel_set *child = derive(set);
    if (!child)
        return dgl_fail_memory(log, "a set of kernels", sizeof(*child));
    const struct kernel_hint_source source = hint_source(log, child, layer, origin);
    enum dgl_status status = kernel_hints_add_json(&source, json, strlen(json));
    if (status == DGL_OK)
        *out = child;
    else
        kernel_set_destroy(&child);
    return status;
}

enum dgl_status kernel_set_with_manifest(const struct dgl_log *log, struct kernel_set *set,
                                         const char *defaults_json, const char *pinned_json,
                                         struct kernel_set **out)
{
    struct kernel_set *defaults = NULL;
    *out = NULL;
    enum dgl_status status = kernel_set_with_hints(log, set, KERNEL_LAYER_MANIFEST, "manifest",
                                                   defaults_json ? defaults_json : "{}", &defaults);
    if (status == DGL_OK)
        status = kernel_set_with_hints(log, defaults, KERNEL_LAYER_PINNED, "manifest (pinned)",
                                       pinned_json ? pinned_json : "{}", out);
    kernel_set_destroy(&defaults);
    return status;
}
