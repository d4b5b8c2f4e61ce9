"""`ModuleTransform`: a module as a transform."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from lite import NestedKey, TensorDictBase
from lite import no_grad as without_grad
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Transform
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite

_Change = TensorSpec | Callable[[Any], Any] | None


def _changed(name: str) -> Any:
    """A method: the new specs of a kind of entries."""

    def method(self: ModuleTransform, spec: Composite) -> Any:
        change = self._changes[name]
        return change(spec) if callable(change) else spec if change is None else change

    return method


class ModuleTransform(Transform):
    """A TensorDictModule as a transform, such as a network that computes features.

    Args:
        module: the module.
        module_factory: a function that makes the module; give one of the two.
        no_grad: record nothing for gradients.
        inverse: run on inputs of the environment (`inv`) instead of its outputs.
        observation_spec_transform: the new specs of observations, or a function from the old ones to them.
        action_spec_transform, reward_spec_transform, done_spec_transform, state_spec_transform: likewise.

    Raises:
        ValueError: neither `module` nor `module_factory` is given, or both.

    Source:
        torchrl.envs.ModuleTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import ModuleTransform
        >>> from lite.nn import TensorDictModule
        >>> double = ModuleTransform(module=TensorDictModule(lambda x: 2 * x, ["x"], ["y"]))
        >>> double(TensorDict(x=np.arange(3)))["y"]
        array([0, 2, 4])
    """

    def __init__(
        self,
        *,
        module: Any = None,
        module_factory: Callable[[], Any] | None = None,
        no_grad: bool = False,
        inverse: bool = False,
        observation_spec_transform: _Change = None,
        action_spec_transform: _Change = None,
        reward_spec_transform: _Change = None,
        done_spec_transform: _Change = None,
        state_spec_transform: _Change = None,
    ) -> None:
        super().__init__()
        if (module is None) == (module_factory is None):
            raise ValueError("give module or module_factory, and not both.")
        self.module = module_factory() if module_factory is not None else module
        self.no_grad, self.inverse = no_grad, inverse
        self._changes = {
            "observation": observation_spec_transform,
            "action": action_spec_transform,
            "reward": reward_spec_transform,
            "done": done_spec_transform,
            "state": state_spec_transform,
        }

    @property  # type: ignore[misc]
    def in_keys(self) -> list[NestedKey]:  # type: ignore[override]
        """The module's `in_keys`; none with `inverse`."""
        return [] if self.inverse else list(self.module.in_keys)

    @property  # type: ignore[misc]
    def out_keys(self) -> list[NestedKey]:  # type: ignore[override]
        """The module's `out_keys`; none with `inverse`."""
        return [] if self.inverse else list(self.module.out_keys)

    @property  # type: ignore[misc]
    def in_keys_inv(self) -> list[NestedKey]:
        """The module's `out_keys` with `inverse`; else none."""
        return list(self.module.out_keys) if self.inverse else []

    @property  # type: ignore[misc]
    def out_keys_inv(self) -> list[NestedKey]:
        """The module's `in_keys` with `inverse`; else none."""
        return list(self.module.in_keys) if self.inverse else []

    def _run(self, tensordict: TensorDictBase) -> TensorDictBase:
        with without_grad() if self.no_grad else nullcontext():
            out: TensorDictBase = self.module(tensordict)
            return out

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Run the module; nothing with `inverse`."""
        return tensordict if self.inverse else self._run(tensordict)

    _call = forward

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._run(tensordict) if self.inverse else tensordict

    transform_observation_spec = _changed("observation")
    transform_action_spec = _changed("action")
    transform_reward_spec = _changed("reward")
    transform_done_spec = _changed("done")
    transform_state_spec = _changed("state")


belong_to("lite.envs", ModuleTransform)
