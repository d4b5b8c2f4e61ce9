"""What a training script does while it runs: its loss, its optimisers and the targets of its loss.

The classes that a script imports are replaced by ones that note what they made and how often it was called.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lite import TensorDict
from lite.data import Collector, TensorDictReplayBuffer
from lite.nn.distributions import distribution as arrays
from lite.nn.losses import HardUpdate, LossModule, SoftUpdate
from lite.nn.losses.updates import TargetNetUpdater
from lite.nn.policies.exploration import ExplorationModule
from lite.optim import Adam, group_optimizers


class Training:
    """A script whose `main` is to be run.

    Args:
        script: its module.
        monkeypatch: of the test.
        seed: of everything that would draw fresh entropy.
    """

    def __init__(self, script: ModuleType, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> None:
        self.losses: list[Any] = []
        self.optimizers: list[Any] = []
        self.updaters: list[Any] = []
        self.buffers: list[Any] = []
        self.explorations: list[Any] = []
        self.collected: list[TensorDict] = []
        self.calls: dict[tuple[int, str], int] = {}
        self.before: dict[str, np.ndarray] = {}
        seed_entropy(monkeypatch, seed)
        training = self

        class Noted(Collector):
            def __iter__(self) -> Iterator[Any]:
                for data in super().__iter__():
                    training.collected.append(data.clone())
                    yield data

        made = {
            LossModule: self._loss, Adam: self._optimizer, TargetNetUpdater: self._updater,
            TensorDictReplayBuffer: self.buffers.append, ExplorationModule: self.explorations.append,
        }  # fmt: skip
        for name, found in list(vars(script).items()):
            if found is Collector:
                monkeypatch.setattr(script, name, Noted)
            if found is group_optimizers:
                monkeypatch.setattr(script, name, self._group)
            for kind, note in made.items():
                if isinstance(found, type) and issubclass(found, kind):
                    monkeypatch.setattr(script, name, _noted(found, note))

    def _loss(self, loss: LossModule) -> None:
        self.losses.append(loss)
        self.before = _copied(loss)

    def _optimizer(self, optimizer: Any) -> None:
        self.optimizers.append(optimizer)
        for name in ("step", "zero_grad"):
            setattr(optimizer, name, self._counted(optimizer, name))

    def _group(self, *optimizers: Any) -> Any:
        self.optimizers.clear()
        group = group_optimizers(*optimizers)
        self._optimizer(group)
        return group

    def _updater(self, updater: Any) -> None:
        self.updaters.append(updater)
        step = self._counted(updater, "step")

        def checked() -> None:
            before = _copied(updater.loss_module)
            step()
            self._check_targets(updater, before)

        updater.step = checked

    def _counted(self, owner: Any, name: str) -> Callable[..., Any]:
        method = getattr(owner, name)
        self.calls[id(owner), name] = 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[id(owner), name] += 1
            return method(*args, **kwargs)

        return counted

    def _check_targets(self, updater: Any, before: dict[str, np.ndarray]) -> None:
        """All targets moved by the share that the updater has, and nothing else did."""
        after = _copied(updater.loss_module)
        share = 1.0
        if isinstance(updater, SoftUpdate):
            share = 1 - updater.eps
        elif self.steps_of(updater) % (updater.value_network_update_interval + 1):  # as of TorchRL
            share = 0.0
        for name, value in before.items():
            moved = value
            if _is_target(name):
                moved = value + share * (before[name.removeprefix("target_")] - value)
            np.testing.assert_allclose(after[name], moved, atol=1e-6, err_msg=name)

    def steps_of(self, owner: Any) -> int:
        """How often an optimiser or an updater took a step."""
        return self.calls[id(owner), "step"]

    def check_steps(self, *counts: int) -> None:
        """Each optimiser, as the script makes them, took so many steps, each with gradients of its own."""
        assert [self.steps_of(optimizer) for optimizer in self.optimizers] == list(counts)
        for optimizer in self.optimizers:
            assert self.calls[id(optimizer), "zero_grad"] == self.steps_of(optimizer)

    def check_all_learnt(self) -> None:
        """Every parameter of the loss that has a gradient has changed."""
        after = _copied(self.losses[0])
        names = [name for name, value in self.losses[0].named_parameters() if value.requires_grad]
        assert names
        still = [name for name in names if np.array_equal(after[name], self.before[name])]
        assert not still

    def check_targets_follow(self, steps: int, share: float) -> None:
        """The updater took so many steps of the share, or, of a HardUpdate, one in so many."""
        (updater,) = self.updaters
        assert self.steps_of(updater) == steps
        if isinstance(updater, HardUpdate):
            assert updater.value_network_update_interval == share
        else:
            assert 1 - updater.eps == pytest.approx(share)

    def values(self, name: str, network: str, batch: Any) -> tuple[float, float]:
        """A loss of a batch with a network as it was at first, and as it is; all else is as it is now."""
        loss, after = self.losses[0], _copied(self.losses[0])
        fresh = {key: self.before[key] for key in after if key.startswith(network)}
        assert fresh
        found = []
        for state in ({**after, **fresh}, after):
            loss.load_state_dict(state)
            found.append(float(np.mean([float(loss(batch.clone())[name]) for _ in range(4)])))
        return found[0], found[1]

    def frames(self) -> TensorDict:
        """All frames that were collected, one after the other."""
        return TensorDict.cat([data.reshape(-1) for data in self.collected], 0)


def noted_losses(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that the losses come to which a script makes."""
    losses: list[Any] = []
    for name, found in list(vars(script).items()):
        if isinstance(found, type) and issubclass(found, LossModule):
            monkeypatch.setattr(script, name, _noted(found, losses.append))
    return losses


def _noted(kind: type, note: Callable[[Any], None]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        made = kind(*args, **kwargs)
        note(made)
        return made

    return make


def _is_target(name: str) -> bool:
    return name.startswith("target_") and "_params." in name


def _copied(loss: Any) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in loss.state_dict().items()}


def seed_entropy(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Generators without a seed get one after the other of a sequence, the one of the process again."""
    make, source = np.random.default_rng, np.random.SeedSequence(seed)
    monkeypatch.setattr(
        np.random, "default_rng", lambda given=None: make(source.spawn(1)[0] if given is None else given)
    )
    monkeypatch.setattr(arrays, "_shared", [])  # else what tests before this one drew counts
