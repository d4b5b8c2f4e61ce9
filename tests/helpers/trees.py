"""TensorDicts that the tests share, and a way to see that nothing changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lite import LazyStackedTensorDict, TensorDict, TensorDictBase


def read_only(array: Any) -> np.ndarray[Any, Any]:
    """An array that raises when it is written to."""
    out = np.array(array)
    out.setflags(write=False)
    return out


def tree(lock: bool = False) -> TensorDict:
    """Batch (4, 3): float, int, nested with a longer batch size, one object, one object per row."""
    return TensorDict(
        {
            "a": read_only(np.arange(24.0).reshape(4, 3, 2)),
            "i": read_only(np.arange(12).reshape(4, 3)),
            "n": TensorDict(
                {
                    "b": read_only(np.arange(60.0).reshape(4, 3, 5)),
                    "m": {"c": read_only(np.ones((4, 3, 5), bool))},
                },
                batch_size=[4, 3, 5],
            ),
            "s": "text",
            "r": [[f"{i}{j}" for j in range(3)] for i in range(4)],
        },
        batch_size=[4, 3],
        lock=lock,
    )


def rows(n: int = 3) -> TensorDict:
    """Batch (n,): arrays and objects in three nested TensorDicts, to be written to."""
    inner = TensorDict({"x": np.arange(n * 2.0).reshape(n, 2), "s": "deep"}, batch_size=[n])
    return TensorDict(
        {
            "a": np.arange(n),
            "n": {"b": np.ones((n, 2)), "m": inner, "s": "text"},
            "rows": [f"row{i}" for i in range(n)],
            "z": np.zeros((n, 3)),
        },
        batch_size=[n],
    )


def snapshot(td: Any) -> Any:
    """Everything there is to know about a TensorDict or a lazy stack."""
    if isinstance(td, LazyStackedTensorDict):
        return td.stack_dim, td.is_locked, list(map(snapshot, td.tensordicts))
    content = {
        key: snapshot(entry) if isinstance(entry, TensorDictBase) else _value(entry)
        for key, entry in td.items()
    }
    return td.batch_size, td.names, td.is_locked, td.device, content


def _value(entry: Any) -> Any:
    if isinstance(entry, np.ndarray):
        return str(entry.dtype), entry.shape, entry.tolist()
    return entry.batch_size, entry.tolist()


@contextmanager
def unchanged(*tds: Any) -> Iterator[None]:
    """Fail if a TensorDict differs after the block."""
    before = [snapshot(td) for td in tds]
    yield
    assert [snapshot(td) for td in tds] == before


def same_content(a: Any, b: Any) -> None:
    """Fail unless both hold the same; the lock and the device, which saving changes, do not count."""
    assert snapshot(a.clone().cpu()) == snapshot(b.clone().cpu())
