"""No measured figure stands in a document that the results which it names do not hold.

`helpers/readme_numbers.py` says what a measured figure is and where it is looked for. Figures that are none
are listed here. CHANGELOG.md tells what was measured at its time, and is not compared; the embedded model's
card is, with its eval.json, by `tests/models/tiny_chat`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import readme_numbers
from helpers.cases import each_case
from helpers.readme_numbers import figures, missing

ROOT = Path(__file__).parents[1]
# Two folders in lite are links to the top ones.
IN_LITE = [
    path
    for pattern in ("*/*.md", "guides/*/*.md")
    for path in (ROOT / "lite").glob(pattern)
    if not path.parent.is_symlink()
]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    # pytest's cache, a folder with a dot, has a README of its own.
    for path in [*ROOT.glob("*.md"), *ROOT.glob("[!.]*/*.md"), *IN_LITE]
    if path.name != "CHANGELOG.md"
)
# Document, words of one of its paragraphs with the figure in them, and what it is instead of a measurement.
NO_MEASUREMENTS = [
    ("lite/guides/measured/what-bounds-it.md", "more than 4 MB past the caches", "a limit in the code"),
    ("lite/guides/kernels/backends.md", "no room in 256 MB", "the limit that a test sets"),
    ("models/README.md", "for at most ten seconds", "the limit of templates, in the code"),
    ("models/README.md", "loading after ten minutes", "the limit of loading, in the code"),
    ("lite/DIFFERENCES.md", "`Bernoulli` with p = 0.5", "a probability"),
]
WAYS_OUT = """
Each figure has to be what a benchmark has written down. One of these mends it:
- print what the file says now (one of its numbers has to round to the figure, in its unit);
- link the file that holds it in the same paragraph, as in [kernels](../bench/results/kernels.md);
- say it without a number, or write a benchmark that measures it;
- if it is no measurement (a default, a limit, the size of an example), list it in NO_MEASUREMENTS."""


def not_held(document: str, text: str) -> list[str]:
    """A line for each figure that no result holds and that is not listed."""
    found = []
    for figure in figures(text):
        words = [words for where, words, _ in NO_MEASUREMENTS if where == document]
        if missing(figure) and not any(figure.printed in w and w in figure.paragraph for w in words):
            named = [f"bench/results/{name}.md {row}".strip() for name, row in figure.results]
            where = f"is in none of {', '.join(named)}" if named else "stands beside no link to bench/results"
            found.append(f"{document}:{figure.line}: '{figure.printed}' {where}")
    return found


@each_case("document", DOCUMENTS)
def test_every_figure_is_in_the_results(document: str) -> None:
    found = not_held(document, (ROOT / document).read_text(encoding="utf-8"))
    assert not found, "\n".join([*found, WAYS_OUT])


@each_case(("document", "words", "reason"), NO_MEASUREMENTS)
def test_what_is_listed_is_still_there(document: str, words: str, reason: str) -> None:
    found = figures((ROOT / document).read_text(encoding="utf-8"))
    there = any(figure.printed in words and words in figure.paragraph for figure in found)
    assert there, f"{document} has no figure in {words!r} ({reason}): take it out of NO_MEASUREMENTS"


def test_titles_of_links_name_rows_that_are_there() -> None:
    for document in DOCUMENTS:
        for figure in figures((ROOT / document).read_text(encoding="utf-8")):
            for name, title in figure.results:
                rows = [row for row, _ in readme_numbers.results(name) if title in row]
                assert rows or not title, f"{document}: no {title!r} in bench/results/{name}.md"


NOT_TOLD = {
    "gpu_tests": "counts tests, and times of a GPU that nothing else used",
    "arm64": "emulated: it has no times",
    "other_systems": "counts calls: it has no times",
    "platforms": "counts tests, beside seconds that are no claim",
    "tests": "the load is what it runs itself",
    "install_sizes": "bytes, which no load changes",
    "mutants": "counts mutants: it has no times",
}


@each_case("file", sorted(readme_numbers.RESULTS.glob("*.md")), ids=lambda file: file.stem)
def test_results_tell_what_wrote_them_and_where(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    script = re.search(r"`python bench/(\w+\.py)[^`]*`", text)
    assert script, "name the command that wrote it: side_by_side.heading does"
    assert (ROOT / "bench" / script[1]).exists()
    told = [f" {name} " in text for name in ("processor", "cores", "load_before", "numpy")]
    assert all(told) != (file.stem in NOT_TOLD), NOT_TOLD.get(file.stem)


TABLE = """# Kernels

processor X, cores 2, numpy 2.4.6. Medians; minima in brackets.

| case | lite | other | | times faster | MB |
|---|--:|--:|---|--:|--:|
| gae 64x1000, batch 64 | 0.384 ms (0.226) | 11.2 ms (10.9) | torchrl vec | 29.1 | 1.73 |
| draws | 341 ms (12) | 1.5 s (1.4) | nobody | 4.4 | 213 |

In microseconds:

- a leaf 0.75

In MB: NumPy 71.4, numpy 2.4.6.
"""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "kernels.md").write_text(TABLE, encoding="utf-8")
    (tmp_path / "other.md").write_text("It took 5 ms.\n", encoding="utf-8")
    monkeypatch.setattr(readme_numbers, "RESULTS", tmp_path)
    readme_numbers.results.cache_clear()
    yield
    readme_numbers.results.cache_clear()


HELD = [
    "It takes 0.38 ms ([kernels](results/kernels.md)), 0.226 at best.",
    "It takes 380 µs, in 29.1 times less ([kernels](../bench/results/kernels.md)).",
    "It is 4.4 to 29 times faster, see `bench/results/kernels.md`.",
    "1.7 MB, 213 MB, 0.75 microseconds (results/kernels.md)",
    "# Speed\n\nIt takes 11.2\nms.\n\n- See [kernels](results/kernels.md).",
    'It takes 0.38 ms ([kernels](results/kernels.md "gae 64x1000")).',
]
NOT_HELD = [
    ("It takes 0.39 ms ([kernels](results/kernels.md)).", ["0.39 ms"]),
    ("It takes 213 kB and 213 s ([kernels](results/kernels.md)).", ["213 kB", "213 s"]),
    ("It takes 0.38 ms.", ["0.38 ms"]),
    ("It takes 0.38 ms ([other](results/other.md)).", ["0.38 ms"]),
    ("It takes 0.38 ms.\n\n# Next\n\nSee [kernels](results/kernels.md).", ["0.38 ms"]),
    ("- It takes 0.38 ms ([other](results/other.md)).\n- See [kernels](results/kernels.md).", ["0.38 ms"]),
    ('It takes 341 ms ([kernels](results/kernels.md "gae 64x1000")).', ["341 ms"]),
    ("NumPy 71.3 MB, 2.4 MB and 2.4 times: results/kernels.md", ["71.3 MB", "2.4 MB", "2.4 times"]),
    ("350 ms, 38 % and 7 tokens per second: results/kernels.md",
        ["350 ms", "38 %", "7 tokens per second"]),
    ("3x as fast, 7 hours, 8 GB/s, 9 tokens/s: results/kernels.md",
        ["3x", "7 hours", "8 GB/s", "9 tokens/s"]),
    ("half a microsecond, ten minutes, three times faster",
        ["half a microsecond", "ten minutes", "three times"]),
]  # fmt: skip


@pytest.mark.usefixtures("made_up")
@each_case("text", HELD)
def test_figures_that_results_hold(text: str) -> None:
    assert figures(text)
    assert not_held("x.md", text) == []


@pytest.mark.usefixtures("made_up")
@each_case(("text", "expected"), NOT_HELD)
def test_figures_that_are_made_up(text: str, expected: list[str]) -> None:
    assert [line.split("'")[1] for line in not_held("x.md", text)] == expected


def test_what_is_no_figure() -> None:
    versions = "tensordict 0.14.3, Python 3.11 to 3.14, NumPy 2.2 or newer, [it](file_1.5.md)"
    counts = "`gamma=0.99`, 64 x 1000, 16 bytes, three times, a second row, at width 4"
    assert figures(f"{versions}, {counts}\n```\nsleep 3 s\n```\n") == []


@pytest.mark.usefixtures("made_up")
def test_a_failure_says_what_to_look_at() -> None:
    text = "# A\n\nIt takes\n0.39 ms ([kernels](results/kernels.md))."
    assert not_held("x.md", text) == ["x.md:4: '0.39 ms' is in none of bench/results/kernels.md"]
