"""Hooks: order, what they may return, failures, handles."""

import pytest
from helpers.cases import raises

from lite import nn


class Add(nn.Module):
    def forward(self, x, y=0):
        return x + y


def test_order_is_pre_hooks_forward_hooks():
    calls = []
    m = Add()
    m.register_forward_pre_hook(lambda module, args: calls.append(("pre", args)))
    m.register_forward_hook(lambda module, args, out: calls.append(("post", args, out)))
    assert m(1, y=2) == 3
    assert calls == [("pre", (1,)), ("post", (1,), 3)]


def test_pre_hook_replaces_arguments():
    m = Add()
    m.register_forward_pre_hook(lambda module, args: args[0] * 10)
    m.register_forward_pre_hook(lambda module, args: (args[0], 5))
    assert m(1) == 15


def test_pre_hook_with_kwargs():
    m = Add()
    m.register_forward_pre_hook(lambda module, args, kwargs: None, with_kwargs=True)
    handle = m.register_forward_pre_hook(lambda module, args, kwargs: (args, {"y": 7}), with_kwargs=True)
    assert m(1, y=2) == 8
    handle.remove()
    m.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    raises(RuntimeError, r"\(args, kwargs\)", lambda: m(1))


def test_forward_hook_replaces_output_and_prepend_goes_first():
    m = Add()
    m.register_forward_hook(lambda module, args, out: out + 1)
    m.register_forward_hook(lambda module, args, out: out * 10, prepend=True)
    m.register_forward_hook(lambda module, args, kwargs, out: out + kwargs["y"], with_kwargs=True)
    assert m(1, y=2) == (1 + 2) * 10 + 1 + 2


def test_prepended_pre_hook_goes_first():
    m = Add()
    m.register_forward_pre_hook(lambda module, args: args[0] + 1)
    m.register_forward_pre_hook(lambda module, args: args[0] * 10, prepend=True)
    assert m(1) == 11


def test_always_call_runs_when_forward_raises():
    seen = []
    m = nn.Module()
    m.register_forward_hook(lambda module, args, out: seen.append(("plain", out)))
    m.register_forward_hook(lambda module, args, out: seen.append(("always", out)), always_call=True)
    raises(NotImplementedError, "", lambda: m(1))
    assert seen == [("always", None)]


def test_always_call_runs_once_when_another_hook_raises():
    seen = []

    def fail(module, args, out):
        raise KeyError("hook")

    m = Add()
    m.register_forward_hook(lambda module, args, out: seen.append("first"), always_call=True)
    m.register_forward_hook(fail)
    m.register_forward_hook(lambda module, args, out: seen.append("last"), always_call=True)
    raises(KeyError, "hook", lambda: m(1))
    assert seen == ["first", "last"]


def test_failing_always_call_hook_warns_and_the_first_error_goes_on():
    def fail(module, args, out):
        raise KeyError("cleanup")

    m = nn.Module()
    m.register_forward_hook(fail, always_call=True)
    with pytest.warns(UserWarning, match="cleanup"), pytest.raises(NotImplementedError):
        m(1)


def test_a_hook_may_remove_itself():
    m = Add()
    handle = m.register_forward_hook(lambda module, args, out: handle.remove())
    m.register_forward_hook(lambda module, args, out: out + 1)
    assert m(1) == 2
    assert len(m._forward_hooks) == 1


def test_backward_hooks_of_one_name() -> None:
    m = Add()
    handle = m.register_full_backward_hook(lambda *args: None)
    m.register_full_backward_pre_hook(lambda *args: None)
    assert m(1) == 1
    raises(RuntimeError, "exclude each other", lambda: m.register_backward_hook(lambda *args: None))
    handle.remove()
    m.register_backward_hook(lambda *args: None).remove()
    m.register_full_backward_hook(lambda *args: None, prepend=True)
