"""After an error inside of `to_module` the module is what it was."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.unchanged import F32, Hit, Net, assert_same, fail, forward, look

from lite import TensorDict, nn


def zeros(module: Any) -> Any:
    return TensorDict.from_module(module).data.clone().zero_()


def exchange(change: Callable[[Any], Any] = lambda params: None, **options: Any) -> Callable[[Any], Any]:
    def run(module: Any) -> None:
        params = zeros(module)
        change(params)
        with params.to_module(module, **options):
            forward(module)
            fail()

    return run


def setting(key: Any, value: Any) -> Callable[[Any], Any]:
    return lambda params: params.set(key, value)


OPTIONS = ({}, {"inplace": True}, {"preserve_module_state": False}, {"use_state_dict": True})
EXCHANGES = [
    *((exchange(**options), Hit, "inside") for options in OPTIONS),
    *(
        (exchange(setting(("b", "0", "q"), np.ones(1, F32)), **options), KeyError, "Linear has no .* 'q'")
        for options in OPTIONS
    ),
    (exchange(setting("q", TensorDict(x=np.ones(1)))), KeyError, "Net has no .* 'q'"),
    (exchange(setting("b", np.ones(1))), KeyError, "'b' is a child of Net"),
    (exchange(setting(("a", "weight"), TensorDict())), TypeError, "must be an array, got a TensorDict"),
    (exchange(setting(("a", "weight"), "text")), TypeError, "must be an array, got a NonTensorData"),
    (
        exchange(setting(("b", "0", "bias"), np.ones(7, F32)), inplace=True),
        RuntimeError,
        r"'bias' has \(2,\), the entry \(7,\)",
    ),
    (exchange(inplace=True, use_state_dict=True), RuntimeError, "inplace cannot be chosen together"),
    (exchange(memo={}), RuntimeError, "memo cannot be passed"),
    (exchange(return_swap=False, inplace=True, swap_dest=TensorDict().lock_()), RuntimeError, "locked"),
]


@each_case(("action", "error", "match"), EXCHANGES)
def test_exchanges(action: Any, error: type[Exception], match: str) -> None:
    module = Net()
    before = look(module)
    with pytest.raises(error, match=match):
        action(module)
    assert_same(look(module), before)


def test_kinds_are_kept_or_not() -> None:
    layer = nn.Linear(1, 1)
    plain = TensorDict.from_module(layer).data
    with pytest.warns(FutureWarning, match="None means False") as warned:
        plain.to_module(layer, preserve_module_state=None)
    assert warned[0].filename == __file__
    assert type(layer.weight) is np.ndarray
