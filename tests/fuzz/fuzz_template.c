/* Parses and renders chat templates. Input: the template, a NUL byte, and the variables as a JSON
 * object. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/jinja/jinja.h"

static const struct tm now = {.tm_year = 125, .tm_mon = 5, .tm_mday = 15};

/* bos_token and eos_token are marked as text of the model. */
static struct jinja_variable *list_variables(const struct dgl_json *object, size_t *count)
{
    struct jinja_variable *list = dgl_new_array(struct jinja_variable, dgl_json_count(object));
    FUZZ_CHECK(list);
    for (const struct dgl_json *v = dgl_json_first(object); v; v = dgl_json_next(v)) {
        struct dgl_str key = dgl_json_key(v);
        bool trusted = dgl_str_eq(key, "bos_token") || dgl_str_eq(key, "eos_token");
        list[(*count)++] = (struct jinja_variable){key, v, trusted};
    }
    return list;
}

static void check_taint(const struct dgl_buf *text, const struct dgl_buf *taint)
{
    FUZZ_CHECK(text->len == taint->len);
    for (size_t i = 0; i < taint->len; i++)
        FUZZ_CHECK(taint->p[i] == JINJA_TAINT_TEMPLATE || taint->p[i] == JINJA_TAINT_DATA);
}

static void render(struct fuzz_log *log, const struct jinja_template *tmpl,
                   const struct dgl_json_doc *doc)
{
    const struct dgl_json *object = doc ? dgl_json_root(doc) : NULL;
    struct dgl_buf text = {0}, taint = {0};
    size_t count = 0;
    struct jinja_variable *variables = list_variables(object, &count);
    enum dgl_status status = jinja_render(
        &log->log, tmpl,
        &(struct jinja_params){
            .variables = variables,
            .num_variables = count,
            .now = &now,
            .limits = {.steps = 20000, .output_bytes = 1 << 16, .memory_bytes = 1 << 22}},
        &text, &taint);
    fuzz_check_status(log, status);
    FUZZ_CHECK(status == DGL_OK || !text.len);
    check_taint(&text, &taint);
    free(variables);
    dgl_buf_finish(&text);
    dgl_buf_finish(&taint);
}

void fuzz_one(struct dgl_str input)
{
    struct jinja_template *tmpl = NULL;
    struct dgl_json_doc *doc = NULL;
    struct fuzz_log log;
    struct dgl_str text = fuzz_section(&input);
    fuzz_log_init(&log);
    enum dgl_status status = jinja_parse(&log.log, "T", text.p, text.len, &tmpl);
    fuzz_check_status(&log, status);
    if (status == DGL_OK && input.len) {
        status = dgl_json_parse(&log.log, "V", input.p, input.len, &doc);
        fuzz_check_status(&log, status);
    }
    if (status == DGL_OK)
        render(&log, tmpl, doc);
    jinja_destroy(&tmpl);
    dgl_json_destroy(&doc);
}
