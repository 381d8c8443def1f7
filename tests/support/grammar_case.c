/* Grammars of tests, compiled. */
#include "tests/support/grammar_case.h"

const char grammar_json[] =
    "root    ::= object\n"
    "value   ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object  ::= \"{\" ws ( member ( \",\" ws member )* )? \"}\" ws\n"
    "member  ::= string \":\" ws value ws\n"
    "array   ::= \"[\" ws ( value ws ( \",\" ws value ws )* )? \"]\" ws\n"
    "string  ::= \"\\\"\" char* \"\\\"\"\n"
    "char    ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ( [\"\\\\/bfnrt] | \"u\" hex{4} )\n"
    "hex     ::= [0-9a-fA-F]\n"
    "number  ::= \"-\"? ( \"0\" | [1-9] [0-9]{0,15} ) ( \".\" [0-9]+ )? ( [eE] [-+]? [0-9]{1,3} "
    ")?\n"
    "ws      ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

void grammar_case_begin(struct grammar_case *c)
{
    *c = (struct grammar_case){0};
    test_log_init(&c->t, DGL_LOG_ERROR);
    c->budget = grammar_budget(&c->t.log, "G", 0);
    if (grammar_builder_create(&c->budget, &c->b) != DGL_OK)
        fail_msg("%s", c->t.text);
}

static void compile(struct grammar_case *c, const char *name)
{
    if (grammar_compile(c->b, c->root, &c->grammar) != DGL_OK ||
        matcher_create(&c->t.log, c->grammar, &c->m) != DGL_OK)
        fail_msg("%s: %s", name, c->t.text);
}

void grammar_case_build(struct grammar_case *c, struct gr_expr body)
{
    c->root = gr_rule_new(c->b, DGL_STR("root"));
    gr_rule_set(c->b, c->root, body);
    compile(c, "a built grammar");
}

void grammar_case_gbnf(struct grammar_case *c, const char *text)
{
    grammar_case_begin(c);
    if (gbnf_parse(c->b, dgl_str_of(text), "root", NULL, &c->root) != DGL_OK)
        fail_msg("%s: %s", text, c->t.text);
    compile(c, text);
}

void grammar_case_regex(struct grammar_case *c, const char *pattern, bool search)
{
    struct gr_expr expr;
    grammar_case_begin(c);
    if (regex_parse(c->b, dgl_str_of(pattern), search, &expr) != DGL_OK)
        fail_msg("%s: %s", pattern, c->t.text);
    grammar_case_build(c, expr);
}

void grammar_case_finish(struct grammar_case *c)
{
    matcher_destroy(&c->m);
    grammar_unref(&c->grammar);
    grammar_builder_destroy(&c->b);
}

enum grammar_verdict grammar_case_feed(struct grammar_case *c, const void *text, size_t len)
{
    bool ok;
    matcher_reset(c->m);
    if (matcher_advance(c->m, text, len, &ok) != DGL_OK)
        fail_msg("%s", c->t.text);
    return !ok ? GRAMMAR_REJECTS : matcher_may_end(c->m) ? GRAMMAR_ENDS : GRAMMAR_CONTINUES;
}
