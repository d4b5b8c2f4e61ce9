"""DPOLoss and its function."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.central_differences import assert_gradients
from helpers.nn.token_actors import PROMPTS, ROWS, Scorer, batch

from lite import TensorDict, lazy_stack
from lite.nn.losses import DPOLoss, DPOLossOutput, dpo_loss

ORDER = [1, 2, 1]  # the rejected responses
REFERENCE = [np.linspace(-2, -1, len(ids)) for ids in ROWS]
BETA, SMOOTHING, TAU = 0.3, 0.2, 0.05
COUNTS = np.array([3, 8, 5, 1]), np.array([4, 2, 9, 6])


def formulas(chosen: Any, rejected: Any, ref_chosen: Any, ref_rejected: Any) -> dict[str, Any]:
    """What each `loss_type` is for a pair: the formulas of TRL's DPOTrainer (1.16)."""
    first, second = chosen - ref_chosen, rejected - ref_rejected
    delta = first - second
    score = BETA * delta
    of_tokens = first / COUNTS[0] - second / COUNTS[1]

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def log(x: Any) -> Any:
        return np.log(sigmoid(x))

    def smoothed(x: Any) -> Any:
        return -log(BETA * x) * (1 - SMOOTHING) - log(-BETA * x) * SMOOTHING

    share = sigmoid(score / TAU)
    return {
        "sigmoid": smoothed(delta),
        "hinge": np.maximum(1 - score, 0),
        "ipo": (of_tokens - 1 / (2 * BETA)) ** 2,
        "exo_pair": sigmoid(score) * (log(score) - np.log(1 - SMOOTHING))
        + sigmoid(-score) * (log(-score) - np.log(SMOOTHING)),
        "nca_pair": -log(BETA * first) - 0.5 * log(-BETA * first) - 0.5 * log(-BETA * second),
        "robust": (SMOOTHING * log(-score) - (1 - SMOOTHING) * log(score)) / (1 - 2 * SMOOTHING),
        "bco_pair": -log(BETA * first) - log(-BETA * second),
        "sppo_hard": (first - 0.5 / BETA) ** 2 + (second + 0.5 / BETA) ** 2,
        "aot": smoothed(np.sort(chosen - rejected) - np.sort(ref_chosen - ref_rejected)),
        "aot_unpaired": smoothed(np.sort(first) - np.sort(second)),
        "apo_zero": 1 - sigmoid(BETA * first) + sigmoid(BETA * second),
        "apo_down": sigmoid(BETA * first) + 1 - sigmoid(score),
        "discopop": -log(score) * (1 - share) + np.exp(-score) * share,
        "sigmoid_norm": -log(BETA * of_tokens),
    }


def pairs(layout: str) -> Any:
    """The rows against others of them."""
    td = batch(layout, ref_log_probs=REFERENCE)
    rejected = lazy_stack([td[i] for i in ORDER]) if layout == "ragged" else td[np.array(ORDER)]
    return TensorDict(chosen=td, rejected=rejected, batch_size=[3])


@each_case(("written", "layout"), (("left", "ragged"), ("ragged", "left"), ("left", "generated")))
def test_by_hand(written: Any, layout: Any) -> None:
    actor, td = Scorer(written), pairs(layout)
    sums = np.array([actor.of_row(np.array(ids))[n:].sum() for ids, n in zip(ROWS, PROMPTS, strict=True)])
    others = np.array([row[n:].sum() for row, n in zip(REFERENCE, PROMPTS, strict=True)])
    lengths = np.array([len(ids) - n for ids, n in zip(ROWS, PROMPTS, strict=True)])
    given = sums, sums[ORDER], others, others[ORDER]
    for options in (
        {"beta": 0.5},
        {"loss_type": "ipo"},
        {"reference_free": True, "loss_type": "hinge"},
    ):
        loss = DPOLoss(actor, **options)
        loss.set_keys(ref_log_probs="ref_log_probs")
        out = loss(td)
        assert loss.in_keys == [loss.tensor_keys.chosen, loss.tensor_keys.rejected]
        assert isinstance(out, DPOLossOutput)
        expected = dpo_loss(*given, chosen_lengths=lengths, rejected_lengths=lengths[ORDER], **options)
        assert set(loss.out_keys) == set(expected.keys())
        for key, value in expected.items():
            np.testing.assert_allclose(out.get(key), value, err_msg=key, atol=1e-12)


def test_the_default_loss() -> None:
    chosen, rejected, ref_chosen, ref_rejected = -np.random.default_rng(0).random((4, 5)) * 9
    first, second = chosen - ref_chosen, rejected - ref_rejected
    out = dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta=0.3)
    score = 0.3 * (first - second)
    np.testing.assert_allclose(out["loss_dpo"], -np.log(1 / (1 + np.exp(-score))).mean())
    np.testing.assert_allclose(out["rewards_chosen"], 0.3 * first.mean())
    np.testing.assert_allclose(out["rewards_rejected"], 0.3 * second.mean())
    np.testing.assert_allclose(out["rewards_margins"], score.mean())
    np.testing.assert_allclose(out["rewards_accuracies"], (score > 0).mean())
    np.testing.assert_allclose([out["logps_chosen"], out["logps_rejected"]], [chosen.mean(), rejected.mean()])
    free = dpo_loss(chosen, rejected, reference_free=True, reduction="none")["loss_dpo"]
    np.testing.assert_allclose(free, np.log1p(np.exp(-0.1 * (chosen - rejected))))
    far = dpo_loss(np.array([-1e5]), np.array([0.0]), reference_free=True, beta=1.0)
    assert far["loss_dpo"] == 1e5  # nothing overflows


def test_formulas_and_gradients_of_each_loss() -> None:
    given = -np.random.default_rng(0).random((4, 4)) * 6
    for name, expected in formulas(*given).items():
        options: Any = {
            "beta": BETA, "label_smoothing": SMOOTHING, "loss_type": name, "discopop_tau": TAU,
            "chosen_lengths": COUNTS[0], "rejected_lengths": COUNTS[1],
        }  # fmt: skip

        def loss(chosen: Any, rejected: Any, options: Any = options) -> Any:
            return dpo_loss(chosen, rejected, *given[2:], reduction="none", **options)["loss_dpo"]

        np.testing.assert_allclose(loss(*given[:2]), expected, 1e-12, err_msg=name)
        with noting(name):
            assert_gradients(loss, *given[:2])


def test_a_response_without_tokens_has_a_mean_of_0() -> None:
    given = np.array([0.0]), np.array([-1.0])
    found = [
        dpo_loss(
            *given, reference_free=True, loss_type="ipo", chosen_lengths=np.array([count]),
            rejected_lengths=np.array([1]),
        )["loss_dpo"]
        for count in (0, 1)
    ]  # fmt: skip
    np.testing.assert_array_equal(found, (1 - 1 / (2 * 0.1)) ** 2)


def test_losses_are_added() -> None:
    given = -np.random.default_rng(0).random((4, 5)) * 9
    one, other = (dpo_loss(*given, loss_type=name)["loss_dpo"] for name in ("sigmoid", "hinge"))
    both = dpo_loss(*given, loss_type=["sigmoid", "hinge"], loss_weights=[0.25, 2.0])["loss_dpo"]
    np.testing.assert_allclose(both, 0.25 * one + 2 * other)


@each_case(
    ("options", "message"),
    [
        ({"loss_type": "dpo"}, "loss_type must be of .* got 'dpo'"),
        ({"loss_type": []}, "loss_type must be of"),
        ({"loss_type": ["hinge"], "loss_weights": [1, 2]}, "loss_weights must be one for each"),
        ({"beta": 0.0}, "beta must be positive, got 0"),
        ({"loss_type": "robust", "label_smoothing": 0.5}, "'robust' needs label_smoothing from 0 to 0.5"),
        ({"loss_type": "exo_pair"}, "'exo_pair' needs label_smoothing between 0 and 1"),
        ({"loss_type": "ipo"}, "needs chosen_lengths and rejected_lengths"),
        ({"reduction": "max"}, "reduction must be"),
        ({"ref_chosen_logps": None}, "or reference_free=True"),
        ({"rejected_logps": np.zeros(4)}, r"rejected_logps must have the tokens' shape \(5,\), got \(4,\)"),
        ({"rejected_logps": np.full(5, np.nan)}, r"rejected_logps is NaN"),
    ],
)
def test_errors(options: Any, message: str) -> None:
    names = ("chosen_logps", "rejected_logps", "ref_chosen_logps", "ref_rejected_logps")
    raises(ValueError, message, lambda: dpo_loss(**{**dict.fromkeys(names, np.zeros(5)), **options}))


def test_missing_entries() -> None:
    td = pairs("left")
    raises(KeyError, r"DPOLoss reads .*'full'.* below 'chosen'", lambda: DPOLoss(Scorer())(td))
    with pytest.raises(KeyError, match="DPOLoss reads the entry 'rejected'"):
        DPOLoss(Scorer(), reference_free=True)(td.exclude("rejected"))
