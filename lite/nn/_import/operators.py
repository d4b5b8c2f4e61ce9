"""The registry of ONNX operators: a rule reads a node once and returns the function that computes it.

The rules of a family of operators are in one file; `rule_of` imports all families on its first call. Rules
call NumPy's functions, so they run on arrays, under `grad` and `vmap`, and in a trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from lite._files.onnx.arrays import dtype_of
from lite.nn._import.limits import Memory

MICROSOFT = "com.microsoft"
ML = "ai.onnx.ml"

Run = Callable[..., Any]
"""Computes a node: from its inputs (None for a missing one) its output, or a tuple of outputs."""

Build = Callable[["Spec"], Run]
F = TypeVar("F", bound=Callable[..., Any])

_RULES: dict[tuple[str, str], Build] = {}
_FAMILIES = (
    "elementwise", "creation", "shapes", "selecting", "reductions", "products", "convolution", "pooling",
    "images", "normalization", "recurrent", "attention", "quantized", "control", "sequences",
)  # fmt: skip


class Unsupported(Exception):
    """Raised by a rule for a node that it does not support; the message says why."""


# Sizes and counts that rules use as divisors or steps.
_AT_LEAST_ONE = frozenset(
    {"K", "N", "blocksize", "dilations", "group", "hidden_size", "kernel_shape", "kv_num_heads"}
    | {"num_groups", "num_heads", "num_outputs", "q_num_heads", "strides"}
)
# The type of each attribute; (int,) is a list of integers. "to" and "value" have several types, which the
# rules of their operators check.
_NAMES_BY_TYPE: dict[type | tuple[type], str] = {
    int: """
        accuracy_level align_corners allowzero antialias axis batch_axis batch_dims bits block_size
        blocksize ceil_mode channels_last count_include_pad detect_negative detect_positive do_rotary
        dtype end exclude_outside exclusive fmod gather_axis group hidden_size ignore_index input_forget
        interleaved is_causal K k keepdims kv_cache_bit_width kv_num_heads largest layout
        left_window_size linear_before_reset local_window_size N new_axis noop_with_empty_axes
        num_groups num_heads num_outputs num_scan_inputs opset output_dtype p past_present_share_buffer
        q_num_heads qk_matmul_output_mode quantize_axis replaced_value_int64 reverse right_window_size
        rotary_embedding_dim rotary_interleaved select_last_index size smooth_softmax softmax_precision
        sorted start storage_order targets time_axis training_mode transA transB transBatchA transBatchB
        unidirectional upper value_int zeros
    """,
    float: """
        alpha beta bias clip cubic_coeff_a epsilon extrapolation_value gamma height_scale lambd
        mask_filter_value max min momentum ratio replaced_value_float scale softcap threshold
        value_float width_scale
    """,
    str: """
        activation approximate auto_pad coordinate_transformation_mode direction equation k_quant_type
        keep_aspect_ratio_policy mode nearest_mode norm padding_mode post_transform reduction round_mode
        update_rule v_quant_type value_string
    """,
    (int,): """
        axes cats_int64s classlabels_ints dilations directions ends imputed_value_int64s kernel_shape
        output_padding output_shape paddings pads perm qkv_hidden_sizes scan_input_axes
        scan_input_directions scan_output_axes scan_output_directions shape split starts strides
        value_ints
    """,
    (float,): """
        activation_alpha activation_beta activation_params coefficients imputed_value_floats intercepts
        offset scales value_floats
    """,
    (str,): """
        activations value_strings
    """,
}
_TYPES = {name: kind for kind, names in _NAMES_BY_TYPE.items() for name in names.split()}
_OTHER_TYPES: dict[tuple[str, str], type | tuple[type]] = {
    ("Scaler", "scale"): (float,),
    ("FusedGemm", "activation_alpha"): float,
    ("FusedGemm", "activation_beta"): float,
}
_FEW = 1 << 10  # integers of a constant that are read when a graph is
_TYPE_NAMES = {int: "an integer", float: "a float", str: "a text"}


@dataclass(frozen=True)
class Spec:
    """A node, as a rule reads it.

    Attributes:
        op, domain, name: operator, domain and name of the node.
        opset: the version of its domain's operators.
        attributes: values by name.
        given: for each input, whether it is given.
        outputs: for each output, whether it is used.
        bodies: functions that run the graphs among the attributes, by name.
        compute_dtype: the dtype that float16 and bfloat16 are computed in; None to keep them.
        memory: the limit for results that are computed from constants; None if there is none.
        as_runtime: compute as a runtime does: see `Options` of `program.py`.
        constants: the values of inputs that are the same in each run; None for others.
    """

    op: str
    domain: str
    name: str
    opset: int
    attributes: dict[str, Any]
    given: tuple[bool, ...]
    outputs: tuple[bool, ...]
    bodies: dict[str, Any] = field(default_factory=dict)
    compute_dtype: np.dtype[Any] | None = None
    memory: Memory | None = None
    as_runtime: bool = False
    constants: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        for name, value in self.attributes.items():
            self._check_type(name, value)
        # RotaryEmbedding derives num_heads=0 from the width.
        counted = _AT_LEAST_ONE - {"num_heads"} if self.op == "RotaryEmbedding" else _AT_LEAST_ONE
        for name in counted.intersection(self.attributes):
            value = self.attributes[name]
            if np.size(value) and np.min(value) < 1:
                raise ValueError(f"{self.op} {self.name!r}: {name} must be at least 1, got {value!r}")

    def _check_type(self, name: str, value: Any) -> None:
        expected_type = _OTHER_TYPES.get((self.op, name)) or _TYPES.get(name)
        if expected_type is None:
            return
        if isinstance(expected_type, tuple):
            fits = isinstance(value, list | tuple) and all(type(x) is expected_type[0] for x in value)
            expected = f"a list of {_TYPE_NAMES[expected_type[0]].split()[-1]}s"
        else:
            # "p" of LpPool was a float in opset 1.
            fits = type(value) is expected_type or (name == "p" and type(value) is float)
            expected = _TYPE_NAMES[expected_type]
        if not fits:
            shown = type(value).__name__ if isinstance(value, np.ndarray) else repr(value)
            raise ValueError(f"{self.op} {self.name!r}: {name} must be {expected}, got {shown[:60]}")

    def need(self, name: str) -> Any:
        """A required attribute. Raises ValueError if it is missing."""
        if name not in self.attributes:
            raise ValueError(f"{self.op} {self.name!r}: the attribute {name} is missing")
        return self.attributes[name]

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def ints(self, name: str, place: int | None = None) -> tuple[int, ...] | None:
        """An attribute of integers; without it those of the input at a place, if it is a constant."""
        found = self.attributes.get(name)
        if found is None and place is not None and place < len(self.constants):
            value = self.constants[place]
            if type(value) is np.ndarray and value.dtype.kind == "i" and value.size <= _FEW:
                found = value.reshape(-1).tolist()
        return None if found is None else tuple(map(int, found))

    def has_input(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.given) and self.given[index]

    def uses_output(self, index: int) -> bool:
        """Whether an output is used."""
        return index < len(self.outputs) and self.outputs[index]

    def dtype(self, element_type: int) -> np.dtype[Any]:
        """The dtype to compute an element type of ONNX in."""
        return self.computed_in(dtype_of(element_type))

    def computed_in(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype to compute in: `compute_dtype` for float16 and bfloat16."""
        is_half = dtype.name in ("float16", "bfloat16")
        return self.compute_dtype if is_half and self.compute_dtype is not None else dtype


@dataclass
class Step:
    """A node that is ready to run.

    Attributes:
        run: computes the node.
        inputs: indices of values; value 0 is None.
        outputs: indices of values, 0 for an unused output; an int if `run` returns one value.
        label: its name and operator, for messages.
        op: its operator; empty for a domain other than ONNX's.
        done: indices of values that no later step reads.
        plan: the same as the first run of it took it apart, which later ones read in a third of the time:
            `run`, the number of inputs, up to three of them, or what gives more from all values, the outputs,
            a value that is done or 0, and others.
    """

    run: Run
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] | int
    label: str
    op: str = ""
    done: tuple[int, ...] = ()
    plan: tuple[Any, ...] | None = field(init=False, default=None)

    def planned(self) -> tuple[Any, ...]:
        """Make the plan, after which the step stays as it is."""
        count = len(self.inputs)
        read: tuple[Any, ...] = self.inputs
        if not 0 < count < 4:
            read = (itemgetter(*self.inputs) if count else _none_of,)
        done, *more = self.done or (0,)
        self.plan = (self.run, count, *(*read, 0, 0)[:3], self.outputs, done, more)
        return self.plan


def _none_of(values: Any) -> tuple[Any, ...]:
    return ()


def operator(*names: str, domain: str = "") -> Callable[[F], F]:
    """Register `fn(spec)`, which returns the function that computes the node."""

    def register(fn: F) -> F:
        for name in names:
            _RULES[domain, name] = fn
        return fn

    return register


def simple(fn: Run, *names: str, domain: str = "") -> None:
    """Register operators without attributes, computed by `fn`."""

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
