/* Line plots as SVG: panels side by side, for measurements. */
#ifndef DGL_TOOLS_PLOT_H
#define DGL_TOOLS_PLOT_H

#include "core/base/str.h"
#include "core/dopplergl.h"

struct dgl_atomic_file;

struct plot_line {
    const char *name; /* NULL: no label; at most two lines of a panel have one */
    const double *x, *y;
    size_t count;
    bool bare; /* its points are not marked */
};

struct plot_panel {
    const char *title, *x_label, *y_label;
    bool log_x, log_y; /* base 2; every value is above 0 */
    bool whole_y;      /* whole numbers: no ticks between them */
    struct plot_line line[4];
    size_t num_lines;
};

/* Appends a document. Values must be at least 0. Axes begin at 0, except for logarithmic ones. A
 * panel without points is empty. */
void plot_svg(struct dgl_buf *out, const char *title, const struct plot_panel *panels,
              size_t num_panels);
/* Writes a plot, all or nothing, to a file that was created before measuring. Consumes the file. */
enum dgl_status plot_write(const struct dgl_log *log, struct dgl_atomic_file **file,
                           const char *title, const struct plot_panel *panels, size_t num_panels);

#endif
