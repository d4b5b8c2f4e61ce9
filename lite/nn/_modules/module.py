"""Module: the base of everything that has parameters, buffers, children or hooks."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from numpy import ndarray

from lite._transforms.grad.running import state as grad_state
from lite.nn._modules.casting import Casting
from lite.nn._modules.compile import compile_functions
from lite.nn._modules.hooks import call_with_hooks
from lite.nn._modules.namespaces import call_shown, without_shown
from lite.nn._modules.parameter import Parameter, check_requires_grad
from lite.nn._modules.state_dict import StateDictMethods


class Module(Casting, StateDictMethods):
    """Base class of modules: registers what is assigned to it, and runs `forward` when called.

    Assigning a `Parameter`, a `Module` or (with `register_buffer`) an array to an attribute puts it
    in the state dict under the attribute's name. Subclasses call `super().__init__()` first and
    define `forward`. Under `lite.enable_grad()` its parameters take part in gradients.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> class Scale(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = nn.Parameter(np.float32(2.0))
        ...
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> Scale()(np.ones(2, dtype=np.float32))
        array([2., 2.], dtype=float32)
    """

    def __init__(self) -> None:
        self._init_registries()
        self._init_hooks()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation of the module; subclasses define it."""
        raise NotImplementedError(f"Module [{type(self).__name__}] is missing the required 'forward' method.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self.__dict__  # attribute access is slow on a class that has __getattr__
        if (
            state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
        ):
            return call_shown(partial(_hooked, self), args, kwargs)
        for arg in args:
            if type(arg) is not ndarray:
                return call_shown(self.forward, args, kwargs)
        out = self.forward(*args, **kwargs)
        return out if type(out) is ndarray else without_shown(out)

    def train(self, mode: bool = True) -> Self:
        """Set `training` on this module and its descendants; returns self.

        Raises:
            ValueError: if `mode` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode must be a bool, got {mode!r}.")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether gradients by all parameters are wanted under `lite.enable_grad()`; returns self.

        Raises:
            RuntimeError: if one of them is neither floating nor complex; no flag is set then.
        """
        params = list(self.parameters())
        for param in params:
            check_requires_grad(param.dtype, requires_grad)
        for param in params:
            param.requires_grad = bool(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget `grad` of all parameters.

        Args:
            set_to_none: False sets it to zeros, in place, where there is one.
        """
        for param in self.parameters():
            param.clear_grad(set_to_none)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the plain functions in this module and its descendants with Numba, when they are called.

        That is, functions of arrays and numbers that were given to a `TensorDictModule`. It pays for those
        that loop in Python; a few operations on whole arrays are as fast or faster in NumPy, as layers are,
        which stay as they are. The first call with arguments of a kind (dtypes, numbers of dimensions)
        compiles, which takes seconds, and compares the result with that of Python. A function that Numba does
        not compile, or that gives another result compiled, runs in Python, after a warning that names it and
        the reason.

        Args:
            args: none; torch's are by keyword, too.
            kwargs: the options of torch.compile: `fullgraph=True` raises RuntimeError instead of running in
                Python, `disable=True` does nothing, the others (`dynamic`, `backend`, `mode`, `options`) have
                no meaning here.

        Raises:
            TypeError: for another argument.

        Example:
            >>> import numpy as np
            >>> from lite.nn import TensorDictModule
            >>> def clipped_sum(x):
            ...     total = 0.0
            ...     for value in x:
            ...         total += min(value, 1.0)
            ...     return total
            >>> module = TensorDictModule(clipped_sum, ["x"], ["y"])
            >>> module.compile()
            >>> float(module(np.array([0.5, 3.0])))
            1.5
        """
        compile_functions(self, args, kwargs)

    def extra_repr(self) -> str:
        """What `repr` puts between the parentheses; empty by default."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        return repr_lines(type(self).__name__, lines, children)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # For subclasses that call it, as those of torch do.
        self.__dict__.update(state)

    def _tensor(self, name: str) -> Any:
        """What a parameter computes as (None if it is); also when a plain array took its place.

        That is the raw array, or a traced one under `enable_grad`.
        """
        params = self.__dict__["_parameters"]
        value = params[name] if name in params else getattr(self, name)
        if isinstance(value, Parameter):
            return value.data if grad_state.leaf is None else grad_state.leaf(value)
        return value


def _hooked(module: Module, *args: Any, **kwargs: Any) -> Any:
    return call_with_hooks(module, module.forward, args, kwargs)


def indented(text: str, width: int = 2) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n" + " " * width)


def repr_lines(name: str, extra: list[str], children: list[str]) -> str:
    """`Name(extra)` on one line, or one indented line per child."""
    if len(extra) == 1 and not children:
        return f"{name}({extra[0]})"
    lines = extra + children
    if not lines:
        return f"{name}()"
    body = "\n  ".join(lines)
    return f"{name}(\n  {body}\n)"
