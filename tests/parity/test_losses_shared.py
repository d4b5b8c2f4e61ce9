"""Losses whose policy and critic share parameters, arguments and keys of all, and their networks."""

import inspect
from dataclasses import fields

import numpy as np
import pytest
import torch
from helpers.cases import each_case
from helpers.compared import assert_same_entries
from parity.losses import LITE, TORCH, agree, batches, both, default_dtype, mlp, steps, total
from tensordict import nn as tnn
from torchrl import objectives as reference
from torchrl.objectives import llm

import lite
from lite import nn
from lite.nn import losses


def networks(s):
    """A policy and a critic with a common first part."""
    common = s.TensorDictModule(mlp(s, 4, 5), ["observation"], ["hidden"])
    sequence = nn.TensorDictSequential if s is LITE else tnn.TensorDictSequential
    policy = s.Sequential(
        common,
        s.TensorDictModule(mlp(s, 5, 3), ["hidden"], ["logits"]),
        s.Probabilistic(["logits"], ["action"], distribution_class=s.Categorical, return_log_prob=True),
    )
    critic = sequence(common, s.ValueOperator(s.nn.Linear(5, 1), in_keys=["hidden"]))
    return policy, critic


@each_case(("separate", "estimated"), [(False, True), (True, False)])
@pytest.mark.parametrize("name", ["ClipPPOLoss", "A2CLoss", "ReinforceLoss"])
def test_values_and_gradients(name, separate, estimated):
    rng = np.random.default_rng(0)
    shape = (2, 5)
    with default_dtype("float64"):
        torch.manual_seed(0)
        theirs, ours = networks(TORCH), networks(LITE)
        for mine, other in zip(ours, theirs, strict=True):
            mine.load_state_dict({key: value.numpy() for key, value in other.state_dict().items()})
        data = steps(rng, "float64", shape, action=rng.integers(0, 3, shape))
        data["action_log_prob"] = rng.normal(-1, 0.2, shape)
        if not estimated:
            data["advantage"], data["value_target"] = rng.normal(size=(2, *shape, 1))
        td, other_td = batches(data, shape)
        reference = getattr(TORCH.losses, name)(*theirs, separate_losses=separate)
        loss = getattr(LITE.losses, name)(*ours, separate_losses=separate)
        expected = reference(other_td)
        with lite.enable_grad():
            results = loss(td)
            total(results).backward()
        assert_same_entries(results.apply(lite.nn.values.entries.detached), expected, 1e-10)
        total(expected).backward()
    grads = {key: parameter.grad for key, parameter in loss.named_parameters()}
    wanted = {
        key: None if parameter.grad is None else parameter.grad.numpy()
        for key, parameter in reference.named_parameters()
    }
    agree(grads, wanted, 1e-10)
    common = ours[0][0].module[0].weight.grad
    assert common is not None
    if separate:
        assert (
            loss.critic_network_params["module", "0", "module", "0", "weight"]
            is ours[0][0].module[0].weight.data
        )


NAMES = [
    "A2CLoss", "BCLoss", "ClipPPOLoss", "DDPGLoss", "DQNLoss", "DiscreteSACLoss", "KLPENPPOLoss", "PPOLoss",
    "ReinforceLoss", "SACLoss", "TD3Loss", "CISPOLoss", "DAPO", "GRPOLoss", "CQLLoss", "CrossQLoss",
    "DiscreteCQLLoss", "DiscreteIQLLoss", "DistributionalDQNLoss", "IPPOLoss", "IQLLoss", "MAPPOLoss",
    "REDQLoss", "TD3BCLoss", "SFTLoss", "RNDLoss", "QMixerLoss",
]  # fmt: skip
# Former names that torchrl refuses itself; devices; modules that are called with their own parameters;
# running norms of advantages; the state values of the first SAC; where scalars go without a reduction.
# GRPO has no values that `clip_value` could clip.
LEFT_OUT = {
    "gamma", "priority_key", "advantage_key", "value_target_key", "value_key", "actor", "critic", "kwargs",
    "device", "functional", "advantage_norm", "value_network", "delay_value", "scalar_output_mode",
}  # fmt: skip


def theirs_of(name):
    return getattr(reference, name, None) or getattr(llm, name)


def arguments(cls):
    """Names and defaults of a constructor and of those that it hands the others to."""
    found = {}
    for base in cls.__mro__:
        init = base.__dict__.get("__init__")
        if init is None:
            continue
        parameters = dict(inspect.signature(init).parameters)
        parameters.pop("self", None)
        rest = [name for name, p in parameters.items() if p.kind is p.VAR_KEYWORD]
        for name, parameter in parameters.items():
            if name not in rest:
                found.setdefault(name, parameter.default)
        if not rest:
            break
    return found


@each_case("name", NAMES)
def test_arguments(name):
    mine, theirs = arguments(getattr(losses, name)), arguments(theirs_of(name))
    left_out = LEFT_OUT - ({"value_network", "delay_value"} if name != "SACLoss" else set())
    left_out -= {"gamma"} if name == "DistributionalDQNLoss" else set()
    left_out |= {"clip_value"} if issubclass(getattr(losses, name), losses.GRPOLoss) else set()
    for argument, default in theirs.items():
        if argument in left_out:
            continue
        assert argument in mine, argument
        if argument not in ("actor_network", "critic_network"):
            assert mine[argument] == default, argument
    assert set(mine) - set(theirs) <= {"generator", "importance_sampling_level"}


@each_case("name", NAMES)
def test_keys(name):
    def keys(cls):
        made = cls._AcceptedKeys()
        return {field.name: getattr(made, field.name) for field in fields(made)}

    assert keys(getattr(losses, name)) == keys(theirs_of(name))


def test_outputs_of_language_models():
    for name in ("GRPOLoss", "DAPO", "CISPOLoss"):
        assert getattr(losses, name).output_type.__name__ == theirs_of(name).output_type.__name__
    for name in ("LLMLossOutput", "GRPOLossOutput", "DAPOLossOutput", "CISPOLossOutput", "SFTLossOutput"):
        mine, theirs = getattr(losses, name), getattr(llm, name)
        assert [field.name for field in fields(mine)] == [field.name for field in fields(theirs)]


def test_estimators():
    for member in losses.ValueEstimators:
        other = reference.ValueEstimators[member.name]
        assert member.value == other.value
        assert losses.default_value_kwargs(member) == reference.utils.default_value_kwargs(other)


@each_case(
    ("updater", "options"),
    [
        ("SoftUpdate", {"eps": 0.9}),
        ("SoftUpdate", {"tau": 0.7}),
        ("HardUpdate", {"value_network_update_interval": 2}),
    ],
)
@pytest.mark.filterwarnings("ignore:Found an eps value", "ignore:eps=")
def test_updates(updater, options):
    nets = both(lambda s: s.QValueActor(mlp(s, 4, 3), action_space="categorical"))
    found = []
    for side, net in zip((LITE, TORCH), nets, strict=True):
        loss = side.losses.DQNLoss(net, action_space="categorical")
        update = getattr(side.losses, updater)(loss, **options)
        seen = []
        for number in range(5):
            for parameter in loss.parameters():
                parameter.data += number + 1
            update.step()
            leaves = loss.target_value_network_params.items(True, True)
            seen.append([np.asarray(leaf) for _, leaf in sorted(leaves, key=lambda item: str(item[0]))])
        found.append(seen)
    for mine, other in zip(*found, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, 1e-6)


@each_case("space", ["categorical", "one-hot", "one_hot"])
@each_case("masked", [False, True])
def test_actors(space, masked):
    mask_key = "mask" if masked else None
    ours, theirs = both(lambda s: s.QValueActor(mlp(s, 4, 3), action_space=space, action_mask_key=mask_key))
    observation = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    mask = np.random.default_rng(1).random((7, 3)) < 0.7
    mask[:, 0] = True
    entries = {"observation": observation, **({"mask": mask} if masked else {})}
    found = ours(**entries)
    with torch.no_grad():
        expected = theirs(**{key: torch.from_numpy(value) for key, value in entries.items()})
    assert ours.in_keys == list(theirs.in_keys)
    assert ours.out_keys == list(theirs.out_keys)
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == other.numpy().dtype
        np.testing.assert_allclose(mine, other.numpy(), 1e-6, 1e-6)


def test_values():
    for keys in (None, ["observation", "action"]):
        ours, theirs = both(lambda s, keys=keys: s.ValueOperator(mlp(s, 4, 1), in_keys=keys))
        assert ours.in_keys == list(theirs.in_keys)
        assert ours.out_keys == list(theirs.out_keys)
