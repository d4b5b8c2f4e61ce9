"""Types of the arguments of kernels, for readers and type checkers; Numba infers its own at the first call.

Arrays are NumPy's in `cpu/` and Numba's device arrays in `cuda/`, where the same indexing works.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
LogitArray: TypeAlias = NDArray[Any]  # float32 or float64, or the bits of float16 or bfloat16 as uint16
Operand: TypeAlias = tuple[NDArray[Any], int, int, int]  # flat memory; strides of rows, lines and entries
