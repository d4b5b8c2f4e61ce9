"""`TrainablePolicy`: a language model that learns, on TensorDicts of conversations, texts or token ids."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite.models.decoder.decoder import OnnxDecoder
from lite.models.decoder.new_weights import same_in_other
from lite.models.learning.token_log_probs import LaidOut, TokenLogProbs, token_log_probs_of
from lite.models.text.data import LogProbs
from lite.models.text.rows import TokenRows
from lite.models.wrapper.distributions import DistributionMethods
from lite.models.wrapper.options import SCORE_OPTIONS
from lite.models.wrapper.output import Layout, choose_target, write
from lite.models.wrapper.sampled import read_sampled, rows_with_tokens, scored_entries
from lite.nn import LoraModule, from_onnx

_OPTIONS = SCORE_OPTIONS | {"assistant_only"}
# Whose attention has one layer for queries, keys and values in transformers, too.
_JOINED = ("phi3", "phi4", "codegen", "openelm")


class TrainablePolicy(DistributionMethods):
    """Scores as an `OnnxWrapper` with ``generate=False``, differentiable by the weights of the model's graph.

    It writes the same entries in the same layout, and equal log-probs; `get_dist` and its like give the same
    distributions. `OnnxWrapper.trainable` makes it. Its
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
        self._wrappers = wrapper, judge  # in a tuple, as they are not children: their modules have no weights
        self.options, self.pad_token_id = judge.options, judge.pad_token_id
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
            **kwargs: "temperature", a number or an array of the batch size, which divides the logits;
                "kept_ids", True for log-probs among the ids that were recorded at the ``sampling_key``;
                "assistant_only", in place of the constructor's.

        Returns:
            A new TensorDict, the input or ``tensordict_out``, as ``inplace`` says.

        Raises:
            ValueError: as `OnnxWrapper.forward`, or the tokens of assistants are unknown.
            TypeError: `tensordict` is not a TensorDict, or an option is unknown.
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
        wanted = self._wanted(inputs, kwargs.get("assistant_only"))
        sampled = {**(options.score_kwargs or {}), **kwargs}
        temperatures, supports = read_sampled(tensordict, sampled, options, inputs.rows)
        log_probs = self._log_probs(inputs.rows, wanted, temperatures, supports)
        written[options.log_probs_key] = layout.make(LogProbs, full=(log_probs, inputs.rows.mask))
        return write(target, written, replaced=self.out_keys, keys=self.out_keys, owned=owned)

    def lay_out(
        self, tensordict: Any, *, width: int | None = None, assistant_only: bool | None = None
    ) -> TensorDictBase:
        """The arrays that `token_log_probs` computes from: a step of `lite.jit` takes them, and no texts.

        Args:
            tensordict: as of `forward`; its elements are rows.
            width: tokens of each row beside its first, filler included, so that batches of texts of other
                lengths have one graph; by default those of the longest.
            assistant_only: as of `forward`.

        Returns:
            A TensorDict of no batch size: "targets", the tokens that follow each, int64 (rows, width);
            "mask", which of them get log-probs, bool; "inputs", those of the model's graph by name.

        Raises:
            ValueError: a row is longer, or there is none; as `forward`.
            NotImplementedError: no single run of the model's graph gives the log-probs of all tokens.
        """
        inputs = self._read(tensordict)
        rows, wanted = inputs.rows, self._wanted(inputs, assistant_only)
        ids = self._ids(rows, list(range(len(rows.ids))))
        if not ids:
            raise ValueError("there are no rows to lay out.")
        longest = max(2, *map(len, ids)) - 1
        if width is not None and width < longest:
            raise ValueError(f"width must be at least {longest}, the longest row's less 1, got {width}.")
        chosen = None if wanted is None else [row[mask] for row, mask in zip(wanted, rows.mask, strict=True)]
        found = self.model.lay_out(ids, chosen, width or longest)
        return TensorDict(inputs=TensorDict(found.inputs), targets=found.targets, mask=found.mask)

    def token_log_probs(self, laid_out: Any, *, temperature: float = 1.0) -> Any:
        """The log-probs of tokens that are laid out, as functions of arrays alone: `lite.jit` traces this.

        Args:
            laid_out: the result of `lay_out`.
            temperature: the logits are divided by it.

        Returns:
            Float32 (rows, width), 0 where "mask" is False.

        Example:
            >>> from lite import TensorDict
            >>> from lite.models import OnnxWrapper, Text, embedded_model_path
            >>> policy = OnnxWrapper(embedded_model_path(), input_mode="text").trainable()
            >>> td = TensorDict(text=Text(full=["2 + 2 = 4", "Hi"], batch_size=[2]), batch_size=[2])
            >>> policy.token_log_probs(policy.lay_out(td, width=16)).shape
            (2, 16)
        """
        given = laid_out["inputs"]
        inputs = {name: given[name] for name in given.keys()}  # noqa: SIM118
        return self.model.of_laid_out(LaidOut(inputs, laid_out["targets"], laid_out["mask"]), temperature)

    def _wanted(self, inputs: Any, assistant_only: bool | None) -> NDArray[np.bool_] | None:
        """Which tokens get log-probs; None for all."""
        if not (self.assistant_only if assistant_only is None else assistant_only):
            return None
        options = self._wrappers[1].options
        if inputs.assistant_mask is None:
            raise ValueError(
                "assistant_only needs the assistant mask, which is missing: "
                f"{options.input_mode} mode reads it at {(options.masks_key, 'all_assistant_mask')!r}"
            )
        found: NDArray[np.bool_] = inputs.assistant_mask
        return found

    def _read(self, tensordict: Any) -> Any:
        """The judge's inputs from a TensorDict."""
        read = self._wrappers[1]._read
        read.check(tensordict)
        return read(tensordict)

    def _log_probs(
        self,
        rows: TokenRows,
        wanted: NDArray[np.bool_] | None,
        temperatures: list[float] | None,
        supports: list[Any] | None,
    ) -> Any:
        """Log-probs of all rows, laid out as these are: (B, L), 0 where there are none."""
        present = rows_with_tokens(rows)
        chosen = None if wanted is None else [wanted[i][rows.mask[i]] for i in present]
        warmth = None if temperatures is None else [temperatures[i] for i in present]
        kept = None if supports is None else [supports[i] for i in present]
        found, places = self.model(self._ids(rows, present), chosen, warmth, kept)
        return found[self._index(rows, present, places)]

    def _score(self, td: Any, layout: Layout, logits_only: bool) -> dict[NestedKey, Any]:
        """The results of scoring, with logits (*batch, L, V) instead of log-probs."""
        inputs = self._wrappers[1]._read(td)
        rows, written = inputs.rows, scored_entries(inputs, self.options, layout)
        present = rows_with_tokens(rows)
        found, places = self.model.logits(self._ids(rows, present))
        found = found[self._index(rows, present, places)]
        written["logits"] = found.reshape(*layout.shape, *found.shape[1:])
        return written

    def _ids(self, rows: TokenRows, present: list[int]) -> list[NDArray[np.int64]]:
        return [self.wrapper.model.check_ids(rows.ids[i][rows.mask[i]]) for i in present]

    @staticmethod
    def _index(rows: TokenRows, present: list[int], places: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        index = np.zeros(rows.ids.shape, np.int64)
        for i, place in zip(present, places, strict=True):
            index[i, rows.mask[i]] = place
        return index

    def learnt_params(self) -> TensorDictBase:
        """The parameters that learn, as `TensorDict.from_module` nests them, for gradients and optimisers.

        Others are left as they are: of `from_module` a gradient by all is taken, of frozen ones, too.
        """
        params = TensorDict.from_module(self)
        return params.select(*[key for key in params.keys(True, True) if params[key].requires_grad])

    def learnt_weights(self, params: Any = None) -> dict[str, NDArray[Any]]:
        """Trained weights by the names of the model's graph, or the inputs of an adapter.

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

    def save(
        self, path: str | os.PathLike[str], params: Any = None, *, qkv: Sequence[int] | None = None
    ) -> Path:
        """Write what was learnt: adapters in a file of their own, other weights in the model's graph.

        Args:
            path: of adapters a file of onnxruntime, which ends with ``.onnx_adapter``, or a folder of PEFT
                (see `LoraModule.save_adapter`). Of other weights a folder that gets the graph with them,
                under its own name (of a pair both), and the tokenizer and configuration that lie beside it: a
                model as any other; or an ``.onnx`` file, for the graph alone (see `GraphModule.save_onnx`).
            params: parameters as `learnt_params` gives them, in place of the module's own.
            qkv: for PEFT, the sizes of queries, keys and values of a layer that gives all three, to write it
                as three; by default those of the model's cache, but for models that have it so (Phi-3).

        Returns:
            The path.

        Raises:
            ImportError: PEFT's files need the package safetensors.
            ValueError: the file would be written over one that the model is of; a weight of a pair's graph is
                not in the other.
        """
        graph: Any = self.model.graph
        target = Path(path)
        with nullcontext() if params is None else params.to_module(self):
            if isinstance(graph, LoraModule):
                sizes = self._qkv() if qkv is None else qkv
                return graph.save_adapter(
                    target, **({} if target.suffix == ".onnx_adapter" else {"qkv": sizes})
                )
            if target.suffix == ".onnx":
                return graph.save_onnx(target)
            config = self.wrapper.model.config
            read = config.of_prompts() or config
            config.copy_beside(target)
            graph.save_onnx(target / read.graph.name)
            if read is not config:
                self._save_other(read.graph, config.graph, target)
            return target

    def _save_other(self, read: Path, other: Path, folder: Path) -> None:
        """Write the other graph of a pair, with the weights that were learnt by that which reads prompts."""
        weights = self.learnt_weights()
        there = same_in_other(read, other, weights)
        graph: Any = from_onnx(other, trainable=there.__contains__)
        for name, known in there.items():
            graph.weights([name])[name][...] = weights[known]
        graph.save_onnx(folder / other.name)

    def _qkv(self) -> tuple[int, int, int] | None:
        """Sizes of queries, keys and values, where an exporter made one layer of three."""
        spec, config = self.wrapper.model.spec, self.wrapper.model.config
        of_genai = config.genai.get("model")
        described = of_genai if isinstance(of_genai, dict) else {}
        kind = str(config.raw.get("model_type") or described.get("type"))
        if spec.num_heads is None or spec.head_size is None or kind.startswith(_JOINED):
            return None
        keys = spec.num_heads * spec.head_size
        for name, parameter in self.named_parameters():
            if name.endswith("qkv_proj.lora_B.weight"):
                return parameter.shape[0] - 2 * keys, keys, keys
        return None

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
    wrapper: Any, *, trainable: Any, lora: int | Mapping[str, Any] | None, adapter: str, assistant_only: bool,
    max_tokens: int, checkpoint: bool | int, changes: Mapping[str, Any],
) -> TrainablePolicy:  # fmt: skip
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
        raise ValueError(
            f"the wrapper runs with the adapter {wrapper.adapter!r}, and nothing learns beside it: go on "
            "with the policy that learns it, or make another of get_new_version(adapter=None)"
        )
    if lora is not None and adapter in decoder.adapters:
        raise ValueError(
            f"adapter={adapter!r} is an adapter that the model has, which other wrappers may run with: give "
            "another name"
        )
    for_scores = {"generate": False, "input_key": None} if wrapper.options.generate else {}
    judge = wrapper.get_new_version(**{"inplace": False, **for_scores, **changes})
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
