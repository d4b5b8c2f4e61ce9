"""The arrays that a differentiated function sees: a value, and how it was computed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from lite._arrays.types import Array, DtypeLike, HostArray, Operand, Shape
from lite._transforms.arrays import InterpretedArray, Rules
from lite._transforms.handles import RemovableHandle, add_hook

rules = Rules()


class _Hooked:
    """The vjp of a node, with hooks that run before it."""

    __slots__ = ("hooks", "parents", "vjp")

    def __init__(self, parents: Any, vjp: Any) -> None:
        self.parents = parents
        self.vjp = vjp
        self.hooks: OrderedDict[int, Any] = OrderedDict()

    def __call__(self, g: Array) -> Any:
        for hook in tuple(self.hooks.values()):
            found = hook(g)
            g = g if found is None else found
        if self.vjp is not None:
            return self.vjp(g)
        return [(parent, vjp(g)) for parent, vjp in self.parents]


def _operators(ufunc: np.ufunc) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operator with the array on the left, and with it on the right."""
    return (
        lambda self, other: rules.binary(ufunc, self, other),
        lambda self, other: rules.binary(ufunc, other, self),
    )


class TracedArray(InterpretedArray):
    """An array that knows how it was computed.

    A write in place replaces `value` by a new array; results computed before keep the old one.

    Args:
        value: an ndarray or a NumPy scalar; an array of `vmap` if that is the outer transformation.
        node: the step of the computation that made it; None for a constant.
        level: the number of the transformation that it belongs to; inner ones have higher numbers.
    """

    # `alias` is what `views` knows of arrays that share its memory.
    __slots__ = ("__weakref__", "alias", "level", "node", "value")
    # So that operators of arrays on the left defer to this one.
    __array_priority__ = 2000
    rules = rules
    layered = False

    def __init__(self, value: Any, node: Any, level: int) -> None:
        # Subclasses, as of what `vmap` shares, have ways of their own with indices.
        shared = type(value) is not np.ndarray and isinstance(value, np.ndarray)
        self.value = value.view(np.ndarray) if shared else value
        self.node = node
        self.level = level
        self.alias: Any = None

    def __getattr__(self, name: str) -> Any:
        # A view whose base was written to has no value until it is read.
        if name == "value" or name == "node":
            rules.refresh_view(self)
            return object.__getattribute__(self, name)
        raise AttributeError(f"'TracedArray' object has no attribute '{name}'")

    @property
    def shape(self) -> Shape:
        """The size of each dimension."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self.value.ndim)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.value.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.value.dtype

    @property
    def flags(self) -> Any:
        """Flags of the memory behind it."""
        return self.value.flags

    @property
    def requires_grad(self) -> bool:
        """Whether it depends on an array that a gradient is taken by."""
        return self.node is not None

    def detach(self) -> Any:
        """The value without its derivative: a read-only array over the same memory."""
        value = self.value
        if isinstance(value, HostArray):
            return value.detach()  # an outer gradient goes through it no more than this one
        value = np.asarray(value).view()  # a single number as an array, since entries are arrays
        value.flags.writeable = False  # vjps may read it later
        return value

    def numpy(self) -> NoReturn:
        """Raises RuntimeError, as the derivative would be lost; `detach` drops it on purpose."""
        raise RuntimeError(
            "numpy() of an array that a gradient is computed for would lose it; use detach() instead."
        )

    def backward(
        self,
        gradient: Operand | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the derivative of this array to the `grad` of the parameters that it was computed from.

        Args:
            gradient: what the derivative is multiplied by, of this array's shape; 1 for a single number.
            retain_graph: whether the graph is kept, so that `backward` can be called again.
            create_graph: must be False: `lite.grad` has gradients of gradients.
            inputs: a parameter or a list of parameters that get gradients; all if not given.

        Raises:
            RuntimeError: `gradient` is missing and this array has several elements, the graph was released,
                or no parameter requires a gradient.
            NotImplementedError: `create_graph`.
        """
        if create_graph:
            raise NotImplementedError(
                "create_graph=True: backward() gives arrays. A gradient that is differentiated, as of a "
                "penalty, is lite.grad or lite.vjp of a function, under enable_grad() or in another one."
            )
        rules.backward(self, gradient, bool(retain_graph), inputs)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Run `hook(g)` with the derivative by this array, when the backward pass computes it.

        Args:
            hook: must not write to what it gets; a result other than None goes on in its place.

        Raises:
            RuntimeError: this array was not computed from one that a gradient is taken by, or its graph was
                released.

        Source:
            torch.Tensor.register_hook.

        Example:
            >>> import numpy as np
            >>> import lite
            >>> def loss(x):
            ...     y = x * 2
            ...     y.register_hook(lambda g: g * 10)
            ...     return y.sum()
            >>> lite.grad(loss)(np.ones(2))
            array([20., 20.])
        """
        node = self.node
        if node is None or (not node.parents and node.vjp is None):
            raise RuntimeError(
                "a hook needs an array that was computed from one that a gradient is taken by."
            )
        if not isinstance(node.vjp, _Hooked):
            node.parents, node.vjp = (), _Hooked(node.parents, node.vjp)
        return add_hook(node.vjp.hooks, hook)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return rules.ufunc(ufunc, method, inputs, kwargs)

    # The mixin has these, too, by way of NumPy: gradients of small formulas take 11 to 27% longer with those.
    __add__, __radd__ = _operators(np.add)
    __sub__, __rsub__ = _operators(np.subtract)
    __mul__, __rmul__ = _operators(np.multiply)
    __truediv__, __rtruediv__ = _operators(np.true_divide)

    def __pow__(self, other: Any) -> Any:
        # NumPy's arrays do so, too.
        return np.square(self) if type(other) is int and other == 2 else rules.binary(np.power, self, other)

    def __array__(self, dtype: DtypeLike = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            "an array that a gradient is computed for cannot become an ndarray or be written into one, as "
            "the gradient would be lost: use functions that NumPy dispatches (np.stack for np.array, "
            "np.zeros_like(x, shape=...) for an array to write into), or x.detach() for the value alone."
        )

    def __bool__(self) -> bool:
        return bool(self.value)

    # NumPy also calls these to assign to an element of an ndarray, which cannot be told apart.

    def __int__(self) -> int:
        return int(self._number("int"))

    def __float__(self) -> float:
        return float(self._number("float"))

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def _number(self, kind: str) -> Array:
        if self.node is None or self.node.parents is None:  # a constant, or a released graph
            return self.value
        raise TypeError(
            f"{kind}() of an array that a gradient is computed for would lose it, as would an assignment to "
            "an element of an ndarray: use x.item() for the number alone, or assign to an array made by "
            "np.zeros_like(x, shape=...)."
        )

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def item(self, *args: Any) -> Any:
        """One element as a Python number, without its derivative."""
        return self.value.item(*args)

    def tolist(self) -> Any:
        """Nested lists of the elements, without their derivatives."""
        return self.value.tolist()

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        """Elements in another dtype; a plain array where that has no derivative."""
        value = self.value.astype(dtype, order, casting, subok, copy)
        return self if value is self.value else rules.same(value, self)

    def copy(self, order: str = "C") -> Any:
        """A copy of the elements, with their derivative."""
        return rules.same(self.value.copy(), self)

    def view(self, dtype: DtypeLike = None) -> Array:
        """A view of the same memory; only the same dtype is allowed.

        Raises:
            TypeError: another dtype, through which nothing can be differentiated.
        """
        if dtype is None or np.dtype(dtype) == self.dtype:
            return self[...]
        raise TypeError(f"the bytes of {self.dtype} seen as {np.dtype(dtype)} have no derivative.")

    def elementwise(self, function: Callable[..., Any], *args: Any) -> Array:
        """`function`, a special function of single numbers, with its derivative."""
        return rules.elementwise(function, args or (self,))

    def look_up(self, table: Array) -> Any:
        """`table[self]`, which takes integers."""
        return table[self.value]

    def index_batch(self, td: Any, index: Any) -> Any:
        """`td[index]` for a TensorDict and an index that this array is in."""
        raise TypeError("a TensorDict is indexed by integers and bools, got an array of floats.")

    def __repr__(self) -> str:
        return f"TracedArray({self.value!r})"
