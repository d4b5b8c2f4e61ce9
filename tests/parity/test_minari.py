"""Data sets that Minari wrote, read by lite and by Minari."""

import dataclasses

import minari
import numpy as np
import pytest
from gymnasium import spaces
from helpers.compared import assert_same
from minari import data_collector
from torchrl.data.datasets import MinariExperienceReplay as TheirReplay

from lite.data import (
    ImmutableDatasetWriter,
    MinariExperienceReplay,
    TensorDictReplayBuffer,
    TensorStorage,
    minari_to_memmap,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # Minari's, of authors that are not given
FORMATS = ["hdf5", "arrow", "parquet"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


def buffers(observation, action, lengths=(5, 3)):
    rng = np.random.default_rng(0)
    made = []
    for number, length in enumerate(lengths):
        ends = [False] * (length - 1) + [True]
        made.append(
            data_collector.EpisodeBuffer(
                id=number, seed=number, observations=observation(rng, length + 1),
                actions=action(rng, length), rewards=list(rng.normal(size=length)),
                terminations=ends if number else [False] * length,
                truncations=[False] * length if number else ends,
                infos={"success": [False] * (length + 1)},
            )
        )  # fmt: skip
    return made


def created(buffer, observation_space, action_space, **options):
    return minari.create_dataset_from_buffers(
        "lite/test-v0", buffer, observation_space=observation_space, action_space=action_space, **options
    )


@pytest.mark.parametrize("data_format", FORMATS)
def test_boxes_and_discrete_actions(home, tmp_path, data_format):
    buffer = buffers(lambda rng, n: rng.normal(size=(n, 2, 3)), lambda rng, n: rng.integers(0, 4, n))
    space = spaces.Box(-10, 10, (2, 3), np.float64)
    dataset = created(buffer, space, spaces.Discrete(4), data_format=data_format)
    td = minari_to_memmap(home / "lite" / "test-v0", tmp_path / "out")
    assert td.batch_size == (dataset.total_steps,)
    start = 0
    for episode in dataset.iterate_episodes():
        part = td[start : start + len(episode.rewards)]
        np.testing.assert_array_equal(part["observation"], episode.observations[:-1])
        np.testing.assert_array_equal(part["next", "observation"], episode.observations[1:])
        np.testing.assert_array_equal(part["action"], episode.actions)
        np.testing.assert_array_equal(part["next", "reward"][:, 0], episode.rewards)
        np.testing.assert_array_equal(part["next", "terminated"][:, 0], episode.terminations)
        np.testing.assert_array_equal(part["next", "truncated"][:, 0], episode.truncations)
        np.testing.assert_array_equal(part["next", "info", "success"], episode.infos["success"][1:])
        assert (part["episode"] == episode.id).all()
        start += len(episode.rewards)


@pytest.mark.parametrize("data_format", FORMATS)
def test_dictionaries_and_tuples(home, tmp_path, data_format):
    space = spaces.Dict({"arm": spaces.Tuple((spaces.Box(-9, 9, (2,)), spaces.Discrete(3)))})

    def observation(rng, n):
        return {"arm": (rng.normal(size=(n, 2)).astype(np.float32), rng.integers(0, 3, n))}

    buffer = buffers(observation, lambda rng, n: rng.normal(size=(n, 1)).astype(np.float32))
    dataset = created(buffer, space, spaces.Box(-9, 9, (1,)), data_format=data_format)
    td = minari_to_memmap(home / "lite" / "test-v0", tmp_path / "out")
    expected = np.concatenate([e.observations["arm"][0][1:] for e in dataset.iterate_episodes()])
    np.testing.assert_array_equal(td["next", "observation", "arm", "_index_0"], expected)
    assert td["observation", "arm", "_index_1"].dtype.kind == "i"


@pytest.mark.parametrize(
    ("jpeg_encoding", "data_format"), [(True, "hdf5"), (False, "hdf5"), (False, "arrow"), (True, "parquet")]
)
def test_images(home, tmp_path, jpeg_encoding, data_format):
    space = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    buffer = buffers(
        lambda rng, n: list(rng.integers(0, 255, (n, 64, 64, 3), np.uint8)),
        lambda rng, n: rng.integers(0, 4, n),
    )
    dataset = created(buffer, space, spaces.Discrete(4), jpeg_encoding=jpeg_encoding, data_format=data_format)
    if jpeg_encoding:
        with pytest.raises(ValueError, match="JPEG"):
            minari_to_memmap(home / "lite" / "test-v0", tmp_path / "out")
        return
    td = minari_to_memmap(home / "lite" / "test-v0", tmp_path / "out")
    expected = np.concatenate([e.observations[:-1] for e in dataset.iterate_episodes()])
    np.testing.assert_array_equal(td["observation"], expected)


@pytest.mark.parametrize("data_format", FORMATS[1:])
def test_all_formats_give_the_same(home, tmp_path, data_format):
    """Bits, several numbers, and infos of every kind that all of them can hold."""
    space = spaces.Dict({"bits": spaces.MultiBinary((2, 2)), "many": spaces.MultiDiscrete([3, 4, 5])})

    def observation(rng, n):
        bits = rng.integers(0, 2, (n, 2, 2)).astype(np.int8)
        return {"bits": bits, "many": rng.integers(0, 3, (n, 3))}

    def infos(count):
        state = {"qpos": np.arange(count * 6.0).reshape(count, 2, 3), "t": np.arange(count)}
        return {"state": state, "success": [i % 2 == 0 for i in range(count)]}

    found = []
    for kind in ("hdf5", data_format):
        made = [
            dataclasses.replace(episode, infos=infos(len(episode.rewards) + 1))
            for episode in buffers(
                observation, lambda rng, n: rng.normal(size=(n, 2)).astype(np.float32), (4, 7, 1)
            )
        ]
        minari.create_dataset_from_buffers(
            f"lite/{kind}-v0", made, observation_space=space, data_format=kind,
            action_space=spaces.Box(-9, 9, (2,)),
        )  # fmt: skip
        found.append(minari_to_memmap(home / "lite" / f"{kind}-v0", tmp_path / kind))
    one, other = found
    assert one.batch_size == other.batch_size == (12,)
    assert_same(one, other, strict=True)


def test_others_open_the_folder(home, tmp_path):
    """tensordict, and a replay buffer."""
    tensordict = pytest.importorskip("tensordict", reason="needs the parity extra")
    buffer = buffers(lambda rng, n: rng.normal(size=(n, 3)), lambda rng, n: rng.integers(0, 4, n))
    created(buffer, spaces.Box(-10, 10, (3,), np.float64), spaces.Discrete(4))
    td = minari_to_memmap(home / "lite" / "test-v0", tmp_path / "out")
    theirs = tensordict.TensorDict.load_memmap(tmp_path / "out")
    assert tuple(theirs.batch_size) == td.batch_size
    for key in td.keys(True, True):
        np.testing.assert_array_equal(theirs[key].numpy(), td[key])
    replay = TensorDictReplayBuffer(
        storage=TensorStorage(td), writer=ImmutableDatasetWriter(), batch_size=16, generator=0
    )
    assert len(replay) == 8
    for row in replay.sample():
        at = np.flatnonzero((td["observation"] == row["observation"]).all(-1))
        np.testing.assert_array_equal(td["next", "observation"][at[0]], row["next", "observation"])


def test_buffers_of_data_sets(home, tmp_path):
    """Keys, shapes and dtypes: TorchRL 0.14.1 writes zeros for all values into its files."""
    buffer = buffers(lambda rng, n: rng.normal(size=(n, 3)), lambda rng, n: rng.integers(0, 4, n))
    created(buffer, spaces.Box(-10, 10, (3,), np.float64), spaces.Discrete(4))
    words = {"batch_size": 4, "load_from_local_minari": True}
    ours = MinariExperienceReplay("lite/test-v0", root=tmp_path / "ours", **words)
    theirs = TheirReplay("lite/test-v0", root=tmp_path / "theirs", **words)
    assert len(ours) == len(theirs) == 8
    for mine, other in ((ours[:], theirs[:]), (ours.sample(), theirs.sample())):
        assert mine.shape == tuple(other.shape)
        assert set(mine.keys(True, True)) == set(other.keys(True, True))
        for key in mine.keys(True, True):
            assert mine[key].shape == tuple(other[key].shape)
            assert str(other[key].dtype) == f"torch.{mine[key].dtype}"
