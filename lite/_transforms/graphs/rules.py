"""The table of rules that write nodes, and of lite's own functions that have an operator."""

from __future__ import annotations

from typing import Any

from lite._transforms.registry import Registry

_registry = Registry()
RULES: dict[Any, Any] = _registry.rules
rule, composed, rules_of = _registry.rule, _registry.composed, _registry.rules_of
