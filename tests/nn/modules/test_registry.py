"""Names of a module: registration, and walks through the tree."""

import itertools

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.nn.buffered import Net

from lite import nn

F32 = np.float32


def test_assignment_registers_by_kind():
    net = Net()
    assert list(net._modules) == ["first", "second"]
    assert [name for name, _ in net.named_parameters()] == [
        "first.weight", "first.bias", "second.1.weight", "second.1.bias",
    ]  # fmt: skip
    assert [name for name, _ in net.named_buffers()] == ["count", "scratch"]
    assert isinstance(net.first.weight, nn.Parameter)


@pytest.mark.parametrize(
    "value", [nn.Parameter(np.zeros(1, dtype=F32)), nn.Identity()], ids=["parameter", "module"]
)
def test_assigning_before_init_is_an_attribute_error(value):
    class Early(nn.Module):
        def __init__(self):
            self.plain = 1
            self.entry = value

    raises(AttributeError, r"super\(\).__init__", Early)


def test_wrong_kinds_on_registered_names_are_type_errors():
    net = Net()
    with pytest.raises(TypeError, match=r"parameter 'weight'.*ndarray|ndarray as parameter 'weight'"):
        net.first.weight = np.zeros((3, 2))
    with pytest.raises(TypeError, match="child module 'first'"):
        net.first = 3
    with pytest.raises(TypeError, match="buffer 'count'"):
        net.count = "x"
    assert isinstance(net.first.weight, nn.Parameter)


def test_none_keeps_the_slot_and_leaves_the_state_dict():
    net = Net()
    net.count = None
    net.first.bias = None
    assert net.count is None
    assert net.first.bias is None
    assert list(net.state_dict()) == ["first.weight", "second.1.weight", "second.1.bias"]
    net.first.bias = nn.Parameter(np.zeros(3, dtype=F32))
    assert "first.bias" in net.state_dict()


def test_assignment_moves_a_name_between_registries():
    m = nn.Module()
    m.x = 3
    m.x = nn.Identity()
    assert "x" not in m.__dict__
    m.x = nn.Parameter(np.zeros(2, dtype=F32))
    assert list(m._modules) == []
    assert list(m._parameters) == ["x"]
    with pytest.raises(TypeError, match="Identity as parameter 'x'"):
        m.x = nn.Identity()


def test_missing_attribute_names_the_class():
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'nope'"):
        _ = Net().nope


def test_delattr_removes_from_the_registry():
    net = Net()
    del net.first
    del net.scratch
    assert list(net._modules) == ["second"]
    assert list(net._buffers) == ["count"]
    with pytest.raises(AttributeError):
        del net.first


def test_dir_lists_registered_names():
    assert {"first", "second", "count"} <= set(dir(Net()))
    assert not {"0", "1"} & set(dir(nn.Sequential(Net(), Net())))


def test_names_are_checked():
    for method, (name, error) in itertools.product(
        ["register_buffer", "register_parameter", "add_module", "register_module"],
        [(3, TypeError), ("a.b", KeyError), ("", KeyError), ("training", KeyError)],
    ):
        with noting(method, name, error):
            m = nn.Module()
            raises(error, "", getattr(m, method), name, None)
            assert not m._buffers
            assert not m._parameters
            assert not m._modules


@each_case("method", ["register_buffer", "register_parameter", "add_module"])
def test_values_are_checked(method):
    raises(TypeError, "list", lambda: getattr(nn.Module(), method)("x", [1.0]))


def test_buffer_may_be_registered_again_and_change_persistence():
    m = nn.Module()
    m.register_buffer("b", np.zeros(1))
    m.register_buffer("b", np.ones(1), persistent=False)
    assert list(m.state_dict()) == []
    np.testing.assert_array_equal(m.b, [1.0])
    m.register_buffer("b", np.ones(1))
    assert list(m.state_dict()) == ["b"]


def test_none_child_is_hidden_from_children():
    m = nn.Module()
    m.add_module("gone", None)
    assert m.gone is None
    assert list(m.children()) == []
    assert repr(m) == "Module(\n  (gone): None\n)"


def test_shared_modules_and_parameters_are_given_once():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, shared)
    assert [name for name, _ in net.named_modules()] == ["", "0"]
    assert [name for name, _ in net.named_modules(remove_duplicate=False)] == ["", "0", "1"]
    assert [name for name, _ in net.named_children()] == ["0"]
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias"]
    assert [name for name, _ in net.named_parameters(remove_duplicate=False)] == [
        "0.weight", "0.bias", "1.weight", "1.bias",
    ]  # fmt: skip
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert [name for name, _ in tied.named_parameters()] == ["0.weight", "0.bias", "1.bias"]


def test_prefix_and_recurse():
    net = Net()
    assert [name for name, _ in net.named_parameters(prefix="p", recurse=False)] == []
    assert next(iter(net.named_parameters(prefix="p")))[0] == "p.first.weight"
    assert [name for name, _ in net.named_modules(prefix="p")][:2] == ["p", "p.first"]
    assert next(iter(net.second[1].parameters(recurse=False))) is net.second[1].weight


def test_get_by_dotted_name():
    net = Net()
    assert net.get_submodule("") is net
    assert net.get_submodule("second.1") is net.second[1]
    assert net.get_parameter("second.1.bias") is net.second[1].bias
    assert net.get_buffer("count") is net.count
    for call, target in [
        (net.get_submodule, "second.7"),
        (net.get_submodule, "first.weight"),
        (net.get_parameter, "count"),
        (net.get_parameter, "first.nope"),
        (net.get_buffer, "first.weight"),
        (net.get_buffer, "nope"),
    ]:
        raises(AttributeError, target.rsplit(".", 1)[-1], call, target)


def test_set_submodule():
    net = Net()
    new = nn.Tanh()
    net.set_submodule("second.0", new)
    net.set_submodule("second.0", new, strict=True)
    assert net.second[0] is new
    net.set_submodule("second.extra", nn.Identity())
    assert isinstance(net.second.extra, nn.Identity)
    raises(AttributeError, "", lambda: net.set_submodule("second.other", nn.Identity(), strict=True))
    raises(AttributeError, "", lambda: net.set_submodule("missing.x", nn.Identity()))
    raises(AttributeError, "", lambda: net.set_submodule("first.weight", nn.Identity()))
    raises(ValueError, "target", lambda: net.set_submodule("", nn.Identity()))
    raises(ValueError, "Module", lambda: net.set_submodule("first", 3))


def test_a_child_gives_way_to_none() -> None:
    net = nn.Sequential(nn.Linear(2, 2))
    net.child = nn.ReLU()
    net.child = None
    assert dict(net.named_children()).keys() == {"0"}
    assert net.child is None
    with pytest.raises(TypeError, match="expected a Module or None"):
        net.child = 3
