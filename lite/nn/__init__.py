"""Modules on NumPy: Module, layers, TensorDictModule and TensorDictSequential."""

from lite.nn._hooks import RemovableHandle
from lite.nn._meta import MetaArray
from lite.nn.activations import Identity, ReLU, Tanh
from lite.nn.containers import ModuleDict, ModuleList, Sequential
from lite.nn.linear import Linear
from lite.nn.module import Module
from lite.nn.parameter import Parameter

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
]
