"""`check_env_specs`: whether an environment's entries fit its specs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from lite import LazyStackedTensorDict, TensorDictBase, is_leaf_nontensor, is_non_tensor
from lite._tree.keys import to_path


def require_env(env: Any, words: str) -> Any:
    """`env`, if it is an environment; otherwise TypeError, whose text begins with `words`."""
    if isinstance(env, type) or not hasattr(env, "fake_tensordict"):
        got = env if isinstance(env, type) else type(env).__name__
        raise TypeError(f"{words} an EnvBase, got {got}: GymWrapper(env) makes one of gymnasium's.")
    return env


def check_env_specs(
    env: Any,
    return_contiguous: bool | None = None,
    check_dtype: bool = True,
    seed: int | None = None,
    tensordict: TensorDictBase | None = None,
    break_when_any_done: bool | Literal["both"] | None = None,
) -> None:
    """Compare a rollout of three random steps with the specs of an environment.

    Keys, shapes and dtypes must be those of `fake_tensordict`, and the last step's values in their specs.
    The step after a reset must not change the reset's arrays: environments do not write to returned arrays.
    The environment is reset, and seeded if `seed` is given.

    Args:
        env: an `EnvBase`.
        return_contiguous: as for `EnvBase.rollout`.
        check_dtype: False accepts any dtypes; values must still be in their specs.
        seed: for the environment and its random actions.
        tensordict: the start of the rollout; None for a reset.
        break_when_any_done: as for `EnvBase.rollout`; "both" checks twice.

    Raises:
        AssertionError: an entry differs; the message names it.
        TypeError: `env` is not one of lite's environments.

    Source:
        torchrl.envs.utils.check_env_specs.

    Example:
        >>> import gymnasium
        >>> from lite.envs import GymWrapper, check_env_specs
        >>> check_env_specs(GymWrapper(gymnasium.make("CartPole-v1")), seed=0)
    """
    require_env(env, "env must be")
    if break_when_any_done == "both":
        for stop in (True, False):
            check_env_specs(env, return_contiguous, check_dtype, seed, tensordict, stop)
        return
    if seed is not None:
        env.set_seed(seed)
    fake = env.fake_tensordict()
    if not env.batch_locked and tensordict is not None:
        shape = np.broadcast_shapes(fake.batch_size, tensordict.batch_size)
        fake, tensordict = fake.expand(*shape), tensordict.expand(*shape)
    optional = {("next", *to_path(key)) for key in env.state_spec.keys(True, True)}
    expected = _leaves(fake, optional)

    def check_values(step: Any) -> None:
        for path, value in _leaves(step, optional).items():
            if path in expected:
                _check_like(path, value, expected[path], check_dtype)

    try:
        real = env.rollout(
            3,
            return_contiguous=return_contiguous,
            tensordict=tensordict,
            auto_reset=tensordict is None,
            break_when_any_done=break_when_any_done,
        )
    except RuntimeError as error:  # the steps do not stack
        start = env.reset()
        lacking = [key for key in env.full_observation_spec.keys(True, True) if key not in start]
        if lacking:
            raise AssertionError(
                f"a reset gives no {lacking}, which the specs have; it gives {list(start.keys(True, True))}."
            ) from error
        check_values(env.rand_step(start))
        raise
    got = _leaves(real[..., 0], optional)
    if expected.keys() != got.keys():
        raise AssertionError(
            f"the keys differ: the specs lack {sorted(got.keys() - expected.keys())}, "
            f"the environment gives no {sorted(expected.keys() - got.keys())}."
        )
    for step in real.unbind(-1):
        check_values(step)
    last = env.rand_action(real[..., -1])
    for td, names in ((last, "action state done observation"), (last["next"], "reward done observation")):
        for name in names.split():
            spec = getattr(env, f"full_{name}_spec")
            given = td.select(*spec._leaf_keys(), strict=False)
            if not spec.is_in(given):
                raise AssertionError(
                    f"the {name} spec does not hold what the environment gives: {spec} and {given}."
                )
    if tensordict is None:
        _check_kept(env)


def _check_kept(env: Any) -> None:
    """Raise if a step writes into the arrays of a reset, which rollouts and collectors keep."""
    start = env.reset()
    before = start.clone()
    env.step(env.rand_action(start))
    after = _leaves(start, set())
    for path, value in _leaves(before, set()).items():
        if isinstance(value, np.ndarray) and value.tobytes() != np.asarray(after[path]).tobytes():
            key = path if len(path) > 1 else path[0]
            raise AssertionError(
                f"a step wrote into {key!r} of the step before, which rollouts keep: _reset and _step must "
                "give arrays that stay as they are, copies where the environment goes on writing to its own."
            )


def _leaves(td: Any, optional: set[tuple[str, ...]]) -> dict[tuple[Any, ...], Any]:
    """The leaves by path; for environments with different specs after the environment's number."""
    if isinstance(td, LazyStackedTensorDict):
        rows = enumerate(td.unbind(td.stack_dim))
        return {(i, *path): value for i, row in rows for path, value in _leaves(row, optional).items()}
    found: dict[tuple[Any, ...], Any] = {}
    for key in td.keys(True, True, is_leaf=is_leaf_nontensor):
        try:
            found[to_path(key)] = td.get(key)
        except RuntimeError:  # of agents whose shapes differ
            found.update({(*key, i): row for i, row in enumerate(td.get(key, as_list=True))})
    return {path: value for path, value in found.items() if path not in optional}


def _check_like(path: tuple[Any, ...], real: Any, fake: Any, check_dtype: bool) -> None:
    if any(is_non_tensor(value) or not hasattr(value, "shape") for value in (real, fake)):
        return
    key = path if len(path) > 1 else path[0]
    if tuple(real.shape) != tuple(fake.shape):
        raise AssertionError(
            f"the shape of {key!r} differs: the spec says {tuple(fake.shape)}, got {tuple(real.shape)}."
        )
    if check_dtype and real.dtype != fake.dtype:
        raise AssertionError(f"the dtype of {key!r} differs: the spec says {fake.dtype}, got {real.dtype}.")
