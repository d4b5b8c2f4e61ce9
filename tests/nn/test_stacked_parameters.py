"""Layers with stacked parameters run as one computation and give what each layer gives by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorDict, nn, vmap

COPIES = 3


def floats(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


LAYERS: list[tuple[str, Callable[[], Any], tuple[Any, ...]]] = [
    ("Linear", lambda: nn.Linear(3, 4), (floats(5, 3),)),
    ("Linear of a vector", lambda: nn.Linear(3, 4), (floats(3),)),
    ("Linear with leading dimensions", lambda: nn.Linear(3, 4), (floats(2, 5, 3),)),
    ("Linear without bias", lambda: nn.Linear(3, 4, bias=False), (floats(5, 3),)),
    ("Linear in half", lambda: nn.Linear(3, 4, dtype=np.float16), (floats(5, 3).astype(np.float16),)),
    ("Linear of integers", lambda: nn.Linear(3, 4), (np.arange(6).reshape(2, 3),)),
    ("Bilinear", lambda: nn.Bilinear(3, 4, 2), (floats(5, 3), floats(5, 4))),
    ("LayerNorm", lambda: nn.LayerNorm((5, 3)), (floats(2, 5, 3),)),
    ("RMSNorm", lambda: nn.RMSNorm(3), (floats(5, 3),)),
    ("BatchNorm1d", lambda: nn.BatchNorm1d(3).eval(), (floats(5, 3),)),
    ("BatchNorm1d of sequences", lambda: nn.BatchNorm1d(3).eval(), (floats(5, 3, 2),)),
    ("Embedding", lambda: nn.Embedding(6, 3), (np.array([[1, 2], [0, 5]]),)),
    ("MLP", lambda: nn.MLP(3, (2, 2), num_cells=[8, 4]), (floats(5, 3),)),
    (
        "activations",
        lambda: nn.Sequential(
            *(
                nn.Linear(3, 3),
                nn.GELU(),
                nn.GELU("tanh"),
                nn.ELU(),
                nn.SiLU(),
                nn.Softplus(),
                nn.Softmax(-1),
            ),
            *(
                nn.LogSoftmax(-1),
                nn.LeakyReLU(),
                nn.Sigmoid(),
                nn.Tanh(),
                nn.ReLU(inplace=True),
                nn.Flatten(0),
            ),
        ),
        (floats(5, 3),),
    ),
    ("GRUCell", lambda: nn.GRUCell(3, 4), (floats(5, 3), floats(5, 4))),
    ("LSTMCell", lambda: nn.LSTMCell(3, 4), (floats(5, 3),)),
    ("GRU", lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True), (floats(6, 5, 3),)),
    ("LSTM", lambda: nn.LSTM(3, 4), (floats(6, 5, 3),)),
    ("Conv1d", lambda: nn.Conv1d(3, 4, 2), (floats(5, 3, 8),)),
    (
        "Conv2d and pools",
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.AvgPool2d(2)),
        (floats(5, 3, 8, 8),),
    ),
    ("MultiheadAttention", lambda: nn.MultiheadAttention(4, 2), (floats(5, 3, 4),) * 3),
]


def arrays(result: Any) -> list[Any]:
    if isinstance(result, tuple):
        return [array for item in result for array in arrays(item)]
    return [result]


def assert_same(got: Any, expected: list[Any]) -> None:
    for k, array in enumerate(arrays(got)):
        one = [arrays(result)[k] for result in expected]
        assert array.dtype == one[0].dtype
        np.testing.assert_allclose(array, np.stack(one), rtol=3e-5, atol=1e-5)


@pytest.mark.parametrize(("make", "args"), [case[1:] for case in LAYERS], ids=[case[0] for case in LAYERS])
def test_layer_with_stacked_parameters(make: Callable[[], Any], args: tuple[Any, ...]) -> None:
    """Warnings are errors, so a layer that has to loop fails."""
    modules = [make() for _ in range(COPIES)]
    rng = np.random.default_rng(0)
    for module in modules:
        for buffer in module.buffers():
            if buffer.ndim:
                buffer[...] = rng.random(buffer.shape) + 0.5
    empty = make()
    held = list(empty.parameters())
    params = lite.from_modules(*modules)

    def call(params: Any, *args: Any) -> Any:
        with params.to_module(empty):
            return empty(*args)

    shared = vmap(call, (0, *[None] * len(args)))(params, *args)
    assert_same(shared, [module(*args) for module in modules])
    each = [np.stack([a if a.dtype.kind == "i" else a * (i + 1) for i in range(COPIES)]) for a in args]
    rows = list(zip(*each, strict=True))
    assert_same(vmap(call)(params, *each), [module(*row) for module, row in zip(modules, rows, strict=True)])
    # Parameters that all elements share.
    assert_same(vmap(empty)(*each), [empty(*row) for row in rows])
    assert all(a is b for a, b in zip(held, empty.parameters(), strict=True))


def test_training_statistics_that_are_shared_take_no_mapped_values() -> None:
    layer = nn.BatchNorm1d(3)
    with pytest.raises(TypeError, match="cannot become an ndarray"):
        vmap(layer)(floats(2, 5, 3))
    np.testing.assert_array_equal(layer.running_mean, 0)


def test_embedding_checks_all_elements() -> None:
    table = nn.Embedding(4, 2)
    with pytest.raises(IndexError, match=r"input must be in \[0, 4\), got 0 to 4"):
        vmap(table)(np.array([[0, 1], [2, 4]]))


def test_lazily_stacked_parameters() -> None:
    modules = [nn.Linear(3, 4) for _ in range(COPIES)]
    params = lite.from_modules(*modules, lazy_stack=True)
    empty = nn.Linear(3, 4, device="meta")

    def call(params: Any, x: Any) -> Any:
        with params.to_module(empty):
            return empty(x)

    x = floats(5, 3)
    assert_same(vmap(call, (0, None))(params, x), [module(x) for module in modules])
    assert empty.weight.is_meta


def test_nested_stacks_of_parameters() -> None:
    modules = [[nn.Linear(3, 4) for _ in range(2)] for _ in range(COPIES)]
    params = lite.stack([lite.from_modules(*row) for row in modules])
    empty = nn.Linear(3, 4)

    def call(params: Any, x: Any) -> Any:
        with params.to_module(empty):
            return empty(x)

    x = floats(5, 3)
    out = vmap(vmap(call, (0, None)), (0, None))(params, x)
    assert out.shape == (COPIES, 2, 5, 4)
    for i, row in enumerate(modules):
        for j, module in enumerate(row):
            np.testing.assert_allclose(out[i, j], module(x), rtol=1e-5)


def test_module_is_restored_when_the_body_raises() -> None:
    layer = nn.Linear(3, 4)
    weight = layer.weight
    params = lite.from_modules(layer, nn.Linear(3, 4))

    def call(params: Any, x: Any) -> Any:
        with params.to_module(layer):
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        vmap(call, (0, None))(params, floats(3))
    assert layer.weight is weight


def test_ensembles_draw_other_numbers_for_each_copy() -> None:
    module = nn.TensorDictModule(nn.Sequential(nn.Dropout(0.5, rng=0)), ["x"], ["y"])
    linear = nn.TensorDictModule(nn.Linear(64, 64), ["x"], ["x"])
    ensemble = nn.EnsembleModule(nn.TensorDictSequential(linear, module), 4)
    out = ensemble(TensorDict(x=np.ones((2, 64), np.float32), batch_size=[2]))
    zeros = out["y"] == 0
    assert out["y"].shape == (4, 2, 64)
    assert (zeros[0] != zeros[1]).any()
