"""Whether recurrent modules are given single steps or sequences."""

import pytest
from helpers.cases import each_case

from lite.nn import recurrent_mode, set_recurrent_mode


@each_case(
    ("mode", "expected"),
    [(True, True), (False, False), (None, None), ("recurrent", True), ("sequential", False)],
)
def test_modes(mode: bool | str | None, expected: bool | None) -> None:
    with set_recurrent_mode(True), set_recurrent_mode(mode):
        assert recurrent_mode() is expected
    assert recurrent_mode() is None


def test_decorator_and_errors() -> None:
    assert set_recurrent_mode("recurrent")(recurrent_mode)() is True
    for wrong in ("both", 3):
        with pytest.raises(ValueError, match="mode must be a bool, None, 'recurrent' or 'sequential', got"):
            set_recurrent_mode(wrong)  # type: ignore[arg-type]
