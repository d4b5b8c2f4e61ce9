"""`lite generate` on a real export."""

import json

import numpy as np
import pytest
from helpers.models.real_models import MODELS

from lite.cli import main
from lite.models import GenerationConfig, OnnxDecoder, Tokenizer, generate

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")
MODEL = MODELS / "optimum-llama"


def test_generate_is_the_greedy_continuation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(MODEL), "--raw", "hello", "--max-new-tokens", "6", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    decoder, tokenizer = OnnxDecoder(MODEL), Tokenizer.from_pretrained(MODEL)
    config = GenerationConfig.from_kwargs({"max_new_tokens": 6, "temperature": 0}, decoder.config)
    (expected,) = generate(decoder, [tokenizer.encode("hello")], config)
    assert out["responses"][0]["text"] == tokenizer.decode(expected.tokens, skip_special_tokens=True)
    assert out["tokens"] == len(expected.tokens)
    np.testing.assert_allclose(out["responses"][0]["log_prob"], expected.log_probs.sum(), rtol=1e-5)
    assert out["tokens_per_second"] > 0


def test_generate_prints_text_count_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--model", str(MODEL), "hello", "--max-new-tokens", "3"]) == 0
    assert "3 tokens in " in capsys.readouterr().out


def test_samples_follow_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["generate", "--model", str(MODEL), "hi", "--temperature", "1", "--samples", "3", "--json"]
    texts = []
    for seed in ("1", "1", "2"):
        assert main([*command, "--max-new-tokens", "5", "--seed", seed]) == 0
        texts.append([r["text"] for r in json.loads(capsys.readouterr().out)["responses"]])
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]
    assert len(set(texts[0])) > 1
