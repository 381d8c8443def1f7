/* Reading what a command works on. */
#include "tools/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "tools/console.h"

bool ids_parse(const char *text, struct id_list *out)
{
    struct dgl_str rest = dgl_str_of(text), part;
    while (dgl_str_split(&rest, ',', &part)) {
        int64_t id;
        if (!dgl_parse_i64(dgl_str_trim(part), INT32_MIN, INT32_MAX, &id)) {
            console_error("--ids %s: \"%.*s\" is not a token id", text, (int)part.len, part.p);
            return false;
        }
        if (!dgl_grow((void **)&out->ids, &out->cap, out->count + 1, sizeof(*out->ids))) {
            console_error("out of memory for %zu ids", out->count + 1);
            return false;
        }
        out->ids[out->count++] = (int32_t)id;
    }
    if (out->count == 0)
        console_error("--ids needs at least one token id");
    return out->count > 0;
}

bool input_slurp(const char *path, struct dgl_buf *out)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    char block[65536];
    size_t n;
    if (!file) {
        console_error("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    while ((n = fread(block, 1, sizeof(block), file)) > 0)
        dgl_buf_append(out, block, n);
    bool ok = !ferror(file) && !out->failed;
    if (!ok)
        console_error("cannot read %s: %s", path, out->failed ? "out of memory" : strerror(errno));
    if (!standard)
        fclose(file);
    return ok;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that the escape after a backslash at p stands for, and its length; 0 = no such escape. */
static size_t escape(const char *p, size_t len, char *out)
{
    static const char names[] = "ntr\\0\"'ab", values[] = "\n\t\r\\\0\"'\a\b";
    if (len >= 3 && p[0] == 'x' && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0) {
        *out = (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
        return 3;
    }
    const char *at = len > 0 && p[0] ? strchr(names, p[0]) : NULL;
    if (!at)
        return 0;
    *out = values[at - names];
    return 1;
}

bool input_unescape(struct dgl_buf *text)
{
    size_t w = 0;
    for (size_t r = 0; r < text->len; r++) {
        char c = text->p[r];
        if (c == '\\') {
            size_t n = escape(text->p + r + 1, text->len - r - 1, &c);
            if (n == 0) {
                console_error("-e: byte %zu of the prompt begins no known escape", r);
                return false;
            }
            r += n;
        }
        text->p[w++] = c;
    }
    text->len = w;
    return true;
}

bool input_line(struct dgl_buf *line)
{
    int c;
    line->len = 0;
    while ((c = getc(stdin)) != EOF && c != '\n')
        dgl_buf_putc(line, (char)c);
    return c != EOF || line->len > 0;
}
