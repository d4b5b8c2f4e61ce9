"""The numbers of GELU's polynomials."""

import math

from lite.kernels.cpu.vectors.gelu import BY_TANH, END, EXACT


def odds(x: float, coefficients: tuple[float, ...]) -> float:
    square, sum_ = min(x * x, END), 0.0
    for c in coefficients:
        sum_ = sum_ * square + c
    return x / (1 + math.exp(min(x * sum_, 700.0)))


def test_polynomials_give_gelu():
    for x in [-9.0, -5.4, -3.3, -1.0, -0.01, 0.0, 0.3, 2.2, 5.5, 30.0]:
        assert abs(odds(x, EXACT) - x * math.erfc(-x / math.sqrt(2)) / 2) < 8e-8
        by_tanh = x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
        if abs(x) < math.sqrt(END):
            assert abs(odds(x, BY_TANH) - by_tanh) < 1e-14
