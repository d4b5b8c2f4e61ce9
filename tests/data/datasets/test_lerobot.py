"""Reading LeRobot's Parquet files, written here in the layouts of versions 2 and 3."""

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import lerobot_to_memmap
from lite.data.datasets import conversion, lerobot

pq = pytest.importorskip("pyarrow.parquet", reason="needs the files extra")

LENGTHS = (4, 1, 3)


def columns(episode, length, start, **more):
    rng = np.random.default_rng(episode)
    vectors = pa.list_(pa.float32(), 3) if more.pop("fixed", True) else pa.list_(pa.float32())
    done = np.arange(length) == length - 1
    return {
        "observation.state": pa.array(list(rng.normal(size=(length, 3)).astype(np.float32)), vectors),
        "action": pa.array(list(rng.normal(size=(length, 2)).astype(np.float32)), pa.list_(pa.float32())),
        "timestamp": np.arange(length, dtype=np.float32) / 10,
        "frame_index": np.arange(length),
        "episode_index": np.full(length, episode),
        "index": np.arange(start, start + length),
        "task_index": np.zeros(length, np.int64),
        "next.reward": rng.normal(size=length).astype(np.float32),
        "next.done": done,
        **{key: value for key, value in more.items() if value is not None},
    }


def write(root, version="v3.0", lengths=LENGTHS, info=None, **more):
    """A data set: a file for each episode (v2), or one for all but the last (v3)."""
    os.makedirs(root / "meta", exist_ok=True)
    os.makedirs(root / "data" / "chunk-000", exist_ok=True)
    start, tables = 0, []
    for episode, length in enumerate(lengths):
        extra = {key: value[start : start + length] for key, value in more.items() if key != "fixed"}
        fixed = {"fixed": more["fixed"]} if "fixed" in more else {}
        tables.append(pa.table(columns(episode, length, start, **extra, **fixed)))
        start += length
    if version.startswith("v3"):
        tables = [pa.concat_tables(tables[:-1]), tables[-1]]
    name = "file-{:03d}" if version.startswith("v3") else "episode_{:06d}"
    for number, table in enumerate(tables):
        pq.write_table(table, root / "data" / "chunk-000" / f"{name.format(number)}.parquet")
    found = {"codebase_version": version, "total_frames": start, "fps": 10, "features": {}, **(info or {})}
    (root / "meta" / "info.json").write_text(json.dumps(found))
    return root


def expected(name):
    start = np.cumsum([0, *LENGTHS])
    parts = [columns(e, n, start[e])[name] for e, n in enumerate(LENGTHS)]
    return np.concatenate(
        [np.array(part.to_pylist() if hasattr(part, "to_pylist") else part) for part in parts]
    )


@pytest.mark.parametrize(("version", "fixed"), [("v2.0", True), ("v2.1", False), ("v3.0", True)])
def test_layout(tmp_path, version, fixed):
    td = lerobot_to_memmap(write(tmp_path / "source", version, fixed=fixed), tmp_path / "out")
    assert (td.batch_size, td.is_memmap()) == ((8,), True)
    state = td["observation", "state"]
    assert state.dtype == np.float32
    np.testing.assert_array_equal(state, expected("observation.state").astype(np.float32))
    np.testing.assert_array_equal(td["action"], expected("action").astype(np.float32))
    np.testing.assert_array_equal(td["episode"], [0] * 4 + [1] + [2] * 3)
    np.testing.assert_array_equal(td["frame"], [0, 1, 2, 3, 0, 0, 1, 2])
    np.testing.assert_array_equal(td["next", "reward"], expected("next.reward")[:, None])
    end = np.array([0, 0, 0, 1, 1, 0, 0, 1], bool)[:, None]
    np.testing.assert_array_equal(td["next", "done"], end)
    np.testing.assert_array_equal(td["next", "truncated"], end)
    assert not td["next", "terminated"].any()
    ahead = np.array([1, 2, 3, 3, 4, 6, 7, 7])  # the last frame's next observation is its own
    np.testing.assert_array_equal(td["next", "observation", "state"], state[ahead])
    assert set(td.keys()) == {
        "observation", "action", "episode", "frame", "timestamp", "index", "task_index", "next",
    }  # fmt: skip
    np.testing.assert_array_equal(TensorDict.load_memmap(tmp_path / "out")["action"], td["action"])


def test_in_pieces(tmp_path, monkeypatch):
    source = write(tmp_path / "source")
    whole = lerobot_to_memmap(source, tmp_path / "whole")
    monkeypatch.setattr(conversion, "PIECE", 16)
    monkeypatch.setattr(lerobot, "_ROWS", 3)
    td = lerobot_to_memmap(source, tmp_path / "pieces")
    for key in whole.keys(True, True):
        np.testing.assert_array_equal(td[key], whole[key])


def test_lists_may_name_their_items_differently(tmp_path):
    """As converted files do; and files without frames have nothing to say."""
    source = write(tmp_path / "source")
    expected = lerobot_to_memmap(source, tmp_path / "out")
    folder = source / "data" / "chunk-000"
    table = pq.read_table(folder / "file-001.parquet")
    at = table.schema.get_field_index("action")
    named = pa.field("action", pa.large_list(pa.field("element", pa.float32())))
    table = table.set_column(at, named, table.column("action").cast(named.type))
    pq.write_table(table, folder / "file-001.parquet")
    pq.write_table(table.slice(0, 0), folder / "file-002.parquet")
    td = lerobot_to_memmap(source, tmp_path / "again")
    for key in expected.keys(True, True):
        np.testing.assert_array_equal(td[key], expected[key])


def test_what_terminated_is_not_cut_off(tmp_path):
    ended = np.array([0, 0, 0, 1, 0, 0, 1, 0], bool)
    td = lerobot_to_memmap(write(tmp_path / "source", **{"next.terminated": ended}), tmp_path / "out")
    np.testing.assert_array_equal(td["next", "terminated"][:, 0], ended)
    np.testing.assert_array_equal(td["next", "done"][:, 0], [0, 0, 0, 1, 1, 0, 1, 1])
    np.testing.assert_array_equal(td["next", "truncated"][:, 0], [0, 0, 0, 0, 1, 0, 0, 1])
    cut = np.array([0, 1, 0, 0, 0, 0, 0, 0], bool)
    more = {"next.terminated": ended, "next.truncated": cut}
    td = lerobot_to_memmap(write(tmp_path / "other", **more), tmp_path / "out2")
    np.testing.assert_array_equal(td["next", "truncated"][:, 0], [0, 1, 0, 0, 1, 0, 0, 1])
    np.testing.assert_array_equal(td["next", "done"][:, 0], [0, 1, 0, 1, 1, 0, 1, 1])


def test_images_and_text_are_left_out_with_a_warning(tmp_path):
    more = {
        "observation.images.top": pa.array([{"bytes": b"x", "path": "p"}] * 8),
        "observation.pose": pa.array([[[1.0, 2.0]] * 2] * 8),
        "task": pa.array(["pick"] * 8),
    }
    info = {"features": {"observation.images.wrist": {"dtype": "video", "shape": [3, 4, 4]}}}
    source = write(tmp_path / "source", info=info, **more)
    names = r"\['observation.images.top', 'observation.images.wrist', 'task'\]"
    with pytest.warns(UserWarning, match=f"left out of .*{names}"):
        td = lerobot_to_memmap(source, tmp_path / "out")
    assert td["observation", "pose"].shape == (8, 2, 2)
    assert td["next", "observation", "pose"].dtype == np.float64


def test_other_descriptions(tmp_path):
    for info, error, message in (
        ({"codebase_version": "v1.6"}, ValueError, r"version v2\.0, v2\.1, v3\.0, got 'v1\.6'"),
        ({"codebase_version": ["v3.0"]}, ValueError, "version"),
        ({"total_frames": 9}, ValueError, "says that there are 9 frames, the files hold 8"),
        ({"features": []}, ValueError, "version"),
    ):
        raises(error, message, lerobot_to_memmap, write(tmp_path / "source", info=info), tmp_path / "out")
        assert os.listdir(tmp_path) == ["source"]


def test_columns_that_are_not_like_that(tmp_path):
    for more, message in (
        ({"ragged": pa.array([[1.0]] * 5 + [[1.0, 2.0]] * 3)}, "rows of other sizes than its first"),
        ({"x": pa.array([1.0] * 6 + [None] * 2)}, "missing values"),
        ({"x": pa.array([None] + [1.0] * 7)}, "missing values"),
        ({"x": pa.array([[1.0]] * 7 + [None])}, "missing values"),
        ({"action.part": np.zeros(8)}, r"in the place of \('action',\)"),
        ({"frame": np.zeros(8)}, "in the place of"),
        ({"episode_index": np.array([0, 0, 1, 1, 0, 1, 1, 1])}, "episodes are out of order"),
    ):
        source = write(tmp_path / "source", **more)
        raises(ValueError, message, lerobot_to_memmap, source, tmp_path / "out")
        assert os.listdir(tmp_path) == ["source"]


def test_other_files(tmp_path):
    source = tmp_path / "source"
    raises(FileNotFoundError, "", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    write(source)
    (source / "data" / "chunk-000" / "file-001.parquet").write_bytes(b"PAR1 no Parquet PAR1")
    raises(ValueError, "damaged or foreign", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    pq.write_table(pa.table({"episode_index": [3]}), source / "data" / "chunk-000" / "file-001.parquet")
    raises(ValueError, "has other columns", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    for file in (source / "data" / "chunk-000").iterdir():
        file.unlink()
    raises(FileNotFoundError, "no Parquet file", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    pq.write_table(pa.table({"action": [3.0]}), source / "data" / "chunk-000" / "file-000.parquet")
    (source / "meta" / "info.json").write_text('{"codebase_version": "v3.0"}')
    raises(ValueError, "no episode_index", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    (source / "meta" / "info.json").write_text("[" * 100_000)
    raises(ValueError, "damaged", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    assert os.listdir(tmp_path) == ["source"]


def test_links_lead_nowhere(tmp_path):
    source = write(tmp_path / "source")
    file = source / "data" / "chunk-000" / "file-001.parquet"
    file.rename(source / "elsewhere")
    file.symlink_to(source / "elsewhere")
    raises(ValueError, "refusing to follow the link", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    file.unlink()
    (source / "data" / "chunk-001").symlink_to(tmp_path)
    raises(ValueError, "refusing to follow the link", lambda: lerobot_to_memmap(source, tmp_path / "out"))


def test_files_that_claim_too_much(tmp_path):
    """A hundred million equal rows are a few kilobytes of run lengths."""
    source = write(tmp_path / "source", lengths=(1, 1))
    for file in (source / "data" / "chunk-000").iterdir():
        file.unlink()
    rows = 2_000_000
    table = pa.table({"episode_index": np.zeros(rows, np.int64), "x": np.zeros(rows)})
    pq.write_table(table, source / "data" / "chunk-000" / "file-000.parquet", write_statistics=False)
    (source / "meta" / "info.json").write_text('{"codebase_version": "v3.0"}')
    raises(ValueError, "refusing to make", lambda: lerobot_to_memmap(source, tmp_path / "out"))
    assert os.listdir(tmp_path) == ["source"]
