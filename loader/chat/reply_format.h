/* reply_format.h: how families of chat models write calls of tools. */
#ifndef DGL_LOADER_REPLY_FORMAT_H
#define DGL_LOADER_REPLY_FORMAT_H

#include <stdbool.h>

#include "core/base/str.h"

#define REPLY_FORMAT_TOKENS 8

/* A call is JSON with `name` and `arguments` or `parameters`, but for what the fields say. Texts
 * are static; NULL = there is none. */
struct reply_format {
    const char *name;
    const char *sign;  /* a template that has it belongs to such a model */
    const char *open;  /* before a call, or before a list of calls */
    const char *close; /* behind it */
    /* "NAME args JSON", with "id ID" before `args` perhaps, is a call too: JSON has the arguments
     * alone */
    const char *args, *id;
    bool list;     /* a call may be a JSON list of calls */
    bool alone;    /* JSON that begins an answer is a call without `open` */
    bool channels; /* OpenAI's harmony; `open` and the like do not count */
    /* Of these texts, those that are special tokens; NULL ends. */
    const char *tokens[REPLY_FORMAT_TOKENS];
};

/* Of a template's text; NULL = none of those that are known. */
const struct reply_format *reply_format_find(struct dgl_str tmpl);
/* Whether a template knows <think>. */
bool reply_format_thinks(struct dgl_str tmpl);

#endif
