"""Masked arrays are refused, by an error that names the entry, and nothing is changed."""

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case, raises

from lite import TensorDict, lazy_stack

MASKED = np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0])  # type: ignore[no-untyped-call]
PLAIN = np.arange(3.0)


def held() -> TensorDict:
    return TensorDict(a=np.zeros(3), n={"b": np.zeros(3)}, batch_size=[3])


def at(td: Any, index: Any, value: Any) -> None:
    td[index] = value


@each_case(
    ("write", "name"),
    [
        (lambda td: TensorDict(a=MASKED, batch_size=[3]), "'a'"),
        (lambda td: TensorDict({"n": {"b": MASKED}}), r"\('n', 'b'\)"),
        (lambda td: TensorDict(a=[MASKED, MASKED]), "'a'"),
        (lambda td: TensorDict(a=[[MASKED], [MASKED]]), "'a'"),
        (lambda td: TensorDict(a=MASKED.astype(str)), "'a'"),
        (lambda td: TensorDict.from_dict({"a": MASKED}), "'a'"),
        (lambda td: TensorDict.from_any(MASKED.astype([("a", float)])), "'a'"),
        (lambda td: td.set("a", MASKED), "'a'"),
        (lambda td: td.set(("n", "b"), MASKED), "'b'"),
        (lambda td: td.update({"c": PLAIN, "a": MASKED}), "'a'"),
        (lambda td: at(td, "a", MASKED), "'a'"),
        (lambda td: at(td, slice(3), {"a": PLAIN, "n": {"b": MASKED}}), "'b'"),
        (lambda td: at(td, slice(3), MASKED), "the value is"),
        (lambda td: td.set_at_("a", MASKED, slice(3)), "the value is"),
        (lambda td: td + MASKED, "the value is"),
        (lambda td: td.apply(lambda x: MASKED), "of '[ab]'"),
    ],
)
def test_masked_arrays_are_refused(write: Callable[[Any], Any], name: str) -> None:
    td = held()
    raises(TypeError, f"{name}.*masked array, whose mask would be lost", write, td)
    assert set(td.keys(True, True)) == {"a", ("n", "b")}
    np.testing.assert_array_equal(td["a"], np.zeros(3))
    np.testing.assert_array_equal(td["n", "b"], np.zeros(3))


def test_lazy_stacks() -> None:
    stacked = lazy_stack([TensorDict(a=np.zeros(3)) for _ in range(2)])
    both = np.ma.stack([MASKED, MASKED])
    for write in (
        lambda: stacked.set("a", both),
        lambda: stacked.set("a", [MASKED, MASKED]),
        lambda: at(stacked, slice(2), {"a": both}),
    ):
        raises(TypeError, "masked array", write)
        np.testing.assert_array_equal(stacked["a"], np.zeros((2, 3)))
