"""Base class of value estimators: keys, options, and reading of entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite import NestedKey, TensorDictBase, get_default_dtype, unravel_key
from lite._arrays.public import belong_to
from lite._arrays.types import Path, is_interpreted, is_symbolic
from lite._tree.keys import require_path
from lite.kernels import Advantage
from lite.kernels._integer import integer
from lite.nn._modules.module import Module
from lite.nn.distributions.log_prob_names import composite_lp_aggregate
from lite.nn.settings import set_skip_existing
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.entries import detached, require_array, require_keys, require_tensordict
from lite.nn.values.network_calls import NetworkCalls, Values, expand_to, last_valid

Array = NDArray[Any]
Signals = tuple[Array, Array, Array]  # reward, done, terminated
Writes = dict[Path, Array]  # kept to the end, so that an error leaves the TensorDict as it was


@dataclass
class AcceptedKeys:
    """The keys that `set_keys` changes. Reward, done and terminated are relative to `"next"`."""

    advantage: NestedKey = "advantage"
    value_target: NestedKey = "value_target"
    value: NestedKey = "state_value"
    reward: NestedKey = "reward"
    done: NestedKey = "done"
    terminated: NestedKey = "terminated"
    steps_to_next_obs: NestedKey = "steps_to_next_obs"
    sample_log_prob: NestedKey | None = None

    def __post_init__(self) -> None:
        if self.sample_log_prob is None:
            self.sample_log_prob = "sample_log_prob" if composite_lp_aggregate() else "action_log_prob"


class Options(TypedDict, total=False):
    """The options of all estimators, which `ValueEstimatorBase` documents."""

    shifted: bool
    differentiable: bool
    skip_existing: bool | None
    advantage_key: None
    value_target_key: None
    value_key: None
    device: Any
    deactivate_vmap: bool
    value_chunk_size: int | None
    num_chunks: int | None
    num_chunk: int | None
    value_chunk_dim: int
    shifted_budget: int
    group_key: NestedKey | None


class ValueEstimatorBase(TensorDictModuleBase):
    """Base class of value estimators, with their common options.

    An estimator reads a rollout of batch size [*batch, time]: `("next", "reward")`, `("next", "done")` and
    `("next", "terminated")` (done, if that is missing), and the values of observations and next observations,
    all of one shape: the batch size, alone or with feature dimensions. It writes `"advantage"` and
    `"value_target"` of that shape, in the values' floating type, and the values, in place.

    Truncated steps (done, not terminated) bootstrap with the value of their own next observation, the last of
    the episode; terminated ones do not. NaN in next inputs of the network is replaced by the observation.

    Args:
        value_network: reads observations and writes `"state_value"`; None if the TensorDict has the values.
        shifted: call the network once, on the observations and, at truncations and the end, the next ones.
            Steps beyond `shifted_budget` of these are False in `"shifted_valid"`, with an advantage of 0.
        differentiable: whether rewards and the network's inputs may be arrays that a gradient is computed
            for; targets then have it, too. Parameters of the network are constants. For TD0Estimator,
            TD1Estimator and TDLambdaEstimator only.
        deactivate_vmap, device: accepted, without effect; the device is None or "cpu".
        skip_existing: do not call the network if its outputs exist. None: as `skip_existing()`.
        advantage_key, value_target_key, value_key: refused, as by torchrl; see `set_keys`.
        value_chunk_size, num_chunks, num_chunk: the size or number of pieces of `value_chunk_dim`.
        shifted_budget: additional steps with `shifted`, at least 1.
        group_key: an entry of integers of the batch's shape; each group is standardized by itself.

    Raises:
        RuntimeError, TypeError, ValueError: a key that `set_keys` sets; wrong numbers or types.

    Source:
        torchrl.objectives.value; Pardo et al. (2018), Time limits in reinforcement learning.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import TD0Estimator
        >>> def rollout(terminated):
        ...     flags = {"done": np.array([True]), "terminated": np.array([terminated])}
        ...     following = {"reward": np.ones(1), "state_value": np.array([10.0]), **flags}
        ...     return TensorDict({"state_value": np.zeros(1), "next": following}, batch_size=[1])
        >>> estimator = TD0Estimator(gamma=0.5, value_network=None)
        >>> [estimator(rollout(end))["value_target"].item() for end in (False, True)]  # cut off: bootstrap
        [6.0, 1.0]
    """

    default_keys: ClassVar[type[AcceptedKeys]] = AcceptedKeys
    _has_gradients = False  # whether `differentiable` has an effect

    def __init__(
        self,
        *,
        value_network: Module | None = None,
        shifted: bool = False,
        differentiable: bool = False,
        skip_existing: bool | None = None,
        advantage_key: None = None,
        value_target_key: None = None,
        value_key: None = None,
        device: str | None = None,
        deactivate_vmap: bool = False,
        value_chunk_size: int | None = None,
        num_chunks: int | None = None,
        num_chunk: int | None = None,
        value_chunk_dim: int = 0,
        shifted_budget: int = 1,
        group_key: NestedKey | None = None,
    ) -> None:
        super().__init__()
        former = {"advantage": advantage_key, "value_target": value_target_key, "value": value_key}
        for name, key in former.items():
            if key is not None:
                raise RuntimeError(f"{name}_key is not an argument: use set_keys({name}={key!r}).")
        if device is not None and str(device) != "cpu":
            raise ValueError(f"device must be 'cpu' or None, got {device!r}.")
        if not isinstance(shifted, bool):
            raise ValueError(f"shifted must be True or False, got {shifted!r}.")
        if num_chunk is not None and num_chunks is not None and num_chunk != num_chunks:
            raise ValueError(f"num_chunks and num_chunk are the same, got {num_chunks} and {num_chunk}.")
        pieces = num_chunk if num_chunks is None else num_chunks
        if pieces is not None and value_chunk_size is not None:
            raise ValueError("give value_chunk_size or num_chunks, not both.")
        if value_network is not None:
            require_keys(value_network, self)
        # Not a registered module: the network belongs to the caller, and is not part of the state dict.
        self.__dict__["value_network"] = value_network
        self.shifted = shifted
        self.differentiable = differentiable
        self.skip_existing = skip_existing
        self.deactivate_vmap = deactivate_vmap
        self.value_chunk_size = _positive("value_chunk_size", value_chunk_size)
        self.num_chunks = _positive("num_chunks", pieces)
        self.value_chunk_dim = _integer("value_chunk_dim", value_chunk_dim)
        self.shifted_budget = shifted_budget
        if shifted_budget < 1:
            raise ValueError(f"shifted_budget must be at least 1, got {shifted_budget}.")
        self.group_key = group_key
        self.time_dim: int | None = None
        self.tensor_keys = self.default_keys()

    # -- keys ----------------------------------------------------------------------------------------------

    def set_keys(self, **kwargs: NestedKey) -> None:
        """Change keys by their names in `tensor_keys`.

        Raises:
            KeyError: the name is unknown, or the value network does not write that value.
            ValueError: the value is not a key.

        Example:
            >>> from lite.data import GAE
            >>> estimator = GAE(gamma=0.99, lmbda=0.95, value_network=None)
            >>> estimator.set_keys(advantage="gain", reward=("agents", "reward"))
            >>> estimator.out_keys
            ['gain', 'value_target']
        """
        names = {field.name for field in fields(self.default_keys)}
        changed: dict[str, Any] = {}
        for name, key in kwargs.items():
            if not isinstance(key, str | tuple):
                raise ValueError(f"a key must be a string or a tuple of strings, got {name}={key!r}.")
            if name not in names:
                raise KeyError(f"{name!r} is not a key of {self.__name__}; expected one of {sorted(names)}.")
            changed[name] = unravel_key(key)
            written = getattr(self.value_network, "out_keys", None)
            if name == "value" and written is not None and changed[name] not in written:
                raise KeyError(f"the value network writes {list(written)}, not {changed[name]!r}.")
        self.tensor_keys = self.default_keys(**{**asdict(self.tensor_keys), **changed})

    @property
    def in_keys(self) -> list[NestedKey]:  # type: ignore[override]
        """The value network's inputs, there and in `"next"`, rewards and flags; none without a network."""
        keys: list[NestedKey] = []
        inputs = getattr(self.value_network, "in_keys", None)
        if inputs is not None:
            signals = (self.tensor_keys.reward, self.tensor_keys.done, self.tensor_keys.terminated)
            keys = [*inputs, *(next_path(key) for key in signals), *(next_path(key) for key in inputs)]
        if self.group_key is not None and self.group_key not in keys:
            keys.append(self.group_key)
        return keys

    @property
    def out_keys(self) -> list[NestedKey]:  # type: ignore[override]
        """The keys of advantages and targets."""
        return [self.tensor_keys.advantage, self.tensor_keys.value_target]

    # -- what subclasses call ------------------------------------------------------------------------------

    def value_estimate(self, tensordict: TensorDictBase, **kwargs: Any) -> Array:
        """The targets of the value network alone; subclasses define it."""
        raise NotImplementedError(f"{self.__name__} gives no value_estimate.")

    def _factor(self, name: str, value: ArrayLike) -> None:
        """Register a discount as a buffer, as torchrl does; a number gets the default float dtype."""
        given = np.asarray(value)
        dtype = given.dtype if isinstance(value, np.ndarray) else get_default_dtype()
        self.register_buffer(name, given.astype(dtype))

    def _discount(self, tensordict: TensorDictBase, reward: Array) -> float | Array:
        """Gamma: one for all steps, or one for each if windows of rewards were summed (`MultiStep`)."""
        gamma = as_number(self.gamma)
        steps = tensordict.get(self.tensor_keys.steps_to_next_obs, None)
        if steps is None:
            return gamma
        if steps.size != reward.size:
            raise RuntimeError(
                f"{self.tensor_keys.steps_to_next_obs!r} must have a number for each reward, got shapes "
                f"{steps.shape} and {reward.shape}."
            )
        return gamma ** steps.reshape(reward.shape).astype(np.float64)

    def _time(self, tensordict: TensorDictBase, time_dim: int | None = None) -> int:
        """The time dimension of the batch: the given one, the one of that name, or the last."""
        dim = self.time_dim if time_dim is None else time_dim
        if dim is None:
            names = tensordict.names
            return names.index("time") if "time" in names else tensordict.ndim - 1
        if not -tensordict.ndim <= dim < tensordict.ndim:
            raise ValueError(f"there is no time_dim {dim} in batch_size={tuple(tensordict.batch_size)}.")
        return dim % tensordict.ndim

    def _require_rollout(self, tensordict: TensorDictBase) -> None:
        require_tensordict(tensordict, self.__name__)
        if not tensordict.ndim:
            raise RuntimeError(f"{self.__name__} needs a TensorDict with a batch dimension.")

    @property
    def _differentiates(self) -> bool:
        return bool(self.differentiable) and self._has_gradients

    def _read(self, tensordict: TensorDictBase, key: NestedKey) -> Array:
        return require_array(tensordict, require_path(key), self.__name__, self._differentiates)

    @contextmanager
    def _skipping(self) -> Iterator[None]:
        if self.skip_existing is None:
            yield
        else:
            with set_skip_existing(self.skip_existing):
                yield

    def _values(
        self, tensordict: TensorDictBase, time_dim: int, params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None, keys: Sequence[NestedKey] | None = None,
    ) -> tuple[Values, Writes]:  # fmt: skip
        """Values of the observations and of the next ones, from the network or the TensorDict.

        `keys` says which of the network's outputs these are: the value, unless the two are different.

        Returns:
            The values, and the entries of them to write.
        """
        present, following = keys or (self.tensor_keys.value,) * 2
        if self.value_network is None:
            now = self._given(tensordict, require_path(present))
            ahead = self._given(tensordict, next_path(following))
            return Values(now, ahead, tensordict.get("shifted_valid", None)), {}
        calls = self._calls(present, following)
        with self._skipping():
            if self.shifted:
                if target_params is not None and target_params is not params:
                    raise ValueError("with shifted=True one set of parameters computes all values, got two.")
                flags = [self._read(tensordict, next_path(self.tensor_keys.done))]
                flags.append(self._terminated(tensordict, flags[0]))
                values = calls.once(tensordict, time_dim, flags, self.shifted_budget, params)
            else:
                values = calls.twice(tensordict, params, target_params)
        writes = {require_path(present): values.present, next_path(following): values.following}
        if values.valid is not None:
            writes["shifted_valid",] = values.valid
        return values, writes

    def _next_value(self, tensordict: TensorDictBase, params: TensorDictBase | None) -> Array:
        """Values of the next observations alone; nothing is written."""
        key = self.tensor_keys.value
        if self.value_network is None:
            return self._given(tensordict, next_path(key))
        with self._skipping():
            return self._calls(key, key).ahead(tensordict, params)

    def _calls(self, present: NestedKey, following: NestedKey) -> NetworkCalls:
        pieces = (self.value_chunk_size, self.num_chunks, self.value_chunk_dim)
        return NetworkCalls(self.value_network, (present, following), pieces, self._differentiates)

    def _given(self, tensordict: TensorDictBase, path: Path) -> Array:
        if tensordict.get(path, None) is None:
            raise ValueError(
                f"{self.__name__} has no value network, and the TensorDict has no values under "
                f"{path if len(path) > 1 else path[0]!r}."
            )
        return self._read(tensordict, path)

    def _terminated(self, tensordict: TensorDictBase, done: Array) -> Array:
        path = next_path(self.tensor_keys.terminated)
        return done if tensordict.get(path, None) is None else self._read(tensordict, path)

    def _signals(self, tensordict: TensorDictBase, valid: Array | None, time_dim: int) -> Signals:
        """Rewards, done and terminated; the last valid step before an invalid one counts as truncated."""
        reward = self._read(tensordict, next_path(self.tensor_keys.reward))
        done = self._read(tensordict, next_path(self.tensor_keys.done))
        terminated = self._terminated(tensordict, done)
        if valid is not None:
            cut = last_valid(valid, time_dim)
            done = np.where(expand_to(cut, done), True, done)
            terminated = np.where(expand_to(cut, terminated), False, terminated)
        return reward, done, terminated

    def _require_one_shape(self, value: Array, **others: Array) -> None:
        for name, array in others.items():
            if array.shape != value.shape:
                raise RuntimeError(
                    f"{self.__name__} needs values, rewards and flags of one shape, got values of "
                    f"{value.shape} and {name} of {array.shape}."
                )

    def _groups(self, tensordict: TensorDictBase) -> Array | None:
        return None if self.group_key is None else self._read(tensordict, self.group_key)

    def _estimated(self, advantage: Array, target: Array, valid: Array | None) -> Writes:
        """The entries of the results to write; 0 at steps without values."""
        writes = {}
        for key, array in zip(self.out_keys, (advantage, target), strict=True):
            kept = array if valid is None else np.where(expand_to(valid, array), array, array.dtype.type(0))
            writes[require_path(key)] = kept
        return writes


def next_path(key: NestedKey) -> Path:
    return ("next", *require_path(key))


def as_number(factor: Array) -> float | Array:
    """A factor in the form that is fastest for kernels: a Python number if it is a scalar."""
    found: Any = detached(factor)
    if factor.ndim or (is_interpreted(found) and not is_symbolic(found)):
        return found
    return found.as_number() if is_symbolic(found) else float(found)


def _integer(name: str, value: Any, least: int | None = None) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    return integer(name, value, least=least)


def _positive(name: str, value: Any) -> int | None:
    return None if value is None else _integer(name, value, 1)


class AdvantageEstimator(ValueEstimatorBase):
    """Base class of advantage estimators; subclasses compute and average advantages."""

    @dispatch
    def forward(
        self,
        tensordict: TensorDictBase,
        *,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
        time_dim: int | None = None,
    ) -> Any:
        """Write advantages and targets, and the values they are made from, to `tensordict`, and return it.

        Args:
            tensordict: a rollout, as `ValueEstimatorBase` describes it; for `VTrace` and `Retrace` with the
                actions and their log-probs under the policy that acted. Its entries may also be given as
                keywords, `obs=..., next_reward=...`; then the advantages and targets are returned.
            params: parameters for the value network, instead of its own.
            target_params: those for the values of next observations; `params`, if None.
            time_dim: the batch dimension that is time, instead of the module's.

        Raises:
            KeyError: rewards, done, log-probs or an input of a network is missing.
            RuntimeError: no batch dimension, or shapes that differ.
            TypeError: the input is not a TensorDict, or an entry is not an array.
            ValueError: no values and no network, no such time_dim, `target_params` without `params`.
        """
        found, valid, writes = self._estimates(tensordict, params, target_params, time_dim)
        advantage = self._averaged(found.advantage, valid, tensordict)
        return tensordict.update(writes | self._estimated(advantage, found.value_target, valid))

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
        time_dim: int | None = None,
        **kwargs: Any,
    ) -> Array:
        """The targets alone; only the values are written. Arguments and errors are those of `forward`."""
        found, _, writes = self._estimates(tensordict, params, target_params, time_dim)
        tensordict.update(writes)
        return found.value_target

    def _estimates(
        self,
        tensordict: TensorDictBase,
        params: TensorDictBase | None,
        target_params: TensorDictBase | None,
        time_dim: int | None,
    ) -> tuple[Advantage, Array | None, Writes]:
        """Advantages and targets, which steps have values (None: all), and the values to be written."""
        raise NotImplementedError

    def _averaged(self, advantage: Array, valid: Array | None, tensordict: TensorDictBase) -> Array:
        """The advantages, standardized if the module has that option."""
        raise NotImplementedError


belong_to("lite.nn.values", ValueEstimatorBase)
