"""`ScoreBatches`: log-probs of given responses, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.data.tables.columns import Columns, passed_on, ragged, read_rows, record_of
from lite.kernels._integer import integer
from lite.models.batches.opening import OpenModel
from lite.models.batches.rows import check_keep, cut_prompt, is_answered, is_messages, row_of
from lite.models.decoder.protocol import checked_given
from lite.models.decoder.scoring import score, score_with_alternatives

_READ = ("prompt_ids", "response_ids", "messages", "tools", "prompt", "response", "text")
_FORMS = (
    "'prompt_ids' and 'response_ids', 'messages' with an assistant's turn last or with 'response', "
    "'prompt' and 'response', or 'text'"
)


class ScoreBatches:
    """Scores responses: a callable for `ray.data.Dataset.map_batches`, and for anything else with batches.

    A batch is a dict of columns (arrays or lists, also read-only) or a table of pandas or pyarrow. A row has
    one of these, the first that is there:

    - "prompt_ids" and "response_ids": lists of integers;
    - "messages": a conversation, with the response as its last turn or as the text "response"; "tools" are
      put into the template;
    - "prompt" and "response": texts;
    - "text": scored from its second token on.

    Prompts and responses are put into the model's chat template. The end of the turn is scored as well. The
    whole text is encoded at once, and the response's tokens are taken from it. Up to rounding, results do not
    depend on other rows. The result has the batch's columns and



    - "logprobs", the log-prob of each token of the response under the raw model distribution; their sum
      "log_prob" and "mean_log_prob", float64; their number "tokens", int64;
    - with `token_ids`, "prompt_ids" and "response_ids": lists of the ids that were scored;
    - with `logprobs`, "top_ids" and "top_log_probs" of the most probable tokens at each place.

    Args:
        model: folder of an exported model or its ``.onnx`` file, opened by each process; or a `Decoder`.
        tokenizer: a tokenizer or the folder of one, by default the model's.
        raw: take prompts as they are, without a chat template.
        temperature: divides the logits.
        logprobs: how many of the most probable tokens to return at each place.
        token_ids: return the token ids too, as `lite mismatch` reads them.
        max_rows: the largest number of rows in one run of the model. The batch may be larger.
        id_key: the column of ids, for errors and `done`.
        done: ids of rows to leave out.
        truncate_prompt_tokens: keep only this number of tokens at the end of a prompt, as vLLM does; -1 keeps
            as many as fit into the model's context beside the response.
        prefix: the start of the names of the new columns, for scores by several models.
        threads: threads that run the model; by default `num_cpus` of Ray's actor, else as `OnnxDecoder`.
        device, variant: see `OnnxDecoder`.
        adapter: file or folder of a LoRA adapter to run the model with.

    Raises:
        ValueError: a wrong argument, see `OnnxDecoder`; in a call, a row that cannot be scored.
        TypeError: an argument of a wrong type, see `OnnxDecoder`.

    Example:
        >>> import numpy as np
        >>> from lite.models import ScoreBatches, embedded_model_path
        >>> judge = ScoreBatches(embedded_model_path())
        >>> batch = {"id": np.arange(2), "prompt": np.array(["What is 12 + 30?"] * 2, object)}
        >>> out = judge({**batch, "response": ["42", "41"]})
        >>> out["id"], out["tokens"], bool(out["log_prob"][0] > out["log_prob"][1])
        (array([0, 1]), array([3, 3]), True)
    """

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        raw: bool = False,
        temperature: float = 1.0,
        logprobs: int = 0,
        token_ids: bool = False,
        max_rows: int = 8,
        id_key: str = "id",
        done: Collection[int | str] = (),
        truncate_prompt_tokens: int | None = None,
        prefix: str = "",
        threads: int | None = None,
        device: str = "cpu",
        variant: str | None = None,
        adapter: str | Path | None = None,
    ) -> None:
        integer("max_rows", max_rows, least=1)
        integer("logprobs", logprobs, least=0)
        self.logprobs = logprobs
        self.token_ids = token_ids
        self.raw = raw
        self.temperature = temperature
        self.max_rows = max_rows
        self.id_key = id_key
        self.done = frozenset(done)
        self.truncate_prompt_tokens = check_keep(truncate_prompt_tokens)
        self.prefix = prefix
        self.model = OpenModel(
            model, tokenizer=tokenizer, threads=threads, device=device, variant=variant, adapter=adapter
        )

    def __call__(self, batch: Mapping[str, Any]) -> Columns:
        """Score the rows of a batch; see the class."""
        left, _, rows = read_rows(batch, self.id_key, self.done, self._row)
        scores = self._scores(rows)
        log_probs = [row[0] for row in scores]
        sums = np.array([row.sum(dtype=np.float64) for row in log_probs], np.float64)
        counts = np.array([len(row) for row in log_probs], np.int64)
        found = {
            "logprobs": ragged(log_probs),
            "log_prob": sums,
            "mean_log_prob": sums / np.maximum(counts, 1),
            "tokens": counts,
        }
        if self.logprobs:
            found |= {"top_ids": ragged([row[1] for row in scores])}
            found |= {"top_log_probs": ragged([row[2] for row in scores])}
        out = passed_on(left)
        if self.token_ids:
            out["prompt_ids"] = ragged([ids[:start] for ids, start in rows])
            out["response_ids"] = ragged([ids[start:] for ids, start in rows])
        return out | {f"{self.prefix}{name}": column for name, column in found.items()}

    def _row(self, batch: Mapping[str, Any], i: int) -> tuple[NDArray[np.int64], int]:
        """The ids of prompt and response, int64, and the length of the prompt."""
        record = record_of(batch, i, _READ)
        if "prompt_ids" not in record or "response_ids" not in record:
            if "messages" in record:
                if not is_messages(record["messages"]):
                    raise ValueError("messages must be turns (role and content each)")
            elif not (is_answered(record) or isinstance(record.get("text"), str)):
                raise ValueError(f"a row needs {_FORMS}; got {sorted(record) or 'none of them'}")
        row, start = row_of(self.model, record, self.raw)
        context = self.model.decoder.context_length
        room = None if context is None else context + 1  # the model does not read the last token of a row
        row, start = cut_prompt(row, start, self.truncate_prompt_tokens, room)
        return checked_given(self.model.decoder, row), start

    def _scores(self, rows: list[tuple[NDArray[np.int64], int]]) -> list[tuple[NDArray[Any], ...]]:
        """(log-probs,) or (log-probs, top ids, top log-probs) of each response.

        Rows of similar lengths are scored together, so that little of a run is padding.
        """
        out: list[Any] = [None] * len(rows)
        decoder, temperature = self.model.decoder, self.temperature
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]))
        for at in range(0, len(order), self.max_rows):
            group = order[at : at + self.max_rows]
            ids = [rows[i][0] for i in group]
            found: list[tuple[NDArray[Any], ...]] = (
                [*score_with_alternatives(decoder, ids, self.logprobs, temperature=temperature)]
                if self.logprobs
                else [(row,) for row in score(decoder, ids, temperature=temperature)]
            )
            for i, columns in zip(group, found, strict=True):
                out[i] = tuple(column[rows[i][1] :] for column in columns)
        return out
