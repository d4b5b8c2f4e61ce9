"""Files of adapters: PEFT's and onnxruntime's there and back, joined layers, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.lora_nets import PATHS, X, adapted, filled, graph
from helpers.onnx_nodes import model_of

from lite import nn
from lite._files.onnx import writer
from lite._files.onnx.adapters import adapter_bytes
from lite.nn._lora import files

safetensors = pytest.importorskip("safetensors.numpy")
KEY = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"


def fresh(**options: Any) -> Any:
    return nn.lora(nn.from_onnx(graph(), trainable=False), 8, 24, rng=1, **options)


def test_files_of_two_adapters_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full when one of the two is written leaves both as they were."""
    adapted().save_adapter(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    waiting: list[int] = []

    def full(*_: Any) -> None:
        waiting.extend(path.stat().st_size for path in tmp_path.iterdir() if path.name not in before)
        raise OSError

    monkeypatch.setattr(files, "write_safetensors", full)
    raises(OSError, "", lambda: fresh().save_adapter(tmp_path))
    assert len(waiting) == 1  # the other file, complete before the first takes its place
    assert waiting[0] > 100
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@each_case("name", ["mine.onnx_adapter", "folder", "folder/adapter_model.safetensors"])
def test_there_and_back(tmp_path: Path, name: str) -> None:
    """The other module has another rank and another alpha."""
    net, other = adapted(), fresh()
    held = list(other.adapter_params().values(True, True))
    net.save_adapter(tmp_path / name.split("/")[0])
    other.load_adapter(tmp_path / name)
    np.testing.assert_allclose(other(X), net(X), rtol=1e-5, atol=1e-6)
    assert held == list(other.adapter_params().values(True, True))  # the same, for optimisers
    assert other.get_parameter(f"{PATHS[0]}.lora_A.weight").shape == (2, 6)


def test_as_peft_writes_them(tmp_path: Path) -> None:
    net = adapted()
    net.save_adapter(tmp_path)
    arrays = safetensors.load_file(tmp_path / "adapter_model.safetensors")
    assert set(arrays) == {f"base_model.model.{path}.lora_{x}.weight" for path in PATHS[:2] for x in "AB"}
    np.testing.assert_array_equal(
        arrays[KEY.format("B")], net.get_parameter(f"{PATHS[0]}.lora_B.weight").data
    )
    config = json.loads((tmp_path / "adapter_config.json").read_bytes())
    assert {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "bias": "none"}.items() <= config.items()
    assert config["target_modules"] == ["o_proj", "q_proj"]
    layers = nn.Sequential(nn.Linear(6, 6, rng=1), nn.Sequential(nn.Linear(6, 4, rng=2)))
    some = filled(nn.lora(layers, 2, targets="1.0", rng=0))
    # another layer's name ends like this one's, so this is written whole
    some.save_adapter(tmp_path / "some")
    assert json.loads((tmp_path / "some" / "adapter_config.json").read_bytes())["target_modules"] == ["1.0"]
    same = nn.lora(layers, 2, targets="1.0", rng=4)
    same.load_adapter(tmp_path / "some")
    np.testing.assert_array_equal(same(X), some(X))
    one = filled(nn.lora(nn.Linear(6, 4, rng=1), 2, targets="*", rng=0))
    one.save_adapter(tmp_path / "one")
    again = nn.lora(nn.Linear(6, 4, rng=1), 2, targets="*", rng=3)
    again.load_adapter(tmp_path / "one")
    np.testing.assert_array_equal(again(X), one(X))


def matrices_of(rank: int, outputs: int = 4, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=size).astype(np.float32) for size in ((rank, 6), (outputs, rank))]


def written(folder: Path, arrays: dict[str, Any], **config: Any) -> Path:
    dense = {name: np.ascontiguousarray(x) for name, x in arrays.items()}
    safetensors.save_file(dense, folder / "adapter_model.safetensors")
    described = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, **config}
    (folder / "adapter_config.json").write_text(json.dumps(described))
    return folder


@each_case(
    ("config", "scale"),
    [
        ({}, 1.5),
        ({"lora_alpha": 0.5}, 0.25),
        ({"use_rslora": True}, 3 / 2**0.5),
        ({"alpha_pattern": {"k_proj": 7, "self_attn.q_proj": 5, "q_proj": 9}}, 2.5),
        ({"r": 99, "rank_pattern": {"q_proj": 2}}, 1.5),
    ],
)
def test_the_scale_of_a_configuration(tmp_path: Path, config: Any, scale: float) -> None:
    a, b = matrices_of(2)
    net = fresh(targets="q_proj")
    net.load_adapter(written(tmp_path, {KEY.format("A"): a, KEY.format("B"): b}, **config))
    np.testing.assert_allclose(net._adapters()[0].product(), scale * b @ a, rtol=1e-5)
    begun = nn.lora(nn.from_onnx(graph(), trainable=False), adapter=tmp_path)  # as peft goes on with it
    assert begun._adapters()[0].scale == scale
    np.testing.assert_array_equal(begun.get_parameter(f"{PATHS[0]}.lora_B.weight").data, b)
    other = nn.lora(nn.from_onnx(graph(), trainable=False), alpha=16, adapter=tmp_path)
    np.testing.assert_allclose(other._adapters()[0].product(), scale * b @ a, rtol=1e-5)
    assert other._adapters()[0].scale == 8


def joined() -> Any:
    """Queries of 4 numbers, keys and values of 2, given by one layer."""
    w = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    nodes = [writer.node("MatMul", "/model/layers.0/attn/qkv_proj/MatMul", ["x", "w"], ["y"], {})]
    return nn.lora(nn.from_onnx(model_of(nodes, {"x": X}, ["y"], {"w": w})), 2, rng=0)


@each_case("given", ["qkv", "qv", "q", "k"])
def test_adapters_of_three_layers_are_one_of_the_layer_that_gives_all(tmp_path: Path, given: str) -> None:
    arrays, want, start = {}, np.zeros((8, 6), np.float32), 0
    for i, (name, size) in enumerate({"q": 4, "k": 2, "v": 2}.items()):
        if name in given:
            a, b = matrices_of(i + 1, size, i)
            key = KEY.replace("q_proj", f"{name}_proj")
            arrays |= {key.format("A"): a, key.format("B"): b}
            want[start : start + size] = 3 / (i + 1) * b @ a
        start += size
    net = joined()
    net.load_adapter(written(tmp_path, arrays))
    np.testing.assert_allclose(net._adapters()[0].product(), want, rtol=1e-4, atol=1e-6)
    net.save_adapter(tmp_path / "again", qkv=(4, 2, 2))
    names = safetensors.load_file(tmp_path / "again" / "adapter_model.safetensors")
    assert {name.split(".")[-3] for name in names} == {"q_proj", "k_proj", "v_proj"}
    other = joined()
    other.load_adapter(tmp_path / "again")
    np.testing.assert_allclose(other._adapters()[0].product(), want, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"three sizes that add up to 8, got \(4, 2\)"):
        net.save_adapter(tmp_path / "wrong", qkv=(4, 2))


def refused() -> dict[str, tuple[dict[str, Any], dict[str, Any], str]]:
    a, b = matrices_of(2)
    first, second = (KEY.format(x) for x in "AB")
    pair = {first: a, second: b}
    keys = {name.replace("q_proj", "k_proj"): x for name, x in pair.items()}
    return {
        "alone": ({first: a}, {}, "q_proj' has the matrix A alone"),
        "ranks": ({first: a, second: b[:, :1]}, {}, r"shapes \(2, 6\) and \(4, 1\)"),
        "integers": ({first: a.astype(int), second: b}, {}, "dtypes int64"),
        "foreign": ({**pair, "model.embed.weight": a}, {}, "'model.embed.weight' is not a matrix"),
        "more": ({**pair, **keys}, {}, "no adapter of model.*k_proj; see targets"),
        "others": (keys, {}, "it has nothing for 'model.*q_proj'; it has model.*k_proj"),
        "sizes": ({first: a[:, :5], second: b}, {}, "5 inputs and 4 outputs, the layer has 6 and 4"),
        "dora": (pair, {"use_dora": True}, "use_dora=True, which is more than two matrices"),
        "residual": (
            pair,
            {"init_lora_weights": "pissa_niter_4"},
            "for other weights than the model's: write",
        ),
        "bias": (pair, {"bias": "all"}, "bias='all': biases are frozen"),
        "kind": (pair, {"peft_type": "IA3"}, "peft_type LORA"),
        "no alpha": (pair, {"lora_alpha": 0}, "positive lora_alpha, got 0"),
        "alpha": (pair, {"lora_alpha": "8"}, "positive lora_alpha, got '8'"),
        "scale": (pair, {"use_rslora": "no"}, "bool use_rslora, got 'no'"),
        "nan": (pair, {"lora_alpha": float("nan")}, "positive lora_alpha, got nan"),
        "huge": (pair, {"lora_alpha": 10**400}, "positive lora_alpha, got 10"),
        "pattern": (pair, {"alpha_pattern": {"(a*)*": 1}}, "only names of layers are read"),
        "patterns": (pair, {"alpha_pattern": 3}, "dict alpha_pattern"),
    }


@each_case("kind", refused())
def test_what_is_refused_changes_nothing(tmp_path: Path, kind: str) -> None:
    arrays, config, message = refused()[kind]
    net = filled(fresh(targets="q_proj"))
    before = net(X)
    raises(ValueError, message, lambda: net.load_adapter(written(tmp_path, arrays, **config)))
    np.testing.assert_array_equal(net(X), before)


def test_files_that_are_none(tmp_path: Path) -> None:
    net = adapted()
    raises(FileNotFoundError, r"path: there is no adapter .*adapter_model", net.load_adapter, tmp_path)
    for content, message in (
        (b"[" * 10**5, "nested too deeply"),
        (b"{", "JSON|Expecting"),
        (b"[]", "LORA"),
        (b" " * (1 << 20) + b"{", "1048577 bytes"),
    ):
        net.save_adapter(tmp_path / "folder")
        (tmp_path / "folder" / "adapter_config.json").write_bytes(content)
        raises(ValueError, message, lambda: net.load_adapter(tmp_path / "folder"))
    (tmp_path / "folder" / "adapter_config.json").unlink()
    raises(ValueError, r"no adapter_config\.json beside it", lambda: net.load_adapter(tmp_path / "folder"))
    (tmp_path / "folder" / "adapter_model.safetensors").write_bytes(b"\xff" * 64)
    raises(ValueError, "damaged", lambda: net.load_adapter(tmp_path / "folder"))
    file = tmp_path / "flat.onnx_adapter"
    file.write_bytes(adapter_bytes({"a.lora_A.weight": np.zeros(3, np.float32)}))
    raises(ValueError, r"shape \(3,\), no matrix", lambda: net.load_adapter(file))
    net.save_adapter(tmp_path / "outside.onnx_adapter")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.onnx_adapter").symlink_to(tmp_path / "outside.onnx_adapter")
    raises(ValueError, "is a link out of its folder", net.load_adapter, tmp_path / "in" / "link.onnx_adapter")
