"""Transforms that a `Collector` adds to those that it is given: a counter, and what a policy starts with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lite._arrays.caller import warn
from lite.envs.base import EnvBase
from lite.envs.transforms.step_transforms import (
    InitTracker,
    StepCounter,
    StepTransform,
    TensorDictPrimer,
)
from lite.nn import ConsistentDropoutModule, Module
from lite.specs.composite import Composite


def with_counter(transforms: Sequence[StepTransform], max_steps: int) -> list[StepTransform]:
    """The transforms, with a step counter in front unless they have one."""
    for transform in transforms:
        if not isinstance(transform, StepTransform):
            raise TypeError(f"transforms must be StepTransforms, got {type(transform).__name__}.")
    if not any(isinstance(transform, StepCounter) for transform in transforms):
        return [StepCounter(max_steps or None), *transforms]
    if max_steps:
        raise ValueError("give max_frames_per_traj or a StepCounter with max_steps, not both.")
    return list(transforms)


def with_primers(
    transforms: Sequence[StepTransform], env: Any, policy: Any, strict: bool = True
) -> list[StepTransform]:
    """The transforms, and those that the modules of a policy need and `env` lacks.

    Without `strict`, dropouts that have no mask, or no shape to draw one of, need none.
    """
    known = env.full_observation_spec.keys(True, True) if isinstance(env, EnvBase) else []
    names = {key if isinstance(key, str) else key[-1] for key in known}
    added = list(transforms)
    for transform in added:
        known = [*known, *getattr(transform, "primers", Composite()).keys(True, True)]
    if "is_init" not in names and not any(isinstance(transform, InitTracker) for transform in added):
        added.append(InitTracker())
    for part in policy.modules() if isinstance(policy, Module) else ():
        dropout = not strict and isinstance(part, ConsistentDropoutModule)
        if dropout and not (part.training and part.input_shape is not None):
            continue
        if hasattr(part, "make_tensordict_primer"):
            primer = part.make_tensordict_primer()
            if not all(key in known for key in primer.primers.keys(True, True)):
                added.append(primer)
    return added


def warn_of_lost_states(transforms: Sequence[StepTransform], env: EnvBase, policy: Any) -> None:
    """Warn if a policy would have no memory: an `EnvBase` hands on the entries of its specs alone."""
    added = with_primers(transforms, env, policy, strict=False)[len(transforms) :]
    primers = [one.primers for one in added if isinstance(one, TensorDictPrimer)]
    if lost := [key for primer in primers for key in primer.keys(True, True)]:
        warn(
            f"the environment does not hand {lost} from step to step, so the policy forgets them: pass "
            "auto_register_policy_transforms=True, or append the module's make_tensordict_primer() to the "
            "environment (False is silent).",
        )
