"""Schedules of learning rates.

- `schedules`: the base of all, and those that follow the number of the step
- `cycles`: those that rise again
- `metrics`: those that follow what training measures
"""

from lite.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, OneCycleLR
from lite.optim.lr_scheduler.metrics import KLAdaptiveLR, ReduceLROnPlateau
from lite.optim.lr_scheduler.schedules import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    SequentialLR,
    StepLR,
)

__all__ = [
    "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR", "KLAdaptiveLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR", "ReduceLROnPlateau", "SequentialLR",
    "StepLR"
]  # fmt: skip
