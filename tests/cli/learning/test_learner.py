"""Steps of `lite learn`."""

import json
import shutil
from pathlib import Path

import numpy as np
from helpers.commands import Run
from helpers.lessons import SMALL, TIMES

from lite.models import embedded_model_path


def test_what_is_told_of_a_step(rows: Path, tmp_path: Path, run: Run) -> None:
    learn = ["learn", str(rows), *SMALL, "--lr", "1e-2", "--steps", "2", "--kl", "0.1"]
    _, first, second = run([*learn, "--output", str(tmp_path / "o"), "--json"]).rows
    assert {"reward", "told", "loss", "clip_fraction", "tokens", *TIMES} <= first.keys()
    assert 0 <= first["reward"] <= 1
    np.testing.assert_allclose(first["kl"], 0, atol=1e-6)  # it is the reference still
    assert second["kl"] > 1e-4


def test_a_system_message_is_before_given_responses_too(rows: Path, tmp_path: Path, run: Run) -> None:
    learn = ["learn", str(rows), *SMALL, "--method", "sft", "--steps", "1", "--json"]
    own = ["--system", "Be brief."]
    with_it, without = (
        run([*learn, *more, "--output", str(tmp_path / str(len(more)))]).rows[1] for more in (own, [])
    )
    assert abs(with_it["loss"] - without["loss"]) > 1e-3


def test_responses_are_the_models_own_whatever_its_files_say_of_sampling(
    rows: Path, tmp_path: Path, run: Run
) -> None:
    """They are drawn from all tokens, as the gradient takes them to be; held-out ones are greedy."""
    own = tmp_path / "model"
    shutil.copytree(embedded_model_path(), own)
    options = {
        "do_sample": True,
        "temperature": 1.7,
        "top_k": 1,
        "repetition_penalty": 1.9,
        "eos_token_id": 2,
    }
    (own / "generation_config.json").write_text(json.dumps(options), encoding="utf-8")
    learn = ["learn", str(rows), *SMALL, "--steps", "1", "--json", "--held-out", str(rows)]
    told = [
        [{name: value for name, value in step.items() if name not in TIMES} for step in run(line).rows]
        for model in ([], ["--model", str(own)])
        for line in [[*learn, *model, "--output", str(tmp_path / f"learnt{len(model)}")]]
    ]
    assert told[0] == told[1]
