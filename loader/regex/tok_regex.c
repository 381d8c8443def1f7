/* Patterns compiled by PCRE2, and the search for all matches in a text. */
#include "loader/regex/tok_regex.h"

#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/regex/tok_translate.h"

/* Limits for one attempt to match at one position, in addition to the budget of the call, which
 * callouts count. Only malicious patterns reach these limits. */
#define MATCH_LIMIT    50000000u
#define HEAP_LIMIT_KIB (256u << 10)
#define JIT_STACK_MAX  (64u << 20) /* address space; pages are used only if needed */

/* PCRE2 10.40 introduced Unicode 14. The ranges of newer characters start there. */
#if PCRE2_MAJOR == 10 && PCRE2_MINOR < 40
#error "PCRE2 is older than 10.40"
#endif

struct tok_regex {
    char *where;
    pcre2_code *code;       /* for texts without characters that PCRE2 may not know */
    pcre2_code *newer_code; /* for texts with such characters: larger and slower */
};

struct tok_regex_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* ---- compiling ------------------------------------------------------------------------------- */

static enum dgl_status compile(const struct dgl_log *log, const char *where, struct dgl_str pattern,
                               bool newer, pcre2_code **out)
{
    struct tok_translator t = {.log = log, .where = where, .pattern = pattern, .newer = newer};
    pcre2_compile_context *context = NULL;
    enum dgl_status status;
    TRY(tok_translate(&t));
    context = pcre2_compile_context_create(NULL);
    if (!context)
        TRY(dgl_fail_memory(log, "pattern", t.out.len));
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    *out = pcre2_compile((PCRE2_SPTR)(t.out.p ? t.out.p : ""), t.out.len,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                         &offset, context);
    if (!*out && error == PCRE2_ERROR_HEAP_FAILED) {
        status = dgl_fail_memory(log, "pattern", t.out.len);
    } else if (!*out) {
        char message[128] = "";
        pcre2_get_error_message(error, (PCRE2_UCHAR *)message, sizeof(message));
        status = dgl_fail(log, DGL_ERR_UNSUPPORTED, "%s: pattern is not implemented: %s", where,
                          message);
    } else {
        /* Without JIT on this processor, PCRE2 interprets the pattern: slower, with the same
         * result. */
        (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
    }
done:
    pcre2_compile_context_free(context);
    dgl_buf_finish(&t.out);
    return status;
}

enum dgl_status tok_regex_create(const struct dgl_log *log, const char *where,
                                 struct dgl_str pattern, struct tok_regex **out)
{
    *out = NULL;
    struct tok_regex *regex = dgl_new(struct tok_regex);
    if (!regex || !(regex->where = dgl_strdup(where))) {
        tok_regex_destroy(&regex);
        return dgl_fail_memory(log, "pattern", sizeof(*regex));
    }
    enum dgl_status status = compile(log, where, pattern, false, &regex->code);
    if (status == DGL_OK)
        status = compile(log, where, pattern, true, &regex->newer_code);
    if (status == DGL_OK)
        *out = regex;
    else
        tok_regex_destroy(&regex);
    return status;
}

void tok_regex_destroy(struct tok_regex **regex)
{
    if (!*regex)
        return;
    pcre2_code_free((*regex)->code);
    pcre2_code_free((*regex)->newer_code);
    free((*regex)->where);
    free(*regex);
    *regex = NULL;
}

/* ---- matching -------------------------------------------------------------------------------- */

struct tok_regex_scratch *tok_regex_scratch_create(void)
{
    struct tok_regex_scratch *scratch = dgl_new(struct tok_regex_scratch);
    if (!scratch)
        return NULL;
    uint32_t jit = 0;
    pcre2_config(PCRE2_CONFIG_JIT, &jit);
    scratch->data = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    if (jit)
        scratch->stack = pcre2_jit_stack_create(32u << 10, JIT_STACK_MAX, NULL);
    if (!scratch->data || !scratch->context || (jit && !scratch->stack)) {
        tok_regex_scratch_destroy(&scratch);
        return NULL;
    }
    pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
    pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
    if (jit)
        pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    return scratch;
}

void tok_regex_scratch_destroy(struct tok_regex_scratch **scratch)
{
    struct tok_regex_scratch *s = *scratch;
    if (!s)
        return;
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    free(s);
    *scratch = NULL;
}

enum dgl_status tok_spans_add(struct dgl_budget *budget, struct tok_spans *spans,
                              struct tok_span span)
{
    if (spans->count == spans->cap && !dgl_budget_grow(budget, (void **)&spans->items, &spans->cap,
                                                       spans->count + 1, sizeof(span)))
        return budget->status;
    spans->items[spans->count++] = span;
    return DGL_OK;
}

/* Position of the search at its last callout. */
struct search {
    struct dgl_budget *budget;
    size_t start, at;
};

/* Between two callouts of one attempt the search has read the bytes that it moved over. Moving back
 * may read as much again, so at most half of the work is not counted. */
static int count_work(pcre2_callout_block *block, void *priv)
{
    struct search *search = priv;
    size_t at = block->current_position;
    if (block->start_match != search->start)
        search->start = search->at = block->start_match;
    size_t moved = at > search->at ? at - search->at : search->at - at;
    search->at = at;
    return dgl_budget_steps(search->budget, dgl_budget_steps_of(moved)) ? 0 : PCRE2_ERROR_CALLOUT;
}

enum dgl_status tok_regex_find(struct dgl_budget *budget, const struct tok_regex *regex,
                               struct tok_regex_scratch *scratch, struct dgl_str text,
                               struct tok_spans *out)
{
    out->count = 0;
    if (text.len == 0)
        return tok_spans_add(budget, out, (struct tok_span){0, 0, false});
    if (!dgl_budget_steps(budget, dgl_budget_steps_of(text.len)))
        return budget->status;
    /* PCRE2 may not know a character of the text. The first such character has three bytes. */
    bool newer = false;
    for (size_t i = 0, len; i < text.len && !newer; i += len) {
        uint32_t cp = 0;
        len = 1;
        if ((unsigned char)text.p[i] >= 0xE0)
            len = dgl_utf8_decode(text.p + i, text.len - i, &cp);
        newer = cp && tok_is_newer(cp);
    }
    const pcre2_code *code = newer ? regex->newer_code : regex->code;
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(scratch->data);
    struct search search = {.budget = budget};
    pcre2_set_callout(scratch->context, count_work, &search);
    size_t from = 0, covered = 0; /* [0, covered) is covered by spans */
    bool any = false;
    enum dgl_status status = DGL_OK;
    while (from <= text.len) {
        search.start = SIZE_MAX;
        int rc = pcre2_match(code, (PCRE2_SPTR)text.p, text.len, from, PCRE2_NO_UTF_CHECK,
                             scratch->data, scratch->context);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc == PCRE2_ERROR_CALLOUT) /* the budget has failed and has logged it */
            return budget->status;
        if (rc < 0) {
            char message[128] = "";
            pcre2_get_error_message(rc, (PCRE2_UCHAR *)message, sizeof(message));
            dgl_budget_fail(budget,
                            rc == PCRE2_ERROR_NOMEMORY ? DGL_ERR_NO_MEMORY : DGL_ERR_UNSUPPORTED,
                            "%s: the pattern cannot be matched against this text of %zu bytes: %s",
                            regex->where, text.len, message);
            return budget->status;
        }
        if (!dgl_budget_steps(budget, 4)) /* cost of the call itself */
            return budget->status;
        size_t start = found[0], end = found[1];
        if (start == end && any && end == covered) {
            /* As in Oniguruma, an empty match directly after the last match is ignored. */
            do
                from++;
            while (from < text.len && ((unsigned char)text.p[from] & 0xC0) == 0x80);
            continue;
        }
        if (start > covered)
            TRY(tok_spans_add(budget, out, (struct tok_span){covered, start, false}));
        TRY(tok_spans_add(budget, out, (struct tok_span){start, end, true}));
        from = covered = end;
        any = true;
    }
    if (covered < text.len)
        TRY(tok_spans_add(budget, out, (struct tok_span){covered, text.len, false}));
done:
    return status;
}
