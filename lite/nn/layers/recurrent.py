"""Recurrent layers over whole sequences: RNN, LSTM, GRU.

`weight_ih` is applied to all time steps in one product of matrices; the rest of each step is in
`lite.nn.layers.recurrent_steps`.
"""

from __future__ import annotations

import itertools
import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.caller import warn
from lite._arrays.dtypes import Dtype, compute_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._tree.methods import LazyModule
from lite.nn._modules.initial import Rng, empty_parameter, fill_uniform, reset
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.dropout import dropout, generator
from lite.nn.layers.linear import linear
from lite.nn.layers.recorded import are_plain, is_in_graph
from lite.nn.layers.recurrent_gradients import plain_arrays, recorder, with_back
from lite.nn.layers.recurrent_steps import RNN_STEPS, State, Step, gru_step, lstm_step, split_bias

_scans = LazyModule("lite.nn.layers.recurrent_scans")
_SHORT = 2  # steps that a graph takes one after the other: a loop has the cost of ten operators by itself


class Recurrent(Module):
    """Base of RNN, LSTM and GRU: everything but the computation of a step."""

    _gates: int
    _states: tuple[str, ...] = ("hx",)
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int = 0  # set before `__init__`, which makes the parameters

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        if not isinstance(dropout, numbers.Real) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability in [0, 1], got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warn(
                f"dropout comes between layers, so dropout={dropout} does nothing with num_layers=1",
                UserWarning,
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
        proj_size = self.proj_size
        if not 0 <= proj_size < hidden_size:
            raise ValueError(f"proj_size must be in [0, hidden_size={hidden_size}), got {proj_size}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
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
        """Redraw all parameters from U(-1/√hidden_size, 1/√hidden_size), in place."""
        rng = np.random.default_rng(rng)
        for name in itertools.chain(*self._names):
            fill_uniform(self._held(name), 1.0 / math.sqrt(self.hidden_size), rng)

    def flatten_parameters(self) -> None:
        """Do nothing; torch rearranges weights on GPUs."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._names]

    def _step_function(self) -> Step:
        """The computation of one time step."""
        raise NotImplementedError

    def forward(self, input: Array, hx: Any = None) -> tuple[Array, Any]:
        """Outputs at all times and last states."""
        out, (h,) = self._run(input, None if hx is None else (hx,))
        return out, h

    def _run(self, input: Array, given: State | None) -> tuple[Any, State]:
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

    def scan_episodes(self, x: Array, given: State | None, starts: Array) -> tuple[Any, State]:
        """Outputs and states at all times in a graph, where `starts` are numbers that it does not know.

        Args:
            x: (T, N, size).
            given: states (layers, T, N, size) each, which rows go on from where they start; None for zeros.
            starts: (T, N).

        Returns:
            (T, N, size) and (layers, T, N, size) each.
        """
        first = None if given is None else tuple(h[:, 0] for h in given)
        state, compute, result = self._initial(x, first, True)
        flags, x = starts[..., None], x.astype(compute, copy=False)
        kept: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.training and self.dropout:
                x = dropout(x, self.dropout, generator(self))
            others = () if given is None else (h[layer].astype(compute, copy=False) for h in given)
            weights = [self._tensor(name) for name in self._names[layer]]
            step = self._step_function()
            steps, *constants = _prepared(step, x, weights, self.bias, compute)
            before = tuple(h[layer] for h in state)
            found, _ = _scans.scanned_walk(step, steps, before, *constants, False, (flags, *others))
            x, kept = found[0], [*kept, found]
        states = (np.stack(column).astype(result, copy=False) for column in zip(*kept, strict=True))
        return x.astype(result, copy=False), tuple(states)

    def _walk(self, x: Array, state: State, index: int, compute: Dtype) -> tuple[Any, State]:
        """Outputs of a layer in one direction, the `index`th, for x (T, N, size), and the last state."""
        weights = [self._tensor(name) for name in self._names[index]]
        back = self.bidirectional and index % 2 == 1
        return walk(self._step_function(), x, state, weights, self.bias, back, compute)

    def _check(self, input: Array) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"the input must have 2 dimensions, or 3 with a batch, got {tuple(input.shape)}")
        size = self._tensor("weight_ih_l0").shape[-1]
        if input.shape[-1] != size:
            raise RuntimeError(f"the last dimension must be input_size={size}, got {tuple(input.shape)}")
        time = 1 if input.ndim == 3 and self.batch_first else 0
        if input.shape[time] == 0:
            raise RuntimeError(f"a sequence must have at least one step, got {tuple(input.shape)}")

    def _initial(self, x: Array, given: State | None, batched: bool) -> tuple[State, Any, Any]:
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


def walk(
    step: Step, x: Array, state: State, weights: list[Any], bias: bool, reverse: bool, compute: Dtype
) -> tuple[Any, State]:
    """Outputs (T, N, size) and last states of a layer in one direction; see `recorded_walk` for arguments."""
    operands = plain_arrays((x, *state, *weights))
    x, state, weights = operands[0], tuple(operands[1 : 1 + len(state)]), operands[1 + len(state) :]
    recorded = recorder(operands)
    if recorded is not None:
        return recorded(step, x, state, weights, bias, reverse, compute)
    if are_plain(operands):
        values = [a.astype(compute, copy=False) for a in operands]
        return with_back(step, values, len(state), bias, reverse, False, False)[:2]
    steps, *constants = _prepared(step, x, weights, bias, compute)
    recurrent, rest, projection = constants
    if is_in_graph(steps, *state, *constants) and not _is_short(x.shape[0]):
        (outputs,), state = _scans.scanned_walk(step, steps, state, *constants, reverse)
        return outputs, state
    times, recurrent = range(x.shape[0]), recurrent.copy()  # BLAS takes half the time for rows in order
    outputs = []
    for t in reversed(times) if reverse else times:
        state = step(steps[t], state, recurrent, rest, projection)
        outputs.append(state[0])
    return np.stack(outputs[::-1] if reverse else outputs), state


def _prepared(step: Step, x: Array, weights: list[Any], bias: bool, compute: Dtype) -> tuple[Any, ...]:
    """Arrays that all steps share: products of the inputs, then weight, bias and projection of a step."""
    weights = [weight.astype(compute, copy=False) for weight in weights]
    b_ih, b_hh = weights[2:4] if bias else (None, None)
    input_bias, rest = split_bias(step, b_ih, b_hh)
    recurrent = weights[1].swapaxes(-1, -2)
    projection = weights[-1].swapaxes(-1, -2) if len(weights) > (4 if bias else 2) else None
    return linear(x, weights[0], input_bias), recurrent, rest, projection


class RNN(Recurrent):
    """Layers of h' = tanh(W_ih x + b_ih + W_hh h + b_hh) over a sequence.

    Args:
        input_size: size of the last dimension of the input.
        hidden_size: size of the last dimension of the state.
        num_layers: layers; each after the first sees the outputs of the one before.
        nonlinearity: "tanh", or "relu" for max(·, 0).
        bias: whether there are biases.
        batch_first: whether the batch dimension of input and output comes before time.
        dropout: probability of a zero in the outputs of all but the last layer, in training mode.
        bidirectional: whether each layer also walks back in time; both outputs are joined.
        device, dtype: as for `Linear`.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√hidden_size, 1/√hidden_size), and dropout takes what comes after.

    Shapes:
        input (T, N, input_size), with `batch_first` (N, T, input_size), or (T, input_size); state (zeros if
        not given) (D num_layers, N, hidden_size) or (D num_layers, hidden_size), D being 2 for
        `bidirectional`, else 1; the output is a tuple of the last layer's states at all times, like the
        input with D hidden_size at the end, and the last state of each layer, of the shape of the state.
        `weight_ih_l0` (hidden_size, input_size), `weight_hh_l0` (hidden_size, hidden_size), `bias_ih_l0` and
        `bias_hh_l0` (hidden_size,), and so on for `_l1`, and `_l0_reverse` after `_l0`.

    Raises:
        ValueError: options out of range; an input of other numbers of dimensions.
        TypeError: options of another type.
        RuntimeError: input or state of another size; a sequence of no steps.

    Source:
        torch.nn.RNN; Elman (1990), Finding structure in time.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> out, h = nn.RNN(2, 3, num_layers=2, rng=0)(np.zeros((7, 4, 2), np.float32))
        >>> out.shape, h.shape
        ((7, 4, 3), (2, 4, 3))
    """

    _gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        if nonlinearity not in RNN_STEPS:
            raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            rng=rng,
        )
        self.nonlinearity = nonlinearity

    def _step_function(self) -> Step:
        return RNN_STEPS[self.nonlinearity]


class GRU(Recurrent):
    """Layers of gated recurrent units over a sequence; see `GRUCell` for one step.

    Args:
        input_size: size of the last dimension of the input.
        hidden_size: size of the last dimension of the state.
        num_layers, bias, batch_first, dropout, bidirectional, device, dtype, rng: as for `RNN`.

    Shapes:
        as for `RNN`, with 3 hidden_size rows in each weight and bias.

    Dtypes:
        as for `RNN`.

    Raises:
        ValueError: options out of range; an input of other numbers of dimensions.
        TypeError: options of another type.
        RuntimeError: input or state of another size; a sequence of no steps.

    Source:
        Cho et al. (2014), Learning phrase representations using RNN encoder-decoder (arXiv:1406.1078).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.GRU(2, 3, batch_first=True, bidirectional=True, rng=0)
        >>> out, h = layer(np.zeros((4, 7, 2), np.float32))
        >>> out.shape, h.shape
        ((4, 7, 6), (2, 4, 3))
    """

    _gates = 3

    def _step_function(self) -> Step:
        return gru_step


class LSTM(Recurrent):
    """Layers of long short-term memories over a sequence; see `LSTMCell` for one step.

    Args:
        input_size: size of the last dimension of the input.
        hidden_size: size of the last dimension of the states.
        num_layers, bias, batch_first, dropout, bidirectional, device, dtype, rng: as for `RNN`.
        proj_size: size to which `weight_hr` (proj_size, hidden_size) reduces h; 0: no such weight.

    Shapes:
        as for `RNN`, with 4 hidden_size rows in each weight and bias. There are two states, h and c: `hx` and
        the second output are tuples of both. h and the outputs have the size `proj_size`, if it is not 0.

    Dtypes:
        as for `RNN`.

    Raises:
        ValueError: options out of range; an input of other numbers of dimensions; not two states.
        TypeError: options of another type.
        RuntimeError: input or state of another size; a sequence of no steps.

    Source:
        Hochreiter and Schmidhuber (1997), Long short-term memory, Neural Computation 9(8); for the
        projection Sak et al. (2014), arXiv:1402.1128.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> out, (h, c) = nn.LSTM(2, 3, proj_size=1, rng=0)(np.zeros((7, 4, 2), np.float32))
        >>> out.shape, h.shape, c.shape
        ((7, 4, 1), (1, 4, 1), (1, 4, 3))
    """

    _gates = 4
    _states = ("hx[0]", "hx[1]")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        self.__dict__["proj_size"] = proj_size
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            rng=rng,
        )

    def _step_function(self) -> Step:
        return lstm_step

    def forward(self, input: Array, hx: Any = None) -> tuple[Array, tuple[Array, Array]]:
        """Outputs at all times, and the last states h and c."""
        out, (h, c) = self._run(input, None if hx is None else tuple(hx))
        return out, (h, c)


def _is_short(times: int) -> bool:
    """Whether a graph takes the steps one after the other."""
    return type(times) is int and times <= _SHORT


belong_to("lite.nn", GRU, LSTM, RNN)
