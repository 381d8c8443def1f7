/*
 * Bounds the size of a kernel's text after its macros are expanded. A few lines of macros can
 * expand to 2^64 words, but drivers run out of memory or stack far earlier.
 *
 * The text is not expanded: each macro's body is walked once per use, and only sizes are added up.
 * All branches of #if count, and a name with several definitions counts as its largest.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/format/kernel_lexer.h"
#include "kernels/format/kernel_parser.h"

enum { max_nesting = 100 }; /* of macros in macros, and of calls in the arguments of calls */

struct word {
    struct kernel_token token; /* its line as #line counts */
    bool line_start;           /* the first one of its line */
    int32_t macro;             /* first definition of that name, or -1 */
};

/* Definitions are sorted by name. Parameters with commas between them are the words from `params`
 * on, the body is [body, end). The first definition of a name also describes the others. */
struct macro {
    struct dgl_str name;
    size_t params, num_params, body, end;
    bool function;
    int32_t first;    /* definition of the name */
    size_t count;     /* definitions of the name */
    size_t functions; /* those that have parameters */
    bool open;        /* the name is being expanded, so it is a plain word */
};

/* Numbers of words; -1 if there is no such expansion. A statement ends at `;`, `{` or `}`. */
struct size {
    int64_t all;
    int64_t through;    /* of the largest expansion without the end of a statement */
    int64_t head, tail; /* before the first end and after the last end of the other expansions */
    int64_t most;       /* of a statement between two ends */
};

/* An expansion. `last` is the function-like macro whose name is its last word, or -1: a bracket
 * after it makes that name a call. */
struct value {
    struct size size;
    int32_t last;
};
static const struct value nothing = {.size = {.head = -1, .tail = -1}, .last = -1};

/* The macro whose body is walked. The values of its arguments are expander.args from `first` on. */
struct call {
    const struct macro *macro;
    size_t first, count;
};

struct expander {
    struct dgl_budget budget;
    struct word *words;
    size_t num_words, cap_words;
    struct macro *macros;
    size_t num_macros, cap_macros;
    struct value *args;
    size_t num_args, cap_args;
    int64_t total;
    uint32_t line; /* of the last word of the text itself */
    int depth;
    bool condition; /* it is in a directive */
};

static bool is_mark(const struct expander *e, size_t at, const char *mark)
{
    return at < e->num_words && dgl_str_eq(e->words[at].token.text, mark);
}

/* ---- the text -------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return dgl_str_compare(((const struct macro *)a)->name, ((const struct macro *)b)->name);
}

/* Returns the end of the line that begins at `at`. */
static size_t line_end(const struct expander *e, size_t at)
{
    do
        at++;
    while (at < e->num_words && !e->words[at].line_start);
    return at;
}

/* Reads all words of the text, and the definitions among them. */
static bool read_text(struct expander *e, struct kernel_lexer *lexer)
{
    int64_t offset = 0, given; /* offset from lines of the text to the numbers of #line */
    bool line_start = true;
    for (struct kernel_token token; (token = kernel_lexer_next(lexer)).kind != TOKEN_END;) {
        const size_t n = e->num_words;
        const bool newline = token.kind == TOKEN_NEWLINE;
        if (newline && n >= 3 && e->words[n - 3].line_start && is_mark(e, n - 3, "#") &&
            is_mark(e, n - 2, "line") &&
            dgl_parse_i64(e->words[n - 1].token.text, 0, INT32_MAX, &given))
            offset = given - token.line - 1;
        token.line = (uint32_t)(token.line + offset);
        if (!newline) {
            if (!dgl_budget_steps(&e->budget, 1) ||
                !dgl_budget_grow(&e->budget, (void **)&e->words, &e->cap_words, n + 1,
                                 sizeof(*e->words)))
                return false;
            e->words[e->num_words++] = (struct word){token, line_start, -1};
        }
        line_start = newline;
    }
    for (size_t at = 0, end; at < e->num_words; at = end) {
        end = line_end(e, at);
        if (!is_mark(e, at, "#") || !is_mark(e, at + 1, "define") || at + 2 >= end)
            continue;
        const struct dgl_str name = e->words[at + 2].token.text;
        struct macro macro = {.name = name, .body = at + 3, .end = end};
        macro.function = at + 3 < end && is_mark(e, at + 3, "(") &&
                         e->words[at + 3].token.text.p == name.p + name.len;
        if (macro.function) {
            macro.params = macro.body = at + 4;
            while (macro.body < end && !is_mark(e, macro.body, ")"))
                macro.body++;
            macro.num_params = (macro.body - macro.params + 1) / 2;
            macro.body += macro.body < end;
        }
        if (!dgl_budget_grow(&e->budget, (void **)&e->macros, &e->cap_macros, e->num_macros + 1,
                             sizeof(macro)))
            return false;
        e->macros[e->num_macros++] = macro;
    }
    if (!e->num_macros)
        return true;
    qsort(e->macros, e->num_macros, sizeof(*e->macros), compare_names);
    for (size_t i = 0; i < e->num_macros; i++) {
        struct macro *m = &e->macros[i];
        m->first = i > 0 && compare_names(m, m - 1) == 0 ? m[-1].first : (int32_t)i;
        e->macros[m->first].count++;
        e->macros[m->first].functions += m->function;
    }
    for (size_t i = 0; i < e->num_words; i++) {
        const struct macro key = {.name = e->words[i].token.text};
        const struct macro *found =
            e->words[i].token.kind != TOKEN_WORD
                ? NULL
                : bsearch(&key, e->macros, e->num_macros, sizeof(key), compare_names);
        if (found)
            e->words[i].macro = found->first;
    }
    return true;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sum(int64_t a, int64_t b)
{
    return a < 0 || b < 0 ? -1 : a + b;
}

/* Adds `b`, which follows `*a`. Fails if the result is too large. */
static bool append(struct expander *e, struct size *a, const struct size *b)
{
    *a = (struct size){.all = a->all + b->all,
                       .through = sum(a->through, b->through),
                       .head = larger(a->head, sum(a->through, b->head)),
                       .tail = larger(b->tail, sum(a->tail, b->through)),
                       .most = larger(larger(a->most, b->most), sum(a->tail, b->head))};
    const bool large = e->total + a->all > KERNEL_MAX_WORDS;
    if (!large &&
        larger(larger(a->through, a->head), larger(a->tail, a->most)) <= KERNEL_MAX_STATEMENT)
        return true;
    e->budget.line = e->line < KERNEL_LIB_LINES ? e->line : 0;
    return dgl_budget_fail(&e->budget, DGL_ERR_KERNEL,
                           "%s has more than %d words after its macros are expanded",
                           large          ? "the text"
                           : e->condition ? "the condition of an #if"
                                          : "a statement",
                           large ? KERNEL_MAX_WORDS : KERNEL_MAX_STATEMENT);
}

static bool walk(struct expander *e, size_t at, size_t end, const struct call *call,
                 struct value *out);

/* Expands the macro `name`. The arguments of a call are the words (*at, close), and *at is moved
 * after them; `outer` is the macro that contains them. */
static bool expand(struct expander *e, int32_t name, size_t *at, size_t close,
                   const struct call *outer, struct value *out)
{
    const bool is_call = close > *at;
    struct macro *first = &e->macros[name];
    struct call call = {.first = e->num_args};
    struct value one;
    *out = nothing;
    out->size.through = -1;
    if (++e->depth > max_nesting)
        return dgl_budget_fail(&e->budget, DGL_ERR_KERNEL, "macros are nested more than %d deep",
                               max_nesting);
    if (is_call && !dgl_budget_steps(&e->budget, close - *at))
        return false;
    for (size_t depth = 0, from = *at + 1; *at < close; ++*at) {
        depth += is_mark(e, *at, "(");
        depth -= is_mark(e, *at, ")");
        const bool last = *at + 1 == close;
        if (!last && !(depth == 1 && is_mark(e, *at, ",")))
            continue;
        if (!walk(e, from, last ? close : *at, outer, &one) ||
            !dgl_budget_grow(&e->budget, (void **)&e->args, &e->cap_args, e->num_args + 1,
                             sizeof(one)))
            return false;
        e->args[e->num_args++] = one;
        from = *at + 1;
    }
    *at += is_call;
    call.count = e->num_args - call.first;
    first->open = true;
    for (call.macro = first; call.macro < first + first->count; call.macro++) {
        if (call.macro->function && !is_call)
            continue;
        if (!dgl_budget_steps(&e->budget, 1) ||
            !walk(e, call.macro->body, call.macro->end, &call, &one))
            return false;
        /* The arguments of a name without parameters remain in the text. */
        for (size_t i = 0; i < call.count && !call.macro->function; i++)
            if (!append(e, &one.size, &e->args[call.first + i].size))
                return false;
        out->size = (struct size){.all = larger(out->size.all, one.size.all),
                                  .through = larger(out->size.through, one.size.through),
                                  .head = larger(out->size.head, one.size.head),
                                  .tail = larger(out->size.tail, one.size.tail),
                                  .most = larger(out->size.most, one.size.most)};
        out->last = one.last > out->last ? one.last : out->last;
    }
    first->open = false;
    e->num_args = call.first;
    e->depth--;
    return true;
}

/* Measures the words [at, end) with their macros expanded. `call` is the macro whose body they are
 * part of, or NULL. */
static bool walk(struct expander *e, size_t at, size_t end, const struct call *call,
                 struct value *out)
{
    *out = nothing;
    while (at < end) {
        const struct word *word = &e->words[at];
        const size_t num_params = call ? call->macro->num_params : 0;
        const bool ends = is_mark(e, at, ";") || is_mark(e, at, "{") || is_mark(e, at, "}");
        const struct size plain = {1, ends ? -1 : 1, ends - 1, ends - 1, 0};
        struct value one = {.size = word->macro < 0 ? plain : nothing.size, .last = word->macro};
        size_t param = 0;
        if (!dgl_budget_steps(&e->budget, 1 + num_params))
            return false;
        if (!call)
            e->line = word->token.line;
        while (
            param < num_params &&
            !dgl_str_equal(e->words[call->macro->params + 2 * param].token.text, word->token.text))
            param++;
        if (param < num_params)
            one = param < call->count ? e->args[call->first + param] : nothing;
        at++;
        while (one.last >= 0 && !e->macros[one.last].open) {
            const struct macro *macro = &e->macros[one.last];
            size_t close = at;
            if (macro->functions && at < end && is_mark(e, at, "("))
                for (size_t depth = 0; close < end; close++) {
                    depth += is_mark(e, close, "(");
                    depth -= is_mark(e, close, ")");
                    if (depth == 0)
                        break;
                }
            if (call && close == end && at < end)
                return dgl_budget_fail(&e->budget, DGL_ERR_KERNEL,
                                       "the call of %.*s in a macro has no end there",
                                       (int)macro->name.len, macro->name.p);
            close = close == end ? at : close;
            if (close == at && macro->functions == macro->count)
                break;
            struct value more;
            if (!expand(e, one.last, &at, close, call, &more) || !append(e, &one.size, &more.size))
                return false;
            one.last = more.last;
        }
        /* the name itself, if it is not expanded */
        if (one.last >= 0 && one.size.all == 0 && !append(e, &one.size, &plain))
            return false;
        if (!append(e, &out->size, &one.size))
            return false;
        /* A name in its own expansion stays a word for ever. */
        out->last = one.last >= 0 && e->macros[one.last].open ? -1 : one.last;
    }
    return true;
}

static bool measure(struct expander *e)
{
    for (size_t at = 0, end; at < e->num_words; at = end) {
        struct value value;
        e->condition = e->words[at].line_start && is_mark(e, at, "#");
        end = line_end(e, at);
        /* A call may go on over lines, up to the next directive. */
        while (!e->condition && end < e->num_words && !is_mark(e, end, "#"))
            end = line_end(e, end);
        if (e->condition && is_mark(e, at + 1, "define"))
            continue;
        if (!walk(e, at, end, NULL, &value))
            return false;
        e->total += value.size.all;
    }
    return true;
}

enum dgl_status kernel_expand_check(const struct dgl_log *log, const char *path,
                                    struct dgl_str text)
{
    struct kernel_lexer lexer;
    struct expander e = {.budget = {.log = log,
                                    .name = path,
                                    .work = "expanding the macros",
                                    .refusal = DGL_ERR_KERNEL,
                                    .max_steps = 100000000,
                                    .max_bytes = 256 << 20}};
    dgl_budget_start(&e.budget);
    if (!kernel_lexer_init(&lexer, text, 1))
        dgl_budget_fail_memory(&e.budget, text.len);
    else if (read_text(&e, &lexer))
        measure(&e);
    free(e.words);
    free(e.macros);
    free(e.args);
    kernel_lexer_finish(&lexer);
    return e.budget.status;
}
