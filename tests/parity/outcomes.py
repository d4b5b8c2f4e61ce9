"""What a case gives with a library, in one form for both libraries, and when two of these agree."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensordict

import lite

# Whether the reference is one that mended what 0.14 does otherwise than it says.
MENDED = tensordict.__version__ >= "0.15"


def plain(value: Any) -> Any:
    """Containers, arrays, tensors and parameters as arrays in dicts, lists and tuples."""
    if isinstance(value, lite.TensorDictBase | tensordict.TensorDictBase):
        keys = sorted(value.keys(True, True), key=str)
        return {"batch_size": tuple(value.batch_size), **{key: plain(value.get(key)) for key in keys}}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return (list if isinstance(value, list) else tuple)(plain(item) for item in value)
    if isinstance(value, lite.nn.Parameter):
        return np.array(value.data)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "detach"):
        return np.array(value.detach() if hasattr(value, "detach") else value)
    return value


def outcome(case: Callable[..., Any], *args: Any) -> Any:
    """What a case gives, in plain form, or the class of what it raises."""
    try:
        return plain(case(*args))
    except Exception as error:
        return type(error)


def assert_agree(got: Any, expected: Any, where: str = "", rtol: float = 1e-5) -> None:
    """Two outcomes are alike: keys in order, classes, dtypes and shapes, and close numbers."""
    if isinstance(got, type) or isinstance(expected, type):
        assert got is expected, (where, got, expected)
        return
    both = isinstance(got, np.ndarray) and isinstance(expected, np.ndarray)
    assert both or type(got) is type(expected), (where, got, expected)
    if isinstance(got, dict):
        assert list(got) == list(expected), where
        for key in got:
            assert_agree(got[key], expected[key], f"{where}.{key}", rtol)
    elif isinstance(got, list | tuple):
        assert len(got) == len(expected), (where, got, expected)
        for i, (one, other) in enumerate(zip(got, expected, strict=True)):
            assert_agree(one, other, f"{where}[{i}]", rtol)
    elif both:
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), where
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-6, err_msg=where)
    else:
        assert got == expected, (where, got, expected)
