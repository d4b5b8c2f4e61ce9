"""Prompts in the three input modes, and rows of results as lists."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, Text, Tokens

P = 259

HI, HELLO = [39, 72], [39, 68, 75, 75, 78]

MODES = ["history", "text", "tokens"]

Make = Callable[..., Any]


def text_td(*texts: str, field: str = "prompt") -> TensorDict:
    return TensorDict(
        {"text": Text(**{field: list(texts)}, batch_size=[len(texts)])}, batch_size=[len(texts)]
    )


def token_td(*rows: list[int], field: str = "prompt") -> TensorDict:
    tokens = lazy_stack([Tokens(**{field: np.array(row)}) for row in rows])
    return TensorDict({"tokens": tokens}, batch_size=[len(rows)])


def chat_td(*texts: str) -> TensorDict:
    chats = [[{"role": "user", "content": text}] for text in texts]
    history = ChatHistory(prompt=History.from_chats(chats), batch_size=[len(texts)])
    return TensorDict({"history": history}, batch_size=[len(texts)])


def prompts(mode: str) -> TensorDict:
    return (
        {"history": chat_td, "text": text_td}[mode]("Hi", "Hello")
        if mode != "tokens"
        else token_td(HI, HELLO)
    )


def rows(td: Any, *key: str) -> list[list[Any]]:
    value = td.get(key, as_list=True)
    return [np.asarray(row).tolist() for row in value]


def nested(item: Any, shape: tuple[int, ...]) -> Any:
    """Lists of lists of that shape, each element the item itself."""
    return [nested(item, shape[1:])] * shape[0] if shape else item


def as_lists(value: Any) -> Any:
    """Arrays in lists of any depth, as lists of numbers."""
    return [as_lists(v) for v in value] if isinstance(value, list) else np.asarray(value).tolist()
