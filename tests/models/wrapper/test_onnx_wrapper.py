"""OnnxWrapper: the vectors of the specification, and agreement of its modes with each other."""

from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import HELLO, HI, MODES, Make, P, chat_td, prompts, rows, text_td

from lite import TensorDict
from lite.models import ChatHistory, History, Tokens

# -- the vectors of the specification ----------------------------------------------------------


def test_padded_vectors(wrap: Make) -> None:
    for mode in ("text", "tokens"):
        out = wrap(mode, pad_output=True)(prompts(mode))
        np.testing.assert_array_equal(out["tokens", "prompt"], [[P, P, P, 39, 72], HELLO])
        np.testing.assert_array_equal(out["tokens", "response"], [[64, 65, 256, P], [64, 65, 66, 67]])
        np.testing.assert_array_equal(
            out["tokens", "full"], [[P, P, P, 39, 72, 64, 65, 256, P], [*HELLO, 64, 65, 66, 67]]
        )
        mask = [[0, 0, 0, 1, 1, 1, 1, 1, 0], [1] * 9]
        np.testing.assert_array_equal(out["masks", "all_attention_mask"], np.array(mask, bool))
        said = [[0, 0, 0, 0, 0, 1, 1, 1, 0], [0] * 5 + [1] * 4]
        np.testing.assert_array_equal(out["masks", "all_assistant_mask"], np.array(said, bool))
        assert (out["tokens", "full"].dtype, out["log_probs", "response"].dtype) == (np.int64, np.float32)
        for key in ("tokens", "masks", "log_probs"):
            assert out.get(key).padded is True, mode


def test_unpadded_vectors(wrap: Make) -> None:
    for mode in ("text", "tokens"):
        out = wrap(mode)(prompts(mode))
        assert rows(out, "tokens", "prompt") == [HI, HELLO], mode
        assert rows(out, "tokens", "response") == [[64, 65, 256], [64, 65, 66, 67]], mode
        assert rows(out, "tokens", "full") == [[*HI, 64, 65, 256], [*HELLO, 64, 65, 66, 67]], mode
        assert rows(out, "masks", "all_attention_mask") == [[True] * 5, [True] * 9], mode
        assert rows(out, "masks", "all_assistant_mask") == [
            [False] * 2 + [True] * 3,
            [False] * 5 + [True] * 4,
        ]
        assert [len(row) for row in rows(out, "log_probs", "response")] == [3, 4], mode
        for key in ("tokens", "masks", "log_probs"):
            assert out.get(key).padded is False, mode
        with pytest.raises(RuntimeError):
            out["tokens"].response  # noqa: B018


def test_text_and_log_probs(wrap: Make, scripted_model: Make) -> None:
    for padded in (True, False):
        out = wrap("text", pad_output=padded)(text_td("Hi", "Hello"))
        assert list(out["text", "prompt"]) == ["Hi", "Hello"], padded
        assert list(out["text", "response"]) == ["ab<eos>", "abcd"], padded
        assert list(out["text", "full"]) == ["Hiab<eos>", "Helloabcd"], padded
        model = scripted_model()
        for prompt, response, got in zip(
            [HI, HELLO], [[64, 65, 256], [64, 65, 66, 67]], rows(out, "log_probs", "response"), strict=True
        ):
            expected = [model.log_prob([*prompt, *response[:i]], token) for i, token in enumerate(response)]
            np.testing.assert_allclose(got[: len(expected)], expected, atol=1e-5, err_msg=str(padded))
            assert got[0] != 0, padded
            assert got[len(expected) :] == [0.0] * (4 - len(expected)) * padded, padded
        for name in ("prompt", "full"):
            assert getattr(out["log_probs"], name) is None, padded


def test_pad_that_is_also_end(wrap: Make, scripted_model: Make, byte_tokenizer: Make) -> None:
    """The end token and end tokens inside prompts stay real."""
    for mode in ("text", "tokens"):
        tokenizer = byte_tokenizer(pad_token=None)
        model = scripted_model(
            {
                (72, 87): 64, (72, 64): 65, (72, 65): 256, (68, 78): 64, (68, 64): 65, (68, 65): 66,
                (68, 66): 67,
            }
        )  # fmt: skip
        prompt = [39, 72, 256, 87]
        dense = Tokens(prompt=np.array([[256, *prompt], HELLO]), batch_size=[2])
        td = text_td("Hi<eos>x", "Hello") if mode == "text" else TensorDict({"tokens": dense}, batch_size=[2])
        options = {"model": model, "tokenizer": tokenizer, "inplace": False}
        out = wrap(mode, **options)(td)
        assert rows(out, "tokens", "response")[0] == [64, 65, 256], mode
        assert rows(out, "tokens", "full")[0] == [*prompt, 64, 65, 256], mode
        padded = wrap(mode, **options, pad_output=True)(td)
        np.testing.assert_array_equal(
            padded["masks", "all_attention_mask"][0], np.array([0, 1, 1, 1, 1, 1, 1, 1, 0], bool)
        )


def test_what_pads_is_not_the_begin_token_that_the_tokenizer_adds(wrap, scripted_model, byte_tokenizer):
    for generate in (True, False):
        template = pytest.importorskip("tokenizers").processors.TemplateProcessing
        tokenizer = byte_tokenizer(bos_token="<bos>")
        tokenizer.backend.post_processor = template(single="<bos> $A", special_tokens=[("<bos>", 257)])
        assert tokenizer.encode("<pad>") == [257, P], generate
        field = "prompt" if generate else "full"
        model = scripted_model()
        out = wrap("text", model=model, tokenizer=tokenizer, generate=generate, pad_output=True)(
            text_td("Hi", "Hello", field=field)
        )
        np.testing.assert_array_equal(out["tokens", field], [[P, P, P, 257, *HI], [257, *HELLO]])
        mask = out["masks", "all_attention_mask"][:, :6]
        np.testing.assert_array_equal(mask, [[False] * 3 + [True] * 3, [True] * 6], err_msg=str(generate))
        if generate:
            assert model.prefilled == [[257, *HI], [257, *HELLO]], generate


def test_scoring_vectors(wrap: Make, scripted_model: Make) -> None:
    for padded in (True, False):
        score = wrap("tokens", generate=False, pad_output=padded)
        dense = np.array([[P, P, P, *HI], HELLO])
        out = score(TensorDict({"tokens": Tokens(full=dense, batch_size=[2])}, batch_size=[2]))
        alone = score(TensorDict({"tokens": Tokens(full=np.array([HI]), batch_size=[1])}, batch_size=[1]))
        model = scripted_model()
        hi = [0.0, model.log_prob(HI[:1], 72)]
        hello = [0.0] + [model.log_prob(HELLO[:i], HELLO[i]) for i in range(1, 5)]
        got = rows(out, "log_probs", "full")
        np.testing.assert_allclose(got[0], [0.0] * 3 * padded + hi, atol=1e-5, err_msg=str(padded))
        np.testing.assert_allclose(got[1], hello, atol=1e-5, err_msg=str(padded))
        assert got[0][-2:] == rows(alone, "log_probs", "full")[0], padded
        assert out["log_probs"].response is None, padded
        if padded:
            np.testing.assert_array_equal(out["tokens", "full"], dense, err_msg=str(padded))


# -- agreement ---------------------------------------------------------------------------------


def test_batched_equals_alone(wrap: Make) -> None:
    for mode in MODES:
        together = wrap(mode, generate_kwargs={"do_sample": True, "seed": 3})(prompts(mode))
        alone = wrap(mode, generate_kwargs={"do_sample": True, "seed": 3})(prompts(mode)[0])
        assert alone.batch_size == (), mode
        np.testing.assert_array_equal(alone["tokens", "response"], rows(together, "tokens", "response")[0])
        np.testing.assert_array_equal(
            alone["log_probs", "response"], rows(together, "log_probs", "response")[0]
        )


# -- history -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("padded", "name"), [(True, "chatml_format"), (False, "qwen")])
def test_history_generation(wrap: Make, scripted_model: Make, padded: bool, name: str) -> None:
    # the prompts end with "\n" (198) after "<" at 27 and "|" at 91
    model = scripted_model({(91, 198): 64, (91, 64): 65, (91, 65): 256})
    td = chat_td("Hi", "Hello")
    prompt = td["history"].prompt
    out = wrap("history", model=model, pad_output=padded, chat_template_name=name)(td)
    assert out is td
    history = out["history"]
    assert history.response.batch_size == (2, 1)
    assert history.full.batch_size == (2, 2)
    assert list(history.response[0].content) == ["ab"]
    assert list(history.full[1].role) == ["user", "assistant"]
    assert history.full[1, 0].content == "Hello"
    assert history.prompt[0, 0].content == prompt[0, 0].content == "Hi"
    assert bool(history.response[0, 0].is_complete) is True
    expected = prompt.apply_chat_template(chat_template_name=name, add_generation_prompt=True)
    assert list(out["text", "prompt"]) == expected
    assert list(out["text", "response"]) == ["ab<eos>", "ab<eos>"]
    assert list(out["text", "full"]) == [text + "ab<eos>" for text in expected]


def test_history_response_cut_short_is_incomplete(wrap: Make, scripted_model: Make) -> None:
    model = scripted_model({(91, 198): 64, (91, 64): 65})
    out = wrap("history", model=model, generate_kwargs={"max_new_tokens": 2})(chat_td("Hi"))
    assert bool(out["history"].response[0, 0].is_complete) is False
    assert out["history"].response[0, 0].content == "ab"


def test_history_scoring(wrap: Make, byte_tokenizer: Make) -> None:
    chats = [
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}],
        [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "d"}],
    ]
    td = TensorDict({"history": ChatHistory(full=History.from_chats(chats), batch_size=[2])}, batch_size=[2])
    for padded in (True, False):
        out = wrap("history", generate=False, pad_output=padded, inplace=False, model=None)(td)
        assert list(out["text", "full"]) == td["history"].full.apply_chat_template(
            chat_template_name="chatml_format", add_generation_prompt=False
        )
        ids, said = rows(out, "tokens", "full"), rows(out, "masks", "all_assistant_mask")
        picked = [np.array(i)[np.array(m)] for i, m in zip(ids, said, strict=True)]
        assert byte_tokenizer().batch_decode(picked) == ["bc", "d"]
        assert out["history"].prompt is None
        assert out["history"].full.batch_size == (2, 2)
        assert out["text"].response is None


def test_tool_calls_in_a_response(wrap: Make, scripted_model: Make, byte_tokenizer: Make) -> None:
    said = '<tool_call>\n{"name": "f"}\n</tool_call>'
    ids = byte_tokenizer().encode(said + "<eos>")
    model = scripted_model({})
    plain = model.logits

    def scripted(context: Any) -> np.ndarray:
        values = plain(context)
        start = byte_tokenizer().decode(context).index("<|im_start|>assistant\n") + len(
            "<|im_start|>assistant\n"
        )
        values[ids[len(context) - start]] = 9.0
        return values

    model.logits = scripted
    out = wrap("history", model=model, generate_kwargs={"max_new_tokens": 60})(chat_td("Hi"))
    turn = out["history"].response[0, 0]
    assert turn.content == said
    assert turn.tool_calls == [{"name": "f"}]
