"""Mappings and extractors of parameters against tensordict's."""

import numpy as np
import pytest
import torch
from parity.probabilistic import compared, same
from tensordict import nn as reference

from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


# -- extractors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mapping", ["exp", "relu", "softplus", "expln", "none", "biased_softplus", "biased_softplus_1.0",
                "biased_softplus_0.5_0.1", "biased_softplus_1_2_3", "unknown"]
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mappings(mapping, dtype):
    x = np.linspace(-30, 30, 61).astype(dtype)
    same(lambda lib: lib.nn.mappings(mapping)(lib.array(x)))


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 8), (1,), (2, 1), ()])
@pytest.mark.parametrize("options", [{}, {"scale_mapping": "exp", "scale_lb": 0.5}])
def test_normal_param_extractor(shape, options):
    def case(lib):
        x = lib.array(np.linspace(-3, 3, int(np.prod(shape))).reshape(shape))
        return lib.nn.NormalParamExtractor(**options)(x, 7)

    out = same(case)
    assert isinstance(out, type) == (shape in [(1,), (2, 1), ()])


@pytest.mark.parametrize("make_param", [True, False])
@pytest.mark.parametrize(
    ("shape", "loc"), [(4, (4,)), (4, (3, 4)), ((2, 4), (3, 2, 4)), (4, (3, 5)), (4, ())]
)
@compared
def test_state_independent_scale(lib, shape, loc, make_param):
    module = lib.nn.AddStateIndependentNormalScale(
        shape, scale_mapping="relu", init_value=2.0, make_param=make_param
    )
    names = [n for n, _ in module.named_parameters()], [n for n, _ in module.named_buffers()]
    assert list(module.state_dict()) == ["state_independent_scale"]
    return names, module(lib.array(np.ones(loc, np.float32)), 7)


@pytest.mark.parametrize("value", [1.0, 0.5, 1e-9, 20.0])
def test_inv_softplus(value):
    assert nn.inv_softplus(value) == pytest.approx(reference.inv_softplus(value), rel=1e-5)
    np.testing.assert_allclose(
        nn.inv_softplus(np.array([value])), reference.inv_softplus(torch.tensor([value], dtype=torch.float64))
    )
