"""GRPOLoss, DAPO and CISPOLoss."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.nn.token_actors import LAYOUTS, ROWS, WORDS, Scorer, batch, responses

import lite
from lite import TensorDict, nn, value_and_grad
from lite.nn.losses import DAPO, CISPOLoss, GRPOLoss, GRPOLossOutput, grpo_loss

ADVANTAGE = np.array([1.0, -0.5, 2.0])


class Distributor(Scorer):
    """Gives distributions, and scores, too."""

    def get_dist(self, td: Any, logits_key: Any = None) -> Any:
        ids = td["tokens", "full"]
        logits = np.concatenate([np.zeros((len(ids), 1, WORDS)), self._tensor("table")[ids[:, :-1]]], 1)
        return nn.distributions.LLMMaskedCategorical(logits, responses())


def loss(actor: Any = None, **options: Any) -> GRPOLoss:
    return GRPOLoss(Scorer() if actor is None else actor, **{"entropy_bonus": False, **options})


def test_it_is_the_function() -> None:
    """All options reach `grpo_loss`."""
    td = batch("left", advantage=ADVANTAGE, reference=[np.full(len(ids), -1.0) for ids in ROWS])
    now = Scorer()(td.copy())["log_probs", "full"]
    given = (now, td["log_probs", "full"], ADVANTAGE, responses())
    for options in (
        {"aggregation": "none", "clip_epsilon": (0.25, 0.5), "kl_mask_threshold": 1.0},
        {"aggregation": "constant", "importance_sampling_level": "sequence", "kl_to_inference_coeff": 0.5},
        {"aggregation": "prompt_mean", "kl_to_ref_coeff": 0.25},
    ):
        module = loss(**options)
        module.set_keys(ref_log_probs="reference")
        assert module.in_keys[-3:] == [("log_probs", "full"), "advantage", "reference"]
        found = module(td)
        assert isinstance(found, GRPOLossOutput)
        for key, value in grpo_loss(*given, ref_log_probs=td["reference"], **options).items():
            np.testing.assert_allclose(found.get(key), value, rtol=1e-6, err_msg=key)
    td["reference"] = td["reference"][..., None]
    np.testing.assert_array_equal(module(td).loss_kl_to_ref, found.loss_kl_to_ref)
    np.testing.assert_array_equal(
        loss(reduction="none")(td).loss_objective, loss(aggregation="none")(td).loss_objective
    )
    assert loss(kl_mask_threshold=0.0, kl_to_ref_coeff=0.0)(td).loss_kl_to_ref is None


@each_case("layout", LAYOUTS)
def test_log_probs_of_responses_alone(layout: str) -> None:
    """What generation writes: log-probs of responses, which are at the end of rows."""
    actor = Scorer("left")
    found = loss(actor)(batch(layout, True, advantage=ADVANTAGE)).loss_objective
    assert found == loss(actor)(batch(layout, advantage=ADVANTAGE)).loss_objective
    if layout != "left":  # where padding stands in place of the prompt
        every = loss(actor, masking_strategy="generic")(batch(layout, True, advantage=ADVANTAGE))
        assert every.loss_objective == found  # the others have no log-prob in the batch


def test_tokens_without_a_log_prob_do_not_count() -> None:
    td = batch("left", advantage=ADVANTAGE)
    mask = responses()
    for column, value in ((4, np.nan), (5, -np.inf)):
        td["log_probs", "full"][0, column] = value
        mask[0, column] = False
    now = Scorer()(td.copy())["log_probs", "full"]
    expected = grpo_loss(now, td["log_probs", "full"], ADVANTAGE, mask)["loss_objective"]
    np.testing.assert_allclose(loss()(td).loss_objective, expected, rtol=1e-7)


@each_case("shape", [(3,), (3, 1), (3, 1, 1), (3, 6), (3, 6, 1)])
def test_shapes_of_advantages(shape: tuple[int, ...]) -> None:
    td = batch("left", advantage=ADVANTAGE)
    expected = loss()(td).loss_objective
    td["advantage"] = np.broadcast_to(ADVANTAGE.reshape(3, *[1] * (len(shape) - 1)), shape).copy()
    assert loss()(td).loss_objective == expected


def test_entropy() -> None:
    td = batch("left", advantage=ADVANTAGE)
    out = loss(Distributor(), entropy_bonus=True, entropy_coeff=0.5)(td)
    entropy = Distributor().get_dist(td).entropy()[responses()].mean()
    np.testing.assert_allclose([out.entropy, out.loss_entropy], [entropy, -0.5 * entropy])
    np.testing.assert_allclose(out.loss_objective, loss()(td).loss_objective)
    with pytest.raises(TypeError, match=r"an actor_network with get_dist, got Scorer\. Pass entropy_bonus=F"):
        GRPOLoss(Scorer())


def test_objectives() -> None:
    td = batch("left", advantage=ADVANTAGE)
    now = Scorer()(td.copy())["log_probs", "full"]
    ratio = np.exp(now - td["log_probs", "full"])
    clipped = np.clip(ratio, 0.8, 1.28) * ADVANTAGE[:, None]
    options: dict[str, Any] = {"entropy_bonus": False, "clip_epsilon": (0.2, 0.28)}
    both = -np.minimum(ratio * ADVANTAGE[:, None], clipped)[responses()].mean()
    np.testing.assert_allclose(DAPO(Scorer(), **options)(td).loss_objective, both, rtol=1e-6)
    alone = -clipped[responses()].mean()
    np.testing.assert_allclose(CISPOLoss(Scorer(), **options)(td).loss_objective, alone, rtol=1e-6)


def test_ways_to_the_gradient() -> None:
    """By parameters and backward(), as a function, and in a compiled step."""
    layout = "ragged"
    actor = Scorer(layout)
    td, module = batch(layout, advantage=ADVANTAGE), loss(actor, kl_to_inference_coeff=0.1)
    with lite.enable_grad():
        module(td).sum(reduce=True).backward()

    def total(params: Any) -> Any:
        with params.to_module(module):
            out = module(td)
        return out.loss_objective + out.loss_kl_to_inference

    params = TensorDict.from_module(module).data
    value, grads = value_and_grad(total)(params.select("actor_network"))
    np.testing.assert_allclose(grads["actor_network", "table"], actor.table.grad, rtol=1e-12)
    assert np.abs(actor.table.grad).max() > 0
    found, slopes = lite.jit(lambda params: value_and_grad(total)(params), threads=1)(
        params.select("actor_network")
    )
    np.testing.assert_allclose(found, value, rtol=1e-9)
    np.testing.assert_allclose(slopes["actor_network", "table"], actor.table.grad, rtol=1e-8, atol=1e-12)


def test_errors() -> None:
    td = batch("left", advantage=ADVANTAGE)
    raises(ValueError, "masking_strategy must be one of", lambda: loss(masking_strategy="prompt"))
    raises(ValueError, "clip_epsilon must not be negative", lambda: loss(clip_epsilon=-0.1))
    raises(ValueError, "reduction must be", lambda: loss(reduction="max"))
    raises(ValueError, "Advantage key 'advantage' not in tensordict", lambda: loss()(td.exclude("advantage")))
    raises(KeyError, "find the log-prob", lambda: loss()(td.exclude("log_probs")))
    raises(KeyError, "find the ref log-prob", lambda: loss(kl_to_ref_coeff=0.1)(td))
    with pytest.raises(ValueError, match=r"'advantage' must have the shape \(3, 6\) of the tokens"):
        loss()(td.set("advantage", np.zeros((3, 2))))
    with pytest.raises(ValueError, match=r"'log_probs'.* must have the shape \(3, 6\) of the tokens that"):
        loss()(td.set("log_probs", TensorDict(full=np.zeros((3, 5)), batch_size=[3])))
