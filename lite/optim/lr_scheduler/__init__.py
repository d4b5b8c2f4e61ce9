"""Schedules of learning rates.

- `schedules`: the base class, and schedules by the number of the step
- `cycles`: schedules that rise again
- `metrics`: schedules by metrics of the training
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
