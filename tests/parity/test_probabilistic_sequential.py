"""Sequences with probabilistic modules against tensordict's."""

import pytest
from helpers.cases import each_case
from parity.probabilistic import LITE, LOC, chain, compared, compared_values, same

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
    # tensordict 0.14 writes into the input, whatever `inplace` is.
    return out is td, inplace in (False, "empty") or td, out


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
