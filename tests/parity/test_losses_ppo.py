"""PPOLoss, ClipPPOLoss, KLPENPPOLoss, A2CLoss and ReinforceLoss against torchrl's."""

import numpy as np
import pytest
import torch
import torchrl.modules
from helpers.cases import each_case
from parity.losses import categorical, compare, critic, default_dtype, gaussian, mlp, steps

import lite.nn

NORMS = [
    ("PopArtValueNorm", {"beta": 0.9}),
    ("RunningValueNorm", {}),
    ("PercentileValueNorm", {"rate": 0.3, "center": True}),
]
PPO = ["PPOLoss", "ClipPPOLoss", "KLPENPPOLoss"]
ALL = [*PPO, "A2CLoss", "ReinforceLoss"]


def entries(dtype, shape=(6,), discrete=False, advantage=True):
    """A batch that a policy near the one that learns has acted in."""
    rng = np.random.default_rng(3)
    out = steps(rng, dtype, shape)
    if discrete:
        out["action"] = rng.integers(0, 3, shape)
        out["logits"] = rng.normal(size=(*shape, 3)).astype(dtype)
    else:
        out["action"] = rng.normal(size=(*shape, 2)).astype(dtype)
        out["loc"] = rng.normal(size=(*shape, 2)).astype(dtype)
        out["scale"] = (rng.random((*shape, 2)) + 0.5).astype(dtype)
    out["action_log_prob"] = rng.normal(-2.5, 0.5, shape).astype(dtype)
    if advantage:
        out["advantage"] = rng.normal(size=(*shape, 1)).astype(dtype)
        out["value_target"] = rng.normal(size=(*shape, 1)).astype(dtype) * 2
        out["state_value"] = rng.normal(size=(*shape, 1)).astype(dtype) * 0.1
    return out


def run(name, dtype="float64", discrete=False, **options):
    shape = options.pop("shape", (6,))
    data = options.pop("data", None) or entries(dtype, shape, discrete, options.pop("advantage", True))
    prepare = options.pop("prepare", None)
    actor = categorical if discrete else gaussian
    if name == "KLPENPPOLoss":
        # torchrl's beta adapts before the gradient is taken, which is then of another loss than was returned.
        options = {"increment": 1.0, "decrement": 1.0, **options}
    with default_dtype(dtype):
        return compare(
            name, (actor, critic), data, shape, dtype, prepare, inputs=name != "ReinforceLoss", **options
        )


@each_case(("discrete", "dtype"), [(False, "float32"), (True, "float64")])
@pytest.mark.parametrize("name", ALL)
def test_advantages_in_the_batch(name, dtype, discrete):
    run(name, dtype, discrete)


@each_case("name", ALL)
def test_advantages_of_the_loss(name):
    run(name, shape=(2, 5), advantage=False)


# Without VTrace: torchrl's takes the policy's own action, see DIFFERENCES.md.
@each_case(
    ("estimator", "arguments"),
    [("TD0", {"gamma": 0.5}), ("TD1", {}), ("TDLambda", {}), ("GAE", {"lmbda": 0.5})],
)
@pytest.mark.parametrize("name", ["ClipPPOLoss", "ReinforceLoss"])
def test_estimators(name, estimator, arguments):
    def prepare(side, loss, td):
        loss.make_value_estimator(getattr(side.losses.ValueEstimators, estimator), **arguments)

    data = entries("float64", (2, 5), advantage=False)
    run(name, shape=(2, 5), data=data, prepare=prepare)


@each_case(("reduction", "mask"), [("mean", True), ("sum", False), ("none", True)])
@pytest.mark.parametrize("name", ALL)
def test_reductions_and_masks(name, reduction, mask):
    data = entries("float64")
    if mask:
        data["collector", "mask"] = np.array([1, 1, 0, 1, 0, 1], bool)
    run(name, data=data, reduction=reduction)


@each_case(("loss_critic_type", "clip_value"), [("l2", 0.05), ("l1", None), ("smooth_l1", 0.05)])
@pytest.mark.parametrize("name", ALL)
def test_critic(name, loss_critic_type, clip_value):
    run(name, loss_critic_type=loss_critic_type, clip_value=clip_value)


@pytest.mark.parametrize("name", PPO)
@each_case(
    "options",
    [
        {"normalize_advantage": True},
        {"entropy_bonus": False},
        {"entropy_coeff": 0.3, "critic_coeff": 0.25},
        {"log_explained_variance": False, "critic_coeff": 0.0},
        {"max_importance_ratio": 1.1},
        {"delay_actor": True, "max_importance_ratio": 1.1},
        {"separate_losses": True},
    ],
)
def test_options(name, options):
    def prepare(side, loss, td):
        if "delay_actor" in options:
            side.losses.SoftUpdate(loss, eps=0.9)
            for _, leaf in loss.target_actor_network_params.items(True, True):
                leaf *= 1.1

    if name == "KLPENPPOLoss" and "log_explained_variance" in options:
        options = {"critic_coeff": 0.0}
    run(name, prepare=prepare, **options)


@each_case(("clip", "clip_value"), [(0.1, True), ((0.05, 0.3), None), ((0.05, 0.3), 0.3)])
def test_clipping(clip, clip_value):
    run("ClipPPOLoss", clip_epsilon=clip, clip_value=clip_value)


def test_normalized_advantages_of_agents_and_of_valid_steps():
    data = entries("float64", (3, 4))
    run(
        "ClipPPOLoss", data=data, shape=(3, 4), normalize_advantage=True,
        normalize_advantage_exclude_dims=(1,),
    )  # fmt: skip
    data["shifted_valid"] = np.arange(12).reshape(3, 4) % 4 != 1
    run("ClipPPOLoss", data=data, shape=(3, 4), normalize_advantage=True)


def test_an_advantage_for_all_actions_of_a_step():
    data = entries("float64", (3, 4))
    for key in ("advantage", "value_target", "state_value"):
        data[key] = data[key][:, 0]
    with default_dtype("float64"):
        compare("ClipPPOLoss", (gaussian,), data, (3,), "float64", critic_coeff=0.0)


@each_case("name", PPO)
def test_without_critic(name):
    with default_dtype("float64"):
        compare(
            name, (gaussian,), entries("float64"), (6,), "float64", gradients=name != PPO[2], critic_coeff=0.0
        )


def test_beta_adapts():
    for dtarg in (1e-6, 1e6):
        (mine, other), _ = run("KLPENPPOLoss", gradients=False, dtarg=dtarg, increment=3.0, decrement=0.25)
        assert float(mine.beta) == float(other.beta) == (3.0 if dtarg < 1 else 0.25)
        mine.reset()
        assert float(mine.beta) == 1.0


# -- composite distributions -------------------------------------------------------------------------------


def composite(s):
    """A policy of two parts, one of them nested."""
    return s.Sequential(
        s.TensorDictModule(mlp(s, 4, 4), ["observation"], ["raw"]),
        s.TensorDictModule(
            s.NormalParamExtractor(), ["raw"], [("params", "move", "loc"), ("params", "move", "scale")]
        ),
        s.TensorDictModule(mlp(s, 4, 3), ["observation"], [("params", "hand", "grip", "logits")]),
        s.Probabilistic(
            ["params"],
            ["move", ("hand", "grip")],
            return_log_prob=True,
            distribution_class=s.CompositeDistribution,
            distribution_kwargs={
                "distribution_map": {"move": s.IndependentNormal, ("hand", "grip"): s.Categorical},
            },
        ),
    )


@each_case("entropy_coeff", [None, {"move_entropy": 0.1, ("hand", "grip_entropy"): 0.5}], ids=["one", "each"])
@each_case("estimated", [False, True])
@each_case("name", ["PPOLoss", "ClipPPOLoss"])
def test_composite(name, entropy_coeff, estimated):
    rng = np.random.default_rng(0)
    data = entries("float64", advantage=not estimated)  # else by the loss, in its first call
    data["move"] = rng.normal(size=(6, 2))
    data["hand", "grip"] = rng.integers(0, 3, 6)
    data["move_log_prob"] = rng.normal(-2, 0.2, 6)
    data["hand", "grip_log_prob"] = rng.normal(-1, 0.2, 6)
    with default_dtype("float64"):
        (mine, other), _ = compare(
            name, (composite, critic), data, (6,), "float64", entropy_coeff=entropy_coeff
        )
    assert mine.tensor_keys.sample_log_prob == list(other.tensor_keys.sample_log_prob)
    assert mine.tensor_keys.action == list(other.tensor_keys.action)


def test_composite_of_a2c_and_reinforce():
    rng = np.random.default_rng(0)
    data = entries("float64")
    data["move"] = rng.normal(size=(6, 2))
    data["hand", "grip"] = rng.integers(0, 3, 6)
    with default_dtype("float64"):
        compare("ReinforceLoss", (composite, critic), data, (6,), "float64", inputs=False)


def test_state_dicts_and_keys():
    for name in ALL:
        (mine, other), _ = run(name, "float32")
        assert set(mine.state_dict()) == set(other.state_dict())
        theirs = set(other.out_keys)
        assert set(mine.out_keys) == theirs
        assert set(mine.in_keys) == set(other.in_keys)


@each_case(("mask", "advantage"), [(True, False), (False, True)])
@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm[0])
@each_case("name", ["A2CLoss", "ClipPPOLoss"])
def test_norms_of_advantages(name, norm, mask, advantage):
    kind, options = norm
    with default_dtype("float64"):
        norms = [getattr(module, kind)(**options) for module in (lite.nn, torchrl.modules)]
    given = np.random.default_rng(0).normal(3, 20, (9, 1))
    norms[0].update(given)
    norms[1].update(torch.from_numpy(given))
    data = entries("float64", (2, 5), advantage=advantage)
    if mask:
        data["collector", "mask"] = np.arange(10).reshape(2, 5) % 4 > 0
    own = [{"advantage_norm": norm} for norm in norms]
    ours, theirs = run(name, shape=(2, 5), data=data, mine=own[0], torchs=own[1])[0]
    assert set(ours.state_dict()) == set(theirs.state_dict())


@each_case(("shape", "dtype"), [(1, "float64"), ((2, 3), "float32")])
@each_case("norm", NORMS)
def test_norms_of_values(norm, shape, dtype):
    kind, options = norm
    rng = np.random.default_rng(1)
    with default_dtype(dtype):
        ours, theirs = (
            getattr(module, kind)(shape=shape, **options) for module in (lite.nn, torchrl.modules)
        )
        for leading in [(4, 7), (1,), ()] if kind != "PercentileValueNorm" else [(4, 7), (1,)]:
            rows = rng.normal(3, 20, (*leading, *ours.shape)).astype(dtype)
            ours.update(rows)
            theirs.update(torch.from_numpy(rows))
            for method in ("normalize", "denormalize"):
                mine, other = getattr(ours, method)(rows), getattr(theirs, method)(torch.from_numpy(rows))
                assert mine.dtype == other.numpy().dtype
                np.testing.assert_allclose(mine, other, 2e-4 if dtype == "float32" else 1e-9)
            np.testing.assert_allclose(ours.scale(), theirs.scale(), 1e-5)
    state = theirs.state_dict()
    assert {key: tuple(value.shape) for key, value in ours.state_dict().items()} == {
        key: tuple(value.shape) for key, value in state.items()
    }


CLIPPED, APART = {"clip_value": 0.1}, {"separate_losses": True}
AGENTS = {
    "MAPPOLoss": [
        (None, {}, False), (NORMS[0], CLIPPED, True), (NORMS[1], APART, False), (NORMS[0], {}, True),
    ],
    "IPPOLoss": [(NORMS[1], {}, True), (None, CLIPPED, True), (NORMS[0], APART, False)],
}  # fmt: skip


@each_case(
    ("name", "norm", "options", "advantage"), [(name, *row) for name, rows in AGENTS.items() for row in rows]
)
def test_agents(name, norm, options, advantage):
    """Three agents, whose team has one reward and one end."""
    team, agents = (2, 5), (2, 5, 3)
    data = entries("float64", agents, discrete=True, advantage=True)
    if not advantage:
        for key in ("advantage", "value_target", "state_value"):
            del data[key]
    of_team = steps(np.random.default_rng(3), "float64", team)
    data |= {("next", key): of_team["next", key] for key in ("reward", "done", "terminated")}
    own = {}
    if norm is not None:
        own = {
            "mine": {"value_norm": getattr(lite.nn, norm[0])(shape=1, **norm[1])},
            "torchs": {"value_norm": getattr(torchrl.modules, norm[0])(shape=1, **norm[1])},
        }
    # Its statistics are kept in float32, so the last bit of a sum in float64 may be one of theirs.
    close = "float32" if norm is not None and norm[0] == "RunningValueNorm" else "float64"
    with default_dtype("float64"):
        compare(name, (categorical, critic), data, team, close, **own, **options)
