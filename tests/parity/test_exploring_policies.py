"""gSDE, dropout with kept masks, planned actions and batch renormalisation against torchrl's."""

from typing import Any

import numpy as np
import pytest
import torch
import torchrl.envs
from helpers.cases import each_case
from tensordict import TensorDict as TheirTensorDict
from tensordict import nn as tnn
from torchrl.modules import ConsistentDropoutModule, MultiStepActorWrapper
from torchrl.modules.models.batchrenorm import BatchRenorm1d
from torchrl.modules.models.exploration import LazygSDEModule, gSDEModule

import lite.envs
from lite import TensorDict, nn, value_and_grad

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def same(mine: Any, theirs: Any) -> None:
    expected = theirs.detach().numpy()
    assert (mine.shape, mine.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(mine, expected, rtol=2e-5, atol=2e-6)


def loaded(mine: Any, theirs: Any) -> None:
    """The state dicts are alike; the one has the other's numbers afterwards."""
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    found = mine.state_dict()
    assert list(found) == list(state)
    for key, value in state.items():
        assert (found[key].shape, found[key].dtype) == (value.shape, value.dtype), key
    mine.load_state_dict(state)


def same_error(mine: Any, theirs: Any) -> None:
    with pytest.raises(Exception) as expected:
        theirs()
    with pytest.raises(expected.type):
        mine()


# -- gSDE ----------------------------------------------------------------------------------------------------

MU, STATE, EPSILON = normal(5, 2), normal(5, 3), normal(5, 2, 3)
OPTIONS: list[dict[str, Any]] = [
    {}, {"learn_sigma": False}, {"sigma_init": 0.5, "scale_min": 0.8},
    {"sigma_init": 0.5, "scale_max": 0.3, "learn_sigma": False}, {"sigma_init": 0.0},
]  # fmt: skip


@each_case("kind", ["random", "mode", "mean", "deterministic"])
@each_case("options", OPTIONS)
def test_gsde(options: dict[str, Any], kind: str) -> None:
    mine, theirs = nn.gSDEModule(2, 3, **options, transform=np.tanh), gSDEModule(2, 3, **options)
    theirs.transform = torch.tanh
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(mine.state_dict()[key], value.numpy(), rtol=1e-6)
    loaded(mine, theirs)
    with tnn.set_interaction_type(kind), nn.set_interaction_type(kind):
        expected = theirs(*map(torch.from_numpy, (MU, STATE, EPSILON)))
        for got, wanted in zip(mine(MU, STATE, EPSILON), expected, strict=True):
            same(got, wanted)
        for unknown in (None, np.zeros((5, 1), np.float32), np.zeros(5, np.float32)):
            given = None if unknown is None else torch.from_numpy(unknown)
            *_, drawn = theirs(torch.from_numpy(MU), torch.from_numpy(STATE), given)
            *_, got = mine(MU, STATE, unknown)
            assert (got.shape, got.any()) == (tuple(drawn.shape), bool(drawn.any()))


def test_gradients_of_gsde() -> None:
    mine, theirs = nn.gSDEModule(2, 3), gSDEModule(2, 3)
    loaded(mine, theirs)
    with tnn.set_interaction_type("random"), nn.set_interaction_type("random"):
        _, scale, action, _ = theirs(*map(torch.from_numpy, (MU, STATE, EPSILON)))
        (scale.sum() + (action**2).sum()).backward()

        def loss(params: TensorDict) -> Any:
            with params.to_module(mine):
                _, scale, action, _ = mine(MU, STATE, EPSILON)
            return scale.sum() + (action**2).sum()

        slopes = value_and_grad(loss)(TensorDict.from_module(mine).select("log_sigma"))[1]
    np.testing.assert_allclose(slopes["log_sigma"], theirs.log_sigma.grad.numpy(), rtol=1e-4)


@each_case("batch", [(), (4, 5)])
@each_case("options", OPTIONS[:4])
def test_lazy_gsde(options: dict[str, Any], batch: tuple[int, ...]) -> None:
    mine, theirs = nn.LazygSDEModule(**options), LazygSDEModule(**options)
    mu, state, epsilon = normal(*batch, 2), normal(*batch, 3), normal(*batch, 2, 3)
    with tnn.set_interaction_type("random"), nn.set_interaction_type("random"):
        expected = theirs(*map(torch.from_numpy, (mu, state, epsilon)))
        for got, wanted in zip(mine(mu, state, epsilon), expected, strict=True):
            same(got, wanted)
    assert type(mine).__name__ == type(theirs).__name__
    loaded(mine, theirs)


@pytest.mark.parametrize("sizes", [(), (3, 1)])
def test_gsde_noise(sizes: tuple[int, ...]) -> None:
    theirs = torchrl.envs.TransformedEnv(
        torchrl.envs.SerialEnv(2, lambda: torchrl.envs.GymEnv("Pendulum-v1")), torchrl.envs.gSDENoise(*sizes)
    )
    mine = lite.envs.TransformedEnv(
        lite.envs.SerialEnv(2, lambda: lite.envs.GymEnv("Pendulum-v1")), lite.envs.gSDENoise(*sizes)
    )
    got, expected = mine.rollout(4)["_eps_gSDE"], theirs.rollout(4)["_eps_gSDE"].numpy()
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    for noise in (got, expected):
        assert noise.any() == bool(sizes)
        np.testing.assert_array_equal(noise, noise[:, :1].repeat(4, 1))
    spec, their_spec = mine.full_observation_spec["_eps_gSDE"], theirs.full_observation_spec["_eps_gSDE"]
    assert tuple(spec.shape) == tuple(their_spec.shape)


# -- consistent dropout --------------------------------------------------------------------------------------


@each_case("training", [True, False])
@each_case("known", [True, False])
@each_case("out_keys", [None, ["y", "mask"], "y"])
def test_consistent_dropout_module(out_keys: Any, known: bool, training: bool) -> None:
    x, mask = normal(4, 3), (RNG.random((4, 3)) > 0.5).astype(np.float32) * 2
    entries = {"x": x, "mask": mask} if known else {"x": x}
    mine = nn.ConsistentDropoutModule(0.5, ["x", "mask"], out_keys).train(training)
    theirs = ConsistentDropoutModule(0.5, ["x", "mask"], out_keys).train(training)
    expected = theirs(TheirTensorDict({k: torch.from_numpy(v.copy()) for k, v in entries.items()}, [4]))
    got = mine(TensorDict({k: v.copy() for k, v in entries.items()}, [4]))
    assert len(mine.out_keys) == len(theirs.out_keys)
    own, other = f"mask_{id(mine)}", f"mask_{id(theirs)}"
    assert {own if k == other else k for k in expected.keys(True)} == set(got.keys())
    result = mine.out_keys[0]
    if known or not training:
        same(got[result], expected[result])
    else:
        np.testing.assert_array_equal(got[result], x * got[mine.out_keys[1]])


def test_masks_of_episodes() -> None:
    """A mask stays for an episode, and is drawn where the next one starts."""

    def rollout(s: Any, module: Any, linear: Any, mod: Any, seq: Any) -> Any:
        dropping = module(0.5, "hidden", input_shape=(2, 20))
        policy = seq(
            mod(linear(3, 20), ["observation"], ["hidden"]),
            dropping,
            mod(linear(20, 1), ["hidden"], ["action"]),
        )
        env = s.SerialEnv(
            2, [lambda n=n: s.TransformedEnv(s.GymEnv("Pendulum-v1"), s.StepCounter(n)) for n in (3, 4)]
        )
        env = s.TransformedEnv(env, dropping.make_tensordict_primer())
        return np.asarray(env.rollout(6, policy, break_when_any_done=False)[dropping.in_keys[1]])

    found = [
        rollout(torchrl.envs, ConsistentDropoutModule, torch.nn.Linear, tnn.TensorDictModule,
            tnn.TensorDictSequential),
        rollout(lite.envs, nn.ConsistentDropoutModule, nn.Linear, nn.TensorDictModule,
            nn.TensorDictSequential),
    ]  # fmt: skip
    assert found[0].shape == found[1].shape == (2, 6, 20)
    for masks in found:
        for row, length in enumerate((3, 4)):
            changes = (masks[row, 1:] != masks[row, :-1]).any(-1)
            np.testing.assert_array_equal(np.flatnonzero(changes), [length - 1])


# -- planned actions -----------------------------------------------------------------------------------------


def planners(names: dict[str, Any], options: dict[str, Any]) -> tuple[Any, Any]:
    """An actor of each side that plans obs + 0, obs + 1, ... under each of these names."""

    def actor(arange: Any, module: Any) -> Any:
        def plan(obs: Any) -> Any:
            plans = [obs[:, None] + arange(length)[:, None] for length in names.values()]
            return plans[0] if len(plans) == 1 else tuple(plans)

        return module(plan, ["obs"], list(names))

    mine = nn.MultiStepActorWrapper(
        actor(lambda n: np.arange(n, dtype=np.float32), nn.TensorDictModule), **options
    )
    theirs = MultiStepActorWrapper(
        actor(lambda n: torch.arange(n, dtype=torch.float32), tnn.TensorDictModule), **options
    )
    return mine, theirs


PLANS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all of it": ({"action": 3}, {"n_steps": 3}),
    "again and again": ({"action": 3}, {}),
    "planned anew": ({"action": 4}, {"n_steps": 4, "replan_interval": 2}),
    "of any length": ({"action": 4}, {"replan_interval": 3}),
    "with its dimension": ({"action": 3}, {"n_steps": 3, "keep_dim": True}),
    "nested": ({("agent", "action_chunk"): 3}, {"n_steps": 3}),
    "of a robot": ({("vla_action", "chunk"): 3, "action_chunk": 2}, {"n_steps": 3}),
    "two": ({"left_chunk": 3, "action_chunk": 3}, {"n_steps": 3}),
    "chunk": ({"action_chunk": 3, "loc": 2}, {"n_steps": 3}),
    "chunk of another name": ({"plan": 3}, {"chunk_keys": ["plan"], "action_keys": ["move"], "n_steps": 3}),
    "chosen key": ({"action": 3, ("b", "action"): 2}, {"action_keys": "action", "chunk_keys": "action"}),
    "flags of another name": ({"action": 2}, {"n_steps": 2, "init_key": ("a", "is_init")}),
}


@each_case("name", PLANS)
def test_planned_actions(name: str) -> None:
    names, options = PLANS[name]
    mine, theirs = planners(names, options)
    assert mine.in_keys == theirs.in_keys
    assert mine.out_keys == theirs.out_keys
    assert mine.action_keys == theirs.action_keys
    assert mine.chunk_keys == theirs.chunk_keys
    key = options.get("init_key", "is_init")
    got, expected = TensorDict({}, [3]), TheirTensorDict({}, [3])
    starts = np.zeros((8, 3, 1), bool)
    starts[0] = starts[2, 1] = starts[5, 0] = starts[5, 2] = True
    for flags in starts:
        obs = normal(3, 2)
        got.update({"obs": obs}).set(key, flags)
        expected.update({"obs": torch.from_numpy(obs)}).set(key, torch.from_numpy(flags))
        mine(got), theirs(expected)
        assert set(got.keys(True, True)) == set(expected.keys(True, True))
        for entry, value in expected.items(True, True):
            same(got[entry], value)


def test_planned_actions_in_an_environment() -> None:
    """Over episodes that end at different steps."""
    weight, bias = normal(2, 4), normal(2)

    def rollout(s: Any, wrapper: Any, mod: Any, seq: Any, array: Any, stack: Any) -> Any:
        w, b = array(weight), array(bias)

        def plan(frames: Any) -> Any:
            scores = frames.reshape(*frames.shape[:-1], 3, 4) @ w.T + b
            return stack([scores[..., 0] > scores[..., 1], scores[..., 0] <= scores[..., 1]])

        actor = wrapper(seq(mod(plan, ["frames"], ["action"])), n_steps=3)
        env = s.TransformedEnv(
            s.SerialEnv(2, lambda: s.GymEnv("CartPole-v1")),
            s.Compose(s.InitTracker(), s.CatFrames(3, -1, in_keys=["observation"], out_keys=["frames"])),
        )
        env.set_seed(0)
        return env.rollout(60, actor, break_when_any_done=False)

    expected = rollout(
        torchrl.envs, MultiStepActorWrapper, tnn.TensorDictModule, tnn.TensorDictSequential,
        torch.from_numpy, lambda parts: torch.stack(parts, -1).to(torch.int64),
    )  # fmt: skip
    got = rollout(
        lite.envs, nn.MultiStepActorWrapper, nn.TensorDictModule, nn.TensorDictSequential,
        lambda array: array, lambda parts: np.stack(parts, -1).astype(np.int64),
    )  # fmt: skip
    assert expected["next", "done"].any()
    assert set(got.keys(True, True)) == set(expected.keys(True, True))
    for key in ("counter", "action", "action_orig", "is_init"):
        same(got[key], expected[key])


# -- batch renormalisation -----------------------------------------------------------------------------------


@each_case("shape", [(6, 3), (6, 3, 4)])
@each_case(
    "options",
    [{}, {"warmup_steps": 2}, {"warmup_steps": 3, "smooth": True, "momentum": 0.3}, {"warmup_steps": 0}],
)
def test_batch_renorm(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    mine, theirs = (kind(3, max_r=1.2, max_d=0.3, **options) for kind in (nn.BatchRenorm1d, BatchRenorm1d))
    loaded(mine, theirs)
    for _ in range(6):
        x = 2 * normal(*shape) + 1
        same(mine(x), theirs(torch.from_numpy(x)))
        for key, value in theirs.state_dict().items():
            np.testing.assert_allclose(
                mine.state_dict()[key], value.numpy(), rtol=1e-5, atol=1e-6, err_msg=key
            )
    same(mine.eval()(x), theirs.eval()(torch.from_numpy(x)))
    same_error(lambda: mine(x.ravel()), lambda: theirs(torch.from_numpy(x.ravel())))
    same_error(lambda: mine(normal(2, 4)), lambda: theirs(torch.from_numpy(normal(2, 4))))


def test_gradients_of_batch_renorm() -> None:
    mine, theirs = (kind(3, warmup_steps=1) for kind in (nn.BatchRenorm1d, BatchRenorm1d))
    x, factor = 2 * normal(6, 3) + 1, normal(6, 3)
    mine(x), theirs(torch.from_numpy(x))
    params = TensorDict.from_module(mine).select("weight", "bias")

    def loss(given: TensorDict) -> Any:
        with given.exclude("x").to_module(mine):
            return (mine(given["x"]) ** 2 * factor).sum()

    slopes = value_and_grad(loss)(params.clone(False).set("x", x))[1]
    leaf = torch.from_numpy(x).requires_grad_()
    (theirs(leaf) ** 2 * torch.from_numpy(factor)).sum().backward()
    for key, value in (("x", leaf), ("weight", theirs.weight), ("bias", theirs.bias)):
        np.testing.assert_allclose(slopes[key], value.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)
