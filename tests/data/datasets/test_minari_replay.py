import sys

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.minari_files import episode, write

from lite.data import MinariExperienceReplay, SamplerWithoutReplacement


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari" / "own" / "test-v0"


def test_steps_of_a_data_set(home, tmp_path):
    episodes = {f"episode_{n}": episode(steps, n) for n, steps in enumerate((5, 3))}
    write(home, episodes)
    buffer = MinariExperienceReplay(
        "own/test-v0", 4, root=tmp_path / "root", sampler=SamplerWithoutReplacement(drop_last=True),
        prefetch=2,
    )  # fmt: skip
    assert len(buffer) == 8
    actions = np.concatenate([part["actions"] for part in episodes.values()])
    seen = [buffer.sample() for _ in range(2)]
    index = np.concatenate([td["index"] for td in seen])
    assert sorted(index) == list(range(8))
    np.testing.assert_array_equal(np.concatenate([td["action"] for td in seen]), actions[index])
    raises(RuntimeError, "", buffer.extend, seen[0])
    write(home.with_name("other-v0"), {"episode_0": episode(2, 0)})
    home.with_name("test-v0").rename(home.with_name("gone-v0"))
    assert len(MinariExperienceReplay("own/test-v0", 4, root=tmp_path / "root")) == 8  # as converted
    home.with_name("other-v0").rename(home)
    again = MinariExperienceReplay("own/test-v0", 4, root=tmp_path / "root", load_from_local_minari=True)
    assert len(again) == 2


def test_trajectories(home, tmp_path):
    write(home, {f"episode_{n}": episode(steps, n) for n, steps in enumerate((5, 3))})
    buffer = MinariExperienceReplay("own/test-v0", 6, root=tmp_path / "root", split_trajs=True)
    assert len(buffer) == 2
    sample = buffer.sample()
    assert sample.shape == (6, 5)
    np.testing.assert_array_equal(sample["mask"].sum(-1), np.where(sample["episode"][:, 0] == 0, 5, 3))


def test_what_is_not_there(home, tmp_path, monkeypatch):
    words = {"root": tmp_path / "root"}
    for refused in ({"download": False}, {"load_from_local_minari": True}):
        with pytest.raises(FileNotFoundError, match="'own/test-v0' is neither converted nor in"):
            MinariExperienceReplay("own/test-v0", 4, **words, **refused)
    monkeypatch.setitem(sys.modules, "minari", None)
    raises(ImportError, "pip install 'minari", MinariExperienceReplay, "own/test-v0", 4, **words)
    asked = []
    fake = type(sys)("minari")
    fake.download_dataset = lambda name: [asked.append(name), write(home, {"episode_0": episode(2, 0)})]
    monkeypatch.setitem(sys.modules, "minari", fake)
    assert len(MinariExperienceReplay("own/test-v0", 4, **words)) == 2
    assert asked == ["own/test-v0"]


def test_names_that_lead_elsewhere(home, tmp_path):
    """What is in `root` may be removed, and nothing else."""
    for name in (
        "../outside",
        "own/../../outside",
        "{}/outside",
        "",
        ".",
        "own/.",
        "own\\outside",
        "own:outside",
        3,
    ):
        name, outside = name.format(tmp_path) if isinstance(name, str) else name, tmp_path / "outside"
        for folder in (outside, tmp_path / "minari" / "outside", tmp_path / "root"):
            write(folder, {"episode_0": episode(2, 0)})
        with pytest.raises((TypeError, ValueError), match="dataset_id must be a name such as"):
            MinariExperienceReplay(name, 4, root=tmp_path / "root", load_from_local_minari=True)
        assert list(outside.iterdir())
        assert list((tmp_path / "root").iterdir())


def test_a_source_that_is_damaged_takes_nothing_away(home, tmp_path):
    write(home, {"episode_0": episode(2, 0)})
    assert len(MinariExperienceReplay("own/test-v0", 4, root=tmp_path / "root")) == 2
    (home / "data" / "main_data.hdf5").write_bytes(b"nothing")
    with pytest.raises((OSError, ValueError)):
        MinariExperienceReplay("own/test-v0", 4, root=tmp_path / "root", load_from_local_minari=True)
    assert len(MinariExperienceReplay("own/test-v0", 4, root=tmp_path / "root")) == 2
    assert [file.name for file in (tmp_path / "root" / "own").iterdir()] == ["test-v0"]
