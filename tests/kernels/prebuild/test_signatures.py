"""What libraries are compiled for is what the public functions call kernels with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.kernels.every_call import ENTRIES, answer, call_everything

from lite.kernels.prebuild.signatures import SIGNATURES

_LETTERS = {
    "bool": "?", "float32": "f", "float64": "d", "int32": "i", "int64": "q", "uint64": "Q", "uint16": "H",
    "uint8": "B",
}  # fmt: skip


def described(value: Any) -> str:
    """The type of an argument, as signatures have it."""
    if isinstance(value, tuple):
        return f"({' '.join(map(described, value))})"
    if value is None:
        return "-"
    if isinstance(value, np.ndarray):
        assert all((value.flags.c_contiguous, value.flags.writeable, value.dtype.isnative))
        return f"{_LETTERS[value.dtype.name]}[{',' * (value.ndim - 1)}]"
    if isinstance(value, np.generic):
        return _LETTERS[value.dtype.name]
    return {bool: "?", int: "q", float: "d"}[type(value)]


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """What each kernel is called with; nothing is computed."""
    seen: dict[str, set[str]] = {}

    def watch(module: Any, name: str) -> None:
        entry = f"{module.__name__.rpartition('.')[2]}.{name}"

        def record(*args: Any) -> Any:
            seen.setdefault(entry, set()).add(" ".join(map(described, args)))
            return answer(module, args)

        monkeypatch.setattr(module, name, record)

    for module, name in ENTRIES:
        watch(module, name)
    return seen


def test_public_functions_meet_all_signatures_and_no_others(met: dict[str, set[str]]) -> None:
    call_everything()
    assert met == {name: set(signatures) for name, signatures in SIGNATURES.items()}


def test_no_signature_is_listed_twice() -> None:
    for name, signatures in SIGNATURES.items():
        assert len(set(signatures)) == len(signatures), name
