"""State dicts: what is in them, and what does not fit."""

import numpy as np
import pytest
from helpers.cases import each_case

from lite import nn, optim


def trained(cls=optim.Adam, shapes=((2,), (3, 1)), **options):
    params = [nn.Parameter(np.ones(shape)) for shape in shapes]
    optimizer = cls(params, **options)
    for param in params:
        param.grad = np.full(param.shape, 0.5)
    optimizer.step()
    return optimizer


def test_what_is_saved():
    saved = trained().state_dict()
    assert saved["param_groups"] == [
        {
            "lr": 0.001, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False,
            "maximize": False, "decoupled_weight_decay": False, "params": [0, 1],
        }
    ]  # fmt: skip
    assert list(saved["state"]) == [0, 1]
    step = saved["state"][0]["step"]
    assert (step.shape, step.dtype, float(step)) == ((), np.float32, 1.0)
    np.testing.assert_allclose(saved["state"][1]["exp_avg"], np.full((3, 1), 0.05))


def test_one_loads_what_another_saved():
    first = trained(betas=(0.5, 0.9), lr=0.3)
    second = trained()
    second.load_state_dict(first.state_dict())
    for a, b in zip(first.param_groups[0]["params"], second.param_groups[0]["params"], strict=True):
        b.data[...] = a.data
        assert not np.shares_memory(first.state[a]["exp_avg"], second.state[b]["exp_avg"])
    first.step()
    second.step()
    for a, b in zip(first.param_groups[0]["params"], second.param_groups[0]["params"], strict=True):
        np.testing.assert_array_equal(a.data, b.data)
        assert second.state[b]["step"] == 2


def changed(**entries):
    return lambda saved: saved["state"][0].update(entries)


@each_case(
    ("spoil", "message"),
    [
        (lambda saved: saved.pop("state"), "must be one of an optimiser, with 'state' and 'param_groups'"),
        (lambda saved: saved["param_groups"].append({}), "has 2 parameter groups, the optimiser has 1"),
        (lambda saved: saved["param_groups"][0].update(params=[0]), "group 0 of state_dict has 1 parameters"),
        (lambda saved: saved["param_groups"][0].pop("betas"), r"lacks \['betas'\]: it is not one of Adam"),
        (lambda saved: saved["param_groups"][0].update(lr=-1), "lr must be at least 0"),
        (lambda saved: saved["state"].update({7: {}}), "state for parameter 7, which no group has"),
        (changed(exp_avg=np.ones(5)), r"'exp_avg' of parameter 0 in state_dict has the shape \(5,\)"),
        (changed(momentum_buffer=np.ones(2)), r"has \['momentum_buffer'\]: it is not one of Adam"),
        (lambda saved: saved["state"][0].pop("step"), "lacks 'step': it is not one of Adam"),
        (lambda saved: saved["state"][0].update(step=np.inf), "'step' of parameter 0 .* got inf"),
        (lambda saved: saved["state"][0].update(step=-1), "'step' of parameter 0 .* got -1"),
    ],
)
def test_what_does_not_fit(spoil, message):
    optimizer = trained()
    before = optimizer.state_dict()
    saved = trained(lr=0.5).state_dict()
    spoil(saved)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    np.testing.assert_array_equal(after["state"][0]["exp_avg"], before["state"][0]["exp_avg"])


def test_options_that_older_versions_lack_stay():
    saved = trained(lr=0.5).state_dict()
    del saved["param_groups"][0]["decoupled_weight_decay"], saved["param_groups"][0]["maximize"]
    optimizer = trained(maximize=True)
    optimizer.load_state_dict(saved)
    assert (optimizer.param_groups[0]["maximize"], optimizer.param_groups[0]["lr"]) == (True, 0.5)
    optimizer.step()
