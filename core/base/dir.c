/* Paths and directories. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/str.h"

bool dgl_path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool dgl_path_present(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

char *dgl_path_target(const char *path)
{
    char *target = realpath(path, NULL);
    return target ? target : dgl_strdup(path);
}

bool dgl_path_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool dgl_path_is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

char *dgl_path_join(const char *dir, const char *name)
{
    struct dgl_buf buf = {0};
    dgl_buf_puts(&buf, dir);
    if (buf.len && dir[buf.len - 1] != '/')
        dgl_buf_putc(&buf, '/');
    dgl_buf_puts(&buf, name);
    return dgl_buf_take(&buf);
}

bool dgl_name_is_safe(const char *name, size_t len)
{
    if (len == 0 || len > 255 || memchr(name, '/', len) || memchr(name, '\0', len))
        return false;
    return !(name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

bool dgl_path_is_inside(const char *path, size_t len)
{
    struct dgl_str rest = {path, len}, part;
    if (len == 0 || len >= PATH_MAX || path[0] == '/')
        return false;
    while (dgl_str_split(&rest, '/', &part)) {
        bool here = part.len == 0 || (part.len == 1 && part.p[0] == '.');
        if (!here && !dgl_name_is_safe(part.p, part.len))
            return false;
    }
    return true;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum dgl_status dgl_dir_list(const struct dgl_log *log, const char *path, char ***names,
                             size_t *count)
{
    *names = NULL;
    *count = 0;
    DIR *dir = opendir(path);
    if (!dir)
        return dgl_fail_errno(log, "open directory", path);
    size_t cap = 0;
    enum dgl_status status = DGL_OK;
    while (true) {
        errno = 0; /* readdir() reports errors only through errno */
        const struct dirent *entry = readdir(dir);
        if (!entry)
            break;
        if (is_dot(entry->d_name))
            continue;
        if (!dgl_grow((void **)names, &cap, *count + 1, sizeof(**names)))
            TRY(dgl_fail_memory(log, path, (*count + 1) * sizeof(**names)));
        (*names)[*count] = dgl_strdup(entry->d_name);
        if (!(*names)[*count])
            TRY(dgl_fail_memory(log, path, strlen(entry->d_name) + 1));
        ++*count;
    }
    if (errno)
        status = dgl_fail_errno(log, "list", path);
done:
    closedir(dir);
    if (status != DGL_OK) {
        dgl_names_free(*names, *count);
        *names = NULL;
        *count = 0;
    } else if (*count) {
        qsort(*names, *count, sizeof(**names), compare_names);
    }
    return status;
}

void dgl_names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

enum dgl_status dgl_dir_make(const struct dgl_log *log, const char *path)
{
    char *part = dgl_strdup(path);
    if (!part)
        return dgl_fail_memory(log, path, strlen(path) + 1);
    enum dgl_status status = DGL_OK;
    for (size_t i = 1; status == DGL_OK && i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && (errno != EEXIST || !dgl_path_is_dir(part)))
            status = dgl_fail_errno(log, "make directory", part);
        part[i] = path[i];
    }
    free(part);
    return status;
}

/* Removes `name` in the open directory `parent`. All descriptors are opened with O_NOFOLLOW, so a
 * link that another process creates meanwhile is removed and never followed. */
static void remove_at(int parent, const char *name)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (!is_dot(entry->d_name))
            remove_at(fd, entry->d_name);
    }
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void dgl_dir_remove(const char *path)
{
    remove_at(AT_FDCWD, path);
}
