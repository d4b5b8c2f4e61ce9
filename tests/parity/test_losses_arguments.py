"""Arguments, defaults, keys and target updates of losses against torchrl's."""

import inspect
from dataclasses import fields

import numpy as np
import pytest
from parity.losses import LITE, TORCH, both, mlp
from torchrl import objectives as reference

from lite.nn import losses

NAMES = [
    "A2CLoss", "BCLoss", "ClipPPOLoss", "DDPGLoss", "DQNLoss", "DiscreteSACLoss", "KLPENPPOLoss", "PPOLoss",
    "ReinforceLoss", "SACLoss", "TD3Loss",
]  # fmt: skip
# Former names that torchrl refuses itself; devices; modules that are called with their own parameters;
# running norms of advantages; the state values of the first SAC; where scalars go without a reduction.
LEFT_OUT = {
    "gamma", "priority_key", "advantage_key", "value_target_key", "value_key", "actor", "critic", "kwargs",
    "device", "functional", "advantage_norm", "value_network", "delay_value", "scalar_output_mode",
}  # fmt: skip


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


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
    mine, theirs = arguments(getattr(losses, name)), arguments(getattr(reference, name))
    left_out = LEFT_OUT - ({"value_network", "delay_value"} if name != "SACLoss" else set())
    for argument, default in theirs.items():
        if argument in left_out:
            continue
        assert argument in mine, argument
        if argument not in ("actor_network", "critic_network"):
            assert mine[argument] == default, argument
    assert set(mine) - set(theirs) <= {"generator"}


@pytest.mark.parametrize("name", NAMES)
def test_keys(name):
    def keys(cls):
        made = cls._AcceptedKeys()
        return {field.name: getattr(made, field.name) for field in fields(made)}

    assert keys(getattr(losses, name)) == keys(getattr(reference, name))


def test_estimators():
    for member in losses.ValueEstimators:
        other = reference.ValueEstimators[member.name]
        assert member.value == other.value
        assert losses.default_value_kwargs(member) == reference.utils.default_value_kwargs(other)


@pytest.mark.parametrize(
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
