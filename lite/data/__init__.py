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
from typing import TYPE_CHECKING

from lite import _lazy_hooks
from lite._arrays.public import import_on_first_use

if TYPE_CHECKING:
    from lite.data.collectors.collector import Collector as Collector
    from lite.data.collectors.evaluator import Evaluator as Evaluator
    from lite.data.collectors.llm_collector import LLMCollector as LLMCollector
    from lite.data.collectors.multi_collector import AsyncCollector as AsyncCollector
    from lite.data.collectors.multi_collector import MultiAsyncCollector as MultiAsyncCollector
    from lite.data.collectors.multi_collector import MultiSyncCollector as MultiSyncCollector
    from lite.data.collectors.ray_collector import RayCollector as RayCollector
    from lite.data.datasets.lerobot import lerobot_to_memmap as lerobot_to_memmap
    from lite.data.datasets.minari import minari_to_memmap as minari_to_memmap
    from lite.data.datasets.minari_replay import MinariExperienceReplay as MinariExperienceReplay
    from lite.data.datasets.offline_to_online import (
        OfflineToOnlineReplayBuffer as OfflineToOnlineReplayBuffer,
    )
    from lite.data.logging.csv_logger import CSVExperiment as CSVExperiment
    from lite.data.logging.csv_logger import CSVLogger as CSVLogger
    from lite.data.logging.curves import plot_csv as plot_csv
    from lite.data.logging.get_logger import generate_exp_name as generate_exp_name
    from lite.data.logging.get_logger import get_logger as get_logger
    from lite.data.logging.logger import Logger as Logger
    from lite.data.logging.mlflow_logger import MLFlowLogger as MLFlowLogger
    from lite.data.logging.pixel_render import PixelRenderTransform as PixelRenderTransform
    from lite.data.logging.tensorboard_logger import TensorboardLogger as TensorboardLogger
    from lite.data.logging.timeit import timeit as timeit
    from lite.data.logging.video_recorder import VideoRecorder as VideoRecorder
    from lite.data.logging.wandb_logger import WandbLogger as WandbLogger
    from lite.data.replay.her_replay_buffer import HERReplayBuffer as HERReplayBuffer
    from lite.data.replay.her_replay_buffer import HindsightStrategy as HindsightStrategy
    from lite.data.replay.mapped_storage import LazyMemmapStorage as LazyMemmapStorage
    from lite.data.replay.prefill import prefill_replay_buffer as prefill_replay_buffer
    from lite.data.replay.prioritized_sampler import PrioritizedSampler as PrioritizedSampler
    from lite.data.replay.prioritized_sampler import PrioritizedSliceSampler as PrioritizedSliceSampler
    from lite.data.replay.ray_replay_buffer import RayReplayBuffer as RayReplayBuffer
    from lite.data.replay.replay_buffer import ReplayBuffer as ReplayBuffer
    from lite.data.replay.replay_buffer_ensemble import ReplayBufferEnsemble as ReplayBufferEnsemble
    from lite.data.replay.samplers import RandomSampler as RandomSampler
    from lite.data.replay.samplers import Sampler as Sampler
    from lite.data.replay.samplers import SamplerWithoutReplacement as SamplerWithoutReplacement
    from lite.data.replay.samplers import StalenessAwareSampler as StalenessAwareSampler
    from lite.data.replay.slice_sampler import SliceSampler as SliceSampler
    from lite.data.replay.slice_sampler import (
        SliceSamplerWithoutReplacement as SliceSamplerWithoutReplacement,
    )
    from lite.data.replay.storages import LazyStackStorage as LazyStackStorage
    from lite.data.replay.storages import ListStorage as ListStorage
    from lite.data.replay.storages import Storage as Storage
    from lite.data.replay.tensor_storage import LazyTensorStorage as LazyTensorStorage
    from lite.data.replay.tensor_storage import TensorStorage as TensorStorage
    from lite.data.replay.tensordict_replay_buffer import PrioritizedReplayBuffer as PrioritizedReplayBuffer
    from lite.data.replay.tensordict_replay_buffer import (
        TensorDictPrioritizedReplayBuffer as TensorDictPrioritizedReplayBuffer,
    )
    from lite.data.replay.tensordict_replay_buffer import TensorDictReplayBuffer as TensorDictReplayBuffer
    from lite.data.replay.writers import ImmutableDatasetWriter as ImmutableDatasetWriter
    from lite.data.replay.writers import RoundRobinWriter as RoundRobinWriter
    from lite.data.replay.writers import TensorDictMaxValueWriter as TensorDictMaxValueWriter
    from lite.data.replay.writers import TensorDictRoundRobinWriter as TensorDictRoundRobinWriter
    from lite.data.replay.writers import Writer as Writer
    from lite.data.tables.row_seeds import row_seeds as row_seeds
    from lite.data.tables.transform_batches import TransformBatches as TransformBatches
    from lite.data.trajectories.densify_reward import DensifyReward as DensifyReward
    from lite.data.trajectories.multistep_transform import MultiStepTransform as MultiStepTransform
    from lite.data.trajectories.n_step import MultiStep as MultiStep
    from lite.data.trajectories.split_trajectories import split_trajectories as split_trajectories
    from lite.data.trajectories.token_transitions import TokenTransitions as TokenTransitions
    from lite.data.values.group_advantages import GroupAdvantage as GroupAdvantage
    from lite.data.values.group_advantages import MCAdvantage as MCAdvantage
    from lite.data.values.group_advantages import group_advantages as group_advantages
    from lite.data.values.group_selection import MCAdvantageSelector as MCAdvantageSelector
    from lite.envs.environments import EnvError as EnvError
    from lite.envs.transforms.step_transforms import InitTracker as InitTracker
    from lite.envs.transforms.step_transforms import RewardSum as RewardSum
    from lite.envs.transforms.step_transforms import StepCounter as StepCounter
    from lite.envs.transforms.step_transforms import StepTransform as StepTransform
    from lite.envs.transforms.step_transforms import TensorDictPrimer as TensorDictPrimer
    from lite.nn.policies.random_policy import RandomPolicy as RandomPolicy
    from lite.nn.values import GAE as GAE
    from lite.nn.values import MultiAgentGAE as MultiAgentGAE
    from lite.nn.values import Retrace as Retrace
    from lite.nn.values import TD0Estimator as TD0Estimator
    from lite.nn.values import TD1Estimator as TD1Estimator
    from lite.nn.values import TDLambdaEstimator as TDLambdaEstimator
    from lite.nn.values import ValueEstimatorBase as ValueEstimatorBase
    from lite.nn.values import VTrace as VTrace
    from lite.specs.arrays import Bounded as Bounded
    from lite.specs.arrays import BoundedContinuous as BoundedContinuous
    from lite.specs.arrays import Unbounded as Unbounded
    from lite.specs.arrays import UnboundedContinuous as UnboundedContinuous
    from lite.specs.arrays import UnboundedDiscrete as UnboundedDiscrete
    from lite.specs.base import BoxList as BoxList
    from lite.specs.base import CategoricalBox as CategoricalBox
    from lite.specs.base import ContinuousBox as ContinuousBox
    from lite.specs.base import TensorSpec as TensorSpec
    from lite.specs.classes import Binary as Binary
    from lite.specs.classes import Categorical as Categorical
    from lite.specs.classes import OneHot as OneHot
    from lite.specs.composite import Composite as Composite
    from lite.specs.multi_categorical import MultiCategorical as MultiCategorical
    from lite.specs.multi_categorical import MultiOneHot as MultiOneHot
    from lite.specs.objects import NonTensor as NonTensor

# The public names by what defines them.
_NAMES = {
    "collectors.collector": "Collector",
    "collectors.evaluator": "Evaluator",
    ".envs.environments": "EnvError",
    "collectors.llm_collector": "LLMCollector",
    ".nn.policies.random_policy": "RandomPolicy",
    "collectors.multi_collector": "AsyncCollector MultiAsyncCollector MultiSyncCollector",
    "collectors.ray_collector": "RayCollector",
    ".envs.transforms.step_transforms": "InitTracker RewardSum StepCounter StepTransform TensorDictPrimer",
    "datasets.lerobot": "lerobot_to_memmap",
    "datasets.minari": "minari_to_memmap",
    "datasets.minari_replay": "MinariExperienceReplay",
    "datasets.offline_to_online": "OfflineToOnlineReplayBuffer",
    "logging.csv_logger": "CSVExperiment CSVLogger",
    "logging.curves": "plot_csv",
    "logging.get_logger": "generate_exp_name get_logger",
    "logging.logger": "Logger",
    "logging.mlflow_logger": "MLFlowLogger",
    "logging.pixel_render": "PixelRenderTransform",
    "logging.tensorboard_logger": "TensorboardLogger",
    "logging.timeit": "timeit",
    "logging.video_recorder": "VideoRecorder",
    "logging.wandb_logger": "WandbLogger",
    "replay.her_replay_buffer": "HERReplayBuffer HindsightStrategy",
    "replay.mapped_storage": "LazyMemmapStorage",
    "replay.prefill": "prefill_replay_buffer",
    "replay.prioritized_sampler": "PrioritizedSampler PrioritizedSliceSampler",
    "replay.ray_replay_buffer": "RayReplayBuffer",
    "replay.replay_buffer": "ReplayBuffer",
    "replay.replay_buffer_ensemble": "ReplayBufferEnsemble",
    "replay.samplers": "RandomSampler Sampler SamplerWithoutReplacement StalenessAwareSampler",
    "replay.slice_sampler": "SliceSampler SliceSamplerWithoutReplacement",
    "replay.storages": "LazyStackStorage ListStorage Storage",
    "replay.tensor_storage": "LazyTensorStorage TensorStorage",
    "replay.tensordict_replay_buffer": "PrioritizedReplayBuffer TensorDictPrioritizedReplayBuffer "
    "TensorDictReplayBuffer",
    "replay.writers": "ImmutableDatasetWriter RoundRobinWriter TensorDictMaxValueWriter "
    "TensorDictRoundRobinWriter Writer",
    ".specs.arrays": "Bounded BoundedContinuous Unbounded UnboundedContinuous UnboundedDiscrete",
    ".specs.base": "BoxList CategoricalBox ContinuousBox TensorSpec",
    ".specs.classes": "Binary Categorical OneHot",
    ".specs.composite": "Composite",
    ".specs.multi_categorical": "MultiCategorical MultiOneHot",
    ".specs.objects": "NonTensor",
    "tables.row_seeds": "row_seeds",
    "tables.transform_batches": "TransformBatches",
    "trajectories.densify_reward": "DensifyReward",
    "trajectories.n_step": "MultiStep",
    "trajectories.multistep_transform": "MultiStepTransform",
    "trajectories.split_trajectories": "split_trajectories",
    "trajectories.token_transitions": "TokenTransitions",
    "values.group_advantages": "GroupAdvantage MCAdvantage group_advantages",
    "values.group_selection": "MCAdvantageSelector",
    ".nn.values": (
        "GAE MultiAgentGAE Retrace TD0Estimator TD1Estimator TDLambdaEstimator VTrace ValueEstimatorBase"
    ),
}
__all__, __getattr__, __dir__ = import_on_first_use(globals(), _NAMES)


# What CatFrames calls by the first name, and Collector by the others.
_lazy_hooks.register(
    make_window_sampler=lambda: import_module("lite.data.replay.slice_sampler").sampler_of_windows,
    multi_sync_collector=lambda: __getattr__("MultiSyncCollector"),
    multi_async_collector=lambda: __getattr__("MultiAsyncCollector"),
    ray_collector=lambda: __getattr__("RayCollector"),
)
