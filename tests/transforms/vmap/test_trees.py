"""Arguments and results as flat lists."""

from collections import namedtuple

from helpers.cases import raises

from lite._transforms.vmap.trees import Mismatch, broadcast_prefix, flatten, outline, unflatten

Pair = namedtuple("Pair", ["x", "y"])
TREE = {"a": [1, (2, 3)], "b": Pair(4, {}), "c": 5}


def test_unflatten_is_the_inverse_of_flatten() -> None:
    flat, plan = flatten(TREE)
    assert flat == [1, 2, 3, 4, 5]
    back = unflatten([10 * item for item in flat], plan)
    assert back == {"a": [10, (20, 30)], "b": Pair(40, {}), "c": 50}
    assert type(back["b"]) is Pair


def test_dimensions_that_stop_at_a_level_above_hold_below() -> None:
    dims = {"c": None, "a": 0, "b": (1, {})}
    assert broadcast_prefix(dims, TREE, lambda dim: dim is None or isinstance(dim, int)) == [0, 0, 0, 1, None]


def test_another_structure() -> None:
    for dims in ({"a": 0, "b": 0}, [0, 0, 0], {"a": [0], "b": 0, "c": 0}):
        raises(Mismatch, "", broadcast_prefix, dims, TREE, lambda dim: True)


def test_what_is_no_dimension_is_named() -> None:
    raises(ValueError, "text", broadcast_prefix, ["text", 0], [1, 2], lambda dim: isinstance(dim, int))


def test_outline() -> None:
    assert outline(TREE) == "{'a': list(*, tuple(*, *)), 'b': Pair(*, {}), 'c': *}"
