"""Grammars: what may come next, and responses that are what they have to be."""

import json
import re
import sys
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.models import GenerationConfig, generate
from lite.models.generation.grammar import Grammar, Matcher
from lite.models.generation.processors import unpacked

EOS = 256
JSON = {
    "type": "object",
    "properties": {"name": {"enum": ["ab", "c"]}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "n"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},
}


@pytest.fixture
def spelling(byte_backend: Any) -> Any:
    return byte_backend()


def ids_of(spelling: Any, text: str) -> list[int]:
    return list(spelling.encode(text).ids)


def allowed(matcher: Matcher, spelling: Any, text: str) -> set[str]:
    words = matcher.allowed(np.array(ids_of(spelling, text), np.int64))
    return {spelling.decode([i]) if i < EOS else "<eos>" for i in np.flatnonzero(unpacked(words, 260))}


def test_what_may_come_next(spelling: Any) -> None:
    matcher = Matcher(Grammar("regex", "yes|no", spelling), 260, (EOS,))
    assert allowed(matcher, spelling, "") == {"y", "n"}
    assert allowed(matcher, spelling, "ye") == {"s"}
    assert allowed(matcher, spelling, "no") == {"<eos>"}  # all is said
    assert allowed(matcher, spelling, "y") == {"e"}  # what was read and has not come is taken back
    other = matcher.fork()
    assert allowed(other, spelling, "yes") == {"<eos>"}
    assert allowed(matcher, spelling, "ye") == {"s"}
    with pytest.raises(ValueError, match=r"^grammar: Parser Error: token .y."):
        allowed(matcher, spelling, "yy")


def test_blanks_of_json_may_be_forbidden(spelling: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for blanks in (True, False):
        grammar = Grammar.from_option({**schema, "x-guidance": {"whitespace_flexible": blanks}})
        matcher = Matcher(grammar.bound(spelling), 260, (EOS,))
        assert (" " in allowed(matcher, spelling, "{")) is blanks


def test_models_with_other_numbers_of_ids(spelling: Any) -> None:
    """The end may come where the grammar accepts, whichever id it is."""
    for size in (200, 300):
        matcher = Matcher(Grammar("regex", "a+", spelling), size, (3,))
        words = matcher.allowed(np.array([64]))
        assert len(words) == -(-size // 32), size
        assert np.flatnonzero(unpacked(words, size)).tolist() == [3, 64], size


@pytest.mark.parametrize(
    ("grammar", "fits", "options"),
    [
        ({"regex": "(ab|c)+d"}, lambda text: re.fullmatch("(ab|c)+d", text), {}),
        (JSON, lambda text: json.loads(text)["name"] in ("ab", "c") and 0 <= json.loads(text)["n"] < 100,
            {"temperature": 0.8, "top_p": 0.9}),
        ({"lark": 'start: "x" num\nnum: /[0-9]{1,3}/'}, lambda text: re.fullmatch("x[0-9]{1,3}", text),
            {"num_beams": 3}),
        ({"choice": ["(a|b)*", "c d\n", 'é"\\']}, lambda text: text in ("(a|b)*", "c d\n", 'é"\\'), {}),
    ],
)  # fmt: skip
def test_responses(grammar, fits, options, scripted_model, spelling):
    """Of random logits: only the grammar makes a word of them. Rows without one are beside them."""
    own = Grammar.from_option(grammar).bound(spelling)
    config = GenerationConfig.from_kwargs(
        {"eos_token_id": EOS, "grammar": own, "max_new_tokens": 60, **options}
    )
    free = GenerationConfig.from_kwargs({"eos_token_id": EOS, "max_new_tokens": 5, **options})
    prompts = [[10, 20], [30, 40], [50, 60]]
    seeds = np.arange(9, dtype=np.uint64)
    found = generate(scripted_model({}), prompts, [config, free, config], num_samples=3, seeds=seeds)
    ended = [one for one in found[:3] + found[6:] if one.finish_reason == "eos"]
    assert ended
    for one in ended:
        assert fits(spelling.decode(one.tokens[:-1].tolist()))
    alone = generate(scripted_model({}), prompts[:1], config, num_samples=3, seeds=seeds[:3])
    for one, other in zip(found, alone, strict=False):
        np.testing.assert_array_equal(one.tokens, other.tokens)


def test_what_is_no_grammar(spelling: Any, scripted_model: Any) -> None:
    cases = [
        ("regex", "(", "unclosed group"),
        ("lark", "start: FOO", 'unknown name: "FOO"'),
        ("json", "{nope", "grammar: "),
        ("json", '{"type": "weird"}', "Invalid type: weird"),
    ]
    for kind, text, message in cases:
        config = GenerationConfig(grammar=Grammar(kind, text, spelling), eos_token_ids=(EOS,))
        with pytest.raises(ValueError, match=message) as error:
            generate(scripted_model({}), [[1]], config)
        assert str(error.value).startswith("grammar: "), kind
        assert "<state>" not in str(error.value), kind


def test_tokenizers(spelling: Any, byte_tokenizer: Any) -> None:
    for tokenizer in (spelling, byte_tokenizer(), spelling.to_str(), spelling.to_str().encode()):
        Grammar("regex", "a", tokenizer).check(260, (EOS,))
    for tokenizer, message in (
        (None, r"needs a tokenizer: Grammar\.from_option\(grammar\)\.bound\(tokenizer\) has one"),
        ("gpt2", r"the tokenizer must be the text of a tokenizer\.json"),
        ('{"a": 1}', "grammar: the tokenizer is refused"),
    ):
        raises(ValueError, message, Grammar("regex", "a", tokenizer).check, 260, (EOS,))
    assert Grammar("regex", "a").bound(spelling).tokenizer is spelling


def test_without_llguidance(monkeypatch: pytest.MonkeyPatch, spelling: Any) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(ImportError, match=r'grammar needs llguidance: pip install -e "\.\[grammar\]"'):
        Grammar("regex", "never compiled before", spelling).check(260, (EOS,))
