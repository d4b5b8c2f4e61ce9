import copy
import functools
import json
import os
import pickle
import signal
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.numbered_frames import frames, torn

from lite import TensorDict, jit, nn, vmap
from lite.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    MultiStepTransform,
    PrioritizedSampler,
    RandomSampler,
    ReplayBuffer,
    RoundRobinWriter,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    TensorStorage,
)
from lite.envs import CatFrames, Compose, RewardScaling


def filled(count: int = 30, size: int = 20, **options) -> ReplayBuffer:
    buffer = ReplayBuffer(storage=LazyTensorStorage(size), generator=0, **options)
    buffer.extend(frames(0, count))
    return buffer


def test_batches_are_copies_of_rows() -> None:
    buffer = filled()
    batch, info = buffer.sample(50, return_info=True)
    np.testing.assert_array_equal(batch["step"], buffer[info["index"]]["step"])
    batch["step"][:] = -1
    assert buffer[:]["step"].min() == 10
    assert not torn(buffer.sample(500)).any()


def test_a_graph_does_not_keep_what_a_buffer_gave() -> None:
    buffer = filled(batch_size=20, sampler=SamplerWithoutReplacement(shuffle=False))
    for read in (lambda: buffer.sample(), lambda: buffer[:], lambda: buffer[np.array([1, 2])]):
        with pytest.raises(NotImplementedError, match="reads a replay buffer: pass what it gives"):
            jit(lambda x, read=read: x + read()["step"].sum())(np.ones(2))
        assert jit(lambda x: x + 1)(read()["step"]).shape == read().shape  # as an argument
        assert vmap(lambda x, read=read: x + read()["step"].sum())(np.ones(2)).shape == (2,)
    net = nn.TensorDictModule(lambda x: x + buffer[:]["step"].sum(), ["x"], ["y"])
    with pytest.raises(NotImplementedError, match=r"cannot be exported: the module .*reads a replay buffer"):
        net.to_onnx("net.onnx", np.ones(2))


def test_the_same_seed_draws_the_same() -> None:
    one, other = filled(), filled()
    for _ in range(3):
        assert (one.sample(7) == other.sample(7)).all()
    other.set_rng(1)
    assert not (one.sample(7) == other.sample(7)).all()
    own = RandomSampler(generator=3)
    assert ReplayBuffer(sampler=own, generator=5).sampler is own
    assert own._rng.random() == np.random.default_rng(3).random()


def test_parts_made_by_functions() -> None:
    buffer = ReplayBuffer(
        storage=lambda: ListStorage(5),
        sampler=RandomSampler,
        writer=RoundRobinWriter,
        transform_factory=lambda: len,
    )
    buffer.extend(["a", "bb"])
    assert buffer.sample(3) == 3
    assert len(buffer.transform) == 1
    assert "ListStorage" in repr(buffer)


def test_the_defaults() -> None:
    buffer = ReplayBuffer()
    assert isinstance(buffer.storage, ListStorage)
    assert buffer.storage.max_size == 1000
    assert isinstance(buffer.sampler, RandomSampler)
    assert (buffer.batch_size, buffer.dim_extend) == (None, 0)


def test_transforms_on_both_ways() -> None:
    buffer = filled(transform=lambda td: td.set("seen", td["step"] * 2))
    assert (buffer.sample(5)["seen"] % 2 == 0).all()
    assert buffer[3]["seen"] == 2 * buffer.storage.get(3)["step"]
    buffer.append_transform(lambda td: td.set("step", td["step"] + 1000), invert=True)
    buffer.extend(frames(0, 1))
    assert buffer.storage.get(10)["step"] == 1000
    buffer.insert_transform(0, lambda td: td.select("step"))
    assert set(buffer.sample(2).keys()) == {"step", "seen"}
    raises(ValueError, "index must be from -3 to 3, got 4", lambda: buffer.insert_transform(4, lambda td: td))
    buffer.insert_transform(-3, lambda td: td)


def test_nothing_changes_when_something_fails() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(20), transform=MultiStepTransform(2, 0.9))
    buffer.extend(frames(0, 5))
    before, withheld = buffer[:].clone(), buffer.transform.withheld.clone()
    raises(TypeError, "step", lambda: buffer.extend(frames(5, 9).set("step", np.full(4, 0.5))))
    raises(KeyError, "", lambda: buffer.extend(frames(5, 9).exclude("obs")))
    assert (buffer[:] == before).all()
    assert (buffer.transform.withheld == withheld).all()
    assert buffer.extend(frames(5, 6)).tolist() == [3]


def test_keys_as_indices() -> None:
    buffer = filled()
    np.testing.assert_array_equal(buffer["step"], buffer[:]["step"])
    np.testing.assert_array_equal(buffer["next", "reward"], buffer[:]["next", "reward"])
    buffer["step"] = np.arange(20)
    assert buffer["step"].tolist() == list(range(20))
    buffer[(0,)] = frames(77, 78)[0]
    assert buffer[0]["step"] == 77
    buffer[2:4] = frames(5, 7)
    assert buffer[[2, 3]]["step"].tolist() == [5, 6]
    buffer.append_transform(lambda td: td.set("step", td["step"] + 1000), invert=True)
    buffer[:1] = frames(3, 4)
    assert buffer.storage[0]["step"] == 1003


def test_entries_are_changed_where_they_lie(tmp_path) -> None:
    kept = LazyMemmapStorage(20, scratch_dir=tmp_path)
    for storage in (LazyTensorStorage(20), kept):
        buffer = ReplayBuffer(
            storage=storage, sampler=SliceSampler(slice_len=5, traj_key="episode"), batch_size=5
        )
        buffer.extend(TensorDict(episode=np.arange(10), reward=np.zeros((10, 1)), batch_size=[10]))
        raises(RuntimeError, "", buffer.sample)
        lies = storage.entry("episode")
        buffer.set_("episode", np.arange(10) // 5)  # the sampler finds the new episodes
        assert {tuple(buffer.sample()["episode"].tolist()) for _ in range(20)} == {(0,) * 5, (1,) * 5}
        assert buffer.set_at_("reward", 2.0, [-1, 0]) is buffer
        buffer.update_({"episode": np.ones(10), "reward": np.ones((10, 1))}, keys_to_update=["episode"])
        assert storage.entry("episode") is lies
        assert (buffer["episode"].tolist(), buffer["reward"].sum()) == ([1] * 10, 4.0)
        for change in (
            lambda buffer=buffer: buffer.set_("other", np.ones(10)),
            lambda buffer=buffer: buffer.set_at_("reward", 1.0, 10),
        ):
            raises((KeyError, IndexError), "", change)
        assert buffer["reward"].sum() == 4.0
    seen = LazyMemmapStorage(20, scratch_dir=tmp_path, existsok=True)
    assert seen.get(0)["reward"].tolist() == [2.0]
    others = [
        (ListStorage(3), [1.0]),
        (LazyTensorStorage(3), np.ones(2)),
        (LazyTensorStorage(3), {"r": np.ones(2)}),
    ]
    for other, data in others:
        buffer = ReplayBuffer(storage=other)
        buffer.extend(data)
        raises(TypeError, "rows of TensorDicts in arrays, got", buffer.set_, "r", 1.0)


def test_two_dimensions_along_each() -> None:
    data = TensorDict({"x": np.arange(12).reshape(3, 4)}, [3, 4])
    for dim, expected in ((0, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]), (1, data["x"].tolist())):
        buffer = ReplayBuffer(storage=LazyTensorStorage(24, ndim=2), dim_extend=dim)
        assert buffer.extend(data).shape == (12, 2)
        assert buffer[:]["x"].tolist() == expected
        assert buffer[1]["x"].tolist() == expected[1]
        index = buffer.sample(6, return_info=True)[1]["index"]
        assert isinstance(index, tuple)
        buffer[0] = TensorDict({"x": np.full(4, -1)}, [4]) if dim == 0 else buffer[0]
    assert buffer.storage.shape == (4, 3)
    rows = ReplayBuffer(storage=LazyTensorStorage(3, compress_next=True))
    rows.extend(TensorDict({"x": np.arange(3), "next": {"x": np.arange(1, 4), "done": np.zeros(3)}}, [3]))
    assert rows[1, ...]["next", "x"] == 2


def test_iteration_goes_round_once() -> None:
    buffer = filled(sampler=SamplerWithoutReplacement(), batch_size=6)
    for _ in range(2):
        seen = np.concatenate([batch["step"] for batch in buffer])
        assert sorted(seen.tolist()) == list(range(10, 30))


@pytest.mark.parametrize("sampler", [RandomSampler, SamplerWithoutReplacement])
def test_batches_drawn_ahead(sampler) -> None:
    plain = filled(sampler=sampler(), batch_size=6)
    ahead = filled(sampler=sampler(), batch_size=6, prefetch=3)
    for _ in range(9):
        assert (plain.sample() == ahead.sample()).all()
    state = ahead.state_dict()
    other = filled(sampler=sampler(), batch_size=6, prefetch=3)
    other.load_state_dict(state)
    for _ in range(9):
        assert (ahead.sample() == other.sample()).all()


@pytest.mark.filterwarnings("ignore:Got conflicting batch_sizes")
def test_batches_drawn_ahead_have_the_size_that_is_asked_for() -> None:
    buffer = filled(sampler=SamplerWithoutReplacement(), batch_size=4, prefetch=2)
    drawn = [buffer.sample(size)["step"] for size in (4, 3, 4, 3)]
    state = buffer.state_dict()
    for one in buffer, filled(sampler=SamplerWithoutReplacement(), batch_size=4, prefetch=2):
        one.load_state_dict(state)
        seen = [*drawn, *(one.sample(size)["step"] for size in (4, 3))]
        assert [len(step) for step in seen] == [4, 3, 4, 3, 4, 2]
        assert sorted(np.concatenate(seen).tolist()) == list(range(10, 30))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes by fork")
def test_a_forked_process_draws_ahead_itself() -> None:
    buffer = filled(batch_size=4, prefetch=2)
    buffer.sample()
    child = os.fork()
    if not child:
        signal.alarm(20)  # else the process would wait for a thread that it does not have
        os._exit(0 if len(buffer.sample()) == len(buffer.sample()) == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(buffer.sample()) == 4


def test_batches_ahead_in_a_thread_that_outlives_the_main_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    plain, ahead = filled(batch_size=4), filled(batch_size=4, prefetch=2)
    for _ in range(4):
        assert (plain.sample() == ahead.sample()).all()


def test_a_batch_size_that_is_not_that_of_the_buffer() -> None:
    buffer = filled(batch_size=4)
    with pytest.warns(UserWarning, match="conflicting batch_sizes"):
        assert len(buffer.sample(3)) == 3
    assert len(buffer.sample()) == 4


@pytest.mark.parametrize("kind", [LazyTensorStorage, LazyMemmapStorage])
def test_saved_and_loaded(tmp_path, kind) -> None:
    def made() -> ReplayBuffer:
        return ReplayBuffer(storage=kind(20), transform=MultiStepTransform(3, 0.9), batch_size=5, generator=3)

    buffer = made()
    buffer.extend(frames(0, 33))
    buffer.sample()
    buffer.dumps(tmp_path / "b")
    assert TensorDict.load_memmap(tmp_path / "b" / "storage")["step"].shape == (20,)
    ways = [made(), made(), pickle.loads(pickle.dumps(buffer))]
    ways[0].loads(tmp_path / "b")
    ways[1].load_state_dict(buffer.state_dict())
    expected = buffer.sample()
    buffer.storage.close() if kind is LazyMemmapStorage else None
    index = buffer.extend(frames(33, 40)).tolist()
    stored = buffer[:].clone()
    last = buffer.flush().tolist()
    buffer.storage.close() if kind is LazyMemmapStorage else None
    for way in ways[: 2 if kind is LazyMemmapStorage else 3]:
        assert (way.sample() == expected).all()
        assert way.extend(frames(33, 40)).tolist() == index
        assert (way[:] == stored).all()
        assert way.flush().tolist() == last
    again = made()
    ways[0].dumps(tmp_path / "b")
    again.loads(tmp_path / "b")
    assert (again[:] == ways[0][:]).all()
    for other in (
        ReplayBuffer(storage=kind(size), transform=MultiStepTransform(3, 0.9)) for size in (30, 10)
    ):
        for load, saved in ((other.loads, tmp_path / "b"), (other.load_state_dict, buffer.state_dict())):
            # not a ring of another size
            raises(RuntimeError, r"room for [13]0 rows.* for 20", load, saved)
        assert other.extend(frames(0, 8)).tolist() == [0, 1, 2, 3, 4]  # three wait for what follows
        assert len(other) == 5


def test_a_load_that_fails_changes_nothing(tmp_path) -> None:
    def made(**parts: Any) -> ReplayBuffer:
        return ReplayBuffer(storage=LazyTensorStorage(20), **parts)

    step = functools.partial(MultiStepTransform, 3, 0.9)
    saved = made(batch_size=5, transform=step(), generator=1)
    saved.extend(frames(0, 33))
    saved.dumps(tmp_path / "b")
    random = saved.state_dict()
    for parts, error in (
        ({"sampler": SamplerWithoutReplacement()}, "sampler is not that of a SamplerWithoutReplacement"),
        (
            {"sampler": PrioritizedSampler(20, 1.0, 1.0), "transform": step()},
            "not that of a PrioritizedSampler",
        ),
        ({}, r"transforms (\['0'\] withheld|or more, there are 0)"),
    ):
        buffer, same = (made(batch_size=2, generator=0, **copy.deepcopy(parts)) for _ in range(2))
        for one in (buffer, same):
            one.extend(frames(0, 9))
        raises(ValueError, error, buffer.loads, tmp_path / "b")
        raises(ValueError, error, buffer.load_state_dict, random)
        assert (buffer[:] == same[:]).all()
        assert (buffer.sample() == same.sample()).all()
        assert (buffer.extend(frames(9, 30)) == same.extend(frames(9, 30))).all()
    buffer = made(batch_size=2, transform=step())
    buffer.extend(frames(0, 9))
    held = buffer[:].clone()
    raises(KeyError, "_cursor", buffer.load_state_dict, {**random, "_writer": {}})
    file = tmp_path / "b" / "writer" / "metadata.json"
    for damage, wrong in ((lambda: file.write_text("{}"), ValueError), (file.unlink, FileNotFoundError)):
        damage()
        raises(wrong, "metadata", buffer.loads, tmp_path / "b")
        assert (buffer[:] == held).all()


def test_states_of_transforms_are_saved(tmp_path) -> None:
    class Counts:
        def __init__(self, seen: int = 0) -> None:
            self.seen = np.array(seen)

        def __call__(self, data: TensorDict) -> TensorDict:
            return data

        def state_dict(self) -> dict[str, np.ndarray]:
            return {"seen": self.seen} if self.seen else {}

        def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
            self.seen = state["seen"]

    buffer, other = filled(), filled()
    for place, count in ((buffer, 5), (other, 1)):
        place.append_transform(Counts())
        place.append_transform(Counts(count))
    buffer.dumps(tmp_path / "b")
    other.loads(tmp_path / "b")
    assert [int(each.seen) for each in other.transform] == [0, 5]


def test_frames_that_no_environment_kept_are_no_state(tmp_path) -> None:
    def made(scale: float) -> ReplayBuffer:
        buffer = filled()
        buffer.append_transform(Compose(CatFrames(2, -1, ["obs"], ["f"]), RewardScaling(0.0, scale)))
        return buffer

    buffer, *others = made(3.0), made(1.0), made(1.0)
    buffer.dumps(tmp_path / "b")
    others[0].loads(tmp_path / "b")
    others[1].load_state_dict(buffer.state_dict())
    assert [float(other.transform[0][1].scale) for other in others] == [3.0, 3.0]


def test_a_folder_of_mapped_files_is_not_copied(tmp_path) -> None:
    storage = LazyMemmapStorage(20, scratch_dir=tmp_path / "b" / "storage")
    buffer = ReplayBuffer(storage=storage)
    buffer.extend(frames(0, 5))
    inode = (tmp_path / "b" / "storage" / "obs.memmap").stat().st_ino
    buffer.dumps(tmp_path / "b")
    assert (tmp_path / "b" / "storage" / "obs.memmap").stat().st_ino == inode
    other = ReplayBuffer(storage=LazyTensorStorage(20))
    other.loads(tmp_path / "b")
    assert (other[:] == buffer[:]).all()


def test_dumps_of_torchrl(tmp_path) -> None:
    """TorchRL 0.14.1 wrote them: priorities of a full ring, two lanes, the rows of highest rank."""

    def made(size: int, **parts: Any) -> TensorDictReplayBuffer:
        return TensorDictReplayBuffer(storage=LazyTensorStorage(size, ndim=parts.pop("ndim", 1)), **parts)

    with zipfile.ZipFile(Path(__file__).parents[2] / "vectors" / "torchrl_buffers.zip") as files:
        files.extractall(tmp_path)
    buffer = made(6, sampler=PrioritizedSampler(6, 1.0, 1.0, generator=0))
    buffer.loads(tmp_path / "prioritized")
    sample = buffer.sample()
    np.testing.assert_array_equal(buffer[:]["x"], [6, 7, 2, 3, 4, 5])
    power = np.array([1, 2, 1, 1, 3, 1])  # the priorities 4 and 9 of two rows, to alpha=0.5
    np.testing.assert_allclose(sample["priority_weight"], power[sample["index"]] ** -0.25, rtol=1e-5)
    np.testing.assert_allclose(buffer.sampler._leaves(), power)
    assert buffer.sampler.default_priority == 9
    buffer.dumps(tmp_path / "again")  # what TorchRL reads
    for file in ("sampler/sumtree.memmap", "sampler/mintree.memmap", "storage/x.memmap"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "prioritized" / file).read_bytes()
    lanes = made(12, ndim=2)
    lanes.loads(tmp_path / "lanes")
    np.testing.assert_array_equal(lanes[:]["x"], np.arange(8.0).reshape(2, 4))
    lanes.extend(TensorDict({"x": np.ones((2, 1), np.float32)}, [2, 1]))
    assert lanes[:]["x"].shape == (2, 5)
    highest = made(4, writer=TensorDictMaxValueWriter("x"))
    highest.loads(tmp_path / "highest")
    assert sorted(highest[:]["x"].tolist()) == [2, 3, 4, 5]
    highest.dumps(tmp_path / "top")
    ranks = np.fromfile(tmp_path / "top" / "writer" / "current_top_values.memmap")
    theirs = np.fromfile(tmp_path / "highest" / "writer" / "current_top_values.memmap", np.float32)
    np.testing.assert_array_equal(ranks, theirs)  # of the type that the metadata say
    (tmp_path / "highest" / "writer" / "metadata.json").write_text('{"cursor": 0}')  # as TorchRL 0.13 did
    highest.loads(tmp_path / "highest")
    assert highest.write_count == 4
    assert highest.extend(TensorDict({"x": np.array([1.0, 9.0], np.float32)}, [2])).tolist()[0] == -1
    other = made(
        7, sampler=PrioritizedSampler(6, 1.0, 1.0)
    )  # behind the last row of the file there would be rows that nobody wrote
    raises(ValueError, "full ring of 6 rows.* room for 7", other.loads, tmp_path / "prioritized")
    metadata = tmp_path / "lanes" / "storage" / "storage_metadata.json"
    for length in ("-3", "13", "1e3", '"x"'):
        metadata.write_text(f'{{"metadata": {{}}, "is_pytree": false, "len": {length}}}')
        raises(
            ValueError,
            "storage_metadata.json is damaged, or of .* its len",
            other.loads,
            tmp_path / "lanes",
        )
    assert len(other) == 0


def test_damaged_dumps(tmp_path) -> None:
    buffer = filled()
    buffer.dumps(tmp_path / "b")
    raises(FileNotFoundError, "", lambda: filled().loads(tmp_path / "nothing"))
    (tmp_path / "buffer.pkl").write_bytes(pickle.dumps(list(range(100))))
    refused = r"buffer.pkl is a file, and no folder that dumps wrote\. It is a pickle"
    raises(ValueError, refused, filled().loads, tmp_path / "buffer.pkl")
    (tmp_path / "b" / "buffer_metadata.json").write_text('{"batch_size": 3, "rng": {"bit_generator": "x"}}')
    with pytest.raises(ValueError, match="buffer_metadata"):
        filled().loads(tmp_path / "b")
    for size in (None, -1, 0, "4", 2.5, True, 1 << 17):
        state = {"rng": {}} if size is None else {"batch_size": size, "rng": {}}
        (tmp_path / "b" / "buffer_metadata.json").write_text(json.dumps(state))
        with pytest.raises(ValueError, match=r"buffer_metadata\.json is damaged or foreign: its batch_size"):
            filled().loads(tmp_path / "b")
    filled(sampler=SamplerWithoutReplacement()).dumps(tmp_path / "b")
    TensorDict().memmap(tmp_path / "b" / "sampler")
    with pytest.raises(
        ValueError, match=r"b is damaged or foreign: .* not that of a Sampler.*'_sample_list'"
    ):
        filled(sampler=SamplerWithoutReplacement()).loads(tmp_path / "b")
    with pytest.raises(NotImplementedError):
        ReplayBuffer().dumps(tmp_path / "list")
    assert not (tmp_path / "list").exists()


@pytest.mark.depth
@pytest.mark.parametrize(
    "make", [lambda: LazyTensorStorage(300), lambda: LazyMemmapStorage(300), lambda: ListStorage(300)]
)
def test_many_threads(make) -> None:
    buffer = ReplayBuffer(storage=make(), batch_size=16)
    buffer.extend(frames(0, 50))
    wrong: list[object] = []
    written: list[int] = []

    def extend(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(25):
            start, size = int(rng.integers(0, 10_000)), int(rng.integers(1, 20))
            index = buffer.extend(frames(start, start + size))
            written.append(len(index))

    def sample() -> None:
        for _ in range(25):
            if torn(buffer.sample()).any():
                wrong.append("torn")

    def guarded(run, *args) -> None:
        try:
            run(*args)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(extend, seed)) for seed in range(3)]
    threads += [threading.Thread(target=guarded, args=(sample,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert buffer.write_count == 50 + sum(written)
    assert len(buffer) == 300


class Told(RandomSampler):
    """A sampler that notes what it is told of."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []
        self.updated: list[int] = []

    def extend(self, index) -> None:
        self.rows += np.asarray(index).tolist()

    def mark_update(self, index, *, storage=None) -> None:
        self.updated += np.atleast_1d(index).tolist()


def test_samplers_are_told_of_rows_that_other_buffers_write(tmp_path) -> None:
    storage = LazyTensorStorage(10)
    first = ReplayBuffer(storage=storage)
    first.extend(frames(0, 3))
    first.set_sampler(Told())
    second = ReplayBuffer(storage=storage, sampler=Told())
    assert second.sampler.rows == [0, 1, 2]  # what was there
    second.add(frames(3, 4)[0])
    assert (first.sampler.updated[-1], second.sampler.updated[-1]) == (3, 3)
    assert len(first) == len(second) == 4
    writer = ReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=tmp_path / "f"))
    writer.extend(frames(0, 4))
    mapped = LazyMemmapStorage(10, scratch_dir=tmp_path / "f", existsok=True)
    reader = ReplayBuffer(storage=mapped, sampler=Told())
    for at, size in ((4, 3), (7, 5)):
        writer.extend(frames(at, at + size))
        reader.sample(2)
    assert reader.sampler.rows == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


def test_parts_can_be_exchanged() -> None:
    buffer = filled()
    assert isinstance(buffer.set_writer(ImmutableDatasetWriter()), RoundRobinWriter)
    raises(RuntimeError, "doesn't allow writing", lambda: buffer.extend(frames(0, 1)))
    assert isinstance(buffer.set_sampler(SamplerWithoutReplacement()), RandomSampler)
    assert len(buffer.sample(3)) == 3
    old = buffer.set_storage(ListStorage(3))
    assert len(old) == 20
    assert len(buffer) == 0


def test_an_empty_buffer_has_nothing_to_draw() -> None:
    for storage in (ListStorage(3), LazyTensorStorage(3), LazyMemmapStorage(3)):
        raises(RuntimeError, "empty", ReplayBuffer(storage=storage).sample, 2)


def test_arguments_that_only_mean_something_to_torch() -> None:
    for kind in (LazyTensorStorage, LazyMemmapStorage, ListStorage, LazyStackStorage):
        buffer = ReplayBuffer(storage=kind(4, compilable=True), compilable=True, pin_memory=True)
        buffer.extend(frames(0, 3))
        assert len(buffer) == 3
    assert len(TensorStorage(frames(0, 3), compilable=True)) == 3


def test_a_shared_buffer_is_filled_by_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(4), shared=True)
    thread = threading.Thread(target=buffer.extend, args=(frames(0, 3),))
    thread.start()
    thread.join()
    assert len(buffer) == 3
    raises(TypeError, "give the buffer to MultiSyncCollector", lambda: pickle.dumps(buffer))
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)  # as in a process that was forked
    for write in (buffer.extend, buffer.add):
        raises(RuntimeError, "would fill a copy", write, frames(0, 3))
    assert len(buffer) == 3


def test_priorities_at_a_tuple_of_indices() -> None:
    storage = LazyTensorStorage(12, ndim=2)
    buffer = ReplayBuffer(
        storage=storage, sampler=PrioritizedSampler(12, 1.0, 1.0, generator=0), batch_size=64
    )
    buffer.extend(frames(0, 12).reshape(4, 3))
    buffer.update_priority((np.arange(3), np.array([0, 1, 2])), np.zeros(3))
    where = np.stack(buffer.sample(return_info=True)[1]["index"], -1)
    assert (where[:, 0] != where[:, 1]).all()
