"""to_module, as a call and as a context: what it puts in, restores and refuses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.interrupts import interrupted_everywhere
from helpers.swapped import Counter, Parent, ones
from helpers.unchanged import F32, Hit, Net, assert_same, fail, forward, look

from lite import TensorDict, from_modules, lazy_stack, nn
from lite._tree import undo
from lite.nn._parameters import to_module


def zeroed(module: nn.Module) -> TensorDict:
    return TensorDict.from_module(module).apply(np.zeros_like)


# -- to_module: the call ----------------------------------------------------------------------------


def test_the_swap_restores_what_was_there() -> None:
    module = Parent()
    mine = dict(module.named_parameters())
    names = list(module.state_dict())
    swap = zeroed(module).to_module(module)
    np.testing.assert_array_equal(module.first(ones(2)), np.zeros(3))
    assert module.second is module.first
    assert list(module.state_dict()) == names
    assert type(module.counter.steps) is np.ndarray
    back = swap.to_module(module)
    assert dict(module.named_parameters()) == mine  # identity: `in` and == by id
    assert all(a is mine[n] for n, a in module.named_parameters())
    np.testing.assert_array_equal(back["first", "weight"].data, np.zeros((3, 2)))


@pytest.mark.parametrize("options", [{}, {"preserve_module_state": False}, {"inplace": True}], ids=repr)
def test_an_interrupt_leaves_the_modules_own_parameters(options: Any) -> None:
    module, plain = Parent(), to_module.Swap
    data = zeroed(module)
    mine, values = dict(module.named_parameters()), {k: np.array(v) for k, v in module.state_dict().items()}

    def run() -> None:
        with data.to_module(module, **{"preserve_module_state": True, **options}):
            module.first(ones(2))

    seen = interrupted_everywhere(
        run, to_module.to_module, to_module._exchange, plain.leave, plain.replace_registry,
        plain.set_attribute, to_module._copy_into, undo.enter, undo.leave,
    )  # fmt: skip
    lines = []
    for line in seen:
        lines.append(line)
        now = dict(module.named_parameters())
        assert list(now) == list(mine), line
        assert all(now[name] is parameter for name, parameter in mine.items()), line
        for name, value in module.state_dict().items():
            np.testing.assert_array_equal(value, values[name], str(line))
    assert len(lines) > 40


def test_arrays_become_parameters_over_the_same_memory() -> None:
    module = nn.Linear(2, 3)
    module.bias.requires_grad_(False)
    data = zeroed(module)
    data.to_module(module)
    assert isinstance(module.weight, nn.Parameter)
    assert module.weight.data is data["weight"]
    assert module.weight.requires_grad
    assert not module.bias.requires_grad


def test_without_preserving_arrays_become_attributes_and_come_back_in_order() -> None:
    module = Parent()
    names = list(module.state_dict())
    weight = module.first.weight
    with zeroed(module).to_module(module, preserve_module_state=False):
        assert type(module.first.weight) is np.ndarray
        assert not list(module.first.parameters())
        np.testing.assert_array_equal(module.first(ones(2)), np.zeros(3))
    assert module.first.weight is weight
    assert list(module.state_dict()) == names
    swap = zeroed(module).to_module(module, preserve_module_state=False)
    swap.to_module(module)
    assert module.first.weight is weight
    assert set(module.state_dict()) == set(names)


def test_a_buffer_stays_a_buffer() -> None:
    module = Counter()
    TensorDict(steps=nn.Parameter(np.ones(()))).to_module(module)
    assert type(module._buffers["steps"]) is np.ndarray
    assert module.steps == 1


def test_subsets_leave_the_rest_alone() -> None:
    module = nn.Linear(2, 3)
    bias = module.bias
    with TensorDict(weight=np.zeros((3, 2))).to_module(module) as swap:
        assert module.bias is bias
        assert list(swap.keys()) == ["weight"]
        replacement = module.bias = nn.Parameter(ones(3))
    assert module.bias is replacement  # not exchanged, so what the body assigned stays


def test_inplace_writes_the_modules_arrays() -> None:
    module = nn.Linear(2, 3, rng=0)
    weight, array, values = module.weight, module.weight.data, module.weight.data.copy()
    with zeroed(module).to_module(module, inplace=True) as swap:
        assert module.weight is weight
        assert weight.data is array
        np.testing.assert_array_equal(array, np.zeros((3, 2)))
        np.testing.assert_array_equal(swap["weight"], values)
    np.testing.assert_array_equal(array, values)
    with pytest.raises(RuntimeError, match=r"'bias' has \(3,\), the entry \(4,\)"):
        TensorDict(weight=np.zeros((3, 2)), bias=np.zeros(4)).to_module(module, inplace=True)
    np.testing.assert_array_equal(array, values)
    raises(RuntimeError, "needs data", zeroed(module).to_module, nn.Linear(2, 3, device="meta"), inplace=True)


def test_swap_dest_and_return_swap() -> None:
    module = nn.Sequential(nn.Linear(2, 3))
    weight = module[0].weight
    dest = TensorDict({"0": TensorDict()})
    node = dest["0"]
    assert zeroed(module).to_module(module, swap_dest=dest) is dest
    assert node["weight"] is weight
    assert dest.to_module(module, return_swap=False) is None
    assert module[0].weight is weight
    with pytest.raises(TypeError), zeroed(module).to_module(module, return_swap=False):
        pass
    raises(RuntimeError, "locked", zeroed(module).to_module, module, swap_dest=dest.lock_())


def test_unknown_names_change_nothing() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    before = dict(module.named_parameters())
    for extra in ({"2": {"weight": ones(1)}}, {"1": {"gain": ones(1)}}, {"1": ones(1)}):
        params = TensorDict({"0": {"weight": ones(3, 2)}, **extra})
        raises(KeyError, "", params.to_module, module)
        assert all(p is before[name] for name, p in module.named_parameters())
    with pytest.raises(
        KeyError, match=r"Linear has no parameter, buffer or child 'gain'; it has \['weight', 'b"
    ):
        TensorDict(gain=ones(1)).to_module(module[0])
    with pytest.raises(TypeError, match="must be an array, got a TensorDict"):
        TensorDict(weight=TensorDict(a=1), bias=ones(3)).to_module(module[0])
    raises(TypeError, "module must be a Module, got dict", TensorDict().to_module, {})


def test_load_hooks_see_flat_names() -> None:
    module = nn.Linear(2, 3)

    def rename(m: Any, sd: dict[str, Any], *rest: Any) -> None:
        sd["weight"] = sd.pop("kernel")

    weight = module.weight
    module.register_load_state_dict_pre_hook(rename)
    with TensorDict(kernel=np.zeros((3, 2)), bias=np.zeros(3)).to_module(module, use_state_dict=True):
        np.testing.assert_array_equal(module(np.ones(2)), np.zeros(3))
    assert module.weight is weight
    raises(RuntimeError, "inplace", zeroed(module).to_module, module, use_state_dict=True, inplace=True)
    module.register_load_state_dict_pre_hook(
        lambda m, sd, p, meta, s, miss, unex, errors: errors.append("bad")
    )
    raises(RuntimeError, "bad", TensorDict(kernel=np.zeros((3, 2))).to_module, module, use_state_dict=True)
    assert module.weight is weight


# -- to_module: the context -------------------------------------------------------------------------


def test_the_module_is_restored_when_the_body_raises() -> None:
    module = Parent()
    mine = dict(module.named_parameters())
    steps = module.counter.steps
    params = zeroed(module)
    module.counter.register_forward_hook(lambda *args: 1 // 0)
    with pytest.raises(ZeroDivisionError), params.to_module(module):
        module.counter(1.0)
    assert all(p is mine[name] for name, p in module.named_parameters())
    assert module.counter.steps is steps
    assert params["counter", "steps"] == 0  # nothing flows back from a body that failed


def test_assigned_values_flow_back_to_an_unlocked_source_only() -> None:
    module = Counter()
    params = zeroed(module)
    with params.to_module(module):
        module(1.0)
        module.scale.data = np.float32(5) + np.zeros((), np.float32)
    assert params["steps"] == 1
    assert params["scale"] == 5
    assert type(params["scale"]) is np.ndarray
    assert module.steps == 0
    assert module.scale == 2
    params.lock_()
    with params.to_module(module):
        module(1.0)
    assert params["steps"] == 1
    assert module.steps == 0
    own = TensorDict.from_module(module)
    new = nn.Parameter(np.float32(9))
    with own.to_module(module):
        module.scale = new
    assert own["scale"] is new
    assert module.scale == 2


def test_another_array_in_a_parameter_made_for_one_flows_back() -> None:
    module = Counter()
    params = zeroed(module)
    new = np.full((), 5, np.float32)
    with params.to_module(module):
        module.scale.data = new  # no assignment to the module
    assert params["scale"] is new
    assert module.scale == 2


def test_parameters_in_the_place_of_attributes() -> None:
    module = nn.Linear(1, 1)
    weight, plain = module.weight, ones(1)
    module.gain = plain
    params = TensorDict(weight=nn.Parameter(ones(1, 1)), gain=nn.Parameter(ones(1)))
    with params.to_module(module) as swap:
        assert list(module._parameters) == ["weight", "bias", "gain"]
        assert module.gain is params["gain"]
        assert swap["gain"] is plain
    assert module.weight is weight
    assert module.gain is plain
    assert list(module._parameters) == ["weight", "bias"]


def test_what_the_body_registers_stays() -> None:
    module = nn.Linear(2, 2)
    bias = module.bias
    with zeroed(module).to_module(module):
        module.gain = nn.Parameter(ones(1))
        del module.bias
    assert list(module._parameters) == ["weight", "bias", "gain"]
    assert module.bias is bias


def test_nesting_and_reentry() -> None:
    module = nn.Linear(1, 1)
    weight = module.weight
    one, two = (
        TensorDict(weight=np.full((1, 1), n, np.float32), bias=np.zeros(1, np.float32)) for n in (1, 2)
    )
    with one.to_module(module):
        with two.to_module(module):
            assert module(ones(1)) == 2
            with one.to_module(module):
                assert module(ones(1)) == 1
            assert module(ones(1)) == 2
        assert module(ones(1)) == 1
    assert module.weight is weight
    swap = one.to_module(module)
    with swap:
        assert module.weight == 1
    assert module.weight is weight


def test_tied_children_are_written_once() -> None:
    module = Parent()
    params = TensorDict.from_module(module).data.clone()
    with params.to_module(module) as swap:
        assert module.first.weight.data is params["first", "weight"]
        assert swap["second", "weight"] is swap["first", "weight"]


def test_td_params_are_exchanged_as_a_whole() -> None:
    module = nn.Module()
    module.params = nn.TensorDictParams(TensorDict(a=ones(2)))
    inner = module.params["a"]
    other = TensorDict({"params": nn.TensorDictParams(TensorDict(a=np.zeros(2)))})
    with other.to_module(module) as swap:
        np.testing.assert_array_equal(module.params["a"], np.zeros(2))
        assert swap["params"]["a"] is inner
    assert module.params["a"] is inner
    with TensorDict(a=np.full(2, 3.0)).to_module(module.params) as swap:
        np.testing.assert_array_equal(module.params["a"], [3, 3])
        assert swap["a"] is inner
    with TensorDict(a=np.full(2, 4.0)).to_module(module.params, inplace=True):
        assert module.params["a"] is inner
        assert inner[0] == 4
    assert inner[0] == 1


def test_leaves_of_params_are_written_whatever_the_batch_size_of_their_nodes() -> None:
    params = nn.TensorDictParams(TensorDict({"n": {"a": ones(2)}}))
    with TensorDict(n=TensorDict(a=np.zeros(2), batch_size=[2])).to_module(params, inplace=True):
        np.testing.assert_array_equal(params["n", "a"], np.zeros(2))
    np.testing.assert_array_equal(params["n", "a"], np.ones(2))


def test_a_lazy_stack_of_parameters_can_be_put_in() -> None:
    module = nn.Linear(2, 1)
    params = from_modules(module, module, lazy_stack=True)
    with params.to_module(module):
        assert module.weight.shape == (2, 1, 2)


def test_lazy_stacks_into_params() -> None:
    """They become dense, as params hold one array per entry."""
    stack = lazy_stack([TensorDict({"w": np.ones(2), "n": {"b": np.zeros(3)}}) for _ in range(2)])
    params = nn.TensorDictParams(
        TensorDict({"w": np.ones((2, 2)), "n": {"b": np.ones((2, 3))}}, batch_size=[2])
    )
    with stack.to_module(params):
        assert params.empty(True).batch_size == (2,)
        assert params.n.b.shape == (2, 3)
        np.testing.assert_array_equal(params["n", "b"], np.zeros((2, 3)))
    np.testing.assert_array_equal(params["n", "b"], np.ones((2, 3)))


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
