"""The table of operators: for each, a function that reads a node once and gives what computes it.

The rules of a family stand in one file, which `rule_of` loads at the first use of one of its operators.
Rules are written with NumPy's functions, so they run on arrays, under `grad` and `vmap`, and in a trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from lite._files.onnx.arrays import dtype_of
from lite.nn._import.limits import Memory

MICROSOFT = "com.microsoft"

Run = Callable[..., Any]
"""What computes a node: of its inputs (None for one that is left out) its output, or a tuple of outputs."""

Build = Callable[["Spec"], Run]
F = TypeVar("F", bound=Callable[..., Any])

_RULES: dict[tuple[str, str], Build] = {}
_FAMILIES = (
    "elementwise",
    "creation",
    "shapes",
    "selecting",
    "reductions",
    "products",
    "convolution",
    "pooling",
    "images",
    "normalization",
    "recurrent",
    "attention",
    "quantized",
    "control",
    "sequences",
)


class Unsupported(Exception):
    """Raised by a rule for a node that it does not cover; the text says what."""


# Sizes and counts by which rules divide or step.
_AT_LEAST_ONE = frozenset(
    {"K", "N", "blocksize", "dilations", "group", "hidden_size", "kernel_shape", "kv_num_heads"}
    | {"num_groups", "num_heads", "num_outputs", "q_num_heads", "strides"}
)
# What attributes are, wherever a rule reads them; of a tuple a list of such. "to" and "value" are no one
# thing, and are read with their node.
_KINDS: dict[str, type | tuple[type]] = {
    **dict.fromkeys(
        ("K", "N", "accuracy_level", "align_corners", "allowzero", "antialias", "axis", "batch_axis")
        + ("batch_dims", "bits", "block_size", "blocksize", "ceil_mode", "count_include_pad")
        + ("detect_negative", "detect_positive", "do_rotary", "dtype", "end", "exclude_outside", "exclusive")
        + ("fmod", "gather_axis", "group", "hidden_size", "ignore_index", "input_forget", "interleaved")
        + ("is_causal", "k", "keepdims", "kv_cache_bit_width", "kv_num_heads", "largest", "layout")
        + ("left_window_size", "linear_before_reset", "local_window_size", "new_axis")
        + ("noop_with_empty_axes", "num_groups", "num_heads", "num_outputs", "num_scan_inputs")
        + ("output_dtype", "p", "q_num_heads", "qk_matmul_output_mode", "quantize_axis", "reverse")
        + ("right_window_size", "rotary_embedding_dim", "rotary_interleaved", "select_last_index", "size")
        + ("smooth_softmax", "softmax_precision", "sorted", "start", "storage_order", "time_axis")
        + ("training_mode", "transA", "transB", "transBatchA", "transBatchB", "upper", "value_int"),
        int,
    ),
    **dict.fromkeys(
        ("alpha", "beta", "bias", "clip", "cubic_coeff_a", "epsilon", "extrapolation_value", "gamma")
        + ("height_scale", "lambd", "max", "min", "momentum", "ratio", "scale", "softcap", "value_float")
        + ("width_scale",),
        float,
    ),
    **dict.fromkeys(
        ("activation", "approximate", "auto_pad", "coordinate_transformation_mode", "direction", "equation")
        + ("k_quant_type", "keep_aspect_ratio_policy", "mode", "nearest_mode", "padding_mode", "reduction")
        + ("round_mode", "update_rule", "v_quant_type", "value_string"),
        str,
    ),
    **dict.fromkeys(
        ("axes", "dilations", "directions", "ends", "kernel_shape", "output_padding", "output_shape")
        + ("paddings", "pads", "perm", "scan_input_axes", "scan_input_directions", "scan_output_axes")
        + ("scan_output_directions", "shape", "split", "starts", "strides", "value_ints"),
        (int,),
    ),
    **dict.fromkeys(("activation_alpha", "activation_beta", "scales", "value_floats"), (float,)),
    **dict.fromkeys(("activations", "value_strings"), (str,)),
}
_WORDS = {int: "an integer", float: "a float", str: "a text"}


@dataclass(frozen=True)
class Spec:
    """A node, as a rule reads it.

    Attributes:
        op, domain, name: of the node.
        opset: the version of its domain's operators.
        attributes: values by name.
        given: for each input, whether it is given.
        outputs: for each output, whether it is asked for.
        bodies: what runs the graphs among the attributes, by name.
        wide: what float16 and bfloat16 are computed in; None for themselves.
        memory: for what follows from constants, None for none.
        as_runtime: compute as a runtime does: see `Options` of `program.py`.
    """

    op: str
    domain: str
    name: str
    opset: int
    attributes: dict[str, Any]
    given: tuple[bool, ...]
    outputs: tuple[bool, ...]
    bodies: dict[str, Any] = field(default_factory=dict)
    wide: np.dtype[Any] | None = None
    memory: Memory | None = None
    as_runtime: bool = False

    def __post_init__(self) -> None:
        for name, value in self.attributes.items():
            self._check_kind(name, value)
        counted = _AT_LEAST_ONE - {"num_heads"} if self.op == "RotaryEmbedding" else _AT_LEAST_ONE
        for name in counted.intersection(self.attributes):  # no heads are those of the width there
            value = self.attributes[name]
            if np.size(value) and np.min(value) < 1:
                raise ValueError(f"{self.op} {self.name!r}: {name} must be at least 1, got {value!r}")

    def _check_kind(self, name: str, value: Any) -> None:
        kind = _KINDS.get(name)
        if kind is None:
            return
        if isinstance(kind, tuple):
            fits = isinstance(value, list | tuple) and all(type(x) is kind[0] for x in value)
            expected = f"a list of {_WORDS[kind[0]].split()[-1]}s"
        else:
            # p of norms was a float in first versions
            fits, expected = type(value) is kind or (name == "p" and type(value) is float), _WORDS[kind]
        if not fits:
            shown = type(value).__name__ if isinstance(value, np.ndarray) else repr(value)
            raise ValueError(f"{self.op} {self.name!r}: {name} must be {expected}, got {shown[:60]}")

    def need(self, name: str) -> Any:
        """An attribute that has no default. Raises ValueError if it is missing."""
        if name not in self.attributes:
            raise ValueError(f"{self.op} {self.name!r}: the attribute {name} is missing")
        return self.attributes[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def ints(self, name: str) -> tuple[int, ...] | None:
        """An attribute of integers."""
        found = self.attributes.get(name)
        return None if found is None else tuple(map(int, found))

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.given) and self.given[index]

    def asks(self, index: int) -> bool:
        """Whether an output is asked for."""
        return index < len(self.outputs) and self.outputs[index]

    def dtype(self, element_type: int) -> np.dtype[Any]:
        """The dtype that stands for an element type of ONNX."""
        return self.widened(dtype_of(element_type))

    def widened(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype to compute in."""
        return self.wide if self.wide is not None and dtype.name in ("float16", "bfloat16") else dtype


@dataclass
class Step:
    """A node that is ready to run.

    Attributes:
        run: what computes it.
        inputs: numbers of values; 0 is None.
        outputs: numbers of values, 0 for an output that nobody asks for; one number if `run` gives one value.
        label: its name and operator, for messages.
        op: its operator; empty for one of a domain that is not ONNX's.
        done: values that no later step reads.
    """

    run: Run
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] | int
    label: str
    op: str = ""
    done: tuple[int, ...] = ()


def operator(*names: str, domain: str = "") -> Callable[[F], F]:
    """Register `fn(spec)`, which gives what computes the node."""

    def register(fn: F) -> F:
        for name in names:
            _RULES[domain, name] = fn
        return fn

    return register


def simple(fn: Run, *names: str, domain: str = "") -> None:
    """Register operators without attributes, which compute `fn`."""

    def build(spec: Spec) -> Run:
        return fn

    for name in names:
        _RULES[domain, name] = build


def rule_of(domain: str, op: str) -> Build | None:
    """The rule of an operator; None if there is none."""
    _load_families()
    return _RULES.get((domain, op))


@functools.cache
def _load_families() -> None:
    for name in _FAMILIES:
        import_module(f"lite.nn._import.{name}")
