"""`EnvBase`: environments whose steps take and give TensorDicts."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sized
from typing import Any

import numpy as np

from lite import TensorDict, TensorDictBase, is_leaf_nontensor, maybe_dense_stack, stack
from lite._arrays.public import belong_to
from lite._lazy_hooks import implementation
from lite.envs.done_states import DoneStates, update_where_reset
from lite.envs.env_specs import EnvSpecs
from lite.envs.mdp_steps import StepMDP
from lite.envs.rollouts import (
    Policy,
    compatible_policy,
    given_actions,
    nonstop,
    resumed,
    truncate_last,
    until_done,
)
from lite.envs.spec_checks import check_env_specs
from lite.kernels._integer import integer
from lite.specs.base import Stacked


class EnvBase(EnvSpecs, ABC):
    """An environment, or a batch of environments, whose steps take and return TensorDicts.

    Subclasses define `_reset(tensordict, **kwargs)`, which returns a new TensorDict of observations,
    `_step(tensordict)`, which returns one of observations, rewards and done entries, and `_set_seed(seed)`.
    They set `observation_spec`, `action_spec`, `reward_spec`, and `done_spec` unless it is the default:
    "done" and "terminated" of shape (*batch_size, 1). What they return is kept, uncopied: arrays that the
    environment goes on writing to are returned as copies. The first step of a rollout is::

        td = env.reset()           # observations, done entries
        td["action"] = ...         # or env.rand_action(td)
        td = env.step(td)          # writes td["next"]: observations, reward, done entries
        td = env.step_mdp(td)      # the input of the second step

    Args:
        batch_size: shape of the environments that step at once.
        device: None or "cpu".
        run_type_checks: check dtypes at each step.
        allow_done_after_reset: do not raise if an environment is done right after its reset.

    Source:
        torchrl.envs.EnvBase.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import Bounded, Unbounded
        >>> from lite.envs import EnvBase, check_env_specs
        >>> class Even(EnvBase):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.observation_spec = self.reward_spec = Unbounded((1,))
        ...         self.action_spec = Bounded(-1, 1, (1,))
        ...     def _reset(self, tensordict):
        ...         return TensorDict(observation=np.zeros(1, np.float32))
        ...     def _step(self, tensordict):
        ...         action = tensordict["action"]
        ...         return TensorDict(observation=action, reward=action, done=action > 2)
        ...     def _set_seed(self, seed):
        ...         pass
        >>> check_env_specs(Even())
        >>> Even().rollout(10).shape
        (10,)
    """

    _supports_set_state = False
    _collector: weakref.ReferenceType[Any] | None = None

    def __init__(
        self,
        *,
        device: Any = None,
        batch_size: Any = None,
        run_type_checks: bool = False,
        allow_done_after_reset: bool = False,
    ) -> None:
        if device not in (None, "cpu"):
            raise ValueError(f"device must be None or 'cpu', got {device!r}.")
        super().__init__()
        self._init_specs(batch_size)
        self.device = device
        self.run_type_checks = run_type_checks
        self.is_closed = False
        self._allow_done_after_reset = allow_done_after_reset
        self.generator = np.random.default_rng()

    # -- what subclasses define -----------------------------------------------------------------

    @abstractmethod
    def _reset(self, tensordict: Any, /) -> Any:
        """The first observations, in a new TensorDict; done entries may be missing.

        Keyword arguments of `reset` are given to those that take some.

        With a "_reset" entry, only environments where it is True are reset; the rows of others are ignored.
        """

    @abstractmethod
    def _step(self, tensordict: Any, /) -> Any:
        """The next observations, rewards and done entries, in a new TensorDict."""

    @abstractmethod
    def _set_seed(self, seed: int | None) -> None:
        """Seed the environment."""

    def append_transform(self, transform: Any) -> Any:
        """The environment in a `TransformedEnv`, with a transform, or a function of TensorDicts."""
        return implementation("append_transform", self, "lite.envs")(self, transform)

    # -- steps ----------------------------------------------------------------------------------

    def reset(
        self, tensordict: TensorDictBase | None = None, *, set_state: bool | None = None, **kwargs: Any
    ) -> TensorDict:
        """Reset all environments, or those that a "_reset" entry names.

        Args:
            tensordict: receives the observations, and is returned. A "_reset" entry, bool of the shape of the
                done entries, selects the environments to reset; it is removed.
            set_state: start in the state in `tensordict`, if the environment supports it.
            **kwargs: for `_reset`.

        Returns:
            `tensordict`, or a new TensorDict, with observations and done entries.

        Raises:
            RuntimeError: `tensordict` has another batch size, an environment is done after its reset, or
                `_reset` returned its input or no TensorDict.
            NotImplementedError: `set_state` is True, and the environment does not support it.
        """
        if tensordict is not None:
            self._check_batch(tensordict)
        only_keys = kwargs.pop("select_reset_only", False)
        if self._supports_set_state:
            has = tensordict is not None and any(key in tensordict for key in self.state_keys)
            kwargs["set_state"] = not only_keys and (has if set_state is None else set_state)
        elif set_state:
            raise NotImplementedError(
                f"{type(self).__name__} cannot be reset to a state: set_state must not be True."
            )
        given = tensordict
        if only_keys and tensordict is not None:
            # An entry of the ended episode must not be taken for the state to start in.
            given = tensordict.select(*self.reset_keys, strict=False)
        made = self._reset_all(given, **kwargs)
        return self._reset_proc_data(tensordict, made)

    def step(self, tensordict: Any) -> TensorDict:
        """Take a step with the actions in a TensorDict, and write the results to its "next".

        Args:
            tensordict: has the actions, and states if the environment has any. Entries of "next" that the
                step does not return are kept. A "_step" entry, bool, selects the environments that step.

        Returns:
            `tensordict`.

        Raises:
            KeyError: `_step` gave no reward.
            RuntimeError: another batch size, or `_step` returned its input or no TensorDict.
            TypeError: no TensorDict; with `run_type_checks`, an entry has another dtype than its spec.
        """
        self._check_batch(tensordict)
        partial = tensordict.pop("_step", None)
        if partial is not None:
            if not self.batch_locked:
                return self._step_some(tensordict, partial)
            if not partial.any():
                return self._with_next(tensordict, self._unmoved(tensordict))
            tensordict.set("_step", partial)
        return self._with_next(tensordict, self._step_proc_data(self._step(tensordict)))

    def _with_next(self, tensordict: Any, following: Any) -> Any:
        if following is tensordict:
            raise RuntimeError("_step must return a new TensorDict: its input holds the step itself.")
        preset = tensordict.get("next", None)
        if preset is not None:
            following.update(preset.exclude(*following.keys(True, True)))
        elif (
            type(tensordict) is type(following) is TensorDict
            and tensordict._names is following._names is None
            and not tensordict._locked
            and tensordict._batch_size == following._batch_size
        ):
            tensordict._data["next"] = following  # `set` without its checks, which a new result passes
            return tensordict
        return tensordict.set("next", following)

    def _step_some(self, tensordict: Any, partial: Any) -> Any:
        """Step the rows where `partial` is True, of a TensorDict of any batch size."""
        mask = partial.reshape(tensordict.batch_size)
        if mask.all():
            return self.step(tensordict)
        rows = self.step(tensordict[mask])
        unmoved = self._unmoved(tensordict)
        unmoved[mask] = rows.get("next").select(*unmoved.keys(True, True))
        return tensordict.set("next", unmoved)

    def _unmoved(self, tensordict: Any) -> Any:
        """The "next" of environments that do not step: entries of the TensorDict, and zeros for others.

        Zeros, too, for those that transforms around the environment gave another shape.
        """
        size = tensordict.batch_size[: tensordict.ndim - self.ndim]
        out = self.full_done_spec.zero(size)
        out.update(self.full_observation_spec.zero(size))
        out.update(self.full_reward_spec.zero(size))

        def kept(zero: Any, value: Any) -> Any:
            known = value is not None and (value.shape == zero.shape or self._has_dynamic_specs)
            return value.copy() if known else zero

        return out.apply(kept, tensordict, default=None, is_leaf=is_leaf_nontensor)

    def step_and_maybe_reset(self, tensordict: Any) -> tuple[TensorDict, TensorDict]:
        """Take a step, and reset environments that ended.

        Returns:
            The step, with its "next"; and the input of the next step.
        """
        tensordict = self.step(tensordict)
        return tensordict, self.maybe_reset(self.step_mdp(tensordict))

    def maybe_reset(self, tensordict: Any) -> TensorDict:
        """Reset environments that are done in a TensorDict of `step_mdp`; returns it."""
        if self.any_done(tensordict):
            return self.reset(tensordict, select_reset_only=True)
        return tensordict

    def any_done(self, tensordict: Any) -> bool:
        """Whether any environment is done; if so, a "_reset" entry with the mask is written."""
        names = self.done_states.names
        if "done" in names and "terminated" in names:
            done = tensordict.get("done", None)
            if done is None or not np.count_nonzero(done):  # a quarter of the time of any()
                return False
            tensordict.set("_reset", done.copy())
            return True
        return self.done_states.mark(tensordict, "_reset")

    def step_mdp(self, next_tensordict: Any) -> TensorDict:
        """The input of the next step, from the result of `step`; actions are kept."""
        advance = self.__dict__["_cache"].get("step_mdp")
        if advance is None:
            kinds = ("observation", "state", "action", "done", "reward")
            keys = [getattr(self, f"full_{kind}_spec")._leaf_keys() for kind in kinds]
            advance = self._cached("step_mdp", lambda: StepMDP(*keys, exclude_action=False))
        return advance(next_tensordict)

    @property
    def done_states(self) -> DoneStates:
        """The done entries of `full_done_spec`, cached."""
        found = self.__dict__.get("_cache", {}).get("done_states")
        if found is None:
            found = self._cached("done_states", lambda: DoneStates.of_spec(self.full_done_spec))
        return found

    # -- random actions -------------------------------------------------------------------------

    def rand_action(self, tensordict: Any = None) -> TensorDict:
        """Draw actions from their specs, with `generator`.

        Args:
            tensordict: receives the actions, and is returned; None for a new TensorDict.

        Raises:
            RuntimeError: `tensordict` has another batch size than the environment.
        """
        shape: tuple[int, ...] = ()
        if not self.batch_locked and tensordict is not None:
            if not self.batch_size:
                shape = tensordict.batch_size
            else:
                self._check_batch(tensordict)
        specs = self._cached("action_specs", lambda: self.full_action_spec._drawn_alone())
        if tensordict is None or shape or not specs:
            drawn = self.full_action_spec.rand(shape, rng=self.generator)
            return drawn if tensordict is None else tensordict.update(drawn)
        for key, spec in specs:
            tensordict.set(key, spec.rand(rng=self.generator))
        return tensordict

    def rand_step(self, tensordict: Any = None) -> TensorDict:
        """Take a step with actions drawn at random; see `step`."""
        return self.step(self.rand_action(tensordict))

    # -- many steps -----------------------------------------------------------------------------

    def rollout(
        self,
        max_steps: int,
        policy: Policy | None = None,
        callback: Callable[[Any, Any], Any] | None = None,
        *,
        actions: Iterable[Any] | None = None,
        auto_reset: bool = True,
        auto_cast_to_device: bool = False,
        break_when_any_done: bool | None = None,
        break_when_all_done: bool | None = None,
        return_contiguous: bool | None = False,
        tensordict: Any = None,
        set_truncated: bool = False,
        out: Any = None,
        trust_policy: bool = False,
        storing_device: Any = None,
        set_state: bool | None = None,
    ) -> TensorDict:
        """Take many steps, and stack them along a last batch dimension, which is named "time".

        Args:
            max_steps: the largest number of steps.
            policy: takes a TensorDict, and returns one with the actions, or takes the observations as
                arguments and returns the actions; None draws actions. Distributions give their mode, unless
                it is called inside `set_exploration_type("random")`.
            callback: called with the environment and each step's TensorDict.
            actions: the actions of the steps, instead of a policy; a list bounds `max_steps`.
            auto_reset: reset the environment first; if False, `tensordict` is where the steps start.
            auto_cast_to_device: without effect.
            break_when_any_done: stop as soon as an environment is done; the default unless
                `break_when_all_done`. If False, environments that are done are reset.
            break_when_all_done: stop when all are done; those that ended before repeat their last step.
            return_contiguous: stack dense arrays; False also allows steps of different shapes, in a lazy
                stack. None decides by the specs.
            tensordict: the argument of the reset, or the start.
            set_truncated: mark the last step as truncated and done.
            out: a TensorDict that receives the result.
            trust_policy: call the policy without looking at its signature.
            storing_device: without effect.
            set_state: as for `reset`.

        Returns:
            A TensorDict of batch size (*batch_size, steps).

        Raises:
            TypeError: both kinds of break.
            ValueError: both `policy` and `actions`.
            RuntimeError: neither `auto_reset` nor `tensordict`; no "truncated" entry for `set_truncated`.
        """
        steps = integer("max_steps", max_steps)
        if break_when_any_done is None:
            break_when_any_done = not break_when_all_done
        if break_when_all_done and break_when_any_done:
            raise TypeError("break_when_any_done and break_when_all_done cannot both be True.")
        if actions is not None:
            if policy is not None:
                raise ValueError("give policy or actions, not both.")
            if isinstance(actions, Sized):
                steps = min(steps, len(actions))
            policy = given_actions(actions, self.action_keys[0])
        elif policy is None:
            policy = self.rand_action
        elif not trust_policy:
            policy = compatible_policy(policy, self.observation_spec, self.action_keys)
        if auto_reset:
            tensordict = self.reset(tensordict, set_state=set_state)
        elif tensordict is None:
            raise RuntimeError("tensordict must be given where auto_reset is False.")
        else:
            tensordict = self.maybe_reset(tensordict)
        lead = tensordict.ndim
        stop = bool(break_when_any_done or break_when_all_done)
        made: Any = None
        if callback is None and out is None:
            plain = actions is not None or policy == self.rand_action
            made = self._recorded(tensordict, actions, None if plain else policy, steps, stop)
        if isinstance(made, list):
            made = resumed(self, made, policy, steps, stop)
        elif made is not None:
            if set_truncated:
                truncate_last(made, self.done_keys)
            return made.refine_names(..., "time")
        elif stop:
            made = until_done(self, tensordict, policy, steps, callback, bool(break_when_all_done))
        else:
            made = nonstop(self, tensordict, policy, steps, callback)
        if return_contiguous is None:
            return_contiguous = not self._has_dynamic_specs
        joined = (stack if return_contiguous else maybe_dense_stack)(made, lead, out=out)
        if set_truncated:
            truncate_last(joined, self.done_keys)
        return joined.refine_names(..., "time")

    def _recorded(self, tensordict: Any, actions: Any, policy: Any, max_steps: int, stop: bool) -> Any:
        """A rollout by a faster method of a subclass; None without one, and a list if it stopped: see
        `acted`.

        Args:
            tensordict: the input of the first step.
            actions: the actions; None for those of the policy, or random ones without a policy.
            policy: the policy, or None.
            max_steps: the largest number of steps.
            stop: end with the first episode.
        """
        return None

    def fake_tensordict(self) -> TensorDict:
        """A TensorDict of zeros with the keys, shapes and dtypes of a step of a rollout."""
        observed = self.observation_spec.zero()
        following = observed.clone().update(self.full_reward_spec.zero()).update(self.full_done_spec.zero())
        # Observations first, as nodes of the others may lack batch dimensions that theirs have.
        out = observed.update(self.full_done_spec.zero()).update(self.full_action_spec.zero())
        out.update(self.state_spec.zero().exclude(*observed.keys(True, True)))
        out.update({"next": following})
        return out

    def check_env_specs(self, *args: Any, **kwargs: Any) -> None:
        """See `lite.envs.check_env_specs`."""
        check_env_specs(self, *args, **kwargs)

    # -- seeds and the end ----------------------------------------------------------------------

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment and its random actions.

        Args:
            seed: the seed.
            static_seed: return the same seed.

        Returns:
            The seed for another environment.
        """
        self._set_seed(seed)
        self.generator = np.random.default_rng(seed)
        return seed if seed is None or static_seed else next_seed(seed)

    def register_collector(self, collector: Any) -> None:
        """Called by a collector that steps the environment."""
        self._collector = weakref.ref(collector)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_collector"}

    @property
    def collector(self) -> Any:
        """The collector that steps the environment, if there is one."""
        return None if self._collector is None else self._collector()

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environment."""
        self.is_closed = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_size={self.batch_size})"

    # -- inside ---------------------------------------------------------------------------------

    def _check_batch(self, tensordict: Any) -> None:
        if not isinstance(tensordict, TensorDictBase):
            raise TypeError(
                f"tensordict must be a TensorDict with the entries {self.action_keys} of actions, "
                f"got {type(tensordict).__name__}."
            )
        size = self.batch_size
        if tensordict.batch_size != size and (size or self.batch_locked):
            raise RuntimeError(
                f"the TensorDict must have the environment's batch size, {size}, got {tensordict.batch_size}."
            )

    def _step_proc_data(self, following: Any) -> Any:
        """The result of `_step` with rewards of their specs' shapes and all done entries."""
        shapes = self.__dict__["_cache"].get("reward_shapes")
        if shapes is None:
            specs = self.full_reward_spec
            shapes = self._cached("reward_shapes", lambda: [(k, specs[k].shape) for k in self.reward_keys])
        if not isinstance(following, TensorDictBase):
            raise RuntimeError(f"_step and transforms must give TensorDicts, got {type(following).__name__}.")
        states = self.done_states
        lead = following.batch_size[: following.ndim - states.ndim]
        for key, shape in shapes:
            reward = following.get(key, None)
            if reward is None:
                raise KeyError(f"_step gave no reward {key!r}, but {list(following.keys(True, True))}.")
            wanted = (*lead, *shape) if lead else shape
            if reward.shape != wanted and -1 not in wanted:
                following.set(key, reward.reshape(wanted))
        states.complete(following)
        if self.run_type_checks:
            self._check_types(following)
        return following

    def _check_types(self, following: Any) -> None:
        for specs in (self.full_observation_spec, self.full_reward_spec, self.full_done_spec):
            for key, spec in specs.items(True, True):
                found = following.get(key, as_list=True)
                for value in found if isinstance(found, list) else [found]:
                    if spec.dtype is not None and value.dtype != spec.dtype:
                        raise TypeError(f"{key!r} must have dtype {spec.dtype}, got {value.dtype}.")

    def _reset_all(self, given: Any, **kwargs: Any) -> Any:
        """What `_reset` makes, with all done entries."""
        made = self._reset(given, **kwargs)
        if made is given and made is not None:
            raise RuntimeError(
                "_reset must return a new TensorDict, such as tensordict.empty() and what it adds."
            )
        if not isinstance(made, TensorDictBase):
            raise RuntimeError(f"_reset and transforms must give TensorDicts, got {type(made).__name__}.")
        if self.batch_locked and made.batch_size != self.batch_size:
            raise RuntimeError(
                f"_reset must return rows of all environments, batch size {self.batch_size}, those that "
                f"'_reset' leaves out too, which are not looked at; got batch size {made.batch_size}."
            )
        self.done_states.complete(made)
        return made

    def _reset_proc_data(self, tensordict: Any, made: Any) -> Any:
        self._check_not_done(tensordict, made)
        return made if tensordict is None else update_where_reset(tensordict, made, self.reset_keys)

    def _check_not_done(self, tensordict: Any, made: Any) -> None:
        """Raise if an environment is done after its reset; keep the done entries of others."""
        if not self.done_states.any(made):
            return
        covered: list[tuple[str, ...]] = []
        for reset_key, done_keys in zip(self.reset_keys, self.done_keys_groups, strict=True):
            root = reset_key[:-1] if isinstance(reset_key, tuple) else ()
            if any(root[: len(above)] == above for above in covered):
                continue
            covered.append(root)
            mask = None if tensordict is None else tensordict.get(reset_key, None)
            for key in done_keys:
                done = made.get(key)
                if (done if mask is None else done[mask]).any() and not self._allow_done_after_reset:
                    raise RuntimeError(f"the environment is done ({key!r}) right after its reset.")
                if mask is not None and key not in tensordict:
                    tensordict.set(key, done)

    @property
    def _has_dynamic_specs(self) -> bool:
        return any(isinstance(spec, Stacked) or -1 in spec.shape for spec in self.specs.values(True))


belong_to("lite.envs", EnvBase)


class Listed:
    """An attribute of a class, which a function finds when it is read."""

    def __init__(self, find: Callable[[], list[str]]) -> None:
        self.find = find

    def __get__(self, env: Any, owner: type) -> list[str]:
        return self.find()


class EnvWrapper(EnvBase):
    """An environment of another interface, `_env`, whose attributes are attributes of this one, too."""

    _env: Any

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            env = self.__dict__.get("_env")
            if env is None or name.startswith("_"):
                raise
            return getattr(env, name)


def next_seed(seed: int) -> int:
    """The seed that follows another one in TorchRL's sequence.

    Source:
        torchrl.envs.EnvBase.set_seed.
    """
    return int.from_bytes(np.random.default_rng(seed).bytes(8), "big") % (2**32 - 1)
