"""The transforms of a replay buffer: applied last to first when data is added, first to last to samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lite import TensorDict
from lite.data.replay.columns import is_container


class Transforms:
    """A list of transforms.

    A transform is called with samples. Its `inv`, if it has one, is called with data to be added; it may
    withhold data and return None. Such a transform returns the rest from `flush`, and has an attribute
    `withheld`, a TensorDict or None, which can be set.
    """

    def __init__(self, transform: Any = None) -> None:
        self._list: list[Any] = []
        if transform is not None:
            self.insert(0, transform)

    def insert(self, at: int, transform: Any, invert: bool = False) -> None:
        """Add a transform; with `invert`, a function is called with data to be added instead of samples.

        Raises:
            TypeError: the transform is not callable, or a class.
            ValueError: there are fewer transforms than `at`.
        """
        if isinstance(transform, type) or not callable(transform):
            got = (
                f"the class {transform.__name__}" if isinstance(transform, type) else type(transform).__name__
            )
            raise TypeError(f"transform must be a transform or a function, got {got}.")
        if abs(at) > len(self):
            raise ValueError(f"index must be from {-len(self)} to {len(self)}, got {at}.")
        if invert:
            transform = _Inverse(transform)
        self._list.insert(at, transform)

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list)

    def __getitem__(self, index: int) -> Any:
        return self._list[index]

    def out(self, data: Any) -> Any:
        """Transform a sample.

        Raises:
            TypeError: a transform returns None.
        """
        for transform in self._list:
            data = transform(data)
            if data is None:
                raise TypeError(f"transforms must return the batch, {transform!r:.80} gave None.")
        return data

    def inv(self, data: Any) -> Any:
        """Transform data to be added; None if a transform withholds it."""
        return self._inv(data, len(self._list))

    def _inv(self, data: Any, before: int) -> Any:
        for transform in reversed(self._list[:before]):
            inverse = getattr(transform, "inv", None)
            if inverse is not None:
                data = inverse(data)
                if data is None:
                    return None
        return data

    def flush(self) -> Iterator[Any]:
        """The frames that transforms withheld, each passed through the following transforms."""
        for at in range(len(self._list) - 1, -1, -1):
            flush = getattr(self._list[at], "flush", None)
            data = None if flush is None else flush()
            if data is not None and (data := self._inv(data, at)) is not None:
                yield data

    # -- withheld frames ----------------------------------------------------------------------------

    @property
    def withholds(self) -> bool:
        """Whether any of them may withhold data."""
        return any(hasattr(transform, "withheld") for transform in self._list)

    @property
    def withheld(self) -> Any:
        """The rows that transforms withhold: a TensorDict with an entry by number for each; or None."""
        found = {
            str(i): transform.withheld
            for i, transform in enumerate(self._list)
            if getattr(transform, "withheld", None) is not None
        }
        return TensorDict(found, []) if found else None

    @withheld.setter
    def withheld(self, content: Any) -> None:
        places = [str(i) for i, transform in enumerate(self._list) if hasattr(transform, "withheld")]
        if content is not None and not set(content.keys()) <= set(places):
            raise ValueError(
                f"transforms {sorted(content.keys())} withheld frames, but those that can are {places}."
            )
        for i, transform in enumerate(self._list):
            if hasattr(transform, "withheld"):
                frames = None if content is None else content.get(str(i), None)
                transform.withheld = None if frames is None else frames.clone()

    def state_dict(self) -> dict[str, Any]:
        """Copies of the transforms' state dicts, by number, and of the data that they withhold."""
        states = {
            str(i): copy.deepcopy(transform.state_dict())
            for i, transform in enumerate(self._list)
            if hasattr(transform, "state_dict")
        }
        withheld = self.withheld
        return {"states": states, "withheld": None if withheld is None else withheld.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`."""
        places = {int(key): value for key, value in state["states"].items()}
        if places and max(places) >= len(self._list):
            raise ValueError(
                f"the state is of {max(places) + 1} transforms or more, there are {len(self._list)}."
            )
        for i, value in places.items():
            self._list[i].load_state_dict(value)
        self.withheld = state["withheld"]

    def __repr__(self) -> str:
        return repr(self._list)


class _Inverse:
    """A function that is called with data to be added."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.inv = function

    def __call__(self, data: Any) -> Any:
        return data

    def __repr__(self) -> str:
        return f"on the way in: {self.inv!r}"


def as_frames(data: Any) -> Any:
    """One element as a piece of a stream, whose last dimension is time."""
    return data.unsqueeze(-1) if is_container(data) else data
