"""Compiled steps give what the formulas in NumPy give, also of NaN, infinities and without state."""

import numpy as np

from lite.kernels.cpu import optimizers
from lite.optim import formulas

ADAM = {
    "plain": (1, 0, 1, 0.1, 0.999, 0.001, 1e-2, 1e-8),
    "decay": (-1, 0.1, 1, 0.5, 0.9, 0.1, 1e-2, 1e-3),
    "decoupled": (1, 0, 0.99, 0.1, 0.999, 0.001, 1e-2, 1e-8),
}
SGD = {"plain": (1, 0, 0.1, 0, 1, 0), "decay": (-1, 0.2, 0.1, 0, 1, 0)}
MOMENTUM = {
    "first": (1, 0, 0.1, 0.9, 1, 0),
    "dampened": (1, 0.1, 0.1, 0.9, 0.7, 0),
    "nesterov": (1, 0, 0.1, 0.9, 1, 0.9),
}
RMSPROP = {"plain": (1, 0, 0.1, 0.9, 0.1, 1e-8, 0.8), "decay": (-1, 0.2, 0.1, 0.9, 0.1, 1e-3, 0.5)}
CASES = [
    *(("adam", "pgms_", numbers, name) for name, numbers in ADAM.items()),
    *(("adam", "pgmst", numbers, f"amsgrad, {name}") for name, numbers in ADAM.items()),
    *(("sgd", "pg_", numbers, name) for name, numbers in SGD.items()),
    *(("sgd", "pgb", numbers, name) for name, numbers in MOMENTUM.items()),
    *(
        ("rmsprop", f"pgs{mean}{buffer}", numbers, f"{name} {mean}{buffer}")
        for name, numbers in RMSPROP.items()
        for mean in "_m"
        for buffer in "_b"
    ),
    ("lerp", "pg", (0.25,), "a quarter"),
]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, -3e15]


def test_equal_the_formulas():
    for name, arrays, numbers in [case[:3] for case in CASES]:
        dtype = np.float32
        rng = np.random.default_rng(0)
        count = len(SPECIAL) ** 2
        size = 1000 + count
        given = []
        for kind in arrays:
            values = rng.normal(size=size).astype(dtype)
            if kind in "p":
                values[:count] = np.repeat(SPECIAL, len(SPECIAL))
            if kind == "g":
                values[:count] = np.tile(SPECIAL, len(SPECIAL))
            if kind in "st":
                values = np.abs(values) + 4  # squares, above that of the mean
                values[-9:-6] = [np.inf, np.nan, 4]
            given.append(values[:0] if kind == "_" else values)
        expected, found = [a.copy() for a in given], [a.copy() for a in given]
        with np.errstate(all="ignore"):
            getattr(formulas, name)(*expected, tuple(map(float, numbers)))
        getattr(optimizers, name)(*found, np.array(numbers, dtype))
        for ours, other, before, kind in zip(found, expected, given, arrays, strict=True):
            # The square of the mean is taken from the mean of squares: one rounding more or less shows.
            np.testing.assert_allclose(ours, other, rtol=1e-5, atol=1e-5)
            if kind == "g":
                np.testing.assert_array_equal(ours, before)
            elif kind != "_":
                assert not np.array_equal(ours[count:], before[count:])
