"""`lite warmup`."""

import json

import pytest

from lite.cli import main


def test_the_kernels_are_compiled_and_the_time_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    monkeypatch.setattr("lite.cli.warmup.warmup", lambda: calls.append(1))
    assert main(["warmup"]) == 0
    assert capsys.readouterr().out.startswith("kernels compiled and cached in 0.")
    assert main(["warmup", "--json"]) == 0
    assert 0 <= json.loads(capsys.readouterr().out)["seconds"] < 1
    assert calls == [1, 1]
