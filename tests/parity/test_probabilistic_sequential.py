"""Sequences with probabilistic modules against tensordict's."""

import numpy as np
import pytest
from helpers.cases import each_case
from parity.probabilistic import LITE, LOC, chain, compared, compared_values, plain, same, same_error

from lite import nn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


# -- sequences -----------------------------------------------------------------------------------------------


@each_case("count", [2, 4])
@each_case("log_prob", [False, True])
@each_case("form", ["modules", "list", "dict"])
@compared_values
def test_sequence(lib, form, log_prob, count):
    modules = chain(lib, return_log_prob=log_prob)[:count]
    if form == "dict":
        seq = lib.nn.ProbabilisticTensorDictSequential({f"m{i}": m for i, m in enumerate(modules)})
    else:
        seq = lib.nn.ProbabilisticTensorDictSequential(*([modules] if form == "list" else modules))
    td = lib.td(obs=LOC, batch_size=[3])
    out = seq(td)
    assert out is td
    keys = (
        list(seq.in_keys), list(seq.out_keys), seq.log_prob_keys, seq.dist_sample_keys,
        seq.dist_params_keys,
    )  # fmt: skip
    scores = seq.log_prob(td.copy())
    return keys, td, scores, type(seq.get_dist(td)).__name__, str(seq.default_interaction_type)


@compared
def test_tensordict_out(lib):
    seq = lib.nn.ProbabilisticTensorDictSequential(*chain(lib)[:2])
    td, out = lib.td(obs=LOC, batch_size=[3]), lib.TD({}, batch_size=[3])
    assert seq(td, out) is out
    return td, out


@each_case("inplace", [True, False, None, "empty"])
@each_case("dispatched", [False, True])
@compared
def test_inplace(lib, inplace, dispatched):
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


def test_the_sample_is_there_already():
    """The last module then only scores it."""

    def case(lib):
        seq = lib.nn.ProbabilisticTensorDictSequential(
            lib.nn.TensorDictModule(lambda a: (a * 0, a * 0 + 1, a * 0 + 5), ["a"], ["loc", "scale", "x"]),
            lib.nn.ProbabilisticTensorDictModule(
                ["loc", "scale"], ["x"], distribution_class=lib.Normal, return_log_prob=True
            ),
        )
        return seq(lib.td(a=np.zeros(1)))

    out = same(case)
    np.testing.assert_allclose(out["x_log_prob"][2], [-13.4189], rtol=1e-5)


@each_case("selected", [["u"], ["loc", "u"]])
@each_case("at_once", [True, False])
@compared
def test_selected_out_keys(lib, selected, at_once):
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


@pytest.mark.parametrize("selected", [None, ["b"]])
@compared
def test_without_probabilistic_modules(lib, selected):
    seq = lib.nn.ProbabilisticTensorDictSequential(
        lib.nn.TensorDictModule(lambda x: x + 1, ["a"], ["b"]),
        lib.nn.TensorDictModule(lambda x: x + 1, ["b"], ["c"]),
        selected_out_keys=selected,
    )
    return list(seq.in_keys), list(seq.out_keys), seq(lib.td(a=LOC))


@compared
def test_sequence_as_a_list(lib):
    modules = chain(lib)
    seq = lib.nn.ProbabilisticTensorDictSequential(*modules)
    assert [seq[i] is m for i, m in enumerate(modules)] == [True] * 4
    assert list(seq.det_part) == modules[:3]
    return len(seq), type(seq.det_part).__name__, list(seq.det_part.in_keys), list(seq.det_part.out_keys)


@each_case("composite", [None, True])
@each_case("index", [slice(1), slice(2), slice(3), slice(1, None), slice(2, 3), slice(-1, None)])
@each_case("count", [2, 4])
def test_index(index, composite, count):
    if not range(count)[index]:
        return check_empty_slice(composite, count, index)

    def case(lib):
        seq = lib.nn.ProbabilisticTensorDictSequential(*chain(lib)[:count], return_composite=composite)
        part = seq[index]
        return type(part).__name__, len(part), getattr(part, "return_composite", None), list(part.out_keys)

    assert not isinstance(same(case), type)
    return None


def check_empty_slice(composite, count, index):
    """An error there; here a sequence without modules, as of a TensorDictSequential."""
    seq = LITE.nn.ProbabilisticTensorDictSequential(*chain(LITE)[:count], return_composite=composite)
    assert type(seq[index]) is nn.TensorDictSequential
    assert len(seq[index]) == 0


@compared_values
def test_intermediate_distributions(lib):
    """A probabilistic module that is not the last."""
    modules = chain(lib, return_log_prob=True)[:3]
    seq = lib.nn.ProbabilisticTensorDictSequential(*modules)
    td = seq(lib.td(obs=LOC, batch_size=[3]))
    dist = seq.get_dist(td)
    return td, list(dist), dist.log_prob(td), seq.log_prob(td)


@pytest.mark.parametrize("composite", [True, False])
def test_errors_inside_sequences(composite):
    def case(lib):
        def fail(x):
            raise ZeroDivisionError("no")

        seq = lib.nn.ProbabilisticTensorDictSequential(
            lib.nn.TensorDictModule(fail, ["a"], ["param"]),
            lib.nn.ProbabilisticTensorDictModule(["param"], ["x"]),
            return_composite=composite,
        )
        return seq(lib.td(a=LOC))

    same_error(case, RuntimeError if composite else ZeroDivisionError)


def test_unknown_keyword():
    def case(lib):
        return lib.nn.ProbabilisticTensorDictSequential(*chain(lib)[:2])(lib.td(obs=LOC), foo=1)

    same_error(case, RuntimeError)


@compared
def test_skip_existing(lib):
    module = lib.nn.ProbabilisticTensorDictModule(["param"], ["x"])
    with lib.nn.set_skip_existing():
        return module(lib.td(param=LOC, x=LOC * 0)), module(lib.td(param=LOC))
