"""Optimizer, the base of all optimisers.

A subclass names the arrays of a parameter's state and the numbers of a step. The base has the functional
interface (`init`, `update`, `update_` of TensorDicts) and torch's interface over Parameters (`step`,
`zero_grad`, `state_dict`, ...). Both end in `leaves.advance`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np

import lite
from lite import TensorDict
from lite._arrays.dtypes import Dtype, is_floating
from lite._arrays.foreign import class_name
from lite._arrays.types import Array, is_interpreted, raw
from lite.nn import Module, Parameter
from lite.nn._parameters.tree import tree_of
from lite.optim import state_dict as states
from lite.optim.in_graphs import OptimizerPart
from lite.optim.leaves import advance, by_dtype, compute_dtype, is_writeable
from lite.optim.trees import check_state, new_state, pair

Options: TypeAlias = dict[str, Any]


class Optimizer:
    """Base of all optimisers. The first argument chooses one of two interfaces:

    - A number, or a function of the step (from 0), is the learning rate. The optimiser then holds no
      parameters: `update` and `update_` take them, their gradients and a state as TensorDicts.
    - Parameters, or parameter groups (`[{"params": ..., "lr": ...}]`), make it torch's: `step` reads their
      `grad`.

    A leaf is computed in float32, or in float64 if it is of that dtype; its state has its dtype, as in torch.

    Args:
        params: see above.
        given: the arguments of the constructor, with those of `_options`; "lr" is None unless given.
        default_lr: the learning rate if none is given.

    Raises:
        TypeError: `params` is of another type, or the learning rate is given twice.
        ValueError: an option is out of its range, there are no parameters, or one appears twice.
    """

    # The arrays beside a parameter by the option that asks for them: None stands for always.
    _slots: ClassVar[dict[str, str | None]] = {}
    _kernel: ClassVar[str]
    _counts: ClassVar[bool] = True  # whether torch keeps the number of steps for each parameter
    _options: ClassVar[tuple[str, ...]]  # of groups
    _not_negative: ClassVar[tuple[str, ...]] = ("lr", "weight_decay")

    def __init__(self, params: Any, given: Mapping[str, Any], default_lr: float) -> None:
        lr = given["lr"]
        functional = params is None or _is_rate(params)
        if functional and params is not None:
            if lr is not None:
                raise TypeError(
                    f"the learning rate is given twice: as the first argument, {params}, and lr={lr}."
                )
            lr = params
        self.defaults: Options = {name: given[name] for name in self._options}
        self.defaults["lr"] = default_lr if lr is None else lr
        self.state: defaultdict[Parameter, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Options] = []
        # While a graph is traced: what it adds to numbers of steps in `state`, and what a state begins as.
        self.steps_before: dict[Parameter, Any] = {}
        self.zeros: defaultdict[Parameter, dict[str, Any]] = defaultdict(dict)
        self._check(self.defaults)
        self._functional = functional
        if functional:
            return
        if callable(lr):
            raise TypeError(
                "lr must be a number for an optimiser over parameters; schedules such as LambdaLR change it."
            )
        for group in _groups(params):
            self.add_param_group(group)

    # -- what a subclass says ------------------------------------------------------------------------

    def _check(self, options: Options) -> None:
        """Raise if an option is out of its range."""
        for name in self._not_negative:
            value = options[name]
            if name == "lr" and callable(value):
                continue
            if not _is_number(value):
                raise TypeError(f"{name} must be a number, got {type(value).__name__}.")
            if not is_interpreted(value) and not value >= 0:
                raise ValueError(f"{name} must be at least 0, got {value}.")

    def _numbers(self, options: Options, lr: float, step: int) -> tuple[float, ...]:
        """The coefficients of a step's formula; `step` counts this one, so it is 1 for a new parameter."""
        raise NotImplementedError

    def _names(self, options: Options) -> list[str]:
        return [name for name in self._slots if self._asks(name, options)]

    def _asks(self, name: str, options: Options) -> bool:
        asked = self._slots[name]
        return asked is None or bool(options[asked])

    # -- functions of TensorDicts --------------------------------------------------------------------

    def init(self, params: Any) -> TensorDict:
        """The state before the first step.

        Args:
            params: a TensorDict (also TensorDictParams, or a tensorclass) of parameters; it is only read.

        Returns:
            a TensorDict: "step", a number, and for each array that the optimiser keeps a TensorDict like
            `params`, under torch's name for it. It can be saved, loaded and indexed as any other.
        """
        self._require_functional("init")
        return new_state(params, self._names(self.defaults))

    def update(self, params: Any, grads: Any, state: Any = None) -> tuple[Any, TensorDict]:
        """Parameters and state after one step, which share no memory with those before.

        Args:
            params: a TensorDict of parameters. Floating buffers are some, too: where there is weight decay,
                leave them out, as their gradient of 0 does not keep them.
            grads: a TensorDict of their gradients, such as `value_and_grad` gives. Leaves that are no
                floating numbers, such as counters, need none and stay as they are.
            state: what `init` or the last step gave; None before the first.

        Returns:
            the new parameters and the new state.

        Raises:
            RuntimeError: the optimiser was made over parameters.
            ValueError: gradients with other keys or shapes, or the state of another optimiser or of other
                parameters; the key is named.

        Example:
            >>> import numpy as np
            >>> from lite import TensorDict, optim
            >>> params, grads = TensorDict(w=np.ones(2)), TensorDict(w=np.array([2.0, -4.0]))
            >>> new, state = optim.SGD(0.25).update(params, grads)
            >>> new["w"], int(state["step"])
            (array([0.5, 2. ]), 1)
        """
        self._require_functional("update")
        state = self.init(params) if state is None else state
        for tree, name in ((params, "params"), (state, "state")):
            tree_of(tree, name)  # the error if there is nothing to copy
        return self.update_(params.clone(), grads, state.clone())

    def update_(self, params: Any, grads: Any, state: Any = None) -> tuple[Any, TensorDict]:
        """As `update`, in the memory of `params` and `state`, which it returns.

        Entries of `params` that are Parameters, as in `TensorDict.from_module(net)`, change the module that
        they belong to.

        Raises:
            ValueError: also for read-only parameters or state. Nothing has changed after an error.
        """
        self._require_functional("update_")
        state = self.init(params) if state is None else state
        rows = self._matched(params, grads, state)
        count = raw(state["step"])
        written = [array for row in rows for array in (row[0], *row[2:])]  # 1: the gradient
        if not all(map(is_writeable, [*written, count])):
            raise ValueError("params and state are written in place, but some are read-only: use update.")
        done = count.copy() if is_interpreted(count) else int(count)
        lr = self.defaults["lr"]
        rate = lr(done) if callable(lr) else lr
        rate = rate if is_interpreted(rate) else float(rate)
        numbers = self._numbers(self.defaults, rate, done + 1)
        _require_mapped(rows, numbers)
        for dtype, leaves in by_dtype(rows).items():
            if len(leaves[0]) < 2 + len(self._slots):  # arrays that the options do without are left out
                here = iter(range(2, len(leaves[0])))
                places = [next(here) if self._asks(name, self.defaults) else None for name in self._slots]
                leaves = [(*row[:2], *(None if k is None else row[k] for k in places)) for row in leaves]
            advance(self._kernel, leaves, numbers, dtype)
        count[...] = done + 1
        return params, state

    def _matched(self, params: Any, grads: Any, state: Any) -> list[list[Array]]:
        names = self._names(self.defaults)
        check_state(type(self).__name__, state, names)
        return pair(params, grads, {name: state[name] for name in names})

    def _require_functional(self, method: str) -> None:
        if not self._functional:
            raise RuntimeError(
                f"{method} takes the parameters, but this {type(self).__name__} was made over parameters of "
                f"its own: call step(), or make it with a learning rate alone."
            )

    # -- torch's methods over Parameters -------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for every parameter that has a gradient.

        Args:
            closure: computes the loss again and its gradients (`zero_grad`, `backward`); called first, under
                `enable_grad`.

        Returns:
            what `closure` returned, or None.

        Raises:
            RuntimeError: the optimiser has no parameters.
            ValueError: a gradient of another shape than its parameter, a read-only parameter.

        After an error of a gradient or an option nothing has changed.
        """
        if self._functional:
            raise RuntimeError(
                f"this {type(self).__name__} was made with a learning rate alone and has no parameters: call "
                f"update(params, grads, state), or make it over net.parameters()."
            )
        loss = None
        if closure is not None:
            with lite.enable_grad():
                loss = closure()
        jobs = []
        for number, group in enumerate(self.param_groups):
            # Parameters of one dtype that had the same number of steps.
            together: dict[tuple[Dtype, int, int], list[tuple[Parameter, Array]]] = {}
            for place, param in enumerate(group["params"]):
                if param.grad is not None:
                    grad = _checked(param, number, place)
                    state = self.state.get(param)
                    done = 0 if not state else state["step"] if self._counts else 1
                    key = param.data.dtype, done, id(self.steps_before.get(param))
                    together.setdefault(key, []).append((param, grad))
            jobs += [(group, *key, members) for key, members in together.items()]
        # All are prepared before one is made, as options that were changed since may be refused.
        steps = []
        for group, dtype, done, _, members in jobs:
            rate, before = group["lr"], self.steps_before.get(members[0][0])
            rate = rate if is_interpreted(rate) else float(rate)
            numbers = self._numbers(group, rate, done + 1 if before is None else before + (done + 1))
            new: list[tuple[Parameter, str, Array]] = []
            leaves = [(param.data, grad, *self._begun(param, group, new)) for param, grad in members]
            _require_mapped(leaves, numbers)
            steps.append((members, done, new, leaves, numbers, compute_dtype(dtype)))
        for members, done, new, leaves, numbers, dtype in steps:
            advance(self._kernel, leaves, numbers, dtype)
            if self._counts:
                for param, _ in members:
                    self.state[param]["step"] = done + 1
            for param, name, array in new:
                self.state[param][name] = array
        return loss

    def _begun(
        self, param: Parameter, group: Options, new: list[tuple[Parameter, str, Array]]
    ) -> list[Array | None]:
        """The arrays beside a parameter, which begin as zeros; those that do go to `new`."""
        state = self.state.get(param) or {}
        out: list[Array | None] = []
        for name in self._slots:
            array = None
            if self._asks(name, group):
                array = state.get(name)
                if array is None:
                    zeros = self.zeros.get(param, {}).get(name)
                    array = np.zeros_like(param.data) if zeros is None else zeros
                    new.append((param, name, array))
            out.append(array)
        return out

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters.

        Args:
            set_to_none: False sets them to 0 instead.
        """
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    param.grad = np.zeros_like(param.grad)

    def add_param_group(self, param_group: Options) -> None:
        """Add parameters with options of their own.

        Args:
            param_group: "params", and options that are to differ from the defaults. Arrays among the
                parameters, such as the buffers of `loss.actor_network_params.values()`, are left out.

        Raises:
            TypeError: no dict, or what is to be optimised is not a Parameter.
            ValueError: an option out of its range, an unknown one, a parameter that is there twice.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, got {type(param_group).__name__}.")
        if "params" not in param_group:
            raise ValueError(f"param_group must have 'params', got {sorted(param_group)}.")
        given = param_group["params"]
        if isinstance(given, (set, frozenset)):
            raise TypeError("params must be ordered, as a state dict goes by their numbers; got a set.")
        params = [given] if isinstance(given, Parameter) else list(given)
        learnt = [param for param in params if not isinstance(param, np.ndarray)]
        params = learnt or params  # nothing but arrays is a mistake
        for param in params:
            if not isinstance(param, Parameter):
                raise TypeError(f"an optimiser takes Parameters, got {class_name(param)}.")
            if not is_floating(param.dtype):
                raise TypeError(f"an optimiser takes floating Parameters, got one of {param.dtype}.")
        group = {**self.defaults, **param_group, "params": params}
        self._check(group)
        if callable(group["lr"]):
            raise TypeError("lr of a group must be a number, got a function.")
        everything = [*params, *(param for other in self.param_groups for param in other["params"])]
        if len({id(param) for param in everything}) != len(everything):
            raise ValueError("some parameters appear more than once.")
        self.param_groups.append(group)

    def state_dict(self, *, as_torch: bool = False) -> dict[str, Any]:
        """The state in torch's form: "state" by the numbers of the parameters, and "param_groups".

        Args:
            as_torch: give torch's tensors instead of arrays, for `load_state_dict` of torch's optimiser.

        Returns:
            new dicts; the arrays are the optimiser's own.

        Raises:
            ImportError: `as_torch` without torch.

        Example:
            >>> import numpy as np
            >>> from lite import nn, optim
            >>> net = nn.Linear(2, 1)
            >>> net.weight.grad = np.ones((1, 2), np.float32)
            >>> optimizer = optim.Adam(net.parameters(), lr=1e-3)
            >>> optimizer.step()
            >>> optimizer.state_dict()["state"][0]["exp_avg"]
            array([[0.1, 0.1]], dtype=float32)
        """
        return states.saved(self.param_groups, self.state, as_torch)

    def load_state_dict(self, state_dict: Mapping[str, Any] | TensorDict) -> None:
        """Load the state of another optimiser: one of this class, or torch's of the same name.

        Args:
            state_dict: of arrays or tensors, which are copied. Options replace those of the groups. It may be
                what the state of `lite.load_step` has for this optimiser: its options are learning rates.

        Raises:
            ValueError: other groups, other shapes, or the state of another kind of optimiser. Nothing has
                changed then.
        """
        groups, state = states.loaded(
            type(self).__name__, state_dict, self.param_groups, set(self._slots), self._counts
        )
        for group in groups:
            self._check(group)
        self.param_groups = groups
        self.state = defaultdict(dict, state)

    def in_graphs(self) -> OptimizerPart:
        """The state that a function traced by `lite.jit` reads and writes."""
        return OptimizerPart(self)

    def __repr__(self) -> str:
        groups = self.param_groups or [self.defaults]
        lines = [
            "    ".join(["", f"{name}: {value}\n"])
            for group in groups
            for name, value in sorted(group.items())
            if name != "params"
        ]
        return f"{type(self).__name__} (\n{''.join(lines)})"


def group_optimizers(*optimizers: Optimizer | None) -> Optimizer:
    """One optimiser over the parameters of several, with the options of each; their states restart.

    Args:
        *optimizers: optimisers of one class over parameters; None is left out.

    Raises:
        TypeError: there is none.
        ValueError: another class, an optimiser without parameters, or a parameter that is in two of them.

    Source:
        torchrl.objectives.utils.group_optimizers.

    Example:
        >>> import numpy as np
        >>> from lite import nn, optim
        >>> first = optim.Adam([nn.Parameter(np.ones(2))], lr=0.1)
        >>> second = optim.Adam([nn.Parameter(np.ones(3))], lr=0.2)
        >>> [group["lr"] for group in optim.group_optimizers(first, None, second).param_groups]
        [0.1, 0.2]
    """
    given = [optimizer for optimizer in optimizers if optimizer is not None]
    if not given:
        raise TypeError("optimizers must have one that is not None.")
    classes = sorted({type(optimizer).__name__ for optimizer in given})
    if len(classes) > 1:
        raise ValueError(f"optimizers must be of one class, got {classes}.")
    if not all(optimizer.param_groups for optimizer in given):
        raise ValueError(f"optimizers must be over parameters, got a {classes[0]} without any.")
    cls: Any = type(given[0])
    return cls([group for optimizer in given for group in optimizer.param_groups])


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray) or is_interpreted(value):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    return isinstance(value, (Real, np.number)) and not isinstance(value, (bool, np.bool_))


def _is_rate(value: Any) -> bool:
    """True for a learning rate: a number, or a function of the step."""
    return _is_number(value) or (callable(value) and not isinstance(value, (Iterable, Module)))


def _groups(params: Any) -> list[Options]:
    if isinstance(params, TensorDict):
        raise TypeError(
            f"params must be Parameters, got a {type(params).__name__}: make the optimiser with a learning "
            f"rate alone and call update(params, grads, state), or pass its parameters()."
        )
    if isinstance(params, Module):
        raise TypeError(f"params must be Parameters, got a {type(params).__name__}: pass its parameters().")
    if isinstance(params, (Parameter, np.ndarray, str, Mapping)) or not isinstance(params, Iterable):
        raise TypeError(
            f"params must be a learning rate, Parameters, or dicts of them, got {type(params).__name__}."
        )
    if isinstance(params, (set, frozenset)):
        raise TypeError("params must be ordered, as a state dict goes by their numbers; got a set.")
    groups = list(params)
    if not groups:
        raise ValueError("params must not be empty: there is nothing to optimise.")
    return groups if isinstance(groups[0], dict) else [{"params": groups}]


def _require_mapped(rows: Iterable[Sequence[Any]], numbers: tuple[Any, ...]) -> None:
    """Raise if a transformation knows what a step reads, but not what it changes."""
    ahead = any(map(is_interpreted, numbers))
    for row in rows:
        if (ahead or is_interpreted(row[1])) and not is_interpreted(row[0]):
            raise ValueError(
                "a transformation knows the gradients, the state or the rate, but not the params: pass them "
                "to update as an argument, too, for vmap such as params.expand(n, *params.batch_size)."
            )


def _checked(param: Parameter, number: int, place: int) -> Array:
    """The gradient of a parameter, if a step can be made."""
    array, grad = param.data, param.grad
    if is_interpreted(grad) and grad.shape == array.shape and grad.dtype == array.dtype:
        return grad
    if (
        type(grad) is np.ndarray
        and grad.dtype == array.dtype
        and grad.shape == array.shape
        and array.flags.writeable
    ):
        return grad
    if isinstance(grad, np.generic):  # arithmetic makes these of arrays without dimensions
        grad = np.asarray(grad)
    if isinstance(array, np.generic):
        array = param.data = np.asarray(array)
    name = f"parameter {place} of group {number}"
    if not isinstance(grad, np.ndarray) or not is_floating(grad.dtype):
        raise ValueError(f"grad of {name} must be an array of floating numbers, got {type(grad).__name__}.")
    if grad.shape != array.shape:
        raise ValueError(f"grad of {name} must have its shape, {array.shape}, got {grad.shape}.")
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only, so a step cannot change it.")
    return grad
