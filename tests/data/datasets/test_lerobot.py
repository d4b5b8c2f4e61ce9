"""Reading LeRobot's Parquet files, written here in the layouts of versions 2 and 3, and by LeRobot itself."""

import functools
import io
import itertools
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers.cases import raises
from helpers.compared import assert_same

from lite import TensorDict
from lite.data import lerobot_to_memmap
from lite.data.datasets import conversion, lerobot
from lite.data.logging.video_files import write_video
from lite.envs import Resize

pytest.importorskip("imageio_ffmpeg", reason="needs the video extra")
Image = pytest.importorskip("PIL.Image", reason="needs the video extra")
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
    assert_same(td, whole)


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
    assert_same(td, expected)


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
    with pytest.warns(UserWarning, match=f"left out of .*{names}; images=True decodes"):
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_are_not_waited_for(tmp_path):
    os.mkfifo(write(tmp_path / "source") / "data" / "chunk-000" / "file-002.parquet")
    raises(
        ValueError,
        "file-002.parquet is not a regular file",
        lerobot_to_memmap,
        tmp_path / "source",
        tmp_path / "out",
    )


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


# -- images and videos ----------------------------------------------------------------------------


def png(frame):
    file = io.BytesIO()
    Image.fromarray(frame).save(file, "PNG")
    return file.getvalue()


def shots(count=8, height=6, width=10):
    """Frames that differ in all dimensions."""
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), np.uint8)


def column(frames):
    return pa.array([{"bytes": png(frame), "path": f"{i}.png"} for i, frame in enumerate(frames)])


def grey(numbers):
    """Frames that a video keeps the numbers of."""
    return np.broadcast_to(np.asarray(numbers, np.uint8)[:, None, None, None] * 20, (len(numbers), 32, 48, 3))


def filmed(
    root, version="v3.0", parts=((0, 4), (4, 8)), starts=(0.0, 0.4, 0.0), name="observation.images.wrist"
):
    """A data set with a video: one for each episode (version 2), or episodes one after the other (3)."""
    write(root, version, info={"features": {name: {"dtype": "video", "shape": [32, 48, 3]}}})
    if version.startswith("v2"):
        places = [root / "videos" / "chunk-000" / name / f"episode_{i:06d}.mp4" for i in range(len(parts))]
    else:
        places = [root / "videos" / name / "chunk-000" / f"file-{i:03d}.mp4" for i in range(len(parts))]
    for place, (first, last) in zip(places, parts, strict=True):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_video(place, grey(range(first, last)), fps=10)
    about = {"episode_index": [0, 1, 2], "length": list(LENGTHS)}
    about |= {f"videos/{name}/chunk_index": [0] * 3, f"videos/{name}/file_index": [0, 0, 1]}
    (root / "meta" / "episodes").mkdir(exist_ok=True)
    table = pa.table({**about, f"videos/{name}/from_timestamp": list(starts)})
    pq.write_table(table, root / "meta" / "episodes" / "file-000.parquet")
    return places


def convert(source, folder, **options):
    return lerobot_to_memmap(source, folder, **{"images": True, **options})


def test_images(tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot, "_IMAGE_ROWS", 3)
    frames = shots()
    more = {"observation.images.top": column(frames), "other": column(frames[:, :, :, :1].repeat(3, -1))}
    source = write(tmp_path / "source", task=pa.array(["pick"] * 8), **more)
    with pytest.warns(UserWarning, match=r"left out of .*\['other', 'task'\]"):
        td = lerobot_to_memmap(source, tmp_path / "out", images="observation.images.top")
    np.testing.assert_array_equal(td["observation", "image", "top"], frames)
    assert set(td["next", "observation"].keys()) == {"state"}
    with pytest.warns(UserWarning, match=r"left out of .*\['task'\]\.$"):
        td = lerobot_to_memmap(source, tmp_path / "all", images=True, image_size=(4, 5))
    ahead = Resize(4, 5)(TensorDict(pixels=np.moveaxis(frames, -1, 1)))["pixels"]
    np.testing.assert_array_equal(td["observation", "image", "top"], np.moveaxis(ahead, 1, -1))
    assert td["other"].shape == (8, 4, 5, 3)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_videos(tmp_path, monkeypatch, version):
    monkeypatch.setattr(conversion, "_MOST", 1)  # videos hold more than that
    ends = np.cumsum((0, *LENGTHS)).tolist()
    parts = ((0, 5), (5, 8)) if version == "v3.0" else tuple(itertools.pairwise(ends))
    filmed(tmp_path / "source", version, parts)
    td = lerobot_to_memmap(tmp_path / "source", tmp_path / "out", images=["observation.images.wrist"])
    found = td["observation", "image", "wrist"]
    assert found.shape == (8, 32, 48, 3)
    np.testing.assert_array_equal((found.mean((1, 2, 3)) / 20).round(), np.arange(8))
    assert set(td["next", "observation"].keys()) == {"state"}
    td = lerobot_to_memmap(tmp_path / "source", tmp_path / "small", images=True, image_size=(8, 8))
    np.testing.assert_array_equal(
        (td["observation", "image", "wrist"].mean((1, 2, 3)) / 20).round(), np.arange(8)
    )


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_what_lerobot_wrote(tmp_path, version):
    """Episodes of 3 and 2 frames by `LeRobotDataset.create` of 0.3.3 and 0.4.4; the video is AV1."""
    with zipfile.ZipFile(Path(__file__).parents[2] / "vectors" / "lerobot.zip") as files:
        files.extractall(tmp_path)
    td = lerobot_to_memmap(tmp_path / version, tmp_path / "out", images=True)
    n = np.arange(5)
    np.testing.assert_array_equal(td["observation", "state"], np.stack([n, n / 2], 1))
    np.testing.assert_array_equal(td["next", "observation", "state"][:, 0], [1, 2, 2, 4, 4])
    np.testing.assert_array_equal(td["action"], -n[:, None])
    np.testing.assert_array_equal(td["next", "reward"].ravel(), [0, 1, 2, 0, 1])
    np.testing.assert_array_equal(td["next", "truncated"].ravel(), [0, 0, 1, 0, 1])
    np.testing.assert_array_equal(td["episode"], [0, 0, 0, 1, 1])
    wrist, top = (td["observation", "image", camera] for camera in ("wrist", "top"))
    np.testing.assert_array_equal(wrist, np.broadcast_to(10 * n[:, None, None, None], (5, 4, 6, 3)))
    assert top.shape == (5, 64, 64, 3)
    np.testing.assert_allclose(top.mean((1, 2, 3)), 50 * n, atol=3)


def test_videos_of_ten_bits(tmp_path):
    """Recorders of depth, and phones, write them."""
    (place, *_) = filmed(tmp_path / "source", parts=((0, 5), (5, 8)))
    options = {"pixel_format": "yuv420p10le"}
    write_video(place, grey(range(5)), fps=10, options=options)
    found = convert(tmp_path / "source", tmp_path / "out")["observation", "image", "wrist"]
    np.testing.assert_array_equal((found.mean((1, 2, 3)) / 20).round(), np.arange(8))


def test_videos_that_have_other_frames(tmp_path):
    """None is ever given to another row: a count or a time that does not fit is an error."""
    for k, (options, message) in enumerate(
        (
            ({"parts": ((0, 5), (5, 7))}, "must have the 3 frames of its episodes, got 2"),
            ({"parts": ((0, 6), (5, 8))}, "must have the 5 frames of its episodes, got more"),
            (
                {"parts": ((0, 5), (5, 8)), "starts": (0.0, 0.5, 0.0)},
                "episode 1, of 1 frames, starts at 0.5 s",
            ),
            ({"parts": ((0, 5), (5, 8)), "starts": (0.0, 0.4, 0.4)}, "episode 2, .* behind 0 frames"),
        )
    ):
        source = tmp_path / f"source{k}"
        filmed(source, **options)
        raises(ValueError, message, convert, source, tmp_path / "out")
    assert "out" not in os.listdir(tmp_path)


def test_descriptions_of_videos(tmp_path):
    source, name = tmp_path / "source", "observation.images.wrist"
    filmed(source, parts=((0, 5), (5, 8)))
    file = source / "meta" / "episodes" / "file-000.parquet"
    table = pq.read_table(file)
    at = table.schema.names.index
    for change, message in (
        (table.drop_columns([f"videos/{name}/file_index"]), "must have the columns"),
        (table.set_column(at("length"), "length", pa.array(["4", "1", "3"])), "must have the columns"),
        (table.set_column(at("length"), "length", pa.array([4, None, 3])), "missing values"),
        (table.set_column(at("length"), "length", pa.array([4, 0, 4])), "episode 1, of 0 frames"),
        (table.take([2, 0, 1]), "one after the other"),
        (table.slice(0, 2), "must have 8 frames, got 5"),
        (table.take([0] * 100_000), "refusing to read 100000 episodes"),
    ):
        pq.write_table(change, file)
        raises(ValueError, message, convert, source, tmp_path / "out")
    pq.write_table(table, file)
    raises(
        ValueError,
        r"images must be of \['observation.images.wrist'\], got \['top'\]",
        lambda: convert(source, tmp_path / "out", images=["top"]),
    )
    for size, message in (((0, 1), "at least 1, got 0"), ((4,), "a width, got"), (4, "a width, got 4")):
        call = functools.partial(convert, source, tmp_path / "out", image_size=size)
        raises(ValueError, f"image_size must be .*{message}", call)
    info = json.loads((source / "meta" / "info.json").read_text())
    (source / "meta" / "info.json").write_text(json.dumps(info | {"fps": None}))
    raises(ValueError, "the fps of the videos", convert, source, tmp_path / "out")


def test_other_images(tmp_path):
    for k, (content, message) in enumerate(
        (
            (b"", "is not an image"),
            (None, "must hold the bytes of images, got NoneType"),
            (png(np.zeros((6, 11, 3), np.uint8)), r"of shape \(6, 11, 3\), the first is \(6, 10, 3\)"),
        )
    ):
        values = pa.array([{"bytes": png(shots()[0]), "path": "0"}, {"bytes": content, "path": "1"}])
        source = write(tmp_path / f"source{k}", lengths=(1, 1), **{"observation.images.top": values})
        raises(ValueError, message, convert, source, tmp_path / "out")
    assert "out" not in os.listdir(tmp_path)


def test_hostile_videos(tmp_path):
    places = filmed(tmp_path / "source", parts=((0, 5), (5, 8)))
    whole = places[1].read_bytes()
    for content, message in ((whole[: len(whole) // 2], "is damaged"), (b"", "refusing to make 3 frames")):
        places[1].write_bytes(content)
        raises(ValueError, message, convert, tmp_path / "source", tmp_path / "out")
    places[1].unlink()
    raises(FileNotFoundError, "file-001", convert, tmp_path / "source", tmp_path / "out")
    (tmp_path / "elsewhere.mp4").write_bytes(whole)
    places[1].symlink_to(tmp_path / "elsewhere.mp4")
    raises(ValueError, "follow the link", convert, tmp_path / "source", tmp_path / "out")
    filmed(tmp_path / "out_of", parts=((0, 5), (5, 8)), name="../../elsewhere")
    raises(ValueError, "follow the link", convert, tmp_path / "out_of", tmp_path / "out")
    assert "out" not in os.listdir(tmp_path)
