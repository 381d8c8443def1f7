/* Monotonic time, and dates as people write them. */
#ifndef DGL_BASE_CLOCK_H
#define DGL_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "core/base/str.h"

uint64_t dgl_now_ns(void);

/* "2025-06-15", "2025-06-15T12:30" or "2025-06-15 12:30:59", of the years 1000 to 9999; the
 * weekday is computed. False: not a date. */
bool dgl_parse_date(struct dgl_str text, struct tm *out);

#endif
