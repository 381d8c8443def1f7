/* Finds chat templates and special tokens in Hugging Face folders and packs. */
#include "loader/model/chat_source.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/gguf/gguf_model.h"
#include "loader/gguf/gguf_override.h"
#include "loader/model/model_path.h"
#include "loader/model/model_file.h"
#include "loader/model/model_text.h"
#include "loader/model/synthetic_model.h"
#include "loader/rdrr/chat_files.h"
#include "loader/rdrr/rdrr_format.h"
#include "loader/tensor/model_files.h"
#include "loader/tokenizer/doppler_tokenizer.h"

/* ---- the collection -------------------------------------------------------------------------- */

void chat_source_init(struct chat_source *source)
{
    static const char *const names[CHAT_SOURCE_TOKENS] = {
        "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    *source = (struct chat_source){0};
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++)
        source->tokens[i].name = names[i];
}

void chat_source_finish(struct chat_source *source)
{
    for (size_t i = 0; i < source->count; i++) {
        dgl_buf_finish(&source->templates[i].name);
        dgl_buf_finish(&source->templates[i].text);
        dgl_buf_finish(&source->templates[i].origin);
    }
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++)
        dgl_buf_finish(&source->tokens[i].text);
    free(source->templates);
    chat_source_init(source);
}

const struct chat_source_template *chat_source_find(const struct chat_source *source,
                                                    const char *name)
{
    for (size_t i = 0; i < source->count; i++) {
        const struct dgl_buf *known = &source->templates[i].name;
        if (dgl_str_eq((struct dgl_str){known->p, known->len}, name))
            return &source->templates[i];
    }
    return NULL;
}

enum dgl_status chat_source_add(const struct dgl_log *log, struct chat_source *source,
                                const char *origin, struct dgl_str name, struct dgl_str text)
{
    struct chat_source_template added = {0};
    dgl_buf_puts(&added.origin, origin);
    dgl_buf_puts(&added.name, "");
    dgl_buf_append(&added.name, name.p, name.len);
    dgl_buf_puts(&added.text, "");
    dgl_buf_append(&added.text, text.p, text.len);
    bool ok = !added.name.failed && !added.text.failed && !added.origin.failed;
    if (ok && !chat_source_find(source, added.name.p)) {
        ok = dgl_grow((void **)&source->templates, &source->cap, source->count + 1, sizeof(added));
        if (ok) {
            source->templates[source->count++] = added;
            return DGL_OK;
        }
    }
    dgl_buf_finish(&added.name);
    dgl_buf_finish(&added.text);
    dgl_buf_finish(&added.origin);
    return ok ? DGL_OK : dgl_fail_memory(log, origin, text.len);
}

enum dgl_status chat_source_add_token(const struct dgl_log *log, struct chat_source *source,
                                      const char *name, struct dgl_str text)
{
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++) {
        struct chat_source_token *token = &source->tokens[i];
        if (token->found || token->none || strcmp(token->name, name) != 0)
            continue;
        dgl_buf_append(&token->text, text.p, text.len);
        token->found = true;
        return token->text.failed ? dgl_fail_memory(log, name, text.len) : DGL_OK;
    }
    return DGL_OK;
}

/* ---- Hugging Face's files -------------------------------------------------------------------- */

struct json_file {
    struct dgl_json_reader r;
    const struct dgl_json *root;
    const char *name;
};

/* Adds named templates: a list of objects with name and template, or an object of templates. */
static enum dgl_status load_named(const struct json_file *file, const struct dgl_json *list,
                                  struct chat_source *out)
{
    struct dgl_json_reader r = file->r;
    const bool object = dgl_json_is(list, DGL_JSON_OBJECT);
    enum dgl_status status = DGL_OK;
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        const struct dgl_json *name, *text;
        if (object && !dgl_json_is(v, DGL_JSON_STRING))
            TRY(dgl_json_fail_wanted(r, v, "a template"));
        if (object) {
            TRY(chat_source_add(r.log, out, file->name, dgl_json_key(v), dgl_json_str(v)));
            continue;
        }
        TRY(dgl_json_need(r, v, "name", DGL_JSON_STRING, &name));
        TRY(dgl_json_need(r, v, "template", DGL_JSON_STRING, &text));
        TRY(chat_source_add(r.log, out, file->name, dgl_json_str(name), dgl_json_str(text)));
    }
done:
    return status;
}

/* Adds "chat_template" of a JSON file. */
static enum dgl_status load_templates(const struct json_file *file, struct chat_source *out)
{
    const struct dgl_json *value = dgl_json_get(file->root, "chat_template");
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
        return DGL_OK;
    case DGL_JSON_STRING:
        return chat_source_add(file->r.log, out, file->name, DGL_STR(CHAT_DEFAULT),
                               dgl_json_str(value));
    case DGL_JSON_ARRAY:
    case DGL_JSON_OBJECT:
        return load_named(file, value, out);
    default:
        return dgl_json_fail(file->r, value, "%s, wanted a template or a list of named ones",
                             dgl_json_type_name(dgl_json_type(value)));
    }
}

/* Adds special tokens. A token is a text or an object with `content`. */
static enum dgl_status load_tokens(const struct json_file *file, struct chat_source *out)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++) {
        const char *name = out->tokens[i].name;
        const struct dgl_json *token = dgl_json_get(file->root, name);
        if (dgl_json_is(token, DGL_JSON_OBJECT))
            TRY(dgl_json_need(file->r, token, "content", DGL_JSON_STRING, &token));
        if (dgl_json_is(token, DGL_JSON_STRING))
            TRY(chat_source_add_token(file->r.log, out, name, dgl_json_str(token)));
    }
done:
    return status;
}

static enum dgl_status load_config(const struct json_file *file, struct chat_source *out)
{
    out->listed = dgl_json_get(file->root, "added_tokens_decoder") != NULL;
    return load_templates(file, out);
}

/* special_tokens_map.json replaces keys of the config, also by null. */
static enum dgl_status load_map(const struct json_file *file, struct chat_source *out)
{
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++) {
        const struct dgl_json *token = dgl_json_get(file->root, out->tokens[i].name);
        out->tokens[i].none = token && dgl_json_is(token, DGL_JSON_NULL);
    }
    return load_tokens(file, out);
}

/* Usual names of the two tokens, if no file names them. */
static enum dgl_status load_added_tokens(const struct json_file *file, struct chat_source *out)
{
    static const char *const usual[][2] = {{"<s>", "bos_token"}, {"</s>", "eos_token"}};
    enum dgl_status status = DGL_OK;
    for (const struct dgl_json *v = dgl_json_first(dgl_json_get(file->root, "added_tokens")); v;
         v = dgl_json_next(v)) {
        struct dgl_str content = dgl_json_str(dgl_json_get(v, "content"));
        for (size_t i = 0; i < 2 && dgl_json_bool(dgl_json_get(v, "special")); i++)
            if (dgl_str_eq(content, usual[i][0]))
                TRY(chat_source_add_token(file->r.log, out, usual[i][1], content));
    }
done:
    return status;
}

/* The form of DOPPLER stores the text of bos_token under "bos". */
static enum dgl_status load_roles(const struct json_file *file, struct chat_source *out)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < CHAT_SOURCE_TOKENS; i++) {
        const char *name = out->tokens[i].name, *end = strrchr(name, '_');
        char role[16] = "";
        struct dgl_str text;
        memcpy(role, name, (size_t)(end - name));
        if (doppler_tokenizer_special(file->r.doc, role, &text))
            TRY(chat_source_add_token(file->r.log, out, name, text));
    }
done:
    return status;
}

static bool has_both(const struct chat_source *source)
{
    const struct chat_source_token *bos = &source->tokens[0], *eos = &source->tokens[1];
    return (bos->found || bos->none) && (eos->found || eos->none);
}

static enum dgl_status load_tokenizer(const struct json_file *file, struct chat_source *out)
{
    struct dgl_json_doc *converted = NULL;
    struct json_file form = *file;
    enum dgl_status status = load_roles(file, out);
    if (status != DGL_OK || has_both(out))
        return status;
    status = doppler_tokenizer_convert(file->r.log, file->r.doc, &converted);
    if (converted) {
        form.r.doc = converted;
        form.root = dgl_json_root(converted);
    }
    if (status == DGL_OK)
        status = load_added_tokens(&form, out);
    dgl_json_destroy(&converted);
    return status;
}

static enum dgl_status load_json(const struct model_texts *texts, const char *name,
                                 enum dgl_status (*load)(const struct json_file *file,
                                                         struct chat_source *out),
                                 struct chat_source *out)
{
    char *text = NULL, *path = dgl_path_join(texts->dir, name);
    size_t len = 0;
    struct dgl_json_doc *doc = NULL;
    if (!path)
        return dgl_fail_memory(texts->log, name, strlen(texts->dir));
    enum dgl_status status = model_text_load(texts, name, &text, &len);
    if (status == DGL_OK && text)
        status = dgl_json_parse(texts->log, path, text, len, &doc);
    if (doc) {
        struct json_file file = {{texts->log, doc}, dgl_json_root(doc), name};
        status = dgl_json_is(file.root, DGL_JSON_OBJECT)
                     ? load(&file, out)
                     : dgl_json_fail(file.r, file.root, "%s, wanted an object",
                                     dgl_json_type_name(dgl_json_type(file.root)));
    }
    dgl_json_destroy(&doc);
    free(text);
    free(path);
    return status;
}

struct jinja_files {
    const struct model_texts *texts;
    struct chat_source *out;
};

static enum dgl_status load_jinja(void *priv, const char *file, struct dgl_str name)
{
    const struct jinja_files *files = priv;
    struct chat_source *out = files->out;
    char *text = NULL;
    size_t len = 0, before = out->count;
    enum dgl_status status = model_text_load(files->texts, file, &text, &len);
    if (status == DGL_OK && text)
        status = chat_source_add(files->texts->log, out, file, name, (struct dgl_str){text, len});
    if (out->count > before)
        out->templates[before].file = true;
    free(text);
    return status;
}

static enum dgl_status load_texts(const struct model_texts *texts, struct chat_source *out)
{
    struct jinja_files files = {texts, out};
    enum dgl_status status;
    /* As in transformers, a default among the additional ones replaces chat_template.jinja. */
    if (!texts->gguf)
        TRY(chat_files_each(texts->log, texts->source, texts->dir, texts->pack != NULL, load_jinja,
                            &files));
    TRY(load_jinja(&files, FILE_CHAT_JINJA, DGL_STR(CHAT_DEFAULT)));
    TRY(load_json(texts, FILE_CHAT_JSON, load_templates, out));
    TRY(load_json(texts, FILE_TOKENIZER_CONFIG, load_config, out));
    if (!out->listed)
        TRY(load_json(texts, FILE_SPECIAL_TOKENS, load_map, out));
    TRY(load_json(texts, FILE_TOKENIZER_CONFIG, load_tokens, out));
    /* Large file: read only if it is needed. */
    if (!has_both(out))
        TRY(load_json(texts, FILE_TOKENIZER, load_tokenizer, out));
done:
    return status;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* A folder needs no weights here; a pack is checked as a whole. */
enum dgl_status chat_source_load(const struct dgl_log *log, const struct dgl_source *source,
                                 const char *path, const char *const *override_kv,
                                 struct chat_source *out)
{
    char *resolved = NULL, *name = NULL;
    struct rdrr_pack *pack = NULL;
    enum model_format format = MODEL_HF;
    if (synthetic_is_path(path))
        return DGL_OK;
    enum dgl_status status;
    TRY(blob_source_choose(log, source, &source));
    TRY(model_path_resolve(log, source, path, &resolved, &name));
    TRY(model_format_at(log, source, resolved, &format));
    if (format == MODEL_NOT_FILE)
        TRY(dgl_fail(log, DGL_ERR_UNSUPPORTED,
                     "%s: is a file; chat templates are read from a pack, a Hugging Face "
                     "folder or a GGUF file",
                     resolved));
    if (format != MODEL_GGUF)
        TRY(gguf_override_refuse(log, override_kv, path));
    if (format == MODEL_RDRR)
        TRY(rdrr_pack_open(log, source, resolved, &pack));
    const struct model_texts texts = {.log = log,
                                      .source = source,
                                      .dir = resolved,
                                      .pack = pack,
                                      .gguf = format == MODEL_GGUF,
                                      .override_kv = override_kv};
    TRY(load_texts(&texts, out));
done:
    rdrr_pack_close(&pack);
    free(resolved);
    free(name);
    return status;
}
