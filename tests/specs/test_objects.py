import numpy as np
from helpers.cases import raises

from lite import NonTensorData, NonTensorStack, TensorDict
from lite.data import NonTensor


def test_objects() -> None:
    spec = NonTensor((3,), example_data="s")
    assert spec.dtype is None
    zero = spec.zero()
    assert isinstance(zero, NonTensorData)
    assert (zero.data, zero.batch_size) == ("s", (3,))
    for made in (spec.zero((2,)), spec.one((2,)), spec.rand((2,))):
        assert made.tolist() == [["s"] * 3] * 2
    assert NonTensor((3,), example_data="s", batched=True).zero().tolist() == ["s"] * 3
    assert isinstance(NonTensor((2, 3), example_data="s", feature_dims=1).zero(), NonTensorStack)
    raises(ValueError, "feature_dims", NonTensor, (3,), batched=True, feature_dims=0)
    assert spec.is_in("any object")
    assert spec.is_in(None)
    assert spec.is_in(NonTensorStack("x", "y", "z"))
    assert not spec.is_in(NonTensorStack("x", "y"))
    assert not spec.is_in(np.zeros(3))
    assert not spec.is_in(TensorDict(batch_size=[3]))
    assert spec != NonTensor((3,), example_data="t")
    assert NonTensor(2, example_data=np.arange(3)) == NonTensor(2, example_data=np.arange(3))
    assert NonTensor(2, example_data=np.arange(3)) != NonTensor(2, example_data=np.arange(4))
