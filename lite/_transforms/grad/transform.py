"""`grad`, `value_and_grad` and `vjp`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.types import Array, Function, HostArray, raw
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.leaves import Leaves, Structure, plain
from lite._transforms.grad.mode import differentiated, one_like
from lite._transforms.grad.tape import walk
from lite._transforms.levels import numbers


def value_and_grad(
    fn: Callable[..., Any], argnums: int | tuple[int, ...] | list[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives what `fn` gives, and the derivative of that by some of its arguments.

    `fn` is called once, with arrays that record what NumPy's functions compute from them. What it writes to
    its arguments (`x[i] = y`, `+=`, `out=`) does not change the caller's arrays.

    Args:
        fn: a function that gives the loss, an array without dimensions. Its arguments are arrays,
            TensorDicts, TensorDictParams, tensorclasses, and nested lists, tuples, named tuples and dicts
            of them. Python's floats are arrays of the default dtype, float32: `np.float64(x)` keeps digits.
        argnums, has_aux: positions of the arguments to differentiate by; `fn` gives (loss, anything else).

    Returns:
        A function with the arguments of `fn` that gives `(value, gradient)`, or `((value, aux), gradient)`.
        The gradient has the structure, shapes and dtypes of the argument; it is a tuple of such if `argnums`
        is one. For arrays that the loss does not depend on, integers and bools it is zeros; for objects that
        are not arrays, None.

    Raises:
        TypeError: in the call, an argument holds no floats, or complex numbers.
        ValueError: the loss is not a single number, does not depend on the arguments, or `argnums` is wrong.
        NotImplementedError: the derivative of a NumPy function is not known, which is named.

    Gradients of gradients are computed likewise: `grad(lambda x: (grad(f)(x) ** 2).sum())`. Where parameters
    take part (`lite.enable_grad`), gradients inside depend on them, too.

    NaN in a gradient does not raise. It often comes from a function at the end of its range (sqrt at 0), also
    on the side that `np.where` drops: replace the argument there, too. Intermediate results stay in memory
    until the gradient is computed; `lite.checkpoint` trades memory for time.

    Source:
        The interface of jax.value_and_grad.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> def loss(params, x):
        ...     return ((x @ params["weight"] + params["bias"]) ** 2).sum()
        >>> params = lite.TensorDict({"weight": np.array([1.0, 2.0]), "bias": np.array(0.5)})
        >>> value, grads = lite.value_and_grad(loss)(params, np.array([[1.0, 0.0], [0.0, 1.0]]))
        >>> value, grads["weight"], grads["bias"]
        (np.float64(8.5), array([3., 5.]), array(8.))
    """
    places, name = places_of(fn, argnums)
    single = isinstance(argnums, int)

    @functools.wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        level = next(numbers)
        inside = list(args)
        taken = []
        for place in places:
            require_place(place, args, f"value_and_grad({name})")
            leaves = Leaves(args[place], f"argument {place} of {name}", level)
            inside[place] = leaves.inside
            taken.append(leaves)
        with differentiated(level):
            out = fn(*inside, **kwargs)
        if not has_aux:
            loss, aux = out, None
        elif isinstance(out, tuple) and len(out) == 2:
            loss, aux = out
        else:
            raise TypeError(
                f"value_and_grad({name}, has_aux=True): the function must give a pair, got a "
                f"{type(out).__name__}."
            )
        _check(loss, name, level)
        shares = walk([(loss.node, one_like(loss.value))])
        own: set[int] = set()
        grads = [leaves.gather(shares, own) for leaves in taken]
        value = (loss.value, plain(aux)) if has_aux else loss.value
        return value, grads[0] if single else tuple(grads)

    return run


def places_of(fn: Function, argnums: Any) -> tuple[tuple[int, ...], str]:
    """The arguments that `argnums` names, and the name of the function."""
    if not callable(fn):
        way_out = ": a loss that was computed has a method backward()" if type(fn) is TracedArray else ""
        raise TypeError(f"fn must be a function, got {type(fn).__name__}{way_out}.")
    places = tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
    if not all(isinstance(place, int) for place in places):
        raise TypeError(f"argnums must be an integer or a tuple of integers, got {argnums!r}.")
    return places, getattr(fn, "__name__", type(fn).__name__)


def require_place(place: int, args: Any, call: str) -> None:
    """ValueError if there is no such positional argument."""
    if not -len(args) <= place < len(args):
        raise ValueError(f"{call}: argnums has {place}, but there are {len(args)} positional arguments.")


def _check(loss: Any, name: str, level: int) -> None:
    """Raise unless the loss is one number that depends on an array that a gradient is taken by."""
    shape = getattr(loss, "shape", None)
    if shape is None and not isinstance(loss, int | float):
        raise TypeError(f"the function {name} must give an array, its loss, got a {type(loss).__name__}.")
    if shape:
        raise ValueError(
            f"the loss that {name} gives must be a single number, got the shape {tuple(shape)}; mean() or "
            "sum() makes one."
        )
    if type(loss) is not TracedArray or loss.level != level or loss.node is None:
        raise ValueError(
            f"the loss that {name} gives does not depend on the arguments that are differentiated by: was it "
            "detached, or computed from integers?"
        )


def grad(
    fn: Callable[..., Any], argnums: int | tuple[int, ...] | list[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the derivative of `fn` by some of its arguments.

    Args:
        fn: a function that gives the loss, as for `value_and_grad`, which says the rest.
        argnums: positions of the arguments to differentiate by.
        has_aux: whether `fn` gives a pair: the loss, and anything else; then so does the result:
            `(gradient, aux)`.

    Source:
        The interface of jax.grad.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> lite.grad(lambda x: (x**2).sum())(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    both = value_and_grad(fn, argnums, has_aux)

    @functools.wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return run


def vjp(fn: Callable[..., Any], *args: Any, has_aux: bool = False) -> Any:
    """The result of a function, and its vector-Jacobian product as a function.

    Args:
        fn: a function of arrays and structures of them, as for `value_and_grad`; so is its result.
        args: its arguments. The derivative is by all of them.
        has_aux: whether `fn` returns a pair: its result, and anything else.

    Returns:
        `(out, vjp_fn)`, or `(out, vjp_fn, aux)`. `vjp_fn(g)` takes the structure of `out`, with None for no
        derivative, and returns a tuple with one derivative for each argument. It can be called repeatedly.

    Raises:
        TypeError: an argument holds no floats, or complex numbers.
        ValueError: from `vjp_fn`, if its argument does not have the structure and shapes of `out`.

    Source:
        The interface of jax.vjp.

    Example:
        >>> import numpy as np
        >>> import lite
        >>> out, vjp_fn = lite.vjp(np.multiply, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        >>> out, vjp_fn(np.array([1.0, 10.0]))
        (array([3., 8.]), (array([ 3., 40.]), array([ 1., 20.])))
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    level = next(numbers)
    taken = [Leaves(arg, f"argument {i} of {name}", level) for i, arg in enumerate(args)]
    with differentiated(level):
        out = fn(*[leaves.inside for leaves in taken])
    aux = None
    if has_aux:
        out, aux = out
    ends = Structure(out).leaves()

    def vjp_fn(g: Array) -> tuple[Any, ...]:
        given = Structure(g).leaves()
        if len(given) != len(ends):
            raise ValueError(
                f"the derivative must have the {len(ends)} arrays that {name} gives, got {len(given)}."
            )
        known: list[Any] = []
        for i, (end, share) in enumerate(zip(ends, given, strict=True)):
            if share is None or type(end) is not TracedArray or end.level != level or end.node is None:
                continue
            share = raw(share)
            if not isinstance(share, HostArray):
                share = np.asarray(share, end.dtype)
            if share.shape != end.shape:
                raise ValueError(
                    f"the derivative by result {i} of {name} must have its shape {end.shape}, got "
                    f"{share.shape}."
                )
            known.append((end.node, share))
        shares = walk(known, release=False)
        own = {id(share) for share in given}
        return tuple([leaves.gather(shares, own) for leaves in taken])

    return (plain(out), vjp_fn, aux if aux is None else plain(aux)) if has_aux else (plain(out), vjp_fn)
