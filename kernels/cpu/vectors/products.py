"""Products of small matrices in compiled code, by tiles of the result whose sums stay in registers."""

from __future__ import annotations

from typing import Any

from lite.kernels._types import Floats
from lite.kernels.backends.choice import backend
from lite.kernels.backends.jit import jit

ROWS = 8  # of a tile
_WIDE, _NARROW = 32, 16  # columns of a tile

# Without compilation nothing calls these: kernels then have bodies of NumPy's functions.
tile: Any = None
shifted: Any = None
parted: Any = None
if backend() == "numba":
    from lite.kernels.cpu.vectors import shifts, tiles

    tile, shifted, parted = tiles.tile, shifts.shifted, shifts.parted


@jit
def product(
    a: Floats, at_a: int, row_a: int, step_a: int, b: Floats, at_b: int, row_b: int,
    c: Floats, at_c: int, row_c: int, rows: int, columns: int, depth: int, add: bool,
) -> None:  # fmt: skip
    """c = a b, or c += a b, for float32 matrices in flat arrays; `columns` is a multiple of 16.

    Args:
        a: its number in row i and column p is `a[at_a + i * row_a + p * step_a]`.
        b: its number in row p and column j is `b[at_b + p * row_b + j]`.
        c: its number in row i and column j is `c[at_c + i * row_c + j]`.
        rows: number of rows of a and c.
        columns: number of columns of b and c.
        depth: columns of a, rows of b.
        add: whether the product is added to c.
    """
    j = 0
    while j < columns:
        wide = columns - j >= _WIDE
        i = 0
        while i < rows:
            many = rows - i >= ROWS
            tile(
                a, at_a + i * row_a, row_a, step_a, b, at_b + j, row_b, c, at_c + i * row_c + j, row_c,
                depth, add, many, wide,
            )  # fmt: skip
            i += ROWS if many else 1
        j += _WIDE if wide else _NARROW
