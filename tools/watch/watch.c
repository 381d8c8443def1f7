/*
 * Live kernels: each edit of a kernel file is tried on the model while it runs.
 *
 * All layers are read anew as one set, but with texts of our own: of each file its last good one,
 * or the edited one where that is being tried. So a file that is refused holds back no other, what
 * is being written is not seen, and a set is of one moment. Edited files that depend on one another
 * are tried together, a group; first all groups at once, which most often is one.
 */
#include "tools/watch/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "tools/watch/watch_answer.h"
#include "tools/watch/watch_files.h"
#include "tools/watch/watch_halves.h"
#include "tools/watch/watch_text.h"

#define TEXT_MAX  (1u << 20) /* bytes of a file; what is longer the library refuses */
#define DEPTH_MAX 8
#define FILES_MAX 1000 /* of a folder, as when they are read */

/* Trials of edited files, until each group is taken or refused. */
struct attempt {
    struct watch_group *groups; /* [num_groups], and one for all that are taken; NULL: no attempt */
    bool *refused;              /* [num_groups]: the outcome of each */
    size_t num_groups;
    struct watch_halves trial;
    struct dgl_buf said;         /* of the trial */
    struct dgl_kernels *kernels; /* of the trial; NULL: not read yet */
    bool tried;                  /* all were: what is left is to say so */
};

struct watch {
    struct engine *engine;
    const struct options *opt;
    char *pack_dir; /* the pack's own folder of kernels; NULL without --allow-pack-kernels */
    struct watch_files *events;
    struct watch_file *files;
    size_t num_files, cap_files;
    char **links; /* to folders; told once */
    size_t num_links, cap_links;
    struct attempt attempt;
    bool started; /* what was there before the library has told */
    bool failed;  /* out of memory: nothing is watched any more */
};

/* ---- files ----------------------------------------------------------------------------------- */

static struct watch_file *find_file(const struct watch *w, const char *path)
{
    for (size_t i = 0; i < w->num_files; i++)
        if (strcmp(w->files[i].path, path) == 0)
            return &w->files[i];
    return NULL;
}

/* The row of the file, a new one if need be; NULL: out of memory. */
static struct watch_file *add_file(struct watch *w, const char *path)
{
    struct watch_file *f = find_file(w, path);
    char *copy = f ? NULL : strdup(path);
    if (f)
        return f;
    if (!copy ||
        !dgl_grow((void **)&w->files, &w->cap_files, w->num_files + 1, sizeof(*w->files))) {
        free(copy);
        w->failed = true;
        return NULL;
    }
    w->files[w->num_files] = (struct watch_file){.path = copy, .group = WATCH_NO_GROUP};
    f = &w->files[w->num_files++];
    watch_name_by(f, &f->now, f->name);
    return f;
}

/* The file as it is; *out is the caller's. */
static void read_text(const struct watch *w, const struct watch_file *f, struct watch_text *out)
{
    const struct dgl_log quiet = {0};
    bool named = f->is_hints;
    for (size_t i = 0; i < w->opt->kernel_file.count; i++)
        named = named || strcmp(w->opt->kernel_file.item[i], f->path) == 0;
    *out =
        (struct watch_text){.there = named ? dgl_path_exists(f->path) : dgl_path_present(f->path)};
    if (out->there && dgl_file_slurp(&quiet, f->path, TEXT_MAX, &out->bytes, &out->len) != DGL_OK)
        out->bytes = NULL;
    out->by_library = out->there && (!out->bytes || (!named && dgl_path_is_link(f->path)));
}

/* False: it is empty, and perhaps only for now. */
static bool read_now(const struct watch *w, struct watch_file *f, bool empty_too)
{
    struct watch_text text;
    read_text(w, f, &text);
    const bool was_empty = f->calm.empty;
    f->calm.empty = text.bytes && text.len == 0;
    if (f->calm.empty && !was_empty && !empty_too) {
        watch_text_finish(&text);
        return false;
    }
    /* What says no NAME has that which it had, unless the file has come anew. */
    if (text.there && !watch_name_of(f, &text, f->name) && !f->good.there && !f->now.there)
        watch_name_by(f, &text, f->name);
    if (!text.there && f->good.there) /* what goes is what was in force, not what was refused */
        watch_name_of(f, &f->good, f->name);
    watch_text_finish(&f->now);
    f->now = text;
    watch_calm_read(&f->calm, dgl_now_ns());
    return true;
}

/* Files in a folder that no event has told of: they count when one does. */
static void hide_unknown(struct watch *w, const char *dir, int depth)
{
    const struct dgl_log quiet = {0};
    char **names = NULL;
    size_t count = 0;
    if (depth > DEPTH_MAX || dgl_dir_list(&quiet, dir, &names, &count) != DGL_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        if (names[i][0] == '.')
            continue;
        char *path = dgl_path_join(dir, names[i]);
        w->failed = w->failed || !path;
        if (path && watch_is_kernel_file(names[i]))
            add_file(w, path);
        else if (path && dgl_path_is_dir(path) && !dgl_path_is_link(path))
            hide_unknown(w, path, depth + 1);
        free(path);
    }
    dgl_names_free(names, count);
}

/* Notes a link to a folder, or that it has gone. */
static void note_link(struct watch *w, const char *path, bool there)
{
    size_t i = 0;
    while (i < w->num_links && strcmp(w->links[i], path) != 0)
        i++;
    if (!there && i < w->num_links) {
        free(w->links[i]);
        w->links[i] = w->links[--w->num_links];
    }
    if (!there || i < w->num_links)
        return;
    char *copy = strdup(path);
    if (!copy || !dgl_grow((void **)&w->links, &w->cap_links, i + 1, sizeof(*w->links))) {
        free(copy);
        w->failed = true;
        return;
    }
    w->links[w->num_links++] = copy;
    if (w->started)
        console_say("watch: %s: a link to a folder is not followed", path);
}

/* Something has happened to a file, or to a folder. */
static void note(void *priv, const char *path, enum watch_event event)
{
    struct watch *w = priv;
    const uint64_t now_ns = dgl_now_ns();
    struct watch_file *f = find_file(w, path);
    if (!f && watch_is_kernel_file(path))
        f = add_file(w, path);
    else if (!f)
        note_link(w, path, event == WATCH_LINKED);
    if (f)
        watch_calm_note(&f->calm, event, now_ns);
    for (size_t i = 0; i < w->num_files && event == WATCH_FREED; i++)
        if (!watch_text_equal(&w->files[i].good, &w->files[i].now))
            watch_calm_note(&w->files[i].calm, WATCH_SAVED, now_ns);
    for (size_t i = 0; i < w->num_files && !f; i++) /* a folder has gone, or another has come */
        if (watch_is_in(w->files[i].path, path) &&
            (w->files[i].good.there || w->files[i].now.there))
            watch_calm_note(&w->files[i].calm, event, now_ns);
}

/* Edits can be read: all that are calm, and together. */
static bool have_settled(const struct watch *w)
{
    const uint64_t now_ns = dgl_now_ns();
    size_t of[WATCH_OVERDUE + 1] = {0};
    for (size_t i = 0; i < w->num_files; i++)
        of[watch_calm_state(&w->files[i].calm, now_ns)]++;
    return of[WATCH_OVERDUE] > 0 || (of[WATCH_CALM] > 0 && of[WATCH_BUSY] == 0);
}

/* Reads what was edited anew; its answers are due. `all`: what is left alone too. */
static void take_edits(struct watch *w, bool all)
{
    const uint64_t now_ns = dgl_now_ns();
    for (size_t i = 0; i < w->num_files; i++) {
        struct watch_file *f = &w->files[i];
        const enum watch_state state = watch_calm_state(&f->calm, now_ns);
        const bool was = f->good.there || f->now.there;
        if (state == WATCH_IDLE || (state == WATCH_LEFT_ALONE && !all) || !read_now(w, f, all))
            continue;
        f->edited = was || f->now.there;
        if (!f->edited)
            watch_calm_answered(&f->calm);
    }
    for (size_t i = 0; i < w->opt->kernel_dir.count; i++)
        hide_unknown(w, w->opt->kernel_dir.item[i], 0);
    if (w->pack_dir)
        hide_unknown(w, w->pack_dir, 0);
}

/* A text of the set in force, which came from a file, is good. */
static bool take_good(void *priv, const struct dgl_kernel_override *o)
{
    struct watch *w = priv;
    struct watch_file *f = add_file(w, o->origin);
    if (!f || !watch_text_set(&f->good, o->text, o->len)) {
        w->failed = true;
        return false;
    }
    snprintf(f->name, sizeof(f->name), "%s", o->name);
    return true;
}

/* Texts that only the library could read among them. */
static void take_set(struct watch *w)
{
    const struct engine *e = w->engine;
    if (dgl_kernels_overrides(&e->console.log, e->kernels, take_good, w) != DGL_OK)
        w->failed = true;
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* Is the edited text of the file what the trial has? */
static bool is_tried(const struct attempt *a, const struct watch_file *f)
{
    return f->group != WATCH_NO_GROUP && f->group >= a->trial.first && f->group < a->trial.end;
}

/* The layers with the texts of the trial; *out is the caller's. */
static enum dgl_status read_layers(struct watch *w, struct dgl_kernels **out)
{
    struct options opt = *w->opt;
    struct dgl_kernel_text *texts =
        dgl_new_array(struct dgl_kernel_text, w->num_files + w->num_links);
    size_t count = 0;
    *out = NULL;
    if (!texts) {
        w->failed = true;
        return DGL_ERR_NO_MEMORY;
    }
    if (opt.user_kernels_path && find_file(w, opt.user_kernels_path))
        opt.user_kernels = opt.user_kernels_path; /* its text says whether it is there */
    for (size_t i = 0; i < w->num_files; i++) {
        const struct watch_file *f = &w->files[i];
        const struct watch_text *t = is_tried(&w->attempt, f) ? &f->now : &f->good;
        if (!t->by_library)
            texts[count++] = (struct dgl_kernel_text){f->path, t->bytes, t->len};
    }
    for (size_t i = 0; i < w->num_links; i++) /* no news */
        texts[count++] = (struct dgl_kernel_text){.path = w->links[i]};
    opt.kernel_dir.count = 0;
    for (size_t i = 0; i < w->opt->kernel_dir.count; i++) {
        const char *dir = w->opt->kernel_dir.item[i];
        bool there = dgl_path_is_dir(dir);
        for (size_t t = 0; t < count && !there; t++)
            there = texts[t].text && watch_is_in(texts[t].path, dir);
        if (there)
            opt.kernel_dir.item[opt.kernel_dir.count++] = dir;
    }
    enum dgl_status status = engine_read_kernels(w->engine, &opt, texts, count, out);
    free(texts);
    return status;
}

static void end_attempt(struct watch *w, bool answered)
{
    struct attempt *a = &w->attempt;
    if (answered && !watch_answer(&(struct watch_tried){.engine = w->engine,
                                                        .files = w->files,
                                                        .num_files = w->num_files,
                                                        .groups = a->groups,
                                                        .num_groups = a->num_groups}))
        w->failed = true;
    for (size_t g = 0; a->groups && g <= a->num_groups; g++)
        dgl_buf_finish(&a->groups[g].said);
    dgl_buf_finish(&a->said);
    free(a->groups);
    free(a->refused);
    dgl_kernels_destroy(&a->kernels);
    *a = (struct attempt){0};
    for (size_t i = 0; i < w->num_files; i++) {
        struct watch_file *f = &w->files[i];
        f->group = WATCH_NO_GROUP;
        if (f->edited)
            watch_calm_answered(&f->calm);
        f->edited = false;
    }
}

/* What is to become of the refusal of a group, by its files. */
static enum watch_refusal weigh_refusal(const struct watch *w, size_t group)
{
    const uint64_t now_ns = dgl_now_ns();
    enum watch_refusal worst = WATCH_SAY;
    for (size_t i = 0; i < w->num_files && worst != WATCH_AGAIN; i++) {
        const struct watch_file *f = &w->files[i];
        if (f->group != group || !f->edited)
            continue;
        enum watch_refusal refusal = watch_calm_refusal(&f->calm, now_ns);
        struct watch_text text = {0};
        if (refusal == WATCH_SAY && now_ns - f->calm.first_ns < WATCH_LATEST_NS) {
            read_text(w, f, &text); /* not every change is told */
            if ((text.bytes || f->now.bytes) && !watch_text_equal(&text, &f->now))
                refusal = WATCH_AGAIN;
            watch_text_finish(&text);
        }
        worst = refusal > worst ? refusal : worst;
    }
    return worst;
}

/* All trials are made. A refusal is said once its files have been left alone since they were read;
 * what was changed meanwhile has another text to be tried. `at_once`: nothing is waited for. */
static void answer_attempt(struct watch *w, bool at_once)
{
    struct attempt *a = &w->attempt;
    const uint64_t now_ns = dgl_now_ns();
    bool wait = false;
    watch_files_look(w->events);
    for (size_t g = 0; g < a->num_groups; g++) {
        if (a->groups[g].outcome != WATCH_REFUSED)
            continue;
        const enum watch_refusal refusal = weigh_refusal(w, g);
        wait = wait || (refusal == WATCH_WAIT && !at_once);
        if (refusal != WATCH_AGAIN)
            continue;
        a->groups[g].outcome = WATCH_OPEN;
        for (size_t i = 0; i < w->num_files; i++) {
            struct watch_file *f = &w->files[i];
            if (f->group == g && f->edited)
                watch_calm_again(&f->calm, now_ns);
            f->edited = f->edited && f->group != g;
        }
    }
    if (!wait)
        end_attempt(w, true);
}

/* A folder with more files than are read of one is told in one line; false: there is one. */
static bool check_folders(const struct watch *w)
{
    const struct option_strs *dirs = &w->opt->kernel_dir;
    for (size_t d = 0; d < dirs->count + (w->pack_dir != NULL); d++) {
        const char *dir = d < dirs->count ? dirs->item[d] : w->pack_dir;
        size_t count = 0;
        for (size_t i = 0; i < w->num_files; i++)
            count += w->files[i].now.there && watch_is_in(w->files[i].path, dir);
        if (count <= FILES_MAX)
            continue;
        console_say("watch: %s: refused: a kernel directory has at most %d files, it has %zu: no "
                    "edit is taken before some are gone",
                    dir, FILES_MAX, count);
        return false;
    }
    return true;
}

/* Groups of files that are not as in force. */
static void begin_attempt(struct watch *w)
{
    struct attempt *a = &w->attempt;
    *a = (struct attempt){0};
    if (!check_folders(w)) {
        end_attempt(w, false);
        return;
    }
    for (size_t i = 0; i < w->num_files; i++) {
        struct watch_file *f = &w->files[i];
        f->group = watch_text_equal(&f->good, &f->now) ? WATCH_NO_GROUP : i;
        for (size_t j = 0; j < i && f->group != WATCH_NO_GROUP; j++) {
            const size_t old = w->files[j].group, joined = f->group;
            if (old == WATCH_NO_GROUP || old == joined || !watch_are_related(f, &w->files[j]))
                continue;
            for (size_t k = 0; k <= i; k++)
                if (w->files[k].group == joined)
                    w->files[k].group = old;
        }
    }
    /* Numbered from 0 on. */
    for (size_t i = 0; i < w->num_files; i++) {
        const size_t group = w->files[i].group;
        if (group == WATCH_NO_GROUP || group < a->num_groups)
            continue;
        for (size_t k = i; k < w->num_files; k++)
            if (w->files[k].group == group)
                w->files[k].group = a->num_groups;
        a->num_groups++;
    }
    a->groups = dgl_new_array(struct watch_group, a->num_groups + 1);
    a->refused = dgl_new_array(bool, a->num_groups + 1);
    w->failed = w->failed || !a->groups || !a->refused;
    watch_halves_begin(&a->trial, a->num_groups);
    if (w->failed || a->num_groups == 0)
        end_attempt(w, !w->failed);
}

static void end_trial(struct watch *w, enum dgl_status status)
{
    struct attempt *a = &w->attempt;
    if (status == DGL_ERR_CANCELLED) {
        end_attempt(w, false);
        return;
    }
    if (status == DGL_OK) {
        struct watch_group *all = &a->groups[a->num_groups];
        all->outcome = WATCH_TAKEN;
        dgl_buf_append(&all->said, a->said.p, a->said.len);
        for (size_t g = a->trial.first; g < a->trial.end; g++) {
            a->groups[g].outcome = WATCH_TAKEN;
            a->refused[g] = false;
        }
        for (size_t i = 0; i < w->num_files; i++) {
            struct watch_file *f = &w->files[i];
            if (!is_tried(a, f))
                continue;
            watch_text_finish(&f->good);
            if (f->now.bytes)
                w->failed = !watch_text_set(&f->good, f->now.bytes, f->now.len) || w->failed;
        }
        dgl_kernels_destroy(&w->engine->kernels);
        w->engine->kernels = a->kernels;
        a->kernels = NULL;
        take_set(w);
    } else if (a->trial.end - a->trial.first == 1) {
        struct watch_group *group = &a->groups[a->trial.first];
        group->outcome = WATCH_REFUSED;
        a->refused[a->trial.first] = true;
        dgl_buf_finish(&group->said);
        group->said = a->said;
        a->said = (struct dgl_buf){0};
    }
    dgl_kernels_destroy(&a->kernels);
    a->tried = !watch_halves_next(&a->trial, status == DGL_OK, a->refused);
}

/* Goes on with the trials; `wait`: to their end, else not beyond what a token can wait for. */
static void go_on(struct watch *w, bool wait)
{
    struct console *console = &w->engine->console;
    struct attempt *a = &w->attempt;
    const enum dgl_log_level level = console->log.level;
    bool ready = true;
    while (a->groups && !a->tried) {
        /* The error is the reason, what else is logged follows it, with -q too. */
        enum dgl_status status = DGL_OK;
        if (!a->kernels)
            a->said.len = 0;
        console->capture = &a->said;
        console->log.level = level > DGL_LOG_NOTICE ? level : DGL_LOG_NOTICE;
        if (!a->kernels)
            status = read_layers(w, &a->kernels);
        if (status == DGL_OK && !wait)
            status = dgl_model_prepare_kernels(w->engine->model, a->kernels, &ready);
        if (status == DGL_OK && ready)
            status = dgl_model_set_kernels(w->engine->model, a->kernels);
        console->log.level = level;
        console->capture = NULL;
        if (ready || status != DGL_OK)
            end_trial(w, status);
        if (!wait)
            break;
    }
}

static bool has_edits(const struct watch *w)
{
    bool any = false;
    for (size_t i = 0; i < w->num_files && !any; i++)
        any = w->files[i].edited;
    return any;
}

static void finish_attempt(struct watch *w)
{
    go_on(w, true);
    if (w->attempt.groups)
        answer_attempt(w, true);
}

/* Tries and answers what is open, then what was edited until now; `unequal`: and every file that is
 * not as in force. */
static void finish_edits(struct watch *w, bool unequal)
{
    finish_attempt(w);
    watch_files_look(w->events);
    const uint64_t now_ns = dgl_now_ns();
    for (size_t i = 0; i < w->num_files && unequal; i++) {
        struct watch_file *f = &w->files[i];
        struct watch_text text;
        read_text(w, f, &text);
        if (!watch_text_equal(&f->good, &text))
            watch_calm_again(&f->calm, now_ns);
        watch_text_finish(&text);
    }
    take_edits(w, true);
    if (has_edits(w) && !w->failed)
        begin_attempt(w);
    finish_attempt(w);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A file of hints, unless it can be read only once (a pipe). */
static void add_hints(struct watch *w, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return;
    struct watch_file *f = add_file(w, path);
    if (!f)
        return;
    f->is_hints = true;
    watch_name_by(f, &f->now, f->name);
}

/* What the model has of the files. Those in folders that it does not have were either hidden by
 * others, or are new: an edit. So is what has changed while the model was loaded. */
static void note_start(struct watch *w)
{
    const struct options *opt = w->opt;
    struct watch_knowns known;
    for (size_t i = 0; i < opt->kernel_file.count; i++)
        add_file(w, opt->kernel_file.item[i]);
    if (opt->kernel_config)
        add_hints(w, opt->kernel_config);
    if (opt->user_kernels_path)
        add_hints(w, opt->user_kernels_path);
    w->failed = !watch_knowns_init(&known, w->engine) || w->failed;
    take_set(w);
    for (size_t i = 0; i < w->num_files && !w->failed; i++) {
        struct watch_file *f = &w->files[i];
        read_now(w, f, true);
        const bool hidden = !f->good.there && watch_find_namesake(&known, f);
        const bool loaded =
            f->is_hints &&
            (strcmp(f->path, opt->user_kernels_path ? opt->user_kernels_path : "") != 0 ||
             opt->user_kernels);
        if ((hidden || loaded) && f->now.bytes &&
            !watch_text_set(&f->good, f->now.bytes, f->now.len))
            w->failed = true;
        f->edited = !watch_text_equal(&f->good, &f->now);
        if (!f->edited)
            watch_calm_answered(&f->calm);
    }
    watch_knowns_finish(&known);
}

static void tell_start(const struct watch *w)
{
    const struct options *opt = w->opt;
    size_t count = 0;
    for (size_t i = 0; i < w->num_files; i++)
        count += w->files[i].good.there && !w->files[i].is_hints;
    const char *place = opt->kernel_dir.count    ? opt->kernel_dir.item[0]
                        : w->pack_dir            ? w->pack_dir
                        : opt->kernel_file.count ? opt->kernel_file.item[0]
                        : opt->kernel_config     ? opt->kernel_config
                                                 : opt->user_kernels_path;
    if (count == 0)
        console_note(&w->engine->console, "watch: what comes to %s is taken while it runs", place);
    else
        console_note(&w->engine->console, "watch: edits of %zu kernel %s are taken while it runs",
                     count, count == 1 ? "file" : "files");
    if (opt->unsafe_kernels)
        console_say("watch: --unsafe-kernels: no edit has to give known answers");
}

bool watch_check(const struct options *opt)
{
    if (opt->unsafe_kernels && !opt->watch_kernels)
        console_error("--unsafe-kernels does nothing without --watch-kernels");
    else if (opt->watch_kernels && (opt->profile || opt->trace))
        console_error(
            "--watch-kernels does not go with --profile and --trace, whose figures are of "
            "one set of kernels");
    else
        return true;
    return false;
}

bool watch_create(struct watch **out, struct engine *e, const struct options *opt)
{
    *out = NULL;
    if (!opt->watch_kernels)
        return true;
    if (opt->kernel_dir.count + opt->kernel_file.count == 0 && !opt->kernel_config &&
        !opt->user_kernels_path && !opt->allow_pack_kernels) {
        console_error("--watch-kernels: there is nothing to watch: name kernels with --kernel-dir "
                      "or --kernel-file, or set HOME, in which a kernels.json can be");
        return false;
    }
    struct watch *w = dgl_new(struct watch);
    if (w) {
        *w = (struct watch){.engine = e, .opt = opt};
        if (opt->allow_pack_kernels)
            w->pack_dir = dgl_path_join(dgl_model_get_info(e->model)->path, "kernels");
        w->failed = opt->allow_pack_kernels && !w->pack_dir;
    }
    const struct watch_files_params params = {&e->console, opt, w ? w->pack_dir : NULL, note, w};
    if (w && !w->failed && !watch_files_create(&w->events, &params)) {
        w->failed = true;
        watch_destroy(&w);
        return false;
    }
    if (w && !w->failed)
        note_start(w);
    if (!w || w->failed) {
        console_error("out of memory for --watch-kernels");
        watch_destroy(&w);
        return false;
    }
    tell_start(w);
    w->started = true;
    *out = w;
    return true;
}

/* Goes on with what is open, and begins with what is new. */
static void poll_edits(struct watch *w, bool wait)
{
    watch_files_look(w->events);
    if (!w->attempt.groups && have_settled(w))
        take_edits(w, false);
    if (!w->attempt.groups && has_edits(w)) /* from the beginning too */
        begin_attempt(w);
    go_on(w, wait);
    if (w->attempt.tried)
        answer_attempt(w, false);
    w->failed = w->failed || watch_files_failed(w->events);
}

static void tell_failure(const struct watch *w)
{
    if (w->failed)
        console_error("out of memory: edits of kernels are no longer watched");
}

static void poll_once(struct watch *w, bool wait)
{
    if (!w || w->failed)
        return;
    poll_edits(w, wait);
    tell_failure(w);
}

void watch_poll(void *priv)
{
    poll_once(priv, false);
}

void watch_idle(void *priv)
{
    poll_once(priv, true);
}

void watch_reread(struct watch *w)
{
    if (w->failed)
        return;
    finish_edits(w, true);
    tell_failure(w);
}

void watch_destroy(struct watch **watch)
{
    struct watch *w = *watch;
    *watch = NULL;
    if (!w)
        return;
    if (!w->failed && !interrupted())
        finish_edits(w, false);
    end_attempt(w, false);
    watch_files_destroy(&w->events);
    for (size_t i = 0; i < w->num_files; i++) {
        watch_text_finish(&w->files[i].good);
        watch_text_finish(&w->files[i].now);
        free(w->files[i].path);
    }
    for (size_t i = 0; i < w->num_links; i++)
        free(w->links[i]);
    free(w->links);
    free(w->pack_dir);
    free(w->files);
    free(w);
}
