"""`lite info` on a real export."""

import json

import pytest
from helpers.models.real_models import MODELS

from lite.cli import main

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
MODEL = MODELS / "optimum-llama"


def test_info_names_the_convention(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--model", str(MODEL), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["graph"]["family"] == "optimum"
    assert out["config"]["context_length"] == 256
    assert out["tokenizer"] == {"eos_token_id": 2, "pad_token_id": 3, "chat_template": True}
    assert out["notes"] == []


@pytest.mark.parametrize(
    ("folder", "note"),
    [
        (
            "handmade-no-cache",
            "each new token runs its whole row again: generation is slow",
        ),
        ("handmade-last-logits", "last position only: scoring runs token by token"),
    ],
)
def test_info_says_what_is_slow(folder: str, note: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--model", str(MODELS / folder), "--json"]) == 0
    (said,) = json.loads(capsys.readouterr().out)["notes"]
    assert note in said
    assert main(["info", "--model", str(MODELS / folder)]) == 0
    assert f"note: {said}" in capsys.readouterr().out.splitlines()
