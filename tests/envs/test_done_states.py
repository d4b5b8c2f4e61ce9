"""Done entries at every level."""

import numpy as np
import pytest

from lite import TensorDict
from lite.data import Categorical, Composite
from lite.envs import terminated_or_truncated
from lite.envs.done_states import DoneStates, update_where_reset

FLAG = Categorical(2, (1,), dtype=np.bool_)
YES, NO = np.ones(1, np.bool_), np.zeros(1, np.bool_)


def test_missing_entries():
    for given, wanted in (
        ({"done": YES}, (True, True, False)),
        ({"terminated": YES}, (True, True, False)),
        ({"terminated": NO, "truncated": YES}, (True, False, True)),
        ({}, (False, False, False)),
        ({"done": np.ones((), np.bool_)}, (True, True, False)),
    ):
        td = TensorDict(dict(given))
        DoneStates.of_spec(Composite(done=FLAG, terminated=FLAG, truncated=FLAG)).complete(td)
        assert tuple(bool(td[name]) for name in ("done", "terminated", "truncated")) == wanted
        assert {value.shape for value in td.values()} == {(1,)}
        steps = TensorDict({name: value.reshape(1, -1)[[0, 0]] for name, value in given.items()}, [2])
        DoneStates.of_spec(Composite(done=FLAG, terminated=FLAG, truncated=FLAG)).complete(steps)
        assert {value.shape for value in steps.values()} == {(2, 1)}


def test_terminated_cannot_be_guessed():
    td = TensorDict(done=YES, truncated=YES)
    with pytest.raises(RuntimeError, match="terminated"):
        DoneStates.of_spec(Composite(done=FLAG, terminated=FLAG, truncated=FLAG)).complete(td)


def test_the_root_holds_for_what_is_below():
    agents = TensorDict({"done": np.array([[True], [False]])}, [2])
    td = TensorDict(agents=agents, done=NO)
    assert not terminated_or_truncated(td)
    assert "_reset" not in td
    assert terminated_or_truncated(td.exclude("done"))
    np.testing.assert_array_equal(td["agents", "_reset"].ravel(), [True, False])
    assert not terminated_or_truncated(td, write_full_false=True)
    np.testing.assert_array_equal(td["_reset"], [False])
    assert terminated_or_truncated(td.exclude("done"), key=None)


def test_what_a_reset_gives_goes_where_it_was_asked_for():
    td = TensorDict({"x": np.zeros((2, 3)), "_reset": np.array([[True], [False]]), "kept": np.ones(2)}, [2])
    given = TensorDict({"x": np.ones((2, 3)), "new": np.ones(2), "done": np.array([[False], [True]])}, [2])
    out = update_where_reset(td, given, ["_reset"])
    assert out is td
    np.testing.assert_array_equal(td["x"][:, 0], [1.0, 0.0])
    np.testing.assert_array_equal(td["new"], [1.0, 0.0])
    np.testing.assert_array_equal(td["done"], np.zeros((2, 1), np.bool_), strict=True)
    assert "_reset" not in td
    td["_reset"] = np.array([[False, False], [False, True]])  # an entry with several flags for each
    np.testing.assert_array_equal(update_where_reset(td, given * 2, ["_reset"])["x"][:, 0], [1.0, 2.0])
