"""state_dict and load_state_dict: names, order, strictness, and leaving the module alone on failure."""

from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, nn

F32 = np.float32


class Child(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(np.ones((), dtype=F32))
        self.register_buffer("steps", np.zeros(2, dtype=np.int64))
        self.register_buffer("temporary", np.zeros(2, dtype=F32), persistent=False)


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = Child()
        self.linear = nn.Linear(2, 3, bias=False, rng=0)
        self.register_buffer("mean", np.zeros(3, dtype=F32))
        self.own = nn.Parameter(np.zeros(2, dtype=F32))


class Extra(nn.Module):
    def __init__(self):
        super().__init__()
        self.note = "new"

    def get_extra_state(self):
        return {"note": self.note}

    def set_extra_state(self, state):
        self.note = state["note"]


NAMES = ["own", "mean", "child.scale", "child.steps", "linear.weight"]


def test_names_and_order():
    assert list(Parent().state_dict()) == NAMES


def test_values_share_storage_and_keep_vars_gives_parameters():
    m = Parent()
    state = m.state_dict()
    assert state["own"] is m.own.data
    state["mean"][0] = 5
    assert m.mean[0] == 5
    assert m.state_dict(keep_vars=True)["own"] is m.own


def test_prefix_destination_and_metadata():
    m = Parent()
    target = {}
    assert m.state_dict(destination=target, prefix="net.") is target
    assert list(target) == [f"net.{name}" for name in NAMES]
    state = m.state_dict()
    assert isinstance(state, OrderedDict)
    assert state._metadata == {"": {"version": 1}, "child": {"version": 1}, "linear": {"version": 1}}
    with pytest.warns(FutureWarning, match="keyword"):
        assert m.state_dict({}, "p.")["p.own"] is m.own.data
    with pytest.warns(FutureWarning, match="keyword"):
        assert "q.own" in m.state_dict({}, "p.", prefix="q.")
    for count, kind in ((2, np.ndarray), (3, nn.Parameter)):
        with pytest.warns(FutureWarning, match="keyword"):
            found = m.state_dict(*({}, "net.", True)[:count])
        assert (list(found), type(found["net.own"])) == (list(target), kind)


def test_load_copies_into_the_arrays():
    m, source = Parent(), Parent()
    source.own.data[...] = 3
    own, array = m.own, m.own.data
    result = m.load_state_dict({k: np.asarray(v, dtype=np.float64) for k, v in source.state_dict().items()})
    assert repr(result) == "<All keys matched successfully>"
    assert result.missing_keys == []
    assert m.own is own
    assert m.own.data is array
    assert m.own.dtype == np.float32
    np.testing.assert_array_equal(m.own, [3, 3])


def test_load_accepts_parameters_and_one_element_for_a_scalar():
    m = Parent()
    state = m.state_dict(keep_vars=True)
    state["child.scale"] = np.array([4.0])
    m.load_state_dict(state)
    assert m.child.scale.shape == ()
    assert m.child.scale == 4
    state["own"] = np.zeros((1, 2))
    raises(RuntimeError, "size mismatch", lambda: m.load_state_dict(state))


def test_load_into_read_only_arrays_replaces_them():
    m = nn.Linear(2, 2)
    frozen = np.zeros((2, 2), dtype=F32)
    frozen.flags.writeable = False
    m.weight.data = frozen
    m.load_state_dict({"weight": np.ones((2, 2)), "bias": np.ones(2)})
    np.testing.assert_array_equal(m.weight, np.ones((2, 2)))
    np.testing.assert_array_equal(frozen, np.zeros((2, 2)))
    norm = nn.BatchNorm1d(2)
    held = norm.running_mean
    held.flags.writeable = False
    norm.load_state_dict({**norm.state_dict(), "running_mean": np.ones(2)})
    np.testing.assert_array_equal(norm.running_mean, [1, 1])
    np.testing.assert_array_equal(held, [0, 0])


def test_strict_errors_list_everything_and_change_nothing():
    m = Parent()
    before = {k: np.array(v) for k, v in m.state_dict().items()}
    state = {k: np.array(v) + 1 for k, v in m.state_dict().items()}
    del state["child.scale"]
    state["surprise"] = np.zeros(1)
    state["child.temporary"] = np.zeros(2)
    state["linear.bias"] = np.zeros(3)  # registered as None
    state["linear.weight"] = np.zeros((9, 9))
    with pytest.raises(RuntimeError) as info:
        m.load_state_dict(state)
    text = str(info.value)
    for name in (
        "child.scale",
        "surprise",
        "child.temporary",
        "linear.bias",
        "linear.weight",
        "(9, 9)",
        "Parent",
    ):
        assert name in text
    for name, value in m.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_not_strict_reports_names_but_still_refuses_shapes():
    m = Parent()
    result = m.load_state_dict({"own": np.ones(2), "other": 1}, strict=False)
    assert result.missing_keys == NAMES[1:]
    assert result.unexpected_keys == ["other"]
    np.testing.assert_array_equal(m.own, [1, 1])
    raises(RuntimeError, "size mismatch", lambda: m.load_state_dict({"own": np.ones(3)}, strict=False))


def test_assign_takes_the_arrays():
    m = Parent()
    m.own.requires_grad_(False)
    own, mean = np.ones(2), np.ones(3)
    m.load_state_dict({"own": own, "mean": mean}, strict=False, assign=True)
    assert m.own.data is own
    assert m.own.requires_grad is False
    assert m.mean is mean
    assert m.own.dtype == np.float64


def test_the_given_dict_is_left_alone():
    m = Parent()
    state = dict(m.state_dict())
    m.register_load_state_dict_pre_hook(lambda module, entries, *rest: entries.clear())
    raises(RuntimeError, "Missing", lambda: m.load_state_dict(state))
    assert list(state) == NAMES


def test_extra_state():
    m = nn.Sequential(Extra())
    state = m.state_dict()
    assert state["0._extra_state"] == {"note": "new"}
    m[0].note = "old"
    m.load_state_dict(state)
    assert m[0].note == "new"
    raises(RuntimeError, r"Missing.*_extra_state", lambda: m.load_state_dict({}))
    raises(RuntimeError, r"Unexpected.*_extra_state", nn.Sequential(nn.Identity()).load_state_dict, state)
    raises(RuntimeError, "get_extra_state", lambda: nn.Module().get_extra_state())
    raises(RuntimeError, "set_extra_state", lambda: nn.Module().set_extra_state(1))


def test_saving_hooks():
    m = nn.Sequential(nn.Linear(1, 1))
    calls = []
    m[0].register_state_dict_pre_hook(lambda module, prefix, keep_vars: calls.append((prefix, keep_vars)))
    handle = m[0].register_state_dict_post_hook(
        lambda module, state, prefix, meta: state.pop(prefix + "bias") and None
    )
    assert list(m.state_dict()) == ["0.weight"]
    assert calls == [("0.", False)]
    handle.remove()
    m.register_state_dict_post_hook(lambda *args: 1)
    raises(RuntimeError, "None", lambda: m.state_dict())


def test_loading_hooks_rename_and_silence():
    m = nn.Sequential(nn.Linear(1, 1))

    def rename(module, state, prefix, meta, strict, missing, unexpected, errors):
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    m[0].register_load_state_dict_pre_hook(rename)
    seen = []
    m[0].register_load_state_dict_post_hook(lambda module, keys: seen.append("child"))
    m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    m.register_load_state_dict_post_hook(lambda module, keys: seen.append("parent"))
    result = m.load_state_dict({"0.kernel": np.full((1, 1), 7.0)})
    assert result.missing_keys == []
    assert m[0].weight == 7
    assert seen == ["child", "parent"]
    m.register_load_state_dict_post_hook(lambda module, keys: 1)
    with pytest.raises(AssertionError, match="None"):
        m.load_state_dict({"0.kernel": np.full((1, 1), 7.0), "0.bias": np.zeros(1)})

    def interrupted(module, keys):
        raise KeyboardInterrupt

    m[0].register_load_state_dict_post_hook(interrupted)
    with pytest.raises(KeyboardInterrupt):
        m.load_state_dict({"0.kernel": np.full((1, 1), 8.0), "0.bias": np.zeros(1)})
    assert m[0].weight == 7


def test_overriding_the_loading_of_a_module():
    class Renamed(nn.Linear):
        def _load_from_state_dict(self, state_dict, prefix, *rest):
            state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
            super()._load_from_state_dict(state_dict, prefix, *rest)

    m = nn.Sequential(Renamed(1, 1, bias=False))
    m.load_state_dict({"0.w": np.full((1, 1), 2.0)})
    assert m[0].weight == 2


class Tensor:
    """What another library's tensor looks like."""

    shape = (2,)

    def __array__(self, dtype=None, copy=None):
        return np.full(2, 5, dtype=dtype)


def test_arrays_of_other_libraries_and_arrays_without_data():
    m = Parent()
    m.load_state_dict({"own": Tensor()}, strict=False)
    np.testing.assert_array_equal(m.own, [5, 5])
    raises(RuntimeError, "assign=True", m.load_state_dict, {"own": nn.MetaArray((2,), F32)}, strict=False)
    m.load_state_dict({"own": nn.MetaArray((2,), F32)}, strict=False, assign=True)
    assert m.own.is_meta


def test_repr_of_incompatible_keys():
    text = repr(Parent().load_state_dict({"z": 1}, strict=False))
    assert text == f"IncompatibleKeys(missing_keys={NAMES}, unexpected_keys=['z'])"
    text = repr(Parent().load_state_dict({}, strict=False))
    assert text == f"IncompatibleKeys(missing_keys={NAMES}, unexpected_keys=[])"


def test_a_tensordict_is_a_state_dict():
    source, target = Parent(), Parent()
    source.own[...] = 5
    given = TensorDict.from_module(source).flatten_keys(".").exclude("child.temporary")
    assert target.load_state_dict(given.lock_()) == ([], [])
    np.testing.assert_array_equal(target.own, [5, 5])
    target.load_state_dict(given, assign=True)
    assert target.own is source.own
    with pytest.raises(RuntimeError, match=r'Missing key.*"own".*\n.*Unexpected key.*"child", "linear"'):
        target.load_state_dict(TensorDict.from_module(source).select("child", "linear"))
    raises(TypeError, "must be a mapping, got list", lambda: target.load_state_dict([given]))


def test_buffers_take_other_shapes_only_when_assigned() -> None:
    norm = nn.BatchNorm1d(2)
    state = norm.state_dict() | {"running_mean": np.ones(2, np.float64)}
    norm.load_state_dict(state)
    np.testing.assert_array_equal(norm.running_mean, [1, 1])
    assert norm.running_mean.dtype == np.float32


def test_weights_by_name(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "model.safetensors"
    source = nn.Linear(3, 2, rng=0)
    save_file(dict(source.state_dict()), path)
    state = nn.load_safetensors(path)
    assert sorted(state) == ["bias", "weight"]
    target = nn.Linear(3, 2, rng=1)
    target.load_state_dict(state)
    np.testing.assert_array_equal(target.weight, source.weight)


def test_no_file_and_a_damaged_one(tmp_path: Path) -> None:
    raises(FileNotFoundError, "", nn.load_safetensors, tmp_path / "none")
    (tmp_path / "text").write_text("no arrays")
    raises(ValueError, "", nn.load_safetensors, tmp_path / "text")
