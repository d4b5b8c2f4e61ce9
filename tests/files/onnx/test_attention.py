"""Ways from the weights of an attention back to the product of queries and keys."""

from typing import Any

from lite._files.onnx.attention import MAX_STEPS, ways_to_scores

PRODUCT = {"s": ("MatMul", ["q", "k"])}


def ways(graph: dict[str, Any], start: str = "w") -> list[Any]:
    return list(ways_to_scores(start, graph.get))


def test_a_way_names_its_nodes_from_the_last_one_on() -> None:
    graph = PRODUCT | {
        "a": ("Div", ["s", "root"]), "b": ("Add", ["mask", "a"]), "p": ("Softmax", ["b"]),
        "n": ("IsNaN", ["p"]), "w": ("Where", ["n", "zero", "p"]),
    }  # fmt: skip
    assert ways(graph) == [("s", [("w", 2), ("p", 0), ("b", 1), ("a", 0)])]


def test_there_may_be_two_products() -> None:
    graph = PRODUCT | {"t": ("MatMul", ["q", "r"]), "b": ("Add", ["s", "t"]), "w": ("Softmax", ["b"])}
    assert [name for name, _ in ways(graph)] == ["t", "s"]


def test_without_one_softmax_there_is_none() -> None:
    assert ways(PRODUCT | {"w": ("Add", ["s", "mask"])}) == []
    assert ways(PRODUCT | {"w": ("MatMul", ["s", "v"])}) == []
    assert ways(PRODUCT | {"a": ("Softmax", ["s"]), "w": ("Softmax", ["a"])}) == []
    assert ways(PRODUCT | {"a": ("Tanh", ["s"]), "w": ("Softmax", ["a"])}) == []


def test_a_circle_ends() -> None:
    graph = {"a": ("Add", ["b", "b"]), "b": ("Add", ["a", "a"]), "w": ("Softmax", ["a"])}
    assert ways(graph) == []
    long = {f"{i}": ("Identity", [f"{i + 1}"]) for i in range(5 * MAX_STEPS)} | {"w": ("Softmax", ["0"])}
    assert ways(long | {f"{5 * MAX_STEPS}": ("MatMul", ["q", "k"])}) == []
