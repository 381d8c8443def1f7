/* Small templates compared with the output of jinja2, recorded in tests/data/templates/cases.json
 * by tests/data/make/make_jinja_cases.py. Each template is a test case. */
#include "tests/support/jinja_render.h"

#include <stdlib.h>

struct row {
    const char *name;
    const struct dgl_json *recorded;
};

static void compare(const struct row *row, const struct jinja_rendered *got)
{
    const struct dgl_json *error = dgl_json_get(row->recorded, "error");
    struct dgl_str want = dgl_json_str(dgl_json_get(row->recorded, "rendered"));
    const char *tmpl = dgl_json_str(dgl_json_get(row->recorded, "template")).p;
    if (error && got->status == DGL_OK)
        fail_msg("%s\nwanted the error \"%s\"\ngot \"%s\"", tmpl, dgl_json_str(error).p,
                 got->text.p ? got->text.p : "");
    if (error && got->log.errors != 1)
        fail_msg("%s: %d lines in the log: %s", tmpl, got->log.errors, got->log.text);
    if (!error && got->status != DGL_OK)
        fail_msg("%s\nwanted \"%s\"\ngot the error \"%s\"", tmpl, want.p, got->log.text);
    if (!error &&
        (got->text.len != want.len || (want.len && memcmp(got->text.p, want.p, want.len) != 0)))
        fail_msg("%s\nwanted \"%s\"\ngot    \"%s\"", tmpl, want.p, got->text.p ? got->text.p : "");
}

/* Render errors have the messages of Python and jinja2. Parse errors have messages of their own. */
static void compare_words(const struct row *row, const struct jinja_rendered *got)
{
    const char *kind = dgl_json_str(dgl_json_get(row->recorded, "kind")).p;
    struct dgl_str words = dgl_json_str(dgl_json_get(row->recorded, "error"));
    if (strstr(kind, "Syntax") || strstr(kind, "Assertion")) {
        assert_int_equal(got->status,
                         strstr(kind, "Assertion") ? DGL_ERR_INVALID_ARG : DGL_ERR_FORMAT);
        return;
    }
    char wanted[512];
    snprintf(wanted, sizeof(wanted), "T:1: %.*s\n", (int)words.len, words.p);
    assert_string_equal(got->log.text, wanted);
    assert_int_equal(got->status, DGL_ERR_INVALID_ARG);
}

static void renders_as_jinja2(void **state)
{
    const struct row *row = *state;
    struct jinja_rendered got;
    const struct dgl_json *const objects[] = {dgl_json_get(row->recorded, "variables")};
    struct dgl_str tmpl = dgl_json_str(dgl_json_get(row->recorded, "template"));
    jinja_render_objects(tmpl, objects, 1, 0, NULL, &got);
    compare(row, &got);
    if (dgl_json_get(row->recorded, "error"))
        compare_words(row, &got);
    jinja_rendered_finish(&got);
}

int main(void)
{
    struct dgl_json_doc *doc = NULL;
    if (dgl_json_load(NULL, "tests/data/templates/cases.json", 1 << 24, &doc) != DGL_OK) {
        print_error("tests/data/templates/cases.json cannot be read\n");
        return 1;
    }
    const struct dgl_json *all = dgl_json_root(doc);
    size_t count = dgl_json_count(all), i = 0;
    struct row *rows = calloc(count, sizeof(*rows));
    if (!rows)
        return 1;
    for (const struct dgl_json *c = dgl_json_first(all); c; c = dgl_json_next(c), i++)
        rows[i] = (struct row){dgl_json_str(dgl_json_get(c, "name")).p, c};
    int failed = test_run_rows("jinja2", renders_as_jinja2, rows, count, sizeof(*rows));
    free(rows);
    dgl_json_destroy(&doc);
    return failed;
}
