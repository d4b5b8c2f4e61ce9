"""ProbabilisticTensorDictModule, interaction types, generators, and where lite differs on purpose.

What is equal to tensordict is compared with it in tests/parity/test_probabilistic.py.
"""

import copy
import itertools
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import NonTensorData, TensorDict
from lite.nn import (
    CompositeDistribution,
    InteractionType,
    ProbabilisticTensorDictModule,
    interaction_type,
    set_composite_lp_aggregate,
    set_interaction_type,
    set_skip_existing,
)
from lite.nn.distributions import Distribution, IndependentNormal, Normal, TanhNormal
from lite.nn.tensordict_modules.probabilistic import distribution_of


def normal(**options: Any) -> ProbabilisticTensorDictModule:
    options = {"distribution_class": Normal, "default_interaction_type": "random", **options}
    return ProbabilisticTensorDictModule(["loc", "scale"], ["x"], **options)


def params(*shape: int, **more: Any) -> TensorDict:
    return TensorDict({"loc": np.zeros((3, *shape)), "scale": np.ones((3, *shape)), **more})


# -- settings ----------------------------------------------------------------------------------------


def test_interaction_type_is_per_thread_and_per_process() -> None:
    seen: list[Any] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: seen.append(interaction_type()))
        thread.start()
        thread.join()

    with set_interaction_type("mode"):
        look()
    setting = set_interaction_type("mean")
    setting.set()
    look()
    with set_interaction_type("random"):
        assert interaction_type() is InteractionType.RANDOM
    assert interaction_type() is InteractionType.MEAN
    setting.unset()
    look()
    assert seen == [None, InteractionType.MEAN, None]


@pytest.mark.processes
def test_aggregate_from_the_environment() -> None:
    import subprocess
    import sys

    code = "from lite.nn import composite_lp_aggregate; print(composite_lp_aggregate())"
    for value, expected in (("1", "True"), ("0", "False")):
        env = {**__import__("os").environ, "COMPOSITE_LP_AGGREGATE": value}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        )
        assert done.stdout.strip() == expected


# -- generators --------------------------------------------------------------------------------------


def test_a_seed_makes_a_generator_that_goes_on() -> None:
    first, second = normal(generator=0), normal(generator=np.random.default_rng(0))
    draws = [module(params(4))["x"] for module in (first, second) for _ in range(2)]
    np.testing.assert_array_equal(draws[0], draws[2])
    np.testing.assert_array_equal(draws[1], draws[3])
    assert not np.array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], Normal(np.zeros((3, 4)), 1.0).sample(rng=0))


def test_a_generator_is_advanced_in_place() -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    module = normal(generator=rng)
    for kind in ("mode", "mean", "deterministic"):
        with set_interaction_type(kind):
            module(params())
        assert rng.bit_generator.state == before
    module(params())
    assert rng.bit_generator.state != before


def test_estimated_means_are_drawn_with_the_generator() -> None:
    module = normal(distribution_class=TanhNormal, generator=0, default_interaction_type="mean")
    drawn = TanhNormal(np.zeros((3, 2)), 1.0).sample((1000,), rng=0)
    np.testing.assert_array_equal(module(params(2))["x"], drawn.mean(0))
    few = normal(
        distribution_class=TanhNormal, generator=0, default_interaction_type="mean", n_empirical_estimate=2
    )
    np.testing.assert_array_equal(
        few(params(2))["x"], TanhNormal(np.zeros((3, 2)), 1.0).sample((2,), rng=0).mean(0)
    )


@each_case(
    ("key", "seed"),
    itertools.product(["seed", ("rng", "seed")], [np.array(5), np.array([5], np.int32), NonTensorData(5)]),
)
def test_a_seed_in_an_entry_is_replaced(key: Any, seed: Any) -> None:
    module = normal(generator=key)
    td = params()
    td.set(key, seed)
    first = module(td)["x"]
    np.testing.assert_array_equal(first, Normal(np.zeros(3), 1.0).sample(rng=5))
    following = td.get(key)
    assert type(following) is type(seed)
    if isinstance(seed, np.ndarray):
        assert (following.shape, following.dtype) == (seed.shape, np.int64)
    second = module(td)["x"]
    assert not np.array_equal(first, second)
    again = params()
    again.set(key, seed)
    np.testing.assert_array_equal(module(again)["x"], first)
    np.testing.assert_array_equal(module(again)["x"], second)


def test_a_seed_in_an_entry_is_kept_where_nothing_is_drawn() -> None:
    td = params(seed=np.array(5))
    normal(generator="seed", default_interaction_type="mode")(td)
    assert td["seed"] == 5


def test_a_generator_in_an_entry() -> None:
    td = params()
    td["rng"] = np.random.default_rng(5)
    module = normal(generator="rng")
    first, second = module(td)["x"], module(td)["x"]
    np.testing.assert_array_equal(first, Normal(np.zeros(3), 1.0).sample(rng=5))
    assert not np.array_equal(first, second)
    assert isinstance(td["rng"], np.random.Generator)


@each_case("bad", [np.array(1.5), np.array(True), NonTensorData("no")])
def test_what_an_entry_may_not_hold(bad: Any) -> None:
    td = params()
    td.set("seed", bad)
    raises(TypeError, r"the entry 'seed' must hold a Generator or a seed", normal(generator="seed"), td)
    assert "x" not in td
    with pytest.raises(ValueError, match=r"must hold one seed, got shape \(2,\)"):
        normal(generator="seed")(params(seed=np.arange(2)))


def test_wrong_generators() -> None:
    for bad in (1.5, True, [0]):
        with pytest.raises(
            TypeError, match=r"generator must be a numpy.random.Generator, an int, a key or None"
        ):
            normal(generator=bad)


# -- the module --------------------------------------------------------------------------------------


def test_the_sink_is_not_written() -> None:
    module = ProbabilisticTensorDictModule(["loc", "scale"], distribution_class=Normal, return_log_prob=True)
    assert module.out_keys == ["_", "__log_prob"]
    td = module(params())
    assert sorted(td.keys()) == ["__log_prob", "loc", "scale"]
    assert (
        ProbabilisticTensorDictModule(["loc", "scale"], distribution_class=Normal)(loc=0.0, scale=1.0) == ()
    )


def test_selected_outputs() -> None:
    module = normal(return_log_prob=True).select_out_keys("x_log_prob")
    assert module.out_keys == ["x_log_prob"]
    assert sorted(module(params()).keys()) == ["loc", "scale", "x_log_prob"]
    assert module.reset_out_keys().out_keys == ["x", "x_log_prob"]
    module.out_keys = ["y"]
    assert module.out_keys == ["y", "y_log_prob"]
    assert "y" in module(params())


def test_values_that_are_not_drawn_are_repeated() -> None:
    module = normal(num_samples=(2,), default_interaction_type="mean", return_log_prob=True)
    td = TensorDict(loc=np.arange(3.0), scale=np.ones(3), batch_size=[3])
    out = module(td)
    assert out.batch_size == (2, 3)
    np.testing.assert_array_equal(out["x"], [[0, 1, 2]] * 2)
    assert out["x_log_prob"].shape == (2, 3)
    assert sorted(td.keys()) == ["loc", "scale"]


def test_a_failed_write_changes_nothing() -> None:
    td = TensorDict(loc=np.zeros(3), scale=np.ones(3), batch_size=[3])

    class Wrong(Normal):
        def log_prob(self, value: Any) -> Any:
            return np.zeros(2)

    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        normal(distribution_class=Wrong, return_log_prob=True)(td)
    assert sorted(td.keys()) == ["loc", "scale"]


def test_missing_parameters_are_named() -> None:
    with pytest.raises(KeyError, match=r"Normal needs entries that are not in the tensordict: \['scale'\]"):
        normal()(TensorDict(loc=np.zeros(3)))
    module = ProbabilisticTensorDictModule({"loc": "a", "foo": "b"}, ["x"], distribution_class=Normal)
    with pytest.raises(TypeError, match=r"keywords of Normal: .*'foo', with dist_keys=\['loc', 'foo'\]"):
        module(TensorDict(a=0.0, b=1.0))
    with pytest.raises(ValueError, match="scale must be positive") as err:
        normal()(TensorDict(loc=0.0, scale=-1.0))
    assert any("while making Normal" in note for note in err.value.__notes__)
    raises(KeyError, r"the samples \['x'\] are not in the tensordict", lambda: normal().log_prob(params()))
    raises(TypeError, "expected a TensorDict, got dict", lambda: normal().get_dist({"loc": 0}))


def test_wrong_arguments() -> None:
    raises(ValueError, "distribution_class 'nope' is unknown; there are", normal, distribution_class="nope")
    raises(ValueError, "must be a class, a function or a name, got 3", lambda: normal(distribution_class=3))
    raises(ValueError, "log_prob_keys must be one for each of out_keys", normal, log_prob_keys=["a", "b"])
    with pytest.raises(ValueError, match="in_keys must be of type list"):
        ProbabilisticTensorDictModule(3, ["x"])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="gave 1 samples for out_keys"):
        ProbabilisticTensorDictModule(["loc", "scale"], ["x", "y"], distribution_class=Normal)(params())


def test_several_samples_of_one_distribution() -> None:
    class Pair(Distribution):
        def __init__(self, loc: Any) -> None:
            super().__init__(loc.shape)
            self.loc = loc

        @property
        def deterministic_sample(self) -> Any:
            return self.loc, -self.loc

        def log_prob(self, first: Any, second: Any) -> Any:  # type: ignore[override]
            return first * second

    module = ProbabilisticTensorDictModule(["loc"], ["a", "b"], distribution_class=Pair)
    td = module(TensorDict(loc=np.ones(3)))
    np.testing.assert_array_equal(td["b"], [-1, -1, -1])
    np.testing.assert_array_equal(module.log_prob(td), [-1, -1, -1])


def test_own_distributions_need_not_know_generators() -> None:
    class Fixed(Distribution):
        def sample(self, sample_shape: Any = ()) -> Any:  # type: ignore[override]
            return np.ones((*sample_shape, 2))

    module = ProbabilisticTensorDictModule(
        [], ["x"], distribution_class=Fixed, default_interaction_type="random"
    )
    np.testing.assert_array_equal(module(TensorDict())["x"], [1, 1])


def test_cached_distributions_take_new_parameters() -> None:
    module = normal(distribution_class=IndependentNormal, cache_dist=True, default_interaction_type="mode")
    first = module.get_dist(params(2))
    td = TensorDict(loc=np.full((3, 2), 7.0), scale=np.ones((3, 2)))
    assert module.get_dist(td) is first
    np.testing.assert_array_equal(module(td)["x"], td["loc"])
    plain = normal(cache_dist=True)  # Normal has no update
    assert plain.get_dist(td) is not plain.get_dist(td)


def test_skip_existing() -> None:
    td = params(x=np.full(3, 9.0))
    with set_skip_existing():
        assert normal()(td) is td
    np.testing.assert_array_equal(td["x"], [9, 9, 9])


def test_copies_and_pickles() -> None:
    module = ProbabilisticTensorDictModule(
        ["loc", "scale"], ["x"], distribution_class=Normal, default_interaction_type="random", generator=0
    )
    expected = copy.deepcopy(module)(params())["x"]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(module))(params())["x"], expected)
    np.testing.assert_array_equal(module(params())["x"], expected)


def test_repr() -> None:
    assert repr(normal(num_samples=2)) == (
        "ProbabilisticTensorDictModule(\n    in_keys=['loc', 'scale'],\n    out_keys=['x'],\n"
        f"    distribution_class={Normal},\n    distribution_kwargs={{}},\n"
        "    default_interaction_type=random,\n    num_samples=(2,))"
    )


@each_case("sums", [True, False])
def test_log_probs_of_several_samples(sums: bool) -> None:
    with set_composite_lp_aggregate(sums):
        module = ProbabilisticTensorDictModule(
            ["params"], ["a", "b"], distribution_class=CompositeDistribution,
            distribution_kwargs={"distribution_map": {"a": Normal, "b": Normal}}, return_log_prob=True,
            default_interaction_type="random", generator=0,
        )  # fmt: skip
        td = module(TensorDict(params=TensorDict(a=params(3), b=params(3))))
        dist = module.get_dist(td)
        each = {name: dist.dists[name].log_prob(td[name]) for name in "ab"}
        found = module.log_prob(td.exclude("a_log_prob", "b_log_prob"))
        again = module(td.select("params", "a", "b"), _requires_sample=False)
        for name in "ab":
            np.testing.assert_allclose(again[f"{name}_log_prob"], each[name])
        if sums:
            np.testing.assert_allclose(
                [found, again["sample_log_prob"]], [sum(map(np.sum, each.values()))] * 2
            )
        else:
            assert sorted(found.keys()) == ["a_log_prob", "b_log_prob"]
            np.testing.assert_allclose(found["b_log_prob"], each["b"])


def test_by_class_or_name() -> None:
    assert distribution_of(Normal) is Normal
    assert distribution_of("TanhNormal") is distribution_of("tanhnormal") is TanhNormal
    raises(ValueError, "'gauss' is unknown", distribution_of, "gauss")
    with pytest.raises(ValueError, match="a class, a function or a name, got 3"):
        distribution_of(3)  # type: ignore[arg-type]


def test_errors_name_keys_and_keywords() -> None:
    keywords = ProbabilisticTensorDictModule(["loc", "width"], ["x"], distribution_class=Normal)
    with pytest.raises(TypeError, match="in_keys must name the keywords of Normal"):
        keywords(TensorDict(loc=np.zeros(2), width=np.ones(2)))
    module = ProbabilisticTensorDictModule(["loc", "scale"], ["x"], distribution_class=Normal)
    raises(KeyError, r"not in the tensordict: \['scale'\]", module, TensorDict(loc=np.zeros(2)))
    with pytest.raises(ValueError) as error:
        module(TensorDict(loc=np.zeros(2), scale=-np.ones(2)))
    assert error.value.__notes__ == ["while making Normal from the entries ['loc', 'scale']"]
