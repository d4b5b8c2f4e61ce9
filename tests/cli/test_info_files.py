"""`lite info PATH` of what is no language model."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Run
from helpers.models.real_models import MODELS

import lite
from lite import TensorDict, nn
from lite.cli import main
from lite.data import LazyStackStorage, LazyTensorStorage, ReplayBufferEnsemble, TensorDictReplayBuffer
from lite.models import read_log_probs

TD = TensorDict(
    {"obs": np.zeros((5, 4), np.float32), "next": {"reward": np.ones((5, 1))}, "name": list("abcde")}, [5]
)
ARRAYS = TD.exclude("name")
ENTRIES = {"name": "5 objects", "next, reward": "float64[5, 1]", "obs": "float32[5, 4]"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_saved_tensordicts(run: Run) -> None:
    def saved(name: str, td: TensorDict) -> str:
        td.save(name)
        return name

    ARRAYS.to_h5("td.h5"), TD.consolidate("td.bin"), ARRAYS.select("obs").to_parquet("td.parquet")
    cases = [
        (saved("folder", TD), 'TensorDict.load("folder")', ENTRIES, None),
        (saved("td.tdz", TD), 'TensorDict.load("td.tdz")', ENTRIES, None),
        (saved("td.npz", TD), 'TensorDict.load("td.npz")', ENTRIES, None),
        (saved("td.safetensors", ARRAYS), 'TensorDict.load("td.safetensors")', None, "name"),
        ("td.h5", 'lite.from_h5("td.h5")', None, "name"),
        ("td.parquet", 'lite.from_parquet("td.parquet")', {"obs": "float32[5, 4]"}, None),
        ("td.bin", 'lite.from_consolidated("td.bin")', ENTRIES, None),
    ]
    for path, opened, entries, without in cases:
        out = run(["info", path, "--json"]).json
        assert out["entries"] == (entries or {k: v for k, v in ENTRIES.items() if k != without}), path
        assert (out["tensordict"], out["batch_size"], out["open"]) == (path, [5], opened)
        assert list(eval(opened, {"TensorDict": TensorDict, "lite": lite}).batch_size) == [5]  # as it says


def test_rows_that_differ_and_long_lists(run: Run) -> None:
    rows = [TensorDict(x=np.zeros(n), y=np.zeros(2, np.int64)) for n in (2, 3)]
    lite.LazyStackedTensorDict(*rows).memmap("rows")
    assert run(["info", "rows", "--json"]).json["entries"] == {"x": "float64[2, -1]", "y": "int64[2, 2]"}
    TensorDict({f"k{i:03}": np.zeros(1) for i in range(100)}).memmap("many")
    lines = run(["info", "many"]).out.splitlines()
    assert "  k000: float64[1]" in lines
    assert "  and 60 more: --json has them" in lines
    assert len(run(["info", "many", "--json"]).json["entries"]) == 100


def test_replay_buffers_and_state_dicts(run: Run) -> None:
    one, two = (TensorDictReplayBuffer(storage=LazyTensorStorage(n), batch_size=2) for n in (10, 20))
    one.extend(ARRAYS), two.extend(ARRAYS[:3])
    one.dumps("dump"), ReplayBufferEnsemble(one, *[two] * 11, batch_size=2).dumps("both")
    shutil.copytree("dump", "both/10", dirs_exist_ok=True)  # in the order of numbers, not of texts
    sizes = [5, *[3] * 9, 5, 3], [10, *[20] * 9, 10, 20]
    for path, rows, capacity in (("dump", [5], [10]), ("both", *sizes)):
        out = run(["info", path, "--json"]).json
        assert (out["replay buffer"], out["rows"], out["capacity"]) == (path, rows, capacity)
        assert (out["open"], out["entries"]["obs"]) == (f'buffer.loads("{path}")', "float32[10, 4]")
    ragged = TensorDictReplayBuffer(storage=LazyStackStorage(9), batch_size=2)
    ragged.extend(lite.lazy_stack([TensorDict(x=np.zeros(n)) for n in (2, 3)]))
    ragged.dumps("ragged")
    out = run(["info", "ragged", "--json"]).json
    assert (out["rows"], out["entries"]) == ([2], {"x": "float64[2, -1]"})
    lite.save({"net": nn.Linear(2, 1).state_dict(), "frames": 100}, "checkpoint")
    assert run(["info", "checkpoint", "--json"]).json == {
        "state dict": "checkpoint",
        "entries": {"net, weight": "float32[1, 2]", "net, bias": "float32[1]", "frames": "100"},
        "open": 'lite.load("checkpoint")',
    }


def test_graphs_of_lite(run: Run) -> None:
    net = nn.TensorDictModule(nn.Linear(4, 2), in_keys=["obs"], out_keys=["action"])
    net.to_onnx("policy.onnx", ARRAYS)
    by_contract = run(["info", "policy.onnx.json", "--json"]).json
    assert (
        by_contract
        == run(["info", "policy.onnx", "--json"]).json
        == {
            "policy": "policy.onnx", "inputs": {"obs": "float32['batch', 4]"},
            "outputs": {"action": "float32['batch', 2]"}, "states": {}, "interaction_type": "deterministic",
            "opset": 20, "open": 'lite.models.OnnxModule("policy.onnx")',
        }
    )  # fmt: skip

    def step(w: Any, x: Any) -> Any:
        return w - lite.grad(lambda w: ((w * x) ** 2).sum())(w)

    lite.jit(step, dynamic_axes={"x": {0: "rows"}}).lower(np.ones(2), np.ones((3, 2))).save("step.onnx")
    out = run(["info", "step.onnx", "--json"]).json
    assert (out["step"], out["arguments"]) == ("step.onnx", "step(w: array, x: array)")
    assert out["inputs"] == {"w": "float64[2]", "x": "float64['rows', 2]"}
    assert out["open"] == 'lite.load_step("step.onnx")'


def test_a_graph_without_contract(run: Run) -> None:
    nn.Linear(4, 2).to_onnx("net.onnx", np.zeros((3, 4), np.float32), contract=False)
    out = run(["info", "net.onnx", "--json"]).json
    assert (out["graph"], out["learns"]) == ("net.onnx", "yes: lite.nn.from_onnx knows all operators")
    assert list(out["inputs"].values()) == ["float32['batch', 4]"]
    assert (out["weights"], out["operators"]) == (2, {"Gemm": 1})


def test_an_adapter(run: Run) -> None:
    nn.Linear(4, 2).to_onnx("net.onnx", np.zeros((3, 4), np.float32), contract=False)
    module = nn.lora(nn.from_onnx("net.onnx"), rank=3, alpha=6, targets="*")
    module.save_adapter("peft"), module.save_adapter("net.onnx_adapter")
    Path("learnt/model").mkdir(parents=True)
    shutil.copy("net.onnx_adapter", "learnt/adapter.onnx_adapter"), shutil.copy("net.onnx", "learnt/model")
    for path in ("peft", "net.onnx_adapter", "learnt"):
        out = run(["info", path, "--json"]).json
        assert (out["adapter"], out["ranks"], list(out["matrices"].values())) == (path, [3], ["4 to 2"])
        assert out["scales"] == ([2.0] if path == "peft" else "in the matrices")


def test_rows_of_json(run: Run) -> None:
    """Rows that commands read and write: columns, what made them, what takes them, and their perplexity."""
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    both = ["generate --file {}", "score {}", "learn {} --method sft --output DIR"]
    rows = [{"prompt": "hi", "response": "ho", "n": 1}, {"prompt": turns, "completion": None, "n": 2.5}]
    cases: list[Any] = [
        (
            rows,
            {"prompt": "text or list", "response": "text, in 1", "n": "number", "completion": "null, in 1"},
            both,
        ),
        ([{"messages": turns}], {"messages": "list"}, both),
        ([{"messages": turns[:1]}], {"messages": "list"}, both[:1]),
        (
            [{"chosen": "a", "rejected": "b"}],
            {"chosen": "text", "rejected": "text"},
            ["learn {} --method dpo --output DIR"],
        ),
        ([{"tokens": 3, "kl": True, "run": {}}], {"tokens": "number", "kl": "boolean"}, []),
        ([{"tokens": 3, "log_prob": "x"}], {"tokens": "number", "log_prob": "text"}, []),
    ]
    for given, columns, commands in cases:
        Path("rows.jsonl").write_text("\n\n".join(map(json.dumps, given)), encoding="utf-8")
        out = run(["info", "rows.jsonl", "--json"]).json
        opened = {"open": "; ".join(f"lite {c.format('rows.jsonl')}" for c in commands)} if commands else {}
        assert out == {"json lines": "rows.jsonl", "rows": len(given), "columns": columns, **opened}
    Path("rows.jsonl").write_text(
        '{"prompt": "hi", "response": "ho"}\n{"text": "hi there"}', encoding="utf-8"
    )
    run(["score", "rows.jsonl", "--output", "scored.jsonl"])
    out, scored = run(["info", "scored.jsonl", "--json"]).json, read_log_probs("scored.jsonl")
    assert (out["run"]["command"], "run" in out["columns"]) == ("score", False)
    assert out["open"].endswith(
        "lite mismatch DIR scored.jsonl; lite learn scored.jsonl --method sft --output DIR"
    )
    assert out["tokens"] == sum(len(row.response_ids) for row in scored)
    mean = np.mean(np.concatenate([row.log_probs for row in scored]))
    np.testing.assert_allclose(out["perplexity"], np.exp(-mean))
    Path("rows.jsonl").write_text(
        '{"prompt": "a", "run": {"bad_words_ids": [[5], [6, 7]]}}', encoding="utf-8"
    )
    assert "  bad_words_ids: 5, 6 7\n" in run(["info", "rows.jsonl"]).out


def test_a_language_model_by_its_path(run: Run) -> None:
    model = str(MODELS / "optimum-llama")
    by_path, by_option = (run(["info", *words, model, "--json"]).json for words in ([], ["--model"]))
    del by_path["load_seconds"], by_option["load_seconds"]
    assert by_path == by_option


def test_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.pt").write_bytes(b"\x80\x02}q\x00.")
    Path("x.txt").write_text("plain", encoding="utf-8")
    Path("empty").mkdir()
    Path("x.json").write_bytes(b"\xff")
    Path("x.jsonl").write_text("{}\n[1]\n", encoding="utf-8")
    TD.memmap("folder")
    Path("folder/meta.json").write_text("{", encoding="utf-8")
    cases = [
        ("x.pt", "It is a pickle"),
        ("x.txt", "'x.txt' is not a file that lite reads"),
        ("x.json", "x.json: "),
        ("x.jsonl", "x.jsonl, line 2: expected an object, got [1]"),
        ("empty", "holds no .onnx file"),
        ("absent", "there is no file or folder 'absent'"),
        ("folder", "meta.json"),
    ]
    for path, said in cases:
        assert main(["info", path]) == 1
        assert said in capsys.readouterr().err, path
    assert main(["info", "folder", "--model", "folder"]) == 2
    assert "PATH and --model" in capsys.readouterr().err
