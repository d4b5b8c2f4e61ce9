"""Steps of `lite learn`."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from helpers.cases import each_case
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


def test_responses_are_the_models_own_whatever_its_files_say_of_sampling(rows, tmp_path, run):
    """They are drawn from all tokens, as the gradient takes them to be; held-out ones are greedy."""
    own = tmp_path / "model"
    shutil.copytree(embedded_model_path(), own)
    options = {
        "do_sample": True, "temperature": 1.7, "top_k": 1, "repetition_penalty": 1.9, "eos_token_id": 2,
    }  # fmt: skip
    (own / "generation_config.json").write_text(json.dumps(options), encoding="utf-8")
    held_out = tmp_path / "held_out.jsonl"  # fewer rows than those that are learnt of
    held_out.write_text(rows.read_text(encoding="utf-8").splitlines(True)[0], encoding="utf-8")
    learn = ["learn", str(rows), *SMALL, "--steps", "1", "--json", "--held-out", str(held_out)]
    told = [
        [{name: value for name, value in step.items() if name not in TIMES} for step in run(line).rows]
        for model in ([], ["--model", str(own)])
        for line in [[*learn, *model, "--output", str(tmp_path / f"learnt{len(model)}")]]
    ]
    assert told[0] == told[1]


def test_preferences_are_learnt_from_the_model_as_it_was(rows: Path, tmp_path: Path, run: Run) -> None:
    """The second loss is that of log-probs which `lite score` gives with the adapter of the first step."""
    given = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    texts = {"chosen": [row["answer"] for row in given], "rejected": [row["answer"][::-1] for row in given]}
    pairs, output = tmp_path / "pairs.jsonl", tmp_path / "learnt"
    files = {name: tmp_path / f"{name}.jsonl" for name in texts}
    with open(pairs, "w", encoding="utf-8") as sink:
        for i, row in enumerate(given):
            print(json.dumps({"prompt": row["prompt"], **{n: texts[n][i] for n in texts}}), file=sink)
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text("".join(pairs.read_text(encoding="utf-8").splitlines(True)[:2]), encoding="utf-8")
    for name, file in files.items():
        scored = ({"prompt": row["prompt"], "response": texts[name][i]} for i, row in enumerate(given))
        file.write_text("\n".join(map(json.dumps, scored)), encoding="utf-8")
    learn = [
        "learn", str(pairs), "--method", "dpo", "--beta", "0.5", "--lr", "1e-2", "--prompts", "7", "--json",
    ]  # fmt: skip
    learn += ["--quiet", "--output", str(output), "--held-out", str(held_out), "--batch-size", "8"]
    before, first = run([*learn, "--steps", "1"]).rows
    assert (before["held_out"], first["rewards_accuracies"], first["rewards_margins"]) == (0, 0, 0)
    np.testing.assert_allclose(first["loss"], np.log(2), rtol=1e-6)
    sums: dict[tuple[str, bool], Any] = {}
    for name, file in files.items():
        for adapted in (False, True):
            more = ["--adapter", str(output)] if adapted else []
            scores = run(["score", str(file), "--json", *more]).rows
            sums[name, adapted] = np.array([row["log_prob"] for row in scores])
    chosen, rejected = (sums[name, True] - sums[name, False] for name in ("chosen", "rejected"))
    [second] = run([*learn, "--steps", "2", "--html", str(tmp_path / "page.html")]).rows
    margins = 0.5 * (chosen - rejected)
    np.testing.assert_allclose(second["loss"], np.log1p(np.exp(-margins)).mean(), rtol=1e-4)
    np.testing.assert_allclose(second["rewards_margins"], margins.mean(), rtol=1e-3)
    np.testing.assert_allclose(second["rewards_accuracies"], (margins > 0).mean(), rtol=1e-6)
    assert second["held_out"] > 0.8
    assert "Share of pairs" in (tmp_path / "page.html").read_text(encoding="utf-8")
    other = run([*learn, "--steps", "2", "--loss-type", "ipo"], 1).err
    assert 'loss_type was "sigmoid" and is "ipo"' in other


def test_responses_that_are_cut_off_may_not_count(rows: Path, tmp_path: Path, run: Run) -> None:
    """With one token each all are: nothing is learnt, whatever the rewards."""
    learn = ["learn", str(rows), *SMALL, "--max-new-tokens", "1", "--steps", "1", "--json", "--kl", "0.1"]
    for more, expected in (([], True), (["--mask-truncated-completions"], False)):
        told = run([*learn, *more, "--output", str(tmp_path / str(len(more)))]).rows[1]
        assert ("gradient_norm" in told) == expected


def test_what_advantages_are_divided_by(rows, tmp_path, run, monkeypatch):
    from lite.cli.learning.learner import Learner

    rewards = np.array([[0, 0, 1, 5], [0, 0, 0, 4]], np.float32)
    seen: list[Any] = []
    responses, update = Learner._responses, Learner._update

    def noting(self: Any, params: Any, state: Any, given: Any, shares: Any) -> Any:
        seen.append(given["advantage"])
        return update(self, params, state, given, shares)

    monkeypatch.setattr(Learner, "_responses", lambda *args: (responses(*args)[0], rewards))
    monkeypatch.setattr(Learner, "_update", noting)
    centred = rewards - rewards.mean(1, keepdims=True)
    divisors = {"group": rewards.std(1, ddof=1, keepdims=True), "batch": rewards.std(ddof=1), "none": 1}
    for name, divisor in divisors.items():
        learn = ["learn", str(rows), *SMALL, "--steps", "1", "--scale-rewards", name]
        run([*learn, "--output", str(tmp_path / name)])
        np.testing.assert_allclose(seen[-1].reshape(2, 4), centred / divisor, rtol=1e-5)


@each_case("loss_type", ["dapo", "bnpo", "grpo", "dr_grpo"])
def test_losses_are_over_the_tokens_that_trl_counts(loss_type, rows, tmp_path, run, monkeypatch):
    """Those of responses that teach nothing as well, and of `dapo` of those that are masked."""
    from lite.cli.learning.learner import Learner

    rewards, said = np.array([[0, 0, 1, 5], [2, 2, 2, 2]], np.float32), []
    cut = np.array([[False, False, False, True], [True, False, False, False]])
    responses = Learner._responses

    def given(*args: Any) -> Any:
        batch = responses(*args)[0]
        batch["next", "truncated"] = cut.reshape(batch["next", "truncated"].shape)
        said.append(np.asarray(batch["masks", "all_assistant_mask"]).sum(-1))
        return batch, rewards

    monkeypatch.setattr(Learner, "_responses", given)
    learn = ["learn", str(rows), *SMALL, "--steps", "1", "--json", "--mask-truncated-completions"]
    told = run([*learn, "--loss-type", loss_type, "--output", str(tmp_path / loss_type)]).rows[1]
    centred = rewards - rewards.mean(1, keepdims=True)
    gain = np.where(cut, 0, centred / np.array([[rewards[0].std(ddof=1)], [1]]))
    [tokens] = said
    of_tokens = {
        "dapo": tokens.sum(),
        "bnpo": tokens[~cut].sum(),
        "dr_grpo": 8 * 6,
    }
    expected = gain.mean() if loss_type == "grpo" else (gain * tokens).sum() / of_tokens[loss_type]
    np.testing.assert_allclose(told["loss"], -expected, rtol=1e-5)
