"""What is said of each entry, shared ones first."""

from lite import NonTensorStack, TensorDict, lazy_stack, nn
from lite._show.rows import rows, size_text


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
