"""What an ndarray does without NumPy's functions, arrays of all interpreters do."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.graphs import new_graph

import lite
import lite._transforms.graphs.trace
from lite import TensorDict
from lite._transforms.grad.array import TracedArray
from lite._transforms.graphs.array import GraphArray
from lite._transforms.vmap.array import BatchedArray


def inside_grad(check: Any) -> None:
    def fn(x: Any) -> Any:
        check(x)
        return x.sum()

    lite.grad(fn)(np.ones((4, 3), np.float32))


def inside_vmap(check: Any) -> None:
    lite.vmap(lambda x: (check(x), x.sum())[1])(np.ones((2, 4, 3), np.float32))


def inside_graph(check: Any) -> None:
    check(new_graph()[0].input("x", (4, 3), np.float32))


def looks_like_an_ndarray(x: Any) -> None:
    assert len(x) == len(list(x)) == 4
    assert x[0].shape == next(iter(x)).shape == (3,)
    raises(TypeError, "unsized", lambda: len(x[0, 0]))
    assert len({x, x}) == 1


def leaves_containers_to_answer(x: Any) -> None:
    assert type(np.add(TensorDict({"a": x}), x[0, 0])) is TensorDict
    assert type(np.stack([TensorDict({"a": x})] * 2)) is TensorDict


@each_case("inside", [inside_grad, inside_vmap, inside_graph])
@each_case("check", [looks_like_an_ndarray, leaves_containers_to_answer])
def test_arrays_inside(inside: Any, check: Any) -> None:
    inside(check)


# Attributes of ndarray that are about memory, which arrays of an interpreter do not have of their own.
OF_MEMORY = {
    *("base", "byteswap", "ctypes", "data", "dump", "dumps", "flags", "getfield", "resize", "setfield"),
    *("setflags", "strides", "tobytes", "tofile"),
    *("itemset", "newbyteorder", "ptp", "tostring"),  # NumPy 2.2 has the names, to say that they are gone
}


@each_case("cls", [TracedArray, GraphArray, BatchedArray])
def test_arrays_have_every_attribute_of_ndarrays(cls: type) -> None:
    names = {name for name in dir(np.ndarray) if not name.startswith("_")}
    assert {name for name in names if not hasattr(cls, name)} <= OF_MEMORY


def test_arrays_are_on_the_cpu() -> None:
    x = TracedArray(np.ones(2), None, 0)
    assert x.device == "cpu"
    assert x.to_device("cpu") is x
    raises(ValueError, "device must be 'cpu'", lambda: x.to_device("cuda"))


@pytest.mark.parametrize("axis", [0, -1])
def test_an_axis_of_a_number_is_all_of_it(axis: int) -> None:
    """As NumPy has it: `log_prob.sum(-1)` of one action, mapped over a batch."""

    def of(x: Any) -> tuple[Any, ...]:
        found = [fn(x, axis=axis) for fn in (np.sum, np.prod, np.max, np.min, np.ptp, np.cumsum, np.squeeze)]
        return *found, x.sum(axis), np.repeat(x, 3, axis), np.take(x, [0, 0], axis), np.argmax(x, axis)

    x = np.array([2.0, -3.0])
    wanted = [of(one) for one in x]
    for got, *want in zip(lite.vmap(of)(x), *wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    slope = lite.vmap(lite.grad(lambda x: sum(np.sum(part) for part in of(x)[:-1])))
    np.testing.assert_array_equal(slope(x), [12.0, 12.0])  # 0 of ptp, 7 of those with one, 3 + 2 of copies
    raises(np.exceptions.AxisError, "", lambda: lite.vmap(lambda x: np.sum(x, 1))(x))
    with pytest.raises(np.exceptions.AxisError):
        lite.vmap(lambda x: np.sort(x, axis))(x)  # NumPy, too
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
    np.testing.assert_equal(lite.jit(of)(x[0]), wanted[0])


def test_a_number_is_not_written_to() -> None:
    """`a += 1` makes another number of what NumPy gives as one: names that had it, and arrays, keep it."""

    def kept(x: Any) -> Any:
        total, mean, first, last = 0.0, x.mean(), x[0], x[..., -1]
        parts = [mean, x @ x, np.modf(x[1])[0], np.sqrt(first).astype("f4"), np.where(first > 0, first, 0.0)]
        given = [*parts]
        for i in range(3):
            total += x[i]
            given.append(total)
        for i in range(4):
            parts[i] -= total
            first *= 2
        last *= 3  # with an ellipsis it is a view
        given[4] += 1  # and this an array
        td = TensorDict(mean=mean)  # entries are arrays
        entry = td["mean"]
        entry -= 1
        return *given, *parts, first, x * 1, td["mean"]

    x = np.arange(1.0, 7.0).reshape(2, 3)
    wanted = [kept(row.copy()) for row in x]
    assert wanted[0][0] == 2.0

    def slope(x: Any) -> Any:
        return lite.grad(lambda x: sum(np.sum(part) * n for n, part in enumerate(kept(x + 0.0))))(x)

    for got, *want in zip(lite.vmap(kept)(x.copy()), *wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    slopes = [slope(row) for row in x]
    np.testing.assert_allclose(lite.vmap(slope)(x), slopes, rtol=1e-12)
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
    for got, want in zip(lite.jit(kept)(x[0].copy()), wanted[0], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    np.testing.assert_allclose(lite.jit(slope)(x[0]), slopes[0], rtol=1e-12)

    def halved(x: Any, rate: Any) -> Any:
        before = rate
        rate *= 0.5
        return x * rate, x * before

    for rate in (0.1, np.float32(0.1)):
        np.testing.assert_allclose(lite.jit(halved)(x, rate), halved(x, rate), rtol=1e-6)


@each_case("wrap", [lambda fn: fn, lambda fn: lite.vmap(fn, 1), lite.grad])
def test_a_branch_on_a_length_is_that_of_each_size(wrap: Any) -> None:
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
    fn = wrap(lambda x: ((x + 1 if len(x) % 2 else x) ** 2).sum())
    step = lite.jit(fn)
    for n in (4, 5):
        np.testing.assert_allclose(step(np.ones((n, 3))), fn(np.ones((n, 3))))


def test_new_arrays_beside_one() -> None:
    """`like=`, NumPy's way to make arrays that a function computes with, whatever runs it."""

    def fn(x: Any, i: Any) -> Any:
        out = np.zeros((3, 2), like=x)
        out[:, 0], out[0, 1] = x, x.sum()
        table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], like=x)
        whole = np.array([[x[0], 2.0], [x[1] * x[2], 1.0]], like=x)
        rows = (
            np.eye(3, like=i)[i] * np.arange(3.0, like=x) + np.full(3, 0.5, like=x) + np.ones((1, 3), like=x)
        )
        both = np.asarray([x, x * 2], np.float64, like=x)
        return (out**2).sum() + (table[i] * out[i]).sum() + (whole**3).sum() + (rows * x).sum() + both.sum()

    x, i = np.array([0.5, 2.0, -1.0]), np.array([2, 0, 2])
    value, gradient = lite.value_and_grad(fn)(x, i)
    np.testing.assert_allclose(value, fn(x, i))
    step = np.eye(3) * 1e-6
    np.testing.assert_allclose(gradient, [(fn(x + e, i) - fn(x - e, i)) / 2e-6 for e in step], rtol=1e-6)
    np.testing.assert_allclose(lite.jit(fn)(x, i), fn(x, i))
    both = lite.jit(lite.vmap(lite.value_and_grad(fn)))(np.stack([x, x * 2]), np.stack([i, i[::-1]]))
    np.testing.assert_allclose(both[0], [fn(x, i), fn(x * 2, i[::-1])])
    np.testing.assert_allclose(both[1][0], gradient)


def test_an_ndarray_beside_an_array_of_a_graph_says_what_to_do() -> None:
    def writes(x: Any) -> Any:
        out = np.zeros(3)
        out[0] = x[0]
        return out

    for function, message in (
        (writes, r"writes into an ndarray .* like=x.* out\[0\] = x\[0\]"),
        (
            lambda x: np.eye(3)[x.argmax()] * x,
            r"reads an ndarray at computed places: .*np.asarray\(table, like=i\)",
        ),
        (lambda x: np.array([x[0], x[1]]), r"np.array\(\[...\], like=x\)"),
    ):
        raises(NotImplementedError, message, lite.jit(function), np.ones(3))
