/* manifest.json except its tensors: version, shards, copied files, hints, and required keys. */
#include "loader/rdrr/rdrr_manifest.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/checked.h"
#include "core/base/file.h"
#include "loader/tensor/model_files.h"

const char *const rdrr_copied_files[] = {
    FILE_TOKENIZER,    FILE_TOKENIZER_CONFIG, FILE_GENERATION_CONFIG,
    FILE_CHAT_JINJA,   FILE_CHAT_JSON,        FILE_SPECIAL_TOKENS,
    FILE_ADDED_TOKENS, FILE_MODULES,          NULL,
};

/* Packs that are not complete models, or that are not pure attention models. Running them as
 * transformers would give wrong results. */
static const struct refused {
    const char *object, *key, *value; /* object NULL: the root; value NULL: any */
    const char *supported;
} refused[] = {
    {NULL, "weightsRef", NULL, "packs with their own weights"},
    {NULL, "adapterType", NULL, "models, not adapters"},
    {NULL, "loraConfig", NULL, "models, not adapters"},
    {NULL, "mergedAdapter", NULL, "models, not adapters"},
    {NULL, "modelType", "lora", "models, not adapters"},
    {NULL, "modelType", "mamba", "transformers"},
    {NULL, "modelType", "rwkv", "transformers"},
    {NULL, "modelType", "jamba", "transformers"},
    {NULL, "modelType", "diffusion", "transformers"},
    {NULL, "modelType", "diffusion_gemma", "transformers"},
    {NULL, "modelType", "energy", "transformers"},
    {"artifactIdentity", "artifactCompleteness", "weights-ref", "packs with their own weights"},
    {"artifactIdentity", "artifactCompleteness", "incomplete", "complete packs"},
};

/* Checks the version: the number 1, or the text "1.0" in the first generation. Then refuses a
 * manifest that uses a feature of the table `refused`. */
static enum dgl_status check_version(struct dgl_json_reader r, const struct dgl_json *root,
                                     struct rdrr_manifest *out)
{
    const struct dgl_json *version = dgl_json_get(root, "version");
    struct dgl_str text = dgl_json_str(version);
    double number = 0;
    out->first_generation = text.len > 0 && dgl_parse_f64(text, &number);
    if (!out->first_generation) {
        enum dgl_status status = dgl_json_need(r, root, "version", DGL_JSON_NUMBER, &version);
        if (status != DGL_OK)
            return status;
        number = dgl_json_f64(version);
    }
    if (number != RDRR_VERSION)
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: version is %g; supported: %d",
                        dgl_json_name(r.doc), number, RDRR_VERSION);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct refused *row = &refused[i];
        const struct dgl_json *object = row->object ? dgl_json_get(root, row->object) : root;
        const struct dgl_json *value = dgl_json_get(object, row->key);
        bool there = value && !dgl_json_is(value, DGL_JSON_NULL);
        if (there && (!row->value || dgl_str_eq(dgl_json_str(value), row->value)))
            return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: %s%s%s is %s; supported: %s",
                            dgl_json_name(r.doc), row->object ? row->object : "",
                            row->object ? "." : "", row->key, row->value ? row->value : "given",
                            row->supported);
    }
    return DGL_OK;
}

enum dgl_status rdrr_need_text(struct dgl_json_reader r, const struct dgl_json *object,
                               const char *key, struct dgl_arena *arena, const char **out)
{
    const struct dgl_json *value;
    enum dgl_status status = dgl_json_need(r, object, key, DGL_JSON_STRING, &value);
    if (status != DGL_OK)
        return status;
    struct dgl_str text = dgl_json_str(value);
    if (text.len == 0 || memchr(text.p, 0, text.len))
        return dgl_json_fail_wanted(r, value, "text, not empty, without U+0000");
    *out = dgl_arena_strndup(arena, text.p, text.len);
    return *out ? DGL_OK : dgl_fail_memory(r.log, key, text.len);
}

/* Serialises a value into the arena. */
enum dgl_status rdrr_value_text(struct dgl_json_reader r, const struct dgl_json *value, int indent,
                                struct dgl_arena *arena, const char **out)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, indent);
    dgl_jw_value(&w, value);
    *out = text.failed ? NULL : dgl_arena_strndup(arena, text.p, text.len);
    dgl_buf_finish(&text);
    return *out ? DGL_OK : dgl_fail_memory(r.log, "JSON text", text.len);
}

enum dgl_status rdrr_need_hash(struct dgl_json_reader r, const struct dgl_json *object,
                               const char *key, char out[65])
{
    const struct dgl_json *value;
    enum dgl_status status = dgl_json_need(r, object, key, DGL_JSON_STRING, &value);
    if (status != DGL_OK)
        return status;
    struct dgl_str text = dgl_json_str(value);
    if (!dgl_hash_is_hex(text.p, text.len))
        return dgl_json_fail(r, value, "\"%s\" is not 64 lowercase hex digits",
                             DGL_PRINTABLE_STR(text));
    memcpy(out, text.p, 64);
    out[64] = 0;
    return DGL_OK;
}

static enum dgl_status parse_copied(struct dgl_json_reader r, const struct dgl_json *root,
                                    struct rdrr_manifest *out)
{
    const struct dgl_json *files;
    enum dgl_status status;
    TRY(dgl_json_opt(r, root, "files", DGL_JSON_OBJECT, &files));
    if (dgl_json_count(files) > RDRR_MAX_COPIED)
        return dgl_json_fail(r, files, "%zu entries, at most %d are accepted",
                             dgl_json_count(files), RDRR_MAX_COPIED);
    for (const struct dgl_json *f = dgl_json_first(files); f; f = dgl_json_next(f)) {
        struct rdrr_copied *copied = &out->copied[out->num_copied++];
        struct dgl_str name = dgl_json_key(f);
        int64_t size = 0;
        if (!dgl_name_is_safe(name.p, name.len))
            return dgl_json_fail(r, f, "not a plain file name (no '/', no \"..\")");
        if (!dgl_json_is(f, DGL_JSON_OBJECT))
            return dgl_json_fail(r, f, "wanted an object");
        TRY(dgl_json_need_i64(r, f, "size", 0, RDRR_MAX_COPIED_BYTES, &size));
        TRY(rdrr_need_hash(r, f, "sha256", copied->sha256));
        copied->size = (uint64_t)size;
        copied->name = dgl_arena_strndup(&out->arena, name.p, name.len);
        if (!copied->name)
            return dgl_fail_memory(r.log, "file names", name.len);
    }
done:
    return status;
}

/* Checks the JSON type of each hint. The engine knows the names of hints. */
static enum dgl_status parse_hints(struct dgl_json_reader r, const struct dgl_json *root,
                                   struct rdrr_manifest *out)
{
    static const struct {
        const char *key, *wanted;
        enum dgl_json_type type;
    } others[] = {
        {"variants", "an object", DGL_JSON_OBJECT},
        {"tunes", "an object", DGL_JSON_OBJECT},
        {"workgroupOverrides", "an object", DGL_JSON_OBJECT},
        {"disableFeatures", "an array", DGL_JSON_ARRAY},
        {"strict", "true or false", DGL_JSON_BOOL},
    };
    const struct dgl_json *optimizations, *hints, *origin;
    enum dgl_status status;
    TRY(dgl_json_opt(r, root, "optimizations", DGL_JSON_OBJECT, &optimizations));
    if (!optimizations)
        return DGL_OK;
    TRY(dgl_json_opt(r, optimizations, "kernelHints", DGL_JSON_OBJECT, &hints));
    TRY(dgl_json_opt(r, optimizations, "kernelHintsOrigin", DGL_JSON_STRING, &origin));
    if (!hints)
        return DGL_OK;
    for (const struct dgl_json *h = dgl_json_first(hints); h; h = dgl_json_next(h)) {
        enum dgl_json_type type = dgl_json_type(h);
        bool fits = type == DGL_JSON_STRING || type == DGL_JSON_NUMBER;
        const char *wanted = "a string";
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
            if (dgl_str_eq(dgl_json_key(h), others[i].key)) {
                fits = type == others[i].type;
                wanted = others[i].wanted;
            }
        if (!fits && type != DGL_JSON_NULL)
            return dgl_json_fail(r, h, "is %s, wanted %s", dgl_json_type_name(type), wanted);
    }
    /* The converter of DOPPLER wrote hints for kernels of another engine into every pack. DOPPLER
     * ignores a hint that the device cannot follow, so hints without an origin are defaults
     * here. */
    bool defaults = origin ? dgl_str_eq(dgl_json_str(origin), RDRR_HINTS_DEFAULT) : !out->ours;
    TRY(rdrr_value_text(r, hints, 0, &out->arena,
                        defaults ? &out->hint_defaults : &out->hint_pinned));
done:
    return status;
}

/* Checks that apply to packs of this converter only. Other writers use more names of model types
 * ("mixtral", "gpt-oss"). They also count only the ids of the tokenizer in vocabSize, which may be
 * fewer than the rows of the embedding. The readers of architecture.vocabSize report a missing
 * value. */
static enum dgl_status parse_ours(struct dgl_json_reader r, const struct dgl_json *root,
                                  const struct dgl_json *conversion, struct rdrr_manifest *out)
{
    const struct dgl_json *tokenizer = dgl_json_get(root, "tokenizer");
    const struct dgl_json *architecture = dgl_json_get(root, "architecture"), *type, *list;
    int64_t model = 0, said;
    enum dgl_status status;
    TRY(dgl_json_need(r, root, "modelType", DGL_JSON_STRING, &type));
    if (!dgl_str_eq(dgl_json_str(type), RDRR_MODEL_TYPE))
        return dgl_json_fail(r, type,
                             "is \"%s\", but packs of " RDRR_TOOL " say \"" RDRR_MODEL_TYPE
                             "\"; the manifest is damaged",
                             DGL_PRINTABLE_STR(dgl_json_str(type)));
    if (architecture)
        TRY(dgl_json_opt_i64(r, architecture, "vocabSize", 1, 1 << 21, &model));
    said = model;
    if (tokenizer)
        TRY(dgl_json_opt_i64(r, tokenizer, "vocabSize", 1, 1 << 21, &said));
    if (model && said != model)
        return dgl_json_fail(r, tokenizer,
                             "vocabSize is %" PRId64 ", but architecture.vocabSize is %" PRId64,
                             said, model);
    /* conversion.skipped: lines to show to users */
    TRY(dgl_json_opt(r, conversion, "skipped", DGL_JSON_ARRAY, &list));
    size_t count = dgl_json_count(list);
    if (count == 0)
        return DGL_OK;
    if (count > RDRR_MAX_TENSORS)
        return dgl_json_fail(r, list, "%zu entries, at most %d are accepted", count,
                             RDRR_MAX_TENSORS);
    out->skipped = dgl_arena_alloc(&out->arena, count * sizeof(*out->skipped)); /* count <= 1e5 */
    if (!out->skipped)
        return dgl_fail_memory(r.log, "list of skipped tensors", count * sizeof(*out->skipped));
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        struct dgl_str text = dgl_json_str(v);
        if (text.len == 0 || memchr(text.p, 0, text.len))
            return dgl_json_fail(r, v, "wanted a text that is not empty and has no U+0000");
        const char *line = dgl_arena_strndup(&out->arena, text.p, text.len);
        if (!line)
            return dgl_fail_memory(r.log, "list of skipped tensors", text.len);
        out->skipped[out->num_skipped++] = line;
    }
done:
    return status;
}

/* Also checks the types of fields that the engine does not use. */
static enum dgl_status parse_head(struct dgl_json_reader r, const struct dgl_json *root,
                                  struct rdrr_manifest *out)
{
    static const struct {
        const char *object, *key; /* object NULL: the root */
        enum dgl_json_type type;
    } unused[] = {
        {NULL, "modelType", DGL_JSON_STRING},
        {"quantizationInfo", "weights", DGL_JSON_STRING},
        {"quantizationInfo", "embeddings", DGL_JSON_STRING},
        {"quantizationInfo", "layout", DGL_JSON_STRING},
        {"tokenizer", "type", DGL_JSON_STRING},
        {"tokenizer", "file", DGL_JSON_STRING},
        {"conversion", "tool", DGL_JSON_STRING},
        {"conversion", "version", DGL_JSON_STRING},
        {"conversion", "source", DGL_JSON_STRING},
    };
    const struct dgl_json *conversion, *tokenizer = dgl_json_get(root, "tokenizer");
    const char *quantization = NULL;
    int64_t vocab = 0;
    enum dgl_status status;
    for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++) {
        const struct dgl_json *object = root, *value;
        if (unused[i].object)
            TRY(dgl_json_opt(r, root, unused[i].object, DGL_JSON_OBJECT, &object));
        if (object)
            TRY(dgl_json_opt(r, object, unused[i].key, unused[i].type, &value));
    }
    if (tokenizer)
        TRY(dgl_json_opt_i64(r, tokenizer, "vocabSize", 1, 1 << 21, &vocab));
    TRY(rdrr_need_text(r, root, "modelId", &out->arena, &out->model_id));
    TRY(rdrr_need_text(r, root, "quantization", &out->arena, &quantization));
    TRY(dgl_json_opt(r, root, "conversion", DGL_JSON_OBJECT, &conversion));
    out->ours = dgl_str_eq(dgl_json_str(dgl_json_get(conversion, "tool")), RDRR_TOOL);
    if (out->ours)
        TRY(parse_ours(r, root, conversion, out));
    char *lower = dgl_arena_strndup(&out->arena, quantization, strlen(quantization));
    if (!lower)
        return dgl_fail_memory(r.log, "quantization", strlen(quantization));
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    out->quantization = lower;
done:
    return status;
}

/* Places where packs store the layout of block formats. A layout in an entry has priority. */
static enum dgl_status parse_layouts(struct dgl_json_reader r, const struct dgl_json *root,
                                     struct rdrr_manifest *out)
{
    const struct dgl_json *conversion = dgl_json_get(root, "conversion");
    const struct {
        const struct dgl_json *object;
        const char *key;
        bool floats;
    } places[] = {
        {root, "defaultWeightLayout", true},
        {dgl_json_get(conversion, "quantization"), "layout", false},
        {dgl_json_get(root, "config"), "q4kLayout", false},
        {dgl_json_get(root, "quantizationInfo"), "layout", false},
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const struct dgl_json *value = dgl_json_get(places[i].object, places[i].key);
        enum rdrr_layout layout;
        if (!value || dgl_json_is(value, DGL_JSON_NULL))
            continue;
        if (!rdrr_layout_parse(dgl_json_str(value), &layout))
            return dgl_json_fail(r, value, "is not a layout: wanted row, column or flat");
        if (places[i].floats) {
            out->float_layout = layout;
        } else if (!out->says_block_layout) {
            out->block_layout = layout;
            out->says_block_layout = true;
        }
    }
    return DGL_OK;
}

enum dgl_status rdrr_manifest_parse(const struct dgl_log *log, const struct dgl_json_doc *doc,
                                    struct rdrr_manifest *out)
{
    static const char *const needed[] = {"architecture", "inference", "files"};
    struct dgl_json_reader r = {.log = log, .doc = doc};
    const struct dgl_json *root = dgl_json_root(doc), *value, *file;
    int64_t count = -1;
    *out = (struct rdrr_manifest){0};
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        return dgl_json_fail(r, root, "wanted an object, found %s",
                             dgl_json_type_name(dgl_json_type(root)));
    enum dgl_status status;
    TRY(check_version(r, root, out));
    TRY(parse_head(r, root, out));
    TRY(parse_copied(r, root, out));
    /* A pack of this converter has all keys. A missing key was removed. */
    for (size_t i = 0; out->ours && i < sizeof(needed) / sizeof(needed[0]); i++)
        TRY(dgl_json_need(r, root, needed[i], DGL_JSON_OBJECT, &value));
    bool has_file = rdrr_copied_find(out, FILE_TOKENIZER) != NULL;
    TRY(dgl_json_opt(r, root, "tokenizer", DGL_JSON_OBJECT, &value));
    if (out->ours && has_file != (value != NULL))
        TRY(dgl_json_fail(r, root, "%s, but %s: convert the model again",
                          has_file ? "files lists tokenizer.json" : "tokenizer is there",
                          has_file ? "tokenizer is missing"
                                   : "files does not list tokenizer.json"));
    TRY(parse_hints(r, root, out));
    TRY(rdrr_shards_parse(r, root, out));
    TRY(parse_layouts(r, root, out));
    TRY(dgl_json_opt(r, root, "tensorsFile", DGL_JSON_STRING, &file));
    TRY(dgl_json_opt_i64(r, root, "tensorCount", 0, INT64_MAX, &count));
    out->says_count = count >= 0;
    out->tensor_count = count >= 0 ? (uint64_t)count : 0;
    if (!file) {
        TRY(dgl_json_need(r, root, "tensors", DGL_JSON_OBJECT, &value));
        TRY(rdrr_tensors_parse(r, value, out));
        goto done;
    }
    struct dgl_str name = dgl_json_str(file);
    if (dgl_json_count(dgl_json_get(root, "tensors")) > 0)
        TRY(dgl_json_fail(r, file, "\"%s\", but there are tensors inline too",
                          DGL_PRINTABLE(name.p)));
    if (!dgl_name_is_safe(name.p, name.len))
        TRY(dgl_json_fail(r, file, "\"%s\" is not a plain file name (no '/', no \"..\")",
                          DGL_PRINTABLE(name.p)));
    out->tensors_file = dgl_arena_strndup(&out->arena, name.p, name.len);
    if (!out->tensors_file)
        TRY(dgl_fail_memory(log, "file names", name.len));
done:
    if (status != DGL_OK)
        rdrr_manifest_finish(out);
    return status;
}

void rdrr_manifest_finish(struct rdrr_manifest *manifest)
{
    free(manifest->shards);
    free(manifest->tensors);
    free(manifest->spans);
    dgl_arena_finish(&manifest->arena);
    *manifest = (struct rdrr_manifest){0};
}

const struct rdrr_copied *rdrr_copied_find(const struct rdrr_manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->num_copied; i++) {
        if (strcmp(manifest->copied[i].name, name) == 0)
            return &manifest->copied[i];
    }
    return NULL;
}
