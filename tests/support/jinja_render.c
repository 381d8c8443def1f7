/* Rendering templates in tests. */
#include "tests/support/jinja_render.h"

#include <stdlib.h>

static size_t list_variables(const struct dgl_json *const *objects, size_t count, size_t trusted,
                             struct jinja_variable *out)
{
    size_t listed = 0;
    for (size_t i = 0; i < count; i++) {
        for (const struct dgl_json *v = dgl_json_first(objects[i]); v; v = dgl_json_next(v)) {
            if (out)
                out[listed] = (struct jinja_variable){dgl_json_key(v), v, i < trusted};
            listed++;
        }
    }
    return listed;
}

void jinja_render_objects(struct dgl_str tmpl, const struct dgl_json *const *objects, size_t count,
                          size_t trusted, const struct jinja_limits *limits,
                          struct jinja_rendered *out)
{
    static const struct tm now = {.tm_year = 125, .tm_mon = 5, .tm_mday = 15};
    size_t listed = list_variables(objects, count, trusted, NULL);
    struct jinja_variable *variables = calloc(listed + 1, sizeof(*variables));
    struct jinja_template *parsed = NULL;
    *out = (struct jinja_rendered){0};
    test_log_init(&out->log, DGL_LOG_WARN);
    assert_non_null(variables);
    list_variables(objects, count, trusted, variables);
    struct jinja_params params = {.variables = variables, .num_variables = listed, .now = &now};
    if (limits)
        params.limits = *limits;
    out->status = jinja_parse(&out->log.log, "T", tmpl.p, tmpl.len, &parsed);
    if (out->status == DGL_OK)
        out->status = jinja_render(&out->log.log, parsed, &params, &out->text, &out->taint);
    assert_int_equal(out->taint.len, out->text.len);
    jinja_destroy(&parsed);
    free(variables);
}

void jinja_render_json(const char *tmpl, const char *variables, const struct jinja_limits *limits,
                       struct jinja_rendered *out)
{
    struct dgl_json_doc *doc = NULL;
    const char *json = variables ? variables : "{}";
    if (dgl_json_parse(NULL, "variables", json, strlen(json), &doc) != DGL_OK)
        fail_msg("not JSON: %s", json);
    const struct dgl_json *root = dgl_json_root(doc);
    jinja_render_objects(dgl_str_of(tmpl), &root, 1, 0, limits, out);
    dgl_json_destroy(&doc);
}

void jinja_rendered_finish(struct jinja_rendered *rendered)
{
    dgl_buf_finish(&rendered->text);
    dgl_buf_finish(&rendered->taint);
}
