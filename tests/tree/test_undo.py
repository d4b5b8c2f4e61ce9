"""`with td.view(...) as v:`: what is written back, and when nothing is."""

import gc

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import LazyStackedTensorDict, TensorDict, lazy_stack

OPERATIONS = {
    "transpose": lambda td: td.transpose(0, 1),
    "swapaxes": lambda td: td.swapaxes(0, 1),
    "permute": lambda td: td.permute(1, 0),
    "movedim": lambda td: td.movedim(0, 1),
    "view": lambda td: td.view(6),
    "view 2d": lambda td: td.view(3, 2),
    "flatten": lambda td: td.flatten(0, 1),
    "unflatten": lambda td: td.unflatten(1, (3, 1)),
    "unsqueeze": lambda td: td.unsqueeze(1),
    "squeeze": lambda td: td.unsqueeze(0).squeeze(0),
    "flip": lambda td: td.flip(0),
    "fliplr": lambda td: td.fliplr(),
    "flipud": lambda td: td.flipud(),
    "roll": lambda td: td.roll(1, 0),
    "roll all": lambda td: td.roll(1),
    "roll two": lambda td: td.roll((1, 2), (0, 1)),
    "rot90": lambda td: td.rot90(),
    "rot90 3": lambda td: td.rot90(3),
    "atleast_3d": lambda td: td.atleast_3d(),
    "flatten_keys": lambda td: td.flatten_keys("."),
    "to device": lambda td: td.to("cpu"),
    "to dtype": lambda td: td.to(np.float32),
}
REACHED = [name for name in OPERATIONS if name != "squeeze"]


def source() -> TensorDict:
    return TensorDict(
        {"a": np.arange(6.0).reshape(2, 3), "n": {"b": np.arange(6).reshape(2, 3, 1)}, "s": "x"},
        batch_size=[2, 3],
        names=["t", "u"],
    )


@each_case("name", REACHED)
def test_new_and_changed_entries_reach_the_source(name):
    td, before = source(), source()
    with OPERATIONS[name](td) as form:
        form["z"] = form["a"] + 1
        form.set("a", form["a"] * 2)
    np.testing.assert_array_equal(td["a"], before["a"] * 2)
    np.testing.assert_array_equal(td["z"], before["a"] + 1)
    assert (td["a"].dtype, td.batch_size, td.names) == (np.float64, (2, 3), ["t", "u"])
    np.testing.assert_array_equal(td["n", "b"], before["n", "b"])
    assert td["n", "b"].dtype == before["n", "b"].dtype


@each_case("name", REACHED)
def test_a_locked_source_gets_values_in_its_arrays(name):
    td, before = source().lock_(), source()
    array = td["a"]
    with OPERATIONS[name](td) as form:
        locked = form.is_locked
        form.apply_(lambda x: x * 2)
    assert (td.is_locked, form.is_locked) == (True, locked)
    assert td["a"] is array
    np.testing.assert_array_equal(td["a"], before["a"] * 2)


@each_case("name", REACHED)
def test_nothing_is_written_when_the_body_raises(name):
    td = source()

    def body() -> None:
        with OPERATIONS[name](td) as form:
            form["z"] = form["a"]
            raise ZeroDivisionError

    raises(ZeroDivisionError, "", body)
    assert "z" not in td


def test_unflatten_keys():
    td = TensorDict({"n.a": 1, "b": 2})
    with td.unflatten_keys(".") as nested:
        nested["n", "c"] = 3
    assert set(td.keys()) == {"n.a", "b", "n.c"}


@pytest.mark.usefixtures("only_new_garbage")
def test_results_do_not_keep_their_source():
    td = source()
    form = td.roll(1, 0)
    kept = form._origin[0]
    del td
    gc.collect()
    assert kept() is None
    with form:
        form["z"] = np.ones((2, 3))


@each_case("name", ["transpose", "flatten", "view", "unsqueeze", "flatten_keys", "rot90"])
def test_lazy_stacks_stay_lazy(name):
    td = lazy_stack([TensorDict(a=np.ones(3) * i, batch_size=[3]) for i in range(2)])
    with OPERATIONS[name](td) as form:
        form.set("b", form["a"] + 1)
    assert isinstance(td, LazyStackedTensorDict)
    np.testing.assert_array_equal(td["b"], td["a"] + 1)


def test_another_batch_size_cannot_be_written_back():
    td = source()

    def body() -> None:
        with td.view(6) as form:
            form.batch_size = []
            form["z"] = np.ones(2)

    raises(RuntimeError, "batch size changed", body)
    assert "z" not in td
