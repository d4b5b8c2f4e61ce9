"""Pickles that version 0.1 wrote load, and hold what was put into them."""

import importlib
import io
import pickle
import sys
import zipfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lite.models
from lite import (
    LazyStackedTensorDict,
    MetaData,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    data,
    from_module,
    from_modules,
    lazy_stack,
    nn,
)
from lite._processes.former_names import FORMER
from lite.nn import distributions

ARCHIVE = Path(__file__).parents[1] / "vectors" / "pickles_0.1.zip"


@cache
def written() -> dict[str, bytes]:
    with zipfile.ZipFile(ARCHIVE) as archive:
        return {name.removesuffix(".pkl"): archive.read(name) for name in archive.namelist()}


def load(name: str) -> Any:
    return pickle.loads(written()[name])


def linear() -> nn.TensorDictModule:
    return nn.TensorDictModule(nn.Linear(3, 2), in_keys=["x"], out_keys=["h"])


def drawn() -> nn.ProbabilisticTensorDictModule:
    return nn.ProbabilisticTensorDictModule(
        in_keys=["loc", "scale"],
        out_keys=["a"],
        distribution_class=distributions.Normal,
        return_log_prob=True,
    )


def chats() -> lite.models.History:
    return lite.models.History.from_chats([[{"role": "user", "content": "hi"}]])


def rows() -> list[TensorDict]:
    return [TensorDict({"r": np.arange(2 * n).reshape(2, n)}, batch_size=[2]) for n in (1, 2)]


def everything() -> TensorDict:
    entries = {
        "x": np.arange(6.0).reshape(2, 3),
        "n": {"y": np.zeros((2, 1), np.int8)},
        "s": "text",
        "each": NonTensorStack("a", "b"),
        "lazy": lazy_stack(rows()),
    }
    return TensorDict(entries, batch_size=[2], names=["time"]).lock_()


# What was pickled, by the name in the archive. Modules are compared by their parameters' shapes.
MADE: dict[str, Callable[[], Any]] = {
    "TensorDict": everything,
    "LazyStackedTensorDict": lambda: lazy_stack(rows(), 1),
    "NonTensorData": lambda: NonTensorData({"a": 1}, batch_size=[2]),
    "NonTensorStack": lambda: NonTensorStack("a", "b"),
    "MetaData": lambda: MetaData("x"),
    **{
        name: getattr(nn, name)
        for name in ("Identity", "ReLU", "ELU", "GELU", "LeakyReLU", "SiLU", "Sigmoid", "Softplus", "Tanh")
    },
    "Softmax": lambda: nn.Softmax(-1),
    "LogSoftmax": lambda: nn.LogSoftmax(-1),
    "Flatten": nn.Flatten,
    "Dropout": nn.Dropout,
    "Linear": lambda: nn.Linear(3, 2),
    "Bilinear": lambda: nn.Bilinear(2, 2, 2),
    "Conv1d": lambda: nn.Conv1d(1, 2, 2),
    "Conv2d": lambda: nn.Conv2d(1, 2, 2),
    "AvgPool2d": lambda: nn.AvgPool2d(2),
    "MaxPool2d": lambda: nn.MaxPool2d(2),
    "LayerNorm": lambda: nn.LayerNorm(3),
    "RMSNorm": lambda: nn.RMSNorm(3),
    "BatchNorm1d": lambda: nn.BatchNorm1d(3),
    "Embedding": lambda: nn.Embedding(4, 2),
    "MLP": lambda: nn.MLP(in_features=2, out_features=1, num_cells=[3]),
    **{
        name: partial(getattr(nn, name), 2, 2)
        for name in ("GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell")
    },
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2),
    "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, 4),
    "TransformerDecoderLayer": lambda: nn.TransformerDecoderLayer(4, 2, 4),
    "Transformer": lambda: nn.Transformer(4, 2, 1, 1, 4),
    "NormalParamExtractor": nn.NormalParamExtractor,
    "AddStateIndependentNormalScale": lambda: nn.AddStateIndependentNormalScale(2),
    "Sequential": lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU()),
    "ModuleList": lambda: nn.ModuleList([nn.Linear(2, 2)]),
    "ModuleDict": lambda: nn.ModuleDict({"a": nn.Linear(2, 2)}),
    "Parameter": lambda: nn.Parameter(np.ones(3, np.float32)),
    "TensorDictModule": linear,
    "TensorDictSequential": lambda: nn.TensorDictSequential(
        linear(), nn.TensorDictModule(nn.ReLU(), ["h"], ["a"])
    ),
    "TensorDictModuleWrapper": lambda: nn.TensorDictModuleWrapper(linear()),
    "EnsembleModule": lambda: nn.EnsembleModule(linear(), 2),
    "ProbabilisticTensorDictModule": drawn,
    "ProbabilisticTensorDictSequential": lambda: nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(nn.NormalParamExtractor(), ["x4"], ["loc", "scale"]), drawn()
    ),
    "TensorDictParams": lambda: nn.TensorDictParams(TensorDict(a=np.ones(2, np.float32))),
    "from_module": lambda: from_module(nn.Linear(2, 2)),
    "from_modules": lambda: from_modules(nn.Linear(2, 2), nn.Linear(2, 2)),
    "InteractionType": lambda: nn.InteractionType.MODE,
    "Normal": lambda: distributions.Normal(np.zeros(2), np.ones(2)),
    "Categorical": lambda: distributions.Categorical(logits=np.zeros(3)),
    "TanhNormal": lambda: distributions.TanhNormal(np.zeros(2), np.ones(2)),
    "MultiStep": lambda: data.MultiStep(0.9, 3),
    "MultiStepTransform": lambda: data.MultiStepTransform(3, 0.9),
    "DensifyReward": data.DensifyReward,
    "TokenTransitions": data.TokenTransitions,
    "History": chats,
    "Text": lambda: lite.models.Text(prompt=["a"], batch_size=[1]),
    "Tokens": lambda: lite.models.Tokens(prompt=np.arange(3)[None], batch_size=[1]),
    "ChatHistory": lambda: lite.models.ChatHistory(prompt=chats(), batch_size=[1]),
    "GenerationConfig": lite.models.GenerationConfig,
}


def content(value: Any) -> bytes:
    """What an object holds, whether or not equal strings in it are one object."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out)
    pickler.fast = True  # without the memory of objects that were met before
    pickler.dump(value)
    return out.getvalue()


def test_every_pickle_has_its_like() -> None:
    assert set(written()) == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_pickle_loads(name: str) -> None:
    found, made = load(name), MADE[name]()
    assert type(found) is type(made)
    assert repr(found) == repr(made)
    if isinstance(made, nn.Module):
        theirs, ours = found.state_dict(), made.state_dict()
        assert list(theirs) == list(ours)
        for key, array in ours.items():
            assert (theirs[key].shape, theirs[key].dtype) == (array.shape, array.dtype)


@pytest.mark.parametrize("name", [name for name in MADE if name not in nn.__all__ or name == "Parameter"])
def test_loaded_object_has_the_same_content(name: str) -> None:
    found, made = load(name), MADE[name]()
    if name in ("from_module", "from_modules"):  # of random parameters
        assert found.shape == made.shape
    elif name == "GenerationConfig":  # has got options since: those of the pickle are the defaults
        assert found == made
    else:
        assert content(found) == content(made)


def test_loaded_tensordict_is_whole() -> None:
    td = load("TensorDict")
    assert td.is_locked
    assert td.names == ["time"]
    np.testing.assert_array_equal(td["x"], np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(td["lazy"][1]["r"], [[0, 1], [2, 3]])
    assert (td["s"], list(td["each"])) == ("text", ["a", "b"])
    assert isinstance(td["lazy"], LazyStackedTensorDict)


def test_loaded_modules_compute() -> None:
    layer = load("Linear")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(layer(x), x @ layer.weight.data.T + layer.bias.data, rtol=1e-6)
    out = load("TensorDictSequential")(TensorDict(x=x))
    np.testing.assert_array_equal(out["a"], np.maximum(out["h"], 0))
    assert load("EnsembleModule")(TensorDict(x=x))["h"].shape == (2, 2, 2)
    mode = load("ProbabilisticTensorDictModule")(TensorDict(loc=np.ones(2), scale=np.ones(2)))
    assert mode["a"].shape == (2,)
    assert load("Transformer")(np.zeros((2, 1, 4), np.float32), np.zeros((3, 1, 4), np.float32)).shape == (
        3,
        1,
        4,
    )


@pytest.mark.parametrize("former", FORMER)
def test_former_module_is_there(former: str) -> None:
    assert importlib.import_module(former) is importlib.import_module(FORMER[former])


@pytest.mark.parametrize("former", FORMER)
def test_former_name_hides_nothing(former: str) -> None:
    package, _, name = former.rpartition(".")
    holder = importlib.import_module(package)
    assert getattr(holder, name, None) in (None, sys.modules.get(former))


@pytest.mark.parametrize("name", ["lite.no_such_module", "lite._lazy.inner", "other._lazy"])
def test_other_names_are_not_found(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


@pytest.mark.parametrize(
    ("place", "public"),
    [
        ("lite._state_dict StateDict", None),
        ("lite._nontensor LinkedList", None),
        ("lite._pickle _from_bits", None),
        ("lite._files.filemap _from_file", None),
        ("lite._files.memory_mapped MemoryMappedTensor", lite.MemoryMappedTensor),
        ("lite._base TensorDictBase", lite.TensorDictBase),
        ("lite._combine stack", lite.stack),
        ("lite._tensorclass TensorClass", lite.TensorClass),
        ("lite._tensorclass _restore", None),
        ("lite.nn._mappings biased_softplus", nn.biased_softplus),
        ("lite.nn._state_dict IncompatibleKeys", None),
        ("lite.nn._meta MetaArray", nn.MetaArray),
        ("lite.nn.gelu gelu", None),
        ("lite.nn.mlp _SharedBias", None),
        ("lite.nn.recurrent_cells rnn_relu_step", None),
        ("lite.models.generation Generated", lite.models.Generated),
        ("lite.models.graph_spec Padding", lite.models.Padding),
        ("lite.models.graph_call GraphCall", None),
        ("lite.models.shared_session SharedSession", None),
    ],
)
def test_single_names(place: str, public: Any) -> None:
    """Names that are in pickles of state dicts, mapped arrays, results of calls, or options of modules."""
    module, name = place.split()
    found = pickle.loads(f"c{module}\n{name}\n.".encode())
    assert found is not None if public is None else found is public
