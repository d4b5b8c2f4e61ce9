"""ProbabilisticTensorDictSequential where it goes beyond tensordict, and its errors.

What is equal to tensordict is compared with it in tests/parity/test_probabilistic_sequential.py.
"""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.nn import CompositeDistribution, set_composite_lp_aggregate
from lite.nn import ProbabilisticTensorDictModule as Prob
from lite.nn import ProbabilisticTensorDictSequential as ProbSeq
from lite.nn import TensorDictModule as Mod
from lite.nn import TensorDictSequential as Seq
from lite.nn.distributions import Normal


def head() -> Mod:
    return Mod(lambda x: (x, np.ones_like(x)), ["obs"], ["loc", "scale"])


def prob(out: str = "x", **options: Any) -> Prob:
    return Prob(["loc", "scale"], [out], distribution_class=Normal, **options)


def data(**more: Any) -> TensorDict:
    return TensorDict({"obs": np.arange(3.0), **more}, batch_size=[3])


def test_a_sequence_that_ends_in_a_sequence() -> None:
    inner = ProbSeq(head(), prob(return_log_prob=True))
    outer = ProbSeq(Mod(lambda x: x + 1, ["in"], ["obs"]), inner)
    assert outer.return_composite is False
    td = TensorDict({"in": np.arange(3.0)}, batch_size=[3])
    np.testing.assert_array_equal(outer(td)["x"], [1, 2, 3])
    np.testing.assert_array_equal(outer.get_dist(td).loc, [1, 2, 3])
    np.testing.assert_allclose(outer.log_prob(td), td["x_log_prob"])
    assert outer.log_prob_keys == ["x_log_prob"]
    assert outer.log_prob_key == "x_log_prob"
    np.testing.assert_array_equal(outer.build_dist_from_params(td).loc, [1, 2, 3])
    out = TensorDict(batch_size=[3])
    single = ProbSeq(head(), prob())
    assert single.get_dist_params(data(), out) is out
    np.testing.assert_array_equal(out["loc"], data()["obs"])
    assert "x" not in out


def test_names_are_kept_by_slices_and_selections() -> None:
    seq = ProbSeq({"head": head(), "prob": prob(), "more": Mod(lambda x: x, ["x"], ["y"])})
    assert seq.return_composite is True
    part = seq[:2]
    assert type(part) is ProbSeq
    assert part["prob"] is seq["prob"]
    assert type(seq[:1]) is Seq
    assert seq[:1]["head"] is seq["head"]
    assert type(seq[2:]) is Seq
    chosen = seq.select_subsequence(out_keys=["x"])
    assert type(chosen) is ProbSeq
    assert [name for name, _ in chosen._named()] == ["head", "prob"]
    assert list(seq.det_part._modules["module"]._modules) == ["head", "prob"]


def test_a_changed_list_is_noticed() -> None:
    seq = ProbSeq(head(), prob())
    seq[1] = prob("z")
    assert seq.out_keys == ["loc", "scale", "z"]
    assert "z" in seq(data())
    seq.insert(1, Mod(lambda x: x * 0 + 9, ["loc"], ["z"]))
    out = seq(data())
    np.testing.assert_array_equal(out["z"], [9, 9, 9])  # there already: not taken again
    assert len(seq.det_part) == 2


def test_the_sample_that_is_there_is_scored_under_its_key() -> None:
    seq = ProbSeq(
        Mod(lambda x: (x, np.ones_like(x), x + 5), ["obs"], ["loc", "scale", "x"]),
        prob(return_log_prob=True, log_prob_key=("s", "lp")),
    )
    out = seq(data())
    np.testing.assert_allclose(out["s", "lp"], [-13.418939] * 3, rtol=1e-6)
    np.testing.assert_array_equal(out["x"], [5, 6, 7])


def test_composite_distributions_are_given_the_samples_before() -> None:
    seq = ProbSeq(
        head(),
        prob("u"),
        Mod(lambda u: (10 * u, np.ones_like(u)), ["u"], ["loc", "scale"]),
        prob("v", default_interaction_type="random", generator=0),
    )
    td = data()
    dist = seq.get_dist(td)
    assert isinstance(dist, CompositeDistribution)
    assert list(dist) == ["u", "v"]
    np.testing.assert_array_equal(dist["v"].loc, [0, 10, 20])
    assert sorted(td.keys()) == ["obs"]
    sample = dist.sample(rng=0)
    scores = dist.log_prob(sample)
    assert sorted(scores.keys()) == ["u_log_prob", "v_log_prob"]
    out = seq.log_prob(td.update(sample), tensordict_out=TensorDict(batch_size=[3]))
    assert sorted(out.keys()) == ["u_log_prob", "v_log_prob"]
    with set_composite_lp_aggregate(True):
        np.testing.assert_allclose(dist.log_prob(sample), scores["u_log_prob"] + scores["v_log_prob"])
    with pytest.raises(RuntimeError, match="log_prob_key is only there for a single log-prob"):
        _ = seq.log_prob_key


def test_samples_of_samples() -> None:
    seq = ProbSeq(
        head(),
        prob("u", num_samples=2, default_interaction_type="random"),
        Mod(lambda u: (u, np.ones_like(u)), ["u"], ["loc", "scale"]),
        prob("v", num_samples=(4, 5)),
    )
    assert seq.num_samples == (4, 5, 2)
    assert seq(data())["v"].shape == (4, 5, 2, 3)
    assert (type(seq[:2]), type(seq[:1]), type(seq[2:])) == (ProbSeq, Seq, ProbSeq)
    assert seq[:2].default_interaction_type.name == "RANDOM"


def test_errors() -> None:
    raises(ValueError, "must have at least one module", lambda: ProbSeq([]))
    with pytest.raises(TypeError, match="unless return_composite is True; got TensorDictModule"):
        ProbSeq(prob(), head(), return_composite=False)
    plain = ProbSeq(head())
    raises(RuntimeError, "No distribution module found", lambda: plain.get_dist(data()))
    with pytest.raises(RuntimeError, match="Could not find any ProbabilisticTensorDictModule"):
        plain.build_dist_from_params(data())
    with pytest.raises(RuntimeError, match=r"keyword arguments other than .* Got \['foo'\]"):
        ProbSeq(head(), prob())(data(), foo=1)


def test_failing_modules_are_named() -> None:
    def fail(x: Any) -> Any:
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError) as plain:
        ProbSeq(Mod(fail, ["obs"], ["loc"]), prob())(data())
    assert "Failed while executing module '0'." in plain.value.__notes__
    with pytest.raises(RuntimeError, match=r"executing module '1'\. ZeroDivisionError: no") as err:
        ProbSeq(head(), Mod(fail, ["loc"], ["q"]), prob(), return_composite=True)(data())
    assert isinstance(err.value.__cause__, ZeroDivisionError)
    with pytest.raises(KeyError, match="Normal needs entries") as last:
        ProbSeq(Mod(lambda x: x, ["obs"], ["loc"]), prob())(data())
    assert "Failed while executing module '1'." in last.value.__notes__


def test_repr() -> None:
    text = repr(ProbSeq(head(), prob()))
    assert text.startswith("ProbabilisticTensorDictSequential(\n    module=ModuleList(")
    assert "in_keys=['obs']" in text
    assert text.count("ProbabilisticTensorDictModule(") == 1


def test_bases_that_take_no_selected_out_keys() -> None:
    """Selected keys are handed on only if there are any."""

    class Base(Seq):
        def __init__(self, *modules: Any, partial_tolerant: bool = False, inplace: Any = None) -> None:
            super().__init__(*modules, partial_tolerant=partial_tolerant, inplace=inplace)

    class Both(ProbSeq, Base):
        pass

    params = head()
    sample = prob("y")
    np.testing.assert_array_equal(Both(params, sample)(data())["y"], [0, 1, 2])
    assert Both(params).out_keys == ["loc", "scale"]
    raises(TypeError, "selected_out_keys", lambda: Both(params, sample, selected_out_keys=["y"]))


def test_parts_that_end_in_a_distribution_are_probabilistic() -> None:
    module = Mod(lambda x: (x, np.ones_like(x)), ["x"], ["loc", "scale"])
    draw = Prob(["loc", "scale"], ["y"], distribution_class=Normal)
    chain = ProbSeq(module, draw)
    assert type(chain[:]) is ProbSeq
    assert type(chain[:1]) is Seq
    assert chain.default_interaction_type is draw.default_interaction_type
