/* Delimiters: turns matches and the text between them into pieces. */
#include "loader/tokenizer/tok_split.h"

#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"

bool tok_behavior_parse(struct dgl_str name, enum tok_behavior *out)
{
    static const char *const names[] = {
        [TOK_REMOVED] = "Removed",
        [TOK_ISOLATED] = "Isolated",
        [TOK_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [TOK_MERGED_WITH_NEXT] = "MergedWithNext",
        [TOK_CONTIGUOUS] = "Contiguous",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (dgl_str_eq(name, names[i])) {
            *out = (enum tok_behavior)i;
            return true;
        }
    }
    return false;
}

/* Returns true if the span at `i` begins a piece, false if it continues the previous one. */
static bool begins_piece(enum tok_behavior behavior, bool invert, const struct tok_spans *spans,
                         size_t i)
{
    if (i == 0)
        return true;
    bool match = spans->items[i].match != invert, before = spans->items[i - 1].match != invert;
    switch (behavior) {
    case TOK_MERGED_WITH_PREVIOUS:
        return !match || before;
    case TOK_MERGED_WITH_NEXT:
        return match || !before;
    case TOK_CONTIGUOUS:
        return match != before;
    case TOK_REMOVED:
    case TOK_ISOLATED:
        break;
    }
    return true;
}

enum dgl_status tok_split(struct dgl_budget *budget, enum tok_behavior behavior, bool invert,
                          const struct tok_spans *spans, struct tok_piece piece,
                          struct tok_text *out)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0, next; i < spans->count; i = next) {
        for (next = i + 1; next < spans->count; next++)
            if (begins_piece(behavior, invert, spans, next))
                break;
        size_t start = spans->items[i].start, end = spans->items[next - 1].end;
        bool removed = behavior == TOK_REMOVED && spans->items[i].match != invert;
        size_t origin = tok_origin_of(piece.origin_len, start, end);
        if (!removed && start != end)
            TRY(tok_text_add(budget, out,
                             (struct tok_piece){piece.start + start, end - start, origin}));
    }
done:
    return status;
}

enum dgl_status tok_find_class(struct dgl_budget *budget, bool (*is)(uint32_t cp),
                               struct dgl_str text, struct tok_spans *out)
{
    size_t covered = 0;
    enum dgl_status status = DGL_OK;
    out->count = 0;
    for (size_t i = 0, end; i < text.len; i = end) {
        uint32_t cp;
        end = i + dgl_utf8_decode(text.p + i, text.len - i, &cp);
        if (!is(cp))
            continue;
        if (i > covered)
            TRY(tok_spans_add(budget, out, (struct tok_span){covered, i, false}));
        TRY(tok_spans_add(budget, out, (struct tok_span){i, end, true}));
        covered = end;
    }
    if (covered < text.len)
        TRY(tok_spans_add(budget, out, (struct tok_span){covered, text.len, false}));
done:
    return status;
}

enum dgl_status tok_find_words(struct dgl_budget *budget, struct dgl_str text,
                               struct tok_spans *out)
{
    enum { WORD, BLANK, OTHER } now = BLANK, next;
    enum dgl_status status = DGL_OK;
    size_t start = 0;
    out->count = 0;
    for (size_t i = 0, len; i < text.len; i += len) {
        uint32_t cp;
        len = dgl_utf8_decode(text.p + i, text.len - i, &cp);
        next = tok_is_word(cp) ? WORD : tok_is_space(cp) ? BLANK : OTHER;
        if (i > start && next != now) {
            TRY(tok_spans_add(budget, out, (struct tok_span){start, i, now != BLANK}));
            start = i;
        }
        now = next;
    }
    if (start < text.len)
        TRY(tok_spans_add(budget, out, (struct tok_span){start, text.len, now != BLANK}));
done:
    return status;
}
