"""Random programs of several steps on several TensorDicts, against tensordict.

After every step all values that the program holds are compared: entries, dtypes, shapes, batch sizes,
names, locks, which are the same object, and, since later steps write, which share memory. While a step
runs that is not in place, lite's arrays are read-only. Differences that are meant are rules
(tests/fuzz_rules.py), each a row of the README's table.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

pytest.importorskip("tensordict", reason="needs the parity extra")

from fuzz_rules import RULES
from fuzz_runner import run_program

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference

# One program takes about 10 ms. LITE_FUZZ_EXAMPLES runs more, with new seeds each time.
EXAMPLES = int(os.environ.get("LITE_FUZZ_EXAMPLES", "0"))
README = Path(__file__).parents[2] / "README.md"


@settings(
    max_examples=EXAMPLES or 5000,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    st.binary(min_size=48, max_size=48), st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=8)
)
def test_programs_do_the_same(build: bytes, steps: list[bytes]) -> None:
    try:
        log = run_program(build, steps)
    except AssertionError as error:
        for text in getattr(error, "log").steps:  # noqa: B009
            note(text)
        raise
    event(f"rule: {log.rule}")


@pytest.mark.parametrize("name", RULES)
def test_rules_are_documented(name: str) -> None:
    rows = [line.split("|")[1].strip() for line in README.read_text().splitlines() if line.startswith("| ")]
    if "batch size `[-1]`" not in rows:
        pytest.skip("the README has no table of differences yet")
    assert name in rows
