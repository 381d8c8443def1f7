/* Numbers of JSON Schema: bounds and multiples as automata over decimal digits. */
#include "loader/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_DIGITS = 20,   /* before the point, and after it */
    EXACT_DIGITS = 15,  /* different numbers of so many digits are different doubles */
    MAX_DECIMALS = 40,  /* of a bound */
    MAX_DIVISOR = 1000, /* the part of multipleOf without its power of ten */
    MAX_DIVISOR_STATES = 12000
};

/* 0.d1d2d3... * 10^point. Without leading and trailing zeros; zero has no digits. */
struct decimal {
    bool negative;
    uint8_t digits[64];
    int len, point;
};

/* --- decimals --- */

/* Reads a number as it was written. The JSON reader accepts at most 63 characters. */
static struct decimal decimal_of(const struct dgl_json *number)
{
    struct decimal d = {0};
    struct dgl_str text = dgl_json_spelling(number);
    struct dgl_buf shortest = {0};
    int exponent = 0, sign = 1;
    bool fraction = false;
    if (!text.len) {
        dgl_buf_f64(&shortest, dgl_json_f64(number));
        text = (struct dgl_str){shortest.p ? shortest.p : "0", shortest.len};
    }
    size_t i = 0;
    for (; i < text.len && text.p[i] != 'e' && text.p[i] != 'E'; i++) {
        char c = text.p[i];
        if (c == '-')
            d.negative = true;
        if (c == '.')
            fraction = true;
        if (c < '0' || c > '9')
            continue;
        if (d.len || c != '0') {
            if (d.len < (int)sizeof(d.digits))
                d.digits[d.len++] = (uint8_t)(c - '0');
            d.point += !fraction;
        } else if (fraction) {
            d.point--;
        }
    }
    for (i++; i < text.len; i++) {
        char c = text.p[i];
        if (c == '-')
            sign = -1;
        if (c >= '0' && c <= '9' && exponent < 100000)
            exponent = exponent * 10 + (c - '0');
    }
    d.point += sign * exponent;
    while (d.len && !d.digits[d.len - 1])
        d.len--;
    if (!d.len) {
        d.negative = false;
        d.point = 0;
    }
    dgl_buf_finish(&shortest);
    return d;
}

static int compare_magnitudes(const struct decimal *a, const struct decimal *b)
{
    if (!a->len || !b->len)
        return (a->len > 0) - (b->len > 0);
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    int least = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->digits, b->digits, (size_t)least);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

bool schema_is_whole(const struct dgl_json *number)
{
    struct decimal d = decimal_of(number);
    return d.point >= d.len;
}

bool schema_numbers_equal(const struct dgl_json *left, const struct dgl_json *right)
{
    struct decimal a = decimal_of(left), b = decimal_of(right);
    return compare(&a, &b) == 0;
}

uint64_t schema_number_hash(const struct dgl_json *number)
{
    struct decimal d = decimal_of(number);
    uint64_t hash = schema_mix((uint64_t)(int64_t)d.point * 2 + d.negative);
    for (int i = 0; i < d.len; i++)
        hash = (hash ^ d.digits[i]) * 0x100000001b3u;
    return hash;
}

/* --- bounds of a conjunction --- */

struct bound {
    bool set, strict;
    struct decimal at;
    const struct dgl_json *word;
};
struct bounds {
    struct bound low, high;
};

/* Replaces a bound by a stronger one. `sign` is 1 for lower bounds, -1 for upper ones. */
static void strengthen(struct bound *bound, const struct dgl_json *word, bool strict, int sign)
{
    struct bound other = {true, strict, decimal_of(word), word};
    int order = bound->set ? sign * compare(&other.at, &bound->at) : 1;
    if (order > 0 || (order == 0 && strict))
        *bound = other;
}

/* Reads `minimum` and `exclusiveMinimum`, or the upper ones. The exclusive one is a boolean in
 * draft 4. */
static bool read_bound(struct schema_reader *r, const struct dgl_json *schema, const char *word,
                       const char *strict_word, int sign, struct bound *bound)
{
    const struct dgl_json *value = dgl_json_get(schema, word),
                          *strict = dgl_json_get(schema, strict_word);
    if (value && !dgl_json_is(value, DGL_JSON_NUMBER))
        return schema_fail(r, DGL_ERR_INVALID_ARG, value, "wanted a number");
    if (strict && !dgl_json_is(strict, DGL_JSON_NUMBER) && !dgl_json_is(strict, DGL_JSON_BOOL))
        return schema_fail(r, DGL_ERR_INVALID_ARG, strict, "wanted a number");
    if (value)
        strengthen(bound, value, dgl_json_is(strict, DGL_JSON_BOOL) && dgl_json_bool(strict), sign);
    if (dgl_json_is(strict, DGL_JSON_NUMBER))
        strengthen(bound, strict, true, sign);
    return true;
}

static bool read_bounds(struct schema_reader *r, const struct dgl_json *schema,
                        struct bounds *bounds)
{
    return read_bound(r, schema, "minimum", "exclusiveMinimum", 1, &bounds->low) &&
           read_bound(r, schema, "maximum", "exclusiveMaximum", -1, &bounds->high);
}

static bool bounds_of(struct schema_reader *r, uint32_t all, struct bounds *bounds)
{
    const struct dgl_json *schema;
    *bounds = (struct bounds){0};
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));)
        if (!read_bounds(r, schema, bounds))
            return false;
    return true;
}

static bool within(const struct bounds *bounds, const struct decimal *d)
{
    int low = bounds->low.set ? compare(d, &bounds->low.at) : 1;
    int high = bounds->high.set ? compare(&bounds->high.at, d) : 1;
    return low >= (bounds->low.strict ? 1 : 0) && high >= (bounds->high.strict ? 1 : 0);
}

bool schema_numbers_disjoint(struct schema_reader *r, uint32_t left, uint32_t right, bool *proven)
{
    struct bounds a, b;
    if (!bounds_of(r, left, &a) || !bounds_of(r, right, &b))
        return false;
    for (int i = 0; i < 2; i++) {
        const struct bound *low = i ? &b.low : &a.low, *high = i ? &a.high : &b.high;
        int order = low->set && high->set ? compare(&low->at, &high->at) : -1;
        *proven = order > 0 || (order == 0 && (low->strict || high->strict));
        if (*proven)
            return true;
    }
    return true;
}

/* --- multiples --- */

/* divisor * 10^-decimals */
struct multiple {
    uint32_t divisor, decimals;
};

/* Reads `multipleOf`. Sets the divisor to 0 if it is absent. */
static bool read_multiple(struct schema_reader *r, const struct dgl_json *schema,
                          struct multiple *m)
{
    const struct dgl_json *value = dgl_json_get(schema, "multipleOf");
    *m = (struct multiple){0};
    if (!value)
        return true;
    struct decimal d = decimal_of(value);
    if (!dgl_json_is(value, DGL_JSON_NUMBER) || d.negative || !d.len)
        return schema_fail(r, DGL_ERR_INVALID_ARG, value, "wanted a number above 0");
    uint32_t divisor = 0;
    for (int i = 0; i < d.len || i < d.point; i++) {
        divisor = divisor * 10 + (i < d.len ? d.digits[i] : 0);
        if (divisor > MAX_DIVISOR)
            break;
    }
    int decimals = d.len > d.point ? d.len - d.point : 0;
    if (divisor > MAX_DIVISOR || decimals > MOST_DIGITS ||
        divisor * (uint32_t)(decimals + 2) > MAX_DIVISOR_STATES)
        return schema_fail(r, DGL_ERR_UNSUPPORTED, value,
                           "wanted a number of at most %d, or one with fewer digits", MAX_DIVISOR);
    *m = (struct multiple){divisor, (uint32_t)decimals};
    return true;
}

static bool is_multiple(const struct decimal *d, struct multiple m)
{
    int last = d->point + (int)m.decimals; /* digits of d * 10^decimals before the point */
    uint32_t rest = 0;
    if (d->len > last)
        return d->len == 0;
    for (int i = 0; i < last; i++)
        rest = (rest * 10 + (i < d->len ? d->digits[i] : 0)) % m.divisor;
    return rest == 0;
}

bool schema_number_accepts(struct schema_reader *r, const struct dgl_json *schema,
                           const struct dgl_json *value, bool *ok)
{
    struct bounds bounds = {0};
    struct multiple m;
    struct decimal d = decimal_of(value);
    if (!read_bounds(r, schema, &bounds) || !read_multiple(r, schema, &m) ||
        !dgl_budget_steps(r->budget, 50 + (uint64_t)(d.point > 0 ? d.point : 0)))
        return false;
    *ok = within(&bounds, &d) && (!m.divisor || is_multiple(&d, m));
    return true;
}

/* --- automata --- */

/* An NFA in the making. All helpers do nothing after a failure. */
struct maker {
    struct schema_reader *r;
    struct nfa nfa;
    uint32_t end; /* the accepting state */
};

static uint32_t state(struct maker *m)
{
    return nfa_add_state(m->r->budget, &m->nfa);
}

static void edge(struct maker *m, uint32_t from, int first, int last, uint32_t to)
{
    if (m->r->budget->status == DGL_OK && first <= last)
        nfa_add_edge(m->r->budget, &m->nfa, from, LABEL_BYTES(first, last), to);
}

static void accept(struct maker *m, uint32_t from)
{
    if (m->r->budget->status == DGL_OK)
        nfa_add_edge(m->r->budget, &m->nfa, from, NFA_EPSILON, m->end);
}

static struct gr_dfa determinize(struct maker *m, uint32_t start)
{
    struct gr_dfa dfa = {0};
    struct automaton a = {0};
    bool too_large;
    if (m->r->budget->status == DGL_OK &&
        nfa_determinize(m->r->budget, &m->nfa, start, m->end, GR_MAX_DFA_STATES, &too_large, &a)) {
        if (too_large)
            gr_dfa_fail_size(m->r->b);
        else
            dfa = gr_dfa_add(m->r->b, &a);
    }
    nfa_finish(&m->nfa);
    return dfa;
}

/* The digits of a bound before and after the point. */
struct split {
    uint8_t whole[400], part[MAX_DECIMALS + 1];
    int num_whole, num_part;
};

static bool split_decimal(const struct decimal *d, struct split *s)
{
    *s = (struct split){.num_whole = d->point > 1 ? d->point : 1};
    s->num_part = d->len > d->point ? d->len - d->point : 0;
    if (s->num_whole > 400 || s->num_part > MAX_DECIMALS)
        return false;
    for (int i = 0; i < d->len; i++)
        if (i < d->point)
            s->whole[i] = d->digits[i];
        else
            s->part[i - d->point] = d->digits[i];
    return true;
}

/* Returns the decimals without a sign that are at least, or at most, a bound. */
static struct gr_dfa compared(struct schema_reader *r, const struct split *s, bool at_least,
                              bool strict)
{
    struct maker m = {.r = r};
    int n = s->num_whole;
    m.end = state(&m);
    uint32_t start = state(&m), point = state(&m), loose = state(&m), any[MOST_DIGITS + 1], next,
             tight = start;
    /* any[k]: k more digits before the point, and then any digits after it. */
    any[0] = state(&m);
    accept(&m, any[0]);
    edge(&m, any[0], '.', '.', point);
    edge(&m, point, '0', '9', loose);
    edge(&m, loose, '0', '9', loose);
    accept(&m, loose);
    for (int k = 1; k <= n; k++) {
        any[k] = state(&m);
        edge(&m, any[k], '0', '9', any[k - 1]);
    }
    if (at_least) { /* more digits than the bound: `more` reads any number, each state one */
        uint32_t more = state(&m), longer = more;
        edge(&m, more, '0', '9', more);
        edge(&m, more, '.', '.', point);
        accept(&m, more);
        for (int k = 0; k < n; k++) {
            next = state(&m);
            edge(&m, next, '0', '9', longer);
            longer = next;
        }
        edge(&m, start, '1', '9', longer);
    } else {
        for (int k = 1; k < n; k++) /* fewer digits */
            edge(&m, start, '1', '9', any[k - 1]);
        if (n > 1)
            edge(&m, start, '0', '0', any[0]);
    }
    for (int i = 0; i < n; i++) {
        int digit = '0' + s->whole[i], least = i == 0 && n > 1 ? '1' : '0';
        next = state(&m);
        if (at_least)
            edge(&m, tight, digit + 1, '9', any[n - i - 1]);
        else
            edge(&m, tight, least, digit - 1, any[n - i - 1]);
        edge(&m, tight, digit, digit, next);
        tight = next;
    }
    /* Equal up to the point. */
    if (at_least ? !s->num_part && !strict : s->num_part || !strict)
        accept(&m, tight);
    next = state(&m);
    edge(&m, tight, '.', '.', next);
    tight = next;
    for (int j = 0; j < s->num_part; j++) {
        int digit = '0' + s->part[j];
        next = state(&m);
        if (at_least)
            edge(&m, tight, digit + 1, '9', loose);
        else
            edge(&m, tight, '0', digit - 1, loose);
        edge(&m, tight, digit, digit, next);
        tight = next;
        if (!at_least && j + 1 < s->num_part)
            accept(&m, tight);
    }
    /* All digits of the bound were read; zeros may follow. */
    next = state(&m);
    if (s->num_part && !strict)
        accept(&m, tight);
    edge(&m, tight, '0', '0', next);
    edge(&m, next, '0', '0', next);
    if (!strict)
        accept(&m, next);
    if (at_least) {
        edge(&m, tight, '1', '9', loose);
        edge(&m, next, '1', '9', loose);
    }
    return determinize(&m, start);
}

/* Returns the multiples without a sign. */
static struct gr_dfa multiples(struct schema_reader *r, struct multiple f)
{
    struct maker m = {.r = r};
    uint32_t n = f.divisor, columns = f.decimals + 3, power = 1;
    m.end = state(&m);
    uint32_t start = state(&m), base = start + 1;
    /* Column 0: before the point; 1: after the point; 2 + j: after j + 1 decimals. The last column
     * also reads more zeros. */
    for (uint32_t i = 0; i < n * columns && r->budget->status == DGL_OK; i++)
        state(&m);
    for (uint32_t j = 0; j < f.decimals; j++)
        power = power * 10 % n;
    for (uint32_t v = 0; v < n && r->budget->status == DGL_OK; v++) {
        uint32_t scale = power;
        if ((uint64_t)v * scale % n == 0)
            accept(&m, base + v);
        edge(&m, base + v, '.', '.', base + n + v);
        for (int d = 0; d < 10; d++) {
            uint32_t to = (v * 10 + (uint32_t)d) % n;
            edge(&m, base + v, '0' + d, '0' + d, base + to);
            for (uint32_t j = 0; j < f.decimals; j++)
                edge(&m, base + (1 + j) * n + v, '0' + d, '0' + d, base + (2 + j) * n + to);
        }
        /* After j decimals the value is v * 10^(decimals - j). */
        for (uint32_t j = 1; j <= f.decimals; j++) {
            uint64_t left = v;
            for (uint32_t k = j; k < f.decimals; k++)
                left = left * 10 % n;
            if (left % n == 0)
                accept(&m, base + (1 + j) * n + v);
        }
        uint32_t full = base + (1 + f.decimals) * n + v, zeros = base + (2 + f.decimals) * n + v;
        edge(&m, full, '0', '0', zeros);
        edge(&m, zeros, '0', '0', zeros);
        if (v == 0)
            accept(&m, zeros);
    }
    for (int d = 0; d < 10; d++)
        edge(&m, start, '0' + d, '0' + d, base + (uint32_t)d % n);
    return determinize(&m, start);
}

/* Returns the decimals with at most EXACT_DIGITS digits. */
static struct gr_dfa exact(struct schema_reader *r)
{
    struct maker m = {.r = r};
    m.end = state(&m);
    uint32_t start = state(&m), whole = start, part = 0;
    for (int i = 0; i < EXACT_DIGITS; i++) {
        uint32_t next_whole = state(&m), next_part = state(&m);
        edge(&m, whole, '0', '9', next_whole);
        if (i) {
            edge(&m, whole, '.', '.', part);
            edge(&m, part, '0', '9', next_part);
        }
        accept(&m, next_whole);
        if (i)
            accept(&m, next_part);
        whole = next_whole;
        part = next_part;
    }
    return determinize(&m, start);
}

/* --- expressions --- */

static struct gr_dfa parsed(struct schema_reader *r, struct dgl_str pattern)
{
    struct gr_expr expr;
    regex_parse(r->b, pattern, false, &expr);
    return gr_dfa_of(r->b, expr);
}

/* Restricts the decimals without a sign to one side of a bound. */
static bool restrict_to(struct schema_reader *r, struct gr_dfa *dfa, const struct bound *bound,
                        bool at_least)
{
    struct split s;
    if (!split_decimal(&bound->at, &s))
        return schema_fail(r, DGL_ERR_UNSUPPORTED, bound->word,
                           "wanted a bound with at most %d digits after the point", MAX_DECIMALS);
    if (s.num_whole > MOST_DIGITS)
        return !at_least || schema_fail(r, DGL_ERR_UNSUPPORTED, bound->word,
                                        "wanted a bound below 10^%d", MOST_DIGITS);
    *dfa = gr_dfa_and(r->b, *dfa, compared(r, &s, at_least, bound->strict));
    return r->budget->status == DGL_OK;
}

/* Restricts the magnitudes of one sign. Of -m with bounds [low, high], m is in [-high, -low]. */
static bool restrict_sign(struct schema_reader *r, struct gr_dfa *dfa, const struct bounds *bounds,
                          bool negative)
{
    struct bound least = negative ? bounds->high : bounds->low,
                 most = negative ? bounds->low : bounds->high;
    if (negative) {
        least.at.negative = least.at.len && !least.at.negative;
        most.at.negative = most.at.len && !most.at.negative;
    }
    if (most.set && most.at.negative)
        *dfa = gr_dfa_minus(r->b, *dfa, *dfa);
    if (most.set && !most.at.negative && !restrict_to(r, dfa, &most, false))
        return false;
    return !least.set || least.at.negative || restrict_to(r, dfa, &least, true);
}

bool schema_number(struct schema_reader *r, uint32_t all, bool integer, struct gr_expr *out)
{
    const struct dgl_json *schema;
    struct bounds bounds;
    struct multiple m;
    bool constrained = false;
    if (!bounds_of(r, all, &bounds))
        return false;
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));)
        constrained |= dgl_json_get(schema, "multipleOf") != NULL;
    if (!bounds.low.set && !bounds.high.set && !constrained) {
        *out = gr_call(r->b, integer ? r->integer : r->number);
        return r->budget->status == DGL_OK;
    }
    struct gr_dfa dfa = parsed(r, integer ? DGL_STR("0|[1-9][0-9]{0,19}")
                                          : DGL_STR("(?:0|[1-9][0-9]{0,19})(?:\\.[0-9]{1,20})?"));
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));) {
        if (!read_multiple(r, schema, &m))
            return false;
        if (m.divisor)
            dfa = gr_dfa_and(r->b, dfa, multiples(r, m));
    }
    if (constrained) /* a reader may round longer numbers */
        dfa = gr_dfa_and(r->b, dfa, exact(r));
    for (int i = 0; i < 2; i++) {
        const struct bound *bound = i ? &bounds.high : &bounds.low;
        if (!bound->set || !bound->strict)
            continue;
        if (bound->at.len > EXACT_DIGITS)
            return schema_fail(r, DGL_ERR_UNSUPPORTED, bound->word,
                               "wanted an exclusive bound with at most %d digits", EXACT_DIGITS);
        dfa = gr_dfa_and(r->b, dfa, exact(r));
    }
    struct gr_dfa minus = dfa;
    if (!restrict_sign(r, &dfa, &bounds, false) || !restrict_sign(r, &minus, &bounds, true))
        return false;
    *out = gr_alt2(r->b, gr_dfa_expr(r->b, dfa),
                   gr_seq2(r->b, gr_literal(r->b, DGL_STR("-")), gr_dfa_expr(r->b, minus)));
    return r->budget->status == DGL_OK;
}
