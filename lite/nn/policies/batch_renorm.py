"""BatchRenorm1d: batch normalisation that turns to running averages, as CrossQ's networks have it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.public import belong_to
from lite._arrays.types import Array, HostArray
from lite._transforms.grad.tape import value_of
from lite.nn._modules.initial import empty_array, empty_parameter, fill
from lite.nn._modules.module import Module


class BatchRenorm1d(Module):
    """Batch normalisation that is corrected towards running averages after a warm-up.

    In training mode x becomes ((x - mean) / std) r + d, with mean and std of the batch. In the warm-up r is 1
    and d is 0; then r = std / running_std and d = (mean - running_mean) / running_std, both limited, and
    constants of the gradient. In evaluation mode the running averages are used. Then come weight and bias.

    Args:
        num_features: size of dimension 1.
        momentum: share of the newest batch in the running averages.
        eps: added to variances.
        max_r: limit of r, which stays between 1 / max_r and max_r.
        max_d: limit of the absolute value of d.
        warmup_steps: batches before r and d count. As in TorchRL they count twice after twice as many.
        smooth: let them count more and more during the warm-up.

    Shapes:
        input and output (N, num_features, *L); `weight` (ones at first), `bias` (zeros), `running_mean` and
        `running_var` (num_features,); `num_batches_tracked` ().

    Dtypes:
        as of input and parameters, float32, together.

    Raises:
        ValueError: an input of fewer than two dimensions.
        RuntimeError: another number of features.

    Source:
        Ioffe (2017), Batch renormalization (arXiv:1702.03275);
        torchrl.modules.models.batchrenorm.BatchRenorm1d.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.BatchRenorm1d(1, momentum=0.5, warmup_steps=1)
        >>> x = np.array([[1.0], [3.0]], np.float32)
        >>> layer(x).round(3).tolist(), layer.running_mean
        ([[-1.0], [1.0]], array([1.], dtype=float32))
    """

    def __init__(
        self,
        num_features: int,
        *,
        momentum: float = 0.01,
        eps: float = 1e-5,
        max_r: float = 3.0,
        max_d: float = 5.0,
        warmup_steps: int = 10000,
        smooth: bool = False,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.momentum = momentum
        self.eps = eps
        self.max_r = max_r
        self.max_d = max_d
        self.warmup_steps = warmup_steps
        self.smooth = smooth
        shape = (num_features,)
        for name, value in (("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, empty_array(shape, dtype=np.float32))
            fill(getattr(self, name), value)
        self.register_buffer("num_batches_tracked", np.zeros((), np.int64))
        for name, value in (("weight", 1.0), ("bias", 0.0)):
            self.register_parameter(name, empty_parameter(shape, dtype=np.float32))
            fill(self._held(name), value)

    def forward(self, input: Array) -> Array:
        """Normalise input (N, num_features, *L)."""
        if input.ndim < 2:
            raise ValueError(f"the input must have at least 2 dimensions, got {tuple(input.shape)}.")
        if input.shape[1] != self.num_features:
            raise RuntimeError(
                f"dimension 1 must be num_features={self.num_features}, got {tuple(input.shape)}."
            )
        row = (1, self.num_features) + (1,) * (input.ndim - 2)
        mean, variance = value_of(self.running_mean), value_of(self.running_var)
        std = np.sqrt(variance + np.float32(self.eps))
        if self.training:
            x = self._of_batch(input, row, mean, std)
        else:
            x = (input - mean.reshape(row)) / std.reshape(row)
        return self._tensor("weight").reshape(row) * x + self._tensor("bias").reshape(row)

    def _of_batch(self, input: Array, row: tuple[int, ...], running_mean: Array, running_std: Array) -> Array:
        axes = (0, *range(2, input.ndim))
        mean = input.mean(axes)
        centred = input - mean.reshape(row)
        variance = (centred * centred).mean(axes)
        std = np.sqrt(variance + self.eps)
        r = np.clip(_constant(std) / running_std, 1 / self.max_r, self.max_r)
        d = np.clip((_constant(mean) - running_mean) / running_std, -self.max_d, self.max_d)
        if self.warmup_steps > 0:
            count = value_of(self.num_batches_tracked)
            share = count / self.warmup_steps if self.smooth else count // self.warmup_steps
            share = share.astype(np.float32)
            r = np.float32(1) + (r - np.float32(1)) * share
            d = d * share
        self._track(_constant(mean), _constant(variance), input.shape[0])
        return centred / std.reshape(row) * r.reshape(row) + d.reshape(row)

    def _track(self, mean: Array, variance: Array, rows: int) -> None:
        """Move the averages, in place, where mapped ones are parts of stacked ones."""
        with np.errstate(divide="ignore", invalid="ignore"):  # of one row, as TorchRL
            unbiased = variance * rows / np.float32(rows - 1)
            for name, new in (("running_mean", mean), ("running_var", unbiased)):
                kept: Any = value_of(getattr(self, name))
                kept[...] = kept + np.float32(self.momentum) * (new - kept)
        count: Any = self.num_batches_tracked
        count[...] = count + 1

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"{self.num_features}, momentum={self.momentum}, eps={self.eps}, max_r={self.max_r}, "
            f"max_d={self.max_d}, warmup_steps={self.warmup_steps}, smooth={self.smooth}"
        )


def _constant(array: Array) -> Array:
    """An array without gradients."""
    return array.detach() if isinstance(array, HostArray) else array


belong_to("lite.nn", BatchRenorm1d)
