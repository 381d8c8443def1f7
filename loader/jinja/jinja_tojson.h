/* jinja_tojson.h: the filter tojson, as Hugging Face defines it: json.dumps without HTML escapes.
 */
#ifndef DGL_LOADER_JINJA_TOJSON_H
#define DGL_LOADER_JINJA_TOJSON_H

#include "loader/jinja/jinja_call.h"

bool jinja_filter_tojson(struct jinja_run *run, struct jinja_invocation *in,
                         struct jinja_value *out);

#endif
