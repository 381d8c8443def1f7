/* Reads the fields of Metaspace. */
#include "loader/tokenizer/tok_metaspace.h"

#include <string.h>

#include "core/base/utf8.h"

static enum dgl_status load_scheme(struct dgl_json_reader r, const struct dgl_json *json,
                                   enum tok_prepend_scheme *out)
{
    static const char *const names[] = {[TOK_PREPEND_ALWAYS] = "always",
                                        [TOK_PREPEND_FIRST] = "first",
                                        [TOK_PREPEND_NEVER] = "never"};
    const struct dgl_json *value;
    bool prefix = true;
    enum dgl_status status = dgl_json_opt(r, json, "prepend_scheme", DGL_JSON_STRING, &value);
    if (status == DGL_OK)
        status = dgl_json_opt_bool(r, json, "add_prefix_space", &prefix);
    if (status != DGL_OK)
        return status;
    struct dgl_str name = value ? dgl_json_str(value) : dgl_str_of(prefix ? "always" : "never");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!dgl_str_eq(name, names[i]))
            continue;
        *out = (enum tok_prepend_scheme)i;
        if (!prefix && *out != TOK_PREPEND_NEVER)
            return dgl_json_fail(r, value, "\"%s\" contradicts add_prefix_space false", names[i]);
        return DGL_OK;
    }
    return dgl_json_fail(r, value, "\"%s\", wanted always, first or never",
                         DGL_PRINTABLE_STR(name));
}

enum dgl_status tok_metaspace_load(struct dgl_json_reader r, const struct dgl_json *json,
                                   struct tok_metaspace *out)
{
    *out = (struct tok_metaspace){.split = true};
    const struct dgl_json *value;
    enum dgl_status status = dgl_json_need(r, json, "replacement", DGL_JSON_STRING, &value);
    if (status != DGL_OK)
        return status;
    struct dgl_str text = dgl_json_str(value);
    uint32_t cp;
    if (text.len == 0 || dgl_utf8_decode(text.p, text.len, &cp) != text.len)
        return dgl_json_fail(r, value, "wanted one character");
    memcpy(out->mark, text.p, text.len);
    out->mark_len = text.len;
    status = load_scheme(r, json, &out->scheme);
    return status == DGL_OK ? dgl_json_opt_bool(r, json, "split", &out->split) : status;
}
