"""One step over arrays that lie in memory in any way, by NumPy and by the compiled kernels."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.cases import each_case

from lite import TensorDict, optim
from lite.optim.leaves import LARGE


def layouts(shape):
    """Equal arrays in memory of many kinds."""
    base = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    wide = np.zeros((*shape[:-1], 2 * shape[-1]), np.float32)
    wide[..., ::2] = base
    shifted = np.zeros(base.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(shape)
    shifted[...] = base
    return {
        "plain": base.copy(), "columns": np.asfortranarray(base), "every second": wide[..., ::2],
        "backwards": base[::-1].copy()[::-1], "not aligned": shifted, "foreign order": base.astype(">f4"),
    }  # fmt: skip


@pytest.mark.compiled
@each_case("shape", [(3, 4), (LARGE, 2)])
def test_memory_of_any_kind(shape):
    params = TensorDict(layouts(shape))
    views = {key: params[key] for key in params.keys()}  # noqa: SIM118
    grads = params.clone()
    grads["plain"].flags.writeable = False
    state = None
    adam = optim.Adam(0.01, amsgrad=True)
    for _ in range(3):
        params, state = adam.update_(params, grads, state)
    for key, array in params.items():
        assert array is views[key]
        assert array.dtype.newbyteorder("=") == np.float32
        np.testing.assert_array_equal(array, params["plain"])
        np.testing.assert_array_equal(state["exp_avg", key], state["exp_avg", "plain"])
    assert not np.array_equal(params["plain"], grads["plain"])
    np.testing.assert_array_equal(grads["plain"], layouts(shape)["plain"])


PROGRAM = """
import sys
import numpy as np
sys.modules["numba"] = None
from lite import TensorDict, nn, optim
from lite.optim.leaves import LARGE
params = TensorDict(a=np.ones(LARGE - 1, np.float32))
optim.Adam(0.1).update(params, params)
assert sys.modules.get("numba") is None
ones = (np.ones(shape, np.float32) for shape in (LARGE, (2, 70_000), 2))
params = TensorDict(dict(zip("abc", ones)))
new, state = optim.Adam(0.1).update(params, params)
print([round(float(new[key].sum()), 1) for key in "abc"], sys.modules.get("numba") is not None)
"""


def test_without_a_compiler_numpy_computes():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"LITE_KERNELS": "", "LITE_KERNELS_PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "[14745.6, 126000.0, 1.8] False", done.stderr
