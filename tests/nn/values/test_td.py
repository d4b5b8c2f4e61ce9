import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.rollouts import rollout, with_values

from lite import TensorDict, enable_grad, grad, jit, nn, stack, value_and_grad, vmap
from lite.data import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator
from lite.nn import TensorDictModule

# Two episodes in a row: the first is cut off at step 2, before values that must not leak into it (skrl 449).
REWARD = np.array([1.0, 1, 1, 100, 100])
VALUE, NEXT = np.array([0.0, 0, 0, 1000, 1000]), np.array([0.0, 0, 7, 1000, np.nan])
DONE, TERMINATED = np.array([0, 0, 1, 0, 1], bool), np.array([0, 0, 0, 0, 1], bool)


def cut_off():
    following = {"reward": REWARD, "done": DONE, "terminated": TERMINATED, "state_value": NEXT}
    return TensorDict({"state_value": VALUE, "next": following}, batch_size=[5])


ESTIMATORS = {
    "td0": lambda **k: TD0Estimator(gamma=0.5, **k),
    "td1": lambda **k: TD1Estimator(gamma=0.5, **k),
    "td lambda": lambda **k: TDLambdaEstimator(gamma=0.5, lmbda=0.9, **k),
    "gae": lambda **k: GAE(gamma=0.5, lmbda=0.9, **k),
}


@each_case("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_a_cut_off_step_is_measured_against_its_own_next_value(make):
    td = make(value_network=None)(cut_off())
    np.testing.assert_allclose(td["value_target"][2], 1 + 0.5 * 7)
    np.testing.assert_allclose(td["value_target"][4], 100)  # it terminated: NaN after it does not count
    assert np.isfinite(td["advantage"]).all()
    td = cut_off().exclude(("next", "terminated"))  # as if every done step terminated
    np.testing.assert_allclose(make(value_network=None)(td)["value_target"][2], 1.0)


@each_case("make", ESTIMATORS.values(), ids=ESTIMATORS)
def test_nothing_of_one_episode_reaches_another(make):
    """Each episode alone gives what it gives in a batch (Stoix 142)."""
    whole = make(value_network=None)(cut_off())["advantage"]
    alone = [make(value_network=None)(cut_off()[part])["advantage"] for part in (slice(3), slice(3, 5))]
    np.testing.assert_allclose(whole, np.concatenate(alone))


def test_formulas():
    td = cut_off()
    np.testing.assert_allclose(
        TD0Estimator(gamma=0.5, value_network=None)(td)["value_target"], [1, 1, 4.5, 600, 100]
    )
    np.testing.assert_allclose(
        TD1Estimator(gamma=0.5, value_network=None)(td)["value_target"], [2.625, 3.25, 4.5, 150, 100]
    )
    mixed = 1 + 0.5 * (0.9 * 4.5)
    np.testing.assert_allclose(
        TDLambdaEstimator(gamma=0.5, lmbda=0.9, value_network=None)(td)["value_target"][:2],
        [1 + 0.5 * 0.9 * mixed, mixed],
    )


@each_case("make", [v for k, v in ESTIMATORS.items() if k != "gae"])
def test_the_estimate_alone(make):
    td = with_values(rollout((3, 6)))
    keys = set(td.keys(True, True))
    target = make(value_network=None).value_estimate(td)
    assert set(td.keys(True, True)) == keys
    np.testing.assert_array_equal(target, make(value_network=None)(td)["value_target"])
    given = make(value_network=None).value_estimate(td, next_value=np.zeros((3, 6, 1), np.float32))
    assert not np.allclose(given, target)
    net = TensorDictModule(lambda obs: obs[..., :1], ["obs"], ["state_value"])
    bare = rollout((3, 6)).exclude("obs")  # what is under "next" is enough
    np.testing.assert_array_equal(
        make(value_network=net).value_estimate(bare), make(value_network=net)(rollout((3, 6)))["value_target"]
    )


@pytest.mark.parametrize(
    ("make", "group_key"),
    [(ESTIMATORS["td0"], None), (ESTIMATORS["td1"], "task"), (ESTIMATORS["td lambda"], None)],
)
def test_rewards_are_standardized_in_the_tensordict_too(make, group_key):
    td = with_values(rollout((4, 6), dtype=np.float64))
    td["task"] = np.array([0, 0, 1, 1])[:, None] * np.ones((4, 6), int)
    module = make(value_network=None, average_rewards=True, group_key=group_key)
    assert (group_key in module.in_keys) == (group_key is not None)
    module(td)
    reward = td["next", "reward"]
    for part in (reward[:2], reward[2:]) if group_key else (reward,):
        np.testing.assert_allclose([part.mean(), part.std(ddof=1)], [0, 1], atol=1e-9)
    plain = td.clone()
    np.testing.assert_allclose(make(value_network=None)(plain)["advantage"], td["advantage"])
    td = with_values(rollout((4, 6)))
    if group_key:
        raises(KeyError, "task", lambda: module(td))


def test_windows_of_several_rewards_are_discounted_by_their_length():
    td = cut_off()
    td["steps_to_next_obs"] = np.array([3, 2, 1, 2, 1])
    target = TD0Estimator(gamma=0.5, value_network=None)(td)["value_target"]
    np.testing.assert_allclose(target, [1, 1, 4.5, 100 + 0.25 * 1000, 100])
    td["steps_to_next_obs"] = np.ones((5, 2), int)
    raises(RuntimeError, "steps_to_next_obs", lambda: TD0Estimator(gamma=0.5, value_network=None)(td))
    td = with_values(rollout((3, 6)))
    td["steps_to_next_obs"] = np.full((3, 6), 2)
    for make in (ESTIMATORS["td0"], ESTIMATORS["td1"], ESTIMATORS["td lambda"]):
        target = make(value_network=None).value_estimate
        found = jit(target)(td)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, target(td), rtol=1e-5, atol=1e-6)


@each_case(
    ("make", "time_dim"), [(ESTIMATORS["td1"], 0), (ESTIMATORS["td lambda"], -2), (ESTIMATORS["gae"], 0)]
)
def test_time_may_be_any_dimension(make, time_dim):
    td = with_values(rollout((3, 6)))
    expected = make(value_network=None)(td.clone())["advantage"].swapaxes(0, 1)
    moved = td.transpose(0, 1).clone()
    np.testing.assert_allclose(make(value_network=None, time_dim=time_dim)(moved)["advantage"], expected)
    named = td.transpose(0, 1).clone()
    named.names = ["time", None]
    np.testing.assert_allclose(make(value_network=None)(named)["advantage"], expected)
    raises(ValueError, "no time_dim 2", lambda: make(value_network=None, time_dim=2)(moved))


@each_case("make", [v for k, v in ESTIMATORS.items() if k != "gae"])
def test_targets_are_mapped(make) -> None:
    def loss(weight, td):
        network = TensorDictModule(lambda obs: obs @ weight, ["obs"], ["state_value"])
        target = make(value_network=network)(td.copy())["value_target"]
        return ((network(td.copy())["state_value"] - target) ** 2).mean()

    seeds = stack([rollout((8,), seed=k) for k in range(3)])
    weights = np.random.default_rng(0).normal(size=(3, seeds["obs"].shape[-1], 1))
    values, gradients = vmap(value_and_grad(loss))(weights, seeds)
    for k in range(3):
        value, gradient = value_and_grad(loss)(weights[k], seeds[k])
        np.testing.assert_allclose(values[k], value)
        np.testing.assert_allclose(gradients[k], gradient)
    with pytest.raises(TypeError, match=r"reads the entry .* as an array, got TracedArray; td.detach"):
        value_and_grad(lambda reward: loss(weights[0], seeds[0].copy().set(("next", "reward"), reward)))(
            seeds[0]["next", "reward"]
        )


@each_case("make", [v for k, v in ESTIMATORS.items() if k != "gae"])
def test_mapped_and_traced_targets_are_of_the_values_type_also_of_no_steps(make) -> None:
    for rewards, values, steps in ((np.float64, np.float32, 3), (np.int64, np.int64, 3), (float, float, 0)):
        td = with_values(rollout((2, steps)))
        td["next", "reward"] = (9 * td["next", "reward"]).astype(rewards)
        td["next", "state_value"] = (9 * td["next", "state_value"]).astype(values)
        expected = make(value_network=None).value_estimate(td)
        for change in (vmap, jit) if rewards is np.float64 else (vmap,):
            found = change(make(value_network=None).value_estimate)(td)
            np.testing.assert_allclose(found, expected, rtol=1e-5, strict=True)


@each_case("make", [v for k, v in ESTIMATORS.items() if k != "gae"])
def test_targets_differ_with_rewards_and_inputs_but_not_with_parameters(make) -> None:
    td = rollout((3, 6), dtype=np.float64)
    td["next", "done"][:, 3], td["next", "terminated"][0, 3] = True, True
    net = nn.Sequential(nn.Linear(td["obs"].shape[-1], 1, dtype=np.float64, rng=0), nn.Tanh())
    network = TensorDictModule(net, ["obs"], ["state_value"])
    entries = td["next", "reward"], td["next", "obs"], td["obs"]

    def total(entries):
        made = td.copy()
        made["next"] = td["next"].copy()
        made["next", "reward"], made["next", "obs"], made["obs"] = entries
        estimator = make(value_network=network)
        estimator.differentiable = True
        out = estimator(made)
        return (out["advantage"] * np.arange(18.0).reshape(3, 6, 1)).sum()

    value, found = value_and_grad(total)(entries)
    learnt = [nn.Parameter(x) for x in entries]
    with enable_grad():
        total([x * 1 for x in learnt]).backward()
    for mine, other in zip(learnt, found, strict=True):
        np.testing.assert_allclose(mine.grad, other)
    assert all(x.grad is None for x in net.parameters())
    np.testing.assert_allclose(value, total(entries))
    for i, gradient in enumerate(found):
        moved = np.random.default_rng(i).normal(size=gradient.shape) * 1e-5
        up, down = ([x + sign * moved if i == k else x for k, x in enumerate(entries)] for sign in (1, -1))
        np.testing.assert_allclose((total(up) - total(down)) / 2, (gradient * moved).sum(), rtol=1e-6)
    step = jit(lambda entries: value_and_grad(total)(entries))
    np.testing.assert_allclose(step(entries)[0], value)
    for mine, other in zip(step(entries)[1], found, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-12)
    td, estimator = td[:, :0], make(value_network=network, differentiable=True)  # no steps

    def none(reward):
        return estimator.value_estimate(td.copy().set("next", td["next"].copy().set("reward", reward))).sum()

    assert grad(none)(td["next", "reward"]).shape == (3, 0, 1)


@each_case("make", ESTIMATORS.values())
def test_estimates_are_constants_unless_they_differentiate(make) -> None:
    td, net = rollout((3, 6)), nn.Linear(4, 1, rng=0)
    network = TensorDictModule(net, ["obs"], ["state_value"])

    def total(obs):
        made = td.copy().set("obs", obs)
        made["next"] = td["next"].copy().set("obs", obs)
        out = make(value_network=network, differentiable=make is ESTIMATORS["gae"])(made)  # without effect
        return (out["advantage"] * out["value_target"]).sum() + 0 * obs.sum()

    value, gradient = value_and_grad(total)(td["obs"])
    assert value
    assert not gradient.any()


def test_a_time_of_any_size_is_refused_before_its_loop_is_traced() -> None:
    estimator = TDLambdaEstimator(gamma=0.9, lmbda=0.5, value_network=None)

    def target(reward, value, done):
        following = {"reward": reward, "state_value": value, "done": done}
        return estimator.value_estimate(TensorDict({"next": following}, reward.shape[:2]))

    x, names = np.ones((2, 3, 1)), ("reward", "value", "done")
    steps, rows = (jit(target, dynamic_axes={n: {axis: "size"} for n in names}) for axis in (1, 0))
    raises(NotImplementedError, "loops over time", steps, x, x, x > 2)
    np.testing.assert_allclose(rows(x, x, x > 2), target(x, x, x > 2))


def test_a_step_leaves_the_network_of_its_estimator_as_it_is_and_reads_it_at_each_call() -> None:
    net, model = nn.Linear(2, 1, rng=0), nn.Linear(2, 2, rng=1)
    network = TensorDictModule(net, ["obs"], ["state_value"])
    estimator = TDLambdaEstimator(gamma=0.9, lmbda=0.5, value_network=network, differentiable=True)

    @enable_grad()
    def step(obs, never):
        ahead = model(obs)
        following = {"obs": ahead, "reward": ahead[..., :1], "done": never}
        loss = estimator.value_estimate(TensorDict(next=following, batch_size=[3])).sum()
        loss.backward()
        return loss.detach()

    obs, never = np.ones((3, 2), np.float32), np.zeros((3, 1), bool)
    graph = jit(step)
    for scale in (1, 2):
        net.weight.data = np.full((1, 2), scale, np.float32)  # as a step of its own gives it
        found = []
        for run in (step, graph):
            model.zero_grad()
            found.append((run(obs, never), model.weight.grad))
            assert net.weight.grad is None
            assert net.weight.requires_grad
        for mine, other in zip(*found, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5)
