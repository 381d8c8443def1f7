/* The history file. Line ends inside a pasted message are stored as '\r'. Lines are appended as
 * they are typed: a crash loses none, and several chats may share the file. The beginning of a long
 * file is dropped. */
#include "tools/chat/chat_history.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"

enum { keep_bytes = 64 * 1024, most_bytes = 4 * keep_bytes };

static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    struct dgl_buf path = {0};
    if (state && state[0] == '/')
        dgl_buf_printf(&path, "%s/dopplergl", state);
    else if (home && home[0] == '/')
        dgl_buf_printf(&path, "%s/.local/state/dopplergl", home);
    if (!path.len || path.failed ||
        (!dgl_path_is_dir(path.p) && dgl_dir_make(NULL, path.p) != DGL_OK)) {
        dgl_buf_finish(&path);
        return NULL;
    }
    dgl_buf_puts(&path, "/chat_history");
    return dgl_buf_take(&path);
}

static void replace(char *text, size_t len, char from, char to)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == from)
            text[i] = to;
}

/* The last part of the file, whole lines. */
static void read_tail(int fd, off_t size, struct dgl_buf *out)
{
    char block[4096];
    off_t at = size > keep_bytes ? size - keep_bytes : 0;
    bool cut = at > 0;
    for (ssize_t n; (n = pread(fd, block, sizeof(block), at)) > 0; at += n)
        dgl_buf_append(out, block, (size_t)n);
    const char *newline = cut && out->len ? memchr(out->p, '\n', out->len) : NULL;
    if (newline) {
        size_t drop = (size_t)(newline - out->p) + 1;
        memmove(out->p, out->p + drop, out->len - drop + 1);
        out->len -= drop;
    }
}

void history_open(struct chat_history *h, void (*each)(void *priv, const char *line), void *priv)
{
    char *path = history_path();
    struct dgl_buf text = {0};
    h->fd = path ? open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    free(path);
    if (h->fd < 0)
        return;
    off_t size = lseek(h->fd, 0, SEEK_END);
    read_tail(h->fd, size, &text);
    if (size > most_bytes && !text.failed && ftruncate(h->fd, 0) == 0 &&
        write(h->fd, text.p, text.len) < 0)
        history_close(h);
    struct dgl_str rest = {text.p, text.failed ? 0 : text.len}, line;
    while (dgl_str_split(&rest, '\n', &line)) {
        char *start = text.p + (line.p - text.p);
        start[line.len] = '\0';
        replace(start, line.len, '\r', '\n');
        if (line.len && line.len == strlen(start))
            each(priv, start);
    }
    dgl_buf_finish(&text);
}

void history_add(struct chat_history *h, const char *line)
{
    struct dgl_buf out = {0};
    dgl_buf_puts(&out, line);
    if (!out.failed)
        replace(out.p, out.len, '\n', '\r');
    dgl_buf_putc(&out, '\n');
    /* One write, so that lines of two chats do not mix. */
    if (h->fd >= 0 && !out.failed && write(h->fd, out.p, out.len) < 0)
        history_close(h);
    dgl_buf_finish(&out);
}

void history_close(struct chat_history *h)
{
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}
