"""`OnnxWrapper`: a language model exported to ONNX as a module on TensorDicts.

Past 600 lines because it is one public class, a third of which describes its arguments.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite.models.decoder.adapters import AdapterSource, projection_of
from lite.models.decoder.cache import MAX_TOKENS
from lite.models.decoder.choices import ChoiceScores
from lite.models.generation.batching import BatchSizes
from lite.models.generation.calls import ModelCalls
from lite.models.generation.loop import Generated
from lite.models.generation.options import GenerationConfig
from lite.models.text.data import LogProbs, Masks, Sampling, Tokens
from lite.models.text.nesting import nest
from lite.models.text.rows import TokenRows
from lite.models.text.tokenizer import encode_inside
from lite.models.wrapper.collected import input_of, truncated_responses
from lite.models.wrapper.distributions import DistributionMethods
from lite.models.wrapper.entries import as_tensordict, is_entry
from lite.models.wrapper.input import InputReader
from lite.models.wrapper.loading import check_adapter, load_model, load_tokenizer
from lite.models.wrapper.options import (
    OPTIONS,
    SAMPLES_NAMES,
    SCORE_OPTIONS,
    Inplace,
    InputMode,
    WrapperOptions,
)
from lite.models.wrapper.output import Layout, assistant_turn, choose_target, sampling_fields, write
from lite.models.wrapper.row_options import given_seeds, options_of_rows
from lite.models.wrapper.sampled import per_row, read_sampled, rows_with_tokens, scored_entries
from lite.models.wrapper.versions import new_arguments
from lite.nn.settings import dispatching

if TYPE_CHECKING:
    from lite.models.wrapper.trainable import TrainablePolicy

_MAPPINGS = ("generate_kwargs", "tokenizer_kwargs", "chat_template_kwargs", "score_kwargs", "adapters")


class OnnxWrapper(DistributionMethods):
    """A causal language model exported to ONNX, on TensorDicts of conversations, texts or token ids.

    It writes responses to prompts or, with ``generate=False``, the log-prob of every token: `Text` (not in
    tokens mode), `Masks`, `Tokens`, `LogProbs`, in history mode `ChatHistory`. Log-probs are of the raw model
    distribution, 0 on padding and on the first token of a row, and do not depend on other rows. Threads may
    share a wrapper. Unpickled, it opens the model again, and has the stream of its ``seed``, or a new one.

    Args:
        model: folder of an export, its ``.onnx`` file, or a `Decoder`.
        tokenizer: a `Tokenizer` or its folder; None: that of the model's folder.
        input_mode: "history" (a `History`), "text" (strings) or "tokens" (ids).
        input_key: default ``(input_mode, "prompt")``, or ``(input_mode, "full")`` with ``generate=False``.
        attention_mask_key: the mask of tokens, if none fits at ``(masks_key, "all_attention_mask")``.
        generate: False to score instead.
        generate_kwargs: options of generation, see `GenerationConfig`.
        tokenizer_kwargs: for the tokenizer, in text mode.
        pad_output, pad_model_input: pad prompts on the left and responses on the right, or write lazy stacks;
            if False, only rows of equal length share a run of scoring.
        inplace: False and "empty" give a new TensorDict; default: True, or False with several samples.
        device, num_threads, variant, adapters, runtime: see `OnnxDecoder`.
        num_samples: responses per prompt.
        chat_template, chat_template_name: its source; the name of a built-in one.
        chat_template_kwargs: its variables, such as ``tools``.
        return_log_probs: write log-probs of responses.
        zero_first_log_prob: write 0 for the first of them, as TorchRL does.
        history_key, text_key, tokens_key, masks_key, log_probs_key, sampling_key: keys of results.
        prefer_tokens: in history mode, generate from the ids at `tokens_key` where there are any.
        score_kwargs: score after "temperature", and with "kept_ids" among the ids at `sampling_key`.
        batching: rows of several threads share runs.
        min_batch_size, max_batch_size: how many rows a run has then; 1 or more by default.
        batching_timeout: seconds after which fewer rows are run.
        seed: seed of the random stream, which moves on with every call.
        sessions: how many runs may take place at once, with shared weights and divided threads.
        layout: without effect.
        adapter: name of the adapter to run with, None for the model as it is, whatever the decoder's.
        max_rows, assistant_model: as for `generate`.
        prefix_cache: bytes of a cache of beginnings, for growing chats.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: arguments contradict each other.
        RuntimeError: there is no usable GPU.

    Example:
        >>> from lite import TensorDict
        >>> from lite.models import ChatHistory, History, OnnxWrapper, embedded_model_path
        >>> chats = History.from_chats([[{"role": "user", "content": "What is 12 + 30?"}]])
        >>> td = TensorDict(history=ChatHistory(prompt=chats, batch_size=[1]), batch_size=[1])
        >>> OnnxWrapper(embedded_model_path())(td)["text", "response"]
        ['42<|im_end|>']
    """

    def __init__(
        self,
        model: Any,
        *,
        tokenizer: Any = None,
        input_mode: InputMode = "history",
        input_key: NestedKey | None = None,
        attention_mask_key: NestedKey = "attention_mask",
        generate: bool = True,
        generate_kwargs: Mapping[str, Any] | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        pad_output: bool = False,
        pad_model_input: bool | None = None,
        inplace: Inplace | None = None,
        device: str | None = None,
        layout: Any = None,
        num_samples: int | None = None,
        chat_template_name: str | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        return_log_probs: bool | None = None,
        zero_first_log_prob: bool = False,
        history_key: NestedKey = "history",
        text_key: NestedKey = "text",
        tokens_key: NestedKey = "tokens",
        masks_key: NestedKey = "masks",
        log_probs_key: NestedKey = "log_probs",
        sampling_key: NestedKey = "sampling",
        batching: bool | None = None,
        min_batch_size: int | None = None,
        max_batch_size: int | None = None,
        batching_timeout: float = 10.0,
        prefer_tokens: bool = False,
        score_kwargs: Mapping[str, Any] | None = None,
        seed: int | np.random.Generator | None = None,
        num_threads: int | None = None,
        sessions: int = 1,
        variant: str | None = None,
        adapters: Mapping[str, AdapterSource] | None = None,
        adapter: str | None = None,
        runtime: str | None = None,
        max_rows: int | None = None,
        prefix_cache: int | None = None,
        assistant_model: Any = None,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        for name in _MAPPINGS:
            if not isinstance(arguments[name], Mapping | None):
                raise TypeError(f"{name} must be a mapping, got {arguments[name]!r}")
        super().__init__()
        self._arguments = arguments
        self._batch_sizes = BatchSizes.from_arguments(batching, min_batch_size, max_batch_size)
        own = {name: value for name, value in arguments.items() if name in OPTIONS}
        copied = {name: dict(arguments[name] or {}) for name in ("tokenizer_kwargs", "chat_template_kwargs")}
        options = WrapperOptions(**{**own, **copied})
        given = dict(generate_kwargs or {})
        self._call_seed = given.pop("seed", None)
        options = options.with_samples(given)
        self.options = options
        self.layout = layout
        self.model = load_model(
            model,
            device,
            sessions=sessions,
            num_threads=num_threads,
            variant=variant,
            adapters=adapters,
            runtime=runtime,
        )
        check_adapter(self.model, adapter)
        self.assistant_model = assistant_model
        if assistant_model is not None:
            with_it = None if hasattr(assistant_model, "prefill") else runtime
            self.assistant_model = load_model(
                assistant_model, device, runtime=with_it, name="assistant_model"
            )
        self.tokenizer = load_tokenizer(tokenizer, model, input_mode)
        self.generation = self._generation_config(given)
        self.pad_token_id = self._choose_pad_id(given)
        eos = getattr(self.tokenizer, "eos_token_id", None)
        ends = frozenset(self.generation.eos_token_ids) | (set() if eos is None else {eos})
        self._read = InputReader(options, self.tokenizer, self.pad_token_id, ends)
        self._calls = self._new_calls()
        if seed is not None:
            self._rng = generator_of(seed)
        self.in_keys = [options.key]
        self.out_keys = options.out_keys
        if options.generate and self.generation.tells_more:
            self.out_keys.append(options.sampling_key)

    @functools.cached_property
    def _rng(self) -> np.random.Generator:
        """The stream of draws; without a seed made by the first draw, as NumPy imports generators in 8 ms."""
        return generator_of(None)

    def _new_calls(self) -> ModelCalls:
        return ModelCalls(
            self.model,
            num_samples=self.options.num_samples or 1,
            decode_text=None if self.tokenizer is None else self.tokenizer.decode,
            equal_lengths=self.options.pad_model_input is False,
            sizes=self._batch_sizes,
            timeout=self._arguments["batching_timeout"],
            sessions=self._arguments["sessions"],
            adapter=self._arguments["adapter"],
            max_rows=self._arguments["max_rows"],
            prefix_cache=self._arguments["prefix_cache"],
            assistant_model=self.assistant_model,
        )

    # -- copies and pickles ----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        left_out = ["_calls", "_collector"]  # of this process: locks, and who calls it
        if self._arguments["seed"] is None:
            left_out.append("_rng")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._calls = self._new_calls()

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxWrapper:
        memo |= {id(model): model for model in (self.model, self.assistant_model)}
        copied = memo[id(self)] = object.__new__(type(self))
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return copied

    def get_extra_state(self) -> NDArray[np.uint8]:
        """The state of the stream of draws, if it has a seed: bytes, as of torch's generators.

        It is all that changes in a wrapper: the weights are those of the graph.
        """
        seeded = self._arguments["seed"] is not None
        state = {"rng": self._rng.bit_generator.state if seeded else None}
        return np.frombuffer(json.dumps(state, default=np.ndarray.tolist).encode(), np.uint8)

    def set_extra_state(self, state: Any) -> None:
        """Draw on from there.

        Raises:
            ValueError: it is not a state of a wrapper.
        """
        try:
            rng = json.loads(np.asarray(state, np.uint8).tobytes())["rng"]
            if rng is not None:
                self._rng.bit_generator.state = rng
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no state of an OnnxWrapper with such a generator: {error}") from error

    # -- what the constructor settles ----------------------------------------------------------

    @property
    def batching(self) -> bool:
        """Whether rows of several threads are run together."""
        return self._calls.batcher is not None

    def get_batching_state(self) -> dict[str, Any]:
        """Sizes, timeout, and how many rows wait or run at this moment; see `Batcher.state`."""
        batcher = self._calls.batcher
        return {"batching_enabled": batcher is not None, **(batcher.state() if batcher else {})}

    def cleanup_batching(self, *, flush: bool = False) -> None:
        """Empty the queue: its callers raise CancelledError, or with ``flush`` get results now."""
        if self._calls.batcher is not None:
            self._calls.batcher.cleanup(flush=flush)

    def get_prefix_cache_state(self) -> dict[str, int]:
        """Hits, misses, tokens_reused, rows and nbytes of the prefix cache; empty if there is none."""
        return self._calls.prefix_cache_state()

    def clear_prefix_cache(self) -> None:
        """Clear the cache of earlier calls."""
        self._calls.clear_prefix_cache()

    def get_new_version(self, **changes: Any) -> OnnxWrapper:
        """A wrapper of the same model and tokenizer, made with other constructor arguments.

        All arguments are carried as they were given; what follows from them (`in_keys`, say) is settled
        again. When ``generate`` changes, arguments that make no sense any more fall back to their defaults.

        Raises:
            TypeError: an argument is unknown.

        Example:
            >>> from lite.models import OnnxWrapper, embedded_model_path
            >>> policy = OnnxWrapper(embedded_model_path(), num_samples=4, pad_output=True)
            >>> judge = policy.get_new_version(generate=False)
            >>> judge.in_keys, judge.pad_output, judge.model is policy.model
            ([('history', 'full')], True, True)
        """
        arguments = new_arguments(
            self._arguments,
            changes,
            model=self.model,
            tokenizer=self.tokenizer,
            assistant_model=self.assistant_model,
        )
        return type(self)(**arguments)

    def _generation_config(self, given: Mapping[str, Any]) -> GenerationConfig:
        base = GenerationConfig.from_kwargs(None, self.model.config)
        own_eos = getattr(self.tokenizer, "eos_token_id", None)
        if not base.eos_token_ids and own_eos is not None:
            base = replace(base, eos_token_ids=(own_eos,))
        own = {name: value for name, value in given.items() if name not in SAMPLES_NAMES}
        count = {SAMPLES_NAMES[0]: self.options.num_samples}  # asks for sampling if there are several
        return self._settled(GenerationConfig.from_kwargs({**own, **count}, base))

    def _settled(self, config: GenerationConfig) -> GenerationConfig:
        """Options with the tokenizer where they need one, checked against the model's vocabulary."""
        if self.tokenizer is None and (config.stop_sequences or config.grammar is not None):
            raise ValueError(
                f"{'stop_sequences need' if config.stop_sequences else 'grammar needs'} a tokenizer"
            )
        config.check(self.model.vocab_size)
        if config.grammar is not None:
            config = replace(config, grammar=config.grammar.bound(self.tokenizer))
            config.grammar.check(self.model.vocab_size, config.eos_token_ids)  # type: ignore[union-attr]
        return config

    def _choose_pad_id(self, given: Mapping[str, Any]) -> int:
        """The id that fills padding in results: the model itself never sees it."""
        candidates = (
            given.get("pad_token_id"),
            getattr(self.tokenizer, "pad_token_id", None),
            self.generation.pad_token_id,
            *self.generation.eos_token_ids[:1],
        )
        return next((int(pad) for pad in candidates if pad is not None), 0)

    # -- the call ------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call `forward` with a TensorDict, or with the entry that is read.

        As with other modules on TensorDicts (see `lite.nn.dispatch`), the entry may come in place of the
        TensorDict, or by the name of its key (``history_prompt=``); then the value under the only out_key is
        returned, or a tuple of the values in the order of `out_keys`, with logits last.

        Example:
            >>> from lite.models import OnnxWrapper, embedded_model_path
            >>> policy = OnnxWrapper(embedded_model_path(), input_mode="text")
            >>> text, masks, tokens, log_probs = policy(["one", "two"])
            >>> tokens.batch_size
            (2,)
        """
        options = self.options
        if kwargs:
            name = options.key if isinstance(options.key, str) else "_".join(options.key)
            if args and name in kwargs:
                raise RuntimeError(f"Duplicated argument in args and kwargs: '{name}' is also positional 0.")
            if name in kwargs:
                args = (kwargs.pop(name),)
        if not args or not is_entry(args[0], options.input_mode) or not dispatching():
            return super().__call__(*args, **kwargs)
        out = super().__call__(as_tensordict(args[0], options.key, options.input_mode), *args[1:], **kwargs)
        values = [value for key in (*self.out_keys, "logits") if (value := out.get(key, None)) is not None]
        return values[0] if len(values) == 1 else tuple(values)

    def forward(
        self, tensordict: Any, *, tensordict_out: Any = None, logits_only: bool = False, **kwargs: Any
    ) -> Any:
        """Run the model on a TensorDict.

        Args:
            tensordict: holds the entry to read; any batch shape.
            tensordict_out: a TensorDict to write to instead, of the result's batch size.
            logits_only: with ``generate=False``, write "logits" (row j is the distribution token j was
                drawn from, zeros for the first) instead of log-probs.
            **kwargs: options for this call, on top of those of the constructor: with ``generate=True``,
                options of generation, also ``seed`` (an integer), ``generator`` (a
                ``numpy.random.Generator``) or ``seeds`` (an integer for each response, of the result's batch
                size), and ``row_options``: a mapping of options for each row, on top of those of the call;
                with ``generate=False``, those of ``score_kwargs``.

        Returns:
            The input, ``tensordict_out`` or a new TensorDict, as ``inplace`` says.

        Raises:
            ValueError: the entry is missing or not what the mode reads, a prompt is empty or longer than
                the model's context, or options are out of range. Nothing has changed then.
            TypeError: `tensordict` is not a TensorDict, or in history mode the entry is not a `History`.
        """
        self._read.check(tensordict)
        shape = tuple(tensordict.batch_size)
        if self.options.num_samples is not None:
            shape = (*shape, self.options.num_samples)
        target = choose_target(tensordict, tensordict_out, shape, self.inplace)
        owned = target is not tensordict and target is not tensordict_out
        layout = Layout(shape, self.options.pad_output)
        if self.options.generate:
            if logits_only:
                raise ValueError("logits_only can only be used with generate=False")
            written = self._generate(tensordict, layout, kwargs)
        else:
            if unknown := sorted(set(kwargs) - SCORE_OPTIONS):
                raise TypeError(f"with generate=False there are no options of generation, got {unknown}")
            sampled = {**(self.options.score_kwargs or {}), **kwargs}
            written = self._score(tensordict, layout, logits_only, sampled)
        keys, own = list(self.out_keys), self.options.sampling_key
        if own in written and not self.generation.tells_more:  # the call asks for more than the constructor
            keys.append(own)
        old = self.options.generate and isinstance(target.get(own, None), Sampling)  # of other tokens
        replaced = [*keys, own] if old else keys
        return write(target, written, replaced=replaced, keys=keys, owned=owned)

    # -- learning ------------------------------------------------------------------------------

    def trainable(
        self,
        *,
        trainable: Any = None,
        lora: int | Mapping[str, Any] | None = None,
        adapter: str = "learnt",
        assistant_only: bool = False,
        max_tokens: int = MAX_TOKENS,
        checkpoint: bool | int = False,
        **changes: Any,
    ) -> TrainablePolicy:
        """A module whose call is scoring, differentiable by the model's weights, to teach the model.

        It reads the graph's file a second time, and runs it by NumPy's functions (`lite.nn.from_onnx`).
        `TrainablePolicy.sync` brings what was learnt to this wrapper.

        Args:
            trainable: which weights learn, by default all that are floats; names, patterns, or a function of
                a name, see `lite.nn.from_onnx`.
            lora, adapter: adapters learn in place of the weights: their rank, or arguments of `lite.nn.lora`,
                and a name that the model has not yet. The wrapper runs with them then;
                ``get_new_version(adapter=None)`` does not, and makes another policy.
            assistant_only: compute only log-probs of what assistants said, by their mask; others are 0.
            max_tokens: most tokens of one run, filler included: rows of similar length share runs.
            checkpoint: save memory by computing each run again in the backward pass; a number cuts each run
                into so many parts.
            **changes: arguments of the wrapper that scores, see `get_new_version`; ``input_mode="tokens"``
                scores the very ids that were generated. By default with ``inplace=False``.

        Raises:
            TypeError: the model was not given by its path.
            ValueError: both `trainable` and `lora` are given, an adapter is in use or has that name, or
                arguments contradict each other.
            NotImplementedError: an operator of the graph has no rule; the message names it.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict, optim, value_and_grad
            >>> from lite.models import OnnxWrapper, Text, embedded_model_path
            >>> wrapper = OnnxWrapper(embedded_model_path(), input_mode="text", generate=False)
            >>> td = TensorDict(text=Text(full=["Copy: sun moon"], batch_size=[1]), batch_size=[1])
            >>> policy = wrapper.trainable(pad_output=True)
            >>> def loss(params):
            ...     with params.to_module(policy):
            ...         return -policy(td)["log_probs", "full"].mean()
            >>> params = policy.learnt_params()
            >>> before, grads = value_and_grad(loss)(params)
            >>> _ = optim.SGD(0.01).update_(params, grads)
            >>> policy.sync()
            >>> bool(-wrapper(td.copy())["log_probs", "full"].mean() < before)
            True
        """
        from lite.models.wrapper.trainable import trainable_policy  # loads all rules of operators

        return trainable_policy(
            self,
            trainable=trainable,
            lora=lora,
            adapter=adapter,
            assistant_only=assistant_only,
            max_tokens=max_tokens,
            checkpoint=checkpoint,
            changes=changes,
        )

    @property
    def adapter(self) -> str | None:
        """The adapter that the model runs with in this wrapper; None for the model as it is."""
        return self._calls.adapter

    def use_adapter(self, name: str, values: AdapterSource) -> None:
        """Run with a new adapter from now on, in this wrapper.

        The model gets inputs for it where it has none: its graph is in memory, and is opened again. Calls of
        other threads that run now end without it.

        Args:
            name: name of the adapter; one of that name gets the new values.
            values: arrays by the names of inputs, as `LoraModule.adapter_inputs` gives them, or a file or
                folder of `lite learn` or PEFT, as for `OnnxDecoder`.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the graph has no such projection, or takes another type or shape.
            RuntimeError: as for `update_weights_`.
        """
        arrays = self.model.read_adapters({name: values})[name].values
        self._calls.learn_adapter(name, arrays, {path for path in map(projection_of, arrays) if path})
        self._arguments["adapter"] = name

    def update_weights_(self, weights: Mapping[str, Any]) -> None:
        """Run the model with other values of some weights from now on, in all wrappers of it.

        Calls of other threads that run now end with the old weights, and those that come wait. Cached
        prefixes are dropped.

        Args:
            weights: values by the names that the graph has for them, see `OnnxDecoder.update_weights_`;
                values of optional inputs are those of the adapter that this wrapper runs with.

        Raises:
            ValueError: there is no such weight, or it has another shape.
            TypeError: the model's weights cannot be changed.
            RuntimeError: somebody else's rows of the decoder hold tokens, or this is called by a function
                that the running model calls.
        """
        self._calls.update_weights_(weights)

    # -- generation ----------------------------------------------------------------------------

    def _generate(self, td: Any, layout: Layout, kwargs: Mapping[str, Any]) -> dict[NestedKey, Any]:
        """Generate responses, and return the entries to write by key."""
        options = self.options
        given = dict(kwargs)
        row_options, own_seeds = given.pop("row_options", None), given.pop("seeds", None)
        config, seed_source = self._call_options(given)
        samples = options.num_samples or 1
        inputs = self._read(td)
        configs = options_of_rows(config, row_options, len(inputs.rows.ids))
        if row_options is not None:
            configs = [self._settled(one) for one in configs]
        seeds = None if own_seeds is None else given_seeds(own_seeds, layout.shape)
        if seeds is None and all(one.greedy for one in configs):
            seeds = np.zeros(len(configs) * samples, np.uint64)  # nothing is drawn
        elif seeds is None:
            seeds = seeds_from(seed_source, len(configs) * samples)
        responses = self._calls.generate(inputs.rows.rows, configs, seeds)
        configs = [one for one in configs for _ in range(samples)]
        prompt = inputs.rows.repeat(samples)
        response = TokenRows.right_padded([r.tokens for r in responses], self.pad_token_id)
        full = prompt.join(response)
        said = full.mask.copy()
        said[:, : prompt.ids.shape[1]] = False
        written: dict[NestedKey, Any] = {
            options.tokens_key: layout.make(Tokens, prompt=prompt, response=response, full=full),
            options.masks_key: layout.make(
                Masks, all_attention_mask=(full.mask, full.mask), all_assistant_mask=(said, full.mask)
            ),
        }
        if options.gives_log_probs:
            log_probs = response.spread([r.log_probs for r in responses], np.float32)
            if options.zero_first_log_prob:
                log_probs[:, :1] = 0
            written[options.log_probs_key] = layout.make(LogProbs, response=(log_probs, response.mask))
        told = configs[0] if configs else config
        if told.tells_more or any(one.num_beams > 1 for one in configs):
            fields = sampling_fields(responses, told)
            written[options.sampling_key] = layout.make(Sampling, **fields)
        if inputs.texts is not None:
            asked = [text for text in inputs.texts for _ in range(samples)]
            said_texts = [self._decode(r.tokens, own) for r, own in zip(responses, configs, strict=True)]
            written[options.text_key] = layout.text(prompt=asked, response=said_texts)
        if inputs.chats is not None:
            chats = [chat for chat in inputs.chats for _ in range(samples)]
            blanks = self._read.blanks_around_content()
            turns = [self._turn(r, own, *blanks) for r, own in zip(responses, configs, strict=True)]
            prompt_history = inputs.history if options.num_samples is None else None
            written[options.history_key] = layout.chat_history(chats, turns, prompt_history)
        return written

    def _call_options(self, given: dict[str, Any]) -> tuple[GenerationConfig, np.random.Generator]:
        """The options of one call, and where its random draws come from."""
        generator, seed = given.pop("generator", None), given.pop("seed", self._call_seed)
        config = self.generation
        if given:
            config = self._settled(GenerationConfig.from_kwargs(given, config))
        samples = self.options.num_samples or 1
        if config.num_return_sequences not in (1, samples):
            raise ValueError(
                f"num_samples differs from generate_kwargs['n']. Got {samples} and "
                f"{config.num_return_sequences}: wrappers of get_new_version(num_samples=...) share the model"
            )
        if generator is None:
            generator = self._rng if seed is None else generator_of(seed)
        return config, generator

    def _decode(self, ids: NDArray[np.int64], config: GenerationConfig) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=config.skip_special_tokens)

    def _turn(
        self, response: Generated, config: GenerationConfig, before: str, behind: str
    ) -> dict[str, Any]:
        ended = response.finish_reason == "eos"
        content = self._decode(response.tokens[:-1] if ended else response.tokens, config)
        content = content.removeprefix(before).removesuffix(behind if ended else "")
        return assistant_turn(content, complete=response.finish_reason != "length")

    def input_of(self, prompts: Sequence[Any]) -> Any:
        """The TensorDict to call this with for a list of prompts; see `LLMCollector`.

        Raises:
            TypeError: a prompt is not what the mode reads: texts or conversations, texts, or rows of ids.
        """
        return input_of(prompts, self.options.key, self.options.input_mode)

    def cut_off(self, tensordict: Any) -> NDArray[np.bool_]:
        """Which responses in a result were as long as they may be, bool of the batch's shape."""
        return truncated_responses(
            tensordict, self.options, self.generation, getattr(self.tokenizer, "decode", None)
        )

    # -- scoring -------------------------------------------------------------------------------

    def _score(
        self, td: Any, layout: Layout, logits_only: bool, sampled: Mapping[str, Any] | None = None
    ) -> dict[NestedKey, Any]:
        options = self.options
        inputs = self._read(td)
        rows, written = inputs.rows, scored_entries(inputs, options, layout)
        # an empty text among others has nothing to score; the model is not run on it
        present = rows_with_tokens(rows)
        real = [rows.rows[i] for i in present]
        if logits_only:
            written["logits"] = layout.logits(
                rows, dict(zip(present, self._calls.full_logits(real), strict=True))
            )
        else:
            temperatures, supports = read_sampled(td, sampled or {}, options, rows)
            found = self._calls.score(
                real,
                temperatures and [temperatures[i] for i in present],
                supports and [supports[i] for i in present],
            )
            scores = dict(zip(present, found, strict=True))
            none = np.zeros(0, np.float32)
            log_probs = rows.spread([scores.get(i, none) for i in range(len(rows.ids))], np.float32)
            written[options.log_probs_key] = layout.make(LogProbs, full=(log_probs, rows.mask))
        return written

    def score_choices(self, tensordict: Any, choices: Any, *, relative: bool = False) -> ChoiceScores:
        """Log-probs of given continuations of the prompts, under the raw model distribution.

        A prompt is run once, whatever the number of choices. The ids of a choice follow those of the prompt:
        a text is encoded without special tokens or a space before it, so write the space that the model would
        write (" yes"), and the end of the turn if that is a part of the question ("yes<|im_end|>").

        Args:
            tensordict: holds the prompts, as for a call.
            choices: texts, or integer ids (L,): one list for all rows, or lists nested to the batch.
            relative: only compare the choices of a row, which saves work: log-probs are given that the first
                token is that of one of them. ``probabilities`` and log-odds are the same.

        Returns:
            `ChoiceScores` with ``log_probs`` and ``probabilities`` of shape (*batch, C), and the log-probs of
            the tokens in lists nested to the batch.

        Raises:
            ValueError: the wrapper does not generate, so that there is nothing to continue; there are no
                choices; one has no token; a prompt does not fit the context with one of its choices.
            TypeError: as for a call.

        Example:
            >>> from lite import TensorDict
            >>> from lite.models import OnnxWrapper, Text, embedded_model_path
            >>> policy = OnnxWrapper(embedded_model_path(), input_mode="text")
            >>> td = TensorDict(text=Text(prompt=["1 + 1 = ", "Copy: sun "], batch_size=[2]), batch_size=[2])
            >>> scores = policy.score_choices(td, ["2", "sun"])
            >>> scores.log_probs.shape, scores.probabilities.sum(-1).round(6).tolist()
            ((2, 2), [1.0, 1.0])
        """
        if not self.options.generate:
            raise ValueError("choices follow a prompt: use a wrapper with generate=True")
        self._read.check(tensordict)
        shape = tuple(tensordict.batch_size)
        prompts = self._read(tensordict).rows.rows
        lists = per_row(choices, len(shape), len(prompts))
        ids = [[self._choice_ids(choice) for choice in own] for own in lists]
        scores = self._calls.score_choices(prompts, ids, relative=relative)
        return ChoiceScores(
            scores.log_probs.reshape(*shape, -1) if prompts else np.zeros((*shape, 0)),
            scores.probabilities.reshape(*shape, -1) if prompts else np.zeros((*shape, 0)),
            nest(scores.token_log_probs, shape),
        )

    def _choice_ids(self, choice: Any) -> NDArray[Any]:
        if not isinstance(choice, str):
            return np.asarray(choice)
        if self.tokenizer is None:
            raise ValueError(f"choices must be ids without a tokenizer, got {choice!r}")
        return np.asarray(encode_inside(self.tokenizer, choice), np.int64)


def generator_of(seed: int | np.random.Generator | None) -> np.random.Generator:
    """The generator of a seed; ValueError if the seed is invalid."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ValueError(
            f"seed must be an integer of at least 0 or a numpy.random.Generator, got {seed!r}"
        ) from None


def seeds_from(generator: np.random.Generator, count: int) -> NDArray[np.uint64]:
    """One seed per response, uint64 (count,)."""
    return generator.integers(0, 2**64, count, dtype=np.uint64)
