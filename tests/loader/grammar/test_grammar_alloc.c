/* Memory exhaustion: each allocation of an operation fails once. */
#include "tests/support/grammar_random.h"

#include <stdlib.h>

#include "loader/grammar/json_schema.h"
#include "loader/grammar/token_mask.h"

/* Number of allocations that still succeed; negative means no limit. */
static long countdown = -1;

static bool refuse(void)
{
    return countdown >= 0 && countdown-- == 0;
}

#include "tests/support/failing_alloc.h"

static const char *const tokens[] = {"a", "b", "ab", "\"",       "\\",   "a\"",
                                     "(", ")", "1",  "\xC3\xA9", "\xA9", NULL};

/* Runs a grammar to the end of a text. Returns the first failure. */
static enum dgl_status run(const struct dgl_log *log, const char *text, const char *input)
{
    enum dgl_status status;
    struct dgl_budget budget = grammar_budget(log, "G", strlen(text));
    struct grammar_builder *b = NULL;
    struct grammar *grammar = NULL;
    struct grammar_vocabulary v = {0};
    struct token_masks *masks = NULL;
    struct matcher *m = NULL;
    struct gr_rule root;
    struct dgl_buf forced = {0};
    uint32_t bits[1];
    bool ok;
    long left = countdown;
    countdown = -1;
    v.offsets = calloc(16, sizeof(*v.offsets));
    for (size_t i = 0; tokens[i]; i++) {
        dgl_buf_puts(&v.bytes, tokens[i]);
        v.offsets[++v.num_tokens] = (uint32_t)v.bytes.len;
    }
    struct token_spellings spellings = {
        .num_tokens = v.num_tokens, .bytes = (const uint8_t *)v.bytes.p, .offsets = v.offsets};
    countdown = left;
    TRY(grammar_builder_create(&budget, &b));
    TRY(gbnf_parse(b, dgl_str_of(text), "root", NULL, &root));
    TRY(grammar_compile(b, root, &grammar));
    TRY(token_trie_create(log, &spellings, &v.trie));
    TRY(token_masks_create(log, grammar, v.trie, &masks));
    TRY(matcher_create(log, grammar, &m));
    for (size_t i = 0; i < strlen(input); i++) {
        TRY(token_mask(masks, m, bits));
        TRY(matcher_forced(m, 10, &forced));
        TRY(matcher_advance(m, input + i, 1, &ok));
        assert_true(ok);
    }
    assert_true(matcher_may_end(m));
done:
    countdown = -1;
    matcher_destroy(&m);
    token_masks_destroy(&masks);
    token_trie_destroy(&v.trie);
    grammar_unref(&grammar);
    grammar_builder_destroy(&b);
    dgl_buf_finish(&v.bytes);
    dgl_buf_finish(&forced);
    free(v.offsets);
    return status;
}

static enum dgl_status run_dfas(const struct dgl_log *log, const char *pattern, const char *input)
{
    enum dgl_status status;
    struct dgl_budget budget = grammar_budget(log, "P", strlen(pattern));
    struct grammar_builder *b = NULL;
    struct gr_expr expr;
    TRY(grammar_builder_create(&budget, &b));
    TRY(regex_parse(b, dgl_str_of(pattern), true, &expr));
    struct gr_dfa dfa = gr_dfa_of(b, expr);
    struct gr_dfa other = gr_dfa_not(b, gr_dfa_not(b, dfa));
    other = gr_dfa_or(b, gr_dfa_and(b, other, dfa), gr_dfa_json_escaped(b, dfa));
    bool accepts = gr_dfa_accepts(b, other, dgl_str_of(input));
    TRY(budget.status);
    assert_true(accepts);
done:
    countdown = -1;
    grammar_builder_destroy(&b);
    return status;
}

static enum dgl_status run_schema(const struct dgl_log *log, const char *schema, const char *input)
{
    enum dgl_status status;
    struct dgl_budget budget = grammar_budget(log, "S", strlen(schema));
    struct dgl_buf warnings = {0};
    const struct json_schema_options options = {.warnings = &warnings};
    struct grammar_builder *b = NULL;
    struct grammar *grammar = NULL;
    struct matcher *m = NULL;
    struct gr_rule root;
    bool ok;
    TRY(grammar_builder_create(&budget, &b));
    TRY(json_schema_parse(b, dgl_str_of(schema), &options, &root));
    TRY(grammar_compile(b, root, &grammar));
    TRY(matcher_create(log, grammar, &m));
    TRY(matcher_advance(m, input, strlen(input), &ok));
    assert_true(ok && matcher_may_end(m) && warnings.len);
done:
    countdown = -1;
    matcher_destroy(&m);
    grammar_unref(&grammar);
    grammar_builder_destroy(&b);
    dgl_buf_finish(&warnings);
    return status;
}

struct row {
    const char *name;
    enum dgl_status (*run)(const struct dgl_log *log, const char *text, const char *input);
    const char *text, *input;
};
static const struct row rows[] = {
    {"strings", run, "root ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" [ab])* \"\\\"\"",
     "\"ab\\a\xC3\xA9\""},
    {"counters and calls", run,
     "root ::= \"(\" root \")\" | [a-z]{1,30} | x{2}\nx ::= \"1\" y? \"1\"\ny ::= root | \"2\" y",
     "((ab))"},
    {"ambiguous", run, "root ::= (a | b)+ \"1\"\na ::= \"a\" a? | \"ab\"\nb ::= \"a\" b? | \"b\"",
     "aaabab1"},
    {"regular expressions", run_dfas, "^(?:[a-c\\d]{2,5}|\\p{Nd}+|x$|[^\\w\\s])", "ab1"},
    {"schemas", run_schema,
     "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^[ab]+$\","
     "\"maxLength\":3},\"b\":{\"oneOf\":[{\"type\":\"integer\",\"minimum\":2,\"multipleOf\":2},"
     "{\"const\":\"x\"}]},\"c\":{\"$ref\":\"#/$defs/d\"}},\"required\":[\"c\"],"
     "\"patternProperties\":{\"z\":{\"format\":\"z\"}},\"$defs\":{\"d\":{\"type\":\"array\","
     "\"prefixItems\":[{\"enum\":[[1],null]}]}}}",
     "{\"a\":\"ab\",\"b\":4,\"c\":[null],\"z\":\"y\"}"},
};

static void test_allocations(void **state)
{
    const struct row *row = *state;
    struct test_log t;
    enum dgl_status status = DGL_ERR_NO_MEMORY;
    long n = 0;
    for (; status != DGL_OK; n++) {
        test_log_init(&t, DGL_LOG_ERROR);
        countdown = n;
        status = row->run(&t.log, row->text, row->input);
        if (status != DGL_OK && (status != DGL_ERR_NO_MEMORY || t.errors != 1))
            fail_msg("allocation %ld: status %d, %d lines: %s", n, status, t.errors, t.text);
    }
    assert_int_equal(t.errors, 0);
    assert_true(n > 20);
}

int main(void)
{
    return test_run_table("allocations", test_allocations, rows);
}
