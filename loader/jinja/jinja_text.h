/* jinja_text.h: texts as Python's str: characters, building with taint, cases, formatting. Taint
 * stays with its bytes. */
#ifndef DGL_LOADER_JINJA_TEXT_H
#define DGL_LOADER_JINJA_TEXT_H

#include "loader/jinja/jinja_value.h"

/* ---- characters ---- */

bool jinja_is_space(uint32_t cp);     /* str.isspace() */
bool jinja_is_printable(uint32_t cp); /* str.isprintable() */

enum jinja_strip_side { JINJA_STRIP_LEFT = 1, JINJA_STRIP_RIGHT = 2, JINJA_STRIP_BOTH = 3 };
struct dgl_str jinja_strip(struct dgl_str text, enum jinja_strip_side side);

size_t jinja_char_count(struct dgl_str text);
/* Where character number `index` begins; the length when there are fewer. */
size_t jinja_char_offset(struct dgl_str text, size_t index);
/* Length of the last character; 0 for an empty text. */
size_t jinja_last_char(struct dgl_str text);

/* Where `part` begins first (or last), at or after `from`; SIZE_MAX: nowhere. */
size_t jinja_find(struct dgl_str text, struct dgl_str part, size_t from);
size_t jinja_find_last(struct dgl_str text, struct dgl_str part);

/* ---- building ---- */

/* `{0}` is empty. Taint is kept per byte only once two bytes differ in it. */
struct jinja_text {
    struct dgl_buf bytes, taint;
    bool mixed, data;
};

/* Both report a text that passes the limit. */
bool jinja_text_put(struct jinja_run *run, struct jinja_text *text, struct dgl_str part, bool data);
bool jinja_text_add(struct jinja_run *run, struct jinja_text *text,
                    const struct jinja_value *string);
enum { jinja_escape_max = 16 };
/* Writes the escape of a character to `out` and returns its length, or 0 if the character needs no
 * escape. `mode` is passed through. */
typedef size_t (*jinja_escape_fn)(uint32_t cp, int mode, char out[jinja_escape_max]);
/* Adds the string with its characters escaped; an escape has the taint of its character. */
bool jinja_text_add_escaped(struct jinja_run *run, struct jinja_text *text,
                            const struct jinja_value *string, jinja_escape_fn escape, int mode);
/* One taint per byte, whatever they are; false: out of memory. */
bool jinja_text_write_taint(const struct jinja_text *text, struct dgl_buf *out);
/* Ends the text. With ok, its value; `ok` or a fault is returned, so that builders end with
 * "return jinja_text_end(run, &text, ok, out)". */
bool jinja_text_end(struct jinja_run *run, struct jinja_text *text, bool ok,
                    struct jinja_value *out);

/* str(value) and repr(value) appended. */
bool jinja_text_add_str(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_value *value);
bool jinja_text_add_repr(struct jinja_run *run, struct jinja_text *text,
                         const struct jinja_value *value);
/* A float as Python prints it: the fewest digits that read back as the same number. */
void jinja_print_float(struct dgl_buf *out, double value);
/* str(value): a text stays what it is. */
bool jinja_to_text(struct jinja_run *run, const struct jinja_value *value, struct jinja_value *out);

/* ---- changing ---- */

enum jinja_casing {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_SWAPCASE,
    JINJA_CAPITALIZE,
    JINJA_TITLE,       /* str.title(): every run of letters */
    JINJA_TITLE_WORDS, /* the filter: what follows blanks, '-' and opening brackets */
};
bool jinja_change_case(struct jinja_run *run, const struct jinja_value *text,
                       enum jinja_casing casing, struct jinja_value *out);
/* "is lower" and islower() with JINJA_LOWER, "is upper" and isupper() with JINJA_UPPER: true if the
 * text has letters of this case and none of the other. */
bool jinja_has_case(struct jinja_run *run, const struct jinja_value *value,
                    enum jinja_casing casing, struct jinja_value *out);
/* The first `count` occurrences, all when negative. */
bool jinja_replace(struct jinja_run *run, const struct jinja_value *text,
                   const struct jinja_value *old, const struct jinja_value *with, int64_t count,
                   struct jinja_value *out);
/* str.splitlines() as a list. */
bool jinja_split_lines(struct jinja_run *run, const struct jinja_value *text, bool keep_ends,
                       struct jinja_value *out);
/* A text of `width` blanks, or of `otherwise` blanks without a width; a text stays as it is. */
bool jinja_blanks(struct jinja_run *run, const struct jinja_value *width, int64_t otherwise,
                  struct jinja_value *out);
/* Blanks, or the characters of `set` when it is given. */
bool jinja_strip_text(struct jinja_run *run, const struct jinja_value *text,
                      const struct jinja_value *set, int side, struct jinja_value *out);

/* ---- formatting ---- */

struct jinja_call;

struct jinja_format_spec {
    struct dgl_str fill;       /* one character; empty: a blank */
    char align;                /* '<', '>', '^', '=' (behind the sign); 0: as the type has it */
    char sign;                 /* '+' or ' '; 0: only of negative numbers */
    char type;                 /* 0: as str() */
    bool alternate, thousands; /* "0x" and the like; ',' between groups of three digits */
    int64_t width, precision;  /* precision < 0: none */
};

bool jinja_format_value(struct jinja_run *run, struct jinja_text *text,
                        const struct jinja_format_spec *spec, const struct jinja_value *value);
/* format % values: a tuple is its elements, a dict goes by name, anything else is one value. */
bool jinja_format_percent(struct jinja_run *run, const struct jinja_value *format,
                          const struct jinja_value *values, struct jinja_value *out);
/* format.format(...). */
bool jinja_format_braces(struct jinja_run *run, const struct jinja_value *format,
                         const struct jinja_call *call, struct jinja_value *out);

#endif
