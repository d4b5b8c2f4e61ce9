"""Attention that reads the cache in place: the same numbers, and only where it is the same function."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.handmade_exports import HEADS, Form, graph
from helpers.models.real_models import EXPECTED, MODELS

from lite.models import GenerationConfig, OnnxDecoder, Padding, generate, score
from lite.models.decoder import opening
from lite.models.decoder.attention import replace_attention
from lite.models.decoder.attention_experiment import succeeds
from lite.models.graph import protobuf
from lite.models.graph.session import open_session

pytest.importorskip("onnxruntime")
NAMES = ["optimum-llama", "optimum-gpt2", "handmade-last-logits"]
CONCAT = Form("concat", width=32)
Change = Callable[[Any], object]


def both(folder: Path) -> tuple[OnnxDecoder, OnnxDecoder]:
    """A model with the cache in place, and as it was exported."""
    return OnnxDecoder(folder, num_threads=1), OnnxDecoder(folder, num_threads=1, cache_in_place=False)


@pytest.mark.parametrize("name", NAMES)
def test_greedy_tokens_and_log_probs(name: str) -> None:
    changed, plain = both(MODELS / name)
    assert (changed.spec.padding, plain.spec.padding) == (Padding.SLOTS, Padding.LEFT)
    prompts = [case["prompt"] for case in EXPECTED[name]["greedy"]]
    config = GenerationConfig(max_new_tokens=40)
    for rows in (prompts, [p[:1] + p for p in prompts[::-1]] * 3):
        got, want = (generate(decoder, rows, config, max_rows=4) for decoder in (changed, plain))
        for mine, theirs in zip(got, want, strict=True):
            np.testing.assert_array_equal(mine.tokens, theirs.tokens)
            np.testing.assert_allclose(mine.log_probs, theirs.log_probs, atol=2e-5, rtol=0)
        texts = [[*row, *r.tokens] for row, r in zip(rows, got, strict=True)]
        for mine, theirs in zip(score(changed, texts), score(plain, texts), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_operations(name: str, seed: int) -> None:
    """Rows of different length are read, cut, copied and go on, alone and together."""
    rng = np.random.default_rng(seed)
    decoders = both(MODELS / name)
    for decoder in decoders:
        decoder.acquire(4)
    for _ in range(30):
        rows = rng.permutation(4)[: rng.integers(1, 5)].tolist()
        texts = [rng.integers(0, 512, rng.integers(1, 20)) for _ in rows]
        lengths = decoders[0].lengths
        kind = rng.integers(5)
        if kind == 0 or lengths[rows].min() == 0 or lengths.max() > 200:
            got, want = (decoder.prefill_rows(rows, texts) for decoder in decoders)
        elif kind == 1:
            got, want = (decoder.decode([t[0] for t in texts], rows) for decoder in decoders)
        elif kind == 2:
            parts = [decoder.extend(rows, [t[:5] for t in texts]) for decoder in decoders]
            got, want = (np.concatenate(part) for part in parts)
        else:
            for decoder in decoders:
                if kind == 3:
                    decoder.truncate(rows[0], int(lengths[rows[0]]) // 2 + 1)
                else:
                    decoder.fork(rows[0], rows[-1])
            continue
        np.testing.assert_allclose(got, want, atol=5e-5, rtol=0)
        np.testing.assert_array_equal(decoders[0].lengths, decoders[1].lengths)


def test_weights_stay_in_their_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LARGE_WEIGHT", 1024)
    loaded: list[bytes] = []

    def recorded(*args: Any, content: bytes, **options: Any) -> Any:
        loaded.append(content)
        return open_session(*args, content=content, **options)

    monkeypatch.setattr(opening, "open_session", recorded)
    changed, plain = both(MODELS / "optimum-gpt2")
    assert changed.spec.padding is Padding.SLOTS
    assert max(map(len, loaded)) < (MODELS / "optimum-gpt2" / "model.onnx").stat().st_size / 2
    np.testing.assert_allclose(changed.prefill(0, [5, 6, 7]), plain.prefill(0, [5, 6, 7]), atol=2e-5)


def test_pairs_and_adapters_stay_as_they_are() -> None:
    """Of a pair one graph may need a past; an adapter's sizes may differ where their names do not."""
    for name in ("exporter-llama-pair", "handmade-lora"):
        assert OnnxDecoder(MODELS / name, num_threads=1).spec.padding is Padding.LEFT


def test_pickling_keeps_the_choice() -> None:
    import pickle

    plain = OnnxDecoder(MODELS / "optimum-gpt2", num_threads=1, cache_in_place=False)
    assert pickle.loads(pickle.dumps(plain)).spec.padding is Padding.LEFT


# -- other attention ---------------------------------------------------------------------------


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


def half(model: Any) -> None:
    """As `graph` makes them, but for the types, which onnxruntime would refuse."""
    for value in (*model.graph.input, *model.graph.output):
        if "key" in value.name or "value" in value.name:
            value.type.tensor_type.elem_type = 10


def changed_graph(change: Change, form: Form = CONCAT) -> bytes:
    pytest.importorskip("onnx")
    model = graph(form)
    change(model)
    content: bytes = model.SerializeToString()
    return content


SAME = [nothing, other_scale, partial(scores_changed, kind="Mul", value=np.float32(1.5))]
TRIED = [
    partial(window, length=6),
    partial(window, length=40),
    partial(window, length=200),
    everything,
    itself_not,
    no_filler,
    partial(scores_changed, kind="Mul", value=np.array([1, 2], np.float32).reshape(1, HEADS, 1, 1)),
    farther_is_less,
    cache_in_reverse,
]
UNKNOWN = [
    partial(window, length=10_000),
    partial(scores_changed, kind="Tanh"),
    other_values,
    width_of_mask,
    length_of_past,
    half,
]


def folder_of(content: bytes, path: Path) -> Path:
    for file in ("config.json", "generation_config.json"):
        shutil.copy(MODELS / "handmade-last-logits" / file, path / file)
    (path / "model.onnx").write_bytes(content)
    return path


@pytest.mark.parametrize("change", SAME)
def test_forms_that_are_the_same(change: Change, tmp_path: Path, rng: np.random.Generator) -> None:
    changed, plain = both(folder_of(changed_graph(change), tmp_path))
    assert (changed.spec.padding, plain.spec.padding) == (Padding.SLOTS, Padding.LEFT)
    texts = [rng.integers(0, 512, length) for length in (40, 3, 90)]
    got, want = (decoder.prefill_rows(range(3), texts) for decoder in (changed, plain))
    np.testing.assert_allclose(got, want, atol=2e-4, rtol=0)
    for token in range(20):
        got, want = (decoder.decode([token] * 3) for decoder in (changed, plain))
        np.testing.assert_allclose(got, want, atol=2e-4, rtol=0)  # logits of up to 6


@pytest.mark.parametrize("change", TRIED)
def test_what_gives_other_numbers_is_found_out(change: Change, tmp_path: Path) -> None:
    content = changed_graph(change)
    replaced = replace_attention(content, HEADS)
    assert replaced is not None
    alike = change is not cache_in_reverse
    assert len(replaced.experiments) == (1 if alike else 2)
    folder = folder_of(content, tmp_path)
    assert not all(succeeds(one, folder / "model.onnx", 256) for one in replaced.experiments)
    if alike:  # otherwise it is no cache
        assert OnnxDecoder(folder, num_threads=1).spec.padding is Padding.LEFT


def test_the_layers_are_tried_one_by_one_where_they_differ(tmp_path: Path) -> None:
    content = changed_graph(partial(farther_is_less, layers=slice(1, None)))
    replaced = replace_attention(content, HEADS)
    assert replaced is not None
    found = [succeeds(one, folder_of(content, tmp_path) / "model.onnx", 256) for one in replaced.experiments]
    assert sorted(found) == [False, True]


@pytest.mark.parametrize("change", UNKNOWN)
def test_forms_that_are_left_alone(change: Change) -> None:
    assert replace_attention(changed_graph(change), HEADS) is None


def test_heads_that_do_not_fit_are_found_out(tmp_path: Path) -> None:
    """A folder's configuration may be of another model."""
    content = changed_graph(nothing)
    assert replace_attention(content, 3) is None
    replaced = replace_attention(content, 2 * HEADS)
    assert replaced is not None
    path = folder_of(content, tmp_path) / "model.onnx"
    assert not any(succeeds(one, path, 256) for one in replaced.experiments)


def test_rows_too_short_to_try_are_left_alone(tmp_path: Path) -> None:
    content = changed_graph(nothing)
    replaced = replace_attention(content, HEADS)
    assert replaced is not None
    path = folder_of(content, tmp_path) / "model.onnx"
    assert [succeeds(replaced.experiments[0], path, length) for length in (4, 9, None)] == [False, True, True]


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\x3a\x7f"])
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a"):
        replace_attention(data, 2)


def test_cut_and_garbled_models_raise_or_are_left_alone(rng: np.random.Generator) -> None:
    """They come from a file; large weights are elsewhere, so that what is garbled is the graph."""
    path = MODELS / "optimum-gpt2" / "model.onnx"
    model = protobuf.with_weights_outside(path.read_bytes(), path.name, 64)
    for _ in range(60):
        garbled = bytearray(model)
        for at in rng.integers(0, len(model), 6):
            garbled[at] = rng.integers(256)
        try:
            replaced = replace_attention(bytes(garbled), 4)
        except ValueError:
            continue
        assert replaced is None or replaced.model
