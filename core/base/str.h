/* Counted strings and a growing buffer. Numbers are parsed and printed independently of the
 * locale. */
#ifndef DGL_BASE_STR_H
#define DGL_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes, not NUL-terminated. */
struct dgl_str {
    const char *p;
    size_t len;
};
#define DGL_STR(literal) ((struct dgl_str){literal, sizeof(literal) - 1})
struct dgl_str dgl_str_of(const char *text); /* NULL returns the empty string */
bool dgl_str_eq(struct dgl_str a, const char *b);
bool dgl_str_equal(struct dgl_str a, struct dgl_str b);
/* Compares bytes, like memcmp(). */
int dgl_str_compare(struct dgl_str a, struct dgl_str b);
bool dgl_str_starts(struct dgl_str text, const char *prefix);
bool dgl_str_ends(struct dgl_str text, const char *suffix);
struct dgl_str dgl_str_trim(struct dgl_str text); /* removes ASCII blanks at both ends */
/* Splits the part before the next `sep` off the front of *rest. Returns false if *rest is
 * exhausted. */
bool dgl_str_split(struct dgl_str *rest, char sep, struct dgl_str *part);

/* Parse the whole string as a number in the C locale. Return false and leave *out unchanged if it
 * is not a number or out of range. */
bool dgl_parse_i64(struct dgl_str text, int64_t min, int64_t max, int64_t *out);
bool dgl_parse_u64(struct dgl_str text, uint64_t max, uint64_t *out);
bool dgl_parse_f64(struct dgl_str text, double *out); /* finite only */
/* Parses a whole number of bytes, with or without K, M or G (binary). */
bool dgl_parse_bytes(struct dgl_str text, uint64_t min, uint64_t max, uint64_t *out);
int dgl_hex_value(char c); /* value of one hex digit, or -1 */

/* Growing buffer. `{0}` is empty. If memory is exhausted, `failed` is set and stays set, so callers
 * append freely and check once. */
struct dgl_buf {
    char *p; /* NUL-terminated when not NULL */
    size_t len, cap;
    bool failed;
};
void dgl_buf_append(struct dgl_buf *buf, const void *bytes, size_t len);
/* Reserves `len` more bytes and a NUL. Returns false if the buffer has failed. */
bool dgl_buf_reserve(struct dgl_buf *buf, size_t len);
void dgl_buf_puts(struct dgl_buf *buf, const char *text);
void dgl_buf_putc(struct dgl_buf *buf, char c);
void dgl_buf_printf(struct dgl_buf *buf, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void dgl_buf_vprintf(struct dgl_buf *buf, const char *fmt, va_list args);
/* Appends a short text that reads back as the same value: 15 to 17 digits for a double, 6 to 9 for
 * a float. */
void dgl_buf_f64(struct dgl_buf *buf, double value);
void dgl_buf_f32(struct dgl_buf *buf, float value);
/* Appends a word to the blank-separated list that starts at `start`, unless the list contains
 * it. */
void dgl_buf_add_word(struct dgl_buf *buf, size_t start, struct dgl_str word);
/* Returns the text, which the caller frees, and empties `buf`. Returns NULL if the buffer has
 * failed. */
char *dgl_buf_take(struct dgl_buf *buf);
void dgl_buf_finish(struct dgl_buf *buf);

/* Appends Base64 of RFC 4648, padded. */
void dgl_buf_base64(struct dgl_buf *buf, const void *bytes, size_t len);

/* Appends a readable size: "1.5 GiB", "812 MiB", "36 B". */
void dgl_buf_bytes(struct dgl_buf *buf, uint64_t bytes);
/* The same text for the argument list of a message. Valid until the end of the full expression. */
struct dgl_size_text {
    char text[32];
};
struct dgl_size_text dgl_size_text(uint64_t bytes);
#define DGL_BYTES(bytes) (dgl_size_text(bytes).text)

#endif
