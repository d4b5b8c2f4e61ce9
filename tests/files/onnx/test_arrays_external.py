"""Which files a model may name."""

from pathlib import Path

from helpers.cases import each_case, raises

from lite._files.onnx.arrays import check_external_files, check_links


@each_case("name", ["", "../x", "a/../../x", "/etc/passwd", "C:\\x", "a\\..\\x"])
def test_names_out_of_the_folder(tmp_path: Path, name: str) -> None:
    raises(ValueError, "outside its folder", lambda: check_external_files(tmp_path / "model.onnx", [name]))


def test_links_out_of_the_folder(tmp_path: Path) -> None:
    home, blobs = tmp_path / "snapshots" / "1", tmp_path / "blobs"
    for folder in (home, blobs):
        folder.mkdir(parents=True)
    (blobs / "w").write_bytes(b"")
    (tmp_path / "secret").write_bytes(b"")
    (home / "w").symlink_to(blobs / "w")
    (home / "x").symlink_to(tmp_path / "secret")
    check_external_files(home / "model.onnx", ["w"])
    raises(ValueError, "a link out of its folder", lambda: check_links(home / "x", home))
    for name in ("y", "y" * 5000):
        raises(
            FileNotFoundError, "y' is missing", lambda n=name: check_external_files(home / "model.onnx", [n])
        )
