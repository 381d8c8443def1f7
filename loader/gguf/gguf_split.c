/* The parts of a split GGUF model and the tensors in them. */
#include "loader/gguf/gguf_split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/mem.h"

#define KEY_SPLIT_NO      "split.no"
#define KEY_SPLIT_COUNT   "split.count"
#define KEY_SPLIT_TENSORS "split.tensors.count"
#define SPLIT_SUFFIX      "-%05d-of-%05d.gguf"

static enum dgl_status part_open(const struct dgl_log *log, const struct dgl_source *source,
                                 struct gguf_part *part)
{
    enum dgl_status status = blob_open(log, source, part->path, NULL, &part->blob);
    if (status != DGL_OK)
        return status;
    struct gguf_input in = {.name = part->path, .blob = &part->blob, .size = part->blob.size};
    return gguf_file_parse(log, &in, &part->header);
}

/* GGUF files that accompany a model and are not models. */
static const struct {
    const char *key, *value, *what, *remedy;
} companions[] = {
    {"general.type", "adapter", "an adapter (LoRA), which changes another model's weights",
     "give the model that it was made for, or one that the adapter was merged into"},
    {"general.type", "mmproj", "the eyes of a model (projector), without the language part",
     "give the GGUF file of the language model, which is published beside it"},
    {"general.type", "clip-vision", "the eyes of a model (projector), without the language part",
     "give the GGUF file of the language model, which is published beside it"},
    {"general.type", "imatrix", "an importance matrix, statistics for quantising another file",
     "give the model that it was made of"},
    {"general.architecture", "clip", "the eyes of a model (projector), without the language part",
     "give the GGUF file of the language model, which is published beside it"},
    {"general.architecture", "controlvector", "a control vector, without a model",
     "give the model that it was made for"},
};

static enum dgl_status check_is_model(const struct dgl_log *log, const struct gguf_file *file)
{
    struct gguf_reader r = {.log = log, .file = file};
    struct dgl_str type = DGL_STR("model");
    for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++) {
        struct dgl_str value = {0};
        enum dgl_status status = gguf_opt_str(r, companions[i].key, &value);
        if (status != DGL_OK)
            return status;
        if (dgl_str_eq(value, companions[i].value))
            return dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: %s is \"%s\": %s; %s", file->name,
                            companions[i].key, companions[i].value, companions[i].what,
                            companions[i].remedy);
    }
    enum dgl_status status = gguf_opt_str(r, "general.type", &type);
    if (status == DGL_OK && !dgl_str_eq(type, "model"))
        status = dgl_fail(log, DGL_ERR_UNSUPPORTED,
                          "%s: general.type is \"%s\"; supported: \"model\", or no such key",
                          file->name, DGL_PRINTABLE_STR(type));
    return status;
}

/* Reads the number of parts and checks that this part is number `index`. */
static enum dgl_status split_read(const struct dgl_log *log, const struct gguf_part *part,
                                  int64_t index, int64_t *count)
{
    struct gguf_reader r = {.log = log, .file = &part->header};
    int64_t no = index;
    *count = 1;
    enum dgl_status status = gguf_opt_i64(r, KEY_SPLIT_COUNT, 0, GGUF_MAX_FILES, count);
    if (status == DGL_OK && *count > 1)
        status = gguf_need_i64(r, KEY_SPLIT_NO, 0, GGUF_MAX_FILES - 1, &no);
    if (status == DGL_OK && no != index)
        return dgl_fail(log, DGL_ERR_FORMAT,
                        "%s: " KEY_SPLIT_NO " is %" PRId64 ", wanted %" PRId64
                        " (give the file that ends in -00001-of-%05" PRId64
                        ".gguf; the others lie beside it)",
                        part->path, no, index, *count);
    return status;
}

/* Returns the path of part `index` by the path of the first part, or NULL if the first has another
 * name. */
static char *part_path(const char *first, int count, int index)
{
    char suffix[GGUF_SPLIT_SUFFIX_LEN + 16];
    size_t len = strlen(first);
    snprintf(suffix, sizeof(suffix), SPLIT_SUFFIX, 1, count);
    if (len < GGUF_SPLIT_SUFFIX_LEN || strcmp(first + len - GGUF_SPLIT_SUFFIX_LEN, suffix) != 0)
        return NULL;
    snprintf(suffix, sizeof(suffix), SPLIT_SUFFIX, index + 1, count);
    struct dgl_buf path = {0};
    dgl_buf_append(&path, first, len - GGUF_SPLIT_SUFFIX_LEN);
    dgl_buf_puts(&path, suffix);
    return dgl_buf_take(&path);
}

bool gguf_is_split_name(const char *path)
{
    int number, count;
    char suffix[GGUF_SPLIT_SUFFIX_LEN + 16];
    size_t len = strlen(path);
    if (len < GGUF_SPLIT_SUFFIX_LEN ||
        sscanf(path + len - GGUF_SPLIT_SUFFIX_LEN, "-%5d-of-%5d", &number, &count) != 2)
        return false;
    snprintf(suffix, sizeof(suffix), SPLIT_SUFFIX, number, count);
    return count > 1 && strcmp(path + len - GGUF_SPLIT_SUFFIX_LEN, suffix) == 0;
}

/* Checks the number of tensors so far: a thousand files could claim more than memory can hold. */
static enum dgl_status check_total(const struct dgl_log *log, const struct gguf_set *set, bool all)
{
    int64_t total = 0, want;
    for (size_t i = 0; i < set->count; i++)
        total += (int64_t)set->parts[i].header.num_tensors; /* at most 1e3 * 1e5 */
    want = total;
    if (total > GGUF_MAX_TENSORS)
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: %" PRId64 " tensors, at most %d are accepted",
                        set->parts[0].path, total, GGUF_MAX_TENSORS);
    enum dgl_status status = DGL_OK;
    if (all)
        status = gguf_opt_i64((struct gguf_reader){.log = log, .file = &set->parts[0].header},
                              KEY_SPLIT_TENSORS, 0, GGUF_MAX_TENSORS, &want);
    if (status == DGL_OK && want != total)
        status = dgl_fail(log, DGL_ERR_FORMAT,
                          "%s: " KEY_SPLIT_TENSORS " is %" PRId64 ", the files hold %" PRId64,
                          set->parts[0].path, want, total);
    return status;
}

enum dgl_status gguf_set_open(const struct dgl_log *log, const struct dgl_source *source,
                              const char *path, struct gguf_set *out)
{
    int64_t count = 1, says;
    enum dgl_status status;
    *out = (struct gguf_set){.parts = dgl_new_array(struct gguf_part, GGUF_MAX_FILES)};
    if (!out->parts)
        return dgl_fail_memory(log, "file list", GGUF_MAX_FILES * sizeof(*out->parts));
    out->count = 1;
    out->parts[0].path = dgl_strdup(path);
    TRY(out->parts[0].path ? part_open(log, source, &out->parts[0])
                           : dgl_fail_memory(log, "path", strlen(path)));
    TRY(check_is_model(log, &out->parts[0].header));
    TRY(split_read(log, &out->parts[0], 0, &count));
    for (int64_t i = 1; i < count; i++) {
        struct gguf_part *part = &out->parts[i];
        part->path = part_path(path, (int)count, (int)i);
        if (!part->path)
            TRY(dgl_fail(log, DGL_ERR_FORMAT,
                         "%s: " KEY_SPLIT_COUNT " is %" PRId64
                         ", but the name does not end in -00001-of-%05" PRId64
                         ".gguf, so the other files cannot be found",
                         path, count, count));
        out->count++;
        TRY(part_open(log, source, part));
        TRY(split_read(log, part, i, &says));
        if (says != count)
            TRY(dgl_fail(log, DGL_ERR_FORMAT,
                         "%s: " KEY_SPLIT_COUNT " is %" PRId64 ", but %s says %" PRId64, part->path,
                         says, path, count));
        TRY(check_total(log, out, false));
    }
    TRY(check_total(log, out, true));
done:
    if (status != DGL_OK)
        gguf_set_close(out);
    return status;
}

void gguf_set_close(struct gguf_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        blob_close(&set->parts[i].blob);
        gguf_file_finish(&set->parts[i].header);
        free(set->parts[i].path);
    }
    free(set->parts);
    *set = (struct gguf_set){0};
}

/* ---- as a tensor source ---- */

/* Start of the bytes of a tensor. */
struct place {
    const struct blob *blob;
    uint64_t offset;
};

struct gguf_tensors {
    struct gguf_set set;
    struct place *places; /* by tensor index */
};

static enum dgl_status tensors_read(void *impl, const struct dgl_log *log, size_t index,
                                    uint64_t offset, void *dst, size_t size)
{
    const struct place *place = &((const struct gguf_tensors *)impl)->places[index];
    return blob_read(log, place->blob, place->offset + offset, dst, size);
}

static void tensors_destroy(void *impl)
{
    struct gguf_tensors *t = impl;
    gguf_set_close(&t->set);
    free(t->places);
    free(t);
}

enum dgl_status gguf_set_source(const struct dgl_log *log, struct gguf_set *set,
                                struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {.read = tensors_read, .destroy = tensors_destroy};
    size_t count = 0, at = 0;
    for (size_t p = 0; p < set->count; p++)
        count += set->parts[p].header.num_tensors; /* checked when the set was opened */
    struct gguf_tensors *t = dgl_new(struct gguf_tensors);
    struct place *places = dgl_new_array(struct place, count);
    struct tensor_info *infos = dgl_new_array(struct tensor_info, count);
    *out = NULL;
    if (!t || !places || !infos) {
        free(t);
        free(places);
        free(infos);
        gguf_set_close(set);
        return dgl_fail_memory(log, "tensor list", count * sizeof(*infos));
    }
    *t = (struct gguf_tensors){.set = *set, .places = places};
    *set = (struct gguf_set){0};
    for (size_t p = 0; p < t->set.count; p++) {
        const struct gguf_part *part = &t->set.parts[p];
        for (size_t i = 0; i < part->header.num_tensors; i++, at++) {
            infos[at] = part->header.tensors[i].info;
            places[at] = (struct place){&part->blob,
                                        part->header.data_start + part->header.tensors[i].begin};
        }
    }
    enum dgl_status status =
        tensor_source_create(log, t->set.parts[0].path, &ops, t, infos, count, out);
    free(infos);
    return status;
}
