"""Operations that move, repeat or drop batch elements: NumPy's on the leading axes of every entry."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from helpers.fuzz.choices import Choices, dim, index, leaf, mask
from helpers.fuzz.model import Array, Names, Refused, has_rows, moved
from helpers.fuzz.register import Call, calls, operation
from numpy.lib.array_utils import normalize_axis_index as axis


def move(names: Callable[..., Names], view: bool = True, lock: bool = True) -> Callable[[Any], Any]:
    """Register `f(x, ndim, *args)`, which treats the first `ndim` axes of an entry as NumPy treats an array.

    Args:
        names: the names of the dimensions after it, given those before and the same arguments.
        view: whether the result may share memory.
        lock: whether the result is locked if the TensorDict is.
    """

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        def run(td: Any, *args: Any, **kwargs: Any) -> Any:
            ndim = len(td.shape)

            def one(choose: Callable[[Any], Array]) -> Any:
                return moved(
                    td,
                    lambda x: choose(f(x, ndim, *args, **kwargs)),
                    lambda old: names(old, td.shape, *args, **kwargs),
                    lock and td.locked,
                )

            found = f(np.empty(td.shape, bool), ndim, *args, **kwargs)
            if isinstance(found, list):
                return tuple(one(lambda parts, i=i: parts[i]) for i in range(len(found)))
            return td if _same(td, f, args, kwargs) else one(lambda x: x)

        return operation(f.__name__.strip("_"), view=view)(run)

    return add


SHAPES = ("reshape", "view", "flatten", "squeeze")
ORDERS = ("permute", "transpose", "movedim")


def _same(td: Any, f: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether nothing changes: such calls give the TensorDict itself."""
    shape = (2,) * len(td.shape) if f.__name__ in ORDERS else td.shape
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return f.__name__ in SHAPES + ORDERS and np.array_equal(f(numbers, len(shape), *args, **kwargs), numbers)


def kept(names: Names, shape: Any, *args: Any, **kwargs: Any) -> Names:
    return names


@move(lambda names, shape, *new: [None] * len(new))
def reshape(x: Array, ndim: int, *new: int) -> Array:
    batch = np.empty(x.shape[:ndim], bool).reshape(new).shape
    return x.reshape(batch + x.shape[ndim:])


@move(lambda names, shape, *new: [None] * len(new))
def view(x: Array, ndim: int, *new: int) -> Array:
    found = x.reshape(np.empty(x.shape[:ndim], bool).reshape(new).shape + x.shape[ndim:])
    if x.size and not np.may_share_memory(found, x):
        raise Refused
    return found


@move(
    lambda names, shape, a, b: [
        *names[:a],
        *[None] * (a < b or names[a : b + 1] == []),
        *names[a : b + 1] * (a == b),
        *names[b + 1 :],
    ]
)
def flatten(x: Array, ndim: int, first: int, last: int) -> Array:
    if not ndim:
        return x.reshape(1, *x.shape)
    if not ndim > last >= first:
        raise Refused
    return x.reshape(*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :])


@move(lambda names, shape, d, new: [*names[:d], *[None] * (len(new) - 1), *names[d:]])
def unflatten(x: Array, ndim: int, d: int, new: Sequence[int]) -> Array:
    d = axis(d, ndim)
    if math.prod(new) != x.shape[d]:
        raise Refused
    return x.reshape(*x.shape[:d], *new, *x.shape[d + 1 :])


@move(lambda names, shape, d: [*names[: axis(d, len(shape) + 1)], None, *names[axis(d, len(shape) + 1) :]])
def unsqueeze(x: Array, ndim: int, d: int) -> Array:
    return np.expand_dims(x, axis(d, ndim + 1))


def _squeezed(names: Names, shape: Any, d: int | None = None) -> Names:
    dropped = [i for i, n in enumerate(shape) if n == 1 and (d is None or axis(d, len(shape)) == i)]
    return [name for i, name in enumerate(names) if i not in dropped]


@move(_squeezed)
def squeeze(x: Array, ndim: int, d: int | None = None) -> Array:
    wanted = range(ndim) if d is None else (axis(d, ndim),)
    return x.squeeze(tuple(i for i in wanted if x.shape[i] == 1))


@move(lambda names, shape, *order: [names[d] for d in order])
def permute(x: Array, ndim: int, *order: int) -> Array:
    if len(order) != ndim:
        raise Refused
    return x.transpose([axis(d, ndim) for d in order] + list(range(ndim, x.ndim)))


def _order(shape: Any, source: int, to: int) -> list[int]:
    order = [i for i in range(len(shape)) if i != axis(source, len(shape))]
    order.insert(axis(to, len(shape)), axis(source, len(shape)))
    return order


@move(lambda names, shape, a, b: [names[i] for i in _order(shape, a, b)])
def movedim(x: Array, ndim: int, a: int, b: int) -> Array:
    return np.moveaxis(x, axis(a, ndim), axis(b, ndim))


def _swapped(names: Names, shape: Any, a: int, b: int) -> Names:
    new = list(names)
    new[a], new[b] = names[b], names[a]
    return new


@move(_swapped)
def transpose(x: Array, ndim: int, a: int, b: int) -> Array:
    return np.swapaxes(x, axis(a, ndim), axis(b, ndim))


@move(lambda names, shape, *new: [None] * (len(new) - len(names)) + names)
def expand(x: Array, ndim: int, *new: int) -> Array:
    np.broadcast_to(np.empty(x.shape[:ndim]), new)
    full = new + x.shape[ndim:]
    return x.reshape(full) if np.prod(full) == x.size else np.broadcast_to(x, full)


@move(kept)
def split(x: Array, ndim: int, sizes: int | list[int], d: int) -> list[Array]:
    d = axis(d, ndim)
    if isinstance(sizes, int):
        return np.split(x, range(sizes, x.shape[d], sizes), d)
    if sum(sizes) != x.shape[d]:
        raise Refused
    return np.split(x, np.cumsum(sizes)[:-1], d)


@move(kept)
def chunk(x: Array, ndim: int, n: int, d: int) -> list[Array]:
    d = axis(d, ndim)
    size = max(-(-x.shape[d] // n), 1)
    return np.split(x, range(size, x.shape[d], size), d)


@move(lambda names, shape, d: [n for i, n in enumerate(names) if i != axis(d, len(shape))], lock=False)
def unbind(x: Array, ndim: int, d: int) -> list[Array]:
    rows = np.moveaxis(x, axis(d, ndim), 0)
    return [rows[i, ...] for i in range(len(rows))]


@move(kept, view=False)
def repeat(x: Array, ndim: int, *times: int) -> Array:
    if len(times) != ndim:
        raise Refused
    return np.tile(x, times + (1,) * (x.ndim - ndim))


@move(kept, view=False)
def repeat_interleave(x: Array, ndim: int, n: int, dim: int) -> Array:
    return np.repeat(x, n, axis(dim, ndim))


@move(kept, view=False, lock=True)
def flip(x: Array, ndim: int, dims: list[int]) -> Array:
    return np.flip(x, [axis(d, ndim) for d in dims])


@move(kept, view=False, lock=False)
def roll(x: Array, ndim: int, shift: int, d: int) -> Array:
    return np.roll(x, shift, axis(d, ndim))


@move(kept, view=False, lock=False)
def gather(x: Array, ndim: int, d: int, picked: Array) -> Array:
    d = axis(d, ndim)
    numbers = np.arange(math.prod(x.shape[:ndim])).reshape(x.shape[:ndim])
    found = np.take_along_axis(numbers, picked, d)
    return x.reshape(-1, *x.shape[ndim:])[found, ...]


@move(lambda names, shape, chosen: _index_names(names, shape, chosen), view=False, lock=False)
def masked_select(x: Array, ndim: int, chosen: Array) -> Array:
    return x[(*_items(chosen, ndim), ...)]


# -- indices ----------------------------------------------------------------------------------


def _items(given: Any, ndim: int) -> tuple[Any, ...]:
    """An index as a tuple of arrays and plain items, without an ellipsis."""
    items = [
        np.array(i, int) if isinstance(i, list) else i for i in (given if type(given) is tuple else (given,))
    ]
    used = sum(
        i.ndim if isinstance(i, np.ndarray) and i.dtype == bool else 1
        for i in items
        if i is not None and i is not Ellipsis
    )
    if used > ndim:
        raise IndexError("too many indices")
    full: list[Any] = []
    for item in items:
        full += [slice(None)] * (ndim - used) if item is Ellipsis else [item]
    return tuple(full)


def _index_names(names: Names, shape: Any, given: Any) -> Names:
    """Slices keep their names; a single array of one dim keeps that of its dim; all else is new."""
    items = _items(given, len(shape))
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    places = [p for p, item in enumerate(items) if isinstance(item, np.ndarray | int) and arrays]
    out: Names = []
    named: Names = []
    left, at = list(names), 0
    for place, item in enumerate(items):
        if item is None:
            out.append(None)
            continue
        dims = item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1
        taken, left = left[:dims], left[dims:]
        if place in places[:1]:
            at = len(out)
        if isinstance(item, slice):
            out += taken
        elif arrays and item is arrays[0]:
            named = taken
    if places:
        new = np.empty(shape, bool)[items].ndim - len(out) - len(left)
        together = places[-1] - places[0] == len(places) - 1
        at = at if together else 0
        out[at:at] = named if len(arrays) == 1 and arrays[0].ndim == 1 else [None] * new
    return out + left


@operation("index", view=True)
def index_(td: Any, given: Any) -> Any:
    items = _items(given, len(td.shape))
    if all(isinstance(i, slice) and i == slice(None) for i in items):
        return td
    return moved(td, lambda x: x[(*items, ...)], lambda names: _index_names(names, td.shape, given))


# -- calls ------------------------------------------------------------------------------------


@calls(8)
def get_index(c: Choices, v: list[Any], at: int) -> Call:
    return Call("index", (index(c, v[at].shape),))


@calls(10)
def shape(c: Choices, v: list[Any], at: int) -> Call:
    size = v[at].shape
    ndim = len(size)
    name = c.pick(
        [
            "reshape", "view", "flatten", "unflatten", "unsqueeze", "squeeze", "permute", "transpose",
            "movedim", "expand", "split", "chunk", "unbind", "squeeze", "permute", "unsqueeze",
        ]
    )  # fmt: skip
    if name == "view" and has_rows(v[at]):  # which can refuse it, for its parts may have to be copied
        name = "reshape"
    args: tuple[Any, ...]
    if name in ("reshape", "view"):
        total = math.prod(size)
        options = [(-1,), (total,), (1, total), (total, 1), size[::-1], (-1, 1), (2, -1), (total + 1,), size]
        args = c.pick(options)
    elif name == "flatten":
        first = c.below(max(ndim, 1))
        args = (first, first + c.below(max(ndim - first, 1)))
    elif name == "unflatten":
        d = c.below(max(ndim, 1))
        n = size[d] if d < ndim else 1
        args = (d, c.pick([(1, n), (n, 1), (2, n // 2), (n,)]))
    elif name == "squeeze" and c.one_in(2):
        args = ()
    elif name == "permute":
        order = sorted(range(ndim), key=lambda d: (c.below(4), d))
        args = tuple(d - ndim if c.one_in(4) else d for d in order)
    elif name in ("transpose", "movedim"):
        args = (dim(c, ndim), dim(c, ndim))
    elif name == "expand":
        args = c.pick([(2, *size), tuple(3 if n == 1 else n for n in size), size, (1, *size), (2, *size[1:])])
    elif name == "split":
        args = (c.pick([1, 2, [1, 1], [1, size[0] - 1] if ndim and size[0] > 0 else [1]]), dim(c, ndim))
    elif name == "chunk":
        args = (c.pick([2, 1, 3]), dim(c, ndim))
    else:  # unsqueeze, squeeze, unbind
        args = (dim(c, ndim + (name == "unsqueeze")),)
    return Call(name, args)


@calls(4)
def choose(c: Choices, v: list[Any], at: int) -> Call:
    size = v[at].shape
    ndim = len(size)
    name = c.pick(["repeat", "repeat_interleave", "gather", "flip", "roll", "masked_select"])
    if name == "repeat":
        return Call(name, tuple(1 + c.below(2) for _ in size))
    if name == "repeat_interleave" and ndim:
        return Call(name, (2,), {"dim": dim(c, ndim)})
    if name == "flip":
        return Call(name, ([dim(c, ndim)],))
    if name == "roll":
        return Call(name, (c.pick([1, -1, 2]), dim(c, ndim)))
    if name == "gather" and ndim and 0 not in size:
        d = c.below(ndim)
        picked = leaf([1 if i == d else n for i, n in enumerate(size)], "int64", c.below(3))
        return Call(name, (d, np.asarray(picked % max(size[d], 1))))
    return Call("masked_select", (mask(c, size),))
