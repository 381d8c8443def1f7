/* Input of commands: files, prompts, id lists and lines. */
#include "tools/cli/input.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "tools/cli/console.h"

/* Reads the next part of "1,2,3". Returns false after the last part, or sets *bad if a part is not
 * a number. */
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
        if (id < INT32_MIN || id > INT32_MAX)
            return console_fail("--ids: token %zu is %lld, no vocabulary has that id", out->count,
                                (long long)id);
        if (!dgl_grow((void **)&out->ids, &out->cap, out->count + 1, sizeof(*out->ids)))
            return console_fail("out of memory for %zu ids", out->count + 1);
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

/* Bytes that `fd` has, 0 at its end, -1 for a fault or a signal. A signal between a look at
 * interrupted() and a read() that waits would be forgotten: it waits in interrupt_wait_input(). */
static ssize_t read_some(int fd, char *block, size_t size)
{
    ssize_t n = -1;
    do {
        errno = 0;
        if (interrupt_wait_input(fd))
            n = read(fd, block, size);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN) && !interrupted());
    return n;
}

bool input_slurp(const char *path, struct dgl_buf *out)
{
    bool standard = strcmp(path, "-") == 0;
    /* A pipe whose writer has not come is waited for in read_some(), not here. */
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char block[65536];
    ssize_t n = fd < 0 ? -1 : 0;
    while (fd >= 0 && out->len <= MAX_INPUT && (n = read_some(fd, block, sizeof(block))) > 0)
        dgl_buf_append(out, block, (size_t)n);
    bool ok = n >= 0 && !interrupted() && !out->failed && out->len <= MAX_INPUT;
    if (n < 0 && !interrupted())
        console_error("cannot read %s: %s", path, strerror(errno));
    else if (!ok && !interrupted())
        console_error("%s does not fit into memory: at most %zu bytes are read", path, MAX_INPUT);
    if (!ok)
        dgl_buf_finish(out);
    if (!standard && fd >= 0)
        close(fd);
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
    /* Bytes of standard input that were read after the last line. */
    static char block[65536];
    static size_t at, len;
    bool end = false;
    line->len = 0;
    for (;;) {
        const char *newline = memchr(block + at, '\n', len - at);
        size_t part = newline ? (size_t)(newline - (block + at)) : len - at;
        dgl_buf_append(line, block + at, part);
        at += part + (newline ? 1 : 0);
        if (newline || end || line->failed)
            break;
        ssize_t n = read_some(STDIN_FILENO, block, sizeof(block));
        at = 0;
        len = n > 0 ? (size_t)n : 0;
        end = n <= 0;
    }
    return !line->failed && !interrupted() && (!end || line->len > 0);
}
