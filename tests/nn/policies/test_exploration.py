"""When actions are explored, and how much."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import TensorDict, nn
from lite.data import Bounded, Categorical, Composite, Unbounded
from lite.envs import set_exploration_type
from lite.models import OnnxModule
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


def explored(spec: Any, action: Any, eps: float = 1.0, batch: Any = None, **entries: Any) -> Any:
    options = {"action_mask_key": "mask"} if "mask" in entries else {}
    module = nn.EGreedyModule(spec, eps, eps, generator=0, **options)
    batch = [len(action)] if batch is None else batch
    return module(TensorDict(action=action, batch_size=batch, **entries))["action"]


@each_case("eps", [0.0, 0.25, 1.0])
def test_share_of_random_actions(eps: float) -> None:
    action = np.full(4000, 7)  # which is not drawn
    action.flags.writeable = False
    got = explored(Categorical(4), action, eps)
    assert abs((got != 7).mean() - eps) < 0.03
    for drawn in range(4 * (eps > 0)):
        assert abs((got == drawn).mean() - eps / 4) < 0.03


def test_specs_with_a_batch() -> None:
    spec = Composite(action=Categorical(3, (4,)), shape=(4,))
    got = explored(spec, np.full((50, 4), 9), 0.5, batch=[50, 4])
    assert {0, 1, 2, 9} == set(np.unique(got))
    with pytest.raises(ValueError, match=r"the action must be of Categorical.*got shape \(3,\)"):
        explored(spec, np.zeros(3, int))


def test_masks() -> None:
    mask = np.zeros((300, 4), bool)
    mask[:, [1, 3]] = True
    ids = explored(Categorical(4), np.zeros(300, int), mask=mask)
    assert set(ids) == {1, 3}
    assert 0.4 < (ids == 1).mean() < 0.6
    with pytest.raises(ValueError, match=r"the mask must have shape \(300, 1\), one flag"):
        explored(Categorical(4), np.zeros(300, int), mask=mask[:, :3][:, :, None])
    with pytest.raises(ValueError, match="the mask 'mask' allows no action in some rows"):
        explored(Categorical(4), np.zeros(300, int), mask=mask & False)
    with pytest.raises(KeyError, match="EGreedyModule reads the entry 'mask', which the TensorDict lacks"):
        nn.EGreedyModule(Categorical(4), action_mask_key="mask")(TensorDict(action=np.zeros(3, int)))


class OneHot(Categorical):
    """A spec of rows of 0 and 1."""


def test_masks_of_rows() -> None:
    mask = np.tile([True, False, True], (100, 1))
    got = explored(OneHot(2, (3,)), np.zeros((100, 3), int), mask=mask)
    np.testing.assert_array_equal(got.sum(1), 1)
    np.testing.assert_array_equal(got.sum(0) > 20, [True, False, True])


ACTION = np.full((4000, 2), 3.0, np.float32)
ACTION.flags.writeable = False


def test_noise() -> None:
    module = nn.AdditiveGaussianModule(Unbounded((2,)), 0.5, 0.1, mean=2.0, std=4.0, generator=0)
    got = module(TensorDict(action=ACTION, batch_size=[4000]))["action"]
    assert got.dtype == np.float32
    np.testing.assert_allclose([got.mean(), got.std()], [3.0 + 0.5 * 2.0, 0.5 * 4.0], rtol=0.03)


def test_bounds() -> None:
    module = nn.AdditiveGaussianModule(Bounded(2, 3.5, (2,)), generator=0)
    got = module(TensorDict(action=ACTION, batch_size=[4000]))["action"]
    assert got.min() == 2
    assert got.max() == 3.5
    with nn.set_interaction_type("mode"):
        np.testing.assert_array_equal(module(TensorDict(action=ACTION))["action"], ACTION)
    with pytest.raises(KeyError, match="AdditiveGaussianModule reads the entry 'action'"):
        module(TensorDict())
    with pytest.raises(RuntimeError, match="AdditiveGaussianModule needs a spec: give one, or set its"):
        nn.AdditiveGaussianModule()(TensorDict(action=ACTION))


WIDE = Bounded(-100, 100, (1,))


def test_noise_without_chance() -> None:
    module = nn.OrnsteinUhlenbeckProcessModule(WIDE, 0.5, 0.1, theta=0.5, mu=1.0, sigma=0.0, dt=0.1, x0=2.0)
    td = TensorDict(action=np.zeros((2, 1)), batch_size=[2])
    shifts = []
    for step in range(3):
        td["action"] = np.zeros((2, 1))
        td["is_init"] = np.array([[step == 0], [step == 2]])
        shifts.append(module(td)["action"][:, 0].tolist())
    noise = [1.95, 1.9025, 1.857375]  # n + 0.05 (1 - n), from 2
    np.testing.assert_allclose(
        shifts, [[0.5 * n, 0.5 * m] for n, m in zip(noise, [*noise[:2], 1.95], strict=True)]
    )
    np.testing.assert_array_equal(td["_ou_steps"], [3, 1])
    np.testing.assert_allclose(td["_ou_prev_noise"], [[noise[2] - 2], [noise[0] - 2]])


def test_chance() -> None:
    options: dict[str, Any] = {
        "theta": 0.0, "sigma": 0.4, "dt": 0.25, "sigma_min": 0.2, "n_steps_annealing": 1,
    }  # fmt: skip
    module = nn.OrnsteinUhlenbeckProcessModule(WIDE, **options, generator=0)
    td = TensorDict(action=np.zeros((20000, 1)), batch_size=[20000])
    first = module(td)["_ou_prev_noise"]
    second = module(td)["_ou_prev_noise"] - first
    np.testing.assert_allclose([first.std(), second.std()], [0.4 * 0.5, 0.2 * 0.5], rtol=0.03)


def test_errors_of_ornstein_uhlenbeck() -> None:
    module = nn.OrnsteinUhlenbeckProcessModule(None, safe=False)
    td = TensorDict(action=np.zeros((3, 1)), is_init=np.zeros((2, 1), bool), batch_size=[])
    with pytest.raises(ValueError, match=r"'is_init' must have shape \(1,\), got \(2, 1\)"):
        module(td)
    with pytest.raises(RuntimeError, match="spec must be given for safe=True, got None"):
        nn.OrnsteinUhlenbeckProcessModule(None)


def test_without_exploration_actions_are_projected_alone(tmp_path: Path) -> None:
    spec = Bounded(-1.0, 1.0, (2,))
    module = nn.OrnsteinUhlenbeckProcessModule(spec, x0=np.array([3.0, 4.0]))
    np.testing.assert_array_equal(module.state_dict()["ou.x0"], [3, 4])
    assert module.state_dict()["ou._empty_tensor_device"].shape == (0,)  # TorchRL's has it
    td = TensorDict(action=np.array([0.5, 7.0], np.float32))
    with set_exploration_type("deterministic"):
        out = module(td)
    np.testing.assert_array_equal(out["action"], [0.5, 1])
    assert set(out.keys()) == {"action"}
    graph = OnnxModule(module.to_onnx(tmp_path / "actions.onnx", td.unsqueeze(0)))
    td = TensorDict(action=np.array([0.25, 7.0], np.float32))
    np.testing.assert_array_equal(graph(td)["action"], [0.25, 1])
