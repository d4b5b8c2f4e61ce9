"""Composite distributions, and modules of them, against tensordict's."""

import contextlib

import pytest
from parity.probabilistic import DISTS, compared_values, same_error

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


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


NAME_MAPS = [None, {"cont": ("n", "sample"), ("nested", "disc"): ("nested", "d")}, {"cont": "other"}]


@pytest.mark.parametrize("names", NAME_MAPS)
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


@pytest.mark.parametrize("include_sum", [None, True, False])
@pytest.mark.parametrize("aggregate", [True, False])
@pytest.mark.parametrize("names", NAME_MAPS)
@compared_values
def test_composite_log_prob(lib, names, aggregate, include_sum):
    dist = composite(lib, name_map=names, log_prob_key="total")
    sample = dist.mode
    with mode(lib, aggregate):
        whole = dist.log_prob(sample)
        parts = dist.log_prob_composite(sample, include_sum=include_sum)
    return whole, parts, parts is sample


@pytest.mark.parametrize("include_sum", [None, True, False])
@pytest.mark.parametrize("aggregate", [True, False])
@compared_values
def test_composite_entropy(lib, aggregate, include_sum):
    dist = composite(lib, entropy_key="total")
    with mode(lib, aggregate):
        return dist.entropy(include_sum=include_sum), dist.entropy_composite(include_sum=include_sum)


@compared_values
def test_composite_cdf_and_icdf(lib):
    dist = lib.CompositeDistribution.from_distributions(
        lib.TD({}, batch_size=[3]),
        {
            "a": lib.Normal(lib.linspace(3), lib.linspace(3) + 2),
            ("n", "b"): lib.Uniform(lib.linspace(3), lib.linspace(3) + 2),
        },
    )
    sample = dist.mean
    return dist.icdf(dist.cdf(sample)) is sample, sample


def test_composite_errors():
    same_error(lambda lib: lib.CompositeDistribution(params(lib), {"foo": lib.Normal}), KeyError)
    same_error(lambda lib: composite(lib).log_prob(lib.zeros(3)), RuntimeError)


@pytest.mark.parametrize("names", NAME_MAPS)
@pytest.mark.parametrize("kind", ["deterministic", "mean", "mode"])
@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("sequence", [False, True])
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


@compared_values
def test_composite_out_keys_by_default(lib):
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


@compared_values
def test_aggregate_of_modules(lib):
    out = []
    for aggregate in (False, True):
        with mode(lib, aggregate):
            module = lib.nn.ProbabilisticTensorDictModule(
                ["loc", "scale"], ["x"], distribution_class=lib.Normal, return_log_prob=True
            )
            td = module(lib.td(**DISTS["Normal"][0]))
            out.append((module.out_keys, module.log_prob_key, module.log_prob_keys, td))
    return out


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
