"""Which calls of layers are one node."""

from typing import Any

import numpy as np

import lite
from lite import nn, vmap
from lite._transforms.grad.array import TracedArray
from lite.nn.layers.recorded import is_recorded


def test_plain_arrays_behind_traced_ones() -> None:
    x = np.ones((2, 3))

    def asked(y: Any) -> Any:
        assert type(y) is TracedArray
        assert is_recorded(x, y, None)
        assert is_recorded(y)
        assert not is_recorded(x, None)
        return y.sum()

    lite.grad(asked)(x)


def test_arrays_of_maps() -> None:
    found = []

    def inside(y: Any) -> Any:
        found.append(is_recorded(y))
        return (y * y).sum()

    x = np.ones((2, 3))
    vmap(lite.grad(inside))(x)  # maps behind traced arrays
    lite.grad(lambda y: vmap(inside)(y).sum())(x)  # traced arrays behind maps
    assert found == [False, False]


def nodes(out: Any) -> int:
    """How many computations are behind a result."""
    seen, pending = set(), [out.node]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        vjp = node.vjp
        pending += [parent for parent, _ in node.parents or ()]
        pending += list(vjp.nodes) if vjp is not None else []
    return len([node for node in seen if node.parents or node.vjp is not None])


def test_a_network_is_one_node_per_layer() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8), nn.Softmax(-1))
    with lite.enable_grad():
        assert nodes(net(np.ones((4, 3), np.float32))) == 5
        gru = nn.GRU(3, 4)
        assert nodes(gru(np.ones((9, 2, 3), np.float32))[0]) == 1
        image = np.ones((2, 3, 8, 8), np.float32)
        layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(3))
        assert nodes(layers(image)) == 4
