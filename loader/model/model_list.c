/* Lists models by file names and headers. It checks less than loading does. */
#include "loader/model/model_list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "loader/gguf/gguf_choice.h"
#include "loader/gguf/gguf_model.h"
#include "loader/hf/hf_model.h"
#include "loader/hf/hub_cache.h"
#include "loader/model/model_file.h"
#include "loader/rdrr/rdrr_format.h"
#include "loader/tensor/model_files.h"

enum { MAX_TEXT = 100 << 20 };

struct walk {
    const struct dgl_log *log;
    bool (*cb)(void *priv, const struct dgl_model_entry *entry);
    void *priv;
    bool stopped; /* cb returned false */
};

static enum dgl_status tell(struct walk *w, const struct dgl_model_entry *entry)
{
    w->stopped = w->stopped || !w->cb(w->priv, entry);
    return DGL_OK;
}

static void put_lower(char out[GGUF_QUANT_BYTES], struct dgl_str text)
{
    size_t len = text.len < GGUF_QUANT_BYTES - 1 ? text.len : GGUF_QUANT_BYTES - 1;
    for (size_t i = 0; i < len; i++) {
        char c = text.p[i];
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    out[len] = '\0';
}

/* Bytes of the regular files of a folder whose names end in `suffix`. */
static uint64_t folder_bytes(const char *dir, const char *suffix)
{
    char **names = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    if (dgl_dir_list(NULL, dir, &names, &count) != DGL_OK)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct stat info;
        char *path = dgl_path_join(dir, names[i]);
        if (path && dgl_str_ends(dgl_str_of(names[i]), suffix) && stat(path, &info) == 0 &&
            S_ISREG(info.st_mode))
            bytes += (uint64_t)info.st_size;
        free(path);
    }
    dgl_names_free(names, count);
    return bytes;
}

/* Type of most matrices of a checkpoint by the headers of its files, or "". */
static void checkpoint_quant(const char *dir, char out[GGUF_QUANT_BYTES])
{
    struct tensor_source *src = NULL;
    struct dtype_tally tally = {0};
    out[0] = '\0';
    if (hf_tensors_open(NULL, &blob_files, dir, &src) != DGL_OK)
        return;
    for (size_t i = 0; i < tensor_source_count(src); i++) {
        const struct tensor_info *t = tensor_source_at(src, i);
        double values = 1;
        for (uint32_t k = 0; k < t->rank; k++)
            values *= (double)t->shape[k];
        dtype_tally_add(&tally, t->role, t->dtype, values);
    }
    put_lower(out, dgl_str_of(dgl_dtype_get(dtype_tally_headline(&tally))->name));
    tensor_source_destroy(&src);
}

/* Type of the weights: a scheme in config.json, the headline of manifest.json, or the type in the
 * files. "" if they cannot be read. */
static void folder_quant(const char *dir, enum model_format format, char out[GGUF_QUANT_BYTES])
{
    struct dgl_json_doc *doc = NULL;
    char *path = dgl_path_join(dir, format == MODEL_RDRR ? RDRR_MANIFEST : FILE_CONFIG);
    out[0] = '\0';
    if (path && dgl_json_load(NULL, path, MAX_TEXT, &doc) == DGL_OK) {
        const struct dgl_json *root = dgl_json_root(doc);
        const struct dgl_json *value =
            format == MODEL_RDRR
                ? dgl_json_get(root, "quantization")
                : dgl_json_get(dgl_json_get(root, "quantization_config"), "quant_method");
        struct dgl_str word =
            dgl_json_is(value, DGL_JSON_STRING) ? dgl_json_str(value) : DGL_STR("");
        put_lower(out, word);
    }
    dgl_json_destroy(&doc);
    free(path);
    if (!out[0] && format == MODEL_HF)
        checkpoint_quant(dir, out);
}

static enum dgl_status tell_gguf(struct walk *w, const char *name, const char *path,
                                 const struct gguf_choice *choice)
{
    char quant[GGUF_QUANT_BYTES];
    /* A dangling link: an interrupted download leaves it in the Hub cache. */
    if (choice->bytes == 0)
        return DGL_OK;
    gguf_file_quant(&blob_files, path, quant);
    return tell(w, &(struct dgl_model_entry){name, path, "gguf", quant, choice->bytes});
}

/* Lists the model of a folder and the GGUF models in it. `snapshot` is NULL outside the Hub
 * cache. */
static enum dgl_status look_at_folder(struct walk *w, const char *dir,
                                      const struct hub_snapshot *snapshot)
{
    enum model_format format;
    char quant[GGUF_QUANT_BYTES];
    struct gguf_choices ggufs = {0};
    struct dgl_buf id = {0}, name = {0};
    char *path = NULL;
    bool named = snapshot && strchr(snapshot->id, '/');
    const char *at = named && snapshot->revision[0] ? "@" : "";
    const char *revision = named ? snapshot->revision : "";
    uint64_t weights = folder_bytes(dir, ".safetensors");
    enum dgl_status status;
    TRY(model_format_at(w->log, &blob_files, dir, &format));
    if (named)
        dgl_buf_printf(&id, "%s%s%s", snapshot->id, at, revision);
    if (format == MODEL_RDRR || (format == MODEL_HF && weights)) {
        folder_quant(dir, format, quant);
        bool pack = format == MODEL_RDRR;
        TRY(tell(w, &(struct dgl_model_entry){named && id.p ? id.p : dir, dir,
                                              pack ? "pack" : "checkpoint", quant,
                                              pack ? folder_bytes(dir, "") : weights}));
    }
    TRY(gguf_choices_list(w->log, &blob_files, dir, snapshot != NULL, &ggufs));
    for (size_t i = 0; i < ggufs.count && !w->stopped; i++) {
        const struct gguf_choice *c = &ggufs.list[i];
        size_t alike = 0;
        dgl_buf_finish(&name);
        free(path);
        path = dgl_path_join(dir, c->name);
        for (size_t j = 0; j < ggufs.count; j++)
            alike += strcmp(ggufs.list[j].quant, c->quant) == 0;
        if (named && ggufs.count == 1 && !weights)
            dgl_buf_puts(&name, id.p ? id.p : "");
        else if (named)
            dgl_buf_printf(&name, "%s:%s%s%s", snapshot->id,
                           alike == 1 && c->quant[0] ? c->quant : c->name, at, revision);
        else
            dgl_buf_puts(&name, path ? path : "");
        if (!path || name.failed || id.failed)
            TRY(dgl_fail_memory(w->log, "path", strlen(dir)));
        TRY(tell_gguf(w, name.p ? name.p : path, path, c));
    }
done:
    dgl_buf_finish(&name);
    free(path);
    gguf_choices_finish(&ggufs);
    dgl_buf_finish(&id);
    return status;
}

/* Lists the models at a path and in `depth` levels of folders below it. */
static enum dgl_status look_at_path(struct walk *w, const char *path, int depth)
{
    char **names = NULL, *sub = NULL;
    size_t count = 0;
    struct stat info;
    if (w->stopped)
        return DGL_OK;
    if (gguf_is_model(&blob_files, path) && stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        struct gguf_choice file = {.bytes = (uint64_t)info.st_size};
        return tell_gguf(w, path, path, &file);
    }
    enum dgl_status status;
    TRY(look_at_folder(w, path, NULL));
    if (depth > 0)
        TRY(dgl_dir_list(w->log, path, &names, &count));
    for (size_t i = 0; i < count; i++) {
        free(sub);
        sub = dgl_path_join(path, names[i]);
        if (!sub)
            TRY(dgl_fail_memory(w->log, "path", strlen(path)));
        if (dgl_path_is_dir(sub) && access(sub, R_OK | X_OK) != 0)
            dgl_warn(w->log, "%s: may not be read, its models are not listed", sub);
        else if (dgl_path_is_dir(sub))
            TRY(look_at_path(w, sub, depth - 1));
    }
done:
    free(sub);
    dgl_names_free(names, count);
    return status;
}

static enum dgl_status look_at_snapshot(void *priv, const struct hub_snapshot *snapshot)
{
    struct walk *w = priv;
    return w->stopped ? DGL_OK : look_at_folder(w, snapshot->path, snapshot);
}

/* Lists the models in $VARIABLE followed by `tail`, or in $HOME/DEFAULT followed by `tail`. A
 * variable of the XDG specification is only used if it is absolute. An absent folder has no
 * models. */
static enum dgl_status look_at_place(struct walk *w, const char *variable, const char *in_home,
                                     const char *tail)
{
    const char *value = getenv(variable), *home = getenv("HOME");
    struct dgl_buf path = {0};
    if (value && value[0] && (value[0] == '/' || strncmp(variable, "XDG_", 4) != 0))
        dgl_buf_printf(&path, "%s%s", value, tail);
    else
        dgl_buf_printf(&path, "%s/%s%s", home ? home : "", in_home, tail);
    enum dgl_status status = DGL_OK;
    if (path.failed)
        status = dgl_fail_memory(w->log, "path", strlen(tail));
    else if (dgl_path_is_dir(path.p))
        status = look_at_path(w, path.p, 1);
    dgl_buf_finish(&path);
    return status;
}

enum dgl_status model_list(const struct dgl_log *log, const struct dgl_models_params *params,
                           bool (*cb)(void *priv, const struct dgl_model_entry *entry), void *priv)
{
    struct walk w = {.log = log, .cb = cb, .priv = priv};
    enum dgl_status status = DGL_OK;
    if (params && params->dirs) {
        for (size_t i = 0; i < params->num_dirs; i++)
            TRY(look_at_path(&w, params->dirs[i], 2));
        return DGL_OK;
    }
    const char *llama = getenv("LLAMA_CACHE");
    TRY(hub_iterate(log, look_at_snapshot, &w));
    TRY(look_at_place(&w, "XDG_DATA_HOME", ".local/share", "/dopplergl/models"));
    if (llama && llama[0])
        TRY(look_at_place(&w, "LLAMA_CACHE", "", ""));
    else
        TRY(look_at_place(&w, "XDG_CACHE_HOME", ".cache", "/llama.cpp"));
done:
    return status;
}
