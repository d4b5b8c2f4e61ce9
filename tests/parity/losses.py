"""Networks and batches on both sides: lite's, and torch's and torchrl's with the same weights."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensordict
import torch
import torchrl.modules
import torchrl.objectives
from helpers.compared import assert_same_entries
from tensordict import nn as tnn

import lite
from lite import TensorDict, nn
from lite.nn import distributions, losses

LITE = SimpleNamespace(
    nn=nn, TensorDictModule=nn.TensorDictModule, Probabilistic=nn.ProbabilisticTensorDictModule,
    Sequential=nn.ProbabilisticTensorDictSequential, NormalParamExtractor=nn.NormalParamExtractor,
    IndependentNormal=distributions.IndependentNormal, TanhNormal=distributions.TanhNormal,
    TanhDelta=distributions.TanhDelta, Normal=distributions.Normal, Categorical=distributions.Categorical,
    OneHotCategorical=nn.OneHotCategorical, CompositeDistribution=nn.CompositeDistribution,
    QValueActor=nn.QValueActor, ValueOperator=nn.ValueOperator, TensorDict=TensorDict, losses=losses,
)  # fmt: skip
TORCH = SimpleNamespace(
    nn=torch.nn, TensorDictModule=tnn.TensorDictModule, Probabilistic=tnn.ProbabilisticTensorDictModule,
    Sequential=tnn.ProbabilisticTensorDictSequential, NormalParamExtractor=tnn.NormalParamExtractor,
    IndependentNormal=torchrl.modules.IndependentNormal, TanhNormal=torchrl.modules.TanhNormal,
    TanhDelta=torchrl.modules.TanhDelta, Normal=torch.distributions.Normal,
    Categorical=torch.distributions.Categorical, OneHotCategorical=torchrl.modules.OneHotCategorical,
    CompositeDistribution=tnn.CompositeDistribution, QValueActor=torchrl.modules.QValueActor,
    ValueOperator=torchrl.modules.ValueOperator, TensorDict=tensordict.TensorDict,
    losses=torchrl.objectives,
)  # fmt: skip
DTYPES = {"float32": 2e-6, "float64": 1e-10}
GRADIENTS = {"float32": 1e-5, "float64": 1e-10}


def torch_draws_from(monkeypatch: Any, generator: np.random.Generator) -> None:
    """torch draws normal and uniform numbers, and orders, as lite's losses do from a generator like this."""

    def normal(shape: Any, dtype: Any, device: Any = None) -> Any:
        return torch.from_numpy(generator.standard_normal(tuple(shape), str(dtype).removeprefix("torch.")))

    initial = torch.Tensor.uniform_

    def uniform(self: Any, low: float = 0, high: float = 1, **options: Any) -> Any:
        if (low, high) != (-1, 1):  # of layers, which torch fills
            return initial(self, low, high, **options)
        drawn = generator.random(tuple(self.shape), str(self.dtype).removeprefix("torch."))
        return self.copy_(torch.from_numpy(drawn) * (high - low) + low)

    monkeypatch.setattr("torch.distributions.normal._standard_normal", normal)
    monkeypatch.setattr("torch.normal", lambda mean, std: mean + std * normal(mean.shape, mean.dtype))
    monkeypatch.setattr("torch.randn_like", lambda like: normal(like.shape, like.dtype))
    monkeypatch.setattr("torch.Tensor.uniform_", uniform)
    monkeypatch.setattr("torch.randperm", lambda n: torch.from_numpy(np.argsort(generator.random(n))))


@contextmanager
def default_dtype(dtype: str) -> Iterator[None]:
    """The default floating type of both sides."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with lite.default_dtype(np.dtype(dtype)):
            yield
    finally:
        torch.set_default_dtype(before)


def both(make: Callable[[Any], Any], seed: int = 0) -> tuple[Any, Any]:
    """What `make` gives of each side: a module or a list of them, with the weights of torch's."""
    torch.manual_seed(seed)
    theirs = make(TORCH)
    ours = make(LITE)
    pairs = zip(ours, theirs, strict=True) if isinstance(ours, list) else [(ours, theirs)]
    for module, other in pairs:
        module.load_state_dict({key: value.detach().numpy() for key, value in other.state_dict().items()})
    return ours, theirs


def mlp(s: Any, inputs: int, outputs: int) -> Any:
    return s.nn.Sequential(s.nn.Linear(inputs, 8), s.nn.Tanh(), s.nn.Linear(8, outputs))


class Joined(nn.Module):
    """A network of an observation and an action."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, observation: Any, action: Any) -> Any:
        return self.net(np.concatenate([observation, action], -1))


class TorchJoined(torch.nn.Module):
    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, observation: Any, action: Any) -> Any:
        return self.net(torch.cat([observation, action], -1))


def q_network(s: Any, actions: int = 2) -> Any:
    joined = Joined if s is LITE else TorchJoined
    return s.ValueOperator(joined(mlp(s, 4 + actions, 1)), in_keys=["observation", "action"])


def critic(s: Any) -> Any:
    return s.ValueOperator(mlp(s, 4, 1), in_keys=["observation"])


def gaussian(s: Any, distribution: str = "IndependentNormal", actions: int = 2, **options: Any) -> Any:
    """A policy over vectors."""
    return s.Sequential(
        s.TensorDictModule(mlp(s, 4, 2 * actions), ["observation"], ["params"]),
        s.TensorDictModule(s.NormalParamExtractor(), ["params"], ["loc", "scale"]),
        s.Probabilistic(
            ["loc", "scale"], ["action"], distribution_class=getattr(s, distribution), return_log_prob=True,
            **options,
        ),
    )  # fmt: skip


def categorical(s: Any, distribution: str = "Categorical", actions: int = 3) -> Any:
    return s.Sequential(
        s.TensorDictModule(mlp(s, 4, actions), ["observation"], ["logits"]),
        s.Probabilistic(
            ["logits"], ["action"], distribution_class=getattr(s, distribution), return_log_prob=True
        ),
    )


def deterministic(s: Any, actions: int = 2) -> Any:
    net = s.nn.Sequential(*mlp(s, 4, actions), s.nn.Tanh())
    return s.TensorDictModule(net, ["observation"], ["action"])


def steps(
    rng: np.random.Generator, dtype: str, shape: tuple[int, ...] = (6,), **entries: Any
) -> dict[Any, Any]:
    """A batch of steps: observations, rewards and ends."""
    return {
        "observation": rng.normal(size=(*shape, 4)).astype(dtype),
        ("next", "observation"): rng.normal(size=(*shape, 4)).astype(dtype),
        ("next", "reward"): rng.normal(size=(*shape, 1)).astype(dtype),
        ("next", "done"): rng.random((*shape, 1)) < 0.4,
        ("next", "terminated"): np.zeros((*shape, 1), bool),
        **entries,
    }


def batches(entries: dict[Any, Any], shape: tuple[int, ...]) -> tuple[TensorDict, Any]:
    """The batch of both sides."""
    ours = TensorDict(batch_size=shape)
    theirs = tensordict.TensorDict(batch_size=shape)
    done = entries.get(("next", "done"))
    if done is not None:
        entries[("next", "terminated")] = done & (np.arange(done.size).reshape(done.shape) % 2 == 0)
    for key, value in entries.items():
        ours.set(key, value.copy())
        theirs.set(key, torch.from_numpy(value.copy()))
    return ours, theirs


def compare(
    name: str,
    networks: tuple[Callable[[Any], Any], ...],
    entries: dict[Any, Any],
    shape: tuple[int, ...],
    dtype: str,
    prepare: Callable[[Any, Any, Any], None] | None = None,
    inputs: bool = True,
    leave_out: tuple[str, ...] = (),
    gradients: bool = True,
    seed: int = 0,
    mine: dict[str, Any] | None = None,
    torchs: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """A loss of both sides, with the same networks and batch: what they give, and write to the batch.

    Args:
        name: of the class.
        networks: functions of a side that give the networks, in the order of the loss's arguments.
        entries: of the batch.
        prepare: called with each side, its loss and its batch before the loss is computed.
        inputs: whether what is written to the batch is compared, too, but for the keys in `leave_out`.
        gradients: whether those are compared, by all parameters.
        mine, torchs: options of one side alone.
    """
    pairs = [both(make, seed + number) for number, make in enumerate(networks)]
    own = {id(LITE): mine or {}, id(TORCH): torchs or {}}
    given = batches(dict(entries), shape)

    def made(number: int) -> tuple[Any, Any]:
        side = (LITE, TORCH)[number]
        nets = [pair[number] for pair in pairs]
        loss = getattr(side.losses, name)(*nets, **options, **copy.deepcopy(own[id(side)]))
        td = given[number].copy()
        if prepare is not None:
            prepare(side, loss, td)
        return loss, td

    ours, td = made(0)
    theirs, other = made(1)
    results = ours(td), theirs(other)
    assert_same_entries(results[0], results[1], DTYPES[dtype])
    if inputs:
        assert_same_entries(td.exclude(*leave_out), other.exclude(*leave_out), DTYPES[dtype])
    if gradients:
        compare_gradients(lambda: made(0), theirs, results[1], GRADIENTS[dtype])
    return (ours, theirs), results


def total(results: Any) -> Any:
    """The sum of all losses."""
    return sum(value.sum() for key, value in results.items() if key.startswith("loss") and value is not None)


def compare_gradients(
    made: Callable[[], tuple[Any, Any]], theirs: Any, results: Any, tolerance: float
) -> None:
    """Both ways of lite to gradients against torch's, parameter by parameter."""
    for parameter in theirs.parameters():
        parameter.grad = None
    total(results).backward()
    expected = {
        name: None if parameter.grad is None else parameter.grad.numpy()
        for name, parameter in theirs.named_parameters()
    }

    loss, td = made()
    loss.zero_grad()
    with lite.enable_grad():
        total(loss(td)).backward()
    found = {name: parameter.grad for name, parameter in loss.named_parameters()}
    agree(found, expected, tolerance)
    loss.zero_grad()

    loss, td = made()
    leaves = {name: parameter.data for name, parameter in loss.named_parameters()}
    params = TensorDict(
        {tuple(name.split(".")) if "." in name else name: leaf for name, leaf in leaves.items()}
    )

    def function(params: Any) -> Any:
        exchanged = TensorDict.from_module(loss).apply(lambda leaf: leaf)
        exchanged.update(params)
        with exchanged.to_module(loss):
            return total(loss(td))

    _, grads = lite.value_and_grad(function)(params)
    found = {".".join(key) if isinstance(key, tuple) else key: leaf for key, leaf in grads.items(True, True)}
    agree(found, expected, tolerance)


def agree(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    """Gradients by name; none at all is the same as zeros."""
    assert set(found) == set(expected)
    for name, other in expected.items():
        mine = found[name]
        if mine is None or other is None:
            rest = [gradient for gradient in (mine, other) if gradient is not None]
            assert not any(np.any(gradient) for gradient in rest), name
            continue
        assert mine.shape == other.shape, name
        assert mine.dtype == other.dtype, name
        np.testing.assert_allclose(mine, other, tolerance, tolerance, err_msg=name)
