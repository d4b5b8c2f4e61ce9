"""Modules on NumPy: Module, layers, and modules that work on TensorDicts.

In reading order, each built on those before:

settings            how samples are taken, whether outputs are computed again, whether arrays are taken
_modules            what a Module is: torch's nn.Module for inference
layers              layers that compute on arrays, one family per file
functional          losses and activations as functions of arrays and TensorDicts
init                initial values of parameters, as torch.nn.init
distributions       what samples are drawn from
tensordict_modules  modules that read entries of a TensorDict and write others
_parameters         the parameters of a module as a TensorDict, exchanged, or several sets of them
_import             ONNX graphs as modules that learn
_lora               low-rank adapters of modules
policies            exploration, actors, recurrent modules, and networks of policies
values              estimators of advantages, and of the targets of value networks
losses              loss modules: DQN, PPO, SAC and others
utils               names of torch.nn.utils and tensordict.nn.utils

Each package's docstring lists its files. Names are imported on first use, so a policy loads only the layers
it uses.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lite import _lazy_hooks
from lite._arrays.public import import_on_first_use

if TYPE_CHECKING:
    from lite._transforms.handles import RemovableHandle as RemovableHandle
    from lite.nn._import.from_onnx import from_onnx as from_onnx
    from lite.nn._import.module import GraphModule as GraphModule
    from lite.nn._lora.inputs import add_adapter_inputs as add_adapter_inputs
    from lite.nn._lora.lora import LoraModule as LoraModule
    from lite.nn._lora.lora import lora as lora
    from lite.nn._modules.initial import UninitializedBuffer as UninitializedBuffer
    from lite.nn._modules.initial import UninitializedParameter as UninitializedParameter
    from lite.nn._modules.lazy import LazyModuleMixin as LazyModuleMixin
    from lite.nn._modules.load import load_safetensors as load_safetensors
    from lite.nn._modules.meta import MetaArray as MetaArray
    from lite.nn._modules.module import Module as Module
    from lite.nn._modules.parameter import Parameter as Parameter
    from lite.nn._parameters.ensemble import EnsembleModule as EnsembleModule
    from lite.nn._parameters.from_module import extract_weights_and_buffers as extract_weights_and_buffers
    from lite.nn._parameters.params import TensorDictParams as TensorDictParams
    from lite.nn._parameters.to_module import get_functional as get_functional
    from lite.nn._parameters.to_module import is_functional as is_functional
    from lite.nn._parameters.to_module import make_functional as make_functional
    from lite.nn._parameters.to_module import repopulate_module as repopulate_module
    from lite.nn.distributions import CompositeDistribution as CompositeDistribution
    from lite.nn.distributions import Delta as Delta
    from lite.nn.distributions import IndependentNormal as IndependentNormal
    from lite.nn.distributions import LLMMaskedCategorical as LLMMaskedCategorical
    from lite.nn.distributions import MaskedCategorical as MaskedCategorical
    from lite.nn.distributions import MaskedOneHotCategorical as MaskedOneHotCategorical
    from lite.nn.distributions import OneHotCategorical as OneHotCategorical
    from lite.nn.distributions import OneHotOrdinal as OneHotOrdinal
    from lite.nn.distributions import Ordinal as Ordinal
    from lite.nn.distributions import TanhDelta as TanhDelta
    from lite.nn.distributions import TanhNormal as TanhNormal
    from lite.nn.distributions import TruncatedNormal as TruncatedNormal
    from lite.nn.distributions import distributions_maps as distributions_maps
    from lite.nn.distributions import rand_one_hot as rand_one_hot
    from lite.nn.distributions.log_prob_names import composite_lp_aggregate as composite_lp_aggregate
    from lite.nn.distributions.log_prob_names import set_composite_lp_aggregate as set_composite_lp_aggregate
    from lite.nn.layers.activations import ELU as ELU
    from lite.nn.layers.activations import GELU as GELU
    from lite.nn.layers.activations import Identity as Identity
    from lite.nn.layers.activations import LeakyReLU as LeakyReLU
    from lite.nn.layers.activations import LogSoftmax as LogSoftmax
    from lite.nn.layers.activations import Mish as Mish
    from lite.nn.layers.activations import ReLU as ReLU
    from lite.nn.layers.activations import Sigmoid as Sigmoid
    from lite.nn.layers.activations import SiLU as SiLU
    from lite.nn.layers.activations import Softmax as Softmax
    from lite.nn.layers.activations import Softplus as Softplus
    from lite.nn.layers.activations import Tanh as Tanh
    from lite.nn.layers.attention import MultiheadAttention as MultiheadAttention
    from lite.nn.layers.containers import ModuleDict as ModuleDict
    from lite.nn.layers.containers import ModuleList as ModuleList
    from lite.nn.layers.containers import ParameterDict as ParameterDict
    from lite.nn.layers.containers import ParameterList as ParameterList
    from lite.nn.layers.containers import Sequential as Sequential
    from lite.nn.layers.convolution import Conv1d as Conv1d
    from lite.nn.layers.convolution import Conv2d as Conv2d
    from lite.nn.layers.convolution import ConvTranspose1d as ConvTranspose1d
    from lite.nn.layers.convolution import ConvTranspose2d as ConvTranspose2d
    from lite.nn.layers.convolution import LazyConv1d as LazyConv1d
    from lite.nn.layers.convolution import LazyConv2d as LazyConv2d
    from lite.nn.layers.dropout import Dropout as Dropout
    from lite.nn.layers.embedding import Embedding as Embedding
    from lite.nn.layers.flatten import Flatten as Flatten
    from lite.nn.layers.flatten import Unflatten as Unflatten
    from lite.nn.layers.linear import Bilinear as Bilinear
    from lite.nn.layers.linear import LazyLinear as LazyLinear
    from lite.nn.layers.linear import Linear as Linear
    from lite.nn.layers.mlp import MLP as MLP
    from lite.nn.layers.normal_params import AddStateIndependentNormalScale as AddStateIndependentNormalScale
    from lite.nn.layers.normal_params import NormalParamExtractor as NormalParamExtractor
    from lite.nn.layers.normal_params import add_custom_mapping as add_custom_mapping
    from lite.nn.layers.normal_params import biased_softplus as biased_softplus
    from lite.nn.layers.normal_params import expln as expln
    from lite.nn.layers.normal_params import inv_softplus as inv_softplus
    from lite.nn.layers.normal_params import mappings as mappings
    from lite.nn.layers.normalization import BatchNorm1d as BatchNorm1d
    from lite.nn.layers.normalization import BatchNorm2d as BatchNorm2d
    from lite.nn.layers.normalization import GroupNorm as GroupNorm
    from lite.nn.layers.normalization import LayerNorm as LayerNorm
    from lite.nn.layers.normalization import LazyBatchNorm1d as LazyBatchNorm1d
    from lite.nn.layers.normalization import RMSNorm as RMSNorm
    from lite.nn.layers.pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
    from lite.nn.layers.pooling import AvgPool2d as AvgPool2d
    from lite.nn.layers.pooling import MaxPool2d as MaxPool2d
    from lite.nn.layers.recurrent import GRU as GRU
    from lite.nn.layers.recurrent import LSTM as LSTM
    from lite.nn.layers.recurrent import RNN as RNN
    from lite.nn.layers.recurrent_cells import GRUCell as GRUCell
    from lite.nn.layers.recurrent_cells import LSTMCell as LSTMCell
    from lite.nn.layers.recurrent_cells import RNNCell as RNNCell
    from lite.nn.layers.transformer import Transformer as Transformer
    from lite.nn.layers.transformer import TransformerDecoder as TransformerDecoder
    from lite.nn.layers.transformer import TransformerDecoderLayer as TransformerDecoderLayer
    from lite.nn.layers.transformer import TransformerEncoder as TransformerEncoder
    from lite.nn.layers.transformer import TransformerEncoderLayer as TransformerEncoderLayer
    from lite.nn.policies.actors import Actor as Actor
    from lite.nn.policies.actors import ProbabilisticActor as ProbabilisticActor
    from lite.nn.policies.batch_renorm import BatchRenorm1d as BatchRenorm1d
    from lite.nn.policies.consistent_dropout import ConsistentDropout as ConsistentDropout
    from lite.nn.policies.consistent_dropout import ConsistentDropoutModule as ConsistentDropoutModule
    from lite.nn.policies.conv_net import ConvNet as ConvNet
    from lite.nn.policies.conv_net import DuelingCnnDQNet as DuelingCnnDQNet
    from lite.nn.policies.conv_net import DuelingMlpDQNet as DuelingMlpDQNet
    from lite.nn.policies.conv_net import SquashDims as SquashDims
    from lite.nn.policies.conv_net import Squeeze2dLayer as Squeeze2dLayer
    from lite.nn.policies.conv_net import SqueezeLayer as SqueezeLayer
    from lite.nn.policies.ddpg import DdpgCnnActor as DdpgCnnActor
    from lite.nn.policies.ddpg import DdpgCnnQNet as DdpgCnnQNet
    from lite.nn.policies.ddpg import DdpgMlpActor as DdpgMlpActor
    from lite.nn.policies.ddpg import DdpgMlpQNet as DdpgMlpQNet
    from lite.nn.policies.distributional import DistributionalDQNnet as DistributionalDQNnet
    from lite.nn.policies.distributional import DistributionalQValueActor as DistributionalQValueActor
    from lite.nn.policies.distributional import DistributionalQValueModule as DistributionalQValueModule
    from lite.nn.policies.exploration import AdditiveGaussianModule as AdditiveGaussianModule
    from lite.nn.policies.exploration import EGreedyModule as EGreedyModule
    from lite.nn.policies.exploration import OrnsteinUhlenbeckProcessModule as OrnsteinUhlenbeckProcessModule
    from lite.nn.policies.hooks import DistributionalQValueHook as DistributionalQValueHook
    from lite.nn.policies.hooks import QValueHook as QValueHook
    from lite.nn.policies.modes import recurrent_mode as recurrent_mode
    from lite.nn.policies.modes import set_recurrent_mode as set_recurrent_mode
    from lite.nn.policies.multi_agent import MultiAgentMLP as MultiAgentMLP
    from lite.nn.policies.multi_agent import QMixer as QMixer
    from lite.nn.policies.multi_agent import VDNMixer as VDNMixer
    from lite.nn.policies.multi_step_actor import MultiStepActorWrapper as MultiStepActorWrapper
    from lite.nn.policies.noisy import LazygSDEModule as LazygSDEModule
    from lite.nn.policies.noisy import NoisyLazyLinear as NoisyLazyLinear
    from lite.nn.policies.noisy import NoisyLinear as NoisyLinear
    from lite.nn.policies.noisy import gSDEModule as gSDEModule
    from lite.nn.policies.noisy import reset_noise as reset_noise
    from lite.nn.policies.operators import ActorCriticOperator as ActorCriticOperator
    from lite.nn.policies.operators import ActorCriticWrapper as ActorCriticWrapper
    from lite.nn.policies.operators import ActorValueOperator as ActorValueOperator
    from lite.nn.policies.random_policy import RandomPolicy as RandomPolicy
    from lite.nn.policies.recurrent import GRUModule as GRUModule
    from lite.nn.policies.recurrent import LSTMModule as LSTMModule
    from lite.nn.policies.safe import SafeModule as SafeModule
    from lite.nn.policies.safe import SafeProbabilisticModule as SafeProbabilisticModule
    from lite.nn.policies.safe import (
        SafeProbabilisticTensorDictSequential as SafeProbabilisticTensorDictSequential,
    )
    from lite.nn.policies.safe import SafeSequential as SafeSequential
    from lite.nn.policies.tanh import TanhModule as TanhModule
    from lite.nn.settings import InteractionType as InteractionType
    from lite.nn.settings import interaction_type as interaction_type
    from lite.nn.settings import set_interaction_type as set_interaction_type
    from lite.nn.settings import set_skip_existing as set_skip_existing
    from lite.nn.settings import skip_existing as skip_existing
    from lite.nn.tensordict_modules.base import TensorDictModuleBase as TensorDictModuleBase
    from lite.nn.tensordict_modules.dispatch import dispatch as dispatch
    from lite.nn.tensordict_modules.module import TensorDictModule as TensorDictModule
    from lite.nn.tensordict_modules.module import as_tensordict_module as as_tensordict_module
    from lite.nn.tensordict_modules.probabilistic import (
        ProbabilisticTensorDictModule as ProbabilisticTensorDictModule,
    )
    from lite.nn.tensordict_modules.probabilistic_sequential import (
        ProbabilisticTensorDictSequential as ProbabilisticTensorDictSequential,
    )
    from lite.nn.tensordict_modules.q_value import QValueActor as QValueActor
    from lite.nn.tensordict_modules.q_value import QValueModule as QValueModule
    from lite.nn.tensordict_modules.q_value import ValueOperator as ValueOperator
    from lite.nn.tensordict_modules.sequential import TensorDictSequential as TensorDictSequential
    from lite.nn.tensordict_modules.tensorclass_module import TensorClassModuleBase as TensorClassModuleBase
    from lite.nn.tensordict_modules.tensorclass_module import (
        TensorClassModuleWrapper as TensorClassModuleWrapper,
    )
    from lite.nn.tensordict_modules.wrappers import TensorDictModuleWrapper as TensorDictModuleWrapper
    from lite.nn.tensordict_modules.wrappers import WrapModule as WrapModule
    from lite.nn.values.value_norm import PercentileValueNorm as PercentileValueNorm
    from lite.nn.values.value_norm import PopArtValueNorm as PopArtValueNorm
    from lite.nn.values.value_norm import RunningValueNorm as RunningValueNorm
    from lite.nn.values.value_norm import ValueNorm as ValueNorm

# The public names by the files of their definitions.
_NAMES = {
    "._transforms.handles": "RemovableHandle",
    "_modules.lazy": "LazyModuleMixin",
    "_modules.load": "load_safetensors",
    "_modules.meta": "MetaArray",
    "_modules.module": "Module",
    "_modules.parameter": "Parameter",
    "_modules.initial": "UninitializedBuffer UninitializedParameter",
    "_parameters.ensemble": "EnsembleModule",
    "_import.from_onnx": "from_onnx",
    "_import.module": "GraphModule",
    "_lora.inputs": "add_adapter_inputs",
    "_lora.lora": "LoraModule lora",
    "_parameters.from_module": "extract_weights_and_buffers",
    "_parameters.params": "TensorDictParams",
    "_parameters.to_module": "get_functional is_functional make_functional repopulate_module",
    "distributions": "CompositeDistribution Delta IndependentNormal LLMMaskedCategorical MaskedCategorical "
    "MaskedOneHotCategorical OneHotCategorical OneHotOrdinal Ordinal TanhDelta TanhNormal TruncatedNormal "
    "distributions_maps rand_one_hot",
    "distributions.log_prob_names": "composite_lp_aggregate set_composite_lp_aggregate",
    "layers.activations": "ELU GELU Identity LeakyReLU LogSoftmax Mish ReLU Sigmoid SiLU Softmax Softplus "
    "Tanh",
    "layers.attention": "MultiheadAttention",
    "layers.containers": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "layers.convolution": "Conv1d Conv2d ConvTranspose1d ConvTranspose2d LazyConv1d LazyConv2d",
    "layers.dropout": "Dropout",
    "layers.embedding": "Embedding",
    "layers.flatten": "Flatten Unflatten",
    "layers.linear": "Bilinear LazyLinear Linear",
    "layers.mlp": "MLP",
    "layers.normal_params": "AddStateIndependentNormalScale NormalParamExtractor add_custom_mapping "
    "biased_softplus expln inv_softplus mappings",
    "layers.normalization": "BatchNorm1d BatchNorm2d GroupNorm LayerNorm LazyBatchNorm1d RMSNorm",
    "layers.pooling": "AdaptiveAvgPool2d AvgPool2d MaxPool2d",
    "layers.recurrent": "GRU LSTM RNN",
    "layers.recurrent_cells": "GRUCell LSTMCell RNNCell",
    "layers.transformer": "Transformer TransformerDecoder TransformerDecoderLayer "
    "TransformerEncoder TransformerEncoderLayer",
    "policies.actors": "Actor ProbabilisticActor",
    "policies.conv_net": "ConvNet DuelingCnnDQNet DuelingMlpDQNet SquashDims Squeeze2dLayer SqueezeLayer",
    "policies.ddpg": "DdpgCnnActor DdpgCnnQNet DdpgMlpActor DdpgMlpQNet",
    "policies.batch_renorm": "BatchRenorm1d",
    "policies.consistent_dropout": "ConsistentDropout ConsistentDropoutModule",
    "policies.distributional": "DistributionalDQNnet DistributionalQValueActor DistributionalQValueModule",
    "policies.exploration": "AdditiveGaussianModule EGreedyModule OrnsteinUhlenbeckProcessModule",
    "policies.hooks": "DistributionalQValueHook QValueHook",
    "policies.modes": "recurrent_mode set_recurrent_mode",
    "policies.multi_agent": "MultiAgentMLP QMixer VDNMixer",
    "policies.multi_step_actor": "MultiStepActorWrapper",
    "policies.noisy": "LazygSDEModule NoisyLazyLinear NoisyLinear gSDEModule reset_noise",
    "policies.operators": "ActorCriticOperator ActorCriticWrapper ActorValueOperator",
    "policies.random_policy": "RandomPolicy",
    "policies.recurrent": "GRUModule LSTMModule",
    "policies.safe": "SafeModule SafeProbabilisticModule SafeProbabilisticTensorDictSequential "
    "SafeSequential",
    "policies.tanh": "TanhModule",
    "settings": "InteractionType interaction_type set_interaction_type set_skip_existing skip_existing",
    "tensordict_modules.base": "TensorDictModuleBase",
    "tensordict_modules.dispatch": "dispatch",
    "tensordict_modules.module": "TensorDictModule as_tensordict_module",
    "tensordict_modules.probabilistic": "ProbabilisticTensorDictModule",
    "tensordict_modules.probabilistic_sequential": "ProbabilisticTensorDictSequential",
    "tensordict_modules.q_value": "QValueActor QValueModule ValueOperator",
    "tensordict_modules.sequential": "TensorDictSequential",
    "tensordict_modules.tensorclass_module": "TensorClassModuleBase TensorClassModuleWrapper",
    "tensordict_modules.wrappers": "TensorDictModuleWrapper WrapModule",
    "values.value_norm": "PercentileValueNorm PopArtValueNorm RunningValueNorm ValueNorm",
}
_PACKAGES = {name: name for name in ("distributions", "functional", "init", "losses", "utils", "values")}

__all__, _get, __dir__ = import_on_first_use(globals(), _NAMES, _PACKAGES)


def __getattr__(name: str) -> Any:
    if name.endswith("Loss"):
        raise AttributeError(
            f"module 'lite.nn' has no attribute {name!r}: losses are functions of lite.nn.functional, and "
            "those of agents classes of lite.nn.losses"
        )
    return _get(name)


def _loader(file: str, name: str) -> Callable[[], Callable[..., Any]]:
    return lambda: getattr(import_module(f"lite.nn.{file}"), name)


# What lower packages call by these names.
_lazy_hooks.register(
    from_module=_loader("_parameters.from_module", "from_module"),
    from_modules=_loader("_parameters.from_module", "from_modules"),
    to_module=_loader("_parameters.to_module", "to_module"),
    to_onnx=_loader("_export.to_onnx", "to_onnx"),
)
