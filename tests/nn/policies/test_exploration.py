"""When actions are explored, and how much."""

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, nn
from lite.data import Bounded, Categorical, Composite
from lite.nn import RandomPolicy
from lite.nn.policies.exploration import is_exploring


@each_case(("kind", "expected"), [("random", True), (None, True), ("mode", False), ("mean", False)])
def test_when(kind: str | None, expected: bool) -> None:
    with nn.set_interaction_type(kind):
        assert is_exploring() is expected


def test_how_much() -> None:
    module = nn.EGreedyModule(Categorical(4), 0.9, 0.1, 8)
    module.step(3)
    np.testing.assert_allclose(module.eps, 0.6, rtol=1e-6)
    module.step()
    np.testing.assert_allclose(module.eps, 0.5, rtol=1e-6)
    module.step(100)
    assert module.eps == module.eps_end
    fresh = nn.EGreedyModule(Categorical(4), 0.9, 0.1, 8)
    fresh.load_state_dict(module.state_dict())
    assert fresh.eps == module.eps_end


def test_specs_by_key() -> None:
    module = nn.AdditiveGaussianModule(action_key=("agent", "action"))
    assert module.spec is None
    module.spec = Bounded(-1, 1, (2,))
    assert module.spec["agent", "action"] == Bounded(-1, 1, (2,))
    given = Composite(agent={"action": Bounded(-1, 1, (2,))}, other=Categorical(3))
    assert nn.AdditiveGaussianModule(given).spec is given
    with pytest.raises(TypeError, match="spec must be a spec or None, got int"):
        nn.EGreedyModule(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="device must be None or 'cpu', got 'cuda'"):
        nn.EGreedyModule(Categorical(3), device="cuda")


def test_actions_are_drawn_from_the_spec():
    td = TensorDict(batch_size=[5])
    assert RandomPolicy(Categorical(3, (5,)), generator=0)(td) is td
    assert td["action"].dtype == np.int64
    np.testing.assert_array_equal(td["action"], Categorical(3, (5,)).rand(rng=0))
    RandomPolicy(Bounded(-1, 1, (5, 2)), ("agent", "action"))(td)
    assert Bounded(-1, 1, (5, 2)).is_in(td["agent", "action"])


def test_composite_specs_name_the_keys():
    spec = Composite({"action": {"a": Categorical(3, (5,)), "b": Bounded(-1, 1, (5, 2))}}, shape=(5,))
    td = RandomPolicy(spec)(TensorDict(batch_size=[5]))
    assert set(td.keys(True, True)) == {("action", "a"), ("action", "b")}
    assert spec.is_in(td)


def test_seeds():
    draws = [
        RandomPolicy(Categorical(100, (9,)), generator=seed)(TensorDict())["action"] for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_errors():
    raises(RuntimeError, "has no action_spec", RandomPolicy(), TensorDict())
    raises(TypeError, "action_spec must be a spec, got int", RandomPolicy, 3)
