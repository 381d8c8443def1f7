/* Embedding models: the modules that sentence-transformers runs after the model, as modules.json
 * and the config.json of each folder that it names say. GGUF files have a key instead.
 *
 * In this program they are one text: modules.json with the config of each module as its member
 * "config". Packs store this text, because they have no folders. */
#ifndef DGL_LOADER_MODULES_H
#define DGL_LOADER_MODULES_H

#include "core/base/str.h"
#include "core/dopplergl.h"

#define MODULES_POOLING "Pooling" /* type of the module that pools */

/* Embeddings as the files of a model say. */
struct model_pooling {
    enum dgl_pooling pooling; /* DGL_POOLING_MEAN if no file says it */
    bool normalize;
    char origin[112]; /* "1_Pooling/config.json"; "" = no file says it */
    char fault[192];  /* why these embeddings cannot be computed; "" = they can */
};

/* Reads the text, or sets the defaults if it is NULL. Modules that are not supported are no errors,
 * because answers do not depend on them: the first one is named in out->fault. `name` is for
 * messages. */
enum dgl_status modules_read(const struct dgl_log *log, const char *name, const char *text,
                             size_t len, struct model_pooling *out);

/* Returns the number that GGUF has for a pooling: 1 mean, 2 cls, 3 last; or -1. */
enum { MODULES_GGUF_NONE = 0, MODULES_GGUF_LAST = 3 };
int64_t modules_gguf_type(enum dgl_pooling pooling);
/* Writes the text for a GGUF file whose key `key` has the number `type`, 1 to MODULES_GGUF_LAST. */
void modules_write_gguf(int64_t type, const char *key, struct dgl_buf *out);

#endif
