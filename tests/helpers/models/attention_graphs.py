"""Graphs of `handmade_exports.py` with other attention: small changes to a graph that sees all before."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers.models.handmade_exports import HEADS, Form, graph
from helpers.models.real_models import MODELS

CONCAT = Form("concat", width=32)
Change = Callable[[Any], object]


def first(model: Any, kind: str) -> Any:
    return next(node for node in model.graph.node if node.op_type == kind)


def give(model: Any, name: str, value: Any) -> str:
    from onnx import numpy_helper

    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def insert(model: Any, kind: str, *inputs: str, result: str, **attributes: Any) -> str:
    from onnx import helper

    model.graph.node.append(helper.make_node(kind, inputs, [result], **attributes))
    return result


def nothing(model: Any) -> None: ...


def other_scale(model: Any) -> None:
    scale = next(t for t in model.graph.initializer if t.name == "scale")
    scale.CopyFrom(type(scale)(name="scale", data_type=1, float_data=[0.6]))


def other_lowest(model: Any) -> None:
    """As older exporters have it."""
    lowest = next(t for t in model.graph.initializer if t.name == "lowest")
    lowest.CopyFrom(type(lowest)(name="lowest", data_type=1, float_data=[-10000.0]))


def filler_by_id(model: Any) -> None:
    """A token that nobody sees."""
    seen = first(model, "And")
    insert(model, "Equal", "input_ids", give(model, "pad", np.array(3)), result="is_pad")
    insert(
        model, "ReduceMax", insert(model, "Cast", "is_pad", result="pads", to=7), result="any_pad", keepdims=0
    )
    insert(model, "Not", insert(model, "Cast", "any_pad", result="there", to=9), result="no_pad")
    seen.input[1] = insert(model, "And", seen.input[1], "no_pad", result="exists_and_is_none")


def window(model: Any, length: int) -> None:
    """Tokens see so many at most."""
    causal = first(model, "LessOrEqual")
    give(model, "window", length)
    insert(model, "Sub", causal.input[1], causal.input[0], result="distance")
    insert(model, "Less", "distance", "window", result="near")
    insert(model, "And", causal.output[0], "near", result="causal_and_near")
    seen = first(model, "And")
    seen.input[0] = "causal_and_near"


def everything(model: Any) -> None:
    """Tokens see what follows them."""
    first(model, "LessOrEqual").op_type = "GreaterOrEqual"


def itself_not(model: Any) -> None:
    first(model, "LessOrEqual").op_type = "Less"


def scores_changed(model: Any, kind: str, value: Any = None) -> None:
    for i, node in enumerate([node for node in model.graph.node if node.op_type == "Where"]):
        inputs = [node.input[1]] if value is None else [node.input[1], give(model, f"by.{i}", value)]
        node.input[1] = insert(model, kind, *inputs, result=f"changed.{i}")


def farther_is_less(model: Any, layers: slice = slice(None)) -> None:
    """A bias that grows with the position, faster for one head."""
    columns = first(model, "LessOrEqual").input[0]
    insert(model, "Cast", columns, result="places_as_floats", to=1)
    slopes = np.array([0.1, 0.2], np.float32).reshape(1, HEADS, 1, 1)
    insert(model, "Mul", "places_as_floats", give(model, "slopes", slopes), result="bias")
    for i, node in enumerate([node for node in model.graph.node if node.op_type == "Where"][layers]):
        node.input[1] = insert(model, "Add", node.input[1], "bias", result=f"biased.{i}")


def no_filler(model: Any) -> None:
    """The mask is not looked at."""
    seen = first(model, "And")
    seen.input[1] = seen.input[0]


def other_values(model: Any) -> None:
    """Values are scaled."""
    softmax = first(model, "Softmax").output[0]
    product = next(node for node in model.graph.node if softmax in node.input)
    product.input[1] = insert(model, "Mul", product.input[1], give(model, "twice", np.float32(2)), result="v")


def cache_in_reverse(model: Any) -> None:
    node = first(model, "Concat")
    del node.attribute[:]
    from onnx import helper

    node.attribute.append(helper.make_attribute("axis", 1))


def width_of_mask(model: Any) -> None:
    """Something else depends on how many positions there are."""
    total = first(model, "Range").input[1]
    insert(model, "Cast", total, result="total", to=1)
    insert(model, "Mul", "total", give(model, "nothing", np.float32(0)), result="none")
    last = next(node for node in model.graph.node if "logits" in node.output)
    last.input[0] = insert(model, "Add", last.input[0], "none", result="hidden_and_none")


def length_of_past(model: Any) -> None:
    insert(model, "Shape", "past_key_values.0.key", result="sizes")
    insert(model, "Gather", "sizes", give(model, "two", 2), result="past_length")
    gather = next(n for n in model.graph.node if n.op_type == "Gather" and n.input[0] == "places")
    insert(model, "Sub", "past_length", "past_length", result="no_position")
    gather.input[1] = insert(model, "Add", "position_ids", "no_position", result="positions")


def size_of_past(model: Any, start: int, end: int) -> None:
    """Positions depend on a size of a cache, as torch's exporter takes sizes from any input that has them."""
    insert(model, "Shape", "past_key_values.1.value", result="size", start=start, end=end)
    gather = next(n for n in model.graph.node if n.op_type == "Gather" and n.input[0] == "places")
    insert(model, "Sub", "size", "size", result="no_position")
    gather.input[1] = insert(model, "Add", "position_ids", "no_position", result="positions")


def open_size(model: Any, axis: int) -> None:
    """A size of the cache is not told."""
    for value in model.graph.input:
        if "past" in value.name:
            value.type.tensor_type.shape.dim[axis].dim_param = "n"


def half(model: Any) -> None:
    """As `graph` makes them, but for the types, which onnxruntime would refuse."""
    for value in (*model.graph.input, *model.graph.output):
        if "key" in value.name or "value" in value.name:
            value.type.tensor_type.elem_type = 10


def changed_graph(change: Change, form: Form = CONCAT) -> bytes:
    model = graph(form)
    change(model)
    content: bytes = model.SerializeToString()
    return content


def folder_of(content: bytes, path: Path) -> Path:
    for file in ("config.json", "generation_config.json"):
        shutil.copy(MODELS / "handmade-last-logits" / file, path / file)
    (path / "model.onnx").write_bytes(content)
    return path
