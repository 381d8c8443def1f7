/* reply_format.h: formats of tool calls by model family. */
#ifndef DGL_LOADER_REPLY_FORMAT_H
#define DGL_LOADER_REPLY_FORMAT_H

#include <stdbool.h>

#include "core/base/str.h"

#define REPLY_FORMAT_TOKENS 8
#define REPLY_THINK_OPEN    "<think>"
#define REPLY_THINK_CLOSE   "</think>"

/* A call is a JSON object with `name` and `arguments` or `parameters`, or a list of such objects.
 * The fields describe exceptions. All strings are static; NULL if the format has no such text. */
struct reply_format {
    const char *name;
    const char *sign;  /* the format is used if the template contains this text */
    const char *open;  /* text before a call or a list of calls */
    const char *close; /* text after it */
    /* "NAME args JSON" is a call too, possibly with "id ID" before `args`. The JSON has only the
     * arguments. */
    const char *args, *id;
    bool alone;    /* JSON at the start of an answer is a call, even without `open` */
    bool channels; /* OpenAI's harmony; ignores `open`, `close`, `args` and `id` */
    /* Texts above that are special tokens, ended by NULL. */
    const char *tokens[REPLY_FORMAT_TOKENS];
};

/* Finds the format of a template by its text. Returns NULL if it is unknown. */
const struct reply_format *reply_format_find(struct dgl_str tmpl);
/* Returns true if the template contains <think> or </think>. */
bool reply_format_thinks(struct dgl_str tmpl);

#endif
