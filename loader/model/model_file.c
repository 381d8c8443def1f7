/* Opens a model of any format and checks everything except the weights. */
#include "loader/model/model_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "loader/desc/model_bind.h"
#include "loader/gguf/gguf_model.h"
#include "loader/gguf/gguf_override.h"
#include "loader/hf/hf_model.h"
#include "loader/model/model_path.h"
#include "loader/model/model_text.h"
#include "loader/model/modules_text.h"
#include "loader/model/rdrr_config.h"
#include "loader/model/synthetic_model.h"
#include "loader/tensor/expert_view.h"
#include "loader/tensor/model_files.h"
#include "loader/tokenizer/tokenizer.h"
#include "loader/tokenizer/tokenizer_json.h"

#define MAX_CONFIG (16u << 20)

static enum dgl_status texts_load(const struct model_texts *from, struct dgl_model_file *f)
{
    const struct {
        const char *name;
        char **text;
        size_t *len;
    } texts[] = {
        {FILE_TOKENIZER, &f->tokenizer_json, &f->tokenizer_json_len},
        {FILE_TOKENIZER_CONFIG, &f->tokenizer_config_json, &f->tokenizer_config_len},
        {FILE_SPECIAL_TOKENS, &f->special_tokens_json, &f->special_tokens_len},
        {FILE_ADDED_TOKENS, &f->added_tokens_json, &f->added_tokens_len},
        {FILE_GENERATION_CONFIG, &f->generation_config_json, &f->generation_config_len},
    };
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        TRY(model_text_load(from, texts[i].name, texts[i].text, texts[i].len));
    TRY(modules_load(from, &f->modules_json, &f->modules_len));
done:
    return status;
}

/* Fills f->desc, without tensors, from the fields and generation_config.json, and f->pooling. */
static enum dgl_status desc_read(const struct dgl_log *log, const struct fields *config,
                                 struct dgl_model_file *f)
{
    struct dgl_json_doc *doc = NULL;
    char *name = dgl_path_join(f->path, FILE_GENERATION_CONFIG);
    enum dgl_status status;
    TRY(name ? DGL_OK : dgl_fail_memory(log, "path", strlen(f->path)));
    if (f->generation_config_json)
        TRY(dgl_json_parse(log, name, f->generation_config_json, f->generation_config_len, &doc));
    if (doc && !dgl_json_is(dgl_json_root(doc), DGL_JSON_OBJECT))
        TRY(dgl_json_fail_wanted((struct dgl_json_reader){log, doc}, dgl_json_root(doc),
                                 "an object"));
    const struct fields generation = {.name = name, .base = doc ? dgl_json_root(doc) : NULL};
    struct model_desc_input in = {
        .config = config, .generation_config = doc ? &generation : NULL, .config_only = true};
    TRY(model_desc_init(log, &in, &f->desc, &f->skipped));
    free(name);
    name = dgl_path_join(f->path, FILE_MODULES);
    TRY(name ? modules_read(log, name, f->modules_json, f->modules_len, &f->pooling)
             : dgl_fail_memory(log, "path", strlen(f->path)));
done:
    dgl_json_destroy(&doc);
    free(name);
    return status;
}

/* Writes the text of config.json for formats that have the fields elsewhere. */
static enum dgl_status config_write(const struct dgl_log *log, const struct fields *fields,
                                    struct dgl_model_file *f)
{
    struct dgl_buf text = {0};
    struct dgl_json_writer w = dgl_json_writer(&text, 2);
    fields_write(fields, &w);
    if (f->format == MODEL_GGUF)
        dgl_buf_putc(&text, '\n');
    f->config_len = text.len;
    f->config = dgl_buf_take(&text);
    return f->config ? DGL_OK : dgl_fail_memory(log, "config", f->config_len);
}

/* Reports the parts of a checkpoint that the model does not use, once. */
static void report_skipped(const struct dgl_log *log, const struct dgl_model_file *f)
{
    struct dgl_buf text = {0};
    enum { SHOWN = 4 };
    for (size_t i = 0; i < f->skipped.count && i < SHOWN; i++)
        dgl_buf_printf(&text, "%s%s", i ? ", " : "", DGL_PRINTABLE(f->skipped.lines[i]));
    if (f->skipped.count > SHOWN)
        dgl_buf_printf(&text, ", ... (%zu in all; `dopplergl inspect` lists them)",
                       f->skipped.count);
    if (f->skipped.count > 0)
        dgl_notice(log, "%s: not needed and left out: %s", f->path, text.p ? text.p : "?");
    dgl_buf_finish(&text);
}

/* Binds f->tensors, experts as matrices, to f->desc. */
static enum dgl_status tensors_bind(const struct dgl_log *log, const char *config_name,
                                    struct dgl_model_file *f)
{
    enum dgl_status status = DGL_OK;
    if (f->desc.parts & PART_EXPERTS_GPT_OSS)
        TRY(expert_view_wrap(log, &f->tensors));
    TRY(model_bind(log, f->tensors, config_name, &f->desc, &f->skipped));
    report_skipped(log, f);
done:
    return status;
}

/* Returns the element type of most bytes. */
static const char *dominant_dtype(const struct tensor_source *src)
{
    uint64_t bytes[DGL_DTYPE_COUNT] = {0};
    int best = 0;
    for (size_t i = 0; i < tensor_source_count(src); i++) {
        const struct tensor_info *t = tensor_source_at(src, i);
        bytes[t->dtype] += t->bytes; /* each is inside a file, and files are below 2^63 bytes */
        if (bytes[t->dtype] > bytes[best])
            best = (int)t->dtype;
    }
    return dgl_dtype_get((enum dgl_dtype)best)->name;
}

static enum dgl_status open_hf(const struct dgl_log *log, struct dgl_model_file *f)
{
    struct model_texts texts = {.log = log, .source = f->source, .dir = f->path};
    struct dgl_json_doc *doc = NULL;
    char *config_path = dgl_path_join(f->path, FILE_CONFIG);
    enum dgl_status status;
    TRY(config_path ? blob_load(log, f->source, config_path, MAX_CONFIG, &f->config, &f->config_len)
                    : dgl_fail_memory(log, "path", strlen(f->path)));
    TRY(texts_load(&texts, f));
    TRY(dgl_json_parse(log, config_path, f->config, f->config_len, &doc));
    const struct fields config = {.name = config_path, .base = dgl_json_root(doc)};
    TRY(desc_read(log, &config, f));
    TRY(hf_tokenizer_check(log, f->source, f->path));
    TRY(hf_tensors_open(log, f->source, f->path, &f->tensors));
    TRY(tensors_bind(log, config_path, f));
    snprintf(f->quantization, sizeof(f->quantization), "%s", dominant_dtype(f->tensors));
done:
    dgl_json_destroy(&doc);
    free(config_path);
    return status;
}

/* Consumes `parts` (also on failure). */
static enum dgl_status gguf_take(const struct dgl_log *log, struct gguf_parts *parts,
                                 struct dgl_model_file *f)
{
    struct dgl_buf config_name = {0};
    f->format = MODEL_GGUF;
    dgl_buf_printf(&config_name, "%s metadata", f->path);
    f->vocab = parts->vocab;
    parts->vocab = (struct vocab_lists){0};
    f->tokenizer_config_len = parts->tokenizer_config.len;
    f->tokenizer_config_json = dgl_buf_take(&parts->tokenizer_config);
    f->generation_config_len = parts->generation_config.len;
    if (parts->generation_config.len > 0)
        f->generation_config_json = dgl_buf_take(&parts->generation_config);
    f->modules_len = parts->modules.len;
    f->modules_json = parts->modules.len ? dgl_buf_take(&parts->modules) : NULL;
    f->tensors = parts->tensors;
    parts->tensors = NULL;
    parts->config.name = config_name.p;
    enum dgl_status status;
    TRY(config_name.failed ? dgl_fail_memory(log, "path", strlen(f->path))
                           : config_write(log, &parts->config, f));
    TRY(desc_read(log, &parts->config, f));
    f->skipped = parts->skipped;
    parts->skipped = (struct model_skipped){0};
    TRY(tensors_bind(log, config_name.p, f));
    snprintf(f->quantization, sizeof(f->quantization), "%s", dominant_dtype(f->tensors));
done:
    dgl_buf_finish(&config_name);
    gguf_parts_finish(parts);
    return status;
}

static enum dgl_status open_rdrr(const struct dgl_log *log, const struct model_open_params *params,
                                 struct dgl_model_file *f)
{
    struct rdrr_pack *pack = NULL;
    struct dgl_buf config_name = {0};
    struct fields config = {0};
    struct dgl_verify_result result = {.size = sizeof(result)};
    enum dgl_status status = rdrr_pack_open(log, f->source, f->path, &pack);
    if (status != DGL_OK)
        return status;
    const struct rdrr_manifest *m = &pack->manifest;
    const struct dgl_json *root = dgl_json_root(pack->doc);
    const struct dgl_json_reader r = {.log = log, .doc = pack->doc};
    const struct model_texts texts = {
        .log = log, .source = f->source, .dir = f->path, .pack = pack};

    /* Copied, because the tensor source consumes the pack. */
    free(f->name);
    f->name = dgl_strdup(m->model_id);
    f->hint_defaults = m->hint_defaults ? dgl_strdup(m->hint_defaults) : NULL;
    f->hint_pinned = m->hint_pinned ? dgl_strdup(m->hint_pinned) : NULL;
    dgl_buf_printf(&config_name, "%s config", pack->manifest_path);
    config.name = config_name.p;
    snprintf(f->quantization, sizeof(f->quantization), "%s", m->quantization);
    memcpy(f->manifest_sha256, pack->manifest_sha256, sizeof(f->manifest_sha256));
    if (!f->name || (m->hint_defaults && !f->hint_defaults) ||
        (m->hint_pinned && !f->hint_pinned) || config_name.failed)
        TRY(dgl_fail_memory(log, "model description", strlen(m->model_id)));
    TRY(texts_load(&texts, f));
    TRY(rdrr_config_read(r, root, m->ours, &config));
    TRY(config_write(log, &config, f));
    TRY(desc_read(log, &config, f));
    TRY(rdrr_inference_check(r, root, &f->desc, m->ours));
    if (params->verify) {
        const struct rdrr_verify_params verify = {.cache_dir = params->hash_cache,
                                                  .trust = params->trust_cache,
                                                  .progress_cb = params->progress_cb,
                                                  .progress_priv = params->progress_priv};
        TRY(rdrr_verify(log, pack, &verify, params->verified ? params->verified : &result));
    }
    for (size_t i = 0; i < m->num_skipped; i++) {
        struct dgl_buf line = {0};
        dgl_buf_puts(&line, m->skipped[i]);
        TRY(model_skipped_add(log, &f->skipped, &line));
    }
    status = rdrr_tensors_open(log, pack, &f->tensors);
    pack = NULL;
    if (status == DGL_OK)
        status = tensors_bind(log, config_name.p, f);
done:
    rdrr_pack_close(&pack);
    fields_finish(&config);
    dgl_buf_finish(&config_name);
    return status;
}

static void info_fill(struct dgl_model_file *f)
{
    const struct model_desc *d = &f->desc;
    f->info = (struct dgl_model_info){
        .path = f->path,
        .name = f->name,
        .family = d->family,
        .quantization = f->quantization,
        .vocab = d->vocab,
        .layers = d->layers,
        .hidden = d->hidden,
        .heads = d->heads,
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .intermediate = d->intermediate,
        .context_max = d->context_max,
        .parameters = d->parameters,
        .weight_bytes = d->weight_bytes,
        .stop_ids = d->stop_ids,
        .num_stop_ids = d->num_stop_ids,
        .has_tokenizer = f->tokenizer_json || f->vocab.kind != VOCAB_NONE,
        .bos_id = d->bos_id,
        .no_head = d->no_head,
        .pooling = f->pooling.pooling,
        .normalize = f->pooling.normalize,
        .pooling_origin = f->pooling.origin[0] ? f->pooling.origin : NULL,
        .pooling_fault = f->pooling.fault[0] ? f->pooling.fault : NULL,
    };
}

enum dgl_status model_format_at(const struct dgl_log *log, const struct dgl_source *source,
                                const char *path, enum model_format *out)
{
    static const char *const names[] = {HF_INDEX, HF_SINGLE, RDRR_MANIFEST, FILE_CONFIG};
    bool has[4] = {false};
    *out = MODEL_NOT_FILE;
    if (gguf_is_model(source, path))
        *out = MODEL_GGUF;
    if (*out == MODEL_GGUF || !blob_is_folder(source, path))
        return DGL_OK;
    enum dgl_status status;
    for (size_t i = 0; i < 4; i++)
        TRY(blob_find_in(log, source, path, names[i], &has[i]));
    bool weights = has[0] || has[1];
    *out = has[2] && !weights ? MODEL_RDRR
           : has[3]           ? MODEL_HF
           : weights          ? MODEL_NOT_CONFIG
                              : MODEL_NOT_FOLDER;
done:
    return status;
}

enum dgl_status model_format_find(const struct dgl_log *log, const struct dgl_source *source,
                                  const char *path, enum model_format *out)
{
    enum dgl_status status = model_format_at(log, source, path, out);
    if (status != DGL_OK)
        return status;
    switch (*out) {
    case MODEL_NOT_FILE:
        return dgl_fail(
            log, DGL_ERR_UNSUPPORTED,
            "%s: not a model: the file does not begin with GGUF; supported: a GGUF file, "
            "a folder with " RDRR_MANIFEST " (pack) or " FILE_CONFIG " (Hugging Face)",
            path);
    case MODEL_NOT_CONFIG:
        return dgl_fail(log, DGL_ERR_FORMAT, "%s: not a model: there is no " FILE_CONFIG, path);
    case MODEL_NOT_FOLDER:
        return dgl_fail(log, DGL_ERR_IO,
                        "%s: not a model: there is no " FILE_CONFIG " and no " RDRR_MANIFEST
                        ", and no .gguf file",
                        path);
    case MODEL_HF:
    case MODEL_RDRR:
    case MODEL_GGUF:
    case MODEL_SYNTHETIC:
        break;
    }
    return DGL_OK;
}

static enum dgl_status open_any(const struct dgl_log *log, const struct model_open_params *params,
                                struct dgl_model_file *f)
{
    if (!params->path || !params->path[0])
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "no model path was given");
    enum dgl_status status;
    TRY(blob_source_choose(log, params->source, &f->source));
    if (synthetic_is_path(params->path)) {
        TRY(gguf_override_refuse(log, params->override_kv, params->path));
        return synthetic_model_init(log, params->path, f);
    }
    f->override_kv = params->override_kv;
    TRY(model_path_resolve(log, f->source, params->path, &f->path, &f->name));
    TRY(model_format_find(log, f->source, f->path, &f->format));
    if (f->format != MODEL_GGUF)
        TRY(gguf_override_refuse(log, params->override_kv, f->path));
    if (f->format != MODEL_GGUF)
        return f->format == MODEL_HF ? open_hf(log, f) : open_rdrr(log, params, f);
    struct gguf_parts parts;
    TRY(gguf_model_open(log, f->source, f->path, params->override_kv, &parts));
    if (strlen(f->name) > strlen(".gguf") && dgl_str_ends(dgl_str_of(f->name), ".gguf"))
        f->name[strlen(f->name) - strlen(".gguf")] = 0;
    status = gguf_take(log, &parts, f);
done:
    return status;
}

enum dgl_status model_file_of_gguf(const struct dgl_log *log, const char *path,
                                   struct gguf_parts *parts, struct dgl_model_file **out)
{
    struct dgl_model_file *f = dgl_new(struct dgl_model_file);
    *out = f;
    if (f) {
        f->source = &blob_files;
        f->path = dgl_strdup(path);
        f->name = dgl_strdup(path);
    }
    if (!f || !f->path || !f->name) {
        gguf_parts_finish(parts);
        model_file_close(out);
        return dgl_fail_memory(log, "model file", sizeof(*f));
    }
    enum dgl_status status = gguf_take(log, parts, f);
    if (status == DGL_OK)
        info_fill(f);
    else
        model_file_close(out);
    return status;
}

enum dgl_status model_file_open(const struct dgl_log *log, const struct model_open_params *params,
                                struct dgl_model_file **out)
{
    *out = NULL;
    struct dgl_model_file *f = dgl_new(struct dgl_model_file);
    if (!f)
        return dgl_fail_memory(log, "model file", sizeof(*f));
    enum dgl_status status = open_any(log, params, f);
    if (status == DGL_OK)
        info_fill(f);
    else
        model_file_close(&f);
    *out = f;
    return status;
}

void model_file_close(struct dgl_model_file **file)
{
    struct dgl_model_file *f = *file;
    if (!f)
        return;
    vocab_lists_finish(&f->vocab);
    tensor_source_destroy(&f->tensors);
    model_desc_finish(&f->desc);
    model_skipped_finish(&f->skipped);
    free(f->path);
    free(f->name);
    free(f->config);
    free(f->tokenizer_json);
    free(f->tokenizer_config_json);
    free(f->special_tokens_json);
    free(f->added_tokens_json);
    free(f->generation_config_json);
    free(f->modules_json);
    free(f->hint_defaults);
    free(f->hint_pinned);
    tokenizer_destroy(&f->tok);
    chat_source_finish(&f->chat);
    free(f);
    *file = NULL;
}

enum dgl_status model_file_write_tokenizer(const struct dgl_log *log, struct dgl_model_file *file)
{
    struct dgl_buf text = {0};
    if (file->vocab.kind == VOCAB_NONE || file->tokenizer_json)
        return DGL_OK;
    enum dgl_status status = tokenizer_json_write(log, &file->vocab, true, &text);
    if (status == DGL_OK) {
        file->tokenizer_json_len = text.len;
        file->tokenizer_json = dgl_buf_take(&text);
    }
    dgl_buf_finish(&text);
    return status;
}
