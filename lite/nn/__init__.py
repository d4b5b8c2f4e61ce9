"""Modules on NumPy: Module, layers, and modules that work on TensorDicts.

In reading order, each built on those before:

settings            how samples are taken, whether outputs are computed again, whether arrays are taken
_modules            what a Module is: torch's nn.Module for inference
layers              layers that compute on arrays, one family per file
distributions       what samples are drawn from
tensordict_modules  modules that read entries of a TensorDict and write others
_parameters         the parameters of a module as a TensorDict, exchanged, or several sets of them
values              estimators of advantages, and of the targets of value networks
losses              what is minimised: DQN, PPO, SAC and others, as modules; imported on first use

Each package says what its files are.
"""

from typing import Any

from lite._arrays.public import belong_here as _belong_here
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
from lite.nn._parameters.to_module import get_functional, is_functional, make_functional, repopulate_module
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
    "ProbabilisticTensorDictModule",
    "ProbabilisticTensorDictSequential",
    "QValueActor",
    "QValueModule",
    "RMSNorm",
    "RNNCell",
    "ReLU",
    "RemovableHandle",
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

_belong_here(globals())


def __getattr__(name: str) -> Any:
    if name == "losses":  # with the estimators and kernels, which networks that only act never need
        import lite.nn.losses

        return lite.nn.losses
    raise AttributeError(f"module 'lite.nn' has no attribute {name!r}")
