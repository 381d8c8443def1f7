/* Exports a model as a GGUF file: functions of gguf_export*.c, and the entry for convert.c. */
#ifndef DGL_LOADER_GGUF_EXPORT_H
#define DGL_LOADER_GGUF_EXPORT_H

#include "loader/convert/convert_plan.h"
#include "loader/gguf/gguf_arch.h"
#include "loader/gguf/gguf_writer.h"

/* Writes params->out from an opened model. */
enum dgl_status gguf_export(const struct dgl_log *log, const struct dgl_convert_params *params,
                            const struct convert_recipe *recipe, const struct dgl_model_file *model,
                            struct dgl_convert_result *out);

/* Remedy in messages about features that GGUF has no key for. */
#define GGUF_AS_PACK "keep the model as a pack: leave out --to gguf"

/* ---- gguf_export_view.c ---- */

/* Makes a source of the tensors with GGUF names and with the changes of gguf_arch.h reversed.
 * `model` must outlive the source. Roles are those of the model's tensors. */
enum dgl_status gguf_export_view(const struct dgl_log *log, const struct dgl_model_file *model,
                                 const struct gguf_arch *arch, struct tensor_source **out);

/* ---- gguf_export_keys.c ---- */

/* The model to write, and the writer. */
struct gguf_exporter {
    const struct dgl_log *log;
    const struct dgl_model_file *model;
    const struct gguf_arch *arch;
    struct gguf_writer *w;
};
/* Write a key of the architecture, whose name `suffix` ends. */
void gguf_export_u32(const struct gguf_exporter *x, const char *suffix, int64_t value);
void gguf_export_f32(const struct gguf_exporter *x, const char *suffix, double value);

/* Warns if llama.cpp would compute something else. Returns DGL_ERR_UNSUPPORTED for values that GGUF
 * has no key for. */
enum dgl_status gguf_export_keys(const struct dgl_log *log, const struct dgl_model_file *model,
                                 const struct gguf_arch *arch, struct gguf_writer *w);

/* ---- gguf_export_check.c ---- */

/* Parses the header in `w` as if it were read from `path`. Returns DGL_ERR_UNSUPPORTED if it would
 * be refused or would describe another model. */
enum dgl_status gguf_export_check(const struct dgl_log *log, const char *path,
                                  const struct dgl_model_file *model, const struct gguf_arch *arch,
                                  const struct gguf_writer *w);

/* ---- gguf_export_rope.c ---- */

enum dgl_status gguf_export_rope(const struct gguf_exporter *x);
/* Factors per frequency that GGUF stores as tensors: *count of them, 0 to 2. The caller frees the
 * values with free(); names are static. */
struct gguf_rope_factors {
    const char *name;
    float *values;
    uint64_t count;
};
enum { GGUF_MAX_ROPE_FACTORS = 2 };
enum dgl_status gguf_export_factors(const struct dgl_log *log, const struct rope_desc *rope,
                                    struct gguf_rope_factors out[GGUF_MAX_ROPE_FACTORS],
                                    size_t *count);

/* ---- gguf_export_vocab.c ---- */

/* Splits a merge of a tokenizer.json into its halves, in both spellings of the file. Returns false
 * for other values. */
struct dgl_json;
bool gguf_export_merge_split(const struct dgl_json *merge, struct dgl_str *left,
                             struct dgl_str *right);

/* Writes tokenizer.ggml.* and the chat templates. Returns DGL_ERR_UNSUPPORTED for tokenizers of
 * another kind. */
enum dgl_status gguf_export_vocab(const struct dgl_log *log, const struct dgl_model_file *model,
                                  struct gguf_writer *w);

#endif
