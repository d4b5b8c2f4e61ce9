"""What a wrapper reads: masks, preferred tokens, tokenizer options, and inputs that are refused."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, MODES, Make, P, chat_td, rows, text_td, token_td

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, Text, Tokens


def test_masks_in_tokens_mode(wrap: Make, scripted_model: Make) -> None:
    cases: list[Any] = ["masks", ("m", "m")]
    for key in cases:
        model = scripted_model()
        ids = np.array([[39, 1, 72]])
        td = TensorDict(
            {"tokens": Tokens(prompt=ids, batch_size=[1]), "attention_mask": np.array([[1, 0, 1]])},
            batch_size=[1],
        )
        out = wrap("tokens", model=model, pad_output=True, masks_key=key)(td)
        assert model.prefilled == [HI], key
        np.testing.assert_array_equal(out[key].all_attention_mask, np.array([[1, 0, 1, 1, 1, 1]], bool))
        np.testing.assert_array_equal(out["tokens", "full"], [[39, 1, 72, 64, 65, 256]], err_msg=str(key))
        scored = wrap("tokens", generate=False, pad_output=True, inplace=False, masks_key=key)(out)
        lp = scored["log_probs", "full"][0]
        assert (lp[0], lp[1]) == (0, 0), key
        assert lp[2] == pytest.approx(model.log_prob([39], 72), abs=1e-5), key


def test_a_stale_mask_is_not_the_prompts(wrap: Make) -> None:
    td = token_td(HI, HELLO)
    wrapper = wrap("tokens")
    first = rows(wrapper(td), "tokens", "response")
    assert rows(wrapper(td), "tokens", "response") == first


def test_an_attention_mask_of_other_lengths_is_refused(wrap: Make) -> None:
    cases: list[Any] = [np.ones((1, 2)), np.ones((1, 4)), np.ones((1, 3, 1))]
    for mask in cases:
        ids = np.array([[39, 1, 72]])
        td = TensorDict({"tokens": Tokens(prompt=ids, batch_size=[1]), "mine": mask}, batch_size=[1])
        message = r"'mine' must be a mask of \('tokens', 'prompt'\) \(1 rows of up to 3 tokens\)"
        raises(ValueError, message, wrap("tokens", attention_mask_key="mine"), td)
        full = TensorDict(
            {"tokens": Tokens(full=ids, batch_size=[1]), "attention_mask": mask}, batch_size=[1]
        )
        with pytest.raises(ValueError, match=r"'attention_mask' must be a mask of \('tokens', 'full'\)"):
            wrap("tokens", generate=False)(full)


def test_the_prompts_mask_is_not_one_of_what_is_scored(wrap: Make) -> None:
    ids = np.array([[39, 1, 72]])
    td = TensorDict(
        {"tokens": Tokens(prompt=ids, batch_size=[1]), "attention_mask": np.array([[1, 0, 1]])},
        batch_size=[1],
    )
    wrap("tokens")(td)
    td.del_("masks")
    assert ("log_probs", "full") in wrap("tokens", generate=False, inplace=False)(td).keys(True)


def test_prefer_tokens(wrap: Make, scripted_model: Make) -> None:
    for tokens in (
        lazy_stack([Tokens(prompt=np.array(HI)), Tokens(prompt=np.array(HELLO))]),
        Tokens(prompt=np.array([[P, P, P, *HI], HELLO]), batch_size=[2]),
    ):
        model = scripted_model()
        td = chat_td("Hi", "Hello").set("tokens", tokens)
        out = wrap("history", model=model, prefer_tokens=True)(td)
        assert model.prefilled == [HI, HELLO]
        assert list(out["text", "full"]) == ["Hiab<eos>", "Helloabcd"]
        assert out["history"].full.batch_size == (2, 2)
    both = {"prompt": np.array([HI]), "full": np.array([HELLO])}  # as a wrapper wrote them
    for fields, read in ((both, HI), ({"full": both["full"]}, HELLO)):
        model = scripted_model()
        td = chat_td("Hi").set("tokens", Tokens(**fields, batch_size=[1]))
        wrap("history", model=model, prefer_tokens=True)(td)
        assert model.prefilled == [read]
    model = scripted_model()
    wrap("history", model=model, prefer_tokens=True)(chat_td("Hi"))
    assert model.prefilled[0] != HI


def test_tokenizer_options(wrap: Make) -> None:
    options = {"truncation": True, "max_length": 2, "padding": "max_length"}
    out = wrap("text", tokenizer_kwargs={**options, "max_length": 3}, pad_output=True)(text_td("Hi"))
    np.testing.assert_array_equal(out["tokens", "prompt"], [[P, *HI]])
    out = wrap("text", tokenizer_kwargs=options, pad_output=True)(text_td("Hixyz"))
    np.testing.assert_array_equal(out["tokens", "prompt"], [HI])


def test_input_errors_change_nothing(wrap: Make) -> None:
    td = TensorDict({"other": np.ones(2)}, batch_size=[2])
    for mode in MODES:
        raises(ValueError, f"Expected .*{mode}.* key for {mode} input mode, but found keys", wrap(mode), td)
    assert set(td.keys()) == {"other"}
    raises(TypeError, "Expected History object", lambda: wrap("history", input_key="other")(td))
    raises(ValueError, "Expected list of text", lambda: wrap("text", input_key="other")(td))
    raises(ValueError, "Expected token ids as integers for 'other'", wrap("tokens", input_key="other"), td)
    long = text_td("x" * 257)
    raises(ValueError, "context", lambda: wrap("text")(long))
    assert set(long["text"].keys()) == {"prompt"}
    raises(RuntimeError, "locked", lambda: wrap("text")(text_td("Hi").lock_()))
    with pytest.raises(TypeError, match="no options of generation"):
        wrap("text", generate=False)(text_td("Hi", field="full"), max_new_tokens=2)
    raises(ValueError, "logits_only can only", lambda: wrap("text")(text_td("Hi"), logits_only=True))


@pytest.mark.parametrize("field", ["prompt", "full"])
def test_names_of_special_tokens_are_text_where_users_write_them(wrap: Make, field: str) -> None:
    named, eos = "a<eos>b", 256
    for mode, td, default in (
        ("history", chat_td(named), False),
        ("text", text_td(named, field=field), True),  # it may be a rendered conversation
    ):
        if mode == "history" and field == "full":
            td = TensorDict({mode: ChatHistory(full=td[mode].prompt, batch_size=[1])}, batch_size=[1])
        for given, control in ((None, default), (True, False), (False, True)):
            options = {} if given is None else {"split_special_tokens": given}
            wrapper = wrap(mode, generate=field == "prompt", tokenizer_kwargs=options)
            out = wrapper(td.copy())
            assert (eos in rows(out, "tokens", field)[0]) is control, (mode, given)
            assert named in out["text", field][0]


def test_empty_assistant_masks_warn(wrap: Make) -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}]
    td = TensorDict({"history": ChatHistory(full=History.from_chats([chat]), batch_size=[1])}, batch_size=[1])
    template = "{% generation %}{% endgeneration %}{% for m in messages %}{{ m.content }}{% endfor %}"
    with pytest.warns(UserWarning, match="the assistant mask"):
        out = wrap("history", generate=False, chat_template=template)(td)
    assert not any(rows(out, "masks", "all_assistant_mask")[0])


def test_a_history_without_turn_dimension(wrap: Make) -> None:
    history = History(role=["user", "user"], content=["Hi", "Hello"], batch_size=[2])
    td = TensorDict({"my": history}, batch_size=[2])
    out = wrap("history", input_key="my")(td)
    assert out["history"].full.batch_size == (2, 2)


def test_what_is_neither_a_tensordict_nor_the_entry(wrap: Make) -> None:
    cases: list[tuple[str, Any]] = [
        *(("history", value) for value in ("Hi", ["Hi"], [{"role": "user", "content": "Hi"}], None, 3)),
        *(("text", value) for value in (None, 3, np.array([[1, 2]]), b"Hi")),
        *(("tokens", value) for value in (None, 3, "Hi")),
    ]
    others = [True, False]
    for mode, given in cases:
        for generate in others:
            field = "prompt" if generate else "full"
            form = {"history": r"History\.from_chats", "text": rf"Text\({field}=", "tokens": "integers"}[mode]
            with pytest.raises(TypeError, match=rf"Expected a TensorDict with \('{mode}', .*, got .*{form}"):
                wrap(mode, generate=generate)(given)


def test_scoring_of_prompt_and_response(wrap: Make) -> None:
    cases: list[tuple[str, Any, str]] = [
        ("tokens", Tokens(prompt=np.array([HI]), response=np.array([HI]), batch_size=[1]), r"Tokens\(full="),
        ("text", Text(prompt=["Hi"], response=["a"], batch_size=[1]), r"Text\(full="),
        ("history", chat_td("Hi")["history"], r"History\.from_chats"),
    ]
    for mode, entry, form in cases:
        judge = wrap(mode, generate=False)
        with pytest.raises(ValueError, match=f"scoring reads prompt and response as one, 'full': .*{form}"):
            judge(TensorDict({mode: entry}, batch_size=[1]))
        with pytest.raises(ValueError, match="Expected") as error:
            judge(TensorDict({"other": np.ones(1)}, batch_size=[1]))
        assert "as one" not in str(error.value), mode


def test_what_is_no_row_of_ids(wrap: Make) -> None:
    cases: list[Any] = [["Hi"], [[1.5]], [1.5, 2.0], np.array([[1.0, 2.0]]), [[1], "Hi"]]
    for given in cases:
        raises((TypeError, ValueError), "tokens", wrap("tokens"), given)


def test_entries_in_another_form_name_the_right_one(wrap: Make) -> None:
    chat = [{"role": "user", "content": "Hi"}]
    for value in (chat, [chat]):
        td = TensorDict({"history": {"prompt": value}}, batch_size=[1])
        raises(TypeError, r"Expected History object .*History\.from_chats", wrap("history"), td)
        with pytest.raises(ValueError, match=r"Expected \('history', 'prompt'\) key .*History\.from_chats"):
            wrap("history")(TensorDict({"history": value}, batch_size=[1]))
        with pytest.raises(TypeError, match=r"prompt must be a History, .*History\.from_chats"):
            ChatHistory(prompt=value, batch_size=[1])
    for ids, said in (
        (np.array([[1.0, 2.0]]), "as integers .*float64"),
        (np.array([[True, False]]), "as integers .*bool"),
        (np.array([1]), "with 2 dimensions"),
    ):
        td = TensorDict({"tokens": {"prompt": ids}}, batch_size=[1])
        raises(ValueError, rf"Expected token ids {said} .*integers \(int64\)", wrap("tokens"), td)
    for bad in (["Hi"], [[1.5]], [3]):
        with pytest.raises((TypeError, ValueError), match="tokens"):
            wrap("tokens")(TensorDict({"tokens": {"prompt": bad}}, batch_size=[1]))
    with pytest.raises(ValueError, match=r"Expected list of text .*Text\(prompt="):
        wrap("text")(TensorDict({"text": {"prompt": [3]}}, batch_size=[1]))
    with pytest.raises(ValueError, match=r"Expected one text .*got list, as batch_size is \(\); texts are"):
        wrap("text")(TensorDict(text=Text(prompt=["Hi"])))


@pytest.mark.parametrize("generate", [True, False])
def test_variables_for_the_chat_template(wrap: Make, generate: bool) -> None:
    source = (
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
        "{{ tools | length if tools else '' }}{{ '!' if enable_thinking is false }}"
    )
    part = "prompt" if generate else "full"
    chat = ChatHistory(**{part: History.from_chats([[{"role": "user", "content": "Hi"}]])}, batch_size=[1])
    for given, text in (
        (None, "Hi"),
        ({}, "Hi"),
        ({"tools": [{}, {}], "enable_thinking": False}, "Hi2!"),
        ({"enable_thinking": True}, "Hi"),
    ):
        wrapper = wrap("history", generate=generate, chat_template=source, chat_template_kwargs=given)
        assert wrapper(TensorDict({"history": chat}, batch_size=[1]))["text", part] == [text]
