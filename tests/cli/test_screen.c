/* A model's text on a terminal: words at the edge, wide characters, control characters. Without a
 * terminal the text is unchanged. */
#include "tools/cli/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include "core/base/utf8.h"
#include "tests/support/test.h"

struct screen_row {
    const char *name;
    unsigned short width;
    const char *text, *want;
    bool generate; /* not wrapped */
    bool raw;
};

static const struct screen_row rows[] = {
    {"short", 20, "A dog.", "A dog.", false, false},
    {"at the edge", 10, "abcd efghi jk", "abcd efghi\njk", false, false},
    {"beyond the edge", 10, "abcd efghij k", "abcd\nefghij k", false, false},
    {"several lines", 8, "one two three four five", "one two\nthree\nfour\nfive", false, false},
    {"own newlines", 8, "one two\n\nthree four", "one two\n\nthree\nfour", false, false},
    {"indented", 12, "a\n    bcd efg\n", "a\n    bcd efg\n", false, false},
    {"blanks at the edge", 6, "abcdef   gh ", "abcdef\ngh ", false, false},
    {"tab", 12, "a\tbc def", "a\tbc\ndef", false, false},
    {"longer than a line", 5, "ab cdefghijklm no", "ab\ncdefg\nhijkl\nm no", false, false},
    {"accents", 6, "\xC3\xA9t\xC3\xA9 \xC3\xA9t\xC3\xA9", "\xC3\xA9t\xC3\xA9\n\xC3\xA9t\xC3\xA9",
     false, false},
    {"combining", 4, "e\xCC\x81t e\xCC\x81t", "e\xCC\x81t\ne\xCC\x81t", false, false},
    /* Each has a width of two cells and may end a line. A full stop does not start a line. */
    {"ideographs", 6, "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97\xE4\xB8\xAD",
     "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97\n\xE4\xB8\xAD", false, false},
    {"closing mark", 6, "\xE4\xB8\xAD\xE6\x96\x87\xE5\xAD\x97\xE3\x80\x82",
     "\xE4\xB8\xAD\xE6\x96\x87\n\xE5\xAD\x97\xE3\x80\x82", false, false},
    {"emoji of several", 5, "abcd\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB",
     "abcd\n\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB", false, false},
    {"not wrapped", 5, "abcd efghij k", "abcd efghij k", true, false},
    {"raw is not wrapped", 5, "abcd efghij k", "abcd efghij k", false, true},
    {"control characters", 80, "a\033[31mb\ac\177d\xC2\x9Bm", "a\\x1b[31mb\\x07c\\x7fd\\u{9b}m",
     false, false},
    {"control characters without wrap", 80, "\033]0;x\a", "\\x1b]0;x\\x07", true, false},
    {"raw control characters", 80, "a\033[31mb", "a\033[31mb", true, true},
    {"return", 80, "over\rwritten", "over\\x0dwritten", true, false},
    {"line ends with return", 80, "one\r\ntwo\r\n", "one\ntwo\n", false, false},
    {"return at the end", 80, "one\r", "one\\x0d", false, false},
    {"not UTF-8", 80, "a\xFFz", "a\\xffz", true, false},
    {"spelled ones have a width", 8, "abcde \033\033", "abcde\n\\x1b\\x1b", false, false},
};

/* In the child: prints the text a few characters at a time. */
static void print_pieces(const struct screen_row *row, size_t chars)
{
    struct screen s;
    size_t len = strlen(row->text);
    bool ok = true;
    screen_init(&s, !row->generate, row->raw);
    for (size_t i = 0, n; i < len && ok; i += n) {
        n = 0;
        for (size_t c = 0; c < chars && i + n < len; c++) {
            n++;
            while (i + n < len && ((unsigned char)row->text[i + n] & 0xC0) == 0x80)
                n++;
        }
        ok = screen_write(&s, row->text + i, n);
    }
    ok = ok && screen_end(&s);
    screen_finish(&s);
    _exit(ok ? 0 : 1);
}

/* Reads up to `end`, which follows the text. Linux may drop the last bytes of a terminal whose
 * last writer closes it; therefore the caller keeps it open. */
static void read_up_to(int fd, char end, struct dgl_buf *out)
{
    char c;
    ssize_t n;
    while ((n = read(fd, &c, 1)) == 1 && c != end)
        dgl_buf_putc(out, c);
    assert_int_equal(n, 1);
}

static void terminal_shows(void **state)
{
    const struct screen_row *row = *state;
    const char end = 0x1E; /* the record separator, in none of the texts */
    for (size_t chars = 1; chars < 100; chars = chars == 1 ? 3 : chars + 96) {
        struct winsize size = {.ws_row = 24, .ws_col = row->width};
        struct dgl_buf got = {0};
        int master, slave, status;
        struct termios raw; /* the bytes as written */
        assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
        assert_int_equal(tcgetattr(slave, &raw), 0);
        cfmakeraw(&raw);
        assert_int_equal(tcsetattr(slave, TCSANOW, &raw), 0);
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
            setenv("TERM", "xterm", 1);
            if (login_tty(slave) != 0)
                _exit(2);
            print_pieces(row, chars);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_int_equal(write(slave, &end, 1), 1);
        read_up_to(master, end, &got);
        close(slave);
        close(master);
        char *shown = dgl_buf_take(&got);
        assert_string_equal(shown ? shown : "", row->want);
        free(shown);
    }
}

/* The same text into a pipe. */
static void pipe_gets_bytes(void **state)
{
    const struct screen_row *row = *state;
    struct dgl_buf got = {0};
    int fd[2], status;
    assert_int_equal(pipe(fd), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(fd[1], STDOUT_FILENO) < 0)
            _exit(2);
        print_pieces(row, 2);
    }
    assert_true(pid > 0);
    close(fd[1]);
    char block[256];
    ssize_t n;
    while ((n = read(fd[0], block, sizeof(block))) > 0)
        dgl_buf_append(&got, block, (size_t)n);
    close(fd[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_string_equal(got.p ? got.p : "", row->text);
    dgl_buf_finish(&got);
}

int main(void)
{
    int failed = test_run_table("terminal", terminal_shows, rows);
    return failed + test_run_table("pipe", pipe_gets_bytes, rows);
}
