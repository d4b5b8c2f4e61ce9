"""Attention: MultiheadAttention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import Dtype, compute_dtype, is_floating
from lite._arrays.formulas import accumulate
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import is_traced, unbroadcast, value_of, with_vjp
from lite.nn._modules.initial import Rng, empty_parameter, fill, fill_normal, fill_uniform, reset
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.dropout import dropout, generator
from lite.nn.layers.large_arrays import softmax_shares
from lite.nn.layers.linear import Linear, linear
from lite.nn.layers.masked_attention import BLOCK, ScoreRule, attention_in_blocks, divided, powers_of
from lite.nn.layers.windows import pad


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear, under the name that torch shows for the output projection."""


class MultiheadAttention(Module):
    """Means of values, weighted by how well their keys fit each query; in several heads, side by side.

    softmax(Q Kᵀ / √d) V per head of size d = embed_dim / num_heads, with queries, keys and values mapped
    before, and the joined heads after, by learned weights.

    Args:
        embed_dim: size of queries and of the output.
        num_heads: heads; they share embed_dim.
        dropout: probability of a zero among the weights, in training mode.
        bias: whether the maps have biases.
        add_bias_kv, add_zero_attn: append a learned key and value, or a key and a value of zeros.
        kdim, vdim: sizes of keys and values; embed_dim if not given.
        batch_first: whether the batch dimension of inputs and output comes before the sequence.
        device, dtype, rng: as for `Linear`; initial weights are those of Glorot and Bengio.

    Shapes:
        query (L, N, embed_dim), key (S, N, kdim) and value (S, N, vdim), with `batch_first` N comes first, or
        all without N; output like the query. `in_proj_weight` (3 embed_dim, embed_dim), or, for another kdim
        or vdim, `q_proj_weight` (embed_dim, embed_dim), `k_proj_weight` (embed_dim, kdim) and
        `v_proj_weight` (embed_dim, vdim); `in_proj_bias` (3 embed_dim,); `bias_k` and `bias_v`
        (1, 1, embed_dim); `out_proj.weight` (embed_dim, embed_dim) and `out_proj.bias` (embed_dim,).

    Raises:
        ValueError: embed_dim or num_heads not positive.
        AssertionError: num_heads does not divide embed_dim; inputs or masks of other numbers of dimensions or
            dtypes.
        RuntimeError: inputs or masks whose shapes do not fit; is_causal without attn_mask.

    Source:
        Vaswani et al. (2017), Attention is all you need (arXiv:1706.03762).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.MultiheadAttention(8, 2, batch_first=True, rng=0)
        >>> x = np.ones((5, 3, 8), np.float32)
        >>> out, weights = layer(x, x, x)
        >>> out.shape, weights[0, 0].round(3).tolist()
        ((5, 3, 8), [0.3330000042915344, 0.3330000042915344, 0.3330000042915344])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be positive, got {embed_dim} and {num_heads}")
        super().__init__()
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim must be divisible by num_heads={num_heads}, got {embed_dim}")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        packed = self._is_packed
        shapes: dict[str, tuple[int, ...] | None] = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if packed else None,
            "q_proj_weight": None if packed else (embed_dim, embed_dim),
            "k_proj_weight": None if packed else (embed_dim, self.kdim),
            "v_proj_weight": None if packed else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(name, None if shape is None else empty_parameter(shape, device, dtype))
        rng = None if rng is None else np.random.default_rng(rng)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype, rng=rng)
        self._rng: Rng = rng
        reset(self, rng)

    @property
    def _is_packed(self) -> bool:
        """Whether one matrix maps queries, keys and values."""
        return self.kdim == self.embed_dim == self.vdim

    def reset_parameters(self, rng: Rng = None) -> None:
        """Reset the weights of the inputs to random values and the biases to zero, in place."""
        rng = np.random.default_rng(rng)
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            xavier_uniform(self._held(name), rng)
        fill(self._held("in_proj_bias"), 0.0)
        fill(self.out_proj._held("bias"), 0.0)
        for name in ("bias_k", "bias_v"):
            fill_normal(self._held(name), rng)
            if isinstance(self._held(name), np.ndarray):
                self._held(name)[...] /= math.sqrt(self.embed_dim)

    def forward(
        self,
        query: Array,
        key: Array,
        value: Array,
        key_padding_mask: Array | None = None,
        need_weights: bool = True,
        attn_mask: Array | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """Attend, and return output and weights.

        Args:
            query, key, value: (L, N, ·), (S, N, ·), (S, N, ·) or as `batch_first` says, or without N.
            key_padding_mask: (N, S), or (S,) without a batch: bool, true for keys to leave out, or floats
                that are added to their scores.
            need_weights: whether to return the weights; None otherwise.
            attn_mask: (L, S) or (N num_heads, L, S): bool, true for pairs to leave out, or floats that are
                added to the scores.
            average_attn_weights: whether the weights are means over heads.
            is_causal: whether `attn_mask`, which must be given, is the causal mask.

        Returns:
            the output, and weights (N, L, S), or (N, num_heads, L, S) if not averaged, without N if the
            inputs are. A query that may see no key has NaN weights and output; with `need_weights=False` it
            gets zeros before the output projection.
        """
        self._check(query, key, value, key_padding_mask, attn_mask, is_causal)
        batched, same = query.ndim == 3, query is key and key is value
        weight = self.out_proj._tensor("weight")
        compute, result = compute_dtype(query.dtype, key.dtype, value.dtype, weight.dtype)
        arrays = [query] if same else [query, key, value]
        arrays = [(a if batched else a[None]).astype(compute, copy=False) for a in arrays]
        heads = [self._heads(x, not batched or self.batch_first) for x in self._project(arrays)]
        q, k, v = self._extended(heads, compute)
        mask = self._mask(key_padding_mask, attn_mask, q, compute)

        q = q * compute.type(1.0 / math.sqrt(self.head_dim))
        dropping = self.training and self.dropout > 0.0
        if need_weights or dropping:
            weights = _weights(q, k, mask, np.nan if need_weights else 1.0)
            if dropping:
                weights = dropout(weights, self.dropout, generator(self))
            out = np.matmul(weights, v)
        else:
            out = _attended(q, k, v, mask)
        out = out.transpose((0, 2, 1, 3) if not batched or self.batch_first else (2, 0, 1, 3))
        out = linear(
            out.reshape(*out.shape[:2], self.embed_dim), *map(self.out_proj._tensor, ("weight", "bias"))
        )
        out = (out if batched else out[0]).astype(result, copy=False)
        if not need_weights:
            return out, None
        weights = weights.mean(1) if average_attn_weights else weights
        return out, (weights if batched else weights[0]).astype(result, copy=False)

    def _project(self, arrays: list[Any]) -> list[Any]:
        """Projected queries, keys and values; one product if all come from one array."""
        size = self.embed_dim
        weight, bias = self._tensor("in_proj_weight"), self._tensor("in_proj_bias")
        if len(arrays) == 1 and weight is not None:
            x = linear(arrays[0], weight, bias)
            return [x[..., i : i + size] for i in (0, size, 2 * size)]
        starts = (0, size, 2 * size)
        if weight is None:
            weights = [self._tensor(name) for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight")]
        else:
            weights = [weight[i : i + size] for i in starts]
        biases = [None if bias is None else bias[i : i + size] for i in starts]
        return [linear(x, w, b) for x, w, b in zip(arrays, weights, biases, strict=True)]

    def _heads(self, x: Array, batch_first: bool) -> Array:
        """(N, heads, L, size of a head) of (N, L, embed_dim) or (L, N, embed_dim)."""
        split = x.reshape(*x.shape[:2], self.num_heads, self.head_dim)
        return split.transpose((0, 2, 1, 3) if batch_first else (1, 2, 0, 3))

    def _extended(self, heads: list[Any], compute: Dtype) -> list[Any]:
        """With the keys and values that come after those given."""
        q, *rest = heads
        ends: list[list[Any]] = [[], []]
        if self._tensor("bias_k") is not None:
            for end, name in zip(ends, ("bias_k", "bias_v"), strict=True):
                end.append(self._heads(self._tensor(name).astype(compute, copy=False), True))
        if self.add_zero_attn:
            for end in ends:
                end.append(np.zeros((1, self.num_heads, 1, self.head_dim), compute))
        shape = (q.shape[0], self.num_heads, 1, self.head_dim)
        for i, end in enumerate(ends):
            if end:
                rest[i] = np.concatenate([rest[i], *(np.broadcast_to(x, shape) for x in end)], axis=2)
        return [q, *rest]

    def _mask(
        self, key_padding_mask: Array | None, attn_mask: Array | None, q: Array, compute: Dtype
    ) -> Array | None:
        """The bias of the scores (N, heads, L, S): 0 where both masks allow attention, else -inf."""
        batch = q.shape[0]
        added = ((self._tensor("bias_k") is not None) + self.add_zero_attn,)
        masks = []
        if attn_mask is not None:
            mask = pad(_floats(attn_mask, compute), (0,), added)
            masks.append(mask if mask.ndim == 2 else mask.reshape(batch, self.num_heads, *mask.shape[1:]))
        if key_padding_mask is not None:
            mask = pad(_floats(key_padding_mask, compute), (0,), added)
            masks.append(mask.reshape(batch, 1, 1, mask.shape[-1]))
        return None if not masks else masks[0] if len(masks) == 1 else masks[0] + masks[1]

    def _check(
        self, query: Array, key: Array, value: Array, key_padding_mask: Array | None, attn_mask: Array | None,
        is_causal: bool,
    ) -> None:  # fmt: skip
        """Raise torch's error for inputs or masks whose shapes do not fit."""
        dims = query.ndim
        if dims not in (2, 3) or key.ndim != dims or value.ndim != dims:
            raise AssertionError(
                "query, key and value must all have 3 dimensions, or 2 without a batch, got shapes "
                f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
            )
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "is_causal says what attn_mask is, got is_causal=True without attn_mask; "
                "Transformer.generate_square_subsequent_mask makes one"
            )
        # torch checks key and value against each other; with one matrix for both, sizes only in products
        of_size = RuntimeError if self._is_packed else AssertionError
        if key.shape[:-1] != value.shape[:-1] or (self._is_packed and key.shape != value.shape):
            raise AssertionError(
                "key and value must agree in all but the last dimension (in that, too, without kdim and "
                f"vdim), got {tuple(key.shape)} and {tuple(value.shape)}"
            )
        for name, x, size, error in (
            ("query", query, self.embed_dim, AssertionError),
            ("key", key, self.kdim, of_size),
            ("value", value, self.vdim, of_size),
        ):
            if x.shape[-1] != size:
                raise error(f"the last dimension of {name} must be {size}, got {tuple(x.shape)}")
        time = 1 if dims == 3 and self.batch_first else 0
        batch: tuple[int, ...] = (query.shape[1 - time],) if dims == 3 else ()
        if dims == 3 and key.shape[1 - time] != batch[0]:
            raise RuntimeError(
                f"query and key must agree in the batch dimension {1 - time}, got {tuple(query.shape)} and "
                f"{tuple(key.shape)}"
            )
        pairs = (query.shape[time], key.shape[time])
        per_head = (math.prod(batch) * self.num_heads, *pairs)
        per_head_alone = not batch and attn_mask is not None and attn_mask.ndim == 3
        _check_mask(
            "attn_mask", attn_mask, [pairs, per_head], AssertionError if per_head_alone else RuntimeError
        )
        _check_mask("key_padding_mask", key_padding_mask, [(*batch, pairs[1])], AssertionError)


def _check_mask(name: str, mask: Array | None, shapes: list[tuple[int, ...]], error: type[Exception]) -> None:
    """Raise `error` for another shape, and AssertionError for other dimensions or dtypes."""
    if mask is None:
        return
    if mask.dtype.kind != "b" and not is_floating(mask.dtype):
        raise AssertionError(f"{name} must be of bools or floats, got {mask.dtype}")
    if tuple(mask.shape) not in shapes:
        error = error if mask.ndim in map(len, shapes) else AssertionError
        wanted = " or ".join(map(str, shapes))
        raise error(f"{name} must have shape {wanted}, got {tuple(mask.shape)}")


def xavier_uniform(weight: Array, rng: np.random.Generator) -> None:
    """Draw from U(-a, a), a = √(6 / (rows + columns)) (Glorot and Bengio, 2010), if there is data."""
    if weight is not None:
        fill_uniform(weight, math.sqrt(6.0 / sum(weight.shape[:2])), rng)


def _floats(mask: Array, compute: Dtype) -> Array:
    """A mask as numbers to add: a true entry of a bool mask is -inf."""
    if mask.dtype.kind == "b":
        return np.where(mask, compute.type(-np.inf), compute.type(0))
    return mask.astype(compute, copy=False)


def _attended(q: Array, k: Array, v: Array, mask: Array | None) -> Array:
    """Means of values; scores are as many as all pairs, and those of plain arrays exist for a block only."""
    traced = is_traced(q, k, mask)
    # Ten tokens of an encoder layer took a fifth longer the long way.
    if traced or math.prod(q.shape[:3]) * k.shape[2] > BLOCK:
        out = attention_in_blocks(q, k, v, mask, ScoreRule(empty=1.0))
        if out is not None:
            return out
    if traced:
        return np.matmul(_weights(q, k, mask, 1.0), v)
    powers, total = powers_of(_scores(q, k, mask), mask is not None, 1.0)
    return divided(np.matmul(powers, v), total)  # fewer to divide than weights


def _weights(q: Array, k: Array, mask: Array | None, empty: float) -> Array:
    """How much of each value a query gets, (N, heads, L, S); one node where arrays are traced."""
    if not is_traced(q, k, mask):
        return divided(*powers_of(_scores(q, k, mask), mask is not None, empty))
    a, b, added = value_of(q), value_of(k), value_of(mask)
    weights = divided(*powers_of(_scores(a, b, added), added is not None, empty))

    def vjp(g: Array) -> tuple[Any, ...]:
        shares = softmax_shares(g, weights, -1)
        of_mask = unbroadcast(shares, mask.shape) if isinstance(mask, TracedArray) else None
        return np.matmul(shares, b), np.matmul(shares.swapaxes(-1, -2), a), of_mask

    return with_vjp(weights, (q, k, mask), vjp)


def _scores(q: Array, k: Array, mask: Array | None) -> Array:
    scores = np.matmul(q, k.swapaxes(-1, -2))
    return scores if mask is None else accumulate(scores, mask)


belong_to("lite.nn", MultiheadAttention)
