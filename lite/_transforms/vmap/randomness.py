"""Random numbers inside a mapped function: refused, the same for all elements, or different ones.

A `numpy.random.Generator` draws in C, where no protocol sees it. Two kinds of draws are known: those of
lite's layers and samplers, which ask `generator_for`, and those from generators among the arguments, which
are replaced by subclasses. Any other generator, and numpy.random's global state, gives the same numbers to
all elements.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import Array
from lite._transforms.vmap.level import Level


class Map(NamedTuple):
    """A map while its function runs."""

    number: int
    size: int
    randomness: str

    def reads(self, what: str) -> None:
        """Nothing: the function runs each time."""

    def generator(self, rng: Any) -> Any:
        """The generator to draw from in place of `rng`; that of an inner map stays."""
        if self.randomness == "same":
            return rng
        with _one_at_a_time:
            asking, refusing, different = _generators()
        if isinstance(rng, refusing) or (isinstance(rng, asking) and self.number <= rng.level.number):
            return rng
        return (refusing if self.randomness == "error" else different)(rng, self)


# Threads that draw first at the same time must get the same classes; `cache` would let each make its own.
_one_at_a_time = threading.Lock()


@cache  # made when first needed, as naming NumPy's class imports numpy.random
def _generators() -> tuple[Any, Any, Any]:
    class Asking(np.random.Generator):
        """Stands for a generator inside a mapped function."""

        def __new__(cls, rng: Any, running: Map) -> Any:
            return np.random.Generator.__new__(cls)

        def __init__(self, rng: Any, running: Map) -> None:
            super().__init__(rng.bit_generator)
            self._rng = rng
            self.level = Level(running.number, running.size)

    class Refusing(Asking):
        """A generator that raises RuntimeError where it is to draw."""

    class Different(Asking):
        """A generator that draws other numbers for each element along the mapped dimension."""

    for name in (*_DISTRIBUTIONS, *_EACH):
        different = _draw_different if name in _DISTRIBUTIONS else _draw_each
        for cls, draw in ((Refusing, _refuse(name)), (Different, different(name))):
            draw.__name__ = name
            setattr(cls, name, draw)
    return Asking, Refusing, Different


# Parameters of these broadcast, and come before size; for the others there is one call for each element.
_DISTRIBUTIONS = (
    *("beta", "binomial", "chisquare", "exponential", "gamma", "geometric", "gumbel", "integers", "laplace"),
    *("logistic", "lognormal", "negative_binomial", "normal", "pareto", "poisson", "random", "rayleigh"),
    *("standard_cauchy", "standard_exponential", "standard_gamma", "standard_normal", "standard_t"),
    *("triangular", "uniform", "vonmises", "weibull"),
)
_EACH = (
    *("bytes", "choice", "dirichlet", "f", "hypergeometric", "logseries", "multinomial", "noncentral_f"),
    *("multivariate_hypergeometric", "multivariate_normal", "noncentral_chisquare", "permutation"),
    *("permuted", "power", "shuffle", "wald", "zipf"),
)


def parameters_of(name: str) -> list[str]:
    """What a method of a generator may be given, in order."""
    return list(signature(getattr(np.random.Generator, name)).parameters)[1:]


def _refuse(name: str) -> Callable[..., Any]:
    def draw(self: Any, *args: Any, **kwargs: Any) -> Array:
        raise RuntimeError(
            f"vmap met a random draw ({name}): say with randomness='same' or randomness='different' whether "
            "all elements along the mapped dimension get the same random numbers."
        )

    return draw


def _draw_different(name: str) -> Callable[..., Any]:
    parameters = parameters_of(name)
    names = parameters[: parameters.index("size")]

    def draw(self: Any, *args: Any, **kwargs: Any) -> Array:
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        if given.pop("out", None) is not None:
            raise TypeError(f"{name} with randomness='different' makes its own array; it takes no out.")
        size = given.pop("size", None)
        shapes = [np.shape(given[key]) for key in names if given.get(key) is not None]
        if size is None:
            shape = np.broadcast_shapes(*shapes)
        else:
            shape = tuple(size) if isinstance(size, tuple | list) else (size,)
        level = self.level
        for key in names:
            if key in given:
                given[key] = level.align(given[key], len(shape))
        return level.wrap(getattr(self._rng, name)(size=(level.size, *shape), **given))

    return draw


def _draw_each(name: str) -> Callable[..., Any]:
    """A method whose arguments are not parameters that broadcast: one call for each element."""

    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        level = self.level
        method = getattr(self._rng, name)
        drawn = [method(*level.part(args, i), **level.part(kwargs, i)) for i in level.places()]
        return None if drawn and drawn[0] is None else level.wrap(np.stack(drawn))

    return draw
