/* model_text.h: the small text files of a model: tokenizer, generation settings, chat templates. */
#ifndef DGL_LOADER_MODEL_TEXT_H
#define DGL_LOADER_MODEL_TEXT_H

#include "loader/rdrr/rdrr_reader.h"

/* Where the texts of a model are. */
struct model_texts {
    const struct dgl_log *log;
    const char *dir;
    const struct rdrr_pack *pack; /* NULL = plain folder */
    bool gguf;                    /* `dir` is a GGUF file: its keys make up the texts */
};

/* From a pack with its size and hash checked. *text stays as it is when there is no such file; free
 * it with free(). */
enum dgl_status model_text_load(const struct model_texts *texts, const char *name, char **text,
                                size_t *len);

#endif
