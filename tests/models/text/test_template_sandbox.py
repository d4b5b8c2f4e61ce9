"""What a chat template may build and how long it may take."""

from __future__ import annotations

import json

import pytest

from lite.models.text.template_rendering import render_chat

USER = {"role": "user", "content": "Hi"}
_WRITE_TWICE = "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"
_DOUBLE = "{% set ns = namespace(x=START) %}{% for i in range(60) %}BODY{% endfor %}{{ ns.x | length }}"


@pytest.mark.parametrize(
    "source",
    [
        _DOUBLE.replace("START", "'ab'").replace("BODY", "{% set ns.x = ns.x ~ ns.x %}"),
        _DOUBLE.replace("START", "'ab'").replace("BODY", "{% set ns.x = ns.x + ns.x %}"),
        _DOUBLE.replace("START", "[1, 2]").replace("BODY", "{% set ns.x = ns.x + ns.x %}"),
        _DOUBLE.replace("START", "'ab'").replace("BODY", "{% set ns.x = [ns.x, ns.x] | join %}"),
        _DOUBLE.replace("START", "1").replace("BODY", _WRITE_TWICE),
        _DOUBLE.replace("START", "'ab'").replace("BODY", "{% set ns.x = '{0}{0}'.format(ns.x) %}"),
        _DOUBLE.replace("START", "'ab'").replace("BODY", "{% set ns.x = '%s%s' % (ns.x, ns.x) %}"),
        "{% set x = 'a' * 1000000 %}{{ x | replace('a', x) | length }}",
        "{% set x = 'a' * 1000000 %}{{ x.replace('a', x) | length }}",
        "{% set x = 'a' * 1000000 %}{{ x.join(x) | length }}",
        "{% set x %}{% for i in range(99999) %}" + "x" * 10_000 + "{% endfor %}{% endset %}",
    ],
)  # fmt: skip
def test_what_is_built_on_the_way_is_limited(source: str) -> None:
    with pytest.raises(ValueError, match="chat template failed: it builds too much"):
        render_chat(source, [USER])


def test_integers_are_limited() -> None:
    source = "{% set ns = namespace(x=9) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}"
    with pytest.raises(ValueError, match="an integer is too large"):
        render_chat(source, [USER])


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    ],
)
def test_time_is_limited(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.text.template_sandbox.MAX_SECONDS", 0.05)
    with pytest.raises(ValueError, match="chat template failed: it takes too long"):
        render_chat(source, [USER])


def test_metered_loops_are_jinja_loops() -> None:
    source = (
        "{% for a, b in [(1, 2), (3, 4), (5, 6)] if a != 3 %}{{ loop.index }}/{{ loop.length }}{{ b }}"
        "{{ loop.last }} {% else %}none{% endfor %}{% for x in missing %}{% else %}none{% endfor %}"
        "{% for x in [1, [2, [3]]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}"
    )
    assert render_chat(source, [USER]).text == "1/22False 2/26True none123"


def test_what_honest_templates_use_stays() -> None:
    source = (
        "{{ messages | map(attribute='role') | list }}{{ {'a': [1, (2,)]} }}{{ [3, 1] | sort }}"
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first }}"
        "{% if messages | rejectattr('role', 'equalto', 'user') %}yes{% endif %}"  # as of a generator
        "{{ 'a,b'.split(',') | last }}{{ ' a '.strip() }}{{ 'ab'.rsplit('b')[0] }}"
        "{{ {'a': 1}.items() | list }}"
        "{{ [1, 2].index(2) }}{{ messages[0].get('none', 'd') }}{{ 1.25 | round(1) }}{{ [1, 2] | sum }}"
        "{{ (1, 2) == (1, 2) }}{{ 'i' in messages[0].content }}{{ 7 // 2 - 1 }}"
        "{{ {'b': 1, 'a': 2} | dictsort }}"
        "{{ '{} {a}'.format(1, a='x') }}{{ ','.join(messages | map(attribute='role')) }}"
    )
    assert render_chat(source, [USER]).text == (
        "['user']{'a': [1, (2,)]}[1, 3]Hiyesbaa[('a', 1)]1d1.23TrueTrue2[('a', 2), ('b', 1)]1 xuser"
    )


def test_long_conversations_are_within_the_limits() -> None:
    chat = [{"role": "user", "content": "word " * 100}, {"role": "assistant", "content": "word " * 100}] * 500
    source = (
        "{% set ns = namespace(seen=[], text='') %}{% for m in messages %}"
        "{% if m.role == 'user' and m.content is string and '</think>' not in m.content %}"
        "{% set ns.seen = ns.seen + [loop.index0] %}{% endif %}{% endfor %}"
        "{% for m in messages %}{{ m.role + ': ' + m.content | trim + '\\n' }}{% endfor %}"
        "{{ ns.seen | length }}"
        "{{ (messages | tojson) | length }}"
    )
    assert render_chat(source, chat).text.endswith(f"\n500{len(json.dumps(chat))}")
