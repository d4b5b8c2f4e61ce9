"""Transforms of trajectories and transitions on TensorDicts, and specs of their entries.

`entries` has the checks of their input; `n_step` is what `multistep` and `multistep_transform` share.
`split_trajectories`, `densify_reward` and `token_transitions` are one transform each. `specs` says
what entries look like before there are any.
"""

from lite._arrays.public import belong_here as _belong_here
from lite.data.densify_reward import DensifyReward
from lite.data.multistep import MultiStep
from lite.data.multistep_transform import MultiStepTransform
from lite.data.replay.mapped_storage import LazyMemmapStorage
from lite.data.replay.max_value_writer import TensorDictMaxValueWriter
from lite.data.replay.prioritized_replay_buffer import (
    PrioritizedReplayBuffer,
    TensorDictPrioritizedReplayBuffer,
)
from lite.data.replay.prioritized_sampler import PrioritizedSampler
from lite.data.replay.prioritized_slice_sampler import PrioritizedSliceSampler
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
from lite.data.split_trajectories import split_trajectories
from lite.data.token_transitions import TokenTransitions

__all__ = [
    "Binary",
    "Bounded",
    "Categorical",
    "Composite",
    "DensifyReward",
    "ImmutableDatasetWriter",
    "LazyMemmapStorage",
    "LazyTensorStorage",
    "ListStorage",
    "MultiStep",
    "MultiStepTransform",
    "NonTensor",
    "PrioritizedReplayBuffer",
    "PrioritizedSampler",
    "PrioritizedSliceSampler",
    "RandomSampler",
    "ReplayBuffer",
    "RoundRobinWriter",
    "Sampler",
    "SamplerWithoutReplacement",
    "SliceSampler",
    "SliceSamplerWithoutReplacement",
    "Storage",
    "TensorDictMaxValueWriter",
    "TensorDictPrioritizedReplayBuffer",
    "TensorDictReplayBuffer",
    "TensorDictRoundRobinWriter",
    "TensorSpec",
    "TensorStorage",
    "TokenTransitions",
    "Unbounded",
    "Writer",
    "split_trajectories",
]

_belong_here(globals())
