"""Whether parameters take part by themselves, whether anything is noted, and `backward`."""

import asyncio
import threading
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.interrupts import interrupted_everywhere

import lite
from lite import nn
from lite._transforms.grad import mode
from lite._transforms.grad.running import state


def parameter(*numbers: float) -> nn.Parameter:
    return nn.Parameter(np.array(numbers))


def test_an_interrupt_leaves_no_mode_behind() -> None:
    weight = parameter(1.0, 2.0)

    def run() -> None:
        with lite.enable_grad():
            with lite.no_grad():
                weight * 2
            lite.grad(lambda x: lite.grad(lambda y: (y * y * weight.data).sum())(x).sum())(weight.data)
            with lite.set_grad_enabled(False):
                weight * 2

    lines = []
    for line in interrupted_everywhere(run, mode._set, mode.Mode.__enter__):
        lines.append(line)
        assert not lite.is_grad_enabled(), line
        assert (state.paused, state.levels, state.floor) == (False, [], -1), line
        assert type(weight * 2) is np.ndarray
        mode.pauses[0] = mode.nestings[0] = 0  # counts may be left too large, which costs time alone
        state.before.clear()
    assert len(lines) > 5


def test_parameters_take_part_only_where_it_is_enabled() -> None:
    weight = parameter(1.0, 2.0)
    assert type(weight * 2) is np.ndarray
    with lite.enable_grad():
        out = (weight * np.array([3.0, 4.0])).sum()
        assert out.requires_grad
    assert type(weight * 2) is np.ndarray
    assert weight.grad is None
    out.backward()
    np.testing.assert_array_equal(weight.grad, [3, 4])
    assert type(weight.grad) is np.ndarray


def test_parameters_that_require_none() -> None:
    weight = nn.Parameter(np.ones(2), requires_grad=False)
    with lite.enable_grad():
        assert type(weight * 2) is np.ndarray


def test_backward_of_several_numbers() -> None:
    weight = parameter(1.0, 2.0)
    with lite.enable_grad():
        out = weight * 3
    raises(RuntimeError, r"backward\(\) needs a gradient, of the shape \(2,\)", lambda: out.backward())
    raises(RuntimeError, r"must have the shape \(2,\), got \(3,\)", lambda: out.backward(np.ones(3)))
    out.backward(np.array([1.0, 10.0]))
    np.testing.assert_array_equal(weight.grad, [3, 30])


def test_what_a_backward_needs_is_released() -> None:
    weight = parameter(2.0)
    with lite.enable_grad():
        out = (weight * weight).sum()
    out.backward(retain_graph=True)
    out.backward()
    np.testing.assert_array_equal(weight.grad, [8])
    raises(RuntimeError, "say retain_graph=True", lambda: out.backward())


def test_of_what_depends_on_nothing() -> None:
    weight = parameter(2.0)
    with lite.enable_grad():
        constant = np.zeros_like(weight * 1)
        raises(RuntimeError, "depends on no parameter", lambda: constant.backward(np.ones(1)))


def test_parameters_are_not_written_to() -> None:
    weight = parameter(1.0, 2.0)
    module = nn.Module()
    module.weight = weight
    with lite.enable_grad():
        with pytest.raises(RuntimeError, match="cannot be written to under enable_grad"):
            module._tensor("weight")[0] = 5.0
        with lite.no_grad():
            weight[0] = 5.0
    np.testing.assert_array_equal(weight.data, [5, 2])


def test_no_grad() -> None:
    weight = parameter(1.0, 2.0)
    with lite.enable_grad():
        with lite.no_grad():
            assert not lite.is_grad_enabled()
            assert type(weight * 2) is np.ndarray
        assert lite.is_grad_enabled()

        @lite.no_grad()
        def scale(x: Any) -> Any:
            return x.sum()

        (weight * scale(weight * 1)).sum().backward()
    np.testing.assert_array_equal(weight.grad, 3)


def test_writes_under_no_grad_change_the_value_alone() -> None:
    def loss(x: Any) -> Any:
        y = x * 2
        with lite.no_grad():
            y *= 10
            y[0] = 7.0
        assert y.tolist() == [7.0, 20.0]
        return (y * y).sum()

    np.testing.assert_array_equal(lite.grad(loss)(np.ones(2)), [28, 80])


def test_parameters_are_constants_to_functions_of_grad() -> None:
    weight = parameter(3.0)
    np.testing.assert_array_equal(lite.grad(lambda x: (x * weight).sum())(np.ones(1)), 3)
    with lite.enable_grad(), lite.no_grad():
        np.testing.assert_array_equal(lite.grad(lambda x: (x * weight).sum())(np.ones(1)), 3)
    assert weight.grad is None


def test_a_step_inside_of_a_loss_goes_back_to_parameters() -> None:
    def inner(params: Any) -> Any:
        return (params["w"] ** 3).sum()

    slopes = {"grad": lite.grad(inner), "vjp": lambda params: lite.vjp(inner, params)[1](np.ones(()))[0]}
    for name, slope in slopes.items():
        params = lite.TensorDict(w=parameter(1.0, -2.0))
        assert type(slope(params)["w"]) is np.ndarray, name
        with lite.enable_grad():
            (params - slope(params) * 0.5)["w"].sum().backward()
        np.testing.assert_allclose(params["w"].grad, [1 - 0.5 * 6 * 1, 1 + 0.5 * 6 * 2], err_msg=name)


def test_set_grad_enabled() -> None:
    with lite.set_grad_enabled(True):
        assert lite.is_grad_enabled()
        with lite.set_grad_enabled(False):
            assert not lite.is_grad_enabled()
        assert lite.is_grad_enabled()
    assert not lite.is_grad_enabled()

    @lite.set_grad_enabled(True)
    def enabled() -> bool:
        return lite.is_grad_enabled()

    assert not lite.is_grad_enabled()
    assert enabled()
    before = lite.set_grad_enabled(True)  # from here on
    assert lite.is_grad_enabled()
    before.__exit__(None, None, None)
    assert not lite.is_grad_enabled()


def test_decorated_functions_may_call_themselves() -> None:
    @lite.enable_grad()
    def count(k: int) -> int:
        assert lite.is_grad_enabled()
        return 0 if not k else 1 + count(k - 1)

    assert count(3) == 3
    assert not lite.is_grad_enabled()


def test_a_mode_that_threads_share() -> None:
    """Each leaves it to what it was in before."""
    mode, inside, left, seen = lite.no_grad(), threading.Event(), threading.Event(), []

    def other() -> None:
        with mode:
            inside.set()
            left.wait(30)
        seen.append(lite.is_grad_enabled())

    thread = threading.Thread(target=other)
    with lite.enable_grad():
        with mode:
            thread.start()
            inside.wait(30)
        assert lite.is_grad_enabled()
        left.set()
        thread.join()
    assert seen == [False]


def test_a_decorated_coroutine_leaves_other_tasks_alone() -> None:
    weight, seen = parameter(2.0), []

    @lite.enable_grad()
    async def learns() -> None:
        await asyncio.sleep(0)
        seen.append(type(weight * 2).__name__)

    async def serves() -> None:
        seen.append(type(weight * 2).__name__)

    async def both() -> None:
        await asyncio.gather(learns(), serves())

    asyncio.run(both())
    assert seen == ["ndarray", "TracedArray"]


def test_a_generator_that_another_thread_ends() -> None:
    """As a server does with one that streams; there is nothing to undo in that thread."""

    def streams() -> Any:
        with lite.no_grad():
            yield 1

    steps = streams()
    thread = threading.Thread(target=lambda: next(steps))
    thread.start()
    thread.join()
    assert list(steps) == []
    assert type(lite.grad(lambda x: (x * x).sum())(np.ones(2))) is np.ndarray


def test_an_error_leaves_the_state_as_it_was() -> None:
    with pytest.raises(KeyError), lite.enable_grad():
        raise KeyError
    assert not lite.is_grad_enabled()
    raises(ZeroDivisionError, "", lambda: lite.grad(lambda x: 1 // 0)(np.ones(1)))
    assert not lite.is_grad_enabled()


def test_the_state_is_that_of_a_thread() -> None:
    seen: list[bool] = []
    with lite.enable_grad():
        thread = threading.Thread(target=lambda: seen.append(lite.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]

    entered, leave = threading.Event(), threading.Event()

    def pause() -> None:
        with lite.no_grad():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=pause)
    thread.start()
    entered.wait(10)
    # noted here all the same
    np.testing.assert_array_equal(lite.grad(lambda x: (x * x).sum())(np.ones(2)), 2)
    leave.set()
    thread.join()


def test_maps_inside() -> None:
    weight = parameter(1.0, 2.0)
    x = np.arange(6.0).reshape(3, 2)
    with lite.enable_grad():
        lite.vmap(lambda x: (weight * x).sum())(x).sum().backward()
    np.testing.assert_array_equal(weight.grad, x.sum(0))
