"""Samplers beside torchrl's: the same supports, probabilities and weights, states and errors."""

from itertools import pairwise

import numpy as np
import pytest
import tensordict
import torch
from helpers.data.segment_trees import MinTree, SumTree
from torchrl import data as peer

import lite.data as data
from lite import TensorDict


@pytest.fixture(autouse=True)
def segment_trees(monkeypatch):
    """Where torchrl's extension does not load beside this torch, its samplers run on plain trees."""
    from torchrl.data.replay_buffers.samplers import prioritized

    if prioritized.SumSegmentTreeFp32 is None:
        for name in ("SumSegmentTreeFp32", "SumSegmentTreeFp64"):
            monkeypatch.setattr(prioritized, name, SumTree)
        for name in ("MinSegmentTreeFp32", "MinSegmentTreeFp64"):
            monkeypatch.setattr(prioritized, name, MinTree)


# torchrl's indices in several dimensions pass through NumPy, which warns of torch's arrays.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


class Pair:
    """A buffer of lite and one of torchrl with the same content."""

    def __init__(self, kind, size, ndim=1, **options):
        self.ours = data.ReplayBuffer(
            storage=data.LazyTensorStorage(size, ndim=ndim),
            sampler=getattr(data, kind)(**options, generator=0),
        )
        self.theirs = peer.ReplayBuffer(
            storage=peer.LazyTensorStorage(size, ndim=ndim), sampler=getattr(peer, kind)(**options)
        )
        # On 2 dimensions time is the second of what extend gets, in both.

    def extend(self, shape, **entries):
        nested = {"next": {key: np.asarray(value) for key, value in entries.items()}}
        self.ours.extend(TensorDict(nested, shape))
        self.theirs.extend(tensordict.TensorDict(nested, shape))


def rows(index):
    """An index of either as tuples."""
    parts = index if isinstance(index, tuple) else (index,)
    return list(zip(*(np.asarray(part).tolist() for part in parts), strict=True))


def pieces(index, info):
    found, open_one = set(), []
    for row, last in zip(rows(index), np.asarray(info["next", "truncated"])[:, 0], strict=True):
        open_one.append(row)
        if last:
            found.add(tuple(open_one))
            open_one = []
    assert not open_one
    return found


def drawn(pair, size):
    ours = pieces(*pair.ours.sampler.sample(pair.ours.storage, size))
    theirs = pieces(*pair.theirs.sampler.sample(pair.theirs._storage, size))
    return ours, theirs


@pytest.mark.parametrize(
    ("kind", "key", "ndim", "strict"),
    [
        ("SliceSampler", "end_key", 1, True), ("SliceSampler", "traj_key", 2, False),
        ("SliceSampler", "traj_key", 1, False), ("SliceSampler", "end_key", 2, True),
        ("PrioritizedSliceSampler", "end_key", 1, False), ("PrioritizedSliceSampler", "traj_key", 2, True),
    ],
)  # fmt: skip
def test_the_same_slices_can_be_drawn(kind, key, ndim, strict):
    """From rings that were written over by pieces of any size."""
    rng = np.random.default_rng(0)
    for case in range(6):
        capacity, lanes = int(rng.integers(6, 20)), 3
        size = capacity if ndim == 1 else capacity * lanes
        options = {
            "slice_len": 3,
            "strict_length": strict,
            key: ("next", "done" if key == "end_key" else "episode"),
        }
        if kind == "PrioritizedSliceSampler":
            options |= {"max_capacity": size, "alpha": 0.0, "beta": 0.5}
        pair = Pair(kind, size, ndim, **options)
        if ndim == 2:  # there torchrl's own draws slices across trajectories, once the ring was written over
            pair.theirs._sampler = peer.SliceSampler(slice_len=3, strict_length=strict, **{key: options[key]})
        ids = np.zeros(lanes, np.int64)
        for count in rng.integers(1, 9, 1 + case):
            done = rng.random((lanes, count)) < 0.2
            episode = ids[:, None] + np.cumsum(done, 1) - done
            ids = ids + done.sum(1)
            if ndim == 1:
                pair.extend((count,), done=done[0][:, None], episode=episode[0])
            else:
                pair.extend((lanes, count), done=done[..., None], episode=episode)
        try:
            theirs = pieces(*pair.theirs.sampler.sample(pair.theirs._storage, 3000))
        except RuntimeError:
            with pytest.raises(RuntimeError):
                pair.ours.sampler.sample(pair.ours.storage, 3000)
            continue
        assert pieces(*pair.ours.sampler.sample(pair.ours.storage, 3000)) == theirs


@pytest.mark.parametrize(
    ("kind", "span"),
    [
        ("SliceSampler", (1, False)), ("SliceSampler", (2, False)), ("SliceSampler", True),
        ("PrioritizedSliceSampler", (False, 1)), ("PrioritizedSliceSampler", (False, 2)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strict", [True, False])
def test_the_same_slices_reach_over_edges(kind, span, strict):
    lengths = (3, 7, 5) if strict or kind == "PrioritizedSliceSampler" or span is True else (4, 7, 5)
    done = np.zeros(sum(lengths), bool)
    done[np.cumsum(lengths) - 1] = True
    options = {"slice_len": 4, "strict_length": strict, "span": span}
    if kind == "PrioritizedSliceSampler":
        options |= {"max_capacity": len(done), "alpha": 0.0, "beta": 0.5}
    pair = Pair(kind, len(done), **options, end_key=("next", "done"))
    pair.extend((len(done),), done=done[:, None])
    ours, theirs = drawn(pair, 3_000)
    assert ours == theirs


def test_torchrl_counts_what_lies_after_the_end_the_other_way_round():
    """Its documentation, and its sampler by priority: all but `span` steps are in the trajectory."""
    pair = Pair("SliceSampler", 9, slice_len=5, span=(False, 1))
    pair.extend((9,), done=np.arange(9)[:, None] == 8)
    ours, theirs = drawn(pair, 10_000)
    assert {len(piece) for piece in ours} == {4, 5}
    assert {len(piece) for piece in theirs} == {2, 3, 4, 5}


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_the_same_priorities_after_any_updates(alpha, within):
    rng = np.random.default_rng(0)
    ours = data.PrioritizedSampler(20, alpha, 0.4, max_priority_within_buffer=within)
    theirs = peer.PrioritizedSampler(20, alpha, 0.4, max_priority_within_buffer=within)
    storage, other = data.LazyTensorStorage(20), peer.LazyTensorStorage(20)
    storage.set(range(20), TensorDict({"x": np.zeros(20)}, [20]))
    other.set(range(20), tensordict.TensorDict({"x": torch.zeros(20)}, [20]))

    def check():
        leaves = np.array([theirs._sum_tree[i] for i in range(20)])
        np.testing.assert_allclose(ours._leaves(), leaves, rtol=2e-6)
        assert ours.default_priority == pytest.approx(float(theirs.default_priority), rel=1e-5)

    for sampler, index in ((ours, np.arange(20)), (theirs, torch.arange(20))):
        sampler.mark_update(index)
    for _ in range(25):
        index = rng.integers(0, 20, rng.integers(1, 7))
        priority = rng.random(index.size).astype(np.float32) * 3
        what = rng.integers(4)
        if what == 0:
            ours.mark_update(index)
            ours.extend(index)
            theirs.mark_update(torch.from_numpy(index))
            theirs.extend(torch.from_numpy(index))
        elif what == 1:
            index[0] = -1
            ours.update_priority(index, 0.5)
            theirs.update_priority(torch.from_numpy(index), torch.tensor(0.5))
        else:
            index = np.unique(index) if within else index  # of equal ones, torch may count any as the highest
            ours.update_priority(index, priority[: index.size])
            theirs.update_priority(torch.from_numpy(index), torch.from_numpy(priority[: index.size]))
        check()
        if alpha and rng.random() < 0.2:
            ours.alpha = theirs.alpha = float(rng.random() + 0.1)
            check()
    drawn, info = ours.sample(storage, 300)
    weight = {int(i): float(w) for i, w in zip(drawn, info["priority_weight"], strict=True)}
    drawn, info = theirs.sample(other, 300)
    for i, w in zip(drawn.tolist(), info["priority_weight"].tolist(), strict=True):
        assert weight.get(i, w) == pytest.approx(w, rel=1e-4)


def test_torchrl_draws_slices_across_trajectories_of_several_lanes():
    """Why the test above takes another reference there: if this fails, it need not any more."""
    options = {"max_capacity": 18, "alpha": 0.0, "beta": 0.5, "slice_len": 3, "end_key": ("next", "done")}
    pair = Pair("PrioritizedSliceSampler", 18, 2, **options)
    for start in (0, 4):
        steps = np.arange(start, start + 4)
        pair.extend(
            (3, 4), done=np.stack([steps == 2, steps == 5, steps == 7])[..., None], step=np.stack([steps] * 3)
        )
    theirs = pieces(*pair.theirs.sampler.sample(pair.theirs._storage, 3000))
    cuts = {(1, 2): "the end of the ring"}  # row 1 was written last, row 2 is the oldest
    across = [piece for piece in theirs if any((a[0], b[0]) in cuts for a, b in pairwise(piece))]
    assert across
    ours = pieces(*pair.ours.sampler.sample(pair.ours.storage, 3000))
    assert not [piece for piece in ours if any((a[0], b[0]) in cuts for a, b in pairwise(piece))]


@pytest.mark.parametrize("options", [{}, {"max_staleness": 2}, {"staleness_weight_fn": lambda s: s + 1}])
def test_staleness(options):
    pair = Pair("StalenessAwareSampler", 6, version_key=("next", "policy_version"), **options)
    pair.extend((6,), policy_version=np.array([0, 3, 1, 4, 2, 4]))
    found = []
    for side, storage in ((pair.ours, pair.ours.storage), (pair.theirs, pair.theirs._storage)):
        side.sampler.consumer_version = 4
        side.sampler.increment_consumer_version()
        index, info = side.sampler.sample(storage, 12_000)
        assert str(info["staleness"].dtype).endswith("float32")
        stale = np.float32(5) - np.asarray([0, 3, 1, 4, 2, 4], np.float32)[np.asarray(index)]
        np.testing.assert_array_equal(np.asarray(info["staleness"]), stale)
        found.append(np.bincount(np.asarray(index), minlength=6) / 12_000)
        few = np.asarray(side.sampler.sample(storage, 3)[0])
        assert len(set(few.tolist())) == 3
    np.testing.assert_allclose(*found, atol=0.03)
    np.testing.assert_array_equal(found[0] > 0, found[1] > 0)
    states = [dict(side.sampler.state_dict()) for side in (pair.ours, pair.theirs)]
    del states[0]["rng"]
    assert states[0] == states[1]
    assert repr(pair.ours.sampler) == repr(pair.theirs.sampler)
