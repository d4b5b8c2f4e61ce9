"""Grammars of responses, and the tokens that they allow next.

The work is llguidance's (https://github.com/guidance-ai/llguidance), which is loaded on first use.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._install import install, needed

KINDS = ("json", "regex", "lark", "choice")
# Keywords of JSON schemas that restrict values; a useful schema has at least one of them.
_KEYWORDS = frozenset(
    ("$ref", "allOf", "anyOf", "oneOf", "not", "if", "const", "enum", "type", "format", "pattern")
    + ("properties", "patternProperties", "additionalProperties", "propertyNames", "required")
    + ("minProperties", "maxProperties", "items", "prefixItems", "contains", "minItems", "maxItems")
    + ("uniqueItems", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum")
    + ("exclusiveMaximum", "multipleOf")
)


@dataclass(frozen=True)
class Grammar:
    """The grammar of a response.

    Attributes:
        kind: `"json"`, `"regex"` or `"lark"`.
        text: the JSON schema, regular expression (of Rust's `regex`) or Lark grammar (of llguidance).
        tokenizer: for the bytes of ids: a `tokenizers.Tokenizer`, a `lite.models.Tokenizer` or the
            text of a `tokenizer.json`. `OnnxWrapper` puts its own here; otherwise `bound` does.

    Example:
        >>> Grammar.from_option({"regex": "yes|no"})
        Grammar(kind='regex', text='yes|no', tokenizer=None)
        >>> from lite.models import *
        >>> decoder = OnnxDecoder(embedded_model_path())
        >>> tokenizer = Tokenizer.from_pretrained(embedded_model_path())
        >>> grammar = Grammar.from_option({"regex": "yes|no"}).bound(tokenizer)
        >>> config = GenerationConfig.from_kwargs({"grammar": grammar}, decoder.config)
        >>> (response,) = generate(decoder, [tokenizer.encode("Is 3 less than 40?")], config)
        >>> tokenizer.decode(response.tokens, skip_special_tokens=True) in ("yes", "no")
        True
    """

    kind: str
    text: str
    tokenizer: Any = None

    @classmethod
    def from_option(cls, given: Any) -> Grammar:
        """The grammar of the option `grammar`.

        A `Grammar`, `{kind: text}`, `{"choice": texts}` of which the response is one, or a JSON schema as a
        mapping.

        Raises:
            ValueError: the option has another form.
        """
        if isinstance(given, Grammar):
            return given
        if not isinstance(given, Mapping) or not given:
            raise ValueError(
                "grammar must be {'json': schema}, {'regex': expression}, {'lark': grammar},"
                f" {{'choice': texts}}, a JSON schema as a mapping, or a Grammar, got {given!r}"
            )
        kind, text = ("json", given) if len(given) > 1 else next(iter(given.items()))
        if kind not in KINDS or text is given:
            if _KEYWORDS.isdisjoint(given):
                raise ValueError(
                    "grammar must hold one of 'json', 'regex', 'lark', 'choice' or keywords of a JSON schema,"
                    f" got {', '.join(map(repr, given))}"
                )
            kind, text = "json", given
        if kind == "json" and not isinstance(text, str):
            text = json.dumps(text)
        elif kind == "choice":
            texts = list(text) if isinstance(text, Sequence) and not isinstance(text, str) else []
            if not texts or not all(isinstance(one, str) for one in texts):
                raise ValueError(f"grammar: 'choice' must be at least one text in a list, got {text!r}")
            kind, text = "regex", "|".join(map(re.escape, texts))
        if not isinstance(text, str):
            raise ValueError(f"grammar: {kind!r} must be a text, got {text!r}")
        return cls(kind, text)

    def bound(self, tokenizer: Any) -> Grammar:
        """This grammar with a tokenizer, unless it has one."""
        return self if self.tokenizer is not None else replace(self, tokenizer=tokenizer)

    def check(self, vocab_size: int, eos_token_ids: tuple[int, ...]) -> None:
        """Compile the grammar; the result is cached.

        Raises:
            ImportError: llguidance is missing.
            ValueError: there is no tokenizer, or llguidance refuses it or the grammar.
        """
        _compiled(self, vocab_size, eos_token_ids)


class Matcher:
    """Reads the tokens of one response, and says which may come next.

    Args:
        grammar: has a tokenizer.
        vocab_size: V, of the model.
        eos_token_ids: ids that are allowed where the response may end, alone where it must end.
    """

    def __init__(self, grammar: Grammar, vocab_size: int, eos_token_ids: tuple[int, ...]) -> None:
        compiled, spelt = _compiled(grammar, vocab_size, eos_token_ids)
        self._state = compiled.deep_copy()
        self._used = (vocab_size + 31) // 32
        self._words = np.zeros((spelt + 31) // 32, np.int32)
        self._read: list[int] = []

    def fork(self) -> Matcher:
        """A copy that has read the same tokens."""
        other = object.__new__(Matcher)
        other._state, other._read = self._state.deep_copy(), list(self._read)
        other._used, other._words = self._used, np.zeros_like(self._words)
        return other

    def allowed(self, tokens: NDArray[np.int64]) -> NDArray[np.int32]:
        """The ids that may follow the response's tokens (L,), a bit each: int32 (ceil(V / 32),).

        The next call overwrites them. Tokens that were read and have not come after all are taken back.

        Raises:
            ValueError: the tokens are not what the grammar allows, or it is too complex.
        """
        known, given = self._read, tokens.tolist()
        same = len(known) if given[: len(known)] == known else _common(known, given)
        if same < len(known):
            self._state.rollback(len(known) - same)
        if same < len(given):
            self._state.consume_tokens(given[same:])
        self._read = given
        self._state.unsafe_compute_mask_ptr(self._words.ctypes.data, self._words.nbytes)
        if self._state.is_error():
            raise ValueError(f"grammar: {_reason(self._state)}")
        return self._words[: self._used]


def _common(one: list[int], other: list[int]) -> int:
    """The length of the common prefix of two lists."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


@functools.lru_cache(maxsize=16)
def _compiled(grammar: Grammar, vocab_size: int, eos_token_ids: tuple[int, ...]) -> tuple[Any, int]:
    """A new matcher, to be copied, and the number of ids that it knows."""
    if grammar.tokenizer is None:
        raise ValueError("grammar needs a tokenizer: Grammar.from_option(grammar).bound(tokenizer) has one")
    llguidance = _import_llguidance()
    try:
        rules = llguidance.grammar_from(grammar.kind, grammar.text)
    except ValueError as error:
        raise ValueError(f"grammar: {error}") from error
    spelling = _spelling(grammar.tokenizer, vocab_size, eos_token_ids)
    matcher = llguidance.LLMatcher(spelling, rules, log_level=0)
    if matcher.is_error():
        raise ValueError(f"grammar: {_reason(matcher)}")
    return matcher, spelling.vocab_size


def _reason(matcher: Any) -> str:
    """The error message, without the matcher's state."""
    return matcher.get_error().split("<state>")[0].strip()


@functools.lru_cache(maxsize=4)
def _spelling(tokenizer: Any, vocab_size: int, eos_token_ids: tuple[int, ...]) -> Any:
    """The tokenizer in llguidance's form, with the bytes of all ids; this takes up to seconds."""
    text = tokenizer
    if not isinstance(text, (str, bytes)):
        text = getattr(tokenizer, "backend", tokenizer).to_str()
    if isinstance(text, bytes):
        text = text.decode()
    if not text.lstrip().startswith("{"):  # anything else would be a name to download
        raise ValueError("grammar: the tokenizer must be the text of a tokenizer.json, or an object with one")
    make = functools.partial(_import_llguidance().LLTokenizer, text, eos_token=list(eos_token_ids))
    try:
        return make(n_vocab=vocab_size)
    except ValueError:  # the model has fewer ids than the tokenizer, or the tokenizer is none
        try:
            return make()
        except ValueError as error:
            raise ValueError(f"grammar: the tokenizer is refused: {error}") from error


def _import_llguidance() -> Any:
    return needed("llguidance", "grammar needs llguidance", install("grammar"))
