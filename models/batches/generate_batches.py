"""`GenerateBatches`: responses to prompts, a batch of rows at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.data import row_seeds
from lite.data.tables.columns import Columns, id_row, passed_on, ragged, read_rows, record_of, taken
from lite.kernels._integer import integer
from lite.models.batches.opening import OpenModel
from lite.models.batches.rows import check_keep, encoded_prompt, is_messages, prompt_for
from lite.models.generation.loop import Generated, generate
from lite.models.generation.options import GenerationConfig

_READ = ("prompt_ids", "messages", "tools", "prompt")


class GenerateBatches:
    """Generates responses: a callable for `ray.data.Dataset.map_batches`, and for anything else with batches.

    A batch is a dict of columns, arrays or lists, which may be read-only, or a table of pandas or pyarrow.
    The prompt of a row is its "prompt_ids" (a list of integers), else "messages" (a conversation, of which
    "tools" are told), else the text "prompt", whichever is not None; texts become a turn of the model's
    chat template. The result has `num_samples` rows for each row, with the batch's columns and

    - "sample" (number of the response, int64), "response" (text without special tokens), "finish_reason"
      ("eos", "stop" or "length"), "prompt_ids" and "response_ids" (lists of ids);
    - "logprobs", the log-prob of each token under the raw model distribution; their sum "log_prob", float64,
      and number "tokens", int64;
    - if the options ask for them, "score" of a search, and of each token "sampled_log_probs",
      "kept_log_mass", "kept_ids", "kept_offsets", "entropy", "top_ids", "top_log_probs".

    A response depends on prompt, options, seed and the row's id, not on the batch or the number of actors.

    Args:
        model: folder of an exported model or its ``.onnx`` file, opened by each process; or a `Decoder`.
        generate_kwargs: options of generation, see `GenerationConfig.from_kwargs`.
        num_samples, seed: responses per row; seed of the run.
        id_key: the column of the rows' ids, unique integers or texts; needed where tokens are drawn.
        tokenizer: a tokenizer or the folder of one, by default the model's.
        system, raw: a system message before each prompt; take prompts as they are, without a template.
        max_rows, done: most responses that are written at a time; ids of rows to leave out.
        truncate_prompt_tokens: leave out all but the last so many tokens of a prompt, as vLLM does; -1: all
            but those for which the model's context has room beside the new tokens.
        assistant_model: a smaller model that guesses tokens, a path or a `Decoder`.
        threads: to run the model with; default: `num_cpus` of Ray's actor, or else as `OnnxDecoder`.
        device, variant: see `OnnxDecoder`.
        adapter: file or folder of a LoRA adapter to run the model with.

    Raises:
        ValueError, TypeError: an argument, see `OnnxDecoder`; in a call, a row without a prompt or needed id.

    Example:
        >>> import numpy as np
        >>> from lite.models import GenerateBatches, embedded_model_path
        >>> write = GenerateBatches(embedded_model_path(), generate_kwargs={"max_new_tokens": 8})
        >>> out = write({"id": np.arange(2), "prompt": ["What is 12 + 30?", "What is 2 + 2?"]})
        >>> out["id"], out["response"].tolist(), out["tokens"]
        (array([0, 1]), ['42', '4'], array([3, 2]))
    """

    def __init__(
        self,
        model: Any,
        *,
        generate_kwargs: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        seed: int = 0,
        id_key: str = "id",
        tokenizer: Any = None,
        system: str | None = None,
        raw: bool = False,
        max_rows: int = 8,
        done: Collection[int | str] = (),
        truncate_prompt_tokens: int | None = None,
        assistant_model: Any = None,
        threads: int | None = None,
        device: str = "cpu",
        variant: str | None = None,
        adapter: str | Path | None = None,
    ) -> None:
        for name, count in (("num_samples", num_samples), ("max_rows", max_rows)):
            integer(name, count, least=1)
        self.num_samples = num_samples
        self.seed = integer("seed", seed)
        self.id_key = id_key
        self.system = system
        self.raw = raw
        self.max_rows = max_rows
        self.done = frozenset(done)
        self.truncate_prompt_tokens = check_keep(truncate_prompt_tokens)
        self.model = OpenModel(
            model, tokenizer=tokenizer, threads=threads, device=device, variant=variant, adapter=adapter
        )
        self.assistant = (
            None
            if assistant_model is None
            else OpenModel(assistant_model, threads=threads, device=device).decoder
        )
        given = dict(generate_kwargs or {})
        if num_samples > 1:
            given.setdefault("num_return_sequences", num_samples)  # asks for sampling
        self.config = self._config(given)

    def _config(self, given: Mapping[str, Any]) -> GenerationConfig:
        decoder = self.model.decoder
        base = GenerationConfig.from_kwargs(None, decoder.config)
        end = self.model.tokenizer.eos_token_id if self.model.has_tokenizer else None
        if not base.eos_token_ids and end is not None:
            base = dataclasses.replace(base, eos_token_ids=(end,))
        config = GenerationConfig.from_kwargs(given, base)
        if config.num_return_sequences not in (1, self.num_samples):
            raise ValueError(
                f"num_samples differs from generate_kwargs['n']. Got {self.num_samples} and"
                f" {config.num_return_sequences}"
            )
        if config.grammar is not None:
            config = dataclasses.replace(config, grammar=config.grammar.bound(self.model.tokenizer))
        config.check(decoder.vocab_size)
        return config

    def __call__(self, batch: Mapping[str, Any]) -> Columns:
        """Respond to the rows of a batch; see the class."""
        left, ids, prompts = read_rows(batch, self.id_key, self.done, self._prompt)
        count = len(prompts)
        responses = generate(
            self.model.decoder,
            prompts,
            self.config,
            seeds=self._seeds(ids, count),
            num_samples=self.num_samples,
            decode_text=self.model.tokenizer.decode if self.model.has_tokenizer else None,
            max_rows=self.max_rows,
            assistant_model=self.assistant,
        )
        repeated = taken(passed_on(left), np.repeat(np.arange(count), self.num_samples))
        return repeated | self._columns([p for p in prompts for _ in range(self.num_samples)], responses)

    def _prompt(self, batch: Mapping[str, Any], i: int) -> NDArray[np.int64]:
        record = record_of(batch, i, _READ)
        if "prompt_ids" in record:
            ids = id_row(record["prompt_ids"])
        elif "messages" in record or isinstance(record.get("prompt"), str):
            prompt: Any = record.get("prompt")
            tools = None
            if "messages" in record:
                prompt, tools = record["messages"], record.get("tools")
                if not is_messages(prompt):
                    raise ValueError("messages must be turns with role and content")
            tokenizer = self.model.tokenizer
            ids = encoded_prompt(tokenizer, prompt, raw=self.raw, system=self.system, tools=tools).ids
        else:
            raise ValueError("a row needs 'prompt_ids', 'messages' or the text 'prompt'")
        return prompt_for(self.model.decoder, ids, self.truncate_prompt_tokens, self.config.max_new_tokens)

    def _seeds(self, ids: list[Any] | None, count: int) -> NDArray[np.uint64] | None:
        if self.config.greedy or self.config.num_beams > 1:
            return None  # nothing is drawn
        if ids is None and count:
            raise ValueError(
                f"draws of a row follow from its id: the batch has no column {self.id_key!r} (see id_key)"
            )
        return row_seeds(self.seed, ids or [], self.num_samples).reshape(-1)

    def _columns(self, prompts: list[NDArray[np.int64]], responses: list[Generated]) -> Columns:
        found: Columns = {
            "sample": np.arange(len(responses), dtype=np.int64) % self.num_samples,
            "prompt_ids": ragged(prompts),
            "response_ids": ragged([one.tokens for one in responses]),
            "logprobs": ragged([one.log_probs for one in responses]),
            "log_prob": np.array([one.log_probs.sum(dtype=np.float64) for one in responses], np.float64),
            "tokens": np.array([len(one.tokens) for one in responses], np.int64),
            "finish_reason": np.array([one.finish_reason for one in responses], object),
        }
        if self.model.has_tokenizer:
            decode = self.model.tokenizer.decode
            texts = [decode(one.tokens, skip_special_tokens=True) for one in responses]
            found["response"] = np.array(texts, object)
        if self.config.num_beams > 1:
            found["score"] = np.array([one.score for one in responses], np.float64)
        details = [one.details for one in responses if one.details is not None]
        for field in dataclasses.fields(details[0]) if details else ():
            values = [getattr(one, field.name) for one in details]
            if all(value is not None for value in values):
                found[field.name] = ragged(values)
        return found
