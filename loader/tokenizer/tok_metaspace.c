/* Reads the fields of Metaspace. */
#include "loader/tokenizer/tok_metaspace.h"

#include <string.h>

#include "core/base/utf8.h"

enum dgl_status tok_metaspace_load(struct dgl_json_reader r, const struct dgl_json *json,
                                   struct tok_metaspace *out)
{
    static const char *const names[] = {[TOK_PREPEND_ALWAYS] = "always",
                                        [TOK_PREPEND_FIRST] = "first",
                                        [TOK_PREPEND_NEVER] = "never"};
    const struct dgl_json *value;
    bool prefix = true;
    uint32_t cp;
    size_t i = 0;
    enum dgl_status status;
    *out = (struct tok_metaspace){.split = true};
    TRY(dgl_json_need(r, json, "replacement", DGL_JSON_STRING, &value));
    struct dgl_str text = dgl_json_str(value);
    if (text.len == 0 || dgl_utf8_decode(text.p, text.len, &cp) != text.len)
        return dgl_json_fail(r, value, "wanted one character");
    memcpy(out->mark, text.p, text.len);
    out->mark_len = text.len;

    TRY(dgl_json_opt(r, json, "prepend_scheme", DGL_JSON_STRING, &value));
    TRY(dgl_json_opt_bool(r, json, "add_prefix_space", &prefix));
    text = value ? dgl_json_str(value) : dgl_str_of(prefix ? "always" : "never");
    while (i < sizeof(names) / sizeof(names[0]) && !dgl_str_eq(text, names[i]))
        i++;
    if (i == sizeof(names) / sizeof(names[0]))
        return dgl_json_fail(r, value, "\"%s\", wanted always, first or never",
                             DGL_PRINTABLE_STR(text));
    out->scheme = (enum tok_prepend_scheme)i;
    if (!prefix && out->scheme != TOK_PREPEND_NEVER)
        return dgl_json_fail(r, value, "\"%s\" contradicts add_prefix_space false", names[i]);
    TRY(dgl_json_opt_bool(r, json, "split", &out->split));
done:
    return status;
}
