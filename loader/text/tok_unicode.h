/*
 * tok_unicode.h: properties of code points as Hugging Face's tokenizers use them. Their parts have
 * different Unicode versions: regular expressions and categories 16.0, normal forms 9.0,
 * punctuation 8.0. Properties come from generated tables (tests/data/make/unicode_tables.py), case
 * and normal forms from utf8proc with generated tables of the differences.
 */
#ifndef DGL_LOADER_TOK_UNICODE_H
#define DGL_LOADER_TOK_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOK_MAX_CP 0x10FFFFu

/* Both ends are inclusive. */
struct tok_range {
    uint32_t first, last;
};

/* General categories, in the order of the generated table. */
enum tok_category {
    TOK_LU,
    TOK_LL,
    TOK_LT,
    TOK_LM,
    TOK_LO,
    TOK_MN,
    TOK_MC,
    TOK_ME,
    TOK_ND,
    TOK_NL,
    TOK_NO,
    TOK_PC,
    TOK_PD,
    TOK_PS,
    TOK_PE,
    TOK_PI,
    TOK_PF,
    TOK_PO,
    TOK_SM,
    TOK_SC,
    TOK_SK,
    TOK_SO,
    TOK_ZS,
    TOK_ZL,
    TOK_ZP,
    TOK_CC,
    TOK_CF,
    TOK_CS,
    TOK_CO,
    TOK_CN,
    TOK_CATEGORY_COUNT
};

enum tok_category tok_category(uint32_t cp);
bool tok_is_space(uint32_t cp);       /* White_Space: 25 code points */
bool tok_is_numeric(uint32_t cp);     /* Nd, Nl, No */
bool tok_is_word(uint32_t cp);        /* \w of Rust's regular expressions */
bool tok_is_punctuation(uint32_t cp); /* as in the Punctuation pre-tokenizer */

/* Returns the run `index` of equal categories, ascending. Returns false after the last one. */
bool tok_category_run(size_t index, struct tok_range *range, enum tok_category *category);
/* Returns the run `index` of code points with one category that they did not have in Unicode 14.
 * Returns false after the last one. */
bool tok_newer_run(size_t index, struct tok_range *range, enum tok_category *category);
bool tok_is_newer(uint32_t cp);
/* Returns the name ("Han") and ranges of the script `index`, or NULL after the last one. Only
 * common scripts have a table. */
const char *tok_script(size_t index, const struct tok_range **ranges, size_t *count);
/* Alphabetic and Lowercase code points that are not in the categories L, Nl and Ll. */
const struct tok_range *tok_other_alphabetic(size_t *count);
const struct tok_range *tok_other_lowercase(size_t *count);

/* Converts one code point to lower case, without context: to one code point, or two for U+0130.
 * Returns their number. */
size_t tok_lowercase(uint32_t cp, uint32_t out[2]);

/* Returns true if normal forms of Unicode 9 never change a code point, regardless of its
 * neighbours, but those of later versions may. */
bool tok_is_inert(uint32_t cp);

/* Returns the start of the character that ends at `at`, which is not 0. */
static inline size_t tok_char_before(const char *text, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

#endif
