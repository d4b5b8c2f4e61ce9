"""Distributions and log-probs of wrappers that score."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, Make, P

from lite import LazyStackedTensorDict, TensorDict, lazy_stack
from lite.models import ChatHistory, History, LLMWrapperBase, Masks, Tokens
from lite.nn.distributions import Categorical, LLMMaskedCategorical

ROWS = [[*HI, 64, 65, 256], [*HELLO, 64, 65, 66, 67]]


def ragged_td(*rows: list[int], prompts: Any = None, masks: Any = None) -> TensorDict:
    def fields(i: int) -> dict[str, Any]:
        out = {"full": np.array(rows[i])}
        return out if prompts is None else {**out, "prompt": np.array(prompts[i])}

    td = TensorDict(
        {"tokens": lazy_stack([Tokens(**fields(i)) for i in range(len(rows))])}, batch_size=[len(rows)]
    )
    if masks is not None:
        td["masks"] = lazy_stack([Masks(all_assistant_mask=np.array(mask, bool)) for mask in masks])
    return td


def padded_td(side: str = "left") -> TensorDict:
    """Prompts padded on the left, responses on the right: padding on both sides."""
    full = np.array([[P, P, P, *ROWS[0], P], ROWS[1]])
    prompt = np.array([[P, P, P, *HI], HELLO])
    return TensorDict({"tokens": Tokens(full=full, prompt=prompt, batch_size=[2])}, batch_size=[2])


def chat_td() -> TensorDict:
    chats = [
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}],
        [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "d"}],
    ]
    return TensorDict(
        {"history": ChatHistory(full=History.from_chats(chats), batch_size=[2])}, batch_size=[2]
    )


def scores(model: Any, row: list[int]) -> list[float]:
    return [-np.log(260)] + [model.log_prob(row[:i], row[i]) for i in range(1, len(row))]


def left(rows: list[list[Any]], fill: Any) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([[fill] * (width - len(row)) + list(row) for row in rows])


@pytest.fixture
def judge(wrap: Make) -> Make:
    def make(mode: str = "tokens", **options: Any) -> Any:
        return wrap(mode, generate=False, **options)

    return make


def test_get_dist_of_ragged_rows(judge: Make, scripted_model: Make) -> None:
    cases: list[tuple[Any, bool]] = [(True, True), (False, False), ("empty", True)]
    for inplace, lazy in cases:
        td = ragged_td(*ROWS)
        if lazy:
            td = lazy_stack(list(td.unbind(0)))
        keys = set(td.keys(True, True))
        wrapper = judge(inplace=inplace)
        out_keys = list(wrapper.out_keys)
        dist = wrapper.get_dist(td)
        assert isinstance(dist, LLMMaskedCategorical), inplace
        assert dist.position_level_masking, inplace
        np.testing.assert_array_equal(dist.mask, left([[True] * 5, [True] * 9], False))
        model = scripted_model()
        expected = left([scores(model, row) for row in ROWS], 0.0)
        np.testing.assert_allclose(dist.log_prob(left(ROWS, P)), expected, atol=1e-5, err_msg=str(inplace))
        assert set(td.keys(True, True)) == keys, inplace
        assert isinstance(td, LazyStackedTensorDict) == lazy, inplace
        assert wrapper.out_keys == out_keys, inplace


def test_get_dist_at_the_temperature_of_scoring(judge: Make) -> None:
    """Ratios of `GRPOLoss` are by either of the two: by calls, or by distributions."""
    wrapper = judge(inplace=False, score_kwargs={"temperature": [0.5, 2.0]})
    expected = left(
        [row.tolist() for row in wrapper(ragged_td(*ROWS)).get(("log_probs", "full"), as_list=True)], 0
    )
    found = wrapper.get_dist(ragged_td(*ROWS)).log_prob(left(ROWS, P))
    firsts = np.array([[4], [0]])  # are uniform there
    np.put_along_axis(expected, firsts, np.take_along_axis(found, firsts, 1), 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    kept = judge(score_kwargs={"kept_ids": True})
    raises(NotImplementedError, "get_dist gives .* has kept_ids", kept.get_dist, ragged_td(*ROWS))


def test_padding_of_get_dist(judge: Make) -> None:
    wrapper = judge()
    td = ragged_td(*ROWS)
    dist = wrapper.get_dist(td, padding_side="right", padding_value=-7.0)
    np.testing.assert_array_equal(dist.mask, np.array([[1] * 5 + [0] * 4, [1] * 9], bool))
    np.testing.assert_array_equal(dist.logits[0, 5:], -7)
    flush = wrapper.get_dist(td)
    np.testing.assert_array_equal(flush.logits[0, :4], 0)
    np.testing.assert_array_equal(flush.logits[0, 4:], dist.logits[0, :5])
    np.testing.assert_array_equal(wrapper.get_dist(td, padding_value=3.0).logits[0, :4], 3)
    with pytest.raises(ValueError, match="padding_side must be 'left' or 'right', got 'up'"):
        wrapper.get_dist(td, padding_side="up")


def test_dist_of_padded_output_keeps_its_layout(judge: Make, scripted_model: Make) -> None:
    td = padded_td()
    wrapper = judge(pad_output=True, inplace=False)
    dist = wrapper.get_dist(td)
    mask = np.array([[0, 0, 0, 1, 1, 1, 1, 1, 0], [1] * 9], bool)
    np.testing.assert_array_equal(dist.mask, mask)
    got = dist.log_prob(td["tokens", "full"])
    expected = wrapper(td)["log_probs", "full"]
    later = mask & ~np.array([[0, 0, 0, 1, 0, 0, 0, 0, 0], [1] + [0] * 8], bool)
    np.testing.assert_allclose(got[later], expected[later], atol=1e-6)
    np.testing.assert_array_equal(got[~mask], 0)
    np.testing.assert_array_equal(wrapper.get_dist(td, padding_value=2.0).logits[0, :3], 2)
    # the same rows without padding, flush left
    np.testing.assert_array_equal(judge().get_dist(td).mask, left([[True] * 5, [True] * 9], False))


def test_get_dist_by_mask_key(judge: Make) -> None:
    said = [[0, 0, 1, 1, 1], [0] * 5 + [1] * 4]
    td = ragged_td(*ROWS, masks=said).set("own", np.ones((2, 9), bool))
    td["picked"] = lazy_stack([TensorDict({"m": np.arange(n) % 2 == 0}) for n in (5, 9)])
    wrapper = judge()
    for key, expected in (
        (("masks", "all_attention_mask"), [[1] * 5, [1] * 9]),
        (("masks", "all_assistant_mask"), said),
        (("picked", "m"), [[1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0, 1, 0, 1]]),
        ("own", [[1] * 5, [1] * 9]),  # of the padded batch: padding does not count all the same
    ):
        np.testing.assert_array_equal(wrapper.get_dist(td, mask_key=key).mask, left(expected, 0).astype(bool))
    raises(ValueError, "Mask not found in tensordict at key 'none'", wrapper.get_dist, td, mask_key="none")
    td["wide"] = np.ones((2, 9, 260), bool)
    raises(ValueError, "Mask at 'wide' is not a position-level mask", wrapper.get_dist, td, mask_key="wide")


def test_get_dist_without_padding(judge: Make, scripted_model: Make) -> None:
    model, wrapper = scripted_model(), judge()
    same = ragged_td(HI, HI)
    for dist in (
        wrapper.get_dist(same, as_padded_tensor=False),
        wrapper.get_dist(same, as_padded_tensor=False, mask_key=("masks", "all_attention_mask")),
    ):
        np.testing.assert_allclose(dist.log_prob([HI, HI]), [scores(model, HI)] * 2, atol=1e-5)
    assert isinstance(wrapper.get_dist(same, as_padded_tensor=False), Categorical)
    with pytest.raises(RuntimeError, match=r"cannot stack logits of rows of \[5, 9\] tokens"):
        wrapper.get_dist(ragged_td(*ROWS), as_padded_tensor=False)
    joined = wrapper.get_dist(ragged_td(*ROWS), as_nested_tensor=True)
    assert isinstance(joined, Categorical)
    expected = scores(model, ROWS[0]) + scores(model, ROWS[1])
    np.testing.assert_allclose(joined.log_prob(ROWS[0] + ROWS[1]), expected, atol=1e-5)
    raises(TypeError, "exclusive", wrapper.get_dist, same, as_nested_tensor=True, as_padded_tensor=True)


def test_prompt_mask(judge: Make) -> None:
    for padded in (True, False):
        responses = [[0, 0, 1, 1, 1], [0] * 5 + [1] * 4]
        wrapper = judge(pad_output=padded)
        ragged = wrapper._get_sft_dist(ragged_td(*ROWS, prompts=[HI, HELLO]))
        np.testing.assert_array_equal(ragged.mask, left(responses, 0).astype(bool), err_msg=str(padded))
        dense = wrapper._get_dist_with_prompt_mask(padded_td())
        expected = np.array([[0] * 5 + [1, 1, 1, 0], [0] * 5 + [1] * 4]) if padded else left(responses, 0)
        np.testing.assert_array_equal(dense.mask, expected.astype(bool), err_msg=str(padded))


def test_prompt_mask_at_configured_keys(judge: Make) -> None:
    td = ragged_td(*ROWS, prompts=[HI, HELLO]).rename_key_("tokens", "ids")
    wrapper = judge(tokens_key="ids", masks_key="m", input_key=("ids", "full"))
    responses = left([[0, 0, 1, 1, 1], [0] * 5 + [1] * 4], 0).astype(bool)
    np.testing.assert_array_equal(wrapper._get_sft_dist(td).mask, responses)
    picked = td.set("k", lazy_stack([TensorDict({"m": np.arange(n) > n - 2}) for n in (5, 9)]))
    dist = wrapper._get_sft_dist(picked, attention_mask_key=("k", "m"))
    assert dist.mask.sum() == 2


def test_a_class_of_its_own_masks(monkeypatch: pytest.MonkeyPatch, judge: Make) -> None:
    """What losses ask for is what a class that overrides a mask says."""
    wrapper = judge()
    for asked, mask in (("sft", "prompt"), ("rlhf", "assistant"), ("generic", "attention")):
        name = f"_get_dist_with_{mask}_mask"
        monkeypatch.setattr(type(wrapper), name, lambda self, td, name=name, **kwargs: (name, kwargs))
        assert getattr(wrapper, f"_get_{asked}_dist")(None, a=1) == (name, {"a": 1})


def test_prompt_mask_without_prompt_is_the_assistants(judge: Make) -> None:
    said = [[0, 0, 1, 0, 1], [0] * 5 + [1] * 4]
    dist = judge()._get_sft_dist(ragged_td(*ROWS, masks=said))
    np.testing.assert_array_equal(dist.mask, left(said, 0).astype(bool))
    with pytest.raises(ValueError, match=r"Assistant mask not found .*input_mode is not 'history'"):
        judge()._get_sft_dist(ragged_td(*ROWS))


def test_prompt_mask_of_padded_rows_in_a_lazy_stack(judge: Make) -> None:
    """Rows of a list may hold padding, of which their masks tell; also a prompt with no response."""
    rows = [
        {"full": [P, P, P, *HI], "prompt": [P, P, P, *HI], "mask": [0, 0, 0, 1, 1]},
        {"full": HELLO, "prompt": HELLO[:4], "mask": [1] * 5},
    ]
    td = lazy_stack(
        [
            TensorDict(
                {
                    "tokens": Tokens(full=np.array(row["full"]), prompt=np.array(row["prompt"])),
                    "masks": Masks(all_attention_mask=np.array(row["mask"], bool)),
                }
            )
            for row in rows
        ]
    )
    dist = judge(pad_output=True)._get_sft_dist(td)
    np.testing.assert_array_equal(dist.mask, np.array([[0] * 5, [0, 0, 0, 0, 1]], bool))


def test_prompts_that_do_not_fit(judge: Make) -> None:
    with pytest.raises(ValueError, match=r"the prompt of row 0 at .* has 6 tokens"):
        judge()._get_sft_dist(ragged_td(*ROWS, prompts=[[1] * 6, [39]]))
    with pytest.warns(UserWarning, match="are not those at the start of the rows"):
        dist = judge()._get_sft_dist(ragged_td(*ROWS, prompts=[[1, 2], HELLO]))
    np.testing.assert_array_equal(dist.mask[0], [0] * 6 + [1] * 3)


def test_assistant_mask(judge: Make, byte_tokenizer: Make) -> None:
    for padded in (True, False):
        td = chat_td()
        wrapper = judge("history", pad_output=padded, inplace=False)
        dist = wrapper._get_rlhf_dist(td)
        full = td.get(("tokens", "full"), as_padded_tensor=True, padding_value=P, padding_side="left")
        assert dist.log_prob(full).shape == full.shape == dist.mask.shape, padded
        tokenizer = byte_tokenizer()
        said = [tokenizer.decode(row[mask]) for row, mask in zip(full, dist.mask, strict=True)]
        assert said == ["bc", "d"], padded
        scored = wrapper(td).get(
            ("log_probs", "full"), as_padded_tensor=True, padding_value=0.0, padding_side="left"
        )
        np.testing.assert_allclose(dist.log_prob(full), np.where(dist.mask, scored, 0), atol=1e-6)


def test_assistant_mask_in_tokens_mode(judge: Make) -> None:
    said = [[0, 0, 1, 1, 1], [0] * 5 + [1] * 4]
    td = ragged_td(*ROWS, prompts=[HI, HELLO], masks=said)
    dist = judge()._get_dist_with_assistant_mask(td)
    np.testing.assert_array_equal(dist.mask, left(said, 0).astype(bool))
    assert [row.tolist() for row in td.get(("tokens", "full"), as_list=True)] == ROWS
    assert [row.tolist() for row in td.get(("tokens", "prompt"), as_list=True)] == [HI, HELLO]
    raises(ValueError, "Assistant mask not found", judge()._get_rlhf_dist, ragged_td(*ROWS))


def test_attention_and_custom_masks(judge: Make) -> None:
    td = ragged_td(*ROWS)
    wrapper = judge()
    real = left([[True] * 5, [True] * 9], False)
    np.testing.assert_array_equal(wrapper._get_generic_dist(td).mask, real)
    mask = np.zeros((2, 9), bool)
    mask[:, -2:] = True
    dist = wrapper._get_dist_with_custom_mask(td, mask)
    np.testing.assert_array_equal(dist.mask, mask)
    got = dist.log_prob(left(ROWS, P))
    np.testing.assert_array_equal(got[:, :-2], 0)
    assert (got[:, -2:] < 0).all()
    with pytest.raises(ValueError, match="Custom mask is not a position-level mask"):
        wrapper._get_dist_with_custom_mask(td, np.ones((2, 9, 260), bool))
    with pytest.raises(ValueError, match=r"Mask shape \(2, 8\) must be either"):
        wrapper._get_dist_with_custom_mask(td, np.ones((2, 8), bool))


def test_batch_shapes(judge: Make) -> None:
    wrapper = judge()
    assert wrapper.get_dist(ragged_td(*ROWS)[0]).batch_shape == (5,)
    square = ragged_td(*ROWS).unsqueeze(0)
    assert wrapper.get_dist(square).batch_shape == (1, 2, 9)
    assert wrapper.get_dist(ragged_td(*ROWS)[:0]).batch_shape == (0, 0)


METHODS = [
    "get_dist", "_get_dist_with_prompt_mask", "_get_dist_with_assistant_mask",
    "_get_dist_with_attention_mask", "_get_sft_dist", "_get_rlhf_dist", "_get_generic_dist",
]  # fmt: skip


def test_generating_wrappers_have_no_distributions(wrap: Make) -> None:
    for method in METHODS:
        with pytest.raises(NotImplementedError, match=r"not implemented for generate=True.*get_new_version"):
            getattr(wrap("tokens"), method)(ragged_td(*ROWS))
        with pytest.raises(NotImplementedError, match=r"not implemented for generate=True.*get_new_version"):
            wrap("tokens")._get_dist_with_custom_mask(ragged_td(*ROWS), np.ones((2, 9), bool))


def test_logits_are_where_they_are(judge: Make) -> None:
    for method in METHODS:
        with pytest.raises(ValueError, match="Logits not found in tensordict at key 'other'"):
            getattr(judge(), method)(ragged_td(*ROWS), logits_key="other")


def test_log_prob(judge: Make, wrap: Make, scripted_model: Make) -> None:
    wrapper = judge(inplace=False, log_probs_key="lp")
    got = wrapper.log_prob(ragged_td(*ROWS), as_list=True)
    model = scripted_model()
    for row, values in zip(ROWS, got, strict=True):
        np.testing.assert_allclose(values, [0.0, *scores(model, row)[1:]], atol=1e-5)
    padded = wrapper.log_prob(ragged_td(*ROWS), as_padded_tensor=True, padding_value=0.0, padding_side="left")
    assert padded.shape == (2, 9)
    with pytest.raises(RuntimeError, match="log_prob not callable when generate=True"):
        wrap("tokens").log_prob(ragged_td(*ROWS))


def test_keys_for_losses(judge: Make) -> None:
    wrapper = judge()
    assert wrapper.log_prob_keys == ["log_probs"]
    wrapper.log_prob_keys = ["mine"]
    assert wrapper.log_prob_keys == ["mine"]
    assert wrapper.dist_sample_keys == ["tokens_response"]
    with pytest.raises(NotImplementedError, match="get_dist"):
        wrapper.dist_params_keys  # noqa: B018


def test_the_base_class_defines_nothing() -> None:
    base = LLMWrapperBase()
    for call in (lambda: base.forward(TensorDict()), lambda: base.get_new_version(generate=True)):
        raises(NotImplementedError, "LLMWrapperBase does not define", call)
