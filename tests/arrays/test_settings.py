"""Settings of the process and of threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import lite
from lite._arrays.settings import Scoped, Setting


def in_a_thread(setting: Setting[Any]) -> Any:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(setting.get()))
    thread.start()
    thread.join()
    return seen[0]


def scoped(setting: Setting[int]) -> type[Scoped[int]]:
    class Number(Scoped[int]):
        _setting = setting

    return Number


@pytest.mark.parametrize(("per_thread", "elsewhere"), [(True, 1), (False, 2)])
def test_in_a_block_and_in_a_function(per_thread: bool, elsewhere: int) -> None:
    setting = Setting("test", 1, per_thread)
    number = scoped(setting)
    with number(2) as _:
        assert (setting.get(), in_a_thread(setting)) == (2, elsewhere)
        with number(3):
            assert setting.get() == 3
        assert setting.get() == 2
    assert setting.get() == 1

    @number(4)
    def fails() -> None:
        assert setting.get() == 4
        raise ZeroDivisionError

    assert setting.get() == 1
    with pytest.raises(ZeroDivisionError):
        fails()
    assert setting.get() == 1


def test_for_the_process() -> None:
    setting = Setting("test", 1)
    two = scoped(setting)(2)
    two.set()
    two.set()
    assert (setting.get(), in_a_thread(setting)) == (2, 2)
    two.unset()
    two.unset()
    assert setting.get() == 1
    undo = setting.set(5)
    assert setting.get() == 5
    undo()
    assert setting.get() == 1


def test_a_block_inside_itself() -> None:
    setting = Setting("test", 1)
    two = scoped(setting)(2)
    with two, two:
        assert setting.get() == 2
    assert setting.get() == 1


def test_missing_keys_give_none_or_raise() -> None:
    td = lite.TensorDict()
    assert lite.get_defaults_to_none()
    try:
        lite.set_get_defaults_to_none(False)
        with pytest.raises(KeyError):
            td.get("missing")
    finally:
        lite.set_get_defaults_to_none(True)
    assert td.get("missing") is None
