"""`TrainablePolicy`: a language model that learns, on TensorDicts of conversations, texts or token ids."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite.models.decoder.decoder import OnnxDecoder
from lite.models.learning.token_log_probs import TokenLogProbs, token_log_probs_of
from lite.models.text.data import LogProbs
from lite.models.wrapper.options import LLMWrapperBase
from lite.models.wrapper.output import Layout, choose_target, write
from lite.models.wrapper.sampled import read_sampled
from lite.models.wrapper.scored import rows_with_tokens, scored_entries
from lite.nn import LoraModule

_OPTIONS = frozenset({"temperature", "assistant_only"})


class TrainablePolicy(LLMWrapperBase):
    """Scores as an `OnnxWrapper` with ``generate=False``, differentiable by the weights of the model's graph.

    It writes the same entries in the same layout, and equal log-probs. `OnnxWrapper.trainable` makes it. Its
    parameters are the graph's weights, so that gradients, optimisers, losses and state dicts work on it as on
    any module; the wrapper that it was made of goes on with the old weights until `sync`.

    Args:
        wrapper: the wrapper whose model learns.
        judge: the wrapper of that model that says what is read and written.
        model: gives log-probs of tokens.
        assistant_only: only tokens of assistants get log-probs.

    Attributes:
        model: as given.
        wrapper: as given.

    Example:
        >>> from lite import TensorDict
        >>> from lite.models import OnnxWrapper, Text, embedded_model_path
        >>> policy = OnnxWrapper(embedded_model_path(), input_mode="text").trainable()
        >>> td = TensorDict(text=Text(full=["2 + 2 = 4"], batch_size=[1]), batch_size=[1])
        >>> policy(td)["log_probs", "full"].shape == policy(td)["tokens", "full"].shape
        True
        >>> policy.in_keys, len(list(policy.parameters())) > 10
        ([('text', 'full')], True)
    """

    def __init__(
        self, wrapper: Any, judge: Any, model: TokenLogProbs, *, assistant_only: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        self.assistant_only = assistant_only
        self._wrappers = wrapper, judge  # in a tuple, as they are no children: their modules have no weights
        self.in_keys = judge.in_keys
        self.out_keys = judge.out_keys

    @property
    def wrapper(self) -> Any:
        """The wrapper that `sync` brings the weights to."""
        return self._wrappers[0]

    def forward(
        self, tensordict: Any, *, tensordict_out: Any = None, logits_only: bool = False, **kwargs: Any
    ) -> Any:
        """Score a TensorDict.

        Args:
            tensordict: holds the entry to read; any batch shape.
            tensordict_out: a TensorDict to write to instead, of the input's batch size.
            logits_only: must be False.
            **kwargs: "temperature", a number or an array of the batch size, which divides the logits, and
                "assistant_only", in place of the constructor's.

        Returns:
            A new TensorDict, the input or ``tensordict_out``, as ``inplace`` says.

        Raises:
            ValueError: as `OnnxWrapper.forward`, or nobody can tell what assistants said.
            TypeError: `tensordict` is none, or an option is unknown.
        """
        _, judge = self._wrappers
        if logits_only or (unknown := sorted(set(kwargs) - _OPTIONS)):
            raise TypeError(f"a policy that learns takes {sorted(_OPTIONS)}, got {unknown or 'logits_only'}")
        judge._read.check(tensordict)
        shape = tuple(tensordict.batch_size)
        target = choose_target(tensordict, tensordict_out, shape, judge.inplace)
        owned = target is not tensordict and target is not tensordict_out
        layout = Layout(shape, judge.options.pad_output)
        inputs, options = judge._read(tensordict), judge.options
        written = scored_entries(inputs, options, layout)
        wanted = None
        if kwargs.get("assistant_only", self.assistant_only):
            if inputs.assistant_mask is None:
                raise ValueError(
                    "assistant_only needs the assistant mask, and nobody can tell what assistants said: in "
                    f"{options.input_mode} mode it is read at {(options.masks_key, 'all_assistant_mask')!r}"
                )
            wanted = inputs.assistant_mask
        sampled = {**(options.score_kwargs or {}), **kwargs}
        temperatures, _ = read_sampled(tensordict, sampled, options, inputs.rows)
        written[options.log_probs_key] = layout.make(
            LogProbs, full=(self._log_probs(inputs.rows, wanted, temperatures), inputs.rows.mask)
        )
        return write(target, written, replaced=self.out_keys, keys=self.out_keys, owned=owned)

    def _log_probs(
        self, rows: Any, wanted: NDArray[np.bool_] | None, temperatures: list[float] | None
    ) -> Any:
        """Log-probs of all rows, laid out as these are: (B, L), 0 where there are none."""
        present = rows_with_tokens(rows)
        decoder = self.wrapper.model
        ids = [decoder.check_ids(rows.ids[i][rows.mask[i]]) for i in present]
        chosen = None if wanted is None else [wanted[i][rows.mask[i]] for i in present]
        warmth = None if temperatures is None else [temperatures[i] for i in present]
        found, places = self.model(ids, chosen, warmth)
        index = np.zeros(rows.ids.shape, np.int64)
        for i, place in zip(present, places, strict=True):
            index[i, rows.mask[i]] = place
        return found[index]

    def learnt_params(self) -> TensorDictBase:
        """The parameters that learn, as `TensorDict.from_module` nests them, for gradients and optimisers.

        Others are left as they are: of `from_module` a gradient by all is taken, of frozen ones, too.
        """
        params = TensorDict.from_module(self)
        return params.select(*[key for key in params.keys(True, True) if params[key].requires_grad])

    def learnt_weights(self, params: Any = None) -> dict[str, NDArray[Any]]:
        """What has been learnt, by the names that the model's graph has: weights, or inputs for an adapter.

        `OnnxWrapper.update_weights_` takes it, in this process or another.

        Args:
            params: parameters as `learnt_params` gives them, in place of the module's own.
        """
        graph: Any = self.model.graph
        adapted = isinstance(graph, LoraModule)
        names = [] if adapted else graph.learning_weights()
        with nullcontext() if params is None else params.to_module(self):
            found: dict[str, NDArray[Any]] = graph.adapter_inputs() if adapted else graph.weights(names)
        return found

    def sync(self, params: Any = None) -> None:
        """Bring what was learnt to the model that the wrapper runs, and so to all wrappers of that model.

        Calls of other threads that run now end with the old weights, and those that come wait. Cached
        prefixes are dropped. Values of adapters are inputs of the graph, which stays open; for other weights
        the graph, which is in memory, is opened again.

        Args:
            params: parameters as `learnt_params` gives them, such as an optimiser's `update` returns; by
                default the module's own.

        Raises:
            RuntimeError: somebody else's rows of the decoder hold tokens, or this is called by a function
                that the running model calls.
        """
        self.wrapper.update_weights_(self.learnt_weights(params))


def trainable_policy(
    wrapper: Any,
    *,
    trainable: Any,
    lora: int | Mapping[str, Any] | None,
    adapter: str,
    assistant_only: bool,
    max_tokens: int,
    checkpoint: bool | int,
    changes: Mapping[str, Any],
) -> TrainablePolicy:
    """See `OnnxWrapper.trainable`."""
    decoder = wrapper.model
    if not isinstance(decoder, OnnxDecoder) or decoder.config is None:
        raise TypeError(
            "a model learns from its file: give the wrapper the model's path, or an OnnxDecoder of one; got "
            f"a {type(decoder).__name__}"
        )
    if lora is not None and trainable is not None:
        raise ValueError("lora and trainable: with adapters no weight of the model learns")
    if wrapper.adapter is not None:
        raise ValueError(f"a model with an adapter in use, {wrapper.adapter!r}, does not learn: choose none")
    settings: dict[str, Any] = {"generate": False, "inplace": False, "input_key": None, **changes}
    if not wrapper.options.generate:
        settings = {
            "input_key": wrapper.options.input_key,
            **changes,
            "inplace": changes.get("inplace", False),
        }
    if settings.get("score_kwargs") and "kept_ids" in settings["score_kwargs"]:
        raise ValueError("score_kwargs: a policy that learns takes no kept_ids")
    judge = wrapper.get_new_version(**settings)
    spec, config = decoder.spec, decoder.config
    if spec.prompts is not None:
        spec, config = spec.prompts, config.of_prompts() or config
    low_rank = None if lora is None else dict(lora) if isinstance(lora, Mapping) else {"rank": lora}
    how = {"trainable": trainable, "lora": low_rank, "max_tokens": max_tokens, "checkpoint": checkpoint}
    model = token_log_probs_of(config, spec, **how)
    if isinstance(model.graph, LoraModule):
        wrapper.use_adapter(adapter, model.graph.adapter_inputs())
    return TrainablePolicy(wrapper, judge, model, assistant_only=assistant_only)


belong_to("lite.models", TrainablePolicy)
