/* Finding chat templates in files of their own. */
#include "loader/rdrr/chat_files.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

#define FOLDER "additional_chat_templates"

/* The template's name in the name of a file; empty when it is no template's. */
static struct dgl_str name_in(const char *file, const char *prefix)
{
    const size_t before = strlen(prefix), after = strlen(CHAT_FILE_SUFFIX), len = strlen(file);
    if (len <= before + after || strncmp(file, prefix, before) != 0 ||
        strcmp(file + len - after, CHAT_FILE_SUFFIX) != 0)
        return (struct dgl_str){"", 0};
    return (struct dgl_str){file + before, len - before - after};
}

static enum dgl_status scan(const struct dgl_log *log, const char *dir, bool pack,
                            chat_file_fn each, void *priv)
{
    char **files = NULL;
    size_t count = 0;
    enum dgl_status status = dgl_dir_list(log, dir, &files, &count);
    for (size_t i = 0; i < count && status == DGL_OK; i++) {
        struct dgl_str name = name_in(files[i], pack ? CHAT_FILE_PREFIX : "");
        if (name.len == 0)
            continue;
        char *file = pack ? strdup(files[i]) : dgl_path_join(FOLDER, files[i]);
        status = file ? each(priv, file, name) : dgl_fail_memory(log, files[i], strlen(files[i]));
        free(file);
    }
    dgl_names_free(files, count);
    return status;
}

enum dgl_status chat_files_each(const struct dgl_log *log, const char *dir, bool pack,
                                chat_file_fn each, void *priv)
{
    if (pack)
        return scan(log, dir, true, each, priv);
    char *folder = dgl_path_join(dir, FOLDER);
    if (!folder)
        return dgl_fail_memory(log, dir, strlen(dir));
    enum dgl_status status =
        dgl_path_is_dir(folder) ? scan(log, folder, false, each, priv) : DGL_OK;
    free(folder);
    return status;
}
