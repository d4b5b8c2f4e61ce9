"""What a chat template may build and how long it may take."""

import pytest
from helpers.cases import raises

from lite.models.text.template_rendering import render_chat
from lite.models.text.template_sandbox import left_to_rendering

USER = {"role": "user", "content": "Hi"}
_WRITE_TWICE = "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"
_DOUBLE = "{% set ns = namespace(x=START) %}{% for i in range(60) %}BODY{% endfor %}{{ ns.x | length }}"


def test_what_is_built_on_the_way_is_limited() -> None:
    cases = [
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
    ]
    for source in cases:
        raises(ValueError, "chat template failed: it builds too much", render_chat, source, [USER])


def test_integers_are_limited() -> None:
    source = "{% set ns = namespace(x=9) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}"
    raises(ValueError, "an integer is too large", lambda: render_chat(source, [USER]))


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    ],
)
def test_time_is_limited(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.text.template_sandbox.MAX_SECONDS", 0.05)
    raises(ValueError, "chat template failed: it takes too long", lambda: render_chat(source, [USER]))


def test_a_budget_ends_with_its_rendering() -> None:
    assert render_chat("{{ messages[0].content ~ '!' }}", [USER]).text == "Hi!"
    assert left_to_rendering.get(None) is None
    raises(ValueError, "chat template failed", lambda: render_chat("{{ raise_exception('no') }}", [USER]))
    assert left_to_rendering.get(None) is None
