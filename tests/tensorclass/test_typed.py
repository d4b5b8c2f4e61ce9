"""TypedTensorDict: entries declared as annotations, in front of any container."""

from __future__ import annotations

import copy
import pickle
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NotRequired

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import (
    LazyStackedTensorDict,
    TensorDict,
    TypedTensorDict,
    cat,
    lazy_stack,
    load,
    load_memmap,
    maybe_dense_stack,
    stack,
)


class State(TypedTensorDict):
    eta: np.ndarray
    X: np.ndarray
    noise: NotRequired[np.ndarray]
    count: ClassVar[int] = 3
    _private: int

    def total(self) -> float:
        return float(self.eta.sum())


class Observed(State):
    y: np.ndarray


class Named:
    """What a class may have beside its fields."""

    label: str


class Mixed(Named, State["frozen"]):
    z: Missing  # type: ignore[name-defined]  # noqa: F821  a name that only type checkers see
    w: typing.NotRequired[Missing]  # type: ignore[name-defined]  # noqa: F821


def make(n: int = 4) -> State:
    eta = np.arange(n * 3.0).reshape(n, 3)
    eta.setflags(write=False)
    return State(eta=eta, X=np.ones((n, 2)), batch_size=[n])


def test_fields_are_those_of_the_class_and_its_bases() -> None:
    assert State.__required_keys__ == {"eta", "X"}
    assert State.__optional_keys__ == {"noise"}
    assert Observed.__expected_keys__ == {"eta", "X", "noise", "y"}
    assert Observed.__required_keys__ == {"eta", "X", "y"}
    assert Mixed.__required_keys__ == {"eta", "X", "z"}
    assert Mixed.__optional_keys__ == {"noise", "w"}

    class Needed(State):
        noise: np.ndarray

    assert Needed.__required_keys__ == {"eta", "X", "noise"}


T = typing.TypeVar("T")


class Box(TypedTensorDict, typing.Generic[T]):
    content: T


def test_generic_classes() -> None:
    assert Box.__required_keys__ == {"content"}
    assert type(Box(content=np.ones(2), batch_size=[2])[0]) is Box
    raises(ValueError, "Unknown TypedTensorDict option", lambda: Box[int])


def test_constructor_says_what_is_wrong() -> None:
    raises(TypeError, r"Observed\(\) missing required field\(s\): X, y", lambda: Observed(eta=np.zeros(3)))
    raises(TypeError, r"State\(\) got unexpected field\(s\): q", lambda: State(eta=1, X=1, q=1))
    raises(TypeError, "got both", lambda: State({"eta": 1}, X=1))
    raises(RuntimeError, "'X'", lambda: State(eta=np.zeros(3), X=np.zeros(2), batch_size=[3]))
    raises(TypeError, "declares no fields", lambda: TypedTensorDict(a=1))
    for name in ("keys", "data", "empty", "contiguous", "from_tensordict"):
        with pytest.raises(AttributeError, match=f"Field '{name}' shadows"):
            type("Bad", (TypedTensorDict,), {"__annotations__": {name: Any}})
    with pytest.raises(AttributeError, match="shadows"):
        type("Bad", (TypedTensorDict["shadow"],), {"__annotations__": {"batch_size": Any}})
    raises(ValueError, "Unknown TypedTensorDict option: 'loud'", lambda: TypedTensorDict["loud"])


def test_constructor_options() -> None:
    assert State.__init__.__qualname__ == "State.__init__"  # which help and tracebacks show
    state = State(eta=np.zeros((2, 3)), X=np.ones(2), batch_size=2, device="cpu", names=["t"], lock=True)
    assert (state.batch_size, state.device, state.names, state.is_locked) == ((2,), "cpu", ["t"], True)
    assert list(State({"q": 1}).keys()) == ["q"]
    assert State(TensorDict(q=1))["q"] == 1

    class Source(TypedTensorDict):
        source: np.ndarray

    assert Source(source=np.ones(2)).source.shape == (2,)


def test_attributes() -> None:
    state = make()
    with pytest.raises(AttributeError, match="'State' has field 'noise' declared but not set"):
        _ = state.noise
    assert not hasattr(state, "noise")
    state.noise = np.zeros(4)
    assert list(state.keys()) == ["eta", "X", "noise"]
    with pytest.raises(AttributeError, match="'State' object has no attribute 'nothing'"):
        _ = state.nothing
    with pytest.raises(RuntimeError, match="'eta'"):
        state.eta = np.zeros(3)
    assert state.eta.shape == (4, 3)
    with pytest.raises(AttributeError):
        del state.eta
    assert state.total() == 66
    assert state.count == 3
    state["extra"] = {"inner": {"x": np.zeros(4)}}
    keys = ("extra", ("extra",), ("extra", "inner"), ("extra", ("inner",)))
    assert {type(state[key]) for key in keys} == {TensorDict}


def test_subclasses_with_constructors() -> None:
    class Made(TypedTensorDict):
        a: np.ndarray

        def __init__(self, n: int) -> None:
            super().__init__(a=np.arange(n), batch_size=[n])

    class Child(State):
        c: np.ndarray

        def __init__(self, c: np.ndarray, **fields: Any) -> None:
            super().__init__(**fields)
            self.c = c

    assert Made(3).a.tolist() == [0, 1, 2]
    child = Child(np.zeros(4), **make(), batch_size=[4])
    assert list(child.keys()) == ["eta", "X", "c"]
    assert type(child[0]) is Child


def test_options_are_inherited() -> None:
    class Loud(TypedTensorDict["shadow", "frozen"]):
        clone: np.ndarray
        data: np.ndarray
        items: np.ndarray

    class Child(Loud):
        x: np.ndarray

    class Thawed(Loud, frozen=False):
        x: np.ndarray

    values = {name: np.arange(2.0) for name in ("clone", "data", "items", "x")}
    for cls, locked in ((Child, True), (Thawed, False)):
        child = cls(**values, batch_size=[2])
        assert child.is_locked is locked
        for name in values:
            np.testing.assert_array_equal(getattr(child, name), [0, 1])
        for out in (child[0], child + 1, stack([child, child]), copy.deepcopy(child), child.reshape(1, 2)):
            assert type(out) is cls
        assert type(TensorDict(n=child, batch_size=[2]).clone()["n"]) is cls
        assert "clone" in repr(child)
    with pytest.raises(RuntimeError, match="locked"):
        Child(**values).x = np.zeros(2)


def test_what_is_behind_is_shared() -> None:
    td = TensorDict(
        {"eta": np.zeros((4, 3)), "X": np.ones((4, 2)), "more": {"a": np.ones(4)}}, batch_size=[4]
    )
    state = State.from_tensordict(td)
    state.eta = np.ones((4, 3))
    assert td["eta"] is state.eta
    td["q"] = np.zeros(4)
    assert "q" in state
    state.lock_()
    assert td.is_locked
    assert td["more"].is_locked
    with state.unlock_():
        state["r"] = np.zeros(4)
    assert td.is_locked
    td.unlock_()
    assert not state.is_locked
    td.names = ["t"]
    assert state.names == ["t"]
    td.batch_size = []
    assert state.batch_size == ()
    again = Observed.from_tensordict(state, check=False)
    again.y = 1
    assert td["y"] == 1
    raises(TypeError, r"from_tensordict\(\) missing required field\(s\): y", Observed.from_tensordict, make())
    raises(TypeError, "dict", lambda: State.from_tensordict({"eta": 1, "X": 1}))


def test_a_lazy_stack_behind() -> None:
    rows = lazy_stack([TensorDict(eta=np.ones(n), X=np.zeros(2)) for n in (1, 2)])
    state = State.from_tensordict(rows)
    assert (state.batch_size, state.stack_dim, state.tensordicts) == ((2,), 0, rows.tensordicts)
    assert [row.shape for row in state.get("eta", as_list=True)] == [(1,), (2,)]
    for out in (state[1], state + 1, state.clone(), state[:1], cat([state, state]), stack([state, state])):
        assert type(out) is State
    np.testing.assert_array_equal((state + 1)[1].eta, [2, 2])
    assert isinstance((state * 2)._tensordict, LazyStackedTensorDict)
    state.X = np.ones((2, 2))
    np.testing.assert_array_equal(rows[0]["X"], [1, 1])
    state[0] = TensorDict(eta=np.zeros(1), X=np.zeros(2))
    np.testing.assert_array_equal(rows[0]["eta"], [0])
    state.append(TensorDict(eta=np.ones(3), X=np.zeros(2)))
    assert state.batch_size == (3,)
    outer = TensorDict({"n": state}, batch_size=[3]).lock_()
    assert rows.is_locked
    outer.unlock_()
    assert not rows.is_locked
    assert "exclusive_fields" in repr(state)


def test_locks_of_holders() -> None:
    state = make()
    outer = TensorDict({"n": state}, batch_size=[4]).lock_()
    raises(RuntimeError, "part of a locked graph", lambda: state.unlock_())
    with pytest.raises(RuntimeError, match="locked"):
        state["q"] = np.zeros(4)
    outer.unlock_()
    state["q"] = np.zeros(4)
    outer.names = ["t"]
    assert outer["n"].names == ["t"]


def test_joined() -> None:
    state = make()
    observed = Observed(**state, y=np.zeros(4), batch_size=[4])
    assert type(np.stack([state, state])) is type(maybe_dense_stack([state, state.to_tensordict()])) is State
    assert type(stack([state.to_tensordict(), state])) is TensorDict
    raises(RuntimeError, "exclusive", lambda: stack([state, observed]))
    mixed = maybe_dense_stack([state, observed])
    assert [type(part) for part in mixed.tensordicts] == [State, Observed]
    out = stack([state, state])
    assert stack([state * 2, state], out=out) is out
    np.testing.assert_array_equal(out.eta[0], 2 * state.eta)
    holders = [TensorDict({"n": part}, batch_size=[4]) for part in (state, state)]
    assert type(cat(holders)["n"]) is State
    assert type(lazy_stack([state, state]).contiguous()) is TensorDict


def test_pickles_name_the_users_class() -> None:
    state = make().lock_()
    again = pickle.loads(pickle.dumps(state))
    assert type(again) is State
    assert again.is_locked
    np.testing.assert_array_equal(again.eta, state.eta)
    assert b"lite._tensorclass" not in pickle.dumps(state)
    rows = pickle.loads(pickle.dumps(State.from_tensordict(lazy_stack([make(), make()]))))
    assert isinstance(rows._tensordict, LazyStackedTensorDict)


def test_files(tmp_path: Path) -> None:
    state = make()
    mapped = state.memmap(tmp_path / "a")
    assert type(mapped) is State
    assert mapped.is_memmap()
    assert type(load_memmap(tmp_path / "a")) is TensorDict
    loaded = State.load_memmap(tmp_path / "a")
    assert type(loaded) is State
    np.testing.assert_array_equal(loaded.eta, state.eta)
    raises(TypeError, "missing required", lambda: Observed.load_memmap(tmp_path / "a"))
    TensorDict({"n": State.from_tensordict(lazy_stack([state, state], 1))}, batch_size=[4]).memmap(
        tmp_path / "b"
    )
    assert type(load_memmap(tmp_path / "b")["n"]) is LazyStackedTensorDict
    state.save(tmp_path / "c.npz")
    assert type(load(tmp_path / "c.npz")) is TensorDict
    assert type(State.load(tmp_path / "c.npz")) is State
    assert type(state.consolidate()) is State
    assert state.load_memmap_(tmp_path / "a") is state


def test_conversions() -> None:
    assert State.from_any("text") == "text"
    assert type(State.from_any({"eta": [1.0]})) is type(State.from_dict({"eta": [1.0]})) is State
    assert type(State.fromkeys(["a"])) is type(make().to_tensordict()) is TensorDict
    state, zeros = make(), make() * 0
    assert zeros.load_state_dict(state.state_dict()) is zeros
    np.testing.assert_array_equal(zeros.eta, state.eta)
    assert type(make().to_lazystack()) is LazyStackedTensorDict
    assert type(make().to_lazystack()[0]) is State


def test_errors_of_properties_say_what_is_wrong() -> None:
    with pytest.raises(AttributeError, match=re.escape(message(lambda: make().to_tensordict().saved_path))):
        _ = make().saved_path


def message(call: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as found:
        call()
    return str(found.value)


def test_iteration() -> None:
    assert [type(row) for row in make()] == [State] * 4
    raises(TypeError, "0-d State", lambda: list(make()[0]))


@each_case(
    "call",
    [
        lambda td, out: td.apply(lambda x: x + 1, out=out),
        lambda td, out: td.where(np.ones(2, bool), td, out=out),
        lambda td, out: td.gather(0, np.zeros(2, int), out=out),
        lambda td, out: td.clamp(0, 1, out=out),
        lambda td, out: td.unsqueeze(0).logsumexp(dim=0, out=out),
    ],
    ids=["apply", "where", "gather", "clamp", "logsumexp"],
)
@each_case("kind", ["dict", "typed", "lazy"])
def test_out_is_what_comes_back(call: Any, kind: str) -> None:
    class Obs(TypedTensorDict):
        x: np.ndarray

    plain = TensorDict(x=np.zeros(2), batch_size=[2])
    out = {"dict": plain, "typed": Obs(plain, batch_size=[2]), "lazy": plain.to_lazystack()}[kind]
    assert call(Obs(x=np.ones(2), batch_size=[2]), out) is out
    assert type(Obs(x=np.ones(2), batch_size=[2]).unsqueeze(dim=0)) is Obs
