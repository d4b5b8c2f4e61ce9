"""One process of `ParallelEnv`: its environment reads and writes rows of shared arrays."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from lite import LazyStackedTensorDict, is_leaf_nontensor
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


def rows_of(td: Any) -> Any:
    """What `copy_to` writes: the arrays and lazy stacks of a TensorDict by key, or the lazy stack that it is.

    By key a lazy stack gives copies, so its parts are written.
    """

    def whole(kind: type) -> bool:
        return kind is LazyStackedTensorDict or is_leaf_nontensor(kind)

    return td if whole(type(td)) else list(td.items(True, True, is_leaf=whole))


def copy_to(rows: Any, value: Any, **default: Any) -> None:
    """Copy an entry, or those of a TensorDict, to rows of shared arrays.

    Args:
        rows: what `rows_of` gave, or an array.
        value: has what they have, or more; None leaves them as they are.
        default: `default=None` takes fewer, too; without it a missing entry is a KeyError.
    """
    if type(rows) is list:
        for key, row in rows:
            copy_to(row, value.get(key, None) if default else value[key], **default)
    elif value is not None and isinstance(rows, np.ndarray):
        rows[...] = value
    elif value is not None:
        rows.apply(copy_to, value, **default)


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
        root, following = rows_of(shared[index]), rows_of(following[index])
        connection.send_bytes(DONE + UNASKED)
        inputs = shared[index].select(*env.action_keys, *env.state_keys, strict=False)
        td = inputs.clone()
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
                copy_to(root, td, default=None)
            else:
                td.update(inputs.clone())
                for key, given in pickle.loads(rest).items() if rest else ():
                    td.set(key, given)
                if command == STEP_AND_RESET:
                    stepped, td = env.step_and_maybe_reset(td)
                    copy_to(root, td, default=None)
                else:
                    stepped = env.step(td)
                    td = env.step_mdp(stepped.exclude("_step") if rest else stepped)
                copy_to(following, stepped.get("next"))
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
