"""Responses with log-probs that vLLM, TRL, transformers or anything else wrote as JSON lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_LINE_BYTES = 256 * 2**20
MAX_ID = 2**31 - 1
_ROUNDING = 1e-2  # above 0 by no more than half precision's rounding, a log-prob is 0
_CONTEXT_NAMES = ("prompt_ids", "prompt_token_ids", "input_ids")
_RESPONSE_NAMES = ("response_ids", "completion_ids", "token_ids")
_LOG_PROB_NAMES = (
    "logprobs", "log_probs", "sampling_per_token_logps", "old_per_token_logps", "transition_scores",
)  # fmt: skip
_PROMPT_MASKS = ("prompt_mask", "attention_mask")
_RESPONSE_MASKS = ("completion_mask", "response_mask")
_COLUMNS = (
    *_CONTEXT_NAMES, *_RESPONSE_NAMES, "sequences", *_LOG_PROB_NAMES, "logprob_token_ids", *_PROMPT_MASKS,
    *_RESPONSE_MASKS,
)  # fmt: skip
_PARTS = ("choices", "outputs", "responses")  # objects, one for each response
NAMES = frozenset((*_PARTS, *_COLUMNS))  # by which a row of responses is told from one of prompts
_TOKEN_ID = re.compile(r"token_id:(\d{1,10})")


@dataclass(frozen=True)
class LoggedResponse:
    """A response as token ids, with the log-probs that its writer gave.

    Attributes:
        prompt_ids: int64 (P,), at least one.
        response_ids: int64 (L,), at least one.
        log_probs: float64 (L,), of each token of the response; None if the row has none.
        where: what errors call it: "line 3".
    """

    prompt_ids: NDArray[np.int64]
    response_ids: NDArray[np.int64]
    log_probs: NDArray[np.float64] | None = None
    where: str = ""

    @property
    def ids(self) -> NDArray[np.int64]:
        """Prompt and response, int64 (P + L,)."""
        return np.concatenate([self.prompt_ids, self.response_ids])


def read_log_probs(path: str | Path, *, needed: bool = True) -> list[LoggedResponse]:
    """Read responses with log-probs from a file of JSON lines.

    A line is an object with token ids and a log-prob (natural logarithm) for each token of the response, or
    of prompt and response: `{"prompt_ids": [5, 9], "response_ids": [7, 2], "logprobs": [-0.5, -1.25]}`.
    Taken as they are written:

    - vLLM: a response of its server (`choices` with `token_ids`, `prompt_token_ids` and `logprobs`, asked for
      with `return_token_ids`; tokens may be `"token_id:7"`), or a `RequestOutput` with `outputs`. Without
      log-probs of a response, `prompt_logprobs` from the prompt's second token on.
    - TRL: `prompt_ids`, `completion_ids` and `logprobs`, `sampling_per_token_logps` or
      `old_per_token_logps`, for one response or, as its server writes them, lists of many; with
      `prompt_mask` and `completion_mask` where rows are padded.
    - transformers: `sequences` and the `transition_scores` that `compute_transition_scores(...,
      normalize_logits=True)` gave; with `completion_mask` where a response is padded.
    - lite: what `lite generate` and `lite score` print with `--json` or write with `--output`.

    Other fields are ignored, and so are empty lines and responses without a token.

    Args:
        path: the file.
        needed: raise for a response without log-probs; otherwise its `log_probs` are None.

    Returns:
        The responses in the order of the file; several for a line that holds several.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line has no known form, or its numbers are not log-probs; line and field are named.

    Example:
        >>> import json, pathlib, tempfile
        >>> from lite.models import read_log_probs
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "log.jsonl")
        ...     line = {"prompt_ids": [5, 9], "completion_ids": [7, 2], "logprobs": [-0.5, -1.25]}
        ...     _ = file.write_text(json.dumps(line))
        ...     (row,) = read_log_probs(file)
        >>> row.ids, row.log_probs
        (array([5, 9, 7, 2]), array([-0.5 , -1.25]))
    """
    out: list[LoggedResponse] = []
    for number, line in _lines(Path(path)):
        where = f"line {number}"
        try:
            read = [_response(fields, where, needed) for fields in _flat(_parsed(line))]
        except ValueError as error:
            raise ValueError(f"{path}, {where}: {error}") from None
        out += [response for response in read if len(response.response_ids)]
    if not out:
        raise ValueError(f"{path} has no response in it")
    return out


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    with open(path, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise ValueError(f"{path}, line {number}: longer than {MAX_LINE_BYTES} bytes")
            line = line.removeprefix(b"\xef\xbb\xbf")  # of files put together, too
            if line.strip():
                yield number, line


def _parsed(line: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _flat(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One mapping for each response of a record."""
    for name in _PARTS:
        parts = record.get(name)
        if isinstance(parts, list):
            if not parts or not all(isinstance(part, dict) for part in parts):
                raise ValueError(f"{name!r} must be a list of objects, at least one")
            shared = {key: value for key, value in record.items() if key != name}
            for part in parts:
                # A choice says of the prompt only what differs from the whole response.
                yield {**shared, **{key: value for key, value in part.items() if value is not None}}
            return
    answers = next((name for name in (*_RESPONSE_NAMES, "sequences") if _nested(record.get(name))), None)
    if answers is None:
        yield dict(record)
        return
    count = len(record[answers])
    columns = {name: record[name] for name in _COLUMNS if isinstance(record.get(name), list)}
    for name, column in columns.items():
        if not column or count % len(column):
            raise ValueError(f"{name!r} has {len(column)} entries for {count} responses in {answers!r}")
    for i in range(count):
        yield {name: column[i * len(column) // count] for name, column in columns.items()}


def _nested(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _response(fields: Mapping[str, Any], where: str, needed: bool) -> LoggedResponse:
    prompt, response, masked = _ids(fields)
    name, values = _log_probs(fields, response)
    if values is None and isinstance(fields.get("prompt_logprobs"), list) and prompt is not None:
        name, response, masked = "prompt_logprobs", prompt[1:], None
        values = _of_prompt(fields["prompt_logprobs"], prompt)
        prompt = prompt[:1]
    if values is not None and len(values) == len(prompt or ()) + len(response or ()) and len(prompt or ()):
        # of prompt and response, as servers that echo the prompt give them
        values = values[len(prompt or ()) :]
    if response is None or prompt is None:
        raise ValueError(
            "no token ids: expected 'prompt_ids' and 'response_ids' (or vLLM's 'prompt_token_ids' and "
            "'token_ids', TRL's 'completion_ids', transformers' 'sequences')"
        )
    if values is not None and len(values) != len(response):
        raise ValueError(f"{name!r} has {len(values)} entries for {len(response)} tokens of the response")
    if masked is not None:
        response = [token for token, keep in zip(response, masked, strict=True) if keep]
        if values is not None:
            values = [value for value, keep in zip(values, masked, strict=True) if keep]
    if not prompt:
        raise ValueError("the prompt has no token")
    if values is None and needed:
        raise ValueError(f"no log-probs: expected one of {', '.join(_LOG_PROB_NAMES)}")
    checked = None if values is None else np.array([_log_prob(v, name, i) for i, v in enumerate(values)])
    return LoggedResponse(np.array(prompt, np.int64), np.array(response, np.int64), checked, where)


def _ids(fields: Mapping[str, Any]) -> tuple[list[int] | None, list[int] | None, Sequence[int] | None]:
    """Ids of the prompt without padding, ids of the response, and the mask of the response's real ids."""
    prompt_name, prompt = _first(fields, _CONTEXT_NAMES)
    response_name, response = _first(fields, _RESPONSE_NAMES)
    prompt = None if prompt is None else _integers(prompt, prompt_name)
    response = None if response is None else _integers(response, response_name)
    if response is None:
        response = _ids_of_tokens(fields.get("logprobs"))
    if response is None and fields.get("sequences") is not None:
        whole = _integers(fields["sequences"], "sequences")
        _, scores = _first(fields, _LOG_PROB_NAMES)
        start = len(whole) - len(scores) if isinstance(scores, list) else len(prompt or ())
        if start < 0:
            raise ValueError(f"'sequences' has {len(whole)} tokens and {len(scores)} log-probs")
        prompt, response = whole[:start], whole[start:]
    mask_name, mask = _first(fields, _PROMPT_MASKS)
    if mask is not None and prompt is not None:
        kept = _integers(mask, mask_name)
        if len(kept) < len(prompt):
            raise ValueError(f"{mask_name!r} has {len(kept)} entries for {len(prompt)} tokens of the prompt")
        prompt = [token for token, keep in zip(prompt, kept, strict=False) if keep]
    mask_name, mask = _first(fields, _RESPONSE_MASKS)
    if mask is None or response is None:
        return prompt, response, None
    kept = _integers(mask, mask_name)
    if len(kept) != len(response):
        raise ValueError(f"{mask_name!r} has {len(kept)} entries for {len(response)} tokens of the response")
    return prompt, response, kept


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> tuple[str, Any]:
    return next(((name, fields[name]) for name in names if fields.get(name) is not None), (names[0], None))


def _integers(value: Any, name: str) -> list[int]:
    if not isinstance(value, list):
        raise ValueError(f"{name!r} must be a list of integers, got {type(value).__name__}")
    for i, item in enumerate(value):
        if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item <= MAX_ID:
            raise ValueError(f"{name!r} must hold integers from 0 to {MAX_ID}, entry {i} is {_short(item)}")
    return value


def _ids_of_tokens(log_probs: Any) -> list[int] | None:
    """Ids that stand in the tokens' texts, as vLLM's `return_tokens_as_token_ids` writes them."""
    if not isinstance(log_probs, dict):
        return None
    tokens = log_probs.get("tokens")
    if isinstance(log_probs.get("content"), list):
        tokens = [item.get("token") if isinstance(item, dict) else None for item in log_probs["content"]]
    if not isinstance(tokens, list):
        return None
    found = [_TOKEN_ID.fullmatch(token) if isinstance(token, str) else None for token in tokens]
    if not all(found):
        return None
    return _integers([int(match.group(1)) for match in found if match], "tokens")


def _log_probs(fields: Mapping[str, Any], ids: list[int] | None) -> tuple[str, list[Any] | None]:
    """The field that holds log-probs of the response, and one value of JSON for each token."""
    name, value = _first(fields, _LOG_PROB_NAMES)
    if isinstance(value, dict):  # as OpenAI's API writes them, of completions or of chats
        if isinstance(value.get("content"), list):
            return name, [
                item.get("logprob") if isinstance(item, dict) else None for item in value["content"]
            ]
        value = value.get("token_logprobs")
    if value is None:
        return name, None
    if not isinstance(value, list):
        raise ValueError(f"{name!r} must be a list of numbers, got {type(value).__name__}")
    if any(isinstance(item, list | dict) for item in value):
        return name, _of_alternatives(name, value, ids, fields.get("logprob_token_ids"))
    return name, value


def _of_alternatives(name: str, value: list[Any], ids: list[int] | None, named: Any) -> list[Any]:
    """The token's own entry where each position has several: by id in objects, beside ids in lists."""
    if ids is None or len(value) != len(ids):
        raise ValueError(f"{name!r} has {len(value)} entries for {len(ids or ())} tokens of the response")
    out: list[Any] = []
    for i, (item, token) in enumerate(zip(value, ids, strict=True)):
        if isinstance(item, dict):
            out.append(_number(item.get(str(token))))
        elif isinstance(item, list) and len(item) == 1:
            out.append(item[0])
        elif isinstance(item, list) and isinstance(named, list) and len(named) == len(value):
            own = dict(zip(map(str, named[i]), item, strict=False)) if isinstance(named[i], list) else {}
            out.append(own.get(str(token)))
        else:
            out.append(None if isinstance(item, list) else item)
    return out


def _of_prompt(value: list[Any], ids: list[int]) -> list[Any]:
    """vLLM's `prompt_logprobs`: None, then an object of alternatives by id for each token."""
    if len(value) != len(ids):
        raise ValueError(f"'prompt_logprobs' has {len(value)} entries for {len(ids)} tokens of the prompt")
    return _of_alternatives("prompt_logprobs", value[1:], ids[1:], None)


def _number(value: Any) -> Any:
    return value.get("logprob") if isinstance(value, dict) else value


def _log_prob(value: Any, name: str, at: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name!r} must hold a number for each token, entry {at} is {_short(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name!r} must be finite, entry {at} is {number}")
    if number > _ROUNDING:
        raise ValueError(
            f"{name!r} has {number:g} at entry {at}: log-probs are at most 0 "
            "(compute_transition_scores gives them with normalize_logits=True)"
        )
    return min(number, 0.0)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
