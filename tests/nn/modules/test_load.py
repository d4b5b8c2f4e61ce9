"""load_safetensors: arrays by name, and what is no such file."""

from pathlib import Path

import numpy as np
from helpers.cases import raises

from lite import nn


def test_weights_by_name(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "model.safetensors"
    source = nn.Linear(3, 2, rng=0)
    save_file(dict(source.state_dict()), path)
    state = nn.load_safetensors(path)
    assert sorted(state) == ["bias", "weight"]
    target = nn.Linear(3, 2, rng=1)
    target.load_state_dict(state)
    np.testing.assert_array_equal(target.weight, source.weight)


def test_no_file_and_a_damaged_one(tmp_path: Path) -> None:
    raises(FileNotFoundError, "", nn.load_safetensors, tmp_path / "none")
    (tmp_path / "text").write_text("no arrays")
    raises(ValueError, "", nn.load_safetensors, tmp_path / "text")
