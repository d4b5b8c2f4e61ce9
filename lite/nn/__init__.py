"""Modules on NumPy: Module, layers, TensorDictModule and TensorDictSequential."""

from lite.nn._hooks import RemovableHandle
from lite.nn._meta import MetaArray
from lite.nn.activations import Identity, ReLU, Tanh
from lite.nn.as_tensordict_module import as_tensordict_module
from lite.nn.containers import ModuleDict, ModuleList, Sequential
from lite.nn.dispatch import dispatch
from lite.nn.linear import Linear
from lite.nn.module import Module
from lite.nn.parameter import Parameter
from lite.nn.skip_existing import set_skip_existing, skip_existing
from lite.nn.td_module import TensorDictModule
from lite.nn.td_module_base import TensorDictModuleBase
from lite.nn.td_sequential import TensorDictSequential
from lite.nn.td_wrappers import TensorDictModuleWrapper, WrapModule

__all__ = [
    "Identity",
    "Linear",
    "MetaArray",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ReLU",
    "RemovableHandle",
    "Sequential",
    "Tanh",
    "TensorDictModule",
    "TensorDictModuleBase",
    "TensorDictModuleWrapper",
    "TensorDictSequential",
    "WrapModule",
    "as_tensordict_module",
    "dispatch",
    "set_skip_existing",
    "skip_existing",
]
