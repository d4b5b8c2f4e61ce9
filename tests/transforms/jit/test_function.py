"""`lite.jit` from a user's first line: what goes in, comes out, is written, taken, drawn, given up."""

from __future__ import annotations

import copy
import os
import pickle
import statistics
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.compared import assert_same
from helpers.training_states import Wrap, learner, same_in_graphs

import lite
from lite import TensorDict, nn
from lite._arrays.dtypes import default_dtype
from lite._transforms.graphs.array import WIDENED

X = np.arange(6.0).reshape(2, 3)


class Pair(NamedTuple):
    a: Any
    b: Any


def test_structures_go_in_and_come_out() -> None:
    def function(items: Any, *, scale: float, named: Pair) -> Any:
        return {"sum": items[0] + items[1]["x"] * scale, "pair": Pair(named.b, "text"), "rest": (None, 3)}

    options = {"scale": 0.5, "named": Pair(X, X + 1)}
    got = lite.jit(function)([X, {"x": X}], **options)
    assert_same(got, function([X, {"x": X}], **options))
    assert isinstance(got["pair"], Pair)
    assert got["rest"] == (None, 3)
    assert repr(lite.jit(function)) == "lite.jit(function)"


def test_tensordicts_and_tensorclasses() -> None:
    @lite.tensorclass
    class Data:
        x: np.ndarray
        inner: TensorDict

    data = Data(x=X, inner=TensorDict(y=X[:, 0], batch_size=[2]), batch_size=[2])
    out = lite.jit(lambda data: data * 2)(data)
    assert isinstance(out, Data)
    assert out.batch_size == (2,)
    np.testing.assert_array_equal(out.inner["y"], X[:, 0] * 2)
    stack = lite.lazy_stack([TensorDict(x=X[i]) for i in range(2)])
    np.testing.assert_array_equal(lite.jit(lambda td: td + 1)(stack)["x"], X + 1)


def test_what_rules_ask_of_sizes_keeps_one_graph() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3, rng=0), nn.LayerNorm(4))
    params = TensorDict.from_module(net).data

    def loss(params: Any, x: Any) -> Any:
        with params.to_module(net):
            return (net(x) ** 3).mean()  # the mean itself has no gradient but rounding

    for function in (
        lambda x: np.concatenate([x, x[:1]]).mean(),
        lambda x: np.pad(x, ((1, 0), *[(0, 0)] * 3)).max(),
        lambda x: lite.grad(loss)(params, x)["0", "weight"],
    ):
        step = lite.jit(function)
        for n in (9, 2, 700, 5):
            x = np.random.default_rng(n).normal(size=(n, 2, 6, 6)).astype(np.float32)
            np.testing.assert_allclose(step(x), function(x), rtol=1e-4, atol=1e-6)
        assert len(step._kept) == 1


def test_sizes_that_are_fixed_leave_others_dynamic() -> None:
    step = lite.jit(lambda x: x * 2)
    for n in (1, 4, 0, 5, 1, 6):
        np.testing.assert_array_equal(step(np.ones(n)), np.full(n, 2))
    assert len(step._kept) == 3  # 0, 1 and all others


def test_a_branch_on_a_dynamic_size_is_asked_at_each_call() -> None:
    step = lite.jit(lambda x: x * 2 if x.shape[0] > 3 else x * max(x.shape[0], 2) * 5)
    for n, factor in ((5, 2), (3, 15), (7, 2), (0, 10), (2, 10), (3, 15)):
        np.testing.assert_array_equal(step(np.ones(n)), np.full(n, factor))
    assert len(step._kept) == 4  # one for 5 and 7
    for asks, programs in (
        (lambda n: n < 4, 2), (lambda n: n <= 3, 2), (lambda n: n > 3, 2), (lambda n: n >= 4, 2),
        (lambda n: n == 3, 2), (lambda n: n != 3, 2), (bool, 1),
    ):  # fmt: skip
        step = lite.jit(lambda x, asks=asks: x * 2 if asks(x.shape[0]) else x * 3)
        for n in (5, 3, 7, 3):
            step(np.ones(n))
        assert len(step._kept) == programs  # one for 5 and 7


@each_case(
    "function",
    [
        lambda x: x * 2 if x.shape[0] == 3 else x * 3,
        lambda x: x * 2 if x.shape[0] != 3 else x * 3,
        lambda x: x * 2 if x.shape in ((3,), (4,)) else x * 3,
        lambda x: x * 2 if x.size % 2 else x * 3,
        lambda x: x * (7 // x.shape[0]),
        lambda x: x * (7 % x.shape[0]),
        lambda x: x * (x.shape[0] & 1),
        lambda x: x * {3: 2.0}.get(x.shape[0], 3.0),
        lambda x: x * 2 if int(x.shape[0]) > 3 else x * 3,
        lambda x: x * 2 if x.shape[0] / 2 > 2 else x * 3,
        lambda x: x * 2 if x.shape[0] ** 2 > 9 else x * 3,
        lambda x: x * 2 if abs(x.shape[0] - 4) > 1 else x * 3,
        lambda x: x * 2 if x.shape[0] - 3 else x * 3,
        lambda x: x * np.clip(np.arange(9), 0, x.shape[0] - 1).sum(),  # NumPy's own code asks
        lambda x: x * np.searchsorted([2, 4, 6], x.shape[0]),
        lambda x: x * np.asarray(np.arange(9.0), like=x)[: x.shape[0]].sum(),
        lambda x: x * np.asarray(np.arange(9.0), like=x)[-x.shape[0] :].sum(),
        lambda x: x * statistics.fmean(x.shape),
        lambda x: x * 2 if 1 / x.shape[0] == 1 / 7 else x * 3,
        lambda x: x * 2 if 1 / x.shape[0] - 1 / 7 else x * 3,
        lambda x: x[1:][:4].sum() / x[:-1][-4:].size if x.size > 1 else x,
        lambda x: x.sum() * x[::2][:3].size,
        lambda x: np.concatenate([x, x])[1:][:9] * 2,
    ],
)
def test_what_is_asked_of_a_dynamic_size_is_no_number_of_the_trace(function: Any) -> None:
    step = lite.jit(function)
    for n in (5, 3, 4, 6, 2, 7, 1):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(step(x), function(x))
    with pytest.raises(NotImplementedError, match="takes mod of a dynamic size"):
        lite.jit(lambda x: x * (x.shape[0] % 4), dynamic_axes={"x": {0: "n"}})(np.ones(5))


def test_a_size_beside_a_dynamic_one_is_asked_at_each_call() -> None:
    step = lite.jit(lambda x: x * 2 if x[1:].shape[0] > 3 else x * (1 / x.shape[0] + x))
    for n in (6, 7, 5, 4, 3):
        x = np.arange(1.0, n + 1)
        np.testing.assert_allclose(step(x), x * 2 if n > 4 else x * (1 / n + x))
    assert len(step._kept) == 3  # one for 6, 7 and 5


def test_a_branch_on_the_length_of_a_tensordict() -> None:
    step = lite.jit(lambda td: td["x"].sum() if len(td) > 2 else td["x"] * 2)
    for n in (9, 2, 3):
        x = np.arange(float(n))
        want = x.sum() if n > 2 else x * 2
        np.testing.assert_array_equal(step(TensorDict(x=x, batch_size=[n])), want)


@pytest.mark.parametrize("rows", [slice(1, None), slice(1, -1), slice(None, None, -1), slice(-2, None)])
def test_a_branch_on_the_length_of_rows_of_a_tensordict(rows: slice) -> None:
    def branch(td: TensorDict) -> Any:
        return td["x"] + 1 if len(td[rows]) % 2 else td["x"] * 1

    step = lite.jit(branch)
    for n in (3, 4, 5, 8):
        td = TensorDict(x=np.zeros(n), batch_size=[n])
        np.testing.assert_array_equal(step(td), branch(td))


def test_sizes_that_are_equal_by_chance() -> None:
    step = lite.jit(lambda x, y: x.sum() + y.sum())
    assert step(np.ones(4), np.ones(4)) == 8
    assert step(np.ones(4), np.ones(5)) == 9
    assert step(np.ones(1), np.ones(6)) == 7
    raises(ValueError, "broadcast", lambda: lite.jit(np.add)(np.ones(4), np.ones(5)))


def test_dynamic_axes_are_said() -> None:
    step = lite.jit(lambda x: x.mean(1), dynamic_axes={"x": {1: "time"}})
    for n in (3, 5):
        np.testing.assert_allclose(step(np.ones((2, n))), np.ones(2))
    assert len(step._kept) == 1
    step(np.ones((4, 3)))
    assert len(step._kept) == 2
    both = lite.jit(np.add, dynamic_axes={})
    np.testing.assert_array_equal(both(np.ones(2), np.ones(2)), np.full(2, 2.0))
    with pytest.raises(ValueError, match="the dynamic size 'n' is 2 and 3 in one call"):
        lite.jit(lambda x, y: (x, y), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})(np.ones(2), np.ones(3))
    raises(ValueError, r"dynamic_axes has \['z'\]", lite.jit, lambda x: x, dynamic_axes={"z": {0: "n"}})


def test_numbers_of_python() -> None:
    step = lite.jit(lambda x, scale, power: x * scale**2 + power)
    for scale in (0.5, 3.0):
        got = step(X.astype(np.float32), scale, 2)
        np.testing.assert_allclose(got, X * scale**2 + 2, rtol=1e-6)
        assert got.dtype == np.float32
    assert len(step._kept) == 1
    step(X.astype(np.float32), 0.5, 3)  # an int is part of the graph
    assert len(step._kept) == 2
    fixed = lite.jit(lambda x, scale: x * scale if scale > 1 else x, static_argnames="scale")
    np.testing.assert_array_equal(fixed(X, 2.0), X * 2)
    np.testing.assert_array_equal(fixed(X, 0.5), X)


def test_numbers_without_dimensions_are_those_of_numpy() -> None:
    out = lite.jit(lambda x: (x.sum(), {"mean": x.mean()}))(X)
    assert isinstance(out[0], np.float64)
    assert isinstance(out[1]["mean"], np.float64)


def test_writes_to_arguments_are_made() -> None:
    @lite.jit
    def step(td: TensorDict, x: Any) -> None:
        td["sum"] = td["x"] + x
        td["inner", "y"] = x * 2
        del td["old"]
        td["x"] += 1
        x *= 3

    td, x = TensorDict(x=X.copy(), old=X, inner={}), X.copy()
    held = td["x"]
    assert step(td, x) is None
    np.testing.assert_array_equal(td["sum"], X + X)
    np.testing.assert_array_equal(td["inner", "y"], X * 2)
    np.testing.assert_array_equal(held, X + 1)
    np.testing.assert_array_equal(x, X * 3)
    assert "old" not in td


def test_a_container_that_comes_back_is_the_callers() -> None:
    policy = nn.TensorDictModule(nn.Linear(3, 2, dtype=np.float64), ["x"], ["y"])
    td = TensorDict(x=X, batch_size=[2])
    assert lite.jit(lambda td: policy(td))(td) is td
    np.testing.assert_allclose(td["y"], policy(td.clone())["y"])


def test_calls_that_are_like_the_last_one_and_others() -> None:
    scale = 1.0

    @lite.jit
    def step(td: Any, x: Any, factor: Any = 1.0, *, power: int = 1) -> Any:
        td["y"] = td["x"] * factor * scale
        x += 1
        return td["y"] ** power + x

    def plain(td: Any, x: Any, factor: Any = 1.0, *, power: int = 1) -> Any:
        return step.fn(td, x, factor, power=power)

    base = np.zeros((4, 2))
    for number, dtype in enumerate([np.float32, np.float64, np.float64, np.float32, np.float64] * 3):
        scale = float(1 + number // 5)
        n, power, factor = 2 + number % 2, 1 + number // 7, 0.5 * number
        td = TensorDict(x=np.full((n, 2), number, dtype), batch_size=[n])
        both = []
        for function in (step, plain):
            given, x = td.clone(), base[:n] + number
            both.append([function(given, x, factor, power=power), given["y"], x])
            both[-1] += [function(given, x, factor, power=power), function(given, x), given["y"] * 1, x * 1]
        assert_same(*both, rtol=1e-7, strict=True)
    raises(ValueError, "there twice", lambda: step(td, td["x"]))


def test_what_is_taken_from_elsewhere_is_read_at_each_call() -> None:
    net, shift = nn.Linear(3, 2, dtype=np.float64), np.ones(2)
    transposed = shift[::-1]
    step = lite.jit(lambda x: net(x) + shift + transposed)
    np.testing.assert_allclose(step(X), net(X) + 2)
    shift[0] = 5.0
    net.weight[...] = 0.5
    np.testing.assert_allclose(step(X), net(X) + shift + transposed)
    net.weight.data = np.ones((2, 3))
    np.testing.assert_allclose(step(X), net(X) + shift + transposed)
    net.weight.data = np.ones((2, 3), np.float32)
    raises(ValueError, "takes from elsewhere had the shape", lambda: step(X))


def test_arrays_that_are_given_up_stay() -> None:
    def update(params: TensorDict, x: Any) -> Any:
        loss, grads = lite.value_and_grad(lambda p: ((x @ p["w"] + p["b"]) ** 2).sum())(params)
        return loss, params - 0.01 * grads

    step = lite.jit(update, donate="params")
    plain = params = TensorDict(w=np.ones((3, 2)), b=np.zeros(2))
    for _ in range(7):
        want, plain = update(plain, X)
        got, params = step(params, X)
        np.testing.assert_allclose(got, want)
    np.testing.assert_allclose(params["w"], plain["w"])
    step.state["params", "w"][...] = 0.0
    got, params = step(params, X)
    np.testing.assert_allclose(got, (plain["b"] ** 2).sum() * 2)
    got, params = step(TensorDict(w=np.ones((3, 2)), b=np.zeros(2)), X)  # others are copied
    np.testing.assert_allclose(got, update(TensorDict(w=np.ones((3, 2)), b=np.zeros(2)), X)[0])
    params["w"] = np.zeros((3, 2))
    np.testing.assert_allclose(step(params, X)[0], (params["b"] ** 2).sum() * 2)


def test_parameters_that_are_given_up_move_in_their_module() -> None:
    net = nn.Linear(3, 1, dtype=np.float64, rng=0)
    params = TensorDict.from_module(net)

    def update(params: TensorDict, x: Any) -> Any:
        def loss(params: TensorDict) -> Any:
            with params.to_module(net):
                return (net(x) ** 2).sum()

        value, grads = lite.value_and_grad(loss)(params)
        for key, grad in grads.items():
            params[key][...] = params[key] - 0.01 * grad
        return value

    step = lite.jit(update, donate="params")
    values = [step(params, X) for _ in range(20)]
    assert values[-1] < 0.5 * values[0]
    np.testing.assert_allclose((net(X) ** 2).sum(), step(params, X))


def test_a_step_that_fails_leaves_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    step = lite.jit(lambda w, x: (w + x[0], x[[0, 1]].sum()), donate="w")
    w, _ = step(np.zeros(3), np.ones((2, 3)))
    runner = next(iter(step._kept.values()))
    monkeypatch.setattr(type(runner._bindings[0]), "run", lambda self: 1 / 0)
    raises(ZeroDivisionError, "", lambda: step(w, np.ones((2, 3))))
    monkeypatch.undo()
    np.testing.assert_array_equal(step(w, np.ones((2, 3)))[0], np.full(3, 2.0))


def test_draws_are_those_of_the_plain_function() -> None:
    drop = nn.Dropout(0.5)
    own = np.random.default_rng(3)

    def function(x: Any, rng: Any) -> Any:
        noise = rng.normal(0.5, x[:, :1] * 0 + 2, size=x.shape) + rng.uniform(-1, 1, x.shape)
        return drop(x) + noise + rng.standard_normal(3, dtype=np.float32) + rng.integers(0, 5, 3)

    drop._rng = own
    state = own.bit_generator.state
    step, rng = lite.jit(function), np.random.default_rng(0)
    want = [function(X, rng) for _ in range(3)]
    own.bit_generator.state, rng = state, np.random.default_rng(0)
    assert_same([step(X, rng) for _ in range(3)], want, rtol=1e-7)


def test_modes_and_settings_are_those_of_the_call() -> None:
    drop = nn.Dropout(0.5)

    def inner(x: Any) -> Any:
        return drop(x)

    step = lite.jit(lambda x: inner(x))
    assert np.count_nonzero(step(np.ones(200))) < 150
    drop.eval()
    np.testing.assert_array_equal(step(np.ones(200)), np.ones(200))
    drop.train()
    assert np.count_nonzero(step(np.ones(200))) < 150
    assert len(step._kept) == 2
    zeros = lite.jit(lambda x: x + nn.Parameter([1.0]).data)
    assert zeros(np.zeros(1, np.float32)).dtype == np.float32
    with default_dtype(np.float64):
        assert zeros(np.zeros(1, np.float32)).dtype == np.float64


@same_in_graphs
def test_a_penalty_of_gradients_in_a_step(wrap: Wrap) -> Any:
    """In torch's style, as one graph for all sizes: a critic is kept from being steep."""
    critic = nn.MLP(3, 1, num_cells=[8], activation_class=nn.Tanh, layer_kwargs={"rng": 0})

    def penalised(x: Any) -> Any:
        slopes = lite.grad(lambda x: critic(x).sum())(x)
        return ((np.linalg.norm(slopes, axis=-1) - 1) ** 2).mean() - critic(x).mean()

    step = wrap(learner(penalised, lite.optim.Adam(critic.parameters(), 1e-2)))
    found = [step(np.float32(np.random.default_rng(n).random((n, 3)))) for n in (4, 4, 7, 5)]
    return found, critic.state_dict()


def test_composition() -> None:
    @lite.checkpoint
    def block(x: Any) -> Any:
        return np.tanh(x @ np.eye(3)) * 2

    @lite.custom_vjp
    def rounded(x: Any) -> Any:
        return np.round(x)

    rounded.defvjp(lambda x: (np.round(x), None), lambda residuals, g: (g * 0.5,))

    def loss(w: Any, x: Any) -> Any:
        return (rounded(block(x * w)) ** 2).sum()

    def function(w: Any, x: Any) -> Any:
        per_row = lite.vmap(lite.grad(loss), (None, 0))(w, x)
        value, pull = lite.vjp(lambda w: block(x * w), w)
        columns = lite.vmap(lite.grad(lambda x: (x[:, [0, 1, 1]] ** 2).sum()))(x[:, None])
        slope = lite.grad(lambda w, t: np.sin(np.stack([t, t * w[0]])).sum(), 1)
        bends = lite.vmap(lite.grad(lambda w: lite.vmap(lite.grad(slope, 1), (None, 0))(w, w).sum()))(x)
        return per_row, value, pull(value)[0], lite.jacrev(lambda w: w**2)(w), columns, bends

    assert_same(lite.jit(function)(X[1], X / 3), function(X[1], X / 3), rtol=1e-8)
    inner = lite.jit(lambda x: x * x)
    np.testing.assert_allclose(lite.grad(lambda x: inner(x).sum())(X), 2 * X)
    np.testing.assert_allclose(lite.jit(lambda x: inner(x) + 1)(X), X * X + 1)
    np.testing.assert_allclose(lite.vmap(inner)(X), X * X)


LEFT: list[Any] = []


@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, RuntimeError, r"branches on .* line \d+: "),
        (lambda x: np.linalg.svd(x)[1], NotImplementedError, r"calls numpy.linalg.svd.* line \d+: "),
        (lambda x: float(x[0, 0]), RuntimeError, "takes a float of"),
        (
            lambda x: x.sum().backward(),
            RuntimeError,
            r"backward\(\) .* `with lite.enable_grad\(\):`.* line \d+: ",
        ),
        (
            lambda x: LEFT.append(x * 2),
            RuntimeError,
            r"keeps an array of shape .* return it \(.* line \d+: ",
        ),
        (lambda x: np.zeros(3).__setitem__(0, x[0, 0]), ValueError, "with a sequence"),
        (lambda x: x + np.random.default_rng().random(3), NotImplementedError, "other numbers"),
        (lambda x: x * np.random.default_rng(0).choice(x), NotImplementedError, "ndarray of an array"),
    ],
)
def test_what_no_graph_does_is_refused(function: Any, error: Any, message: str) -> None:
    LEFT.clear()
    raises(error, message, lambda: lite.jit(function)(X))
    LEFT.clear()


def test_who_keeps_an_array_is_told() -> None:
    left: list[Any] = []
    raises(RuntimeError, r"\(in a list\)", lite.jit(lambda x: left.append(x * 2)), np.ones(2))


def test_fallback_runs_the_function() -> None:
    step = lite.jit(lambda x: x if x.sum() > 0 else -x, fallback=True)
    with pytest.warns(UserWarning, match="runs without a graph: cannot be traced"):
        np.testing.assert_array_equal(step(-X), X)
    np.testing.assert_array_equal(step(X), X)  # without another warning


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"donate has \['y'\], the function has the parameters \['x'\]"):
        lite.jit(lambda x: x, donate="y")
    with pytest.raises(TypeError, match="fn must be a function"):
        lite.jit(3)  # type: ignore[arg-type]
    raises(TypeError, "items must be made of arrays", lambda: lite.jit(lambda items: 1)({1, 2}))
    with pytest.raises(RuntimeError, match="has no state"):
        _ = lite.jit(np.tanh).state


def test_graphs_that_are_kept_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite._transforms.jit.function._GRAPHS", 3)
    step = lite.jit(lambda x, n: x * n)
    for n in range(6):
        np.testing.assert_array_equal(step(X, n), X * n)
    assert len(step._kept) == 3


def test_threads_get_their_own_results() -> None:
    step = lite.jit(lambda x: x * x + 1)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            x = rng.normal(size=(rng.integers(2, 6), 3))
            if not np.allclose(step(x), x * x + 1):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_thread_that_uses_what_is_traced_is_told() -> None:
    """It gets an error, and the graph nothing of what it computes."""
    net, said = nn.Linear(3, 2), []

    def act() -> None:
        try:
            net(np.zeros((1, 3), np.float32))
        except RuntimeError as error:
            said.append(str(error))

    @lite.jit
    @lite.enable_grad()
    def step(x: Any) -> Any:
        loss = net(x).sum()
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
        loss.backward()
        return loss.detach()

    np.testing.assert_allclose(step(X), net(X.astype(np.float32)).sum(), rtol=1e-5)
    assert said
    assert "another thread" in said[0]
    assert "copy.deepcopy" in said[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_opens_the_graph_anew() -> None:
    step = lite.jit(lambda w, x: w + x, donate="w", threads=1)
    w = step(np.zeros((2, 3)), X)
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(step(w, X), 2 * X) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(step(w, X), 2 * X)


@lite.jit
def doubled(x: Any) -> Any:
    return 2 * x


class Holder:
    def __init__(self) -> None:
        self.net = nn.Linear(3, 2, rng=0)

    @lite.jit(static_argnames="times")
    def act(self, x: Any, times: int) -> Any:
        return self.net(x) * times


def test_methods_pickles_and_copies() -> None:
    """Each object has a function of its own, and what is copied or sent elsewhere traces again."""
    one, two, x = Holder(), Holder(), np.ones((2, 3), np.float32)
    two.net.weight.data[...] = 1
    for holder in (one, two):
        for made in (holder, copy.deepcopy(holder), pickle.loads(pickle.dumps(holder))):
            np.testing.assert_allclose(made.act(x, times=2), holder.net(x) * 2, rtol=1e-6)
            assert made.act is made.act
    other = copy.deepcopy(one)
    assert other.act.fn.__self__ is other
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    tanh = pickle.loads(pickle.dumps(lite.jit(np.tanh, threads=1)))
    np.testing.assert_allclose(tanh(x), np.tanh(x))


def test_types_without_a_kernel_are_refused_with_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WIDENED, "ArgMax", ())  # as an operator of which nobody knew

    def chosen(x: Any) -> Any:
        more = x + 1
        return np.argmax(more)  # of 16 bits

    x = np.arange(3, dtype=np.int16)
    with pytest.raises(
        NotImplementedError, match=r"ArgMax\(13\).*\. The function computes that \(.* # of 16 bits\)"
    ):
        lite.jit(chosen)(x)
    with pytest.warns(UserWarning, match="chosen runs without a graph"):
        assert lite.jit(chosen, fallback=True)(x) == 2


def test_arguments_by_name() -> None:
    def update(a: TensorDict, b: TensorDict, x: Any, *, twice: bool = False) -> Any:
        return a + x.sum(), b * (2 if twice else 1)

    step = lite.jit(update, donate=("a", "b"), static_argnames="twice", threads=1)
    a, b = TensorDict(p=np.zeros(2)), TensorDict(q=np.ones(2))
    for _ in range(2):
        a, b = step(b=b, a=a, x=np.ones(3), twice=True)
    a, b = step(a, x=np.ones(3), b=b)
    np.testing.assert_array_equal(step.state["a", "p"], [9, 9])
    np.testing.assert_array_equal(step.state["b", "q"], [4, 4])
    assert lite.jit(lambda **given: given["x"] * given["n"], static_argnames="n")(x=np.ones(1), n=3) == 3
    with pytest.raises(
        ValueError, match=r"static_argnames has \['once'\], the function has the parameters \['a'"
    ):
        lite.jit(update, static_argnames="once")


def test_rows_of_a_tensordict_by_an_array_of_numbers() -> None:
    def rows(td: TensorDict, order: Any) -> Any:
        return td[order], td.unsqueeze(0)[:, order[:2]], td[np.argsort(-td["x"][:, 0])]

    jitted = lite.jit(rows, threads=1)
    for n in (4, 3):
        td = TensorDict({"x": np.arange(2.0 * n).reshape(n, 2), "b": {"y": np.arange(n)}}, [n], names=["row"])
        order = np.random.default_rng(n).permutation(n)
        assert_same(jitted(td, order), rows(td, order))
    assert len(jitted._kept) == 1
    pair = lite.lazy_stack([td["b"], td["b"]])
    np.testing.assert_array_equal(
        lite.jit(lambda td, i: td[i]["y"], threads=1)(pair, np.array([1])), [[0, 1, 2]]
    )


def test_an_index_out_of_bounds_is_an_index_error() -> None:
    step = lite.jit(lambda s, i: (s * 2, s["x"][i]), donate="s", threads=1)
    s, _ = step(TensorDict(x=np.ones(3)), np.array([1, -3]))
    raises(IndexError, r"out of bounds in the graph: idx=3 must be within .*\[-3,2\]", step, s, np.array([3]))
    np.testing.assert_array_equal(step(s, np.array([2]))[0]["x"], [4, 4, 4])  # that of the last whole step


def test_a_function_whose_arguments_nobody_knows() -> None:
    found = lite.jit(dict, static_argnames="b")(a=np.arange(2.0), b=3)
    np.testing.assert_array_equal(found["a"], [0, 1])
    assert found["b"] == 3
