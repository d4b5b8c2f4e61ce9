"""Random programs of several steps on several TensorDicts, against plain data computed with NumPy.

After every step everything that the program holds is compared: entries, dtypes, shapes, batch sizes, names,
locks, and what a write into memory that several values share did to each. `tests/helpers/fuzz/model.py` says
what a TensorDict is there; every operation is defined in the file of its family beside it.
"""

import os

import pytest
from helpers.fuzz.programs import Program, run

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of 0 / 0 and overflows

# A program takes about two milliseconds. LITE_FUZZ_EXAMPLES runs more, LITE_FUZZ_SEED others.
PROGRAMS = int(os.environ.get("LITE_FUZZ_EXAMPLES", "1000")) // 4
FIRST = int(os.environ.get("LITE_FUZZ_SEED", "0"))


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.depth) for part in range(1, 4))])
def test_programs(part: int) -> None:
    undecided = 0
    for i in range(PROGRAMS):
        undecided += run(Program, FIRST + part * PROGRAMS + i).ended
    assert undecided <= PROGRAMS / 25 + 5  # programs that meet what the model leaves open
