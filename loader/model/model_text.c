/* Loads the small text files of a model from a folder, a pack or a GGUF file. */
#include "loader/model/model_text.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "loader/gguf/gguf_model.h"
#include "loader/rdrr/rdrr_format.h"

enum dgl_status model_text_load(const struct model_texts *texts, const char *name, char **text,
                                size_t *len)
{
    if (texts->gguf)
        return gguf_text_load(texts->log, texts->source, texts->dir, texts->override_kv, name, text,
                              len);
    /* Packs of other converters contain the files without listing them, so no hash is known. */
    if (texts->pack && (texts->pack->manifest.ours || texts->pack->manifest.num_copied > 0))
        return rdrr_copied_load(texts->log, texts->pack, name, text, len);
    bool found;
    char *path = NULL;
    enum dgl_status status;
    TRY(blob_find_in(texts->log, texts->source, texts->dir, name, &found));
    if (!found)
        return DGL_OK;
    path = dgl_path_join(texts->dir, name);
    status = path ? blob_load(texts->log, texts->source, path, RDRR_MAX_COPIED_BYTES, text, len)
                  : dgl_fail_memory(texts->log, "path", strlen(name));
done:
    free(path);
    return status;
}
