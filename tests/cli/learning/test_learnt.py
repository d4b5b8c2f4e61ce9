"""What was learnt, as files and in the running model."""

import json
from pathlib import Path

import pytest
from helpers.commands import Run
from helpers.lessons import TIMES
from helpers.tiers import standing_for_all

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
pytest.importorskip("tokenizers", reason="needs the llm extra: pip install -e '.[llm]'")


@pytest.mark.parametrize("kind", standing_for_all(["adapter", "full"]))
def test_what_is_learnt_runs_as_a_model(kind: str, rows: Path, tmp_path: Path, run: Run) -> None:
    output, page = tmp_path / "learnt", tmp_path / "page.html"
    learn = ["learn", str(rows), "--method", "sft", "--held-out", str(rows), "--quiet"]
    own = ["--full", "--lr", "3e-3"] if kind == "full" else ["--targets", "*_proj", "--lr", "1e-2"]
    told = run([*learn, *own, "--output", str(output), "--steps", "8", "--json", "--html", str(page)]).rows
    assert [one["step"] for one in told] == list(range(9))
    assert {"loss", "gradient_norm", "tokens", *TIMES} <= told[1].keys()
    assert told[0].keys() == {"step", "held_out"}
    assert told[-1]["held_out"] > told[0]["held_out"] / 4 > told[0]["held_out"]  # log-probs
    assert "</html>" in page.read_text(encoding="utf-8")
    row = json.loads(rows.read_text(encoding="utf-8").splitlines()[0])
    adapter = [] if kind == "full" else ["--adapter", str(output / "adapter.onnx_adapter")]
    generate = ["generate", "--model", str(output / "model"), *adapter, row["prompt"], "--json", "--quiet"]
    made = run(generate).json["responses"][0]
    assert made["response"].strip() == row["answer"]
