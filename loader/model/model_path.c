/* Finding the model that a name stands for. A path that exists beats a repository of that name. In
 * a folder, a checkpoint's or pack's files beat GGUF files, unless a quantisation is named. */
#include "loader/model/model_path.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "loader/gguf/gguf_choice.h"
#include "loader/hf/hf_model.h"
#include "loader/hf/hub_cache.h"
#include "loader/rdrr/rdrr_format.h"

/* Last component of a path. For "." and "..", that of the folder they name. */
static char *name_of(const struct dgl_source *source, const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t start = len;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (dgl_name_is_safe(path + start, len - start))
        return dgl_strndup(path + start, len - start);
    char *real = source == &blob_files ? realpath(path, NULL) : NULL;
    const char *slash = real ? strrchr(real, '/') : NULL;
    char *name = dgl_strdup(slash && slash[1] ? slash + 1 : "model");
    free(real);
    return name;
}

/* Returns true for a folder with the weights of a checkpoint or a manifest. */
static bool has_weights(const struct dgl_source *source, const char *dir)
{
    static const char *const names[] = {HF_INDEX, HF_SINGLE, RDRR_MANIFEST};
    bool found = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++)
        blob_find_in(NULL, source, dir, names[i], &found);
    return found;
}

/* Refuses several models with "several: name one of a, b". `hub` is NULL for a folder of the
 * user. */
static enum dgl_status refuse_several(const struct dgl_log *log, const char *arg,
                                      const struct hub_name *hub,
                                      const struct gguf_choices *choices)
{
    enum { SHOWN = 24 };
    struct dgl_buf list = {0};
    for (size_t i = 0; i < choices->count && i < SHOWN; i++) {
        const struct gguf_choice *c = &choices->list[i];
        size_t alike = 0;
        for (size_t j = 0; j < choices->count; j++)
            alike += strcmp(choices->list[j].quant, c->quant) == 0;
        dgl_buf_puts(&list, i ? ", " : "");
        if (hub) {
            dgl_buf_printf(&list, "%.*s/%.*s:%s", (int)hub->org.len, hub->org.p, (int)hub->repo.len,
                           hub->repo.p, c->quant[0] && alike == 1 ? c->quant : c->name);
            if (hub->revision.len)
                dgl_buf_printf(&list, "@%.*s", (int)hub->revision.len, hub->revision.p);
        } else {
            char *path = dgl_path_join(arg, c->name);
            dgl_buf_puts(&list, path ? path : c->name);
            free(path);
        }
    }
    if (choices->count > SHOWN)
        dgl_buf_printf(&list, ", ... (%zu in all)", choices->count);
    enum dgl_status status = list.failed ? dgl_fail_memory(log, "list of GGUF files", list.len)
                                         : dgl_fail(log, DGL_ERR_INVALID_ARG,
                                                    "%s: %zu GGUF models are there; name one of %s",
                                                    arg, choices->count, list.p);
    dgl_buf_finish(&list);
    return status;
}

/* Replaces *path, a folder, by the GGUF file that it stands for; a folder without GGUF files stays.
 */
static enum dgl_status choose_gguf(const struct dgl_log *log, const struct dgl_source *source,
                                   const char *arg, const struct hub_name *hub, char **path)
{
    struct dgl_str quant = hub ? hub->quant : DGL_STR("");
    struct gguf_choices choices = {0};
    if (quant.len == 0 && has_weights(source, *path))
        return DGL_OK;
    enum dgl_status status = gguf_choices_list(log, source, *path, true, &choices);
    if (status != DGL_OK)
        return status;
    size_t all = choices.count;
    if (quant.len && all) {
        struct dgl_buf known = {0};
        for (size_t i = 0; i < all; i++)
            dgl_buf_printf(&known, "%s%s", i ? ", " : "", choices.list[i].name);
        gguf_choices_pick(&choices, quant);
        if (choices.count == 0)
            status = dgl_fail(log, DGL_ERR_IO,
                              "%s: the Hub cache has no GGUF file of that quantisation, only %s; "
                              "fetch it with `hf download %.*s/%.*s --include '*%.*s*'`",
                              arg, known.p ? known.p : "others", (int)hub->org.len, hub->org.p,
                              (int)hub->repo.len, hub->repo.p, (int)quant.len, quant.p);
        dgl_buf_finish(&known);
    } else if (quant.len) {
        status = dgl_fail(log, DGL_ERR_IO,
                          "%s: there is no GGUF file in %s: leave :%.*s out, or fetch it with `hf "
                          "download %.*s/%.*s --include '*%.*s*'`",
                          arg, *path, (int)quant.len, quant.p, (int)hub->org.len, hub->org.p,
                          (int)hub->repo.len, hub->repo.p, (int)quant.len, quant.p);
    }
    if (status == DGL_OK && choices.count > 1)
        status = refuse_several(log, arg, hub, &choices);
    if (status == DGL_OK && choices.count == 1) {
        char *file = dgl_path_join(*path, choices.list[0].name);
        if (file) {
            free(*path);
            *path = file;
        } else {
            status = dgl_fail_memory(log, "path", strlen(arg));
        }
    }
    gguf_choices_finish(&choices);
    return status;
}

enum dgl_status model_path_resolve(const struct dgl_log *log, const struct dgl_source *source,
                                   const char *arg, char **path, char **name)
{
    struct hub_name hub;
    bool in_hub = false;
    enum dgl_entry entry = DGL_ENTRY_NONE;
    enum dgl_status status = DGL_OK;
    *path = NULL;
    *name = NULL;
    status = blob_find(log, source, arg, &entry);
    if (status == DGL_OK && entry != DGL_ENTRY_NONE) {
        *path = dgl_strdup(arg);
        if (!*path)
            status = dgl_fail_memory(log, "path", strlen(arg));
    } else if (status == DGL_OK && source != &blob_files) {
        status = dgl_fail(log, DGL_ERR_IO,
                          "%s: the source has no such file or folder; a model is a GGUF file, a "
                          "Hugging Face folder or a pack",
                          arg);
    } else if (status == DGL_OK && hub_name_parse(arg, &hub)) {
        in_hub = true;
        status = hub_find(log, arg, &hub, path);
    } else if (status == DGL_OK) {
        status = dgl_fail(log, DGL_ERR_IO,
                          "%s: no such file or folder; a model is a GGUF file, a Hugging Face "
                          "folder, a pack, or org/name[:quant][@revision] in the Hub cache "
                          "(`dopplergl models` lists those that are here)",
                          arg);
    }
    bool is_dir = status == DGL_OK && blob_is_folder(source, *path);
    if (is_dir)
        status = choose_gguf(log, source, arg, in_hub ? &hub : NULL, path);
    if (status == DGL_OK) {
        bool chosen = is_dir && !blob_is_folder(source, *path);
        *name = in_hub && !chosen ? dgl_strndup(hub.repo.p, hub.repo.len)
                                  : name_of(source, chosen ? *path : arg);
        if (!*name)
            status = dgl_fail_memory(log, "path", strlen(arg));
    }
    if (status != DGL_OK) {
        free(*path);
        free(*name);
        *path = *name = NULL;
    }
    return status;
}
