/* Tells what became of edits: by name, hash and place; remarks of the library stand in the line of
 * the file that they name. */
#include "tools/watch/watch_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

/* ---- the set in force ------------------------------------------------------------------------ */

static bool add_known(void *priv, const struct dgl_kernel_override *o)
{
    struct watch_knowns *k = priv;
    if (!dgl_grow((void **)&k->items, &k->cap, k->count + 1, sizeof(*k->items))) {
        k->failed = true;
        return false;
    }
    struct watch_known *item = &k->items[k->count++];
    *item = (struct watch_known){
        .path = strdup(o->origin), .name = strdup(o->name), .is_lib = o->is_lib};
    memcpy(item->sha256, o->sha256, sizeof(item->sha256));
    k->failed = !item->path || !item->name;
    return !k->failed;
}

bool watch_knowns_init(struct watch_knowns *k, const struct engine *e)
{
    *k = (struct watch_knowns){0};
    if (dgl_kernels_overrides(&e->console.log, e->kernels, add_known, k) != DGL_OK)
        k->failed = true;
    return !k->failed;
}

void watch_knowns_finish(struct watch_knowns *k)
{
    for (size_t i = 0; i < k->count; i++) {
        free(k->items[i].path);
        free(k->items[i].name);
    }
    free(k->items);
    *k = (struct watch_knowns){0};
}

static const struct watch_known *find_known(const struct watch_knowns *k, const char *path)
{
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->items[i].path, path) == 0)
            return &k->items[i];
    return NULL;
}

const struct watch_known *watch_find_namesake(const struct watch_knowns *k,
                                              const struct watch_file *f)
{
    for (size_t i = 0; i < k->count && !f->is_hints; i++)
        if (k->items[i].is_lib == watch_is_lib(f) && strcmp(k->items[i].name, f->name) == 0)
            return &k->items[i];
    return NULL;
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

/* The file was renamed to what it is now: the line of its old name tells of it. */
static bool is_told_by_another(const struct watch_tried *t, const struct watch_knowns *now,
                               const struct watch_file *f)
{
    const bool known = find_known(now, f->path) != NULL;
    for (size_t i = 0; i < t->num_files && known; i++) {
        const struct watch_file *gone = &t->files[i];
        if (gone->now.there || gone->group != f->group ||
            (!gone->edited && f->group == WATCH_NO_GROUP))
            continue;
        const struct watch_known *other = watch_find_namesake(now, gone);
        if (other && strcmp(other->path, f->path) == 0)
            return true;
    }
    return false;
}

/* `remarks`: what follows in the line. */
static void tell_taken(const struct watch_tried *t, const struct watch_knowns *now,
                       const struct watch_file *f, const char *remarks)
{
    const char *name = f->name;
    const struct watch_known *known = find_known(now, f->path),
                             *other = watch_find_namesake(now, f);
    struct builtin builtin = {.name = name};
    if (known)
        console_say("watch: %s: taken %s%s", name, known->sha256, remarks);
    else if (f->is_hints && f->now.there)
        console_say("watch: %s: taken%s", name, remarks);
    else if (f->now.there) /* another file of that NAME has the last word */
        console_say("watch: %s: taken, but a later file replaces it: %s%s", name, f->path, remarks);
    if (known || f->now.there)
        return;
    if (!f->is_hints && !watch_is_lib(f) && !other)
        dgl_kernels_iterate(t->engine->kernels, find_builtin, &builtin);
    if (other)
        console_say("watch: %s: taken %s, that of %s: %s is gone%s", name, other->sha256,
                    other->path, f->path, remarks);
    else if (builtin.sha256[0])
        console_say("watch: %s: taken %s, the built-in one: %s is gone%s", name, builtin.sha256,
                    f->path, remarks);
    else
        console_say("watch: %s: taken away: %s is gone%s", name, f->path, remarks);
}

static void tell_refused(const struct watch_tried *t, const struct watch_file *f,
                         const struct dgl_buf *said)
{
    struct dgl_str rest = {said->p ? said->p : "", said->len}, line, reason = DGL_STR("");
    struct dgl_buf others = {0};
    while (rest.len && reason.len == 0 && dgl_str_split(&rest, '\n', &line))
        if (line.p[0] == CONSOLE_CAPTURED_ERROR)
            reason = (struct dgl_str){line.p + 1, line.len - 1};
    for (size_t i = 0; i < t->num_files; i++) {
        if (t->files[i].group != f->group || &t->files[i] == f)
            continue;
        dgl_buf_printf(&others, "%s%s", others.len ? ", " : "together with ", t->files[i].name);
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
static bool has_line(const struct watch_tried *t, const struct watch_knowns *now,
                     const struct watch_file *f)
{
    const bool taken = f->group != WATCH_NO_GROUP && t->groups[f->group].outcome == WATCH_TAKEN;
    return (taken || (f->edited && f->group == WATCH_NO_GROUP)) && !is_told_by_another(t, now, f);
}

/* Of each file, whether it is told as taken, and what follows in its line: what was logged of the
 * files that were taken. Each remark stands in the line of the file that it names, else in the last
 * line. Made once: with a thousand files each look-up counts. */
struct lines {
    bool *has;               /* [num_files] */
    struct dgl_buf *remarks; /* [num_files] */
};

static void sort_remarks(const struct watch_tried *t, const struct dgl_buf *said,
                         const struct lines *lines)
{
    struct dgl_str rest = {said->p ? said->p : "", said->len}, line;
    size_t last = t->num_files;
    while (last > 0 && !lines->has[last - 1])
        last--;
    while (rest.len && last > 0 && dgl_str_split(&rest, '\n', &line)) {
        size_t owner = 0;
        if (line.p[0] == CONSOLE_CAPTURED_ERROR)
            continue;
        while (owner < last && !(lines->has[owner] && memmem(line.p, line.len, t->files[owner].path,
                                                             strlen(t->files[owner].path))))
            owner++;
        dgl_buf_printf(&lines->remarks[owner < last ? owner : last - 1], "; %.*s",
                       (int)line.len - 1, line.p + 1);
    }
}

static bool lines_init(const struct watch_tried *t, const struct watch_knowns *now,
                       struct lines *lines)
{
    lines->has = dgl_new_array(bool, t->num_files + 1);
    lines->remarks = dgl_new_array(struct dgl_buf, t->num_files + 1);
    if (!lines->has || !lines->remarks)
        return false;
    for (size_t i = 0; i < t->num_files; i++)
        lines->has[i] = has_line(t, now, &t->files[i]);
    for (size_t g = 0; t->groups && g <= t->num_groups; g++)
        if (t->groups[g].outcome == WATCH_TAKEN)
            sort_remarks(t, &t->groups[g].said, lines);
    return true;
}

static void lines_finish(const struct watch_tried *t, struct lines *lines)
{
    for (size_t i = 0; i < t->num_files && lines->remarks; i++)
        dgl_buf_finish(&lines->remarks[i]);
    free(lines->remarks);
    free(lines->has);
}

static void tell_line(const struct watch_tried *t, const struct watch_knowns *now,
                      const struct lines *lines, size_t i)
{
    tell_taken(t, now, &t->files[i], lines->remarks[i].p ? lines->remarks[i].p : "");
}

bool watch_answer(const struct watch_tried *t)
{
    struct watch_knowns now;
    struct lines lines = {0};
    const bool ok = watch_knowns_init(&now, t->engine) && lines_init(t, &now, &lines);
    for (size_t i = 0; i < t->num_files && ok; i++)
        if (t->files[i].group == WATCH_NO_GROUP && lines.has[i])
            tell_line(t, &now, &lines, i);
    for (size_t g = 0; t->groups && g < t->num_groups && ok; g++) {
        bool refused = false;
        for (size_t i = 0; i < t->num_files; i++) {
            const struct watch_file *f = &t->files[i];
            if (f->group != g)
                continue;
            if (lines.has[i])
                tell_line(t, &now, &lines, i);
            if (t->groups[g].outcome == WATCH_TAKEN || !f->edited)
                continue;
            refused = true;
            tell_refused(t, f, &t->groups[g].said);
        }
        if (refused)
            tell_rest(&t->groups[g].said);
    }
    lines_finish(t, &lines);
    watch_knowns_finish(&now);
    return ok;
}
