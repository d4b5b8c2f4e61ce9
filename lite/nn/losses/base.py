"""LossModule: what all losses have: keys, parameters to exchange, an estimator of targets, a reduction."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from lite import NestedKey, TensorDictBase, get_default_dtype, unravel_key
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._arrays.types import Array, is_symbolic
from lite._transforms.grad.running import state as grad_state
from lite._tree.keys import require_path
from lite.nn._modules.initial import is_uninitialized
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._parameters.from_module import from_module, from_modules
from lite.nn._parameters.params import TensorDictParams
from lite.nn.distributions.distribution import generator_of
from lite.nn.layers.dropout import Dropout
from lite.nn.losses.coefficient import Coefficient
from lite.nn.losses.estimators import ValueEstimators, made_for, named
from lite.nn.losses.reduction import expanded, reduced, require_loss_function, require_reduction
from lite.nn.settings import InteractionType, set_interaction_type
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.values.base import ValueEstimatorBase, as_number
from lite.nn.values.entries import detached, require_keys
from lite.nn.values.value_norm import require_norm

# Keys of padding masks: of a slice sampler, and of steps that a shifted estimator could not compute.
AUTO_LOSS_MASK_KEYS: tuple[NestedKey, ...] = (("collector", "mask"), "shifted_valid")
_NO_UPDATER = (
    "the loss has target parameters, but no SoftUpdate or HardUpdate was made for it: unless you write them "
    "yourself, they stay as they are. RL_WARNINGS=False silences this."
)


# Checks of options, by their names in the signatures of losses.
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "reduction": require_reduction,
    "loss_function": require_loss_function,
    "loss_critic_type": require_loss_function,
    "advantage_norm": require_norm,
    "_generator": lambda rng: None if rng is None else np.random.default_rng(rng),  # draws go on
}


@dataclass
class NoKeys:
    """The keys of a loss that reads none by name."""


@dataclass
class UnweightedKeys:
    """Keys of losses that learn from transitions; reward, done and terminated are under "next"."""

    priority: NestedKey = "td_error"
    reward: NestedKey = "reward"
    done: NestedKey = "done"
    terminated: NestedKey = "terminated"


@dataclass
class TransitionKeys(UnweightedKeys):
    """Keys of losses that learn from transitions with the weights of a prioritized buffer."""

    priority_weight: NestedKey = "priority_weight"


class LossModule(TensorDictModuleBase):
    """Base of losses: modules that read a batch and give a TensorDict of numbers to minimise and to log.

    Losses are named "loss" or "loss_*"; other entries are logged, without gradient. A NaN loss raises.
    - Parameters: `loss.actor_network_params` and its like hold the Parameters of the network, and are part of
      `loss.parameters()`. `loss.target_actor_network_params` is the delayed copy, which `SoftUpdate` or
      `HardUpdate` moves, or else the parameters as constants.
    - Keys: `tensor_keys` names the entries that are read and written; `set_keys` changes them.
    - Masks: `loss_mask_key` names an entry that is True where a step is valid; "auto" takes
      ("collector", "mask") and "shifted_valid".

    A subclass names its keys in `_AcceptedKeys`, calls `convert_to_functional`, and defines `forward`. One
    with a value estimator names it in `default_value_estimator`, and all that it may be given in
    `SUPPORTED_VALUE_ESTIMATORS`.

    Attributes:
        reduction: "mean", "sum" or "none".
        deterministic_sampling_mode: how modules take samples while the loss is computed.
        use_prioritized_weights: whether "priority_weight" weighs the losses; "auto" is True.

    Source:
        torchrl.objectives.LossModule.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import LossModule
        >>> class Error(LossModule):
        ...     out_keys = ["loss"]
        ...
        ...     def __init__(self, network):
        ...         super().__init__()
        ...         self.convert_to_functional(network, "network")
        ...
        ...     def forward(self, tensordict):
        ...         with self.network_params.to_module(self.network):
        ...             made = self.network(tensordict.copy())["made"]
        ...         error = (made - tensordict["y"]) ** 2
        ...         return TensorDict(loss=self._reduce_loss(error, tensordict))
        >>> loss = Error(nn.TensorDictModule(lambda x: 2 * x, ["x"], ["made"]))
        >>> float(loss(TensorDict(x=np.ones(3), y=np.zeros(3), batch_size=[3]))["loss"])
        4.0
    """

    _AcceptedKeys: ClassVar[type[Any]] = NoKeys
    default_keys: ClassVar[type[Any]] = NoKeys  # the same
    # Buffers that a number may be assigned to: `loss.entropy_coeff = 0.003`.
    _schedulable_buffers: ClassVar[frozenset[str]] = frozenset()
    default_value_estimator: ClassVar[ValueEstimators | None] = None
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[ValueEstimators, ...]] = ()
    # Options of the estimator that differ from its defaults.
    _estimator_options: Mapping[str, Any] = MappingProxyType({})
    deterministic_sampling_mode: InteractionType = InteractionType.DETERMINISTIC
    use_prioritized_weights: bool | str = "auto"
    reduction: str = "mean"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.default_keys = cls._AcceptedKeys
        for name, method in list(vars(cls).items()):
            if name == "forward":
                setattr(cls, name, _sampling(_warning(method)))
            elif name.endswith("_loss") and not name.startswith("_"):
                setattr(cls, name, _sampling(method))

    def __init__(self) -> None:
        super().__init__()
        self._value_estimator: ValueEstimatorBase | None = None
        self._has_update_associated: dict[str, bool] = {}
        self._loss_mask_key: NestedKey | None = "auto"
        self.value_type: Any = self.default_value_estimator
        self.tensor_keys = self._AcceptedKeys()
        self._generator: Any = None
        self._vmap_randomness: str | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "value_estimator":  # as a child module, which assignment makes of it, no one would read it
            self.make_value_estimator(value)
            return
        if name in self._schedulable_buffers and isinstance(value, int | float):
            buffer = self.__dict__.get("_buffers", {}).get(name)
            if buffer is not None:
                buffer[...] = value
                return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("target_") and name.endswith("_params"):
                params = self.__dict__["_modules"].get(name.removeprefix("target_"))
                if params is not None:
                    return detached(params)
            raise

    def _keep(self, **options: Any) -> None:
        """Set options as attributes, checked by their names.

        Raises:
            ValueError: the name of a reduction or of a distance is unknown.
            TypeError: a norm of advantages is no `ValueNorm`.
        """
        for name, value in options.items():
            setattr(self, name, _CHECKS[name](value) if name in _CHECKS else value)

    # -- keys ----------------------------------------------------------------------------------------------

    def set_keys(self, **kwargs: Any) -> None:
        """Change keys by their names in `tensor_keys`; None sets the default again.

        Raises:
            ValueError: the name is unknown, or the value is not a key.

        Example:
            >>> from lite import nn
            >>> from lite.nn.losses import DQNLoss
            >>> loss = DQNLoss(nn.Linear(4, 2), action_space="categorical")
            >>> loss.set_keys(action="choice", reward=("agent", "reward"))
            >>> ("next", "agent", "reward") in loss.in_keys
            True
        """
        defaults = self._AcceptedKeys()
        names = {field.name for field in fields(defaults)}
        changed = {}
        for name, key in kwargs.items():
            if name not in names:
                raise ValueError(
                    f"{name!r} is not a key of {type(self).__name__}; expected one of {sorted(names)}."
                )
            changed[name] = getattr(defaults, name) if key is None else _checked_key(name, key)
        for name, key in changed.items():
            setattr(self.tensor_keys, name, key)
        self._forward_value_estimator_keys()

    def _forward_value_estimator_keys(self, **kwargs: Any) -> None:
        """Pass the keys to the estimator, and update `in_keys`."""
        if self._value_estimator is not None:
            self._value_estimator.set_keys(**self._estimator_keys())
        self._set_in_keys()

    def _estimator_keys(self) -> dict[str, Any]:
        """The estimator's keys that the loss has, under the estimator's names."""
        shared = ("advantage", "value_target", "value", "reward", "done", "terminated")
        return {name: getattr(self.tensor_keys, name) for name in shared if hasattr(self.tensor_keys, name)}

    def _set_in_keys(self) -> None:
        """Set `in_keys`; a loss that is not called with arrays needs none."""

    def _list_in_keys(self, *networks: Any, others: Iterable[Any] = ()) -> None:
        """`in_keys`: what networks read, now and if they are given as (network, "next") next, and others."""
        keys: list[Any] = []
        for entry in others:
            keys += entry if isinstance(entry, list) else [entry]
        for network in networks:
            inner, following = network if isinstance(network, tuple) else (network, None)
            require_keys(inner, self)
            keys += inner.in_keys
            if following:
                keys += [("next", *require_path(key)) for key in inner.in_keys]
        self.in_keys = list(dict.fromkeys(unravel_key(key) for key in keys))

    def _signal_keys(self) -> list[Any]:
        """Reward, done and terminated, under "next"."""
        names = (self.tensor_keys.reward, self.tensor_keys.done, self.tensor_keys.terminated)
        return [("next", *require_path(name)) for name in names]

    # -- networks ------------------------------------------------------------------------------------------

    @property
    def vmap_randomness(self) -> str:
        """The randomness of an ensemble's networks: "different" or the "same" numbers, or "error".

        "different" unless it was set, if a network has a Dropout; else "error".
        """
        if self._vmap_randomness is None:
            held = [value for value in self.__dict__.values() if isinstance(value, Module)]
            random = any(isinstance(inner, Dropout) for module in held for inner in module.modules())
            self._vmap_randomness = "different" if random else "error"
        return self._vmap_randomness

    def set_vmap_randomness(self, value: str) -> None:
        """Say what an ensemble's networks draw; see `vmap_randomness`.

        Raises:
            ValueError: none of "error", "same" and "different".
        """
        if value not in ("error", "same", "different"):
            raise ValueError(f"vmap randomness must be 'error', 'same' or 'different', got {value!r}.")
        self._vmap_randomness = value

    def convert_to_functional(
        self,
        module: Any,
        module_name: str,
        expand_dim: int | None = None,
        create_target_params: bool = False,
        compare_against: Iterable[Parameter] | None = None,
    ) -> None:
        """Make a network functional: `<module_name>` is called with `<module_name>_params`.

        Args:
            module: a TensorDictModule, whose Parameters are kept; or `expand_dim` of them, to be stacked.
            module_name: the attribute that it is found under.
            expand_dim: make so many networks of one: parameters (expand_dim, ...), redrawn between the
                least and the greatest number of each array.
            create_target_params: keep a copy, `target_<module_name>_params`.
            compare_against: Parameters of another network, which are constants where this one shares them.

        Raises:
            RuntimeError: the length of a list is not `expand_dim`, or a parameter has no data yet.
        """
        shared = {id(parameter) for parameter in compare_against or ()}
        many = isinstance(module, Sequence) and not isinstance(module, TensorDictModuleBase)
        if many and len(module) != expand_dim:
            raise RuntimeError(f"{module_name}: {expand_dim} networks are needed, got {len(module)}.")
        for key, leaf in from_module(module[0] if many else module).items(True, True):
            if is_uninitialized(leaf):
                raise RuntimeError(f"{module_name} has {key!r} without data: call the network once before.")
        if many:
            params = from_modules(module, True, False, False, False, expand_identical=True)
            module = module[0]
        elif expand_dim:
            params = self._expanded(from_module(module), expand_dim, shared)
        else:
            params = from_module(module, as_module=True)
            for key, leaf in list(params.items(True, True)):
                if id(leaf) in shared:
                    params.set(key, leaf.data)
        setattr(self, f"{module_name}_params", params)
        # Beside the registered modules: the loss has the parameters already.
        self.__dict__[module_name] = module
        if create_target_params:
            copies = detached(params).apply(np.copy, filter_empty=False)
            setattr(self, f"target_{module_name}_params", TensorDictParams(copies, no_convert=True))
        self._has_update_associated[module_name] = not create_target_params

    def _expanded(self, params: Any, count: int, shared: set[int]) -> TensorDictParams:
        rng = generator_of(self._generator)
        out = params.data.expand(count)  # with the dimensions that nodes have, as those of agents
        for key, leaf in params.items(True, True):
            shape = (count, *leaf.shape)
            if not isinstance(leaf, Parameter):
                out.set(key, np.broadcast_to(leaf, shape).copy())
            elif id(leaf) in shared:
                out.set(key, np.broadcast_to(leaf.data, shape))
            else:
                low, high = float(leaf.data.min()), float(leaf.data.max())
                drawn = rng.uniform(low, high, shape).astype(leaf.dtype)
                out.set(key, Parameter(drawn, leaf.requires_grad))
        return TensorDictParams(out, no_convert=True)

    def get_stateful_net(self, network_name: str, copy_net: bool | None = None) -> Any:
        """A network of its own that has the parameters of the loss, which it shares.

        Args:
            network_name: such as "actor_network".
            copy_net: False puts the parameters into the network of the loss itself.

        Example:
            >>> from lite import nn
            >>> from lite.nn.losses import DQNLoss
            >>> loss = DQNLoss(nn.Linear(4, 2), action_space="categorical")
            >>> net = loss.get_stateful_net("value_network")
            >>> net[0].module.weight is loss.value_network_params["module", "0", "module", "weight"]
            True
        """
        net = self.__dict__[network_name]
        if copy_net is not False:
            net = copy.deepcopy(net)
        getattr(self, f"{network_name}_params").to_module(net, return_swap=False)
        return net

    # -- the estimator of targets ------------------------------------------------------------------------

    @property
    def value_estimator(self) -> ValueEstimatorBase:
        """The estimator of targets and advantages: the default one, unless `make_value_estimator` chose
        another.
        """
        if self._value_estimator is None:
            self.make_value_estimator()
        found: Any = self._value_estimator
        return found

    def make_value_estimator(self, value_type: Any = None, **hyperparams: Any) -> Self:
        """Choose the estimator of targets and advantages.

        Args:
            value_type: a `ValueEstimators` or its name; an estimator, which is used as it is; or the class
                of one, which is called with `hyperparams` alone. None is the default of the loss.
            **hyperparams: arguments of the estimator, such as `gamma`; see `default_value_kwargs` for
                what is taken otherwise.

        Returns:
            The loss.

        Raises:
            KeyError: the name of the estimator is unknown.
            NotImplementedError: the loss has no use for this one.

        Example:
            >>> from lite import nn
            >>> from lite.nn.losses import DQNLoss, ValueEstimators
            >>> loss = DQNLoss(nn.Linear(4, 2), action_space="categorical")
            >>> loss = loss.make_value_estimator(ValueEstimators.TDLambda, gamma=0.9)
            >>> type(loss.value_estimator).__name__, round(float(loss.value_estimator.gamma), 3)
            ('TDLambdaEstimator', 0.9)
        """
        if isinstance(value_type, ValueEstimatorBase):
            self._value_estimator, self.value_type = value_type, type(value_type)
            return self
        if isinstance(value_type, type) and issubclass(value_type, ValueEstimatorBase):
            self._value_estimator, self.value_type = value_type(**hyperparams), value_type
            return self
        if value_type is None:
            value_type = self.default_value_estimator
            if value_type is None:
                raise NotImplementedError(f"{type(self).__name__} has no estimator of targets.")
        value_type = named(value_type)
        options = {**self._estimator_options, **hyperparams}
        supported = self.SUPPORTED_VALUE_ESTIMATORS
        self._value_estimator = made_for(self, value_type, supported, self._estimator_keys(), options)
        self.value_type = value_type
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # The estimator is made when it is first needed: in the loss that was saved, it was.
        saved = any(key.startswith(f"{prefix}_value_estimator.") for key in state_dict)
        if saved and self._value_estimator is None and self.default_value_estimator is not None:
            self.make_value_estimator()
        super()._load_from_state_dict(state_dict, prefix, *args)

    # -- coefficients --------------------------------------------------------------------------------------

    def register_coeff_buffer(self, name: str, value: Any) -> None:
        """Keep a number as a buffer of the default floating type; None sets the attribute to None.

        Raises:
            ValueError: no single number.
        """
        if value is None:
            setattr(self, name, None)
            return
        array = np.asarray(value)
        if array.size != 1 or array.dtype.kind not in "iuf":
            raise ValueError(f"{name} must be a number or None, got {value!r}.")
        dtype = array.dtype if isinstance(value, np.ndarray) else get_default_dtype()
        self.register_buffer(name, array.astype(dtype).view(Coefficient))

    def _number(self, name: str) -> Any:
        """A coefficient as a Python number, so that products keep the dtype of the other factor; under `vmap`
        each member of a population may have its own.
        """
        value = detached(getattr(self, name))
        if grad_state.base is not None and isinstance(value, np.ndarray):  # a graph reads it at each call
            read = grad_state.base(value)
            value = read if is_symbolic(read) else value
        return as_number(value)

    # -- from losses per element to one number -------------------------------------------------------------

    @property
    def loss_mask_key(self) -> NestedKey | None:
        """The entry that is True where a step counts; "auto", or None where all do."""
        return self._loss_mask_key

    @loss_mask_key.setter
    def loss_mask_key(self, value: Any) -> None:
        if value is not None and not isinstance(value, str | tuple):
            raise ValueError(f"loss_mask_key must be 'auto', None or a key, got {value!r}.")
        self._loss_mask_key = value

    def _reduce_loss(
        self, loss: Array, tensordict: TensorDictBase | None, *, mask: Array | None = None,
        reduction: str | None = None, weights: Array | None = None,
    ) -> Array:  # fmt: skip
        """Reduce a loss per element to one number, without masked elements; unchanged for "none"."""
        if mask is not None:
            mask = expanded(mask, loss)
        if tensordict is not None:
            for entry in self._masks(tensordict):
                valid = expanded(entry, loss)
                mask = valid if mask is None else mask & valid
        reduction = reduction or self.reduction
        out = reduced(loss, reduction, mask, weights)
        if reduction != "none" and _is_nan(out, what := f"a loss of {self.__name__}"):
            raise ValueError(f"{what} is NaN; {_source_of_nan(tensordict)}.")
        return out

    def _masks(self, tensordict: TensorDictBase) -> list[Any]:
        """The entries that mask steps."""
        key = self._loss_mask_key
        keys = () if key is None else AUTO_LOSS_MASK_KEYS if key == "auto" else (key,)
        found = [tensordict.get(key, None) for key in keys]
        return [entry.astype(bool) for entry in found if entry is not None]

    def _batch(self, tensordict: TensorDictBase) -> TensorDictBase:
        """A copy of the batch, which is written to, with 0 for NaN in steps that do not count.

        Derivatives of masked elements are multiplied by 0, but NaN times 0 is NaN and would reach every
        parameter.
        """
        td = tensordict.copy()
        for mask in self._masks(td):
            while mask.ndim > td.ndim:
                mask = mask.all(-1)
            for key, leaf in list(td.items(True, True)):
                floats = type(leaf) is np.ndarray and leaf.dtype.kind == "f"
                if floats and leaf.shape[: mask.ndim] == mask.shape and np.isnan(leaf).any():
                    counts = mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim))
                    td.set(key, np.where(~counts & np.isnan(leaf), leaf.dtype.type(0), leaf))
        return td

    def _maybe_get_priority_weight(self, tensordict: TensorDictBase) -> Array | None:
        """The weights of a prioritized buffer, if there are any and they are wanted."""
        if self.use_prioritized_weights not in (True, "auto"):
            return None
        return tensordict.get(self.tensor_keys.priority_weight, None)

    def _write_priority(self, tensordict: TensorDictBase, error: Array) -> None:
        """Give the batch its errors; a locked one must have a place for them."""
        self._write(tensordict, {self.tensor_keys.priority: error})

    def _write(self, tensordict: TensorDictBase, found: Mapping[NestedKey, Array]) -> None:
        """Give the batch entries; a locked one must have places for them."""
        for key, value in found.items():
            tensordict.set(key, value, inplace=tensordict.is_locked)


def _checked_key(name: str, key: Any) -> Any:
    if isinstance(key, list):
        return [_checked_key(name, one) for one in key]
    if not isinstance(key, str | tuple):
        raise ValueError(f"a key must be a string or a tuple of strings, got {name}={key!r}.")
    return unravel_key(key)


def _sampling(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a loss during which modules take samples as the loss says."""

    @wraps(method)
    def sampled(self: LossModule, *args: Any, **kwargs: Any) -> Any:
        with set_interaction_type(self.deterministic_sampling_mode):
            return method(self, *args, **kwargs)

    return sampled


def _warning(forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward` that warns of targets without an updater."""

    @wraps(forward)
    def warned(self: LossModule, *args: Any, **kwargs: Any) -> Any:
        if not all(self._has_update_associated.values()) and _warnings_wanted():
            warn(_NO_UPDATER, UserWarning)
        try:
            return forward(self, *args, **kwargs)
        except TypeError as error:
            if type(error).__name__ != "TracerArrayConversionError":
                raise
            raise TypeError(
                f"{type(self).__name__} computes with NumPy, which cannot take what jax.grad and jax.jit "
                "trace: give it np.asarray(x) of their arrays, and take gradients by lite.value_and_grad or "
                "backward()."
            ) from error

    return warned


def _warnings_wanted() -> bool:
    return os.environ.get("RL_WARNINGS", "True").lower() not in ("0", "false")


def _is_nan(value: Array, name: str) -> bool:
    """Whether a number is NaN; a graph that is traced says so when it runs."""
    array = detached(value)
    if is_symbolic(array) and array.ndim == 0:
        array.graph.refuse_nan(array, name)
        return False
    plain = isinstance(array, np.ndarray | np.generic) and array.ndim == 0
    return bool(plain and np.isnan(array))


def _source_of_nan(batch: object) -> str:
    keys = []
    if isinstance(batch, TensorDictBase):
        for key, leaf in batch.items(True, True):
            if type(leaf) is np.ndarray and leaf.dtype.kind == "f" and np.isnan(leaf).any():
                keys.append(key)
    return f"there is NaN in the entries {keys}" if keys else "the entries of the batch have no NaN"


belong_to("lite.nn.losses", LossModule)
