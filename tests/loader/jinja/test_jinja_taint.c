/* Taint of each rendered byte, and the interface of jinja.h. */
#include "tests/support/jinja_render.h"

#include <locale.h>
#include <stdlib.h>

static const char data_variables[] =
    "{\"u\": \"us<er>\", \"e\": \"\", \"n\": 12, \"f\": 1.5, \"t\": true, \"l\": [\"a\", \"b\"],"
    " \"d\": {\"k\": \"v\"}, \"p\": \" x \", \"m\": \"a\\nb\", \"w\": \"\xC3\xA9Z\","
    " \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"a|b\"}]}";

/* `taint` has a character per byte: '#' for data, '.' for text of the template. */
struct row {
    const char *name, *tmpl, *text, *taint;
};

static const struct row rows[] = {
    {"plain text", "abc", "abc", "..."},
    {"a literal", "{{ 'abc' }}", "abc", "..."},
    {"a variable", "<{{ u }}>", "<us<er>>", ".######."},
    {"concatenation", "{{ 'a' + u + 'b' }}", "aus<er>b", ".######."},
    {"tilde", "{{ u ~ 1 ~ n }}", "us<er>112", "######.##"},
    {"a number", "{{ n }}-{{ f }}-{{ t }}", "12-1.5-True", "##.###.####"},
    {"a computed number", "{{ n + 1 }}{{ 1 + 1 }}", "132", "##."},
    {"a slice", "{{ u[1:3] }}{{ ('a' + u)[:2] }}", "s<au", "##.#"},
    {"a slice backwards", "{{ ('a' + u)[::-1] }}", ">re<sua", "######."},
    {"a character", "{{ u[0] }}{{ ('a' + u)[1] }}", "uu", "##"},
    {"a loop over characters", "{% for c in 'a' + p %}{{ c }}{% endfor %}", "a x ", ".###"},
    {"trim", "[{{ p|trim }}]", "[x]", ".#."},
    {"trim of a mixture", "{{ ('  a' + p)|trim }}", "a x", ".##"},
    {"strip", "{{ ('a' + p).strip() }}", "a x", ".##"},
    {"upper", "{{ ('a' + u)|upper }}", "AUS<ER>", ".######"},
    {"capitalize", "{{ (w + 'A')|capitalize }}", "\xC3\x89za", "###."},
    {"replace by data", "{{ 'abab'|replace('b', u) }}", "aus<er>aus<er>", ".######.######"},
    {"replace in data", "{{ u|replace('<', '[') }}", "us[er>", "##.###"},
    {"replace method", "{{ (u + '<').replace('<', '--') }}", "us--er>--", "##..###.."},
    {"replace makes no control token", "{{ u|replace('<', '<|') }}", "us<|er>", "##..###"},
    {"join", "{{ l|join(', ') }}", "a, b", "#..#"},
    {"join with data", "{{ ['x', 'y']|join(u) }}", "xus<er>y", ".######."},
    {"join method", "{{ '-'.join(l) }}", "a-b", "#.#"},
    {"split", "{{ ('x,' + u).split(',')|join('|') }}", "x|us<er>", "..######"},
    {"splitlines", "{{ m.splitlines()|join('.') }}", "a.b", "#.#"},
    {"indent", "{{ m|indent(2) }}", "a\n  b", "#...#"},
    {"escape", "{{ ('&' + u)|e }}", "&amp;us&lt;er&gt;", ".....############"},
    {"tojson of data", "{{ d|tojson }}", "{\"k\": \"v\"}", "##########"},
    {"tojson of a template's list", "{{ ['a', u]|tojson }}", "[\"a\", \"us<er>\"]",
     "......########."},
    {"tojson with indent", "{{ l|tojson(indent=1) }}", "[\n \"a\",\n \"b\"\n]", "##############"},
    {"str of a list", "{{ l }}", "['a', 'b']", "##########"},
    {"str of a mixture", "{{ ['a', n] }}", "['a', 12]", "......##."},
    {"format", "{{ '%s=%s' % ('a', u) }}", "a=us<er>", "..######"},
    {"format of a number", "{{ '%03d' % n }}", "012", ".##"},
    {"format braces", "{{ '{}-{:>8}'.format(n, u) }}", "12-  us<er>", "##...######"},
    {"repetition", "{{ ('a' + e + p[1]) * 2 }}", "axax", ".#.#"},
    {"a captured block", "{% set x %}a{{ u }}b{% endset %}{{ x }}", "aus<er>b", ".######."},
    {"a macro", "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(u)|upper }}", "<US<ER>>", ".######."},
    {"a filter block", "{% filter upper %}a{{ u }}{% endfilter %}", "AUS<ER>", ".######"},
    {"a call block",
     "{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}{{ u }}{% endcall %}", "(us<er>)",
     ".######."},
    {"a namespace", "{% set ns = namespace(s='a') %}{% set ns.s = ns.s + u %}{{ ns.s }}", "aus<er>",
     ".######"},
    {"default", "{{ nothing|default(u) }}{{ nothing|default('a') }}", "us<er>a", "######."},
    {"inline if", "{{ u if t else 'a' }}{{ 'a' if u else u }}", "us<er>a", "######."},
    {"keys and values", "{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "k=v", "#.#"},
    {"dictsort", "{% for k, v in d|dictsort %}{{ k }}={{ v }}{% endfor %}", "k=v", "#.#"},
    {"map and select", "{{ l|map('upper')|select('eq', 'A')|first }}", "A", "#"},
    {"sort", "{{ (l + ['c'])|sort(reverse=true)|join }}", "cba", ".##"},
    {"length counts, it does not quote", "{{ u|length }}", "6", "."},
    {"a role that is a word", "<|{{ messages[0].role }}|>", "<|user|>", "........"},
    {"a role that is none", "<|{{ messages[1].role }}|>", "<|a|b|>", "..###.."},
    {"content beside a role", "{{ messages[0].role }}{{ messages[0].content }}", "userhi",
     "....##"},
    {"int of data", "{{ '7'|int }}{{ (p ~ '9')|trim|length }}", "73", ".."},
    {"partition", "{{ (u + '=1').partition('=')[2] }}{{ u.partition('<')[0] }}", "1us", ".##"},
    {"strftime", "{{ strftime_now('%Y') }}", "2025", "...."},
};

static void taint_every_byte(void **state)
{
    const struct row *row = *state;
    struct jinja_rendered got;
    jinja_render_json(row->tmpl, data_variables, NULL, &got);
    if (got.status != DGL_OK)
        fail_msg("%s: %s", row->tmpl, got.log.text);
    assert_string_equal(got.text.p, row->text);
    char taint[128];
    assert_true(got.taint.len < sizeof(taint));
    for (size_t i = 0; i < got.taint.len; i++)
        taint[i] = got.taint.p[i] == JINJA_TAINT_DATA ? '#' : '.';
    taint[got.taint.len] = '\0';
    if (strcmp(taint, row->taint) != 0)
        fail_msg("%s\ntext   %s\nwanted %s\ngot    %s", row->tmpl, row->text, row->taint, taint);
    jinja_rendered_finish(&got);
}

/* ---- the interface ---- */

static struct jinja_template *parse(const char *text)
{
    struct jinja_template *tmpl = NULL;
    assert_int_equal(jinja_parse(NULL, "T", text, strlen(text), &tmpl), DGL_OK);
    return tmpl;
}

static void trusted_variables_are_the_templates(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = NULL;
    struct jinja_template *tmpl = parse("{{ bos_token + messages[0] }}");
    struct dgl_buf text = {0}, taint = {0};
    static const char json[] = "[\"<s>\", [\"<s>\"], \"</s>\"]";
    assert_int_equal(dgl_json_parse(NULL, "json", json, sizeof(json) - 1, &doc), DGL_OK);
    const struct dgl_json *root = dgl_json_root(doc);
    const struct jinja_variable variables[] = {
        {DGL_STR("bos_token"), dgl_json_at(root, 2), true}, /* replaced by the next */
        {DGL_STR("bos_token"), dgl_json_at(root, 0), true},
        {DGL_STR("messages"), dgl_json_at(root, 1), false},
    };
    const struct jinja_params params = {.variables = variables, .num_variables = 3};
    assert_int_equal(jinja_render(NULL, tmpl, &params, &text, &taint), DGL_OK);
    assert_string_equal(text.p, "<s><s>");
    assert_memory_equal(taint.p, "\0\0\0\1\1\1", 6);
    dgl_buf_finish(&text);
    dgl_buf_finish(&taint);
    jinja_destroy(&tmpl);
    dgl_json_destroy(&doc);
}

static void results_are_appended(void **state)
{
    (void)state;
    struct jinja_template *tmpl = parse("a{{ 1 }}");
    const struct jinja_params params = {0};
    struct dgl_buf text = {0};
    assert_int_equal(jinja_render(NULL, tmpl, &params, &text, NULL), DGL_OK);
    assert_int_equal(jinja_render(NULL, tmpl, &params, &text, NULL), DGL_OK);
    assert_string_equal(text.p, "a1a1");
    dgl_buf_finish(&text);
    jinja_destroy(&tmpl);
}

static void failures_append_nothing(void **state)
{
    (void)state;
    struct jinja_template *tmpl = parse("a{{ raise_exception('no') }}");
    const struct jinja_params params = {0};
    struct dgl_buf text = {0}, taint = {0};
    dgl_buf_puts(&text, "before");
    assert_int_equal(jinja_render(NULL, tmpl, &params, &text, &taint), DGL_ERR_INVALID_ARG);
    assert_string_equal(text.p, "before");
    assert_int_equal(text.len, 6);
    assert_int_equal(taint.len, 0);
    dgl_buf_finish(&text);
    jinja_destroy(&tmpl);
}

static void without_a_clock_there_is_no_strftime(void **state)
{
    (void)state;
    struct jinja_template *tmpl = parse("{{ strftime_now is defined }}");
    const struct jinja_params params = {0};
    struct dgl_buf text = {0};
    assert_int_equal(jinja_render(NULL, tmpl, &params, &text, NULL), DGL_OK);
    assert_string_equal(text.p, "False");
    dgl_buf_finish(&text);
    jinja_destroy(&tmpl);
}

static void an_empty_template_renders_nothing(void **state)
{
    (void)state;
    struct jinja_rendered got;
    jinja_render_json("", NULL, NULL, &got);
    assert_int_equal(got.status, DGL_OK);
    assert_int_equal(got.text.len, 0);
    jinja_rendered_finish(&got);
}

static void nul_bytes_survive(void **state)
{
    (void)state;
    struct jinja_rendered got;
    jinja_render_json("<{{ s|upper }}>{{ s|length }}{{ s|tojson }}", "{\"s\": \"a\\u0000b\"}", NULL,
                      &got);
    assert_int_equal(got.status, DGL_OK);
    assert_int_equal(got.text.len, 16);
    assert_memory_equal(got.text.p, "<A\0B>3\"a\\u0000b\"", 16);
    jinja_rendered_finish(&got);
}

static void errors_name_the_line(void **state)
{
    (void)state;
    struct jinja_rendered got;
    jinja_render_json("a\n{% if true %}\n  {{ 1 +\n nothing }}\n{% endif %}", NULL, NULL, &got);
    assert_int_equal(got.status, DGL_ERR_INVALID_ARG);
    assert_string_equal(got.log.text, "T:3: 'nothing' is undefined\n");
    jinja_rendered_finish(&got);
    jinja_render_json("a\nb\n{% if true %}\nc", NULL, NULL, &got);
    assert_int_equal(got.status, DGL_ERR_FORMAT);
    assert_string_equal(got.log.text, "T:4: unexpected end of template, expected 'endif'\n");
    jinja_rendered_finish(&got);
}

static void other_templates_are_out_of_reach(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% from 'x' import y %}",
        "{% do 1 %}",
        "{{ lipsum() }}",
        "{{ ''|urlize }}",
        "{{ 'a'.encode() }}",
    };
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
        struct jinja_rendered got;
        jinja_render_json(templates[i], NULL, NULL, &got);
        if (got.status != DGL_ERR_UNSUPPORTED)
            fail_msg("%s: %s", templates[i], dgl_status_str(got.status));
        assert_contains(got.log.text, "not supported in chat templates");
        jinja_rendered_finish(&got);
    }
}

/* Names of Python internals have no special meaning. */
static void there_is_no_way_into_python(void **state)
{
    (void)state;
    struct jinja_rendered got;
    jinja_render_json("{{ ''.__class__ }}|{{ self }}|{{ config }}", NULL, NULL, &got);
    assert_int_equal(got.status, DGL_OK);
    assert_string_equal(got.text.p, "|<TemplateReference None>|");
    jinja_rendered_finish(&got);
}

static void the_callers_variables_do_not_change(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "{{ l.append(1) }}",         "{{ l.pop() }}",     "{{ d.update(a=1) }}", "{{ d.pop('k') }}",
        "{{ messages[0].clear() }}", "{{ l.reverse() }}",
    };
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
        struct jinja_rendered got;
        jinja_render_json(templates[i], data_variables, NULL, &got);
        assert_int_equal(got.status, DGL_ERR_INVALID_ARG);
        assert_contains(got.log.text, "would change a variable of the caller");
        jinja_rendered_finish(&got);
    }
}

static void text_that_is_not_utf8_is_refused(void **state)
{
    (void)state;
    struct jinja_rendered got;
    jinja_render_json("ab\xFF", NULL, NULL, &got);
    assert_int_equal(got.status, DGL_ERR_FORMAT);
    assert_contains(got.log.text, "byte 2 is not UTF-8");
    jinja_rendered_finish(&got);
}

static void numbers_do_not_follow_the_locale(void **state)
{
    (void)state;
    struct jinja_rendered got;
    if (!test_set_comma_locale())
        SKIP("no locale with a decimal comma");
    jinja_render_json("{{ 1.5 }} {{ '2.5'|float }} {{ '%.2f' % 3.5 }} {{ 2.25|round(1) }}", NULL,
                      NULL, &got);
    setlocale(LC_ALL, "C");
    assert_int_equal(got.status, DGL_OK);
    assert_string_equal(got.text.p, "1.5 2.5 3.50 2.2");
    jinja_rendered_finish(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trusted_variables_are_the_templates),
        cmocka_unit_test(results_are_appended),
        cmocka_unit_test(failures_append_nothing),
        cmocka_unit_test(without_a_clock_there_is_no_strftime),
        cmocka_unit_test(an_empty_template_renders_nothing),
        cmocka_unit_test(nul_bytes_survive),
        cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(other_templates_are_out_of_reach),
        cmocka_unit_test(there_is_no_way_into_python),
        cmocka_unit_test(the_callers_variables_do_not_change),
        cmocka_unit_test(text_that_is_not_utf8_is_refused),
        cmocka_unit_test(numbers_do_not_follow_the_locale),
    };
    int failed = test_run_table("taint", taint_every_byte, rows);
    return failed + cmocka_run_group_tests_name("interface", tests, NULL, NULL);
}
