"""Sums and minima of leaves in a binary tree, compiled for the CPU.

Node i has the children 2i and 2i + 1, the root is node 1, the leaves are the second half of the array. A
batch walks the tree level by level, so that memory accesses within a level overlap. `least` tells a tree of
minima from one of sums.
"""

import numpy as np

from lite.kernels._types import Floats, Ints
from lite.kernels.backends.jit import jit


@jit
def _parent(tree: Floats, node: int, least: bool) -> None:
    a, b = tree[2 * node], tree[2 * node + 1]
    if least:
        tree[node] = a if a < b else b
    else:
        tree[node] = a + b


def _plain_update(tree: Floats, index: Ints, values: Floats, nodes: Ints, least: bool) -> int:
    size, join = tree.size // 2, np.minimum if least else np.add
    outside = (index < 0) | (index >= size)
    invalid = outside | ~((values >= 0) & (least | (values < np.inf)))
    if invalid.any():
        i = int(invalid.argmax())
        return i if outside[i] else -2 - i
    tree[size + index] = values
    changed = size + index
    while size > 1 and changed.size:
        size //= 2
        changed = np.unique(changed // 2)
        tree[changed] = join(tree[2 * changed], tree[2 * changed + 1])
    return -1


@jit(entry=True, plain=_plain_update)
def update(tree: Floats, index: Ints, values: Floats, nodes: Ints, least: bool) -> int:
    """Set leaves, and update all nodes above them; of two values for one leaf the later one counts.

    `nodes` is scratch memory as long as `index`. Returns -1, or, before anything is written, i if `index[i]`
    is invalid and -2 - i if `values[i]` is.
    """
    size = tree.size // 2
    for i in range(index.size):
        if not 0 <= index[i] < size:
            return i
        if not (values[i] >= 0 and (least or values[i] < np.inf)):
            return -2 - i
    for i in range(index.size):
        nodes[i] = size + index[i]
        tree[nodes[i]] = values[i]
    count = index.size
    width = size
    while width > 1 and count > 0:
        width //= 2
        if width <= count:  # updating the whole level, and those above it, is no more work
            for node in range(width, 2 * width):
                _parent(tree, node, least)
            continue
        kept, last = 0, 0
        for i in range(count):
            node = nodes[i] // 2
            if node != last:  # neighbours share their parent
                _parent(tree, node, least)
                nodes[kept] = node
                kept += 1
                last = node
        count = kept
    return -1


def _plain_search(tree: Floats, mass: Floats, nodes: Ints) -> int:
    invalid = ~(mass >= 0)
    if invalid.any():
        return int(invalid.argmax())
    nodes[:] = 1
    size = tree.size // 2
    width = 1
    while width < size:
        nodes *= 2
        weight = tree[nodes].astype(np.float64)
        right = (mass >= weight) & (tree[nodes + 1] > 0)
        nodes += right
        np.subtract(mass, weight, out=mass, where=right)
        width *= 2
    nodes -= size
    return -1


@jit(entry=True, plain=_plain_search)
def search(tree: Floats, mass: Floats, nodes: Ints) -> int:
    """Write the leaf at which the running sum exceeds each mass to `nodes`; `mass` is overwritten.

    A subtree of weight 0 is never entered, whatever rounding left of the mass. The direction is computed
    without a branch, because its prediction would be wrong half of the time. Returns -1, or i if `mass[i]` is
    not at least 0.
    """
    size = tree.size // 2
    for i in range(mass.size):
        if not mass[i] >= 0:
            return i
        nodes[i] = 1
    width = 1
    while width < size:
        for i in range(mass.size):
            left = np.uintp(2 * nodes[i])  # unsigned, so that nothing checks for a negative index
            weight = np.float64(tree[left])
            right = (mass[i] >= weight) & (tree[left + np.uintp(1)] > 0)
            nodes[i] = 2 * nodes[i] + right
            mass[i] -= weight if right else 0.0
        width *= 2
    for i in range(mass.size):
        nodes[i] -= size
    return -1
