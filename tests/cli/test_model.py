"""A model folder loaded for a command, and prompts as token ids."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from helpers.models.real_models import MODELS, folder_of_two

from lite.cli.model import chat_ids, end_ids, load, prompt_ids
from lite.models import Padding, Tokenizer, embedded_model_path

pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install 'tensordict-lite[llm]'")


def arguments(model: Path | None, variant: str | None = None, adapter: str | None = None) -> Namespace:
    name = None if model is None else str(model)
    return Namespace(model=name, device="cpu", threads=None, variant=variant, adapter=adapter)


def test_the_embedded_model_is_loaded_where_none_is_named() -> None:
    assert load(arguments(None)).path == embedded_model_path()
    loaded = load(arguments(MODELS / "optimum-llama"))
    assert loaded.path == MODELS / "optimum-llama"
    assert loaded.decoder.vocab_size == 512
    assert loaded.tokenizer.eos_token_id == 2
    assert loaded.seconds > 0


def test_a_variant_and_an_adapter(tmp_path: Path) -> None:
    folder = folder_of_two(tmp_path)
    assert load(arguments(folder)).decoder.spec.padding is Padding.LEFT
    assert load(arguments(folder, "int4")).decoder.spec.padding is Padding.SLOTS
    file = str(MODELS / "handmade-lora" / "casual.onnx_adapter")
    assert [load(arguments(folder, "", name)).decoder.adapter for name in (None, file)] == [None, "casual"]
    with pytest.raises(ValueError, match=r"no graph of variant='q8'.*'int4' \(model_int4.onnx\)"):
        load(arguments(folder, "q8"))
    with pytest.raises(ValueError, match=r"adapters\['casual'\]: .* is for another model"):
        load(arguments(folder, "int4", file))


def test_prompts_are_a_turn_of_the_template_unless_raw() -> None:
    tokenizer = Tokenizer.from_pretrained(MODELS / "optimum-llama")
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
    np.testing.assert_array_equal(prompt_ids(tokenizer, "hello", raw=True), tokenizer.encode("hello"))
    for system, expected in ((None, turns[1:]), ("Be brief.", turns)):
        np.testing.assert_array_equal(
            prompt_ids(tokenizer, "hello", raw=False, system=system),
            chat_ids(tokenizer, expected, add_generation_prompt=True),
        )
    tokenizer.chat_templates.clear()
    np.testing.assert_array_equal(
        prompt_ids(tokenizer, "hello", raw=False, system="Be brief."), tokenizer.encode("Be brief.\nhello")
    )


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        ("m.role + m.content + '<|im_end|>\n'", ["<|im_end|>"]),
        ("m.content + '\n\n<|pad|><|im_end|><|pad|>'", ["\n", "\n", "<|pad|>", "<|im_end|>"]),
        ("m.content + '<|pad|>x'", ["<|pad|>"]),  # the template's own end, though nothing calls it one
        ("m.content + '\n'", ["<|im_end|>"]),
        ("m.content + m.content", ["<|im_end|>"]),
        ("raise_exception('no')", ["<|im_end|>"]),
    ],
)
def test_the_end_of_a_turn(turn: str, expected: list[str]) -> None:
    model = load(arguments(MODELS / "optimum-llama"))
    tokenizer = model.tokenizer
    tokenizer.chat_templates["default"] = "{% for m in messages %}{{ " + turn + " }}{% endfor %}"
    ids = [i for text in expected for i in tokenizer.encode(text, add_special_tokens=False)]
    assert end_ids(model, [{"role": "user", "content": "a"}]) == ids
    tokenizer.chat_templates.clear()
    assert end_ids(model, []) == [tokenizer.eos_token_id]
