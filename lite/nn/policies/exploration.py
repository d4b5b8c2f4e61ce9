"""Shared parts of exploration modules: when they explore, annealed numbers, specs."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey
from lite._transforms.vmap.running import generator_for
from lite.nn._modules.initial import Rng
from lite.nn.settings import InteractionType, interaction_type
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.entry_specs import action_specs
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


def is_exploring() -> bool:
    """Whether actions are explored here: the interaction type is RANDOM, or none is set."""
    return interaction_type() in (InteractionType.RANDOM, None)


class ExplorationModule(TensorDictModuleBase):
    """Base of modules that change an action at random while `is_exploring()`.

    A number, the amount of exploration, goes from `<name>_init` to `<name>_end` in `annealing_num_steps`
    frames, which the training loop counts with `step`. All three are buffers.
    """

    _amount: str  # name of the buffer

    def __init__(
        self,
        spec: TensorSpec | None,
        amounts: tuple[float, float],
        annealing_num_steps: int,
        action_key: NestedKey | None,
        device: Any,
        generator: Rng,
    ) -> None:
        super().__init__()
        if device not in (None, "cpu"):
            raise ValueError(f"device must be None or 'cpu', got {device!r}.")
        for name, amount in zip((f"{self._amount}_init", f"{self._amount}_end"), amounts, strict=True):
            self.register_buffer(name, np.array(amount, np.float32))
        self.annealing_num_steps = annealing_num_steps
        self.action_key: NestedKey = "action" if action_key is None else action_key
        self._spec = action_specs(spec, self.action_key)
        self._rng = np.random.default_rng(generator)

    @property
    def spec(self) -> Composite | None:
        """The specs of actions by key; it may be set, to a spec of the action alone, too."""
        return self._spec

    @spec.setter
    def spec(self, spec: TensorSpec | None) -> None:
        self._spec = action_specs(spec, self.action_key)

    def step(self, frames: int = 1) -> None:
        """Shrink the amount of exploration: a training loop calls it with the frames of each batch.

        Args:
            frames: how many there were since the last call.
        """
        start, end, now = (getattr(self, self._amount + suffix) for suffix in ("_init", "_end", ""))
        now[...] = max(end, now - frames * (start - end) / self.annealing_num_steps)

    def _start(self, error: type[Exception], amounts: tuple[float, float]) -> None:
        """Register the amount, at its first value."""
        if amounts[1] > amounts[0]:
            raise error(
                f"{self._amount}_init must be at least {self._amount}_end, got {amounts[0]} and {amounts[1]}."
            )
        self.register_buffer(self._amount, np.array(amounts[0], np.float32))

    def _generator(self) -> np.random.Generator:
        return generator_for(self._rng)

    def _action_spec(self) -> TensorSpec:
        """The spec of the action.

        Raises:
            RuntimeError: there are no specs.
            KeyError: there is none of the action.
        """
        if self._spec is None:
            raise RuntimeError(f"{type(self).__name__} needs a spec: give one, or set its attribute spec.")
        return self._spec[self.action_key]
