"""Layers of both libraries with the same parameters, called with the same arrays."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from lite import nn

RTOL = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-9}


def pair(name: str, *args: Any, dtype: str = "float32", seed: int = 0, **kwargs: Any) -> tuple[Any, Any]:
    """A layer of both libraries with the same, random, parameters and buffers."""
    theirs = getattr(torch.nn, name)(*args, **kwargs)
    return matched(getattr(nn, name)(*args, **kwargs), theirs, dtype, seed)


def matched(
    ours: Any, theirs: Any, dtype: str = "float32", seed: int = 0, low: float = 0.1
) -> tuple[Any, Any]:
    """Both, with random parameters and buffers from `low` to `low` + 1; compares repr and names."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for value in (*theirs.parameters(), *theirs.buffers()):
            if value.is_floating_point():
                value.copy_(torch.rand_like(value) + low)
    theirs = theirs.to(getattr(torch, dtype))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if any(True for _ in ours.parameters()):
        ours.type(dtype)
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()}, assign=True)
    return ours, theirs


def to_torch(value: Any) -> Any:
    """Arrays, also in tuples and dicts, as tensors of their own; other values as they are."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, tuple):
        return tuple(map(to_torch, value))
    if isinstance(value, dict):
        return {key: to_torch(item) for key, item in value.items()}
    return value


def agree(ours: Any, theirs: Any, *inputs: Any, rtol: float | None = None, **options: Any) -> None:
    """Call both with the same arrays; compare values, shapes and dtypes of all results."""
    with torch.no_grad():
        expected = theirs(*map(to_torch, inputs), **to_torch(options))
    before = [x.copy() for x in flat(inputs) if x is not None]
    assert_agree(ours(*inputs, **options), expected, rtol)
    np.testing.assert_equal([x for x in flat(inputs) if x is not None], before)


def assert_agree(got: Any, expected: Any, rtol: float | None = None) -> None:
    """Compare an array, or a tuple of arrays, with tensors."""
    ours, theirs = flat(got), flat(expected)
    assert len(ours) == len(theirs)
    for mine, tensor in zip(ours, theirs, strict=True):
        assert (mine is None) == (tensor is None)
        if tensor is not None:
            value = tensor.numpy()
            assert mine.shape == value.shape
            assert mine.dtype == value.dtype
            tolerance = rtol if rtol is not None else RTOL.get(value.dtype.name, 0)
            np.testing.assert_allclose(mine, value, rtol=tolerance, atol=tolerance / 10)


def flat(value: Any) -> list[Any]:
    """The leaves of nested tuples."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple | list) else [value]


def outcomes(ours: Callable[[], Any], theirs: Callable[[], Any], rtol: float | None = None) -> None:
    """Run both; compare what comes out, or the classes of the errors."""
    try:
        with torch.no_grad():
            expected = theirs()
    except Exception as err:
        with pytest.raises(type(err), match=r"\d|got"):
            ours()
    else:
        assert_agree(ours(), expected, rtol)


@contextlib.contextmanager
def torch_fast_path(enabled: bool) -> Iterator[None]:
    """Whether torch may choose its fused implementation of attention, which treats masks in its own way."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(enabled)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
