"""Wrappers that score what was sampled: temperatures and records from the TensorDict."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, MODES, Make, prompts, text_td, token_td

from lite import TensorDict, lazy_stack
from lite.models import OnnxWrapper, Sampling, Tokens, embedded_model_path, score
from lite.models.wrapper.sampled import per_row

RECORDS = [([0, 2], [HI[1], 7]), ([0, 1, 1, 4], [HELLO[2], 1, 2, HELLO[4]])]  # of the last tokens


def recorded(td: TensorDict, records: list[Any] = RECORDS, key: str = "sampling") -> TensorDict:
    parts = [
        Sampling(kept_offsets=np.array(offsets, np.int64), kept_ids=np.array(ids, np.int32))
        for offsets, ids in records
    ]
    td[key] = lazy_stack(parts)
    return td


def log_probs(td: Any) -> list[np.ndarray]:
    return [np.asarray(row) for row in td.get(("log_probs", "full"), as_list=True)]


@pytest.mark.parametrize(("padded", "batching"), [(True, None), (False, True)])
def test_temperatures_and_records(wrap: Make, scripted_model: Make, padded: bool, batching: Any) -> None:
    rows = [np.array(HI), np.array(HELLO)]
    want = score(scripted_model(), rows, temperature=[0.5, 2.0], supports=RECORDS)
    options = {"generate": False, "inplace": False, "pad_output": padded, "batching": batching}
    td = recorded(token_td(HI, HELLO, field="full"))
    judge = wrap("tokens", score_kwargs={"kept_ids": True}, **options)
    got = log_probs(judge(td, temperature=np.array([0.5, 2.0])))
    np.testing.assert_allclose(got[0][-2:], want[0], rtol=1e-6)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6)
    plain = log_probs(wrap("tokens", **options)(td))
    assert not np.allclose(plain[1], want[1])
    np.testing.assert_equal(log_probs(judge(td, kept_ids=False)), plain)


def test_padded_records(wrap: Make, scripted_model: Make) -> None:
    """Prompts padded on the left, responses on the right, records of the response columns."""
    ids = np.array([[0, 39, 72, 0], [39, 68, 75, 75]])
    mask = np.array([[0, 1, 1, 0], [1, 1, 1, 1]], bool)
    td = TensorDict({"tokens": Tokens(full=ids, batch_size=[2]), "attention_mask": mask}, batch_size=[2])
    td["sampling", "kept_offsets"] = np.array([[0, 2, 2], [0, 1, 3]])
    td["sampling", "kept_ids"] = np.array([[72, 7, -1], [75, 75, 1]], np.int32)
    judge = wrap("tokens", generate=False, inplace=False, pad_output=True)
    got = log_probs(judge(td, kept_ids=True, temperature=0.7))
    supports = [(np.array([0, 2]), np.array([72, 7])), (np.array([0, 1, 3]), np.array([75, 75, 1]))]
    want = score(scripted_model(), [ids[0, 1:3], ids[1]], temperature=0.7, supports=supports)
    np.testing.assert_allclose(got[0][1:3], want[0], rtol=1e-6)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6)
    td["sampling", "kept_offsets"] = np.array([[0, 2, 3], [0, 1, 3]])
    raises(ValueError, "row 0: there are kept ids of padding", judge, td, kept_ids=True)


def test_empty_rows_and_batches(wrap: Make) -> None:
    judge = wrap("text", generate=False, inplace=False)
    td = recorded(text_td("", "Hi", field="full"), [([0], []), ([0, 1], [HI[1]])])
    assert log_probs(judge(td, kept_ids=True, temperature=np.array([1.0, 0.5])))[1][1] > -1e-6
    assert judge(td[:0], temperature=0.5).batch_size == (0,)


def test_one_conversation(wrap: Make) -> None:
    td = text_td("Hi", field="full")[0]
    td["sampling"] = Sampling(kept_offsets=np.array([0, 1]), kept_ids=np.array([HI[1]]))
    out = wrap("text", generate=False, inplace=False)(td, kept_ids=True, temperature=3.0)
    np.testing.assert_allclose(out["log_probs", "full"], 0.0, atol=1e-6)


def test_errors(wrap: Make) -> None:
    cases: list[tuple[Any, type[Exception], str]] = [
        ({"temperature": "hot"}, TypeError, "temperature must be a number"),
        ({"temperature": np.ones(3)}, ValueError, r"temperature must be one number or have the batch size"),
        ({"temperature": np.nan}, ValueError, "temperature must be positive and finite"),
        ({"kept_ids": True}, ValueError, r"Expected the entries \('sampling', 'kept_offsets'\)"),
        ({"top_k": 3}, TypeError, r"no options of generation, got \['top_k'\]"),
    ]
    others: list[Any] = [None, True]
    for options, error, words in cases:
        for batching in others:
            judge = wrap("text", generate=False, batching=batching)
            td = text_td("Hi", "Hello", field="full")
            keys = set(td.keys(True))
            raises(error, words, judge, td, **options)
            assert set(td.keys(True)) == keys, batching


def test_records_that_do_not_fit(wrap: Make) -> None:
    judge = wrap("text", generate=False, batching=True)
    td = recorded(text_td("Hi", "Hello", field="full"), [([0, 0, 0, 1], [5]), ([0], [])])
    raises(ValueError, "row 0: the record is of 3 tokens, but the row has 2", judge, td, kept_ids=True)
    for wrong in ([1, 2], [0, 3], [0, 2, 1], []):
        td = recorded(text_td("Hi", "Hello", field="full"), [(wrong, [5, 7]), ([0], [])])
        with pytest.raises(ValueError, match="row 0: offsets must ascend from 0 to the number of ids, 2"):
            judge(td, kept_ids=True)
    td = recorded(text_td("Hi", "Hello", field="full"), [([0, 0], []), ([0, 2], [5, 7])])
    with pytest.raises(ValueError, match="row 1: token 4, 78, is not among the ids that it was drawn from"):
        judge(td, kept_ids=True)


def test_constructor(wrap: Make) -> None:
    judge = wrap("text", generate=False, score_kwargs={"temperature": 0.5})
    assert judge.get_new_version(pad_output=True).score_kwargs == {"temperature": 0.5}
    assert judge.get_new_version(generate=True).score_kwargs is None
    with pytest.raises(ValueError, match="score_kwargs can only be given with generate=False"):
        wrap("text", score_kwargs={"temperature": 0.5})
    with pytest.raises(ValueError, match=r"score_kwargs must be of .*'temperature'.* got \['top_k'\]"):
        wrap("text", generate=False, score_kwargs={"top_k": 3})


def test_choices_of_each_row() -> None:
    assert per_row(["a"], 2, 4) == [["a"]] * 4
    assert per_row([[["a"], ["b", "c"]]], 2, 2) == [["a"], ["b", "c"]]
    assert per_row([np.array([1, 2])], 1, 1)[0][0].tolist() == [1, 2]
    assert per_row(["a", [1]], 0, 1) == [["a", [1]]]
    for choices in ([["a"]], [["a"], "bc"], [], "ab", [5, 6]):
        raises(ValueError, "choices must be", per_row, choices, 1, 2)


@pytest.mark.parametrize(("mode", "padded"), list(zip(MODES, (False, True, False), strict=True)))
def test_a_judge_of_what_a_policy_drew(mode: str, padded: bool) -> None:
    """Also of a template that writes more behind the response."""
    drawn = {"max_new_tokens": 6, "temperature": 0.8, "top_p": 0.95, "seed": 2}
    asked = {**drawn, "kept_ids": True, "sampled_log_probs": True}
    policy = OnnxWrapper(
        embedded_model_path(), input_mode=mode, pad_output=padded, generate_kwargs=asked, inplace=True
    )
    td = policy(prompts(mode))
    want = td.get(("sampling", "sampled_log_probs"), as_list=True)
    lengths = [int(row.sum()) for row in td.get(("masks", "all_assistant_mask"), as_list=True)]
    judge = policy.get_new_version(
        generate=False, score_kwargs={"temperature": 0.8, "kept_ids": True}, inplace=False
    )
    for row, own, length in zip(
        judge(td).get(("log_probs", "full"), as_list=True), want, lengths, strict=True
    ):
        windows = np.lib.stride_tricks.sliding_window_view(row, length)
        assert np.isclose(windows, own[:length], rtol=0, atol=1e-4).all(1).any()
