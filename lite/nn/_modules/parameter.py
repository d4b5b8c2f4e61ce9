"""Parameter: an array of a module that is saved in its state dict.

A Parameter holds its array in `data` and is not a subclass of ndarray. A module registers, shares and
restores its identity, while the array changes dtype, is replaced or has no data yet; the memory of an ndarray
cannot change. A subclass would also propagate to results and slow down each operation
(bench/results/bounds.md). Layers pay nothing, as they compute with `data`. TensorDicts hold Parameters as
leaves of class `ArrayHolder`, for which loops test after plain arrays."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

from lite import get_default_dtype
from lite._arrays.dtypes import is_inexact
from lite._arrays.public import belong_to
from lite._arrays.types import Array, ArrayHolder, is_symbolic, without_number
from lite._transforms.grad.running import leaf, state
from lite._transforms.handles import RemovableHandle, add_hook
from lite.nn._modules.meta import MetaArray


class Parameter(NDArrayOperatorsMixin, ArrayHolder):
    """An array that a module registers by name when it is assigned to an attribute.

    A parameter holds its array in `data` and computes like it: operators, NumPy functions, indexing
    and the array's own methods all work, and return plain arrays. The object stays the same when a
    module changes its dtype (`module.half()`) or its values, so that shared parameters stay shared.

    Under `lite.enable_grad()` operations on it are traced, and `backward` of a result adds its gradient to
    `grad`. Then it can only be written to under `lite.no_grad()` or by writing to `data`.

    Args:
        data: an array (kept, not copied), or numbers (Python floats take the default dtype).
        requires_grad: whether gradients are computed.

    Attributes:
        data: the array.
        grad: the sum of gradients, an array of the shape and dtype of `data`; None before the first.

    Raises:
        RuntimeError: if `requires_grad` is true and the data are neither floating nor complex.

    Example:
        >>> import numpy as np
        >>> from lite.nn import Parameter
        >>> p = Parameter(np.array([1.0, 2.0], dtype=np.float32))
        >>> p + 1, p.shape
        (array([2., 3.], dtype=float32), (2,))
    """

    __slots__ = ("__weakref__", "_hooks", "_post_hooks", "data", "grad", "requires_grad")
    # Set here so that ndarray's operators defer to a parameter on their right.
    __array_priority__ = 1000

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        array = data.data if isinstance(data, Parameter) else data
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            array = np.asarray(array)
            array = array.astype(get_default_dtype()) if array.dtype.kind == "f" else array
        check_requires_grad(array.dtype, requires_grad)
        self.data: Any = array
        self.requires_grad = bool(requires_grad)
        self.grad: Any = None

    @classmethod
    def _over(cls, array: Any, requires_grad: bool) -> Parameter:
        """The constructor without checks, for an object with shape and dtype and a valid flag."""
        self = object.__new__(cls)
        self.data = array
        self.requires_grad = requires_grad
        self.grad = None
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data" and type(value) is not np.ndarray:
            value = without_number(value)
        object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array."""
        return self.data.dtype

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
        """The device of the data: "cpu", or "meta" without data."""
        return "meta" if self.is_meta else "cpu"

    def numpy(self) -> Any:
        """The raw array, sharing memory."""
        return self.data

    def requires_grad_(self, requires_grad: bool = True) -> Parameter:
        """Set `requires_grad`; returns self."""
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
            self[...] = value
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

    def normal_(
        self, mean: float = 0.0, std: float = 1.0, *, generator: np.random.Generator | int | None = None
    ) -> Parameter:
        """Draw all elements from a normal distribution; returns self.

        Args:
            mean: mean of the distribution.
            std: its standard deviation, not negative.
            generator: a NumPy generator or a seed; new entropy without one.

        Raises:
            ValueError: `std` is negative.
        """
        if std < 0:
            raise ValueError(f"std must not be negative, got {std}.")
        return self.fill_(np.random.default_rng(generator).normal(mean, std, self.shape))

    def uniform_(
        self, low: float = 0.0, high: float = 1.0, *, generator: np.random.Generator | int | None = None
    ) -> Parameter:
        """Draw all elements from [low, high); returns self. See `normal_`."""
        return self.fill_(np.random.default_rng(generator).uniform(low, high, self.shape))

    # -- gradients ---------------------------------------------------------------------------------------

    is_leaf = True
    grad_fn = None
    retains_grad = False

    def backward(self, gradient: Array | None = None, retain_graph: bool = False) -> None:
        """Add `gradient`, the gradient of this parameter with respect to itself, to `grad`.

        Args:
            gradient: an array of the parameter's shape; 1 for a single number.
            retain_graph: accepted for compatibility.

        Raises:
            RuntimeError: it requires no gradient, gradients are not enabled, or `gradient` is missing
                although the parameter has more than one element.
        """
        array = leaf(self)
        if array is self.data:
            raise RuntimeError(
                "backward() needs a parameter that requires a gradient, inside "
                f"`with lite.enable_grad():`; got requires_grad={self.requires_grad}, and gradients are "
                f"{'disabled' if state.leaf is None else 'enabled'}."
            )
        array.backward(gradient, retain_graph)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Run `hook(gradient)` for the gradient of each `backward`, before it is added to `grad`.

        Args:
            hook: must not write to its argument; a result other than None replaces the gradient.

        Raises:
            RuntimeError: the parameter requires no gradient.

        Example:
            >>> import numpy as np
            >>> import lite
            >>> p = lite.nn.Parameter(np.ones(2, np.float32))
            >>> handle = p.register_hook(lambda gradient: 2 * gradient)
            >>> with lite.enable_grad():
            ...     p.sum().backward()
            >>> p.grad
            array([2., 2.], dtype=float32)
        """
        return self._add_hook("_hooks", hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Run `hook(parameter)` after a gradient was added to `grad`.

        Raises:
            RuntimeError: the parameter requires no gradient.
        """
        return self._add_hook("_post_hooks", hook)

    def _add_hook(self, name: str, hook: Any) -> RemovableHandle:
        if not self.requires_grad:
            raise RuntimeError("a hook needs a parameter with requires_grad, got one without.")
        hooks = getattr(self, name, None)
        if hooks is None:
            hooks = OrderedDict()
            setattr(self, name, hooks)
        return add_hook(hooks, hook)

    def retain_grad(self) -> None:
        """Do nothing: a parameter keeps its gradient."""

    def accumulate_grad(self, gradient: Array) -> None:
        """Add a gradient to `grad` after calling the hooks; called by `backward`.

        Args:
            gradient: an array of the shape and dtype of the parameter; it is copied.
        """
        for hook in tuple((getattr(self, "_hooks", None) or {}).values()):
            found = hook(gradient)
            if found is not None:
                gradient = found.astype(self.dtype) if is_symbolic(found) else np.asarray(found, self.dtype)
        if self.grad is None:
            gradient = np.copy(gradient) if is_symbolic(gradient) else np.array(gradient)
            object.__setattr__(self, "grad", gradient)  # a third of a microsecond faster
        elif hasattr(type(self.grad), "accumulated"):  # under jit, where the sum may yet be cleared
            self.grad = self.grad.accumulated()
        elif isinstance(self.grad, np.ndarray) and self.grad.flags.writeable:
            self.grad += gradient  # in place, so that other references see the sum, as in torch
        else:
            self.grad = self.grad + gradient
        for after in tuple((getattr(self, "_post_hooks", None) or {}).values()):
            after(self)

    def clear_grad(self, set_to_none: bool) -> None:
        """Remove `grad`, or set it to zeros in place."""
        if set_to_none or self.grad is None:
            object.__setattr__(self, "grad", None)
        elif isinstance(self.grad, np.ndarray) and self.grad.flags.writeable:
            self.grad[...] = 0
        else:
            self.grad = np.zeros_like(self.data)

    def computing(self) -> Any:
        """The array to compute with: the raw array, or a traced one under `enable_grad`."""
        return leaf(self)

    def detach(self) -> Any:
        """The raw array, sharing memory, without gradient."""
        return self.data

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        return np.array(leaf(self), dtype=dtype, copy=copy)

    def __setitem__(self, index: Any, value: Any) -> None:
        _target(self)[index] = _raw(value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(_target(item) for item in out)
        result = getattr(ufunc, method)(*[_raw(item) for item in inputs], **kwargs)
        # An in-place operator must return the parameter, or `m.weight += 1` would unregister it.
        if out is not None and len(out) == 1 and isinstance(out[0], Parameter):
            return out[0]
        return result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*_raw_nested(args), **_raw_nested(kwargs))

    def __getattr__(self, name: str) -> Any:
        # Reached only for names the class lacks: the array's own methods and attributes.
        if name.startswith("__") or name in Parameter.__slots__:
            raise AttributeError(f"'Parameter' object has no attribute '{name}'")
        return getattr(leaf(self), name)

    def __getitem__(self, index: Any) -> Any:
        return leaf(self)[index]

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Any:
        return iter(leaf(self))

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


def check_requires_grad(dtype: DTypeLike | None, requires_grad: bool) -> None:
    """Raise RuntimeError if an array of this dtype cannot have gradients."""
    if requires_grad and not is_inexact(np.dtype(dtype)):
        raise RuntimeError(f"requires_grad=True needs a floating or complex dtype, got {dtype}.")


def _raw(value: Any) -> Any:
    """The array to compute with for a Parameter; other values unchanged."""
    return leaf(value) if isinstance(value, Parameter) else value


def _target(value: Any) -> Any:
    """The array of `out`, which a result is written into."""
    if not isinstance(value, Parameter):
        return value
    if state.leaf is not state.base and value.requires_grad:
        raise RuntimeError(
            "a parameter that requires a gradient cannot be written to under enable_grad(); under no_grad() "
            "it can."
        )
    return value.data


def _raw_nested(value: Any) -> Any:
    if isinstance(value, Parameter):
        return leaf(value)
    if type(value) in (list, tuple):
        return type(value)(_raw_nested(item) for item in value)
    if type(value) is dict:
        return {key: _raw_nested(item) for key, item in value.items()}
    return value


belong_to("lite.nn", Parameter)
