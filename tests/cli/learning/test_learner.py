"""Steps of `lite learn`."""

from pathlib import Path

import numpy as np
from helpers.commands import Run
from helpers.lessons import SMALL, TIMES


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
