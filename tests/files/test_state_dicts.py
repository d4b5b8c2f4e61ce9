"""State dicts in files: what is read is what was written, and hostile files are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

import lite
from lite import NonTensorData, TensorDict, nn, optim
from lite.data import Collector, LazyTensorStorage, TensorDictReplayBuffer
from lite.envs import Compose, GymEnv, ObservationNorm, TransformedEnv, VecNormV2


def assert_same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        for key, item in want.items():
            assert_same(got[key], item)
    elif isinstance(want, list | tuple):
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
    elif isinstance(want, np.ndarray | np.generic):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == want.tobytes()
    else:
        assert got == want or (got != got and want != want)


@pytest.mark.parametrize("suffix", ["", ".npz", ".tdz"])
def test_what_is_read_is_what_was_written(suffix: str, tmp_path: Path) -> None:
    state = {
        "arrays": [np.arange(3), np.zeros((0, 2), np.float32), np.array(True)],
        "numbers": (1, 1e-3, -0.0, float("nan"), float("inf"), 2**100, np.float32(0.1), True, None),
        "texts": {"": "a\n\u00e4", "list": [], "deeper": {"dict": {}}},
        0: {1.5: np.ones(2), None: "keys of any kind", False: 1},
    }
    assert lite.save(state, tmp_path / f"state{suffix}") is state
    found = lite.load(tmp_path / f"state{suffix}")
    assert_same(found, state)
    assert list(found) == list(state)
    assert isinstance(TensorDict.load(tmp_path / f"state{suffix}"), TensorDict)


def test_a_run_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def parts() -> dict[str, Any]:
        net = nn.Linear(4, 1, rng=0)
        adam = optim.Adam(net.parameters(), lr=1e-3)
        env = TransformedEnv(
            GymEnv("CartPole-v1"), Compose(ObservationNorm(0, 1, ["observation"]), VecNormV2(["observation"]))
        )
        collector = Collector(env, frames_per_batch=20, total_frames=400, seed=0)
        return {
            "net": net, "adam": adam, "collector": collector, "schedule": optim.CosineAnnealingLR(adam, 10),
        }  # fmt: skip

    def learn(net: Any, adam: Any, collector: Any, schedule: Any) -> None:
        with lite.enable_grad():
            net(collector.next()["observation"].astype(np.float32)).sum().backward()
        adam.step()
        adam.zero_grad()
        schedule.step()

    run, resumed = parts(), parts()
    for _ in range(3):
        learn(**run)
    lite.save({name: part.state_dict() for name, part in run.items()}, tmp_path / "run")
    state = lite.load(tmp_path / "run")
    for name, part in resumed.items():
        part.load_state_dict(state[name])
    assert_same(resumed["adam"].state_dict(), run["adam"].state_dict())
    learn(**resumed)  # writes to its own arrays, and not to the files
    assert_same(lite.load(tmp_path / "run"), state)
    learn(**run)
    assert resumed["schedule"].get_last_lr() == run["schedule"].get_last_lr()


def test_tensordicts_are_among_the_values(tmp_path: Path) -> None:
    td = TensorDict(a=np.ones(2), n={"b": np.zeros((2, 3))}, batch_size=2)
    lite.save({"td": td, "n": 1}, tmp_path / "state")
    found = lite.load(tmp_path / "state")
    assert (found["td"] == td).all()
    assert found["td"].batch_size == (2,)
    assert not found["td"].is_locked


@pytest.mark.parametrize("suffix", ["", ".npz"])
def test_state_dicts_of_tensordicts_keep_batch_sizes_and_objects(suffix: str, tmp_path: Path) -> None:
    td = TensorDict(
        {"a": np.ones(2), "n": {"text": "x", "ids": ["p", "q"], "b": np.zeros((2, 3))}}, batch_size=2
    )
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    buffer.extend(TensorDict(x=np.arange(6), batch_size=[6]))
    lite.save({"td": td.state_dict(), "buffer": buffer.state_dict()}, tmp_path / f"state{suffix}")
    state = lite.load(tmp_path / f"state{suffix}")
    found = TensorDict().load_state_dict(state["td"], strict=False)
    assert (found.batch_size, found["n"].batch_size) == ((2,), (2,))
    assert (found["n", "text"], list(found["n", "ids"])) == ("x", ["p", "q"])
    resumed = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    resumed.load_state_dict(state["buffer"])
    assert resumed.sample()["x"].tolist() == buffer.sample()["x"].tolist()


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    for state, message in (
        ({"nets": [{"net": nn.Linear(1, 1)}]}, r"state\['nets'\]\[0\]\['net'\] must be .* got a Linear"),
        ({"a": {(1, 2): 3}}, r"keys of state\['a'\] must be texts or numbers, got \(1, 2\)"),
    ):
        raises(TypeError, message, lite.save, state, tmp_path / "state.npz")
    for data in ([1, 2], None, "state.npz"):
        raises(TypeError, "data must be a TensorDict or a dict, got", lite.save, data, tmp_path / "state.npz")
    raises(TypeError, "prefix must be a path, got None", lite.save, {"a": 1})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "tree",
    [
        *("[", "3", '["dict", 3]', '["eval", "0"]', '["array"]', '["dict", [["a", ["array", "9"]]]]'),
        *('["dict", [["a", ["number", "text"]]]]', '["dict", [[[], 1]]]', "[" * 100_000),
        '["dict", [["a", ["tensordict", "text"]]]]',
        *('["state_dict", []]', '["state_dict", [], 3]'),
    ],
)
def test_hostile_files_are_refused(tree: str, tmp_path: Path) -> None:
    td = TensorDict({"0": np.ones(2), "text": "text", "%state_dict": NonTensorData(tree)})
    td.save(tmp_path / "state.npz")
    with pytest.raises(ValueError, match=r"state\.npz: the file has no state dict, or a damaged one"):
        lite.load(tmp_path / "state.npz")


def test_other_tensordicts_are_as_they_were(tmp_path: Path) -> None:
    TensorDict({"%state_dict": np.ones(2)}).save(tmp_path / "td.npz")
    assert isinstance(lite.load(tmp_path / "td.npz"), TensorDict)
