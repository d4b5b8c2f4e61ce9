"""Conversations as an environment, whose rows have other numbers of turns."""

from typing import Any

import numpy as np

from lite import TensorDict, lazy_stack
from lite.data import Composite, Unbounded
from lite.envs import EnvBase
from lite.models import ChatHistory, History


class ChatEnv(EnvBase):
    """Says how many turns there are; the i-th conversation ends after `limit` + i responses.

    Args:
        batch: batch size, of one dimension or none.
        limit: responses of the first conversation.
        lazy: TensorDicts are lazy stacks of conversations, as TorchRL's are.
    """

    def __init__(self, batch: tuple[int, ...] = (3,), limit: int = 1, lazy: bool = False) -> None:
        super().__init__(batch_size=batch)
        self.lazy, self.limits = lazy, np.arange(*batch or (1,)).reshape(batch) + limit
        self.observation_spec, self.action_spec = (
            Composite(history=ChatHistory.default_spec(batch, keys=[key]), shape=batch)
            for key in ("prompt", "full")
        )
        self.reward_spec = Unbounded((*batch, 1))

    def _told(self, chats: list[Any], **entries: Any) -> Any:
        prompt = History.from_chats(chats if self.batch_size else chats[0])
        history = ChatHistory(prompt=prompt, batch_size=self.batch_size)
        td = TensorDict(history=history, batch_size=self.batch_size, **entries)
        return lazy_stack(list(td.unbind(0))) if self.lazy else td

    def _reset(self, tensordict: Any) -> Any:
        return self._told([[{"role": "user", "content": "1"}]] * self.limits.size)

    def _step(self, tensordict: Any) -> Any:
        chats = tensordict["history"].full.to_chats()
        chats = chats if self.batch_size else [chats]
        done = np.array([len(chat) // 2 for chat in chats]).reshape(self.batch_size) >= self.limits
        told = [[*chat, {"role": "tool", "content": str(len(chat) + 1), "name": "count"}] for chat in chats]
        ends = {"reward": done[..., None].astype(np.float32), "done": done[..., None]}
        return self._told(told, **ends)

    def _set_seed(self, seed: int | None) -> None:
        pass


def parrot(td: Any) -> Any:
    """Says what was said last, once more."""
    chats = td["history"].prompt.to_chats()
    rows = chats if td.batch_size else [chats]
    said = [[*chat, {"role": "assistant", "content": chat[-1]["content"]}] for chat in rows]
    td["history"].full = History.from_chats(said if td.batch_size else said[0])
    return td


def turns(td: Any) -> list[list[str]]:
    """The contents of each conversation of a batch."""
    return [[turn["content"] for turn in row["history"].full.to_chats()] for row in td.reshape(-1).unbind(0)]
