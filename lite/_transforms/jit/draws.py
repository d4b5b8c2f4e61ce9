"""Random numbers inside a traced function: inputs of the graph, which a generator fills at each call.

A draw of a traced function is written down instead of made: of what, in which shape and dtype. At a call the
generator makes these draws in their order, so it gives the numbers that the function itself would have drawn.
Draws whose parameters are computed are a location and a scale away from standard ones, as in NumPy.
A generator that the function makes of a seed begins anew at each call, as it does without a graph.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from lite._arrays.types import HostArray, Shape
from lite._transforms.graphs.sizes import Size
from lite._transforms.vmap.randomness import parameters_of

# Distributions of a location and a scale, and the standard one of each.
_SCALED = {
    "normal": "standard_normal",
    "exponential": "standard_exponential",
    **{name: name for name in ("gumbel", "laplace", "logistic")},
}
# Those that take elements of an array, and the others.
_TAKING = ("permutation", "permuted", "choice")
_LISTED = (
    *("random", "standard_normal", "standard_exponential", "standard_gamma", "standard_cauchy", "standard_t"),
    *("integers", "beta", "binomial", "chisquare", "dirichlet", "gamma", "geometric", "hypergeometric"),
    *("lognormal", "multinomial", "multivariate_normal", "negative_binomial", "pareto", "poisson", "power"),
    *("rayleigh", "triangular", "vonmises", "weibull", "zipf"),
)
METHODS = frozenset({*_SCALED.values(), *_LISTED, *_TAKING})


@dataclass(frozen=True)
class Draw:
    """A draw: `getattr(generator, method)(*args, size=shape, **kwargs)`.

    Attributes:
        source: the number of the generator among the leaves of the arguments, the generator itself, or a
            `Seeded`.
        method: method of the generator.
        arguments: by name, without the shape; dynamic sizes as `Size`.
        shape: dynamic sizes as `Size`; None where the arguments give it.
        dtype: dtype of the result.
    """

    source: Any
    method: str
    arguments: dict[str, Any]
    shape: Shape | None
    dtype: np.dtype[Any]

    def make(self, generator: Any, sizes: Callable[[Shape], Shape]) -> np.ndarray[Any, Any]:
        """Draw, with the sizes of a call in place of those of a trace."""
        given = {key: sizes((x,))[0] if type(x) is Size else x for key, x in self.arguments.items()}
        if self.shape is not None:
            given["size"] = sizes(self.shape)
        return np.asarray(getattr(generator, self.method)(**given))

    def is_like(self, other: Draw, sizes: Callable[[Shape], Shape]) -> bool:
        """Whether another trace, with other sizes, draws the same."""
        if (self.method, self.arguments.keys()) != (other.method, other.arguments.keys()):
            return False
        pairs = [(x, other.arguments[key]) for key, x in self.arguments.items()]
        pairs += [(self.shape, other.shape)]
        return all(
            sizes((x,)) == (y,)
            if type(x) is Size
            else sizes(x) == y
            if type(x) is tuple
            else np.array_equal(x, y)
            for x, y in pairs
        )


class Seeded:
    """A generator that the function makes of a seed: at each call it begins at the same numbers.

    Args:
        start: the generator before its first draw.
    """

    def __init__(self, start: np.random.Generator) -> None:
        self.start = start

    def generator(self) -> np.random.Generator:
        """The generator of one call."""
        return deepcopy(self.start)


def with_seeds(
    draws: Mapping[str, Draw],
    others: Mapping[str, Draw],
    starts: Mapping[int, Any],
    before: Mapping[int, Any],
) -> dict[str, Draw]:
    """The draws of a trace; a generator that another trace made again, of the same seed, is a `Seeded`.

    Args:
        draws, others: the draws of this trace and of the other one.
        starts, before: copies of the generators before their first draws, by the identity of their bits.
    """
    seeds: dict[int, Seeded] = {}
    found = {}
    for name, draw in draws.items():
        if not isinstance(draw.source, int):
            bits, other = draw.source.bit_generator, others[name].source.bit_generator
            if bits is not other and pickle.dumps(starts[id(bits)]) == pickle.dumps(before[id(other)]):
                draw = replace(draw, source=seeds.setdefault(id(bits), Seeded(starts[id(bits)])))
        found[name] = draw
    return found


@cache  # made when first needed, as naming NumPy's class imports numpy.random
def traced_generator_class() -> Any:
    """The class of generators that write down what they are to draw."""

    class TracedGenerator(np.random.Generator):
        """Stands for a generator inside a traced function."""

        def __new__(cls, source: Any, graph: Any) -> Any:
            return np.random.Generator.__new__(cls)

        def __init__(self, source: Any, graph: Any) -> None:
            super().__init__(np.random.PCG64(0))
            self._source = source
            self._graph = graph

        def _drawn(self, method: str, size: Any, /, **arguments: Any) -> Any:
            for name, value in arguments.items():
                if isinstance(value, HostArray):
                    self._graph.fail(
                        f"draws by {method}, whose {name} is computed; draw a standard distribution and "
                        "compute with it"
                    )
            shape = size if size is None else tuple(size) if isinstance(size, tuple | list) else (size,)
            sample = getattr(np.random.default_rng(0), method)(
                **arguments, **({} if shape is None else {"size": tuple(map(int, shape))})
            )
            if shape is None and not isinstance(sample, np.ndarray):
                shape = ()
            dtype = np.asarray(sample).dtype
            found = self._graph.draw(Draw(self._source, method, arguments, shape, dtype), np.shape(sample))
            found.weak, found.is_number = type(sample) in (int, float), not isinstance(sample, np.ndarray)
            return found

        def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
            if size is None:
                size = np.broadcast_shapes(np.shape(low), np.shape(high)) or None
            return low + (high - low) * self._drawn("random", size)

        def shuffle(self, x: Any, axis: int = 0) -> None:
            if not isinstance(x, HostArray):
                self._graph.fail("shuffles an ndarray in place: write x = rng.permutation(x)")
            x[...] = self.permutation(x, axis)

    def scaled(name: str) -> Callable[..., Any]:
        parameters = parameters_of(name)

        def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(parameters, args, strict=False)), **kwargs}
            size = given.get("size")
            if size is None:
                shapes = [np.shape(given[key]) for key in ("loc", "scale") if key in given]
                size = np.broadcast_shapes(*shapes) or None
            found = self._drawn(_SCALED[name], size)
            if "scale" in given:
                found = found * given["scale"]
            return found + given["loc"] if "loc" in given else found

        return draw

    def listed(name: str) -> Callable[..., Any]:
        parameters = parameters_of(name)

        def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(parameters, args, strict=False)), **kwargs}
            if given.pop("out", None) is not None:
                self._graph.fail(f"draws by {name} into an array of its own (out)")
            return self._drawn(name, given.pop("size", None), **given)

        return draw

    def taking(name: str) -> Callable[..., Any]:
        parameters, of_any = parameters_of(name), listed(name)

        def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(parameters, args, strict=False)), **kwargs}
            x: Any = given[parameters[0]]
            axis = given.get("axis", None if name == "permuted" else 0)
            is_computed = isinstance(x, HostArray)
            if not is_computed or not x.ndim:
                return of_any(self, **given)
            if name != "permuted":  # the same draws choose among places
                return np.take(x, of_any(self, **{**given, parameters[0]: x.shape[axis], "axis": 0}), axis)
            rows = x.reshape(-1) if axis is None else x
            along = axis or 0
            places = np.arange(rows.shape[along]).reshape([-1, *[1] * (rows.ndim - along % rows.ndim - 1)])
            found = of_any(self, **{**given, "x": np.broadcast_to(places, rows.shape), "axis": along})
            return np.take_along_axis(rows, found, along).reshape(x.shape)

        return draw

    def refused(name: str) -> Callable[..., Any]:
        def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
            self._graph.fail(
                f"draws by {name}, which is not an input of a graph: draw before the step, and pass it"
            )

        return draw

    for make, names in ((scaled, _SCALED), (listed, _LISTED), (taking, _TAKING)):
        for name in names:
            setattr(TracedGenerator, name, make(name))
    known = {*_SCALED, *_LISTED, *_TAKING, "uniform", "shuffle", "bit_generator"}
    for name in dir(np.random.Generator):
        if not name.startswith("_") and name not in known:
            setattr(TracedGenerator, name, refused(name))
    return TracedGenerator
