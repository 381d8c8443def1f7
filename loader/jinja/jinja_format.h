/* jinja_format.h: values laid out by format specifications, as Python's % and str.format do it. */
#ifndef DGL_LOADER_JINJA_FORMAT_H
#define DGL_LOADER_JINJA_FORMAT_H

#include "loader/jinja/jinja_call.h"
#include "loader/jinja/jinja_text.h"

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
