/*
 * --watch-kernels: uses edited kernel files while the model runs.
 *
 * After a change, and once the files have not changed for a moment, all layers are read again as
 * one set. The model prepares that set between tokens and then uses it, or refuses it and keeps the
 * set in force. One wrong file therefore holds back the others until it is saved again. A file
 * that was read half written heals in the same way.
 */
#include "tools/watch/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/status.h"
#include "tools/watch/watch_files.h"

#define QUIET_NS  100000000ull  /* editors save in several steps */
#define BUSY_NS   1000000000ull /* files that never stop changing are read anyway */
#define HINTS_MAX (1u << 20)    /* bytes; the library refuses larger files of hints */

/* A kernel, a lib or a file of hints of one set. */
struct text {
    char *path, *name;
    char sha256[65];
    enum { KERNEL, LIB, HINTS } kind;
};

struct snapshot {
    struct text *items;
    size_t count, cap;
};

struct watch {
    struct engine *engine;
    const struct options *opt;
    char *pack_dir; /* the pack's folder of kernels; NULL without --allow-pack-kernels */
    struct watch_files *files;
    uint64_t first_ns, last_ns; /* first and last change that was not read yet, or 0 */
    struct snapshot current;    /* texts of the set in force */
    bool expects_line;          /* a change was reported: the user waits for a line about it */
    struct dgl_kernels *next;   /* the set that is being prepared, or NULL */
    struct snapshot next_texts;
    struct dgl_error error; /* of `next` */
    struct dgl_buf notices; /* of `next` */
    struct dgl_buf remarks; /* all lines that were printed as remarks */
    bool failed;            /* an error line was printed, and watching has ended */
};

/* ---- snapshots ------------------------------------------------------------------------------- */

static void snapshot_finish(struct snapshot *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].path);
        free(s->items[i].name);
    }
    free(s->items);
    *s = (struct snapshot){0};
}

static bool snapshot_add(struct snapshot *s, const char *path, const char *name, int kind,
                         const char *sha256)
{
    if (!dgl_grow((void **)&s->items, &s->cap, s->count + 1, sizeof(*s->items)))
        return false;
    struct text *t = &s->items[s->count++];
    *t = (struct text){.path = strdup(path), .name = strdup(name), .kind = kind};
    snprintf(t->sha256, sizeof(t->sha256), "%s", sha256);
    return t->path && t->name;
}

static bool add_override(void *priv, const struct dgl_kernel_override *o)
{
    return snapshot_add(priv, o->origin, o->name, o->is_lib ? LIB : KERNEL, o->sha256);
}

/* Lists the texts of a set, and the hashes of the files of hints. Returns false if memory is
 * exhausted. */
static bool snapshot_take(const struct watch *w, const struct dgl_kernels *kernels,
                          struct snapshot *out)
{
    const struct dgl_log quiet = {0};
    const char *hints[] = {w->opt->kernel_config, w->opt->user_kernels_path};
    *out = (struct snapshot){0};
    bool ok = dgl_kernels_overrides(&quiet, kernels, add_override, out) == DGL_OK;
    for (size_t i = 0; i < 2 && ok; i++) {
        char *bytes = NULL, hex[65];
        size_t len;
        if (!hints[i] || dgl_file_slurp(&quiet, hints[i], HINTS_MAX, &bytes, &len) != DGL_OK)
            continue;
        const char *slash = strrchr(hints[i], '/');
        ok = dgl_hash_bytes(DGL_HASH_SHA256, bytes, len, hex) &&
             snapshot_add(out, hints[i], slash ? slash + 1 : hints[i], HINTS, hex);
        free(bytes);
    }
    for (size_t i = 0; i < out->count && ok; i++)
        ok = out->items[i].path && out->items[i].name;
    return ok;
}

static const struct text *find_path(const struct snapshot *s, const char *path)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->items[i].path, path) == 0)
            return &s->items[i];
    return NULL;
}

static const struct text *find_name(const struct snapshot *s, const struct text *t)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].kind == t->kind && strcmp(s->items[i].name, t->name) == 0)
            return &s->items[i];
    return NULL;
}

static bool is_new(const struct snapshot *before, const struct text *t)
{
    const struct text *old = find_path(before, t->path);
    return !old || strcmp(old->sha256, t->sha256) != 0 || strcmp(old->name, t->name) != 0;
}

static bool snapshots_equal(const struct snapshot *a, const struct snapshot *b)
{
    bool equal = a->count == b->count;
    for (size_t i = 0; i < b->count && equal; i++)
        equal = !is_new(a, &b->items[i]);
    return equal;
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct builtin {
    const char *name;
    char sha256[65];
};

static bool find_builtin(void *priv, const struct dgl_kernel_info *k)
{
    struct builtin *b = priv;
    if (strcmp(k->name, b->name) == 0 && strcmp(k->origin, "builtin") == 0)
        memcpy(b->sha256, k->sha256, sizeof(b->sha256));
    return !b->sha256[0];
}

/* Prints a line for each text that is new in the set in force, or gone from it. */
static void print_taken(const struct watch *w, const struct snapshot *before)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct text *old = &before->items[i], *other = find_name(&w->current, old);
        struct builtin builtin = {.name = old->name};
        if (find_path(&w->current, old->path))
            continue;
        if (old->kind == KERNEL && !other)
            dgl_kernels_iterate(w->engine->kernels, find_builtin, &builtin);
        if (other)
            console_say("watch: %s: taken %s, that of %s: %s is %s", old->name, other->sha256,
                        other->path, old->path, dgl_path_exists(old->path) ? "overridden" : "gone");
        else if (builtin.sha256[0])
            console_say("watch: %s: taken %s, the built-in one: %s is gone", old->name,
                        builtin.sha256, old->path);
        else
            console_say("watch: %s: removed: %s is gone", old->name, old->path);
    }
    for (size_t i = 0; i < w->current.count; i++) {
        const struct text *t = &w->current.items[i], *old = find_name(before, t);
        if (!is_new(before, t) || (old && !find_path(&w->current, old->path))) /* a new path */
            continue;
        console_say("watch: %s: taken%s%s", t->name, t->kind == HINTS ? "" : " ",
                    t->kind == HINTS ? "" : t->sha256);
    }
}

/* Sink of the log while a set is read and prepared. */
static void keep_notice(void *priv, enum dgl_log_level level, const char *text)
{
    struct watch *w = priv;
    if (level == DGL_LOG_PROGRESS)
        console_note(&w->engine->console, "watch: %s", text);
    else
        dgl_buf_printf(&w->notices, "%s\n", text);
}

/* Prints the notices and warnings about `next`, each text only once. */
static void print_remarks(struct watch *w)
{
    struct dgl_str rest = {w->notices.p, w->notices.len}, line;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        if (w->remarks.len && memmem(w->remarks.p, w->remarks.len, line.p, line.len))
            continue;
        dgl_buf_printf(&w->remarks, "%.*s\n", (int)line.len, line.p);
        console_say("watch: %.*s", (int)line.len, line.p);
    }
    w->failed = w->failed || w->remarks.failed;
}

/* Prints the reason and then the compiler's lines. */
static void print_refused(const struct watch *w)
{
    struct dgl_str rest = {w->notices.p, w->notices.len}, line;
    console_say("watch: refused%s%s", w->error.text[0] ? ": " : "", w->error.text);
    while (rest.len && dgl_str_split(&rest, '\n', &line))
        console_say("%.*s", (int)line.len, line.p);
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void drop_next(struct watch *w)
{
    dgl_kernels_destroy(&w->next);
    snapshot_finish(&w->next_texts);
    w->notices.len = 0;
    w->error.text[0] = '\0';
}

/* Reads all layers into `next`. Folders and files that do not exist at the moment are left out. */
static enum dgl_status read_next(struct watch *w)
{
    struct options opt = *w->opt;
    struct option_strs *dirs = &opt.kernel_dir, *files = &opt.kernel_file;
    dirs->count = files->count = 0;
    for (size_t i = 0; i < w->opt->kernel_dir.count; i++)
        if (dgl_path_is_dir(w->opt->kernel_dir.item[i]))
            dirs->item[dirs->count++] = w->opt->kernel_dir.item[i];
    for (size_t i = 0; i < w->opt->kernel_file.count; i++)
        if (dgl_path_exists(w->opt->kernel_file.item[i]))
            files->item[files->count++] = w->opt->kernel_file.item[i];
    if (opt.kernel_config && !dgl_path_exists(opt.kernel_config))
        opt.kernel_config = NULL;
    opt.user_kernels = opt.user_kernels_path && dgl_path_exists(opt.user_kernels_path)
                           ? opt.user_kernels_path
                           : NULL;
    return engine_read_kernels(w->engine, &opt, &w->next);
}

/* Goes on with the set that is being prepared. `wait`: until it is in force or refused; otherwise
 * at most as long as a token may wait. `start`: reads the files first. */
static void advance(struct watch *w, bool start, bool wait)
{
    struct dgl_log *log = &w->engine->console.log;
    const struct dgl_log console_log = *log;
    enum dgl_status status = DGL_OK;
    bool ready = wait, equal = false;
    /* Errors are the reason of a refusal and notices follow it, with -q too. */
    log->write = keep_notice;
    log->priv = w;
    log->error = &w->error;
    log->level = log->level > DGL_LOG_PROGRESS ? log->level : DGL_LOG_PROGRESS;
    if (start) {
        TRY(read_next(w));
        w->failed = !snapshot_take(w, w->next, &w->next_texts);
        if (w->failed)
            TRY(DGL_ERR_NO_MEMORY); /* the set is not handed to the model */
        equal = snapshots_equal(&w->current, &w->next_texts);
    }
    if (equal)
        goto done;
    if (!wait)
        TRY(dgl_model_prepare_kernels(w->engine->model, w->next, &ready));
    if (ready)
        TRY(dgl_model_set_kernels(w->engine->model, w->next));
done:
    *log = console_log;
    if (w->failed) {
        console_error("out of memory: edits of kernels are no longer watched");
        drop_next(w);
    } else if (equal) {
        print_remarks(w);
        if (w->expects_line)
            console_say("watch: no kernel has changed");
        drop_next(w);
    } else if (status == DGL_OK && ready) {
        struct snapshot before = w->current;
        dgl_kernels_destroy(&w->engine->kernels);
        w->engine->kernels = w->next;
        w->current = w->next_texts;
        w->next = NULL;
        w->next_texts = (struct snapshot){0};
        print_taken(w, &before);
        print_remarks(w);
        snapshot_finish(&before);
        drop_next(w);
    } else if (status != DGL_OK) {
        if (status != DGL_ERR_CANCELLED)
            print_refused(w);
        drop_next(w);
    }
}

/* Looks for changes. `at_once`: does not wait until the files are quiet. `all`: reads the files
 * even if no change was reported. */
static void look(struct watch *w, bool wait, bool at_once, bool all)
{
    if (!w || w->failed)
        return;
    const uint64_t now_ns = dgl_now_ns();
    const bool changed = watch_files_changed(w->files);
    if (changed || all) {
        w->expects_line = w->expects_line || changed;
        w->last_ns = now_ns;
        w->first_ns = w->first_ns ? w->first_ns : now_ns;
    }
    if (w->next)
        advance(w, false, wait);
    const bool settled = w->first_ns && (at_once || now_ns - w->last_ns >= QUIET_NS ||
                                         now_ns - w->first_ns >= BUSY_NS);
    if (w->next || !settled)
        return;
    w->first_ns = w->last_ns = 0;
    w->failed = !watch_files_restart(w->files);
    if (!w->failed)
        advance(w, true, wait);
    w->expects_line = false;
}

/* ---- life ------------------------------------------------------------------------------------ */

bool watch_check(const struct options *opt)
{
    if (opt->unsafe_kernels && !opt->watch_kernels)
        return console_refuse("--unsafe-kernels does nothing without --watch-kernels");
    if (opt->watch_kernels && (opt->profile || opt->trace))
        return console_refuse(
            "--watch-kernels does not go with --profile and --trace, whose figures are of "
            "one set of kernels");
    return true;
}

/* Prints a line with the files that are watched. */
static void print_start(const struct watch *w)
{
    const struct options *opt = w->opt;
    size_t count = 0;
    for (size_t i = 0; i < w->current.count; i++)
        count += w->current.items[i].kind != HINTS;
    const char *place = opt->kernel_dir.count    ? opt->kernel_dir.item[0]
                        : w->pack_dir            ? w->pack_dir
                        : opt->kernel_file.count ? opt->kernel_file.item[0]
                        : opt->kernel_config     ? opt->kernel_config
                                                 : opt->user_kernels_path;
    if (count == 0)
        console_note(&w->engine->console, "watch: no kernel file yet; %s is watched", place);
    else
        console_note(&w->engine->console, "watch: edits of %zu kernel %s are taken while it runs",
                     count, count == 1 ? "file" : "files");
    if (opt->unsafe_kernels)
        console_say("watch: --unsafe-kernels: edits are used without known-answer tests");
}

bool watch_create(struct watch **out, struct engine *e, const struct options *opt)
{
    bool ok = false;
    *out = NULL;
    if (!opt->watch_kernels)
        return true;
    if (opt->kernel_dir.count + opt->kernel_file.count == 0 && !opt->kernel_config &&
        !opt->user_kernels_path && !opt->allow_pack_kernels)
        return console_refuse(
            "--watch-kernels: there is nothing to watch: name kernels with --kernel-dir "
            "or --kernel-file, or set HOME, in which a kernels.json can be");
    struct watch *w = dgl_new(struct watch);
    if (w) {
        *w = (struct watch){.engine = e, .opt = opt};
        if (opt->allow_pack_kernels)
            w->pack_dir = dgl_path_join(dgl_model_get_info(e->model)->path, "kernels");
        ok = (w->pack_dir || !opt->allow_pack_kernels) && snapshot_take(w, e->kernels, &w->current);
    }
    if (!ok) {
        console_error("out of memory for --watch-kernels");
    } else if (!watch_files_create(&w->files, opt, w->pack_dir)) {
        ok = false;
    } else {
        /* Files may have changed while the model was loaded: the first call reads them again. */
        w->first_ns = w->last_ns = 1;
        print_start(w);
        *out = w;
        w = NULL;
    }
    if (w)
        w->failed = true;
    watch_destroy(&w);
    return ok;
}

void watch_poll(void *priv)
{
    look(priv, false, false, false);
}

void watch_idle(void *priv)
{
    look(priv, true, false, false);
}

void watch_reread(struct watch *w)
{
    look(w, true, true, true);
}

void watch_destroy(struct watch **watch)
{
    struct watch *w = *watch;
    *watch = NULL;
    if (!w)
        return;
    if (!interrupted())
        look(w, true, true, false); /* print a line about the last saved file, too */
    drop_next(w);
    snapshot_finish(&w->current);
    dgl_buf_finish(&w->notices);
    dgl_buf_finish(&w->remarks);
    watch_files_destroy(&w->files);
    free(w->pack_dir);
    free(w);
}
