/* The command's messages and progress bar on a pseudo terminal of a given width, with a simulated
 * clock. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/cli/console.h"

#define MS 1000000ull

static uint64_t now_ns = 1000 * MS;

uint64_t __wrap_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void)
{
    return now_ns;
}

/* Standard error is the terminal, or a pipe, between begin() and end(). */
struct screen {
    int master, slave, saved_err, saved_out;
};

static void begin(struct screen *s, bool terminal, bool both)
{
    int fd[2];
    fflush(stdout);
    fflush(stderr);
    if (terminal) {
        s->master = posix_openpt(O_RDWR | O_NOCTTY);
        assert_true(s->master >= 0 && grantpt(s->master) == 0 && unlockpt(s->master) == 0);
        s->slave = open(ptsname(s->master), O_RDWR | O_NOCTTY);
    } else {
        assert_int_equal(pipe(fd), 0);
        s->master = fd[0];
        s->slave = fd[1];
    }
    assert_true(s->slave >= 0);
    assert_int_equal(fcntl(s->master, F_SETFL, O_NONBLOCK), 0);
    s->saved_err = dup(STDERR_FILENO);
    s->saved_out = dup(STDOUT_FILENO);
    dup2(s->slave, STDERR_FILENO);
    if (both)
        dup2(s->slave, STDOUT_FILENO);
}

static void resize(const struct screen *s, unsigned short columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    assert_int_equal(ioctl(s->master, TIOCSWINSZ, &size), 0);
}

#define TEXT 512

#define MARK '\001'

/* Returns the text written since the last call. A pseudo terminal copies bytes in a kernel thread,
 * so a read directly after a write may find only a part. A mark after the text shows that all bytes
 * have arrived. */
static void take(struct screen *s, char text[TEXT])
{
    size_t n = 0;
    fflush(stdout);
    fflush(stderr);
    assert_int_equal(write(s->slave, &(char){MARK}, 1), 1);
    while (n == 0 || text[n - 1] != MARK) {
        struct pollfd master = {.fd = s->master, .events = POLLIN};
        assert_int_equal(poll(&master, 1, 10000), 1);
        ssize_t more = read(s->master, text + n, TEXT - n);
        assert_true(more > 0);
        n += (size_t)more;
    }
    text[n - 1] = '\0';
}

static void end(struct screen *s)
{
    dup2(s->saved_err, STDERR_FILENO);
    dup2(s->saved_out, STDOUT_FILENO);
    close(s->saved_err);
    close(s->saved_out);
    close(s->master);
    close(s->slave);
}

/* ---- conditions for a bar ----------------------------------------------------------------------
 */

struct bar_row {
    const char *name;
    const char *term, *no_color; /* of the environment */
    bool quiet, terminal;
    bool bar, colour;
};

static const struct bar_row bars[] = {
    {"on a terminal", "xterm", NULL, false, true, true, true},
    {"no colour with NO_COLOR", "xterm", "1", false, true, true, false},
    {"colour with an empty NO_COLOR", "xterm", "", false, true, true, true},
    {"none on a dumb terminal", "dumb", NULL, false, true, false, false},
    {"none with -q", "xterm", NULL, true, true, false, false},
    {"none into a pipe", "xterm", NULL, false, false, false, false},
};

static void bar_case(void **state)
{
    const struct bar_row *row = *state;
    const struct options opt = {.quiet = row->quiet};
    struct screen screen;
    struct console console;
    char early[TEXT], line[TEXT], cleared[TEXT];
    setenv("TERM", row->term, 1);
    unsetenv("NO_COLOR");
    if (row->no_color)
        setenv("NO_COLOR", row->no_color, 1);
    begin(&screen, row->terminal, false);
    if (row->terminal)
        resize(&screen, 60);
    console_init(&console, &opt);
    console.work = "checking";
    bool ok = console_progress(&console, "bytes", 0, 1 << 30);
    now_ns += 400 * MS;
    ok &= console_progress(&console, "bytes", 1 << 28, 1 << 30);
    take(&screen, early);
    now_ns += 600 * MS;
    ok &= console_progress(&console, "bytes", 1 << 29, 1 << 30);
    take(&screen, line);
    ok &= console_progress(&console, "bytes", 1 << 30, 1 << 30);
    take(&screen, cleared);
    end(&screen);
    assert_true(ok);
    assert_string_equal(early, "");
    assert_int_equal(strstr(line, "checking 50% of 1 GiB") != NULL, row->bar);
    assert_int_equal(strchr(line, '\033') != NULL, row->colour);
    /* As many blanks as the bar had columns, then a return. */
    size_t blanks = strspn(cleared + (*cleared == '\r'), " ");
    if (row->bar) {
        assert_true(blanks > 20 && blanks < 60);
        assert_int_equal(cleared[0], '\r');
        assert_string_equal(cleared + 1 + blanks, "\r");
    } else {
        assert_string_equal(cleared, "");
        assert_string_equal(line, "");
    }
}

/* ---- a bar and other lines ------------------------------------------------------------------- */

/* Columns of the text after the last return. */
static size_t columns_of(const char *text)
{
    const char *line = strrchr(text, '\r');
    return strlen(line ? line + 1 : text);
}

static void a_bar_follows_the_width(void **state)
{
    static const unsigned short widths[] = {80, 40, 120, 20, 0};
    const struct options opt = {0};
    struct screen screen;
    struct console console;
    char text[TEXT];
    size_t columns[5];
    (void)state;
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    begin(&screen, true, false);
    console_init(&console, &opt);
    console_progress(&console, "kernels", 0, 17);
    now_ns += 500 * MS;
    for (size_t i = 0; i < 5; i++) {
        resize(&screen, widths[i]);
        now_ns += 200 * MS;
        console_progress(&console, "kernels", i + 1, 17);
        take(&screen, text);
        columns[i] = columns_of(text);
    }
    console_progress(&console, "kernels", 17, 17);
    end(&screen);
    for (size_t i = 0; i < 5; i++) {
        size_t width = widths[i] ? widths[i] : 80; /* a terminal that does not know */
        if (columns[i] >= width || columns[i] < 19)
            fail_msg("%zu columns of %zu", columns[i], width);
    }
    assert_true(columns[0] > columns[1] && columns[2] > columns[1] && columns[3] == 19);
}

/* Messages and text are on separate lines, and the bar reappears with the next progress. */
static void lines_clear_the_bar(void **state)
{
    const struct options opt = {0};
    struct screen screen;
    struct console console;
    char bar[TEXT], error[TEXT], again[TEXT], out[TEXT], cancelled[TEXT];
    (void)state;
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    begin(&screen, true, true);
    resize(&screen, 80);
    console_init(&console, &opt);
    console_progress(&console, "tokens", 0, 10);
    now_ns += 600 * MS;
    console_progress(&console, "tokens", 1, 10);
    take(&screen, bar);
    console_error("no");
    take(&screen, error);
    now_ns += 600 * MS;
    console_progress(&console, "tokens", 2, 10);
    take(&screen, again);
    out_write("text", 4);
    take(&screen, out);
    now_ns += 600 * MS;
    console_cancelled(&opt);
    take(&screen, cancelled);
    console_progress(&console, "tokens", 10, 10);
    end(&screen);
    assert_contains(bar, "measuring 1/10 ");
    assert_true(error[0] == '\r' && error[1] == ' ');
    assert_contains(error, " \rdopplergl: error: no\r\n");
    assert_true(strncmp(again, "measuring 2/10 ", 15) == 0);
    assert_contains(out, " \rtext");
    /* The text has no end of line: the message begins one. */
    assert_string_equal(cancelled, "\r\ndopplergl: cancelled\r\n");
}

/* Also without a terminal: a user would not understand seconds of silence. */
struct cache_row {
    const char *name, *cache;
    bool quiet;
    const char *want;
};

static const struct cache_row caches[] = {
    {"kept", "/a/b", false, "compiling kernels, once: they are kept in /a/b\n"},
    {"not kept", "", false, "compiling kernels, as every time: nothing keeps them\n"},
    {"nobody knows", NULL, false, ""},
    {"quiet", "/a/b", true, ""},
};

static void cache_case(void **state)
{
    const struct cache_row *row = *state;
    const struct options opt = {.quiet = row->quiet};
    struct screen screen;
    struct console console;
    char text[TEXT];
    begin(&screen, false, false);
    console_init(&console, &opt);
    console.cache = row->cache;
    for (uint64_t i = 0; i <= 5; i++, now_ns += 300 * MS)
        console_progress(&console, "kernels", i, 5);
    for (uint64_t i = 0; i <= 3; i++, now_ns += 600 * MS) /* later progress: already reported */
        console_progress(&console, "kernels", i, 3);
    take(&screen, text);
    end(&screen);
    assert_string_equal(text, row->want);
}

/* ---- text and messages ----------------------------------------------------------------------- */

struct stream_row {
    const char *name;
    bool terminal, both;
    const char *text, *want;
};

static const struct stream_row streams[] = {
    {"terminal, open line", true, true, "abc", "abc\r\ndopplergl: error: no\r\n"},
    {"terminal, whole line", true, true, "abc\n", "abc\r\ndopplergl: error: no\r\n"},
    {"pipe, open line", false, true, "abc", "abc\ndopplergl: error: no\n"},
    {"no text", false, true, "", "dopplergl: error: no\n"},
    {"apart", false, false, "abc", "dopplergl: error: no\n"},
};

static void stream_case(void **state)
{
    const struct stream_row *row = *state;
    struct screen screen;
    char before[TEXT], text[TEXT];
    int null = row->both ? -1 : open("/dev/null", O_WRONLY);
    begin(&screen, row->terminal, row->both);
    if (null >= 0)
        dup2(null, STDOUT_FILENO);
    out_write("\n", 1);
    out_flush();
    take(&screen, before);
    bool ok = out_write(row->text, strlen(row->text)) && out_flush();
    console_error("no");
    take(&screen, text);
    end(&screen);
    if (null >= 0)
        close(null);
    assert_true(ok);
    assert_string_equal(text, row->want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_follows_the_width),
        cmocka_unit_test(lines_clear_the_bar),
    };
    int failures = test_run_table("console bars", bar_case, bars);
    failures += test_run_table("console caches", cache_case, caches);
    failures += test_run_table("console streams", stream_case, streams);
    return failures + cmocka_run_group_tests_name("console", tests, NULL, NULL);
}
