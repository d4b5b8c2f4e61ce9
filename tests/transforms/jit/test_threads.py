"""The number of threads of a graph by default."""

from typing import Any

import numpy as np
from helpers.cases import each_case, raises

import lite
from lite import nn


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


CONV, WIDE = nn.Conv2d(4, 8, 3), nn.Conv2d(4, 64, 3)


@each_case(
    ("function", "args", "want"),
    [
        (np.matmul, (f(100, 200), f(200, 749)), 1),
        (np.matmul, (f(100, 200), f(200, 751)), None),
        (np.matmul, (f(40, 100, 200), f(200, 19)), None),  # of all in the batch
        (lambda x: np.tanh(x).sum(), (f(2, 100_000),), 1),
        (lambda x: np.tanh(x).sum(), (f(2, 100_001),), None),
        (CONV, (f(1, 4, 32, 32),), 1),
        (WIDE, (f(8, 4, 32, 32),), None),
        (lambda x: lite.grad(lambda w: (x @ w).sum())(f(64, 8)), (f(16, 64),), 1),
    ],
)
def test_one_thread_where_no_operator_has_enough_for_two(function, args, want):
    step = lite.jit(function)
    (runner,) = (step(*args), step._kept.values())[1]
    assert runner.program.threads == want


def test_what_is_asked_for_counts() -> None:
    for threads in (None, 1, 2):
        step = lite.jit(np.tanh, threads=threads)
        step(f(3))
        (runner,) = step._kept.values()
        options = runner._session.session.get_session_options()
        assert options.intra_op_num_threads == (threads or 1)
    raises(ValueError, "num_threads must be at least 1", lambda: lite.jit(np.tanh, threads=0)(f(3)))


def test_a_file_has_the_number(tmp_path: Any) -> None:
    for cells, want in ((8, 1), (3000, None)):
        file = lite.jit(np.matmul).lower(f(cells, 300), f(300, 10)).save(tmp_path / "step.onnx")
        assert lite.load_step(file)._runner.program.threads == want
