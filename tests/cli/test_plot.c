/* Figures of benchmarks: axes from 0, every point inside its panel, names above it, titles that
 * fit. */
#include "tools/bench/plot.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tests/support/test.h"

enum { WIDTH = 420, HEIGHT = 300 };

struct figure {
    const char *name;
    struct plot_panel panel;
    const char *has, *has_not; /* of the document; NULL = anything */
    size_t circles;
};
#define LINE(...)                                                                                  \
    {                                                                                              \
        .x = (const double[]){__VA_ARGS__}, .y = (const double[]){__VA_ARGS__},                    \
        .count = sizeof((double[]){__VA_ARGS__}) / sizeof(double)                                  \
    }
static const struct figure figures[] = {
    {"an axis begins at 0",
     {.title = "t", .x_label = "x", .y_label = "y", .line = {LINE(40, 50, 60)}, .num_lines = 1},
     "text-anchor=\"middle\" font-size=\"11\">0</text>",
     NULL,
     3},
    {"a logarithm does not",
     {.title = "t",
      .x_label = "x",
      .y_label = "y",
      .log_x = true,
      .log_y = true,
      .line = {LINE(4, 8, 64)},
      .num_lines = 1},
     ">8</text>",
     ">0</text>",
     3},
    {"points are marked",
     {.title = "t", .x_label = "x", .y_label = "y", .line = {LINE(1, 2)}, .num_lines = 1},
     "<circle",
     NULL,
     2},
    {"bare lines have none",
     {.title = "t",
      .x_label = "x",
      .y_label = "y",
      .line =
          {{.x = (const double[]){0, 3}, .y = (const double[]){1, 2}, .count = 2, .bare = true}},
      .num_lines = 1},
     "<polyline",
     "<circle",
     0},
    {"halves of two",
     {.title = "t", .x_label = "x", .y_label = "y", .line = {LINE(1, 2)}, .num_lines = 1},
     ">1.5</text>",
     NULL,
     2},
    {"no halves of requests",
     {.title = "t",
      .x_label = "x",
      .y_label = "y",
      .whole_y = true,
      .line = {{.x = (const double[]){10, 20}, .y = (const double[]){1, 2}, .count = 2}},
      .num_lines = 1},
     ">2</text>",
     ">1.5</text>",
     2},
    {"markup stays text",
     {.title = "<b>&", .x_label = "x", .y_label = "y", .line = {LINE(1, 2)}, .num_lines = 1},
     "&#60;b&#62;&#38;",
     "<b>",
     2},
    {"no points", {.title = "t", .line = {{.name = "n"}}, .num_lines = 1}, "</svg>", "<path", 0},
};

/* Every number pair of a list of points is inside the axes. */
static void assert_inside(const char *svg)
{
    for (const char *at = svg; (at = strstr(at, "points=\""));) {
        char *end;
        for (at += 8; *at != '"'; at = end + 1) {
            const double x = strtod(at, &end), y = strtod(end + 1, &end);
            if (x < 64 || x > WIDTH - 16 || y < 56 || y > HEIGHT - 48)
                fail_msg("a point at %g, %g is outside of the panel", x, y);
        }
    }
}

static void test_figure(void **state)
{
    const struct figure *row = *state;
    struct dgl_buf svg = {0};
    plot_svg(&svg, "title", &row->panel, 1);
    assert_false(svg.failed);
    assert_contains(svg.p, "<svg ");
    if (row->has)
        assert_contains(svg.p, row->has);
    if (row->has_not && strstr(svg.p, row->has_not))
        fail_msg("there is %s: %s", row->has_not, svg.p);
    assert_inside(svg.p);
    assert_int_equal(test_occurrences(svg.p, "<circle"), row->circles);
    dgl_buf_finish(&svg);
}

/* Names are above their panel, one above the other. */
static void names_cover_no_line(void **state)
{
    static const double x[] = {1, 2, 3};
    const struct plot_panel panel = {.title = "t",
                                     .x_label = "x",
                                     .y_label = "y",
                                     .line = {{"first", x, x, 3, false}, {"second", x, x, 3, true}},
                                     .num_lines = 2};
    struct dgl_buf svg = {0};
    (void)state;
    plot_svg(&svg, "title", &panel, 1);
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(svg.p, i ? ">second<" : ">first<");
        assert_non_null(at);
        while (strncmp(at, "y=\"", 3) != 0)
            at--;
        const double y = strtod(at + 3, NULL);
        if (y != 46 - 15.0 * i)
            fail_msg("name %d at %g, wanted %g", i, y, 46 - 15.0 * i);
    }
    dgl_buf_finish(&svg);
}

/* A long title is smaller, so that it ends in the picture. */
static void titles_fit(void **state)
{
    static const double x[] = {1, 2, 3};
    const struct plot_panel panel = {
        .title = "t", .x_label = "x", .y_label = "y", .line = {{NULL, x, x, 3, false}}, 1};
    (void)state;
    for (size_t len = 8; len <= 64; len *= 2) {
        char title[80] = "";
        struct dgl_buf svg = {0};
        memset(title, 'a', len);
        title[len] = '\0';
        plot_svg(&svg, title, &panel, 1);
        const char *at = strstr(svg.p, "font-size=\"");
        assert_non_null(at);
        const long size = strtol(at + 11, NULL, 10);
        if (size < 6 || size > 14 || 12 + 0.6 * (double)size * (double)len > WIDTH)
            fail_msg("%zu letters of size %ld", len, size);
        dgl_buf_finish(&svg);
    }
}

static void a_figure_is_written_whole(void **state)
{
    struct dgl_buf svg = {0};
    struct dgl_atomic_file *file = NULL;
    (void)state;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "a.svg"), *text = NULL;
    size_t len;
    assert_int_equal(dgl_atomic_create(NULL, checked(path), &file), DGL_OK);
    assert_int_equal(plot_write(NULL, &file, "t", &figures[0].panel, 1), DGL_OK);
    assert_null(file);
    assert_int_equal(dgl_file_slurp(NULL, path, 1 << 20, &text, &len), DGL_OK);
    plot_svg(&svg, "t", &figures[0].panel, 1);
    assert_int_equal(len, svg.len);
    assert_memory_equal(text, svg.p, len);
    dgl_buf_finish(&svg);
    free(text);
    free(path);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_cover_no_line),
                                       cmocka_unit_test(titles_fit),
                                       cmocka_unit_test(a_figure_is_written_whole)};
    int failures = test_run_table("plot: figure", test_figure, figures);
    return failures + cmocka_run_group_tests_name("plot", tests, NULL, NULL);
}
