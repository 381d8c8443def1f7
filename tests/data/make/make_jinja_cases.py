#!/usr/bin/env python3
"""Makes tests/data/templates/cases.json: small templates and what Python's jinja2 makes of them.

The environment is the one in which Hugging Face's transformers renders chat templates: immutable sandbox, trim_blocks,
lstrip_blocks, loop controls, its own tojson, raise_exception, strftime_now (pinned to 2025-06-15 00:00:00), and
{% generation %} blocks. Cases marked "mutable" use the sandbox in which methods may change lists and dicts, which our
interpreter allows for what a template made itself.
usage: make_jinja_cases.py > tests/data/templates/cases.json      needs: jinja2 (made with 3.1.6)
"""
import json
import sys
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment(kind):
    env = kind(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime(2025, 6, 15).strftime(format)
    return env


CASES = []


def group(prefix, *templates, mutable=False, **variables):
    for template in templates:
        CASES.append((prefix, template, variables, mutable))


# ---- whitespace ----
group("whitespace",
      "a\n",
      "a\n\n",
      "\na",
      "a\r\nb\rc\n",
      "",
      "{% if true %}\nx\n{% endif %}\ny",
      "  {% if true %}  \n  x\n  {% endif %}\ny",
      "a {%- if true %} b {% endif -%} c",
      "a  {{- 1 -}}  b",
      "a\n\n  {{- 1 -}}\n  b",
      "{{ 1 }}\n{{ 2 }}\n",
      "  {{ 1 }}\n  {# c #}\n  z",
      "{# a #}x{# b #}\ny",
      "a {#- c -#} b",
      "a\n  {#+ c #}\nb",
      "x\n  {%+ if true %}y{% endif %}",
      "{% if true +%}\nx{% endif %}",
      "a{# c +#}\nb",
      "\t {% set x = 1 %}\t\nq",
      "x {% set y = 1 %}\nz",
      "  {% if 1 %}{% endif %}  {% if 1 %}b{% endif %}",
      "{% if 1 %}\n  {% if 1 %}\n    a\n  {% endif %}\n{% endif %}\nb",
      "{%- set x = 1 -%}\n\n  y",
      "\u00a0{%- if 1 %}x{% endif -%}\u3000\ny",
      "{{ 'a' }}{% if 1 %}\n\n{% endif %}b",
      "a\n   {{ 'x' }}   \n{% if 1 %}   \n{% endif %}b",
      "{%if 1%}x{%endif%}",
      "{{1}}",
      "{{ 1 -}}\n\n2",
      "{{-1}}",
      "{{ -1 }}",
      "{% raw %}{{ x }}{% y %}{# z #}{% endraw %}",
      "{% raw %}\n a\n{% endraw %}\nb",
      "x {%- raw -%} a {%- endraw -%} b",
      "  {% raw %} a{% endraw %}",
      "{% raw -%}  a  {%- endraw %}  b",
      "{ % } { { } }",
      "{{ '{%' }}{{ '}}' }}",
      "a}}b%}c#}d",
      "{# {{ x }} {% if %} #}ok",
      "{#-#}a{#--#}b",
      "{% for i in [1,2] %}\n{{ i }}\n{% endfor %}\n",
      "{% for i in [1,2] -%}\n{{ i }}\n{%- endfor %}\n!")

# ---- literals ----
group("literals",
      r"{{ 'a\nb\t\x41\u00e9\\\'\"' }}",
      r"{{ '\q\8' }}",
      r"{{ '\101\7' }}|",
      "{{ 'a' 'b' \"c\" }}",
      r"{{ '\U0001F600' }}",
      "{{ 'a\\\nb' }}",
      "{{ 1_000 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }} {{ 0 }} {{ 00 }}",
      "{{ 1.5 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 2E+2 }} {{ 1_0.2_5 }}",
      "{{ true }} {{ True }} {{ false }} {{ none }} {{ None }}",
      "{{ [] }} {{ () }} {{ {} }} {{ (1,) }} {{ (1) }} {{ 1, 2 }}",
      "{{ [1, 'a', 2.0, none, true, [], {'k': \"it's\"}] }}",
      "{{ {'a': 1, 2: 'b', 1.5: none, true: 3} }}",
      "{{ [1, 2,] }}{{ {'a': 1,} }}{{ (1, 2,) }}",
      "{{ 'a\"b' }} {{ ['a\"b', \"it's\", 'both\"\\'', 'x\\ny', '\u00e9\u200b\U0001F600\x7f'] }}",
      "{{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456789012345680.0 }}",
      "{{ 0.1 + 0.2 }} {{ 1/3 }} {{ 100.0 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }}",
      "{{ [0.1, 1e22, 1e-5, -0.0] }}",
      "{{ 9223372036854775807 }}",
      "{{ {'a': {'b': [1, {'c': 2}]}} }}",
      "{{ 'tab\\there' }}",
      "{{ \"\u00fc\u4e2d\" }}",
      "{{ {1: 'a', true: 'b'} }}",
      "{{ {'a': 1, 'a': 2} }}")

# ---- operators ----
group("operators",
      "{{ 1 + 2 * 3 - 4 / 2 }}",
      "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }}",
      "{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }}",
      "{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2.0 ** 0.5 }} {{ 2 ** 3 ** 2 }}",
      "{{ -2 ** 2 }} {{ (-2) ** 2 }} {{ --1 }} {{ +3 }} {{ -l|length if l else 'no' }}",
      "{{ 'a' + 'b' }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'a' * -1 }}|",
      "{{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ 2 * (1,) }}",
      "{{ 1 ~ 'a' ~ none ~ 2.5 ~ [1] }}",
      "{{ 1 ~ 2 ~ 3 * 4 }} {{ [1] == [2 ~ ''] }}",
      "{{ true + 1 }} {{ true * 3 }} {{ -true }}",
      "{{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ 'a' == 1 }} {{ [1, 2] == [1, 2] }} {{ (1,) == [1] }} {{ {'a': 1} == {'a': 1.0} }}",
      "{{ none == none }} {{ none == false }} {{ 0 == false }} {{ '' == false }} {{ undefined_a == undefined_b }}",
      "{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }} {{ 1 == 1 == true }}",
      "{{ 'a' < 'b' }} {{ 'Z' < 'a' }} {{ 'a' < 'aa' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 0) }} {{ '\u00e9' > 'z' }}",
      "{{ 'b' in 'abc' }} {{ 'x' not in 'abc' }} {{ 1 in [1, 2] }} {{ 3 not in (1, 2) }} {{ 'a' in {'a': 1} }} {{ 'b' in {'a': 1} }} {{ '' in 'a' }} {{ 2 in range(5) }} {{ 'a' in nothing }}",
      "{{ not true }} {{ not 0 }} {{ not not 'a' }} {{ not 1 == 2 }}",
      "{{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or 'x' }} {{ '' or [] or 'z' }} {{ 1 or 1/0 }} {{ false and 1/0 }}",
      "{{ 1 if true else 2 }} {{ 1 if false else 2 }} {{ 'x' if false }}|{{ 'a' if 0 else 'b' if 0 else 'c' }}",
      "{{ (1 if true else 2) + 1 }} {{ 'a' if 'a' in 'abc' and not false else 'b' }}",
      "{{ 'a' ~ 'b' if true else 'c' }}",
      "{{ 2 * 3 if 1 else 0 }}",
      "{{ 1 if 1 if 0 else 2 }}|{{ [1 if 0] }}",
      "{{ 'a' 'b' ~ 'c' }}",
      "{{ 10 / 4 }} {{ 10 / 5 }} {{ 1e308 * 10 }}",
      "{{ 5 - - 3 }} {{ 5 - -3 }} {{ 1 - 1 }}",
      "{{ '%s is %d, %5.2f, %x, %r|%-5s|%5s|%05d|%+d' % ('a', 3, 2.5, 255, 'q', 'l', 'r', 42, 7) }}",
      "{{ '%s' % 'x' }} {{ '%d%%' % 50 }} {{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }} {{ '%s' % [1] }}",
      "{{ '%e %g %G %o %X %c %c %i %.3s|' % (12345.678, 0.00001, 1e20, 8, 255, 'z', 65, 3.9, 'abcdef') }}",
      "{{ '%*d|%-*d|%.*f' % (5, 42, 5, 42, 2, 3.14159) }}")

# ---- access ----
group("access",
      "{{ a.b }} {{ a['b'] }} {{ a.c.d }} {{ a.missing }}| {{ l[0] }} {{ l[-1] }} {{ l.0 }} {{ l[10] }}|",
      "{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[:-1] }} {{ s[::2] }} {{ s[-2:] }} {{ s[10:] }}|",
      "{{ l[1:] }} {{ l[:2] }} {{ l[::-1] }} {{ l[::2] }} {{ l[-2:] }} {{ l[5:1] }} {{ l[3:0:-1] }} {{ l[:] }} {{ l[-100:100] }}",
      "{{ l[none:2] }} {{ l[1:none] }} {{ (1, 2, 3)[1:] }} {{ range(10)[2] }} {{ range(10)[-1] }}",
      "{{ a['items'] is callable }}|{{ d['items'] }} {{ d.items()|list }}",
      "{{ d.get('items') }} {{ d.get('x') }} {{ d.get('x', 3) }} {{ d.keys()|list }} {{ d.values()|list }}",
      "{{ d.keys() }} {{ d.values() }} {{ d.items() }}",
      "{{ 'x'.upper() }} {{ 'x'['upper']() }} {{ 'abc'.0 }}",
      "{{ a.c['d'] }} {{ a['c'].d }} {{ l[0 + 1] }} {{ l[l[0]] }}",
      "{{ d.items()|length }} {{ d|length }} {{ d|list }} {{ d|first }} {{ d }}",
      "{{ nothing }}|{{ nothing is defined }} {{ a.zz is defined }} {{ a.zz|default('q') }} {{ a.zz or 'r' }}",
      "{{ l[true] }}",
      "{{ u[0] }}{{ u[1] }}{{ u[-1] }} {{ u[1:3] }} {{ u|length }} {{ u[::-1] }}",
      "{{ d[1] }}|{{ e[1] }} {{ e['1'] }}|",
      a={"b": 1, "c": {"d": "deep"}}, l=[1, 2, 3, 4, 5], s="hello",
      d={"items": "I", "k": 2}, u="a\u00e9\u4e2d\U0001F600z",
      e={})

# ---- statements ----
group("statements",
      "{% if a %}A{% elif b %}B{% else %}C{% endif %}",
      "{% if a and not b or c %}x{% endif %}",
      "{% if a, b %}tuple{% endif %}",
      "{% if false %}1{% elif false %}2{% elif true %}3{% endif %}",
      "{% set x = 1 %}{{ x }}{% set x = x + 1 %}{{ x }}",
      "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
      "{% set (x, (y, z)) = (1, (2, 3)) %}{{ x }}{{ y }}{{ z }}",
      "{% set x = 1, 2 %}{{ x }}",
      "{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]",
      "{% set x | upper | replace('A', 'z') %}abc{% endset %}{{ x }}",
      "{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{% set ns.b = 'q' %}{{ ns.a }}{{ ns.b }}",
      "{% set ns = namespace({'x': 1}, y=2) %}{{ ns.x }}{{ ns.y }}{{ ns.z }}|{{ ns['x'] }}",
      "{% set ns = namespace(f=false) %}{% for i in [1,2,3] %}{% if i == 2 %}{% set ns.f = true %}{% endif %}{% endfor %}{{ ns.f }}",
      "{% set x = 0 %}{% for i in [1,2,3] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
      "{% for i in [1,2] %}{% if i == 1 %}{% set y = 'set' %}{% endif %}{{ y }},{% endfor %}",
      "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x }}|",
      "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}|",
      "{% set x = 5 %}{% with x = 1, y = x %}{{ y }}{% endwith %}",
      "{% filter upper %}a{{ 'b' }}{% endfilter %}c",
      "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}",
      "{% if true %}{% set z = 3 %}{% endif %}{{ z }}",
      "{% generation %}a{{ 1 }}{% set q = 1 %}{% endgeneration %}{{ q }}",
      "{% set x = 'o' %}{% filter upper %}{% set x = 'i' %}{{ x }}{% endfilter %}{{ x }}",
      "{% set x %}{% set y = 1 %}in{{ y }}{% endset %}{{ x }}{{ y }}|",
      "{% if true: %}colon{% endif %}",
      "{% set a, b = 'xy' %}{{ a }}-{{ b }}",
      a=0, b=1, c=[])

# ---- loops ----
group("loops",
      "{% for i in l %}{{ i }}{% endfor %}",
      "{% for i in [] %}{{ i }}{% else %}empty{% endfor %}",
      "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
      "{% for i in l if i % 2 %}{{ i }}:{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% else %}none{% endfor %}",
      "{% for i in l if i > 9 %}{{ i }}{% else %}none{% endfor %}",
      "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
      "{% for k in d %}{{ k }}{% endfor %}",
      "{% for c in 'h\u00e9y' %}{{ c }}-{{ loop.last }} {% endfor %}",
      "{% for i in range(3) %}{{ i }}{% endfor %} {{ range(3)|list }} {{ range(1, 7, 2)|list }} {{ range(5, 0, -2)|list }} {{ range(3) }} {{ range(0, 5, 2) }}",
      "{% for i in l %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
      "{% for i in l %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
      "{% for i in l %}{% for j in l %}{% if j > i %}{% break %}{% endif %}{{ j }}{% endfor %};{% endfor %}",
      "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}",
      "{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }} {% endfor %}",
      "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}",
      "{% for i in [1,1,2,2,1] %}{{ loop.changed(i) }} {% endfor %}",
      "{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }} {% endfor %}",
      "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
      "{% for n in tree recursive %}{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
      "{% for i in l %}{% set loop_i = loop.index %}{% for j in [1] %}{{ loop_i }}{{ loop.index }} {% endfor %}{% endfor %}",
      "{% for i in nothing %}x{% else %}e{% endfor %}",
      "{% for i in l|reverse %}{{ i }}{{ loop.length }}{% endfor %}",
      "{% for i in l|map('string')|select %}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}",
      "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}",
      "{% for x in [[1, 2], [3]] %}{% for y in x %}{{ y }}{{ loop.length }}{% endfor %}{% endfor %}",
      "{% for i in l[1:] %}{{ l[loop.index0] }}{% endfor %}",
      "{% for i in l %}{% if loop.index0 == 1 %}{{ loop.length - loop.index }}{% endif %}{% endfor %}",
      "{% for x in l %}{% set l = 5 %}{{ l }}{% endfor %}{{ l }}",
      "{% for i in l %}{% filter upper %}{% if i == 2 %}{% break %}{% endif %}a{{ i }}{% endfilter %}{% endfor %}",
      "{% for i in (l if l else []) %}{{ i }}{% endfor %}",
      "{% for i in d.items()|list|first %}{{ i }}{% endfor %}",
      l=[1, 2, 3, 4], d={"b": 1, "a": 2}, tree=[{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3}]}, {"v": 4}])

# ---- macros ----
group("macros",
      "{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=5, a=4) }}",
      "{% macro m(a) %}{{ a }}|{{ a is defined }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
      "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
      "{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 9 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}{% set x = 2 %}{{ m() }}",
      "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body{% endcall %}",
      "{% macro m() %}{% for i in [1,2] %}{{ caller(i, 'z') }}{% endfor %}{% endmacro %}{% call(a, b='q') m() %}{{ a }}{{ b }},{% endcall %}",
      "{% macro m(x) %}  {{- x -}}  {% endmacro %}[{{ m('a') }}]",
      "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
      "{% macro m() %}{% set r = 'v' %}{{ r }}{% endmacro %}{{ m() + 'x' }}{{ m()|upper }}{{ m()|length }}",
      "{% for i in [1,2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}",
      "{% macro outer() %}{% macro inner(x) %}({{ x }}){% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}",
      "{% macro m(x) %}{{ x }}{% endmacro %}{% set f = m %}{{ f('a') }}{{ m is callable }}{{ [m][0]('b') }}",
      "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(5, **{'b': 6}) }}",
      "{% macro m(caller=5) %}{{ caller }}{% endmacro %}{{ m(1) }}{{ m() }}",
      "{% macro m() %}{% if caller %}{{ caller() }}{% else %}no{% endif %}{% endmacro %}{{ m() }}")

# ---- names of jinja2 itself ----
group("self", "{{ self }}", "{{ self.x }}|{{ self['x'] }}|{{ self.x is defined }}|{{ self is defined }}",
      "{% set self = 3 %}{{ self }}", "{% if self %}y{% endif %}")

# ---- filters ----
group("text filters",
      "{{ '  a b  '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ 5|trim }}|",
      "{{ 'Abc'|upper }} {{ 'Abc'|lower }} {{ 'hello WORLD-foo (bar'|title }} {{ 'hELLO w'|capitalize }}",
      "{{ '\u00e9\u00dfx'|upper }} {{ '\u00c9\u0130'|lower }} {{ '\u00e9a \u00e9b'|title }} {{ 'i\u00dfa'|capitalize }}",
      "{{ '\u03a3 \u0391\u03a3 \u0391\u03a3\u0391 \u0391\u03a3.\u0391 \u0391.\u03a3 \u0391\u03a3\u0345 \u0391\u03a31'|lower }} {{ '\u0391\u03a3\u03a3'|capitalize }} {{ '\u0391\u03a3 \u0391\u0391\u03a3 \u03a3\u03a3'|title }}",
      "{{ 'aaa'|replace('a', 'b') }} {{ 'aaa'|replace('a', 'b', 2) }} {{ 'abc'|replace('', '-') }} {{ 'abc'|replace('', '-', 2) }} {{ 121|replace(1, 'x') }}",
      "{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(1, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ 'a\n'|indent }}|{{ ''|indent }}|",
      "{{ 'a b,c d_e \u00e9'|wordcount }}",
      "{{ \"<a href='x'>&\\\"\"|e }} {{ '<'|escape|e }} {{ '<'|safe }} {{ '<'|forceescape }} {{ ('<'|e)|forceescape }}",
      "{{ ('<'|safe) + '<' }} {{ '<' + ('<'|safe) }} {{ ('<'|safe) ~ '<' }} {{ ('<'|e) is escaped }} {{ '<' is escaped }}",
      "{{ '%s-%s'|format(1, 'a') }} {{ '%(a)s'|format(a=3) }}",
      "{{ 5|string + 'a' }} {{ [1]|string }} {{ none|string }} {{ 'a'|string }} {{ true|string }} {{ 1.0|string }}",
      "{{ nothing|upper }}|{{ nothing|trim }}|{{ nothing|string }}|")
group("list filters",
      "{{ [1,2,3]|length }} {{ 'abc'|count }} {{ {}|length }} {{ nothing|length }}",
      "{{ [1,2,3]|first }} {{ [1,2,3]|last }} {{ 'abc'|first }} {{ 'abc'|last }} {{ []|first }}|{{ ''|last }}| {{ {'a': 1}|first }}",
      "{{ [1,2,3]|join }} {{ [1,2,3]|join(', ') }} {{ ['a', none, 1.5]|join('-') }} {{ [{'n': 1}, {'n': 2}]|join(',', attribute='n') }} {{ 'abc'|join('.') }}",
      "{{ 'abc'|list }} {{ {'a': 1}|list }} {{ (1, 2)|list }} {{ range(2)|list }}",
      "{{ [1,2,3]|reverse|list }} {{ 'abc'|reverse }} {{ (1,2)|reverse|list }}",
      "{{ [3,1,2]|sort }} {{ ['b', 'A', 'c']|sort }} {{ ['b', 'A', 'c']|sort(case_sensitive=true) }} {{ [3,1,2]|sort(reverse=true) }} {{ [3, 1]|sort(true) }}",
      "{{ [{'n': 2, 'm': 1}, {'n': 1, 'm': 2}, {'n': 1, 'm': 1}]|sort(attribute='n') }} {{ [{'n': 2, 'm': 1}, {'n': 1, 'm': 2}, {'n': 1, 'm': 1}]|sort(attribute='n,m') }}",
      "{{ [[1, 'a'], [0, 'b'], [1, 'c'], [0, 'd']]|sort(attribute=0, reverse=true) }} {{ [{'a': {'b': 2}}, {'a': {'b': 1}}]|sort(attribute='a.b')|map(attribute='a.b')|list }}",
      "{{ [1,2,1,3,2]|unique|list }} {{ ['a', 'A', 'b']|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ [{'n': 1}, {'n': 1}]|unique(attribute='n')|list }}",
      "{{ [3,1,2]|min }} {{ [3,1,2]|max }} {{ ['b', 'A']|min }} {{ ['b', 'A']|min(true) }} {{ []|max }}| {{ [{'n': 3}, {'n': 1}]|min(attribute='n') }}",
      "{{ [1,2,3]|sum }} {{ [1.5, 2]|sum }} {{ [{'n': 1}, {'n': 2}]|sum(attribute='n') }} {{ [[1], [2]]|sum(start=[]) }} {{ []|sum }}",
      "{{ {'b': 1, 'a': 2}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}",
      "{{ {'a': 1}|items|list }} {{ nothing|items|list }}",
      "{{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3]|batch(2, 'x')|list }} {{ [1,2,3,4,5]|slice(2)|list }} {{ [1,2,3]|slice(2, 'x')|list }}",
      "{{ nothing|default('d') }} {{ none|default('d') }} {{ none|default('d', true) }} {{ ''|d('e', boolean=true) }} {{ nothing|default }}| {{ 0|default(1) }}",
      "{{ [1, 2]|map('string')|join('+') }} {{ ['a']|map('upper')|list }} {{ [{'n': 1}, {}]|map(attribute='n')|list }} {{ [{'n': 1}, {}]|map(attribute='n', default='z')|list }} {{ ['ab']|map('replace', 'a', 'x')|list }} {{ [[1, 2]]|map('first')|list }} {{ [[3, 4]]|map(attribute=1)|list }}",
      "{{ [1,2,3,4]|select('odd')|list }} {{ [1,2,3,4]|reject('odd')|list }} {{ [0, 1, '', 'a']|select|list }} {{ [0, 1]|reject|list }} {{ [1,2,3]|select('gt', 1)|list }} {{ [1,2,3]|select('in', [1, 3])|list }} {{ [1,2]|select('equalto', 2)|list }}",
      "{{ [{'a': 1}, {'a': 2}, {}]|selectattr('a')|list }} {{ [{'a': 1}, {'a': 2}]|selectattr('a', 'eq', 2)|list }} {{ [{'a': 1}, {}]|rejectattr('a')|list }} {{ [{'a': 1}, {}]|selectattr('a', 'defined')|list }} {{ [{'a': {'b': 1}}]|selectattr('a.b', '==', 1)|list }} {{ [{'a': 1}, {}]|selectattr('a', 'undefined')|list }}",
      "{% if [1]|select('none') %}generators are true{% endif %}",
      "{% set g = [1,2]|map('string') %}{{ g|list }}{{ g|list }}",
      "{{ [1,2,3]|select('odd')|first }} {{ [1]|map('string') is iterable }} {{ [1]|map('string') is sequence }}",
      "{{ none|map('upper')|list }} {{ nothing|select|list }}",
      "{{ {'a': 1}|attr('get') is callable }} {{ {'a': 1}|attr('a') }}| {{ 'x'|attr('upper') is defined }}",
      "{{ [2, 1]|sort|first }} {{ ['a', 'b']|last|upper }} {{ 'a,b'.split(',')|join('|') }}",
      "{{ 'abc'|batch(2)|map('join')|list }}",
      "{{ [1, 2] | length > 1 }} {{ 'a' | upper ~ 'b' | upper }}")
group("number filters",
      "{{ -3|abs }} {{ (-3)|abs }} {{ (-2.5)|abs }}",
      "{{ '42'|int }} {{ '4.7'|int }} {{ 'x'|int }} {{ 'x'|int(7) }} {{ 4.9|int }} {{ -4.9|int }} {{ '0x1f'|int(base=16) }} {{ '101'|int(0, 2) }} {{ none|int }} {{ ' 12 '|int }} {{ true|int }} {{ '1_000'|int }} {{ [1]|int }}",
      "{{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(2.5) }} {{ 3|float }} {{ '1e3'|float }} {{ 'inf'|float }} {{ '-nan'|float }} {{ ' 2 '|float }}",
      "{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(1, 'ceil') }} {{ 42|round }} {{ 1234|round(-2) }} {{ 1234.5|round(-2) }} {{ -2.5|round }} {{ 0.1|round(3) }} {{ 2|round(method='floor') }}")
group("tojson",
      "{{ v|tojson }}",
      "{{ v|tojson(indent=2) }}",
      "{{ v|tojson(indent=4) }}",
      "{{ v|tojson(indent=0) }}",
      "{{ v|tojson(ensure_ascii=true) }}",
      "{{ v|tojson(separators=(',', ':')) }}",
      "{{ v|tojson(sort_keys=true) }}",
      "{{ v|tojson(indent='\t') }}",
      "{{ v|tojson(true, 2) }}",
      "{{ [1, 2.0, none, true, 'a', [], {}, (1, 2)]|tojson }}",
      "{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }}",
      "{{ 'a<b>&\"\\'\\n\\x01\\x7f\u2028'|tojson }} {{ '\\x7f'|tojson(true) }}",
      "{{ [[], {}, [[]]]|tojson(indent=2) }}",
      "{{ 1e100|tojson }} {{ 0.1|tojson }} {{ 5|tojson }} {{ none|tojson }}",
      "{{ 'x'|tojson|tojson }}",
      "{{ {'a': 1}|tojson(indent=2, separators=(';', '=')) }}",
      "{{ v.b|tojson ~ 'x' }}",
      v={"b": [1, {"c": "d\u00e9\U0001F600\n\"q\"/"}], "a": None, "e": {}, "f": 1.5})

# ---- tests ----
group("tests",
      "{{ a is defined }} {{ zz is defined }} {{ zz is undefined }} {{ a is not defined }} {{ not a is defined }}",
      "{{ none is none }} {{ a is none }} {{ zz is none }} {{ 'none' is none }}",
      "{{ 'a' is string }} {{ 1 is string }} {{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 'a' is number }}",
      "{{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ true is boolean }} {{ 1 is boolean }}",
      "{{ {} is mapping }} {{ [] is mapping }} {{ [] is sequence }} {{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is sequence }} {{ range(1) is sequence }}",
      "{{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ {} is iterable }} {{ none is iterable }} {{ zz is iterable }} {{ zz is sequence }}",
      "{{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ none is false }}",
      "{{ 1 is in [1, 2] }} {{ 3 is in [1] }} {{ 3 is not in [1] }} {{ 'a' is in 'abc' }}",
      "{{ 1 is equalto 1 }} {{ 1 is eq 2 }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is le 2 }} {{ 3 is gt 2 }} {{ 2 is ge 3 }} {{ 1 is lessthan 2 }} {{ 2 is greaterthan(1) }} {{ 'a' is eq 'a' }}",
      "{{ 2 is even }} {{ 3 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 10 is divisibleby(3) }}",
      "{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aB' is lower }} {{ '1' is lower }} {{ '' is upper }} {{ 'a1' is lower }}",
      "{{ range is callable }} {{ 'a' is callable }} {{ 'a'.upper is callable }}",
      "{{ 'upper' is filter }} {{ 'foo' is filter }} {{ 'odd' is test }} {{ 'foo' is test }}",
      "{{ a is sameas a }} {{ 1 is sameas 1 }} {{ true is sameas true }} {{ true is sameas 1 }} {{ none is sameas none }}",
      "{{ a is defined and a is string }} {{ a is string or zz is defined }} {{ 'y' if a is string else 'n' }}",
      "{{ a.b is defined }} {{ d.k is defined }} {{ d.q is defined }} {{ d['k'] is defined }} {{ d.q is not defined and d.k == 1 }}",
      "{{ d.k is number and not d.k is string }} {{ a is not string }} {{ (1 is odd) == true }} {{ 1 is odd == true }}",
      "{{ strftime_now is defined }} {{ raise_exception is defined }} {{ namespace is defined }} {{ loop is defined }}",
      a="x",
      d={"k": 1})

# ---- methods ----
group("text methods",
      "{{ '  a '.strip() }}|{{ '  a '.lstrip() }}|{{ '  a '.rstrip() }}|{{ 'xyaxy'.strip('xy') }}|{{ 'xa'.lstrip('x') }}|{{ '\\n\\na\\n'.strip('\\n') }}|{{ '\u00a0a\u3000'.strip() }}|",
      "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.split(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b'.split('--') }} {{ 'abc'.split('x')[-1] }}",
      "{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit() }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a,b,c'.rsplit(',') }}",
      "{{ 'a\nb\\r\\nc\\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ ''.splitlines() }} {{ '\\n'.splitlines() }}",
      "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.startswith('b', 1) }} {{ 'abc'.endswith('b', 0, 2) }} {{ 'abc'.startswith('') }}",
      "{{ 'aBc'.upper() }} {{ 'aBc'.lower() }} {{ \"they're bill's\".title() }} {{ 'aBC'.capitalize() }} {{ 'aBc'.swapcase() }} {{ 'A'.casefold() }}",
      "{{ '\u0391\u03a3'.lower() }} {{ '\u0391\u03a3'.title() }} {{ '\u0391\u03a3'.capitalize() }} {{ '\u0391\u03a3 \u03c3\u03c2'.swapcase() }} {{ '\u0391\u03a3'.casefold() }} {{ '\u03b1\u03c2'.islower() }} {{ '\u0391\u03a3'.isupper() }}",
      "{{ 'aaa'.replace('a', 'b') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ 'abc'.replace('b', '') }} {{ 'abc'.replace('', '.') }}",
      "{{ 'hello'.find('l') }} {{ 'hello'.find('z') }} {{ 'hello'.rfind('l') }} {{ 'hello'.index('e') }} {{ '\u00e9\u00e9a'.find('a') }} {{ 'hello'.find('l', 3) }} {{ 'hello'.find('l', -3, -1) }} {{ 'hello'.count('l') }} {{ 'aaaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'hello'.rindex('l') }}",
      "{{ ','.join(['a', 'b']) }} {{ ''.join([]) }}| {{ '-'.join('abc') }}",
      "{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}'.format(x=3) }} {{ '{{}}'.format() }} {{ '{0.k}{0[k]}'.format(d) }} {{ '{!r}'.format('a') }}",
      "{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:.2f}|{:x}|{:#x}|{:b}|{:e}|{:.1%}|{:5}|{:5}|'.format('a', 'b', 'c', 'd', 42, 5, 1234567, 3.14159, 255, 255, 5, 12345.678, 0.256, 7, 'q') }}",
      "{{ '{:.3}|{:s}|{:g}|{:.3g}|{}|{:.2}|{:10.3f}|{:<10,.2f}|'.format('abcdef', 'z', 1e10, 3.14159, 2.0, 3.14159, 2.71828, 12345.678) }}",
      "{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ '1a'.isalnum() }} {{ ' '.isspace() }} {{ 'a'.islower() }} {{ 'A'.isupper() }} {{ ''.isalpha() }} {{ '\u00e9'.isalpha() }} {{ '\u00bd'.isnumeric() }} {{ 'a'.isascii() }} {{ '12'.isdecimal() }}",
      "{{ 'a.b.c'.partition('.') }} {{ 'a.b.c'.rpartition('.') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }}",
      "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'x'.removeprefix('y') }}",
      "{{ '42'.zfill(5) }} {{ '-42'.zfill(5) }} {{ 'ab'.ljust(4) }}| {{ 'ab'.rjust(4, '*') }}",
      "{{ '<think>a</think>b'.split('</think>')[-1].lstrip('\\n') }} {{ '<think>a</think>b'.split('</think>')[0].rstrip('\\n').split('<think>')[-1] }}",
      d={"k": "v"})
group("own lists and dicts",
      "{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}",
      "{% set l = [1, 2, 3] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}",
      "{% set l = [1, 3] %}{% set _ = l.insert(1, 2) %}{% set _ = l.insert(-1, 9) %}{% set _ = l.insert(99, 7) %}{{ l }}",
      "{% set l = [1] %}{% set _ = l.extend([2, 3]) %}{{ l }}{{ l.index(2) }}{{ l.count(3) }}",
      "{% set l = [1, 2] %}{% set _ = l.remove(1) %}{% set _ = l.reverse() %}{{ l }}{{ l.copy() }}{% set _ = l.clear() %}{{ l }}",
      "{% set d = {} %}{% set _ = d.update({'a': 1}) %}{% set _ = d.update(b=2) %}{{ d }}{{ d.pop('a') }}{{ d }}{{ d.setdefault('c', 3) }}{{ d.setdefault('c', 4) }}{{ d }}",
      "{% set l = [] %}{% for i in [1,2] %}{% if l.append(i) %}{% endif %}{% endfor %}{{ l[-1] if l else none }}",
      "{% set d = {'a': [1]} %}{% set _ = d['a'].append(2) %}{{ d }}{{ d.copy() == d }}",
      "{% set l = [1] %}{% set m = l %}{% set _ = m.append(2) %}{{ l }}{{ l is sameas m }}",
      "{% set l = [3,1] %}{% set l = l + [2] %}{{ l|sort }}{{ l }}",
      "{% set d = dict(a=1) %}{{ d.pop('x', 5) }}{% set _ = d.clear() %}{{ d }}",
      mutable=True)

# ---- functions ----
group("functions",
      "{{ dict(a=1, b=2) }} {{ dict([('a', 1)]) }} {{ dict({'a': 1}, b=2) }}",
      "{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%A, %B %d, %Y %H:%M:%S') }}",
      "{{ strftime_now('%a %y %j %U %W %w %I %p %% %-d %e %F %T %D %R %V %G %u') }}",
      "{% set j = joiner('; ') %}{% for i in [1,2,3] %}{{ j() }}{{ i }}{% endfor %}",
      "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}",
      "{{ range(5)|sum }} {{ range(2, 4)|list }} {{ range(0) | list }} {{ range(3)|length }} {{ range(3)|last }}",
      "{% set ns = namespace() %}{% set ns.l = [1] %}{{ ns.l }}",
      "{% set f = range %}{{ f(2)|list }}")

# ---- errors: the words are jinja's or Python's ----
group("errors",
      "{{ raise_exception('Only user and assistant roles are supported!') }}",
      "{{ nothing.x }}",
      "{{ a.missing.x }}",
      "{{ nothing['x'] }}",
      "{{ nothing + 1 }}",
      "{{ 'a' + nothing }}",
      "{{ nothing() }}",
      "{{ a.missing() }}",
      "{{ l[9].x }}",
      "{{ n.x.y }}",
      "{{ 'a' + 1 }}",
      "{{ 1 + 'a' }}",
      "{{ [1] + 'a' }}",
      "{{ none + 'a' }}",
      "{{ -'a' }}",
      "{{ 1 < 'a' }}",
      "{{ 1 in 5 }}",
      "{{ 1 in 'a' }}",
      "{{ 1 / 0 }}",
      "{{ 1 % 0 }}",
      "{{ 5|length }}",
      "{{ none|length }}",
      "{% for x in 5 %}{% endfor %}",
      "{% for a, b in [1] %}{% endfor %}",
      "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
      "{% set a, b = [1] %}",
      "{{ nothing|tojson }}",
      "{{ range(1000000)|length }}",
      "{% set x = 1 %}{% set x.y = 2 %}",
      "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
      "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}",
      "{{ [1]|map('string')|length }}",
      "{{ 'abc'.index('z') }}",
      "{{ ','.join([1]) }}",
      "{{ 5() }}",
      "{{ 'x'.foo() }}",
      "{{ '%d' % 'a' }}",
      "{{ '%s %s' % ('a',) }}",
      "{{ '%s' % ('a', 'b') }}",
      "{{ nothing < 1 }}",
      "{{ l['x']['y'] }}",
      "{{ [1,'a']|sort }}",
      "{{ {[]: 1} }}",
      "{{ n[1:] }}",
      "{{ d.items.x.y }}",
      "{{ loop.index }}",
      "{{ 'x'|round }}",
      "{{ {'a': range}|tojson }}",
      "{{ ''.split('') }}",
      "{{ }}",
      "{% if %}{% endif %}",
      "{% if true %}",
      "{% endif %}",
      "{{ 1 + }}",
      "{{ (1 }}",
      "{{ 'a }}",
      "{% foo %}",
      "{{ a b }}",
      "{% for x %}{% endfor %}",
      "{{ x is }}",
      "{# open",
      "{% raw %}x",
      "{{ x",
      "{% set 1 = 2 %}",
      "{{ {1} }}",
      "{{ [1 }}",
      "{{ 1 is odd is even }}",
      "{% else %}",
      "{% set true = 1 %}",
      "{{ f(a=1, 2) }}",
      "{{ ) }}",
      "{{ ( ] }}",
      "{% macro m(a=1, b) %}{% endmacro %}",
      "{% call 5 %}{% endcall %}",
      "{{ self.x() }}", "{{ self|length }}", "{% if true %}{{ 1|nofilter }}{% endif %}",
      "{{ [1]|map('nofilter')|list }}", "{% if true %}{{ 1 is notest }}{% endif %}",
      "{{ x|nofilter }}",
      "{{ x is notest }}",
      "{% break %}",
      "{% for x in [] %}{% endif %}{% endfor %}",
      a={"b": 1}, l=[1], n=None, d={"x": 1})


def run(template, variables, mutable):
    env = environment(SandboxedEnvironment if mutable else ImmutableSandboxedEnvironment)
    try:
        return {"rendered": env.from_string(template).render(**variables)}
    except Exception as error:  # whatever Python raises is what the case records
        return {"error": str(error), "kind": type(error).__name__}


def main():
    counts, lines = {}, []
    for prefix, template, variables, mutable in CASES:
        counts[prefix] = counts.get(prefix, 0) + 1
        case = {"name": f"{prefix} {counts[prefix]}", "template": template}
        if variables:
            case["variables"] = variables
        case.update(run(template, variables, mutable))
        if "error" in case and prefix != "errors":
            sys.exit(f"{case}: an error outside of the group of errors")
        if "rendered" in case and prefix == "errors":
            sys.exit(f"{case}: no error")
        lines.append(json.dumps(case))
    print("[\n" + ",\n".join(lines) + "\n]")


if __name__ == "__main__":
    main()
