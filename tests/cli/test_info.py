"""`lite info` on a real export."""

import dataclasses
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.commands import Run
from helpers.models.real_models import MODELS

from lite.cli import main
from lite.cli.info import _notes
from lite.kernels.backends.choice import backend
from lite.models import OnnxDecoder
from lite.models.graph.session import default_threads

MODEL = MODELS / "optimum-llama"


def test_info_names_the_convention(run: Run) -> None:
    out = run(["info", "--model", str(MODEL), "--json"]).json
    assert out["graph"]["family"] == "optimum"
    assert out["config"]["context_length"] == 256
    assert out["tokenizer"] == {"eos_token_id": 2, "pad_token_id": 3, "chat_template": True}
    assert out["notes"] == []
    assert out["plan"]["kernels"].split(",")[0] == backend()


def test_info_says_what_is_slow(run: Run) -> None:
    cases = [
        ("handmade-no-cache", "each new token runs its whole row again: generation is slow"),
        ("exporter-llama-pair", "a graph of its own reads prompts and what is scored, whole"),
    ]
    for folder, note in cases:
        (said,) = run(["info", "--model", str(MODELS / folder), "--json"]).json["notes"]
        assert note in said, folder
        printed = run(["info", "--model", str(MODELS / folder)]).out
        assert f"note: {said}" in " ".join(printed.split()), folder
        assert max(map(len, printed.splitlines())) <= 100 + len(str(MODELS)), folder


def test_both_graphs_of_a_pair_are_of_one_exporter(run: Run) -> None:
    graph = run(["info", "--model", str(MODELS / "optimum-gpt2-pair"), "--json"]).json["graph"]
    assert (graph["family"], graph["prompts"]["family"]) == ("optimum", "optimum")
    lines = run(["info", "--model", str(MODELS / "optimum-gpt2-pair")]).out.splitlines()
    assert "  prompts: another graph" in lines  # its specification is for --json


PLANS: list[tuple[str, dict[str, Any]]] = [
    (
        "optimum-llama",
        {
            "attention": "GroupQueryAttention for the exported operators, past and present in one buffer",
            "weights": "not quantised",
            "padding": "slots",
            "cache_type": "float32",
            "cache_bytes_per_token": 512,  # 2 layers, key and value, 2 heads of 16, 4 bytes
            "cache_bytes_of_a_full_row": 512 * 256,
        },
    ),
    (
        "genai-qwen2-int4",
        {"attention": "GroupQueryAttention, past and present in one buffer", "weights": "MatMulNBits",
            "padding": "slots", "cache_bytes_per_token": 512},
    ),
    (
        "handmade-no-cache",
        {"attention": "no cache: whole rows run again for each token", "padding": "right",
            "cache_type": None, "cache_bytes_per_token": 0},
    ),
]  # fmt: skip


def test_info_has_the_run_plan(run: Run) -> None:
    for folder, plan in PLANS:
        out = run(["info", "--model", str(MODELS / folder), "--json"]).json["plan"]
        assert {key: out[key] for key in plan} == plan, folder
        assert (out["provider"], out["threads"], out["context_length"]) == (
            "CPUExecutionProvider",
            default_threads(),
            256,
        )
        lines = run(["info", "--model", str(MODELS / folder), "--threads", "3"]).out.splitlines()
        assert "  threads: 3" in lines, folder
        assert f"  cache_bytes_per_token: {plan['cache_bytes_per_token']}" in lines, folder


def test_info_of_a_refused_model_says_what_it_is_and_why(run, capsys, tmp_path):
    shutil.copy(MODELS.parent / "graphs" / "policy.onnx", tmp_path / "model.onnx")
    out = run(["info", "--model", str(tmp_path), "--json"], 1).json
    assert out["refused"].startswith("the graph has no input named input_ids. Inputs: ")
    assert out["found"]["graph"] == "model.onnx"
    assert out["found"]["producer"] == "pytorch"
    assert out["found"]["bytes"] == (tmp_path / "model.onnx").stat().st_size
    assert out["found"]["operators"] > 0
    assert out["found"]["attention"] == out["found"]["quantisation"] == out["found"]["external_data"] == []
    assert "tokenizer.json" in out["tokenizer"]["refused"]
    assert "plan" not in out
    assert "notes" not in out
    (tmp_path / "model.onnx.json").write_text("{}")  # a contract
    assert run(["info", "--model", str(tmp_path), "--json"], 1).json["notes"] == [
        "to_onnx wrote this graph of a module: lite.models.OnnxModule runs it"
    ]
    assert main(["info", "--model", str(tmp_path)]) == 1
    assert "\nrefused: the graph has no input named input_ids" in capsys.readouterr().out


def test_info_of_a_model_without_tokenizer(run: Run, tmp_path: Path) -> None:
    for name in ("model.onnx", "config.json"):
        shutil.copy(MODEL / name, tmp_path / name)
    out = run(["info", "--model", str(tmp_path), "--json"]).json
    assert "tokenizer.json" in out["tokenizer"]["refused"]
    assert out["plan"]["padding"] == "slots"


def test_info_where_no_tokenizers_are_installed(run, tmp_path, monkeypatch):
    """As on a small machine, where a graph runs on token ids if the tokenizer's rules need the package."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name in ("model.onnx", "config.json"):
        shutil.copy(MODEL / name, tmp_path / name)
    source = (MODEL / "tokenizer.json").read_text(encoding="utf-8")
    lower = source.replace('"normalizer": null', '"normalizer": {"type": "Lowercase"}')
    (tmp_path / "tokenizer.json").write_text(lower, encoding="utf-8")
    out = run(["info", "--model", str(tmp_path), "--json"]).json
    assert 'pip install -e ".[llm]"' in out["tokenizer"]["refused"]
    assert out["plan"]["padding"] == "slots"


def test_what_is_slow_or_inexact_here_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = OnnxDecoder(MODEL)

    def notes(device: str, **changes: Any) -> list[str]:
        spec = dataclasses.replace(decoder.spec, **changes)
        return _notes(SimpleNamespace(spec=spec, device=device, config=decoder.config))  # type: ignore[arg-type]

    (note,) = notes("cpu", cache_type="tensor(float16)")
    assert note.startswith("the graph is in float16")
    assert notes("cpu", logits_type="tensor(float16)") == [note]
    monkeypatch.setattr("lite.cli.info.drawn_on_gpus", lambda: True)
    assert notes("cuda", cache_type="tensor(float16)", logits_type="tensor(float16)") == []
    monkeypatch.setattr("lite.cli.info.drawn_on_gpus", lambda: False)
    (note,) = notes("cuda")
    assert note.startswith("Numba finds no GPU")
    assert 'pip install -e ".[cuda]"' in note
    (note,) = notes("cpu", quantisation="MatMulInteger")
    assert "its log-probs depend on what else is in the run" in note
    for change, said in (
        ("one_token", "one new token at a time: prompts and scores run token by token"),
        ("last_logits_only", "scoring runs token by token"),
        ("one_row", "a batch is as slow as its rows one after the other"),
    ):
        (note,) = notes("cpu", **{change: True})
        assert said in note
