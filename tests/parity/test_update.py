"""`update` between batch sizes, with every option, against tensordict: results, or the class of the error."""

from itertools import product

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.compared import on_both
from helpers.parity_trees import LITE, TORCH, array, same

compared = on_both(same)


pytestmark = pytest.mark.filterwarnings("ignore")


def flat(n, seed=0, **more):
    return ("dense", (n,), {"x": array((n, 2), seed), **more})


def nested(n, seed=0, **more):
    return ("dense", (n,), {"x": array((n, 2), seed), "n": ("dense", (n,), {"y": array((n,), seed), **more})})


def rows(count, n, seed=0):
    return ("lazy", 0, [flat(n, seed + i) for i in range(count)])


def below(tree):
    return ("dense", (), {"n": tree})


TREES = {
    "flat": (flat(2), flat(3, 1)),
    "flat of the same size": (flat(2), flat(2, 1)),
    "key that the source lacks": (flat(2, z=array((2,), 5)), flat(3, 1)),
    "nested": (nested(2), nested(3, 1)),
    "nested key that the source lacks": (nested(2, z=array((2,), 5)), nested(3, 1)),
    "empty": (("dense", (2,), {}), nested(3, 1)),
    "empty node": (("dense", (2,), {"n": ("dense", (2,), {})}), nested(3, 1)),
    "fewer dims": (nested(2), ("dense", (), {"x": array((2, 2), 1)})),
    "more dims": (flat(2), ("dense", (2, 2), {"x": array((2, 2), 1)})),
    "more dims of other sizes": (flat(2), ("dense", (3, 2), {"x": array((3, 2), 1)})),
    "node": (below(flat(2)), below(flat(3, 1))),
    "node with a key that the source lacks": (below(flat(2, z=array((2,), 5))), below(flat(3, 1))),
    "parts": (rows(2, 2), rows(2, 3, 5)),
    "shorter stack": (rows(2, 2), rows(1, 2, 5)),
    "shorter stack of other parts": (rows(2, 2), rows(1, 3, 5)),
    "parts in a node": (below(rows(2, 2)), below(rows(2, 3, 5))),
    "shorter stack in a node": (below(rows(2, 2)), below(rows(1, 3, 5))),
    "dense from a stack": (("dense", (2, 2), {"x": array((2, 2, 2), 1)}), rows(3, 2)),
    "text": (flat(2, s="old"), flat(3, 1, s="new")),
}
OPTIONS = [{}, {"clone": True}, {"inplace": True}, {"keys_to_update": ["x", ("n", "x"), ("n", "y")]}]


@each_case("name", TREES)
@each_case("options", OPTIONS, ids=str)
def test_update_batch_size(name, options):
    target, source = TREES[name]
    if "shorter stack" in name and options.keys() & {"inplace", "keys_to_update"}:
        return  # a row of the differences: the reference writes the parts that both have
    if name == "parts" and "keys_to_update" in options:
        return  # as for a dense TensorDict; the reference takes no notice of the batch size of parts

    def update(side):
        td = side.build(target).update(side.build(source), update_batch_size=True, **options)
        return td.clone()  # as the reference remembers the batch size that a lazy stack had

    same(update)


@pytest.mark.parametrize("wrap", [dict, lambda pairs: {"m": dict(pairs)}])
@compared
def test_update_batch_size_of_nodes_in_a_mapping(side, wrap):
    td = side.lib.TensorDict(wrap({"n": side.build(flat(2))}))
    return td.update(wrap({"n": side.build(flat(3, 1))}), update_batch_size=True)


@each_case(("inplace", "given"), [*product([False, True], repeat=2)])
@compared
def test_gather_with_out_and_inplace(side, inplace, given):
    td, out = side.build(nested(3)), side.build(nested(3)).zero_() if given else None
    result = td.gather(0, side.leaf(np.array([2, 0, 1])), out=out, inplace=inplace)
    return result is td, result is out, result


def test_the_reference_takes_all_of_a_new_node():
    """The row `update(keys_to_update=[("n", "a")])` of the differences."""

    def update(side):
        td = side.lib.TensorDict(batch_size=[2])
        td.update(side.build(nested(2, z=array((2,), 5))), keys_to_update=[("n", "y")])
        return sorted(td.keys(True, True))

    assert update(LITE) == [("n", "y")]
    assert update(TORCH) == [("n", "y"), ("n", "z")]
