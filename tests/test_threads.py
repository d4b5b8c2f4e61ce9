"""Many threads reading one locked TensorDict see what one thread sees."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.trees import snapshot, tree, unchanged

from lite import TensorDict, lazy_stack, stack

THREADS = 8
ROUNDS = 40
READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda td: (td["n", "m", "c"].sum(), td["s"], td["r"]),
    "index": lambda td: snapshot(td[1]),
    "index array": lambda td: snapshot(td[[3, 0]]),
    "mask": lambda td: snapshot(td[np.arange(12).reshape(4, 3) % 2 == 0]),
    "shapes": lambda td: snapshot(td.reshape(-1).unsqueeze(0).transpose(0, 1)),
    "unbind": lambda td: [snapshot(row) for row in td.unbind(0)],
    "arithmetic": lambda td: ((td.exclude("n") + 1) * 2)["a"].sum(),
    "compare": lambda td: bool((td == td).all()),
    "stack": lambda td: snapshot(stack([td, td])),
    "lazy stack": lambda td: lazy_stack([td, td])["a"].tolist(),
    "keys": lambda td: (list(td.keys(True)), list(td.flatten_keys().keys())),
    "select": lambda td: snapshot(td.select(("n", "m"), "s")),
    "clone": lambda td: snapshot(td.clone()),
    "apply": lambda td: td.apply(lambda x: x + 1)["i"].sum(),
    "export": lambda td: repr(td.to_dict()) + repr(td),
}


def in_threads(work: Callable[[int], None]) -> None:
    """Run `work(i)` in all threads at once; raises what they raise."""
    barrier = threading.Barrier(THREADS)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            barrier.wait()
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture
def locked() -> TensorDict:
    return tree(lock=True)


@pytest.mark.depth
def test_all_kinds_of_reads_at_once(locked: TensorDict) -> None:
    names = list(READS)
    expected = {name: repr(READS[name](locked)) for name in names}

    def work(i: int) -> None:
        for j in range(ROUNDS):
            name = names[(i + j) % len(names)]
            assert repr(READS[name](locked)) == expected[name]

    with unchanged(locked):
        in_threads(work)


def test_a_locked_lazy_stack() -> None:
    rows = lazy_stack([TensorDict({"t": np.arange(n), "s": f"row {n}"}) for n in (2, 3, 5)]).lock_()

    def work(i: int) -> None:
        for _ in range(ROUNDS):
            assert rows["s"] == ["row 2", "row 3", "row 5"]
            assert rows.get("t", as_padded_tensor=True).sum() == 1 + 3 + 10
            assert [len(row["t"]) for row in rows] == [2, 3, 5]

    in_threads(work)
    assert rows.is_locked


def test_threads_write_their_own_rows() -> None:
    td = TensorDict(
        {"a": np.zeros((THREADS, 100)), "n": {"b": np.zeros(THREADS)}}, batch_size=[THREADS], lock=True
    )

    def work(i: int) -> None:
        for j in range(ROUNDS):
            td[i] = TensorDict({"a": np.full(100, i * 1000.0 + j), "n": {"b": i}})

    in_threads(work)
    np.testing.assert_array_equal(td["a"][:, 0], np.arange(THREADS) * 1000 + ROUNDS - 1)
    np.testing.assert_array_equal(td["n", "b"], np.arange(THREADS))
