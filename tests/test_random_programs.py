"""Random programs of several steps on several TensorDicts, against plain data computed with NumPy.

After every step everything that the program holds is compared: entries, dtypes, shapes, batch sizes, names, locks,
and what a write into memory that several values share did to each. `tests/helpers/fuzz/model.py` says what a
TensorDict is there; every operation is defined in the file of its family beside it.
"""

from __future__ import annotations

import os

import pytest
from helpers.fuzz.programs import Program
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of 0 / 0 and overflows

# LITE_FUZZ_EXAMPLES runs more, with new seeds each time.
EXAMPLES = int(os.environ.get("LITE_FUZZ_EXAMPLES", "0"))


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
def test_programs(start: bytes, steps: list[bytes]) -> None:
    program = Program(start)
    try:
        for step in steps:
            program.run(step)
    except AssertionError:
        for line in program.log:
            note(line)
        raise
