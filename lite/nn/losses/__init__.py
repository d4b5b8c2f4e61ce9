"""Losses: modules that read a batch and give what is minimised.

base        what all losses have
reduction   distances between values, and from losses per element to one number
estimators  which estimator of targets and advantages a loss makes
updates     how target parameters follow those that learn
dqn         temporal differences of action values
"""

from lite._arrays.public import belong_here as _belong_here
from lite.nn.losses.base import LossModule
from lite.nn.losses.dqn import DQNLoss
from lite.nn.losses.estimators import ValueEstimators, default_value_kwargs
from lite.nn.losses.reduction import distance_loss
from lite.nn.losses.updates import HardUpdate, SoftUpdate, TargetNetUpdater

__all__ = [
    "DQNLoss",
    "HardUpdate",
    "LossModule",
    "SoftUpdate",
    "TargetNetUpdater",
    "ValueEstimators",
    "default_value_kwargs",
    "distance_loss",
]

_belong_here(globals())
