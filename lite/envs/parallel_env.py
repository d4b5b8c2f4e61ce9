"""`ParallelEnv`: environments in processes of their own."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lite import LazyStackedTensorDict, lazy_stack
from lite._arrays.public import belong_to
from lite._processes.piped import PipedProcess
from lite.envs.batched_env import BatchedEnvBase, SerialEnv
from lite.envs.env_worker import CLOSE, DONE, FAILED, READ, RESET, SEED, STEP, STEP_AND_RESET, packed, serve
from lite.envs.environments import EnvError


class ParallelEnv(BatchedEnvBase):
    """Environments that step at the same time, each in a process of its own.

    Entries are rows of arrays in memory that the processes share; results are copies of them. Where a process
    raises or ends, the next call raises an `EnvError` with its number, and the others end. All end with this
    process, whichever way that ends.

    Args:
        num_workers: number of environments.
        create_env_fn: makes one, in its process; or a function for each. They must be picklable; with
            cloudpickle lambdas are, too, and what a notebook defines.
        serial_for_single: make a `SerialEnv`, in this process, of one environment.
        others: as for `BatchedEnvBase`.

    Raises:
        ValueError: as for `SerialEnv`.
        TypeError: a function cannot be sent to a process, or there are objects among the entries.
        EnvError: an environment could not be made; or later, it failed or its process ended.

    Source:
        torchrl.envs.ParallelEnv.

    Example:
        >>> from functools import partial
        >>> from lite.envs import GymEnv, ParallelEnv
        >>> env = ParallelEnv(2, partial(GymEnv, "CartPole-v1"))
        >>> env.rollout(5, break_when_any_done=False).shape
        (2, 5)
        >>> env.close()
    """

    def __new__(cls, num_workers: int, create_env_fn: Any, **kwargs: Any) -> Self:
        single = num_workers == 1 and kwargs.get("serial_for_single")
        made: Any = SerialEnv(1, create_env_fn, **kwargs) if single else super().__new__(cls)
        return made

    def _begin(self) -> None:
        self._steps = 0
        self._failed = False
        self._workers: list[PipedProcess] = []
        made = [packed(make, keywords) for make, keywords in self._makers]
        try:
            for i, data in enumerate(made):
                worker = PipedProcess(serve, data, i, start_method=self._start_method, daemon=self._daemon)
                self._workers.append(worker)
            replies = [pickle.loads(reply) for reply in self._replies()]
            self._take_specs([specs for specs, _ in replies])
            self._share([fake for _, fake in replies])
            self._replies()
        except BaseException:
            self.close(raise_if_closed=False)
            raise

    def _share(self, fakes: list[Any]) -> None:
        """Make the arrays that the processes share, and send them."""
        for key, spec in self.specs.items(True, True):
            if spec.dtype is None:
                raise TypeError(f"ParallelEnv shares arrays only, got {type(spec).__name__} at {key!r}.")
        whole = self._join(fakes, 0)
        self._following = whole.pop("next").share_memory_()
        self._root = whole.share_memory_()
        for worker in self._workers:
            worker.connection.send((self._root, self._following))
        self._inputs = self.full_action_spec._leaf_keys() + self.full_state_spec._leaf_keys()
        self._kept = self.full_observation_spec._leaf_keys() + self.full_done_spec._leaf_keys()

    def _take_part(self, rows: list[int]) -> None:
        self._workers = [self._workers[i] for i in rows]
        self._root = lazy_stack([self._root[i] for i in rows])
        self._following = lazy_stack([self._following[i] for i in rows])

    # -- steps ----------------------------------------------------------------------------------

    def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
        each = kwargs.pop("list_of_kwargs", None)
        keys = self._filtered_reset_keys
        asked = self._asked(tensordict, *keys)
        masks = None if tensordict is None else tensordict.select(*keys, strict=False)
        for i in np.flatnonzero(asked).tolist():
            own = kwargs if each is None else {**kwargs, **each[i]}
            self._send(i, RESET + pickle.dumps((None if masks is None else masks[i], own)))
        self._replies(asked)
        return self._copied(self._root.select(*self._kept, strict=False))

    def _step(self, tensordict: Any) -> Any:
        asked = self._asked(tensordict, "_step")
        self._command(STEP, tensordict, asked)
        following = self._copied(self._following)
        if not asked.all():
            following = following.where(asked.reshape(-1, *[1] * (self.ndim - 1)), self._unmoved(tensordict))
        return following

    def step_and_maybe_reset(self, tensordict: Any) -> tuple[Any, Any]:
        """Take a step, and reset environments that ended; each does both at once.

        Returns:
            The step, with its "next"; and the TensorDict that the next step starts from.
        """
        if "_step" in tensordict:
            return super().step_and_maybe_reset(tensordict)
        self._check_batch(tensordict)
        self._command(STEP_AND_RESET, tensordict, np.ones(self.num_workers, np.bool_))
        stepped = self._with_next(tensordict, self._step_proc_data(self._copied(self._following)))
        after = self.step_mdp(stepped)
        if self.any_done(after):
            for key in self.reset_keys:
                after.pop(key, None)
            after.update(self._copied(self._root.select(*self._kept, strict=False)))
        return stepped, after

    def _copied(self, shared: Any) -> Any:
        made = shared.clone()
        return self._join(made.unbind(0), 0) if isinstance(made, LazyStackedTensorDict) else made

    def _command(self, command: bytes, tensordict: Any, asked: NDArray[np.bool_]) -> None:
        """Make environments step with the actions, states and "next" of a TensorDict.

        Their observations they know: here transforms may have given them other values, shapes and dtypes.
        """
        self._root.update_(tensordict.select(*self._inputs, strict=False))
        # "next" may have the states of a recurrent policy; "_step" names rows of a batch in a process.
        given = {key: tensordict.get(key) for key in ("next", "_step")[: self.ndim] if key in tensordict}
        for i in np.flatnonzero(asked).tolist():
            own = {key: value[i] for key, value in given.items()}
            self._send(i, command + pickle.dumps(own) if own else command)
        self._replies(asked)
        self._steps += 1

    def _seed_one(self, i: int, seed: int | None, static_seed: bool) -> int | None:
        self._send(i, SEED + pickle.dumps((seed, static_seed)))
        return pickle.loads(self._replies(np.arange(self.num_workers) == i)[0])

    def _of_each(self, name: str, arguments: list[Any]) -> list[Any]:
        for i, own in enumerate(arguments):
            self._send(i, READ + pickle.dumps((name, own)))
        return [pickle.loads(reply) for reply in self._replies()]

    # -- processes ------------------------------------------------------------------------------

    def _send(self, i: int, message: bytes) -> None:
        if self.is_closed or self._is_over():
            if self._failed or message[:1] not in (RESET, SEED):
                raise RuntimeError("the environment is closed: start() opens it again.")
            self.start()
        self._workers[i].ask(message)

    def _replies(self, asked: NDArray[np.bool_] | None = None) -> list[bytes]:
        """The replies of the processes, of all by default. If one fails, all are closed: EnvError."""
        replies, failed = [], None
        for i in range(self.num_workers) if asked is None else np.flatnonzero(asked).tolist():
            worker = self._workers[i]
            try:
                reply = worker.answered()
            except EOFError:
                ended = worker.how_it_ended(self.shutdown_timeout)
                failed = failed or (i, f"{ended}; start() begins anew", "")
                continue
            if reply[:1] == FAILED:
                failed = failed or (i, *pickle.loads(reply[1:]))
            elif reply[:1] == DONE:
                replies.append(reply[1:])
        if failed is not None:
            index, what, trace = failed
            self.close(raise_if_closed=False)
            self._failed = True
            message = f"environment {index} failed at step {self._steps}: {what}\n{trace}"
            raise EnvError(message.rstrip(), index, self._steps)
        return replies

    def close(self, *, raise_if_closed: bool = True) -> None:
        """See `BatchedEnvBase.close`; a first call after a failure, which ended them, does nothing."""
        failed, self._failed = self._failed, self._failed and not raise_if_closed
        super().close(raise_if_closed=raise_if_closed and not failed)

    def _end(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.connection.send_bytes(CLOSE)
        for worker in self._workers:
            worker.end(self.shutdown_timeout)

    def __del__(self) -> None:
        if self.__dict__.get("_workers") and not self.__dict__.get("is_closed", True):
            self.close()


belong_to("lite.envs", ParallelEnv)
