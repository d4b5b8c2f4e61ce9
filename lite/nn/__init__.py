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
from typing import Any

from lite import _lazy_hooks
from lite._arrays.public import import_on_first_use

# The public names by the files of their definitions.
_NAMES = {
    "._transforms.handles": "RemovableHandle",
    "_modules.lazy": "LazyModuleMixin",
    "_modules.state_dict": "load_safetensors",
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
    "layers.activations": "CELU ELU GELU Identity LeakyReLU LogSoftmax Mish ReLU SELU Sigmoid SiLU "
    "Softmax Softplus Tanh",
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
    "policies.actors": "Actor ActorCriticOperator ActorCriticWrapper ActorValueOperator ProbabilisticActor",
    "policies.conv_net": "ConvNet DuelingCnnDQNet DuelingMlpDQNet SquashDims Squeeze2dLayer SqueezeLayer",
    "policies.ddpg": "DdpgCnnActor DdpgCnnQNet DdpgMlpActor DdpgMlpQNet",
    "policies.batch_renorm": "BatchRenorm1d",
    "policies.consistent_dropout": "ConsistentDropout ConsistentDropoutModule",
    "policies.distributional": "DistributionalDQNnet DistributionalQValueActor DistributionalQValueModule",
    "policies.hooks": "DistributionalQValueHook QValueHook",
    "policies.exploration": "AdditiveGaussianModule EGreedyModule OrnsteinUhlenbeckProcessModule "
    "RandomPolicy",
    "policies.multi_agent": "MultiAgentConvNet MultiAgentMLP QMixer VDNMixer",
    "policies.multi_step_actor": "MultiStepActorWrapper",
    "policies.noisy": "LazygSDEModule NoisyLazyLinear NoisyLinear gSDEModule reset_noise",
    "policies.recurrent": "GRUModule LSTMModule recurrent_mode set_recurrent_mode",
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
