"""`MultiStep`, and the n-step form of transitions, which `MultiStepTransform` gives, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDictBase, get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Path
from lite._tree.keys import require_path
from lite.kernels import MultiStepReturn, gather_time, multistep_return
from lite.kernels._integer import integer
from lite.nn import Module
from lite.nn.values.entries import require_array, require_time

DEFAULT_DONE_KEYS: Final = ("done", "truncated", "terminated")


def check_gamma(gamma: float) -> float:
    if not 0 < gamma <= 1:  # NaN is out of range, too
        raise ValueError(f"gamma must be in (0, 1], got {gamma}.")
    return gamma


class Options(Protocol):
    """What `MultiStep` documents as its arguments."""

    gamma: float
    n_steps: int
    done_key: Any
    done_keys: Any
    reward_keys: Any
    mask_key: Any
    shift_done: bool


def n_step(tensordict: TensorDictBase, reader: str, how: Options) -> TensorDictBase:
    """The transform that `MultiStep` documents; `reader` is the class named in errors."""
    require_time(tensordict, reader)
    out = tensordict.clone(False)
    done = require_array(out, ("next", *require_path(how.done_key)), reader)
    batch = out.batch_size
    time_dim = out.ndim - 1
    if done.shape == (*batch, 1):
        done = done[..., 0]
    elif done.shape != batch:
        _rebatch(out, done.shape)
    mask = _mask(out, how.mask_key, done.shape)

    reward_paths = [require_path(key) for key in _as_keys(how.reward_keys)]
    if not reward_paths:
        raise ValueError("reward_keys must name at least one reward, got none.")
    rewards = [require_array(out, ("next", *path), reader) for path in reward_paths]
    windows = [_window(reward, done, how.gamma, how.n_steps, time_dim) for reward in rewards]
    index = windows[0].index
    kept = set(reward_paths)
    if not how.shift_done:
        kept.update(require_path(key) for key in _as_keys(how.done_keys))
    following = out.get("next")
    _shift(following, index, time_dim, kept)

    following.set("original_reward", rewards[-1])
    for path, window in zip(reward_paths, windows, strict=True):
        following.set(path, window.reward)
    dtype = get_default_dtype()
    steps, discount, nonterminal = windows[0].steps, windows[0].gamma, windows[0].nonterminal
    out.set("steps_to_next_obs", steps)
    out.set("gamma", discount if dtype == discount.dtype else (float(how.gamma) ** steps).astype(dtype))
    out.set("nonterminal", nonterminal if mask is None else nonterminal & mask)
    if out.batch_size != batch:
        out.batch_size = batch
    return out


def _as_keys(keys: Any) -> Sequence[NestedKey]:
    return (keys,) if isinstance(keys, str) else keys


def _mask(td: TensorDictBase, key: NestedKey | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    mask = None if key is None else td.get(key, None)
    if mask is None:
        return None
    if mask.dtype != np.bool_:
        raise TypeError(f"the mask {key!r} must be boolean, got {mask.dtype}.")
    if mask.shape not in (shape, (*shape, 1)):
        raise RuntimeError(f"the mask {key!r} must have the shape {shape}, got {mask.shape}.")
    return mask.reshape(shape)


def _window(
    reward: NDArray[Any], done: NDArray[Any], gamma: float, n_steps: int, time_dim: int
) -> MultiStepReturn:
    n_steps = integer("n_steps", n_steps, least=0)
    whole = reward.dtype.kind in "biu"
    values = reward.astype(np.float64) if whole and n_steps else reward
    window = multistep_return(values, done, gamma=gamma, n_steps=max(1, n_steps), time_dim=time_dim)
    if not n_steps:
        return window._replace(reward=reward)
    return window._replace(reward=window.reward.astype(get_default_dtype())) if whole else window


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
    for key, entry in list(td.items(include_nested=True, leaves_only=True)):
        path = require_path(key)
        if path not in kept:
            moved = gather_time(entry, index, time_dim=time_dim)
            if moved is not entry:
                td.set(path, moved)


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

    A bootstrapped target is thus `reward + gamma * value(next)`. Beware that `("next", "done")` and its like
    stay where they are (torchrl does the same): a target that multiplies by `1 - terminated` bootstraps from
    terminal states up to n - 1 steps before them. `shift_done=True` moves them along with the observations.

    Args:
        gamma: discount per step, in (0, 1].
        n_steps: rewards per sum; 0 keeps all values, and the new entries are those of 1.
        done_key, done_keys: where an episode ends; what is not shifted. Keys are in "next".
        reward_keys: what is summed; `"original_reward"` holds the last one's.
        mask_key: a boolean entry at the root that is False at padding; None, or a missing entry, for none.
            It only clears `"nonterminal"`.
        shift_done: shift `done_keys` too. All arguments are attributes, which may be changed at any time.

    Raises:
        ValueError: gamma or n_steps is out of range.
        TypeError: n_steps is not an integer.

    Source:
        Sutton (1988), Learning to predict by the methods of temporal differences.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import MultiStep
        >>> after = {"reward": np.ones(5, np.float32), "done": np.array([0, 0, 0, 1, 0], bool)}
        >>> out = MultiStep(gamma=0.5, n_steps=3)(TensorDict(next=after, batch_size=[5]))
        >>> out["next", "reward"], out["steps_to_next_obs"]
        (array([1.75, 1.75, 1.5 , 1.  , 1.  ], dtype=float32), array([3, 3, 2, 1, 1]))
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
        steps = integer("n_steps", n_steps, least=0)
        self.gamma = check_gamma(gamma)
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
            TypeError: done or the mask is not boolean, a reward not an array, or the input not a TensorDict.
        """
        return n_step(tensordict, "MultiStep", self)


belong_to("lite.data", MultiStep)
