"""Next-token distributions over the rows that a wrapper scores, with a mask of what counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, nn
from lite._arrays.caller import warn
from lite.models.text.nesting import flatten
from lite.models.text.rows import TokenRows
from lite.models.wrapper.input import nested_key, read_mask, read_tokens
from lite.models.wrapper.options import OPTIONS, Inplace, LLMWrapperBase, WrapperOptions
from lite.models.wrapper.output import Layout
from lite.models.wrapper.sampled import read_sampled

if TYPE_CHECKING:
    from lite.nn.distributions import Categorical, LLMMaskedCategorical

Mask = NDArray[np.bool_]


class _Scored(NamedTuple):
    """The rows of a batch with the logits of the distribution that each token was drawn from.

    Attributes:
        rows: N rows of T tokens.
        logits: float32 (N, T, V).
        said: the mask of assistants' tokens, (N, T), or None if it is unknown.
        written: what scoring writes, padded.
        shape: the batch shape, N elements.
    """

    rows: TokenRows
    logits: NDArray[np.float32]
    said: Mask | None
    written: dict[NestedKey, Any]
    shape: tuple[int, ...]

    def padded(self, values: NDArray[Any], side: str | None, fill: float) -> NDArray[Any]:
        """Values (N, T, ...), which may be traced, with the padding on one side or where it is, filled."""
        mask = place = self.rows.mask
        if side is not None:
            lengths = mask.sum(1)
            place = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
            if side == "left":
                place = place[:, ::-1]
        moves = place.shape != mask.shape or (place != mask).any()
        if moves:
            index = np.zeros(place.shape, np.int64)
            index[place] = np.flatnonzero(mask)
            values = values.reshape(mask.size, *values.shape[2:])[index]
        if moves or fill:
            real = place.reshape(*place.shape, *(1,) * (values.ndim - 2))
            values = np.where(real, values, values.dtype.type(fill))
        return values.reshape(*self.shape, *values.shape[1:])


class DistributionMethods(LLMWrapperBase):
    """Methods of a wrapper with ``generate=False`` for whole distributions, not only for given tokens.

    Each method runs the model once on the entry that the wrapper reads and returns a distribution over
    the padded batch, shape (*batch, T), padded on the left unless asked otherwise. With ``pad_output=True``
    the layout is that of the wrapper's output. The first token of a row has nothing before it: its
    distribution is uniform, where ``log_probs`` has 0. Exclude it by the mask if that matters.

    This is the only place that holds an array of logits (*batch, T, V).
    """

    options: WrapperOptions
    pad_token_id: int

    def _score(self, td: Any, layout: Layout, logits_only: bool) -> dict[NestedKey, Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define _score")

    # -- distributions -------------------------------------------------------------------------

    def get_dist(
        self,
        tensordict: Any,
        tensordict_out: Any = None,
        logits_key: NestedKey = "logits",
        mask_key: NestedKey | None = None,
        as_padded_tensor: bool | None = None,
        as_nested_tensor: bool | None = None,
        padding_value: float | None = None,
        padding_side: str = "left",
        layout: Any = None,
        **kwargs: Any,
    ) -> LLMMaskedCategorical | Categorical:
        """The distributions of all tokens, masked by the attention mask or another one.

        Args:
            tensordict: holds the entry to score; it is left as it is.
            tensordict_out: not used.
            logits_key: must be "logits".
            mask_key: the mask to use, of the output (as ``("masks", "all_assistant_mask")``) or of the input.
            as_padded_tensor: False for a `Categorical` (*batch, T) without padding and mask, for which
                rows must have one length.
            as_nested_tensor: True for a `Categorical` (tokens,) of all rows one after the other.
            padding_value: logits on padding; 0.
            padding_side: "left" or "right", if the wrapper's output is not padded.
            layout: not used.
            **kwargs: not used.

        Raises:
            NotImplementedError: with ``generate=True``.
            ValueError: there is no such mask, or it has not one value per token.
            RuntimeError: rows of different lengths and ``as_padded_tensor=False``.

        Example:
            >>> from lite import TensorDict
            >>> from lite.models import OnnxWrapper, Text, embedded_model_path
            >>> judge = OnnxWrapper(embedded_model_path(), input_mode="text", generate=False)
            >>> td = TensorDict({"text": Text(full=["2 + 2", "Copy: sun"], batch_size=[2])}, batch_size=[2])
            >>> dist = judge.get_dist(td)
            >>> ids = judge(td).get(("tokens", "full"), as_padded_tensor=True, padding_side="left")
            >>> dist.log_prob(ids).shape == ids.shape
            True
        """
        scored = self._score_logits(tensordict, "get_dist", logits_key)
        if as_nested_tensor:
            if as_padded_tensor:
                raise TypeError("as_padded_tensor and as_nested_tensor are exclusive")
            return nn.distributions.Categorical(logits=scored.logits[scored.rows.mask])
        if as_padded_tensor is False:
            lengths = scored.rows.mask.sum(1)
            if len(set(lengths.tolist())) > 1:
                raise RuntimeError(
                    f"cannot stack logits of rows of {lengths.tolist()} tokens: use as_padded_tensor=True"
                )
            logits = scored.padded(scored.logits, "left", 0)
            if mask_key is None:
                return nn.distributions.Categorical(logits=logits)
            mask = scored.padded(self._mask(tensordict, scored, mask_key), "left", 0)
            return nn.distributions.LLMMaskedCategorical(logits, mask)
        mask = self._mask(tensordict, scored, mask_key)
        return self._masked(scored, mask, padding_side, fill=padding_value or 0.0)

    def _get_dist_with_prompt_mask(
        self,
        tensordict: Any,
        tokens_key: NestedKey | None = None,
        logits_key: NestedKey = "logits",
        assistant_mask_key: NestedKey | None = None,
        attention_mask_key: NestedKey | None = None,
        padding_side: str = "left",
        **kwargs: Any,
    ) -> LLMMaskedCategorical:
        """The distributions of responses: of all but the tokens of the input's ``(tokens_key, "prompt")``.

        Without these tokens, what the assistant mask marks.

        Raises:
            NotImplementedError: with ``generate=True``.
            ValueError: there are neither prompt tokens nor an assistant mask, or a prompt is longer than
                its row.

        Warns:
            UserWarning: a prompt's tokens are not those at the start of its row.
        """
        scored = self._score_logits(tensordict, "get_dist_with_prompt_mask", logits_key)
        options = self.options
        key = nested_key(options.tokens_key, "prompt") if tokens_key is None else tokens_key
        value = tensordict.get(key, None, as_list=True)
        if value is None:
            mask = self._assistant(tensordict, scored, assistant_mask_key)
            return self._masked(scored, mask, padding_side)
        mask = self._mask(tensordict, scored, attention_mask_key) & ~self._prompt_mask(value, key, scored)
        return self._masked(scored, mask, padding_side)

    def _get_dist_with_assistant_mask(
        self, tensordict: Any, assistant_mask_key: NestedKey | None = None, logits_key: NestedKey = "logits",
        padding_side: str = "left", **kwargs: Any,
    ) -> LLMMaskedCategorical:  # fmt: skip
        """The distributions of the assistants' tokens, over all turns.

        The tokens that were scored are written to ``(tokens_key, "full")`` of the input, so that they can
        be given to the distribution: a conversation is rendered again, and may not give those it came from.

        Raises:
            NotImplementedError: with ``generate=True``.
            ValueError: there is no assistant mask.
        """
        scored = self._score_logits(tensordict, "get_dist_with_assistant_mask", logits_key)
        dist = self._masked(scored, self._assistant(tensordict, scored, assistant_mask_key), padding_side)
        tokens = Layout(scored.shape, self.options.pad_output).make(
            type(scored.written[self.options.tokens_key]), full=scored.rows
        )
        have = tensordict.get(self.options.tokens_key, None)
        for name in ("prompt", "response"):
            value = None if have is None else have.get(name, None, as_list=True)
            if value is not None:
                tokens.set(name, value)
        tensordict.set(self.options.tokens_key, tokens)
        return dist

    def _get_dist_with_attention_mask(
        self, tensordict: Any, attention_mask_key: NestedKey | None = None, logits_key: NestedKey = "logits",
        padding_side: str = "left", **kwargs: Any,
    ) -> LLMMaskedCategorical:  # fmt: skip
        """The distributions of all real tokens. Raises NotImplementedError with ``generate=True``."""
        scored = self._score_logits(tensordict, "get_dist_with_attention_mask", logits_key)
        mask = self._mask(tensordict, scored, attention_mask_key)
        return self._masked(scored, mask, padding_side)

    def _get_dist_with_custom_mask(
        self, tensordict: Any, mask: Any, logits_key: NestedKey = "logits", padding_side: str = "left",
        **kwargs: Any,
    ) -> LLMMaskedCategorical:  # fmt: skip
        """The distributions at positions that a mask (*batch, T) of the padded batch picks.

        Raises:
            NotImplementedError: with ``generate=True``.
            ValueError: the mask has another shape.
        """
        scored = self._score_logits(tensordict, "get_dist_with_custom_mask", logits_key)
        logits = self._laid_out(scored, scored.logits, padding_side)
        dist = nn.distributions.LLMMaskedCategorical(logits, mask)
        if not dist.position_level_masking:
            raise ValueError(
                f"Custom mask is not a position-level mask: expected shape {dist.batch_shape}, "
                f"got {dist.mask.shape}"
            )
        return dist

    def _get_sft_dist(self, tensordict: Any, **kwargs: Any) -> LLMMaskedCategorical:
        """For supervised losses."""
        return self._get_dist_with_prompt_mask(tensordict, **kwargs)

    def _get_rlhf_dist(self, tensordict: Any, **kwargs: Any) -> LLMMaskedCategorical:
        """For losses over turns."""
        return self._get_dist_with_assistant_mask(tensordict, **kwargs)

    def _get_generic_dist(self, tensordict: Any, **kwargs: Any) -> LLMMaskedCategorical:
        return self._get_dist_with_attention_mask(tensordict, **kwargs)

    # -- log-probs -----------------------------------------------------------------------------

    def log_prob(self, data: Any, **get_kwargs: Any) -> Any:
        """Call the wrapper, and return the log-probs of all tokens, ``(log_probs_key, "full")``.

        Args:
            data: what the wrapper is called with; written to as ``inplace`` says.
            **get_kwargs: how to read ragged rows, as for `TensorDict.get`.

        Raises:
            RuntimeError: with ``generate=True``.
        """
        if self.options.generate:
            raise RuntimeError("log_prob not callable when generate=True.")
        return self(data).get(nested_key(self.options.log_probs_key, "full"), **get_kwargs)

    @property
    def log_prob_keys(self) -> list[NestedKey]:
        """The key of log-probs, ``[log_probs_key]``; can be set."""
        return self.__dict__.get("_log_prob_keys", [self.options.log_probs_key])

    @log_prob_keys.setter
    def log_prob_keys(self, keys: Sequence[NestedKey]) -> None:
        self.__dict__["_log_prob_keys"] = list(keys)

    @property
    def dist_sample_keys(self) -> list[NestedKey]:
        """The name that losses use for the sampled tokens."""
        return ["tokens_response"]

    # -- options -------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Constructor arguments can be read as attributes: `pad_output`, `num_samples`, `tokens_key`, ..."""
        # No property: it would end `inspect.getmembers`, by which tools find what cannot be pickled.
        if name == "dist_params_keys":
            raise NotImplementedError("the parameters of the distributions are not entries: use get_dist")
        options = self.__dict__.get("options")
        return (
            getattr(options, name) if name in OPTIONS and options is not None else super().__getattr__(name)
        )

    @property
    def input_key(self) -> NestedKey:
        """The entry that is read."""
        return self.options.key

    @property
    def inplace(self) -> Inplace:
        """Whether the input is updated."""
        return self.options.overwrites

    # -- masks ---------------------------------------------------------------------------------

    def _score_logits(self, td: Any, method: str, logits_key: NestedKey) -> _Scored:
        """Score a TensorDict for the distribution that `method` returns: its rows, logits and masks."""
        if self.options.generate:
            raise NotImplementedError(
                f"{method} is not implemented for generate=True. You can create a new version of this "
                "wrapper using the `get_new_version` method."
            )
        if logits_key != "logits":
            raise ValueError(f"Logits not found in tensordict at key {logits_key!r}: they are at 'logits'")
        shape = tuple(td.batch_size)
        written = self._score(td, Layout(shape, True), True)
        tokens, masks = written[self.options.tokens_key], written[self.options.masks_key]

        def flat(value: Any) -> Any:
            return value.reshape(math.prod(shape), *value.shape[len(shape) :])

        rows = TokenRows(flat(tokens.full), flat(masks.all_attention_mask))
        said = masks.all_assistant_mask
        logits = flat(written["logits"])
        given = self.options.score_kwargs or {}
        if given.get("kept_ids"):
            raise NotImplementedError(
                f"{method} gives distributions over all tokens, and score_kwargs has kept_ids: log-probs"
                " among these are what calls write (of GRPOLoss with entropy_bonus=False)"
            )
        temperatures, _ = read_sampled(td, given, self.options, rows)
        if temperatures is not None:
            logits = logits / np.asarray(temperatures, np.float32)[:, None, None]
        return _Scored(rows, logits, None if said is None else flat(said), written, shape)

    def _laid_out(self, scored: _Scored, values: NDArray[Any], side: str, fill: float = 0.0) -> NDArray[Any]:
        if side not in ("left", "right"):
            raise ValueError(f"padding_side must be 'left' or 'right', got {side!r}")
        return scored.padded(values, None if self.options.pad_output else side, fill)

    def _masked(self, scored: _Scored, mask: Mask, side: str, fill: float = 0.0) -> LLMMaskedCategorical:
        logits = self._laid_out(scored, scored.logits, side, fill)
        return nn.distributions.LLMMaskedCategorical(logits, self._laid_out(scored, mask, side))

    def _mask(self, td: Any, scored: _Scored, key: NestedKey | None) -> Mask:
        """A mask (N, T) of the output or of the input; without a key that of the real tokens."""
        masks_key = self.options.masks_key
        if key in (None, nested_key(masks_key, "all_attention_mask")):
            return scored.rows.mask
        if key == nested_key(masks_key, "all_assistant_mask") and scored.said is not None:
            return scored.said
        value = td.get(key, None, as_list=True)
        if value is None:
            raise ValueError(
                f"Mask not found in tensordict at key {key!r} (keys: {sorted(map(str, td.keys(True)))})"
            )
        mask = read_mask(value, scored.rows, len(scored.shape))
        if mask is None:
            raise ValueError(
                f"Mask at {key!r} is not a position-level mask: it must have one value per token of each "
                f"row, which have {scored.rows.mask.sum(1).tolist()}"
            )
        return mask & scored.rows.mask

    def _assistant(self, td: Any, scored: _Scored, key: NestedKey | None) -> Mask:
        own = nested_key(self.options.masks_key, "all_assistant_mask")
        if key is not None and key != own:
            return self._mask(td, scored, key)
        if scored.said is None:
            history = self.options.input_mode == "history"
            hint = "" if history else " This is likely because the input_mode is not 'history'."
            raise ValueError(f"Assistant mask not found in tensordict at key {own!r}.{hint}")
        return scored.said

    def _prompt_mask(self, value: Any, key: NestedKey, scored: _Scored) -> Mask:
        """Where a row's prompt is, (N, T). It may be given with or without the row's padding."""
        rows, ndim = scored.rows, len(scored.shape)
        prompts = read_tokens(value, key, ndim, pad_id=self.pad_token_id, pad_is_eos=False)
        given = flatten(value, ndim) if isinstance(value, list) and ndim else prompts.ids
        covered = np.zeros(rows.mask.shape, np.bool_)
        foreign = []
        for i, (whole, prompt, full) in enumerate(zip(given, prompts.rows, rows.rows, strict=True)):
            if _starts(rows.ids[i], whole) and not _starts(full, prompt):  # padded alike
                covered[i, : len(whole)] = True
                continue
            if len(prompt) > len(full):
                raise ValueError(
                    f"the prompt of row {i} at {key!r} has {len(prompt)} tokens, the row that is scored only "
                    f"{len(full)}"
                )
            if not _starts(full, prompt):
                foreign.append(i)
            covered[i] = np.cumsum(rows.mask[i]) <= len(prompt)
        if foreign:
            warn(
                f"the tokens of rows {foreign} at {key!r} are not those at the start of the rows that are "
                "scored: the mask excludes as many tokens, which may not be the prompt",
                UserWarning,
            )
        return covered


def _starts(row: NDArray[np.int64], start: Any) -> bool:
    return np.array_equal(row[: len(start)], start)
