"""`default_spec` of the data classes."""

from typing import Any

import numpy as np
from helpers.cases import raises

from lite import lazy_stack
from lite.data import NonTensor, Unbounded
from lite.models import ChatHistory, History, LogProbs, Masks, Text, Tokens

CLASSES = [Text, Tokens, Masks, LogProbs, ChatHistory, History]
TURN = {"role": "user", "content": "a message"}


def test_what_a_spec_makes_is_in_it() -> None:
    cases: list[tuple[int, ...]] = [(-1,), (3,), (2, -1), (2, 3), ()]
    for cls in CLASSES:
        for shape in cases:
            spec = cls.default_spec(shape)
            assert spec.shape == shape[:-1], shape
            for value in (spec.zero(), spec.rand(rng=0), spec.zero((2,))):
                assert isinstance(value, cls), shape
                assert spec.is_in(value), shape
            assert spec.zero((2,)).batch_size == (2, *spec.zero().batch_size), shape
            assert cls.default_spec() == cls.default_spec((-1,)) == cls.default_spec(-1), shape


def test_arrays_are_ragged_and_of_the_class_s_dtype() -> None:
    cases: list[tuple[Any, Any]] = [(Tokens, np.int64), (Masks, np.bool_), (LogProbs, np.float32)]
    for cls, dtype in cases:
        spec = cls.default_spec((4,))
        for name in spec:
            expected = (
                NonTensor((4,), example_data=False) if name == "padded" else Unbounded((4, -1), dtype=dtype)
            )
            assert spec[name] == expected, cls
        some = list(spec)[:1]
        assert list(cls.default_spec((4,), keys=some)) == [*some, "padded"], cls


def test_rows() -> None:
    rows = [Tokens(full=np.arange(n), padded=False) for n in (2, 4)]
    spec = Tokens.default_spec((2,), keys=["full"])
    assert spec.is_in(lazy_stack(rows))
    assert not spec.is_in(lazy_stack(rows[:1]))
    assert spec.is_in(Tokens(full=np.zeros((2, 3), np.int64), padded=True, batch_size=[2]))
    assert not spec.is_in(Tokens(full=np.zeros((2, 3), np.float32), padded=True, batch_size=[2]))
    assert not spec.is_in(Masks())
    assert not Tokens.default_spec((2,)).is_in(lazy_stack(rows))  # there is no prompt
    assert Tokens.default_spec((), keys=["full"]).is_in(rows[0])
    assert Tokens.default_spec((), keys=["full"]).is_in(rows[0].to_tensordict()) is False


def test_projecting() -> None:
    spec = Tokens.default_spec((2,), keys=["full"])
    tokens = Tokens(full=np.ones((2, 3)), padded=True, batch_size=[2])
    assert spec.project(tokens) is tokens
    assert spec.is_in(tokens)
    np.testing.assert_array_equal(tokens.full, np.ones((2, 3), np.int64))
    raises(KeyError, "prompt", Tokens.default_spec((2,)).project, tokens)
    raises(TypeError, "Tokens", spec.project, Masks())


def test_history() -> None:
    history = History(role=["system", "user"], content=["a message", "another message"], batch_size=(2,))
    spec = history.default_spec()
    made = spec.zero()
    assert isinstance(made, History)
    assert spec.is_in(made)
    assert spec.is_in(history)
    assert list(spec) == ["role", "content", "is_complete", "tool_calls", "tool_responses"]
    assert made.is_complete is True
    assert made.role is None
    batch = History.from_chats([[TURN], [TURN, TURN]])
    assert batch.default_spec((2, -1)).is_in(batch)
    assert History.default_spec((2, -1)).shape == (2,)
    chat = ChatHistory(full=batch, batch_size=[2])
    assert ChatHistory.default_spec((2,), keys=["full"]).is_in(chat)
    assert not ChatHistory.default_spec((2,)).is_in(chat)
    assert ChatHistory.default_spec((2,))["prompt"] == History.default_spec((2, -1))


def test_unknown_keys() -> None:
    for cls in CLASSES[:-1]:
        for keys in (["prompt", "middle"], "prompt"):
            raises(ValueError, "keys", cls.default_spec, keys=keys)
        assert list(cls.default_spec(keys=[])) in ([], ["padded"]), cls
