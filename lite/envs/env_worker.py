"""One process of `ParallelEnv`: its environment reads and writes rows of shared arrays."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lite import NestedKey, TensorDict
from lite._processes.orphans import end_with_parent
from lite._processes.workers import pickled
from lite.envs.spec_checks import require_env

# Commands, one byte each; a pickled argument follows.
RESET, STEP, STEP_AND_RESET, SEED, CLOSE, READ = b"r", b"s", b"m", b"d", b"c", b"a"
DONE, FAILED, UNASKED = b"k", b"e", bytes(8)  # a command's number follows, and an answer's is the same
MISSING, METHOD = NotImplemented, ...  # in place of an attribute: single objects in every process


def attribute(env: Any, name: str, arguments: tuple[tuple[Any, ...], dict[str, Any]] | None) -> Any:
    """An attribute of an environment; if `arguments` are given, the result of a call with them."""
    found: Any = getattr(env, name, MISSING)
    if arguments is not None:
        return found(*arguments[0], **arguments[1])
    return METHOD if callable(found) else found


def packed(make: Callable[..., Any], kwargs: dict[str, Any]) -> bytes:
    """A pickled function and its arguments for another process; with cloudpickle installed also a lambda.

    Raises:
        TypeError: the function cannot be sent.
    """
    try:
        return pickled((make, kwargs))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle
        except ImportError:
            raise TypeError(
                f"what a process gets cannot be sent to it ({error}): define functions and classes at the "
                "top of a module, or install cloudpickle."
            ) from error
        try:
            return cloudpickle.dumps((make, kwargs))
        except (pickle.PicklingError, AttributeError, TypeError) as cause:
            raise TypeError(
                f"what a process gets cannot be sent to it ({cause}): locks, files, threads and started "
                "processes stay where they are. Give functions that make environments, policies and what "
                "these use, to be called in the process."
            ) from cause


class Rows:
    """Copies between the entries of one environment and its rows of the shared arrays.

    Args:
        root: the row of the shared arrays at the root, the inputs of a step.
        following: the row of those under "next", its results.
    """

    def __init__(self, root: TensorDict, following: TensorDict) -> None:
        self.root = list(root.items(True, True))
        self.following = list(following.items(True, True))

    def read(self, keys: set[NestedKey], into: Any) -> None:
        """Copy the entries of `keys` from the root to `into`."""
        for key, row in self.root:
            if key in keys:
                into.set(key, row.copy())

    def write_root(self, td: Any) -> None:
        """Copy the entries of a TensorDict to the root, if the root has them."""
        for key, row in self.root:
            value = td.get(key, None)
            if value is not None:
                row[...] = value

    def write_next(self, td: Any) -> None:
        """Copy the entries of a TensorDict to "next"."""
        for key, row in self.following:
            row[...] = td.get(key)


def serve(connection: Any, made: bytes, index: int) -> None:
    """Answer commands until the parent closes the connection, or ends.

    Args:
        connection: a pipe to the parent, to which the specs are sent first.
        made: see `packed`.
        index: the row of this environment in the shared arrays.
    """
    end_with_parent()
    env: Any = None
    try:
        make, kwargs = pickle.loads(made)
        env = require_env(make(**kwargs), "create_env_fn must make")
        connection.send_bytes(DONE + UNASKED + pickle.dumps((env.specs, env.fake_tensordict())))
        shared, following = connection.recv()
        rows = Rows(shared[index], following[index])
        connection.send_bytes(DONE + UNASKED)
        inputs = {*env.action_keys, *env.state_keys}
        td = TensorDict({}, env.batch_size)
        while True:
            message = connection.recv_bytes()
            command, turn, rest, reply = message[:1], message[1:9], message[9:], b""
            if command == CLOSE:
                break
            if command == SEED:
                seed, static = pickle.loads(rest)
                reply = pickle.dumps(env.set_seed(seed, static_seed=static))
            elif command == READ:
                name, arguments = pickle.loads(rest)
                reply = _sent(attribute(env, name, arguments), arguments is None)
            elif command == RESET:
                masks, kwargs = pickle.loads(rest)
                td = env.reset(None if masks is None or masks.all() else td.update(masks), **kwargs)
                rows.write_root(td)
            else:
                rows.read(inputs, td)
                if rest:
                    td.set("next", pickle.loads(rest))
                if command == STEP_AND_RESET:
                    stepped, td = env.step_and_maybe_reset(td)
                    rows.write_root(td)
                else:
                    stepped = env.step(td)
                    td = env.step_mdp(stepped)
                rows.write_next(stepped.get("next"))
            connection.send_bytes(DONE + turn + reply)
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass  # the parent ended, or ends
    except Exception as error:
        what = (f"{type(error).__name__}: {error}", traceback.format_exc())
        connection.send_bytes(FAILED + UNASKED + pickle.dumps(what))
    finally:
        if env is not None and not env.is_closed:
            env.close()


def _sent(value: Any, read: bool) -> bytes:
    """The pickle of a call's result, or of an attribute that was read; of a marker if that has no pickle."""
    with suppress(*((pickle.PicklingError, AttributeError, TypeError) if read else ())):
        return pickle.dumps(value)
    return pickle.dumps(MISSING)
