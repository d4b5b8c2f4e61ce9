"""Detects the convention of an exported decoder graph from its inputs, outputs and file.

Exporters agree on almost nothing: names, the order of the cache tensors, whether positions are an input,
which side may be padded. Everything that depends on the convention is decided here, once; a graph that fits
none is refused with the full list of what it has.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from lite._arrays.caller import warn
from lite.models.decoder.gather_logits import POSITIONS_INPUT
from lite.models.decoder.states import StateTensor
from lite.models.graph.length_limits import LIMIT_INPUT
from lite.models.graph.model_config import ModelConfig
from lite.models.graph.session import NodeArg, SessionLike
from lite.models.graph.tensors import ELEMENT_TYPES

_IDS = "input_ids"
_MASK = "attention_mask"
_POSITIONS = "position_ids"
_BRANCH = "use_cache_branch"
_KEEP = ("num_logits_to_keep", "logits_to_keep")
_INTEGERS = ("tensor(int64)", "tensor(int32)")
_STATE = "conv|ssm|recurrent"

SUPPORTED = (
    "a decoder with input_ids [batch, sequence], optional attention_mask, position_ids, use_cache_branch, "
    "num_logits_to_keep, token_type_ids, cache_position and past_sequence_length, one key and one value "
    "tensor [batch, heads, length, head size] per layer as inputs and as outputs, or a state of fixed size "
    "(past_conv), and an output logits: as "
    "written by optimum (text-generation-with-past, merged, or a pair of decoder_model and "
    "decoder_with_past_model), onnxruntime-genai's model builder, transformers.js and transformers' "
    "OnnxExporter (prefill and decode); or, slower, the same without any cache tensors (optimum's "
    "text-generation), or with runs of one row or of one token"
)


class Extra(Enum):
    """An input beside the usual ones whose value follows from the run."""

    ZEROS = "zeros"
    """0 for each new token: the only segment that a text has."""
    PAST = "past"
    """The number of positions before the new tokens."""
    TOTAL = "total"
    """The number of positions with the new tokens."""
    COLUMNS = "columns"
    """For each new token its place in the cache."""


_EXTRAS = {
    "token_type_ids": Extra.ZEROS,
    "cache_position": Extra.COLUMNS,
    "past_sequence_length": Extra.PAST,
    "total_sequence_length": Extra.TOTAL,
    "cumulative_length": Extra.PAST,  # the last part of its name: transformers has one for each layer
}


class Padding(Enum):
    """How rows of different length may share a run. A property of the graph, never a user's choice."""

    SLOTS = "slots"
    """GroupQueryAttention: each row has its own length in a shared buffer."""
    LEFT = "left"
    """Concatenating graph with a mask and positions as inputs: the past lies flush right."""
    EQUAL = "equal"
    """Positions come from the cache's length, or no mask: only rows of equal length share a run."""
    RIGHT = "right"
    """No cache: whole rows run again at each step, with filler behind them."""


@dataclass(frozen=True)
class CacheTensor:
    """One cache tensor: its layer, `"key"` or `"value"`, its names as input and as output.

    A graph that only reads prompts has no past: the name is `""`.
    """

    layer: int
    kind: str
    past: str
    present: str


@dataclass(frozen=True)
class GraphSpec:
    """The convention of one decoder graph.

    Attributes:
        family: short name of the convention, for people.
        cache: the cache tensors, by layer, key before value; none where every step runs whole rows again.
        num_heads: key/value heads (after grouping); 0 without a cache, as `head_size`.
        head_size: length of one head's vector.
        cache_type: element type of the cache, as onnxruntime writes it (`"tensor(float)"`); `""` without one.
        logits: name of the logits output.
        logits_type: its element type.
        vocab_size: last dimension of the logits, None if the graph leaves it open.
        last_logits_only: the graph gives logits for the last position only.
        mask, positions, branch, keep: name of the optional input, None where the graph lacks it.
        gather: name of the input that says at which positions logits are computed, see `gather_logits`.
        group_query: attention is the GroupQueryAttention operator (past and present may share a buffer).
        in_place: it was put in the place of the exporter's nodes (`OnnxDecoder(cache_in_place=True)`).
        one_row: a run takes one row only (`input_ids [1, sequence]`).
        one_token: a run takes one new token of each row only (`input_ids [batch, 1]`), also of a prompt
            unless another graph reads prompts.
        extras: other inputs, by name, and what they are given.
        static_length: positions of a cache of fixed length, which new tokens are written into; None where the
            cache grows.
        window: tokens that a token sees at most, None where the graph does not say so; layers may differ.
        optional: inputs with a value of their own, which adapters replace.
        quantisation: `"MatMulInteger"`, `"MatMulNBits"` or None.
        padding: how rows of different length may share a run.
        prompts: the convention of the graph that reads prompts, where that is one of its own.
        limits: inputs that say whether the texts of a run are longer than a number of tokens, and the number,
            in its order; see `with_limits_as_inputs`.
        states: tensors of fixed size that a run takes and gives for each row, by layer.
        least_capacity: fewest positions that the operators take as a slot, however short the rows are.
    """

    family: str
    cache: tuple[CacheTensor, ...]
    num_heads: int
    head_size: int
    cache_type: str
    logits: str
    logits_type: str
    vocab_size: int | None
    last_logits_only: bool
    mask: str | None
    positions: str | None
    branch: str | None
    keep: str | None
    gather: str | None
    group_query: bool
    one_row: bool
    one_token: bool
    extras: tuple[tuple[str, Extra], ...]
    static_length: int | None
    window: int | None
    optional: tuple[str, ...]
    quantisation: str | None
    padding: Padding
    prompts: GraphSpec | None = None
    in_place: bool = False
    limits: tuple[tuple[str, int], ...] = ()
    states: tuple[StateTensor, ...] = ()
    least_capacity: int = 0

    def gives_last_only(self, last: bool) -> bool:
        """Whether a run asked for the `last` logits, or for all, gives those of its last position alone.

        In a row that is shorter than others that position is filler, so only rows with equally many new
        tokens share such a run. (Through `gather` each row gets its own.)
        """
        return self.last_logits_only or (last and self.keep is not None)

    @classmethod
    def from_session(
        cls,
        session: SessionLike,
        config: ModelConfig | None = None,
        *,
        prompts: bool = False,
        static_length: int | None = None,
        states: Sequence[StateTensor] = (),
        in_place: bool = False,
    ) -> GraphSpec:
        """Detect the convention of the graph that `session` runs.

        Args:
            session: an onnxruntime session (anything with `get_inputs` and `get_outputs`).
            config: what the model's directory says; the graph alone does not show its operators, and not
                always the size of its cache.
            prompts: the graph reads the prompts of a pair of graphs: it gives a cache and takes none.
            static_length: positions of a fixed cache, where the graph leaves its length open.
            states: those that the graph for prompts gives, where this one leaves their sizes open.
            in_place: its attention was replaced by GroupQueryAttention.

        Returns:
            The specification.

        Raises:
            ValueError: if the graph follows no supported convention; the message lists its inputs and
                outputs.

        Example:
            >>> from lite.models import OnnxDecoder, embedded_model_path
            >>> OnnxDecoder(embedded_model_path()).spec.padding
            <Padding.LEFT: 'left'>

        Warns:
            UserWarning: for dynamically quantised graphs (MatMulInteger), whose log-probs depend on what
                else is in the same run.
        """
        inputs = {arg.name: arg for arg in session.get_inputs()}
        outputs = {arg.name: arg for arg in session.get_outputs()}
        try:
            spec = _detect(inputs, outputs, config, prompts, static_length, states, in_place)
        except ValueError as error:
            raise ValueError(
                f"{error}. Inputs: {_listing(inputs)}. Outputs: {_listing(outputs)}. Supported: {SUPPORTED}"
            ) from None
        spec = replace(spec, optional=tuple(sorted(optional_inputs(session))))
        if spec.quantisation == "MatMulInteger" and not prompts:  # of a pair, say it once
            warn(
                "this graph is dynamically quantised (MatMulInteger): its log-probs depend on the other "
                "tokens of a run (by 0.1 to 0.25 typically), so scores will not match those of generation. "
                "Prefer an export in float32 or with MatMulNBits",
                UserWarning,
            )
        return spec


def _detect(
    inputs: Mapping[str, NodeArg], outputs: Mapping[str, NodeArg], config: ModelConfig | None, prompts: bool,
    static_length: int | None, given: Sequence[StateTensor], in_place: bool,
) -> GraphSpec:  # fmt: skip
    ids = inputs.get(_IDS)
    if ids is None:
        raise ValueError("the graph has no input named input_ids")
    if len(ids.shape) != 2:
        raise ValueError(
            f"input_ids has {len(ids.shape)} dimensions instead of 2 (paged attention is not supported)"
        )
    cache = _cache_tensors(inputs, outputs, prompts)
    states = _state_tensors(inputs, outputs, prompts, given)
    extras = _extras(inputs)
    for name in (_IDS, _POSITIONS, *_KEEP, *(name for name, _ in extras)):
        if name in inputs and inputs[name].type not in _INTEGERS:
            raise ValueError(f"{name} has type {inputs[name].type} instead of int64 or int32")
    if _MASK in inputs:
        _check_mask(inputs[_MASK])
    rows, steps = _fixed_sizes(ids, steps_of_one=bool(cache) and not prompts)
    keep = next((name for name in _KEEP if name in inputs), None)
    gather = POSITIONS_INPUT if POSITIONS_INPUT in inputs else None
    limits = sorted((int(match[1]), name) for name in inputs if (match := LIMIT_INPUT.fullmatch(name)))
    known = {_IDS, _MASK, _POSITIONS, _BRANCH, keep, gather} | {tensor.past for tensor in cache}
    known |= {name for _, name in limits} | {state.past for state in states}
    unknown = sorted(set(inputs) - known - {name for name, _ in extras})
    if unknown:
        raise ValueError(f"the graph has inputs of an unknown kind ({', '.join(unknown)})")
    logits = _logits(outputs)
    summary = config.summary if config else None
    operators = summary.op_types if summary else frozenset[str]()
    group_query = "GroupQueryAttention" in operators
    if not operators:  # the graph was not at hand as a file: genai's builder is what makes such graphs
        group_query = bool(config and config.genai)
    # Without a past, rows are padded on the right in any case; a bias is as wide as the tokens, not a slot.
    group_query = group_query and not prompts and not (summary and summary.biased_attention)
    branch = _BRANCH if _BRANCH in inputs else None
    family = _family(group_query, branch, cache, config)
    group_query |= in_place
    heads, head_size, cache_type, static = 0, 0, "", None
    if cache:
        _check_alike([inputs[tensor.past] for tensor in cache if tensor.past])
        _check_alike([outputs[tensor.present] for tensor in cache])
        past, present = inputs.get(cache[0].past), outputs[cache[0].present]
        heads, head_size, cache_type = _cache_sizes(past or present, config)
        static = _static_length(past, present, group_query, dict(extras), static_length)
    mask = _MASK if _MASK in inputs else None
    positions = _POSITIONS if _POSITIONS in inputs else None
    if mask and len(inputs[mask].shape) == 4 and static is None:
        raise ValueError("attention_mask has 4 dimensions, which goes with a cache of fixed length only")
    if group_query:
        _check_group_query(mask, extras)
    return GraphSpec(
        family=family,
        cache=cache,
        num_heads=heads,
        head_size=head_size,
        cache_type=cache_type,
        logits=logits.name,
        logits_type=logits.type,
        vocab_size=_dimension(logits.shape[2]),
        last_logits_only=_dimension(logits.shape[1]) == 1 and steps != 1,
        mask=mask,
        positions=positions,
        branch=branch,
        keep=keep,
        gather=gather,
        group_query=group_query,
        one_row=rows == 1,
        one_token=steps == 1,
        extras=extras,
        static_length=static,
        window=summary.window if summary else None,
        optional=(),
        quantisation=next((op for op in ("MatMulInteger", "MatMulNBits") if op in operators), None),
        padding=_padding(group_query, mask, positions, static) if cache else Padding.RIGHT,
        in_place=in_place,
        limits=tuple((name, limit) for limit, name in limits),
        states=states,
        least_capacity=summary.windowed_cache if summary else 0,
    )


def _fixed_sizes(ids: NodeArg, steps_of_one: bool) -> tuple[int | None, int | None]:
    """The numbers of rows and of new tokens that a run takes, if they are fixed."""
    rows, steps = (_dimension(size) for size in ids.shape)
    if rows not in (None, 1):
        raise ValueError(f"input_ids has a fixed batch of {rows} rows; it must be open, or 1")
    if steps not in (None, 1) or (steps and not steps_of_one):
        other = "or 1" if steps_of_one else "as there is no key/value cache"
        raise ValueError(f"input_ids has a fixed length of {steps} new tokens; it must be open, {other}")
    return rows, steps


def _logits(outputs: Mapping[str, NodeArg]) -> NodeArg:
    logits = outputs.get("logits")
    if logits is None or len(logits.shape) != 3:
        raise ValueError("the graph has no output named logits of three dimensions")
    if logits.type not in ("tensor(float)", "tensor(float16)"):
        raise ValueError(f"logits has type {logits.type} instead of float or float16")
    return logits


def _check_group_query(mask: str | None, extras: Iterable[tuple[str, Extra]]) -> None:
    if mask is None:
        raise ValueError(
            "a GroupQueryAttention graph without attention_mask hides where it takes lengths from"
        )
    if odd := [name for name, kind in extras if kind is not Extra.ZEROS]:
        raise ValueError(f"a GroupQueryAttention graph takes one {odd[0]} for rows of different length")


def _extras(inputs: Mapping[str, NodeArg]) -> tuple[tuple[str, Extra], ...]:
    kinds = ((name, _EXTRAS.get(name.rpartition(".")[2])) for name in inputs)
    return tuple((name, kind) for name, kind in kinds if kind is not None)


def _check_mask(mask: NodeArg) -> None:
    rank = len(mask.shape)
    if rank == 4 and mask.type == "tensor(bool)":
        return
    if rank != 2 or mask.type not in (*_INTEGERS, "tensor(bool)"):
        raise ValueError(
            f"attention_mask has type {mask.type} and {rank} dimensions instead of integers or bools of 2, "
            "or bools of 4"
        )


def _static_length(
    past: NodeArg | None, present: NodeArg, group_query: bool, extras: Mapping[str, Extra], given: int | None
) -> int | None:
    """Positions of a cache of fixed length, None for one that grows.

    Its past is as long as its present, and an input says where new tokens go.
    """
    length = _dimension(present.shape[2])
    if past is None:  # of a graph that reads prompts: it makes the cache
        return length
    fixed = _dimension(past.shape[2]) or length
    told = any(kind in (Extra.PAST, Extra.COLUMNS) for kind in extras.values())
    if group_query or not told:
        if fixed is not None:
            raise ValueError(
                f"{past.name} has a fixed length of {fixed} (a static cache), and no input says where in it "
                "to write (cumulative_length, cache_position)"
            )
        return None
    counted = any(name.rpartition(".")[2] == "cumulative_length" for name in extras)
    if fixed is None and not (counted and past.shape[2] == present.shape[2]):
        return None  # it grows by the new tokens, whatever its sizes are called
    if fixed is None and given is None:
        raise ValueError(
            f"{past.name} is as long as {present.name} (a static cache), and neither the graph nor its "
            "configuration files say how long"
        )
    return fixed or given


def _padding(group_query: bool, mask: str | None, positions: str | None, static: int | None) -> Padding:
    """Without positions as an input they are the index in the cache, so a row may never be moved in it.

    (Rotary graphs are exact under left padding even then, as long as a row keeps its padding for good; rows
    that join, leave and are cut do not.) In a cache of fixed length, padding takes the room of tokens.
    """
    if group_query:
        return Padding.SLOTS
    if static is not None:
        return Padding.EQUAL
    return Padding.LEFT if mask and positions else Padding.EQUAL


def _family(
    group_query: bool, branch: str | None, cache: Sequence[CacheTensor], config: ModelConfig | None
) -> str:
    producer = config.summary.producer if config and config.summary else ""
    if not cache:
        return "no cache"
    if group_query:
        return "genai" if producer == "onnxruntime-genai" or (config and config.genai) else "group-query"
    if branch:
        return "merged"
    # (what transformers' exporter calls its presents begins with "past_key_values.", as its pasts do)
    return "optimum" if cache[0].present.startswith("present") else "exporter"


def _cache_tensors(
    inputs: Mapping[str, NodeArg], outputs: Mapping[str, NodeArg], prompts: bool
) -> tuple[CacheTensor, ...]:
    """Pair the cache's inputs and outputs by (layer, kind): their order differs between exporters."""
    pasts, presents = _by_layer(inputs), _by_layer(outputs)
    if prompts:
        if pasts or not presents:
            raise ValueError("the graph that reads the prompts of a pair gives a cache and takes none")
        pasts = dict.fromkeys(presents, "")
    if presents and not pasts:
        raise ValueError("the graph gives a cache but takes none (the prefill half of a pair of graphs)")
    if set(pasts) != set(presents):
        odd = sorted(set(pasts) ^ set(presents))
        raise ValueError(f"its cache inputs and outputs do not match; without a partner: {odd}")
    layers = sorted({layer for layer, _ in pasts})
    if any((layer, kind) not in pasts for layer in layers for kind in ("key", "value")):
        raise ValueError("its cache is not one key and one value per layer")
    return tuple(CacheTensor(*at, past=pasts[at], present=presents[at]) for at in sorted(pasts))


def _state_tensors(
    inputs: Mapping[str, NodeArg], outputs: Mapping[str, NodeArg], prompts: bool, given: Sequence[StateTensor]
) -> tuple[StateTensor, ...]:
    """Pair the inputs and outputs that are states of fixed size, as `_cache_tensors` does."""
    pasts, presents = _by_layer(inputs, _STATE), _by_layer(outputs, _STATE)
    if prompts and not pasts:
        pasts = dict.fromkeys(presents, "")
    if set(pasts) != set(presents):
        odd = sorted(set(pasts) ^ set(presents))
        raise ValueError(f"its inputs and outputs of states do not match; without a partner: {odd}")
    states = []
    for place, at in enumerate(sorted(presents)):
        arg = inputs[pasts[at]] if pasts[at] else outputs[presents[at]]
        other = given[place].shape if len(given) == len(presents) else ()
        sizes = [_dimension(size) for size in arg.shape[1:]]
        shape = tuple(size or told for size, told in itertools.zip_longest(sizes, other[: len(sizes)]))
        if not all(shape) or arg.type not in ELEMENT_TYPES:
            raise ValueError(
                f"{arg.name} has type {arg.type} and shape {list(arg.shape)}; a state needs numbers of known "
                "sizes behind the batch"
            )
        states.append(StateTensor(pasts[at], presents[at], tuple(size for size in shape if size), arg.type))
    return tuple(states)


def _check_alike(tensors: Sequence[NodeArg]) -> None:
    """Raise ValueError where layers differ in their sizes or types: they share the shape of buffers."""
    for first, other in itertools.pairwise(tensors):
        one, two = ([_dimension(size) for size in arg.shape] for arg in (first, other))
        same = len(one) == len(two) and all(a == b or None in (a, b) for a, b in zip(one, two, strict=True))
        if not same or first.type != other.type:
            raise ValueError(
                f"its cache tensors differ: {first.name} {first.type[7:-1]}{list(first.shape)} and "
                f"{other.name} {other.type[7:-1]}{list(other.shape)}"
            )


def _cache_sizes(past: NodeArg, config: ModelConfig | None) -> tuple[int, int, str]:
    """Heads, head size and element type of a cache tensor."""
    if len(past.shape) != 4:
        raise ValueError(f"{past.name} has {len(past.shape)} dimensions instead of 4")
    if past.type not in ELEMENT_TYPES:
        raise ValueError(f"{past.name} has the unsupported type {past.type}")
    heads = (
        _dimension(past.shape[1])
        or _configured(config, ("num_key_value_heads",), ("num_key_value_heads", "num_kv_heads"))
        or query_heads(config)
    )
    configured = _head_size(config)
    if configured and past.type == "tensor(uint8)":
        configured = (configured + 1) // 2  # two numbers of four bits share a byte
    head_size = _dimension(past.shape[3]) or configured
    if not heads or not head_size:
        raise ValueError("neither the graph nor its configuration files say the cache's heads and head size")
    return heads, head_size, past.type


def _by_layer(args: Mapping[str, NodeArg], kinds: str = "key|value") -> dict[tuple[int, str], str]:
    found: dict[tuple[int, str], str] = {}
    for name in args:
        short = name.lower().replace("past_key_values", "pkv")
        if not re.search(r"past|present|cache|pkv", short) or name == _BRANCH:
            continue
        layer = re.search(r"\d+", short)
        kind = re.search(rf"(?<![a-z])({kinds})s?(?![a-z])", short)
        if layer is None or kind is None:
            continue
        at = int(layer.group()), kind.group(1)
        if at in found:
            raise ValueError(f"{found[at]} and {name} both look like the {at[1]} cache of layer {at[0]}")
        found[at] = name
    return found


def _dimension(value: int | str | None) -> int | None:
    """A dimension's number; some exporters write it as a string of digits. None for a symbolic one."""
    if isinstance(value, int):
        return value if value > 0 else None
    return (
        int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and int(value) else None
    )


def _configured(config: ModelConfig | None, genai: Sequence[str], raw: Sequence[str]) -> int | None:
    if config is None:
        return None
    model = config.genai.get("model")
    decoder: Any = model.get("decoder") if isinstance(model, dict) else None
    candidates = [decoder.get(key) for key in genai] if isinstance(decoder, dict) else []
    candidates += [config.raw.get(key) for key in raw]
    positive: Callable[[Any], bool] = lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0  # noqa: E731
    return next((value for value in candidates if positive(value)), None)


def _head_size(config: ModelConfig | None) -> int | None:
    given = _configured(config, ("head_size",), ("head_dim",))
    if given:
        return given
    # hidden // heads is the last resort: it is wrong for models whose heads do not add up to the hidden size
    hidden = _configured(config, ("hidden_size",), ("hidden_size", "n_embd"))
    heads = _configured(config, ("num_attention_heads",), ("num_attention_heads", "n_head"))
    return hidden // heads if hidden and heads else None


def query_heads(config: ModelConfig | None) -> int | None:
    """The number of heads of queries; None if no file has it."""
    return _configured(config, ("num_attention_heads",), ("num_attention_heads", "n_head", "num_heads"))


def optional_inputs(session: SessionLike) -> dict[str, NodeArg]:
    """The inputs that have a value of their own, by name."""
    overridable = getattr(session, "get_overridable_initializers", tuple)  # a stand-in need not have any
    return {arg.name: arg for arg in overridable()}


def has_own_switch(session: SessionLike) -> bool:
    """Whether the graph by itself can give, or always gives, the logits of the last positions only."""
    shape = next((arg.shape for arg in session.get_outputs() if arg.name == "logits"), [])
    return any(arg.name in _KEEP for arg in session.get_inputs()) or (len(shape) == 3 and shape[1] == 1)


def _listing(args: Mapping[str, NodeArg]) -> str:
    """The graph's own inputs or outputs, without those that were put into it (`lite_positions`, ...)."""
    own = [arg for arg in args.values() if not arg.name.startswith("lite_")]
    return ", ".join(f"{arg.name} {arg.type[7:-1]}{list(arg.shape)}" for arg in own) or "none"
