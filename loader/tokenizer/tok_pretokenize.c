/* Pre-tokenizers: each step reads the pieces of scratch->text and writes those of
 * scratch->next; then they change places. */
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
    STEP_SPLIT,        /* by a pattern */
    STEP_SPLIT_CLASS,  /* by characters of a class */
    STEP_SPLIT_WORDS,  /* into words and runs of symbols, without blanks */
    STEP_PREFIX_SPACE, /* a blank in front of every piece that has none */
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

/* NULL: out of memory, reported. */
static struct tok_split_step *add_step(struct dgl_json_reader r, struct tok_pretokenizer *out,
                                       enum step_kind kind)
{
    if (!dgl_grow((void **)&out->steps, &out->cap, out->count + 1, sizeof(*out->steps))) {
        dgl_fail_memory(r.log, "pre-tokenizer", sizeof(*out->steps));
        return NULL;
    }
    struct tok_split_step *step = &out->steps[out->count++];
    *step = (struct tok_split_step){.kind = kind};
    return step;
}

static enum dgl_status load_byte_level(struct dgl_json_reader r, const struct dgl_json *json,
                                       struct tok_pretokenizer *out)
{
    static const char regex[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool prefix = true, use_regex = true;
    enum dgl_status status = dgl_json_opt_bool(r, json, "add_prefix_space", &prefix);
    if (status == DGL_OK)
        status = dgl_json_opt_bool(r, json, "use_regex", &use_regex);
    if (status != DGL_OK)
        return status;
    if (prefix && !add_step(r, out, STEP_PREFIX_SPACE))
        return DGL_ERR_NO_MEMORY;
    if (use_regex) {
        struct tok_split_step *step = add_step(r, out, STEP_SPLIT);
        if (!step)
            return DGL_ERR_NO_MEMORY;
        step->behavior = TOK_ISOLATED;
        status = tok_pattern_init(r.log, dgl_json_name(r.doc), regex, &step->pattern);
        if (status != DGL_OK)
            return status;
    }
    return add_step(r, out, STEP_MAP_BYTES) ? DGL_OK : DGL_ERR_NO_MEMORY;
}

/* Absent keeps *inout. */
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

static enum dgl_status load_split(struct dgl_json_reader r, const struct dgl_json *json,
                                  struct tok_pretokenizer *out)
{
    struct tok_split_step *step = add_step(r, out, STEP_SPLIT);
    if (!step)
        return DGL_ERR_NO_MEMORY;
    const struct dgl_json *behavior;
    enum dgl_status status = dgl_json_need(r, json, "behavior", DGL_JSON_STRING, &behavior);
    if (status == DGL_OK)
        status = load_behavior(r, json, &step->behavior);
    if (status == DGL_OK)
        status = dgl_json_opt_bool(r, json, "invert", &step->invert);
    return status == DGL_OK ? tok_pattern_load(r, json, "pattern", &step->pattern) : status;
}

static enum dgl_status load_metaspace(struct dgl_json_reader r, const struct dgl_json *json,
                                      struct tok_pretokenizer *out)
{
    struct tok_metaspace metaspace;
    enum dgl_status status = tok_metaspace_load(r, json, &metaspace);
    if (status != DGL_OK)
        return status;
    struct tok_split_step *step = add_step(r, out, STEP_METASPACE);
    if (!step)
        return DGL_ERR_NO_MEMORY;
    step->metaspace = metaspace;
    if (!metaspace.split)
        return DGL_OK;
    step = add_step(r, out, STEP_SPLIT);
    if (!step)
        return DGL_ERR_NO_MEMORY;
    step->behavior = TOK_MERGED_WITH_NEXT;
    return tok_pattern_init_literal(r.log, (struct dgl_str){metaspace.mark, metaspace.mark_len},
                                    &step->pattern);
}

/* Pre-tokenizers that cut at characters of a class. */
static enum dgl_status load_class(struct dgl_json_reader r, const struct dgl_json *json,
                                  bool (*is)(uint32_t), enum tok_behavior behavior,
                                  struct tok_pretokenizer *out)
{
    struct tok_split_step *step = add_step(r, out, STEP_SPLIT_CLASS);
    if (!step)
        return DGL_ERR_NO_MEMORY;
    step->is = is;
    step->behavior = behavior;
    return is == tok_is_punctuation ? load_behavior(r, json, &step->behavior) : DGL_OK;
}

static enum dgl_status load_step(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct dgl_str type, void *ctx)
{
    struct tok_pretokenizer *out = ctx;
    if (dgl_str_eq(type, "ByteLevel"))
        return load_byte_level(r, json, out);
    if (dgl_str_eq(type, "Split"))
        return load_split(r, json, out);
    if (dgl_str_eq(type, "Metaspace"))
        return load_metaspace(r, json, out);
    if (dgl_str_eq(type, "Digits")) {
        bool individual = false;
        enum dgl_status status = dgl_json_opt_bool(r, json, "individual_digits", &individual);
        if (status != DGL_OK)
            return status;
        return load_class(r, json, tok_is_numeric, individual ? TOK_ISOLATED : TOK_CONTIGUOUS, out);
    }
    if (dgl_str_eq(type, "Punctuation"))
        return load_class(r, json, tok_is_punctuation, TOK_ISOLATED, out);
    if (dgl_str_eq(type, "WhitespaceSplit"))
        return load_class(r, json, tok_is_space, TOK_REMOVED, out);
    if (dgl_str_eq(type, "Whitespace"))
        return add_step(r, out, STEP_SPLIT_WORDS) ? DGL_OK : DGL_ERR_NO_MEMORY;
    return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: pre_tokenizer type \"%s\" is not implemented",
                    dgl_json_name(r.doc), DGL_PRINTABLE_STR(type));
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

static enum dgl_status cut_piece(struct dgl_budget *budget, const struct tok_split_step *step,
                                 struct tok_scratch *s, struct tok_piece piece)
{
    struct dgl_str text = {s->text.bytes.p + piece.start, piece.len};
    if (!dgl_budget_steps(budget, 1 + piece.len / 4))
        return budget->status;
    enum tok_behavior behavior = step->behavior;
    bool invert = step->invert;
    enum dgl_status status;
    if (step->kind == STEP_SPLIT) {
        status = tok_pattern_find(budget, &step->pattern, &s->regex, text, &s->spans);
    } else if (step->kind == STEP_SPLIT_CLASS) {
        status = tok_find_class(budget, step->is, text, &s->spans);
    } else {
        behavior = TOK_REMOVED;
        invert = true;
        status = tok_find_words(budget, text, &s->spans);
    }
    return status == DGL_OK ? tok_split(budget, behavior, invert, &s->spans, piece, &s->next)
                            : status;
}

static enum dgl_status cut(struct dgl_budget *budget, const struct tok_split_step *step,
                           struct tok_scratch *s)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < s->text.count && status == DGL_OK; i++)
        status = cut_piece(budget, step, s, s->text.pieces[i]);
    tok_swap(&s->text.bytes, &s->next.bytes); /* the bytes stay */
    return status;
}

/* ---- steps that rewrite ---------------------------------------------------------------------- */

static bool starts_with(struct dgl_str text, const char *prefix, size_t len)
{
    return text.len >= len && memcmp(text.p, prefix, len) == 0;
}

/* What goes in front of a piece. */
static struct dgl_str prefix_of(const struct tok_split_step *step, struct dgl_str text,
                                bool at_origin)
{
    const struct tok_metaspace *m = &step->metaspace;
    if (step->kind == STEP_MAP_BYTES || starts_with(text, " ", 1))
        return (struct dgl_str){0};
    if (step->kind == STEP_PREFIX_SPACE)
        return DGL_STR(" ");
    bool wanted = m->scheme == TOK_PREPEND_ALWAYS || (m->scheme == TOK_PREPEND_FIRST && at_origin);
    bool missing = !starts_with(text, m->mark, m->mark_len);
    return wanted && missing ? (struct dgl_str){m->mark, m->mark_len} : (struct dgl_str){0};
}

static void mark_blanks(const struct tok_metaspace *m, struct dgl_str text, struct dgl_buf *out)
{
    for (size_t done = 0; done < text.len;) {
        const char *blank = memchr(text.p + done, ' ', text.len - done);
        size_t end = blank ? (size_t)(blank - text.p) : text.len;
        dgl_buf_append(out, text.p + done, end - done);
        if (blank)
            dgl_buf_append(out, m->mark, m->mark_len);
        done = end + (blank != NULL);
    }
}

static void write_part(const struct tok_split_step *step, struct dgl_str text, struct dgl_buf *out)
{
    if (step->kind == STEP_MAP_BYTES)
        tok_bytes_append_mapped(out, text);
    else if (step->kind == STEP_METASPACE)
        mark_blanks(&step->metaspace, text, out);
    else
        dgl_buf_append(out, text.p, text.len);
}

static enum dgl_status rewrite(struct dgl_budget *budget, const struct tok_split_step *step,
                               struct tok_scratch *s)
{
    enum dgl_status status = DGL_OK;
    struct dgl_buf *out = &s->next.bytes;
    for (size_t i = 0; i < s->text.count && status == DGL_OK; i++) {
        struct tok_piece piece = s->text.pieces[i];
        struct dgl_str text = {s->text.bytes.p + piece.start, piece.len};
        struct dgl_str origin = {text.p, piece.origin_len};
        struct dgl_str rest = {text.p + origin.len, text.len - origin.len};
        struct dgl_str prefix = {0};
        if (i > 0 || !s->continues)
            prefix = prefix_of(step, text, origin.len > 0);
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
        status =
            tok_text_add(budget, &s->next, (struct tok_piece){start, out->len - start, origin_len});
    }
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
    enum dgl_status status =
        tok_text_add(budget, &s->text, (struct tok_piece){0, text.len, origin_len});
    for (size_t i = 0; status == DGL_OK && i < pretokenizer->count; i++) {
        const struct tok_split_step *step = &pretokenizer->steps[i];
        bool cuts = step->kind == STEP_SPLIT || step->kind == STEP_SPLIT_CLASS ||
                    step->kind == STEP_SPLIT_WORDS;
        s->next.count = 0;
        s->next.bytes.len = 0;
        status = cuts ? cut(budget, step, s) : rewrite(budget, step, s);
        struct tok_text pieces = s->text;
        s->text = s->next;
        s->next = pieces;
    }
    return status;
}
