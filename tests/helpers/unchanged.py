"""A module, and what is to be the same after an error: objects, values, hooks, flags."""

from typing import Any

import numpy as np

from lite import TensorDict, nn

F32 = np.float32


class Hit(Exception):
    """What the tests' own functions raise."""


def fail(*args: Any, **kwargs: Any) -> Any:
    raise Hit("raised inside")


class Extra(nn.Module):
    """Cannot load the state that it saves."""

    def get_extra_state(self) -> Any:
        return np.zeros(1)

    set_extra_state = fail


class Net(nn.Module):
    """Layers, buffers, a TensorDict as buffer, a TensorDictParams."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 3, rng=0)
        self.b = nn.Sequential(nn.Linear(3, 2, rng=1))
        self.params = nn.TensorDictParams(TensorDict(scale=np.ones(2, F32), n={"steps": np.ones(1, int)}))
        self.register_buffer("mean", np.ones(2, F32))
        self.register_buffer("steps", np.ones(1, np.int64))
        self.register_buffer("tree", TensorDict(x=np.ones(2, F32)))

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x)) * self.params["scale"]


def look(module: Any) -> list[Any]:
    """Everything that may not change: which objects there are, what they hold, in which order."""
    seen: list[Any] = []
    for name, child in module.named_modules():
        seen.append((name, child.training, [len(v) for k, v in vars(child).items() if k.endswith("_hooks")]))
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        array = value.data if isinstance(value, nn.Parameter) else value
        leaves = [("", array)]
        if isinstance(value, TensorDict):
            leaves = list(value.items(True, True))
        flag = getattr(value, "requires_grad", None)
        for key, leaf in leaves:
            content = None if isinstance(leaf, nn.MetaArray) else np.array(leaf)
            seen.append((name, key, id(value), id(leaf), flag, leaf.dtype, content))
    return seen


def assert_same(got: list[Any], expected: list[Any]) -> None:
    assert [entry[:-1] for entry in got] == [entry[:-1] for entry in expected]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_equal(a[-1], b[-1])


def forward(module: Any) -> Any:
    return module(np.ones(2, F32))
