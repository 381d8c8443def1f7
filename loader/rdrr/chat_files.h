/*
 * chat_files.h: chat templates in files of their own, beside chat_template.jinja. A Hugging Face
 * folder has them as additional_chat_templates/NAME.jinja; in a pack, whose manifest lists plain
 * names only, such a file is chat_template.NAME.jinja.
 */
#ifndef DGL_LOADER_CHAT_FILES_H
#define DGL_LOADER_CHAT_FILES_H

#include "core/base/status.h"
#include "core/base/str.h"
#include "loader/source/blob_source.h"

#define CHAT_FILE_PREFIX "chat_template." /* in packs, before the name */
#define CHAT_FILE_SUFFIX ".jinja"

/* `file` is the path below the model's folder, `name` the template's. */
typedef enum dgl_status (*chat_file_fn)(void *priv, const char *file, struct dgl_str name);

/* Calls `each` in the order of names until it fails. None is no fault. */
enum dgl_status chat_files_each(const struct dgl_log *log, const struct blob_source *source,
                                const char *dir, bool pack, chat_file_fn each, void *priv);

#endif
