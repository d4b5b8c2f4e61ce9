"""The graph again with learnt weights: the same bytes but for theirs, in every place that weights have."""

import shutil
from pathlib import Path

import numpy as np
import onnx
from helpers.cases import each_case, raises
from helpers.models.real_models import MODELS
from helpers.onnx_nodes import model_of

from lite import TensorDict, nn
from lite._files.onnx import writer

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@each_case("dtype", [np.float32, np.float64, np.float16])
def test_only_the_weights_change(tmp_path: Path, dtype: type) -> None:
    weights = {"w": np.eye(3).astype(dtype), "b": np.ones(3, dtype), "n": np.array([3])}
    nodes = [
        writer.node("MatMul", "", ["x", "w"], ["a"], {}),
        writer.node("Add", "", ["a", "b"], ["y"], {}),
        writer.node("Identity", "", ["n"], ["z"], {}),
    ]
    model = model_of(nodes, {"x": X.astype(dtype)}, ["y", "z"], weights)
    net = nn.from_onnx(model)
    assert net.save_onnx(tmp_path / "same.onnx").read_bytes() == model
    net.w.data[...] = 2.5
    changed = net.save_onnx(tmp_path / "changed.onnx").read_bytes()
    assert changed.replace(np.full(9, 2.5, dtype).tobytes(), weights["w"].tobytes()) == model
    np.testing.assert_allclose(nn.from_onnx(changed)(X)[0], net(X)[0])


def test_weights_beside_the_graph_and_its_contract(tmp_path: Path) -> None:
    from lite.models import OnnxModule

    policy = nn.TensorDictModule(nn.Linear(64, 64, rng=0), [("agent", "obs")], ["action"])
    td = TensorDict({"agent": {"obs": np.ones((2, 64), np.float32)}}, [2])
    path = policy.to_onnx(tmp_path / "policy.onnx", td, external_data=True)
    learnt = nn.from_onnx(path)
    learnt.module.get_parameter("module.weight").data[...] *= 3
    (tmp_path / "new").mkdir()
    saved = learnt.module.save_onnx(tmp_path / "new" / "policy.onnx")
    np.testing.assert_allclose(
        OnnxModule(saved)(td.clone())["action"], learnt(td.clone())["action"], rtol=1e-5
    )
    assert saved.read_bytes() == path.read_bytes()
    raises(ValueError, "path must be in another folder", learnt.module.save_onnx, tmp_path / "other.onnx")


def test_files_beside_the_graph_without_a_weight_that_learns(tmp_path: Path) -> None:
    """Such as those of quantised weights: each tensor may have a file of its own."""
    weights = {"w": np.eye(3, dtype=np.float32), "n": np.array([1, 2])}
    nodes = [
        writer.node("MatMul", "", ["x", "w"], ["a"], {}),
        writer.node("Gather", "", ["a", "n"], ["y"], {"axis": 1}),
    ]
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
    path = tmp_path / "old" / "net.onnx"
    onnx.save_model(
        onnx.load_from_string(model_of(nodes, {"x": X}, ["y"], weights)), str(path),
        save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0,
    )  # fmt: skip
    net = nn.from_onnx(path)
    net.w.data[...] *= 2
    for _ in range(2):  # what is there already is written over
        saved = net.save_onnx(tmp_path / "new" / "net.onnx")
        np.testing.assert_array_equal(nn.from_onnx(saved)(X), 2 * X[:, 1:])
    names = [{file.name for file in (tmp_path / folder).iterdir()} for folder in ("old", "new")]
    assert names == [{"net.onnx", "w", "n"}] * 2
    (tmp_path / "old" / "n").unlink()
    raises(FileNotFoundError, "'n' is missing", net.save_onnx, tmp_path / "new" / "net.onnx")


def test_a_decoder_that_learnt_is_a_decoder_still(tmp_path: Path) -> None:
    from lite.models import OnnxWrapper, Text

    folder = MODELS / "genai-llama-fp32"
    shutil.copytree(folder, tmp_path / "model")
    net = nn.from_onnx(folder / "model.onnx")
    name = next(name for name, _ in net.named_parameters() if "lm_head" in name)
    net.get_parameter(name).data[...] = np.roll(net.get_parameter(name).data, 1, -1)
    net.save_onnx(tmp_path / "model" / "model.onnx")
    first = []
    for place in (folder, tmp_path / "model"):
        actor = OnnxWrapper(
            place, input_mode="text", generate_kwargs={"max_new_tokens": 1, "do_sample": False}
        )
        text = Text(prompt=["Hello"], batch_size=[1])
        tokens = actor(TensorDict(text=text, batch_size=[1]))["tokens", "response"]
        first.append(int(tokens[0][-1]))
    assert first[1] == first[0] + 1  # each token is the one before it


def test_a_weight_of_another_shape_is_refused(tmp_path: Path) -> None:
    net = nn.from_onnx(
        model_of([writer.node("MatMul", "", ["x", "w"], ["y"], {})], {"x": X}, ["y"], {"w": X.T})
    )
    net.w.data = np.ones((3, 5), np.float32)
    raises(ValueError, r"'w' has shape \(3, 5\), in the graph \(3, 2\)", net.save_onnx, tmp_path / "net.onnx")
