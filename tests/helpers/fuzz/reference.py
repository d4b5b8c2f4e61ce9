"""tensordict as a side of random programs, and the differences from it that are meant."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.fuzz.choices import SIZES
from helpers.fuzz.model import Mismatch, compare, has_rows
from helpers.fuzz.programs import Outcome, Program
from helpers.fuzz.register import Call
from helpers.fuzz.sides import LITE, MODEL, Library

torch = pytest.importorskip("torch", reason="needs the parity extra")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra")


class Reference(Library):
    """tensordict, with its tensors read as arrays."""

    def value(self, given: Any, variables: list[Any]) -> Any:
        if isinstance(given, np.ndarray) and given.dtype == object:
            return tensordict.NonTensorStack.from_list(given.tolist())
        return super().value(given, variables)

    def read(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().numpy()
        if isinstance(value, torch.Size):
            return list(value)
        return super().read(value)

    def run(self, name: str, td: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if "dtype" in kwargs:
            kwargs["dtype"] = getattr(torch, kwargs["dtype"])
        found = super().run(name, td, args, kwargs)
        if isinstance(
            found,
            torch.return_types.max
            | torch.return_types.min
            | torch.return_types.cummax
            | torch.return_types.cummin,
        ):
            return tuple(found[0]) if isinstance(found[0], tuple) else tuple(found)
        return found


TORCH = Reference(tensordict, torch.from_numpy)


class Compared(Program):
    """A program that runs on tensordict as well."""

    sides = (MODEL, LITE, TORCH)

    def __init__(self, start: bytes) -> None:
        self.compared = 0
        self.rule = ""
        super().__init__(start, [size for size in SIZES if 0 not in size])

    def check_others(self, call: Call, at: int, outcomes: list[Outcome]) -> None:
        lazy = has_rows(self.variables[0][at])
        got, expected = outcomes[1:]
        try:
            if (got.error is None) != (expected.error is None):
                raise Mismatch("error", "", got, expected)
            if got.error is None:
                compare(LITE.read(got.value), self._read(expected.value), by_element=lazy)
            for i, (ours, theirs) in enumerate(zip(*self.variables[1:], strict=True)):
                compare(
                    LITE.read(ours), self._read(theirs), f"v{i}", by_element=has_rows(self.variables[0][i])
                )
        except Mismatch:
            self.ended = True
            raise
        self.compared += 1

    def _read(self, value: Any) -> Any:
        try:
            return TORCH.read(value)
        except Exception as error:
            raise Mismatch("unreadable", "", "", error) from error
