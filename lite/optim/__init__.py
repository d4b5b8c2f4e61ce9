"""Optimisers, schedules of learning rates, clipping of gradients, soft updates of targets.

- `optimizer`: what all optimisers share, as functions of TensorDicts and as torch's classes over Parameters
- `adam` (Adam, AdamW), `sgd`, `rmsprop`: what each keeps, and the numbers of its steps
- `lr_scheduler`: schedules, as torch's and as functions of the step; some by a metric
- `soft_update`: a function of Parameters, TensorDicts, modules
- clipping of gradients is in `lite.nn._parameters.clipping`, as `lite.nn.utils` has it, too
- `leaves`: one step over many arrays, by `lite.kernels` or by the `formulas` in NumPy
- `trees`: which arrays of TensorDicts belong together
- `state_dict`: torch's state dicts, out and in
"""

from lite._arrays.public import belong_here as _belong_here
from lite.nn._parameters.clipping import clip_grad_norm, clip_grad_norm_, clip_grad_value, clip_grad_value_
from lite.optim.adam import Adam, AdamW
from lite.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    KLAdaptiveLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from lite.optim.optimizer import Optimizer, group_optimizers
from lite.optim.rmsprop import RMSprop
from lite.optim.sgd import SGD
from lite.optim.soft_update import soft_update

__all__ = [
    "SGD", "Adam", "AdamW", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "KLAdaptiveLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR", "Optimizer",
    "RMSprop", "ReduceLROnPlateau", "SequentialLR", "StepLR", "clip_grad_norm", "clip_grad_norm_",
    "clip_grad_value", "clip_grad_value_", "group_optimizers", "soft_update"
]  # fmt: skip

_belong_here(globals())
