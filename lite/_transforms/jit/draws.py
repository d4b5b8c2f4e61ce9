"""Random numbers inside a traced function: inputs of the graph, which a generator fills at each call.

A draw of a traced function is written down instead of made: of what, in which shape and dtype. At a call the
generator makes these draws in their order, so it gives the numbers that the function itself would have drawn.
Draws whose parameters are computed are a location and a scale away from standard ones, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lite._arrays.types import HostArray, Shape

# Distributions of a location and a scale: the standard one, and the names of the two.
_SCALED: dict[str, tuple[str, str | None, str]] = {
    "normal": ("standard_normal", "loc", "scale"),
    "exponential": ("standard_exponential", None, "scale"),
    "gumbel": ("gumbel", "loc", "scale"),
    "laplace": ("laplace", "loc", "scale"),
    "logistic": ("logistic", "loc", "scale"),
}
# The others, with the names of what may be given by place.
_LISTED: dict[str, tuple[str, ...]] = {
    "random": ("size", "dtype"),
    "standard_normal": ("size", "dtype"),
    "standard_exponential": ("size", "dtype"),
    "standard_gamma": ("shape", "size", "dtype"),
    "standard_cauchy": ("size",),
    "standard_t": ("df", "size"),
    "integers": ("low", "high", "size", "dtype", "endpoint"),
    "beta": ("a", "b", "size"),
    "binomial": ("n", "p", "size"),
    "chisquare": ("df", "size"),
    "gamma": ("shape", "scale", "size"),
    "geometric": ("p", "size"),
    "poisson": ("lam", "size"),
    "vonmises": ("mu", "kappa", "size"),
    "permutation": ("x",),
}
METHODS = frozenset({*(standard for standard, *_ in _SCALED.values()), *_LISTED})


@dataclass(frozen=True)
class Draw:
    """A draw: `getattr(generator, method)(*args, size=shape, **kwargs)`.

    Attributes:
        source: the number of the generator among the leaves of the arguments, or the generator itself.
        method: of the generator.
        arguments: by name, without the shape.
        shape: dynamic sizes as `Size`; None where the arguments give it.
        dtype: of the result.
    """

    source: Any
    method: str
    arguments: dict[str, Any]
    shape: Shape | None
    dtype: np.dtype[Any]

    def make(self, generator: Any, shape: Shape) -> np.ndarray[Any, Any]:
        """Draw in a shape."""
        if self.shape is None:
            return np.asarray(getattr(generator, self.method)(**self.arguments))
        return np.asarray(getattr(generator, self.method)(size=shape, **self.arguments))


@cache  # made when first needed, as naming NumPy's class imports numpy.random
def traced_generator_class() -> Any:
    """The class of generators that write down what they are to draw."""

    class TracedGenerator(np.random.Generator):
        """Stands for a generator inside a traced function."""

        def __new__(cls, source: Any, write: Any) -> Any:
            return np.random.Generator.__new__(cls)

        def __init__(self, source: Any, write: Callable[[Draw, Shape], Any]) -> None:
            super().__init__(np.random.PCG64(0))
            self._source = source
            self._write = write

        def _drawn(self, method: str, size: Any, **arguments: Any) -> Any:
            for name, value in arguments.items():
                if isinstance(value, HostArray):
                    raise NotImplementedError(
                        f"cannot be traced: a draw ({method}) whose {name} is computed; draw a standard "
                        "distribution and compute with it."
                    )
            shape = size if size is None else tuple(size) if isinstance(size, tuple | list) else (size,)
            sample = getattr(np.random.default_rng(0), method)(
                **arguments, **({} if shape is None else {"size": tuple(map(int, shape))})
            )
            if shape is None and not isinstance(sample, np.ndarray):
                shape = ()
            dtype = np.asarray(sample).dtype
            return self._write(Draw(self._source, method, arguments, shape, dtype), np.shape(sample))

        def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
            if size is None:
                size = np.broadcast_shapes(np.shape(low), np.shape(high))
            return low + (high - low) * self._drawn("random", size)

    def scaled(standard: str, loc: str | None, scale: str) -> Callable[..., Any]:
        def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
            names = [key for key in (loc, scale, "size") if key is not None]
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            size = given.get("size")
            at, by = given.get(loc, 0.0) if loc else 0.0, given.get(scale, 1.0)
            if size is None:
                size = np.broadcast_shapes(np.shape(at), np.shape(by))
            found = self._drawn(standard, size)
            if "scale" in given:
                found = found * by
            return found + at if loc in given else found

        return draw

    def listed(name: str, parameters: tuple[str, ...]) -> Callable[..., Any]:
        def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(parameters, args, strict=False)), **kwargs}
            if given.pop("out", None) is not None:
                raise NotImplementedError(f"cannot be traced: {name} into an array of its own (out).")
            return self._drawn(name, given.pop("size", None), **given)

        return draw

    def refused(name: str) -> Callable[..., Any]:
        def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"cannot be traced: a draw ({name}) that a graph has no input for.")

        return draw

    for name, (standard, loc, scale) in _SCALED.items():
        setattr(TracedGenerator, name, scaled(standard, loc, scale))
    for name, parameters in _LISTED.items():
        setattr(TracedGenerator, name, listed(name, parameters))
    known = {*_SCALED, *_LISTED, "uniform", "bit_generator", "spawn"}
    for name in dir(np.random.Generator):
        if not name.startswith("_") and name not in known:
            setattr(TracedGenerator, name, refused(name))
    return TracedGenerator
