/* jinja_time.h: dates as text. */
#ifndef DGL_LOADER_JINJA_TIME_H
#define DGL_LOADER_JINJA_TIME_H

#include <time.h>

#include "core/base/str.h"

/* strftime in the C locale for a time without a zone; "%-d" leaves out the padding. The day of the
 * week and of the year are counted from the date. False: `format` has a conversion that is not
 * known, *unknown is its letter. */
bool jinja_strftime(struct dgl_buf *out, struct dgl_str format, const struct tm *now,
                    char *unknown);

#endif
