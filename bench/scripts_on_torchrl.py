"""Scripts of tests/scripts as they stand, and the same text on TorchRL's classes, for `scripts_learning.py`.

There an import of `lite` in a script gives names of torch, tensordict and torchrl: `from lite.nn import MLP`
is `torchrl.modules.MLP`. What a script must say in another way is a line of `CHANGES`.

One script has a prioritized sampler, of 16 frames, and resizes images. Where the extension of torchrl's wheel
does not load beside this torch, the sampler runs on the plain trees that its tests have; without torchvision
`Resize` calls torch's `interpolate`, which torchvision calls, too.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "scripts"
# Where TorchRL has what a package of lite has: the first that has the name.
PACKAGES = {
    "lite": ("tensordict", "torch"),
    "lite.data": (
        *("torchrl.collectors", "torchrl.data", "torchrl.objectives.value", "torchrl.modules"),
        *("torchrl.record", "torchrl.collectors.utils"),
    ),
    "lite.envs": ("torchrl.envs", "torchrl.envs.utils"),
    "lite.nn": ("torchrl.modules", "tensordict.nn", "torch.nn", "torchrl.modules.models.batchrenorm"),
    "lite.nn.distributions": ("torchrl.modules", "torch.distributions"),
    "lite.nn.losses": ("torchrl.objectives",),
    "lite.optim": ("torch.optim", "torch.nn.utils", "torchrl.objectives"),
}


@dataclass(frozen=True)
class Change:
    """Lines of a script that TorchRL does not take as they stand.

    Attributes:
        line: what such a line has in it.
        there: what it has instead on TorchRL.
        array: whether it is a method of arrays that tensors call otherwise.
    """

    line: str
    there: str
    array: bool = False


_FILL = Change("layer.bias.data.fill(0)", "layer.bias.data.fill_(0)", array=True)
CHANGES: dict[str, tuple[Change, ...]] = {"a2c": (_FILL,)}


def script(name: str, *, torchrl: bool) -> ModuleType:
    """A script of tests/scripts as a module, on lite or on TorchRL's classes.

    Raises:
        ValueError: a change is of no line of the script.
    """
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    module = ModuleType(name)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _Importing(torchrl)}
    if torchrl:
        _plain_trees()
        for change in CHANGES.get(name, ()):
            if change.line not in text:
                raise ValueError(f"{name}.py has no {change.line!r}.")
            text = text.replace(change.line, change.there)
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def changed_lines(name: str, *, array: bool) -> int:
    """How many lines of a script TorchRL does not take, imports aside: those of arrays, or the others."""
    lines = (FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()
    changes = [change for change in CHANGES.get(name, ()) if change.array is array]
    return sum(any(change.line in line for change in changes) for line in lines)


def _plain_trees() -> None:
    """Give torchrl's prioritized samplers segment trees where its own do not load."""
    prioritized = importlib.import_module("torchrl.data.replay_buffers.samplers.prioritized")
    if prioritized.SumSegmentTreeFp32 is not None:
        return
    tests = str(FOLDER.parent)
    if tests not in sys.path:
        sys.path.append(tests)
    trees = importlib.import_module("helpers.data.segment_trees")
    for bits in (32, 64):
        setattr(prioritized, f"SumSegmentTreeFp{bits}", trees.SumTree)
        setattr(prioritized, f"MinSegmentTreeFp{bits}", trees.MinTree)


def _resize() -> Any:
    """torchrl's `Resize` without torchvision."""
    observations = importlib.import_module("torchrl.envs.transforms._observation")
    interpolate = importlib.import_module("torch.nn.functional").interpolate

    class Resize(observations.Resize):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            with mock.patch.object(observations, "_has_tv", True):
                super().__init__(*args, **kwargs)

        def _apply_transform(self, observation: Any) -> Any:
            images = observation.flatten(0, -4) if observation.ndim > 4 else observation
            images = images if observation.ndim > 3 else images[None]
            found = interpolate(images, (self.w, self.h), mode=self.interpolation, antialias=True)
            return found.reshape(*observation.shape[:-2], self.w, self.h)

    return Resize


class _Importing:
    """What an `import` of a script calls."""

    def __init__(self, torchrl: bool) -> None:
        self.torchrl = torchrl

    def __call__(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> Any:
        if (FOLDER / f"{name}.py").exists():
            return script(name, torchrl=self.torchrl)
        if self.torchrl and name.partition(".")[0] == "lite":
            return _Package(name if fromlist else "lite")
        return builtins.__import__(name, globals, locals, fromlist, level)


class _Package(ModuleType):
    """A package of lite with TorchRL's names."""

    def __getattr__(self, name: str) -> Any:
        if f"{self.__name__}.{name}" in PACKAGES:
            return _Package(f"{self.__name__}.{name}")
        if name == "Resize" and find_spec("torchvision") is None:
            return _resize()
        for package in PACKAGES[self.__name__]:
            module = importlib.import_module(package)
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"{name} is in none of {', '.join(PACKAGES[self.__name__])}.")
