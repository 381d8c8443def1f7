/* Loads the text of loader/desc/modules.h from a folder or a pack. */
#ifndef DGL_LOADER_MODULES_TEXT_H
#define DGL_LOADER_MODULES_TEXT_H

#include "loader/model/model_text.h"

/* A folder without modules.json, but with 1_Pooling/config.json, has that module. *text is
 * unchanged if the model has no modules. The caller frees it with free(). */
enum dgl_status modules_load(const struct model_texts *texts, char **text, size_t *len);

#endif
