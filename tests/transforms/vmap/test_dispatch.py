"""How a call of a NumPy function finds its rule."""

import numpy as np
import pytest
from helpers.vmap_cases import rows

from lite import TensorDict, vmap
from lite._transforms.vmap.loop import _warned


def test_out_is_written_after_the_rule() -> None:
    def fn(v: np.ndarray) -> np.ndarray:
        out = np.zeros_like(v)
        assert np.flip(v) is not out
        np.stack([v[0], v[1]], out=out)
        return out

    np.testing.assert_array_equal(vmap(fn)(rows()), rows())


def test_a_rule_that_does_not_cover_its_arguments_leaves_them_to_the_loop() -> None:
    _warned.discard("numpy.tril")
    with pytest.warns(UserWarning, match=r"this call of numpy\.tril"):
        out = vmap(lambda v, k: np.tril(v, k))(np.ones((2, 3, 3)), np.array([0, -1]))
    np.testing.assert_array_equal(out, [np.tril(np.ones((3, 3)), k) for k in (0, -1)])


def test_tensordicts_answer_before_mapped_arrays() -> None:
    out = vmap(lambda v: np.add(v, TensorDict(a=np.ones(2), batch_size=[2])))(rows())
    np.testing.assert_array_equal(out["a"], rows() + 1)
