"""EnsembleModule: one module with several sets of parameters."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, nn


def linear(n: int = 2, m: int = 3, key: str = "a", out: str = "b") -> Any:
    return nn.TensorDictModule(nn.Linear(n, m), in_keys=[key], out_keys=[out])


def data() -> TensorDict:
    a = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    return TensorDict(a=a, other=np.arange(5), batch_size=[5])


def test_copies_are_initialised_independently() -> None:
    module = linear()
    own = module.module.weight.data.copy()
    ensemble = nn.EnsembleModule(module, 4, rng=0)
    weight = ensemble.params_td["module", "weight"]
    assert weight.shape == (4, 3, 2)
    assert isinstance(weight, nn.Parameter)
    assert len({w.tobytes() for w in weight.data}) == 4
    np.testing.assert_array_equal(module.module.weight.data, own)
    assert ensemble.in_keys == ["a"]
    assert ensemble.out_keys == ["b"]
    assert [n for n, _ in ensemble.named_parameters()] == [
        "module.module.weight", "module.module.bias", "params_td.module.weight", "params_td.module.bias",
    ]  # fmt: skip
    again = nn.EnsembleModule(linear(), 4, rng=0)
    np.testing.assert_array_equal(again.params_td["module", "weight"].data, weight.data)


def test_forward_gives_every_entry_the_copies() -> None:
    ensemble = nn.EnsembleModule(linear(), 3)
    td = data()
    out = ensemble(td)
    assert out.batch_size == (3, 5)
    assert out["b"].shape == (3, 5, 3)
    assert out["other"].shape == (3, 5)
    assert list(td.keys()) == ["a", "other"]
    for i in range(3):
        w, b = (ensemble.params_td["module", name].data[i] for name in ("weight", "bias"))
        np.testing.assert_allclose(out["b"][i], td["a"] @ w.T + b, rtol=1e-5)


def test_chains() -> None:
    first = nn.EnsembleModule(linear(), 4)
    second = nn.EnsembleModule(linear(3, 1, "b", "c"), 4, expand_input=False)
    out = nn.TensorDictSequential(first, second)(data())
    assert out["c"].shape == (4, 5, 1)
    assert out.batch_size == (4, 5)
    for i in range(4):
        w, b = (second.params_td["module", name].data[i] for name in ("weight", "bias"))
        np.testing.assert_allclose(out["c"][i], out["b"][i] @ w.T + b, rtol=1e-5)
    raises(ValueError, r"num_copies=4, got batch_size=\(5,\)", second, data())


def test_reset_runs_once_per_copy() -> None:
    class Counting(nn.Linear):
        count = 0

        def reset_parameters(self, rng: Any = None) -> None:
            type(self).count += 1
            super().reset_parameters(rng)

    layer = Counting(2, 2)
    Counting.count = 0
    ensemble = nn.EnsembleModule(nn.TensorDictModule(layer, ["a"], ["b"]), 5)
    assert Counting.count == 5
    before = ensemble.params_td["module", "weight"].data.copy()
    ensemble.reset_parameters_recursive(ensemble.params_td.data)
    assert not (ensemble.params_td["module", "weight"].data == before).any()
    raises(ValueError, "needs the parameters to reset", ensemble.reset_parameters_recursive)


def test_other_children_are_pointed_out() -> None:
    ensemble = nn.EnsembleModule(linear(), 2)
    ensemble.head = nn.Linear(1, 1)
    with pytest.warns(UserWarning, match=r"not those of \['head'\]"):
        ensemble.reset_parameters_recursive(ensemble.params_td.data[0])
