"""Tokens of a conversation that are used instead of rendering it again."""

import numpy as np
from helpers.models.prompts import HELLO, HI, Make

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, Tokens


def chat_td(*chats: list[dict[str, str]]) -> TensorDict:
    history = ChatHistory(prompt=History.from_chats(list(chats)), batch_size=[len(chats)])
    return TensorDict({"history": history}, batch_size=[len(chats)])


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_tokens_of_a_conversation_stay_a_prefix(wrap, scripted_model, byte_tokenizer):
    """Turn after turn, the ids that were generated are the ids that are read, not what text gives again."""
    model = scripted_model()
    wrapper = wrap("history", model=model, prefer_tokens=True, inplace=False)
    td = chat_td([user("Hi")], [user("Hello")])
    out = wrapper(td)
    tokenizer = byte_tokenizer()
    said = tokenizer.encode("<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n")
    for _ in range(2):
        before = [row.tolist() for row in out.get(("tokens", "full"), as_list=True)]
        chats = [[*chat, user("more")] for chat in out["history"].full.to_chats()]
        td = chat_td(*chats)
        td["tokens"] = lazy_stack([Tokens(prompt=np.array([*row, *said])) for row in before])
        model.prefilled.clear()
        out = wrapper(td)
        assert model.prefilled == [[*row, *said] for row in before]
        for old, new in zip(before, out.get(("tokens", "full"), as_list=True), strict=True):
            assert new[: len(old)].tolist() == old
            assert len(new) > len(old)
        for text, ids in zip(out["text", "prompt"], model.prefilled, strict=True):
            assert text == tokenizer.decode(ids)


def test_preferred_tokens_with_a_mask(wrap: Make, scripted_model: Make) -> None:
    model = scripted_model()
    td = chat_td([user("Hi")], [user("Hello")])
    # 7 is not the pad id: only the mask says that it is padding
    td["tokens"] = Tokens(prompt=np.array([[7, 7, 7, *HI], HELLO]), batch_size=[2])
    td["attention_mask"] = np.array([[0, 0, 0, 1, 1], [1] * 5])
    wrap("history", model=model, prefer_tokens=True)(td)
    assert model.prefilled == [HI, HELLO]
    one = chat_td([user("Hi")])[0]
    one["tokens"] = Tokens(prompt=np.array(HI))
    model.prefilled.clear()
    assert wrap("history", model=model, prefer_tokens=True)(one).batch_size == ()
    assert model.prefilled == [HI]
