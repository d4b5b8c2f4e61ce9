import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.letters import LETTERS
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models.graph import model_config as json_files
from lite.models.text import tokenizer as tokenizer_module
from lite.models.text.tokenizer import Tokenizer

Make = Callable[..., Tokenizer]
TEMPLATE = (
    "{% for m in messages %}({{ m.role }}) {% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}(assistant) {% endif %}"
)


def test_encodes_and_decodes(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer()
    assert tokenizer.encode("Hi") == [39, 72]
    assert tokenizer.encode("Hi<eos>x") == [39, 72, 256, 87]
    assert tokenizer.decode([39, 72, 256]) == "Hi<eos>"
    assert tokenizer.decode(np.array([39, 72, 256]), skip_special_tokens=True) == "Hi"
    assert tokenizer.decode(39) == "H"
    assert tokenizer.decode([]) == ""
    assert tokenizer.batch_decode([[39], np.array([39, 72])]) == ["H", "Hi"]
    assert tokenizer.convert_ids_to_tokens([39, 256, 999]) == ["H", "<eos>", None]
    assert tokenizer.convert_tokens_to_ids(["<pad>", "no such token"]) == [259, None]
    assert len(tokenizer) == 260


@settings(max_examples=30)
@given(st.text(LETTERS))
def test_byte_level_round_trip(byte_tokenizer: Make, text: str) -> None:
    tokenizer = byte_tokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_offsets_point_into_the_text(byte_tokenizer: Make) -> None:
    out = byte_tokenizer()("é!", return_offsets_mapping=True)
    assert out["offset_mapping"] == [(0, 1), (0, 1), (1, 2)]


def test_refuses_bad_ids_and_text(byte_tokenizer: Make, byte_backend: Callable[[], Any]) -> None:
    tokenizer = byte_tokenizer()
    with pytest.raises(TypeError, match="one row of integers"):
        tokenizer.decode([[1, 2]])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="one row of integers"):
        tokenizer.decode([0.5])  # type: ignore[list-item]
    raises(ValueError, "negative", lambda: tokenizer.decode([-1]))
    with pytest.raises(TypeError, match="text must be str or a sequence of str, got 5"):
        tokenizer(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sequence of str, got int"):
        tokenizer(["a", 3])  # type: ignore[list-item]
    raises(ValueError, "unknown names", lambda: Tokenizer(byte_backend(), special_tokens={"eos": "<eos>"}))


def test_chat_templates(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer(chat_template=TEMPLATE)
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "é"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    assert text == "(user) Hi<eos>(assistant) é<eos>"
    out = tokenizer.apply_chat_template(chat, return_assistant_tokens_mask=True)
    assert out["input_ids"] == tokenizer.encode(text)
    assert out["attention_mask"] == [1] * len(out["input_ids"])
    picked = [i for i, inside in zip(out["input_ids"], out["assistant_masks"], strict=True) if inside]
    assert tokenizer.decode(picked) == "é"
    both = tokenizer.apply_chat_template(
        [chat[:1], chat], padding=True, padding_side="left", return_tensors="np"
    )
    assert both["input_ids"].shape == (2, len(out["input_ids"]))
    assert tokenizer.apply_chat_template(chat[:1], tokenize=False, add_generation_prompt=True).endswith(
        "(assistant) "
    )
    assert tokenizer.apply_chat_template(chat, return_dict=False) == out["input_ids"]
    with pytest.warns(UserWarning, match="no {% generation %} block"):
        bare = tokenizer.apply_chat_template(chat, chat_template="x", return_assistant_tokens_mask=True)
    assert bare["assistant_masks"] == [0]
    with pytest.raises(ValueError, match="tokenize=True and return_dict=True"):
        tokenizer.apply_chat_template(chat, tokenize=False, return_assistant_tokens_mask=True)


def test_templates_by_name(byte_tokenizer: Make) -> None:
    tokenizer = byte_tokenizer(chat_template={"tool_use": "{{ 'T' if tools }}", "other": "O"})
    chat = [{"role": "user", "content": "Hi"}]
    assert tokenizer.chat_template is None
    assert tokenizer.apply_chat_template(chat, tokenize=False, tools=[{}]) == "T"
    assert tokenizer.apply_chat_template(chat, tokenize=False, chat_template="other") == "O"
    assert tokenizer.apply_chat_template(chat, tokenize=False, chat_template="{{ x }}", x=3) == "3"
    with pytest.raises(ValueError, match=re.escape("only ['other', 'tool_use']")):
        tokenizer.apply_chat_template(chat, tokenize=False)


def test_template_text_gets_no_second_bos(byte_tokenizer: Make) -> None:
    from tokenizers.processors import TemplateProcessing

    tokenizer = byte_tokenizer(chat_template="{{ bos_token }}x", bos_token="<bos>")
    tokenizer.backend.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 257)])
    assert tokenizer.encode("x") == [257, 87]
    assert tokenizer.apply_chat_template([{"role": "user"}], return_dict=False) == [257, 87]


def test_reads_a_folder(tokenizer_folder: Callable[..., Path]) -> None:
    folder = tokenizer_folder(
        tokenizer_config={
            "tokenizer_class": "NoSuchClass",
            "eos_token": {"content": "<eos>"},
            "padding_side": "left",
            "chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "U"}],
            "added_tokens_decoder": {
                "260": {"content": "<extra>", "special": True},
                "400": {"content": "<far>", "special": True},
            },
        },
        special_tokens_map={"bos_token": "<bos>"},
        generation_config={"pad_token_id": 259, "eos_token_id": [0]},
    )
    (folder / "chat_templates").mkdir()
    (folder / "chat_templates" / "rag.jinja").write_text("R")
    tokenizer = Tokenizer.from_pretrained(folder)
    assert tokenizer.special_tokens_map == {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (257, 256, 259)
    assert tokenizer.padding_side == "left"
    assert tokenizer.chat_templates == {"default": "D", "tool_use": "U", "rag": "R"}
    assert tokenizer.encode("<extra>") == [260]
    assert len(tokenizer) == 261  # <far> would have got another id than the file says
    assert tokenizer.name_or_path == str(folder)
    (folder / "chat_template.jinja").write_text("J")
    assert Tokenizer.from_pretrained(folder).chat_template == "J"


def test_named_tokens_become_special(tokenizer_folder: Callable[..., Path]) -> None:
    folder = tokenizer_folder(
        tokenizer_config={"pad_token": "!", "eos_token": None}, config={"eos_token_id": 256}
    )
    tokenizer = Tokenizer.from_pretrained(folder)
    assert tokenizer.decode([39, 0], skip_special_tokens=True) == "H"
    assert tokenizer.eos_token is None


def test_genai_config_names_tokens(tokenizer_folder: Callable[..., Path]) -> None:
    folder = tokenizer_folder(genai_config={"model": {"eos_token_id": [256, 0], "pad_token_id": 259}})
    tokenizer = Tokenizer.from_pretrained(folder / "tokenizer.json")
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<eos>", "<pad>")
    for number, token in ((0, "!"), (-1, None), (2**31 - 1, None), (2**31, None), (2**70, None), ("0", None)):
        (folder / "genai_config.json").write_text(json.dumps({"model": {"pad_token_id": number}}))
        assert Tokenizer.from_pretrained(folder / "tokenizer.json").pad_token == token


def test_looks_above_an_onnx_folder(tokenizer_folder: Callable[..., Path]) -> None:
    folder = tokenizer_folder()
    (folder / "onnx").mkdir()
    assert Tokenizer.from_pretrained(folder / "onnx").encode("Hi") == [39, 72]


def test_missing_and_broken_folders(tmp_path, monkeypatch, byte_backend):
    raises(FileNotFoundError, "no such model folder", lambda: Tokenizer.from_pretrained(tmp_path / "absent"))
    (tmp_path / "model.onnx").touch()
    with pytest.raises(FileNotFoundError, match=r"no tokenizer.json in .* \(found: model.onnx\)"):
        Tokenizer.from_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    raises(ValueError, "not a valid tokenizer", lambda: Tokenizer.from_pretrained(tmp_path))
    byte_backend().save(str(tmp_path / "tokenizer.json"))
    config = tmp_path / "tokenizer_config.json"
    config.write_text("[]")
    raises(ValueError, "must hold a JSON object", lambda: Tokenizer.from_pretrained(tmp_path))
    config.write_text(json.dumps({"x": "y" * (json_files.MAX_CONFIG_BYTES + 1)}))
    raises(ValueError, "may have at most", lambda: Tokenizer.from_pretrained(tmp_path))
    monkeypatch.setattr(tokenizer_module, "MAX_TOKENIZER_BYTES", 10)
    raises(ValueError, "may have at most 10", lambda: Tokenizer.from_pretrained(tmp_path))


def _tokenizer_files(backend: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """Broken tokenizer.json files by what is wrong, each with when it shows."""
    whole = json.loads(backend.to_str())
    word_piece = {
        "type": "WordPiece", "vocab": {"a": 0}, "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }  # fmt: skip
    words = {"type": "WordLevel", "unk_token": "a"}
    sequence = [{"SpecialToken": {"id": "[X]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    charsmap = {"type": "Precompiled"}
    post = {"type": "TemplateProcessing", "single": sequence, "pair": sequence, "special_tokens": {}}
    return {
        "garbage charsmap": ({**whole, "normalizer": {**charsmap, "precompiled_charsmap": "/w=="}}, ""),
        "short charsmap": ({**whole, "normalizer": {**charsmap, "precompiled_charsmap": "AAAA"}}, ""),
        "no unknown token": ({"version": "1.0", "model": word_piece}, "encode"),
        "unknown special token": ({**whole, "post_processor": post}, "encode"),
        "an id of 32 bits": ({"version": "1.0", "model": {**words, "vocab": {"a": 0, "b": 2**32 - 1}}}, ""),
        "an id of 31 bits": ({"version": "1.0", "model": {**words, "vocab": {"a": 0, "b": 2**31}}}, ""),
    }


def test_broken_tokenizers_raise_and_name_the_file(tmp_path: Path, byte_backend: Callable[[], Any]) -> None:
    for content, when in _tokenizer_files(byte_backend()).values():
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        if not when:
            with pytest.raises(ValueError, match=rf"{tmp_path}.tokenizer\.json is not a valid tokenizer"):
                Tokenizer.from_pretrained(tmp_path)
            continue
        tokenizer = Tokenizer.from_pretrained(tmp_path)
        tokenizer.chat_templates["default"] = "b b"
        for text in ("b b", ["b b", "b"]):
            raises(ValueError, f"the tokenizer '{tmp_path}' failed", tokenizer, text)


def test_a_long_number_in_a_token_is_no_id(tmp_path: Path) -> None:
    model = {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "4294967295": 1}}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    assert Tokenizer.from_pretrained(tmp_path).convert_tokens_to_ids(["4294967295"]) == [1]


def test_templates_that_are_links(tmp_path: Path, byte_backend: Callable[[], Any]) -> None:
    folder = tmp_path / "model" / "snapshots" / "1"
    (folder / "chat_templates").mkdir(parents=True)
    (tmp_path / "model" / "blobs").mkdir()
    byte_backend().save(str(folder / "tokenizer.json"))
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "model" / "blobs" / "2").write_text("of the cache")
    (folder / "own").write_text("own")
    template = folder / "chat_template.jinja"
    for target, text in (("../../blobs/2", "of the cache"), ("own", "own")):
        template.unlink(missing_ok=True)
        template.symlink_to(target)
        assert Tokenizer.from_pretrained(folder).chat_template == text
    elsewhere = tmp_path / "link"
    elsewhere.symlink_to(folder)
    assert Tokenizer.from_pretrained(elsewhere).chat_template == "own"
    template.unlink()
    for link in (template, folder / "chat_templates" / "x.jinja"):
        link.symlink_to(tmp_path / "secret")
        with pytest.raises(ValueError, match=rf"{link.name} is a link out of its folder, to .*secret"):
            Tokenizer.from_pretrained(folder)
        link.unlink()
    plain = tmp_path / "plain"
    plain.mkdir()
    byte_backend().save(str(plain / "tokenizer.json"))
    (plain / "chat_template.jinja").symlink_to(tmp_path / "model" / "blobs" / "2")
    raises(ValueError, "is a link out of its folder", lambda: Tokenizer.from_pretrained(plain))
    os.mkfifo(folder / "chat_templates" / "x.jinja")
    raises(ValueError, r"x\.jinja is not a file", lambda: Tokenizer.from_pretrained(folder))


def test_an_empty_template_is_a_damaged_file(tmp_path: Path, byte_backend: Any) -> None:
    byte_backend().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text("\n")
    with pytest.raises(
        ValueError, match=r"chat_template\.jinja is empty: the model's files are damaged or incomplete"
    ):
        Tokenizer.from_pretrained(tmp_path)


def test_templates_and_unknown_tokens_of_a_folder(tmp_path: Path) -> None:
    folder = Path(__file__).parents[1] / "exports" / "optimum-llama"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config |= {"chat_template": "{{ messages[0].content }}!", "unk_token": "<odd>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.from_pretrained(tmp_path)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "a!"
    assert tokenizer.unk_token == "<odd>"
