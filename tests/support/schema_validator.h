/* An independent validator of JSON Schema: values against schemas, both parsed. It shares no code
 * with the frontend of grammars. Patterns are PCRE2's. */
#ifndef DGL_TESTS_SCHEMA_VALIDATOR_H
#define DGL_TESTS_SCHEMA_VALIDATOR_H

#include "core/base/json.h"

/* Returns NULL if the value is valid, else the keyword that it violates. Fails the test if the
 * schema has a keyword that the validator does not know. */
const char *schema_validate(const struct dgl_json *root, const struct dgl_json *schema,
                            const struct dgl_json *value);

#endif
