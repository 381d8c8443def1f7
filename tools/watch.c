/*
 * Live kernels: inotify over the folders and files that the options name.
 *
 * Editors save in several steps (a temporary file, a rename, a backup), so an edit is tried when
 * nothing has happened for QUIET_NS, or MOST_NS after its first step. Only what closes, renames or
 * deletes a file counts: a file that is still being written is left alone. All layers are read anew
 * then and given to the model as one set; they are taken or refused together.
 *
 * A watch is of a folder, not of its name: a folder that the options name (a root) is compared at
 * every look with what has its name now, and what has come there instead is watched and read anew.
 */
#include "tools/watch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mem.h"

#define QUIET_NS 60000000ull
#define MOST_NS  1000000000ull
#define EVENTS   (IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE)
#define DEPTH    8 /* folders within folders, as when they are read */

/* A folder that is watched. Depth 0 and -1 are roots, which are kept while they are not there. */
struct place {
    int wd;    /* -1: not there, or cannot be watched */
    char *dir; /* NULL: not used */
    int depth; /* in a folder of --kernel-dir; -1: only files that the options name */
    dev_t dev; /* of what had its name when it was last watched; 0 and 0: nothing */
    ino_t ino;
};

/* A text of the set that the model has, which came from a file. */
struct known {
    char *path, *name;
    char sha256[65];
    bool is_lib;
};
struct knowns {
    struct known *items;
    size_t count, cap;
    bool failed;
};

struct watch {
    struct engine *engine;
    const struct options *opt;
    int fd;
    char *pack_dir; /* the pack's own folder of kernels; NULL without --allow-pack-kernels */
    struct place *places;
    size_t num_places, cap_places;
    struct knowns known;
    bool has_config, has_user; /* --kernel-config and kernels.json were there when last read */
    char **edited;             /* paths, each once */
    size_t num_edited, cap_edited;
    uint64_t first_ns, last_ns; /* of the edits */
    bool failed;                /* out of memory: nothing is watched any more */
};

/* ---- what the model has ---------------------------------------------------------------------- */

static bool add_known(void *priv, const struct dgl_kernel_override *o)
{
    struct knowns *k = priv;
    if (!dgl_grow((void **)&k->items, &k->cap, k->count + 1, sizeof(*k->items))) {
        k->failed = true;
        return false;
    }
    struct known *item = &k->items[k->count++];
    *item = (struct known){.path = strdup(o->origin), .name = strdup(o->name), .is_lib = o->is_lib};
    memcpy(item->sha256, o->sha256, sizeof(item->sha256));
    k->failed = k->failed || !item->path || !item->name;
    return !k->failed;
}

static void knowns_finish(struct knowns *k)
{
    for (size_t i = 0; i < k->count; i++) {
        free(k->items[i].path);
        free(k->items[i].name);
    }
    free(k->items);
    *k = (struct knowns){0};
}

static const struct known *find_known(const struct knowns *k, const char *path)
{
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->items[i].path, path) == 0)
            return &k->items[i];
    return NULL;
}

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

static void add_place(struct watch *w, const char *dir, int depth)
{
    struct place place = {.wd = -1, .depth = depth};
    size_t i = 0;
    /* Before it is watched: what takes its name in between is found at the next look. */
    if (find_folder(dir, &place.dev, &place.ino)) {
        place.wd = inotify_add_watch(w->fd, dir, EVENTS | IN_ONLYDIR);
        if (place.wd < 0 && errno != ENOENT && errno != ENOTDIR)
            console_note(&w->engine->console, "watch: %s cannot be watched: %s", dir,
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

static bool is_in(const char *path, const char *dir)
{
    const size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || (len && dir[len - 1] == '/'));
}

/* Ends the watches of a folder of kernels and of those in it, which have gone elsewhere. */
static void drop_places(struct watch *w, const char *dir)
{
    for (size_t i = 0; i < w->num_places; i++) {
        struct place *p = &w->places[i];
        if (!p->dir || p->depth < 0 || (strcmp(p->dir, dir) != 0 && !is_in(p->dir, dir)))
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

static bool is_kernel_file(const char *name)
{
    return dgl_str_ends(dgl_str_of(name), ".comp") || dgl_str_ends(dgl_str_of(name), ".glsl");
}

static void note_edit(struct watch *w, const char *path)
{
    size_t i = 0;
    w->last_ns = dgl_now_ns();
    if (w->num_edited == 0)
        w->first_ns = w->last_ns;
    while (i < w->num_edited && strcmp(w->edited[i], path) != 0)
        i++;
    if (i < w->num_edited)
        return;
    char *copy = strdup(path);
    if (!copy ||
        !dgl_grow((void **)&w->edited, &w->cap_edited, w->num_edited + 1, sizeof(*w->edited))) {
        free(copy);
        w->failed = true;
        return;
    }
    w->edited[w->num_edited++] = copy;
}

/* The folder and those in it; with `edits` the kernel files there count as edited. Returns how many
 * there are. */
static size_t walk(struct watch *w, const char *dir, int depth, bool watch, bool edits)
{
    const struct dgl_log quiet = {0};
    char **names = NULL;
    size_t count = 0, found = 0;
    if (watch)
        add_place(w, dir, depth);
    if (dgl_dir_list(&quiet, dir, &names, &count) != DGL_OK)
        return 0;
    for (size_t i = 0; i < count; i++) {
        char *path = dgl_path_join(dir, names[i]);
        if (path && is_kernel_file(names[i])) {
            found++;
            if (edits)
                note_edit(w, path);
        } else if (path && names[i][0] != '.' && depth < DEPTH && dgl_path_is_dir(path) &&
                   !dgl_path_is_link(path)) {
            found += walk(w, path, depth + 1, watch, edits);
        }
        w->failed = w->failed || !path;
        free(path);
    }
    dgl_names_free(names, count);
    return found;
}

/* Its folder, since editors replace the file; "" = the working folder. */
static void watch_file(struct watch *w, const char *path)
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
static void match_file(struct watch *w, const char *file, const char *dir, const char *name)
{
    char *path = dgl_path_join(dir, name), *target = dgl_path_target(file);
    const char *slash = strrchr(file, '/');
    const size_t dir_len = slash ? (size_t)(slash - file + 1) : 0;
    const bool same_dir =
        slash ? strlen(dir) == dir_len && strncmp(dir, file, dir_len) == 0 : strcmp(dir, ".") == 0;
    if ((same_dir && strcmp(file + dir_len, name) == 0) ||
        (path && target && strcmp(path, target) == 0))
        note_edit(w, file);
    w->failed = w->failed || !path || !target;
    free(path);
    free(target);
}

/* The files that the model has from this folder and those in it. */
static void note_known(struct watch *w, const char *dir)
{
    for (size_t i = 0; i < w->known.count; i++)
        if (is_in(w->known.items[i].path, dir))
            note_edit(w, w->known.items[i].path);
}

/* Notes the file if it, or what its link leads to, is in this folder. */
static void match_folder(struct watch *w, const char *file, const char *dir)
{
    char *target = dgl_path_target(file);
    const char *paths[] = {file, target ? target : file};
    for (size_t i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        match_file(w, file, dir, slash ? slash + 1 : paths[i]);
    }
    w->failed = w->failed || !target;
    free(target);
}

/* Watches and reads anew the roots whose names lead elsewhere than they did: they were removed or
 * moved, and may have been made again. */
static void follow_roots(struct watch *w)
{
    const struct options *opt = w->opt;
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
            note_known(w, dir);
            walk(w, dir, 0, true, true);
            continue;
        }
        add_place(w, dir, -1);
        for (size_t f = 0; f < opt->kernel_file.count; f++)
            match_folder(w, opt->kernel_file.item[f], dir);
        if (w->has_config || (opt->kernel_config && dgl_path_exists(opt->kernel_config)))
            match_folder(w, opt->kernel_config, dir);
        if (w->has_user || (opt->user_kernels_path && dgl_path_exists(opt->user_kernels_path)))
            match_folder(w, opt->user_kernels_path, dir);
    }
}

/* ---- events ---------------------------------------------------------------------------------- */

static void take_event(struct watch *w, const struct inotify_event *event)
{
    const struct options *opt = w->opt;
    /* Any file may have changed, or the folder has gone: follow_roots() reads anew. */
    for (size_t i = 0; i < w->num_places && (event->mask & (IN_Q_OVERFLOW | IN_IGNORED)); i++) {
        struct place *p = &w->places[i];
        if (!p->dir || (p->wd != event->wd && !(event->mask & IN_Q_OVERFLOW)))
            continue;
        if (event->mask & IN_IGNORED)
            p->wd = -1;
        if (p->depth == 0)
            note_known(w, p->dir);
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
        if (depth < 0) {
            if (event->mask & (IN_CREATE | IN_ISDIR))
                continue;
            for (size_t f = 0; f < opt->kernel_file.count; f++)
                match_file(w, opt->kernel_file.item[f], dir, event->name);
            if (opt->kernel_config)
                match_file(w, opt->kernel_config, dir, event->name);
            if (opt->user_kernels_path)
                match_file(w, opt->user_kernels_path, dir, event->name);
            continue;
        }
        char *path = dgl_path_join(dir, event->name);
        w->failed = w->failed || !path;
        if (path && (event->mask & IN_ISDIR)) {
            if ((event->mask & (IN_CREATE | IN_MOVED_TO)) && event->name[0] != '.' &&
                depth < DEPTH) {
                walk(w, path, depth + 1, true, true);
            } else if (event->mask & (IN_DELETE | IN_MOVED_FROM)) { /* with the files in it */
                drop_places(w, path);
                note_known(w, path);
            }
        } else if (path && is_kernel_file(event->name) && !(event->mask & IN_CREATE)) {
            note_edit(w, path);
        } else if (path && is_kernel_file(event->name) && dgl_path_is_link(path)) {
            note_edit(w, path); /* made at once, and not written to */
        }
        free(path);
    }
}

static void take_events(struct watch *w)
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

/* ---- an edit --------------------------------------------------------------------------------- */

/* What begins the lines about a path: the NAME of its kernel or lib, else its file's name. */
static void put_name(const struct watch *w, const struct knowns *now, const char *path,
                     struct dgl_buf *out)
{
    const struct known *known = find_known(now, path);
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if (!known)
        known = find_known(&w->known, path);
    if (known)
        dgl_buf_puts(out, known->name);
    else
        dgl_buf_append(out, file, is_kernel_file(file) ? strlen(file) - 5 : strlen(file));
}

struct builtin {
    const char *name;
    char sha256[65];
};

static bool find_builtin(void *priv, const struct dgl_kernel_info *k)
{
    struct builtin *b = priv;
    if (strcmp(k->name, b->name) == 0)
        memcpy(b->sha256, k->sha256, sizeof(b->sha256));
    return !b->sha256[0];
}

static void tell_taken(const struct watch *w, const struct dgl_kernels *kernels,
                       const struct knowns *now, const char *path)
{
    const struct known *known = find_known(now, path), *before = find_known(&w->known, path);
    struct dgl_buf name = {0};
    put_name(w, now, path, &name);
    struct builtin builtin = {.name = name.p ? name.p : ""};
    if (known) {
        console_say("watch: %s: taken %s", name.p, known->sha256);
    } else if (!is_kernel_file(path)) {
        console_say(dgl_path_exists(path) ? "watch: %s: taken" /* hints */
                                          : "watch: %s: taken away: %s is gone",
                    name.p, path);
    } else if (before) {
        if (!before->is_lib)
            dgl_kernels_iterate(kernels, find_builtin, &builtin);
        if (builtin.sha256[0])
            console_say("watch: %s: taken %s, the built-in one: %s is gone", name.p, builtin.sha256,
                        path);
        else
            console_say("watch: %s: taken away: %s is gone", name.p, path);
    } else if (dgl_path_exists(path)) { /* another file of that NAME has the last word */
        console_say("watch: %s: taken, but a later file replaces it: %s", name.p, path);
    }
    dgl_buf_finish(&name);
}

/* The options without what is not there: a file that was deleted leaves the built-in kernel. */
static void present_layers(struct watch *w, struct options *out)
{
    *out = *w->opt;
    out->kernel_dir.count = out->kernel_file.count = 0;
    for (size_t i = 0; i < w->opt->kernel_dir.count; i++)
        if (walk(w, w->opt->kernel_dir.item[i], 0, false, false) > 0)
            out->kernel_dir.item[out->kernel_dir.count++] = w->opt->kernel_dir.item[i];
    for (size_t i = 0; i < w->opt->kernel_file.count; i++)
        if (dgl_path_exists(w->opt->kernel_file.item[i]))
            out->kernel_file.item[out->kernel_file.count++] = w->opt->kernel_file.item[i];
    if (out->kernel_config && !dgl_path_exists(out->kernel_config))
        out->kernel_config = NULL;
    out->user_kernels = NULL;
    if (out->user_kernels_path && dgl_path_exists(out->user_kernels_path))
        out->user_kernels = out->user_kernels_path;
    w->has_config = out->kernel_config != NULL;
    w->has_user = out->user_kernels != NULL;
    out->allow_pack_kernels = w->pack_dir && walk(w, w->pack_dir, 0, false, false) > 0;
}

/* The layers as they are now, and what they hold; *kernels is the caller's. */
static enum dgl_status read_layers(struct watch *w, struct dgl_kernels **kernels,
                                   struct knowns *now)
{
    struct engine *e = w->engine;
    struct dgl_kernels *old = e->kernels;
    struct options opt;
    present_layers(w, &opt);
    e->kernels = NULL;
    enum dgl_status status = engine_open_kernels(e, &opt);
    if (status == DGL_OK)
        status = dgl_kernels_overrides(&e->console.log, e->kernels, add_known, now);
    *kernels = e->kernels;
    e->kernels = old;
    return status;
}

static void try_edits(struct watch *w)
{
    struct engine *e = w->engine;
    struct console *console = &e->console;
    const enum dgl_log_level level = console->log.level;
    struct dgl_kernels *fresh = NULL;
    struct dgl_buf said = {0};
    struct knowns now = {0};
    /* The error is the reason, what else is logged follows it, with -q too. */
    console->capture = &said;
    console->log.level = level > DGL_LOG_NOTICE ? level : DGL_LOG_NOTICE;
    enum dgl_status status = read_layers(w, &fresh, &now);
    if (status == DGL_OK)
        status = dgl_model_set_kernels(e->model, fresh);
    console->log.level = level;
    console->capture = NULL;

    struct dgl_str rest = {said.p ? said.p : "", said.len}, line, reason = DGL_STR("");
    if (status != DGL_OK && status != DGL_ERR_CANCELLED)
        while (rest.len && reason.len == 0 && dgl_str_split(&rest, '\n', &line))
            if (line.p[0] == CONSOLE_CAPTURED_ERROR)
                reason = (struct dgl_str){line.p + 1, line.len - 1};
    for (size_t i = 0; i < w->num_edited && status != DGL_ERR_CANCELLED; i++) {
        if (status == DGL_OK) {
            tell_taken(w, fresh, &now, w->edited[i]);
        } else {
            struct dgl_buf name = {0};
            put_name(w, &now, w->edited[i], &name);
            console_say("watch: %s: refused: %.*s", name.p ? name.p : "", (int)reason.len,
                        reason.len ? reason.p : "");
            dgl_buf_finish(&name);
        }
    }
    rest = (struct dgl_str){said.p ? said.p : "", said.len};
    while (rest.len && dgl_str_split(&rest, '\n', &line))
        if (line.p[0] != CONSOLE_CAPTURED_ERROR)
            console_say("%.*s", (int)line.len - 1, line.p + 1);

    if (status == DGL_OK) {
        dgl_kernels_destroy(&e->kernels);
        e->kernels = fresh;
        knowns_finish(&w->known);
        w->known = now;
    } else {
        dgl_kernels_destroy(&fresh);
        knowns_finish(&now);
    }
    dgl_buf_finish(&said);
    for (size_t i = 0; i < w->num_edited; i++)
        free(w->edited[i]);
    w->num_edited = 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What was edited between the reading of the layers and now, while the model was loaded. */
static void note_missed(struct watch *w)
{
    struct console *console = &w->engine->console;
    struct dgl_kernels *kernels = NULL;
    struct knowns now = {0};
    struct dgl_buf said = {0};
    console->capture = &said; /* a fault is told when the edit is tried */
    enum dgl_status status = read_layers(w, &kernels, &now);
    console->capture = NULL;
    for (size_t i = 0; i < now.count && status == DGL_OK; i++) {
        const struct known *before = find_known(&w->known, now.items[i].path);
        if (!before || strcmp(before->sha256, now.items[i].sha256) != 0)
            note_edit(w, now.items[i].path);
    }
    for (size_t i = 0; i < w->known.count; i++)
        if (status != DGL_OK || !find_known(&now, w->known.items[i].path))
            note_edit(w, w->known.items[i].path);
    if (w->has_user != (w->opt->user_kernels != NULL))
        note_edit(w, w->opt->user_kernels_path);
    dgl_kernels_destroy(&kernels);
    knowns_finish(&now);
    dgl_buf_finish(&said);
}

bool watch_create(struct watch **out, struct engine *e, const struct options *opt)
{
    *out = NULL;
    if (!opt->watch_kernels)
        return true;
    if (opt->kernel_dir.count + opt->kernel_file.count == 0 && !opt->kernel_config &&
        !opt->user_kernels && !opt->allow_pack_kernels) {
        console_error("--watch-kernels: there is nothing to watch: name kernels with --kernel-dir "
                      "or --kernel-file");
        return false;
    }
    struct watch *w = dgl_new(struct watch);
    if (!w) {
        console_error("out of memory for --watch-kernels");
        return false;
    }
    *w = (struct watch){.engine = e, .opt = opt, .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
    if (w->fd < 0) {
        console_error("--watch-kernels: files cannot be watched: %s", strerror(errno));
        watch_destroy(&w);
        return false;
    }
    for (size_t i = 0; i < opt->kernel_dir.count; i++)
        walk(w, opt->kernel_dir.item[i], 0, true, false);
    for (size_t i = 0; i < opt->kernel_file.count; i++)
        watch_file(w, opt->kernel_file.item[i]);
    if (opt->kernel_config)
        watch_file(w, opt->kernel_config);
    if (opt->user_kernels_path)
        watch_file(w, opt->user_kernels_path);
    if (opt->allow_pack_kernels) {
        w->pack_dir = dgl_path_join(dgl_model_get_info(e->model)->path, "kernels");
        w->failed = w->failed || !w->pack_dir;
        if (w->pack_dir)
            walk(w, w->pack_dir, 0, true, false);
    }
    if (dgl_kernels_overrides(&e->console.log, e->kernels, add_known, &w->known) != DGL_OK ||
        w->known.failed || w->failed) {
        console_error("out of memory for --watch-kernels");
        watch_destroy(&w);
        return false;
    }
    note_missed(w);
    console_note(&e->console, "watch: edits of %zu kernel files are taken while it runs",
                 w->known.count);
    if (opt->unsafe_kernels)
        console_say("watch: --unsafe-kernels: no edit has to give known answers");
    *out = w;
    return true;
}

void watch_poll(void *priv)
{
    struct watch *w = priv;
    if (!w || w->failed)
        return;
    take_events(w);
    if (w->num_edited == 0)
        return;
    const uint64_t now = dgl_now_ns();
    if (now - w->last_ns >= QUIET_NS || now - w->first_ns >= MOST_NS)
        try_edits(w);
    if (w->failed)
        console_error("out of memory: edits of kernels are no longer watched");
}

void watch_destroy(struct watch **watch)
{
    struct watch *w = *watch;
    *watch = NULL;
    if (!w)
        return;
    if (w->fd >= 0 && !w->failed && !interrupted()) {
        take_events(w);
        if (w->num_edited)
            try_edits(w);
    }
    if (w->fd >= 0)
        close(w->fd);
    for (size_t i = 0; i < w->num_places; i++)
        free(w->places[i].dir);
    for (size_t i = 0; i < w->num_edited; i++)
        free(w->edited[i]);
    free(w->pack_dir);
    free(w->places);
    free(w->edited);
    knowns_finish(&w->known);
    free(w);
}
