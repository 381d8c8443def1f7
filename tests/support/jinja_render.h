/* Rendering templates in tests, with the clock that the recorded renders had: 2025-06-15. */
#ifndef DGL_TESTS_JINJA_RENDER_H
#define DGL_TESTS_JINJA_RENDER_H

#include "core/base/json.h"
#include "loader/jinja/jinja.h"
#include "tests/support/test.h"

struct jinja_rendered {
    enum dgl_status status;
    struct dgl_buf text, taint;
    struct test_log log;
};

/* Parses and renders. `objects` are the variables of several objects; later ones override earlier
 * ones. The first `trusted` of them are the model's own. `limits` may be NULL. "T" is the
 * template's name in messages. */
void jinja_render_objects(struct dgl_str tmpl, const struct dgl_json *const *objects, size_t count,
                          size_t trusted, const struct jinja_limits *limits,
                          struct jinja_rendered *out);
/* One JSON text of data variables, which may be NULL. */
void jinja_render_json(const char *tmpl, const char *variables, const struct jinja_limits *limits,
                       struct jinja_rendered *out);
void jinja_rendered_finish(struct jinja_rendered *rendered);

#endif
