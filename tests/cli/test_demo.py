"""`lite demo` on the embedded model."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import Run

from lite.models.graph.runtime import _warn_once


def test_demo_computes_returns_from_rewards(run: Run) -> None:
    out = run(["demo", "--json", "--prompts", "7", "--samples", "2", "--gamma", "0.9"]).json
    assert len(out["samples"]) == 14
    assert {s["task"] for s in out["samples"]} == {
        "addition", "subtraction", "comparison", "sorting", "counting", "reversing", "copying",
    }  # fmt: skip
    assert out["tokens"] == sum(s["tokens"] for s in out["samples"])
    np.testing.assert_allclose(out["tokens_per_second"] * out["seconds"], out["tokens"])
    for sample in out["samples"]:
        assert sample["reward"] == (1.0 if sample["response"] == sample["answer"] else sample["reward"])
        expected = sample["reward"] * 0.9 ** np.arange(sample["tokens"])[::-1]
        np.testing.assert_allclose(sample["returns"], expected, rtol=1e-5)
    # The model answers 95% of held-out problems greedily; sampling must not be far from that.
    assert np.mean([s["reward"] for s in out["samples"]]) > 0.5


def test_demo_prints_a_table_last_and_what_the_tensordict_holds_before(run: Run) -> None:
    out = run(["demo", "--prompts", "2", "--samples", "2", "--seed", "3"]).out
    for text in ("('tokens', 'response')", "TensorDict, batch_size=(2, 2)", "tokens/s", "embedded with"):
        assert text in out
    end = out.splitlines()[-24:]  # what a small terminal still shows
    (head,) = [i for i, line in enumerate(end) if line.startswith("prompt  ")]
    assert end[head].split() == ["prompt", "sample", "log-prob", "reward", "return"]
    assert len(end) - head == 2 + 4 + 2  # the line below it, four samples, and what a return is
    assert "Mean reward" in end[-1]


@pytest.mark.processes
def test_nothing_is_written_where_the_user_keeps_files(tmp_path: Path) -> None:
    """onnxruntime's telemetry writes an identifier of the device, and a queue, unless it is told not to."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "ORT_"))}
    program = [sys.executable, "-m", "lite", "demo", "--json", "--prompts", "1", "--samples", "1"]
    subprocess.run(program, check=True, capture_output=True, env={**environment, "HOME": str(tmp_path)})
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.filterwarnings("default:onnxruntime is not installed")
def test_demo_where_onnxruntime_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser, musl: the same samples, and one warning."""
    command = ["demo", "--json", "--prompts", "2", "--samples", "2"]
    monkeypatch.delenv("LITE_RUNTIME", raising=False)
    with_it = run(command)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    _warn_once.cache_clear()
    without = run(command)
    assert with_it.err.count("onnxruntime is not installed") == 0
    assert without.err.count("onnxruntime is not installed") == 1
    told = [[s["response"] for s in out.json["samples"]] for out in (with_it, without)]
    assert told[0] == told[1]
