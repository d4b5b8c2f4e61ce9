"""Training steps in torch's style as graphs: what they leave in the objects that they name."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.training_states import Wrap, check, learner, same_in_graphs, states, transitions

import lite
from lite import TensorDict, nn, optim
from lite.models import OnnxModule
from lite.nn.losses import DQNLoss, HardUpdate, SoftUpdate

RNG = np.random.default_rng(1)
BATCHES = [
    (RNG.normal(size=(8, 3)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)) for _ in range(5)
]


@pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])
@same_in_graphs
def test_targets_follow(wrap: Wrap, hard: bool) -> Any:
    actor = nn.QValueActor(nn.Linear(3, 2, rng=0), action_space="categorical")
    loss = DQNLoss(actor, delay_value=True)
    targets: Any = SoftUpdate(loss, tau=0.1)
    if hard:
        targets = HardUpdate(loss, value_network_update_interval=2)
    learn = learner(lambda batch: loss(batch)["loss"], optim.Adam(loss.parameters(), lr=1e-2))
    update = wrap(lambda batch: (learn(batch), targets.step())[0])
    found = [update(transitions(x)) for x, _ in BATCHES]
    assert not hard or targets.counter == 2
    assert not hard or type(targets.counter) is int
    return found, loss.state_dict()


def test_methods_and_loaded_states() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = nn.Linear(3, 2, rng=0)
            self.optimizer = optim.Adam(self.net.parameters(), lr=1e-2)

        def update(self, x: Any, y: Any) -> Any:
            loss = ((self.net(x) - y) ** 2).mean()
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            return loss.detach()

    plain, stepped = Trainer(), Trainer()
    update = lite.jit(stepped.update, threads=1)
    saved: list[Any] = []
    with lite.enable_grad():  # of the caller
        for number in range(6):
            batch = BATCHES[number % 5]
            np.testing.assert_allclose(update(*batch), plain.update(*batch), rtol=1e-5)
            if number == 1:
                saved = [
                    {k: np.array(v) for k, v in stepped.net.state_dict().items()},
                    stepped.optimizer.state_dict(),
                ]
                saved[1]["state"] = {
                    i: {k: np.array(v) for k, v in one.items()} for i, one in saved[1]["state"].items()
                }
            if number == 3:
                for one in (plain, stepped):
                    one.net.load_state_dict(saved[0])
                    one.optimizer.load_state_dict(saved[1])
    check(states(stepped.net, stepped.optimizer), states(plain.net, plain.optimizer))
    assert stepped.optimizer.state_dict()["state"][0]["step"] == 4


def test_two_steps_share_parameters() -> None:
    net = nn.Linear(3, 2, rng=0)
    ours, others = optim.SGD(net.parameters(), lr=1e-1), optim.SGD([net.bias], lr=1.0)

    learn = lite.jit(learner(lambda x: (net(x) ** 2).mean(), ours), threads=1)
    shift = lite.jit(learner(lambda: net.bias.sum(), others), threads=1)
    bias = np.array(net.bias.data)
    shift()
    np.testing.assert_allclose(net.bias.data, bias - 1, rtol=1e-6)
    learn(np.zeros((4, 3), np.float32))
    np.testing.assert_allclose(net.bias.data, (bias - 1) * 0.9, rtol=1e-6)
    net.bias.data[...] = 2
    learn(np.zeros((2, 3), np.float32))
    np.testing.assert_allclose(net.bias.data, 1.8, rtol=1e-6)


@same_in_graphs
def test_a_learning_rate_that_a_step_changes_in_place(wrap: Wrap) -> Any:
    """And gradients of a parameter without dimensions."""
    net, scale = nn.Linear(3, 2, rng=0), nn.Parameter(np.ones(()))
    adam = optim.Adam([*net.parameters(), scale], lr=0.1)

    @wrap
    @lite.enable_grad()
    def step(x: Any) -> Any:
        (net(x) * scale).sum().backward()
        optim.clip_grad_norm_([scale], 0.1)
        gradient = scale.grad
        gradient *= 0.5
        assert gradient is scale.grad
        adam.step()
        adam.zero_grad()
        adam.param_groups[0]["lr"] *= 0.5

    for x, _ in BATCHES:
        step(x)
    return net.state_dict(), scale.data, adam.param_groups[0]["lr"]


@same_in_graphs
def test_what_else_a_step_does(wrap: Wrap) -> Any:
    """Hooks, dropout, writes under `no_grad`, and a step within a graph."""
    net = nn.Sequential(nn.Linear(3, 3, rng=0), nn.Dropout(0.5, rng=0), nn.Linear(3, 2, rng=1))
    net[0].weight.register_hook(lambda gradient: 2 * gradient)

    @wrap
    def step(x: Any) -> Any:
        with lite.enable_grad():
            loss = (net(x) ** 2).mean()
        loss.backward()
        with lite.no_grad():
            for param in net.parameters():
                param -= 0.1 * param.grad
                param.grad = None
        return loss.detach()

    twice = wrap(lambda x: step(x) + step(x))
    return [step(x) for x, _ in BATCHES], [twice(x) for x, _ in BATCHES], net.state_dict()


def test_buffers_are_shared_with_what_a_step_does_not_name() -> None:
    net = nn.Sequential(nn.Linear(3, 4, rng=0), nn.BatchNorm1d(4), nn.Linear(4, 2, rng=1))
    loss = DQNLoss(nn.QValueActor(net, action_space="categorical"), delay_value=False)
    optimizer = optim.SGD(loss.parameters(), lr=1e-2)

    update = lite.jit(learner(lambda batch: loss(batch)["loss"], optimizer), threads=1)
    for x, _ in BATCHES:
        update(transitions(x))
    state = loss.value_network_params
    assert net[1].num_batches_tracked >= 5
    for name in ("running_mean", "running_var"):
        assert (getattr(net[1], name) != float(name == "running_var")).all()
        np.testing.assert_array_equal(getattr(net[1], name), state["module", "0", "module", "1", name])
    np.testing.assert_array_equal(net[0].weight.data, state["module", "0", "module", "0", "weight"])


@same_in_graphs
def test_what_shares_the_memory_of_parameters_follows_them(wrap: Wrap) -> Any:
    """As the frozen critics of TD-MPC2: in a module, in a TensorDict, and as an array."""
    net = nn.Linear(3, 2, rng=0)
    net.frozen = nn.TensorDictParams(TensorDict.from_module(net).data, no_convert=True)
    shared, bias = TensorDict.from_module(net).data, net.bias.data
    learn = learner(lambda x: (net(x) ** 2).mean(), optim.SGD(net.parameters(), lr=1e-2))

    @wrap
    def step(x: Any) -> Any:
        learn(x)
        return net.weight + 1, net.frozen["weight"] + 1, shared["weight"] + 1, bias + 1

    found = [step(x) for x, _ in BATCHES]
    for weight, frozen, of_shared, of_bias in found[-1:]:
        for one in (frozen, of_shared, shared["weight"] + 1, net.frozen["weight"] + 1):
            np.testing.assert_array_equal(one, weight)
        np.testing.assert_array_equal(of_bias, net.bias.data + 1)
    return found, net.state_dict(), shared, bias


def test_names_that_stand_for_other_objects() -> None:
    net, x = nn.Linear(3, 2, rng=0), BATCHES[0][0]
    optimizer = optim.SGD(net.parameters(), lr=1e-2)

    @lite.jit(threads=1)
    @lite.enable_grad()
    def step(x: Any) -> None:
        (net(x) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step(x)
    first, net = net, nn.Linear(3, 2, rng=1)
    optimizer = optim.SGD(net.parameters(), lr=1e-2)
    before, other = np.array(first.weight.data), np.array(net.weight.data)
    step(x)
    np.testing.assert_array_equal(first.weight.data, before)
    assert (net.weight.data != other).any()


def test_modules_whose_parts_are_replaced() -> None:
    net, x = nn.Sequential(nn.Linear(3, 3, rng=0), nn.Linear(3, 2, rng=1)), BATCHES[0][0]
    optimizer = optim.SGD(net.parameters(), lr=1e-2)
    step: Any = lite.jit(learner(lambda x: (net(x) ** 2).mean(), optimizer), threads=1)
    applied = lite.jit(lambda x: net(x), threads=1)
    step(x)
    applied(x)
    nn.Linear(2, 2)  # of no matter
    step(x)
    assert len(step._stateful[1]._kept) == 1
    net[1] = nn.Linear(3, 4, rng=2)
    optimizer.add_param_group({"params": net[1].parameters()})
    before, other = np.array(net[1].weight.data), np.array(net[0].weight.data)
    step(x)
    assert (net[1].weight.data != before).any()
    assert (net[0].weight.data != other).any()
    assert applied(x).shape == (8, 4)
    del net[1]
    np.testing.assert_array_equal(applied(x), lite.jit(net, threads=1)(x))


@pytest.mark.parametrize("order", ["first", "last", "read", "added"])
@same_in_graphs
def test_gradients_from_before(wrap: Wrap, order: str) -> Any:
    """They are no inputs where the step clears them, and it may find out what they are."""
    net = nn.Linear(3, 2, rng=0)
    optimizer = optim.SGD([net.weight], lr=1e-2)  # the bias's gradients are left, and add up

    @wrap
    @lite.enable_grad()
    def step(x: Any) -> Any:
        norm = np.float32(0)
        if order == "read" and net.weight.grad is not None:
            norm = (net.weight.grad**2).sum()
        if order == "added":
            net(x).sum().backward()
        if order != "last":
            optimizer.zero_grad()
        (net(x) ** 2).mean().backward()
        optimizer.step()
        if order == "last":
            optimizer.zero_grad()
        return norm

    found = []
    for number, (x, _) in enumerate(BATCHES):
        found.append(step(x))
        if number == 2:
            net.weight.grad = np.ones((2, 3), np.float32)
        if number == 3:
            net.weight.grad = net.bias.grad = None
    return found, states(net, optimizer)


@same_in_graphs
def test_a_parameter_that_begins_later(wrap: Wrap) -> Any:
    """A step of it is counted from 0, in the mode that makes one."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 2, rng=0), nn.Linear(3, 2, rng=1)

        def forward(self, x: Any) -> Any:
            return self.one(x) if self.training else self.two(x)

    net = Network()
    optimizer = optim.Adam(net.parameters(), lr=1e-2)
    saved = optimizer.state_dict()

    @wrap
    @lite.enable_grad()
    def step(x: Any) -> None:
        optimizer.zero_grad()
        (net(x) ** 2).mean().backward()
        optimizer.step()

    for number, training in enumerate([True, True, False, False, True, False]):
        step(BATCHES[number % 5][0]) if net.train(training) else None
    optimizer.load_state_dict(saved)  # without a state, as before the first step
    for training in (False, True, False):
        net.train(training)
        step(BATCHES[0][0])
    found = states(net, optimizer)
    assert (found["step 0"], found["step 2"]) == (1, 2)
    return found


def test_a_trained_network_goes_on(tmp_path: Path) -> None:
    """Saved, loaded, trained on, and exported: as without a graph."""

    def made() -> tuple[Any, Any, Any]:
        net = nn.Sequential(nn.Linear(3, 4, bias=False, rng=0), nn.BatchNorm1d(4), nn.Linear(4, 2, rng=1))
        optimizer = optim.Adam(net.parameters(), lr=1e-2)
        return net, optimizer, learner(lambda x, y: ((net(x) - y) ** 2).mean(), optimizer)

    net, optimizer, step = made()
    stepped = lite.jit(step, threads=1)
    for batch in BATCHES[:2]:
        stepped(*batch)
    TensorDict({"net": TensorDict(net.state_dict())}).memmap(tmp_path / "net")
    other, its_optimizer, plain = made()
    other.load_state_dict(TensorDict.load_memmap(tmp_path / "net")["net"].to_dict())
    its_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for batch in BATCHES[2:]:
        np.testing.assert_allclose(stepped(*batch), plain(*batch), rtol=1e-5)
    x = BATCHES[0][0]
    exported = OnnxModule(net.eval().to_onnx(tmp_path / "net.onnx", x))
    np.testing.assert_allclose(exported(x), other.eval()(x), rtol=1e-4, atol=1e-5)


def test_gradients_add_up() -> None:
    net, other = nn.Linear(3, 2, rng=0), nn.Linear(3, 2, rng=0)

    def backward(net: Any, x: Any) -> None:
        with lite.enable_grad():
            (net(x) ** 2).mean().backward()

    step = lite.jit(lambda x: backward(net, x), threads=1)
    for x, _ in BATCHES[:3]:
        step(x)
        backward(other, x)
        np.testing.assert_allclose(net.weight.grad, other.weight.grad, rtol=1e-5)
        np.testing.assert_array_equal(net.weight.data, other.weight.data)
    assert net.bias.grad.shape == (2,)


def test_a_step_without_gradients_is_told_where_they_are_noted() -> None:
    net = nn.Linear(3, 2, rng=0)

    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match=r"no gradient: compute it inside `with lite.enable_grad\(\):`"):
        lite.jit(step)(BATCHES[0][0])
    with lite.enable_grad():
        lite.jit(step)(BATCHES[0][0])
    assert net.weight.grad is not None


@same_in_graphs
def test_running_statistics_without_an_optimiser(wrap: Wrap) -> Any:
    net = nn.Sequential(nn.Linear(3, 4, rng=0), nn.BatchNorm1d(4), nn.Linear(4, 1, rng=1))
    params = TensorDict.from_module(net).data.clone().select("0", "2")

    def update(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            with params.to_module(net):
                return (net(x) ** 2).mean()

        value, grads = lite.value_and_grad(loss)(params)
        return value, params - 0.1 * grads

    forward, update, found = wrap(lambda x: net(x)), wrap(update), []
    for number in (0, 1, 2):
        x = BATCHES[number][0]
        value, params = update(params, x)
        found += [value, params["2", "weight"], forward(x), np.array(net[1].running_var)]
        net.train(number == 0)
    return [*found, net[1].num_batches_tracked]


class Centred(nn.Module):
    """A layer as torch's users write one, that subtracts a running mean: buffers written in place or anew."""

    def __init__(self, in_place: bool = False) -> None:
        super().__init__()
        self.layer, self.in_place = nn.Linear(3, 2, rng=0), in_place
        self.register_buffer("count", np.zeros((), np.int64))
        self.register_buffer("mean", np.zeros(3, np.float32))

    def forward(self, x: Any) -> Any:
        before = self.mean.copy()
        if self.in_place:
            self.mean *= np.float32(0.9)
            self.mean += np.float32(0.1) * x.mean(0)
            self.count += 1
        else:
            self.mean = self.mean + (x.mean(0) - self.mean) / (self.count + 1)
            self.count = self.count + 1
        return self.layer(x - self.mean) / self.count + before[:2]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("learns", [True, False])
@same_in_graphs
def test_buffers_that_a_layer_writes(wrap: Wrap, learns: bool, in_place: bool) -> Any:
    net = Centred(in_place)
    step = learner(lambda x: (net(x) ** 2).mean(), optim.SGD(net.parameters(), lr=1e-2))
    step = wrap(step if learns else lambda x: net(x))
    found = [step(x) for x, _ in BATCHES], net.state_dict()
    assert net.count == 5
    return found


def test_buffers_that_cannot_be_assigned() -> None:
    net = Centred()

    def reshaped(x: Any, y: Any) -> Any:
        net.mean = x.mean()
        return net.layer(x).sum()

    x = BATCHES[0][0]
    alone = lite.jit(lambda x: setattr(net, "mean", x.mean()))  # without a gradient or an optimiser
    for step in (
        lambda: lite.jit(learner(reshaped, optim.SGD(net.parameters())))(*BATCHES[0]),
        lambda: alone(x),
    ):
        raises(RuntimeError, r"gives the buffer 'mean' of shape \(3,\) the shape \(\)", step)
        assert (net.mean == 0).all()
    with lite.enable_grad(), pytest.raises(TypeError, match=r"a gradient is one as x.detach\(\)"):
        net.mean = net.layer.weight[0] * 2


def test_an_empty_batch() -> None:
    """The loss is NumPy's NaN, and what learns stays."""
    net = nn.Linear(3, 2, rng=0)
    optimizer = optim.SGD(net.parameters(), lr=0.1)

    learn = learner(lambda x: (net(x) ** 2).mean(), optimizer)
    step = lite.jit(lambda x: (learn(x), x.sum()), threads=1)
    step(BATCHES[0][0])
    before = net.weight.data.copy()
    loss, total = step(np.zeros((0, 3), np.float32))
    assert np.isnan(loss)
    assert total == 0
    np.testing.assert_array_equal(net.weight.data, before)
    assert np.isfinite(step(BATCHES[1][0][:5])[0])


PARAMETER_SECOND = {
    "operator": lambda x, p: x @ p,
    "function": lambda x, p: np.concatenate([x, p]),
    "three operands": lambda x, p: np.where(x > 0, x, p),
    "custom derivative": lambda x, p: _scaled(x, p),
}


@lite.custom_vjp
def _scaled(x: Any, p: Any) -> Any:
    return x * p


_scaled.defvjp(lambda x, p: (x * p, (x, p)), lambda kept, g: (g * kept[1], g * kept[0]))


@pytest.mark.parametrize("name", PARAMETER_SECOND)
@same_in_graphs
def test_a_parameter_behind_an_array_is_learnt(wrap: Wrap, name: str) -> Any:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(np.eye(3, dtype=np.float32))
            self.out = nn.Linear(3, 2, rng=0)

        def forward(self, x: Any) -> Any:
            return self.out(PARAMETER_SECOND[name](x, self.table))

    net = Layer()
    update = wrap(learner(lambda x: (net(x) ** 2).sum(), optim.SGD(net.parameters(), lr=0.1)))
    for x, _ in BATCHES[:2]:
        update(x[:3])
    assert not np.array_equal(net.table.data, np.eye(3))
    return net.state_dict()


def test_a_parameter_is_not_written_into_an_array_without_its_gradient() -> None:
    net = nn.Linear(3, 3, rng=0)

    @lite.jit
    @lite.enable_grad()
    def update(x: Any) -> None:
        x[...] = net.weight
        net(x).sum().backward()

    with pytest.raises(NotImplementedError, match="what grad or vmap computes into an array from outside"):
        update(np.ones((3, 3), np.float32))


def test_what_a_graph_would_not_change_is_refused() -> None:
    net = nn.Linear(3, 2, rng=0)
    net.calls = 0
    optimizer = optim.SGD(net.parameters(), lr=1e-1)
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)

    step = learner(lambda x: (net(x) ** 2).mean(), optimizer)

    def counted(x: Any) -> None:
        step(x)
        net.calls += 1

    def scheduled(x: Any) -> None:
        step(x)
        schedule.step()

    x, weight = BATCHES[0][0], np.array(net.weight.data)
    raises(RuntimeError, "the function changes calls of a Linear", lite.jit(counted), x)
    raises(RuntimeError, "the function changes lr of an optimiser", lite.jit(scheduled), x)
    assert net.calls == 0
    assert schedule.last_epoch == 0
    net.twin = nn.Parameter(net.weight.data)
    raises(RuntimeError, "two parameters have one memory", lite.jit(step), x)
    del net.twin
    view = net.weight.data.T
    raises(RuntimeError, "view is a view of a parameter", lite.jit(lambda x: (step(x), view.sum())), x)
    net.row = nn.Parameter(net.weight.data[0])
    raises(RuntimeError, "a parameter is a view of a parameter", lite.jit(step), x)
    del net.row
    net.register_buffer("turned", net.weight.data.T)
    raises(RuntimeError, "the buffer 'turned' is a view of a parameter", lite.jit(step), x)
    del net.turned
    net.one, net.same = (nn.Parameter(weight, requires_grad=False) for _ in range(2))  # nothing moves them
    assert net.weight.grad is None
    np.testing.assert_array_equal(net.weight.data, weight)
    assert lite.jit(step).graph(x).operators["MatMul"] >= 1
    with pytest.warns(UserWarning, match="counted runs without a graph"):
        lite.jit(counted, fallback=True)(x)
    assert net.calls == 1


@same_in_graphs
def test_arrays_of_parameters_that_a_function_writes_without_an_optimiser(wrap: Wrap) -> Any:
    net, average, copied = (nn.Linear(3, 2, rng=seed) for seed in range(3))
    scale = nn.Parameter(np.ones(2))

    @wrap
    def update(x: Any) -> Any:
        for param, mean in zip(net.parameters(), average.parameters(), strict=True):
            mean.data *= np.float32(0.9)
            mean.data += np.float32(0.1) * param.data
        average.bias.data[...] = net.bias.data * 2
        net.bias.data = net.bias.data + 1
        scale.data = scale.data * 0.5
        copied.load_state_dict(average.state_dict())
        return average(x) * scale

    return [update(x) for x, _ in BATCHES], scale.data, [one.state_dict() for one in (net, average, copied)]


@same_in_graphs
def test_parameters_that_a_function_writes_by_their_methods(wrap: Wrap) -> Any:
    net, average = nn.Linear(3, 2, rng=0), nn.Linear(3, 2, rng=1)

    @wrap
    def update(x: Any) -> Any:
        average.weight.copy_(net.weight)
        average.bias *= 0.5
        net.bias[:] = net.bias + average.bias
        return average(x)

    return [update(x) for x, _ in BATCHES], net.state_dict(), average.state_dict()


@pytest.mark.parametrize("learns", [True, False])
@same_in_graphs
def test_parameters_that_only_a_tensordict_names(wrap: Wrap, learns: bool) -> Any:
    """An average of weights, whose module the step does not name: with an optimiser in the step, or none."""
    nets = [nn.Sequential(nn.Linear(3, 2, rng=seed)) for seed in range(3)]
    weights, average, copied = (TensorDict.from_module(net) for net in nets)
    net = nets[0]
    optimizers = [optim.SGD(net.parameters(), lr=0.1)] if learns else []

    @wrap
    def update(x: Any) -> Any:
        for optimizer in optimizers:
            optimizer.zero_grad()
            with lite.enable_grad():
                net(x).sum().backward()
            optimizer.step()
        average.data.lerp_(weights.data + x[0, 0], 0.5)
        copied.data.update_(average.data)
        return x * 2

    return [update(x) for x, _ in BATCHES], [net.state_dict() for net in nets]


def test_arrays_that_are_no_arguments_and_that_a_function_writes_are_refused() -> None:
    count, table, kept = np.zeros(2), {"rows": np.ones(3)}, TensorDict(rows=np.ones(3))
    large = np.zeros(1 << 14)

    def counts(x: Any) -> Any:
        np.add(count, 1, out=count)
        return x + count

    def writes(x: Any) -> Any:
        table["rows"] *= 2
        return x * table["rows"]

    def fills(x: Any) -> Any:
        large.fill(1)
        return x + large[0]

    raises(RuntimeError, "writes to an array from elsewhere, .* pass it as an argument", lite.jit(fills), 1.0)
    large[0] = 0.0
    assert not large.any()
    for in_place in (
        lambda x: kept.data.lerp_(TensorDict(rows=x + kept["rows"]), 0.5),
        lambda x: kept.copy().update_({"rows": x + kept["rows"]}),
        lambda x: kept.data.set_("rows", x + kept["rows"]),
    ):
        with pytest.raises(RuntimeError, match=r"to an array from elsewhere, .* pass it as an argument"):
            lite.jit(lambda x, in_place=in_place: in_place(x)["rows"])(np.ones(1))
    np.testing.assert_array_equal(kept["rows"], 1)
    for function, name in ((counts, "count"), (writes, "table.rows")):
        with pytest.raises(RuntimeError, match=f"the function writes to {name}, .* pass it as an argument"):
            lite.jit(function)(np.ones(1))
        with pytest.warns(UserWarning, match=f"runs without a graph: .* writes to {name}"):
            lite.jit(function, fallback=True)(np.ones(1))
    np.testing.assert_array_equal(count, [1, 1])
    np.testing.assert_array_equal(table["rows"], [2, 2, 2])


@pytest.mark.parametrize("in_place", [True, False])
def test_a_saved_step_writes_buffers(tmp_path: Path, in_place: bool) -> None:
    plain, saved = Centred(in_place), Centred(in_place)
    lite.jit(lambda x: saved(x)).lower(BATCHES[0][0]).save(tmp_path / "step.onnx")
    loaded = lite.load_step(tmp_path / "step.onnx")
    check([loaded(x) for x, _ in BATCHES], [plain(x) for x, _ in BATCHES])
