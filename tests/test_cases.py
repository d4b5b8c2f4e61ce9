"""Tests that loop over their cases run each of them, apart from the others, and say which one fails; those
that hang are noticed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import hanging
from helpers.cases import each_case, raises
from helpers.compared import assert_same

from lite import TensorDict, lazy_stack


def test_every_case_runs_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @each_case("x", [1, 2])
    @each_case(("a", "b"), [("p", 3), ("q", 4)])
    def body(x: int, a: str, b: int, tmp_path: Path, monkeypatch: Any, rng: Any) -> None:
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "file").touch()
        assert not hasattr(np, "patched")
        monkeypatch.setattr(np, "patched", True, raising=False)
        seen.append((x, a, b, rng.integers(1000)))

    rng = np.random.default_rng(0)
    body(tmp_path=tmp_path, monkeypatch=monkeypatch, rng=rng)
    number = rng.integers(1000)
    assert seen == [(x, a, b, number) for x in (1, 2) for a, b in (("p", 3), ("q", 4))]


@pytest.mark.parametrize(
    ("ids", "note"), [(None, "case: 1, {'x': 2}"), ({"one": 0, "two": 0}, "case: 1, 'two'")]
)
def test_the_case_that_fails_is_named(ids: Any, note: str) -> None:
    @each_case("x", [1, 2, 3], ids=ids)
    def body(x: int) -> None:
        assert x != 2

    with pytest.raises(AssertionError) as raised:
        body()
    assert raised.value.__notes__ == [note]


def test_a_case_that_is_skipped_skips_the_test_at_its_end() -> None:
    seen = []

    @each_case("x", [1, 2, 3])
    def body(x: int) -> None:
        seen.append(x)
        if x == 2:
            pytest.skip("lacks a package")

    raises(pytest.skip.Exception, "lacks", body)
    assert seen == [1, 2, 3]


def test_a_call_raises_what_is_expected() -> None:
    raises(ValueError, "invalid literal", int, "x", base=10)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        raises(ValueError, "", dict)
    with pytest.raises(AssertionError, match="Regex pattern did not match"):
        raises(ValueError, "another", lambda: int("x"))


def test_the_time_of_a_test_is_counted(monkeypatch, request):
    """From its start or a little before; anew where pytest stopped."""
    counted: list[float] = []
    now = 0.0
    later = SimpleNamespace(dump_traceback_later=lambda seconds, **_: counted.append(now + seconds))
    monkeypatch.setattr(hanging, "faulthandler", later)
    monkeypatch.setattr(hanging, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(hanging, "_begun", -hanging._APART)
    for now, begins in ((0.0, 1), (59.0, 1), (60.0, 2), (119.0, 2), (500.0, 3), (501.0, 3)):
        hanging.pytest_runtest_protocol(request.node)
        assert len(counted) == begins
        assert hanging.LONGEST <= counted[-1] - now <= hanging.LONGEST + 60
    hanging.pytest_exception_interact()
    hanging.pytest_runtest_protocol(request.node)
    assert len(counted) == 4


X = np.arange(3.0)


@each_case(
    "other",
    [
        TensorDict(a=X, t="x", n=TensorDict(b=X)),
        TensorDict(a=X, t="y", n=TensorDict(b=X, batch_size=[3])),
        TensorDict(a=X, n=TensorDict(b=X, batch_size=[3])),
        TensorDict(a=X, t="x", n=TensorDict(b=X, batch_size=[3]), m=TensorDict()),
        TensorDict(a=X, t="x", n=TensorDict(b=X, batch_size=[3], names=["time"])),
        TensorDict(a=np.float64(0), t="x", n=TensorDict(b=X, batch_size=[3])),
        TensorDict(a=X.astype("f4"), t="x", n=TensorDict(b=X, batch_size=[3])),
    ],
)
def test_trees_that_differ_are_not_the_same(other: TensorDict) -> None:
    td = TensorDict(a=X, t="x", n=TensorDict(b=X, batch_size=[3]))
    assert_same([td, lazy_stack([td, td])], [td.clone(), lazy_stack([td, td]).contiguous()], strict=True)
    for options in ({}, {"atol": 9.0}):
        for one, two in ((td, other), (other, td)):
            raises(AssertionError, "", assert_same, [one, one], [one, two], strict=True, **options)
    raises(ValueError, "argument", assert_same, [td], [td, td])
    raises(AssertionError, "", assert_same, [X * 0], [0.0])
