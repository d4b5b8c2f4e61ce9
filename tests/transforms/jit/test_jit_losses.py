"""Losses of every kind give the numbers and gradients of their plain form, for any size of the batch."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.compared import assert_same
from helpers.nn.transitions import Returns, categorical, critic, gaussian, linear, q_network, transitions
from helpers.training_states import Wrap, learner, same_in_graphs

import lite
from lite import TensorDict, nn, optim
from lite._transforms.jit.function import JitFunction
from lite.nn import losses
from lite.nn.distributions import Categorical, IndependentNormal

Made = tuple[Any, Callable[[int], TensorDict]]
RNG = np.random.default_rng(0)


def actions(n: int, **entries: Any) -> TensorDict:
    rng = np.random.default_rng(n)
    return transitions(n, action=np.tanh(rng.normal(size=(n, 2))), **entries)


def choices(n: int, **entries: Any) -> TensorDict:
    return transitions(n, action=np.random.default_rng(n).integers(3, size=n), **entries)


def estimated(n: int, make: Callable[..., TensorDict] = choices) -> TensorDict:
    rng = np.random.default_rng(n)
    names = ("advantage", "value_target", "state_value")
    return make(n, action_log_prob=-rng.random(n), **{name: rng.normal(size=(n, 1)) for name in names})


def deterministic() -> nn.TensorDictModule:
    return nn.TensorDictModule(linear(4, 2), ["observation"], ["action"])


def composite() -> nn.ProbabilisticTensorDictSequential:
    """A policy of two actions, one of them nested."""
    return nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(linear(4, 4), ["observation"], ["raw"]),
        nn.TensorDictModule(
            nn.NormalParamExtractor(), ["raw"], [("params", "move", "loc"), ("params", "move", "scale")]
        ),
        nn.TensorDictModule(linear(4, 3), ["observation"], [("params", "hand", "grip", "logits")]),
        nn.ProbabilisticTensorDictModule(
            ["params"],
            ["move", ("hand", "grip")],
            return_log_prob=True,
            distribution_class=nn.CompositeDistribution,
            distribution_kwargs={
                "distribution_map": {"move": IndependentNormal, ("hand", "grip"): Categorical}
            },
        ),
    )


def two_actions(n: int) -> TensorDict:
    rng = np.random.default_rng(n)
    td = estimated(n)
    td["move"], td["move_log_prob"] = rng.normal(size=(n, 2)), -rng.random(n)
    td["hand", "grip"], td["hand", "grip_log_prob"] = rng.integers(0, 3, n), -rng.random(n)
    return td


LOSSES: dict[str, Callable[[], Made]] = {
    "double dqn": lambda: (losses.DQNLoss(linear(4, 3), action_space="categorical", double_dqn=True,
        loss_function="smooth_l1"), choices),
    "distributional dqn": lambda: (losses.DistributionalDQNLoss(Returns(), gamma=0.9), choices),
    "ddpg": lambda: (losses.DDPGLoss(deterministic(), q_network(), delay_actor=True), actions),
    "td3": lambda: (losses.TD3Loss(deterministic(), q_network(), bounds=(-1.0, 1.0), generator=RNG),
        actions),
    "discrete sac": lambda: (losses.DiscreteSACLoss(categorical(),
        nn.ValueOperator(linear(4, 3), ["observation"], ["action_value"]), num_actions=3,
        action_space="categorical", target_entropy=-0.5), choices),
    "crossq": lambda: (losses.CrossQLoss(gaussian(True), q_network(), target_entropy=-2.0, generator=RNG),
        actions),
    "redq": lambda: (losses.REDQLoss(gaussian(True), q_network(), num_qvalue_nets=4, target_entropy=-2.0,
        generator=RNG), actions),
    "cql": lambda: (losses.CQLLoss(gaussian(True), q_network(), target_entropy=-2.0, num_random=2,
        generator=RNG), actions),
    "discrete cql": lambda: (losses.DiscreteCQLLoss(linear(4, 3), action_space="categorical"), choices),
    "iql": lambda: (losses.IQLLoss(gaussian(), q_network(), critic()), actions),
    "multi-agent ppo": lambda: (losses.MAPPOLoss(categorical(), critic(),
        normalize_advantage_exclude_dims=()), estimated),
    "reinforce": lambda: (losses.ReinforceLoss(categorical(), critic()), estimated),
    "clipped ppo of numbers": lambda: (losses.ClipPPOLoss(gaussian(), critic(), clip_value=True),
        lambda n: estimated(n, actions)),
    "kl ppo": lambda: (losses.KLPENPPOLoss(categorical(), critic()),
        lambda n: estimated(n).set("logits", np.random.default_rng(n).normal(size=(n, 3)))),
    "ppo of two actions": lambda: (losses.ClipPPOLoss(composite(), critic()), two_actions),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_a_chosen_estimator() -> None:
    loss = losses.DQNLoss(linear(4, 3), action_space="categorical")

    def step(params: TensorDict, batch: TensorDict) -> Any:
        with params.to_module(loss):
            return loss(batch)["loss"]

    for estimator in (
        losses.ValueEstimators.TD0,
        losses.ValueEstimators.TD1,
        losses.ValueEstimators.TDLambda,
    ):
        loss.make_value_estimator(estimator, gamma=0.5)
        params = TensorDict.from_module(loss).data  # the discount is one of its buffers
        np.testing.assert_allclose(lite.jit(step)(params, choices(6)), step(params, choices(6)), rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_gradients(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss, make = LOSSES[name]()
        params = TensorDict.from_module(loss).clone().data

        def both(params: TensorDict, batch: TensorDict) -> Any:
            def total(params: TensorDict) -> Any:
                with params.to_module(loss):
                    found = loss(batch)
                    parts = {key: found[key] for key in found.keys(True, True)}
                return sum(x for key, x in parts.items() if str(key).startswith("loss")), parts

            return lite.value_and_grad(total, has_aux=True)(params)

        step = lite.jit(both, donate="params", threads=1)
        for n in (6, 5):
            batch, same = make(n), make(n)
            before = RNG.bit_generator.state
            (value, parts), grads = both(params, batch)
            RNG.bit_generator.state = before
            (got, found), slopes = step(params.clone(), same)
            np.testing.assert_allclose(got, value, rtol=1e-9)
            assert_same(found, parts, rtol=1e-9, atol=1e-12)
            assert_same(slopes, grads, rtol=1e-8, atol=1e-11)
            assert_same(same, batch, rtol=1e-9, atol=1e-12)


GRPO: tuple[dict[str, Any], ...] = (
    {"kl_to_ref_coeff": 0.1},
    {"aggregation": "prompt_mean", "clip_epsilon": (0.1, 0.3)},
    {"aggregation": "constant", "max_tokens": 9},
    {"importance_sampling_level": "sequence", "kl_mask_threshold": 0.05},
)


@pytest.mark.parametrize("options", GRPO)
def test_losses_of_tokens(options: dict[str, Any]) -> None:
    def both(params: Any, before: Any, ref: Any, advantage: Any, mask: Any) -> Any:
        def total(now: Any) -> Any:
            found = losses.grpo_loss(now, before, advantage, mask, ref_log_probs=ref, **options)
            return sum(x for key, x in found.items() if str(key).startswith("loss")), found

        return lite.value_and_grad(total, has_aux=True)(params)

    step = lite.jit(both, threads=1)
    for n in (4, 3):
        rng = np.random.default_rng(n)
        now, before, ref = -rng.random((3, n, 5))
        mask = rng.random((n, 5)) < 0.6
        mask[0] = False
        given = now, before, ref, rng.normal(size=n), mask
        (value, parts), slope = both(*given)
        (got, found), by = step(*given)
        np.testing.assert_allclose(got, value, rtol=1e-9)
        np.testing.assert_allclose(by, slope, rtol=1e-9, atol=1e-12)
        assert_same(found, parts, rtol=1e-9, atol=1e-12)
    assert len(step._kept) == 1


@each_case("learns", [False, True])
@same_in_graphs
def test_schedules_of_coefficients_count_in_the_same_graph(wrap: Wrap, learns: bool) -> Any:
    """`copy_` and assignment between two calls, as training scripts anneal epsilon."""
    loss = losses.ClipPPOLoss(gaussian(), critic(), clip_epsilon=0.2, entropy_coeff=0.01)
    optimizer = optim.SGD(loss.parameters(), lr=1e-2)

    def step(batch: TensorDict) -> Any:
        out = loss(batch)
        return out["loss_objective"] + out["loss_critic"] + out["loss_entropy"], out.detach()

    @lite.enable_grad()
    def learn(batch: TensorDict) -> Any:
        value, out = step(batch)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value.detach(), out

    call, found = wrap(learn if learns else step), []
    for number in range(4):
        found.append(call(estimated(6, actions))[1])
        loss.clip_epsilon.copy_(0.2 * 0.5**number)
        loss.entropy_coeff = 0.5 * number
    assert found[0]["loss_entropy"] != found[2]["loss_entropy"]
    if isinstance(call, JitFunction):
        assert len((call._stateful[1] if learns else call)._kept) == 1
    return found


@each_case("learns", [False, True])
@same_in_graphs
def test_other_discounts_and_parts_of_a_loss_count(wrap: Wrap, learns: bool) -> Any:
    loss = losses.DQNLoss(nn.QValueActor(linear(4, 3), action_space="categorical"), delay_value=False)
    learn = learner(lambda batch: loss(batch)["loss"], optim.SGD(loss.parameters(), lr=1e-2))
    call = wrap(learn if learns else (lambda batch: loss(batch)["loss"]))
    changes: list[Callable[[], Any]] = [
        lambda: loss.make_value_estimator(gamma=0.5),
        lambda: setattr(loss.value_estimator, "gamma", np.array(0.1, np.float32)),
        lambda: loss.value_estimator.gamma.fill(0.7),
        lambda: setattr(loss, "loss_function", "l1"),
        lambda: loss.make_value_estimator(gamma=0.2),
        lambda: setattr(loss, "reduction", "sum"),
    ]
    found = [call(choices(6))]
    for change in changes:
        change()
        found += [call(choices(6)), call(choices(4))]
    assert len(set(map(float, found))) == len(found)
    return found


def dqn(seed: int = 0) -> Any:
    actor = nn.QValueActor(
        nn.MLP(4, 3, num_cells=[8], layer_kwargs={"rng": seed}), action_space="categorical"
    )
    return losses.DQNLoss(actor, delay_value=False)


def with_nan(n: int) -> TensorDict:
    batch = choices(n)
    batch["observation"][1] = np.nan
    return batch


@pytest.mark.parametrize("saved", [False, True])
def test_a_loss_that_is_nan_raises_and_nothing_is_learnt(saved: bool, tmp_path: Path) -> None:
    """One row of a sensor that failed would make NaN of all that was learnt."""

    def made() -> tuple[Any, Any, Any]:
        loss = dqn()
        optimizer = optim.Adam(loss.parameters(), lr=1e-2)
        return loss, optimizer, learner(lambda batch: loss(batch)["loss"], optimizer)

    (loss, optimizer, learn), (*_, plain) = made(), made()
    step: Any = lite.jit(learn)
    if saved:
        step = lite.load_step(step.lower(choices(6)).save(tmp_path / "step.onnx"))

    def now() -> Any:
        if saved:
            return [np.array(x) for x in step.state.values(True, True)]
        moments = [x for one in optimizer.state_dict()["state"].values() for x in one.values()]
        return [np.array(x) for x in (*loss.state_dict().values(), *moments)]

    step(choices(6))
    before, bad = now(), with_nan(7)
    for _ in range(2):
        raises(ValueError, r"a loss of DQNLoss is NaN; .* entries \['observation'\]", step, bad)
    assert "td_error" not in bad
    np.testing.assert_equal(now(), before)
    plain(choices(6))
    np.testing.assert_allclose(step(choices(6)), plain(choices(6)), rtol=1e-5)


def test_what_was_given_up_is_good_after_a_loss_that_is_nan() -> None:
    loss, adam = dqn(), optim.Adam(1e-2)

    def update(params: TensorDict, state: TensorDict, batch: TensorDict) -> Any:
        def call(params: TensorDict) -> Any:
            with params.to_module(loss):
                return loss(batch)["loss"]

        value, grads = lite.value_and_grad(call)(params)
        return value, *adam.update(params, grads, state)

    step = lite.jit(update, donate=("params", "state"))
    params = TensorDict.from_module(loss).select("value_network_params").data.clone()
    want, kept = params.clone(), adam.init(params)
    state = adam.init(params)
    for _ in range(3):
        _, params, state = step(params, state, choices(6))
        _, want, kept = update(want, kept, choices(6))
        raises(ValueError, "a loss of DQNLoss is NaN", step, params, state, with_nan(6))
    assert_same(params, want, rtol=1e-4, atol=1e-6)
