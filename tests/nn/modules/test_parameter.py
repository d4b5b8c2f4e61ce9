"""Parameter: computes like its array, keeps its identity."""

import copy
import pickle

import numpy as np
import pytest
from helpers.cases import raises

from lite import enable_grad, nn


@pytest.fixture
def p():
    return nn.Parameter(np.arange(6, dtype=np.float32).reshape(2, 3))


def test_shares_the_array(p):
    array = np.zeros(2, dtype=np.float32)
    assert nn.Parameter(array).data is array
    assert nn.Parameter(p).data is p.data
    assert np.asarray(p) is p.data or np.shares_memory(np.asarray(p), p.data)
    assert p.numpy() is p.data


def test_python_numbers_take_the_default_dtype():
    assert nn.Parameter([1.0, 2.0]).dtype == np.float32
    assert nn.Parameter(np.float64(2)).dtype == np.float64


def test_arithmetic_gives_plain_arrays(p):
    for value in (
        p + 1,
        1 + p,
        p @ np.ones(3, dtype=np.float32),
        np.ones(2) @ p,
        np.exp(p),
        p[0],
        p.T,
        p.sum(0),
    ):
        assert type(value) is np.ndarray
    np.testing.assert_array_equal(np.ones((2, 3)) - p, 1 - p.data)
    assert np.stack([p, p]).shape == (2, 2, 3)
    assert np.concatenate((p, p), axis=0).shape == (4, 3)
    assert (p == p.data).all()


def test_in_place_operators_keep_the_parameter(p):
    array = p.data
    same = p
    p += 1
    assert p is same
    assert p.data is array
    assert array[0, 0] == 1
    p[0] = nn.Parameter(np.zeros(3, dtype=np.float32))
    np.testing.assert_array_equal(array[0], np.zeros(3))
    np.copyto(p, 2)
    np.add(p, 1, out=p)
    np.testing.assert_array_equal(array, np.full((2, 3), 3))


def test_scalars_and_sequences(p):
    one = nn.Parameter(np.array(2.5, dtype=np.float32))
    assert float(one) == 2.5
    assert int(one) == 2
    assert bool(one)
    assert len(p) == 2
    assert [row.shape for row in p] == [(3,), (3,)]


def test_requires_grad():
    raises(RuntimeError, "int64", lambda: nn.Parameter(np.zeros(2, dtype=np.int64)))
    integers = nn.Parameter(np.zeros(2, dtype=np.int64), requires_grad=False)
    raises(RuntimeError, "int64", lambda: integers.requires_grad_())
    assert integers.requires_grad_(False) is integers


def test_copies(p):
    assert copy.copy(p).data is p.data
    deep = copy.deepcopy(p)
    assert not np.shares_memory(deep.data, p.data)
    loaded = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(loaded, p)
    assert loaded.requires_grad


def test_missing_attribute_and_repr(p):
    with pytest.raises(AttributeError, match="nope"):
        _ = p.nope
    assert not hasattr(p, "__cuda_array_interface__")
    assert repr(nn.Parameter(np.zeros(1))) == "Parameter containing:\narray([0.])"


def test_gradients_are_added_in_place():
    p = nn.Parameter(np.ones(2))
    with enable_grad():
        (2 * p).sum().backward()
        held = p.grad
        (3 * p).sum().backward()
    assert p.grad is held
    np.testing.assert_array_equal(held, [5, 5])
    held.flags.writeable = False
    with enable_grad():
        (2 * p).sum().backward()
    np.testing.assert_array_equal(p.grad, [7, 7])
    np.testing.assert_array_equal(held, [5, 5])


def test_what_training_asks_for():
    p = nn.Parameter(np.ones(2, dtype=np.float32))
    assert (p.grad, p.grad_fn, p.is_leaf, p.retains_grad, p.retain_grad()) == (None, None, True, False, None)
    assert p.detach() is p.data


def test_initialisers_write_in_place() -> None:
    weight = nn.Parameter(np.zeros((2, 3), np.float32))
    array = weight.data
    assert weight.fill_(2) is weight
    np.testing.assert_array_equal(array, np.full((2, 3), 2))
    weight.copy_(nn.Parameter(np.arange(3.0)))
    np.testing.assert_array_equal(array, [[0, 1, 2]] * 2)
    raises(ValueError, "broadcast", lambda: weight.copy_(np.zeros(4)))
    np.testing.assert_array_equal(weight.zero_().data, np.zeros((2, 3)))
    first = weight.normal_(5, 0.1, generator=0).data.copy()
    np.testing.assert_array_equal(first, np.random.default_rng(0).normal(5, 0.1, (2, 3)).astype(np.float32))
    assert (weight.uniform_(-1, -0.5, generator=np.random.default_rng(1)).data < -0.4).all()
    assert not np.array_equal(weight.normal_().data, nn.Parameter(np.zeros((2, 3))).normal_().data)
    raises(ValueError, "std must not be negative, got -1", lambda: weight.normal_(0, -1))
    assert weight.data is array
    meta = nn.Linear(2, 3, device="meta").weight
    assert meta.fill_(1).is_meta
    assert meta.normal_().is_meta


def test_hooks_after_a_gradient_was_added():
    parameter, seen = nn.Parameter(np.ones(2)), []
    handle = parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.copy()))
    for _ in range(2):
        with enable_grad():
            (parameter * 3).sum().backward()
    np.testing.assert_array_equal(seen, [[3, 3], [6, 6]])
    handle.remove()
    parameter.grad = np.broadcast_to(1.0, 2)  # not to be written to
    parameter.clear_grad(False)
    np.testing.assert_array_equal(parameter.grad, [0, 0])
    with pytest.raises(RuntimeError, match="a hook needs a parameter with requires_grad"):
        nn.Parameter(np.ones(2), requires_grad=False).register_post_accumulate_grad_hook(print)


def test_backward_of_a_parameter_itself() -> None:
    p = nn.Parameter(np.array(3.0))
    with enable_grad():
        p.backward()
    assert p.grad == 1
    raises(RuntimeError, "backward", lambda: p.backward())
