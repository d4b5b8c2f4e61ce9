"""MultiStep: rewards summed, and observations taken, n steps ahead."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lite._base import TensorDictBase
from lite._defaults import get_default_dtype
from lite._keys import NestedKey, Path, require_path
from lite.kernels import MultiStepReturn, gather_time, multistep_return
from lite.nn import Module

DEFAULT_DONE_KEYS: Final = ("done", "truncated", "terminated")


class MultiStep(Module):
    """Rewrite one-step transitions as n-step ones.

    Time is the last batch dimension. At step t, with s the smaller of `n_steps` and the number of steps
    to the end of the episode (or of the batch):

    - `("next", "reward")` becomes r(t) + gamma r(t+1) + ... over the s steps; what it was goes to
      `("next", "original_reward")`;
    - everything else in `"next"`, except `done_keys`, becomes what it was at step t + s - 1;
    - new entries at the root, of the shape of done (without a last dimension of 1): `"steps_to_next_obs"`
      is s, `"gamma"` is gamma ** s, `"nonterminal"` tells whether s is larger than 1 and the step is not
      masked.

    A bootstrapped target is thus `reward + gamma * value(next)`, with the `"gamma"` and `"reward"` of the
    result. Beware that `("next", "done")` and its like stay where they are (torchrl does the same): a
    target that multiplies by `1 - terminated` bootstraps from terminal states up to n - 1 steps before
    them. `shift_done=True` moves them along with the observations.

    With `n_steps=0` all entries keep their values and the new ones are those of `n_steps=1`.

    Args:
        gamma: discount per step, in (0, 1].
        n_steps: rewards per sum, at least 0.
        done_key: where an episode ends; this key and the following are relative to `"next"`.
        done_keys: what is not shifted.
        reward_keys: what is summed; `"original_reward"` holds the last one's.
        mask_key: a boolean entry at the root that is False at padding; None, or a missing entry, for none.
            It only clears `"nonterminal"`.
        shift_done: shift `done_keys` too.

    All of these are attributes and may be changed at any time.

    Raises:
        ValueError: gamma or n_steps out of range.
        TypeError: n_steps is no integer.

    Source:
        Sutton (1988), Learning to predict by the methods of temporal differences.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import MultiStep
        >>> td = TensorDict(
        ...     {
        ...         "step_count": np.arange(5),
        ...         "next": {
        ...             "step_count": np.arange(1, 6),
        ...             "reward": np.ones(5, np.float32),
        ...             "done": np.array([False, False, False, True, False]),
        ...         },
        ...     },
        ...     batch_size=[5],
        ... )
        >>> out = MultiStep(gamma=0.5, n_steps=3)(td)
        >>> out["next", "step_count"], out["next", "reward"]
        (array([3, 4, 4, 4, 5]), array([1.75, 1.75, 1.5 , 1.  , 1.  ], dtype=float32))
        >>> out["steps_to_next_obs"], out["gamma"]
        (array([3, 3, 2, 1, 1]), array([0.125, 0.125, 0.25 , 0.5  , 0.5  ], dtype=float32))
    """

    def __init__(
        self,
        gamma: float,
        n_steps: int,
        *,
        done_key: NestedKey = "done",
        done_keys: Sequence[NestedKey] = DEFAULT_DONE_KEYS,
        reward_keys: Sequence[NestedKey] = ("reward",),
        mask_key: NestedKey | None = ("collector", "mask"),
        shift_done: bool = False,
    ) -> None:
        super().__init__()
        steps = operator.index(n_steps)
        if steps < 0:
            raise ValueError(f"n_steps must be at least 0, got {n_steps}.")
        if not 0 < gamma <= 1:
            raise ValueError(f"gamma must be in (0, 1], got {gamma}.")
        self.gamma = gamma
        self.n_steps = n_steps
        self.done_key = done_key
        self.done_keys = done_keys
        self.reward_keys = reward_keys
        self.mask_key = mask_key
        self.shift_done = shift_done
        # Not read: it keeps the state dict that of torchrl's class.
        powers = float(gamma) ** np.arange(steps + 1.0)
        self.register_buffer("gammas", powers.astype(np.float32).reshape(1, 1, -1))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The transformed data, in new containers; the input stays as it is.

        Args:
            tensordict: at least one batch dimension, the last of which is time. Under `"next"`, done is
                boolean (or integers 0 and 1), of the shape of the batch, that and a last dimension of 1, or
                the batch and more dimensions (of agents, say): then every entry must have these
                dimensions too. Rewards have the shape of done and any feature dimensions.

        Raises:
            ValueError: there is no batch dimension.
            KeyError: done, or a reward, is missing.
            RuntimeError: shapes do not fit.
            TypeError: done or the mask is not boolean, a reward is no array, or the input no TensorDict.
        """
        if not isinstance(tensordict, TensorDictBase):
            raise TypeError(f"MultiStep needs a TensorDict, got {type(tensordict).__name__}.")
        if not tensordict.ndim:
            raise ValueError("MultiStep needs a TensorDict with a time dimension, got batch_size=().")
        out = tensordict.clone(False)
        done = _require(out, self.done_key)
        batch = out.batch_size
        time_dim = out.ndim - 1
        if done.shape == (*batch, 1):
            done = done[..., 0]
        elif done.shape != batch:
            _rebatch(out, done.shape)
        mask = self._mask(out, done.shape)

        reward_paths = [require_path(key) for key in _as_keys(self.reward_keys)]
        if not reward_paths:
            raise ValueError("reward_keys must name at least one reward, got none.")
        rewards = [_require(out, path) for path in reward_paths]
        windows = [self._window(reward, done, time_dim) for reward in rewards]
        index = windows[0].index
        kept = set(reward_paths)
        if not self.shift_done:
            kept.update(require_path(key) for key in _as_keys(self.done_keys))
        _shift(out.get("next"), index, time_dim, kept)

        out.set(("next", "original_reward"), rewards[-1])
        for path, window in zip(reward_paths, windows, strict=True):
            out.set(("next", *path), window.reward)
        dtype = get_default_dtype()
        steps, discount, nonterminal = windows[0].steps, windows[0].gamma, windows[0].nonterminal
        out.set("steps_to_next_obs", steps)
        out.set("gamma", discount if dtype == discount.dtype else (float(self.gamma) ** steps).astype(dtype))
        out.set("nonterminal", nonterminal if mask is None else nonterminal & mask)
        if out.batch_size != batch:
            out.batch_size = batch
        return out

    def _mask(self, td: TensorDictBase, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
        mask = None if self.mask_key is None else td.get(self.mask_key, None)
        if mask is None:
            return None
        if mask.dtype != np.bool_:
            raise TypeError(f"the mask {self.mask_key!r} must be boolean, got {mask.dtype}.")
        if mask.shape not in (shape, (*shape, 1)):
            raise RuntimeError(f"the mask {self.mask_key!r} must have the shape {shape}, got {mask.shape}.")
        return mask.reshape(shape)  # type: ignore[no-any-return]

    def _window(self, reward: NDArray[Any], done: NDArray[Any], time_dim: int) -> MultiStepReturn:
        n_steps = operator.index(self.n_steps)
        if n_steps < 0:
            raise ValueError(f"n_steps must be at least 0, got {n_steps}.")
        whole = reward.dtype.kind in "biu"
        values = reward.astype(np.float64) if whole and n_steps else reward
        window = multistep_return(values, done, gamma=self.gamma, n_steps=max(1, n_steps), time_dim=time_dim)
        if not n_steps:
            return window._replace(reward=reward)
        return window._replace(reward=window.reward.astype(get_default_dtype())) if whole else window


def _as_keys(keys: Any) -> Sequence[NestedKey]:
    return (keys,) if isinstance(keys, str) else keys


def _require(td: TensorDictBase, key: NestedKey) -> NDArray[Any]:
    path = ("next", *require_path(key))
    entry = td.get(path, None)
    if entry is None:
        raise KeyError(f"MultiStep reads the entry {path}, which the TensorDict lacks.")
    if not isinstance(entry, np.ndarray):
        raise TypeError(f"MultiStep reads the entry {path} as an array, got {type(entry).__name__}.")
    return entry


def _rebatch(td: TensorDictBase, shape: tuple[int, ...]) -> None:
    """Make the dimensions that done has beyond the batch part of it, in nested containers too."""
    try:
        td.batch_size = shape
    except RuntimeError as error:
        raise RuntimeError(
            f"tensordict shape must be compatible with the shape of done (but for a last dimension of 1): "
            f"the batch size is {td.batch_size}, done has the shape {shape} and some entry does not start "
            "with it."
        ) from error


def _shift(td: TensorDictBase, index: NDArray[np.int64], time_dim: int, kept: set[Path]) -> None:
    """Take every array under `td` at `index`, except at the paths `kept`."""
    paths = [require_path(key) for key in td.keys(include_nested=True, leaves_only=True)]
    for path in paths:
        if path not in kept:
            entry = td.get(path)
            moved = gather_time(entry, index, time_dim=time_dim)
            if moved is not entry:
                td.set(path, moved)
