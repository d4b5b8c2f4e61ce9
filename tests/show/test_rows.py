"""What is said of each entry, shared ones first."""

import numpy as np

from lite import NonTensorStack, TensorDict, lazy_stack, nn
from lite._show.rows import places, rows, size_text


def test_entries_of_a_tensordict() -> None:
    td = TensorDict({"b": np.zeros((2, 3), np.int8), "a": {"x": np.ones(2)}, "s": "text"}, [2])
    found = {row.key: row for row in rows(td)}
    assert list(found) == ["b", "a", "s"]
    assert found["b"][1:] == (None, "Array", (2, 3), "int8", "cpu", 6, None)
    assert found["a"].entry is td["a"]
    assert (found["s"].kind, found["s"].shape, found["s"].nbytes) == ("NonTensorData", (2,), None)
    assert [holder for holder, _, _ in places(td)] == [td] * 3


def test_parts_that_cannot_be_stacked() -> None:
    stack = lazy_stack([TensorDict(a={"x": 1}), TensorDict(a=NonTensorStack("u"))])
    (row,) = rows(stack)
    assert row.entry is None


def test_bytes_for_people() -> None:
    for nbytes, text in (
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (1 << 50, "1024.0 TiB"),
    ):
        assert size_text(nbytes) == text


def test_parameters_without_a_shape_yet() -> None:
    found = list(rows(TensorDict.from_module(nn.LazyLinear(2))))
    assert [(row.key, row.shape, row.nbytes) for row in found] == [("weight", (-1,), 0), ("bias", (-1,), 0)]
