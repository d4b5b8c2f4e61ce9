"""`BurnInTransform` and `RandomCropTensorDict`: parts of sequences that come out of a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Keys, Transform, key_list
from lite.nn.tensordict_modules.base import TensorDictModuleBase


class BurnInTransform(Transform):
    """Runs recurrent modules over the first steps of sequences, for the states of those that are kept.

    Args:
        modules: modules whose states are to be burnt in, or one of them.
        burn_in: how many steps.
        out_keys: the states; what the modules write below "next" if None.

    Raises:
        ValueError: a module has no `in_keys` and `out_keys`.
        RuntimeError: it is in an environment.

    Source:
        torchrl.envs.BurnInTransform.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import BurnInTransform
        >>> from lite.nn import TensorDictModule
        >>> module = TensorDictModule(lambda x, h: h + x.sum(-2, keepdims=True), ["x", "h"], [("next", "h")])
        >>> td = TensorDict({"x": np.ones((2, 5, 1)), "h": np.zeros((2, 5, 1))}, [2, 5])
        >>> BurnInTransform(module, 3)(td)["h"][..., 0].tolist()
        [[3.0, 0.0], [3.0, 0.0]]
    """

    _shown = ("burn_in", "in_keys", "out_keys")

    def __init__(
        self,
        modules: Sequence[TensorDictModuleBase] | TensorDictModuleBase,
        burn_in: int,
        out_keys: Keys = None,
    ) -> None:
        given: list[Any] = list(modules) if isinstance(modules, list | tuple) else [modules]
        for module in given:
            if not isinstance(module, TensorDictModuleBase):
                raise ValueError(f"modules must be TensorDictModules, got {type(module).__name__}.")
        written = (
            [key for module in given for key in module.out_keys] if out_keys is None else key_list(out_keys)
        )
        following = [key for key in written or () if isinstance(key, tuple) and key[0] == "next"]
        states: list[NestedKey] = [key[1] if len(key) == 2 else key[1:] for key in following]
        if out_keys is not None:
            states += [key for key in written or () if key not in following]
        super().__init__(list(dict.fromkeys(key for module in given for key in module.in_keys)), states)
        # Not children: their parameters are those of the networks that learn.
        self.__dict__["modules_"] = given
        self.burn_in = burn_in

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        raise RuntimeError("BurnInTransform is for replay buffers, not for environments.")

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The steps after the first ones, of shape (batch, time - burn_in), with the first one's states."""
        if self.burn_in == 0:
            return tensordict
        burnt: Any = tensordict[..., : self.burn_in].copy()
        rest = tensordict[..., self.burn_in :].copy()
        for module in self.__dict__["modules_"]:
            burnt = module(burnt)
        for key in self.out_keys:
            last = np.asarray(burnt.get("next").get(key))[:, -1]
            before = rest.get(key, None)
            shape = (last.shape[0], rest.shape[-1], *last.shape[1:])
            states = np.zeros(shape, last.dtype) if before is None else np.array(before)
            states[:, 0] = last
            rest.set(key, states)
        return rest


class RandomCropTensorDict(Transform):
    """A part of each sequence, from a step that is drawn.

    Args:
        sub_seq_len: steps of a part.
        sample_dim: the dimension of time.
        mask_key: an entry that is True at steps which are no padding; sequences are cropped within them.
        generator: a seed or a `numpy.random.Generator`.

    Raises:
        RuntimeError: a sequence is shorter; there is no batch dimension.
        ValueError: the mask has another shape than the TensorDict.

    Source:
        torchrl.envs.RandomCropTensorDict.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import RandomCropTensorDict
        >>> td = TensorDict({"t": np.tile(np.arange(9), (2, 1))}, [2, 9])
        >>> RandomCropTensorDict(3, generator=0)(td)["t"].tolist()
        [[5, 6, 7], [3, 4, 5]]
    """

    def __init__(
        self,
        sub_seq_len: int,
        sample_dim: int = -1,
        mask_key: NestedKey | None = None,
        *,
        generator: np.random.Generator | int | None = None,
    ) -> None:
        super().__init__()
        self.sub_seq_len, self.sample_dim, self.mask_key = sub_seq_len, sample_dim, mask_key
        self.generator = np.random.default_rng(generator)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The parts, in new memory."""
        shape, dim, length = tuple(tensordict.shape), self.sample_dim, self.sub_seq_len
        if not shape:
            raise RuntimeError("RandomCropTensorDict needs a batch dimension, the time; there is none.")
        if shape[dim] < length:
            raise RuntimeError(f"sequences must have at least {length} steps, got {tensordict.shape}.")
        each = list(shape)
        each[dim] = 1
        mask = None if self.mask_key is None else tensordict.get(self.mask_key, None)
        if mask is None:
            first = self.generator.integers(0, max(shape[dim] - length, 1), each)
        else:
            if mask.shape != shape:
                raise ValueError(f"the mask must have the shape {shape} of the TensorDict, got {mask.shape}.")
            lengths = np.asarray(mask).sum(dim, keepdims=True)
            if (lengths < length).any():
                raise RuntimeError(f"sequences must have at least {length} steps, got {int(lengths.min())}.")
            first = (self.generator.random(each) * (lengths - length)).astype(np.int64)
        steps = [1] * len(shape)
        steps[dim] = length
        return tensordict.gather(dim, first + np.arange(length).reshape(steps))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self.forward(tensordict_reset)


belong_to("lite.envs", BurnInTransform, RandomCropTensorDict)
