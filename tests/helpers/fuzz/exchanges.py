"""Ways in and out: results written into TensorDicts, state dicts, nested lists, stacks of objects."""

from typing import Any

import numpy as np
from helpers.fuzz.choices import Choices, leaf, strings
from helpers.fuzz.given import Listed, Stacked
from helpers.fuzz.joins import join
from helpers.fuzz.keys import elements_or_self, leaves_below, plain
from helpers.fuzz.model import One, Refused, Rows, Tree, copied, has_rows, leaves, objects, regular, stacks
from helpers.fuzz.moves import choose
from helpers.fuzz.numbers import apply
from helpers.fuzz.reductions import reduce
from helpers.fuzz.register import OPERATIONS, Call, calls, operation
from helpers.fuzz.writes import store, unlocked

INTO = ("stack", "cat", "lazy_stack", "where", "gather", "logsumexp", "apply double", "apply other")


def into(name: str) -> None:
    """The operation with `out=`, a TensorDict of zeros: that very one comes back, its arrays written to."""

    @operation(f"into {name}")
    def run(td: Any, *args: Any, **kwargs: Any) -> Any:
        return [copied(OPERATIONS[name](td, *args, **kwargs)), True]


for _name in INTO:
    into(_name)


@operation("state dict")
def state_dict(td: Any) -> Any:
    """What another TensorDict with the same keys holds after it has loaded the state of this one."""
    if not all(regular(stack) for stack in stacks(td)):
        raise Refused("RuntimeError")
    found = [item for row in elements_or_self(td) for item in leaves_below(row)]
    if any(node.kind and isinstance(value, One) and value.value is None for _, node, value in found):
        raise NotImplementedError  # None in a field is the same as nothing
    return copied(td)


@operation("state dict of nothing")
def state_dict_of_nothing(td: Any) -> Any:
    """The same, for one without entries: the arrays and objects by key."""
    if any("." in key for key in td.entries):
        raise NotImplementedError  # these are names of nodes for whoever does not know better
    return {str(path): plain(value) for path, _, value in sorted(leaves(td), key=lambda leaf: str(leaf[0]))}


@operation("set lists", in_place=True)
def set_lists(td: Any, key: Any, arrays: Any) -> Any:
    """An array for each element, as lists in lists."""
    unlocked(td)
    for at, row in np.ndenumerate(td.array):
        store(row, key, arrays[at])
    return td


# -- calls ------------------------------------------------------------------------------------


@calls(6)
def written_into(c: Choices, v: list[Any], at: int) -> Call:
    call = c.pick([join, reduce, apply, choose])(c, v, at)
    return Call(f"into {call.name}", call.args, call.kwargs) if call.name in INTO else call


@calls(3)
def state(c: Choices, v: list[Any], at: int) -> Call:
    td = v[at]
    if not has_rows(td) and c.one_in(2):
        return Call("state dict of nothing")
    return Call("state dict")


@calls(4)
def lists(c: Choices, v: list[Any], at: int) -> Call:
    """Numbers, arrays or objects for every element of the batch."""
    td = v[at]
    size, key = td.shape, c.pick(["a", "new", "g", ("n", "a")])
    inner = td.entries.get("n") if isinstance(td, Tree) else None
    if not size or 0 in size or (key == ("n", "a") and getattr(inner, "shape", None) != size):
        return Call("clone")
    kind = c.pick(["numbers", "arrays", "objects", "stacks", "lists"])
    name = c.pick(["set", "set item"])
    if kind == "objects":
        return Call(name, (key, strings(size, c.below(3))))
    if kind == "stacks":
        dims = tuple(c.below(n + 1) for n in reversed(range(len(size))))
        return Call(name, (key, Stacked(strings(size, c.below(3)), dims)))
    if kind == "lists" and isinstance(td, Rows):
        arrays = [leaf((2,), "float32", i) for i in range(int(np.prod(size)))]
        return Call("set lists", (key, Listed(objects(arrays, size), len(size))))
    array = leaf(size + c.pick([(), (2,), (1, 2)]), c.pick(["float32", "int64", "bool"]), c.below(5))
    depth = len(size) if kind == "arrays" and array.ndim > len(size) else array.ndim
    return Call(name, (key, Listed(array, depth)))
