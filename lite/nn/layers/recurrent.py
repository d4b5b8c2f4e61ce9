"""Recurrent layers over whole sequences: RNN, LSTM, GRU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lite.nn.layers.recurrent_cells import RNN_STEPS, gru_step, lstm_step
from lite.nn.layers.recurrent_walk import Recurrent

if TYPE_CHECKING:
    from lite.nn._modules.initial import Rng


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
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; initial values are drawn from
            U(-1/√hidden_size, 1/√hidden_size), and dropout takes what comes after.

    Shapes:
        input (T, N, input_size), with `batch_first` (N, T, input_size), or (T, input_size); state (zeros if
        not given) (D num_layers, N, hidden_size) or (D num_layers, hidden_size), D being 2 for
        `bidirectional`, else 1; the output is a tuple of the last layer's states at all times, like the
        input with D hidden_size at the end, and the last state of each layer, of the shape of the state.
        `weight_ih_l0` (hidden_size, input_size), `weight_hh_l0` (hidden_size, hidden_size), `bias_ih_l0` and
        `bias_hh_l0` (hidden_size,), and so on for `_l1`, and `_l0_reverse` after `_l0`.

    Dtypes:
        the promoted dtype of input, state and weights; float16 and bfloat16 compute in float32.

    Raises:
        ValueError: options out of range; an input of other numbers of dimensions.
        TypeError: options of another type.
        RuntimeError: input or state of another size; a sequence of no steps.

    Source:
        torch.nn.RNN; Elman (1990), Finding structure in time, Cognitive Science 14(2).

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
        device: Any = None,
        dtype: Any = None,
        *,
        rng: Rng = None,
    ) -> None:
        if nonlinearity not in RNN_STEPS:
            raise ValueError(f"nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype, rng
        )
        self.nonlinearity = nonlinearity
        self._step = RNN_STEPS[nonlinearity]


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
    _step = staticmethod(gru_step)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype, rng
        )


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
    _step = staticmethod(lstm_step)
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
        device: Any = None,
        dtype: Any = None,
        *,
        rng: Rng = None,
    ) -> None:
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
            rng,
            proj_size,
        )

    def forward(self, input: Any, hx: tuple[Any, Any] | None = None) -> tuple[Any, tuple[Any, Any]]:
        """Outputs at all times, and the last states h and c."""
        out, (h, c) = self._run(input, None if hx is None else tuple(hx))
        return out, (h, c)
