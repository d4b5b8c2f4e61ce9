"""Mappings to positive numbers, and the modules that make the parameters of normal distributions."""

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite.nn import (
    AddStateIndependentNormalScale,
    NormalParamExtractor,
    add_custom_mapping,
    biased_softplus,
    expln,
    inv_softplus,
    mappings,
)


def test_biased_softplus() -> None:
    x = np.array([-2, -0.5, 0, 0.5, 2])
    np.testing.assert_allclose(
        mappings("biased_softplus_1.0")(x), [0.2161, 0.7160, 1, 1.3419, 2.6124], atol=5e-5
    )
    for bias, low in ((1.0, 0.01), (0.5, 0.1)):
        module = biased_softplus(bias, low)
        np.testing.assert_allclose(module(np.zeros(1)), bias)
        np.testing.assert_allclose(module(np.array([-100.0])), low)
    np.testing.assert_allclose(biased_softplus(1.0).bias, 0.5254587, rtol=1e-6)
    for key in ("biased_softplus1", "biased_softplus_1_2_3"):
        raises(ValueError, f"Invalid number of args in '{key}'", mappings, key)
    assert mappings("biased_softplus_2")(np.zeros(1, np.float16)).dtype == np.float16


def test_inverse_softplus() -> None:
    x = np.array([0.1, 1.0, 5.0])
    np.testing.assert_allclose(np.log1p(np.exp(inv_softplus(x))), x)
    assert inv_softplus(0.0) == pytest.approx(np.log(1e-6))
    assert isinstance(inv_softplus(1), float)


def test_expln_is_smooth_at_zero() -> None:
    step = 1e-6
    below, at, above = expln(np.array([-step, 0.0, step]))
    assert at == 1
    np.testing.assert_allclose((above - at) / step, (at - below) / step, rtol=1e-5)
    assert np.isfinite(expln(np.array([-1e30, 1e30]))).all()


def test_custom_mappings() -> None:
    add_custom_mapping("test_half", lambda x: x * 0 + 0.5)
    loc, scale = NormalParamExtractor("test_half")(np.zeros((3, 4)))
    assert loc.shape == scale.shape == (3, 2)
    assert (scale == 0.5).all()
    raises(NotImplementedError, "Unknown mapping 'nope', there are", lambda: mappings("nope"))
    raises(ValueError, "Invalid number of args in 'biased_softplus_1_2_3'", mappings, "biased_softplus_1_2_3")


def test_the_extractor_splits_the_last_axis() -> None:
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    x.flags.writeable = False
    loc, scale, more = NormalParamExtractor("exp", scale_lb=1.0)(x, "more")
    assert more == "more"
    np.testing.assert_array_equal(loc, x[:, :3])
    np.testing.assert_allclose(scale, np.exp(x[:, 3:]), rtol=1e-6)
    assert scale.dtype == np.float32
    assert (NormalParamExtractor("none", scale_lb=2.0)(np.zeros(2))[1] == 2).all()
    raises(ValueError, r"last axis of 2 or more, got \(3, 1\)", NormalParamExtractor(), np.zeros((3, 1)))
    raises(RuntimeError, "at least one dimension", lambda: NormalParamExtractor()(np.zeros(())))


@each_case("shape", [None, (), 4, (3, 4)])
def test_a_scale_of_its_own(shape: object) -> None:
    module = AddStateIndependentNormalScale(shape, init_value=1.0)  # type: ignore[arg-type]
    loc = np.zeros((2, 3, 4), np.float32)
    got, scale = module(loc)
    assert got is loc
    np.testing.assert_allclose(scale, np.full((2, 3, 4), np.e), rtol=1e-6)
    assert scale.dtype == np.float32
    scale[...] = 0  # an array of its own
    assert module(loc)[1].all()
    assert [name for name, _ in module.named_parameters()] == ["state_independent_scale"]


def test_a_scale_as_a_buffer_or_without_data() -> None:
    module = AddStateIndependentNormalScale(2, make_param=False)
    assert [name for name, _ in module.named_buffers()] == ["state_independent_scale"]
    meta = AddStateIndependentNormalScale(2, device="meta")
    meta.load_state_dict({"state_independent_scale": np.zeros(2, np.float32)}, assign=True)
    np.testing.assert_array_equal(meta(np.zeros(2))[1], [1, 1])
    raises(RuntimeError, r"of shape \(3,\), do not match the shape of the scale, \(2,\)", module, np.zeros(3))
    raises(RuntimeError, r"of shape \(\)", lambda: module(np.zeros(())))


def test_distributions_export_them_as_tensordict_does() -> None:
    from lite import nn
    from lite.nn import distributions

    names = ["AddStateIndependentNormalScale", "NormalParamExtractor", "add_custom_mapping", "mappings"]
    for name in [*names, "InteractionType", "set_interaction_type"]:
        assert getattr(distributions, name) is getattr(nn, name)
