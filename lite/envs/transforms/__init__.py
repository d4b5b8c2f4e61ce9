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

from typing import TYPE_CHECKING

from lite._arrays.public import import_on_first_use

if TYPE_CHECKING:
    from lite.envs.transforms.actions import ActionDiscretizer as ActionDiscretizer
    from lite.envs.transforms.actions import ActionMask as ActionMask
    from lite.envs.transforms.actions import ActionScaling as ActionScaling
    from lite.envs.transforms.actions import DiscreteActionProjection as DiscreteActionProjection
    from lite.envs.transforms.affine import ObservationNorm as ObservationNorm
    from lite.envs.transforms.affine import RewardScaling as RewardScaling
    from lite.envs.transforms.base import ObservationTransform as ObservationTransform
    from lite.envs.transforms.base import Transform as Transform
    from lite.envs.transforms.cat_frames import CatFrames as CatFrames
    from lite.envs.transforms.cat_tensors import CatTensors as CatTensors
    from lite.envs.transforms.clipping import ClipTransform as ClipTransform
    from lite.envs.transforms.clipping import FiniteTensorDictCheck as FiniteTensorDictCheck
    from lite.envs.transforms.clipping import RewardClipping as RewardClipping
    from lite.envs.transforms.clipping import SignTransform as SignTransform
    from lite.envs.transforms.compose import Compose as Compose
    from lite.envs.transforms.dtypes import DoubleToFloat as DoubleToFloat
    from lite.envs.transforms.dtypes import DTypeCastTransform as DTypeCastTransform
    from lite.envs.transforms.episodes import EndOfLifeTransform as EndOfLifeTransform
    from lite.envs.transforms.episodes import RandomTruncationTransform as RandomTruncationTransform
    from lite.envs.transforms.episodes import TrajCounter as TrajCounter
    from lite.envs.transforms.images import CenterCrop as CenterCrop
    from lite.envs.transforms.images import Crop as Crop
    from lite.envs.transforms.images import GrayScale as GrayScale
    from lite.envs.transforms.images import Resize as Resize
    from lite.envs.transforms.images import ToTensorImage as ToTensorImage
    from lite.envs.transforms.keys import ExcludeTransform as ExcludeTransform
    from lite.envs.transforms.keys import RenameTransform as RenameTransform
    from lite.envs.transforms.keys import SelectTransform as SelectTransform
    from lite.envs.transforms.module_transform import ModuleTransform as ModuleTransform
    from lite.envs.transforms.repeats import FrameSkipTransform as FrameSkipTransform
    from lite.envs.transforms.repeats import NoopResetEnv as NoopResetEnv
    from lite.envs.transforms.returns import Reward2GoTransform as Reward2GoTransform
    from lite.envs.transforms.returns import TargetReturn as TargetReturn
    from lite.envs.transforms.sequences import BurnInTransform as BurnInTransform
    from lite.envs.transforms.sequences import RandomCropTensorDict as RandomCropTensorDict
    from lite.envs.transforms.shapes import BatchSizeTransform as BatchSizeTransform
    from lite.envs.transforms.shapes import FlattenObservation as FlattenObservation
    from lite.envs.transforms.shapes import PermuteTransform as PermuteTransform
    from lite.envs.transforms.shapes import SqueezeTransform as SqueezeTransform
    from lite.envs.transforms.shapes import UnsqueezeTransform as UnsqueezeTransform
    from lite.envs.transforms.step_transforms import InitTracker as InitTracker
    from lite.envs.transforms.step_transforms import RewardSum as RewardSum
    from lite.envs.transforms.step_transforms import StepCounter as StepCounter
    from lite.envs.transforms.step_transforms import StepTransform as StepTransform
    from lite.envs.transforms.step_transforms import TensorDictPrimer as TensorDictPrimer
    from lite.envs.transforms.step_transforms import gSDENoise as gSDENoise
    from lite.envs.transforms.time_max_pool import TimeMaxPool as TimeMaxPool
    from lite.envs.transforms.transformed_env import TransformedEnv as TransformedEnv
    from lite.envs.transforms.vec_norm import VecNorm as VecNorm
    from lite.envs.transforms.vec_norm import VecNormV2 as VecNormV2

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
