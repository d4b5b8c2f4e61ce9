"""Comparisons of the length with a number become inputs; all others stay."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from helpers.models.real_models import MODELS

from lite.models import embedded_model_path
from lite.models.graph.length_limits import with_limits_as_inputs

SHAPE = "shape = Shape(attention_mask)"
WIDTH = f"{SHAPE}; width = Gather(shape, one)"
LONGEST = "most = ReduceMax<keepdims=0>(position_ids)"
PAST = "shape = Shape<start=2, end=3>(past_key); past = Squeeze(shape)"
NEW = "sizes = Shape(input_ids); new = Gather(sizes, one)"
ROWS = "rows = Shape<start=0, end=1>(input_ids)"
SUM = "sums = ReduceSum<keepdims=0>(attention_mask, ones); most = ReduceMax<keepdims=0>(sums)"


def model(nodes: str, *, past: bool = True) -> bytes:
    """A model whose output `long` is what `nodes` compute as `chosen`."""
    cache = ", float[b, 1, p, 4] past_key" if past else ""
    lines = nodes.replace("; ", "\n    ")
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    decoder (int64[b, s] input_ids, int64[b, t] attention_mask, int64[b, s] position_ids{cache})
    => (bool[n] long)
    <int64 one = {{1}}, int64 ten = {{10}}, int64[1] zeros = {{0}}, int64[1] ones = {{1}},
     int64[1] twos = {{2}}, float half = {{9.5}}>
    {{
    {lines}
    long = Identity(chosen)
    }}"""
    parsed: bytes = onnx.parser.parse_model(text).SerializeToString()
    return parsed


def test_replaced() -> None:
    cases = [
        (f"{WIDTH}; chosen = Greater(width, ten)", 10, True),
        (f"{WIDTH}; chosen = GreaterOrEqual(width, ten)", 9, True),
        (f"{WIDTH}; chosen = Less(width, ten)", 9, False),
        (f"{WIDTH}; chosen = LessOrEqual(width, ten)", 10, False),
        (f"{WIDTH}; chosen = Less(ten, width)", 10, True),
        (f"{WIDTH}; chosen = GreaterOrEqual(ten, width)", 10, False),
        (f"{WIDTH}; same = Cast<to=6>(width); two = Cast<to=6>(ten); chosen = Less(two, same)", 10, True),
        (f"{LONGEST}; chosen = GreaterOrEqual(most, ten)", 10, True),
        (f"{LONGEST}; count = Add(most, one); chosen = Greater(count, ten)", 10, True),
        (f"{LONGEST}; less = Sub(most, one); chosen = Greater(less, ten)", 12, True),
        (f"{PAST}; {NEW}; total = Add(past, new); chosen = Greater(total, ten)", 10, True),
        (f"{SUM}; chosen = Greater(most, ten)", 10, True),
        (f"{SHAPE}; width = Slice(shape, ones, twos); chosen = Greater(width, ten)", 10, True),
        (f"{SHAPE}; width = Slice(shape, ones, twos, zeros, ones); chosen = Greater(width, ten)", 10, True),
        (f"{SHAPE}; width = Slice(shape, ones, twos, zeros); chosen = Greater(width, one)", 1, True),
    ]
    for nodes, limit, beyond in cases:
        whole = model(nodes)
        changed = with_limits_as_inputs(whole)
        assert changed is not None, nodes
        (was, now) = (
            ort.InferenceSession(content, providers=["CPUExecutionProvider"]) for content in (whole, changed)
        )
        assert {arg.name for arg in now.get_inputs()} - {arg.name for arg in was.get_inputs()} == {
            f"lite_beyond_{limit}"
        }
        for length in (limit, limit + 1):
            feeds = {
                "input_ids": np.zeros((1, length), np.int64),
                "attention_mask": np.ones((1, length), np.int64),
                "position_ids": np.arange(length)[None],
                "past_key": np.zeros((1, 1, 0, 4), np.float32),
            }
            names = {arg.name for arg in was.get_inputs()}
            before = was.run(None, {name: feeds[name] for name in names})[0]
            assert before.item() == ((length > limit) == beyond), nodes
            for told in (True, False):
                feeds[f"lite_beyond_{limit}"] = np.array(told)
                names = {arg.name for arg in now.get_inputs()}
                assert now.run(None, {name: feeds[name] for name in names})[0].item() == (told == beyond)


def test_left_alone() -> None:
    cases = [
        f"{NEW}; chosen = Greater(new, ten)",  # a prompt or a step
        f"{PAST}; chosen = Greater(past, ten)",
        f"{WIDTH}; chosen = Equal(width, ten)",
        f"{WIDTH}; twice = Add(width, width); chosen = Greater(twice, ten)",
        f"{WIDTH}; chosen = Greater(width, width)",
        f"{WIDTH}; less = Sub(ten, width); chosen = Greater(less, one)",
        f"{WIDTH}; number = Cast<to=1>(width); chosen = Greater(number, half)",
        f"{SHAPE}; chosen = Greater(shape, ten)",  # rows are compared, too
        "chosen = Greater(position_ids, ten)",
        "chosen = Greater(ten, one)",
        "shape = Shape<start=1>(input_ids); more = Add(shape, one); chosen = Greater(more, ten)",
        "shape = Shape<start=1>(input_ids); more = Add(one, shape); chosen = Greater(more, ten)",
        f"{ROWS}; more = Add(rows, one); chosen = Greater(more, ten)",
        f"{ROWS}; more = Add(one, rows); chosen = Greater(more, ten)",
        f"{ROWS}; {SHAPE}; width = Gather(shape, rows); chosen = Greater(width, ten)",
        f"{ROWS}; {SHAPE}; width = Slice(shape, rows, twos); chosen = Greater(width, ten)",
        f"{ROWS}; {SHAPE}; width = Slice(shape, ones, rows); chosen = Greater(width, ten)",
        f"{SHAPE}; width = Slice(shape, ones, twos, zeros, twos); chosen = Greater(width, ten)",
        "most = ReduceMax<keepdims=0>(input_ids); chosen = Greater(most, ten)",
        "same = Identity(attention_mask); most = ReduceMax<keepdims=0>(same); chosen = Greater(most, ten)",
        f"{SUM.replace('attention_mask', 'input_ids')}; chosen = Greater(most, ten)",
    ]
    for nodes in cases:
        assert with_limits_as_inputs(model(nodes)) is None, nodes


def test_without_a_past_the_new_tokens_are_all() -> None:
    changed = with_limits_as_inputs(model(f"{NEW}; chosen = Greater(new, ten)", past=False))
    assert changed is not None
    assert b"lite_beyond_10" in changed


def test_several_limits() -> None:
    nodes = f"{WIDTH}; first = Greater(width, ten); second = Less(width, ones); chosen = Or(first, second)"
    assert with_limits_as_inputs(model(nodes)) is not None  # a limit of no token is none
    nodes = f"{WIDTH}; first = Greater(width, ten); second = Less(width, ten); chosen = Or(first, second)"
    changed = with_limits_as_inputs(model(nodes))
    assert changed is not None
    assert b"lite_beyond_10" in changed
    assert b"lite_beyond_9" in changed


def test_nodes_in_a_circle_end() -> None:
    circle = onnx.load_from_string(model(f"{WIDTH}; chosen = Greater(width, ten)"))
    circle.graph.node[1].input[0] = "width"
    assert with_limits_as_inputs(circle.SerializeToString()) is None


def test_which_exports_have_limits() -> None:
    paths = [*MODELS.glob("*/*.onnx"), Path(embedded_model_path()) / "model.onnx"]
    found = {path.parent.name for path in paths if with_limits_as_inputs(path.read_bytes()) is not None}
    assert found == {"genai-phi3-longrope", "torch-phi3-longrope"}
