"""Reading Minari's files; `tests/parity/test_minari.py` reads those that Minari itself wrote."""

import os
import shutil

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.data.minari_files import episode, nothing_written, write

from lite import TensorDict
from lite.data import minari_to_memmap
from lite.data.datasets import conversion


def test_layout(tmp_path):
    episodes = {f"episode_{n}": episode(steps, n) for n, steps in ((10, 2), (0, 5), (2, 1))}
    td = minari_to_memmap(write(tmp_path / "source", episodes), tmp_path / "out")
    assert td.batch_size == (8,)
    assert td.is_memmap()
    np.testing.assert_array_equal(td["episode"], [0] * 5 + [2] + [10] * 2)
    ordered = [episodes["episode_0"], episodes["episode_2"], episodes["episode_10"]]
    joined = {key: np.concatenate([e[key] for e in ordered]) for key in ("actions", "rewards")}
    np.testing.assert_array_equal(td["action"], joined["actions"])
    np.testing.assert_array_equal(td["next", "reward"], joined["rewards"][:, None])
    np.testing.assert_array_equal(
        td["observation"], np.concatenate([e["observations"][:-1] for e in ordered])
    )
    np.testing.assert_array_equal(
        td["next", "observation"], np.concatenate([e["observations"][1:] for e in ordered])
    )
    end = np.array([0, 0, 0, 0, 1, 1, 0, 1], bool)[:, None]
    np.testing.assert_array_equal(td["next", "done"], end)
    np.testing.assert_array_equal(td["next", "terminated"], np.zeros((8, 1), bool))
    np.testing.assert_array_equal(td["next", "truncated"], end)
    assert set(td.keys(True, True)) == {
        "observation", "action", "episode", ("next", "observation"), ("next", "reward"), ("next", "done"),
        ("next", "terminated"), ("next", "truncated"),
    }  # fmt: skip
    again = TensorDict.load_memmap(tmp_path / "out")
    assert_same(again, td)


def test_nested_entries_and_infos(tmp_path):
    steps = 4
    more = {
        "observations": None, "observations/image": np.arange(5 * 6, dtype=np.uint8).reshape(5, 2, 3),
        "observations/arm/_index_0": np.arange(5, dtype=np.float32), "actions": None,
        "observations/arm/mission": np.array([b"go"] * 5),
        "actions/_index_0": np.arange(4), "infos/both": np.arange(5), "infos/deep/after": np.arange(4.0),
        "infos/text": np.array([b"x"] * 4), "infos/one": np.float32(3),
    }  # fmt: skip
    source = write(tmp_path / "source", {"episode_0": episode(steps, **more)})
    with pytest.warns(UserWarning, match=r"left out of .*\['infos/one', 'infos/text', 'obs.*/arm/mission'\]"):
        td = minari_to_memmap(source / "data", tmp_path / "out")
    np.testing.assert_array_equal(td["observation", "image"], more["observations/image"][:-1])
    np.testing.assert_array_equal(td["next", "observation", "arm", "_index_0"], [1, 2, 3, 4])
    np.testing.assert_array_equal(td["action", "_index_0"], np.arange(4))
    np.testing.assert_array_equal(td["info", "both"], np.arange(4))
    np.testing.assert_array_equal(td["next", "info", "both"], np.arange(1, 5))
    np.testing.assert_array_equal(td["next", "info", "deep", "after"], np.arange(4))
    assert ("info", "deep", "after") not in td.keys(True, True)
    assert td["observation", "arm"].keys() == td["next", "observation", "arm"].keys() == {"_index_0"}


def test_images_as_jpeg_are_told_by_their_space(tmp_path):
    image, bytes_of = {"type": "Box", "shape": [8, 8, 3]}, np.zeros((5, 20), np.uint8)
    out = tmp_path / "out"
    for place, space, data, refused in (
        ("", image, bytes_of, True),
        ("", image, np.zeros((5, 8, 8, 3), np.uint8), False),
        ("", image, bytes_of.astype(float), False),
        ("", {**image, "type": "Text"}, bytes_of, False),
        ("/arm/_index_1", {"subspaces": {"arm": {"subspaces": [{}, image]}}}, bytes_of, True),
        ("/arm/_index_1", {"subspaces": {"arm": {"subspaces": [image]}}}, bytes_of, False),
        ("/arm/_index_a", {"subspaces": {"arm": {"subspaces": [image]}}}, bytes_of, False),
    ):
        more = {"observations": None, f"observations{place}": data}
        source = write(tmp_path / "source", {"episode_0": episode(4, **more)}, observation_space=space)
        if refused:
            raises(
                ValueError, "observations.* holds images of shape", minari_to_memmap, source, tmp_path / "o"
            )
        else:
            assert minari_to_memmap(source, out).batch_size == (4,)
            shutil.rmtree(out)


def test_numbers_of_other_types(tmp_path):
    """Flags are boolean whatever they were, and other orders of bytes are made the usual one."""
    more = {
        "observations": np.arange(12, dtype=">f4").reshape(4, 3),
        "terminations": np.array([0, 0, 1]),
        "truncations": np.zeros((3, 1), np.uint8),
        "rewards": np.ones((3, 1), np.float16),
    }
    td = minari_to_memmap(write(tmp_path / "source", {"episode_0": episode(3, **more)}), tmp_path / "out")
    assert td["observation"].dtype == np.float32
    np.testing.assert_array_equal(td["next", "observation"], more["observations"][1:])
    for name in ("done", "terminated"):
        assert td["next", name].dtype == np.bool_
        np.testing.assert_array_equal(td["next", name], [[False], [False], [True]])
    assert (td["next", "reward"].dtype, td["next", "reward"].shape) == (np.float16, (3, 1))
    nothing = {
        "observations": np.zeros((1, 3)), "actions": np.zeros((0, 2)), "rewards": np.zeros(0),
        "terminations": np.zeros(0, bool), "truncations": np.zeros(0, bool),
    }  # fmt: skip
    td = minari_to_memmap(write(tmp_path / "source", {"episode_0": nothing}), tmp_path / "empty")
    assert (td.batch_size, td["action"].shape) == ((0,), (0, 2))


def test_in_pieces(tmp_path, monkeypatch):
    """More steps than are read at a time."""
    source = write(tmp_path / "source", {"episode_0": episode(50), "episode_1": episode(30, 1)})
    expected = minari_to_memmap(source, tmp_path / "whole")
    monkeypatch.setattr(conversion, "PIECE", 100)
    td = minari_to_memmap(source, tmp_path / "pieces")
    assert_same(td, expected)


def test_episodes_that_are_not_like_that(tmp_path):
    for change, message in (
        ({"rewards": None}, "has no rewards"),
        ({"observations": np.zeros((5, 3))}, "has 5 rows, expected 4"),
        ({"actions": np.zeros((4, 3))}, "has 4 rows, expected 3"),
        ({"terminations": np.zeros((3, 2), bool)}, r"has the shape \(3, 2\)"),
        ({"observations": np.array([b"text"] * 4)}, "is not an array of numbers"),
        ({"observations": np.zeros((4, 2))}, "differs from the first one in"),
        ({"actions": np.zeros(3, np.int8)}, "differs from the first one in"),
        ({"rewards": np.float64(3)}, "is not an array of numbers"),
        ({"rewards": None, "rewards/task": np.zeros(3)}, "is not an array of numbers"),
    ):
        source = write(tmp_path / "source", {"episode_0": episode(3), "episode_1": episode(3, 1, **change)})
        raises(ValueError, message, minari_to_memmap, source, tmp_path / "out")
        assert nothing_written(tmp_path)


def test_other_files(tmp_path):
    raises(FileNotFoundError, r"no main_data\.hdf5", minari_to_memmap, tmp_path / "absent", tmp_path / "out")
    source = write(tmp_path / "source", {}, data_format="zarr")
    raises(ValueError, "data_format 'zarr'", lambda: minari_to_memmap(source, tmp_path / "out"))
    source = write(tmp_path / "source", {})
    raises(ValueError, "holds no episode", lambda: minari_to_memmap(source, tmp_path / "out"))
    source = write(tmp_path / "source", {"other": {"x": np.zeros(3)}})
    raises(ValueError, "an entry 'other' among its episodes", minari_to_memmap, source, tmp_path / "out")
    (source / "data" / "main_data.hdf5").write_bytes(b"no HDF5")
    raises(ValueError, "damaged or foreign", lambda: minari_to_memmap(source, tmp_path / "out"))
    (source / "data" / "metadata.json").write_text("[")
    raises(ValueError, "damaged", lambda: minari_to_memmap(source, tmp_path / "out"))
    (source / "data" / "metadata.json").write_text("[" * 100_000)
    raises(ValueError, "damaged", lambda: minari_to_memmap(source, tmp_path / "out"))
    assert nothing_written(tmp_path)


def test_a_place_that_is_taken(tmp_path):
    source = write(tmp_path / "source", {"episode_0": episode(3)})
    (tmp_path / "out").mkdir()
    raises(FileExistsError, "there is something at", lambda: minari_to_memmap(source, tmp_path / "out"))
    assert os.listdir(tmp_path / "out") == []
