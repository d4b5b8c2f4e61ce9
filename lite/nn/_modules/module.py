"""Module: the base of everything that has parameters, buffers, children or hooks."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from numpy import ndarray

from lite._arrays.public import belong_to
from lite._lazy_hooks import implementation
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.running import state as grad_state
from lite.nn._modules.casting import Casting
from lite.nn._modules.hooks import call_with_hooks
from lite.nn._modules.namespaces import call_wrapped, unwrap_result
from lite.nn._modules.parameter import Parameter, check_requires_grad
from lite.nn._modules.state_dict import StateDictMethods


class Module(Casting, StateDictMethods):
    """Base class of modules: registers what is assigned to it, and runs `forward` when called.

    Assigning a `Parameter`, a `Module` or (with `register_buffer`) an array to an attribute puts it
    in the state dict under the attribute's name. Subclasses call `super().__init__()` first and
    define `forward`. Under `lite.enable_grad()` operations on its parameters are traced for gradients.

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
        if state["_hooked"] and (
            state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
        ):
            return call_wrapped(partial(_hooked, self), args, kwargs)
        for arg in args:
            if type(arg) is not ndarray and type(arg) is not TracedArray:
                return call_wrapped(self.forward, args, kwargs)
        out = self.forward(*args, **kwargs) if kwargs else self.forward(*args)  # without, in half the time
        return out if type(out) is ndarray or type(out) is TracedArray else unwrap_result(out)

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
        """Alias of `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters; returns self.

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
        """Remove `grad` of all parameters.

        Args:
            set_to_none: False sets existing gradients to zeros in place instead.
        """
        for param in self.parameters():
            param.clear_grad(set_to_none)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *inputs: Any,
        kwargs: Mapping[str, Any] | None = None,
        input_names: Any = None,
        output_names: Any = None,
        dynamic_axes: Mapping[str, Any] | None = None,
        states: Mapping[Any, Any] | None = None,
        normalization: Mapping[Any, Module] | None = None,
        interaction_type: str = "deterministic",
        external_data: bool | None = None,
        contract: bool = True,
        opset: int = 20,
    ) -> Path:
        """Write the module as an ONNX graph that computes what it does in evaluation mode.

        The module is traced on symbolic arrays of the examples' shapes and dtypes. Parameters and buffers
        keep their names. A second file, ``<path>.json``, describes inputs and outputs; `OnnxModule` reads it.

        Args:
            path: path of the ONNX file.
            inputs: examples, as `forward` takes them: arrays, also in tuples and dicts, or a TensorDict.
            kwargs: examples of keyword arguments.
            input_names: names for the graph, a list or a dict from keys. By default the names of the
                arguments (``hx_0``, ``hx_1`` for a tuple), or keys: ("next", "state") is ``next.state``.
            output_names: likewise; ``output``, or ``output_0``, ``output_1`` for a tuple. An output whose
                name is that of an input gets the prefix "new_".
            dynamic_axes: as of torch.onnx.export, the axes that may have any size: {name: {axis: label}} or
                {name: [axes]}. By default the batch of the TensorDict, or the first axis of all arrays.
            states: keys of inputs with those of the outputs that are their next values. By default
                ("next", key) of each key, or the key itself, if there is such an output.
            normalization: modules by the keys of inputs that they are applied to first, in the graph.
            interaction_type: interaction type of distributions: "deterministic", "mode", "mean" or "median".
            external_data: whether weights are written to a second file; by default if they exceed 2 GB.
            contract: whether to write the JSON file.
            opset: the version of ONNX's operators, from 20 to 25.

        Raises:
            NotImplementedError: something cannot be exported; the message has the path of the module and
                the function.
            RuntimeError: Python branches on numbers; a parameter has no data.
            ValueError: names, axes or options that do not fit.

        Example:
            >>> import numpy as np, tempfile
            >>> from lite import nn
            >>> from lite.models import OnnxModule
            >>> net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = net.to_onnx(f"{folder}/net.onnx", np.zeros((1, 4), np.float32))
            ...     OnnxModule(path)(np.zeros((32, 4), np.float32)).shape
            (32, 2)
        """
        names, options = (input_names, output_names), (interaction_type, external_data, contract, opset)
        write = implementation("to_onnx", self)
        return write(self, path, inputs, kwargs, *names, dynamic_axes, states, normalization, *options)

    def extra_repr(self) -> str:
        """The text between the parentheses of `repr`; empty by default."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(module))}" for name, module in self._modules.items()]
        return repr_lines(type(self).__name__, lines, children)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Subclasses written for torch call it. Earlier pickles have no `_hooked`.
        self.__dict__.update({"_hooked": OrderedDict({0: True}), **state})

    def _tensor(self, name: str) -> Any:
        """The array to compute with for a parameter, or for a plain array in its place; None for None.

        It is the raw array, or a traced one under `enable_grad`.
        """
        params = self.__dict__["_parameters"]
        value = params[name] if name in params else getattr(self, name)
        if isinstance(value, Parameter):
            return value.data if grad_state.leaf is None else grad_state.leaf(value)
        return value

    def _held(self, name: str) -> Any:
        """The raw array of a parameter, which can be written to also under `enable_grad`; None for None."""
        params = self.__dict__["_parameters"]
        value = params[name] if name in params else getattr(self, name)
        return value.data if isinstance(value, Parameter) else value


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


belong_to("lite.nn", Module)
