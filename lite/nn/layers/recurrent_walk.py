"""What recurrent layers share: weights by layer and direction, checks, and the walk through time.

`weight_ih` is applied to all time steps in one product of matrices; what is left for each step is in
`lite.nn.layers.recurrent_cells`.
"""

from __future__ import annotations

import itertools
import math
import numbers
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from lite._arrays.dtypes import compute_dtype
from lite.nn._modules.initial import empty_parameter, fill_uniform, reset
from lite.nn._modules.module import Module
from lite.nn.layers.dropout import dropout, generator
from lite.nn.layers.linear import linear
from lite.nn.layers.recurrent_cells import State, Step, split_bias

if TYPE_CHECKING:
    from lite.nn._modules.initial import Rng


class Recurrent(Module):
    """RNN, LSTM and GRU but for what they do in a step."""

    _gates: int
    _step: Step
    _states: tuple[str, ...] = ("hx",)
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        device: Any,
        dtype: Any,
        rng: Rng,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(dropout, numbers.Real) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability in [0, 1], got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"dropout comes between layers, so dropout={dropout} does nothing with num_layers=1",
                UserWarning,
                stacklevel=3,
            )
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} must be a bool, got {flag!r}")
        sizes = {"input_size": input_size, "hidden_size": hidden_size, "num_layers": num_layers}
        for name, size in sizes.items():
            if not isinstance(size, int):
                raise TypeError(f"{name} must be an int, got {size!r}")
            if size <= 0:
                raise ValueError(f"{name} must be positive, got {size}")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(f"proj_size must be in [0, hidden_size={hidden_size}), got {proj_size}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        # The names of the parameters, for each layer and direction.
        self._names: list[list[str]] = []
        size = proj_size or hidden_size
        rows = self._gates * hidden_size
        for layer in range(num_layers):
            columns = input_size if layer == 0 else size * (1 + bidirectional)
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, size)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in (f"_l{layer}", f"_l{layer}_reverse")[: 1 + bidirectional]:
                for name, shape in shapes.items():
                    self.register_parameter(name + suffix, empty_parameter(shape, device, dtype))
                self._names.append([name + suffix for name in shapes])
        self._rng: Rng = None if rng is None else np.random.default_rng(rng)
        reset(self, self._rng)

    def reset_parameters(self, rng: Rng = None) -> None:
        """Draw all parameters anew from U(-1/√hidden_size, 1/√hidden_size), in place."""
        rng = np.random.default_rng(rng)
        for name in itertools.chain(*self._names):
            fill_uniform(self._tensor(name), 1.0 / math.sqrt(self.hidden_size), rng)

    def flatten_parameters(self) -> None:
        """Do nothing; torch rearranges weights on GPUs."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._names]

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """Outputs at all times and last states."""
        out, (h,) = self._run(input, None if hx is None else (hx,))
        return out, h

    def _run(self, input: Any, given: State | None) -> tuple[Any, State]:
        """Output (in the order of the input's dimensions) and last states."""
        self._check(input)
        batched = input.ndim == 3
        time_first = not (batched and self.batch_first)
        x = input if batched else input[:, None]
        x = x if time_first else x.swapaxes(0, 1)
        state, compute, result = self._initial(x, given, batched)
        x = x.astype(compute, copy=False)
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.training and self.dropout:
                x = dropout(x, self.dropout, generator(self))
            outputs = []
            for _ in range(1 + self.bidirectional):
                start = tuple(s[len(last)] for s in state)
                out, end = self._walk(x, start, len(last), compute)
                outputs.append(out)
                last.append(end)
            x = outputs[0] if len(outputs) == 1 else np.concatenate(outputs, axis=-1)
        ends = (np.stack(column) for column in zip(*last, strict=True))
        x = x if time_first else x.swapaxes(0, 1)
        if not batched:
            x, ends = x[:, 0], (end[:, 0] for end in ends)
        return x.astype(result, copy=False), tuple(end.astype(result, copy=False) for end in ends)

    def _walk(self, x: Any, state: State, index: int, compute: Any) -> tuple[Any, State]:
        """Outputs of a layer in one direction, the `index`th, for x (T, N, size), and the last state."""
        weights = [self._tensor(name).astype(compute, copy=False) for name in self._names[index]]
        b_ih, b_hh = weights[2:4] if self.bias else (None, None)
        bias, rest = split_bias(self._step, b_ih, b_hh)
        steps = linear(x, weights[0], bias)
        recurrent = weights[1].swapaxes(-1, -2).copy()  # BLAS takes half the time for rows in order
        projection = weights[-1].swapaxes(-1, -2) if self.proj_size else None
        times = range(x.shape[0])
        back = self.bidirectional and index % 2 == 1
        outputs = []
        for t in reversed(times) if back else times:
            state = self._step(steps[t], state, recurrent, rest, projection)
            outputs.append(state[0])
        return np.stack(outputs[::-1] if back else outputs), state

    def _check(self, input: Any) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(
                f"the input must have 2 dimensions, or 3 with a batch, got shape {tuple(input.shape)}"
            )
        size = self._tensor("weight_ih_l0").shape[-1]
        if input.shape[-1] != size:
            raise RuntimeError(
                f"the last dimension of the input must be input_size={size}, got {tuple(input.shape)}"
            )
        time = 1 if input.ndim == 3 and self.batch_first else 0
        if input.shape[time] == 0:
            raise RuntimeError(f"a sequence must have at least one step, got {tuple(input.shape)}")

    def _initial(self, x: Any, given: State | None, batched: bool) -> tuple[State, Any, Any]:
        """The first states (layers and directions, N, size) of x (T, N, size), and both dtypes."""
        count = self.num_layers * (1 + self.bidirectional)
        widths = (self.proj_size or self.hidden_size, self.hidden_size)
        shapes = [(count, x.shape[1], width) for width in widths[: len(self._states)]]
        dtypes = [x.dtype, self._tensor("weight_ih_l0").dtype]
        if given is None:
            compute, result = compute_dtype(*dtypes)
            return tuple(np.zeros(shape, compute) for shape in shapes), compute, result
        if len(given) != len(self._states):
            raise ValueError(f"hx must be a tuple of the states h and c, got {len(given)}")
        for name, h, shape in zip(self._states, given, shapes, strict=True):
            wanted = shape if batched else (shape[0], shape[2])
            if tuple(h.shape) != wanted:
                raise RuntimeError(f"{name} must have shape {wanted}, got {tuple(h.shape)}")
        compute, result = compute_dtype(*dtypes, *(h.dtype for h in given))
        states = (h if batched else h[:, None] for h in given)
        return tuple(h.astype(compute, copy=False) for h in states), compute, result

    def extra_repr(self) -> str:
        """The sizes, and options that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text
