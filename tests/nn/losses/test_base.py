"""What all losses have."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.nn.transitions import categorical, critic, gaussian, linear, q_network, transitions

from lite import TensorDict, enable_grad, nn, stack, value_and_grad, vmap
from lite.nn import losses
from lite.nn.losses import ClipPPOLoss, DQNLoss, LossModule, SACLoss, SoftUpdate
from lite.nn.values import TD0Estimator


def dqn(**options: Any) -> DQNLoss:
    return DQNLoss(linear(4, 2), action_space="categorical", delay_value=False, **options)


def batch() -> TensorDict:
    return transitions(6, action=np.arange(6) % 2)


POPULATIONS: list[tuple[Any, dict[str, Any]]] = [
    (losses.A2CLoss, {"entropy_coeff": 0.1, "critic_coeff": 0.5, "clip_value": 0.3}),
    (losses.PPOLoss, {"max_importance_ratio": 0.01}),
    (losses.ClipPPOLoss, {"clip_epsilon": 0.1, "entropy_coeff": 0.1, "critic_coeff": 0.5}),
    (losses.KLPENPPOLoss, {"beta": 0.5}),
]


@each_case(("cls", "options"), POPULATIONS)
def test_members_of_a_population_have_coefficients_of_their_own(cls: Any, options: dict[str, Any]) -> None:
    made = [
        cls(gaussian(), critic(), **{name: x * factor for name, x in options.items()}) for factor in (1, 2)
    ]
    rng = np.random.default_rng(0)
    names = ("action_log_prob", "advantage", "value_target", "state_value", "loc", "scale")
    shapes = dict.fromkeys(("loc", "scale"), (6, 2)) | {"action_log_prob": (6,)}
    td = transitions(6, action=np.full((6, 2), 0.5))
    td.update({name: rng.random(shapes.get(name, (6, 1))) + 0.5 for name in names})

    def call(params: Any) -> Any:
        with params.to_module(made[0]):
            return made[0](td)

    params = TensorDict.from_modules(*made)
    alone = stack([loss(td.copy()) for loss in made])
    together = vmap(call)(params)
    assert (alone - alone[:1]).abs().sum(reduce=True) > 1e-3
    for key, value in alone.items():  # coefficients are float32
        np.testing.assert_allclose(together[key], value, rtol=1e-6, err_msg=key)


def test_keys_are_checked_before_any_is_set() -> None:
    loss = dqn()
    with pytest.raises(ValueError, match="'rewards' is not a key of DQNLoss; expected one of"):
        loss.set_keys(action="choice", rewards="gain")
    with pytest.raises(ValueError, match="a key must be a string or a tuple of strings, got action=3"):
        loss.set_keys(reward="gain", action=3)
    assert loss.tensor_keys == type(loss.tensor_keys)()
    loss.set_keys(reward="gain", action=("a", ("b",)))
    assert loss.tensor_keys.action == ("a", "b")
    assert ("next", "gain") in loss.in_keys
    assert loss.value_estimator.tensor_keys.reward == "gain"
    loss.set_keys(reward=None)
    assert loss.tensor_keys.reward == "reward"
    assert loss.value_estimator.tensor_keys.reward == "reward"


def test_what_a_loss_reads_and_gives_is_in_its_keys() -> None:
    continuous: Any = {
        **dict.fromkeys(("action", "loc"), np.full((6, 2), 0.5)),
        "scale": np.ones((6, 2)),
        "action_log_prob": np.zeros(6),
    }
    one_hot = {"action": np.eye(3, dtype=np.int64)[np.arange(6) % 3]}
    actor, value, policy = nn.Actor(linear(4, 2)), q_network(), gaussian(bounded=True)
    entropy, bounds, space = {"target_entropy": -1.0}, {"bounds": (-1, 1)}, {"action_space": "one-hot"}
    steps = {"next reward", "next done", "next terminated", "observation", "next observation", "action"}
    sampled = {*steps, "action_log_prob"}
    made: list[tuple[LossModule, set[str], Any]] = [
        (losses.A2CLoss(gaussian(), critic()), steps, continuous),
        (losses.ClipPPOLoss(gaussian(), critic()), sampled, continuous),
        (losses.KLPENPPOLoss(gaussian(), critic()), {*sampled, "loc", "scale"}, continuous),
        (losses.ReinforceLoss(gaussian(), critic()), steps, continuous),
        (losses.BCLoss(gaussian()), {"action", "observation"}, continuous),
        (losses.DDPGLoss(actor, value), {*steps, "priority_weight", "next action"}, continuous),
        (losses.TD3Loss(actor, value, **bounds), steps, continuous),
        (losses.TD3BCLoss(actor, value, **bounds), steps, continuous),
        (losses.SACLoss(policy, value, critic(), **entropy), steps, continuous),
        (losses.CrossQLoss(policy, value, **entropy), steps, continuous),
        (losses.REDQLoss(policy, value, **entropy), sampled, continuous),
        (losses.CQLLoss(policy, value, **entropy), steps, continuous),
        (losses.IQLLoss(gaussian(), value, critic()), steps, continuous),
        (losses.DQNLoss(linear(4, 3), **space), steps, one_hot),
        (losses.DiscreteCQLLoss(linear(4, 3), **space), steps, one_hot),
        (losses.RNDLoss(linear(4, 2), linear(4, 2)), {"next observation"}, continuous),
    ]
    more = {"explained_variance", "kl_approx", "log_prob", "td_error", "pred_value", "target_value"}
    for loss, keys, entries in made:
        with noting(type(loss).__name__), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # targets are not moved
            assert {" ".join(key) if isinstance(key, tuple) else key for key in loss.in_keys} == keys
            td = transitions(6, **entries).select(*loss.in_keys, strict=False)
            given = set(loss(td).keys())
            assert set(loss.out_keys) <= given
            assert given - set(loss.out_keys) <= more


def test_parameters_are_the_networks_own() -> None:
    net = linear(4, 2)
    loss = DQNLoss(net, action_space="categorical")
    assert {id(p) for p in loss.parameters()} == {id(net.weight), id(net.bias)}
    target = loss.target_value_network_params["module", "0", "module", "weight"]
    np.testing.assert_array_equal(target, net.weight.data)
    assert not np.shares_memory(target, net.weight.data)


def test_targets_without_a_copy_are_the_present_parameters_as_constants() -> None:
    loss = dqn()
    params = loss.target_value_network_params
    assert params["module", "0", "module", "bias"] is loss.value_network.module[0].module.bias.data
    with pytest.raises(AttributeError, match="no attribute 'target_actor_network_params'"):
        loss.target_actor_network_params  # noqa: B018


def test_a_loss_whose_targets_nobody_moves_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = DQNLoss(linear(4, 2), action_space="categorical")
    with pytest.warns(UserWarning, match="no SoftUpdate or HardUpdate was made for it"):
        loss(batch())
    monkeypatch.setenv("RL_WARNINGS", "False")
    loss(batch())
    monkeypatch.undo()
    SoftUpdate(loss, tau=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(batch())


def test_nan_is_refused_and_its_entry_named() -> None:
    td = batch()
    td["next", "reward"][2] = np.nan
    before = td.clone()
    raises(ValueError, r"a loss of DQNLoss is NaN; there is NaN in the entries .*'reward'", lambda: dqn()(td))
    assert set(td.keys(True, True)) == set(before.keys(True, True))
    arrays = {key.replace(".", "_"): value for key, value in td.flatten_keys(".").items()}
    raises(ValueError, "a loss of DQNLoss is NaN", lambda: dqn()(**arrays))
    net = linear(4, 2)
    net.weight.fill_(np.nan)
    with pytest.raises(ValueError, match="the entries of the batch have no NaN"):
        DQNLoss(net, action_space="categorical", delay_value=False)(batch())
    assert np.isnan(dqn(reduction="none")(td)["loss"]).sum() == 1


def test_padding_may_be_nan() -> None:
    td = batch()
    expected = dqn()(td[:4])["loss"]
    td["next", "reward"][4:] = np.nan
    td["collector", "mask"] = np.arange(6) < 4
    loss = dqn()
    np.testing.assert_allclose(loss(td)["loss"], expected)
    td["valid"] = td["collector", "mask"]
    del td["collector"]
    loss.loss_mask_key = "valid"
    np.testing.assert_allclose(loss(td)["loss"], expected)
    assert loss.loss_mask_key == "valid"
    loss.loss_mask_key = None
    raises(ValueError, "is NaN", lambda: loss(td))
    with pytest.raises(ValueError, match="loss_mask_key must be 'auto', None or a key, got 3"):
        loss.loss_mask_key = 3
    loss.loss_mask_key = "valid"
    td["valid"] = np.ones((6, 2), bool)
    raises(ValueError, r"the mask of shape \(6, 2\) does not fit a loss of shape \(6,\)", lambda: loss(td))


def every_loss() -> list[Any]:
    policy, value, q = gaussian(), critic(), q_network()
    values = nn.TensorDictModule(linear(4, 3), ["observation"], ["action_value"])
    acts = nn.TensorDictModule(linear(4, 2), ["observation"], ["action"])
    discrete: dict[str, Any] = {"action_space": "categorical", "num_actions": 3, "delay_qvalue": False}
    return [
        (losses.DQNLoss(linear(4, 3), action_space="categorical", delay_value=False), True),
        (losses.ClipPPOLoss(policy, value), False),
        (losses.KLPENPPOLoss(policy, value), False),
        (losses.A2CLoss(policy, value), False),
        (losses.ReinforceLoss(policy, value), False),
        (losses.BCLoss(policy), False),
        (losses.SACLoss(gaussian(True), q, target_entropy=-2.0, delay_qvalue=False, generator=0), False),
        (losses.DiscreteSACLoss(categorical(), [values, values], **discrete), True),
        (losses.DDPGLoss(acts, q, delay_value=False), False),
        (losses.TD3Loss(acts, q, bounds=(-1, 1), delay_actor=False, delay_qvalue=False, generator=0), False),
    ]


@each_case("number", range(10))
def test_padding_of_nan_reaches_no_gradient(number: int) -> None:
    rng = np.random.default_rng(0)

    def grads(value: float) -> Any:
        loss, discrete = every_loss()[number]
        action = np.arange(6) % 3 if discrete else np.tanh(rng.normal(size=(6, 2)))
        td = transitions(
            6, action=action, action_log_prob=np.full(6, -2.0), advantage=np.ones((6, 1)),
            value_target=np.ones((6, 1)), loc=np.zeros((6, 2)), scale=np.ones((6, 2)),
        )  # fmt: skip
        td["collector", "mask"] = np.arange(6) < 4
        for key, leaf in td.items(True, True):
            if leaf.dtype.kind == "f" and key != "scale":
                leaf[4:] = value
        with enable_grad():
            out = loss(td)
            sum(out[key] for key in out.keys() if key.startswith("loss")).backward()  # noqa: SIM118
        return {name: parameter.grad for name, parameter in loss.named_parameters()}

    state = rng.bit_generator.state
    expected = grads(0.0)
    rng.bit_generator.state = state
    found = grads(np.nan)
    assert any(np.any(gradient) for gradient in expected.values() if gradient is not None)
    for name, gradient in expected.items():
        np.testing.assert_array_equal(found[name], gradient, err_msg=name)


def test_a_locked_batch_needs_a_place_for_its_errors() -> None:
    td = batch().lock_()
    raises(RuntimeError, "locked", lambda: dqn()(td))
    place = np.zeros((6, 1))
    td = batch().set("td_error", place).lock_()
    dqn()(td)
    assert (place > 0).all()


def test_copies_and_pickles_compute_the_same() -> None:
    loss = dqn()
    expected = loss(batch())["loss"]
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other(batch())["loss"] == expected
        assert not {id(p) for p in other.parameters()} & {id(p) for p in loss.parameters()}


def test_an_empty_batch_has_no_mean() -> None:
    raises(ValueError, "the loss of an empty batch has no mean", lambda: dqn()(batch()[:0]))
    assert dqn(reduction="sum")(batch()[:0])["loss"] == 0


def test_coefficients_are_set_in_place() -> None:
    loss = ClipPPOLoss(gaussian(), critic())
    buffer = loss.entropy_coeff
    loss.entropy_coeff = 0.5
    assert loss.entropy_coeff is buffer
    assert float(buffer) == 0.5
    with pytest.raises(ValueError, match=r"critic_coeff must be a number or None, got \[1, 2\]"):
        loss.register_coeff_buffer("critic_coeff", [1, 2])


def test_an_estimator_may_be_given() -> None:
    loss = dqn()
    mine = TD0Estimator(gamma=0.5, value_network=None)
    assert loss.make_value_estimator(mine).value_estimator is mine
    assert loss.make_value_estimator(TD0Estimator, gamma=0.25, value_network=None) is loss
    assert float(loss.value_estimator.gamma) == 0.25
    raises(NotImplementedError, r"DQNLoss supports .*, got GAE", lambda: loss.make_value_estimator("gae"))
    raises(KeyError, "unknown value estimator 'td9'", lambda: loss.make_value_estimator("td9"))
    raises(TypeError, "value_type must be a ValueEstimators, a name", lambda: loss.make_value_estimator(3))
    raises(NotImplementedError, "LossModule has no estimator", lambda: LossModule().make_value_estimator())


def test_networks_without_data_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"value_network has .* without data: call the network once"):
        DQNLoss(nn.LazyLinear(2), action_space="categorical")


def test_ensembles_are_drawn_anew_from_a_seed() -> None:
    def made(seed: int) -> Any:
        loss = SACLoss(gaussian(True), q_network(), target_entropy=-2.0, num_qvalue_nets=3, generator=seed)
        return loss.qvalue_network_params["module", "linear", "weight"]

    weight = made(0)
    own = q_network().module.linear.weight.data
    assert weight.shape == (3, *own.shape)
    assert own.min() <= weight.data.min() < weight.data.max() <= own.max()
    assert len(np.unique(weight.data)) == weight.size
    np.testing.assert_array_equal(weight.data, made(0).data)
    assert not np.array_equal(weight.data, made(1).data)
    with pytest.raises(RuntimeError, match="qvalue_network: 2 networks are needed, got 3"):
        SACLoss(gaussian(True), [q_network() for _ in range(3)], target_entropy=-2.0)


def test_a_network_with_the_parameters_of_the_loss() -> None:
    policy = categorical()
    loss = ClipPPOLoss(policy, critic())
    net = loss.get_stateful_net("actor_network")
    assert net is not policy
    assert net[0].module.weight is policy[0].module.weight
    assert loss.get_stateful_net("actor_network", copy_net=False) is policy


def test_gradients_in_both_ways_are_one() -> None:
    td = batch()
    loss = dqn()
    with enable_grad():
        loss(td)["loss"].backward()
    weight = loss.value_network.module[0].module.weight
    before = weight.data.copy()

    def function(params: Any) -> Any:
        with TensorDict(value_network_params=params).to_module(loss):
            return loss(td)["loss"]

    value, grads = value_and_grad(function)(loss.value_network_params.data)
    np.testing.assert_allclose(grads["module", "0", "module", "weight"], weight.grad)
    np.testing.assert_array_equal(weight.data, before)
    assert value == loss(td)["loss"]


def test_a_state_with_an_estimator_is_loaded_before_the_first_call() -> None:
    def made() -> DQNLoss:
        return DQNLoss(nn.Linear(4, 2), action_space="categorical", delay_value=True)

    saved = made().make_value_estimator(gamma=0.5)
    found = nn.ModuleDict({"loss": made()})
    found.load_state_dict({f"loss.{key}": value for key, value in saved.state_dict().items()})
    assert float(found["loss"].value_estimator.gamma) == 0.5


def test_an_estimator_that_is_given() -> None:
    loss = losses.A2CLoss(gaussian(), critic())
    given = TD0Estimator(gamma=0.5, value_network=critic())
    loss.value_estimator = given
    assert loss.value_estimator is given
