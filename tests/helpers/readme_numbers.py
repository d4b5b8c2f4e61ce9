"""The measured figures of a document, and whether the results that it names hold them.

A figure is measured if a unit of time or memory, "times", "%" or "per second" follows it, in digits or in
words; so is every other number with a decimal point. Code, versions and the targets of links are left out.

It is looked for in the files of bench/results that its paragraph names (or list item, or line of a table),
else in those that its section names: one of their numbers has to round to it, in the unit that is printed. A
link with a title, `[vmap](results/vmap.md "batch 256, width 4")`, stands for the rows that have these words.

    python tests/helpers/readme_numbers.py README.md    # the figures and the rows that hold them
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parents[2] / "bench" / "results"

# How much of seconds, bytes or one a unit is.
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_SECONDS |= {"nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3, "second": 1.0, "minute": 60.0}
_SECONDS |= {"hour": 3600.0}
_BYTES = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "megabyte": 1e6}
_KINDS = {
    "time": _SECONDS,
    "size": _BYTES,
    "ratio": {"times": 1.0, "x": 1.0},
    "share": {"%": 1.0, "percent": 1.0},
}
_UNIT = (
    r"(?P<unit>(?:\w+ )?(?:per|a) second|\w+/s"
    r"|ns|us|µs|ms|s|min|h|(?:nano|micro|milli)?seconds?|minutes?|hours?"
    r"|[kMG]i?B|megabytes?|times|(?<=\d)x|%|percent)(?!\w)"
)
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
# Numbers that share a unit: "1.1 and 2 to 3 ms". A whole one does so in a range only: "width 4 and 1.2 ms".
_NUMBERS = rf"(?:\d+\.\d+(?:, | and | or )|{_NUMBER} to )*{_NUMBER}"
_SPELLED = {"half a": 0.5, "a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
_SPELLED |= {"eight": 8, "nine": 9, "ten": 10, "twelve": 12, "twenty": 20, "thirty": 30}
_IN_DIGITS = re.compile(
    rf"(?<![\w.])(?P<numbers>{_NUMBERS})[ -]?{_UNIT}|(?<![\w.])(?P<bare>\d+\.\d+)(?![\w.]*\w)"
)
_IN_WORDS = re.compile(
    rf"\b(?P<word>{'|'.join(_SPELLED)}) (?P<unit>(?:nano|micro|milli)seconds?|seconds|minutes|hours"
    r"|times(?= (?:as|faster|slower|longer|more|less)\b))(?!\w)"
)
_IN_RESULTS = re.compile(rf"(?<![\w.])({_NUMBER}(?:e[+-]\d+)?)(?: ?{_UNIT})?(?!\.?\w)")
_UNIT_NAMED = re.compile(r"\b(ns|us|ms|s|MB|(?:[Mm]icro|[Mm]illi)?seconds|times)\b")
_VERSION = re.compile(
    r"\b(?:C?Python|NumPy|[Tt]orch|TorchRL|torchrl|tensordict|Numba|glibc|musl|Linux|CUDA|ONNX|JAX|Ray|Pyodide"
    r"|onnxruntime(?:-gpu)?|transformers|[Vv]ersions?)"
    rf"(?: from| of)? \d++(?:\.\d+)*+(?! ?{_UNIT.replace('?P<unit>', '?:')})(?: (?:to|and|or) \d+\.\d+)?"
)
_CODE = re.compile(r"^```.*?^```", re.M | re.S)
_NO_PROSE = re.compile(r"`[^`\n]*`|(?<=\])\([^)\n]*\)")
_RESULT = re.compile(r"results/(\w+)\.(?:md|json|png)(?: \"([^\"]+)\")?")
_NEW_BLOCK = re.compile(r"\s*$|\s*(?:[-*] |\d+\. |\|)")


class Number(NamedTuple):
    """A value in seconds, in bytes or as it is, and what it may differ by to be printed so."""

    value: float
    tolerance: float
    kind: str


class Figure(NamedTuple):
    """What is printed in a line of a document, in which paragraph, and which rows of results that names."""

    line: int
    printed: str
    paragraph: str
    numbers: list[Number]
    results: list[tuple[str, str]]


def _number(printed: str, unit: str) -> Number:
    """Zeros at the end of a whole number count up to its second digit: 340 may be 341, 30 is not 31."""
    factor, kind = _unit(unit)
    whole, _, decimals = printed.replace(",", "").partition(".")
    zeros = 0 if decimals else max(0, min(len(whole) - len(whole.rstrip("0")), len(whole) - 2))
    return Number(
        float(f"{whole}.{decimals or 0}") * factor, 0.5 * 10.0 ** (zeros - len(decimals)) * factor, kind
    )


def _unit(unit: str) -> tuple[float, str]:
    """What a unit is of the first of its kind, and the kind; "" is a number as it stands, and a rate."""
    for kind, units in _KINDS.items():
        for name in (unit, unit.removesuffix("s")):
            if name in units:
                return units[name], kind
    return 1.0, ""


def _measured(text: str) -> Iterator[tuple[re.Match[str], list[Number]]]:
    for found in _IN_DIGITS.finditer(text):
        printed, unit = found["numbers"] or found["bare"], found["unit"] or ""
        yield found, [_number(each, unit) for each in re.findall(_NUMBER, printed)]
    for found in _IN_WORDS.finditer(text):
        factor, kind = _unit(found["unit"])
        value = _SPELLED[found["word"]]
        yield found, [Number(value * factor, (0.5 if value >= 1 else 0.05) * factor, kind)]


def _pieces(lines: range, starts: Callable[[int], bool]) -> list[range]:
    cuts = [i for i in lines if i == lines.start or starts(i)]
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], lines.stop], strict=True)]


def _without(pattern: re.Pattern[str], text: str) -> str:
    """The text with what fits replaced by as many spaces, so that lines stay where they are."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def figures(text: str) -> list[Figure]:
    """All measured figures of a document."""
    text = _without(_CODE, text)
    lines = text.splitlines()
    prose = _without(_VERSION, _without(_NO_PROSE, text)).splitlines()
    found = []
    for section in _pieces(range(len(lines)), lambda i: lines[i].startswith("#")):
        of_section = _RESULT.findall("\n".join(lines[i] for i in section))
        for block in _pieces(section, lambda i: _NEW_BLOCK.match(lines[i]) is not None):
            paragraph = " ".join(" ".join(lines[i] for i in block).split())
            results = _RESULT.findall(paragraph) or of_section
            ends = "\n".join(prose[i] for i in block)
            for match, numbers in _measured(ends.replace("\n", " ")):
                line = block.start + 1 + ends.count("\n", 0, match.start())
                found.append(Figure(line, " ".join(match[0].split()), paragraph, numbers, results))
    return sorted(found, key=lambda figure: figure.line)


@cache
def results(name: str) -> list[tuple[str, list[Number]]]:
    """The lines of results/`name`.md and the numbers in each: as they stand, and in the unit that is behind
    them, heads their column or the first one, or is the last in the text above; none in the names of rows."""
    found: list[tuple[str, list[Number]]] = []
    heads, above = [""], ""
    file = RESULTS / f"{name}.md"
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        if line.startswith("Written by"):
            continue
        cells = line.strip("|").split("|")
        if not line.startswith("|"):
            heads, above = [""], _last_unit(line) or above
            units = [above]
        elif heads == [""]:
            heads = units = [_last_unit(cell) for cell in cells]
        else:
            units = ["", *(head or heads[0] or above for head in heads[1:])]
        numbers: list[Number] = []
        for cell, unit in zip(cells, units, strict=False):
            for match in _IN_RESULTS.finditer(cell):
                unit = match["unit"] or unit
                value, (factor, kind) = float(match[1].replace(",", "")), _unit(unit)
                numbers += [Number(value * factor, 0.0, kind), Number(value, 0.0, "")]
        found.append((line, numbers))
    return found


def _last_unit(text: str) -> str:
    """The unit that a heading or a sentence names."""
    if "processor time" in text:
        return "times"
    return (_UNIT_NAMED.findall(text) or [""])[-1].replace("Mi", "mi")


def rows(figure: Figure, number: Number) -> list[str]:
    """The lines of results that hold one number of a figure."""
    return [
        line
        for name, title in figure.results
        for line, held in results(name)
        if title in line
        and any(
            number.kind == other.kind and abs(number.value - other.value) <= number.tolerance * (1 + 1e-9)
            for other in held
        )
    ]


def missing(figure: Figure) -> bool:
    """Whether one of a figure's numbers stands in none of the results that it names."""
    return any(not rows(figure, number) for number in figure.numbers)


def main() -> None:
    """Print each figure of the documents that are named, with the lines that hold it, to be read."""
    for document in sys.argv[1:]:
        for figure in figures(Path(document).read_text(encoding="utf-8")):
            print(f"{document}:{figure.line}: {figure.printed}")
            for number in figure.numbers:
                print(*(f"    {row}" for row in rows(figure, number) or ["nowhere"]), sep="\n")


if __name__ == "__main__":
    main()
