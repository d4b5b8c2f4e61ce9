"""Probabilistic modules and composite distributions against tensordict's."""

import contextlib

import numpy as np
import pytest
from helpers.cases import each_case
from parity.probabilistic import DISTS, LITE, LOC, compared, compared_values, same, same_error

from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


# -- interaction types ---------------------------------------------------------------------------------------


@each_case(
    ("kind", "log_prob"),
    [("mode", True), ("mean", False), ("median", False), ("deterministic", True), ("random", True)],
)
@each_case("name", DISTS)
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


@each_case("log_prob", LOG_PROBS)
@each_case(("keys", "loc", "scale"), KEYS)
@compared_values
def test_keys(lib, keys, loc, scale, log_prob):
    module = lib.nn.ProbabilisticTensorDictModule(**keys, distribution_class=lib.Normal, **log_prob)
    td = lib.TD({loc: lib.linspace(3, 4), scale: lib.linspace(3, 4) + 2}, batch_size=[3])
    out = module(td)
    lists = module.in_keys, module.out_keys, module.log_prob_keys, module.log_prob_key
    return lists[1:], list(lists[0]), module.dist_params_keys, module.dist_sample_keys, out


def written(lib, keys, params, **options):
    """What a module of these keys and options writes for parameters."""
    return lib.nn.ProbabilisticTensorDictModule(keys, ["x"], **options)(lib.td(**dict.fromkeys(params, LOC)))


ERRORS = [
    (ValueError, lambda lib: lib.nn.ProbabilisticTensorDictModule({1: "a"}, ["x"])),
    (RuntimeError,
        lambda lib: lib.nn.ProbabilisticTensorDictModule(["loc"], ["x", "y"], log_prob_key="lp")),
    (ValueError,
        lambda lib: lib.nn.ProbabilisticTensorDictModule(["a"], ["x"], default_interaction_type="no")),
    (KeyError, lambda lib: lib.nn.ProbabilisticTensorDictModule(["a"],
        distribution_class=lib.CompositeDistribution)),
    (TypeError, lambda lib: written(lib, ["loc", "foo"], ["loc", "foo"], distribution_class=lib.Normal)),
    (TypeError, lambda lib: written(lib, ["loc"], ["loc"], distribution_class=lib.Normal)),
    (TypeError, lambda lib: written(lib, ["a"], ["a"], distribution_class=lambda a: a)),
    (RuntimeError,
        lambda lib: lib.nn.ProbabilisticTensorDictModule(["loc", "scale"], ["x", "y"]).log_prob_key),
    (RuntimeError,
        lambda lib: lib.nn.ProbabilisticTensorDictModule(["param"], ["x"])(lib.td(param=LOC).lock_())),
    (ValueError, lambda lib: lib.nn.ProbabilisticTensorDictSequential()),
    (
        TypeError,
        lambda lib: lib.nn.ProbabilisticTensorDictSequential(
            lib.nn.TensorDictModule(lambda x: x, ["a"], ["b"]), return_composite=False
        ),
    ),
]  # fmt: skip


@each_case(("error", "make"), ERRORS)
def test_errors(error, make):
    same_error(make, error)


# -- several samples -----------------------------------------------------------------------------------------


@each_case("num_samples", [2, (2,), (2, 3)])
@each_case("log_prob", [False, True])
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


# -- extractors ----------------------------------------------------------------------------------------------


@each_case(
    "mapping", ["exp", "relu", "softplus", "expln", "none", "biased_softplus", "biased_softplus_1.0",
                "biased_softplus_0.5_0.1", "biased_softplus_1_2_3", "unknown"]
)  # fmt: skip
@each_case("dtype", ["float32", "float64"])
def test_mappings(mapping, dtype):
    x = np.linspace(-30, 30, 61).astype(dtype)
    same(lambda lib: lib.nn.mappings(mapping)(lib.array(x)))


@each_case("make_param", [True, False])
@each_case(("shape", "loc"), [(4, (4,)), (4, (3, 4)), ((2, 4), (3, 2, 4)), (4, (3, 5)), (4, ())])
@compared
def test_state_independent_scale(lib, shape, loc, make_param):
    module = lib.nn.AddStateIndependentNormalScale(
        shape, scale_mapping="relu", init_value=2.0, make_param=make_param
    )
    names = [n for n, _ in module.named_parameters()], [n for n, _ in module.named_buffers()]
    assert list(module.state_dict()) == ["state_independent_scale"]
    return names, module(lib.array(np.ones(loc, np.float32)), 7)


# -- composite distributions ---------------------------------------------------------------------------------


def params(lib, batch=(3,)):
    return lib.TD(
        {
            ("cont", "loc"): lib.linspace(*batch, 4),
            ("cont", "scale"): lib.linspace(*batch, 4) + 2,
            ("nested", "disc", "logits"): lib.linspace(*batch, 10),
        },
        batch_size=batch,
    )


def composite(lib, **options):
    classes = {"cont": lib.Normal, ("nested", "disc"): lib.Categorical}
    return lib.CompositeDistribution(params(lib), classes, **options)


KINDS = ["deterministic", "mean", "mode"]
NAME_MAPS = [None, {"cont": ("n", "sample"), ("nested", "disc"): ("nested", "d")}, {"cont": "other"}]


@each_case("names", NAME_MAPS)
@compared_values
def test_composite_samples(lib, names):
    dist = composite(lib, name_map=names)
    shapes = []
    for sample in (dist.sample(), dist.sample((4,)), dist.sample((4, 5))):
        shapes.append(
            (sample.batch_size, {k: sample.get(k).shape for k in sorted(sample.keys(True, True), key=str)})
        )
    given = type(dist).from_distributions(params(lib), dict(dist))
    return (shapes, list(dist), len(dist), dist.batch_shape, dist.deterministic_sample, given.mode, dist.mean)


@contextlib.contextmanager
def mode(lib, aggregate):
    with lib.nn.set_composite_lp_aggregate(aggregate):
        yield


@each_case(
    ("names", "aggregate", "include_sum"),
    [
        (NAME_MAPS[0], True, None), (NAME_MAPS[0], False, True), (NAME_MAPS[1], True, False),
        (NAME_MAPS[1], False, None), (NAME_MAPS[2], True, True), (NAME_MAPS[2], False, False),
    ],
)  # fmt: skip
@compared_values
def test_composite_log_prob(lib, names, aggregate, include_sum):
    dist = composite(lib, name_map=names, log_prob_key="total")
    sample = dist.mode
    with mode(lib, aggregate):
        whole = dist.log_prob(sample)
        parts = dist.log_prob_composite(sample, include_sum=include_sum)
    return whole, parts, parts is sample


@each_case(
    ("names", "kind"),
    [*zip(NAME_MAPS, KINDS, strict=True), *zip(NAME_MAPS, KINDS[1:] + KINDS[:1], strict=True)],
)
@each_case(("aggregate", "sequence"), [(False, True), (True, False)])
@compared_values
def test_composite_modules(lib, names, kind, aggregate, sequence):
    classes = {"cont": lib.Normal, ("nested", "disc"): lib.Delta if kind == "mean" else lib.Categorical}
    kwargs = {"distribution_map": classes}
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


@pytest.mark.parametrize("at_first", [True, False])
def test_aggregate_mode_mismatch(at_first):
    def make(lib):
        with mode(lib, at_first):
            return lib.nn.ProbabilisticTensorDictModule(
                ["loc", "scale"], ["x"], distribution_class=lib.Normal, return_log_prob=True
            )

    def case(lib, name):
        module = make(lib)
        with mode(lib, not at_first):
            return getattr(module, name)

    for name in ("log_prob_key", "log_prob_keys"):
        same_error(lambda lib, name=name: case(lib, name), RuntimeError)

    def keys(lib):
        with mode(lib, True):
            return lib.nn.ProbabilisticTensorDictModule(["a"], ["x"], log_prob_keys=["b"])

    same_error(keys, RuntimeError)
