"""The loops of `EnvBase.rollout`, and the policies that they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.types import Path
from lite._tree.keys import require_path
from lite.nn import TensorDictModule, TensorDictModuleBase
from lite.nn.policies.exploration import RandomPolicy
from lite.specs.composite import Composite

Policy = Callable[[Any], Any]


def compatible_policy(policy: Any, observation_spec: Composite, action_keys: Sequence[NestedKey]) -> Policy:
    """A policy that takes a TensorDict.

    A `TensorDictModuleBase`, and what has `in_keys` or one argument called tensordict or td, takes one
    already. Any other gets the observations as arguments, in the order of their spec, and returns the
    actions.

    Raises:
        TypeError: the policy cannot be called.
    """
    if not callable(policy):
        raise TypeError(f"policy must be callable or None, got {type(policy).__name__}.")
    # A module under lite.jit, or a decorated function, is asked for what it wraps.
    inside = inspect.unwrap(policy)
    if isinstance(inside, (RandomPolicy, TensorDictModuleBase)) or hasattr(inside, "in_keys"):
        return policy
    parameters = list(inspect.signature(getattr(policy, "forward", policy)).parameters)
    if parameters in (["tensordict"], ["td"]):
        return policy
    return TensorDictModule(policy, in_keys=list(observation_spec.keys()), out_keys=list(action_keys))


def given_actions(actions: Iterable[Any], key: NestedKey) -> Policy:
    """A policy that takes its actions from an iterable."""
    left = iter(actions)
    return lambda tensordict: tensordict.set(key, next(left))


def until_done(
    env: Any, tensordict: Any, policy: Policy, max_steps: int, callback: Callable[[Any, Any], Any] | None,
    all_done: bool,
) -> list[Any]:  # fmt: skip
    """The steps until any environment, or all, have ended; ended environments are not stepped."""
    steps: list[Any] = []
    running: Any = None
    for i in range(max_steps):
        out = policy(tensordict)
        if out is not tensordict:
            tensordict.update(out)
        tensordict = env.step(tensordict)
        following = env.step_mdp(tensordict)
        kept = tensordict.copy()
        if running is not None and not running.all():
            kept.pop("_step", None)
            kept = kept.where(running.reshape(kept.batch_size), steps[-1])
        steps.append(kept)
        if i == max_steps - 1:
            break
        tensordict = following
        if all_done:
            ended = env.done_states.ended(tensordict)
            if ended is not None and ended.any():
                running = ~ended if running is None else running & ~ended
            if running is not None:
                if not running.any():
                    break
                tensordict.set("_step", running)
        elif env.done_states.any(tensordict):
            break
        if callback is not None:
            callback(env, tensordict)
    return steps


def nonstop(
    env: Any, tensordict: Any, policy: Policy, max_steps: int, callback: Callable[[Any, Any], Any] | None
) -> list[Any]:
    """`max_steps` steps; environments that have ended are reset."""
    steps = []
    for i in range(max_steps):
        out = policy(tensordict)
        if out is not tensordict:
            tensordict.update(out)
        if i == max_steps - 1:
            steps.append(env.step(tensordict))
            break
        stepped, tensordict = env.step_and_maybe_reset(tensordict)
        steps.append(stepped)
        if callback is not None:
            callback(env, stepped)
    return steps


def resumed(env: Any, made: list[Any], policy: Policy, max_steps: int, stop: bool) -> list[Any]:
    """The steps of a rollout of one environment, after a policy has chosen the last action of `made`."""
    *steps, tensordict = made
    steps.append(env.step(tensordict))
    following = env.step_mdp(steps[-1])
    left = max_steps - len(steps)
    if not left or (stop and env.done_states.any(following)):
        return steps
    if stop:
        return steps + until_done(env, following, policy, left, None, False)
    return steps + nonstop(env, env.maybe_reset(following), policy, left, None)


def truncated_roots(done_keys: Iterable[NestedKey]) -> list[Path]:
    """The paths of the nodes that have "truncated" entries.

    Raises:
        RuntimeError: there is none.
    """
    roots = [path[:-1] for path in map(require_path, done_keys) if path[-1] == "truncated"]
    if not roots:
        raise RuntimeError("set_truncated needs a 'truncated' entry: call env.add_truncated_keys() first.")
    return roots


def truncate_last(rollout: Any, done_keys: Iterable[NestedKey]) -> None:
    """Set "truncated" and "done" at the last step of each environment; see `truncated_roots`."""
    for root in truncated_roots(done_keys):
        for entry in ("truncated", "done"):
            path = ("next", *root, entry)
            value = np.array(rollout.get(path))
            value[(*(slice(None),) * (rollout.ndim - 1), -1)] = True
            rollout.set(path, value)
