/* Monotonic time and date parsing. */
#ifndef DGL_BASE_CLOCK_H
#define DGL_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/base/str.h"

/* Time of CLOCK_MONOTONIC. */
uint64_t dgl_now_ns(void);
/* Time of any clock. Returns 0 if it cannot be read. */
uint64_t dgl_clock_ns(clockid_t clock);

/* Parses "2025-06-15", "2025-06-15T12:30" or "2025-06-15 12:30:59", years 1000 to 9999, and
 * computes the weekday. Returns false if the text is not a date. */
bool dgl_parse_date(struct dgl_str text, struct tm *out);

#endif
