"""Transformers: one layer of an encoder or decoder, stacks of copies of it, and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite import get_default_dtype
from lite._arrays.dtypes import as_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng, reset
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.activations import gelu
from lite.nn.layers.attention import MultiheadAttention, xavier_uniform
from lite.nn.layers.containers import ModuleList
from lite.nn.layers.dropout import Dropout
from lite.nn.layers.linear import Linear
from lite.nn.layers.normalization import LayerNorm

Activation = str | Callable[[Any], Any]


def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, 0)


_ACTIVATIONS = {"relu": relu, "gelu": gelu}


class _Layer(Module):
    """Base of both layers: the feed-forward network and the order of normalisations."""

    _attentions: tuple[str, ...]

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
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        rng = None if rng is None else np.random.default_rng(rng)
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype, rng=rng
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype, rng=rng)
        self.dropout = Dropout(dropout, rng=rng)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype, rng=rng)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
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

    def _residual(self, x: Array, index: int, block: Callable[[Any], Any]) -> Array:
        """x plus a block of x, normalised before the block or after the sum."""
        norm, dropout = getattr(self, f"norm{index}"), getattr(self, f"dropout{index}")
        if self.norm_first:
            return x + dropout(block(norm(x)))
        return norm(x + dropout(block(x)))

    def _attended(self, x: Array, mask: Any, padding: Any, is_causal: bool) -> Array:
        """The self-attention, added to its input and normalised."""

        def attend(x: Array) -> Array:
            return self.self_attn(x, x, x, padding, need_weights=False, attn_mask=mask, is_causal=is_causal)[
                0
            ]

        return self._residual(x, 1, attend)

    def _feed_forward(self, x: Array) -> Array:
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

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Array,
        src_mask: Array | None = None,
        src_key_padding_mask: Array | None = None,
        is_causal: bool = False,
    ) -> Array:
        """Encode src; masks as `attn_mask` and `key_padding_mask` of `MultiheadAttention`."""
        x = self._attended(src, src_mask, src_key_padding_mask, is_causal)
        return self._residual(x, 2, self._feed_forward)


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

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_mask: Array | None = None,
        memory_mask: Array | None = None,
        tgt_key_padding_mask: Array | None = None,
        memory_key_padding_mask: Array | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Array:
        """Decode tgt, given memory; masks as `attn_mask` and `key_padding_mask` of `MultiheadAttention`."""

        def attend_memory(x: Array) -> Array:
            padding, mask = memory_key_padding_mask, memory_mask
            return self.multihead_attn(
                x, memory, memory, padding, need_weights=False, attn_mask=mask, is_causal=memory_is_causal
            )[0]

        x = self._attended(tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        return self._residual(self._residual(x, 2, attend_memory), 3, self._feed_forward)


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and a normalisation.

    Args:
        encoder_layer: the layer that is copied, weights included.
        num_layers: number of copies.
        norm: what comes last, if anything.
        enable_nested_tensor, mask_check: kept for compatibility. torch skips padded positions for speed, and
            gives zeros (normalised) there; here their values are computed as if they were none.

    Shapes:
        as for `TransformerEncoderLayer`.

    Raises:
        RuntimeError, AssertionError: inputs or masks that do not fit; see `TransformerEncoderLayer`.

    Source:
        torch.nn.TransformerEncoder; Vaswani et al. (2017), Attention is all you need (arXiv:1706.03762).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True, rng=0)
        >>> nn.TransformerEncoder(layer, 2).eval()(np.ones((5, 3, 8), np.float32)).shape
        (5, 3, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Array,
        mask: Array | None = None,
        src_key_padding_mask: Array | None = None,
        is_causal: bool | None = None,
    ) -> Array:
        """Encode src; masks as `attn_mask` and `key_padding_mask` of `MultiheadAttention`."""
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal)
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, and a normalisation.

    Args:
        decoder_layer: the layer that is copied, weights included.
        num_layers: number of copies.
        norm: what comes last, if anything.

    Shapes:
        as for `TransformerDecoderLayer`.

    Raises:
        RuntimeError, AssertionError: inputs or masks that do not fit; see `TransformerDecoderLayer`.

    Source:
        torch.nn.TransformerDecoder; Vaswani et al. (2017), Attention is all you need (arXiv:1706.03762).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, rng=0), 2)
        >>> decoder.eval()(np.ones((3, 5, 8), np.float32), np.ones((7, 5, 8), np.float32)).shape
        (3, 5, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_mask: Array | None = None,
        memory_mask: Array | None = None,
        tgt_key_padding_mask: Array | None = None,
        memory_key_padding_mask: Array | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Array:
        """Decode tgt, given memory; masks as `attn_mask` and `key_padding_mask` of `MultiheadAttention`."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to its output.

    Args:
        d_model: size of the last dimension of inputs and output.
        nhead: heads of the attentions.
        num_encoder_layers, num_decoder_layers: layers of either.
        dim_feedforward, dropout, activation: as for `TransformerEncoderLayer`.
        custom_encoder, custom_decoder: modules that take the place of encoder or decoder.
        layer_norm_eps, batch_first, norm_first, bias, device, dtype: as for `TransformerEncoderLayer`.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy, for initial values (matrices as
            Glorot and Bengio draw them) and dropout.

    Shapes:
        src (S, N, d_model), tgt and output (T, N, d_model); with `batch_first` N comes first; or without N.

    Dtypes:
        as for `MultiheadAttention`.

    Raises:
        RuntimeError: src and tgt of other sizes; masks whose shapes do not fit.
        AssertionError: see `MultiheadAttention`.

    Source:
        Vaswani et al. (2017), Attention is all you need (arXiv:1706.03762).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.Transformer(8, 2, 1, 1, 16, batch_first=True, rng=0).eval()
        >>> net(np.ones((5, 3, 8), np.float32), np.ones((5, 4, 8), np.float32)).shape
        (5, 4, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        rng = None if rng is None else np.random.default_rng(rng)
        form = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        options = (*form, batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*options, rng=rng)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*options, rng=rng)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        reset(self, rng)

    def reset_parameters(self, rng: Rng = None) -> None:
        """Reset all matrices to random values by Glorot and Bengio's method, in place; vectors stay."""
        rng = np.random.default_rng(rng)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                xavier_uniform(parameter.data, rng)

    def forward(
        self,
        src: Array,
        tgt: Array,
        src_mask: Array | None = None,
        tgt_mask: Array | None = None,
        memory_mask: Array | None = None,
        src_key_padding_mask: Array | None = None,
        tgt_key_padding_mask: Array | None = None,
        memory_key_padding_mask: Array | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Array:
        """Encode src, and decode tgt; masks as `attn_mask` and `key_padding_mask` of `MultiheadAttention`."""
        axis = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[axis] != tgt.shape[axis]:
            raise RuntimeError(
                f"src and tgt must agree in the batch dimension {axis}, got {tuple(src.shape)} and "
                f"{tuple(tgt.shape)}"
            )
        if not src.shape[-1:] == tgt.shape[-1:] == (self.d_model,):
            raise RuntimeError(
                f"the last dimension of src and tgt must be d_model={self.d_model}, got {tuple(src.shape)} "
                f"and {tuple(tgt.shape)}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device | None = None, dtype: DTypeLike | None = None
    ) -> Array:
        """A mask (sz, sz) that lets each position see itself and those before: -inf above the diagonal.

        Args:
            sz: length of the sequence.
            device: kept for compatibility.
            dtype: dtype of the mask; the default float dtype if not given.
        """
        resolved = get_default_dtype() if dtype is None else as_dtype(dtype)
        return np.triu(np.full((sz, sz), -np.inf, resolved), 1)


def _copies(module: Module, count: int) -> ModuleList:
    """Copies that share nothing: where the module draws from a generator, each draws from one of its own."""
    out = [copy.deepcopy(module) for _ in range(count)]
    for clone in out:
        spawned: dict[int, np.random.Generator] = {}
        for ours, its in zip(module.modules(), clone.modules(), strict=True):
            rng = getattr(ours, "_rng", None)
            if isinstance(rng, np.random.Generator):
                if id(rng) not in spawned:
                    spawned[id(rng)] = rng.spawn(1)[0]
                its._rng = spawned[id(rng)]
    return ModuleList(out)


belong_to(
    "lite.nn", Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer,
)  # fmt: skip
