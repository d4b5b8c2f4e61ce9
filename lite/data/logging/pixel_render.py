"""`PixelRenderTransform`: rendered frames among the observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite import TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.base import EnvBase
from lite.envs.transforms.base import Keys, Transform
from lite.specs.arrays import Unbounded
from lite.specs.composite import Composite
from lite.specs.objects import NonTensor


class PixelRenderTransform(Transform):
    """Renders the environment after each step and reset, and writes the frame.

    If a batch of environments renders one frame, it is stored as an object. `from_pixels` of `GymEnv`
    does the same for a single environment.

    Args:
        out_keys: a list of one key, for the frames; `["pixels"]` if None.
        preproc: a function that is applied to each frame.
        as_non_tensor: write frames as objects; if None, only if a batch renders one frame.
        render_method: the environment's method that renders.
        pass_tensordict: pass the TensorDict to this method.
        kwargs: other arguments of this method.

    Raises:
        RuntimeError: there is not exactly one key; in a call, a frame does not fit the batch.
        ValueError: the environment has no such method.

    Source:
        torchrl.record.PixelRenderTransform.

    Example:
        >>> import numpy as np
        >>> from lite.data import PixelRenderTransform
        >>> from lite.envs import GymEnv, TransformedEnv
        >>> env = GymEnv("CartPole-v1")
        >>> env.draw = lambda: np.zeros((4, 5, 3), np.uint8)  # env.render, with render_mode="rgb_array"
        >>> env = TransformedEnv(env, PixelRenderTransform(render_method="draw"))
        >>> env.rollout(2)["pixels"].shape
        (2, 4, 5, 3)
    """

    def __init__(
        self,
        out_keys: Keys = None,
        preproc: Callable[[Any], Any] | None = None,
        as_non_tensor: bool | None = None,
        render_method: str = "render",
        pass_tensordict: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__([], ["pixels"] if out_keys is None else out_keys)
        if len(self.out_keys) != 1:
            raise RuntimeError(f"out_keys must be one key, got {self.out_keys}.")
        self.preproc = preproc
        self.as_non_tensor = as_non_tensor
        self.render_method = render_method
        self.pass_tensordict = pass_tensordict
        self.kwargs = kwargs
        self._enabled = True

    @property
    def enabled(self) -> bool:
        """Whether it renders."""
        return self._enabled

    def switch(self, mode: str | bool | None = None) -> None:
        """Turn rendering on or off.

        Args:
            mode: "on", "off" or a bool; None toggles it.

        Raises:
            ValueError: the mode is unknown.
        """
        if mode is not None and mode not in ("on", "off", True, False):
            raise ValueError(f"mode must be 'on', 'off' or a bool, got {mode!r}.")
        self._enabled = not self._enabled if mode is None else mode in ("on", True)

    def set_container(self, container: Any) -> None:
        super().set_container(container)
        parent = self.parent
        if isinstance(parent, EnvBase) and not callable(getattr(parent, self.render_method, None)):
            self.reset_parent()
            raise ValueError(f"the environment must have the method {self.render_method!r}, got {parent}.")

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if not self._enabled:
            return next_tensordict
        given = (next_tensordict,) if self.pass_tensordict else ()
        frame = getattr(self.parent, self.render_method)(*given, **self.kwargs)
        if self.preproc is not None:
            frame = self.preproc(frame)
        if isinstance(frame, (list, tuple)):
            frame = np.asarray(frame)
        if self.as_non_tensor is None:
            one = frame.ndim == 3 and frame.shape[-1] == 3
            self.as_non_tensor = one and bool(self.parent.batch_size)
        if self.as_non_tensor:
            return next_tensordict.set_non_tensor(self.out_keys[0], frame)
        try:
            return next_tensordict.set(self.out_keys[0], frame)
        except Exception as error:
            raise RuntimeError(
                f"a frame of shape {getattr(frame, 'shape', None)} does not fit the batch size "
                f"{next_tensordict.batch_size}: change it by preproc, or set as_non_tensor=True."
            ) from error

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        # What a frame is like is known once there is one. A reset would end the episode that runs.
        size = self.parent.batch_size
        enabled, self._enabled = self._enabled, True
        try:
            frame = None if self.pass_tensordict else self._call(TensorDict({}, size)).get(self.out_keys[0])
        except Exception:
            frame = None
        try:
            if frame is None:
                frame = self._call(self.parent.reset()).get(self.out_keys[0])
        finally:
            self._enabled = enabled
        observation_spec = observation_spec.clone()
        if self.as_non_tensor:
            spec: Any = NonTensor(size, example_data=frame)
        else:
            spec = Unbounded(frame.shape, dtype=frame.dtype)
        observation_spec[self.out_keys[0]] = spec
        return observation_spec


belong_to("lite.data", PixelRenderTransform)
