"""What all optimisers share: which of the two ways it is, groups, closures, errors."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises

import lite
from lite import TensorDict, assert_close, nn, optim, stack

MAPPED = {
    "Adam": optim.Adam(0.1, amsgrad=True),
    "SGD": optim.SGD(0.1, momentum=0.9, dampening=0.5),
    "RMSprop": optim.RMSprop(0.1, centered=True, momentum=0.5),
    "LinearLR": optim.AdamW(optim.LinearLR(0.1, start_factor=0.1, total_iters=3)),
    "CosineAnnealingLR": optim.SGD(optim.CosineAnnealingLR(0.1, 3)),
    "LambdaLR": optim.SGD(optim.LambdaLR(0.1, lambda step: 1 / (1 + step))),
    "StepLR": optim.SGD(optim.StepLR(0.1, 2)),
    "MultiStepLR": optim.SGD(optim.MultiStepLR(0.1, [1, 2])),
    "CosineAnnealingWarmRestarts": optim.SGD(optim.CosineAnnealingWarmRestarts(0.1, 1, T_mult=2)),
    "OneCycleLR": optim.SGD(optim.OneCycleLR(0.1, 0.3, 9, three_phase=True, cycle_momentum=False)),
    "SequentialLR": optim.SGD(
        optim.SequentialLR(None, [optim.ConstantLR(0.1, 0.5, 1), optim.CosineAnnealingLR(0.1, 3)], [2])
    ),
}
OPTIMIZERS = [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop]


def parameters(count=3):
    out = [nn.Parameter(np.full((2, i + 1), 1.0)) for i in range(count)]
    for param in out:
        param.grad = np.ones_like(param.data)
    return out


@each_case("cls", OPTIMIZERS)
def test_the_first_argument_decides(cls):
    params = TensorDict(w=np.ones(2))
    expected = cls(0.25).update(params, params)[0]["w"]
    for rate in (np.float32(0.25), np.array(0.25), lambda step: 0.25):
        np.testing.assert_array_equal(cls(rate).update(params, params)[0]["w"], expected)
    np.testing.assert_array_equal(cls(lr=0.25).update(params, params)[0]["w"], expected)
    assert cls().defaults["lr"] == (0.01 if cls is optim.RMSprop else 0.001)
    param = nn.Parameter(np.ones(2))
    param.grad = np.ones(2)
    optimizer = cls([param, np.ones(3)], lr=0.25)  # a buffer is left out
    assert len(optimizer.param_groups[0]["params"]) == 1
    optimizer.step()
    np.testing.assert_array_equal(param.data, expected)


@each_case("cls", OPTIMIZERS)
def test_what_belongs_to_the_other_way(cls):
    raises(RuntimeError, f"this {cls.__name__} was made with a learning rate alone", lambda: cls(0.1).step())
    over = cls(parameters(), lr=0.1)
    td = TensorDict(w=np.ones(2))
    for call in (lambda: over.init(td), lambda: over.update(td, td), lambda: over.update_(td, td)):
        raises(RuntimeError, "was made over parameters of its own: call step", call)


@each_case(
    ("make", "error", "message"),
    [
        (lambda: optim.Adam(0.1, lr=0.2), TypeError, "the learning rate is given twice"),
        (lambda: optim.Adam(-0.1), ValueError, "lr must be at least 0, got -0.1"),
        (lambda: optim.Adam(float("nan")), ValueError, "lr must be at least 0, got nan"),
        (lambda: optim.Adam(lr="1e-3"), TypeError, "lr must be a number, got str"),
        (lambda: optim.Adam(True), TypeError,
            "params must be a learning rate, Parameters, or dicts of them"),
        (lambda: optim.Adam(nn.Linear(1, 1)), TypeError, r"got a Linear: pass its parameters\(\)"),
        (lambda: optim.Adam(TensorDict(a=np.ones(1))), TypeError,
            "got a TensorDict: make the optimiser with"),
        (lambda: optim.Adam(nn.TensorDictParams({"a": np.ones(1)})), TypeError,
            r"or pass its parameters\(\)"),
        (lambda: optim.Adam([]), ValueError, "params must not be empty"),
        (lambda: optim.Adam(parameters(), lr=lambda step: 0.1), TypeError, "schedules such as LambdaLR"),
        (lambda: optim.Adam([np.ones(2)]), TypeError, "takes Parameters, got ndarray"),
        (lambda: optim.Adam([nn.Parameter(np.ones(1, int), False)]), TypeError, "one of int64"),
        (lambda: optim.Adam(parameters() * 2), ValueError, "appear more than once"),
        (lambda: optim.Adam([{"lr": 1.0}]), ValueError, "must have 'params'"),
        (lambda: optim.Adam([{"params": parameters(), "lr": -1}]), ValueError, "lr must be at least 0"),
        (lambda: optim.Adam(0.1, betas=(0.9,)), ValueError, "betas must be two numbers"),
        (lambda: optim.SGD(0.1, nesterov=True), ValueError, "nesterov needs a momentum above 0"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(make, error, message):
    raises(error, message, make)


def test_update_shares_no_memory_with_what_it_got():
    params = TensorDict(w=np.ones(3))
    adam = optim.Adam(0.1)
    new, state = adam.update(params, params)
    newer, after = adam.update(new, params, state)
    for a, b in ((params, new), (new, newer), (state["exp_avg"], after["exp_avg"])):
        assert not np.shares_memory(a["w"], b["w"])
    assert (int(state["step"]), int(after["step"])) == (1, 2)
    assert params["w"][0] == 1


def test_a_step_that_fails_changes_nothing():
    for cls, (spoil, message) in itertools.product(
        [optim.Adam, lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.5)],
        [
            (
                lambda p: setattr(p, "grad", np.ones(7)),
                r"grad of parameter 2 of group 0 must have its shape, \(2, 3\)",
            ),
            (lambda p: setattr(p, "grad", "none"), "must be an array of floating numbers, got str"),
            (lambda p: setattr(p, "grad", np.ones((2, 3), int)), "must be an array of floating numbers"),
            (lambda p: p.data.setflags(write=False), "parameter 2 of group 0 is read-only"),
        ],
    ):
        with noting(cls, spoil, message):
            params = parameters()
            optimizer = cls(params)
            spoil(params[2])
            raises(ValueError, message, optimizer.step)
            assert not optimizer.state
            assert all((param.data == 1).all() for param in params)


@each_case(
    ("cls", "keywords"),
    (
        (optim.Adam, {}),
        (optim.SGD, {"momentum": 0.9, "dampening": 0.5}),
        (optim.RMSprop, {"momentum": 0.5}),
    ),
)
def test_an_option_that_is_refused_late_changes_nothing(cls, keywords):
    params, others = parameters(), parameters()
    optimizer, other = (
        cls([{"params": p[:1]}, {"params": p[1:]}], lr=0.1, **keywords) for p in (params, others)
    )
    optimizer.param_groups[1]["lr"] = None
    with pytest.raises(TypeError):
        optimizer.step()
    assert not optimizer.state
    assert all((param.data == 1).all() for param in params)
    optimizer.param_groups[1]["lr"] = 0.1
    for _ in range(2):
        optimizer.step()
        other.step()
    for param, wanted in zip(params, others, strict=True):
        np.testing.assert_array_equal(param.data, wanted.data)


def test_what_arithmetic_made_a_scalar():
    p = nn.Parameter(np.float32(1))
    p.data, p.grad = p.data * 2, np.asarray(np.float32(3)) * 2
    optim.SGD([p], 0.25).step()
    assert p.data == 0.5


def test_closures():
    param = nn.Parameter(np.array([3.0]))
    sgd = optim.SGD([param], lr=0.25)

    def closure():
        sgd.zero_grad()
        param.grad = 2 * param.data
        return float(param.data[0] ** 2)

    assert [sgd.step(closure) for _ in range(3)] == [9.0, 2.25, 0.5625]


def network():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    return net.apply(lambda m: m.reset_parameters(0) if isinstance(m, nn.Linear) else None)


@each_case("cls", OPTIMIZERS)
def test_both_ways_learn_the_same(cls):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 3)).astype(np.float32)
    y = np.sin(x.sum(-1, keepdims=True))
    torchs, own = network(), network()
    params, state = TensorDict.from_module(own), None
    optimizer, functions = cls(torchs.parameters(), lr=0.01), cls(0.01)

    def loss(params):
        with params.to_module(own):
            return ((own(x) - y) ** 2).mean()

    def closure():
        optimizer.zero_grad()
        error = ((torchs(x) - y) ** 2).mean()
        error.backward()
        return error

    losses = []
    for _ in range(5):
        value, grads = lite.value_and_grad(loss)(params)
        params, state = functions.update_(params, grads, state)
        losses.append(float(value))
        assert optimizer.step(closure).item() == pytest.approx(losses[-1], rel=1e-4)
    assert losses[-1] < losses[0]
    for ours, other in zip(own.parameters(), torchs.parameters(), strict=True):
        np.testing.assert_allclose(ours.data, other.data, rtol=1e-4, atol=1e-5)


def test_zero_grad():
    params = parameters()
    sgd = optim.SGD(params, lr=0.1)
    sgd.zero_grad(set_to_none=False)
    assert all((param.grad == 0).all() for param in params)
    sgd.zero_grad()
    assert all(param.grad is None for param in params)


def test_repr():
    text = repr(optim.SGD(parameters(), lr=0.1))
    assert text.startswith("SGD (\n")
    assert "lr: 0.1" in text
    assert "params" not in text
    assert "lr: 0.5" in repr(optim.SGD(lr=0.5))


def test_copies_and_pickles():
    adam = optim.Adam(0.1, betas=(0.5, 0.9))
    params = TensorDict(w=np.ones(2))
    for other in (pickle.loads(pickle.dumps(adam)), copy.deepcopy(adam)):
        np.testing.assert_array_equal(
            other.update(params, params)[0]["w"], adam.update(params, params)[0]["w"]
        )


def test_several_optimisers_as_one() -> None:
    params = [nn.Parameter(np.ones(2)) for _ in range(3)]
    made = [optim.SGD([p], lr=lr) for p, lr in zip(params, (0.1, 0.2, 0.3), strict=True)]
    grouped = optim.group_optimizers(made[0], None, *made[1:])
    for param in params:
        param.grad = np.ones(2)
    grouped.step()
    np.testing.assert_allclose([p.data[0] for p in params], [0.9, 0.8, 0.7])
    for wrong, error, message in (
        ([], TypeError, "must have one that is not None"),
        ([made[0], optim.Adam([params[1]])], ValueError, r"of one class, got \['Adam', 'SGD'\]"),
        ([made[0], optim.SGD(0.1)], ValueError, "over parameters, got a SGD without any"),
        ([made[0], made[0]], ValueError, "appear more than once"),
    ):
        raises(error, message, optim.group_optimizers, *wrong)


@pytest.mark.parametrize("name", MAPPED)
def test_a_mapped_step_is_that_of_each_element(name: str) -> None:
    optimizer, rng = MAPPED[name], np.random.default_rng(0)
    params = TensorDict(w=rng.normal(size=(4, 3)), b=rng.normal(size=4), batch_size=[4])
    state = stack([optimizer.init(params[i]) for i in range(4)])
    state["step"][:] = np.arange(4)

    def step(params: Any, state: Any, scale: Any) -> Any:
        value, grads = lite.value_and_grad(lambda p: (np.sin(p["w"]) * scale * p["b"]).sum())(params)
        grads, norm = optim.clip_grad_norm(grads, 0.5)
        return value, norm, *optimizer.update(params, optim.clip_grad_value(grads, 0.3), state)

    args = params, state, np.arange(1.0, 5.0)
    alone = [step(*(x[i] for x in args)) for i in range(4)]
    for mapped in (lite.vmap(step), lite.jit(lite.vmap(step))):
        value, norm, new, states = mapped(*args)
        for i, (one, size, p, s) in enumerate(alone):
            np.testing.assert_allclose([value[i], norm[i]], [one, size], rtol=1e-12)
            assert_close(new[i], p, rtol=1e-9)
            assert_close(states[i], s, rtol=1e-9)


def test_parameters_that_vmap_does_not_map() -> None:
    params, owned = TensorDict(w=np.ones(3)), [nn.Parameter(np.ones(3)) for _ in range(2)]
    optimizer = optim.Adam([{"params": [param]} for param in owned])

    def stepped(x: Any) -> None:
        owned[0].grad, owned[1].grad = np.ones(3), x
        optimizer.step()

    for step in (
        lambda x: optim.SGD(0.1).update(params, TensorDict(w=x)),
        lambda x: optim.SGD(x[0]).update(params, params),
        stepped,
    ):
        with pytest.raises(ValueError, match="pass them to update as an argument, too"):
            lite.vmap(step)(np.ones((2, 3)))
    assert not optimizer.state
    assert all((param.data == 1).all() for param in owned)
