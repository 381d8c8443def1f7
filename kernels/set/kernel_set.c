/* Kernel sets: look-up of kernels and libs, layers of hints, creation and destruction. */
#include "kernels/set/kernel_set_internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "kernels/format/kernel_format.h"
#include "kernels/set/embedded.h"
#include "kernels/set/kernel_hints.h"

/* ---- look-up --------------------------------------------------------------------------------- */

size_t kernel_set_count(const struct kernel_set *set)
{
    return set->count;
}

const struct kernel *kernel_set_at(const struct kernel_set *set, size_t index)
{
    return set->kernels[index];
}

size_t kernel_set_index(const struct kernel_set *set, const char *name)
{
    size_t i = 0;
    while (i < set->count && strcmp(set->kernels[i]->name, name) != 0)
        i++;
    return i;
}

const struct kernel *kernel_set_find(const struct kernel_set *set, const char *name)
{
    size_t i = kernel_set_index(set, name);
    return i < set->count ? set->kernels[i] : NULL;
}

const struct kernel_lib *kernel_set_lib(const struct kernel_set *set, const char *name)
{
    for (size_t i = 0; i < set->num_libs; i++)
        if (strcmp(set->libs[i]->name, name) == 0)
            return set->libs[i];
    return NULL;
}

const struct kernel_lib *kernel_set_lib_of(const struct kernel_set *set,
                                           const struct kernel_lib_ref *ref, struct dgl_str word,
                                           char name[96])
{
    const struct kernel_lib *lib = NULL;
    if (ref->other[0]) {
        kernel_lib_name(ref->other, word, name);
        lib = kernel_set_lib(set, name);
    }
    char first[96];
    kernel_lib_name(ref->name, word, first);
    const struct kernel_lib *own = kernel_set_lib(set, first);
    if (own || !lib)
        memcpy(name, first, sizeof(first));
    return own ? own : lib;
}

size_t kernel_set_num_libs(const struct kernel_set *set)
{
    return set->num_libs;
}

const struct kernel_lib *kernel_set_lib_at(const struct kernel_set *set, size_t index)
{
    return set->libs[index];
}

size_t kernel_set_num_faults(const struct kernel_set *set)
{
    return set->faults.count;
}

const struct kernel_fault *kernel_set_fault_at(const struct kernel_set *set, size_t index)
{
    return &set->faults.items[index];
}

const struct kernel_hints *kernel_set_hints(const struct kernel_set *set)
{
    return &set->hints;
}

const char *kernel_set_hint(const struct kernel_set *set, const char *key, const char **origin)
{
    const struct kernel_rule *rule = kernel_hints_find(&set->hints, key);
    if (origin)
        *origin = rule ? rule->origin : NULL;
    return rule ? rule->value : NULL;
}

bool kernel_set_allows_f16(const struct kernel_set *set)
{
    const struct kernel_rule *rule = kernel_hints_find(&set->hints, "computePrecision");
    return rule && rule->kind == KERNEL_RULE_PRECISION;
}

bool kernel_texts_hash(char out[65])
{
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!hash)
        return false;
    for (const struct kernel_embedded *e = kernel_embedded; e->path; e++)
        dgl_hash_update(hash, e->text, e->len);
    bool ok = dgl_hash_hex(hash, out);
    dgl_hash_destroy(&hash);
    return ok;
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
                                       .origin = origin,
                                       .where = origin};
}

static enum dgl_status add_config(const struct dgl_log *log, struct kernel_set *set,
                                  const struct dgl_kernels_params *params, const char *path)
{
    const struct kernel_hint_source source = hint_source(log, set, KERNEL_LAYER_CONFIG, path);
    const struct dgl_kernel_text *given = path ? kernel_text_given(params, path) : NULL;
    char *text = NULL;
    size_t len = 0;
    enum dgl_status status = DGL_OK;
    if (!path || (given && !given->text))
        return DGL_OK;
    if (given)
        TRY(kernel_text_copy(log, given, &text, &len));
    else if (path == params->user_config) /* every call reads it, so it must not wait for a pipe */
        TRY(dgl_file_slurp(log, path, KERNEL_FILE_MAX, &text, &len));
    else
        TRY(dgl_stream_slurp(log, path, KERNEL_FILE_MAX, &text, &len));
    TRY(kernel_hints_add_json(&source, text, len));
done:
    free(text);
    return status;
}

static enum dgl_status add_hints(const struct dgl_log *log, struct kernel_set *set,
                                 const struct dgl_kernels_params *params)
{
    const char *hints = params->hints ? params->hints : "{}", *origin = params->profile_origin;
    enum dgl_status status = DGL_OK;
    struct kernel_hint_source source;
    TRY(add_config(log, set, params, params->user_config));
    TRY(add_config(log, set, params, params->config_file));
    if (params->profile) {
        if (!origin)
            origin = dgl_arena_printf(&set->arena, "--kernel-profile %s", params->profile);
        if (!origin)
            TRY(dgl_fail_memory(log, "a kernel profile", strlen(params->profile)));
        source = hint_source(log, set, KERNEL_LAYER_PROFILE, origin);
        TRY(kernel_hints_add_profile(&source, params->profile));
    }
    source = hint_source(log, set, KERNEL_LAYER_HINTS,
                         params->hints_origin ? params->hints_origin : KERNEL_HINTS_ORIGIN);
    TRY(kernel_hints_add_json(&source, hints, strlen(hints)));
    for (size_t i = 0; i < params->num_flags; i++) {
        origin = params->flag_origins ? params->flag_origins[i] : NULL;
        source = hint_source(log, set, KERNEL_LAYER_FLAG, origin ? origin : "flag");
        TRY(kernel_hints_add_flag(&source, params->flags[i]));
    }
done:
    return status;
}

/* ---- creation and destruction ---------------------------------------------------------------- */

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
    enum dgl_status status = DGL_OK;
    *out = NULL;
    params = params ? params : &none;
    struct kernel_set *set = new_set();
    if (!set)
        return dgl_fail_memory(log, "a set of kernels", sizeof(*set));
    set->keeps_faults = params->keep_faults;
    TRY(kernel_set_add_builtins(log, set));
    TRY(kernel_set_add_files(log, set, params));
    TRY(kernel_set_check_libs(log, set, false));
    TRY(add_hints(log, set, params));
    *out = kernel_set_ref(set);
done:
    /* A hint may name a kernel that is missing because of a fault. */
    for (size_t i = 0; i < set->faults.count && status != DGL_OK; i++)
        dgl_notice(log, "%s", set->faults.items[i].reason);
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
        free(old->libs);
        free(old->faults.items);
    }
    free(old->hints.items);
    dgl_arena_finish(&old->arena);
    free(old);
}

/* Makes a set that shares the kernels and starts with the same hints. Returns NULL if memory runs
 * out. */
static struct kernel_set *derive(struct kernel_set *set)
{
    struct kernel_set *child = new_set();
    if (!child)
        return NULL;
    child->parent = kernel_set_ref(set);
    child->kernels = set->kernels;
    child->count = set->count;
    child->libs = set->libs;
    child->num_libs = set->num_libs;
    child->hints.strict = set->hints.strict;
    if (!dgl_grow((void **)&child->hints.items, &child->hints.cap, set->hints.count + 1,
                  sizeof(*set->hints.items)))
        kernel_set_destroy(&child);
    else if (set->hints.count)
        memcpy(child->hints.items, set->hints.items, set->hints.count * sizeof(*set->hints.items));
    if (child)
        child->hints.count = set->hints.count;
    return child;
}

enum dgl_status kernel_set_with_hints(const struct dgl_log *log, struct kernel_set *set,
                                      enum kernel_layer layer, const char *origin, const char *json,
                                      struct kernel_set **out)
{
    *out = derive(set);
    if (!*out)
        return dgl_fail_memory(log, "a set of kernels", sizeof(**out));
    const struct kernel_hint_source source = hint_source(log, *out, layer, origin);
    enum dgl_status status = kernel_hints_add_json(&source, json, strlen(json));
    if (status != DGL_OK)
        kernel_set_destroy(out);
    return status;
}

enum dgl_status kernel_set_with_manifest(const struct dgl_log *log, struct kernel_set *set,
                                         const struct kernel_manifest_hints *hints,
                                         struct kernel_set **out)
{
    static const char *const origins[] = {KERNEL_MANIFEST_ORIGIN, "manifest (pinned)"};
    const char *const texts[] = {hints->defaults, hints->pinned};
    const enum kernel_layer layers[] = {KERNEL_LAYER_MANIFEST, KERNEL_LAYER_PINNED};
    enum dgl_status status = DGL_OK;
    *out = derive(set);
    if (!*out)
        return dgl_fail_memory(log, "a set of kernels", sizeof(**out));
    for (int i = 0; i < 2; i++) {
        struct kernel_hint_source source = hint_source(log, *out, layers[i], origins[i]);
        if (hints->file)
            source.where = dgl_arena_printf(&(*out)->arena, "%s: %s", hints->file, origins[i]);
        if (!source.where)
            TRY(dgl_fail_memory(log, "a set of kernels", sizeof(**out)));
        if (texts[i])
            TRY(kernel_hints_add_json(&source, texts[i], strlen(texts[i])));
    }
done:
    if (status != DGL_OK)
        kernel_set_destroy(out);
    return status;
}
