#!/usr/bin/env python3
"""Writes tests/data/chat_template/own.jsonl: small templates and what Jinja2 renders, set up as transformers sets it up.

Also writes the seeds of tests/fuzz/corpus/template: each case as template, NUL, JSON context. Needs jinja2 3.1 (and
Python 3.11 or later, whose str, float and json are what is rendered). Run from the repository root:

    python3 tools/make_template_cases.py
"""

import copy
import json
import pathlib

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATA = pathlib.Path("tests/data/chat_template")
CORPUS = pathlib.Path("tests/fuzz/corpus/template")

CONTEXT = {
    "s": "Hello, World",
    "u": "héy😀 ß Σας",
    "e": "",
    "ws": "  a\tb \n c  ",
    "n": None,
    "t": True,
    "f": False,
    "i": 7,
    "fl": 2.5,
    "l": [1, 2, 3, 4, 5],
    "ls": ["b", "A", "c", "a"],
    "m": [1, "a", None, 2.5, [1], {"k": 1}],
    "d": {"b": 1, "a": "x", "items": 5, "c": [1, 2]},
    "users": [
        {"name": "Bob", "age": 3, "tags": ["x"]},
        {"name": "alice", "age": 7},
        {"name": "Carl", "age": 3, "tags": []},
    ],
    "nl": "line1\nline2\r\nline3\n",
    "q": "it's \"q\" \\ \x01\x7f\u200b\xa0",
    "html": "<b>&\"'</b>",
}

# One expression each; those of a group are printed side by side, so that a group is one case.
EXPRESSIONS = {
    "arithmetic": ["7 // 2", "-7 // 2", "7 % 3", "-7 % 3", "7 % -3", "7.5 // 2", "-7.5 % 2", "2 ** 10", "2 ** -1", "2 ** 0.5",
                   "7 / 2", "6 / 3", "1 + 2.5", "true + true", "-true", "+5", "3 - 5", "2 ** 3 ** 2", "0.1 + 0.2", "1e3", "5 // -2"],
    "wide-integers": ["9223372036854775807 + 1", "-9223372036854775807 - 2", "2 ** 64 * 3", "2 ** 100 // 7", "-(2 ** 100) // 7",
                      "2 ** 100 % 1000007", "-(2 ** 70) % 10", "2 ** 100 - 2 ** 100", "2 ** 64 / 2 ** 60", "10 ** 25 == 1e25",
                      "2 ** 63 > 9.2e18", "1180591620717411303424 == 2 ** 70", "2 ** 70 < 2 ** 71", "(2 ** 70) | string | length",
                      "-9223372036854775807 * -9223372036854775807", "123456789012345678901234567890 // 987654321098765432109",
                      "2 ** 200 // 2 ** 199", "(2 ** 70) | float", "1e30 | int", "'340282366920938463463374607431768211456' | int",
                      "(2 ** 70).bit_length()", "5 * 2 ** 64 in [1, 92233720368547758080]"],
    "floats": ["1.0", "1e16", "1e15", "123456789.125", "1e-4", "0.00001", "1e22", "5e-324", "1.7976931348623157e308", "-0.0", "0.1",
               "100.0", "1e100", "2.5e-8", "9007199254740993.0", "1.1 * 3", "1e16 + 1", "3.0e22", "0.30000000000000004"],
    "comparison": ["1 < 2 < 3", "1 < 3 < 2", "'a' < 'b'", "[1, 2] < [1, 3]", "(1,) < (1, 2)", "1 == 1.0 == true", "'a' == 1",
                   "none == none", "undefined_a == undefined_b", "[1] == (1,)", "{'a': 1} == {'a': 1.0}", "d == d", "1 in l", "'k' in d",
                   "'b' in d", "'ell' in s", "'' in e", "3 not in l", "7 in range(0, 10, 7)", "1 in d.values()", "('b', 1) in d.items()",
                   "range(3) == range(0, 3, 1)", "d.keys() == {'c': 0, 'items': 0, 'a': 0, 'b': 0}.keys()", "1 is sameas 1", "none is sameas none"],
    "logic": ["1 and 2", "0 and 2", "0 or 'x'", "'' or [] or 'z'", "not 1", "not undefined_a", "1 if t else 2", "1 if f else 2", "1 if f",
              "(1 if f) is undefined", "t and not f", "i > 3 and i < 10"],
    "concatenation": ["1 ~ 'a' ~ none ~ true ~ 1.5 ~ [1]", "'a' + 'b'", "[1] + [2, 3]", "(1,) + (2,)", "'ab' * 3", "3 * 'ab'", "[0] * 3",
                      "'x' * -1", "l + ['x'] * 2", "undefined_a ~ 'x'", "'adjacent' ' strings'"],
    "slices": ["l[1:3]", "l[:-1]", "l[::2]", "l[::-1]", "l[-2:]", "l[10:]", "l[3:1]", "l[4:0:-2]", "l[none:2]", "s[::3]", "u[1:5]", "u[::-1]",
               "u[-3:]", "u[4:2:-1]", "(1, 2, 3)[1:]", "range(10)[2:8:3]", "range(10)[::-2]", "s[:-100]", "s[100:]", "l[true:]", "'é'[0:1:5]"],
    "subscripts": ["l[0]", "l[-1]", "l[9]", "l.0", "m.5.k", "d['a']", "d.a", "d.items is callable", "d['items']", "s[1]", "u[3]", "u[-1]", "s['upper']()",
                   "users[1].name", "users[0]['tags'][0]", "d[1]", "d[none]", "{1: 'one'}[1.0]", "{(1, 2): 'x'}[1, 2]", "{true: 'y'}[1]", "l[true]",
                   "range(5)[2]", "l['x']", "i.x", "i.real", "fl.imag", "range(2, 9).start", "m[2].x is undefined"],
    "literals": ["[]", "{}", "()", "(1,)", "[1, [2, (3,)]]", "{'a': {'b': none}}", "{1: 2, 'x': 3.5}", "'a\\nb\\t\\\\'", "\"it's\"", "'say \"x\"'",
                 "'\\x41\\u00e9\\U0001F600\\101\\q'", "0x1F", "0b101", "0o17", "1_000", "1_0.5_0", "['\\'', \"\\\"\"]", "'\\é'", "00"],
    "repr": ["m", "d", "[q]", "['\\n\\r\\t\\x00\\x1f']", "['a\\'b\"c']", "[u]", "[1.0, -0.0, 1e300]", "{'k': undefined_a}", "d.items()", "d.keys()",
             "d.values()", "range(3)", "range(1, 9, 2)", "[true, none]", "dict", "namespace(a=1, b='x')", "namespace", "cycler", "joiner",
             "['\\u200b\\ue000\\U000e0001 ']", "html | escape", "[html | e]"],
    "str-case": ["s.upper()", "s.lower()", "u.upper()", "u.lower()", "u.title()", "u.capitalize()", "s.swapcase()", "'straße'.casefold()",
                 "'ΟΔΥΣΣΕΥΣ'.lower()", "'ΑΣ.'.lower()", "'ŉx ǆ'.title()", "'ﬁx'.upper()", "'İ'.lower() | length", "\"they're bill's\".title()",
                 "'a-b c'.title()", "'x' .upper()", "u.swapcase()", "'ß'.istitle()", "'ǅ'.isupper()"],
    "str-strip": ["ws.strip()", "ws.lstrip()", "ws.rstrip()", "'xxaxx'.strip('x')", "'abcba'.strip('ab')", "'ééaé'.lstrip('é')", "'aé'.rstrip('éa')",
                  "'\\u3000a\\x1c'.strip()", "'a'.strip('')", "'ab'.removeprefix('a')", "'ab'.removesuffix('b')", "'ab'.removeprefix('x')"],
    "str-split": ["s.split()", "ws.split()", "'a,b,,c'.split(',')", "'a,b,c'.split(',', 1)", "'a b c'.split(none, 1)", "'  a b  '.split(maxsplit=1)",
                  "'a,b,c'.rsplit(',', 1)", "' a b c '.rsplit(none, 1)", "' a b '.rsplit()", "'aaa'.rsplit('aa')", "nl.splitlines()", "nl.splitlines(true)",
                  "''.split()", "''.split(',')", "''.splitlines()", "'k=v=w'.partition('=')", "'k=v=w'.rpartition('=')", "'kv'.partition('=')",
                  "'kv'.rpartition('=')", "'a\\u2028b\\x85c\\x0bd'.splitlines()", "'aXbXc'.split('X')[-1]", "'</think>x'.split('</think>')[0]"],
    "str-find": ["s.find('o')", "s.find('o', 5)", "s.find('o', 5, 6)", "s.rfind('o')", "s.find('zz')", "u.find('ß')", "u.rfind('ς')", "s.index('W')",
                 "s.rindex('l')", "s.count('l')", "s.count('l', 3, -1)", "s.count('')", "u.count('')", "'aaaa'.count('aa')", "s.find('')", "s.find('', 50)",
                 "s.startswith('He')", "s.startswith(('x', 'H'))", "s.startswith('l', 2)", "s.endswith('ld')", "s.endswith(('a', 'b'))", "s.endswith('o', 0, 5)",
                 "u.startswith('é', 1)", "s.find('o', -3)", "s.startswith('')", "s.find('l', none, none)"],
    "str-make": ["'-'.join(['a', 'b'])", "','.join('abc')", "s.replace('l', 'L')", "s.replace('l', 'L', 1)", "'aaa'.replace('', '-')", "'aaa'.replace('', '-', 2)",
                 "'ab'.center(7)", "'abc'.center(6, '*')", "'ab'.center(5, 'é')", "'ab'.ljust(4) ~ '|'", "'ab'.rjust(4, '.')", "'-42'.zfill(6)", "'+'.zfill(3)", "'ab'.zfill(4)",
                 "'a\\tb\\tc'.expandtabs(4)", "'a\\n\\tb'.expandtabs()", "'a\\tb'.expandtabs(0)", "'x'.join([])", "''.join(ls)"],
    "str-is": ["'a'.isalpha()", "''.isalpha()", "'a1'.isalnum()", "'12'.isdigit()", "'²'.isdigit()", "'²'.isdecimal()", "'½'.isnumeric()", "'五'.isnumeric()",
               "' \\t'.isspace()", "'ab'.islower()", "'aB'.islower()", "'AB1'.isupper()", "'1'.isupper()", "'Ab Cd'.istitle()", "'ab'.isidentifier()", "'1a'.isidentifier()",
               "'a\\n'.isprintable()", "''.isprintable()", "'é'.isascii()", "''.isascii()", "'ª'.islower()", "'Ⅷ'.isupper()", "'é'.isidentifier()"],
    "collection-methods": ["d.get('a')", "d.get('z')", "d.get('z', 1)", "d.get(1)", "l.index(3)", "l.count(2)", "(1, 1).count(1)", "(1, 2).index(2)", "l.index(4, 1)", "d.copy()",
                           "l.copy()", "range(5).index(3)", "range(5).count(9)", "i.bit_length()", "fl.is_integer()", "(2.0).is_integer()", "l.index(1, -9, 3)"],
    "percent": ["'%s' % 1", "'%s-%s' % (1, 'a')", "'%d' % 3.99", "'%5d|%-5d|%05d' % (1, 2, 3)", "'%+d % d' % (1, 2)", "'%x %X %o %#x %#o' % (255, 255, 8, 255, 8)",
                "'%.2f' % 2.675", "'%8.3f|%-8.1f|' % (1.5, 2.5)", "'%e %E' % (12345.678, 0.00012)", "'%g %g %g' % (1e10, 0.0001, 123456789.0)", "'%r %s' % ('a', 'a')",
                "'%c%c' % ('x', 233)", "'%%'  % ()", "'%(a)s %(b)d' % d", "'%.3s' % 'abcdef'", "'%5s|%-5s|' % ('é', 'é')", "'%*d' % (5, 3)", "'%.*f' % (1, 2.25)",
                "'%a' % 'é'", "'%i %u' % (1, 2)", "'%.5d' % 42", "'%s' % [1]", "'%s' % none", "'%x' % (2 ** 70)", "'%d' % (2 ** 70)", "'%08.3f' % -1.5", "'%ld' % 3",
                "'%s' | format('x')", "'%(k)s' | format(k=1)", "'%F %G' % (1.5, 1e-10)", "'%#.3g' % 1.0"],
    "format": ["'{} {}'.format(1, 'a')", "'{1} {0}'.format(1, 2)", "'{a}'.format(a=5)", "'{0.real} {1[0]} {2[a]}'.format(3, [7], d)", "'{!r} {!s}'.format('a', 'b')",
               "'{:>6}|{:<6}|{:^6}|'.format('ab', 'cd', 'ef')", "'{:*^9}'.format('mid')", "'{:05d} {:+d} {: d}'.format(42, 42, 42)", "'{:,} {:_}'.format(1234567, 1234567)",
               "'{:.2f} {:.0f} {:e}'.format(3.14159, 2.5, 12345.678)", "'{:x} {:X} {:#x} {:#b} {:o}'.format(255, 255, 255, 5, 8)", "'{:%} {:.1%}'.format(0.5, 0.123)",
               "'{:g} {:G}'.format(1e20, 1e-7)", "'{{}} {}'.format(1)", "'{:{w}.{p}f}'.format(3.14159, w=8, p=2)", "'{:10,.2f}'.format(1234567.891)", "'{:012,}'.format(1234567)",
               "'{:=+8d}'.format(42)", "'{:c}'.format(65)", "'{:.3}'.format('abcdef')", "'{:.3}'.format(1234.5678)", "'{:.2}'.format(100.0)", "'{}'.format(none)", "'{:s}'.format('x')",
               "'{:d}'.format(true)", "'{!a}'.format('é')", "'{:_x}'.format(2 ** 40)", "'{:n}'.format(5)", "'{:08.2f}'.format(-3.14159)", "'{:é>4}'.format('x')", "'{x}'.format_map({'x': 1})",
               "'{0!r:>5}'.format('a')", "'{.real}'.format(3) if f else ''", "'{:04}'.format('ab')", "'{:6.2}|'.format(1.0)", "'{:.4}'.format(1e-10)"],
    "filters-text": ["s | upper", "s | lower", "'hello wORLD-x (a [b' | title", "'hELLO' | capitalize", "ws | trim", "'xax' | trim('x')", "s | replace('l', 'L')", "123 | replace(2, 'x')",
                     "s | replace('l', 'L', 1)", "'ab' | center(6) ~ '|'", "nl | indent", "nl | indent(2, true)", "nl | indent('> ', blank=true)", "'a\\n\\nb' | indent(1)", "s | truncate(8)",
                     "s | truncate(8, true)", "s | truncate(9, false, '!', 0)", "'foo bar baz qux' | truncate(9)", "s | wordcount", "'it is—x_y 5' | wordcount", "html | e", "html | escape | string",
                     "html | forceescape", "html | safe", "none | upper", "12 | string", "html | urlencode", "'a/b c' | urlencode", "{'a b': 'c/d', 'e': 1} | urlencode", "[('a', 'é')] | urlencode",
                     "{'class': 'x y', 'id': none, 'n': 1} | xmlattr", "{'a': '<'} | xmlattr(false)", "1 | filesizeformat", "1000 | filesizeformat", "1500000 | filesizeformat(true)",
                     "'12' | filesizeformat", "(html | safe) + '<'", "'<' + (html | safe)", "(html | e) is escaped", "1e30 | filesizeformat"],
    "filters-number": ["-3 | abs", "-2.5 | abs", "true | abs", "3.7 | int", "-3.7 | int", "'12' | int", "'x' | int", "'x' | int(5)", "'0x1F' | int(0, 16)", "'101' | int(0, 2)", "'1_000' | int", "' 42.9 ' | int",
                       "none | int", "'z' | int(0, 36)", "'0b11' | int(0, 0)", "2 | float", "'2.5' | float", "'x' | float", "'x' | float(1.5)", "'1e3' | float", "'inf' | float", "'nan' | float", "2.567 | round(1)", "2.5 | round",
                       "3.5 | round", "2.675 | round(2)", "42 | round", "1234 | round(-2)", "1250 | round(-2)", "1350.0 | round(-2)", "2.1 | round(0, 'ceil')", "-2.1 | round(0, 'ceil')", "2.17 | round(1, 'floor')", "2.5 | round(none)",
                       "'٣' | int", "1e15 | round(2)", "0.5 | round | string", "-0.4 | round"],
    "filters-list": ["l | length", "s | count", "d | length", "l | first", "l | last", "[] | first", "s | last", "d | first", "l | join", "l | join(', ')", "users | join(', ', attribute='name')", "l | sum", "[] | sum",
                     "users | sum(attribute='age')", "[[1], [2]] | sum(start=[])", "[1.5, 2] | sum", "l | max", "l | min", "[] | max", "ls | max", "ls | min(case_sensitive=true)", "users | max(attribute='age')", "ls | sort",
                     "ls | sort(case_sensitive=true)", "l | sort(reverse=true)", "users | sort(attribute='age') | map(attribute='name') | list", "users | sort(attribute='age,name') | map(attribute='name') | join", "l | reverse | list",
                     "s | reverse", "d | reverse | list", "u | reverse", "s | list", "d | list", "(1, 2) | list", "[1, 1, 2, 1.0] | unique | list", "['a', 'A', 'b'] | unique | list", "['a', 'A'] | unique(true) | list",
                     "users | unique(attribute='age') | map(attribute='name') | list", "l | batch(2) | list", "l | batch(3, 0) | list", "l | slice(2) | list", "l | slice(3, 'x') | list", "users | groupby('age')", "d | dictsort", "d | items | list",
                     "{'b': 1, 'A': 2} | dictsort", "{'b': 1, 'A': 2} | dictsort(true)", "{'a': 2, 'b': 1} | dictsort(by='value')", "{'a': 2, 'b': 1} | dictsort(reverse=true)", "l | select('odd') | reverse | list", "undefined_a | items | list"],
    "filters-select": ["ls | map('upper') | list", "users | map(attribute='name') | list", "users | map(attribute='tags.0', default='-') | list", "['1', 'x'] | map('int', default=9) | list", "l | select | list",
                       "[0, 1, '', 'a'] | select | list", "l | select('odd') | list", "l | reject('odd') | list", "l | select('gt', 2) | list", "l | select('in', [2, 9]) | list", "m | select('string') | list",
                       "users | selectattr('tags') | map(attribute='name') | list", "users | selectattr('age', 'eq', 3) | map(attribute='name') | list", "users | rejectattr('tags', 'defined') | map(attribute='name') | list",
                       "users | rejectattr('age', '>', 5) | list | length", "none | map('x') | list", "l | map('string') | join", "[[1, 2], [3]] | map('length') | list", "[[3], [4]] | map(attribute=0) | list", "[d] | map(attribute='c.1') | list"],
    "filters-default": ["undefined_a | default('x')", "none | default('x')", "none | default('x', true)", "'' | d('x', boolean=true)", "0 | default(1)", "undefined_a | default", "d.zz | default('q')", "users | attr('x') is undefined", "s | attr('upper') is callable"],
    "tojson": ["d | tojson", "m | tojson", "q | tojson", "u | tojson", "u | tojson(ensure_ascii=true)", "d | tojson(indent=2)", "[] | tojson(indent=2)", "{'a': [], 'b': {}} | tojson(indent=4)", "d | tojson(separators=(',', ':'))",
               "d | tojson(sort_keys=true)", "{1: 2, none: 3, true: 4, 1.5: 5} | tojson", "(1, (2,)) | tojson", "[1e16, 1.0, 0.1, 5e-324] | tojson", "'inf' | float | tojson", "'nan' | float | tojson", "(2 ** 70) | tojson",
               "[1, {'a': 2}] | tojson(indent='\t')", "[1] | tojson(indent=0)", "html | tojson", "'\\x08\\x0c\\x7f\\u2028' | tojson", "'\\x7f😀' | tojson(true)", "{'k': [1, {'z': none}]} | tojson(indent=1, separators=(';', '='))", "{'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true, indent=1)"],
    "tests": ["undefined_a is defined", "s is defined", "none is none", "t is true", "f is false", "1 is true", "t is boolean", "1 is integer", "t is integer", "1.5 is float", "t is number", "s is string", "s is iterable", "1 is iterable", "undefined_a is iterable",
              "d is mapping", "l is sequence", "d is sequence", "range(3) is sequence", "d.items() is sequence", "d.items() is iterable", "3 is odd", "4 is even", "9 is divisibleby 3", "3 is eq 3", "3 is ne(4)", "3 is lt 4", "3 is ge(3)", "'a' is lower", "'A' is upper",
              "range is callable", "s is callable", "undefined_a is callable", "'upper' is filter", "'nope' is filter", "'odd' is test", "2 is in l", "2 is not in [1]", "none is not none", "l is sameas l", "3.0 is odd", "'x' is escaped", "namespace() is mapping", "(l | map('abs')) is sequence"],
    "functions": ["range(3) | list", "range(1, 7, 2) | list", "range(3, 0, -1) | list", "range(5, 0) | list", "dict(a=1, b='x')", "dict({'a': 1}, b=2)", "dict([('k', 1)])", "dict()", "namespace(a=1).a", "namespace({'x': 2}).x", "(cycler('a', 'b')).current", "joiner(', ')()", "range(10) | length", "(range(2, 10, 3) | list) + [range(3)[-1]]"],
}

TEMPLATES = {
    # white space
    "trim-blocks": "{% if t %}\nx\n{% endif %}\ny\n",
    "lstrip-blocks": "  {% if t %}\n    {{ 1 }}\n  {% endif %}\n  {# c #}\n  z",
    "lstrip-only-first": "a  {% if t %}b{% endif %}  \n \t{% if t %}c{% endif %}",
    "minus-everywhere": "a \n {%- if t -%} \n b \n {%- endif -%} \n c {{- 1 -}} d {#- e -#} f",
    "plus-everywhere": "a\n  {%+ if t +%}\n  b\n  {%+ endif +%}\n  c {{+ 1 }} d",
    "minus-unicode-space": "a\u3000\x0b{{- 1 -}}\u2003\nb",
    "comment-newline": "a\n  {# c #}\nb {# d +#}\nc {#+ x -#}\n\nd",
    "raw-spaces": "a {%- raw -%} {{ x }} {% if %} {%- endraw -%} b\n  {% raw %}\n x {% endraw %}\n y",
    "raw-plus": "  {%+ raw %} {# {{ {%+ endraw +%}\n z",
    "line-endings": "a\r\nb\rc\n{{ 'x\r\ny' }}\r\n",
    "trailing-newlines": "a\n\n",
    "only-braces": "{ { } } % # {a} {'b'} }} %} #}",
    "open-at-end": "x{#",
    "brackets-in-tags": "{{ {'a': {'b': '}}'}} }}{% if '%}' == '%}' %}y{% endif %}",
    "nested-quotes": "{{ \"a'b\" ~ 'c\"d' }}",
    # scopes
    "set-in-if": "{% if t %}{% set x = 1 %}{% else %}{% set y = 2 %}{% endif %}{{ x }}{{ y is defined }}",
    "set-in-loop": "{% set x = 0 %}{% for a in l %}{% set x = x + a %}{{ x }},{% endfor %}{{ x }}",
    "loop-variable-gone": "{% for a in [1] %}{% set b = a %}{% endfor %}{{ a is defined }}{{ b is defined }}",
    "loop-shadows": "{% set a = 'o' %}{% for a in [1, 2] %}{{ a }}{% endfor %}{{ a }}",
    "with-scope": "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c is defined }}",
    "with-tuple": "{% with (a, b) = (1, 2), c = 3 %}{{ a }}{{ b }}{{ c }}{% endwith %}{% with %}x{% endwith %}",
    "macro-sees-later": "{% macro m() %}{{ g }}{{ h is defined }}{% endmacro %}{% set g = 1 %}{{ m() }}{% set g = 2 %}{{ m() }}",
    "macro-closure-in-loop": "{% for a in [1, 2] %}{% macro m() %}{{ a }}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}",
    "macro-set-inside": "{% set a = 1 %}{% macro m() %}{% set a = 2 %}{{ a }}{% endmacro %}{{ m() }}{{ a }}",
    "set-block": "{% set b %} a{{ 1 }} {% endset %}[{{ b }}]{% set c | trim | upper %} x {% endset %}[{{ c }}]{% set d2 | length %}abc{% endset %}{{ d2 + 1 }}",
    "set-block-scope": "{% set x = 1 %}{% set b %}{% set x = 2 %}{{ x }}{% endset %}{{ b }}{{ x }}",
    "set-tuple": "{% set a, b = 'xy' %}{{ a }}{{ b }}{% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }}{% set x = 1, %}{{ x }}",
    "namespace-tuple": "{% set ns = namespace(a=1) %}{% set ns.a, x = 5, 6 %}{{ ns.a }}{{ x }}{{ ns }}",
    "namespace-in-macro": "{% set ns = namespace(n=0) %}{% macro inc() %}{% set ns.n = ns.n + 1 %}{% endmacro %}{{ inc() }}{{ inc() }}{{ ns.n }}",
    "conditional-name": "{% if f %}{% set s = 'own' %}{% endif %}{{ s }}",
    "filter-block": "{% filter upper | replace('A', 'x') %}a{{ 1 }}b{% endfilter %}",
    # loops
    "loop-attributes": "{% for a in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "loop-print": "{% for a in l %}{{ loop }}{{ loop | length }}{% endfor %}",
    "loop-cycle": "{% for a in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(a // 2) }}{% endfor %}",
    "loop-filtered": "{% for a in l if a is odd %}{{ loop.index }}/{{ loop.length }}:{{ a }}{{ loop.last }} {% else %}none{% endfor %}",
    "loop-filter-outer": "{% set k = 3 %}{% for a in l if a < k %}{{ a }}{% endfor %}{% for a, b in d.items() if b is number %}{{ a }}{% endfor %}",
    "loop-filter-lazy": "{% set ns = namespace(stop=false) %}{% for a in l if not ns.stop %}{{ a }}{% if a == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "loop-filter-peek": "{% set ns = namespace(stop=false) %}{% for a in l if not ns.stop %}{{ a }}{{ loop.last }}{% if a == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}",
    "loop-else-break": "{% for a in l %}{% break %}{% else %}E{% endfor %}{% for a in l %}{% continue %}{% else %}F{% endfor %}{% for a in l %}{% if a > 1 %}{% break %}{% endif %}{% else %}G{% endfor %}",
    "loop-nested-break": "{% for a in l %}{% for b in l %}{% if b == 2 %}{% break %}{% endif %}{{ a }}{{ b }} {% endfor %}{% if a == 2 %}{% continue %}{% endif %}.{% endfor %}",
    "loop-break-in-capture": "{% for a in l %}{% set x %}{{ a }}{% if a == 2 %}{% break %}{% endif %}{% endset %}{{ x }}{% endfor %}{% for a in l %}{% filter upper %}x{% continue %}{% endfilter %}{% endfor %}",
    "loop-unpack": "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for a, b in ['xy', [1, 2]] %}{{ a }}{{ b }}{% endfor %}",
    "loop-over": "{% for k in d %}{{ k }}{% endfor %}{% for v in d.values() %}{{ v }}{% endfor %}{% for c in u %}{{ c }}.{% endfor %}{% for x in undefined_a %}x{% else %}-{% endfor %}{% for x in (1, 2) %}{{ x }}{% endfor %}{% for x in range(3) %}{{ x }}{% endfor %}",
    "loop-over-generator": "{% for x in l | map('string') %}{{ x }}{{ loop.length }}{{ loop.revindex }}{% if not loop.last %},{% endif %}{% endfor %}{% set g = l | select('odd') %}{{ g | list }}{{ g | list }}{{ 3 in (l | select) }}",
    "loop-recursive": "{% for a in [{'n': 1, 'c': [{'n': 2, 'c': [{'n': 3}]}]}, {'n': 4}] recursive %}{{ loop.depth }}{{ a.n }}{% if a.c %}[{{ loop(a.c) }}]{% endif %}{% else %}none{% endfor %}",
    "loop-recursive-else": "{% for a in [[], [1]] recursive %}({{ loop(a) if a is iterable else a }}){% else %}e{% endfor %}",
    "loop-outer": "{% for a in l[:2] %}{% set outer = loop %}{% for b in 'xy' %}{{ outer.index }}{{ loop.index }}{{ b }} {% endfor %}{% endfor %}",
    "loop-tuple-without-brackets": "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}{% for x in 'a', %}{{ x }}{% endfor %}",
    # macros
    "macro-arguments": "{% macro m(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m(b=1, a=2) }}{{ m() }}{{ m(*[1, 2]) }}{{ m(**{'a': 5}) }}{{ m(1, *[2], **{'c': 3}) }}",
    "macro-rest": "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m() }}",
    "macro-caller": "{% macro m(t) %}<{{ t }}>{{ caller(1, b=2) }}</{{ t }}>{% endmacro %}{% call(a, b) m('x') %}{{ a }}{{ b }}{{ s }}{% endcall %}",
    "macro-caller-default": "{% macro m(caller=none) %}{{ caller is none }}{{ caller() if caller }}{% endmacro %}{{ m() }}{% call m() %}c{% endcall %}",
    "macro-attributes": "{% macro m(a, b=1) %}{{ kwargs }}{% endmacro %}{{ m }}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}{{ m is callable }}",
    "macro-recursive": "{% macro f(n) %}{{ n }}{% if n > 0 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "macro-truth": "{% macro e() %}{% endmacro %}{% macro y() %} {% endmacro %}{{ 'a' if e() }}{{ 'b' if y() }}{{ e() | length }}{{ e() == '' }}",
    "macro-nested": "{% macro a(x) %}{% macro b(y) %}{{ x }}{{ y }}{% endmacro %}{{ b(1) }}{{ b(2) }}{% endmacro %}{{ a('p') }}{{ a('q') }}",
    "macro-in-filter": "{% macro m(x) %}{{ x }}{% endmacro %}{{ m('a') | upper }}{{ m(1) ~ m(2) }}{{ m('x') * 2 }}",
    "call-nested": "{% macro o() %}o{{ caller() }}{% endmacro %}{% macro i() %}i{{ caller() }}{% endmacro %}{% call o() %}{% call i() %}x{% endcall %}{% endcall %}",
    "generation": "{% generation %}a{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}",
    "print-tag": "{% print 1, 'a' %}{% print %}",
    # joiners, cyclers
    "cycler": "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}{{ c.next() }}{{ c.items }}{{ c.pos }}",
    "joiner": "{% set j = joiner('|') %}{% for a in l %}{{ j() }}{{ a }}{% endfor %}{{ j.sep }}{{ j.used }}",
    # undefined
    "undefined-prints": "[{{ undefined_a }}{{ d.zz }}{{ l[99] }}{{ users[0].nope }}{{ undefined_a | upper }}{{ undefined_a | length }}{{ undefined_a | list }}{{ undefined_a | join }}]",
    "undefined-default": "{{ (d.x.y is defined) if d.x is defined else 'no' }}{{ (undefined_a | default({})).x }}",
    "private": "{{ {'_x': 1}._x }}{{ {'__y__': 2}.__y__ }}{{ d.__class__ is defined }}{{ ''.__class__ is undefined }}{{ l.append is defined }}",
    # conditions
    "elif": "{% for a in l %}{% if a == 1 %}one{% elif a == 2 %}two{% elif a is odd %}odd{% else %}?{% endif %} {% endfor %}",
    "soft-filter": "{% if f %}{{ 1 | nofilter }}{% endif %}{{ 'x' if t else 1 | nofilter }}{{ 'y' if t else 1 is notest }}ok",
    "unicode-names": "{% set größe = 3 %}{{ größe }}{% set 名 = 'x' %}{{ 名 }}",
    "groupby-names": "{% for g in users | groupby('age') %}{{ g.grouper }}:{{ g.list | map(attribute='name') | join('+') }} {% endfor %}",
    "long-if": "{% if s is string and l is not mapping and (d.a == 'x' or not t) %}y{% endif %}",
    "strftime": "{{ strftime_now('%Y-%m-%dT%H:%M:%S.%f%%x') | length }}",
    "map-reads-macro": "{% macro m(u) %}{{ u.name }}!{% endmacro %}{% for u in users %}{{ m(u) }}{% if not loop.last %} {% endif %}{% endfor %}",
}

ERRORS = {
    "undefined-attribute": "{{ undefined_a.b }}",
    "undefined-item": "{{ undefined_a['b'] }}",
    "undefined-call": "{{ undefined_a() }}",
    "undefined-add": "{{ undefined_a + 1 }}",
    "undefined-less": "{{ undefined_a < 1 }}",
    "undefined-int": "{{ undefined_a | int }}",
    "undefined-format": "{{ '%d' % undefined_a }}",
    "undefined-tojson": "{{ {'a': undefined_a} | tojson }}",
    "undefined-slice": "{{ undefined_a[1:] }}",
    "type-add": "{{ 1 + 'a' }}",
    "type-less": "{{ 1 < 'a' }}",
    "type-in": "{{ 1 in 5 }}",
    "type-in-str": "{{ 1 in 'abc' }}",
    "type-neg": "{{ -'a' }}",
    "type-index": "{{ l[1:'a'] }}",
    "type-call": "{{ 'a'() }}",
    "type-iterate": "{% for x in 5 %}{% endfor %}",
    "type-length": "{{ 5 | length }}",
    "type-join": "{{ ''.join([1]) }}",
    "type-sum": "{{ ['a'] | sum }}",
    "type-sort": "{{ [1, 'a'] | sort }}",
    "type-abs": "{{ 'a' | abs }}",
    "type-key": "{{ {[1]: 2} }}",
    "type-split": "{{ 'a'.split(1) }}",
    "type-append": "{{ l.append(1) }}",
    "type-update": "{{ d.update({}) }}",
    "type-mro": "{{ ''.__class__.mro() }}",
    "type-percent": "{{ '%d' % 'a' }}",
    "type-percent-few": "{{ '%s %s' % 1 }}",
    "type-percent-many": "{{ '%s' % (1, 2) }}",
    "type-filter-block": "{% filter length %}abc{% endfilter %}",
    "value-unpack": "{% set a, b = [1] %}",
    "value-unpack-many": "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "value-step": "{{ l[::0] }}",
    "value-separator": "{{ 'a'.split('') }}",
    "value-index": "{{ 'a'.index('b') }}",
    "value-list-index": "{{ l.index(99) }}",
    "value-format": "{{ '{:d}'.format('a') }}",
    "value-format-open": "{{ '{'.format(1) }}",
    "value-format-close": "{{ '}'.format(1) }}",
    "value-format-missing": "{{ '{1}'.format(1) }}",
    "value-truncate": "{{ 'abcdef' | truncate(2) }}",
    "zero-division": "{{ 1 / 0 }}",
    "zero-modulo": "{{ 1 % 0 }}",
    "zero-float": "{{ 1.0 // 0 }}",
    "overflow-float": "{{ 10.0 ** 400 }}",
    "range-large": "{{ range(200000) }}",
    "range-step": "{{ range(1, 2, 0) }}",
    "namespace-other": "{% set d.x = 1 %}",
    "macro-many": "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "macro-keyword": "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}",
    "macro-no-caller": "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "macro-endless": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "filter-arguments": "{{ 'a' | replace('b') }}",
    "filter-keyword": "{{ 'a' | upper(x=1) }}",
    "filter-many": "{{ 'a' | trim('b', 'c') }}",
    "filter-twice": "{{ 'a' | replace('a', 'b', old='c') }}",
    "filter-unknown-map": "{{ l | map('nofilter') | list }}",
    "test-unknown-select": "{{ l | select('notest') | list }}",
    "filter-reached": "{% if t %}{{ 1 | nofilter }}{% endif %}",
    "round-method": "{{ 1.5 | round(1, 'up') }}",
    "dictsort-by": "{{ d | dictsort(by='x') }}",
    "items-of-list": "{{ [1] | items | list }}",
    "last-of-generator": "{{ l | select | last }}",
    "loop-call": "{% for a in l %}{{ loop(l) }}{% endfor %}",
    "loop-assign": "{% for a in l %}{% set loop = 1 %}{% endfor %}",
    "raise": "{{ raise_exception('no ' ~ s) }}",
    "lex-string": "{{ 'abc }}",
    "lex-char": "{{ a ? b }}",
    "lex-bracket": "{{ (1] }}",
    "lex-close": "{{ 1) }}",
    "lex-comment": "a{# b",
    "lex-raw": "{% raw %} x",
    "lex-escape": "{{ '\\x4' }}",
    "parse-empty": "{{ }}",
    "parse-block": "{% %}",
    "parse-if": "{% if t %}",
    "parse-if-empty": "{% if %}x{% endif %}",
    "parse-else": "{% else %}",
    "parse-end": "{% endfor %}",
    "parse-for": "{% for x of l %}{% endfor %}",
    "parse-for-end": "{% for x in l %}{% endif %}",
    "parse-target": "{% set 1 = 2 %}",
    "parse-target-call": "{% set f() = 2 %}",
    "parse-target-true": "{% set true = 2 %}",
    "parse-call": "{{ range(a=1, 2) }}",
    "parse-call-twice": "{{ dict(a=1, a=2) }}",
    "parse-call-rest": "{{ dict(**d, *l) }}",
    "parse-macro-default": "{% macro m(a=1, b) %}{% endmacro %}",
    "parse-macro-twice": "{% macro m(a, a) %}{% endmacro %}",
    "parse-call-block": "{% call s %}{% endcall %}",
    "parse-is-chain": "{{ 1 is odd is even }}",
    "parse-dict": "{{ {'a' 1} }}",
    "parse-list": "{{ [1 2] }}",
    "parse-attribute": "{{ d.'a' }}",
    "parse-extra": "{% endif x %}",
    "parse-unknown": "{% frob %}",
    "break-outside": "{% break %}",
    "continue-in-macro": "{% for a in l %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
    "unknown-filter": "{{ 1 | nofilter }}",
    "unknown-test": "{{ 1 is notest }}",
    "unknown-in-loop": "{% if f %}{% for a in l %}{{ a | nofilter }}{% endfor %}{% endif %}",
    "caller-without-default": "{% macro m(caller) %}{{ caller() }}{% endmacro %}",
    "set-filter-name": "{% set x | replace(y, z) %}a{% endset %}",
}


class Generation(Extension):
    """As transformers has it: what the tag holds renders as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda format: __import__("datetime").datetime.now().strftime(format)
    return environment


def render(environment, name, template, fails):
    case = {"name": name, "template": template, "context": CONTEXT}
    try:
        case["expected"] = environment.from_string(template).render(**copy.deepcopy(CONTEXT))
    except Exception as error:  # pylint: disable=broad-except
        case["error"] = f"{type(error).__name__}: {error}"
    if ("error" in case) != fails:
        raise SystemExit(f"{name}: {case.get('error', case.get('expected'))}")
    return case


def make_cases():
    environment = make_environment()
    for name, expressions in EXPRESSIONS.items():
        yield render(environment, name, "\n".join("{{ " + e + " }}" for e in expressions), False)
    for name, template in TEMPLATES.items():
        yield render(environment, name, template, False)
    for name, template in ERRORS.items():
        yield render(environment, name, template, True)


def seed_name(case):
    return "".join(c if c.isalnum() or c == "-" else "_" for c in case["name"])


def main():
    cases = list(make_cases())
    with open(DATA / "own.jsonl", "w", encoding="utf-8") as out:
        for case in cases:
            out.write(json.dumps(case, ensure_ascii=False) + "\n")
    CORPUS.mkdir(parents=True, exist_ok=True)
    for path in CORPUS.iterdir():
        path.unlink()
    with open(DATA / "jinja.jsonl", encoding="utf-8") as lines:
        small = [json.loads(line) for line in lines]
    for origin, group in (("small", small), ("own", cases)):
        for case in group:
            # Own cases share a context, which the target has built in: a seed without one uses it.
            context = json.dumps(case["context"], ensure_ascii=False) if origin == "small" else ""
            seed = case["template"] + ("\0" + context if context else "")
            (CORPUS / f"{origin}-{seed_name(case)}").write_bytes(seed.encode())
    print(f"{len(cases)} cases, {len(list(CORPUS.iterdir()))} seeds")


if __name__ == "__main__":
    main()
