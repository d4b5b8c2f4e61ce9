"""What an earlier version wrote, this one reads: `tests/vectors/files_*.zip` has what `write` wrote then.

`PYTHONPATH=CHECKOUT python tests/test_earlier_versions.py FOLDER` with a checkout of a version writes them.
"""

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lite
from lite import NonTensorData, TensorDict, nn
from lite.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    MultiStepTransform,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from lite.models import OnnxModule

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)
ZIPS = sorted((Path(__file__).parent / "vectors").glob("files_*.zip"))


def rows() -> TensorDict:
    nested = {"done": ROWS[:, :1] > 7, "reward": ROWS[:, 1:], "x": ROWS + 1}
    return TensorDict({"x": ROWS.copy(), "next": nested}, batch_size=[6])


def mixed() -> TensorDict:
    of = {"shape": np.arange(6), "words": list("abcdef")}  # "shape" is no key of tensordict's
    return TensorDict(
        {"x": ROWS.copy(), "of": of, "about": NonTensorData({"k": [1, 2]})}, batch_size=[6], names=["time"]
    )


def mapped(folder: Path) -> Any:
    storage = LazyMemmapStorage(4, scratch_dir=folder / "ring", existsok=True, compress_next=True)
    return TensorDictReplayBuffer(storage=storage, batch_size=2)


def prioritized() -> Any:
    return TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, storage=LazyTensorStorage(8), batch_size=3, generator=7
    )


def several_steps() -> Any:
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(8), batch_size=2, transform=MultiStepTransform(2, 0.5), generator=7
    )


def step(params: Any, td: Any) -> Any:
    def loss(params: Any) -> Any:
        return ((td["x"] @ params["w"] - 1) ** 2).mean()

    td["seen"] = td["x"].sum(-1)
    return params - lite.grad(loss)(params) * 0.5


def policy() -> Any:
    net = nn.GRUModule(input_size=2, hidden_size=2, in_key="x", out_key="action")
    for param in net.parameters():
        param.data[...] = np.linspace(-1, 1, param.size).reshape(param.shape)
    return net


def frame() -> TensorDict:
    state = np.zeros((1, 1, 2), np.float32)
    return TensorDict(x=ROWS[:1], is_init=np.ones((1, 1), bool), recurrent_state=state, batch_size=[1])


def params() -> TensorDict:
    return TensorDict(w=np.full((2,), 0.25, np.float32))


def write(folder: Path) -> None:
    mixed().memmap(folder / "folder")
    rows().memmap(folder / "sums", checksums=True)
    mixed().save(folder / "mixed.tdz")
    mixed().consolidate(folder / "mixed.bytes")
    rows().save(folder / "rows.npz")
    mapped(folder).extend(rows())
    buffer = prioritized()
    buffer.extend(rows())
    buffer.update_priority(np.arange(6), np.arange(6.0) + 1)
    buffer.dumps(folder / "prioritized")
    np.save(folder / "drawn.npy", buffer.sample()["index"])
    buffer = several_steps()
    buffer.extend(rows()[:4])
    buffer.dumps(folder / "several")
    lite.jit(step, donate="params").lower(params(), rows().select("x")).save(folder / "step.onnx")
    policy().to_onnx(folder / "policy.onnx", frame())
    nn.lora(nn.MLP(2, 2, num_cells=[2]), targets="*", rank=1, rng=0).save_adapter(folder / "adapter")


@pytest.fixture(scope="module", params=[*ZIPS, None], ids=lambda file: "now" if file is None else file.stem)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("written")
    if request.param is None:
        write(target)
    else:
        with zipfile.ZipFile(request.param) as file:
            file.extractall(target)
    return target


def test_containers(folder: Path) -> None:
    read = (
        TensorDict.load_memmap(folder / "folder"),
        TensorDict.load(folder / "mixed.tdz"),
        lite.from_consolidated(folder / "mixed.bytes"),
    )
    for td in read:
        np.testing.assert_array_equal(td["x"], ROWS)
        np.testing.assert_array_equal(td["of", "shape"], np.arange(6))
        assert td["of", "words"] == list("abcdef")
        assert td["about"] == {"k": [1, 2]}
        assert (td.batch_size, td.names) == ((6,), ["time"])
    for td in (TensorDict.load_memmap(folder / "sums", verify=True), TensorDict.load(folder / "rows.npz")):
        np.testing.assert_array_equal(td["next", "reward"], ROWS[:, 1:])


def test_replay_buffers(folder: Path) -> None:
    ring = mapped(folder)
    np.testing.assert_array_equal(np.sort(ring[:]["x"], 0), ROWS[2:])
    np.testing.assert_array_equal(ring[:]["next", "x"], ring[:]["x"] + 1)
    buffer = prioritized()
    buffer.loads(folder / "prioritized")
    np.testing.assert_array_equal(buffer.sample()["index"], np.load(folder / "drawn.npy"))
    buffer = several_steps()
    buffer.loads(folder / "several")

    assert len(buffer) < 4
    buffer.extend(rows()[4:])  # behind the rows that the transform held back
    np.testing.assert_array_equal(buffer[:]["next", "reward"][:, 0], [2.5, 5.5, 8.5, 11.5])


def test_graphs(folder: Path) -> None:
    td = rows().select("x")
    loaded = lite.load_step(folder / "step.onnx")
    want = step(params(), rows().select("x"))
    np.testing.assert_allclose(loaded(params(), td)["w"], want["w"], rtol=1e-6)
    np.testing.assert_array_equal(td["seen"], ROWS.sum(-1))
    graph, net, one = OnnxModule(folder / "policy.onnx"), policy(), frame()
    np.testing.assert_allclose(graph(frame())["action"], net(one)["action"], rtol=1e-5)
    nn.lora(nn.MLP(2, 2, num_cells=[2]), adapter=folder / "adapter")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
