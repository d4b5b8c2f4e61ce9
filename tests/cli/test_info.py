"""`lite info` on a real export."""

import json

import pytest
from helpers.real_models import MODELS

from lite.cli import main

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
MODEL = MODELS / "optimum-llama"


def test_info_names_the_convention(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--model", str(MODEL), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["graph"]["family"] == "optimum"
    assert out["config"]["context_length"] == 256
    assert out["tokenizer"] == {"eos_token_id": 2, "pad_token_id": 3, "chat_template": True}
