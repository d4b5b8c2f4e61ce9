"""Transforms of trajectories and transitions on TensorDicts.

`entries` has the checks of their input; `n_step` is what `multistep` and `multistep_transform` share.
`split_trajectories`, `densify_reward` and `token_transitions` are one transform each.
"""

from lite._arrays.public import belong_here as _belong_here
from lite.data.densify_reward import DensifyReward
from lite.data.multistep import MultiStep
from lite.data.multistep_transform import MultiStepTransform
from lite.data.split_trajectories import split_trajectories
from lite.data.token_transitions import TokenTransitions

__all__ = ["DensifyReward", "MultiStep", "MultiStepTransform", "TokenTransitions", "split_trajectories"]

_belong_here(globals())
