"""The methods of arrays, for a class that does nothing but record what NumPy is asked."""

from __future__ import annotations

import inspect
import itertools
from contextlib import suppress
from typing import Any

import numpy as np
from helpers.cases import each_case

from lite._arrays.device import DeviceArray
from lite._arrays.methods import ArrayMethods
from lite._arrays.namespace import NamespaceArray
from lite._transforms.grad.array import TracedArray
from lite._transforms.graphs.array import GraphArray
from lite._transforms.vmap.array import BatchedArray
from lite.nn._modules.meta import MetaArray


class Plain(ArrayMethods):
    """An array behind NumPy's protocols; it has nothing of a map."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value)

    @property
    def shape(self) -> Any:
        return self.value.shape

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    def __setitem__(self, index: Any, value: Any) -> None:
        self.value[index] = bare(value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return Plain(getattr(ufunc, method)(*map(bare, inputs), **kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        out = func(*map(bare, args), **{key: bare(value) for key, value in kwargs.items()})
        return tuple(map(Plain, out)) if isinstance(out, tuple) else Plain(out)

    def copy(self) -> Plain:
        return Plain(self.value.copy())


def bare(value: Any) -> Any:
    return value.value if isinstance(value, Plain) else value


X = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]])


@each_case(
    "calls",
    [
        lambda x: (x.sum(1, keepdims=True), x.max(), x.argsort(axis=0), x.clip(0, 2), x.take([1, 0], 1)),
        lambda x: (x.swapaxes(0, 1), x.reshape(3, 2), x.reshape((6,)), x.transpose(1, 0), x.transpose()),
        lambda x: (x.ravel().transpose(0), x.flatten(), x.ravel(), x.T, x.mT),
        lambda x: (x.real, x.conj(), x.round(), x.var(ddof=1)),
    ],
)
def test_methods_are_those_of_an_ndarray(calls: Any) -> None:
    for got, expected in zip(calls(Plain(X)), calls(X), strict=True):
        np.testing.assert_array_equal(bare(got), expected)


def test_attributes() -> None:
    x = Plain(X)
    assert (x.ndim, x.size, x.itemsize, x.nbytes) == (X.ndim, X.size, X.itemsize, X.nbytes)


@each_case("write", [lambda x: x.sort(0), lambda x: x.fill(7), lambda x: x.partition(1)])
def test_methods_that_write(write: Any) -> None:
    got, expected = Plain(X.copy()), X.copy()
    write(got)
    write(expected)
    np.testing.assert_array_equal(got.value, expected)


def test_defaults_are_those_of_ndarray() -> None:
    """NumPy tells them from 2.4 on."""
    kinds = (ArrayMethods, NamespaceArray, DeviceArray, TracedArray, BatchedArray, GraphArray, MetaArray)
    for kind, name in itertools.product(kinds, dir(np.ndarray)):
        own = inspect.getattr_static(kind, name, None)
        with suppress(ValueError):
            theirs = (
                inspect.signature(getattr(np.ndarray, name)).parameters if inspect.isfunction(own) else {}
            )
            for parameter in inspect.signature(own).parameters.values() if theirs else ():
                if parameter.default is not parameter.empty and parameter.name in theirs:
                    wanted = theirs[parameter.name].default
                    pair = type(wanted), wanted
                    assert (type(parameter.default), parameter.default) == pair, (kind, name, parameter)
