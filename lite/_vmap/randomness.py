"""Random numbers inside a mapped function: refused, the same for all elements, or different ones.

A `numpy.random.Generator` draws in C and tells nobody. What can be known of are draws of lite's own layers
and samplers, which ask `generator_for`, and draws from generators that are arguments of the mapped
function, which are exchanged for ones that ask. A generator that the function finds elsewhere gives the
same numbers to all elements, and so does numpy.random's own state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lite._vmap.array import BatchedArray

RANDOMNESS = ("error", "same", "different")


class Running(NamedTuple):
    """A map while its function runs."""

    number: int
    size: int
    randomness: str


class _Maps(threading.local):
    def __init__(self) -> None:
        self.running: list[Running] = []


maps = _Maps()


def generator_for(rng: np.random.Generator) -> Any:
    """The generator to draw from in place of `rng`, which inside `vmap` is one that obeys `randomness`."""
    running = maps.running
    if not running or isinstance(rng, _Asking):
        return rng
    for one in running:
        if one.randomness == "error":
            rng = Refusing(rng)
        elif one.randomness == "different":
            rng = Different(rng, one)
    return rng


class _Asking:
    """Stands for a generator inside a mapped function."""

    def __init__(self, rng: Any) -> None:
        self._rng = rng

    @property
    def bit_generator(self) -> Any:
        """The bit generator behind it."""
        return self._rng.bit_generator


class Refusing(_Asking, np.random.Generator):
    """A generator that raises RuntimeError where it is to draw."""

    def __new__(cls, rng: Any) -> Any:
        return np.random.Generator.__new__(cls)

    def __init__(self, rng: Any) -> None:
        np.random.Generator.__init__(self, rng.bit_generator)
        self._rng = rng


def _refuse(name: str) -> Callable[..., Any]:
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"vmap met a random draw ({name}): say with randomness='same' or randomness='different' whether "
            "all elements along the mapped dimension get the same random numbers."
        )

    draw.__name__ = name
    return draw


class Different(_Asking, np.random.Generator):
    """A generator that draws other numbers for each element along the mapped dimension."""

    def __new__(cls, rng: Any, running: Running) -> Any:
        return np.random.Generator.__new__(cls)

    def __init__(self, rng: Any, running: Running) -> None:
        np.random.Generator.__init__(self, rng.bit_generator)
        self._rng = rng
        self._running = running


# The parameters of each distribution, in order; size comes next.
_DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "beta": ("a", "b"),
    "binomial": ("n", "p"),
    "chisquare": ("df",),
    "exponential": ("scale",),
    "gamma": ("shape", "scale"),
    "geometric": ("p",),
    "gumbel": ("loc", "scale"),
    "integers": ("low", "high"),
    "laplace": ("loc", "scale"),
    "logistic": ("loc", "scale"),
    "lognormal": ("mean", "sigma"),
    "negative_binomial": ("n", "p"),
    "normal": ("loc", "scale"),
    "pareto": ("a",),
    "poisson": ("lam",),
    "random": (),
    "rayleigh": ("scale",),
    "standard_cauchy": (),
    "standard_exponential": (),
    "standard_gamma": ("shape",),
    "standard_normal": (),
    "standard_t": ("df",),
    "triangular": ("left", "mode", "right"),
    "uniform": ("low", "high"),
    "vonmises": ("mu", "kappa"),
    "weibull": ("a",),
}


def _draw_different(name: str) -> Callable[..., Any]:
    names = _DISTRIBUTIONS[name]
    after = ("size", "dtype", "endpoint") if name == "integers" else ("size", "dtype", "out")

    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip((*names, *after), args, strict=False)), **kwargs}
        one = self._running
        shapes = [np.shape(given[key]) for key in names if given.get(key) is not None]
        size = given.pop("size", None)
        shape = (
            np.broadcast_shapes(*shapes)
            if size is None
            else (size,)
            if isinstance(size, int)
            else tuple(size)
        )
        for key in names:
            value = given.get(key)
            if type(value) is BatchedArray and value.level == one.number:
                missing = len(shape) + 1 - value.value.ndim
                given[key] = value.value[(slice(None), *[None] * missing)]
        return BatchedArray(getattr(self._rng, name)(size=(one.size, *shape), **given), one.number)

    draw.__name__ = name
    return draw


def _draw_each(name: str) -> Callable[..., Any]:
    """A method whose arguments are no parameters that broadcast: one call for each element."""

    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        one = self._running

        def part(x: Any, i: int) -> Any:
            return x.value[i] if type(x) is BatchedArray and x.level == one.number else x

        drawn = [
            getattr(self._rng, name)(
                *[part(x, i) for x in args], **{k: part(x, i) for k, x in kwargs.items()}
            )
            for i in range(one.size)
        ]
        return None if drawn and drawn[0] is None else BatchedArray(np.stack(drawn), one.number)

    draw.__name__ = name
    return draw


_EACH = (
    *("bytes", "choice", "dirichlet", "f", "hypergeometric", "logseries", "multinomial", "noncentral_f"),
    *("multivariate_hypergeometric", "multivariate_normal", "noncentral_chisquare", "permutation"),
    *("permuted", "power", "shuffle", "wald", "zipf"),
)

for _name in (*_DISTRIBUTIONS, *_EACH):
    setattr(Refusing, _name, _refuse(_name))
    setattr(Different, _name, _draw_different(_name) if _name in _DISTRIBUTIONS else _draw_each(_name))
