"""Probabilistic modules against tensordict's."""

import numpy as np
import pytest
from parity.probabilistic import DISTS, LITE, LOC, TORCH, chain, compared, compared_values, same, same_error
from tensordict import nn as reference

from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


# -- interaction types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mode", "MEDIAN", "Mean", "random", "DETERMINISTIC"])
def test_interaction_types(name):
    for lib in (LITE, TORCH):
        member = lib.nn.InteractionType(name)
        assert member is lib.nn.InteractionType.from_str(name) is lib.nn.InteractionType(member)
        assert member.value == str(member) == name.lower()
    assert [m.name for m in nn.InteractionType] == [m.name for m in reference.InteractionType]


@pytest.mark.parametrize("bad", ["foo", "", 1.0])
def test_interaction_type_errors(bad):
    for lib in (LITE, TORCH):
        with pytest.raises(ValueError, match="is not a valid InteractionType"):
            lib.nn.InteractionType(bad)
        with pytest.raises(ValueError, match="is not a valid InteractionType"):
            lib.nn.set_interaction_type(bad)


@pytest.mark.parametrize("kind", ["mode", "RANDOM", None])
def test_settings(kind):
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
        def decorated(get=get):
            return get()

        assert decorated() is expected
        assert get() is None


@pytest.mark.parametrize("log_prob", [False, True])
@pytest.mark.parametrize("kind", ["mode", "mean", "median", "deterministic", "random"])
@pytest.mark.parametrize("name", DISTS)
def test_interaction(name, kind, log_prob):
    params, kwargs = DISTS[name]
    if kind == "median" or (kind, name) in {
        ("mean", "OneHotCategorical"),  # here the probabilities, there NaN
        ("mean", "TanhDelta"),
        ("mean", "TanhNormal"),  # estimated from samples
        ("mode", "Bernoulli") if log_prob else ("", ""),
    }:
        return check_own_value(name, kind)

    def case(lib):
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


def check_own_value(name, kind):
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
@compared_values
def test_keys(lib, keys, loc, scale, log_prob):
    module = lib.nn.ProbabilisticTensorDictModule(**keys, distribution_class=lib.Normal, **log_prob)
    td = lib.TD({loc: lib.linspace(3, 4), scale: lib.linspace(3, 4) + 2}, batch_size=[3])
    out = module(td)
    lists = module.in_keys, module.out_keys, module.log_prob_keys, module.log_prob_key
    return lists[1:], list(lists[0]), module.dist_params_keys, module.dist_sample_keys, out


@pytest.mark.parametrize("key", [None, "sample_log_prob", ("a", "b"), ("data", "lp")])
@pytest.mark.parametrize("reduced", [False, True])
@compared
def test_nested_keys(lib, key, reduced):
    def make(**kwargs):
        dist = lib.Normal(**kwargs)
        return lib.Independent(dist, 1) if reduced else dist

    module = lib.nn.ProbabilisticTensorDictModule(
        [("data", "loc"), ("data", "scale")], [("data", "action")], distribution_class=make,
        return_log_prob=True, log_prob_key=key, default_interaction_type="mean",
    )  # fmt: skip
    td = lib.TD({("data", "loc"): lib.linspace(3, 4), ("data", "scale"): lib.zeros(3, 4) + 2}, batch_size=[3])
    return module(td)


@compared
def test_distribution_kwargs(lib):
    module = lib.nn.ProbabilisticTensorDictModule(
        ["loc", "scale"],
        ["x"],
        distribution_class=lib.TanhNormal,
        distribution_kwargs={"low": -2, "high": 3.0},
    )
    return module(lib.td(**DISTS["Normal"][0]))


@pytest.mark.parametrize("name", ["delta", "Delta", "OneHotCategorical"])
@compared
def test_names_of_distributions(lib, name):
    key = "param" if name.lower() == "delta" else "logits"
    return lib.nn.ProbabilisticTensorDictModule([key], ["x"], distribution_class=name)(lib.td(**{key: LOC}))


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
def test_errors(error, make):
    same_error(make, error)


@pytest.mark.parametrize("generator", [1.5, True, [1]])
def test_generator_errors(generator):
    same_error(lambda lib: lib.nn.ProbabilisticTensorDictModule(["a"], ["x"], generator=generator), TypeError)


# -- several samples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_samples", [2, (2,), (2, 3)])
@pytest.mark.parametrize("log_prob", [False, True])
@compared
def test_num_samples(lib, num_samples, log_prob):
    module = lib.nn.ProbabilisticTensorDictModule(
        ["loc", "scale"], ["x"], distribution_class=lib.Normal, num_samples=num_samples,
        default_interaction_type="random", return_log_prob=log_prob,
    )  # fmt: skip
    td = lib.td(**DISTS["Normal"][0], batch_size=[3])
    out = module(td)
    assert out is not td
    return out.batch_size, {k: v.shape for k, v in sorted(out.items())}, sorted(td.keys())


@pytest.mark.parametrize("options", [{}, {"return_log_prob": True}])
@pytest.mark.parametrize("count", [2, 3, 4])
@compared
def test_num_samples_in_sequences(lib, options, count):
    modules = chain(lib, num_samples=2, default_interaction_type="random", **options)[:count]
    seq = lib.nn.ProbabilisticTensorDictSequential(*modules)
    out = seq(lib.td(obs=LOC, batch_size=[3]))
    shapes = {k: out.get(k).shape for k in sorted(out.keys(True, True), key=str)}
    return (
        out.batch_size, shapes, seq.num_samples, seq.log_prob_keys, seq.dist_sample_keys,
        seq.return_composite,
    )  # fmt: skip
