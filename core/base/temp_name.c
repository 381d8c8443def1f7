/* Names and locks of temporaries, and removal of the temporaries of killed processes. */
#include "core/base/temp_name.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"

#define MARK ".tmp-"

char *dgl_temp_name(const char *path)
{
    struct dgl_buf name = {0};
    dgl_buf_printf(&name, "%s" MARK "%ld-%llx", path, (long)getpid(),
                   (unsigned long long)dgl_now_ns());
    return dgl_buf_take(&name);
}

void dgl_temp_lock(int fd)
{
    /* Some network file systems have no locks. There only the process id shows that the file is in
     * use. */
    (void)!flock(fd, LOCK_EX | LOCK_NB);
}

/* Returns the process id in a temporary name of `target`, or 0 if `name` is not such a name. */
static int64_t owner_of(const char *name, const char *target)
{
    size_t len = strlen(target), mark = sizeof(MARK) - 1;
    int64_t pid;
    if (strncmp(name, target, len) != 0 || strncmp(name + len, MARK, mark) != 0)
        return 0;
    const char *digits = name + len + mark, *dash = strchr(digits, '-');
    if (!dash ||
        !dgl_parse_i64((struct dgl_str){digits, (size_t)(dash - digits)}, 1, INT32_MAX, &pid))
        return 0;
    size_t hex = strspn(dash + 1, "0123456789abcdef");
    return hex >= 1 && hex <= 16 && dash[1 + hex] == '\0' ? pid : 0;
}

/* The process id of a writer in another container or on another machine is unknown here, but its
 * lock is visible. */
static bool is_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return true; /* cannot check: keep the file */
    bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return locked;
}

static void remove_left(const struct dgl_log *log, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
        st.st_uid != geteuid() || is_locked(path))
        return;
    if (S_ISDIR(st.st_mode))
        dgl_dir_remove(path);
    else
        unlink(path);
    if (!dgl_path_present(path))
        dgl_notice(log, "removed %s, which a process that was killed had left behind",
                   DGL_PRINTABLE(path));
}

void dgl_temp_sweep(const struct dgl_log *log, const char *path)
{
    const char *slash = strrchr(path, '/'), *target = slash ? slash + 1 : path;
    char *dir = slash ? dgl_strndup(path, (size_t)(slash - path) + 1) : dgl_strdup("."),
         **names = NULL;
    size_t count = 0;
    if (!dir || !*target || dgl_dir_list(NULL, dir, &names, &count) != DGL_OK)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t pid = owner_of(names[i], target);
        /* If the process id was reused, the file is kept. That only wastes disk space. */
        bool dead = pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
        char *full = dead ? dgl_path_join(dir, names[i]) : NULL;
        if (full)
            remove_left(log, full);
        free(full);
    }
    dgl_names_free(names, count);
    free(dir);
}
