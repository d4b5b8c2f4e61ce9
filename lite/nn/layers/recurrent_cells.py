"""One step of a recurrent network: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import compute_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng, empty_parameter, fill_uniform, reset
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.linear import linear
from lite.nn.layers.recurrent_gradients import plain_arrays, recorder
from lite.nn.layers.recurrent_steps import RNN_STEPS, State, Step, gru_step, lstm_step, split_bias


class _Cell(Module):
    """Base of the cells: weights, and checks of input and state."""

    _gates: int

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Device | None = None,
        dtype: DTypeLike | None = None, *, rng: Rng = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = self._gates * hidden_size
        self.weight_ih = empty_parameter((rows, input_size), device, dtype)
        self.weight_hh = empty_parameter((rows, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty_parameter((rows,), device, dtype) if bias else None)
        reset(self, rng)

    def reset_parameters(self, rng: Rng = None) -> None:
        """Redraw all parameters from U(-1/√hidden_size, 1/√hidden_size), in place."""
        rng = np.random.default_rng(rng)
        bound = 1.0 / math.sqrt(max(self.hidden_size, 1))
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            fill_uniform(self._held(name), bound, rng)

    def _run(self, step: Step, input: Array, given: State | None, count: int) -> State:
        """One step of a cell. The state has `count` arrays; None for zeros. Returns the next state."""
        if input.ndim not in (1, 2):
            raise ValueError(f"the input must be (input_size,) or (N, input_size), got {tuple(input.shape)}")
        w_ih, w_hh, b_ih, b_hh = map(self._tensor, ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        shape = (*input.shape[:-1], w_hh.shape[-1])
        for h in given or ():
            if h.ndim not in (1, 2):
                raise ValueError(f"hx must be (hidden_size,) or (N, hidden_size), got shape {tuple(h.shape)}")
        for h in given or ():
            if tuple(h.shape) != shape:
                raise RuntimeError(f"hx must have shape {shape}, got {tuple(h.shape)}")
        compute, result = compute_dtype(input.dtype, w_ih.dtype, *(h.dtype for h in given or ()))
        if given is None:
            state: State = (np.zeros(shape, compute),) * count
        else:
            state = tuple(h.astype(compute, copy=False) for h in given)
        weights = (w_ih, w_hh) if b_ih is None else (w_ih, w_hh, b_ih, b_hh)
        recorded = recorder(plain_arrays((input, *state, *weights)))
        if recorded is not None:
            # A sequence of one step, and a batch of one if there is none.
            index: Any = None if input.ndim == 2 else (None, None)
            first = state if input.ndim == 2 else tuple(h[None] for h in state)
            out, last = recorded(step, input[index], first, weights, b_ih is not None, False, compute)
            ends = (out[0], *last[1:])
            return tuple((h if input.ndim == 2 else h[0]).astype(result, copy=False) for h in ends)
        bias, rest = split_bias(step, b_ih, b_hh)
        x = linear(input.astype(compute, copy=False), w_ih, bias).astype(compute, copy=False)
        out = step(x, state, w_hh.astype(compute, copy=False).swapaxes(-1, -2), rest, None)
        return tuple(h.astype(result, copy=False) for h in out)

    def extra_repr(self) -> str:
        """The sizes, and `bias=False` if there are no biases."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")


class RNNCell(_Cell):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh).

    Args:
        input_size: size of the last dimension of the input.
        hidden_size: size of the last dimension of the state.
        bias: whether there are biases.
        nonlinearity: "tanh", or "relu" for max(·, 0).
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√hidden_size, 1/√hidden_size).

    Shapes:
        input (N, input_size) or (input_size,), state (zeros if not given) and output (N, hidden_size) or
        (hidden_size,), `weight_ih` (hidden_size, input_size), `weight_hh` (hidden_size, hidden_size),
        `bias_ih` and `bias_hh` (hidden_size,).

    Dtypes:
        the promoted dtype of input, state and weights; float16 and bfloat16 compute in float32.

    Raises:
        ValueError: an unknown nonlinearity; input or state of other numbers of dimensions.
        RuntimeError: input or state of another size.

    Source:
        torch.nn.RNNCell; Elman (1990), Finding structure in time, Cognitive Science 14(2).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.RNNCell(2, 3, rng=0)(np.zeros((4, 2), np.float32)).shape
        (4, 3)
    """

    _gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype, rng=rng)
        if nonlinearity not in RNN_STEPS:
            raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def forward(self, input: Array, hx: Array | None = None) -> Array:
        """The next state, of input (*N, input_size) and state (*N, hidden_size)."""
        return self._run(RNN_STEPS[self.nonlinearity], input, None if hx is None else (hx,), 1)[0]

    def extra_repr(self) -> str:
        """The sizes, and options that are not the default."""
        rest = "" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}"
        return super().extra_repr() + rest


class GRUCell(_Cell):
    """A gated recurrent unit: h' = (1 - z) n + z h.

    With s(x) = 1 / (1 + exp(-x)), r = s(W_ir x + b_ir + W_hr h + b_hr), z = s(W_iz x + b_iz + W_hz h + b_hz)
    and n = tanh(W_in x + b_in + r (W_hn h + b_hn)); the rows of the weights are those of r, z and n.

    Args:
        input_size: size of the last dimension of the input.
        hidden_size: size of the last dimension of the state.
        bias: whether there are biases.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√hidden_size, 1/√hidden_size).

    Shapes:
        input (N, input_size) or (input_size,), state (zeros if not given) and output (N, hidden_size) or
        (hidden_size,), `weight_ih` (3 hidden_size, input_size), `weight_hh` (3 hidden_size, hidden_size),
        `bias_ih` and `bias_hh` (3 hidden_size,).

    Dtypes:
        the promoted dtype of input, state and weights; float16 and bfloat16 compute in float32.

    Raises:
        ValueError: input or state of other numbers of dimensions.
        RuntimeError: input or state of another size.

    Source:
        Cho et al. (2014), Learning phrase representations using RNN encoder-decoder (arXiv:1406.1078).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.GRUCell(2, 3, rng=0)(np.zeros((4, 2), np.float32), np.zeros((4, 3), np.float32)).shape
        (4, 3)
    """

    _gates = 3

    def forward(self, input: Array, hx: Array | None = None) -> Array:
        """The next state, of input (*N, input_size) and state (*N, hidden_size)."""
        return self._run(gru_step, input, None if hx is None else (hx,), 1)[0]


class LSTMCell(_Cell):
    """A long short-term memory: c' = f c + i g and h' = o tanh(c').

    i, f and o are 1 / (1 + exp(-y)), and g is tanh(y), of y = W_ih x + b_ih + W_hh h + b_hh; the rows of the
    weights are those of i, f, g and o.

    Args:
        input_size: size of the last dimension of the input.
        hidden_size: size of the last dimension of the states.
        bias: whether there are biases.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√hidden_size, 1/√hidden_size).

    Shapes:
        input (N, input_size) or (input_size,), both states (zeros if not given) (N, hidden_size) or
        (hidden_size,), `weight_ih` (4 hidden_size, input_size), `weight_hh` (4 hidden_size, hidden_size),
        `bias_ih` and `bias_hh` (4 hidden_size,). The output is the tuple of the next states h and c.

    Dtypes:
        the promoted dtype of input, state and weights; float16 and bfloat16 compute in float32.

    Raises:
        ValueError: input or state of other numbers of dimensions.
        RuntimeError: input or state of another size.

    Source:
        Hochreiter and Schmidhuber (1997), Long short-term memory, Neural Computation 9(8).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> h, c = nn.LSTMCell(2, 3, rng=0)(np.zeros((4, 2), np.float32))
        >>> h.shape, c.shape
        ((4, 3), (4, 3))
    """

    _gates = 4

    def forward(self, input: Array, hx: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
        """The next states (h, c), of input (*N, input_size) and states (*N, hidden_size)."""
        h, c = self._run(lstm_step, input, None if hx is None else tuple(hx), 2)
        return h, c


belong_to("lite.nn", GRUCell, LSTMCell, RNNCell)
