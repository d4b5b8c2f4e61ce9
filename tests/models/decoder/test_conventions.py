"""The naming conventions that exporters use, as fake inputs and outputs, and refusals that list them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lite.models import GraphSpec, ModelConfig, Padding
from lite.models.decoder.conventions import Extra
from lite.models.graph.summary import GraphSummary


@dataclass
class Arg:
    name: str
    shape: Sequence[Any]
    type: str = "tensor(int64)"


class Graph:
    """A session that can be asked for its inputs and outputs only."""

    def __init__(self, inputs: list[Arg], outputs: list[Arg]) -> None:
        self.get_inputs = lambda: inputs
        self.get_outputs = lambda: outputs
        self.io_binding: Any = None
        self.run_with_iobinding: Any = None


IDS = Arg("input_ids", ["batch", "sequence"])
MASK = Arg("attention_mask", ["batch", "past + sequence"])
POSITIONS = Arg("position_ids", ["batch", "sequence"])
LOGITS = Arg("logits", ["batch", "sequence", 512], "tensor(float)")


def cache(
    pattern: str, layers: int = 2, dims: Sequence[Any] = ("batch", 2, "past", 16), kinds: str = "key value"
) -> list[Arg]:
    pairs = itertools.product(range(layers), kinds.split())
    return [Arg(pattern.format(layer, kind), dims, "tensor(float)") for layer, kind in pairs]


PASTS = cache("past_key_values.{}.{}")
PRESENTS = cache("present.{}.{}")


def config(operators: set[str] | None = None, **values: Any) -> ModelConfig:
    summary = GraphSummary("test", frozenset(operators or {"MatMul"}), frozenset())
    return ModelConfig(graph=Path("model.onnx"), directory=Path(), summary=summary, **values)


def detect(inputs: list[Arg], outputs: list[Arg], settings: ModelConfig | None = None) -> GraphSpec:
    return GraphSpec.from_session(Graph(inputs, outputs), settings or config())


def names(spec: GraphSpec) -> list[tuple[int, str, str, str]]:
    return [(tensor.layer, tensor.kind, tensor.past, tensor.present) for tensor in spec.cache]


def test_optimum() -> None:
    spec = detect([IDS, MASK, POSITIONS, *PASTS], [LOGITS, *PRESENTS])
    assert spec.family == "optimum"
    assert names(spec)[1] == (0, "value", "past_key_values.0.value", "present.0.value")
    assert (spec.num_heads, spec.head_size, spec.vocab_size) == (2, 16, 512)
    assert (spec.mask, spec.positions, spec.branch, spec.keep) == (
        "attention_mask", "position_ids", None, None,
    )  # fmt: skip
    assert spec.padding is Padding.LEFT
    assert not spec.group_query


def test_single_facts() -> None:
    """Inputs, their outputs, and what a field of the specification is."""
    whole, logits = [IDS, MASK, POSITIONS, *PASTS], [LOGITS, *PRESENTS]
    branch = Arg("use_cache_branch", [1], "tensor(bool)")
    step, alone = Arg("input_ids", ["batch", "1"]), Arg("input_ids", [1, "sequence"])
    short = Arg("input_ids", ["batch", "sequence"], "tensor(int32)")
    group = config({"GroupQueryAttention"})
    twelve = cache("past_key_values.{}.{}", 12), cache("present.{}.{}", 12)
    last = Arg("logits", ["batch", 1, 512], "tensor(float)")
    for inputs, outputs, settings, field, expected in (
        ([IDS, *PASTS, MASK, POSITIONS], [*reversed(PRESENTS), LOGITS], None, "cache",
            detect(whole, logits).cache),
        (whole, logits, group, "padding", Padding.SLOTS),
        ([IDS, MASK, *PASTS], logits, None, "padding", Padding.EQUAL),
        ([IDS, POSITIONS, *PASTS], logits, None, "padding", Padding.EQUAL),
        ([IDS, *PASTS], logits, None, "padding", Padding.EQUAL),
        ([short, MASK, POSITIONS, *PASTS], logits, None, "padding", Padding.LEFT),
        ([IDS, MASK, *PASTS, branch], logits, None, "family", "merged"),
        ([IDS, MASK, *PASTS, branch], logits, None, "branch", "use_cache_branch"),
        ([*whole, Arg("num_logits_to_keep", [])], logits, None, "keep", "num_logits_to_keep"),
        ([*whole, Arg("logits_to_keep", [])], logits, None, "keep", "logits_to_keep"),
        (whole, [last, *PRESENTS], None, "last_logits_only", True),
        ([step, MASK, POSITIONS, *PASTS], logits, None, "one_token", True),
        ([step, MASK, POSITIONS, *PASTS], logits, None, "one_row", False),
        ([alone, MASK, POSITIONS, *PASTS], logits, None, "one_token", False),
        ([alone, MASK, POSITIONS, *PASTS], logits, None, "one_row", True),
    ):  # fmt: skip
        assert getattr(detect(inputs, outputs, settings), field) == expected, (field, inputs)
    layers = [
        tensor.layer for tensor in detect([IDS, MASK, POSITIONS, *twelve[0]], [LOGITS, *twelve[1]]).cache
    ]
    assert layers == [layer for layer in range(12) for _ in "kv"]  # not sorted as text


def test_genai_lists_all_keys_before_all_values_and_hides_the_head_size() -> None:
    order = sorted(PASTS, key=lambda arg: arg.name.endswith("value"))
    hidden = [Arg(arg.name, ["batch", 2, "past", "kv_cache_dim"], "tensor(float16)") for arg in order]
    genai = {"model": {"decoder": {"head_size": 24, "num_key_value_heads": 2}}}
    settings = config({"GroupQueryAttention", "MatMulNBits"}, genai=genai)
    spec = detect([IDS, MASK, *hidden], [LOGITS, *PRESENTS], settings)
    assert (spec.family, spec.padding, spec.quantisation) == ("genai", Padding.SLOTS, "MatMulNBits")
    assert (spec.num_heads, spec.head_size) == (2, 24)
    assert spec.cache_type == "tensor(float16)"
    assert spec.group_query
    assert names(spec)[0] == (0, "key", "past_key_values.0.key", "present.0.key")


def test_genai_config_decides_when_the_operators_are_unknown() -> None:
    settings = ModelConfig(graph=Path("m"), directory=Path(), genai={"model": {}})
    assert GraphSpec.from_session(Graph([IDS, MASK, *PASTS], [LOGITS, *PRESENTS]), settings).group_query
    assert not GraphSpec.from_session(Graph([IDS, MASK, *PASTS], [LOGITS, *PRESENTS])).group_query


def test_transformers_exporter_writes_dimensions_as_text_and_needs_no_mask() -> None:
    pasts = cache("input.past_key_values.layers.{}.{}", dims=["s44", "2", "s36", "16"], kinds="keys values")
    presents = cache(
        "output.past_key_values.layers.{}.{}", dims=["s44", "2", "s70", "16"], kinds="keys values"
    )
    spec = detect([IDS, POSITIONS, *pasts], [LOGITS, *presents])
    assert (spec.num_heads, spec.head_size) == (2, 16)
    assert spec.padding is Padding.EQUAL
    assert names(spec)[0][2:] == (
        "input.past_key_values.layers.0.keys",
        "output.past_key_values.layers.0.keys",
    )


def test_dynamic_cache_names() -> None:
    pasts = [
        Arg(f"past_key_values_{kind}_cache_{i}", ["b", 2, "p", 16], "tensor(float)")
        for kind in ("key", "value")
        for i in (0, 1)
    ]
    presents = [Arg(arg.name.replace("past_key_values", "present"), arg.shape, arg.type) for arg in pasts]
    spec = detect([IDS, MASK, POSITIONS, *pasts], [LOGITS, *presents])
    assert names(spec)[2] == (1, "key", "past_key_values_key_cache_1", "present_key_cache_1")


def test_symbolic_cache_dimensions() -> None:
    cases: list[tuple[dict[str, Any], tuple[int, int]]] = [
        (
            {"raw": {"num_key_value_heads": 3, "head_dim": 32, "hidden_size": 64, "num_attention_heads": 4}},
            (3, 32),
        ),
        ({"raw": {"hidden_size": 64, "num_attention_heads": 4}}, (4, 16)),
        ({"raw": {"n_embd": 48, "n_head": 6}}, (6, 8)),
        ({"genai": {"model": {"decoder": {"head_size": 5, "num_key_value_heads": 7}}},
            "raw": {"head_dim": 9}}, (7, 5)),
    ]  # fmt: skip
    for values, expected in cases:
        pasts = cache("past_key_values.{}.{}", dims=["batch", "heads", "past", "size"])
        spec = detect([IDS, MASK, POSITIONS, *pasts], [LOGITS, *PRESENTS], config(**values))
        assert (spec.num_heads, spec.head_size) == expected, values


def test_dynamic_quantisation_warns() -> None:
    with pytest.warns(UserWarning, match="MatMulInteger"):
        spec = detect([IDS, MASK, POSITIONS, *PASTS], [LOGITS, *PRESENTS], config({"MatMulInteger"}))
    assert spec.quantisation == "MatMulInteger"


BASE = [IDS, MASK]


def real(name: str, *dims: Any) -> Arg:
    return Arg(name, dims, "tensor(float)")


def odd(*dims: Any) -> list[Arg]:
    return cache("past_key_values.{}.{}", dims=dims)


UNKNOWN: list[tuple[list[Arg], list[Arg], str]] = [
    ([real("pixel_values", 1, 3, 8, 8)], [LOGITS], "no input named input_ids"),
    ([Arg("input_ids", ["tokens"]), *PASTS], [LOGITS, *PRESENTS], "paged attention"),
    ([real("input_ids", "b", "s"), *PASTS], [LOGITS, *PRESENTS], "input_ids has type"),
    (BASE, [LOGITS, *PRESENTS], "prefill half"),
    ([*BASE, *PASTS], [LOGITS, *PRESENTS[:3]], "do not match"),
    ([*BASE, *PASTS[:3]], [LOGITS, *PRESENTS[:3]], "one key and one value"),
    ([*BASE, *PASTS, real("past_conv.0", "b", 2)], [LOGITS, *PRESENTS],
        r"without a partner: \[\(0, 'conv'"),
    ([*BASE, *PASTS], [LOGITS, *PRESENTS, real("present_conv.0", "b", 2)],
        r"without a partner: \[\(0, 'conv'"),
    ([*BASE, *PASTS, real("past_conv.0", "b", "n")], [LOGITS, *PRESENTS, real("present_conv.0", "b", "n")],
        r"past_conv\.0 has type tensor\(float\) and shape \['b', 'n'\]; a state needs numbers of known"),
    ([*BASE, *PASTS, real("inputs_embeds", "b", "s", 64)], [LOGITS, *PRESENTS], "inputs_embeds"),
    ([*BASE, *PASTS], [real("hidden", "b", "s", 64), *PRESENTS], "no output named logits"),
    ([*BASE, *PASTS], [Arg("logits", [1, 2, 9], "tensor(bfloat16)"), *PRESENTS], "logits has type"),
    ([Arg("input_ids", ["b", 8]), *PASTS], [LOGITS, *PRESENTS], "fixed length of 8 new tokens"),
    ([Arg("input_ids", [1, "128"])], [LOGITS], "fixed length of 128 new tokens"),
    ([Arg("input_ids", ["b", 1])], [LOGITS], "fixed length of 1 .* no key/value cache"),
    ([Arg("input_ids", [4, "s"]), *PASTS], [LOGITS, *PRESENTS], "fixed batch of 4 rows"),
    ([*BASE, *odd("b", 2, 128, 16)], [LOGITS, *PRESENTS], "static cache"),
    ([*BASE, *odd("b", 2, 16)], [LOGITS, *PRESENTS], "3 dimensions"),
    ([*BASE, *odd("b", "h", "p", "d")], [LOGITS, *PRESENTS], "heads and head size"),
    ([*BASE, *PASTS, real("cache_key_0", "b", 2, "p", 16)], [LOGITS, *PRESENTS], "both look like"),
]  # fmt: skip


def test_unknown_conventions_list_what_was_found() -> None:
    for inputs, outputs, message in UNKNOWN:
        with pytest.raises(ValueError, match=message) as error:
            detect(inputs, outputs)
        text = str(error.value)
        assert all(arg.name in text for arg in (*inputs, *outputs)), inputs
        assert "Supported:" in text, inputs


def test_without_cache_tensors_whole_rows_run_again() -> None:
    cases: list[list[Arg]] = [[IDS], [IDS, MASK], [IDS, POSITIONS], [IDS, MASK, POSITIONS]]
    for inputs in cases:
        spec = detect(inputs, [LOGITS])
        assert (spec.family, spec.padding, spec.cache) == ("no cache", Padding.RIGHT, ()), inputs
        assert (spec.num_heads, spec.head_size, spec.cache_type, spec.vocab_size) == (0, 0, "", 512), inputs


def test_group_query_without_a_mask_is_refused() -> None:
    with pytest.raises(ValueError, match="attention_mask"):
        detect([IDS, *PASTS], [LOGITS, *PRESENTS], config({"GroupQueryAttention"}))


EXTRAS = {
    "token_type_ids": Extra.ZEROS,
    "cache_position": Extra.COLUMNS,
    "past_sequence_length": Extra.PAST,
    "total_sequence_length": Extra.TOTAL,
}


def test_inputs_that_follow_from_the_run() -> None:
    for name in sorted(EXTRAS):
        spec = detect([IDS, MASK, POSITIONS, Arg(name, [1]), *PASTS], [LOGITS, *PRESENTS])
        assert spec.extras == ((name, EXTRAS[name]),), name
        assert spec.padding is Padding.LEFT, name
        if name != "token_type_ids":
            with pytest.raises(ValueError, match=f"takes one {name} for rows of different length"):
                detect(
                    [IDS, MASK, Arg(name, [1]), *PASTS], [LOGITS, *PRESENTS], config({"GroupQueryAttention"})
                )


def test_a_bias_of_group_query_attention_leaves_no_spare_room() -> None:
    settings = config({"GroupQueryAttention"})
    assert settings.summary is not None
    biased = replace(settings, summary=replace(settings.summary, biased_attention=True))
    found = [
        detect([IDS, MASK, POSITIONS, *PASTS], [LOGITS, *PRESENTS], each).padding
        for each in (settings, biased)
    ]
    assert found == [Padding.SLOTS, Padding.LEFT]


def test_static_caches() -> None:
    counter = Arg("past_key_values.layers.0.cumulative_length", [])
    square = Arg("attention_mask", ["batch", 1, "sequence", 64], "tensor(bool)")
    for length, given in ((64, None), ("64", None), ("length", 64)):
        dims = ("batch", 2, length, 16)
        graph = (
            [IDS, square, POSITIONS, counter, *cache("past.{}.{}", dims=dims)],
            [LOGITS, *cache("present.{}.{}", dims=dims)],
        )
        spec = GraphSpec.from_session(Graph(*graph), config(), static_length=given)
        assert (spec.static_length, spec.padding, spec.extras) == (
            64,
            Padding.EQUAL,
            ((counter.name, Extra.PAST),),
        )
    with pytest.raises(ValueError, match="say how long"):
        detect(*graph)
    with pytest.raises(ValueError, match="no input says where in it to write"):
        detect([IDS, MASK, *odd("batch", 2, 64, 16)], [LOGITS, *PRESENTS])
    with pytest.raises(ValueError, match="attention_mask has 4 dimensions"):
        detect([IDS, square, POSITIONS, *PASTS], [LOGITS, *PRESENTS])


def test_the_graph_that_reads_prompts() -> None:
    spec = GraphSpec.from_session(Graph([IDS, MASK], [LOGITS, *PRESENTS]), config(), prompts=True)
    assert [tensor.past for tensor in spec.cache] == [""] * 4
    with pytest.raises(ValueError, match="gives a cache and takes none"):
        GraphSpec.from_session(Graph([IDS, MASK, *PASTS], [LOGITS, *PRESENTS]), config(), prompts=True)


def test_numbers_of_four_bits_share_bytes() -> None:
    dims = ("batch", 2, "past", "kv_cache_dim")
    for kind, size in (("tensor(uint8)", 8), ("tensor(int8)", 16), ("tensor(float16)", 16)):
        pasts, presents = (
            [replace(arg, type=kind) for arg in cache(name, dims=dims)]
            for name in ("past.{}.{}", "present.{}.{}")
        )
        spec = detect(
            [IDS, MASK, *pasts], [LOGITS, *presents], config({"GroupQueryAttention"}, raw={"head_dim": 16})
        )
        assert (spec.head_size, spec.cache_type) == (size, kind)


def test_refusals_list_what_the_file_has() -> None:
    """Not what was put into the graph when it was opened."""
    own = Arg("lite_positions", ["b", "k", 1]), Arg("lite_beyond_9", [], "tensor(bool)")
    with pytest.raises(ValueError, match="unknown kind") as error:
        detect([*BASE, *own, *PASTS, real("latent.0", "b", 4)], [LOGITS, *PRESENTS, real("lite_hidden", "b")])
    assert "lite_" not in str(error.value)


def test_states_of_fixed_size() -> None:
    cases: list[tuple[tuple[str, str], tuple[str, str]]] = [
        (("past.0.conv", "past.2.conv"), ("present.0.conv", "present.2.conv")),
        (("past_conv.0", "past_conv.2"), ("present_conv.0", "present_conv.2")),
        (("input.past_key_values.layers.0.conv_states.0", "input.past_key_values.layers.2.conv_states.0"),
            ("output.past_key_values.layers.0.conv_states.0",
            "output.past_key_values.layers.2.conv_states.0")),
        (("past_recurrent.0", "past_ssm.1"), ("present_recurrent.0", "present_ssm.1")),
    ]  # fmt: skip
    for names, kinds in cases:
        sizes = ("batch", 8, "3"), ("batch", 2, 4, 5)
        inputs = [real(name, *size) for name, size in zip(names, sizes, strict=True)]
        outputs = [real(name, *size) for name, size in zip(kinds, sizes, strict=True)]
        spec = detect([*BASE, *inputs[::-1], *PASTS], [LOGITS, *outputs, *PRESENTS])
        assert [(state.past, state.present, state.shape) for state in spec.states] == [
            (names[0], kinds[0], (8, 3)),
            (names[1], kinds[1], (2, 4, 5)),
        ]
        assert len(spec.cache) == 4, names


def test_layers_of_different_sizes_are_refused() -> None:
    wider = replace(PASTS[2], shape=("batch", 4, "past", 16)), replace(PASTS[2], type="tensor(float16)")
    for odd_one in wider:
        with pytest.raises(ValueError, match=r"its cache tensors differ: past_key_values\.0\.value float"):
            detect([IDS, MASK, *PASTS[:2], odd_one, PASTS[3]], [LOGITS, *PRESENTS])
