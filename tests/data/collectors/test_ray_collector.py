"""Collectors in actors: what an actor does, without Ray; and clusters whose actors die."""

import pickle
import sys
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from helpers import local_ray, ray_jobs
from helpers.cases import raises

from lite import TensorDict, TensorDictBase, nn
from lite.data import Collector, EnvError, RayCollector
from lite.data.collectors.ray_collector import CollectorActor, _for_each


class Counting:
    """A collector whose frames are numbers, and whose weights are one number."""

    requested_frames_per_batch = 3

    def __init__(self, env: Any, policy: Any, *, total_frames: int, **options: Any) -> None:
        assert total_frames == -1
        self.env, self.policy, self.options = env, policy, options
        self.policy_version, self.weights, self.frames = 0, 0, 0
        self.updates = 0

    def update_policy_weights_(self, weights: TensorDictBase) -> None:
        self.weights = int(weights["w"])
        self.updates += 1

    def next(self) -> TensorDictBase | None:
        if self.options.get("replay_buffer") is not None:
            return None
        steps = np.arange(self.frames, self.frames + 3)
        self.frames += 3
        ids = np.array([-1, 0, 1])
        entries = {"step": steps, "w": np.full(3, self.weights), "version": np.full(3, self.policy_version)}
        return TensorDict({**entries, "collector": {"traj_ids": ids}}, [3])


def test_an_actor_collects_with_the_weights_of_the_version() -> None:
    actor = CollectorActor((Counting, "env", "policy", None), {"seed": 3}, 5 << 40)
    collector = actor._collector
    assert (collector.env, collector.policy) == ("env", "policy")
    assert collector.options == {"track_policy_version": True, "seed": 3}
    frames, batch = actor.collect(0, None)
    assert frames == 3
    assert batch is not None
    np.testing.assert_array_equal(batch["collector", "traj_ids"], [-1, 5 << 40, (5 << 40) + 1])
    for version, weights in ((2, TensorDict({"w": 7})), (2, None), (3, TensorDict({"w": 9}))):
        _, batch = actor.collect(version, weights)
        assert batch is not None
        assert set(batch["version"]) == {version}
        assert set(batch["w"]) == {7 if version == 2 else 9}
    assert collector.updates == 2


def test_an_actor_makes_its_policy_and_may_fill_a_buffer() -> None:
    actor = CollectorActor((Counting, "env", None, lambda: "made"), {"replay_buffer": 1}, 0)
    assert actor._collector.policy == "made"
    assert actor.collect(0, None) == (3, None)


def test_errors_of_environments_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(EnvError("broken", 2, 7, {"x": 1})))
    assert (str(error), error.index, error.step, error.frames) == ("broken", 2, 7, {"x": 1})


def test_arguments_for_each_actor() -> None:
    count, lists = _for_each({"a": [1, 2], "b": {"c": 1}, "d": None}, None)
    assert (count, lists) == (2, {"a": [1, 2], "b": [{"c": 1}, {"c": 1}], "d": [None, None]})
    assert _for_each({"a": 1}, 3) == (3, {"a": [1, 1, 1]})
    assert _for_each({"a": 1}, None)[0] == 1
    with pytest.raises(
        ValueError, match=r"one element for each collector, got {'a': 2, 'num_collectors': 3}"
    ):
        _for_each({"a": [1, 2]}, 3)
    raises(ValueError, "at least one collector, got 0", _for_each, {"a": 1}, 0)


def test_arguments() -> None:
    with pytest.raises(TypeError, match="policy and policy_factory cannot both be given"):
        RayCollector(None, len, policy_factory=len, frames_per_batch=1)
    with pytest.raises(ValueError, match="frames_per_batch must be a multiple of the 2 collectors, got 3"):
        RayCollector(None, num_collectors=2, sync=True, frames_per_batch=3)
    raises(ValueError, "got 0", RayCollector, None, frames_per_batch=0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Ray as it is without actors: whether it was connected to, and left."""
    connected: list[bool] = []
    ray = SimpleNamespace(
        is_initialized=lambda: False, init=lambda **options: connected.append(True),
        shutdown=lambda: connected.append(False), cluster_resources=lambda: {"CPU": 2.0},
        put=lambda value: value, data=None,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", SimpleNamespace())
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return connected


def test_weights_are_no_older_than_so_many_batches(machine: list[bool]) -> None:
    del machine
    expected = {
        -1: [0, 0, 0, 0, 0, 1, 1, 1],
        0: [0, 1, 2, 3, 4, 5, 6, 7],
        1: [0, 0, 1, 1, 2, 3, 3, 4],
        3: [0, 0, 0, 0, 1, 2, 2, 2],
    }
    for interval, wanted in expected.items():
        net, versions = nn.Linear(1, 1), []
        with RayCollector(None, net, frames_per_batch=1, max_weight_update_interval=interval) as collector:
            collector._first = lambda: TensorDict({}, [1])  # type: ignore[method-assign]
            for batch in range(8):
                if batch == 5:
                    collector.update_policy_weights_()
                collector.next()
                versions.append(collector.policy_version)
        assert versions == wanted, interval


def test_the_bar(machine: list[bool], capsys: pytest.CaptureFixture[str]) -> None:
    del machine
    step = {"reward": np.full((4, 1), 0.5), "done": np.arange(4)[:, None] == 3}
    batch = TensorDict({"next": step, "collector": {"traj_ids": np.zeros(4, np.int64)}}, [4])

    def first() -> TensorDict:
        collector._frames += 4
        return batch

    with RayCollector(None, frames_per_batch=4, total_frames=8, progress=True) as collector:
        collector._first = first  # type: ignore[method-assign]
        assert len(list(collector)) == 2
    last = capsys.readouterr().err.split("\r")[-1]
    assert last.startswith("8/8 [#")
    assert last.endswith(" frames/s, reward 2\n")


def test_hooks_and_several_environments_in_an_actor(machine: list[bool]) -> None:
    del machine
    options: dict[str, Any] = {"frames_per_batch": 8, "num_workers_per_collector": 2, "seed": 0}
    seen: list[Any] = []
    with RayCollector(
        lambda: gymnasium.make("CartPole-v1"),
        **options,
        collector_class=Collector,
        pre_collect_hook=lambda: seen.append("before"),
        post_collect_hook=lambda batch: seen.append(batch.shape),
    ) as collector:
        actor = CollectorActor(collector._parts[0], collector._options[0], 0)
        frames, batch = actor.collect(0, None)
    assert frames == 8
    assert batch is not None
    assert batch.shape == (2, 4)
    assert seen == ["before", (2, 4)]
    with pytest.raises(ValueError, match="num_workers_per_collector must be at least 1, got 0"):
        RayCollector(None, frames_per_batch=1, num_workers_per_collector=0)


def test_actors_do_not_wait_for_what_will_not_come(machine: list[bool]) -> None:
    with pytest.raises(ValueError, match="3 collectors need 3 processors and this machine has 2: give fewer"):
        RayCollector(None, num_collectors=3, frames_per_batch=1)
    assert machine == [True, False]
    with RayCollector(None, num_collectors=3, frames_per_batch=1, remote_configs={"num_cpus": 0.5}) as fits:
        assert fits.stats()["workers"] == 3
    assert machine == [True, False] * 2


_ENVIRONMENT = """
import json, signal, time
from functools import partial
from pathlib import Path
import gymnasium, numpy as np
from lite import TensorDict, nn
from lite.data import EnvError, LazyTensorStorage, RayCollector, RayReplayBuffer, ReplayBuffer

folder = sys.argv[1]

class Line(gymnasium.Env):
    "Episodes of seven steps along a line that begins where the seed says."
    observation_space = gymnasium.spaces.Box(-1e9, 1e9, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1e9, 1e9, (1,), np.float32)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t = float(self.np_random.integers(0, 10**6)), 0
        return np.array([self.at], np.float32), {}
    def step(self, action):
        self.at, self.t = self.at + 1, self.t + 1
        died = Path(folder) / "died"
        if (Path(folder) / "die").exists() and self.t == 5 and not died.exists():
            died.touch()
            getattr(ray, "die", lambda: os.kill(os.getpid(), signal.SIGKILL))()
        if (Path(folder) / "raise").exists():
            raise RuntimeError("broken")
        return np.array([self.at], np.float32), float(action[0]), self.t == 7, False, {}

def policy(weight=0.0):
    module = nn.TensorDictModule(nn.Linear(1, 1), ["observation"], ["action"])
    return set_to(module, weight)

def set_to(module, value):
    for parameter in module.parameters():
        parameter.data[...] = 0
    module.module.bias.data[...] = value
    return module

def told(batch):
    flat = batch.reshape(-1)
    start = flat["observation"][:, 0] - flat["step_count"][:, 0]
    return [[int(i), int(s), int(v), float(a), int(o)] for i, s, v, a, o in zip(
        flat["collector", "traj_ids"], flat["step_count"][:, 0], flat["policy_version"],
        flat["action"][:, 0], start)]
"""


PLACES = ["here", pytest.param("cluster", marks=pytest.mark.processes)]


def run(script: str, place: str, folder: Any, cpus: int) -> Any:
    """What a script says, on a cluster or with Ray's part played here."""
    if place == "here":
        return local_ray.run(script, folder, cpus)
    ray_jobs.need_ray()
    return ray_jobs.run(ray_jobs.start(cpus) + script)


_COLLECTED = """
out = {}
module = policy()
options = dict(num_collectors=2, frames_per_batch=20, sync=True, seed=0)
with RayCollector(Line, module, total_frames=80, **options) as sync:
    out["sync"], out["shapes"] = [], []
    for i, batch in enumerate(sync):
        out["sync"].append(told(batch))
        out["shapes"].append(list(batch.shape))
        batch["observation"][:] = 0  # batches are the caller's own
        set_to(module, i + 1.0)
        if i != 1:
            sync.update_policy_weights_()
    out["sync stats"] = sync.stats()
state = sync.state_dict()

module = policy()
(Path(folder) / "die").touch()
with RayCollector(Line, module, num_collectors=2, frames_per_batch=10, total_frames=100, seed=0) as ones:
    out["async"] = []
    for i, batch in enumerate(ones):
        out["async"].append(told(batch))
        set_to(module, i + 1.0)
        ones.update_policy_weights_(module)
    out["async stats"] = ones.stats()
out["died"] = (Path(folder) / "died").exists()

(Path(folder) / "raise").touch()
with RayCollector(Line, frames_per_batch=10, num_collectors=1) as broken:
    try:
        broken.next()
    except ray.exceptions.RayTaskError as error:
        out["raised"], out["raised class"] = str(error), isinstance(error, EnvError)
    (Path(folder) / "raise").unlink()
    out["after"] = len(broken.next())
def no_env():
    raise RuntimeError("no environment here")
with RayCollector(no_env, frames_per_batch=10) as none:
    try:
        none.next()
    except RuntimeError as error:
        out["never"] = str(error)

with RayReplayBuffer(storage=partial(LazyTensorStorage, 1000), batch_size=8, generator=0,
                     remote_config={"num_cpus": 0}) as buffer:
    options = dict(num_collectors=2, frames_per_batch=10, total_frames=40, seed=0)
    with RayCollector(Line, replay_buffer=buffer, **options) as filling:
        out["yielded"] = [batch is None for batch in filling]
    out["stored"] = len(buffer)
    out["frames"] = sorted(told_ids for told_ids in buffer[:]["collector", "traj_ids"].tolist())
    batch = buffer.sample()
    batch["observation"][:] = 0
    out["sampled"] = [list(batch.shape), buffer.write_count]
    try:
        buffer.extend(3)
    except Exception as error:
        out["refused"] = type(error).__name__
local = ReplayBuffer(storage=LazyTensorStorage(1000))
with RayCollector(Line, replay_buffer=local, **options) as filling:
    out["yielded here"] = [batch is None for batch in filling]
out["stored here"] = len(local)

again = policy()
options = dict(num_collectors=2, frames_per_batch=20, sync=True, seed=0)
with RayCollector(Line, again, total_frames=100, **options) as more:
    more.load_state_dict(state)
    out["resumed"] = [told(batch) for batch in more]
print(json.dumps(out))
ray.shutdown()
"""


@pytest.fixture(scope="module", params=PLACES)
def collected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run(_ENVIRONMENT + _COLLECTED, request.param, tmp_path_factory.mktemp("line"), 2)


def episodes_of(batches: list[Any]) -> dict[int, list[list[Any]]]:
    """Frames by the id of their episode, in order."""
    found: dict[int, list[list[Any]]] = {}
    for frame in [frame for batch in batches for frame in batch]:
        found.setdefault(frame[0], []).append(frame)
    return found


def assert_nothing_is_doubled(batches: list[Any]) -> None:
    """Episodes are whole from their start, each with its own beginning."""
    episodes = episodes_of(batches)
    for frames in episodes.values():
        assert [frame[1] for frame in frames] == list(range(len(frames)))
        assert len({frame[4] for frame in frames}) == 1
    assert len({frames[0][4] for frames in episodes.values()}) == len(episodes)


def test_batches_of_all_actors(collected: Any) -> None:
    assert collected["shapes"] == [[2, 10]] * 4
    assert collected["sync stats"]["frames"] == 80
    assert collected["sync stats"]["completed"]
    assert_nothing_is_doubled(collected["sync"])


def test_versions_are_those_of_the_weights(collected: Any) -> None:
    """Actions are the bias, which is told with the version; the one that was not told does not count."""
    for batch, version, bias in zip(collected["sync"], (0, 1, 1, 2), (0.0, 1.0, 1.0, 3.0), strict=True):
        assert {(frame[2], frame[3]) for frame in batch} == {(version, bias)}
    for batch in collected["async"]:
        versions = {(frame[2], frame[3]) for frame in batch}
        assert versions == {(version, float(version)) for version, _ in versions}
        assert len(versions) == 1
    assert len({frame[2] for batch in collected["async"] for frame in batch}) > 2


def test_a_killed_actor_loses_a_batch_whole_and_doubles_nothing(collected: Any) -> None:
    assert collected["died"]
    assert collected["async stats"] == {
        "frames": 100, "requested_frames_per_batch": 10, "policy_version": 10, "workers": 2, "restarts": 1,
        "total_frames": 100, "completed": True,
    }  # fmt: skip
    assert [len(batch) for batch in collected["async"]] == [10] * 10
    assert_nothing_is_doubled(collected["async"])


def test_errors_of_environments_are_raised_here(collected: Any) -> None:
    assert (
        "lite.data.EnvError: environment 0 failed at step 0: step raised RuntimeError: broken"
        in collected["raised"]
    )
    assert collected["raised class"]
    assert collected["after"] == 10
    assert "no environment here" in collected["never"]
    assert collected["never"].startswith("collector 0 died 3 times before it gave a batch: ")


def test_a_buffer_in_an_actor_and_one_here(collected: Any) -> None:
    assert collected["yielded"] == collected["yielded here"] == [True] * 4
    assert collected["stored"] == collected["stored here"] == 40
    assert len(collected["frames"]) == 40
    assert collected["sampled"] == [[8], 40]
    assert collected["refused"]


def test_a_collection_goes_on(collected: Any) -> None:
    (batch,) = collected["resumed"]
    assert {(frame[2], frame[3]) for frame in batch} == {(3, 4.0)}
    assert_nothing_is_doubled([*collected["sync"], batch])


_FEW_PROCESSORS = """
import json, os, threading, time, warnings
import gymnasium
from functools import partial
import numpy as np
from lite import TensorDict
from lite.data import LazyMemmapStorage, RayCollector, RayReplayBuffer
import lite.data.collectors.ray_collector as module

module._QUIET = 2
make = partial(gymnasium.make, "CartPole-v1")
found = {}
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    collector = RayCollector(make, num_collectors=2, frames_per_batch=20, sync=True, start_timeout=4)
    try:
        collector.next()
    except RuntimeError as error:
        found["error"] = str(error)
    collector.shutdown()
found["told"] = [str(item.message) for item in told if "have not started" in str(item.message)]
collector = RayCollector(make, num_collectors=2, frames_per_batch=20, total_frames=100, start_timeout=30)
found["batches"] = sum(1 for _ in collector)
collector.shutdown()
collector = RayCollector(make, frames_per_batch=20)
found["before the end"] = 0
for _ in collector:
    if not found["before the end"]:
        threading.Timer(0.2, collector.shutdown).start()
    found["before the end"] += 1
"""
_RESTARTED = """
storage = partial(LazyMemmapStorage, 50, scratch_dir=sys.argv[1] + "/rows", existsok=True)
buffer = RayReplayBuffer(storage=storage, batch_size=4, remote_config={"max_restarts": 1})
buffer.extend(TensorDict({"a": np.arange(10)}, [10]))
process = lambda: ray.get(buffer._actor.__ray_call__.remote(lambda actor: os.getpid()))
first = process()
ray.kill(buffer._actor, no_restart=False)
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    try:
        if process() != first:
            break
    except ray.exceptions.RayError:
        time.sleep(0.2)
found["rows"] = len(buffer)
buffer.extend(TensorDict({"a": np.arange(10, 15)}, [5]))
found["values"] = buffer[:]["a"].tolist()
buffer.close()
"""


@pytest.mark.parametrize("place", PLACES)
def test_too_few_processors_and_ends_from_elsewhere(place: str, tmp_path: Any) -> None:
    script = _FEW_PROCESSORS + (_RESTARTED if place == "cluster" else "") + "print(json.dumps(found))\n"
    found = run(script, place, tmp_path, 1)
    expected = "1 of 2 collectors have not started: they need 1 processors, and of the 1 of the cluster 0 are"
    assert expected in found["error"]
    assert len(found["told"]) <= 2  # on a busy machine the first one is late, too, and is told of before
    assert expected in found["told"][-1]
    assert found["batches"] == 5
    assert found["before the end"] > 0
    if place == "cluster":
        assert (found["rows"], found["values"]) == (10, list(range(15)))
