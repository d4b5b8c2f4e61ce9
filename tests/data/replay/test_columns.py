import numpy as np
from helpers.cases import raises

from lite import NonTensorStack, TensorClass, TensorDict, lazy_stack
from lite.data.replay.columns import Columns, blank


def rows(count: int, start: int = 0) -> TensorDict:
    step = np.arange(start, start + count)
    return TensorDict(
        {"step": step, "n": {"x": np.stack([step, step], 1) / 2, "t": [f"{i}" for i in step]}}, [count]
    )


def table(size: int = 6) -> Columns:
    return Columns(blank(rows(1), size))


def write(columns: Columns, data: object, where: object, many: bool = True) -> None:
    for array, value in columns.pairs(data, many):
        array[where] = value


def test_lazy_stacks_are_written() -> None:
    columns = table()
    write(columns, lazy_stack([rows(1, i)[0] for i in (5, 7)], 0), slice(0, 2))
    assert columns.take(np.arange(2))["step"].tolist() == [5, 7]
    tasks = lazy_stack([TensorDict(a=1, n=TensorDict(b=2)), TensorDict(a=1, n=TensorDict(c=2))])
    raises(RuntimeError, r"only some rows have .*'b'\), \('n', 'c'\)\]. LazyStackStorage", blank, tasks, 5)


def test_names_of_dimensions_after_the_rows_stay() -> None:
    steps = TensorDict({"x": np.zeros((3, 2)), "n": {"y": np.zeros((3, 2))}}, [3, 2], names=["env", "time"])
    taken = Columns(blank(steps, 5)).take(np.zeros((1, 4), np.int64))
    assert taken.names == taken["n"].names == [None, None, "time"]
    assert Columns(blank(steps[:, 0], 5)).take(np.arange(2)).names == [None]


class Frame(TensorClass):
    x: np.ndarray
    y: np.ndarray


def test_tensorclasses_stay_what_they_are() -> None:
    frame = Frame(x=np.arange(3), y=np.ones((3, 2)), batch_size=[3])
    columns = Columns(blank(frame, 5))
    write(columns, frame, slice(0, 3))
    got = columns.take(np.array([2]))
    assert isinstance(got, Frame)
    assert got.x.tolist() == [2]
    nested = Columns(blank(TensorDict({"f": frame}, [3]), 5))
    write(nested, TensorDict({"f": frame}, [3]), slice(0, 3))
    assert nested.take(np.array([1]))["f"].x.tolist() == [1]


def test_what_does_not_fit() -> None:
    for change, error, message in (
        (lambda td: td.exclude("step"), KeyError, r"missing \['step'\]"),
        (lambda td: td.set("more", np.zeros(2)), KeyError, r"not known \['more'\]"),
        (lambda td: td.exclude(("n", "x")), KeyError, r"below \('n',\)"),
        (lambda td: td.set("step", np.zeros((2, 1), int)), RuntimeError, r"rows of shape \(1,\)"),
        (lambda td: td.set("step", np.zeros(2)), TypeError, "is float64, which the storage's int64 cannot"),
        (lambda td: td.set("step", ["a", "b"]), TypeError, "object"),
        (lambda td: td.set("n", np.zeros(2)), TypeError, "expected a TensorDict"),
        (lambda td: 3, TypeError, "holds a TensorDict, got int"),
    ):
        columns = table()
        raises(error, message, columns.pairs, change(rows(2)), True)


def test_objects_only_in_memory() -> None:
    assert isinstance(blank(rows(1), 3)["n"]._data["t"], NonTensorStack)
    raises(TypeError, "ListStorage holds any object", blank, "text", 3)
