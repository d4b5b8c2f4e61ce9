"""`timeit`: the times of parts of a program."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Self

from lite._arrays.public import belong_to


class timeit:
    """A context manager or decorator that sums the times of a part of a program under a name.

    Args:
        name: name of the part.

    Source:
        torchrl.timeit.

    Example:
        >>> from lite.data import timeit
        >>> with timeit("sampling"):
        ...     total = sum(range(100))
        >>> 0 < timeit.todict(prefix="time")["time/sampling"] < 1
        True
    """

    _times: ClassVar[dict[str, list[float]]] = {}  # number of calls and sum of seconds, by name
    _printed: ClassVar[int] = 0  # calls of `printevery`

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self) -> Self:
        """Start the clock; returns self."""
        self._begun = time.perf_counter()
        return self

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._begun

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        times = self._times.setdefault(self.name, [0, 0.0])
        times[0] += 1
        times[1] += self.elapsed()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that times the calls of `function`."""

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name):
                return function(*args, **kwargs)

        return timed

    @classmethod
    def todict(cls, percall: bool = True, prefix: str | None = None) -> dict[str, float]:
        """Seconds by name: the mean of the calls, or their sum.

        Args:
            percall: True for the mean.
            prefix: put in front of the names, with a slash.
        """
        lead = f"{prefix}/" if prefix else ""
        return {
            f"{lead}{name}": total / max(1, count) if percall else total
            for name, (count, total) in cls._times.items()
        }

    @classmethod
    def print(cls, prefix: str | None = None) -> str:
        """Print a line for each name, sorted; returns the text."""
        mean, lead = cls.todict(), f"{prefix} -- " if prefix else ""
        lines = [
            f"{lead}{name} took {1000 * mean[name]:4.4f} msec (total = {total: 4.4f} sec since last reset)."
            for name, (_, total) in sorted(cls._times.items())
        ]
        text = "\n".join(lines)
        print(text)
        return text

    @classmethod
    def printevery(
        cls, num_prints: int, total_count: int, *, prefix: str | None = None, erase: bool = False
    ) -> None:
        """Print at `num_prints` of `total_count` calls.

        Args:
            num_prints: the number of prints.
            total_count: the number of calls.
            prefix: as for `print`.
            erase: set the times to 0 after each print.

        Raises:
            ValueError: `num_prints` is below 1.
        """
        if num_prints < 1:
            raise ValueError(f"num_prints must be from 1 on, got {num_prints}.")
        if cls._printed % max(1, total_count // num_prints) == 0:
            cls.print(prefix)
            if erase:
                cls.erase()
        cls._printed += 1

    @classmethod
    def erase(cls) -> None:
        """Set the times of all names to 0."""
        for times in cls._times.values():
            times[:] = [0, 0.0]

    @classmethod
    def reset(cls) -> None:
        """Alias of `erase`."""
        cls.erase()


belong_to("lite.data", timeit)
