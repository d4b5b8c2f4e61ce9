"""TensorDict's methods, properties and class methods on tensorclasses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.tensorclasses import Tokens

from lite import TensorClass, TensorDict, lazy_stack


def test_methods_are_found_by_super_and_on_the_class():
    class Counted(TensorClass):
        x: Any

        def clone(self, recurse: bool = True) -> Any:
            return super().clone(recurse) + 1

        @property
        def names(self) -> Any:
            return [str(name) for name in super().names]

        @classmethod
        def stack(cls, items: Any, dim: int = 0) -> Any:
            return super().stack(list(items), dim)

        def __add__(self, other: Any) -> Any:
            return super().__add__(other * 2)

    one = Counted(x=np.zeros(2), batch_size=[2], names=["a"])
    assert type(one.clone()) is type(one.reshape(1, 2)) is Counted
    np.testing.assert_array_equal(one.clone().x, [2, 2])
    assert one.names == ["a"]
    assert type(Counted.stack(iter([one, one]))) is Counted
    np.testing.assert_array_equal(TensorClass.exp(one).x, [1, 1])
    assert Counted.sum.__doc__ == TensorDict.sum.__doc__
    one.is_locked = True
    assert one.is_locked
    with pytest.raises(AttributeError):
        one.sorted_keys = []


def test_out_is_returned_as_it_was_given():
    one, out = Tokens(full=np.zeros(2), batch_size=[2]), Tokens(full=np.ones(2), batch_size=[2])
    mask = np.array([True, False])
    assert one.where(mask, one + 2, out=out) is out
    np.testing.assert_array_equal(out.full, [0, 2])


def test_every_public_name_of_a_tensordict_is_on_the_class():
    names = [name for name in dir(TensorDict) if not name.startswith("_")]
    assert [name for name in names if not hasattr(TensorClass, name)] == []
    rows = lazy_stack([Tokens(full=np.zeros(2)), Tokens(full=np.ones(3))])
    rows.insert(0, Tokens(full=np.ones(1)))
    assert (len(rows), rows.stack_dim) == (3, 0)
    with pytest.raises(AttributeError, match="'Tokens' object has no attribute 'stack_dim'"):
        _ = rows[0].stack_dim
