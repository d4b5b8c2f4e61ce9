"""Rules of a tokenizer.json: those of real models pass, those that multiply a text do not."""

import base64
import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from helpers.cases import each_case, raises
from helpers.letters import LETTERS
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models import Tokenizer
from lite.models.text.tokenizer_rules import MAX_GROWTH, check_rules


def replace(pattern: str, content: str, *, regex: bool = False) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def sequence(*rules: Any, key: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", key: list(rules)}


def charsmap(*texts: bytes, trie: int = 8) -> dict[str, Any]:
    blob = trie.to_bytes(4, "little") + bytes(min(trie, 64)) + b"".join(text + b"\0" for text in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
SPLIT = {"type": "Split", "pattern": {"Regex": "a|b"}, "behavior": "Isolated", "invert": False}
TOKEN = {"SpecialToken": {"id": "<s>", "type_id": 0}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}
UNICODE = charsmap(b"x" * 33)


def template(*pieces: Any, ids: int = 1) -> dict[str, Any]:
    special = {"<s>": {"id": "<s>", "ids": [0] * ids, "tokens": ["<s>"] * ids}}
    return {"type": "TemplateProcessing", "single": list(pieces), "pair": [], "special_tokens": special}


# as the tokenizers of known families have them
REAL = {
    "bert": {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}},
    "gpt2": {"pre_tokenizer": BYTE_LEVEL, "decoder": BYTE_LEVEL, "post_processor": BYTE_LEVEL},
    "qwen": {"normalizer": {"type": "NFC"},
        "pre_tokenizer": sequence(SPLIT, BYTE_LEVEL, key="pretokenizers")},
    "llama": {"normalizer": sequence({"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")),
        "post_processor": template(TOKEN, TEXT), "decoder": sequence(replace("▁", " "),
        {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}, key="decoders")},
    "llama3": {"pre_tokenizer": sequence(SPLIT, BYTE_LEVEL, key="pretokenizers"),
        "post_processor": {"type": "Sequence", "processors": [BYTE_LEVEL, template(TOKEN, TEXT)]}},
    "t5": {"normalizer": sequence(UNICODE, replace(" {2,}", "▁", regex=True)), "pre_tokenizer": METASPACE},
    "albert": {"normalizer": sequence(replace("``", '"'), replace("''", '"'), {"type": "NFKD"},
        {"type": "StripAccents"}, {"type": "Lowercase"}, UNICODE, replace(" {2,}", " ", regex=True)),
        "pre_tokenizer": METASPACE},
    "clip": {"normalizer": sequence({"type": "NFC"}, replace(r"\s+", " ", regex=True),
        {"type": "Lowercase"})},
    "deberta": {"normalizer": sequence({"type": "Strip"}, UNICODE, replace(r"[\n\r\t]", " ", regex=True))},
    "deepseek": {"pre_tokenizer": sequence(SPLIT, SPLIT, SPLIT,
        {"type": "Digits", "individual_digits": True}, BYTE_LEVEL, key="pretokenizers")},
    "cleaning": {"normalizer": sequence(*[replace(bad, "'") for bad in "\u2018\u2019\u201a\u201b`"],
        *[replace(c, "") for c in "\u200b\ufeff"])},
}  # fmt: skip

HOSTILE = {
    "twelve times eight": ({"normalizer": sequence(*[replace("l", "l" * 8)] * 12)},
        "normalizer makes up to 512"),
    "nested": ({"normalizer": sequence(sequence(*[replace("l", "l" * 8)] * 6), replace("l", "l" * 8))},
        "normalizer"),
    "expressions": ({"normalizer": sequence(*[replace(".", "xx", regex=True)] * 8)}, "normalizer makes"),
    "nothing": ({"normalizer": sequence(*[replace("", "x")] * 8)}, "normalizer makes"),
    "a long one": ({"normalizer": replace("l", "x" * 10**6)}, "makes up to 1000000 characters of one"),
    "before": ({"normalizer": sequence(*[{"type": "Prepend", "prepend": "x" * 1000}] * 5)},
        "writes up to 5000"),
    "before, multiplied": (
        {"normalizer": sequence({"type": "Prepend", "prepend": "x" * 1000}, replace("x", "x" * 8))},
        "writes up to 8000",
    ),
    "back and forth": (
        {
            "normalizer": sequence(
                *[rule for _ in range(4) for rule in (replace("a", "\ufdfa"), {"type": "NFKD"})]
            )
        },
        "normalizer makes",
    ),
    "marks": ({"pre_tokenizer": sequence(*[BYTE_LEVEL] * 30, key="pretokenizers")}, "pre_tokenizer makes"),
    "spaces": ({"pre_tokenizer": sequence(*[METASPACE] * 30, key="pretokenizers")}, "pre_tokenizer makes"),
    "decoding": ({"decoder": sequence(*[replace("l", "l" * 8)] * 12, key="decoders")}, "decoder makes"),
    "a long text in a map": ({"normalizer": charsmap(b"x" * 1000)}, "normalizer makes up to 1000"),
    "maps": ({"normalizer": sequence(*[UNICODE] * 3)}, "normalizer makes"),
    "a map that is cut": ({"normalizer": charsmap(b"a", trie=2**32 - 4)}, "a map of 4294967292"),
    "a map of odd length": ({"normalizer": charsmap(b"a", trie=7)}, "a map of 7"),
    "no base64": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "é"}}, "not base64"),
    "many ids": ({"post_processor": template(*[TOKEN] * 50, TEXT, ids=50)},
        "post_processor adds up to 2550"),
    "many rules": ({"decoder": sequence(*[{"type": "Fuse"}] * 20_000, key="decoders")},
        "more than 20000 parts"),
    "an id of 32 bits": ({"added_tokens": [{"id": 2**32 - 1, "content": "z"}]},
        "ids must be at most .* added_tokens"),
    "an id of 31 bits": ({"added_tokens": [{"id": 2**31, "content": "z"}]}, "ids must be at most"),
    "an id of a template": ({"post_processor": {"type": "BertProcessing", "sep": ["s", 2**32 - 1]}},
        "post_processor"),
    "an id of padding": ({"padding": {"pad_id": 2**32 - 1}}, "padding"),
    "many tokens": ({"added_tokens": [0] * (2**17 + 1)}, "131073 added tokens"),
}  # fmt: skip


def deep(depth: int) -> Any:
    rule: Any = {"type": "Fuse"}
    for _ in range(depth):
        rule = sequence(rule, key="decoders")
    return rule


def test_rules_of_real_models() -> None:
    for name in REAL:
        check_rules(json.dumps({**REAL[name], "model": {}}))


PLACES = ["before the model", "after it", "under an escaped name", "twice"]


def test_rules_that_multiply_are_refused() -> None:
    cases = [
        *zip(HOSTILE, PLACES * 9, strict=False),
        *(("twelve times eight", place) for place in PLACES[1:]),
    ]
    for name, place in cases:
        rules, message = HOSTILE[name]
        ((key, value),) = rules.items()
        text = json.dumps(value)
        written = {
            "before the model": f'{{"{key}": {text}, "model": {{"vocab": {{}}}}}}',
            "after it": f'{{"model": {{"vocab": {{"{key}": 0}}}}, "{key}" :\n {text}}}',
            "under an escaped name": f'{{"model": {{}}, "\\u00{ord(key[0]):x}{key[1:]}": {text}}}',
            "twice": f'{{"{key}": null, "model": {{}}, "{key}": {text}, "model": 1}}',
        }[place]
        assert json.loads(written)[key] == value, name
        raises(ValueError, message, check_rules, written)


def test_rules_that_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 10_000
    monkeypatch.setattr("lite.models.text.tokenizer_rules.MAX_RULE_CHARS", limit)
    rule = '{"type": "Fuse"},' * (limit // 17)
    for text in (f'{{"decoder": [{rule}0], "model": {{}}}}', f'{{"x": [{rule}0], "model": {{}}}}'):
        raises(ValueError, f"more than {limit} characters", check_rules, text)
    vocab = '"a": 1,' * (limit // 7 + 1)
    check_rules(f'{{"model": {{"vocab": {{{vocab} "b": 2}}}}}}')
    with pytest.raises(ValueError, match="or come after its model"):
        check_rules(f'{{"model": {{"vocab": {{{vocab} "b": 2}}}}, "decoder": {{}}}}')


def test_rules_that_are_nested_deeply() -> None:
    check_rules(json.dumps({"decoder": deep(6)}))
    for depth in (20, 400, 100_000):
        text = '{"type":"Sequence","decoders":[' * depth + "1" + "]}" * depth
        raises(ValueError, "nested", check_rules, f'{{"decoder":{text}}}')


def test_what_is_no_json_object() -> None:
    for text in ("", "[1]", "{", '{"a" 1}', '{"a": 1 "b": 2}', '{"model"', '{"a": [', "{'a': 1}", '"a"'):
        raises(ValueError, "not valid JSON", check_rules, text)


KEYS = ["normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens", "model", "x"]
FIELDS = ["type", "content", "pattern", "String", "normalizers", "single", "special_tokens", "id"]
KINDS = st.sampled_from(["Sequence", "Replace", "Prepend", "TemplateProcessing", "Precompiled"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.floats() | st.text(LETTERS, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner | KINDS, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_rules_of_any_form_are_read_or_refused(parts: dict[str, Any]) -> None:
    with contextlib.suppress(ValueError):
        check_rules(json.dumps(parts))


@each_case("seed", range(3))
def test_the_bound_holds(seed: int, byte_backend: Callable[[], Any]) -> None:
    """What passes multiplies no text by more than the limit and the free rules."""
    choose = random.Random(seed)
    rules: list[Any] = []
    while True:
        new = choose.choice(
            [
                replace("l", "l" * choose.randint(1, 4)), replace("ll", "l" * choose.randint(1, 4)),
                replace(".", "l" * choose.randint(0, 2), regex=True), {"type": "NFKD"},
                {"type": "Lowercase"}, replace("l", "\ufdfa"),
            ]
        )  # fmt: skip
        try:
            check_rules(json.dumps({"normalizer": sequence(*rules, new)}))
        except ValueError:
            break
        rules.append(new)
        if len(rules) > 40:
            break
    whole = {**json.loads(byte_backend().to_str()), "normalizer": sequence(*rules)}
    made = tokenizers.Tokenizer.from_str(json.dumps(whole))
    for text in ("l" * 500, "Hello, all of you" * 20):
        assert len(made.normalizer.normalize_str(text)) <= MAX_GROWTH * len(text) + MAX_GROWTH


def test_the_tokenizer_is_checked(tmp_path: Path, byte_backend: Callable[[], Any]) -> None:
    whole = json.loads(byte_backend().to_str())
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({**whole, **HOSTILE["twelve times eight"][0]}))
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a valid tokenizer: its normalizer makes"):
        Tokenizer.from_pretrained(tmp_path)
    file.write_text(json.dumps({**whole, **HOSTILE["an id of 32 bits"][0]}))
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a valid tokenizer: ids must be at most"):
        Tokenizer.from_pretrained(tmp_path)
