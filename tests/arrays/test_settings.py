"""Settings of the process and of threads."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import NonTensorData, NonTensorStack, TensorDict
from lite._arrays import settings
from lite._arrays.settings import Scoped, Setting, from_environment, settings_now


def in_a_thread(setting: Setting[Any]) -> Any:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(setting.get()))
    thread.start()
    thread.join()
    return seen[0]


def test_a_setting_of_a_package_that_loads_later_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that was made before `lite.nn.utils` was imported is that of the next call."""
    monkeypatch.setattr(settings, "_of_results", settings._of_results.copy())
    before = settings_now()
    setting = Setting("test_later", 1.0)
    assert settings_now() == before
    restore = setting.set(2.0)
    changed = settings_now()
    restore()
    assert changed != before == settings_now()


def scoped(setting: Setting[int]) -> type[Scoped[int]]:
    class Number(Scoped[int]):
        _setting = setting

    return Number


@each_case(("per_thread", "elsewhere"), [(True, 1), (False, 2)])
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
    raises(ZeroDivisionError, "", fails)
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
    with two, scoped(setting)(3):
        with two:
            assert setting.get() == 2
        assert setting.get() == 3
    assert setting.get() == 1


def test_a_block_of_threads_that_share_it() -> None:
    """Each leaves what it entered, in whatever order."""
    setting = Setting("test", 1)
    two, inside, left = scoped(setting)(2), threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        with two:
            inside.set()
            left.wait(30)
            seen.append(setting.get())
        seen.append(setting.get())

    thread = threading.Thread(target=other)
    with two:
        thread.start()
        inside.wait(30)
    seen.append(setting.get())
    left.set()
    thread.join()
    assert seen == [1, 2, 1]


def test_a_block_that_ends_in_another_context() -> None:
    """As of a generator whose steps a server runs in copies of its context."""
    setting = Setting("test", 1)

    def steps() -> Iterator[int]:
        with scoped(setting)(2):
            yield setting.get()

    generator = steps()
    assert contextvars.copy_context().run(next, generator) == 2
    with scoped(setting)(3):
        assert list(generator) == []
        assert setting.get() == 3
    assert setting.get() == 1


def test_steps_of_a_decorated_generator() -> None:
    setting = Setting("test", 1)
    ended: list[int] = []

    @scoped(setting)(2)
    def steps() -> Generator[Any, Any, str]:
        try:
            sent = yield setting.get()
            try:
                yield sent, setting.get()
            except KeyError:
                yield "caught", setting.get()
            return "returned"
        finally:
            ended.append(setting.get())

    generator = steps()
    assert (next(generator), setting.get()) == (2, 1)
    assert generator.send("sent") == ("sent", 2)
    assert generator.throw(KeyError()) == ("caught", 2)
    raises(StopIteration, "returned", next, generator)
    generator = steps()
    next(generator)
    generator.close()
    assert ended == [2, 2]


def test_steps_of_decorated_coroutines() -> None:
    setting = Setting("test", 1)
    two, ended = scoped(setting)(2), []

    @two
    async def waits() -> int:
        await asyncio.sleep(0)
        return setting.get()

    @two
    async def steps() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(0)
            yield setting.get()
            yield 0
        finally:
            ended.append(setting.get())

    seen: list[int] = []

    async def keeps() -> None:
        seen.extend([await waits(), setting.get()])
        seen.extend([value async for value in steps()])
        seen.append(setting.get())
        async with contextlib.aclosing(steps()) as closed:
            seen.append(await anext(closed))
        seen.extend(ended)
        async with contextlib.asynccontextmanager(steps)():
            raise KeyError

    raises(KeyError, "", asyncio.run, keeps())
    assert (seen, ended) == ([2, 1, 2, 0, 1, 2, 2, 2], [2, 2, 2])


def lists(kind: str) -> Any:
    """What a list of texts becomes in a container."""
    if kind == "tensorclass":
        return Label(name=["a", "b"], batch_size=[2])[0].name
    td = lite.lazy_stack([TensorDict(), TensorDict()]) if kind == "lazy" else TensorDict(batch_size=[2])
    return td.set("name", ["a", "b"])[0]["name"]


class Label(lite.TensorClass):
    name: Any


@each_case("kind", ["dense", "lazy", "tensorclass"])
def test_lists_that_are_one_object(kind: str) -> None:
    assert lists(kind) == "a"
    with lite.set_list_to_stack(False):
        np.testing.assert_array_equal(lists(kind), ["a", "b"])
        assert isinstance(lists(kind), list if kind == "tensorclass" else np.ndarray)
        numbers = TensorDict(x=[[1.0], [2.0]])["x"]
        assert (numbers.shape, numbers.dtype) == ((2, 1), np.float64)
        raises(ValueError, "inhomogeneous", lambda: TensorDict(x=[[1], [2, 3]]))


@each_case("join", [lite.stack, lite.lazy_stack, TensorDict.maybe_dense_stack])
def test_equal_objects_that_become_one_keep_their_device(join: Any) -> None:
    """Which are equal enough is in tests/parity/test_settings.py."""
    rows = [TensorDict(s=NonTensorData("a", device="cpu")) for _ in range(2)]
    assert join(rows)["s"] == ["a", "a"]
    with lite.set_capture_non_tensor_stack(True):
        found = join(rows).get("s")
        assert (found.data, found.batch_size, found.device) == ("a", (2,), "cpu")
        stacked = TensorDict(s=NonTensorStack("a", "a"), batch_size=[2])
        assert (stacked.get_non_tensor("s"), stacked["s"]) == ("a", ["a", "a"])


@each_case(
    ("text", "expected"),
    [("1", True), ("off", False), ("None", None), ("TRUE", True), ("", None), (None, None)],
)
def test_what_the_environment_says(text, expected, monkeypatch):
    monkeypatch.delenv("LITE_TEST", raising=False)
    if text is not None:
        monkeypatch.setenv("LITE_TEST", text)
    assert from_environment("LITE_TEST") is expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"LIST_TO_STACK": "0", "CAPTURE_NONTENSOR_STACK": "1"}, [False, True] * 2),
        ({}, [True, False, None, None]),
    ],
)
def test_the_environment_chooses_at_the_start(chosen: dict[str, str], expected: list[bool | None]) -> None:
    names = ("list_to_stack", "capture_non_tensor_stack")
    calls = ", ".join(f"lite.{name}({argument})" for argument in ("", "allow_none=True") for name in names)
    others = {
        key: value
        for key, value in os.environ.items()
        if key not in ("LIST_TO_STACK", "CAPTURE_NONTENSOR_STACK")
    }
    command = [sys.executable, "-c", f"import lite\nprint([{calls}])"]
    out = subprocess.run(command, env=others | chosen, capture_output=True, text=True, check=True).stdout
    assert out == f"{expected}\n"
