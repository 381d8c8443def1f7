/* Reads nested steps and sequences of steps. */
#include "loader/tokenizer/tok_steps.h"

#include <string.h>

#include "core/base/mem.h"

#define MAX_DEPTH 16 /* of nested sequences */

struct walk {
    struct dgl_json_reader r;
    const char *list;
    tok_step_fn add;
    void *ctx;
    size_t count; /* number of steps so far */
};

static enum dgl_status load_any(struct walk *w, const struct dgl_json *json, int depth)
{
    const struct dgl_json *value;
    enum dgl_status status;
    TRY(dgl_json_need(w->r, json, "type", DGL_JSON_STRING, &value));
    if (!dgl_str_eq(dgl_json_str(value), "Sequence") && w->count++ == TOK_MAX_STEPS)
        return dgl_json_fail(w->r, json, "%s: more than %d steps", w->list, TOK_MAX_STEPS);
    if (!dgl_str_eq(dgl_json_str(value), "Sequence"))
        return w->add(w->r, json, dgl_json_str(value), w->ctx);
    if (depth == MAX_DEPTH)
        return dgl_json_fail(w->r, json, "sequences nested more than %d deep", MAX_DEPTH);
    TRY(dgl_json_need(w->r, json, w->list, DGL_JSON_ARRAY, &value));
    for (const struct dgl_json *v = dgl_json_first(value); v; v = dgl_json_next(v))
        TRY(load_any(w, v, depth + 1));
done:
    return status;
}

enum dgl_status tok_steps_load(struct dgl_json_reader r, const struct dgl_json *json,
                               const char *list, tok_step_fn add, void *ctx)
{
    struct walk w = {r, list, add, ctx, 0};
    return dgl_json_type(json) == DGL_JSON_NULL ? DGL_OK : load_any(&w, json, 0);
}

enum dgl_status tok_step_text(struct dgl_json_reader r, const struct dgl_json *json,
                              const char *field, char **text, size_t *len)
{
    const struct dgl_json *value;
    enum dgl_status status = dgl_json_need(r, json, field, DGL_JSON_STRING, &value);
    if (status != DGL_OK)
        return status;
    struct dgl_str found = dgl_json_str(value);
    *text = dgl_new_array(char, found.len + 1);
    if (!*text)
        return dgl_fail_memory(r.log, field, found.len);
    memcpy(*text, found.p, found.len);
    *len = found.len;
    return DGL_OK;
}
