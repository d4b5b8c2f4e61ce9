import os
import warnings

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import LazyStackedTensorDict, TensorDict, load, save
from lite.data import (
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from lite.envs import ObservationNorm


def filled(first: int, count: int, kind=ReplayBuffer, **options) -> ReplayBuffer:
    buffer = kind(storage=LazyTensorStorage(20), generator=0, **options)
    buffer.extend(TensorDict(step=first + np.arange(count), batch_size=[count]))
    return buffer


def pair(**options) -> ReplayBufferEnsemble:
    return ReplayBufferEnsemble(filled(0, 10), filled(100, 5, TensorDictReplayBuffer), generator=1, **options)


def test_a_batch_has_a_row_for_each_buffer() -> None:
    both = pair(sample_from_all=True, batch_size=8)
    batch, info = both.sample(return_info=True)
    assert batch.batch_size == info.batch_size == (2, 4)
    index = batch["index"]
    assert index["buffer_ids"].tolist() == [[0] * 4, [1] * 4]
    np.testing.assert_array_equal(batch["step"], index["index"] + [[0], [100]])
    assert (info["index"] == index).all()
    weighted = filled(0, 9, TensorDictReplayBuffer, sampler=PrioritizedSampler(20, 1.0, 1.0, generator=0))
    row = ReplayBufferEnsemble(weighted).sample(3)[0]
    assert "priority_weight" in row
    weighted.update_tensordict_priority(row.set("td_error", np.full(3, 1e9)))
    assert set(weighted.sample(50)["step"]) <= set(row["step"])
    assert [len(both), len(both[0]), len(both[-1])] == [2, 10, 5]
    assert [each.shape for each, _ in zip(both, range(3), strict=False)] == [(2, 4)] * 3
    both[1].extend(TensorDict(step=np.arange(3), batch_size=[3]))
    assert (len(both[1]), both.write_count) == (8, 18)


def test_buffers_are_drawn_by_their_weights() -> None:
    for p, allowed in ([0.0, 2.0], {1}), (None, {0, 1}), (np.array([1, 1]), {0, 1}):
        both = pair(p=p)
        drawn = [both.sample(4)["index", "buffer_ids"] for _ in range(20)]
        assert {int(i) for ids in drawn for i in ids.ravel()} == allowed
        assert all((ids == ids[:, :1]).all() for ids in drawn)  # a row is of one buffer
    counts = [pair(p=[1, 9], num_buffer_sampled=200).sample(200)["index", "buffer_ids"].mean() for _ in "ab"]
    assert counts[0] == counts[1]  # a seed repeats the draws
    assert 0.8 < counts[0] < 0.99
    assert pair(num_buffer_sampled=3).sample(6).batch_size == (3, 2)
    assert pair(num_buffer_sampled=3, sample_from_all=True).sample(6).batch_size == (2, 3)


def test_transforms_of_each_and_of_all() -> None:
    parts = [filled(0, 4, transform=lambda td, i=i: td.set("task", td["step"] * 0 + i)) for i in range(2)]
    both = ReplayBufferEnsemble(
        *parts, sample_from_all=True, transform=lambda td: td.set("twice", td["step"] * 2)
    )
    both.append_transform(lambda td: td.set("four", td["twice"] * 2))
    batch = both.sample(4)
    assert batch["task"].tolist() == [[0, 0], [1, 1]]
    assert (batch["four"] == 4 * batch["step"]).all()
    flat = ReplayBufferEnsemble(*parts, sample_from_all=True, collate_fn=lambda rows: rows[1])
    assert flat.sample(4)["task"].tolist() == [1, 1]


def test_buffers_of_other_entries_and_elements() -> None:
    other = ReplayBuffer(storage=LazyTensorStorage(3), generator=0)
    other.extend(TensorDict(step=np.arange(3), goal=np.arange(3), batch_size=[3]))
    batch = ReplayBufferEnsemble(filled(0, 3), other, sample_from_all=True).sample(4)
    assert isinstance(batch, LazyStackedTensorDict)
    assert (batch.batch_size, "goal" in batch[1], "goal" in batch[0]) == ((2, 2), True, False)
    numbers = [ReplayBuffer(storage=ListStorage(3), generator=0) for _ in range(2)]
    for i, buffer in enumerate(numbers):
        buffer.extend([float(i)] * 3)
    assert ReplayBufferEnsemble(*numbers, sample_from_all=True).sample(4).tolist() == [[0, 0], [1, 1]]


def test_rounds_and_folders(tmp_path) -> None:
    made = [
        ReplayBufferEnsemble(
            *(filled(i, 4, sampler=SamplerWithoutReplacement(shuffle=False)) for i in starts),
            sample_from_all=True,
            batch_size=4,
        )
        for starts in ((0, 100), (7, 7))
    ]
    assert made[0].sample()["step"].tolist() == [[0, 1], [100, 101]]
    made[0].dumps(tmp_path)
    made[1].loads(tmp_path)
    assert made[1].sample()["step"].tolist() == made[0].sample()["step"].tolist() == [[2, 3], [102, 103]]


def test_all_buffers_are_written_or_none(tmp_path) -> None:
    for other, error, message in (
        (ReplayBuffer(storage=LazyTensorStorage(5)), RuntimeError, "buffer 1 .*no data yet"),
        (
            ReplayBuffer(storage=ListStorage(5)),
            NotImplementedError,
            "buffer 1 .*a ListStorage holds any object",
        ),
    ):
        with pytest.raises(error, match=message):
            ReplayBufferEnsemble(filled(0, 3), other).dumps(tmp_path / "new")
        assert not [*tmp_path.iterdir()]
    first, second = pair(), ReplayBufferEnsemble(filled(0, 1), filled(0, 1, TensorDictReplayBuffer))
    first.dumps(tmp_path)
    with pytest.raises(RuntimeError, match="buffer 1"):
        ReplayBufferEnsemble(filled(50, 3), ReplayBuffer(storage=LazyTensorStorage(5))).dumps(tmp_path)
    second.loads(tmp_path)
    for i in range(2):
        np.testing.assert_array_equal(second[i][:]["step"], first[i][:]["step"])


def other(kind: str) -> ReplayBufferEnsemble:
    """An ensemble that has nothing yet, whose second buffer has other parts than that of `pair`."""
    options = {
        "room": {"storage": LazyTensorStorage(21)},
        "compressed": {"storage": LazyTensorStorage(20, compress_next=True)},
        "list": {"storage": ListStorage(20)},
        "sampler": {"sampler": PrioritizedSampler(20, 1.0, 1.0)},
        "entries": {},
        "generator": {},
    }
    both = [ReplayBuffer(storage=LazyTensorStorage(20))]
    if kind != "one less":
        both.append(TensorDictReplayBuffer(**{"storage": LazyTensorStorage(20), **options[kind]}))
    if kind == "entries":
        both[1].extend(TensorDict(step=np.zeros((3, 2)), batch_size=[3]))
    if kind == "generator":
        return ReplayBufferEnsemble(
            *both, transform=shifted(1.0), generator=np.random.Generator(np.random.MT19937(0))
        )
    return ReplayBufferEnsemble(*both)


def shifted(loc: float) -> ObservationNorm:
    return ObservationNorm(loc=loc, scale=1.0, in_keys=["step"])


@each_case("kind", ["one less", "generator", "entries", "room", "compressed", "list", "sampler"])
@each_case("memory", [True, False])
def test_all_buffers_are_loaded_or_none(kind, memory, tmp_path) -> None:
    made, target = pair(transform=shifted(2.0) if kind == "generator" else None), other(kind)
    made.dumps(tmp_path / "b")
    before = target.state_dict()
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)):
        target.load_state_dict(made.state_dict()) if memory else target.loads(tmp_path / "b")
    np.testing.assert_equal(target.state_dict(), before)
    if kind == "generator":
        assert before["_transforms"]["states"]["0"]["loc"] == 1  # a copy
    assert not target[0].storage.initialized
    second = TensorDictReplayBuffer(storage=LazyTensorStorage(20))
    whole = ReplayBufferEnsemble(target[0], second, transform=shifted(3.0))
    whole.load_state_dict(made.state_dict()) if memory else whole.loads(tmp_path / "b")
    for i in range(2):
        np.testing.assert_array_equal(whole[i][:]["step"], made[i][:]["step"])


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
@each_case("name", ["0", "1/storage", "0/sampler", "0/writer", "1/transforms", "ensemble.npz"])
def test_a_folder_that_is_a_link_is_not_read(name, tmp_path) -> None:
    pair().dumps(tmp_path / "b")
    (tmp_path / "b" / name).rename(tmp_path / "elsewhere")
    (tmp_path / "b" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"refusing to follow the symbolic link .*b/{name}"):
        pair().loads(tmp_path / "b")


def test_a_state_goes_on_with_the_same_draws(tmp_path) -> None:
    made = [pair(batch_size=4)]
    made += [ReplayBufferEnsemble(filled(7, 1), filled(8, 1, TensorDictReplayBuffer)) for _ in range(2)]
    made[0].sample()
    save(made[0].state_dict(), tmp_path / "state")
    made[1].load_state_dict(load(tmp_path / "state"))
    made[0].dumps(tmp_path / "folder")
    made[2].loads(tmp_path / "folder")
    for _ in range(4):
        expected = made[0].sample()["step"]
        for other in made[1:]:
            np.testing.assert_array_equal(other.sample(4)["step"], expected)
    with pytest.raises(ValueError, match="state_dict must be of 1 buffers, got 2"):
        ReplayBufferEnsemble(filled(0, 1)).load_state_dict(made[0].state_dict())
    TensorDict().save(tmp_path / "folder" / "ensemble.npz")
    with pytest.raises(ValueError, match="the state is of an ensemble of another kind"):
        made[2].loads(tmp_path / "folder")


def test_the_share_of_a_buffer_is_no_conflict_with_its_own_batch_size() -> None:
    with warnings.catch_warnings(action="error"):
        ReplayBufferEnsemble(filled(0, 9, batch_size=8), filled(0, 9, batch_size=8)).sample(4)


def test_arguments() -> None:
    for options, kind, text in (
        ({"p": [1.0, 1.0], "sample_from_all": True}, RuntimeError, "both p and sample_from_all"),
        ({"p": [1.0]}, ValueError, "p must have 2 weights"),
        ({"p": [1.0, -1.0]}, ValueError, "p must have 2 weights"),
        ({"p": [0.0, 0.0]}, ValueError, "p must have 2 weights"),
        ({"num_buffer_sampled": 0}, ValueError, "num_buffer_sampled must be at least 1"),
    ):
        raises(kind, text, pair, **options)
    raises(ValueError, "at least one ReplayBuffer", ReplayBufferEnsemble)
    with pytest.raises(TypeError, match=r"rbs must be ReplayBuffers.*LazyTensorStorage"):
        ReplayBufferEnsemble(LazyTensorStorage(3))
    raises(RuntimeError, "batch_size not specified", lambda: pair().sample())
    raises(ValueError, r"batch_size must be a multiple of the 2 buffers.*got 5", lambda: pair().sample(5))
    raises(RuntimeError, "batch_size", lambda: next(iter(pair())))


def test_repr() -> None:
    both = pair(batch_size=4)
    assert repr(both) == f"ReplayBufferEnsemble({both[0]!r}, {both[1]!r}, batch_size=4)"
