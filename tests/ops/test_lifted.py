"""What lazy stacks do in a way of their own."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.trees import unchanged

from lite import TensorDict, lazy_stack


def stack() -> Any:
    """A ragged stack; the second part has a key of its own."""
    return lazy_stack([TensorDict(a=np.ones(1), b=1), TensorDict(a=np.ones(2), b=2, own=3)])


def test_keys_are_removed_from_the_parts_that_have_them() -> None:
    td = stack()
    td.del_("own")
    assert [list(part.keys()) for part in td.tensordicts] == [["a", "b"], ["a", "b"]]
    with unchanged(td.tensordicts[0]), pytest.raises(KeyError, match="own"):
        td.del_("own")


def test_split_keys_gives_a_stack_for_each_set() -> None:
    first, rest = stack().split_keys(["a"])
    assert [part["a"].shape for part in first.tensordicts] == [(1,), (2,)]
    assert [list(part.keys()) for part in rest.tensordicts] == [["b"], ["b", "own"]]
    td = stack()
    with unchanged(td.tensordicts[0]), unchanged(td.tensordicts[1]), pytest.raises(KeyError):
        td.split_keys(["own"], inplace=True)


def test_flatten_keys_refuses_exclusive_keys_and_can_be_undone() -> None:
    raises(RuntimeError, "exclusive keys", lambda: stack().flatten_keys())
    td = lazy_stack([TensorDict({"n": {"a": np.ones(n)}}) for n in (1, 2)])
    with td.flatten_keys() as flat:
        flat.rename_key_("n.a", "n.b")
    assert ("n", "b") in td.tensordicts[0].keys(True)


def test_empty_stays_a_stack_unless_it_gets_another_batch() -> None:
    td = stack().exclude("a", "own")
    assert [part.is_empty() for part in td.empty().tensordicts] == [True, True]
    ragged = lazy_stack([TensorDict(a=np.ones(n)) for n in (1, 2)])
    assert [type(x.empty(batch_size=[7])) for x in (td, ragged)] == [TensorDict, TensorDict]
    nested = lazy_stack([TensorDict(n=TensorDict(a=n)) for n in (1, 2)])
    assert [list(nested.empty(*recurse).keys()) for recurse in ((), (True,))] == [[], ["n"]]


def test_densify_pads_ragged_leaves_on_the_side_asked_for() -> None:
    out = stack().densify(padding_value=-1, padding_side="left")
    assert (out["a"].tolist(), out["b"].tolist()) == ([[-1, 1], [1, 1]], [1, 2])
    assert "own" not in out
