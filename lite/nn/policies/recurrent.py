"""LSTMModule and GRUModule: recurrent layers that keep their states in the TensorDict.

Sequences are cut at the steps where an episode begins in any row, and the pieces are run one after the
other, so each step is computed once, and the state at the end of a piece is that of its episodes. A
graph, in which the beginnings are inputs, has one loop over all times instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from lite import NestedKey, unravel_key_list
from lite._arrays.public import belong_to
from lite._arrays.settings import Scoped, Setting
from lite._arrays.types import Array, is_symbolic
from lite._lazy_hooks import implementation
from lite._transforms.grad.tape import value_of
from lite._transforms.vmap.running import everything
from lite.nn._modules.initial import Rng
from lite.nn._modules.meta import Device
from lite.nn.layers.recurrent import GRU, LSTM, Recurrent
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.module import read, store

_mode: Setting[bool | None] = Setting("lite.nn.recurrent_mode", None)
_NAMES = {"recurrent": True, "sequential": False}


def recurrent_mode() -> bool | None:
    """Whether inputs of recurrent modules are sequences; None leaves it to each module.

    Source:
        torchrl.modules.recurrent_mode.

    Example:
        >>> from lite import nn
        >>> nn.recurrent_mode() is None
        True
    """
    return _mode.get()


class set_recurrent_mode(Scoped[bool | None]):
    """Set whether inputs of recurrent modules are sequences, in a `with` statement or a decorated function.

    Args:
        mode: True or "recurrent": the last batch dimension is time. False or "sequential": all batch elements
            are single steps. None: the setting of each module.

    Raises:
        ValueError: another mode.

    Source:
        torchrl.modules.set_recurrent_mode.

    Example:
        >>> from lite.nn import recurrent_mode, set_recurrent_mode
        >>> with set_recurrent_mode("recurrent"):
        ...     recurrent_mode()
        True
        >>> recurrent_mode() is None
        True
    """

    _setting = _mode

    def __init__(self, mode: bool | str | None = True) -> None:
        if isinstance(mode, str) and mode in _NAMES:
            mode = _NAMES[mode]
        if not (mode is None or isinstance(mode, bool)):
            raise ValueError(f"mode must be a bool, None, 'recurrent' or 'sequential', got {mode!r}.")
        super().__init__(mode)


States = tuple[Any, ...]


def run_steps(layer: Any, x: Array, states: States | None, starts: Array) -> tuple[Array, States]:
    """Outputs and next states of single steps.

    Args:
        layer: an LSTM or a GRU, with `batch_first`.
        x: (N, size).
        states: (N, layers, size) each, or None for zeros.
        starts: (N,), True where an episode begins: the state is zero there.

    Returns:
        (N, size), and states as those given.
    """
    if states is not None:
        states = tuple(np.where(starts[:, None, None], h.dtype.type(0), h) for h in states)
    out, last = _run(layer, x[:, None], states)
    return out[:, 0], last


def run_sequences(layer: Any, x: Array, states: States | None, starts: Array) -> tuple[Array, States]:
    """Outputs and states of sequences.

    Args:
        layer: an LSTM or a GRU, with `batch_first`.
        x: (N, T, size).
        states: (N, T, layers, size) each, or None for zeros; of a row, those at time 0 and where an episode
            begins are taken.
        starts: (N, T), True where an episode begins.

    Returns:
        (N, T, size), and states as those given: the last one of each episode, and zeros before.

    Raises:
        NotImplementedError: two directions where an episode begins, or in a graph may begin, within a
            sequence.
    """
    if is_symbolic(value_of(starts)):
        return _scanned(layer, x, states, starts)
    cuts = [0, *_beginnings(starts), x.shape[1]]
    if len(cuts) > 2:
        _require_one_direction(layer)
    outputs: list[Any] = []
    kept: list[list[Any]] = []
    last: States | None = None
    for begin, end in itertools.pairwise(cuts):
        given = None if states is None else tuple(h[:, begin] for h in states)
        if last is not None:
            first = starts[:, begin, None, None]
            given = tuple(np.zeros_like(h) for h in last) if given is None else given
            given = tuple(np.where(first, new, old) for new, old in zip(given, last, strict=True))
        out, last = _run(layer, x[:, begin:end], given)
        ends = None if end == x.shape[1] else starts[:, end, None, None]
        outputs.append(out)
        kept.append([_at_the_end(h, end - begin, ends) for h in last])
    return _joined(outputs), tuple(_joined(pieces) for pieces in zip(*kept, strict=True))


def _beginnings(starts: Any) -> list[int]:
    """The times after the first at which an episode begins in any row."""
    rows = np.asarray(everything(value_of(starts))).reshape(-1, starts.shape[-1])
    return [int(t) for t in np.flatnonzero(rows.any(0)) if t]


def _require_one_direction(layer: Any) -> None:
    if layer.bidirectional:
        raise NotImplementedError(
            "a bidirectional layer reads episodes from both ends, and cannot be cut where one begins within "
            "a sequence; split_trajectories makes each episode a sequence."
        )


def _scanned(layer: Any, x: Array, states: States | None, starts: Array) -> tuple[Array, States]:
    _require_one_direction(layer)
    given = None if states is None else tuple(h.transpose(2, 1, 0, 3) for h in states)
    out, kept = layer.scan_episodes(x.swapaxes(0, 1), given, starts.swapaxes(0, 1))
    ends = np.concatenate([starts[:, 1:], np.ones_like(starts[:, :1])], 1)[..., None, None]
    last = tuple(np.where(ends, h.transpose(2, 1, 0, 3), h.dtype.type(0)) for h in kept)
    return out.swapaxes(0, 1), last


def _run(layer: Any, x: Array, states: States | None) -> tuple[Array, States]:
    """Outputs (N, T, size) and last states (N, layers, size) of x (N, T, size)."""
    if states is None:
        out, last = layer(x)
    else:
        turned = tuple(h.swapaxes(0, 1) for h in states)  # a layer takes (layers, N, size)
        out, last = layer(x, turned[0] if len(turned) == 1 else turned)
    return out, tuple(h.swapaxes(0, 1) for h in (last if isinstance(last, tuple) else (last,)))


def _at_the_end(h: Array, times: int, ends: Array | None) -> Array:
    """States of a piece, (N, times, layers, size): the last one for rows whose episode ends, else zeros."""
    kept: Any = h if ends is None else np.where(ends, h, h.dtype.type(0))
    kept = kept[:, None]
    if times == 1:
        return kept
    before = np.zeros_like(kept, shape=(kept.shape[0], times - 1, *kept.shape[2:]))
    return np.concatenate([before, kept], 1)


def _joined(pieces: Sequence[Any]) -> Any:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, 1)


_IS_INIT = "is_init"


class _RecurrentModule(TensorDictModuleBase):
    """Base of both modules: keys, modes, and the layout of states."""

    _layer: ClassVar[str]  # name of the child
    _states: ClassVar[tuple[str, ...]]  # keys of the states

    def _layer_of(
        self, cls: Any, given: Any, sizes: tuple[int | None, int | None], *options: Any, rng: Rng
    ) -> Any:
        if given is None:
            if None in sizes:
                raise ValueError(f"input_size and hidden_size must be given, got {sizes[0]} and {sizes[1]}.")
            return cls(*sizes, *options, rng=rng)
        if sizes != (None, None):
            raise ValueError(
                f"{self._layer} takes the place of input_size and hidden_size, which were given, too."
            )
        return given

    def _take(
        self, layer: Recurrent, in_key: NestedKey | None, in_keys: Sequence[NestedKey] | None,
        out_key: NestedKey | None, out_keys: Sequence[NestedKey] | None, default_recurrent_mode: bool | None,
    ) -> None:  # fmt: skip
        """Check the layer and the keys, and keep them."""
        name = type(self).__name__
        for kind, one, several in (("in", in_key, in_keys), ("out", out_key, out_keys)):
            if (one is None) == (several is None):
                raise ValueError(
                    f"{name} needs either {kind}_key or {kind}_keys, got {kind}_key={one!r} and "
                    f"{kind}_keys={several!r}."
                )
        if not layer.batch_first:
            raise ValueError(f"the {self._layer} of a {name} must have batch_first=True.")
        reads = unravel_key_list([in_key, *self._states] if in_keys is None else list(in_keys))
        writes = unravel_key_list(
            [out_key, *(("next", state) for state in self._states)] if out_keys is None else list(out_keys)
        )
        if not any(_IS_INIT in (key, key[-1]) for key in reads):
            reads.append(_IS_INIT)
        for kind, keys, wanted in (("in", reads, 2), ("out", writes, 1)):
            if len(keys) != len(self._states) + wanted:
                expected = f"a value and {len(self._states)} state(s)" + (", and 'is_init'" * (wanted == 2))
                raise ValueError(f"{kind}_keys of a {name} must be {expected}, got {keys}.")
        self.add_module(self._layer, layer)
        self.in_keys = reads
        self.out_keys = writes
        self._default_mode = bool(default_recurrent_mode)

    @property
    def recurrent_mode(self) -> bool:
        """Whether the last dimension of a batch is time; `set_recurrent_mode` chooses it."""
        mode = recurrent_mode()
        return self._default_mode if mode is None else mode

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: Any) -> Any:
        """Write the output and the next states, and return `tensordict`.

        Raises:
            KeyError: the value, the flags or one of two states is missing.
            ValueError: flags of another shape.
            RuntimeError: a value or states of another size.
        """
        value, *states, flags = self._inputs(tensordict)
        batch = tuple(value.shape[:-1])
        if tuple(flags.shape) not in (batch, (*batch, 1)):
            raise ValueError(f"{self.in_keys[-1]!r} must have shape {(*batch, 1)}, got {tuple(flags.shape)}.")
        given = None if states[0] is None else tuple(states)
        layer = self._modules[self._layer]
        if not self.recurrent_mode:
            rows = _Rows(batch)
            out, after = run_steps(layer, *rows.flat(value, given, flags))
        elif not batch:
            raise RuntimeError(
                f"in recurrent mode {self.in_keys[0]!r} must be (*batch, time, size), got {value.shape}."
            )
        else:
            rows = _Rows(batch[:-1])
            out, after = run_sequences(layer, *rows.flat(value, given, flags.reshape(batch)))
        found = [rows.back(array) for array in (out, *after)]
        kept = self.__dict__.get("next_states")  # which the copy that is exported has
        if kept is not None and not self.recurrent_mode:
            kept.update(zip(self.in_keys[1:-1], found[1:], strict=True))
        store(tensordict, self.out_keys_source, found)
        return tensordict

    def graph_states(self, batch: tuple[int, ...]) -> dict[NestedKey, np.ndarray[Any, Any]]:
        """Inputs of a graph of single steps: the states, and where an episode starts.

        Args:
            batch: the batch size of the example that the graph is traced with.
        """
        if self.recurrent_mode:
            return {}
        dtype = next(iter(self._modules[self._layer].parameters())).dtype
        states = {key: np.zeros((*batch, *shape), dtype) for key, shape in self._state_shapes().items()}
        return {**states, self.in_keys[-1]: np.zeros((*batch, 1), np.bool_)}

    def _state_shapes(self) -> dict[NestedKey, tuple[int, int]]:
        layer: Any = self._modules[self._layer]
        count = layer.num_layers * (1 + layer.bidirectional)
        sizes = (layer.proj_size or layer.hidden_size, layer.hidden_size)[: len(self._states)]
        return {key: (count, size) for key, size in zip(self.in_keys[1:-1], sizes, strict=True)}

    def make_tensordict_primer(self) -> Any:
        """The transform of an environment that gives the states zeros where episodes start.

        Returns:
            A `TensorDictPrimer` of lite.envs, whose specs are those of one environment's states, float32
            (layers and directions, size).

        Raises:
            ImportError: lite.envs is not imported.

        Example:
            >>> from lite import nn
            >>> from lite.envs import GymEnv, InitTracker, TransformedEnv
            >>> module = nn.LSTMModule(4, 8, in_key="observation", out_key="hidden")
            >>> env = TransformedEnv(GymEnv("CartPole-v1"), InitTracker())
            >>> env.append_transform(module.make_tensordict_primer()).reset()["recurrent_state_h"].shape
            (1, 8)
        """
        return implementation("make_tensordict_primer", self, "lite.envs")(self._state_shapes())

    def make_python_based(self) -> Self:
        """The module itself: there is one layer for all that TorchRL has two of."""
        return self

    def make_cudnn_based(self) -> Self:
        """The module itself."""
        return self

    def _inputs(self, tensordict: Any) -> list[Any]:
        """Value, states (all None or none) and flags."""
        values = read(tensordict, self.in_keys)
        missing = [key for key, entry in zip(self.in_keys, values, strict=True) if entry is None]
        if missing and missing != self.in_keys[1:-1]:
            raise KeyError(
                f"{type(self).__name__} reads the entries {missing}, which the TensorDict lacks; only the "
                "states may be missing, all together: they are zeros then. The transform InitTracker() of an "
                f"environment or a collector writes {self.in_keys[-1]!r}."
            )
        return values


class _Rows:
    """The dimensions of a batch as one, and back."""

    def __init__(self, batch: tuple[Any, ...]) -> None:
        self.batch = batch

    def flat(self, value: Array, states: Any, flags: Array) -> tuple[Any, Any, Any]:
        if len(self.batch) == 1:
            return value, states, flags.reshape(value.shape[:-1])
        rows = math.prod(self.batch)

        def joined(array: Array) -> Array:
            return array.reshape(rows, *array.shape[len(self.batch) :])

        some = None if states is None else tuple(map(joined, states))
        x = joined(value)
        return x, some, flags.reshape(x.shape[:-1])

    def back(self, array: Array) -> Array:
        return array if len(self.batch) == 1 else array.reshape(*self.batch, *array.shape[1:])


class LSTMModule(_RecurrentModule):
    """An `LSTM` whose states are entries of the TensorDict.

    Given single steps, each element of the batch is one step: it reads the states and writes the next ones
    to "next", from where a `Collector` hands them on. Given sequences, in `set_recurrent_mode(True)`, the
    last dimension of the batch is time; states are read at time 0 and where an episode begins, and those
    that are written are zeros but at the last step of each episode.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size, bidirectional: as for
            `LSTM`; `batch_first` must be True.
        python_based, recurrent_backend, recurrent_compute_dtype, recurrent_recompute,
            recurrent_matmul_precision: taken as TorchRL does, and ignored: there is one way to compute.
        in_key: key of the value, beside "recurrent_state_h", "recurrent_state_c" and "is_init".
        in_keys: the keys of all four instead; "is_init" may be left out.
        out_key, out_keys: key of the output, beside both states in "next"; or the keys of all three.
        lstm, device, rng: an `LSTM`, in place of its arguments; as for `LSTM`.
        default_recurrent_mode: the mode where none is set; False for single steps by default.

    Shapes:
        value (*batch, input_size), states (*batch, layers and directions, size), zeros if there are none,
        flags (*batch, 1) or (*batch); output (*batch, D hidden_size).

    Raises:
        ValueError: keys given twice or not at all, or too few; arguments besides `lstm`; not `batch_first`.
        TypeError: sizes of another type.
        KeyError, RuntimeError: in a call, see `forward`.
        NotImplementedError: in a call, two directions where an episode begins within a sequence.

    Source:
        torchrl.modules.LSTMModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> module = nn.LSTMModule(3, 4, in_key="observation", out_key="hidden", rng=0)
        >>> step = TensorDict(observation=np.zeros((2, 3)), is_init=np.ones((2, 1), bool), batch_size=[2])
        >>> module(step)["next", "recurrent_state_c"].shape
        (2, 1, 4)
    """

    _layer = "lstm"
    _states = ("recurrent_state_h", "recurrent_state_c")

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0,
        proj_size: int = 0,
        bidirectional: bool = False,
        python_based: bool = False,
        recurrent_backend: str = "pad",
        recurrent_compute_dtype: Any = np.float32,
        recurrent_recompute: str = "none",
        recurrent_matmul_precision: str = "auto",
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: Device | None = None,
        lstm: LSTM | None = None,
        default_recurrent_mode: bool | None = None,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        options = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device)
        lstm = self._layer_of(LSTM, lstm, (input_size, hidden_size), *options, rng=rng)
        self._take(lstm, in_key, in_keys, out_key, out_keys, default_recurrent_mode)


class GRUModule(_RecurrentModule):
    """A `GRU` whose state is an entry of the TensorDict; see `LSTMModule`.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as for `GRU`;
            `batch_first` must be True.
        python_based, recurrent_backend, recurrent_compute_dtype, recurrent_recompute,
            recurrent_matmul_precision: taken as TorchRL does, and ignored.
        in_key: the key of the value; "recurrent_state" and "is_init" are read, too.
        in_keys: or the keys of all, of which "is_init" may be left out.
        out_key: the key of the output; ("next", "recurrent_state") is written, too.
        out_keys: or the keys of all.
        device: as for `GRU`.
        gru: a `GRU`, in place of its arguments.
        default_recurrent_mode: the mode where none is set; False for single steps by default.
        rng: as for `GRU`.

    Shapes:
        as for `LSTMModule`, with one state.

    Raises:
        as `LSTMModule`.

    Source:
        torchrl.modules.GRUModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> module = nn.GRUModule(3, 4, num_layers=2, in_key="observation", out_key="hidden")
        >>> step = TensorDict(observation=np.zeros((2, 3)), is_init=np.ones((2, 1), bool), batch_size=[2])
        >>> module(step)["next", "recurrent_state"].shape
        (2, 2, 4)
    """

    _layer = "gru"
    _states = ("recurrent_state",)

    def __init__(
        self,
        input_size: int | None = None,
        hidden_size: int | None = None,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0,
        bidirectional: bool = False,
        python_based: bool = False,
        recurrent_backend: str = "pad",
        recurrent_compute_dtype: Any = np.float32,
        recurrent_recompute: str = "none",
        recurrent_matmul_precision: str = "auto",
        *,
        in_key: NestedKey | None = None,
        in_keys: Sequence[NestedKey] | None = None,
        out_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: Device | None = None,
        gru: GRU | None = None,
        default_recurrent_mode: bool | None = None,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        options = (num_layers, bias, batch_first, dropout, bidirectional, device)
        gru = self._layer_of(GRU, gru, (input_size, hidden_size), *options, rng=rng)
        self._take(gru, in_key, in_keys, out_key, out_keys, default_recurrent_mode)


belong_to("lite.nn", GRUModule, LSTMModule, set_recurrent_mode)
