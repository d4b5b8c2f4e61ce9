"""Hooks by number, and their handles."""

from collections import OrderedDict
from typing import Any

from lite._transforms.handles import add_hook


def test_hooks_are_in_order_and_removed_once() -> None:
    hooks: OrderedDict[int, Any] = OrderedDict()
    first, second = add_hook(hooks, "first"), add_hook(hooks, "second")
    front = add_hook(hooks, "front", prepend=True)
    assert list(hooks.values()) == ["front", "first", "second"]
    first.remove()
    first.remove()
    with second:
        assert list(hooks.values()) == ["front", "second"]
    assert list(hooks.values()) == ["front"]
    del hooks
    front.remove()  # whose hooks are gone
