"""Transforms of TensorDicts on batches of tables."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, TensorDictBase
from lite.data import TokenTransitions, TransformBatches


def frozen(array: Any) -> Any:
    array = np.asarray(array)
    array.setflags(write=False)
    return array


def same(td: TensorDictBase) -> TensorDictBase:
    return td


def test_names_are_nested_keys() -> None:
    seen: list[TensorDictBase] = []

    def look(td: TensorDictBase) -> TensorDictBase:
        seen.append(td)
        return TensorDict({"out": {"sum": td["next", "x"].sum(1), "name": td["name"]}}, td.batch_size)

    x = frozen(np.arange(6.0).reshape(3, 2))
    out = TransformBatches(look)(
        {"id": frozen([4, 5, 6]), "next.x": x, "name": np.array(["a", "b", "c"], object)}
    )
    assert seen[0].batch_size == (3,)
    assert seen[0]["next", "x"] is x
    np.testing.assert_array_equal(out["out.sum"], x.sum(1))
    assert out["out.name"].tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(out["id"], [4, 5, 6])
    slashed = TransformBatches(same, separator="/")({"next/x": x})
    assert list(slashed) == ["next/x"]


def test_lists_of_any_lengths() -> None:
    prompts, responses = [[5, 6], [7]], [[1, 2, 3], [4]]
    log_probs = np.empty(2, object)
    log_probs[:] = [np.array([-1.0, -0.5, -0.25]), np.array([-2.0])]
    batch = {
        "id": np.array([10, 11]), "tokens.prompt": prompts, "tokens.response": responses,
        "log_probs.response": frozen(log_probs), "masks.all_attention_mask": [[True] * 5, [True] * 2],
        "reward": np.array([1.0, 2.0], np.float32),
    }  # fmt: skip
    out = TransformBatches(TokenTransitions())(batch)
    np.testing.assert_array_equal(out["action"], [[1, 2, 3], [4, 0, 0]])
    np.testing.assert_array_equal(out["next.reward"], [[0, 0, 1], [2, 0, 0]])
    np.testing.assert_array_equal(out["collector.mask"], [[1, 1, 1], [1, 0, 0]])
    np.testing.assert_array_equal(out["id"], [10, 11])
    kept = TransformBatches(same)(batch)
    assert kept["tokens.response"].tolist() == responses
    assert kept["log_probs.response"].tolist() == [[-1.0, -0.5, -0.25], [-2.0]]
    np.testing.assert_array_equal(kept["reward"], batch["reward"])
    texts = TransformBatches(same)({**batch, "text": ["a", "b"]})["text"]
    assert list(texts) == ["a", "b"]


def test_objects_stay_objects() -> None:
    batch = {
        "mixed": [1, "a"],
        "none": [None, None],
        "records": [{"a": 1}, {"b": 2}],
        "turns": [["x"], ["y", "z"]],
    }
    out = TransformBatches(same)(batch)
    for name, column in batch.items():
        assert list(out[name]) == column, name


def test_another_number_of_rows() -> None:
    out = TransformBatches(lambda td: td[:1])({"id": [1, 2], "x": np.arange(2)})
    assert len(out["x"]) == len(out["id"]) == 1
    dropped = TransformBatches(lambda td: td.select("x")[:1])({"id": [1, 2], "x": np.arange(2)})
    assert list(dropped) == ["x"]


def test_done_rows_and_no_rows() -> None:
    out = TransformBatches(same, done=[2])({"id": np.array([1, 2, 3]), "x": frozen(np.arange(3))})
    np.testing.assert_array_equal(out["x"], [0, 2])
    none = TransformBatches(same)({"id": np.array([], int), "x": np.zeros((0, 3)), "l": []})
    assert none["x"].shape == (0, 3)


def test_what_a_transform_must_not_give() -> None:
    for transform, error, message in (
        (lambda td: 1, TypeError, "the transform must give a TensorDict, got int"),
        (lambda td: TensorDict({"a": 1}), ValueError, "a batch dimension: its rows"),
    ):
        raises(error, message, TransformBatches(transform), {"x": [1]})


def test_arguments() -> None:
    for given in ({}, {"transform": same, "transform_factory": same}):
        with pytest.raises(TypeError, match="one of transform and transform_factory must be given"):
            TransformBatches(**given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the transform must be callable, got int"):
        TransformBatches(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the columns of a batch must have one length"):
        TransformBatches(same, done=[1])({"id": [1], "x": [1, 2]})
    raises(KeyError, "", TransformBatches(same), {"a": [1], "a.b": [2]})
