"""Embedding: rows of a table, looked up by number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._transforms.grad.tape import is_traced, value_of, with_node
from lite._transforms.vmap.running import everything, look_up, require_ids
from lite.nn._modules.initial import Rng, empty_parameter, fill_normal, reset
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter


class Embedding(Module):
    """A table of `num_embeddings` vectors, looked up by integers.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of each row.
        padding_idx: a row that starts as zeros (negative: counted from the end) and gets no gradient.
        max_norm: rows that are looked up and longer than this are scaled down to it, in the table.
        norm_type: the p of the norm for `max_norm`.
        scale_grad_by_freq: divide the gradient of each row by how often it was looked up in the call.
        sparse: kept for compatibility; gradients are dense.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the table; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial rows are drawn from
            the standard normal distribution.

    Shapes:
        input (*B) of integers, `weight` (num_embeddings, embedding_dim), output (*B, embedding_dim).

    Dtypes:
        integers of any width in, the weight's dtype out.

    Raises:
        ValueError: padding_idx outside the table.
        TypeError: input that is not of integers.
        IndexError: input outside [0, num_embeddings).

    Source:
        torch.nn.Embedding.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> table = nn.Embedding.from_pretrained(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> table(np.array([1, 0]))
        array([[3., 4.],
               [1., 2.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"padding_idx must be a row of the {num_embeddings}, got {padding_idx}")
        self.padding_idx = padding_idx if padding_idx is None else padding_idx % num_embeddings
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self.weight = empty_parameter((num_embeddings, embedding_dim), device, dtype)
        reset(self, rng)

    @classmethod
    def from_pretrained(
        cls, embeddings: Array, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Embedding:
        """An embedding over a given table (num_embeddings, embedding_dim), which is not copied.

        Args:
            embeddings: the table.
            freeze: whether `weight.requires_grad` is False.
            padding_idx: as for the class; the table keeps its values.
            options: `max_norm`, `norm_type`, `scale_grad_by_freq`, `sparse` of the class.

        Raises:
            ValueError: a table that has not two dimensions.
        """
        if embeddings.ndim != 2:
            raise ValueError(f"embeddings must have 2 dimensions, got shape {tuple(embeddings.shape)}")
        rows, size = embeddings.shape
        out = cls(rows, size, padding_idx, device="meta", **options)
        out.weight = Parameter(embeddings, requires_grad=not freeze)
        return out

    def reset_parameters(self, rng: Rng = None) -> None:
        """Redraw the table from the standard normal distribution, in place."""
        table = self._held("weight")
        fill_normal(table, np.random.default_rng(rng))
        if self.padding_idx is not None and isinstance(table, np.ndarray):
            table[self.padding_idx] = 0

    def forward(self, input: Array) -> Array:
        """Look up input (*B): the rows, (*B, embedding_dim)."""
        table = self._tensor("weight")
        if input.dtype.kind not in "iu":
            raise TypeError(f"an embedding is looked up by integers, got {input.dtype}")
        require_ids(input, table.shape[-2], "input")
        if self.max_norm is not None:
            self._limit(value_of(table), input)
        if not is_traced(table, input):
            return look_up(table, input)
        return with_node(
            look_up(value_of(table), input), (table, lambda g: self._for_table(g, input, table.shape))
        )

    def _for_table(self, g: Array, input: Array, shape: tuple[int, ...]) -> Array:
        """The gradient by the table, from the one by the rows that were looked up."""
        if not isinstance(input, np.ndarray) or not isinstance(g, np.ndarray) or len(shape) > 2:
            out: Any = np.zeros_like(g, shape=shape)
            np.add.at(out, input, g)
        else:
            # Equal rows side by side, so that each sum is one of consecutive rows.
            numbers, rows = input.reshape(-1), g.reshape(-1, shape[-1])
            order = np.argsort(numbers, kind="stable")
            numbers = numbers[order]
            starts = np.flatnonzero(np.diff(numbers, prepend=-1))
            sums = np.add.reduceat(rows[order], starts) if starts.size else rows
            if self.scale_grad_by_freq:
                sums = sums / np.diff(starts, append=numbers.size)[:, None].astype(sums.dtype)
            out = np.zeros(shape, g.dtype)
            out[numbers[starts]] = sums
        if self.padding_idx is not None:
            out[..., self.padding_idx, :] = 0
        return out

    def _limit(self, table: Array, input: Array) -> None:
        """Scale down the rows that are looked up; those looked up twice get the same values twice."""
        rows = np.unique(everything(input)) if isinstance(table, np.ndarray) else input.reshape(-1)
        found = look_up(table, rows)
        norms = np.linalg.norm(found.astype(np.float64), ord=self.norm_type, axis=-1, keepdims=True)
        scale = np.where(norms > self.max_norm, self.max_norm / (norms + 1e-7), 1.0)
        table[rows] = (found * scale).astype(table.dtype)

    def extra_repr(self) -> str:
        """The sizes, and options that are not the default."""
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        for name, default in (
            ("padding_idx", None),
            ("max_norm", None),
            ("norm_type", 2.0),
            ("scale_grad_by_freq", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text + (", sparse=True" if self.sparse else "")


belong_to("lite.nn", Embedding)
