"""Small JSON files of a model folder: missing, broken, too large."""

from pathlib import Path

import pytest
from helpers.cases import each_case, raises

from lite.models.graph.model_config import read_json_object, read_text


def test_reads_an_object_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"ä": [1, null]}', encoding="utf-8")
    assert read_json_object(tmp_path / "a.json") == {"ä": [1, None]}
    assert read_json_object(tmp_path / "missing.json") == {}
    raises(FileNotFoundError, "", read_text, tmp_path / "missing.json")


def test_errors_name_the_file(tmp_path: Path) -> None:
    cases = [
        (b"{", "is not valid JSON"),
        (b"[]", "must hold a JSON object, got list"),
        (b"[" * 10**5, "is nested too deeply"),
        (b"\xff", "is not UTF-8 text"),
        (b'{"n": ' + b"9" * 10**4 + b"}", "digits"),
        (b" " * 101, "has 101 bytes; a file of this kind may have at most 100"),
    ]
    for content, message in cases:
        path = tmp_path / "config.json"
        path.write_bytes(content)
        limit = 100 if message.startswith("has") else 10**6
        with pytest.raises(ValueError, match=message) as error:
            read_json_object(path, max_bytes=limit)
        assert str(path) in str(error.value), content


@each_case(
    ("folder", "target", "refused"),
    [
        ("model", "../model/other", False),
        ("model", "sub/../other", False),
        ("model", "../secret", True),
        ("model", "../blobs/1", True),
        ("model", "sub/link/secret", True),
        ("model", "../model-2/other", True),
        ("snapshots/1", "../../blobs/1", False),
        ("snapshots/1/onnx", "../../../blobs/1", False),
        ("snapshots/1/onnx", "../other", False),
        ("snapshots/1", "../2/other", True),
        ("snapshots/1", "../../secret", True),
        ("other/1", "../../blobs/1", True),
    ],
)
def test_links(tmp_path: Path, folder: str, target: str, refused: bool) -> None:
    for place in ("", "blobs", "model/sub", "model-2", "other/1/sub", "snapshots/1/onnx/sub", "snapshots/2"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
    home = tmp_path / folder
    (tmp_path / "model" / "sub" / "link").symlink_to(tmp_path)
    (home / "config.json").symlink_to(target)
    through = tmp_path / "through"
    through.symlink_to(home)
    for path in (home / "config.json", through / "config.json"):
        (path.parent / target).resolve().write_text("{}")
        if refused:
            raises(ValueError, r"config\.json is a link out of its folder, to ", read_json_object, path)
        else:
            assert read_json_object(path) == {}
