"""Print options."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, get_printoptions, lazy_stack, set_printoptions


@pytest.fixture(autouse=True)
def _default_options():
    yield
    set_printoptions()


def nested() -> TensorDict:
    return TensorDict(
        {"b": np.arange(6).reshape(3, 2), "a": np.float32([1, 2, 3]), "n": {"z": np.ones(3, bool)}},
        batch_size=[3],
    )


def line(td: object, key: str) -> str:
    return next(text.strip() for text in repr(td).splitlines() if text.strip().startswith(f"{key}:"))


def test_details_of_arrays() -> None:
    base = np.arange(12.0).reshape(3, 4)
    td = TensorDict({"whole": np.zeros((3, 4)), "part": base[:, 1:3]}, batch_size=[3])
    with set_printoptions(
        verbose=False, show_grad=True, show_is_contiguous=True, show_is_view=True, show_storage_size=True
    ):
        assert line(td, "part") == (
            "part: Array(shape=(3, 2), requires_grad=False, is_contiguous=False, is_view=True, "
            "storage_size=96),"
        )
        assert "is_contiguous=True, is_view=False, storage_size=96" in line(td, "whole")


def test_plain_adds_statistics() -> None:
    for value, text in (
        (np.array([1.0, 2.0, 4.0]), "mean=2.333, std=1.528"),
        (np.array(3.0), "mean=3, std=nan"),
        (np.array([3, -1], np.int8), "min=-1, max=3"),
        (np.array([True, False]), "min=False, max=True"),
        (np.array([1 + 2j, 3 + 2j]), "mean=2+2j, std=1.414"),
        (np.array([np.nan, 1.0]), "mean=nan, std=nan"),
    ):
        with set_printoptions(plain=True):
            assert text in line(TensorDict(x=value), "x")


def test_plain_of_a_lazy_stack_is_that_of_all_parts_and_ragged_entries_have_none() -> None:
    rows = [TensorDict(x=np.full(2, i), r=np.zeros(i)) for i in (1, 4)]
    with set_printoptions(plain=True, verbose=False):
        text = repr(lazy_stack(rows))
    assert "x: Array(shape=(2, 2), min=1, max=4)" in text
    assert "r: Array(shape=(2, -1))" in text


def test_order_of_keys() -> None:
    def keys(text: str) -> list[str]:
        return [row.strip()[0] for row in text.splitlines() if ": " in row]

    td = TensorDict({"b": 1, "c": 2, "a": 3})
    with set_printoptions(sort_keys="insertion"):
        assert keys(repr(td)) == ["b", "c", "a"]
    with set_printoptions(sort_keys=lambda key: -ord(key)):
        assert keys(repr(td)) == ["c", "b", "a"]
    assert keys(repr(td)) == ["a", "b", "c"]


def test_as_function_and_context() -> None:
    full = repr(nested())
    set_printoptions(show_dtype=False)
    assert "dtype" not in repr(nested())
    assert not get_printoptions()["show_dtype"]
    set_printoptions()
    assert repr(nested()) == full
    with set_printoptions(show_dtype=False):
        with set_printoptions(show_shape=False):
            assert "shape=" not in repr(nested())
            assert "dtype" in repr(nested())
        assert "dtype" not in repr(nested())
    assert repr(nested()) == full


def test_unknown_options_raise_and_change_nothing() -> None:
    full = repr(nested())
    raises(TypeError, "show_nothing", set_printoptions, show_nothing=True, show_dtype=False)
    raises(ValueError, "sort_keys must be", set_printoptions, sort_keys="random")
    assert repr(nested()) == full


def test_options_for_a_function_and_again() -> None:
    td = TensorDict(a=1)
    options = set_printoptions(show_device=False)
    shown = options(lambda: repr(td))
    assert "device" in repr(td)
    assert "device=None" not in shown()
    options.set()
    assert "device=None" not in repr(td)
    options.unset()
    assert "device=None" in repr(td)
