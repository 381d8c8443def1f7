/* An open model of any format: Hugging Face folder, RDRR pack or GGUF file. The interface for
 * core. */
#ifndef DGL_LOADER_MODEL_FILE_H
#define DGL_LOADER_MODEL_FILE_H

#include "loader/desc/model_desc.h"
#include "loader/desc/modules.h"
#include "loader/model/chat_source.h"
#include "loader/source/blob_source.h"
#include "loader/tokenizer/vocab_lists.h"

enum model_format {
    MODEL_HF,
    MODEL_RDRR,
    MODEL_GGUF,
    MODEL_SYNTHETIC,
    MODEL_NOT_FILE,   /* no model: a file, or an absent path */
    MODEL_NOT_CONFIG, /* a folder with safetensors weights alone */
    MODEL_NOT_FOLDER  /* another folder */
};

/* Public struct dgl_model_file is this struct; fields are for loader/ and core/ only. */
struct dgl_model_file {
    enum model_format format;
    const struct dgl_source *source;
    char *path; /* as opened, links kept */
    char *name; /* last path component, or the manifest's modelId */
    struct tensor_source *tensors;
    struct model_desc desc;
    struct model_skipped skipped;
    char *config; /* config.json verbatim */
    size_t config_len;
    char *tokenizer_json; /* NULL = no tokenizer, or a GGUF file's (`vocab`) */
    size_t tokenizer_json_len;
    struct vocab_lists vocab;    /* of a GGUF file; borrows from `tensors` */
    char *tokenizer_config_json; /* NULL = none */
    size_t tokenizer_config_len;
    char *special_tokens_json; /* special_tokens_map.json; NULL = none */
    size_t special_tokens_len;
    char *added_tokens_json; /* added_tokens.json; NULL = none */
    size_t added_tokens_len;
    char *generation_config_json; /* NULL = none */
    size_t generation_config_len;
    char *modules_json; /* of an embedding model: modules.h; NULL = none */
    size_t modules_len;
    struct model_pooling pooling;
    char *hint_defaults, *hint_pinned; /* kernel hints of a manifest as JSON text, or NULL */
    char quantization[32];             /* headline: "bf16", "q4_k_m" */
    char manifest_sha256[65];          /* "" for folders */
    const char *const *override_kv;    /* as given when it was opened; borrowed, for conversions */
    struct dgl_tokenizer *tok;         /* of model_file_load_tokenizer(), or NULL */
    struct chat_source chat;           /* used by dgl_inspect() only */
    struct dgl_model_info
        info; /* result of dgl_model_file_info(); its strings point into this struct */
};

/* Finds the format of the model at a path (not a synthetic one) by file names. A folder with
 * safetensors weights is a checkpoint even if it also has a manifest.json. */
enum dgl_status model_format_at(const struct dgl_log *log, const struct dgl_source *source,
                                const char *path, enum model_format *out);
/* As model_format_at(), but refuses a path without a model. */
enum dgl_status model_format_find(const struct dgl_log *log, const struct dgl_source *source,
                                  const char *path, enum model_format *out);

struct model_open_params {
    /* a GGUF file, a folder with config.json, manifest.json or one GGUF model, or
     * org/name[:quant][@revision] in the local Hub cache: model_path.h */
    const char *path;
    const struct dgl_source *source;    /* NULL = the file system */
    bool verify;                        /* compare the files of a pack with its hashes */
    const char *hash_cache;             /* cache folder of hash_cache.h, or NULL */
    bool trust_cache;                   /* with `verify`: files in the cache are not read again */
    struct dgl_verify_result *verified; /* number of hashed files and bytes, or NULL */
    const char *const *override_kv;     /* of a GGUF file: gguf_override.h; NULL = none */
    dgl_progress_cb progress_cb;
    void *progress_priv;
};
/* Refuses .bin/.pth-only folders, foreign quantisation schemes and sentencepiece-only tokenizers
 * with the remedy. */
enum dgl_status model_file_open(const struct dgl_log *log, const struct model_open_params *params,
                                struct dgl_model_file **out);
/* As model_file_open(), for the opened parts of a GGUF file called `path`. Consumes `parts`,
 * also on failure. */
struct gguf_parts;
enum dgl_status model_file_of_gguf(const struct dgl_log *log, const char *path,
                                   struct gguf_parts *parts, struct dgl_model_file **out);
void model_file_close(struct dgl_model_file **file);

/* Writes tokenizer_json if the model has only `vocab`; for conversions. */
enum dgl_status model_file_write_tokenizer(const struct dgl_log *log, struct dgl_model_file *file);
/* Makes the tokenizer of a model that has one. Messages name its file. */
enum dgl_status model_file_tokenizer(const struct dgl_log *log, const struct dgl_model_file *file,
                                     struct dgl_tokenizer **out);
/* Makes file->tok if the model has a tokenizer, and adds its eos_token to the stop ids. A notice
 * names ids without a row in the model. Prompts must not contain them. Unless the tokenizer is
 * `required`, a kind that is not implemented is a warning: the model then has no tokenizer. */
enum dgl_status model_file_load_tokenizer(const struct dgl_log *log, struct dgl_model_file *file,
                                          bool required);
/* Makes the tokenizer of the Hugging Face folder `dir`, which has a tokenizer.json and need not be
 * a model. */
enum dgl_status model_folder_tokenizer(const struct dgl_log *log, const struct dgl_source *source,
                                       const char *dir, struct dgl_tokenizer **out);

#endif
