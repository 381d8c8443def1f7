/* Patterns: finds literals directly and regular expressions with tok_regex. */
#include "loader/tokenizer/tok_pattern.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

enum dgl_status tok_pattern_init(const struct dgl_log *log, const char *where, const char *regex,
                                 struct tok_pattern *out)
{
    *out = (struct tok_pattern){0};
    return tok_regex_create(log, where, dgl_str_of(regex), &out->regex);
}

enum dgl_status tok_pattern_init_literal(const struct dgl_log *log, struct dgl_str literal,
                                         struct tok_pattern *out)
{
    *out = (struct tok_pattern){.literal = dgl_new_array(char, literal.len),
                                .literal_len = literal.len};
    if (!out->literal)
        return dgl_fail_memory(log, "pattern", literal.len);
    memcpy(out->literal, literal.p, literal.len);
    return DGL_OK;
}

enum dgl_status tok_pattern_load(struct dgl_json_reader r, const struct dgl_json *json,
                                 const char *field, struct tok_pattern *out)
{
    *out = (struct tok_pattern){0};
    const struct dgl_json *pattern;
    enum dgl_status status = dgl_json_need(r, json, field, DGL_JSON_OBJECT, &pattern);
    if (status != DGL_OK)
        return status;
    const struct dgl_json *literal = dgl_json_get(pattern, "String");
    const struct dgl_json *regex = dgl_json_get(pattern, "Regex");
    if (dgl_json_is(literal, DGL_JSON_STRING) == dgl_json_is(regex, DGL_JSON_STRING))
        return dgl_json_fail(r, pattern, "wanted {\"String\": text} or {\"Regex\": text}");
    struct dgl_str text = dgl_json_str(literal ? literal : regex);
    /* An empty literal matches between all characters, as an empty expression does. */
    if (regex || text.len == 0)
        return tok_regex_create(r.log, dgl_json_name(r.doc), text, &out->regex);
    return tok_pattern_init_literal(r.log, text, out);
}

void tok_pattern_finish(struct tok_pattern *pattern)
{
    free(pattern->literal);
    tok_regex_destroy(&pattern->regex);
    *pattern = (struct tok_pattern){0};
}

enum dgl_status tok_pattern_find(struct dgl_budget *budget, const struct tok_pattern *pattern,
                                 struct tok_regex_scratch **scratch, struct dgl_str text,
                                 struct tok_spans *out)
{
    if (pattern->regex) {
        if (*scratch || (*scratch = tok_regex_scratch_create()))
            return tok_regex_find(budget, pattern->regex, *scratch, text, out);
        dgl_budget_fail_memory(budget, text.len);
        return budget->status;
    }
    size_t done_to = 0, len = pattern->literal_len;
    enum dgl_status status = DGL_OK;
    out->count = 0;
    if (!dgl_budget_steps(budget, dgl_budget_steps_of(text.len)))
        return budget->status;
    while (done_to < text.len) {
        const char *hit = memmem(text.p + done_to, text.len - done_to, pattern->literal, len);
        size_t start = hit ? (size_t)(hit - text.p) : text.len;
        if (start > done_to)
            TRY(tok_spans_add(budget, out, (struct tok_span){done_to, start, false}));
        if (hit)
            TRY(tok_spans_add(budget, out, (struct tok_span){start, start + len, true}));
        done_to = hit ? start + len : text.len;
    }
done:
    return status;
}

enum dgl_status tok_pattern_replace(struct dgl_budget *budget, const struct tok_pattern *pattern,
                                    struct dgl_str content, struct tok_regex_scratch **scratch,
                                    struct tok_spans *spans, struct dgl_str text,
                                    struct dgl_buf *out)
{
    enum dgl_status status;
    TRY(tok_pattern_find(budget, pattern, scratch, text, spans));
    for (size_t i = 0; i < spans->count; i++) {
        struct tok_span span = spans->items[i];
        struct dgl_str part = content;
        if (!span.match)
            part = (struct dgl_str){text.p + span.start, span.end - span.start};
        if (!dgl_budget_append(budget, out, part.p, part.len))
            return budget->status;
    }
done:
    return status;
}
