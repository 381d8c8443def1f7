/* GGUF models of a folder and their quantisations, by the names of files. */
#ifndef DGL_LOADER_GGUF_CHOICE_H
#define DGL_LOADER_GGUF_CHOICE_H

#include "core/base/status.h"
#include "core/base/str.h"
#include "loader/source/blob_source.h"

#define GGUF_QUANT_BYTES 32

struct gguf_choice {
    char *name; /* in the folder, "sub/x.gguf" in a subfolder; of the first part */
    char quant[GGUF_QUANT_BYTES]; /* "Q4_K_M" as in the name, or "" */
    uint64_t bytes;               /* sum of all existing parts */
};
struct gguf_choices {
    struct gguf_choice *list; /* sorted by name */
    size_t count, cap;
};
/* Lists the models of a folder and, with `subfolders`, of its subfolders. The parts of a split
 * model are one entry. Projectors and importance matrices are recognised by name and left out. */
enum dgl_status gguf_choices_list(const struct dgl_log *log, const struct dgl_source *source,
                                  const char *dir, bool subfolders, struct gguf_choices *out);
void gguf_choices_finish(struct gguf_choices *choices);
/* Keeps the models with this quantisation, or with this part of the name between separators. Case
 * is ignored. If it is the whole quantisation of a model, only such models are kept. */
void gguf_choices_pick(struct gguf_choices *choices, struct dgl_str quant);

/* Sets `quant` to the quantisation in a file's name, spelled as there, or "". */
void gguf_name_quant(const char *name, char quant[GGUF_QUANT_BYTES]);
/* Sets `quant` to the type of most matrices of the file, in lower case, or to the mix that
 * general.file_type names if it has that type. "" if the file cannot be read. The first file of a
 * split model may have no tensors; then general.file_type alone counts. */
void gguf_file_quant(const struct dgl_source *source, const char *path,
                     char quant[GGUF_QUANT_BYTES]);

#endif
