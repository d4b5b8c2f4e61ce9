"""What becomes of the class of a user's own TensorDict."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import each_case

import lite
from lite import LazyStackedTensorDict, TensorDict


class Own(TensorDict):
    """A TensorDict with a class of its own."""


class OwnStack(LazyStackedTensorDict):
    """A lazy stack with a class of its own."""


def _own() -> Own:
    return Own({"x": np.arange(6.0).reshape(3, 2), "n": {"y": np.arange(3.0)}}, [3])


def _nested() -> TensorDict:
    return TensorDict({"n": _own()}, [3])


KEPT: dict[str, Callable[[Any], Any]] = {
    "stack": lambda td: lite.stack([td, td]),
    "Own.stack": lambda td: Own.stack([td, td]),
    "np.stack": lambda td: np.stack([td, td]),
    "cat": lambda td: lite.cat([td, td]),
    "np.concatenate": lambda td: np.concatenate([td, td]),
    "maybe_dense_stack": lambda td: lite.maybe_dense_stack([td, td], 1),
    "dense_stack_tds": lambda td: lite.dense_stack_tds([td, td]),
    "merge_tensordicts": lambda td: lite.merge_tensordicts(td, td),
    "pad_sequence": lambda td: lite.pad_sequence([td, td[:2]]),
    "a node in stack": lambda td: lite.stack([_nested(), _nested()])["n"],
    "a node in cat": lambda td: lite.cat([_nested(), _nested()])["n"],
    "a node in maybe_dense_stack": lambda td: lite.maybe_dense_stack([_nested(), _nested()])["n"],
    "part of lazy_stack": lambda td: lite.lazy_stack([td, td])[0],
    "clone": lambda td: td.clone(),
    "td[0]": lambda td: td[0],
    "td[:2]": lambda td: td[:2],
    "td[[0, 1]]": lambda td: td[[0, 1]],
    "td[mask]": lambda td: td[np.array([True, False, True])],
    "td[None]": lambda td: td[None],
    "apply": lambda td: td.apply(np.negative),
    "td + 1": lambda td: td + 1,
    "sum": lambda td: td.sum(0),
    "reshape": lambda td: td.reshape(1, 3),
    "expand": lambda td: td.expand(2, 3),
    "split": lambda td: td.split(2)[0],
    "unbind": lambda td: td.unbind(0)[0],
    "gather": lambda td: td.gather(0, np.array([0, 2])),
    "pad": lambda td: td.pad([0, 1]),
    "where": lambda td: td.where(np.array([True, False, True]), 0),
    "select": lambda td: td.select("x"),
    "empty": lambda td: td.empty(),
    "new_zeros": lambda td: td.new_zeros(4),
    "float": lambda td: td.float(),
    "vmap": lambda td: lite.vmap(lambda row: row + 1)(td),
    "pickle": lambda td: pickle.loads(pickle.dumps(td)),
    "deepcopy": copy.deepcopy,
}


@each_case("action", KEPT.values(), ids=KEPT)
def test_results_have_the_class(action: Callable[[Any], Any]) -> None:
    assert type(action(_own())) is Own


def test_of_several_classes_the_first_is_taken() -> None:
    plain = TensorDict({"x": np.zeros((3, 2)), "n": {"y": np.zeros(3)}}, [3])
    for join in (lite.stack, lite.cat, lite.maybe_dense_stack):
        assert type(join([_own(), plain])) is Own
        assert type(join([plain, _own()])) is TensorDict


def test_nodes_made_of_mappings_are_plain() -> None:
    td = _own()
    td["m"] = {"z": np.zeros(3)}
    assert (type(td["n"]), type(td["m"])) == (TensorDict, TensorDict)
    assert type(td.to_tensordict()) is TensorDict
    assert type(_nested().to_tensordict()["n"]) is TensorDict
    assert type(Own.from_dict({"x": np.zeros(3)})) is Own


def test_lazy_stacks_of_a_class() -> None:
    td = OwnStack(_own(), _own())
    for out in (lite.cat([td, td]), lite.cat([td, td], 1), td.clone(), td + 1, td[:1], td.apply(np.negative)):
        assert type(out) is OwnStack
    made = OwnStack.from_dict([{"x": np.zeros(1)}, {"x": np.zeros(2)}], stack_dim_name="rows")
    assert type(made) is OwnStack
    assert made.names == ["rows"]
    plain = LazyStackedTensorDict(_own(), _own())
    for dim in (0, 1):
        assert type(lite.cat([td, plain], dim)) is OwnStack
        assert type(lite.cat([plain, td], dim)) is LazyStackedTensorDict
    assert type(td[0]) is Own
    assert type(td["n"].tensordicts[0]) is TensorDict
