/* Detects changes of kernel files by inotify. Folders that do not exist are compared by name at
 * each call, because inotify cannot watch them. */
#include "tools/watch/watch_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "tools/cli/console.h"

/* IN_MODIFY is not among them: an open file is incomplete. */
#define EVENTS    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE)
#define DEPTH_MAX 8 /* folders inside folders; the library refuses more */

/* A watched folder. */
struct place {
    int wd; /* -1 if the folder does not exist */
    char *dir;
    bool has_kernels; /* all kernel files in it count; otherwise only the named files */
    bool is_root;     /* the options name it; `dev` and `ino` are then checked at every call */
    dev_t dev;
    ino_t ino;
};

struct watch_files {
    const struct options *opt;
    const char *pack_dir;
    const char *files[OPTIONS_MAX_STRS + 2]; /* that the options name: kernels, then hints */
    size_t num_files;
    int fd;
    struct place *places;
    size_t num_places, cap_places;
};

static void drop_places(struct watch_files *w)
{
    for (size_t i = 0; i < w->num_places; i++)
        free(w->places[i].dir);
    w->num_places = 0;
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

static void identify(const char *dir, dev_t *dev, ino_t *ino)
{
    struct stat st;
    const bool exists = stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
    *dev = exists ? st.st_dev : 0;
    *ino = exists ? st.st_ino : 0;
}

static bool is_kernel_file(const char *name)
{
    return dgl_str_ends(dgl_str_of(name), ".comp") || dgl_str_ends(dgl_str_of(name), ".glsl");
}

static bool add_place(struct watch_files *w, const char *dir, bool has_kernels, bool is_root)
{
    struct place place = {.dir = strdup(dir), .has_kernels = has_kernels, .is_root = is_root};
    if (!place.dir ||
        !dgl_grow((void **)&w->places, &w->cap_places, w->num_places + 1, sizeof(*w->places))) {
        free(place.dir);
        return false;
    }
    /* Before the watch: if another folder takes this name in between, the next call finds out. */
    identify(dir, &place.dev, &place.ino);
    place.wd = inotify_add_watch(w->fd, dir, EVENTS | IN_ONLYDIR);
    if (place.wd < 0 && errno != ENOENT && errno != ENOTDIR)
        console_say("watch: %s cannot be watched: %s", dir, strerror(errno));
    w->places[w->num_places++] = place;
    return true;
}

/* Watches a folder of kernels and the folders in it. */
static bool add_tree(struct watch_files *w, const char *dir, int depth)
{
    const struct dgl_log quiet = {0};
    char **names = NULL;
    size_t count = 0;
    bool ok = add_place(w, dir, true, depth == 0);
    if (!ok || depth > DEPTH_MAX || dgl_dir_list(&quiet, dir, &names, &count) != DGL_OK)
        return ok;
    for (size_t i = 0; i < count && ok; i++) {
        if (names[i][0] == '.' || is_kernel_file(names[i]))
            continue;
        char *path = dgl_path_join(dir, names[i]);
        ok = path != NULL;
        if (ok && dgl_path_is_dir(path) && !dgl_path_is_link(path))
            ok = add_tree(w, path, depth + 1);
        free(path);
    }
    dgl_names_free(names, count);
    return ok;
}

/* Watches the folder of a named file, because editors replace files. If the file is a link, it also
 * watches the folder of its target. */
static bool add_file(struct watch_files *w, const char *path)
{
    char *target = dgl_path_target(path);
    const char *paths[] = {path, target};
    bool ok = target != NULL;
    for (size_t i = 0; i < 2 && ok; i++) {
        const char *slash = strrchr(paths[i], '/');
        char *dir = slash ? strndup(paths[i], (size_t)(slash - paths[i] + 1)) : strdup(".");
        ok = dir && add_place(w, dir, false, true);
        free(dir);
    }
    free(target);
    return ok;
}

bool watch_files_restart(struct watch_files *w)
{
    bool ok = true;
    drop_places(w);
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0)
        return console_refuse("--watch-kernels: files cannot be watched: %s", strerror(errno));
    for (size_t i = 0; i < w->opt->kernel_dir.count && ok; i++)
        ok = add_tree(w, w->opt->kernel_dir.item[i], 0);
    if (w->pack_dir && ok)
        ok = add_tree(w, w->pack_dir, 0);
    for (size_t i = 0; i < w->num_files && ok; i++)
        ok = add_file(w, w->files[i]);
    if (!ok)
        console_error("out of memory: --watch-kernels ends");
    return ok;
}

/* Returns true if a named file, or the target of its link, has this name. */
static bool is_named(const struct watch_files *w, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < w->num_files && !found; i++) {
        char *target = dgl_path_target(w->files[i]);
        const char *paths[] = {w->files[i], target ? target : ""};
        for (size_t j = 0; j < 2 && !found; j++) {
            const char *slash = strrchr(paths[j], '/');
            found = strcmp(slash ? slash + 1 : paths[j], name) == 0;
        }
        free(target);
    }
    return found;
}

static bool event_counts(const struct watch_files *w, const struct place *place,
                         const struct inotify_event *event)
{
    struct stat st;
    if (!place->has_kernels)
        return is_named(w, event->name);
    if (event->name[0] == '.') /* locks and temporary files of editors */
        return false;
    char *path = dgl_path_join(place->dir, event->name);
    const bool exists = path && lstat(path, &st) == 0;
    bool counts = (event->mask & IN_ISDIR) || is_kernel_file(event->name) ||
                  (exists && S_ISLNK(st.st_mode) && dgl_path_is_dir(path));
    /* A new regular file is still empty: its writer closes it later. A further name of an existing
     * file is complete. */
    if ((event->mask & IN_CREATE) && exists && S_ISREG(st.st_mode) && st.st_nlink == 1)
        counts = false;
    free(path);
    return counts;
}

bool watch_files_changed(struct watch_files *w)
{
    _Alignas(struct inotify_event) char block[16384];
    bool changed = false;
    ssize_t got;
    while ((got = read(w->fd, block, sizeof(block))) > 0)
        for (const char *p = block; p < block + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)p;
            changed = changed || (event->mask & (IN_Q_OVERFLOW | IN_IGNORED));
            for (size_t i = 0; i < w->num_places && event->len && !changed; i++)
                changed = w->places[i].wd == event->wd && event_counts(w, &w->places[i], event);
            p += sizeof(*event) + event->len;
        }
    for (size_t i = 0; i < w->num_places && !changed; i++) {
        const struct place *place = &w->places[i];
        dev_t dev = place->dev;
        ino_t ino = place->ino;
        if (place->is_root)
            identify(place->dir, &dev, &ino);
        changed = dev != place->dev || ino != place->ino;
    }
    return changed;
}

bool watch_files_create(struct watch_files **out, const struct options *opt, const char *pack_dir)
{
    struct watch_files *w = *out = dgl_new(struct watch_files);
    if (!w)
        return console_refuse("out of memory for --watch-kernels");
    *w = (struct watch_files){.opt = opt, .pack_dir = pack_dir, .fd = -1};
    for (size_t i = 0; i < opt->kernel_file.count; i++)
        w->files[w->num_files++] = opt->kernel_file.item[i];
    if (opt->kernel_config)
        w->files[w->num_files++] = opt->kernel_config;
    if (opt->user_kernels_path)
        w->files[w->num_files++] = opt->user_kernels_path;
    if (watch_files_restart(w))
        return true;
    watch_files_destroy(out);
    return false;
}

void watch_files_destroy(struct watch_files **files)
{
    struct watch_files *w = *files;
    *files = NULL;
    if (!w)
        return;
    drop_places(w);
    free(w->places);
    free(w);
}
