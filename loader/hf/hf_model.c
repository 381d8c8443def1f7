/* Opens the safetensors files of a folder and reads tensors from them. */
#include "loader/hf/hf_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "loader/hf/safetensors.h"
#include "loader/tensor/model_files.h"

struct hf_file {
    const char *name; /* inside the folder; arena */
    struct blob blob;
    struct safetensors_header header;
};

/* Start of the bytes of a tensor. */
struct hf_place {
    const struct blob *blob;
    uint64_t offset;
};

struct hf_weights {
    const struct dgl_source *source;
    const char *dir;       /* borrowed; valid while the folder is being opened */
    struct hf_file *files; /* ascending by name */
    size_t num_files;
    struct hf_place *places; /* by tensor index */
    struct dgl_arena names;
};

static void weights_destroy(void *impl)
{
    struct hf_weights *w = impl;
    for (size_t i = 0; i < w->num_files; i++) {
        blob_close(&w->files[i].blob);
        safetensors_header_finish(&w->files[i].header);
    }
    free(w->files);
    free(w->places);
    dgl_arena_finish(&w->names);
    free(w);
}

static enum dgl_status weights_read(void *impl, const struct dgl_log *log, size_t index,
                                    uint64_t offset, void *dst, size_t size)
{
    const struct hf_place *place = &((const struct hf_weights *)impl)->places[index];
    return blob_read(log, place->blob, place->offset + offset, dst, size);
}

/* Index of the file called `name`, or num_files. */
static size_t file_find(const struct hf_weights *w, struct dgl_str name)
{
    size_t i = 0;
    while (i < w->num_files && !dgl_str_eq(name, w->files[i].name))
        i++;
    return i;
}

static enum dgl_status file_add(const struct dgl_log *log, struct hf_weights *w,
                                struct dgl_str name)
{
    if (w->num_files == HF_MAX_FILES)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s/%s: names more than %d files", w->dir, HF_INDEX,
                        HF_MAX_FILES);
    char *copy = dgl_arena_strndup(&w->names, name.p, name.len);
    if (!copy)
        return dgl_fail_memory(log, "file names", name.len);
    w->files[w->num_files++] = (struct hf_file){.name = copy};
    return DGL_OK;
}

static int file_compare(const void *a, const void *b)
{
    const struct hf_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static enum dgl_status weight_map_files(struct dgl_json_reader r, struct hf_weights *w,
                                        const struct dgl_json *map)
{
    for (const struct dgl_json *v = dgl_json_first(map); v; v = dgl_json_next(v)) {
        struct dgl_str name = dgl_json_str(v);
        if (!dgl_json_is(v, DGL_JSON_STRING))
            return dgl_json_fail(r, v, "wanted a file name, found %s",
                                 dgl_json_type_name(dgl_json_type(v)));
        if (!dgl_path_is_inside(name.p, name.len))
            return dgl_json_fail(r, v, "\"%s\" is not a path inside of the folder",
                                 DGL_PRINTABLE_STR(name));
        if (file_find(w, name) < w->num_files)
            continue;
        enum dgl_status status = file_add(r.log, w, name);
        if (status != DGL_OK)
            return status;
    }
    if (w->num_files == 0)
        return dgl_json_fail(r, map, "names no file");
    qsort(w->files, w->num_files, sizeof(*w->files), file_compare);
    return DGL_OK;
}

static enum dgl_status files_open(const struct dgl_log *log, struct hf_weights *w)
{
    char *path = NULL;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < w->num_files; i++) {
        struct hf_file *file = &w->files[i];
        free(path);
        path = dgl_path_join(w->dir, file->name);
        if (!path)
            TRY(dgl_fail_memory(log, "path", strlen(w->dir)));
        TRY(blob_open(log, w->source, path, NULL, &file->blob));
        TRY(safetensors_read(log, &file->blob, &file->header));
    }
done:
    free(path);
    return status;
}

/* Checks that the index lists each tensor under the file that contains it. */
static enum dgl_status weight_map_check(struct dgl_json_reader r, const struct hf_weights *w,
                                        const struct dgl_json *map)
{
    for (size_t f = 0; f < w->num_files; f++) {
        const struct hf_file *file = &w->files[f];
        for (size_t i = 0; i < file->header.count; i++) {
            const char *name = file->header.entries[i].info.name;
            const struct dgl_json *listed = dgl_json_get(map, name);
            if (!listed)
                return dgl_json_fail(r, map, "does not list tensor %s, which %s holds",
                                     DGL_PRINTABLE(name), DGL_PRINTABLE(file->name));
            if (!dgl_str_eq(dgl_json_str(listed), file->name))
                return dgl_json_fail(r, listed, "is \"%s\", but %s holds the tensor",
                                     DGL_PRINTABLE(dgl_json_str(listed).p),
                                     DGL_PRINTABLE(file->name));
        }
    }
    return DGL_OK;
}

/* Checks that every listed tensor exists. */
static enum dgl_status weight_map_check_missing(struct dgl_json_reader r,
                                                const struct dgl_json *map,
                                                const struct tensor_source *src)
{
    if (dgl_json_count(map) == tensor_source_count(src))
        return DGL_OK;
    for (const struct dgl_json *v = dgl_json_first(map); v; v = dgl_json_next(v)) {
        if (tensor_source_find(src, dgl_json_key(v).p) < 0)
            return dgl_json_fail(r, v, "is \"%s\", but that file does not hold the tensor",
                                 DGL_PRINTABLE(dgl_json_str(v).p));
    }
    return dgl_json_fail(r, map, "lists %zu tensor%s, the files hold %zu", dgl_json_count(map),
                         dgl_json_count(map) == 1 ? "" : "s", tensor_source_count(src));
}

/* Makes one tensor list of the files' headers. Consumes `w` (also on failure). */
static enum dgl_status source_make(const struct dgl_log *log, struct hf_weights *w,
                                   struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {.read = weights_read, .destroy = weights_destroy};
    size_t count = 0, at = 0;
    for (size_t f = 0; f < w->num_files; f++)
        count += w->files[f].header.count; /* at most HF_MAX_FILES * 1e5 */
    struct tensor_info *tensors = NULL;
    if (count > SAFETENSORS_MAX_TENSORS) {
        enum dgl_status status =
            dgl_fail(log, DGL_ERR_FORMAT, "%s: %zu tensors, at most %d are supported", w->dir,
                     count, SAFETENSORS_MAX_TENSORS);
        weights_destroy(w);
        return status;
    }
    tensors = dgl_new_array(struct tensor_info, count);
    w->places = dgl_new_array(struct hf_place, count);
    if (!tensors || !w->places) {
        free(tensors);
        weights_destroy(w);
        return dgl_fail_memory(log, "tensor list", count * sizeof(*tensors));
    }
    for (size_t f = 0; f < w->num_files; f++) {
        const struct hf_file *file = &w->files[f];
        for (size_t i = 0; i < file->header.count; i++, at++) {
            tensors[at] = file->header.entries[i].info;
            w->places[at] = (struct hf_place){&file->blob, file->header.data_start +
                                                               file->header.entries[i].begin};
        }
    }
    enum dgl_status status = tensor_source_create(log, w->dir, &ops, w, tensors, count, out);
    free(tensors);
    return status;
}

struct weight_kind {
    const char *suffix;
    const char *what;
    const char *remedy;
};

static const struct weight_kind other_weights[] = {
    {".safetensors", "safetensors under another name",
     "only model.safetensors and the files of " HF_INDEX " are read: rename it or add the index"},
    {".bin", "PyTorch pickles", "save the model again with safe_serialization=True"},
    {".pth", "PyTorch pickles", "save the model again with safe_serialization=True"},
    {".pt", "PyTorch pickles", "save the model again with safe_serialization=True"},
    {".gguf", "GGUF", "give the .gguf file itself instead of the folder"},
    {".h5", "TensorFlow weights", "use the checkpoint's safetensors files"},
    {".msgpack", "Flax weights", "use the checkpoint's safetensors files"},
};

static enum dgl_status refuse_other_weights(const struct dgl_log *log,
                                            const struct dgl_source *source, const char *dir)
{
    char **names;
    size_t count;
    enum dgl_status status = blob_list(log, source, dir, &names, &count);
    if (status != DGL_OK)
        return status;
    for (size_t k = 0; k < sizeof(other_weights) / sizeof(other_weights[0]); k++) {
        const struct weight_kind *kind = &other_weights[k];
        for (size_t i = 0; i < count; i++)
            if (dgl_str_ends(dgl_str_of(names[i]), kind->suffix))
                TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: no %s, only %s (%s); %s", dir,
                             HF_SINGLE, kind->what, DGL_PRINTABLE(names[i]), kind->remedy));
    }
    status = dgl_fail(log, DGL_ERR_IO, "%s: no weights: neither %s nor %s is there", dir, HF_SINGLE,
                      HF_INDEX);
done:
    dgl_names_free(names, count);
    return status;
}

enum dgl_status hf_tensors_open(const struct dgl_log *log, const struct dgl_source *source,
                                const char *dir, struct tensor_source **out)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_json_reader r = {.log = log};
    const struct dgl_json *map = NULL;
    char *index = NULL, *text = NULL;
    size_t len;
    bool indexed, single = false;
    enum dgl_status status;
    *out = NULL;
    struct hf_weights *w = dgl_new(struct hf_weights);
    if (w)
        *w = (struct hf_weights){
            .source = source, .dir = dir, .files = dgl_new_array(struct hf_file, HF_MAX_FILES)};
    if (!w || !w->files)
        TRY(dgl_fail_memory(log, "file list", HF_MAX_FILES * sizeof(struct hf_file)));
    TRY(blob_find_in(log, source, dir, HF_INDEX, &indexed));
    TRY(blob_find_in(log, source, dir, HF_SINGLE, &single));
    if (single && indexed)
        dgl_notice(log, "%s: %s is read; %s beside it is left out, as transformers does", dir,
                   HF_SINGLE, HF_INDEX);
    if (indexed && !single) {
        index = dgl_path_join(dir, HF_INDEX);
        if (!index)
            TRY(dgl_fail_memory(log, "path", strlen(dir)));
        TRY(blob_load(log, source, index, HF_MAX_INDEX, &text, &len));
        TRY(dgl_json_parse(log, index, text, len, &doc));
        r.doc = doc;
        TRY(dgl_json_need(r, dgl_json_root(doc), "weight_map", DGL_JSON_OBJECT, &map));
        TRY(weight_map_files(r, w, map));
    } else {
        TRY(single ? file_add(log, w, DGL_STR(HF_SINGLE)) : refuse_other_weights(log, source, dir));
    }
    TRY(files_open(log, w));
    if (map)
        TRY(weight_map_check(r, w, map));
    status = source_make(log, w, out);
    w = NULL;
    if (status == DGL_OK && map)
        status = weight_map_check_missing(r, map, *out);
done:
    if (status != DGL_OK)
        tensor_source_destroy(out);
    if (w)
        weights_destroy(w);
    dgl_json_destroy(&doc);
    free(index);
    free(text);
    return status;
}

enum dgl_status hf_tokenizer_check(const struct dgl_log *log, const struct dgl_source *source,
                                   const char *dir)
{
    static const char *const foreign[] = {"tokenizer.model", "tekken.json"};
    bool found;
    enum dgl_status status;
    TRY(blob_find_in(log, source, dir, FILE_TOKENIZER, &found));
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]) && !found; i++) {
        TRY(blob_find_in(log, source, dir, foreign[i], &found));
        if (found)
            TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED,
                         "%s: the tokenizer is only there as %s, which is not read; add a "
                         "tokenizer.json (transformers: "
                         "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR))",
                         dir, foreign[i]));
    }
done:
    return status;
}
