/*
 * chat_files.h: chat templates that have files of their own. In a Hugging Face folder they are
 * additional_chat_templates/NAME.jinja. In a pack, whose manifest lists plain names only, they are
 * chat_template.NAME.jinja.
 */
#ifndef DGL_LOADER_CHAT_FILES_H
#define DGL_LOADER_CHAT_FILES_H

#include "core/base/status.h"
#include "core/base/str.h"
#include "loader/source/blob_source.h"

#define CHAT_FILE_PREFIX "chat_template." /* in packs, before the name */
#define CHAT_FILE_SUFFIX ".jinja"

/* `file` is the path in the folder of the model, `name` the name of the template. */
typedef enum dgl_status (*chat_file_fn)(void *priv, const char *file, struct dgl_str name);

/* Calls `each` for each file, sorted by name, until it fails. A model without such files is not an
 * error. */
enum dgl_status chat_files_each(const struct dgl_log *log, const struct dgl_source *source,
                                const char *dir, bool pack, chat_file_fn each, void *priv);

#endif
