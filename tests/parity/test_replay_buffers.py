"""Replay buffers against TorchRL's: what calls return, what lies where after them, and what is refused."""

import warnings

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from helpers.compared import on_both
from torchrl import data as reference
from torchrl.envs import MultiStepTransform

import lite
from lite import TensorDict
from lite import data as lite_data

SIDES = {"lite": lite_data, "reference": reference}


def frames(start, *size):
    count = int(np.prod(size))
    step = np.arange(start, start + count).reshape(size)
    return {
        "obs": np.stack([step, -step], -1).astype(np.float32),
        "nested": {"flag": step % 3 == 0, "count": step * 10},
        "next": {"reward": step[..., None].astype(np.float32) / 4},
    }


def as_data(side, entries, size):
    if side == "lite":
        return TensorDict(entries, size)
    return tensordict.TensorDict(entries, size)


def plain(value):
    """What a call returned, as arrays and numbers without a library."""
    if isinstance(value, tensordict.TensorDictBase):
        value = TensorDict.from_torch(value)
    if isinstance(value, lite.TensorDictBase):
        leaves = {str(key): np.asarray(leaf) for key, leaf in value.exclude("index").items(True, True)}
        return tuple(value.batch_size), leaves
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    return value


def assert_same(a, b):
    a, b = plain(a), plain(b)
    if isinstance(a, tuple):
        assert a[0] == b[0]
        assert a[1].keys() == b[1].keys()
        for key in a[1]:
            assert a[1][key].dtype == b[1][key].dtype, key
            np.testing.assert_allclose(a[1][key], b[1][key], 1e-6, err_msg=key)
    else:
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def both(run):
    """Run on both sides, and compare what is returned, or the class of the error."""
    results = {}
    for side in SIDES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results[side] = run(side, SIDES[side])
        except Exception as error:
            results[side] = error
    ours, theirs = results["lite"], results["reference"]
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert type(ours) is type(theirs), (ours, theirs)
        return
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert_same(a, b)


compared = on_both(both, 2)
STORAGES = ["LazyTensorStorage", "LazyMemmapStorage"]


@each_case(("storage", "buffer"), zip(STORAGES, ["ReplayBuffer", "TensorDictReplayBuffer"], strict=True))
@each_case("sizes", [[3, 3], [4, 4, 4], [10], [7, 7], [1, 1, 9], [3, 25]])
@compared
def test_extend(side, module, storage, buffer, sizes):
    made = getattr(module, buffer)(storage=getattr(module, storage)(10))
    out = []
    start = 0
    for size in sizes:
        out.append(made.extend(as_data(side, frames(start, size), (size,))))
        out += [len(made), made.write_count, made[:], made.writer.state_dict()["_cursor"]]
        start += size
    return out


@pytest.mark.parametrize("storage", STORAGES)
@compared
def test_two_dimensions(side, module, storage):
    made = module.TensorDictReplayBuffer(storage=getattr(module, storage)(24, ndim=2))
    out = [made.dim_extend]
    for start in (0, 100, 200):
        out.append(made.extend(as_data(side, frames(start, 3, 4), (3, 4))))
        out += [len(made), made.storage.max_size, np.array(made.storage.shape), made[:]]
    out.append(made.sample(5).batch_size[0])
    out.append(tuple(made.sample(5)["index"].shape) == (5, 2))
    return [np.asarray(x) if isinstance(x, int | bool) else x for x in out]


@each_case("storage", [*STORAGES, "ListStorage"])
@each_case("names", [["env", "time"], [None, "time"], ["env", None], None])
@each_case("write", ["extend", "add"])
@compared
def test_names_of_dimensions(side, module, storage, names, write):
    made = module.ReplayBuffer(storage=getattr(module, storage)(4))
    data = as_data(side, frames(0, 3, 4), (3, 4))
    data.names = names
    getattr(made, write)(data)
    found = [made.sample(2).names, *([] if storage == "ListStorage" else [made[:].names])]
    return [np.array([str(name) for name in each]) for each in found]


@each_case("storage", STORAGES)
@each_case(
    "index", [0, -1, slice(None), slice(1, 3), slice(None, None, 2), [0, 2], np.array([1, 1]), range(2)]
)
@compared
def test_reading(side, module, storage, index):
    made = module.ReplayBuffer(storage=getattr(module, storage)(10))
    made.extend(as_data(side, frames(0, 6), (6,)))
    return [made[index]]


@each_case("storage", STORAGES)
@each_case("index", [0, -1, slice(1, 3), [0, 2], np.arange(6) % 2 == 0])
@compared
def test_changes_in_place(side, module, storage, index):
    made = module.TensorDictReplayBuffer(storage=getattr(module, storage)(10))
    made.extend(as_data(side, frames(0, 6), (6,)))
    leaf = np.asarray if side == "lite" else torch.as_tensor
    ones = leaf(np.ones(2, np.float32))
    out = [made.set_at_("obs", ones, index if isinstance(index, int | slice) else leaf(index)) is made]
    out += [made.set_(("nested", "count"), leaf(np.arange(6))) is made]
    out += [made.update_({"next": {"reward": leaf(np.full((6, 1), 7, np.float32))}}) is made]
    return [np.asarray(out), made[:], made.write_count]


@pytest.mark.parametrize("kind", ["ReplayBuffer", "TensorDictReplayBuffer"])
@compared
def test_ensembles(side, module, kind):
    parts = []
    for start, count in ((0, 6), (100, 4)):
        sampler = module.SamplerWithoutReplacement(shuffle=False)
        parts.append(getattr(module, kind)(storage=module.LazyTensorStorage(10), sampler=sampler))
        parts[-1].extend(as_data(side, frames(start, count), (count,)))
    every = module.ReplayBufferEnsemble(
        *parts, sample_from_all=True, batch_size=4, transform=lambda td: td.set("twice", td["obs"] * 2)
    )
    one = module.ReplayBufferEnsemble(*parts, p=[0.0, 3.0], num_buffer_sampled=1)
    out = [len(every), len(every[1]), every.write_count, every.sample(), one.sample(2)]
    data, info = every.sample(return_info=True)
    return [*out, data, data["index", "buffer_ids"], data["index", "index"], info["index", "buffer_ids"]]


def test_folders_of_ensembles(tmp_path):
    def pair(module):
        samplers = module.SamplerWithoutReplacement(), module.RandomSampler()
        return [
            module.TensorDictReplayBuffer(storage=module.LazyTensorStorage(9), sampler=s) for s in samplers
        ]

    theirs, mine = pair(reference), pair(lite_data)
    for buffer, count in zip(theirs, (12, 4), strict=True):
        buffer.extend(as_data("reference", frames(0, count), (count,)))
    theirs[0].sample(5)
    reference.ReplayBufferEnsemble(*theirs, batch_size=4).dumps(tmp_path / "d")
    lite_data.ReplayBufferEnsemble(*mine).loads(tmp_path / "d")
    for buffer, other in zip(mine, theirs, strict=True):
        assert_same(buffer[:], other[:].exclude("index"))
        assert (buffer.write_count, buffer.batch_size) == (other.write_count, None)
    (tmp_path / "d" / "sampler").rename(tmp_path / "s")
    (tmp_path / "d" / "sampler").symlink_to(tmp_path / "s")
    with pytest.raises(ValueError, match=r"refusing to follow the symbolic link .*d/sampler"):
        lite_data.ReplayBufferEnsemble(*mine).loads(tmp_path / "d")
    left = theirs[0].sampler.state_dict()["_sample_list"]
    np.testing.assert_array_equal(mine[0].sampler.state_dict()["_sample_list"], left)


@compared
def test_recorded_and_new_data(side, module):
    """How many of a batch are recorded, which come first; the drawn elements themselves are random."""
    recorded = module.ReplayBuffer(storage=module.LazyTensorStorage(10))
    recorded.extend(as_data(side, {"at": np.arange(10)}, (10,)))
    made = module.OfflineToOnlineReplayBuffer(
        recorded, online_capacity=6, offline_fraction=0.3, batch_size=8,
        transform=lambda td: td.set("b", td["at"]),
    )  # fmt: skip

    def share(*size):
        batch = made.sample(*size)
        assert batch.batch_size == batch["b"].shape
        return np.asarray(batch["at"]) < 10

    out = [share(), len(made), made.extend(as_data(side, {"at": 10 + np.arange(8)}, (8,)))]
    out += [len(made), len(made.online_buffer), made.offline_buffer is recorded, repr(made)[:28]]
    for step in (0, 1, 5, 9, 10, 11):
        made.anneal(step, 10)
        out += [made.offline_fraction, *map(share, (1, 2, 5, 8, 15))]
    return out


WRONG_PAIRS = {
    "both": {"online_capacity": 3, "online_storage": None},
    "neither": {"online_storage": None},
    "share of 0": {"online_capacity": 3, "offline_fraction": 0.0},
    "share of 1": {"online_capacity": 3, "offline_fraction": 1.0},
    "options without a name": {"online_capacity": 3, "root": "a"},
    "name without a prefix": {"offline_dataset": "hopper", "online_capacity": 3, "batch_size": 2},
    "unknown prefix": {"offline_dataset": "hop:per", "online_capacity": 3, "batch_size": 2},
    "name without a batch size": {"offline_dataset": "minari:D4RL/a", "online_capacity": 3},
}


@each_case("name", WRONG_PAIRS)
def test_wrong_pairs_of_buffers(name):
    found = []
    for module in SIDES.values():
        options = {"offline_dataset": module.ReplayBuffer(), **WRONG_PAIRS[name]}
        if name == "both":
            options["online_storage"] = module.LazyTensorStorage(3)
        with pytest.raises(ValueError) as caught:
            module.OfflineToOnlineReplayBuffer(options.pop("offline_dataset"), **options)
        found.append(caught.type)
    assert found[0] is found[1]


@each_case(
    ("reduction", "features"),
    [("sum", ()), ("sum", (4,)), ("max", (1,)), ("min", (4,)), ("mean", (4,)), ("median", (4,))],
)
def test_highest_ranks(reduction, features):
    ranks = np.random.default_rng(0).integers(0, 50, (6, 7, *features)).astype(np.float32)

    def run(side, module):
        made = module.TensorDictReplayBuffer(
            storage=module.LazyTensorStorage(10),
            writer=module.TensorDictMaxValueWriter(rank_key="rank", reduction=reduction),
        )
        out = []
        for call in ranks:
            data = as_data(side, {"rank": call, "id": np.arange(7)}, (7,))
            out += [made.extend(data), len(made), made[:], made.write_count]
        return out

    both(run)


@compared
def test_frames_that_are_withheld(side, module):
    transform = lite_data.MultiStepTransform(2, 0.9) if side == "lite" else MultiStepTransform(2, 0.9)
    made = module.TensorDictReplayBuffer(storage=module.LazyTensorStorage(20), transform=transform)
    out = []
    for start, size in ((0, 2), (2, 1), (3, 5)):
        entries = frames(start, size)
        entries["next"]["done"] = np.zeros((size, 1), bool)
        index = made.extend(as_data(side, entries, (size,)))
        out += [int(index.shape[0]), len(made)]
    return [*out, made[:]]


ERRORS = [
    lambda side, module: module.ReplayBuffer(prefetch=3),
    lambda side, module: module.ReplayBuffer(dim_extend=-1),
    lambda side, module: module.ReplayBuffer(transform=len, transform_factory=lambda: len),
    lambda side, module: module.ReplayBuffer(storage=3),
    lambda side, module: module.ReplayBuffer(sampler=3),
    lambda side, module: module.ReplayBuffer(writer=3),
    lambda side, module: module.ReplayBuffer().sample(),
    lambda side, module: next(iter(module.ReplayBuffer())),
    lambda side, module: module.TensorDictReplayBuffer(storage=module.LazyTensorStorage(3)).extend([1, 2]),
    lambda side, module: module.ReplayBuffer(storage=module.LazyTensorStorage(3)).sample(2),
    lambda side, module: module.TensorStorage(None),
    lambda side, module: module.TensorStorage(as_data(side, {}, (3,)), 4),
    lambda side, module: module.ListStorage(2).set(1, "a"),
    lambda side, module: module.ListStorage(2).set(3, "a"),
    lambda side, module: module.LazyMemmapStorage(3, device="meta"),
    lambda side, module: module.LazyTensorStorage(3).get(0),
]


@each_case("number", range(len(ERRORS)))
def test_errors(number):
    both(ERRORS[number])


@pytest.mark.parametrize("storage", STORAGES)
def test_folders(storage, tmp_path):
    """The folder of a storage is one that the reference opens, and the other way round."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    theirs.mkdir()
    buffer = lite_data.TensorDictReplayBuffer(storage=getattr(lite_data, storage)(10))
    buffer.extend(as_data("lite", frames(0, 13), (13,)))
    buffer.dumps(ours / "dump")
    loaded = reference.TensorDictReplayBuffer(storage=getattr(reference, storage)(10))
    loaded.storage.loads(ours / "dump" / "storage")
    assert_same(buffer[:], loaded[:])
    other = reference.ReplayBuffer(storage=getattr(reference, storage)(10))
    other.extend(as_data("reference", frames(0, 7), (7,)))
    other.dumps(theirs / "dump")
    back = lite_data.ReplayBuffer(storage=getattr(lite_data, storage)(10))
    back.storage.loads(theirs / "dump" / "storage")
    assert len(back) == 7
    assert_same(back[:], other[:])


@each_case(
    ("storage", "sampler", "draws"),
    [
        ("LazyTensorStorage", "RandomSampler", 1),
        ("LazyMemmapStorage", "SamplerWithoutReplacement", 0),
        ("LazyTensorStorage", "SamplerWithoutReplacement", 1),
        ("LazyMemmapStorage", "SamplerWithoutReplacement", 3),
    ],
)
def test_whole_folders(storage, sampler, draws, tmp_path):
    """A buffer of one side goes on with what one of the other has written."""
    sides = {"lite": lite_data, "reference": reference}
    scratch = iter(range(9))

    def made(side):
        module = sides[side]
        options = {"scratch_dir": tmp_path / str(next(scratch))} if storage == "LazyMemmapStorage" else {}
        kept = getattr(module, storage)(10, **options)
        return module.TensorDictReplayBuffer(storage=kept, sampler=getattr(module, sampler)(), batch_size=3)

    for mine, other in (("lite", "reference"), ("reference", "lite")):
        before, after = made(mine), made(other)
        before.extend(as_data(mine, frames(0, 13), (13,)))
        seen = [np.asarray(before.sample()["index"]) for _ in range(draws)]
        before.dumps(tmp_path / mine)
        after.loads(tmp_path / mine)
        if mine == "reference":  # its state in memory, too
            again = made("lite")
            again.load_state_dict(before.state_dict())
            assert (again[:] == after[:].exclude("index")).all()
            assert again.write_count == after.write_count
            assert again.sampler.state_dict().keys() == after.sampler.state_dict().keys()
        rest = [np.asarray(after.sample()["index"]) for _ in range(3 - draws)]
        if sampler == "SamplerWithoutReplacement":
            assert len(set(np.concatenate(seen + rest).tolist())) == 9
        for side, buffer in ((mine, before), (other, after)):
            buffer.extend(as_data(side, frames(13, 2), (2,)))
        pair = {mine: before[:], other: after[:]}
        assert_same(pair["lite"], pair["reference"].exclude("index"))


def _tree(side, start, count):
    numbers = np.arange(start, start + count)
    leaves = np.stack([numbers, -numbers], -1).astype(np.float32), numbers % 3 == 0, numbers
    a, b, c = leaves if side == "lite" else map(torch.from_numpy, leaves)
    return {"a": a, "more": (b, {"c": [c]})}


def _leaves(found):
    assert list(found) == ["a", "more"]
    assert type(found["more"]) is tuple
    assert type(found["more"][1]["c"]) is list
    return [np.asarray(leaf) for leaf in (found["a"], found["more"][0], found["more"][1]["c"][0])]


def test_tuples_and_dicts(tmp_path):
    """The same structure comes out, and each side loads what the other has saved."""
    made = {
        side: module.ReplayBuffer(storage=module.LazyTensorStorage(6), batch_size=3)
        for side, module in SIDES.items()
    }
    for start, count in ((0, 4), (4, 5)):
        for side, buffer in made.items():
            buffer.extend(_tree(side, start, count))
        for ours, theirs in zip(_leaves(made["lite"][:]), _leaves(made["reference"][:]), strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
    for buffer in made.values():
        assert [leaf.shape for leaf in _leaves(buffer.sample())] == [(3, 2), (3,), (3,)]
    kept = {side: _leaves(buffer[:]) for side, buffer in made.items()}
    for side, buffer in made.items():
        buffer._storage.dumps(tmp_path / side)
        buffer.extend(_tree(side, 100, 6))
    made["lite"]._storage.loads(tmp_path / "reference")
    made["reference"]._storage.loads(tmp_path / "lite")
    for side, buffer in made.items():
        for found, expected in zip(_leaves(buffer[:]), kept[side], strict=True):
            np.testing.assert_array_equal(found, expected)
