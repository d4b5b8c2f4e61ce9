"""`Collector`: environments and a policy, seen as an iterator over batches of transitions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, Unpack

import numpy as np

from lite import TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._tree.keys import require_path
from lite.data.collectors.added_transforms import warn_of_lost_states, with_counter, with_primers
from lite.data.collectors.backends import SELECTORS, collector_elsewhere
from lite.data.collectors.background import BackgroundCollector
from lite.data.collectors.env_rollout import EnvFace, EnvRollout, environments_of
from lite.data.collectors.progress import require_total
from lite.data.collectors.rollout import Rollout
from lite.data.collectors.torch_arguments import TorchArguments, check_torch_arguments
from lite.data.collectors.weights import learnt_weights, only_source, weights_of
from lite.data.collectors.whole_trajectories import WholeTrajectories, assembler
from lite.data.trajectories.split_trajectories import split_trajectories
from lite.envs.base import EnvBase
from lite.envs.environments import EnvError
from lite.envs.rollouts import truncate_last, truncated_roots
from lite.envs.transforms.step_transforms import StepTransform
from lite.kernels._integer import integer
from lite.nn import InteractionType, Module, TensorDictModule, set_interaction_type
from lite.nn.policies.exploration import RandomPolicy
from lite.specs.base import TensorSpec
from lite.specs.composite import Composite


class Collector(BackgroundCollector):
    """Steps environments with a policy, and yields TensorDicts of shape (environments, time).

    The guide `collectors.md` lists the entries of a batch, and says what happens at the ends of episodes and
    when an environment fails. A batch shares memory with the next but one, unless `copy=True`.

    Args:
        create_env_fn, create_env_kwargs: an `EnvBase`, gymnasium's `Env` or `VectorEnv`, or what makes one.
        policy, policy_factory: a TensorDictModule, a callable of TensorDicts of shape (environments,), or ()
            for an `Env` alone, or a `Module` of observations; or what makes it. None: a `RandomPolicy`.
        backend, sync: "process" gives a `MultiAsyncCollector`, or with `sync` a `MultiSyncCollector`; "ray" a
            `RayCollector`.
        backend_options, num_collectors: more arguments of that collector; how many it has.
        auto_register_policy_transforms: add the transforms that a recurrent policy needs; None warns if an
            `EnvBase` lacks the states.
        frames_per_batch, total_frames: frames of all environments together; -1 for no end.
        progress: draw a bar on stderr.
        max_frames_per_traj: truncate episodes after so many steps.
        set_truncated: truncate them at the end of a batch.
        init_random_frames: how many frames a `RandomPolicy` makes first.
        exploration_type: the interaction type of the policy.
        reset_at_each_iter: start each batch with new episodes.
        transforms: such as `StepCounter`.
        split_trajs: call `split_trajectories` with each batch.
        postproc: called with each batch then, such as `MultiStep`.
        track_traj_ids, track_policy_version: write ("collector", "traj_ids"), and "policy_version".
        trajs_per_batch, traj_format: give so many whole trajectories, "padded" with ("collector", "mask"), or
            "cat" for [steps]. What is left at the end is dropped.
        replay_buffer, trajs_per_write: anything with `extend`, which gets the batches; None is yielded then.
        pre_collect_hook, post_collect_hook: called before each batch; called with it.
        seed: see `set_seed`.
        copy: give each batch memory of its own.
        timeout: seconds for a step or a reset; None for any.
        allow_nan: let NaN pass in numbers.
        device, compile_policy, trust_policy and the like: for TorchRL's signature; None, False or "cpu".

    Raises:
        ImportError, TypeError: no gymnasium; no environment or policy, or an unsupported space.
        ValueError: a number out of range, equal names of entries, `max_frames_per_traj` and a `StepCounter`.
        EnvError: while iterating, an environment failed. It has the frames up to there.

    Source:
        torchrl.collectors.Collector; gymnasium's vector environments.

    Example:
        >>> import gymnasium
        >>> from lite.data import Collector
        >>> [td.shape for td in Collector(gymnasium.make("CartPole-v1"), frames_per_batch=5, total_frames=10)]
        [(5,), (5,)]
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if cls is Collector:
            elsewhere = collector_elsewhere(args, kwargs)
            if elsewhere is not None:
                return elsewhere
        elif any(kwargs.get(name) is not None for name in SELECTORS):
            raise TypeError(f"{', '.join(SELECTORS)} are arguments of Collector itself.")
        return super().__new__(cls)

    def __init__(
        self,
        create_env_fn: Any,
        policy: Callable[[Any], Any] | None = None,
        *,
        backend: Literal["direct", "process", "ray"] | None = None,
        backend_options: Mapping[str, Any] | None = None,
        num_collectors: int | None = None,
        sync: bool | None = None,
        auto_register_policy_transforms: bool | None = None,
        policy_factory: Callable[[], Callable[[Any], Any]] | None = None,
        frames_per_batch: int,
        total_frames: int = -1,
        create_env_kwargs: Mapping[str, Any] | None = None,
        max_frames_per_traj: int | None = None,
        init_random_frames: int | None = None,
        reset_at_each_iter: bool = False,
        postproc: Callable[[TensorDictBase], Any] | None = None,
        split_trajs: bool = False,
        track_traj_ids: bool = True,
        exploration_type: InteractionType | str | None = InteractionType.RANDOM,
        set_truncated: bool = False,
        replay_buffer: Any = None,
        track_policy_version: bool = False,
        pre_collect_hook: Callable[[], object] | None = None,
        post_collect_hook: Callable[[Any], object] | None = None,
        trajs_per_batch: int | None = None,
        trajs_per_write: int | None = None,
        traj_format: Literal["padded", "cat"] | None = None,
        transforms: Sequence[StepTransform] = (),
        seed: int | None = None,
        copy: bool = False,
        timeout: float | None = None,
        allow_nan: bool = False,
        progress: bool = False,
        **torch_arguments: Unpack[TorchArguments],
    ) -> None:
        check_torch_arguments(torch_arguments)
        if policy_factory is not None:
            if policy is not None:
                raise TypeError("give policy or policy_factory, not both.")
            policy = policy_factory()
        self._frames = 0
        self._iter = 0
        self._turn = 0
        self._probed = False
        self.policy_version = 0
        self.closed = False
        self.partial_batch: TensorDict | None = None
        self._env_state: Any = None
        frames = integer("frames_per_batch", frames_per_batch, least=1)
        self.total_frames = max(-1, integer("total_frames", -1 if total_frames is None else total_frames))
        self.init_random_frames = max(0, integer("init_random_frames", init_random_frames or 0))
        self.max_frames_per_traj = max(0, integer("max_frames_per_traj", max_frames_per_traj or 0))
        self.reset_at_each_iter = reset_at_each_iter
        self.postproc = postproc
        self.split_trajs = split_trajs
        self.exploration_type = exploration_type
        self.set_truncated = set_truncated
        self.replay_buffer = replay_buffer
        self.track_policy_version = track_policy_version
        self.pre_collect_hook = pre_collect_hook
        self.post_collect_hook = post_collect_hook
        self.trajs_per_batch, self.trajs_per_write = trajs_per_batch, trajs_per_write
        self.traj_format = traj_format
        splittable = track_traj_ids and not split_trajs
        self._whole = assembler(trajs_per_batch, trajs_per_write, traj_format, splittable)
        self.copy = self._whole is None and (copy or replay_buffer is not None)
        self.progress = require_total(progress, self.total_frames)

        if isinstance(create_env_fn, Sequence) and not isinstance(create_env_fn, str):
            if len(create_env_fn) != 1:
                raise ValueError(f"create_env_fn must be one environment, got {len(create_env_fn)}.")
            create_env_fn = create_env_fn[0]
        self.env = create_env_fn
        if isinstance(create_env_fn, type) or not hasattr(create_env_fn, "step"):
            if not callable(create_env_fn):
                raise TypeError(
                    f"create_env_fn must be an environment or make one, got {type(create_env_fn).__name__}; "
                    "gymnasium.make_vec(name, num_envs=1) makes one by its name."
                )
            self.env = create_env_fn(**(create_env_kwargs or {}))
        if auto_register_policy_transforms:
            transforms = with_primers(transforms, self.env, policy)
        elif auto_register_policy_transforms is None and isinstance(self.env, EnvBase):
            warn_of_lost_states(transforms, self.env, policy)
        if not isinstance(self.env, EnvBase) or transforms or self.max_frames_per_traj:
            transforms = with_counter(transforms, self.max_frames_per_traj)
        self._environments = environments_of(self.env, timeout)
        self.frames_per_batch = -(-frames // self._environments.count)
        self.requested_frames_per_batch = self.frames_per_batch * self._environments.count
        if any(getattr(t, "max_steps", None) for t in transforms) and not self._environments.resets_some:
            raise ValueError(
                "max_frames_per_traj needs environments that restart one by one when asked; "
                f"{self.env} resets them by itself only."
            )
        self._rollout: Any = (
            EnvRollout(self.env, transforms, self.frames_per_batch, traj_ids=track_traj_ids)
            if isinstance(self._environments, EnvFace)
            else Rollout(
                self._environments,
                transforms,
                self.frames_per_batch,
                traj_ids=track_traj_ids,
                allow_nan=allow_nan or isinstance(self.env, EnvBase),
            )
        )
        if set_truncated:
            truncated_roots(self._rollout.done_keys)  # raises before the first step
        self._random = RandomPolicy(self._environments.action.spec(self._environments.batch))
        self.policy = self._policy_of(policy)
        self._initialize_policy()
        if seed is not None:
            self.set_seed(seed)
        self._register()

    def _register(self) -> None:
        """Tell the policy and the environment which collector steps them."""
        for part in (self.policy, self.env):
            if hasattr(part, "register_collector"):
                part.register_collector(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._register()

    def _initialize_policy(self) -> None:
        """Give parameters without data their shapes, so that losses and optimisers can take the policy."""
        policy = self.policy
        if not isinstance(policy, Module):
            return
        if any(getattr(part, "has_uninitialized_params", bool)() for part in policy.modules()):
            batch = self._environments.batch
            first = self._environments.observation.spec(batch).zero()
            with set_interaction_type(self.exploration_type):
                policy(self.env.fake_tensordict() if isinstance(self.env, EnvBase) else first)

    # -- iterating ------------------------------------------------------------------------------

    def _mean_reward(self) -> float | None:
        return self._rollout.statistics.summary().get("episode_reward_mean")

    def _each(self) -> Iterator[Any]:
        while self._is_left():
            data = self._next()
            if data is not None or self.replay_buffer is not None:  # there may be no whole one left
                yield data

    def next(self) -> Any:
        """The next batch; None when there are no more."""
        return self._next() if self._is_left() else None

    def rollout(self) -> TensorDict:
        """Collect a batch, without `postproc`, hooks, or counting its frames."""
        if self.closed:
            raise RuntimeError("the collector was shut down.")
        self.partial_batch = None
        rollout, turn = self._rollout, self._turn
        if self.reset_at_each_iter:
            rollout.stale = True
        random = self._frames < self.init_random_frames
        policy = self._acting(self._random if random else self.policy)
        try:
            with set_interaction_type(self.exploration_type):
                if random and not self._probed and self.policy is not self._random:
                    rollout.probe(self._acting(self.policy))
                    self._probed = True
                data = rollout.run(policy, turn, only_actions=random)
        except BaseException as error:
            if rollout.filled:
                self.partial_batch = rollout.batch(turn)
                if isinstance(error, EnvError):
                    self.partial_batch = error.frames
            raise
        if not self.copy:
            self._turn = 1 - turn
        if self.set_truncated:
            truncate_last(data, rollout.done_keys)
        if self.track_policy_version:
            data.set("policy_version", np.full(data.shape, self.policy_version, np.int64))
        return data

    def reset(self) -> None:
        """Start new episodes before the next batch; those that run are left where they are."""
        self._rollout.stale = True

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Seed the environments, which start new episodes, and random actions, those of a `RandomPolicy` too.

        Args:
            seed: seed of the first environment; each of the others has the next one.
            static_seed: all have the same.

        Returns:
            The seed of the last environment; of an `EnvBase` what its `set_seed` returns.
        """
        first = integer("seed", seed, least=0)
        count = self._environments.count
        self._seed, self._rollout.stale = first, True
        self._random.generator = np.random.default_rng(first)
        if isinstance(self.policy, RandomPolicy):
            self.policy.generator = self._random.generator
        if isinstance(self.env, EnvBase):
            return int(self.env.set_seed(first, static_seed) or 0)
        # Vectors that step as one take no list.
        self._rollout.seed = [first] * count if static_seed else first
        return first if static_seed else first + count - 1

    _seed: int | None = None

    # -- specs ----------------------------------------------------------------------------------

    @property
    def observation_spec(self) -> Composite:
        """The specs of observations by key, batch included."""
        return self._environments.observation.spec(self._environments.batch)

    @property
    def action_spec(self) -> TensorSpec:
        """The spec of `"action"`, batch included; a `Composite` where the space is a Dict or Tuple."""
        if isinstance(self.env, EnvBase):
            return self.env.action_spec
        return self._environments.action.spec(self._environments.batch)["action"]

    # -- the policy -----------------------------------------------------------------------------

    def update_policy_weights_(
        self, policy_or_weights: Any = None, *, weights: Any = None, policy: Any = None
    ) -> None:
        """Copy weights into the policy, and count one version more.

        Args:
            policy_or_weights: a `Module` of the policy's structure, or its parameters, as a TensorDict like
                that of `TensorDict.from_module` or a dict; None where the policy's own arrays were changed.
                Of an `OnnxWrapper` a policy that learns (`trainable`), or its `learnt_weights`.
            weights: parameters, in its place.
            policy: a module, in its place.

        Raises:
            ValueError: more than one is given.
            TypeError: the policy has no parameters, or something else is given.
            KeyError, ValueError: weights are missing, or others, or have other shapes; nothing is written.
        """
        source = only_source(policy_or_weights, weights, policy)
        other = source is not None and source is not self.policy
        if other and hasattr(self.policy, "update_weights_"):
            self.policy.update_weights_(learnt_weights(source))
        elif other:
            if not isinstance(self.policy, Module):
                raise TypeError(
                    f"the policy must be a Module to take weights, got {type(self.policy).__name__}."
                )
            target: Module = self.policy
            given = weights_of(source)
            if type(target) is TensorDictModule and "module" not in given:
                target = target.module  # a policy that was given without keys
            TensorDict.from_module(target).data.update_(weights_of(given, target))
        self.policy_version += 1

    def _policy_of(self, policy: Any) -> Callable[[Any], Any]:
        if policy is None:
            return self._random
        if isinstance(policy, RandomPolicy) and policy.action_spec is None:
            policy.action_spec = self._random.action_spec
        if not callable(policy):
            raise TypeError(f"policy must be callable or None, got {type(policy).__name__}.")
        if isinstance(policy, Module) and not hasattr(policy, "in_keys"):
            return TensorDictModule(policy, in_keys=["observation"], out_keys=["action"])
        return policy

    # -- statistics and state -------------------------------------------------------------------

    def stats(self) -> dict[str, int | float | bool]:
        """How far the collector is, and how the last 100 episodes went.

        Returns:
            `frames` and `batches` so far, `requested_frames_per_batch`, `policy_version`, `episodes` that
            ended; once there are some, `episode_reward_mean` and `episode_length_mean` of the last 100; with
            a last frame, `total_frames` and `completed`.
        """
        return self._counts(batches=self._iter) | self._rollout.statistics.summary()

    def state_dict(self) -> dict[str, Any]:
        """The state from which another collector can continue: numbers, containers, the policy's arrays.

        What transforms of an `EnvBase` keep is in it, as the statistics of a `VecNorm`, unless an error or
        `shutdown` ended the processes that have it. Episodes are not: after `load_state_dict` new ones start,
        with ids that go on, and where `seed` was given with seeds that follow from it and from the number of
        frames. Save it before its batch is stored: so no id is given twice, whenever the process is killed.
        """
        state: dict[str, Any] = {
            "frames": self._frames,
            "iter": self._iter,
            "seed": self._seed,
            "steps": self._rollout.steps,
            "traj_ids": self._rollout.next_traj,
            "policy_version": self.policy_version,
            "statistics": self._rollout.statistics.state_dict(),
            "random": self._random.generator.bit_generator.state,
        }
        if isinstance(self.policy, Module):
            state["policy_state_dict"] = self.policy.state_dict()
        if isinstance(self.env, EnvBase):
            with contextlib.suppress(RuntimeError):  # of processes that have ended
                state["env_state_dict"] = self._env_state or self._state_of_env()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *, strict: bool = True) -> None:
        """Restore a state of `state_dict`.

        Args:
            state_dict: a result of `state_dict`.
            strict: raise where names differ.

        Raises:
            KeyError: something is missing.
            RuntimeError: the policy or the environment does not take its part.
        """
        state = {name: state_dict[name] for name in self._needed}
        if isinstance(self.policy, Module) and (strict or "policy_state_dict" in state_dict):
            self.policy.load_state_dict(state_dict["policy_state_dict"], strict=strict)
        if isinstance(self.env, EnvBase) and state_dict.get("env_state_dict") is not None:
            self.env.load_state_dict(state_dict["env_state_dict"], strict=strict)
        self._random.generator.bit_generator.state = state["random"]
        self._rollout.statistics.load_state_dict(state["statistics"])
        self._rollout.steps = int(state["steps"])
        self._rollout.next_traj = int(state["traj_ids"])
        self._rollout.stale = True
        self._frames, self._iter = int(state["frames"]), int(state["iter"])
        self.policy_version = int(state["policy_version"])
        self._seed = None if state["seed"] is None else int(state["seed"])
        if self._seed is not None:
            drawn = np.random.SeedSequence([self._seed, self._frames]).generate_state(1)
            self._rollout.seed = int(drawn[0]) >> 1

    _needed = ("frames", "iter", "seed", "steps", "traj_ids", "policy_version", "statistics", "random")

    # -- the end --------------------------------------------------------------------------------

    def shutdown(
        self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True
    ) -> None:
        """Close the environment; batches that were yielded stay good. Doing it again does nothing.

        Args:
            timeout: without effect here.
            close_env: leave the environment open if False.
            raise_on_error: let errors of closing pass.
        """
        if self.closed:
            return
        self.closed = True
        if not close_env:
            return
        try:
            self._environments.close()
        except Exception:
            if raise_on_error:
                raise

    def __exit__(self, kind: object, *error: object) -> None:
        self.shutdown(raise_on_error=kind is None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self.env}, policy={self.policy}, frames={self._frames})"

    # -- inside ---------------------------------------------------------------------------------

    def _is_left(self) -> bool:
        enough = self._whole is not None and len(self._whole) >= (self.trajs_per_batch or 1)
        return self._frames_left() or enough

    def _next(self) -> Any:
        if self._whole is not None:
            return self._next_whole(self._whole)
        return self._given(self._collected())

    def _collected(self) -> Any:
        """The next batch, as it is."""
        if self.pre_collect_hook is not None:
            self.pre_collect_hook()
        data: Any = self.rollout()
        self._frames += data.numel() - self._rollout.skipped
        self._iter += 1
        in_thread = threading.current_thread() is self._thread
        # Processes end now, or answer to this thread alone.
        self._env_state = self._state_of_env() if in_thread or not self._frames_left() else None
        if not self._frames_left():
            self.shutdown()
        return data

    def _state_of_env(self) -> Any:
        return self.env.state_dict() if isinstance(self.env, EnvBase) else None

    def _before_start(self) -> None:
        super()._before_start()
        self._env_state = self._state_of_env()

    def _next_whole(self, whole: WholeTrajectories) -> Any:
        """Whole trajectories; None where a buffer gets them, and when there are not enough."""
        most = self.trajs_per_batch or 1
        while self._frames_left() and (self.replay_buffer is not None or len(whole) < most):
            if self.reset_at_each_iter or self._rollout.stale:
                whole.forget()
            whole.add(self._collected())
            if self.replay_buffer is not None:
                break
        if self.replay_buffer is None:
            return self._given(whole.take(most, self.traj_format != "cat")) if len(whole) >= most else None
        while len(whole):
            self._given(whole.take(self.trajs_per_write or len(whole), False))
        return None

    def _given(self, data: Any) -> Any:
        """A batch after all requested transforms; None if it was written to the replay buffer."""
        if self.split_trajs:
            data = split_trajectories(data, prefix="collector")
            if self._environments.skips:  # a step that only restarts is not a trajectory
                data = data[data["collector", "traj_ids"][:, 0] >= 0]
        elif self.copy:
            data = data.clone()
        if self.postproc is not None:
            data = self.postproc(data)
        if isinstance(data, TensorDictBase):
            private = [key for key in data.keys(True) if any(x.startswith("_") for x in require_path(key))]
            data = data.exclude(*private) if private else data  # which the policy still finds in its own
        if self.post_collect_hook is not None:
            self.post_collect_hook(data)
        return self._stored(data)


Collector.__new__.__wrapped__ = Collector.__init__  # type: ignore[attr-defined]  # whose arguments it has
belong_to("lite.data", Collector)
