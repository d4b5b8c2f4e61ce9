"""Module.compile: what is compiled gives what Python gives; what is not, says why, once."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from lite import TensorDict, nn, vmap
from lite.nn import TensorDictModule, TensorDictSequential
from lite.nn._modules.compile import CompiledFunction

F32 = np.float32
factor = 2.0
table = np.arange(4.0)


def discounted(reward: Any) -> Any:
    out = np.empty_like(reward)
    total = F32(0)
    for i in range(len(reward) - 1, -1, -1):
        total = reward[i] + F32(0.5) * total
        out[i] = total
    return out


def compiled(function: Any, args: int = 1, outs: int = 1, **options: Any) -> TensorDictModule:
    module = TensorDictModule(function, [f"x{i}" for i in range(args)], [f"y{i}" for i in range(outs)])
    assert module.compile(**options) is None
    return module


def ran_compiled(module: TensorDictModule) -> bool:
    payload = module.module
    return isinstance(payload, CompiledFunction) and bool(payload._forms) and not payload._given_up


def both(function: Any, *args: Any) -> Any:
    """The result of the second call, which runs compiled code alone."""
    outs = len(r) if isinstance(r := function(*args), tuple) else 1
    module = compiled(function, len(args), outs)
    module(*args)
    assert ran_compiled(module)
    return module(*args), function(*args)


@pytest.mark.parametrize(
    "function",
    [
        discounted,
        lambda x: x * 2 + 1,  # Numba would give float64
        lambda x: (x.sum(), x > 0, x.astype(np.int64)),
        lambda x: x / (x - x),
        lambda x: 3,
    ],
    ids=["loop", "numbers beside arrays", "tuple", "division by zero", "number"],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_are_those_of_python(function: Any, dtype: str) -> None:
    x = np.random.default_rng(0).standard_normal(7).astype(dtype)
    x.flags.writeable = False
    for got, want in zip(*(r if isinstance(r, tuple) else (r,) for r in both(function, x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert np.asarray(got).dtype == np.asarray(want).dtype


def test_the_compiled_code_is_what_runs() -> None:
    calls = []

    def counted(x: Any) -> Any:
        return x + 1

    module = compiled(counted)
    payload = module.module
    payload.function = lambda x: calls.append(1) or x + 1
    payload._compiled, payload._constants = __import__("numba").njit(counted), []
    x = np.zeros(3)
    module(x)
    assert len(calls) == 1
    np.testing.assert_array_equal(module(x), np.ones(3))
    assert len(calls) == 1
    module(x[:, None])  # arguments of another kind
    assert len(calls) == 2


def test_in_a_sequence_and_a_tensordict() -> None:
    seq = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 6, rng=0), ["a"], ["reward"]),
        TensorDictModule(discounted, ["reward"], ["return"]),
    )
    td = TensorDict({"a": np.ones(3, F32)}, [])
    want = seq(td.clone())["return"]
    seq.compile()
    for _ in range(2):
        np.testing.assert_allclose(seq(td.clone())["return"], want, rtol=1e-6)
    assert ran_compiled(seq[1])
    assert isinstance(seq[0].module, nn.Linear)


def test_arguments_by_keyword() -> None:
    module = TensorDictModule(lambda x, y: x - y, in_keys={"a": "x", "b": "y"}, out_keys=["z"])
    module.compile()
    td = TensorDict({"a": np.full(3, 5.0), "b": np.ones(3)}, [])
    for _ in range(2):
        np.testing.assert_array_equal(module(td)["z"], np.full(3, 4.0))
    assert ran_compiled(module)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: {"y0": x}, "it returns dict"),
        (lambda x: np.einsum("i->", x), "einsum"),
        (lambda x: x + table, "it reads 'table', of type ndarray"),
        (lambda x: np.random.standard_normal(x.shape), "random"),  # noqa: NPY002
        (lambda x: discounted(x), "discounted"),
        (lambda x, *, y=1: x + y, ""),
    ],
    ids=["dict", "a function Numba lacks", "outer array", "random", "other functions", "keyword only"],
)
def test_what_does_not_compile_runs_in_python_after_one_warning(function: Any, reason: str) -> None:
    module = compiled(function)
    x = np.ones(4, F32)
    with pytest.warns(
        UserWarning, match=rf"lambda.* runs in Python, as Numba does not compile it: .*{reason}"
    ) as seen:
        module(x)
    assert len([w for w in seen if "runs in Python" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = module(x)
    assert not ran_compiled(module)
    if reason != "random":
        np.testing.assert_array_equal(
            out, function(x)["y0"] if isinstance(function(x), dict) else function(x)
        )


def test_fullgraph_raises_instead() -> None:
    module = compiled(lambda x: x + table, fullgraph=True)
    with pytest.raises(RuntimeError, match=r"fullgraph=True.*lambda.* does not compile: it reads 'table'"):
        module(np.ones(4))


def test_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    module = compiled(lambda x: x + 1)
    with pytest.warns(UserWarning, match="needs Numba: `pip install numba`"):
        np.testing.assert_array_equal(module(np.zeros(2)), np.ones(2))


@pytest.mark.parametrize("kind", ["modules", "a layer"])
def test_nothing_to_compile_is_said(kind: str) -> None:
    module = (
        nn.Linear(2, 2)
        if kind == "a layer"
        else TensorDictSequential(TensorDictModule(nn.ReLU(), ["a"], ["b"]))
    )
    with pytest.warns(UserWarning, match=rf"{type(module).__name__}\.compile\(\) changes nothing"):
        module.compile()


def test_arguments_of_torch_compile() -> None:
    for options in (
        {"fullgraph": False, "dynamic": True, "backend": "inductor", "mode": "max-autotune"},
        {"options": {}},
    ):
        assert isinstance(compiled(discounted, **options).module, CompiledFunction)
    assert compiled(discounted, disable=True).module is discounted
    with pytest.raises(TypeError, match="got the keyword 'fast'"):
        compiled(discounted, fast=True)
    with pytest.raises(TypeError, match="got positional arguments"):
        TensorDictModule(discounted, ["x"], ["y"]).compile(True)


def test_compiling_twice_keeps_the_code() -> None:
    module = compiled(discounted)
    payload = module.module
    module.compile()
    assert module.module is payload


def test_errors_of_the_function_are_its_own() -> None:
    def first(x: Any) -> Any:
        return x[5]

    module = compiled(first)
    for _ in range(2):
        with pytest.raises(IndexError):
            module(np.zeros(3))
    np.testing.assert_array_equal(module(np.arange(8.0)), 5)
    with pytest.raises(IndexError):  # compiled code checks indices, too
        module(np.zeros(3))


def test_writes_into_arguments_happen_once() -> None:
    def bump(x: Any) -> Any:
        x += 1
        return x.sum()

    module = compiled(bump)
    x = np.zeros(3)
    assert module(x) == 3
    assert module(x) == 6
    np.testing.assert_array_equal(x, [2, 2, 2])
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        module(x)


def test_changed_globals_and_closures_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    offset = 1.0
    module = compiled(lambda x: x * factor + offset)
    x = np.ones(2)
    module(x)
    np.testing.assert_array_equal(module(x), [3, 3])
    offset = 5.0
    np.testing.assert_array_equal(module(x), [7, 7])
    monkeypatch.setattr(sys.modules[__name__], "factor", 10.0)
    np.testing.assert_array_equal(module(x), [15, 15])
    np.testing.assert_array_equal(module(x), [15, 15])
    assert ran_compiled(module)


def test_what_is_no_array_runs_in_python() -> None:
    module = compiled(lambda x: x * 2)
    np.testing.assert_array_equal(module(np.float32(2)), 4)
    np.testing.assert_array_equal(vmap(module, 0)(np.arange(3.0)), [0, 2, 4])
    assert not module.module._given_up
    with pytest.raises(KeyError, match="None"):
        module(TensorDict({}, []))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(duplicate: Any) -> None:
    module = compiled(discounted)
    x = np.ones(4, F32)
    want = module(x)
    again = duplicate(module)
    for _ in range(2):
        np.testing.assert_array_equal(again(x), want)
    assert ran_compiled(again)
    assert "compiled <function discounted" in repr(again)


def test_threads() -> None:
    module = compiled(discounted)
    x = np.random.default_rng(0).standard_normal(50).astype(F32)
    want, failures = discounted(x), []

    def work() -> None:
        for _ in range(20):
            if not np.allclose(module(x), want, rtol=1e-5):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
