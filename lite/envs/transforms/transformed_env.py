"""`TransformedEnv`: an environment with transforms."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lite import TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.base import EnvBase
from lite.envs.spec_checks import require_env
from lite.envs.transforms.base import Transform
from lite.envs.transforms.compose import Compose, as_transform
from lite.specs.base import Shape
from lite.specs.composite import Composite


class TransformedEnv(EnvBase):
    """An environment whose observations, rewards, done entries and actions are transformed.

    The specs are those of the environment, changed by the transforms. State dicts are those of the
    transforms. Attributes that this class lacks are read from the environment.

    Args:
        base_env: the environment.
        transform: a transform, or a function from TensorDict to TensorDict; none by default.
        cache_specs: compute the specs once.
        auto_unwrap: join the transforms with those of `base_env`, if that is a TransformedEnv, too.
        device: None or "cpu".

    Attributes:
        base_env: the environment.

    Raises:
        TypeError: `base_env` is not an EnvBase.
        ValueError: `transform` is neither a transform nor a function.

    Source:
        torchrl.envs.TransformedEnv.

    Example:
        >>> from lite.envs import GymEnv, RewardSum, StepCounter, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), StepCounter(5))
        >>> env = env.append_transform(RewardSum())
        >>> env.rollout(10)["next", "episode_reward"].ravel().tolist()
        [1.0, 2.0, 3.0, 4.0, 5.0]
    """

    base_env: EnvBase

    def __init__(
        self,
        base_env: EnvBase,
        transform: Any = None,
        cache_specs: bool = True,
        *,
        auto_unwrap: bool | None = None,
        device: Any = None,
    ) -> None:
        require_env(base_env, "base_env must be")
        if not isinstance(cache_specs, bool):
            raise TypeError(f"cache_specs must be a bool, got {cache_specs!r}: Compose joins transforms.")
        nested = type(base_env) is TransformedEnv and type(self) is TransformedEnv
        if nested and auto_unwrap is not False:
            assert isinstance(base_env, TransformedEnv)  # for type checkers
            joined = Compose()
            joined.append(base_env.transform.clone())
            joined.append(Compose() if transform is None else transform)
            base_env, transform = base_env.base_env, joined
        super().__init__(device=device, allow_done_after_reset=base_env._allow_done_after_reset)
        del self.is_closed  # that of the environment counts, which may start again
        self.base_env = base_env
        self.cache_specs = cache_specs
        self.transform = Compose() if transform is None else transform

    # -- transforms -----------------------------------------------------------------------------

    @property
    def transform(self) -> Any:
        """The `Transform`, a `Compose` where there are several; assigning replaces it."""
        return self._modules["_transform"]

    @transform.setter
    def transform(self, transform: Any) -> None:
        transform = as_transform(transform)
        before = self._modules.get("_transform")
        transform.set_container(self)
        if before is not None and not any(part is before for part in transform.modules()):
            before.reset_parent()
        self._transform = transform.eval()
        self.empty_cache()

    def append_transform(self, transform: Any) -> Self:
        """Add a transform, or a function, after the others; returns self."""
        self._composed().append(as_transform(transform))
        return self

    def insert_transform(self, index: int, transform: Any) -> Self:
        """Add a transform, or a function, before the one with the number `index`; returns self."""
        self._composed().insert(index, as_transform(transform))
        return self

    def _composed(self) -> Compose:
        if not isinstance(self.transform, Compose):
            self.transform.reset_parent()
            self.transform = Compose(self.transform)
        composed: Compose = self.transform
        return composed

    def _environment_before(self, transform: Transform) -> TransformedEnv:
        """The environment without transforms, which the first transform sees."""
        return TransformedEnv(self.base_env, auto_unwrap=False)

    def set_missing_tolerance(self, mode: bool = False) -> None:
        """Set the tolerance of the transforms."""
        self.transform.set_missing_tolerance(mode)

    # -- specs ----------------------------------------------------------------------------------

    def _init_specs(self, batch_size: Any) -> None:
        self.__dict__.setdefault("_cache", {})

    def _held(self, name: str) -> Composite:
        spec: Composite | None = self.__dict__.get(name)
        if spec is None:
            # A copy: transforms change what they get.
            before = getattr(self.base_env, name.removeprefix("_")).clone()
            spec = getattr(self.transform, f"transform{name}")(before)
            if self.cache_specs:
                self.__dict__[name] = spec
        return spec

    def empty_cache(self) -> None:
        """Clear cached specs and lists of keys."""
        for name in ("_input_spec", "_output_spec"):
            self.__dict__.pop(name, None)
        transform = self._modules.get("_transform")
        if transform is not None:
            transform.empty_cache()
        super().empty_cache()

    @property
    def batch_size(self) -> Shape:
        """The number of environments that step at once, as a shape."""
        state = self.__dict__
        before: Shape = state["_modules"]["base_env"].batch_size
        found: tuple[Shape, Shape] | None = state["_cache"].get("batch_size")
        if found is None or found[0] != before:
            found = before, self.transform.transform_env_batch_size(before)
            state["_cache"]["batch_size"] = found
        return found[1]

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        raise RuntimeError("the batch size is that of base_env, which must be changed there.")

    @property
    def batch_locked(self) -> bool:
        """Whether the environment takes TensorDicts of its own batch size only."""
        locked: bool = self._modules["base_env"].batch_locked  # at each step: as an attribute it is slow
        return locked

    @property
    def _supports_set_state(self) -> bool:  # type: ignore[override]
        return self.base_env._supports_set_state

    def add_truncated_keys(self) -> Self:
        """Add a "truncated" entry beside each done entry of the environment; returns self."""
        self.base_env.add_truncated_keys()
        self.empty_cache()
        return self

    # -- steps ----------------------------------------------------------------------------------

    def _step(self, tensordict: Any) -> Any:
        base, transform = self._modules["base_env"], self._modules["_transform"]
        preset = tensordict.get("next", None)
        given = transform.inv(tensordict)
        partial = given.get("_step", None)
        if partial is not None and partial.all():
            del given["_step"]
        following = base._step(given)
        if preset is not None:
            following.update(preset.exclude(*following.keys(True, True)))
        return transform._step(given, base._step_proc_data(following))

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> Any:
        if tensordict is not None:
            tensordict = tensordict.select(*self.reset_keys, *self.state_keys, strict=False)
        tensordict = self.transform._reset_env_preprocess(tensordict)
        made = self.base_env._reset_all(tensordict, **kwargs)
        return self.transform._reset(made.empty() if tensordict is None else tensordict, made)

    def rand_action(self, tensordict: Any = None) -> Any:
        """Draw actions from their specs, or by the method of `base_env` if its class overrides it.

        Raises:
            RuntimeError: its class overrides it, and transforms change the specs of actions.
        """
        base = self._modules["base_env"]
        if type(base).rand_action in (EnvBase.rand_action, TransformedEnv.rand_action):
            return super().rand_action(tensordict)
        if self.full_action_spec != base.full_action_spec:
            raise RuntimeError(
                f"rand_action of {type(base).__name__} is of other actions: transforms change them."
            )
        return base.rand_action(tensordict)

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment and random actions; see `EnvBase.set_seed`."""
        self.generator = np.random.default_rng(seed)
        return self.base_env.set_seed(seed, static_seed)

    def _set_seed(self, seed: int | None) -> None:
        self.base_env._set_seed(seed)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment and the transforms."""
        if raise_if_closed or not self.base_env.is_closed:
            self.base_env.close()
        self.transform.close()

    # -- as a module ----------------------------------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state dict of the transforms."""
        return self.transform.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Load the state dict of the transforms."""
        return self.transform.load_state_dict(state_dict, *args, **kwargs)

    def train(self, mode: bool = True) -> Self:
        """Set the mode of the transforms; returns self."""
        self.transform.train(mode)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "transform":  # a property; Module.__setattr__ would register a child of that name
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
            if hasattr(type(self), name):
                # A property of this class failed, and does so again: the environment's has another meaning.
                return object.__getattribute__(self, name)
            base = self.__dict__.get("_modules", {}).get("base_env")
            if base is None:
                raise
        return getattr(base, name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({k: v for k, v in state.items() if k != "is_closed"})  # as of older pickles
        self.transform.set_container(self)

    def __repr__(self) -> str:
        inner = f"env={self.base_env!r},\ntransform={self.transform!r}"
        return "TransformedEnv(\n    " + inner.replace("\n", "\n    ") + ")"


belong_to("lite.envs", TransformedEnv)
