/* inotify over folders and files of kernels: what is being written, was saved, renamed or deleted.
 *
 * A watch is of a folder, not of its name: a folder that the options name (a root) is compared at
 * every look with what has its name now, and what has come there instead is watched and read anew.
 */
#include "tools/watch/watch_files.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"

#define EVENTS (IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE)
#define DEPTH  8 /* folders within folders, as when they are read */

/* A folder that is watched. Depth 0 and -1 are roots, which are kept while they are not there. */
struct place {
    int wd;    /* -1: not there, or cannot be watched */
    char *dir; /* NULL: not used */
    int depth; /* in a folder of --kernel-dir; -1: only files that the options name */
    dev_t dev; /* of what had its name when it was last watched; 0 and 0: nothing */
    ino_t ino;
};

struct watch_files {
    struct watch_files_params params;
    int fd;
    struct place *places;
    size_t num_places, cap_places;
    char *deep; /* the last folder that lies too deep, because of which edits are refused */
    bool failed;
};

/* ---- what is watched ------------------------------------------------------------------------- */

/* False if there is no folder of that name. */
static bool find_folder(const char *dir, dev_t *dev, ino_t *ino)
{
    struct stat st;
    const bool there = stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
    *dev = there ? st.st_dev : 0;
    *ino = there ? st.st_ino : 0;
    return there;
}

static void add_place(struct watch_files *w, const char *dir, int depth)
{
    struct place place = {.wd = -1, .depth = depth};
    size_t i = 0;
    /* Before it is watched: what takes its name in between is found at the next look. */
    if (find_folder(dir, &place.dev, &place.ino)) {
        place.wd = inotify_add_watch(w->fd, dir, EVENTS | IN_ONLYDIR);
        if (place.wd < 0 && errno != ENOENT && errno != ENOTDIR)
            console_note(w->params.console, "watch: %s cannot be watched: %s", dir,
                         strerror(errno));
    }
    /* One folder may be watched for two reasons, and by two names. */
    while (i < w->num_places && (!w->places[i].dir || strcmp(w->places[i].dir, dir) != 0 ||
                                 (w->places[i].depth < 0) != (depth < 0)))
        i++;
    if (i < w->num_places) {
        place.dir = w->places[i].dir;
        place.depth = w->places[i].depth;
        w->places[i] = place;
        return;
    }
    if (place.wd < 0 && depth > 0)
        return;
    for (i = 0; i < w->num_places && w->places[i].dir;)
        i++;
    place.dir = strdup(dir);
    if (!place.dir || (i == w->num_places &&
                       !dgl_grow((void **)&w->places, &w->cap_places, i + 1, sizeof(*w->places)))) {
        free(place.dir);
        w->failed = true;
        return;
    }
    w->places[i] = place;
    if (i == w->num_places)
        w->num_places++;
}

bool watch_is_in(const char *path, const char *dir)
{
    const size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || (len && dir[len - 1] == '/'));
}

/* Ends the watches of a folder of kernels and of those in it, which have gone elsewhere. */
static void drop_places(struct watch_files *w, const char *dir)
{
    for (size_t i = 0; i < w->num_places; i++) {
        struct place *p = &w->places[i];
        if (!p->dir || p->depth < 0 || (strcmp(p->dir, dir) != 0 && !watch_is_in(p->dir, dir)))
            continue;
        const int wd = p->wd;
        size_t other = 0;
        p->wd = -1;
        p->dev = 0;
        p->ino = 0;
        while (other < w->num_places && w->places[other].wd != wd)
            other++;
        if (wd >= 0 && other == w->num_places)
            inotify_rm_watch(w->fd, wd);
        if (p->depth > 0) {
            free(p->dir);
            p->dir = NULL;
        }
    }
}

bool watch_is_kernel_file(const char *name)
{
    return dgl_str_ends(dgl_str_of(name), ".comp") || dgl_str_ends(dgl_str_of(name), ".glsl");
}

static void note_saved(const struct watch_files *w, const char *path)
{
    w->params.note(w->params.priv, path, WATCH_SAVED);
}

static bool is_linked_folder(const char *path)
{
    return dgl_path_is_dir(path) && dgl_path_is_link(path);
}

/* Watches the folder and those in it; the kernel files there count as saved, and so does what only
 * has the name of one. */
static void walk(struct watch_files *w, const char *dir, int depth)
{
    const struct dgl_log quiet = {0};
    char **names = NULL;
    size_t count = 0;
    if (depth > DEPTH) {
        console_say("watch: %s: refused: a kernel directory is at most %d folders deep", dir,
                    DEPTH);
        free(w->deep);
        w->deep = strdup(dir);
        w->failed = w->failed || !w->deep;
        return;
    }
    add_place(w, dir, depth);
    if (dgl_dir_list(&quiet, dir, &names, &count) != DGL_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (names[i][0] == '.')
            continue;
        char *path = dgl_path_join(dir, names[i]);
        if (path && watch_is_kernel_file(names[i]))
            note_saved(w, path);
        else if (path && is_linked_folder(path))
            w->params.note(w->params.priv, path, WATCH_LINKED);
        else if (path && dgl_path_is_dir(path))
            walk(w, path, depth + 1);
        w->failed = w->failed || !path;
        free(path);
    }
    dgl_names_free(names, count);
}

/* Its folder, since editors replace the file; "" = the working folder. */
static void watch_file(struct watch_files *w, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *target = dgl_path_target(path),
         *dir = slash ? strndup(path, (size_t)(slash - path + 1)) : strdup(".");
    if (dir && target)
        add_place(w, dir, -1);
    /* A link is edited where it leads to. */
    char *end = target ? strrchr(target, '/') : NULL;
    if (dir && end && strcmp(target, path) != 0) {
        *end = '\0';
        add_place(w, target[0] ? target : "/", -1);
    }
    w->failed = w->failed || !dir || !target;
    free(dir);
    free(target);
}

/* Notes the file if it is that of the event, by its own name or by that which its link leads to. */
static void match_file(struct watch_files *w, const char *file, const char *dir, const char *name,
                       enum watch_event event)
{
    char *path = dgl_path_join(dir, name), *target = dgl_path_target(file);
    const char *slash = strrchr(file, '/');
    const size_t dir_len = slash ? (size_t)(slash - file + 1) : 0;
    const bool same_dir =
        slash ? strlen(dir) == dir_len && strncmp(dir, file, dir_len) == 0 : strcmp(dir, ".") == 0;
    if ((same_dir && strcmp(file + dir_len, name) == 0) ||
        (path && target && strcmp(path, target) == 0)) {
        w->params.note(w->params.priv, file, event);
        if (dgl_path_is_link(file)) /* perhaps to another folder than before */
            watch_file(w, file);
    }
    w->failed = w->failed || !path || !target;
    free(path);
    free(target);
}

/* Notes the file if it, or what its link leads to, is in this folder. */
static void match_folder(struct watch_files *w, const char *file, const char *dir)
{
    char *target = dgl_path_target(file);
    const char *paths[] = {file, target ? target : file};
    for (size_t i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        match_file(w, file, dir, slash ? slash + 1 : paths[i], WATCH_SAVED);
    }
    w->failed = w->failed || !target;
    free(target);
}

/* Watches and reads anew the roots whose names lead elsewhere than they did: they were removed or
 * moved, and may have been made again. */
static void follow_roots(struct watch_files *w)
{
    const struct options *opt = w->params.opt;
    for (size_t i = 0; i < w->num_places && !w->failed; i++) {
        const char *dir = w->places[i].dir;
        const int depth = w->places[i].depth;
        dev_t dev;
        ino_t ino;
        if (!dir || depth > 0)
            continue;
        find_folder(dir, &dev, &ino);
        if (dev == w->places[i].dev && ino == w->places[i].ino)
            continue;
        if (depth == 0) {
            drop_places(w, dir);
            note_saved(w, dir);
            walk(w, dir, 0);
            continue;
        }
        add_place(w, dir, -1);
        for (size_t f = 0; f < opt->kernel_file.count; f++)
            match_folder(w, opt->kernel_file.item[f], dir);
        if (opt->kernel_config)
            match_folder(w, opt->kernel_config, dir);
        if (opt->user_kernels_path)
            match_folder(w, opt->user_kernels_path, dir);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

/* What was made is no file that somebody will write to and close: a link, a pipe, another name of a
 * file. */
static bool is_made_at_once(const char *dir, const char *name)
{
    struct stat st;
    char *path = dgl_path_join(dir, name);
    const bool is = path && lstat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_nlink > 1);
    free(path);
    return is;
}

static void take_event(struct watch_files *w, const struct inotify_event *event)
{
    const struct options *opt = w->params.opt;
    /* Any file may have changed, or the folder has gone: follow_roots() reads anew. */
    for (size_t i = 0; i < w->num_places && (event->mask & (IN_Q_OVERFLOW | IN_IGNORED)); i++) {
        struct place *p = &w->places[i];
        if (!p->dir || (p->wd != event->wd && !(event->mask & IN_Q_OVERFLOW)))
            continue;
        if (event->mask & IN_IGNORED)
            p->wd = -1;
        if (p->depth == 0)
            note_saved(w, p->dir);
        if (p->depth <= 0) {
            p->dev = 0;
            p->ino = 0;
        } else if (event->mask & IN_IGNORED) {
            free(p->dir);
            p->dir = NULL;
        }
    }
    /* The list may grow meanwhile. */
    for (size_t i = 0, count = w->num_places; i < count && event->len; i++) {
        if (!w->places[i].dir || w->places[i].wd != event->wd)
            continue;
        const char *dir = w->places[i].dir;
        const int depth = w->places[i].depth;
        /* What was made is still empty, unless it was made at once. */
        const bool written =
            (event->mask & IN_MODIFY) || ((event->mask & IN_CREATE) && !(event->mask & IN_ISDIR) &&
                                          !is_made_at_once(dir, event->name));
        const enum watch_event what = written ? WATCH_WRITTEN : WATCH_SAVED;
        if (depth < 0) {
            for (size_t f = 0; f < opt->kernel_file.count; f++)
                match_file(w, opt->kernel_file.item[f], dir, event->name, what);
            if (opt->kernel_config)
                match_file(w, opt->kernel_config, dir, event->name, what);
            if (opt->user_kernels_path)
                match_file(w, opt->user_kernels_path, dir, event->name, what);
            continue;
        }
        if (event->name[0] == '.') /* hidden: locks of editors and what they write first */
            continue;
        char *path = dgl_path_join(dir, event->name);
        w->failed = w->failed || !path;
        if (path && watch_is_kernel_file(event->name)) {
            w->params.note(w->params.priv, path, what);
        } else if (path && (event->mask & (IN_DELETE | IN_MOVED_FROM))) { /* with the files in it */
            if (event->mask & IN_ISDIR)
                drop_places(w, path);
            note_saved(w, path);
            if (w->deep && !dgl_path_is_dir(w->deep)) {
                w->params.note(w->params.priv, w->deep, WATCH_FREED);
                free(w->deep);
                w->deep = NULL;
            }
        } else if (path && (event->mask & (IN_CREATE | IN_MOVED_TO))) {
            if (event->mask & IN_ISDIR)
                walk(w, path, depth + 1);
            else if (is_linked_folder(path))
                w->params.note(w->params.priv, path, WATCH_LINKED);
        }
        free(path);
    }
}

void watch_files_look(struct watch_files *w)
{
    _Alignas(struct inotify_event) char block[16384];
    ssize_t got;
    while ((got = read(w->fd, block, sizeof(block))) > 0)
        for (char *p = block; p < block + got;) {
            const struct inotify_event *event = (const struct inotify_event *)(const void *)p;
            take_event(w, event);
            p += sizeof(*event) + event->len;
        }
    follow_roots(w);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool watch_files_create(struct watch_files **out, const struct watch_files_params *params)
{
    const struct options *opt = params->opt;
    struct watch_files *w = *out = dgl_new(struct watch_files);
    if (!w) {
        console_error("out of memory for --watch-kernels");
        return false;
    }
    *w = (struct watch_files){.params = *params, .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
    if (w->fd < 0) {
        console_error("--watch-kernels: files cannot be watched: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < opt->kernel_dir.count; i++)
        walk(w, opt->kernel_dir.item[i], 0);
    for (size_t i = 0; i < opt->kernel_file.count; i++)
        watch_file(w, opt->kernel_file.item[i]);
    if (opt->kernel_config)
        watch_file(w, opt->kernel_config);
    if (opt->user_kernels_path)
        watch_file(w, opt->user_kernels_path);
    if (params->pack_dir)
        walk(w, params->pack_dir, 0);
    if (w->failed)
        console_error("out of memory for --watch-kernels");
    return !w->failed;
}

void watch_files_destroy(struct watch_files **files)
{
    struct watch_files *w = *files;
    *files = NULL;
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    for (size_t i = 0; i < w->num_places; i++)
        free(w->places[i].dir);
    free(w->places);
    free(w->deep);
    free(w);
}

bool watch_files_failed(const struct watch_files *w)
{
    return w->failed;
}
