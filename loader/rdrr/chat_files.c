/* Finds chat templates that have files of their own. */
#include "loader/rdrr/chat_files.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"

#define FOLDER "additional_chat_templates"

/* Name of the template in a file name, or "" for another file. */
static struct dgl_str name_in(const char *file, const char *prefix)
{
    const size_t before = strlen(prefix), after = strlen(CHAT_FILE_SUFFIX), len = strlen(file);
    if (len <= before + after || strncmp(file, prefix, before) != 0 ||
        strcmp(file + len - after, CHAT_FILE_SUFFIX) != 0)
        return (struct dgl_str){"", 0};
    return (struct dgl_str){file + before, len - before - after};
}

enum dgl_status chat_files_each(const struct dgl_log *log, const struct dgl_source *source,
                                const char *dir, bool pack, chat_file_fn each, void *priv)
{
    char **files = NULL, *file = NULL,
         *folder = pack ? dgl_strdup(dir) : dgl_path_join(dir, FOLDER);
    size_t count = 0;
    enum dgl_status status = DGL_OK;
    if (!folder)
        return dgl_fail_memory(log, dir, strlen(dir));
    TRY(blob_list(log, source, folder, &files, &count));
    for (size_t i = 0; i < count; i++) {
        struct dgl_str name = name_in(files[i], pack ? CHAT_FILE_PREFIX : "");
        if (name.len == 0)
            continue;
        free(file);
        file = pack ? dgl_strdup(files[i]) : dgl_path_join(FOLDER, files[i]);
        TRY(file ? each(priv, file, name) : dgl_fail_memory(log, files[i], strlen(files[i])));
    }
done:
    dgl_names_free(files, count);
    free(file);
    free(folder);
    return status;
}
