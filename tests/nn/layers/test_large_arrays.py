"""Which arrays go to compiled layers, and where there is no compiler."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.tiers import standing_for_all

from lite.kernels.backends import choice
from lite.kernels.backends.choice import backend
from lite.nn.layers import large_arrays
from lite.nn.layers.large_arrays import LARGE, READY, affine, convolutions_for, images_for, layers_for

compiled = pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
x = np.zeros(LARGE, np.float32)


@pytest.mark.compiled
@compiled
def test_large_arrays_of_float32_are_taken():
    assert layers_for(x) is not None
    assert layers_for(x, None, x[:2]) is not None


def test_smaller_ones_are_taken_where_kernels_need_not_be_loaded():
    ready = backend() == "prebuilt" or os.environ.get("LITE_KERNELS") == "numba"
    assert (layers_for(x[:READY]) is not None) == ready
    assert layers_for(x[:READY], few=False) is None
    assert (convolutions_for(1 << 20, x) is not None) == ready


@each_case(
    ("found", "asked", "expected"),
    [
        ("numba", "numba", True),
        ("numba", "", False),
        ("numpy", "numpy", False),
        ("prebuilt", "", True),
        ("prebuilt", "prebuilt", True),
    ],
)
def test_numba_takes_smaller_ones_where_it_is_asked_for_by_name(found, asked, expected, monkeypatch):
    monkeypatch.setattr(choice, "backend", lambda: found)
    monkeypatch.setenv("LITE_KERNELS", asked)
    assert large_arrays._is_ready.__wrapped__() is expected


@each_case(
    "arrays",
    [
        (x[: READY - 1],),
        (x.astype(float),),
        (x.astype(">f4"),),
        (x, x.astype(float)),
        (x, [1.0]),
        ([0.0] * LARGE,),
    ],
    ids=["small", "float64", "byte order", "other parameters", "no array", "a list"],
)
def test_others_are_not(arrays):
    assert layers_for(*arrays) is None


@pytest.mark.compiled
@compiled
def test_which_images_are_taken():
    many, single = np.zeros((1 << 18,), np.uint8), np.float32
    for x in (many, many.astype(np.float32)):
        assert images_for(x, single) is not None
    for x, dtype in ((many, np.float64), (many.astype(np.int8), single), (many.astype(">f4"), single)):
        assert images_for(x, dtype) is None
    assert images_for(many[1:], single) is None


@pytest.mark.compiled
@compiled
def test_affine_takes_numbers_of_as_many_dimensions(rng):
    x = rng.random((64, 64, 64), np.float32)
    for shape in ((), (1,), (1, 1, 1), (64, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1)):
        loc, scale = np.full(shape, 0.3, np.float32), np.full((), 0.7, np.float32)
        for divide, expected in ((True, (x - loc) / scale), (False, x * scale + loc)):
            np.testing.assert_array_equal(affine(x, loc, scale, divide), expected, strict=True)


PROGRAM = """
import sys
import numpy as np
from lite import nn
from lite.nn.layers.large_arrays import LARGE, READY, convolutions_for, layers_for
{before}
nn.GELU()(np.zeros(LARGE - 1, np.float32))
assert sys.modules.get("numba") is None
nn.GELU()(np.zeros(LARGE, np.float32))
nn.LayerNorm(2)(np.zeros((LARGE, 2), np.float32))
print(layers_for(np.zeros(LARGE, np.float32)) is not None)
"""


@pytest.mark.parametrize(
    ("before", "disabled", "expected"),
    standing_for_all([("sys.modules['numba'] = None", "0", "False"), ("", "0", "True"), ("", "1", "False")]),
    ids=["no Numba", "Numba, which small arrays do not load", "compiler switched off"],
)
def test_where_there_is_no_compiler_numpy_computes(before, disabled, expected):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        env=os.environ | {"NUMBA_DISABLE_JIT": disabled, "LITE_KERNELS": "", "LITE_KERNELS_PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == expected, done.stderr
