"""`Evaluator`: whole episodes of a policy while it learns, in this thread, in another one or in a process."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite.data.collectors.collector import Collector
from lite.data.collectors.evaluator_process import EvaluatorProcess
from lite.envs.env_worker import packed
from lite.envs.transforms.transformed_env import TransformedEnv
from lite.envs.transforms.vec_norm import VecNorm, VecNormV2
from lite.kernels._integer import integer
from lite.nn import InteractionType, Module

Weights = TensorDictBase | Module | None
_POLICIES = ("skip", "error", "queue")


class Evaluator:
    """Runs a policy for whole episodes, and gives the mean and deviation of their rewards.

    `evaluate` does so at once; `trigger_eval` in a thread, whose result `poll` or `wait` gives. With the
    backend "process" both run in a process of their own, which has its own environment and policy. The
    environment is not the one that is trained in. A policy that is evaluated in a thread while it learns
    should be a copy, which the weights are given to. Videos of a `VideoRecorder` in the environment are
    written at the end.

    Args:
        env: an environment, or a function that makes one; the running statistics of its `VecNorm` are frozen
            then. Any that `Collector` takes.
        policy, policy_factory: the policy, or what makes it from the environment.
        num_trajectories: how many episodes; of several environments those that end first.
        max_steps: after how many steps episodes are truncated; None for never.
        frames_per_batch: how many frames are stepped at a time; `max_steps`, or 1000, if None.
        collector_kwargs, log_prefix: more for the `Collector`; the start of the names of results.
        reward_keys: the reward, which is summed unless there is ("next", "episode_reward"), as `RewardSum`
            writes it; of agents, such as ("next", "agents", "reward"), it is that of all of them.
        done_keys: TorchRL's, without effect: episodes end where "done" says so.
        exploration_type: the interaction type of probabilistic policies.
        metrics_fn: gives more results by name, from all episodes, padded, with a mask ("collector", "mask").
        dump_video: call the environment's `transform.dump` at the end.
        on_result: gets each result, as a TensorDict; a warning says where it raises.
        busy_policy: whether `trigger_eval` during another one is to "skip", raise an "error", or "queue".
        backend: "thread" or "process". A process needs a function that makes the environment; what it gets
            must be picklable; it calls a `policy_factory` without arguments if that needs none.

    Raises:
        ValueError: another `busy_policy` or `backend`; both or none of policy and policy_factory; a process
            is given an environment.
        TypeError: something cannot be sent to the process.

    Source:
        torchrl.collectors.Evaluator.

    Example:
        >>> from lite.data import Evaluator
        >>> from lite.envs import GymEnv, RandomPolicy
        >>> env = GymEnv("CartPole-v1")
        >>> result = Evaluator(env, RandomPolicy(env.action_spec), num_trajectories=3).evaluate(step=7)
        >>> sorted(result)[:3], result["eval/num_episodes"]
        (['eval/episode_length', 'eval/fps', 'eval/num_episodes'], 3)
    """

    def __init__(
        self,
        env: Any,
        policy: Callable[[Any], Any] | None = None,
        *,
        policy_factory: Callable[[Any], Callable[[Any], Any]] | None = None,
        num_trajectories: int = 10,
        max_steps: int | None = None,
        frames_per_batch: int | None = None,
        collector_kwargs: Mapping[str, Any] | None = None,
        log_prefix: str = "eval",
        reward_keys: NestedKey = ("next", "reward"),
        done_keys: NestedKey = ("next", "done"),
        exploration_type: InteractionType | str | None = InteractionType.DETERMINISTIC,
        metrics_fn: Callable[[TensorDictBase], Mapping[str, float]] | None = None,
        dump_video: bool = True,
        on_result: Callable[[TensorDictBase], Any] | None = None,
        busy_policy: str = "skip",
        backend: Literal["thread", "process"] = "thread",
    ) -> None:
        if busy_policy not in _POLICIES:
            raise ValueError(f"busy_policy must be one of {_POLICIES}, got {busy_policy!r}.")
        if backend not in ("thread", "process"):
            raise ValueError(f"backend must be 'thread' or 'process', got {backend!r}.")
        if (policy is None) == (policy_factory is None):
            raise ValueError("give policy or policy_factory, and not both.")
        for name, given in (("policy", policy), ("policy_factory", policy_factory)):
            if given is not None and not callable(given):
                raise TypeError(f"{name} must be callable, got {type(given).__name__}.")
        self.num_trajectories = integer("num_trajectories", num_trajectories)
        self.max_steps = max_steps
        self.frames_per_batch = frames_per_batch or max_steps or 1000
        self.log_prefix, self.reward_keys = log_prefix, reward_keys
        self.metrics_fn, self.dump_video, self.on_result = metrics_fn, dump_video, on_result
        self.busy_policy = busy_policy
        self.env: Any = None
        self.policy: Any = policy
        self._make_env, self._make_policy = env, policy_factory
        self._options = {"exploration_type": exploration_type, **(collector_kwargs or {})}
        self._counter = 0
        self._running = threading.Lock()  # one evaluation at a time
        self._state = threading.Condition()
        self._requests: deque[tuple[Any, int]] = deque()
        self._results: deque[Any] = deque()  # results, or what was raised
        self._active = self._ended = False
        self._thread: threading.Thread | None = None
        self._made: bytes | None = None  # what the process makes
        self._process: EvaluatorProcess | None = None
        if backend == "process":
            if not _is_maker(env):
                raise ValueError(f"a process needs a function that makes env, got a {type(env).__name__}.")
            options = {
                "env": env,
                "policy": policy,
                "policy_factory": policy_factory,
                "num_trajectories": num_trajectories,
                "max_steps": max_steps,
                "frames_per_batch": frames_per_batch,
                "collector_kwargs": collector_kwargs,
                "log_prefix": log_prefix,
                "reward_keys": reward_keys,
                "exploration_type": exploration_type,
                "metrics_fn": metrics_fn,
                "dump_video": dump_video,
            }
            self._made = packed(Evaluator, options)

    # -- in this thread -------------------------------------------------------------------------

    def evaluate(
        self,
        weights: Weights = None,
        step: int | None = None,
        *,
        weights_dict: Mapping[str, TensorDictBase | Module] | None = None,
    ) -> dict[str, Any]:
        """Run whole episodes.

        Args:
            weights: the policy's new weights, a `Module` of its structure or its parameters as a TensorDict;
                None for those that it has.
            step: is a result, and that of videos; counted if None.
            weights_dict: weights by what takes them: "policy", or a place in the collector, such as
                "env.transform[0]".

        Returns:
            By `log_prefix`, "/" and their names: "reward", the mean, and "reward_std", its sample deviation,
            0 of one episode; "num_episodes"; "episode_length", the mean; "fps"; "step"; and those of
            `metrics_fn`.
        """
        result = self._run(_copied(weights, weights_dict), self._next_step(step))
        self._report(result)
        return result

    def every(
        self, frames: int, policy: Module | None = None, *, wait: bool = True
    ) -> Callable[[Any], dict[str, Any] | None]:
        """A function of batches that evaluates after each `frames` frames, as a `post_collect_hook`.

        Args:
            frames: how many frames lie between evaluations.
            policy: whose weights are taken; None for those that the evaluator's own has.
            wait: wait for the result, whatever the backend. If False it is `trigger_eval` that begins an
                evaluation, and `poll` that gives the result to a later call; `wait` gives the last one.

        Returns:
            a function that gives a result, or None where there is none yet. The step is the number of frames
            when the evaluation began.

        Example:
            >>> import numpy as np
            >>> from lite.data import Collector, Evaluator
            >>> from lite.envs import GymEnv
            >>> make = lambda: GymEnv("CartPole-v1")
            >>> evaluator = Evaluator(make, policy_factory=lambda env: env.rand_action, num_trajectories=2)
            >>> test = evaluator.every(40)
            >>> for batch in Collector(make(), frames_per_batch=20, total_frames=80):
            ...     result = test(batch)
            ...     print(None if result is None else result["eval/step"])
            None
            40
            None
            80
        """
        interval = integer("frames", frames, least=1)
        seen = 0

        def hook(batch: Any) -> dict[str, Any] | None:
            nonlocal seen
            before, seen = seen, seen + batch.numel()
            due = seen // interval > before // interval
            if wait:
                return self.evaluate(policy, seen) if due else None
            if due:
                self.trigger_eval(policy, seen)
            return self.poll()

        return hook

    # -- beside this thread ---------------------------------------------------------------------

    def trigger_eval(
        self,
        weights: Weights = None,
        step: int | None = None,
        *,
        weights_dict: Mapping[str, TensorDictBase | Module] | None = None,
    ) -> bool:
        """Run whole episodes in a thread, with a copy of the weights; see `evaluate`.

        Returns:
            False if another evaluation runs and `busy_policy` is "skip".

        Raises:
            RuntimeError: another one runs, and `busy_policy` is "error"; after `shutdown`.
        """
        request = (_copied(weights, weights_dict), self._next_step(step))
        with self._state:
            if self._ended:
                raise RuntimeError("the evaluator was shut down.")
            if self._active or self._requests:
                if self.busy_policy == "error":
                    raise RuntimeError("an evaluation runs already, and busy_policy is 'error'.")
                if self.busy_policy == "skip":
                    return False
            self._requests.append(request)
            self._state.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="evaluator", daemon=True)
                self._thread.start()
        return True

    def poll(self, timeout: float = 0) -> dict[str, Any] | None:
        """The oldest result of the thread that was not given yet; None if there is none in `timeout` seconds.

        Raises:
            Exception: what the evaluation raised.
        """
        return self._taken(max(timeout, 0))

    def wait(self, timeout: float | None = None) -> dict[str, Any] | None:
        """As `poll`, without a timeout if None; None at once where nothing runs."""
        return self._taken(timeout)

    @property
    def pending(self) -> bool:
        """Whether an evaluation runs in the thread, or is queued."""
        with self._state:
            return self._active or bool(self._requests)

    def shutdown(self, timeout: float = 5.0) -> None:
        """End the thread or process, after the evaluation that it runs, and close the environment."""
        with self._state:
            self._ended = True
            self._requests.clear()
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
        if self._process is not None:
            self._process.close(timeout)
            self._process = None
        if self.env is not None and not getattr(self.env, "is_closed", False):
            self.env.close()

    def _serve(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._requests or self._ended)
                if self._ended:
                    return
                weights, step = self._requests.popleft()
                self._active = True
            found: Any
            try:
                found = self._run(weights, step)
                self._report(found)
            except BaseException as error:
                found = error
            with self._state:
                self._active = False
                self._results.append(found)
                self._state.notify_all()

    def _taken(self, timeout: float | None) -> dict[str, Any] | None:
        with self._state:
            self._state.wait_for(
                lambda: self._results or self._ended or not (self._active or self._requests), timeout
            )
            if not self._results:
                return None
            found = self._results.popleft()
        if isinstance(found, BaseException):
            raise found
        return found

    # -- a run that goes on ---------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The number of evaluations without a step.

        Raises:
            RuntimeError: an evaluation runs, or results were not taken.
        """
        self._require_rest()
        return {"step_counter": self._counter}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state of `state_dict`; RuntimeError as there."""
        self._require_rest()
        self._counter = int(state_dict.get("step_counter", 0))

    def _require_rest(self) -> None:
        with self._state:
            if self._active or self._requests or self._results:
                raise RuntimeError("an evaluation runs, or its result was not taken: call wait() first.")

    # -- inside ---------------------------------------------------------------------------------

    @staticmethod
    def extract_weights(policy: Module) -> TensorDictBase:
        """A copy of the parameters and buffers of a policy."""
        return TensorDict.from_module(policy).data.clone()

    def _next_step(self, step: int | None) -> int:
        if step is None:
            self._counter += 1
            return self._counter - 1
        return step

    def _start(self) -> None:
        """Make the environment and the policy, the first time."""
        if self.env is None:
            env = self._make_env
            if _is_maker(env):
                env = env()
                for part in env.modules() if isinstance(env, Module) else ():
                    if isinstance(part, (VecNorm, VecNormV2)):
                        part.freeze()
            self.env = env
        if self.policy is None and self._make_policy is not None:
            self.policy = self._make_policy(self.env)

    def _run(self, weights: Mapping[str, TensorDictBase], step: int) -> dict[str, Any]:
        with self._running:
            if self._made is not None:
                if self._process is None or not self._process.process.is_alive():  # an interrupt ends it, too
                    self._process = EvaluatorProcess(self._made)
                return self._process.run(weights, step)
            self._start()
            counted = any(path[-1] == "step_count" for path in _paths(self.env))
            # A collector for each: what the last one stepped beyond its episodes had other weights.
            collector = Collector(
                self.env,
                self.policy,
                frames_per_batch=self.frames_per_batch,
                max_frames_per_traj=None if counted else self.max_steps,
                trajs_per_batch=self.num_trajectories,
                **self._options,
            )
            for name, values in weights.items():
                if name == "policy":
                    collector.update_policy_weights_(values)
                else:
                    TensorDict.from_module(_part(collector, name)).data.update_(values)
            training = isinstance(self.policy, Module) and self.policy.training
            if training:
                self.policy.eval()
            start = time.perf_counter()
            try:
                episodes = collector.next()
            finally:
                if training:
                    self.policy.train()
            result = self._metrics(episodes, time.perf_counter() - start)
            if self.dump_video and isinstance(self.env, TransformedEnv):
                self.env.transform.dump(step=step)
        return {**result, f"{self.log_prefix}/step": step}

    def _metrics(self, episodes: TensorDictBase, seconds: float) -> dict[str, Any]:
        mask = episodes["collector", "mask"]
        counts = mask.sum(-1)
        last = (np.arange(len(counts)), counts - 1)
        summed, reward = episodes.get(("next", "episode_reward"), None), episodes.get(self.reward_keys, None)
        if summed is not None:
            rewards = np.asarray(summed[last]).reshape(len(counts), -1).sum(-1)
        elif reward is not None:
            rewards = np.where(mask, np.asarray(reward).reshape(*mask.shape, -1).sum(-1), 0).sum(-1)
        else:
            found = sorted(map(str, episodes.get("next").keys(True, True)))
            raise KeyError(f"reward_keys must name the reward, got {self.reward_keys!r}; 'next' has {found}.")
        steps = episodes.get(("next", "step_count"), None)
        lengths = counts if steps is None else np.asarray(steps[last]).reshape(-1)
        prefix, frames = self.log_prefix, int(counts.sum())
        result = {
            f"{prefix}/reward": float(rewards.mean()),
            f"{prefix}/reward_std": float(rewards.std(ddof=1)) if len(rewards) > 1 else 0.0,
            f"{prefix}/num_episodes": len(rewards),
            f"{prefix}/episode_length": float(lengths.mean()),
            f"{prefix}/fps": frames / max(seconds, 1e-9),
        }
        if self.metrics_fn is not None:
            result |= {f"{prefix}/{name}": value for name, value in self.metrics_fn(episodes).items()}
        return result

    def _report(self, result: Mapping[str, Any]) -> None:
        if self.on_result is None:
            return
        try:
            self.on_result(TensorDict({name: np.asarray(value) for name, value in result.items()}, []))
        except Exception as error:
            warn(f"on_result raised {type(error).__name__}: {error}", RuntimeWarning)

    def __repr__(self) -> str:
        return f"Evaluator(env={self.env or self._make_env}, num_trajectories={self.num_trajectories})"


belong_to("lite.data", Evaluator)


def _copied(
    weights: Weights, by_name: Mapping[str, TensorDictBase | Module] | None
) -> dict[str, TensorDictBase]:
    """Weights by what takes them, as copies."""
    given: dict[str, Any] = dict(by_name or {})
    if weights is not None:
        given.setdefault("policy", weights)
    return {
        name: Evaluator.extract_weights(value) if isinstance(value, Module) else value.clone()
        for name, value in given.items()
    }


def _is_maker(env: Any) -> bool:
    """Whether it is a function that makes an environment, instead of an environment."""
    return isinstance(env, type) or not hasattr(env, "step")


def _paths(env: Any) -> list[tuple[str, ...]]:
    spec = getattr(env, "output_spec", None)
    if spec is None:
        return []
    return [key if isinstance(key, tuple) else (key,) for key in spec.keys(True, True)]


def _part(holder: Any, name: str) -> Module:
    """The object at a path such as "env.transform[0]"."""
    for attribute, index in re.findall(r"(\w+)|\[(-?\d+)\]", name):
        holder = getattr(holder, attribute) if attribute else holder[int(index)]
    if not isinstance(holder, Module):
        raise TypeError(f"{name!r} must be a Module to take weights, got {type(holder).__name__}.")
    return holder
