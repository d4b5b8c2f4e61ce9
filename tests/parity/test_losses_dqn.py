"""DQNLoss and DistributionalDQNLoss against torchrl's: values, priorities, dtypes, n-step discounts."""

import numpy as np
import torch
import torchrl.modules
from helpers.cases import each_case
from helpers.nn.transitions import Returns
from parity.losses import LITE, both, compare, default_dtype, mlp, steps

from lite import nn, unravel_key
from lite.nn import losses


def actor(space):
    return lambda s: s.QValueActor(mlp(s, 4, 3), action_space=space)


def actions(rng, space, shape):
    ids = rng.integers(0, 3, shape)
    return ids if space == "categorical" else np.eye(3, dtype=np.int64)[ids]


def compared(
    dtype, space="categorical", shape=(6,), extra=None, estimator=None, keys=None, **options,
):  # fmt: skip
    rng = np.random.default_rng(1)

    def prepare(side, loss, td):
        loss.set_keys(**(keys or {}))
        for name, key in (keys or {}).items():
            if name in ("reward", "done", "terminated"):
                td.rename_key_(("next", name), ("next", key))
            elif name == "action":
                td.rename_key_("action", key)
        if estimator:
            name, arguments = estimator
            loss.make_value_estimator(getattr(side.losses.ValueEstimators, name), **arguments)
        if options.get("delay_value", True):
            side.losses.SoftUpdate(loss, eps=0.9)
            for _, leaf in loss.target_value_network_params.items(True, True):
                leaf *= 1.25

    data = steps(rng, dtype, shape, action=actions(rng, space, shape)) | (extra or {})
    with default_dtype(dtype):
        losses, _ = compare(
            "DQNLoss", (actor(space),), data, shape, dtype, prepare, torchs={"action_space": space}, **options
        )
    return losses


@each_case(
    ("dtype", "space", "double"),
    [
        ("float32", "categorical", True),
        ("float32", "one-hot", False),
        ("float64", "one-hot", True),
        ("float64", "categorical", False),
    ],
)
def test_spaces_and_double(dtype, space, double):
    compared(dtype, space, double_dqn=double)


@each_case(
    ("loss_function", "reduction", "delay_value"),
    [("l2", "sum", False), ("l1", "mean", True), ("smooth_l1", "none", False), ("l2", "none", True)],
)
def test_distances_and_reductions(loss_function, reduction, delay_value):
    compared("float64", loss_function=loss_function, reduction=reduction, delay_value=delay_value)


@each_case(
    ("reduction", "mask", "use"),
    [("mean", True, "auto"), ("sum", False, "auto"), ("none", True, False), ("mean", False, False)],
)
def test_priority_weights_and_masks(reduction, mask, use):
    extra = {"priority_weight": np.linspace(0.1, 1.0, 6)}
    if mask:
        extra["collector", "mask"] = np.array([1, 1, 0, 1, 0, 1], bool)
    compared("float64", extra=extra, reduction=reduction, use_prioritized_weights=use)


def test_discounts_of_n_steps():
    compared("float64", extra={"steps_to_next_obs": np.array([[1], [2], [3], [3], [2], [1]])})


@each_case("estimator", [("TD0", {"gamma": 0.5}), ("TD1", {}), ("TDLambda", {"lmbda": 0.5})])
def test_estimators(estimator):
    compared("float64", shape=(2, 5), estimator=estimator)


def test_keys():
    compared("float64", keys={"reward": "gain", "done": "end", "terminated": "failure", "priority": "error"})


def test_state_dict():
    ours, theirs = compared("float32")
    state = {key: value.numpy() for key, value in theirs.state_dict().items()}
    assert set(ours.state_dict()) == set(state)
    fresh = losses.DQNLoss(both(actor("categorical"), seed=7)[0])
    fresh.make_value_estimator()
    fresh.load_state_dict(state)
    key = "target_value_network_params", "module", "0", "module", "0", "weight"
    np.testing.assert_array_equal(getattr(fresh, key[0])[key[1:]], state[".".join(key)])


class Rows(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 15)

    def forward(self, observation):
        return self.linear(observation).unflatten(-1, (5, 3))


def returns(space):
    def make(s):
        if s is LITE:
            return Returns(space)
        support = torch.linspace(-1, 1, 5)
        return torchrl.modules.DistributionalQValueActor(Rows(), support, action_space=space)

    return make


@each_case(("space", "reduction"), [("categorical", "mean"), ("one-hot", "none")])
@each_case(
    ("options", "extra"),
    [
        ({"gamma": 0.9}, {}),
        ({"gamma": 0.5, "delay_value": False}, {"priority_weight": np.linspace(0.1, 1.0, 6)}),
        ({"gamma": 0.9}, {"steps_to_next_obs": np.array([[1], [2], [3], [3], [2], [1]])}),
        ({"gamma": 0.9}, {("collector", "mask"): np.array([1, 1, 0, 1, 0, 1], bool)}),
    ],
)
def test_distributions(space, reduction, options, extra):
    rng = np.random.default_rng(1)
    data = steps(rng, "float64", (6,), action=actions(rng, space, (6,))) | extra
    data["next", "reward"] = np.array([[0.0], [0.5], [-3.0], [3.0], [0.1], [-0.2]])

    def prepare(side, loss, td):
        if options.get("delay_value", True):
            side.losses.SoftUpdate(loss, eps=0.9)
            for key, leaf in loss.target_value_network_params.items(True, True):
                if "support" not in key:
                    leaf *= 1.25

    with default_dtype("float64"):
        compare(
            "DistributionalDQNLoss", (returns(space),), data, (6,), "float64", prepare, reduction=reduction,
            **options,
        )  # fmt: skip


def local_values(space):
    def make(s):
        modules, module = (nn, nn.TensorDictModule) if s is LITE else (torchrl.modules, s.TensorDictModule)
        out_keys = [("agents", name) for name in ("action", "action_value", "chosen_action_value")]
        key = out_keys[1]
        net = module(mlp(s, 3, 4), in_keys=[("agents", "observation")], out_keys=[key])
        chosen = modules.QValueModule(action_space=space, action_value_key=key, out_keys=out_keys)
        return (nn.TensorDictSequential if s is LITE else modules.SafeSequential)(net, chosen)

    return make


def mixer(name):
    def make(s):
        modules = nn if s is LITE else torchrl.modules
        net = modules.VDNMixer(2, device="cpu")
        if name == "QMixer":
            net = modules.QMixer((2, 3), 5, 2, device="cpu")
        keys = [("agents", "chosen_action_value"), *(["state"] if name == "QMixer" else [])]
        return s.TensorDictModule(net, in_keys=keys, out_keys=["chosen_action_value"])

    return make


@each_case(
    ("name", "space", "estimator", "options"),
    [
        ("QMixer", "categorical", None, {}),
        ("QMixer", "one-hot", ("TDLambda", {"gamma": 0.9, "lmbda": 0.8}), {"loss_function": "smooth_l1"}),
        ("VDNMixer", "categorical", ("TD1", {"gamma": 0.9}), {"delay_value": False}),
    ],
)
def test_values_of_several_agents(name, space, estimator, options):
    rng, read = np.random.default_rng(2), []
    shape = (3, 4)

    def prepare(side, loss, td):
        read.append({unravel_key(key) for key in loss.in_keys})
        loss.set_keys(priority="error")
        if estimator:
            loss.make_value_estimator(getattr(side.losses.ValueEstimators, estimator[0]), **estimator[1])
        if options.get("delay_value", True):
            side.losses.SoftUpdate(loss, eps=0.9)
            for part in (loss.target_local_value_network_params, loss.target_mixer_network_params):
                for _, leaf in part.items(True, True):
                    leaf *= 1.25

    data = steps(rng, "float64", shape, action=rng.integers(0, 3, shape))
    ids = rng.integers(0, 4, (*shape, 2))
    data["agents", "action"] = ids if space == "categorical" else np.eye(4, dtype=np.int64)[ids]
    for at in ((), ("next",)):
        data[(*at, "agents", "observation")] = rng.standard_normal((*shape, 2, 3))
        data[(*at, "state")] = rng.standard_normal((*shape, 2, 3))
    networks = local_values(space), mixer(name)
    with default_dtype("float64"):
        compare("QMixerLoss", networks, data, shape, "float64", prepare, action_space=space, **options)
    assert read[0] == read[1] == read[-1]
