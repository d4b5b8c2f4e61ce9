"""Networks of torch through `torch.onnx.export`, by both exporters: values and gradients."""

import io
import warnings
from typing import Any

import numpy as np
import pytest

from lite import TensorDict, grad, nn

torch = pytest.importorskip("torch")
T = torch.nn


class Sequence(T.Module):
    """A recurrent layer and a linear one."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.inner = kind(6, 5, **options)
        self.outer = T.Linear(10 if options.get("bidirectional") else 5, 3)

    def forward(self, x: Any) -> Any:
        return self.outer(self.inner(x)[0])


class Dueling(T.Module):
    """A network with two heads that are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.value, self.advantage = T.Linear(6, 8), T.Linear(8, 1), T.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        h = torch.relu(self.body(x))
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(-1, keepdim=True)


class Gaussian(T.Module):
    """Mean and deviation of an action, squashed."""

    def __init__(self) -> None:
        super().__init__()
        self.net = T.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        loc, scale = self.net(x).chunk(2, -1)
        return torch.cat([torch.tanh(loc), torch.nn.functional.softplus(scale).clamp(1e-4, 1.0)], -1)


class Words(T.Module):
    """Embeddings with a masked mean."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = T.Embedding(11, 6), T.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        ids = x.abs().mul(3).long() % 11
        shown = (ids > 0).unsqueeze(-1)
        summed = torch.where(shown, self.table(ids), torch.zeros(())).sum(1)
        return self.out(summed / shown.sum(1).clamp(min=1))


def residual() -> Any:
    class Block(T.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = T.Conv2d(4, 4, 3, padding=1), T.Conv2d(4, 4, 3, padding=1, bias=False)
            self.n = T.BatchNorm2d(4)

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.b(torch.relu(self.n(self.a(x)))))

    return T.Sequential(
        T.Conv2d(3, 4, 7, 2, 3), T.MaxPool2d(3, 2, 1), Block(), T.AdaptiveAvgPool2d(1), T.Flatten()
    )


FLAT, PICTURE, LINE, TIMES = (5, 6), (2, 3, 12, 12), (2, 3, 16), (7, 2, 6)
NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "tanh": (lambda: T.Sequential(T.Linear(6, 8), T.Tanh(), T.Linear(8, 3)), FLAT),
    "relu": (lambda: T.Sequential(T.Linear(6, 8), T.ReLU(), T.LayerNorm(8), T.Linear(8, 3, bias=False)),
        FLAT),
    "gelu": (lambda: T.Sequential(T.Linear(6, 8), T.GELU(), T.Linear(8, 3), T.Softmax(-1)), FLAT),
    "silu": (lambda: T.Sequential(T.Linear(6, 8), T.SiLU(), T.Linear(8, 3), T.LogSoftmax(-1)), FLAT),
    "elu": (lambda: T.Sequential(T.Linear(6, 8), T.ELU(), T.Linear(8, 8), T.LeakyReLU(), T.Linear(8, 3)),
        FLAT),
    "mish": (lambda: T.Sequential(T.Linear(6, 8), T.Mish(), T.Linear(8, 8), T.Hardswish(), T.Linear(8, 3)),
        FLAT),
    "prelu": (lambda: T.Sequential(T.Linear(6, 8), T.PReLU(8), T.Linear(8, 3), T.Softplus()), FLAT),
    "batchnorm": (lambda: T.Sequential(T.Linear(6, 8), T.BatchNorm1d(8), T.Sigmoid(), T.Linear(8, 3)),
        FLAT),
    "dropout": (lambda: T.Sequential(T.Linear(6, 8), T.Dropout(0.5), T.ReLU6(), T.Linear(8, 3)), FLAT),
    "dueling": (Dueling, FLAT),
    "gaussian": (Gaussian, FLAT),
    "words": (Words, FLAT),
    "atari": (lambda: T.Sequential(T.Conv2d(3, 4, 4, 2), T.ReLU(), T.Conv2d(4, 4, 3), T.Flatten(),
        T.Linear(36, 3)), PICTURE),
    "residual": (residual, PICTURE),
    "groups": (lambda: T.Sequential(T.Conv2d(3, 6, 3, groups=3, dilation=2), T.GroupNorm(2, 6), T.SiLU()),
        PICTURE),
    "instance": (lambda: T.Sequential(T.Conv2d(3, 4, 3, bias=False), T.InstanceNorm2d(4, affine=True),
        T.AvgPool2d(2)), PICTURE),
    "transposed": (lambda: T.Sequential(T.ConvTranspose2d(3, 4, 3, 2, 1, 1), T.ReLU(), T.Conv2d(4, 2, 1)),
        PICTURE),
    "upsample": (lambda: T.Sequential(T.Upsample(scale_factor=2, mode="bilinear"), T.Conv2d(3, 2, 3)),
        PICTURE),
    "nearest": (lambda: T.Sequential(T.Conv2d(3, 2, 3), T.Upsample(scale_factor=2)), PICTURE),
    "padding": (lambda: T.Sequential(T.ReflectionPad2d(1), T.Conv2d(3, 4, 3, padding="same")), PICTURE),
    "shuffle": (lambda: T.Sequential(T.Conv2d(3, 8, 3), T.PixelShuffle(2)), PICTURE),
    "line": (lambda: T.Sequential(T.Conv1d(3, 4, 5, 2, 2), T.GELU(), T.MaxPool1d(2), T.Flatten()), LINE),
    "volume": (lambda: T.Sequential(T.Conv3d(2, 3, 2), T.ReLU(), T.AvgPool3d(2)), (1, 2, 5, 5, 5)),
    "rnn": (lambda: Sequence(T.RNN, nonlinearity="relu"), TIMES),
    "gru": (lambda: Sequence(T.GRU, num_layers=2), TIMES),
    "lstm": (lambda: Sequence(T.LSTM), TIMES),
    "both ways": (lambda: Sequence(T.LSTM, bidirectional=True), TIMES),
    "gru both ways": (lambda: Sequence(T.GRU, bidirectional=True), TIMES),
    "attention": (lambda: T.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True), TIMES),
    "encoder": (lambda: T.TransformerEncoder(T.TransformerEncoderLayer(6, 1, 8, 0.0), 2,
        enable_nested_tensor=False), TIMES),
    "bilinear": (lambda: T.Sequential(T.Linear(6, 6), T.Unflatten(1, (2, 3)), T.Flatten(), T.Linear(6, 2)),
        FLAT),
}  # fmt: skip


def exported(net: Any, x: np.ndarray, dynamo: bool) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            program = torch.onnx.export(net, (torch.tensor(x),), dynamo=True, verbose=False, optimize=False)
            return program.model_proto.SerializeToString()
        buffer = io.BytesIO()
        torch.onnx.export(net, (torch.tensor(x),), buffer, dynamo=False, do_constant_folding=False)
        return buffer.getvalue()


def made(name: str) -> tuple[Any, np.ndarray]:
    """The network with parameters that differ, as exporters write equal ones once, and an input."""
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    net = make()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return net.eval(), np.random.default_rng(0).normal(size=shape).astype(np.float32)


# Of this the older exporter raises TypeError within torch.
NEWER = ("attention",)
# What the newer one writes in other operators.
BOTH = ("relu", "words", "groups", "gru")
PAIRS = [*((name, name in NEWER) for name in NETWORKS), *((name, True) for name in BOTH)]


@pytest.mark.parametrize(("name", "dynamo"), PAIRS)
def test_values_and_gradients(name: str, dynamo: bool) -> None:
    if dynamo:
        pytest.importorskip("onnxscript")
    net, x = made(name)
    module = nn.from_onnx(exported(net, x, dynamo))
    out = net(torch.tensor(x))
    np.testing.assert_allclose(module(x), out.detach().numpy(), rtol=1e-4, atol=1e-5)
    shares = np.random.default_rng(1).normal(size=out.shape).astype(np.float32)
    (out * torch.tensor(shares)).sum().backward()

    def loss(params: Any, x: Any) -> Any:
        with params.to_module(module):
            return (module(x) * shares).sum()

    params = TensorDict.from_module(module)
    grads = grad(loss)(params, x)
    _compare(name, net, {n: (p, grads[tuple(n.split("."))]) for n, p in module.named_parameters()})


# Of which an exporter makes other weights: a normalisation in a convolution.
MERGED = {"batchnorm", "residual"}


def _compare(name: str, net: Any, found: dict[str, Any]) -> None:
    """The gradient by each number of each parameter.

    Exporters turn, join, reorder and rename weights: a number is found by its value, as no two are the same.
    """
    numbers = np.concatenate([p.data.reshape(-1) for p, _ in found.values()])
    slopes = np.concatenate([g.reshape(-1) for _, g in found.values()])
    for key, p in net.named_parameters():
        value, wanted = p.detach().numpy().reshape(-1), p.grad.numpy().reshape(-1)
        same = value[:, None] == numbers
        if not (name in MERGED or (same.sum(1) == 1).all()):
            raise AssertionError(f"{key} is not among the weights once: {same.sum(1).tolist()}")
        kept, scale = same.sum(1) == 1, np.abs(wanted).max() + 1e-6
        mine = slopes[same[kept].argmax(1)]
        np.testing.assert_allclose(mine / scale, wanted[kept] / scale, atol=1e-4, err_msg=key)
