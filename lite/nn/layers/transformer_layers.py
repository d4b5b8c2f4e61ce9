"""One layer of a transformer: TransformerEncoderLayer, TransformerDecoderLayer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lite.nn._modules.module import Module
from lite.nn.layers.attention import MultiheadAttention
from lite.nn.layers.dropout import Dropout
from lite.nn.layers.gelu import gelu
from lite.nn.layers.linear import Linear
from lite.nn.layers.normalization import LayerNorm

if TYPE_CHECKING:
    from lite.nn._modules.initial import Rng

Activation = str | Callable[[Any], Any]


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, 0)


_ACTIVATIONS = {"relu": relu, "gelu": gelu}


class _Layer(Module):
    """What both layers share: the feed-forward network, and where the normalisations come."""

    def __init__(
        self,
        attentions: tuple[str, ...],
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: Any,
        dtype: Any,
        rng: Rng,
    ) -> None:
        super().__init__()
        rng = None if rng is None else np.random.default_rng(rng)
        for name in attentions:
            attention = MultiheadAttention(
                d_model,
                nhead,
                dropout,
                bias,
                batch_first=batch_first,
                device=device,
                dtype=dtype,
                rng=rng,
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype, rng=rng)
        self.dropout = Dropout(dropout, rng=rng)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype, rng=rng)
        self.norm_first = norm_first
        numbers = range(1, len(attentions) + 2)
        for i in numbers:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
            self.add_module(f"norm{i}", norm)
        for i in numbers:
            self.add_module(f"dropout{i}", Dropout(dropout, rng=rng))
        if isinstance(activation, str):
            if activation not in _ACTIVATIONS:
                raise RuntimeError(f"activation must be 'relu', 'gelu' or a function, got {activation!r}")
            activation = _ACTIVATIONS[activation]
        self.activation = activation

    def _residual(self, x: Any, index: int, block: Callable[[Any], Any]) -> Any:
        """x plus what a block makes of it, normalised before the block or after the sum."""
        norm, dropout = getattr(self, f"norm{index}"), getattr(self, f"dropout{index}")
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with dropout, added to its input, and normalised.

    Args:
        d_model: size of the last dimension of input and output.
        nhead: heads of the attention.
        dim_feedforward: size between the two maps of the feed-forward network.
        dropout: probability of zeros in training mode: in the attention's weights, and in the outputs of
            attention, activation and network.
        activation: "relu", "gelu", or a function of arrays.
        layer_norm_eps: eps of the normalisations.
        batch_first: whether the batch dimension comes before the sequence.
        norm_first: whether to normalise before attention and network instead of after them.
        bias: whether maps and normalisations have biases.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy, for initial values and dropout.

    Shapes:
        input and output (S, N, d_model), with `batch_first` (N, S, d_model), or (S, d_model); parameters as
        for `MultiheadAttention`, `Linear` and `LayerNorm`.

    Dtypes:
        as for `MultiheadAttention`.

    Raises:
        RuntimeError: an unknown activation; masks whose shapes do not fit.
        AssertionError: inputs that do not fit; see `MultiheadAttention`.

    Source:
        Vaswani et al. (2017), Attention is all you need (arXiv:1706.03762).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True, rng=0).eval()
        >>> layer(np.ones((5, 3, 8), np.float32)).shape
        (5, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__(
            ("self_attn",),
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            rng,
        )

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Any:
        """Encode src; masks as `attn_mask` and `key_padding_mask` of `MultiheadAttention`."""

        def attend(x: Any) -> Any:
            return self.self_attn(
                x, x, x, src_key_padding_mask, need_weights=False, attn_mask=src_mask, is_causal=is_causal
            )[0]

        return self._residual(self._residual(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's output, and a feed-forward network.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
            device, dtype, rng: as for `TransformerEncoderLayer`.

    Shapes:
        tgt and output (T, N, d_model), memory (S, N, d_model); with `batch_first` N comes first; or no N.

    Dtypes:
        as for `MultiheadAttention`.

    Raises:
        RuntimeError: an unknown activation; masks whose shapes do not fit.
        AssertionError: inputs that do not fit; see `MultiheadAttention`.

    Source:
        Vaswani et al. (2017), Attention is all you need (arXiv:1706.03762).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, rng=0).eval()
        >>> layer(np.ones((3, 5, 8), np.float32), np.ones((7, 5, 8), np.float32)).shape
        (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__(
            ("self_attn", "multihead_attn"),
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            rng,
        )

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """Decode tgt, given memory; masks as `attn_mask` and `key_padding_mask` of `MultiheadAttention`."""

        def attend(x: Any) -> Any:
            return self.self_attn(
                x, x, x, tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask, is_causal=tgt_is_causal
            )[0]

        def attend_memory(x: Any) -> Any:
            return self.multihead_attn(
                x,
                memory,
                memory,
                memory_key_padding_mask,
                need_weights=False,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )[0]

        x = self._residual(self._residual(tgt, 1, attend), 2, attend_memory)
        return self._residual(x, 3, self._feed_forward)
