"""Transforms of environments and of the data of replay buffers; each is a module.

- `base`: `Transform`, the base class; `compose`: sequences of transforms; `transformed_env`: environments
  with transforms; `resets`: masks of episodes that start; `spec_changes`: changes of specs
- numbers: `affine`, `vec_norm`, `vec_norm_v2`, `clipping`, `dtypes`
- entries and shapes: `keys`, `shapes`, `cat_tensors`, `cat_frames`, `images`, `resize`
- actions: `actions`
- episodes: `step_transforms`, which collectors take, too; `repeats`, `episodes`, `returns`, `time_max_pool`
- `sequences` of buffers, and `module_transform`

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lite.envs.transforms.actions import (
        ActionDiscretizer,
        ActionMask,
        ActionScaling,
        DiscreteActionProjection,
    )
    from lite.envs.transforms.affine import ObservationNorm, RewardScaling
    from lite.envs.transforms.base import ObservationTransform, Transform
    from lite.envs.transforms.cat_frames import CatFrames
    from lite.envs.transforms.cat_tensors import CatTensors
    from lite.envs.transforms.clipping import ClipTransform, RewardClipping, SignTransform
    from lite.envs.transforms.compose import Compose
    from lite.envs.transforms.dtypes import DoubleToFloat, DTypeCastTransform
    from lite.envs.transforms.episodes import (
        EndOfLifeTransform,
        RandomTruncationTransform,
        TrajCounter,
    )
    from lite.envs.transforms.images import CenterCrop, Crop, GrayScale, ToTensorImage
    from lite.envs.transforms.keys import ExcludeTransform, RenameTransform, SelectTransform
    from lite.envs.transforms.module_transform import ModuleTransform
    from lite.envs.transforms.repeats import FrameSkipTransform, NoopResetEnv
    from lite.envs.transforms.resize import Resize
    from lite.envs.transforms.returns import Reward2GoTransform, TargetReturn
    from lite.envs.transforms.sequences import BurnInTransform, RandomCropTensorDict
    from lite.envs.transforms.shapes import (
        BatchSizeTransform,
        FlattenObservation,
        PermuteTransform,
        SqueezeTransform,
        UnsqueezeTransform,
    )
    from lite.envs.transforms.step_transforms import (
        InitTracker,
        RewardSum,
        StepCounter,
        StepTransform,
        TensorDictPrimer,
        gSDENoise,
    )
    from lite.envs.transforms.time_max_pool import TimeMaxPool
    from lite.envs.transforms.transformed_env import TransformedEnv
    from lite.envs.transforms.vec_norm import VecNorm
    from lite.envs.transforms.vec_norm_v2 import VecNormV2

# The public names by what defines them.
_NAMES = {
    "actions": "ActionDiscretizer ActionMask ActionScaling DiscreteActionProjection",
    "affine": "ObservationNorm RewardScaling",
    "base": "ObservationTransform Transform",
    "cat_frames": "CatFrames",
    "cat_tensors": "CatTensors",
    "clipping": "ClipTransform RewardClipping SignTransform",
    "compose": "Compose",
    "dtypes": "DTypeCastTransform DoubleToFloat",
    "episodes": "EndOfLifeTransform RandomTruncationTransform TrajCounter",
    "images": "CenterCrop Crop GrayScale ToTensorImage",
    "keys": "ExcludeTransform RenameTransform SelectTransform",
    "module_transform": "ModuleTransform",
    "repeats": "FrameSkipTransform NoopResetEnv",
    "resize": "Resize",
    "returns": "Reward2GoTransform TargetReturn",
    "sequences": "BurnInTransform RandomCropTensorDict",
    "shapes": "BatchSizeTransform FlattenObservation PermuteTransform SqueezeTransform UnsqueezeTransform",
    "step_transforms": "InitTracker RewardSum StepCounter StepTransform TensorDictPrimer gSDENoise",
    "time_max_pool": "TimeMaxPool",
    "transformed_env": "TransformedEnv",
    "vec_norm": "VecNorm",
    "vec_norm_v2": "VecNormV2",
}
_FILE_OF = {name: file for file, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ActionDiscretizer",
    "ActionMask",
    "ActionScaling",
    "BatchSizeTransform",
    "BurnInTransform",
    "CatFrames",
    "CatTensors",
    "CenterCrop",
    "ClipTransform",
    "Compose",
    "Crop",
    "DTypeCastTransform",
    "DiscreteActionProjection",
    "DoubleToFloat",
    "EndOfLifeTransform",
    "ExcludeTransform",
    "FlattenObservation",
    "FrameSkipTransform",
    "GrayScale",
    "InitTracker",
    "ModuleTransform",
    "NoopResetEnv",
    "ObservationNorm",
    "ObservationTransform",
    "PermuteTransform",
    "RandomCropTensorDict",
    "RandomTruncationTransform",
    "RenameTransform",
    "Resize",
    "Reward2GoTransform",
    "RewardClipping",
    "RewardScaling",
    "RewardSum",
    "SelectTransform",
    "SignTransform",
    "SqueezeTransform",
    "StepCounter",
    "StepTransform",
    "TargetReturn",
    "TensorDictPrimer",
    "TimeMaxPool",
    "ToTensorImage",
    "TrajCounter",
    "Transform",
    "TransformedEnv",
    "UnsqueezeTransform",
    "VecNorm",
    "VecNormV2",
    "gSDENoise",
]


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module 'lite.envs.transforms' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"lite.envs.transforms.{_FILE_OF[name]}"), name)
    return found


def __dir__() -> list[str]:
    return __all__
