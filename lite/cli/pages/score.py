"""The page of `lite score`: each response, its tokens coloured by their log-probs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from lite._show.page import bars, escape, heading, page, table
from lite.cli.model import LoadedModel
from lite.cli.text_stream import token_namer, token_texts
from lite.models.text.to_html import STYLE, chips, legend, named, shade, shade_names

_ROWS, _TOKENS, _PROMPT = 200, 2000, 2000  # most responses, tokens of each and characters of a prompt to show
_TOKENS_OF_PAGE = 40_000  # some 11 MB, which a browser opens in two seconds
_STYLE = (
    ".prompt{white-space:pre-wrap;overflow-wrap:anywhere;opacity:.75;margin:.2rem 0;unicode-bidi:isolate}"
    "section{margin:1.2rem 0}section>b{display:block}"
)


class ScorePage:
    """Collects what a run scores, with the alternatives of each token; memory is that of what is shown.

    Args:
        args: "file", "raw" and "output" of the command.
        done: how many lines an earlier run had scored.
    """

    def __init__(self, args: argparse.Namespace, done: int) -> None:
        self._args = args
        self._done = done
        self._sections: list[str] = []
        self._shown = 0  # tokens
        self._counts = [0] * len(shade_names())
        self._responses = 0
        self._log_prob = 0.0

    def noting(
        self, model: LoadedModel, rows: Iterable[tuple[dict[str, Any], dict[str, Any]]]
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Records and the rows that `ScoreBatches` gives of them, each taken down in passing."""
        name = token_namer(model.tokenizer)
        for record, row in rows:
            self._responses += 1
            self._log_prob += float(row["log_prob"])
            for value in row["logprobs"]:
                if (level := shade(float(value))) is not None:
                    self._counts[level] += 1
            if self.has_room:
                self._sections.append(self._section(model, row, name))
            yield record, row

    @property
    def has_room(self) -> bool:
        """Whether the next response will be shown, not only counted."""
        return len(self._sections) < _ROWS and self._shown < _TOKENS_OF_PAGE

    def text(self) -> str:
        """The page."""
        tokens = sum(self._counts)
        mean = self._log_prob / tokens if tokens else math.nan
        facts = [
            ("file", self._args.file),
            ("responses", f"{self._responses:,}"),
            ("tokens", f"{tokens:,}"),
            ("log-prob", f"{self._log_prob:z.4f}, mean per token {mean:z.4f}"),
            ("perplexity", f"{math.exp(min(-mean, 700.0)):.4g}"),
        ]
        if self._done:
            facts.append(("scored before", f"{self._done:,} responses, which are in {self._args.output}"))
        sections = [
            table(("", ""), facts),
            heading("Tokens by probability"),
            bars(
                "Number of tokens by probability", list(zip(shade_names(), self._counts, strict=True)), "{:,}"
            ),
            heading("Responses"),
            "<p>Hovering over a token tells its log-prob, and what was most probable in its place.</p>",
            legend(),
            *self._sections,
        ]
        if self._responses > len(self._sections):
            sections.append(f"<p>and {self._responses - len(self._sections):,} more</p>")
        return page("Log-probs of responses", sections, STYLE + _STYLE)

    def _section(self, model: LoadedModel, row: dict[str, Any], name: Callable[[int], str | int]) -> str:
        response = row["response_ids"]
        texts = token_texts(model.tokenizer, response[: min(_TOKENS, _TOKENS_OF_PAGE - self._shown)])
        self._shown += len(texts)
        log_probs = np.asarray(row["logprobs"], np.float64)[: len(texts)]
        told = [f"id {token}" for token in response]
        top = named(row["top_ids"][: len(texts)], row["top_log_probs"][: len(texts)], name)
        cut = len(response) - len(texts)
        return (
            f"<section><b>line {int(row['line'])}: log-prob {float(row['log_prob']):z.4f}, "
            f"{int(row['tokens'])} tokens, mean {float(row['mean_log_prob']):z.4f}</b>"
            f'<div class="prompt">{escape(_prompt(model, row))}</div>'
            f"{chips(texts, log_probs.tolist(), told, top)}"
            + (f"<p>and {cut:,} more tokens</p>" if cut else "")
            + "</section>"
        )


def _prompt(model: LoadedModel, row: dict[str, Any]) -> str:
    """The prompt of the response."""
    text, turns = row["prompt"], row["messages"]
    if text is None and turns is not None:
        before = turns[:-1] if turns[-1]["role"] == "assistant" else turns
        text = "\n".join(f"{turn['role']}: {turn['content']}" for turn in before)
    elif text is None:
        text = model.tokenizer.decode(row["prompt_ids"])
    return text if len(text) <= _PROMPT else f"{text[:_PROMPT]}... ({len(text):,} characters)"
