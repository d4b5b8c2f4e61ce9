"""Distributions by a table: every method and property, in both precisions, over batches of each kind.

In single precision torch loses digits in differences of large logarithms: results are compared with its own
of the same parameters in double precision.
"""

import numpy as np
import pytest
import tensordict
import tensordict.nn.distributions as td_nn
import torch
from helpers.cases import each_case, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.distribution_cases import OTHERS, TORCH, inside, loc_and_scale, logits, positive, real, tensors
from torchrl.modules import distributions as rl

import lite
import lite.nn
from lite.nn import distributions as ours

D = torch.distributions
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch):
    """torch checks parameters unless TorchRL was imported: here only where a test asks for it."""
    monkeypatch.setattr(D.Distribution, "_validate_args", False)


CASES = TORCH | OTHERS
BATCHES = [("float32", (2, 3)), ("float64", ()), ("float64", (2, 0))]
PROPERTIES = ("mean", "mode", "variance", "stddev")
METHODS = ("log_prob", "entropy", "cdf", "icdf")
# Of empty batches these raise there, each in its own way.
FAIL_EMPTY = {
    ("Binomial", "entropy"),
    ("Multinomial", "entropy"),
    ("MultivariateNormal", "log_prob"),
    ("RelaxedOneHotCategorical", "log_prob"),
}


def ask(dist, name, value):
    """What a property or method gives, or the class of its error."""
    try:
        found = getattr(dist, name)
        if not callable(found):
            return found
        return found() if name == "entropy" else found(value)
    except NotImplementedError as err:
        return type(err)


def tolerance(name, what, dtype):
    if name == "VonMises" and what in ("log_prob", "variance", "stddev"):
        return 1e-6  # torch's Bessel functions have no more digits
    if name.startswith("Multinomial") and what == "entropy":
        return 1e-6  # a part of which torch computes in single precision
    if what == "cdf" and name in ("Chi2", "Gamma") and dtype == "float64":
        return 1e-9  # torch's incomplete gamma function has ten digits
    if name in OTHERS:  # TorchRL takes differences of small probabilities
        return 1e-9 if dtype == "float64" else 5e-3 if name.startswith("Truncated") else 1e-4
    return 1e-6 if dtype == "float32" else 1e-11


def drawn_case(name, dtype, batch):
    """The distribution in lite, in the reference, and there in double precision; values to score."""
    case, rng = CASES[name], np.random.default_rng(0)
    kwargs = {
        k: np.asarray(v, dtype) if hasattr(v, "astype") else v for k, v in case.params(rng, batch).items()
    }
    value = np.asarray(case.values(rng, (2, *batch)))
    value = value.astype(dtype) if value.dtype.kind == "f" else value
    if name == "Delta":
        value[0] = kwargs["param"]
    dists = [case.ours(**kwargs), case.theirs(**tensors(kwargs)), case.theirs(**tensors(kwargs, np.float64))]
    return *dists, value, inside(rng, value.shape).astype(dtype)


@pytest.mark.parametrize("name", CASES)
@each_case(("dtype", "batch"), BATCHES)
def test_members(name, dtype, batch):
    if name in OTHERS and 0 in batch:
        return
    mine, theirs, exact, value, p = drawn_case(name, dtype, batch)
    cls = name.split(",")[0]
    flags = ["batch_shape", "event_shape"] if "OneHot" not in name or name in TORCH else ["batch_shape"]
    flags += ["has_rsample"] * ("Delta" not in name) + ["has_enumerate_support"] * (name in TORCH)
    for flag in flags:
        got, expected = getattr(mine, flag), getattr(theirs, flag)
        assert got == (tuple(expected) if "shape" in flag else expected)
    if name in TORCH:
        assert mine.support.event_dim == theirs.support.event_dim
        assert mine.support.is_discrete == theirs.support.is_discrete
    for what in CASES[name].members or (*PROPERTIES, *METHODS):
        given = p if what == "icdf" else value
        if (cls, what) in FAIL_EMPTY and 0 in batch:
            assert ask(mine, what, given).shape == (batch if what == "entropy" else (2, *batch))
            with pytest.raises((RuntimeError, IndexError, ZeroDivisionError)):
                ask(theirs, what, torch.from_numpy(given))
            continue
        got, native = ask(mine, what, given), ask(theirs, what, torch.from_numpy(given))
        if isinstance(native, type):
            assert got is native, what
            continue
        wide = torch.from_numpy(given.astype(np.float64) if given.dtype.kind == "f" else given)
        expected = ask(exact, what, wide).numpy()
        assert got.shape == tuple(native.shape), what
        assert got.dtype == native.numpy().dtype, what
        limit = tolerance(name, what, dtype)
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit, err_msg=what)
    drawn, expected = np.asarray(mine.sample((4, 1), rng=0)), theirs.sample((4, 1))
    assert drawn.shape == tuple(expected.shape)
    if name != "OneHotCategorical, torch":  # whose samples are floats, other than tensordict's
        assert drawn.dtype == expected.numpy().dtype
    if name in TORCH:
        assert mine.expand((4, *batch)).batch_shape == tuple(theirs.expand((4, *batch)).batch_shape)


@each_case("name", [name for name in TORCH if name != "MultivariateNormal, precision_matrix"])
def test_checked_by_moments(name):
    """The same draws on average: medians, which all have, of 5,000."""
    kwargs = TORCH[name].params(np.random.default_rng(3), (3,))
    mine = TORCH[name].ours(**kwargs).sample((5_000,), rng=0)
    torch.manual_seed(0)
    theirs = TORCH[name].theirs(**tensors(kwargs)).sample((5_000,)).numpy()
    for q in (0.1, 0.5, 0.9):
        a, b = np.quantile(mine, q, 0), np.quantile(theirs, q, 0)
        # the share of the one below a quantile of the other; four standard deviations
        below, upto = (theirs < a).mean(0), (theirs <= a).mean(0)
        assert ((below - 0.04 < q) & (q < upto + 0.04)).all(), (a, b)


# -- policies ------------------------------------------------------------------------------------------------

# A count has a mode there, too, where all values are few; elsewhere the mean, which is no count.
COUNTED = ("Poisson", "Geometric", "NegativeBinomial")
# torch's temperature is a tensor without dimensions, which is no entry of a batch.
POLICIES = [name for name in TORCH if not name.startswith(("Relaxed", "Bernoulli", "Normal", "Uniform"))]


def both(name, log_prob):
    """What a probabilistic module of both sides writes for the parameters of a case."""
    kwargs = TORCH[name].params(np.random.default_rng(0), (2, 3))
    arrays = {k: v for k, v in kwargs.items() if isinstance(v, np.ndarray)}
    options = {k: v for k, v in kwargs.items() if k not in arrays}
    found = []
    for lib, dists, convert in ((lite, ours, dict), (tensordict, D, tensors)):
        module = lib.nn.ProbabilisticTensorDictModule(
            list(arrays), ["x"], distribution_class=getattr(dists, name.split(",")[0]),
            distribution_kwargs=options, return_log_prob=log_prob, default_interaction_type="deterministic",
        )  # fmt: skip
        found.append(module(lib.TensorDict(convert(arrays), batch_size=[2])))
    return found


@each_case("name", POLICIES)
def test_policies_without_chance(name):
    # The mean of a Multinomial, which stands for it, has no log-prob here.
    mine, theirs = both(name, not name.startswith("Multinomial"))
    if name.startswith(COUNTED):
        np.testing.assert_array_equal(mine["x"] % 1, 0)
        assert np.isfinite(mine["x_log_prob"]).all()
        return
    if name in ("Cauchy", "StudentT"):  # the mean where there is one
        known = ~np.isnan(theirs["x"].numpy())
        np.testing.assert_allclose(mine["x"][known], theirs["x"].numpy()[known])
        return
    limit = 1e-6 if name == "VonMises" else 1e-10
    for key in sorted(mine.keys()):
        np.testing.assert_allclose(mine[key], theirs[key].numpy(), rtol=limit, err_msg=key)


def test_composite_policies():
    rng = np.random.default_rng(0)
    params = {"move": CASES["Gamma"].params(rng, (5, 2)), "turn": CASES["VonMises"].params(rng, (5, 2))}
    mine = lite.nn.CompositeDistribution(
        lite.TensorDict(params, batch_size=[5]), {"move": ours.Gamma, "turn": ours.VonMises}
    )
    theirs = tensordict.nn.CompositeDistribution(
        tensordict.TensorDict({k: tensors(v) for k, v in params.items()}, batch_size=[5]),
        {"move": D.Gamma, "turn": D.VonMises},
    )
    sample = theirs.sample()
    got = mine.log_prob(lite.TensorDict({k: v.numpy() for k, v in sample.items()}, batch_size=[5]))
    expected = theirs.log_prob(sample)
    for key in ("move_log_prob", "turn_log_prob"):
        np.testing.assert_allclose(got[key], expected[key].numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        mine.deterministic_sample["move"], theirs.deterministic_sample["move"].numpy(), rtol=1e-12
    )


# -- limits ------------------------------------------------------------------------------------------------

SIZES = np.array([1e-30, 1e-3, 0.5, 1.0, 2.0, 1e3, 1e6])
ENDS = np.array([0.0, 1e-30, 0.5, 1.0, 2.0, 1e3, 1e30, np.inf, np.nan])
LIMITS = {
    "Beta": (("concentration1", "concentration0"), (SIZES, SIZES)),
    "Binomial": (("total_count", "probs"), ([0.0, 1.0, 5.0], [0.0, 1e-10, 0.5, 1.0])),
    "Cauchy": (("loc", "scale"), ([0.0, 1.0], SIZES)),
    "Chi2": (("df",), (SIZES,)),
    "Exponential": (("rate",), (SIZES,)),
    "Gamma": (("concentration", "rate"), (SIZES, SIZES)),
    "Geometric": (("probs",), ([1e-5, 0.5, 1.0],)),
    "Gumbel": (("loc", "scale"), ([0.0, 1.0], SIZES)),
    "HalfNormal": (("scale",), (SIZES,)),
    "Laplace": (("loc", "scale"), ([0.0, 1.0], SIZES)),
    "LogNormal": (("loc", "scale"), ([0.0, 1.0], SIZES)),
    "NegativeBinomial": (("total_count", "probs"), ([0.0, 1.0, 5.0], [0.0, 1e-10, 0.5, 0.9])),
    "Pareto": (("scale", "alpha"), (SIZES, SIZES)),
    "Poisson": (("rate",), ([0.0, *SIZES],)),
    "StudentT": (("df",), (SIZES,)),
    "VonMises": (("loc", "concentration"), ([0.0, 1.0], SIZES)),
}
# There torch does not give the value: of NaN it is NaN, and uniform numbers end at 0 and 1.
BETTER_HERE = {("HalfNormal", "log_prob"), ("Gumbel", "icdf")}


@each_case("name", LIMITS)
def test_limits(name):
    names, axes = LIMITS[name]
    grid = [axis.ravel() for axis in np.meshgrid(*map(np.asarray, axes), indexing="ij")]
    kwargs = dict(zip(names, grid, strict=True))
    mine = getattr(ours, name)(**kwargs)
    theirs = getattr(D, name)(**tensors(kwargs), validate_args=False)
    for what in (*PROPERTIES, *METHODS):
        value = (np.array([0.0, 1e-10, 0.5, 1.0]) if what == "icdf" else ENDS)[:, None]
        expected = (
            ask(theirs, what, torch.from_numpy(value)) if what != "entropy" or name != "Binomial" else None
        )
        if expected is None or isinstance(expected, type) or (name, what) in BETTER_HERE:
            continue
        got = ask(mine, what, value)
        expected = np.broadcast_to(expected.numpy(), got.shape)
        if what in ("log_prob", "cdf"):  # values outside the support are a difference on purpose
            within = np.broadcast_to(mine.support.check(value) | np.isnan(value), got.shape)
            got, expected = got[within], expected[within]
        limit = 1e-3 if name == "VonMises" else 1e-9
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit, err_msg=what)


# -- divergences -------------------------------------------------------------------------------------------

NAMES = sorted({*TORCH, "Categorical, logits", "OneHotCategorical, torch"} - {"NegativeBinomial, logits"})
PAIRED = {name.split(",")[0]: CASES[name].params for name in reversed(NAMES)}
PAIRED["Uniform"] = lambda r, s: {"low": (low := r.uniform(-0.5, 0.5, s)), "high": low + r.uniform(0.1, 2, s)}
# One class there, a subclass of the other here.
ONLY_HERE = {("Categorical", "OneHotCategorical"), ("OneHotCategorical", "Categorical")}


@pytest.mark.parametrize("first", PAIRED)
def test_divergences(first):
    rng = np.random.default_rng(1)
    found = 0
    for second in PAIRED:
        kwargs = [PAIRED[name](rng, (20,)) for name in (first, second)]
        mine = [getattr(ours, name)(**kw) for name, kw in zip((first, second), kwargs, strict=True)]
        theirs = [getattr(D, name)(**tensors(kw)) for name, kw in zip((first, second), kwargs, strict=True)]
        try:
            expected = D.kl_divergence(*theirs)
        except NotImplementedError:
            if (first, second) not in ONLY_HERE:
                raises(NotImplementedError, "", ours.kl_divergence, *mine)
            continue
        got = ours.kl_divergence(*mine)
        found += 1
        assert (got.shape, got.dtype) == (tuple(expected.shape), expected.numpy().dtype)
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-10, atol=1e-10, err_msg=second)
    without = (
        *("Multinomial", "NegativeBinomial", "RelaxedOneHotCategorical", "StudentT"),
        *("VonMises", "Weibull"),
    )
    assert (found == 0) == (first in without)


def test_every_pair_of_classes_that_lite_has():
    from torch.distributions.kl import _KL_REGISTRY

    from lite.nn.distributions.kl import _rules

    mine = {(p.__name__, q.__name__) for p, q in _rules}
    theirs = {
        (p.__name__, q.__name__)
        for p, q in _KL_REGISTRY
        if hasattr(ours, p.__name__) and hasattr(ours, q.__name__)
    }
    assert theirs - mine == {("OneHotCategorical", "OneHotCategorical")}  # a Categorical here
    assert {pair for pair in mine - theirs if "Delta" not in pair} == {("TanhNormal", "TanhNormal")}


def test_divergences_of_what_is_made_of_others():
    rng = np.random.default_rng(0)
    kwargs = [loc_and_scale(rng, (3, 2)) for _ in range(2)]
    both = []
    for lib, convert in ((ours, dict), (D, tensors)):
        made = []
        for kw in kwargs:
            base = lib.Independent(lib.Normal(**convert(kw)), 1)
            maps = lib if lib is ours else D.transforms
            made.append(
                lib.TransformedDistribution(base, [maps.TanhTransform(), maps.AffineTransform(1.0, 2.0)])
            )
        both.append([lib.kl_divergence(*[dist.base_dist for dist in made]), lib.kl_divergence(*made)])
    for got, expected in zip(*both, strict=True):
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-12)


def test_divergence_of_tanh_normals():
    rng = np.random.default_rng(0)
    kwargs = [loc_and_scale(rng, (3, 2)) for _ in range(2)]
    for options in ({}, {"low": -2.0, "high": 3.0}):
        got = ours.kl_divergence(*[ours.TanhNormal(**kw, **options) for kw in kwargs])
        expected = D.kl_divergence(*[rl.TanhNormal(**tensors(kw), **options) for kw in kwargs])
        np.testing.assert_allclose(got, expected.numpy(), rtol=1e-12)


# -- transforms --------------------------------------------------------------------------------------------

TRANSFORMS = {
    "exp": (lambda t, a: t.ExpTransform(), real),
    "log": (lambda t, a: t.ExpTransform().inv, positive),
    "sigmoid": (lambda t, a: t.SigmoidTransform(), real),
    "softplus": (lambda t, a: t.SoftplusTransform(), real),
    "tanh": (lambda t, a: t.TanhTransform(), real),
    "power": (lambda t, a: t.PowerTransform(a(np.array([2.0, -0.5, 1.0]))), positive),
    "affine": (lambda t, a: t.AffineTransform(1.0, -2.0), real),
    "affine events": (lambda t, a: t.AffineTransform(a(np.ones(3)), a(np.array([1.0, -2, 3])), 1), real),
    "composed": (lambda t, a: t.ComposeTransform([t.TanhTransform(), t.AffineTransform(0.0, 3.0, 1)]), real),
    "independent": (lambda t, a: t.IndependentTransform(t.TanhTransform(), 1), real),
    "reshape": (lambda t, a: t.ReshapeTransform((2, 3), (6,)), real),
    "identity": (lambda t, a: t.identity_transform, real),
}


@each_case("dtype", ["float32", "float64"])
@each_case("name", TRANSFORMS)
def test_transforms(name, dtype):
    make, values = TRANSFORMS[name]
    mine = make(ours, lambda a: a.astype(dtype))
    theirs = make(D.transforms, lambda a: torch.from_numpy(a.astype(dtype)))
    x = values(np.random.default_rng(0), (4, 2, 3)).astype(dtype)
    limit = 1e-4 if dtype == "float32" else 1e-11
    for one, other in ((mine, theirs), (mine.inv, theirs.inv)):
        given = torch.from_numpy(x)
        y, expected = one(x), other(given)
        for got, wanted in (
            (y, expected),
            (one.log_abs_det_jacobian(x, y), other.log_abs_det_jacobian(given, expected)),
        ):
            assert (got.shape, got.dtype) == (tuple(wanted.shape), wanted.numpy().dtype)
            np.testing.assert_allclose(got, wanted.numpy(), rtol=limit, atol=limit)
        assert one.domain.event_dim == other.domain.event_dim
        assert one.codomain.event_dim == other.codomain.event_dim
        assert one.bijective == other.bijective
        assert one.forward_shape(x.shape) == tuple(other.forward_shape(given.shape))
        x = y


@each_case("name", sorted(set(TRANSFORMS) - {"log", "power"}))
def test_transformed_distributions(name):
    kwargs = loc_and_scale(np.random.default_rng(0), (4, 2, 3))
    mine = ours.TransformedDistribution(ours.Normal(**kwargs), TRANSFORMS[name][0](ours, np.asarray))
    theirs = D.TransformedDistribution(
        D.Normal(**tensors(kwargs)), TRANSFORMS[name][0](D.transforms, torch.from_numpy), validate_args=False
    )
    assert (mine.batch_shape, mine.event_shape) == (tuple(theirs.batch_shape), tuple(theirs.event_shape))
    value = theirs.sample((5,))
    np.testing.assert_allclose(mine.log_prob(value.numpy()), theirs.log_prob(value).numpy(), rtol=1e-9)
    if not mine.event_shape:
        np.testing.assert_allclose(mine.cdf(value.numpy()), theirs.cdf(value).numpy(), rtol=1e-7)
        p = inside(np.random.default_rng(1), value.shape)
        np.testing.assert_allclose(mine.icdf(p), theirs.icdf(torch.from_numpy(p)).numpy(), rtol=1e-9)
    large = [dist.expand((7, *dist.batch_shape)).batch_shape for dist in (mine, theirs)]
    assert large[0] == tuple(large[1])


@each_case("family", ["Normal", "Independent", "Poisson"])
@each_case("shared", [False, True])
def test_mixtures(family, shared):
    rng = np.random.default_rng(0)
    events = (4,) if family == "Independent" else ()
    kwargs = {"rate": positive(rng, (3, 2))} if family == "Poisson" else loc_and_scale(rng, (3, 2, *events))
    weights = {"logits": logits(rng, (2,) if shared else (3, 2))}

    def make(lib, convert):
        part = getattr(lib, "Poisson" if family == "Poisson" else "Normal")(**convert(kwargs))
        part = lib.Independent(part, 1) if events else part
        return lib.MixtureSameFamily(lib.Categorical(**convert(weights)), part)

    mine, theirs = make(ours, dict), make(D, tensors)
    assert (mine.batch_shape, mine.event_shape) == (tuple(theirs.batch_shape), tuple(theirs.event_shape))
    value = torch.from_numpy(mine.sample((5,), rng=0))  # there with shared weights there are no draws
    if not shared:
        assert value.shape == theirs.sample((5,)).shape
    np.testing.assert_allclose(mine.log_prob(value.numpy()), theirs.log_prob(value).numpy(), rtol=1e-10)
    for what in ("mean", "variance", "stddev"):
        np.testing.assert_allclose(getattr(mine, what), getattr(theirs, what).numpy(), rtol=1e-10)
    if family == "Normal":
        np.testing.assert_allclose(mine.cdf(value.numpy()), theirs.cdf(value).numpy(), rtol=1e-10)


# -- TorchRL's own ------------------------------------------------------------------------------------------


def close(got, expected, single):
    """Equal in shape, dtype and value; `single` is the tolerance in float32, 0 in float64."""
    got, expected = np.asarray(got), expected.numpy()
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=single or 1e-9, atol=single / 5 or 1e-9)


@each_case("low", [-1.0, -2.0])
@each_case("dtype", ["float32", "float64"])
def test_tanh_normal_at_the_bounds(low, dtype):
    loc, scale = np.zeros((3, 1), dtype), np.ones((3, 1), dtype)
    value = np.array([[low], [1.0], [low / 2]], dtype)
    mine = ours.TanhNormal(loc, scale, low=low, high=1.0).log_prob(value)
    theirs = rl.TanhNormal(torch.from_numpy(loc), torch.from_numpy(scale), low=low, high=1.0)
    np.testing.assert_allclose(mine, theirs.log_prob(torch.from_numpy(value)).numpy(), rtol=5e-3)


def test_mode_of_tanh_normal():
    """Nothing that torchrl finds is more probable, and where it arrives both are the same."""
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(100, 1)) / 2, rng.uniform(0.1, 2.0, (100, 1))
    mine = ours.TanhNormal(loc, scale, low=-2.0, high=4.0)
    torch.manual_seed(0)
    theirs = rl.TanhNormal(torch.from_numpy(loc), torch.from_numpy(scale), low=-2.0, high=4.0).get_mode()
    difference = mine.log_prob(mine.get_mode()) - mine.log_prob(theirs.numpy())
    assert difference.min() >= 0
    arrived = difference < 1e-3
    assert arrived.sum() > 20
    np.testing.assert_allclose(mine.get_mode()[arrived], theirs.numpy()[arrived], atol=0.05)


def test_truncated_normal_beyond_the_bounds():
    loc, scale = np.zeros((4, 2)), np.ones((4, 2))
    value = np.array([[0.0, 0.0], [1.0, -1.0], [1.5, 0.0], [0.0, -1.01]])
    mine = ours.TruncatedNormal(loc, scale).log_prob(value)
    theirs = rl.TruncatedNormal(torch.from_numpy(loc), torch.from_numpy(scale))
    np.testing.assert_allclose(mine, theirs.log_prob(torch.from_numpy(value)).numpy(), rtol=1e-9)
    np.testing.assert_array_equal(np.isfinite(mine), [True, True, False, False])


@st.composite
def masked(draw):
    rows, classes = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.sampled_from([(classes,), (rows, classes)]))
    name = draw(st.sampled_from(["logits", "probs"]))
    params = rng.uniform(-5, 5, shape) if name == "logits" else rng.uniform(0.01, 1, shape)
    out = {name: params.astype(draw(st.sampled_from([np.float32, np.float64])))}
    order = np.argsort(rng.random(shape), -1)
    if draw(st.booleans()):
        out["indices"] = np.sort(order[..., : draw(st.integers(1, classes))], -1)
    else:
        out["mask"] = order < draw(st.integers(1, classes))
    return out


@pytest.mark.parametrize("name", ["MaskedCategorical", "MaskedOneHotCategorical"])
@settings(max_examples=25)
@given(arguments=masked())
def test_masked_categorical(name, arguments):
    single = 1e-4 * (arguments.get("logits", arguments.get("probs")).dtype == np.float32)
    mine, theirs = getattr(ours, name)(**arguments), getattr(rl, name)(**tensors(arguments))
    one_hot = "OneHot" in name
    if not one_hot:
        close(mine.probs, theirs.probs, single)
    close(mine.entropy(), theirs.entropy(), single)
    close(mine.mode, theirs.mode, single)
    assert mine.batch_shape == tuple(theirs.batch_shape)
    size = (mine.num_samples,) if one_hot else ()
    for c in range(mine.num_samples):
        value = np.full((*mine.batch_shape, *size), np.eye(*size, dtype=np.int64)[c] if one_hot else c)
        close(
            mine.log_prob(value), theirs.log_prob(torch.from_numpy(value)).reshape(mine.batch_shape), single
        )
    draws = mine.sample((50,), rng=0)
    assert draws.shape == (50, *mine.batch_shape, *size)
    assert np.isfinite(mine.log_prob(draws)).all()


def test_rand_one_hot():
    """Both draw a class in proportion to the softmax."""
    logits = np.log(np.array([0.1, 0.2, 0.7], np.float32))
    n = 20_000
    mine = ours.rand_one_hot(np.broadcast_to(logits, (n, 3)), rng=0)
    torch.manual_seed(0)
    theirs = td_nn.rand_one_hot(torch.from_numpy(logits).expand(n, 3)).numpy()
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(mine.mean(0), theirs.mean(0), atol=0.02)  # over four standard deviations


# -- errors ------------------------------------------------------------------------------------------------


@each_case(
    "make",
    [
        lambda lib, a: lib.Normal(0.0, -1.0, validate_args=True),
        lambda lib, a: lib.Uniform(1.0, 1.0, validate_args=True),
        lambda lib, a: lib.Bernoulli(),
        lambda lib, a: lib.Bernoulli(probs=a(2.0), validate_args=True),
        lambda lib, a: lib.Independent(lib.Normal(0.0, 1.0), 1),
        lambda lib, a: lib.Beta(a(0.0), a(1.0), validate_args=True),
        lambda lib, a: lib.Binomial(3, validate_args=True),
        lambda lib, a: lib.Binomial(3, probs=a(0.5), logits=a(0.0)),
        lambda lib, a: lib.Binomial(a(-1.0), probs=a(0.5), validate_args=True),
        lambda lib, a: lib.Binomial(a(1.5), probs=a(0.5), validate_args=True),
        lambda lib, a: lib.Binomial(a(1.0), probs=a(1.5), validate_args=True),
        lambda lib, a: lib.Binomial(a([1.0, 2.0]), probs=a(0.5)).entropy(),
        lambda lib, a: lib.Binomial(a([1.0, 2.0]), probs=a(0.5)).enumerate_support(),
        lambda lib, a: lib.Cauchy(a(0.0), a(-1.0), validate_args=True),
        lambda lib, a: lib.Chi2(a(0.0), validate_args=True),
        lambda lib, a: lib.Dirichlet(a(1.0)),
        lambda lib, a: lib.Dirichlet(a([1.0, 0.0]), validate_args=True),
        lambda lib, a: lib.Exponential(a(0.0), validate_args=True),
        lambda lib, a: lib.Exponential(a(float("nan")), validate_args=True),
        lambda lib, a: lib.Gamma(a(1.0), a(0.0), validate_args=True),
        lambda lib, a: lib.Geometric(),
        lambda lib, a: lib.Geometric(probs=a(0.0), validate_args=True),
        lambda lib, a: lib.Gumbel(a(0.0), a(0.0), validate_args=True),
        lambda lib, a: lib.HalfNormal(a(0.0), validate_args=True),
        lambda lib, a: lib.Laplace(a(0.0), a(0.0), validate_args=True),
        lambda lib, a: lib.LogNormal(a(0.0), a(0.0), validate_args=True),
        lambda lib, a: lib.Multinomial(a([1, 2]), probs=a([0.5, 0.5])),
        lambda lib, a: lib.Multinomial(2),
        lambda lib, a: lib.MultivariateNormal(a(0.0), a([[1.0]])),
        lambda lib, a: lib.MultivariateNormal(a([0.0])),
        lambda lib, a: lib.MultivariateNormal(a([0.0]), a([1.0])),
        lambda lib, a: lib.MultivariateNormal(a([0.0]), a([[-1.0]]), validate_args=True),
        lambda lib, a: lib.MultivariateNormal(a([0.0]), scale_tril=a([[-1.0]]), validate_args=True),
        lambda lib, a: lib.NegativeBinomial(a(1.0)),
        lambda lib, a: lib.NegativeBinomial(a(1.0), probs=a(1.0), validate_args=True),
        lambda lib, a: lib.NegativeBinomial(a(-1.0), probs=a(0.5), validate_args=True),
        lambda lib, a: lib.Pareto(a(0.0), a(1.0), validate_args=True),
        lambda lib, a: lib.Poisson(a(-1.0), validate_args=True),
        lambda lib, a: lib.Poisson(a(1.0)).entropy(),
        lambda lib, a: lib.StudentT(a(0.0), validate_args=True),
        lambda lib, a: lib.VonMises(a(0.0), a(0.0), validate_args=True),
        lambda lib, a: lib.VonMises(a(0.0), a(1.0)).entropy(),
        lambda lib, a: lib.Weibull(a(0.0), a(1.0), validate_args=True),
        lambda lib, a: lib.TransformedDistribution(lib.Normal(a(0.0), a(1.0)), [abs]),
        lambda lib, a: lib.TransformedDistribution(lib.Normal(a(0.0), a(1.0)), []).mean,
        lambda lib, a: lib.MixtureSameFamily(lib.Normal(a([0.0]), a([1.0])), lib.Normal(a([0.0]), a([1.0]))),
        lambda lib, a: lib.MixtureSameFamily(lib.Categorical(a([1.0, 1.0])), lib.Normal(a([0.0]), a([1.0]))),
        lambda lib, a: lib.kl_divergence(lib.Normal(a(0.0), a(1.0)), lib.StudentT(a(1.0))),
        lambda lib, a: lib.kl_divergence(lib.Binomial(2, a(0.5)), lib.Binomial(3, a(0.5))),
        lambda lib, a: lib.kl_divergence(
            lib.Independent(lib.Normal(a([0.0]), a([1.0])), 1),
            lib.Independent(lib.Normal(a([0.0]), a([1.0])), 0),
        ),
        lambda lib, a: (lib if lib is ours else D.transforms).TanhTransform(cache_size=2),
        lambda lib, a: (lib if lib is ours else D.transforms).ReshapeTransform((2,), (3,)),
    ],
)
def test_errors(make):
    with pytest.raises((ValueError, NotImplementedError, TypeError)) as theirs:
        make(D, torch.tensor)
    raises(theirs.type, "", make, ours, np.asarray)


@each_case(
    ("make", "error"),
    [
        (lambda lib, a: lib.TanhNormal(a([0.0]), a([1.0]), low=1.0, high=0.0), RuntimeError),
        (lambda lib, a: lib.TanhDelta(a([0.0]), low=1.0, high=1.0), ValueError),
        (lambda lib, a: lib.TruncatedNormal(a([0.0]), a([1.0]), low=1.0, high=0.0), RuntimeError),
        (lambda lib, a: lib.MaskedCategorical(logits=a([0.0, 0.0])), ValueError),
        (lambda lib, a: lib.TanhNormal(a([0.0]), a([1.0])).mean, NotImplementedError),
        (lambda lib, a: lib.TanhNormal(a([0.0]), a([1.0])).mode, RuntimeError),
        (lambda lib, a: lib.TanhNormal(a([0.0]), a([1.0])).entropy(), NotImplementedError),
    ],
)
def test_errors_of_torchrl(make, error):
    for lib, array in ((ours, np.array), (rl, torch.tensor)):
        raises(error, "", make, lib, array)
