"""Modules on NumPy: Module, layers, and modules that work on TensorDicts.

In reading order, each built on those before:

settings            how samples are taken, whether outputs are computed again, whether arrays are taken
_modules            what a Module is: torch's nn.Module for inference
layers              layers that compute on arrays, one family per file
functional          losses and activations as functions of arrays and TensorDicts
distributions       what samples are drawn from
tensordict_modules  modules that read entries of a TensorDict and write others
_parameters         the parameters of a module as a TensorDict, exchanged, or several sets of them
values              estimators of advantages, and of the targets of value networks
losses              loss modules: DQN, PPO, SAC and others

Each package's docstring lists its files. Names are imported on first use, so a policy loads only the layers
it uses.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite._transforms.handles import RemovableHandle
    from lite.nn._modules.lazy import LazyModuleMixin
    from lite.nn._modules.load import load_safetensors
    from lite.nn._modules.meta import MetaArray
    from lite.nn._modules.module import Module
    from lite.nn._modules.parameter import Parameter
    from lite.nn._modules.uninitialized import UninitializedBuffer, UninitializedParameter
    from lite.nn._parameters.ensemble import EnsembleModule
    from lite.nn._parameters.from_module import extract_weights_and_buffers
    from lite.nn._parameters.params import TensorDictParams
    from lite.nn._parameters.to_module import (
        get_functional,
        is_functional,
        make_functional,
        repopulate_module,
    )
    from lite.nn.distributions import CompositeDistribution, OneHotCategorical, TruncatedNormal, rand_one_hot
    from lite.nn.distributions.log_prob_names import composite_lp_aggregate, set_composite_lp_aggregate
    from lite.nn.layers.activations import (
        ELU,
        GELU,
        Identity,
        LeakyReLU,
        LogSoftmax,
        ReLU,
        Sigmoid,
        SiLU,
        Softmax,
        Softplus,
        Tanh,
    )
    from lite.nn.layers.attention import MultiheadAttention
    from lite.nn.layers.containers import ModuleDict, ModuleList, Sequential
    from lite.nn.layers.convolution import Conv1d, Conv2d, LazyConv1d, LazyConv2d
    from lite.nn.layers.dropout import Dropout
    from lite.nn.layers.embedding import Embedding
    from lite.nn.layers.flatten import Flatten
    from lite.nn.layers.linear import Bilinear, LazyLinear, Linear
    from lite.nn.layers.mlp import MLP
    from lite.nn.layers.normal_params import (
        AddStateIndependentNormalScale,
        NormalParamExtractor,
        add_custom_mapping,
        biased_softplus,
        expln,
        inv_softplus,
        mappings,
    )
    from lite.nn.layers.normalization import BatchNorm1d, LayerNorm, LazyBatchNorm1d, RMSNorm
    from lite.nn.layers.pooling import AvgPool2d, MaxPool2d
    from lite.nn.layers.recurrent import GRU, LSTM, RNN
    from lite.nn.layers.recurrent_cells import GRUCell, LSTMCell, RNNCell
    from lite.nn.layers.transformer import (
        Transformer,
        TransformerDecoder,
        TransformerDecoderLayer,
        TransformerEncoder,
        TransformerEncoderLayer,
    )
    from lite.nn.settings import (
        InteractionType,
        interaction_type,
        set_interaction_type,
        set_skip_existing,
        skip_existing,
    )
    from lite.nn.tensordict_modules.base import TensorDictModuleBase
    from lite.nn.tensordict_modules.dispatch import dispatch
    from lite.nn.tensordict_modules.module import TensorDictModule, as_tensordict_module
    from lite.nn.tensordict_modules.probabilistic import ProbabilisticTensorDictModule
    from lite.nn.tensordict_modules.probabilistic_sequential import ProbabilisticTensorDictSequential
    from lite.nn.tensordict_modules.q_value import QValueActor, QValueModule, ValueOperator
    from lite.nn.tensordict_modules.sequential import TensorDictSequential
    from lite.nn.tensordict_modules.tensorclass_module import TensorClassModuleBase, TensorClassModuleWrapper
    from lite.nn.tensordict_modules.wrappers import TensorDictModuleWrapper, WrapModule
    from lite.nn.values.value_norm import PercentileValueNorm, PopArtValueNorm, RunningValueNorm, ValueNorm

# The public names by what defines them.
_NAMES = {
    "_transforms.handles": ["RemovableHandle"],
    "nn._modules.lazy": ["LazyModuleMixin"],
    "nn._modules.load": ["load_safetensors"],
    "nn._modules.meta": ["MetaArray"],
    "nn._modules.module": ["Module"],
    "nn._modules.parameter": ["Parameter"],
    "nn._modules.uninitialized": ["UninitializedBuffer", "UninitializedParameter"],
    "nn._parameters.ensemble": ["EnsembleModule"],
    "nn._parameters.from_module": ["extract_weights_and_buffers"],
    "nn._parameters.params": ["TensorDictParams"],
    "nn._parameters.to_module": ["get_functional", "is_functional", "make_functional", "repopulate_module"],
    "nn.distributions": ["CompositeDistribution", "OneHotCategorical", "TruncatedNormal", "rand_one_hot"],
    "nn.distributions.log_prob_names": ["composite_lp_aggregate", "set_composite_lp_aggregate"],
    "nn.layers.activations": [
        "ELU",
        "GELU",
        "Identity",
        "LeakyReLU",
        "LogSoftmax",
        "ReLU",
        "Sigmoid",
        "SiLU",
        "Softmax",
        "Softplus",
        "Tanh",
    ],
    "nn.layers.attention": ["MultiheadAttention"],
    "nn.layers.containers": ["ModuleDict", "ModuleList", "Sequential"],
    "nn.layers.convolution": ["Conv1d", "Conv2d", "LazyConv1d", "LazyConv2d"],
    "nn.layers.dropout": ["Dropout"],
    "nn.layers.embedding": ["Embedding"],
    "nn.layers.flatten": ["Flatten"],
    "nn.layers.linear": ["Bilinear", "LazyLinear", "Linear"],
    "nn.layers.mlp": ["MLP"],
    "nn.layers.normal_params": [
        "AddStateIndependentNormalScale",
        "NormalParamExtractor",
        "add_custom_mapping",
        "biased_softplus",
        "expln",
        "inv_softplus",
        "mappings",
    ],
    "nn.layers.normalization": ["BatchNorm1d", "LayerNorm", "LazyBatchNorm1d", "RMSNorm"],
    "nn.layers.pooling": ["AvgPool2d", "MaxPool2d"],
    "nn.layers.recurrent": ["GRU", "LSTM", "RNN"],
    "nn.layers.recurrent_cells": ["GRUCell", "LSTMCell", "RNNCell"],
    "nn.layers.transformer": [
        "Transformer",
        "TransformerDecoder",
        "TransformerDecoderLayer",
        "TransformerEncoder",
        "TransformerEncoderLayer",
    ],
    "nn.settings": [
        "InteractionType",
        "interaction_type",
        "set_interaction_type",
        "set_skip_existing",
        "skip_existing",
    ],
    "nn.tensordict_modules.base": ["TensorDictModuleBase"],
    "nn.tensordict_modules.dispatch": ["dispatch"],
    "nn.tensordict_modules.module": ["TensorDictModule", "as_tensordict_module"],
    "nn.tensordict_modules.probabilistic": ["ProbabilisticTensorDictModule"],
    "nn.tensordict_modules.probabilistic_sequential": ["ProbabilisticTensorDictSequential"],
    "nn.tensordict_modules.q_value": ["QValueActor", "QValueModule", "ValueOperator"],
    "nn.tensordict_modules.sequential": ["TensorDictSequential"],
    "nn.tensordict_modules.tensorclass_module": ["TensorClassModuleBase", "TensorClassModuleWrapper"],
    "nn.tensordict_modules.wrappers": ["TensorDictModuleWrapper", "WrapModule"],
    "nn.values.value_norm": ["PercentileValueNorm", "PopArtValueNorm", "RunningValueNorm", "ValueNorm"],
}
_PACKAGES = ("distributions", "functional", "losses", "values")
_FILE_OF = {name: file for file, names in _NAMES.items() for name in names}

__all__ = [
    "ELU",
    "GELU",
    "GRU",
    "LSTM",
    "MLP",
    "RNN",
    "AddStateIndependentNormalScale",
    "AvgPool2d",
    "BatchNorm1d",
    "Bilinear",
    "CompositeDistribution",
    "Conv1d",
    "Conv2d",
    "Dropout",
    "Embedding",
    "EnsembleModule",
    "Flatten",
    "GRUCell",
    "Identity",
    "InteractionType",
    "LSTMCell",
    "LayerNorm",
    "LazyBatchNorm1d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyLinear",
    "LazyModuleMixin",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MaxPool2d",
    "MetaArray",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NormalParamExtractor",
    "OneHotCategorical",
    "Parameter",
    "PercentileValueNorm",
    "PopArtValueNorm",
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "QValueActor",
    "QValueModule",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "RemovableHandle",
    "RunningValueNorm",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "TensorClassModuleBase",
    "TensorClassModuleWrapper",
    "TensorDictModule",
    "TensorDictModuleBase",
    "TensorDictModuleWrapper",
    "TensorDictParams",
    "TensorDictSequential",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TruncatedNormal",
    "UninitializedBuffer",
    "UninitializedParameter",
    "ValueNorm",
    "ValueOperator",
    "WrapModule",
    "add_custom_mapping",
    "as_tensordict_module",
    "biased_softplus",
    "composite_lp_aggregate",
    "dispatch",
    "expln",
    "extract_weights_and_buffers",
    "get_functional",
    "interaction_type",
    "inv_softplus",
    "is_functional",
    "load_safetensors",
    "make_functional",
    "mappings",
    "rand_one_hot",
    "repopulate_module",
    "set_composite_lp_aggregate",
    "set_interaction_type",
    "set_skip_existing",
    "skip_existing",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"lite.nn.{name}")
    if name not in _FILE_OF:
        raise AttributeError(f"module 'lite.nn' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"lite.{_FILE_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
