"""Steps in torch's style as files: written at a desk, learnt with elsewhere, put back into the modules."""

import copy
import functools
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import training_states
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.training_states import transitions

import lite
from lite import TensorDict, nn, optim
from lite.nn.losses import ClipPPOLoss, DQNLoss, HardUpdate, SoftUpdate

RNG = np.random.default_rng(1)
BATCHES = [
    (RNG.normal(size=(8, 3)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32))
    for _ in range(20)
]

DESK = """
import numpy as np
import lite
from lite import nn, optim

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.MLP(3, 2, num_cells=[8], activation_class=nn.Tanh, layer_kwargs={"rng": 0})

    def forward(self, x):
        return self.body(x)

policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)

@lite.enable_grad()
def learn(x, y):
    loss = ((policy(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()

rng = np.random.default_rng(0)
batches = [(rng.normal(size=(n, 3)).astype(np.float32), rng.normal(size=(n, 2)).astype(np.float32))
           for n in (8, 5) * 10]
"""

WRITES = (
    DESK
    + """
lite.jit(learn, threads=1).lower(*batches[0]).save("step.onnx")
losses = [learn(*batch) for batch in batches]
step = optimizer.state[policy.body[0].weight]["step"]
np.savez("plain.npz", losses=losses, step=step, **policy.state_dict())
np.savez("batches.npz", *[array for batch in batches for array in batch])
"""
)

LEARNS = """
import sys
import numpy as np
import lite

with np.load("batches.npz") as found:
    arrays = list(found.values())
batches = list(zip(arrays[::2], arrays[1::2]))
step = lite.load_step("step.onnx", threads=1)
losses = [step(*batch) for batch in batches[:10]]
step.state.save("half.npz")                    # and the device is switched off
again = lite.load_step("step.onnx", threads=1)
again.state.update_(lite.TensorDict.load("half.npz"))
losses += [again(*batch) for batch in batches[10:]]
np.save("losses.npy", losses)
again.state.save("learnt.npz")
assert sorted(again.state.keys()) == ["optimizer", "policy"]
assert not {"onnx", "torch", "lite.nn", "lite.optim", "__desk__"} & set(sys.modules), sorted(sys.modules)
"""

RETURNS = (
    DESK
    + """
learnt = lite.TensorDict.load("learnt.npz")
print(policy.load_state_dict(learnt["policy"]))
optimizer.load_state_dict(learnt["optimizer"])
np.savez("returned.npz", action=policy(batches[0][0]), loss=learn(*batches[0]), **policy.state_dict())
"""
)


@pytest.mark.processes
def test_written_at_a_desk_learnt_on_a_device_and_put_back(tmp_path: Path) -> None:
    for program in (WRITES, LEARNS, RETURNS):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120, cwd=tmp_path)
    plain, returned = (dict(np.load(tmp_path / f"{name}.npz")) for name in ("plain", "returned"))
    np.testing.assert_allclose(np.load(tmp_path / "losses.npy"), plain["losses"], rtol=1e-5)
    assert returned["loss"] < plain["losses"][0]
    assert int(plain["step"]) == 20
    space: dict[str, Any] = {}
    exec(DESK, space)  # the plain form, at the same place
    for batch in space["batches"]:
        space["learn"](*batch)
    policy, first = space["policy"], space["batches"][0]
    want = {"action": policy(first[0]), "loss": space["learn"](*first), **policy.state_dict()}
    assert_same(returned, want, rtol=1e-4, atol=1e-5)


Made = tuple[Callable[..., Any], dict[str, Any]]  # a step, and what it names


def learner(net: Any, *optimizers: Any) -> Callable[..., Any]:
    return training_states.learner(lambda x, y: ((net(x) - y) ** 2).mean(), *optimizers)


def layers(*between: Any, bias: bool = True) -> Any:
    return nn.Sequential(nn.Linear(3, 4, bias, rng=0), *between, nn.Linear(4, 2, rng=1))


def two_optimizers() -> Made:
    net = layers(nn.Tanh())
    one = optim.RMSprop(net[0].parameters(), lr=1e-2, momentum=0.9)
    two = optim.AdamW([{"params": [net[2].weight]}, {"params": [net[2].bias], "lr": 1e-3}])
    return learner(net, one, two), {"net": net, "optimizers.0": one, "optimizers.1": two}


def of_one(net: Any, make: Callable[..., Any], **options: Any) -> Made:
    optimizer = make(net.parameters(), **options)
    return learner(net, optimizer), {"net": net, "optimizers.0": optimizer}


def tied() -> Made:
    net = nn.Sequential(nn.Linear(3, 3, rng=0), nn.Tanh(), nn.Linear(3, 3, rng=1), nn.Linear(3, 2, rng=2))
    net[2].weight = net[0].weight
    return of_one(net, optim.Adam, lr=1e-2)


def begun() -> Made:
    """An optimiser that is not at its first step."""
    step, objects = of_one(layers(), optim.SGD, lr=1e-1, momentum=0.9, dampening=0.5)
    step(*BATCHES[0])
    return step, objects


CASES: dict[str, Callable[[], Made]] = {
    "two optimisers": two_optimizers,
    "AMSGrad": lambda: of_one(layers(nn.Tanh()), optim.Adam, lr=1e-2, amsgrad=True, weight_decay=0.1),
    "momentum": lambda: of_one(layers(), optim.SGD, lr=1e-1, momentum=0.9),
    "plain SGD": lambda: of_one(layers(), optim.SGD, lr=1e-1),
    "dampening": begun,
    "dropout": lambda: of_one(layers(nn.Dropout(0.5, rng=3)), optim.Adam, lr=1e-2),
    "BatchNorm": lambda: of_one(layers(nn.BatchNorm1d(4), bias=False), optim.Adam, lr=1e-2),
    "shared": tied,
    "float64": lambda: of_one(nn.Linear(3, 2, rng=0, dtype=np.float64), optim.Adam, lr=1e-2),
}


def saved(step: Callable[..., Any], folder: Path, *args: Any) -> Path:
    return lite.jit(step, threads=1).lower(*args).save(folder / "step.onnx")


def held(objects: dict[str, Any]) -> dict[str, Any]:
    """What objects hold, by the keys of a state."""
    found: dict[str, Any] = {}
    for name, one in objects.items():
        if isinstance(one, optim.Optimizer):
            state = one.state_dict()
            for i, entries in state["state"].items():
                found |= {f"{name} state.{i}.{key}": np.array(x) for key, x in entries.items()}
            found |= {f"{name} param_groups.{i}.lr": x["lr"] for i, x in enumerate(state["param_groups"])}
        else:
            found |= {f"{name} {key}": np.array(x) for key, x in one.state_dict().items()}
    return found


def check(state: TensorDict, want: dict[str, Any]) -> None:
    training_states.check({" ".join(key): x for key, x in state.items(True, True)}, want)


@pytest.mark.parametrize("name", CASES)
def test_twenty_steps(name: str, tmp_path: Path) -> None:
    step, objects = CASES[name]()
    before = held(objects)
    file = saved(step, tmp_path, *BATCHES[0])
    after = held(objects)
    assert_same(after, before)  # nothing was learnt at the desk
    rng = np.random.default_rng(3)
    loaded = lite.load_step(file, threads=1, generator=rng)
    for number, (x, y) in enumerate(BATCHES):
        n = 8 if number % 3 else 5  # other sizes than the traced one
        if number == 10:  # what a schedule does
            for key, one in objects.items():
                if isinstance(one, optim.Optimizer):
                    one.param_groups[0]["lr"] = 3e-3
                    loaded.state[key, "param_groups.0.lr"].fill(3e-3)
        if number == 15:  # a checkpoint, and another process
            loaded.state.save(tmp_path / "kept.npz")
            loaded = lite.load_step(file, threads=1, generator=rng)
            loaded.state.update_(TensorDict.load(tmp_path / "kept.npz"))
        np.testing.assert_allclose(loaded(x[:n], y[:n]), step(x[:n], y[:n]), rtol=1e-5)
    check(loaded.state, held(objects))
    _, others = CASES[name]()  # at the desk again
    for key, one in others.items():
        one.load_state_dict(loaded.state[key])
    check(loaded.state, held(others))


def q_learning() -> tuple[Any, dict[str, Any]]:
    actor = nn.QValueActor(layers(), action_space="categorical")
    loss = DQNLoss(actor, delay_value=True).make_value_estimator(gamma=0.9)
    adam = optim.Adam(loss.parameters(), lr=1e-2)
    soft, hard = SoftUpdate(loss, tau=0.1), HardUpdate(loss, value_network_update_interval=6)
    learn = training_states.learner(lambda batch: loss(batch)["loss"], adam)

    def update(batch: TensorDict) -> Any:
        value = learn(batch)
        soft.step()
        hard.step()
        return value

    return update, {"loss": loss, "optimizers.0": adam, "hard": hard}


def test_targets_follow_on_the_device(tmp_path: Path) -> None:
    update, objects = q_learning()
    loaded = lite.load_step(saved(update, tmp_path, transitions(BATCHES[0][0])), threads=1)
    for number, (x, _) in enumerate(BATCHES):
        batch = transitions(x[: 8 if number % 3 else 5])
        np.testing.assert_allclose(loaded(batch.clone()), update(batch.clone()), rtol=1e-4)
    hard = objects.pop("hard")
    assert loaded.state["hard", "counter"] == hard.counter == 20 % 7
    check(loaded.state, {**held(objects), "hard counter": hard.counter})
    other = q_learning()[1]["loss"]
    assert not any(other.load_state_dict(loaded.state["loss"]))
    assert held({"loss": other}).keys() == held({"loss": objects["loss"]}).keys()


def test_averages_that_only_a_tensordict_names_are_in_the_file_by_its_name(tmp_path: Path) -> None:
    net, kept = (nn.Sequential(nn.Linear(3, 2, rng=seed)) for seed in range(2))
    weights, average = lite.from_module(net), lite.from_module(kept)
    descend = training_states.learner(lambda x: net(x).sum(), optim.SGD(net.parameters(), lr=0.1))

    @lite.jit
    def learn(x: Any) -> Any:
        descend(x)
        average.data.lerp_(weights.data, 0.5)
        return x * 2

    x = np.ones((4, 3), np.float32)
    learn.lower(x).save(tmp_path / "learn.onnx")
    learner = lite.load_step(tmp_path / "learn.onnx")
    learner(x), learn(x)
    assert_same(dict(learner.state["average"]), dict(kept.state_dict()), rtol=1e-6)


def refused(step: Callable[..., Any], folder: Path, message: str) -> None:
    lowered = lite.jit(step, threads=1).lower(*BATCHES[0])
    assert lowered.graph.operators["MatMul"] >= 1
    raises(NotImplementedError, message, lambda: lowered.save(folder / "step.onnx"))
    assert list(folder.iterdir()) == []


def test_what_shares_the_memory_of_parameters_follows_them(tmp_path: Path) -> None:
    net = nn.Linear(3, 2, rng=0)
    net.frozen = nn.TensorDictParams(TensorDict.from_module(net).data, no_convert=True)
    learn = training_states.learner(lambda x: (net(x) ** 2).mean(), optim.SGD(net.parameters(), lr=1e-2))
    update = lite.jit(lambda x: (learn(x), net.frozen["weight"] + 1)[1])
    update.lower(BATCHES[0][0]).save(tmp_path / "step.onnx")
    loaded = lite.load_step(tmp_path / "step.onnx")
    for x, _ in BATCHES[:3]:
        np.testing.assert_allclose(loaded(x), update(x), rtol=1e-6)
    for name in ("weight", "bias"):
        np.testing.assert_array_equal(loaded.state["net", f"frozen.{name}"], loaded.state["net", name])


def test_what_is_no_file_says_why(tmp_path: Path) -> None:
    step, _ = of_one(layers(), optim.SGD, lr=1e-1, momentum=0.9, dampening=0.5)
    refused(
        step, tmp_path, r"learn .* the first step of optimizers\.0 is another graph .*: call it once before"
    )
    net = layers()
    adds_up = learner(net, optim.SGD([net[0].weight], lr=1e-2))
    before = r"gradients.* from before the call \(.*training_states.py, line \d+: .*back"
    refused(adds_up, tmp_path, "learn .* " + before)
    net.zero_grad()
    adds_up(*BATCHES[0])
    refused(adds_up, tmp_path, before)
    net, other = layers(), layers()
    both = optim.Adam([*net.parameters(), *other.parameters()], lr=1e-2)
    one, two = learner(net, both), learner(other, both)
    one(*BATCHES[0])
    two(*BATCHES[0])
    refused(one, tmp_path, r"parameters of optimizers\.0 that had as many steps get \{0, 1\} more")


def test_gradients_that_the_step_clears_first(tmp_path: Path) -> None:
    """They are results of the graph at the desk, and no state."""
    made = [(net := layers(), optim.Adam(net.parameters(), lr=1e-2)) for _ in range(2)]

    def step(net: Any, optimizer: Any, x: Any, y: Any) -> None:
        with lite.enable_grad():
            (net(x) ** 2).mean().backward()  # as a policy's loss adds to the gradients of a critic
            optimizer.zero_grad()
            ((net(x) - y) ** 2).mean().backward()
        optimizer.step()

    jitted = lite.jit(functools.partial(step, *made[0]), threads=1)
    jitted(*BATCHES[0])
    loaded = lite.load_step(jitted.lower(*BATCHES[0]).save(tmp_path / "step.onnx"), threads=1)
    step(*made[1], *BATCHES[0])
    for batch in BATCHES:
        step(*made[1], *batch)
        assert loaded(*batch) is None
    check(loaded.state, held(dict(zip(("net", "optimizer"), made[1], strict=True))))


def test_parameters_that_made_no_step_have_no_state(tmp_path: Path) -> None:
    """Zeros of theirs would be those of a step: the first one with dampening is another."""
    net = layers()
    net[0].requires_grad_(False)
    optimizer = optim.SGD(net.parameters(), lr=1e-2, momentum=0.9, dampening=0.5)
    step = learner(net, optimizer)
    step(*BATCHES[0])
    loaded = lite.load_step(lite.jit(step, threads=1).lower(*BATCHES[0]).save(tmp_path / "step.onnx"))
    for batch in BATCHES:
        loaded(*batch)
    optimizer.load_state_dict(loaded.state["optimizers.0"])
    assert set(optimizer.state_dict()["state"]) == {2, 3}


def test_the_file_has_what_is_held_when_it_is_written(tmp_path: Path) -> None:
    step, objects = of_one(layers(), optim.Adam, lr=1e-2)
    jitted = lite.jit(step, threads=1)
    lowered = jitted.lower(*BATCHES[0])
    for batch in BATCHES[:3]:
        jitted(*batch)
    loaded = lite.load_step(lowered.save(tmp_path / "step.onnx"), threads=1)
    check(loaded.state, held(objects))
    for batch in BATCHES[3:]:
        np.testing.assert_allclose(loaded(*batch), jitted(*batch), rtol=1e-5)
    check(loaded.state, held(objects))
    step, objects = of_one(layers(), optim.SGD, lr=1e-1, momentum=0.9, dampening=0.5)
    lowered = lite.jit(step, threads=1).lower(*BATCHES[0])
    step(*BATCHES[0])
    raises(NotImplementedError, "its objects have changed since lower", lowered.save, tmp_path / "other.onnx")


def test_names_of_objects(tmp_path: Path) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = layers()
            self.optimizer = optim.SGD([*self.net.parameters(), extra], lr=1e-2)

        def update(self, x: Any, y: Any) -> None:
            for loss in ((self.net(x) - y) ** 2, (self.net(x) - extra) ** 2):
                loss.mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    extra = nn.Parameter(np.ones(2, np.float32))
    first = Trainer()
    net = layers(nn.Tanh())
    net.register_buffer("seen", np.zeros((), np.float32), persistent=False)
    optimizer = optim.SGD(net.parameters(), lr=1e-2)

    method = lite.load_step(saved(lite.enable_grad()(first.update), tmp_path, *BATCHES[0]), threads=1)
    assert set(method.state.keys()) == {"net", "optimizer"}
    assert list(method.state["optimizer"].keys()) == ["params.4", "param_groups.0.lr"]
    update = first.update

    @lite.enable_grad()
    def all_of_them(x: Any, y: Any) -> None:
        update(x, y)
        ((net(x) - y) ** 2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        net.seen[...] = net.seen + 1

    loaded = lite.load_step(saved(all_of_them, tmp_path, *BATCHES[0]), threads=1)
    assert set(loaded.state.keys()) == {"net", "optimizer", "net_", "optimizer_", "unnamed"}
    loaded(*BATCHES[0])
    assert [float(x) for x in loaded.state["unnamed"].values()] == [1.0]
    assert not any(net.load_state_dict(loaded.state["net"]))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    step, _ = of_one(layers(), optim.Adam, lr=1e-2)
    return saved(step, tmp_path_factory.mktemp("steps"), *BATCHES[0])


def test_the_state_is_that_of_the_next_call(file: Path, tmp_path: Path) -> None:
    step, other = (lite.load_step(file, threads=1) for _ in range(2))
    state = step.state
    assert state.is_locked
    step(*BATCHES[0])
    assert step.state is state
    assert state["optimizers.0", "state.0.step"] == 1
    state.save(tmp_path / "kept.npz")
    copies = pickle.loads(pickle.dumps(step)), copy.deepcopy(step)
    losses = [step(*batch) for batch in BATCHES[:3]]
    for one in copies:
        np.testing.assert_array_equal([one(*batch) for batch in BATCHES[:3]], losses)
    TensorDict.load(tmp_path / "kept.npz").memmap(tmp_path / "kept")
    for change in (
        lambda td: td.update_(TensorDict.load(tmp_path / "kept.npz")),
        lambda td: td.load_memmap_(tmp_path / "kept"),
    ):
        change(other.state)
        np.testing.assert_array_equal([other(*batch) for batch in BATCHES[:3]], losses)
    with pytest.raises(RuntimeError, match="locked"):
        state["net", "0.bias"] = np.zeros(4, np.float32)


def test_coefficients_of_a_loss_are_in_its_part_of_the_state(tmp_path: Path) -> None:
    """They are constants of the graph."""

    def made() -> tuple[Any, Any]:
        heads = nn.Sequential(nn.Linear(3, 4, rng=0), nn.NormalParamExtractor())
        actor = nn.ProbabilisticActor(
            nn.TensorDictModule(heads, ["observation"], ["loc", "scale"]),
            in_keys=["loc", "scale"],
            distribution_class=nn.distributions.TanhNormal,
            return_log_prob=True,
        )
        loss = ClipPPOLoss(actor, nn.ValueOperator(nn.Linear(3, 1, rng=2)), entropy_coeff=0.5)
        adam = optim.Adam(loss.parameters(), lr=1e-2)

        @lite.enable_grad()
        def step(batch: TensorDict) -> Any:
            out = loss(batch)
            sum(out[name] for name in ("loss_objective", "loss_critic", "loss_entropy")).backward()
            adam.step()
            adam.zero_grad()
            return out.detach()

        return loss, step

    loss, step = made()
    x = np.concatenate([x for x, _ in BATCHES])
    batch = loss.actor_network(TensorDict(observation=x, batch_size=[len(x)])).detach()
    batch["advantage"], batch["value_target"] = x[:, :1], x[:, 1:2]
    loaded = lite.load_step(saved(step, tmp_path, batch), threads=1)
    for n in (40, 25, 3):  # the loss has one graph for all sizes
        got, want = loaded(batch[:n].clone()), step(batch[:n].clone())
        np.testing.assert_allclose(got["loss_critic"], want["loss_critic"], rtol=1e-4)
    assert loaded.state["loss", "entropy_coeff"] == 0.5
    assert not any(made()[0].load_state_dict(loaded.state["loss"]))


def test_a_checkpoint_in_mapped_files_is_only_read(tmp_path: Path) -> None:
    step, _ = CASES["BatchNorm"]()
    loaded = lite.load_step(saved(step, tmp_path, *BATCHES[0]), threads=1)
    losses = []
    for _ in range(2):
        losses.append(loaded(*BATCHES[0]))
        if len(losses) == 1:
            loaded.state.memmap(tmp_path / "kept")
        for _ in range(2):  # twice from the same files
            loaded.state.load_memmap_(tmp_path / "kept")
            losses.append(loaded(*BATCHES[1]))
            assert loaded.state["net", "1.num_batches_tracked"] == 2
    np.testing.assert_array_equal(losses[1:3], losses[4:])


def test_a_state_of_another_step_is_refused(file: Path, tmp_path: Path) -> None:
    step = lite.load_step(file, threads=1)
    good = step.state.clone()
    for key, value, message in (
        (("net", "0.bias"), np.zeros(5, np.float32),
            r"state\['net', '0.bias'\] must be float32 of shape \(4,\)"),
        (("net", "0.bias"), np.zeros(4), r"state\['net', '0.bias'\] must be float32 .*, got float64"),
        (("optimizers.0", "state.0.step"), np.zeros(()), r"state.* must be int64"),
    ):  # fmt: skip
        folder = tmp_path / "-".join(key)
        good.clone().set(key, value).memmap(folder)
        step.state.load_memmap_(folder)
        for _ in range(2):
            raises(ValueError, message, lambda: step(*BATCHES[0]))
    good.exclude(("net", "0.bias")).memmap(tmp_path / "less")
    step.state.load_memmap_(tmp_path / "less")
    raises(KeyError, r"the state lacks '0.bias'", lambda: step(*BATCHES[0]))
    good.memmap(tmp_path / "good")
    step.state.load_memmap_(tmp_path / "good")
    np.testing.assert_array_equal(step(*BATCHES[0]), lite.load_step(file, threads=1)(*BATCHES[0]))


def copied(file: Path, folder: Path, change: Any = None) -> Path:
    target = folder / "step.onnx"
    contract = json.loads(Path(f"{file}.json").read_text(encoding="utf-8"))
    target.write_bytes(file.read_bytes())
    Path(f"{target}.npz").write_bytes(Path(f"{file}.npz").read_bytes())
    Path(f"{target}.json").write_text(json.dumps({**contract, **(change or {})}), encoding="utf-8")
    return target


LEAF = [["net", "0.weight"]]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1}, {"version": 3}, {"state": None}, {"state": {}}, {"state": {"arrays": []}},
        {"state": {"arrays": [LEAF], "buffers": [], "inputs": [], "constants": []}},
        {"state": {"arrays": [[]], "buffers": [], "inputs": [], "constants": []}},
        {"state": {"arrays": [[["net", "none"]]], "buffers": [], "inputs": [], "constants": []}},
        {"state": {"arrays": [[["net"]]], "buffers": [], "inputs": [], "constants": []}},
        {"state": {"arrays": [], "buffers": [], "inputs": [[LEAF, "one"]], "constants": []}},
        {"state": {"arrays": [LEAF] * 100_000, "buffers": [], "inputs": [], "constants": []}},
        {"leaves": []}, {"arguments": []}, {"result": ["array"]}, {"result": ["tuple", ["array"], ["array"]]},
    ],
)  # fmt: skip
def test_hostile_contracts_are_refused(change: Any, file: Path, tmp_path: Path) -> None:
    raises(ValueError, "not a contract of a step", lambda: lite.load_step(copied(file, tmp_path, change)))


def test_damaged_states_are_refused(file: Path, tmp_path: Path) -> None:
    target = copied(file, tmp_path)
    beside = Path(f"{target}.npz")
    content, state = beside.read_bytes(), TensorDict.load(beside)
    for part in (b"", content[:100], content[: len(content) // 2], content[:-1], content[:-40] + bytes(40)):
        beside.write_bytes(part)
        raises(ValueError, "damaged or foreign", lambda: lite.load_step(target))
    for key, value, message in (
        (("net", "0.bias"), np.zeros((4, 1), np.float32),
            r"state\['net', '0.bias'\] must be float32 of shape"),
        (("net", "0.bias"), np.array(["a"] * 4), "not a contract of a step with this state"),
        ("net", np.zeros(3), "not a contract of a step with this state"),
    ):  # fmt: skip
        state.clone().set(key, value).save(beside)
        raises(ValueError, message, lambda: lite.load_step(target))
    beside.unlink()
    raises(FileNotFoundError, "", lambda: lite.load_step(target))


def test_from_a_step_to_a_policy_to_adapters_and_to_a_policy_again(tmp_path: Path) -> None:
    """Each part takes what the one before gives: a step, its state, a graph, a module of it, adapters."""
    from lite.models import OnnxModule

    policy = nn.TensorDictModule(nn.MLP(3, 2, num_cells=[8], layer_kwargs={"rng": 0}), ["seen"], ["action"])
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)

    @lite.enable_grad()
    def learn(td: Any, wanted: Any) -> Any:
        loss = ((policy(td)["action"] - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    rows, wanted = TensorDict(seen=BATCHES[0][0], batch_size=8), BATCHES[0][1]
    lite.jit(learn, threads=1).lower(rows, wanted).save(tmp_path / "step.onnx")
    step = lite.load_step(tmp_path / "step.onnx", threads=1)
    written = rows.clone()
    losses = [step(written, wanted) for _ in range(20)]  # a call sets the action, which the next one replaces
    policy.load_state_dict(step.state["policy"])
    policy.to_onnx(tmp_path / "policy.onnx", rows.clone())
    deployed = OnnxModule(tmp_path / "policy.onnx")(rows.clone())["action"]
    np.testing.assert_allclose(deployed, policy(rows.clone())["action"], rtol=1e-5, atol=1e-6)

    adapted = nn.lora(nn.from_onnx(tmp_path / "policy.onnx"), rank=2, targets="module.*", rng=0)
    again = optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=1e-2)

    squared = lambda seen, wanted: ((adapted(seen) - wanted) ** 2).mean()  # noqa: E731
    adapt = lite.jit(training_states.learner(squared, again), threads=1)
    losses += [adapt(rows["seen"], wanted) for _ in range(20)]
    assert losses[0] > losses[20] > losses[-1]
    np.testing.assert_allclose(losses[20], ((deployed - wanted) ** 2).mean(), rtol=1e-5)
    adapted.merge().save_onnx(tmp_path / "adapted.onnx")
    np.testing.assert_allclose(
        OnnxModule(tmp_path / "adapted.onnx")(rows.clone())["action"],
        adapted(rows["seen"]),
        rtol=1e-4,
        atol=1e-5,
    )
