"""From an environment to a batch: collectors, replay buffers, transforms, estimators, data sets, and specs.

Each folder imports only those before it:

- `specs`: what entries look like before there are any
- `trajectories`: transforms of what was collected, `MultiStep` first
- `tables`: rows of tables, as jobs on many machines get them
- `replay`: keeps what was collected, and draws batches from it
- `values`: advantages among the responses to one prompt; those along time are estimated in `lite.nn.values`
- `datasets`: reads data that others recorded
- `collectors`: step environments, and have language models respond

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite.data.collectors.collector import Collector
    from lite.data.collectors.environments import EnvError
    from lite.data.collectors.llm_collector import LLMCollector
    from lite.data.collectors.random_policy import RandomPolicy
    from lite.data.collectors.ray_collector import RayCollector
    from lite.data.collectors.step_transforms import (
        InitTracker,
        RewardSum,
        StepCounter,
        StepTransform,
        TensorDictPrimer,
    )
    from lite.data.datasets.lerobot import lerobot_to_memmap
    from lite.data.datasets.minari import minari_to_memmap
    from lite.data.replay.mapped_storage import LazyMemmapStorage
    from lite.data.replay.max_value_writer import TensorDictMaxValueWriter
    from lite.data.replay.prioritized_replay_buffer import (
        PrioritizedReplayBuffer,
        TensorDictPrioritizedReplayBuffer,
    )
    from lite.data.replay.prioritized_sampler import PrioritizedSampler
    from lite.data.replay.prioritized_slice_sampler import PrioritizedSliceSampler
    from lite.data.replay.ray_replay_buffer import RayReplayBuffer
    from lite.data.replay.replay_buffer import ReplayBuffer
    from lite.data.replay.samplers import RandomSampler, Sampler, SamplerWithoutReplacement
    from lite.data.replay.slice_sampler import SliceSampler, SliceSamplerWithoutReplacement
    from lite.data.replay.storages import ListStorage, Storage
    from lite.data.replay.tensor_storage import LazyTensorStorage, TensorStorage
    from lite.data.replay.tensordict_replay_buffer import TensorDictReplayBuffer
    from lite.data.replay.writers import (
        ImmutableDatasetWriter,
        RoundRobinWriter,
        TensorDictRoundRobinWriter,
        Writer,
    )
    from lite.data.specs.arrays import Binary, Bounded, Categorical, Unbounded
    from lite.data.specs.base import TensorSpec
    from lite.data.specs.composite import Composite
    from lite.data.specs.objects import NonTensor
    from lite.data.tables.row_seeds import row_seeds
    from lite.data.tables.transform_batches import TransformBatches
    from lite.data.trajectories.densify_reward import DensifyReward
    from lite.data.trajectories.multistep import MultiStep
    from lite.data.trajectories.multistep_transform import MultiStepTransform
    from lite.data.trajectories.split_trajectories import split_trajectories
    from lite.data.trajectories.token_transitions import TokenTransitions
    from lite.data.values.group_advantages import GroupAdvantage, MCAdvantage, group_advantages
    from lite.nn.values import (
        GAE,
        MultiAgentGAE,
        Retrace,
        TD0Estimator,
        TD1Estimator,
        TDLambdaEstimator,
        ValueEstimatorBase,
        VTrace,
    )

# The public names by the module that defines them.
_NAMES = {
    "lite.data.collectors.collector": ["Collector"],
    "lite.data.collectors.environments": ["EnvError"],
    "lite.data.collectors.llm_collector": ["LLMCollector"],
    "lite.data.collectors.random_policy": ["RandomPolicy"],
    "lite.data.collectors.ray_collector": ["RayCollector"],
    "lite.data.collectors.step_transforms": [
        "InitTracker",
        "RewardSum",
        "StepCounter",
        "StepTransform",
        "TensorDictPrimer",
    ],
    "lite.data.datasets.lerobot": ["lerobot_to_memmap"],
    "lite.data.datasets.minari": ["minari_to_memmap"],
    "lite.data.replay.mapped_storage": ["LazyMemmapStorage"],
    "lite.data.replay.max_value_writer": ["TensorDictMaxValueWriter"],
    "lite.data.replay.prioritized_replay_buffer": [
        "PrioritizedReplayBuffer",
        "TensorDictPrioritizedReplayBuffer",
    ],
    "lite.data.replay.prioritized_sampler": ["PrioritizedSampler"],
    "lite.data.replay.prioritized_slice_sampler": ["PrioritizedSliceSampler"],
    "lite.data.replay.ray_replay_buffer": ["RayReplayBuffer"],
    "lite.data.replay.replay_buffer": ["ReplayBuffer"],
    "lite.data.replay.samplers": ["RandomSampler", "Sampler", "SamplerWithoutReplacement"],
    "lite.data.replay.slice_sampler": ["SliceSampler", "SliceSamplerWithoutReplacement"],
    "lite.data.replay.storages": ["ListStorage", "Storage"],
    "lite.data.replay.tensor_storage": ["LazyTensorStorage", "TensorStorage"],
    "lite.data.replay.tensordict_replay_buffer": ["TensorDictReplayBuffer"],
    "lite.data.replay.writers": [
        "ImmutableDatasetWriter",
        "RoundRobinWriter",
        "TensorDictRoundRobinWriter",
        "Writer",
    ],
    "lite.data.specs.arrays": ["Binary", "Bounded", "Categorical", "Unbounded"],
    "lite.data.specs.base": ["TensorSpec"],
    "lite.data.specs.composite": ["Composite"],
    "lite.data.specs.objects": ["NonTensor"],
    "lite.data.tables.row_seeds": ["row_seeds"],
    "lite.data.tables.transform_batches": ["TransformBatches"],
    "lite.data.trajectories.densify_reward": ["DensifyReward"],
    "lite.data.trajectories.multistep": ["MultiStep"],
    "lite.data.trajectories.multistep_transform": ["MultiStepTransform"],
    "lite.data.trajectories.split_trajectories": ["split_trajectories"],
    "lite.data.trajectories.token_transitions": ["TokenTransitions"],
    "lite.data.values.group_advantages": ["GroupAdvantage", "MCAdvantage", "group_advantages"],
    "lite.nn.values": [
        "GAE",
        "MultiAgentGAE",
        "Retrace",
        "TD0Estimator",
        "TD1Estimator",
        "TDLambdaEstimator",
        "VTrace",
        "ValueEstimatorBase",
    ],
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "GAE",
    "Binary",
    "Bounded",
    "Categorical",
    "Collector",
    "Composite",
    "DensifyReward",
    "EnvError",
    "GroupAdvantage",
    "ImmutableDatasetWriter",
    "InitTracker",
    "LLMCollector",
    "LazyMemmapStorage",
    "LazyTensorStorage",
    "ListStorage",
    "MCAdvantage",
    "MultiAgentGAE",
    "MultiStep",
    "MultiStepTransform",
    "NonTensor",
    "PrioritizedReplayBuffer",
    "PrioritizedSampler",
    "PrioritizedSliceSampler",
    "RandomPolicy",
    "RandomSampler",
    "RayCollector",
    "RayReplayBuffer",
    "ReplayBuffer",
    "Retrace",
    "RewardSum",
    "RoundRobinWriter",
    "Sampler",
    "SamplerWithoutReplacement",
    "SliceSampler",
    "SliceSamplerWithoutReplacement",
    "StepCounter",
    "StepTransform",
    "Storage",
    "TD0Estimator",
    "TD1Estimator",
    "TDLambdaEstimator",
    "TensorDictMaxValueWriter",
    "TensorDictPrimer",
    "TensorDictPrioritizedReplayBuffer",
    "TensorDictReplayBuffer",
    "TensorDictRoundRobinWriter",
    "TensorSpec",
    "TensorStorage",
    "TokenTransitions",
    "TransformBatches",
    "Unbounded",
    "VTrace",
    "ValueEstimatorBase",
    "Writer",
    "group_advantages",
    "lerobot_to_memmap",
    "minari_to_memmap",
    "row_seeds",
    "split_trajectories",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lite.data' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
