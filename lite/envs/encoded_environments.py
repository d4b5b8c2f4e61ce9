"""gymnasium's environments as arrays in the encodings of a `GymWrapper`, for loops without TensorDicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from lite._tree.keys import to_path
from lite.envs.encodings import Encoding
from lite.envs.environments import Environments, Outcome
from lite.envs.spaces import specs_of_batch
from lite.specs.arrays import ArraySpec
from lite.specs.composite import Composite


class EncodedLeaf(NamedTuple):
    """One entry: its path, and the spec of one environment's array."""

    path: tuple[str, ...]
    spec: ArraySpec


class EncodedLayout:
    """The entries of observations or actions.

    Attributes:
        leaves: each entry.
        encodings: how values are entries, in the same order.
    """

    def __init__(self, encodings: Sequence[Encoding]) -> None:
        self.encodings = list(encodings)
        self.leaves = [EncodedLeaf(to_path(part.key), part.spec) for part in encodings]

    def spec(self, batch: tuple[int, ...]) -> Composite:
        """The specs of the entries of a batch."""
        return specs_of_batch(((leaf.path, leaf.spec) for leaf in self.leaves), batch)


class EncodedEnvironments:
    """`Environments` whose arrays are entries: classes as one-hot vectors, say.

    Args:
        environments: the environments.
        observations, actions: the encodings of their leaves.
    """

    def __init__(
        self, environments: Environments, observations: Sequence[Encoding], actions: Sequence[Encoding]
    ) -> None:
        self.inner = environments
        self.env = environments.env
        self.batch, self.count = environments.batch, environments.count
        self.skips, self.resets_some = environments.skips, environments.resets_some
        self.observation, self.action = EncodedLayout(observations), EncodedLayout(actions)

    def reset(self, seed: int | list[int] | None = None) -> list[NDArray[Any]]:
        """Reset all; returns what they observe."""
        return self._entries(self.inner.reset(seed))

    def reset_some(self, ended: Any) -> list[NDArray[Any]]:
        """Reset some, of shape `batch`; returns what these observe."""
        return self._entries(self.inner.reset_some(ended))

    def step(self, actions: list[NDArray[Any]]) -> Outcome:
        """Take one step with an array for each entry of the actions."""
        values = [part.value(array) for part, array in zip(self.action.encodings, actions, strict=True)]
        outcome = self.inner.step(values)
        reached = self._entries(outcome.reached)
        present = reached if outcome.present is outcome.reached else self._entries(outcome.present)
        return outcome._replace(reached=reached, present=present)

    def close(self) -> None:
        """Close the environments."""
        self.inner.close()

    def _entries(self, arrays: list[Any]) -> list[NDArray[Any]]:
        pairs = zip(self.observation.encodings, arrays, strict=True)
        return [array if part.plain else part.entry(array) for part, array in pairs]
