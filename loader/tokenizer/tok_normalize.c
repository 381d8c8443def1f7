/* Normalizers: each step reads scratch->normalized and writes scratch->rewrite. Then both are
 * swapped. */
#include "loader/tokenizer/tok_normalize.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/text/tok_normal_form.h"
#include "loader/text/tok_unicode.h"
#include "loader/tokenizer/tok_pattern.h"
#include "loader/tokenizer/tok_steps.h"

enum step_kind { STEP_PREPEND, STEP_REPLACE, STEP_NORMAL_FORM, STEP_STRIP, STEP_LOWERCASE };

struct tok_normalize_step {
    enum step_kind kind;
    enum tok_normal_form form;
    struct tok_pattern pattern;
    char *content; /* text to prepend or the replacement */
    size_t content_len;
    bool left, right; /* sides to strip */
};

/* ---- loading --------------------------------------------------------------------------------- */

static enum dgl_status load_step(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct dgl_str type, void *ctx)
{
    static const struct {
        const char *name;
        enum step_kind kind;
        enum tok_normal_form form;
    } kinds[] = {{"NFC", STEP_NORMAL_FORM, TOK_NFC},
                 {"NFD", STEP_NORMAL_FORM, TOK_NFD},
                 {"NFKC", STEP_NORMAL_FORM, TOK_NFKC},
                 {"NFKD", STEP_NORMAL_FORM, TOK_NFKD},
                 {"Prepend", STEP_PREPEND, 0},
                 {"Replace", STEP_REPLACE, 0},
                 {"Strip", STEP_STRIP, 0},
                 {"Lowercase", STEP_LOWERCASE, 0}};
    struct tok_normalizer *out = ctx;
    enum dgl_status status = DGL_OK;
    size_t i = 0, count = sizeof(kinds) / sizeof(kinds[0]);
    while (i < count && !dgl_str_eq(type, kinds[i].name))
        i++;
    if (i == count)
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: normalizer type \"%s\" is not implemented",
                        dgl_json_name(r.doc), DGL_PRINTABLE_STR(type));
    if (!dgl_grow((void **)&out->steps, &out->cap, out->count + 1, sizeof(*out->steps)))
        return dgl_fail_memory(r.log, "normalizer", sizeof(*out->steps));
    struct tok_normalize_step *step = &out->steps[out->count++];
    *step = (struct tok_normalize_step){.kind = kinds[i].kind, .form = kinds[i].form};
    if (step->kind == STEP_PREPEND)
        return tok_step_text(r, json, "prepend", &step->content, &step->content_len);
    if (step->kind == STEP_REPLACE) {
        TRY(tok_step_text(r, json, "content", &step->content, &step->content_len));
        TRY(tok_pattern_load(r, json, "pattern", &step->pattern));
    } else if (step->kind == STEP_STRIP) {
        TRY(dgl_json_opt_bool(r, json, "strip_left", &step->left));
        TRY(dgl_json_opt_bool(r, json, "strip_right", &step->right));
    }
done:
    return status;
}

enum dgl_status tok_normalizer_load(struct dgl_json_reader r, const struct dgl_json *json,
                                    struct tok_normalizer *out)
{
    *out = (struct tok_normalizer){0};
    return tok_steps_load(r, json, "normalizers", load_step, out);
}

void tok_normalizer_finish(struct tok_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        tok_pattern_finish(&normalizer->steps[i].pattern);
        free(normalizer->steps[i].content);
    }
    free(normalizer->steps);
    *normalizer = (struct tok_normalizer){0};
}

/* ---- applying -------------------------------------------------------------------------------- */

static void lowercase(struct tainted_text from, size_t start, size_t end, struct tok_scratch *s)
{
    for (size_t i = start; i < end;) {
        uint32_t cp, lower[2];
        size_t done = s->rewrite.len;
        size_t len = dgl_utf8_decode(from.text.p + i, end - i, &cp);
        size_t count = tok_lowercase(cp, lower);
        for (size_t j = 0; j < count; j++) {
            char bytes[4];
            dgl_buf_append(&s->rewrite, bytes, dgl_utf8_encode(lower[j], bytes));
        }
        tainted_merge(from, i, i + len, s->rewrite.len - done, &s->rewrite_taint);
        i += len;
    }
}

/* A replacement comes from the last character of its match. */
static enum dgl_status replace(struct dgl_budget *budget, const struct tok_normalize_step *step,
                               struct tok_scratch *scratch, struct tainted_text text,
                               size_t *origin_len)
{
    struct dgl_str content = {step->content, step->content_len};
    const struct tok_spans *spans = &scratch->spans;
    enum dgl_status status = tok_pattern_replace(budget, &step->pattern, content, &scratch->regex,
                                                 &scratch->spans, text.text, &scratch->rewrite);
    for (size_t i = 0; status == DGL_OK && text.taint && i < spans->count; i++) {
        struct tok_span span = spans->items[i];
        if (span.match)
            tainted_merge(text, span.start, span.end, content.len, &scratch->rewrite_taint);
        else
            dgl_buf_append(&scratch->rewrite_taint, text.taint + span.start, span.end - span.start);
    }
    size_t origin = *origin_len;
    *origin_len = 0;
    for (size_t i = 0; i < spans->count && origin > 0; i++) {
        struct tok_span span = spans->items[i];
        if (span.match)
            *origin_len += span.end <= origin ? content.len : 0;
        else
            *origin_len += tok_origin_of(origin, span.start, span.end);
        if (span.end > origin)
            break;
    }
    return status;
}

/* A decomposition turns the first character into several. All of them count as coming from it.
 * Returns false if memory is exhausted. */
static bool normal_form(const struct tok_normalize_step *step, struct tok_scratch *scratch,
                        struct tainted_text text, size_t *origin_len)
{
    struct dgl_buf *out = &scratch->rewrite;
    size_t parts = 0;
    bool ok = true;
    if (*origin_len > 0) {
        struct tainted_text origin = {.text = {text.text.p, *origin_len}};
        ok = tok_normal_form(step->form, origin, &scratch->cps, &scratch->cap_cps, out, NULL);
        for (size_t i = 0; i < out->len; i++)
            parts += ((unsigned char)out->p[i] & 0xC0) != 0x80;
        out->len = 0;
    }
    ok = ok && tok_normal_form(step->form, text, &scratch->cps, &scratch->cap_cps, out,
                               &scratch->rewrite_taint);
    if (!ok)
        return false;
    size_t end = 0;
    for (; end < out->len; end++)
        if (((unsigned char)out->p[end] & 0xC0) != 0x80 && parts-- == 0)
            break;
    *origin_len = *origin_len ? end : 0;
    return true;
}

/* Rewrites `text` to scratch->rewrite and its taint, which are empty. */
static enum dgl_status apply(struct dgl_budget *budget, const struct tok_normalize_step *step,
                             struct tok_scratch *scratch, struct tainted_text text,
                             size_t *origin_len)
{
    size_t start = 0, end = text.text.len, origin = *origin_len;
    size_t room = scratch->rewrite.cap, room_cps = scratch->cap_cps;
    uint32_t cp;
    switch (step->kind) {
    case STEP_PREPEND: /* the new bytes have no taint */
        end = scratch->continues ? 0 : step->content_len;
        if (!dgl_budget_append(budget, &scratch->rewrite, step->content, end))
            return budget->status;
        tainted_merge(text, 0, 0, end, &scratch->rewrite_taint);
        tainted_copy(text, 0, text.text.len, &scratch->rewrite, &scratch->rewrite_taint);
        *origin_len += origin ? end : 0;
        return DGL_OK;
    case STEP_REPLACE:
        return replace(budget, step, scratch, text, origin_len);
    case STEP_NORMAL_FORM:
        if (!normal_form(step, scratch, text, origin_len))
            dgl_budget_fail_memory(budget, text.text.len);
        break;
    case STEP_STRIP:
        while (step->left && start < end) {
            size_t len = dgl_utf8_decode(text.text.p + start, end - start, &cp);
            if (!tok_is_space(cp))
                break;
            start += len;
        }
        while (step->right && end > start) {
            size_t at = tok_char_before(text.text.p, end);
            dgl_utf8_decode(text.text.p + at, end - at, &cp);
            if (!tok_is_space(cp))
                break;
            end = at;
        }
        tainted_copy(text, start, end, &scratch->rewrite, &scratch->rewrite_taint);
        *origin_len = tok_origin_of(origin, start, end);
        break;
    case STEP_LOWERCASE:
        lowercase(text, 0, origin, scratch);
        *origin_len = scratch->rewrite.len;
        lowercase(text, origin, end, scratch);
        break;
    }
    if (scratch->rewrite.failed)
        dgl_budget_fail_memory(budget, text.text.len);
    dgl_budget_bytes(budget, scratch->rewrite.cap - room +
                                 (scratch->cap_cps - room_cps) * sizeof(*scratch->cps));
    return budget->status;
}

enum dgl_status tok_normalize(struct dgl_budget *budget, const struct tok_normalizer *normalizer,
                              struct tok_scratch *scratch, struct tainted_text text,
                              size_t *origin_len)
{
    struct tok_scratch *s = scratch;
    s->normalized.len = s->normalized_taint.len = 0;
    if (!dgl_budget_append(budget, &s->normalized, text.text.p, text.text.len))
        return budget->status;
    if (text.taint)
        dgl_buf_append(&s->normalized_taint, text.taint, text.text.len);
    enum dgl_status status = DGL_OK;
    /* No step changes an empty text, not even Prepend. */
    for (size_t i = 0; i < normalizer->count && s->normalized.len > 0; i++) {
        struct tainted_text now = {{s->normalized.p, s->normalized.len},
                                   text.taint ? (const uint8_t *)s->normalized_taint.p : NULL};
        s->rewrite.len = s->rewrite_taint.len = 0;
        /* The step reads the characters one by one. */
        if (!dgl_budget_steps(budget, now.text.len))
            return budget->status;
        TRY(apply(budget, &normalizer->steps[i], s, now, origin_len));
        tok_swap(&s->normalized, &s->rewrite);
        tok_swap(&s->normalized_taint, &s->rewrite_taint);
    }
    if (s->normalized_taint.failed)
        dgl_budget_fail_memory(budget, s->normalized.len);
    status = budget->status;
done:
    return status;
}
