"""Which arrays belong together: errors name the key, and nothing has changed."""

import itertools

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises

import lite
from lite import LazyStackedTensorDict, TensorDict, nn, optim


def tree(value=1.0, **more):
    return TensorDict({"a": np.full(2, value), "n": {"b": np.full((2, 1), value)}, **more})


def test_gradients_that_do_not_fit():
    for (grads, message), inplace in itertools.product(
        [
            (TensorDict({"a": np.ones(2)}), r"grads must have a TensorDict at 'n', as params has"),
            (TensorDict({"a": np.ones(2), "n": {}}),
                r"grads must have an array at \('n', 'b'\), as params has"),
            (tree(c=np.ones(1)), r"grads has the entry 'c', which params does not have"),
            (TensorDict({"a": np.ones(3), "n": {"b": np.ones((2, 1))}}),
                r"grads has the shape \(3,\) at 'a'"),
            (TensorDict({"a": np.ones(2), "n": {"b": np.ones((1, 2))}}),
                r"shape \(1, 2\) at \('n', 'b'\)"),
            (TensorDict({"a": np.ones(2, int), "n": {"b": np.ones((2, 1))}}),
                r"floating numbers, got int64 at 'a'"),
            (TensorDict({"a": {"x": np.ones(2)}, "n": {"b": np.ones((2, 1))}}),
                r"must have an array at 'a'"),
            (TensorDict({"a": np.ones(2), "n": np.ones(2)}), r"must have a TensorDict at 'n'"),
        ],
        [False, True],
    ):  # fmt: skip
        with noting(grads, message, inplace):
            params = tree()
            adam = optim.Adam(0.1)
            state = adam.init(params)
            raises(ValueError, message, adam.update_ if inplace else adam.update, params, grads, state)
            assert (params == tree()).all()
            assert int(state["step"]) == 0
            assert (state["exp_avg"] == tree(0.0)).all()


@each_case(
    ("state", "message"),
    [
        (optim.SGD(0.1, momentum=0.9).init(tree()), "state is not one of Adam with these options: expected"),
        (optim.Adam(0.1, amsgrad=True).init(tree()), "state is not one of Adam"),
        (optim.Adam(0.1).init(TensorDict(a=np.ones(2))), r"state\['exp_avg'\] must have a TensorDict at 'n'"),
        (optim.Adam(0.1).init(tree(c=np.ones(1))), r"state\['exp_avg'\] has the entry 'c'"),
        (optim.Adam(0.1).init(tree()).set("step", np.ones(2)), r"state\['step'\] must be one integer"),
        (optim.Adam(0.1).init(tree()).set("step", np.array(0.5)), r"state\['step'\] must be one integer"),
    ],
)
def test_states_that_do_not_fit(state, message):
    params = tree()
    raises(ValueError, message, lambda: optim.Adam(0.1).update_(params, tree(), state))
    assert (params == tree()).all()


@each_case("place", [0, 1, 2])
def test_no_tensordicts(place):
    given = [tree(), tree(), optim.Adam(0.1).init(tree())]
    given[place] = [np.ones(2)]
    with pytest.raises(
        TypeError, match=f"{['params', 'grads', 'state'][place]} must be a TensorDict, got list"
    ):
        optim.Adam(0.1).update(*given)


def test_objects_and_integers_take_no_part():
    params = tree(count=np.array([3]), name="net")
    new, _ = optim.SGD(0.5).update(params, tree())
    assert new["count"] == 3
    assert new["name"] == "net"
    np.testing.assert_array_equal(new["a"], [0.5, 0.5])
    new, _ = optim.SGD(0.5, momentum=0.5).update(params, tree(count=np.array([0]), name="net"))
    assert new["count"] == 3


def test_lazy_stacks():
    params = LazyStackedTensorDict.lazy_stack([tree(1.0), tree(2.0)])
    dense = lite.stack([tree(1.0), tree(2.0)])
    adam = optim.Adam(0.1)
    for grads in (params.clone(), dense):
        new, state = adam.update(params, grads)
        assert isinstance(new, LazyStackedTensorDict)
        new, _ = adam.update_(new, grads, state)
        expected, state = adam.update(dense, dense)
        assert np.allclose(new["a"], adam.update(expected, dense, state)[0]["a"])
    assert (params["a"] == dense["a"]).all()
    with pytest.raises(ValueError, match="grads must be a stack of 2, as params is, got 3"):
        adam.update(params, lite.stack([tree()] * 3))


def test_modules_in_place():
    net = nn.Linear(2, 3)
    params = TensorDict.from_module(net)
    weight = net.weight.data
    before = weight.copy()
    optim.SGD(0.5).update_(params, params.data.clone())
    assert net.weight.data is weight
    np.testing.assert_allclose(weight, before / 2)


def test_a_gradient_that_is_itself_differentiable():
    params = TensorDict(w=nn.Parameter(np.full(2, 3.0)))
    with lite.enable_grad():
        grads = lite.grad(lambda params: (params["w"] ** 2).sum())(params)
        optim.SGD(0.5).update_(params, grads)
    np.testing.assert_array_equal(params["w"].data, 0)


def test_read_only_parameters():
    params = tree()
    params["a"].flags.writeable = False
    raises(ValueError, "read-only: use update", lambda: optim.SGD(0.5).update_(params, tree()))
    assert (params == tree()).all()
    assert optim.SGD(0.5).update(params, tree())[0]["a"][0] == 0.5
