"""Ufuncs and their methods as operators, against NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
from helpers.cases import raises
from helpers.graphs import check, numbers


def test_promotion_is_that_of_numpy() -> None:
    for a, b in (
        (np.int64, np.float32),
        (np.int32, np.int64),
        (np.uint8, np.int8),
        (np.bool_, np.float32),
        (np.float16, np.float32),
        (np.float64, np.float32),
    ):
        check(lambda x, y: (x + y, x < y), numbers(5, 3, dtype=a), numbers(5, 3, dtype=b, seed=1))


def test_numbers_of_python_take_the_dtype() -> None:
    for dtype in (np.float32, np.float64, np.int32):
        check(
            lambda x: (2 * x + 1, x - 0.5, x / 3, 1 / (abs(x) + 1), x + np.float64(0.5)),
            numbers(5, 3, dtype=dtype),
        )


def test_numbers_of_python_beyond_the_dtype() -> None:
    x = np.uint8([[200, 3, 7]])
    check(lambda x: (x > -9, np.less(-9, x), x < 300, x <= -1, x == -1, x != 256, np.clip(x, -5, 300)), x)
    check(lambda x: (x < 255, x <= 0, x >= 255, np.clip(x, 4, 255), np.clip(x, 0, 9)), x)
    for wrong in (lambda x: x + 256, lambda x: np.maximum(x, -1)):
        raises(OverflowError, "out of bounds for uint8", check, wrong, x)


def test_integers_that_are_divided() -> None:
    a, b = np.int64([7, -7, 7, -7, 0]), np.int64([2, 2, -2, -2, 3])
    check(lambda a, b: (a // b, a % b, a / b), a, b)
    check(lambda a, b: (a // b, a % b), a.astype(np.float32), b.astype(np.float32))


def test_other_integers() -> None:
    def function(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return (
            *(x + x, x * x, np.maximum(x, 2), np.floor(x), np.trunc(x), np.abs(x), x // 2, x % 3),
            *(x.sum(1), x.max(0), x > 1, x == x, x.astype(np.float32) / 2),
        )

    for dtype in (np.int8, np.uint8, np.uint16, np.int32, np.uint32):
        check(function, numbers(5, 3, dtype=dtype))


def test_powers_of_two_and_what_has_no_common_integer() -> None:
    check(lambda x: np.exp2(x).astype(np.int32), np.arange(12))  # 7.99 would be 7
    with pytest.raises(NotImplementedError, match="greater"):
        check(lambda a, b: a > b, np.arange(3), np.arange(3, dtype=np.uint64))


def test_bools() -> None:
    a, b = numbers(5, 3, dtype=np.bool_), numbers(5, 3, dtype=np.bool_, seed=1)
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a == b, a != b, a + b, a * b), a, b)
    check(lambda x: np.logical_and(x, x - 1), numbers(5, 3, dtype=np.int64))


def test_in_place() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        out = x * 2
        out += 1
        np.multiply(out, 3, out=out)
        out[...] = out - 1
        return out

    check(function, numbers(5, 3))


def test_methods() -> None:
    x = numbers(5, 3)
    check(
        lambda x: (
            np.add.reduce(x, 1),
            np.maximum.reduce(x, axis=-1, keepdims=True, initial=0.0),
            np.add.accumulate(x, 1),
            np.multiply.outer(x, np.float32([1, 2])),
        ),
        x,
    )


def test_what_has_no_rule_names_itself() -> None:
    for function, name in (
        (np.nextafter, r"numpy\.nextafter"),
        (lambda x, y: np.hypot.accumulate(x), r"numpy\.hypot\.accumulate"),
    ):
        with pytest.raises(NotImplementedError, match=f"calls {name}, which has no rule"):
            check(function, numbers(3), numbers(3))


def test_writing_into_an_ndarray_is_refused() -> None:
    kept = np.zeros(3, np.float32)
    for write in (
        lambda x: np.add(x, 1, out=kept),
        lambda x: np.add.at(kept, [0], x),
        lambda x: np.copyto(kept, x),
        lambda x: np.put_along_axis(kept, np.array([0]), x[:1], 0),
    ):
        with pytest.raises(NotImplementedError, match="writes what it computed into an ndarray"):
            check(write, numbers(3), axes={})
        np.testing.assert_array_equal(kept, 0)


def test_a_write_through_an_index_reaches_the_whole() -> None:
    def function(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out = x * 2
        part = out[:, 1:]
        part += 1
        inner = part[:, 0]
        inner *= 3
        return out, inner

    check(function, numbers(5, 3))


def test_a_view_that_should_have_changed_is_refused() -> None:
    def below(x: np.ndarray) -> np.ndarray:
        out = x * 2
        part = out[:, :1]
        out += 1
        return part + out

    def outer(x: np.ndarray) -> np.ndarray:
        out = x * 2
        row, part = out.T, out[:, 0]
        part += 1
        return row

    def through_and_then_below(x: np.ndarray) -> np.ndarray:
        out = x * 2
        first = out[:, 1:]
        first[:, 0] = 7
        out[:, 1:] += 1
        return first

    for function in (below, outer, through_and_then_below):
        with pytest.raises(NotImplementedError, match="uses a view of an array that was written since"):
            check(function, numbers(5, 3))


def test_a_write_through_another_order_is_refused() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        out = x * 2
        turned = out.T
        turned += 1
        return out

    with pytest.raises(NotImplementedError, match="writes into a view that is another shape or order"):
        check(function, numbers(5, 3))


VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "reshape": lambda x: np.reshape(x, (9,)), "ravel": np.ravel, "transpose": np.transpose,
    "swapaxes": lambda x: np.swapaxes(x, 0, 1), "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "rollaxis": lambda x: np.rollaxis(x, 1), "expand_dims": lambda x: np.expand_dims(x, 0),
    "squeeze": lambda x: np.squeeze(x[None]), "diagonal": np.diagonal,
    "linalg.diagonal": np.linalg.diagonal, "diag": np.diag, "atleast_3d": np.atleast_3d,
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 3)),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, np.ones((2, 3, 3), np.float32))[0],
    "flip": np.flip, "rot90": np.rot90, "split": lambda x: np.split(x, 3)[0],
    "unstack": lambda x: np.unstack(x)[0], "slice": lambda x: x[1:], "step": lambda x: x[::-1],
    "number": lambda x: x[0], "new axis": lambda x: x[:, None], "T": lambda x: x.T,
}  # fmt: skip


def test_every_view_of_an_array_that_is_written_is_refused() -> None:
    for of in VIEWS.values():

        def function(x: np.ndarray, of: Callable[[np.ndarray], np.ndarray] = of) -> np.ndarray:
            out = x.sum(0) + np.zeros((3, 3), np.float32)
            view = of(out)
            out += 1
            return view * 1

        with pytest.raises(NotImplementedError, match="uses a view of an array that was written since"):
            check(lambda x, function=function: function(x), numbers(5, 3))
