/* Unified diff of two texts by lines. */
#include "core/base/diff.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

enum { CONTEXT = 3, MOST_EDITS = 2000 };

/* One text as lines, including their newlines, and a flag per line that is absent from the other
 * text. */
struct side {
    struct dgl_str *line;
    bool *differs;
    size_t count, cap;
};

static bool cut_lines(struct dgl_str text, struct side *out)
{
    while (text.len) {
        const char *end = memchr(text.p, '\n', text.len);
        const size_t len = end ? (size_t)(end - text.p) + 1 : text.len;
        if (!dgl_grow((void **)&out->line, &out->cap, out->count + 1, sizeof(*out->line)))
            return false;
        out->line[out->count++] = (struct dgl_str){text.p, len};
        text = (struct dgl_str){text.p + len, text.len - len};
    }
    out->differs = dgl_calloc(out->count + 1, sizeof(*out->differs));
    return out->differs != NULL;
}

static bool same(const struct side *a, size_t i, const struct side *b, size_t j)
{
    return a->line[i].len == b->line[j].len &&
           memcmp(a->line[i].p, b->line[j].p, a->line[i].len) == 0;
}

/* Marks the lines of [a0, a1) and [b0, b1) that differ. reach[d] contains, for each diagonal k of
 * -d, -d + 2 ... d, the number of lines of `a` that the furthest path of d edits has passed.
 * Returns false if memory is exhausted. */
static bool mark(struct side *a, size_t a0, size_t a1, struct side *b, size_t b0, size_t b1)
{
    const int64_t n = (int64_t)(a1 - a0), m = (int64_t)(b1 - b0);
    const int64_t most = n + m < MOST_EDITS ? n + m : MOST_EDITS;
    int64_t **reach = dgl_calloc((size_t)most + 1, sizeof(*reach));
    int64_t edits = -1, x = 0, y = 0;
    bool ok = reach != NULL;
    for (int64_t d = 0; ok && d <= most && edits < 0; d++) {
        int64_t *now = reach[d] = dgl_calloc((size_t)d + 1, sizeof(*now));
        const int64_t *before = d > 0 ? reach[d - 1] : NULL;
        if (!now) {
            ok = false;
            break;
        }
        for (int64_t i = 0; i <= d && edits < 0; i++) {
            /* Diagonal k = 2i - d is reached from k + 1 by an insertion, or from k - 1 by a
             * deletion. */
            const bool insert = i == 0 || (i < d && before[i - 1] < before[i]);
            x = d == 0 ? 0 : insert ? before[i] : before[i - 1] + 1;
            y = x - (2 * i - d);
            while (x < n && y < m && same(a, a0 + (size_t)x, b, b0 + (size_t)y)) {
                x++;
                y++;
            }
            now[i] = x;
            if (x >= n && y >= m)
                edits = d;
        }
    }
    if (ok && edits < 0) { /* too many edits: mark all lines */
        for (size_t i = a0; i < a1; i++)
            a->differs[i] = true;
        for (size_t j = b0; j < b1; j++)
            b->differs[j] = true;
    }
    /* Follow the path back from the end, one edit per step. */
    x = n;
    y = m;
    for (int64_t d = edits; ok && d > 0; d--) {
        const int64_t *before = reach[d - 1];
        const int64_t i = (x - y + d) / 2;
        const bool insert = i == 0 || (i < d && before[i - 1] < before[i]);
        x = insert ? before[i] : before[i - 1];
        y = x - (insert ? 2 * i - d + 1 : 2 * i - d - 1);
        if (insert)
            b->differs[b0 + (size_t)y] = true;
        else
            a->differs[a0 + (size_t)x] = true;
    }
    for (int64_t d = 0; reach && d <= most; d++)
        free(reach[d]);
    free(reach);
    return ok;
}

static void put_line(struct dgl_buf *out, char sign, struct dgl_str line)
{
    dgl_buf_putc(out, sign);
    dgl_buf_append(out, line.p, line.len);
    if (!dgl_str_ends(line, "\n"))
        dgl_buf_puts(out, "\n\\ No newline at end of file\n");
}

/* Appends "12,5" in diff's format: a count of 1 is omitted, and an empty range uses the line before
 * it. */
static void put_range(struct dgl_buf *out, size_t first, size_t count)
{
    dgl_buf_printf(out, "%zu", count ? first + 1 : first);
    if (count != 1)
        dgl_buf_printf(out, ",%zu", count);
}

static void put_hunks(struct dgl_buf *out, const struct side *a, const struct side *b)
{
    size_t i = 0, j = 0;
    while (i < a->count || j < b->count) {
        if (!a->differs[i] && !b->differs[j]) {
            i++;
            j++;
            continue;
        }
        /* A hunk starts CONTEXT lines before i and ends at 2 * CONTEXT equal lines in a row. */
        const size_t back = i < CONTEXT ? i : CONTEXT;
        size_t i1 = i, j1 = j, equal = 0, i2 = i, j2 = j;
        while ((i2 < a->count || j2 < b->count) && equal <= 2 * CONTEXT) {
            if (a->differs[i2] || b->differs[j2]) {
                if (a->differs[i2])
                    i2++;
                else
                    j2++;
                equal = 0;
                i1 = i2;
                j1 = j2;
            } else {
                i2++;
                j2++;
                equal++;
            }
        }
        const size_t ahead = a->count - i1 < CONTEXT ? a->count - i1 : CONTEXT;
        dgl_buf_puts(out, "@@ -");
        put_range(out, i - back, i1 + ahead - (i - back));
        dgl_buf_puts(out, " +");
        put_range(out, j - back, j1 + ahead - (j - back));
        dgl_buf_puts(out, " @@\n");
        i -= back;
        j -= back;
        while (i < i1 + ahead || j < j1 + ahead) {
            if (a->differs[i]) {
                put_line(out, '-', a->line[i++]);
            } else if (b->differs[j]) {
                put_line(out, '+', b->line[j++]);
            } else {
                put_line(out, ' ', a->line[i++]);
                j++;
            }
        }
    }
}

void dgl_diff_unified(struct dgl_buf *out, const char *old_name, struct dgl_str old_text,
                      const char *new_name, struct dgl_str new_text)
{
    struct side a = {0}, b = {0};
    if (old_text.len == new_text.len &&
        (old_text.len == 0 || memcmp(old_text.p, new_text.p, old_text.len) == 0))
        return;
    bool ok = cut_lines(old_text, &a) && cut_lines(new_text, &b);
    if (ok) {
        size_t first = 0, a1 = a.count, b1 = b.count;
        while (first < a1 && first < b1 && same(&a, first, &b, first))
            first++;
        while (a1 > first && b1 > first && same(&a, a1 - 1, &b, b1 - 1)) {
            a1--;
            b1--;
        }
        ok = mark(&a, first, a1, &b, first, b1);
    }
    if (ok) {
        dgl_buf_printf(out, "--- %s\n+++ %s\n", old_name, new_name);
        put_hunks(out, &a, &b);
    }
    out->failed = out->failed || !ok;
    free(a.line);
    free(a.differs);
    free(b.line);
    free(b.differs);
}
