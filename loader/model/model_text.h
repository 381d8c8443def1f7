/* model_text.h: the small text files of a model: tokenizer, generation settings, chat templates. */
#ifndef DGL_LOADER_MODEL_TEXT_H
#define DGL_LOADER_MODEL_TEXT_H

#include "loader/rdrr/rdrr_reader.h"

/* Location of the text files of a model. */
struct model_texts {
    const struct dgl_log *log;
    const struct dgl_source *source;
    const char *dir;
    const struct rdrr_pack *pack;   /* NULL = plain folder */
    bool gguf;                      /* `dir` is a GGUF file, whose keys replace the texts */
    const char *const *override_kv; /* of that file: gguf_override.h; NULL = none */
};

/* Loads a text. In a pack its size and hash are verified. *text is unchanged if the file is absent.
 * The caller frees it with free(). */
enum dgl_status model_text_load(const struct model_texts *texts, const char *name, char **text,
                                size_t *len);

#endif
