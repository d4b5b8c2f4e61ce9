"""ConsistentDropout: masks that are kept."""

import numpy as np
from helpers.cases import raises

from lite import TensorDict, envs, nn

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def test_a_mask_that_is_given_is_applied() -> None:
    layer = nn.ConsistentDropout(0.25, rng=0)
    out, mask = layer(X)
    np.testing.assert_array_equal(np.unique(mask), np.float32([0, 1 / 0.75]))
    np.testing.assert_array_equal(out, X * mask)
    np.testing.assert_array_equal(layer(2 * X, mask)[0], 2 * out)
    assert (layer(X)[1] != mask).any()
    np.testing.assert_array_equal(nn.ConsistentDropout(0.25, rng=0)(X)[1], mask)
    assert abs(np.mean(layer.make_mask(shape=(200, 30)) == 0) - 0.25) < 0.03
    assert layer.eval()(X) is X
    np.testing.assert_array_equal(layer.make_mask(input=X), np.ones((4, 3)))


def test_masks_are_entries() -> None:
    module = nn.ConsistentDropoutModule(0.5, "x", rng=0)
    td = module(TensorDict(x=X.copy(), batch_size=[4]))
    (mask,) = (key for key in td.keys() if key.startswith("mask_"))  # noqa: SIM118
    again = module(td.clone().set("x", X))
    np.testing.assert_array_equal(again["x"], td["x"])
    assert module.in_keys == module.out_keys == ["x", mask]
    assert envs.TensorDictPrimer  # loads what a primer is made of
    primer = nn.ConsistentDropoutModule(0.5, ["x", "m"], input_shape=(3,)).make_tensordict_primer()
    assert primer.primers["m"].dtype == np.float32
    module.eval()
    np.testing.assert_array_equal(module(TensorDict(x=X, batch_size=[4]))["x"], X)


def test_what_is_refused() -> None:
    raises(ValueError, r"\[0, 1\)", lambda: nn.ConsistentDropoutModule(1.0, "x"))
    raises(ValueError, "in_keys", lambda: nn.ConsistentDropoutModule(0.5, ["x"]))
    raises(RuntimeError, "input_shape", lambda: nn.ConsistentDropoutModule(0.5, "x").make_tensordict_primer())
    raises(RuntimeError, "make_mask", lambda: nn.ConsistentDropout().make_mask())
