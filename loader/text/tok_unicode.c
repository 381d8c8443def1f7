/* Properties of code points from the generated tables, and case from utf8proc. */
#include "loader/text/tok_unicode.h"

#include <utf8proc.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* All code points in [first, last] move by the same distance. */
struct lower_run {
    uint32_t first, last;
    int32_t delta;
};
struct newer_run {
    uint32_t first, last;
    uint8_t category;
};
struct script {
    const char *name;
    const struct tok_range *ranges;
    size_t count;
};

#include "loader/text/tok_unicode_tables.inc"

/* Returns the index of the last of `count` keys that is at most `cp`, or -1. A key is the first
 * uint32_t of an item of `size` bytes, shifted right by `shift`. Keys are ascending. */
static long find_last(const void *items, size_t count, size_t size, unsigned shift, uint32_t cp)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint32_t key = *(const uint32_t *)((const char *)items + middle * size) >> shift;
        if (key <= cp)
            low = middle + 1;
        else
            high = middle;
    }
    return (long)low - 1;
}

static bool in_ranges(const struct tok_range *ranges, size_t count, uint32_t cp)
{
    long i = find_last(ranges, count, sizeof(*ranges), 0, cp);
    return i >= 0 && cp <= ranges[i].last;
}

enum tok_category tok_category(uint32_t cp)
{
    long i = find_last(category_runs, COUNT(category_runs), sizeof(category_runs[0]), 8, cp);
    return (enum tok_category)(category_runs[i] & 0xFF);
}

bool tok_category_run(size_t index, struct tok_range *range, enum tok_category *category)
{
    if (index >= COUNT(category_runs))
        return false;
    range->first = category_runs[index] >> 8;
    range->last =
        index + 1 < COUNT(category_runs) ? (category_runs[index + 1] >> 8) - 1 : TOK_MAX_CP;
    *category = (enum tok_category)(category_runs[index] & 0xFF);
    return true;
}

bool tok_newer_run(size_t index, struct tok_range *range, enum tok_category *category)
{
    if (index >= COUNT(newer_runs))
        return false;
    *range = (struct tok_range){newer_runs[index].first, newer_runs[index].last};
    *category = (enum tok_category)newer_runs[index].category;
    return true;
}

bool tok_is_newer(uint32_t cp)
{
    long i = find_last(newer_runs, COUNT(newer_runs), sizeof(newer_runs[0]), 0, cp);
    return i >= 0 && cp <= newer_runs[i].last;
}

bool tok_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= '\t' && cp <= '\r');
    if (cp == 0x85)
        return true;
    enum tok_category c = tok_category(cp);
    return c == TOK_ZS || c == TOK_ZL || c == TOK_ZP;
}

bool tok_is_numeric(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= '0' && cp <= '9';
    enum tok_category c = tok_category(cp);
    return c == TOK_ND || c == TOK_NL || c == TOK_NO;
}

bool tok_is_word(uint32_t cp)
{
    enum tok_category c = tok_category(cp);
    /* Circled and squared Latin letters are symbols (So), but alphabetic. */
    bool enclosed = (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) ||
                    (cp >= 0x1F150 && cp <= 0x1F169) || (cp >= 0x1F170 && cp <= 0x1F189);
    return c <= TOK_NL || c == TOK_PC || cp == 0x200C || cp == 0x200D || enclosed;
}

bool tok_is_punctuation(uint32_t cp)
{
    return in_ranges(punctuation_ranges, COUNT(punctuation_ranges), cp);
}

const char *tok_script(size_t index, const struct tok_range **ranges, size_t *count)
{
    if (index >= COUNT(scripts))
        return NULL;
    *ranges = scripts[index].ranges;
    *count = scripts[index].count;
    return scripts[index].name;
}

const struct tok_range *tok_other_alphabetic(size_t *count)
{
    *count = COUNT(other_alphabetic);
    return other_alphabetic;
}

const struct tok_range *tok_other_lowercase(size_t *count)
{
    *count = COUNT(other_lowercase);
    return other_lowercase;
}

size_t tok_lowercase(uint32_t cp, uint32_t out[2])
{
    out[0] = cp;
    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    if (cp == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    long i =
        find_last(newer_lower_runs, COUNT(newer_lower_runs), sizeof(newer_lower_runs[0]), 0, cp);
    if (i >= 0 && cp <= newer_lower_runs[i].last)
        out[0] = (uint32_t)((int32_t)cp + newer_lower_runs[i].delta);
    else
        out[0] = (uint32_t)utf8proc_tolower((int32_t)cp);
    return 1;
}

bool tok_is_inert(uint32_t cp)
{
    return in_ranges(inert_ranges, COUNT(inert_ranges), cp) || tok_is_newer(cp);
}
