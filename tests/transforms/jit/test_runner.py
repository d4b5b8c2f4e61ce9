"""What runs a graph: layouts of memory, sizes that change, arrays that nobody else holds."""

from typing import Any

import numpy as np
from helpers.cases import raises

import lite
from lite import TensorDict


def test_any_layout_of_memory() -> None:
    for size in [4, 300]:
        step = lite.jit(lambda x: x + np.arange(x.shape[1]))
        x = np.arange(float(size * size)).reshape(size, size)
        for given in (x, x.T, x[::-1], x[:, ::-1], np.asfortranarray(x), np.broadcast_to(x[0], x.shape)):
            np.testing.assert_array_equal(step(given), given + np.arange(size))


def test_any_order_of_bytes() -> None:
    step = lite.jit(lambda x, td: (x * 2, td["x"].sum(), x.sum(0)))
    for dtype in ("<f4", ">f4", ">i8", "<f4"):
        for n in (3, 30_000):
            x = np.arange(float(n)).astype(dtype)
            double, total, _ = step(x, TensorDict(x=x))
            assert double.dtype == np.dtype(dtype).newbyteorder("=")
            np.testing.assert_array_equal(double, x * 2)
            np.testing.assert_allclose(total, x.sum(), rtol=1e-5)


def test_writes_to_memory_that_another_argument_shares_are_refused() -> None:
    def function(x: Any, y: Any) -> Any:
        x *= 2
        return y + 1

    step, base = lite.jit(function), np.ones((6, 2))
    for x, y in ((base[:4], base[2:]), (base, base[1:]), (base[:, 0], base[0])):
        raises(ValueError, "whose memory is that of another one", step, x, y)
    np.testing.assert_array_equal(base, 1)
    for x, y in ((base[:3], base[3:]), (base[:, 0], base[:, 1])):
        np.testing.assert_array_equal(step(x, y), y + 1)


def test_what_stays_belongs_to_the_results_that_are_given_next() -> None:
    """Two or more trainings by one function, a restart, and one that is left for a while."""

    def function(params: Any, count: Any, x: Any) -> Any:
        return params * 0.5 + x.mean(0), count + 1

    step = lite.jit(function, donate=("params", "count"))
    for trainings in (2, 5, 20):  # more than there are memories
        ours = [(TensorDict(w=np.full(3, 1.0 + i)), np.zeros(2)) for i in range(trainings)]
        theirs = [(td.clone(), count.copy()) for td, count in ours]
        for number in range(2 * trainings + 3):
            i = number % trainings if number < 2 * trainings else 0
            x = np.full((2, 3), float(number))
            ours[i], theirs[i] = step(*ours[i], x), function(*theirs[i], x)
            for (td, count), (other, counted) in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(td["w"], other["w"])
                np.testing.assert_array_equal(count, counted)
        assert len(step._last[0]._others) <= 16  # type: ignore[index]


def test_what_was_given_up_is_not_taken_again() -> None:
    step = lite.jit(lambda params, x: params * 2 + x, donate="params")
    first = step(np.ones(3), np.ones(3))
    second = step(first, np.ones(3))
    raises(ValueError, "given up to an earlier call", lambda: step(first, np.ones(3)))
    np.testing.assert_array_equal(second, 7)
    np.testing.assert_array_equal(step(second, np.ones(3)), 15)
    np.testing.assert_array_equal(step(np.ones(3), np.ones(3)), 3)


def test_results_belong_to_the_caller() -> None:
    step = lite.jit(lambda x: (x + 1, x.sum()))
    one, _ = step(np.zeros(3))
    two, _ = step(np.ones(3))
    np.testing.assert_array_equal(one, np.ones(3))
    one += 5
    np.testing.assert_array_equal(step(np.ones(3))[0], two)


def test_sizes_of_results_that_are_computed() -> None:
    step = lite.jit(lambda td: (np.concatenate([td["x"], td["x"]]), td["x"].reshape(-1), td["x"][1:]))
    for n in (3, 5, 2):
        x = np.random.default_rng(n).normal(size=(n, 2))
        double, flat, rest = step(TensorDict(x=x, batch_size=[n]))
        np.testing.assert_array_equal(double, np.concatenate([x, x]))
        np.testing.assert_array_equal(flat, x.reshape(-1))
        np.testing.assert_array_equal(rest, x[1:])


def test_arrays_of_no_elements() -> None:
    step = lite.jit(lambda x: (x * 2, x.sum()))
    out, total = step(np.ones((0, 3)))
    assert out.shape == (0, 3)
    assert total == 0
    np.testing.assert_array_equal(step(np.ones((2, 3)))[0], np.full((2, 3), 2.0))


def test_dtypes() -> None:
    for dtype in [np.float16, np.float32, np.float64, np.int32, np.int64, np.bool_, np.uint8]:
        x = np.array([[0, 1, 2]]).astype(dtype)
        out = lite.jit(lambda x: x.reshape(-1)[::-1].copy())(x)
        np.testing.assert_array_equal(out, x.reshape(-1)[::-1])
        assert out.dtype == dtype


def test_providers_are_those_of_the_session() -> None:
    def step(x: np.ndarray) -> np.ndarray:
        return x @ x.T + 1

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(lite.jit(step, providers=["CPUExecutionProvider"])(x), step(x))
    raises(ValueError, "NoSuchProvider", lambda: lite.jit(step, providers=["NoSuchProvider"])(x))


def test_an_argument_that_is_there_twice_is_not_written() -> None:
    def added(x: Any, y: Any) -> Any:
        x += 1
        return x + y

    def entered(one: Any, two: Any) -> Any:
        one["x"] = one["x"] + 1
        return two["x"]

    x, td = np.ones(3), TensorDict(x=np.ones(3))
    step, other = lite.jit(added), lite.jit(entered)
    raises(ValueError, "there twice: pass the array once, or a copy", lambda: step(x, x))
    raises(ValueError, "there twice: pass the TensorDict once, or a copy", lambda: other(td, td))
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(td["x"], 1)
    np.testing.assert_array_equal(step(x, x.copy()), 3)
    np.testing.assert_array_equal(other(td, td.clone()), 1)
    np.testing.assert_array_equal(lite.jit(lambda x, y: x + y)(x, x), 4)
