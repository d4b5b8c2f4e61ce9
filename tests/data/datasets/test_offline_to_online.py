"""Batches of recorded and of new data: where the elements are from, other parts, and what is saved."""

import numpy as np
import pytest
from helpers.data.minari_files import episode, write

from lite import TensorDict
from lite.data import (
    LazyTensorStorage,
    ListStorage,
    OfflineToOnlineReplayBuffer,
    ReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)


def made(kind=TensorDictReplayBuffer, seed=0, new=5, **options) -> OfflineToOnlineReplayBuffer:
    recorded = kind(storage=LazyTensorStorage(20), generator=0)
    recorded.extend(TensorDict(step=np.arange(10), batch_size=[10]))
    out = OfflineToOnlineReplayBuffer(recorded, online_capacity=8, generator=seed, **options)
    if new:
        out.extend(TensorDict(step=100 + np.arange(new), batch_size=[new]))
    return out


def test_the_index_says_where_an_element_is() -> None:
    """Also of a TensorDictReplayBuffer, for which torchrl's raises KeyError."""
    for kind in (ReplayBuffer, TensorDictReplayBuffer):
        batch, info = made(kind).sample(9, return_info=True)
        index = batch["index"]
        assert index["buffer_ids"].tolist() == [0] * 4 + [1] * 5
        np.testing.assert_array_equal(batch["step"], index["index"] + 100 * index["buffer_ids"])
        assert (info["index"] == index).all()


def test_a_data_set_by_its_name(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    write(tmp_path / "minari" / "own" / "test-v0", {"episode_0": episode(6, 0)})
    both = OfflineToOnlineReplayBuffer(
        "minari:own/test-v0", online_capacity=3, batch_size=4, root=tmp_path / "root",
        sampler=SamplerWithoutReplacement,
    )  # fmt: skip
    steps = both.sample().exclude("index")
    assert len(both) == 6
    both.extend(steps[:2])
    batch = both.sample()
    assert batch["index", "buffer_ids"].tolist() == [0, 0, 1, 1]
    assert batch.exclude("index").keys(True, True) == steps.keys(True, True)


def test_a_seed_repeats_the_draws() -> None:
    draws = [made(seed=seed).sample(64)["step"].tolist() for seed in (0, 0, 1)]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]


def test_what_is_saved_leads_on(tmp_path) -> None:
    first = made(batch_size=8)
    first.anneal(1, 2)
    first.sample()
    second, third = made(seed=7, new=0), made(seed=8, new=0)
    second.load_state_dict(first.state_dict())
    first.dumps(tmp_path / "both")
    third.loads(tmp_path / "both")
    drawn = first.sample()["step"].tolist()
    for other in second, third:
        assert other.offline_fraction == 0.25
        assert other.sample(8)["step"].tolist() == drawn
    state = {k: v for k, v in first.state_dict().items() if k != "_offline_fraction"}
    before = len(third.extend(TensorDict(step=np.arange(2), batch_size=[2]))) + len(first)
    with pytest.raises(ValueError, match=r"of another kind: it has no \['_offline_fraction'\]"):
        third.load_state_dict(state)
    assert len(third) == before


def test_other_entries_are_named() -> None:
    both = made(new=0, batch_size=8)
    both.extend(TensorDict(step=np.arange(2), collector=TensorDict(ids=np.arange(2)), batch_size=[2]))
    with pytest.raises(KeyError, match=r"same entries: .*\['collector'\] are not in all.*exclude"):
        both.sample()


def test_elements_that_are_no_tensordicts() -> None:
    recorded = ReplayBuffer(storage=ListStorage(3), generator=0)
    recorded.extend([1.0] * 3)
    both = OfflineToOnlineReplayBuffer(recorded, online_storage=ListStorage(3), batch_size=4)
    both.extend([2.0])
    assert next(iter(both)).tolist() == [1, 1, 2, 2]


def test_what_is_no_buffer_of_shares() -> None:
    ahead = ReplayBuffer(storage=LazyTensorStorage(3), batch_size=2, prefetch=1)
    with pytest.raises(ValueError, match="offline_dataset must not prefetch"):
        OfflineToOnlineReplayBuffer(ahead, online_capacity=3)
    with pytest.raises(TypeError, match="rbs must be ReplayBuffers, got int"):
        OfflineToOnlineReplayBuffer(3, online_capacity=3)
