/* Templates that would run or grow without end stop at a limit, and the error names that limit. All
 * cases run on a thread with the stack size that jinja.h promises to be sufficient. */
#include "tests/support/jinja_render.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__)
#define STACK_BYTES (16u << 20)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STACK_BYTES (16u << 20)
#endif
#endif
#ifndef STACK_BYTES
#define STACK_BYTES (1u << 20)
#endif

/* A template: `before`, then `part` repeated `times` times, then `after`. */
struct row {
    const char *name, *before, *part, *after;
    int times;
    const char *wanted; /* part of the error message; NULL: rendering succeeds */
};

#define STEPS  "steps"
#define OUTPUT "a text of more than"
#define MEMORY "bytes of memory"
#define DEPTH  "levels deep"

static const struct row rows[] = {
    {"three nested loops",
     "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
     "{% endfor %}{% endfor %}{% endfor %}",
     "", "", 0, STEPS},
    {"a loop over a growing list",
     "{% set l = [1] %}{% for x in l %}{% set _ = l.append(x) %}{% endfor %}", "", "", 0, MEMORY},
    {"a macro that calls itself", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "", "", 0,
     DEPTH},
    {"two macros that call each other",
     "{% macro a() %}{% if true %}{% for x in [1] %}{{ b() }}{% endfor %}{% endif %}{% endmacro %}"
     "{% macro b() %}{% set x %}{{ a()|upper|trim }}{% endset %}{{ x }}{% endmacro %}{{ a() }}",
     "", "", 0, DEPTH},
    {"a caller that calls its macro",
     "{% macro m() %}{{ caller() }}{% endmacro %}"
     "{% macro r() %}{% call m() %}{{ r() }}{% endcall %}{% endmacro %}{{ r() }}",
     "", "", 0, DEPTH},
    {"a loop that recurses for ever",
     "{% set l = [] %}{% set _ = l.append(l) %}{% for x in l recursive %}{{ loop(x) }}{% endfor %}",
     "", "", 0, DEPTH},
    {"a list in itself, printed", "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "", "", 0,
     DEPTH},
    {"a list in itself, as JSON", "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", "", "",
     0, DEPTH},
    {"a dict in itself, as JSON", "{% set d = {} %}{% set _ = d.update(a=d) %}{{ d|tojson }}", "",
     "", 0, DEPTH},
    {"two lists in themselves, compared",
     "{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}{% set _ = b.append(b) %}"
     "{{ a == b }}",
     "", "", 0, DEPTH},
    {"two lists in themselves, sorted",
     "{% set a = [] %}{% set _ = a.append(a) %}{% set b = [] %}{% set _ = b.append(b) %}"
     "{{ [a, b]|sort }}",
     "", "", 0, DEPTH},
    {"tuples in tuples as a key",
     "{% set n = namespace(t=(1,)) %}{% for i in range(5000) %}{% set n.t = (n.t,) %}{% endfor %}"
     "{{ {n.t: 1} }}",
     "", "", 0, "unhashable"},
    {"a text of 10^9 bytes", "{{ 'x' * 1000000000 }}", "", "", 0, OUTPUT},
    {"10^9 times a long text", "{{ ('x' * 100000) * 1000000000 }}", "", "", 0, OUTPUT},
    {"a list of 10^9 elements", "{{ [0] * 1000000000 }}", "", "", 0, STEPS},
    {"a range of 10^9 elements", "{{ range(1000000000) }}", "", "", 0, "Range too big"},
    {"a text that doubles",
     "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
     "", "", 0, OUTPUT},
    {"a text that grows by little",
     "{% set n = namespace(s='') %}{% for i in range(99999) %}{% set n.s = n.s + 'abcdefgh' %}"
     "{% endfor %}",
     "", "", 0, MEMORY},
    {"a list that doubles",
     "{% set n = namespace(l=[1, 2]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}"
     "{% endfor %}",
     "", "", 0, MEMORY},
    {"output without end",
     "{% set s = 'x' * 10000 %}{% for i in range(99999) %}{{ s }}{% endfor %}", "", "", 0, OUTPUT},
    {"captured output without end",
     "{% set s = 'x' * 10000 %}{% set t %}{% for i in range(99999) %}{{ s }}{% endfor %}"
     "{% endset %}",
     "", "", 0, OUTPUT},
    {"a width of 10^9", "{{ '%1000000000d' % 1 }}", "", "", 0, OUTPUT},
    {"a width of 10^9 for format", "{{ '{:>1000000000}'.format(1) }}", "", "", 0, OUTPUT},
    {"a width from a value", "{{ '%*d' % (1000000000, 1) }}", "", "", 0, OUTPUT},
    {"a precision of 10^9", "{{ '%.1000000000f' % 1.0 }}", "", "", 0, "precision"},
    {"a number with too many digits", "{{ '%99999999999999999999d' % 1 }}", "", "", 0, "too big"},
    {"ljust to 10^9", "{{ 'x'.ljust(1000000000) }}", "", "", 0, OUTPUT},
    {"zfill to 10^9", "{{ 'x'.zfill(1000000000) }}", "", "", 0, OUTPUT},
    {"indent by 10^9", "{{ 'x\ny'|indent(1000000000) }}", "", "", 0, OUTPUT},
    {"tojson indented by 10^9", "{{ [1]|tojson(indent=1000000000) }}", "", "", 0, OUTPUT},
    {"replace that multiplies", "{% set s = 'x' * 100000 %}{{ s|replace('x', s) }}", "", "", 0,
     OUTPUT},
    {"join that multiplies", "{% set s = 'x' * 100000 %}{{ s|join(s) }}", "", "", 0, OUTPUT},
    {"an integer too big", "{{ 10 ** 1000000000 }}", "", "", 0, "64 bits"},
    {"batches of 10^9", "{{ [1]|batch(1000000000, 0)|list }}", "", "", 0, MEMORY},
    {"10^9 slices", "{{ [1]|slice(1000000000)|list }}", "", "", 0, MEMORY},
    {"a wide sum", "{{ 1", " + 1", " }}", 30000, DEPTH},
    {"many attributes", "{% set a = {} %}{{ a", ".a", " }}", 30000, DEPTH},
    {"many filters", "{{ 'a'", "|e", " }}", 30000, DEPTH},
    {"many filters of a block", "{% filter e", "|e", " %}a{% endfilter %}", 30000, DEPTH},
    {"many comparisons", "{{ 1", " < 2", " }}", 30000, NULL},
    {"many parts of a text", "{{ 'a'", " ~ 'b'", " }}", 30000, NULL},
    {"many branches", "{% if false %}", "{% elif false %}", "{% endif %}", 30000, NULL},
    {"many brackets", "{{ ", "(", "", 30000, "nested too deeply"},
    {"many lists", "{{ ", "[", "", 30000, "nested too deeply"},
    {"many signs", "{{ 1 ", "-", "1 }}", 30000, DEPTH},
    {"many times not", "{{ ", "not ", "1 }}", 30000, DEPTH},
    {"many ifs", "", "{% if true %}", "", 30000, DEPTH},
    {"many inline ifs", "{{ 1", " if 1 else 1", " }}", 30000, DEPTH},
    {"a long template", "", "0123456789", "", 105000, "a template has at most"},
};

static char *template_of(const struct row *row)
{
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, row->before);
    for (int i = 0; i < row->times; i++)
        dgl_buf_puts(&text, row->part);
    dgl_buf_puts(&text, row->after);
    char *result = dgl_buf_take(&text);
    assert_non_null(result);
    return result;
}

struct job {
    const char *tmpl;
    struct jinja_rendered got;
};

static void *render(void *priv)
{
    struct job *job = priv;
    jinja_render_json(job->tmpl, NULL, NULL, &job->got);
    return NULL;
}

static void ends_within_its_limits(void **state)
{
    const struct row *row = *state;
    char *tmpl = template_of(row);
    struct job job = {.tmpl = tmpl};
    pthread_attr_t attributes;
    pthread_t thread;
    clock_t start = clock();
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, render, &job), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_at_most((double)(clock() - start) / CLOCKS_PER_SEC, 30);
    if (row->wanted) {
        assert_int_not_equal(job.got.status, DGL_OK);
        assert_contains(job.got.log.text, row->wanted);
        assert_int_equal(job.got.log.errors, 1);
        assert_int_equal(job.got.text.len, 0);
    } else if (job.got.status != DGL_OK) {
        fail_msg("%s", job.got.log.text);
    }
    jinja_rendered_finish(&job.got);
    free(tmpl);
}

/* ---- limits set by the caller ---- */

static void assert_limited(const char *tmpl, struct jinja_limits limits, const char *wanted)
{
    struct jinja_rendered got;
    jinja_render_json(tmpl, NULL, &limits, &got);
    assert_int_equal(got.status, DGL_ERR_INVALID_ARG);
    assert_contains(got.log.text, wanted);
    jinja_rendered_finish(&got);
}

static void callers_may_set_limits(void **state)
{
    (void)state;
    assert_limited("{% for i in range(100) %}x{% endfor %}", (struct jinja_limits){.steps = 50},
                   "more than 50 steps");
    assert_limited("0123456789", (struct jinja_limits){.output_bytes = 9}, "more than 9 bytes");
    assert_limited("{{ [1]|list }}", (struct jinja_limits){.memory_bytes = 64},
                   "more than 64 bytes of memory");
    assert_limited("{{ ((1 + 1) + 1) + 1 }}", (struct jinja_limits){.depth = 3},
                   "more than 3 levels deep");
}

/* The lexer accepts closed brackets; the parser limits their nesting. */
static void assert_brackets(const char *before, int times, const char *middle, const char *after)
{
    struct dgl_buf text = {0};
    struct jinja_rendered got;
    dgl_buf_puts(&text, before);
    for (int i = 0; i < times; i++)
        dgl_buf_putc(&text, '(');
    dgl_buf_puts(&text, middle);
    for (int i = 0; i < times; i++)
        dgl_buf_putc(&text, ')');
    dgl_buf_puts(&text, after);
    jinja_render_json(text.p, NULL, NULL, &got);
    assert_int_equal(got.status, DGL_ERR_FORMAT);
    assert_contains(got.log.text, DEPTH);
    jinja_rendered_finish(&got);
    dgl_buf_finish(&text);
}

static void brackets_are_limited(void **state)
{
    (void)state;
    assert_brackets("{{ ", 150, "1", " }}");
    assert_brackets("{% set ", 150, "a", " = 1 %}");
    assert_brackets("{% for ", 150, "a", " in 1 %}{% endfor %}");
}

static void limits_that_fit_change_nothing(void **state)
{
    (void)state;
    struct jinja_rendered got;
    const struct jinja_limits limits = {.steps = 100, .output_bytes = 10, .depth = 10};
    jinja_render_json("0123{{ '456789' }}", NULL, &limits, &got);
    assert_int_equal(got.status, DGL_OK);
    assert_string_equal(got.text.p, "0123456789");
    jinja_rendered_finish(&got);
}

int main(void)
{
    const struct CMUnitTest own[] = {cmocka_unit_test(callers_may_set_limits),
                                     cmocka_unit_test(brackets_are_limited),
                                     cmocka_unit_test(limits_that_fit_change_nothing)};
    int failed = test_run_table("limits", ends_within_its_limits, rows);
    return failed + cmocka_run_group_tests_name("own limits", own, NULL, NULL);
}
