"""Value estimators as modules against torchrl's, on the same rollouts and networks."""

import inspect

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case
from helpers.compared import assert_same_entries
from helpers.rollouts import rollout, with_values
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrl.objectives import llm, value

import lite.data as data
from lite import NonTensorData, TensorDict, grad, nn
from lite.nn.distributions import Categorical

# torch.vmap and others warn of what they are about to change
pytestmark = pytest.mark.filterwarnings("ignore")

WEIGHT = np.array([[1.0, 0.5, -2.0, 0.25]], np.float32)
FACTORS = {"TD0Estimator": {}, "TD1Estimator": {}, "TDLambdaEstimator": {"lmbda": 0.8}, "GAE": {"lmbda": 0.8}}
each = pytest.mark.parametrize("name", FACTORS)


def networks():
    ours = nn.Linear(4, 1)
    ours.weight.data[:], ours.bias.data[:] = WEIGHT, 0.5
    theirs = torch.nn.Linear(4, 1)
    with torch.no_grad():
        theirs.weight.copy_(torch.from_numpy(WEIGHT))
        theirs.bias.fill_(0.5)
    keys = ["obs"], ["state_value"]
    return nn.TensorDictModule(ours, *keys), tensordict.nn.TensorDictModule(theirs, *keys)


def pair(name, networks=(None, None), **options):
    options = {"gamma": 0.875, **FACTORS[name], **options}
    return (
        getattr(data, name)(value_network=networks[0], **options),
        getattr(value, name)(value_network=networks[1], **options),
    )


def other(td):
    """The rollout for torchrl, in memory of its own."""
    return td.clone().to_torch()


@each
@each_case(
    ("batch", "dtype", "more"),
    [
        ((7,), np.float32, ()), ((7,), np.float64, (3,)), ((3, 7), np.float64, ()),
        ((3, 7), np.float32, (1,)), ((2, 3, 7), np.float32, (3, 1)), ((2, 3, 7), np.float64, (1,)),
    ],
)  # fmt: skip
def test_values_that_are_there(name, batch, dtype, more):
    """Rewards of the shape of the batch, with a feature, and of several agents."""
    td = with_values(rollout(batch, more, dtype=dtype))
    theirs = other(td)
    ours, torchs = pair(name)
    expected = torchs(theirs)
    if (batch, more) != ((7,), ()):
        assert_same_entries(ours(td), expected, 2e-5)
        return
    # Of one dimension: torchrl's targets have one more, and its advantages of them may have (time, time).
    target = expected["value_target"].reshape(7).numpy()
    np.testing.assert_allclose(ours(td)["value_target"], target, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(td["advantage"], target - td["state_value"], rtol=2e-5, atol=2e-5)


@st.composite
def problems(draw):
    name = draw(st.sampled_from([*FACTORS]))
    batch = (*draw(st.lists(st.integers(1, 3), max_size=2)), draw(st.integers(1, 10)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rate, seed = draw(st.sampled_from([0.0, 0.2, 0.7, 1.0])), draw(st.integers(0, 2**32))
    td = rollout(batch, dtype=dtype, rate=rate, seed=seed)
    if draw(st.booleans()):
        td = td.exclude(("next", "terminated"))
    options = {}
    if draw(st.booleans()):
        options = {"shifted": True, "shifted_budget": draw(st.integers(1, 4))}
    return name, td, options


@settings(max_examples=40)
@given(problems())
def test_any_rollout(problem):
    name, td, options = problem
    net, torch_net = networks()
    if td["obs"].dtype == np.float64:
        net, torch_net = net.double(), torch_net.double()
    theirs = other(td)
    ours, torchs = pair(name, (net, torch_net), **options)
    assert_same_entries(ours(td), torchs(theirs), 1e-4)


@each
@pytest.mark.parametrize(
    "options", [{"value_chunk_size": 2}, {"num_chunks": 2, "value_chunk_dim": 1}, {"deactivate_vmap": True}]
)
def test_calls_in_pieces(name, options):
    td = rollout((3, 7))
    theirs = other(td)
    ours, torchs = pair(name, networks(), **options)
    assert_same_entries(ours(td), torchs(theirs), 2e-5)


@each
def test_steps_to_next_observations(name):
    td = with_values(rollout((3, 12)))
    td["steps_to_next_obs"] = np.random.default_rng(0).integers(1, 4, (3, 12, 1))
    theirs = other(td)
    loops = {"vectorized": False} if name in ("TDLambdaEstimator", "GAE") else {}
    ours, torchs = pair(name, **loops)
    if name == "TD1Estimator":  # torchrl's vectorised return differs from its own loop where factors differ
        gamma = 0.875 ** theirs["steps_to_next_obs"]
        ours_target = ours(td)["value_target"]
        from torchrl.objectives.value.functional import td1_return_estimate

        arguments = (theirs["next", key] for key in ("state_value", "reward", "done", "terminated"))
        expected = td1_return_estimate(gamma, *arguments, time_dim=1)
        np.testing.assert_allclose(ours_target, expected.numpy(), rtol=1e-5, atol=1e-5)
    elif name == "GAE":  # whose loop takes numbers only, and whose vectorised form drops small terms
        assert_same_entries(ours(td), value.GAE(gamma=0.875, lmbda=0.8, value_network=None)(theirs), 1e-4)
    else:
        assert_same_entries(ours(td), torchs(theirs), 2e-5)


@pytest.mark.parametrize("name", ["TD0Estimator", "TD1Estimator", "TDLambdaEstimator"])
@pytest.mark.parametrize("group_key", [None, "task"])
def test_average_rewards(name, group_key):
    td = with_values(rollout((4, 7)))
    td["task"] = np.array([0, 3, 3, 0])[:, None] * np.ones((4, 7), int)
    theirs = other(td)
    ours, torchs = pair(name, average_rewards=True, group_key=group_key)
    assert_same_entries(ours(td), torchs(theirs), 1e-4)
    assert ours.in_keys == torchs.in_keys


@pytest.mark.parametrize("group_key", [None, "task"])
@pytest.mark.parametrize("shifted", [False, True])
def test_average_gae(group_key, shifted):
    td = rollout((4, 9), rate=0.4)
    td["task"] = np.array([0, 3, 3, 0])[:, None] * np.ones((4, 9), int)
    theirs = other(td)
    ours, torchs = pair("GAE", networks(), average_gae=True, group_key=group_key, shifted=shifted)
    assert_same_entries(ours(td), torchs(theirs), 1e-4)


@pytest.mark.parametrize("average_gae", [False, True])
@pytest.mark.parametrize("group_key", [None, "task"])
def test_agents_that_share_rewards(average_gae, group_key):
    td = rollout((4, 9))
    rng = np.random.default_rng(5)
    td["task"] = np.array([0, 3, 3, 0])[:, None] * np.ones((4, 9), int)
    td["state_value"] = rng.normal(size=(4, 9, 3, 1)).astype(np.float32)
    td["next", "state_value"] = rng.normal(size=(4, 9, 3, 1)).astype(np.float32)
    theirs = other(td)
    options = {"gamma": 0.875, "lmbda": 0.8, "value_network": None, "average_gae": average_gae}
    ours = data.MultiAgentGAE(**options, group_key=group_key)
    torchs = value.MultiAgentGAE(**options, group_key=group_key)
    assert_same_entries(ours(td), torchs(theirs), 1e-4)


@each
def test_keys_and_state(name):
    ours, torchs = pair(name, networks())
    assert ours.in_keys == torchs.in_keys
    assert ours.out_keys == torchs.out_keys
    for module in (ours, torchs):
        module.set_keys(advantage=("a", "gain"), reward="r", done="d")
    assert ours.in_keys == torchs.in_keys
    assert ours.out_keys == torchs.out_keys
    for field in ("advantage", "value_target", "value", "reward", "done", "terminated", "steps_to_next_obs"):
        assert getattr(ours.tensor_keys, field) == getattr(torchs.tensor_keys, field)
    assert ours.tensor_keys.sample_log_prob == torchs.tensor_keys.sample_log_prob
    state = {key: array.numpy() for key, array in torchs.state_dict().items()}
    assert set(ours.state_dict()) == set(state)
    ours.load_state_dict(state)


@pytest.mark.parametrize("name", [*FACTORS, "VTrace", "MultiAgentGAE"])
def test_every_argument_is_taken(name):
    theirs = inspect.signature(getattr(value, name)).parameters
    own = inspect.signature(getattr(data, name)).parameters
    base = inspect.signature(data.GAE.__mro__[1]).parameters
    gae = inspect.signature(data.GAE).parameters
    for key, parameter in theirs.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        found = own.get(key) or base.get(key) or gae[key]
        assert found.kind is inspect.Parameter.KEYWORD_ONLY
        assert found.default == parameter.default, key


@pytest.mark.parametrize("average_adv", [False, True])
@pytest.mark.parametrize("thresholds", [{}, {"rho_thresh": 0.75, "c_thresh": 1.25}])
def test_vtrace(average_adv, thresholds):
    """torchrl scores an action that it takes anew: the one in the data, where this is the most likely."""
    logits = np.array([[1.0, -1.0], [0.0, 2.0], [0.3, 0.1], [-1.0, 0.5]], np.float32)
    td = rollout((3, 7))
    td["action"] = (td["obs"] @ logits).argmax(-1)
    td["action_log_prob"] = np.log(np.random.default_rng(0).uniform(0.1, 1, (3, 7))).astype(np.float32)
    theirs = other(td)
    actor = nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(lambda obs: obs @ logits, ["obs"], ["logits"]),
        nn.ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
    )
    torch_actor = tensordict.nn.ProbabilisticTensorDictSequential(
        tensordict.nn.TensorDictModule(lambda obs: obs @ torch.from_numpy(logits), ["obs"], ["logits"]),
        tensordict.nn.ProbabilisticTensorDictModule(
            ["logits"], ["action"], distribution_class=torch.distributions.Categorical
        ),
    )
    net, torch_net = networks()
    options = {"gamma": 0.875, "average_adv": average_adv, **thresholds}
    ours = data.VTrace(actor_network=actor, value_network=net, **options)
    torchs = value.VTrace(actor_network=torch_actor, value_network=torch_net, **options)
    assert_same_entries(ours(td), torchs(theirs), 1e-4)
    assert ours.in_keys[: len(torchs.in_keys)] == torchs.in_keys  # and the action that is scored
    assert ours.out_keys == torchs.out_keys


@pytest.mark.parametrize(
    ("how", "bounds", "more"),
    [
        (None, None, {}),
        ("sum", None, {}),
        ("max", None, {}),
        ("mean", None, {}),
        ("sum", (0.0, 0.5), {}),
        ("mean", (0.0, 0.5), {}),
        ("sum", (0.0, 0.5), {"candidate_group_size": 5}),
        ("mean", (0.2, 0.4), {"candidate_group_size": 6, "candidate_selection_min_size": 4}),
        ("mean", (0.2, 0.4), {"candidate_group_size": 6, "candidate_selector": ("balanced", 2)}),
        ("max", None, {"candidate_group_size": 6, "candidate_selection_min_size": 5}),
        ("sum", (0.0, 0.5), {"candidate_group_size": 5, "candidate_selector": ("uniform", 1)}),
        ("sum", (0.0, 0.5), {"candidate_group_size": 5, "candidate_selector": ("first", 1)}),
    ],
)
def test_group_advantages_of_streams(how, bounds, more):
    def made(lib):
        options = {"trajectory_return": how, "keep_return_bounds": bounds, **more}
        if "candidate_selector" in more:
            strategy, most = more["candidate_selector"]
            options["candidate_selector"] = lib.MCAdvantageSelector(strategy, max_combinations=most)
        return lib.MCAdvantage(3, **options)

    ours, torchs = made(data), made(llm)
    rng = np.random.default_rng(0)
    given = 0
    for number in range(40):
        length = int(rng.integers(1, 5))
        done = (np.arange(length) == length - 1)[:, None]
        following = {"reward": rng.normal(size=(length, 1)).astype(np.float32), "done": done}
        query = f"prompt {number % 4}"
        td = TensorDict({"query": NonTensorData(query, [length]), "next": following}, batch_size=[length])
        torch_td = tensordict.TensorDict(
            {
                "query": tensordict.NonTensorStack(*[query] * length),
                "next": {key: torch.from_numpy(array.copy()) for key, array in following.items()},
            },
            batch_size=[length],
        )
        out, expected = ours.inv(td), torchs.inv(torch_td)
        assert (out is None) == (expected is None)
        if out is not None:
            given += 1
            np.testing.assert_allclose(out["advantage"], expected["advantage"].numpy(), rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(out["next", "reward"], expected["next", "reward"].numpy())
    assert given > 1
    for name, count in torchs.get_stats().items():
        np.testing.assert_allclose(ours.get_stats()[name], count, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["TD0Estimator", "TD1Estimator", "TDLambdaEstimator"])
def test_gradients_of_targets(name):
    td, both = rollout((3, 7)), networks()
    ours, torchs = pair(name, both, differentiable=True)
    theirs = other(td)
    reward, obs = (theirs["next", key].requires_grad_() for key in ("reward", "obs"))
    (torchs.value_estimate(theirs) ** 2).sum().backward()

    def total(entries):
        made = td.copy().set("next", td["next"].copy())
        made["next", "reward"], made["next", "obs"] = entries
        return (ours.value_estimate(made) ** 2).sum()

    for mine, other_one in zip(
        grad(total)((td["next", "reward"], td["next", "obs"])), (reward, obs), strict=True
    ):
        np.testing.assert_allclose(mine, other_one.grad.numpy(), rtol=1e-4, atol=1e-5)
