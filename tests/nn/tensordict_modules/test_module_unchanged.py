"""After an error of a TensorDictModule its TensorDict is what it was."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.unchanged import F32, Hit, fail

from lite import TensorDict, nn

Mod, Seq = nn.TensorDictModule, nn.TensorDictSequential


def add(x: Any) -> Any:
    return x + 1


CALLS: dict[str, tuple[Any, type[Exception], str]] = {
    "function": (Mod(fail, ["x"], ["y"]), Hit, "inside"),
    "more results": (Mod(lambda x: (x, x), ["x"], ["y"]), RuntimeError,
        r"more results \(2\) than out_keys"),
    "fewer results": (Mod(add, ["x"], ["y", "z"]), RuntimeError, r"fewer results \(1\) than out_keys"),
    "no result": (Mod(lambda x: None, ["x"], ["y"]), RuntimeError, r"fewer results \(0\) than out_keys"),
    "batch size": (Mod(lambda x: x[:2], ["x"], ["y"]), RuntimeError, "batch dimension mismatch"),
    "second result": (Mod(lambda x: (x, x[:2]), ["x"], ["y", ("n", "z")]), RuntimeError,
        "batch dimension mismatch"),
    "missing key": (Mod(lambda x, q: x + q, ["x", "q"], ["y"]), KeyError, r"inputs are None: \['q'\]"),
    "missing key, strict": (Mod(add, ["q"], ["y"], strict=True), KeyError, "q"),
    "method": (Mod(3, ["x"], ["y"], method="nope"), AttributeError, "nope"),
    "unknown keyword": (lambda td: Mod(add, ["x"], ["y"])(td, q=1), TypeError, "'q'"),
    "more arguments": (lambda td: Mod(add, ["x"], ["y"])(td, 1), ValueError, "got 1 more arguments"),
    "keyword of a sequence": (lambda td: Seq(Mod(add, ["x"], ["y"]))(td, q=1), RuntimeError, "'q'"),
    "selection of a sequence": (Seq(Mod(add, ["x"], ["y"]), Mod(fail, ["y"], ["z"])).select_out_keys("z"),
        Hit, "inside"),
    "other output": (lambda td: Seq(Mod(add, ["x"], ["y"]), Mod(fail, ["y"], ["z"]))(td, TensorDict()),
        Hit, "inside"),
}  # fmt: skip


@each_case(("name", "hooked_too"), itertools.product(CALLS, [False, True]))
def test_tensordicts(name: Any, hooked_too: Any) -> None:
    call, error, match = CALLS[name]
    td = TensorDict({"x": np.ones(3, F32), "n": {"k": np.ones((3, 2))}}, [3])
    before = [(key, value) for key, value in td.items(True, True)]
    if hooked_too and isinstance(call, nn.Module):  # the long way
        with call.register_forward_hook(lambda *args: None), pytest.raises(error, match=match):
            call(td)
    else:
        raises(error, match, call, td)
    after = list(td.items(True, True))
    assert [key for key, _ in after] == [key for key, _ in before]
    assert all(a is b for (_, a), (_, b) in zip(after, before, strict=True))
    np.testing.assert_array_equal(td["x"], np.ones(3, F32))
    assert td.batch_size == (3,)


@each_case("keys", [("q",), ("y", "q"), (["y"],)])
def test_selections_that_fail(keys: Any) -> None:
    module = Mod(lambda x: (x, x), ["x"], ["y", "z"]).select_out_keys("y")
    raises((ValueError, RuntimeError), "", module.select_out_keys, *keys)
    assert module.out_keys == ["y"]
    assert module.out_keys_source == ["y", "z"]
    assert sorted(module(TensorDict(x=np.ones(1))).keys()) == ["x", "y"]


def test_an_entry_that_is_none_is_not_called_missing() -> None:
    with pytest.raises(KeyError, match="the entry 'x' is None, in place of an array"):
        Mod(add, ["x"], ["y"], strict=True)(TensorDict(x=None))
