/* Output folder of a conversion. It is built under a temporary name next to its path and renamed at
 * the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef RENAME_EXCHANGE /* missing in some C libraries, such as musl 1.2.3 */
#include <linux/fs.h>
#include <sys/syscall.h>
#define renameat2(...) ((int)syscall(SYS_renameat2, __VA_ARGS__))
#endif

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/temp_name.h"
#include "loader/convert/convert_plan.h"
#include "loader/rdrr/rdrr_format.h"

enum { max_name_tries = 100 };

/* With --force, only a pack or an empty folder is replaced. Any other folder is probably a typing
 * mistake. */
static enum dgl_status check_replaceable(const struct dgl_log *log, const char *path)
{
    char *manifest = dgl_path_join(path, RDRR_MANIFEST), **names = NULL;
    size_t count = 0;
    enum dgl_status status = DGL_OK;
    if (!manifest)
        return dgl_fail_memory(log, path, strlen(path));
    if (!dgl_path_is_dir(path))
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s exists and is not a folder; remove it first", path);
    else if (!dgl_path_exists(manifest))
        status = dgl_dir_list(log, path, &names, &count);
    if (count > 0)
        status = dgl_fail(log, DGL_ERR_INVALID_ARG,
                          "%s exists and is not a pack (it has no " RDRR_MANIFEST
                          "): not replaced, remove it first",
                          path);
    dgl_names_free(names, count);
    free(manifest);
    return status;
}

/* Makes the temporary folder and locks it. The folder itself is locked because its files come and
 * go. If no other descriptors are left, this one still serves to remove the folder. */
static enum dgl_status make_temp(const struct dgl_log *log, struct convert_folder *folder)
{
    for (int i = 0; i < max_name_tries; i++) {
        char *temp = dgl_temp_name(folder->path);
        if (!temp)
            return dgl_fail_memory(log, folder->path, strlen(folder->path));
        if (mkdir(temp, 0777) == 0) {
            folder->temp = temp;
            folder->lock = open(temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (folder->lock < 0) {
                enum dgl_status status = dgl_fail_errno(log, "open directory", temp);
                rmdir(temp);
                return status;
            }
            dgl_temp_lock(folder->lock);
            folder->locked = true;
            return DGL_OK;
        }
        bool taken = errno == EEXIST && i + 1 < max_name_tries;
        enum dgl_status status = taken ? DGL_OK : dgl_fail_errno(log, "make directory", temp);
        free(temp);
        if (status != DGL_OK)
            return status;
    }
    return DGL_ERR_IO;
}

enum dgl_status convert_folder_begin(const struct dgl_log *log, const char *path, bool force,
                                     struct convert_folder *out)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    *out = (struct convert_folder){.path = dgl_strndup(path, len), .force = force};
    enum dgl_status status = DGL_OK;
    if (!out->path)
        TRY(dgl_fail_memory(log, path, len));
    if (dgl_path_present(out->path))
        TRY(force ? check_replaceable(log, out->path)
                  : dgl_fail(log, DGL_ERR_INVALID_ARG,
                             "%s exists already; choose another name, or --force to replace it",
                             out->path));
    /* If the user named a link, the folder it points to is replaced, not the link. */
    char *target = dgl_path_target(out->path);
    if (!target)
        TRY(dgl_fail_memory(log, out->path, strlen(out->path)));
    free(out->path);
    out->path = target;
    dgl_temp_sweep(log, out->path);
    TRY(make_temp(log, out));
done:
    if (status != DGL_OK)
        convert_folder_finish(out);
    return status;
}

static void sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd); /* some file systems cannot sync a folder; ignored */
    close(fd);
}

/* For file systems that cannot exchange two names. */
static enum dgl_status replace_in_two_steps(const struct dgl_log *log,
                                            struct convert_folder *folder)
{
    struct dgl_buf name = {0};
    dgl_buf_printf(&name, "%s-old", folder->temp);
    char *aside = dgl_buf_take(&name);
    if (!aside)
        return dgl_fail_memory(log, folder->path, strlen(folder->path));
    enum dgl_status status = DGL_OK;
    if (rename(folder->path, aside) != 0) {
        status = dgl_fail_errno(log, "move aside", folder->path);
    } else if (rename(folder->temp, folder->path) != 0) {
        status = dgl_fail_errno(log, "replace", folder->path);
        if (rename(aside, folder->path) != 0)
            dgl_warn(log, "the former %s is now %s", folder->path, aside);
    } else {
        dgl_dir_remove(aside);
        free(folder->temp);
        folder->temp = NULL;
    }
    free(aside);
    return status;
}

static bool cannot_do(int error)
{
    return error == EINVAL || error == ENOSYS || error == ENOTSUP;
}

enum dgl_status convert_folder_publish(const struct dgl_log *log, struct convert_folder *folder)
{
    enum dgl_status status = DGL_OK;
    sync_folder(folder->temp);
    if (!folder->force || !dgl_path_present(folder->path)) {
        int rc = renameat2(AT_FDCWD, folder->temp, AT_FDCWD, folder->path, RENAME_NOREPLACE);
        if (rc != 0 && cannot_do(errno) && !dgl_path_present(folder->path))
            rc = rename(folder->temp, folder->path);
        if (rc != 0)
            return dgl_fail_errno(log, "create", folder->path);
        free(folder->temp);
        folder->temp = NULL;
    } else if (renameat2(AT_FDCWD, folder->temp, AT_FDCWD, folder->path, RENAME_EXCHANGE) != 0) {
        if (!cannot_do(errno))
            return dgl_fail_errno(log, "replace", folder->path);
        status = replace_in_two_steps(log, folder);
    } /* Otherwise temp now holds the replaced folder, which convert_folder_finish() removes. */
    const char *slash = strrchr(folder->path, '/');
    char *parent =
        slash ? dgl_strndup(folder->path, (size_t)(slash - folder->path) + 1) : dgl_strdup(".");
    if (parent)
        sync_folder(parent);
    free(parent);
    return status;
}

void convert_folder_finish(struct convert_folder *folder)
{
    if (folder->locked)
        close(folder->lock);
    folder->locked = false;
    if (folder->temp)
        dgl_dir_remove(folder->temp);
    free(folder->temp);
    free(folder->path);
    folder->temp = folder->path = NULL;
}
