/* Control characters and word wrap of a model's text. */
#include "tools/cli/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "tools/cli/console.h"

enum { TAB = 8, ZERO_WIDTH_JOINER = 0x200D };

void screen_choose_encoding(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

/* Cells of a line of the terminal; 0 = unknown. */
static size_t terminal_width(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void screen_init(struct screen *s, bool wrap, bool raw)
{
    const char *term = getenv("TERM");
    bool dumb = term && strcmp(term, "dumb") == 0;
    *s = (struct screen){.terminal = isatty(STDOUT_FILENO), .at_newline = true};
    s->plain = s->terminal && !raw;
    s->wraps = s->plain && wrap && !dumb && terminal_width() > 0;
    if (s->wraps)
        screen_choose_encoding();
}

void screen_finish(struct screen *s)
{
    dgl_buf_finish(&s->blanks);
    dgl_buf_finish(&s->word);
}

/* ---- wrapping -------------------------------------------------------------------------------- */

/* Characters that no line begins with. */
static bool closes(uint32_t cp)
{
    static const uint32_t list[] = {0x3001, 0x3002, 0x3009, 0x300B, 0x300D, 0x300F, 0x3011,
                                    0xFF01, 0xFF09, 0xFF0C, 0xFF0E, 0xFF1A, 0xFF1B, 0xFF1F};
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (list[i] == cp)
            return true;
    return false;
}

/* Moves the text that is held back to `out`, after a newline if it does not fit. */
static void put_word(struct screen *s, struct dgl_buf *out)
{
    size_t width = terminal_width(), cells = s->blank_cells + s->word_cells;
    if (s->column > 0 && s->word_cells > 0 && width > 0 && s->column + cells > width) {
        dgl_buf_putc(out, '\n');
        s->column = 0;
    } else {
        dgl_buf_append(out, s->blanks.p, s->blanks.len);
        s->column += s->blank_cells;
    }
    dgl_buf_append(out, s->word.p, s->word.len);
    s->column += s->word_cells;
    s->failed = s->failed || s->blanks.failed || s->word.failed;
    s->blanks.len = s->word.len = s->blank_cells = s->word_cells = 0;
    s->last = 0;
    s->wide = false;
}

static void wrap_char(struct screen *s, struct dgl_buf *out, const char *text, size_t len,
                      uint32_t cp)
{
    if (cp == '\n') {
        put_word(s, out);
        dgl_buf_putc(out, '\n');
        s->column = 0;
        return;
    }
    if (cp == ' ' || cp == '\t') {
        if (s->word.len)
            put_word(s, out);
        dgl_buf_append(&s->blanks, text, len);
        s->blank_cells += cp == ' ' ? 1 : TAB - (s->column + s->blank_cells) % TAB;
        return;
    }
    int cells = len > 1 ? wcwidth((wchar_t)cp) : 1;
    bool joined = cells == 0 || s->last == ZERO_WIDTH_JOINER || closes(cp);
    if (!joined && s->word.len && (s->wide || cells == 2))
        put_word(s, out);
    /* Longer than a line: cut where the terminal would cut it. */
    if (s->word_cells + (size_t)(cells > 0 ? cells : 1) > terminal_width())
        put_word(s, out);
    dgl_buf_append(&s->word, text, len);
    s->word_cells += (size_t)(cells >= 0 ? cells : 1);
    s->wide = cells == 2 || (cells == 0 && s->wide);
    s->last = cp;
}

/* ---- characters ------------------------------------------------------------------------------ */

/* The first character of text that need not be UTF-8: its length, and its code point or that of a
 * control character. */
static size_t first_char(const char *text, size_t len, uint32_t *cp)
{
    size_t most = len < 4 ? len : 4, n = 1;
    while (n < most && ((unsigned char)text[n] & 0xC0) == 0x80)
        n++;
    if (dgl_utf8_valid_prefix(text, n) == n)
        return dgl_utf8_decode(text, n, cp);
    *cp = 0;
    return 1;
}

static void put_char(struct screen *s, struct dgl_buf *out, const char *text, size_t len,
                     uint32_t cp)
{
    if (s->wraps)
        wrap_char(s, out, text, len, cp);
    else
        dgl_buf_append(out, text, len);
}

static void spell(struct screen *s, struct dgl_buf *out, const char *text, size_t len)
{
    struct dgl_buf spelled = {0};
    dgl_buf_visible(&spelled, (struct dgl_str){text, len});
    s->failed = s->failed || spelled.failed;
    for (size_t i = 0; i < spelled.len; i++)
        put_char(s, out, spelled.p + i, 1, (unsigned char)spelled.p[i]);
    dgl_buf_finish(&spelled);
}

static bool print(struct screen *s, struct dgl_buf *out)
{
    if (s->failed || out->failed) {
        dgl_buf_finish(out);
        return console_refuse("out of memory while printing");
    }
    return out_buf(out);
}

bool screen_write(struct screen *s, const char *text, size_t len)
{
    struct dgl_buf out = {0};
    uint32_t cp;
    if (len)
        s->at_newline = text[len - 1] == '\n';
    if (!s->plain)
        return out_write(text, len) && out_flush();
    for (size_t i = 0, n; i < len; i += n) {
        n = first_char(text + i, len - i, &cp);
        if (s->after_return && cp != '\n')
            spell(s, &out, "\r", 1);
        s->after_return = cp == '\r';
        if (s->after_return)
            continue;
        if ((cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7F && cp < 0xA0))
            spell(s, &out, text + i, n);
        else
            put_char(s, &out, text + i, n, cp);
    }
    return print(s, &out);
}

bool screen_end(struct screen *s)
{
    struct dgl_buf out = {0};
    if (s->after_return)
        spell(s, &out, "\r", 1);
    put_word(s, &out);
    s->after_return = false;
    s->column = 0;
    return print(s, &out);
}
