"""MultiAgentMLP: whose inputs and parameters an agent has."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises

from lite import nn
from lite.models import OnnxModule

X = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)


def made(centralized: bool, share_params: bool, **options: Any) -> Any:
    return nn.MultiAgentMLP(
        3, 2, 4, centralized=centralized, share_params=share_params, num_cells=[6], rng=0, **options
    )


@each_case(("share_params", "centralized"), itertools.product([False, True], [False, True]))
def test_one_agent_after_the_other(share_params: Any, centralized: Any) -> None:
    module = made(centralized, share_params)
    got = module(X[..., :1], X[..., 1:])  # as of several keys
    net = nn.MLP(12 if centralized else 3, 2, num_cells=[6])
    for agent in range(4):
        params = module.params.data if share_params else module.params.data[agent]
        with params.to_module(net):
            expected = net(X.reshape(5, 12) if centralized else X[:, agent])
        np.testing.assert_allclose(got[:, agent], expected, rtol=1e-5, atol=1e-6)
    if not share_params:
        assert len({float(weight[0, 0]) for weight in module.params["0", "weight"].data}) == 4


def test_images_of_one_agent_after_the_other() -> None:
    views = np.random.default_rng(1).random((5, 2, 3, 11, 9)).astype(np.float32)
    options: dict[str, Any] = {"num_cells": [4, 6], "kernel_sizes": 3, "strides": 2}
    for share_params, centralized in itertools.product([False, True], [False, True]):
        with noting(share_params, centralized):
            module = nn.MultiAgentConvNet(2, centralized, share_params, in_features=3, rng=0, **options)
            got = module(views)
            net = nn.ConvNet(6 if centralized else 3, **options)
            for agent in range(2):
                params = module.params.data if share_params else module.params.data[agent]
                with params.to_module(net):
                    expected = net(views.reshape(5, 6, 11, 9) if centralized else views[:, agent])
                np.testing.assert_allclose(got[:, agent], expected, rtol=1e-5, atol=1e-6)
    raises(ValueError, r"2 agents, channels, height, width\), got shape \(5, 3, 11, 9\)", module, views[:, 0])
    raises(ValueError, "in_features must be given", nn.MultiAgentConvNet, 2, True, True)


def test_graph(tmp_path: Path) -> None:
    views = np.random.default_rng(1).random((5, 2, 3, 11, 9)).astype(np.float32)
    cases = [
        (nn.MultiAgentConvNet(2, True, False, in_features=3, num_cells=[4], rng=0), views),
        (made(False, False), X),
        (nn.VDNMixer(4), X[..., :1]),
        (nn.QMixer((3,), 8, 4), X[..., :1], X[:, 0]),
    ]
    for module, *inputs in cases:
        graph = OnnxModule(module.to_onnx(tmp_path / "agents.onnx", *inputs))
        few = [x[:2] for x in inputs]
        np.testing.assert_allclose(graph(*few), module(*few), rtol=1e-5, atol=1e-6)


def test_errors() -> None:
    with pytest.raises(
        ValueError, match=r"the input must be \(\*batch, 4 agents, size\), got shape \(5, 3, 3\)"
    ):
        made(True, True)(X[:, :3])
    with pytest.raises(TypeError, match="share_params must be given"):
        nn.MultiAgentMLP(3, 2, 4, centralized=True)
    with pytest.raises(ValueError, match="n_agent_inputs must be given, got None"):
        nn.MultiAgentMLP(None, 2, 4, centralized=True, share_params=True)
    assert "n_agents=4" in repr(made(True, True))


def test_mixers_name_the_shape_they_take() -> None:
    values, state = np.ones((5, 2, 1), np.float32), np.ones((5, 4), np.float32)
    mixer = nn.QMixer((4,), 8, 2, rng=0)
    raises(ValueError, r"\(\*batch, 3 agents, 1\), got shape \(5, 2, 1\)", nn.VDNMixer(3), values)
    raises(ValueError, r"got shape \(5, 2, 2\)", mixer, np.ones((5, 2, 2)), state)
    raises(ValueError, r"state must have the shape \(5, 4\), got \(4,\)", mixer, values, state[0])
    assert (mixer(values + 1, state) >= mixer(values, state)).all()  # more for one is more for all
    raises(TypeError, "state_shape must be a tuple of sizes, got 4", nn.QMixer, 4, 8, 2)
    raises(ValueError, "n_agents must be .*at least 1.* got 0", nn.QMixer, (4,), 8, 0)
    raises(ValueError, "mixing_embed_dim must be .*at least 1.* got 0", nn.QMixer, (4,), 0, 2)
