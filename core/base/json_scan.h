/* Grammar check that runs before cJSON parses a text. Internal to core/base. */
#ifndef DGL_BASE_JSON_SCAN_H
#define DGL_BASE_JSON_SCAN_H

#include "core/base/str.h"

/* Limit of nested arrays and objects. It limits every recursion over a parsed document. */
enum { json_max_depth = 64, json_max_number_len = 63 };
/* A value needs at least two bytes of text and about a hundred bytes of memory. The largest
 * published tokenizer.json has 2 million values. */
enum { json_max_values = 5000000 };

struct json_scan {
    size_t values;      /* number of values */
    size_t nul_escapes; /* number of \u0000 escapes */
    bool spelled;       /* some numbers need their original spelling, see json_is_real() */
    size_t offset;      /* position of the error */
    const char *wanted; /* expected text (static) */
};

/* Returns true if `text` is exactly one value of RFC 8259 in valid UTF-8. Escaped surrogates must
 * be paired, numbers must be finite and at most json_max_number_len characters long, and
 * json_max_depth is respected, and there are at most `most_values` values. */
bool json_scan(const char *text, size_t len, size_t most_values, struct json_scan *scan);

/* Copies a scanned text and replaces each \u0000 by the bytes C0 80, which valid text cannot
 * contain. Returns the new length, which is at most `len`. */
size_t json_replace_nuls(const char *text, size_t len, char *out);

/* Returns the next number of a scanned text, starting at *at, and moves *at past it. Returns an
 * empty text at the end. */
struct dgl_str json_next_number(const char *text, size_t len, size_t *at);
/* Returns true if the number has a fraction or an exponent. */
bool json_is_real(struct dgl_str number);

#endif
