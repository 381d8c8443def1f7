/* Pre-tokenizers: each step reads the pieces of scratch->text and writes those of scratch->next.
 * Then both are swapped. */
#include "loader/tokenizer/tok_pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"
#include "loader/tokenizer/tok_bytes.h"
#include "loader/tokenizer/tok_metaspace.h"
#include "loader/tokenizer/tok_pattern.h"
#include "loader/tokenizer/tok_split.h"
#include "loader/tokenizer/tok_steps.h"

enum step_kind {
    STEP_SPLIT,        /* cuts at matches of a pattern */
    STEP_SPLIT_CLASS,  /* cuts at characters of a class */
    STEP_SPLIT_WORDS,  /* cuts into words and runs of symbols, without blanks */
    STEP_PREFIX_SPACE, /* prepends a blank to every piece without one */
    STEP_MAP_BYTES,    /* bytes to GPT-2's alphabet */
    STEP_METASPACE,    /* blanks to a visible mark */
};

struct tok_split_step {
    enum step_kind kind;
    enum tok_behavior behavior;
    bool invert;
    struct tok_pattern pattern;
    bool (*is)(uint32_t cp);
    struct tok_metaspace metaspace;
};

/* ---- loading --------------------------------------------------------------------------------- */

static enum dgl_status add_step(struct dgl_json_reader r, struct tok_pretokenizer *list,
                                enum step_kind kind, struct tok_split_step **out)
{
    if (!dgl_grow((void **)&list->steps, &list->cap, list->count + 1, sizeof(*list->steps)))
        return dgl_fail_memory(r.log, "pre-tokenizer", sizeof(*list->steps));
    *out = &list->steps[list->count++];
    **out = (struct tok_split_step){.kind = kind};
    return DGL_OK;
}

/* Keeps *inout if the field is missing. */
static enum dgl_status load_behavior(struct dgl_json_reader r, const struct dgl_json *json,
                                     enum tok_behavior *inout)
{
    const struct dgl_json *value;
    enum dgl_status status = dgl_json_opt(r, json, "behavior", DGL_JSON_STRING, &value);
    if (status != DGL_OK || !value || tok_behavior_parse(dgl_json_str(value), inout))
        return status;
    return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                    "%s: pre_tokenizer behavior \"%s\" is not implemented", dgl_json_name(r.doc),
                    DGL_PRINTABLE_STR(dgl_json_str(value)));
}

static enum dgl_status load_step(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct dgl_str type, void *ctx)
{
    static const char byte_level[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    struct tok_pretokenizer *out = ctx;
    struct tok_split_step *step = NULL;
    enum dgl_status status = DGL_OK;
    bool prefix = true, use_regex = true, individual = false;
    if (dgl_str_eq(type, "ByteLevel")) {
        TRY(dgl_json_opt_bool(r, json, "add_prefix_space", &prefix));
        TRY(dgl_json_opt_bool(r, json, "use_regex", &use_regex));
        if (prefix)
            TRY(add_step(r, out, STEP_PREFIX_SPACE, &step));
        if (use_regex) {
            TRY(add_step(r, out, STEP_SPLIT, &step));
            step->behavior = TOK_ISOLATED;
            TRY(tok_pattern_init(r.log, dgl_json_name(r.doc), byte_level, &step->pattern));
        }
        TRY(add_step(r, out, STEP_MAP_BYTES, &step));
    } else if (dgl_str_eq(type, "Split")) {
        const struct dgl_json *behavior;
        TRY(add_step(r, out, STEP_SPLIT, &step));
        TRY(dgl_json_need(r, json, "behavior", DGL_JSON_STRING, &behavior));
        TRY(load_behavior(r, json, &step->behavior));
        TRY(dgl_json_opt_bool(r, json, "invert", &step->invert));
        TRY(tok_pattern_load(r, json, "pattern", &step->pattern));
    } else if (dgl_str_eq(type, "Metaspace")) {
        struct tok_metaspace m;
        TRY(tok_metaspace_load(r, json, &m));
        TRY(add_step(r, out, STEP_METASPACE, &step));
        step->metaspace = m;
        if (m.split) {
            TRY(add_step(r, out, STEP_SPLIT, &step));
            step->behavior = TOK_MERGED_WITH_NEXT;
            TRY(tok_pattern_init_literal(r.log, (struct dgl_str){m.mark, m.mark_len},
                                         &step->pattern));
        }
    } else if (dgl_str_eq(type, "Digits")) {
        TRY(dgl_json_opt_bool(r, json, "individual_digits", &individual));
        TRY(add_step(r, out, STEP_SPLIT_CLASS, &step));
        step->is = tok_is_numeric;
        step->behavior = individual ? TOK_ISOLATED : TOK_CONTIGUOUS;
    } else if (dgl_str_eq(type, "Punctuation")) {
        TRY(add_step(r, out, STEP_SPLIT_CLASS, &step));
        step->is = tok_is_punctuation;
        step->behavior = TOK_ISOLATED;
        TRY(load_behavior(r, json, &step->behavior));
    } else if (dgl_str_eq(type, "WhitespaceSplit")) {
        TRY(add_step(r, out, STEP_SPLIT_CLASS, &step));
        step->is = tok_is_space;
        step->behavior = TOK_REMOVED;
    } else if (dgl_str_eq(type, "Whitespace")) {
        TRY(add_step(r, out, STEP_SPLIT_WORDS, &step));
    } else {
        TRY(dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: pre_tokenizer type \"%s\" is not implemented",
                     dgl_json_name(r.doc), DGL_PRINTABLE_STR(type)));
    }
done:
    return status;
}

enum dgl_status tok_pretokenizer_load(struct dgl_json_reader r, const struct dgl_json *json,
                                      struct tok_pretokenizer *out)
{
    *out = (struct tok_pretokenizer){0};
    return tok_steps_load(r, json, "pretokenizers", load_step, out);
}

void tok_pretokenizer_finish(struct tok_pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->count; i++)
        tok_pattern_finish(&pretokenizer->steps[i].pattern);
    free(pretokenizer->steps);
    *pretokenizer = (struct tok_pretokenizer){0};
}

/* ---- steps that only cut --------------------------------------------------------------------- */

static enum dgl_status cut(struct dgl_budget *budget, const struct tok_split_step *step,
                           struct tok_scratch *s)
{
    bool words = step->kind == STEP_SPLIT_WORDS;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < s->text.count; i++) {
        struct tok_piece piece = s->text.pieces[i];
        struct dgl_str text = {s->text.bytes.p + piece.start, piece.len};
        if (!dgl_budget_steps(budget, 1 + piece.len / 4))
            TRY(budget->status);
        TRY(step->kind == STEP_SPLIT
                ? tok_pattern_find(budget, &step->pattern, &s->regex, text, &s->spans)
            : words ? tok_find_words(budget, text, &s->spans)
                    : tok_find_class(budget, step->is, text, &s->spans));
        TRY(tok_split(budget, words ? TOK_REMOVED : step->behavior, words || step->invert,
                      &s->spans, piece, &s->next));
    }
done:
    tok_swap(&s->text.bytes, &s->next.bytes); /* the bytes do not change */
    return status;
}

/* ---- steps that rewrite ---------------------------------------------------------------------- */

static void write_part(const struct tok_split_step *step, struct dgl_str text, struct dgl_buf *out)
{
    if (step->kind == STEP_MAP_BYTES)
        tok_bytes_append_mapped(out, text);
    else if (step->kind != STEP_METASPACE)
        dgl_buf_append(out, text.p, text.len);
    for (size_t done = 0; step->kind == STEP_METASPACE && done < text.len;) {
        const char *blank = memchr(text.p + done, ' ', text.len - done);
        size_t end = blank ? (size_t)(blank - text.p) : text.len;
        dgl_buf_append(out, text.p + done, end - done);
        if (blank)
            dgl_buf_append(out, step->metaspace.mark, step->metaspace.mark_len);
        done = end + (blank != NULL);
    }
}

static enum dgl_status rewrite(struct dgl_budget *budget, const struct tok_split_step *step,
                               struct tok_scratch *s)
{
    enum dgl_status status = DGL_OK;
    struct dgl_buf *out = &s->next.bytes;
    const struct tok_metaspace *m = &step->metaspace;
    struct dgl_str mark = {m->mark, m->mark_len};
    for (size_t i = 0; i < s->text.count; i++) {
        struct tok_piece piece = s->text.pieces[i];
        struct dgl_str text = {s->text.bytes.p + piece.start, piece.len};
        struct dgl_str origin = {text.p, piece.origin_len};
        struct dgl_str rest = {text.p + origin.len, text.len - origin.len};
        struct dgl_str prefix = {0};
        if (step->kind == STEP_PREFIX_SPACE)
            prefix = DGL_STR(" ");
        else if (step->kind == STEP_METASPACE &&
                 (m->scheme == TOK_PREPEND_ALWAYS ||
                  (m->scheme == TOK_PREPEND_FIRST && origin.len > 0)) &&
                 !(text.len >= mark.len && memcmp(text.p, mark.p, mark.len) == 0))
            prefix = mark;
        if ((i == 0 && s->continues) || dgl_str_starts(text, " "))
            prefix.len = 0;
        size_t start = out->len, room = out->cap;
        if (!dgl_budget_steps(budget, dgl_budget_steps_of(4 * piece.len)))
            return budget->status;
        dgl_buf_append(out, prefix.p, prefix.len);
        write_part(step, origin, out);
        size_t origin_len = origin.len ? out->len - start : 0;
        write_part(step, rest, out);
        if (out->failed)
            dgl_budget_fail_memory(budget, text.len);
        if (!dgl_budget_bytes(budget, out->cap - room))
            return budget->status;
        TRY(tok_text_add(budget, &s->next,
                         (struct tok_piece){start, out->len - start, origin_len}));
    }
done:
    return status;
}

enum dgl_status tok_pretokenize(struct dgl_budget *budget,
                                const struct tok_pretokenizer *pretokenizer,
                                struct tok_scratch *scratch, struct dgl_str text, size_t origin_len)
{
    struct tok_scratch *s = scratch;
    s->text.count = 0;
    s->text.bytes.len = 0;
    if (!dgl_budget_append(budget, &s->text.bytes, text.p, text.len))
        return budget->status;
    enum dgl_status status;
    TRY(tok_text_add(budget, &s->text, (struct tok_piece){0, text.len, origin_len}));
    for (size_t i = 0; i < pretokenizer->count; i++) {
        const struct tok_split_step *step = &pretokenizer->steps[i];
        bool cuts = step->kind == STEP_SPLIT || step->kind == STEP_SPLIT_CLASS ||
                    step->kind == STEP_SPLIT_WORDS;
        s->next.count = 0;
        s->next.bytes.len = 0;
        TRY(cuts ? cut(budget, step, s) : rewrite(budget, step, s));
        struct tok_text pieces = s->text;
        s->text = s->next;
        s->next = pieces;
    }
done:
    return status;
}
