/* Sets of code points: algebra, named properties, case folding. */
#include "loader/regex/tok_charset.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void tok_charset_add(struct tok_charset *set, uint32_t first, uint32_t last)
{
    if (!dgl_grow((void **)&set->ranges, &set->cap, set->count + 1, sizeof(*set->ranges))) {
        set->failed = true;
        return;
    }
    set->ranges[set->count++] = (struct tok_range){first, last};
}

void tok_charset_add_set(struct tok_charset *set, const struct tok_charset *other)
{
    for (size_t i = 0; i < other->count; i++)
        tok_charset_add(set, other->ranges[i].first, other->ranges[i].last);
    set->failed |= other->failed;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct tok_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

void tok_charset_settle(struct tok_charset *set)
{
    if (set->count == 0)
        return;
    qsort(set->ranges, set->count, sizeof(*set->ranges), compare_ranges);
    size_t kept = 1;
    for (size_t i = 1; i < set->count; i++) {
        struct tok_range *last = &set->ranges[kept - 1];
        struct tok_range next = set->ranges[i];
        if (next.first > last->last + 1)
            set->ranges[kept++] = next;
        else if (next.last > last->last)
            last->last = next.last;
    }
    set->count = kept;
}

void tok_charset_negate(struct tok_charset *set)
{
    struct tok_charset out = {.failed = set->failed};
    uint32_t next = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->ranges[i].first > next)
            tok_charset_add(&out, next, set->ranges[i].first - 1);
        next = set->ranges[i].last + 1;
    }
    if (next <= TOK_MAX_CP)
        tok_charset_add(&out, next, TOK_MAX_CP);
    tok_charset_finish(set);
    *set = out;
}

void tok_charset_intersect(struct tok_charset *set, const struct tok_charset *other)
{
    struct tok_charset out = {.failed = set->failed || other->failed};
    size_t i = 0, j = 0;
    while (i < set->count && j < other->count) {
        struct tok_range a = set->ranges[i], b = other->ranges[j];
        uint32_t first = a.first > b.first ? a.first : b.first;
        uint32_t last = a.last < b.last ? a.last : b.last;
        if (first <= last)
            tok_charset_add(&out, first, last);
        if (a.last < b.last)
            i++;
        else
            j++;
    }
    tok_charset_finish(set);
    *set = out;
}

bool tok_charset_has(const struct tok_charset *set, uint32_t cp)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cp < set->ranges[middle].first)
            high = middle;
        else if (cp > set->ranges[middle].last)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

void tok_charset_finish(struct tok_charset *set)
{
    free(set->ranges);
    *set = (struct tok_charset){0};
}

/* ---- properties ------------------------------------------------------------------------------ */

#define BIT(category) (1u << (category))
#define LETTERS       (BIT(TOK_LU) | BIT(TOK_LL) | BIT(TOK_LT) | BIT(TOK_LM) | BIT(TOK_LO))
#define MARKS         (BIT(TOK_MN) | BIT(TOK_MC) | BIT(TOK_ME))
#define NUMBERS       (BIT(TOK_ND) | BIT(TOK_NL) | BIT(TOK_NO))
#define PUNCTUATION                                                                                \
    (BIT(TOK_PC) | BIT(TOK_PD) | BIT(TOK_PS) | BIT(TOK_PE) | BIT(TOK_PI) | BIT(TOK_PF) |           \
     BIT(TOK_PO))
#define SYMBOLS    (BIT(TOK_SM) | BIT(TOK_SC) | BIT(TOK_SK) | BIT(TOK_SO))
#define SEPARATORS (BIT(TOK_ZS) | BIT(TOK_ZL) | BIT(TOK_ZP))
#define OTHERS     (BIT(TOK_CC) | BIT(TOK_CF) | BIT(TOK_CS) | BIT(TOK_CO) | BIT(TOK_CN))

/* What a property has beyond whole categories. */
enum extra {
    EXTRA_NONE,
    EXTRA_ALPHA, /* Other_Alphabetic */
    EXTRA_UPPER, /* Roman numerals and enclosed letters */
    EXTRA_LOWER, /* Other_Lowercase */
    EXTRA_SPACE, /* TAB to CR and U+0085 */
    EXTRA_WORD,  /* enclosed letters */
    EXTRA_MATCH, /* enclosed letters, superscript digits and fractions of Latin-1 */
    EXTRA_HEX,   /* 0-9 A-F a-f */
};

static const struct property {
    const char *name; /* lower case, no separators */
    uint32_t categories;
    enum extra extra;
} properties[] = {
    {"l", LETTERS, EXTRA_NONE},
    {"letter", LETTERS, EXTRA_NONE},
    {"m", MARKS, EXTRA_NONE},
    {"mark", MARKS, EXTRA_NONE},
    {"n", NUMBERS, EXTRA_NONE},
    {"number", NUMBERS, EXTRA_NONE},
    {"p", PUNCTUATION, EXTRA_NONE},
    {"punctuation", PUNCTUATION, EXTRA_NONE},
    {"s", SYMBOLS, EXTRA_NONE},
    {"symbol", SYMBOLS, EXTRA_NONE},
    {"z", SEPARATORS, EXTRA_NONE},
    {"separator", SEPARATORS, EXTRA_NONE},
    {"c", OTHERS, EXTRA_NONE},
    {"other", OTHERS, EXTRA_NONE},
    {"lu", BIT(TOK_LU), EXTRA_NONE},
    {"ll", BIT(TOK_LL), EXTRA_NONE},
    {"lt", BIT(TOK_LT), EXTRA_NONE},
    {"lm", BIT(TOK_LM), EXTRA_NONE},
    {"lo", BIT(TOK_LO), EXTRA_NONE},
    {"mn", BIT(TOK_MN), EXTRA_NONE},
    {"mc", BIT(TOK_MC), EXTRA_NONE},
    {"me", BIT(TOK_ME), EXTRA_NONE},
    {"nd", BIT(TOK_ND), EXTRA_NONE},
    {"nl", BIT(TOK_NL), EXTRA_NONE},
    {"no", BIT(TOK_NO), EXTRA_NONE},
    {"pc", BIT(TOK_PC), EXTRA_NONE},
    {"pd", BIT(TOK_PD), EXTRA_NONE},
    {"ps", BIT(TOK_PS), EXTRA_NONE},
    {"pe", BIT(TOK_PE), EXTRA_NONE},
    {"pi", BIT(TOK_PI), EXTRA_NONE},
    {"pf", BIT(TOK_PF), EXTRA_NONE},
    {"po", BIT(TOK_PO), EXTRA_NONE},
    {"sm", BIT(TOK_SM), EXTRA_NONE},
    {"sc", BIT(TOK_SC), EXTRA_NONE},
    {"sk", BIT(TOK_SK), EXTRA_NONE},
    {"so", BIT(TOK_SO), EXTRA_NONE},
    {"zs", BIT(TOK_ZS), EXTRA_NONE},
    {"zl", BIT(TOK_ZL), EXTRA_NONE},
    {"zp", BIT(TOK_ZP), EXTRA_NONE},
    {"cc", BIT(TOK_CC), EXTRA_NONE},
    {"cf", BIT(TOK_CF), EXTRA_NONE},
    {"co", BIT(TOK_CO), EXTRA_NONE},
    {"cn", BIT(TOK_CN), EXTRA_NONE},
    {"alpha", LETTERS | BIT(TOK_NL), EXTRA_ALPHA},
    {"alnum", LETTERS | BIT(TOK_NL) | BIT(TOK_ND), EXTRA_ALPHA},
    {"digit", BIT(TOK_ND), EXTRA_NONE},
    {"upper", BIT(TOK_LU), EXTRA_UPPER},
    {"lower", BIT(TOK_LL), EXTRA_LOWER},
    {"punct", PUNCTUATION | SYMBOLS, EXTRA_NONE},
    {"space", SEPARATORS, EXTRA_SPACE},
    {"word", LETTERS | MARKS | BIT(TOK_ND) | BIT(TOK_NL) | BIT(TOK_PC), EXTRA_WORD},
    {TOK_WORD_MATCH, LETTERS | MARKS | BIT(TOK_ND) | BIT(TOK_NL) | BIT(TOK_PC), EXTRA_MATCH},
    {"xdigit", 0, EXTRA_HEX},
};

/* `known` equals `name` without regard to case, blanks, '-' and '_' in either. */
static bool name_equals(struct dgl_str name, const char *known)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.p[i];
        if (c == ' ' || c == '-' || c == '_')
            continue;
        char lower = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        char want = *known >= 'A' && *known <= 'Z' ? (char)(*known + 32) : *known;
        if (!want || lower != want)
            return false;
        known++;
    }
    return !*known;
}

static void add_ranges(struct tok_charset *set, const struct tok_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tok_charset_add(set, ranges[i].first, ranges[i].last);
}

static void add_extra(struct tok_charset *set, enum extra extra)
{
    static const struct tok_range upper[] = {{0x2160, 0x216F},
                                             {0x24B6, 0x24CF},
                                             {0x1F130, 0x1F149},
                                             {0x1F150, 0x1F169},
                                             {0x1F170, 0x1F189}};
    static const struct tok_range space[] = {{'\t', '\r'}, {0x85, 0x85}};
    static const struct tok_range word[] = {
        {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    static const struct tok_range match[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
    static const struct tok_range hex[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    size_t count = 0;
    const struct tok_range *ranges = NULL;
    switch (extra) {
    case EXTRA_NONE:
        break;
    case EXTRA_ALPHA:
        ranges = tok_other_alphabetic(&count);
        break;
    case EXTRA_LOWER:
        ranges = tok_other_lowercase(&count);
        break;
    case EXTRA_UPPER:
        add_ranges(set, upper, sizeof(upper) / sizeof(upper[0]));
        break;
    case EXTRA_SPACE:
        add_ranges(set, space, sizeof(space) / sizeof(space[0]));
        break;
    case EXTRA_MATCH:
        add_ranges(set, match, sizeof(match) / sizeof(match[0]));
        /* fall through */
    case EXTRA_WORD:
        add_ranges(set, word, sizeof(word) / sizeof(word[0]));
        break;
    case EXTRA_HEX:
        add_ranges(set, hex, sizeof(hex) / sizeof(hex[0]));
        break;
    }
    add_ranges(set, ranges, count);
}

static void add_property(struct tok_charset *set, const struct property *property)
{
    struct tok_range range;
    enum tok_category category;
    for (size_t i = 0; tok_category_run(i, &range, &category); i++)
        if (property->categories & BIT(category))
            tok_charset_add(set, range.first, range.last);
    add_extra(set, property->extra);
    tok_charset_settle(set);
}

bool tok_charset_add_property(struct tok_charset *set, struct dgl_str name)
{
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
        if (name_equals(name, properties[i].name)) {
            add_property(set, &properties[i]);
            return true;
        }
    }
    const struct tok_range *ranges;
    size_t count;
    const char *script;
    for (size_t i = 0; (script = tok_script(i, &ranges, &count)); i++) {
        if (name_equals(name, script)) {
            add_ranges(set, ranges, count);
            tok_charset_settle(set);
            return true;
        }
    }
    return false;
}

/* ---- case ------------------------------------------------------------------------------------ */

/* Whether the part beyond ASCII is closed under case without looking: it has no letter with a
 * case, or all of them. *failed: out of memory. */
static bool is_closed_beyond_ascii(const struct tok_charset *set, bool *failed)
{
    struct tok_charset cased = {0}, common = {0};
    struct tok_range range;
    enum tok_category category;
    for (size_t i = 0; tok_category_run(i, &range, &category); i++)
        if (range.last >= 0x80 && (BIT(category) & (BIT(TOK_LU) | BIT(TOK_LL) | BIT(TOK_LT))))
            tok_charset_add(&cased, range.first, range.last);
    tok_charset_settle(&cased);
    tok_charset_add_set(&common, &cased);
    tok_charset_intersect(&common, set);
    bool folds_to_ascii = true; /* nothing but U+017F and U+212A */
    for (size_t i = 0; i < common.count; i++)
        folds_to_ascii &= common.ranges[i].first == common.ranges[i].last &&
                          (common.ranges[i].first == 0x17F || common.ranges[i].first == 0x212A);
    bool all = common.count == cased.count && common.count > 0 &&
               memcmp(common.ranges, cased.ranges, cased.count * sizeof(*cased.ranges)) == 0;
    *failed = common.failed;
    tok_charset_finish(&cased);
    tok_charset_finish(&common);
    return folds_to_ascii || all;
}

bool tok_charset_fold_case(struct tok_charset *set)
{
    bool failed;
    bool closed = is_closed_beyond_ascii(set, &failed);
    set->failed |= failed;
    if (set->failed || !closed)
        return set->failed;
    struct tok_charset added = {0};
    for (uint32_t c = 'a'; c <= 'z'; c++) {
        uint32_t beyond = c == 's' ? 0x17F : c == 'k' ? 0x212A : 0;
        if (tok_charset_has(set, c) || tok_charset_has(set, c - 32) ||
            (beyond && tok_charset_has(set, beyond))) {
            tok_charset_add(&added, c, c);
            tok_charset_add(&added, c - 32, c - 32);
            if (beyond)
                tok_charset_add(&added, beyond, beyond);
        }
    }
    tok_charset_add_set(set, &added);
    tok_charset_settle(set);
    tok_charset_finish(&added);
    return true;
}
