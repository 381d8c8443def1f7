/* Line plots as SVG: panels side by side, for measurements. */
#ifndef DGL_TOOLS_PLOT_H
#define DGL_TOOLS_PLOT_H

#include "core/base/str.h"

struct plot_line {
    const char *name; /* NULL: it needs none */
    const double *x, *y;
    size_t count;
};

struct plot_panel {
    const char *title, *x_label, *y_label;
    bool log_x, log_y; /* base 2; every value is above 0 */
    struct plot_line line[4];
    size_t num_lines;
};

/* Appends a document. Other y axes begin at 0; panels without points are empty. */
void plot_svg(struct dgl_buf *out, const char *title, const struct plot_panel *panels,
              size_t num_panels);

#endif
