"""Parameter: the array of a module that a state dict names."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lite import get_default_dtype
from lite._arrays.dtypes import is_inexact
from lite._arrays.types import ArrayHolder
from lite.nn._modules.meta import MetaArray

_TRAIN = "train the network in an autograd library and load its weights by name with Module.load_state_dict"
# What optimisers and training loops ask a parameter for, beside `grad`.
_GRADIENT_NAMES = frozenset(
    (
        "grad_fn",
        "is_leaf",
        "register_hook",
        "register_post_accumulate_grad_hook",
        "retain_grad",
        "retains_grad",
    )
)


class Parameter(NDArrayOperatorsMixin, ArrayHolder):
    """Marks an array as a parameter: assigned to a module's attribute, it is registered by name.

    A parameter holds its array in `data` and computes like it: operators, NumPy functions, indexing
    and the array's own methods all work, and give plain arrays. The object stays the same when a
    module changes its dtype (`module.half()`) or its values, so that shared parameters stay shared.

    Args:
        data: an array (kept, not copied), or numbers (Python floats take the default dtype).
        requires_grad: kept for compatibility; nothing computes gradients.

    Raises:
        RuntimeError: if `requires_grad` is true and the data are neither floating nor complex.

    Example:
        >>> import numpy as np
        >>> from lite.nn import Parameter
        >>> p = Parameter(np.array([1.0, 2.0], dtype=np.float32))
        >>> p + 1, p.shape
        (array([2., 3.], dtype=float32), (2,))
    """

    __slots__ = ("__weakref__", "data", "grad", "requires_grad")
    # Set here so that ndarray's operators defer to a parameter on their right.
    __array_priority__ = 1000

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        array = data.data if isinstance(data, Parameter) else data
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            array = np.asarray(array)
            array = array.astype(get_default_dtype()) if array.dtype.kind == "f" else array
        elif isinstance(array, np.generic):
            array = np.asarray(array)
        check_requires_grad(array.dtype, requires_grad)
        self.data: Any = array
        self.requires_grad = bool(requires_grad)
        self.grad: Any = None

    @classmethod
    def _over(cls, array: Any, requires_grad: bool) -> Parameter:
        """The constructor that trusts its arguments: something with shape and dtype, and a flag that fits."""
        self = object.__new__(cls)
        self.data = array
        self.requires_grad = requires_grad
        self.grad = None
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array."""
        dtype: np.dtype[Any] = self.data.dtype
        return dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array."""
        return int(self.data.ndim)

    @property
    def is_meta(self) -> bool:
        """True if the parameter has a shape and a dtype but no data."""
        return isinstance(self.data, MetaArray)

    @property
    def device(self) -> str:
        """Where the data live: "cpu", or "meta" without data."""
        return "meta" if self.is_meta else "cpu"

    def numpy(self) -> Any:
        """The raw array, sharing memory."""
        return self.data

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Set the `requires_grad` flag, which nothing in lite reads; returns self."""
        check_requires_grad(self.dtype, requires_grad)
        self.requires_grad = bool(requires_grad)
        return self

    # -- what initialisers call; without data (on "meta") there is nothing to set ----------------------

    def fill_(self, value: Any) -> Parameter:
        """Set all elements to a number; returns self.

        Example:
            >>> from lite import nn
            >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            >>> _ = net.apply(lambda m: m.weight.fill_(1.0) if type(m) is nn.Linear else None)
            >>> net[1].weight.data
            array([[1., 1.],
                   [1., 1.]], dtype=float32)
        """
        if not self.is_meta:
            self.data[...] = value
        return self

    def zero_(self) -> Parameter:
        """Set all elements to 0; returns self."""
        return self.fill_(0)

    def copy_(self, source: Any) -> Parameter:
        """Take the values of an array or a parameter that broadcasts to the shape; returns self.

        Raises:
            ValueError: it does not broadcast.
        """
        return self.fill_(_raw(source))

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Parameter:
        """Draw all elements from a normal distribution; returns self.

        Args:
            mean: of the distribution.
            std: its standard deviation, not negative.
            generator: a NumPy generator or a seed; new entropy without one.

        Raises:
            ValueError: `std` is negative.
        """
        if std < 0:
            raise ValueError(f"std must not be negative, got {std}.")
        return self.fill_(np.random.default_rng(generator).normal(mean, std, self.shape))

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Parameter:
        """Draw all elements from [low, high); returns self. See `normal_`."""
        return self.fill_(np.random.default_rng(generator).uniform(low, high, self.shape))

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: there is no automatic differentiation here."""
        raise RuntimeError(
            f"lite has no automatic differentiation, so backward() computes nothing: {_TRAIN}."
        )

    def detach(self) -> Any:
        """The raw array, sharing memory; there is no gradient to detach from."""
        return self.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.data, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(_raw(item) for item in out)
        result = getattr(ufunc, method)(*[_raw(item) for item in inputs], **kwargs)
        # An in-place operator must give the parameter back, or `m.weight += 1` would unregister it.
        if out is not None and len(out) == 1 and isinstance(out[0], Parameter):
            return out[0]
        return result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*_raw_nested(args), **_raw_nested(kwargs))

    def __getattr__(self, name: str) -> Any:
        # Reached only for names the class lacks: the array's own methods and attributes.
        if name in _GRADIENT_NAMES:
            raise AttributeError(f"lite has no automatic differentiation, so no {name}: {_TRAIN}.")
        if name.startswith("__") or name in Parameter.__slots__:
            raise AttributeError(f"'Parameter' object has no attribute '{name}'")
        return getattr(self.data, name)

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Any:
        return iter(self.data)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __float__(self) -> float:
        return float(self.data)

    def __int__(self) -> int:
        return int(self.data)

    # The mixin compares elementwise; a parameter is still a dictionary key by identity.
    __hash__ = object.__hash__

    def __copy__(self) -> Parameter:
        return type(self)(self.data, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        out = type(self)(copy.deepcopy(self.data, memo), self.requires_grad)
        memo[id(self)] = out
        return out

    def __reduce__(self) -> Any:
        return type(self), (self.data, self.requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{self.data!r}"


def check_requires_grad(dtype: Any, requires_grad: bool) -> None:
    """Raise RuntimeError if an array of this dtype cannot have gradients."""
    if requires_grad and not is_inexact(np.dtype(dtype)):
        raise RuntimeError(
            f"requires_grad needs a floating or complex dtype, got {dtype}; pass requires_grad=False."
        )


def _raw(value: Any) -> Any:
    return value.data if isinstance(value, Parameter) else value


def _raw_nested(value: Any) -> Any:
    if isinstance(value, Parameter):
        return value.data
    if type(value) in (list, tuple):
        return type(value)(_raw_nested(item) for item in value)
    if type(value) is dict:
        return {key: _raw_nested(item) for key, item in value.items()}
    return value
