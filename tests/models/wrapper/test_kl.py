"""Log-probs of a reference model, KL penalties, and rewards that they lower."""

import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.models.prompts import HELLO, HI, Make, rows

from lite import LazyStackedTensorDict, TensorDict, lazy_stack, models
from lite.nn import TensorDictSequential

CHATS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "ab"}],
    [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "abcd"}],
]
OTHER = {(second, last): 5 for second in range(260) for last in range(260)}
"""A script that makes one token likely everywhere."""
MODES = [("history", True, True), ("history", False, False), ("text", False, True), ("tokens", False, False)]


def data(mode: str) -> TensorDict:
    if mode == "history":
        return TensorDict(
            history=models.ChatHistory(full=models.History.from_chats(CHATS), batch_size=[2]), batch_size=[2]
        )
    if mode == "text":
        return TensorDict(text=models.Text(full=["Hi", "Hello"], batch_size=[2]), batch_size=[2])
    return TensorDict(
        tokens=lazy_stack([models.Tokens(full=np.array(row)) for row in (HI, HELLO)]), batch_size=[2]
    )


@pytest.fixture
def scorer(wrap: Make, scripted_model: Make) -> Make:
    """Makes wrappers that score; ``other`` is a model with other logits."""

    def make(mode: str = "history", *, other: bool = False, **options: Any) -> Any:
        model = scripted_model(OTHER) if other else scripted_model()
        if mode == "history":
            options["chat_template_name"] = "chatml_format"
        return wrap(mode, generate=False, model=model, **options)

    return make


def penalty(td: Any, key: Any = "kl_penalty") -> list[Any]:
    return rows(td, *([key] if isinstance(key, str) else key))


def test_what_assistants_said_is_known_of_tokens_with_a_mask(scorer: Make) -> None:
    """Those that were drawn, which a conversation that is rendered again may not give."""
    transform, td = models.RetrieveLogProb(scorer("tokens")), data("tokens")
    raises(ValueError, "a batch of tokens has none", transform, td)
    said = [np.arange(len(row)) > 1 for row in (HI, HELLO)]
    td["masks"] = lazy_stack([models.Masks(all_assistant_mask=mask) for mask in said])
    scores = rows(scorer("tokens")(td), "log_probs", "full")
    expected = [np.where(mask, row, 0).tolist() for mask, row in zip(said, scores, strict=True)]
    assert rows(transform(data("tokens").update({"masks": td["masks"]})), "log_probs", "full") == expected


# -- RetrieveLogProb ---------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "assistant_only", "padded"), MODES)
def test_log_probs_of_a_model(scorer: Make, mode: str, assistant_only: bool, padded: bool) -> None:
    model = scorer(mode, pad_output=padded, inplace=not padded)
    td = data(mode)
    before = set(td.keys(True))
    out = models.RetrieveLogProb(model, assistant_only=assistant_only)(td)
    assert out is td
    assert set(out.keys(True)) - before == {"log_probs", ("log_probs", "full")} | (
        set() if padded else {("log_probs", "padded")}
    )
    scored = model(data(mode))
    expected = rows(scored, "log_probs", "full")
    if assistant_only:
        masks = rows(scored, "masks", "all_assistant_mask")
        assert all(any(mask) and not all(mask) for mask in masks)
        expected = [
            [p if said else 0 for p, said in zip(*pair, strict=True)]
            for pair in zip(expected, masks, strict=True)
        ]
    assert rows(out, "log_probs", "full") == expected
    assert any(any(row) for row in expected)
    if padded:
        assert out["log_probs", "full"].shape == scored["tokens", "full"].shape


def test_under_next_and_at_another_key(scorer: Make) -> None:
    for padded in (True, False):
        model = scorer(pad_output=padded)
        transform = models.RetrieveLogProb(model, log_probs_full_key=("ref", "full"))
        assert (transform.in_keys, transform.out_keys) == ([("history", "full")], [("ref", "full")]), padded
        td = data("history").set("next", TensorDict(done=np.zeros((2, 1), bool), batch_size=[2]))
        out = transform(td)
        assert out is td, padded
        assert ("ref", "full") not in td, padded
        assert rows(td, "next", "ref", "full") == rows(
            models.RetrieveLogProb(model)(data("history")), "log_probs", "full"
        )
        assert "done" in td["next"], padded


def test_what_is_there_stays(scorer: Make) -> None:
    td = data("history")
    td["log_probs"] = lazy_stack(
        [models.LogProbs(response=np.ones(n, np.float32), padded=False) for n in (1, 2)]
    )
    models.RetrieveLogProb(scorer())(td)
    assert rows(td, "log_probs", "response") == [[1], [1, 1]]
    assert [len(row) for row in rows(td, "log_probs", "full")] == [
        len(row) for row in rows(scorer()(data("history")), "tokens", "full")
    ]


def test_single_rows_and_more_dimensions(scorer: Make) -> None:
    expected = rows(models.RetrieveLogProb(scorer())(data("history")), "log_probs", "full")
    one = models.RetrieveLogProb(scorer())(data("history")[1])
    assert one["log_probs", "full"].tolist() == expected[1]
    two = models.RetrieveLogProb(scorer())(lazy_stack([data("history"), data("history")]))
    assert [[row.tolist() for row in half] for half in two.get(("log_probs", "full"), as_list=True)] == [
        expected
    ] * 2
    none = TensorDict(text=models.Text(full=[], batch_size=[0]), batch_size=[0])
    assert models.RetrieveLogProb(scorer("text"), assistant_only=False)(none)["log_probs", "full"].shape == (
        0,
        0,
    )


def test_retrieve_log_prob_errors(scorer: Make, wrap: Make) -> None:
    raises(
        ValueError, "The model must have `input_mode='history'` when", models.RetrieveLogProb, scorer("text")
    )
    with pytest.raises(TypeError, match=r"The model of `RetrieveLogProb` must be an OnnxWrapper .*, got 'x'"):
        models.RetrieveLogProb("x")
    raises(
        ValueError, "The model must have `generate=False`", lambda: models.RetrieveLogProb(wrap("history"))
    )
    with pytest.raises(ValueError, match="The model must have `return_log_probs=True`"):
        models.RetrieveLogProb(wrap("history", return_log_probs=False))
    raises(
        ValueError, "device='cuda' differs from the model's", models.RetrieveLogProb, scorer(), device="cuda"
    )
    with pytest.warns(UserWarning, match="log_probs_full_key"):
        models.RetrieveLogProb(scorer(), log_probs_full_key="lp")
    twice = scorer(chat_template="{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}")
    twice = twice.get_new_version(chat_template_name=None)
    with (
        pytest.warns(UserWarning, match="no assistant mask"),
        pytest.raises(ValueError, match="no assistant mask"),
    ):
        models.RetrieveLogProb(twice)(data("history"))


# -- KLComputation -----------------------------------------------------------------------------


@each_case("shape", [(2, 1), (2, 1, 1)])
def test_kl_of_dense_rows(shape: tuple[int, ...]) -> None:
    """Rewards of responses, as `LLMCollector` gives them, or of tokens, of which there may be one for all."""
    gen, ref = np.float32([[-1, -2], [-3, -4]]), np.float32([[-2, -2], [-1, -5]])
    td = TensorDict(
        log_probs=TensorDict(full=gen, batch_size=[2]),
        ref_log_probs=TensorDict(full=ref, batch_size=[2]),
        reward=np.ones(shape, np.float32),
        batch_size=[2],
    )
    out = models.KLComputation(coeff=0.5)(td)
    assert out is td
    np.testing.assert_array_equal(out["kl_penalty"], [[1, 0], [-2, 1]])
    np.testing.assert_array_equal(out["reward"], [[[0.5], [1]], [[2], [0.5]]])
    assert out["reward"].dtype == out["kl_penalty"].dtype == np.float32
    none = models.KLComputation()(td[:0].copy())
    assert (none["kl_penalty"].shape, none["reward"].shape) == ((0, 2), (0, 2, 1))


def test_kl_of_ragged_rows() -> None:
    def td(dense: bool) -> Any:
        parts = [
            TensorDict(
                gen=TensorDict(full=np.full(n, -1.0)),
                ref=TensorDict(full=np.full(n, -3.0)),
                reward=np.zeros((1, 1)),
            )
            for n in (2, 3)
        ]
        stack = lazy_stack(parts)
        if not dense:
            return stack
        return TensorDict({key: stack.get(key) for key in ("gen", "ref", "reward")}, batch_size=[2])

    transform = models.KLComputation(("gen", "full"), ("ref", "full"), kl_key=("a", "kl"), coeff=2.0)
    assert transform.in_keys == [("gen", "full"), ("ref", "full"), "reward"]
    assert transform.out_keys == [("a", "kl"), "reward"]
    lazy = td(dense=False)
    assert transform(lazy) is lazy
    # a lazy stack, as rewards of rows of different lengths fit into nothing else
    out = transform(td(dense=True))
    assert isinstance(out, LazyStackedTensorDict)
    root = TensorDict(next=td(dense=True), batch_size=[2])
    assert transform(root) is root
    for found in (lazy, out, root["next"]):
        assert penalty(found, ("a", "kl")) == [[2, 2], [2, 2, 2]]
        assert rows(found, "reward") == [[[-4], [-4]], [[-4], [-4], [-4]]]


def test_without_rewards() -> None:
    td = TensorDict(log_probs=TensorDict(full=np.ones(3)), ref_log_probs=TensorDict(full=np.zeros(3)))
    assert models.KLComputation()(td.copy())["kl_penalty"].tolist() == [1, 1, 1]
    assert "reward" not in models.KLComputation()(td.copy())
    with_reward = td.copy().set("reward", np.zeros((1, 1)))
    assert models.KLComputation(add_to_reward=False)(with_reward)["reward"].shape == (1, 1)
    assert models.KLComputation(add_to_reward=False).out_keys == ["kl_penalty"]


def test_nan_is_no_score_and_infinity_is() -> None:
    td = TensorDict(
        log_probs=TensorDict(full=np.array([np.nan, -1, -np.inf])),
        ref_log_probs=TensorDict(full=np.array([-1, np.nan, -1])),
    )
    assert models.KLComputation()(td)["kl_penalty"].tolist() == [0, 0, -np.inf]


def test_kl_errors() -> None:
    row = TensorDict(full=np.zeros((2, 3)), batch_size=[2])
    with pytest.raises(ValueError, match=r"Log-probs not found. Expected keys: .*ref_log_probs"):
        models.KLComputation()(TensorDict(log_probs=row, batch_size=[2]))
    other = TensorDict(full=np.zeros((2, 4)), batch_size=[2])
    with pytest.raises(ValueError, match=r"Sample 0 has different shapes: gen_log_probs\[0\].shape=\(3,\)"):
        models.KLComputation()(TensorDict(log_probs=row, ref_log_probs=other, batch_size=[2]))
    more = TensorDict(full=np.zeros((3, 3)))
    with pytest.raises(
        ValueError, match="Batch size mismatch: gen_log_probs has 2 samples, ref_log_probs has 3 samples"
    ):
        models.KLComputation()(TensorDict(log_probs=TensorDict(full=np.zeros((2, 3))), ref_log_probs=more))
    td = TensorDict(log_probs=row, ref_log_probs=row, reward=np.zeros((2, 3)), batch_size=[2])
    raises(
        ValueError, r"The rewards have shape .* one more dimension than the KL", models.KLComputation(), td
    )
    assert "kl_penalty" not in td


# -- RetrieveKL --------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "assistant_only", "padded"), MODES)
def test_the_kl_of_two_models(scorer: Make, mode: str, assistant_only: bool, padded: bool) -> None:
    gen = scorer(mode, pad_output=padded, log_probs_key="gen_log_probs")
    ref = scorer(mode, pad_output=padded, log_probs_key="ref_log_probs", other=True)
    transform = models.RetrieveKL(gen, ref, assistant_only=assistant_only, coeff=0.25)
    assert isinstance(transform, TensorDictSequential)
    td = data(mode)
    td["next"] = TensorDict(reward=np.ones((2, 1, 1), np.float32), batch_size=[2])
    out = transform(td)
    assert out is td
    found = [
        rows(
            models.RetrieveLogProb(model, assistant_only=assistant_only, log_probs_full_key=("x", "full"))(
                data(mode)
            ),
            "x",
            "full",
        )
        for model in (gen, ref)
    ]
    expected = [np.float32(a) - np.float32(b) for a, b in zip(*found, strict=True)]
    assert any(np.any(row) for row in expected)
    for row, kl, reward in zip(expected, penalty(td["next"]), rows(td["next"], "reward"), strict=True):
        np.testing.assert_array_equal(kl, row)
        np.testing.assert_allclose(np.ravel(reward), 1 - 0.25 * row, rtol=1e-6)
    assert rows(td, "next", "log_probs", "full") == found[0]
    assert rows(td, "next", "ref_log_probs", "full") == found[1]


def test_retrieve_kl_errors(scorer: Make, wrap: Make) -> None:
    gen, ref = scorer(log_probs_key="gen_log_probs"), scorer(log_probs_key="ref_log_probs")
    with pytest.raises(
        ValueError, match=r"pad_output mismatch: gen_model\.pad_output=True, ref_model\.pad_output=False"
    ):
        models.RetrieveKL(gen.get_new_version(pad_output=True), ref)
    raises(
        ValueError, "The generation model must have `generate=False`", models.RetrieveKL, wrap("history"), ref
    )
    raises(
        ValueError, "The reference model must have `generate=False`", models.RetrieveKL, gen, wrap("history")
    )
    raises(ValueError, "different `log_prob_key` values", lambda: models.RetrieveKL(gen, gen))
    texts = scorer("text", log_probs_key="a"), scorer("text", log_probs_key="b")
    raises(ValueError, "The model must have `input_mode='history'` when", lambda: models.RetrieveKL(*texts))
    with pytest.raises(ValueError, match="Cannot provide both 'ref_model' and 'ref_model_factory'"):
        models.RetrieveKL(gen, ref, ref_model_factory=lambda: ref)
    for missing in ({"gen_model": None, "ref_model": ref}, {"gen_model": gen}):
        raises(ValueError, "cannot be None", models.RetrieveKL, **missing)
    made = models.RetrieveKL(gen_model_factory=lambda: gen, ref_model_factory=lambda: ref)
    assert np.all(np.concatenate(penalty(made(data("history")))) == 0)


def test_pickle() -> None:
    transform = pickle.loads(pickle.dumps(models.KLComputation(kl_key="kl", coeff=3.0)))
    assert (transform.kl_key, transform.coeff, transform.out_keys) == ("kl", 3.0, ["kl", "reward"])
