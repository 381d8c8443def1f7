/* jinja_text.h: strings, with the behaviour of Python's str: characters, string building, case,
 * formatting. All operations keep the taint of each byte. */
#ifndef DGL_LOADER_JINJA_TEXT_H
#define DGL_LOADER_JINJA_TEXT_H

#include "loader/jinja/jinja_value.h"

/* ---- characters ---- */

bool jinja_is_space(uint32_t cp);     /* str.isspace() */
bool jinja_is_printable(uint32_t cp); /* str.isprintable() */

enum jinja_strip_side { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2, JINJA_STRIP_BOTH = 3 };
struct dgl_str jinja_strip(struct dgl_str text, enum jinja_strip_side side);

size_t jinja_char_count(struct dgl_str text);
/* Byte offset of a character, or the length of the text if it has fewer characters. */
size_t jinja_char_offset(struct dgl_str text, size_t index);
/* Length of the last character in bytes, or 0 if the text is empty. */
size_t jinja_last_char(struct dgl_str text);

/* Byte offset of the first match at or after `from`, or of the last match. SIZE_MAX means no
 * match. */
size_t jinja_find(struct dgl_str text, struct dgl_str part, size_t from);
size_t jinja_find_last(struct dgl_str text, struct dgl_str part);

/* ---- building ---- */

/* String builder; `{0}` is empty. Taint is stored per byte only after two bytes differ in it. */
struct jinja_text {
    struct dgl_buf bytes, taint;
    bool mixed, data;
};

/* Append bytes, or a string value. Both report an error if the text exceeds the limit. */
bool jinja_text_put(struct jinja_run *run, struct jinja_text *text, struct dgl_str part, bool data);
bool jinja_text_add(struct jinja_run *run, struct jinja_text *text,
                    const struct jinja_value *string);
enum { jinja_escape_max = 16 };
/* Writes the escape sequence of a character to `out` and returns its length, or 0 if the character
 * needs no escape. `mode` comes from the caller of jinja_text_add_escaped. */
typedef size_t (*jinja_escape_fn)(uint32_t cp, int mode, char out[jinja_escape_max]);
/* Appends a string with escaped characters. Each escape has the taint of its character. */
bool jinja_text_add_escaped(struct jinja_run *run, struct jinja_text *text,
                            const struct jinja_value *string, jinja_escape_fn escape, int mode);
/* Appends one taint per byte, even if all are equal. Returns false if out of memory. */
bool jinja_text_write_taint(const struct jinja_text *text, struct dgl_buf *out);
/* Frees the builder. If `ok` is true, stores the string in *out. Returns false if `ok` is false or
 * memory is exhausted, so that callers can end with "return jinja_text_end(run, &text, ok,
 * out)". */
bool jinja_text_end(struct jinja_run *run, struct jinja_text *text, bool ok,
                    struct jinja_value *out);

/* Append str(value) and repr(value). */
bool jinja_text_add_str(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_value *value);
bool jinja_text_add_repr(struct jinja_run *run, struct jinja_text *text,
                         const struct jinja_value *value);
/* Prints a float as Python does: with the fewest digits that read back as the same number. */
void jinja_print_float(struct dgl_buf *out, double value);
/* str(value); strings are returned unchanged. */
bool jinja_to_text(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out);

/* ---- changing ---- */

enum jinja_casing {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_CASEFOLD, /* lower, without a final sigma */
    JINJA_SWAPCASE,
    JINJA_CAPITALIZE,
    JINJA_TITLE,       /* str.title(): each run of letters */
    JINJA_TITLE_WORDS, /* the title filter: after whitespace, '-' and opening brackets */
};
bool jinja_change_case(struct jinja_run *run, const struct jinja_value *text,
                       enum jinja_casing casing, struct jinja_value *out);
/* The tests "lower" and "upper", and islower() and isupper(). Sets *out to true if the text has
 * letters of this case, and no letter of the other case. */
bool jinja_has_case(struct jinja_run *run, const struct jinja_value *value,
                    enum jinja_casing casing, struct jinja_value *out);
/* Replaces the first `count` matches, or all matches if `count` is negative. */
bool jinja_replace(struct jinja_run *run, const struct jinja_value *text,
                   const struct jinja_value *old, const struct jinja_value *with, int64_t count,
                   struct jinja_value *out);
/* str.splitlines() as a list. */
bool jinja_split_lines(struct jinja_run *run, const struct jinja_value *text, bool keep_ends,
                       struct jinja_value *out);
/* Returns a string as it is. A number, or `otherwise` if it is omitted, is the number of spaces to
 * return. */
bool jinja_blanks(struct jinja_run *run, const struct jinja_value *width, int64_t otherwise,
                  struct jinja_value *out);
/* Strips whitespace, or the characters of `set` if it is given. */
bool jinja_strip_text(struct jinja_run *run, const struct jinja_value *text,
                      const struct jinja_value *set, int side, struct jinja_value *out);

/* ---- formatting ---- */

struct jinja_call;

struct jinja_format_spec {
    struct dgl_str fill;       /* one character; empty means a space */
    char align;                /* '<', '>', '^', '=' (after the sign); 0: default of the type */
    char sign;                 /* '+' or ' '; 0: only '-' */
    char type;                 /* 0: like str() */
    bool alternate, thousands; /* "0x" prefixes; ',' between groups of three digits */
    int64_t width, precision;  /* a negative precision is an omitted one */
};

bool jinja_format_value(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_format_spec *spec, const struct jinja_value *value);
/* format % values. A tuple provides one value per conversion, a dict provides values by name. */
bool jinja_format_percent(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *values, struct jinja_value *out);
/* format.format(...) */
bool jinja_format_braces(struct jinja_run *run, const struct jinja_value *format,
                         const struct jinja_call *call, struct jinja_value *out);

#endif
