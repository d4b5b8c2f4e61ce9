"""Chat templates that would hang or fill memory, and a program that renders each in a process of its own.

`python template_attacks.py` prints a JSON object: for each attack the error, or what became of the process.
"""

import json
import os
import signal
import sys
from pathlib import Path

SECONDS = 0.1  # that a template may take here
GIVEN = 15  # seconds of processor time after which a process is killed
BYTES = 1 << 30  # of address space that rendering may add


def _loop(body: str, start: str = "", end: str = "", times: int = 60) -> str:
    return (
        "{% set ns = namespace(x='ab', y=[], z={}, t=(), m=messages) %}"
        + start
        + f"{{% for i in range({times}) %}}{body}{{% endfor %}}"
        + end
    )


_PAIRS = _loop("{% set ns.y = [ns.y, ns.y] %}")
_TUPLES = _loop("{% set ns.t = (ns.t, ns.t) %}")
_DICTS = _loop("{% set ns.z = {'a': ns.z, 'b': ns.z} %}")
_SPACES = _loop("{% set ns.m = namespace(a=ns.m, b=ns.m) %}")
_LONG = "{% set a = 'a' * 16000000 %}"
_MANY = "{% set n = range(99999) | list %}"
_EXPANDING = {
    "pairs": (_PAIRS, "ns.y"),
    "tuples": (_TUPLES, "ns.t"),
    "dicts": (_DICTS, "ns.z"),
    "namespaces": (_SPACES, "ns.m"),
    "views": (_DICTS, "ns.z.items()"),
    "shared texts": (_LONG, "[[a] * 99] * 99"),
    "integers": ("{% set a = 16 ** 64 %}", "[[a * a * a * a] * 2000] * 9000"),
    "macros": ("{% macro " + "m" * 9999 + "() %}{% endmacro %}", "[" + "m" * 9999 + "] * 999999"),
}
_USES = {
    "print": "{{ X }}",
    "block": "{% set y %}{{ X }}{% endset %}",
    "joined": "{{ 'a' ~ X }}",
    "string": "{{ (X | string) | length }}",
    "tojson": "{{ X | tojson | length }}",
    "equal": "{{ X == Y }}",
    "in": "{{ X in [Y] }}",
    "percent": "{{ ('%s' % [X]) | length }}",
    "format": "{{ '{}'.format(X) | length }}",
    "sort": "{{ [X, Y] | sort | length }}",
    "join": "{{ [X] | join('a') | length }}",
    "key": "{{ {X: 1} | length }}",
    "error": "{{ raise_exception(X) }}",
    "name of a filter": "{{ messages | map(X) | list }}",
    "attribute": "{{ messages | attr(X) }}",
    "changed": "{% for i in range(9) %}{{ loop.changed([X], i % 2 and [Y]) }}{% endfor %}",
}


def attacks() -> dict[str, str]:
    """All attacks by name."""
    found = {}
    for kind, (made, value) in _EXPANDING.items():
        uses = _USES if kind == "pairs" else {use: _USES[use] for use in ("print", "key")}
        for use, text in uses.items():
            again = made.replace("ns", "ms") if "namespace" in made else ""
            other = value.replace("ns", "ms")
            found[f"{kind}, {use}"] = (
                made + again + text.replace("X", f"({value})").replace("Y", f"({other})")
            )
    return found | {
        "bytes doubled": _loop("{% set ns.x = ns.x + ns.x %}", "{% set ns.x = 'ab'.encode() %}"),
        "bytes multiplied": "{{ ('ab'.encode() * 100000000) | length }}",
        "bytes replaced": "{% set b = ('a' * 100000).encode() %}{{ b.replace(b[:1], b).replace(b[:1], b) }}",
        "bytes of an integer": "{{ (1).to_bytes(9999999999, 'big') | length }}",
        "join of a generator": _LONG + "{{ a.join(range(99999) | map('string')) | length }}",
        "join of a map": _LONG + "{{ ''.join(range(99999) | map('replace', '', a)) | length }}",
        "join of long texts": _LONG + "{{ [a, a, a, a, a, a, a, a] | join(a) | length }}",
        "join of one text": _LONG + "{{ a | join(a) | length }}",
        "map of lists": "{{ ([range(99999)] * 99999) | map('list') | list | length }}",
        "list of a text": _LONG + "{{ a | list | length }}",
        "sort of a text": _LONG + "{{ a | sort | length }}",
        "split": "{% set a = 'ab,' * 5000000 %}{{ a.split(',') | length }}",
        "split at blanks": "{% set a = 'ab ' * 5000000 %}{{ a.split() | length }}",
        "split into lines": "{% set a = 'ab\r' * 5000000 %}{{ a.splitlines() | length }}",
        "indent of lines": "{% set a = 'a\r' * 8000000 %}{{ a | indent(64) | length }}",
        "indent of empty lines": "{% set a = '\r' * 16000000 %}{{ a | indent(64, blank=true) | length }}",
        "title": "{% set a = 'ab ' * 5000000 %}{{ a | title | length }}",
        "search from the right": _LONG + "{{ a.rfind('b' ~ a[:8000000]) }}",
        "split from the right": _LONG + "{{ a.rsplit('b' ~ a[:8000000]) | length }}",
        "strip": _LONG + "{{ a.strip('b' * 8000000 ~ 'a') | length }}",
        "trim": _LONG + "{{ a | trim('b' * 8000000 ~ 'a') | length }}",
        "trim, named": _LONG + "{{ a | trim(chars='b' * 8000000 ~ 'a') | length }}",
        "widths": "{{ ('%(a)999d' * 1600000 % {'a': 1}) | length }}",
        "widths of braces": "{{ ('{a:999}' * 1600000).format(a=1) | length }}",
        "widths of a filter": "{{ ('%999d' * 99999) | format(*range(99999)) | length }}",
        "one value often": _LONG + "{{ ('%(a)s' * 999 % {'a': a}) | length }}",
        "one named value often": _LONG + "{{ ('{a}' * 999).format(a=a) | length }}",
        "rounding": "{{ 1.5 | round(1000000000, 'ceil') }}",
        "rounding, named": "{{ 1.5 | round(precision=1000000000, method='ceil') }}",
        "rounding a text": "{{ 'a' | round(9, 'ceil') }}",
        "a remainder": "{{ '%1000000000d' is odd }}",
        "a remainder of any number": "{{ '%1000000000d' is divisibleby 2 }}",
        "escapes of addresses": "{{ ('\U0001f600' * 16000000) | urlencode | length }}",
        "digits": "{{ ('9' * 16000000) | float }}",
        "digits of a base": "{{ ('f' * 16000000) | int(base=16) }}",
        "division of literals": "{{ 0x" + "f" * 80000 + " // 0x" + "e" * 40000 + " }}",
        "sum of lists": "{{ (range(99999) | map('string') | map('list') | sum(start=[])) | length }}",
        "sum of lists, by position": "{{ (([[1] * 99] * 99999) | sum(none, [])) | length }}",
        "lists in a loop": _loop("{% set ns.y = [ns.y" + ", 1" * 9999 + "] %}", times=99999),
        "tuples in a loop": _loop("{% set ns.y = (ns.y" + ", i" * 9999 + ") %}", times=99999),
        "dicts in a loop": _loop(
            "{% set ns.y = {'a': ns.y" + "".join(f", {k}: 1" for k in range(9999)) + "} %}", times=99999
        ),
        "names in a loop": _loop(
            "{% set ns.y = dict(a=ns.y" + "".join(f", a{k}=1" for k in range(999)) + ") %}", times=99999
        ),
        "spaces in a loop": _loop(
            "{% set ns.y = namespace(a=ns.y" + "".join(f", a{k}=1" for k in range(999)) + ") %}", times=99999
        ),
        "depth of lists": _loop("{% set ns.y = [ns.y] %}", "", "{{ ns.y }}", 99999),
        "depth of tuples": _loop("{% set ns.t = (ns.t,) %}", "", "{{ {ns.t: 1} }}", 99999),
        "depth of generators": _loop("{% set ns.y = ns.y | map('upper') %}", "", "{{ ns.y | list }}", 99999),
        "a space in itself": "{% set ns = namespace() %}{% set ns.a = [ns, ns] %}{{ ns }}",
        "a space in itself, compared": "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ [ns] == [ns.a] }}",
        "path of an attribute": "{% set ns = namespace() %}{% set ns.x = ns %}"
        "{{ [ns] | map(attribute='x.' * 8000000 ~ 'x') | list }}",
        "path to sort by": "{% set ns = namespace() %}{% set ns.x = ns %}"
        "{{ ([ns] * 9) | sort(attribute='x.' * 4000000 ~ 'x') }}",
        "budget given back": "{{ [1] | map('(turns)', -100000000) | list }}{% set a = 'a' * 60000000 %}"
        "{{ a ~ a }}",
        "class methods": "{{ dict.fromkeys(range(99999), range(99999)).fromkeys(1) }}",
        "time format": "{{ strftime_now('%A' * 16000000) | length }}",
        "dates of any width": "{{ strftime_now('%999999999Y') | length }}",
        "tojson separators": _MANY + "{{ n | tojson(separators=('a' * 16000000, 'b')) | length }}",
        "tojson indents": _loop("{% set ns.y = [ns.y] %}", "{% set ns.y = [1] * 999999 %}", "", 100)
        + "{{ ns.y | tojson(indent=16) | length }}",
        "tags striped": "{{ ('<!--' * 4000000) | striptags | length }}",
        "words": "{{ ('ab ' * 5000000) | wordcount }}",
        "pretty print": _PAIRS + "{{ ns.y | pprint | length }}",
        "attributes of tags": "{{ {'a': 'a' * 16000000} | xmlattr | xmlattr }}",
        "escaping": "{% set a = '&' * 16000000 %}" + "".join(f"{{% set b{i} = a | e %}}" for i in range(9)),
        "escaping blocks": "{% autoescape true %}{% set a = '&' * 16000000 %}"
        + "".join(f"{{% set b{i} %}}{{{{ a }}}}{{% endset %}}" for i in range(9))
        + "{% endautoescape %}",
        "comparisons in a row": "{% set a = 'a' * 16000000 %}{% set b = 'a' * 15999999 ~ 'a' %}"
        + "{% set c = a == b %}" * 5500,
        "searches in a row": "{% set a = 'ab' * 8000000 %}" + "{% set c = 'ba' * 99 ~ 'c' in a %}" * 3000,
        "calls of blocks": "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
        "calls of macros": "{% macro f(n) %}{% for i in n %}{{ f(n) }}{% endfor %}{% endmacro %}"
        "{{ f(messages) }}",
        "recursive loop": "{% for i in [[1], [2]] recursive %}{{ loop([[1, [2]], [3]] * 9) }}{% endfor %}",
        "nested loops": "{% for i in range(9) %}" * 30 + "{% endfor %}" * 30,
        "nested generation": "{% generation %}" * 99 + "{% endgeneration %}" * 99,
        "nested generation and loops": "{% for i in [1] %}{% generation %}" * 20
        + "{% endgeneration %}{% endfor %}" * 20,
        "nested conditions": "{% if a %}" * 2000 + "{% endif %}" * 2000,
        "nested parentheses": "{{ " + "(" * 50000 + "1" + ")" * 50000 + " }}",
        "nested lists": "{{ " + "[" * 50000 + "]" * 50000 + " }}",
        "a long sum": "{{ 1" + " + 1" * 30000 + " }}",
        "a long path": "{{ messages" + ".a" * 60000 + " }}",
        "many filters": "{{ 'a'" + " | upper" * 15000 + " }}",
        "many outputs": "{{ a }}" * 18000,
        "many names": "".join(f"{{% set a{i} = 1 %}}" for i in range(5500)),
        "many blanks": " " * 130000 + "{{ 1",
        "many openings": "{{" * 65000,
        "many tags": "{%-" * 43000,
        "many comments": "{#" * 65000,
        "many quotes": "{{ '" + "\\'" * 60000,
        "a forged mark at the end": "{{ _generation_mark }}",
        "a forged mark": "{{ _generation_mark }}({{ _generation_mark }}x{{ _generation_mark }})",
    }


def _attempt(source: str) -> str:
    """What rendering a template ends with, in a process with limits."""
    import resource

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (GIVEN, GIVEN))
        signal.alarm(20 * GIVEN)
        os.write(writing, _rendered(source).encode("utf-8", "replace")[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    ended = said or f"ended with status {status}"
    return f"{ended} [{seconds:.1f} s, {used.ru_maxrss >> 10} MB]"


def _rendered(source: str) -> str:
    from lite.models.text.template_rendering import render_chat

    try:
        text = render_chat(source, [{"role": "user", "content": "Hi"}]).text
    except ValueError as error:
        return f"ValueError: {str(error)[:200]}"
    except BaseException as error:
        return f"NOT HANDLED: {type(error).__name__}: {str(error)[:200]}"
    return f"text: {len(text)} characters"


def main() -> None:
    """Render all attacks, or those whose names hold the argument."""
    from lite.models.text import template_sandbox as template_budget

    template_budget.MAX_SECONDS = SECONDS
    _rendered("")  # imports jinja2 once, for all children
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    print(json.dumps({name: _attempt(source) for name, source in attacks().items() if asked in name}))


if __name__ == "__main__":
    main()
