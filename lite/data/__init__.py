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
from typing import Any

from lite import _lazy_hooks
from lite._arrays.public import import_on_first_use

# The public names by what defines them.
_NAMES = {
    "collectors.collector": "Collector",
    "collectors.evaluator": "Evaluator",
    ".envs.environments": "EnvError",
    "collectors.llm_collector": "LLMCollector",
    ".nn.policies.exploration": "RandomPolicy",
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
    ".specs.base": "BoxList CategoricalBox ContinuousBox Stacked TensorSpec",
    ".specs.classes": "Binary Categorical OneHot",
    ".specs.composite": "Composite StackedComposite",
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
__all__, _get, __dir__ = import_on_first_use(globals(), _NAMES)
# What most public scripts call them: TorchRL's names until 0.11.
_FORMER = {
    "SyncDataCollector": "Collector",
    "MultiSyncDataCollector": "MultiSyncCollector",
    "MultiaSyncDataCollector": "MultiAsyncCollector",
    "CompositeSpec": "Composite",
    "LazyStackedCompositeSpec": "StackedComposite",
    "LazyStackedTensorSpec": "Stacked",
    "BoundedTensorSpec": "Bounded",
    "UnboundedContinuousTensorSpec": "UnboundedContinuous",
    "UnboundedDiscreteTensorSpec": "UnboundedDiscrete",
    "DiscreteTensorSpec": "Categorical",
    "MultiDiscreteTensorSpec": "MultiCategorical",
    "OneHotDiscreteTensorSpec": "OneHot",
    "MultiOneHotDiscreteTensorSpec": "MultiOneHot",
    "BinaryDiscreteTensorSpec": "Binary",
    "NonTensorSpec": "NonTensor",
}


def __getattr__(name: str) -> Any:
    return _get(_FORMER.get(name, name))


# What CatFrames calls by the first name, and Collector by the others.
_lazy_hooks.register(
    make_window_sampler=lambda: import_module("lite.data.replay.slice_sampler").sampler_of_windows,
    multi_sync_collector=lambda: _get("MultiSyncCollector"),
    multi_async_collector=lambda: _get("MultiAsyncCollector"),
    ray_collector=lambda: _get("RayCollector"),
)
