"""`jacrev`, `jacfwd` and `hessian`: derivatives of functions that give arrays, by `vjp` under `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.types import Array
from lite._transforms.grad.leaves import Structure
from lite._transforms.grad.transform import places_of, require_place, vjp
from lite._transforms.vmap.transform import vmap
from lite._transforms.vmap.trees import flatten, unflatten
from lite._tree.collection import Entry
from lite._tree.protocol import Container
from lite._tree.walks import map_tree


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that gives the derivative of every number that `func` gives by its arguments.

    Args:
        func: a function of arrays, TensorDicts, tensorclasses, and nested lists, tuples and dicts of them. It
            gives such, and is called once.
        argnums: positions of the arguments to differentiate by. The others, and keyword arguments, are
            passed on as they are.
        has_aux: whether `func` gives a pair: what is differentiated, and anything else.
        chunk_size: go back from so many numbers of a result at a time, to save memory.

    Returns:
        A function with the arguments of `func`. It gives the structure of the result of `func`, in which each
        array of shape `(*out)` is replaced by the derivative by the argument: the argument's structure, with
        arrays of shape `(*out, *in)` and TensorDicts of batch size `(*out, *batch)`; a tuple of such if
        `argnums` is one. dtypes are the argument's. With `has_aux`, `(derivative, aux)`.

    Raises:
        TypeError: from the returned function, if an argument holds no floats, or complex numbers, or a result
            is not an array of floats.
        ValueError: `argnums` is empty or names an argument that is not there, or `chunk_size` is not a
            positive integer.
        NotImplementedError: `func` calls a NumPy function whose derivative is not known.

    Source:
        torch.func.jacrev.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> lite.jacrev(lambda x: x**2)(np.array([1.0, 2.0, 3.0]))
        array([[2., 0., 0.],
               [0., 4., 0.],
               [0., 0., 6.]])
        >>> params = lite.TensorDict({"w": np.ones((2, 3)), "b": np.zeros(2)})
        >>> jacobian = lite.jacrev(lambda p, x: p["w"] @ x + p["b"])(params, np.ones(3))
        >>> jacobian["w"].shape, jacobian["b"]
        ((2, 2, 3), array([[1., 0.],
               [0., 1.]]))
    """
    places, name = places_of(func, argnums)
    if not places:
        raise ValueError(f"jacrev({name}): argnums must name an argument, got none.")
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(f"chunk_size must be None or a positive int, got {chunk_size!r}")

    @functools.wraps(func, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        for place in places:
            require_place(place, args, f"jacrev({name})")

        @functools.wraps(func, updated=())
        def of_chosen(*chosen: Any) -> Any:
            inside = list(args)
            for place, value in zip(places, chosen, strict=True):
                inside[place] = value
            return func(*inside, **kwargs)

        out, vjp_fn, *aux = vjp(of_chosen, *[args[place] for place in places], has_aux=has_aux)
        ends = Structure(out).leaves()
        for i, end in enumerate(ends):
            if not is_floating(getattr(end, "dtype", np.dtype(object))):
                raise TypeError(f"result {i} of {name} must be an array of floats, got {type(end).__name__}.")
        found = [_by_arguments(vjp_fn, ends, i, chunk_size) for i in range(len(ends))]
        if isinstance(argnums, int):
            found = [by_each[0] for by_each in found]
        jacobian = _replaced(out, found)
        return (jacobian, *aux) if has_aux else jacobian

    return run


def _by_arguments(
    vjp_fn: Callable[[Any], Any], ends: list[Any], at: int, chunk_size: int | None
) -> tuple[Any, ...]:
    """The derivatives of one result by all arguments."""
    end = ends[at]
    given: list[Any] = [None] * len(ends)
    plans: list[Any] = []

    def row(one: Array) -> list[Any]:
        given[at] = one
        items, plan = flatten(vjp_fn(given))
        plans[:] = [plan, [item is None for item in items]]  # None stands for an object
        return [item for item in items if item is not None]

    if end.size:
        unit = np.eye(end.size, dtype=end.dtype).reshape(end.size, *end.shape)
        rows = vmap(row, chunk_size=chunk_size)(unit)
    else:
        rows = [item[None][:0] for item in row(np.zeros(end.shape, end.dtype))]
    plan, objects = plans
    queue = iter(rows)
    return unflatten([None if lacks else _unrolled(next(queue), end.shape) for lacks in objects], plan)


def _unrolled(rows: Array, shape: tuple[int, ...]) -> Array:
    """Rows with the shape of a result in place of their number."""
    return rows.reshape((*shape, *rows.shape[1:]))


def _replaced(out: Any, found: list[Any]) -> Any:
    """The structure of a result with what was found in place of its arrays."""
    queue = iter(found)

    def replace(item: object) -> Any:
        if not isinstance(item, Entry):
            return next(queue)
        node = Container._as_node(item)
        if node is None:
            return item
        return Container._rewrap(item, map_tree(node, lambda leaf, _: next(queue)))

    items, plan = flatten(out)
    return unflatten([replace(item) for item in items], plan)


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """`jacrev` under the name of the function for few inputs and many outputs, with its arguments.

    There is no forward mode here: the derivative is computed backwards, so its time grows with the numbers
    that `func` gives.

    Args:
        func: see `jacrev`.
        argnums: see `jacrev`.
        has_aux: see `jacrev`.
        randomness: "error", "same" or "different", without effect: `func` is called once, so that all
            derivatives are those for the same draws.

    Raises:
        ValueError: another `randomness`; and see `jacrev`.

    Source:
        torch.func.jacfwd.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> lite.jacfwd(lambda t: np.stack([np.cos(t), np.sin(t)]))(np.array(0.0))
        array([0., 1.])
    """
    if randomness not in ("error", "same", "different"):
        raise ValueError(f"randomness must be 'error', 'same' or 'different', got {randomness!r}.")
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that gives the second derivatives of `func`: `jacrev` of `jacrev`.

    A product of the matrix with a vector needs no matrix: it is the gradient of the gradient's product with
    the vector, as below. It took four to five times as long as the gradient of an MLP 8-64-64-1 on 256 rows.

    Args:
        func: see `jacrev`.
        argnums: see `jacrev`.

    Returns:
        A function with the arguments of `func`. It gives the structure of the result of `func`, in which each
        array of shape `(*out)` is replaced by the structure of the argument, and each array of shape `(*a)`
        in that by the structure of the argument again, with arrays of shape `(*out, *a, *b)`.

    Raises:
        TypeError: an argument holds an array that is not of floats; and as `jacrev`.
        ValueError, NotImplementedError: as `jacrev`.

    Source:
        torch.func.hessian.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> x = np.array([1.0, 2.0])
        >>> lite.hessian(lambda x: (x**3).sum())(x)
        array([[ 6.,  0.],
               [ 0., 12.]])
        >>> gradient = lite.grad(lambda x: (x**3).sum())
        >>> lite.grad(lambda x: gradient(x) @ np.array([1.0, 10.0]))(x)
        array([  6., 120.])
    """
    return jacrev(jacrev(func, argnums), argnums)
