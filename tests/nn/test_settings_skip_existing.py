"""set_skip_existing: the flag, the rule, the modules that obey it."""

import pytest
from helpers.cases import each_case

from lite import TensorDict, nn
from lite.nn import TensorDictModule, TensorDictSequential, set_skip_existing, skip_existing


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x + 1


def test_none_is_no_context():
    with pytest.raises(RuntimeError, match="It seems you are using"), set_skip_existing(None):
        pass


@each_case("make", [lambda m: m, TensorDictSequential], ids=["module", "sequence"])
def test_modules_obey_the_flag(make):
    payload = Counting()
    module = make(TensorDictModule(payload, ["x"], [("n", "y")]))
    td = TensorDict({"x": 1, "n": {"y": 7}})
    with set_skip_existing():
        assert module(td) is td
        assert payload.calls == 0
        module(TensorDict(x=1))
    assert payload.calls == 1
    module(td)
    assert payload.calls == 2
    assert td["n", "y"] == 2


def test_partly_present_outputs_are_all_computed():
    module = TensorDictModule(lambda x: (x, x), ["x"], ["y", "z"])
    with set_skip_existing():
        assert module(TensorDict(x=1, y=5))["y"] == 1


@each_case(("mode", "outside", "expected"), [(True, False, 0), (None, False, 1), (None, True, 0)])
def test_decorator(mode, outside, expected):
    class Mod(nn.TensorDictModuleBase):
        in_keys = []  # noqa: RUF012
        out_keys = ["out"]  # noqa: RUF012
        calls = 0

        @set_skip_existing(mode)
        def forward(self, tensordict):
            self.calls += 1
            self.flag = skip_existing()
            return tensordict.set("out", 1)

    module = Mod()
    with set_skip_existing(outside):
        module(TensorDict(out=0))
    assert module.calls == expected
    if expected:
        assert module.flag is False
    assert not skip_existing()


def test_decorator_reads_other_attributes():
    class Mod:
        reads, writes = ("a",), ("b",)

        @set_skip_existing(in_key_attr="reads", out_key_attr="writes")
        def run(self, tensordict):
            return None

    td = TensorDict(a=1, b=2)
    assert Mod().run(td) is td
    assert Mod().run(tensordict=TensorDict(a=1)) is None


def test_decorator_checks_the_argument_name():
    with pytest.raises(RuntimeError, match="tensordict"):
        set_skip_existing()(lambda self, td: td)
