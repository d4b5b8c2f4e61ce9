"""What was learnt, as files and in the running model."""

import json
from pathlib import Path

import numpy as np
from helpers.commands import Run
from helpers.lessons import SMALL, TIMES
from helpers.models.real_models import MODELS

from lite import nn
from lite._files.onnx.adapters import read_adapter

NAME = "adapter.onnx_adapter"


def test_what_is_learnt_runs_as_a_model(rows: Path, tmp_path: Path, run: Run) -> None:
    output, page = tmp_path / "learnt", tmp_path / "page.html"
    learn = ["learn", str(rows), "--method", "sft", "--held-out", str(rows), "--quiet"]
    own = ["--targets", "*_proj", "--lr", "1e-2"]
    told = run([*learn, *own, "--output", str(output), "--steps", "8", "--json", "--html", str(page)]).rows
    assert [one["step"] for one in told] == list(range(9))
    assert {"loss", "gradient_norm", "tokens", *TIMES} <= told[1].keys()
    assert told[0].keys() == {"step", "held_out"}
    assert told[-1]["held_out"] > told[0]["held_out"] / 4 > told[0]["held_out"]  # log-probs
    assert "</html>" in page.read_text(encoding="utf-8")
    row = json.loads(rows.read_text(encoding="utf-8").splitlines()[0])
    adapter = ["--adapter", str(output / NAME)]
    generate = ["generate", "--model", str(output / "model"), *adapter, row["prompt"], "--json", "--quiet"]
    made = run(generate).json["responses"][0]
    assert made["response"].strip() == row["answer"]


def test_layers_that_are_called_as_their_weights(rows: Path, tmp_path: Path, run: Run) -> None:
    """So the parameters of their adapters have other names than in the graph, which has inputs for them."""
    learn = ["learn", str(rows), "--method", "sft", "--prompts", "1", "--steps", "1", "--quiet"]
    model, output = MODELS / "handmade-lora", str(tmp_path / "learnt")
    run([*learn, "--model", str(model), "--targets", "query.*", "--output", output])
    run(["generate", "--model", f"{output}/model", "--adapter", output, "Hi", "--max-new-tokens", "1"])


def test_all_weights_learn_whatever_their_names(rows: Path, tmp_path: Path, run: Run) -> None:
    """torch.onnx calls matrices that it transposes val_89; its rotary frequencies stay."""
    model, output = MODELS / "torch-phi3-longrope", tmp_path / "learnt"
    learn = ["learn", str(rows), "--method", "sft", "--full", "--prompts", "1", "--steps", "1", "--quiet"]
    run([*learn, "--model", str(model), "--output", str(output)])
    before, after = (nn.from_onnx(at / "model.onnx").state_dict() for at in (model, output / "model"))
    same = {name for name, value in before.items() if np.array_equal(value, after[name])}
    assert same == {"mul_69", "model.model.rotary_emb.original_inv_freq"}


def test_an_adapter_goes_on(rows: Path, tmp_path: Path, run: Run) -> None:
    """Its rank and layers hold, and a divergence is that from the model with it."""
    learn, sft = ["learn", str(rows), "--quiet", "--json", "--lr", "1e-2"], ["--method", "sft"]
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    own = ["--targets", "qkv_proj", "--targets", "down_proj", "--rank", "2", "--held-out", str(rows)]
    told = run([*learn, *sft, *own, "--steps", "2", "--output", first]).rows
    file = f"{first}/adapter.onnx_adapter"
    held_out = [*sft, "--held-out", str(rows), "--model", f"{first}/model"]
    begun = run([*learn, *held_out, "--adapter", file, "--steps", "1", "--output", second]).rows
    np.testing.assert_allclose(begun[0]["held_out"], told[-1]["held_out"], rtol=1e-3, atol=1e-5)
    shapes = [
        {name: x.shape for name, x in read_adapter((Path(at) / NAME).read_bytes()).items()}
        for at in (first, second)
    ]
    assert shapes[0] == shapes[1]
    reinforced = [*SMALL, "--adapter", file, "--kl", "0.1", "--steps", "1", "--temperature", "1.5"]
    step = run([*learn, *reinforced, "--output", str(tmp_path / "third")]).rows[1]
    assert abs(step["kl"]) < 1e-5
    for more, message in (
        (["--rank", "8"], "it has the rank 2, and --rank is 8"),
        (["--targets", "o_proj"], "it has nothing for 'model.layers.0.self_attn.o_proj'"),
    ):
        err = run([*learn, *sft, "--adapter", file, *more, "--output", str(tmp_path / "none")], 1).err
        assert f"--adapter {file}: {message}" in err
        assert not (tmp_path / "none").exists()
