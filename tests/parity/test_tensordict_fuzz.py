"""Random programs of several steps, on lite and on tensordict.

Both must give the same entries, dtypes, shapes, batch sizes, names and locks after every step, and raise
errors of the same meaning. What is meant to differ is a rule in `tests/helpers/fuzz/reference.py`, with its
row in `lite/DIFFERENCES.md`. That lite gives what NumPy gives is `tests/test_random_programs.py`.
"""

import os
from pathlib import Path

import pytest
from helpers.fuzz.programs import run
from helpers.fuzz.reference import RULES, Compared

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference

# LITE_FUZZ_EXAMPLES runs more, LITE_FUZZ_SEED others.
PROGRAMS = int(os.environ.get("LITE_FUZZ_EXAMPLES", "600"))
FIRST = int(os.environ.get("LITE_FUZZ_SEED", "0"))
DIFFERENCES = Path(__file__).parents[2] / "lite" / "DIFFERENCES.md"


def test_programs_do_the_same():
    programs = [run(Compared, FIRST + i) for i in range(PROGRAMS)]
    # Rules and internal errors of the reference must not hide that nothing is compared any more.
    assert sum(program.internal for program in programs) < PROGRAMS / 20
    assert sum(not program.ended for program in programs) > PROGRAMS / 2
    assert sum(program.compared for program in programs) > 2 * PROGRAMS


def test_rules_are_documented():
    subjects = [line[2:] for line in DIFFERENCES.read_text().splitlines() if line.startswith("| ")]
    for row in {rule.row for rule in RULES}:
        assert [subject for subject in subjects if subject.startswith(row)], row
