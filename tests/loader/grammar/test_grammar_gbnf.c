/* GBNF: texts that grammars accept and reject, and the messages for wrong grammars. */
#include "tests/support/grammar_case.h"

#include <stdlib.h>

/* Texts are separated by '~'. `whole` are complete texts, `parts` the start of one, `wrong`
 * neither. */
struct row {
    const char *name, *grammar, *whole, *parts, *wrong;
};
static const struct row rows[] = {
    {"literal", "root ::= \"abc\"", "abc", "~a~ab", "b~abcd~abd"},
    {"alternatives", "root ::= \"a\" | \"bc\" | ", "~a~bc", "b", "c~ab"},
    {"repeats", "root ::= \"a\"* \"b\"+ \"c\"? \"d\"{2} \"e\"{1,2} \"f\"{2,}",
     "bddeff~aabbbcddeefffff", "~b~bc~bdd~bddef", "c~bcc~bddd~bddeee~bddf"},
    {"group over lines", "root ::= (\n  \"a\" # first\n  | \"b\"\n)+ \"c\"\n\n# end", "ac~bbac",
     "~a~ab", "c~d"},
    {"classes", "root ::= [a-cx] [^a-c\\n] [\\x41\\u00e9\\U0001F600-] [\\]\\[^]",
     "axA]~b\xC3\xA9\xC3\xA9[~cd\xF0\x9F\x98\x80^~x\xE2\x82\xAC-]", "~a~ax~a\xC3~a\xF0\x9F~axA",
     "d~aa~a\n~axB~a\x80~axAx"},
    {"negated class excludes its members", "root ::= [^\\]\"\\\\]", "a~[~\xEF\xBF\xBF", "~\xEF",
     "]~\"~\\~\xED\xA0\x80~\xC0\x80~\xF4\x90"},
    {"any", "root ::= . \"!\"", "a!~\n!~\xF4\x8F\xBF\xBF!", "~a~\xF4\x8F", "!a~\xFF~\xED\xA0"},
    {"recursion", "root ::= \"(\" root? \")\"", "()~((()))", "~(~((~(()", ")~())~()("},
    {"right recursion", "root ::= \"a\" root | \"b\"", "b~aaab", "~a~aa", "c~ba"},
    {"rule names", "root ::= a-1 B2 c_3\na-1::=\"x\"\nB2 ::= \"y\"\nc_3 ::= \"z\"", "xyz", "x~xy",
     "y"},
    {"indented rules over lines",
     "\n  root ::=\n    \"[\" ws (\n      [a-z]+ |\n      item  # a comment\n    )? \"]\"\n\n  "
     "item ::= \"1\" |"
     "\n    \"2\"\n  ws ::= ([ \t] ws)?\n",
     "[]~[ \t abc]~[1]~[2]", "[~[ ", "]~[ab1"},
    {"empty", "root ::= \"\"", "", "", "a"},
    {"line ends", "root ::= \"a\"\r\n", "a", "", "b"},
    {"counter of a class", "root ::= [^z]{2,4} \"z\"", "aaz~aaaaz~a\xC3\xA9z",
     "~a~aaaa~a\xC3~aaa\xE2\x82", "z~az~aaaaa~aaaa\xC3"},
    {"counter of characters", "root ::= (\"\\\\\" [nt] | [^\"\\\\]){1,3} \"\\\"\"",
     "a\"~\\n\\tx\"~\\na\\t\"", "\\~\\n~a\\~ab\\", "\"~abcd~abc\\~\\x"},
    {"counter without an upper bound", "root ::= [a-z]{20,}",
     "aaaaaaaaaaaaaaaaaaaa~abcdefghijklmnopqrstuvwxyz", "~aaaaaaaaaaaaaaaaaaa",
     "1~aaaaaaaaaaaaaaaaaaaa1"},
    {"counter that may be empty", "root ::= [a-z]{0,20} \"1\" [a-z]{0,1}",
     "1~abc1~1a~aaaaaaaaaaaaaaaaaaaa1b", "~a", "a2~aaaaaaaaaaaaaaaaaaaaa"},
    {"counter before its own characters", "root ::= [a-z]{1,30} \"abc\" [0-9]", "aabc1~abcabc2",
     "~a~abc~aabc~abcabc", "1~a1~abc1"},
    {"repeat of a counted repeat", "root ::= ([^z]{1,3}){1,20} \"z\"", "az~aaaaaaz", "~a~aaaa",
     "z~azz"},
    {"repeat of a repeated group", "root ::= ((\"ab\" | \"a\"){2,9}){1,20} \"z\"", "aaz~abaabaz",
     "~a~ab~aaaaa", "z~az~b~abz"},
    {"repeat of an item with a loop", "root ::= ([a-z]* \"1\"){1,20} \"2\"", "12~ab12~1112~1a1b12",
     "~a~1a~11", "2~a2~1a2"},
    {"copies of a group", "root ::= ( \"a\" root? \"b\" ){2,3}", "abab~ababab~aababbab~abaababb",
     "~ab~aba", "b~abb~abababa"},
    {"nullable items in repeats", "root ::= (\"a\"? \"b\"?){3} \"c\"", "c~ac~bbbc~ababc", "~aaa~bb",
     "aaaa~bbbb"},
    {"ambiguous", "root ::= (\"a\" | \"a\" \"a\")* \"b\"", "b~ab~aaaaaaab", "~aaaa", "ba"},
    {"a rule without an end is left out", "root ::= \"a\" | \"b\" x\nx ::= \"c\" x", "a", "", "b"},
    {"unit rules", "root ::= a\na ::= b\nb ::= c\nc ::= \"x\" c | \"y\"", "y~xxy", "~x", "z"},
    {"hidden empty rules", "root ::= e e x e\ne ::= \"\" | \"-\"\nx ::= \"x\"", "x~-x-~--x",
     "~-~--", "---"},
    {"chess",
     "root ::= (\"1. \" move \" \" move \"\\n\")? ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n"
     "move ::= (pawn | nonpawn | castle) [+#]?\n"
     "nonpawn ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
     "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
     "castle ::= \"O-O\" \"-O\"?\n",
     "1. e4 e5\n~1. e4 e5\n2. Nf3 Nc6\n~9. O-O-O bxc8=Q+\n", "~1. N~1. Nbd~1. e4 O-O",
     "0. ~1. e9~1. e4 e5 "},
    {"arithmetic",
     "root ::= (expr \"=\" term \"\\n\")+\nexpr ::= term ([-+*/] term)*\n"
     "term ::= ident | num | \"(\" ws expr \")\" ws\nident ::= [a-z] [a-z0-9_]* ws\n"
     "num ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n",
     "1=2\n~a+(b*c)=4\n~x1 =3\n\n", "~1~1+~((((a~1=2", "=~1+=~)"},
    {"list", "root ::= item+\nitem ::= \"- \" [^\\r\\n\\x0b\\x0c\\x85\\u2028\\u2029]+ \"\\n\"\n",
     "- a\n~- a\n- b \xE2\x82\xAC\n", "~-~- ~- a~- a\xE2\x80~- a\n-", "a~- \n~- a\xE2\x80\xA8"},
};

static void check(struct grammar_case *c, const char *texts, enum grammar_verdict wanted)
{
    static const char *const names[] = {"rejects", "continues", "ends"};
    while (texts) {
        const char *end = strchr(texts, '~');
        size_t len = end ? (size_t)(end - texts) : strlen(texts);
        enum grammar_verdict got = grammar_case_feed(c, texts, len);
        if (got != wanted)
            fail_msg("\"%.*s\": the matcher %s, wanted %s", (int)len, texts, names[got],
                     names[wanted]);
        texts = end ? end + 1 : NULL;
    }
}

static void test_texts(void **state)
{
    const struct row *row = *state;
    struct grammar_case c;
    grammar_case_gbnf(&c, row->grammar);
    check(&c, row->whole, GRAMMAR_ENDS);
    if (*row->parts)
        check(&c, row->parts, GRAMMAR_CONTINUES);
    if (*row->wrong)
        check(&c, row->wrong[0] == '~' ? row->wrong + 1 : row->wrong, GRAMMAR_REJECTS);
    grammar_case_finish(&c);
}

static void test_json(void **state)
{
    struct grammar_case c;
    (void)state;
    grammar_case_gbnf(&c, grammar_json);
    check(&c, "{}~{\"a\":1}~{\"a\": [1, -2.5e10, true, null, \"\\u00e9\\n\xE2\x82\xAC\"]}",
          GRAMMAR_ENDS);
    check(&c, "{~{\"~{\"\\~{\"a\":~{\"a\":[[[[{\"b\":tr", GRAMMAR_CONTINUES);
    check(&c, "a~{a~{\"a\"}~{\"a\":01~{\"\n~{}}~{\"a\":1,}", GRAMMAR_REJECTS);
    grammar_case_finish(&c);
}

static int32_t find_token(void *priv, struct dgl_str text)
{
    (void)priv;
    return dgl_str_eq(text, "<think>") ? 7 : -1;
}

static void test_tokens(void **state)
{
    static const char text[] = "root ::= <think> !<[8]>* <[8]> \"x\"";
    struct gr_vocabulary vocabulary = {find_token, NULL};
    struct grammar_case c;
    bool ok;
    (void)state;
    grammar_case_begin(&c);
    assert_int_equal(gbnf_parse(c.b, dgl_str_of(text), "root", &vocabulary, &c.root), DGL_OK);
    assert_int_equal(grammar_compile(c.b, c.root, &c.grammar), DGL_OK);
    assert_int_equal(matcher_create(&c.t.log, c.grammar, &c.m), DGL_OK);
    static const struct {
        int32_t id;
        const char *bytes;
        bool ok;
    } steps[] = {{6, "", false},   {1, "<think>", false}, {7, "", true},  {7, "", true},
                 {3, "abc", true}, {8, "", true},         {8, "", false}, {4, "x", true}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        assert_int_equal(
            matcher_advance_token(c.m, steps[i].id, steps[i].bytes, strlen(steps[i].bytes), &ok),
            DGL_OK);
        if (ok != steps[i].ok)
            fail_msg("step %zu (token %d): %d, wanted %d", i, steps[i].id, ok, steps[i].ok);
    }
    assert_true(matcher_must_end(c.m));
    grammar_case_finish(&c);
}

struct wrong_row {
    const char *name, *grammar;
    const char *parts[3];
};
static const struct wrong_row wrong_rows[] = {
    {"no name", "root ::= \"a\"\n::= \"b\"", {"line 2, column 1", "name of a rule", "::="}},
    {"no ::=", "root = \"a\"", {"line 1, column 6", "wanted ::=", "= "}},
    {"no root", "a ::= \"a\"", {"no rule \"root\""}},
    {"empty text", "", {"no rule \"root\""}},
    {"undefined rule", "root ::= \"a\" |\n   bcd", {"line 2, column 4", "has no body", "bcd"}},
    {"defined twice", "root ::= \"a\"\nroot ::= \"b\"", {"line 2, column 1", "already"}},
    {"open quote", "root ::= \"abc", {"line 1, column 10", "closing quote"}},
    {"open bracket", "root ::= [abc", {"line 1, column 10", "closing bracket"}},
    {"open parenthesis", "root ::= (\"a\"\n", {"wanted ')'", "the end of the text"}},
    {"closing parenthesis", "root ::= \"a\" )", {"line 1, column 14", "the end of the line"}},
    {"escape", "root ::= \"\\q\"", {"line 1, column 11", "unknown escape", "\\q"}},
    {"hex", "root ::= \"\\u12g4\"", {"column 15", "4 hex digits"}},
    {"surrogate", "root ::= \"\\uD800\"", {"column 13", "surrogate"}},
    {"too large", "root ::= [\\U00110000]", {"column 13", "10FFFF"}},
    {"range", "root ::= [z-a]", {"column 11", "ascends"}},
    {"repeat of nothing", "root ::= * \"a\"", {"column 10", "an item before the repeat"}},
    {"repeat of nothing in a group", "root ::= \"a\" (+)", {"column 15", "an item before"}},
    {"bounds", "root ::= \"a\"{3,2}", {"column 14", "ascend"}},
    {"bounds without a number", "root ::= \"a\"{,2}", {"column 14", "a number"}},
    {"bounds without an end", "root ::= \"a\"{2", {"column 15", "wanted '}'"}},
    {"large bounds", "root ::= \"a\"{1000001}", {"column 14", "1000000"}},
    {"copies", "root ::= (\"a\" root \"b\" | \"c\"){2001}", {"2001 copies", "at most 2000"}},
    {"token", "root ::= <[x]>", {"column 10", "number of a token"}},
    {"token by text", "root ::= <think>", {"column 10", "vocabulary"}},
    {"token without an end", "root ::= <think", {"column 10", "wanted '>'"}},
    {"negation of nothing", "root ::= !\"a\"", {"column 11", "wanted '<'"}},
    {"UTF-8", "root ::= \"\xC3\xA9\xFF\"", {"column 12", "UTF-8"}},
    {"columns are characters", "root ::= \"\xC3\xA9\xC3\xA9\" )", {"column 15"}},
    {"left recursion", "root ::= x\nx ::= x \"a\" | \"b\"", {"rule \"x\"", "left-recursive"}},
    {"left recursion of several rules",
     "root ::= \"q\" a\na ::= b \"x\" | \"1\"\nb ::= c \"y\" | \"2\"\nc ::= a \"z\" | \"3\"",
     {"left-recursive"}},
    {"left recursion after empty rules",
     "root ::= e e root \"a\" | \"b\"\ne ::= \"\" | \"x\"",
     {"rule \"root\"", "left-recursive"}},
    {"left recursion in a repeat",
     "root ::= (root \"a\"){0,5} \"b\"",
     {"rule \"root\"", "left-recursive"}},
    {"no end", "root ::= \"a\" root", {"rule \"root\"", "matches no text"}},
};

static void test_wrong(void **state)
{
    const struct wrong_row *row = *state;
    struct grammar_case c;
    grammar_case_begin(&c);
    enum dgl_status status = gbnf_parse(c.b, dgl_str_of(row->grammar), "root", NULL, &c.root);
    if (status == DGL_OK)
        status = grammar_compile(c.b, c.root, &c.grammar);
    assert_refusal(&c.t, status, DGL_ERR_INVALID_ARG, row->parts);
    assert_null(c.grammar);
    grammar_case_finish(&c);
}

static void test_nesting(void **state)
{
    struct grammar_case c;
    struct dgl_buf text = {0};
    (void)state;
    dgl_buf_puts(&text, "root ::= ");
    for (int i = 0; i < 201; i++)
        dgl_buf_puts(&text, "(");
    grammar_case_begin(&c);
    static const char *const parts[] = {"column 210", "deeper than 200"};
    assert_refusal(&c.t, gbnf_parse(c.b, dgl_str_of(text.p), "root", NULL, &c.root),
                   DGL_ERR_INVALID_ARG, parts);
    grammar_case_finish(&c);
    dgl_buf_finish(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json), cmocka_unit_test(test_tokens),
                                       cmocka_unit_test(test_nesting)};
    return test_run_table("texts", test_texts, rows) +
           test_run_table("messages", test_wrong, wrong_rows) +
           cmocka_run_group_tests_name("gbnf", tests, NULL, NULL);
}
