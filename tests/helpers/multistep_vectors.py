"""The vectors of `MultiStep` and `MultiStepTransform`, made by torchrl, and comparison with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from lite import TensorDict, TensorDictBase

FILE = Path(__file__).parents[1] / "vectors" / "multistep_vectors.json"


def cases(kind: str) -> list[Any]:
    """The cases of a class."""
    return [case for case in json.loads(FILE.read_text())["cases"] if case["kind"] == kind]


def as_key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def build(entries: list[Any], batch_size: list[int]) -> TensorDict:
    td = TensorDict({}, batch_size=batch_size)
    for entry in entries:
        array = np.array(entry["data"], dtype=entry["dtype"]).reshape(entry["shape"])
        td.set(tuple(entry["key"]), array)
    return td


def assert_entries(td: TensorDictBase, expected: list[Any]) -> None:
    """Keys, shapes, types and values of `td` are those of the file, floats within 1e-5."""
    values = {tuple(entry["key"]): entry for entry in expected}
    assert {key if isinstance(key, tuple) else (key,) for key in td.keys(True, True)} == set(values)
    for key, entry in values.items():
        got, value = td.get(key), np.array(entry["data"], dtype=entry["dtype"]).reshape(entry["shape"])
        assert (got.dtype, got.shape) == (value.dtype, value.shape), key
        if value.dtype.kind == "f":
            np.testing.assert_allclose(got, value, rtol=1e-5, atol=1e-5, err_msg=str(key))
        else:
            np.testing.assert_array_equal(got, value, err_msg=str(key))
