"""Returns and advantages in NumPy are those of compiled code (of themselves, where nothing is compiled)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lite.kernels as k
from lite.kernels import returns as _estimates
from lite.kernels.backends.jit import _quiet
from lite.kernels.cpu import plain_returns, returns

TYPES = ("float64",)
ENTRIES = ("lambda_returns", "short_lambda_returns", "fixed_lambda_returns", "advantages", "short_advantages")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[Any, Any]]:
    """What a call gives as always, and with the entries of `plain_returns`."""

    def both(call: Callable[[], Any]) -> tuple[Any, Any]:
        compiled = call()
        with monkeypatch.context() as patched:
            for name in ENTRIES:
                patched.setattr(returns, name, _quiet(getattr(plain_returns, name)))
            assert _estimates.compiled() is returns
            return compiled, call()

    return both


def arrays(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Numbers with some that are not finite, and flags."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(5, *shape)).astype(dtype)
    numbers[0][rng.random(shape) < 0.01] = np.inf
    numbers[1][rng.random(shape) < 0.01] = np.nan
    done = rng.random(shape) < 0.1
    return numbers, done, done & (rng.random(shape) < 0.5)


SHAPES = [((1, 1), 1), ((5, 900), 1), ((600, 40), 0), ((7, 300), 0), ((3, 50, 20), 1)]


@pytest.mark.parametrize("dtype", [np.float64])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_all_are_the_same(both: Any, shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    (r, v, f, p, q), done, ended = arrays(shape, dtype)
    q[...] = p + q / 4
    per_step = np.random.default_rng(1).choice([0.0, 0.9, 1.0], shape)
    flags: Any = (done, ended)
    calls = [
        lambda: k.reward_to_go(r, done, gamma=0.9, time_dim=axis),
        lambda: k.td_lambda_return(r, v, *flags, gamma=0.9, lmbda=0.8, time_dim=axis),
        lambda: k.td_lambda_return(r, v, *flags, gamma=per_step, lmbda=per_step, time_dim=axis),
        lambda: k.td_lambda_return(
            r, v, *flags, gamma=per_step, lmbda=per_step[::-1], time_dim=axis, rolling=False
        ),
        lambda: k.gae(r, v, f, *flags, gamma=0.9, lmbda=0.8, time_dim=axis),
        lambda: k.gae(r, v, f, *flags, gamma=per_step, lmbda=0.8, time_dim=axis),
        lambda: k.vtrace(p, q, r, v, f, *flags, gamma=0.9, time_dim=axis),
        lambda: k.retrace(p, q, r, v, f, *flags, gamma=0.9, lmbda=0.8, time_dim=axis),
    ]
    tolerance = 2e-5 if dtype is np.float32 else 1e-9
    for number, call in enumerate(calls):
        compiled, plain = both(call)
        pairs = zip(compiled, plain, strict=True) if isinstance(compiled, tuple) else [(compiled, plain)]
        for one, other in pairs:
            assert one.dtype == other.dtype
            np.testing.assert_allclose(other, one, tolerance, tolerance, err_msg=str(number))


@pytest.mark.depth
def test_on_threads_parts_meet(both: Any) -> None:
    (r, v, f, *_), done, ended = arrays((40, 9000), np.float64)
    for axis in (0, 1):
        compiled, plain = both(
            lambda axis=axis: k.gae(r, v, f, done, ended, gamma=0.9, lmbda=0.8, time_dim=axis)
        )
        for one, other in zip(compiled, plain, strict=True):
            np.testing.assert_allclose(other, one, 1e-9, 1e-9)


def test_only_ratios_below_the_least_are_0() -> None:
    least = np.float32(-86)
    found = plain_returns._ratios(np.array([-86, -87], np.float32), np.zeros(2, np.float32), least)
    np.testing.assert_array_equal(found, [np.exp(least), 0])
