"""What is written to an entry of a lazy stack reaches its parts."""

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.lazy_stacks import ragged

from lite import TensorDict, lazy_stack


def test_set_in_place_keeps_the_buffers():
    ls = lazy_stack([TensorDict(a=np.zeros(2)), TensorDict(a=np.zeros(2))])
    buffer = ls[1]["a"]
    ls.lock_()
    ls.set_("a", np.arange(4).reshape(2, 2))
    np.testing.assert_array_equal(buffer, [2, 3])
    ls.set_at_("a", 7, (slice(None), 0))
    np.testing.assert_array_equal(buffer, [7, 3])
    raises(KeyError, "missing", lambda: ls.set_("missing", 1))


def test_entries_of_different_kinds_fail_only_when_read():
    for left, right in [(1, "text"), ("text", 1), ({"x": 1}, 1), (1, {"x": 1})]:
        ls = lazy_stack([TensorDict(a=left, b=1), TensorDict(a=right, b=2)])
        assert list(ls.keys(True)) == ["a", "b"]
        assert "a: " in repr(ls)
        with pytest.raises(RuntimeError, match="at key 'a' to read from a lazy stack are of different kinds"):
            ls["a"]
        assert ls["b"].tolist() == [1, 2]
        assert len(ls.get("b", as_list=True)) == 2


def test_exclusive_keys_cannot_be_set_in_place_or_selected():
    ls = lazy_stack([TensorDict(a=1, only=1), TensorDict(a=2)])
    for call in (lambda: ls.set_("only", [1, 2]), lambda: ls.select("only"), lambda: ls.pop("only")):
        raises(KeyError, "only", call)
    raises(KeyError, "only", lambda: ls.rename_key_("only", "x"))
    assert list(ls.select("a", "only", strict=False).keys()) == ["a"]
    assert ls.del_("only") is ls
    assert "only" not in ls[0]
    raises(KeyError, "only", lambda: ls.del_("only"))


@each_case("method", ["to_dict", "flatten_keys", "unflatten_keys"])
def test_methods_that_need_common_keys(method):
    ls = lazy_stack([TensorDict(a=1, only=1), TensorDict(a=2)])
    raises(RuntimeError, f"{method} cannot complete when there are exclusive keys", getattr(ls, method))


def test_update_goes_part_by_part():
    ls, other = ragged(1, 2), ragged(3, 4)
    ls.update(other)
    assert [len(row) for row in ls.get("a", as_list=True)] == [3, 4]
    ls.update_(ragged(3, 4).select("a"))
    raises(RuntimeError, "update_batch_size", lambda: ls.update(ragged(1, 2, 3)))
    raises(ValueError, "different shapes", lambda: ls.update_(ragged(1, 2, 3)))
    ls.update({"b": np.zeros((2, 5))})
    assert ls["b"].shape == (2, 5)
    ls.update_(other := ragged(3, 4).select("a"))
    assert ls[1]["a"].tolist() == other[1]["a"].tolist()
    td = TensorDict({"rows": ragged(1, 2)}, batch_size=[2])
    td.update_(td.clone() * 2)
    assert td["rows"][1]["a"].tolist() == [20, 22]
    raises(ValueError, r"Failed to update \('rows', 'a'\)", lambda: td.update_({"rows": ragged(2, 1)}))
    assert td["rows"][1]["a"].tolist() == [20, 22]
    td.update({"rows": {"z": np.arange(2)}})
    assert td["rows"][1]["z"] == 1
