/* Strings of JSON Schema: lengths, patterns, formats, and names of properties. */
#include "loader/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

enum {
    BOUNDED_STATES = 18000,        /* of a pattern with bounds, if it needs no escapes */
    BOUNDED_ESCAPED_STATES = 3000, /* the same, if it does; escapes add several states to each */
    PRODUCT_NODES = 150000, /* of a pattern and a length, before unreachable ones are left out */
    MAX_WARNINGS = 50,
    LEAST_LENGTH = 32 /* a maxLength is not lowered further */
};

/* --- formats --- */

/* Regular expressions of whole texts. `exact` matches only valid texts; it is what is written.
 * `wide` matches all valid texts, for proofs. */
#define YEAR "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})" /* not 0000 */
#define LEAP "(?:0[48]|[2468][048]|[13579][26])"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]["   \
    "0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}" LEAP "|" LEAP "00)-02-29)"
#define CLOCK "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME  CLOCK ":[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" CLOCK ")"
#define SOME  "[0-9]{1,9}"
#define TIMES "T(?:" SOME "H(?:" SOME "M(?:" SOME "S)?)?|" SOME "M(?:" SOME "S)?|" SOME "S)"
#define SPAN                                                                                       \
    "P(?:" SOME "W|(?:" SOME "D|" SOME "M(?:" SOME "D)?|" SOME "Y(?:" SOME "M(?:" SOME             \
    "D)?)?)(?:" TIMES ")?|" TIMES ")"
/* Labels without two hyphens in a row. At most 4 labels of 61 characters, or 10 of 23. */
#define LABEL(n) "[A-Za-z0-9](?:-?[A-Za-z0-9]){0," #n "}"
#define HOST     "(?:(?:" LABEL(30) "\\.){0,3}" LABEL(30) "|(?:" LABEL(11) "\\.){0,9}" LABEL(11) ")"
#define DOMAIN   "(?:" LABEL(11) "\\.){1,6}[A-Za-z]{2,20}"
#define ATOM     "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define LOCAL    "(?:" ATOM "{1,15}\\.){0,3}" ATOM "{1,15}"
#define OCTET    "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4     OCTET "(?:\\." OCTET "){3}"
#define H16      "[0-9A-Fa-f]{1,4}"
#define LS32     "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16             \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16       \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define PCT   "%[0-9A-Fa-f]{2}"
#define REG   "(?:[A-Za-z0-9._~!$&'()*+,;=-]|" PCT ")"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:(?:" REG "|:)*@)?" REG "+(?::[0-9]{1,5})?(?:/" PCHAR          \
    "*)*|///" PCHAR "+(?:/" PCHAR "*)*|/" PCHAR "+(?:/" PCHAR "*)*|" PCHAR "+(?:/" PCHAR           \
    "*)*)(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define HEX(n) "[0-9A-Fa-f]{" #n "}"

/* The path of a relative reference has no colon in its first segment. */
#define TAIL(char) "(?:\\?(?:" char "|[/?])*)?(?:#(?:" char "|[/?])*)?"
#define SEGMENT    "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" PCT ")"
#define RELATIVE                                                                                   \
    "(?://" REG "+(?::[0-9]{1,5})?(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|" SEGMENT      \
    "+(?:/" PCHAR "*)*)?" TAIL(PCHAR)
#define POINTER "(?:/(?:[^~/]|~[01])*)*"
/* Expressions without back references and with at most two levels of groups, which all dialects
 * accept. */
#define RE_ATOM                                                                                    \
    "(?:[A-Za-z0-9 _,:;=@#%&!~'<>-]|\\\\[dDwWsS.()*+?|^$/]|\\.|\\[\\^?(?:a-z|A-Z|0-9|\\\\[dws]|["  \
    "A-Za-z0-9_ .])+\\])"
#define RE_TIMES          "(?:[*+?]|\\{[0-9]\\})?"
#define RE_SEQUENCE(item) "(?:" item RE_TIMES ")*"
#define RE_WAYS(item)     RE_SEQUENCE(item) "(?:\\|" RE_SEQUENCE(item) ")*"
#define RE_INNER          "(?:" RE_ATOM "|\\((?:\\?:)?" RE_WAYS(RE_ATOM) "\\))"
#define RE_OUTER          "(?:" RE_ATOM "|\\((?:\\?:)?" RE_WAYS(RE_INNER) "\\))"
#define VARIABLE          "[A-Za-z0-9_]+(?:\\.[A-Za-z0-9_]+)*(?::[1-9][0-9]{0,2}|\\*)?"
#define ANYTHING          "[^]*"

static const struct format {
    const char *name, *exact, *wide;
} formats[] = {
    {"date", DATE, "[0-9]{4}-[0-9]{2}-[0-9]{2}"},
    {"time", TIME, "[0-9]{2}:[^]*"},
    {"date-time", DATE "T" TIME, "[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][^]*"},
    {"duration", SPAN, "P[^]*"},
    {"email", LOCAL "@" DOMAIN, "[^]*@[^]*"},
    {"uuid", HEX(8) "-" HEX(4) "-" HEX(4) "-" HEX(4) "-" HEX(12), "[0-9A-Fa-f-]{36}"},
    {"uri", URI, "[A-Za-z][A-Za-z0-9+.-]*:[^]*"},
    {"hostname", HOST, "[^:/@]*"},
    {"ipv4", IPV4, "[0-9.]*"},
    {"ipv6", IPV6, "[^]*:[^]*"},
    /* Subsets: ASCII only, and common forms. */
    {"uri-reference", "(?:" URI "|" RELATIVE ")", ANYTHING},
    {"iri", URI, "[A-Za-z][A-Za-z0-9+.-]*:[^]*"},
    {"iri-reference", "(?:" URI "|" RELATIVE ")", ANYTHING},
    {"uri-template",
     "(?:[A-Za-z0-9._~:/?#@!$&()*+,;=-]|" PCT "|\\{[+#./;?&]?" VARIABLE "(?:," VARIABLE ")*\\})*",
     ANYTHING},
    {"idn-email", LOCAL "@" DOMAIN, "[^]*@[^]*"},
    {"idn-hostname", HOST, "[^:/@]*"},
    {"json-pointer", POINTER, ANYTHING},
    {"relative-json-pointer", "(?:0|[1-9]{1,8})(?:#|" POINTER ")", ANYTHING},
    {"regex", "\\^?" RE_WAYS(RE_OUTER) "\\$?", ANYTHING},
};

static const struct format *find_format(struct dgl_str name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
        if (dgl_str_eq(name, formats[i].name))
            return &formats[i];
    return NULL;
}

/* Warns once for each place and text, up to MAX_WARNINGS. */
static bool warn(struct schema_reader *r, const struct dgl_json *at, const char *fmt, ...)
    DGL_PRINTF(3, 4);
static bool warn(struct schema_reader *r, const struct dgl_json *at, const char *fmt, ...)
{
    struct dgl_buf line = {0};
    if (!r->options.warnings || r->num_warnings == MAX_WARNINGS)
        return true;
    schema_pointer(r->root, at, &line);
    dgl_buf_puts(&line, ": ");
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&line, fmt, args);
    va_end(args);
    dgl_buf_puts(&line, "\n");
    bool ok = dgl_budget_steps(r->budget, 100 + r->text_len / 16);
    if (line.failed)
        ok = dgl_budget_fail_memory(r->budget, 100);
    else if (ok && !(r->options.warnings->p && strstr(r->options.warnings->p, line.p))) {
        ok = dgl_budget_append(r->budget, r->options.warnings, line.p, line.len);
        r->num_warnings++;
    }
    dgl_buf_finish(&line);
    return ok;
}

/* --- DFAs of patterns --- */

/* Finds the DFA of a regular expression. `search`: it may match anywhere. */
static bool find_known(struct schema_reader *r, struct dgl_str text, bool search, bool *found,
                       struct gr_dfa *dfa)
{
    *found = false;
    for (size_t i = 0; i < r->num_dfas && !*found; i++)
        if (r->dfas[i].search == search && dgl_str_equal(r->dfas[i].text, text)) {
            *found = true;
            *dfa = r->dfas[i].dfa;
        }
    return dgl_budget_steps(r->budget, 1 + r->num_dfas / 2 + dgl_budget_steps_of(text.len));
}

static bool make_dfa(struct schema_reader *r, struct dgl_str text, bool search, struct gr_dfa *dfa)
{
    struct gr_expr expr;
    if (r->budget->status != DGL_OK || regex_parse(r->b, text, search, &expr) != DGL_OK)
        return false;
    *dfa = gr_dfa_of(r->b, expr);
    if (!dgl_budget_grow(r->budget, (void **)&r->dfas, &r->cap_dfas, r->num_dfas + 1,
                         sizeof(*r->dfas)))
        return false;
    r->dfas[r->num_dfas++] = (struct schema_dfa){text, search, *dfa};
    return r->budget->status == DGL_OK;
}

/* Lets messages of the budget name a place. */
struct named {
    struct dgl_buf text;
    const char *before;
};

static void name_place(struct schema_reader *r, const struct dgl_json *at, struct named *named)
{
    *named = (struct named){.before = r->budget->name};
    if (!dgl_budget_steps(r->budget, 100 + r->text_len / 16))
        return;
    dgl_buf_printf(&named->text, "%s: ", named->before ? named->before : "schema");
    schema_pointer(r->root, at, &named->text);
    if (named->text.failed)
        dgl_budget_fail_memory(r->budget, 1000);
    else
        r->budget->name = named->text.p;
}

static void unname_place(struct schema_reader *r, struct named *named)
{
    r->budget->name = named->before;
    dgl_buf_finish(&named->text);
}

bool schema_pattern(struct schema_reader *r, const struct dgl_json *at, struct dgl_str text,
                    struct gr_dfa *dfa)
{
    struct named named;
    bool found, ok;
    if (!find_known(r, text, true, &found, dfa) || found)
        return r->budget->status == DGL_OK;
    name_place(r, at, &named);
    ok = make_dfa(r, text, true, dfa);
    unname_place(r, &named);
    return ok;
}

/* --- texts --- */

/* Sets *dfa to all texts but those of a list. */
static bool other_texts(struct schema_reader *r, const struct dgl_json *list, struct gr_dfa *dfa)
{
    struct gr_expr *texts = NULL;
    size_t count = 0, cap = 0;
    if (!dgl_budget_grow(r->budget, (void **)&texts, &cap, dgl_json_count(list) + 1,
                         sizeof(*texts)))
        return false;
    for (const struct dgl_json *text = dgl_json_first(list); text; text = dgl_json_next(text))
        texts[count++] = gr_literal(r->b, dgl_json_str(text));
    *dfa = gr_dfa_not(r->b, gr_dfa_of(r->b, gr_alt(r->b, texts, count)));
    free(texts);
    return r->budget->status == DGL_OK;
}

/* Adds `pattern` and `format` of one plain part. */
static bool add_patterns(struct schema_reader *r, const struct dgl_json *schema,
                         struct schema_text *out)
{
    const struct dgl_json *pattern = dgl_json_get(schema, "pattern"),
                          *name = dgl_json_get(schema, "format");
    const struct dgl_json *others = schema_word(r, schema, SCHEMA_NOT_TEXTS);
    struct gr_dfa dfas[3];
    size_t count = 0;
    if (dgl_json_count(others) && !other_texts(r, others, &dfas[count++]))
        return false;
    if (pattern) {
        if (!dgl_json_is(pattern, DGL_JSON_STRING))
            return schema_fail(r, DGL_ERR_INVALID_ARG, pattern, "wanted a regular expression");
        if (!schema_pattern(r, pattern, dgl_json_str(pattern), &dfas[count++]))
            return false;
        out->at = pattern;
    }
    if (name && !dgl_json_is(name, DGL_JSON_STRING))
        return schema_fail(r, DGL_ERR_INVALID_ARG, name, "wanted the name of a format");
    const struct format *format = name ? find_format(dgl_json_str(name)) : NULL;
    if (name && !format &&
        !warn(r, name, "the format \"%s\" is not checked", DGL_PRINTABLE_STR(dgl_json_str(name))))
        return false;
    if (format) {
        out->at = name;
        struct dgl_str text = dgl_str_of(r->proving ? format->wide : format->exact);
        bool found;
        if (!find_known(r, text, false, &found, &dfas[count]) ||
            (!found && !make_dfa(r, text, false, &dfas[count])))
            return false;
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        out->dfa = out->has_dfa ? gr_dfa_and(r->b, out->dfa, dfas[i]) : dfas[i];
        out->has_dfa = true;
    }
    return r->budget->status == DGL_OK;
}

bool schema_text_of(struct schema_reader *r, uint32_t all, struct schema_text *out)
{
    const struct dgl_json *schema;
    *out = (struct schema_text){.max = UINT64_MAX};
    if (!schema_bounds(r, all, "minLength", "maxLength", &out->min, &out->max))
        return false;
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));)
        if (!add_patterns(r, schema, out))
            return false;
    return true;
}

bool schema_string_accepts(struct schema_reader *r, const struct dgl_json *schema,
                           struct dgl_str text, bool *ok)
{
    struct schema_text t = {.max = UINT64_MAX};
    uint64_t len = 0;
    if (!schema_count(r, schema, "minLength", &t.min) ||
        !schema_count(r, schema, "maxLength", &t.max) || !add_patterns(r, schema, &t) ||
        !dgl_budget_steps(r->budget, text.len))
        return false;
    for (size_t i = 0; i < text.len; i++)
        len += ((unsigned char)text.p[i] & 0xC0) != 0x80;
    *ok = len >= t.min && len <= t.max && (!t.has_dfa || gr_dfa_accepts(r->b, t.dfa, text));
    return r->budget->status == DGL_OK;
}

/* --- lengths --- */

/* Returns true if a text of the automaton contains a character that JSON escapes. */
static bool needs_escapes(const struct automaton *a)
{
    for (uint32_t e = 0; e < a->num_edges; e++) {
        uint32_t first = label_first(a->edges[e].label), last = label_last(a->edges[e].label);
        if (first < 0x20 || (first <= '"' && last >= '"') || (first <= '\\' && last >= '\\'))
            return true;
    }
    return false;
}

static bool starts_character(uint32_t label)
{
    return (label_first(label) & 0xC0) != 0x80;
}

/* Finds the length of the longest text in code points; UINT64_MAX if there is no longest one. Sorts
 * the states by their order in all paths. */
static bool longest(struct schema_reader *r, const struct automaton *a, uint64_t *out)
{
    uint32_t *incoming = NULL, *order = NULL;
    uint64_t *length = NULL;
    size_t caps[3] = {0}, count = 0, n = a->num_states;
    bool ok = dgl_budget_steps(r->budget, n + a->num_edges) &&
              dgl_budget_grow(r->budget, (void **)&incoming, &caps[0], n, sizeof(*incoming)) &&
              dgl_budget_grow(r->budget, (void **)&order, &caps[1], n, sizeof(*order)) &&
              dgl_budget_grow(r->budget, (void **)&length, &caps[2], n, sizeof(*length));
    if (!ok)
        goto done;
    memset(incoming, 0, n * sizeof(*incoming));
    memset(length, 0, n * sizeof(*length));
    for (uint32_t e = 0; e < a->num_edges; e++)
        incoming[a->edges[e].target]++;
    if (!incoming[0])
        order[count++] = 0;
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t s = order[i];
        *out = length[s] > *out ? length[s] : *out;
        for (uint32_t e = a->states[s].first; e < a->states[s + 1].first; e++) {
            uint32_t to = a->edges[e].target;
            uint64_t len = length[s] + starts_character(a->edges[e].label);
            length[to] = len > length[to] ? len : length[to];
            if (!--incoming[to])
                order[count++] = to;
        }
    }
    if (count < n) /* a loop */
        *out = UINT64_MAX;
done:
    free(incoming);
    free(order);
    free(length);
    return ok;
}

/* Bounds of a product of a pattern and a length. */
struct product {
    uint64_t min, counts; /* characters are counted up to `counts` */
    bool open;            /* longer texts are allowed */
    uint32_t max_states;
};

/* Makes the product. Sets *too_large if it needs too many states. */
static bool make_product(struct schema_reader *r, const struct automaton *a, struct product p,
                         bool *too_large, struct automaton *out)
{
    struct nfa nfa = {0};
    uint64_t n = a->num_states, nodes = n * (p.counts + 1);
    bool ok = false;
    *out = (struct automaton){0};
    *too_large = nodes > PRODUCT_NODES;
    if (*too_large)
        return true;
    /* State (s, k): in s after k characters; if `open`, k stays at its largest value. */
    for (uint64_t i = 0; i <= nodes; i++)
        nfa_add_state(r->budget, &nfa);
    for (uint64_t k = 0; k <= p.counts && r->budget->status == DGL_OK; k++)
        for (uint32_t s = 0; s < n; s++) {
            uint32_t from = (uint32_t)(k * n + s);
            if (a->states[s].accept && k >= p.min &&
                !nfa_add_edge(r->budget, &nfa, from, NFA_EPSILON, (uint32_t)nodes))
                goto done;
            for (uint32_t e = a->states[s].first; e < a->states[s + 1].first; e++) {
                uint64_t next = k + starts_character(a->edges[e].label);
                if (next > p.counts && p.open)
                    next = p.counts;
                if (next <= p.counts && !nfa_add_edge(r->budget, &nfa, from, a->edges[e].label,
                                                      (uint32_t)(next * n + a->edges[e].target)))
                    goto done;
            }
        }
    ok = r->budget->status == DGL_OK &&
         nfa_determinize(r->budget, &nfa, 0, (uint32_t)nodes, p.max_states, too_large, out);
done:
    nfa_finish(&nfa);
    return ok;
}

/* Restricts a DFA to texts of min to max code points. A larger max is lowered to what fits, but not
 * below LEAST_LENGTH. The caller has named the place of the pattern. */
static bool bound_length(struct schema_reader *r, struct schema_text *t)
{
    const struct automaton *a = &r->b->dfas[t->dfa.id];
    struct automaton bounded;
    bool too_large;
    uint64_t most;
    if (!longest(r, a, &most))
        return false;
    if (t->min == 0 && t->max >= most)
        return true;
    struct product p = {.min = t->min,
                        .counts = t->max,
                        .max_states = needs_escapes(a) ? BOUNDED_ESCAPED_STATES : BOUNDED_STATES};
    if (t->max >= most) {
        p.open = true;
        p.counts = t->min;
    } else if (p.counts > PRODUCT_NODES) {
        p.counts = PRODUCT_NODES;
    }
    for (;;) {
        if (!make_product(r, a, p, &too_large, &bounded))
            return false;
        if (!too_large)
            break;
        p.counts /= 2;
        if (p.open || p.counts < LEAST_LENGTH || p.counts < t->min)
            return dgl_budget_fail(r->budget, DGL_ERR_UNSUPPORTED,
                                   "the pattern is too large for its %s; use a simpler pattern",
                                   p.open ? "minLength" : "maxLength");
    }
    t->dfa = gr_dfa_add(r->b, &bounded);
    return r->budget->status == DGL_OK &&
           (p.open || p.counts == t->max ||
            warn(r, t->at, "maxLength is lowered from %llu to %llu", (unsigned long long)t->max,
                 (unsigned long long)p.counts));
}

/* --- expressions --- */

struct gr_expr schema_quoted_dfa(struct schema_reader *r, struct gr_dfa dfa)
{
    struct gr_expr quote = gr_literal(r->b, DGL_STR("\""));
    if (r->budget->status == DGL_OK && needs_escapes(&r->b->dfas[dfa.id]))
        dfa = gr_dfa_json_escaped(r->b, dfa);
    struct gr_expr parts[] = {quote, gr_dfa_expr(r->b, dfa), quote};
    return gr_seq(r->b, parts, 3);
}

bool schema_string(struct schema_reader *r, uint32_t all, struct gr_expr *out)
{
    struct schema_text t;
    struct gr_expr quote = gr_literal(r->b, DGL_STR("\""));
    struct named named;
    if (!schema_text_of(r, all, &t))
        return false;
    if (t.min > t.max) {
        *out = gr_never(r->b);
        return true;
    }
    if (!t.has_dfa) {
        if (t.min > GR_MAX_COUNT)
            return schema_fail(r, DGL_ERR_UNSUPPORTED, r->parts[r->alls[all].first].schema,
                               "minLength is %llu, at most %u", (unsigned long long)t.min,
                               GR_MAX_COUNT);
        uint32_t max = t.max == UINT64_MAX    ? GR_UNBOUNDED
                       : t.max > GR_MAX_COUNT ? GR_MAX_COUNT
                                              : (uint32_t)t.max;
        struct gr_expr parts[] = {quote, gr_repeat(r->b, r->character, (uint32_t)t.min, max),
                                  quote};
        *out =
            t.min == 0 && max == GR_UNBOUNDED ? gr_call(r->b, r->string) : gr_seq(r->b, parts, 3);
        return r->budget->status == DGL_OK;
    }
    if (!dgl_budget_steps(r->budget, 1 + r->num_strings / 8))
        return false;
    for (size_t i = 0; i < r->num_strings; i++) {
        const struct schema_string *known = &r->strings[i];
        if (known->dfa == t.dfa.id && known->min == t.min && known->max == t.max) {
            *out = gr_call(r->b, known->rule);
            return r->budget->status == DGL_OK;
        }
    }
    struct schema_string made = {t.dfa.id, t.min, t.max, gr_rule_new(r->b, DGL_STR("string"))};
    if (!dgl_budget_grow(r->budget, (void **)&r->strings, &r->cap_strings, r->num_strings + 1,
                         sizeof(made)))
        return false;
    r->strings[r->num_strings++] = made;
    *out = gr_call(r->b, made.rule);
    name_place(r, t.at, &named);
    if (r->budget->status == DGL_OK && bound_length(r, &t))
        gr_rule_set(r->b, made.rule, schema_quoted_dfa(r, t.dfa));
    unname_place(r, &named);
    return r->budget->status == DGL_OK;
}

/* --- names --- */

/* Sets *dfa to the constants of a conjunction that are strings and that all parts accept. */
static bool constant_names(struct schema_reader *r, uint32_t all, const struct dgl_json *list,
                           struct gr_dfa *dfa)
{
    bool single = dgl_str_eq(dgl_json_key(list), "const"), ok = true;
    struct gr_expr *names = NULL;
    size_t count = 0, cap = 0;
    r->constants = list;
    for (const struct dgl_json *value = single ? list : dgl_json_first(list); ok && value;
         value = single ? NULL : dgl_json_next(value)) {
        bool accepted;
        if (!dgl_json_is(value, DGL_JSON_STRING))
            continue;
        ok = schema_accepts_all(r, all, value, &accepted) &&
             dgl_budget_grow(r->budget, (void **)&names, &cap, count + 1, sizeof(*names));
        if (ok && accepted)
            names[count++] = gr_literal(r->b, dgl_json_str(value));
    }
    r->constants = NULL;
    if (ok)
        *dfa = gr_dfa_of(r->b, gr_alt(r->b, names, count));
    free(names);
    return ok && r->budget->status == DGL_OK;
}

/* Sets *dfa to the texts that satisfy a conjunction. */
static bool names_of(struct schema_reader *r, uint32_t all, int depth, struct gr_dfa *dfa)
{
    const struct dgl_json *list;
    struct schema_text t;
    unsigned types;
    *dfa = gr_dfa_of(r->b, gr_never(r->b));
    if (all == SCHEMA_NEVER)
        return r->budget->status == DGL_OK;
    if (all == SCHEMA_ANY) {
        *dfa = gr_dfa_not(r->b, *dfa);
        return r->budget->status == DGL_OK;
    }
    uint32_t choice = schema_first_choice(r, all);
    if (choice != UINT32_MAX) {
        struct schema_part part = r->parts[r->alls[all].first + choice];
        if (!schema_branches(r, part, &list))
            return false;
        if (part.kind == PART_ONE_OF || depth > 8)
            return schema_fail(r, DGL_ERR_UNSUPPORTED, list,
                               "this keyword is not supported for names of properties");
        for (const struct dgl_json *branch = dgl_json_first(list); branch;
             branch = dgl_json_next(branch)) {
            struct gr_dfa other;
            uint32_t next;
            if (!schema_branch(r, all, choice, branch, &next) ||
                !names_of(r, next, depth + 1, &other))
                return false;
            *dfa = gr_dfa_or(r->b, *dfa, other);
        }
        return r->budget->status == DGL_OK;
    }
    if (!schema_enum(r, all, &list) || !schema_types(r, all, &types))
        return false;
    if (list)
        return constant_names(r, all, list, dfa);
    if (!(types & TYPE_STRING))
        return true;
    if (!schema_text_of(r, all, &t))
        return false;
    if (t.min > t.max)
        return true;
    if (!t.has_dfa)
        t.dfa = gr_dfa_not(r->b, *dfa);
    struct named named;
    name_place(r, t.at ? t.at : r->parts[r->alls[all].first].schema, &named);
    /* Bounds may be lowered, so they prove nothing. */
    bool ok = r->budget->status == DGL_OK && (r->proving || bound_length(r, &t));
    unname_place(r, &named);
    *dfa = t.dfa;
    return ok;
}

bool schema_names(struct schema_reader *r, const struct dgl_json *word, struct gr_dfa *dfa)
{
    const struct dgl_json *constants = r->constants;
    struct schema_set set = {0};
    uint32_t all;
    if (!dgl_budget_steps(r->budget, 1 + r->num_names / 4))
        return false;
    for (size_t i = 0; i < r->num_names; i++)
        if (r->names[i].word == word && r->names[i].proving == r->proving) {
            *dfa = r->names[i].dfa;
            return true;
        }
    bool ok = schema_set_add(r, &set, word) && schema_intern(r, &set, &all) &&
              names_of(r, all, 0, dfa) &&
              dgl_budget_grow(r->budget, (void **)&r->names, &r->cap_names, r->num_names + 1,
                              sizeof(*r->names));
    schema_set_finish(&set);
    r->constants = constants;
    if (ok)
        r->names[r->num_names++] = (struct schema_key_names){word, r->proving, *dfa};
    return ok;
}
