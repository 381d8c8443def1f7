/* Opens a GGUF file as the parts of a Hugging Face folder, for model_file.c and chat_source.c. */
#ifndef DGL_LOADER_GGUF_MODEL_H
#define DGL_LOADER_GGUF_MODEL_H

#include "loader/desc/fields.h"
#include "loader/desc/model_desc.h"
#include "loader/gguf/gguf_arch.h"
#include "loader/gguf/gguf_file.h"
#include "loader/tokenizer/vocab_lists.h"

struct gguf_parts {
    struct fields config;            /* of a config.json; no name yet */
    struct vocab_lists vocab;        /* borrows from the file */
    struct dgl_buf tokenizer_config; /* tokenizer_config.json */
    struct dgl_buf modules;          /* loader/desc/modules.h; empty if the file has no pooling */
    /* generation_config.json with the values of general.sampling.*; empty if there are none */
    struct dgl_buf generation_config;
    struct tensor_source *tensors; /* with Hugging Face names */
    struct model_skipped skipped;  /* parts of the file that are left out */
};
/* `override_kv` is a list of gguf_override.h, or NULL; likewise below. */
enum dgl_status gguf_model_open(const struct dgl_log *log, const struct dgl_source *source,
                                const char *path, const char *const *override_kv,
                                struct gguf_parts *out);
/* As gguf_model_open(), for a parsed file: `raw` has its tensors by their names. Consumes `raw`,
 * also on failure; `file` must outlive it. */
enum dgl_status gguf_parts_read(const struct dgl_log *log, const struct gguf_file *file,
                                struct tensor_source *raw, struct gguf_parts *out);
void gguf_parts_finish(struct gguf_parts *parts);

/* Returns true if the name ends in .gguf or the file begins with the magic. */
bool gguf_is_model(const struct dgl_source *source, const char *path);
/* Returns true for a regular file that begins with the magic. */
bool gguf_has_magic(const struct dgl_source *source, const char *path);
/* Loads the tokenizer alone. A file without one is DGL_ERR_INVALID_ARG. */
struct dgl_tokenizer;
enum dgl_status gguf_tokenizer_load(const struct dgl_log *log, const struct dgl_source *source,
                                    const char *path, const char *const *override_kv,
                                    struct dgl_tokenizer **out);
/* Loads tokenizer.json or tokenizer_config.json alone. *text is unchanged for other names, and if
 * the file has no tokenizer. The caller frees it with free(). */
enum dgl_status gguf_text_load(const struct dgl_log *log, const struct dgl_source *source,
                               const char *path, const char *const *override_kv, const char *name,
                               char **text, size_t *len);

#endif
