/* Progress bar: decides when to draw and which parts fit. */
#include "tools/cli/bar.h"

#include <stdio.h>
#include <string.h>

#define MAX_CELLS 40
#define MIN_CELLS 10

/* Returns true if a report belongs to other work than the current bar. */
static bool is_new(const struct bar *bar, const char *what, uint64_t done, uint64_t total)
{
    return strncmp(bar->what, what, sizeof(bar->what) - 1) != 0 || done < bar->done ||
           total != bar->total;
}

void bar_expect(struct bar *bar, const char *what, uint64_t done, uint64_t total, uint64_t start_ns)
{
    if (total > 0 && done < total && is_new(bar, what, done, total))
        bar_update(bar, what, done, total, start_ns);
}

bool bar_update(struct bar *bar, const char *what, uint64_t done, uint64_t total, uint64_t now_ns)
{
    if (total == 0 || done >= total) {
        *bar = (struct bar){0};
        return false;
    }
    if (is_new(bar, what, done, total)) {
        *bar = (struct bar){.start_ns = now_ns, .first = done, .total = total};
        snprintf(bar->what, sizeof(bar->what), "%s", what);
    }
    bar->done = done;
    if (now_ns - bar->start_ns < BAR_FIRST_NS ||
        (bar->draws && now_ns - bar->drawn_ns < BAR_NEXT_NS))
        return false;
    bar->drawn_ns = now_ns;
    bar->draws++;
    return true;
}

/* "45% of 2.4 GiB", "7/17" */
static void put_position(struct dgl_buf *out, const struct bar *bar, bool bytes)
{
    if (bytes) {
        dgl_buf_printf(out, "%.0f%% of ", (double)bar->done / (double)bar->total * 100);
        dgl_buf_bytes(out, bar->total);
    } else {
        dgl_buf_printf(out, "%llu/%llu", (unsigned long long)bar->done,
                       (unsigned long long)bar->total);
    }
}

static void put_cells(struct dgl_buf *out, const struct bar *bar, size_t cells, bool colour)
{
    size_t full = (size_t)((double)bar->done / (double)bar->total * (double)cells);
    dgl_buf_puts(out, colour ? "\033[36m" : "");
    for (size_t i = 0; i < cells; i++)
        dgl_buf_putc(out, i < full ? '#' : '.');
    dgl_buf_puts(out, colour ? "\033[0m" : "");
}

size_t bar_draw(const struct bar *bar, const struct bar_look *look, uint64_t now_ns,
                struct dgl_buf *out)
{
    enum { HEAD, RATE, LEFT, PARTS };
    struct dgl_buf part[PARTS] = {{0}};
    static const struct {
        const char *what, *work;
    } works[] = {
        {"bytes", "reading"},           {"kernels", "compiling kernels"},
        {"texts", "scoring texts"},     {"windows", "scoring windows"},
        {"tokens", "measuring"},        {"layers", "checking layers"},
        {"points", "measuring points"}, {"types", "measuring types"},
    };
    bool bytes = strcmp(bar->what, "bytes") == 0, failed = false;
    const char *work = bytes ? look->work : NULL;
    size_t width = look->columns > 1 ? look->columns - 1 : 1, taken = 0, parts = 0, cells = 0;
    double seconds = (double)(now_ns - bar->start_ns) * 1e-9;
    double per_second = seconds > 0 ? (double)(bar->done - bar->first) / seconds : 0;
    for (size_t i = 0; !work && i < sizeof(works) / sizeof(works[0]); i++)
        if (strcmp(works[i].what, bar->what) == 0)
            work = works[i].work;
    dgl_buf_printf(&part[HEAD], "%s ", work ? work : bar->what);
    put_position(&part[HEAD], bar, bytes);
    if (per_second > 0) {
        const double left = (double)(bar->total - bar->done) / per_second;
        dgl_buf_putc(&part[RATE], ' ');
        if (bytes)
            dgl_buf_bytes(&part[RATE], (uint64_t)per_second);
        else
            dgl_buf_printf(&part[RATE], "%.1f", per_second);
        dgl_buf_puts(&part[RATE], "/s");
        dgl_buf_printf(&part[LEFT], ", %.0f %s left",
                       left < 100        ? left
                       : left < 100 * 60 ? left / 60
                                         : left / 3600,
                       left < 100        ? "s"
                       : left < 100 * 60 ? "min"
                                         : "h");
    }
    for (size_t i = 0; i < PARTS; i++)
        failed |= part[i].failed;
    /* Parts from the front as long as they fit with a few cells, which then take the rest. */
    while (!failed && parts < PARTS &&
           (parts == HEAD || taken + part[parts].len + 1 + MIN_CELLS <= width))
        taken += part[parts++].len;
    if (!failed && taken < width && width - taken > MIN_CELLS)
        cells = width - taken - 1 < MAX_CELLS ? width - taken - 1 : MAX_CELLS;
    for (size_t i = 0; !failed && i < parts; i++) {
        size_t len = i == HEAD && part[i].len > width ? width : part[i].len;
        dgl_buf_append(out, part[i].p, len);
        if (i == HEAD && cells) {
            dgl_buf_putc(out, ' ');
            put_cells(out, bar, cells, look->colour);
        }
    }
    for (size_t i = 0; i < PARTS; i++)
        dgl_buf_finish(&part[i]);
    taken = taken < width ? taken : width;
    return failed ? 0 : taken + (cells ? cells + 1 : 0);
}
