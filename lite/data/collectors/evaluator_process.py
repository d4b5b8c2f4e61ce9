"""A process in which an `Evaluator` runs episodes, so that they take no time from the one that learns."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from lite import TensorDictBase
from lite._processes.orphans import end_with_parent
from lite._processes.piped import PipedProcess


class EvaluatorProcess(PipedProcess):
    """The process, as the one that learns has it.

    Args:
        made: the pickled class of the evaluator, and its arguments.
    """

    def __init__(self, made: bytes) -> None:
        super().__init__(serve, made)

    def run(self, weights: Mapping[str, TensorDictBase], step: int) -> dict[str, Any]:
        """The result of an evaluation.

        Raises:
            RuntimeError: the evaluation raised, or the process ended.
        """
        try:
            self.ask(b"e" + pickle.dumps((weights, step)))
            done, found = pickle.loads(self.answered()[1:])
        except EOFError:
            done, found = False, self.how_it_ended(1.0)
        if not done:
            raise RuntimeError(f"the evaluation failed: {found}")
        result: dict[str, Any] = found
        return result

    def close(self, timeout: float) -> None:
        """End the process; it is killed if that takes longer than `timeout` seconds."""
        with contextlib.suppress(OSError):
            self.connection.close()
        self.end(timeout)


def serve(connection: Any, made: bytes) -> None:
    """Evaluate until the parent closes the connection, or ends.

    Args:
        connection: gives the weights and the step of each evaluation, and takes (True, the result) or
            (False, what went wrong).
        made: as for `EvaluatorProcess`.
    """
    end_with_parent()
    evaluator: Any = None
    try:
        while True:
            message = connection.recv_bytes()
            try:
                if evaluator is None:
                    evaluator = _made(*pickle.loads(made))
                answer = True, evaluator._run(*pickle.loads(message[9:]))
            except Exception as error:
                answer = False, f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
            connection.send_bytes(message[:9] + pickle.dumps(answer))
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        pass  # the parent ended, or ends
    finally:
        if evaluator is not None:
            evaluator.shutdown()


def _made(cls: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The evaluator. A `policy_factory` that needs no argument gets none, as TorchRL's processes call it."""
    factory = options["policy_factory"]
    if factory is None or _needs_argument(factory):
        return cls(**options)
    return cls(**{**options, "policy_factory": lambda env: factory()})


def _needs_argument(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(one.kind in places and one.default is one.empty for one in parameters)
