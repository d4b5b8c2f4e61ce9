"""Exploration, actors, recurrent modules and networks of policies against torchrl's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
import torchrl.data
import torchrl.modules
import torchrl.modules.models.models
from helpers.cases import each_case, raises
from helpers.compared import assert_same_entries
from tensordict import nn as tnn

import lite
import lite.data
from lite import TensorDict, nn
from lite.nn import distributions

pytestmark = pytest.mark.filterwarnings("ignore")


class Side:
    """One library: its modules, distributions, specs and arrays by the same names."""

    def __init__(self, *places: Any, array: Any, lib: Any, interaction: Any) -> None:
        self.places = places
        self.array = array
        self.lib = lib
        self.interaction = interaction

    def __getattr__(self, name: str) -> Any:
        for place in self.places:
            if hasattr(place, name):
                return getattr(place, name)
        raise AttributeError(name)

    def td(self, batch: list[int], **entries: Any) -> Any:
        arrays = {key: self.array(value.copy()) for key, value in entries.items()}
        return self.lib.TensorDict(arrays, batch)


LITE = Side(lite.data, nn, distributions, array=lambda x: x, lib=lite, interaction=nn.set_interaction_type)
TORCH = Side(
    *(torchrl.data, torchrl.modules, tnn, torch.nn, torchrl.modules.models.models),
    array=torch.from_numpy,
    lib=tensordict,
    interaction=tnn.set_interaction_type,
)
RNG = np.random.default_rng(0)
OBS = RNG.standard_normal((5, 3)).astype(np.float32)
ACTIONS = RNG.standard_normal((5, 2)).astype(np.float32)


def both(make: Any, warm: Any = None) -> tuple[Any, Any]:
    """What `make` gives of each side, with the arrays of torchrl's; lazy modules after a call of `warm`."""
    theirs, ours = make(TORCH), make(LITE)
    if warm is not None:
        warm(theirs, TORCH), warm(ours, LITE)
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    for key, value in ours.state_dict().items():
        assert (value.shape, value.dtype) == (state[key].shape, state[key].dtype), key
    ours.load_state_dict(state)
    assert getattr(ours, "in_keys", None) == getattr(theirs, "in_keys", None)
    assert getattr(ours, "out_keys", None) == getattr(theirs, "out_keys", None)
    return ours, theirs


def entries(td: Any) -> dict[Any, np.ndarray]:
    found = {}
    for key in td.keys(True, True):
        value = td.get(key)
        found[key] = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    return found


def known(spec: Any) -> set[Any]:
    return {key for key, leaf in spec.items(True, True) if leaf is not None}


def spec_of(s: Any) -> Any:
    return s.Bounded(-0.5, 0.5, (2,))


def gaussian_net(s: Any, key: str = "observation") -> Any:
    net = s.Sequential(s.Linear(3, 4), s.NormalParamExtractor())
    return s.TensorDictModule(net, [key], ["loc", "scale"])


def body(s: Any) -> Any:
    return s.TensorDictModule(s.Linear(3, 3), ["observation"], ["hidden"])


def plain_actor(s: Any, **options: Any) -> Any:
    return s.Actor(s.Linear(3, 2), ["hidden"], **options)


def actor(s: Any, key: str = "observation", **options: Any) -> Any:
    options = {"spec": spec_of(s), "distribution_class": s.IndependentNormal, **options}
    return s.ProbabilisticActor(gaussian_net(s, key), ["loc", "scale"], **options)


SUPPORT = np.linspace(-1, 1, 4, dtype=np.float32)


def distributional(s: Any, **options: Any) -> Any:
    net = s.MLP(3, (4, 2), num_cells=[8])
    return s.DistributionalQValueActor(net, s.array(SUPPORT), **options)


# What is called with a TensorDict of an observation (5, 3), and an action (5, 2).
MODULES = {
    "SafeModule": lambda s: s.SafeModule(s.Linear(3, 2), ["observation"], ["action"], spec_of(s)),
    "SafeModule, safe": lambda s: s.SafeModule(
        s.Linear(3, 2), ["observation"], ["action"], spec_of(s), safe=True
    ),
    "SafeModule, one spec of two": lambda s: s.SafeModule(
        s.NormalParamExtractor(), ["action"], ["loc", "scale"], s.Composite(loc=s.Bounded(-1, 1, (1,)))
    ),
    "Actor": lambda s: s.Actor(s.Linear(3, 2), spec=spec_of(s)),
    "Actor, keys": lambda s: s.Actor(
        s.NormalParamExtractor(), ["action"], ["action", "scale"], spec=s.Bounded(-1, 1, (1,)), safe=True
    ),
    "ProbabilisticActor": actor,
    "ProbabilisticActor, safe": lambda s: actor(s, safe=True),
    "ProbabilisticActor, log-probs": lambda s: actor(s, return_log_prob=True, safe=True),
    "ProbabilisticActor, keys": lambda s: actor(s, out_keys=["move"]),
    "ProbabilisticActor, dict": lambda s: s.ProbabilisticActor(
        body(s), {"param": "hidden"}, distribution_class=s.Delta
    ),
    "SafeSequential": lambda s: s.SafeSequential(body(s), plain_actor(s, spec=spec_of(s))),
    "ActorValueOperator": lambda s: s.ActorValueOperator(
        body(s), actor(s, "hidden"), s.ValueOperator(s.Linear(3, 1), ["hidden"])
    ),
    "its policy": lambda s: MODULES["ActorValueOperator"](s).get_policy_operator(),
    "its values": lambda s: MODULES["ActorValueOperator"](s).get_value_operator(),
    "its policy's head": lambda s: s.SafeSequential(
        body(s), MODULES["ActorValueOperator"](s).get_policy_head()
    ),
    "ActorCriticOperator": lambda s: s.ActorCriticOperator(
        body(s), plain_actor(s), s.ValueOperator(s.MLP(5, 1, depth=0), ["hidden", "action"])
    ),
    "its critic": lambda s: MODULES["ActorCriticOperator"](s).get_critic_operator(),
    "its actor": lambda s: MODULES["ActorCriticOperator"](s).get_policy_operator(),
    "ActorCriticWrapper": lambda s: s.ActorCriticWrapper(actor(s), s.ValueOperator(s.Linear(3, 1))),
    "the wrapper's values": lambda s: MODULES["ActorCriticWrapper"](s).get_value_operator(),
    "the wrapper's policy": lambda s: MODULES["ActorCriticWrapper"](s).get_policy_head(),
    "QValueActor": lambda s: s.QValueActor(s.Linear(3, 4), spec=s.Categorical(4)),
    "QValueActor, reshaped": lambda s: s.QValueActor(
        s.Linear(3, 4), spec=s.Categorical(4, shape=(1,)), strict_shape="auto"
    ),
    "QValueActor of a batch": lambda s: s.QValueActor(s.Linear(3, 4), spec=s.OneHot(4, shape=(5, 4))),
    "QValueActor of a batch, nested": lambda s: s.QValueActor(
        s.Linear(3, 4),
        spec=s.Composite({"agent": s.Composite({"action": s.Categorical(4, (5,))}, shape=(5,))}),
        action_key=("agent", "action"),
    ),
    "QValueModule of several": lambda s: s.SafeSequential(
        s.TensorDictModule(s.Linear(3, 6), ["observation"], ["action_value"]),
        s.QValueModule("multi_one_hot", var_nums=[2, 4]),
    ),
    "DistributionalQValueActor": lambda s: distributional(s, spec=s.Categorical(2)),
    "DistributionalQValueActor, rows": lambda s: distributional(
        s, action_space="one_hot", action_value_key="q"
    ),
    "Actor, one key": lambda s: s.Actor(s.Linear(3, 2), "observation", ("n", "action")),
    "ValueOperator, one key": lambda s: s.ValueOperator(s.Linear(3, 1), "observation", "v"),
    "QValueActor, one key": lambda s: s.QValueActor(
        s.Linear(3, 2), in_keys="observation", action_space="one_hot"
    ),
    "TanhModule": lambda s: s.TanhModule(["action"], spec=s.Bounded(-0.5, 2.0, (2,))),
    "TanhModule, a tuple": lambda s: s.TanhModule(("observation",), ("a",)),
    "TanhModule, clamped": lambda s: s.TanhModule(["action"], ["b"], low=-2.0, high=0.5, clamp=True),
    "TanhModule, nested": lambda s: s.TanhModule(["observation"], [("a", "b")]),
}


@each_case("name", MODULES)
def test_modules(name: str) -> None:
    ours, theirs = both(MODULES[name])
    expected = theirs(TORCH.td([5], observation=OBS, action=ACTIONS))
    assert_same_entries(ours(LITE.td([5], observation=OBS, action=ACTIONS)), expected, 2e-5)
    if isinstance(getattr(theirs, "spec", None), torchrl.data.Composite):
        assert known(ours.spec) == known(theirs.spec)
        assert getattr(ours, "safe", None) == getattr(theirs, "safe", None)


@each_case(
    "make",
    [
        lambda s: s.SafeModule(s.Linear(3, 2), ["x"], ["y"], safe=True),
        lambda s: s.SafeModule(s.NormalParamExtractor(), ["x"], ["y", "z"], s.Unbounded((2,))),
        lambda s: s.SafeModule(s.Linear(3, 2), ["x"], ["y"], s.Composite(y=spec_of(s), z=spec_of(s))),
        lambda s: s.SafeProbabilisticModule(["loc"], ["y"], safe=True),
        lambda s: s.ActorCriticOperator(body(s), plain_actor(s), s.ValueOperator(s.Linear(3, 1), ["hidden"])),
        lambda s: MODULES["ActorCriticOperator"](s).get_value_operator(),
        lambda s: s.QValueModule(spec=s.Composite(act=s.Categorical(3))),
        lambda s: s.QValueModule("one_hot", spec=s.Categorical(3)),
        lambda s: s.QValueModule("mult_one_hot")(s.array(OBS)),
        lambda s: s.QValueModule("categorical", safe=True),
        lambda s: s.QValueModule(spec=s.Categorical(3, shape=(5,)))(s.array(OBS)),
        lambda s: s.DistributionalQValueModule("categorical", s.array(SUPPORT))(s.array(-abs(OBS))),
        lambda s: s.DistributionalQValueModule("categorical", s.array(SUPPORT[:3]))(s.array(OBS.T)),
        lambda s: s.DistributionalDQNnet()(s.array(SUPPORT)),
        lambda s: s.TanhModule(["x"], low=1.0, high=-1.0),
        lambda s: s.TanhModule(["x"], low=-2.0, spec=s.Bounded(-1, 1, (2,))),
        lambda s: s.EGreedyModule(s.Categorical(4), eps_init=0.1, eps_end=0.5),
        lambda s: s.EGreedyModule(None)(s.td([5], action=ACTIONS)),
        lambda s: s.EGreedyModule(s.Composite(a=spec_of(s)))(s.td([5], action=ACTIONS)),
        lambda s: s.EGreedyModule(s.Bounded(-1, 1, (3,)))(s.td([5], action=ACTIONS)),
        lambda s: s.EGreedyModule(s.Categorical(3), action_mask_key="m")(s.td([5], action=np.zeros(5, int))),
        lambda s: s.AdditiveGaussianModule(None, sigma_init=0.1, sigma_end=0.5),
        lambda s: s.AdditiveGaussianModule()(s.td([5], action=ACTIONS)),
        lambda s: s.OrnsteinUhlenbeckProcessModule(None),
        lambda s: s.OrnsteinUhlenbeckProcessModule(spec_of(s), eps_init=0.1, eps_end=0.5),
        lambda s: s.LSTMModule(3, 4),
        lambda s: s.LSTMModule(3, 4, in_keys=["x"], out_key="y"),
        lambda s: s.LSTMModule(3, 4, in_key="x", in_keys=["x", "h", "c"], out_key="y"),
        lambda s: s.LSTMModule(3, 4, in_key="x", out_keys=["y", ("next", "h")]),
        lambda s: s.LSTMModule(3, 4, batch_first=False, in_key="x", out_key="y"),
        lambda s: s.LSTMModule(in_key="x", out_key="y"),
        lambda s: s.LSTMModule(3, 4, lstm=s.LSTM(3, 4, batch_first=True), in_key="x", out_key="y"),
        lambda s: s.GRUModule(gru=s.GRU(3, 4, batch_first=False), in_key="x", out_key="y"),
        lambda s: s.GRUModule(3, 4, in_key="x", out_key="y")(s.td([5], x=OBS)),
        lambda s: s.GRUModule(4, 4, in_key="x", out_key="y")(s.td([5], x=OBS, is_init=OBS[:, :1] > 0)),
        lambda s: s.set_recurrent_mode("both"),
        lambda s: s.ConvNet(3, num_cells=4),
        lambda s: s.ConvNet(3, num_cells=[4, 5], kernel_sizes=[3]),
        lambda s: s.MultiAgentMLP(3, 2, 4),
        lambda s: s.MultiAgentMLP(3, 2, 4, centralised=None, share_params=True),
        lambda s: s.MultiAgentMLP(3, 2, 4, centralized=True, share_params=True)(s.array(OBS)),
        lambda s: s.MultiAgentConvNet(3, True),
        lambda s: s.MultiAgentConvNet(2, True, True, in_features=2)(s.array(VIEWS)),
        lambda s: s.VDNMixer(4, device="cpu")(s.array(OBS)),
        lambda s: s.QMixer((3,), 8, 4, device="cpu")(s.array(AGENTS[..., :1]), s.array(AGENTS[:, 0, :2])),
    ],
)
def test_errors(make: Any) -> None:
    with pytest.raises(Exception) as expected:
        make(TORCH)
    raises(expected.type, "", lambda: make(LITE))


# -- exploration ---------------------------------------------------------------------------------------------

EXPLORATION = {
    "EGreedyModule": lambda s: s.EGreedyModule(spec_of(s), 0.9, 0.2, 7, action_key=("a", "act")),
    "AdditiveGaussianModule": lambda s: s.AdditiveGaussianModule(spec_of(s), 0.9, 0.2, 7, 0.5, 2.0),
    "OrnsteinUhlenbeckProcessModule": lambda s: s.OrnsteinUhlenbeckProcessModule(
        spec_of(s), 0.9, 0.2, 7, x0=s.array(np.ones(2, np.float32))
    ),
}


@each_case("name", EXPLORATION)
def test_amounts_of_exploration(name: str) -> None:
    ours, theirs = both(EXPLORATION[name])
    for frames in (1, 3, 2, 9):
        ours.step(frames), theirs.step(frames)
        for key, value in theirs.state_dict().items():
            np.testing.assert_allclose(ours.state_dict()[key], value.numpy(), rtol=1e-6, err_msg=key)


@each_case("kind", ["mode", "mean", "median", "deterministic", "random", None])
@pytest.mark.parametrize("name", EXPLORATION)
def test_what_explores(name: str, kind: str | None) -> None:
    changed = []
    for side in (LITE, TORCH):
        module = EXPLORATION[name](side)
        td = side.td([5], action=ACTIONS).update({"a": side.td([5], act=ACTIONS)})
        with side.interaction(kind):
            td = module(td)
        changed.append({key: np.array_equal(value, ACTIONS) for key, value in entries(td).items()})
    assert changed[0] == changed[1]


@pytest.mark.parametrize(
    "options",
    [{}, {"x0": 0.5, "sigma_min": 0.05, "n_steps_annealing": 3}, {"theta": 0.5, "mu": 1.0, "dt": 0.1}],
)
def test_ornstein_uhlenbeck_noise(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = RNG.standard_normal((6, 4, 2)).astype(np.float32)
    left = iter(drawn)
    monkeypatch.setattr(torch, "randn", lambda *args, **kwargs: torch.from_numpy(next(left)))
    monkeypatch.setattr(torch, "randn_like", lambda *args, **kwargs: torch.from_numpy(next(left)))
    ours, theirs = both(
        lambda s: s.OrnsteinUhlenbeckProcessModule(s.Bounded(-1, 1, (2,)), 0.8, 0.1, **options)
    )
    here = iter(drawn)
    ours._rng = type("Drawn", (), {"standard_normal": lambda self, shape: next(here)})()
    state: dict[Any, Any] = {}
    for step in range(6):
        given = {
            "action": ACTIONS[:4],
            "is_init": np.array([[step == 0], [step == 2], [False], [True]]),
        } | state
        expected = theirs(TORCH.td([4], **given))
        assert_same_entries(ours(LITE.td([4], **given)), expected, 2e-5)
        state = {key: value for key, value in entries(expected).items() if key.startswith("_ou")}


# -- recurrent modules ---------------------------------------------------------------------------------------

INIT = np.zeros((2, 3, 6, 1), bool)
INIT[0, 1, 2] = INIT[1, 0, 2] = INIT[1, 0, 5] = INIT[1, 2, 0] = INIT[0, 0, 4] = True


RECURRENT = [
    (dims, init, bool((i + j) % 2), i != 1 or j == 2)
    for i, dims in enumerate([1, 2, 3])
    for j, init in enumerate(["none", "within", "flat"])
]


@each_case(("dims", "init", "states", "mode"), RECURRENT)
@pytest.mark.parametrize(
    ("name", "options"),
    [("GRUModule", {"num_layers": 2}), ("LSTMModule", {}), ("LSTMModule", {"proj_size": 2})],
)
def test_recurrent_modules(name, options, states, init, dims, mode) -> None:  # type: ignore[no-untyped-def]
    ours, theirs = both(lambda s: getattr(s, name)(3, 4, in_key="x", out_key="y", **options))
    rng = np.random.default_rng(1)
    where = (0,) * (3 - dims)
    flags = np.zeros_like(INIT[where]) if init == "none" else INIT[where]
    batch = flags.shape[:-1]
    given = {"x": rng.standard_normal((*batch, 3)).astype(np.float32)}
    given["is_init"] = flags[..., 0] if init == "flat" else flags
    if states and "proj_size" in options and not mode:
        return  # torchrl gives the states in each other's place
    if states:
        layers = options.get("num_layers", 1)
        for key in ours.in_keys[1:-1]:
            size = options.get("proj_size", 4) if key.endswith("h") else 4
            given[key] = rng.standard_normal((*batch, layers, size)).astype(np.float32)
    with TORCH.set_recurrent_mode(mode), torch.no_grad():
        expected = theirs(TORCH.td(list(batch), **given))
    with LITE.set_recurrent_mode(mode):
        assert_same_entries(ours(LITE.td(list(batch), **given)), expected, 2e-5)


def test_recurrent_modes_and_arrays() -> None:
    def make(s: Any) -> Any:
        layer = s.LSTM(3, 4, batch_first=True)
        keys = {"in_keys": ["x", "h", "c"], "out_keys": ["y", ("next", "h"), ("next", "c")]}
        return s.LSTMModule(lstm=layer, default_recurrent_mode=True, **keys)

    ours, theirs = both(make)
    for mode in ("recurrent", "sequential", None, True, False):
        with LITE.set_recurrent_mode(mode), TORCH.set_recurrent_mode(mode):
            assert nn.recurrent_mode() is torchrl.modules.recurrent_mode()
            assert ours.recurrent_mode is theirs.recurrent_mode
    with LITE.set_recurrent_mode(False), TORCH.set_recurrent_mode(False):
        given = {"x": OBS, "h": np.ones((5, 1, 4), np.float32), "c": np.ones((5, 1, 4), np.float32)}
        given["is_init"] = np.zeros((5, 1), bool)
        expected = theirs(**{key: torch.from_numpy(value) for key, value in given.items()})
        for mine, other in zip(ours(**given), expected, strict=True):
            np.testing.assert_allclose(mine, other.detach().numpy(), rtol=1e-5, atol=1e-6)


# -- networks ------------------------------------------------------------------------------------------------

IMAGES = RNG.standard_normal((2, 3, 40, 40)).astype(np.float32)
FRAMES = np.random.default_rng(1).standard_normal((2, 4, 84, 84)).astype(np.float32)
AGENTS = RNG.standard_normal((5, 4, 3)).astype(np.float32)
VIEWS = np.random.default_rng(4).random((2, 5, 3, 2, 12, 10)).astype(np.float32)  # of three agents
MOVES = RNG.standard_normal((2, 2)).astype(np.float32)
SMALL = {"num_cells": [4, 4], "kernel_sizes": [8, 4], "strides": [4, 2], "paddings": 0}

NETWORKS: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "ConvNet": (lambda s: s.ConvNet(3, num_cells=[4, 5], strides=[2, 1]), (IMAGES,)),
    "ConvNet, lazy": (lambda s: s.ConvNet(depth=2, num_cells=4, paddings=[0, 1]), (IMAGES[None],)),
    "ConvNet, one image": (lambda s: s.ConvNet(3, num_cells=[4], activation_class=s.ReLU), (IMAGES[0],)),
    "ConvNet, pooled": (
        lambda s: s.ConvNet(
            3, num_cells=[4], aggregator_class=s.AdaptiveAvgPool2d, aggregator_kwargs={"output_size": 1},
            squeeze_output=True,
        ),
        (IMAGES,),
    ),
    "ConvNet, for Atari": (lambda s: s.ConvNet.default_atari_dqn(6), (FRAMES,)),
    "NoisyLinear": (lambda s: s.NoisyLinear(3, 2), (OBS,)),
    "NoisyLinear without bias": (lambda s: s.NoisyLinear(3, 2, bias=False), (OBS,)),
    "NoisyLinear in training": (lambda s: s.NoisyLinear(3, 2, use_exploration_type=False), (OBS,)),
    "NoisyLazyLinear": (lambda s: s.NoisyLazyLinear(2), (OBS,)),
    "lazy MLP of NoisyLinear": (
        lambda s: s.MLP(out_features=2, num_cells=[4], layer_class=s.NoisyLinear),
        (OBS,),
    ),
    "MLP of NoisyLinear": (lambda s: s.MLP(3, 2, num_cells=[4], layer_class=s.NoisyLinear), (OBS,)),
    "DuelingMlpDQNet": (lambda s: s.DuelingMlpDQNet(4), (OBS,)),
    "VDNMixer": (lambda s: s.VDNMixer(4, device="cpu"), (AGENTS[..., :1],)),
    "QMixer": (
        lambda s: s.QMixer((2, 3), 8, 4, device="cpu"),
        (AGENTS[..., :1], AGENTS[..., :2, :]),
    ),
    "DuelingMlpDQNet, small": (
        lambda s: s.DuelingMlpDQNet(4, 1, {"num_cells": [5]}, {"num_cells": 7, "depth": 2}),
        (OBS,),
    ),
    "DuelingCnnDQNet": (lambda s: s.DuelingCnnDQNet(4), (IMAGES,)),
    "DuelingCnnDQNet, small": (
        lambda s: s.DuelingCnnDQNet(4, cnn_kwargs=SMALL, mlp_kwargs={"num_cells": [8]}), (IMAGES,)
    ),
    "DdpgMlpActor": (lambda s: s.DdpgMlpActor(2), (OBS,)),
    "DdpgMlpQNet": (lambda s: s.DdpgMlpQNet(), (OBS, ACTIONS)),
    "DdpgCnnActor": (lambda s: s.DdpgCnnActor(2, SMALL), (IMAGES,)),
    "DdpgCnnActor, pooled": (lambda s: s.DdpgCnnActor(2, SMALL, use_avg_pooling=True), (IMAGES,)),
    "DdpgCnnQNet": (lambda s: s.DdpgCnnQNet(), (IMAGES, MOVES)),
    "DdpgCnnQNet, not pooled": (lambda s: s.DdpgCnnQNet(SMALL, use_avg_pooling=False), (IMAGES, MOVES)),
    **{
        f"MultiAgentMLP, {flags}": (
            lambda s, flags=flags: s.MultiAgentMLP(
                3, 2, 4, centralized=flags[0], share_params=flags[1], depth=1, num_cells=5
            ),
            (AGENTS,),
        )
        for flags in [(False, False), (False, True), (True, False), (True, True)]
    },
    **{
        f"MultiAgentConvNet, {flags}": (
            lambda s, flags=flags: s.MultiAgentConvNet(
                3, *flags, in_features=2, num_cells=[4, 5], kernel_sizes=[3, (2, 3)], strides=[2, 1]
            ),
            (VIEWS,),
        )
        for flags in [(False, False), (False, True), (True, False), (True, True)]
    },
}  # fmt: skip


# Only noise depends on the kind.
KINDS = [
    (name, kind) for name in NETWORKS for kind in ("mode", "random") if kind == "mode" or "Noisy" in name
]


@each_case(("name", "kind"), KINDS)
def test_networks(name: str, kind: str) -> None:
    make, inputs = NETWORKS[name]
    ours, theirs = both(make, lambda module, s: module(*(s.array(x.copy()) for x in inputs)))
    with TORCH.interaction(kind), torch.no_grad():
        expected = theirs(*map(torch.from_numpy, inputs))
    with LITE.interaction(kind):
        got = ours(*inputs)
    for mine, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, expected)), strict=True):
        assert mine.shape == tuple(other.shape)
        np.testing.assert_allclose(mine, other.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", [name for name in NETWORKS if "Multi" not in name])
def test_initial_values(name: str) -> None:
    """The range of each array is that of torchrl's: their ratio, of uniform draws in numbers, is about 1."""
    make, inputs = NETWORKS[name]
    theirs, ours = make(TORCH), make(LITE)
    theirs(*map(torch.from_numpy, inputs)), ours(*inputs)
    state = ours.state_dict()
    for key, value in theirs.state_dict().items():
        mine, other = abs(state[key]).max(), float(value.abs().max())
        if value.numel() >= 60 and "epsilon" not in key:
            assert mine == other or abs(mine / other - 1) < 0.1, key
        assert (mine == 0) == (other == 0), key


def test_hooks() -> None:
    def make(s: Any) -> Any:
        net = s.Sequential(s.MLP(3, (4, 2), num_cells=[8]), s.LogSoftmax(-2))
        net.register_forward_hook(s.DistributionalQValueHook("one_hot", s.array(SUPPORT)))
        values = s.MLP(3, 2, num_cells=[8])
        values.register_forward_hook(s.QValueHook("categorical"))
        return s.SafeSequential(
            s.Actor(net, out_keys=["action", "log_probs"]),
            s.TensorDictModule(values, ["observation"], ["best", "values", "value"]),
        )

    ours, theirs = both(make)
    assert_same_entries(ours(LITE.td([5], observation=OBS)), theirs(TORCH.td([5], observation=OBS)), 2e-5)


def test_log_probs_of_operators() -> None:
    ours, theirs = both(MODULES["its policy"])
    given = {"observation": OBS, "action": ACTIONS}
    got = ours.get_dist(LITE.td([5], **given)).log_prob(ACTIONS)
    expected = theirs.get_dist(TORCH.td([5], **given)).log_prob(torch.from_numpy(ACTIONS))
    np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-5)
    assert isinstance(TensorDict(), lite.TensorDict)


# -- initial values and vectors ------------------------------------------------------------------------------

GAINS = [
    (name, None) for name in ("linear", "conv_transpose2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu")
]


@each_case(("name", "slope"), [*GAINS, ("leaky_relu", 0.3), ("tanh", 3)])
def test_gains(name: str, slope: float | None) -> None:
    assert nn.init.calculate_gain(name, slope) == torch.nn.init.calculate_gain(name, slope)


def test_names_of_initial_values() -> None:
    theirs = {name for name in dir(torch.nn.init) if name.endswith("_") and not name.startswith("_")}
    assert theirs | {"calculate_gain"} == set(nn.init.__all__)
    for name in theirs:
        signature, expected = (
            inspect.signature(getattr(nn.init, name)),
            inspect.signature(getattr(torch.nn.init, name)),
        )
        assert [(p.name, p.default) for p in signature.parameters.values()] == [
            (p.name, p.default) for p in expected.parameters.values()
        ]


@each_case(
    "fill",
    [
        lambda init, x: init.eye_(x(3, 4)),
        lambda init, x: init.dirac_(x(5, 2, 3, 4)),
        lambda init, x: init.dirac_(x(6, 2, 3), 3),
        lambda init, x: init.constant_(x(2), 3.5),
        lambda init, x: init.eye_(x(3)),
        lambda init, x: init.dirac_(x(3, 3)),
        lambda init, x: init.dirac_(x(3, 3, 3), 2),
        lambda init, x: init.sparse_(x(3, 3, 3), 0.5),
        lambda init, x: init.orthogonal_(x(3)),
        lambda init, x: init.xavier_uniform_(x(3)),
        lambda init, x: init.kaiming_normal_(x(3, 3), mode="fan"),
        lambda init, x: init.kaiming_uniform_(x(3, 3), nonlinearity="softplus"),
        lambda init, x: init.uniform_(x(3), 2.0, 1.0),
        lambda init, x: init.normal_(x(3), std=-1.0),
        lambda init, x: init.trunc_normal_(x(3), a=2.0, b=1.0),
        lambda init, x: init.kaiming_normal_(x(0, 3)),
    ],
)
def test_initial_numbers(fill: Any) -> None:
    try:
        expected = fill(torch.nn.init, torch.ones)
    except Exception as error:
        raises(type(error), "", lambda: fill(nn.init, lambda *shape: np.ones(shape)))
    else:
        np.testing.assert_array_equal(
            fill(nn.init, lambda *shape: np.ones(shape, np.float32)), expected.numpy()
        )


def test_vectors_of_parameters() -> None:
    ours, theirs = both(lambda s: s.Sequential(s.Linear(3, 2), s.Linear(2, 1)))
    vector = torch.nn.utils.parameters_to_vector(theirs.parameters()).detach().numpy()
    np.testing.assert_array_equal(nn.utils.parameters_to_vector(ours.parameters()), vector)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(2 * vector), theirs.parameters())
    nn.utils.vector_to_parameters(2 * vector, ours.parameters())
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_array_equal(mine.data, other.detach().numpy())
