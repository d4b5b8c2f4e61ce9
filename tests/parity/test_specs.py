"""Specs against torchrl's: what is in them, the values they make, and `default_spec` of the data classes."""

from pathlib import Path

import numpy as np
import pytest
import tensordict
import torch
from helpers.cases import each_case, raises
from hypothesis import given
from hypothesis import strategies as st
from torchrl import data as theirs
from torchrl.modules.llm.policies import common

from lite import TensorDict, data, lazy_stack
from lite.data import Binary, Bounded, Categorical, Composite, NonTensor, Unbounded
from lite.models import ChatHistory, History, LogProbs, Masks, OnnxWrapper, Text, Tokens

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("lists_as_batches")]


FOLDER = Path(__file__).parents[1] / "models" / "exports" / "optimum-llama"
DATA = [Text, Tokens, Masks, LogProbs, ChatHistory]
# A size of 1 in a spec is any size for torchrl, where a broadcast grows it.
SHAPE = st.lists(st.sampled_from([-1, 0, 2, 3]), max_size=3).map(tuple)
KNOWN = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4).map(tuple)


def history_class():
    return pytest.importorskip("torchrl.data.llm", reason="needs the parity extra").History


def outcome(call):
    """The result, or whether it raises; torchrl raises where a value does not broadcast, which is not in."""
    try:
        return bool(call())
    except RuntimeError:
        return False


def pairs(shape):
    return [
        (Unbounded(shape), theirs.Unbounded(shape)),
        (Unbounded(shape, dtype=np.int32), theirs.Unbounded(shape, dtype=torch.int32)),
        (Bounded(-1, 1, shape), theirs.Bounded(-1, 1, shape)),
        (Categorical(3, shape), theirs.Categorical(3, torch.Size(shape))),
        (Binary(shape=shape), theirs.Binary(shape=torch.Size(shape))),
    ]


@given(shape=SHAPE, value=KNOWN, number=st.sampled_from([0, 1, 2, -1]), front=KNOWN)
def test_the_same_values_are_in(shape, value, number, front):
    for ours, other in pairs(shape):
        for dtype in ("float32", "int32", "int64", "int8"):
            array = np.full(value, number, dtype)
            expected = outcome(lambda a=array, o=other: o.is_in(torch.from_numpy(a)))
            if len(value) < len(shape) and isinstance(ours, Bounded):
                expected = False  # torchrl takes what can be broadcast
            assert ours.is_in(array) is expected, (ours, dtype)
        for name in ("zero", "one", "rand"):
            mine, its = getattr(ours, name)(front[:2]), getattr(other, name)(torch.Size(front[:2]))
            assert mine.shape == tuple(its.shape)
            assert mine.dtype == its.numpy().dtype
            if name != "rand":
                np.testing.assert_array_equal(mine, its.numpy())


@given(shape=SHAPE, target=st.lists(st.sampled_from([-1, 0, 2, 3]), max_size=4).map(tuple))
def test_expanding(shape, target):
    if len(target) < len(shape):  # torchrl compares what there is
        target = (*target, *shape)
    for ours, other in pairs(shape):
        try:
            expected = tuple(other.expand(torch.Size(target)).shape)
        except (ValueError, RuntimeError):
            raises(ValueError, "expand", ours.expand, target)
            continue
        assert ours.expand(target).shape == expected


def test_composites():
    ours = Composite({"a": {"b": Unbounded((2, 3))}, ("x", "y"): NonTensor((2,))}, c=Unbounded(2), shape=(2,))
    other = theirs.Composite(
        {"a": {"b": theirs.Unbounded((2, 3))}, ("x", "y"): theirs.NonTensor((2,))},
        c=theirs.Unbounded(2),
        shape=(2,),
    )
    for options in ((), (True,), (True, True), (False, True)):
        assert list(ours.keys(*options)) == list(other.keys(*options))
    assert tuple(other["a"].shape) == ours["a"].shape
    made, its = ours.zero((4,)), other.zero((4,))
    assert tuple(its.batch_size) == made.batch_size
    assert tuple(its["a", "b"].shape) == made["a", "b"].shape
    big, grown = ours.expand(5, 2), other.expand(5, 2)
    for key in ours.keys(True, True):
        assert big[key].shape == tuple(grown[key].shape)
    for batch in ([], [2]):
        mine = TensorDict({"a": np.zeros((2, 3), np.float32)}, batch_size=batch)
        assert Composite(a=Unbounded((2, 3))).is_in(mine)
        same = tensordict.TensorDict({"a": torch.zeros(2, 3)}, batch_size=batch)
        assert theirs.Composite(a=theirs.Unbounded((2, 3))).is_in(same)


@each_case("ours", [*DATA, History])
@each_case("shape", [(-1,), (2, -1), (2, 3), ()])
def test_default_specs(ours, shape):
    other = history_class() if ours is History else getattr(common, ours.__name__)
    spec, its = ours.default_spec(shape), other.default_spec(shape)
    assert spec.shape == tuple(its.shape)
    assert list(spec.keys(True, True)) == list(its.keys(True, True))
    made, their_made = spec.zero((2,)), its.zero((2,))
    assert made.batch_size == tuple(their_made.batch_size)
    for key in spec.keys(True, True):
        assert spec[key].shape == tuple(its[key].shape)
        if isinstance(spec[key], NonTensor):
            assert spec[key].example_data == its[key].example_data
        else:
            assert made[key].shape == tuple(their_made.get(key).shape)
            # torchrl says float32 of ids and masks, too
            assert its[key].dtype == torch.float32


@pytest.mark.parametrize("mode", ["history", "text", "tokens"])
def test_results_of_a_call_are_in(mode):
    """torchrl's specs hold the same results once ids and masks are made floats."""
    wrapper = OnnxWrapper(
        FOLDER, input_mode=mode, pad_output=True, return_log_probs=True,
        chat_template_name="chatml_format" if mode == "history" else None,
        generate_kwargs={"max_new_tokens": 3, "temperature": 0.0},
    )  # fmt: skip
    entry = {
        "history": lambda: ChatHistory(
            prompt=History.from_chats([[{"role": "user", "content": "Hi"}]] * 2), batch_size=[2]
        ),
        "text": lambda: Text(prompt=["Hi", "Hello"], batch_size=[2]),
        "tokens": lambda: Tokens(prompt=np.array([[1, 5, 6], [1, 7, 8]]), batch_size=[2]),
    }[mode]()
    out = wrapper(TensorDict({mode: entry}, batch_size=[2]))
    columns = {
        "tokens": (Tokens, ["prompt", "response", "full"]),
        "masks": (Masks, ["all_attention_mask"]),
        "log_probs": (LogProbs, ["response"]),
    }
    for name, (cls, keys) in columns.items():
        spec = cls.default_spec((2,), keys=keys)
        its = getattr(common, cls.__name__)
        their_spec = its.default_spec((2,), keys=keys)
        arrays = {key: torch.from_numpy(np.array(out[name].get(key))) for key in keys}
        assert spec.is_in(out[name])
        real = their_spec.is_in(its(**arrays, padded=True, batch_size=[2]))
        assert real is (name == "log_probs")
        floats = {key: array.float() for key, array in arrays.items()}
        assert their_spec.is_in(its(**floats, padded=True, batch_size=[2]))
        assert not spec.is_in(out[name][:1])


def test_what_differs_on_purpose():
    """The rows of DIFFERENCES.md, on both sides."""
    assert theirs.Unbounded((1,)).is_in(torch.zeros(4))
    assert not Unbounded((1,)).is_in(np.zeros(4, np.float32))
    assert theirs.Bounded(-1, 1, (3,)).is_in(torch.tensor(0.0))
    assert not Bounded(-1, 1, (3,)).is_in(np.array(0, np.float32))
    raises(RuntimeError, "", lambda: theirs.Unbounded((3,)).is_in(torch.zeros(2)))
    assert not Unbounded((3,)).is_in(np.zeros(2, np.float32))
    raises(KeyError, "", lambda: theirs.Composite(a=theirs.Unbounded(2)).is_in(tensordict.TensorDict()))
    assert not Composite(a=Unbounded(2)).is_in(TensorDict())
    rows = tensordict.lazy_stack([tensordict.TensorDict(a=torch.zeros(n)) for n in (1, 2)])
    raises(RuntimeError, "", lambda: theirs.Composite(a=theirs.Unbounded((2, -1))).is_in(rows))
    mine = lazy_stack([TensorDict({"a": np.zeros(n, np.float32)}) for n in (1, 2)])
    assert Composite(a=Unbounded((2, -1))).is_in(mine)


def _outcome_of_shapes(lib, call):
    bounds = np.arange(6).reshape(2, 1, 3) if lib is data else torch.arange(6).reshape(2, 1, 3)
    mask = [[[True, False, True]], [[True, True, False]]]
    mask = np.array(mask) if lib is data else torch.tensor(mask)
    specs = {
        "unbounded": lib.Unbounded((2, 1, 3)),
        "bounded": lib.Bounded(bounds, bounds + 10, (2, 1, 3)),
        "categorical": lib.Categorical(3, (2, 1)),
        "onehot": lib.OneHot(3, (2, 1, 3), mask=mask),
        "multi_categorical": lib.MultiCategorical([2, 3], (2, 1, 2)),
        "multi_onehot": lib.MultiOneHot([2, 3], (2, 1, 5)),
        "binary": lib.Binary(3, (2, 1, 3)),
        "object": lib.NonTensor((2, 1)),
    }
    specs["composite"] = lib.Composite({"a": specs["bounded"], "n": {"b": specs["onehot"]}}, shape=(2, 1))
    found = {}
    for name, spec in specs.items():
        try:
            made = call(spec)
        except (ValueError, IndexError, RuntimeError) as error:
            found[name] = type(error)
            continue
        found[name] = []
        for part in made.values(True, True) if name == "composite" else [made]:
            found[name].append((tuple(part.shape), str(part.dtype).removeprefix("torch.")))
            if isinstance(part, lib.Bounded):
                found[name].append(np.asarray(part.space.low).tolist())
            if getattr(part, "mask", None) is not None:
                found[name].append(np.asarray(part.mask).tolist())
    return found


@each_case(
    "call",
    [
        lambda spec: spec.unsqueeze(0),
        lambda spec: spec.unsqueeze(1),
        lambda spec: spec.unsqueeze(-2),
        lambda spec: spec.squeeze(1),
        lambda spec: spec.squeeze(-2),
        lambda spec: spec.squeeze(0),
        lambda spec: spec.squeeze(),
        lambda spec: spec.reshape(1, 2, *spec.shape[2:]),
        lambda spec: spec.view((2, *spec.shape[2:])),
        lambda spec: spec.flatten(0, 1),
        lambda spec: spec.unflatten(0, (1, 2)),
        lambda spec: spec.clone(),
        lambda spec: spec[1:],
        lambda spec: spec[1, 0],
        lambda spec: spec.unbind(0)[1],
        lambda spec: spec.expand(4, *spec.shape),
    ],
)
def test_other_shapes(call):
    ours, other = (_outcome_of_shapes(lib, call) for lib in (data, theirs))
    # reshape of torchrl's MultiCategorical fails
    assert ours == other | {name: ours[name] for name in other if other[name] is RuntimeError}


def test_other_dtypes():
    for name in ("float32", "int64", "uint8"):
        ours = _outcome_of_shapes(data, lambda spec, name=name: spec.to(np.dtype(name)))
        assert ours == _outcome_of_shapes(theirs, lambda spec, name=name: spec.to(getattr(torch, name)))


def _values_of_specs(lib):
    integer = np.int64 if lib is data else torch.int64
    array = np.array if lib is data else torch.tensor
    specs = [
        lib.Bounded(0, 3, (2,), dtype=integer), lib.Unbounded(2), lib.NonTensor((2,)),
        lib.Categorical(3, (2,)), lib.Categorical(3, mask=array([True, False, True])),
        lib.OneHot(3, shape=(2, 3)), lib.MultiCategorical([2, 3], (4, 2)), lib.MultiOneHot([2, 3]),
        lib.Binary(3, (2, 3)), lib.Composite(),
        lib.Composite({"a": lib.Categorical(3), "n": {"b": lib.OneHot(2)}}),
        lib.Composite(a=lib.Categorical(3, (4,)), b=lib.OneHot(2, shape=(4, 2)), shape=(4,)),
    ]  # fmt: skip
    found = []
    for spec in specs:
        for call in (
            lambda spec: float(spec.cardinality()),
            lambda spec: spec.enumerate(use_mask=type(spec) is lib.Categorical),
            lambda spec: [tuple(part.shape) for part in spec.unbind(0)],
        ):
            try:
                made = call(spec)
            except (NotImplementedError, IndexError) as error:
                made = type(error)
            if hasattr(made, "keys"):
                made = {key: np.asarray(value).tolist() for key, value in made.items(True, True)}
            found.append(np.asarray(made).tolist() if hasattr(made, "shape") else made)
    return found


def test_values_of_one_element():
    ours, other = _values_of_specs(data), _values_of_specs(theirs)
    for number, (mine, its) in enumerate(zip(ours, other, strict=True)):
        assert mine == its, number
