"""Files of Arrow and Parquet; `tests/parity/test_minari.py` reads those that Minari itself wrote."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest

from lite.data import minari_to_memmap
from lite.data.datasets.minari_arrow import _shape

pq = pytest.importorskip("pyarrow.parquet", reason="needs the files extra")

BOX = {"type": "Box", "dtype": "float64", "shape": [3], "low": [0, 0, 0], "high": [1, 1, 1]}
of_each_kind = pytest.mark.parametrize("kind", ["arrow", "parquet"])


def rows_of(values):
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(values)), len(np.ravel(values[0])))


def columns(steps, seed=0, **entries):
    """An episode as Minari writes it: all columns as long as the observations, with a last row of zeros."""
    rng = np.random.default_rng(seed)
    ends = np.arange(steps + 1) == steps - 1
    return {
        "observations": rows_of(rng.normal(size=(steps + 1, 3))),
        "actions": pa.array(np.append(rng.integers(0, 4, steps), 0)),
        "rewards": pa.array(np.append(rng.normal(size=steps), 0.0)),
        "terminations": pa.array(ends & (seed % 2 == 0)),
        "truncations": pa.array(ends & (seed % 2 == 1)),
        **entries,
    }


def write(folder, kind, episodes, **metadata):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder / "data")
    for number, entries in episodes.items():
        place = folder / "data" / str(number)
        place.mkdir()
        (place / "metadata.json").write_text(json.dumps({"id": number}))
        table = pa.table({name: array for name, array in entries.items() if array is not None})
        if kind == "parquet":
            pq.write_table(table, place / "part-0.parquet")
        else:
            with pa.ipc.new_file(place / "part-0.arrow", table.schema) as file:
                file.write_table(table)
    content = {"data_format": kind, "observation_space": json.dumps(BOX), **metadata}
    (folder / "data" / "metadata.json").write_text(json.dumps(content))
    return folder


def refused(tmp_path, match, source, error=ValueError):
    with pytest.raises(error, match=match):
        minari_to_memmap(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@of_each_kind
def test_layout(tmp_path, kind):
    episodes = {number: columns(steps, number) for number, steps in ((10, 2), (0, 5), (2, 1))}
    td = minari_to_memmap(write(tmp_path / "source", kind, episodes), tmp_path / "out")
    assert td.batch_size == (8,)
    assert td["episode"].tolist() == [0] * 5 + [2] + [10] * 2
    whole = np.array(episodes[0]["observations"].to_pylist())
    np.testing.assert_array_equal(td["observation"][:5], whole[:-1])
    np.testing.assert_array_equal(td["next", "observation"][:5], whole[1:])
    np.testing.assert_array_equal(td["action"][6:], episodes[10]["actions"].to_numpy()[:-1])
    np.testing.assert_array_equal(td["next", "reward"][5, 0], episodes[2]["rewards"].to_numpy()[0])
    assert np.flatnonzero(td["next", "done"]).tolist() == [4, 5, 7]


def test_shapes_of_rows():
    """They are those of the space or of the column, where these have as many numbers."""
    for space, metadata, size, wanted in (
        ({"type": "Box", "shape": [2, 3]}, None, 6, (2, 3)),
        ({"type": "Box", "shape": [2, -3]}, None, 6, (6,)),
        ({"type": "MultiDiscrete", "nvec": [[2, 3], [4, 5]]}, None, 4, (2, 2)),
        ({"type": "MultiBinary", "n": 6}, None, 6, (6,)),
        ({"type": "MultiBinary", "n": [3, 2]}, None, 6, (3, 2)),
        ({"type": "Box", "shape": [2, 2]}, {b"shape": b"2,3"}, 6, (6,)),
        (None, {b"shape": b"2,3"}, 6, (2, 3)),
        (None, {b"shape": b"0,3"}, 0, (0, 3)),
        (None, None, 6, (6,)),
    ):
        assert _shape(space, metadata, size) == wanted


def test_text_is_left_out_and_named(tmp_path):
    infos = pa.StructArray.from_arrays(
        [pa.array(["a"] * 4), pa.array([True] * 4), pa.array([[1], [], [2], [3]])], ["text", "good", "ragged"]
    )
    source = write(tmp_path / "source", "parquet", {0: columns(3, infos=infos)})
    with pytest.warns(UserWarning, match=r"left out of .*infos/ragged.*infos/text"):
        td = minari_to_memmap(source, tmp_path / "out")
    assert td["info"].keys() == td["next", "info"].keys() == {"good"}


def test_files_that_are_not_like_that(tmp_path):
    source = tmp_path / "source"
    refused(tmp_path, "holds no episode", write(source, "arrow", {}))
    other = columns(3)
    for name in ("observations", "actions", "rewards", "terminations", "truncations"):
        refused(tmp_path, f"has no {name}", write(source, "arrow", {0: other | {name: None}}))
    holes = pa.array([False, True, False, False])
    cells = pa.FixedSizeListArray.from_arrays(pa.array([1.0, None, 2, 3]), 1)
    for missing in (
        pa.array([1, None, 2, 3]),
        cells,
        pa.StructArray.from_arrays([pa.array([0.0] * 4)], ["a"], mask=holes),
    ):
        refused(
            tmp_path,
            "episode 0 of .* damaged at actions.*: values are missing",
            write(source, "arrow", {0: columns(3, actions=missing)}),
        )
    text = pa.array(["a", "b", "c", "d"])
    refused(
        tmp_path, "actions.*not an array of numbers", write(source, "arrow", {0: columns(3, actions=text)})
    )
    empty = {name: array[:0] for name, array in columns(3).items()}
    refused(tmp_path, "has no rows", write(source, "arrow", {0: empty}))
    wide = columns(3, observations=rows_of(np.ones((4, 5))))
    refused(tmp_path, "episode 1 of .* differs", write(source, "arrow", {0: columns(3), 1: wide}))
    image = BOX | {"shape": [64, 64, 3], "dtype": "uint8"}
    jpeg = columns(3, observations=pa.array([b"jpeg"] * 4))
    refused(tmp_path, "JPEG", write(source, "arrow", {0: jpeg}, observation_space=json.dumps(image)))
    pair = {"type": "Tuple", "subspaces": [image, BOX]}
    cells = pa.StructArray.from_arrays([pa.array([b"a"] * 4)] * 2, ["0", "1"])
    refused(
        tmp_path,
        "observations.*JPEG",
        write(source, "arrow", {0: columns(3, observations=cells)}, observation_space=json.dumps(pair)),
    )


@of_each_kind
def test_hostile_files(tmp_path, kind):
    source = write(tmp_path / "source", kind, {0: columns(3)})
    place = source / "data" / "0"
    (file,) = place.glob("part-0.*")
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(30):  # damaged anywhere: read as it is, or refused
        damaged = bytearray(content)
        for at in rng.integers(0, len(content), 3):
            damaged[at] = rng.integers(256)
        file.write_bytes(damaged)
        try:
            minari_to_memmap(source, tmp_path / "out")
        except (ValueError, FileNotFoundError):
            assert not (tmp_path / "out").exists()
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    for size in (0, 10, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        refused(tmp_path, "damaged", source)
    file.write_bytes(content)
    shutil.copy(file, place / f"part-1.{kind}")
    refused(tmp_path, "2 files", source)
    (place / f"part-1.{kind}").unlink()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    refused(tmp_path, "refusing to follow", source)
    place.rename(tmp_path / "folder")
    place.symlink_to(tmp_path / "folder")
    refused(tmp_path, "refusing to follow", source)


@pytest.mark.depth
def test_lists_that_claim_to_be_long(tmp_path):
    """Equal values take next to nothing in a file of Parquet."""
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1 << 24)), 1 << 20)
    source = write(tmp_path / "source", "parquet", {0: columns(15, observations=zeros)})
    refused(tmp_path, "refusing to make", source)


def test_names_lead_nowhere(tmp_path):
    parts = pa.StructArray.from_arrays([rows_of(np.ones((4, 3)))] * 2, ["a/../../b", "c"])
    source = write(
        tmp_path / "source", "parquet", {0: columns(3, observations=parts)}, observation_space="{}"
    )
    td = minari_to_memmap(source, tmp_path / "in" / "out")
    assert td["observation"].keys() == {"a/../../b", "c"}
    assert sorted(os.listdir(tmp_path)) == ["in", "source"]
    assert os.listdir(tmp_path / "in") == ["out"]
