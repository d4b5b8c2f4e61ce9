"""`RandomPolicy`: actions drawn from their spec."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class RandomPolicy:
    """A policy that draws actions from their spec.

    Args:
        action_spec: the spec of the actions, batch included; a `Composite` has them by key. None: a
            `Collector` fills in that of its environment.
        action_key: where the action goes, if the spec is no `Composite`.
        generator: a seed or a `numpy.random.Generator`.

    Source:
        torchrl.modules.RandomPolicy.

    Example:
        >>> from lite import TensorDict, nn
        >>> from lite.data import Bounded
        >>> policy = nn.RandomPolicy(Bounded(-1, 1, (3,)), generator=0)
        >>> td = policy(TensorDict())
        >>> td["action"].shape, abs(td["action"]).max() <= 1
        ((3,), np.True_)
    """

    def __init__(
        self,
        action_spec: TensorSpec | None = None,
        action_key: NestedKey = "action",
        *,
        generator: np.random.Generator | int | None = None,
    ) -> None:
        if not isinstance(action_spec, (TensorSpec, type(None))):
            raise TypeError(f"action_spec must be a spec, got {type(action_spec).__name__}.")
        self.action_spec = action_spec
        self.action_key = action_key
        self.generator = np.random.default_rng(generator)

    def __call__(self, td: TensorDictBase) -> Any:
        """Write actions to `td`, and return it.

        Raises:
            RuntimeError: the action spec is missing.
            ValueError: an action has no bounds.
        """
        spec = self.action_spec
        if spec is None:
            raise RuntimeError(
                "RandomPolicy has no action_spec: give one, or give the policy to a Collector, which has one."
            )
        if not isinstance(spec, Composite):
            return td.set(self.action_key, spec.rand(rng=self.generator))
        for key, part in spec.items(True, True):
            td.set(key, part.rand(rng=self.generator))
        return td

    def __repr__(self) -> str:
        return f"RandomPolicy(action_spec={self.action_spec!r}, action_key={self.action_key!r})"


belong_to("lite.nn", RandomPolicy)
