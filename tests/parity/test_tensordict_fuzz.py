"""Random programs of several steps, on lite and on tensordict.

Both must give the same entries, dtypes, shapes, batch sizes, names and locks after every step, and raise errors of
the same meaning. What is meant to differ is a rule in `tests/helpers/fuzz/reference.py`, with its row in
`lite/DIFFERENCES.md`. That lite gives what NumPy gives is `tests/test_random_programs.py`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("tensordict", reason="needs the parity extra")

from helpers.fuzz.reference import RULES, Compared
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference

# LITE_FUZZ_EXAMPLES runs more, with new seeds each time.
EXAMPLES = int(os.environ.get("LITE_FUZZ_EXAMPLES", "0"))
DIFFERENCES = Path(__file__).parents[2] / "lite" / "DIFFERENCES.md"
counts: Counter[str] = Counter()


@settings(
    max_examples=EXAMPLES or 3000,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    st.binary(min_size=48, max_size=48), st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=8)
)
def test_programs_do_the_same(start: bytes, steps: list[bytes]) -> None:
    program = Compared(start)
    try:
        for step in steps:
            program.run(step)
    except AssertionError:
        for line in program.log:
            note(line)
        raise
    counts["programs"] += 1
    counts["steps"] += program.compared
    counts["internal"] += program.internal
    counts["same to the end"] += not program.ended


def test_most_programs_were_compared() -> None:
    """Rules and errors of the reference must not hide that nothing is compared any more."""
    if not counts:
        pytest.skip("the programs did not run before this test")
    assert counts["internal"] < counts["programs"] / 20
    assert counts["same to the end"] > counts["programs"] / 2
    assert counts["steps"] > 2 * counts["programs"]


@pytest.mark.parametrize("row", sorted({rule.row for rule in RULES}))
def test_rules_are_documented(row: str) -> None:
    subjects = [line[2:] for line in DIFFERENCES.read_text().splitlines() if line.startswith("| ")]
    assert [subject for subject in subjects if subject.startswith(row)]
