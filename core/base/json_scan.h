/* The grammar check that runs before cJSON sees a text. Internal to core/base. */
#ifndef DGL_BASE_JSON_SCAN_H
#define DGL_BASE_JSON_SCAN_H

#include "core/base/str.h"

/* Nesting of arrays and objects. Bounds every recursion over a parsed document. */
enum { json_max_depth = 64, json_max_number_len = 63 };
/* Every value is a node of about a hundred bytes in memory, two in the text. The largest published
 * tokenizer.json has 2 million. */
enum { json_max_values = 5000000 };

struct json_scan {
    size_t nul_escapes; /* how many \u0000 the text has */
    bool spelled;       /* it has numbers whose spelling tells more than a double, see below */
    size_t offset;      /* on failure: where, */
    const char *wanted; /* and the text that was expected (static) */
};

/* True when `text` is exactly one value as RFC 8259 has it, in valid UTF-8, with escaped surrogates
 * only in pairs, finite numbers of at most json_max_number_len characters, and nesting within
 * json_max_depth and json_max_values. */
bool json_scan(const char *text, size_t len, struct json_scan *scan);

/* Copies a scanned text with every \u0000 as the bytes C0 80, which no valid text contains; returns
 * the length, never above `len`. */
size_t json_replace_nuls(const char *text, size_t len, char *out);

/* The next number from *at on in a scanned text; *at moves to its end. Empty: there is none. */
struct dgl_str json_next_number(const char *text, size_t len, size_t *at);
/* A number with a fraction or an exponent. */
bool json_is_real(struct dgl_str number);

#endif
