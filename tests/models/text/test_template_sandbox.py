"""What metering leaves of templates as they were."""

import json

from lite.models.text.template_rendering import render_chat

USER = {"role": "user", "content": "Hi"}


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
