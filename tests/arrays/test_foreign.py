"""Arrays of other libraries over the same memory; torch's are tested in parity."""

from typing import Any

import numpy as np
from helpers.cases import each_case, raises
from helpers.exporter import Exporter

from lite import TensorDict, from_dlpack
from lite._arrays.foreign import is_foreign, is_tensor


class Extended(Exporter):
    """One of a dtype that NumPy cannot import, which knows how to become an ndarray."""

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise BufferError("no such dtype")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.array


@each_case("kind", [Exporter, Extended])
def test_memory_is_shared(kind: type[Exporter]) -> None:
    x = np.arange(3.0)
    assert is_foreign(kind(x))
    assert not is_tensor(kind(x))
    np.testing.assert_array_equal(from_dlpack(kind(x)), x)
    assert np.shares_memory(from_dlpack(kind(x)), x)
    assert np.shares_memory(TensorDict(a=kind(x))["a"], x)


def test_arrays_are_what_they_are_and_others_refused() -> None:
    x = np.arange(3)
    assert from_dlpack(x) is x
    raises(TypeError, "array must have __dlpack__, got list", from_dlpack, [1])
