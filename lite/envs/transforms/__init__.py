"""Transforms of environments and of the data of replay buffers; each is a module.

- `base`: `Transform`, the base class; `compose`: sequences of transforms; `transformed_env`: environments
  with transforms; `resets`: masks of episodes that start; `spec_changes`: changes of specs
- numbers: `affine`, `vec_norm`, `clipping`, `dtypes`
- entries and shapes: `keys`, `shapes`, `cat_tensors`, `cat_frames`, `images`
- actions: `actions`
- episodes: `step_transforms`, which collectors take, too; `repeats`, `episodes`, `returns`, `time_max_pool`
- `sequences` of buffers, and `module_transform`

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from lite._arrays.public import import_on_first_use

# The public names by what defines them.
_NAMES = {
    "actions": "ActionDiscretizer ActionMask ActionScaling DiscreteActionProjection",
    "affine": "ObservationNorm RewardScaling",
    "base": "ObservationTransform Transform",
    "cat_frames": "CatFrames",
    "cat_tensors": "CatTensors",
    "clipping": "ClipTransform FiniteTensorDictCheck RewardClipping SignTransform",
    "compose": "Compose",
    "dtypes": "DTypeCastTransform DoubleToFloat",
    "episodes": "EndOfLifeTransform RandomTruncationTransform TrajCounter",
    "images": "CenterCrop Crop GrayScale Resize ToTensorImage",
    "keys": "ExcludeTransform RenameTransform SelectTransform",
    "module_transform": "ModuleTransform",
    "repeats": "FrameSkipTransform NoopResetEnv",
    "returns": "Reward2GoTransform TargetReturn",
    "sequences": "BurnInTransform RandomCropTensorDict",
    "shapes": "BatchSizeTransform FlattenObservation PermuteTransform SqueezeTransform UnsqueezeTransform",
    "step_transforms": "InitTracker RewardSum StepCounter StepTransform TensorDictPrimer gSDENoise",
    "time_max_pool": "TimeMaxPool",
    "transformed_env": "TransformedEnv",
    "vec_norm": "VecNorm VecNormV2",
}
__all__, __getattr__, __dir__ = import_on_first_use(globals(), _NAMES)
