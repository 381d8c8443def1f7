/*
 * Live kernels: each edit of a kernel file is tried on the model while it runs.
 *
 * All layers are read anew as one set, but with texts of our own: of each file its last good one,
 * or the edited one where that is being tried. So a file that is refused holds back no other, what
 * is being written is not seen, and a set is of one moment. Edited files that depend on one another
 * are tried together, a group; first all groups at once, which most often is one.
 */
#include "tools/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tools/watch_files.h"

#define TEXT_MAX                                                                                   \
    (1u << 20) /* bytes of a file that is read here; what is longer the library refuses */
#define NAME_SIZE 128
#define DEPTH_MAX 8
#define NO_GROUP  SIZE_MAX

/* What a file holds. */
struct text {
    bool there;
    bool by_library; /* which reads it itself: a link, or what cannot be read */
    char *bytes;     /* NULL: it cannot be read */
    size_t len;
};

struct file {
    char *path;           /* as the layers have it */
    char name[NAME_SIZE]; /* by the last text that was there */
    bool is_hints;
    struct text good; /* in force */
    struct text now;  /* as it was last read */
    bool edited;      /* an answer is due */
    size_t group;     /* of the attempt; NO_GROUP: it is as in force */
};

enum outcome { OPEN, TAKEN, REFUSED };
struct group {
    enum outcome outcome;
    struct dgl_buf said; /* what the library logged */
};

/* Trials of edited files, until each group is taken or refused. */
struct attempt {
    struct group *groups; /* [num_groups], and one for all together; NULL: no attempt */
    size_t num_groups;
    size_t trying;               /* num_groups: all */
    bool progress;               /* one was taken since all were looked at */
    struct dgl_kernels *kernels; /* of the trial; NULL: not read yet */
};

struct watch {
    struct engine *engine;
    const struct options *opt;
    char *pack_dir; /* the pack's own folder of kernels; NULL without --allow-pack-kernels */
    struct watch_files *events;
    struct file *files;
    size_t num_files, cap_files;
    struct attempt attempt;
    bool failed; /* out of memory: nothing is watched any more */
};

/* ---- texts ----------------------------------------------------------------------------------- */

static void text_finish(struct text *t)
{
    free(t->bytes);
    *t = (struct text){0};
}

static bool text_equal(const struct text *a, const struct text *b)
{
    if (!a->there || !b->there)
        return a->there == b->there;
    return a->bytes && b->bytes && a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool text_set(struct text *t, const char *bytes, size_t len)
{
    char *copy = dgl_calloc(len + 1, 1);
    text_finish(t);
    if (copy && len)
        memcpy(copy, bytes, len);
    *t = (struct text){.there = copy != NULL, .bytes = copy, .len = len};
    return copy != NULL;
}

/* The word after "//! DIRECTIVE " from *at on, which moves behind it; false: no more. */
static bool next_word(struct dgl_str *at, const char *directive, char word[NAME_SIZE])
{
    const size_t len = strlen(directive);
    struct dgl_str line;
    while (at->len && dgl_str_split(at, '\n', &line)) {
        if (!dgl_str_starts(line, "//!"))
            continue;
        line = dgl_str_trim((struct dgl_str){line.p + 3, line.len - 3});
        if (!dgl_str_starts(line, directive) || line.len <= len || line.p[len] != ' ')
            continue;
        line = dgl_str_trim((struct dgl_str){line.p + len, line.len - len});
        size_t end = 0;
        while (end < line.len && end < NAME_SIZE - 1 && line.p[end] != ' ' && line.p[end] != '\t')
            end++;
        memcpy(word, line.p, end);
        word[end] = '\0';
        return true;
    }
    return false;
}

static bool is_lib(const struct file *f)
{
    return !f->is_hints && dgl_str_ends(dgl_str_of(f->path), ".glsl");
}

/* What answers call the file by one of its texts: the NAME of its kernel or lib, else its file's
 * name. */
static void name_by(const struct file *f, const struct text *t, char name[NAME_SIZE])
{
    struct dgl_str text = {t->bytes ? t->bytes : "", t->bytes ? t->len : 0};
    const char *slash = strrchr(f->path, '/'), *base = slash ? slash + 1 : f->path;
    if (!f->is_hints && !is_lib(f) && next_word(&text, "NAME", name))
        return;
    const size_t len = strlen(base) - (!f->is_hints && watch_is_kernel_file(base) ? 5 : 0);
    snprintf(name, NAME_SIZE, "%.*s", (int)(len < NAME_SIZE ? len : NAME_SIZE - 1), base);
}

/* Whether a LIB line may splice the lib: "weight_{weight}" any whose name begins and ends so. */
static bool may_splice(const char *line, const char *lib)
{
    const char *open = strchr(line, '{'), *close = open ? strchr(open, '}') : NULL;
    const size_t len = strlen(lib);
    if (!close)
        return strcmp(line, lib) == 0;
    const size_t before = (size_t)(open - line), after = strlen(close + 1);
    return len > before + after && strncmp(line, lib, before) == 0 &&
           strcmp(lib + len - after, close + 1) == 0;
}

/* One is a kernel that splices the other, both go by one name, or one gives hints for the other. */
static bool depends(const struct file *a, const struct text *a_text, const struct file *b,
                    const struct text *b_text)
{
    char name[NAME_SIZE], other[NAME_SIZE];
    struct dgl_str rest = {a_text->bytes ? a_text->bytes : "", a_text->bytes ? a_text->len : 0};
    if (!a_text->bytes || !b_text->bytes)
        return false;
    name_by(b, b_text, name);
    if (a->is_hints)
        return !b->is_hints && strstr(a_text->bytes, name);
    if (b->is_hints)
        return false;
    if (is_lib(a) == is_lib(b)) {
        name_by(a, a_text, other);
        return strcmp(name, other) == 0;
    }
    while (is_lib(b) && next_word(&rest, "LIB", other))
        if (may_splice(other, name))
            return true;
    return false;
}

static bool are_related(const struct file *a, const struct file *b)
{
    const struct text *of_a[] = {&a->good, &a->now}, *of_b[] = {&b->good, &b->now};
    for (int i = 0; i < 4; i++)
        if (depends(a, of_a[i / 2], b, of_b[i % 2]) || depends(b, of_b[i % 2], a, of_a[i / 2]))
            return true;
    return false;
}

/* ---- files ----------------------------------------------------------------------------------- */

static struct file *find_file(const struct watch *w, const char *path)
{
    for (size_t i = 0; i < w->num_files; i++)
        if (strcmp(w->files[i].path, path) == 0)
            return &w->files[i];
    return NULL;
}

/* The row of the file, a new one if need be; NULL: out of memory. */
static struct file *add_file(struct watch *w, const char *path)
{
    struct file *f = find_file(w, path);
    char *copy = f ? NULL : strdup(path);
    if (f)
        return f;
    if (!copy ||
        !dgl_grow((void **)&w->files, &w->cap_files, w->num_files + 1, sizeof(*w->files))) {
        free(copy);
        w->failed = true;
        return NULL;
    }
    w->files[w->num_files] = (struct file){.path = copy, .group = NO_GROUP};
    f = &w->files[w->num_files++];
    name_by(f, &f->now, f->name);
    return f;
}

static void read_now(struct watch *w, struct file *f)
{
    const struct dgl_log quiet = {0};
    bool named = f->is_hints;
    for (size_t i = 0; i < w->opt->kernel_file.count; i++)
        named = named || strcmp(w->opt->kernel_file.item[i], f->path) == 0;
    text_finish(&f->now);
    f->now.there = named ? dgl_path_exists(f->path) : dgl_path_present(f->path);
    if (f->now.there &&
        dgl_file_slurp(&quiet, f->path, TEXT_MAX, &f->now.bytes, &f->now.len) != DGL_OK)
        f->now.bytes = NULL;
    if (f->now.bytes)
        name_by(f, &f->now, f->name);
    f->now.by_library = f->now.there && (!f->now.bytes || (!named && dgl_path_is_link(f->path)));
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
        char *path = dgl_path_join(dir, names[i]);
        w->failed = w->failed || !path;
        if (path && watch_is_kernel_file(names[i]))
            add_file(w, path);
        else if (path && names[i][0] != '.' && dgl_path_is_dir(path) && !dgl_path_is_link(path))
            hide_unknown(w, path, depth + 1);
        free(path);
    }
    dgl_names_free(names, count);
}

/* Reads what was edited anew; its answers are due. */
static void take_edits(struct watch *w)
{
    size_t count = 0;
    char *const *paths = watch_files_edited(w->events, &count);
    for (size_t i = 0; i < count && !w->failed; i++) {
        struct file *f = find_file(w, paths[i]);
        if (!f && watch_is_kernel_file(paths[i]))
            f = add_file(w, paths[i]);
        if (f)
            f->edited = true;
        for (size_t j = 0; j < w->num_files && !f; j++) /* a folder has gone, or another has come */
            if (watch_is_in(w->files[j].path, paths[i]) &&
                (w->files[j].good.there || w->files[j].now.there))
                w->files[j].edited = true;
    }
    watch_files_forget(w->events);
    for (size_t i = 0; i < w->num_files; i++) {
        struct file *f = &w->files[i];
        const bool was = f->good.there || f->now.there;
        if (f->edited)
            read_now(w, f);
        f->edited = f->edited && (was || f->now.there);
    }
    for (size_t i = 0; i < w->opt->kernel_dir.count; i++)
        hide_unknown(w, w->opt->kernel_dir.item[i], 0);
    if (w->pack_dir)
        hide_unknown(w, w->pack_dir, 0);
}

/* ---- the set in force ------------------------------------------------------------------------ */

/* A text of the set that the model has, which came from a file. */
struct known {
    char *path, *name;
    char sha256[65];
    bool is_lib;
};
struct knowns {
    struct watch *watch; /* not NULL: their texts are good */
    struct known *items;
    size_t count, cap;
    bool failed;
};

static bool add_known(void *priv, const struct dgl_kernel_override *o)
{
    struct knowns *k = priv;
    struct file *f = k->watch ? add_file(k->watch, o->origin) : NULL;
    if ((k->watch && (!f || !text_set(&f->good, o->text, o->len))) ||
        !dgl_grow((void **)&k->items, &k->cap, k->count + 1, sizeof(*k->items))) {
        k->failed = true;
        return false;
    }
    if (f)
        snprintf(f->name, sizeof(f->name), "%s", o->name);
    struct known *item = &k->items[k->count++];
    *item = (struct known){.path = strdup(o->origin), .name = strdup(o->name), .is_lib = o->is_lib};
    memcpy(item->sha256, o->sha256, sizeof(item->sha256));
    k->failed = !item->path || !item->name;
    return !k->failed;
}

static bool knowns_init(struct knowns *k, struct watch *w, bool good)
{
    const struct engine *e = w->engine;
    *k = (struct knowns){.watch = good ? w : NULL};
    if (dgl_kernels_overrides(&e->console.log, e->kernels, add_known, k) != DGL_OK)
        k->failed = true;
    w->failed = w->failed || k->failed;
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

/* The text that is in force under a file's name. */
static const struct known *find_namesake(const struct knowns *k, const struct file *f)
{
    for (size_t i = 0; i < k->count && !f->is_hints; i++)
        if (k->items[i].is_lib == is_lib(f) && strcmp(k->items[i].name, f->name) == 0)
            return &k->items[i];
    return NULL;
}

/* ---- answers --------------------------------------------------------------------------------- */

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

/* The file was renamed to what it is now: the line of its old name tells of it. */
static bool is_told_by_another(const struct watch *w, const struct knowns *now,
                               const struct file *f)
{
    for (size_t i = 0; i < w->num_files && find_known(now, f->path); i++) {
        const struct file *gone = &w->files[i];
        const struct known *other = find_namesake(now, gone);
        if (!gone->now.there && gone->group == f->group && (gone->edited || f->group != NO_GROUP) &&
            other && strcmp(other->path, f->path) == 0)
            return true;
    }
    return false;
}

/* `remarks`: what follows in the line. */
static void tell_taken(const struct watch *w, const struct knowns *now, const struct file *f,
                       const char *remarks)
{
    const char *name = f->name;
    const struct known *known = find_known(now, f->path), *other = find_namesake(now, f);
    struct builtin builtin = {.name = name};
    if (known)
        console_say("watch: %s: taken %s%s", name, known->sha256, remarks);
    else if (f->is_hints && f->now.there)
        console_say("watch: %s: taken%s", name, remarks);
    else if (f->now.there) /* another file of that NAME has the last word */
        console_say("watch: %s: taken, but a later file replaces it: %s%s", name, f->path, remarks);
    if (known || f->now.there)
        return;
    if (!f->is_hints && !is_lib(f) && !other)
        dgl_kernels_iterate(w->engine->kernels, find_builtin, &builtin);
    if (other)
        console_say("watch: %s: taken %s, that of %s: %s is gone%s", name, other->sha256,
                    other->path, f->path, remarks);
    else if (builtin.sha256[0])
        console_say("watch: %s: taken %s, the built-in one: %s is gone%s", name, builtin.sha256,
                    f->path, remarks);
    else
        console_say("watch: %s: taken away: %s is gone%s", name, f->path, remarks);
}

static void tell_refused(const struct watch *w, const struct file *f, const struct dgl_buf *said)
{
    struct dgl_str rest = {said->p ? said->p : "", said->len}, line, reason = DGL_STR("");
    struct dgl_buf others = {0};
    while (rest.len && reason.len == 0 && dgl_str_split(&rest, '\n', &line))
        if (line.p[0] == CONSOLE_CAPTURED_ERROR)
            reason = (struct dgl_str){line.p + 1, line.len - 1};
    for (size_t i = 0; i < w->num_files; i++) {
        if (w->files[i].group != f->group || &w->files[i] == f)
            continue;
        dgl_buf_printf(&others, "%s%s", others.len ? ", " : "together with ", w->files[i].name);
    }
    console_say("watch: %s: refused: %s%s%.*s", f->name, others.p ? others.p : "",
                others.len ? ": " : "", (int)reason.len, reason.p);
    dgl_buf_finish(&others);
}

/* What else was logged of a refusal: the compiler's lines. */
static void tell_rest(const struct dgl_buf *said)
{
    struct dgl_str rest = {said->p ? said->p : "", said->len}, line;
    while (rest.len && dgl_str_split(&rest, '\n', &line))
        if (line.p[0] != CONSOLE_CAPTURED_ERROR)
            console_say("%.*s", (int)line.len - 1, line.p + 1);
}

/* A file that is taken has a line of its own. */
static bool has_line(const struct watch *w, const struct knowns *now, const struct file *f)
{
    const struct attempt *a = &w->attempt;
    const bool taken = f->group != NO_GROUP && a->groups[f->group].outcome == TAKEN;
    return (taken || (f->edited && f->group == NO_GROUP)) && !is_told_by_another(w, now, f);
}

/* Adds what was logged of the files that were taken: each remark stands in the line of the file
 * that it names, else in the last line. */
static void add_remarks(const struct watch *w, const struct knowns *now, const struct dgl_buf *said,
                        const struct file *f, struct dgl_buf *out)
{
    struct dgl_str rest = {said->p ? said->p : "", said->len}, line;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        const struct file *owner = NULL, *last = NULL;
        if (line.p[0] == CONSOLE_CAPTURED_ERROR)
            continue;
        for (size_t i = 0; i < w->num_files; i++) {
            const struct file *each = &w->files[i];
            if (!has_line(w, now, each))
                continue;
            last = each;
            if (!owner && memmem(line.p, line.len, each->path, strlen(each->path)))
                owner = each;
        }
        if ((owner ? owner : last) == f)
            dgl_buf_printf(out, "; %.*s", (int)line.len - 1, line.p + 1);
    }
}

static void tell_line(const struct watch *w, const struct knowns *now, const struct file *f)
{
    const struct attempt *a = &w->attempt;
    struct dgl_buf remarks = {0};
    for (size_t g = 0; a->groups && g <= a->num_groups; g++)
        if (a->groups[g].outcome == TAKEN)
            add_remarks(w, now, &a->groups[g].said, f, &remarks);
    tell_taken(w, now, f, remarks.p ? remarks.p : "");
    dgl_buf_finish(&remarks);
}

/* A line for each file that was edited, or is taken at last; the compiler's lines follow it. */
static void answer(struct watch *w)
{
    const struct attempt *a = &w->attempt;
    struct knowns now;
    if (knowns_init(&now, w, false)) {
        for (size_t i = 0; i < w->num_files; i++)
            if (w->files[i].group == NO_GROUP && has_line(w, &now, &w->files[i]))
                tell_line(w, &now, &w->files[i]);
        for (size_t g = 0; a->groups && g < a->num_groups; g++) {
            bool refused = false;
            for (size_t i = 0; i < w->num_files; i++) {
                const struct file *f = &w->files[i];
                if (f->group != g)
                    continue;
                if (has_line(w, &now, f))
                    tell_line(w, &now, f);
                if (a->groups[g].outcome == TAKEN || !f->edited)
                    continue;
                refused = true;
                tell_refused(w, f, &a->groups[g].said);
            }
            if (refused)
                tell_rest(&a->groups[g].said);
        }
    }
    knowns_finish(&now);
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* Is the edited text of the file what the trial has? */
static bool is_tried(const struct attempt *a, const struct file *f)
{
    return f->group != NO_GROUP && (a->trying == a->num_groups || f->group == a->trying);
}

/* The layers with the texts of the trial; *out is the caller's. */
static enum dgl_status read_layers(struct watch *w, struct dgl_kernels **out)
{
    struct options opt = *w->opt;
    struct dgl_kernel_text *texts = dgl_new_array(struct dgl_kernel_text, w->num_files);
    size_t count = 0;
    *out = NULL;
    if (!texts) {
        w->failed = true;
        return DGL_ERR_NO_MEMORY;
    }
    if (opt.user_kernels_path && find_file(w, opt.user_kernels_path))
        opt.user_kernels = opt.user_kernels_path; /* its text says whether it is there */
    for (size_t i = 0; i < w->num_files; i++) {
        const struct file *f = &w->files[i];
        const struct text *t = is_tried(&w->attempt, f) ? &f->now : &f->good;
        if (!t->by_library)
            texts[count++] = (struct dgl_kernel_text){f->path, t->bytes, t->len};
    }
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
    if (answered)
        answer(w);
    for (size_t g = 0; a->groups && g <= a->num_groups; g++)
        dgl_buf_finish(&a->groups[g].said);
    free(a->groups);
    dgl_kernels_destroy(&a->kernels);
    *a = (struct attempt){0};
    for (size_t i = 0; i < w->num_files; i++) {
        w->files[i].group = NO_GROUP;
        w->files[i].edited = false;
    }
}

/* Groups of files that are not as in force. */
static void begin_attempt(struct watch *w)
{
    struct attempt *a = &w->attempt;
    *a = (struct attempt){0};
    for (size_t i = 0; i < w->num_files; i++) {
        struct file *f = &w->files[i];
        f->group = text_equal(&f->good, &f->now) ? NO_GROUP : i;
        for (size_t j = 0; j < i && f->group != NO_GROUP; j++) {
            const size_t old = w->files[j].group, joined = f->group;
            if (old == NO_GROUP || old == joined || !are_related(f, &w->files[j]))
                continue;
            for (size_t k = 0; k <= i; k++)
                if (w->files[k].group == joined)
                    w->files[k].group = old;
        }
    }
    /* Numbered from 0 on. */
    for (size_t i = 0; i < w->num_files; i++) {
        const size_t group = w->files[i].group;
        if (group == NO_GROUP || group < a->num_groups)
            continue;
        for (size_t k = i; k < w->num_files; k++)
            if (w->files[k].group == group)
                w->files[k].group = a->num_groups;
        a->num_groups++;
    }
    a->groups = dgl_new_array(struct group, a->num_groups + 1);
    w->failed = w->failed || !a->groups;
    a->trying = a->num_groups > 1 ? a->num_groups : 0;
    if (w->failed || a->num_groups == 0)
        end_attempt(w, !w->failed);
}

/* The trial that follows, or the end. */
static void next_trial(struct watch *w)
{
    struct attempt *a = &w->attempt;
    size_t next = a->trying == a->num_groups ? 0 : a->trying + 1;
    if (a->trying == a->num_groups && a->groups[a->num_groups].outcome == TAKEN)
        next = a->num_groups;
    for (int round = 0; round < 2; round++) {
        while (next < a->num_groups && a->groups[next].outcome == TAKEN)
            next++;
        if (next < a->num_groups) {
            a->trying = next;
            return;
        }
        if (!a->progress)
            break;
        /* What was taken may be what the others were lacking. */
        a->progress = false;
        next = 0;
    }
    end_attempt(w, true);
}

static void end_trial(struct watch *w, enum dgl_status status)
{
    struct attempt *a = &w->attempt;
    const size_t trying = a->trying;
    if (status == DGL_ERR_CANCELLED) {
        end_attempt(w, false);
        return;
    }
    a->groups[trying].outcome = status == DGL_OK ? TAKEN : REFUSED;
    for (size_t i = 0; i < w->num_files && status == DGL_OK; i++) {
        struct file *f = &w->files[i];
        if (!is_tried(a, f))
            continue;
        a->groups[f->group].outcome = TAKEN;
        text_finish(&f->good);
        if (f->now.bytes)
            w->failed = !text_set(&f->good, f->now.bytes, f->now.len) || w->failed;
    }
    if (status == DGL_OK) {
        struct knowns now; /* texts that only the library could read */
        a->progress = trying < a->num_groups;
        dgl_kernels_destroy(&w->engine->kernels);
        w->engine->kernels = a->kernels;
        a->kernels = NULL;
        knowns_init(&now, w, true);
        knowns_finish(&now);
    }
    dgl_kernels_destroy(&a->kernels);
    next_trial(w);
}

/* Goes on with the attempt; `wait`: to its end, else not beyond what a token can wait for. */
static void go_on(struct watch *w, bool wait)
{
    struct console *console = &w->engine->console;
    struct attempt *a = &w->attempt;
    const enum dgl_log_level level = console->log.level;
    bool ready = true;
    do {
        /* The error is the reason, what else is logged follows it, with -q too. */
        struct dgl_buf *said = &a->groups[a->trying].said;
        enum dgl_status status = DGL_OK;
        if (!a->kernels)
            said->len = 0;
        console->capture = said;
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
    } while (wait && a->groups);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A file of hints, unless it can be read only once (a pipe). */
static void add_hints(struct watch *w, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return;
    struct file *f = add_file(w, path);
    if (!f)
        return;
    f->is_hints = true;
    name_by(f, &f->now, f->name);
}

/* What the model has of the files. Those in folders that it does not have were either hidden by
 * others, or are new: an edit. So is what has changed while the model was loaded. */
static void note_start(struct watch *w)
{
    const struct options *opt = w->opt;
    struct knowns known;
    for (size_t i = 0; i < opt->kernel_file.count; i++)
        add_file(w, opt->kernel_file.item[i]);
    if (opt->kernel_config)
        add_hints(w, opt->kernel_config);
    if (opt->user_kernels_path)
        add_hints(w, opt->user_kernels_path);
    if (knowns_init(&known, w, true))
        take_edits(w);
    for (size_t i = 0; i < w->num_files && !w->failed; i++) {
        struct file *f = &w->files[i];
        read_now(w, f);
        const bool hidden = !f->good.there && find_namesake(&known, f);
        const bool loaded =
            f->is_hints &&
            (strcmp(f->path, opt->user_kernels_path ? opt->user_kernels_path : "") != 0 ||
             opt->user_kernels);
        if ((hidden || loaded) && f->now.bytes && !text_set(&f->good, f->now.bytes, f->now.len))
            w->failed = true;
        f->edited = !text_equal(&f->good, &f->now);
    }
    knowns_finish(&known);
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
    if (w && !w->failed && !watch_files_create(&w->events, &e->console, opt, w->pack_dir)) {
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
    *out = w;
    return true;
}

/* Goes on with what is open, and begins with what is new; `now`: see watch_files_look(). */
static void poll_edits(struct watch *w, bool wait, bool now)
{
    bool news = watch_files_look(w->events, now);
    for (size_t i = 0; i < w->num_files && !news; i++) /* from the beginning */
        news = w->files[i].edited;
    if (news && !w->attempt.groups) {
        take_edits(w);
        begin_attempt(w);
    }
    if (w->attempt.groups)
        go_on(w, wait);
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
    poll_edits(w, wait, false);
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
    if (w->attempt.groups)
        go_on(w, true);
    watch_files_look(w->events, true);
    take_edits(w);
    for (size_t i = 0; i < w->num_files && !w->failed; i++) {
        struct file *f = &w->files[i];
        read_now(w, f);
        f->edited = f->edited || !text_equal(&f->good, &f->now);
    }
    begin_attempt(w);
    if (w->attempt.groups)
        go_on(w, true);
    tell_failure(w);
}

void watch_destroy(struct watch **watch)
{
    struct watch *w = *watch;
    *watch = NULL;
    if (!w)
        return;
    if (!w->failed && !interrupted()) {
        if (w->attempt.groups)
            go_on(w, true);
        poll_edits(w, true, true);
    }
    end_attempt(w, false);
    watch_files_destroy(&w->events);
    for (size_t i = 0; i < w->num_files; i++) {
        text_finish(&w->files[i].good);
        text_finish(&w->files[i].now);
        free(w->files[i].path);
    }
    free(w->pack_dir);
    free(w->files);
    free(w);
}
