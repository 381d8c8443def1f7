/*
 * Expands the macros of a kernel's text without storing the result: counts its words, and the lines
 * on which they were written. A few lines of macros can expand to 2^64 words, but drivers run out
 * of memory or stack far earlier. For an error in a macro, drivers only report the line that uses
 * the macro.
 *
 * The branch of an #if that the driver selects is known if its condition contains only numbers and
 * names with a single numeric definition that is the same for all drivers: decide(). Otherwise all
 * branches are counted, and a name with several definitions expands to all of them. So the count is
 * never too low.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/format/kernel_lexer.h"
#include "kernels/format/kernel_parser.h"

enum { max_nesting = 100 };    /* of calls in the arguments of calls */
enum { max_branches = 64 };    /* of #if in #if that are decided; deeper ones are not */
enum { max_number = 1000000 }; /* in a condition, so that no driver's numbers overflow */

struct word {
    enum kernel_token_kind kind;
    struct dgl_str text;
    uint32_t line;   /* that it was written on, as #line counts */
    bool line_start; /* the first one of its line */
    bool painted;    /* met while its macro was being expanded: stays a word for ever */
    int32_t name;    /* index of its text among the names; -1 = no word */
};
struct words {
    struct word *items;
    size_t count, cap;
};

/* One definition; those of one name are linked. */
struct macro {
    bool function;
    const struct word *params, *body; /* parameters with commas between */
    size_t num_params, num_body;
    bool certain; /* not in a branch that the driver may leave out */
    int32_t next; /* -1 if last */
};

/* A chain #if, #elif, #else, as far as it was read. */
enum branch {
    BRANCH_UNKNOWN, /* all count */
    BRANCH_TAKEN,   /* this one counts, the rest does not */
    BRANCH_PAST,    /* one before counted */
    BRANCH_AHEAD,   /* no branch was selected yet */
};

/* The next words: a range of the text, or the expansion of a macro. */
struct source {
    const struct word *words;
    size_t count, at;
    struct words owned; /* freed with the source; empty = borrowed */
    int32_t name;       /* of the macro that is being expanded, or -1 */
};

struct expander {
    struct dgl_budget budget;
    struct words text;
    struct dgl_str *names;
    size_t num_names;
    int32_t *first; /* by name: its newest macro, or -1 */
    uint32_t *open; /* by name: how often it is being expanded */
    struct macro *macros;
    size_t num_macros, cap_macros;
    struct source *sources;
    size_t num_sources, cap_sources;
    int nesting;
    uint64_t total, statement;
    enum branch branches[max_branches];
    size_t num_branches; /* may be more than max_branches: those are BRANCH_UNKNOWN */
    bool undefines;      /* an #undef was seen: no definition is certain after it */
    uint32_t line;       /* of the last word of the text itself */
    bool condition;      /* it is a directive */
    uint32_t begin_line; /* first line of the macro call that is being expanded */
    const struct kernel_expand_trace *trace; /* receives the words of its line; may be NULL */
};

/* ---- words ----------------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
    const struct dgl_str *x = a, *y = b;
    size_t len = x->len < y->len ? x->len : y->len;
    int order = memcmp(x->p, y->p, len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static bool words_add(struct expander *e, struct words *words, struct word word)
{
    if (!dgl_budget_steps(&e->budget, 1) ||
        !dgl_budget_grow(&e->budget, (void **)&words->items, &words->cap, words->count + 1,
                         sizeof(word)))
        return false;
    words->items[words->count++] = word;
    return true;
}

static void words_free(struct expander *e, struct words *words)
{
    dgl_budget_release(&e->budget, words->cap * sizeof(*words->items));
    free(words->items);
    *words = (struct words){0};
}

static bool is_mark(const struct word *word, const char *mark)
{
    return dgl_str_eq(word->text, mark);
}

/* All words of the text, and the names among them in order. */
static bool words_read(struct expander *e, struct kernel_lexer *lexer)
{
    bool line_start = true;
    size_t cap = 0, kept = 0;
    int64_t offset = 0, given; /* offset from lines of the text to the numbers of #line */
    for (;;) {
        struct kernel_token token = kernel_lexer_next(lexer);
        if (token.kind == TOKEN_END)
            break;
        bool newline = token.kind == TOKEN_NEWLINE;
        if (!newline && !words_add(e, &e->text,
                                   (struct word){.kind = token.kind,
                                                 .text = token.text,
                                                 .line = (uint32_t)(token.line + offset),
                                                 .line_start = line_start,
                                                 .name = -1}))
            return false;
        line_start = newline;
        const struct word *last = e->text.items + e->text.count; /* the line ends here */
        if (newline && e->text.count >= 3 && last[-3].line_start && is_mark(&last[-3], "#") &&
            is_mark(&last[-2], "line") && dgl_parse_i64(last[-1].text, 0, INT32_MAX, &given))
            offset = given - token.line - 1;
        if (token.kind != TOKEN_WORD)
            continue;
        if (!dgl_budget_grow(&e->budget, (void **)&e->names, &cap, e->num_names + 1,
                             sizeof(*e->names)))
            return false;
        e->names[e->num_names++] = token.text;
    }
    if (e->num_names)
        qsort(e->names, e->num_names, sizeof(*e->names), compare_texts);
    for (size_t i = 0; i < e->num_names; i++)
        if (i == 0 || compare_texts(&e->names[i], &e->names[kept - 1]) != 0)
            e->names[kept++] = e->names[i];
    e->num_names = kept;
    for (size_t i = 0; i < e->text.count; i++) {
        struct word *word = &e->text.items[i];
        if (word->kind != TOKEN_WORD)
            continue;
        const struct dgl_str *name =
            bsearch(&word->text, e->names, kept, sizeof(*e->names), compare_texts);
        word->name = (int32_t)(name - e->names);
    }
    e->first = dgl_new_array(int32_t, kept);
    e->open = dgl_new_array(uint32_t, kept);
    if (!e->first || !e->open)
        return dgl_budget_fail_memory(&e->budget, kept * sizeof(int32_t));
    for (size_t i = 0; i < kept; i++)
        e->first[i] = -1;
    return true;
}

/* The end of the line that begins at `at`. */
static size_t line_end(const struct words *text, size_t at)
{
    do
        at++;
    while (at < text->count && !text->items[at].line_start);
    return at;
}

/* ---- branches -------------------------------------------------------------------------------- */

/* Returns true if the driver certainly reads the present branch. */
static bool is_certain(const struct expander *e)
{
    for (size_t i = 0; i < e->num_branches; i++)
        if (i >= max_branches || e->branches[i] != BRANCH_TAKEN)
            return false;
    return true;
}

/* Returns true if the driver certainly skips the present branch. */
static bool is_left_out(const struct expander *e)
{
    for (size_t i = 0; i < e->num_branches && i < max_branches; i++)
        if (e->branches[i] == BRANCH_PAST || e->branches[i] == BRANCH_AHEAD)
            return true;
    return false;
}

/* A number as every preprocessor reads it: decimal, small. */
static bool plain_number(const struct word *word, int64_t *out)
{
    return word->text.len > 0 && (word->text.p[0] != '0' || word->text.len == 1) &&
           dgl_parse_i64(word->text, 0, max_number, out);
}

/* The branch that begins with the condition [at, end). */
static enum branch decide(struct expander *e, size_t at, size_t end)
{
    static const char marks[] = "&|!=<>()+-";
    struct dgl_arena arena = {0};
    struct dgl_buf text = {0};
    const struct kernel_expr *expr = NULL;
    enum branch branch = BRANCH_UNKNOWN;
    bool plain = !e->undefines && end - at <= 64;
    for (; at < end && plain; at++) {
        const struct word *word = &e->text.items[at];
        int64_t number = 0;
        if (word->kind == TOKEN_WORD) {
            const int32_t m = e->first[word->name];
            plain = m >= 0 && e->macros[m].next < 0 && e->macros[m].certain &&
                    !e->macros[m].function && e->macros[m].num_body == 1 &&
                    plain_number(e->macros[m].body, &number);
        } else if (!plain_number(word, &number)) {
            for (size_t i = 0; i < word->text.len; i++)
                plain = plain && strchr(marks, word->text.p[i]);
            dgl_buf_append(&text, word->text.p, word->text.len);
            continue;
        }
        dgl_buf_printf(&text, " %lld", (long long)number);
    }
    struct dgl_str rest = {text.p, text.len};
    const char *bad;
    int64_t value;
    if (plain && !text.failed && text.len > 0 && kernel_expr_parse(&arena, &rest, &expr, &bad) &&
        rest.len == 0 && kernel_expr_eval(expr, NULL, 0, &value, &bad))
        branch = value ? BRANCH_TAKEN : BRANCH_AHEAD;
    dgl_arena_finish(&arena);
    dgl_buf_finish(&text);
    return branch;
}

/* Handles the directive at `at`, whose line ends at `end`. */
static void follow_branches(struct expander *e, size_t at, size_t end)
{
    const struct word *name = at + 1 < end ? &e->text.items[at + 1] : &e->text.items[at];
    enum branch *top = e->num_branches > 0 && e->num_branches <= max_branches
                           ? &e->branches[e->num_branches - 1]
                           : NULL;
    if (is_mark(name, "if") || is_mark(name, "ifdef") || is_mark(name, "ifndef")) {
        enum branch branch = BRANCH_UNKNOWN;
        if (is_left_out(e))
            branch = BRANCH_PAST;
        else if (is_mark(name, "if"))
            branch = decide(e, at + 2, end);
        if (e->num_branches < max_branches)
            e->branches[e->num_branches] = branch;
        e->num_branches++;
    } else if (is_mark(name, "endif")) {
        e->num_branches -= e->num_branches > 0;
    } else if (is_mark(name, "undef")) {
        e->undefines = true;
    } else if (top && *top == BRANCH_TAKEN && (is_mark(name, "elif") || is_mark(name, "else"))) {
        *top = BRANCH_PAST;
    } else if (top && *top == BRANCH_AHEAD && is_mark(name, "else")) {
        *top = BRANCH_TAKEN;
    } else if (top && *top == BRANCH_AHEAD && is_mark(name, "elif")) {
        *top = decide(e, at + 2, end);
    }
}

/* [at, end) follows "#define". */
static bool macro_define(struct expander *e, size_t at, size_t end)
{
    const struct word *words = e->text.items;
    if (at == end || words[at].kind != TOKEN_WORD)
        return true;
    int32_t *first = &e->first[words[at].name];
    struct macro macro = {.certain = is_certain(e), .next = *first};
    const char *after_name = words[at].text.p + words[at].text.len;
    at++;
    macro.function = at < end && is_mark(&words[at], "(") && words[at].text.p == after_name;
    if (macro.function) {
        macro.params = &words[++at];
        while (at < end && !is_mark(&words[at], ")"))
            at++;
        macro.num_params = (size_t)(&words[at] - macro.params);
        at += at < end;
    }
    macro.body = &words[at];
    macro.num_body = end - at;
    if (!dgl_budget_grow(&e->budget, (void **)&e->macros, &e->cap_macros, e->num_macros + 1,
                         sizeof(macro)))
        return false;
    *first = (int32_t)e->num_macros;
    e->macros[e->num_macros++] = macro;
    return true;
}

/* ---- expanding ------------------------------------------------------------------------------- */

static bool push(struct expander *e, struct source source)
{
    if (!dgl_budget_grow(&e->budget, (void **)&e->sources, &e->cap_sources, e->num_sources + 1,
                         sizeof(source))) {
        words_free(e, &source.owned);
        return false;
    }
    e->sources[e->num_sources++] = source;
    if (source.name >= 0)
        e->open[source.name]++;
    return true;
}

/* Reads the next word, and removes it if `take`. Returns false if no word is left above the source
 * `floor`. */
static bool next(struct expander *e, size_t floor, bool take, struct word *out)
{
    while (e->num_sources > floor) {
        struct source *top = &e->sources[e->num_sources - 1];
        if (top->at < top->count) {
            *out = top->words[top->at];
            top->at += take;
            if (e->num_sources == 1)
                e->line = out->line;
            return true;
        }
        if (top->name >= 0)
            e->open[top->name]--;
        words_free(e, &top->owned);
        e->num_sources--;
    }
    return false;
}

static bool expand(struct expander *e, size_t floor, struct words *out);

/* A word of the result: counted, or kept as part of an argument. */
static bool emit(struct expander *e, struct word word, struct words *out)
{
    if (out)
        return words_add(e, out, word);
    bool ends = is_mark(&word, ";") || is_mark(&word, "{") || is_mark(&word, "}");
    e->statement = ends ? 0 : e->statement + 1;
    if (e->trace && e->begin_line <= e->trace->line && e->trace->line <= e->line)
        e->trace->cb(e->trace->priv, word.text, word.line);
    bool large = ++e->total > KERNEL_MAX_WORDS;
    if (!large && e->statement <= KERNEL_MAX_STATEMENT)
        return true;
    e->budget.line = e->line < KERNEL_LIB_LINES ? e->line : 0;
    return dgl_budget_fail(&e->budget, DGL_ERR_KERNEL,
                           "%s has more than %d words after its macros are expanded",
                           large          ? "the text"
                           : e->condition ? "the condition of an #if"
                                          : "a statement",
                           large ? KERNEL_MAX_WORDS : KERNEL_MAX_STATEMENT);
}

/* The arguments of a call, expanded, from its bracket on. Argument i ends at ends[i] in *out. */
struct arguments {
    struct words words;
    size_t ends[KERNEL_MAX_MACRO_PARAMS];
    size_t count;
};

static bool arguments_read(struct expander *e, size_t floor, struct arguments *out)
{
    struct words one = {0};
    struct word word;
    size_t depth = 0;
    bool ok = next(e, floor, true, &word); /* the bracket */
    bool more = ok;
    while (ok && more) {
        more = next(e, floor, true, &word);
        bool close = more && is_mark(&word, ")") && depth == 0;
        if (!more || close || (depth == 0 && is_mark(&word, ","))) {
            size_t here = e->num_sources;
            if (++e->nesting > max_nesting)
                ok = dgl_budget_fail(&e->budget, DGL_ERR_KERNEL,
                                     "macros are nested more than %d deep", max_nesting);
            ok = ok &&
                 push(e, (struct source){.words = one.items, .count = one.count, .name = -1}) &&
                 expand(e, here, &out->words);
            e->nesting--;
            one.count = 0;
            if (out->count < KERNEL_MAX_MACRO_PARAMS)
                out->ends[out->count++] = out->words.count;
            more = more && !close;
            continue;
        }
        depth += is_mark(&word, "(");
        depth -= is_mark(&word, ")");
        ok = words_add(e, &one, word);
    }
    words_free(e, &one);
    return ok;
}

/* Pushes the expansion of a macro with its arguments. */
static bool substitute(struct expander *e, int32_t name, const struct macro *macro,
                       const struct arguments *args)
{
    struct words made = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < macro->num_body; i++) {
        const struct word *word = &macro->body[i];
        size_t p = 0;
        while (p < macro->num_params && (word->name < 0 || macro->params[p].name != word->name))
            p++;
        /* Parameters and commas take turns. */
        size_t arg = p / 2;
        if (p == macro->num_params) {
            ok = words_add(e, &made, *word);
        } else if (arg < args->count) {
            for (size_t k = arg ? args->ends[arg - 1] : 0; ok && k < args->ends[arg]; k++)
                ok = words_add(e, &made, args->words.items[k]);
        }
        ok = ok && dgl_budget_steps(&e->budget, macro->num_params);
    }
    if (ok)
        return push(e, (struct source){made.items, made.count, 0, made, name});
    words_free(e, &made);
    return false;
}

/* Expands all words above the source `floor`. */
static bool expand(struct expander *e, size_t floor, struct words *out)
{
    struct word word, bracket;
    bool ok = true;
    while (ok && next(e, floor, true, &word)) {
        ok = dgl_budget_steps(&e->budget, 1);
        if (e->num_sources == 1)
            e->begin_line = word.line;
        int32_t first = word.name >= 0 && !word.painted ? e->first[word.name] : -1;
        if (first >= 0 && e->open[word.name]) {
            word.painted = true;
            first = -1;
        }
        bool object = false, function = false;
        for (int32_t m = first; m >= 0; m = e->macros[m].next) {
            object |= !e->macros[m].function;
            function |= e->macros[m].function;
        }
        function = function && next(e, floor, false, &bracket) && is_mark(&bracket, "(");
        struct arguments args = {0};
        if (ok && function)
            ok = arguments_read(e, floor, &args);
        if (ok && !object && !function)
            ok = emit(e, word, out);
        for (int32_t m = first; ok && m >= 0; m = e->macros[m].next) {
            const struct macro *macro = &e->macros[m];
            if (macro->function && function)
                ok = substitute(e, word.name, macro, &args);
            else if (!macro->function)
                ok = push(e, (struct source){macro->body, macro->num_body, 0, {0}, word.name});
        }
        words_free(e, &args.words);
    }
    return ok;
}

/* Expands a complete text. */
static enum dgl_status expand_text(struct expander *e, struct dgl_str text)
{
    struct kernel_lexer lexer;
    dgl_budget_start(&e->budget);
    bool ok = kernel_lexer_init(&lexer, text, 1) || dgl_budget_fail_memory(&e->budget, text.len);
    ok = ok && words_read(e, &lexer);
    const struct word *words = e->text.items;
    for (size_t at = 0, end; ok && at < e->text.count; at = end) {
        bool directive = words[at].line_start && is_mark(&words[at], "#");
        bool define = directive && at + 1 < e->text.count && is_mark(&words[at + 1], "define");
        end = line_end(&e->text, at);
        /* A call may go on over lines, up to the next directive. */
        while (!directive && end < e->text.count && !is_mark(&words[end], "#"))
            end = line_end(&e->text, end);
        /* A condition counts, too, unless it is passed over. */
        const bool left_out = is_left_out(e);
        e->condition = directive;
        if (directive)
            follow_branches(e, at, end);
        if (left_out && is_left_out(e))
            ;
        else if (define)
            ok = macro_define(e, at + 2, end);
        else
            ok = push(e, (struct source){.words = &words[at], .count = end - at, .name = -1}) &&
                 expand(e, 0, NULL);
        if (directive)
            e->statement = 0;
    }
    while (e->num_sources)
        words_free(e, &e->sources[--e->num_sources].owned);
    free(e->sources);
    free(e->macros);
    free(e->first);
    free(e->open);
    free(e->names);
    free(e->text.items);
    kernel_lexer_finish(&lexer);
    return e->budget.status;
}

static struct dgl_budget budget_of(const struct dgl_log *log, const char *path)
{
    return (struct dgl_budget){.log = log,
                               .name = path,
                               .work = "expanding the macros",
                               .refusal = DGL_ERR_KERNEL,
                               .max_steps = 100000000,
                               .max_bytes = 256 << 20};
}

enum dgl_status kernel_expand_check(const struct dgl_log *log, const char *path,
                                    struct dgl_str text)
{
    struct expander e = {.budget = budget_of(log, path)};
    return expand_text(&e, text);
}

void kernel_expand_line(struct dgl_str text, const struct kernel_expand_trace *trace)
{
    const struct dgl_log quiet = {0};
    struct expander e = {.budget = budget_of(&quiet, "a text"), .trace = trace};
    expand_text(&e, text);
}
