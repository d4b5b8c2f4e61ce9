"""ConsistentDropout: dropout whose masks are kept, so that learning drops what acting dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite import NestedKey, get_default_dtype
from lite._arrays.dtypes import as_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._lazy_hooks import implementation
from lite._transforms.grad.tape import value_of
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.layers.dropout import dropout, generator
from lite.nn.tensordict_modules.base import TensorDictModuleBase


class ConsistentDropout(Module):
    """Dropout that gives the mask along with the result, and takes one in place of drawing it.

    Args:
        p: probability of a zero, in [0, 1].
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Shapes:
        input and mask any, alike; in training mode the results are the input times the mask, and the mask:
        0 or 1 / (1 - p). In evaluation mode the result is the input alone.

    Dtypes:
        a mask that is drawn has the input's.

    Raises:
        ValueError: p outside [0, 1].

    Source:
        Hausknecht and Wagener (2022), Consistent dropout for policy gradient reinforcement learning
        (arXiv:2202.11818); torchrl.modules.ConsistentDropout.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.ConsistentDropout(0.5, rng=0)
        >>> x, mask = layer(np.ones(6))
        >>> layer(np.full(6, 3.0), mask)[0].tolist(), layer.eval()(np.ones(2)).tolist()
        ([6.0, 0.0, 0.0, 0.0, 6.0, 6.0], [1.0, 1.0])
    """

    def __init__(self, p: float = 0.5, *, rng: Rng = None) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p must be a probability in [0, 1], got {p}.")
        self.p = p
        self._rng: Rng = rng

    def forward(self, x: Array, mask: Array | None = None) -> Any:
        """The input times the mask, and the mask; the input alone in evaluation mode."""
        if not self.training:
            return x
        mask = self.make_mask(input=x) if mask is None else mask
        return x * mask, mask

    def make_mask(self, *, input: Array | None = None, shape: tuple[int, ...] | None = None) -> Array:
        """Draw a mask; in evaluation mode, ones.

        Args:
            input: an array of its shape and dtype.
            shape: its shape, of the default float dtype, in place of `input`.

        Raises:
            RuntimeError: neither is given.
        """
        if input is not None:
            ones = np.ones_like(value_of(input))
        elif shape is not None:
            ones = np.ones(shape, get_default_dtype())
        else:
            raise RuntimeError("input or shape must be given to make_mask, got neither.")
        return dropout(ones, self.p, generator(self)) if self.training and self.p else ones

    def extra_repr(self) -> str:
        """p."""
        return f"p={self.p}"


class ConsistentDropoutModule(TensorDictModuleBase):
    """A `ConsistentDropout` whose masks are entries: they come with the frames that they were drawn for.

    Args:
        p: probability of a zero, in [0, 1).
        in_keys: key of the input, or the keys of input and mask. The mask has a key of its own otherwise,
            "mask_" and a number.
        out_keys: keys of the result, and the mask; `in_keys` by default.
        input_shape: that of the input, for `make_tensordict_primer`.
        input_dtype: dtype of the mask there; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Raises:
        ValueError: p is outside [0, 1), or there are not two keys.

    Source:
        torchrl.modules.ConsistentDropoutModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> module = nn.ConsistentDropoutModule(0.5, ["x", "mask"], rng=0)
        >>> td = module(TensorDict(x=np.ones(6)))
        >>> bool((module(td.clone())["x"] == 2 * td["x"]).all())
        True
    """

    def __init__(
        self,
        p: float,
        in_keys: NestedKey | Sequence[NestedKey],
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        input_shape: tuple[int, ...] | None = None,
        input_dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        name = f"mask_{id(self)}"
        self.in_keys = _pair(in_keys, name)
        self.out_keys = list(self.in_keys) if out_keys is None else _pair(out_keys, name)
        if len(self.in_keys) != 2 or len(self.out_keys) != 2:
            raise ValueError(
                f"in_keys and out_keys must be those of the input and the mask, got {self.in_keys} "
                f"and {self.out_keys}."
            )
        if not 0 <= p < 1:
            raise ValueError(f"p must be a probability in [0, 1), got {p}.")
        self.input_shape = input_shape
        self.input_dtype = input_dtype
        self.consistent_dropout = ConsistentDropout(p, rng=rng)

    def forward(self, tensordict: Any) -> Any:
        """Write the result, in training mode with its mask, and return `tensordict`."""
        x = tensordict.get(self.in_keys[0])
        mask = tensordict.get(self.in_keys[1], None)
        found = self.consistent_dropout(x, mask=mask)
        for key, value in zip(self.out_keys, found if self.training else (found,), strict=False):
            tensordict.set(key, value)
        return tensordict

    def make_tensordict_primer(self) -> Any:
        """The transform of an environment that draws a mask where an episode starts.

        Returns:
            A `TensorDictPrimer` of lite.envs.

        Raises:
            RuntimeError: `input_shape` was not given.
            ImportError: lite.envs is not imported.
        """
        if self.input_shape is None:
            raise RuntimeError("make_tensordict_primer needs input_shape, which was not given.")
        dtype = get_default_dtype() if self.input_dtype is None else as_dtype(self.input_dtype)
        shape = tuple(self.input_shape)
        make = implementation("make_mask_primer", self, "lite.envs")
        return make(self.in_keys[1], shape, dtype, lambda: self.consistent_dropout.make_mask(shape=shape))


def _pair(keys: NestedKey | Sequence[NestedKey], mask: str) -> list[NestedKey]:
    """A key alone gets one of its mask; a tuple is one key."""
    return [keys, mask] if isinstance(keys, str | tuple) else list(keys)


belong_to("lite.nn", ConsistentDropout, ConsistentDropoutModule)
