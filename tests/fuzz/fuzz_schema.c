/* Compiles JSON Schemas. Input: a byte (odd: compact), a schema, a NUL byte, and a text. Shortest
 * documents must be JSON. */
#include "tests/fuzz/fuzz.h"

#include "core/base/json.h"
#include "loader/grammar/json_schema.h"
#include "tests/fuzz/fuzz_grammar.h"

/* A shortest document must be JSON. Equal additional keys are possible. */
static void check_document(struct grammar_builder *b, struct gr_rule root)
{
    struct grammar *grammar = NULL;
    struct matcher *m = NULL;
    struct dgl_buf text = {0};
    struct dgl_json_doc *doc = NULL;
    if (grammar_compile(b, root, &grammar) == DGL_OK &&
        matcher_create(NULL, grammar, &m) == DGL_OK && matcher_completion(m, 5000, &text)) {
        FUZZ_CHECK(dgl_json_parse(NULL, "document", text.p, text.len, &doc) == DGL_OK ||
                   text.len > 60);
    }
    dgl_json_destroy(&doc);
    dgl_buf_finish(&text);
    matcher_destroy(&m);
    grammar_unref(&grammar);
}

void fuzz_one(struct dgl_str input)
{
    const struct json_schema_options options = {.compact = fuzz_byte(&input) & 1};
    struct dgl_str schema = fuzz_section(&input);
    struct fuzz_log log;
    struct grammar_builder *b = NULL;
    struct gr_rule root = {0};
    fuzz_log_init(&log);
    /* A schema of a few bytes must not be allowed to take long. */
    struct dgl_budget budget = grammar_budget(&log.log, "S", schema.len);
    enum dgl_status status = grammar_builder_create(&budget, &b);
    if (status == DGL_OK)
        status = json_schema_parse(b, schema, &options, &root);
    fuzz_grammar(&log, b, status, root, input);
    if (status == DGL_OK && budget.status == DGL_OK)
        check_document(b, root);
    grammar_builder_destroy(&b);
    struct dgl_buf pointer = {0};
    fuzz_check_status(&log, json_schema_check_strict(&log.log, "S", schema, &pointer));
    dgl_buf_finish(&pointer);
}
