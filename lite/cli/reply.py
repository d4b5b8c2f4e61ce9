"""One response, printed as it comes."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.cli.model import LoadedModel
from lite.models import Decoder, GenerationConfig, PrefixCache, stream
from lite.models.text.streaming import TextStream


@dataclass
class Reply:
    """A response.

    Attributes:
        prompt_ids: ids of what it responds to.
        tokens: its ids.
        text: its text, without special tokens.
        log_probs: log-probs of its tokens, under the raw model distribution.
        finish_reason: as in `Generated`, or "interrupted".
        more: further entries of `record`.
    """

    prompt_ids: list[int]
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    log_probs: list[float] = field(default_factory=list)
    finish_reason: str = "length"
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The fields of a response, under the names of `GenerateBatches`."""
        return {
            "response": self.text,
            "prompt_ids": self.prompt_ids,
            "response_ids": self.tokens,
            "logprobs": self.log_probs,
            "log_prob": math.fsum(self.log_probs),
            "tokens": len(self.tokens),
            "finish_reason": self.finish_reason,
            **self.more,
        }


def reply(
    model: LoadedModel,
    ids: NDArray[np.int64],
    config: GenerationConfig,
    seed: np.uint64,
    write: Callable[[str], object],
    *,
    prefix_cache: PrefixCache | None = None,
    assistant_model: Decoder | None = None,
) -> Reply:
    """Respond to one prompt, as `stream` does, and hand each piece of text to `write` as soon as it is whole.

    An interrupt (Ctrl-C) ends the response after the token that is under way, and is not an exception then.
    """
    out, text = Reply(ids.tolist()), TextStream(model.tokenizer)
    steps = stream(
        model.decoder,
        [ids],
        config,
        seeds=np.array([seed], np.uint64),
        decode_text=model.tokenizer.decode,
        prefix_cache=prefix_cache,
        assistant_model=assistant_model,
    )

    def say(piece: str) -> None:
        if piece:
            out.text += piece
            write(piece)

    with _interrupts() as interrupted, closing(steps):
        for step in steps:
            out.tokens.append(int(step.tokens[0]))
            out.log_probs.append(float(step.log_probs[0]))
            out.finish_reason = step.finished.get(0, "interrupted")
            say(text.push(out.tokens[-1]))
            if interrupted.is_set():
                break
    say(text.end())
    return out


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """The first interrupt sets the event, so that a step of the model completes; the next one raises."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only that one may have handlers
        yield event
        return

    def note(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
