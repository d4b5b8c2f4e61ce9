"""Arguments of a saved step that lack entries, or have others beside them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

import lite
from lite import TensorDict


def frames(n: int) -> Any:
    """Entries that `learn` does not read stand before, between and behind those that it does."""
    info = TensorDict(id=np.arange(n), of=TensorDict(z=np.zeros(n), batch_size=n), batch_size=n)
    following = TensorDict(mode=np.zeros((n, 1), np.int64), reward=np.full((n, 1), 2.0), batch_size=n)
    return TensorDict(
        step=np.arange(n), x=np.full((n, 3), 3.0), info=info, next=following, td_error=np.zeros(n),
        batch_size=n,
    )  # fmt: skip


def learn(batch: Any, w: Any) -> Any:
    error = batch["x"] @ w - batch["next", "reward"][:, 0]
    batch["td_error"] = error
    return error.sum() / batch["step"].shape[0]


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("steps") / "step.onnx"
    return lite.load_step(lite.jit(learn).lower(frames(4), np.ones(3)).save(file))


def test_entries_that_nothing_reads_may_be_missing_or_others(step: Any) -> None:
    for n in (4, 6):
        bare = frames(n).select("x", ("next", "reward"))
        np.testing.assert_allclose(step(bare, np.ones(3)), 7)
        np.testing.assert_array_equal(bare["td_error"], np.full(n, 7.0))
        np.testing.assert_allclose(step(bare, np.ones(3)), 7)  # with what the first call set
        assert set(bare.keys()) == {"x", "next", "td_error"}
    other = frames(4).set("step", np.zeros((4, 2))).set("info", np.zeros(4))
    np.testing.assert_allclose(step(other.exclude(("next", "mode")), np.ones(3)), 7)
    assert set(other.keys()) == set(frames(4).keys())


def test_an_error_names_the_entries(step: Any) -> None:
    with pytest.raises(ValueError, match=r"It lacks \['x', \('next', 'reward'\)\]\.$"):
        step(frames(4).exclude("x", ("next", "reward"), "step"), np.ones(3))
    with pytest.raises(ValueError, match=r"It has \['stamp', \('next', 'x'\)\] beside them: exclude"):
        step(frames(4).set("stamp", np.zeros(4)).set(("next", "x"), np.zeros(4)), np.ones(3))
    with pytest.raises(ValueError, match=r"batch\['next', 'reward'\] must be float64 .*, got int64"):
        step(frames(4).set(("next", "reward"), np.zeros((4, 1), np.int64)), np.ones(3))
    assert repr(step) == "Step(learn(batch: TensorDict(x, next), w: array))"  # what it reads


def test_what_is_given_back_or_written_is_not_left_out(tmp_path: Path) -> None:
    def give(other: Any, td: Any) -> Any:
        td["of", "y"] = td["x"] + 1
        td["flat"][...] = 0
        return td["info"], (td["x"] + other["x"]).sum()

    def given() -> Any:
        of, info = TensorDict(w=np.ones(2)), TensorDict(id=np.ones(2))
        return TensorDict(x=np.ones(2), of=of, info=info, flat=np.ones(2), more=np.ones(2))

    first = TensorDict(x=np.ones(2), of=TensorDict(w=np.ones(2)))
    step = lite.load_step(lite.jit(give).lower(first, given()).save(tmp_path / "give.onnx"))
    td = given().exclude("more", ("of", "w"), ("info", "id"))
    info, total = step(first.select("x"), td)
    assert info is td["info"]
    assert total == 4
    np.testing.assert_array_equal(td["of", "y"], [2, 2])
    np.testing.assert_array_equal(td["flat"], [0, 0])
    for key in ("of", "info", "flat"):
        raises(ValueError, rf"It lacks \['{key}'\]", step, first, given().exclude(key))
