/* Properties of Oniguruma by name, and their members in PCRE2's syntax. */
#include "loader/regex/tok_property.h"

#include <inttypes.h>

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define BIT(category) (1u << (category))
#define LETTERS       (BIT(TOK_LU) | BIT(TOK_LL) | BIT(TOK_LT) | BIT(TOK_LM) | BIT(TOK_LO))
#define MARKS         (BIT(TOK_MN) | BIT(TOK_MC) | BIT(TOK_ME))
#define NUMBERS       (BIT(TOK_ND) | BIT(TOK_NL) | BIT(TOK_NO))
#define PUNCTUATION                                                                                \
    (BIT(TOK_PC) | BIT(TOK_PD) | BIT(TOK_PS) | BIT(TOK_PE) | BIT(TOK_PI) | BIT(TOK_PF) |           \
     BIT(TOK_PO))
#define SYMBOLS    (BIT(TOK_SM) | BIT(TOK_SC) | BIT(TOK_SK) | BIT(TOK_SO))
#define SEPARATORS (BIT(TOK_ZS) | BIT(TOK_ZL) | BIT(TOK_ZP))
#define OTHERS     (BIT(TOK_CC) | BIT(TOK_CF) | BIT(TOK_CO) | BIT(TOK_CN))
#define ALPHABETIC (LETTERS | BIT(TOK_NL))
#define WORD       (ALPHABETIC | MARKS | BIT(TOK_ND) | BIT(TOK_PC))
#define CASED      (BIT(TOK_LU) | BIT(TOK_LL) | BIT(TOK_LT))

/* Categories that lost code points since Unicode 14. Adding ranges cannot correct these. */
#define SHRUNK (BIT(TOK_MN) | BIT(TOK_CN))

/* Surrogates do not occur in UTF-8. */
static const char *const category_names[TOK_CATEGORY_COUNT] = {
    [TOK_LU] = "Lu", [TOK_LL] = "Ll", [TOK_LT] = "Lt", [TOK_LM] = "Lm", [TOK_LO] = "Lo",
    [TOK_MN] = "Mn", [TOK_MC] = "Mc", [TOK_ME] = "Me", [TOK_ND] = "Nd", [TOK_NL] = "Nl",
    [TOK_NO] = "No", [TOK_PC] = "Pc", [TOK_PD] = "Pd", [TOK_PS] = "Ps", [TOK_PE] = "Pe",
    [TOK_PI] = "Pi", [TOK_PF] = "Pf", [TOK_PO] = "Po", [TOK_SM] = "Sm", [TOK_SC] = "Sc",
    [TOK_SK] = "Sk", [TOK_SO] = "So", [TOK_ZS] = "Zs", [TOK_ZL] = "Zl", [TOK_ZP] = "Zp",
    [TOK_CC] = "Cc", [TOK_CF] = "Cf", [TOK_CS] = NULL, [TOK_CO] = "Co", [TOK_CN] = "Cn",
};

static const struct {
    const char *name, *long_name;
    uint32_t categories;
} groups[] = {
    {"L", "Letter", LETTERS}, {"M", "Mark", MARKS},
    {"N", "Number", NUMBERS}, {"P", "Punctuation", PUNCTUATION},
    {"S", "Symbol", SYMBOLS}, {"Z", "Separator", SEPARATORS},
    {"C", "Other", OTHERS},
};

#define ENCLOSED_UPPER                                                                             \
    {0x1F130, 0x1F149}, {0x1F150, 0x1F169},                                                        \
    {                                                                                              \
        0x1F170, 0x1F189                                                                           \
    }
static const struct tok_range roman_and_enclosed_upper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, ENCLOSED_UPPER};
static const struct tok_range controls_that_are_space[] = {{'\t', '\r'}, {0x85, 0x85}};
static const struct tok_range hex_digits[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
static const struct tok_range enclosed_letters[] = {{0x24B6, 0x24E9}, ENCLOSED_UPPER};
static const struct tok_range word_outside_brackets[] = {
    {0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}, {0x24B6, 0x24E9}, ENCLOSED_UPPER};

#define RANGES(array) array, COUNT(array)
static const struct {
    const char *name;
    struct tok_property property; /* "alpha", "alnum" and "lower" have generated ranges */
} posix[] = {
    {"alpha", {ALPHABETIC, NULL, 0}},
    {"alnum", {ALPHABETIC | BIT(TOK_ND), NULL, 0}},
    {"digit", {BIT(TOK_ND), NULL, 0}},
    {"upper", {BIT(TOK_LU), RANGES(roman_and_enclosed_upper)}},
    {"lower", {BIT(TOK_LL), NULL, 0}},
    {"punct", {PUNCTUATION | SYMBOLS, NULL, 0}},
    {"space", {SEPARATORS, RANGES(controls_that_are_space)}},
    {"word", {WORD, RANGES(enclosed_letters)}},
    {"xdigit", {0, RANGES(hex_digits)}},
};

/* Returns true if `known` equals `name`, ignoring case, blanks, '-' and '_' in the latter. */
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

bool tok_property_find(struct dgl_str name, struct tok_property *out)
{
    *out = (struct tok_property){0};
    for (size_t i = 0; i < COUNT(groups); i++) {
        if (name_equals(name, groups[i].name) || name_equals(name, groups[i].long_name)) {
            out->categories = groups[i].categories;
            return true;
        }
    }
    for (size_t i = 0; i < COUNT(category_names); i++) {
        if (category_names[i] && name_equals(name, category_names[i])) {
            out->categories = BIT(i);
            return true;
        }
    }
    for (size_t i = 0; i < COUNT(posix); i++) {
        if (!name_equals(name, posix[i].name))
            continue;
        *out = posix[i].property;
        if (posix[i].property.categories & BIT(TOK_NL) && !out->ranges)
            out->ranges = tok_other_alphabetic(&out->num_ranges);
        else if (out->categories == BIT(TOK_LL))
            out->ranges = tok_other_lowercase(&out->num_ranges);
        return true;
    }
    const char *script;
    for (size_t i = 0; (script = tok_script(i, &out->ranges, &out->num_ranges)); i++)
        if (name_equals(name, script))
            return true;
    return false;
}

bool tok_property_shorthand(char letter, bool in_class, struct tok_property *out)
{
    switch (letter | 0x20) {
    case 'd':
        return tok_property_find(DGL_STR("digit"), out);
    case 's':
        return tok_property_find(DGL_STR("space"), out);
    case 'h':
        return tok_property_find(DGL_STR("xdigit"), out);
    case 'w':
        tok_property_find(DGL_STR("word"), out);
        if (!in_class)
            *out = (struct tok_property){WORD, RANGES(word_outside_brackets)};
        return true;
    default:
        return false;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

void tok_property_write_cp(uint32_t cp, struct dgl_buf *out)
{
    bool letter = (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
    if (cp < 0x80 && (letter || (cp >= '0' && cp <= '9')))
        dgl_buf_putc(out, (char)cp);
    else
        dgl_buf_printf(out, "\\x{%" PRIx32 "}", cp);
}

void tok_property_write_range(struct tok_range range, struct dgl_buf *out)
{
    tok_property_write_cp(range.first, out);
    if (range.first == range.last)
        return;
    dgl_buf_putc(out, '-');
    tok_property_write_cp(range.last, out);
}

void tok_property_write(const struct tok_property *property, bool newer, struct dgl_buf *out)
{
    struct tok_range range;
    enum tok_category category;
    uint32_t left = property->categories;
    for (size_t i = 0; i < COUNT(groups); i++) {
        bool shrunk = groups[i].categories & BIT(TOK_CN);
        if ((left & groups[i].categories) != groups[i].categories || (newer && shrunk))
            continue;
        dgl_buf_printf(out, "\\p{%s}", groups[i].name);
        left &= ~groups[i].categories;
    }
    uint32_t spelled_out = newer ? left & SHRUNK : 0;
    for (enum tok_category i = 0; i < TOK_CATEGORY_COUNT; i++) {
        for (size_t j = 0; spelled_out & BIT(i) && tok_category_run(j, &range, &category); j++)
            if (category == i)
                tok_property_write_range(range, out);
        if (left & ~spelled_out & BIT(i))
            dgl_buf_printf(out, "\\p{%s}", category_names[i]);
    }
    for (size_t i = 0; newer && tok_newer_run(i, &range, &category); i++)
        if (property->categories & ~spelled_out & BIT(category))
            tok_property_write_range(range, out);
    for (size_t i = 0; i < property->num_ranges; i++)
        tok_property_write_range(property->ranges[i], out);
}

/* ---- letters with a case --------------------------------------------------------------------- */

void tok_cased_add(struct tok_cased *cased, const struct tok_property *property, bool negated)
{
    struct tok_cased own = {.categories = property->categories & CASED};
    for (size_t i = 0; i < property->num_ranges; i++)
        tok_cased_add_range(&own, property->ranges[i]);
    if (own.some && own.categories != CASED)
        cased->some = true;
    else if (negated)
        own.categories = ~own.categories & CASED;
    cased->categories |= own.categories;
}

void tok_cased_add_range(struct tok_cased *cased, struct tok_range range)
{
    struct tok_range run;
    enum tok_category category;
    for (size_t i = 0; tok_category_run(i, &run, &category) && run.first <= range.last; i++) {
        uint32_t first = run.first > range.first ? run.first : range.first;
        uint32_t last = run.last < range.last ? run.last : range.last;
        bool folds_to_ascii = first == last && (first == 0x17F || first == 0x212A);
        if (BIT(category) & CASED && first <= last && first >= 0x80 && !folds_to_ascii)
            cased->some = true;
    }
    if (range.first <= 0x80 && range.last == TOK_MAX_CP)
        cased->categories = CASED;
}

bool tok_cased_is_closed(struct tok_cased cased)
{
    return cased.categories == CASED || (!cased.categories && !cased.some);
}
