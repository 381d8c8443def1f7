/* Joins modules.json and the config of each module. */
#include "loader/model/modules_text.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "loader/desc/modules.h"
#include "loader/tensor/model_files.h"

#define POOLING_FOLDER "1_Pooling"
#define MAX_MODULE     (1u << 20) /* bytes of the config of a module */

/* Appends the names of a path: "./a//b/" as "a/b". */
static void put_names(struct dgl_buf *out, struct dgl_str path)
{
    struct dgl_str part;
    while (dgl_str_split(&path, '/', &part)) {
        if (part.len == 0 || dgl_str_eq(part, "."))
            continue;
        dgl_buf_printf(out, "%s%.*s", out->len ? "/" : "", (int)part.len, part.p);
    }
}

/* Writes the members of a module, and its config if its folder has one. `module` is NULL if
 * modules.json does not name the folder. */
static enum dgl_status put_module(const struct model_texts *texts, const struct dgl_json *module,
                                  struct dgl_str folder, struct dgl_json_writer *w)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_buf name = {0};
    char *dir = NULL, *path = NULL;
    bool found = false;
    enum dgl_status status = DGL_OK;
    put_names(&name, folder);
    if (name.failed || !(dir = dgl_path_join(texts->dir, name.len ? name.p : "")) ||
        !(path = dgl_path_join(dir, FILE_CONFIG)))
        TRY(dgl_fail_memory(texts->log, "path", strlen(texts->dir)));
    /* The model itself has an empty path: its config.json is that of the model. */
    if (name.len > 0 && blob_is_folder(texts->source, dir))
        TRY(blob_find_in(texts->log, texts->source, dir, FILE_CONFIG, &found));
    if (found) {
        char *text = NULL;
        size_t len = 0;
        TRY(blob_load(texts->log, texts->source, path, MAX_MODULE, &text, &len));
        status = dgl_json_parse(texts->log, path, text, len, &doc);
        free(text);
        TRY(status);
    }
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(module); v; v = dgl_json_next(v)) {
        if (dgl_str_eq(dgl_json_key(v), "config") || dgl_str_eq(dgl_json_key(v), "path"))
            continue;
        dgl_jw_key_str(w, dgl_json_key(v));
        dgl_jw_value(w, v);
    }
    dgl_jw_field_cstr(w, "path", name.len ? name.p : "");
    if (!module)
        dgl_jw_field_cstr(w, "type", MODULES_POOLING);
    if (doc) {
        dgl_jw_key(w, "config");
        dgl_jw_value(w, dgl_json_root(doc));
    }
    dgl_jw_end_object(w);
done:
    dgl_json_destroy(&doc);
    dgl_buf_finish(&name);
    free(dir);
    free(path);
    return status;
}

/* Writes all modules of modules.json. */
static enum dgl_status put_modules(const struct model_texts *texts, const char *text, size_t len,
                                   struct dgl_json_writer *w)
{
    struct dgl_json_doc *doc = NULL;
    char *name = dgl_path_join(texts->dir, FILE_MODULES);
    enum dgl_status status;
    TRY(name ? dgl_json_parse(texts->log, name, text, len, &doc)
             : dgl_fail_memory(texts->log, "path", strlen(texts->dir)));
    const struct dgl_json_reader r = {.log = texts->log, .doc = doc};
    const struct dgl_json *root = dgl_json_root(doc);
    if (!dgl_json_is(root, DGL_JSON_ARRAY))
        TRY(dgl_json_fail(r, root, "is %s, wanted a list of modules",
                          dgl_json_type_name(dgl_json_type(root))));
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        const struct dgl_json *path = NULL;
        TRY(dgl_json_opt(r, v, "path", DGL_JSON_STRING, &path));
        const struct dgl_str folder = path ? dgl_json_str(path) : DGL_STR("");
        if (folder.len > 0 && !dgl_path_is_inside(folder.p, folder.len))
            TRY(dgl_json_fail(r, path, "\"%s\" is not a path inside of the folder",
                              DGL_PRINTABLE_STR(folder)));
        TRY(put_module(texts, v, folder, w));
    }
done:
    dgl_json_destroy(&doc);
    free(name);
    return status;
}

enum dgl_status modules_load(const struct model_texts *texts, char **text, size_t *len)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 2);
    char *stored = NULL, *folder = NULL;
    size_t stored_len = 0;
    bool found = false;
    enum dgl_status status = model_text_load(texts, FILE_MODULES, &stored, &stored_len);
    if (status != DGL_OK || (stored && texts->pack)) {
        *text = stored;
        *len = stored_len;
        return status;
    }
    folder = dgl_path_join(texts->dir, POOLING_FOLDER);
    if (!folder)
        TRY(dgl_fail_memory(texts->log, "path", strlen(texts->dir)));
    if (!stored && !texts->pack && blob_is_folder(texts->source, folder))
        TRY(blob_find_in(texts->log, texts->source, folder, FILE_CONFIG, &found));
    if (!stored && !found)
        goto done;
    dgl_jw_array(&w);
    if (stored)
        TRY(put_modules(texts, stored, stored_len, &w));
    else
        TRY(put_module(texts, NULL, DGL_STR(POOLING_FOLDER), &w));
    dgl_jw_end_array(&w);
    if (out.failed)
        TRY(dgl_fail_memory(texts->log, FILE_MODULES, out.len));
    *len = out.len;
    *text = dgl_buf_take(&out);
done:
    dgl_buf_finish(&out);
    free(stored);
    free(folder);
    return status;
}
