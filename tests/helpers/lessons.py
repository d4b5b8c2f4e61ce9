"""What the embedded model can be taught by `lite learn`."""

import json
from pathlib import Path

import numpy as np
import pytest

from lite.models.tiny_chat.tasks import WORDS

TIMES = ("tokens_per_second", "seconds")
SMALL = ["--prompts", "2", "--samples", "4", "--max-new-tokens", "6", "--lr", "1e-3", "--quiet"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Words to write backwards, which the embedded model sometimes can."""
    rng = np.random.default_rng(0)
    file = tmp_path / "rows.jsonl"
    with open(file, "w", encoding="utf-8") as sink:
        for _ in range(7):
            words = rng.choice(WORDS, 3).tolist()
            answer = " ".join(words[::-1])
            row = {"prompt": f"Write backwards: {' '.join(words)}", "answer": answer, "response": answer}
            print(json.dumps(row), file=sink)
    return file
