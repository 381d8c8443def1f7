/* Looks into texts that may be of anything: what is half written, or wrong, has relations too, so
 * they are not parsed but searched for the lines that matter. */
#include "tools/watch/watch_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "tools/watch/watch_files.h"

void watch_text_finish(struct watch_text *t)
{
    free(t->bytes);
    *t = (struct watch_text){0};
}

bool watch_text_equal(const struct watch_text *a, const struct watch_text *b)
{
    if (!a->there || !b->there)
        return a->there == b->there;
    return a->bytes && b->bytes && a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

bool watch_text_set(struct watch_text *t, const char *bytes, size_t len)
{
    char *copy = dgl_calloc(len + 1, 1);
    watch_text_finish(t);
    if (copy && len)
        memcpy(copy, bytes, len);
    *t = (struct watch_text){.there = copy != NULL, .bytes = copy, .len = len};
    return copy != NULL;
}

/* The word after "//! DIRECTIVE " from *at on, which moves behind it; false: no more. */
static bool next_word(struct dgl_str *at, const char *directive, char word[WATCH_NAME_SIZE])
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
        while (end < line.len && end < WATCH_NAME_SIZE - 1 && line.p[end] != ' ' &&
               line.p[end] != '\t')
            end++;
        memcpy(word, line.p, end);
        word[end] = '\0';
        return true;
    }
    return false;
}

bool watch_is_lib(const struct watch_file *f)
{
    return !f->is_hints && dgl_str_ends(dgl_str_of(f->path), ".glsl");
}

bool watch_name_of(const struct watch_file *f, const struct watch_text *t,
                   char name[WATCH_NAME_SIZE])
{
    struct dgl_str text = {t->bytes ? t->bytes : "", t->bytes ? t->len : 0};
    return !f->is_hints && !watch_is_lib(f) && next_word(&text, "NAME", name);
}

void watch_name_by(const struct watch_file *f, const struct watch_text *t,
                   char name[WATCH_NAME_SIZE])
{
    const char *slash = strrchr(f->path, '/'), *base = slash ? slash + 1 : f->path;
    if (watch_name_of(f, t, name))
        return;
    const size_t len = strlen(base) - (!f->is_hints && watch_is_kernel_file(base) ? 5 : 0);
    snprintf(name, WATCH_NAME_SIZE, "%.*s",
             (int)(len < WATCH_NAME_SIZE ? len : WATCH_NAME_SIZE - 1), base);
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

/* The text has the NAME, and not only as a part of another one. */
static bool has_name(const char *text, const char *name)
{
    static const char of_names[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const size_t len = strlen(name);
    for (const char *at = text; len && (at = strstr(at, name)); at++)
        if ((at == text || !strchr(of_names, at[-1])) && (!at[len] || !strchr(of_names, at[len])))
            return true;
    return false;
}

/* One is a kernel that splices the other, both go by one name, or one gives hints for the other. */
static bool depends(const struct watch_file *a, const struct watch_text *a_text,
                    const struct watch_file *b, const struct watch_text *b_text)
{
    char name[WATCH_NAME_SIZE], other[WATCH_NAME_SIZE];
    struct dgl_str rest = {a_text->bytes ? a_text->bytes : "", a_text->bytes ? a_text->len : 0};
    if (!a_text->bytes || !b_text->bytes)
        return false;
    watch_name_by(b, b_text, name);
    if (a->is_hints)
        return !b->is_hints && !watch_is_lib(b) && has_name(a_text->bytes, name);
    if (b->is_hints)
        return false;
    if (watch_is_lib(a) == watch_is_lib(b)) {
        watch_name_by(a, a_text, other);
        return strcmp(name, other) == 0;
    }
    while (watch_is_lib(b) && next_word(&rest, "LIB", other))
        if (may_splice(other, name))
            return true;
    return false;
}

bool watch_are_related(const struct watch_file *a, const struct watch_file *b)
{
    const struct watch_text *of_a[] = {&a->good, &a->now}, *of_b[] = {&b->good, &b->now};
    for (int i = 0; i < 4; i++)
        if (depends(a, of_a[i / 2], b, of_b[i % 2]) || depends(b, of_b[i % 2], a, of_a[i / 2]))
            return true;
    return false;
}
