/* Input of commands: files, prompts, id lists and lines. */
#include "tools/input.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "tools/console.h"

/* The next part of "1,2,3" as a number; false after the last, or at one that is none (*bad). */
static bool next_id(const char **at, int64_t *id, bool *bad)
{
    if (!*at)
        return false;
    size_t len = strcspn(*at, ",");
    struct dgl_str part = dgl_str_trim((struct dgl_str){*at, len});
    *bad = !dgl_parse_i64(part, INT64_MIN, INT64_MAX, id);
    if (!*bad)
        *at = (*at)[len] ? *at + len + 1 : NULL;
    return !*bad;
}

bool ids_are_numbers(const char *origin, const char *text)
{
    int64_t id;
    size_t place = 0;
    bool bad = false;
    while (next_id(&text, &id, &bad))
        place++;
    if (bad)
        console_error("%s: \"%.*s\" at place %zu is not a token id", origin,
                      (int)strcspn(text, ","), text, place);
    return !bad;
}

int ids_parse(const char *text, struct id_list *out)
{
    int64_t id;
    bool bad = false;
    while (next_id(&text, &id, &bad)) {
        if (id < INT32_MIN || id > INT32_MAX) {
            console_error("--ids: token %zu is %lld, no vocabulary has that id", out->count,
                          (long long)id);
            return EXIT_FAILED;
        }
        if (!dgl_grow((void **)&out->ids, &out->cap, out->count + 1, sizeof(*out->ids))) {
            console_error("out of memory for %zu ids", out->count + 1);
            return EXIT_FAILED;
        }
        out->ids[out->count++] = (int32_t)id;
    }
    assert(!bad); /* ids_are_numbers() was true */
    return EXIT_OK;
}

bool input_is_piped(void)
{
    struct stat info;
    return fstat(STDIN_FILENO, &info) == 0 && !S_ISCHR(info.st_mode);
}

bool input_comes_soon(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 500) != 0;
}

/* Far beyond any context; ends the reading of devices that never end. */
#define MAX_INPUT ((size_t)1 << 30)

bool input_slurp(const char *path, struct dgl_buf *out)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    char block[65536];
    size_t n;
    if (!file) {
        if (errno != EINTR || !interrupted()) /* a pipe whose writer never came */
            console_error("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    /* A signal ends fread() with an error after what had come: the next call would wait again. */
    while (out->len <= MAX_INPUT && !ferror(file) && !interrupted() &&
           (n = fread(block, 1, sizeof(block), file)) > 0)
        dgl_buf_append(out, block, n);
    bool ok = !ferror(file) && !interrupted() && !out->failed && out->len <= MAX_INPUT;
    if (ferror(file) && !interrupted())
        console_error("cannot read %s: %s", path, strerror(errno));
    else if (!ok && !interrupted())
        console_error("%s does not fit into memory: at most %zu bytes are read", path, MAX_INPUT);
    if (!ok)
        dgl_buf_finish(out);
    if (!standard)
        fclose(file);
    return ok;
}

/* The byte of the escape that follows a backslash at p, and its length; 0 = no escape. */
static size_t escape(const char *p, size_t len, char *out)
{
    static const char names[] = "nrt'\"\\", values[] = "\n\r\t'\"\\";
    if (len >= 3 && p[0] == 'x' && dgl_hex_value(p[1]) >= 0 && dgl_hex_value(p[2]) >= 0) {
        *out = (char)(dgl_hex_value(p[1]) * 16 + dgl_hex_value(p[2]));
        return 3;
    }
    const char *at = len > 0 && p[0] ? strchr(names, p[0]) : NULL;
    if (!at)
        return 0;
    *out = values[at - names];
    return 1;
}

size_t input_unescape(char *text, size_t len)
{
    size_t w = 0;
    for (size_t r = 0; r < len; r++) {
        char c = text[r];
        if (c == '\\')
            r += escape(text + r + 1, len - r - 1, &c);
        text[w++] = c;
    }
    return w;
}

bool input_is_utf8(const char *what, struct dgl_str text)
{
    size_t valid = dgl_utf8_valid_prefix(text.p, text.len);
    if (valid < text.len)
        console_error("%s is not UTF-8: byte 0x%02x at offset %zu; convert it first", what,
                      (unsigned char)text.p[valid], valid);
    return valid == text.len;
}

bool input_line(struct dgl_buf *line)
{
    int c;
    line->len = 0;
    while ((c = getc(stdin)) != EOF && c != '\n')
        dgl_buf_putc(line, (char)c);
    return !line->failed && !interrupted() && (c != EOF || line->len > 0);
}
