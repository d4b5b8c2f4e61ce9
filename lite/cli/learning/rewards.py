"""Rewards of responses: built-in ones, and functions of the user's own."""

from __future__ import annotations

import math
import os
import re
import sys
from argparse import ArgumentError
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Reward = Callable[[str, Mapping[str, Any]], float]

_OWN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


def _exact(response: str, row: Mapping[str, Any]) -> float:
    """1 for the answer, white space around it aside."""
    return float(response.strip() == str(row["answer"]).strip())


def _number(response: str, row: Mapping[str, Any]) -> float:
    """1 if the last number in the response is that of the answer."""
    found = [_last_number(text) for text in (response, str(row["answer"]))]
    return float(found[0] is not None and found[0] == found[1])


def _last_number(text: str) -> float | None:
    numbers = _NUMBER.findall(text)
    return float(numbers[-1].replace(",", "")) if numbers else None


def _contains(response: str, row: Mapping[str, Any]) -> float:
    """1 if the answer is somewhere in the response, as whole words."""
    return float(re.search(rf"(?<!\w){re.escape(str(row['answer']).strip())}(?!\w)", response) is not None)


BUILT_IN: dict[str, Reward] = {"exact": _exact, "number": _number, "contains": _contains}
"""Rewards that compare with the "answer" of a row."""


def check_reward(name: str) -> None:
    """Raise ArgumentError unless a reward is built in, or named as "module:function"."""
    if name not in BUILT_IN and not _OWN.fullmatch(name):
        raise ArgumentError(
            None, f"--reward must be one of {', '.join(BUILT_IN)}, or module:function, got {name!r}"
        )


def reward_of(name: str) -> Reward:
    """The reward of a name, as `check_reward` takes it; a module of the user's is imported.

    The current folder is looked at last, so that a file in it takes the place of no installed module.

    Raises:
        ImportError: there is no such module, or it has no such function.
        TypeError: it is not a function.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, function = name.split(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(import_module(module), function)
    except AttributeError:
        raise ImportError(f"--reward {name}: {module} has no {function!r}") from None
    except ModuleNotFoundError as error:
        raise ImportError(f"--reward {name}: {error}") from None
    if not callable(found):
        raise TypeError(f"--reward {name} must be a function, got {type(found).__name__}")
    return lambda response, row: _checked(name, found, response, row)


def _checked(name: str, reward: Callable[..., Any], response: str, row: Mapping[str, Any]) -> float:
    """The reward of a response by a user's function."""
    try:
        value = reward(response, dict(row))
    except Exception as error:
        raise RuntimeError(
            f"--reward {name} raised {type(error).__name__}: {error} (--debug shows where)"
        ) from error
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"--reward {name} must give a finite number, got {value!r} for {response[:80]!r}")
    return number
