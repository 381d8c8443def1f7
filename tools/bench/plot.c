/* Axes, ticks and lines. Every number comes from the caller; values are neither smoothed nor left
 * out. */
#include "tools/bench/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/status.h"

enum { WIDTH = 420, HEIGHT = 300, LEFT = 64, RIGHT = 16, TOP = 56, BOTTOM = 48, TICKS = 5 };

static const char *const colours[] = {"#1f6fb4", "#d1495b", "#2e8b57", "#8a5a00"};

static void put_text(struct dgl_buf *out, double x, double y, const char *anchor, int size,
                     const char *text)
{
    dgl_buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y,
                   anchor, size);
    for (const char *p = text; *p; p++) {
        if (*p == '<' || *p == '&' || *p == '>')
            dgl_buf_printf(out, "&#%d;", *p);
        else if ((unsigned char)*p >= ' ')
            dgl_buf_putc(out, *p);
    }
    dgl_buf_puts(out, "</text>\n");
}

/* 1, 2 or 5 times a power of ten that cuts `span` into at most TICKS parts. */
static double tick_step(double span)
{
    double step = pow(10, floor(log10(span / TICKS)));
    static const double factors[] = {1, 2, 5};
    for (size_t i = 0; i < 3; i++)
        if (span / (step * factors[i]) <= TICKS)
            return step * factors[i];
    return step * 10;
}

static double x_value(const struct plot_panel *p, double x)
{
    return p->log_x ? log2(x) : x;
}

static double y_value(const struct plot_panel *p, double y)
{
    return p->log_y ? log2(y) : y;
}

struct frame {
    double x_min, x_max, y_min, y_max; /* of values, logarithms taken */
    double left;                       /* of the panel */
};

static double x_at(const struct frame *f, double value)
{
    return f->left + LEFT + (value - f->x_min) / (f->x_max - f->x_min) * (WIDTH - LEFT - RIGHT);
}

static double y_at(const struct frame *f, double value)
{
    return HEIGHT - BOTTOM - (value - f->y_min) / (f->y_max - f->y_min) * (HEIGHT - TOP - BOTTOM);
}

static void put_axes(struct dgl_buf *out, const struct plot_panel *p, const struct frame *f)
{
    char text[32];
    double step = p->log_y ? ceil((f->y_max - f->y_min) / 8) : tick_step(f->y_max);
    if (p->whole_y)
        step = fmax(step, 1);
    for (double y = ceil(f->y_min / step) * step; y <= f->y_max + 1e-6 * step; y += step) {
        dgl_buf_printf(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>\n", f->left + LEFT,
                       y_at(f, y), f->left + WIDTH - RIGHT);
        snprintf(text, sizeof(text), "%.4g", p->log_y ? exp2(y) : y);
        put_text(out, f->left + LEFT - 6, y_at(f, y) + 4, "end", 11, text);
    }
    step = p->log_x ? ceil((f->x_max - f->x_min) / 8) : tick_step(f->x_max - f->x_min);
    for (double x = ceil(f->x_min / step) * step; x <= f->x_max * 1.0001; x += step) {
        dgl_buf_printf(out, "<path d=\"M%.1f %.1fv5\" stroke=\"#444\"/>\n", x_at(f, x),
                       y_at(f, f->y_min));
        snprintf(text, sizeof(text), "%.6g", p->log_x ? exp2(x) : x);
        put_text(out, x_at(f, x), y_at(f, f->y_min) + 18, "middle", 11, text);
    }
    dgl_buf_printf(out, "<path d=\"M%.1f %dV%.1fH%.1f\" stroke=\"#444\" fill=\"none\"/>\n",
                   f->left + LEFT, TOP, y_at(f, f->y_min), f->left + WIDTH - RIGHT);
    put_text(out, f->left + LEFT, TOP - 10, "start", 13, p->title);
    put_text(out, f->left + (WIDTH + LEFT - RIGHT) / 2.0, HEIGHT - 8, "middle", 12, p->x_label);
    dgl_buf_printf(out, "<g transform=\"translate(%.1f %d) rotate(-90)\">", f->left + 14,
                   (HEIGHT + TOP - BOTTOM) / 2);
    put_text(out, 0, 0, "middle", 12, p->y_label);
    dgl_buf_puts(out, "</g>\n");
}

static void put_panel(struct dgl_buf *out, const struct plot_panel *p, double left)
{
    struct frame f = {.x_max = -INFINITY, .y_max = -INFINITY, .left = left};
    size_t num_names = 0;
    f.x_min = p->log_x ? INFINITY : 0;
    f.y_min = p->log_y ? INFINITY : 0;
    for (size_t i = 0; i < p->num_lines; i++) {
        for (size_t j = 0; j < p->line[i].count; j++) {
            f.x_min = fmin(f.x_min, x_value(p, p->line[i].x[j]));
            f.x_max = fmax(f.x_max, x_value(p, p->line[i].x[j]));
            f.y_min = fmin(f.y_min, y_value(p, p->line[i].y[j]));
            f.y_max = fmax(f.y_max, y_value(p, p->line[i].y[j]));
        }
    }
    if (!(f.x_min <= f.x_max) || !(p->log_y ? f.y_min <= f.y_max : f.y_max > 0))
        return;
    if (f.x_min == f.x_max)
        f.x_max = f.x_min + 1;
    f.y_max += 0.05 * (f.y_max - f.y_min) + (p->log_y ? 0.1 : 0);
    put_axes(out, p, &f);
    for (size_t i = 0; i < p->num_lines; i++) {
        const struct plot_line *line = &p->line[i];
        const char *colour = colours[i % 4];
        if (line->count == 0)
            continue;
        dgl_buf_puts(out, "<polyline points=\"");
        for (size_t j = 0; j < line->count; j++)
            dgl_buf_printf(out, "%.1f,%.1f ", x_at(&f, x_value(p, line->x[j])),
                           y_at(&f, y_value(p, line->y[j])));
        dgl_buf_printf(out, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", colour);
        for (size_t j = 0; !line->bare && line->count <= 64 && j < line->count; j++)
            dgl_buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                           x_at(&f, x_value(p, line->x[j])), y_at(&f, y_value(p, line->y[j])),
                           colour);
        if (line->name) { /* above the panel, where no line is */
            double y = TOP - 10 - 15.0 * (double)num_names++;
            dgl_buf_printf(out, "<path d=\"M%.1f %.1fh18\" stroke=\"%s\" stroke-width=\"2\"/>\n",
                           left + WIDTH - RIGHT - 22, y - 4, colour);
            put_text(out, left + WIDTH - RIGHT - 28, y, "end", 11, line->name);
        }
    }
}

void plot_svg(struct dgl_buf *out, const char *title, const struct plot_panel *panels,
              size_t num_panels)
{
    dgl_buf_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %zu %d\" "
                   "font-family=\"sans-serif\" fill=\"#222\">\n"
                   "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                   num_panels * WIDTH, HEIGHT);
    /* A letter is about 0.6 of its size wide. */
    const double room = ((double)num_panels * WIDTH - 24) / (0.6 * (double)(strlen(title) + 1));
    put_text(out, 12, 20, "start", (int)fmin(14, fmax(6, room)), title);
    for (size_t i = 0; i < num_panels; i++)
        put_panel(out, &panels[i], (double)(i * WIDTH));
    dgl_buf_puts(out, "</svg>\n");
}

enum dgl_status plot_write(const struct dgl_log *log, struct dgl_atomic_file **file,
                           const char *title, const struct plot_panel *panels, size_t num_panels)
{
    struct dgl_buf svg = {0};
    enum dgl_status status = DGL_OK;
    plot_svg(&svg, title, panels, num_panels);
    if (svg.failed)
        TRY(dgl_fail_memory(log, "figure", svg.len));
    TRY(dgl_atomic_write(*file, svg.p, svg.len));
    TRY(dgl_atomic_commit(file));
done:
    dgl_atomic_abort(file);
    dgl_buf_finish(&svg);
    return status;
}
