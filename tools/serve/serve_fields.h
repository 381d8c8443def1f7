/* The fields of OpenAI, llama-server, vLLM and Ollama, each with a decision (docs/server.md). */
#ifndef DGL_TOOLS_SERVE_FIELDS_H
#define DGL_TOOLS_SERVE_FIELDS_H

#include <stddef.h>

enum field_type {
    /* Stored in struct serve_request at `offset`. Numbers are within min and max. */
    FIELD_BOOL,
    FIELD_INT,
    FIELD_LONG,
    FIELD_REAL,
    FIELD_TEXT,
    /* Read by other code. The type is checked if there is one. */
    FIELD_LIST,
    FIELD_OBJECT,
    FIELD_READ,
    /* Accepted without effect: the field does not change an answer. */
    FIELD_IGNORED,
    /* Would change the answer and is not supported: refused with `why`. */
    FIELD_REFUSED,
    /* The same, but the value without effect is accepted: `min` (a boolean counts as 0 or 1), or an
     * empty string, list or object. */
    FIELD_NEUTRAL,
};

struct serve_field {
    const char *name;
    unsigned kinds; /* bits 1 << enum serve_kind of the requests that have the field */
    enum field_type type;
    size_t offset;
    double min, max;
    const char *why; /* reason or advice of a refusal; may be NULL */
};
extern const struct serve_field serve_fields[];
extern const size_t serve_num_fields;

#endif
