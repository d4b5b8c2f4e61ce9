"""Every layer with the kinds of arguments that it takes: what tests of all layers go through.

`make` takes a library, lite.nn or torch.nn, so that both build the same layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A layer, and what it is called with.

    Attributes:
        title: of the test.
        make: builds it from a library.
        inputs: shapes of its arrays of floats; a tuple of shapes for a tuple of arrays, an array as it is.
        options: keyword arguments of the call.
    """

    title: str
    make: Callable[[Any], Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any] = {}  # noqa: RUF012

    def arrays(self, dtype: Any = np.float32, seed: int = 0) -> tuple[Any, ...]:
        """Arrays to call it with."""
        rng = np.random.default_rng(seed)

        def array(given: Any) -> Any:
            if isinstance(given, np.ndarray):
                return given
            if given and isinstance(given[0], tuple):
                return tuple(map(array, given))
            return rng.standard_normal(given).astype(dtype)

        return tuple(map(array, self.inputs))

    def call_options(self, dtype: Any = np.float32) -> dict[str, Any]:
        """Its keyword arguments, floats in a dtype."""
        return {
            key: value.astype(dtype) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
            for key, value in self.options.items()
        }


def _held_parameters(nn: Any) -> Any:
    class Held(nn.Module):  # type: ignore[misc]  # of either library
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList([nn.LayerNorm(3).weight for _ in range(2)])
            norm = nn.LayerNorm(3)
            self.ends = nn.ParameterDict({"scale": norm.weight, "bias": norm.bias})

        def forward(self, x: Any) -> Any:
            for weight in self.weights:
                x = x * weight
            return x * self.ends["scale"] + self.ends["bias"]

        def __repr__(self) -> str:  # without dtypes, which the libraries name differently
            return "Held()"

    return Held()


CAUSAL = np.triu(np.full((6, 6), -np.inf, np.float32), 1)
PADDED = np.arange(6) >= np.array([[6], [4], [5], [1], [6]])
IDS = np.array([[1, 2, 0], [0, 5, 5]])


def _of_torchrl(nn: Any, name: str, *args: Any, **options: Any) -> Any:
    """A network that is torchrl's where the library is torch.nn."""
    if not hasattr(nn, name):
        from torchrl import modules
        from torchrl.modules.models import models

        nn = modules if hasattr(modules, name) else models
    return getattr(nn, name)(*args, **options)


def _mlp(nn: Any) -> Any:
    norms = [{"normalized_shape": n} for n in (8, 4)]
    return _of_torchrl(nn, "MLP", 3, (2, 2), num_cells=[8, 4], norm_class=nn.LayerNorm, norm_kwargs=norms)


_IMAGES: dict[str, Any] = {
    "in_features": 3, "num_cells": [4, 4], "kernel_sizes": [3, 2], "strides": 2, "paddings": 0,
}  # fmt: skip
_HEAD = {"in_features": 16, "num_cells": [5]}


def _networks() -> list[Case]:
    """Networks of policies: name, arguments, inputs."""
    found: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
        ("ConvNet", (3,), {"num_cells": [4], "aggregator_class": None}, ((2, 3, 6, 6),)),
        ("ConvNet", (), _IMAGES, ((2, 5, 3, 9, 9),)),
        ("SqueezeLayer", ((-3, -1),), {}, ((2, 1, 3, 1),)),
        ("NoisyLinear", (3, 4), {}, ((5, 3),)),
        ("NoisyLinear", (3, 4, False), {"use_exploration_type": False}, ((2, 5, 3),)),
        ("DuelingMlpDQNet", (4, 1, {"in_features": 3, "out_features": 16}, _HEAD), {}, ((5, 3),)),
        ("DuelingCnnDQNet", (4, 1, _IMAGES, _HEAD), {}, ((2, 3, 9, 9),)),
        ("DdpgMlpActor", (2, {"in_features": 3}), {}, ((5, 3),)),
        ("DdpgMlpQNet", ({"in_features": 3, "out_features": 14}, _HEAD), {}, ((5, 3), (5, 2))),
        ("DdpgCnnActor", (2, _IMAGES, {"in_features": 16, "num_cells": 5}), {}, ((2, 3, 9, 9),)),
        ("DdpgCnnQNet", (_IMAGES, {"in_features": 6, "depth": 1}), {}, ((2, 3, 9, 9), (2, 2))),
    ]
    return [
        Case(
            f"{name} {number}",
            lambda nn, name=name, args=args, options=options: _of_torchrl(nn, name, *args, **options),
            inputs,
        )
        for number, (name, args, options, inputs) in enumerate(found)
    ]


def _encoder_layer(nn: Any, **options: Any) -> Any:
    return nn.TransformerEncoderLayer(8, 2, 12, 0.0, **options)


def _decoder_layer(nn: Any, **options: Any) -> Any:
    return nn.TransformerDecoderLayer(8, 2, 12, 0.0, **options)


CASES: list[Case] = [
    *_networks(),
    Case("Linear", lambda nn: nn.Linear(3, 4), ((5, 3),)),
    Case("Linear of no rows", lambda nn: nn.Linear(3, 4), ((0, 3),)),
    Case("Linear without bias", lambda nn: nn.Linear(3, 4, bias=False), ((2, 5, 3),)),
    Case("Bilinear", lambda nn: nn.Bilinear(3, 4, 2), ((2, 5, 3), (2, 5, 4))),
    Case("Bilinear of vectors, without bias", lambda nn: nn.Bilinear(3, 4, 2, bias=False), ((3,), (4,))),
    Case("Identity", lambda nn: nn.Sequential(nn.Linear(3, 3), nn.Identity(4, unused=1)), ((5, 3),)),
    Case("Flatten", lambda nn: nn.Sequential(nn.Linear(3, 4), nn.Flatten(0, 1)), ((2, 5, 3),)),
    Case("Embedding", lambda nn: nn.Embedding(6, 3), (IDS,)),
    Case("Embedding with padding", lambda nn: nn.Embedding(6, 3, padding_idx=-1), (IDS[0],)),
    Case("Embedding with max_norm", lambda nn: nn.Embedding(6, 3, max_norm=0.5, norm_type=1.0), (IDS,)),
    Case("LayerNorm", lambda nn: nn.LayerNorm((5, 3)), ((2, 5, 3),)),
    Case("LayerNorm without weight", lambda nn: nn.LayerNorm(3, elementwise_affine=False), ((2, 3),)),
    Case("LayerNorm without bias", lambda nn: nn.LayerNorm(3, bias=False), ((3,),)),
    Case("RMSNorm", lambda nn: nn.RMSNorm(3, eps=1e-3), ((2, 5, 3),)),
    Case("RMSNorm of a vector", lambda nn: nn.RMSNorm([3]), ((3,),)),
    Case("BatchNorm1d", lambda nn: nn.BatchNorm1d(3).eval(), ((5, 3),)),
    Case("BatchNorm1d of sequences", lambda nn: nn.BatchNorm1d(3, eps=1e-2).eval(), ((5, 3, 2),)),
    Case("BatchNorm1d in training", lambda nn: nn.BatchNorm1d(3), ((5, 3),)),
    Case("BatchNorm1d with averages", lambda nn: nn.BatchNorm1d(3, momentum=None), ((5, 3, 2),)),
    Case("BatchNorm1d without averages", lambda nn: nn.BatchNorm1d(3, track_running_stats=False), ((5, 3),)),
    Case("BatchNorm1d without weight", lambda nn: nn.BatchNorm1d(3, affine=False).eval(), ((5, 3),)),
    Case("BatchNorm2d", lambda nn: nn.BatchNorm2d(3).eval(), ((2, 3, 4, 5),)),
    Case("BatchNorm2d in training", lambda nn: nn.BatchNorm2d(3, bias=False), ((2, 3, 4, 5),)),
    Case("GroupNorm", lambda nn: nn.GroupNorm(2, 4), ((2, 4, 3, 5),)),
    Case("GroupNorm of one group", lambda nn: nn.GroupNorm(1, 4, eps=1e-2, bias=False), ((2, 4, 3),)),
    Case("GroupNorm without weight", lambda nn: nn.GroupNorm(3, 6, affine=False), ((5, 6),)),
    Case("Dropout", lambda nn: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)).eval(), ((5, 3),)),
    *(
        Case(
            name,
            lambda nn, name=name, options=options: nn.Sequential(
                nn.Linear(3, 4), getattr(nn, name)(**options)
            ),
            ((5, 3),),
        )
        for name, options in (
            ("ReLU", {}), ("LeakyReLU", {"negative_slope": 0.2}), ("ELU", {"alpha": 0.5}), ("GELU", {}),
            ("CELU", {"alpha": 0.5}), ("SELU", {}),
            ("GELU", {"approximate": "tanh"}), ("SiLU", {"inplace": True}), ("Mish", {}), ("Tanh", {}),
            ("Sigmoid", {}), ("Softplus", {"beta": 2.0}), ("Softmax", {"dim": -1}),
            ("LogSoftmax", {"dim": 0}),
        )
    ),
    Case("Conv1d", lambda nn: nn.Conv1d(3, 4, 2, stride=2, padding=1), ((5, 3, 8),)),
    Case(
        "Conv1d of a sequence",
        lambda nn: nn.Conv1d(4, 4, 3, padding="same", padding_mode="reflect"),
        ((4, 8),),
    ),
    Case("Conv1d by groups", lambda nn: nn.Conv1d(4, 6, 3, groups=2, dilation=2, bias=False), ((5, 4, 8),)),
    Case("Conv2d", lambda nn: nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 2)), ((5, 3, 8, 7),)),
    Case(
        "Conv2d of an image", lambda nn: nn.Conv2d(4, 4, 3, padding=2, padding_mode="circular"), ((4, 6, 7),)
    ),
    Case(
        "Conv2d by channel",
        lambda nn: nn.Conv2d(4, 8, 3, groups=4, dilation=2, padding=1, padding_mode="replicate"),
        ((2, 4, 8, 8),),
    ),
    Case(
        "ConvTranspose1d",
        lambda nn: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        ((5, 4, 7),),
    ),
    Case(
        "ConvTranspose2d",
        lambda nn: nn.ConvTranspose2d(3, 4, (3, 2), stride=(2, 1), padding=(0, 1), dilation=(1, 2)),
        ((5, 3, 4, 6),),
    ),
    Case("Unflatten", lambda nn: nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (2, -1))), ((5, 3),)),
    Case("Conv2d of points", lambda nn: nn.Conv2d(3, 4, 1), ((5, 3, 4, 4),)),
    Case(
        "MaxPool2d",
        lambda nn: nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(3, 2, 1, ceil_mode=True)),
        ((5, 3, 8, 8),),
    ),
    Case(
        "MaxPool2d with positions",
        lambda nn: nn.MaxPool2d((2, 3), 2, 1, 2, True, True),
        ((3, 8, 8),),
    ),
    Case(
        "AvgPool2d",
        lambda nn: nn.Sequential(nn.Conv2d(3, 4, 1), nn.AvgPool2d(3, 2, 1, True, False)),
        ((5, 3, 8, 8),),
    ),
    Case("AdaptiveAvgPool2d", lambda nn: nn.AdaptiveAvgPool2d((3, 2)), ((2, 3, 8, 7),)),
    Case("AvgPool2d by a number", lambda nn: nn.AvgPool2d(2, 3, 0, True, divisor_override=3), ((3, 5, 8),)),
    Case("RNNCell", lambda nn: nn.RNNCell(3, 4), ((5, 3), (5, 4))),
    Case("RNNCell with relu", lambda nn: nn.RNNCell(3, 4, bias=False, nonlinearity="relu"), ((3,),)),
    Case("GRUCell", lambda nn: nn.GRUCell(3, 4), ((5, 3), (5, 4))),
    Case("GRUCell without bias", lambda nn: nn.GRUCell(3, 4, bias=False), ((3,), (4,))),
    Case("LSTMCell", lambda nn: nn.LSTMCell(3, 4), ((5, 3), ((5, 4), (5, 4)))),
    Case("LSTMCell of a vector", lambda nn: nn.LSTMCell(3, 4, bias=False), ((3,),)),
    Case(
        "RNN",
        lambda nn: nn.RNN(3, 4, num_layers=2, nonlinearity="relu", batch_first=True),
        ((5, 6, 3), (2, 5, 4)),
    ),
    Case("RNN of a sequence", lambda nn: nn.RNN(3, 4, bidirectional=True), ((6, 3),)),
    Case("GRU", lambda nn: nn.GRU(3, 4, num_layers=2, bidirectional=True), ((6, 5, 3), (4, 5, 4))),
    Case("GRU of a sequence", lambda nn: nn.GRU(3, 4, bias=False), ((6, 3), (1, 4))),
    Case("LSTM", lambda nn: nn.LSTM(3, 4, batch_first=True, bidirectional=True), ((5, 6, 3),)),
    Case(
        "LSTM with a projection", lambda nn: nn.LSTM(3, 4, 2, False, proj_size=2), ((6, 3), ((2, 2), (2, 4)))
    ),
    Case("MultiheadAttention", lambda nn: nn.MultiheadAttention(8, 2), ((4, 5, 8), (6, 5, 8), (6, 5, 8))),
    Case(
        "MultiheadAttention of sequences",
        lambda nn: nn.MultiheadAttention(8, 4),
        ((4, 8), (6, 8), (6, 8)),
        {"average_attn_weights": False},
    ),
    Case(
        "MultiheadAttention with more keys",
        lambda nn: nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True),
        ((5, 6, 8),) * 3,
        {"attn_mask": CAUSAL, "key_padding_mask": np.where(PADDED, -np.inf, 0).astype(np.float32)},
    ),
    Case(
        "MultiheadAttention of other sizes",
        lambda nn: nn.MultiheadAttention(8, 2, bias=False, kdim=3, vdim=5),
        ((4, 5, 8), (6, 5, 3), (6, 5, 5)),
    ),
    Case("TransformerEncoderLayer", lambda nn: _encoder_layer(nn), ((6, 5, 8),), {"src_mask": CAUSAL}),
    Case(
        "TransformerEncoderLayer, norm first",
        lambda nn: _encoder_layer(nn, norm_first=True, activation="gelu", batch_first=True, bias=False),
        ((5, 6, 8),),
        {"src_key_padding_mask": PADDED},
    ),
    Case(
        "TransformerEncoder",
        lambda nn: nn.TransformerEncoder(_encoder_layer(nn), 2, nn.LayerNorm(8), enable_nested_tensor=False),
        ((6, 8),),
    ),
    Case(
        "TransformerDecoderLayer", lambda nn: _decoder_layer(nn), ((6, 5, 8), (4, 5, 8)), {"tgt_mask": CAUSAL}
    ),
    Case(
        "TransformerDecoder",
        lambda nn: nn.TransformerDecoder(_decoder_layer(nn, norm_first=True), 2),
        ((6, 8), (4, 8)),
    ),
    Case(
        "Transformer",
        lambda nn: nn.Transformer(8, 2, 1, 2, 12, 0.0, batch_first=True),
        ((5, 6, 8), (5, 4, 8)),
        {"memory_key_padding_mask": PADDED},
    ),
    Case("MLP", _mlp, ((5, 3),)),
    Case(
        "ModuleList and ModuleDict",
        lambda nn: nn.Sequential(nn.ModuleList([nn.Linear(3, 3)])[0], nn.ModuleDict({"a": nn.Tanh()})["a"]),
        ((5, 3),),
    ),
    Case("ParameterList and ParameterDict", _held_parameters, ((5, 3),)),
]  # fmt: skip
TITLES = [case.title for case in CASES]
