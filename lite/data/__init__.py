"""Transforms of trajectories and transitions on TensorDicts, and specs of their entries.

`entries` has the checks of their input; `n_step` is what `multistep` and `multistep_transform` share.
`split_trajectories`, `densify_reward` and `token_transitions` are one transform each. `specs` says
what entries look like before there are any, `values` has the estimators of advantages and targets, and
`datasets` reads data that others recorded.
"""

from lite._arrays.public import belong_here as _belong_here
from lite.data.datasets.lerobot import lerobot_to_memmap
from lite.data.datasets.minari import minari_to_memmap
from lite.data.densify_reward import DensifyReward
from lite.data.multistep import MultiStep
from lite.data.multistep_transform import MultiStepTransform
from lite.data.specs.arrays import Binary, Bounded, Categorical, Unbounded
from lite.data.specs.base import TensorSpec
from lite.data.specs.composite import Composite
from lite.data.specs.objects import NonTensor
from lite.data.split_trajectories import split_trajectories
from lite.data.token_transitions import TokenTransitions
from lite.data.values.base import ValueEstimatorBase
from lite.data.values.gae import GAE, MultiAgentGAE
from lite.data.values.group_advantages import GroupAdvantage, MCAdvantage, group_advantages
from lite.data.values.off_policy import Retrace, VTrace
from lite.data.values.td import TD0Estimator, TD1Estimator, TDLambdaEstimator

__all__ = [
    "GAE",
    "Binary",
    "Bounded",
    "Categorical",
    "Composite",
    "DensifyReward",
    "GroupAdvantage",
    "MCAdvantage",
    "MultiAgentGAE",
    "MultiStep",
    "MultiStepTransform",
    "NonTensor",
    "Retrace",
    "TD0Estimator",
    "TD1Estimator",
    "TDLambdaEstimator",
    "TensorSpec",
    "TokenTransitions",
    "Unbounded",
    "VTrace",
    "ValueEstimatorBase",
    "group_advantages",
    "lerobot_to_memmap",
    "minari_to_memmap",
    "split_trajectories",
]

_belong_here(globals())
