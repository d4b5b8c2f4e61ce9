"""Responses that are the same, whatever they were made with."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from helpers.compared import assert_same


def assert_same_responses(ours: Iterable[Any], theirs: Iterable[Any], atol: float = 0.0) -> None:
    """Tokens and ends are the same; and to `atol` log-probs, scores, and what is told of each draw."""
    for one, other in zip(ours, theirs, strict=True):
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.finish_reason == other.finish_reason
        assert one.score == other.score or abs(one.score - other.score) <= atol
        assert_same(one.log_probs, other.log_probs, atol=atol)
        assert (one.details is None) == (other.details is None)
        for field in () if one.details is None else fields(one.details):
            here, there = (getattr(each.details, field.name) for each in (one, other))
            assert (here is None) == (there is None), field.name
            if here is not None:
                assert_same(here, there, atol=atol, where=field.name)
