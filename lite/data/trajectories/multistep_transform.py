"""MultiStepTransform: n-step transitions of a stream of chunks."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from lite import NestedKey, TensorDictBase, cat
from lite._arrays.public import belong_to
from lite.data.trajectories.n_step import DEFAULT_DONE_KEYS, check_gamma, n_step
from lite.nn import Module
from lite.nn.values.entries import require_time

_NAME = "MultiStepTransform"


class _OrDefault:
    """An attribute for which None stands for its default."""

    def __init__(self, default: Any) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance.__dict__[self._name]

    def __set__(self, instance: Any, value: Any) -> None:
        default = self._default
        if value is None:  # a new list, as the caller may change it
            value = list(default) if isinstance(default, tuple) else default
        instance.__dict__[self._name] = value


class MultiStepTransform(Module):
    """`MultiStep` for a replay buffer that is extended by chunks of a stream.

    `inv` takes the next frames of a stream and returns the ones that are ready, each once and in order. The
    last `n_steps` frames are withheld until the frames after them come, so that no window ends at the end of
    a chunk. A call of the module, as for samples of the buffer, returns its input.

    The returned frames are copies. A reset of the environment between two chunks must be marked as done.
    `flush` returns the withheld frames at the end of a stream, `reset` discards them.

    Args:
        n_steps: rewards per sum, at least 1. It can be changed: no frame is then lost or returned twice.
        gamma: discount per step, in (0, 1].
        reward_keys: the rewards; they and the following two are relative to `"next"`. None: `["reward"]`.
        done_key: the entry that marks the end of an episode. None: `"done"`.
        done_keys: entries that are not shifted. None: `["done", "truncated", "terminated"]`.
        mask_key: a boolean entry at the root that is False at padding. None: `"mask"`.
        shift_done: shift `done_keys`, too. Like all arguments, it is an attribute that can be changed.

    Raises:
        ValueError: gamma is out of range; n_steps is not an integer, or out of range.

    Source:
        `MultiStepTransform` of TorchRL, https://github.com/pytorch/rl.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import MultiStepTransform
        >>> def frames(*steps):
        ...     reward, done = np.ones(len(steps), np.float32), np.zeros(len(steps), bool)
        ...     entries = {"step": steps, "next": {"reward": reward, "done": done}}
        ...     return TensorDict(entries, batch_size=[len(steps)])
        >>> transform = MultiStepTransform(n_steps=2, gamma=0.5)
        >>> transform.inv(frames(0, 1)) is None
        True
        >>> out = transform.inv(frames(2, 3, 4))
        >>> out["step"], out["next", "reward"]
        (array([0, 1, 2]), array([1.5, 1.5, 1.5], dtype=float32))
    """

    reward_keys = _OrDefault(("reward",))
    done_key = _OrDefault("done")
    done_keys = _OrDefault(DEFAULT_DONE_KEYS)
    mask_key = _OrDefault("mask")

    def __init__(
        self,
        n_steps: int,
        gamma: float,
        *,
        reward_keys: Sequence[NestedKey] | None = None,
        done_key: NestedKey | None = None,
        done_keys: Sequence[NestedKey] | None = None,
        mask_key: NestedKey | None = None,
        shift_done: bool = False,
    ) -> None:
        super().__init__()
        self.n_steps = n_steps
        self.gamma = check_gamma(gamma)
        self.reward_keys = reward_keys
        self.done_key = done_key
        self.done_keys = done_keys
        self.mask_key = mask_key
        self.shift_done = shift_done
        self._withheld: TensorDictBase | None = None

    @property
    def n_steps(self) -> int:
        """Rewards per sum, and the number of withheld frames; ValueError for anything but 1, 2, ..."""
        return self._n_steps

    @n_steps.setter
    def n_steps(self, value: int) -> None:
        try:
            steps = operator.index(value)
        except TypeError:
            steps = 0
        if steps < 1:
            raise ValueError(f"n_steps must be an integer of at least 1, got {value!r}.")
        self._n_steps = steps

    @property
    def withheld(self) -> TensorDictBase | None:
        """The withheld frames, not transformed, or None; assigning replaces them."""
        held = self._withheld
        return None if held is None or not held.shape[-1] else held

    @withheld.setter
    def withheld(self, frames: TensorDictBase | None) -> None:
        self._withheld = frames

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Returns its input: samples of a buffer were transformed when they were added."""
        return tensordict

    def inv(self, tensordict: TensorDictBase) -> TensorDictBase | None:
        """Add the next frames, and return those that are ready.

        Args:
            tensordict: frames; the last batch dimension is time, the others and the keys are those of frames
                before; without batch dimensions, one frame. It is not modified. Entries are as for
                `MultiStep`.

        Returns:
            All withheld and new frames except the last `n_steps`, transformed as by `MultiStep`,
            in new memory. None if there are at most `n_steps`.

        Raises:
            KeyError: done or a reward is missing, or the keys are not those of the frames before.
            RuntimeError: shapes do not fit, or not those of the frames before.
            TypeError: done or the mask is not boolean, a reward not an array, or the input not a TensorDict.

        After an error the withheld frames are unchanged.
        """
        if isinstance(tensordict, TensorDictBase) and not tensordict.ndim:
            tensordict = tensordict.unsqueeze(0)
        require_time(tensordict, _NAME)
        held = self._withheld
        frames = tensordict.clone() if held is None else cat([held, tensordict], -1)
        count = frames.shape[-1]
        ready = max(0, count - self.n_steps)
        out = n_step(frames, _NAME, self)[..., :ready] if ready else None
        # A copy: a view would keep the memory of all the frames.
        self._withheld = frames[..., ready:].clone()
        return out

    def flush(self) -> TensorDictBase | None:
        """Return the withheld frames, whose windows end with the last one, and withhold none.

        Returns:
            The frames, transformed as by `MultiStep`; None if none are withheld.

        Raises:
            KeyError, RuntimeError, TypeError: as for `inv`; the frames stay withheld.
        """
        held = self._withheld
        out = None if held is None or not held.shape[-1] else n_step(held, _NAME, self)
        self._withheld = None
        return out

    def reset(self) -> None:
        """Forget the withheld frames, as at the start of another stream."""
        self._withheld = None


belong_to("lite.data", MultiStepTransform)
