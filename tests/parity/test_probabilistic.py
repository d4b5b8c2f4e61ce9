"""Probabilistic modules and composite distributions against tensordict's.

Every case is written once and run with both libraries; what it gives, or the class of what it raises, must
be equal. Rows of the specification's checklist:

| row | tests |
|---|---|
| TestInteractionType, from_str | test_interaction_types, test_interaction_type_errors |
| TestSIM | test_settings |
| test_deterministic_sample | test_interaction (every distribution of lite) |
| test_stateful_probabilistic(_kwargs) | test_interaction, test_keys, test_distribution_kwargs |
| test_prob_key_exclusion_* | test_selected_out_keys |
| test_prob_seq_no_prob_modules(_selected_out_keys) | test_without_probabilistic_modules |
| TDSequence.test_stateful, prob variants | test_sequence_as_a_list |
| test_probtdseq, _multdist, _intermediate_dist | test_sequence, test_intermediate_distributions |
| TestProb.test_tdprobseq_inplace | test_inplace |
| test_probabilistic_n_samples, _seq_, _intermediate_seq_ | test_num_samples, test_num_samples_in_sequences |
| test_nested_keys_probabilistic_delta, _normal | test_nested_keys |
| test_index_prob_seq | test_index |
| test_no_warning_single_key | test_keys (warnings are errors) |
| test_generator_* | tests/nn/test_probabilistic.py; test_generator_errors |
| TestCompositeDist.test_const, _sample(_named), _rsample, _from_distributions | test_composite_samples |
| test_set_composite_lp_aggregate, _build_and_get | test_aggregate_of_modules, test_aggregate_mode_mismatch |
| test_log_prob, _composite (legacy) | test_composite_log_prob |
| test_entropy, _composite (legacy) | test_composite_entropy |
| test_cdf, test_icdf | test_composite_cdf_and_icdf |
| test_prob_module(_nested, _seq, _seq_nested) | test_composite_modules |
| TestAddStateIndependentNormalScale | test_state_independent_scale |
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the parity extra: torch")
tensordict = pytest.importorskip("tensordict", reason="needs the parity extra: tensordict")
reference = pytest.importorskip("tensordict.nn", reason="needs the parity extra: tensordict")
rl = pytest.importorskip("torchrl.modules.distributions", reason="needs the parity extra: torchrl")

import lite  # noqa: E402
from lite import nn  # noqa: E402
from lite.nn import distributions  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Lib:
    """The names that differ between the two libraries."""

    def __init__(self, lib: Any, tdnn: Any, array: Any, dists: dict[str, Any]) -> None:
        self.TD = lib.TensorDict
        self.nn = tdnn
        self.array = array
        for name, cls in dists.items():
            setattr(self, name, cls)

    def zeros(self, *shape: int) -> Any:
        return self.array(np.zeros(shape))

    def linspace(self, *shape: int) -> Any:
        return self.array(np.linspace(-1, 1, int(np.prod(shape))).reshape(shape))

    def td(self, **entries: Any) -> Any:
        size = entries.pop("batch_size", [])
        entries = {k: self.array(v) if isinstance(v, np.ndarray) else v for k, v in entries.items()}
        return self.TD(entries, batch_size=size)


NAMES = ["Normal", "Independent", "Categorical", "Bernoulli", "Uniform"]
LITE = Lib(
    lite,
    nn,
    lambda a: a,
    {name: getattr(distributions, name) for name in distributions.__all__ if name[0].isupper()},
)
TORCH = Lib(
    tensordict,
    reference,
    torch.from_numpy,
    {name: getattr(torch.distributions, name) for name in NAMES}
    | {
        name: getattr(rl, name)
        for name in ("TanhNormal", "IndependentNormal", "MaskedCategorical", "TanhDelta")
    }
    | {"Delta": reference.distributions.Delta, "OneHotCategorical": reference.OneHotCategorical}
    | {"RLTruncatedNormal": rl.TruncatedNormal, "CompositeDistribution": reference.CompositeDistribution},
)
LITE.RLTruncatedNormal = LITE.TruncatedNormal


def plain(value: Any) -> Any:
    """TensorDicts, arrays, tensors, shapes and keys as comparable Python values."""
    if isinstance(value, lite.TensorDict | tensordict.TensorDict):
        keys = sorted(value.keys(True, True), key=str)
        return {"batch_size": tuple(value.batch_size), **{k: plain(value.get(k)) for k in keys}}
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return str(array.dtype), array.shape, array
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(v) for v in value)
    return value


def equal(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            equal(a[key], b[key])
    elif isinstance(a, tuple | list):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    elif isinstance(a, np.ndarray):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    else:
        assert a == b


def run(case: Any, lib: Lib) -> Any:
    try:
        return plain(case(lib))
    except Exception as err:
        return type(err)


def same(case: Any) -> Any:
    """Run with both; returns what lite gave."""
    ours, theirs = run(case, LITE), run(case, TORCH)
    if isinstance(theirs, type) and theirs is not ours:  # an error: show lite's side
        case(LITE)
    if isinstance(ours, type) and ours is not theirs:
        case(LITE)
    equal(ours, theirs)
    return ours


def same_error(case: Any, error: type[Exception]) -> None:
    assert same(case) is error


# -- interaction types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mode", "MEDIAN", "Mean", "random", "DETERMINISTIC"])
def test_interaction_types(name: str) -> None:
    for lib in (LITE, TORCH):
        member = lib.nn.InteractionType(name)
        assert member is lib.nn.InteractionType.from_str(name) is lib.nn.InteractionType(member)
        assert member.value == str(member) == name.lower()
    assert [m.name for m in nn.InteractionType] == [m.name for m in reference.InteractionType]


@pytest.mark.parametrize("bad", ["foo", "", 1.0])
def test_interaction_type_errors(bad: Any) -> None:
    for lib in (LITE, TORCH):
        with pytest.raises(ValueError, match="is not a valid InteractionType"):
            lib.nn.InteractionType(bad)
        with pytest.raises(ValueError, match="is not a valid InteractionType"):
            lib.nn.set_interaction_type(bad)


@pytest.mark.parametrize("kind", ["mode", "RANDOM", None])
def test_settings(kind: Any) -> None:
    from tensordict.nn.probabilistic import interaction_type as their_type

    for lib, get in ((LITE, nn.interaction_type), (TORCH, their_type)):
        expected = None if kind is None else lib.nn.InteractionType(kind)
        with lib.nn.set_interaction_type(kind):
            assert get() is expected
            with lib.nn.set_interaction_type("mean"):
                assert get() is lib.nn.InteractionType.MEAN
            assert get() is expected
        assert get() is None

        @lib.nn.set_interaction_type(kind)
        def decorated(get: Any = get) -> Any:
            return get()

        assert decorated() is expected
        assert get() is None


LOC = np.linspace(-1, 1, 12).reshape(3, 4)
DISTS: dict[str, tuple[dict[str, np.ndarray], dict[str, Any]]] = {
    "Normal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "IndependentNormal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "TanhNormal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "RLTruncatedNormal": ({"loc": LOC, "scale": np.exp(LOC)}, {}),
    "Delta": ({"param": LOC}, {}),
    "TanhDelta": ({"param": LOC}, {}),
    "Uniform": ({"low": LOC, "high": LOC + 1}, {}),
    "Bernoulli": ({"logits": LOC}, {}),
    "Categorical": ({"logits": LOC}, {}),
    "OneHotCategorical": ({"logits": LOC}, {}),
    "MaskedCategorical": ({"logits": LOC, "mask": LOC < 0.9}, {}),
}


@pytest.mark.parametrize("log_prob", [False, True])
@pytest.mark.parametrize("kind", ["mode", "mean", "median", "deterministic", "random"])
@pytest.mark.parametrize("name", DISTS)
def test_interaction(name: str, kind: str, log_prob: bool) -> None:
    params, kwargs = DISTS[name]
    if kind == "median" or (kind, name) in {
        ("mean", "OneHotCategorical"),  # here the probabilities, there NaN
        ("mean", "TanhDelta"),
        ("mean", "TanhNormal"),  # estimated from samples
        ("mode", "Bernoulli") if log_prob else ("", ""),
    }:
        return check_own_value(name, kind)

    def case(lib: Lib) -> Any:
        module = lib.nn.ProbabilisticTensorDictModule(
            list(params), ["x"], distribution_class=getattr(lib, name), distribution_kwargs=kwargs,
            return_log_prob=log_prob and not (kind == "mean" and "Categorical" in name),
        )  # fmt: skip
        td = lib.td(**params, batch_size=[3])
        with lib.nn.set_interaction_type(kind):
            out = module(td)
        assert out is td
        if kind == "random":
            return {k: (v.shape, str(v.dtype).removeprefix("torch.")) for k, v in sorted(td.items())}
        return td

    same(case)
    return None


def check_own_value(name: str, kind: str) -> None:
    """Where the reference has no value, or NaN: lite's is what the distribution says."""
    params, _ = DISTS[name]
    cls = getattr(LITE, name)
    module = nn.ProbabilisticTensorDictModule(list(params), ["x"], distribution_class=cls, generator=0)
    td = LITE.td(**params, batch_size=[3])
    dist = cls(**params)
    with nn.set_interaction_type(kind):
        try:
            expected = getattr(dist, kind)
        except NotImplementedError:
            if kind == "median":
                with pytest.raises(NotImplementedError):
                    module(td)
                return
            expected = dist.sample((1000,), rng=0).mean(0)
        np.testing.assert_array_equal(module(td)["x"], expected)


# -- keys ----------------------------------------------------------------------------------------------------

KEYS = [
    ({"in_keys": ["loc", "scale"], "out_keys": ["x"]}, "loc", "scale"),
    ({"in_keys": ["loc", "scale"], "out_keys": "x"}, "loc", "scale"),
    ({"in_keys": [("p", "loc"), ("p", "scale")], "out_keys": [("n", "x")]}, ("p", "loc"), ("p", "scale")),
    ({"in_keys": {"loc": "a", "scale": ("b", "c")}, "out_keys": [("n", "x")]}, "a", ("b", "c")),
    ({"in_keys": {"loc": "a", "scale": "b"}, "out_keys": ["a"]}, "a", "b"),
]


LOG_PROBS = [
    {},
    {"return_log_prob": True},
    {"return_log_prob": True, "log_prob_key": "lp"},
    {"return_log_prob": True, "log_prob_keys": [("q", "lp")]},
]


@pytest.mark.parametrize("log_prob", LOG_PROBS)
@pytest.mark.parametrize(("keys", "loc", "scale"), KEYS)
def test_keys(keys: Any, loc: Any, scale: Any, log_prob: Any) -> None:
    def case(lib: Lib) -> Any:
        module = lib.nn.ProbabilisticTensorDictModule(**keys, distribution_class=lib.Normal, **log_prob)
        td = lib.TD({loc: lib.linspace(3, 4), scale: lib.linspace(3, 4) + 2}, batch_size=[3])
        out = module(td)
        lists = module.in_keys, module.out_keys, module.log_prob_keys, module.log_prob_key
        return lists[1:], list(lists[0]), module.dist_params_keys, module.dist_sample_keys, out

    assert not isinstance(same(case), type)


@pytest.mark.parametrize("key", [None, "sample_log_prob", ("a", "b"), ("data", "lp")])
@pytest.mark.parametrize("reduced", [False, True])
def test_nested_keys(key: Any, reduced: bool) -> None:
    def case(lib: Lib) -> Any:
        def make(**kwargs: Any) -> Any:
            dist = lib.Normal(**kwargs)
            return lib.Independent(dist, 1) if reduced else dist

        module = lib.nn.ProbabilisticTensorDictModule(
            [("data", "loc"), ("data", "scale")], [("data", "action")], distribution_class=make,
            return_log_prob=True, log_prob_key=key, default_interaction_type="mean",
        )  # fmt: skip
        td = lib.TD(
            {("data", "loc"): lib.linspace(3, 4), ("data", "scale"): lib.zeros(3, 4) + 2}, batch_size=[3]
        )
        return module(td)

    same(case)


def test_distribution_kwargs() -> None:
    def case(lib: Lib) -> Any:
        module = lib.nn.ProbabilisticTensorDictModule(
            ["loc", "scale"],
            ["x"],
            distribution_class=lib.TanhNormal,
            distribution_kwargs={"low": -2, "high": 3.0},
        )
        return module(lib.td(**DISTS["Normal"][0]))

    same(case)


@pytest.mark.parametrize("name", ["delta", "Delta", "OneHotCategorical"])
def test_names_of_distributions(name: str) -> None:
    def case(lib: Lib) -> Any:
        key = "param" if name.lower() == "delta" else "logits"
        return lib.nn.ProbabilisticTensorDictModule([key], ["x"], distribution_class=name)(
            lib.td(**{key: LOC})
        )

    same(case)


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (ValueError, lambda lib: lib.nn.ProbabilisticTensorDictModule({1: "a"}, ["x"])),
        (
            RuntimeError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(["loc"], ["x", "y"], log_prob_key="lp"),
        ),
        (
            ValueError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(["a"], ["x"], default_interaction_type="no"),
        ),
        (
            KeyError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(
                ["a"], distribution_class=lib.CompositeDistribution
            ),
        ),
        (
            TypeError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(
                ["loc", "foo"], ["x"], distribution_class=lib.Normal
            )(lib.td(loc=LOC, foo=LOC)),
        ),
        (
            TypeError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(["loc"], ["x"], distribution_class=lib.Normal)(
                lib.td(loc=LOC)
            ),
        ),
        (
            TypeError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(["a"], ["x"], distribution_class=lambda a: a)(
                lib.td(a=LOC)
            ),
        ),
        (
            RuntimeError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(["loc", "scale"], ["x", "y"]).log_prob_key,
        ),
        (
            RuntimeError,
            lambda lib: lib.nn.ProbabilisticTensorDictModule(["param"], ["x"])(lib.td(param=LOC).lock_()),
        ),
        (ValueError, lambda lib: lib.nn.ProbabilisticTensorDictSequential()),
        (
            TypeError,
            lambda lib: lib.nn.ProbabilisticTensorDictSequential(
                lib.nn.TensorDictModule(lambda x: x, ["a"], ["b"]), return_composite=False
            ),
        ),
    ],
)
def test_errors(error: type[Exception], make: Any) -> None:
    same_error(make, error)


@pytest.mark.parametrize("generator", [1.5, True, [1]])
def test_generator_errors(generator: Any) -> None:
    same_error(lambda lib: lib.nn.ProbabilisticTensorDictModule(["a"], ["x"], generator=generator), TypeError)


# -- several samples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_samples", [2, (2,), (2, 3)])
@pytest.mark.parametrize("log_prob", [False, True])
def test_num_samples(num_samples: Any, log_prob: bool) -> None:
    def case(lib: Lib) -> Any:
        module = lib.nn.ProbabilisticTensorDictModule(
            ["loc", "scale"], ["x"], distribution_class=lib.Normal, num_samples=num_samples,
            default_interaction_type="random", return_log_prob=log_prob,
        )  # fmt: skip
        td = lib.td(**DISTS["Normal"][0], batch_size=[3])
        out = module(td)
        assert out is not td
        return out.batch_size, {k: v.shape for k, v in sorted(out.items())}, sorted(td.keys())

    same(case)


def chain(lib: Lib, **options: Any) -> list[Any]:
    """Two probabilistic modules, the second given the first's sample."""
    prob, mod = lib.nn.ProbabilisticTensorDictModule, lib.nn.TensorDictModule
    return [
        mod(lambda x: (x, abs(x) + 1), ["obs"], ["loc", "scale"]),
        prob(["loc", "scale"], ["u"], distribution_class=lib.Normal, **options),
        mod(lambda u: (u * 2, abs(u) + 1), ["u"], [("b", "loc"), ("b", "scale")]),
        prob([("b", "loc"), ("b", "scale")], ["v"], distribution_class=lib.Normal, **options),
    ]


@pytest.mark.parametrize("options", [{}, {"return_log_prob": True}])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_num_samples_in_sequences(options: dict[str, Any], count: int) -> None:
    def case(lib: Lib) -> Any:
        modules = chain(lib, num_samples=2, default_interaction_type="random", **options)[:count]
        seq = lib.nn.ProbabilisticTensorDictSequential(*modules)
        out = seq(lib.td(obs=LOC, batch_size=[3]))
        shapes = {k: out.get(k).shape for k in sorted(out.keys(True, True), key=str)}
        return (
            out.batch_size,
            shapes,
            seq.num_samples,
            seq.log_prob_keys,
            seq.dist_sample_keys,
            seq.return_composite,
        )

    same(case)


# -- sequences -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("log_prob", [False, True])
@pytest.mark.parametrize("form", ["modules", "list", "dict"])
def test_sequence(form: str, log_prob: bool, count: int) -> None:
    def case(lib: Lib) -> Any:
        modules: Any = chain(lib, return_log_prob=log_prob)[:count]
        if form == "dict":
            seq = lib.nn.ProbabilisticTensorDictSequential({f"m{i}": m for i, m in enumerate(modules)})
        else:
            seq = lib.nn.ProbabilisticTensorDictSequential(*([modules] if form == "list" else modules))
        td = lib.td(obs=LOC, batch_size=[3])
        out = seq(td)
        assert out is td
        keys = (
            list(seq.in_keys),
            list(seq.out_keys),
            seq.log_prob_keys,
            seq.dist_sample_keys,
            seq.dist_params_keys,
        )
        scores = seq.log_prob(td.copy())
        return keys, td, scores, type(seq.get_dist(td)).__name__, str(seq.default_interaction_type)

    assert not isinstance(same(case), type)


def test_tensordict_out() -> None:
    def case(lib: Lib) -> Any:
        seq = lib.nn.ProbabilisticTensorDictSequential(*chain(lib)[:2])
        td, out = lib.td(obs=LOC, batch_size=[3]), lib.TD({}, batch_size=[3])
        assert seq(td, out) is out
        return td, out

    same(case)


@pytest.mark.parametrize("inplace", [True, False, None, "empty"])
@pytest.mark.parametrize("dispatched", [False, True])
def test_inplace(inplace: Any, dispatched: bool) -> None:
    def case(lib: Lib) -> Any:
        seq = lib.nn.ProbabilisticTensorDictSequential(
            lib.nn.TensorDictModule(lambda x: x, ["obs"], ["logits"]),
            lib.nn.ProbabilisticTensorDictModule(
                ["logits"], ["action"], distribution_class=lib.Categorical, return_log_prob=True
            ),
            inplace=inplace,
        )
        if dispatched:
            return seq(obs=lib.array(LOC))
        td = lib.td(obs=LOC, batch_size=[3])
        out = seq(td)
        return out is td, td, out

    same(case)


def test_the_sample_is_there_already() -> None:
    """The last module then only scores it."""

    def case(lib: Lib) -> Any:
        seq = lib.nn.ProbabilisticTensorDictSequential(
            lib.nn.TensorDictModule(lambda a: (a * 0, a * 0 + 1, a * 0 + 5), ["a"], ["loc", "scale", "x"]),
            lib.nn.ProbabilisticTensorDictModule(
                ["loc", "scale"], ["x"], distribution_class=lib.Normal, return_log_prob=True
            ),
        )
        return seq(lib.td(a=np.zeros(1)))

    out = same(case)
    np.testing.assert_allclose(out["x_log_prob"][2], [-13.4189], rtol=1e-5)


@pytest.mark.parametrize("selected", [["u"], ["loc", "u"]])
@pytest.mark.parametrize("at_once", [True, False])
def test_selected_out_keys(selected: list[str], at_once: bool) -> None:
    def case(lib: Lib) -> Any:
        modules = chain(lib, return_log_prob=True)[:2]
        if at_once:
            seq = lib.nn.ProbabilisticTensorDictSequential(*modules, selected_out_keys=selected)
        else:
            seq = lib.nn.ProbabilisticTensorDictSequential(*modules).select_out_keys(*selected)
        td = lib.td(obs=LOC, other=LOC, batch_size=[3])
        first = plain(seq(td))
        values = seq(obs=lib.array(LOC))
        seq.reset_out_keys()
        return first, values, list(seq.out_keys)

    same(case)


@pytest.mark.parametrize("selected", [None, ["b"]])
def test_without_probabilistic_modules(selected: Any) -> None:
    def case(lib: Lib) -> Any:
        seq = lib.nn.ProbabilisticTensorDictSequential(
            lib.nn.TensorDictModule(lambda x: x + 1, ["a"], ["b"]),
            lib.nn.TensorDictModule(lambda x: x + 1, ["b"], ["c"]),
            selected_out_keys=selected,
        )
        return list(seq.in_keys), list(seq.out_keys), seq(lib.td(a=LOC))

    same(case)


def test_sequence_as_a_list() -> None:
    def case(lib: Lib) -> Any:
        modules = chain(lib)
        seq = lib.nn.ProbabilisticTensorDictSequential(*modules)
        assert [seq[i] is m for i, m in enumerate(modules)] == [True] * 4
        assert list(seq.det_part) == modules[:3]
        return len(seq), type(seq.det_part).__name__, list(seq.det_part.in_keys), list(seq.det_part.out_keys)

    same(case)


@pytest.mark.parametrize("composite", [None, True])
@pytest.mark.parametrize(
    "index", [slice(1), slice(2), slice(3), slice(1, None), slice(2, 3), slice(-1, None)]
)
@pytest.mark.parametrize("count", [2, 4])
def test_index(index: slice, composite: Any, count: int) -> None:
    if not range(count)[index]:
        return check_empty_slice(composite, count, index)

    def case(lib: Lib) -> Any:
        seq = lib.nn.ProbabilisticTensorDictSequential(*chain(lib)[:count], return_composite=composite)
        part = seq[index]
        return type(part).__name__, len(part), getattr(part, "return_composite", None), list(part.out_keys)

    assert not isinstance(same(case), type)
    return None


def check_empty_slice(composite: Any, count: int, index: slice) -> None:
    """An error there; here a sequence without modules, as of a TensorDictSequential."""
    seq = LITE.nn.ProbabilisticTensorDictSequential(*chain(LITE)[:count], return_composite=composite)
    assert type(seq[index]) is nn.TensorDictSequential
    assert len(seq[index]) == 0


def test_intermediate_distributions() -> None:
    """A probabilistic module that is not the last."""

    def case(lib: Lib) -> Any:
        modules = chain(lib, return_log_prob=True)[:3]
        seq = lib.nn.ProbabilisticTensorDictSequential(*modules)
        td = seq(lib.td(obs=LOC, batch_size=[3]))
        dist = seq.get_dist(td)
        return td, list(dist), dist.log_prob(td), seq.log_prob(td)

    assert not isinstance(same(case), type)


@pytest.mark.parametrize("composite", [True, False])
def test_errors_inside_sequences(composite: bool) -> None:
    def case(lib: Lib) -> Any:
        def fail(x: Any) -> Any:
            raise ZeroDivisionError("no")

        seq = lib.nn.ProbabilisticTensorDictSequential(
            lib.nn.TensorDictModule(fail, ["a"], ["param"]),
            lib.nn.ProbabilisticTensorDictModule(["param"], ["x"]),
            return_composite=composite,
        )
        return seq(lib.td(a=LOC))

    same_error(case, RuntimeError if composite else ZeroDivisionError)


def test_unknown_keyword() -> None:
    def case(lib: Lib) -> Any:
        return lib.nn.ProbabilisticTensorDictSequential(*chain(lib)[:2])(lib.td(obs=LOC), foo=1)

    same_error(case, RuntimeError)


def test_skip_existing() -> None:
    def case(lib: Lib) -> Any:
        module = lib.nn.ProbabilisticTensorDictModule(["param"], ["x"])
        with lib.nn.set_skip_existing():
            return module(lib.td(param=LOC, x=LOC * 0)), module(lib.td(param=LOC))

    same(case)


# -- composite distributions ---------------------------------------------------------------------------------


def params(lib: Lib, batch: tuple[int, ...] = (3,)) -> Any:
    return lib.TD(
        {
            ("cont", "loc"): lib.linspace(*batch, 4),
            ("cont", "scale"): lib.linspace(*batch, 4) + 2,
            ("nested", "disc", "logits"): lib.linspace(*batch, 10),
        },
        batch_size=batch,
    )


def composite(lib: Lib, **options: Any) -> Any:
    classes = {"cont": lib.Normal, ("nested", "disc"): lib.Categorical}
    return lib.CompositeDistribution(params(lib), classes, **options)


NAME_MAPS = [None, {"cont": ("n", "sample"), ("nested", "disc"): ("nested", "d")}, {"cont": "other"}]


@pytest.mark.parametrize("names", NAME_MAPS)
def test_composite_samples(names: Any) -> None:
    def case(lib: Lib) -> Any:
        dist = composite(lib, name_map=names)
        shapes = []
        for sample in (dist.sample(), dist.sample((4,)), dist.sample((4, 5))):
            shapes.append(
                (
                    sample.batch_size,
                    {k: sample.get(k).shape for k in sorted(sample.keys(True, True), key=str)},
                )
            )
        given = type(dist).from_distributions(params(lib), dict(dist))
        return (
            shapes,
            list(dist),
            len(dist),
            dist.batch_shape,
            dist.deterministic_sample,
            given.mode,
            dist.mean,
        )

    assert not isinstance(same(case), type)


@contextlib.contextmanager
def mode(lib: Lib, aggregate: bool) -> Any:
    with lib.nn.set_composite_lp_aggregate(aggregate):
        yield


@pytest.mark.parametrize("include_sum", [None, True, False])
@pytest.mark.parametrize("aggregate", [True, False])
@pytest.mark.parametrize("names", NAME_MAPS)
def test_composite_log_prob(names: Any, aggregate: bool, include_sum: Any) -> None:
    def case(lib: Lib) -> Any:
        dist = composite(lib, name_map=names, log_prob_key="total")
        sample = dist.mode
        with mode(lib, aggregate):
            whole = dist.log_prob(sample)
            parts = dist.log_prob_composite(sample, include_sum=include_sum)
        return whole, parts, parts is sample

    assert not isinstance(same(case), type)


@pytest.mark.parametrize("include_sum", [None, True, False])
@pytest.mark.parametrize("aggregate", [True, False])
def test_composite_entropy(aggregate: bool, include_sum: Any) -> None:
    def case(lib: Lib) -> Any:
        dist = composite(lib, entropy_key="total")
        with mode(lib, aggregate):
            return dist.entropy(include_sum=include_sum), dist.entropy_composite(include_sum=include_sum)

    assert not isinstance(same(case), type)


def test_composite_cdf_and_icdf() -> None:
    def case(lib: Lib) -> Any:
        dist = lib.CompositeDistribution.from_distributions(
            lib.TD({}, batch_size=[3]),
            {
                "a": lib.Normal(lib.linspace(3), lib.linspace(3) + 2),
                ("n", "b"): lib.Uniform(lib.linspace(3), lib.linspace(3) + 2),
            },
        )
        sample = dist.mean
        return dist.icdf(dist.cdf(sample)) is sample, sample

    assert not isinstance(same(case), type)


def test_composite_errors() -> None:
    same_error(lambda lib: lib.CompositeDistribution(params(lib), {"foo": lib.Normal}), KeyError)
    same_error(lambda lib: composite(lib).log_prob(lib.zeros(3)), RuntimeError)


@pytest.mark.parametrize("names", NAME_MAPS)
@pytest.mark.parametrize("kind", ["deterministic", "mean", "mode"])
@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("sequence", [False, True])
def test_composite_modules(names: Any, kind: str, aggregate: bool, sequence: bool) -> None:
    def case(lib: Lib) -> Any:
        classes = {"cont": lib.Normal, ("nested", "disc"): lib.Delta if kind == "mean" else lib.Categorical}
        kwargs: Any = {"distribution_map": classes}
        if names is not None:
            kwargs["name_map"] = {
                "cont": names["cont"],
                ("nested", "disc"): names.get(("nested", "disc"), "disc"),
            }
        with mode(lib, aggregate):
            module = lib.nn.ProbabilisticTensorDictModule(
                ["params"], distribution_class=lambda params, **kw: lib.CompositeDistribution(params, **kw),
                out_keys=list(kwargs.get("name_map", classes).values() if names else classes),
                distribution_kwargs=kwargs, default_interaction_type=kind, return_log_prob=kind != "mean",
            )  # fmt: skip
            given = params(lib)
            if kind == "mean":
                given = given.rename_key_(("nested", "disc", "logits"), ("nested", "disc", "param"))
            td = lib.TD({"params": given}, batch_size=[3])
            if sequence:
                module = lib.nn.ProbabilisticTensorDictSequential(
                    lib.nn.TensorDictModule(lambda p: p, ["given"], ["params"]), module
                )
                td = td.rename_key_("params", "given")
            out = module(td)
            scores = None if kind == "mean" else module.log_prob(out.copy())
            return list(module.out_keys), out.exclude("given", "params"), scores

    assert not isinstance(same(case), type)


def test_composite_out_keys_by_default() -> None:
    def case(lib: Lib) -> Any:
        make = lib.nn.ProbabilisticTensorDictModule
        classes = {"cont": lib.Normal, ("nested", "disc"): lib.Categorical}
        plain_names = make(
            ["params"],
            distribution_class=lib.CompositeDistribution,
            distribution_kwargs={"distribution_map": classes},
        )
        mapped = make(
            ["params"],
            distribution_class=lib.CompositeDistribution,
            distribution_kwargs={"distribution_map": classes, "name_map": NAME_MAPS[1]},
        )
        return (
            plain_names.out_keys,
            mapped.out_keys,
            plain_names(lib.TD({"params": params(lib)}, batch_size=[3])),
        )

    assert not isinstance(same(case), type)


def test_aggregate_of_modules() -> None:
    def case(lib: Lib) -> Any:
        out = []
        for aggregate in (False, True):
            with mode(lib, aggregate):
                module = lib.nn.ProbabilisticTensorDictModule(
                    ["loc", "scale"], ["x"], distribution_class=lib.Normal, return_log_prob=True
                )
                td = module(lib.td(**DISTS["Normal"][0]))
                out.append((module.out_keys, module.log_prob_key, module.log_prob_keys, td))
        return out

    assert not isinstance(same(case), type)


@pytest.mark.parametrize("at_first", [True, False])
def test_aggregate_mode_mismatch(at_first: bool) -> None:
    def make(lib: Lib) -> Any:
        with mode(lib, at_first):
            return lib.nn.ProbabilisticTensorDictModule(
                ["loc", "scale"], ["x"], distribution_class=lib.Normal, return_log_prob=True
            )

    def case(lib: Lib, name: str) -> Any:
        module = make(lib)
        with mode(lib, not at_first):
            return getattr(module, name)

    for name in ("log_prob_key", "log_prob_keys"):
        same_error(lambda lib, name=name: case(lib, name), RuntimeError)

    def keys(lib: Lib) -> Any:
        with mode(lib, True):
            return lib.nn.ProbabilisticTensorDictModule(["a"], ["x"], log_prob_keys=["b"])

    same_error(keys, RuntimeError)


# -- extractors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mapping", ["exp", "relu", "softplus", "expln", "none", "biased_softplus", "biased_softplus_1.0",
                "biased_softplus_0.5_0.1", "biased_softplus_1_2_3", "unknown"]
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mappings(mapping: str, dtype: str) -> None:
    x = np.linspace(-30, 30, 61).astype(dtype)
    same(lambda lib: lib.nn.mappings(mapping)(lib.array(x)))


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 8), (1,), (2, 1), ()])
@pytest.mark.parametrize("options", [{}, {"scale_mapping": "exp", "scale_lb": 0.5}])
def test_normal_param_extractor(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    def case(lib: Lib) -> Any:
        x = lib.array(np.linspace(-3, 3, int(np.prod(shape))).reshape(shape))
        return lib.nn.NormalParamExtractor(**options)(x, 7)

    out = same(case)
    assert isinstance(out, type) == (shape in [(1,), (2, 1), ()])


@pytest.mark.parametrize("make_param", [True, False])
@pytest.mark.parametrize(
    ("shape", "loc"), [(4, (4,)), (4, (3, 4)), ((2, 4), (3, 2, 4)), (4, (3, 5)), (4, ())]
)
def test_state_independent_scale(shape: Any, loc: tuple[int, ...], make_param: bool) -> None:
    def case(lib: Lib) -> Any:
        module = lib.nn.AddStateIndependentNormalScale(
            shape, scale_mapping="relu", init_value=2.0, make_param=make_param
        )
        names = [n for n, _ in module.named_parameters()], [n for n, _ in module.named_buffers()]
        assert list(module.state_dict()) == ["state_independent_scale"]
        return names, module(lib.array(np.ones(loc, np.float32)), 7)

    same(case)


@pytest.mark.parametrize("value", [1.0, 0.5, 1e-9, 20.0])
def test_inv_softplus(value: float) -> None:
    assert nn.inv_softplus(value) == pytest.approx(reference.inv_softplus(value), rel=1e-5)
    np.testing.assert_allclose(
        nn.inv_softplus(np.array([value])), reference.inv_softplus(torch.tensor([value], dtype=torch.float64))
    )
