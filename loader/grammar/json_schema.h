/*
 * json_schema.h: JSON Schema as a frontend of grammars. docs/structured.md has the keywords, the
 * limits and the order of properties.
 *
 * Every text that the grammar matches is a JSON document that the schema accepts, for drafts 4 to
 * 2020-12. The reverse is not promised: properties have the order of the schema, and some
 * spellings of numbers and strings are never written. A schema with an assertion that is not
 * supported is refused; the message has the JSON pointer of the keyword.
 */
#ifndef DGL_LOADER_JSON_SCHEMA_H
#define DGL_LOADER_JSON_SCHEMA_H

#include "loader/grammar/grammar.h"

struct json_schema_options {
    bool compact;             /* no whitespace between tokens */
    struct dgl_buf *warnings; /* gets a line for each unchecked format; may be NULL */
};

/* Adds a schema to a builder. The budget of the builder has the name of the text. The rule *root
 * matches the documents of the schema. */
enum dgl_status json_schema_parse(struct grammar_builder *b, struct dgl_str text,
                                  const struct json_schema_options *options, struct gr_rule *root);

/* Any JSON value, or any object. */
enum dgl_status json_value_grammar(struct grammar_builder *b, bool object, bool compact,
                                   struct gr_rule *root);

/* Checks the additional rules of OpenAI's `strict: true`: the root is an object; each object lists
 * all its properties in `required` and has `additionalProperties: false`; limits of size and
 * nesting. On failure appends the JSON pointer of the place to `pointer`, which may be NULL. Does
 * not replace json_schema_parse(). */
enum dgl_status json_schema_check_strict(const struct dgl_log *log, const char *name,
                                         struct dgl_str text, struct dgl_buf *pointer);

#endif
