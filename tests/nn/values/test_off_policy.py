import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.rollouts import rollout, with_values

from lite import TensorDict, kernels, nn
from lite.data import Retrace, VTrace
from lite.nn.distributions import Categorical, Normal

LOGITS = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, 0.0], [0.3, 0.3, 0.1], [-1.0, 0.5, 1.0]], np.float32)


def actor(**options):
    return nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(lambda obs: obs @ LOGITS, ["obs"], ["logits"]),
        nn.ProbabilisticTensorDictModule(
            ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True, **options
        ),
    )


def data(batch=(3, 8), more=(1,)):
    td = with_values(rollout(batch, more))
    rng = np.random.default_rng(3)
    td["action"] = rng.integers(0, 3, batch)
    td["action_log_prob"] = np.log(rng.uniform(0.1, 1, batch)).astype(np.float32)
    return td


def log_pi(td):
    logits = td["obs"] @ LOGITS
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return np.take_along_axis(log_probs, td["action"][..., None], -1)[..., 0]


def arrays(td):
    shape = td["next", "reward"].shape
    log_probs = log_pi(td).reshape(shape), td["action_log_prob"].reshape(shape)
    return *log_probs, td["next", "reward"]


def flags(td):
    return td["next", "done"], td["next", "terminated"]


@each_case("more", [(), (1,)])
def test_vtrace_is_the_kernel_with_the_log_probs_of_the_actions_there(more):
    td = data(more=more)
    module = VTrace(gamma=0.9, actor_network=actor(), value_network=None, rho_thresh=0.8, c_thresh=1.2)
    expected = kernels.vtrace(
        *arrays(td), td["state_value"], td["next", "state_value"], *flags(td), gamma=0.9, rho_thresh=0.8,
        c_thresh=1.2, time_dim=1,
    )  # fmt: skip
    before = set(td.keys(True, True))
    with nn.set_interaction_type("random"):  # nothing is drawn
        assert module(td) is td
    assert set(td.keys(True, True)) - before == {"advantage", "value_target"}
    np.testing.assert_allclose(td["advantage"], expected.advantage, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(td["value_target"], expected.value_target, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(module.value_estimate(td), td["value_target"])


def test_retrace_is_the_kernel_of_action_values():
    td = data()
    td["state_action_value"] = np.random.default_rng(5).normal(size=(3, 8, 1)).astype(np.float32)
    module = Retrace(gamma=0.9, lmbda=0.7, actor_network=actor(), value_network=None)
    expected = kernels.retrace(
        *arrays(td), td["state_action_value"], td["next", "state_value"], *flags(td), gamma=0.9, lmbda=0.7,
        time_dim=1,
    )  # fmt: skip
    module(td)
    np.testing.assert_allclose(td["advantage"], expected.advantage, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(td["value_target"], expected.value_target, rtol=1e-4, atol=1e-5)


def test_retrace_calls_its_network_for_both_values():
    def values(obs):
        q = obs[..., :3]
        return q.max(-1, keepdims=True), q.mean(-1, keepdims=True)

    net = nn.TensorDictModule(values, ["obs"], ["state_action_value", "state_value"])
    td = data().exclude("state_value", ("next", "state_value"))
    plain = td.clone()
    module = Retrace(gamma=0.9, actor_network=actor(), value_network=net)
    out = module(td)
    np.testing.assert_array_equal(out["state_action_value"], out["obs"][..., :3].max(-1, keepdims=True))
    np.testing.assert_array_equal(
        out["next", "state_value"], out["next", "obs"][..., :3].mean(-1, keepdims=True)
    )
    assert "state_value" not in out
    once = Retrace(gamma=0.9, actor_network=actor(), value_network=net, shifted=True, shifted_budget=9)(plain)
    # What differs is the next value at terminations, which does not count.
    np.testing.assert_allclose(once["advantage"], out["advantage"], rtol=1e-4, atol=1e-5)


@each_case("kind", [VTrace, Retrace])
def test_keys_and_arrays_instead_of_a_tensordict(kind):
    net = nn.TensorDictModule(
        lambda obs: (obs[..., :1], obs[..., :1]), ["obs"], ["state_action_value", "state_value"]
    )
    module, td = kind(gamma=0.9, actor_network=actor(), value_network=net), data()
    assert module.in_keys == [
        "obs", ("next", "reward"), ("next", "done"), ("next", "terminated"), ("next", "obs"),
        "action_log_prob", "action",
    ]  # fmt: skip
    assert dict(module.named_modules())["actor_network"] is module.actor_network
    given = {"_".join(key) if isinstance(key, tuple) else key: td[key] for key in module.in_keys}
    advantage, _ = module(**given)
    np.testing.assert_array_equal(advantage, module(td.clone())["advantage"])
    td["mu"] = td["action_log_prob"]
    module.set_keys(sample_log_prob="mu")
    np.testing.assert_array_equal(module(td.exclude("action_log_prob"))["advantage"], advantage)
    assert ("action_value" in vars(module.tensor_keys)) == (kind is Retrace)


@each_case("group_key", [None, "task"])
def test_average_adv(group_key):
    td = data((4, 8))
    td["task"] = np.arange(4)[:, None] % 2 * np.ones((4, 8), int)
    out = VTrace(gamma=0.9, actor_network=actor(), value_network=None, average_adv=True, group_key=group_key)(
        td
    )["advantage"]
    for part in (out[::2], out[1::2]) if group_key else (out,):
        np.testing.assert_allclose([part.mean(), part.std(ddof=1)], [0, 1], atol=1e-5)


def test_log_probs_of_an_actions_parts_are_summed():
    """A normal distribution of two numbers has a log-prob for each; a TensorDict has one for each part."""
    td = data((2, 5), ())
    td["action"] = np.random.default_rng(4).normal(size=(2, 5, 2)).astype(np.float32)
    normal = nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(
            lambda obs: (obs[..., :2], np.ones_like(obs[..., :2])), ["obs"], ["loc", "scale"]
        ),
        nn.ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=Normal),
    )
    with pytest.raises(RuntimeError, match="log-probs must be as many as the values"):
        VTrace(gamma=0.9, actor_network=normal, value_network=None)(td)
    parts = TensorDict({"a": td["action_log_prob"], "b": np.zeros((2, 5, 2), np.float32)}, [2, 5])
    whole = VTrace(gamma=0.9, actor_network=actor(), value_network=None)
    td["action"] = np.zeros((2, 5), int)
    expected = whole(td.clone())["advantage"]
    td["action_log_prob"] = parts
    np.testing.assert_array_equal(whole(td)["advantage"], expected)


@each_case("kind", [VTrace, Retrace])
def test_errors(kind):
    td = data()
    td["state_action_value"] = td["state_value"]
    with pytest.raises(NotImplementedError, match="gamma must be a number"):
        kind(gamma=np.ones(3), actor_network=actor(), value_network=None)
    with pytest.raises(TypeError, match="actor_network must be a module with log_prob"):
        kind(gamma=0.9, actor_network=None, value_network=None)
    module = kind(gamma=0.9, actor_network=actor(), value_network=None)
    raises(KeyError, "action_log_prob", lambda: module(td.exclude("action_log_prob")))
    raises(KeyError, "", lambda: module(td.exclude("action")))
    raises(ValueError, "no values under", lambda: module(td.exclude("state_action_value", "state_value")))
    raises(RuntimeError, "with a batch dimension", lambda: module(TensorDict({})))
