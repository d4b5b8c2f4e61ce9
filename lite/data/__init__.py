"""From an environment to a batch: collectors, replay buffers, transforms, estimators, and data sets.

Each folder imports only those before it (specs are in `lite.specs`, environments in `lite.envs`):

- `trajectories`: transforms of collected data, `MultiStep` first
- `tables`: rows of tables, as jobs on many machines get them
- `replay`: stores collected data, and draws batches from it
- `values`: advantages among the responses to one prompt; those along time are estimated in `lite.nn.values`
- `datasets`: reads data that others recorded
- `collectors`: step environments, and have language models respond
- `logging`: watches a run: numbers, texts and videos in files, and curves of them

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lite import _lazy_hooks

if TYPE_CHECKING:
    from lite.data.collectors.collector import Collector
    from lite.data.collectors.evaluator import Evaluator
    from lite.data.collectors.llm_collector import LLMCollector
    from lite.data.collectors.multi_collector import AsyncCollector, MultiAsyncCollector, MultiSyncCollector
    from lite.data.collectors.ray_collector import RayCollector
    from lite.data.datasets.lerobot import lerobot_to_memmap
    from lite.data.datasets.minari import minari_to_memmap
    from lite.data.datasets.minari_replay import MinariExperienceReplay
    from lite.data.logging.csv_logger import CSVExperiment, CSVLogger
    from lite.data.logging.curves import plot_csv
    from lite.data.logging.get_logger import generate_exp_name, get_logger
    from lite.data.logging.logger import Logger
    from lite.data.logging.mlflow_logger import MLFlowLogger
    from lite.data.logging.pixel_render import PixelRenderTransform
    from lite.data.logging.tensorboard_logger import TensorboardLogger
    from lite.data.logging.timeit import timeit
    from lite.data.logging.video_recorder import VideoRecorder
    from lite.data.logging.wandb_logger import WandbLogger
    from lite.data.replay.her_replay_buffer import HERReplayBuffer, HindsightStrategy
    from lite.data.replay.mapped_storage import LazyMemmapStorage
    from lite.data.replay.max_value_writer import TensorDictMaxValueWriter
    from lite.data.replay.prefill import prefill_replay_buffer
    from lite.data.replay.prioritized_replay_buffer import (
        PrioritizedReplayBuffer,
        TensorDictPrioritizedReplayBuffer,
    )
    from lite.data.replay.prioritized_sampler import PrioritizedSampler
    from lite.data.replay.prioritized_slice_sampler import PrioritizedSliceSampler
    from lite.data.replay.ray_replay_buffer import RayReplayBuffer
    from lite.data.replay.replay_buffer import ReplayBuffer
    from lite.data.replay.samplers import (
        RandomSampler,
        Sampler,
        SamplerWithoutReplacement,
        StalenessAwareSampler,
    )
    from lite.data.replay.slice_sampler import SliceSampler, SliceSamplerWithoutReplacement
    from lite.data.replay.storages import LazyStackStorage, ListStorage, Storage
    from lite.data.replay.tensor_storage import LazyTensorStorage, TensorStorage
    from lite.data.replay.tensordict_replay_buffer import TensorDictReplayBuffer
    from lite.data.replay.writers import (
        ImmutableDatasetWriter,
        RoundRobinWriter,
        TensorDictRoundRobinWriter,
        Writer,
    )
    from lite.data.tables.row_seeds import row_seeds
    from lite.data.tables.transform_batches import TransformBatches
    from lite.data.trajectories.densify_reward import DensifyReward
    from lite.data.trajectories.multistep import MultiStep
    from lite.data.trajectories.multistep_transform import MultiStepTransform
    from lite.data.trajectories.split_trajectories import split_trajectories
    from lite.data.trajectories.token_transitions import TokenTransitions
    from lite.data.values.group_advantages import GroupAdvantage, MCAdvantage, group_advantages
    from lite.data.values.group_selection import MCAdvantageSelector
    from lite.envs.environments import EnvError
    from lite.envs.random_policy import RandomPolicy
    from lite.envs.transforms.step_transforms import (
        InitTracker,
        RewardSum,
        StepCounter,
        StepTransform,
        TensorDictPrimer,
    )
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
    from lite.specs.arrays import (
        Binary,
        Bounded,
        BoundedContinuous,
        Categorical,
        OneHot,
        Unbounded,
        UnboundedContinuous,
        UnboundedDiscrete,
    )
    from lite.specs.base import TensorSpec
    from lite.specs.boxes import BoxList, CategoricalBox, ContinuousBox
    from lite.specs.composite import Composite
    from lite.specs.multi_categorical import MultiCategorical, MultiOneHot
    from lite.specs.objects import NonTensor

# The public names by what defines them.
_NAMES = {
    "data.collectors.collector": "Collector",
    "data.collectors.evaluator": "Evaluator",
    "envs.environments": "EnvError",
    "data.collectors.llm_collector": "LLMCollector",
    "envs.random_policy": "RandomPolicy",
    "data.collectors.multi_collector": "AsyncCollector MultiAsyncCollector MultiSyncCollector",
    "data.collectors.ray_collector": "RayCollector",
    "envs.transforms.step_transforms": "InitTracker RewardSum StepCounter StepTransform TensorDictPrimer",
    "data.datasets.lerobot": "lerobot_to_memmap",
    "data.datasets.minari": "minari_to_memmap",
    "data.datasets.minari_replay": "MinariExperienceReplay",
    "data.logging.csv_logger": "CSVExperiment CSVLogger",
    "data.logging.curves": "plot_csv",
    "data.logging.get_logger": "generate_exp_name get_logger",
    "data.logging.logger": "Logger",
    "data.logging.mlflow_logger": "MLFlowLogger",
    "data.logging.pixel_render": "PixelRenderTransform",
    "data.logging.tensorboard_logger": "TensorboardLogger",
    "data.logging.timeit": "timeit",
    "data.logging.video_recorder": "VideoRecorder",
    "data.logging.wandb_logger": "WandbLogger",
    "data.replay.her_replay_buffer": "HERReplayBuffer HindsightStrategy",
    "data.replay.mapped_storage": "LazyMemmapStorage",
    "data.replay.max_value_writer": "TensorDictMaxValueWriter",
    "data.replay.prefill": "prefill_replay_buffer",
    "data.replay.prioritized_replay_buffer": "PrioritizedReplayBuffer TensorDictPrioritizedReplayBuffer",
    "data.replay.prioritized_sampler": "PrioritizedSampler",
    "data.replay.prioritized_slice_sampler": "PrioritizedSliceSampler",
    "data.replay.ray_replay_buffer": "RayReplayBuffer",
    "data.replay.replay_buffer": "ReplayBuffer",
    "data.replay.samplers": "RandomSampler Sampler SamplerWithoutReplacement StalenessAwareSampler",
    "data.replay.slice_sampler": "SliceSampler SliceSamplerWithoutReplacement",
    "data.replay.storages": "LazyStackStorage ListStorage Storage",
    "data.replay.tensor_storage": "LazyTensorStorage TensorStorage",
    "data.replay.tensordict_replay_buffer": "TensorDictReplayBuffer",
    "data.replay.writers": "ImmutableDatasetWriter RoundRobinWriter TensorDictRoundRobinWriter Writer",
    "specs.arrays": (
        "Binary Bounded BoundedContinuous Categorical OneHot Unbounded UnboundedContinuous UnboundedDiscrete"
    ),
    "specs.base": "TensorSpec",
    "specs.boxes": "BoxList CategoricalBox ContinuousBox",
    "specs.composite": "Composite",
    "specs.multi_categorical": "MultiCategorical MultiOneHot",
    "specs.objects": "NonTensor",
    "data.tables.row_seeds": "row_seeds",
    "data.tables.transform_batches": "TransformBatches",
    "data.trajectories.densify_reward": "DensifyReward",
    "data.trajectories.multistep": "MultiStep",
    "data.trajectories.multistep_transform": "MultiStepTransform",
    "data.trajectories.split_trajectories": "split_trajectories",
    "data.trajectories.token_transitions": "TokenTransitions",
    "data.values.group_advantages": "GroupAdvantage MCAdvantage group_advantages",
    "data.values.group_selection": "MCAdvantageSelector",
    "nn.values": (
        "GAE MultiAgentGAE Retrace TD0Estimator TD1Estimator TDLambdaEstimator VTrace ValueEstimatorBase"
    ),
}
_FILE_OF = {name: file for file, names in _NAMES.items() for name in names.split()}

__all__ = [
    "GAE",
    "AsyncCollector",
    "Binary",
    "Bounded",
    "BoundedContinuous",
    "BoxList",
    "CSVExperiment",
    "CSVLogger",
    "Categorical",
    "CategoricalBox",
    "Collector",
    "Composite",
    "ContinuousBox",
    "DensifyReward",
    "EnvError",
    "Evaluator",
    "GroupAdvantage",
    "HERReplayBuffer",
    "HindsightStrategy",
    "ImmutableDatasetWriter",
    "InitTracker",
    "LLMCollector",
    "LazyMemmapStorage",
    "LazyStackStorage",
    "LazyTensorStorage",
    "ListStorage",
    "Logger",
    "MCAdvantage",
    "MCAdvantageSelector",
    "MLFlowLogger",
    "MinariExperienceReplay",
    "MultiAgentGAE",
    "MultiAsyncCollector",
    "MultiCategorical",
    "MultiOneHot",
    "MultiStep",
    "MultiStepTransform",
    "MultiSyncCollector",
    "NonTensor",
    "OneHot",
    "PixelRenderTransform",
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
    "StalenessAwareSampler",
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
    "TensorboardLogger",
    "TokenTransitions",
    "TransformBatches",
    "Unbounded",
    "UnboundedContinuous",
    "UnboundedDiscrete",
    "VTrace",
    "ValueEstimatorBase",
    "VideoRecorder",
    "WandbLogger",
    "Writer",
    "generate_exp_name",
    "get_logger",
    "group_advantages",
    "lerobot_to_memmap",
    "minari_to_memmap",
    "plot_csv",
    "prefill_replay_buffer",
    "row_seeds",
    "split_trajectories",
    "timeit",
]


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module 'lite.data' has no attribute {name!r}")
    return getattr(import_module(f"lite.{_FILE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__


# What CatFrames calls by the first name, and Collector by the others.
_lazy_hooks.register(
    make_window_sampler=lambda: import_module("lite.data.replay.slice_sampler").sampler_of_windows,
    multi_sync_collector=lambda: __getattr__("MultiSyncCollector"),
    multi_async_collector=lambda: __getattr__("MultiAsyncCollector"),
    ray_collector=lambda: __getattr__("RayCollector"),
)
