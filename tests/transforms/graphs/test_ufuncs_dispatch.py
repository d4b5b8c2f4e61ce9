"""From calls of NumPy's functions to rules."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.graphs import new_graph

import lite._transforms.graphs.trace  # noqa: F401 - the rules
from lite import TensorDict
from lite._transforms.graphs.array import GraphArray


def test_a_function_without_a_rule_names_itself_and_the_module() -> None:
    for call, name in [
        (lambda x: np.linalg.svd(x), "numpy.linalg.svd"),
        (lambda x: np.fft.fft(x), "numpy.fft.fft"),
        (lambda x: np.nanmedian(x), "numpy.nanmedian"),
        (lambda x: np.linalg.pinv(x), "numpy.linalg.pinv"),
    ]:
        graph, (x,) = new_graph(n=211)
        with (
            graph.running("critic.1"),
            pytest.raises(
                NotImplementedError, match=f"the module 'critic.1' calls {name}, which has no rule"
            ),
        ):
            call(x)


def test_arguments_without_a_rule_say_why() -> None:
    _, (x,) = new_graph(n=211)
    raises(NotImplementedError, r"calls numpy\.split with arguments .*: a dynamic dimension", np.split, x, 2)


def test_out() -> None:
    _, (x,) = new_graph(n=211)
    out = np.zeros_like(x, shape=(x.shape[0],))
    np.testing.assert_equal(np.sum(x, 1, out=out) is out, True)
    raises(NotImplementedError, "into an ndarray", np.sum, x, 1, out=np.zeros(211, np.float32))


def test_tensordicts_hold_them() -> None:
    _, (x,) = new_graph(n=211)
    td = TensorDict({"a": x, "b": {"c": x * 2}}, [211])
    summed = (td + 1).sum(dim=0)
    np.testing.assert_equal((type(summed["b", "c"]), summed["b", "c"].shape), (GraphArray, (3,)))
    np.testing.assert_equal(td.reshape(-1, 1)["a"].shape, (211, 1, 3))
    np.testing.assert_equal(td.contiguous().view(-1, 1)["a"].shape, (211, 1, 3))
    np.testing.assert_equal(td[x[:2].astype(np.int64)]["b", "c"].shape, (2, 3, 3))
    chosen = td[x[:, 0] > 0]
    np.testing.assert_equal(chosen["b", "c"].shape, (*chosen.batch_size, 3))
    np.testing.assert_equal(td[x[:, 0] > 0].batch_size == chosen.batch_size != (211,), True)
    with pytest.raises(IndexError, match="too many indices"):
        td[x[:, 0].astype(np.int64), 0]
