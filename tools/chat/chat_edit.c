/* Line editing with libedit. This file reads the characters instead of libedit. A signal then ends
 * the wait at once, no character is lost, and input is UTF-8 in every locale. */
#include "tools/chat/chat_edit.h"

#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "tools/chat/chat_history.h"
#include "tools/cli/console.h"
#include "tools/cli/screen.h"

enum { history_lines = 1000 };

struct line_editor {
    EditLine *el;
    History *history;
    HistEvent event;
    struct chat_history file;
    struct dgl_buf prompt;
    sigset_t handled, before; /* signals that are blocked except while waiting */
    bool empty;               /* a signal ended the wait before anything was typed */
};

/* ---- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t window_changed, continued;

static void on_terminal(int number)
{
    if (number == SIGWINCH)
        window_changed = 1;
    else
        continued = 1;
}

static void watch_terminal(struct line_editor *e, void (*handler)(int))
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    sigemptyset(&e->handled);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        sigaddset(&e->handled, all[i]);
}

/* Bracketed paste: a terminal that knows it encloses pasted text in two sequences, so that line
 * ends in it are not taken for Enter. Others ignore the request. */
#define PASTE_BEGIN "\\e[200~"
#define PASTE_END   "\033[201~"

static void bracket_pastes(bool yes)
{
    fputs(yes ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

static void follow_terminal(EditLine *el)
{
    if (window_changed) {
        window_changed = 0;
        el_resize(el);
        el_set(el, EL_REFRESH);
    }
    if (continued) { /* the shell had the terminal in between */
        continued = 0;
        el_set(el, EL_PREP_TERM, 0);
        el_set(el, EL_PREP_TERM, 1);
        bracket_pastes(true);
        el_set(el, EL_REFRESH);
    }
}

/* ---- characters ------------------------------------------------------------------------------ */

/* Returns false after a signal that ends the line, or after an error. Signals are only delivered
 * while it waits. */
static bool wait_for_input(struct line_editor *e)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    struct timespec tick = {.tv_nsec = INTERRUPT_TICK_MS * 1000000L}; /* a driver's thread has it */
    int ready = 0;
    while (ready <= 0 && !interrupted()) {
        follow_terminal(e->el);
        ready = ppoll(&input, 1, &tick, &e->before);
        if (ready == 0)
            console_idle();
        if (ready < 0 && errno != EINTR)
            return false;
    }
    /* ppoll() prefers input to a signal. If both are there, Ctrl-C came first: it dropped
     * everything that had been typed before it. */
    sigprocmask(SIG_SETMASK, &e->before, NULL);
    sigprocmask(SIG_BLOCK, &e->handled, NULL);
    return ready > 0 && !interrupted();
}

/* 1 = a byte, 0 = end of file, -1 = a signal or an error. */
static int read_byte(struct line_editor *e, char *byte)
{
    if (!wait_for_input(e))
        return -1;
    return (int)read(STDIN_FILENO, byte, 1);
}

static int read_char(EditLine *el, wchar_t *out)
{
    struct line_editor *e;
    char text[4];
    size_t len = 0;
    uint32_t cp = 0xFFFD;
    el_get(el, EL_CLIENTDATA, &e);
    do {
        int got = read_byte(e, &text[len]);
        if (got <= 0) {
            const LineInfo *line = el_line(el);
            e->empty = line->lastchar == line->buffer;
            return got;
        }
        len++;
    } while (len < sizeof(text) && dgl_utf8_incomplete_tail(text, len));
    if (dgl_utf8_valid_prefix(text, len) == len)
        dgl_utf8_decode(text, len, &cp);
    *out = (wchar_t)cp;
    return 1;
}

/* Returns false if a signal or the end of input came before the end mark. */
static bool read_paste(struct line_editor *e, struct dgl_buf *out)
{
    const size_t mark = strlen(PASTE_END);
    char byte;
    while (read_byte(e, &byte) > 0) {
        dgl_buf_putc(out, byte);
        if (out->len >= mark && memcmp(out->p + out->len - mark, PASTE_END, mark) == 0) {
            out->len -= mark;
            return true;
        }
    }
    return false;
}

/* Converts pasted text to characters. Line ends become '\n' (terminals send '\r'). A line end at
 * the end is dropped, because it usually comes from the selection with the mouse. NUL is dropped,
 * because it would end the line. */
static wchar_t *paste_chars(const struct dgl_buf *text)
{
    wchar_t *chars = text->failed ? NULL : dgl_new_array(wchar_t, text->len + 1);
    size_t count = 0;
    uint32_t cp = 0, before;
    for (size_t i = 0; chars && i < text->len;) {
        before = cp;
        i += dgl_utf8_decode(text->p + i, text->len - i, &cp);
        if (cp && !(cp == '\n' && before == '\r'))
            chars[count++] = cp == '\r' ? L'\n' : (wchar_t)cp;
    }
    while (count && chars[count - 1] == L'\n')
        chars[--count] = L'\0';
    return chars;
}

/* The text becomes part of the line at once, where it can still be edited. */
static unsigned char insert_paste(EditLine *el, int key)
{
    struct line_editor *e;
    struct dgl_buf text = {0}, valid = {0};
    (void)key;
    el_get(el, EL_CLIENTDATA, &e);
    bool whole = read_paste(e, &text);
    dgl_utf8_append_lossy(&valid, text.p ? text.p : "", text.len);
    valid.failed |= text.failed;
    wchar_t *chars = paste_chars(&valid);
    bool ok = chars && (!whole || !chars[0] || el_winsertstr(el, chars) == 0);
    if (!ok)
        console_error("out of memory for a text of %zu bytes", text.len);
    free(chars);
    dgl_buf_finish(&valid);
    dgl_buf_finish(&text);
    return ok ? CC_REFRESH : CC_REDISPLAY;
}

static char *prompt_of(EditLine *el)
{
    struct line_editor *e;
    el_get(el, EL_CLIENTDATA, &e);
    return e->prompt.p;
}

/* \1 encloses characters that take no room on the screen. */
/* ---- lines ----------------------------------------------------------------------------------- */

static void remember(void *priv, const char *line)
{
    struct line_editor *e = priv;
    history(e->history, &e->event, H_ENTER, line);
}

/* Keys of xterm's kind that libedit does not know: their last bytes would become text. */
static void bind_keys(EditLine *el)
{
    static const struct {
        const char *key, *command;
    } keys[] = {
        {"\\e[1~", "ed-move-to-beg"},
        {"\\e[7~", "ed-move-to-beg"},
        {"\\e[4~", "ed-move-to-end"},
        {"\\e[8~", "ed-move-to-end"},
        {"\\e[3~", "ed-delete-next-char"},
        {"\\e[1;5C", "em-next-word"},
        {"\\e[1;5D", "ed-prev-word"},
        {"\\e[1;3C", "em-next-word"},
        {"\\e[1;3D", "ed-prev-word"},
        {"\\e[201~", "ed-ignore"},
        {"\\e[I", "ed-ignore"},
        {"\\e[O", "ed-ignore"},
        {"\\e[Z", "ed-ignore"},
    };
    static const int ignored[] = {2,  5,  6,  11, 12, 13, 14, 15, 17, 18, 19, 20,
                                  21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34};
    char key[32];
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        snprintf(key, sizeof(key), "\\e[%d~", ignored[i]);
        el_set(el, EL_BIND, key, "ed-ignore", NULL);
    }
    for (int with = 2; with <= 8; with++) /* Shift, Alt, Ctrl and their sums */
        for (const char *c = "ABCDFHPQRS"; *c; c++) {
            snprintf(key, sizeof(key), "\\e[1;%d%c", with, *c);
            el_set(el, EL_BIND, key, "ed-ignore", NULL);
        }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        el_set(el, EL_BIND, keys[i].key, keys[i].command, NULL);
}

struct line_editor *line_editor_create(void)
{
    const char *term = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !term || !term[0] ||
        strcmp(term, "dumb") == 0)
        return NULL;
    struct line_editor *e = dgl_new(struct line_editor);
    if (!e)
        return NULL;
    e->file.fd = -1;
    screen_choose_encoding(); /* libedit prints in that of the locale */
    e->el = el_init("dopplergl", stdin, stdout, stderr);
    e->history = history_init();
    if (!e->el || !e->history) {
        line_editor_destroy(&e);
        return NULL;
    }
    history(e->history, &e->event, H_SETSIZE, history_lines);
    history(e->history, &e->event, H_SETUNIQUE, 1);
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_HIST, history, e->history);
    el_set(e->el, EL_PROMPT_ESC, prompt_of, '\1');
    el_set(e->el, EL_GETCFN, read_char);
    bind_keys(e->el);
    el_source(e->el, NULL); /* ~/.editrc: the user's keys */
    el_set(e->el, EL_ADDFN, "chat-paste", "Insert a text as the terminal pastes it", insert_paste);
    el_set(e->el, EL_BIND, PASTE_BEGIN, "chat-paste", NULL); /* whatever keys they are */
    interrupt_catch(SIGQUIT);
    watch_terminal(e, on_terminal);
    history_open(&e->file, remember, e);
    return e;
}

static enum line_status line_ended(const struct line_editor *e)
{
    bool dropped = interrupted() == SIGINT;
    fputs(dropped ? "^C\n" : "\n", stdout);
    fflush(stdout);
    if (dropped && e->empty)
        console_say("(Ctrl-D ends the chat)");
    return dropped ? LINE_DROPPED : LINE_END;
}

enum line_status line_editor_read(struct line_editor *e, const char *prompt, struct dgl_buf *line)
{
    int bytes = 0;
    const char *no_color = getenv("NO_COLOR");
    const bool plain = no_color && no_color[0];
    e->prompt.len = 0;
    dgl_buf_printf(&e->prompt, plain ? "%s" : "\1\033[1;32m\1%s\1\033[0m\1", prompt);
    if (e->prompt.failed)
        return LINE_END;
    e->empty = true;
    sigprocmask(SIG_BLOCK, &e->handled, &e->before);
    /* Before the prompt, so that the terminal does not echo the text after it twice. */
    el_set(e->el, EL_PREP_TERM, 1);
    bracket_pastes(true);
    /* Resized during an answer: there is no line yet to draw again. */
    if (window_changed) {
        window_changed = 0;
        el_resize(e->el);
    }
    const char *text = el_gets(e->el, &bytes);
    bracket_pastes(false);
    enum line_status status = text && bytes > 0 ? LINE_TEXT : line_ended(e);
    sigprocmask(SIG_SETMASK, &e->before, NULL);
    if (status != LINE_TEXT)
        return status;
    line->len = 0;
    dgl_buf_append(line, text, (size_t)bytes - (text[bytes - 1] == '\n'));
    if (line->failed)
        return LINE_END;
    if (line->len) {
        remember(e, line->p);
        history_add(&e->file, line->p);
    }
    return LINE_TEXT;
}

void line_editor_destroy(struct line_editor **editor)
{
    struct line_editor *e = *editor;
    if (!e)
        return;
    *editor = NULL;
    watch_terminal(e, SIG_DFL);
    if (e->el)
        el_end(e->el);
    if (e->history)
        history_end(e->history);
    history_close(&e->file);
    dgl_buf_finish(&e->prompt);
    free(e);
}
