"""The digest of what is compiled."""

from pathlib import Path

import pytest
from helpers.cases import raises

from lite.kernels.backends import sources


def test_the_digest_tells_sources_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu" / "vectors").mkdir(parents=True)
    (tmp_path / "backends").mkdir()
    (tmp_path / "backends" / "jit.py").touch()
    monkeypatch.setattr(sources, "_KERNELS", tmp_path)
    seen = {sources.digest()}
    for name in ("_rows.py", "cpu/sums.py", "cpu/vectors/blocks.py", "backends/jit.py"):
        for text in ("x = 1", "x = 2"):
            (tmp_path / name).write_text(text)
            sources.digest.cache_clear()
            seen.add(sources.digest())
    (tmp_path / "public.py").write_text("")
    sources.digest.cache_clear()
    assert sources.digest() in seen  # a public function is not compiled
    sources.digest.cache_clear()
    assert len(seen) == 9


def test_a_zip_archive_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_KERNELS", tmp_path / "lite.whl" / "lite" / "kernels")
    raises(FileNotFoundError, "need lite as files, but .*unpack the archive", sources.digest.__wrapped__)
