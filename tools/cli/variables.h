/* variables.h: --chat-template-kwargs, variables of the chat template. */
#ifndef DGL_TOOLS_VARIABLES_H
#define DGL_TOOLS_VARIABLES_H

#include "core/base/json.h"
#include "tools/cli/options.h"

/* Parses the option of `command`, if it is given. Returns false after an error line. `*doc` is NULL
 * without the option. */
bool variables_parse(const struct options *opt, const char *command, struct dgl_json_doc **doc);
/* Returns true if the option is absent, or is an object that may be added to messages. */
bool variables_check(const struct options *opt, const char *command);
/* Appends JSON text of messages to *out, as an object with the variables of the option. They
 * replace members of an object. A text that is not JSON, an array or an object stays as it is, so
 * that its reader names the fault. */
enum dgl_status variables_add(const struct dgl_log *log, const struct options *opt,
                              struct dgl_str messages, struct dgl_buf *out);

#endif
