"""Types of the arguments of kernels, for readers and type checkers; Numba infers its own at the first call.

Arrays are NumPy's in `cpu/` and Numba's device arrays in `cuda/`, where the same indexing works.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int: TypeAlias = int | np.integer[Any]
Float: TypeAlias = float | np.floating[Any]
Bool: TypeAlias = bool | np.bool_
Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.integer[Any]]
Bools: TypeAlias = NDArray[np.bool_]
LogitData: TypeAlias = NDArray[Any]  # float32 or float64, or the bits of float16 or bfloat16 as uint16
Operand: TypeAlias = tuple[NDArray[Any], int, int, int]  # flat memory; strides of rows, lines and entries

# What libraries without types make.
DeviceArray: TypeAlias = Any  # Numba's array in CUDA memory, or the simulator's
Kernel: TypeAlias = Any  # of `cuda._jit.kernel`
Layout: TypeAlias = tuple[int, ...]  # the place of row 0, lengths of the last two axes, strides of all three
Context: TypeAlias = Any  # Numba's target or typing context
Signature: TypeAlias = Any  # numba.core.typing.Signature
Type: TypeAlias = Any  # numba.types.Type
